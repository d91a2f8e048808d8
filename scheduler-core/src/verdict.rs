//! The one judgement over an [`Observation`], the same for all backends.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::observation::Observation;

/// How a workload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verdict {
    /// It is being deleted.
    Deleting,
    /// It is on its way, and why it is not there yet.
    Progressing(Waiting),
    /// It will not come right without somebody's doing.
    Failed,
    /// All that there should be is ready.
    Healthy,
    /// It did come right once, and something is missing now.
    Degraded,
}

/// Why a rollout is not complete yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Waiting {
    /// The backend has not taken notice of the last change.
    Unnoticed,
    /// The rollout is paused.
    Paused,
    /// Not all instances are of what was launched last.
    Updating,
    /// There are more instances than there should be.
    Surplus,
    /// Instances of what was launched earlier have not ended.
    OldInstances,
    /// The rollout has never been complete.
    NeverComplete,
    /// All that is missing is merely starting.
    Starting,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deleting => f.write_str("deleting"),
            Self::Progressing(waiting) => write!(f, "progressing ({waiting})"),
            Self::Failed => f.write_str("failed"),
            Self::Healthy => f.write_str("healthy"),
            Self::Degraded => f.write_str("degraded"),
        }
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unnoticed => "not noticed yet",
            Self::Paused => "paused",
            Self::Updating => "updating",
            Self::Surplus => "more instances than desired",
            Self::OldInstances => "old instances are ending",
            Self::NeverComplete => "never complete yet",
            Self::Starting => "starting",
        })
    }
}

/// Judges an observation; the first rule that matches wins.
///
/// 1. `Deleting`: it is being deleted.
/// 2. `Progressing(Unnoticed)`: the backend has not taken notice of the last change, so nothing that it says counts.
/// 3. `Failed`: the backend gave up on this rollout; or instances are wanted, none of the current ones is ready, and a
///    current diagnosis cannot pass by itself or is older than the patience.
/// 4. `Progressing`: paused; fewer updated than desired; more live than desired; old instances; never complete; or every
///    missing instance is merely starting.
/// 5. `Healthy`: as many are ready as desired, zero included.
/// 6. `Degraded`: anything else.
///
/// It reads no clock: ages are taken from [`Observation::at`], the server's time.
#[must_use]
pub fn verdict(seen: &Observation) -> Verdict {
    let counts = &seen.counts;
    if seen.deleting {
        return Verdict::Deleting;
    }
    if !seen.noticed {
        return Verdict::Progressing(Waiting::Unnoticed);
    }
    let beyond = |d: &crate::Diagnosis| !d.kind.recoverable() || seen.at.since(d.since) >= seen.patience.duration();
    let hopeless = counts.desired > 0 && counts.ready == 0 && seen.diagnoses.iter().any(|d| d.current && beyond(d));
    if seen.gave_up || hopeless {
        return Verdict::Failed;
    }
    let missing = counts.desired.saturating_sub(counts.ready);
    let waiting = if seen.paused {
        Some(Waiting::Paused)
    } else if counts.updated < counts.desired {
        Some(Waiting::Updating)
    } else if counts.old > 0 {
        Some(Waiting::OldInstances)
    } else if counts.live > counts.desired {
        Some(Waiting::Surplus)
    } else if !seen.completed {
        Some(Waiting::NeverComplete)
    } else if missing > 0 && counts.starting >= missing {
        Some(Waiting::Starting)
    } else {
        None
    };
    match waiting {
        Some(waiting) => Verdict::Progressing(waiting),
        None if missing == 0 => Verdict::Healthy,
        None => Verdict::Degraded,
    }
}
