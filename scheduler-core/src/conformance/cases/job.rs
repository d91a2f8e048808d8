//! Jobs, periodic jobs and systems: clauses 4, 9 and 10.

use std::collections::BTreeSet;

use super::cases;
use crate::conformance::ctx::{Ctx, DONE, FAILS, check, check_eq, checked, ids, refused};
use crate::conformance::{Failure, Outcome};
use crate::memory::Fate;
use crate::{
    Change, DiagnosisKind, Effect, ErrorKind, Exit, Finished, Guard, InstanceState, KindName, Launch, NodeRule,
    SchedulerExt as _, Verdict, WaitOptions, WaitOutcome, Waiting,
};

cases! {
    /// A job runs, and is complete when it has ended well.
    9 "job/completes" [Jobs] => completes;
    /// A job that ends badly fails, and the diagnosis tells the exit code.
    10 "job/fails" [Jobs] => fails;
    /// A job that was killed by a signal fails, and the diagnosis tells it.
    10 "job/signal" [Jobs] => signal;
    /// A job is tried again as often as it says, and no more.
    9 "job/retries" [Jobs] => retries;
    /// All completions are reached.
    9 "job/completions" [Jobs] => completions;
    /// No more instances run at a time than the job allows.
    9 "job/parallelism" [Jobs, JobParallelism] => parallelism;
    /// A job that takes longer than its deadline fails for that.
    9 "job/deadline" [Jobs, JobDeadline] => deadline;
    /// What was ended before it started has no exit code.
    14 "job/never-started-has-no-exit" [Jobs, JobDeadline] => never_started;
    /// A job goes by itself when its time to live is over.
    9 "job/time-to-live" [Jobs, JobTimeToLive] => time_to_live;
    /// The instances of a job that has ended are shown, with how they ended.
    9 "job/shows-ended-instances" [Jobs] => shows_ended;
    /// A job that has ended does not run again when it is launched again.
    4 "job/ended-runs-once" [Jobs] => ended_runs_once;
    /// Any change of a job is refused, unless it is replaced.
    4 "job/change-must-replace" [Jobs] => change_must_replace;
    /// A service does not become a job in place.
    4 "job/kind-must-replace" [Jobs] => kind_must_replace;
    /// Waiting for a job ends with its end.
    11 "job/wait" [Jobs] => wait;
    /// A deleted job leaves nothing.
    8 "job/delete" [Jobs] => delete;
    /// A job appears in a list as what it is.
    9 "job/listed" [Jobs] => listed;
    /// A periodic job is idle until it is due; its verdict says so.
    9 "periodic/idle" [PeriodicJobs] => periodic_idle;
    /// A suspended one says so.
    9 "periodic/suspended" [PeriodicJobs] => periodic_suspended;
    /// Schedule, job and suspension are changed in place; the same again is Unchanged.
    4 "periodic/changes-in-place" [PeriodicJobs] => periodic_changes;
    /// A deleted periodic job leaves nothing.
    8 "periodic/delete" [PeriodicJobs] => periodic_delete;
    /// A system is healthy with an instance on each node.
    9 "system/healthy" [Systems] => system_healthy;
    /// A system that no node satisfies has nothing to do.
    9 "system/no-node" [Systems, NodeRules] => system_no_node;
    /// An update of a system replaces its instances; the same again is Unchanged.
    4 "system/update" [Systems] => system_update;
    /// A deleted system leaves nothing.
    8 "system/delete" [Systems] => system_delete;
    /// Stable instances have the ordinals from zero.
    9 "stable/ordinals" [StableIdentities] => stable_ordinals;
    /// A successor has the ordinal of its predecessor, and starts when that has ended.
    9 "stable/successor" [StableIdentities, OrderedSuccessors] => stable_successor;
    /// An update of stable instances keeps the ordinals.
    9 "stable/update" [StableIdentities] => stable_update;
    /// A scale of stable instances takes the highest ordinals away.
    5 "stable/scale" [StableIdentities, Scale] => stable_scale;
    /// Interchangeable instances do not become stable in place.
    4 "stable/must-replace" [StableIdentities] => stable_must_replace;
}

async fn completes(ctx: Ctx) -> Outcome {
    let launched = ctx.launch(ctx.job("work", Fate::Done { after: 2, exit_code: 0 })).await?;
    check_eq!(launched.change, Change::Created, "the launch");
    ctx.settle("work", "running", |seen| Ok(seen.verdict() == Verdict::Progressing(Waiting::Running))).await?;
    let done = ctx.verdict("work", Verdict::Complete).await?;
    check_eq!(done.finished, Some(Finished::Complete), "how it ended");
    check_eq!((done.counts.desired, done.counts.succeeded, done.counts.failed), (1, 1, 0), "the counts");
    check_eq!(done.revision, Some(launched.revision), "the revision");
    check_eq!(done.diagnoses, vec![], "the diagnoses");
    Ok(())
}

async fn fails(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.job("work", FAILS)).await?;
    let failed = ctx.verdict("work", Verdict::Failed).await?;
    check_eq!(failed.counts.succeeded, 0, "the completions");
    let diagnosis = failed.diagnoses.iter().find(|d| d.kind == DiagnosisKind::Exited);
    let code = diagnosis.map(|diagnosis| diagnosis.evidence.exit_code);
    check_eq!(code, Some(Some(3)), "the exit code in the diagnosis Exited");
    Ok(())
}

async fn signal(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.job("work", Fate::Killed { after: 1, signal: 9 })).await?;
    let failed = ctx.verdict("work", Verdict::Failed).await?;
    let told = failed.diagnoses.iter().any(|d| d.evidence.signal == Some(9));
    check!(told, "no diagnosis tells the signal: {:?}", failed.diagnoses);
    let ended = failed.instances.iter().any(|i| i.exit.is_some_and(|exit| exit.signal == Some(9)));
    check!(ended, "no instance tells the signal: {:?}", failed.instances);
    Ok(())
}

async fn retries(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.job("work", FAILS).with_job(|job| job.retries = 2)).await?;
    let failed = ctx.verdict("work", Verdict::Failed).await?;
    // Attempts are instances of their own, or restarts of one.
    let attempts: usize = failed.instances.iter().map(|i| 1 + i.restarts as usize).sum();
    check_eq!(attempts, 3, "how often it was tried");
    Ok(())
}

async fn completions(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.job("work", DONE).with_job(|job| job.completions = 3)).await?;
    let done = ctx.verdict("work", Verdict::Complete).await?;
    check_eq!((done.counts.desired, done.counts.succeeded), (3, 3), "the completions");
    let ordinals: BTreeSet<_> = done.instances.iter().filter_map(|instance| instance.ordinal).collect();
    check_eq!(ordinals, BTreeSet::from([0, 1, 2]), "the ordinals");
    Ok(())
}

async fn parallelism(ctx: Ctx) -> Outcome {
    let two = |job: &mut crate::Job| (job.completions, job.parallelism) = (4, Some(2));
    ctx.launch(ctx.job("work", Fate::Done { after: 2, exit_code: 0 }).with_job(two)).await?;
    let mut most = 0;
    let few = |seen: &crate::Observation| {
        most = most.max(seen.counts.live);
        Ok(seen.verdict() == Verdict::Complete)
    };
    let done = ctx.settle("work", "complete", few).await?;
    check_eq!(done.counts.succeeded, 4, "the completions");
    check!(most <= 2, "{most} instances ran at a time, two may");
    Ok(())
}

async fn deadline(ctx: Ctx) -> Outcome {
    let short = |job: &mut crate::Job| job.deadline = Some(crate::Seconds::new(2));
    ctx.launch(ctx.job("work", Fate::Run).with_job(short)).await?;
    let failed = ctx.verdict("work", Verdict::Failed).await?;
    let kinds: Vec<_> = failed.diagnoses.iter().map(|d| d.kind).collect();
    check!(kinds.contains(&DiagnosisKind::JobDeadline), "the diagnoses are {kinds:?}");
    Ok(())
}

async fn never_started(ctx: Ctx) -> Outcome {
    let short = |job: &mut crate::Job| job.deadline = Some(crate::Seconds::new(2));
    ctx.launch(ctx.job("work", Fate::PullError).with_job(short)).await?;
    let failed = ctx.verdict("work", Verdict::Failed).await?;
    check_eq!((failed.counts.succeeded, failed.finished), (0, Some(Finished::Failed)), "completions, and the end");
    let exits: Vec<_> = failed.instances.iter().filter_map(|instance| instance.exit).collect();
    check_eq!(exits, vec![], "the exits of what never started");
    Ok(())
}

async fn time_to_live(ctx: Ctx) -> Outcome {
    let short = |job: &mut crate::Job| job.time_to_live = Some(crate::Seconds::new(1));
    ctx.launch(ctx.job("work", DONE).with_job(short)).await?;
    ctx.look("work", "gone by itself", |seen| Ok(seen.is_none())).await?;
    Ok(())
}

async fn shows_ended(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.job("good", DONE)).await?;
    ctx.launch(ctx.job("bad", FAILS)).await?;
    for (name, verdict, code) in [("good", Verdict::Complete, 0), ("bad", Verdict::Failed, 3)] {
        let seen = ctx.verdict(name, verdict).await?;
        let ends: Vec<_> = seen.instances.iter().map(|i| (i.state, i.exit)).collect();
        check_eq!(ends, vec![(InstanceState::Ended, Some(Exit::new(code)))], "the instances of {name}");
        check_eq!(seen.counts.live, 0, "the live instances of {name}");
    }
    Ok(())
}

async fn ended_runs_once(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.job("work", DONE)).await?;
    let done = ctx.verdict("work", Verdict::Complete).await?;
    let again = ctx.launch(ctx.job("work", DONE)).await?;
    check_eq!(again.change, Change::Unchanged, "the same launch again");
    let after = ctx.seen("work").await?;
    check_eq!(after.verdict(), Verdict::Complete, "the verdict after it");
    check_eq!((after.incarnation, after.counts), (done.incarnation, done.counts), "incarnation and counts after it");
    Ok(())
}

async fn change_must_replace(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.job("work", DONE)).await?;
    let done = ctx.verdict("work", Verdict::Complete).await?;
    let changed = || ctx.with_fate(ctx.job("work", DONE), DONE, "2");
    let before = ctx.objects().await?;
    let kind = refused("a launch of another image", ctx.try_launch(changed(), Guard::IfOwned).await?)?;
    check_eq!(kind, ErrorKind::MustReplace, "its error");
    check_eq!(ctx.objects().await?, before, "the objects after it");
    let options = WaitOptions::default().total(ctx.timing().settle).poll(ctx.timing().poll);
    let replaced = ctx.scheduler.launch_or_replace(Launch::new(checked(changed())?), &options).await?;
    check_eq!(replaced.change, Change::Updated(Effect::Replaced), "launch_or_replace");
    let new = ctx.verdict("work", Verdict::Complete).await?;
    check!(new.incarnation != done.incarnation, "it is still the old one");
    check_eq!(new.revision, Some(replaced.revision), "the revision");
    Ok(())
}

async fn kind_must_replace(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.idle("web")).await?;
    let kind = refused("a launch as a job", ctx.try_launch(ctx.job("web", DONE), Guard::IfOwned).await?)?;
    check_eq!(kind, ErrorKind::MustReplace, "its error");
    check_eq!(ctx.seen("web").await?.kind, KindName::Service, "the kind after it");
    let options = WaitOptions::default().total(ctx.timing().settle).poll(ctx.timing().poll);
    let launch = Launch::new(checked(ctx.job("web", DONE))?);
    let replaced = ctx.scheduler.launch_or_replace(launch, &options).await?;
    check_eq!(replaced.change, Change::Updated(Effect::Replaced), "launch_or_replace");
    ctx.verdict("web", Verdict::Complete).await?;
    Ok(())
}

async fn wait(ctx: Ctx) -> Outcome {
    let options = WaitOptions::default().total(ctx.timing().settle).poll(ctx.timing().poll);
    let good = Launch::new(checked(ctx.job("good", DONE))?);
    let (_, outcome) = ctx.scheduler.launch_and_wait(good, &options).await?;
    check_eq!(outcome, WaitOutcome::Succeeded, "waiting for a job that ends well");
    let bad = Launch::new(checked(ctx.job("bad", FAILS))?);
    let (_, outcome) = ctx.scheduler.launch_and_wait(bad, &options).await?;
    let WaitOutcome::Failed(diagnoses) = outcome else {
        return Err(Failure(format!("waiting for a job that ends badly: {outcome:?}")));
    };
    check!(!diagnoses.is_empty(), "nothing says why it failed");
    Ok(())
}

async fn delete(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.job("done", DONE)).await?;
    ctx.launch(ctx.job("runs", Fate::Run)).await?;
    ctx.verdict("done", Verdict::Complete).await?;
    ctx.settle("runs", "running", |seen| Ok(seen.counts.ready == 1)).await?;
    check!(ctx.delete_whole("done").await?, "the ended job was not there");
    check!(ctx.delete_whole("runs").await?, "the running job was not there");
    ctx.nothing_left().await
}

async fn listed(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.job("work", DONE)).await?;
    ctx.launch(ctx.idle("web")).await?;
    let kinds: Vec<_> =
        ctx.scheduler.list_all().await?.into_iter().map(|seen| (seen.target.name.to_string(), seen.kind)).collect();
    check_eq!(
        kinds,
        vec![("web".to_owned(), KindName::Service), ("work".to_owned(), KindName::Job)],
        "names and kinds in the list"
    );
    Ok(())
}

async fn periodic_idle(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.periodic("nightly")).await?;
    let seen = ctx.verdict("nightly", Verdict::Idle).await?;
    check_eq!(seen.kind, KindName::Periodic, "the kind");
    check_eq!(seen.schedule.map(|schedule| schedule.active), Some(0), "the runs that go on");
    check_eq!(seen.counts.desired, 0, "the instances desired");
    Ok(())
}

async fn periodic_suspended(ctx: Ctx) -> Outcome {
    let suspended = || ctx.periodic("nightly").with_periodic(|periodic| periodic.suspend = true);
    ctx.launch(suspended()).await?;
    ctx.verdict("nightly", Verdict::Suspended).await?;
    check_eq!(ctx.launch(suspended()).await?.change, Change::Unchanged, "the same launch again");
    ctx.launch(ctx.periodic("nightly")).await?;
    ctx.verdict("nightly", Verdict::Idle).await?;
    Ok(())
}

async fn periodic_changes(ctx: Ctx) -> Outcome {
    let first = ctx.launch(ctx.periodic("nightly")).await?;
    check_eq!(ctx.launch(ctx.periodic("nightly")).await?.change, Change::Unchanged, "the same launch again");
    let schedule = |p: &mut crate::Periodic| p.schedule = "30 1 29 2 *".to_owned();
    let zone = |p: &mut crate::Periodic| p.time_zone = "Europe/Berlin".to_owned();
    let overlap = |p: &mut crate::Periodic| p.overlap = crate::Overlap::Allow;
    let retries = |job: &mut crate::Job| job.retries = 1;
    let changes = [
        ("another schedule", ctx.periodic("nightly").with_periodic(schedule)),
        ("another time zone", ctx.periodic("nightly").with_periodic(zone)),
        ("another overlap", ctx.periodic("nightly").with_periodic(overlap)),
        ("another job", ctx.periodic("nightly").with_job(retries)),
        ("another image", ctx.with_fate(ctx.periodic("nightly"), DONE, "2")),
        ("the first again", ctx.periodic("nightly")),
    ];
    let mut last = first.revision.clone();
    for (what, workload) in changes {
        let launched = ctx.launch(workload.clone()).await?;
        check!(
            matches!(launched.change, Change::Updated(Effect::InPlace | Effect::Rolling)),
            "{what}: {}",
            launched.change
        );
        check!(launched.revision != last, "{what} has the revision of what was there before");
        last = launched.revision;
        check_eq!(ctx.launch(workload).await?.change, Change::Unchanged, "{what}, again");
    }
    check_eq!(last, first.revision, "the revision of the first, again");
    Ok(())
}

async fn periodic_delete(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.periodic("nightly")).await?;
    check!(ctx.delete_whole("nightly").await?, "it was not there");
    ctx.nothing_left().await
}

async fn system_healthy(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.system("agent")).await?;
    let seen = ctx.healthy("agent").await?;
    check_eq!(seen.kind, KindName::System, "the kind");
    check!(seen.counts.desired > 0, "it wants no instance");
    check_eq!(seen.counts.ready, seen.counts.desired, "the ready instances");
    let nodes: BTreeSet<_> = seen.instances.iter().filter_map(|instance| instance.node.clone()).collect();
    check_eq!(nodes.len(), seen.instances.len(), "the nodes that have one");
    Ok(())
}

async fn system_no_node(ctx: Ctx) -> Outcome {
    let rule = NodeRule::is_in("example.org/pool", ["there-is-none"]);
    ctx.launch(ctx.system("agent").require(rule)).await?;
    let seen = ctx.healthy("agent").await?;
    check_eq!((seen.counts.desired, seen.counts.live), (0, 0), "the instances");
    Ok(())
}

async fn system_update(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.system("agent")).await?;
    let old = ctx.healthy("agent").await?;
    let changed = || ctx.with_tag(ctx.system("agent"), "2");
    check!(matches!(ctx.launch(changed()).await?.change, Change::Updated(_)), "another image is no update");
    let new = |seen: &crate::Observation| Ok(seen.verdict() == Verdict::Healthy && ids(seen).is_disjoint(&ids(&old)));
    ctx.settle("agent", "healthy with other instances", new).await?;
    check_eq!(ctx.launch(changed()).await?.change, Change::Unchanged, "the same launch again");
    Ok(())
}

async fn system_delete(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.system("agent")).await?;
    ctx.healthy("agent").await?;
    check!(ctx.delete_whole("agent").await?, "it was not there");
    ctx.nothing_left().await
}

fn ordinals(seen: &crate::Observation) -> Vec<Option<u32>> {
    let living = seen.instances.iter().filter(|instance| instance.state != InstanceState::Ended);
    let mut ordinals: Vec<_> = living.map(|instance| instance.ordinal).collect();
    ordinals.sort_unstable();
    ordinals
}

async fn stable_ordinals(ctx: Ctx) -> Outcome {
    let seen = ctx.launch_healthy(ctx.service("db").replicas(3).stable()).await?;
    check_eq!(ordinals(&seen), vec![Some(0), Some(1), Some(2)], "the ordinals");
    check_eq!(ctx.launch(ctx.service("db").replicas(3).stable()).await?.change, Change::Unchanged, "the launch again");
    Ok(())
}

async fn stable_successor(ctx: Ctx) -> Outcome {
    // They take their time to end.
    let old = ids(&ctx.launch_healthy(ctx.fated("db", Fate::Stubborn).replicas(2).stable()).await?);
    ctx.launch(ctx.with_tag(ctx.service("db").replicas(2).stable(), "2")).await?;
    let one_each = |seen: &crate::Observation| {
        let runs = [InstanceState::Running, InstanceState::Ready, InstanceState::Terminating];
        let running = |i: &&crate::Instance| runs.contains(&i.state);
        let of: Vec<_> = seen.instances.iter().filter(running).map(|i| i.ordinal).collect();
        let once: BTreeSet<_> = of.iter().collect();
        check_eq!(once.len(), of.len(), "the instances that run, by ordinal {of:?}");
        Ok(seen.verdict() == Verdict::Healthy && ids(seen).is_disjoint(&old))
    };
    let new = ctx.settle("db", "healthy with other instances", one_each).await?;
    check_eq!(ordinals(&new), vec![Some(0), Some(1)], "the ordinals in the end");
    Ok(())
}

async fn stable_update(ctx: Ctx) -> Outcome {
    let old = ids(&ctx.launch_healthy(ctx.service("db").replicas(2).stable()).await?);
    ctx.launch(ctx.with_tag(ctx.service("db").replicas(2).stable(), "2")).await?;
    let other = |seen: &crate::Observation| Ok(seen.verdict() == Verdict::Healthy && ids(seen).is_disjoint(&old));
    let new = ctx.settle("db", "healthy with other instances", other).await?;
    check_eq!(ordinals(&new), vec![Some(0), Some(1)], "the ordinals");
    Ok(())
}

async fn stable_scale(ctx: Ctx) -> Outcome {
    let before = ctx.launch_healthy(ctx.service("db").replicas(3).stable()).await?;
    ctx.scheduler.scale(crate::Scale::new(ctx.target("db")?, 1)).await?;
    let after = ctx.settle("db", "one", |seen| Ok(seen.verdict() == Verdict::Healthy && seen.counts.live == 1)).await?;
    check_eq!(ordinals(&after), vec![Some(0)], "the ordinals that are left");
    check!(ids(&after).is_subset(&ids(&before)), "the one that is left was replaced");
    Ok(())
}

async fn stable_must_replace(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.idle("db")).await?;
    let kind = refused("a launch as stable", ctx.try_launch(ctx.idle("db").stable(), Guard::IfOwned).await?)?;
    check_eq!(kind, ErrorKind::MustReplace, "its error");
    Ok(())
}
