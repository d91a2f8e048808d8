//! Clause 8: delete, step by step.

use super::cases;
use crate::conformance::ctx::{Ctx, MOST_REQUESTS, check, check_eq, error_of, too_many_requests};
use crate::conformance::{Disturbance, Failure, Injection, Outcome};
use crate::memory::Fate;
use crate::{Change, Conflict, Deleted, ErrorKind, Guard, Retry, Target, Verdict};

cases! {
    /// After Gone nothing is left, no object and no instance.
    8 "delete/leaves-nothing" => leaves_nothing;
    /// A delete is Deleting until the last instance has ended, and says what remains.
    8 "delete/waits-for-the-last-instance" => waits_for_the_last_instance;
    /// While it is being deleted, the status says so.
    8 "delete/is-seen" => is_seen;
    /// A delete of what is not there says WasAbsent, and takes nothing else.
    8 "delete/of-absent" => of_absent;
    /// After Gone, a delete says WasAbsent.
    8 "delete/twice" => twice;
    /// Workloads with like names and in other namespaces stay.
    8 "delete/leaves-neighbours" => leaves_neighbours;
    /// An instance that merely matches the selector stays.
    8 "delete/leaves-foreign-instance" {MakeForeignInstance} => leaves_foreign_instance;
    /// What never came up is deleted like anything else.
    8 "delete/of-a-failing-workload" => of_a_failing_workload;
    /// What half a launch made is taken away.
    8 "delete/takes-half-a-launch" => takes_half_a_launch;
    /// A launch onto what is being deleted is a conflict, until it is gone.
    8 "delete/launch-onto-terminating" => launch_onto_terminating;
    /// Not even Adopt launches onto what is being deleted.
    8 "delete/adopt-terminating" [Adopt] => adopt_terminating;
}

async fn leaves_nothing(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.service("web").replicas(2)).await?;
    check!(ctx.delete_whole("web").await?, "a delete says that it was absent");
    check_eq!(ctx.status("web").await?, None, "the status");
    ctx.nothing_left().await
}

async fn waits_for_the_last_instance(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.fated("web", Fate::Stubborn).termination_grace(3)).await?;
    let first = ctx.delete("web").await?;
    let Deleted::Deleting { remaining, .. } = &first else {
        return Err(Failure(format!("an instance takes its time to end, but the first step says {first:?}")));
    };
    check!(!remaining.is_empty(), "the first step does not say what remains");
    check!(ctx.delete_whole("web").await?, "a delete says that it was absent");
    ctx.nothing_left().await
}

async fn is_seen(ctx: Ctx) -> Outcome {
    ctx.terminating("web").await?;
    let seen = ctx.seen("web").await?;
    check!(seen.deleting, "the status does not say that it is being deleted");
    check_eq!(seen.verdict(), Verdict::Deleting, "the verdict");
    check_eq!(seen.counts.live, 1, "the instances that have not ended");
    Ok(())
}

async fn of_absent(ctx: Ctx) -> Outcome {
    let neighbour = ctx.launch_healthy(ctx.service("web")).await?;
    check_eq!(ctx.delete("api").await?, Deleted::WasAbsent, "the delete of what never was there");
    check_eq!(ctx.healthy("web").await?.version, neighbour.version, "the neighbour's version");
    Ok(())
}

async fn twice(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.service("web")).await?;
    check!(ctx.delete_whole("web").await?, "a delete says that it was absent");
    check_eq!(ctx.delete("web").await?, Deleted::WasAbsent, "the step after it");
    Ok(())
}

async fn leaves_neighbours(ctx: Ctx) -> Outcome {
    let second = ctx.world.second_namespace().await?;
    let mut elsewhere = ctx.idle("web");
    elsewhere.namespace = second.to_string();
    ctx.launch(elsewhere).await?;
    for name in ["we", "web", "web-2"] {
        ctx.launch(ctx.service(name)).await?;
    }
    for name in ["we", "web", "web-2"] {
        ctx.healthy(name).await?;
    }
    check!(ctx.delete_whole("web").await?, "a delete says that it was absent");
    for name in ["we", "web-2"] {
        let seen = ctx.seen(name).await?;
        check_eq!(seen.verdict(), Verdict::Healthy, "the verdict of {name}");
        check_eq!(ctx.launch(ctx.service(name)).await?.change, Change::Unchanged, "the launch of {name} after it");
    }
    let other = Target { namespace: second, name: ctx.target("web")?.name };
    let other = ctx.scheduler.status(crate::Status::new(other, crate::Detail::Counts)).await?;
    check!(other.0.is_some_and(|seen| !seen.deleting), "the namesake in the other namespace is gone");
    Ok(())
}

async fn leaves_foreign_instance(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.service("web")).await?;
    let ours = ctx.world.instances().await?;
    ctx.disturb("web", Disturbance::MakeForeignInstance).await?;
    let mut foreign = ctx.world.instances().await?;
    foreign.retain(|id| !ours.contains(id));
    check_eq!(foreign.len(), 1, "the foreign instances");
    check!(ctx.delete_whole("web").await?, "a delete says that it was absent");
    check_eq!(ctx.world.instances().await?, foreign, "the instances that are left");
    Ok(())
}

async fn of_a_failing_workload(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.fated("web", Fate::InvalidImage)).await?;
    ctx.verdict("web", Verdict::Failed).await?;
    check!(ctx.delete_whole("web").await?, "a delete says that it was absent");
    ctx.nothing_left().await
}

async fn takes_half_a_launch(ctx: Ctx) -> Outcome {
    for nth in 1..MOST_REQUESTS {
        ctx.world.inject(nth, Injection::Refuse);
        let launched = ctx.try_launch(ctx.idle("web"), Guard::IfOwned).await?;
        let met = ctx.world.injected();
        ctx.inject_nothing();
        ctx.delete_whole("web").await?;
        ctx.nothing_left().await?;
        if !met {
            launched?;
            return Ok(());
        }
    }
    too_many_requests()
}

async fn launch_onto_terminating(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.fated("web", Fate::Stubborn).termination_grace(4)).await?;
    let step = ctx.delete("web").await?;
    check!(matches!(step, Deleted::Deleting { .. }), "an instance takes its time to end, but delete says {step:?}");
    let launched = ctx.try_launch(ctx.fated("web", Fate::Stubborn).termination_grace(4), Guard::IfOwned).await?;
    let error = error_of("a launch onto what is being deleted", launched)?;
    check_eq!(*error.kind(), ErrorKind::Conflict(Conflict::Deleting), "the launch");
    check_eq!(error.retry(), Retry::AfterReread, "whether to try again");
    check!(ctx.delete_whole("web").await?, "a delete says that it was absent");
    check_eq!(ctx.launch(ctx.service("web")).await?.change, Change::Created, "the launch once it is gone");
    ctx.healthy("web").await?;
    Ok(())
}

async fn adopt_terminating(ctx: Ctx) -> Outcome {
    ctx.terminating("web").await?;
    let theirs = ctx.theirs();
    let launched = theirs.try_launch(theirs.service("web"), Guard::Adopt).await?;
    let error = error_of("an adoption of what is being deleted", launched)?;
    check_eq!(*error.kind(), ErrorKind::Conflict(Conflict::Deleting), "the launch");
    Ok(())
}
