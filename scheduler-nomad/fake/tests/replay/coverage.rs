//! Which recordings are replayed, and why the others are not.

use std::{collections::BTreeSet, path::Path};

/// Recordings that are not replayed, by their numbers.
const NOT_REPLAYED: &[(&str, &[u8])] = &[
    ("the configuration of the scheduler is not simulated", &[70, 80]),
    (
        "blocking queries and streams that overlap with writes: tests/blocking.rs has the same",
        &[54, 55, 56, 59, 78, 81],
    ),
    ("a node or the leader is lost behind the back: tests/behaviour.rs has the same", &[71, 72]),
    ("it is about the connection, not about what is asked", &[73, 74, 82]),
];
/// Those above 82 were made for this crate.
const ALL: u8 = 91;

#[test]
#[expect(clippy::print_stdout, reason = "the report of a test")]
fn every_recording_is_replayed_or_there_is_a_reason() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let names = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    let numbers = names.filter_map(|name| name.to_str().and_then(|name| name.get(..2)?.parse::<u8>().ok()));
    let here: BTreeSet<_> = numbers.collect();
    let source = concat!(
        include_str!("main.rs"),
        include_str!("allocation.rs"),
        include_str!("batch.rs"),
        include_str!("launch.rs"),
        include_str!("rollout.rs"),
        include_str!("tasks.rs"),
        include_str!("versions.rs")
    );
    for number in &here {
        assert!(source.contains(&format!("(\"{number:02}-")), "the recording {number:02} is here, but nobody plays it");
    }
    let excused: BTreeSet<_> = NOT_REPLAYED.iter().flat_map(|(_, numbers)| numbers.iter().copied()).collect();
    println!("{} of {ALL} recordings are replayed: {here:?}", here.len());
    for (reason, numbers) in NOT_REPLAYED {
        println!("  not replayed: {numbers:?}: {reason}");
    }
    let told: BTreeSet<_> = here.union(&excused).copied().collect();
    assert_eq!(told, (1..=ALL).collect(), "each recording is replayed, or has a reason");
    assert!(here.is_disjoint(&excused), "a recording that is replayed needs no excuse");
}
