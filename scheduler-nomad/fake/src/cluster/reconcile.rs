//! What has to change so that the allocations are as the job says. Pure: it reads, and decides.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    objects::{Alloc, ClientStatus, Deployment, DeploymentStatus, GroupState},
    system::reconcile_system,
};
use crate::{
    job::{DesiredUpdates, Group, Job, Reschedule, replaces},
    time::Time,
};

/// An allocation that is due this soon is replaced at once.
const WINDOW: Duration = Duration::from_secs(1);
pub(crate) const NOT_NEEDED: &str = "alloc not needed due to job update";
pub(crate) const UPDATED: &str = "alloc is being updated due to job update";
pub(crate) const MIGRATED: &str = "alloc is being migrated";
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
    /// The nodes that may hold a group.
    pub(crate) nodes: &'a dyn Fn(&Group) -> BTreeSet<&'a str>,
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
    pub(crate) new_deployment: Option<BTreeMap<String, Desired>>,
    pub(crate) deployment_ends: Option<(String, DeploymentStatus)>,
    pub(crate) updates: BTreeMap<String, DesiredUpdates>,
}

/// How many allocations a group of a deployment has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Desired {
    pub(crate) total: u64,
    pub(crate) canaries: u64,
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
    pub(crate) canary: bool,
    /// No other will do.
    pub(crate) node: Option<String>,
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
    /// It has failed on its node, where nothing else counts how often.
    Dead(String),
    /// Somebody wants it elsewhere.
    Migrated(String),
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
    let stale = situation.deployment.filter(|latest| current.is_none() || latest.has_failed());
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
        let outcome = if job.spec.view.kind.starts_with("sys") {
            reconcile_system(situation, job, group, current, &mut decision)
        } else {
            let stale = stop_stale_canaries(situation, group, stale, &mut decision);
            reconcile_group(situation, job, group, (current, &stale), &mut decision)
        };
        if group.rollout().is_some() && group.count > 0 {
            let desired = Desired { total: outcome.total, canaries: outcome.canaries };
            new_deployment.insert(group.name.clone(), desired);
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

/// Canaries that were not promoted end with their deployment.
fn stop_stale_canaries<'a>(
    situation: &Situation<'a>,
    group: &Group,
    deployment: Option<&Deployment>,
    decision: &mut Decision,
) -> BTreeSet<&'a str> {
    let state = deployment.and_then(|deployment| deployment.groups.get(&group.name));
    let Some(state) = state.filter(|state| !state.promoted) else { return BTreeSet::new() };
    let stale = situation.allocs.iter().filter(|alloc| alloc.wanted && state.canaries.contains(&alloc.id));
    let stale: BTreeSet<_> = stale.map(|alloc| alloc.id.as_str()).collect();
    for alloc in &stale {
        decision.stops.push(Stop { alloc: (*alloc).to_owned(), description: NOT_NEEDED, lost: false });
    }
    stale
}

pub(super) struct GroupOutcome {
    /// How many allocations a deployment of it is to have.
    pub(super) total: u64,
    /// How many canaries it begins with.
    pub(super) canaries: u64,
    /// Something of it belongs into a deployment.
    pub(super) starts_deployment: bool,
    /// Nothing is left to do for the deployment.
    pub(super) complete: bool,
}

/// The allocations of a group, by what is to become of them.
#[derive(Default)]
struct Sorted<'a> {
    /// They count.
    here: Vec<&'a Alloc>,
    lost: Vec<&'a Alloc>,
    migrating: Vec<&'a Alloc>,
    now: Vec<(&'a Alloc, Duration)>,
    later: Vec<(&'a Alloc, Time)>,
}

fn sort<'a>(
    situation: &Situation<'a>,
    group: &Group,
    deployment: Option<&Deployment>,
    stale: &BTreeSet<&str>,
) -> Sorted<'a> {
    let mut sorted = Sorted::default();
    for alloc in situation.allocs.iter().filter(|alloc| alloc.group == group.name && !stale.contains(&*alloc.id)) {
        let batch = alloc.job.spec.view.kind == "batch";
        // What a batch job has done is done, until there is another version of it.
        let older = situation
            .job
            .is_some_and(|job| alloc.job.create_index < job.create_index || alloc.job.version < job.version);
        if batch && older && alloc.status.is_terminal() {
            continue;
        }
        let ended = match alloc.status {
            ClientStatus::Complete => !batch,
            status => status == ClientStatus::Lost,
        };
        if !alloc.wanted || ended || (alloc.next.is_some() && alloc.status.is_terminal()) {
            continue;
        }
        if alloc.status != ClientStatus::Failed {
            let lost = situation.down.contains(alloc.node.as_str());
            if lost {
                sorted.lost.push(alloc);
            } else if alloc.must_migrate && !alloc.status.is_terminal() {
                sorted.migrating.push(alloc);
            } else {
                sorted.here.push(alloc);
            }
            continue;
        }
        // A deployment decides itself whether what failed in it is replaced.
        let part = deployment.filter(|deployment| alloc.deployment.as_deref() == Some(&deployment.id));
        let held = part.is_some_and(|part| part.has_failed() || !alloc.may_reschedule);
        let due = group.reschedule_policy.as_ref().and_then(|policy| due(alloc, policy)).filter(|_| !held);
        let matched = alloc.followup.as_deref() == Some(situation.eval);
        match due {
            Some((_, delay)) if alloc.must_reschedule => sorted.now.push((alloc, delay)),
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

/// The allocations that run, against the version that is wanted.
#[derive(Default)]
pub(super) struct Compared<'a> {
    pub(super) same: u64,
    pub(super) destructive: Vec<&'a Alloc>,
    pub(super) in_place: Vec<String>,
}

pub(super) fn compare<'a>(situation: &Situation<'_>, job: &Job, group: &Group, here: &[&'a Alloc]) -> Compared<'a> {
    let mut compared = Compared::default();
    for alloc in here {
        if alloc.job.job_modify_index == job.job_modify_index {
            compared.same += 1;
        } else if replaces(&alloc.job.spec, &job.spec, &group.name) {
            compared.destructive.push(*alloc);
        } else if alloc.status.is_terminal() {
            compared.same += 1;
        } else if !(situation.may_stay)(alloc) {
            compared.destructive.push(*alloc);
        } else {
            compared.in_place.push(alloc.id.clone());
        }
    }
    compared
}

/// Takes out those that have no place any more: after a promotion those that a canary has the name of, then what
/// failed, then what has the highest number.
fn surplus<'a>(here: &mut Vec<&'a Alloc>, excess: usize, promoted: &[String]) -> Vec<&'a Alloc> {
    let names: BTreeSet<_> = here.iter().filter(|alloc| promoted.contains(&alloc.id)).map(|alloc| alloc.slot).collect();
    let replaced = |alloc: &Alloc| names.contains(&alloc.slot) && !promoted.contains(&alloc.id);
    here.sort_by_key(|alloc| (replaced(alloc), alloc.status == ClientStatus::Failed, alloc.slot));
    here.split_off(here.len() - excess)
}

fn reconcile_group(
    situation: &Situation<'_>,
    job: &Job,
    group: &Group,
    (deployment, stale): (Option<&Deployment>, &BTreeSet<&str>),
    decision: &mut Decision,
) -> GroupOutcome {
    let count = usize::try_from(group.count).unwrap_or(0);
    let mut updates = DesiredUpdates { stop: stale.len() as u64, ..DesiredUpdates::default() };
    let Sorted { mut here, lost, migrating, now, later } = sort(situation, group, deployment, stale);
    let state = deployment.and_then(|deployment| deployment.groups.get(&group.name));
    let known: &[String] = state.map_or(&[], |state| &state.canaries);
    let is_canary = |alloc: &Alloc| known.contains(&alloc.id);

    // As long as they are not promoted, canaries stand beside the others.
    let mut canarying = state.is_some_and(GroupState::is_canarying);
    let canaries: Vec<_> = here.iter().copied().filter(|alloc| canarying && is_canary(alloc)).collect();
    here.retain(|alloc| !(canarying && is_canary(alloc)));

    let counted = now.iter().filter(|(alloc, _)| !(canarying && is_canary(alloc))).count();
    let excess = (here.len() + counted).saturating_sub(count).min(here.len());
    for alloc in surplus(&mut here, excess, if canarying { &[] } else { known }) {
        decision.stops.push(Stop { alloc: alloc.id.clone(), description: NOT_NEEDED, lost: false });
        updates.stop += 1;
    }
    here.sort_by_key(|alloc| alloc.slot);
    let Compared { same, destructive, in_place } = compare(situation, job, group, &here);
    updates.ignore += same;
    updates.in_place += in_place.len() as u64;

    // Something is replaced: canaries come first.
    let mut places = Vec::new();
    let wanted = group.rollout().map_or(0, |update| usize::try_from(update.canary).unwrap_or(0));
    let missing = wanted.saturating_sub(canaries.len());
    let active = deployment.is_none_or(|deployment| deployment.status == DeploymentStatus::Running);
    if missing > 0 && !destructive.is_empty() && !state.is_some_and(|state| state.promoted) {
        canarying = true;
        if active {
            places.extend(place_canaries(group, missing, &destructive, &canaries));
            updates.canary += missing as u64;
        }
    }

    let slots = here.iter().map(|alloc| alloc.slot).collect();
    let mut room = Room { group, count, taken: here.len(), slots, places: Vec::new() };
    let beside = |alloc: &Alloc| canarying && is_canary(alloc);
    let rescheduled = now.len();
    room.replace((lost, migrating, now), &beside, decision, &mut updates);
    if active && !canarying {
        room.fill();
    }
    let placed = room.places.len();
    places.extend(room.places);
    updates.place += placed as u64 - updates.migrate;

    // Replaced are so many at a time as the update block allows.
    let allowed = if canarying { 0 } else { allowance(&here, group, deployment).saturating_sub(placed) };
    let batch = destructive.len().min(allowed);
    updates.destructive += batch as u64;
    updates.ignore += (destructive.len() - batch) as u64;
    for alloc in destructive.iter().take(batch) {
        let replaces = Replaces::Updated(alloc.id.clone());
        places.push(Placement { group: group.name.clone(), slot: alloc.slot, canary: false, node: None, replaces });
    }
    updates.reschedule_later += later.len() as u64;

    let had_version = situation.allocs.iter().any(|alloc| {
        alloc.group == group.name && alloc.job.version == job.version && alloc.job.create_index == job.create_index
    });
    let changes = !destructive.is_empty() || !in_place.is_empty();
    let healthy = state.is_none_or(GroupState::is_healthy) && !canarying;
    let outcome = GroupOutcome {
        total: count as u64,
        canaries: if canarying { wanted as u64 } else { 0 },
        starts_deployment: !had_version || changes,
        complete: !changes && placed == 0 && rescheduled == 0 && later.is_empty() && healthy,
    };
    decision.in_place.extend(in_place);
    decision.placements.extend(places);
    decision.later.extend(later.into_iter().map(|(alloc, at)| (alloc.id.clone(), at)));
    decision.updates.insert(group.name.clone(), updates);
    outcome
}

/// The places that are made in a group, and what is left of its count.
struct Room<'a> {
    group: &'a Group,
    count: usize,
    taken: usize,
    slots: BTreeSet<u64>,
    places: Vec<Placement>,
}

impl Room<'_> {
    fn claim(&mut self, slot: u64) -> bool {
        let free = self.taken < self.count;
        if free {
            self.taken += 1;
            self.slots.insert(slot);
        }
        free
    }

    fn place(&mut self, slot: u64, canary: bool, replaces: Replaces) {
        self.places.push(Placement { group: self.group.name.clone(), slot, canary, node: None, replaces });
    }

    /// New ones for those that are lost, are wanted elsewhere, or have failed. `beside` are canaries, which do not count.
    fn replace(
        &mut self,
        (lost, migrating, now): (Vec<&Alloc>, Vec<&Alloc>, Vec<(&Alloc, Duration)>),
        beside: &impl Fn(&Alloc) -> bool,
        decision: &mut Decision,
        updates: &mut DesiredUpdates,
    ) {
        let mut stop = |alloc: &Alloc, description: &'static str, lost: bool| {
            decision.stops.push(Stop { alloc: alloc.id.clone(), description, lost });
            updates.stop += 1;
        };
        for alloc in lost {
            stop(alloc, LOST, true);
            if !beside(alloc) && self.claim(alloc.slot) {
                self.place(alloc.slot, false, Replaces::Lost(alloc.id.clone()));
            }
        }
        let mut migrated = 0;
        for alloc in migrating {
            if self.claim(alloc.slot) {
                migrated += 1;
                self.place(alloc.slot, false, Replaces::Migrated(alloc.id.clone()));
            } else {
                stop(alloc, NOT_NEEDED, false);
            }
        }
        for (alloc, delay) in now {
            stop(alloc, "", false);
            let canary = beside(alloc);
            if canary || self.claim(alloc.slot) {
                self.place(alloc.slot, canary, Replaces::Failed(alloc.id.clone(), delay));
            }
        }
        updates.migrate += migrated;
    }

    /// New ones for those that were never there.
    fn fill(&mut self) {
        while self.taken < self.count {
            let slot = (0..).find(|slot| !self.slots.contains(slot)).unwrap_or(0);
            self.claim(slot);
            self.place(slot, false, Replaces::Nothing);
        }
    }
}

/// Canaries take the names of those that they are to replace, as far as these go.
fn place_canaries(group: &Group, missing: usize, replaced: &[&Alloc], canaries: &[&Alloc]) -> Vec<Placement> {
    let mut slots: BTreeSet<_> = canaries.iter().map(|alloc| alloc.slot).collect();
    let names = replaced.iter().map(|alloc| alloc.slot).chain(0..);
    let free: Vec<_> = names.filter(|slot| slots.insert(*slot)).take(missing).collect();
    let canary =
        |slot| Placement { group: group.name.clone(), slot, canary: true, node: None, replaces: Replaces::Nothing };
    free.into_iter().map(canary).collect()
}

/// How many allocations may be replaced now.
pub(super) fn allowance(here: &[&Alloc], group: &Group, deployment: Option<&Deployment>) -> usize {
    let Some(update) = group.rollout() else { return usize::MAX };
    let limit = usize::try_from(update.max_parallel).unwrap_or(usize::MAX);
    let Some(deployment) = deployment else { return limit };
    if deployment.status != DeploymentStatus::Running {
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
