//! The watch: what changed between two looks at the cluster.

use std::collections::{BTreeMap, VecDeque};

use futures_core::stream::BoxStream;
use futures_util::StreamExt as _;
use tokio::sync::watch::Receiver;
use tokio::time::timeout_at;

use super::mutation::Mutation;
use super::scheduler::MemoryScheduler;
use crate::{Detail, Error, Filter, Observation, Result, Retry, Target, Timestamp, WatchItem};

/// A watch, from one item to the next.
struct Watcher {
    scheduler: MemoryScheduler,
    filter: Filter,
    changes: Receiver<()>,
    /// What was told; `None` before the first snapshot and after a failed one.
    known: Option<BTreeMap<Target, Observation>>,
    /// How many gaps there had been when it was told.
    gaps: u64,
    /// Whether a snapshot is not the first one.
    again: bool,
    /// When the cluster may look different by itself.
    due: Option<Timestamp>,
    ready: VecDeque<WatchItem>,
    over: bool,
}

/// Opens a watch. Nothing happens before it is polled.
pub(super) fn stream(scheduler: MemoryScheduler, filter: Filter) -> BoxStream<'static, Result<WatchItem>> {
    let watcher = Watcher {
        changes: scheduler.shared().subscribe(),
        scheduler,
        filter,
        known: None,
        gaps: 0,
        again: false,
        due: None,
        ready: VecDeque::new(),
        over: false,
    };
    futures_util::stream::unfold(watcher, |mut watcher| async move {
        let item = watcher.next().await?;
        Some((item, watcher))
    })
    .boxed()
}

impl Watcher {
    async fn next(&mut self) -> Option<Result<WatchItem>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(Ok(item));
            }
            if self.over {
                return None;
            }
            if self.known.is_none() {
                if let Err(error) = self.snapshot().await {
                    self.over = error.retry() == Retry::Never;
                    return Some(Err(error));
                }
            } else if !self.look() {
                self.wait().await;
            }
        }
    }

    /// Tells all that is there.
    async fn snapshot(&mut self) -> Result<(), Error> {
        self.changes.mark_unchanged();
        let (seen, gaps) = self.scheduler.snapshot(&self.filter).await?;
        if std::mem::replace(&mut self.again, true) {
            self.ready.push_back(WatchItem::Resync);
        }
        let known = by_target(seen);
        self.ready.extend(known.values().map(|seen| WatchItem::Snapshot(Box::new(seen.clone()))));
        if !self.scheduler.shared().mutant.is(Mutation::WatchNeverSyncs) {
            self.ready.push_back(WatchItem::Synced);
        }
        (self.known, self.gaps) = (Some(known), gaps);
        Ok(())
    }

    /// Compares what is there with what was told. Whether there is anything to tell.
    fn look(&mut self) -> bool {
        self.changes.mark_unchanged();
        let mutant = self.scheduler.shared().mutant;
        let (gaps, seen) = {
            let world = self.scheduler.shared().world();
            self.due = world.next_due();
            (world.gaps, by_target(world.visible(self.scheduler.owner(), &self.filter)))
        };
        if std::mem::replace(&mut self.gaps, gaps) != gaps {
            // What happened in the gap is lost; only a new snapshot can tell.
            self.known = mutant.is(Mutation::WatchHidesGap).then_some(seen);
            return true;
        }
        // Deletions first: what was made anew is Deleted, then Changed.
        let known = self.known.take().unwrap_or_default();
        for before in known.values().filter(|_| !mutant.is(Mutation::WatchLosesDelete)) {
            let now = seen.get(&before.target);
            let anew =
                |now: &Observation| now.incarnation != before.incarnation && !mutant.is(Mutation::WatchHidesRecreation);
            if now.is_none_or(anew) {
                let (target, incarnation) = (before.target.clone(), before.incarnation.clone());
                self.ready.push_back(WatchItem::Deleted { target, incarnation });
            }
        }
        for now in seen.values().filter(|now| known.get(&now.target).is_none_or(|before| !is_same(before, now))) {
            self.ready.push_back(WatchItem::Changed(Box::new(now.clone())));
        }
        self.known = Some(seen);
        !self.ready.is_empty()
    }

    /// Sleeps until somebody changes something, or something happens by itself.
    async fn wait(&mut self) {
        let due = self.due.map(|due| self.scheduler.shared().instant(due));
        let changed = self.changes.changed();
        // Whichever it was, the next look tells. The sender lives as long as the cluster, which this watch holds.
        let _ = match due {
            None => Ok(changed.await),
            Some(due) => timeout_at(due, changed).await,
        };
    }
}

/// What a watch tells of each.
fn by_target(seen: Vec<Observation>) -> BTreeMap<Target, Observation> {
    seen.into_iter().map(|seen| (seen.target.clone(), seen.trimmed(Detail::Counts))).collect()
}

/// Whether two observations tell the same, whenever they were made.
fn is_same(before: &Observation, now: &Observation) -> bool {
    let before = Observation { at: now.at, ..before.clone() };
    before == *now
}
