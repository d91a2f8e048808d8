//! An in-process Nomad for tests.
//!
//! [`FakeNomad`] is an HTTP server on loopback with a state machine behind it: jobs and their versions, evaluations,
//! placement on nodes with capacity, deployments with canaries, allocations whose tasks live and die, launches by a clock
//! and by dispatch, logs, registrations of services, variables, blocking queries, an event stream, namespaces, and access
//! control. It answers what a real agent (2.0.6) was recorded to answer, with the same
//! statuses and texts, and nothing else: a request, or a field of a job, that there is no recording of is answered with
//! status 501 and a text that says so. No program of the workload ever runs.
//!
//! ```
//! use scheduler_nomad_fake::{FakeNomad, Options};
//!
//! # fn main() -> Result<(), scheduler_nomad_fake::FakeError> {
//! let nomad = FakeNomad::start(Options::default())?;
//! let address = nomad.address(); // give it to the client under test
//! assert!(address.starts_with("http://127.0.0.1:"));
//! # Ok(())
//! # }
//! ```
//!
//! # Time
//!
//! The cluster has a clock of its own, and everything goes by it: health, back-off, deadlines, the waits of blocking
//! queries, heartbeats, launches of periodic jobs. With [`Pace::Times`] it runs faster than the wall clock; with [`Pace::Manual`] it stands still
//! until [`FakeNomad::advance`], and a test sees every state in between, every time the same.
//!
//! # What runs
//!
//! Jobs of every type, the children of periodic and parameterized ones too. Tasks run in the order of their lifecycle. What
//! becomes of one is decided by its driver and driver configuration:
//!
//! | driver | fate |
//! |---|---|
//! | `docker`, `podman` | by the name of the image, below |
//! | `mock_driver` | `run_for`, `exit_code`, `exit_signal`, `start_error`, `start_error_recoverable`, `start_block_for` |
//! | `raw_exec`, `exec`, `java` | runs |
//!
//! Any other driver is missing on every node, so that its job cannot be placed. A task that is awaited to end (before or
//! after the main ones, no sidecar) and would run for ever ends at once.
//!
//! A template is not executed. A task waits for the variables that its templates name with `nomadVar "<path>"`; a change
//! of one changes nothing.
//!
//! The containers of `docker` and `podman` write to their standard output: `start <n>` at each start (n counts from 0),
//! `tick <k>` at once and each half second (k counts from 0), and `end` when they come to their own end. Other drivers write
//! nothing.
//!
//! # Image fates
//!
//! `sim/<fate>{/<parameter>-<n>}[:tag]`. The tag is free: from `sim/run:1` to `sim/run:2` is an update with the same
//! fate. An image outside `sim/` behaves like `sim/run`; an unknown fate or parameter like `sim/invalid-image`.
//!
//! | image | what happens |
//! |---|---|
//! | `sim/run` | runs, passes its checks, stops at once when it is told to |
//! | `sim/slow/after-N` | is pulled for N seconds, then like `run` |
//! | `sim/pull-error` | the pull fails, is repeated as the restart policy says, and the allocation fails |
//! | `sim/invalid-image` | likewise, with a text that says that the name is none |
//! | `sim/crash/after-N/exit-C` | exits with C after N seconds (`after-1`, `exit-1` when left out) |
//! | `sim/crash/after-N/signal-S` | is killed by signal S after N seconds: exit code 128 + S |
//! | `sim/done/after-N/exit-C` | ends after N seconds with C (`after-1`, `exit-0` when left out) |
//! | `sim/oom/after-N` | is killed for its memory after N seconds: exit code 137, signal 9, `oom_killed` |
//! | `sim/never-ready` | runs, but its checks never pass; without a check in its group, like `run` |
//! | `sim/stubborn` | runs and ignores the signal: its end takes the whole kill timeout |
//!
//! # Where it differs from a real agent
//!
//! - The event stream is sent in chunks (a real agent sends neither a length nor chunks) and has no events of nodes and
//!   services.
//! - A blocking query that nothing wakes answers after its wait plus a sixteenth, the latest that a real agent does.
//! - A task in restart mode `delay` whose attempts are used up goes on as if they were not.
//! - Garbage is collected only when it is asked for (`PUT /v1/system/gc`).
//! - While a canary waits, what is lost of the version before is replaced by the new version.
//! - The summary of a parent counts the children that it has; a real one goes on counting a child that was registered again
//!   by somebody, which makes it nobody's child.
//! - A file of logs does not rotate, and checks have no results of their own.
//! - One node has one address, so that a static port is taken after one allocation (on a real loopback agent after two).

mod cluster;
mod error;
mod http;
mod job;
mod nomad;
mod options;
mod time;

pub use error::FakeError;
pub use nomad::FakeNomad;
pub use options::{Access, Node, Options, Pace};
