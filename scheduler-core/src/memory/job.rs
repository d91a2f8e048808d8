//! The controller of jobs: instances run until enough of them have ended well.

use std::time::Duration;

use std::sync::Arc;

use super::instance::Instance;
use super::mutation::{Mutant, Mutation};
use super::object::{MainObject, Place};
use super::timing::{FIRST_BACK_OFF, LAST_BACK_OFF};
use crate::{Diagnosis, DiagnosisKind, Evidence, Exit, Finished, Job, Timestamp};

/// How a job gets on, beyond what its instances tell.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct JobState {
    /// How it ended, and when.
    pub(super) finished: Option<(Finished, Timestamp)>,
    /// Since when it has been past its deadline.
    overdue: Option<Timestamp>,
}

/// One of the completions of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Completion {
    succeeded: bool,
    /// How many of its instances ended badly, and when the last of them did.
    failed: u32,
    last: Option<Timestamp>,
    /// How many of its instances have not ended.
    live: u32,
}

impl Completion {
    /// Whether there will be no further instance of it.
    fn is_settled(&self, retries: u32) -> bool {
        self.succeeded || self.failed > retries
    }

    /// When its next instance may be made.
    fn due(&self) -> Option<Timestamp> {
        let waits = self.failed.saturating_sub(1).min(16);
        let wait = FIRST_BACK_OFF.saturating_mul(1 << waits).min(LAST_BACK_OFF);
        self.last.map(|last| last.plus(wait))
    }
}

/// How the instances of a job ended by themselves.
fn own_ends(instances: &[Instance]) -> impl Iterator<Item = (&Instance, Timestamp, bool)> {
    instances.iter().filter_map(|instance| {
        let ended = instance.ended.as_ref().filter(|ended| ended.by_itself)?;
        Some((instance, ended.at, ended.is_success()))
    })
}

fn completions(job: &Job, instances: &[Instance]) -> Vec<Completion> {
    let mut all = vec![Completion::default(); job.completions as usize];
    let at = |instance: &Instance| instance.place.ordinal.unwrap_or(0) as usize;
    for (instance, ended, success) in own_ends(instances) {
        let Some(completion) = all.get_mut(at(instance)) else { continue };
        completion.succeeded |= success;
        completion.failed += u32::from(!success);
        completion.last = completion.last.max(Some(ended));
    }
    for instance in instances.iter().filter(|instance| instance.ended.is_none()) {
        if let Some(completion) = all.get_mut(at(instance)) {
            completion.live += 1;
        }
    }
    all
}

impl MainObject {
    /// One look of the controller at a job. Whether it did anything. Instances that are not `allowed` are refused instead
    /// of made.
    pub(super) fn reconcile_job(
        &mut self,
        job: &Job,
        allowed: bool,
        serial: &mut u64,
        now: Timestamp,
        mutant: Mutant,
    ) -> bool {
        if self.job.finished.is_some() {
            return false;
        }
        let over = job.deadline.is_some_and(|deadline| self.created.plus(deadline.duration()) <= now);
        if over && self.job.overdue.is_none() && !mutant.is(Mutation::ForgetsJobDeadline) {
            self.job.overdue = Some(now);
            self.end_instances(now);
            return true;
        }
        let all = completions(job, &self.instances);
        let live: u32 = all.iter().map(|completion| completion.live).sum();
        let retries = if mutant.is(Mutation::ForgetsRetries) { 0 } else { job.retries };
        let settled = all.iter().all(|completion| completion.is_settled(retries));
        if live == 0 && (settled || self.job.overdue.is_some()) {
            let complete = all.iter().all(|completion| completion.succeeded)
                || mutant.is(Mutation::FailedJobIsComplete)
                || (mutant.is(Mutation::NeverStartedIsExitZero) && self.job.overdue.is_some());
            let finished = if complete { Finished::Complete } else { Finished::Failed };
            self.job.finished = Some((finished, now));
            return true;
        }
        if self.job.overdue.is_some() {
            return false;
        }
        let most = if mutant.is(Mutation::RunsTooManyAtOnce) { job.completions } else { job.at_a_time() };
        let open = (0_u32..).zip(&all).filter(|(_, completion)| {
            completion.live == 0 && !completion.is_settled(retries) && completion.due().is_none_or(|due| due <= now)
        });
        let next: Vec<u32> = open.map(|(at, _)| at).take(most.saturating_sub(live) as usize).collect();
        let since = self.refused.unwrap_or(now);
        self.refused = (!allowed && !next.is_empty()).then_some(since);
        for ordinal in next.iter().filter(|_| allowed) {
            let place = Place { ordinal: (job.completions > 1).then_some(*ordinal), node: None };
            self.make(Arc::clone(&self.spec.template), place, serial, now);
        }
        allowed && !next.is_empty()
    }

    /// When something is due for a job by itself, past times included.
    pub(super) fn job_due(&self) -> Vec<Timestamp> {
        let Some(job) = self.spec.kind.job() else { return Vec::new() };
        match self.job.finished {
            Some((_, at)) => job.time_to_live.map(|span| at.plus(span.duration())).into_iter().collect(),
            None => {
                let deadline = job.deadline.map(|span| self.created.plus(span.duration()));
                let retries = completions(job, &self.instances).into_iter().filter_map(|completion| completion.due());
                deadline.into_iter().chain(retries).collect()
            }
        }
    }

    /// Whether a job has been kept for long enough after its end.
    pub(super) fn has_expired(&self, now: Timestamp) -> bool {
        let span = self.spec.kind.job().and_then(|job| job.time_to_live).map(crate::Seconds::duration);
        self.job.finished.zip(span).is_some_and(|((_, at), span): (_, Duration)| at.plus(span) <= now)
    }

    /// How many completions were reached, and how many instances ended badly.
    pub(super) fn job_counts(&self) -> (u32, u32) {
        let Some(job) = self.spec.kind.job() else { return (0, 0) };
        let succeeded = completions(job, &self.instances).iter().filter(|completion| completion.succeeded).count();
        let failed = own_ends(&self.instances).filter(|(_, _, success)| !success).count();
        (u32::try_from(succeeded).unwrap_or(u32::MAX), u32::try_from(failed).unwrap_or(u32::MAX))
    }

    /// Why a job failed: what ended badly last of each completion that was not reached, and the deadline.
    pub(super) fn job_diagnoses(&self) -> Vec<Diagnosis> {
        let Some((Finished::Failed, _)) = self.job.finished else { return Vec::new() };
        let reached = |ordinal: Option<u32>| {
            own_ends(&self.instances).any(|(i, _, success)| success && i.place.ordinal == ordinal)
        };
        let last = |instance: &Instance| {
            own_ends(&self.instances)
                .filter(|(i, ..)| i.place.ordinal == instance.place.ordinal)
                .max_by_key(|(_, at, _)| *at)
                .is_some_and(|(i, ..)| i.id == instance.id)
        };
        let of_end = own_ends(&self.instances)
            .filter(|(instance, _, success)| !success && !reached(instance.place.ordinal) && last(instance))
            .filter_map(|(instance, at, _)| {
                let (container, exit) = instance.ended.as_ref()?.failure.clone()?;
                Some(Diagnosis {
                    instance: Some(instance.id.clone()),
                    container: Some(container),
                    evidence: evidence(exit),
                    ..Diagnosis::new(kind_of(exit), at)
                })
            });
        let overdue = self.job.overdue.map(|since| Diagnosis::new(DiagnosisKind::JobDeadline, since));
        of_end.chain(overdue).collect()
    }
}

fn kind_of(exit: Exit) -> DiagnosisKind {
    if exit.out_of_memory { DiagnosisKind::OutOfMemory } else { DiagnosisKind::Exited }
}

fn evidence(exit: Exit) -> Evidence {
    Evidence { exit_code: Some(exit.code), signal: exit.signal, ..Evidence::default() }
}
