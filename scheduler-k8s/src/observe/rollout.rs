//! Main objects that keep instances running: how far a rollout is, and which Pods are of what was launched last.

use std::collections::{BTreeMap, BTreeSet};

use scheduler_core::{Instance, InstanceState, Observation};
use serde_json::Value;

use super::{condition, controller, number, time, uid_of};
use crate::claims;
use crate::kind::MainKind;

/// The label by which the controllers of StatefulSets and DaemonSets know of which template a Pod is.
const TEMPLATE: &str = "controller-revision-hash";

/// How far the rollout is, as far as the main object tells.
pub(super) fn rollout(seen: &mut Observation, kind: MainKind, main: &Value) {
    let (metadata, spec, status) = (&main["metadata"], &main["spec"], &main["status"]);
    seen.noticed = status["observedGeneration"].as_i64().unwrap_or(0) >= metadata["generation"].as_i64().unwrap_or(0);
    seen.counts.desired = match kind {
        MainKind::DaemonSet => number(&status["desiredNumberScheduled"]).unwrap_or(0),
        _ => number(&spec["replicas"]).unwrap_or(1),
    };
    if kind != MainKind::Deployment || !seen.noticed {
        return;
    }
    let progressing = condition(status, "Progressing");
    seen.completed = progressing.is_some_and(|c| c["status"] == "True" && c["reason"] == "NewReplicaSetAvailable");
    // The clock of a paused rollout stands still, also when its deadline passed before. And going back to a template that
    // has a ReplicaSet, the controller says for a moment of the new generation what it said of the last one, or even counts
    // the time of the last one: it has not given up before the new one has had its time.
    let respecified = claims::respecified(main);
    let (at, patience) = (seen.at, seen.patience.duration());
    seen.gave_up = progressing
        .filter(|c| !seen.paused && c["status"] == "False" && c["reason"] == "ProgressDeadlineExceeded")
        .map(|c| time(&c["lastTransitionTime"], at))
        .filter(|_| respecified.is_none_or(|respecified| at.since(respecified) >= patience));
}

/// What the controllers of StatefulSets and DaemonSets do not say: that a rollout is complete, or that it goes nowhere.
pub(super) fn judge(seen: &mut Observation, kind: MainKind, main: &Value, instances: &[(Instance, &Value)]) {
    if !seen.noticed {
        return;
    }
    let status = &main["status"];
    let count = |field: &str| number(&status[field]).unwrap_or(0);
    let (updated, available, settled) = match kind {
        MainKind::DaemonSet => (count("updatedNumberScheduled"), count("numberAvailable"), true),
        _ => {
            let settled = status["currentRevision"] == status["updateRevision"];
            (count("updatedReplicas"), count("availableReplicas"), settled)
        }
    };
    let wanted = seen.counts.desired;
    let patience = seen.patience.duration();
    let respecified = claims::respecified(main);
    let rolled_out = updated >= wanted && settled;
    // Of a rollout that replaced all and has not come up within the patience nobody can tell any more whether it ever was.
    let long_ago = respecified.is_none_or(|respecified| seen.at.since(respecified) >= patience);
    seen.completed = rolled_out && (available >= wanted || long_ago);
    if rolled_out {
        return;
    }
    let steps = instances.iter().filter(|(instance, _)| instance.current).map(|(instance, _)| match instance.state {
        InstanceState::Ready => instance.since,
        _ => instance.created,
    });
    let progress = steps.chain(respecified).max();
    seen.gave_up =
        progress.filter(|progress| seen.at.since(*progress) >= patience).map(|progress| progress.plus(patience));
}

/// Which Pods are instances of a main object, and whether of what was launched last.
pub(super) struct Members<'a> {
    /// What controls them, by uid, and whether that is of what was launched last.
    owners: BTreeMap<&'a str, bool>,
    /// Of which template a current one is, where its owner does not tell.
    template: Option<&'a str>,
}

impl<'a> Members<'a> {
    pub(super) fn of(kind: MainKind, main: &'a Value, between: &[&'a Value]) -> Self {
        let uid = uid_of(main).unwrap_or_default();
        let own: Vec<&Value> = between.iter().copied().filter(|object| controller(object) == Some(uid)).collect();
        let itself = BTreeMap::from([(uid, true)]);
        match kind {
            MainKind::Deployment => {
                let current = current_set(main, &own).and_then(uid_of);
                let owners = own.iter().filter_map(|set| uid_of(set)).map(|set| (set, Some(set) == current)).collect();
                Self { owners, template: None }
            }
            MainKind::CronJob => {
                Self { owners: own.iter().filter_map(|job| Some((uid_of(job)?, true))).collect(), template: None }
            }
            MainKind::DaemonSet => {
                // Going back to an older template makes its revision the newest again.
                let newest = own.iter().max_by_key(|revision| revision["revision"].as_i64());
                let template = newest.and_then(|revision| revision["metadata"]["labels"][TEMPLATE].as_str());
                Self { owners: itself, template: Some(template.unwrap_or_default()) }
            }
            MainKind::StatefulSet => {
                Self { owners: itself, template: Some(main["status"]["updateRevision"].as_str().unwrap_or_default()) }
            }
            MainKind::Job => Self { owners: itself, template: None },
        }
    }

    /// Whether a Pod is of what was launched last; `None` if it is none of the instances.
    pub(super) fn current(&self, pod: &Value) -> Option<bool> {
        let current = *self.owners.get(controller(pod)?)?;
        Some(current && self.template.is_none_or(|template| pod["metadata"]["labels"][TEMPLATE] == template))
    }

    /// What controls the Pods.
    pub(super) fn owners(&self) -> impl Iterator<Item = &'a str> {
        self.owners.keys().copied().collect::<BTreeSet<_>>().into_iter()
    }
}

/// The ReplicaSet that runs the Deployment's template; the oldest, should two do. Kubernetes' controller decides likewise
/// (`FindNewReplicaSet` in its `deployment/util`).
fn current_set<'a>(deployment: &Value, sets: &[&'a Value]) -> Option<&'a Value> {
    let wanted = template(deployment);
    let same = sets.iter().copied().filter(|set| template(set) == wanted);
    same.min_by_key(|set| (set["metadata"]["creationTimestamp"].as_str(), set["metadata"]["name"].as_str()))
}

/// The pod template without what the controller adds to it.
fn template(object: &Value) -> Value {
    let mut template = object["spec"]["template"].clone();
    if let Some(metadata) = template["metadata"].as_object_mut() {
        metadata.remove("creationTimestamp");
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            labels.remove("pod-template-hash");
        }
    }
    template
}
