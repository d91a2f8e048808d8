//! What each kind of workload is on Nomad: the type of its job, how many instances, and what becomes of those that end.

use scheduler_core::{CheckedWorkload, Error, Feature, Job, Kind, Overlap, Periodic, Service, System, Update};
use serde_json::{Value, json};

use super::{lacking, nanos, unknown};

/// How often, and how fast, a task of a service is started again on its node, as near as Nomad comes to Kubernetes'
/// back-off of 10 s to 5 min: ten quick starts, then a pause until the interval is over, and so on for ever.
const RESTARTS: u32 = 10;
const RESTART_DELAY: u32 = 5;
const RESTART_INTERVAL: u32 = 300;
/// The pauses before an allocation that cannot be started on its node is placed anew.
const RESCHEDULE_DELAY: u32 = 10;
const LONGEST_RESCHEDULE_DELAY: u32 = 300;
/// The tries of a job are counted anew after this time: ten years, which is never. All of them have to fit in.
const RETRY_INTERVAL: u32 = 315_360_000;

pub(super) fn type_of(kind: &Kind) -> Result<&'static str, Error> {
    Ok(match kind {
        Kind::Service(_) => "service",
        Kind::Job(_) | Kind::Periodic(_) => "batch",
        Kind::System(_) => "system",
        _ => return Err(unknown("this kind of workload")),
    })
}

/// What the group has of its kind.
pub(super) fn group(workload: &CheckedWorkload, replicas: u32, group: &mut Value) -> Result<(), Error> {
    match &workload.kind {
        Kind::Service(service) => {
            group["Count"] = replicas.into();
            group["Update"] = service_update(workload, service, replicas)?;
            group["RestartPolicy"] = for_ever();
            group["ReschedulePolicy"] = json!({
                "Attempts": 0,
                "Delay": nanos(RESCHEDULE_DELAY),
                "DelayFunction": "exponential",
                "MaxDelay": nanos(LONGEST_RESCHEDULE_DELAY),
                "Unlimited": true,
            });
        }
        Kind::System(system) => {
            group["Count"] = 1.into();
            group["Update"] = system_update(workload, system);
            group["RestartPolicy"] = for_ever();
        }
        Kind::Job(job) | Kind::Periodic(Periodic { job, .. }) => {
            check_job(job)?;
            group["Count"] = job.completions.into();
            group["RestartPolicy"] = json!({
                "Attempts": job.retries,
                "Interval": nanos(RETRY_INTERVAL),
                "Delay": nanos(RESTART_DELAY),
                "Mode": "fail",
            });
            // Tries on another node would be counted apart.
            group["ReschedulePolicy"] = json!({"Attempts": 0, "Unlimited": false});
        }
        _ => return Err(unknown("this kind of workload")),
    }
    Ok(())
}

fn for_ever() -> Value {
    json!({
        "Attempts": RESTARTS,
        "Interval": nanos(RESTART_INTERVAL),
        "Delay": nanos(RESTART_DELAY),
        "Mode": "delay",
    })
}

fn check_job(job: &Job) -> Result<(), Error> {
    if job.at_a_time() < job.completions {
        return Err(lacking(Feature::JobParallelism));
    }
    if job.deadline.is_some() {
        return Err(lacking(Feature::JobDeadline));
    }
    if job.time_to_live.is_some() {
        return Err(lacking(Feature::JobTimeToLive));
    }
    Ok(())
}

/// When a periodic job runs.
pub(super) fn periodic(kind: &Kind, job: &mut Value) -> Result<(), Error> {
    let Kind::Periodic(periodic) = kind else { return Ok(()) };
    let prohibit = match periodic.overlap {
        Overlap::Forbid => true,
        Overlap::Allow => false,
        Overlap::Replace => return Err(lacking(Feature::ReplaceOverlap)),
        _ => return Err(unknown("this kind of overlap")),
    };
    if periodic.starting_deadline.is_some() {
        return Err(lacking(Feature::StartingDeadline));
    }
    if periodic.keep_succeeded.is_some() || periodic.keep_failed.is_some() {
        return Err(lacking(Feature::PeriodicHistory));
    }
    job["Periodic"] = json!({
        "Enabled": !periodic.suspend,
        "SpecType": "cron",
        "Specs": [periodic.schedule],
        "TimeZone": periodic.time_zone,
        "ProhibitOverlap": prohibit,
    });
    Ok(())
}

fn service_update(workload: &CheckedWorkload, service: &Service, replicas: u32) -> Result<Value, Error> {
    let mut update = update(workload, service.min_ready.get());
    match service.update {
        Update::Rolling(bounds) => {
            update["MaxParallel"] = bounds.max_unavailable.max(1).into();
            // Not with stable identities: those allow one to be missing.
            if bounds.max_unavailable == 0 {
                update["Canary"] = replicas.max(1).into();
                update["AutoPromote"] = true.into();
            }
        }
        Update::Canary(canary) => {
            update["MaxParallel"] = canary.at_a_time.into();
            update["Canary"] = canary.canaries.into();
        }
        Update::Recreate => return Err(lacking(Feature::Recreate)),
        _ => return Err(unknown("this kind of update")),
    }
    Ok(update)
}

fn system_update(workload: &CheckedWorkload, system: &System) -> Value {
    let mut update = update(workload, system.min_ready.get());
    update["MaxParallel"] = system.max_unavailable.into();
    update
}

/// What an update waits for, and how long.
fn update(workload: &CheckedWorkload, min_ready: u32) -> Value {
    let readiness = workload.containers.iter().filter_map(|container| container.probes.readiness.as_ref());
    let well = readiness.map(|probe| probe.initial_delay.get()).chain([min_ready]).max().unwrap_or(0);
    let deadline = workload.progress_deadline.get().max(workload.termination_grace.get()).max(well.saturating_add(2));
    let checked = workload.containers.iter().any(|c| c.probes.readiness.is_some() || c.probes.liveness.is_some());
    json!({
        "HealthCheck": if checked { "checks" } else { "task_states" },
        "MinHealthyTime": nanos(well),
        "HealthyDeadline": nanos(deadline - 1),
        "ProgressDeadline": nanos(deadline),
    })
}
