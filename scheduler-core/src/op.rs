//! The operations as data: what is asked, and what is answered.
//!
//! Every operation is a struct, taken by the [`Scheduler`](crate::Scheduler) trait as its only argument, and is one
//! variant of [`SchedulerOp`], which layers, logs and servers handle. Its answer is one variant of [`Reply`], shared with
//! no other operation.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::capability::Feature;
use crate::error::{Error, ErrorKind};
use crate::name::{Namespace, OwnerId, Target};
use crate::observation::{Detail, Observation};
use crate::version::{Guard, Revision, Version};
use crate::workload::{Check, CheckedWorkload, EnvValue, Kind, Marks, Protocol, Role, Update, VolumeSource};

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
    /// From whom it was taken over, with [`Guard::Adopt`]. `Some(None)`: from nobody who said so.
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
    /// With [`Detail::Counts`], in the order of their targets.
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
}

impl fmt::Display for OpName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
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

/// A stream as data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Subscription {
    /// Watch.
    Watch(Watch),
}

/// The features that a workload needs of a backend.
fn features_of(workload: &CheckedWorkload) -> BTreeSet<Feature> {
    let mut needed = BTreeSet::from([Feature::Launch]);
    let mut need = |condition: bool, feature| {
        if condition {
            needed.insert(feature);
        }
    };
    for container in &workload.containers {
        need(container.role == Role::Sidecar, Feature::Sidecars);
        need(container.role == Role::Init, Feature::InitContainers);
        need(container.ports.iter().any(|port| port.protocol == Protocol::Udp), Feature::UdpPorts);
        need(container.probes.startup.is_some(), Feature::StartupProbes);
        for (_, probe) in container.probes.iter() {
            need(
                true,
                match probe.check {
                    Check::Http(_) | Check::Https(_) => Feature::HttpProbes,
                    Check::Tcp(_) => Feature::TcpProbes,
                    Check::Exec(_) => Feature::ExecProbes,
                    Check::Grpc(_) => Feature::GrpcProbes,
                },
            );
        }
        for var in &container.env {
            need(matches!(var.value, EnvValue::Config(_)), Feature::ConfigReferences);
            need(matches!(var.value, EnvValue::Field(_)), Feature::RuntimeFields);
        }
    }
    for volume in &workload.volumes {
        need(
            true,
            match volume.source {
                VolumeSource::Empty(_) => Feature::EmptyVolumes,
                VolumeSource::Host(_) => Feature::HostVolumes,
                VolumeSource::Claim(_) => Feature::ClaimVolumes,
                VolumeSource::Config(_) => Feature::ConfigReferences,
            },
        );
    }
    need(!workload.placement.require.is_empty(), Feature::NodeRules);
    need(workload.placement.spread.is_some(), Feature::Spread);
    need(workload.identity.is_some(), Feature::Identity);
    need(!workload.pull_secrets.is_empty(), Feature::PullSecrets);
    let Kind::Service(service) = &workload.kind;
    need(service.update == Update::Recreate, Feature::Recreate);
    needed
}

fn feature_of(guard: &Guard) -> Option<Feature> {
    match guard {
        Guard::IfVersion(_) => Some(Feature::CompareAndSet),
        Guard::Adopt => Some(Feature::Adopt),
        Guard::IfOwned | Guard::IfAbsent => None,
    }
}

impl Launch {
    /// What it needs of a backend.
    #[must_use]
    pub fn features(&self) -> BTreeSet<Feature> {
        let mut needed = features_of(&self.workload);
        needed.extend(feature_of(&self.guard));
        needed
    }
}

impl Delete {
    /// What it needs of a backend.
    #[must_use]
    pub fn features(&self) -> BTreeSet<Feature> {
        std::iter::once(Feature::Delete).chain(feature_of(&self.guard)).collect()
    }
}

impl SchedulerOp {
    /// What it needs of a backend. Pure; a backend or a layer compares it with the [`Capabilities`](crate::Capabilities)
    /// before anything is sent.
    #[must_use]
    pub fn features(&self) -> BTreeSet<Feature> {
        match self {
            Self::Launch(op) => op.features(),
            Self::Delete(op) => op.features(),
            Self::Status(_) => BTreeSet::from([Feature::Status]),
            Self::List(_) => BTreeSet::from([Feature::List]),
            Self::Ping(_) => BTreeSet::from([Feature::Ping]),
        }
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
call_sugar!(Launch Delete Status List Ping);

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
guard_sugar!(Launch Delete);
