//! The layers: on a service that answers as written down, and on memory.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "helpers of tests are tests")]

mod chaos;
mod converge;
mod logs;
mod observe;
mod retry;
mod script;
mod watch;
