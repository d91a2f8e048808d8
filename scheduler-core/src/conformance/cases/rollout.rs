//! Clause 6: restarting, pausing, canaries, and what is done to one instance.

use std::time::Duration;

use super::cases;
use crate::conformance::ctx::{Ctx, DONE, check, check_eq, ids, refused};
use crate::conformance::{Failure, Outcome};
use crate::memory::Fate;
use crate::{
    Canary, Change, Conflict, ErrorKind, Guard, InstanceAction, InstanceAnswer, Missing, Observation, OnInstance,
    Result as OpResult, Rollout, RolloutAction, Steered, Update, Verdict, Waiting, Workload,
};

cases! {
    /// A restart replaces every instance.
    6 "restart/replaces-every-instance" [Restart] => replaces_every_instance;
    /// A restart leaves the revision, and a launch afterwards is Unchanged and replaces nothing.
    6 "restart/launch-is-unchanged" [Restart] => launch_is_unchanged;
    /// A restart keeps a count that somebody scaled to.
    6 "restart/keeps-the-count" [Restart, Scale] => restart_keeps_the_count;
    /// A changed launch after a restart replaces once, and works.
    6 "restart/launch-after-it" [Restart] => launch_after_restart;
    /// A restart that is bound to a version is done once, however often it is sent.
    6 "restart/once-by-version" [Restart, CompareAndSet] => once_by_version;
    /// What is not there cannot be restarted, nor can somebody else's, nor a job.
    6 "restart/only-ours" [Restart] => restart_only_ours;
    /// A job has no rollout.
    6 "restart/no-jobs" [Restart, Jobs] => restart_no_jobs;
    /// A paused rollout replaces no further instance, and goes on when it is resumed.
    6 "pause/stops-and-goes-on" [Pause] => pause_stops_and_goes_on;
    /// Without a rollout there is nothing to pause.
    6 "pause/needs-a-rollout" [Pause] => pause_needs_a_rollout;
    /// Pausing what is paused, and resuming what is not, changes nothing.
    6 "pause/again-changes-nothing" [Pause] => pause_again;
    /// An unchanged launch leaves a pause; one that changes something ends it.
    6 "pause/launch-ends-it" [Pause] => launch_ends_pause;
    /// Time that is spent paused counts against no deadline.
    6 "pause/stops-the-deadline" [Pause] => pause_stops_the_deadline;
    /// Canaries run beside all old instances, and wait for a promotion.
    6 "canary/waits-beside-the-old" [Canaries] => canary_waits;
    /// A promotion replaces all old instances.
    6 "canary/promote" [Canaries, Promote] => canary_promote;
    /// Canaries that do not stand the test cannot be promoted.
    6 "canary/promote-needs-health" [Canaries, Promote] => promote_needs_health;
    /// An abort ends the canaries and leaves the old instances; the verdict is Failed until something else is launched.
    6 "canary/abort" [Canaries, Abort] => canary_abort;
    /// The first launch has nothing to stand beside, and needs no promotion.
    6 "canary/first-launch" [Canaries] => canary_first_launch;
    /// A stopped instance is replaced by another.
    6 "instance/stop" [StopInstance] => stop_instance;
    /// An instance that is not there, or is another workload's, cannot be stopped.
    6 "instance/unknown" [StopInstance] => unknown_instance;
    /// Somebody else's instance cannot be stopped.
    1 "instance/only-ours" [StopInstance] => instance_only_ours;
    /// Stopping what has been stopped hits no other instance.
    6 "instance/stop-again" [StopInstance] => stop_again;
    /// A restarted instance is the same one, with a restart more.
    6 "instance/restart" [RestartInstance] => restart_instance;
}

async fn steer(ctx: &Ctx, name: &str, action: RolloutAction, guard: Guard) -> Result<OpResult<Steered>, Failure> {
    Ok(ctx.scheduler.rollout(Rollout::new(ctx.target(name)?, action).guard(guard)).await)
}

async fn web(ctx: &Ctx, action: RolloutAction) -> Result<Steered, Failure> {
    Ok(steer(ctx, "web", action, Guard::IfOwned).await??)
}

/// Waits until it is healthy with none of the instances that it had.
async fn replaced(ctx: &Ctx, before: &Observation) -> Result<Observation, Failure> {
    let old = ids(before);
    let new = |seen: &Observation| seen.verdict() == Verdict::Healthy && ids(seen).is_disjoint(&old);
    ctx.settle("web", "healthy with other instances", |seen| Ok(new(seen))).await
}

async fn replaces_every_instance(ctx: Ctx) -> Outcome {
    let before = ctx.launch_healthy(ctx.service("web").replicas(2)).await?;
    let steered = web(&ctx, RolloutAction::Restart).await?;
    check!(steered.changed, "the restart says that it changed nothing");
    check!(steered.version != before.version, "the version did not move");
    let after = replaced(&ctx, &before).await?;
    check_eq!(after.counts.live, 2, "the instances in the end");
    Ok(())
}

async fn launch_is_unchanged(ctx: Ctx) -> Outcome {
    let before = ctx.launch_healthy(ctx.service("web")).await?;
    web(&ctx, RolloutAction::Restart).await?;
    let after = replaced(&ctx, &before).await?;
    check_eq!(after.revision, before.revision, "the revision");
    let launched = ctx.launch(ctx.service("web")).await?;
    check_eq!(launched.change, Change::Unchanged, "the launch after a restart");
    check_eq!(ids(&ctx.healthy("web").await?), ids(&after), "the instances after it");
    Ok(())
}

async fn restart_keeps_the_count(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.service("web").keep_replicas(1)).await?;
    ctx.scheduler.scale(crate::Scale::new(ctx.target("web")?, 2)).await?;
    let before = ctx.healthy("web").await?;
    web(&ctx, RolloutAction::Restart).await?;
    check_eq!(replaced(&ctx, &before).await?.counts.desired, 2, "the count after a restart");
    Ok(())
}

async fn launch_after_restart(ctx: Ctx) -> Outcome {
    let before = ctx.launch_healthy(ctx.service("web")).await?;
    web(&ctx, RolloutAction::Restart).await?;
    replaced(&ctx, &before).await?;
    let launched = ctx.launch(ctx.with_tag(ctx.service("web"), "2")).await?;
    check!(matches!(launched.change, Change::Updated(_)), "the launch of another image: {}", launched.change);
    let healthy = ctx.healthy("web").await?;
    let again = ctx.launch(ctx.with_tag(ctx.service("web"), "2")).await?;
    check_eq!(again.change, Change::Unchanged, "the same launch again");
    check_eq!(ids(&ctx.healthy("web").await?), ids(&healthy), "the instances after it");
    Ok(())
}

async fn once_by_version(ctx: Ctx) -> Outcome {
    let before = ctx.launch_healthy(ctx.service("web")).await?;
    let guard = Guard::IfVersion(before.version.clone());
    steer(&ctx, "web", RolloutAction::Restart, guard.clone()).await??;
    let again = refused("the same restart again", steer(&ctx, "web", RolloutAction::Restart, guard).await?)?;
    check!(matches!(again, ErrorKind::Conflict(Conflict::Moved { .. })), "its error is {again:?}");
    replaced(&ctx, &before).await?;
    Ok(())
}

async fn restart_only_ours(ctx: Ctx) -> Outcome {
    let restart = RolloutAction::Restart;
    let absent = refused("a restart of nothing", steer(&ctx, "web", restart, Guard::IfOwned).await?)?;
    check_eq!(absent, ErrorKind::Conflict(Conflict::Absent), "its error");
    ctx.theirs().launch(ctx.idle("web")).await?;
    let theirs = refused("a restart of somebody else's", steer(&ctx, "web", restart, Guard::IfOwned).await?)?;
    check_eq!(theirs, ErrorKind::Conflict(Conflict::Owner { owner: Some(ctx.other.clone()) }), "its error");
    for guard in [Guard::IfAbsent, Guard::Adopt] {
        let kind = refused("a restart under it", steer(&ctx, "web", restart, guard.clone()).await?)?;
        check_eq!(kind, ErrorKind::InvalidArgument, "the error of {guard:?}");
    }
    Ok(())
}

async fn restart_no_jobs(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.job("work", DONE)).await?;
    let job = refused("a restart of a job", steer(&ctx, "work", RolloutAction::Restart, Guard::IfOwned).await?)?;
    check_eq!(job, ErrorKind::InvalidArgument, "its error");
    Ok(())
}

/// A rollout to instances that never come up, which has begun.
async fn rolling(ctx: &Ctx) -> Result<Observation, Failure> {
    ctx.launch_healthy(ctx.service("web").replicas(2)).await?;
    ctx.launch(ctx.hopeful("web").replicas(2)).await?;
    ctx.settle("web", "updating", |seen| Ok(seen.noticed && seen.counts.updated > 0)).await
}

async fn paused(ctx: &Ctx) -> Result<Observation, Failure> {
    ctx.verdict("web", Verdict::Progressing(Waiting::Paused)).await
}

async fn pause_stops_and_goes_on(ctx: Ctx) -> Outcome {
    let old = ids(&ctx.launch_healthy(ctx.service("web").replicas(2)).await?);
    // Its instances take two seconds to come up, so that there is something to stop.
    let slow = ctx.with_fate(ctx.service("web").replicas(2), Fate::Slow { after: 2 }, "2");
    ctx.launch(slow).await?;
    ctx.settle("web", "updating", |seen| Ok(seen.noticed && seen.counts.updated > 0)).await?;
    let steered = web(&ctx, RolloutAction::Pause).await?;
    check!(steered.changed, "the pause says that it changed nothing");
    let since = paused(&ctx).await?.at;
    let stopped = |seen: &Observation| {
        check!(!ids(seen).is_disjoint(&old), "the rollout went on: {:?}", seen.instances);
        Ok(seen.at.since(since) >= Duration::from_secs(6))
    };
    ctx.settle("web", "paused for longer than the rollout takes", stopped).await?;
    let steered = web(&ctx, RolloutAction::Resume).await?;
    check!(steered.changed, "the resumption says that it changed nothing");
    let done = ctx.healthy("web").await?;
    check!(ids(&done).is_disjoint(&old), "an old instance is left: {:?}", done.instances);
    Ok(())
}

async fn pause_needs_a_rollout(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.service("web")).await?;
    let pause = refused("a pause without a rollout", steer(&ctx, "web", RolloutAction::Pause, Guard::IfOwned).await?)?;
    check_eq!(pause, ErrorKind::Precondition, "its error");
    Ok(())
}

async fn pause_again(ctx: Ctx) -> Outcome {
    rolling(&ctx).await?;
    check!(!web(&ctx, RolloutAction::Resume).await?.changed, "resuming what is not paused changed something");
    web(&ctx, RolloutAction::Pause).await?;
    check!(!web(&ctx, RolloutAction::Pause).await?.changed, "pausing again changed something");
    paused(&ctx).await?;
    Ok(())
}

async fn launch_ends_pause(ctx: Ctx) -> Outcome {
    rolling(&ctx).await?;
    web(&ctx, RolloutAction::Pause).await?;
    paused(&ctx).await?;
    let same = ctx.launch(ctx.hopeful("web").replicas(2)).await?;
    check_eq!(same.change, Change::Unchanged, "the same launch");
    paused(&ctx).await?;
    let other = ctx.launch(ctx.with_tag(ctx.service("web").replicas(2), "3")).await?;
    check!(matches!(other.change, Change::Updated(_)), "another launch: {}", other.change);
    ctx.healthy("web").await?;
    Ok(())
}

async fn pause_stops_the_deadline(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.service("web")).await?;
    ctx.launch(ctx.with_fate(ctx.service("web"), Fate::Slow { after: 2 }, "2")).await?;
    ctx.settle("web", "updating", |seen| Ok(seen.noticed && seen.counts.updated > 0)).await?;
    web(&ctx, RolloutAction::Pause).await?;
    let since = paused(&ctx).await?.at;
    let patience = Duration::from_secs(u64::from(ctx.timing().patience) + 5);
    let long = |seen: &Observation| {
        check_eq!(seen.verdict(), Verdict::Progressing(Waiting::Paused), "the verdict while it is paused");
        Ok(seen.at.since(since) >= patience)
    };
    ctx.settle("web", "paused for longer than the patience", long).await?;
    web(&ctx, RolloutAction::Resume).await?;
    let never_failed = |seen: &Observation| {
        check!(seen.verdict() != Verdict::Failed, "the time that was spent paused counts: {:?}", seen.diagnoses);
        Ok(seen.verdict() == Verdict::Healthy)
    };
    ctx.settle("web", "healthy", never_failed).await?;
    Ok(())
}

fn canary(ctx: &Ctx, fate: Fate, tag: &str) -> Workload {
    ctx.with_fate(ctx.service("web").replicas(2).update(Update::Canary(Canary::new(1))), fate, tag)
}

async fn canary_waits(ctx: Ctx) -> Outcome {
    let old = ids(&ctx.launch_healthy(canary(&ctx, Fate::Run, "1")).await?);
    ctx.launch(canary(&ctx, Fate::Run, "2")).await?;
    let waiting = ctx.verdict("web", Verdict::Progressing(Waiting::Promotion)).await?;
    check!(old.is_subset(&ids(&waiting)), "an old instance went before the promotion: {:?}", waiting.instances);
    check_eq!(ids(&waiting).len(), 3, "the old instances and the canary");
    Ok(())
}

async fn canary_promote(ctx: Ctx) -> Outcome {
    let old = ids(&ctx.launch_healthy(canary(&ctx, Fate::Run, "1")).await?);
    let none =
        refused("a promotion without a canary", steer(&ctx, "web", RolloutAction::Promote, Guard::IfOwned).await?);
    // What is promoted is promoted; without canaries there is nothing to be done, or nothing that could be.
    check!(none.is_err() || matches!(none, Ok(ErrorKind::Precondition)), "a promotion without a canary: {none:?}");
    ctx.launch(canary(&ctx, Fate::Run, "2")).await?;
    ctx.verdict("web", Verdict::Progressing(Waiting::Promotion)).await?;
    check!(web(&ctx, RolloutAction::Promote).await?.changed, "the promotion says that it changed nothing");
    let done = ctx.healthy("web").await?;
    check!(ids(&done).is_disjoint(&old), "an old instance is left: {:?}", done.instances);
    check_eq!(done.counts.live, 2, "the instances in the end");
    Ok(())
}

async fn promote_needs_health(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(canary(&ctx, Fate::Run, "1")).await?;
    ctx.launch(canary(&ctx, Fate::PullError, "2").progress_deadline(ctx.long_patience())).await?;
    ctx.settle("web", "with a canary", |seen| Ok(seen.noticed && seen.counts.updated > 0)).await?;
    let early = refused("its promotion", steer(&ctx, "web", RolloutAction::Promote, Guard::IfOwned).await?)?;
    check_eq!(early, ErrorKind::Precondition, "its error");
    Ok(())
}

async fn canary_abort(ctx: Ctx) -> Outcome {
    let old = ids(&ctx.launch_healthy(canary(&ctx, Fate::Run, "1")).await?);
    let early = refused("an abort without a rollout", steer(&ctx, "web", RolloutAction::Abort, Guard::IfOwned).await?)?;
    check_eq!(early, ErrorKind::Precondition, "its error");
    ctx.launch(canary(&ctx, Fate::Run, "2")).await?;
    ctx.verdict("web", Verdict::Progressing(Waiting::Promotion)).await?;
    check!(web(&ctx, RolloutAction::Abort).await?.changed, "the abort says that it changed nothing");
    let only_old = |seen: &Observation| Ok(seen.verdict() == Verdict::Failed && ids(seen) == old);
    ctx.settle("web", "failed, with the old instances alone", only_old).await?;
    ctx.launch(canary(&ctx, Fate::Run, "1")).await?;
    ctx.settle("web", "failed no more", |seen| Ok(seen.verdict() != Verdict::Failed)).await?;
    Ok(())
}

async fn canary_first_launch(ctx: Ctx) -> Outcome {
    ctx.launch(canary(&ctx, Fate::Run, "1")).await?;
    let healthy = |seen: &Observation| {
        check!(!seen.awaits_promotion, "it waits for a promotion");
        Ok(seen.verdict() == Verdict::Healthy)
    };
    ctx.settle("web", "healthy", healthy).await?;
    Ok(())
}

async fn act(ctx: &Ctx, instance: &str, action: InstanceAction) -> Result<OpResult<InstanceAnswer>, Failure> {
    Ok(ctx.scheduler.instance(OnInstance::new(ctx.target("web")?, instance, action)).await)
}

fn first(seen: &Observation) -> Result<String, Failure> {
    let id = seen.instances.first().map(|instance| instance.id.clone());
    id.ok_or_else(|| Failure("there is no instance".to_owned()))
}

async fn stop_instance(ctx: Ctx) -> Outcome {
    let before = ctx.launch_healthy(ctx.service("web").replicas(2)).await?;
    let victim = first(&before)?;
    check_eq!(act(&ctx, &victim, InstanceAction::Stop).await??, InstanceAnswer::Told, "the answer");
    let healed = |seen: &Observation| Ok(seen.verdict() == Verdict::Healthy && !ids(seen).contains(&victim));
    let after = ctx.settle("web", "healthy without it", healed).await?;
    let kept = ids(&before).intersection(&ids(&after)).count();
    check_eq!(kept, 1, "of the two instances that stay");
    check_eq!(after.revision, before.revision, "the revision");
    Ok(())
}

async fn unknown_instance(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.service("web")).await?;
    let other = first(&ctx.launch_healthy(ctx.with_other_port(ctx.service("api"))).await?)?;
    for id in ["no-such-instance", &other] {
        let kind = refused("stopping it", act(&ctx, id, InstanceAction::Stop).await?)?;
        check_eq!(kind, ErrorKind::NotFound(Missing::Instance), "the error for {id}");
    }
    check!(ids(&ctx.healthy("api").await?).contains(&other), "the other workload's instance was stopped");
    Ok(())
}

async fn instance_only_ours(ctx: Ctx) -> Outcome {
    let theirs = ctx.theirs().launch_healthy(ctx.service("web")).await?;
    let kind = refused("stopping theirs", act(&ctx, &first(&theirs)?, InstanceAction::Stop).await?)?;
    check_eq!(kind, ErrorKind::Conflict(Conflict::Owner { owner: Some(ctx.other.clone()) }), "its error");
    check_eq!(ids(&ctx.theirs().healthy("web").await?), ids(&theirs), "their instances");
    Ok(())
}

async fn stop_again(ctx: Ctx) -> Outcome {
    // It takes its time to end.
    let before = ctx.launch_healthy(ctx.fated("web", Fate::Stubborn).termination_grace(5)).await?;
    let victim = first(&before)?;
    check_eq!(act(&ctx, &victim, InstanceAction::Stop).await??, InstanceAnswer::Told, "the first answer");
    let ending = |seen: &Observation| {
        Ok(seen.instances.iter().any(|i| i.id == victim && i.state == crate::InstanceState::Terminating))
    };
    ctx.settle("web", "on its way out", ending).await?;
    check_eq!(act(&ctx, &victim, InstanceAction::Stop).await??, InstanceAnswer::WasEnding, "the second answer");
    let after = replaced(&ctx, &before).await?;
    match act(&ctx, &victim, InstanceAction::Stop).await? {
        Ok(InstanceAnswer::WasEnding) => {}
        Err(error) if *error.kind() == ErrorKind::NotFound(Missing::Instance) => {}
        other => return Err(Failure(format!("stopping what has ended was answered {other:?}"))),
    }
    check_eq!(ids(&ctx.healthy("web").await?), ids(&after), "the instances after it");
    Ok(())
}

async fn restart_instance(ctx: Ctx) -> Outcome {
    let before = ctx.launch_healthy(ctx.service("web")).await?;
    let id = first(&before)?;
    check_eq!(act(&ctx, &id, InstanceAction::Restart).await??, InstanceAnswer::Told, "the answer");
    let again = |seen: &Observation| {
        let same = seen.instances.iter().find(|instance| instance.id == id);
        check!(same.is_some(), "the instance was replaced: {:?}", seen.instances);
        Ok(same.is_some_and(|instance| instance.restarts > 0) && seen.counts.ready == 1)
    };
    ctx.settle("web", "restarted and ready", again).await?;
    Ok(())
}
