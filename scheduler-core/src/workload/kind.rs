//! The kinds of workloads, and what only one kind has.

use serde::{Deserialize, Serialize};

use super::is_default;
use crate::time::Seconds;

/// The kind of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// A number of equal instances that run until they are deleted.
    Service(Service),
    /// Instances that run to their end.
    Job(Job),
    /// A job that a schedule starts again and again.
    Periodic(Periodic),
    /// One instance on each node that satisfies the placement, until they are deleted.
    System(System),
}

impl Default for Kind {
    fn default() -> Self {
        Self::Service(Service::default())
    }
}

/// The name of a [`Kind`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum KindName {
    /// [`Kind::Service`].
    #[default]
    Service,
    /// [`Kind::Job`].
    Job,
    /// [`Kind::Periodic`].
    Periodic,
    /// [`Kind::System`].
    System,
}

impl std::fmt::Display for KindName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Service => "service",
            Self::Job => "job",
            Self::Periodic => "periodic",
            Self::System => "system",
        })
    }
}

impl Kind {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> KindName {
        match self {
            Self::Service(_) => KindName::Service,
            Self::Job(_) => KindName::Job,
            Self::Periodic(_) => KindName::Periodic,
            Self::System(_) => KindName::System,
        }
    }

    /// What a job has, that of a periodic one included.
    #[must_use]
    pub fn job(&self) -> Option<&Job> {
        match self {
            Self::Job(job) | Self::Periodic(Periodic { job, .. }) => Some(job),
            Self::Service(_) | Self::System(_) => None,
        }
    }
}

/// What only a service has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Service {
    /// How many instances.
    #[serde(default, skip_serializing_if = "is_default")]
    pub replicas: Replicas,
    /// How one revision takes over from the last.
    #[serde(default, skip_serializing_if = "is_default")]
    pub update: Update,
    /// How long an instance must be ready before it counts as available.
    #[serde(default, skip_serializing_if = "is_default")]
    pub min_ready: Seconds,
    /// Whether one instance is like another.
    #[serde(default, skip_serializing_if = "is_default")]
    pub identities: Identities,
}

/// Whether one instance of a service is like another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Identities {
    /// It is.
    #[default]
    Interchangeable,
    /// Each has an ordinal from zero, which its successor has too. No two instances have the same, but for one that is on its
    /// way out beside its successor, on a backend without [`OrderedSuccessors`](crate::Feature::OrderedSuccessors).
    ///
    /// Needs an update of `rolling: {max_surge: 0, max_unavailable: 1}`: a successor cannot run beside its predecessor, and
    /// not every platform replaces more than one at a time.
    Stable,
}

/// What only a job has: it runs until enough of its instances have ended well.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Job {
    /// How many instances must end well.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub completions: u32,
    /// How many of them may run at a time; all if absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub parallelism: Option<u32>,
    /// How often each of the completions is tried again after it ended badly. When one of them has no more tries left, the
    /// job fails as soon as the others have ended.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retries: u32,
    /// How long the job may take in all, before it is ended and has failed; no bound if absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub deadline: Option<Seconds>,
    /// How long it is kept after it has ended, before the platform deletes it; until it is deleted if absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub time_to_live: Option<Seconds>,
}

impl Default for Job {
    fn default() -> Self {
        Self { completions: 1, parallelism: None, retries: 0, deadline: None, time_to_live: None }
    }
}

impl Job {
    /// How many instances may run at a time.
    #[must_use]
    pub fn at_a_time(&self) -> u32 {
        self.parallelism.map_or(self.completions, |most| most.min(self.completions))
    }
}

/// What only a periodic job has.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Periodic {
    /// When it runs; see [`Cron`](super::Cron).
    pub schedule: String,
    /// The IANA time zone of the schedule (`Europe/Berlin`).
    #[serde(default = "utc", skip_serializing_if = "is_utc")]
    pub time_zone: String,
    /// What happens when a run is due and the last one still goes on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub overlap: Overlap,
    /// How late a run may still be started, if it could not be when it was due; however late if absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub starting_deadline: Option<Seconds>,
    /// How many runs that ended well are kept; as many as the platform likes if absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub keep_succeeded: Option<u32>,
    /// How many runs that failed are kept; as many as the platform likes if absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub keep_failed: Option<u32>,
    /// Whether the schedule starts nothing for now. Runs that go on are left alone.
    #[serde(default, skip_serializing_if = "is_default")]
    pub suspend: bool,
    /// What each run is.
    #[serde(default, skip_serializing_if = "is_default")]
    pub job: Job,
}

fn utc() -> String {
    "UTC".to_owned()
}

fn is_utc(zone: &String) -> bool {
    zone == "UTC"
}

impl Periodic {
    /// Runs by this schedule in UTC, none while the last one still goes on.
    pub fn new(schedule: impl Into<String>) -> Self {
        Self {
            schedule: schedule.into(),
            time_zone: utc(),
            overlap: Overlap::default(),
            starting_deadline: None,
            keep_succeeded: None,
            keep_failed: None,
            suspend: false,
            job: Job::default(),
        }
    }
}

/// What happens when a run is due and the last one still goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Overlap {
    /// The new one is left out.
    #[default]
    Forbid,
    /// Both run.
    Allow,
    /// The last one is ended.
    Replace,
}

/// What only a system has.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct System {
    /// How many instances an update may replace at a time.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub max_unavailable: u32,
    /// How long an instance must be ready before it counts as available.
    #[serde(default, skip_serializing_if = "is_default")]
    pub min_ready: Seconds,
}

impl Default for System {
    fn default() -> Self {
        Self { max_unavailable: 1, min_ready: Seconds::default() }
    }
}

/// How many instances a service has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Replicas {
    /// This many, whatever an earlier scale said.
    Exactly(u32),
    /// As many as run now; this many when the workload is launched anew.
    Keep(u32),
}

impl Replicas {
    /// The count for a launch, given the live count if the workload is there already.
    #[must_use]
    pub fn resolve(self, live: Option<u32>) -> u32 {
        match self {
            Self::Exactly(count) => count,
            Self::Keep(initial) => live.unwrap_or(initial),
        }
    }

    /// The number that is written in the workload.
    #[must_use]
    pub fn written(self) -> u32 {
        match self {
            Self::Exactly(count) | Self::Keep(count) => count,
        }
    }
}

impl Default for Replicas {
    fn default() -> Self {
        Self::Exactly(1)
    }
}

/// How one revision takes over from the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Update {
    /// A few instances at a time.
    Rolling(Rolling),
    /// All old instances end before a new one starts.
    Recreate,
    /// A few new instances run beside the old ones until [`RolloutAction::Promote`](crate::RolloutAction::Promote).
    Canary(Canary),
}

/// An update that goes on only when it is told to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Canary {
    /// How many new instances run beside the old ones, at least one.
    pub canaries: u32,
    /// How many of the old ones may be replaced at a time after the promotion, at least one.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub at_a_time: u32,
}

impl Canary {
    /// So many canaries, and one at a time after the promotion.
    #[must_use]
    pub fn new(canaries: u32) -> Self {
        Self { canaries, at_a_time: 1 }
    }
}

impl Default for Update {
    fn default() -> Self {
        Self::Rolling(Rolling::default())
    }
}

/// The bounds of a rolling update, in instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Rolling {
    /// How many instances there may be above the count.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub max_surge: u32,
    /// How many instances below the count may be available.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_unavailable: u32,
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one(n: &u32) -> bool {
    *n == 1
}

impl Default for Rolling {
    fn default() -> Self {
        Self { max_surge: 1, max_unavailable: 0 }
    }
}

impl Rolling {
    /// These bounds; not both may be zero.
    #[must_use]
    pub fn new(max_surge: u32, max_unavailable: u32) -> Self {
        Self { max_surge, max_unavailable }
    }
}
