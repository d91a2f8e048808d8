//! The scheduler over a cluster in memory: one operation after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use futures_core::stream::BoxStream;

use super::cluster::{MemoryCluster, Shared};
use super::fault::RequestFault;
use super::logs::{self, Sources};
use super::mutation::Mutation;
use super::watch;
use super::world::World;
use crate::{
    CallOptions, Capabilities, ConfigStored, Delete, DeleteNamespace, Deleted, Detail, Endpoints, EnsureNamespace,
    Error, Expose, Exposed, Filter, Found, History, InstanceAnswer, Launch, Launched, List, Listed, LogItem, Logs,
    MarkHealthy, MarkedHealthy, NamespaceDeleted, NamespaceEnsured, Observation, OnInstance, OpName, OwnerId, Ping,
    Plan, Planned, Pong, PutConfig, ReadyEndpoints, Result, Revisions, Rollout, Run, RunStarted, Scale, Scaled,
    Scheduler, Status, Steered, Target, Unexpose, Unexposed, Watch, WatchItem, within,
};

/// A [`Scheduler`] over a [`MemoryCluster`], for one owner.
///
/// # Cost
/// In requests, as [`MemoryCluster::inject`] counts them: what only reads is one, a watch one for each snapshot, logs one.
/// A launch is one if nothing differs, and one more for each object that it writes; a delete likewise, where all
/// configurations of a workload are one object. What else changes something is one, and one more if it writes; an expose
/// two more if it takes routes from another workload.
///
/// # Compare-and-set
/// The main object is written only as it was read; if somebody else was faster, it is a
/// [`Conflict`](crate::ErrorKind::Conflict). It is not repeated.
///
/// # History
/// The last ten revisions are kept.
#[derive(Clone, Debug)]
pub struct MemoryScheduler {
    cluster: MemoryCluster,
    owner: OwnerId,
    capabilities: Capabilities,
    /// Whether the operation that this value carries out has changed anything.
    changed: Arc<AtomicBool>,
}

/// Whether a request only reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Reads,
    Writes,
}

impl MemoryScheduler {
    pub(super) fn new(cluster: MemoryCluster, owner: OwnerId) -> Self {
        let capabilities = Capabilities::all(super::backend());
        Self { cluster, owner, capabilities, changed: Arc::default() }
    }

    pub(super) fn owner(&self) -> &OwnerId {
        &self.owner
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.cluster.shared
    }

    /// One request to the server of the cluster.
    pub(super) async fn request<T>(&self, access: Access, run: impl FnOnce(&mut World) -> Result<T> + Send) -> Result<T>
    where
        T: Send,
    {
        let fault = self.shared().planned().count();
        let answer = match (fault, access) {
            (Some(fault), _) if !fault.takes_effect() => Err(fault.error(access)),
            (_, Access::Reads) => run(&mut self.shared().world()),
            (_, Access::Writes) => self.shared().change(run),
        };
        let forgets_lost = fault.is_some() && self.shared().mutant.is(Mutation::LostAnswerIsUnavailable);
        if access == Access::Writes && answer.is_ok() && !forgets_lost {
            self.changed.store(true, Ordering::Relaxed);
        }
        self.shared().planned().met |= fault.is_some();
        match fault {
            Some(RequestFault::Hang) => std::future::pending().await,
            Some(lost @ RequestFault::LoseAnswer) => Err(lost.error(if forgets_lost { Access::Reads } else { access })),
            _ => answer,
        }
    }

    /// For one operation, which has changed nothing so far.
    fn one(&self) -> Self {
        Self { changed: Arc::default(), ..self.clone() }
    }

    fn named(&self, error: Error, op: OpName, target: Option<&Target>) -> Error {
        let error = error.with_op(op).with_backend(self.capabilities.backend());
        match target {
            Some(target) => error.with_target(target),
            None => error,
        }
    }

    /// Answers within the time limit, with the operation's name on an error.
    async fn answer<T: Send>(
        &self,
        op: OpName,
        target: Option<&Target>,
        call: &CallOptions,
        work: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        // No operation is compared with the capabilities: this backend has all of them.
        let mutant = self.shared().mutant;
        let failed = |error: Error| {
            let halfway = self.changed.load(Ordering::Relaxed) && !mutant.is(Mutation::HalfIsUnavailable);
            let error = if halfway { error.after_a_change() } else { error };
            let forgets = mutant.is(Mutation::ForgetsRetryAfter) && error.retry_after().is_some();
            self.named(if forgets { Error::new(error.kind().clone(), error.message()) } else { error }, op, target)
        };
        within(call, work).await.map_err(failed)
    }

    /// What there is that passes a filter, and how many gaps watches have had until then.
    pub(super) async fn snapshot(&self, filter: &Filter) -> Result<(Vec<Observation>, u64)> {
        let look = self.request(Access::Reads, |world| Ok((world.visible(&self.owner, filter), world.gaps)));
        look.await.map_err(|e| self.named(e, OpName::Watch, None))
    }

    /// The containers whose lines are wanted.
    pub(super) async fn log_sources(&self, op: &Logs) -> Result<Sources> {
        let look = self.request(Access::Reads, |world| world.log_sources(op, &self.owner));
        look.await.map_err(|e| self.named(e, OpName::Logs, Some(&op.target)))
    }
}

#[async_trait]
impl Scheduler for MemoryScheduler {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn launch(&self, op: Launch) -> Result<Launched> {
        let target = Some(op.workload.target());
        let own = self.one();
        own.answer(OpName::Launch, target, &op.call, own.do_launch(&op.workload, &op.guard)).await
    }

    async fn delete(&self, op: Delete) -> Result<Deleted> {
        let own = self.one();
        own.answer(OpName::Delete, Some(&op.target), &op.call, own.do_delete(&op.target, &op.guard)).await
    }

    async fn status(&self, op: Status) -> Result<Found> {
        let look = self.request(Access::Reads, |world| Ok(world.status(&op.target, &self.owner)));
        match within(&op.call, look).await {
            Ok(seen) => Ok(Found(seen.map(|seen| Box::new(seen.trimmed(op.detail))))),
            Err(_) if self.shared().mutant.is(Mutation::ErrorIsAbsence) => Ok(Found(None)),
            Err(error) => Err(self.named(error, OpName::Status, Some(&op.target))),
        }
    }

    async fn list(&self, op: List) -> Result<Listed> {
        let look = self.request(Access::Reads, |world| Ok(world.visible(&self.owner, &op.filter)));
        let seen = self.answer(OpName::List, None, &op.call, look).await?;
        Ok(Listed::new(seen.into_iter().map(|seen| seen.trimmed(Detail::Counts)).collect()))
    }

    fn watch(&self, op: Watch) -> BoxStream<'static, Result<WatchItem>> {
        watch::stream(self.clone(), op.filter)
    }

    async fn scale(&self, op: Scale) -> Result<Scaled> {
        let own = self.one();
        own.answer(OpName::Scale, Some(&op.target), &op.call, own.do_scale(&op)).await
    }

    async fn rollout(&self, op: Rollout) -> Result<Steered> {
        let own = self.one();
        own.answer(OpName::Rollout, Some(&op.target), &op.call, own.do_rollout(&op)).await
    }

    async fn instance(&self, op: OnInstance) -> Result<InstanceAnswer> {
        let own = self.one();
        own.answer(OpName::OnInstance, Some(&op.target), &op.call, own.do_instance(&op)).await
    }

    async fn history(&self, op: History) -> Result<Revisions> {
        let look = self.request(Access::Reads, |world| Ok(world.history(&op.target, &self.owner)));
        self.answer(OpName::History, Some(&op.target), &op.call, look).await
    }

    async fn mark_healthy(&self, op: MarkHealthy) -> Result<MarkedHealthy> {
        let own = self.one();
        own.answer(OpName::MarkHealthy, Some(&op.target), &op.call, own.do_mark(&op)).await
    }

    async fn run(&self, op: Run) -> Result<RunStarted> {
        let own = self.one();
        own.answer(OpName::Run, Some(op.base()), &op.call, own.do_run(&op)).await
    }

    async fn plan(&self, op: Plan) -> Result<Planned> {
        self.answer(OpName::Plan, Some(op.workload.target()), &op.call, self.do_plan(&op)).await
    }

    async fn put_config(&self, op: PutConfig) -> Result<ConfigStored> {
        let own = self.one();
        own.answer(OpName::PutConfig, Some(&op.target), &op.call, own.do_put_config(&op)).await
    }

    async fn expose(&self, op: Expose) -> Result<Exposed> {
        let own = self.one();
        own.answer(OpName::Expose, Some(&op.target), &op.call, own.do_expose(&op)).await
    }

    async fn unexpose(&self, op: Unexpose) -> Result<Unexposed> {
        let own = self.one();
        own.answer(OpName::Unexpose, Some(&op.target), &op.call, own.do_unexpose(&op.target)).await
    }

    async fn endpoints(&self, op: Endpoints) -> Result<ReadyEndpoints> {
        let look = self.request(Access::Reads, |world| Ok(world.endpoints(&op, &self.owner)));
        self.answer(OpName::Endpoints, Some(&op.target), &op.call, look).await
    }

    async fn ensure_namespace(&self, op: EnsureNamespace) -> Result<NamespaceEnsured> {
        let own = self.one();
        own.answer(OpName::EnsureNamespace, None, &op.call, own.do_ensure_namespace(&op.namespace)).await
    }

    async fn delete_namespace(&self, op: DeleteNamespace) -> Result<NamespaceDeleted> {
        let own = self.one();
        own.answer(OpName::DeleteNamespace, None, &op.call, own.do_delete_namespace(&op.namespace)).await
    }

    fn logs(&self, op: Logs) -> BoxStream<'static, Result<LogItem>> {
        logs::stream(self.clone(), op)
    }

    async fn ping(&self, op: Ping) -> Result<Pong> {
        let version = concat!("memory ", env!("CARGO_PKG_VERSION"));
        let look = self.request(Access::Reads, |_| Ok(Pong::new(version)));
        self.answer(OpName::Ping, None, &op.call, look).await
    }
}
