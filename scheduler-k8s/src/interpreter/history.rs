//! `history` and `mark_healthy`: one ControllerRevision for each revision, owned by the main object.

use std::sync::Arc;

use scheduler_core::{
    CheckedWorkload, Error, ErrorKind, Guard, HistoryEntry, MarkHealthy, MarkedHealthy, ObjectAction, OwnerId, Result,
    Revision, Revisions, Target, Timestamp,
};
use scheduler_k8s_client::Resource;
use serde_json::{Value, json};

use super::find::lost_a_race;
use super::write::{Writer, mark};
use super::{ATTEMPTS, KubernetesScheduler, text};
use crate::kind::MainKind;
use crate::labels::{self, HEALTHY, HISTORY, OWNER};
use crate::{MARKER, claims, render};

/// How many revisions are kept of those that were marked healthy, and as many of the others. A limit by age alone (a
/// Deployment's `revisionHistoryLimit`) lets failures push out what could be gone back to.
const KEPT: usize = 10;

/// What a launch calls all entries together.
pub(super) const ALL: &str = "ControllerRevisions";

const RESOURCE: &Resource = &Resource::CONTROLLER_REVISION;

/// What finds the history of a workload.
pub(super) fn selector(owner: &OwnerId, target: &Target) -> String {
    format!("{OWNER}={owner},{}", anybodys(target))
}

/// The same, whoever wrote it.
pub(super) fn anybodys(target: &Target) -> String {
    format!("{HISTORY}={}", target.name)
}

/// The name of a revision's entry.
fn name(target: &Target, revision: &Revision) -> String {
    format!("{}.{}", target.name, revision.as_str().trim_start_matches("v1:"))
}

/// The order of launches: the last has the highest number.
fn number(entry: &Value) -> i64 {
    entry["revision"].as_i64().unwrap_or(0)
}

/// Whether the revision of this workload is the last of its history.
pub(super) fn is_kept(entries: &[Value], workload: &CheckedWorkload) -> bool {
    let last = entries.iter().max_by_key(|entry| number(entry));
    last.is_some_and(|last| text(last, "name") == name(workload.target(), workload.revision()))
}

/// Makes the revision of this workload be the last of its history, and lets go of what is too old. Tells what that does to
/// the history as a whole.
///
/// An entry of a revision that comes back gets a new number and keeps its content, which cannot be changed: the workload as
/// it was launched first.
pub(super) async fn keep(
    writer: &mut Writer<'_>,
    workload: &CheckedWorkload,
    kind: MainKind,
    main: &Value,
    mut entries: Vec<Value>,
) -> Result<ObjectAction> {
    let (target, owner) = (workload.target(), &writer.scheduler.owner);
    let name = name(target, workload.revision());
    let owned = json!([render::owner_reference(kind, target.name.as_str(), text(main, "uid"))]);
    let mut attempt = 1;
    loop {
        entries.sort_by_key(|entry| std::cmp::Reverse(number(entry)));
        let last = entries.iter().map(number).max().unwrap_or(0);
        let own = entries.iter().find(|entry| text(entry, "name") == name);
        let is_last = entries.first().is_some_and(|entry| text(entry, "name") == name);
        let data = match own {
            Some(entry) => entry["data"].clone(),
            None => json!({"workload": serde_json::to_value(workload).map_err(unreadable)?}),
        };
        let rendered = json!({
            "apiVersion": RESOURCE.api_version(),
            "kind": RESOURCE.kind,
            "metadata": {
                "name": name,
                "namespace": target.namespace.as_str(),
                "labels": {OWNER: owner.as_str(), HISTORY: target.name.as_str()},
                "ownerReferences": owned,
            },
            "revision": if is_last { last } else { last + 1 },
            "data": data,
        });
        match writer.write(RESOURCE, &rendered, own).await {
            Err(error) if attempt < ATTEMPTS && is_race(&error) => attempt += 1,
            Err(error) => return Err(error),
            Ok(written) => {
                // What another owner kept goes with the main object, which owns it.
                let scheduler = writer.scheduler;
                let ours = entries.iter().filter(|entry| text(entry, "name") != name && scheduler.is_ours(entry));
                let (healthy, others): (Vec<_>, Vec<_>) = ours.partition(|entry| is_healthy(entry));
                for old in healthy.into_iter().skip(KEPT).chain(others.into_iter().skip(KEPT - 1)) {
                    writer.remove(RESOURCE, old).await?;
                }
                let first = !entries.iter().any(|entry| scheduler.is_ours(entry));
                return Ok(match written.action {
                    ObjectAction::Created if !first => ObjectAction::Updated,
                    action => action,
                });
            }
        }
        entries = writer.scheduler.list_of(RESOURCE, target, anybodys(target)).await?;
    }
}

/// Another launch may have made the same entry meanwhile.
fn is_race(error: &Error) -> bool {
    lost_a_race(error) || matches!(error.kind(), ErrorKind::AlreadyExists { .. })
}

fn unreadable(error: serde_json::Error) -> Error {
    Error::new(ErrorKind::Internal, format!("the workload cannot be written down: {error}"))
}

/// The workload of an entry; `None` for one that this version cannot read, which hides no other.
pub(super) fn workload_of(entry: &Value) -> Option<CheckedWorkload> {
    serde_json::from_value(entry["data"]["workload"].clone()).ok()
}

pub(super) async fn history(scheduler: &KubernetesScheduler, target: &Target) -> Result<Revisions> {
    let Some(main) = scheduler.find_ours(target).await? else { return Ok(Revisions::default()) };
    let mut found = scheduler.list_of(RESOURCE, target, selector(&scheduler.owner, target)).await?;
    found.sort_by_key(|entry| std::cmp::Reverse(number(entry)));
    let current = main.object["metadata"]["annotations"][labels::REVISION].as_str();
    let entries = found.iter().filter_map(|entry| {
        let launched = claims::applied(entry).or_else(|| text(entry, "creationTimestamp").parse().ok());
        let mut kept = HistoryEntry::new(Arc::new(workload_of(entry)?), launched.unwrap_or(Timestamp::from_millis(0)));
        kept.current = current == Some(kept.revision.as_str());
        kept.healthy = is_healthy(entry);
        Some(kept)
    });
    Ok(Revisions::new(entries.collect()))
}

fn is_healthy(entry: &Value) -> bool {
    entry["metadata"]["annotations"][HEALTHY] == "true"
}

pub(super) async fn mark_healthy(scheduler: &KubernetesScheduler, op: &MarkHealthy) -> Result<MarkedHealthy> {
    scheduler.require(&op.target, &Guard::IfOwned).await?;
    let name = name(&op.target, &op.revision);
    let mut attempt = 1;
    loop {
        let found = scheduler.list_of(RESOURCE, &op.target, selector(&scheduler.owner, &op.target)).await?;
        let Some(entry) = found.iter().find(|entry| text(entry, "name") == name) else {
            let kept = format!("revision {} is not among those that are kept", op.revision.short());
            return Err(Error::new(ErrorKind::Precondition, kept));
        };
        if is_healthy(entry) {
            return Ok(MarkedHealthy::Already);
        }
        let body = json!({"metadata": {"annotations": {HEALTHY: "true"}}});
        match mark(scheduler, RESOURCE, entry, MARKER, body).await {
            Err(error) if attempt < ATTEMPTS && lost_a_race(&error) => attempt += 1,
            done => return done.map(|_| MarkedHealthy::Now),
        }
    }
}
