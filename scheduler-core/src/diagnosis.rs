//! What is wrong with a workload, enumerated, with the evidence for it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::FaultOf;
use crate::time::Timestamp;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Diagnosis {
    /// What it is.
    pub kind: DiagnosisKind,
    /// The instance that has it; `None` for the workload as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The container that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Whether it concerns what was launched last (and not instances that are on their way out).
    pub current: bool,
    /// Since when, by the server's clock.
    pub since: Timestamp,
    /// What the server says of it, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What was seen.
    #[serde(default, skip_serializing_if = "Evidence::is_empty")]
    pub evidence: Evidence,
}

/// What can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DiagnosisKind {
    /// The image could not be pulled.
    ImagePull,
    /// The image reference is not one.
    InvalidImage,
    /// A configuration or one of its entries is not there.
    ConfigMissing,
    /// A volume cannot be had.
    VolumeUnavailable,
    /// No node has room or fits the rules.
    Unschedulable,
    /// The platform refuses to make instances (a quota, an admission rule, a missing identity).
    CreationRefused,
    /// A container could not be started.
    StartError,
    /// A container ends again and again.
    CrashLoop,
    /// A container used more memory than it may.
    OutOfMemory,
    /// An instance runs and is not ready, for longer than the patience.
    NotReady,
    /// An instance was thrown off its node.
    Evicted,
    /// The node of an instance does not answer any more.
    NodeLost,
    /// The platform gave up on the rollout and says no more.
    RolloutDeadline,
    /// An instance of a job ended badly, and has no tries left.
    Exited,
    /// A job took longer than its deadline.
    JobDeadline,
}

impl DiagnosisKind {
    /// Whether it may pass without a new launch.
    #[must_use]
    pub fn recoverable(self) -> bool {
        self != Self::InvalidImage
    }

    /// Whose fault it is.
    #[must_use]
    pub fn fault(self) -> FaultOf {
        match self {
            Self::ConfigMissing => FaultOf::Caller,
            Self::ImagePull
            | Self::InvalidImage
            | Self::StartError
            | Self::CrashLoop
            | Self::OutOfMemory
            | Self::NotReady
            | Self::RolloutDeadline
            | Self::Exited
            | Self::JobDeadline => FaultOf::Workload,
            Self::VolumeUnavailable | Self::Unschedulable | Self::CreationRefused | Self::Evicted | Self::NodeLost => {
                FaultOf::Platform
            }
        }
    }

    /// A few words for people.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::ImagePull => "the image cannot be pulled",
            Self::InvalidImage => "the image reference is invalid",
            Self::ConfigMissing => "a configuration is missing",
            Self::VolumeUnavailable => "a volume cannot be had",
            Self::Unschedulable => "no node has room or fits the rules",
            Self::CreationRefused => "the platform refuses to make instances",
            Self::StartError => "a container cannot be started",
            Self::CrashLoop => "a container ends again and again",
            Self::OutOfMemory => "a container ran out of memory",
            Self::NotReady => "an instance does not become ready",
            Self::Evicted => "an instance was evicted",
            Self::NodeLost => "a node was lost",
            Self::RolloutDeadline => "the rollout made no progress",
            Self::Exited => "an instance ended badly",
            Self::JobDeadline => "the job took longer than its deadline",
        }
    }
}

impl fmt::Display for DiagnosisKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Evidence {
    /// The exit code of the container's last end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// How often it was started again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarts: Option<u32>,
    /// The last events about it, oldest first. Only in a status with [`Detail::Evidence`](crate::Detail::Evidence).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventLine>,
}

impl Evidence {
    /// Whether nothing was seen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// One event of the backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EventLine {
    /// When it was last seen.
    pub time: Timestamp,
    /// The backend's word for it.
    pub reason: String,
    /// The backend's words.
    pub message: String,
    /// How often it was seen.
    pub count: u32,
}

impl EventLine {
    /// An event that was seen once.
    pub fn new(time: Timestamp, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { time, reason: reason.into(), message: message.into(), count: 1 }
    }
}

impl Diagnosis {
    /// A diagnosis of what was launched last, without evidence yet.
    #[must_use]
    pub fn new(kind: DiagnosisKind, since: Timestamp) -> Self {
        Self {
            kind,
            instance: None,
            container: None,
            current: true,
            since,
            message: String::new(),
            evidence: Evidence::default(),
        }
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.instance, &self.container) {
            (Some(instance), Some(container)) => write!(f, "{instance} ({container}): ")?,
            (Some(instance), None) => write!(f, "{instance}: ")?,
            _ => {}
        }
        write!(f, "{}", self.kind)?;
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        let e = &self.evidence;
        let seen = [
            e.exit_code.map(|code| format!("exit code {code}")),
            e.signal.map(|signal| format!("signal {signal}")),
            e.restarts.filter(|count| *count > 0).map(|count| format!("{count} restarts")),
        ];
        let seen: Vec<String> = seen.into_iter().flatten().collect();
        if !seen.is_empty() {
            write!(f, " ({})", seen.join(", "))?;
        }
        Ok(())
    }
}
