//! What a launch would do, and the token that binds a launch to it.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{CallOptions, Change, Effect, ObjectChange};
use crate::hash;
use crate::name::BackendName;
use crate::version::{Guard, Version};
use crate::workload::{CheckedWorkload, Kind, Replicas, Service};

/// Asks what a launch would do. See [`Scheduler::plan`](crate::Scheduler::plan).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Plan {
    /// What would be launched.
    pub workload: Arc<CheckedWorkload>,
    /// Under which condition; [`Guard::IfPlan`] makes no sense here and is refused.
    #[serde(default)]
    pub guard: Guard,
    /// What the call carries.
    #[serde(default, skip_serializing_if = "CallOptions::is_default")]
    pub call: CallOptions,
}

impl Plan {
    /// A plan under [`Guard::IfOwned`].
    pub fn new(workload: impl Into<Arc<CheckedWorkload>>) -> Self {
        Self { workload: workload.into(), guard: Guard::IfOwned, call: CallOptions::default() }
    }
}

/// What a launch would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Planned {
    /// What it would do. [`Effect::Replaced`]: a launch would be refused, as
    /// [`launch_or_replace`](crate::SchedulerExt::launch_or_replace) is needed.
    pub change: Change,
    /// The native objects, and what would happen to each.
    pub objects: Vec<ObjectChange>,
    /// The fields that would change.
    pub fields: Vec<FieldChange>,
    /// What the backend wants known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Binds a launch to this plan, by [`Guard::IfPlan`].
    pub token: PlanToken,
}

impl Planned {
    /// A plan without objects and fields yet.
    #[must_use]
    pub fn new(change: Change, token: PlanToken) -> Self {
        Self { change, objects: Vec::new(), fields: Vec::new(), warnings: Vec::new(), token }
    }
}

/// A field that would change. Its values are never told, as they may be secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FieldChange {
    /// The native object (`Deployment/web`).
    pub object: String,
    /// The native field (`spec.template.spec.containers[web].image`).
    pub path: String,
    /// What would happen to it.
    pub change: FieldAction,
    /// What it would mean for the instances, where that is known for the field by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
}

impl FieldChange {
    /// A change of this field of this object.
    pub fn new(object: impl Into<String>, path: impl Into<String>, change: FieldAction) -> Self {
        Self { object: object.into(), path: path.into(), change, effect: None }
    }
}

/// What would happen to a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FieldAction {
    /// It is not there yet.
    Added,
    /// It gets another value.
    Changed,
    /// It goes.
    Removed,
}

/// Binds a launch to a plan: to the backend, the workload, its count, and the version that it was made on.
///
/// It is a text that survives the process that asked for the plan.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PlanToken {
    backend: String,
    workload: String,
    state: String,
}

/// A text that is no token of a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no token of a plan (v1:<backend>:<hash>:<hash>)")]
pub struct PlanTokenError(String);

impl PlanToken {
    /// The token of a plan for this workload on a backend where the objects have these versions; none if there is nothing.
    #[must_use]
    pub fn new<'a>(
        backend: &BackendName,
        workload: &CheckedWorkload,
        versions: impl IntoIterator<Item = &'a Version>,
    ) -> Self {
        let mut text = String::new();
        for version in versions {
            text.push_str(version.as_str());
            text.push('\n');
        }
        Self {
            backend: backend.as_str().to_owned(),
            workload: Self::workload(workload),
            state: hash::hex(text.as_bytes(), 32),
        }
    }

    fn workload(workload: &CheckedWorkload) -> String {
        // The count is no part of the revision.
        let replicas = match &workload.kind {
            Kind::Service(Service { replicas: Replicas::Exactly(count), .. }) => format!("exactly {count}"),
            Kind::Service(Service { replicas: Replicas::Keep(count), .. }) => format!("keep {count}"),
            _ => String::new(),
        };
        hash::hex(format!("{} {} {replicas}", workload.target(), workload.revision()).as_bytes(), 32)
    }

    /// Whether it is for this workload on this backend.
    #[must_use]
    pub fn is_for(&self, backend: &BackendName, workload: &CheckedWorkload) -> bool {
        self.backend == backend.as_str() && self.workload == Self::workload(workload)
    }

    /// Whether the objects are as they were when the plan was made: as for [`new`](Self::new).
    #[must_use]
    pub fn holds<'a>(
        &self,
        backend: &BackendName,
        workload: &CheckedWorkload,
        versions: impl IntoIterator<Item = &'a Version>,
    ) -> bool {
        *self == Self::new(backend, workload, versions)
    }
}

impl fmt::Display for PlanToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v1:{}:{}:{}", self.backend, self.workload, self.state)
    }
}

impl fmt::Debug for PlanToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<PlanToken> for String {
    fn from(token: PlanToken) -> Self {
        token.to_string()
    }
}

impl std::str::FromStr for PlanToken {
    type Err = PlanTokenError;

    fn from_str(text: &str) -> Result<Self, PlanTokenError> {
        let parts: Vec<&str> = text.split(':').collect();
        let hash =
            |text: &str| text.len() == 32 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        match parts.as_slice() {
            ["v1", backend, workload, state] if BackendName::new(*backend).is_ok() && hash(workload) && hash(state) => {
                Ok(Self {
                    backend: (*backend).to_owned(),
                    workload: (*workload).to_owned(),
                    state: (*state).to_owned(),
                })
            }
            _ => Err(PlanTokenError(text.to_owned())),
        }
    }
}

impl TryFrom<String> for PlanToken {
    type Error = PlanTokenError;
    fn try_from(text: String) -> Result<Self, PlanTokenError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Container, Workload};

    #[test]
    fn a_token_survives_as_text_and_is_bound_to_what_was_planned() {
        let web = |image: &str, replicas| {
            Workload::service("shop", "web").replicas(replicas).container(Container::new("web", image)).check().unwrap()
        };
        let (backend, version) = (BackendName::memory(), Version::new("7"));
        let token = PlanToken::new(&backend, &web("web:1", 2), [&version]);
        let again: PlanToken = token.to_string().parse().unwrap();
        assert_eq!(again, token);
        assert!(again.holds(&backend, &web("web:1", 2), [&version]));
        assert!(!again.holds(&backend, &web("web:1", 2), [&Version::new("8")]));
        assert!(!again.holds(&backend, &web("web:1", 2), []));
        assert!(!again.is_for(&backend, &web("web:1", 3)) && !again.is_for(&backend, &web("web:2", 2)));
        assert!(!again.is_for(&BackendName::nomad(), &web("web:1", 2)));
        assert!("v1:memory:1:2".parse::<PlanToken>().is_err());
    }
}
