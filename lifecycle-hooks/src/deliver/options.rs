//! How a worker works, and what it shows.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use scheduler_core::hooks::{AppName, EventId, HookError, HookName};

use super::{Deadlines, Told};
use crate::outbox::OutboxError;

/// How a [`Worker`](super::Worker) works. Every default suits a platform of some thousand apps.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WorkerOptions {
    /// On how many apps it works at the same time. 16.
    pub apps: usize,
    /// How long a claim holds without being renewed; it is renewed three times in that time. How long an app waits after a
    /// worker was killed. 30 s.
    pub lease: Duration,
    /// How long each hook may take.
    pub deadlines: Deadlines,
    /// How often an event is tried before it is parked. 10.
    pub attempts: u32,
    /// The bound of the delay after the first failure; it doubles with each further one. The delay is a random part of it.
    /// 1 s.
    pub backoff: Duration,
    /// The bound's bound. 5 minutes.
    pub backoff_cap: Duration,
    /// How long hooks that run may go on after the shutdown began. 20 s.
    pub grace: Duration,
    /// How long it relies on the outbox to say that something is due, before it looks by itself. 30 s.
    pub look: Duration,
    /// Makes the delays the same each time. Random if absent.
    pub seed: Option<u64>,
    /// Who is shown what happens.
    pub observer: Option<Arc<dyn DeliveryObserver>>,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self {
            apps: 16,
            lease: Duration::from_secs(30),
            deadlines: Deadlines::default(),
            attempts: 10,
            backoff: Duration::from_secs(1),
            backoff_cap: Duration::from_secs(5 * 60),
            grace: Duration::from_secs(20),
            look: Duration::from_secs(30),
            seed: None,
            observer: None,
        }
    }
}

impl WorkerOptions {
    /// Sets on how many apps it works at the same time; at least one.
    #[must_use]
    pub fn apps(mut self, apps: usize) -> Self {
        self.apps = apps;
        self
    }

    /// Sets how long a claim holds without being renewed.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets how long each hook may take.
    #[must_use]
    pub fn deadlines(mut self, deadlines: Deadlines) -> Self {
        self.deadlines = deadlines;
        self
    }

    /// Sets how often an event is tried before it is parked; at least once.
    #[must_use]
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Sets the bound of the first delay, and the bound of all.
    #[must_use]
    pub fn backoff(mut self, first: Duration, cap: Duration) -> Self {
        (self.backoff, self.backoff_cap) = (first, cap);
        self
    }

    /// Sets how long hooks that run may go on after the shutdown began.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Makes the delays the same each time.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets who is shown what happens.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn DeliveryObserver>) -> Self {
        self.observer = Some(observer);
        self
    }
}

/// Is shown what a worker does. It is called within the worker's future and must not block.
pub trait DeliveryObserver: Debug + Send + Sync + 'static {
    /// An event was told, or could not be.
    fn delivered(&self, delivery: &Delivery) {
        let _ = delivery;
    }

    /// The outbox failed at this call. The worker waits a while and goes on.
    fn outbox_failed(&self, call: &'static str, error: &OutboxError) {
        let _ = (call, error);
    }
}

/// What came of telling an event once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delivery {
    /// The event's app.
    pub app: AppName,
    /// Its place among the app's events.
    pub seq: i64,
    /// Its name.
    pub event: EventId,
    /// The hook that it is for; `None` if its stored form cannot be read.
    pub hook: Option<HookName>,
    /// Which attempt it was, from 1.
    pub attempt: u32,
    /// What the sets answered.
    pub told: Told,
    /// What they answered to [`AppGone`](scheduler_core::hooks::Report::AppGone), which follows a destroyed app's last event.
    pub gone: Option<Told>,
    /// What became of the event.
    pub end: DeliveryEnd,
}

/// What became of an event that was told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeliveryEnd {
    /// It is not told again.
    Done,
    /// It is told again.
    PutOff {
        /// Not before so much time has passed.
        after: Duration,
        /// Why; `None` if a hook only deferred it.
        error: Option<HookError>,
    },
    /// It blocks its app until an operator retries or drops it.
    Parked {
        /// Why.
        error: HookError,
    },
    /// The claim ran out, or its answer could not be stored: somebody tells it again.
    Lost,
}
