//! What a workload is rendered into: the native objects as launch writes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{
    CheckedWorkload, Container, Cpu, Identities, Kind, Marks, Memory, OwnerId, PerInstanceVolume, Placement, Port,
    Replicas, Revision, Role, Seconds, Service, Volume, VolumeSource,
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
    /// That of the workload, with the count of a service resolved.
    pub(super) kind: Kind,
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

/// Renders a workload, with a count that was resolved by the caller; it matters for services alone.
pub(super) fn render(workload: &CheckedWorkload, owner: &OwnerId, replicas: u32) -> Rendered {
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
    let spec = Spec { kind: workload.kind.clone(), patience: workload.progress_deadline, template: Arc::new(template) };
    Rendered {
        meta: Meta {
            owner: Some(owner.clone()),
            marks: workload.marks.clone(),
            labels: workload.labels.clone(),
            annotations: workload.annotations.clone(),
            revision: Some(workload.revision().clone()),
        },
        spec: spec.with_replicas(replicas),
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

    /// The volumes that each instance has for itself.
    pub(super) fn own_volumes(&self) -> impl Iterator<Item = (&str, &PerInstanceVolume)> {
        self.volumes.iter().filter_map(|volume| match &volume.source {
            VolumeSource::PerInstance(own) => Some((volume.name.as_str(), own)),
            _ => None,
        })
    }
}

impl Spec {
    /// What only a service has.
    pub(super) fn service(&self) -> Option<&Service> {
        if let Kind::Service(service) = &self.kind { Some(service) } else { None }
    }

    /// How many instances a service has; none for other kinds.
    pub(super) fn replicas(&self) -> u32 {
        self.service().map_or(0, |service| service.replicas.written())
    }

    /// The same with so many instances, if it is a service.
    pub(super) fn with_replicas(&self, count: u32) -> Self {
        let mut spec = self.clone();
        if let Kind::Service(service) = &mut spec.kind {
            service.replicas = Replicas::Exactly(count);
        }
        spec
    }

    /// How long an instance must be ready before it counts as available.
    pub(super) fn min_ready(&self) -> Seconds {
        match &self.kind {
            Kind::Service(service) => service.min_ready,
            Kind::System(system) => system.min_ready,
            Kind::Job(_) | Kind::Periodic(_) => Seconds::default(),
        }
    }

    pub(super) fn is_stable(&self) -> bool {
        self.service().is_some_and(|service| service.identities == Identities::Stable)
    }

    /// Whether nothing but the count differs.
    pub(super) fn equals_but_for_count(&self, other: &Self) -> bool {
        self.with_replicas(other.replicas()) == *other
    }

    /// Whether what is there must go before this can be: another kind, or something that no platform changes in place.
    pub(super) fn must_replace(&self, live: &Self) -> bool {
        let own = |spec: &Self| -> Vec<(String, PerInstanceVolume)> {
            spec.template.own_volumes().map(|(name, own)| (name.to_owned(), own.clone())).collect()
        };
        self.kind.name() != live.kind.name() || self.is_stable() != live.is_stable() || own(self) != own(live)
    }
}
