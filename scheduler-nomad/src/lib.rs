//! Interprets the scheduling algebra of [`scheduler_core`] on Nomad.
//!
//! ```no_run
//! use scheduler_core::{Container, Launch, OwnerId, Scheduler as _, Workload};
//! use scheduler_nomad::NomadScheduler;
//! use scheduler_nomad::client::ConnectOptions;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let owner = OwnerId::new("platform")?;
//! let scheduler = NomadScheduler::connect(ConnectOptions::explicit("http://127.0.0.1:4646"), owner).await?;
//! let web = Workload::service("default", "web").container(Container::new("web", "shop/web:1").port("http", 8080)).check()?;
//! let launched = scheduler.launch(Launch::new(web)).await?;
//! println!("{}", launched.change);
//! # Ok(())
//! # }
//! ```
//!
//! # Rooms
//!
//! * [`render`]: a [`Workload`](scheduler_core::Workload) as a job. Pure; prints without a server.
//! * [`observe`]: a job and what belongs to it as an [`Observation`](scheduler_core::Observation). Pure.
//! * [`NomadScheduler`]: the interpreter, thin, over the [`client`].
//! * [`NomadHooks`]: what the events of a platform's models mean here beside operations.
//!
//! # What tells that a job is ours
//!
//! The key `scheduler/owner` of its `Meta`, beside the marks. What was launched is the *source* that a registration may
//! bring along: the workload itself, as JSON. The server keeps it with each version, and carries it over to the next one
//! unless that brings its own. So the revision is known as long as the source is a workload, and the job is what this
//! version of the library makes of it, but for the count.

mod carry;
mod compare;
mod config;
mod error;
mod hooks;
mod interpreter;
mod meta;
mod observe;
mod render;
mod requests;
mod routes;
mod source;

pub use scheduler_nomad_client as client;

pub use config::{NomadConfig, NomadFactory};
pub use hooks::{NomadHooks, certificate_variable};
pub use interpreter::NomadScheduler;
pub use observe::{NativeObjects, PeriodicRun, observe};
pub use render::{Driver, NomadExtension, RenderContext, Rendered, render};

/// The backend's name in configuration files and in a workload's `extensions`.
pub const BACKEND: &str = "nomad";
