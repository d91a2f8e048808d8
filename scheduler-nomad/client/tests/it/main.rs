//! The client against scripted servers on loopback, and against a scripted service under a paused clock.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on ends")]

mod changes;
mod clock;
mod connect;
mod events;
mod faults;
mod follow;
mod logs;
mod models;
mod requests;
mod server;
#[cfg(feature = "rustls-tls")]
mod tls;
