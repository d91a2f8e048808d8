//! For how long, and how often.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::Error;
use crate::rng::Rng;

/// How often, and for how long, to try.
///
/// The sleep before the n-th repetition is a random part of `first · 2^(n-1)`, at most of `longest` (full jitter, which
/// spreads callers that failed together better than a sleep of some least length: Brooker, "Exponential Backoff And
/// Jitter", 2015). If the server asks to be left alone for a while ([`retry_after`](Error::retry_after)), it is in addition
/// to that while.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryPolicy {
    /// How many attempts to make at most, the first one included; none counts as one.
    pub attempts: u32,
    /// The most that the first sleep can be.
    pub first: Duration,
    /// The most that any sleep can be, but for what the server asks for.
    pub longest: Duration,
    /// No attempt begins later than this after the first one. For a stream: after its first failure in a row.
    pub total: Duration,
    /// Makes the sleeps the same each time, for tests. If absent, each [`Retry`](super::Retry) has others.
    pub seed: Option<u64>,
}

impl Default for RetryPolicy {
    /// Up to five attempts within a minute; sleeps of up to 200 ms, doubled up to 10 s.
    fn default() -> Self {
        Self {
            attempts: 5,
            first: Duration::from_millis(200),
            longest: Duration::from_secs(10),
            total: Duration::from_secs(60),
            seed: None,
        }
    }
}

impl RetryPolicy {
    /// Sets how many attempts to make at most, the first one included.
    #[must_use]
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Sets the most that the first sleep can be.
    #[must_use]
    pub fn first(mut self, first: Duration) -> Self {
        self.first = first;
        self
    }

    /// Sets the most that any sleep can be.
    #[must_use]
    pub fn longest(mut self, longest: Duration) -> Self {
        self.longest = longest;
        self
    }

    /// Sets for how long to begin attempts.
    #[must_use]
    pub fn total(mut self, total: Duration) -> Self {
        self.total = total;
        self
    }

    /// Makes the sleeps the same each time.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }
}

/// Failures in a row.
#[derive(Debug)]
pub(super) struct Row {
    began: Instant,
    failures: u32,
}

impl Row {
    /// A row that begins now.
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), failures: 0 }
    }
}

/// A policy, and the dice for it.
#[derive(Debug)]
pub(super) struct Pace {
    policy: RetryPolicy,
    rng: Mutex<Rng>,
}

impl Pace {
    pub(super) fn new(policy: RetryPolicy) -> Self {
        let rng = policy.seed.map_or_else(Rng::unseeded, Rng::new);
        Self { policy, rng: Mutex::new(rng) }
    }

    pub(super) fn longest(&self) -> Duration {
        self.policy.longest
    }

    /// Takes in a failure. How long to sleep before the next attempt; `None` if there is to be none.
    pub(super) fn pause(&self, row: &mut Row, error: &Error, deadline: Option<Instant>) -> Option<Duration> {
        row.failures = row.failures.saturating_add(1);
        if row.failures >= self.policy.attempts {
            return None;
        }
        let doubled = self.policy.first.saturating_mul(2_u32.saturating_pow(row.failures - 1));
        let wait = self.part_of(doubled.min(self.policy.longest));
        let wait = wait.saturating_add(error.retry_after().unwrap_or_default());
        let next = Instant::now().checked_add(wait)?;
        let in_time = next - row.began <= self.policy.total && deadline.is_none_or(|deadline| next < deadline);
        in_time.then_some(wait)
    }

    fn part_of(&self, most: Duration) -> Duration {
        // The dice are one number, which a panic elsewhere cannot have broken.
        self.rng.lock().unwrap_or_else(PoisonError::into_inner).up_to(most)
    }
}
