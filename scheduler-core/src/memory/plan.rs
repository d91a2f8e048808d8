//! What a launch would do, told without doing it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::decide::LaunchPlan;
use super::object::MainObject;
use super::render::{Meta, Spec, WORKLOAD};
use crate::{FieldAction, FieldChange, Planned};

impl LaunchPlan {
    /// The plan as it is told, for what is `live` now.
    pub(super) fn told(&self, live: Option<&MainObject>, warnings: Vec<String>) -> Planned {
        let name = self.workload.target().name.as_str();
        let mut planned = Planned::new(self.change, self.token.clone());
        planned.objects = self.objects(name);
        planned.warnings = warnings;
        if let Some(live) = live {
            let object = format!("{WORKLOAD}/{name}");
            let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
            leaves("", &view(&live.meta, &live.spec), &mut before);
            leaves("", &view(&self.rendered.meta, &self.rendered.spec), &mut after);
            for (path, value) in &after {
                match before.get(path) {
                    None => planned.fields.push(FieldChange::new(&object, path, FieldAction::Added)),
                    Some(old) if old == value => {}
                    Some(_) => planned.fields.push(FieldChange::new(&object, path, FieldAction::Changed)),
                }
            }
            let gone = before.keys().filter(|path| !after.contains_key(*path));
            planned.fields.extend(gone.map(|path| FieldChange::new(&object, path, FieldAction::Removed)));
            planned.fields.sort();
        }
        planned
    }
}

/// The fields of the main object, as a launch writes them.
fn view(meta: &Meta, spec: &Spec) -> Value {
    let t = &spec.template;
    json!({
        "owner": meta.owner,
        "marks": meta.marks,
        "labels": meta.labels,
        "annotations": meta.annotations,
        "kind": spec.kind,
        "progress_deadline": spec.patience,
        "containers": t.containers,
        "volumes": t.volumes,
        "placement": t.placement,
        "identity": t.identity,
        "pull_secrets": t.pull_secrets,
        "termination_grace": t.grace,
    })
}

/// Every value that is no list and no map, by its path. An item of a list is known by its name, if it has one.
fn leaves(path: &str, value: &Value, into: &mut BTreeMap<String, Value>) {
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            for (key, value) in fields {
                leaves(&if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, value, into);
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                let name = item.get("name").and_then(Value::as_str).map_or_else(|| at.to_string(), str::to_owned);
                leaves(&format!("{path}[{name}]"), item, into);
            }
        }
        leaf => {
            into.insert(path.to_owned(), leaf.clone());
        }
    }
}
