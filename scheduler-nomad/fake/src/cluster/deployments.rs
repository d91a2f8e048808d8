//! The deployment watcher: counts health, lets the next batch go, and ends what fails.

use std::time::Duration;

use super::{
    objects::{Alloc, DeploymentStatus, Trigger},
    reconcile::is_replaceable,
    scheduler,
    state::{State, Timer, Write},
};

/// How long changes of health are gathered before the scheduler is asked.
const BATCH: Duration = Duration::from_millis(1200);
/// How long it takes to notice that a deployment has failed.
const NOTICE: Duration = Duration::from_millis(5);

/// Counts an allocation into its deployment, and lets the progress deadline run from the first one.
pub(crate) fn count_placed(state: &mut State, write: &mut Write, alloc: &Alloc) {
    let now = state.now;
    change_group(state, write, alloc, |group| {
        group.placed += 1;
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

fn change_group(
    state: &mut State,
    write: &mut Write,
    alloc: &Alloc,
    change: impl FnOnce(&mut super::objects::GroupState),
) {
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
            let at = state.now.after(BATCH);
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
    let Some(deployment) = state.deployments.get(id).filter(|deployment| deployment.is_active()) else { return };
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
    let mut eval = state.new_eval(&key, Trigger::DeploymentWatcher);
    eval.deployment = Some(id.to_owned());
    let eval_id = eval.id.clone();
    let mut write = state.begin("AllocationUpdateDesiredStatus");
    state.put_eval(&mut write, eval);
    for mut alloc in unhealthy {
        alloc.may_reschedule = true;
        state.put_alloc(&mut write, alloc);
    }
    state.commit(write, false);
    scheduler::enqueue(state, &eval_id);
}

/// The deadline is over: has there been no progress?
pub(crate) fn check_deadline(state: &mut State, id: &str) {
    let Some(deployment) = state.deployments.get(id) else { return };
    let over = |group: &super::objects::GroupState| {
        group.progress_by.is_some_and(|by| by <= state.now) && group.healthy < group.desired
    };
    if deployment.groups.values().any(over) {
        fail(state, id, DeploymentStatus::FailedDeadline);
    }
}

pub(crate) fn fail(state: &mut State, id: &str, status: DeploymentStatus) {
    let Some(mut deployment) = state.deployments.get(id).filter(|deployment| deployment.is_active()).cloned() else {
        return;
    };
    deployment.status = status;
    let mut eval = state.new_eval(&deployment.job, Trigger::DeploymentWatcher);
    eval.deployment = Some(deployment.id.clone());
    let eval_id = eval.id.clone();
    let mut write = state.begin("DeploymentStatusUpdate");
    state.put_deployment(&mut write, deployment);
    state.put_eval(&mut write, eval);
    state.commit(write, false);
    scheduler::enqueue(state, &eval_id);
}
