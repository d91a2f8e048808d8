//! What has to change so that the allocations are as the job says. Pure: it reads, and decides.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::objects::{Alloc, ClientStatus, Deployment, DeploymentStatus};
use crate::{
    job::{DesiredUpdates, Group, Job, Reschedule, replaces},
    time::Time,
};

/// An allocation that is due this soon is replaced at once.
const WINDOW: Duration = Duration::from_secs(1);
pub(crate) const NOT_NEEDED: &str = "alloc not needed due to job update";
pub(crate) const UPDATED: &str = "alloc is being updated due to job update";
pub(crate) const LOST: &str = "alloc is lost since its node is down";

/// What the decision is made from.
pub(crate) struct Situation<'a> {
    /// None after a purge.
    pub(crate) job: Option<&'a Job>,
    pub(crate) allocs: Vec<&'a Alloc>,
    /// The latest deployment of the job.
    pub(crate) deployment: Option<&'a Deployment>,
    /// Nodes that are down.
    pub(crate) down: BTreeSet<&'a str>,
    /// Whether the node that an allocation is on would still be allowed.
    pub(crate) may_stay: &'a dyn Fn(&Alloc) -> bool,
    /// The evaluation that asks.
    pub(crate) eval: &'a str,
    pub(crate) now: Time,
}

#[derive(Debug, Default)]
pub(crate) struct Decision {
    pub(crate) stops: Vec<Stop>,
    /// They keep running, as part of the new version.
    pub(crate) in_place: Vec<String>,
    pub(crate) placements: Vec<Placement>,
    /// Failed allocations that are to be replaced later.
    pub(crate) later: Vec<(String, Time)>,
    /// How many allocations each group of a new deployment has.
    pub(crate) new_deployment: Option<BTreeMap<String, u64>>,
    pub(crate) deployment_ends: Option<(String, DeploymentStatus)>,
    pub(crate) updates: BTreeMap<String, DesiredUpdates>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stop {
    pub(crate) alloc: String,
    pub(crate) description: &'static str,
    pub(crate) lost: bool,
}

#[derive(Debug)]
pub(crate) struct Placement {
    pub(crate) group: String,
    pub(crate) slot: u64,
    pub(crate) replaces: Replaces,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Replaces {
    Nothing,
    /// It runs on until its replacement has a place.
    Updated(String),
    /// It has failed, and is replaced by its policy after so long.
    Failed(String, Duration),
    Lost(String),
}

pub(crate) fn reconcile(situation: &Situation<'_>) -> Decision {
    let mut decision = Decision::default();
    let Some(job) = situation.job else { return decision };
    let current = situation.deployment.filter(|deployment| {
        deployment.job_version == job.version && deployment.job_create_index == job.create_index && !job.stop
    });
    if let Some(old) = situation.deployment
        && old.is_active()
        && current.is_none()
    {
        let status = if job.stop { DeploymentStatus::CancelledStopped } else { DeploymentStatus::CancelledNewer };
        decision.deployment_ends = Some((old.id.clone(), status));
    }
    // One that was successful has done its work.
    let current = current.filter(|deployment| deployment.status != DeploymentStatus::Successful);
    let groups = situation.allocs.iter().map(|alloc| alloc.group.as_str());
    let live = |name: &&str| situation.allocs.iter().any(|alloc| alloc.group == *name && !alloc.is_terminal());
    let removed: BTreeSet<_> = groups.filter(|name| job.spec.view.group(name).is_none()).filter(live).collect();
    for name in removed {
        stop_group(situation, name, &mut decision);
    }
    let mut new_deployment = BTreeMap::new();
    let mut wanted = false;
    let mut complete = true;
    for group in &job.spec.view.groups {
        if job.stop {
            stop_group(situation, &group.name, &mut decision);
            continue;
        }
        let outcome = reconcile_group(situation, job, group, current, &mut decision);
        if group.rollout().is_some() && group.count > 0 {
            new_deployment.insert(group.name.clone(), u64::try_from(group.count).unwrap_or(0));
            wanted |= outcome.starts_deployment;
        }
        complete &= outcome.complete;
    }
    if let Some(deployment) = current.filter(|deployment| deployment.is_active()) {
        if complete {
            decision.deployment_ends = Some((deployment.id.clone(), DeploymentStatus::Successful));
        }
    } else if current.is_none() && wanted {
        decision.new_deployment = Some(new_deployment);
    }
    decision
}

fn stop_group(situation: &Situation<'_>, name: &str, decision: &mut Decision) {
    let updates = decision.updates.entry(name.to_owned()).or_default();
    for alloc in situation.allocs.iter().filter(|alloc| alloc.group == name && !alloc.is_terminal()) {
        let lost = situation.down.contains(alloc.node.as_str());
        let description = if lost { LOST } else { NOT_NEEDED };
        decision.stops.push(Stop { alloc: alloc.id.clone(), description, lost });
        updates.stop += 1;
    }
}

struct GroupOutcome {
    /// Something of it belongs into a deployment.
    starts_deployment: bool,
    /// Nothing is left to do for the deployment.
    complete: bool,
}

/// The allocations of a group, by what is to become of them.
#[derive(Default)]
struct Sorted<'a> {
    /// They count.
    here: Vec<&'a Alloc>,
    lost: Vec<&'a Alloc>,
    now: Vec<(&'a Alloc, Duration)>,
    later: Vec<(&'a Alloc, Time)>,
}

fn sort<'a>(situation: &Situation<'a>, group: &Group, deployment: Option<&Deployment>) -> Sorted<'a> {
    let mut sorted = Sorted::default();
    for alloc in situation.allocs.iter().filter(|alloc| alloc.group == group.name) {
        let ended = matches!(alloc.status, ClientStatus::Complete | ClientStatus::Lost);
        if !alloc.wanted || ended || (alloc.next.is_some() && alloc.status.is_terminal()) {
            continue;
        }
        if alloc.status != ClientStatus::Failed {
            let lost = situation.down.contains(alloc.node.as_str());
            if lost {
                sorted.lost.push(alloc)
            } else {
                sorted.here.push(alloc)
            }
            continue;
        }
        // A deployment decides itself whether what failed in it is replaced.
        let part = deployment.filter(|deployment| alloc.deployment.as_deref() == Some(&deployment.id));
        let held = part.is_some_and(|part| part.has_failed() || !alloc.may_reschedule);
        let due = group.reschedule_policy.as_ref().and_then(|policy| due(alloc, policy)).filter(|_| !held);
        let matched = alloc.followup.as_deref() == Some(situation.eval);
        match due {
            Some((at, delay)) if matched || at <= situation.now.after(WINDOW) => sorted.now.push((alloc, delay)),
            Some((at, _)) if alloc.followup.is_none() => {
                sorted.here.push(alloc);
                sorted.later.push((alloc, at));
            }
            _ => sorted.here.push(alloc),
        }
    }
    sorted
}

fn reconcile_group(
    situation: &Situation<'_>,
    job: &Job,
    group: &Group,
    deployment: Option<&Deployment>,
    decision: &mut Decision,
) -> GroupOutcome {
    let count = usize::try_from(group.count).unwrap_or(0);
    let mut updates = DesiredUpdates::default();
    let Sorted { mut here, lost, now, later } = sort(situation, group, deployment);
    let failed_deployment = deployment.is_some_and(Deployment::has_failed);

    // Those that have no place any more: what failed first, then what has the highest number.
    here.sort_by_key(|alloc| (alloc.status == ClientStatus::Failed, alloc.slot));
    let excess = (here.len() + now.len()).saturating_sub(count).min(here.len());
    let surplus = here.split_off(here.len() - excess);
    for alloc in surplus {
        decision.stops.push(Stop { alloc: alloc.id.clone(), description: NOT_NEEDED, lost: false });
        updates.stop += 1;
    }

    // Those that run, against the version that is wanted.
    here.sort_by_key(|alloc| alloc.slot);
    let mut destructive = Vec::new();
    let mut in_place = Vec::new();
    for alloc in &here {
        if alloc.job.job_modify_index == job.job_modify_index {
            updates.ignore += 1;
        } else if replaces(&alloc.job.spec, &job.spec, &group.name) {
            destructive.push(*alloc);
        } else if alloc.status.is_terminal() {
            updates.ignore += 1;
        } else if !(situation.may_stay)(alloc) {
            destructive.push(*alloc);
        } else {
            in_place.push(alloc.id.clone());
        }
    }
    updates.in_place += in_place.len() as u64;

    // New ones, for those that are lost or have failed, and for those that were never there.
    let mut slots: BTreeSet<_> = here.iter().map(|alloc| alloc.slot).collect();
    let mut places = Vec::new();
    let room = |places: &Vec<Placement>| here.len() + places.len() < count;
    for alloc in lost {
        decision.stops.push(Stop { alloc: alloc.id.clone(), description: LOST, lost: true });
        updates.stop += 1;
        if room(&places) {
            slots.insert(alloc.slot);
            let replaces = Replaces::Lost(alloc.id.clone());
            places.push(Placement { group: group.name.clone(), slot: alloc.slot, replaces });
        }
    }
    let rescheduled = now.len();
    for (alloc, delay) in now {
        decision.stops.push(Stop { alloc: alloc.id.clone(), description: "", lost: false });
        updates.stop += 1;
        if room(&places) {
            slots.insert(alloc.slot);
            let replaces = Replaces::Failed(alloc.id.clone(), delay);
            places.push(Placement { group: group.name.clone(), slot: alloc.slot, replaces });
        }
    }
    while room(&places) && !failed_deployment {
        let slot = (0..).find(|slot| slots.insert(*slot)).unwrap_or(0);
        places.push(Placement { group: group.name.clone(), slot, replaces: Replaces::Nothing });
    }
    updates.place += places.len() as u64;

    // Replaced are so many at a time as the update block allows.
    let allowed = allowance(&here, group, deployment).saturating_sub(places.len());
    let batch = destructive.len().min(allowed);
    updates.destructive += batch as u64;
    updates.ignore += (destructive.len() - batch) as u64;
    let placed = places.len();
    for alloc in destructive.iter().take(batch) {
        let replaces = Replaces::Updated(alloc.id.clone());
        places.push(Placement { group: group.name.clone(), slot: alloc.slot, replaces });
    }
    updates.reschedule_later += later.len() as u64;

    let had_version = situation.allocs.iter().any(|alloc| {
        alloc.group == group.name && alloc.job.version == job.version && alloc.job.create_index == job.create_index
    });
    let changes = !destructive.is_empty() || !in_place.is_empty();
    let state = deployment.and_then(|deployment| deployment.groups.get(&group.name));
    let healthy = state.is_none_or(|state| state.healthy >= state.desired);
    let outcome = GroupOutcome {
        starts_deployment: !had_version || changes,
        complete: !changes && placed == 0 && rescheduled == 0 && later.is_empty() && healthy,
    };
    decision.in_place.extend(in_place);
    decision.placements.extend(places);
    decision.later.extend(later.into_iter().map(|(alloc, at)| (alloc.id.clone(), at)));
    decision.updates.insert(group.name.clone(), updates);
    outcome
}

/// How many allocations may be replaced now.
fn allowance(here: &[&Alloc], group: &Group, deployment: Option<&Deployment>) -> usize {
    let Some(update) = group.rollout() else { return usize::MAX };
    let limit = usize::try_from(update.max_parallel).unwrap_or(usize::MAX);
    let Some(deployment) = deployment else { return limit };
    if !deployment.is_active() {
        return 0;
    }
    let part = here.iter().filter(|alloc| alloc.deployment.as_deref() == Some(&deployment.id));
    let mut pending = 0;
    for alloc in part {
        match alloc.health {
            Some(health) if health.healthy => {}
            Some(_) => return 0,
            None => pending += 1,
        }
    }
    limit.saturating_sub(pending)
}

/// Whether a failed allocation may be replaced at all, when, and after which delay.
fn due(alloc: &Alloc, policy: &Reschedule) -> Option<(Time, Duration)> {
    let tasks = alloc.tasks.iter().flat_map(BTreeMap::values);
    let failed_at = tasks.filter_map(|task| task.finished_at).max().unwrap_or(alloc.modify_time);
    if !policy.unlimited {
        let within = |at: Time| at.after(policy.interval) > failed_at;
        let attempts = alloc.reschedules.iter().filter(|event| within(event.at)).count();
        if i64::try_from(attempts).unwrap_or(i64::MAX) >= policy.attempts {
            return None;
        }
    }
    let mut past = alloc.reschedules.iter().rev().map(|event| event.delay);
    let delay = match (policy.delay_function.as_str(), past.next(), past.next()) {
        ("exponential", Some(last), _) => last.saturating_mul(2),
        ("fibonacci", Some(last), before) => last.saturating_add(before.unwrap_or_default()),
        _ => policy.delay,
    };
    let capped = if policy.max_delay.is_zero() { delay } else { delay.min(policy.max_delay) };
    Some((failed_at.after(capped), capped))
}

/// Whether a failed allocation will be replaced some time.
pub(crate) fn is_replaceable(alloc: &Alloc) -> bool {
    let group = alloc.job.spec.view.group(&alloc.group);
    group.and_then(|group| group.reschedule_policy.as_ref()).and_then(|policy| due(alloc, policy)).is_some()
}
