//! Deploys as ordered, named stages, each with a verdict.
//!
//! A [`Deployer`] runs the release of an app by one of the [pipelines](PipelineName), over any
//! [`Scheduler`](scheduler_core::Scheduler):
//!
//! | pipeline | stages | when one fails |
//! |---|---|---|
//! | `launch-only` | prepare, before, launch, cut-over | it stays as it is |
//! | `canopus` | prepare, before, launch, await, cut-over, clean-up | the new stack is deleted |
//! | `full` | prepare, before, roll-out, cut-over, verify, clean-up | the last good release is launched again |
//!
//! [`StageName`] says what each does. What came of it is data: a [`DeployRecord`] with a [`StageReport`] for each stage, its
//! verdict, and the evidence for that.
//!
//! ```
//! use std::sync::Arc;
//!
//! use lifecycle_hooks::pipeline::{Deploy, DeployId, DeployState, Deployer, MemoryDeploys, PipelineName, StageName};
//! use scheduler_core::hooks::{App, Release};
//! use scheduler_core::memory::{Fate, MemoryCluster};
//! use scheduler_core::{Container, Namespace, OwnerId, Workload};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster = MemoryCluster::builder().namespace("shop").build();
//! let scheduler = Arc::new(cluster.scheduler(OwnerId::new("my-platform")?));
//! let deployer = Deployer::new(scheduler, Arc::new(MemoryDeploys::new()));
//!
//! let mut app = App::new("shop".parse()?, Namespace::new("shop")?);
//! let web = |image: &str| Workload::service("shop", "web").progress_deadline(60).container(Container::new("web", image));
//! app.release = Some(Release::new(1, vec![web("shop/web:1")]));
//! let first = Deploy::new(DeployId::new("release-1")?, app.clone(), PipelineName::Full);
//! assert_eq!(deployer.deploy(first).await?.state, DeployState::Succeeded);
//!
//! app.release = Some(Release::new(2, vec![web(&Fate::PullError.image("2"))]));
//! let second = Deploy::new(DeployId::new("release-2")?, app, PipelineName::Full);
//! let ended = deployer.deploy(second).await?;
//! assert_eq!(ended.state, DeployState::Failed { rolled_back_to: Some(1) });
//! assert_eq!(ended.failures()[0].stage, Some(StageName::RollOut));
//! println!("{}", ended.failures()[0]); // roll-out: shop/web: failed: the image cannot be pulled
//! # Ok(())
//! # }
//! ```
//!
//! # One at a time
//!
//! One deploy of an app goes on at a time. What a second one does is its [`InTheWay`]: it takes the place of the first
//! (which ends as superseded within a second, and whatever it left is repaired by the second), waits for it, or is refused. An
//! older release never runs after a newer one. A deploy has its turn by a lease, so that one whose worker died blocks nobody
//! for longer than that.
//!
//! # After a crash
//!
//! The record is written to a [`DeployStore`] before and after each stage. [`Deployer::deploy`] with the same id goes on with
//! the stage that was reached, from its beginning: each operation of a stage finds its own effect. A deploy that is over
//! answers its record. Dropping the future is such a crash.
//!
//! An operation that fails in a way that may pass ([`Error::retry`](scheduler_core::Error::retry)) fails no stage. The deploy
//! stops as [`PipelineError::Unfinished`], and goes on when it is asked for again.
//!
//! # Taking back
//!
//! When a process does not become healthy, a route is refused, a hook set fails the cut-over, or the probe does not like what
//! it sees, all processes of the last release whose deploy succeeded are launched again, with its configuration and the
//! present formation, and awaited; before the cut-over no request was led elsewhere. Those of one wave are ended together
//! before that begins. What only the new release has is deleted then. Without a good release, there is nothing to go back to:
//! what has failed stays to be looked at, until the next deploy repairs it.
//!
//! A process that the new release has no more is deleted by the clean-up, when everything else has succeeded, and never
//! before.

mod deployer;
mod evidence;
#[cfg(feature = "postgres")]
mod postgres;
mod record;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod row;
#[cfg(feature = "sqlite")]
mod sqlite;
mod stage;
mod stages;
mod store;
mod turn;

pub use deployer::{DeployObserver, DeployProbe, DeployProgress, Deployer, PipelineError};
pub use evidence::{Evidence, Failure};
#[cfg(feature = "postgres")]
pub use postgres::PostgresDeploys;
pub use record::{
    Deploy, DeployId, DeployIdError, DeployOptions, DeployRecord, DeployState, InTheWay, StageReport, StageVerdict,
    TakeBack,
};
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteDeploys;
pub use stage::{PipelineName, StageName, UnknownPipeline};
pub use store::{DeployStore, MemoryDeploys, StoreError};
pub use turn::Turn;
