//! Clause 12: what a watch tells.

use std::collections::BTreeMap;

use futures_core::stream::BoxStream;
use futures_util::StreamExt as _;
use tokio::time::{Instant, timeout_at};

use super::cases;
use crate::conformance::ctx::{Ctx, brief, check, check_eq, error_of};
use crate::conformance::{Disturbance, Failure, Injection, Outcome};
use crate::memory::Fate;
use crate::{
    Detail, DiagnosisKind, ErrorKind, Filter, List, Marks, Observation, Result as OpResult, Retry, Target, Timestamp,
    Verdict, Watch, WatchItem, WatchState,
};

cases! {
    /// A watch tells what is there, then that this was all.
    12 "watch/snapshot-then-synced" [Watch] => snapshot_then_synced;
    /// A launch, its rollout and an update are told.
    12 "watch/tells-changes" [Watch] => tells_changes;
    /// A deletion of what was told is told, with its incarnation.
    12 "watch/tells-deletion" [Watch] => tells_deletion;
    /// What was deleted and made again is Deleted, then Changed.
    12 "watch/tells-recreation" [Watch] => tells_recreation;
    /// The items add up to what list says.
    12 "watch/folds-to-list" [Watch] => folds_to_list;
    /// After a gap the items still add up to what list says.
    12 "watch/gap-converges" [Watch] => gap_converges;
    /// What was deleted during a gap is gone after it.
    12 "watch/gap-hides-no-deletion" [Watch] => gap_hides_no_deletion;
    /// Somebody else's workloads never appear.
    12 "watch/foreign-is-absent" [Watch] => foreign_is_absent;
    /// What does not pass the filter never appears.
    12 "watch/filters" [Watch] => filters;
    /// The restarts of an instance never decrease.
    12 "watch/restarts-never-decrease" [Watch] => restarts_never_decrease;
    /// An error that may pass is an item, and the stream goes on.
    12 "watch/error-is-an-item" [Watch] => error_is_an_item;
    /// The stream ends after an error that will not pass, and only then.
    12 "watch/ends-after-lasting-error" [Watch] => ends_after_lasting_error;
    /// Nothing is sent before a watch is polled.
    12 "watch/is-lazy" [Watch] => is_lazy;
    /// What time alone brings about is told as well.
    12 "watch/sees-instances-come" [Watch] => sees_instances_come;
}

/// A watch that is being read, and what its items add up to.
struct Watcher {
    stream: BoxStream<'static, OpResult<WatchItem>>,
    state: WatchState,
    items: Vec<WatchItem>,
    end: Instant,
}

impl Watcher {
    fn open(ctx: &Ctx, filter: Filter) -> Self {
        Self {
            stream: ctx.scheduler.watch(Watch::new(filter)),
            state: WatchState::new(),
            items: Vec::new(),
            end: Instant::now() + ctx.timing().settle * 3,
        }
    }

    async fn synced(ctx: &Ctx, filter: Filter) -> Result<Self, Failure> {
        let mut watcher = Self::open(ctx, filter);
        watcher.until("synced", |w| w.state.synced()).await?;
        watcher.items.clear();
        Ok(watcher)
    }

    async fn next(&mut self, what: &str) -> Result<OpResult<WatchItem>, Failure> {
        match timeout_at(self.end, self.stream.next()).await {
            Ok(Some(item)) => Ok(item),
            Ok(None) => Err(Failure(format!("the stream ended before it was {what}"))),
            Err(_) => Err(Failure(format!("the watch never was {what}; it told {}", self.told()))),
        }
    }

    /// Reads until the condition holds; it may hold already.
    async fn until(&mut self, what: &str, mut holds: impl FnMut(&Self) -> bool + Send) -> Outcome {
        while !holds(self) {
            let item = self.next(what).await??;
            self.state.apply(item.clone());
            self.items.push(item);
        }
        Ok(())
    }

    fn told(&self) -> String {
        let line = |item: &WatchItem| match item {
            WatchItem::Snapshot(seen) => format!("snapshot {} {}", seen.target.name, seen.verdict()),
            WatchItem::Changed(seen) => format!("changed {} {}", seen.target.name, seen.verdict()),
            WatchItem::Deleted { target, incarnation } => format!("deleted {} {incarnation}", target.name),
            WatchItem::Synced => "synced".to_owned(),
            WatchItem::Resync => "resync".to_owned(),
        };
        self.items.iter().map(line).collect::<Vec<_>>().join(", ")
    }

    fn verdict(&self, target: &Target) -> Option<Verdict> {
        self.state.get(target).map(Observation::verdict)
    }

    /// Reads until the items add up to what list says.
    async fn converges(&mut self, ctx: &Ctx) -> Outcome {
        let start = Instant::now();
        loop {
            let listed: Vec<_> = ctx.scheduler.list(List::default()).await?.workloads.iter().map(comparable).collect();
            let folded: Vec<_> = self.state.iter().map(comparable).collect();
            if self.state.synced() && listed == folded {
                return Ok(());
            }
            check!(
                start.elapsed() < ctx.timing().settle,
                "the items add up to {:?}, but list says {:?}; told: {}",
                folded.iter().map(brief).collect::<Vec<_>>(),
                listed.iter().map(brief).collect::<Vec<_>>(),
                self.told()
            );
            if let Ok(item) = timeout_at(Instant::now() + ctx.timing().poll, self.stream.next()).await {
                let item = item.ok_or_else(|| Failure("the stream ended".into()))??;
                self.state.apply(item.clone());
                self.items.push(item);
            }
        }
    }
}

/// An observation without its time, and without what depends on nothing but its time.
fn comparable(seen: &Observation) -> Observation {
    let mut seen = seen.clone().trimmed(Detail::Counts);
    seen.at = Timestamp::from_millis(0);
    seen.counts.starting = 0;
    for diagnosis in seen.diagnoses.iter_mut().filter(|d| d.kind == DiagnosisKind::RolloutDeadline) {
        diagnosis.since = seen.at;
    }
    seen
}

fn position(items: &[WatchItem], wanted: impl Fn(&WatchItem) -> bool) -> Option<usize> {
    items.iter().position(wanted)
}

fn is_deleted(item: &WatchItem, name: &Target) -> bool {
    matches!(item, WatchItem::Deleted { target, .. } if target == name)
}

async fn snapshot_then_synced(ctx: Ctx) -> Outcome {
    for name in ["one", "two"] {
        ctx.launch(ctx.idle(name)).await?;
        ctx.healthy(name).await?;
    }
    let mut watcher = Watcher::open(&ctx, Filter::default());
    watcher.until("synced", |w| w.state.synced()).await?;
    let (last, snapshots) = watcher.items.split_last().ok_or_else(|| Failure("it told nothing".into()))?;
    check_eq!(*last, WatchItem::Synced, "the last item");
    check!(snapshots.iter().all(|item| matches!(item, WatchItem::Snapshot(_))), "it told {}", watcher.told());
    let targets: Vec<_> = watcher.state.iter().map(|seen| seen.target.clone()).collect();
    check_eq!(targets, [ctx.target("one")?, ctx.target("two")?], "the workloads");
    // And with nothing there, that this was all comes too.
    let mut empty = Watcher::open(&ctx, Filter::target(ctx.target("three")?));
    empty.until("synced", |w| w.state.synced()).await?;
    check_eq!(empty.items, [WatchItem::Synced], "the items of an empty watch");
    Ok(())
}

async fn tells_changes(ctx: Ctx) -> Outcome {
    let web = ctx.target("web")?;
    let mut watcher = Watcher::synced(&ctx, Filter::default()).await?;
    ctx.launch(ctx.service("web")).await?;
    watcher.until("healthy", |w| w.verdict(&web) == Some(Verdict::Healthy)).await?;
    let launched = ctx.launch(ctx.with_tag(ctx.service("web"), "2")).await?;
    let updated = |w: &Watcher| {
        let revision = w.state.get(&web).and_then(|seen| seen.revision.clone());
        revision.as_ref() == Some(&launched.revision) && w.verdict(&web) == Some(Verdict::Healthy)
    };
    watcher.until("healthy again", updated).await?;
    check!(watcher.items.iter().all(|item| matches!(item, WatchItem::Changed(_))), "it told {}", watcher.told());
    Ok(())
}

async fn tells_deletion(ctx: Ctx) -> Outcome {
    let web = ctx.target("web")?;
    let incarnation = ctx.launch_healthy(ctx.service("web")).await?.incarnation;
    ctx.launch_healthy(ctx.idle("neighbour")).await?;
    let mut watcher = Watcher::synced(&ctx, Filter::default()).await?;
    ctx.delete_whole("web").await?;
    watcher.until("told of the deletion", |w| w.items.iter().any(|item| is_deleted(item, &web))).await?;
    let deleted = watcher.items.iter().find(|item| is_deleted(item, &web)).cloned();
    check_eq!(deleted, Some(WatchItem::Deleted { target: web.clone(), incarnation }), "the deletion");
    check!(watcher.state.get(&web).is_none(), "it is still in the picture");
    watcher.converges(&ctx).await
}

async fn tells_recreation(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.idle("web")).await?;
    let first = ctx.healthy("web").await?.incarnation;
    let mut watcher = Watcher::synced(&ctx, Filter::default()).await?;
    // All of it happens before the watch is read again.
    ctx.delete_whole("web").await?;
    ctx.launch(ctx.idle("web")).await?;
    let second = ctx.healthy("web").await?.incarnation;
    let again = |item: &WatchItem| matches!(item, WatchItem::Changed(seen) if seen.incarnation == second);
    watcher.until("told of the second", |w| w.items.iter().any(again)).await?;
    let gone = |item: &WatchItem| matches!(item, WatchItem::Deleted { incarnation, .. } if *incarnation == first);
    let (gone, again) = (position(&watcher.items, gone), position(&watcher.items, again));
    check!(
        gone.is_some() && gone < again,
        "the first was not Deleted before the second was Changed: {}",
        watcher.told()
    );
    watcher.converges(&ctx).await
}

async fn folds_to_list(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.service("one")).await?;
    let mut watcher = Watcher::open(&ctx, Filter::default());
    ctx.launch(ctx.service("two").replicas(2)).await?;
    watcher.converges(&ctx).await?;
    ctx.launch(ctx.with_fate(ctx.service("one"), Fate::InvalidImage, "2")).await?;
    ctx.launch(ctx.service("two").replicas(1)).await?;
    ctx.verdict("one", Verdict::Failed).await?;
    ctx.healthy("two").await?;
    watcher.converges(&ctx).await?;
    ctx.delete_whole("one").await?;
    watcher.converges(&ctx).await
}

async fn gap_converges(ctx: Ctx) -> Outcome {
    for name in ["one", "two", "three"] {
        ctx.launch(ctx.idle(name)).await?;
        ctx.healthy(name).await?;
    }
    let mut watcher = Watcher::synced(&ctx, Filter::default()).await?;
    ctx.disturb("one", Disturbance::BreakWatches).await?;
    ctx.delete_whole("one").await?;
    ctx.launch(ctx.with_tag(ctx.idle("two"), "2")).await?;
    ctx.launch(ctx.idle("four")).await?;
    ctx.healthy("two").await?;
    ctx.healthy("four").await?;
    watcher.converges(&ctx).await?;
    // A gap, where it was told, ends with a new synced; and what comes after it is told.
    check!(watcher.state.synced(), "it told {}", watcher.told());
    ctx.launch(ctx.with_tag(ctx.idle("three"), "2")).await?;
    ctx.healthy("three").await?;
    watcher.converges(&ctx).await
}

async fn gap_hides_no_deletion(ctx: Ctx) -> Outcome {
    let web = ctx.target("web")?;
    ctx.launch_healthy(ctx.service("web")).await?;
    let mut watcher = Watcher::synced(&ctx, Filter::default()).await?;
    ctx.disturb("web", Disturbance::BreakWatches).await?;
    ctx.delete_whole("web").await?;
    ctx.launch(ctx.idle("api")).await?;
    let api = ctx.target("api")?;
    watcher.until("told of the new one, and synced", |w| w.state.synced() && w.state.get(&api).is_some()).await?;
    watcher.until("without the old one", |w| w.state.get(&web).is_none()).await?;
    Ok(())
}

async fn foreign_is_absent(ctx: Ctx) -> Outcome {
    let theirs = ctx.theirs();
    theirs.launch(theirs.idle("before")).await?;
    let mut watcher = Watcher::open(&ctx, Filter::default());
    watcher.until("synced", |w| w.state.synced()).await?;
    theirs.launch(theirs.service("after")).await?;
    theirs.healthy("after").await?;
    theirs.delete_whole("before").await?;
    // What comes afterwards is told, so that all of the above would have been.
    ctx.launch(ctx.idle("ours")).await?;
    let ours = ctx.target("ours")?;
    watcher.until("told of ours", |w| w.state.get(&ours).is_some()).await?;
    only(&watcher, &ours)
}

/// That nothing else than this one was told of.
fn only(watcher: &Watcher, ours: &Target) -> Outcome {
    for item in &watcher.items {
        let about = match item {
            WatchItem::Snapshot(seen) | WatchItem::Changed(seen) => &seen.target,
            WatchItem::Deleted { target, .. } => target,
            _ => continue,
        };
        check_eq!(about, ours, "what an item is about");
    }
    Ok(())
}

async fn filters(ctx: Ctx) -> Outcome {
    let qa = Marks { namespace: Some("qa".into()), ..Marks::default() };
    ctx.launch(ctx.idle("other")).await?;
    let mut watcher = Watcher::open(&ctx, Filter::marks(qa.clone()));
    let mut named = Watcher::open(&ctx, Filter::target(ctx.target("wanted")?));
    for watcher in [&mut watcher, &mut named] {
        watcher.until("synced", |w| w.state.synced()).await?;
    }
    ctx.launch(ctx.with_tag(ctx.idle("other"), "2")).await?;
    ctx.launch(ctx.idle("wanted").marks(qa)).await?;
    let wanted = ctx.target("wanted")?;
    for watcher in [&mut watcher, &mut named] {
        watcher.until("told of the wanted one", |w| w.state.get(&wanted).is_some()).await?;
        only(watcher, &wanted)?;
    }
    Ok(())
}

/// How often each instance was started again, at most.
#[derive(Default)]
struct Restarts(BTreeMap<String, u32>);

impl Restarts {
    fn note(&mut self, instance: &str, now: u32) -> Outcome {
        let before = self.0.insert(instance.to_owned(), now).unwrap_or(0);
        check!(before <= now, "{instance}: {before} restarts, then {now}");
        Ok(())
    }

    fn most(&self) -> u32 {
        self.0.values().copied().max().unwrap_or(0)
    }
}

async fn restarts_never_decrease(ctx: Ctx) -> Outcome {
    let mut watcher = Watcher::open(&ctx, Filter::default());
    ctx.launch(ctx.fated("web", Fate::Crash { after: 1, exit_code: 1 }).progress_deadline(600)).await?;
    let mut restarts = Restarts::default();
    ctx.settle("web", "restarted three times", |seen| {
        seen.instances.iter().try_for_each(|i| restarts.note(&i.id, i.restarts))?;
        Ok(restarts.most() >= 3)
    })
    .await?;
    // A watch tells of no instances, but of what is wrong with them.
    let mut restarts = Restarts::default();
    let mut failed = Ok(());
    watcher
        .until("telling of two restarts", |w| {
            let diagnoses = w.state.iter().flat_map(|seen| &seen.diagnoses);
            let mut told = diagnoses.filter_map(|d| Some((d.instance.as_deref()?, d.evidence.restarts?)));
            failed = told.try_for_each(|(id, now)| restarts.note(id, now));
            failed.is_err() || restarts.most() >= 2
        })
        .await?;
    failed
}

async fn error_is_an_item(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.idle("web")).await?;
    let mut watcher = Watcher::open(&ctx, Filter::default());
    ctx.world.inject(1, Injection::Refuse);
    let error = error_of("the first item", watcher.next("telling of an error").await?)?;
    check!(error.retry() != Retry::Never, "a transient fault is not to be tried again: {error}");
    watcher.until("synced", |w| w.state.synced()).await?;
    check_eq!(watcher.state.iter().count(), 1, "the workloads that it tells of");
    Ok(())
}

async fn ends_after_lasting_error(ctx: Ctx) -> Outcome {
    let mut watcher = Watcher::open(&ctx, Filter::default());
    ctx.world.inject(1, Injection::Forbid);
    let error = error_of("the first item", watcher.next("telling of an error").await?)?;
    check_eq!(*error.kind(), ErrorKind::Forbidden, "the error");
    check_eq!(error.retry(), Retry::Never, "whether to try again");
    let end = timeout_at(watcher.end, watcher.stream.next()).await;
    check!(matches!(end, Ok(None)), "after an error that will not pass came {end:?}");
    Ok(())
}

async fn is_lazy(ctx: Ctx) -> Outcome {
    ctx.world.inject(1, Injection::Refuse);
    let mut watcher = Watcher::open(&ctx, Filter::default());
    check!(!ctx.world.injected(), "a request was sent before the watch was polled");
    error_of("the first item", watcher.next("telling of an error").await?)?;
    check!(ctx.world.injected(), "the error was another one");
    Ok(())
}

async fn sees_instances_come(ctx: Ctx) -> Outcome {
    let web = ctx.target("web")?;
    ctx.launch(ctx.fated("web", Fate::Slow { after: 2 })).await?;
    let mut watcher = Watcher::open(&ctx, Filter::default());
    watcher.until("healthy", |w| w.verdict(&web) == Some(Verdict::Healthy)).await?;
    let before = watcher.items.iter().filter(|item| matches!(item, WatchItem::Snapshot(_))).count();
    check_eq!(before, 1, "the snapshots");
    ctx.disturb("web", Disturbance::SetReplicas(2)).await?;
    watcher.until("of two", |w| w.state.get(&web).is_some_and(|seen| seen.counts.ready == 2)).await
}
