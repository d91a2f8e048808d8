use tokio::sync::OnceCell;

use crate::{Options, Testbed, TestbedError};

/// A [`Testbed`] that starts with the first test that asks for it: one control plane for a test binary.
///
/// ```no_run
/// use scheduler_k8s_testbed::{LazyTestbed, User};
///
/// static TESTBED: LazyTestbed = LazyTestbed::new();
///
/// # async fn example() {
/// match TESTBED.get().await {
///     Ok(testbed) => println!("{}", testbed.url()),
///     Err(error) => println!("skipped: {error}"),
/// }
/// # }
/// ```
///
/// A static is never dropped. A test binary with a `main` of its own calls [`LazyTestbed::stop`] at its end; with the
/// default harness the servers end with the process, by the guard.
#[derive(Debug, Default)]
pub struct LazyTestbed(OnceCell<Result<Testbed, TestbedError>>);

impl LazyTestbed {
    /// Not started yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(OnceCell::const_new())
    }

    /// The testbed with the default [`Options`], started if this is the first call. Callers that come meanwhile wait,
    /// whatever runtime they are on. If the first caller is dropped, the next one starts anew.
    ///
    /// # Errors
    /// As [`Testbed::start`]. A failed start is remembered, not repeated.
    pub async fn get(&self) -> Result<&Testbed, &TestbedError> {
        self.0.get_or_init(|| Testbed::start(Options::default())).await.as_ref()
    }

    /// Stops the testbed if it was started.
    pub async fn stop(&self) {
        if let Some(Ok(testbed)) = self.0.get() {
            testbed.stop().await;
        }
    }
}
