//! What a backend saw of a workload, in neutral terms. [`verdict`](crate::verdict) judges it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::diagnosis::{Diagnosis, DiagnosisKind};
use crate::name::{OwnerId, Target, WorkloadName};
use crate::time::{Seconds, Timestamp};
use crate::verdict::{Verdict, verdict};
use crate::version::{Revision, Version};
use crate::workload::{KindName, Marks, is_default};

/// How much a status tells. The verdict is the same at each level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Detail {
    /// Counts and diagnoses.
    #[default]
    Counts,
    /// Also each instance.
    Instances,
    /// Also the last events with each diagnosis; may cost more requests.
    Evidence,
}

/// What a backend saw of a workload.
///
/// A backend makes one with [`Observation::new`], sets what it knows, and hands the instances to
/// [`with_instances`](Self::with_instances), which counts them: by one rule on all backends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Observation {
    /// Which workload.
    pub target: Target,
    /// What kind of workload it is.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kind: KindName,
    /// The periodic workload that it is a run of, begun by [`run`](crate::Scheduler::run).
    #[serde(default, skip_serializing_if = "is_default")]
    pub run_of: Option<WorkloadName>,
    /// Who owns it.
    pub owner: OwnerId,
    /// Which one of this name: another after it was deleted and made again (a uid, a create index).
    pub incarnation: String,
    /// The token for compare-and-set.
    pub version: Version,
    /// What was launched last; `None` if the main object does not say it, or was changed by somebody else.
    pub revision: Option<Revision>,
    /// What the platform calls it.
    #[serde(default)]
    pub marks: Marks,
    /// Its labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The patience; see [`Workload::progress_deadline`](crate::Workload::progress_deadline).
    pub patience: Seconds,
    /// When it was looked at, by the server's clock.
    pub at: Timestamp,
    /// When launch changed it last, by the server's record; `None` where that does not say. Without
    /// [`LaunchTimes`](crate::Feature::LaunchTimes) a scale and a restart count as well.
    #[serde(default, skip_serializing_if = "is_default")]
    pub changed: Option<Timestamp>,
    /// Whether the backend has taken notice of the last change. Until then nothing else that it says is about it.
    pub noticed: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether the rollout is paused.
    pub paused: bool,
    /// Whether a periodic job starts nothing for now.
    #[serde(default, skip_serializing_if = "is_default")]
    pub suspended: bool,
    /// Whether its canaries stand the test, and wait for a promotion.
    #[serde(default, skip_serializing_if = "is_default")]
    pub awaits_promotion: bool,
    /// How a job ended.
    #[serde(default, skip_serializing_if = "is_default")]
    pub finished: Option<Finished>,
    /// What the schedule of a periodic job did.
    #[serde(default, skip_serializing_if = "is_default")]
    pub schedule: Option<ScheduleState>,
    /// Whether this rollout completed once.
    pub completed: bool,
    /// Since when the backend has given up on this rollout.
    pub gave_up: Option<Timestamp>,
    /// How many instances of what there are.
    pub counts: Counts,
    /// What is wrong, of current instances first.
    pub diagnoses: Vec<Diagnosis>,
    /// Each instance; empty with [`Detail::Counts`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<Instance>,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Finished {
    /// As many instances ended well as had to.
    Complete,
    /// It cannot complete any more.
    Failed,
}

/// What the schedule of a periodic job did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ScheduleState {
    /// When it started a run last, as far as the platform tells.
    #[serde(default, skip_serializing_if = "is_default")]
    pub last: Option<Timestamp>,
    /// How many of the runs that it began have not ended.
    pub active: u32,
}

impl ScheduleState {
    /// So many runs that have not ended.
    #[must_use]
    pub fn new(last: Option<Timestamp>, active: u32) -> Self {
        Self { last, active }
    }
}

/// How many instances of what there are. Only our own are counted, never one that merely matches a selector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Counts {
    /// How many there should be: replicas of a service, completions of a job, nodes of a system.
    pub desired: u32,
    /// All that have not ended yet, those on their way out included.
    pub live: u32,
    /// Of what was launched last, and not on their way out.
    pub updated: u32,
    /// Those of `updated` that are ready.
    pub ready: u32,
    /// Those of `ready` that have been so for the workload's `min_ready`.
    pub available: u32,
    /// Those of `updated` that are merely starting: not ready, never restarted, younger than the patience.
    pub starting: u32,
    /// Of what was launched earlier, until each has ended.
    pub old: u32,
    /// How many of a job's completions have been reached.
    #[serde(default, skip_serializing_if = "is_default")]
    pub succeeded: u32,
    /// How many of a job's instances ended badly, those that were tried again included.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failed: u32,
}

/// One instance of a workload: a Pod, an allocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Instance {
    /// Its id; never used again for another one.
    pub id: String,
    /// Whether it is of what was launched last.
    pub current: bool,
    /// What it is doing.
    pub state: InstanceState,
    /// Whether it counts as available: ready for long enough.
    pub available: bool,
    /// How often its containers were started again, in all. Never decreases.
    pub restarts: u32,
    /// When it was made.
    pub created: Timestamp,
    /// Since when it is in its state.
    pub since: Timestamp,
    /// Its node, once it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Its address, once it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Its ordinal; only with stable identities, and of a job with several completions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordinal: Option<u32>,
    /// How its main container ended, once the instance has, as far as the platform tells. One that never started, and one
    /// that vanished, have none: that is not exit code zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
}

/// How a container ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Exit {
    /// Its exit code.
    pub code: i32,
    /// The signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Whether it was ended since it used more memory than it may. Then it did not end well, whatever its code.
    #[serde(default, skip_serializing_if = "is_default")]
    pub out_of_memory: bool,
}

impl Exit {
    /// An end with this code, by itself.
    #[must_use]
    pub fn new(code: i32) -> Self {
        Self { code, signal: None, out_of_memory: false }
    }

    /// Whether it ended well.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.code == 0 && self.signal.is_none() && !self.out_of_memory
    }
}

/// What an instance is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum InstanceState {
    /// It has no node yet.
    Pending,
    /// It has a node, and its main container does not run: pulling, starting, or waiting to be started again.
    Starting,
    /// It runs and is not ready.
    Running,
    /// It is ready.
    Ready,
    /// It is on its way out.
    Terminating,
    /// It has ended, and is counted as live no more.
    Ended,
}

impl Instance {
    /// A new instance of what was launched last.
    pub fn new(id: impl Into<String>, created: Timestamp) -> Self {
        Self {
            id: id.into(),
            current: true,
            state: InstanceState::Pending,
            available: false,
            restarts: 0,
            created,
            since: created,
            node: None,
            address: None,
            ordinal: None,
            exit: None,
        }
    }
}

impl Counts {
    /// Nothing there, and this many wanted.
    #[must_use]
    pub fn desired(desired: u32) -> Self {
        Self { desired, ..Self::default() }
    }
}

impl Observation {
    /// A workload of which nothing is known yet but its name.
    #[must_use]
    pub fn new(
        target: Target,
        owner: OwnerId,
        incarnation: impl Into<String>,
        version: Version,
        at: Timestamp,
    ) -> Self {
        Self {
            target,
            kind: KindName::default(),
            run_of: None,
            owner,
            incarnation: incarnation.into(),
            version,
            revision: None,
            marks: Marks::default(),
            labels: BTreeMap::new(),
            patience: Seconds::new(600),
            at,
            changed: None,
            noticed: true,
            deleting: false,
            paused: false,
            suspended: false,
            awaits_promotion: false,
            finished: None,
            schedule: None,
            completed: false,
            gave_up: None,
            counts: Counts::default(),
            diagnoses: Vec::new(),
            instances: Vec::new(),
        }
    }

    /// Counts these instances and keeps them. Set `at`, `patience`, `gave_up`, `diagnoses`, and in `counts` what instances
    /// do not tell (`desired`, `succeeded`, `failed`) first.
    ///
    /// Adds what follows from the instances alone: [`NotReady`](DiagnosisKind::NotReady) for a current one that runs
    /// unready and without another diagnosis beyond the patience, and
    /// [`RolloutDeadline`](DiagnosisKind::RolloutDeadline) when the backend gave up and nothing else says why.
    #[must_use]
    pub fn with_instances(mut self, mut instances: Vec<Instance>) -> Self {
        instances.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
        let patience = self.patience.duration();
        let counts = &mut self.counts;
        *counts = Counts { succeeded: counts.succeeded, failed: counts.failed, ..Counts::desired(counts.desired) };
        for i in instances.iter().filter(|i| i.state != InstanceState::Ended) {
            counts.live += 1;
            counts.old += u32::from(!i.current);
            if !i.current || i.state == InstanceState::Terminating {
                continue;
            }
            let ready = i.state == InstanceState::Ready;
            let young = self.at.since(i.created) < patience;
            counts.updated += 1;
            counts.ready += u32::from(ready);
            counts.available += u32::from(ready && i.available);
            counts.starting += u32::from(!ready && i.restarts == 0 && young);
            let known = self.diagnoses.iter().any(|d| d.instance.as_ref() == Some(&i.id));
            let long = self.gave_up.is_some() || self.at.since(i.since) >= patience;
            if i.state == InstanceState::Running && !known && long {
                self.diagnoses.push(Diagnosis {
                    instance: Some(i.id.clone()),
                    ..Diagnosis::new(DiagnosisKind::NotReady, i.since)
                });
            }
        }
        if let Some(since) = self.gave_up
            && !self.diagnoses.iter().any(|d| d.current)
        {
            self.diagnoses.push(Diagnosis::new(DiagnosisKind::RolloutDeadline, since));
        }
        self.diagnoses.sort_by(|a, b| (!a.current, a.kind, &a.instance).cmp(&(!b.current, b.kind, &b.instance)));
        self.instances = instances;
        self
    }

    /// Leaves out what was not asked for.
    #[must_use]
    pub fn trimmed(mut self, detail: Detail) -> Self {
        if detail < Detail::Instances {
            self.instances.clear();
        }
        if detail < Detail::Evidence {
            for diagnosis in &mut self.diagnoses {
                diagnosis.evidence.events.clear();
            }
        }
        self
    }

    /// The verdict over it.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        verdict(self)
    }
}

/// The counts of one or many workloads, some of which may be unknown.
///
/// Adding them up is a monoid: [`DeploymentSummary::default`] is the identity, and an unknown stays unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DeploymentSummary {
    /// How many there should be.
    pub desired: Option<u32>,
    /// How many are of what was launched last.
    pub updated: Option<u32>,
    /// How many of those are ready.
    pub ready: Option<u32>,
    /// How many of those are available.
    pub available: Option<u32>,
    /// How many of what was launched earlier have not ended.
    pub old: Option<u32>,
}

impl DeploymentSummary {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self { desired: None, updated: None, ready: None, available: None, old: None };
}

impl Default for DeploymentSummary {
    fn default() -> Self {
        Counts::default().into()
    }
}

impl From<Counts> for DeploymentSummary {
    fn from(c: Counts) -> Self {
        Self {
            desired: Some(c.desired),
            updated: Some(c.updated),
            ready: Some(c.ready),
            available: Some(c.available),
            old: Some(c.old),
        }
    }
}

impl std::ops::Add for DeploymentSummary {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let add = |a: Option<u32>, b: Option<u32>| Some(a?.saturating_add(b?));
        Self {
            desired: add(self.desired, other.desired),
            updated: add(self.updated, other.updated),
            ready: add(self.ready, other.ready),
            available: add(self.available, other.available),
            old: add(self.old, other.old),
        }
    }
}

impl std::iter::Sum for DeploymentSummary {
    fn sum<I: Iterator<Item = Self>>(summaries: I) -> Self {
        summaries.fold(Self::default(), std::ops::Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn summaries() -> impl Strategy<Value = DeploymentSummary> {
        let count = || proptest::option::of(0_u32..=u32::MAX);
        (count(), count(), count(), count(), count()).prop_map(|(desired, updated, ready, available, old)| {
            DeploymentSummary { desired, updated, ready, available, old }
        })
    }

    proptest! {
        #[test]
        fn summaries_are_a_monoid_in_which_unknown_absorbs(a in summaries(), b in summaries(), c in summaries()) {
            prop_assert_eq!((a + b) + c, a + (b + c));
            prop_assert_eq!(a + DeploymentSummary::default(), a);
            prop_assert_eq!(DeploymentSummary::default() + a, a);
            prop_assert_eq!(a + DeploymentSummary::UNKNOWN, DeploymentSummary::UNKNOWN);
        }
    }
}
