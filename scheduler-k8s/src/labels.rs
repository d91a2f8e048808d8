//! What this library writes into the metadata of objects, and how it reads it back.

use std::collections::BTreeMap;

use scheduler_core::{MARK_PREFIX, Marks, OwnerId, Target, mark_label};
use serde_json::{Map, Value};

/// Whose it is.
pub(crate) const OWNER: &str = "scheduler/owner";
/// The name of the workload that it belongs to.
pub(crate) const TARGET: &str = "scheduler/target";
/// The revision that was launched last; an annotation of the main object alone, so that pods do not change with it.
pub(crate) const REVISION: &str = "scheduler/revision";
/// The patience in seconds; an annotation of main objects that have no `progressDeadlineSeconds`.
pub(crate) const PATIENCE: &str = "scheduler/patience";
/// The app whose surroundings an object is of: what hooks make, not launches; a label.
pub(crate) const APP: &str = "scheduler/app";
/// The name of the periodic workload that a run is of; a label of its Job and its Pods.
pub(crate) const RUN_OF: &str = "scheduler/run-of";
/// The name of the workload that an entry of the history is of; a label, instead of [`TARGET`]: StatefulSets and
/// DaemonSets take ControllerRevisions that their selector finds for their own.
pub(crate) const HISTORY: &str = "scheduler/history";
/// That somebody called a revision good; an annotation of its entry in the history.
pub(crate) const HEALTHY: &str = "scheduler/healthy";
/// The name of the configuration that a Secret is a version of; a label.
pub(crate) const CONFIG: &str = "scheduler/config";
/// Which restart the pods come from; an annotation of the pod template that no launch applies.
pub(crate) const RESTART: &str = "scheduler/restart";
/// Kubernetes' own bookkeeping on main objects. Controllers and the server write it, and it says nothing about what
/// somebody wants.
const BOOKKEEPING: &[&str] = &["deployment.kubernetes.io/", "deprecated.daemonset.template.generation"];

type Texts = BTreeMap<String, String>;

/// The label that tells the pods of one workload from all others of the namespace: the selector of its main object and its
/// Service.
///
/// It is immutable there, hence minimal: without the owner, which [`Guard::Adopt`](scheduler_core::Guard::Adopt)
/// changes. The main object's own name is the same text, so that no two can have it in one namespace.
pub(crate) fn selector(target: &Target) -> Texts {
    BTreeMap::from([(TARGET.to_owned(), target.name.to_string())])
}

/// The labels and annotations of marks. A text that is no label value is hashed in the label and stands in an annotation.
pub(crate) fn of_marks<'a>(marks: impl Iterator<Item = (&'static str, &'a str)>) -> (Texts, Texts) {
    let (mut labels, mut annotations) = (Texts::new(), Texts::new());
    for (mark, text) in marks {
        let (key, label) = (mark_key(mark), mark_label(text));
        if label != text {
            annotations.insert(key.clone(), text.to_owned());
        }
        labels.insert(key, label);
    }
    (labels, annotations)
}

/// The key of a mark's label and of its annotation.
pub(crate) fn mark_key(mark: &str) -> String {
    format!("{MARK_PREFIX}{mark}")
}

/// Whether a label or annotation is one of ours.
pub(crate) fn is_ours(key: &str) -> bool {
    key.starts_with(MARK_PREFIX)
}

/// The marks that an object bears.
pub(crate) fn read_marks(labels: &Texts, annotations: &Texts) -> Marks {
    let text = |mark: &str| {
        let key = mark_key(mark);
        annotations.get(&key).or_else(|| labels.get(&key)).cloned()
    };
    let mut marks = Marks::default();
    marks.unit = text("unit");
    marks.version = text("version");
    marks.stack = text("stack");
    marks.namespace = text("namespace");
    marks
}

/// The labels that are not ours.
pub(crate) fn foreign(labels: &Texts) -> Texts {
    labels.iter().filter(|(key, _)| !is_ours(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The owner that an object names, if it names one.
pub(crate) fn owner_of(object: &Value) -> Option<OwnerId> {
    object["metadata"]["labels"][OWNER].as_str().and_then(|owner| OwnerId::new(owner).ok())
}

/// The workload that an object bears the labels of.
pub(crate) fn is_of(object: &Value, owner: &OwnerId, target: &Target) -> bool {
    let labels = &object["metadata"]["labels"];
    labels[OWNER] == owner.as_str() && labels[TARGET] == target.name.as_str()
}

/// The annotations that a change of somebody would show in.
pub(crate) fn telling_annotations(metadata: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let annotations = metadata["annotations"].as_object();
    annotations.into_iter().flatten().filter(|(key, _)| !BOOKKEEPING.iter().any(|own| key.starts_with(own)))
}

/// Texts as a JSON object.
pub(crate) fn to_json(texts: &Texts) -> Value {
    Value::Object(texts.iter().map(|(key, text)| (key.clone(), Value::from(text.as_str()))).collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_that_are_no_label_values_come_back_from_annotations() {
        let mut marks = Marks::default();
        marks.unit = Some("web".to_owned());
        marks.namespace = Some("dev/sandbox".to_owned());
        let (labels, annotations) = of_marks(marks.iter());
        assert_eq!(labels["scheduler/unit"], "web");
        assert!(labels["scheduler/namespace"].starts_with("h-") && labels["scheduler/namespace"].len() == 34);
        assert_eq!(annotations, BTreeMap::from([("scheduler/namespace".to_owned(), "dev/sandbox".to_owned())]));
        assert_eq!(read_marks(&labels, &annotations), marks);
    }
}
