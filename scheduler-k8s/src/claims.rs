//! Who claims which fields of an object (`metadata.managedFields`), where that matters.
//!
//! Server-side apply removes a field that its manager applied before and leaves out now, unless another manager claims it
//! too. So what somebody else set stays for ever, and a list item that two managers claim can block an update: with the
//! same port name under an old and a new number, the server refuses the Service. [`take_over`] moves such claims to us.

use scheduler_core::Timestamp;
use serde_json::{Map, Value, json};

use crate::compare::keys_of;
use crate::{MANAGER, OWN_MANAGERS};

/// The paths of the fields that we claim and that are not rendered any more, so that the next apply would remove them.
pub(crate) fn surplus(rendered: &Value, live: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let ours = entries(live).iter().filter(|entry| is_ours(entry));
    for claims in ours.filter_map(|entry| entry["fieldsV1"].as_object()) {
        find_surplus(claims, "", "", rendered, &mut found);
    }
    found
}

/// How much to take over from other managers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Items of lists that we render, which are not rendered: ports, variables, mounts. And a pause, which ends with what
    /// is launched next.
    ListItems,
    /// Everything, as the object was somebody else's and is ours now.
    All,
}

/// `metadata.managedFields` with claims moved to us, so that the next apply removes what is not rendered. `None` if there
/// are none to move.
///
/// Claims on subresources (`status`, `scale`) stay where they are.
pub(crate) fn take_over(rendered: &Value, live: &Value, extent: Extent) -> Option<Value> {
    let (mut taken, mut kept) = (Map::new(), Vec::new());
    let mut ours = None;
    for entry in entries(live) {
        if is_ours(entry) {
            ours = Some(entry.clone());
            continue;
        }
        let claims = entry["fieldsV1"].as_object().filter(|_| entry.get("subresource").is_none());
        let (take, keep) = match (claims, extent) {
            (None, _) => (Map::new(), Some(entry["fieldsV1"].clone())),
            (Some(claims), Extent::All) => (claims.clone(), None),
            (Some(claims), Extent::ListItems) => {
                let (mut take, mut keep) = split(claims, rendered);
                if live["spec"]["paused"] == true
                    && let Some(paused) = remove_pause(&mut keep)
                {
                    unite(&mut take, paused);
                }
                (take, (!keep.is_empty()).then_some(Value::Object(keep)))
            }
        };
        unite(&mut taken, take);
        if let Some(claims) = keep {
            let mut entry = entry.clone();
            entry["fieldsV1"] = claims;
            kept.push(entry);
        }
    }
    if taken.is_empty() {
        return None;
    }
    let mut ours = ours.unwrap_or_else(|| {
        json!({
            "manager": MANAGER, "operation": "Apply", "apiVersion": rendered["apiVersion"],
            "fieldsType": "FieldsV1", "fieldsV1": {},
        })
    });
    if let Some(claims) = ours["fieldsV1"].as_object_mut() {
        unite(claims, taken);
    }
    kept.insert(0, ours);
    Some(kept.into())
}

/// The managers, other than ourselves, that claim less of the object after than before; without repetition.
pub(crate) fn lost(before: &Value, after: &Value) -> Vec<String> {
    let name =
        |entry: &Value| (entry["manager"].clone(), entry["operation"].clone(), entry.get("subresource").cloned());
    let mut managers: Vec<String> = entries(before)
        .iter()
        .filter(|entry| !is_ours(entry))
        .filter(|entry| {
            let now = entries(after).iter().find(|now| name(now) == name(entry));
            now.is_none_or(|now| now["fieldsV1"] != entry["fieldsV1"])
        })
        .filter_map(|entry| entry["manager"].as_str().filter(|manager| !OWN_MANAGERS.contains(manager)))
        .map(str::to_owned)
        .collect();
    managers.sort();
    managers.dedup();
    managers
}

/// What others may claim of a specification without changing what was launched: the count, a pause, and annotations of
/// pods, by which tools restart them.
const ALLOWED: &[&str] = &["/f:replicas", "/f:paused", "/f:template/f:metadata/f:annotations"];

/// Whether somebody else changed the specification since we applied it: another manager claims a field there that we do
/// not.
pub(crate) fn changed_by_others(live: &Value) -> bool {
    let spec = |entry: &Value| entry["fieldsV1"].get("f:spec").cloned();
    let Some(ours) = entries(live).iter().find(|entry| is_ours(entry)).and_then(spec) else { return false };
    let others = entries(live).iter().filter(|entry| !is_ours(entry) && entry.get("subresource").is_none());
    others.filter_map(spec).any(|theirs| exceeds("", &theirs, Some(&ours)))
}

fn exceeds(path: &str, theirs: &Value, ours: Option<&Value>) -> bool {
    let Some(claims) = theirs.as_object().filter(|claims| !claims.is_empty()) else { return ours.is_none() };
    // That a thing is there is no change of what it holds.
    claims.iter().filter(|(claim, _)| *claim != ".").any(|(claim, below)| {
        let path = format!("{path}/{claim}");
        !ALLOWED.contains(&path.as_str()) && exceeds(&path, below, ours.and_then(|ours| ours.get(claim)))
    })
}

/// When somebody last wrote the specification itself (scaling is none of that), to the second.
pub(crate) fn respecified(live: &Value) -> Option<Timestamp> {
    let writes = entries(live).iter().filter(|entry| entry.get("subresource").is_none());
    let specs = writes.filter(|entry| entry["fieldsV1"].get("f:spec").is_some());
    specs.filter_map(|entry| entry["time"].as_str()?.parse().ok()).max()
}

/// Whether a manager's applies claim this field.
pub(crate) fn has_field(live: &Value, manager: &str, path: &[&str]) -> bool {
    let claims = entries(live).iter().filter(|entry| entry["manager"] == manager && entry["operation"] == "Apply");
    claims
        .map(|entry| &entry["fieldsV1"])
        .any(|claims| path.iter().try_fold(claims, |claims, field| claims.get(format!("f:{field}"))).is_some())
}

/// When a launch changed the object last: an apply that changes nothing leaves the time as it is.
pub(crate) fn applied(live: &Value) -> Option<Timestamp> {
    entries(live).iter().find(|entry| is_ours(entry))?["time"].as_str()?.parse().ok()
}

fn entries(live: &Value) -> &[Value] {
    live["metadata"]["managedFields"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn is_ours(entry: &Value) -> bool {
    entry["manager"] == MANAGER && entry["operation"] == "Apply" && entry.get("subresource").is_none()
}

/// The part of the object that a claim is about. `None`: it has no such part.
enum Part<'a> {
    Field(&'a Value),
    Item(&'a Value),
    Absent { item: bool },
}

/// Claims name fields as `f:<name>`, items of keyed lists as `k:<keys as JSON>`, and the thing itself as `.`.
fn part<'a>(claim: &str, field: &str, value: &'a Value) -> Option<Part<'a>> {
    if let Some(name) = claim.strip_prefix("f:") {
        return Some(value.get(name).map_or(Part::Absent { item: false }, Part::Field));
    }
    let keys: Value = serde_json::from_str(claim.strip_prefix("k:")?).ok()?;
    let items = value.as_array()?;
    keys_of(field, items)?;
    let keys = keys.as_object()?;
    let found = items.iter().find(|item| keys.iter().all(|(key, value)| item.get(key) == Some(value)));
    Some(found.map_or(Part::Absent { item: true }, Part::Item))
}

fn name_of(claim: &str) -> &str {
    claim.strip_prefix("f:").unwrap_or_default()
}

fn find_surplus(claims: &Map<String, Value>, path: &str, field: &str, rendered: &Value, found: &mut Vec<String>) {
    for (claim, below) in claims {
        let path = match claim.strip_prefix("f:") {
            Some(name) if path.is_empty() => name.to_owned(),
            Some(name) => format!("{path}.{name}"),
            None => format!("{path}[{}]", key_of(claim)),
        };
        match (part(claim, field, rendered), below.as_object()) {
            (Some(Part::Absent { .. }), _) => found.push(path),
            (Some(Part::Field(value) | Part::Item(value)), Some(below)) => {
                find_surplus(below, &path, name_of(claim), value, found);
            }
            _ => {}
        }
    }
}

/// The first key of a claim on an item, for people.
fn key_of(claim: &str) -> String {
    let keys: Option<Map<String, Value>> = claim.strip_prefix("k:").and_then(|keys| serde_json::from_str(keys).ok());
    let first = keys.and_then(|keys| keys.into_iter().next());
    first.map(|(_, key)| key.to_string().trim_matches('"').to_owned()).unwrap_or_default()
}

/// What to take (items that are not rendered, of lists that are), and the rest.
fn split(claims: &Map<String, Value>, rendered: &Value) -> (Map<String, Value>, Map<String, Value>) {
    fn walk(claims: &Map<String, Value>, field: &str, rendered: &Value) -> (Map<String, Value>, Map<String, Value>) {
        let (mut take, mut keep) = (Map::new(), Map::new());
        for (claim, below) in claims {
            match (part(claim, field, rendered), below.as_object()) {
                (Some(Part::Absent { item: true }), _) => {
                    take.insert(claim.clone(), below.clone());
                }
                (Some(Part::Field(value) | Part::Item(value)), Some(inner)) if !inner.is_empty() => {
                    let (taken, kept) = walk(inner, name_of(claim), value);
                    if !taken.is_empty() {
                        take.insert(claim.clone(), Value::Object(taken));
                    }
                    if !kept.is_empty() {
                        keep.insert(claim.clone(), Value::Object(kept));
                    }
                }
                _ => {
                    keep.insert(claim.clone(), below.clone());
                }
            }
        }
        (take, keep)
    }
    walk(claims, "", rendered)
}

/// Takes the claim on `spec.paused` out, and gives it as a claim of its own.
fn remove_pause(claims: &mut Map<String, Value>) -> Option<Map<String, Value>> {
    let spec = claims.get_mut("f:spec")?.as_object_mut()?;
    let paused = spec.remove("f:paused")?;
    if spec.is_empty() {
        claims.remove("f:spec");
    }
    json!({"f:spec": {"f:paused": paused}}).as_object().cloned()
}

fn unite(into: &mut Map<String, Value>, more: Map<String, Value>) {
    for (claim, below) in more {
        match (into.get_mut(&claim), below) {
            (Some(Value::Object(into)), Value::Object(more)) => unite(into, more),
            (_, below) => {
                into.insert(claim, below);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEB: &str = r#"k:{"name":"web"}"#;

    fn rendered() -> Value {
        json!({
            "apiVersion": "apps/v1",
            "metadata": {"labels": {"a": "1"}},
            "spec": {"template": {"spec": {"containers": [
                {"name": "web", "image": "web:1", "args": ["x"], "env": [{"name": "A", "value": "1"}]},
            ]}}},
        })
    }

    fn in_container(claims: &Value) -> Value {
        json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {WEB: claims}}}}})
    }

    fn entry(manager: &str, operation: &str, claims: &Value) -> Value {
        json!({"manager": manager, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": claims})
    }

    fn live(entries: &[Value]) -> Value {
        json!({"metadata": {"managedFields": entries}})
    }

    fn all_rendered() -> Value {
        let env = json!({r#"k:{"name":"A"}"#: {".": {}, "f:name": {}, "f:value": {}}});
        let mut claims = in_container(&json!({".": {}, "f:name": {}, "f:image": {}, "f:args": {}, "f:env": env}));
        claims["f:metadata"] = json!({"f:labels": {"f:a": {}}});
        claims
    }

    #[test]
    fn what_we_claim_and_do_not_render_is_surplus() {
        let of = |claims: &Value| surplus(&rendered(), &live(&[entry(MANAGER, "Apply", claims)]));
        assert_eq!(of(&all_rendered()), [""; 0]);
        let containers = "spec.template.spec.containers";
        for (more, path) in [
            (in_container(&json!({"f:command": {}})), format!("{containers}[web].command")),
            (in_container(&json!({"f:env": {r#"k:{"name":"B"}"#: {".": {}}}})), format!("{containers}[web].env[B]")),
            (json!({"f:metadata": {"f:labels": {"f:b": {}}}}), "metadata.labels.b".to_owned()),
            (
                json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {r#"k:{"name":"side"}"#: {".": {}}}}}}}),
                format!("{containers}[side]"),
            ),
        ] {
            assert_eq!(of(&more), [path], "{more}");
        }
        let theirs = live(&[entry("kubectl", "Update", &in_container(&json!({"f:command": {}})))]);
        assert_eq!(surplus(&rendered(), &theirs), [""; 0], "another's");
    }

    #[test]
    fn items_of_rendered_lists_are_taken_and_the_rest_is_left() {
        let port =
            json!({r#"k:{"name":"B"}"#: {".": {}, "f:name": {}, "f:value": {}}, r#"k:{"name":"A"}"#: {"f:value": {}}});
        let mut theirs = in_container(&json!({"f:env": port, "f:tty": {}}));
        theirs["f:metadata"] = json!({"f:annotations": {"f:note": {}}});
        let object = live(&[entry(MANAGER, "Apply", &all_rendered()), entry("kubectl", "Update", &theirs)]);
        let moved = take_over(&rendered(), &object, Extent::ListItems).unwrap();

        let env =
            |entry: usize| &moved[entry]["fieldsV1"]["f:spec"]["f:template"]["f:spec"]["f:containers"][WEB]["f:env"];
        assert_eq!(env(0)[r#"k:{"name":"B"}"#], json!({".": {}, "f:name": {}, "f:value": {}}));
        assert!(env(0).get(r#"k:{"name":"A"}"#).is_some(), "what we claimed stays");
        assert_eq!(*env(1), json!({r#"k:{"name":"A"}"#: {"f:value": {}}}));
        assert_eq!(moved[1]["fieldsV1"]["f:metadata"], json!({"f:annotations": {"f:note": {}}}));
        assert_eq!(moved[1]["manager"], "kubectl");
    }

    #[test]
    fn nothing_to_take_is_none() {
        let theirs = in_container(&json!({"f:image": {}, "f:tty": {}}));
        let object = live(&[entry(MANAGER, "Apply", &all_rendered()), entry("kubectl", "Update", &theirs)]);
        assert_eq!(take_over(&rendered(), &object, Extent::ListItems), None);
        assert_eq!(take_over(&rendered(), &json!({}), Extent::All), None);
    }

    #[test]
    fn an_adopted_object_is_taken_whole_but_for_subresources() {
        let mut status = entry("kube-controller-manager", "Update", &json!({"f:status": {}}));
        status["subresource"] = "status".into();
        let theirs = entry("tool", "Update", &json!({"f:metadata": {"f:annotations": {"f:note": {}}}}));
        let moved = take_over(&rendered(), &live(&[status.clone(), theirs]), Extent::All).unwrap();
        let ours = json!({
            "manager": MANAGER, "operation": "Apply", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:annotations": {"f:note": {}}}},
        });
        assert_eq!(moved, json!([ours, status]));
    }

    #[test]
    fn whoever_claims_less_afterwards_has_lost_something() {
        let both = json!({"f:a": {}, "f:b": {}});
        let before = [entry("x", "Update", &both), entry("y", "Update", &both), entry(MANAGER, "Apply", &both)];
        let after = [entry("x", "Update", &both), entry(MANAGER, "Apply", &json!({}))];
        assert_eq!(lost(&live(&before), &live(&after)), ["y"]);
    }
}
