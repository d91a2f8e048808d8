//! Whether a live job is as it was rendered, and what a registration would drop of it.
//!
//! Only rendered fields count: what the server added by default, and what somebody else added beside them, is no drift.

use std::collections::BTreeSet;

use scheduler_nomad_client::model::Job;
use serde_json::Value;

/// How the items of a list are told apart. Lists that are not named here are equal item by item, or not.
fn key_of(field: &str) -> Option<&'static str> {
    match field {
        "TaskGroups" | "Tasks" | "Services" | "Checks" => Some("Name"),
        "DynamicPorts" | "ReservedPorts" => Some("Label"),
        "VolumeMounts" => Some("Destination"),
        _ => None,
    }
}

/// The paths of rendered fields that the live job has not, or has differently; in the order of their names.
pub(crate) fn drift(rendered: &Job, live: &Job) -> Vec<String> {
    let (Ok(rendered), Ok(live)) = (serde_json::to_value(rendered), serde_json::to_value(live)) else {
        return vec![String::new()];
    };
    let mut found = Vec::new();
    value("", "", &rendered, Some(&live), &mut found);
    found
}

fn value(path: &str, field: &str, rendered: &Value, live: Option<&Value>, found: &mut Vec<String>) {
    match (rendered, live) {
        // The server leaves out what is zero or empty, or says null.
        (_, None | Some(Value::Null)) if is_zero(rendered) => {}
        (Value::Object(fields), Some(Value::Object(live))) => {
            // It follows the count, which a scale moves alone.
            let follows = fields.get("AutoPromote") == Some(&Value::Bool(true));
            for (name, rendered) in fields {
                let live = live.get(name);
                if follows && name == "Canary" && !is_zero(rendered) && live.is_some_and(|live| !is_zero(live)) {
                    continue;
                }
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                value(&path, name, rendered, live, found);
            }
        }
        (Value::Array(items), Some(Value::Array(live))) => match key_of(field) {
            Some(key) => {
                for item in items {
                    let same = live.iter().find(|live| live[key] == item[key]);
                    value(&format!("{path}[{}]", item[key]), "", item, same, found);
                }
            }
            None if items.len() == live.len() => {
                for (at, (item, live)) in items.iter().zip(live).enumerate() {
                    value(&format!("{path}[{at}]"), "", item, Some(live), found);
                }
            }
            None => found.push(path.to_owned()),
        },
        (_, Some(live)) if rendered == live => {}
        _ => found.push(path.to_owned()),
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(yes) => !yes,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// What stands in the live job, by somebody else's doing, and will not after this registration: a register replaces the
/// job as a whole. Entries of maps and of named lists only; of other fields nobody can say who set them.
///
/// `before` is what was rendered for the launch before, if that is known: what it had is not somebody else's.
pub(crate) fn dropped(rendered: &Job, before: Option<&Job>, live: &Job) -> Vec<String> {
    let mut kept = entries(rendered);
    kept.extend(before.into_iter().flat_map(entries));
    entries(live).difference(&kept).cloned().collect()
}

fn entries(job: &Job) -> BTreeSet<String> {
    let mut all: BTreeSet<String> = job.meta.keys().map(|key| format!("Meta[{key:?}]")).collect();
    for group in &job.task_groups {
        let of_group = format!("TaskGroups[{:?}]", group.name);
        all.extend(group.services.iter().map(|service| format!("{of_group}.Services[{:?}]", service.name)));
        all.extend(group.meta.keys().map(|key| format!("{of_group}.Meta[{key:?}]")));
        for task in &group.tasks {
            let of_task = format!("{of_group}.Tasks[{:?}]", task.name);
            all.extend(task.env.keys().map(|key| format!("{of_task}.Env[{key:?}]")));
            all.extend(task.meta.keys().map(|key| format!("{of_task}.Meta[{key:?}]")));
            all.extend(task.config.keys().map(|key| format!("{of_task}.Config.{key}")));
            all.insert(of_task);
        }
        all.insert(of_group);
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(change: impl FnOnce(&mut Value)) -> Job {
        let mut job = json!({
            "ID": "web", "Meta": {"a": "1"}, "Datacenters": ["*"],
            "TaskGroups": [{
                "Name": "web", "Count": 2, "Update": {"Canary": 2, "AutoPromote": true, "MaxParallel": 1},
                "Tasks": [{"Name": "web", "Driver": "docker", "Config": {"image": "web:1", "args": ["x", "y"]}, "Env": {"A": "1"}}],
            }],
        });
        change(&mut job);
        serde_json::from_value(job).unwrap()
    }

    fn drifts(change: impl FnOnce(&mut Value)) -> Vec<String> {
        drift(&job(|_| ()), &job(change))
    }

    #[test]
    fn what_others_added_is_no_drift() {
        assert_eq!(drifts(|_| ()), Vec::<String>::new());
        assert_eq!(
            drifts(|live| {
                live["Meta"]["b"] = "2".into();
                live["Priority"] = 50.into();
                live["TaskGroups"][0]["Tasks"][0]["Config"]["privileged"] = true.into();
                live["TaskGroups"][0]["Tasks"].as_array_mut().unwrap().insert(0, json!({"Name": "other"}));
            }),
            Vec::<String>::new()
        );
    }

    #[test]
    fn what_was_rendered_and_is_otherwise_is_named() {
        assert_eq!(drifts(|live| live["Meta"] = json!({})), ["Meta"]);
        assert_eq!(drifts(|live| live["Datacenters"] = json!(["a", "b"])), ["Datacenters"]);
        let config = "TaskGroups[\"web\"].Tasks[\"web\"].Config";
        let at = "/TaskGroups/0/Tasks/0/Config/args/1";
        assert_eq!(drifts(|live| *live.pointer_mut(at).unwrap() = "z".into()), [format!("{config}.args[1]")]);
        assert_eq!(drifts(|live| live["TaskGroups"][0]["Count"] = 3.into()), ["TaskGroups[\"web\"].Count"]);
        assert_eq!(drifts(|live| live["TaskGroups"] = json!([])), ["TaskGroups"]);
    }

    #[test]
    fn canaries_that_promote_themselves_follow_the_count() {
        let at = "/TaskGroups/0/Update/Canary";
        let canary = |promotes: bool, canaries: u32| {
            job(|job| job["TaskGroups"][0]["Update"] = json!({"Canary": canaries, "AutoPromote": promotes}))
        };
        assert_eq!(drift(&canary(false, 1), &canary(false, 5)), ["TaskGroups[\"web\"].Update.Canary"]);
        assert_eq!(drifts(|live| *live.pointer_mut(at).unwrap() = 5.into()), Vec::<String>::new());
        assert_eq!(drifts(|live| *live.pointer_mut(at).unwrap() = 0.into()), ["TaskGroups[\"web\"].Update.Canary"]);
    }

    #[test]
    fn what_a_registration_drops_is_what_nobody_of_us_rendered() {
        let live = job(|live| {
            live["Meta"]["note"] = "x".into();
            live["TaskGroups"][0]["Tasks"][0]["Env"]["OLD"] = "1".into();
        });
        let before = job(|before| before["TaskGroups"][0]["Tasks"][0]["Env"]["OLD"] = "1".into());
        assert_eq!(dropped(&job(|_| ()), Some(&before), &live), ["Meta[\"note\"]"]);
        assert_eq!(dropped(&job(|_| ()), None, &live).len(), 2);
    }
}
