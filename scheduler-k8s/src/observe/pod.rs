//! A Pod as an instance.

use std::time::Duration;

use scheduler_core::{Exit, Instance, InstanceState, Seconds, Timestamp};
use serde_json::Value;

use super::{condition, time};
use crate::kind::MainKind;

/// What judging a Pod depends on besides itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    pub(super) kind: MainKind,
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
    let mut instance = Instance::new(id(view.kind, pod), created);
    instance.current = current;
    instance.node = pod["spec"]["nodeName"].as_str().map(str::to_owned);
    instance.address = status["podIP"].as_str().map(str::to_owned);
    let restarts = statuses(status).filter_map(|container| container["restartCount"].as_u64()).sum::<u64>();
    instance.restarts = u32::try_from(restarts).unwrap_or(u32::MAX);
    (instance.state, instance.since) = state(pod, created, view);
    instance.ordinal = ordinal(view.kind, pod);
    if instance.state == InstanceState::Ended {
        instance.exit = exit(status);
    }
    let min_ready = view.min_ready.duration();
    instance.available = instance.state == InstanceState::Ready && view.at.since(instance.since) >= min_ready;
    Some(instance)
}

/// The instance's id: the Pod's name, and where another Pod can have that name later, the first digits of its uid. No
/// name of ours has a dot.
pub(crate) fn id(kind: MainKind, pod: &Value) -> String {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    match kind {
        MainKind::StatefulSet => format!("{}.{}", text("name"), text("uid").get(..8).unwrap_or_default()),
        _ => text("name").to_owned(),
    }
}

fn ordinal(kind: MainKind, pod: &Value) -> Option<u32> {
    let metadata = &pod["metadata"];
    match kind {
        MainKind::StatefulSet => metadata["name"].as_str()?.rsplit_once('-')?.1.parse().ok(),
        MainKind::Job | MainKind::CronJob => {
            metadata["annotations"]["batch.kubernetes.io/job-completion-index"].as_str()?.parse().ok()
        }
        MainKind::Deployment | MainKind::DaemonSet => None,
    }
}

/// How the main container ended. There is one main container; sidecars are init containers.
fn exit(status: &Value) -> Option<Exit> {
    let end = &status["containerStatuses"][0]["state"]["terminated"];
    let mut exit = Exit::new(i32::try_from(end["exitCode"].as_i64()?).ok()?);
    exit.signal = end["signal"].as_i64().filter(|signal| *signal != 0).and_then(|signal| signal.try_into().ok());
    exit.out_of_memory = end["reason"] == "OOMKilled";
    Some(exit)
}

pub(crate) fn has_ended(status: &Value) -> bool {
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
