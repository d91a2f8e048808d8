//! `history` and `mark_healthy`: the versions that the server keeps, each with the source that it was launched from.

use std::sync::Arc;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use scheduler_core::{
    Error, ErrorKind, Guard, History, HistoryEntry, MarkHealthy, MarkedHealthy, Result, Revision, Revisions, Target,
    Timestamp,
};
use scheduler_nomad_client::model::Job;
use scheduler_nomad_client::{self as client, Query};

use super::NomadScheduler;
use super::read::SIDE_BY_SIDE;
use crate::error::translate;
use crate::{meta, observe, source};

/// How many marked revisions are kept. A version with a name is never pruned.
const MOST_MARKED: usize = 10;

pub(super) async fn history(scheduler: &NomadScheduler, op: &History) -> Result<Revisions> {
    Ok(Revisions::new(versions(scheduler, &op.target).await?.into_iter().map(|kept| kept.entry).collect()))
}

/// A revision, and the versions of the job that are it, the newest first.
pub(super) struct Kept {
    pub(super) entry: HistoryEntry,
    versions: Vec<(u64, Option<String>)>,
}

/// The revisions that the server keeps of the present life of a job of ours, the newest launch first.
pub(super) async fn versions(scheduler: &NomadScheduler, target: &Target) -> Result<Vec<Kept>> {
    let (namespace, id) = (target.namespace.as_str(), target.name.as_str());
    let versions = scheduler.query(&Query::job_versions(namespace, id)).await?.unwrap_or_default();
    let Some(newest) = versions.first().filter(|job| scheduler.is_ours(job) && !job.stop) else {
        return Ok(Vec::new());
    };
    let born = newest.meta.get(meta::BORN).and_then(|index| index.parse().ok()).unwrap_or(0);
    let of_this_life = |job: &&Job| job.job_modify_index > born && !job.stop;
    let of_version = |job: &Job| Query::submission(namespace, id, job.version);
    let queries: Vec<_> = versions.iter().filter(of_this_life).map(of_version).collect();
    let sources = stream::iter(queries.into_iter().map(|query| async move { scheduler.query(&query).await }));
    let sources: Vec<_> = sources.buffered(SIDE_BY_SIDE).try_collect().await?;
    let mut kept: Vec<Kept> = Vec::new();
    let mut previous: Option<Revision> = None;
    for (job, source) in versions.iter().filter(of_this_life).zip(sources) {
        // A source is carried on by what changes a job without saying what it makes of it: by a scale, say. It tells what was
        // launched last, and that is what is asked for.
        let Some(workload) = source.and_then(|source| source::read(&source, target)) else { continue };
        let (tag, at) = (job.version_tag.as_ref().map(|tag| tag.name.clone()), launched(job));
        let is_mark = tag.as_ref().is_some_and(|tag| *tag == tag_of(workload.revision()));
        match kept.iter_mut().find(|kept| kept.entry.revision == *workload.revision()) {
            Some(known) => {
                known.entry.healthy |= is_mark;
                known.versions.push((job.version, tag));
                // The launch is the first of the versions that follow each other with this source.
                if previous.as_ref() == Some(workload.revision()) && known.versions.len() > 1 {
                    known.entry.launched = at;
                }
            }
            None => {
                let mut entry = HistoryEntry::new(Arc::new(workload.clone()), at);
                (entry.current, entry.healthy) = (kept.is_empty(), is_mark);
                kept.push(Kept { entry, versions: vec![(job.version, tag)] });
            }
        }
        previous = Some(workload.revision().clone());
    }
    Ok(kept)
}

fn launched(job: &Job) -> Timestamp {
    observe::moment(job.submit_time).unwrap_or(Timestamp::from_millis(0))
}

/// The name of the version that was good.
fn tag_of(revision: &Revision) -> String {
    // A colon means something in an address.
    format!("healthy-{}", revision.as_str().replace(':', "-"))
}

pub(super) async fn mark_healthy(scheduler: &NomadScheduler, op: &MarkHealthy) -> Result<MarkedHealthy> {
    scheduler.needed(&op.target, &Guard::IfOwned).await?;
    let kept = versions(scheduler, &op.target).await?;
    let Some(found) = kept.iter().find(|kept| kept.entry.revision == op.revision) else {
        return Err(Error::new(
            ErrorKind::Precondition,
            format!("{} is not among the revisions that are kept", op.revision),
        ));
    };
    let (namespace, id) = (op.target.namespace.as_str(), op.target.name.as_str());
    let client = &scheduler.client;
    if !found.entry.healthy {
        let Some((version, _)) = found.versions.iter().find(|(_, tag)| tag.is_none()) else {
            return Err(Error::new(ErrorKind::Precondition, "somebody else has given each version of it a name"));
        };
        let tag = tag_of(&op.revision);
        match client.put_version_tag(namespace, id, *version, &tag, "marked as healthy").await {
            Ok(()) => {}
            // By somebody who was faster.
            Err(error) if error.kind() == client::ErrorKind::AlreadyExists => return Ok(MarkedHealthy::Already),
            Err(error) => return Err(translate(&error)),
        }
    }
    // Also of what was marked before: that may not have come so far.
    let marked = kept.iter().filter(|kept| kept.entry.healthy || kept.entry.revision == op.revision);
    for old in marked.skip(MOST_MARKED) {
        match client.delete_version_tag(namespace, id, &tag_of(&old.entry.revision)).await {
            Err(error) if !matches!(error.kind(), client::ErrorKind::NotFound(_)) => return Err(translate(&error)),
            _ => {}
        }
    }
    Ok(if found.entry.healthy { MarkedHealthy::Already } else { MarkedHealthy::Now })
}
