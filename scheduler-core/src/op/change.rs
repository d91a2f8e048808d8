//! Operations on what runs already: its count, its rollout, one of its instances.

use serde::{Deserialize, Serialize};

use super::CallOptions;
use crate::name::Target;
use crate::version::{Guard, Version};

/// Changes how many instances a service has, and nothing else. See [`Scheduler::scale`](crate::Scheduler::scale).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Scale {
    /// Which workload.
    pub target: Target,
    /// How many instances.
    pub count: u32,
    /// Under which condition; [`Guard::IfAbsent`] and [`Guard::Adopt`] make no sense here and are refused.
    #[serde(default)]
    pub guard: Guard,
    /// What the call carries.
    #[serde(default, skip_serializing_if = "CallOptions::is_default")]
    pub call: CallOptions,
}

impl Scale {
    /// To so many instances, under [`Guard::IfOwned`].
    #[must_use]
    pub fn new(target: Target, count: u32) -> Self {
        Self { target, count, guard: Guard::IfOwned, call: CallOptions::default() }
    }
}

/// What a scale did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Scaled {
    /// How many instances were wanted before.
    pub from: u32,
    /// How many are wanted now.
    pub to: u32,
    /// The token for compare-and-set after it.
    pub version: Version,
    /// What the backend wants known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Scaled {
    /// From so many to so many.
    #[must_use]
    pub fn new(from: u32, to: u32, version: Version) -> Self {
        Self { from, to, version, warnings: Vec::new() }
    }
}

/// Steers how a revision is rolled out. See [`Scheduler::rollout`](crate::Scheduler::rollout).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Rollout {
    /// Which workload.
    pub target: Target,
    /// What is to be done.
    pub action: RolloutAction,
    /// Under which condition; [`Guard::IfAbsent`] and [`Guard::Adopt`] make no sense here and are refused.
    #[serde(default)]
    pub guard: Guard,
    /// What the call carries.
    #[serde(default, skip_serializing_if = "CallOptions::is_default")]
    pub call: CallOptions,
}

impl Rollout {
    /// This action, under [`Guard::IfOwned`].
    #[must_use]
    pub fn new(target: Target, action: RolloutAction) -> Self {
        Self { target, action, guard: Guard::IfOwned, call: CallOptions::default() }
    }
}

/// What is to be done with a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RolloutAction {
    /// Every instance is replaced by a new one of the same revision, within the bounds of the update.
    Restart,
    /// The rollout that goes on stops where it is: no further instance of the revision before is replaced.
    Pause,
    /// A paused rollout goes on.
    Resume,
    /// What stood the test as a canary replaces all other instances.
    Promote,
    /// The rollout is given up: canaries end, and what ran before them stays.
    Abort,
}

impl RolloutAction {
    /// Its name as text.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Restart => "restart",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Promote => "promote",
            Self::Abort => "abort",
        }
    }
}

impl std::fmt::Display for RolloutAction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a rollout action did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Steered {
    /// Whether anything was changed: pausing what is paused already changes nothing.
    pub changed: bool,
    /// The token for compare-and-set after it.
    pub version: Version,
    /// What the backend wants known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Steered {
    /// Whether anything was changed, and the version after it.
    #[must_use]
    pub fn new(changed: bool, version: Version) -> Self {
        Self { changed, version, warnings: Vec::new() }
    }
}

/// Does something to one instance. See [`Scheduler::instance`](crate::Scheduler::instance).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct OnInstance {
    /// Of which workload.
    pub target: Target,
    /// The instance's id, as a status tells it.
    pub instance: String,
    /// What is to be done.
    pub action: InstanceAction,
    /// What the call carries.
    #[serde(default, skip_serializing_if = "CallOptions::is_default")]
    pub call: CallOptions,
}

impl OnInstance {
    /// This action.
    pub fn new(target: Target, instance: impl Into<String>, action: InstanceAction) -> Self {
        Self { target, instance: instance.into(), action, call: CallOptions::default() }
    }
}

/// What is to be done to an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum InstanceAction {
    /// It ends, and another one takes its place.
    Stop,
    /// Its containers end and are started again, in the same instance.
    Restart,
}

impl std::fmt::Display for InstanceAction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Stop => "stop",
            Self::Restart => "restart",
        })
    }
}

/// What an action on an instance found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum InstanceAnswer {
    /// It was told.
    Told,
    /// It has ended, or is on its way out, already.
    WasEnding,
}
