//! Compares an answer with the recorded one.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// Fields whose values differ from run to run, or from machine to machine. Only that they are there is compared, and
/// whether they are null. Everything else matters.
const FREE: [&str; 32] = [
    // Times.
    "AllocationTime",
    "CreateTime",
    "FinishedAt",
    "LastRestart",
    "ModifyTime",
    "RequireProgressBy",
    "RescheduleTime",
    "StartedAt",
    "SubmitTime",
    "TaggedTime",
    "Time",
    "leader_addr",
    "WaitUntil",
    "StartDelay",
    "start_delay",
    "SnapshotIndex",
    // Of one machine, or of one server.
    "Addr",
    "Address",
    "id",
    "port",
    "Hash",
    "NodeName",
    "Port",
    "ScoreMetaData",
    "SigningKeyID",
    "Value",
    "AccessorID",
    "SecretID",
    // What depends on them.
    "ClassEligibility",
    "Scores",
    "NodeModifyIndex",
    "IP",
];
/// Fields that hold the ID of something. What is one in the recording has to be one here.
const IDS: [&str; 17] = [
    "AllocID",
    "BlockedEval",
    "DeploymentID",
    "EvalID",
    "FollowupEvalID",
    "ID",
    "NextAllocation",
    "NextEval",
    "NodeID",
    "NomadTokenID",
    "PlacedCanaries",
    "PrevAllocID",
    "PrevNodeID",
    "PreviousAllocation",
    "PreviousEval",
    "Key",
    "VolumeEvalID",
];
/// Fields that hold an index. Recorded equal is equal here, and in the same order.
const INDEXES: [&str; 9] = [
    "AllocModifyIndex",
    "CreateIndex",
    "DeploymentModifyIndex",
    "EvalCreateIndex",
    "Index",
    "JobCreateIndex",
    "JobModifyIndex",
    "JobSpecModifyIndex",
    "ModifyIndex",
];

/// What stands here for what stands in the recording.
#[derive(Debug, Default, Clone)]
pub(crate) struct Mapping {
    ids: BTreeMap<String, String>,
    indexes: BTreeMap<u64, u64>,
    /// Recorded indexes below this are of an earlier scenario.
    pub(crate) first_index: u64,
    /// Indexes of different objects are not related.
    pub(crate) loose_indexes: bool,
}

impl Mapping {
    /// What the beginning of a recorded ID is here.
    pub(crate) fn id_prefix(&self, recorded: &str) -> Option<String> {
        let (_, seen) = self.ids.iter().find(|(id, _)| recorded.len() == 8 && id.starts_with(recorded))?;
        Some(seen.chars().take(8).collect())
    }

    pub(crate) fn learn_id(&mut self, recorded: &str, seen: &str) {
        self.ids.insert(recorded.to_owned(), seen.to_owned());
    }

    /// What a recorded index is here: itself when it was never answered.
    pub(crate) fn index(&self, recorded: u64) -> u64 {
        self.indexes.get(&recorded).copied().unwrap_or(recorded)
    }

    /// Whether an index stands between those that it stands between in the recording.
    fn in_order(&self, recorded: u64, seen: u64) -> bool {
        let before = self.indexes.range(..recorded).next_back().is_none_or(|(_, before)| *before < seen);
        before && self.indexes.range(recorded + 1..).next().is_none_or(|(_, after)| *after > seen)
    }

    fn learn_index(&mut self, recorded: u64, seen: u64) {
        self.indexes.insert(recorded, seen);
    }

    /// A recorded text with what stands here for its IDs and indexes.
    pub(crate) fn text(&self, recorded: &str) -> String {
        let mut text = recorded.to_owned();
        for (from, to) in &self.ids {
            text = text.replace(from, to);
        }
        let mut out = String::new();
        let mut number = String::new();
        for c in text.chars().chain(['\0']) {
            if c.is_ascii_digit() {
                number.push(c);
                continue;
            }
            let mapped = number.parse().ok().map(|index: u64| self.index(index).to_string());
            // Numbers within words are no indexes.
            let alone = !out.ends_with(|c: char| c.is_alphanumeric() || c == '-') && !c.is_alphanumeric() && c != '-';
            out.push_str(mapped.as_deref().filter(|_| alone).unwrap_or(&number));
            number.clear();
            if c != '\0' {
                out.push(c);
            }
        }
        out
    }
}

/// Where and how two bodies differ, or what was learned from their being alike.
pub(crate) fn compare(recorded: &Value, seen: &Value, mapping: &Mapping) -> Result<Mapping, String> {
    let mut learned = mapping.clone();
    values("", "", recorded, seen, &mut learned)?;
    Ok(learned)
}

fn values(path: &str, key: &str, recorded: &Value, seen: &Value, mapping: &mut Mapping) -> Result<(), String> {
    let differ = |why: &str| Err(format!("{path}: recorded {}, seen {}: {why}", brief(recorded), brief(seen)));
    if key == "Timestamp" || both_addresses(recorded, seen) {
        // A server that notices a failure itself writes no time.
        return Ok(());
    }
    if FREE.contains(&key) {
        return if recorded.is_null() == seen.is_null() { Ok(()) } else { differ("null on one side") };
    }
    match (recorded, seen) {
        (Value::Object(recorded), Value::Object(seen)) => objects(path, recorded, seen, mapping),
        (Value::Array(recorded), Value::Array(seen)) => lists(path, key, recorded, seen, mapping),
        (Value::String(recorded), Value::String(seen)) if IDS.contains(&key) && is_id(recorded) => {
            if !is_id(seen) {
                return differ("not an ID");
            }
            match mapping.ids.get(recorded) {
                None => mapping.learn_id(recorded, seen),
                Some(known) if known == seen => {}
                // All recorded nodes may be one here.
                Some(_) if key.contains("Node") => {}
                Some(known) => return Err(format!("{path}: {recorded} is {known} here, but {seen} was seen")),
            }
            Ok(())
        }
        (Value::String(recorded), Value::String(seen)) if is_child(recorded) && is_child(seen) => {
            let child = |id: &str| id.rsplit_once('/').map_or("", |(_, child)| child).to_owned();
            let (recorded, seen) = (child(recorded), child(seen));
            // The name of an allocation begins with that of its job.
            let of_job = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
            let (recorded, seen) = (of_job(&recorded), of_job(&seen));
            match mapping.ids.get(&recorded) {
                Some(known) if *known != seen => Err(format!("{path}: {recorded} is {known} here, not {seen}")),
                _ => {
                    mapping.learn_id(&recorded, &seen);
                    Ok(())
                }
            }
        }
        (Value::Number(recorded), Value::Number(seen)) if INDEXES.contains(&key) => {
            let (Some(recorded), Some(seen)) = (recorded.as_u64(), seen.as_u64()) else { return differ("no indexes") };
            if (recorded == 0) != (seen == 0) {
                return differ("zero on one side");
            }
            if !mapping.loose_indexes && recorded != 0 {
                match mapping.indexes.get(&recorded) {
                    Some(known) if *known != seen => return differ(&format!("this index is {known} here")),
                    None if !mapping.in_order(recorded, seen) => return differ("not in the recorded order"),
                    _ => mapping.learn_index(recorded, seen),
                }
            }
            Ok(())
        }
        // A list that was cut down to names.
        (Value::String(name), Value::Object(seen)) if seen.get("ID") == Some(&Value::from(name.as_str())) => Ok(()),
        (Value::String(one), Value::String(other)) if mapping.text(one) == *other => Ok(()),
        (one, other) if one == other => Ok(()),
        _ => differ("not the same"),
    }
}

fn objects(
    path: &str,
    recorded: &Map<String, Value>,
    seen: &Map<String, Value>,
    mapping: &mut Mapping,
) -> Result<(), String> {
    // A recording that was cut down says so with this key.
    let cut = recorded.contains_key("_") || is_fragment(recorded, seen);
    if counted_differs(recorded, seen) {
        return Err(format!("{path}: another count"));
    }
    // A version that was cut down to a few fields has the count of its only group among them.
    let counted = recorded.contains_key("Version") && !recorded.contains_key("TaskGroups");
    let told = |key: &&String| *key != "_" && !(counted && *key == "Count");
    let names = |of: &Map<String, Value>| of.keys().filter(told).cloned().collect::<BTreeSet<_>>();
    let (names_recorded, names_seen) = (names(recorded), names(seen));
    let missing: Vec<_> = names_recorded.difference(&names_seen).collect();
    let added: Vec<_> = names_seen.difference(&names_recorded).collect();
    if !missing.is_empty() || (!cut && !added.is_empty()) {
        return Err(format!("{path}: keys that are missing: {missing:?}, that are too many: {added:?}"));
    }
    for name in names_recorded {
        let random = name == "DisplayMessage" && recorded["Type"] == "Restarting";
        if name == "Drivers" || random {
            continue;
        }
        values(&format!("{path}/{name}"), &name, &recorded[&name], &seen[&name], mapping)?;
    }
    Ok(())
}

fn counted_differs(recorded: &Map<String, Value>, seen: &Map<String, Value>) -> bool {
    let count = recorded.get("Count").filter(|_| recorded.contains_key("Version"));
    count.is_some_and(|count| seen.get("TaskGroups").is_some_and(|groups| groups[0]["Count"] != *count))
}

/// Task events without the old fields, and objects of which only the ID was kept.
fn is_fragment(recorded: &Map<String, Value>, seen: &Map<String, Value>) -> bool {
    let event = recorded.contains_key("DisplayMessage") && !recorded.contains_key("ValidationError");
    let few = recorded.len() <= 8 && recorded.keys().any(|key| ["ID", "Version"].contains(&key.as_str()));
    event || (few && seen.len() > 12)
}

fn lists(path: &str, key: &str, recorded: &[Value], seen: &[Value], mapping: &mut Mapping) -> Result<(), String> {
    let (mut recorded, mut seen) = (recorded.to_vec(), seen.to_vec());
    if key == "Events" {
        // Whether the watcher of health says so depends on who is first.
        let extra = |event: &Value| event["DisplayMessage"] == "Unhealthy because of failed task";
        recorded.retain(|event| !extra(event));
        seen.retain(|event| !extra(event));
    }
    let created = |item: &Value| item["CreateIndex"].as_u64();
    if recorded.iter().any(|item| item["ID"].is_string() && created(item).is_some()) {
        // Lists in the order of random IDs, with the rests of earlier scenarios.
        recorded.retain(|item| created(item).is_none_or(|index| index >= mapping.first_index));
        let order = |item: &Value| (created(item).unwrap_or(0), item["Name"].as_str().unwrap_or("").to_owned());
        recorded.sort_by_key(order);
        seen.sort_by_key(order);
    } else if recorded.iter().all(|item| item["ID"].as_str().is_some_and(|id| mapping.text(id) != id)) {
        // The same without indexes, when everything in it has been seen before.
        recorded.sort_by_key(|item| item["ID"].as_str().map(|id| mapping.text(id)));
        seen.sort_by_key(|item| item["ID"].as_str().map(str::to_owned));
    }
    if key == "Services" {
        // The server knows no order.
        recorded.sort_by_key(|item| item["ServiceName"].to_string());
        seen.sort_by_key(|item| item["ServiceName"].to_string());
    }
    if recorded.len() != seen.len() {
        return Err(format!("{path}: {} items recorded, {} seen", recorded.len(), seen.len()));
    }
    for (position, (one, other)) in recorded.iter().zip(&seen).enumerate() {
        values(&format!("{path}[{position}]"), if one.is_string() { key } else { "" }, one, other, mapping)?;
    }
    Ok(())
}

fn both_addresses(recorded: &Value, seen: &Value) -> bool {
    let address = |value: &Value| value.as_str().is_some_and(|text| text.starts_with("127.0.0.1:"));
    address(recorded) && address(seen)
}

/// The name of a job that another one launched.
fn is_child(text: &str) -> bool {
    text.contains("/periodic-1") || text.contains("/dispatch-")
}

fn is_id(text: &str) -> bool {
    text.len() == 36 && text.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
}

fn brief(value: &Value) -> String {
    let text = value.to_string();
    text.chars().take(200).collect()
}
