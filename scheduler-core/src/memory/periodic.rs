//! The controller of periodic jobs: when their runs begin, and which of them are kept.

use super::mutation::Mutation;
use super::object::MainObject;
use super::render::Spec;
use super::world::World;
use crate::{Cron, Finished, Kind, Overlap, Periodic, Target, Timestamp};

/// How many runs that ended well are kept if the workload does not say it.
const KEEP_SUCCEEDED: u32 = 3;
/// How many runs that failed are kept if the workload does not say it.
const KEEP_FAILED: u32 = 1;

/// What the schedule of a periodic job did, and what it does next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    /// When it started a run last.
    pub(super) last: Option<Timestamp>,
    /// When it is due next, suspended or not; `None` for other kinds.
    pub(super) next: Option<Timestamp>,
}

impl Schedule {
    pub(super) fn new(spec: &Spec, now: Timestamp) -> Self {
        Self { last: None, next: next(spec, now) }
    }

    /// Begins anew after a change. What would have been due before it is not made up for.
    pub(super) fn restart(&mut self, spec: &Spec, now: Timestamp) {
        self.next = next(spec, now);
    }
}

fn next(spec: &Spec, after: Timestamp) -> Option<Timestamp> {
    let Kind::Periodic(periodic) = &spec.kind else { return None };
    // It was checked: a schedule that cannot be read never gets here.
    let cron: Cron = periodic.schedule.parse().ok()?;
    cron.next(after, &periodic.time_zone)
}

impl MainObject {
    /// A run of this periodic job, as the schedule makes it.
    pub(super) fn run(&self, target: Target, incarnation: u64, now: Timestamp) -> Option<Self> {
        let job = self.spec.kind.job()?.clone();
        let spec = Spec { kind: Kind::Job(job), ..self.spec.clone() };
        let mut run = Self::new(target, incarnation, self.meta.clone(), spec, now);
        run.run_of = Some(self.target.clone());
        Some(run)
    }
}

impl World {
    /// The runs of a periodic job, whoever began them.
    pub(super) fn runs_of<'a>(&'a self, target: &'a Target) -> impl Iterator<Item = &'a MainObject> {
        let begun = self.workloads.values().filter(move |run| run.run_of.as_ref() == Some(target));
        self.runs.values().filter(move |run| run.run_of.as_ref() == Some(target)).chain(begun)
    }

    fn runs_of_mut<'a>(&'a mut self, target: &'a Target) -> impl Iterator<Item = &'a mut MainObject> {
        let begun = self.workloads.values_mut().filter(move |run| run.run_of.as_ref() == Some(target));
        self.runs.values_mut().filter(move |run| run.run_of.as_ref() == Some(target)).chain(begun)
    }

    /// How many runs that the schedule of a periodic job began have not ended.
    pub(super) fn active(&self, target: &Target) -> usize {
        let begun = self.runs.values().filter(|run| run.run_of.as_ref() == Some(target));
        begun.filter(|run| run.job.finished.is_none() && !run.deleting).count()
    }

    /// Begins to delete the runs of a periodic job.
    pub(super) fn delete_runs(&mut self, target: &Target) {
        if self.mutant.is(Mutation::DeleteLeaksRuns) {
            return;
        }
        let now = self.now;
        let mut gone = Vec::new();
        for run in self.runs_of_mut(target) {
            run.delete(now);
            gone.push(run.target.clone());
        }
        for run in gone {
            self.take_along(&run);
        }
    }

    /// One look at all schedules. Whether anything was begun or forgotten.
    pub(super) fn schedules(&mut self) -> bool {
        let now = self.now;
        let is_due =
            |o: &&MainObject| !o.deleting && o.notice_at <= now && o.schedule.next.is_some_and(|due| due <= now);
        let due: Vec<Target> = self.workloads.values().filter(is_due).map(|object| object.target.clone()).collect();
        let acted = !due.is_empty();
        for target in due {
            self.begin(&target);
        }
        self.forget_runs() || acted
    }

    /// Begins the run that is due, unless something forbids it.
    fn begin(&mut self, target: &Target) {
        let (now, mutant) = (self.now, self.mutant);
        let active = self.active(target);
        let Some(object) = self.workloads.get_mut(target) else { return };
        object.schedule.next = next(&object.spec, now);
        let Kind::Periodic(periodic) = object.spec.kind.clone() else { return };
        if periodic.suspend && !mutant.is(Mutation::SuspendIgnored) {
            return;
        }
        match periodic.overlap {
            Overlap::Forbid if active > 0 && !mutant.is(Mutation::OverlapIgnored) => return,
            Overlap::Replace if !mutant.is(Mutation::ReplaceLeavesTheLast) => self.end_runs(target),
            Overlap::Forbid | Overlap::Replace | Overlap::Allow => {}
        }
        let incarnation = self.next_serial();
        let Some(object) = self.workloads.get_mut(target) else { return };
        object.schedule.last = Some(now);
        if let Some(run) = object.run(target.clone(), incarnation, now) {
            self.runs.insert(incarnation, run);
        }
    }

    fn end_runs(&mut self, target: &Target) {
        let now = self.now;
        let begun = self.runs.values_mut().filter(|run| run.run_of.as_ref() == Some(target));
        for run in begun.filter(|run| run.job.finished.is_none()) {
            run.delete(now);
        }
    }

    /// Forgets ended runs of the schedule beyond those that are kept, the oldest first.
    fn forget_runs(&mut self) -> bool {
        let mut surplus = Vec::new();
        for (target, object) in &self.workloads {
            let Kind::Periodic(periodic) = &object.spec.kind else { continue };
            for (finished, kept) in kept(periodic) {
                let ended = self.runs.iter().rev().filter(|(_, run)| {
                    run.run_of.as_ref() == Some(target) && run.job.finished.is_some_and(|(how, _)| how == finished)
                });
                surplus.extend(ended.skip(kept as usize).map(|(at, _)| *at));
            }
        }
        if self.mutant.is(Mutation::KeepsAllRuns) {
            surplus.clear();
        }
        for at in &surplus {
            self.runs.remove(at);
        }
        !surplus.is_empty()
    }
}

fn kept(periodic: &Periodic) -> [(Finished, u32); 2] {
    [
        (Finished::Complete, periodic.keep_succeeded.unwrap_or(KEEP_SUCCEEDED)),
        (Finished::Failed, periodic.keep_failed.unwrap_or(KEEP_FAILED)),
    ]
}
