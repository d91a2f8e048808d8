//! Endpoints as a stream, from a watch.

use std::sync::Arc;
use std::time::Duration;

use futures_core::stream::BoxStream;
use futures_util::StreamExt as _;
use futures_util::stream;

use crate::error::{Error, Result, Retry};
use crate::op::{Endpoints, Filter, ReadyEndpoints, Watch};
use crate::scheduler::Scheduler;
use crate::watch::WatchItem;

/// How long to wait after a failed read, unless the server says longer.
const PAUSE: Duration = Duration::from_secs(1);

/// The [`endpoints`](Scheduler::endpoints) of a workload, and again whenever they have changed.
///
/// Errors are items; the stream goes on after one unless its [`retry`](Error::retry) is [`Retry::Never`].
///
/// Costs a [`watch`](Scheduler::watch), and the reads of `endpoints` at each change of the workload. Nothing is sent before
/// it is first polled, and dropping it ends everything.
pub fn watch_endpoints(scheduler: Arc<dyn Scheduler>, op: Endpoints) -> BoxStream<'static, Result<ReadyEndpoints>> {
    let changes = scheduler.watch(Watch::new(Filter::target(op.target.clone())));
    let state = State { scheduler, op, changes, told: None, stale: false, pause: None, over: false };
    stream::unfold(state, next).boxed()
}

/// What is known between two items.
struct State {
    scheduler: Arc<dyn Scheduler>,
    op: Endpoints,
    changes: BoxStream<'static, Result<WatchItem>>,
    told: Option<ReadyEndpoints>,
    /// Whether there may be something new.
    stale: bool,
    /// How long to wait before the next read.
    pause: Option<Duration>,
    over: bool,
}

async fn next(mut state: State) -> Option<(Result<ReadyEndpoints>, State)> {
    while !state.over {
        if state.stale {
            if let Some(pause) = state.pause.take() {
                tokio::time::sleep(pause).await;
            }
            match state.scheduler.endpoints(state.op.clone()).await {
                Ok(ready) => {
                    state.stale = false;
                    if state.told.as_ref() != Some(&ready) {
                        state.told = Some(ready.clone());
                        return Some((Ok(ready), state));
                    }
                }
                Err(error) => {
                    state.pause = Some(error.retry_after().unwrap_or_default().max(PAUSE));
                    return Some(state.failed(error));
                }
            }
        }
        match state.changes.next().await {
            Some(Ok(WatchItem::Resync)) => {}
            Some(Ok(_)) => state.stale = true,
            Some(Err(error)) => return Some(state.failed(error)),
            None => state.over = true,
        }
    }
    None
}

impl State {
    fn failed(mut self, error: Error) -> (Result<ReadyEndpoints>, Self) {
        self.over = error.retry() == Retry::Never;
        (Err(error), self)
    }
}
