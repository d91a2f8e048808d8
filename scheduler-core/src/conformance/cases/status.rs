//! Clause 9: what is observed, and what it is judged to be.

use std::collections::BTreeSet;

use super::cases;
use crate::conformance::ctx::{Ctx, brief, check, check_eq, ids, refused};
use crate::conformance::{Disturbance, Failure, Injection, Outcome};
use crate::memory::Fate;
use crate::{
    Detail, ErrorKind, Filter, Instance, InstanceState, List, Observation, Rolling, SchedulerExt as _, Update, Verdict,
};

cases! {
    /// What is not there has no status.
    9 "status/none-when-absent" => none_when_absent;
    /// That it could not be asked, or may not be, is an error and never absence.
    9 "status/error-is-not-absence" => error_is_not_absence;
    /// What belongs to somebody else is not there for us.
    9 "status/foreign-is-absent" => foreign_is_absent;
    /// A rollout that is complete is Healthy, and its counts say so.
    9 "status/healthy" => healthy;
    /// No instances of none is Healthy.
    9 "status/zero-is-healthy" => zero_is_healthy;
    /// More detail tells more, and never another verdict.
    9 "status/details" => details;
    /// A summary has the counts of the status, and none of what is absent.
    9 "status/summary" => summary;
    /// A rollout is not complete before its instances are ready.
    9 "status/new-is-not-complete" => new_is_not_complete;
    /// A slow start is Progressing, then Healthy, and never Failed.
    9 "status/slow-comes-right" => slow_comes_right;
    /// What is ready and not yet available does not complete a rollout.
    9 "status/min-ready-counts" => min_ready_counts;
    /// An instance that merely matches the selector is neither counted nor shown.
    9 "status/foreign-instance-not-counted" {MakeForeignInstance} => foreign_instance_not_counted;
    /// Old instances count until each has ended, and nothing is Healthy before.
    9 "status/old-count-until-ended" => old_count_until_ended;
    /// Ready instances of the last revision do not count for the new one.
    9 "status/old-are-not-the-new" [TcpProbes] => old_are_not_the_new;
    /// An update that cannot work is Failed, and the old instances still serve.
    9 "status/failing-update-keeps-serving" => failing_update_keeps_serving;
    /// A failure of the last rollout says nothing of this one.
    9 "status/good-after-failed" => good_after_failed;
    /// A rollout that passes its deadline is given up and Failed, never complete.
    9 "status/gives-up" [TcpProbes] => gives_up;
    /// With Recreate no new instance lives beside an old one.
    9 "status/recreate" [Recreate] => recreate;
    /// During an update there are never more instances than the surge allows, nor fewer ready than it promises.
    9 "status/surge-is-bounded" => surge_is_bounded;
    /// What a lost node ran is made anew elsewhere.
    9 "status/lost-node-recovers" {LoseNode} => lost_node_recovers;
}

async fn none_when_absent(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.idle("web-2")).await?;
    check_eq!(ctx.status("web").await?, None, "the status of what never was there");
    Ok(())
}

async fn error_is_not_absence(ctx: Ctx) -> Outcome {
    for (fault, wanted) in [(Injection::Forbid, ErrorKind::Forbidden), (Injection::Refuse, ErrorKind::Unavailable)] {
        // Once of what is absent, once of what is there.
        for there in [false, true] {
            let at = format!("with {fault:?}, there: {there}");
            if there {
                ctx.launch(ctx.idle("web")).await?;
            }
            ctx.world.inject(1, fault);
            check_eq!(refused("status", ctx.try_status("web", Detail::Counts).await?)?, wanted, "status {at}");
            ctx.world.inject(1, fault);
            check_eq!(refused("delete", ctx.try_delete("web", Default::default()).await?)?, wanted, "delete {at}");
            ctx.world.inject(1, fault);
            let list = ctx.scheduler.list(List::new(Filter::namespace(ctx.world.namespace()))).await;
            check_eq!(refused("list", list)?, wanted, "list {at}");
            check_eq!(ctx.status("web").await?.is_some(), there, "whether it is there afterwards, {at}");
        }
        ctx.delete_whole("web").await?;
    }
    Ok(())
}

async fn foreign_is_absent(ctx: Ctx) -> Outcome {
    let theirs = ctx.theirs();
    theirs.launch_healthy(theirs.service("web")).await?;
    check_eq!(ctx.status("web").await?, None, "the status of what somebody else owns");
    ctx.disturb("bare", Disturbance::MakeForeign(None)).await?;
    check_eq!(ctx.status("bare").await?, None, "the status of what nobody owns");
    Ok(())
}

async fn healthy(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.service("web").replicas(2)).await?;
    let seen = ctx.healthy("web").await?;
    let c = seen.counts;
    check_eq!(
        [c.desired, c.live, c.updated, c.ready, c.available, c.starting, c.old],
        [2, 2, 2, 2, 2, 0, 0],
        "desired, live, updated, ready, available, starting, old"
    );
    check!(
        seen.noticed && seen.completed && seen.gave_up.is_none() && !seen.deleting && !seen.paused,
        "{}",
        brief(&seen)
    );
    check_eq!(seen.diagnoses, [], "the diagnoses");
    check_eq!(seen.instances.len(), 2, "the number of instances");
    check!(seen.instances.iter().all(|i| i.current && i.state == InstanceState::Ready), "{}", brief(&seen));
    check!(seen.instances.iter().all(|i| i.node.is_some()), "a ready instance has no node: {}", brief(&seen));
    check_eq!(ids(&seen), BTreeSet::from_iter(ctx.world.instances().await?), "the ids of the instances");
    check_eq!(seen.patience.get(), ctx.timing().patience, "the patience");
    Ok(())
}

async fn zero_is_healthy(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.idle("web")).await?;
    ctx.launch_healthy(ctx.service("web")).await?;
    let seen = ctx.launch_healthy(ctx.idle("web")).await?;
    check_eq!((seen.counts.desired, seen.counts.live), (0, 0), "instances desired and live");
    Ok(())
}

async fn details(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.service("web")).await?;
    ctx.launch(ctx.fated("broken", Fate::InvalidImage)).await?;
    ctx.healthy("web").await?;
    ctx.verdict("broken", Verdict::Failed).await?;
    for (name, verdict) in [("web", Verdict::Healthy), ("broken", Verdict::Failed)] {
        for detail in [Detail::Counts, Detail::Instances, Detail::Evidence] {
            let seen = ctx.try_status(name, detail).await??;
            let seen = seen.ok_or_else(|| Failure(format!("{name} has no status with {detail:?}")))?;
            check_eq!(seen.verdict(), verdict, "the verdict of {name} with {detail:?}");
            check_eq!(
                seen.instances.len(),
                usize::from(detail > Detail::Counts),
                "instances of {name} with {detail:?}"
            );
            check_eq!(seen.counts.live, 1, "the live instances of {name} with {detail:?}");
        }
    }
    Ok(())
}

async fn summary(ctx: Ctx) -> Outcome {
    let target = ctx.target("web")?;
    check_eq!(ctx.scheduler.summary(&target).await?, None, "the summary of what is absent");
    let seen = ctx.launch_healthy(ctx.service("web").replicas(2)).await?;
    check_eq!(ctx.scheduler.summary(&target).await?, Some(seen.counts.into()), "the summary");
    Ok(())
}

async fn new_is_not_complete(ctx: Ctx) -> Outcome {
    // It never comes up, so that it does not matter how late the first look comes.
    ctx.launch(ctx.hopeful("web")).await?;
    let seen = ctx.settle("web", "noticed", |seen| Ok(seen.noticed)).await?;
    check!(!seen.completed, "complete at its start: {}", brief(&seen));
    check!(matches!(seen.verdict(), Verdict::Progressing(_)), "{}", brief(&seen));
    Ok(())
}

async fn slow_comes_right(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.fated("web", Fate::Slow { after: ctx.timing().patience / 3 }).replicas(2)).await?;
    let seen = ctx.settle("web", "healthy", |seen| {
        check!(seen.verdict() != Verdict::Failed, "a slow start is no failure: {}", brief(seen));
        Ok(seen.verdict() == Verdict::Healthy)
    });
    check_eq!(seen.await?.counts.ready, 2, "the ready instances");
    Ok(())
}

async fn min_ready_counts(ctx: Ctx) -> Outcome {
    let min_ready = ctx.timing().patience / 2;
    ctx.launch(ctx.service("web").min_ready(min_ready)).await?;
    let ready = ctx.settle("web", "ready", |seen| Ok(seen.counts.ready == 1)).await?;
    if ready.counts.available == 0 {
        check!(!ready.completed, "complete, but nothing is available: {}", brief(&ready));
    }
    let seen = ctx.healthy("web").await?;
    check_eq!(seen.counts.available, 1, "the available instances");
    // By the server's clock: an instance became ready after it was made, and available so much later.
    let age = seen.instances.first().map(|instance| seen.at.since(instance.created)).unwrap_or_default();
    check!(age.as_secs() + 1 >= u64::from(min_ready), "available at an age of {} s", age.as_secs());
    Ok(())
}

async fn foreign_instance_not_counted(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.service("web")).await?;
    let before = ctx.world.instances().await?;
    ctx.disturb("web", Disturbance::MakeForeignInstance).await?;
    let foreign: Vec<String> = ctx.world.instances().await?.into_iter().filter(|id| !before.contains(id)).collect();
    check_eq!(foreign.len(), 1, "the foreign instances");
    for name in ["witness", "another"] {
        // Time passes while these come up; whoever adopts it has done so by then.
        ctx.launch_healthy(ctx.service(name)).await?;
        let seen = ctx.seen("web").await?;
        check_eq!((seen.counts.live, seen.counts.ready), (1, 1), "live and ready instances");
        check!(seen.instances.iter().all(|i| !foreign.contains(&i.id)), "the foreign one is shown: {}", brief(&seen));
        check_eq!(seen.verdict(), Verdict::Healthy, "the verdict");
    }
    Ok(())
}

async fn old_count_until_ended(ctx: Ctx) -> Outcome {
    let first = ctx.launch_healthy(ctx.fated("web", Fate::Stubborn).termination_grace(5)).await?;
    let old = ids(&first);
    ctx.launch(ctx.with_tag(ctx.service("web").termination_grace(5), "2")).await?;
    // A look, then the instances: what the look calls ended cannot be there afterwards.
    let mut counted = false;
    loop {
        let seen = ctx.seen("web").await?;
        let left = ctx.world.instances().await?.into_iter().any(|id| old.contains(&id));
        counted |= seen.counts.old > 0 && seen.counts.updated > 0 && seen.counts.ready > 0;
        check!(!left || seen.counts.old > 0, "an old instance has not ended, and is not counted: {}", brief(&seen));
        if seen.verdict() == Verdict::Healthy {
            check!(!left, "Healthy before the old instance has ended: {}", brief(&seen));
            break;
        }
        tokio::time::sleep(ctx.timing().poll).await;
    }
    check!(counted, "the old instance was never seen beside the new one");
    Ok(())
}

async fn old_are_not_the_new(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.probed(ctx.service("web").replicas(2))).await?;
    let broken = ctx.probed(ctx.with_fate(ctx.service("web").replicas(2), Fate::NeverReady, "2"));
    ctx.launch(broken).await?;
    let seen = ctx.settle("web", "failed", |seen| {
        if seen.noticed {
            check_eq!((seen.counts.ready, seen.counts.available), (0, 0), "ready and available: {}", brief(seen));
        }
        check!(seen.verdict() != Verdict::Healthy, "{}", brief(seen));
        Ok(seen.verdict() == Verdict::Failed)
    });
    check!(seen.await?.counts.old >= 2, "the old instances are gone");
    Ok(())
}

fn serving(seen: &Observation) -> Vec<&Instance> {
    seen.instances.iter().filter(|i| !i.current && i.state == InstanceState::Ready).collect()
}

async fn failing_update_keeps_serving(ctx: Ctx) -> Outcome {
    let before = ctx.launch_healthy(ctx.service("web").replicas(2)).await?;
    ctx.launch(ctx.with_fate(ctx.service("web").replicas(2), Fate::PullError, "2")).await?;
    let seen = ctx.settle("web", "failed", |seen| {
        check!(seen.verdict() != Verdict::Healthy, "{}", brief(seen));
        Ok(seen.verdict() == Verdict::Failed)
    });
    let seen = seen.await?;
    check_eq!(serving(&seen).len(), 2, "the old instances that serve: {}", brief(&seen));
    check!(serving(&seen).iter().all(|i| ids(&before).contains(&i.id)), "others than before: {}", brief(&seen));
    check_eq!(seen.counts.ready, 0, "the ready instances of what was launched last");
    // The way back is a launch like any other.
    ctx.launch_healthy(ctx.service("web").replicas(2)).await?;
    Ok(())
}

async fn good_after_failed(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.fated("web", Fate::PullError)).await?;
    // Failed is one thing, given up by the platform another: both must be forgotten.
    ctx.settle("web", "given up", |seen| Ok(seen.gave_up.is_some() && seen.verdict() == Verdict::Failed)).await?;
    let slow = ctx.with_fate(ctx.service("web"), Fate::Slow { after: ctx.timing().patience / 3 }, "2");
    ctx.launch(slow).await?;
    ctx.settle("web", "healthy", |seen| {
        check!(seen.verdict() != Verdict::Failed, "the last failure sticks: {}", brief(seen));
        Ok(seen.verdict() == Verdict::Healthy)
    })
    .await?;
    Ok(())
}

async fn gives_up(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.probed(ctx.fated("web", Fate::NeverReady))).await?;
    let never_good = |seen: &Observation| {
        check!(!seen.completed && seen.counts.ready == 0, "nothing ever was ready: {}", brief(seen));
        check!(seen.verdict() != Verdict::Healthy, "{}", brief(seen));
        Ok(())
    };
    let failed = ctx.settle("web", "given up", |seen| {
        never_good(seen)?;
        Ok(seen.gave_up.is_some())
    });
    check_eq!(failed.await?.verdict(), Verdict::Failed, "the verdict");
    // It stays so.
    ctx.launch_healthy(ctx.service("witness")).await?;
    let seen = ctx.seen("web").await?;
    never_good(&seen)?;
    check_eq!(seen.verdict(), Verdict::Failed, "the verdict later on");
    Ok(())
}

async fn recreate(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.service("web").replicas(2).update(Update::Recreate)).await?;
    ctx.launch(ctx.with_tag(ctx.service("web").replicas(2).update(Update::Recreate), "2")).await?;
    ctx.settle("web", "healthy", |seen| {
        let new = seen.instances.iter().filter(|i| i.current && i.state == InstanceState::Ready).count();
        let old = seen.instances.iter().filter(|i| !i.current && i.state == InstanceState::Ready).count();
        check!(!seen.noticed || new == 0 || old == 0, "old and new serve side by side: {}", brief(seen));
        Ok(seen.verdict() == Verdict::Healthy)
    })
    .await?;
    Ok(())
}

async fn surge_is_bounded(ctx: Ctx) -> Outcome {
    let three = || ctx.service("web").replicas(3).update(Update::Rolling(Rolling::new(1, 1)));
    ctx.launch_healthy(three()).await?;
    ctx.launch(ctx.with_tag(three(), "2")).await?;
    let replaced = ctx.settle("web", "healthy", |seen| {
        let living =
            seen.instances.iter().filter(|i| !matches!(i.state, InstanceState::Terminating | InstanceState::Ended));
        let ready = seen.instances.iter().filter(|i| i.state == InstanceState::Ready).count();
        check!(living.count() <= 4, "more than 3 and a surge of 1: {}", brief(seen));
        check!(ready >= 2, "fewer than 3 less 1 are ready: {}", brief(seen));
        Ok(seen.verdict() == Verdict::Healthy)
    });
    check_eq!(replaced.await?.counts.live, 3, "the live instances in the end");
    Ok(())
}

async fn lost_node_recovers(ctx: Ctx) -> Outcome {
    let before = ctx.launch_healthy(ctx.service("web").replicas(2)).await?;
    ctx.disturb("web", Disturbance::LoseNode).await?;
    ctx.settle("web", "healthy with another instance", |seen| {
        Ok(seen.verdict() == Verdict::Healthy && !ids(seen).is_subset(&ids(&before)))
    })
    .await?;
    Ok(())
}
