//! One scheduling algebra, swappable interpreters.
//!
//! A control plane says *what* should run: a [`Workload`]. A backend makes that true on Kubernetes, on Nomad, in memory, or on
//! something of your own. This crate holds what they share, and knows no network and no backend:
//!
//! * **the model**: [`Workload`], checked into a [`CheckedWorkload`] before anything is sent;
//! * **the algebra**, twice: the trait [`Scheduler`] that backends implement and models call, and [`SchedulerOp`] with
//!   [`Reply`], the same operations as data for layers, queues and servers ([`ToOps`], [`FromOps`]);
//! * **one judgement**: a backend reports an [`Observation`]; [`verdict`] decides, equally for all;
//! * **one [`Error`]**: what was attempted, on what, what the server said, whether to try again, whose fault it is;
//! * [`memory`]: the reference backend, on a clock that tests can pause;
//! * `conformance` (a feature): the suite that holds every backend to the contract of [`Scheduler`];
//! * [`layer`]: repetition, faults on purpose and spans, around any of them;
//! * [`hooks`]: what happens to a platform's models, as events, and the hooks that observe them;
//! * [`registry`]: data centres by name, from configuration.
//!
//! # Example
//!
//! ```
//! use scheduler_core::memory::MemoryCluster;
//! use scheduler_core::{Container, Delete, Launch, OwnerId, SchedulerExt, WaitOptions, WaitOutcome, Workload};
//! use scheduler_core::Scheduler as _;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?.block_on(async {
//! let cluster = MemoryCluster::builder().namespace("shop").build();
//! let scheduler = cluster.scheduler(OwnerId::new("my-platform")?);
//!
//! let web = Workload::service("shop", "web").replicas(3).container(Container::new("web", "shop/web:1")).check()?;
//! let target = web.target().clone();
//! let (launched, outcome) = scheduler.launch_and_wait(Launch::new(web), &WaitOptions::default()).await?;
//! assert_eq!(outcome, WaitOutcome::Succeeded);
//! println!("{} is {}", launched.revision, launched.change);
//!
//! scheduler.delete(Delete::new(target.clone())).await?;
//! assert_eq!(scheduler.wait_gone(&target, &WaitOptions::default()).await?, WaitOutcome::Gone);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! Features only add. `memory` (default): the in-memory scheduler. `mock`: `MockScheduler`. `conformance`: the suite.
//! `observe`: `layer::Observe`.

mod capability;
#[cfg(feature = "conformance")]
pub mod conformance;
mod diagnosis;
mod error;
mod ext;
mod hash;
pub mod hooks;
pub mod layer;
#[cfg(feature = "memory")]
pub mod memory;
mod name;
mod namespaces;
mod observation;
mod op;
mod quantity;
pub mod registry;
mod rng;
mod scheduler;
mod service;
mod time;
mod verdict;
mod version;
mod watch;
pub mod workload;

pub use capability::{Capabilities, Feature, Support};
pub use diagnosis::{Diagnosis, DiagnosisKind, EventLine, Evidence};
pub use error::{Conflict, Error, ErrorKind, FaultOf, Missing, NativeCode, Result, Retry};
pub use ext::{
    RollbackTo, RunOutcome, SchedulerExt, Surplus, SweepOptions, SweepPlan, WaitOptions, WaitOutcome, watch_endpoints,
};
pub use name::{
    BackendName, MARK_PREFIX, NameError, NameProblem, Namespace, OwnerId, StackName, Target, WorkloadName, mark_label,
};
pub use namespaces::NamespaceMapping;
pub use observation::{
    Counts, DeploymentSummary, Detail, Exit, Finished, Instance, InstanceState, Observation, ScheduleState,
};
pub use op::{
    CallOptions, Change, ConfigStored, ConfigValue, Delete, DeleteNamespace, Deleted, Effect, Endpoint, Endpoints,
    EnsureNamespace, Expose, Exposed, FieldAction, FieldChange, Filter, Found, History, HistoryEntry, InstanceAction,
    InstanceAnswer, Launch, Launched, List, Listed, LogItem, LogLine, LogStream, Logs, MarkHealthy, MarkedHealthy,
    NamespaceDeleted, NamespaceEnsured, ObjectAction, ObjectChange, OnInstance, OpName, Operation, Ping, Plan,
    PlanToken, PlanTokenError, Planned, Pong, PutConfig, ReadyEndpoints, Reply, Revisions, Rollout, RolloutAction,
    Route, RouteBackend, Run, RunId, RunKey, RunKeyError, RunStarted, RunWhat, Scale, Scaled, SchedulerOp, Status,
    Steered, Subscription, Unexpose, Unexposed, Watch, within,
};
pub use quantity::{Cpu, Memory, QuantityError};
#[cfg(feature = "mock")]
pub use scheduler::MockScheduler;
pub use scheduler::Scheduler;
pub use service::{FromOps, OpService, StreamItem, ToOps};
pub use time::{Seconds, Timestamp, TimestampError};
pub use verdict::{Verdict, Waiting, verdict};
pub use version::{Guard, Revision, RevisionError, Version};
pub use watch::{WatchItem, WatchState};
pub use workload::{
    Bounds, Canary, Check, CheckedContainer, CheckedWorkload, ConfigEntry, ConfigRef, Container, Cron, CronError,
    CronProblem, EmptyVolume, EnvValue, EnvVar, ExecCheck, Fault, Faults, GrpcCheck, HttpCheck, Identities, Job, Kind,
    KindName, Marks, Mount, NodeMatch, NodeRule, Overlap, PerInstanceVolume, Periodic, Placement, Port, Probe, Probes,
    Protocol, Replicas, ResourceBounds, Resources, Role, Rolling, RuntimeField, Service, System, TcpCheck, Update,
    Volume, VolumeSource, Workload,
};
