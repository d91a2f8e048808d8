//! Operations on what runs: its count, its rollout, one of its instances.

use scheduler_core::{
    Error, ErrorKind, Guard, InstanceAction, InstanceAnswer, KindName, Missing, OnInstance, OpName, Result, Rollout,
    RolloutAction, Scale, Scaled, SchedulerOp, Steered, Target, Version,
};
use scheduler_nomad_client::model::{Deployment, DeploymentStatus, DesiredStatus, Job};
use scheduler_nomad_client::{self as client, Query};

use super::NomadScheduler;
use super::live::{check_sense, moved};
use crate::error::{lost_a_race, translate};
use crate::observe::{self, NativeObjects};
use crate::{carry, meta};

pub(super) async fn scale(scheduler: &NomadScheduler, op: &Scale) -> Result<Scaled> {
    scheduler.capabilities.require(&SchedulerOp::from(op.clone()).features())?;
    check_sense(&op.guard)?;
    let mut job = scheduler.needed(&op.target, &op.guard).await?;
    if observe::kind_of(&job) != KindName::Service {
        return Err(Error::invalid_argument("only a service has a count that can be changed"));
    }
    let (namespace, id) = (op.target.namespace.as_str(), op.target.name.as_str());
    let Some(group) = carry::own_group(&job, id) else {
        return Err(Error::new(ErrorKind::Precondition, "the job has no group of tasks"));
    };
    let (from, name) = (group.count.unwrap_or(1), group.name.clone());
    let done = |version| Scaled::new(from, op.count, version);
    if from == op.count {
        return Ok(done(observe::version(&job)));
    }
    let scale = client::Scale::new(&*name, op.count).if_unchanged(job.job_modify_index);
    match scheduler.client.scale(namespace, id, &scale).await {
        Ok(scaled) => Ok(done(observe::version_of(job.create_index, scaled.job_modify_index))),
        // A registration may change the count while a deployment goes on: it begins another one.
        Err(error) if error.kind() == client::ErrorKind::DeploymentActive => {
            for group in job.task_groups.iter_mut().filter(|group| group.name == name) {
                group.count = Some(op.count);
            }
            follow_count(&mut job);
            let source = scheduler.source_of(&job, &op.target).await?;
            scheduler.put_back(&job, source.as_ref(), &op.target, &op.guard).await.map(done)
        }
        Err(error) if lost_a_race(&error) => {
            let now = scheduler.needed(&op.target, &op.guard).await?;
            Err(moved(&now, error.message().unwrap_or_default()))
        }
        Err(error) => Err(translate(&error)),
    }
}

/// As many canaries as there should be instances, where that is how an update never has too few. A scale moves the count
/// alone.
fn follow_count(job: &mut Job) {
    for group in &mut job.task_groups {
        let count = group.count.unwrap_or(1);
        if let Some(update) = group.update.as_mut().filter(|update| update.auto_promote == Some(true)) {
            update.canary = Some(count.max(1));
        }
    }
}

pub(super) async fn rollout(scheduler: &NomadScheduler, op: &Rollout) -> Result<Steered> {
    scheduler.capabilities.require(&SchedulerOp::from(op.clone()).features())?;
    check_sense(&op.guard)?;
    let job = scheduler.needed(&op.target, &op.guard).await?;
    if !matches!(observe::kind_of(&job), KindName::Service | KindName::System) {
        return Err(Error::invalid_argument("only a service and a system are rolled out"));
    }
    if op.action == RolloutAction::Restart {
        return restart(scheduler, *job, &op.target, &op.guard).await.map(|version| Steered::new(true, version));
    }
    let deployments = scheduler.query(&Query::job_deployments(op.target.namespace.as_str(), &job.id)).await?;
    let deployment = observe::deployment_of(&job, &deployments);
    let changed = steer(scheduler, op, &job, deployment).await?;
    Ok(Steered::new(changed, observe::version(&job)))
}

/// Changes the mark of the main task, which replaces every instance as an update does.
async fn restart(scheduler: &NomadScheduler, mut job: Job, target: &Target, guard: &Guard) -> Result<Version> {
    let Some(main) = carry::main_task(&job).map(|task| task.name.clone()) else {
        return Err(Error::new(ErrorKind::Precondition, "the job has no main task"));
    };
    let mark = job.job_modify_index.to_string();
    for task in job.task_groups.iter_mut().flat_map(|group| &mut group.tasks).filter(|task| task.name == main) {
        task.meta.insert(meta::RESTART.to_owned(), mark.clone());
    }
    follow_count(&mut job);
    let source = scheduler.source_of(&job, target).await?;
    scheduler.put_back(&job, source.as_ref(), target, guard).await
}

/// Whether anything was changed.
async fn steer(scheduler: &NomadScheduler, op: &Rollout, job: &Job, deployment: Option<&Deployment>) -> Result<bool> {
    let (client, namespace) = (&scheduler.client, op.target.namespace.as_str());
    let without =
        |what: &str| Error::new(ErrorKind::Precondition, format!("{what}, so that nothing can be done to it"));
    let active = deployment.filter(|deployment| observe::is_active(deployment));
    let paused = active.is_some_and(|deployment| deployment.status == DeploymentStatus::Paused);
    let done = match (op.action, active) {
        (RolloutAction::Pause, Some(_)) if paused => return Ok(false),
        (RolloutAction::Resume, None) => return Ok(false),
        (RolloutAction::Resume, Some(rollout)) => {
            if paused {
                client.resume_deployment(namespace, &rollout.id).await.map_err(|error| translate(&error))?;
            }
            // The server promotes canaries when they become healthy, and forgets those that did in a pause.
            if promotes_itself(rollout) && canaries_stand(scheduler, job, rollout).await? {
                client.promote_deployment(namespace, &rollout.id).await.map_err(|error| translate(&error))?;
            }
            return Ok(paused);
        }
        (RolloutAction::Pause, Some(rollout)) => client.pause_deployment(namespace, &rollout.id).await,
        (RolloutAction::Abort, Some(rollout)) => client.fail_deployment(namespace, &rollout.id).await,
        (RolloutAction::Promote, _) => {
            let with_canaries = |rollout: &&Deployment| rollout.task_groups.values().any(|g| g.desired_canaries > 0);
            let Some(rollout) = deployment.filter(with_canaries) else {
                return Err(without("there are no canaries"));
            };
            if rollout.task_groups.values().all(|group| group.promoted || group.desired_canaries == 0) {
                return Ok(false);
            }
            // The server promotes also where there is nothing to promote.
            if !canaries_stand(scheduler, job, rollout).await? {
                return Err(without("the canaries do not stand the test yet, or no more"));
            }
            client.promote_deployment(namespace, &rollout.id).await
        }
        (RolloutAction::Pause | RolloutAction::Abort, None) => return Err(without("no rollout goes on")),
        _ => return Err(Error::unsupported(OpName::Rollout, "it is newer than this backend")),
    };
    done.map(|_| true).map_err(|error| translate(&error))
}

fn promotes_itself(deployment: &Deployment) -> bool {
    deployment.task_groups.values().any(|group| group.auto_promote && !group.promoted && group.desired_canaries > 0)
}

async fn canaries_stand(scheduler: &NomadScheduler, job: &Job, rollout: &Deployment) -> Result<bool> {
    let allocations = scheduler.query(&Query::job_allocations(&job.namespace, &job.id)).await?;
    Ok(observe::canaries_stand(&NativeObjects::new(job).allocations(&allocations), rollout))
}

pub(super) async fn instance(scheduler: &NomadScheduler, op: &OnInstance) -> Result<InstanceAnswer> {
    scheduler.capabilities.require(&SchedulerOp::from(op.clone()).features())?;
    let job = scheduler.needed(&op.target, &Guard::IfOwned).await?;
    let namespace = op.target.namespace.as_str();
    let unknown = || Error::new(ErrorKind::NotFound(Missing::Instance), format!("no instance {}", op.instance));
    let found = match scheduler.client.query(&Query::allocation(namespace, &op.instance)).await {
        Ok(answer) => answer.value,
        // It is no id of an allocation.
        Err(error) if error.kind() == client::ErrorKind::InvalidRequest => None,
        Err(error) => return Err(translate(&error)),
    };
    let of_run = |id: &str| job.periodic.is_some() && id.starts_with(&format!("{}/", job.id));
    let found = found.filter(|alloc| alloc.job_id == job.id || of_run(&alloc.job_id));
    let alloc = found.filter(|alloc| alloc.namespace == namespace).ok_or_else(unknown)?;
    if alloc.client_status.is_terminal() || alloc.desired_status != DesiredStatus::Run {
        return Ok(InstanceAnswer::WasEnding);
    }
    let told = match op.action {
        InstanceAction::Stop => scheduler.client.stop_allocation(namespace, &alloc.id).await.map(drop),
        InstanceAction::Restart => scheduler.client.restart_allocation(namespace, &alloc.id, None).await,
        _ => return Err(Error::unsupported(OpName::OnInstance, "it is newer than this backend")),
    };
    told.map(|()| InstanceAnswer::Told).map_err(|error| match error.kind() {
        client::ErrorKind::NotFound(_) => unknown(),
        _ => translate(&error),
    })
}
