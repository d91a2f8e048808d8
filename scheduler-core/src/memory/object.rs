//! The main object of a workload, and who may change what of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::history::Ledger;
use super::instance::Instance;
use super::job::JobState;
use super::mutation::{Mutant, Mutation};
use super::periodic::Schedule;
use super::render::{Meta, SERVICE, ServiceSpec, Spec, Template};
use super::rollout::Rollout;
use super::timing::NOTICE;
use crate::{CheckedWorkload, Kind, OwnerId, Revision, Target, Timestamp, Version};

/// The main object of a workload, with the state of its rollout and its instances.
#[derive(Clone, Debug)]
pub(super) struct MainObject {
    pub(super) target: Target,
    /// Unlike that of any other object that ever was in the cluster.
    pub(super) incarnation: u64,
    /// The periodic workload that it is a run of.
    pub(super) run_of: Option<Target>,
    pub(super) created: Timestamp,
    pub(super) meta: Meta,
    /// Annotations that no launch wrote. They are nobody's drift.
    pub(super) foreign: BTreeMap<String, String>,
    pub(super) spec: Spec,
    /// What the last launch asked for.
    launched: Option<Spec>,
    /// When a launch changed something last.
    pub(super) changed: Option<Timestamp>,
    pub(super) history: Ledger,
    /// Counts the writes of what launch writes.
    edits: u64,
    /// Counts all writes.
    pub(super) writes: u64,
    /// How often all instances were restarted. Those of an earlier count are not current any more.
    pub(super) restarted: u64,
    /// When the controller takes notice of the last change of the spec.
    pub(super) notice_at: Timestamp,
    pub(super) deleting: bool,
    /// Since when the platform refuses to make instances.
    pub(super) refused: Option<Timestamp>,
    pub(super) rollout: Rollout,
    pub(super) job: JobState,
    pub(super) schedule: Schedule,
    pub(super) instances: Vec<Instance>,
}

impl MainObject {
    pub(super) fn new(target: Target, incarnation: u64, meta: Meta, spec: Spec, now: Timestamp) -> Self {
        let notice_at = now.plus(NOTICE);
        Self {
            target,
            incarnation,
            run_of: None,
            created: now,
            launched: meta.revision.is_some().then(|| spec.clone()),
            changed: meta.revision.is_some().then_some(now),
            meta,
            foreign: BTreeMap::new(),
            schedule: Schedule::new(&spec, now),
            spec,
            history: Ledger::default(),
            edits: 1,
            writes: 1,
            restarted: 0,
            notice_at,
            deleting: false,
            refused: None,
            rollout: Rollout::new(notice_at),
            job: JobState::default(),
            instances: Vec::new(),
        }
    }

    /// The token for compare-and-set. It counts the writes of what launch writes, whoever did that.
    pub(super) fn version(&self, mutant: Mutant) -> Version {
        if mutant.is(Mutation::VersionSurvivesRecreation) {
            return Version::new(self.edits.to_string());
        }
        Version::new(format!("{}.{}", self.incarnation, self.edits))
    }

    /// What was launched last, unless somebody changed the spec since. Scaling is no such change.
    pub(super) fn revision(&self, mutant: Mutant) -> Option<Revision> {
        let launched = self.launched.as_ref()?;
        let revision = self.meta.revision.as_ref().filter(|_| launched.equals_but_for_count(&self.spec))?;
        let moved = (mutant.is(Mutation::RestartChangesRevision) && self.restarted > 0)
            || (mutant.is(Mutation::ScaleChangesRevision) && launched.replicas() != self.spec.replicas());
        (!moved).then(|| shown_revision(revision, self.spec.replicas(), mutant))
    }

    pub(super) fn is_of(&self, owner: &OwnerId) -> bool {
        self.meta.owner.as_ref() == Some(owner)
    }

    /// Whether an instance is of what was launched last. All that a job has are.
    pub(super) fn is_current(&self, instance: &Instance) -> bool {
        self.spec.kind.job().is_some() || (instance.is_of(&self.spec.template) && instance.restarted == self.restarted)
    }

    /// Those of its instances that have not ended.
    pub(super) fn live(&self) -> impl Iterator<Item = &Instance> {
        self.instances.iter().filter(|instance| instance.ended.is_none())
    }

    /// The workload to whose configurations its containers refer.
    pub(super) fn configured_as(&self) -> &Target {
        self.run_of.as_ref().unwrap_or(&self.target)
    }

    /// Writes what a launch rendered. Whatever was held up goes on.
    pub(super) fn launch(
        &mut self,
        workload: &Arc<CheckedWorkload>,
        meta: Meta,
        spec: Spec,
        now: Timestamp,
        mutant: Mutant,
    ) {
        self.launched = Some(spec.clone());
        self.meta = meta;
        self.changed = Some(now);
        self.history.record(workload, now, mutant);
        if !mutant.is(Mutation::KeepsPauseAfterLaunch) {
            self.rollout.release(now.plus(NOTICE));
        }
        if mutant.is(Mutation::EndedJobRunsAgain) {
            self.job = JobState::default();
            self.instances.clear();
        }
        self.respec(spec, now, mutant);
    }

    /// Changes the spec, whoever does so. A new template begins a new rollout; with the old one the rollout stays
    /// complete if it was, and what was said of its failure is withdrawn.
    pub(super) fn respec(&mut self, spec: Spec, now: Timestamp, mutant: Mutant) {
        self.edit();
        if spec == self.spec {
            return;
        }
        self.notice_at = now.plus(NOTICE);
        self.rollout = self.rollout.next(&self.spec, &spec, self.notice_at, mutant);
        if spec.kind != self.spec.kind {
            self.schedule.restart(&spec, now);
        }
        self.spec = spec;
    }

    /// Counts a write of what launch writes.
    pub(super) fn edit(&mut self) {
        self.edits += 1;
        self.writes += 1;
    }

    /// Somebody puts another owner's mark on it, or takes ours away.
    pub(super) fn take_over(&mut self, owner: Option<OwnerId>) {
        self.meta.owner = owner;
        self.edit();
    }

    /// Begins to delete it. That is a change, so that no launch that was decided before is written over it.
    pub(super) fn delete(&mut self, now: Timestamp) {
        if !self.deleting {
            self.deleting = true;
            self.edit();
            self.end_instances(now);
        }
    }

    /// Ends all instances; unless it is deleted, the controller makes them anew.
    pub(super) fn end_instances(&mut self, now: Timestamp) {
        for instance in &mut self.instances {
            instance.end(now);
        }
    }

    /// Replaces all instances by ones of the same template.
    pub(super) fn restart(&mut self, now: Timestamp) {
        self.edit();
        self.restarted += 1;
        self.notice_at = now.plus(NOTICE);
        self.rollout = self.rollout.again(&self.spec, self.notice_at);
    }

    /// Makes an instance of a template.
    pub(super) fn make(&mut self, template: Arc<Template>, place: Place, serial: &mut u64, now: Timestamp) {
        *serial += 1;
        let mut instance = Instance::new(self.target.name.as_str(), *serial, template, place, now);
        instance.restarted = self.restarted;
        instance.runs_to_end = matches!(self.spec.kind, Kind::Job(_));
        self.instances.push(instance);
    }

    /// Changes the spec without any token telling so.
    pub(super) fn respec_in_secret(&mut self, spec: Spec, now: Timestamp, mutant: Mutant) {
        let edits = self.edits;
        self.respec(spec, now, mutant);
        self.edits = edits;
    }
}

/// What an instance is in place of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// Its ordinal, if it has one.
    pub(super) ordinal: Option<u32>,
    /// The only node on which it may run, if it is for one.
    pub(super) node: Option<String>,
}

/// A Service of the simulation.
#[derive(Clone, Debug)]
pub(super) struct ServiceObject {
    pub(super) spec: ServiceSpec,
    pub(super) incarnation: u64,
    /// Counts all writes.
    pub(super) writes: u64,
}

impl ServiceObject {
    /// Unlike that of any other state of any Service.
    pub(super) fn version(&self) -> Version {
        Version::new(format!("{SERVICE} {}.{}", self.incarnation, self.writes))
    }
}

/// The revision as it is shown.
pub(super) fn shown_revision(revision: &Revision, replicas: u32, mutant: Mutant) -> Revision {
    if mutant.is(Mutation::RevisionCountsReplicas) {
        return Revision::of_hash(&crate::hash::hex(format!("{revision}/{replicas}").as_bytes(), 40));
    }
    revision.clone()
}
