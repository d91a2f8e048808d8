//! Streams that are opened again when they break.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_core::stream::BoxStream;
use futures_util::StreamExt as _;
use tokio::time::Instant;

use super::logs::LogsTold;
use super::policy::{Pace, Row};
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::layer::named;
use crate::op::{OpName, Subscription, Watch};
use crate::service::{OpService, StreamItem};
use crate::watch::WatchItem;

/// Opens a stream. Nothing happens before it is polled.
pub(super) fn open(
    service: Arc<dyn OpService>,
    pace: Arc<Pace>,
    subscription: Subscription,
) -> BoxStream<'static, Result<StreamItem>> {
    let told = match subscription {
        Subscription::Watch(asked) => Told::Watch { asked, any: false, broken: false },
        Subscription::Logs(asked) => Told::Logs(Box::new(LogsTold::new(asked))),
    };
    let stream = Stream {
        service,
        pace,
        told,
        opened: None,
        row: None,
        wait: Duration::ZERO,
        ready: VecDeque::new(),
        over: false,
    };
    futures_util::stream::unfold(stream, |mut stream| async move {
        let item = stream.next().await?;
        Some((item, stream))
    })
    .boxed()
}

/// A stream, from one item to the next.
struct Stream {
    service: Arc<dyn OpService>,
    pace: Arc<Pace>,
    told: Told,
    /// What the service gives, and since when.
    opened: Option<(BoxStream<'static, Result<StreamItem>>, Instant)>,
    row: Option<Row>,
    /// How long to sleep before it is opened again.
    wait: Duration,
    ready: VecDeque<StreamItem>,
    over: bool,
}

/// What was asked for, and what of it has been told.
enum Told {
    Watch {
        asked: Watch,
        /// Whether anything was told that a new snapshot may contradict.
        any: bool,
        /// Whether what comes next comes after a break.
        broken: bool,
    },
    Logs(Box<LogsTold>),
}

impl Stream {
    async fn next(&mut self) -> Option<Result<StreamItem>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(Ok(item));
            }
            if self.over {
                return None;
            }
            let Some((items, _)) = &mut self.opened else {
                if !self.wait.is_zero() {
                    tokio::time::sleep(self.wait).await;
                }
                let subscription = match &mut self.told {
                    Told::Watch { asked, .. } => Subscription::Watch(asked.clone()),
                    Told::Logs(told) => Subscription::Logs(told.go_on()),
                };
                self.opened = Some((self.service.open(subscription), Instant::now()));
                continue;
            };
            let told = match items.next().await {
                Some(Ok(item)) => {
                    self.take(item);
                    None
                }
                Some(Err(error)) => self.broke(error),
                None => self.ended(),
            };
            if let Some(error) = told {
                return Some(Err(error));
            }
        }
    }

    /// Takes in an item.
    fn take(&mut self, item: StreamItem) {
        match (&mut self.told, item) {
            (Told::Watch { any, broken, .. }, item) => {
                let resync = StreamItem::Watch(WatchItem::Resync);
                if std::mem::take(broken) && *any && item != resync {
                    self.ready.push_back(resync);
                }
                *any = true;
                self.ready.push_back(item);
            }
            (Told::Logs(told), StreamItem::Logs(item)) => {
                self.ready.extend(told.take(item).into_iter().map(StreamItem::Logs));
            }
            // An item of another stream; whoever reads it says so.
            (Told::Logs(_), item) => self.ready.push_back(item),
        }
    }

    /// Takes in an error. The error that is to be told, if any.
    fn broke(&mut self, error: Error) -> Option<Error> {
        if error.retry() == Retry::Never {
            (self.over, self.opened) = (true, None);
            return Some(error);
        }
        match &mut self.told {
            Told::Watch { broken, .. } => *broken = true,
            Told::Logs(told) if told.can_go_on() => {}
            // It goes on by itself, as far as it can.
            Told::Logs(_) => return Some(error),
        }
        if self.opened.take().is_some_and(|(_, since)| since.elapsed() >= self.pace.longest()) {
            self.row = None;
        }
        let row = self.row.get_or_insert_with(Row::new);
        if let Some(wait) = self.pace.pause(row, &error, None) {
            self.wait = wait;
            return None;
        }
        self.row = None;
        self.wait = self.pace.longest().saturating_add(error.retry_after().unwrap_or_default());
        Some(error)
    }

    /// Takes in an end that no error came before. The error that is to be told, if any.
    fn ended(&mut self) -> Option<Error> {
        match &self.told {
            Told::Watch { .. } => {
                let error = Error::new(ErrorKind::Unavailable, "the watch ended, and no error came before");
                let backend = self.service.capabilities().backend();
                let error = named(error, OpName::Watch, None, backend);
                self.broke(error)
            }
            // All was read, or the workload is gone.
            Told::Logs(_) => {
                self.over = true;
                None
            }
        }
    }
}
