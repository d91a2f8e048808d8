//! What a schedule does. Platforms look at it each minute, so that these take minutes where the clock cannot be hurried.

use std::time::Duration;

use super::cases;
use crate::conformance::ctx::{Ctx, DONE, check, check_eq};
use crate::conformance::{Failure, Outcome};
use crate::memory::Fate;
use crate::{Exit, InstanceState, Observation, Overlap, Periodic, Workload};

cases! {
    /// A run begins when it is due, and its end is shown.
    9 "schedule/runs-when-due" [PeriodicJobs] => runs_when_due;
    /// A suspended schedule begins nothing.
    9 "schedule/suspended" [PeriodicJobs] => suspended;
    /// No run begins beside the last one, where that is forbidden.
    9 "schedule/overlap-forbidden" [PeriodicJobs] => overlap_forbidden;
    /// Runs stand beside one another, where that is allowed.
    9 "schedule/overlap-allowed" [PeriodicJobs] => overlap_allowed;
    /// A new run ends the last one, where it replaces it.
    9 "schedule/overlap-replaced" [PeriodicJobs, ReplaceOverlap] => overlap_replaced;
    /// Of the runs that ended well so many are kept as the workload says.
    9 "schedule/kept-runs" [PeriodicJobs, PeriodicHistory] => kept_runs;
}

/// A job that is due each minute.
fn each_minute(ctx: &Ctx, fate: Fate, change: impl FnOnce(&mut Periodic)) -> Workload {
    let due = |periodic: &mut Periodic| {
        periodic.schedule = "* * * * *".to_owned();
        change(periodic);
    };
    ctx.with_fate(ctx.periodic("often"), fate, "1").with_periodic(due)
}

/// Looks until the condition holds, for longer than cases do elsewhere.
async fn look(
    ctx: &Ctx,
    minutes: u32,
    what: &str,
    mut holds: impl FnMut(&Observation) -> Result<bool, Failure> + Send,
) -> Outcome {
    let end = tokio::time::Instant::now() + Duration::from_secs(60) * minutes + ctx.timing().settle;
    loop {
        let seen = ctx.seen("often").await?;
        if holds(&seen)? {
            return Ok(());
        }
        let last = crate::conformance::ctx::brief(&seen);
        check!(tokio::time::Instant::now() < end, "it never was {what}; last seen: {last}");
        tokio::time::sleep(ctx.timing().poll).await;
    }
}

fn active(seen: &Observation) -> Result<u32, Failure> {
    let schedule = seen.schedule.ok_or_else(|| Failure("nothing is said of the schedule".to_owned()))?;
    Ok(schedule.active)
}

/// For so long by the server's clock it stays as the condition says.
async fn stays(ctx: &Ctx, seconds: u64, holds: impl Fn(&Observation) -> Outcome + Send) -> Outcome {
    let since = ctx.seen("often").await?.at;
    let long = move |seen: &Observation| {
        holds(seen)?;
        Ok(seen.at.since(since) >= Duration::from_secs(seconds))
    };
    look(ctx, 2, "watched for long enough", long).await
}

async fn runs_when_due(ctx: Ctx) -> Outcome {
    ctx.launch(each_minute(&ctx, DONE, |_| ())).await?;
    let ended = |seen: &Observation| {
        let ends = || seen.instances.iter().filter(|i| i.state == InstanceState::Ended);
        Ok(ends().any(|i| i.exit == Some(Exit::new(0)))
            && seen.schedule.is_some_and(|schedule| schedule.last.is_some()))
    };
    look(&ctx, 2, "with a run that ended well", ended).await?;
    check!(ctx.delete_whole("often").await?, "it was not there");
    ctx.nothing_left().await
}

async fn suspended(ctx: Ctx) -> Outcome {
    ctx.launch(each_minute(&ctx, DONE, |periodic| periodic.suspend = true)).await?;
    stays(&ctx, 65, |seen| {
        check_eq!(
            (active(seen)?, seen.instances.len()),
            (0, 0),
            "the runs of a suspended schedule, and their instances"
        );
        Ok(())
    })
    .await
}

async fn overlap_forbidden(ctx: Ctx) -> Outcome {
    ctx.launch(each_minute(&ctx, Fate::Run, |periodic| periodic.overlap = Overlap::Forbid)).await?;
    look(&ctx, 2, "running", |seen| Ok(active(seen)? == 1)).await?;
    stays(&ctx, 65, |seen| {
        check_eq!(active(seen)?, 1, "the runs beside one another");
        Ok(())
    })
    .await
}

async fn overlap_allowed(ctx: Ctx) -> Outcome {
    ctx.launch(each_minute(&ctx, Fate::Run, |periodic| periodic.overlap = Overlap::Allow)).await?;
    look(&ctx, 3, "running twice", |seen| Ok(active(seen)? == 2)).await
}

async fn overlap_replaced(ctx: Ctx) -> Outcome {
    ctx.launch(each_minute(&ctx, Fate::Run, |periodic| periodic.overlap = Overlap::Replace)).await?;
    let mut first = None;
    look(&ctx, 2, "running", |seen| {
        let running = seen.instances.iter().find(|i| i.state == InstanceState::Ready);
        first = running.map(|i| i.id.clone());
        Ok(first.is_some())
    })
    .await?;
    look(&ctx, 2, "running anew", |seen| {
        let running: Vec<_> =
            seen.instances.iter().filter(|i| i.state == InstanceState::Ready).map(|i| &i.id).collect();
        Ok(running.len() == 1 && running.first().copied() != first.as_ref())
    })
    .await
}

async fn kept_runs(ctx: Ctx) -> Outcome {
    ctx.launch(each_minute(&ctx, DONE, |periodic| periodic.keep_succeeded = Some(1))).await?;
    let mut seen_ids = std::collections::BTreeSet::new();
    look(&ctx, 4, "through three runs", |seen| {
        let ended = seen.instances.iter().filter(|i| i.state == InstanceState::Ended);
        seen_ids.extend(ended.map(|i| i.id.clone()));
        Ok(seen_ids.len() >= 3)
    })
    .await?;
    // The platform forgets a little later.
    look(&ctx, 1, "with one ended run", |seen| {
        Ok(seen.instances.iter().filter(|i| i.state == InstanceState::Ended).count() <= 1)
    })
    .await
}
