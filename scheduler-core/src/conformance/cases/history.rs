//! Clause 7: what was launched before, and the way back.

use super::cases;
use crate::conformance::ctx::{Ctx, check, check_eq, ids, refused};
use crate::conformance::{Failure, Outcome};
use crate::{
    Change, Conflict, ErrorKind, History, Launched, MarkHealthy, MarkedHealthy, Result as OpResult, Revision,
    Revisions, RollbackTo, SchedulerExt as _, Workload,
};

cases! {
    /// Each revision stands in the history once, the last launch first, with what was launched.
    7 "history/order" [History] => order;
    /// A revision that is launched again moves to the top.
    7 "history/relaunch-moves-up" [History] => relaunch;
    /// An unchanged launch and a scale leave the history as it is.
    7 "history/unmoved" [History, Scale] => unmoved;
    /// At least five revisions are kept.
    7 "history/keeps-five" [History] => keeps_five;
    /// However many revisions failed since, the one that was marked healthy is kept, and can be gone back to.
    7 "history/keeps-the-healthy" [History, MarkHealthy] => keeps_the_healthy;
    /// Nothing there, no history; and none of an earlier life after a delete.
    7 "history/of-absent" [History] => of_absent;
    /// Somebody else's history is not shown.
    1 "history/only-ours" [History] => only_ours;
    /// A mark says that a revision was good; nothing else does.
    7 "mark/says-so" [History, MarkHealthy] => mark_says_so;
    /// A mark moves neither the version nor the instances, and the same mark again writes nothing.
    7 "mark/moves-nothing" [History, MarkHealthy] => mark_moves_nothing;
    /// A mark survives later launches, also of the same revision.
    7 "mark/survives-launches" [History, MarkHealthy] => mark_survives;
    /// What is not kept cannot be marked.
    7 "mark/unknown" [History, MarkHealthy] => mark_unknown;
    /// Back to the last healthy revision.
    7 "rollback/last-healthy" [History, MarkHealthy] => last_healthy;
    /// Back to a revision by its name.
    7 "rollback/by-revision" [History] => by_revision;
    /// The live count is kept.
    7 "rollback/keeps-the-count" [History, Scale] => keeps_the_count;
    /// Without a mark there is nothing to go back to.
    7 "rollback/nothing-healthy" [History] => nothing_healthy;
}

async fn history(ctx: &Ctx, name: &str) -> Result<Revisions, Failure> {
    Ok(ctx.scheduler.history(History::new(ctx.target(name)?)).await?)
}

fn tagged(ctx: &Ctx, tag: &str) -> Workload {
    ctx.with_tag(ctx.idle("web"), tag)
}

async fn launch(ctx: &Ctx, tag: &str) -> Result<Launched, Failure> {
    ctx.launch(tagged(ctx, tag)).await
}

fn revisions(history: &Revisions) -> Vec<&Revision> {
    history.entries.iter().map(|entry| &entry.revision).collect()
}

async fn mark(ctx: &Ctx, revision: &Revision) -> Result<OpResult<MarkedHealthy>, Failure> {
    Ok(ctx.scheduler.mark_healthy(MarkHealthy::new(ctx.target("web")?, revision.clone())).await)
}

async fn order(ctx: Ctx) -> Outcome {
    let one = launch(&ctx, "1").await?.revision;
    let two = launch(&ctx, "2").await?.revision;
    let three = launch(&ctx, "3").await?.revision;
    let history = history(&ctx, "web").await?;
    check_eq!(revisions(&history), vec![&three, &two, &one], "the revisions");
    let current: Vec<_> = history.entries.iter().map(|entry| entry.current).collect();
    check_eq!(current, vec![true, false, false], "which is current");
    for (entry, tag) in history.entries.iter().zip(["3", "2", "1"]) {
        let image = entry.workload.containers().map(|container| container.image.clone()).next();
        let launched = tagged(&ctx, tag).containers.first().map(|container| container.image.clone());
        check_eq!(image, launched, "the image of the entry of {tag}");
        check_eq!(entry.workload.revision(), &entry.revision, "the revision of the entry's workload");
    }
    Ok(())
}

async fn relaunch(ctx: Ctx) -> Outcome {
    let one = launch(&ctx, "1").await?.revision;
    let two = launch(&ctx, "2").await?.revision;
    launch(&ctx, "1").await?;
    let history = history(&ctx, "web").await?;
    check_eq!(revisions(&history), vec![&one, &two], "the revisions");
    check_eq!(history.entries.first().map(|entry| entry.current), Some(true), "whether the first is current");
    Ok(())
}

async fn unmoved(ctx: Ctx) -> Outcome {
    let one = launch(&ctx, "1").await?.revision;
    let two = launch(&ctx, "2").await?.revision;
    let before = history(&ctx, "web").await?;
    ctx.scheduler.scale(crate::Scale::new(ctx.target("web")?, 1)).await?;
    ctx.healthy("web").await?;
    ctx.scheduler.scale(crate::Scale::new(ctx.target("web")?, 0)).await?;
    ctx.healthy("web").await?;
    launch(&ctx, "2").await?;
    let after = history(&ctx, "web").await?;
    check_eq!(revisions(&after), vec![&two, &one], "the revisions");
    let times = |of: &Revisions| of.entries.iter().map(|entry| entry.launched).collect::<Vec<_>>();
    check_eq!(times(&after), times(&before), "when they were launched");
    Ok(())
}

async fn keeps_five(ctx: Ctx) -> Outcome {
    let mut launched = Vec::new();
    for tag in 1..=5 {
        launched.insert(0, launch(&ctx, &tag.to_string()).await?.revision);
    }
    let history = history(&ctx, "web").await?;
    check_eq!(revisions(&history), launched.iter().collect::<Vec<_>>(), "the revisions");
    Ok(())
}

async fn keeps_the_healthy(ctx: Ctx) -> Outcome {
    let good = launch(&ctx, "1").await?.revision;
    mark(&ctx, &good).await??;
    for tag in 2..=13 {
        launch(&ctx, &tag.to_string()).await?;
    }
    let kept = history(&ctx, "web").await?;
    check!(revisions(&kept).contains(&&good), "the healthy revision {good} is not among {:?}", revisions(&kept));
    let back = ctx.scheduler.rollback(&ctx.target("web")?, &RollbackTo::LastHealthy).await?;
    check_eq!(back.revision, good, "the revision after going back");
    Ok(())
}

async fn of_absent(ctx: Ctx) -> Outcome {
    check_eq!(history(&ctx, "web").await?.entries, vec![], "the history of nothing");
    launch(&ctx, "1").await?;
    launch(&ctx, "2").await?;
    ctx.delete_whole("web").await?;
    check_eq!(history(&ctx, "web").await?.entries, vec![], "the history of what was deleted");
    let three = launch(&ctx, "3").await?.revision;
    check_eq!(revisions(&history(&ctx, "web").await?), vec![&three], "the history of a new life");
    Ok(())
}

async fn only_ours(ctx: Ctx) -> Outcome {
    let revision = launch(&ctx.theirs(), "1").await?.revision;
    check_eq!(history(&ctx, "web").await?.entries, vec![], "somebody else's history");
    let kind = refused("a mark on somebody else's", mark(&ctx, &revision).await?)?;
    check_eq!(kind, ErrorKind::Conflict(Conflict::Owner { owner: Some(ctx.other.clone()) }), "its error");
    let absent = MarkHealthy::new(ctx.target("nothing")?, revision);
    let kind = refused("a mark on nothing", ctx.scheduler.mark_healthy(absent).await)?;
    check_eq!(kind, ErrorKind::Conflict(Conflict::Absent), "its error");
    Ok(())
}

fn healthy(history: &Revisions) -> Vec<bool> {
    history.entries.iter().map(|entry| entry.healthy).collect()
}

async fn mark_says_so(ctx: Ctx) -> Outcome {
    let one = ctx.launch(ctx.with_tag(ctx.service("web"), "1")).await?.revision;
    ctx.healthy("web").await?;
    check_eq!(healthy(&history(&ctx, "web").await?), vec![false], "what is marked of what was only seen healthy");
    ctx.launch(ctx.with_tag(ctx.service("web"), "2")).await?;
    check_eq!(mark(&ctx, &one).await??, MarkedHealthy::Now, "the mark");
    check_eq!(healthy(&history(&ctx, "web").await?), vec![false, true], "what is marked");
    Ok(())
}

async fn mark_moves_nothing(ctx: Ctx) -> Outcome {
    let revision = ctx.launch(ctx.service("web")).await?.revision;
    let before = ctx.healthy("web").await?;
    mark(&ctx, &revision).await??;
    let after = ctx.healthy("web").await?;
    check_eq!((&after.version, &after.revision), (&before.version, &before.revision), "version and revision");
    check_eq!(ids(&after), ids(&before), "the instances");
    let objects = ctx.objects().await?;
    check_eq!(mark(&ctx, &revision).await??, MarkedHealthy::Already, "the same mark again");
    check_eq!(ctx.objects().await?, objects, "the objects after it");
    check_eq!(ctx.launch(ctx.service("web")).await?.change, Change::Unchanged, "the launch after a mark");
    Ok(())
}

async fn mark_survives(ctx: Ctx) -> Outcome {
    let one = launch(&ctx, "1").await?.revision;
    mark(&ctx, &one).await??;
    launch(&ctx, "2").await?;
    check_eq!(healthy(&history(&ctx, "web").await?), vec![false, true], "what is marked after another launch");
    launch(&ctx, "1").await?;
    check_eq!(healthy(&history(&ctx, "web").await?), vec![true, false], "what is marked after the same again");
    Ok(())
}

async fn mark_unknown(ctx: Ctx) -> Outcome {
    launch(&ctx, "1").await?;
    let never = crate::conformance::ctx::checked(tagged(&ctx, "2"))?.revision().clone();
    let kind = refused("a mark on what was never launched", mark(&ctx, &never).await?)?;
    check_eq!(kind, ErrorKind::Precondition, "its error");
    Ok(())
}

async fn last_healthy(ctx: Ctx) -> Outcome {
    let one = launch(&ctx, "1").await?.revision;
    mark(&ctx, &one).await??;
    launch(&ctx, "2").await?;
    launch(&ctx, "3").await?;
    let back = ctx.scheduler.rollback(&ctx.target("web")?, &RollbackTo::LastHealthy).await?;
    check!(matches!(back.change, Change::Updated(_)), "the rollback: {}", back.change);
    check_eq!(back.revision, one, "the revision that it launched");
    check_eq!(ctx.seen("web").await?.revision, Some(one.clone()), "the revision after it");
    let again = ctx.scheduler.rollback(&ctx.target("web")?, &RollbackTo::LastHealthy).await?;
    check_eq!((again.change, again.revision), (Change::Unchanged, one), "the same rollback again");
    Ok(())
}

async fn by_revision(ctx: Ctx) -> Outcome {
    let one = launch(&ctx, "1").await?.revision;
    let two = launch(&ctx, "2").await?.revision;
    launch(&ctx, "3").await?;
    for revision in [&one, &two] {
        let back = ctx.scheduler.rollback(&ctx.target("web")?, &RollbackTo::Revision(revision.clone())).await?;
        check_eq!(&back.revision, revision, "the revision that it launched");
    }
    let never = crate::conformance::ctx::checked(tagged(&ctx, "4"))?.revision().clone();
    let strange = ctx.scheduler.rollback(&ctx.target("web")?, &RollbackTo::Revision(never)).await;
    check_eq!(refused("a rollback to what never was", strange)?, ErrorKind::Precondition, "its error");
    Ok(())
}

async fn keeps_the_count(ctx: Ctx) -> Outcome {
    let one = ctx.launch(ctx.with_tag(ctx.service("web").replicas(1), "1")).await?.revision;
    ctx.healthy("web").await?;
    ctx.launch(ctx.with_tag(ctx.service("web").replicas(1), "2")).await?;
    ctx.healthy("web").await?;
    ctx.scheduler.scale(crate::Scale::new(ctx.target("web")?, 2)).await?;
    ctx.healthy("web").await?;
    ctx.scheduler.rollback(&ctx.target("web")?, &RollbackTo::Revision(one.clone())).await?;
    let seen = ctx.healthy("web").await?;
    check_eq!((seen.counts.desired, seen.revision), (2, Some(one)), "count and revision after it");
    Ok(())
}

async fn nothing_healthy(ctx: Ctx) -> Outcome {
    launch(&ctx, "1").await?;
    launch(&ctx, "2").await?;
    let before = ctx.objects().await?;
    let kind = refused("a rollback", ctx.scheduler.rollback(&ctx.target("web")?, &RollbackTo::LastHealthy).await)?;
    check_eq!(kind, ErrorKind::Precondition, "its error");
    check_eq!(ctx.objects().await?, before, "the objects after it");
    Ok(())
}
