//! `status` and `list`.

use std::time::UNIX_EPOCH;

use futures_util::future::try_join;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use scheduler_core::{Detail, Filter, Found, List, Listed, Observation, Result, Status, Target, Timestamp};
use scheduler_nomad_client::model::{Allocation, Deployment, Evaluation, Job, JobStatus, Submission};
use scheduler_nomad_client::{ListOptions, Meta, Query};

use super::NomadScheduler;
use crate::error::translate;
use crate::meta::OWNER;
use crate::observe::{self, NativeObjects, PeriodicRun};
use crate::render::Driver;

/// How often the requests of one look are sent if the job moves between them.
const ATTEMPTS: u32 = 3;
/// Of how many runs of a schedule, the newest, a status with instances shows also those that have ended, each for one request.
const ENDED_RUNS: usize = 20;
/// How many workloads are looked at side by side. A server has 100 connections for one address, long polls included.
pub(super) const SIDE_BY_SIDE: usize = 4;

pub(super) async fn status(scheduler: &NomadScheduler, op: &Status) -> Result<Found> {
    let mut look = look(scheduler, &op.target).await?;
    if let (Some(look), true) = (&mut look, op.detail >= Detail::Instances) {
        look.read_ended_runs(scheduler).await?;
    }
    let seen = look.and_then(|look| look.observe(look.at));
    Ok(Found(seen.map(|seen| Box::new(seen.trimmed(op.detail)))))
}

pub(super) async fn list(scheduler: &NomadScheduler, op: &List) -> Result<Listed> {
    let filter = &op.filter;
    let looks = look_at_all(scheduler, filter).await?;
    let observed = looks.iter().filter_map(|look| look.observe(look.at)).map(|seen| seen.trimmed(Detail::Counts));
    let accepted = observed.filter(|seen| filter.accepts(&seen.target, &seen.marks, &seen.labels));
    Ok(Listed::new(accepted.collect()))
}

/// What the server said of one job of ours, at one time.
pub(super) struct Look {
    pub(super) at: Timestamp,
    driver: Driver,
    job: Job,
    source: Option<Submission>,
    allocations: Vec<Allocation>,
    deployments: Vec<Deployment>,
    evaluations: Vec<Evaluation>,
    runs: Vec<PeriodicRun>,
}

impl Look {
    /// What it means, at this time of the server's clock.
    pub(super) fn observe(&self, at: Timestamp) -> Option<Observation> {
        observe::observe(&self.objects(), at)
    }

    /// Which workload it is about.
    pub(super) fn target(&self) -> Option<Target> {
        observe::target_of(&self.job)
    }

    /// The job as it was read.
    pub(super) fn job(&self) -> &Job {
        &self.job
    }

    /// Its allocations, and those of its runs.
    pub(super) fn allocations(&self) -> impl Iterator<Item = &Allocation> {
        self.allocations.iter().chain(self.runs.iter().flat_map(|run| &run.allocations))
    }

    fn objects(&self) -> NativeObjects<'_> {
        NativeObjects::new(&self.job)
            .source(self.source.as_ref(), self.driver.clone())
            .allocations(&self.allocations)
            .rollout(&self.deployments, &self.evaluations)
            .runs(&self.runs)
    }

    /// The allocations of the runs of a schedule that have ended, of the newest ones.
    pub(super) async fn read_ended_runs(&mut self, scheduler: &NomadScheduler) -> Result<()> {
        let newest = self.runs.len().saturating_sub(ENDED_RUNS);
        let reads =
            stream::iter(std::mem::take(&mut self.runs).into_iter().enumerate().map(|(at, mut run)| async move {
                if at >= newest && run.job.status == JobStatus::Dead {
                    run.allocations = scheduler.query(&Query::job_allocations(&run.job.namespace, &run.job.id)).await?;
                }
                Ok::<_, scheduler_core::Error>(run)
            }));
        self.runs = reads.buffered(SIDE_BY_SIDE).try_collect().await?;
        Ok(())
    }

    /// Whether something is of a later version than the job: it moved after it was read.
    fn is_torn(&self) -> bool {
        let later = |version: u64| version > self.job.version;
        self.allocations.iter().any(|alloc| alloc.job_version.is_some_and(later))
            || self.deployments.iter().any(|d| d.job_create_index == self.job.create_index && later(d.job_version))
    }
}

/// Looks at a job; `None` if it is not there or somebody else's.
pub(super) async fn look(scheduler: &NomadScheduler, target: &Target) -> Result<Option<Look>> {
    let (namespace, id) = (target.namespace.as_str(), target.name.as_str());
    let client = &scheduler.client;
    let mut attempt = 1;
    loop {
        let job = client.query(&Query::job(namespace, id)).await.map_err(|error| translate(&error))?;
        let Some(job) = job.value.filter(|job| scheduler.is_ours(job)) else { return Ok(None) };
        // What an evaluation came to is written before it is complete. So evaluations are read first: if one is complete, the
        // allocations that are read afterwards have what it placed.
        let (source, evaluations) = try_join(
            client.query(&Query::submission(namespace, id, job.version)),
            client.query(&Query::job_evaluations(namespace, id)),
        )
        .await
        .map_err(|error| translate(&error))?;
        let (allocations, deployments) = try_join(
            client.query(&Query::job_allocations(namespace, id)),
            client.query(&Query::job_deployments(namespace, id)),
        )
        .await
        .map_err(|error| translate(&error))?;
        let runs = if job.periodic.is_some() { runs_of(scheduler, &job).await? } else { Vec::new() };
        let mut look = Look {
            at: Timestamp::from_millis(0),
            driver: scheduler.driver.clone(),
            job,
            source: source.value,
            allocations: allocations.value,
            deployments: deployments.value,
            evaluations: evaluations.value,
            runs,
        };
        if attempt < ATTEMPTS && look.is_torn() {
            attempt += 1;
            continue;
        }
        // The header has whole seconds, the objects have more; none of them is of the future.
        let newest = observe::newest_time(&look.objects());
        look.at = server_time(&allocations.meta).map_or(newest, |at| at.max(newest));
        return Ok(Some(look));
    }
}

/// The runs that the schedule of a job made, the oldest first, with the allocations of those that have not ended.
async fn runs_of(scheduler: &NomadScheduler, job: &Job) -> Result<Vec<PeriodicRun>> {
    let children = ListOptions::new().children_of(job.id.as_str());
    let children = scheduler.client.list_jobs(&job.namespace, &children).await.map_err(|error| translate(&error))?;
    let runs = stream::iter(children.value.into_iter().map(|child| async move {
        let allocations = match child.status {
            JobStatus::Dead => Vec::new(),
            _ => scheduler.query(&Query::job_allocations(&child.namespace, &child.id)).await?,
        };
        Ok(PeriodicRun::new(child, allocations))
    }));
    runs.buffered(SIDE_BY_SIDE).try_collect().await
}

/// Looks at all of our jobs that pass the filter as far as the server can tell. Marks and labels are compared afterwards.
pub(super) async fn look_at_all(scheduler: &NomadScheduler, filter: &Filter) -> Result<Vec<Look>> {
    let namespace = filter.namespace.as_ref().map_or("*", |namespace| namespace.as_str());
    // Owners and names have no quotes.
    let mut expression = format!("Meta[\"{OWNER}\"] == \"{}\"", scheduler.owner);
    if let Some(name) = &filter.name {
        expression.push_str(&format!(" and ID == \"{name}\""));
    }
    let options = ListOptions::new().filter(expression);
    let stubs = scheduler.client.list_jobs(namespace, &options).await.map_err(|error| translate(&error))?.value;
    // A job whose name is none of ours bears the owner's mark by somebody else's doing.
    let targets = stubs.into_iter().filter_map(|stub| Target::new(stub.namespace, stub.id).ok());
    let looks = stream::iter(targets.map(|target| async move { look(scheduler, &target).await }));
    looks.buffer_unordered(SIDE_BY_SIDE).try_filter_map(|look| std::future::ready(Ok(look))).try_collect().await
}

/// The server's clock, as an answer tells it.
fn server_time(meta: &Meta) -> Option<Timestamp> {
    let since = meta.served_at?.duration_since(UNIX_EPOCH).ok()?;
    Some(Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX)))
}
