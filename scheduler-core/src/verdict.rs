//! The one judgement over an [`Observation`], the same for all backends.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::observation::{Finished, Observation};
use crate::workload::KindName;

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
    /// A job: as many instances ended well as had to.
    Complete,
    /// A periodic job: its schedule starts runs when they are due.
    Idle,
    /// A periodic job: its schedule starts nothing for now.
    Suspended,
}

/// Why a rollout is not complete yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Waiting {
    /// The backend has not taken notice of the last change.
    Unnoticed,
    /// A job has not ended.
    Running,
    /// The rollout is paused.
    Paused,
    /// The canaries stand the test, and wait for a promotion.
    Promotion,
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
            Self::Complete => f.write_str("complete"),
            Self::Idle => f.write_str("idle"),
            Self::Suspended => f.write_str("suspended"),
        }
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unnoticed => "not noticed yet",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Promotion => "awaiting promotion",
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
/// 2. `Suspended` or `Idle`: it is periodic.
/// 3. `Progressing(Unnoticed)`: the backend has not taken notice of the last change, so nothing that it says counts.
/// 4. `Complete` or `Failed`: it is a job that has ended.
/// 5. `Failed`: the backend gave up on this rollout; or instances are wanted, none of the current ones is ready, and a
///    current diagnosis cannot pass by itself or is older than the patience.
/// 6. `Progressing`: a job; paused; canaries that await a promotion; fewer updated than desired; more live than desired;
///    old instances; never complete; or every missing instance is merely starting.
/// 7. `Healthy`: as many are ready as desired, zero included.
/// 8. `Degraded`: anything else.
///
/// It reads no clock: ages are taken from [`Observation::at`], the server's time.
#[must_use]
pub fn verdict(seen: &Observation) -> Verdict {
    let counts = &seen.counts;
    if seen.deleting {
        return Verdict::Deleting;
    }
    if seen.kind == KindName::Periodic {
        return if seen.suspended { Verdict::Suspended } else { Verdict::Idle };
    }
    if !seen.noticed {
        return Verdict::Progressing(Waiting::Unnoticed);
    }
    match seen.finished {
        Some(Finished::Complete) => return Verdict::Complete,
        Some(Finished::Failed) => return Verdict::Failed,
        None => {}
    }
    let beyond = |d: &crate::Diagnosis| !d.kind.recoverable() || seen.at.since(d.since) >= seen.patience.duration();
    let hopeless = counts.desired > 0 && counts.ready == 0 && seen.diagnoses.iter().any(|d| d.current && beyond(d));
    if seen.gave_up.is_some() || hopeless {
        return Verdict::Failed;
    }
    let missing = counts.desired.saturating_sub(counts.ready);
    let waiting = if seen.kind == KindName::Job {
        Some(Waiting::Running)
    } else if seen.paused {
        Some(Waiting::Paused)
    } else if seen.awaits_promotion {
        Some(Waiting::Promotion)
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Diagnosis, DiagnosisKind, Instance, InstanceState, OwnerId, Seconds, Target, Timestamp, Version};

    const NOW: Timestamp = Timestamp::from_millis(1_000_000_000);

    fn ago(seconds: i64) -> Timestamp {
        Timestamp::from_millis(NOW.millis() - seconds * 1000)
    }

    fn instance(id: &str, state: InstanceState) -> Instance {
        Instance { state, available: state == InstanceState::Ready, ..Instance::new(id, ago(5)) }
    }

    /// Two wanted, a patience of 60 s, complete once, and these instances.
    fn seen(instances: Vec<Instance>) -> Observation {
        with(|_| (), instances)
    }

    fn with(change: impl FnOnce(&mut Observation), instances: Vec<Instance>) -> Observation {
        let target = Target::new("shop", "web").unwrap();
        let mut seen = Observation::new(target, OwnerId::new("me").unwrap(), "1", Version::new("1"), NOW);
        seen.patience = Seconds::new(60);
        seen.completed = true;
        seen.counts.desired = 2;
        change(&mut seen);
        seen.with_instances(instances)
    }

    fn ready(n: usize) -> Vec<Instance> {
        (0..n).map(|i| instance(&format!("r{i}"), InstanceState::Ready)).collect()
    }

    fn trouble(kind: DiagnosisKind, age: i64) -> impl FnOnce(&mut Observation) {
        move |seen| {
            seen.completed = false;
            seen.diagnoses.push(Diagnosis::new(kind, ago(age)));
        }
    }

    #[test]
    fn ready_as_desired_is_healthy_zero_included() {
        assert_eq!(seen(ready(2)).verdict(), Verdict::Healthy);
        assert_eq!(with(|s| s.counts.desired = 0, vec![]).verdict(), Verdict::Healthy);
    }

    #[test]
    fn deletion_comes_before_everything() {
        let all = |s: &mut Observation| (s.deleting, s.noticed, s.gave_up) = (true, false, Some(NOW));
        assert_eq!(with(all, ready(2)).verdict(), Verdict::Deleting);
    }

    #[test]
    fn what_the_backend_said_before_it_noticed_is_no_evidence() {
        let stale = |s: &mut Observation| (s.noticed, s.gave_up) = (false, Some(NOW));
        assert_eq!(with(stale, ready(2)).verdict(), Verdict::Progressing(Waiting::Unnoticed));
    }

    #[test]
    fn failed_needs_a_hopeless_or_an_old_diagnosis_and_nothing_ready() {
        let pending = || vec![instance("a", InstanceState::Starting), instance("b", InstanceState::Starting)];
        let never = Verdict::Progressing(Waiting::NeverComplete);
        assert_eq!(with(trouble(DiagnosisKind::ImagePull, 59), pending()).verdict(), never);
        assert_eq!(with(trouble(DiagnosisKind::ImagePull, 60), pending()).verdict(), Verdict::Failed);
        assert_eq!(with(trouble(DiagnosisKind::InvalidImage, 0), pending()).verdict(), Verdict::Failed);
        assert_eq!(with(|s| s.gave_up = Some(NOW), ready(1)).verdict(), Verdict::Failed);
        // One that is ready keeps it from being hopeless; and what concerns old instances only does not count.
        let one = vec![instance("a", InstanceState::Starting), instance("r", InstanceState::Ready)];
        assert_eq!(with(trouble(DiagnosisKind::ImagePull, 600), one).verdict(), never);
        let of_old = |s: &mut Observation| {
            let mut diagnosis = Diagnosis::new(DiagnosisKind::CrashLoop, ago(600));
            diagnosis.current = false;
            s.diagnoses.push(diagnosis);
        };
        assert_eq!(with(of_old, pending()).verdict(), Verdict::Progressing(Waiting::Starting));
        let none_wanted = |s: &mut Observation| {
            trouble(DiagnosisKind::ImagePull, 600)(s);
            (s.counts.desired, s.completed) = (0, true);
        };
        assert_eq!(with(none_wanted, vec![]).verdict(), Verdict::Healthy);
    }

    #[test]
    fn a_rollout_is_not_over_before_its_last_old_instance_has_ended() {
        let progressing = |s: &Observation| match s.verdict() {
            Verdict::Progressing(waiting) => waiting,
            other => panic!("{other}"),
        };
        assert_eq!(progressing(&seen(ready(1))), Waiting::Updating);
        assert_eq!(progressing(&seen(ready(3))), Waiting::Surplus);
        let mut old = ready(2);
        old.push(Instance { current: false, ..instance("old", InstanceState::Terminating) });
        assert_eq!(progressing(&seen(old)), Waiting::OldInstances);
        assert_eq!(progressing(&with(|s| s.paused = true, ready(2))), Waiting::Paused);
        assert_eq!(progressing(&with(|s| s.completed = false, ready(2))), Waiting::NeverComplete);
    }

    #[test]
    fn what_is_merely_starting_is_no_degradation() {
        let missing = |change: fn(&mut Instance)| {
            let mut one = instance("a", InstanceState::Running);
            change(&mut one);
            seen(vec![one, instance("r", InstanceState::Ready)]).verdict()
        };
        assert_eq!(missing(|_| ()), Verdict::Progressing(Waiting::Starting));
        assert_eq!(missing(|i| i.restarts = 1), Verdict::Degraded);
        assert_eq!(missing(|i| i.created = ago(60)), Verdict::Degraded);
    }

    #[test]
    fn running_unready_beyond_the_patience_is_diagnosed() {
        let unready = |since| Instance { created: ago(900), since, ..instance("a", InstanceState::Running) };
        let short = seen(vec![unready(ago(59)), unready(ago(59))]);
        assert_eq!((short.diagnoses.len(), short.verdict()), (0, Verdict::Degraded));
        let long = seen(vec![unready(ago(60)), instance("r", InstanceState::Ready)]);
        assert_eq!(long.diagnoses.iter().map(|d| d.kind).collect::<Vec<_>>(), [DiagnosisKind::NotReady]);
        assert_eq!(long.verdict(), Verdict::Degraded);
        assert_eq!(seen(vec![unready(ago(60)), unready(ago(60))]).verdict(), Verdict::Failed);
    }

    #[test]
    fn a_patience_of_years_does_not_overflow() {
        let far = |s: &mut Observation| s.patience = Seconds::new(u32::MAX);
        assert_eq!(with(far, ready(2)).verdict(), Verdict::Healthy);
        assert_eq!(NOW.since(NOW.plus(Duration::from_secs(1))), Duration::ZERO);
    }
}
