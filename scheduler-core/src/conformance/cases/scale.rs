//! Clause 5: scaling.

use super::cases;
use crate::conformance::ctx::{Ctx, check, check_eq, refused};
use crate::conformance::{Failure, Outcome};
use crate::{Change, Conflict, ErrorKind, Guard, Result as OpResult, Scale, Scaled, Version};

cases! {
    /// A scale changes the count, and the instances follow.
    5 "scale/count-follows" [Scale] => count_follows;
    /// The same scale again writes nothing.
    5 "scale/again-writes-nothing" [Scale] => again_writes_nothing;
    /// A scale leaves the revision, and the instances that stay, as they are.
    5 "scale/revision-and-instances-stay" [Scale] => revision_and_instances_stay;
    /// To zero and back.
    5 "scale/zero-and-back" [Scale] => zero_and_back;
    /// A launch with Exactly sets the count again; one with Keep keeps it.
    5 "scale/launch-afterwards" [Scale] => launch_afterwards;
    /// While a rollout goes on, which will never be over, a scale takes effect too.
    5 "scale/during-rollout" [Scale] => during_rollout;
    /// What is not there cannot be scaled, nor can somebody else's.
    1 "scale/only-ours" [Scale] => only_ours;
    /// A version that was moved by a launch refuses a scale; the present one admits it.
    2 "scale/if-version" [Scale, CompareAndSet] => if_version;
    /// Guards that make no sense are refused.
    2 "scale/senseless-guards" [Scale] => senseless_guards;
    /// What is being deleted cannot be scaled.
    2 "scale/terminating" [Scale] => terminating;
    /// A job cannot be scaled.
    5 "scale/only-services" [Scale, Jobs] => only_services;
}

async fn scale(ctx: &Ctx, name: &str, count: u32, guard: Guard) -> Result<OpResult<Scaled>, Failure> {
    Ok(ctx.scheduler.scale(Scale::new(ctx.target(name)?, count).guard(guard)).await)
}

async fn to(ctx: &Ctx, count: u32) -> Result<Scaled, Failure> {
    Ok(scale(ctx, "web", count, Guard::IfOwned).await??)
}

async fn count_follows(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.service("web").replicas(1)).await?;
    let scaled = to(&ctx, 3).await?;
    check_eq!((scaled.from, scaled.to), (1, 3), "what the scale says");
    check_eq!(ctx.seen("web").await?.counts.desired, 3, "the count right after it");
    let seen = ctx.healthy("web").await?;
    check_eq!((seen.counts.ready, seen.counts.live), (3, 3), "the instances in the end");
    let scaled = to(&ctx, 1).await?;
    check_eq!((scaled.from, scaled.to), (3, 1), "what the scale back says");
    let seen = ctx.healthy("web").await?;
    check_eq!((seen.counts.ready, seen.counts.live), (1, 1), "the instances in the end");
    Ok(())
}

async fn again_writes_nothing(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.service("web").replicas(1)).await?;
    let first = to(&ctx, 2).await?;
    ctx.healthy("web").await?;
    let before = ctx.objects().await?;
    let second = to(&ctx, 2).await?;
    check_eq!((second.from, second.to), (2, 2), "what the second scale says");
    check_eq!(second.version, first.version, "the version after it");
    check_eq!(ctx.objects().await?, before, "the objects after it");
    Ok(())
}

async fn revision_and_instances_stay(ctx: Ctx) -> Outcome {
    let before = ctx.launch_healthy(ctx.service("web").replicas(1)).await?;
    to(&ctx, 2).await?;
    let after = ctx.healthy("web").await?;
    check_eq!(after.revision, before.revision, "the revision");
    let kept = before.instances.iter().all(|old| after.instances.iter().any(|new| new.id == old.id));
    check!(kept, "the instance that was there was replaced: {:?}", after.instances);
    check!(after.instances.iter().all(|i| i.restarts == 0), "an instance was restarted: {:?}", after.instances);
    Ok(())
}

async fn zero_and_back(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.service("web").replicas(2)).await?;
    to(&ctx, 0).await?;
    let seen = ctx.healthy("web").await?;
    check_eq!((seen.counts.desired, seen.counts.live), (0, 0), "the counts at zero");
    let back = to(&ctx, 1).await?;
    check_eq!(back.from, 0, "the count before");
    check_eq!(ctx.healthy("web").await?.counts.ready, 1, "the instances in the end");
    Ok(())
}

async fn launch_afterwards(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.service("web").keep_replicas(1)).await?;
    to(&ctx, 2).await?;
    let kept = ctx.launch(ctx.service("web").keep_replicas(1)).await?;
    check_eq!(kept.change, Change::Unchanged, "a launch with Keep");
    check_eq!(ctx.healthy("web").await?.counts.desired, 2, "the count after it");
    let exact = ctx.launch(ctx.service("web").replicas(1)).await?;
    check!(matches!(exact.change, Change::Updated(_)), "a launch with Exactly: {}", exact.change);
    check_eq!(ctx.healthy("web").await?.counts.desired, 1, "the count after it");
    Ok(())
}

async fn during_rollout(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.service("web").replicas(1)).await?;
    let revision = ctx.launch(ctx.hopeful("web").replicas(1)).await?.revision;
    ctx.settle("web", "updating", |seen| Ok(seen.noticed && seen.counts.updated > 0)).await?;
    to(&ctx, 2).await?;
    let seen = ctx.settle("web", "scaled", |seen| Ok(seen.noticed && seen.counts.desired == 2)).await?;
    check_eq!(seen.revision, Some(revision), "the revision");
    Ok(())
}

async fn only_ours(ctx: Ctx) -> Outcome {
    let absent = refused("a scale of nothing", scale(&ctx, "web", 1, Guard::IfOwned).await?)?;
    check_eq!(absent, ErrorKind::Conflict(Conflict::Absent), "its error");
    ctx.theirs().launch(ctx.idle("web")).await?;
    let theirs = refused("a scale of somebody else's", scale(&ctx, "web", 1, Guard::IfOwned).await?)?;
    check_eq!(theirs, ErrorKind::Conflict(Conflict::Owner { owner: Some(ctx.other.clone()) }), "its error");
    check_eq!(ctx.theirs().seen("web").await?.counts.desired, 0, "their count");
    Ok(())
}

async fn if_version(ctx: Ctx) -> Outcome {
    let first = ctx.launch(ctx.idle("web")).await?.version;
    let second = ctx.launch(ctx.with_other_port(ctx.idle("web"))).await?.version;
    let stale = refused("a scale of an old version", scale(&ctx, "web", 1, Guard::IfVersion(first)).await?)?;
    check!(matches!(stale, ErrorKind::Conflict(Conflict::Moved { .. })), "its error is {stale:?}");
    check_eq!(ctx.seen("web").await?.counts.desired, 0, "the count after it");
    let strange = Guard::IfVersion(Version::new("not a version"));
    refused("a scale of a version that never was", scale(&ctx, "web", 1, strange).await?)?;
    let scaled = scale(&ctx, "web", 1, Guard::IfVersion(second.clone())).await??;
    check_eq!(scaled.to, 1, "the count");
    let moved =
        refused("a scale of the version before a scale", scale(&ctx, "web", 2, Guard::IfVersion(second)).await?)?;
    check!(matches!(moved, ErrorKind::Conflict(Conflict::Moved { .. })), "its error is {moved:?}");
    scale(&ctx, "web", 0, Guard::IfVersion(scaled.version)).await??;
    Ok(())
}

async fn senseless_guards(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.idle("web")).await?;
    for guard in [Guard::IfAbsent, Guard::Adopt] {
        let kind = refused("a scale under it", scale(&ctx, "web", 1, guard.clone()).await?)?;
        check_eq!(kind, ErrorKind::InvalidArgument, "the error of {guard:?}");
    }
    check_eq!(ctx.seen("web").await?.counts.desired, 0, "the count after them");
    Ok(())
}

async fn terminating(ctx: Ctx) -> Outcome {
    ctx.terminating("web").await?;
    let kind = refused("a scale of what is being deleted", scale(&ctx, "web", 2, Guard::IfOwned).await?)?;
    check_eq!(kind, ErrorKind::Conflict(Conflict::Deleting), "its error");
    Ok(())
}

async fn only_services(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.job("work", crate::conformance::ctx::DONE)).await?;
    let kind = refused("a scale of a job", scale(&ctx, "work", 2, Guard::IfOwned).await?)?;
    check_eq!(kind, ErrorKind::InvalidArgument, "its error");
    Ok(())
}
