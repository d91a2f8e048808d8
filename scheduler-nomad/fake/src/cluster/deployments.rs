//! The deployment watcher: counts health, lets the next batch go, and ends what fails.

use std::time::Duration;

use super::{
    objects::{Alloc, Deployment, DeploymentStatus, GroupState, Health, Rollback, Trigger},
    reconcile::is_replaceable,
    scheduler, services,
    state::{State, Timer, Write},
    write::{Refusal, same_content},
};
use crate::job::{Job, JobKey, multi_error};

/// How long changes of health are gathered before the scheduler is asked.
const BATCH: Duration = Duration::from_millis(1200);
/// How long it takes to notice that a deployment has failed.
const NOTICE: Duration = Duration::from_millis(5);

/// Counts an allocation into its deployment, and lets the progress deadline run from the first one.
pub(crate) fn count_placed(state: &mut State, write: &mut Write, alloc: &Alloc) {
    let now = state.now;
    change_group(state, write, alloc, |group| {
        group.placed += 1;
        if alloc.canary {
            group.canaries.push(alloc.id.clone());
        }
        if group.progress_by.is_none() && !group.progress_deadline.is_zero() {
            group.progress_by = Some(now.after(group.progress_deadline));
        }
    });
}

/// Counts the health of an allocation into its deployment.
pub(crate) fn count_health(state: &mut State, write: &mut Write, alloc: &Alloc) {
    let Some(health) = alloc.health else { return };
    change_group(state, write, alloc, |group| {
        if health.healthy {
            group.healthy += 1;
            group.progress_by = group.progress_by.map(|by| by.max(health.at.after(group.progress_deadline)));
        } else {
            group.unhealthy += 1;
        }
    });
}

fn change_group(state: &mut State, write: &mut Write, alloc: &Alloc, change: impl FnOnce(&mut GroupState)) {
    let deployment = alloc.deployment.as_ref().and_then(|id| state.deployments.get(id)).cloned();
    let Some(mut deployment) = deployment else { return };
    if let Some(group) = deployment.groups.get_mut(&alloc.group) {
        change(group);
        let id = deployment.id.clone();
        state.put_deployment(write, deployment);
        watch_deadlines(state, &id);
    }
}

/// Lets the deadline of a deployment be looked at when it is over.
pub(crate) fn watch_deadlines(state: &mut State, id: &str) {
    let deadlines = state.deployments.get(id).map(|deployment| &deployment.groups);
    if let Some(at) = deadlines.and_then(|groups| groups.values().filter_map(|group| group.progress_by).min()) {
        state.at(at, Timer::ProgressDeadline(id.to_owned()));
    }
}

/// Looks at an allocation of a deployment that the client has told something new about.
pub(crate) fn observe(state: &mut State, alloc: &str, is_new: bool) {
    let Some(alloc) = state.allocs.get(alloc) else { return };
    let Some(deployment) = alloc.deployment.as_ref().and_then(|id| state.deployments.get(id)) else { return };
    let (Some(health), true) = (alloc.health, deployment.is_active()) else { return };
    let deadline = deployment.groups.get(&alloc.group).map_or(Duration::ZERO, |group| group.progress_deadline);
    let id = deployment.id.clone();
    if health.healthy {
        if is_new {
            let promotes = deployment.awaits_promotion() && deployment.promotes_itself();
            let at = state.now.after(if promotes { NOTICE } else { BATCH });
            state.at(at, Timer::Watch(id));
        }
    } else if deadline.is_zero() || !is_replaceable(alloc) {
        let at = state.now.after(NOTICE);
        state.at(at, Timer::Fail(id));
    } else if !alloc.may_reschedule {
        let at = state.now.after(BATCH);
        state.at(at, Timer::Watch(id));
    }
}

/// Asks the scheduler to go on, and lets it replace what has failed.
pub(crate) fn proceed(state: &mut State, id: &str) {
    let running = |deployment: &&Deployment| deployment.status == DeploymentStatus::Running;
    let Some(deployment) = state.deployments.get(id).filter(running) else { return };
    if deployment.awaits_promotion() && deployment.promotes_itself() && promote(state, id, None).is_ok() {
        return;
    }
    let Some(deployment) = state.deployments.get(id) else { return };
    let key = deployment.job.clone();
    let unhealthy = state.allocs.values().filter(|alloc| {
        alloc.deployment.as_deref() == Some(id)
            && !alloc.may_reschedule
            && alloc.wanted
            && alloc.health.is_some_and(|health| !health.healthy)
    });
    let unhealthy: Vec<_> = unhealthy.cloned().collect();
    let last_eval = state.evals.values().filter(|eval| eval.job == key && eval.trigger == Trigger::DeploymentWatcher);
    let last_eval = last_eval.map(|eval| eval.create_index).max().unwrap_or(0);
    let news = state.allocs.values().any(|alloc| {
        alloc.deployment.as_deref() == Some(id) && alloc.health.is_some_and(|health| health.modify_index > last_eval)
    });
    if !news {
        // A batch before this one has taken everything.
        return;
    }
    let mut write = state.begin("AllocationUpdateDesiredStatus");
    let eval = ask(state, &mut write, &key, id);
    for mut alloc in unhealthy {
        alloc.may_reschedule = true;
        state.put_alloc(&mut write, alloc);
    }
    state.commit(write, false);
    scheduler::enqueue(state, &eval);
}

/// An evaluation that lets the deployment go on.
fn ask(state: &mut State, write: &mut Write, job: &JobKey, deployment: &str) -> String {
    let mut eval = state.new_eval(job, Trigger::DeploymentWatcher);
    eval.deployment = Some(deployment.to_owned());
    let id = eval.id.clone();
    state.put_eval(write, eval);
    id
}

/// The deadline is over: has there been no progress?
pub(crate) fn check_deadline(state: &mut State, id: &str) {
    let Some(deployment) = state.deployments.get(id) else { return };
    let over = |group: &GroupState| group.progress_by.is_some_and(|by| by <= state.now) && !group.is_healthy();
    if deployment.status == DeploymentStatus::Running && deployment.groups.values().any(over) {
        fail(state, id, DeploymentStatus::FailedDeadline);
    }
}

/// What a write to a deployment answers.
#[derive(Debug)]
pub(crate) struct Changed {
    /// None when nothing was to be evaluated.
    pub(crate) eval: Option<String>,
    pub(crate) index: u64,
    /// The version that was gone back to.
    pub(crate) reverted: Option<u64>,
}

/// Ends an active deployment as failed, and goes back to the last stable version where the job wants that.
pub(crate) fn fail(state: &mut State, id: &str, status: DeploymentStatus) -> Option<Changed> {
    let mut deployment = state.deployments.get(id).filter(|deployment| deployment.is_active()).cloned()?;
    deployment.status = status;
    let key = deployment.job.clone();
    let mut stable = None;
    if deployment.groups.values().any(|group| group.auto_revert) {
        stable = last_stable(state, &key).cloned();
        let same =
            stable.as_ref().zip(state.job(&key)).is_some_and(|(one, other)| same_content(&one.spec, &other.spec));
        deployment.rollback = Some(match &stable {
            None => Rollback::Nowhere,
            Some(job) if same => Rollback::Same(job.version),
            Some(job) => Rollback::To(job.version),
        });
        stable = stable.filter(|_| !same);
    }
    let mut write = state.begin("DeploymentStatusUpdate");
    let index = write.index;
    let reverted = stable.as_ref().map(|job| job.version);
    state.put_deployment(&mut write, deployment);
    if let Some((job, current)) = stable.zip(state.job(&key).cloned()) {
        let version = current.version + 1;
        let reverted =
            Job { version, status: current.status, modify_index: index, job_modify_index: index, tag: None, ..job };
        state.put_job(&mut write, reverted, None);
    }
    let eval = ask(state, &mut write, &key, id);
    state.commit(write, false);
    scheduler::enqueue(state, &eval);
    Some(Changed { eval: Some(eval), index, reverted })
}

/// The newest stable version. It may be the current one, which inherits that when it is scaled.
fn last_stable<'a>(state: &'a State, key: &JobKey) -> Option<&'a Job> {
    state.jobs.get(key)?.versions().iter().find(|job| job.stable)
}

fn active(state: &State, id: &str, what: &str) -> Result<Deployment, Refusal> {
    let found = state.deployments.get(id).cloned().ok_or_else(|| Refusal::new(500, "deployment not found"))?;
    if found.is_active() {
        return Ok(found);
    }
    Err(Refusal::new(500, format!("can't {what} terminal deployment")))
}

/// Lets canaries count as all others. None: those of all groups.
pub(crate) fn promote(state: &mut State, id: &str, groups: Option<&[String]>) -> Result<Changed, Refusal> {
    let mut deployment = active(state, id, "promote")?;
    let now = state.now;
    let is_healthy = |id: &String| state.allocs.get(id).and_then(|alloc| alloc.health).is_some_and(|h| h.healthy);
    let mut canaries = Vec::new();
    let mut errors = Vec::new();
    for (name, group) in &mut deployment.groups {
        if groups.is_some_and(|groups| !groups.contains(name)) {
            continue;
        }
        let healthy = group.canaries.iter().filter(|id| is_healthy(id)).count() as u64;
        if healthy < group.desired_canaries {
            let desired = group.desired_canaries;
            errors.push(format!("Task group {name:?} has {healthy}/{desired} healthy allocations"));
        }
        restart_deadline(group, now);
        group.promoted = true;
        canaries.extend(group.canaries.iter().cloned());
    }
    if !errors.is_empty() {
        return Err(Refusal::new(500, multi_error(&errors)));
    }
    let key = deployment.job.clone();
    let mut write = state.begin("DeploymentPromotion");
    state.put_deployment(&mut write, deployment);
    for id in &canaries {
        let Some(mut alloc) = state.allocs.get(id).cloned() else { continue };
        alloc.canary = false;
        alloc.health = alloc.health.map(|health| Health { modify_index: write.index, ..health });
        state.put_alloc(&mut write, alloc);
    }
    let promoted = evaluated(state, write, &key, id);
    // What canaries are registered with may be something else.
    canaries.iter().for_each(|id| services::refresh(state, id));
    Ok(promoted)
}

fn restart_deadline(group: &mut GroupState, now: crate::time::Time) {
    group.progress_by = group.progress_by.map(|_| now.after(group.progress_deadline));
}

fn evaluated(state: &mut State, mut write: Write, key: &JobKey, id: &str) -> Changed {
    let index = write.index;
    let eval = ask(state, &mut write, key, id);
    state.commit(write, false);
    watch_deadlines(state, id);
    scheduler::enqueue(state, &eval);
    Changed { eval: Some(eval), index, reverted: None }
}

/// Lets nothing more be placed, or lets it be placed again.
pub(crate) fn pause(state: &mut State, id: &str, pause: bool) -> Result<Changed, Refusal> {
    let mut deployment = active(state, id, if pause { "pause" } else { "resume" })?;
    let key = deployment.job.clone();
    deployment.status = if pause { DeploymentStatus::Paused } else { DeploymentStatus::Running };
    if !pause {
        let now = state.now;
        deployment.groups.values_mut().for_each(|group| restart_deadline(group, now));
    }
    let mut write = state.begin("DeploymentStatusUpdate");
    state.put_deployment(&mut write, deployment);
    if !pause {
        return Ok(evaluated(state, write, &key, id));
    }
    let index = write.index;
    state.commit(write, false);
    Ok(Changed { eval: None, index, reverted: None })
}

/// Ends a deployment by hand.
pub(crate) fn fail_by_hand(state: &mut State, id: &str) -> Result<Changed, Refusal> {
    active(state, id, "fail")?;
    let failed = fail(state, id, DeploymentStatus::FailedByHand);
    failed.ok_or_else(|| Refusal::new(500, "deployment not found"))
}

/// Says that allocations are healthy.
pub(crate) fn set_healthy(state: &mut State, id: &str, healthy: &[String]) -> Result<Changed, Refusal> {
    if healthy.is_empty() {
        return Err(Refusal::new(500, "must specify at least one healthy/unhealthy allocation ID"));
    }
    let key = active(state, id, "set health of allocations for a")?.job;
    if let Some(unknown) = healthy.iter().find(|alloc| !state.allocs.contains_key(*alloc)) {
        return Err(Refusal::new(500, format!("unknown alloc {unknown:?}")));
    }
    let at = state.now;
    let mut write = state.begin("DeploymentAllocHealth");
    for id in healthy {
        let Some(mut alloc) = state.allocs.get(id).cloned() else { continue };
        let is_new = alloc.health.is_none();
        alloc.health = Some(Health { healthy: true, at, modify_index: write.index });
        if is_new {
            count_health(state, &mut write, &alloc);
        }
        state.put_alloc(&mut write, alloc);
    }
    Ok(evaluated(state, write, &key, id))
}
