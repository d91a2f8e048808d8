//! A thin Kubernetes client: connect, guarded apply, delete with preconditions, a watch without gaps, typed errors.
//!
//! It stands on [`kube`], whose connections, credentials and TLS it uses, and adds what a program needs that writes to
//! clusters which it shares with others:
//!
//! - [`Client::apply`] takes effect only under a [`Condition`]: the object is absent, or still the one that was read.
//! - [`Client::set_managed_fields`] moves what other managers claim, so that an apply can remove it.
//! - [`Client::set_scale`] changes the number of replicas under the same condition, and nothing else.
//! - [`Client::delete`] can demand the same, and says how far the deletion is.
//! - [`Client::get`] says "absent" only when the server says so of this very object.
//! - [`Client::watch`] loses nothing, deletes included, whatever the connection does.
//! - [`Client::logs`] tells a container's lines from its node's complaints, and a quiet log from a broken one.
//! - An [`Error`] says what was tried, what the server said, and whether [it may have taken effect](Effect).
//!
//! Objects are JSON: [`serde_json::Value`], or any type of yours that reads the parts that you care for. A [`Resource`]
//! says where a kind lives. For everything else there is [`Client::kube`].
//!
//! ```no_run
//! use scheduler_k8s_client::{Apply, Client, Condition, ConnectOptions, ErrorKind, Resource};
//! use serde_json::{Value, json};
//!
//! # async fn example() -> Result<(), scheduler_k8s_client::Error> {
//! let client = Client::connect(ConnectOptions::kubeconfig().context("staging")).await?;
//! let condition = match client.get::<Value>(&Resource::SERVICE, Some("shop"), "web").await? {
//!     None => Condition::Absent,
//!     Some(found) => Condition::Unchanged {
//!         uid: found["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
//!         resource_version: found["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned(),
//!     },
//! };
//! let body = json!({"spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
//! let apply = Apply::new(&Resource::SERVICE, Some("shop"), "web", body, "my-program", condition);
//! match client.apply(apply).await {
//!     Ok(applied) => println!("created: {}, warnings: {:?}", applied.created, applied.warnings),
//!     Err(error) if error.kind() == ErrorKind::Conflict => println!("somebody was faster: {error}"),
//!     Err(error) => return Err(error),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What it does not do
//!
//! It repeats no request, spawns no task of its own, keeps no cache and reads no environment variable unless
//! [`ConnectOptions::kubeconfig`] or [`ConnectOptions::in_cluster`] ask for it. Its requests leave at one place, by
//! `kube::Client::send`. Neither kube's typed API nor its `runtime` is used below: the one logs answers that it cannot
//! parse, and its tests for "not found" and "conflict" go by the reason alone; the other's watcher builds on that, logs
//! by itself and hides where a gap was.
//!
//! # Logs
//!
//! One `tracing` event per request at level debug: verb, resource, namespace, name, code, duration. Bodies, tokens and
//! query strings are never logged here and are in no `Debug` output or error. kube logs beside this (target `kube_client`):
//! URLs with their query at level debug, 5xx at level error.
//!
//! # Features
//!
//! `rustls-tls` and `ring` are on by default; `aws-lc-rs` can stand in for `ring`. No Kubernetes version of `k8s-openapi` is
//! chosen here, since only the final program may: enable one of its `v1_*` features there. [`kube`] is re-exported, and a
//! new major version of it is one of this crate.

pub use kube;

mod apply;
mod client;
mod connect;
mod credentials;
mod date;
mod delete;
mod error;
mod failure;
mod kubeconfig;
mod lines;
mod logs;
mod merge;
mod resource;
mod scale;
mod status;
mod transport;
mod watch;

pub use apply::{Applied, Apply, Condition};
pub use client::{Client, List, ListOptions, ServerVersion};
pub use connect::ConnectOptions;
pub use delete::{Delete, Deleted, Deletion, Propagation};
pub use error::{Effect, Error, ErrorKind, Missing, Operation, Verb};
pub use logs::{LogLine, LogOptions};
pub use resource::Resource;
pub use scale::{Scale, SetScale};
pub use status::FieldCause;
pub use watch::{WatchEvent, WatchOptions};
