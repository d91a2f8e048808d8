//! The client against scripted servers on loopback, and against a scripted service under a paused clock.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on ends")]

mod clock;
mod faults;
mod kubeconfig;
mod logs;
mod reads;
mod recorded;
mod scale;
mod server;
mod tls;
mod watch;
mod writes;
