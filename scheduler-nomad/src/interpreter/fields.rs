//! What a plan says of fields, without their values.

use scheduler_core::{FieldAction, FieldChange};
use scheduler_nomad_client::model::{DiffType, FieldDiff, JobDiff, ObjectDiff, Planned};

/// The fields that would change, by their paths.
pub(super) fn of(diff: &JobDiff, name: &str) -> Vec<FieldChange> {
    let mut found = Found { object: format!("Job/{name}"), changes: Vec::new() };
    found.block("", &diff.fields, &diff.objects);
    for group in &diff.task_groups {
        let at = format!("TaskGroups[{}]", group.name);
        found.block(&at, &group.fields, &group.objects);
        for task in &group.tasks {
            found.block(&format!("{at}.Tasks[{}]", task.name), &task.fields, &task.objects);
        }
    }
    found.changes.sort();
    found.changes.dedup();
    found.changes
}

struct Found {
    object: String,
    changes: Vec<FieldChange>,
}

impl Found {
    fn block(&mut self, at: &str, fields: &[FieldDiff], objects: &[ObjectDiff]) {
        let below = |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
        for field in fields {
            let change = match field.r#type {
                DiffType::Added => FieldAction::Added,
                DiffType::Deleted => FieldAction::Removed,
                DiffType::Edited => FieldAction::Changed,
                _ => continue,
            };
            self.changes.push(FieldChange::new(&*self.object, below(&field.name), change));
        }
        for object in objects {
            self.block(&below(&object.name), &object.fields, &object.objects);
        }
    }
}

/// What would not be placed, and why. A node that the placement of a system rules out is no failure, although the server calls
/// it one (hashicorp/nomad#12748).
pub(super) fn unplaceable(plan: &Planned) -> Vec<String> {
    let failed = plan
        .failed_tg_allocs
        .values()
        .filter(|metric| metric.nodes_exhausted > 0 || metric.nodes_filtered == 0 || metric.nodes_in_pool > 0);
    failed.map(|metric| format!("not all instances would find a node: {}", crate::observe::placement(metric))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_are_told_and_values_are_not() {
        let diff: JobDiff = serde_json::from_value(json!({
            "ID": "web", "Type": "Edited",
            "Fields": [{"Name": "Meta[a]", "Type": "Added", "Old": "", "New": "s3cret"}],
            "TaskGroups": [{
                "Name": "web", "Type": "Edited",
                "Fields": [{"Name": "Count", "Type": "None", "Old": "1", "New": "1"}],
                "Tasks": [{
                    "Name": "main", "Type": "Edited",
                    "Fields": [{"Name": "Env[PASSWORD]", "Type": "Edited", "Old": "hunter1", "New": "hunter2"}],
                    "Objects": [{"Name": "Config", "Type": "Edited", "Fields": [{"Name": "image", "Type": "Deleted"}]}],
                }],
            }],
        }))
        .unwrap();
        let fields = of(&diff, "web");
        let told: Vec<_> = fields.iter().map(|field| (field.path.as_str(), field.change)).collect();
        assert_eq!(
            told,
            [
                ("Meta[a]", FieldAction::Added),
                ("TaskGroups[web].Tasks[main].Config.image", FieldAction::Removed),
                ("TaskGroups[web].Tasks[main].Env[PASSWORD]", FieldAction::Changed),
            ]
        );
        let all = format!("{fields:?}");
        assert!(!all.contains("s3cret") && !all.contains("hunter"), "{all}");
    }

    /// hashicorp/nomad#12748.
    #[test]
    fn a_node_that_the_placement_of_a_system_rules_out_is_no_failure() {
        let plan = |metric: serde_json::Value| {
            unplaceable(&serde_json::from_value(json!({"FailedTGAllocs": {"web": metric}})).unwrap())
        };
        assert_eq!(plan(json!({"NodesEvaluated": 3, "NodesFiltered": 3})), Vec::<String>::new());
        assert_eq!(plan(json!({"NodesEvaluated": 3, "NodesExhausted": 1})).len(), 1);
        assert_eq!(plan(json!({"NodesEvaluated": 3, "NodesFiltered": 3, "NodesInPool": 3})).len(), 1);
    }
}
