//! Whose turn it is to deploy an app: one deploy at a time, by leases, so that one that died blocks nobody. Pure.

use std::time::Duration;

use scheduler_core::Timestamp;
use serde::{Deserialize, Serialize};

use super::record::{DeployId, InTheWay};

/// Which deploy of an app goes on, and which wait. Kept by a [`DeployStore`](super::DeployStore), opaque to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Turn {
    pub(super) holder: Option<Claim>,
    pub(super) waiting: Vec<Claim>,
    /// The newest release that was announced, or whose deploy ever had the turn.
    pub(super) newest: u64,
    /// The app is being destroyed: nobody gets the turn any more.
    pub(super) closed: bool,
}

/// A deploy that goes on or waits, until its lease is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Claim {
    pub(super) deploy: DeployId,
    pub(super) release: u64,
    pub(super) policy: InTheWay,
    /// Which deployer works on it.
    pub(super) worker: u64,
    pub(super) until: Timestamp,
}

impl Claim {
    fn is_same(&self, other: &Self) -> bool {
        self.deploy == other.deploy && self.worker == other.worker
    }
}

/// What a deploy that wants the turn is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It has it, until its lease is over. With the deploy that had it before and did not give it back.
    Mine {
        left_by: Option<DeployId>,
    },
    Wait,
    Superseded {
        by: u64,
    },
    Refused {
        by: DeployId,
    },
    Closed,
}

/// What a deploy that has the turn finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// It goes on.
    Good,
    /// A newer one takes its place.
    Superseded { by: u64 },
    /// The app is being destroyed.
    Closed,
    /// Its lease was over, and somebody else took the turn.
    Lost,
}

impl Turn {
    /// Asks for the turn, and notes that `claim` waits if it is told to. A worker that has the turn for this deploy already
    /// has stopped meanwhile: it never works on one deploy twice at once.
    pub(super) fn ask(&mut self, claim: &Claim, now: Timestamp) -> Answer {
        self.waiting.retain(|waits| waits.until > now && waits.deploy != claim.deploy);
        if self.closed {
            return Answer::Closed;
        }
        let newer = self.waiting.iter().filter(|waits| waits.policy == InTheWay::Supersede).map(|waits| waits.release);
        let newest = newer.max().unwrap_or_default().max(self.newest);
        if newest > claim.release {
            return Answer::Superseded { by: newest };
        }
        let in_turn = |waits: &Claim| waits.policy == InTheWay::Queue && waits.release < claim.release;
        let before_me = self.waiting.iter().find(|waits| claim.policy != InTheWay::Supersede && in_turn(waits));
        let blocker = match &self.holder {
            Some(holder) if holder.until > now && !holder.is_same(claim) => Some(holder),
            _ => before_me,
        };
        if let Some(blocker) = blocker {
            if claim.policy == InTheWay::Refuse && blocker.deploy != claim.deploy {
                return Answer::Refused { by: blocker.deploy.clone() };
            }
            self.waiting.push(claim.clone());
            return Answer::Wait;
        }
        let left_by = self.holder.replace(claim.clone()).map(|holder| holder.deploy);
        self.newest = claim.release;
        Answer::Mine { left_by: left_by.filter(|left| *left != claim.deploy) }
    }

    /// How things are for the one that has the turn.
    pub(super) fn look(&self, mine: &Claim, now: Timestamp) -> Hold {
        let held = self.holder.as_ref().is_some_and(|holder| holder.is_same(mine));
        if !held {
            return Hold::Lost;
        }
        if self.closed {
            return Hold::Closed;
        }
        if self.newest > mine.release {
            return Hold::Superseded { by: self.newest };
        }
        let takes = |waits: &&Claim| {
            let newer = waits.release >= mine.release && waits.deploy != mine.deploy;
            newer && waits.policy == InTheWay::Supersede && waits.until > now
        };
        match self.waiting.iter().filter(takes).map(|waits| waits.release).max() {
            Some(by) => Hold::Superseded { by },
            None => Hold::Good,
        }
    }

    /// Says that there is this release, so that older ones make way. Whether that was news.
    pub(super) fn announce(&mut self, release: u64) -> bool {
        let news = release > self.newest;
        self.newest = self.newest.max(release);
        news
    }

    /// Says that the app is being destroyed. Whether that was news.
    pub(super) fn close(&mut self) -> bool {
        !std::mem::replace(&mut self.closed, true)
    }

    /// Holds the turn for so long, from now. Whether that was due: it is when a third of the time has passed.
    pub(super) fn renew(&mut self, lease: Duration, now: Timestamp) -> bool {
        let due = |holder: &&mut Claim| holder.until.since(now) < lease * 2 / 3;
        match self.holder.as_mut().filter(due) {
            Some(holder) => {
                holder.until = now.plus(lease);
                true
            }
            None => false,
        }
    }

    /// Gives the turn back, and waits no more. Whether that changed anything.
    pub(super) fn leave(&mut self, deploy: &DeployId) -> bool {
        let waiting = self.waiting.len();
        self.waiting.retain(|waits| waits.deploy != *deploy);
        let held = self.holder.take_if(|holder| holder.deploy == *deploy).is_some();
        held || waiting != self.waiting.len()
    }

    /// Whether a deploy goes on or waits.
    pub(super) fn is_busy(&self, now: Timestamp) -> bool {
        self.holder.iter().chain(&self.waiting).any(|claim| claim.until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Timestamp = Timestamp::from_millis(10);
    const NOW: Timestamp = Timestamp::from_millis(0);

    fn claim(release: u64, policy: InTheWay) -> Claim {
        let deploy = DeployId::new(format!("r{release}")).unwrap();
        Claim { deploy, release, policy, worker: 1, until: SOON }
    }

    fn held_by(release: u64) -> Turn {
        let mut turn = Turn::default();
        assert_eq!(turn.ask(&claim(release, InTheWay::Queue), NOW), Answer::Mine { left_by: None });
        turn
    }

    #[test]
    fn a_newer_release_supersedes_and_an_older_one_never_does() {
        let mut turn = held_by(5);
        let mine = claim(5, InTheWay::Queue);
        assert_eq!(turn.look(&mine, NOW), Hold::Good);
        for policy in [InTheWay::Supersede, InTheWay::Queue, InTheWay::Refuse] {
            assert_eq!(turn.ask(&claim(4, policy), NOW), Answer::Superseded { by: 5 });
        }
        assert_eq!(turn.look(&mine, NOW), Hold::Good);
        assert_eq!(turn.ask(&claim(6, InTheWay::Supersede), NOW), Answer::Wait);
        assert_eq!(turn.look(&mine, NOW), Hold::Superseded { by: 6 });
        // One that died while it waited takes nobody's place.
        assert_eq!(turn.look(&mine, SOON), Hold::Good);
        assert!(turn.leave(&mine.deploy));
        assert_eq!(turn.ask(&claim(6, InTheWay::Supersede), NOW), Answer::Mine { left_by: None });
        assert_eq!(turn.ask(&mine, SOON), Answer::Superseded { by: 6 });
    }

    #[test]
    fn a_release_that_was_announced_supersedes_before_its_deploy_asks() {
        let mut turn = held_by(5);
        let mine = claim(5, InTheWay::Queue);
        assert!(!turn.announce(5));
        assert_eq!(turn.look(&mine, NOW), Hold::Good);
        assert!(turn.announce(7));
        assert_eq!(turn.look(&mine, NOW), Hold::Superseded { by: 7 });
        assert_eq!(turn.ask(&claim(6, InTheWay::Queue), NOW), Answer::Superseded { by: 7 });
        turn.leave(&mine.deploy);
        assert_eq!(turn.ask(&claim(7, InTheWay::Refuse), NOW), Answer::Mine { left_by: None });
    }

    #[test]
    fn a_queue_is_by_release_and_refusal_names_what_is_in_the_way() {
        let mut turn = held_by(1);
        assert_eq!(turn.ask(&claim(3, InTheWay::Queue), NOW), Answer::Wait);
        assert_eq!(turn.ask(&claim(2, InTheWay::Queue), NOW), Answer::Wait);
        let refused = Answer::Refused { by: DeployId::new("r1").unwrap() };
        assert_eq!(turn.ask(&claim(4, InTheWay::Refuse), NOW), refused);
        turn.leave(&DeployId::new("r1").unwrap());
        assert_eq!(turn.ask(&claim(3, InTheWay::Queue), NOW), Answer::Wait);
        assert_eq!(turn.ask(&claim(2, InTheWay::Queue), NOW), Answer::Mine { left_by: None });
    }

    #[test]
    fn a_lease_that_is_over_blocks_nobody_and_its_deploy_is_named() {
        let mut turn = held_by(1);
        assert_eq!(turn.ask(&claim(2, InTheWay::Queue), NOW), Answer::Wait);
        let late = Claim { until: Timestamp::from_millis(20), ..claim(2, InTheWay::Queue) };
        let left_by = Some(DeployId::new("r1").unwrap());
        assert_eq!(turn.ask(&late, SOON), Answer::Mine { left_by });
        assert_eq!(turn.look(&claim(1, InTheWay::Queue), SOON), Hold::Lost);
    }

    #[test]
    fn the_same_deploy_waits_for_its_other_worker_unless_that_one_stopped() {
        let mut turn = held_by(1);
        let other = Claim { worker: 2, ..claim(1, InTheWay::Refuse) };
        assert_eq!(turn.ask(&other, NOW), Answer::Wait);
        assert_eq!(turn.ask(&claim(1, InTheWay::Refuse), NOW), Answer::Mine { left_by: None });
        assert_eq!(
            turn.ask(&Claim { until: Timestamp::from_millis(20), ..other }, SOON),
            Answer::Mine { left_by: None }
        );
    }

    #[test]
    fn a_closed_app_ends_every_deploy() {
        let mut turn = held_by(1);
        assert!(turn.close() && !turn.close());
        assert_eq!(turn.look(&claim(1, InTheWay::Queue), NOW), Hold::Closed);
        assert_eq!(turn.ask(&claim(2, InTheWay::Queue), NOW), Answer::Closed);
    }
}
