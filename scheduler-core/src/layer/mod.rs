//! What stands between a caller and a scheduler: repetition, faults on purpose, spans.
//!
//! A layer is an [`OpService`](crate::OpService) around another one. It handles operations as data, so that it needs no
//! method for each, and none forgets an operation that comes later. [`ToOps`](crate::ToOps) makes the innermost service of
//! a scheduler, [`FromOps`](crate::FromOps) makes a scheduler of the outermost:
//!
//! ```
//! use std::sync::Arc;
//!
//! use scheduler_core::layer::{Retry, RetryPolicy};
//! use scheduler_core::{FromOps, Scheduler, ToOps};
//!
//! fn with_retry(scheduler: Arc<dyn Scheduler>) -> FromOps {
//!     FromOps::new(Arc::new(Retry::new(Arc::new(ToOps::new(scheduler)), RetryPolicy::default())))
//! }
//! ```
//!
//! The order matters. An `Observe` around a [`Retry`] sees one operation, however often it is attempted; inside of it, each
//! attempt. A [`Chaos`] belongs inside of the [`Retry`] that it tests.
//!
//! No layer has a task of its own. What a caller does with a scheduler in several operations
//! ([`SchedulerExt`](crate::SchedulerExt)) passes through layers as those operations.

mod chaos;
mod effect;
#[cfg(feature = "observe")]
mod observe;
mod retry;

use crate::error::Error;
use crate::name::{BackendName, Target};
use crate::op::{OpName, Subscription};

pub use chaos::{Chaos, ChaosOptions, ChaosScript, Mishap};
#[cfg(feature = "observe")]
pub use observe::{Meter, Observe, Outcome};
pub use retry::{Retry, RetryPolicy};

/// What a stream is about, if it is about one workload.
fn about(subscription: &Subscription) -> Option<&Target> {
    match subscription {
        Subscription::Watch(_) => None,
        Subscription::Logs(op) => Some(&op.target),
    }
}

/// Says of an error of a layer's own what was attempted.
fn named(error: Error, op: OpName, target: Option<&Target>, backend: &BackendName) -> Error {
    let error = error.with_op(op).with_backend(backend);
    match target {
        Some(target) => error.with_target(target),
        None => error,
    }
}
