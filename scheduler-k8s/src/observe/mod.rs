//! Native objects as a neutral [`Observation`]. Pure.
//!
//! Objects are read from JSON field by field: an unknown, odd or missing field costs that field, never the object, and no
//! object hides another. So it works with any version of Kubernetes.

mod diagnose;
mod pod;

use std::collections::BTreeSet;

use scheduler_core::{Diagnosis, DiagnosisKind, Observation, Seconds, Target, Timestamp, Version};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::{claims, labels};

/// The objects of one workload, as the server answers them. Objects that are not of this Deployment may be among them.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct NativeObjects<'a> {
    /// The Deployment.
    pub deployment: &'a Value,
    /// Its ReplicaSets.
    pub replica_sets: &'a [&'a Value],
    /// Its Pods.
    pub pods: &'a [&'a Value],
    /// Events about any of them.
    pub events: &'a [&'a Value],
}

impl<'a> NativeObjects<'a> {
    /// A Deployment alone.
    #[must_use]
    pub fn new(deployment: &'a Value) -> Self {
        Self { deployment, replica_sets: &[], pods: &[], events: &[] }
    }

    /// With these ReplicaSets and Pods.
    #[must_use]
    pub fn pods(mut self, replica_sets: &'a [&'a Value], pods: &'a [&'a Value]) -> Self {
        self.replica_sets = replica_sets;
        self.pods = pods;
        self
    }

    /// With these events.
    #[must_use]
    pub fn events(mut self, events: &'a [&'a Value]) -> Self {
        self.events = events;
        self
    }
}

/// What the objects say of the workload, at this time of the server's clock; with all details, so that a caller leaves out
/// what is not wanted ([`Observation::trimmed`]). `None` if the Deployment bears no owner's mark.
///
/// * Only Pods whose controller is a ReplicaSet whose controller is this Deployment are instances, by uid: one that merely
///   matches the selector is neither counted nor diagnosed.
/// * What was launched last is the ReplicaSet whose template is the Deployment's, as for Kubernetes' own controller; not
///   the newest one, since a roll-back brings an older one to life again.
/// * While the controller has not noticed the last change (`observedGeneration`), its conditions say nothing, and neither
///   does what is wrong with Pods.
/// * A Pod that was given up with its node has ended when its grace is over, although nobody is left to say so.
/// * An instance's id is its Pod's name, which ends in random characters.
#[must_use]
pub fn observe(objects: &NativeObjects<'_>, at: Timestamp) -> Option<Observation> {
    let deployment = objects.deployment;
    let (metadata, spec, status) = (&deployment["metadata"], &deployment["spec"], &deployment["status"]);
    let (owner, target) = (labels::owner_of(deployment)?, target_of(deployment)?);
    let uid = metadata["uid"].as_str().unwrap_or_default();

    let mut seen = Observation::new(target, owner, uid, version(deployment), at);
    let (own_labels, annotations) = (texts(&metadata["labels"]), texts(&metadata["annotations"]));
    seen.revision = annotations.get(labels::REVISION).and_then(|revision| revision.parse().ok());
    if claims::changed_by_others(deployment) {
        seen.revision = None;
    }
    seen.marks = labels::read_marks(&own_labels, &annotations);
    seen.labels = labels::foreign(&own_labels);
    seen.patience = spec["progressDeadlineSeconds"].as_u64().and_then(|n| n.try_into().ok()).map_or(
        // The server's default, which it writes into the object.
        Seconds::new(600),
        Seconds::new,
    );
    seen.noticed = status["observedGeneration"].as_i64().unwrap_or(0) >= metadata["generation"].as_i64().unwrap_or(0);
    seen.deleting = metadata["deletionTimestamp"].is_string();
    seen.paused = spec["paused"] == true;
    seen.counts.desired = spec["replicas"].as_u64().and_then(|n| n.try_into().ok()).unwrap_or(1);
    if seen.noticed {
        let progressing = condition(status, "Progressing");
        seen.completed = progressing.is_some_and(|c| c["status"] == "True" && c["reason"] == "NewReplicaSetAvailable");
        // The clock of a paused rollout stands still, also when its deadline passed before. And going back to a template
        // that has a ReplicaSet, the controller says for a moment of the new generation what it said of the last one; to
        // give up anew takes it at least a second.
        let respecified = claims::respecified(deployment);
        seen.gave_up = progressing
            .filter(|c| !seen.paused && c["status"] == "False" && c["reason"] == "ProgressDeadlineExceeded")
            .map(|c| time(&c["lastTransitionTime"], at))
            .filter(|since| respecified.is_none_or(|respecified| respecified < *since));
    }

    let sets: Vec<&Value> = objects.replica_sets.iter().copied().filter(|set| controller(set) == Some(uid)).collect();
    let current = current_set(deployment, &sets).and_then(uid_of);
    let sets: BTreeSet<&str> = sets.into_iter().filter_map(uid_of).collect();
    let view = pod::View {
        at,
        patience: seen.patience,
        min_ready: Seconds::new(spec["minReadySeconds"].as_u64().and_then(|n| n.try_into().ok()).unwrap_or(0)),
    };
    let mut instances = Vec::new();
    for pod in objects.pods.iter().filter(|pod| controller(pod).is_some_and(|set| sets.contains(set))) {
        let Some(instance) = pod::instance(pod, controller(pod) == current, &view) else { continue };
        let mut found = if seen.noticed { diagnose::pod(pod, &instance, &view) } else { Vec::new() };
        for diagnosis in &mut found {
            diagnosis.evidence.events = diagnose::events_about(objects.events, &[uid_of(pod).unwrap_or_default()], at);
        }
        seen.diagnoses.extend(found);
        instances.push(instance);
    }
    if let Some(refused) = condition(status, "ReplicaFailure").filter(|c| seen.noticed && c["status"] == "True") {
        let mut diagnosis = Diagnosis::new(DiagnosisKind::CreationRefused, time(&refused["lastTransitionTime"], at));
        diagnosis.message = refused["message"].as_str().unwrap_or_default().to_owned();
        let about: Vec<&str> = sets.iter().copied().chain([uid]).collect();
        diagnosis.evidence.events = diagnose::events_about(objects.events, &about, at);
        seen.diagnoses.push(diagnosis);
    }
    Some(seen.with_instances(instances))
}

/// The token for compare-and-set: the uid, the generation (any change of the specification), and a hash of the labels and
/// annotations, which move no generation. Kubernetes' own bookkeeping in annotations is left out: it moves by itself.
pub(crate) fn version(deployment: &Value) -> Version {
    let metadata = &deployment["metadata"];
    let mut sha = Sha256::new();
    let labels = metadata["labels"].as_object().into_iter().flatten();
    let mut texts: Vec<(&str, &String, &Value)> = labels.map(|(key, value)| ("label", key, value)).collect();
    texts.extend(labels::telling_annotations(metadata).map(|(key, value)| ("annotation", key, value)));
    texts.sort_unstable_by_key(|(kind, key, _)| (*kind, *key));
    for (kind, key, value) in texts {
        for part in [kind, key, value.as_str().unwrap_or_default()] {
            sha.update((part.len() as u64).to_be_bytes());
            sha.update(part);
        }
    }
    let hash: String = sha.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let uid = metadata["uid"].as_str().unwrap_or_default();
    Version::new(format!("{uid}.{}.{hash}", metadata["generation"].as_i64().unwrap_or(0)))
}

/// Which workload an object is the main object of, or belongs to by its name.
pub(crate) fn target_of(object: &Value) -> Option<Target> {
    let metadata = &object["metadata"];
    Target::new(metadata["namespace"].as_str()?, metadata["name"].as_str()?).ok()
}

/// The uid of the object's controller.
pub(crate) fn controller(object: &Value) -> Option<&str> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == true)?["uid"].as_str()
}

pub(crate) fn uid_of(object: &Value) -> Option<&str> {
    object["metadata"]["uid"].as_str()
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

fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// A time, or `otherwise` where there is none.
fn time(value: &Value, otherwise: Timestamp) -> Timestamp {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn texts(value: &Value) -> std::collections::BTreeMap<String, String> {
    let entries = value.as_object().into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
