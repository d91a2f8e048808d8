//! Repetition of what may be repeated.

mod logs;
mod policy;
mod streams;

use std::sync::Arc;

use async_trait::async_trait;
use futures_core::stream::BoxStream;
use tokio::time::{Instant, timeout_at};

use super::effect::{Effect, effect};
use super::named;
use crate::capability::Capabilities;
use crate::error::{self, Error, ErrorKind, Result};
use crate::op::{Reply, SchedulerOp, Subscription};
use crate::service::{OpService, StreamItem};

pub use policy::RetryPolicy;
use policy::{Pace, Row};

/// Repeats operations that failed, and opens streams again that broke, within a [`RetryPolicy`].
///
/// # What is repeated
///
/// An operation whose error says [`SameRequest`](crate::Retry::SameRequest). After
/// [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) and [`TimeLimit`](ErrorKind::TimeLimit), where the first attempt may have
/// taken effect, only what may be done twice:
///
/// | operation | repeated after an unknown outcome |
/// |---|---|
/// | status, list, ping, history, plan, endpoints | yes: they only read |
/// | launch, delete, scale, expose | under [`IfOwned`](crate::Guard::IfOwned); under another guard no: it would find what the first attempt did, and [`Adopt`](crate::Guard::Adopt) could take over twice |
/// | rollout: pause, resume, promote | likewise |
/// | rollout: restart, abort | no: the first restarts again, the second finds nothing that goes on |
/// | instance: stop | yes: an id is never used again |
/// | instance: restart | no |
/// | run | yes: by its key |
/// | mark_healthy, put_config, unexpose, ensure_namespace, delete_namespace | yes |
///
/// Nothing else is: what asks for a new look ([`AfterReread`](crate::Retry::AfterReread)) asks whoever decided.
///
/// The answer is that of the last attempt. A launch whose first attempt took effect says
/// [`Unchanged`](crate::Change::Unchanged), a run says that it was there, a delete may say
/// [`WasAbsent`](crate::Deleted::WasAbsent). The error is that of the last attempt too, unless that one had no effect and an
/// earlier one may have had: then the earlier one, since the caller must know.
///
/// # Time
///
/// Before each repetition it sleeps, on tokio's clock; see [`RetryPolicy`]. The
/// [`time_limit`](crate::CallOptions::time_limit) of an operation is for all attempts and the sleep between them. It alone
/// ends an attempt that has begun. When no attempt could begin in time, it gives up at once.
///
/// # Streams
///
/// A watch that broke (an error that may pass, or an end that no error explains) is opened again, and what it then tells
/// comes after a [`Resync`](crate::WatchItem::Resync). The error is told only each time the policy is used up, and
/// the watch goes on all the same, after as long a sleep as there is. It ends after an error that [never](crate::Retry::Never) passes.
///
/// Logs are opened again only if they [follow](crate::Logs::follow) or have told nothing yet; otherwise an error is handed
/// on. They go on behind the last line of each container, by its time, so that no line is told twice. Before them comes a
/// [`Gap`](crate::LogItem::Gap) for each container that was heard last, since what was written by containers that have ended
/// meanwhile is lost. Where lines have no times, they go on with what is written from then on.
///
/// Failures of a stream are in a row, as attempts of an operation are, until an opening has stood for as long as
/// [`longest`](RetryPolicy::longest).
///
/// # Cancel safety
/// As that of the operation. There is no task that would go on.
///
/// # Cost
/// That of an operation for each attempt: as many times as [`attempts`](RetryPolicy::attempts) at most. Opening a watch
/// again costs a list.
#[derive(Debug)]
pub struct Retry {
    service: Arc<dyn OpService>,
    pace: Arc<Pace>,
}

impl Retry {
    /// Repeats what this service fails at.
    #[must_use]
    pub fn new(service: Arc<dyn OpService>, policy: RetryPolicy) -> Self {
        Self { service, pace: Arc::new(Pace::new(policy)) }
    }
}

/// Whether the very same operation may follow this error.
fn may_repeat(op: &SchedulerOp, error: &Error) -> bool {
    match error.retry() {
        error::Retry::Never => false,
        error::Retry::SameRequest => true,
        // Other kinds say that the world is not as the operation supposed; whoever decided must decide anew.
        error::Retry::AfterReread => {
            matches!(error.kind(), ErrorKind::OutcomeUnknown | ErrorKind::TimeLimit) && effect(op) != Effect::Once
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl OpService for Retry {
    fn capabilities(&self) -> &Capabilities {
        self.service.capabilities()
    }

    async fn call(&self, op: SchedulerOp) -> Result<Reply> {
        let mut row = Row::new();
        let limit = op.call().time_limit();
        // A limit beyond the end of the clock is none.
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut unknown = None;
        loop {
            let attempt = self.service.call(op.clone());
            let answer = match deadline {
                None => attempt.await,
                Some(deadline) => timeout_at(deadline, attempt).await.unwrap_or_else(|_| Err(self.too_late(&op))),
            };
            let error = match answer {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let wait = if may_repeat(&op, &error) { self.pace.pause(&mut row, &error, deadline) } else { None };
            let Some(wait) = wait else {
                return Err(match unknown {
                    Some(unknown) if error.retry() == error::Retry::SameRequest => unknown,
                    _ => error,
                });
            };
            if error.retry() == error::Retry::AfterReread {
                unknown.get_or_insert(error);
            }
            tokio::time::sleep(wait).await;
        }
    }

    fn open(&self, subscription: Subscription) -> BoxStream<'static, Result<StreamItem>> {
        streams::open(Arc::clone(&self.service), Arc::clone(&self.pace), subscription)
    }
}

impl Retry {
    fn too_late(&self, op: &SchedulerOp) -> Error {
        let error = Error::new(ErrorKind::TimeLimit, "the last attempt had no answer when the time limit passed");
        named(error, op.name(), op.target(), self.capabilities().backend())
    }
}
