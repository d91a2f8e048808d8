//! What stores keep: records of every state, with every kind of evidence.

use lifecycle_hooks::pipeline::DeployRecord;
use serde_json::Value;

/// Records of this form must be read by every later version, and be written as they were.
#[test]
fn records_are_read_and_written_as_ever() {
    let text = include_str!("golden/records.json");
    let stored: Vec<Value> = serde_json::from_str(text).unwrap();
    assert_eq!(stored.len(), 5);
    for stored in stored {
        let record: DeployRecord = serde_json::from_value(stored.clone()).unwrap();
        assert_eq!(serde_json::to_value(&record).unwrap(), stored);
    }
    for kind in
        ["stored", "ran", "launched", "waited", "exposed", "told", "probed", "marked_healthy", "deleted", "error"]
    {
        assert!(text.contains(&format!("{{\"{kind}\"")), "no evidence of the kind {kind}");
    }
}

#[test]
fn what_is_not_known_is_refused() {
    let mut stored: Vec<Value> = serde_json::from_str(include_str!("golden/records.json")).unwrap();
    stored[0]["of_a_later_version"] = true.into();
    assert!(serde_json::from_value::<DeployRecord>(stored[0].clone()).is_err());
}
