//! `status` and `list`.

use std::time::UNIX_EPOCH;

use futures_util::future::try_join4;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use scheduler_core::{Detail, Filter, Found, Listed, Observation, Result, Status, Target, Timestamp};
use scheduler_nomad_client::model::{Allocation, Deployment, Evaluation, Job, Submission};
use scheduler_nomad_client::{ListOptions, Meta, Query};

use super::NomadScheduler;
use crate::error::translate;
use crate::meta::OWNER;
use crate::observe::{self, NativeObjects};
use crate::render::Driver;

/// How often the requests of one look are sent if the job moves between them.
const ATTEMPTS: u32 = 3;
/// How many workloads are looked at side by side. A server has 100 connections for one address, long polls included.
const SIDE_BY_SIDE: usize = 4;

pub(super) async fn status(scheduler: &NomadScheduler, op: &Status) -> Result<Found> {
    let look = look(scheduler, &op.target).await?;
    let seen = look.and_then(|look| look.observe(look.at));
    Ok(Found(seen.map(|seen| Box::new(seen.trimmed(op.detail)))))
}

pub(super) async fn list(scheduler: &NomadScheduler, filter: &Filter) -> Result<Listed> {
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

    fn objects(&self) -> NativeObjects<'_> {
        NativeObjects::new(&self.job)
            .source(self.source.as_ref(), self.driver.clone())
            .allocations(&self.allocations)
            .rollout(&self.deployments, &self.evaluations)
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
        let (source, allocations, deployments, evaluations) = try_join4(
            client.query(&Query::submission(namespace, id, job.version)),
            client.query(&Query::job_allocations(namespace, id)),
            client.query(&Query::job_deployments(namespace, id)),
            client.query(&Query::job_evaluations(namespace, id)),
        )
        .await
        .map_err(|error| translate(&error))?;
        let mut look = Look {
            at: Timestamp::from_millis(0),
            driver: scheduler.driver.clone(),
            job,
            source: source.value,
            allocations: allocations.value,
            deployments: deployments.value,
            evaluations: evaluations.value,
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
