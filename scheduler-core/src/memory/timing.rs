//! How fast things happen in the simulation.

use std::time::Duration;

/// From a change of a spec until the controller takes notice of it. Real platforms have this lag too.
pub(super) const NOTICE: Duration = Duration::from_millis(50);
/// How long an instance takes to end that heeds the request to stop.
pub(super) const STOPPING: Duration = Duration::from_millis(100);
/// From the loss of a node until its instances are given up.
pub(super) const EVICTION: Duration = Duration::from_secs(5);
/// The default time from placing an instance until its container runs.
pub(super) const START_UP: Duration = Duration::from_secs(1);
/// The first wait before a container is started again. Each further one is twice as long.
pub(super) const FIRST_BACK_OFF: Duration = Duration::from_secs(1);
/// The longest wait before a container is started again.
pub(super) const LAST_BACK_OFF: Duration = Duration::from_secs(10);
/// After so long a run a container is no longer held to be crashing.
pub(super) const STEADY: Duration = Duration::from_secs(10);
