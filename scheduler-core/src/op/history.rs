//! What was launched before, and which of it was good.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::CallOptions;
use crate::name::Target;
use crate::time::Timestamp;
use crate::version::Revision;
use crate::workload::CheckedWorkload;

/// Asks for the revisions that are kept. See [`Scheduler::history`](crate::Scheduler::history).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct History {
    /// Of which workload.
    pub target: Target,
    /// What the call carries.
    #[serde(default, skip_serializing_if = "CallOptions::is_default")]
    pub call: CallOptions,
}

impl History {
    /// The history of this workload.
    #[must_use]
    pub fn new(target: Target) -> Self {
        Self { target, call: CallOptions::default() }
    }
}

/// The revisions that are kept, the one that was launched last first. Empty if the workload is not there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Revisions {
    /// Each once, however often it was launched.
    pub entries: Vec<HistoryEntry>,
}

impl Revisions {
    /// These entries, in this order.
    #[must_use]
    pub fn new(entries: Vec<HistoryEntry>) -> Self {
        Self { entries }
    }

    /// The entry of this revision.
    #[must_use]
    pub fn get(&self, revision: &Revision) -> Option<&HistoryEntry> {
        self.entries.iter().find(|entry| entry.revision == *revision)
    }

    /// The one that was launched last of those that were marked healthy.
    #[must_use]
    pub fn last_healthy(&self) -> Option<&HistoryEntry> {
        self.entries.iter().find(|entry| entry.healthy)
    }
}

/// A revision that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HistoryEntry {
    /// Which one.
    pub revision: Revision,
    /// What was launched.
    pub workload: Arc<CheckedWorkload>,
    /// When it was launched last, by the server's clock.
    pub launched: Timestamp,
    /// Whether it is what was launched last.
    pub current: bool,
    /// Whether somebody said by [`MarkHealthy`] that it was good.
    pub healthy: bool,
}

impl HistoryEntry {
    /// An entry that is neither current nor marked.
    #[must_use]
    pub fn new(workload: Arc<CheckedWorkload>, launched: Timestamp) -> Self {
        Self { revision: workload.revision().clone(), workload, launched, current: false, healthy: false }
    }
}

/// Says that a revision was good. See [`Scheduler::mark_healthy`](crate::Scheduler::mark_healthy).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct MarkHealthy {
    /// Of which workload.
    pub target: Target,
    /// Which revision.
    pub revision: Revision,
    /// What the call carries.
    #[serde(default, skip_serializing_if = "CallOptions::is_default")]
    pub call: CallOptions,
}

impl MarkHealthy {
    /// This revision was good.
    #[must_use]
    pub fn new(target: Target, revision: Revision) -> Self {
        Self { target, revision, call: CallOptions::default() }
    }
}

/// The mark is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MarkedHealthy {
    /// It was not there before.
    Now,
    /// It was there already; nothing was written.
    Already,
}
