//! The operations as data: what is asked, and what is answered.
//!
//! Every operation is a struct, taken by the [`Scheduler`](crate::Scheduler) trait as its only argument, and is one
//! variant of [`SchedulerOp`], which layers, logs and servers handle. Its answer is one variant of [`Reply`], shared with
//! no other operation.

mod change;
mod config;
mod features;
mod history;
mod logs;
mod namespace;
mod plan;
mod reply;
mod route;
mod run;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use change::{InstanceAction, InstanceAnswer, OnInstance, Rollout, RolloutAction, Scale, Scaled, Steered};
pub use config::{ConfigStored, ConfigValue, PutConfig};
pub use history::{History, HistoryEntry, MarkHealthy, MarkedHealthy, Revisions};
pub use logs::{LogItem, LogLine, LogStream, Logs};
pub use namespace::{DeleteNamespace, EnsureNamespace, NamespaceDeleted, NamespaceEnsured};
pub use plan::{FieldAction, FieldChange, Plan, PlanToken, PlanTokenError, Planned};
pub use reply::{Change, Deleted, Effect, Found, Launched, Listed, ObjectAction, ObjectChange, Pong};
pub use route::{Endpoint, Endpoints, Expose, Exposed, ReadyEndpoints, Route, RouteBackend, Unexpose, Unexposed};
pub use run::{Run, RunId, RunKey, RunKeyError, RunStarted, RunWhat};

use crate::error::{Error, ErrorKind};
use crate::name::{Namespace, Target};
use crate::observation::Detail;
use crate::version::Guard;
use crate::workload::{CheckedWorkload, Marks};

/// What every call may carry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct CallOptions {
    /// How long the operation may take in all, in milliseconds. None: as long as the client's own time-outs allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit_ms: Option<u64>,
    /// The caller's id for this call, for logs and traces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

impl CallOptions {
    /// How long the operation may take in all.
    #[must_use]
    pub fn time_limit(&self) -> Option<Duration> {
        self.time_limit_ms.map(Duration::from_millis)
    }

    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Runs an operation within its time limit. For backends.
///
/// # Errors
/// Those of the operation, and [`ErrorKind::TimeLimit`] when it took longer.
pub async fn within<T>(
    call: &CallOptions,
    operation: impl Future<Output = Result<T, Error>> + Send,
) -> Result<T, Error> {
    match call.time_limit() {
        None => operation.await,
        Some(limit) => tokio::time::timeout(limit, operation).await.unwrap_or_else(|_| {
            Err(Error::new(ErrorKind::TimeLimit, format!("no answer within {} s", limit.as_secs_f32())))
        }),
    }
}

/// The answer type of an operation.
pub trait Operation {
    /// What a backend answers.
    type Output: TryFrom<Reply, Error = Error>;
}

/// Makes a workload be as it is described. See [`Scheduler::launch`](crate::Scheduler::launch).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Launch {
    /// What is to run.
    pub workload: Arc<CheckedWorkload>,
    /// Under which condition.
    #[serde(default)]
    pub guard: Guard,
    /// What the call carries.
    #[serde(default, skip_serializing_if = "CallOptions::is_default")]
    pub call: CallOptions,
}

impl Launch {
    /// A launch under [`Guard::IfOwned`].
    pub fn new(workload: impl Into<Arc<CheckedWorkload>>) -> Self {
        Self { workload: workload.into(), guard: Guard::IfOwned, call: CallOptions::default() }
    }
}

/// Takes away what launch made. See [`Scheduler::delete`](crate::Scheduler::delete).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Delete {
    /// Of which workload.
    pub target: Target,
    /// Under which condition; [`Guard::IfAbsent`] makes no sense here and is refused.
    #[serde(default)]
    pub guard: Guard,
    /// What the call carries.
    #[serde(default, skip_serializing_if = "CallOptions::is_default")]
    pub call: CallOptions,
}

impl Delete {
    /// A delete under [`Guard::IfOwned`].
    #[must_use]
    pub fn new(target: Target) -> Self {
        Self { target, guard: Guard::IfOwned, call: CallOptions::default() }
    }
}

/// Asks how a workload is. See [`Scheduler::status`](crate::Scheduler::status).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Status {
    /// Which workload.
    pub target: Target,
    /// How much to tell.
    #[serde(default)]
    pub detail: Detail,
    /// What the call carries.
    #[serde(default, skip_serializing_if = "CallOptions::is_default")]
    pub call: CallOptions,
}

impl Status {
    /// A status with this much detail.
    #[must_use]
    pub fn new(target: Target, detail: Detail) -> Self {
        Self { target, detail, call: CallOptions::default() }
    }
}

/// Which of our workloads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Filter {
    /// Only those of this namespace; of all namespaces if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Namespace>,
    /// Only the one of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<crate::name::WorkloadName>,
    /// Only those with all of these marks.
    #[serde(default, skip_serializing_if = "crate::workload::is_default")]
    pub marks: Marks,
    /// Only those with all of these labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

impl Filter {
    /// All of this namespace.
    #[must_use]
    pub fn namespace(namespace: Namespace) -> Self {
        Self { namespace: Some(namespace), ..Self::default() }
    }

    /// This one.
    #[must_use]
    pub fn target(target: Target) -> Self {
        Self { namespace: Some(target.namespace), name: Some(target.name), ..Self::default() }
    }

    /// All with these marks, in all namespaces.
    #[must_use]
    pub fn marks(marks: Marks) -> Self {
        Self { marks, ..Self::default() }
    }

    /// Whether a workload with these properties passes.
    #[must_use]
    pub fn accepts(&self, target: &Target, marks: &Marks, labels: &BTreeMap<String, String>) -> bool {
        self.namespace.as_ref().is_none_or(|n| *n == target.namespace)
            && self.name.as_ref().is_none_or(|n| *n == target.name)
            && marks.matches(&self.marks)
            && self.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
    }
}

/// Asks for all of our workloads. See [`Scheduler::list`](crate::Scheduler::list).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct List {
    /// Which of them.
    #[serde(default)]
    pub filter: Filter,
    /// What the call carries.
    #[serde(default, skip_serializing_if = "CallOptions::is_default")]
    pub call: CallOptions,
}

impl List {
    /// A list with this filter.
    #[must_use]
    pub fn new(filter: Filter) -> Self {
        Self { filter, call: CallOptions::default() }
    }
}

/// Asks whether the backend is there. See [`Scheduler::ping`](crate::Scheduler::ping).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Ping {
    /// What the call carries.
    #[serde(default, skip_serializing_if = "CallOptions::is_default")]
    pub call: CallOptions,
}

/// Asks for a stream of what happens to our workloads. See [`Scheduler::watch`](crate::Scheduler::watch).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Watch {
    /// Which of them.
    #[serde(default)]
    pub filter: Filter,
}

impl Watch {
    /// A watch with this filter.
    #[must_use]
    pub fn new(filter: Filter) -> Self {
        Self { filter }
    }
}

/// A stream as data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Subscription {
    /// Watch.
    Watch(Watch),
    /// Logs.
    Logs(Logs),
}

impl Subscription {
    /// The name of what it asks for.
    #[must_use]
    pub fn name(&self) -> OpName {
        match self {
            Self::Watch(_) => OpName::Watch,
            Self::Logs(_) => OpName::Logs,
        }
    }
}

macro_rules! ops {
    ($($(#[$doc:meta])* $op:ident $text:literal => $output:ty;)*) => {
        /// An operation as data.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum SchedulerOp {
            $($(#[$doc])* $op($op),)*
        }

        /// The answer to a [`SchedulerOp`]: the variant of the same name.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum Reply {
            $($(#[$doc])* $op($output),)*
        }

        /// The name of an operation, for errors, spans and metrics.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum OpName {
            $($(#[$doc])* $op,)*
            /// Watch.
            Watch,
            /// Logs.
            Logs,
            /// Building a scheduler and connecting it.
            Connect,
        }

        impl OpName {
            /// The name as text.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$op => $text,)*
                    Self::Watch => "watch",
                    Self::Logs => "logs",
                    Self::Connect => "connect",
                }
            }
        }

        impl SchedulerOp {
            /// Its name.
            #[must_use]
            pub fn name(&self) -> OpName {
                match self {
                    $(Self::$op(_) => OpName::$op,)*
                }
            }

            /// What the call carries.
            #[must_use]
            pub fn call(&self) -> &CallOptions {
                match self {
                    $(Self::$op(op) => &op.call,)*
                }
            }

            /// What it is about, if it is about one workload.
            #[must_use]
            pub fn target(&self) -> Option<&Target> {
                match self {
                    $(Self::$op(op) => op.about(),)*
                }
            }
        }

        $(
            impl Operation for $op {
                type Output = $output;
            }

            impl From<$op> for SchedulerOp {
                fn from(op: $op) -> Self {
                    Self::$op(op)
                }
            }

            impl TryFrom<Reply> for $output {
                type Error = Error;

                fn try_from(reply: Reply) -> Result<Self, Error> {
                    match reply {
                        Reply::$op(output) => Ok(output),
                        other => Err(Error::new(ErrorKind::Internal, format!("{} was answered as {}", $text, other.name()))
                            .with_op(OpName::$op)),
                    }
                }
            }
        )*

        impl Reply {
            /// The name of the operation that it answers.
            #[must_use]
            pub fn name(&self) -> OpName {
                match self {
                    $(Self::$op(_) => OpName::$op,)*
                }
            }
        }
    };
}

ops! {
    /// Launch.
    Launch "launch" => Launched;
    /// Delete.
    Delete "delete" => Deleted;
    /// Status.
    Status "status" => Found;
    /// List.
    List "list" => Listed;
    /// Ping.
    Ping "ping" => Pong;
    /// Scale.
    Scale "scale" => Scaled;
    /// Rollout.
    Rollout "rollout" => Steered;
    /// An action on an instance.
    OnInstance "instance" => InstanceAnswer;
    /// History.
    History "history" => Revisions;
    /// A mark that a revision was good.
    MarkHealthy "mark_healthy" => MarkedHealthy;
    /// Run.
    Run "run" => RunStarted;
    /// Plan.
    Plan "plan" => Planned;
    /// A configuration.
    PutConfig "put_config" => ConfigStored;
    /// Expose.
    Expose "expose" => Exposed;
    /// Unexpose.
    Unexpose "unexpose" => Unexposed;
    /// Endpoints.
    Endpoints "endpoints" => ReadyEndpoints;
    /// A namespace that is to be there.
    EnsureNamespace "ensure_namespace" => NamespaceEnsured;
    /// A namespace that is to go.
    DeleteNamespace "delete_namespace" => NamespaceDeleted;
}

impl fmt::Display for OpName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

macro_rules! about {
    ($($op:ident $target:expr;)*) => {$(
        impl $op {
            fn about(&self) -> Option<&Target> {
                let target: fn(&Self) -> Option<&Target> = $target;
                target(self)
            }
        }
    )*};
}
about! {
    Launch |op| Some(op.workload.target());
    Delete |op| Some(&op.target);
    Status |op| Some(&op.target);
    List |_| None;
    Ping |_| None;
    Scale |op| Some(&op.target);
    Rollout |op| Some(&op.target);
    OnInstance |op| Some(&op.target);
    History |op| Some(&op.target);
    MarkHealthy |op| Some(&op.target);
    Run |op| Some(op.base());
    Plan |op| Some(op.workload.target());
    PutConfig |op| Some(&op.target);
    Expose |op| Some(&op.target);
    Unexpose |op| Some(&op.target);
    Endpoints |op| Some(&op.target);
    EnsureNamespace |_| None;
    DeleteNamespace |_| None;
}

macro_rules! call_sugar {
    ($($op:ident)*) => {$(
        impl $op {
            /// Sets how long the operation may take in all.
            #[must_use]
            pub fn time_limit(mut self, limit: Duration) -> Self {
                self.call.time_limit_ms = Some(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
                self
            }

            /// Sets the caller's id for this call.
            #[must_use]
            pub fn request_id(mut self, id: impl Into<String>) -> Self {
                self.call.request_id = Some(id.into());
                self
            }
        }
    )*};
}
call_sugar!(
    Launch Delete Status List Ping Scale Rollout OnInstance History MarkHealthy Run Plan PutConfig Expose Unexpose Endpoints
    EnsureNamespace DeleteNamespace
);

macro_rules! guard_sugar {
    ($($op:ident)*) => {$(
        impl $op {
            /// Sets under which condition.
            #[must_use]
            pub fn guard(mut self, guard: Guard) -> Self {
                self.guard = guard;
                self
            }
        }
    )*};
}
guard_sugar!(Launch Delete Scale Rollout Plan Expose);
