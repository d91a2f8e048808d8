//! How two versions of a job differ, in the form in which a plan says it.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::Spec;

/// What a plan would do to the allocations of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DesiredUpdates {
    pub(crate) ignore: u64,
    pub(crate) place: u64,
    pub(crate) stop: u64,
    pub(crate) in_place: u64,
    pub(crate) destructive: u64,
    pub(crate) reschedule_later: u64,
    pub(crate) canary: u64,
    pub(crate) migrate: u64,
}

impl DesiredUpdates {
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "Canary": self.canary, "DestructiveUpdate": self.destructive, "Disconnect": 0, "Ignore": self.ignore,
            "InPlaceUpdate": self.in_place, "Migrate": self.migrate, "Place": self.place, "Preemptions": 0, "Reconnect": 0,
            "RescheduleLater": self.reschedule_later, "RescheduleNow": 0, "Stop": self.stop,
        })
    }

    /// The numbers that are not zero, under the names that a diff has for them.
    fn named(&self) -> Value {
        let all = [
            ("ignore", self.ignore),
            ("create", self.place),
            ("destroy", self.stop),
            ("in-place update", self.in_place),
            ("create/destroy update", self.destructive),
            ("canary", self.canary),
            ("migrate", self.migrate),
        ];
        let some = all.into_iter().filter(|(_, count)| *count > 0);
        Value::Object(some.map(|(name, count)| (name.to_owned(), json!(count))).collect())
    }
}

/// The `Diff` of a plan: what the new job changes. `updates` says what happens to the allocations of a group.
pub(crate) fn diff(old: Option<(&Spec, bool)>, new: &Spec, updates: impl Fn(&str) -> Option<DesiredUpdates>) -> Value {
    let none = Map::new();
    let was = old.map_or(&none, |(spec, _)| &spec.json);
    let skip = ["TaskGroups", "Stop", "ID", "Update", "Constraints", "Datacenters", "Meta"];
    let mut fields = scalars(was, &new.json, &skip);
    let was_stopped = old.map(|(_, stopped)| json!(stopped));
    fields.extend(field("Stop", was_stopped.as_ref(), Some(&json!(new.view.stop)), false));
    fields.extend(entries("Meta", was, &new.json));
    fields.sort_by(by_name);
    let mut objects = list(was, &new.json, "Constraints", "Constraint");
    objects.extend(texts("Datacenters", was, &new.json));
    let names = group_names(was).into_iter().chain(group_names(&new.json)).collect::<BTreeSet<_>>();
    let groups: Vec<_> = names
        .into_iter()
        .map(|name| group(&name, member(was, "TaskGroups", &name), member(&new.json, "TaskGroups", &name), &updates))
        .collect();
    let edited = !fields.is_empty() || !objects.is_empty() || groups.iter().any(|group| group["Type"] != "None");
    let kind = match (old, edited) {
        (None, _) => "Added",
        (_, true) => "Edited",
        (_, false) => "None",
    };
    json!({
        "Type": kind, "ID": new.view.id, "Fields": or_null(fields), "Objects": or_null(objects), "TaskGroups": groups,
    })
}

fn group(
    name: &str,
    old: Option<&Map<String, Value>>,
    new: Option<&Map<String, Value>>,
    updates: &impl Fn(&str) -> Option<DesiredUpdates>,
) -> Value {
    let none = Map::new();
    let (was, is) = (old.unwrap_or(&none), new.unwrap_or(&none));
    // Versions are compared without saying what comes of it.
    let updates = updates(name);
    let annotated = updates.is_some();
    let mut fields = scalars(was, is, &["Name", "Count"]);
    if let Some(mut count) = field("Count", was.get("Count"), is.get("Count"), false) {
        let number = |group: &Map<String, Value>| group.get("Count").and_then(Value::as_i64).unwrap_or(0);
        let annotation = json!([if number(was) < number(is) { "forces create" } else { "forces destroy" }]);
        if annotated {
            count["Annotations"] = annotation;
        }
        fields.push(count);
        fields.sort_by(by_name);
    }
    fields.extend(entries("Meta", was, is));
    let parts = ["RestartPolicy", "Migrate", "ReschedulePolicy", "EphemeralDisk", "Update"];
    let mut objects: Vec<_> = parts.into_iter().filter_map(|part| object(part, was, is)).collect();
    objects.extend(list(was, is, "Constraints", "Constraint"));
    for (part, called) in [("Networks", "Network"), ("Services", "Service")] {
        if present(was, part) != present(is, part) {
            objects.push(changed_object(called, "Edited"));
        }
    }
    let names = names_of(was, "Tasks").into_iter().chain(names_of(is, "Tasks")).collect::<BTreeSet<_>>();
    let tasks: Vec<_> =
        names.iter().map(|name| task(name, member(was, "Tasks", name), member(is, "Tasks", name), annotated)).collect();
    let edited = !fields.is_empty() || !objects.is_empty() || tasks.iter().any(|task| task["Type"] != "None");
    json!({
        "Type": kind_of(old.is_some(), new.is_some(), edited), "Name": name, "Fields": or_null(fields),
        "Objects": or_null(objects), "Tasks": tasks, "Updates": updates.map(|updates| updates.named()),
    })
}

fn task(name: &str, old: Option<&Map<String, Value>>, new: Option<&Map<String, Value>>, annotated: bool) -> Value {
    let none = Map::new();
    let (was, is) = (old.unwrap_or(&none), new.unwrap_or(&none));
    let mut fields = scalars(was, is, &["Name"]);
    for map in ["Env", "Meta"] {
        fields.extend(entries(map, was, is));
    }
    let parts = ["Resources", "LogConfig"];
    let mut objects: Vec<_> = parts.into_iter().filter_map(|part| object(part, was, is)).collect();
    if present(was, "Config") != present(is, "Config") {
        objects.push(changed_object("Config", "Edited"));
    }
    if present(was, "Templates") != present(is, "Templates") {
        objects.push(changed_object("Template", "Edited"));
    }
    let edited = !fields.is_empty() || !objects.is_empty() || present(was, "Lifecycle") != present(is, "Lifecycle");
    let annotations = match (old, new) {
        _ if !annotated => Value::Null,
        // That one is said of the leader, though it is not so.
        (Some(old), Some(new)) if edited && (destructive(old, new) || old.get("Leader") != new.get("Leader")) => {
            json!(["forces create/destroy update"])
        }
        (Some(_), Some(_)) if edited => json!(["forces in-place update"]),
        (None, Some(_)) => json!(["forces create"]),
        _ => Value::Null,
    };
    json!({
        "Type": kind_of(old.is_some(), new.is_some(), edited), "Name": name, "Fields": or_null(fields),
        "Objects": or_null(objects), "Annotations": annotations,
    })
}

/// Whether a task that changes like this has to be replaced.
pub(super) fn destructive(old: &Map<String, Value>, new: &Map<String, Value>) -> bool {
    let parts = ["Driver", "User", "Config", "Env", "Meta", "Resources", "Templates"];
    parts.iter().any(|part| old.get(*part) != new.get(*part))
}

/// The fields that are neither lists nor objects, where they differ.
fn scalars(old: &Map<String, Value>, new: &Map<String, Value>, skip: &[&str]) -> Vec<Value> {
    let names = old.keys().chain(new.keys()).filter(|name| !skip.contains(&name.as_str())).collect::<BTreeSet<_>>();
    let scalar = |value: Option<&Value>| !matches!(value, Some(Value::Array(_) | Value::Object(_)));
    let names = names.into_iter().filter(|name| scalar(old.get(*name)) && scalar(new.get(*name)));
    let server = ["CreateIndex", "ModifyIndex", "JobModifyIndex", "Status", "Stable", "Version", "SubmitTime"];
    names
        .filter(|name| !server.contains(&name.as_str()))
        .filter_map(|name| field(name, old.get(name), new.get(name), false))
        .collect()
}

/// The entries of a map, where they differ: `Meta[a]`.
fn entries(map: &str, old: &Map<String, Value>, new: &Map<String, Value>) -> Vec<Value> {
    let (old, new) = (old.get(map).and_then(Value::as_object), new.get(map).and_then(Value::as_object));
    let keys = old.into_iter().chain(new).flat_map(Map::keys).collect::<BTreeSet<_>>();
    let entry = |key: &String| {
        field(&format!("{map}[{key}]"), old.and_then(|m| m.get(key)), new.and_then(|m| m.get(key)), false)
    };
    keys.into_iter().filter_map(entry).collect()
}

/// An object whose fields are all told as soon as one of them differs.
fn object(name: &str, old: &Map<String, Value>, new: &Map<String, Value>) -> Option<Value> {
    if old.get(name) == new.get(name) {
        return None;
    }
    let (was, is) = (old.get(name).and_then(Value::as_object), new.get(name).and_then(Value::as_object));
    let keys = was.into_iter().chain(is).flat_map(Map::keys).collect::<BTreeSet<_>>();
    let told = |key: &&String| *key != "Stagger";
    let value = |object: Option<&Map<String, Value>>, key: &str| object.and_then(|object| object.get(key)).cloned();
    let fields: Vec<_> = keys
        .into_iter()
        .filter(told)
        .filter_map(|key| field(key, value(was, key).as_ref(), value(is, key).as_ref(), true))
        .collect();
    let kind = kind_of(was.is_some(), is.is_some(), true);
    Some(json!({"Type": kind, "Name": name, "Fields": fields, "Objects": null}))
}

/// A list of texts, told as an object with a field for each item that only one of the two has.
fn texts(name: &str, old: &Map<String, Value>, new: &Map<String, Value>) -> Option<Value> {
    let items = |of: &Map<String, Value>| of.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let (was, is) = (items(old), items(new));
    let deleted = was.iter().filter(|item| !is.contains(item)).filter_map(|item| field(name, Some(item), None, false));
    let added = is.iter().filter(|item| !was.contains(item)).filter_map(|item| field(name, None, Some(item), false));
    let fields: Vec<_> = added.chain(deleted).collect();
    let kind = kind_of(!was.is_empty(), !is.is_empty(), true);
    (!fields.is_empty()).then(|| json!({"Type": kind, "Name": name, "Fields": fields, "Objects": null}))
}

/// The items of a list that only one of the two has.
fn list(old: &Map<String, Value>, new: &Map<String, Value>, key: &str, name: &str) -> Vec<Value> {
    let items = |of: &Map<String, Value>| of.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let (was, is) = (items(old), items(new));
    let none = Map::new();
    let told = |item: &Value, kind: &str| {
        let item = item.as_object().unwrap_or(&none);
        let fields = if kind == "Added" { scalars(&none, item, &[]) } else { scalars(item, &none, &[]) };
        json!({"Type": kind, "Name": name, "Fields": fields, "Objects": null})
    };
    let deleted = was.iter().filter(|item| !is.contains(item)).map(|item| told(item, "Deleted"));
    let added = is.iter().filter(|item| !was.contains(item)).map(|item| told(item, "Added"));
    deleted.chain(added).collect()
}

fn field(name: &str, old: Option<&Value>, new: Option<&Value>, context: bool) -> Option<Value> {
    let (old, new) = (text(old), text(new));
    let kind = match (old.as_str(), new.as_str()) {
        (old, new) if old == new => "None",
        ("", _) => "Added",
        (_, "") => "Deleted",
        _ => "Edited",
    };
    let told = kind != "None" || (context && !old.is_empty());
    told.then(|| json!({"Type": kind, "Name": name, "Old": old, "New": new, "Annotations": null}))
}

fn text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}

/// A field that is not null.
fn present<'a>(of: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    of.get(name).filter(|value| !value.is_null())
}

fn changed_object(name: &str, kind: &str) -> Value {
    json!({"Type": kind, "Name": name, "Fields": null, "Objects": null})
}

fn kind_of(was: bool, is: bool, edited: bool) -> &'static str {
    match (was, is, edited) {
        (false, _, _) => "Added",
        (_, false, _) => "Deleted",
        (_, _, true) => "Edited",
        _ => "None",
    }
}

fn or_null(list: Vec<Value>) -> Value {
    if list.is_empty() { Value::Null } else { Value::Array(list) }
}

fn by_name(one: &Value, other: &Value) -> std::cmp::Ordering {
    one["Name"].as_str().cmp(&other["Name"].as_str())
}

fn group_names(job: &Map<String, Value>) -> Vec<String> {
    names_of(job, "TaskGroups")
}

fn names_of(of: &Map<String, Value>, list: &str) -> Vec<String> {
    let items = of.get(list).and_then(Value::as_array).into_iter().flatten();
    items.filter_map(|item| item.get("Name")?.as_str().map(str::to_owned)).collect()
}

fn member<'a>(of: &'a Map<String, Value>, list: &str, name: &str) -> Option<&'a Map<String, Value>> {
    let mut items = of.get(list)?.as_array()?.iter().filter_map(Value::as_object);
    items.find(|item| item.get("Name").and_then(Value::as_str) == Some(name))
}

/// Whether a change of a job replaces the allocations of a group, or leaves them running.
pub(crate) fn replaces(old: &Spec, new: &Spec, group: &str) -> bool {
    let (Some(was), Some(is)) = (member(&old.json, "TaskGroups", group), member(&new.json, "TaskGroups", group)) else {
        return true;
    };
    let differs = |part: &str| was.get(part) != is.get(part);
    if old.json.get("Meta") != new.json.get("Meta") || ["Meta", "Networks", "EphemeralDisk"].into_iter().any(differs) {
        return true;
    }
    let (old_tasks, new_tasks) = (names_of(was, "Tasks"), names_of(is, "Tasks"));
    old_tasks.len() != new_tasks.len()
        || new_tasks.iter().any(|name| match (member(was, "Tasks", name), member(is, "Tasks", name)) {
            (Some(old), Some(new)) => destructive(old, new),
            _ => true,
        })
}
