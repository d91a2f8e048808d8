//! Delivers a platform's model events to hooks, and runs deploys.
//!
//! * [`outbox`]: where events wait, written in the models' own transaction, so that none is lost and none is told of a
//!   change that was rolled back: in memory, SQLite, PostgreSQL;
//! * [`deliver`]: tells them to [hook sets](scheduler_core::hooks::LifecycleHooks), in order per app, at least once;
//! * [`desired`]: what is to run, from what the models say;
//! * [`generic`]: hooks over any [`Scheduler`](scheduler_core::Scheduler), and reconciliation;
//! * [`pipeline`]: deploys as ordered, named stages, each with a verdict.

pub mod deliver;
pub mod desired;
pub mod generic;
pub mod outbox;
pub mod pipeline;

/// The samples in the README are compiled and run with the crate's own examples: it has all that they use.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
