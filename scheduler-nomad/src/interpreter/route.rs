//! `expose`, `unexpose` and `endpoints`.

use scheduler_core::{
    Conflict, Endpoint, Endpoints, Error, ErrorKind, Expose, Exposed, Guard, InstanceState, Protocol, ReadyEndpoints,
    Result, Retry, Route, Target, Unexpose, Unexposed,
};
use scheduler_nomad_client::model::{Job, JobStub};
use scheduler_nomad_client::{ListOptions, Query};

use super::NomadScheduler;
use super::live::{Live, check_guard, check_sense, deleting, foreign};
use super::read::look;
use crate::error::translate;
use crate::{meta, routes, source};

pub(super) async fn expose(scheduler: &NomadScheduler, op: &Expose) -> Result<Exposed> {
    scheduler.capabilities.require(&op.features())?;
    check_sense(&op.guard)?;
    op.check()?;
    let target = &op.target;
    let mut job = scheduler.needed(target, &op.guard).await?;
    let submission = scheduler.source_of(&job, target).await?;
    let workload = submission.as_ref().and_then(|submission| source::read(submission, target));
    let ports = || workload.iter().flat_map(|workload| &workload.containers).flat_map(|container| &container.ports);
    // Without a source nobody knows: Nomad does not tell one protocol from another.
    let is_tcp = |name: &str| !ports().any(|port| port.name == name && port.protocol != Protocol::Tcp);
    let faults = routes::faults(op, &job, is_tcp);
    if !faults.is_empty() {
        return Err(Error::invalid_argument("routes").with_causes(faults));
    }
    let old = old(scheduler, op).await?;
    if let Some(by) = who_has(scheduler, op).await? {
        return Err(route_taken(by));
    }
    let before = routes::of(&job);
    let changed = set(&mut job, &routes::tags(target, &op.routes));
    if changed {
        scheduler.put_back(&job, submission.as_ref(), target, &op.guard).await?;
        // The check index is of one job alone. Of two that write one route, the later writer looks after both writes, and so
        // sees the other: if each who sees another gives way, no two are left.
        if let Some(by) = who_has(scheduler, op).await? {
            let now = scheduler.needed(target, &Guard::IfOwned).await?;
            give(scheduler, now, target, &before).await?;
            return Err(route_taken(by).with_retry(Retry::AfterReread));
        }
    }
    let taken = match (old, &op.from) {
        (Some(old), Some(from)) => take(scheduler, op, old, from).await?,
        _ => Vec::new(),
    };
    let mut exposed = Exposed::new(changed || !taken.is_empty());
    exposed.taken = taken;
    Ok(exposed)
}

/// The job that routes are to be taken from, if it is there. It must be ours.
async fn old(scheduler: &NomadScheduler, op: &Expose) -> Result<Option<Box<Job>>> {
    let Some(from) = &op.from else { return Ok(None) };
    let live = scheduler.read(from).await?;
    if let Live::Present(job) | Live::Deleting(job) = &live
        && !scheduler.is_ours(job)
    {
        let words = format!("the job {}, from which routes were to be taken", from.name);
        return Err(foreign(meta::owner_of(&job.meta), &words));
    }
    // One that is stopped is no obstacle, and takes its routes along.
    Ok(if let Live::Present(job) = live { Some(job) } else { None })
}

/// Takes those of the routes that the old workload has from it. Answers them.
async fn take(scheduler: &NomadScheduler, op: &Expose, old: Box<Job>, from: &Target) -> Result<Vec<Route>> {
    let mut rest = routes::of(&old);
    let taken = op.routes_among(&rest);
    if !taken.is_empty() {
        rest.retain(|route| !taken.iter().any(|taken| taken.is_for_same_requests(route)));
        give(scheduler, old, from, &rest).await?;
    }
    Ok(taken)
}

/// The job of another workload that has one of the routes, but for the one from which they are to be taken.
async fn who_has(scheduler: &NomadScheduler, op: &Expose) -> Result<Option<String>> {
    // What the check of the operation lets through has no quotes. Nothing may follow the braces of `any`.
    let claims: Vec<String> = op.routes.iter().map(|route| format!("\"{}\" in s.Tags", routes::claim(route))).collect();
    let filter = format!("any TaskGroups as g {{ any g.Services as s {{ {} }} }}", claims.join(" or "));
    let options = ListOptions::new().filter(filter);
    let found = scheduler.client.list_jobs("*", &options).await.map_err(|error| translate(&error))?.value;
    let is_of = |stub: &JobStub, target: &Target| {
        let (namespace, name) = (target.namespace.as_str(), target.name.as_str());
        stub.namespace == namespace && (stub.id == name || stub.id.starts_with(&format!("{name}/")))
    };
    let free = |stub: &JobStub| is_of(stub, &op.target) || op.from.as_ref().is_some_and(|from| is_of(stub, from));
    let other = found.into_iter().find(|stub| !stub.stop && !free(stub));
    Ok(other.map(|stub| format!("{}/{}", stub.namespace, stub.id)))
}

fn route_taken(by: String) -> Error {
    Error::new(ErrorKind::Conflict(Conflict::RouteTaken { by }), "another workload has the route")
}

/// Gives a job as it was read these routes and no others; whether that changed anything.
async fn give(scheduler: &NomadScheduler, mut job: Box<Job>, target: &Target, routes: &[Route]) -> Result<bool> {
    if !set(&mut job, &routes::tags(target, routes)) {
        return Ok(false);
    }
    let source = scheduler.source_of(&job, target).await?;
    scheduler.put_back(&job, source.as_ref(), target, &Guard::IfOwned).await?;
    Ok(true)
}

/// Lets the services of a job have these route tags and no others of ours; whether that changed anything.
fn set(job: &mut Job, tags: &[(String, Vec<String>)]) -> bool {
    let mut changed = false;
    for service in job.task_groups.iter_mut().flat_map(|group| &mut group.services) {
        let wanted = tags.iter().find(|(port, _)| *port == service.port_label).map(|(_, tags)| tags.as_slice());
        let others = service.tags.iter().filter(|tag| !routes::is_ours(&service.tags, tag)).cloned();
        let all: Vec<String> = others.chain(wanted.into_iter().flatten().cloned()).collect();
        changed |= all != service.tags;
        service.tags = all;
    }
    changed
}

pub(super) async fn unexpose(scheduler: &NomadScheduler, op: &Unexpose) -> Result<Unexposed> {
    scheduler.capabilities.require(&scheduler_core::SchedulerOp::from(op.clone()).features())?;
    let live = scheduler.read(&op.target).await?;
    check_guard(&Guard::IfOwned, &live, &scheduler.owner)?;
    let job = match live {
        Live::Absent | Live::Gone(_) => return Ok(Unexposed::WasAbsent),
        Live::Deleting(_) => return Err(deleting()),
        Live::Present(job) => job,
    };
    let changed = give(scheduler, job, &op.target, &[]).await?;
    Ok(if changed { Unexposed::Gone } else { Unexposed::WasAbsent })
}

/// The registrations of instances that are ready. The registry alone does not tell: it has those whose checks fail, and some
/// whose allocation is long gone (hashicorp/nomad#17182).
pub(super) async fn endpoints(scheduler: &NomadScheduler, op: &Endpoints) -> Result<ReadyEndpoints> {
    let Some(seen) = look(scheduler, &op.target).await?.and_then(|look| look.observe(look.at)) else {
        return Ok(ReadyEndpoints::default());
    };
    let Target { namespace, name } = &op.target;
    let registered = scheduler.query(&Query::job_services(namespace.as_str(), name.as_str())).await?;
    let ready = |id: &str| seen.instances.iter().any(|i| i.id == id && i.state == InstanceState::Ready);
    let endpoints = registered.into_iter().filter(|registration| ready(&registration.alloc_id)).filter_map(|found| {
        let port = found.service_name.strip_prefix(name.as_str())?.strip_prefix("--")?;
        let wanted = op.port.as_ref().is_none_or(|wanted| wanted == port) && found.port > 0;
        wanted.then(|| Endpoint::new(&*found.alloc_id, port, &*found.address, found.port))
    });
    Ok(ReadyEndpoints::new(endpoints.collect()))
}
