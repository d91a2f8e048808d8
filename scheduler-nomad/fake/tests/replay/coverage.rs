//! Which recordings are replayed, and why the others are not.

use std::{collections::BTreeSet, path::Path};

/// Recordings that are not replayed, by their numbers.
const NOT_REPLAYED: [(&str, &[u8]); 10] = [
    ("batch, periodic, parameterized and system jobs are not in this slice", &[43, 44, 45, 46, 47, 52, 69, 77]),
    (
        "canaries, auto_revert, revert and the writes to deployments are not in this slice",
        &[25, 26, 27, 28, 29, 30, 31, 33, 38, 53, 76, 79],
    ),
    ("version tags and the stable flag are not in this slice", &[39, 51]),
    ("logs, services, variables and writes to allocations are not in this slice", &[60, 61, 63, 64, 66]),
    ("the configuration of the scheduler is not in this slice", &[70, 80]),
    ("scaling policies are not in this slice", &[35]),
    ("start errors of programs, artifacts and templates: no program runs", &[21]),
    (
        "blocking queries and streams that overlap with writes: tests/blocking.rs has the same",
        &[54, 55, 56, 59, 78, 81],
    ),
    ("a node or the leader is lost behind the back: tests/behaviour.rs has the same", &[71, 72]),
    ("it is about the connection, not about what is asked", &[73, 74, 82]),
];
const ALL: u8 = 82;

#[test]
#[expect(clippy::print_stdout, reason = "the report of a test")]
fn every_recording_is_replayed_or_there_is_a_reason() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let names = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    let numbers = names.filter_map(|name| name.to_str().and_then(|name| name.get(..2)?.parse::<u8>().ok()));
    let here: BTreeSet<_> = numbers.collect();
    let source = include_str!("main.rs");
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
