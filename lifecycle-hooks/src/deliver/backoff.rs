//! How long to wait after a failure.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Growing delays with full jitter: a random part of a bound that doubles, up to a cap.
#[derive(Debug)]
pub(super) struct Backoff {
    pub(super) base: Duration,
    pub(super) cap: Duration,
    state: AtomicU64,
}

impl Backoff {
    /// With this seed, or one of the system's.
    pub(super) fn new(base: Duration, cap: Duration, seed: Option<u64>) -> Self {
        let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(0));
        Self { base, cap, state: AtomicU64::new(seed) }
    }

    /// The delay after so many failures; `asked` is what somebody asked for: it is never less, whatever the cap.
    pub(super) fn after(&self, failures: u32, asked: Option<Duration>) -> Duration {
        let bound = self.base.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1))).min(self.cap);
        let fraction = (self.random() >> 11) as f64 / (1_u64 << 53) as f64;
        asked.unwrap_or_default().saturating_add(bound.mul_f64(fraction))
    }

    /// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
    fn random(&self) -> u64 {
        const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.state.fetch_add(GAMMA, Ordering::Relaxed).wrapping_add(GAMMA);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_spread_below_a_bound_that_doubles_up_to_the_cap() {
        let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(10), Some(7));
        for (failures, bound) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (40, 10)] {
            let delays: Vec<_> = (0..200).map(|_| backoff.after(failures, None).as_secs_f64()).collect();
            let (low, high) = (f64::from(bound) * 0.1, f64::from(bound) * 0.9);
            assert!(delays.iter().all(|delay| *delay <= f64::from(bound)), "{failures}");
            assert!(delays.iter().any(|delay| *delay < low) && delays.iter().any(|delay| *delay > high), "{failures}");
        }
    }

    #[test]
    fn what_was_asked_for_is_waited_even_beyond_the_cap_and_a_seed_repeats() {
        let new = || Backoff::new(Duration::from_secs(1), Duration::from_secs(2), Some(7));
        assert!(new().after(1, Some(Duration::from_secs(60))) >= Duration::from_secs(60));
        assert_eq!(new().after(3, None), new().after(3, None));
    }
}
