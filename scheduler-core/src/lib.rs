//! One scheduling algebra, swappable interpreters.

mod capability;
#[cfg(feature = "conformance")]
pub mod conformance;
mod diagnosis;
mod error;
mod hash;
#[cfg(feature = "memory")]
pub mod memory;
mod name;
mod observation;
mod op;
mod quantity;
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
pub use name::{
    BackendName, MARK_PREFIX, NameError, NameProblem, Namespace, OwnerId, StackName, Target, WorkloadName, mark_label,
};
pub use observation::{Counts, DeploymentSummary, Detail, Instance, InstanceState, Observation};
pub use op::{
    CallOptions, Change, Delete, Deleted, Effect, Filter, Found, Launch, Launched, List, Listed, ObjectAction,
    ObjectChange, OpName, Operation, Ping, Pong, Reply, SchedulerOp, Status, Subscription, Watch, within,
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
    Bounds, Check, CheckedContainer, CheckedWorkload, ConfigRef, Container, EmptyVolume, EnvValue, EnvVar, ExecCheck,
    Fault, Faults, GrpcCheck, HttpCheck, Kind, Marks, Mount, NodeMatch, NodeRule, Placement, Port, Probe, Probes,
    Protocol, Replicas, ResourceBounds, Resources, Role, Rolling, RuntimeField, Service, TcpCheck, Update, Volume,
    VolumeSource, Workload,
};
