//! The native kinds that a workload can be.

use scheduler_core::{CheckedWorkload, Error, Identities, Kind, KindName};
use scheduler_k8s_client::Resource;
use serde_json::Value;

use crate::render::unknown;

/// What a workload's main object is.
///
/// A workload has one main object, which bears its name, and owns all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum MainKind {
    /// Of a service whose instances are interchangeable.
    Deployment,
    /// Of a service whose instances have stable identities.
    StatefulSet,
    /// Of a system.
    DaemonSet,
    /// Of a job, and of each run.
    Job,
    /// Of a periodic job.
    CronJob,
}

impl MainKind {
    /// Every kind, the commonest first.
    pub const ALL: [Self; 5] = [Self::Deployment, Self::StatefulSet, Self::DaemonSet, Self::Job, Self::CronJob];

    /// What this workload's main object is.
    ///
    /// # Errors
    /// [`Unsupported`](scheduler_core::ErrorKind::Unsupported) for a kind that only a newer version knows.
    pub fn of(workload: &CheckedWorkload) -> Result<Self, Error> {
        Ok(match &workload.kind {
            Kind::Service(service) if service.identities == Identities::Stable => Self::StatefulSet,
            Kind::Service(_) => Self::Deployment,
            Kind::System(_) => Self::DaemonSet,
            Kind::Job(_) => Self::Job,
            Kind::Periodic(_) => Self::CronJob,
            _ => return Err(unknown("this kind of workload")),
        })
    }

    /// The kind of workload that it stands for.
    #[must_use]
    pub fn workload(self) -> KindName {
        match self {
            Self::Deployment | Self::StatefulSet => KindName::Service,
            Self::DaemonSet => KindName::System,
            Self::Job => KindName::Job,
            Self::CronJob => KindName::Periodic,
        }
    }

    /// Where the server has it.
    #[must_use]
    pub fn resource(self) -> &'static Resource {
        match self {
            Self::Deployment => &Resource::DEPLOYMENT,
            Self::StatefulSet => &Resource::STATEFUL_SET,
            Self::DaemonSet => &Resource::DAEMON_SET,
            Self::Job => &Resource::JOB,
            Self::CronJob => &Resource::CRON_JOB,
        }
    }

    /// Its kind in manifests.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.resource().kind
    }

    /// What stands between it and its Pods, or tells which of them are of its present template.
    pub(crate) fn between(self) -> Option<&'static Resource> {
        match self {
            Self::Deployment => Some(&Resource::REPLICA_SET),
            Self::DaemonSet => Some(&Resource::CONTROLLER_REVISION),
            Self::CronJob => Some(&Resource::JOB),
            Self::StatefulSet | Self::Job => None,
        }
    }

    /// The pod template of a main object.
    pub(crate) fn template(self, main: &Value) -> &Value {
        match self {
            Self::CronJob => &main["spec"]["jobTemplate"]["spec"]["template"],
            _ => &main["spec"]["template"],
        }
    }
}
