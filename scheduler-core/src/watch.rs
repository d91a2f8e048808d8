//! What a watch tells, and how to keep a picture from it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::name::Target;
use crate::observation::Observation;

/// One item of a watch.
///
/// The stream goes `Snapshot…, Synced, (Changed | Deleted)…`, and after a gap `Resync, Snapshot…, Synced, …` again.
/// Intermediate states may be left out; a deletion of what was reported never is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WatchItem {
    /// A workload that was there already.
    Snapshot(Box<Observation>),
    /// Every workload that is there has been reported.
    Synced,
    /// A workload that is new or has changed.
    Changed(Box<Observation>),
    /// A workload is gone. One that was deleted and made again is `Deleted`, then `Changed`.
    Deleted {
        /// Which one.
        target: Target,
        /// Which one of this name.
        incarnation: String,
    },
    /// Something was missed; a new snapshot follows, and what that leaves out is gone.
    Resync,
}

/// The picture that the items of a watch add up to.
///
/// After `Synced`, and until the next `Resync`, it equals what `list` answers, as far as the stream has told.
#[derive(Clone, Debug, Default)]
pub struct WatchState {
    known: BTreeMap<Target, Observation>,
    unconfirmed: Option<BTreeMap<Target, Observation>>,
    synced: bool,
}

impl WatchState {
    /// An empty picture.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in one item.
    pub fn apply(&mut self, item: WatchItem) {
        match item {
            WatchItem::Snapshot(seen) | WatchItem::Changed(seen) => {
                if let Some(unconfirmed) = &mut self.unconfirmed {
                    unconfirmed.remove(&seen.target);
                }
                self.known.insert(seen.target.clone(), *seen);
            }
            WatchItem::Synced => {
                for target in self.unconfirmed.take().unwrap_or_default().into_keys() {
                    self.known.remove(&target);
                }
                self.synced = true;
            }
            WatchItem::Deleted { target, incarnation } => {
                if self.known.get(&target).is_some_and(|seen| seen.incarnation == incarnation) {
                    self.known.remove(&target);
                }
            }
            WatchItem::Resync => {
                self.unconfirmed = Some(self.known.clone());
                self.synced = false;
            }
        }
    }

    /// Whether the picture is whole.
    #[must_use]
    pub fn synced(&self) -> bool {
        self.synced
    }

    /// The workload of this target.
    #[must_use]
    pub fn get(&self, target: &Target) -> Option<&Observation> {
        self.known.get(target)
    }

    /// All workloads, in the order of their targets.
    pub fn iter(&self) -> impl Iterator<Item = &Observation> {
        self.known.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OwnerId, Timestamp, Version};

    fn seen(name: &str, incarnation: &str) -> Box<Observation> {
        let (target, owner) = (Target::new("shop", name).unwrap(), OwnerId::new("me").unwrap());
        Box::new(Observation::new(target, owner, incarnation, Version::new("1"), Timestamp::from_millis(0)))
    }

    fn names(state: &WatchState) -> Vec<String> {
        state.iter().map(|seen| format!("{}#{}", seen.target.name, seen.incarnation)).collect()
    }

    fn deleted(name: &str, incarnation: &str) -> WatchItem {
        WatchItem::Deleted { target: Target::new("shop", name).unwrap(), incarnation: incarnation.into() }
    }

    #[test]
    fn what_a_snapshot_after_a_gap_leaves_out_is_gone() {
        let mut state = WatchState::new();
        for item in [WatchItem::Snapshot(seen("a", "1")), WatchItem::Snapshot(seen("b", "1")), WatchItem::Synced] {
            assert!(!state.synced());
            state.apply(item);
        }
        state.apply(WatchItem::Resync);
        assert!(!state.synced());
        state.apply(WatchItem::Snapshot(seen("b", "1")));
        assert_eq!(names(&state), ["a#1", "b#1"]);
        state.apply(WatchItem::Synced);
        assert_eq!(names(&state), ["b#1"]);
    }

    #[test]
    fn a_late_delete_does_not_take_the_next_incarnation() {
        let mut state = WatchState::new();
        state.apply(WatchItem::Changed(seen("a", "2")));
        state.apply(deleted("a", "1"));
        assert_eq!(names(&state), ["a#2"]);
        state.apply(deleted("a", "2"));
        assert!(names(&state).is_empty());
    }
}
