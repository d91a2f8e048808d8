//! What a backend saw, or a deploy came to, as data.

use serde::{Deserialize, Serialize};

use super::app::App;
use super::hook::HookName;
use super::{HookError, LifecycleHooks, Outcome};
use crate::diagnosis::Diagnosis;
use crate::ext::WaitOutcome;
use crate::name::Target;
use crate::op::{FieldChange, RunId};
use crate::workload::is_default;

/// What was seen of an app, for the `on_*` hooks. Unlike an [`Event`](super::Event) it is not stored: whoever missed it looks
/// again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Report {
    /// Requests are to go to these workloads from now on.
    CutOver {
        /// Where to: one workload for each process that had to move.
        to: Vec<Target>,
    },
    /// A deploy ended.
    DeployEnded(DeployEnd),
    /// Something other than the model changed how many instances a workload is to have.
    ReplicasChanged {
        /// The workload.
        target: Target,
        /// What the model wants.
        from: u32,
        /// What is wanted now.
        to: u32,
    },
    /// Instances of a workload are in trouble.
    InstancesFailing {
        /// The workload.
        target: Target,
        /// What the trouble is.
        diagnoses: Vec<Diagnosis>,
    },
    /// A workload is not as the model has it.
    Drifted(Drift),
    /// A run ended.
    RunEnded {
        /// Which one.
        run: RunId,
        /// How.
        outcome: WaitOutcome,
    },
    /// Nothing is left of a destroyed app.
    AppGone,
}

impl Report {
    /// The hook that it is told to.
    #[must_use]
    pub fn hook(&self) -> HookName {
        match self {
            Self::CutOver { .. } => HookName::OnCutOver,
            Self::DeployEnded(_) => HookName::OnDeployEnd,
            Self::ReplicasChanged { .. } => HookName::OnReplicasChange,
            Self::InstancesFailing { .. } => HookName::OnInstancesFailing,
            Self::Drifted(_) => HookName::OnDrift,
            Self::RunEnded { .. } => HookName::OnRunEnd,
            Self::AppGone => HookName::OnAppGone,
        }
    }

    /// Tells it to the hook of its kind.
    ///
    /// # Errors
    /// Those of the hook.
    pub async fn tell(&self, app: &App, hooks: &dyn LifecycleHooks) -> Result<Outcome, HookError> {
        match self {
            Self::CutOver { to } => hooks.on_cut_over(app, to).await,
            Self::DeployEnded(end) => hooks.on_deploy_end(app, end).await,
            Self::ReplicasChanged { target, from, to } => hooks.on_replicas_change(app, target, *from, *to).await,
            Self::InstancesFailing { target, diagnoses } => hooks.on_instances_failing(app, target, diagnoses).await,
            Self::Drifted(drift) => hooks.on_drift(app, drift).await,
            Self::RunEnded { run, outcome } => hooks.on_run_end(app, run, outcome).await,
            Self::AppGone => hooks.on_app_gone(app).await,
        }
    }
}

/// How the deploy of a release ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct DeployEnd {
    /// The release.
    pub release: u64,
    /// Whether it runs now, and requests go to it.
    pub succeeded: bool,
    /// The release that runs instead, if it was taken back.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rolled_back_to: Option<u64>,
    /// Why it did not succeed, in words.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reason: Option<String>,
}

impl DeployEnd {
    /// The end of this release's deploy.
    #[must_use]
    pub fn new(release: u64, succeeded: bool) -> Self {
        Self { release, succeeded, rolled_back_to: None, reason: None }
    }
}

/// How a workload differs from what the model has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Drift {
    /// The workload.
    pub target: Target,
    /// In what way.
    pub kind: DriftKind,
    /// The single fields, as far as the backend tells.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fields: Vec<FieldChange>,
}

impl Drift {
    /// This kind of difference.
    #[must_use]
    pub fn new(target: Target, kind: DriftKind) -> Self {
        Self { target, kind, fields: Vec::new() }
    }
}

/// In what way a workload differs from what the model has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DriftKind {
    /// It is not there.
    Missing,
    /// It is there and is not as it should be.
    Changed,
    /// It is there and should not be.
    Surplus,
}
