//! Sugar over the operations: functions of a [`Scheduler`] that any backend has, since they are made of its operations.

mod endpoints;
mod sweep;
mod wait;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::future::{Either, join_all, select};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use wait::{Wait, failed};

pub use endpoints::watch_endpoints;
pub use sweep::{Surplus, SweepOptions, SweepPlan};
pub use wait::{WaitOptions, WaitOutcome};

use crate::capability::Feature;
use crate::error::{Conflict, Error, ErrorKind, Result, Retry};
use crate::name::Target;
use crate::observation::{Counts, DeploymentSummary, Detail, Exit, Observation};
use crate::op::{
    Change, Delete, Deleted, Effect, Filter, History, Launch, Launched, List, OpName, Rollout, RolloutAction, Run,
    RunId, RunKey, RunStarted, Status, Steered, Watch,
};
use crate::scheduler::Scheduler;
use crate::version::{Guard, Revision};
use crate::watch::WatchItem;
use crate::workload::{CheckedWorkload, Kind, Replicas};

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

    /// Waits until a workload is healthy, or it is certain that it will not be, and shows each look. A job is awaited until
    /// it has ended.
    ///
    /// Two clocks run: `stall`, which starts anew with progress, and `total`. Progress is a new maximum of updated, ready or
    /// available instances of the awaited revision, or of a job's completions, or a new minimum of old ones; restarts and
    /// flapping are none. When
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

    /// Deletes, again and again, until it is gone. Costs one delete per [`poll`](WaitOptions::poll); `stall` and `revision`
    /// do not count here. The guard holds for the first delete; what is on its way out only goes on.
    ///
    /// Ends with [`Gone`](WaitOutcome::Gone), also when there was nothing, or
    /// [`DeadlineExceeded`](WaitOutcome::DeadlineExceeded).
    ///
    /// # Errors
    /// Those of [`delete`](Scheduler::delete). One that may pass is waited out, and is the result only if the time runs out
    /// on it.
    async fn delete_and_wait(&self, op: Delete, options: &WaitOptions) -> Result<WaitOutcome> {
        let end = Instant::now() + options.total;
        loop {
            let (mut pause, mut last) = (options.poll, None);
            match self.delete(op.clone()).await {
                Ok(Deleted::Gone | Deleted::WasAbsent) => return Ok(WaitOutcome::Gone),
                Ok(Deleted::Deleting { .. }) => {}
                Err(error) if error.retry() == Retry::SameRequest => {
                    pause = pause.max(error.retry_after().unwrap_or_default());
                    last = Some(error);
                }
                Err(error) => return Err(error),
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return last.map_or(Ok(WaitOutcome::DeadlineExceeded(Counts::default())), Err);
            }
            sleep(pause.min(left)).await;
        }
    }

    /// Launches; and where that is refused as [`MustReplace`](ErrorKind::MustReplace), deletes what is there, waits until it
    /// is gone, and launches anew. The answer then is [`Effect::Replaced`].
    ///
    /// The old one has ended before the new one starts. History and configurations of the old one go with it, as its routes
    /// do; a launch that refers to a configuration needs it stored again. When it is dropped in between, nothing is there, and
    /// the next call launches.
    ///
    /// # Errors
    /// Those of [`launch`](Scheduler::launch) and [`delete`](Scheduler::delete); and
    /// [`Conflict`](ErrorKind::Conflict) when it is not gone within [`WaitOptions::total`].
    async fn launch_or_replace(&self, launch: Launch, options: &WaitOptions) -> Result<Launched> {
        let error = match self.launch(launch.clone()).await {
            Err(error) if *error.kind() == ErrorKind::MustReplace => error,
            answer => return answer,
        };
        let target = launch.workload.target().clone();
        let delete = Delete::new(target.clone()).guard(launch.guard.clone());
        if self.delete_and_wait(delete, options).await? != WaitOutcome::Gone {
            let words = format!("it was not gone within {} s", options.total.as_secs());
            let late = Error::new(ErrorKind::Conflict(Conflict::Deleting), words).with_op(OpName::Launch);
            let late = late.with_target(&target);
            return Err(match error.backend() {
                Some(backend) => late.with_backend(backend),
                None => late,
            });
        }
        let mut launched = self.launch(launch.guard(Guard::IfAbsent)).await?;
        launched.change = Change::Updated(Effect::Replaced);
        Ok(launched)
    }

    /// Launches an earlier revision again, with as many instances as there are now.
    ///
    /// # Errors
    /// [`Precondition`](ErrorKind::Precondition) when that revision is not kept, or when none was
    /// [marked](Scheduler::mark_healthy); otherwise those of [`history`](Scheduler::history) and
    /// [`launch`](Scheduler::launch).
    async fn rollback(&self, target: &Target, to: &RollbackTo) -> Result<Launched> {
        let history = self.history(History::new(target.clone())).await?;
        let (entry, lack) = match to {
            RollbackTo::LastHealthy => (history.last_healthy(), "no revision was marked healthy".to_owned()),
            RollbackTo::Revision(revision) => (history.get(revision), format!("{revision} is not among those kept")),
        };
        let Some(entry) = entry else {
            let error = Error::new(ErrorKind::Precondition, format!("{lack}, so that there is nothing to go back to"));
            return Err(error.with_op(OpName::History).with_target(target).with_backend(self.capabilities().backend()));
        };
        let mut workload = CheckedWorkload::clone(&entry.workload).into_inner();
        if let Kind::Service(service) = &mut workload.kind {
            service.replicas = Replicas::Keep(service.replicas.written());
        }
        self.launch(Launch::new(CheckedWorkload::try_from(workload)?)).await
    }

    /// Replaces every instance by a new one of the same revision. One [`rollout`](Scheduler::rollout).
    ///
    /// # Errors
    /// Those of [`rollout`](Scheduler::rollout).
    async fn restart(&self, target: &Target) -> Result<Steered> {
        self.rollout(Rollout::new(target.clone(), RolloutAction::Restart)).await
    }

    /// Runs a periodic job now. One [`run`](Scheduler::run).
    ///
    /// # Errors
    /// Those of [`run`](Scheduler::run).
    async fn trigger(&self, periodic: &Target, key: RunKey) -> Result<RunStarted> {
        self.run(Run::now(periodic.clone(), key)).await
    }

    /// Runs, then waits for the end, and tells how the main container ended.
    ///
    /// A run whose container never started, and one that vanished, have no exit; neither is exit code zero.
    ///
    /// # Errors
    /// Those of [`run`](Scheduler::run) and of [`wait_observed`](Self::wait_observed). After an error of the latter the run
    /// goes on; the same call again finds it.
    async fn run_and_wait(&self, run: Run, options: &WaitOptions) -> Result<RunOutcome> {
        let started = self.run(run).await?;
        let target = started.run.target();
        let outcome = self.wait(target, options).await?;
        let seen = self.status(Status::new(target.clone(), Detail::Instances)).await?.0;
        let ended =
            seen.iter().flat_map(|seen| &seen.instances).filter_map(|instance| Some((instance.since, instance.exit?)));
        let exit = ended.max_by_key(|(since, _)| *since).map(|(_, exit)| exit);
        Ok(RunOutcome { run: started.run, created: started.created, outcome, exit })
    }

    /// All of our workloads in all namespaces. One [`list`](Scheduler::list).
    ///
    /// # Errors
    /// Those of [`list`](Scheduler::list).
    async fn list_all(&self) -> Result<Vec<Observation>> {
        Ok(self.list(List::default()).await?.workloads)
    }

    /// Waits for several workloads at once: a result for each, in their order. The failure of one neither hides nor ends the
    /// waiting for another. Costs what waiting for each costs.
    async fn wait_all(&self, targets: &[Target], options: &WaitOptions) -> Vec<Result<WaitOutcome>> {
        join_all(targets.iter().map(|target| self.wait(target, options))).await
    }

    /// What [`sweep`](Self::sweep) would delete: our workloads that pass the filter, are not kept, and that no launch has
    /// changed for so long, by the server's clock. One [`list`](Scheduler::list).
    ///
    /// # Errors
    /// Those of [`list`](Scheduler::list): without a complete list nothing can be called surplus.
    async fn plan_sweep(&self, options: &SweepOptions) -> Result<SweepPlan> {
        let listed = self.list(List::new(options.filter.clone())).await?;
        Ok(SweepPlan::of(listed.workloads, options))
    }

    /// Deletes what is named in the plan, each only if it is still as it was then. Each one's answer is told; the failure of
    /// one does not hold up the next. It does not wait for instances to end. One [`delete`](Scheduler::delete) for each.
    async fn sweep(&self, plan: &SweepPlan) -> Vec<(Target, Result<Deleted>)> {
        let mut answers = Vec::new();
        for surplus in &plan.surplus {
            let delete = Delete::new(surplus.target.clone()).guard(Guard::IfVersion(surplus.version.clone()));
            answers.push((surplus.target.clone(), self.delete(delete).await));
        }
        answers
    }
}

impl<S: Scheduler + ?Sized> SchedulerExt for S {}

/// Which revision to go back to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RollbackTo {
    /// The one that was launched last of those that were [marked healthy](Scheduler::mark_healthy); the present one included.
    LastHealthy,
    /// This one.
    Revision(Revision),
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunOutcome {
    /// Which run.
    pub run: RunId,
    /// Whether the call began it.
    pub created: bool,
    /// How waiting for it ended; [`Succeeded`](WaitOutcome::Succeeded) is an end without a fault.
    pub outcome: WaitOutcome,
    /// How its main container ended last, if it ever did.
    pub exit: Option<Exit>,
}
