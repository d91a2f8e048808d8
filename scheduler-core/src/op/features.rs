//! What an operation needs of a backend. Pure: a backend or a layer compares it with its capabilities before anything is
//! sent.

use std::collections::BTreeSet;

use super::{Delete, Launch, SchedulerOp};
use crate::capability::Feature;
use crate::version::Guard;
use crate::workload::{Check, CheckedWorkload, EnvValue, Kind, Protocol, Role, Update, VolumeSource};

/// The features that a workload needs of a backend.
fn features_of(workload: &CheckedWorkload) -> BTreeSet<Feature> {
    let mut needed = BTreeSet::from([Feature::Launch]);
    let mut need = |condition: bool, feature| {
        if condition {
            needed.insert(feature);
        }
    };
    for container in &workload.containers {
        need(container.role == Role::Sidecar, Feature::Sidecars);
        need(container.role == Role::Init, Feature::InitContainers);
        need(container.ports.iter().any(|port| port.protocol == Protocol::Udp), Feature::UdpPorts);
        need(container.probes.startup.is_some(), Feature::StartupProbes);
        for (_, probe) in container.probes.iter() {
            need(
                true,
                match probe.check {
                    Check::Http(_) | Check::Https(_) => Feature::HttpProbes,
                    Check::Tcp(_) => Feature::TcpProbes,
                    Check::Exec(_) => Feature::ExecProbes,
                    Check::Grpc(_) => Feature::GrpcProbes,
                },
            );
        }
        for var in &container.env {
            need(matches!(var.value, EnvValue::Config(_)), Feature::ConfigReferences);
            need(matches!(var.value, EnvValue::Field(_)), Feature::RuntimeFields);
        }
    }
    for volume in &workload.volumes {
        need(
            true,
            match volume.source {
                VolumeSource::Empty(_) => Feature::EmptyVolumes,
                VolumeSource::Host(_) => Feature::HostVolumes,
                VolumeSource::Claim(_) => Feature::ClaimVolumes,
                VolumeSource::Config(_) => Feature::ConfigReferences,
            },
        );
    }
    need(!workload.placement.require.is_empty(), Feature::NodeRules);
    need(workload.placement.spread.is_some(), Feature::Spread);
    need(workload.identity.is_some(), Feature::Identity);
    need(!workload.pull_secrets.is_empty(), Feature::PullSecrets);
    let Kind::Service(service) = &workload.kind;
    need(service.update == Update::Recreate, Feature::Recreate);
    needed
}

fn feature_of(guard: &Guard) -> Option<Feature> {
    match guard {
        Guard::IfVersion(_) => Some(Feature::CompareAndSet),
        Guard::Adopt => Some(Feature::Adopt),
        Guard::IfOwned | Guard::IfAbsent => None,
    }
}

impl Launch {
    /// What it needs of a backend.
    #[must_use]
    pub fn features(&self) -> BTreeSet<Feature> {
        let mut needed = features_of(&self.workload);
        needed.extend(feature_of(&self.guard));
        needed
    }
}

impl Delete {
    /// What it needs of a backend.
    #[must_use]
    pub fn features(&self) -> BTreeSet<Feature> {
        std::iter::once(Feature::Delete).chain(feature_of(&self.guard)).collect()
    }
}

impl SchedulerOp {
    /// What it needs of a backend. Pure; a backend or a layer compares it with the [`Capabilities`](crate::Capabilities)
    /// before anything is sent.
    #[must_use]
    pub fn features(&self) -> BTreeSet<Feature> {
        match self {
            Self::Launch(op) => op.features(),
            Self::Delete(op) => op.features(),
            Self::Status(_) => BTreeSet::from([Feature::Status]),
            Self::List(_) => BTreeSet::from([Feature::List]),
            Self::Ping(_) => BTreeSet::from([Feature::Ping]),
        }
    }
}
