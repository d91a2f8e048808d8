//! `ensure_namespace` and `delete_namespace`.

use scheduler_core::{
    DeleteNamespace, EnsureNamespace, Error, ErrorKind, NamespaceDeleted, NamespaceEnsured, Result, Target,
};
use scheduler_nomad_client::model::Namespace;
use scheduler_nomad_client::{self as client, ListOptions, Query};

use super::NomadScheduler;
use super::delete::forget;
use super::live::foreign;
use crate::error::translate;
use crate::meta;

pub(super) async fn ensure(scheduler: &NomadScheduler, op: &EnsureNamespace) -> Result<NamespaceEnsured> {
    let name = op.namespace.as_str();
    if let Some(found) = scheduler.query(&Query::namespace(name)).await? {
        return Ok(NamespaceEnsured::Exists { owned: meta::owner_of(&found.meta).as_ref() == Some(&scheduler.owner) });
    }
    let mut made = Namespace::new(name);
    made.meta.insert(meta::OWNER.to_owned(), scheduler.owner.to_string());
    scheduler.client.put_namespace(&made).await.map_err(|error| translate(&error))?;
    Ok(NamespaceEnsured::Created)
}

pub(super) async fn delete(scheduler: &NomadScheduler, op: &DeleteNamespace) -> Result<NamespaceDeleted> {
    let name = op.namespace.as_str();
    let Some(found) = scheduler.query(&Query::namespace(name)).await? else { return Ok(NamespaceDeleted::WasAbsent) };
    let owner = meta::owner_of(&found.meta);
    if owner.as_ref() != Some(&scheduler.owner) {
        return Err(foreign(owner, "the namespace"));
    }
    let options = ListOptions::new().meta();
    let jobs = scheduler.client.list_jobs(name, &options).await.map_err(|error| translate(&error))?.value;
    let (stopped, there): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|job| job.stop);
    if !there.is_empty() {
        let names: Vec<&str> = there.iter().map(|job| job.id.as_str()).collect();
        return Err(Error::new(ErrorKind::Precondition, format!("it holds workloads: {}", names.join(", "))));
    }
    let (mut remaining, mut ours) = (Vec::new(), Vec::new());
    for job in &stopped {
        let allocations = scheduler.query(&Query::job_allocations(name, &job.id)).await?;
        if allocations.iter().any(|alloc| !alloc.client_status.is_terminal()) {
            remaining.push(format!("Job/{}", job.id));
        } else if meta::owner_of(&job.meta).as_ref() == Some(&scheduler.owner) {
            ours.push(job);
        }
    }
    if !remaining.is_empty() {
        return Ok(NamespaceDeleted::Deleting { remaining });
    }
    for job in ours {
        // All of it would stay readable in a namespace that is gone.
        if let Ok(target) = Target::new(name, job.id.as_str()) {
            forget(scheduler, &target).await?;
        }
        scheduler.client.deregister(name, &job.id, true).await.map_err(|error| translate(&error))?;
    }
    match scheduler.client.delete_namespace(name).await {
        Err(error) if !matches!(error.kind(), client::ErrorKind::NotFound(_)) => return Err(translate(&error)),
        _ => {}
    }
    // Older servers say yes although something is left (hashicorp/nomad#19414).
    match scheduler.query(&Query::namespace(name)).await? {
        None => Ok(NamespaceDeleted::Gone),
        Some(_) => Ok(NamespaceDeleted::Deleting { remaining: Vec::new() }),
    }
}
