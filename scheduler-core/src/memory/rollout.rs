//! The controller: how one template takes over from the last, and whether that gets on.

use std::sync::Arc;

use super::instance::Instance;
use super::mutation::{Mutant, Mutation};
use super::object::{MainObject, Spec};
use crate::{Timestamp, Update};

/// How a rollout gets on.
#[derive(Clone, Debug)]
pub(super) struct Rollout {
    /// Whether it was complete once.
    pub(super) completed: bool,
    /// Since when the controller has given it up.
    pub(super) gave_up: Option<Timestamp>,
    /// When it got on last.
    progressed: Timestamp,
    best: Tally,
}

/// What counts as progress: a new most of the first three, a new least of the last. Restarts and flapping are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tally {
    updated: usize,
    ready: usize,
    available: usize,
    old: usize,
}

/// What the controller needs to know of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Peer {
    /// Made from the template that is wanted.
    current: bool,
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
    /// Which it ends, by their place in the list.
    end: Vec<usize>,
}

/// The next step from these instances, oldest first, to what is wanted.
///
/// As a Deployment of Kubernetes does it, without its proportional scaling: instances on their way out are not counted
/// against `max_surge`, except that `Recreate` waits until they have ended; unready old ones go first.
fn plan(spec: &Spec, peers: &[Peer]) -> Plan {
    let desired = spec.replicas as usize;
    let staying = |current: bool| -> Vec<usize> {
        let chosen = |(at, peer): (usize, &Peer)| (!peer.ending && peer.current == current).then_some(at);
        peers.iter().enumerate().filter_map(chosen).collect()
    };
    let (mut current, mut old) = (staying(true), staying(false));
    let lacking = desired.saturating_sub(current.len());
    let mut plan = match spec.update {
        Update::Recreate if !old.is_empty() => Plan { create: 0, end: old },
        Update::Recreate if peers.iter().any(|peer| !peer.current) => Plan::default(),
        Update::Recreate => Plan { create: lacking, end: Vec::new() },
        Update::Rolling(bounds) => {
            let room = (desired + bounds.max_surge as usize).saturating_sub(current.len() + old.len());
            let least = desired.saturating_sub(bounds.max_unavailable as usize);
            let available = |at: &usize| peers.get(*at).is_some_and(|peer| peer.available);
            // What is current and not available yet cannot stand in for an old one; of those the unready go first.
            let serving = current.iter().filter(|at| available(at)).count();
            old.sort_by_key(available);
            old.truncate((serving + old.len()).saturating_sub(least));
            Plan { create: lacking.min(room), end: old }
        }
    };
    // Of those too many, the ones that would be missed least: not placed, not ready, youngest.
    let surplus = current.len().saturating_sub(desired);
    current.sort_by_key(|at| (peers.get(*at).map(|p| (p.placed, p.ready)), std::cmp::Reverse(*at)));
    plan.end.extend(current.into_iter().take(surplus));
    plan
}

impl Rollout {
    pub(super) fn new(now: Timestamp) -> Self {
        let best = Tally { updated: 0, ready: 0, available: 0, old: usize::MAX };
        Self { completed: false, gave_up: None, progressed: now, best }
    }

    /// When the controller gives up unless there is progress.
    pub(super) fn deadline(&self, spec: &Spec) -> Option<Timestamp> {
        (!self.completed && self.gave_up.is_none()).then(|| self.progressed.plus(spec.patience.duration()))
    }

    /// Takes in how the instances are now.
    fn judge(&mut self, spec: &Spec, peers: &[Peer], now: Timestamp, mutant: Mutant) {
        if self.completed {
            return;
        }
        let staying = || peers.iter().filter(|peer| !peer.ending);
        let current = || staying().filter(|peer| peer.current);
        let tally = Tally {
            updated: current().count(),
            ready: current().filter(|peer| peer.ready).count(),
            available: current().filter(|peer| peer.available).count(),
            old: staying().filter(|peer| !peer.current).count(),
        };
        let best = self.best;
        self.best = Tally {
            updated: best.updated.max(tally.updated),
            ready: best.ready.max(tally.ready),
            available: best.available.max(tally.available),
            old: best.old.min(tally.old),
        };
        if self.best != best {
            self.progressed = now;
            self.gave_up = self.gave_up.filter(|_| mutant.is(Mutation::KeepsStaleFailure));
        }
        let desired = spec.replicas as usize;
        if tally.updated == desired && tally.available == desired && tally.old == 0 {
            self.completed = true;
            self.gave_up = self.gave_up.filter(|_| mutant.is(Mutation::KeepsStaleFailure));
        } else if self.deadline(spec).is_some_and(|at| at <= now) && !mutant.is(Mutation::NeverGivesUp) {
            self.gave_up = Some(now);
        }
    }
}

impl MainObject {
    /// One look of the controller, and what it does about it. Whether it did anything. Instances that are not `allowed`
    /// are refused instead of made.
    pub(super) fn reconcile(&mut self, allowed: bool, serial: &mut u64, now: Timestamp, mutant: Mutant) -> bool {
        let peers = self.peers(now);
        self.rollout.judge(&self.spec, &peers, now, mutant);
        let plan = plan(&self.spec, &peers);
        let create = if allowed { plan.create } else { 0 };
        let acts = create > 0 || !plan.end.is_empty();
        for at in plan.end {
            if let Some(instance) = self.instances.get_mut(at) {
                instance.end(now);
            }
        }
        let since = self.refused.unwrap_or(now);
        self.refused = (plan.create > create).then_some(since);
        for _ in 0..create {
            *serial += 1;
            let template = Arc::clone(&self.spec.template);
            self.instances.push(Instance::new(self.target.name.as_str(), *serial, template, now));
        }
        acts
    }

    /// The instances as the controller sees them, in the order of the list.
    fn peers(&self, now: Timestamp) -> Vec<Peer> {
        let peer = |i: &Instance| Peer {
            current: i.is_of(&self.spec.template),
            ending: i.ending.is_some(),
            placed: i.node.is_some(),
            ready: i.is_ready(),
            available: i.is_available(self.spec.min_ready, now),
        };
        self.instances.iter().map(peer).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::object::Template;
    use crate::{Rolling, Seconds};

    fn spec(replicas: u32, update: Update) -> Spec {
        let template = Arc::new(Template::default());
        Spec { replicas, update, min_ready: Seconds::new(0), patience: Seconds::new(60), template }
    }

    /// `n` current, `o` old, `x` ending and old; upper case is available. `p` is current and has no node.
    fn peers(of: &str) -> Vec<Peer> {
        let peer = |c: char| Peer {
            current: matches!(c, 'n' | 'N' | 'p'),
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
            assert_eq!(plan(&spec(replicas, update), &peers(there)), Plan { create, end }, "{what}");
        }
    }
}
