//! A Pod as an instance.

use std::time::Duration;

use scheduler_core::{Instance, InstanceState, Seconds, Timestamp};
use serde_json::Value;

use super::{condition, time};

/// What judging a Pod depends on besides itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    pub(super) at: Timestamp,
    pub(super) patience: Seconds,
    pub(super) min_ready: Seconds,
}

/// `None` for a Pod that has ended and is being removed: nothing is to be said of it any more.
pub(super) fn instance(pod: &Value, current: bool, view: &View) -> Option<Instance> {
    let (metadata, status) = (&pod["metadata"], &pod["status"]);
    if has_ended(status) && metadata["deletionTimestamp"].is_string() {
        return None;
    }
    let created = time(&metadata["creationTimestamp"], view.at);
    let mut instance = Instance::new(metadata["name"].as_str().unwrap_or_default(), created);
    instance.current = current;
    instance.node = pod["spec"]["nodeName"].as_str().map(str::to_owned);
    instance.address = status["podIP"].as_str().map(str::to_owned);
    let restarts = statuses(status).filter_map(|container| container["restartCount"].as_u64()).sum::<u64>();
    instance.restarts = u32::try_from(restarts).unwrap_or(u32::MAX);
    (instance.state, instance.since) = state(pod, created, view);
    let min_ready = view.min_ready.duration();
    instance.available = instance.state == InstanceState::Ready && view.at.since(instance.since) >= min_ready;
    Some(instance)
}

fn has_ended(status: &Value) -> bool {
    matches!(status["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// Whether the Pod was given up with its node. Its kubelet never says that it ended.
pub(super) fn is_lost(status: &Value) -> bool {
    condition(status, "DisruptionTarget").is_some_and(|c| {
        c["status"] == "True" && matches!(c["reason"].as_str(), Some("DeletionByTaintManager" | "DeletionByPodGC"))
    })
}

/// The statuses of all containers, in the order in which they start.
pub(super) fn statuses(status: &Value) -> impl Iterator<Item = &Value> {
    ["initContainerStatuses", "containerStatuses"].into_iter().flat_map(|list| status[list].as_array()).flatten()
}

fn state(pod: &Value, created: Timestamp, view: &View) -> (InstanceState, Timestamp) {
    let (metadata, status) = (&pod["metadata"], &pod["status"]);
    let changed = |kind: &str| condition(status, kind).map(|c| time(&c["lastTransitionTime"], created));
    if has_ended(status) {
        return (InstanceState::Ended, changed("Ready").unwrap_or(created));
    }
    if metadata["deletionTimestamp"].is_string() {
        // It names the end of the grace, which began that much earlier.
        let end = time(&metadata["deletionTimestamp"], view.at);
        if is_lost(status) && end <= view.at {
            return (InstanceState::Ended, end);
        }
        let grace = Duration::from_secs(metadata["deletionGracePeriodSeconds"].as_u64().unwrap_or(0));
        let grace = i64::try_from(grace.as_millis()).unwrap_or(0);
        return (InstanceState::Terminating, Timestamp::from_millis(end.millis().saturating_sub(grace)));
    }
    if pod["spec"]["nodeName"].as_str().is_none_or(str::is_empty) {
        return (InstanceState::Pending, created);
    }
    if condition(status, "Ready").is_some_and(|ready| ready["status"] == "True") {
        return (InstanceState::Ready, changed("Ready").unwrap_or(created));
    }
    // Only the main container stands here: sidecars are init containers.
    let main = status["containerStatuses"].as_array().map(Vec::as_slice).unwrap_or_default();
    let started = main.iter().map(|container| &container["state"]["running"]["startedAt"]);
    if !main.is_empty() && main.iter().all(|container| container["state"]["running"].is_object()) {
        let started = started.map(|at| time(at, created)).max().unwrap_or(created);
        return (InstanceState::Running, started.max(changed("Ready").unwrap_or(started)));
    }
    (InstanceState::Starting, changed("PodScheduled").unwrap_or(created))
}
