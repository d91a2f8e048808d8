//! Making whole platforms be as their models have them.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_core::Stream;
use futures_util::StreamExt as _;
use futures_util::stream;
use scheduler_core::hooks::{App, HookError, Report};
use scheduler_core::{List, Observation, Target};
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep_until};

use super::bring::is_old;
use super::{AppReport, SchedulerHooks};
use crate::deliver::{Deadlines, HookSets};

/// Makes apps be as their models have them: after an outage, at a start, by the clock.
///
/// For each app it looks first, and writes only what differs:
///
/// * its namespace, the release's configuration and processes, and the routes;
/// * numbers of instances only where the model holds them (the formation, or
///   [`Exactly`](scheduler_core::Replicas::Exactly)). A number that differs and is held by something else (an autoscaler,
///   [`Keep`](scheduler_core::Replicas::Keep)) is left, and told by `on_replicas_change`;
/// * its workloads that the model does not have are deleted, unless they are younger than
///   [`spare`](SchedulerHooks::spare).
///
/// What differed is told by `on_drift`. Then the other hook sets are asked to
/// [reconcile](scheduler_core::hooks::LifecycleHooks::reconcile_app) the app.
///
/// [`App::release`] is taken for what is to run. A platform whose last deploy failed gives the release that runs instead,
/// and leaves out apps that are being deployed.
///
/// Nothing of it runs outside the future of [`run`](Self::run). Dropped, what was repaired stays so.
#[derive(Clone, Debug)]
pub struct Reconciler {
    hooks: SchedulerHooks,
    sets: HookSets,
    deadlines: Deadlines,
    pace: Pace,
    orphans: Option<Duration>,
}

/// How fast to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Pace {
    /// How many apps are looked at at the same time.
    pub apps: usize,
    /// How long to wait after each write before the next one, of whatever app. Looking waits for nothing.
    pub pause: Duration,
}

impl Default for Pace {
    /// Four apps at a time, ten writes a second.
    fn default() -> Self {
        Self { apps: 4, pause: Duration::from_millis(100) }
    }
}

impl Pace {
    /// So many apps at a time, and so long after each write.
    #[must_use]
    pub fn new(apps: usize, pause: Duration) -> Self {
        Self { apps, pause }
    }
}

/// What a reconciliation found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ReconcileReport {
    /// Each app, in the order in which they were done.
    pub apps: Vec<AppReport>,
    /// Workloads of ours that belong to no app, and were deleted.
    pub orphans: Vec<Target>,
    /// Those that are too young to be judged.
    pub spared: Vec<Target>,
    /// What could not be done for no single app: an app that could not be read, an orphan that could not be deleted.
    pub errors: Vec<HookError>,
}

impl ReconcileReport {
    /// Whether everything was as the models have it.
    #[must_use]
    pub fn is_in_sync(&self) -> bool {
        let app = |app: &AppReport| !app.changed && app.errors.is_empty() && app.drifts.is_empty();
        self.orphans.is_empty() && self.errors.is_empty() && self.apps.iter().all(app)
    }
}

impl Reconciler {
    /// Reconciles by these hooks, and tells these sets, of which the hooks may be one.
    #[must_use]
    pub fn new(hooks: SchedulerHooks, sets: HookSets) -> Self {
        Self { hooks, sets, deadlines: Deadlines::default(), pace: Pace::default(), orphans: None }
    }

    /// Sets how fast to go.
    #[must_use]
    pub fn pace(mut self, pace: Pace) -> Self {
        self.pace = pace;
        self
    }

    /// Sets how long the sets may take for what they are told.
    #[must_use]
    pub fn deadlines(mut self, deadlines: Deadlines) -> Self {
        self.deadlines = deadlines;
        self
    }

    /// Also deletes workloads of our owner, in any namespace, whose mark `unit` names none of the apps, once no launch has
    /// changed them for so long. What has no such mark is left alone.
    ///
    /// The apps must be all that there are, then: an app that is left out loses its workloads. Nothing is deleted if one of
    /// them could not be read.
    #[must_use]
    pub fn sweep_orphans(mut self, older_than: Duration) -> Self {
        self.orphans = Some(older_than);
        self
    }

    /// Reconciles these apps.
    ///
    /// Costs for each app that is in sync a namespace's and a list's reads, the reads of a plan for each process, of
    /// `put_config` if there is a configuration, and of `expose`.
    pub async fn run(&self, apps: impl IntoIterator<Item = App, IntoIter: Send> + Send) -> ReconcileReport {
        self.run_stream(stream::iter(apps).map(Ok)).await
    }

    /// Reconciles apps as they are read. One that could not be read is an error of the report.
    pub async fn run_stream(&self, apps: impl Stream<Item = Result<App, HookError>> + Send) -> ReconcileReport {
        let pacer = Pacer::new(self.pace.pause);
        let mut report = ReconcileReport::default();
        let mut names = BTreeSet::new();
        {
            let one = async |app: Result<App, HookError>| match app {
                Ok(app) => Ok((app.name.to_string(), self.app(&app, &pacer).await)),
                Err(error) => Err(error),
            };
            let mut done = std::pin::pin!(apps.map(one).buffer_unordered(self.pace.apps.max(1)));
            while let Some(one) = done.next().await {
                match one {
                    Ok((name, app)) => {
                        names.insert(name);
                        report.apps.push(app);
                    }
                    Err(error) => report.errors.push(error),
                }
            }
        }
        if let Some(older_than) = self.orphans.filter(|_| report.errors.is_empty()) {
            self.sweep(&names, older_than, &pacer, &mut report).await;
        }
        report
    }

    async fn app(&self, app: &App, pacer: &Pacer) -> AppReport {
        let mut report = self.hooks.bring(app, pacer).await;
        let drifts = report.drifts.iter().map(|drift| Report::Drifted(drift.clone()));
        let held = report.held.iter();
        let held = held.map(|h| Report::ReplicasChanged { target: h.target.clone(), from: h.from, to: h.to });
        for news in drifts.chain(held).collect::<Vec<_>>() {
            report.reports.push(self.sets.report(app, &news, &self.deadlines).await);
        }
        report.others = self.sets.reconcile(app, Some(SchedulerHooks::NAME), &self.deadlines).await;
        match report.others.verdict() {
            Ok(outcome) => report.changed |= outcome == scheduler_core::hooks::Outcome::Applied,
            Err(error) => report.errors.push(error),
        }
        report
    }

    async fn sweep(&self, apps: &BTreeSet<String>, older_than: Duration, pacer: &Pacer, report: &mut ReconcileReport) {
        let listed = match self.hooks.scheduler.list(List::default()).await {
            Ok(listed) => listed.workloads,
            Err(error) => return report.errors.push(error.into()),
        };
        for seen in listed.iter().filter(|seen| is_orphan(seen, apps)) {
            if !is_old(seen, older_than) {
                report.spared.push(seen.target.clone());
                continue;
            }
            match self.hooks.delete(seen, pacer).await {
                Ok(()) => report.orphans.push(seen.target.clone()),
                Err(error) => report.errors.push(error.into()),
            }
        }
    }
}

fn is_orphan(seen: &Observation, apps: &BTreeSet<String>) -> bool {
    !seen.deleting && seen.marks.unit.as_ref().is_some_and(|unit| !apps.contains(unit))
}

/// Lets one write follow another only after a pause. Without one it does nothing.
#[derive(Debug)]
pub(super) struct Pacer {
    pause: Duration,
    next: Mutex<Instant>,
}

/// The right to write once.
pub(super) struct Turn<'a> {
    pause: Duration,
    next: Option<MutexGuard<'a, Instant>>,
}

impl Pacer {
    pub(super) fn new(pause: Duration) -> Self {
        Self { pause, next: Mutex::new(Instant::now()) }
    }

    pub(super) fn none() -> Self {
        Self::new(Duration::ZERO)
    }

    /// Waits until something may be written. Nobody else writes until the turn is dropped.
    pub(super) async fn turn(&self) -> Turn<'_> {
        if self.pause.is_zero() {
            return Turn { pause: self.pause, next: None };
        }
        let next = self.next.lock().await;
        sleep_until(*next).await;
        Turn { pause: self.pause, next: Some(next) }
    }
}

impl Turn<'_> {
    /// Says whether anything was written.
    pub(super) fn wrote(&mut self, wrote: bool) {
        if let Some(next) = self.next.as_mut().filter(|_| wrote) {
            **next = Instant::now() + self.pause;
        }
    }
}
