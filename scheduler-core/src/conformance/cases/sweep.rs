//! Clause 18: sweeping.

use std::time::Duration;

use super::cases;
use crate::conformance::ctx::{Ctx, check, check_eq};
use crate::conformance::{Failure, Outcome};
use crate::{Conflict, ErrorKind, Filter, SchedulerExt as _, SweepOptions, SweepPlan, Target};

cases! {
    /// What is not kept is planned, then deleted; the rest stays.
    18 "sweep/takes-what-is-not-kept" => takes_what_is_not_kept;
    /// A plan deletes nothing.
    18 "sweep/plan-deletes-nothing" => plan_deletes_nothing;
    /// What was launched lately is spared.
    18 "sweep/spares-the-young" => spares_the_young;
    /// A launch that changes something makes young again; one that changes nothing does not.
    18 "sweep/age-is-of-the-last-change" => age_is_of_the_last_change;
    /// A scale does not make young.
    18 "sweep/scale-does-not-make-young" [Scale, LaunchTimes] => scale_does_not_make_young;
    /// Somebody else's is never swept.
    1 "sweep/only-ours" => only_ours;
    /// What was launched anew after the plan is not deleted.
    18 "sweep/only-as-planned" [CompareAndSet] => only_as_planned;
}

async fn plan(ctx: &Ctx, keep: &[&str], older_than: Duration) -> Result<SweepPlan, Failure> {
    let keep: Result<Vec<Target>, Failure> = keep.iter().map(|name| ctx.target(name)).collect();
    let options = SweepOptions::new(keep?, older_than).filter(Filter::namespace(ctx.world.namespace()));
    Ok(ctx.scheduler.plan_sweep(&options).await?)
}

fn surplus(plan: &SweepPlan) -> Vec<&str> {
    plan.surplus.iter().map(|surplus| surplus.target.name.as_str()).collect()
}

async fn takes_what_is_not_kept(ctx: Ctx) -> Outcome {
    for name in ["a", "b", "c"] {
        ctx.launch(ctx.idle(name)).await?;
    }
    let planned = plan(&ctx, &["b"], Duration::ZERO).await?;
    check_eq!(surplus(&planned), vec!["a", "c"], "what is planned");
    for (target, answer) in ctx.scheduler.sweep(&planned).await {
        check!(answer.is_ok(), "the sweep of {target}: {answer:?}");
    }
    for name in ["a", "c"] {
        ctx.delete_whole(name).await?;
    }
    let left: Vec<_> = ctx.scheduler.list_all().await?.into_iter().map(|seen| seen.target.name.to_string()).collect();
    check_eq!(left, vec!["b".to_owned()], "what is left");
    Ok(())
}

async fn plan_deletes_nothing(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.idle("web")).await?;
    let before = ctx.objects().await?;
    check_eq!(surplus(&plan(&ctx, &[], Duration::ZERO).await?), vec!["web"], "what is planned");
    check_eq!(ctx.objects().await?, before, "the objects after it");
    Ok(())
}

async fn spares_the_young(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.idle("web")).await?;
    let planned = plan(&ctx, &[], Duration::from_secs(3600)).await?;
    check_eq!(surplus(&planned), Vec::<&str>::new(), "what is planned");
    check_eq!(planned.spared, vec![ctx.target("web")?], "what is spared");
    Ok(())
}

/// How long ago a launch changed it.
async fn age(ctx: &Ctx, name: &str) -> Result<Duration, Failure> {
    let seen = ctx.seen(name).await?;
    let changed = seen.changed.ok_or_else(|| Failure("the platform does not say when it was changed".to_owned()))?;
    Ok(seen.at.since(changed))
}

/// Lets it grow so old.
async fn grow(ctx: &Ctx, name: &str, seconds: u64) -> Outcome {
    ctx.settle(name, "old enough", |seen| {
        Ok(seen.changed.is_some_and(|changed| seen.at.since(changed) >= Duration::from_secs(seconds)))
    })
    .await?;
    Ok(())
}

async fn age_is_of_the_last_change(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.idle("web")).await?;
    grow(&ctx, "web", 4).await?;
    ctx.launch(ctx.idle("web")).await?;
    check!(age(&ctx, "web").await? >= Duration::from_secs(4), "an unchanged launch made it young");
    ctx.launch(ctx.with_tag(ctx.idle("web"), "2")).await?;
    check!(age(&ctx, "web").await? < Duration::from_secs(4), "a changed launch did not make it young");
    Ok(())
}

async fn scale_does_not_make_young(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.idle("web")).await?;
    grow(&ctx, "web", 4).await?;
    ctx.scheduler.scale(crate::Scale::new(ctx.target("web")?, 1)).await?;
    ctx.healthy("web").await?;
    check!(age(&ctx, "web").await? >= Duration::from_secs(4), "a scale made it young");
    Ok(())
}

async fn only_ours(ctx: Ctx) -> Outcome {
    ctx.theirs().launch(ctx.idle("web")).await?;
    let planned = plan(&ctx, &[], Duration::ZERO).await?;
    check_eq!((surplus(&planned), planned.spared.len()), (vec![], 0), "what is planned, and spared");
    Ok(())
}

async fn only_as_planned(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.idle("web")).await?;
    let planned = plan(&ctx, &[], Duration::ZERO).await?;
    ctx.launch(ctx.with_tag(ctx.idle("web"), "2")).await?;
    let answers = ctx.scheduler.sweep(&planned).await;
    let refused = |answer: &crate::Result<_>| matches!(answer, Err(e) if matches!(e.kind(), ErrorKind::Conflict(Conflict::Moved { .. })));
    let [(_, answer)] = answers.as_slice() else { return Err(Failure(format!("the answers are {answers:?}"))) };
    check!(refused(answer), "the sweep of what was launched anew: {answer:?}");
    check!(ctx.status("web").await?.is_some(), "it was deleted");
    Ok(())
}
