//! What happened to a model, as data.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::app::{App, AppVolume, Domain};
use super::hook::HookName;
use super::{HookError, LifecycleHooks, Outcome};
use crate::name::WorkloadName;
use crate::op::RunKey;
use crate::time::Timestamp;
use crate::workload::{Workload, is_default};

/// A fact about one app, with the whole state that the app is to be in after it.
///
/// Its written form is kept: a later version of this library reads what an earlier one wrote. One that is written by a later
/// version, with a field or a kind that this one does not know, is refused and never half understood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Event {
    /// Names the event, and it alone. A hook that wants to know whether it has done this already, asks for it.
    pub id: EventId,
    /// When the model changed.
    pub at: Timestamp,
    /// What happened.
    pub kind: EventKind,
    /// The app after it.
    pub app: Box<App>,
}

impl Event {
    /// An event of this app.
    #[must_use]
    pub fn new(id: EventId, at: Timestamp, kind: EventKind, app: App) -> Self {
        Self { id, at, kind, app: Box::new(app) }
    }

    /// The hook that it is told to.
    #[must_use]
    pub fn hook(&self) -> HookName {
        use HookName as N;
        match &self.kind {
            EventKind::AppCreated => N::PostAppCreate,
            EventKind::AppTransferred { .. } => N::PostAppTransfer,
            EventKind::AppDestroyed => N::PostAppDestroy,
            EventKind::PolicyChanged => N::PostPolicyChange,
            EventKind::ConfigChanged => N::PostConfigChange,
            EventKind::RegistriesChanged => N::PostRegistryChange,
            EventKind::ReleaseCreated => N::PostReleaseCreate,
            EventKind::FormationChanged { .. } => N::PostFormationChange,
            EventKind::RestartRequested { .. } => N::PostRestartRequest,
            EventKind::RunRequested(_) => N::PostRunRequest,
            EventKind::FrontChanged => N::PostFrontChange,
            EventKind::DomainAdded(_) => N::PostDomainAdd,
            EventKind::DomainRemoved(_) => N::PostDomainRemove,
            EventKind::CertificateAttached { .. } => N::PostCertificateAttach,
            EventKind::CertificateDetached { .. } => N::PostCertificateDetach,
            EventKind::VolumeCreated { .. } => N::PostVolumeCreate,
            EventKind::VolumeDeleted { .. } => N::PostVolumeDelete,
            EventKind::Other { .. } => N::Other,
        }
    }

    /// Tells it to the hook of its kind.
    ///
    /// # Errors
    /// Those of the hook.
    pub async fn tell(&self, hooks: &dyn LifecycleHooks) -> Result<Outcome, HookError> {
        match &self.kind {
            EventKind::AppCreated => hooks.post_app_create(self).await,
            EventKind::AppTransferred { from } => hooks.post_app_transfer(self, from.as_deref()).await,
            EventKind::AppDestroyed => hooks.post_app_destroy(self).await,
            EventKind::PolicyChanged => hooks.post_policy_change(self).await,
            EventKind::ConfigChanged => hooks.post_config_change(self).await,
            EventKind::RegistriesChanged => hooks.post_registry_change(self).await,
            EventKind::ReleaseCreated => hooks.post_release_create(self).await,
            EventKind::FormationChanged { from } => hooks.post_formation_change(self, from).await,
            EventKind::RestartRequested { process } => hooks.post_restart_request(self, process.as_ref()).await,
            EventKind::RunRequested(run) => hooks.post_run_request(self, run).await,
            EventKind::FrontChanged => hooks.post_front_change(self).await,
            EventKind::DomainAdded(domain) => hooks.post_domain_add(self, domain).await,
            EventKind::DomainRemoved(domain) => hooks.post_domain_remove(self, domain).await,
            EventKind::CertificateAttached { host, certificate } => {
                hooks.post_certificate_attach(self, host, certificate).await
            }
            EventKind::CertificateDetached { host, certificate } => {
                hooks.post_certificate_detach(self, host, certificate).await
            }
            EventKind::VolumeCreated { name } => hooks.post_volume_create(self, name).await,
            EventKind::VolumeDeleted { name, volume } => hooks.post_volume_delete(self, name, volume).await,
            EventKind::Other { name, data } => hooks.other(self, name, data).await,
        }
    }
}

/// What happened to an app or to a part of it. Each is a fact of the model; what follows from it is the hooks' affair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum EventKind {
    /// The app is new.
    AppCreated,
    /// The app belongs to somebody else now.
    AppTransferred {
        /// Whose it was.
        #[serde(default, skip_serializing_if = "is_default")]
        from: Option<String>,
    },
    /// The app is no more. Its last event: [`Event::app`] is how it was.
    AppDestroyed,
    /// Its quota or its isolation.
    PolicyChanged,
    /// Its configuration; the release that will use it may follow.
    ConfigChanged,
    /// The registries that its images come from, or their credentials.
    RegistriesChanged,
    /// There is a new release: [`App::release`]. A rollback is one too.
    ReleaseCreated,
    /// How many instances its processes are to have.
    FormationChanged {
        /// How many they were to have before.
        #[serde(default, skip_serializing_if = "is_default")]
        from: BTreeMap<WorkloadName, u32>,
    },
    /// Somebody asked for new instances of the same release.
    RestartRequested {
        /// Of this process; of all, if absent.
        #[serde(default, skip_serializing_if = "is_default")]
        process: Option<WorkloadName>,
    },
    /// Somebody asked for a job to be run once.
    RunRequested(Box<OneOff>),
    /// Which process requests from outside go to, or whether any do.
    FrontChanged,
    /// A domain is the app's now.
    DomainAdded(Domain),
    /// A domain is the app's no more.
    DomainRemoved(Domain),
    /// A domain has a certificate now.
    CertificateAttached {
        /// The domain.
        host: String,
        /// The certificate's name.
        certificate: String,
    },
    /// A domain has its certificate no more.
    CertificateDetached {
        /// The domain.
        host: String,
        /// The certificate's name; it may still be attached to another domain.
        certificate: String,
    },
    /// There is a new volume.
    VolumeCreated {
        /// Its name; the rest is in [`App::volumes`].
        name: String,
    },
    /// A volume is no more, nor what it held.
    VolumeDeleted {
        /// Its name.
        name: String,
        /// What it was.
        volume: AppVolume,
    },
    /// Something that only this platform knows.
    Other {
        /// Its name.
        name: String,
        /// What belongs to it.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        data: Value,
    },
}

/// A job to be run once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct OneOff {
    /// Names the run: the same key twice is one run.
    pub key: RunKey,
    /// The job.
    pub job: Workload,
}

impl OneOff {
    /// This job under this key.
    #[must_use]
    pub fn new(key: RunKey, job: Workload) -> Self {
        Self { key, job }
    }
}

/// The name of an event: any text that no other event has (a UUID, a row's number).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventId(String);

impl EventId {
    /// This text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
