//! The state of a cluster, and how time passes in it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::builder::Node;
use super::instance::Instance;
use super::mutation::Mutant;
use super::object::{MainObject, Needs, ServiceObject};
use super::place::{self, Room};
use super::rng::Rng;
use crate::{Cpu, DiagnosisKind, Memory, Target, Timestamp};

/// All that a cluster knows.
///
/// Nothing in it runs by itself: [`advance`](Self::advance) goes from one point in time at which something is due to the
/// next.
#[derive(Debug)]
pub(super) struct World {
    pub(super) now: Timestamp,
    pub(super) mutant: Mutant,
    pub(super) start_up: Duration,
    pub(super) namespaces: BTreeSet<String>,
    pub(super) nodes: BTreeMap<String, NodeState>,
    pub(super) claims: BTreeSet<(String, String)>,
    pub(super) identities: BTreeSet<(String, String)>,
    pub(super) workloads: BTreeMap<Target, MainObject>,
    pub(super) services: BTreeMap<Target, ServiceObject>,
    pub(super) strays: Vec<Stray>,
    /// How often watches were broken.
    pub(super) gaps: u64,
    rng: Rng,
    serial: u64,
}

/// A bare instance that no workload made, and whose labels match the selector of one.
#[derive(Clone, Debug)]
pub(super) struct Stray {
    pub(super) target: Target,
    pub(super) id: String,
    pub(super) created: Timestamp,
}

/// A node and whether it answers.
#[derive(Clone, Debug)]
pub(super) struct NodeState {
    pub(super) node: Node,
    pub(super) up: bool,
}

impl World {
    pub(super) fn new(now: Timestamp, seed: u64, start_up: Duration, mutant: Mutant) -> Self {
        Self {
            now,
            mutant,
            start_up,
            namespaces: BTreeSet::new(),
            nodes: BTreeMap::new(),
            claims: BTreeSet::new(),
            identities: BTreeSet::new(),
            workloads: BTreeMap::new(),
            services: BTreeMap::new(),
            strays: Vec::new(),
            gaps: 0,
            rng: Rng::new(seed),
            serial: 0,
        }
    }

    /// A number that was never given out before.
    pub(super) fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// Lets time pass until `now`.
    pub(super) fn advance(&mut self, now: Timestamp) {
        while let Some(due) = self.next_due().filter(|due| *due <= now) {
            self.now = due;
            self.settle();
        }
        self.now = self.now.max(now);
    }

    /// Does everything that is due at this point in time.
    pub(super) fn settle(&mut self) {
        while self.round() {}
    }

    /// The next point in time at which something happens or looks different.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let of_object = |object: &MainObject| {
            let patience = object.spec.patience.duration();
            let mut due = vec![object.notice_at];
            due.extend(object.rollout.deadline(&object.spec).filter(|_| !object.deleting));
            due.extend(object.refused.map(|since| since.plus(patience)));
            for instance in &object.instances {
                due.extend(instance.due());
                due.extend(instance.is_ready().then(|| instance.since.plus(object.spec.min_ready.duration())));
                // Observations call an instance young, and a trouble recent, by the patience.
                due.extend([instance.created.plus(patience), instance.since.plus(patience)]);
                due.extend(instance.trouble.as_ref().map(|trouble| trouble.since.plus(patience)));
            }
            due.into_iter().filter(|due| *due > self.now).min()
        };
        self.workloads.values().filter_map(of_object).min()
    }

    /// One round: instances move, controllers look, placement follows. Whether anything changed.
    fn round(&mut self) -> bool {
        let (now, mutant, start_up) = (self.now, self.mutant, self.start_up);
        let mut moved = false;
        for object in self.workloads.values_mut() {
            let before = object.instances.len();
            object.instances.retain(|instance| !instance.is_over(now));
            moved |= object.instances.len() != before;
            for instance in &mut object.instances {
                moved |= instance.advance(now, start_up);
            }
            if object.deleting || object.notice_at > now {
                continue;
            }
            let allowed = object.spec.template.identity.as_ref().is_none_or(|name| {
                name == "default" || self.identities.contains(&(object.target.namespace.to_string(), name.clone()))
            });
            moved |= object.reconcile(allowed, &mut self.serial, now, mutant);
        }
        self.workloads.retain(|_, object| !(object.deleting && object.instances.is_empty()));
        self.place() || moved
    }

    /// Tries to place what has no node. Whether anything was placed.
    fn place(&mut self) -> bool {
        let pending = |instance: &Instance| instance.node.is_none() && instance.ending.is_none();
        if !self.workloads.values().flat_map(|object| &object.instances).any(pending) {
            return false;
        }
        let mut rooms = self.rooms();
        let mut placed = false;
        for (target, object) in &mut self.workloads {
            for room in &mut rooms {
                let here = |i: &&Instance| i.ending.is_none() && i.node.as_deref() == Some(room.name.as_str());
                room.siblings = object.instances.iter().filter(here).count();
            }
            for instance in object.instances.iter_mut().filter(|i| pending(i)) {
                let claim = instance
                    .template
                    .claims()
                    .find(|claim| !self.claims.contains(&(target.namespace.to_string(), (*claim).to_owned())));
                if let Some(claim) = claim {
                    let why = format!("there is no claim {claim} in {}", target.namespace);
                    instance.cannot_be_placed(DiagnosisKind::VolumeUnavailable, why, self.now);
                    continue;
                }
                match place::choose(&instance.template, &rooms, &mut self.rng) {
                    Err(why) => instance.cannot_be_placed(DiagnosisKind::Unschedulable, why, self.now),
                    Ok(at) => {
                        let Some(room) = rooms.get_mut(at) else { continue };
                        let needs = instance.template.needs;
                        room.take(needs);
                        room.siblings += 1;
                        instance.place(&room.name, self.now);
                        placed = true;
                    }
                }
            }
        }
        placed
    }

    /// What each node has left.
    fn rooms(&self) -> Vec<Room> {
        let mut rooms: Vec<Room> = self
            .nodes
            .values()
            .map(|state| Room {
                name: state.node.name.clone(),
                labels: state.node.labels.clone(),
                free: Needs { cpu_millis: Cpu::millis(state.node.cpu), memory_bytes: Memory::bytes(state.node.memory) },
                slots: state.node.slots,
                up: state.up,
                siblings: 0,
            })
            .collect();
        for instance in self.workloads.values().flat_map(|object| &object.instances) {
            let room = rooms.iter_mut().find(|room| Some(&room.name) == instance.node.as_ref());
            if let Some(room) = room {
                room.take(instance.template.needs);
            }
        }
        rooms
    }
}

impl Room {
    fn take(&mut self, needs: Needs) {
        self.free.cpu_millis = self.free.cpu_millis.saturating_sub(needs.cpu_millis);
        self.free.memory_bytes = self.free.memory_bytes.saturating_sub(needs.memory_bytes);
        self.slots = self.slots.saturating_sub(1);
    }
}
