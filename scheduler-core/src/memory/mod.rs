//! The in-memory reference scheduler: a whole cluster, in one value.
//!
//! It is a real backend. It keeps native objects (a `Workload`, and a `Service` where there are ports), has nodes with
//! capacity and labels, rolls out with surge and readiness, restarts what crashes, loses nodes, and holds the whole
//! contract of [`Scheduler`](crate::Scheduler). Use it embedded, as the fake in tests of a control plane, and to see what
//! a backend must do.
//!
//! # Fates
//!
//! The image of a container decides what becomes of it, see [`Fate`]; so a test says `sim/crash/after-2/exit-3` where
//! it wants one that crashes. Any other image runs, and in a job ends well after a second.
//!
//! ```
//! use scheduler_core::memory::{Fate, MemoryCluster};
//! use scheduler_core::{
//!     Container, DiagnosisKind, Launch, OwnerId, SchedulerExt, WaitOptions, WaitOutcome, Workload,
//! };
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster = MemoryCluster::builder().namespace("shop").build();
//! let scheduler = cluster.scheduler(OwnerId::new("shop-platform")?);
//! let web = Workload::service("shop", "web")
//!     .progress_deadline(60)
//!     .container(Container::new("web", Fate::PullError.image("1")))
//!     .check()?;
//!
//! let (_, outcome) = scheduler.launch_and_wait(Launch::new(web), &WaitOptions::default()).await?;
//! let WaitOutcome::Failed(diagnoses) = outcome else { panic!("{outcome:?}") };
//! assert_eq!(diagnoses[0].kind, DiagnosisKind::ImagePull);
//! # Ok(())
//! # }
//! ```
//!
//! # Time
//!
//! A cluster lives on tokio's clock, and no task belongs to it: each call first does what was due meanwhile. With
//! `#[tokio::test(start_paused = true)]` ten minutes of patience pass at once, and a test gives the same result each time.
//! A cluster's clock starts at 2000-01-01T00:00:00Z when it is built. Things take:
//!
//! | what | how long |
//! |---|---|
//! | until a change of the spec is noticed | 50 ms |
//! | to pull and start a container for the first time | 1 s ([`MemoryBuilder::start_up`]), and what its fate adds |
//! | to start it again after it ended | 1, 2, 4, 8, then 10 s; from 1 s again after a run of 10 s |
//! | to pass a probe | the probe's `initial_delay` from the container's start |
//! | to end an instance | 100 ms, at most its grace; [`Fate::Stubborn`] takes all of it |
//! | until the instances of a lost node are given up and replaced | 5 s |
//!
//! # What is simulated
//!
//! * **Placement**: an instance needs a node that answers, satisfies every [`NodeRule`](crate::NodeRule), and has a slot
//!   and the requested processor time and memory free; of several, the one that spreads best. The seed decides between
//!   equals. An instance that mounts an unknown claim is not placed.
//! * **Containers**: those with the role `init` and the sidecars come one after the other in the order of the list,
//!   then the main container. An init container whose image would run on is taken for one that does its work and ends.
//! * **Configurations** do not exist here yet, so that a container that refers to one does not start.
//! * **Rollouts** are those of a Kubernetes Deployment: bounds by `max_surge` and `max_unavailable`, for which instances
//!   on their way out do not count; an instance whose template is wanted again is current again. The platform gives up
//!   when there was no progress for the workload's `progress_deadline`, where flapping is no progress.
//!
//! Not simulated: liveness probes, a startup probe that gives up, and traffic.
//!
//! # Behind the scheduler's back
//!
//! [`MemoryCluster`] has hands for what other people and failing hardware do, and
//! [`inject`](MemoryCluster::inject) puts a fault between a scheduler and its cluster.

mod builder;
mod cluster;
mod config;
mod container;
mod controller;
mod decide;
mod factory;
mod fate;
mod fault;
mod history;
mod instance;
mod job;
mod log;
mod logs;
mod mutation;
mod namespace;
mod object;
mod observe;
mod ops;
mod periodic;
mod place;
mod plan;
mod render;
mod rollout;
mod route;
mod run;
mod scheduler;
mod server;
mod steer;
#[cfg(test)]
mod tests;
mod timing;
mod watch;
mod world;

pub use builder::{MemoryBuilder, Node};
pub use cluster::MemoryCluster;
pub use factory::MemoryFactory;
pub use fate::Fate;
pub use fault::RequestFault;
#[cfg(feature = "mutation")]
pub use mutation::Mutation;
pub use scheduler::MemoryScheduler;

/// The name of this backend.
fn backend() -> crate::BackendName {
    crate::BackendName::memory()
}
