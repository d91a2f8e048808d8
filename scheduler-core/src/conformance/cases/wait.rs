//! Clause 11: waiting, and how it ends.

use std::time::Duration;

use futures_util::future::join;

use super::cases;
use crate::conformance::ctx::{Ctx, brief, check, check_eq, checked, refused};
use crate::conformance::{Failure, Injection, Outcome};
use crate::memory::Fate;
use crate::{
    DiagnosisKind, ErrorKind, Launch, Launched, Rolling, SchedulerExt as _, Update, Verdict, WaitOptions, WaitOutcome,
    Workload,
};

cases! {
    /// Waiting ends with Succeeded when what was launched is healthy, and not before.
    11 "wait/succeeds" => succeeds;
    /// Each look is shown, the last one is the one that ended the waiting.
    11 "wait/shows-each-look" => shows_each_look;
    /// Waiting ends with Failed when the verdict is, and brings the diagnoses with evidence.
    11 "wait/fails-with-diagnoses" => fails_with_diagnoses;
    /// Without progress waiting ends with Stalled.
    11 "wait/stalls" => stalls;
    /// Restarts and flapping are no progress.
    11 "wait/flapping-is-no-progress" => flapping_is_no_progress;
    /// A deadline ends waiting, and is never success.
    11 "wait/deadline" => deadline;
    /// Without any time there is one look.
    11 "wait/no-time-is-one-look" => no_time_is_one_look;
    /// A launch of something else ends waiting, and is named.
    11 "wait/superseded" => superseded;
    /// A launch of something else is noticed while waiting.
    11 "wait/superseded-meanwhile" => superseded_meanwhile;
    /// What is not there, or not any more, ends waiting with Gone.
    11 "wait/gone" => gone;
    /// An error that may pass is waited out.
    11 "wait/transient-error" => transient_error;
    /// An error that will not pass ends waiting.
    11 "wait/lasting-error" => lasting_error;
    /// A failure of the last rollout does not end the waiting for this one.
    11 "wait/good-after-failed" => good_after_failed;
    /// Where all instances may be unavailable, waiting still goes on until the new ones are ready.
    11 "wait/none-may-be-ready" => none_may_be_ready;
    /// Waiting for the end of a delete ends when the last instance has ended.
    11 "wait/until-gone" => until_gone;
    /// Waiting for the end of what nobody deletes ends with its deadline.
    11 "wait/until-gone-deadline" => until_gone_deadline;
}

fn options(ctx: &Ctx) -> WaitOptions {
    let timing = ctx.timing();
    WaitOptions::default().stall(timing.settle).total(timing.settle).poll(timing.poll)
}

async fn wait(ctx: &Ctx, options: &WaitOptions) -> Result<WaitOutcome, Failure> {
    Ok(ctx.scheduler.wait(&ctx.target("web")?, options).await?)
}

async fn launch_and_wait(ctx: &Ctx, workload: Workload) -> Result<(Launched, WaitOutcome), Failure> {
    Ok(ctx.scheduler.launch_and_wait(Launch::new(checked(workload)?), &options(ctx)).await?)
}

async fn succeeds(ctx: Ctx) -> Outcome {
    let workload = ctx.fated("web", Fate::Slow { after: 2 }).replicas(2);
    let (launched, outcome) = launch_and_wait(&ctx, workload.clone()).await?;
    check_eq!(outcome, WaitOutcome::Succeeded, "the outcome");
    let seen = ctx.seen("web").await?;
    check_eq!((seen.verdict(), seen.counts.ready), (Verdict::Healthy, 2), "verdict and ready instances after it");
    check_eq!(seen.revision, Some(launched.revision), "the revision");
    // And so it does for an update, of which nothing is healthy yet when it begins.
    let (_, outcome) = launch_and_wait(&ctx, ctx.with_tag(workload, "2")).await?;
    check_eq!(outcome, WaitOutcome::Succeeded, "the outcome of the update");
    let seen = ctx.seen("web").await?;
    check_eq!((seen.counts.ready, seen.counts.old), (2, 0), "ready and old instances after the update");
    Ok(())
}

async fn shows_each_look(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.fated("web", Fate::Slow { after: 2 })).await?;
    let mut looks = Vec::new();
    let target = ctx.target("web")?;
    let outcome = ctx.scheduler.wait_observed(&target, &options(&ctx), &mut |seen| looks.push(seen.verdict())).await?;
    check_eq!(outcome, WaitOutcome::Succeeded, "the outcome");
    let last = looks.pop();
    check_eq!(last, Some(Verdict::Healthy), "the last look");
    check!(!looks.is_empty() && !looks.contains(&Verdict::Healthy), "the looks before it: {looks:?}");
    Ok(())
}

async fn fails_with_diagnoses(ctx: Ctx) -> Outcome {
    let (_, outcome) = launch_and_wait(&ctx, ctx.fated("web", Fate::PullError)).await?;
    let WaitOutcome::Failed(diagnoses) = outcome else {
        return Err(Failure(format!("the outcome is {outcome:?}")));
    };
    let pull = diagnoses.iter().find(|d| d.kind == DiagnosisKind::ImagePull && d.current);
    let evidence = pull.ok_or_else(|| Failure(format!("the image is not among {diagnoses:?}")))?;
    check!(!evidence.evidence.events.is_empty(), "it comes without events");
    check_eq!(ctx.seen("web").await?.verdict(), Verdict::Failed, "the verdict after it");
    Ok(())
}

async fn stalls(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.hopeful("web")).await?;
    let stall = Duration::from_secs(u64::from(ctx.timing().patience));
    let outcome = wait(&ctx, &options(&ctx).stall(stall)).await?;
    let WaitOutcome::Stalled(counts) = outcome else {
        return Err(Failure(format!("the outcome is {outcome:?}")));
    };
    check_eq!((counts.desired, counts.updated, counts.ready), (1, 1, 0), "instances desired, updated and ready");
    Ok(())
}

async fn flapping_is_no_progress(ctx: Ctx) -> Outcome {
    // Ready for a moment each time, and never for long enough to be available.
    let workload =
        ctx.fated("web", Fate::Crash { after: 1, exit_code: 1 }).min_ready(60).progress_deadline(ctx.long_patience());
    ctx.launch(workload).await?;
    let stall = Duration::from_secs(u64::from(ctx.timing().patience));
    let outcome = wait(&ctx, &options(&ctx).stall(stall)).await?;
    check!(matches!(outcome, WaitOutcome::Stalled(_)), "the outcome is {outcome:?}");
    Ok(())
}

async fn deadline(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.hopeful("web")).await?;
    let total = Duration::from_secs(u64::from(ctx.timing().patience));
    let outcome = wait(&ctx, &options(&ctx).total(total)).await?;
    let WaitOutcome::DeadlineExceeded(counts) = outcome else {
        return Err(Failure(format!("the outcome is {outcome:?}")));
    };
    check_eq!((counts.desired, counts.ready), (1, 0), "instances desired and ready");
    Ok(())
}

async fn no_time_is_one_look(ctx: Ctx) -> Outcome {
    let none = options(&ctx).total(Duration::ZERO);
    ctx.launch(ctx.hopeful("web")).await?;
    let outcome = wait(&ctx, &none).await?;
    check!(matches!(outcome, WaitOutcome::DeadlineExceeded(_)), "the outcome of what is on its way is {outcome:?}");
    ctx.launch_healthy(ctx.service("web")).await?;
    check_eq!(wait(&ctx, &none).await?, WaitOutcome::Succeeded, "the outcome of what is healthy");
    Ok(())
}

async fn superseded(ctx: Ctx) -> Outcome {
    let first = ctx.launch(ctx.service("web")).await?.revision;
    let second = ctx.launch(ctx.with_tag(ctx.service("web"), "2")).await?.revision;
    let outcome = wait(&ctx, &options(&ctx).revision(first)).await?;
    check_eq!(outcome, WaitOutcome::Superseded { by: second.clone() }, "the outcome for the first");
    let outcome = wait(&ctx, &options(&ctx).revision(second)).await?;
    check_eq!(outcome, WaitOutcome::Succeeded, "the outcome for the second");
    Ok(())
}

async fn superseded_meanwhile(ctx: Ctx) -> Outcome {
    let first = ctx.launch(ctx.hopeful("web")).await?.revision;
    let second = checked(ctx.with_tag(ctx.service("web"), "2"))?.revision().clone();
    let other = async {
        ctx.settle("web", "diagnosed", |seen| Ok(!seen.diagnoses.is_empty())).await?;
        ctx.launch(ctx.with_tag(ctx.service("web"), "2")).await
    };
    let options = options(&ctx).revision(first);
    let (outcome, launched) = join(wait(&ctx, &options), other).await;
    launched?;
    check_eq!(outcome?, WaitOutcome::Superseded { by: second }, "the outcome");
    Ok(())
}

async fn gone(ctx: Ctx) -> Outcome {
    check_eq!(wait(&ctx, &options(&ctx)).await?, WaitOutcome::Gone, "the outcome for what never was there");
    ctx.launch(ctx.hopeful("web")).await?;
    let options = options(&ctx);
    let (outcome, deleted) = join(wait(&ctx, &options), ctx.delete_whole("web")).await;
    check!(deleted?, "a delete says that it was absent");
    check_eq!(outcome?, WaitOutcome::Gone, "the outcome for what is deleted meanwhile");
    Ok(())
}

async fn transient_error(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.fated("web", Fate::Slow { after: 2 })).await?;
    ctx.world.inject(1, Injection::Refuse);
    let outcome = wait(&ctx, &options(&ctx)).await?;
    check!(ctx.world.injected(), "no request met the fault");
    check_eq!(outcome, WaitOutcome::Succeeded, "the outcome");
    Ok(())
}

async fn lasting_error(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.fated("web", Fate::Slow { after: 2 })).await?;
    ctx.world.inject(1, Injection::Forbid);
    let outcome = ctx.scheduler.wait(&ctx.target("web")?, &options(&ctx)).await;
    check_eq!(refused("waiting", outcome)?, ErrorKind::Forbidden, "the error");
    Ok(())
}

async fn good_after_failed(ctx: Ctx) -> Outcome {
    let (_, outcome) = launch_and_wait(&ctx, ctx.fated("web", Fate::PullError)).await?;
    check!(matches!(outcome, WaitOutcome::Failed(_)), "the outcome of the bad one is {outcome:?}");
    let (_, outcome) = launch_and_wait(&ctx, ctx.with_tag(ctx.service("web"), "2")).await?;
    check_eq!(outcome, WaitOutcome::Succeeded, "the outcome of the good one");
    Ok(())
}

async fn none_may_be_ready(ctx: Ctx) -> Outcome {
    let bounds = Update::Rolling(Rolling::new(0, 1));
    ctx.launch_healthy(ctx.service("web").update(bounds)).await?;
    let slow = ctx.with_fate(ctx.service("web").update(bounds), Fate::Slow { after: 2 }, "2");
    let (launched, outcome) = launch_and_wait(&ctx, slow).await?;
    check_eq!(outcome, WaitOutcome::Succeeded, "the outcome");
    let seen = ctx.seen("web").await?;
    check!(seen.counts.updated == 1 && seen.counts.available == 1 && seen.counts.old == 0, "{}", brief(&seen));
    check_eq!(seen.revision, Some(launched.revision), "the revision");
    Ok(())
}

async fn until_gone(ctx: Ctx) -> Outcome {
    let target = ctx.target("web")?;
    let outcome = ctx.scheduler.wait_gone(&target, &options(&ctx)).await?;
    check_eq!(outcome, WaitOutcome::Gone, "the outcome for what never was there");
    ctx.launch_healthy(ctx.fated("web", Fate::Stubborn).termination_grace(3)).await?;
    // One who deletes, and one who only looks.
    let (outcome, deleted) = join(
        async {
            ctx.settle("web", "deleting", |seen| Ok(seen.deleting)).await?;
            let outcome = ctx.scheduler.wait_gone(&target, &options(&ctx)).await?;
            // At once: the other one goes on until nothing is left anyway.
            Ok::<_, Failure>((outcome, ctx.world.instances().await?))
        },
        ctx.delete_whole("web"),
    )
    .await;
    deleted?;
    check_eq!(outcome?, (WaitOutcome::Gone, vec![]), "the outcome for what is deleted, and the instances then");
    Ok(())
}

async fn until_gone_deadline(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.service("web")).await?;
    let short = options(&ctx).total(ctx.timing().poll * 3);
    let outcome = ctx.scheduler.wait_gone(&ctx.target("web")?, &short).await?;
    let WaitOutcome::DeadlineExceeded(counts) = outcome else {
        return Err(Failure(format!("the outcome is {outcome:?}")));
    };
    check_eq!(counts.ready, 1, "the ready instances");
    Ok(())
}
