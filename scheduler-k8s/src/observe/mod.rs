//! Native objects as a neutral [`Observation`]. Pure.
//!
//! Objects are read from JSON field by field: an unknown, odd or missing field costs that field, never the object, and no
//! object hides another. So it works with any version of Kubernetes.

mod diagnose;
mod job;
mod pod;
mod rollout;

use scheduler_core::{Diagnosis, DiagnosisKind, Instance, Observation, Seconds, Target, Timestamp, Version};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::kind::MainKind;
use crate::{claims, labels};

/// The objects of one workload, as the server answers them. Objects that are not of this workload may be among them.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct NativeObjects<'a> {
    /// What the main object is.
    pub kind: MainKind,
    /// The main object.
    pub main: &'a Value,
    /// What stands between it and the Pods: the ReplicaSets of a Deployment, the Jobs of a CronJob, the ControllerRevisions
    /// of a DaemonSet, which tell the present template; otherwise nothing.
    pub between: &'a [&'a Value],
    /// Its Pods.
    pub pods: &'a [&'a Value],
    /// Events about any of them.
    pub events: &'a [&'a Value],
}

impl<'a> NativeObjects<'a> {
    /// A main object alone.
    #[must_use]
    pub fn new(kind: MainKind, main: &'a Value) -> Self {
        Self { kind, main, between: &[], pods: &[], events: &[] }
    }

    /// With what stands between, and with these Pods.
    #[must_use]
    pub fn pods(mut self, between: &'a [&'a Value], pods: &'a [&'a Value]) -> Self {
        self.between = between;
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

pub(crate) use job::finished;
pub(crate) use pod::{has_ended, id as instance_id};

/// What the objects say of the workload, at this time of the server's clock; with all details, so that a caller leaves out
/// what is not wanted ([`Observation::trimmed`]). `None` if the main object bears no owner's mark, or is none: a Job that
/// a schedule made bears the name of the periodic workload in its labels.
///
/// * Only Pods that lead to the main object by their controllers are instances, by uid: one that merely matches the
///   selector is neither counted nor diagnosed.
/// * What was launched last, of a Deployment, is the ReplicaSet whose template is the Deployment's, as for Kubernetes' own
///   controller; not the newest one, since a roll-back brings an older one to life again.
/// * While the controller has not noticed the last change (`observedGeneration`), its conditions say nothing, and neither
///   does what is wrong with Pods. A Job has been noticed once it has a start time.
/// * The controllers of StatefulSets and DaemonSets neither say that a rollout is complete nor give one up. Here it is
///   complete when all are up, and has been given up when nothing was made or became ready for the patience and old
///   instances are left.
/// * A Pod that was given up with its node has ended when its grace is over, although nobody is left to say so.
/// * An instance's id is its Pod's name, which ends in random characters; of a StatefulSet, whose Pods' names come again,
///   the name with the first digits of the Pod's uid.
#[must_use]
pub fn observe(objects: &NativeObjects<'_>, at: Timestamp) -> Option<Observation> {
    let (kind, main) = (objects.kind, objects.main);
    let (metadata, spec) = (&main["metadata"], &main["spec"]);
    let (owner, target) = (labels::owner_of(main)?, target_of(main)?);
    let uid = metadata["uid"].as_str().unwrap_or_default();
    let (own_labels, annotations) = (texts(&metadata["labels"]), texts(&metadata["annotations"]));
    if kind == MainKind::Job && own_labels.get(labels::TARGET).is_some_and(|of| of != target.name.as_str()) {
        return None;
    }

    let mut seen = Observation::new(target, owner, uid, version(main), at);
    seen.kind = kind.workload();
    seen.run_of = own_labels.get(labels::RUN_OF).and_then(|name| scheduler_core::WorkloadName::new(name).ok());
    seen.revision = annotations.get(labels::REVISION).and_then(|revision| revision.parse().ok());
    if claims::changed_by_others(main) {
        seen.revision = None;
    }
    seen.changed = claims::applied(main);
    seen.marks = labels::read_marks(&own_labels, &annotations);
    seen.labels = labels::foreign(&own_labels);
    let patience = match kind {
        MainKind::Deployment => number(&spec["progressDeadlineSeconds"]),
        _ => annotations.get(labels::PATIENCE).and_then(|seconds| seconds.parse().ok()),
    };
    // The server's default, which it writes into a Deployment.
    seen.patience = Seconds::new(patience.unwrap_or(600));
    seen.deleting = metadata["deletionTimestamp"].is_string();
    seen.paused = kind == MainKind::Deployment && spec["paused"] == true;

    let view = pod::View {
        kind,
        at,
        patience: seen.patience,
        min_ready: Seconds::new(number(&spec["minReadySeconds"]).unwrap_or(0)),
    };
    match kind {
        MainKind::Job => job::job(&mut seen, main),
        MainKind::CronJob => job::periodic(&mut seen, main, objects.between),
        _ => rollout::rollout(&mut seen, kind, main),
    }
    let members = rollout::Members::of(kind, main, objects.between);
    let mut instances: Vec<(Instance, &Value)> = Vec::new();
    for pod in objects.pods {
        let Some(current) = members.current(pod) else { continue };
        let Some(instance) = pod::instance(pod, current, &view) else { continue };
        let mut found = if seen.noticed { diagnose::pod(pod, &instance, &view) } else { Vec::new() };
        for diagnosis in &mut found {
            diagnosis.evidence.events = diagnose::events_about(objects.events, &[uid_of(pod).unwrap_or_default()], at);
        }
        seen.diagnoses.extend(found);
        instances.push((instance, pod));
    }
    match kind {
        MainKind::Job => job::diagnose(&mut seen, main, &instances),
        MainKind::StatefulSet | MainKind::DaemonSet => rollout::judge(&mut seen, kind, main, &instances),
        MainKind::Deployment | MainKind::CronJob => {}
    }
    if let Some(refused) =
        condition(&main["status"], "ReplicaFailure").filter(|c| seen.noticed && c["status"] == "True")
    {
        let mut diagnosis = Diagnosis::new(DiagnosisKind::CreationRefused, time(&refused["lastTransitionTime"], at));
        diagnosis.message = refused["message"].as_str().unwrap_or_default().to_owned();
        let about: Vec<&str> = members.owners().chain([uid]).collect();
        diagnosis.evidence.events = diagnose::events_about(objects.events, &about, at);
        seen.diagnoses.push(diagnosis);
    }
    Some(seen.with_instances(instances.into_iter().map(|(instance, _)| instance).collect()))
}

/// The token for compare-and-set: the uid, the generation (any change of the specification), and a hash of the labels and
/// annotations, which move no generation. Kubernetes' own bookkeeping in annotations is left out: it moves by itself.
pub(crate) fn version(main: &Value) -> Version {
    let metadata = &main["metadata"];
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

fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// A time, or `otherwise` where there is none.
fn time(value: &Value, otherwise: Timestamp) -> Timestamp {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn number(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|number| number.try_into().ok())
}

fn texts(value: &Value) -> std::collections::BTreeMap<String, String> {
    let entries = value.as_object().into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
