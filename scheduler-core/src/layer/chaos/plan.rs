//! Which call fails, and how. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::rng::Rng;

/// What happens to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mishap {
    /// It is done so much later.
    Delay(Duration),
    /// It is [`Unavailable`](crate::ErrorKind::Unavailable), and nothing is done.
    Refuse,
    /// Likewise, and the error asks to be left alone for so long ([`Error::retry_after`](crate::Error::retry_after)).
    RefuseFor(Duration),
    /// It is done, and its answer is dropped: [`OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown), or
    /// [`Unavailable`](crate::ErrorKind::Unavailable) if it only reads.
    LoseAnswer,
}

/// How often calls fail, each way in so many of 1000. A call fails in one way only: of ways that add up to more than 1000,
/// the ones further down happen less often.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChaosOptions {
    /// Decides it all.
    pub seed: u64,
    /// How many calls are refused.
    pub refuse: u32,
    /// How many calls are refused with a while to wait, of up to `longest_delay`.
    pub refuse_for: u32,
    /// How many answers are lost.
    pub lose_answer: u32,
    /// How many calls are delayed, by up to `longest_delay`; also those that fail.
    pub delay: u32,
    /// The most that a call is delayed.
    pub longest_delay: Duration,
    /// How many items of streams come after a gap.
    pub gap: u32,
}

impl ChaosOptions {
    /// Nothing fails yet; delays are of up to a second.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, refuse: 0, refuse_for: 0, lose_answer: 0, delay: 0, longest_delay: Duration::from_secs(1), gap: 0 }
    }

    /// Sets how many calls of 1000 are refused.
    #[must_use]
    pub fn refuse(mut self, rate: u32) -> Self {
        self.refuse = rate;
        self
    }

    /// Sets how many calls of 1000 are refused with a while to wait.
    #[must_use]
    pub fn refuse_for(mut self, rate: u32) -> Self {
        self.refuse_for = rate;
        self
    }

    /// Sets how many answers of 1000 are lost.
    #[must_use]
    pub fn lose_answer(mut self, rate: u32) -> Self {
        self.lose_answer = rate;
        self
    }

    /// Sets how many calls of 1000 are delayed.
    #[must_use]
    pub fn delay(mut self, rate: u32) -> Self {
        self.delay = rate;
        self
    }

    /// Sets the most that a call is delayed.
    #[must_use]
    pub fn longest_delay(mut self, span: Duration) -> Self {
        self.longest_delay = span;
        self
    }

    /// Sets how many items of 1000 come after a gap.
    #[must_use]
    pub fn gap(mut self, rate: u32) -> Self {
        self.gap = rate;
        self
    }
}

/// Which calls fail, and how; no others do. Calls are counted from 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChaosScript {
    /// What happens to which call.
    pub calls: BTreeMap<u64, Mishap>,
    /// Which item of all streams together is a gap's error, instead of what it would be. Items are counted from 1, errors
    /// included.
    pub gaps: BTreeSet<u64>,
}

impl ChaosScript {
    /// Nothing fails.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// This happens to this call.
    #[must_use]
    pub fn call(mut self, number: u64, mishap: Mishap) -> Self {
        self.calls.insert(number, mishap);
        self
    }

    /// This item of all streams together is a gap's error.
    #[must_use]
    pub fn gap(mut self, number: u64) -> Self {
        self.gaps.insert(number);
        self
    }
}

/// Where it is decided.
#[derive(Debug)]
pub(super) enum Plan {
    Seeded(ChaosOptions),
    Scripted(ChaosScript),
}

impl Plan {
    /// By how much the call of this number is delayed, and what else happens to it.
    pub(super) fn of_call(&self, number: u64) -> (Duration, Option<Mishap>) {
        match self {
            Self::Seeded(options) => options.of_call(number),
            Self::Scripted(script) => match script.calls.get(&number) {
                Some(Mishap::Delay(delay)) => (*delay, None),
                mishap => (Duration::ZERO, mishap.copied()),
            },
        }
    }

    /// Whether the item of this number is a gap's error.
    pub(super) fn is_gap(&self, number: u64) -> bool {
        match self {
            Self::Seeded(options) => Rng::at(options.seed, number).below(1000) < options.gap,
            Self::Scripted(script) => script.gaps.contains(&number),
        }
    }
}

impl ChaosOptions {
    fn of_call(&self, number: u64) -> (Duration, Option<Mishap>) {
        let mut rng = Rng::at(self.seed, number);
        let delayed = rng.below(1000) < self.delay;
        let delay = if delayed { rng.up_to(self.longest_delay) } else { Duration::ZERO };
        let mut dice = rng.below(1000);
        let ways = [
            (self.refuse, Mishap::Refuse),
            (self.refuse_for, Mishap::RefuseFor(rng.up_to(self.longest_delay))),
            (self.lose_answer, Mishap::LoseAnswer),
        ];
        for (rate, mishap) in ways {
            match dice.checked_sub(rate) {
                None => return (delay, Some(mishap)),
                Some(rest) => dice = rest,
            }
        }
        (delay, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(seed: u64) -> ChaosOptions {
        ChaosOptions::new(seed).refuse(100).refuse_for(200).lose_answer(300).delay(500).gap(50)
    }

    #[test]
    fn a_call_fails_as_often_as_asked_for() {
        let calls: Vec<_> = (1..=10_000).map(|number| Plan::Seeded(options(7)).of_call(number)).collect();
        let about = |expected: usize, is: fn(&(Duration, Option<Mishap>)) -> bool| {
            let count = calls.iter().filter(|call| is(call)).count();
            // Ten standard deviations of a binomial distribution are at most 500 here.
            assert!(count.abs_diff(expected) < 500, "{count} instead of {expected}");
        };
        about(1000, |(_, mishap)| *mishap == Some(Mishap::Refuse));
        about(2000, |(_, mishap)| matches!(mishap, Some(Mishap::RefuseFor(_))));
        about(3000, |(_, mishap)| *mishap == Some(Mishap::LoseAnswer));
        about(4000, |(_, mishap)| mishap.is_none());
        about(5000, |(delay, _)| !delay.is_zero());
        assert!(calls.iter().all(|(delay, _)| *delay <= Duration::from_secs(1)));
        let gaps = (1..=10_000).filter(|number| Plan::Seeded(options(7)).is_gap(*number)).count();
        assert!(gaps.abs_diff(500) < 250, "{gaps}");
    }

    #[test]
    fn a_seed_decides_it_all() {
        let of = |seed| (1..=100).map(|number| Plan::Seeded(options(seed)).of_call(number)).collect::<Vec<_>>();
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }
}
