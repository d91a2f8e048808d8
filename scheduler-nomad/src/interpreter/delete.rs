//! `delete`: one step further at each call.

use futures_util::future::try_join;
use scheduler_core::{Conflict, Delete, Deleted, Error, ErrorKind, Guard, Result};
use scheduler_nomad_client::model::{ClientStatus, EvalStatus, Job};
use scheduler_nomad_client::{Condition, Query, Register};

use super::{Live, NomadScheduler, check_guard, moved};
use crate::error::{lost_a_race, translate};

pub(super) async fn delete(scheduler: &NomadScheduler, op: &Delete) -> Result<Deleted> {
    scheduler.capabilities.require(&op.features())?;
    if op.guard == Guard::IfAbsent {
        return Err(Error::invalid_argument("IfAbsent makes no sense for a delete"));
    }
    let live = match scheduler.read(&op.target).await? {
        // What is left of our own is taken away, whatever version the guard names: that has begun.
        Live::Gone(job) if scheduler.is_ours(&job) || op.guard == Guard::Adopt => Live::Deleting(job),
        live => live,
    };
    check_guard(&op.guard, &live, &scheduler.owner)?;
    match live {
        Live::Absent | Live::Gone(_) => Ok(Deleted::WasAbsent),
        Live::Present(job) => {
            stop(scheduler, op, *job).await?;
            advance(scheduler, op).await
        }
        Live::Deleting(_) => advance(scheduler, op).await,
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
                Live::Absent => Err(Error::new(ErrorKind::Conflict(Conflict::Absent), "it went meanwhile")),
            }
        }
        Err(error) => Err(translate(&error)),
    }
}

/// Says what remains of a stopped job, and purges it if nothing does.
async fn advance(scheduler: &NomadScheduler, op: &Delete) -> Result<Deleted> {
    let (namespace, id) = (op.target.namespace.as_str(), op.target.name.as_str());
    let (allocations, evaluations) = try_join(
        scheduler.query(&Query::job_allocations(namespace, id)),
        scheduler.query(&Query::job_evaluations(namespace, id)),
    )
    .await?;
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
    if !remaining.is_empty() {
        return Ok(Deleted::Deleting { remaining, blocked_by });
    }
    scheduler.client.deregister(namespace, id, true).await.map_err(|error| translate(&error))?;
    Ok(Deleted::Gone)
}
