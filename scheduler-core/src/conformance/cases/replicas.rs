//! Clause 5: how many instances.

use super::cases;
use crate::conformance::ctx::{Ctx, check, check_eq};
use crate::conformance::{Disturbance, Outcome};
use crate::{Change, Guard};

cases! {
    /// Exactly sets the count, whatever somebody scaled to before.
    5 "replicas/exactly-wins" => exactly_wins;
    /// Under Keep a count that somebody set is nobody's drift.
    5 "replicas/keep-is-no-drift" => keep_is_no_drift;
    /// Keep keeps the live count at an update.
    5 "replicas/keep-survives-update" => keep_survives_update;
    /// Keep keeps a count of zero too.
    5 "replicas/keep-zero" => keep_zero;
    /// After a delete Keep is the initial count again.
    5 "replicas/keep-starts-anew" => keep_starts_anew;
    /// From Keep to Exactly and back: the count that is written wins, then it is kept.
    5 "replicas/keep-then-exactly" => keep_then_exactly;
    /// The status tells the count that somebody set.
    5 "replicas/outside-scale-is-told" => outside_scale_is_told;
}

async fn desired(ctx: &Ctx, wanted: u32, when: &str) -> Outcome {
    let seen = ctx.healthy("web").await?;
    check_eq!((seen.counts.desired, seen.counts.ready), (wanted, wanted), "instances desired and ready {when}");
    Ok(())
}

async fn exactly_wins(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.service("web").replicas(1)).await?;
    ctx.disturb("web", Disturbance::SetReplicas(2)).await?;
    let launched = ctx.launch(ctx.service("web").replicas(1)).await?;
    check!(matches!(launched.change, Change::Updated(_)), "the launch after a scale: {}", launched.change);
    desired(&ctx, 1, "after it").await
}

async fn keep_is_no_drift(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.service("web").keep_replicas(1)).await?;
    ctx.disturb("web", Disturbance::SetReplicas(2)).await?;
    let launched = ctx.launch(ctx.service("web").keep_replicas(1)).await?;
    check_eq!(launched.change, Change::Unchanged, "the launch after a scale");
    desired(&ctx, 2, "after it").await
}

async fn keep_survives_update(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.service("web").keep_replicas(1)).await?;
    ctx.disturb("web", Disturbance::SetReplicas(2)).await?;
    let launched = ctx.launch(ctx.with_tag(ctx.service("web").keep_replicas(1), "2")).await?;
    check!(matches!(launched.change, Change::Updated(_)), "the launch of another image: {}", launched.change);
    desired(&ctx, 2, "after it").await
}

async fn keep_zero(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.service("web").keep_replicas(1)).await?;
    ctx.disturb("web", Disturbance::SetReplicas(0)).await?;
    ctx.launch(ctx.with_tag(ctx.service("web").keep_replicas(1), "2")).await?;
    desired(&ctx, 0, "after the launch of another image").await
}

async fn keep_starts_anew(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.service("web").keep_replicas(1)).await?;
    ctx.disturb("web", Disturbance::SetReplicas(2)).await?;
    ctx.delete_whole("web").await?;
    let launched = ctx.try_launch(ctx.service("web").keep_replicas(1), Guard::IfAbsent).await??;
    check_eq!(launched.change, Change::Created, "the launch after the delete");
    desired(&ctx, 1, "after it").await
}

async fn keep_then_exactly(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.service("web").keep_replicas(2)).await?;
    ctx.launch(ctx.service("web").replicas(1)).await?;
    desired(&ctx, 1, "with Exactly(1)").await?;
    let launched = ctx.launch(ctx.service("web").keep_replicas(2)).await?;
    check_eq!(launched.change, Change::Unchanged, "the launch with Keep(2)");
    desired(&ctx, 1, "with Keep(2)").await
}

async fn outside_scale_is_told(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.service("web")).await?;
    for count in [2, 0, 1] {
        ctx.disturb("web", Disturbance::SetReplicas(count)).await?;
        check_eq!(ctx.seen("web").await?.counts.desired, count, "the count in the status");
        desired(&ctx, count, "in the end").await?;
    }
    Ok(())
}
