//! What containers write.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_core::stream::BoxStream;
use futures_util::StreamExt as _;

use super::cases;
use crate::conformance::ctx::{Ctx, check, check_eq, ids};
use crate::conformance::{Disturbance, Failure, Outcome};
use crate::memory::Fate;
use crate::{LogItem, LogLine, Logs, Result as OpResult, SchedulerExt as _};

cases! {
    /// What was written so far is told, with instance and container, and the stream ends.
    0 "logs/so-far" [Logs] {KnownOutput} => so_far;
    /// All instances are told, each with its own lines in their order.
    0 "logs/all-instances" [Logs] {KnownOutput} => all_instances;
    /// Only one instance, if that is asked for.
    0 "logs/one-instance" [Logs] {KnownOutput} => one_instance;
    /// Only the last lines, if that is asked for.
    0 "logs/tail" [Logs] {KnownOutput} => tail;
    /// Only what was written since a time, if that is asked for.
    0 "logs/since" [Logs, LogsSince] {KnownOutput} => since;
    /// A follower is told what is written later.
    0 "logs/follow" [Logs] {KnownOutput} => follow;
    /// A follower goes on over the restart of a container.
    0 "logs/follow-over-restart" [Logs] {KnownOutput} => follow_over_restart;
    /// A follower is told of instances that come later.
    0 "logs/follow-new-instances" [Logs, Scale] {KnownOutput} => follow_new_instances;
    /// Following a job ends with it.
    0 "logs/follow-ends-with-a-job" [Logs, Jobs] {KnownOutput} => follow_ends_with_a_job;
    /// The run of a container before the present one, if that is asked for.
    0 "logs/previous" [Logs, PreviousLogs] {KnownOutput} => previous;
    /// An instance whose output cannot be had is a gap, not silence.
    0 "logs/gap" [Logs] {LoseNode} => gap;
    /// What ended is told as long as it is kept.
    0 "logs/of-an-ended-job" [Logs, Jobs] {KnownOutput} => of_an_ended_job;
    /// What is not there, and what is somebody else's, tells nothing but an error or nothing at all.
    1 "logs/only-ours" [Logs] => only_ours;
}

type Stream = BoxStream<'static, OpResult<LogItem>>;

fn open(ctx: &Ctx, op: Logs) -> Stream {
    ctx.scheduler.logs(op)
}

fn web(ctx: &Ctx) -> Result<Logs, Failure> {
    Ok(Logs::new(ctx.target("web")?))
}

/// All items until the stream ends.
async fn all(ctx: &Ctx, op: Logs) -> Result<Vec<LogItem>, Failure> {
    let items: Vec<_> = open(ctx, op).collect().await;
    items.into_iter().map(|item| Ok(item?)).collect()
}

fn lines(items: &[LogItem]) -> Vec<&LogLine> {
    items.iter().filter_map(|item| if let LogItem::Line(line) = item { Some(line) } else { None }).collect()
}

fn texts<'a>(lines: &[&'a LogLine]) -> Vec<&'a str> {
    lines.iter().map(|line| line.text.as_str()).collect()
}

/// Waits for a line of the stream.
async fn until(stream: &mut Stream, what: &str, wanted: impl Fn(&LogLine) -> bool) -> Result<LogLine, Failure> {
    loop {
        let item = stream.next().await.ok_or_else(|| Failure(format!("the stream ended before {what}")))??;
        if let LogItem::Line(line) = item
            && wanted(&line)
        {
            return Ok(line);
        }
    }
}

/// Looks until the main container has written so many lines.
async fn written(ctx: &Ctx, op: &Logs, count: usize) -> Result<Vec<LogItem>, Failure> {
    let end = tokio::time::Instant::now() + ctx.timing().settle;
    loop {
        let items = all(ctx, op.clone()).await?;
        if lines(&items).len() >= count {
            return Ok(items);
        }
        check!(tokio::time::Instant::now() < end, "there never were {count} lines: {items:?}");
        tokio::time::sleep(ctx.timing().poll).await;
    }
}

async fn so_far(ctx: Ctx) -> Outcome {
    let seen = ctx.launch_healthy(ctx.service("web")).await?;
    let items = written(&ctx, &web(&ctx)?, 3).await?;
    let told = lines(&items);
    check_eq!(texts(&told).first(), Some(&"start 0"), "the first line");
    let ticks: Vec<usize> =
        texts(&told).into_iter().filter_map(|text| text.strip_prefix("tick ")?.parse().ok()).collect();
    let counted: Vec<usize> = (0..ticks.len()).collect();
    check_eq!(ticks, counted, "the ticks, in their order and each once");
    check!(told.iter().all(|line| ids(&seen).contains(&line.instance)), "the instances of the lines: {told:?}");
    check!(told.iter().all(|line| line.container == "main"), "the containers of the lines: {told:?}");
    Ok(())
}

async fn all_instances(ctx: Ctx) -> Outcome {
    let seen = ctx.launch_healthy(ctx.service("web").replicas(2)).await?;
    let items = written(&ctx, &web(&ctx)?, 6).await?;
    let told: BTreeSet<_> = lines(&items).iter().map(|line| line.instance.clone()).collect();
    check_eq!(told, ids(&seen), "the instances that are told");
    for id in ids(&seen) {
        let own: Vec<_> = lines(&items).into_iter().filter(|line| line.instance == id).collect();
        check_eq!(texts(&own).first(), Some(&"start 0"), "the first line of {id}");
    }
    Ok(())
}

async fn one_instance(ctx: Ctx) -> Outcome {
    let seen = ctx.launch_healthy(ctx.service("web").replicas(2)).await?;
    for id in ids(&seen) {
        let items = written(&ctx, &web(&ctx)?.instance(&id), 2).await?;
        let told: BTreeSet<_> = lines(&items).iter().map(|line| line.instance.clone()).collect();
        check_eq!(told, BTreeSet::from([id]), "the instances that are told");
    }
    Ok(())
}

async fn tail(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.service("web")).await?;
    written(&ctx, &web(&ctx)?, 6).await?;
    let items = all(&ctx, web(&ctx)?.tail(2)).await?;
    let told = texts(&lines(&items));
    check_eq!(told.len(), 2, "how many lines are told: {told:?}");
    check!(!told.contains(&"start 0"), "the first lines are told instead of the last: {told:?}");
    Ok(())
}

async fn since(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.service("web")).await?;
    let items = written(&ctx, &web(&ctx)?, 6).await?;
    let time = lines(&items).last().and_then(|line| line.time);
    let time = time.ok_or_else(|| Failure("a line has no time".to_owned()))?;
    // Servers may count in whole seconds.
    let items = all(&ctx, web(&ctx)?.since(time)).await?;
    let early: Vec<_> = lines(&items)
        .into_iter()
        .filter(|line| line.time.is_none_or(|at| time.since(at) > Duration::from_secs(1)))
        .collect();
    check!(early.is_empty(), "lines from before {time} are told: {early:?}");
    check!(!lines(&items).is_empty(), "no line is told");
    Ok(())
}

async fn follow(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.service("web")).await?;
    let before = lines(&all(&ctx, web(&ctx)?).await?).len();
    let mut stream = open(&ctx, web(&ctx)?.follow());
    until(&mut stream, "the first line", |line| line.text == "start 0").await?;
    let later = format!("tick {}", before + 3);
    until(&mut stream, &later, |line| line.text == later).await?;
    Ok(())
}

async fn follow_over_restart(ctx: Ctx) -> Outcome {
    let crashes = ctx.fated("web", Fate::Crash { after: 2, exit_code: 1 }).progress_deadline(ctx.long_patience());
    ctx.launch(crashes).await?;
    ctx.settle("web", "running", |seen| Ok(seen.counts.updated == 1)).await?;
    let mut stream = open(&ctx, web(&ctx)?.follow());
    until(&mut stream, "the first run", |line| line.text == "start 0").await?;
    until(&mut stream, "the end of the first run", |line| line.text == "end").await?;
    until(&mut stream, "the second run", |line| line.text == "start 1").await?;
    Ok(())
}

async fn follow_new_instances(ctx: Ctx) -> Outcome {
    let seen = ctx.launch_healthy(ctx.service("web")).await?;
    let mut stream = open(&ctx, web(&ctx)?.follow());
    until(&mut stream, "the first instance", |line| line.text == "start 0").await?;
    ctx.scheduler.scale(crate::Scale::new(ctx.target("web")?, 2)).await?;
    let old = ids(&seen);
    until(&mut stream, "the second instance", |line| line.text == "start 0" && !old.contains(&line.instance)).await?;
    Ok(())
}

async fn follow_ends_with_a_job(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.job("web", Fate::Done { after: 2, exit_code: 0 })).await?;
    let items = all(&ctx, web(&ctx)?.follow()).await?;
    let told = texts(&lines(&items));
    check_eq!((told.first(), told.last()), (Some(&"start 0"), Some(&"end")), "the first and the last line of {told:?}");
    Ok(())
}

async fn previous(ctx: Ctx) -> Outcome {
    let crashes = ctx.fated("web", Fate::Crash { after: 1, exit_code: 1 }).progress_deadline(ctx.long_patience());
    ctx.launch(crashes).await?;
    ctx.settle("web", "restarted", |seen| Ok(seen.instances.iter().any(|i| i.restarts > 0))).await?;
    let items = written(&ctx, &web(&ctx)?.previous(), 2).await?;
    check_eq!(texts(&lines(&items)).last(), Some(&"end"), "the last line of the run before");
    Ok(())
}

async fn gap(ctx: Ctx) -> Outcome {
    let seen = ctx.launch_healthy(ctx.service("web").replicas(2)).await?;
    ctx.disturb("web", Disturbance::LoseNode).await?;
    let end = tokio::time::Instant::now() + ctx.timing().settle;
    loop {
        for id in ids(&seen) {
            // One that the platform has given up meanwhile may be unknown.
            let items: Vec<_> = open(&ctx, web(&ctx)?.instance(&id)).collect().await;
            let is_gap = |item: &OpResult<_>| matches!(item, Ok(LogItem::Gap { instance, .. }) if *instance == id);
            if items.iter().any(is_gap) {
                return Ok(());
            }
        }
        check!(tokio::time::Instant::now() < end, "no gap is told of any of the two");
        tokio::time::sleep(ctx.timing().poll).await;
    }
}

async fn of_an_ended_job(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.job("web", crate::conformance::ctx::DONE)).await?;
    ctx.verdict("web", crate::Verdict::Complete).await?;
    let items = all(&ctx, web(&ctx)?).await?;
    let told = texts(&lines(&items));
    check_eq!((told.first(), told.last()), (Some(&"start 0"), Some(&"end")), "the first and the last line of {told:?}");
    Ok(())
}

async fn only_ours(ctx: Ctx) -> Outcome {
    ctx.theirs().launch_healthy(ctx.service("web")).await?;
    let items: Vec<_> = open(&ctx, web(&ctx)?).collect().await;
    let told = items.iter().any(|item| matches!(item, Ok(LogItem::Line(_) | LogItem::Gap { .. })));
    check!(!told, "somebody else's output is told: {items:?}");
    check_eq!(ctx.scheduler.list_all().await?.len(), 0, "what is ours");
    Ok(())
}
