//! What each kind of workload has of its own: how a job ended, how many nodes a system is for, what a schedule did.

use std::collections::{BTreeMap, BTreeSet};

use scheduler_core::{Exit, Finished, KindName, ScheduleState, Timestamp};
use scheduler_nomad_client::model::{
    Allocation, ClientStatus, Deployment, EvalStatus, Job, JobStatus, JobType, TaskState,
};

use super::{NativeObjects, PeriodicRun, alloc, evaluations, is_wanted};
use crate::carry;

/// What a job is.
pub(crate) fn kind_of(job: &Job) -> KindName {
    match job.r#type {
        JobType::System => KindName::System,
        JobType::Batch if job.periodic.is_some() => KindName::Periodic,
        JobType::Batch => KindName::Job,
        _ => KindName::Service,
    }
}

/// The index in an allocation's name, `job.group[index]`.
pub(crate) fn index_of(alloc: &Allocation) -> Option<u32> {
    alloc.name.strip_suffix(']')?.rsplit_once('[')?.1.parse().ok()
}

/// How a task ended last.
pub(super) fn exit_of(state: &TaskState) -> Option<Exit> {
    let event = state.events.iter().rev().find(|event| event.r#type == "Terminated")?;
    let number = |key: &str| event.details.get(key).and_then(|text| text.parse::<i32>().ok());
    let mut exit = Exit::new(number("exit_code")?);
    exit.signal = number("signal").filter(|signal| *signal != 0);
    exit.out_of_memory = event.details.get("oom_killed").is_some_and(|text| text == "true");
    Some(exit)
}

/// How the main container of an allocation ended, once that has.
pub(super) fn exit(job: &Job, alloc: &Allocation) -> Option<Exit> {
    let main = carry::main_task(job)?;
    alloc.task_states.get(&main.name).filter(|_| alloc.client_status.is_terminal()).and_then(exit_of)
}

/// Whether an allocation of a job ended as it should: of its own accord, and not for want of memory.
fn is_success(job: &Job, alloc: &Allocation) -> bool {
    alloc.client_status == ClientStatus::Complete
        && is_wanted(alloc)
        && exit(job, alloc).is_none_or(|exit| !exit.out_of_memory)
}

/// What became of a job.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) finished: Option<Finished>,
    pub(super) succeeded: u32,
    pub(super) failed: u32,
}

/// Judges a job by the allocations of its present life, the last one of each completion. The job's own status is not asked: it
/// is `pending` after a failure that nobody mends (hashicorp/nomad#12489).
pub(super) fn outcome<'a>(job: &Job, completions: u32, allocations: impl Iterator<Item = &'a Allocation>) -> Outcome {
    let mut outcome = Outcome::default();
    let mut last: BTreeMap<u32, &Allocation> = BTreeMap::new();
    for alloc in allocations {
        let main = carry::main_task(job).and_then(|main| alloc.task_states.get(&main.name));
        let tries = main.map_or(0, |main| u32::try_from(main.restarts).unwrap_or(u32::MAX));
        let ended_badly = alloc.client_status.is_terminal() && !is_success(job, alloc);
        outcome.failed = outcome.failed.saturating_add(tries).saturating_add(ended_badly.into());
        let place = last.entry(index_of(alloc).unwrap_or(0)).or_insert(alloc);
        // One that succeeded is not run again.
        if !is_success(job, place) && (is_success(job, alloc) || alloc.create_index > place.create_index) {
            *place = alloc;
        }
    }
    let succeeded = last.values().filter(|alloc| is_success(job, alloc)).count();
    outcome.succeeded = u32::try_from(succeeded).unwrap_or(u32::MAX);
    let hopeless = |alloc: &Allocation| {
        alloc.client_status.is_terminal()
            && !is_success(job, alloc)
            && alloc.next_allocation.is_empty()
            && alloc.followup_eval_id.is_empty()
            // A lost one is placed anew as soon as the server has looked.
            && (alloc.client_status != ClientStatus::Lost || job.status == JobStatus::Dead)
    };
    let over = last.values().all(|alloc| alloc.client_status.is_terminal());
    if outcome.succeeded >= completions {
        outcome.finished = Some(Finished::Complete);
    } else if over && last.values().any(|alloc| hopeless(alloc)) {
        outcome.finished = Some(Finished::Failed);
    }
    outcome
}

/// For how many nodes a system is: those that have an instance, or lack the room for it. A node that the placement rules out
/// has neither, although the server calls it a failure (hashicorp/nomad#12748).
pub(super) fn nodes(objects: &NativeObjects<'_>, deployment: Option<&Deployment>) -> u32 {
    let live = objects.allocations.iter().filter(|alloc| alloc.job_id == objects.job.id && alloc::is_placed(alloc));
    let mut nodes: BTreeSet<&str> = live.map(|alloc| alloc.node_id.as_str()).collect();
    let blocked = evaluations(objects).filter(|eval| eval.status == EvalStatus::Blocked);
    nodes.extend(blocked.filter_map(|eval| eval.extra.get("NodeID")?.as_str()));
    let seen = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
    let planned = deployment.filter(|deployment| super::is_active(deployment));
    let planned: u64 = planned
        .into_iter()
        .flat_map(|deployment| deployment.task_groups.values())
        .map(|group| group.desired_total)
        .sum();
    seen.max(u32::try_from(planned).unwrap_or(u32::MAX))
}

/// What the schedule of a periodic job did, by the runs that the server keeps.
pub(super) fn schedule(runs: &[PeriodicRun]) -> ScheduleState {
    let active = runs.iter().filter(|run| run.is_active()).count();
    let started = |run: &PeriodicRun| {
        let seconds: i64 = run.job.id.rsplit_once("/periodic-")?.1.parse().ok()?;
        Some(Timestamp::from_millis(seconds.saturating_mul(1000)))
    };
    ScheduleState::new(runs.iter().filter_map(started).max(), u32::try_from(active).unwrap_or(u32::MAX))
}
