//! What was launched ([`Revision`]), the state that an update was based on ([`Version`]), and the [`Guard`] of a change.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::op::PlanToken;

/// What was launched: `v1:` and a hash of the canonical [`Workload`](crate::Workload) without its replicas.
///
/// The same workload has the same revision on every backend and with every version of this library. Scaling and
/// restarting leave it as it is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Revision(String);

/// A text that is not a revision.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a revision (v1: and 40 hex digits)")]
pub struct RevisionError(String);

impl Revision {
    pub(crate) fn of_hash(hex: &str) -> Self {
        Self(format!("v1:{hex}"))
    }

    /// The revision as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first twelve hex digits, for people.
    #[must_use]
    pub fn short(&self) -> &str {
        self.0.get(3..15).unwrap_or(&self.0)
    }
}

impl std::str::FromStr for Revision {
    type Err = RevisionError;

    fn from_str(text: &str) -> Result<Self, RevisionError> {
        let hex = text.strip_prefix("v1:").unwrap_or_default();
        let lower_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        if hex.len() == 40 && hex.chars().all(lower_hex) {
            Ok(Self(text.to_owned()))
        } else {
            Err(RevisionError(text.to_owned()))
        }
    }
}

impl TryFrom<String> for Revision {
    type Error = RevisionError;
    fn try_from(text: String) -> Result<Self, RevisionError> {
        text.parse()
    }
}

impl From<Revision> for String {
    fn from(revision: Revision) -> Self {
        revision.0
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An opaque token for compare-and-set, made by a backend and given back to it.
///
/// It changes whenever anybody changes what launch writes into the main object; it may also change without that, but
/// never misses it.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(String);

impl Version {
    /// Wraps a backend's token.
    pub fn new(token: impl Into<String>) -> Self {
        Self(token.into())
    }

    /// The token.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Under which condition a change may be made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Guard {
    /// What is absent is made, what is ours is changed, what is somebody else's is a conflict that names the owner.
    #[default]
    IfOwned,
    /// Only if nothing is there, neither ours nor somebody else's, nor something that is still being deleted.
    IfAbsent,
    /// Only if it is there, ours, and this is still its version.
    IfVersion(Version),
    /// Only if everything is still as it was when this [plan](crate::Scheduler::plan) was made. For launch alone.
    IfPlan(PlanToken),
    /// Whoever owns it, it becomes ours; the reply says from whom it was taken.
    Adopt,
}
