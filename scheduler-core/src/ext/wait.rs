//! Waiting: for how long, and how it ends.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::diagnosis::Diagnosis;
use crate::error::{Error, Result};
use crate::observation::{Counts, Detail, Observation};
use crate::op::Status;
use crate::scheduler::Scheduler;
use crate::verdict::Verdict;
use crate::version::Revision;

/// For how long to wait, and for what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WaitOptions {
    /// The revision that is awaited; the one that is first seen, if absent.
    pub revision: Option<Revision>,
    /// How long to go on without progress. It starts anew whenever there is some.
    pub stall: Duration,
    /// How long to wait in all.
    pub total: Duration,
    /// How often to look. With a watch, changes are seen as they come and this is the most that an age can be late.
    pub poll: Duration,
}

impl Default for WaitOptions {
    /// Up to ten minutes without progress, up to an hour in all, a look every two seconds.
    fn default() -> Self {
        Self {
            revision: None,
            stall: Duration::from_secs(600),
            total: Duration::from_secs(3600),
            poll: Duration::from_secs(2),
        }
    }
}

impl WaitOptions {
    /// Sets which revision is awaited.
    #[must_use]
    pub fn revision(mut self, revision: Revision) -> Self {
        self.revision = Some(revision);
        self
    }

    /// Sets how long to go on without progress.
    #[must_use]
    pub fn stall(mut self, stall: Duration) -> Self {
        self.stall = stall;
        self
    }

    /// Sets how long to wait in all.
    #[must_use]
    pub fn total(mut self, total: Duration) -> Self {
        self.total = total;
        self
    }

    /// Sets how often to look.
    #[must_use]
    pub fn poll(mut self, poll: Duration) -> Self {
        self.poll = poll;
        self
    }
}

/// How waiting ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WaitOutcome {
    /// The awaited revision is healthy; a job is complete; a periodic job is there.
    Succeeded,
    /// The verdict is [`Verdict::Failed`]; with the evidence, gathered before anybody cleans up.
    Failed(Vec<Diagnosis>),
    /// There was no progress for [`WaitOptions::stall`].
    Stalled(Counts),
    /// [`WaitOptions::total`] passed.
    DeadlineExceeded(Counts),
    /// Something else was launched meanwhile.
    Superseded {
        /// What is launched now.
        by: Revision,
    },
    /// The workload is not there (any more).
    Gone,
}

/// The outcome Failed with evidence. That takes a second look; if it cannot be had, or shows another state, the first
/// look's diagnoses still stand.
pub(super) async fn failed<S: Scheduler + ?Sized>(scheduler: &S, seen: Observation) -> WaitOutcome {
    let evidence = scheduler.status(Status::new(seen.target, Detail::Evidence)).await;
    let evidence = evidence.ok().and_then(|found| found.0).filter(|again| again.verdict() == Verdict::Failed);
    WaitOutcome::Failed(evidence.map_or(seen.diagnoses, |again| again.diagnoses))
}

/// The clocks, and the best that was seen.
pub(super) struct Wait<'a> {
    options: &'a WaitOptions,
    revision: Option<Revision>,
    incarnation: Option<String>,
    start: Instant,
    progress: Instant,
    best: Option<Counts>,
    counts: Counts,
    pub(super) error: Option<Error>,
}

impl<'a> Wait<'a> {
    pub(super) fn new(options: &'a WaitOptions) -> Self {
        let now = Instant::now();
        Self {
            options,
            revision: options.revision.clone(),
            incarnation: None,
            start: now,
            progress: now,
            best: None,
            counts: Counts::default(),
            error: None,
        }
    }

    /// Takes in one look. `None`: go on waiting.
    pub(super) fn judge(&mut self, seen: Option<&Observation>) -> Option<WaitOutcome> {
        self.error = None;
        let Some(seen) = seen else { return Some(WaitOutcome::Gone) };
        if *self.incarnation.get_or_insert_with(|| seen.incarnation.clone()) != seen.incarnation {
            return Some(WaitOutcome::Gone);
        }
        if let Some(revision) = &seen.revision
            && self.revision.get_or_insert_with(|| revision.clone()) != revision
        {
            return Some(WaitOutcome::Superseded { by: revision.clone() });
        }
        self.counts = seen.counts;
        // Before the backend took notice, its counts are of what was there before.
        if seen.noticed {
            self.note_progress(seen.counts);
        }
        match seen.verdict() {
            Verdict::Healthy | Verdict::Complete | Verdict::Idle | Verdict::Suspended => Some(WaitOutcome::Succeeded),
            Verdict::Failed => Some(WaitOutcome::Failed(Vec::new())),
            Verdict::Deleting | Verdict::Progressing(_) | Verdict::Degraded => None,
        }
    }

    fn note_progress(&mut self, now: Counts) {
        let best = self.best.get_or_insert(now);
        let further = now.updated > best.updated
            || now.ready > best.ready
            || now.available > best.available
            || now.succeeded > best.succeeded
            || now.old < best.old;
        best.updated = best.updated.max(now.updated);
        best.ready = best.ready.max(now.ready);
        best.available = best.available.max(now.available);
        best.succeeded = best.succeeded.max(now.succeeded);
        best.old = best.old.min(now.old);
        if further {
            self.progress = Instant::now();
        }
    }

    /// How long until the next clock runs out.
    pub(super) fn left(&self) -> Duration {
        let now = Instant::now();
        let total = self.options.total.saturating_sub(now - self.start);
        total.min(self.options.stall.saturating_sub(now - self.progress))
    }

    /// The end, if a clock has run out.
    pub(super) fn over(&mut self) -> Option<Result<WaitOutcome>> {
        let now = Instant::now();
        let total = now - self.start >= self.options.total;
        if !total && now - self.progress < self.options.stall {
            return None;
        }
        if let Some(error) = self.error.take() {
            return Some(Err(error));
        }
        Some(Ok(if total { WaitOutcome::DeadlineExceeded(self.counts) } else { WaitOutcome::Stalled(self.counts) }))
    }
}
