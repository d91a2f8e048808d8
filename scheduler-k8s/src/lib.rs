//! Interprets the scheduling algebra of [`scheduler_core`] on Kubernetes.
//!
//! ```no_run
//! use scheduler_core::{Container, Launch, OwnerId, Scheduler as _, Workload};
//! use scheduler_k8s::KubernetesScheduler;
//! use scheduler_k8s::client::ConnectOptions;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let owner = OwnerId::new("platform")?;
//! let scheduler = KubernetesScheduler::connect(ConnectOptions::kubeconfig().context("staging"), owner).await?;
//! let web = Workload::service("shop", "web").container(Container::new("web", "shop/web:1").port("http", 8080)).check()?;
//! let launched = scheduler.launch(Launch::new(web)).await?;
//! println!("{}", launched.change);
//! # Ok(())
//! # }
//! ```
//!
//! # Rooms
//!
//! * [`render`]: a [`Workload`](scheduler_core::Workload) as native objects. Pure; prints without a server.
//! * [`observe`]: native objects as an [`Observation`](scheduler_core::Observation). Pure.
//! * [`KubernetesScheduler`]: the interpreter, thin, over the [`client`].
//! * [`KubernetesHooks`]: what model events mean on Kubernetes alone.
//!
//! # What tells that an object is ours
//!
//! The label `scheduler/owner`, beside `scheduler/target` (the workload's name) and the marks. Objects are found by name and
//! by these labels, so that no list of them has to be kept: what half a launch or half a delete left is found too.

mod claims;
mod compare;
mod config;
mod error;
mod fields;
mod hooks;
mod interpreter;
mod kind;
mod labels;
mod observe;
mod render;
mod requests;
mod rights;

pub use scheduler_k8s_client as client;

pub use config::{KubernetesConfig, KubernetesFactory};
pub use hooks::{KubernetesHooks, registry_secret};
pub use interpreter::KubernetesScheduler;
pub use kind::MainKind;
pub use observe::{NativeObjects, observe};
pub use render::{KubernetesExtension, RenderContext, Rendered, render};

/// The field manager by which objects are applied.
pub const MANAGER: &str = "scheduler";
/// The field managers of what stands beside that, so that a launch neither makes nor removes it: one for each thing, as an
/// apply drops what the same manager applied before and leaves out now.
const RESTARTER: &str = "scheduler-restart";
const PAUSER: &str = "scheduler-pause";
const MARKER: &str = "scheduler-healthy";
const TLS_MANAGER: &str = "scheduler-tls";
const OWN_MANAGERS: &[&str] = &[MANAGER, RESTARTER, PAUSER, MARKER, TLS_MANAGER];
