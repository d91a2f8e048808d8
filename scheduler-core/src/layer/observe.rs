//! Spans and measures.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use futures_core::Stream;
use futures_core::stream::BoxStream;
use tokio::time::Instant;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use super::about;
use crate::capability::Capabilities;
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::name::Target;
use crate::op::{OpName, Reply, SchedulerOp, Subscription};
use crate::service::{OpService, StreamItem};

/// Makes a [`tracing`] span of each operation and each stream, and tells a [`Meter`] how each ended.
///
/// The span is named `scheduler`, on the level INFO, with these fields:
///
/// | field | what |
/// |---|---|
/// | `op` | the [`OpName`] |
/// | `backend` | the [`BackendName`](crate::BackendName) |
/// | `workload` | namespace and name, of an operation on one workload |
/// | `request_id` | that of the [`CallOptions`](crate::CallOptions), if it has one |
/// | `outcome` | an [`Outcome`] as text, set at the end |
/// | `retry` | the [`Retry`] of an error, set at the end |
///
/// In it is one event at the end, with `took_ms`: DEBUG if all went well, WARN with the error if not. An error within a
/// stream is a WARN of its own. An operation itself is never written down, nor is an answer: they may hold what is secret.
///
/// # Cost
/// No request.
#[derive(Debug)]
pub struct Observe {
    service: Arc<dyn OpService>,
    meter: Option<Arc<dyn Meter>>,
}

/// Takes measures, for a system of metrics.
///
/// What it gets has few values, so that each can be a label.
pub trait Meter: Debug + Send + Sync + 'static {
    /// An operation, or a stream, has ended.
    ///
    /// It is called once for each, where it was polled last or dropped; it must not block.
    fn finished(&self, op: OpName, outcome: Outcome, took: Duration);
}

/// How an operation or a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// It was answered; the stream ended by itself.
    Done,
    /// Whoever asked did not wait for the end.
    Dropped,
    /// With an error of this kind.
    Failed(&'static str),
}

impl Outcome {
    /// As text: `done`, `dropped`, or the [kind](ErrorKind) of the error in `snake_case`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Dropped => "dropped",
            Self::Failed(kind) => kind,
        }
    }

    fn of(error: &Error) -> Self {
        Self::Failed(match error.kind() {
            ErrorKind::AlreadyExists { .. } => "already_exists",
            ErrorKind::BadAnswer => "bad_answer",
            ErrorKind::Conflict(_) => "conflict",
            ErrorKind::Forbidden => "forbidden",
            ErrorKind::Internal => "internal",
            ErrorKind::InvalidArgument => "invalid_argument",
            ErrorKind::MustReplace => "must_replace",
            ErrorKind::NotFound(_) => "not_found",
            ErrorKind::OutcomeUnknown => "outcome_unknown",
            ErrorKind::Precondition => "precondition",
            ErrorKind::QuotaExceeded => "quota_exceeded",
            ErrorKind::RateLimited => "rate_limited",
            ErrorKind::TimeLimit => "time_limit",
            ErrorKind::Unauthenticated => "unauthenticated",
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::Unsupported(_) => "unsupported",
        })
    }
}

impl Observe {
    /// Makes spans.
    #[must_use]
    pub fn new(service: Arc<dyn OpService>) -> Self {
        Self { service, meter: None }
    }

    /// Also tells this meter.
    #[must_use]
    pub fn with_meter(mut self, meter: Arc<dyn Meter>) -> Self {
        self.meter = Some(meter);
        self
    }

    fn watcher(&self, op: OpName, target: Option<&Target>, request_id: Option<&str>) -> Watcher {
        let span = tracing::info_span!(
            "scheduler",
            op = op.as_str(),
            backend = self.capabilities().backend().as_str(),
            workload = target.map(tracing::field::display),
            request_id,
            outcome = Empty,
            retry = Empty,
        );
        Watcher { op, span, meter: self.meter.clone(), began: Instant::now(), over: false }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl OpService for Observe {
    fn capabilities(&self) -> &Capabilities {
        self.service.capabilities()
    }

    async fn call(&self, op: SchedulerOp) -> Result<Reply> {
        let mut watcher = self.watcher(op.name(), op.target(), op.call().request_id.as_deref());
        let answer = self.service.call(op).instrument(watcher.span.clone()).await;
        watcher.end(answer.as_ref().err());
        answer
    }

    fn open(&self, subscription: Subscription) -> BoxStream<'static, Result<StreamItem>> {
        let watcher = self.watcher(subscription.name(), about(&subscription), None);
        Box::pin(Observed { items: self.service.open(subscription), watcher })
    }
}

/// Sees to it that an end is told, and told once.
#[derive(Debug)]
struct Watcher {
    op: OpName,
    span: Span,
    meter: Option<Arc<dyn Meter>>,
    began: Instant,
    over: bool,
}

impl Watcher {
    fn end(&mut self, error: Option<&Error>) {
        self.finish(error.map_or(Outcome::Done, Outcome::of), error);
    }

    fn finish(&mut self, outcome: Outcome, error: Option<&Error>) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        let took = self.began.elapsed();
        self.span.record("outcome", outcome.as_str());
        self.span.in_scope(|| {
            let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            match error {
                None => tracing::debug!(took_ms, "{}", outcome.as_str()),
                Some(error) => {
                    self.span.record("retry", retry(error));
                    tracing::warn!(took_ms, %error, "{}", outcome.as_str());
                }
            }
        });
        if let Some(meter) = &self.meter {
            meter.finished(self.op, outcome, took);
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.finish(Outcome::Dropped, None);
    }
}

fn retry(error: &Error) -> &'static str {
    match error.retry() {
        Retry::Never => "never",
        Retry::SameRequest => "same_request",
        Retry::AfterReread => "after_reread",
    }
}

/// A stream, polled within its span.
struct Observed {
    items: BoxStream<'static, Result<StreamItem>>,
    watcher: Watcher,
}

impl Stream for Observed {
    type Item = Result<StreamItem>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let item = this.watcher.span.in_scope(|| this.items.as_mut().poll_next(context));
        match &item {
            Poll::Ready(None) => this.watcher.end(None),
            // The end of the stream: the contract of both streams.
            Poll::Ready(Some(Err(error))) if error.retry() == Retry::Never => this.watcher.end(Some(error)),
            Poll::Ready(Some(Err(error))) => {
                this.watcher.span.in_scope(|| tracing::warn!(retry = retry(error), %error, "the stream broke"));
            }
            Poll::Ready(Some(Ok(_))) | Poll::Pending => {}
        }
        item
    }
}

#[cfg(test)]
mod tests {
    use super::Outcome;
    use crate::{Conflict, Error, ErrorKind, Missing};

    #[test]
    fn an_error_is_named_as_it_is_written_down() {
        let kinds = [
            ErrorKind::AlreadyExists { owner: None },
            ErrorKind::BadAnswer,
            ErrorKind::Conflict(Conflict::Absent),
            ErrorKind::Forbidden,
            ErrorKind::Internal,
            ErrorKind::InvalidArgument,
            ErrorKind::MustReplace,
            ErrorKind::NotFound(Missing::Namespace),
            ErrorKind::OutcomeUnknown,
            ErrorKind::Precondition,
            ErrorKind::QuotaExceeded,
            ErrorKind::RateLimited,
            ErrorKind::TimeLimit,
            ErrorKind::Unauthenticated,
            ErrorKind::Unavailable,
            ErrorKind::Unsupported(None),
        ];
        for kind in kinds {
            let written = serde_json::to_value(&kind).unwrap();
            let name = written.as_str().or_else(|| written.as_object()?.keys().next().map(String::as_str));
            assert_eq!(Some(Outcome::of(&Error::new(kind, "")).as_str()), name);
        }
    }
}
