//! The initial encoding as a service, and the two ways between it and the trait.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use futures_core::stream::BoxStream;
use futures_util::StreamExt as _;

use crate::capability::Capabilities;
use crate::error::{Error, Result};
use crate::op::{
    Delete, Deleted, Found, Launch, Launched, List, Listed, Ping, Pong, Reply, SchedulerOp, Status, Subscription, Watch,
};
use crate::scheduler::Scheduler;
use crate::watch::WatchItem;

/// Answers operations as data. Layers implement this one, never [`Scheduler`].
#[async_trait]
pub trait OpService: Debug + Send + Sync + 'static {
    /// What it can do.
    fn capabilities(&self) -> &Capabilities;

    /// Answers an operation with the [`Reply`] of the same name.
    ///
    /// # Errors
    /// Those of the operation.
    async fn call(&self, op: SchedulerOp) -> Result<Reply>;

    /// Opens a stream.
    fn open(&self, subscription: Subscription) -> BoxStream<'static, Result<StreamItem>>;
}

/// An item of a [`Subscription`]: the variant of the same name.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StreamItem {
    /// Of a watch.
    Watch(WatchItem),
}

/// Makes an [`OpService`] of a [`Scheduler`].
#[derive(Clone, Debug)]
pub struct ToOps {
    scheduler: Arc<dyn Scheduler>,
}

impl ToOps {
    /// Wraps a scheduler.
    #[must_use]
    pub fn new(scheduler: Arc<dyn Scheduler>) -> Self {
        Self { scheduler }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl OpService for ToOps {
    fn capabilities(&self) -> &Capabilities {
        self.scheduler.capabilities()
    }

    async fn call(&self, op: SchedulerOp) -> Result<Reply> {
        Ok(match op {
            SchedulerOp::Launch(op) => Reply::Launch(self.scheduler.launch(op).await?),
            SchedulerOp::Delete(op) => Reply::Delete(self.scheduler.delete(op).await?),
            SchedulerOp::Status(op) => Reply::Status(self.scheduler.status(op).await?),
            SchedulerOp::List(op) => Reply::List(self.scheduler.list(op).await?),
            SchedulerOp::Ping(op) => Reply::Ping(self.scheduler.ping(op).await?),
        })
    }

    fn open(&self, subscription: Subscription) -> BoxStream<'static, Result<StreamItem>> {
        match subscription {
            Subscription::Watch(op) => self.scheduler.watch(op).map(|item| item.map(StreamItem::Watch)).boxed(),
        }
    }
}

/// Makes a [`Scheduler`] of an [`OpService`]: the only forwarding wrapper there is, so that layers need none.
#[derive(Clone, Debug)]
pub struct FromOps {
    service: Arc<dyn OpService>,
}

impl FromOps {
    /// Wraps a service.
    #[must_use]
    pub fn new(service: Arc<dyn OpService>) -> Self {
        Self { service }
    }

    async fn ask<T: TryFrom<Reply, Error = Error>>(&self, op: impl Into<SchedulerOp> + Send) -> Result<T> {
        self.service.call(op.into()).await?.try_into()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Scheduler for FromOps {
    fn capabilities(&self) -> &Capabilities {
        self.service.capabilities()
    }

    async fn launch(&self, op: Launch) -> Result<Launched> {
        self.ask(op).await
    }

    async fn delete(&self, op: Delete) -> Result<Deleted> {
        self.ask(op).await
    }

    async fn status(&self, op: Status) -> Result<Found> {
        self.ask(op).await
    }

    async fn list(&self, op: List) -> Result<Listed> {
        self.ask(op).await
    }

    async fn ping(&self, op: Ping) -> Result<Pong> {
        self.ask(op).await
    }

    fn watch(&self, op: Watch) -> BoxStream<'static, Result<WatchItem>> {
        self.service.open(Subscription::Watch(op)).map(|item| item.map(|StreamItem::Watch(item)| item)).boxed()
    }
}
