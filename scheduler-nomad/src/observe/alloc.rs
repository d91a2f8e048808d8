//! An allocation as an instance.

use scheduler_core::{Instance, InstanceState, Seconds, Timestamp};
use scheduler_nomad_client::model::{Allocation, ClientStatus, TaskState, TaskStateName};

use super::{is_wanted, moment, time};

/// What judging an allocation depends on besides itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    pub(super) at: Timestamp,
    pub(super) patience: Seconds,
    pub(super) min_ready: Seconds,
    /// Whether a rollout waits for checks.
    pub(super) is_gated: bool,
    /// Whether the rollout of the present version is complete, as far as the server still knows of one.
    pub(super) is_rolled_out: bool,
    /// Whether that rollout failed. Canaries are told to end then, and what was wrong with them is why it did.
    pub(super) has_failed: bool,
    /// Whether instances are to end: then those that have are part of what there is to see.
    pub(super) runs_to_its_end: bool,
}

/// `None` for one that has ended, unless it failed and nothing has replaced it yet, or its rollout failed with it.
pub(super) fn instance(alloc: &Allocation, current: bool, view: &View) -> Option<Instance> {
    let telling = awaits_replacement(alloc) || (current && view.has_failed && alloc.next_allocation.is_empty());
    if alloc.client_status.is_terminal() && !telling && !view.runs_to_its_end {
        return None;
    }
    let created = moment(alloc.create_time).unwrap_or(view.at);
    let mut instance = Instance::new(alloc.id.as_str(), created);
    instance.current = current;
    instance.node = Some(alloc.node_name.clone()).filter(|name| !name.is_empty());
    let restarts = alloc.task_states.values().map(|task| task.restarts).sum::<u64>();
    instance.restarts = u32::try_from(restarts).unwrap_or(u32::MAX);
    (instance.state, instance.since) = state(alloc, created, view);
    instance.available = instance.state == InstanceState::Ready
        && (healthy(alloc) == Some(true) || view.at.since(instance.since) >= view.min_ready.duration());
    Some(instance)
}

/// Whether it has not ended and is to go on.
pub(super) fn is_live(alloc: &Allocation) -> bool {
    is_wanted(alloc) && !alloc.client_status.is_terminal()
}

/// Whether its node has it, or had it and waits for its replacement.
pub(super) fn is_placed(alloc: &Allocation) -> bool {
    is_live(alloc) || awaits_replacement(alloc)
}

/// Whether it failed, is still wanted, and nothing has taken its place.
pub(super) fn awaits_replacement(alloc: &Allocation) -> bool {
    alloc.client_status == ClientStatus::Failed && is_wanted(alloc) && alloc.next_allocation.is_empty()
}

pub(super) fn healthy(alloc: &Allocation) -> Option<bool> {
    alloc.deployment_status.as_ref().and_then(|status| status.healthy)
}

/// Tasks that have not ended as they should: an init container's that has says nothing of the instance.
fn tasks(alloc: &Allocation) -> impl Iterator<Item = &TaskState> {
    alloc.task_states.values().filter(|task| task.state != TaskStateName::Dead || task.failed)
}

fn state(alloc: &Allocation, created: Timestamp, view: &View) -> (InstanceState, Timestamp) {
    let modified = moment(alloc.modify_time).unwrap_or(created);
    if alloc.client_status.is_terminal() {
        return (InstanceState::Ended, modified);
    }
    if !is_wanted(alloc) {
        // The server says when it last changed it, which is when it was told to end, or later.
        return (InstanceState::Terminating, modified);
    }
    if alloc.client_status == ClientStatus::Unknown {
        return (InstanceState::Running, modified);
    }
    let mut tasks = tasks(alloc).peekable();
    if tasks.peek().is_none() || !tasks.all(|task| task.state == TaskStateName::Running) {
        return (InstanceState::Starting, created);
    }
    let started = self::tasks(alloc).filter_map(|task| time(&task.started_at)).max().unwrap_or(created);
    match healthy(alloc) {
        _ if !view.is_gated => (InstanceState::Ready, started),
        Some(true) => {
            let decided = alloc.deployment_status.as_ref().and_then(|status| time(&status.timestamp));
            (InstanceState::Ready, decided.map_or(started, |decided| decided.max(started)))
        }
        // Nobody waits for its checks: it replaces another after the rollout.
        None if view.is_rolled_out => (InstanceState::Ready, started),
        _ => (InstanceState::Running, started),
    }
}
