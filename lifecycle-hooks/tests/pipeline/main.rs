//! Deploy pipelines over the in-memory scheduler, on a paused clock.
#![expect(
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "this is a test, which clippy cannot tell in its helpers"
)]

mod faults;
mod golden;
mod stages;
mod stores;
mod support;
mod take_back;
mod turns;
