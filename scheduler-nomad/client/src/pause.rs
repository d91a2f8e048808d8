//! How long a stream waits after failures.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);
/// The longest that a `Retry-After` is obeyed.
const LONGEST_ASKED: Duration = Duration::from_secs(300);

/// Counts the failures of one stream in a row.
#[derive(Debug, Default)]
pub(crate) struct Failures(u32);

impl Failures {
    /// One more. Answers the pause before the next attempt.
    pub(crate) fn add(&mut self, asked: Option<Duration>) -> Duration {
        let pause = pause(self.0, random()).max(asked.unwrap_or_default().min(LONGEST_ASKED));
        self.0 = self.0.saturating_add(1);
        pause
    }

    /// The server sent something.
    pub(crate) fn reset(&mut self) {
        self.0 = 0;
    }
}

/// Doubling, with the upper half random, so that many streams that lost one server do not come back in step.
fn pause(failures: u32, random: u64) -> Duration {
    let full = FIRST.saturating_mul(1 << failures.min(16)).min(LONGEST);
    let half = full / 2;
    let share = (random % 1024) as u32;
    half + half * share / 1024
}

/// Random enough for jitter: the standard library seeds each hasher anew.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_cap() {
        let pauses = |random| (0..9).map(|failures| pause(failures, random).as_millis()).collect::<Vec<_>>();
        assert_eq!(pauses(0), [250, 500, 1000, 2000, 4000, 8000, 15000, 15000, 15000]);
        assert!(pauses(1023).iter().zip(pauses(0)).all(|(most, least)| *most > least && *most <= 2 * least));
        assert_eq!(pause(u32::MAX, 0), Duration::from_secs(15));
    }

    #[test]
    fn a_server_may_ask_for_more() {
        let mut failures = Failures::default();
        assert_eq!(failures.add(Some(Duration::from_secs(7))), Duration::from_secs(7));
        assert_eq!(failures.add(Some(Duration::from_secs(9999))), LONGEST_ASKED);
        assert!(failures.add(None) >= Duration::from_secs(1));
        failures.reset();
        assert!(failures.add(None) <= FIRST);
    }
}
