//! What Nomad's JSON says, as far as a scheduler reads or writes it.
//!
//! Three rules hold for every struct here (`nomad` answers `null` for any empty list, leaves fields out at will, and gets
//! new fields with each release):
//!
//! - A field that is absent or `null` has its default value, and a field of default value is not written.
//! - Where the server tells "absent" from zero (`Count`, `KillTimeout` and their like) the field is an `Option`.
//! - A field that is not modelled is kept in `extra` and written back as it came. So reading a [`Job`], changing one
//!   field and registering it loses nothing.
//!
//! `Debug` shows identities and states only: a job holds environment variables, registry passwords and templates.

mod allocation;
mod evaluation;
mod job;
mod list;
mod node;
mod plan;
mod scaling;
mod service;
mod task;
mod variable;
mod volume;

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize};

pub use allocation::{
    AllocDeploymentStatus, AllocatedPort, AllocatedResources, Allocation, ClientStatus, Deployment, DeploymentGroup,
    DeploymentStatus, DesiredStatus, SharedResources, TaskEvent, TaskState, TaskStateName,
};
pub use evaluation::{AllocMetric, EvalStatus, Evaluation};
pub use job::{Constraint, Job, JobStatus, JobType, ParameterizedJob, Periodic, Submission, VersionTag};
pub use list::{AgentMember, AgentSelf, GroupSummary, JobChildren, JobStub, JobSummary, Namespace};
pub use node::{Node, NodeDriver, NodeEligibility, NodeStatus};
pub use plan::{
    DesiredUpdates, DiffType, FieldDiff, JobDiff, ObjectDiff, PlanAnnotations, Planned, TaskDiff, TaskGroupDiff,
};
pub use scaling::{GroupScale, ScaleStatus, ScalingEvent};
pub use service::{CheckResult, CheckStatus, NamespaceServices, ServiceName, ServiceRegistration};
pub use task::{
    EphemeralDisk, Lifecycle, LogConfig, Network, Port, ReschedulePolicy, Resources, RestartPolicy, Service,
    ServiceCheck, Task, TaskGroup, Template, Update, VolumeMount, VolumeRequest,
};
pub use variable::{Secret, Variable, VariableStub};
pub use volume::{HostVolume, NewHostVolume};

/// Defines a struct of Nomad's JSON by the three rules above. `shows` lists the fields that `Debug` may print.
macro_rules! model {
    ($(#[$meta:meta])* $name:ident shows [$($shown:ident),* $(,)?] {
        $($(#[$field_meta:meta])* $field:ident: $type:ty,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "PascalCase")]
        #[non_exhaustive]
        pub struct $name {
            $(
                $(#[$field_meta])*
                #[serde(
                    default,
                    deserialize_with = "crate::model::nullable",
                    skip_serializing_if = "crate::model::is_default"
                )]
                pub $field: $type,
            )*
            /// Every field that is not named above, as it came.
            #[serde(flatten)]
            pub extra: std::collections::BTreeMap<String, serde_json::Value>,
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))$(.field(stringify!($shown), &self.$shown))*.finish_non_exhaustive()
            }
        }
    };
}
pub(crate) use model;

/// Defines an enum for the words of one of Nomad's fields, open for words to come.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(from = "String", into = "String")]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$variant_meta])* $variant,)+
            /// A word that this crate does not know; empty where the server says nothing.
            Other(String),
        }

        impl $name {
            /// The word, as Nomad spells it.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)+
                    Self::Other(word) => word,
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::Other(String::new())
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl From<String> for $name {
            fn from(word: String) -> Self {
                match word.as_str() {
                    $($word => Self::$variant,)+
                    _ => Self::Other(word),
                }
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                Self::from(word.to_owned())
            }
        }

        impl From<$name> for String {
            fn from(word: $name) -> Self {
                word.as_str().to_owned()
            }
        }
    };
}
pub(crate) use words;

/// Reads `null` as the default.
pub(crate) fn nullable<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(input: D) -> Result<T, D::Error> {
    Option::deserialize(input).map(Option::unwrap_or_default)
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A duration on the wire: whole nanoseconds. The server refuses any other form, `"10s"` included.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(i64);

impl Nanos {
    /// The nanoseconds. Negative ones occur as marks, such as a deadline of −1.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }

    /// This many nanoseconds.
    #[must_use]
    pub const fn new(nanoseconds: i64) -> Self {
        Self(nanoseconds)
    }

    /// The same as a [`Duration`]; zero if it is negative.
    #[must_use]
    pub const fn to_duration(self) -> Duration {
        // Not negative, so nothing is lost.
        Duration::from_nanos(if self.0 < 0 { 0 } else { self.0.unsigned_abs() })
    }
}

impl From<Duration> for Nanos {
    /// Above some 292 years it stays there.
    fn from(duration: Duration) -> Self {
        Self(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl fmt::Debug for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ns", self.0)
    }
}

/// A point in time on the wire: nanoseconds since 1970, by the server's clock. Zero means "not said".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnixNanos(i64);

impl UnixNanos {
    /// The nanoseconds since 1970.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }

    /// The same as a [`SystemTime`], or `None` if the server did not say.
    #[must_use]
    pub fn to_system_time(self) -> Option<SystemTime> {
        let nanoseconds = u64::try_from(self.0).ok().filter(|nanoseconds| *nanoseconds > 0)?;
        UNIX_EPOCH.checked_add(Duration::from_nanos(nanoseconds))
    }
}
