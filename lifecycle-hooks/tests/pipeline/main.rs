//! Deploy pipelines over the in-memory scheduler, on a paused clock.
#![expect(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "this is a test")]

mod faults;
mod golden;
mod stages;
mod stores;
mod support;
mod take_back;
mod turns;
