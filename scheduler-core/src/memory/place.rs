//! Placement: which node an instance goes to.

use std::collections::BTreeMap;

use super::render::{Needs, Template};
use crate::rng::Rng;

/// A node as placement sees it.
#[derive(Clone, Debug)]
pub(super) struct Room {
    pub(super) name: String,
    pub(super) labels: BTreeMap<String, String>,
    /// What is still free.
    pub(super) free: Needs,
    /// How many more instances it takes.
    pub(super) slots: u32,
    /// Whether it answers.
    pub(super) up: bool,
    /// How many instances of the same workload it has.
    pub(super) siblings: usize,
}

/// The node for an instance, by its place in the list; or why there is none.
///
/// Of the nodes that fit, those are preferred whose value of the spread label has the fewest instances of the workload,
/// then those that have fewest of them themselves, then those with most slots; the seed decides between equals.
/// With `only`, that node or none.
pub(super) fn choose(template: &Template, only: Option<&str>, rooms: &[Room], rng: &mut Rng) -> Result<usize, String> {
    let mut refused: BTreeMap<&'static str, usize> = BTreeMap::new();
    let mut fitting = Vec::new();
    for (at, room) in rooms.iter().enumerate().filter(|(_, room)| only.is_none_or(|only| room.name == only)) {
        match refusal(template, room) {
            Some(why) => *refused.entry(why).or_default() += 1,
            None => fitting.push((rank(template, room, rooms), at)),
        }
    }
    let Some(best) = fitting.iter().map(|(rank, _)| *rank).min() else {
        let reasons: Vec<_> = refused.iter().map(|(why, count)| format!("{count} {why}")).collect();
        return Err(format!("none of {} nodes fits: {}", refused.values().sum::<usize>(), reasons.join(", ")));
    };
    fitting.retain(|(rank, _)| *rank == best);
    rng.pick(&fitting).map(|(_, at)| *at).ok_or_else(|| "there are no nodes".to_owned())
}

/// Whether a node with these labels satisfies every rule.
pub(super) fn accepts(template: &Template, labels: &BTreeMap<String, String>) -> bool {
    let allowed = |rule: &crate::NodeRule| rule.is.accepts(labels.get(&rule.label).map(String::as_str));
    template.placement.require.iter().all(allowed)
}

/// Why an instance cannot go to a node.
fn refusal(template: &Template, room: &Room) -> Option<&'static str> {
    if !room.up {
        Some("down")
    } else if !accepts(template, &room.labels) {
        Some("against the rules")
    } else if room.free.cpu_millis < template.needs.cpu_millis {
        Some("short of processor time")
    } else if room.free.memory_bytes < template.needs.memory_bytes {
        Some("short of memory")
    } else if room.slots == 0 {
        Some("full")
    } else {
        None
    }
}

/// How little a node is liked; the least wins.
fn rank(template: &Template, room: &Room, rooms: &[Room]) -> (bool, usize, usize, std::cmp::Reverse<u32>) {
    let (unlabelled, in_domain) = match &template.placement.spread {
        None => (false, 0),
        Some(label) => match room.labels.get(label) {
            None => (true, 0),
            Some(value) => {
                let same = rooms.iter().filter(|other| other.labels.get(label) == Some(value));
                (false, same.map(|other| other.siblings).sum())
            }
        },
    };
    (unlabelled, in_domain, room.siblings, std::cmp::Reverse(room.slots))
}
