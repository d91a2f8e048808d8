//! Clause 19: a future may be dropped at any point.

use std::time::Duration;

use super::cases;
use crate::conformance::changing::{self, Changing};
use crate::conformance::ctx::{Ctx, MOST_REQUESTS, check, check_eq, checked, refused, too_many_requests};
use crate::conformance::{Injection, Outcome};
use crate::{Delete, ErrorKind, Guard, Launch, Verdict};

cases! {
    /// A launch that is dropped at any request is completed by the next, and leaves what it would have left at once.
    19 "cancel/launch" => |ctx| dropped(ctx, changing::LAUNCH);
    /// The same for a launch that changes every object.
    19 "cancel/update" => |ctx| dropped(ctx, changing::UPDATE);
    /// The same for a launch of what was planned.
    19 "cancel/planned-update" [Plan] => |ctx| dropped(ctx, changing::PLANNED);
    /// What a dropped launch made is taken away by a delete.
    19 "cancel/launch-then-delete" => launch_then_delete;
    /// A delete that is dropped at any request is completed by the next.
    19 "cancel/delete" [PutConfig, Expose] => |ctx| dropped(ctx, changing::DELETE);
    /// The same for a scale.
    19 "cancel/scale" [Scale] => |ctx| dropped(ctx, changing::SCALE);
    /// The same for a restart.
    19 "cancel/restart" [Restart] => |ctx| dropped(ctx, changing::RESTART);
    /// The same for a pause.
    19 "cancel/pause" [Pause] => |ctx| dropped(ctx, changing::PAUSE);
    /// A stop that is dropped at any request stops, when it is repeated, that instance and no other.
    19 "cancel/stop" [StopInstance] => |ctx| dropped(ctx, changing::STOP);
    /// A mark that is dropped at any request is set by the next try.
    19 "cancel/mark-healthy" [MarkHealthy, History] => |ctx| dropped(ctx, changing::MARK);
    /// A run that is dropped at any request is one run when it is repeated.
    19 "cancel/run" [RunOneOff, Jobs] => |ctx| dropped(ctx, changing::RUN);
    /// A run of a periodic job that is dropped at any request is one run when it is repeated.
    19 "cancel/run-now" [RunNow, PeriodicJobs] => |ctx| dropped(ctx, changing::RUN_NOW);
    /// A configuration that is dropped at any request is stored once by the next try.
    19 "cancel/put-config" [PutConfig] => |ctx| dropped(ctx, changing::PUT_CONFIG);
    /// Routes that are dropped at any request are made by the next try.
    19 "cancel/expose" [Expose] => |ctx| dropped(ctx, changing::EXPOSE);
    /// The end of routes that is dropped at any request is completed by the next try.
    19 "cancel/unexpose" [Expose] => |ctx| dropped(ctx, changing::UNEXPOSE);
    /// A namespace whose making is dropped at any request is made by the next try, and is ours.
    19 "cancel/ensure-namespace" [Namespaces] => |ctx| dropped(ctx, changing::ENSURE_NAMESPACE);
    /// A namespace whose end is dropped at any request is deleted by the next try.
    19 "cancel/delete-namespace" [Namespaces] => |ctx| dropped(ctx, changing::DELETE_NAMESPACE);
    /// What was dropped does nothing any more.
    19 "cancel/no-task-is-left" => no_task_is_left;
    /// An operation ends by its own time limit, and the next one repairs.
    19 "cancel/time-limit" => time_limit;
}

/// Drops an operation at each of its requests in turn, and checks that the next one completes it.
async fn dropped(ctx: Ctx, operation: Changing) -> Outcome {
    let wanted = operation.undisturbed(&ctx).await?;
    for nth in 1..MOST_REQUESTS {
        let attempt = operation.prepare(&ctx, nth).await?;
        let ended = ctx.drop_at(nth, operation.act(&ctx, &attempt)).await?;
        ctx.inject_nothing();
        if let Some(answer) = ended {
            answer??;
            return Ok(());
        }
        operation.act(&ctx, &attempt).await??;
        check_eq!(operation.left(&ctx, &attempt).await?, wanted, "what is left when it was dropped at request {nth}");
    }
    too_many_requests()
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
