//! What the containers of a workload write.

use serde::{Deserialize, Serialize};

use crate::name::Target;
use crate::time::Timestamp;

/// Asks for what containers write. See [`Scheduler::logs`](crate::Scheduler::logs).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Logs {
    /// Of which workload.
    pub target: Target,
    /// Only of this instance; of all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// Only of this container; of the main one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Whether to go on with what they will write, and with instances that come later.
    #[serde(default, skip_serializing_if = "crate::workload::is_default")]
    pub follow: bool,
    /// The run of each container before the present one, instead of the present one.
    #[serde(default, skip_serializing_if = "crate::workload::is_default")]
    pub previous: bool,
    /// Only what was written at this time or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Only so many of the last lines of each container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<u32>,
}

impl Logs {
    /// What the main containers of all instances have written so far.
    #[must_use]
    pub fn new(target: Target) -> Self {
        Self { target, instance: None, container: None, follow: false, previous: false, since: None, tail: None }
    }

    /// Only of this instance.
    #[must_use]
    pub fn instance(mut self, instance: impl Into<String>) -> Self {
        self.instance = Some(instance.into());
        self
    }

    /// Of this container instead of the main one.
    #[must_use]
    pub fn container(mut self, container: impl Into<String>) -> Self {
        self.container = Some(container.into());
        self
    }

    /// And what they will write.
    #[must_use]
    pub fn follow(mut self) -> Self {
        self.follow = true;
        self
    }

    /// Of the run before the present one.
    #[must_use]
    pub fn previous(mut self) -> Self {
        self.previous = true;
        self
    }

    /// Only what was written at this time or later.
    #[must_use]
    pub fn since(mut self, time: Timestamp) -> Self {
        self.since = Some(time);
        self
    }

    /// Only so many of the last lines of each container.
    #[must_use]
    pub fn tail(mut self, lines: u32) -> Self {
        self.tail = Some(lines);
        self
    }
}

/// An item of a log stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LogItem {
    /// A line that a container wrote.
    Line(LogLine),
    /// Lines may be missing here: an instance has none that can be had, or some were lost.
    Gap {
        /// The instance.
        instance: String,
        /// The container.
        container: String,
        /// Why, in words.
        why: String,
    },
}

/// A line that a container wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LogLine {
    /// The instance.
    pub instance: String,
    /// The container.
    pub container: String,
    /// To which of its outputs.
    pub stream: LogStream,
    /// When, where the backend knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Timestamp>,
    /// The line, without its end. What is not UTF-8 is replaced.
    pub text: String,
}

impl LogLine {
    /// A line of this container.
    pub fn new(instance: impl Into<String>, container: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            instance: instance.into(),
            container: container.into(),
            stream: LogStream::Unknown,
            time: None,
            text: text.into(),
        }
    }
}

/// An output of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LogStream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
    /// One of the two: the backend does not keep them apart.
    Unknown,
}
