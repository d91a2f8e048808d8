//! What an operation needs of a backend. Pure: a backend or a layer compares it with its capabilities before anything is
//! sent.

use std::collections::BTreeSet;

use super::{
    Delete, Expose, InstanceAction, Launch, Logs, Plan, RolloutAction, Run, RunWhat, SchedulerOp, Subscription,
};
use crate::capability::Feature;
use crate::version::Guard;
use crate::workload::{
    Check, CheckedWorkload, EnvValue, Identities, Kind, Overlap, Protocol, Role, Update, VolumeSource,
};

/// The features that a workload needs of a backend.
fn features_of(workload: &CheckedWorkload) -> BTreeSet<Feature> {
    let mut needed = features_of_kind(&workload.kind);
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
                VolumeSource::PerInstance(_) => Feature::PerInstanceVolumes,
            },
        );
    }
    need(!workload.placement.require.is_empty(), Feature::NodeRules);
    need(workload.placement.spread.is_some(), Feature::Spread);
    need(workload.identity.is_some(), Feature::Identity);
    need(!workload.pull_secrets.is_empty(), Feature::PullSecrets);
    needed
}

fn features_of_kind(kind: &Kind) -> BTreeSet<Feature> {
    let mut needed = BTreeSet::from([Feature::Launch]);
    let mut need = |condition: bool, feature| {
        if condition {
            needed.insert(feature);
        }
    };
    match kind {
        Kind::Service(service) => {
            need(service.update == Update::Recreate, Feature::Recreate);
            need(matches!(service.update, Update::Canary(_)), Feature::Canaries);
            need(service.identities == Identities::Stable, Feature::StableIdentities);
        }
        Kind::Job(_) => need(true, Feature::Jobs),
        Kind::Periodic(periodic) => {
            need(true, Feature::PeriodicJobs);
            need(periodic.overlap == Overlap::Replace, Feature::ReplaceOverlap);
            need(periodic.starting_deadline.is_some(), Feature::StartingDeadline);
            need(periodic.keep_succeeded.is_some() || periodic.keep_failed.is_some(), Feature::PeriodicHistory);
        }
        Kind::System(_) => need(true, Feature::Systems),
    }
    if let Some(job) = kind.job() {
        need(job.at_a_time() < job.completions, Feature::JobParallelism);
        need(job.deadline.is_some(), Feature::JobDeadline);
        need(job.time_to_live.is_some(), Feature::JobTimeToLive);
    }
    needed
}

fn feature_of(guard: &Guard) -> Option<Feature> {
    match guard {
        Guard::IfVersion(_) => Some(Feature::CompareAndSet),
        Guard::IfPlan(_) => Some(Feature::Plan),
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

fn with_guard(feature: Feature, guard: &Guard) -> BTreeSet<Feature> {
    std::iter::once(feature).chain(feature_of(guard)).collect()
}

impl RolloutAction {
    /// What it needs of a backend.
    #[must_use]
    pub fn feature(self) -> Feature {
        match self {
            Self::Restart => Feature::Restart,
            Self::Pause | Self::Resume => Feature::Pause,
            Self::Promote => Feature::Promote,
            Self::Abort => Feature::Abort,
        }
    }
}

impl Run {
    /// What it needs of a backend.
    #[must_use]
    pub fn features(&self) -> BTreeSet<Feature> {
        match &self.what {
            RunWhat::OneOff(job) => std::iter::once(Feature::RunOneOff).chain(features_of(job)).collect(),
            RunWhat::Now(_) => BTreeSet::from([Feature::RunNow]),
        }
    }
}

impl Plan {
    /// What it needs of a backend: the launch too.
    #[must_use]
    pub fn features(&self) -> BTreeSet<Feature> {
        let mut needed = features_of(&self.workload);
        needed.insert(Feature::Plan);
        needed.extend(feature_of(&self.guard));
        needed
    }
}

impl Expose {
    /// What it needs of a backend.
    #[must_use]
    pub fn features(&self) -> BTreeSet<Feature> {
        let mut needed = with_guard(Feature::Expose, &self.guard);
        if self.routes.iter().any(|route| route.backends.len() > 1) {
            needed.insert(Feature::WeightedRoutes);
        }
        needed
    }
}

impl Subscription {
    /// What it needs of a backend.
    #[must_use]
    pub fn features(&self) -> BTreeSet<Feature> {
        match self {
            Self::Watch(_) => BTreeSet::from([Feature::Watch]),
            Self::Logs(op) => op.features(),
        }
    }
}

impl Logs {
    /// What it needs of a backend.
    #[must_use]
    pub fn features(&self) -> BTreeSet<Feature> {
        let mut needed = BTreeSet::from([Feature::Logs]);
        needed.extend(self.since.map(|_| Feature::LogsSince));
        needed.extend(self.previous.then_some(Feature::PreviousLogs));
        needed
    }
}

impl Delete {
    /// What it needs of a backend.
    #[must_use]
    pub fn features(&self) -> BTreeSet<Feature> {
        with_guard(Feature::Delete, &self.guard)
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
            Self::Scale(op) => with_guard(Feature::Scale, &op.guard),
            Self::Rollout(op) => with_guard(op.action.feature(), &op.guard),
            Self::OnInstance(op) => BTreeSet::from([match op.action {
                InstanceAction::Stop => Feature::StopInstance,
                InstanceAction::Restart => Feature::RestartInstance,
            }]),
            Self::History(_) => BTreeSet::from([Feature::History]),
            Self::MarkHealthy(_) => BTreeSet::from([Feature::MarkHealthy]),
            Self::Run(op) => op.features(),
            Self::Plan(op) => op.features(),
            Self::PutConfig(_) => BTreeSet::from([Feature::PutConfig]),
            Self::Expose(op) => op.features(),
            Self::Unexpose(_) => BTreeSet::from([Feature::Expose]),
            Self::Endpoints(_) => BTreeSet::from([Feature::Endpoints]),
            Self::EnsureNamespace(_) | Self::DeleteNamespace(_) => BTreeSet::from([Feature::Namespaces]),
        }
    }
}
