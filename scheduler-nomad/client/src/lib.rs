//! A thin Nomad client: typed requests, blocking queries, the event stream, typed errors.
//!
//! It knows Nomad's HTTP API and nothing of what one builds on it:
//!
//! - A read is a value, a [`Query`]: [`Client::query`] answers it once, [`Client::follow`] whenever something is new.
//! - [`Client::register`] takes effect only under a [`Condition`]: the job is absent, or still the one that was read.
//! - Every other change is a function of [`Client`] whose documentation says whether it may be repeated and what it costs;
//!   what the server can make conditional takes a condition.
//! - Fields that are not modelled survive reading a job, changing it and registering it.
//! - [`Client::events`] reconnects by itself and says when to read everything anew, and its documentation when to poll
//!   instead.
//! - [`Client::logs`] reads and follows the output of a task, by way of the agent.
//! - An [`Error`] says what was tried, what the server said, what it means ([`ErrorKind`], although the server answers most
//!   refusals with 500 and a sentence), and whether [it may have taken effect](Effect).
//!
//! ```no_run
//! use scheduler_nomad_client::{Client, Condition, ConnectOptions, ErrorKind, Query, Register};
//!
//! # async fn example() -> Result<(), scheduler_nomad_client::Error> {
//! let client = Client::connect(ConnectOptions::from_environment()?).await?;
//! let Some(mut job) = client.query(&Query::job("shop", "web")).await?.value else {
//!     return Ok(());
//! };
//! let condition = Condition::Unchanged { job_modify_index: job.job_modify_index };
//! for group in &mut job.task_groups {
//!     group.count = Some(3);
//! }
//! match client.register(Register::new(&job, condition)).await {
//!     Ok(registered) => println!("evaluation {}, warnings: {}", registered.eval_id, registered.warnings),
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
//! [`ConnectOptions::from_environment`] is called. All requests leave at one place. Reads are consistent: `stale` is not
//! offered, since what one has just written would be missing.
//!
//! # Tracing
//!
//! One `tracing` event per request at level debug: verb, resource, namespace, name, code, duration. Bodies, tokens and
//! query strings are never logged and are in no `Debug` output or error, and neither are values of variables, payloads of
//! dispatches, and what tasks print.
//!
//! # Features
//!
//! `rustls-tls` and `ring` are on by default; `aws-lc-rs` can stand in for `ring`. A crypto provider that the program
//! installed goes before both.

mod base64;
mod client;
mod connect;
mod connection;
mod date;
mod environment;
mod error;
mod events;
mod failure;
mod follow;
mod lines;
mod logs;
pub mod model;
mod pause;
mod query;
mod target;
mod texts;
#[cfg(feature = "rustls-tls")]
mod tls;
mod transport;
mod write;

pub use client::{Answer, Client, ServerVersion};
pub use connect::{ConnectOptions, Token};
pub use error::{Effect, Error, ErrorKind, Missing, Operation, Verb};
pub use events::{Event, EventOptions, StreamItem, Topic};
pub use logs::{FileEvent, LogFrame, LogOptions, LogOrigin, LogStream};
pub use query::{ListOptions, Query};
pub use transport::Meta;
pub use write::{
    Condition, DeploymentChanged, Deregistered, Dispatch, Dispatched, Evaluated, Register, Registered, Revert, Scale,
    VariableCondition,
};
