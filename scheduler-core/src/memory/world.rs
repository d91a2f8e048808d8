//! The state of a cluster, and how time passes in it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::builder::Node;
use super::config::ConfigObject;
use super::container::Reference;
use super::instance::Instance;
use super::mutation::{Mutant, Mutation};
use super::object::{MainObject, ServiceObject};
use super::place::{self, Room};
use super::render::Needs;
use super::route::RouteObject;
use crate::rng::Rng;
use crate::{Cpu, DiagnosisKind, Kind, Memory, OwnerId, Target, Timestamp};

/// All that a cluster knows.
///
/// Nothing in it runs by itself: [`advance`](Self::advance) goes from one point in time at which something is due to the
/// next.
#[derive(Debug)]
pub(super) struct World {
    pub(super) now: Timestamp,
    pub(super) mutant: Mutant,
    pub(super) start_up: Duration,
    /// Each with the owner who made it; `None` for those that nobody made by an operation.
    pub(super) namespaces: BTreeMap<String, Option<OwnerId>>,
    pub(super) nodes: BTreeMap<String, NodeState>,
    pub(super) claims: BTreeSet<(String, String)>,
    pub(super) identities: BTreeSet<(String, String)>,
    pub(super) workloads: BTreeMap<Target, MainObject>,
    /// The runs that schedules made, by their incarnation. They are no workloads.
    pub(super) runs: BTreeMap<u64, MainObject>,
    pub(super) services: BTreeMap<Target, ServiceObject>,
    pub(super) configs: BTreeMap<Target, Vec<ConfigObject>>,
    pub(super) routes: BTreeMap<Target, RouteObject>,
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
            namespaces: BTreeMap::new(),
            nodes: BTreeMap::new(),
            claims: BTreeSet::new(),
            identities: BTreeSet::new(),
            workloads: BTreeMap::new(),
            runs: BTreeMap::new(),
            services: BTreeMap::new(),
            configs: BTreeMap::new(),
            routes: BTreeMap::new(),
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
            if !object.deleting {
                let gives_up = object.spec.kind.job().is_none();
                due.extend(object.rollout.deadline(&object.spec, self.mutant).filter(|_| gives_up));
                due.extend(object.schedule.next);
                due.extend(object.job_due());
            }
            due.extend(object.refused.map(|since| since.plus(patience)));
            for instance in object.live() {
                due.extend(instance.due());
                due.extend(instance.is_ready().then(|| instance.since.plus(object.spec.min_ready().duration())));
                // Observations call an instance young, and a trouble recent, by the patience.
                due.extend([instance.created.plus(patience), instance.since.plus(patience)]);
                due.extend(instance.trouble.as_ref().map(|trouble| trouble.since.plus(patience)));
            }
            due.into_iter().filter(|due| *due > self.now).min()
        };
        self.workloads.values().chain(self.runs.values()).filter_map(of_object).min()
    }

    /// One round: schedules begin runs, instances move, controllers look, placement follows. Whether anything changed.
    fn round(&mut self) -> bool {
        let (now, mutant, start_up) = (self.now, self.mutant, self.start_up);
        let mut moved = self.schedules();
        for object in self.workloads.values_mut().chain(self.runs.values_mut()) {
            let before = object.instances.len();
            for instance in &mut object.instances {
                moved |= instance.lay_to_rest(now);
            }
            object.instances.retain(|instance| !instance.is_over(now));
            moved |= object.instances.len() != before;
            let configs = self.configs.get(object.configured_as()).map_or(&[][..], Vec::as_slice);
            let is_there = |wanted: &Reference| configs.iter().any(|config| config.has(wanted));
            for instance in &mut object.instances {
                moved |= instance.advance(now, start_up, &is_there);
            }
            if object.deleting || object.notice_at > now {
                continue;
            }
            let allowed = object.spec.template.identity.as_ref().is_none_or(|name| {
                name == "default" || self.identities.contains(&(object.target.namespace.to_string(), name.clone()))
            });
            let serial = &mut self.serial;
            moved |= match object.spec.kind.clone() {
                Kind::Service(service) => object.reconcile_service(&service, allowed, serial, now, mutant),
                Kind::System(system) => {
                    let eligible = eligible(&self.nodes, object);
                    object.reconcile_system(&system, &eligible, allowed, serial, now, mutant)
                }
                Kind::Job(job) => object.reconcile_job(&job, allowed, serial, now, mutant),
                Kind::Periodic(_) => false,
            };
        }
        moved |= self.expire();
        self.forget_deleted();
        self.place() || moved
    }

    /// Begins to delete the jobs that were kept for long enough.
    fn expire(&mut self) -> bool {
        let (now, mutant) = (self.now, self.mutant);
        let mut expired = Vec::new();
        let all = self.workloads.values_mut().chain(self.runs.values_mut());
        for object in all.filter(|o| !o.deleting && o.has_expired(now) && !mutant.is(Mutation::ForgetsTimeToLive)) {
            object.delete(now);
            expired.push((object.incarnation, object.target.clone()));
        }
        for (incarnation, target) in &expired {
            if !self.runs.contains_key(incarnation) {
                self.take_along(target);
            }
        }
        !expired.is_empty()
    }

    /// Forgets what is deleted and has neither instances nor runs left.
    fn forget_deleted(&mut self) {
        let over = |object: &MainObject| object.deleting && object.live().next().is_none();
        self.runs.retain(|_, run| !over(run));
        self.workloads.retain(|_, object| !over(object) || matches!(object.spec.kind, Kind::Periodic(_)));
        let runs = self.runs.values().chain(self.workloads.values());
        let with_runs: BTreeSet<Target> = runs.filter_map(|run| run.run_of.clone()).collect();
        let leaks = self.mutant.is(Mutation::DeleteLeaksRuns);
        self.workloads.retain(|target, object| !over(object) || (with_runs.contains(target) && !leaks));
    }

    /// Takes away what belongs to a workload that goes.
    pub(super) fn take_along(&mut self, target: &Target) {
        self.services.remove(target);
        self.configs.remove(target);
        self.routes.remove(target);
    }

    /// The nodes on which a system has an instance.
    pub(super) fn eligible(&self, object: &MainObject) -> usize {
        eligible(&self.nodes, object).len()
    }

    /// Tries to place what has no node. Whether anything was placed.
    fn place(&mut self) -> bool {
        let pending = |i: &Instance| i.node.is_none() && i.ending.is_none() && i.ended.is_none();
        if !self.all().flat_map(|object| &object.instances).any(pending) {
            return false;
        }
        self.make_own_volumes();
        let mut rooms = self.rooms();
        let mut placed = false;
        for object in self.workloads.values_mut().chain(self.runs.values_mut()) {
            let target = &object.target;
            for room in &mut rooms {
                let here = |i: &&Instance| {
                    i.ending.is_none() && i.ended.is_none() && i.node.as_deref() == Some(room.name.as_str())
                };
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
                match place::choose(&instance.template, instance.place.node.as_deref(), &rooms, &mut self.rng) {
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

    /// Every workload, and every run that a schedule made.
    pub(super) fn all(&self) -> impl Iterator<Item = &MainObject> {
        self.workloads.values().chain(self.runs.values())
    }

    /// Makes the storage that instances have for themselves. It stays when they go.
    fn make_own_volumes(&mut self) {
        for object in self.workloads.values() {
            for instance in &object.instances {
                for (volume, _) in instance.template.own_volumes() {
                    let ordinal = instance.place.ordinal.unwrap_or_default();
                    let claim = format!("{volume}-{}-{ordinal}", object.target.name);
                    self.claims.insert((object.target.namespace.to_string(), claim));
                }
            }
        }
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
        for instance in self.all().flat_map(MainObject::live) {
            let room = rooms.iter_mut().find(|room| Some(&room.name) == instance.node.as_ref());
            if let Some(room) = room {
                room.take(instance.template.needs);
            }
        }
        rooms
    }
}

/// The nodes that answer and satisfy the rules of a workload.
fn eligible(nodes: &BTreeMap<String, NodeState>, object: &MainObject) -> Vec<String> {
    let fits = |state: &&NodeState| state.up && place::accepts(&object.spec.template, &state.node.labels);
    nodes.values().filter(fits).map(|state| state.node.name.clone()).collect()
}

impl Room {
    fn take(&mut self, needs: Needs) {
        self.free.cpu_millis = self.free.cpu_millis.saturating_sub(needs.cpu_millis);
        self.free.memory_bytes = self.free.memory_bytes.saturating_sub(needs.memory_bytes);
        self.slots = self.slots.saturating_sub(1);
    }
}
