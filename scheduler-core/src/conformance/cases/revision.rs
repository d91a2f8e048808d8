//! Clause 3: what was launched, and the token for compare-and-set.

use super::cases;
use crate::conformance::ctx::{Ctx, check, check_eq, checked, refused};
use crate::conformance::{Disturbance, Outcome};
use crate::{Change, Conflict, ErrorKind, Guard, Workload};

cases! {
    /// The revision is the workload's own, in the answer and in the status.
    3 "revision/is-of-the-workload" => is_of_the_workload;
    /// Two spellings of one quantity are one revision, and no change.
    3 "revision/same-for-spellings" => same_for_spellings;
    /// The number of instances does not move the revision.
    3 "revision/unmoved-by-replicas" => unmoved_by_replicas;
    /// Anything else that changes moves the revision.
    3 "revision/moves-with-content" => moves_with_content;
    /// What somebody else changed is of no revision, until a launch repairs it.
    3 "revision/none-after-outside-change" => none_after_outside_change;
    /// The version never misses somebody else's change.
    3 "version/moves-with-outside-change" [CompareAndSet] => moves_with_outside_change;
    /// What is made anew never has a version that the last one had.
    3 "version/differs-after-recreation" [CompareAndSet] => differs_after_recreation;
}

async fn is_of_the_workload(ctx: Ctx) -> Outcome {
    let own = checked(ctx.service("web"))?.revision().clone();
    check_eq!(ctx.launch(ctx.service("web")).await?.revision, own, "the revision in the answer");
    check_eq!(ctx.seen("web").await?.revision, Some(own.clone()), "the revision in the status");
    let again = ctx.launch(ctx.service("web")).await?;
    check_eq!((again.change, again.revision), (Change::Unchanged, own), "the launch after it");
    Ok(())
}

async fn same_for_spellings(ctx: Ctx) -> Outcome {
    let spelt = |cpu: &str, memory: &str| -> Workload {
        let mut workload = ctx.idle("web");
        for container in &mut workload.containers {
            *container = container.clone().cpu(cpu, cpu).memory(memory, memory);
        }
        workload
    };
    let first = ctx.launch(spelt("0.5", "1024Mi")).await?;
    let second = ctx.launch(spelt("500m", "1Gi")).await?;
    check_eq!(second.revision, first.revision, "the revision of the second spelling");
    check_eq!(second.change, Change::Unchanged, "the launch of the second spelling");
    Ok(())
}

async fn unmoved_by_replicas(ctx: Ctx) -> Outcome {
    let one = ctx.launch(ctx.service("web")).await?;
    let two = ctx.launch(ctx.service("web").replicas(2)).await?;
    check!(matches!(two.change, Change::Updated(_)), "the launch with two instances: {}", two.change);
    check_eq!(two.revision, one.revision, "the revision with two instances");
    ctx.disturb("web", Disturbance::SetReplicas(3)).await?;
    check_eq!(ctx.seen("web").await?.revision, Some(one.revision), "the revision after an outside scale");
    Ok(())
}

async fn moves_with_content(ctx: Ctx) -> Outcome {
    let mut seen = vec![ctx.launch(ctx.idle("web")).await?.revision];
    for changed in [
        ctx.with_tag(ctx.idle("web"), "2"),
        ctx.idle("web").label("team", "blue"),
        ctx.idle("web").termination_grace(7),
        ctx.idle("web").progress_deadline(ctx.timing().patience + 1),
    ] {
        let revision = ctx.launch(changed).await?.revision;
        check!(!seen.contains(&revision), "two workloads have the revision {revision}");
        check_eq!(ctx.seen("web").await?.revision, Some(revision.clone()), "the revision in the status");
        seen.push(revision);
    }
    Ok(())
}

async fn none_after_outside_change(ctx: Ctx) -> Outcome {
    let launched = ctx.launch(ctx.idle("web")).await?.revision;
    ctx.disturb("web", Disturbance::SetImage(ctx.image("drift"))).await?;
    check_eq!(ctx.seen("web").await?.revision, None, "the revision after an outside change of the image");
    ctx.launch(ctx.idle("web")).await?;
    check_eq!(ctx.seen("web").await?.revision, Some(launched), "the revision after the repair");
    Ok(())
}

async fn moves_with_outside_change(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.idle("web")).await?;
    for disturbance in [Disturbance::SetImage(ctx.image("drift")), Disturbance::SetReplicas(1)] {
        let before = ctx.healthy("web").await?.version;
        ctx.disturb("web", disturbance.clone()).await?;
        check!(ctx.seen("web").await?.version != before, "the version {before} missed {disturbance:?}");
        let launched = ctx.try_launch(ctx.idle("web"), Guard::IfVersion(before)).await?;
        let kind = refused("a launch under the version from before", launched)?;
        check!(matches!(kind, ErrorKind::Conflict(Conflict::Moved { .. })), "the launch was refused as {kind:?}");
    }
    Ok(())
}

async fn differs_after_recreation(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.idle("web")).await?;
    let first = ctx.healthy("web").await?;
    ctx.delete_whole("web").await?;
    ctx.launch(ctx.idle("web")).await?;
    let second = ctx.healthy("web").await?;
    check!(first.version != second.version, "both have the version {}", first.version);
    check!(first.incarnation != second.incarnation, "both have the incarnation {}", first.incarnation);
    let launched = ctx.try_launch(ctx.idle("web"), Guard::IfVersion(first.version)).await?;
    let kind = refused("a launch under the first one's version", launched)?;
    check!(matches!(kind, ErrorKind::Conflict(Conflict::Moved { .. })), "the launch was refused as {kind:?}");
    Ok(())
}
