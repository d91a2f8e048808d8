//! The operations that change something, each as its requests: one reads and decides, one writes what was decided.

use std::sync::Arc;

use super::decide;
use super::mutation::Mutation;
use super::object::shown_revision;
use super::run;
use super::scheduler::{Access, MemoryScheduler};
use super::world::World;
use crate::{
    Change, CheckedWorkload, ConfigRef, ConfigStored, Deleted, Effect, Error, ErrorKind, Expose, Exposed, Fault, Guard,
    InstanceAnswer, Launched, MarkHealthy, MarkedHealthy, Namespace, NamespaceDeleted, NamespaceEnsured, ObjectAction,
    OnInstance, Plan, Planned, PutConfig, Result, Rollout, Run, RunId, RunKey, RunStarted, Scale, Scaled, Steered,
    Target, Unexposed,
};

impl MemoryScheduler {
    /// What can be refused before anything is sent.
    fn check(&self, workload: &CheckedWorkload) -> Result<Vec<String>> {
        let backend = super::backend();
        if workload.extensions.contains_key(backend.as_str()) {
            let fault = Fault::new(format!("extensions.{backend}"), "this backend has no extensions");
            return Err(Error::invalid_argument("the workload asks for what there is not").with_causes(vec![fault]));
        }
        let others = workload.extensions_for_others(&backend);
        Ok(others.map(|name| format!("extensions.{name} is for another backend and has no effect here")).collect())
    }

    pub(super) async fn do_launch(&self, workload: &Arc<CheckedWorkload>, guard: &Guard) -> Result<Launched> {
        let warnings = self.check(workload)?;
        let (target, mutant) = (workload.target(), self.shared().mutant);
        if let Guard::IfPlan(token) = guard
            && !token.is_for(&super::backend(), workload)
            && !mutant.is(Mutation::PlanTokenForAnyWorkload)
        {
            return Err(Error::invalid_argument("the plan is of another workload, or on another backend"));
        }
        let plan = self.request(Access::Reads, |world| decide::launch(world, workload, guard, self.owner())).await?;
        if plan.change == Change::Updated(Effect::Replaced) {
            let words = "what is there is of another kind, or this cannot be changed in place";
            return Err(Error::new(ErrorKind::MustReplace, words));
        }
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
            self.write(|world| world.write_service(target, &plan)).await?;
        }
        let revision = shown_revision(workload.revision(), plan.rendered.spec.replicas(), mutant);
        Ok(Launched {
            objects: plan.objects(target.name.as_str()),
            adopted_from: plan.adopted_from,
            warnings,
            ..Launched::new(plan.change, revision, version)
        })
    }

    /// A request that writes, and cannot be refused.
    async fn write<T: Send>(&self, run: impl FnOnce(&mut World) -> T + Send) -> Result<T> {
        self.request(Access::Writes, |world| Ok(run(world))).await
    }

    pub(super) async fn do_delete(&self, target: &Target, guard: &Guard) -> Result<Deleted> {
        let mutant = self.shared().mutant;
        let senseless = matches!(guard, Guard::IfAbsent | Guard::IfPlan(_));
        if senseless && !mutant.is(Mutation::DeletesIfAbsent) {
            return Err(Error::invalid_argument("this guard makes no sense for a delete"));
        }
        let plan = self.request(Access::Reads, |world| decide::delete(world, target, guard, self.owner())).await?;
        if !plan.there {
            return Ok(if mutant.is(Mutation::AbsentIsGone) { Deleted::Gone } else { Deleted::WasAbsent });
        }
        if let Some(read) = &plan.main {
            self.request(Access::Writes, |world| world.delete_main(target, read, self.owner())).await?;
        }
        if plan.service {
            self.write(|world| world.services.remove(target)).await?;
        }
        if plan.configs {
            self.write(|world| world.configs.remove(target)).await?;
        }
        if plan.routes {
            self.write(|world| world.routes.remove(target)).await?;
        }
        let (remaining, blocked_by) = self.shared().world().remains(target);
        if remaining.is_empty() || mutant.is(Mutation::GoneTooEarly) {
            return Ok(Deleted::Gone);
        }
        Ok(Deleted::Deleting { remaining, blocked_by })
    }

    pub(super) async fn do_scale(&self, op: &Scale) -> Result<Scaled> {
        let read = self.request(Access::Reads, |world| world.decide_scale(op, self.owner())).await?;
        let same = read.found == op.count && !self.shared().mutant.is(Mutation::ScaleWritesAgain);
        let version = if same {
            read.version
        } else {
            self.request(Access::Writes, |world| world.scale(op, &read.version)).await?
        };
        Ok(Scaled::new(read.found, op.count, version))
    }

    pub(super) async fn do_rollout(&self, op: &Rollout) -> Result<Steered> {
        let read = self.request(Access::Reads, |world| world.decide_rollout(op, self.owner())).await?;
        let version = if read.found {
            self.request(Access::Writes, |world| world.rollout(op, &read.version)).await?
        } else {
            read.version
        };
        Ok(Steered::new(read.found, version))
    }

    pub(super) async fn do_instance(&self, op: &OnInstance) -> Result<InstanceAnswer> {
        match self.request(Access::Reads, |world| world.decide_instance(op, self.owner())).await? {
            InstanceAnswer::Told => self.request(Access::Writes, |world| world.on_instance(op, self.owner())).await,
            answer @ InstanceAnswer::WasEnding => Ok(answer),
        }
    }

    pub(super) async fn do_mark(&self, op: &MarkHealthy) -> Result<MarkedHealthy> {
        let marked = self.request(Access::Reads, |world| world.decide_mark(op, self.owner())).await?;
        if marked && !self.shared().mutant.is(Mutation::MarkWritesAgain) {
            return Ok(MarkedHealthy::Already);
        }
        self.request(Access::Writes, |world| world.mark(op, self.owner())).await?;
        Ok(MarkedHealthy::Now)
    }

    pub(super) async fn do_run(&self, op: &Run) -> Result<RunStarted> {
        let warnings = match &op.what {
            crate::RunWhat::OneOff(job) => self.check(job)?,
            crate::RunWhat::Now(_) => Vec::new(),
        };
        let id = run::id(op, self.shared().mutant);
        let target = id.target();
        let begins = self.request(Access::Reads, |world| world.decide_run(op, target, self.owner())).await?;
        let begin = |target| self.request(Access::Writes, move |world| world.begin_run(op, target, self.owner()));
        let mut begun = if begins { begin(target).await } else { Ok(false) };
        if begun.is_err()
            && self.shared().mutant.is(Mutation::LostRunBeginsAnother)
            && let Ok(key) = RunKey::new("another")
        {
            begun = begin(RunId::of(op.base(), &key).target()).await;
        }
        Ok(RunStarted { warnings, ..RunStarted::new(id, begun?) })
    }

    pub(super) async fn do_plan(&self, op: &Plan) -> Result<Planned> {
        if matches!(op.guard, Guard::IfPlan(_)) {
            return Err(Error::invalid_argument("a plan is bound to no other plan"));
        }
        let warnings = self.check(&op.workload)?;
        let (workload, target) = (&op.workload, op.workload.target());
        let read = |world: &mut World| {
            let plan = decide::launch(world, workload, &op.guard, self.owner())?;
            Ok((plan.told(world.workloads.get(target), warnings), plan))
        };
        let (planned, plan) = self.request(Access::Reads, read).await?;
        let mutant = self.shared().mutant;
        if mutant.is(Mutation::PlanWrites) && plan.main != ObjectAction::Unchanged {
            self.request(Access::Writes, |world| world.write_main(target, &plan)).await?;
        }
        if mutant.is(Mutation::PlanSaysUnchanged) {
            return Ok(Planned { change: Change::Unchanged, ..planned });
        }
        Ok(planned)
    }

    pub(super) async fn do_put_config(&self, op: &PutConfig) -> Result<ConfigStored> {
        if !self.shared().mutant.is(Mutation::StoresWhatIsRedacted) {
            op.check()?;
        }
        let created = self.request(Access::Reads, |world| world.decide_config(op, self.owner())).await?;
        if created {
            self.request(Access::Writes, |world| world.put_config(op, self.owner())).await?;
        }
        Ok(ConfigStored::new(ConfigRef::new(&op.name, op.version()), created))
    }

    pub(super) async fn do_expose(&self, op: &Expose) -> Result<Exposed> {
        op.check()?;
        let plan = self.request(Access::Reads, |world| world.decide_expose(op, self.owner())).await?;
        let takes_first = self.shared().mutant.is(Mutation::TakesBeforeWriting);
        let takes = !plan.taken.is_empty();
        if takes && takes_first {
            self.request(Access::Writes, |world| world.take_routes(op, self.owner())).await?;
        }
        if plan.differs {
            self.request(Access::Writes, |world| world.expose(op, &plan.read, self.owner())).await?;
        }
        if takes && !takes_first {
            self.request(Access::Writes, |world| world.take_routes(op, self.owner())).await?;
        }
        Ok(Exposed { taken: plan.taken, ..Exposed::new(plan.differs || takes) })
    }

    pub(super) async fn do_unexpose(&self, target: &Target) -> Result<Unexposed> {
        if !self.request(Access::Reads, |world| world.decide_unexpose(target, self.owner())).await? {
            return Ok(Unexposed::WasAbsent);
        }
        let keeps = self.shared().mutant.is(Mutation::UnexposeKeepsRoutes);
        self.write(|world| if keeps { None } else { world.routes.remove(target) }).await?;
        Ok(Unexposed::Gone)
    }

    pub(super) async fn do_ensure_namespace(&self, namespace: &Namespace) -> Result<NamespaceEnsured> {
        let marks = self.shared().mutant.is(Mutation::MarksForeignNamespace);
        let there = self.request(Access::Reads, |world| Ok(world.decide_ensure(namespace, self.owner()))).await?;
        match there.filter(|_| !marks) {
            Some(there) => Ok(there),
            None => self.write(|world| world.ensure(namespace, self.owner())).await,
        }
    }

    pub(super) async fn do_delete_namespace(&self, namespace: &Namespace) -> Result<NamespaceDeleted> {
        let there = self.request(Access::Reads, |world| world.decide_delete_namespace(namespace, self.owner())).await?;
        if !there {
            return Ok(NamespaceDeleted::WasAbsent);
        }
        self.request(Access::Writes, |world| world.delete_namespace(namespace, self.owner())).await
    }
}
