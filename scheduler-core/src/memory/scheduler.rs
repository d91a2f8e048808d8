//! The scheduler over a cluster in memory: one operation after the other.

use async_trait::async_trait;
use futures_core::stream::BoxStream;

use super::cluster::{MemoryCluster, Shared};
use super::decide;
use super::fault::{self, RequestFault};
use super::mutation::Mutation;
use super::object::shown_revision;
use super::watch;
use super::world::World;
use crate::{
    Capabilities, CheckedWorkload, Delete, Deleted, Detail, Error, Fault, Filter, Found, Guard, Launch, Launched, List,
    Listed, ObjectAction, Observation, OpName, OwnerId, Ping, Pong, Result, Scheduler, Status, Target, Watch,
    WatchItem, within,
};

/// A [`Scheduler`] over a [`MemoryCluster`], for one owner.
///
/// # Cost
/// In requests, as [`MemoryCluster::inject`] counts them: status, list and ping one each, a watch one for each snapshot.
/// A launch one if nothing differs, and one more for each object that it writes; a delete likewise.
///
/// # Compare-and-set
/// A launch or a delete writes the main object only as it was read; if somebody else was faster, it is a
/// [`Conflict`](crate::ErrorKind::Conflict). It is not repeated.
#[derive(Clone, Debug)]
pub struct MemoryScheduler {
    cluster: MemoryCluster,
    owner: OwnerId,
    capabilities: Capabilities,
}

/// Whether a request only reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Reads,
    Writes,
}

impl MemoryScheduler {
    pub(super) fn new(cluster: MemoryCluster, owner: OwnerId) -> Self {
        let capabilities = Capabilities::all(super::backend());
        Self { cluster, owner, capabilities }
    }

    pub(super) fn owner(&self) -> &OwnerId {
        &self.owner
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.cluster.shared
    }

    /// One request to the server of the cluster.
    async fn request<T>(&self, access: Access, run: impl FnOnce(&mut World) -> Result<T> + Send) -> Result<T>
    where
        T: Send,
    {
        let fault = self.shared().planned().count();
        let answer = match (fault, access) {
            (Some(fault @ (RequestFault::Refuse | RequestFault::Forbid)), _) => Err(fault::error(fault, false)),
            (_, Access::Reads) => run(&mut self.shared().world()),
            (_, Access::Writes) => self.shared().change(run),
        };
        self.shared().planned().met |= fault.is_some();
        match fault {
            Some(RequestFault::Hang) => std::future::pending().await,
            Some(fault @ RequestFault::LoseAnswer) => Err(fault::error(fault, access == Access::Writes)),
            Some(RequestFault::Refuse | RequestFault::Forbid) | None => answer,
        }
    }

    fn named(&self, error: Error, op: OpName, target: Option<&Target>) -> Error {
        let error = error.with_op(op).with_backend(self.capabilities.backend());
        match target {
            Some(target) => error.with_target(target),
            None => error,
        }
    }

    /// What can be refused before anything is sent.
    fn check(&self, workload: &CheckedWorkload) -> Result<Vec<String>> {
        let backend = self.capabilities.backend();
        if workload.extensions.contains_key(backend.as_str()) {
            let problem = "this backend has no extensions".to_owned();
            let fault = Fault { path: format!("extensions.{backend}"), problem };
            return Err(Error::invalid_argument("the workload asks for what there is not").with_causes(vec![fault]));
        }
        let others = workload.extensions_for_others(backend);
        Ok(others.map(|name| format!("extensions.{name} is for another backend and has no effect here")).collect())
    }

    async fn do_launch(&self, workload: &CheckedWorkload, guard: &Guard) -> Result<Launched> {
        let warnings = self.check(workload)?;
        let target = workload.target();
        let mutant = self.shared().mutant;
        let plan = self.request(Access::Reads, |world| decide::launch(world, workload, guard, &self.owner)).await?;
        let version = match &plan.read {
            Some(read) if plan.main == ObjectAction::Unchanged => {
                if mutant.is(Mutation::WritesOnRelaunch) || mutant.is(Mutation::RestartsOnRelaunch) {
                    self.shared().change(|world| world.meddle(target));
                }
                read.clone()
            }
            _ => self.request(Access::Writes, |world| world.write_main(target, &plan)).await?,
        };
        if plan.service.is_some_and(|action| action != ObjectAction::Unchanged) {
            let write = |world: &mut World| {
                world.write_service(target, &plan);
                Ok(())
            };
            self.request(Access::Writes, write).await?;
        }
        let revision = shown_revision(workload.revision(), plan.rendered.spec.replicas, mutant);
        Ok(Launched {
            objects: plan.objects(target.name.as_str()),
            adopted_from: plan.adopted_from,
            warnings,
            ..Launched::new(plan.change, revision, version)
        })
    }

    async fn do_delete(&self, target: &Target, guard: &Guard) -> Result<Deleted> {
        let mutant = self.shared().mutant;
        if *guard == Guard::IfAbsent && !mutant.is(Mutation::DeletesIfAbsent) {
            return Err(Error::invalid_argument("a delete needs something that is there; IfAbsent contradicts that"));
        }
        let plan = self.request(Access::Reads, |world| decide::delete(world, target, guard, &self.owner)).await?;
        if !plan.there {
            return Ok(if mutant.is(Mutation::AbsentIsGone) { Deleted::Gone } else { Deleted::WasAbsent });
        }
        if let Some(read) = &plan.main {
            self.request(Access::Writes, |world| world.delete_main(target, read, &self.owner)).await?;
        }
        if plan.service {
            let write = |world: &mut World| {
                world.services.remove(target);
                Ok(())
            };
            self.request(Access::Writes, write).await?;
        }
        let (remaining, blocked_by) = self.shared().world().remains(target);
        if remaining.is_empty() || mutant.is(Mutation::GoneTooEarly) {
            return Ok(Deleted::Gone);
        }
        Ok(Deleted::Deleting { remaining, blocked_by })
    }

    /// What there is that passes a filter, and how many gaps watches have had until then.
    pub(super) async fn snapshot(&self, filter: &Filter) -> Result<(Vec<Observation>, u64)> {
        let look = self.request(Access::Reads, |world| Ok((world.visible(&self.owner, filter), world.gaps)));
        look.await.map_err(|e| self.named(e, OpName::Watch, None))
    }
}

#[async_trait]
impl Scheduler for MemoryScheduler {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn launch(&self, op: Launch) -> Result<Launched> {
        // No operation is compared with the capabilities: this backend has all of them.
        within(&op.call, self.do_launch(&op.workload, &op.guard))
            .await
            .map_err(|e| self.named(e, OpName::Launch, Some(op.workload.target())))
    }

    async fn delete(&self, op: Delete) -> Result<Deleted> {
        within(&op.call, self.do_delete(&op.target, &op.guard))
            .await
            .map_err(|e| self.named(e, OpName::Delete, Some(&op.target)))
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
        let seen = within(&op.call, look).await.map_err(|e| self.named(e, OpName::List, None))?;
        Ok(Listed::new(seen.into_iter().map(|seen| seen.trimmed(Detail::Counts)).collect()))
    }

    fn watch(&self, op: Watch) -> BoxStream<'static, Result<WatchItem>> {
        watch::stream(self.clone(), op.filter)
    }

    async fn ping(&self, op: Ping) -> Result<Pong> {
        let version = concat!("memory ", env!("CARGO_PKG_VERSION"));
        within(&op.call, self.request(Access::Reads, |_| Ok(Pong::new(version))))
            .await
            .map_err(|e| self.named(e, OpName::Ping, None))
    }
}
