//! What this library writes into the metadata of objects, and how it reads it back.

use std::collections::BTreeMap;

use scheduler_core::{MARK_PREFIX, Marks, OwnerId, Target, mark_label};
use serde_json::{Map, Value};

/// Whose it is.
pub(crate) const OWNER: &str = "scheduler/owner";
/// The name of the workload that it belongs to.
pub(crate) const TARGET: &str = "scheduler/target";
/// The revision that was launched last; an annotation of the Deployment alone, so that pods do not change with it.
pub(crate) const REVISION: &str = "scheduler/revision";
/// Kubernetes' own bookkeeping on Deployments. Controllers write it, and it says nothing about what somebody wants.
const CONTROLLERS: &str = "deployment.kubernetes.io/";

type Texts = BTreeMap<String, String>;

/// The label that tells the pods of one workload from all others of the namespace: the selector of its Deployment and its
/// Service.
///
/// It is immutable in a Deployment, hence minimal: without the owner, which [`Guard::Adopt`](scheduler_core::Guard::Adopt)
/// changes. The Deployment's own name is the same text, so that no two can have it in one namespace.
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

/// The annotations that a change of somebody would show in.
pub(crate) fn telling_annotations(metadata: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let annotations = metadata["annotations"].as_object();
    annotations.into_iter().flatten().filter(|(key, _)| !key.starts_with(CONTROLLERS))
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
