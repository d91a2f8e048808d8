//! The conformance suite.

mod harness;

pub use harness::{Disturbance, Failure, Harness, Injection, Outcome, Timing, World};
