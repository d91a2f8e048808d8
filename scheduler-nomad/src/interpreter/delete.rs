//! `delete`: one step further at each call.

use futures_util::future::try_join;
use scheduler_core::{Delete, Deleted, Error, Guard, Result, Target};
use scheduler_nomad_client::model::{ClientStatus, EvalStatus, Job, JobStatus, JobStub};
use scheduler_nomad_client::{self as client, Condition, ListOptions, Query, Register};

use super::NomadScheduler;
use super::live::{Live, absent, check_guard, moved};
use crate::error::{lost_a_race, translate};
use crate::meta::{OWNER, RUN_OF};

pub(super) async fn delete(scheduler: &NomadScheduler, op: &Delete) -> Result<Deleted> {
    scheduler.capabilities.require(&op.features())?;
    if matches!(op.guard, Guard::IfAbsent | Guard::IfPlan(_)) {
        return Err(Error::invalid_argument("this guard makes no sense for a delete"));
    }
    let live = match scheduler.read(&op.target).await? {
        // What is left of our own is taken away, whatever version the guard names: that has begun.
        Live::Gone(job) if scheduler.is_ours(&job) || op.guard == Guard::Adopt => Live::Deleting(job),
        live => live,
    };
    check_guard(&op.guard, &live, &scheduler.owner)?;
    match live {
        Live::Absent | Live::Gone(_) => {
            Ok(if forget(scheduler, &op.target).await? { Deleted::Gone } else { Deleted::WasAbsent })
        }
        Live::Present(job) => {
            stop(scheduler, op, (*job).clone()).await?;
            advance(scheduler, op, &job).await
        }
        Live::Deleting(job) => advance(scheduler, op, &job).await,
    }
}

/// Stops a job as it was read. Its source goes along, so that it is still known by its marks until it is gone.
async fn stop(scheduler: &NomadScheduler, op: &Delete, mut job: Job) -> Result<()> {
    let (namespace, id) = (op.target.namespace.as_str(), op.target.name.as_str());
    let source = scheduler.query(&Query::submission(namespace, id, job.version)).await?;
    job.stop = true;
    let mut register = Register::new(&job, Condition::Unchanged { job_modify_index: job.job_modify_index });
    if let Some(source) = &source {
        register = register.submission(source);
    }
    match scheduler.client.register(register).await {
        Ok(_) => Ok(()),
        Err(error) if lost_a_race(&error) => {
            let now = scheduler.read(&op.target).await?;
            check_guard(&op.guard, &now, &scheduler.owner)?;
            match &now {
                Live::Present(job) => Err(moved(job, error.message().unwrap_or_default())),
                Live::Deleting(_) | Live::Gone(_) => Ok(()),
                Live::Absent => Err(absent()),
            }
        }
        Err(error) => Err(translate(&error)),
    }
}

/// Says what remains of a stopped job, and purges it if nothing does.
async fn advance(scheduler: &NomadScheduler, op: &Delete, job: &Job) -> Result<Deleted> {
    let (namespace, id) = (op.target.namespace.as_str(), op.target.name.as_str());
    // In this order: what a complete evaluation placed is among the allocations that are read after it.
    let evaluations = scheduler.query(&Query::job_evaluations(namespace, id)).await?;
    let allocations = scheduler.query(&Query::job_allocations(namespace, id)).await?;
    let (mut remaining, mut blocked_by) = (Vec::new(), Vec::new());
    for alloc in allocations.iter().filter(|alloc| !alloc.client_status.is_terminal()) {
        let name = format!("Allocation/{}", alloc.id);
        if alloc.client_status == ClientStatus::Unknown {
            blocked_by.push(format!("{name}: its node {} does not answer", alloc.node_name));
        }
        remaining.push(name);
    }
    // One that is not done may still place something; of a purged job nobody would know it.
    let pending = evaluations.iter().filter(|eval| eval.status == EvalStatus::Pending && eval.wait_until.is_empty());
    remaining.extend(pending.map(|eval| format!("Evaluation/{}", eval.id)));
    let runs = if job.periodic.is_some() { runs_of(scheduler, &op.target).await? } else { Vec::new() };
    for run in &runs {
        if !retire(scheduler, run).await? {
            remaining.push(format!("Job/{}", run.id));
        }
    }
    if !remaining.is_empty() {
        return Ok(Deleted::Deleting { remaining, blocked_by });
    }
    for run in &runs {
        // Those that somebody began have a name like a workload's, and may have configurations.
        if let Ok(target) = Target::new(namespace, run.id.as_str()) {
            forget(scheduler, &target).await?;
        }
        purge(scheduler, namespace, &run.id).await?;
    }
    // The clock may have started one more before it was stopped.
    if job.periodic.is_some() {
        let late = runs_of(scheduler, &op.target).await?;
        if !late.is_empty() {
            let remaining = late.into_iter().map(|run| format!("Job/{}", run.id)).collect();
            return Ok(Deleted::Deleting { remaining, blocked_by });
        }
    }
    forget_services(scheduler, &op.target, job).await?;
    forget(scheduler, &op.target).await?;
    purge(scheduler, namespace, id).await?;
    Ok(Deleted::Gone)
}

/// Takes the variables of a workload away; whether there were any.
pub(super) async fn forget(scheduler: &NomadScheduler, target: &Target) -> Result<bool> {
    let (configs, sources) = (scheduler.forget_configs(target).await?, scheduler.forget_sources(target).await?);
    Ok(configs || sources)
}

/// The jobs that a periodic one made: by its schedule, and those that were run now.
async fn runs_of(scheduler: &NomadScheduler, target: &Target) -> Result<Vec<JobStub>> {
    let namespace = target.namespace.as_str();
    let mine = format!("Meta[\"{OWNER}\"] == \"{}\" and Meta[\"{RUN_OF}\"] == \"{}\"", scheduler.owner, target.name);
    let (children, runs) = (ListOptions::new().children_of(target.name.as_str()), ListOptions::new().filter(mine));
    let client = &scheduler.client;
    let (children, runs) = try_join(client.list_jobs(namespace, &children), client.list_jobs(namespace, &runs))
        .await
        .map_err(|error| translate(&error))?;
    // A run that was copied by the schedule bears its marks, and is no run of ours for that.
    let runs = runs.value.into_iter().filter(|run| run.parent_id.is_empty());
    Ok(children.value.into_iter().chain(runs).collect())
}

/// Ends a run; whether nothing of it runs any more.
async fn retire(scheduler: &NomadScheduler, run: &JobStub) -> Result<bool> {
    if !run.stop && run.status != JobStatus::Dead {
        let stopped = scheduler.client.deregister(&run.namespace, &run.id, false).await;
        stopped.map_err(|error| translate(&error))?;
    }
    let allocations = scheduler.query(&Query::job_allocations(&run.namespace, &run.id)).await?;
    Ok(allocations.iter().all(|alloc| alloc.client_status.is_terminal()))
}

async fn purge(scheduler: &NomadScheduler, namespace: &str, id: &str) -> Result<()> {
    scheduler.client.deregister(namespace, id, true).await.map(drop).map_err(|error| translate(&error))
}

/// Takes away registrations whose allocation has ended: the server can forget them (hashicorp/nomad#17182).
async fn forget_services(scheduler: &NomadScheduler, target: &Target, job: &Job) -> Result<()> {
    if job.task_groups.iter().all(|group| group.services.is_empty()) {
        return Ok(());
    }
    let (namespace, id) = (target.namespace.as_str(), target.name.as_str());
    for left in scheduler.query(&Query::job_services(namespace, id)).await? {
        match scheduler.client.delete_service_registration(namespace, &left.service_name, &left.id).await {
            Err(error) if !matches!(error.kind(), client::ErrorKind::NotFound(_)) => return Err(translate(&error)),
            _ => {}
        }
    }
    Ok(())
}
