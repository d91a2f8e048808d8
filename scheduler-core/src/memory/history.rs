//! What was launched before, kept with the main object.

use std::sync::Arc;

use super::decide;
use super::mutation::{Mutant, Mutation};
use super::world::World;
use crate::{
    CheckedWorkload, ConfigRef, EnvValue, Error, ErrorKind, HistoryEntry, MarkHealthy, OwnerId, Result, Revision,
    Revisions, Target, Timestamp, VolumeSource,
};

/// So many revisions are kept of those that were marked healthy, and as many of the others.
const KEPT: usize = 10;

/// What was launched before, what was launched last first.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    entries: Vec<HistoryEntry>,
}

impl Ledger {
    /// Takes in a launch. Each revision stands in it once, and keeps its mark.
    pub(super) fn record(&mut self, workload: &Arc<CheckedWorkload>, now: Timestamp, mutant: Mutant) {
        let revision = workload.revision();
        if self.entries.first().is_some_and(|last| last.revision == *revision) {
            return;
        }
        let mut entry = HistoryEntry::new(Arc::clone(workload), now);
        if !mutant.is(Mutation::HistoryKeepsDuplicates)
            && let Some(at) = self.entries.iter().position(|entry| entry.revision == *revision)
        {
            if mutant.is(Mutation::HistoryKeepsOrder) {
                return;
            }
            entry.healthy = self.entries.remove(at).healthy && !mutant.is(Mutation::RelaunchForgetsMark);
        }
        self.entries.insert(0, entry);
        self.trim(mutant);
    }

    /// Lets go of what is too old.
    fn trim(&mut self, mutant: Mutant) {
        let most = if mutant.is(Mutation::HistoryKeepsTwo) { 2 } else { KEPT };
        let (mut healthy, mut others) = (0, 0);
        self.entries.retain(|entry| {
            let apart = entry.healthy && !mutant.is(Mutation::FailuresPushOutTheHealthy);
            let kept = if apart { &mut healthy } else { &mut others };
            *kept += 1;
            *kept <= most
        });
    }

    /// The entries, the first of which is current.
    fn revisions(&self) -> Revisions {
        let current = |(at, entry): (usize, &HistoryEntry)| HistoryEntry { current: at == 0, ..entry.clone() };
        Revisions::new(self.entries.iter().enumerate().map(current).collect())
    }

    /// What was launched last.
    pub(super) fn current(&self) -> Option<&Arc<CheckedWorkload>> {
        self.entries.first().map(|entry| &entry.workload)
    }

    fn entry(&mut self, revision: &Revision) -> Option<&mut HistoryEntry> {
        self.entries.iter_mut().find(|entry| entry.revision == *revision)
    }

    /// Whether anything that is kept refers to a configuration.
    pub(super) fn refers_to(&self, config: &ConfigRef) -> bool {
        self.entries.iter().any(|entry| refers_to(&entry.workload, config))
    }
}

fn refers_to(workload: &CheckedWorkload, config: &ConfigRef) -> bool {
    let in_env = |value: &EnvValue| matches!(value, EnvValue::Config(entry) if entry.name == config.name && entry.version == config.version);
    workload.containers.iter().flat_map(|container| &container.env).any(|var| in_env(&var.value))
        || workload.volumes.iter().any(|v| matches!(&v.source, VolumeSource::Config(used) if used == config))
}

impl World {
    /// The revisions that are kept of a workload.
    pub(super) fn history(&self, target: &Target, me: &OwnerId) -> Revisions {
        self.workloads.get(target).filter(|object| object.is_of(me)).map_or_else(Revisions::default, |object| {
            let mut revisions = object.history.revisions();
            if self.mutant.is(Mutation::HealthyByReading) && object.rollout.completed {
                revisions.entries.iter_mut().filter(|entry| entry.current).for_each(|entry| entry.healthy = true);
            }
            revisions
        })
    }

    /// Whether a revision is marked already, if it may be marked.
    pub(super) fn decide_mark(&self, op: &MarkHealthy, me: &OwnerId) -> Result<bool> {
        let object = decide::ours(self, &op.target, me)?;
        let revisions = object.history.revisions();
        let entry = revisions.get(&op.revision);
        if entry.is_none() && self.mutant.is(Mutation::MarksWhatIsNotKept) {
            return Ok(true);
        }
        entry.map(|entry| entry.healthy).ok_or_else(|| {
            let words = format!("the revision {} is not among those that are kept", op.revision);
            Error::new(ErrorKind::Precondition, words)
        })
    }

    /// Marks a revision. Neither the version nor an instance moves.
    pub(super) fn mark(&mut self, op: &MarkHealthy, me: &OwnerId) -> Result<()> {
        self.decide_mark(op, me)?;
        let (now, mutant) = (self.now, self.mutant);
        if let Some(object) = self.workloads.get_mut(&op.target) {
            if let Some(entry) = object.history.entry(&op.revision) {
                entry.healthy = true;
            }
            object.writes += 1;
            if mutant.is(Mutation::MarkMovesVersion) {
                object.edit();
            }
            if mutant.is(Mutation::MarkReplacesInstances) {
                object.end_instances(now);
            }
        }
        Ok(())
    }
}
