//! One control plane for a test binary, and its tests, each skipped with the reason where there are no servers.

pub(crate) mod fault;

use std::process::ExitCode;
use std::sync::{LazyLock, OnceLock};

use libtest_mimic::{Arguments, Completion, Trial};
use scheduler_k8s_testbed::{Availability, LazyTestbed};
use tokio::runtime::Runtime;

/// Starts with the first test that really runs.
pub(crate) static TESTBED: LazyTestbed = LazyTestbed::new();

/// The runtime that owns every client.
pub(crate) static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
});

/// Why no test can run, if none can. A missing server that is required is a failure instead.
pub(crate) fn unavailable() -> Option<Result<String, String>> {
    static FOUND: OnceLock<Option<Result<String, String>>> = OnceLock::new();
    FOUND
        .get_or_init(|| match Availability::check() {
            Ok(Availability::Servers(_)) => None,
            Ok(Availability::Missing(reason)) => Some(Ok(reason)),
            Ok(_) => Some(Ok("these tests need the simulated kubelet of a control plane of their own".to_owned())),
            Err(error) => Some(Err(error.to_string())),
        })
        .clone()
}

/// The same test, unless no test can run.
pub(crate) fn gated(
    name: &str,
    test: impl FnOnce() -> Result<Completion, libtest_mimic::Failed> + Send + 'static,
) -> Trial {
    Trial::ignorable_test(name, || match unavailable() {
        None => test(),
        Some(Ok(reason)) => Ok(Completion::ignored_with(reason)),
        Some(Err(error)) => Err(error.into()),
    })
}

/// Runs the tests, then ends the servers: a static is never dropped.
pub(crate) fn run(arguments: &Arguments, trials: Vec<Trial>) -> ExitCode {
    let conclusion = libtest_mimic::run(arguments, trials);
    RUNTIME.block_on(TESTBED.stop());
    conclusion.exit_code()
}
