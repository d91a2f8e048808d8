//! The initial encoding as a service, and the two ways between it and the trait.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use futures_core::stream::BoxStream;
use futures_util::StreamExt as _;

use crate::capability::Capabilities;
use crate::error::{Error, ErrorKind, Result};
use crate::op::{
    ConfigStored, Delete, DeleteNamespace, Deleted, Endpoints, EnsureNamespace, Expose, Exposed, Found, History,
    InstanceAnswer, Launch, Launched, List, Listed, LogItem, Logs, MarkHealthy, MarkedHealthy, NamespaceDeleted,
    NamespaceEnsured, OnInstance, OpName, Ping, Plan, Planned, Pong, PutConfig, ReadyEndpoints, Reply, Revisions,
    Rollout, Run, RunStarted, Scale, Scaled, SchedulerOp, Status, Steered, Subscription, Unexpose, Unexposed, Watch,
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
    /// Of logs.
    Logs(LogItem),
}

/// A stream was answered with items of another.
fn strange<T>(op: OpName) -> Result<T> {
    Err(Error::new(ErrorKind::Internal, "the stream has items of another").with_op(op))
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
            SchedulerOp::Scale(op) => Reply::Scale(self.scheduler.scale(op).await?),
            SchedulerOp::Rollout(op) => Reply::Rollout(self.scheduler.rollout(op).await?),
            SchedulerOp::OnInstance(op) => Reply::OnInstance(self.scheduler.instance(op).await?),
            SchedulerOp::History(op) => Reply::History(self.scheduler.history(op).await?),
            SchedulerOp::MarkHealthy(op) => Reply::MarkHealthy(self.scheduler.mark_healthy(op).await?),
            SchedulerOp::Run(op) => Reply::Run(self.scheduler.run(op).await?),
            SchedulerOp::Plan(op) => Reply::Plan(self.scheduler.plan(op).await?),
            SchedulerOp::PutConfig(op) => Reply::PutConfig(self.scheduler.put_config(op).await?),
            SchedulerOp::Expose(op) => Reply::Expose(self.scheduler.expose(op).await?),
            SchedulerOp::Unexpose(op) => Reply::Unexpose(self.scheduler.unexpose(op).await?),
            SchedulerOp::Endpoints(op) => Reply::Endpoints(self.scheduler.endpoints(op).await?),
            SchedulerOp::EnsureNamespace(op) => Reply::EnsureNamespace(self.scheduler.ensure_namespace(op).await?),
            SchedulerOp::DeleteNamespace(op) => Reply::DeleteNamespace(self.scheduler.delete_namespace(op).await?),
        })
    }

    fn open(&self, subscription: Subscription) -> BoxStream<'static, Result<StreamItem>> {
        match subscription {
            Subscription::Watch(op) => self.scheduler.watch(op).map(|item| item.map(StreamItem::Watch)).boxed(),
            Subscription::Logs(op) => self.scheduler.logs(op).map(|item| item.map(StreamItem::Logs)).boxed(),
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

    async fn scale(&self, op: Scale) -> Result<Scaled> {
        self.ask(op).await
    }

    async fn rollout(&self, op: Rollout) -> Result<Steered> {
        self.ask(op).await
    }

    async fn instance(&self, op: OnInstance) -> Result<InstanceAnswer> {
        self.ask(op).await
    }

    async fn history(&self, op: History) -> Result<Revisions> {
        self.ask(op).await
    }

    async fn mark_healthy(&self, op: MarkHealthy) -> Result<MarkedHealthy> {
        self.ask(op).await
    }

    async fn run(&self, op: Run) -> Result<RunStarted> {
        self.ask(op).await
    }

    async fn plan(&self, op: Plan) -> Result<Planned> {
        self.ask(op).await
    }

    async fn put_config(&self, op: PutConfig) -> Result<ConfigStored> {
        self.ask(op).await
    }

    async fn expose(&self, op: Expose) -> Result<Exposed> {
        self.ask(op).await
    }

    async fn unexpose(&self, op: Unexpose) -> Result<Unexposed> {
        self.ask(op).await
    }

    async fn endpoints(&self, op: Endpoints) -> Result<ReadyEndpoints> {
        self.ask(op).await
    }

    async fn ensure_namespace(&self, op: EnsureNamespace) -> Result<NamespaceEnsured> {
        self.ask(op).await
    }

    async fn delete_namespace(&self, op: DeleteNamespace) -> Result<NamespaceDeleted> {
        self.ask(op).await
    }

    fn watch(&self, op: Watch) -> BoxStream<'static, Result<WatchItem>> {
        let items = self.service.open(Subscription::Watch(op));
        let of_watch = |item| if let StreamItem::Watch(item) = item { Ok(item) } else { strange(OpName::Watch) };
        items.map(move |item| item.and_then(of_watch)).boxed()
    }

    fn logs(&self, op: Logs) -> BoxStream<'static, Result<LogItem>> {
        let items = self.service.open(Subscription::Logs(op));
        let of_logs = |item| if let StreamItem::Logs(item) = item { Ok(item) } else { strange(OpName::Logs) };
        items.map(move |item| item.and_then(of_logs)).boxed()
    }
}
