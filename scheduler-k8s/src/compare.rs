//! Whether a live object is as it was rendered.
//!
//! Only rendered fields count: what the server added by default, and what somebody else added beside them, is no drift.

use scheduler_core::{Cpu, Memory};
use serde_json::Value;

/// How the items of a list are told apart, by the list's field; as in the server's own schema (`x-kubernetes-list-map-keys`).
/// Lists that are not named here are atomic: equal or not, as a whole.
const KEYED: &[(&str, &[&str])] = &[
    ("containers", &["name"]),
    ("initContainers", &["name"]),
    ("env", &["name"]),
    ("volumes", &["name"]),
    ("imagePullSecrets", &["name"]),
    ("volumeMounts", &["mountPath"]),
    ("topologySpreadConstraints", &["topologyKey", "whenUnsatisfiable"]),
    ("ownerReferences", &["uid"]),
];

/// Maps that the server takes as one value.
const ATOMIC: &[&str] = &["selector", "labelSelector", "nodeSelector", "secretKeyRef", "fieldRef"];

/// The keys of a list's items. `ports` means two things: of a container, and of a Service.
pub(crate) fn keys_of(field: &str, items: &[Value]) -> Option<&'static [&'static str]> {
    if field == "ports" {
        let of_container = items.iter().any(|item| item.get("containerPort").is_some());
        return Some(if of_container { &["containerPort", "protocol"] } else { &["port", "protocol"] });
    }
    KEYED.iter().find(|(name, _)| *name == field).map(|(_, keys)| *keys)
}

/// A rendered field that the live object has not, or has differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Drift {
    /// Its path, with the keys of list items in brackets.
    pub(crate) path: String,
    /// Whether the live object has nothing there.
    pub(crate) missing: bool,
}

/// The rendered fields that the live object has not, or has differently; in the order of the rendered object.
pub(crate) fn drift(rendered: &Value, live: &Value) -> Vec<Drift> {
    let mut walk = Walk { found: Vec::new() };
    walk.value("", "", rendered, Some(live));
    walk.found
}

struct Walk {
    found: Vec<Drift>,
}

impl Walk {
    fn differs(&mut self, path: &str, missing: bool) {
        self.found.push(Drift { path: path.to_owned(), missing });
    }

    fn value(&mut self, path: &str, field: &str, rendered: &Value, live: Option<&Value>) {
        match (rendered, live) {
            // The server leaves out what is zero or empty.
            (_, None) if is_zero(rendered) => {}
            (Value::Object(fields), Some(Value::Object(live))) if !ATOMIC.contains(&field) => {
                for (name, value) in fields {
                    let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    self.value(&path, name, value, live.get(name));
                }
            }
            (Value::Array(items), Some(Value::Array(live))) => self.list(path, field, items, live),
            (_, Some(live)) if equal(path, field, rendered, live) => {}
            _ => self.differs(path, live.is_none()),
        }
    }

    fn list(&mut self, path: &str, field: &str, items: &[Value], live: &[Value]) {
        if field == "volumeClaimTemplates" && items.len() == live.len() {
            // Atomic, but with defaults in each item.
            for (i, (item, live)) in items.iter().zip(live).enumerate() {
                self.value(&format!("{path}[{i}]"), "", item, Some(live));
            }
            return;
        }
        let Some(keys) = keys_of(field, items) else {
            // An atomic list. Its items may still have defaults, but none of those that we render has.
            if items != live {
                self.differs(path, false);
            }
            return;
        };
        let mut last = None;
        for item in items {
            let at = live.iter().position(|live| keys.iter().all(|key| live.get(key) == item.get(key)));
            // Init containers run one after the other; everywhere else the order means nothing.
            if field == "initContainers" && at.is_some() && at < last {
                self.differs(path, false);
            }
            last = at.or(last);
            let key = item.get(keys[0]).map(|key| key.to_string()).unwrap_or_default();
            self.value(&format!("{path}[{}]", key.trim_matches('"')), "", item, at.map(|at| &live[at]));
        }
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// Whether two leaves mean the same. `field` is the leaf's own name, and quantities are found by where they stand.
fn equal(path: &str, field: &str, rendered: &Value, live: &Value) -> bool {
    if rendered == live {
        return true;
    }
    let (Some(a), Some(b)) = (rendered.as_str(), live.as_str()) else { return false };
    let resource = path.contains(".resources.requests.") || path.contains(".resources.limits.");
    match field {
        "cpu" if resource => same_cpu(a, b),
        "sizeLimit" => same_memory(a, b),
        _ if resource => same_memory(a, b),
        _ if path.starts_with("spec.hard.") && field.ends_with(".cpu") => same_cpu(a, b),
        _ if path.starts_with("spec.hard.") => same_memory(a, b),
        _ => false,
    }
}

fn same_cpu(a: &str, b: &str) -> bool {
    matches!((a.parse::<Cpu>(), b.parse::<Cpu>()), (Ok(a), Ok(b)) if a == b)
}

fn same_memory(a: &str, b: &str) -> bool {
    matches!((a.parse::<Memory>(), b.parse::<Memory>()), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(container: Value) -> Value {
        json!({"spec": {"template": {"spec": {"containers": [container]}}}})
    }

    #[test]
    fn only_rendered_fields_that_differ_are_drift() {
        let web = "spec.template.spec.containers[web]";
        for (what, rendered, live, expected) in [
            ("equal", json!({"a": 1}), json!({"a": 1, "b": 2}), vec![]),
            ("other value", json!({"a": {"b": 1}}), json!({"a": {"b": 2}}), vec!["a.b".to_owned()]),
            ("gone", json!({"a": {"b": 1}}), json!({"a": {}}), vec!["a.b".to_owned()]),
            ("zero is left out", json!({"a": 0, "b": false, "c": "", "d": {}, "e": []}), json!({}), vec![]),
            (
                "zero is changed",
                json!({"minReadySeconds": 0}),
                json!({"minReadySeconds": 5}),
                vec!["minReadySeconds".into()],
            ),
            (
                "quantities",
                pod(json!({"name": "web", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}})),
                pod(json!({"name": "web", "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}}})),
                vec![],
            ),
            (
                "bounds of a quota",
                json!({"spec": {"hard": {"limits.cpu": "1", "limits.memory": "128000000", "pods": "1"}}}),
                json!({"spec": {"hard": {"limits.cpu": "1000m", "limits.memory": "128M", "pods": "2"}}}),
                vec!["spec.hard.pods".to_owned()],
            ),
            (
                "another quantity",
                pod(json!({"name": "web", "resources": {"limits": {"memory": "1Gi"}}})),
                pod(json!({"name": "web", "resources": {"limits": {"memory": "1G"}}})),
                vec![format!("{web}.resources.limits.memory")],
            ),
            (
                "text that looks like a quantity",
                pod(json!({"name": "web", "env": [{"name": "cpu", "value": "1"}]})),
                pod(json!({"name": "web", "env": [{"name": "cpu", "value": "1000m"}]})),
                vec![format!("{web}.env[cpu].value")],
            ),
            (
                "by key, whatever the order",
                pod(json!({"name": "web", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]})),
                pod(
                    json!({"name": "web", "env": [{"name": "B", "value": "2"}, {"name": "X"}, {"name": "A", "value": "1"}]}),
                ),
                vec![],
            ),
            (
                "an item is gone",
                pod(json!({"name": "web", "ports": [{"containerPort": 80, "protocol": "TCP"}]})),
                pod(json!({"name": "web", "ports": [{"containerPort": 80, "protocol": "UDP"}]})),
                vec![format!("{web}.ports[80]")],
            ),
            (
                "atomic list",
                pod(json!({"name": "web", "args": ["a"]})),
                pod(json!({"name": "web", "args": ["a", "b"]})),
                vec![format!("{web}.args")],
            ),
            (
                "atomic map",
                json!({"spec": {"selector": {"a": "1"}}}),
                json!({"spec": {"selector": {"a": "1", "b": "2"}}}),
                vec!["spec.selector".to_owned()],
            ),
            (
                "init containers in the same order",
                json!({"initContainers": [{"name": "a"}, {"name": "b"}]}),
                json!({"initContainers": [{"name": "a"}, {"name": "x"}, {"name": "b"}]}),
                vec![],
            ),
            (
                "init containers in another order",
                json!({"initContainers": [{"name": "a"}, {"name": "b"}]}),
                json!({"initContainers": [{"name": "b"}, {"name": "a"}]}),
                vec!["initContainers".to_owned()],
            ),
        ] {
            let found: Vec<_> = drift(&rendered, &live).into_iter().map(|drift| drift.path).collect();
            assert_eq!(found, expected, "{what}");
        }
    }
}
