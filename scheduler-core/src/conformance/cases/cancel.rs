//! Clause 19: a future may be dropped at any point.

use std::time::Duration;

use super::cases;
use crate::conformance::ctx::{Ctx, MOST_REQUESTS, check, check_eq, checked, refused, too_many_requests};
use crate::conformance::{Injection, Outcome};
use crate::{Change, Delete, ErrorKind, Guard, Launch, Verdict, Workload};

cases! {
    /// A launch that is dropped at any request is completed by the next.
    19 "cancel/launch" => launch;
    /// An update that is dropped at any request is completed by the next launch.
    19 "cancel/update" => update;
    /// What a dropped launch made is taken away by a delete.
    19 "cancel/launch-then-delete" => launch_then_delete;
    /// A delete that is dropped at any request is completed by the next.
    19 "cancel/delete" => delete;
    /// What was dropped does nothing any more.
    19 "cancel/no-task-is-left" => no_task_is_left;
    /// An operation ends by its own time limit, and the next one repairs.
    19 "cancel/time-limit" => time_limit;
}

/// Drops a launch at each of its requests in turn, and checks that the next one completes it. It starts from nothing, or
/// from a workload of which no object is as wanted.
async fn dropped_launch(ctx: &Ctx, start: Option<Workload>, wanted: Workload) -> Outcome {
    ctx.launch(wanted.clone()).await?;
    let whole = ctx.object_names().await?;
    for nth in 1..MOST_REQUESTS {
        ctx.delete_whole("web").await?;
        if let Some(start) = &start {
            ctx.launch_healthy(start.clone()).await?;
        }
        let before = ctx.objects().await?;
        let ended = ctx.drop_at(nth, ctx.try_launch(wanted.clone(), Guard::IfOwned)).await?;
        ctx.inject_nothing();
        ctx.launch(wanted.clone()).await?;
        check_eq!(ctx.object_names().await?, whole, "the objects after a launch that was dropped at request {nth}");
        let same = ctx.objects().await?.into_iter().find(|object| before.contains(object));
        check!(same.is_none(), "after a launch that was dropped at request {nth}, {same:?} is what it was before");
        check_eq!(ctx.launch(wanted.clone()).await?.change, Change::Unchanged, "the launch after that");
        ctx.healthy("web").await?;
        if let Some(launched) = ended {
            launched??;
            return Ok(());
        }
    }
    too_many_requests()
}

async fn launch(ctx: Ctx) -> Outcome {
    dropped_launch(&ctx, None, ctx.idle("web")).await
}

async fn update(ctx: Ctx) -> Outcome {
    let changed = ctx.with_other_port(ctx.with_tag(ctx.idle("web"), "2"));
    dropped_launch(&ctx, Some(ctx.idle("web")), changed).await
}

async fn launch_then_delete(ctx: Ctx) -> Outcome {
    for nth in 1..MOST_REQUESTS {
        let ended = ctx.drop_at(nth, ctx.try_launch(ctx.idle("web"), Guard::IfOwned)).await?;
        ctx.inject_nothing();
        ctx.delete_whole("web").await?;
        ctx.nothing_left().await?;
        if let Some(launched) = ended {
            launched??;
            return Ok(());
        }
    }
    too_many_requests()
}

async fn delete(ctx: Ctx) -> Outcome {
    for nth in 1..MOST_REQUESTS {
        ctx.launch(ctx.idle("web")).await?;
        ctx.healthy("web").await?;
        let ended = ctx.drop_at(nth, ctx.try_delete("web", Guard::IfOwned)).await?;
        ctx.inject_nothing();
        ctx.delete_whole("web").await?;
        check_eq!(ctx.status("web").await?, None, "the status after a delete that was dropped at request {nth}");
        ctx.nothing_left().await?;
        if let Some(deleted) = ended {
            deleted??;
            return Ok(());
        }
    }
    too_many_requests()
}

async fn no_task_is_left(ctx: Ctx) -> Outcome {
    // The read of the launch hangs, and it is dropped before it could write.
    let ended = ctx.drop_at(1, ctx.try_launch(ctx.service("web"), Guard::IfOwned)).await?;
    check!(ended.is_none(), "a launch sent no request");
    ctx.launch_healthy(ctx.service("witness")).await?;
    check_eq!(ctx.status("web").await?, None, "the status of what a dropped launch had not begun");
    Ok(())
}

async fn time_limit(ctx: Ctx) -> Outcome {
    let limit = Duration::from_millis(200);
    ctx.launch_healthy(ctx.service("web")).await?;
    ctx.world.inject(1, Injection::Hang);
    let wanted = checked(ctx.with_tag(ctx.service("web"), "2"))?;
    let launched = ctx.scheduler.launch(Launch::new(wanted.clone()).time_limit(limit)).await;
    check_eq!(refused("a launch that gets no answer", launched)?, ErrorKind::TimeLimit, "the launch");
    ctx.world.inject(1, Injection::Hang);
    let deleted = ctx.scheduler.delete(Delete::new(ctx.target("web")?).time_limit(limit)).await;
    check_eq!(refused("a delete that gets no answer", deleted)?, ErrorKind::TimeLimit, "the delete");
    ctx.inject_nothing();
    ctx.launch(wanted.into_inner()).await?;
    ctx.verdict("web", Verdict::Healthy).await?;
    Ok(())
}
