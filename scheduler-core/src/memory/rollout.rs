//! How one template takes over from the last: the state of a rollout, its progress, and how it is steered.

use std::sync::Arc;

use super::mutation::{Mutant, Mutation};
use super::object::MainObject;
use super::render::{Spec, Template};
use super::timing::NOTICE;
use crate::{Error, ErrorKind, Kind, Result, RolloutAction, Timestamp, Update};

/// How a rollout gets on.
#[derive(Clone, Debug)]
pub(super) struct Rollout {
    /// Whether it was complete once.
    pub(super) completed: bool,
    /// Since when the controller has given it up.
    pub(super) gave_up: Option<Timestamp>,
    /// Whether its canaries stand the test.
    pub(super) awaits_promotion: bool,
    /// When it got on last.
    progressed: Timestamp,
    best: Tally,
    /// What ran before it.
    pub(super) before: Option<Arc<Template>>,
    stage: Stage,
    pub(super) hold: Option<Hold>,
}

/// How far the replacement of what ran before may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// All of it, within the bounds of the update.
    Rolling,
    /// None of it: canaries run beside it.
    Canaries,
    /// As rolling; canaries stood the test before.
    Promoted,
}

/// A rollout that somebody stopped where it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) aborted: bool,
    /// How many instances of what is wanted it keeps.
    new: usize,
    /// How many others.
    old: usize,
    /// How many were wanted in all.
    desired: usize,
}

/// Numbers of instances that the controller keeps, instead of going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fixed {
    pub(super) new: usize,
    pub(super) old: usize,
    /// Whether what is neither wanted nor ran before is ended.
    pub(super) ends_others: bool,
}

/// What counts as progress: a new most of the first three, a new least of the last. Restarts and flapping are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) updated: usize,
    pub(super) ready: usize,
    pub(super) available: usize,
    pub(super) old: usize,
}

impl Hold {
    /// Who was there when it began; a scale since then adds to, or takes from, what ran before, if anything did.
    fn fixed(self, desired: usize) -> Fixed {
        let of = |count: usize| (count + desired).saturating_sub(self.desired);
        let (new, old) = if self.old == 0 { (of(self.new), 0) } else { (self.new.min(desired), of(self.old)) };
        Fixed { new, old, ends_others: false }
    }
}

impl Rollout {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            completed: false,
            gave_up: None,
            awaits_promotion: false,
            progressed: now,
            best: NONE_YET,
            before: None,
            stage: Stage::Rolling,
            hold: None,
        }
    }

    /// The rollout after a change of the spec.
    pub(super) fn next(&self, old: &Spec, new: &Spec, now: Timestamp, mutant: Mutant) -> Self {
        let stale = self.gave_up.filter(|_| mutant.is(Mutation::KeepsStaleFailure) || self.is_aborted());
        let next = Self { gave_up: stale, ..Self::new(now) };
        if new.template == old.template {
            let (completed, before) = (self.completed, self.before.clone());
            return Self { completed, before, stage: self.stage, hold: self.hold, ..next };
        }
        let before = if self.completed { Some(Arc::clone(&old.template)) } else { self.before.clone() };
        let beside = before.as_ref().is_some_and(|before| *before != new.template);
        let canaries = beside && canaries(new).is_some() && !mutant.is(Mutation::SkipsCanaries);
        let stage = if canaries { Stage::Canaries } else { Stage::Rolling };
        // A hold ends with the launch that changes something; other changes leave it.
        Self { before, stage, hold: self.hold, ..next }
    }

    /// The rollout after a restart of all instances.
    pub(super) fn again(&self, spec: &Spec, now: Timestamp) -> Self {
        let before = if self.completed { Some(Arc::clone(&spec.template)) } else { self.before.clone() };
        Self { before, ..Self::new(now) }
    }

    /// Ends a pause or an abort.
    pub(super) fn release(&mut self, now: Timestamp) {
        if let Some(hold) = self.hold.take() {
            self.progressed = now;
            self.gave_up = self.gave_up.filter(|_| !hold.aborted);
        }
    }

    pub(super) fn is_paused(&self) -> bool {
        self.hold.is_some_and(|hold| !hold.aborted)
    }

    fn is_aborted(&self) -> bool {
        self.hold.is_some_and(|hold| hold.aborted)
    }

    /// The numbers that are to be kept, unless the rollout goes on.
    pub(super) fn fixed(&self, spec: &Spec) -> Option<Fixed> {
        let desired = spec.replicas() as usize;
        let beside = canaries(spec).filter(|_| self.stage == Stage::Canaries);
        let canaries = beside.map(|count| Fixed { new: count.min(desired), old: desired, ends_others: true });
        self.hold.map(|hold| hold.fixed(desired)).or(canaries)
    }

    /// When the controller gives up unless there is progress.
    pub(super) fn deadline(&self, spec: &Spec, mutant: Mutant) -> Option<Timestamp> {
        let held = self.hold.is_some() && !mutant.is(Mutation::PauseCountsAgainstDeadline);
        let waits = self.completed || self.gave_up.is_some() || held || self.awaits_promotion;
        (!waits).then(|| self.progressed.plus(spec.patience.duration()))
    }

    /// Takes in how the instances are now.
    pub(super) fn judge(&mut self, spec: &Spec, desired: usize, tally: Tally, now: Timestamp, mutant: Mutant) {
        if self.completed {
            return;
        }
        let best = self.best;
        self.best = Tally {
            updated: best.updated.max(tally.updated),
            ready: best.ready.max(tally.ready),
            available: best.available.max(tally.available),
            old: best.old.min(tally.old),
        };
        let stands = |count: usize| tally.available >= count.min(desired) || mutant.is(Mutation::PromotesUntested);
        let beside = canaries(spec).filter(|_| self.stage == Stage::Canaries && self.hold.is_none());
        let waited = std::mem::replace(&mut self.awaits_promotion, beside.is_some_and(stands));
        if self.best != best || waited {
            self.progressed = now;
            self.gave_up = self.gave_up.filter(|_| mutant.is(Mutation::KeepsStaleFailure) || self.is_aborted());
        }
        let all = tally.updated == desired && tally.available == desired && tally.old == 0;
        if all && self.hold.is_none() && beside.is_none() {
            self.completed = true;
            self.gave_up = self.gave_up.filter(|_| mutant.is(Mutation::KeepsStaleFailure));
        } else if self.deadline(spec, mutant).is_some_and(|at| at <= now) && !mutant.is(Mutation::NeverGivesUp) {
            self.gave_up = Some(now);
        }
    }
}

const NONE_YET: Tally = Tally { updated: 0, ready: 0, available: 0, old: usize::MAX };

/// How many canaries a service wants, if it wants any.
fn canaries(spec: &Spec) -> Option<usize> {
    match spec.service()?.update {
        Update::Canary(canary) => Some(canary.canaries as usize),
        Update::Rolling(_) | Update::Recreate => None,
    }
}

impl MainObject {
    /// Whether an action on the rollout has anything to change, if it may be done at all.
    pub(super) fn decide_rollout(&self, action: RolloutAction, mutant: Mutant) -> Result<bool> {
        let rollout = &self.rollout;
        if !matches!(self.spec.kind, Kind::Service(_) | Kind::System(_)) && !mutant.is(Mutation::RestartsJobs) {
            let words = format!("a {} has no rollout", self.spec.kind.name());
            return Err(Error::invalid_argument(words));
        }
        let first = |words: &str| Err(Error::new(ErrorKind::Precondition, words));
        match action {
            RolloutAction::Restart if rollout.stage == Stage::Canaries && !rollout.is_aborted() => {
                first("its canaries were neither promoted nor aborted")
            }
            RolloutAction::Restart if rollout.is_paused() => first("its rollout is paused; resume it"),
            RolloutAction::Restart => Ok(true),
            RolloutAction::Pause if rollout.is_paused() => Ok(false),
            RolloutAction::Pause if rollout.is_aborted() => first("its rollout was aborted"),
            RolloutAction::Pause if rollout.completed && !mutant.is(Mutation::PauseWithoutRollout) => {
                first("it has no rollout that goes on")
            }
            RolloutAction::Pause => Ok(true),
            RolloutAction::Resume => Ok(rollout.is_paused() || mutant.is(Mutation::ResumesAlways)),
            RolloutAction::Promote if rollout.stage == Stage::Promoted => Ok(false),
            RolloutAction::Promote if rollout.awaits_promotion => Ok(true),
            RolloutAction::Promote => first("it has no canaries that stand the test"),
            RolloutAction::Abort if rollout.is_aborted() => Ok(false),
            RolloutAction::Abort if rollout.completed && !mutant.is(Mutation::AbortsWithoutRollout) => {
                first("it has no rollout that goes on")
            }
            RolloutAction::Abort => Ok(true),
        }
    }

    /// Does what was decided to be done.
    pub(super) fn steer(&mut self, action: RolloutAction, now: Timestamp, mutant: Mutant) {
        if action == RolloutAction::Restart {
            self.restart(now);
            return;
        }
        self.edit();
        self.notice_at = now.plus(NOTICE);
        let staying = || self.instances.iter().filter(|i| i.ending.is_none() && i.ended.is_none());
        let new = staying().filter(|i| self.is_current(i)).count();
        let (old, desired) = (staying().count() - new, self.spec.replicas() as usize);
        let rollout = &mut self.rollout;
        match action {
            RolloutAction::Pause => {
                rollout.hold = Some(Hold { aborted: false, new, old, desired });
                // Time that is spent paused counts against no deadline, and so does what was before it.
                rollout.gave_up = None;
            }
            RolloutAction::Resume => rollout.release(self.notice_at),
            RolloutAction::Promote => {
                rollout.stage = Stage::Promoted;
                rollout.awaits_promotion = false;
                rollout.progressed = self.notice_at;
            }
            RolloutAction::Abort => {
                let ends = rollout.stage == Stage::Canaries && !mutant.is(Mutation::AbortKeepsCanaries);
                let (new, old) = if ends { (0, desired) } else { (new, old) };
                rollout.hold = Some(Hold { aborted: true, new, old, desired });
                rollout.awaits_promotion = false;
                rollout.gave_up = Some(now).filter(|_| !mutant.is(Mutation::AbortIsNoFailure));
            }
            RolloutAction::Restart => {}
        }
    }
}
