//! `expose`, `unexpose` and `endpoints`.

use scheduler_core::{
    Conflict, Endpoint, Endpoints, Error, ErrorKind, Expose, Exposed, Guard, InstanceState, Protocol, ReadyEndpoints,
    Result, Target, Unexpose, Unexposed,
};
use scheduler_nomad_client::model::Job;
use scheduler_nomad_client::{ListOptions, Query};

use super::NomadScheduler;
use super::live::{Live, check_guard, check_sense, deleting};
use super::read::look;
use crate::error::translate;
use crate::{routes, source};

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
    if let Some(by) = taken(scheduler, op).await? {
        return Err(Error::new(ErrorKind::Conflict(Conflict::RouteTaken { by }), "another workload has the route"));
    }
    let changed = set(&mut job, &routes::tags(target, &op.routes));
    if changed {
        scheduler.put_back(&job, submission.as_ref(), target, &op.guard).await?;
    }
    Ok(Exposed::new(changed))
}

/// The job of another workload that has one of the routes.
async fn taken(scheduler: &NomadScheduler, op: &Expose) -> Result<Option<String>> {
    // What the check of the operation lets through has no quotes. Nothing may follow the braces of `any`.
    let claims: Vec<String> = op.routes.iter().map(|route| format!("\"{}\" in s.Tags", routes::claim(route))).collect();
    let filter = format!("any TaskGroups as g {{ any g.Services as s {{ {} }} }}", claims.join(" or "));
    let options = ListOptions::new().filter(filter);
    let found = scheduler.client.list_jobs("*", &options).await.map_err(|error| translate(&error))?.value;
    let (namespace, name) = (op.target.namespace.as_str(), op.target.name.as_str());
    let own = |id: &str, of: &str| of == namespace && (id == name || id.starts_with(&format!("{name}/")));
    let other = found.into_iter().find(|stub| !stub.stop && !own(&stub.id, &stub.namespace));
    Ok(other.map(|stub| format!("{}/{}", stub.namespace, stub.id)))
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
    let mut job = match live {
        Live::Absent | Live::Gone(_) => return Ok(Unexposed::WasAbsent),
        Live::Deleting(_) => return Err(deleting()),
        Live::Present(job) => job,
    };
    if !set(&mut job, &[]) {
        return Ok(Unexposed::WasAbsent);
    }
    let source = scheduler.source_of(&job, &op.target).await?;
    scheduler.put_back(&job, source.as_ref(), &op.target, &Guard::IfOwned).await?;
    Ok(Unexposed::Gone)
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
