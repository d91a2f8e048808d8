//! `history` and `mark_healthy`: the versions that the server keeps, with the source that each was launched from.

use std::sync::Arc;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use scheduler_core::{
    Error, ErrorKind, Guard, History, HistoryEntry, MarkHealthy, MarkedHealthy, Result, Revision, Revisions, Target,
    Timestamp,
};
use scheduler_nomad_client::model::Job;
use scheduler_nomad_client::{self as client, Query};

use super::NomadScheduler;
use super::healthy::{MOST_MARKED, Sources, is_tag, tag_of};
use super::read::SIDE_BY_SIDE;
use crate::error::translate;
use crate::{meta, observe, source};

pub(super) async fn history(scheduler: &NomadScheduler, op: &History) -> Result<Revisions> {
    let kept = versions(scheduler, &op.target).await?.revisions;
    Ok(Revisions::new(kept.into_iter().map(|kept| kept.entry).collect()))
}

/// What the server keeps of the present life of a job, the newest first.
#[derive(Default)]
pub(super) struct Past {
    pub(super) revisions: Vec<Kept>,
    /// The versions that were marked as healthy, also those whose source is lost.
    marks: Vec<(u64, String)>,
}

/// A revision, and the versions of the job that are it.
pub(super) struct Kept {
    pub(super) entry: HistoryEntry,
    versions: Vec<(u64, Option<String>)>,
}

/// What the server keeps of a job of ours.
pub(super) async fn versions(scheduler: &NomadScheduler, target: &Target) -> Result<Past> {
    let (namespace, id) = (target.namespace.as_str(), target.name.as_str());
    let versions = scheduler.query(&Query::job_versions(namespace, id)).await?.unwrap_or_default();
    let Some(newest) = versions.first().filter(|job| scheduler.is_ours(job) && !job.stop) else {
        return Ok(Past::default());
    };
    let born = newest.meta.get(meta::BORN).and_then(|index| index.parse().ok()).unwrap_or(0);
    let of_this_life = |job: &&Job| job.job_modify_index > born && !job.stop;
    let of_version = |job: &Job| Query::submission(namespace, id, job.version);
    let queries: Vec<_> = versions.iter().filter(of_this_life).map(of_version).collect();
    let sources = stream::iter(queries.into_iter().map(|query| async move { scheduler.query(&query).await }));
    let sources: Vec<_> = sources.buffered(SIDE_BY_SIDE).try_collect().await?;
    let tag = |job: &Job| job.version_tag.as_ref().map(|tag| tag.name.clone());
    let has_lost = |(job, source): (&Job, &Option<_>)| source.is_none() && tag(job).is_some_and(|tag| is_tag(&tag));
    let marked = match versions.iter().filter(of_this_life).zip(&sources).any(has_lost) {
        true => scheduler.sources(target).await?,
        false => Sources::default(),
    };
    let marks = versions.iter().filter(of_this_life).filter_map(|job| Some((job.version, tag(job)?)));
    let marks = marks.filter(|(_, tag)| is_tag(tag)).collect();
    let mut kept: Vec<Kept> = Vec::new();
    let mut previous: Option<Revision> = None;
    for (job, source) in versions.iter().filter(of_this_life).zip(sources) {
        // A source is carried on by what changes a job without saying what it makes of it: by a scale, say. It tells what was
        // launched last, and that is what is asked for.
        let (tag, at) = (tag(job), launched(job));
        let workload = match source {
            Some(source) => source::read(&source, target),
            None => tag.as_ref().and_then(|tag| marked.of(tag, target)),
        };
        let Some(workload) = workload else { continue };
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
    Ok(Past { revisions: kept, marks })
}

fn launched(job: &Job) -> Timestamp {
    observe::moment(job.submit_time).unwrap_or(Timestamp::from_millis(0))
}

pub(super) async fn mark_healthy(scheduler: &NomadScheduler, op: &MarkHealthy) -> Result<MarkedHealthy> {
    scheduler.needed(&op.target, &Guard::IfOwned).await?;
    let Past { revisions: kept, mut marks } = versions(scheduler, &op.target).await?;
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
        // Before the mark, which would be of no use without it later.
        let marked = kept.iter().filter(|kept| kept.entry.healthy || kept.entry.revision == op.revision);
        let marked: Vec<_> = marked.map(|kept| &*kept.entry.workload).take(MOST_MARKED).collect();
        scheduler.keep_sources(&op.target, &marked).await?;
        let tag = tag_of(&op.revision);
        match client.put_version_tag(namespace, id, *version, &tag, "marked as healthy").await {
            Ok(()) => marks.push((*version, tag)),
            // By somebody who was faster.
            Err(error) if error.kind() == client::ErrorKind::AlreadyExists => return Ok(MarkedHealthy::Already),
            Err(error) => return Err(translate(&error)),
        }
    }
    // Also of what was marked before: that may not have come so far.
    marks.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    for (_, tag) in marks.iter().skip(MOST_MARKED) {
        match client.delete_version_tag(namespace, id, tag).await {
            Err(error) if !matches!(error.kind(), client::ErrorKind::NotFound(_)) => return Err(translate(&error)),
            _ => {}
        }
    }
    Ok(if found.entry.healthy { MarkedHealthy::Already } else { MarkedHealthy::Now })
}
