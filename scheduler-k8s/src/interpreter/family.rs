//! The objects of many workloads, by what they belong to.

use std::collections::HashMap;

use scheduler_core::{Detail, Observation, Timestamp};
use serde_json::Value;

use crate::kind::MainKind;
use crate::observe::{self, NativeObjects};

/// Pods, and what stands between them and main objects, by what controls them.
pub(super) struct Family<'a> {
    between: HashMap<&'a str, Vec<&'a Value>>,
    pods: HashMap<&'a str, Vec<&'a Value>>,
}

impl<'a> Family<'a> {
    pub(super) fn new(between: impl IntoIterator<Item = &'a Value>, pods: impl IntoIterator<Item = &'a Value>) -> Self {
        Self { between: by_controller(between), pods: by_controller(pods) }
    }

    /// What there is to see of a main object.
    pub(super) fn observe(&self, kind: MainKind, main: &Value, at: Timestamp) -> Option<Observation> {
        let uid = observe::uid_of(main)?;
        let between = self.between.get(uid).map(Vec::as_slice).unwrap_or_default();
        let owners = between.iter().filter_map(|object| observe::uid_of(object)).chain([uid]);
        let pods: Vec<&Value> = owners.filter_map(|owner| self.pods.get(owner)).flatten().copied().collect();
        let seen = observe::observe(&NativeObjects::new(kind, main).pods(between, &pods), at)?;
        Some(seen.trimmed(Detail::Counts))
    }
}

fn by_controller<'a>(objects: impl IntoIterator<Item = &'a Value>) -> HashMap<&'a str, Vec<&'a Value>> {
    let mut found: HashMap<&str, Vec<&Value>> = HashMap::new();
    for object in objects {
        if let Some(controller) = observe::controller(object) {
            found.entry(controller).or_default().push(object);
        }
    }
    found
}
