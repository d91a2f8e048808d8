//! The controller of services and systems: which instances are made and ended next.

use std::cmp::Reverse;
use std::sync::Arc;

use super::mutation::{Mutant, Mutation};
use super::object::{MainObject, Place};
use super::rollout::{Fixed, Tally};
use crate::{Kind, Rolling, Service, System, Update};

/// What the controller needs to know of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Peer {
    /// Made from the template that is wanted.
    current: bool,
    /// Made from the one that ran before.
    before: bool,
    /// On its way out.
    ending: bool,
    placed: bool,
    ready: bool,
    available: bool,
}

/// What the controller does next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Plan {
    /// How many instances it makes.
    create: usize,
    /// How many it makes of what ran before.
    restore: usize,
    /// Which it ends, by their place in the list.
    end: Vec<usize>,
}

/// Those of the instances that stay.
fn staying(peers: &[Peer], chosen: impl Fn(&Peer) -> bool) -> Vec<usize> {
    let chosen = |(at, peer): (usize, &Peer)| (!peer.ending && chosen(peer)).then_some(at);
    peers.iter().enumerate().filter_map(chosen).collect()
}

/// So many of them, those first that would be missed least: not placed, not ready, youngest.
fn least_missed(mut of: Vec<usize>, peers: &[Peer], count: usize) -> Vec<usize> {
    of.sort_by_key(|at| (peers.get(*at).map(|p| (p.placed, p.ready)), Reverse(*at)));
    of.truncate(count);
    of
}

/// The next step from these instances, oldest first, to what is wanted.
///
/// As a Deployment of Kubernetes does it, without its proportional scaling: instances on their way out are not counted
/// against `max_surge`, except that `Recreate` waits until they have ended; unready old ones go first.
fn plan(update: Update, desired: usize, peers: &[Peer]) -> Plan {
    let (current, mut old) = (staying(peers, |peer| peer.current), staying(peers, |peer| !peer.current));
    let lacking = desired.saturating_sub(current.len());
    let bounds = match update {
        Update::Rolling(bounds) => Some(bounds),
        // What is left after the promotion, or was no canary's: so many at a time.
        Update::Canary(canary) => Some(Rolling::new(0, canary.at_a_time)),
        Update::Recreate => None,
    };
    let mut plan = match bounds {
        None if !old.is_empty() => Plan { end: old, ..Plan::default() },
        None if peers.iter().any(|peer| !peer.current) => Plan::default(),
        None => Plan { create: lacking, ..Plan::default() },
        Some(bounds) => {
            let room = (desired + bounds.max_surge as usize).saturating_sub(current.len() + old.len());
            let least = desired.saturating_sub(bounds.max_unavailable as usize);
            let available = |at: &usize| peers.get(*at).is_some_and(|peer| peer.available);
            // What is current and not available yet cannot stand in for an old one; of those the unready go first.
            let serving = current.iter().filter(|at| available(at)).count();
            old.sort_by_key(available);
            old.truncate((serving + old.len()).saturating_sub(least));
            Plan { create: lacking.min(room), restore: 0, end: old }
        }
    };
    let surplus = current.len().saturating_sub(desired);
    plan.end.extend(least_missed(current, peers, surplus));
    plan
}

/// The next step to fixed numbers of instances: beside canaries, while paused, and after an abort.
fn keep(fixed: Fixed, peers: &[Peer]) -> Plan {
    let current = staying(peers, |peer| peer.current);
    let others = staying(peers, |peer| !peer.current && !peer.before && fixed.ends_others);
    let old = staying(peers, |peer| !peer.current && (peer.before || !fixed.ends_others));
    let mut plan = Plan {
        create: fixed.new.saturating_sub(current.len()),
        restore: fixed.old.saturating_sub(old.len()),
        end: others,
    };
    for (there, wanted) in [(current, fixed.new), (old, fixed.old)] {
        let surplus = there.len().saturating_sub(wanted);
        plan.end.extend(least_missed(there, peers, surplus));
    }
    plan
}

impl MainObject {
    /// One look of the controller at a service. Whether it did anything. Instances that are not `allowed` are refused
    /// instead of made.
    pub(super) fn reconcile_service(
        &mut self,
        service: &Service,
        allowed: bool,
        serial: &mut u64,
        now: crate::Timestamp,
        mutant: Mutant,
    ) -> bool {
        let desired = service.replicas.written() as usize;
        let peers = self.peers(now);
        self.rollout.judge(&self.spec, desired, tally(&peers), now, mutant);
        let fixed = self.rollout.fixed(&self.spec).filter(|_| !mutant.is(Mutation::PauseStopsNothing));
        let plan = fixed.map_or_else(|| plan(service.update, desired, &peers), |fixed| keep(fixed, &peers));
        let before = self.rollout.before.clone();
        let places: Vec<Place> = if self.spec.is_stable() {
            self.free_ordinals(service.replicas.written(), mutant)
        } else {
            vec![Place::default(); plan.create]
        };
        let end = if self.spec.is_stable() { self.stable_ends(&peers, plan.end, desired) } else { plan.end };
        let restore = before.map_or(0, |_| if self.spec.is_stable() { 0 } else { plan.restore });
        let acts = !end.is_empty() || (allowed && (restore > 0 || !places.is_empty()));
        self.end_these(&end, now);
        let since = self.refused.unwrap_or(now);
        self.refused = (!allowed && restore + places.len() > 0).then_some(since);
        if allowed {
            for place in places {
                self.make(Arc::clone(&self.spec.template), place, serial, now);
            }
            for template in self.rollout.before.clone().into_iter().cycle().take(restore) {
                self.make(template, Place::default(), serial, now);
            }
        }
        acts
    }

    fn end_these(&mut self, which: &[usize], now: crate::Timestamp) {
        for at in which {
            if let Some(instance) = self.instances.get_mut(*at) {
                instance.end(now);
            }
        }
    }

    /// The ordinals that no instance has. A successor waits until its predecessor has ended.
    fn free_ordinals(&self, count: u32, mutant: Mutant) -> Vec<Place> {
        let beside = mutant.is(Mutation::SuccessorRunsBeside);
        let taken =
            |ordinal: u32| self.live().any(|i| i.place.ordinal == Some(ordinal) && !(beside && i.ending.is_some()));
        let free = (0..count).filter(|ordinal| !taken(*ordinal));
        free.map(|ordinal| Place { ordinal: Some(ordinal), node: None }).collect()
    }

    /// Of stable instances those end that have too high an ordinal, and of the others the same number of old ones as if
    /// they were not, from the highest ordinal down.
    fn stable_ends(&self, peers: &[Peer], planned: Vec<usize>, desired: usize) -> Vec<usize> {
        let ordinal = |at: &usize| self.instances.get(*at).and_then(|i| i.place.ordinal).unwrap_or(0) as usize;
        let surplus: Vec<usize> = staying(peers, |_| true).into_iter().filter(|at| ordinal(at) >= desired).collect();
        let is_old = |at: &usize| peers.get(*at).is_some_and(|peer| !peer.current) && ordinal(at) < desired;
        let count = planned.iter().filter(|at| is_old(at)).count();
        let mut old: Vec<usize> = staying(peers, |peer| !peer.current).into_iter().filter(is_old).collect();
        old.sort_by_key(|at| (peers.get(*at).map(|peer| peer.available), Reverse(ordinal(at))));
        old.truncate(count);
        surplus.into_iter().chain(old).collect()
    }

    /// One look of the controller at a system. Whether it did anything.
    pub(super) fn reconcile_system(
        &mut self,
        system: &System,
        eligible: &[String],
        allowed: bool,
        serial: &mut u64,
        now: crate::Timestamp,
        mutant: Mutant,
    ) -> bool {
        let peers = self.peers(now);
        self.rollout.judge(&self.spec, eligible.len(), tally(&peers), now, mutant);
        let of_node = |node: &String| self.live().any(|i| i.place.node.as_ref() == Some(node));
        let lacking: Vec<&String> = eligible.iter().filter(|node| !of_node(node)).collect();
        let lacking: Vec<&String> = if mutant.is(Mutation::SystemRunsOnce) {
            lacking.into_iter().take(1 - self.live().count().min(1)).collect()
        } else {
            lacking
        };
        let strays = |i: &super::instance::Instance| {
            i.ending.is_none() && i.lost.is_none() && i.place.node.as_ref().is_none_or(|node| !eligible.contains(node))
        };
        let mut end: Vec<usize> = (0..).zip(&self.instances).filter(|(_, i)| strays(i)).map(|(at, _)| at).collect();
        let available = peers.iter().filter(|peer| !peer.ending && peer.available).count();
        let room = (system.max_unavailable as usize).saturating_sub(eligible.len().saturating_sub(available));
        if self.rollout.hold.is_none() {
            let (up, down): (Vec<usize>, Vec<usize>) = staying(&peers, |peer| !peer.current)
                .into_iter()
                .partition(|at| peers.get(*at).is_some_and(|peer| peer.available));
            // What does not serve is not missed.
            end.extend(down.into_iter().chain(up.into_iter().take(room)));
        }
        let places: Vec<Place> =
            lacking.into_iter().map(|node| Place { ordinal: None, node: Some(node.clone()) }).collect();
        let acts = !end.is_empty() || (allowed && !places.is_empty());
        self.end_these(&end, now);
        let since = self.refused.unwrap_or(now);
        self.refused = (!allowed && !places.is_empty()).then_some(since);
        for place in places.into_iter().filter(|_| allowed) {
            self.make(Arc::clone(&self.spec.template), place, serial, now);
        }
        acts
    }

    /// The instances as the controller sees them, in the order of the list.
    fn peers(&self, now: crate::Timestamp) -> Vec<Peer> {
        let peer = |i: &super::instance::Instance| Peer {
            current: self.is_current(i),
            before: self.rollout.before.as_ref().is_some_and(|before| i.is_of(before)),
            ending: i.ending.is_some(),
            placed: i.node.is_some(),
            ready: i.is_ready(),
            available: i.is_available(self.spec.min_ready(), now),
        };
        self.instances.iter().map(peer).collect()
    }

    /// How many instances there should be; for a system, on so many nodes.
    pub(super) fn desired(&self, eligible: usize) -> u32 {
        match &self.spec.kind {
            Kind::Service(service) => service.replicas.written(),
            Kind::Job(job) => job.completions,
            Kind::Periodic(_) => 0,
            Kind::System(_) => u32::try_from(eligible).unwrap_or(u32::MAX),
        }
    }
}

fn tally(peers: &[Peer]) -> Tally {
    let staying = || peers.iter().filter(|peer| !peer.ending);
    let current = || staying().filter(|peer| peer.current);
    Tally {
        updated: current().count(),
        ready: current().filter(|peer| peer.ready).count(),
        available: current().filter(|peer| peer.available).count(),
        old: staying().filter(|peer| !peer.current).count(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `n` current, `o` old, `x` ending and old, `b` what ran before; upper case is available. `p` is current and has no
    /// node.
    fn peers(of: &str) -> Vec<Peer> {
        let peer = |c: char| Peer {
            current: matches!(c, 'n' | 'N' | 'p'),
            before: matches!(c, 'b' | 'B'),
            ending: c == 'x',
            placed: c != 'p',
            ready: c.is_ascii_uppercase(),
            available: c.is_ascii_uppercase(),
        };
        of.chars().map(peer).collect()
    }

    #[test]
    fn each_step_follows_from_what_there_is() {
        let rolling = |surge, unavailable| Update::Rolling(Rolling::new(surge, unavailable));
        for (what, replicas, update, there, create, end) in [
            ("nothing is there", 3, rolling(1, 0), "", 3, vec![]),
            ("all is well", 3, rolling(1, 0), "NNN", 0, vec![]),
            ("none is wanted", 0, rolling(1, 0), "NO", 0, vec![1, 0]),
            ("one above the count", 3, rolling(1, 0), "OOO", 1, vec![]),
            ("no old one goes for a new one that is unready", 3, rolling(1, 0), "OOOn", 0, vec![]),
            ("one goes for one that is available", 3, rolling(1, 0), "OOON", 0, vec![0]),
            ("those on their way out leave room", 3, rolling(1, 0), "OOxN", 1, vec![]),
            ("one below the count", 3, rolling(0, 1), "OOO", 0, vec![0]),
            ("an unready old one goes first", 3, rolling(0, 1), "OOo", 0, vec![2]),
            ("unready old ones go while as many serve", 3, rolling(1, 0), "oOOoN", 0, vec![0, 3]),
            ("what would be missed least goes", 1, rolling(1, 0), "NNnp", 0, vec![3, 2, 1]),
            ("recreate ends all old ones", 2, Update::Recreate, "OO", 0, vec![0, 1]),
            ("and waits for their end", 2, Update::Recreate, "xx", 0, vec![]),
            ("before it begins", 2, Update::Recreate, "", 2, vec![]),
        ] {
            assert_eq!(plan(update, replicas, &peers(there)), Plan { create, restore: 0, end }, "{what}");
        }
    }

    #[test]
    fn fixed_numbers_are_kept() {
        let fixed = |new, old, ends_others| Fixed { new, old, ends_others };
        for (what, fixed, there, create, restore, end) in [
            ("a canary is made beside what ran before", fixed(1, 2, true), "BB", 1, 0, vec![]),
            ("one that ran before is made again", fixed(1, 2, true), "BN", 0, 1, vec![]),
            ("canaries of an earlier update go", fixed(1, 2, true), "BBo", 1, 0, vec![2]),
            ("a pause leaves everything", fixed(1, 2, false), "BoN", 0, 0, vec![]),
            ("an abort ends the canaries", fixed(0, 2, false), "BBN", 0, 0, vec![2]),
            ("after a scale", fixed(0, 1, false), "Bb", 0, 0, vec![1]),
        ] {
            assert_eq!(keep(fixed, &peers(there)), Plan { create, restore, end }, "{what}");
        }
    }
}
