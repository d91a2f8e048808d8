//! Jobs that run on every node that may hold them.

use std::collections::BTreeSet;

use super::{
    objects::{Alloc, ClientStatus, Deployment},
    reconcile::{Decision, GroupOutcome, LOST, NOT_NEEDED, Placement, Replaces, Situation, Stop, allowance, compare},
};
use crate::job::{DesiredUpdates, Group, Job};

pub(super) fn reconcile_system(
    situation: &Situation<'_>,
    job: &Job,
    group: &Group,
    deployment: Option<&Deployment>,
    decision: &mut Decision,
) -> GroupOutcome {
    let nodes: BTreeSet<_> = if group.count > 0 { (situation.nodes)(group) } else { BTreeSet::new() };
    let batch = job.spec.view.kind == "sysbatch";
    let mut updates = DesiredUpdates::default();
    let mut here = Vec::new();
    let mut dead: Vec<&Alloc> = Vec::new();
    let mut done = 0;
    for alloc in situation.allocs.iter().copied().filter(|alloc| alloc.group == group.name && alloc.wanted) {
        if !alloc.status.is_terminal() {
            if nodes.contains(alloc.node.as_str()) {
                here.push(alloc);
                continue;
            }
            let lost = situation.down.contains(alloc.node.as_str());
            let description = if lost { LOST } else { NOT_NEEDED };
            decision.stops.push(Stop { alloc: alloc.id.clone(), description, lost });
            updates.stop += 1;
        } else if batch && alloc.job.version == job.version && alloc.status != ClientStatus::Lost {
            // It has run there, whatever came of it.
            done += 1;
            updates.ignore += 1;
            dead.push(alloc);
        } else if alloc.next.is_none() && alloc.status == ClientStatus::Failed {
            dead.push(alloc);
        }
    }
    let compared = compare(situation, job, group, &here);
    updates.ignore += compared.same;
    updates.in_place += compared.in_place.len() as u64;

    let place = |node: &str, replaces: Replaces| Placement {
        group: group.name.clone(),
        slot: 0,
        canary: false,
        node: Some(node.to_owned()),
        replaces,
    };
    let taken: BTreeSet<_> = here.iter().map(|alloc| alloc.node.as_str()).collect();
    let mut places = Vec::new();
    for node in nodes.iter().filter(|node| !taken.contains(**node)) {
        let last = dead.iter().rev().find(|alloc| alloc.node == **node);
        match last {
            Some(_) if batch && done > 0 => {}
            Some(alloc) => places.push(place(node, Replaces::Dead(alloc.id.clone()))),
            None => places.push(place(node, Replaces::Nothing)),
        }
    }
    updates.place += places.len() as u64;
    let placed = places.len();
    let allowed = allowance(&here, group, deployment);
    let batch_size = compared.destructive.len().min(allowed);
    updates.destructive += batch_size as u64;
    updates.ignore += (compared.destructive.len() - batch_size) as u64;
    for alloc in compared.destructive.iter().take(batch_size) {
        places.push(place(&alloc.node, Replaces::Updated(alloc.id.clone())));
    }
    let had_version = situation.allocs.iter().any(|alloc| {
        alloc.group == group.name && alloc.job.version == job.version && alloc.job.create_index == job.create_index
    });
    let changes = !compared.destructive.is_empty() || !compared.in_place.is_empty();
    let state = deployment.and_then(|deployment| deployment.groups.get(&group.name));
    let outcome = GroupOutcome {
        total: nodes.len() as u64,
        canaries: 0,
        starts_deployment: !had_version || changes,
        complete: !changes && placed == 0 && state.is_none_or(super::objects::GroupState::is_healthy),
    };
    decision.in_place.extend(compared.in_place);
    decision.placements.extend(places);
    decision.updates.insert(group.name.clone(), updates);
    outcome
}
