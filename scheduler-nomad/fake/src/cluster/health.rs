//! The clients watch over the health of allocations that are new, or that an update has taken over.

use super::{
    objects::{TaskEventKind, TaskPhase},
    state::{State, Timer},
    sync::mark,
};
use crate::{
    job::HealthRule,
    time::{GoDuration, Time},
};

/// Watches over the health of an allocation.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Watch {
    pub(super) deadline: Option<Time>,
    pub(super) decided: Option<(bool, Time)>,
}

pub(super) fn rule(state: &State, id: &str) -> Option<HealthRule> {
    let alloc = state.allocs.get(id)?;
    alloc.job.spec.view.group(&alloc.group)?.health_rule(alloc.deployment.is_some()).cloned()
}

/// Begins to watch over the health of an allocation: when it is placed, and when an update takes it over.
pub(crate) fn watch_health(state: &mut State, id: &str) {
    let Some(rule) = rule(state, id) else { return };
    let deadline = state.now.after(rule.healthy_deadline);
    let Some(runner) = state.runners.get_mut(id) else { return };
    runner.health = Watch { deadline: Some(deadline), decided: None };
    state.at(deadline, Timer::Health(id.to_owned()));
    look_at_health(state, id);
}

/// Decides whether an allocation is healthy, as soon as that can be said.
pub(crate) fn look_at_health(state: &mut State, id: &str) {
    let now = state.now;
    let Some(rule) = rule(state, id) else { return };
    let Some(alloc) = state.allocs.get(id) else { return };
    let has_checks = alloc.job.spec.view.group(&alloc.group).is_some_and(|group| group.has_checks());
    let in_place_since = alloc.modify_time;
    let updated = alloc.create_index < alloc.alloc_modify_index;
    let Some(runner) = state.runners.get_mut(id) else { return };
    if rule.health_check == "manual" {
        return;
    }
    let (Some(deadline), None) = (runner.health.deadline, runner.health.decided) else { return };
    let running = runner.tasks.values().all(|task| task.role.is_well(&task.state));
    let checks_pass =
        rule.health_check != "checks" || !has_checks || runner.tasks.values().all(|task| task.fate.passes_checks);
    let since = runner.tasks.values().filter_map(|task| task.state.started_at).max();
    // One that an update took over has to prove itself again.
    let since = since.map(|since| if updated { since.max(in_place_since) } else { since });
    let healthy_at = since.filter(|_| running && checks_pass).map(|since| since.after(rule.min_healthy_time));
    match healthy_at {
        Some(at) if at <= now => {
            runner.health.decided = Some((true, now));
            runner.health.deadline = None;
            mark(state, id, true);
        }
        _ if deadline <= now => {
            runner.health.decided = Some((false, now));
            runner.health.deadline = None;
            for task in runner.tasks.values_mut().filter(|task| task.state.state != TaskPhase::Dead) {
                let (min, deadline) = (GoDuration(rule.min_healthy_time), GoDuration(rule.healthy_deadline));
                let why = if task.state.state == TaskPhase::Running {
                    format!("Task not running for min_healthy_time of {min} by healthy_deadline of {deadline}")
                } else {
                    format!("Task not running by healthy_deadline of {deadline}")
                };
                task.state.push(now, TaskEventKind::Unhealthy(why));
            }
            mark(state, id, true);
        }
        Some(at) => state.at(at, Timer::Health(id.to_owned())),
        None => {}
    }
}
