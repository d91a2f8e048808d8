//! Finding what nobody wants any more.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::name::Target;
use crate::observation::Observation;
use crate::op::Filter;
use crate::time::Timestamp;
use crate::version::Version;

/// What a sweep may take.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SweepOptions {
    /// Only these are looked at.
    pub filter: Filter,
    /// These stay.
    pub keep: BTreeSet<Target>,
    /// What a launch has changed within this time stays too: whoever launches may not have told yet that it is wanted.
    pub older_than: Duration,
}

impl SweepOptions {
    /// All of ours but these, once no launch has changed them for so long.
    pub fn new(keep: impl IntoIterator<Item = Target>, older_than: Duration) -> Self {
        Self { filter: Filter::default(), keep: keep.into_iter().collect(), older_than }
    }

    /// Looks only at these.
    #[must_use]
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }
}

/// What a sweep would delete, and what it leaves although nobody wants it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SweepPlan {
    /// What would be deleted.
    pub surplus: Vec<Surplus>,
    /// What is too young to be judged, or has no age: the platform does not say when it was launched.
    pub spared: Vec<Target>,
}

/// A workload that nobody wants any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Surplus {
    /// Which one.
    pub target: Target,
    /// As it was seen.
    pub version: Version,
    /// When launch changed it last.
    pub changed: Timestamp,
}

impl SweepPlan {
    pub(super) fn of(workloads: Vec<Observation>, options: &SweepOptions) -> Self {
        let mut plan = Self::default();
        for seen in workloads.into_iter().filter(|seen| !options.keep.contains(&seen.target)) {
            match seen.changed.filter(|changed| seen.at.since(*changed) >= options.older_than) {
                Some(changed) => plan.surplus.push(Surplus { target: seen.target, version: seen.version, changed }),
                None => plan.spared.push(seen.target),
            }
        }
        plan
    }
}
