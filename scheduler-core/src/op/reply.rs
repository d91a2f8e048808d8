//! What operations answer.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::name::OwnerId;
use crate::observation::Observation;
use crate::version::{Revision, Version};

/// What a launch did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Launched {
    /// What it did.
    pub change: Change,
    /// What is launched now.
    pub revision: Revision,
    /// The token for compare-and-set after it.
    pub version: Version,
    /// The native objects, and what happened to each.
    pub objects: Vec<ObjectChange>,
    /// From whom it was taken over, with [`Guard::Adopt`](crate::Guard::Adopt). `Some(None)`: from nobody who said so.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "taken")]
    pub adopted_from: Option<Option<OwnerId>>,
    /// What the backend wants known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// JSON has one null for two kinds of nothing; an object keeps them apart.
mod taken {
    use super::OwnerId;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Taken {
        owner: Option<OwnerId>,
    }

    #[expect(clippy::ref_option, reason = "serde passes a reference")]
    pub(super) fn serialize<S: Serializer>(from: &Option<Option<OwnerId>>, serializer: S) -> Result<S::Ok, S::Error> {
        from.clone().map(|owner| Taken { owner }).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<OwnerId>>, D::Error> {
        Ok(Option::<Taken>::deserialize(deserializer)?.map(|taken| taken.owner))
    }
}

impl Launched {
    /// An answer without objects yet.
    #[must_use]
    pub fn new(change: Change, revision: Revision, version: Version) -> Self {
        Self { change, revision, version, objects: Vec::new(), adopted_from: None, warnings: Vec::new() }
    }
}

/// What a launch did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Change {
    /// It was not there.
    Created,
    /// It was as described already; nothing was written.
    Unchanged,
    /// It was changed.
    Updated(Effect),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Created => "created",
            Self::Unchanged => "unchanged",
            Self::Updated(Effect::InPlace) => "updated in place",
            Self::Updated(Effect::Rolling) => "updated, rolling",
            Self::Updated(Effect::Replaced) => "replaced",
        })
    }
}

/// What an update means for the instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Effect {
    /// None that stays is replaced.
    InPlace,
    /// Instances are replaced, the native object is kept.
    Rolling,
    /// The native object is deleted and made again.
    Replaced,
}

/// A native object, and what happened to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ObjectChange {
    /// Its native kind (`Deployment`).
    pub kind: String,
    /// Its name.
    pub name: String,
    /// What happened to it.
    pub action: ObjectAction,
}

impl ObjectChange {
    /// What happened to this object.
    pub fn new(kind: impl Into<String>, name: impl Into<String>, action: ObjectAction) -> Self {
        Self { kind: kind.into(), name: name.into(), action }
    }
}

/// What happened to a native object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ObjectAction {
    /// It was made.
    Created,
    /// It was as it should be.
    Unchanged,
    /// It was changed.
    Updated,
    /// It was surplus and is deleted.
    Deleted,
}

/// What a delete found and did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Deleted {
    /// It was there and is gone, with all that belonged to it.
    Gone,
    /// It is on its way out; call again, or wait.
    Deleting {
        /// What is still there.
        remaining: Vec<String>,
        /// What holds it up, where the backend says so.
        blocked_by: Vec<String>,
    },
    /// There was nothing.
    WasAbsent,
}

/// All of our workloads that pass the filter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Listed {
    /// With [`Detail::Counts`](crate::Detail::Counts), in the order of their targets.
    pub workloads: Vec<Observation>,
}

impl Listed {
    /// These workloads, put in order.
    #[must_use]
    pub fn new(mut workloads: Vec<Observation>) -> Self {
        workloads.sort_by(|a, b| a.target.cmp(&b.target));
        Self { workloads }
    }
}

/// The backend is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Pong {
    /// What the server calls its version.
    pub server_version: String,
}

impl Pong {
    /// A server of this version.
    pub fn new(server_version: impl Into<String>) -> Self {
        Self { server_version: server_version.into() }
    }
}

/// The answer to a status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
#[expect(clippy::exhaustive_structs, reason = "it is there or not")]
pub struct Found(
    /// What was seen; `None` only when the backend said that it is not there.
    pub Option<Box<Observation>>,
);
