//! Operations on what runs already: its count, its rollout, one of its instances.

use super::decide;
use super::instance::Instance;
use super::mutation::Mutation;
use super::world::World;
use crate::{
    Error, ErrorKind, InstanceAction, InstanceAnswer, Kind, Missing, OnInstance, OwnerId, Result, Rollout, Scale,
    Version,
};

/// What an operation found, on which its write is based.
#[derive(Debug)]
pub(super) struct Read<T> {
    pub(super) version: Version,
    pub(super) found: T,
}

impl World {
    /// How many instances a service has.
    pub(super) fn decide_scale(&self, op: &Scale, me: &OwnerId) -> Result<Read<u32>> {
        let object = decide::guarded(self, &op.target, &op.guard, me)?;
        if !matches!(object.spec.kind, Kind::Service(_)) && !self.mutant.is(Mutation::ScalesAnything) {
            return Err(Error::invalid_argument(format!("a {} has no count to scale", object.spec.kind.name())));
        }
        Ok(Read { version: object.version(self.mutant), found: object.spec.replicas() })
    }

    /// Sets the count of a service. The version then.
    pub(super) fn scale(&mut self, op: &Scale, read: &Version) -> Result<Version> {
        self.is_as_read(&op.target, Some(read))?;
        let (now, mutant) = (self.now, self.mutant);
        let Some(object) = self.workloads.get_mut(&op.target) else { return Ok(read.clone()) };
        let count = if mutant.is(Mutation::ScaleAdds) { object.spec.replicas() + op.count } else { op.count };
        let spec = object.spec.with_replicas(count);
        if mutant.is(Mutation::ScaleMovesNoVersion) {
            object.respec_in_secret(spec, now, mutant);
        } else {
            object.respec(spec, now, mutant);
        }
        if mutant.is(Mutation::ScaleReplacesInstances) {
            object.end_instances(now);
        }
        if mutant.is(Mutation::ScaleCountsAsLaunch) {
            object.changed = Some(now);
        }
        Ok(object.version(mutant))
    }

    /// Whether an action on the rollout has anything to change.
    pub(super) fn decide_rollout(&self, op: &Rollout, me: &OwnerId) -> Result<Read<bool>> {
        let object = decide::guarded(self, &op.target, &op.guard, me)?;
        let found = object.decide_rollout(op.action, self.mutant)?;
        Ok(Read { version: object.version(self.mutant), found })
    }

    /// Steers a rollout. The version then.
    pub(super) fn rollout(&mut self, op: &Rollout, read: &Version) -> Result<Version> {
        self.is_as_read(&op.target, Some(read))?;
        let (now, mutant) = (self.now, self.mutant);
        let Some(object) = self.workloads.get_mut(&op.target) else { return Ok(read.clone()) };
        // The rollout may have got on by itself since it was looked at.
        object.decide_rollout(op.action, mutant)?;
        object.steer(op.action, now, mutant);
        Ok(object.version(mutant))
    }

    /// What an action on an instance would find.
    pub(super) fn decide_instance(&self, op: &OnInstance, me: &OwnerId) -> Result<InstanceAnswer> {
        let object = decide::ours(self, &op.target, me)?;
        let anybodys = self.mutant.is(Mutation::StopsAnyInstance);
        let all = self.workloads.values().filter(|other| anybodys || other.target == object.target);
        let mut of = all.chain(self.runs_of(&op.target)).flat_map(|object| &object.instances);
        let Some(instance) = of.find(|instance| instance.id == op.instance) else {
            let words = format!("it has no instance {}", op.instance);
            return Err(Error::new(ErrorKind::NotFound(Missing::Instance), words));
        };
        let ending = instance.ending.is_some() || instance.ended.is_some();
        Ok(if ending && !self.mutant.is(Mutation::StopsTwice) {
            InstanceAnswer::WasEnding
        } else {
            InstanceAnswer::Told
        })
    }

    /// Does something to an instance, unless it is on its way out by now.
    pub(super) fn on_instance(&mut self, op: &OnInstance, me: &OwnerId) -> Result<InstanceAnswer> {
        let answer = self.decide_instance(op, me)?;
        let (now, mutant) = (self.now, self.mutant);
        let objects = self.workloads.values_mut().chain(self.runs.values_mut());
        let mut of = objects.flat_map(|object| &mut object.instances);
        if let Some(instance) =
            of.find(|instance| instance.id == op.instance).filter(|_| answer == InstanceAnswer::Told)
        {
            match op.action {
                InstanceAction::Restart if !mutant.is(Mutation::RestartReplacesInstance) => {
                    Instance::restart(instance, now)
                }
                InstanceAction::Stop if mutant.is(Mutation::StopOnlyRestarts) => Instance::restart(instance, now),
                InstanceAction::Stop | InstanceAction::Restart => instance.end(now),
            }
        }
        Ok(answer)
    }
}
