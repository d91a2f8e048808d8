//! Clause 14: running something once.

use super::cases;
use crate::conformance::ctx::{Ctx, DONE, FAILS, check, check_eq, checked, refused};
use crate::conformance::{Failure, Outcome};
use crate::memory::Fate;
use crate::{
    Conflict, DiagnosisKind, ErrorKind, Exit, KindName, Result as OpResult, Run, RunKey, RunStarted, SchedulerExt as _,
    Verdict, WaitOptions, WaitOutcome, Waiting, Workload,
};

cases! {
    /// A run has a target of its own, and ends.
    14 "run/one-off" [RunOneOff, Jobs] => one_off;
    /// The same key twice is one run, also when it has ended.
    14 "run/same-key-is-one-run" [RunOneOff, Jobs] => same_key;
    /// The same key at once is one run.
    14 "run/same-key-at-once" [RunOneOff, Jobs] => same_key_at_once;
    /// Another key is another run.
    14 "run/other-key-is-another" [RunOneOff, Jobs] => other_key;
    /// The exit code is told, good or bad.
    14 "run/exit-code" [RunOneOff, Jobs] => exit_code;
    /// A run that never started has no exit, and did not end well.
    14 "run/never-started" [RunOneOff, Jobs] => never_started;
    /// What is no job cannot be run.
    14 "run/only-jobs" [RunOneOff] => only_jobs;
    /// The name of a run that belongs to somebody else is not taken.
    1 "run/only-ours" [RunOneOff, Jobs] => only_ours;
    /// A run leaves a workload of the base's name alone, and is deleted by its own target.
    14 "run/beside-the-base" [RunOneOff, Jobs] => beside_the_base;
    /// A periodic job can be run now, also when it is suspended.
    14 "run/now" [RunNow, PeriodicJobs] => now;
    /// The same key for a periodic job twice is one run.
    14 "run/now-same-key" [RunNow, PeriodicJobs] => now_same_key;
    /// Only what is there and periodic can be run now.
    14 "run/now-only-periodic" [RunNow, PeriodicJobs] => now_only_periodic;
    /// The runs of a periodic job are deleted with it.
    8 "run/now-deleted-with-it" [RunNow, PeriodicJobs] => now_deleted;
}

fn key(text: &str) -> Result<RunKey, Failure> {
    RunKey::new(text).map_err(|e| Failure(e.to_string()))
}

async fn try_run(ctx: &Ctx, workload: Workload, text: &str) -> Result<OpResult<RunStarted>, Failure> {
    Ok(ctx.scheduler.run(Run::one_off(checked(workload)?, key(text)?)).await)
}

async fn run(ctx: &Ctx, workload: Workload, text: &str) -> Result<RunStarted, Failure> {
    Ok(try_run(ctx, workload, text).await??)
}

fn options(ctx: &Ctx) -> WaitOptions {
    WaitOptions::default().total(ctx.timing().settle).poll(ctx.timing().poll)
}

fn name(started: &RunStarted) -> &str {
    started.run.target().name.as_str()
}

async fn one_off(ctx: Ctx) -> Outcome {
    let started = run(&ctx, ctx.job("migrate", DONE), "r1").await?;
    check!(started.created, "the run says that it was there");
    let told = Run::one_off(checked(ctx.job("migrate", DONE))?, key("r1")?).id();
    check_eq!(started.run, told, "the run's id, and what it should be");
    let seen = ctx.verdict(name(&started), Verdict::Complete).await?;
    check_eq!((seen.kind, seen.run_of), (KindName::Job, None), "kind and periodic workload");
    check_eq!(ctx.status("migrate").await?.map(|seen| seen.target), None, "what has the base's name");
    check!(ctx.delete_whole(name(&started)).await?, "the run was not there");
    ctx.nothing_left().await
}

async fn same_key(ctx: Ctx) -> Outcome {
    let first = run(&ctx, ctx.job("migrate", DONE), "r1").await?;
    let second = run(&ctx, ctx.job("migrate", DONE), "r1").await?;
    check_eq!((second.created, &second.run), (false, &first.run), "the second, while the first runs");
    let done = ctx.verdict(name(&first), Verdict::Complete).await?;
    let third = run(&ctx, ctx.job("migrate", DONE), "r1").await?;
    check_eq!((third.created, &third.run), (false, &first.run), "the third, when the first has ended");
    let after = ctx.seen(name(&first)).await?;
    check_eq!((after.verdict(), after.counts), (Verdict::Complete, done.counts), "verdict and counts after it");
    check_eq!((after.incarnation, after.instances.len()), (done.incarnation, done.instances.len()), "what there is");
    Ok(())
}

async fn same_key_at_once(ctx: Ctx) -> Outcome {
    let (a, b) = futures_util::future::join(
        try_run(&ctx, ctx.job("migrate", DONE), "r1"),
        try_run(&ctx, ctx.job("migrate", DONE), "r1"),
    )
    .await;
    let (a, b) = (a??, b??);
    check_eq!(a.run, b.run, "the two runs");
    check_eq!([a.created, b.created].iter().filter(|created| **created).count(), 1, "how many of them were begun");
    ctx.verdict(name(&a), Verdict::Complete).await?;
    check_eq!(ctx.scheduler.list_all().await?.len(), 1, "the workloads that there are");
    Ok(())
}

async fn other_key(ctx: Ctx) -> Outcome {
    let first = run(&ctx, ctx.job("migrate", DONE), "r1").await?;
    let second = run(&ctx, ctx.job("migrate", DONE), "r2").await?;
    check!(second.created, "the second says that it was there");
    check!(first.run != second.run, "both have the id {}", first.run);
    ctx.verdict(name(&first), Verdict::Complete).await?;
    ctx.verdict(name(&second), Verdict::Complete).await?;
    Ok(())
}

async fn exit_code(ctx: Ctx) -> Outcome {
    let options = options(&ctx);
    let good = Run::one_off(checked(ctx.job("good", DONE))?, key("r1")?);
    let ended = ctx.scheduler.run_and_wait(good, &options).await?;
    check_eq!((ended.outcome, ended.exit), (WaitOutcome::Succeeded, Some(Exit::new(0))), "the end of a good run");
    let bad = Run::one_off(checked(ctx.job("bad", FAILS))?, key("r1")?);
    let ended = ctx.scheduler.run_and_wait(bad, &options).await?;
    check!(matches!(ended.outcome, WaitOutcome::Failed(_)), "the end of a bad run: {:?}", ended.outcome);
    check_eq!(ended.exit.map(|exit| exit.code), Some(3), "its exit code");
    Ok(())
}

async fn never_started(ctx: Ctx) -> Outcome {
    let run = Run::one_off(checked(ctx.job("migrate", Fate::PullError))?, key("r1")?);
    let ended = ctx.scheduler.run_and_wait(run, &options(&ctx)).await?;
    check_eq!(ended.exit, None, "the exit of what never started");
    let WaitOutcome::Failed(diagnoses) = &ended.outcome else {
        return Err(Failure(format!("the end of what never started: {:?}", ended.outcome)));
    };
    let kinds: Vec<_> = diagnoses.iter().map(|d| d.kind).collect();
    check!(kinds.contains(&DiagnosisKind::ImagePull), "the diagnoses are {kinds:?}");
    Ok(())
}

async fn only_jobs(ctx: Ctx) -> Outcome {
    let kind = refused("a run of a service", try_run(&ctx, ctx.idle("web"), "r1").await?)?;
    check_eq!(kind, ErrorKind::InvalidArgument, "its error");
    ctx.nothing_left().await
}

async fn only_ours(ctx: Ctx) -> Outcome {
    let theirs = run(&ctx.theirs(), ctx.job("migrate", Fate::Run), "r1").await?;
    let kind = refused("a run of their name", try_run(&ctx, ctx.job("migrate", DONE), "r1").await?)?;
    check_eq!(kind, ErrorKind::Conflict(Conflict::Owner { owner: Some(ctx.other.clone()) }), "its error");
    ctx.theirs().verdict(name(&theirs), Verdict::Progressing(Waiting::Running)).await?;
    Ok(())
}

async fn beside_the_base(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.idle("web")).await?;
    let before = ctx.seen("web").await?;
    let started = run(&ctx, ctx.job("web", DONE), "r1").await?;
    ctx.verdict(name(&started), Verdict::Complete).await?;
    let after = ctx.seen("web").await?;
    check_eq!((after.version, after.revision), (before.version, before.revision), "version and revision of the base");
    ctx.delete_whole("web").await?;
    ctx.verdict(name(&started), Verdict::Complete).await?;
    check!(ctx.delete_whole(name(&started)).await?, "the run went with the base, which did not make it");
    ctx.nothing_left().await
}

async fn now(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.periodic("nightly").with_periodic(|periodic| periodic.suspend = true)).await?;
    let target = ctx.target("nightly")?;
    let started = ctx.scheduler.trigger(&target, key("r1")?).await?;
    check!(started.created, "the run says that it was there");
    let done = ctx.verdict(name(&started), Verdict::Complete).await?;
    check_eq!(done.run_of, Some(target.name), "the periodic workload that it is a run of");
    check_eq!(ctx.seen("nightly").await?.verdict(), Verdict::Suspended, "the verdict of the periodic workload");
    Ok(())
}

async fn now_same_key(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.periodic("nightly")).await?;
    let target = ctx.target("nightly")?;
    let first = ctx.scheduler.trigger(&target, key("r1")?).await?;
    let second = ctx.scheduler.trigger(&target, key("r1")?).await?;
    check_eq!((second.created, &second.run), (false, &first.run), "the same key again");
    let third = ctx.scheduler.trigger(&target, key("r2")?).await?;
    check!(third.created && third.run != first.run, "another key: {third:?}");
    ctx.verdict(name(&first), Verdict::Complete).await?;
    ctx.verdict(name(&third), Verdict::Complete).await?;
    Ok(())
}

async fn now_only_periodic(ctx: Ctx) -> Outcome {
    let absent = refused("a run of nothing", ctx.scheduler.trigger(&ctx.target("nightly")?, key("r1")?).await)?;
    check_eq!(absent, ErrorKind::Conflict(Conflict::Absent), "its error");
    ctx.launch(ctx.idle("web")).await?;
    let service = refused("a run of a service", ctx.scheduler.trigger(&ctx.target("web")?, key("r1")?).await)?;
    check_eq!(service, ErrorKind::InvalidArgument, "its error");
    Ok(())
}

async fn now_deleted(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.with_fate(ctx.periodic("nightly"), Fate::Run, "1")).await?;
    let started = ctx.scheduler.trigger(&ctx.target("nightly")?, key("r1")?).await?;
    ctx.settle(name(&started), "running", |seen| Ok(seen.counts.ready == 1)).await?;
    check!(ctx.delete_whole("nightly").await?, "it was not there");
    check_eq!(ctx.status(name(&started)).await?.map(|seen| seen.target), None, "the run after it");
    ctx.nothing_left().await
}
