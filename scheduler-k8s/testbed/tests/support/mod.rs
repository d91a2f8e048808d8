//! Runs async cases as tests of their own, and skips them with the reason where there are no servers.

use std::{future::Future, pin::Pin, process::ExitCode};

use libtest_mimic::{Arguments, Completion, Trial};
use scheduler_k8s_testbed::Availability;

pub(crate) type Case = fn() -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// `cases![a, b]` names async functions without arguments.
#[macro_export]
macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        vec![$((stringify!($case), (|| Box::pin($case())) as $crate::support::Case)),*]
    };
}

/// Every case gets a runtime of its own, as it would from `#[tokio::test]`.
pub(crate) fn run(cases: Vec<(&'static str, Case)>) -> ExitCode {
    let trials = cases.into_iter().map(|(name, case)| {
        Trial::ignorable_test(name, move || {
            match Availability::check()? {
                Availability::Servers(_) => {}
                Availability::Missing(reason) => return Ok(Completion::ignored_with(reason)),
                other => {
                    return Ok(Completion::ignored_with(format!(
                        "these tests need servers of their own, not {other:?}"
                    )));
                }
            }
            block_on(case());
            Ok(Completion::Completed)
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}
