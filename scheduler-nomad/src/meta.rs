//! What this library writes into a job's `Meta`, and how it reads it back.
//!
//! A change of `Meta` replaces every instance. So nothing here changes from one launch to the next by itself: the revision
//! and the mark `version` stand in the [source](crate::source) instead.

use std::collections::BTreeMap;

use scheduler_core::{CheckedWorkload, Error, Fault, Identities, Kind, MARK_PREFIX, Marks, OwnerId, Service};

/// Whose it is.
pub(crate) const OWNER: &str = "scheduler/owner";
/// The check index under which a job that had been stopped was launched again. The server takes it for the same job
/// (`CreateIndex` stays), and we do not.
pub(crate) const BORN: &str = "scheduler/born";

/// That its instances have stable identities.
pub(crate) const IDENTITIES: &str = "scheduler/identities";
/// The periodic workload that a job was made from by a run.
pub(crate) const RUN_OF: &str = "scheduler/run-of";
/// In the `Meta` of a task: the check index under which its instances were restarted last.
pub(crate) const RESTART: &str = "scheduler/restart";

type Texts = BTreeMap<String, String>;

/// The `Meta` of a workload: its labels, its annotations, its marks and its owner.
///
/// # Errors
/// Where a label and an annotation have one key, as Nomad has one map for both.
pub(crate) fn of(workload: &CheckedWorkload, owner: &OwnerId) -> Result<Texts, Error> {
    let twice = workload.labels.keys().filter(|key| workload.annotations.contains_key(*key));
    let faults: Vec<Fault> = twice
        .map(|key| Fault::new(format!("annotations[{key:?}]"), "is a label too; Nomad has one map for both"))
        .collect();
    if !faults.is_empty() {
        return Err(Error::invalid_argument("the workload cannot be a job").with_causes(faults));
    }
    let mut meta = workload.labels.clone();
    meta.extend(workload.annotations.clone());
    let marks = workload.marks.iter().filter(|(mark, _)| *mark != "version");
    meta.extend(marks.map(|(mark, text)| (format!("{MARK_PREFIX}{mark}"), text.to_owned())));
    meta.insert(OWNER.to_owned(), owner.to_string());
    if let Kind::Service(Service { identities: Identities::Stable, .. }) = workload.kind {
        meta.insert(IDENTITIES.to_owned(), "stable".to_owned());
    }
    Ok(meta)
}

/// The owner that a job names, if it names one.
pub(crate) fn owner_of(meta: &Texts) -> Option<OwnerId> {
    meta.get(OWNER).and_then(|owner| OwnerId::new(owner.as_str()).ok())
}

/// Whether a key is one of ours.
pub(crate) fn is_ours(key: &str) -> bool {
    key.starts_with(MARK_PREFIX)
}

/// The marks that a job bears by itself: all but `version`.
pub(crate) fn marks_of(meta: &Texts) -> Marks {
    let text = |mark: &str| meta.get(&format!("{MARK_PREFIX}{mark}")).cloned();
    let mut marks = Marks::default();
    marks.unit = text("unit");
    marks.stack = text("stack");
    marks.namespace = text("namespace");
    marks
}

/// The keys that are not ours, with their texts.
pub(crate) fn foreign(meta: &Texts) -> Texts {
    meta.iter().filter(|(key, _)| !is_ours(key)).map(|(key, text)| (key.clone(), text.clone())).collect()
}

#[cfg(test)]
mod tests {
    use scheduler_core::{Container, Workload};

    use super::*;

    #[test]
    fn marks_come_back_but_for_the_version() {
        let mut marks = Marks::default();
        marks.unit = Some("web".to_owned());
        marks.version = Some("1.2+build".to_owned());
        marks.namespace = Some("dev/sandbox".to_owned());
        let web = Workload::service("shop", "web").container(Container::new("web", "web:1")).label("team", "blue");
        let meta = of(&web.marks(marks.clone()).check().unwrap(), &OwnerId::new("me").unwrap()).unwrap();
        marks.version = None;
        assert_eq!(marks_of(&meta), marks);
        assert_eq!(owner_of(&meta).unwrap().as_str(), "me");
        assert_eq!(foreign(&meta), BTreeMap::from([("team".to_owned(), "blue".to_owned())]));
    }

    #[test]
    fn a_key_cannot_be_a_label_and_an_annotation() {
        let mut web = Workload::service("shop", "web").container(Container::new("web", "web:1")).label("note", "a");
        web.annotations.insert("note".to_owned(), "b".to_owned());
        let error = of(&web.check().unwrap(), &OwnerId::new("me").unwrap()).unwrap_err();
        assert_eq!(error.causes()[0].path, "annotations[\"note\"]");
    }
}
