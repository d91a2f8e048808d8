//! What is to run: the model that every backend interprets.
//!
//! A [`Workload`] is plain data. It deserialises whenever its shape is right; [`Workload::check`] then either answers
//! *every* fault with its path, or gives a [`CheckedWorkload`], which is the only form that operations take.
//!
//! ```
//! use scheduler_core::{Container, Probe, Workload};
//!
//! let web = Workload::service("shop", "web")
//!     .replicas(3)
//!     .container(
//!         Container::new("web", "registry.example/shop/web:1.4.2")
//!             .port("http", 8080)
//!             .env("LOG_LEVEL", "info")
//!             .memory("64Mi", "128Mi")
//!             .readiness(Probe::http("http", "/healthz")),
//!     )
//!     .check()?;
//! assert_eq!(web.target().to_string(), "shop/web");
//! # Ok::<(), scheduler_core::Faults>(())
//! ```

mod canonical;
mod check;
mod container;
mod cron;
mod image;
mod kind;
mod probe;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub(crate) use check::check_config_key;
pub use check::{CheckedContainer, CheckedWorkload, Fault, Faults, Resources};
pub use container::{
    Bounds, ConfigEntry, Container, EnvValue, EnvVar, Mount, Port, Protocol, ResourceBounds, Role, RuntimeField,
};
pub use cron::{Cron, CronError, CronProblem};
pub use kind::{
    Canary, Identities, Job, Kind, KindName, Overlap, Periodic, Replicas, Rolling, Service, System, Update,
};
pub use probe::{Check, ExecCheck, GrpcCheck, HttpCheck, Probe, Probes, TcpCheck};

use crate::name::BackendName;
use crate::time::Seconds;

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// What is to run, where, and how.
///
/// Fields that equal their default are left out when written, and a default never changes: the [`Revision`] of a
/// workload is a hash over its canonical form and must be the same for all versions of this library.
///
/// [`Revision`]: crate::Revision
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Workload {
    /// The scheduler's namespace. It must exist: launch never makes one.
    pub namespace: String,
    /// The name within the namespace; see [`WorkloadName`](crate::WorkloadName).
    pub name: String,
    /// What kind of thing it is, with what only that kind has.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kind: Kind,
    /// The containers of one instance. Exactly one has the role `main`.
    pub containers: Vec<Container>,
    /// The volumes that containers mount.
    #[serde(default, skip_serializing_if = "is_default")]
    pub volumes: Vec<Volume>,
    /// On which nodes instances may run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub placement: Placement,
    /// The service identity (a service account's name) that instances run as. Without one they get no credentials of
    /// the platform at all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub identity: Option<String>,
    /// Names of the secrets that hold registry credentials.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pull_secrets: Vec<String>,
    /// How long an instance may take to end after it was asked to, before it is killed.
    #[serde(default = "default_grace", skip_serializing_if = "is_default_grace")]
    pub termination_grace: Seconds,
    /// The patience: how long a rollout may go without progress, and a recoverable trouble may last, until the verdict
    /// is Failed. Also given to the platform as its own deadline.
    #[serde(default = "default_deadline", skip_serializing_if = "is_default_deadline")]
    pub progress_deadline: Seconds,
    /// Labels for people and for other tools, on every object and instance.
    #[serde(default, skip_serializing_if = "is_default")]
    pub labels: BTreeMap<String, String>,
    /// Annotations for people and for other tools, on every object and instance.
    #[serde(default, skip_serializing_if = "is_default")]
    pub annotations: BTreeMap<String, String>,
    /// What the platform calls this workload; `list` filters by it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub marks: Marks,
    /// What only one backend understands, by the backend's name. Each backend parses its own entry strictly and applies
    /// it as a patch to what it rendered.
    #[serde(default, skip_serializing_if = "is_default")]
    pub extensions: BTreeMap<String, serde_json::Value>,
}

const GRACE: Seconds = Seconds::new(30);
const DEADLINE: Seconds = Seconds::new(600);

fn default_grace() -> Seconds {
    GRACE
}

fn is_default_grace(span: &Seconds) -> bool {
    *span == GRACE
}

fn default_deadline() -> Seconds {
    DEADLINE
}

fn is_default_deadline(span: &Seconds) -> bool {
    *span == DEADLINE
}

/// A volume of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Volume {
    /// The name by which containers mount it.
    pub name: String,
    /// Where its content comes from.
    pub source: VolumeSource,
}

impl Volume {
    /// A volume with this name and source.
    pub fn new(name: impl Into<String>, source: VolumeSource) -> Self {
        Self { name: name.into(), source }
    }
}

/// Where a volume's content comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum VolumeSource {
    /// Empty at the start of an instance, gone at its end.
    Empty(EmptyVolume),
    /// A folder of the node, by its absolute path.
    Host(String),
    /// Persistent storage that exists already, by its name in the namespace (a PersistentVolumeClaim).
    Claim(String),
    /// The entries of a configuration of this workload, one file each.
    Config(ConfigRef),
    /// Persistent storage of its own for each instance of a service with stable identities: made with the instance, found
    /// again by its successor of the same ordinal, and left behind when the workload is deleted.
    PerInstance(PerInstanceVolume),
}

/// Persistent storage that is made for each instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PerInstanceVolume {
    /// How much it holds (a [`Memory`](crate::Memory) quantity).
    pub size: String,
    /// The platform's name for the kind of storage; its default if absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub class: Option<String>,
}

impl PerInstanceVolume {
    /// A volume of this size, of the platform's default kind.
    #[expect(clippy::needless_pass_by_value, reason = "reads better at the call")]
    pub fn new(size: impl ToString) -> Self {
        Self { size: size.to_string(), class: None }
    }
}

/// An empty volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct EmptyVolume {
    /// How much it may hold (a [`Memory`](crate::Memory) quantity); no bound if absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub size_limit: Option<String>,
    /// Whether it is held in memory instead of on disk.
    #[serde(default, skip_serializing_if = "is_default")]
    pub in_memory: bool,
}

/// One version of a named configuration that belongs to the workload.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ConfigRef {
    /// The configuration's name.
    pub name: String,
    /// Its version.
    pub version: String,
}

impl ConfigRef {
    /// A reference to this version of this configuration.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { name: name.into(), version: version.into() }
    }
}

/// On which nodes instances may run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Placement {
    /// Rules that a node must satisfy, all of them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub require: Vec<NodeRule>,
    /// A node label over whose values instances are spread evenly, as far as possible.
    #[serde(default, skip_serializing_if = "is_default")]
    pub spread: Option<String>,
}

/// A rule over one label of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct NodeRule {
    /// The label's key.
    pub label: String,
    /// What must hold of it.
    pub is: NodeMatch,
}

impl NodeRule {
    /// The label must be there with one of these values.
    pub fn is_in<V: Into<String>>(label: impl Into<String>, values: impl IntoIterator<Item = V>) -> Self {
        Self { label: label.into(), is: NodeMatch::In(values.into_iter().map(Into::into).collect()) }
    }
}

/// What must hold of a node's label.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NodeMatch {
    /// It is there with one of these values.
    In(Vec<String>),
    /// It is absent, or has none of these values.
    NotIn(Vec<String>),
    /// It is there.
    Exists,
    /// It is not there.
    Absent,
}

impl NodeMatch {
    /// Whether a node with this value of the label (`None`: without it) satisfies the rule.
    #[must_use]
    pub fn accepts(&self, value: Option<&str>) -> bool {
        match (self, value) {
            (Self::In(values), Some(value)) => values.iter().any(|v| v == value),
            (Self::NotIn(values), Some(value)) => values.iter().all(|v| v != value),
            (Self::Exists, Some(_)) | (Self::NotIn(_) | Self::Absent, None) => true,
            (Self::Absent, Some(_)) | (Self::In(_) | Self::Exists, None) => false,
        }
    }
}

/// What the platform calls a workload. Any text; see [`mark_label`](crate::mark_label).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Marks {
    /// The unit (application, component) that it is a deployment of.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unit: Option<String>,
    /// The unit's version.
    #[serde(default, skip_serializing_if = "is_default")]
    pub version: Option<String>,
    /// The stack that it belongs to.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stack: Option<String>,
    /// The platform's own namespace or environment (`qa`, `dev/sandbox`).
    #[serde(default, skip_serializing_if = "is_default")]
    pub namespace: Option<String>,
}

impl Marks {
    /// The marks that are set, with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [("unit", &self.unit), ("version", &self.version), ("stack", &self.stack), ("namespace", &self.namespace)]
            .into_iter()
            .filter_map(|(name, text)| Some((name, text.as_deref()?)))
    }

    /// Whether every mark that `filter` sets has the same text here.
    #[must_use]
    pub fn matches(&self, filter: &Self) -> bool {
        filter.iter().all(|wanted| self.iter().any(|own| own == wanted))
    }
}

impl Workload {
    /// A service with one instance and no container yet.
    pub fn service(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self::of_kind(namespace, name, Kind::default())
    }

    /// A job that runs once to its end, without a container yet.
    pub fn job(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self::of_kind(namespace, name, Kind::Job(Job::default()))
    }

    /// A job that is run by a schedule (see [`Cron`]), without a container yet.
    pub fn periodic(namespace: impl Into<String>, name: impl Into<String>, schedule: impl Into<String>) -> Self {
        Self::of_kind(namespace, name, Kind::Periodic(Periodic::new(schedule)))
    }

    /// One instance on each node, without a container yet.
    pub fn system(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self::of_kind(namespace, name, Kind::System(System::default()))
    }

    /// A workload of this kind, without a container yet.
    pub fn of_kind(namespace: impl Into<String>, name: impl Into<String>, kind: Kind) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            kind,
            containers: Vec::new(),
            volumes: Vec::new(),
            placement: Placement::default(),
            identity: None,
            pull_secrets: Vec::new(),
            termination_grace: GRACE,
            progress_deadline: DEADLINE,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            marks: Marks::default(),
            extensions: BTreeMap::new(),
        }
    }

    /// Changes what only a service has. A workload of another kind is left as it is.
    #[must_use]
    pub fn with_service(mut self, change: impl FnOnce(&mut Service)) -> Self {
        if let Kind::Service(service) = &mut self.kind {
            change(service);
        }
        self
    }

    /// Changes what only a job has, that of a periodic one included. A workload of another kind is left as it is.
    #[must_use]
    pub fn with_job(mut self, change: impl FnOnce(&mut Job)) -> Self {
        if let Kind::Job(job) | Kind::Periodic(Periodic { job, .. }) = &mut self.kind {
            change(job);
        }
        self
    }

    /// Changes what only a periodic job has. A workload of another kind is left as it is.
    #[must_use]
    pub fn with_periodic(mut self, change: impl FnOnce(&mut Periodic)) -> Self {
        if let Kind::Periodic(periodic) = &mut self.kind {
            change(periodic);
        }
        self
    }

    /// Exactly this many instances, of a service.
    #[must_use]
    pub fn replicas(self, count: u32) -> Self {
        self.with_service(|service| service.replicas = Replicas::Exactly(count))
    }

    /// As many instances of a service as run already; this many on the first launch.
    #[must_use]
    pub fn keep_replicas(self, initial: u32) -> Self {
        self.with_service(|service| service.replicas = Replicas::Keep(initial))
    }

    /// How one revision of a service takes over from the last.
    #[must_use]
    pub fn update(self, update: Update) -> Self {
        self.with_service(|service| service.update = update)
    }

    /// Gives each instance of a service an identity that its successor keeps, and replaces them one at a time, as that
    /// needs.
    #[must_use]
    pub fn stable(self) -> Self {
        self.with_service(|service| {
            service.identities = Identities::Stable;
            service.update = Update::Rolling(Rolling::new(0, 1));
        })
    }

    /// How long an instance of a service or of a system must be ready before it counts as available.
    #[must_use]
    pub fn min_ready(mut self, seconds: u32) -> Self {
        if let Kind::Service(Service { min_ready, .. }) | Kind::System(System { min_ready, .. }) = &mut self.kind {
            *min_ready = Seconds::new(seconds);
        }
        self
    }

    /// Adds a container.
    #[must_use]
    pub fn container(mut self, container: Container) -> Self {
        self.containers.push(container);
        self
    }

    /// Adds a volume.
    #[must_use]
    pub fn volume(mut self, name: impl Into<String>, source: VolumeSource) -> Self {
        self.volumes.push(Volume::new(name, source));
        self
    }

    /// Adds a rule that a node must satisfy.
    #[must_use]
    pub fn require(mut self, rule: NodeRule) -> Self {
        self.placement.require.push(rule);
        self
    }

    /// How long a rollout may go without progress.
    #[must_use]
    pub fn progress_deadline(mut self, seconds: u32) -> Self {
        self.progress_deadline = Seconds::new(seconds);
        self
    }

    /// How long an instance may take to end.
    #[must_use]
    pub fn termination_grace(mut self, seconds: u32) -> Self {
        self.termination_grace = Seconds::new(seconds);
        self
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Sets the marks.
    #[must_use]
    pub fn marks(mut self, marks: Marks) -> Self {
        self.marks = marks;
        self
    }

    /// Sets what only one backend understands.
    #[must_use]
    pub fn extension(mut self, backend: &BackendName, value: serde_json::Value) -> Self {
        self.extensions.insert(backend.to_string(), value);
        self
    }

    /// Checks everything that can be known without a server.
    ///
    /// # Errors
    /// Every fault at once, each with its path (`containers[0].probes.liveness.check.http.port`).
    pub fn check(self) -> Result<CheckedWorkload, Faults> {
        check::check(self, Some(&BackendName::family()))
    }

    /// Like [`check`](Self::check) for a build that has other backends: `extensions` may name these and no others.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn check_for(self, backends: &[BackendName]) -> Result<CheckedWorkload, Faults> {
        check::check(self, Some(backends))
    }
}
