//! Telling events to hook sets: in order per app, at least once, with deadlines.
//!
//! [`HookSets`] are several [`LifecycleHooks`](scheduler_core::hooks::LifecycleHooks) in a defined order; a model asks them
//! to [validate](HookSets::validate) a [`Proposal`] before it commits. A [`Worker`] takes events from an
//! [outbox](crate::outbox) and tells them. [`Recorder`] is a set for tests.

mod backoff;
mod options;
mod proposal;
mod recorder;
mod sets;
mod worker;

pub use options::{Delivery, DeliveryEnd, DeliveryObserver, WorkerOptions};
pub use proposal::Proposal;
pub use recorder::{Recorded, Recorder, Scripted};
pub use sets::{Deadlines, DuplicateName, HookSets, Refusal, SetAnswer, Told, Veto};
pub use worker::Worker;
