//! The requests that change the objects of a cluster, as its server carries them out.

use super::decide::LaunchPlan;
use super::mutation::Mutation;
use super::object::{MainObject, ServiceObject};
use super::world::World;
use crate::{Conflict, Error, ErrorKind, ObjectAction, OwnerId, Result, Target, Version};

impl World {
    /// Checks that the main object is still the one that was read.
    pub(super) fn is_as_read(&self, target: &Target, read: Option<&Version>) -> Result<()> {
        let now = self.workloads.get(target).map(|object| object.version(self.mutant));
        if now.as_ref() == read {
            return Ok(());
        }
        let conflict = now.map_or(Conflict::Absent, |now| Conflict::Moved { now: Some(now) });
        Err(Error::new(ErrorKind::Conflict(conflict), "it was changed between read and write"))
    }

    /// Makes or changes the main object. Its version then.
    pub(super) fn write_main(&mut self, target: &Target, plan: &LaunchPlan) -> Result<Version> {
        self.is_as_read(target, plan.read.as_ref())?;
        let (now, mutant) = (self.now, self.mutant);
        if mutant.is(Mutation::MakesNamespace) {
            self.namespaces.entry(target.namespace.to_string()).or_default();
        }
        let (meta, spec) = (plan.rendered.meta.clone(), plan.rendered.spec.clone());
        if let Some(object) = self.workloads.get_mut(target) {
            let scaled_only = object.spec.template == spec.template && object.spec.replicas() != spec.replicas();
            if mutant.is(Mutation::LaunchesOntoTerminating) {
                object.deleting = false;
            }
            object.launch(&plan.workload, meta, spec, now, mutant);
            if scaled_only && mutant.is(Mutation::RollsOnScale) {
                object.end_instances(now);
            }
            let version = object.version(mutant);
            if mutant.is(Mutation::LaunchDropsRoutes) {
                self.routes.remove(target);
            }
            return Ok(version);
        }
        let mut object = MainObject::new(target.clone(), self.next_serial(), meta, spec, now);
        object.history.record(&plan.workload, now, mutant);
        let version = object.version(mutant);
        self.workloads.insert(target.clone(), object);
        Ok(version)
    }

    /// What only a wrong variant does to a workload that is as it should be.
    pub(super) fn meddle(&mut self, target: &Target) {
        let (now, mutant) = (self.now, self.mutant);
        let Some(object) = self.workloads.get_mut(target) else { return };
        if mutant.is(Mutation::WritesOnRelaunch) {
            object.writes += 1;
        }
        if mutant.is(Mutation::RestartsOnRelaunch) {
            object.end_instances(now);
        }
    }

    /// Makes, changes or deletes the Service.
    pub(super) fn write_service(&mut self, target: &Target, plan: &LaunchPlan) {
        let now = self.now;
        if let Some(object) = self.workloads.get_mut(target) {
            object.changed = Some(now);
        }
        match (&plan.rendered.service, plan.service) {
            (_, Some(ObjectAction::Deleted)) => {
                self.services.remove(target);
            }
            (Some(spec), Some(ObjectAction::Created | ObjectAction::Updated)) => {
                let spec = spec.clone();
                if let Some(service) = self.services.get_mut(target) {
                    service.spec = spec;
                    service.writes += 1;
                } else {
                    let service = ServiceObject { spec, incarnation: self.next_serial(), writes: 1 };
                    self.services.insert(target.clone(), service);
                }
            }
            _ => {}
        }
    }

    /// Begins to delete the main object: its instances are asked to stop, and with the last of them it is gone.
    pub(super) fn delete_main(&mut self, target: &Target, read: &Version, me: &OwnerId) -> Result<()> {
        self.is_as_read(target, Some(read))?;
        let (now, neighbours) = (self.now, self.mutant.is(Mutation::DeletesNeighbours));
        let goes = |object: &MainObject| {
            let neighbour = object.target.namespace == target.namespace && object.meta.owner.as_ref() == Some(me);
            object.target == *target || (neighbours && neighbour)
        };
        for object in self.workloads.values_mut().filter(|object| goes(object)) {
            object.delete(now);
        }
        self.delete_runs(target);
        Ok(())
    }

    /// What is still there of what is being deleted, and what holds it up.
    pub(super) fn remains(&self, target: &Target) -> (Vec<String>, Vec<String>) {
        let Some(object) = self.workloads.get(target) else { return Default::default() };
        let live = || object.live().chain(self.runs_of(target).flat_map(MainObject::live));
        let lost = live().filter(|instance| instance.lost.is_some());
        let mut blocked: Vec<_> =
            lost.filter_map(|instance| Some(format!("node {} does not answer", instance.node.as_deref()?))).collect();
        blocked.dedup();
        (live().map(|instance| instance.id.clone()).collect(), blocked)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::super::decide;
    use super::super::mutation::Mutant;
    use super::*;
    use crate::{CheckedWorkload, Container, Guard, Timestamp, Workload};

    fn workload(image: &str) -> Arc<CheckedWorkload> {
        Arc::new(Workload::service("shop", "web").container(Container::new("web", image)).check().unwrap())
    }

    #[test]
    fn what_changed_between_read_and_write_is_not_written_over() {
        let me = OwnerId::new("me").unwrap();
        let mut world = World::new(Timestamp::from_millis(0), 0, Duration::ZERO, Mutant::default());
        world.namespaces.insert("shop".into(), None);
        let (first, second) = (workload("web:1"), workload("web:2"));
        let target = first.target();
        let plan = |world: &World, w| decide::launch(world, w, &Guard::IfOwned, &me).unwrap();
        let moved = |result: Result<Version>, now: &Version| {
            let kind = result.unwrap_err().kind().clone();
            assert_eq!(kind, ErrorKind::Conflict(Conflict::Moved { now: Some(now.clone()) }));
        };

        // Both saw nothing.
        let (a, b) = (plan(&world, &first), plan(&world, &second));
        let made = world.write_main(target, &a).unwrap();
        moved(world.write_main(target, &b), &made);
        // Both saw the first version; so did a delete.
        let (a, b) = (plan(&world, &second), plan(&world, &second));
        let delete = decide::delete(&world, target, &Guard::IfOwned, &me).unwrap().main.unwrap();
        let changed = world.write_main(target, &a).unwrap();
        assert_ne!(made, changed);
        moved(world.write_main(target, &b), &changed);
        moved(world.delete_main(target, &delete, &me).map(|()| delete.clone()), &changed);
    }
}
