//! What the clients tell the servers, at a steady beat.

use std::{collections::BTreeSet, time::Duration};

use super::{
    deployments, health,
    objects::{ClientStatus, Health, Trigger},
    reconcile::is_replaceable,
    runner::{Runner, START, Step, schedule, stop},
    scheduler,
    state::{State, Timer},
};
use crate::time::{Time, nanos};

/// How often a client tells the servers what they wait for: a status that has changed, health, an end.
const SYNC: Duration = Duration::from_millis(200);
/// How often it tells them of the rest, and of an allocation for the first time.
const SYNC_REST: Duration = Duration::from_millis(1000);

/// Something is to be told to the servers. A client does that at a steady beat.
pub(super) fn mark(state: &mut State, id: &str, urgent: bool) {
    let beat = nanos(if urgent { SYNC } else { SYNC_REST });
    let Some(runner) = state.runners.get_mut(id) else { return };
    runner.dirty = true;
    let from = runner.silent_until.map_or(state.now, |until| until.max(state.now));
    let at = Time(state.started.0 + ((from.0 - state.started.0) / beat + 1) * beat);
    let node = runner.node.clone();
    let Some(node) = state.nodes.iter_mut().find(|other| other.id == node && other.up) else { return };
    if node.sync_at.is_none_or(|planned| planned > at) {
        node.sync_at = Some(at);
        let id = node.id.clone();
        state.at(at, Timer::Sync(id));
    }
}

/// A client tells the servers what has changed on its node.
pub(crate) fn sync(state: &mut State, node: &str) {
    let now = state.now;
    let Some(found) = state.nodes.iter_mut().find(|other| other.id == node) else { return };
    if !found.up || found.sync_at.is_none_or(|at| at > now) {
        return;
    }
    found.sync_at = None;
    let dirty = state.runners.iter_mut().filter(|(_, runner)| {
        let told = runner.silent_until.is_none_or(|until| until <= now);
        runner.node == node && runner.dirty && told
    });
    let dirty: Vec<_> = dirty
        .map(|(id, runner)| {
            runner.dirty = false;
            id.clone()
        })
        .collect();
    tell(state, &dirty);
    let silent = state.runners.iter().filter(|(_, runner)| runner.node == node && runner.dirty);
    let silent: Vec<_> = silent.map(|(id, _)| id.clone()).collect();
    silent.iter().for_each(|id| mark(state, id, true));
    // What has ended and was told is over.
    state.runners.retain(|_, runner| runner.dirty || !runner.status().0.is_terminal());
}

fn tell(state: &mut State, dirty: &[String]) {
    let known: Vec<_> = dirty.iter().filter(|id| state.allocs.contains_key(*id)).cloned().collect();
    if known.is_empty() {
        // What they belonged to was purged. The room is free all the same.
        scheduler::unblock(state);
        return;
    }
    let mut write = state.begin("AllocationUpdated");
    let mut evals = Vec::new();
    let mut ended = false;
    let mut new_health = BTreeSet::new();
    for id in &known {
        let (Some(mut alloc), Some(runner)) = (state.allocs.get(id).cloned(), state.runners.get(id)) else { continue };
        let (status, description) = runner.status();
        let was = alloc.status;
        alloc.status = status;
        alloc.client_description = description;
        alloc.tasks = Some(runner.tasks.iter().map(|(name, task)| (name.clone(), task.state.clone())).collect());
        let stopped_early =
            health::rule(state, id).is_some() && runner.stopping && status == ClientStatus::Complete && quick(runner);
        let decided = runner.health.decided.or(stopped_early.then_some((false, state.now)));
        if let (Some((healthy, at)), None) = (decided, alloc.health) {
            alloc.health = Some(Health { healthy, at, modify_index: write.index });
            new_health.insert(id.clone());
            deployments::count_health(state, &mut write, &alloc);
        }
        ended |= status.is_terminal() && !was.is_terminal();
        let failed = status == ClientStatus::Failed && was != ClientStatus::Failed && alloc.wanted;
        let replaceable = failed && is_replaceable(&alloc);
        let key = alloc.job.key();
        state.put_alloc(&mut write, alloc);
        if replaceable {
            evals.push(key);
        }
    }
    evals.dedup();
    let mut queue = Vec::new();
    for key in evals {
        let eval = state.new_eval(&key, Trigger::AllocFailure);
        queue.push(eval.id.clone());
        state.put_eval(&mut write, eval);
    }
    state.tables.nodes = write.index;
    state.commit(write, false);
    queue.iter().for_each(|eval| scheduler::enqueue(state, eval));
    known.iter().for_each(|id| deployments::observe(state, id, new_health.contains(id)));
    if ended {
        scheduler::unblock(state);
    }
}

/// Whether what was stopped had begun, and ended before its kill timeout. Then the watch over its health says that it
/// was not healthy.
fn quick(runner: &Runner) -> bool {
    runner.tasks.values().all(|task| task.fate.obeys.is_some() && task.state.started_at.is_some())
}

/// The node is cut off: what runs there is no longer heard of.
pub(crate) fn forget_sync(state: &mut State, node: &str) {
    if let Some(node) = state.nodes.iter_mut().find(|other| other.id == node) {
        node.sync_at = None;
    }
}

/// The node is back: what is no longer wanted there ends, and the servers hear of the rest.
pub(crate) fn reconnect(state: &mut State, node: &str) {
    let here = state.runners.iter().filter(|(_, runner)| runner.node == node);
    let here: Vec<_> = here.map(|(id, _)| id.clone()).collect();
    for id in here {
        if state.allocs.get(&id).is_none_or(|alloc| !alloc.wanted) {
            stop(state, &id);
        } else {
            // Steps that were due in the meantime did not happen.
            let tasks = state.runners.get(&id).map(|runner| runner.tasks.keys().cloned().collect::<Vec<_>>());
            for name in tasks.into_iter().flatten() {
                let next = state.runners.get(&id).and_then(|runner| runner.tasks.get(&name)).map(|task| task.next);
                if let Some(step) = next.filter(|step| !matches!(step, Step::Nothing)) {
                    schedule(state, &id, &name, step, START);
                }
            }
            mark(state, &id, true);
        }
    }
}
