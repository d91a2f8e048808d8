//! Runs under a caller's key.

use std::sync::Arc;

use super::decide;
use super::mutation::{Mutant, Mutation};
use super::object::{MainObject, ServiceObject};
use super::render::render;
use super::world::World;
use crate::{
    CheckedWorkload, Conflict, Error, ErrorKind, Kind, OwnerId, Result, Run, RunId, RunKey, RunWhat, Target, Workload,
};

/// The id of a run.
pub(super) fn id(op: &Run, mutant: Mutant) -> RunId {
    if mutant.is(Mutation::RunForgetsKey)
        && let Ok(key) = RunKey::new("any")
    {
        return RunId::of(op.base(), &key);
    }
    op.id()
}

/// A workload as the job that a run of it is.
fn as_run(workload: &CheckedWorkload, target: &Target) -> Result<Arc<CheckedWorkload>> {
    let Some(job) = workload.kind.job() else {
        return Err(Error::invalid_argument(format!("a {} cannot be run", workload.kind.name())));
    };
    let run = Workload {
        name: target.name.to_string(),
        kind: Kind::Job(job.clone()),
        ..CheckedWorkload::clone(workload).into_inner()
    };
    Ok(Arc::new(run.check().map_err(Error::from)?))
}

impl World {
    /// Whether a run is to be begun; otherwise one with its key was.
    pub(super) fn decide_run(&self, op: &Run, target: &Target, me: &OwnerId) -> Result<bool> {
        let mutant = self.mutant;
        match &op.what {
            RunWhat::OneOff(job) => {
                if !matches!(job.kind, Kind::Job(_)) {
                    let words = format!("a {} cannot be run once; a job can", job.kind.name());
                    return Err(Error::invalid_argument(words));
                }
                decide::in_namespace(self, target)?;
            }
            RunWhat::Now(periodic) => {
                let object = decide::ours(self, periodic, me)?;
                if !matches!(object.spec.kind, Kind::Periodic(_)) {
                    let words = format!("it is a {} and not periodic", object.spec.kind.name());
                    return Err(Error::invalid_argument(words));
                }
            }
        }
        let Some(there) = self.workloads.get(target) else { return Ok(true) };
        decide::not_foreign(there.meta.owner.as_ref(), me, mutant.is(Mutation::RunTakesOverOthers))?;
        decide::not_deleting(there, mutant)?;
        let again = mutant.is(Mutation::RunTwiceForOneKey)
            || (mutant.is(Mutation::EndedRunRunsAgain) && there.job.finished.is_some());
        Ok(again)
    }

    /// Begins a run. Whether this call did.
    pub(super) fn begin_run(&mut self, op: &Run, target: &Target, me: &OwnerId) -> Result<bool> {
        if !self.decide_run(op, target, me)? {
            return Ok(false);
        }
        let (now, mutant, incarnation) = (self.now, self.mutant, self.next_serial());
        let made = match &op.what {
            RunWhat::OneOff(job) => {
                let workload = as_run(job, target)?;
                let rendered = render(&workload, me, 0);
                if let Some(spec) = rendered.service {
                    let service = ServiceObject { spec, incarnation: self.next_serial(), writes: 1 };
                    self.services.insert(target.clone(), service);
                }
                let object = MainObject::new(target.clone(), incarnation, rendered.meta, rendered.spec, now);
                Some((object, Some(workload)))
            }
            RunWhat::Now(periodic) => self.workloads.get(periodic).and_then(|object| {
                let workload = object.history.current().and_then(|launched| as_run(launched, target).ok());
                let mut run = object.run(target.clone(), incarnation, now)?;
                run.meta.revision = workload.as_ref().map(|workload| workload.revision().clone());
                run.run_of = run.run_of.filter(|_| !mutant.is(Mutation::RunForgetsPeriodic));
                Some((run, workload))
            }),
        };
        let Some((mut object, workload)) = made else {
            return Err(Error::new(ErrorKind::Conflict(Conflict::Absent), "it went meanwhile"));
        };
        if let Some(workload) = workload {
            object.history.record(&workload, now, mutant);
        }
        self.workloads.insert(target.clone(), object);
        Ok(true)
    }
}
