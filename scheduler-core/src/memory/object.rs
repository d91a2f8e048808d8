//! The native objects of the simulation, and how a workload is rendered into them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::instance::Instance;
use super::mutation::{Mutant, Mutation};
use super::rollout::Rollout;
use super::timing::NOTICE;
use crate::{
    CheckedWorkload, Container, Cpu, Kind, Marks, Memory, OwnerId, Placement, Port, Revision, Role, Seconds, Target,
    Timestamp, Update, Version, Volume, VolumeSource,
};

/// The native kind of the main object.
pub(super) const WORKLOAD: &str = "Workload";
/// The native kind of the object that makes ports reachable.
pub(super) const SERVICE: &str = "Service";

/// All that an instance is made from. When it changes, instances are replaced.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Template {
    pub(super) containers: Vec<Container>,
    pub(super) needs: Needs,
    pub(super) volumes: Vec<Volume>,
    pub(super) placement: Placement,
    pub(super) identity: Option<String>,
    pub(super) pull_secrets: Vec<String>,
    pub(super) grace: Seconds,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
}

/// What an instance takes up of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    pub(super) cpu_millis: u64,
    pub(super) memory_bytes: u64,
}

/// What the main object asks for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spec {
    pub(super) replicas: u32,
    pub(super) update: Update,
    pub(super) min_ready: Seconds,
    pub(super) patience: Seconds,
    pub(super) template: Arc<Template>,
}

/// What launch writes beside the spec.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Meta {
    pub(super) owner: Option<OwnerId>,
    pub(super) marks: Marks,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) revision: Option<Revision>,
}

/// The native objects that a workload is rendered into.
#[derive(Clone, Debug)]
pub(super) struct Rendered {
    pub(super) meta: Meta,
    pub(super) spec: Spec,
    /// `None` without ports: then there is no Service.
    pub(super) service: Option<ServiceSpec>,
}

/// What launch writes into a Service.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ServiceSpec {
    pub(super) owner: Option<OwnerId>,
    pub(super) ports: Vec<Port>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
}

/// Renders a workload, with a count that was resolved by the caller.
pub(super) fn render(workload: &CheckedWorkload, owner: &OwnerId, replicas: u32) -> Rendered {
    let Kind::Service(service) = &workload.kind;
    let template = Template {
        containers: workload.containers.clone(),
        needs: Needs::of(workload),
        volumes: workload.volumes.clone(),
        placement: workload.placement.clone(),
        identity: workload.identity.clone(),
        pull_secrets: workload.pull_secrets.clone(),
        grace: workload.termination_grace,
        labels: workload.labels.clone(),
        annotations: workload.annotations.clone(),
    };
    let ports: Vec<Port> = workload.containers.iter().flat_map(|c| c.ports.iter().cloned()).collect();
    Rendered {
        meta: Meta {
            owner: Some(owner.clone()),
            marks: workload.marks.clone(),
            labels: workload.labels.clone(),
            annotations: workload.annotations.clone(),
            revision: Some(workload.revision().clone()),
        },
        spec: Spec {
            replicas,
            update: service.update,
            min_ready: service.min_ready,
            patience: workload.progress_deadline,
            template: Arc::new(template),
        },
        service: (!ports.is_empty()).then(|| ServiceSpec {
            owner: Some(owner.clone()),
            ports,
            labels: workload.labels.clone(),
            annotations: workload.annotations.clone(),
        }),
    }
}

impl Needs {
    /// The sum over the containers that run beside one another, or the largest init container if that is more: init
    /// containers run alone.
    fn of(workload: &CheckedWorkload) -> Self {
        let (mut beside, mut alone) = (Self::default(), Self::default());
        for container in workload.containers() {
            let cpu = container.resources.cpu_request.map_or(0, Cpu::millis);
            let memory = container.resources.memory_request.map_or(0, Memory::bytes);
            if container.role == Role::Init {
                alone.cpu_millis = alone.cpu_millis.max(cpu);
                alone.memory_bytes = alone.memory_bytes.max(memory);
            } else {
                beside.cpu_millis = beside.cpu_millis.saturating_add(cpu);
                beside.memory_bytes = beside.memory_bytes.saturating_add(memory);
            }
        }
        Self {
            cpu_millis: beside.cpu_millis.max(alone.cpu_millis),
            memory_bytes: beside.memory_bytes.max(alone.memory_bytes),
        }
    }
}

impl Template {
    /// The claims that an instance needs before it can be placed.
    pub(super) fn claims(&self) -> impl Iterator<Item = &str> {
        self.volumes.iter().filter_map(|volume| match &volume.source {
            VolumeSource::Claim(claim) => Some(claim.as_str()),
            _ => None,
        })
    }
}

impl Spec {
    /// Whether nothing but the count differs.
    fn equals_but_for_count(&self, other: &Self) -> bool {
        Self { replicas: other.replicas, ..self.clone() } == *other
    }
}

/// The main object of a workload, with the state of its rollout and its instances.
#[derive(Clone, Debug)]
pub(super) struct MainObject {
    pub(super) target: Target,
    /// Unlike that of any other object that ever was in the cluster.
    pub(super) incarnation: u64,
    pub(super) meta: Meta,
    /// Annotations that no launch wrote. They are nobody's drift.
    pub(super) foreign: BTreeMap<String, String>,
    pub(super) spec: Spec,
    /// What the last launch asked for.
    launched: Option<Spec>,
    /// Counts the writes of what launch writes.
    edits: u64,
    /// Counts all writes.
    pub(super) writes: u64,
    /// When the controller takes notice of the last change of the spec.
    pub(super) notice_at: Timestamp,
    pub(super) deleting: bool,
    /// Since when the platform refuses to make instances.
    pub(super) refused: Option<Timestamp>,
    pub(super) rollout: Rollout,
    pub(super) instances: Vec<Instance>,
}

impl MainObject {
    pub(super) fn new(target: Target, incarnation: u64, meta: Meta, spec: Spec, now: Timestamp) -> Self {
        let notice_at = now.plus(NOTICE);
        Self {
            target,
            incarnation,
            launched: meta.revision.is_some().then(|| spec.clone()),
            meta,
            foreign: BTreeMap::new(),
            spec,
            edits: 1,
            writes: 1,
            notice_at,
            deleting: false,
            refused: None,
            rollout: Rollout::new(notice_at),
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
        Some(shown_revision(revision, self.spec.replicas, mutant))
    }

    /// Writes what a launch rendered.
    pub(super) fn launch(&mut self, meta: Meta, spec: Spec, now: Timestamp, mutant: Mutant) {
        self.launched = Some(spec.clone());
        self.meta = meta;
        self.respec(spec, now, mutant);
    }

    /// Changes the spec, whoever does so. A new template begins a new rollout; with the old one the rollout stays
    /// complete if it was, and what was said of its failure is withdrawn.
    pub(super) fn respec(&mut self, spec: Spec, now: Timestamp, mutant: Mutant) {
        self.edits += 1;
        self.writes += 1;
        if spec == self.spec {
            return;
        }
        self.notice_at = now.plus(NOTICE);
        let completed = self.rollout.completed && spec.template == self.spec.template;
        let stale = self.rollout.gave_up.filter(|_| mutant.is(Mutation::KeepsStaleFailure));
        self.rollout = Rollout::new(self.notice_at);
        (self.rollout.completed, self.rollout.gave_up) = (completed, stale);
        self.spec = spec;
    }

    /// Somebody puts another owner's mark on it, or takes ours away.
    pub(super) fn take_over(&mut self, owner: Option<OwnerId>) {
        self.meta.owner = owner;
        self.edits += 1;
        self.writes += 1;
    }

    /// Begins to delete it. That is a change, so that no launch that was decided before is written over it.
    pub(super) fn delete(&mut self, now: Timestamp) {
        self.deleting = true;
        self.edits += 1;
        self.writes += 1;
        self.end_instances(now);
    }

    /// Ends all instances; unless it is deleted, the controller makes them anew.
    pub(super) fn end_instances(&mut self, now: Timestamp) {
        for instance in &mut self.instances {
            instance.end(now);
        }
    }

    /// Changes the spec without any token telling so.
    pub(super) fn respec_in_secret(&mut self, spec: Spec, now: Timestamp, mutant: Mutant) {
        let edits = self.edits;
        self.respec(spec, now, mutant);
        self.edits = edits;
    }
}

/// A Service of the simulation.
#[derive(Clone, Debug)]
pub(super) struct ServiceObject {
    pub(super) spec: ServiceSpec,
    pub(super) incarnation: u64,
    /// Counts all writes.
    pub(super) writes: u64,
}

/// The revision as it is shown.
pub(super) fn shown_revision(revision: &Revision, replicas: u32, mutant: Mutant) -> Revision {
    if mutant.is(Mutation::RevisionCountsReplicas) {
        return Revision::of_hash(&crate::hash::hex(format!("{revision}/{replicas}").as_bytes(), 40));
    }
    revision.clone()
}
