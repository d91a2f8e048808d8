//! Sugar over the operations: functions of a [`Scheduler`] that any backend has, since they are made of its operations.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::future::{Either, select};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use crate::capability::Feature;
use crate::diagnosis::Diagnosis;
use crate::error::{Error, Result, Retry};
use crate::name::Target;
use crate::observation::{Counts, DeploymentSummary, Detail, Observation};
use crate::op::{Filter, Launch, Launched, Status, Watch};
use crate::scheduler::Scheduler;
use crate::verdict::Verdict;
use crate::version::Revision;
use crate::watch::WatchItem;

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
    /// The awaited revision is healthy.
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

/// What every [`Scheduler`] can do by its operations alone. No layer sees one of these as a single operation.
///
/// All are cancel safe: dropping the future abandons the waiting and nothing else.
#[async_trait]
pub trait SchedulerExt: Scheduler {
    /// The counts of a workload; `None` if it is not there. One [`status`](Scheduler::status).
    ///
    /// # Errors
    /// Those of [`status`](Scheduler::status).
    async fn summary(&self, target: &Target) -> Result<Option<DeploymentSummary>> {
        let found = self.status(Status::new(target.clone(), Detail::Counts)).await?;
        Ok(found.0.map(|seen| seen.counts.into()))
    }

    /// Waits until a workload is healthy, or it is certain that it will not be. As [`wait_observed`](Self::wait_observed).
    ///
    /// # Errors
    /// As [`wait_observed`](Self::wait_observed).
    async fn wait(&self, target: &Target, options: &WaitOptions) -> Result<WaitOutcome> {
        self.wait_observed(target, options, &mut |_| ()).await
    }

    /// Waits until a workload is healthy, or it is certain that it will not be, and shows each look.
    ///
    /// Two clocks run: `stall`, which starts anew with progress, and `total`. Progress is a new maximum of updated, ready
    /// or available instances of the awaited revision, or a new minimum of old ones; restarts and flapping are none. When
    /// a clock runs out there is one last look. A deadline is never a success.
    ///
    /// Costs one status at the start, one per [`poll`](WaitOptions::poll), and one more with evidence when the verdict is
    /// Failed; and a watch, on a backend that has it.
    ///
    /// # Errors
    /// An error that may pass ([`Error::retry`] is not [`Retry::Never`]) is waited out, and is the result only if a clock
    /// runs out on it. Any other error ends the waiting at once.
    async fn wait_observed(
        &self,
        target: &Target,
        options: &WaitOptions,
        look: &mut (dyn for<'a> FnMut(&'a Observation) + Send),
    ) -> Result<WaitOutcome> {
        let mut wait = Wait::new(options);
        let mut changes =
            self.capabilities().has(Feature::Watch).then(|| self.watch(Watch::new(Filter::target(target.clone()))));
        loop {
            let mut pause = options.poll;
            match self.status(Status::new(target.clone(), Detail::Counts)).await {
                Ok(found) => {
                    let seen = found.0.map(|seen| *seen);
                    if let Some(seen) = &seen {
                        look(seen);
                    }
                    match (wait.judge(seen.as_ref()), seen) {
                        (Some(WaitOutcome::Failed(_)), Some(seen)) => return Ok(failed(self, seen).await),
                        (Some(outcome), _) => return Ok(outcome),
                        (None, _) => {}
                    }
                }
                Err(error) if error.retry() == Retry::Never => return Err(error),
                Err(error) => {
                    pause = pause.max(error.retry_after().unwrap_or_default());
                    wait.error = Some(error);
                }
            }
            if let Some(end) = wait.over() {
                return end;
            }
            let until = Instant::now() + pause.min(wait.left());
            // Changes are judged as they come, without a request; whatever needs one goes round the loop.
            while let Some(stream) = &mut changes {
                match select(stream.next(), Box::pin(tokio::time::sleep_until(until))).await {
                    Either::Right(((), _)) => break,
                    Either::Left((Some(Ok(WatchItem::Snapshot(seen) | WatchItem::Changed(seen))), _)) => {
                        look(&seen);
                        match wait.judge(Some(&seen)) {
                            Some(WaitOutcome::Succeeded) => return Ok(WaitOutcome::Succeeded),
                            Some(_) => break,
                            None => {}
                        }
                    }
                    Either::Left((Some(Ok(WatchItem::Deleted { .. })), _)) => break,
                    Either::Left((Some(Ok(_) | Err(_)), _)) => {}
                    Either::Left((None, _)) => changes = None,
                }
            }
            if changes.is_none() {
                tokio::time::sleep_until(until).await;
            }
        }
    }

    /// Waits until a workload is gone, instances and all. Only looks: see [`delete`](Scheduler::delete) for what makes it
    /// go. Costs one status per [`poll`](WaitOptions::poll); `stall` and `revision` do not count here.
    ///
    /// Ends with [`Gone`](WaitOutcome::Gone) or [`DeadlineExceeded`](WaitOutcome::DeadlineExceeded).
    ///
    /// # Errors
    /// As [`wait_observed`](Self::wait_observed).
    async fn wait_gone(&self, target: &Target, options: &WaitOptions) -> Result<WaitOutcome> {
        let end = Instant::now() + options.total;
        let mut counts = Counts::default();
        loop {
            let mut pause = options.poll;
            let mut last = None;
            match self.status(Status::new(target.clone(), Detail::Counts)).await {
                Ok(found) => match found.0 {
                    None => return Ok(WaitOutcome::Gone),
                    Some(seen) => counts = seen.counts,
                },
                Err(error) if error.retry() == Retry::Never => return Err(error),
                Err(error) => {
                    pause = pause.max(error.retry_after().unwrap_or_default());
                    last = Some(error);
                }
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return last.map_or(Ok(WaitOutcome::DeadlineExceeded(counts)), Err);
            }
            sleep(pause.min(left)).await;
        }
    }

    /// Launches, then waits for the revision that was launched.
    ///
    /// # Errors
    /// Those of [`launch`](Scheduler::launch) and of [`wait_observed`](Self::wait_observed). After an error of the latter
    /// the launch stands.
    async fn launch_and_wait(&self, launch: Launch, options: &WaitOptions) -> Result<(Launched, WaitOutcome)> {
        let target = launch.workload.target().clone();
        let launched = self.launch(launch).await?;
        let options = options.clone().revision(launched.revision.clone());
        let outcome = self.wait(&target, &options).await?;
        Ok((launched, outcome))
    }
}

impl<S: Scheduler + ?Sized> SchedulerExt for S {}

/// The outcome Failed with evidence. That takes a second look; if it cannot be had, or shows another state, the first
/// look's diagnoses still stand.
async fn failed<S: Scheduler + ?Sized>(scheduler: &S, seen: Observation) -> WaitOutcome {
    let evidence = scheduler.status(Status::new(seen.target, Detail::Evidence)).await;
    let evidence = evidence.ok().and_then(|found| found.0).filter(|again| again.verdict() == Verdict::Failed);
    WaitOutcome::Failed(evidence.map_or(seen.diagnoses, |again| again.diagnoses))
}

/// The clocks, and the best that was seen.
struct Wait<'a> {
    options: &'a WaitOptions,
    revision: Option<Revision>,
    incarnation: Option<String>,
    start: Instant,
    progress: Instant,
    best: Option<Counts>,
    counts: Counts,
    error: Option<Error>,
}

impl<'a> Wait<'a> {
    fn new(options: &'a WaitOptions) -> Self {
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
    fn judge(&mut self, seen: Option<&Observation>) -> Option<WaitOutcome> {
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
            Verdict::Healthy => Some(WaitOutcome::Succeeded),
            Verdict::Failed => Some(WaitOutcome::Failed(Vec::new())),
            Verdict::Deleting | Verdict::Progressing(_) | Verdict::Degraded => None,
        }
    }

    fn note_progress(&mut self, now: Counts) {
        let best = self.best.get_or_insert(now);
        let further = now.updated > best.updated
            || now.ready > best.ready
            || now.available > best.available
            || now.old < best.old;
        best.updated = best.updated.max(now.updated);
        best.ready = best.ready.max(now.ready);
        best.available = best.available.max(now.available);
        best.old = best.old.min(now.old);
        if further {
            self.progress = Instant::now();
        }
    }

    /// How long until the next clock runs out.
    fn left(&self) -> Duration {
        let now = Instant::now();
        let total = self.options.total.saturating_sub(now - self.start);
        total.min(self.options.stall.saturating_sub(now - self.progress))
    }

    /// The end, if a clock has run out.
    fn over(&mut self) -> Option<Result<WaitOutcome>> {
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
