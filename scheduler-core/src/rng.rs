//! A small seeded generator, for jitter, and for faults and runs that can be repeated.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// SplitMix64 (Steele, Lea, Flood 2014): one word of state and no bad seeds.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Of the process's own randomness, so that no two processes wait in step.
    pub(crate) fn unseeded() -> Self {
        Self(RandomState::new().hash_one(0))
    }

    /// The generator of the `index`-th decision of a seed: two seeds, or two decisions, have nothing in common.
    pub(crate) fn at(seed: u64, index: u64) -> Self {
        Self(Self(seed).next() ^ Self(index).next())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// One of these; `None` only if there are none. A single one costs no random number.
    #[cfg(feature = "memory")]
    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        let count = u64::try_from(of.len()).ok().filter(|count| *count > 1);
        let at = count.map_or(0, |count| self.next() % count);
        of.get(usize::try_from(at).unwrap_or(0))
    }

    /// Less than `bound`; zero if that is zero.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        // The upper half of the product is spread evenly but for one part in 2^32.
        u32::try_from(((self.next() >> 32) * u64::from(bound)) >> 32).unwrap_or(0)
    }

    /// From nothing up to `most`.
    pub(crate) fn up_to(&mut self, most: Duration) -> Duration {
        // Parts of the whole never exceed it, so that no span is too long for this.
        const PARTS: u32 = 4096;
        (most / PARTS).saturating_mul(self.below(PARTS + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn numbers_are_those_of_the_published_generator() {
        // The first outputs for the seed 1234567 of the reference implementation (prng.di.unimi.it/splitmix64.c).
        let mut rng = Rng::new(1_234_567);
        assert_eq!([rng.next(), rng.next()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn a_number_below_a_bound_takes_every_value_and_no_other() {
        let mut rng = Rng::new(1);
        let mut seen = [0; 3];
        for _ in 0..300 {
            seen[rng.below(3) as usize] += 1;
        }
        assert!(seen.iter().all(|count| *count > 50), "{seen:?}");
        assert_eq!(rng.below(0), 0);
    }
}
