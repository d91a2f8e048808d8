//! Gaps in streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_core::stream::BoxStream;
use futures_util::StreamExt as _;

use super::plan::Plan;
use crate::error::{Error, ErrorKind, Result};
use crate::layer::{about, named};
use crate::op::Subscription;
use crate::service::{OpService, StreamItem};
use crate::watch::WatchItem;

/// Opens a stream. Nothing happens before it is polled.
pub(super) fn open(
    service: Arc<dyn OpService>,
    plan: Arc<Plan>,
    items: Arc<AtomicU64>,
    subscription: Subscription,
) -> BoxStream<'static, Result<StreamItem>> {
    let stream = Stream { service, plan, items, subscription, opened: None, told: false, resync: false };
    futures_util::stream::unfold(stream, |mut stream| async move {
        let item = stream.next().await?;
        Some((item, stream))
    })
    .boxed()
}

struct Stream {
    service: Arc<dyn OpService>,
    plan: Arc<Plan>,
    items: Arc<AtomicU64>,
    subscription: Subscription,
    opened: Option<BoxStream<'static, Result<StreamItem>>>,
    /// Whether anything was told that a new snapshot may contradict.
    told: bool,
    /// Whether a Resync is to be told next.
    resync: bool,
}

impl Stream {
    async fn next(&mut self) -> Option<Result<StreamItem>> {
        if self.plan.is_gap(self.items.load(Ordering::Relaxed) + 1) {
            self.items.fetch_add(1, Ordering::Relaxed);
            if let Subscription::Watch(_) = self.subscription {
                self.opened = None;
                self.resync = self.told;
            }
            return Some(Err(self.error()));
        }
        let item = if std::mem::take(&mut self.resync) {
            Ok(StreamItem::Watch(WatchItem::Resync))
        } else {
            let open = || self.service.open(self.subscription.clone());
            self.opened.get_or_insert_with(open).next().await?
        };
        self.items.fetch_add(1, Ordering::Relaxed);
        self.told |= item.is_ok();
        Some(item)
    }

    fn error(&self) -> Error {
        let backend = self.service.capabilities().backend();
        let error = Error::new(ErrorKind::Unavailable, "chaos made a gap");
        named(error, self.subscription.name(), about(&self.subscription), backend)
    }
}
