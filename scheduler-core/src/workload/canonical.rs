//! The canonical form of a workload, and the revision that is its hash.

use serde_json::Value;

use super::{Kind, Replicas, VolumeSource, Workload};
use crate::hash;
use crate::quantity::{Cpu, Memory};
use crate::version::Revision;

/// The workload with every quantity in its shortest exact form. What is no quantity stays as it is.
pub(super) fn normalised(mut workload: Workload) -> Workload {
    fn exact<Q: std::str::FromStr + ToString>(text: &mut Option<String>) {
        if let Some(text) = text
            && let Ok(quantity) = text.parse::<Q>()
        {
            *text = quantity.to_string();
        }
    }
    for container in &mut workload.containers {
        let (cpu, memory) = (&mut container.resources.cpu, &mut container.resources.memory);
        exact::<Cpu>(&mut cpu.request);
        exact::<Cpu>(&mut cpu.limit);
        exact::<Memory>(&mut memory.request);
        exact::<Memory>(&mut memory.limit);
        // A limit alone is also the request, on every backend; so both spellings are one workload.
        for bounds in [cpu, memory] {
            if bounds.request.is_none() {
                bounds.request.clone_from(&bounds.limit);
            }
        }
    }
    for volume in &mut workload.volumes {
        match &mut volume.source {
            VolumeSource::Empty(empty) => exact::<Memory>(&mut empty.size_limit),
            VolumeSource::PerInstance(own) => {
                if let Ok(size) = own.size.parse::<Memory>() {
                    own.size = size.to_string();
                }
            }
            _ => {}
        }
    }
    workload
}

/// The revision of a workload whose quantities are normalised: a hash of the canonical form without replicas.
pub(super) fn revision(workload: &Workload) -> Revision {
    let mut workload = workload.clone();
    if let Kind::Service(service) = &mut workload.kind {
        service.replicas = Replicas::default();
    }
    let mut text = String::new();
    // A workload has only string keys and finite numbers, so that it always has a JSON form.
    write(&serde_json::to_value(&workload).unwrap_or_default(), &mut text);
    Revision::of_hash(&hash::hex(text.as_bytes(), 40))
}

/// Writes JSON with sorted keys and without blanks, whatever features of `serde_json` are on in the build.
fn write(value: &Value, out: &mut String) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| key.as_str());
            out.push('{');
            for (at, (key, item)) in entries.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write(item, out);
            }
            out.push('}');
        }
        leaf => out.push_str(&leaf.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Container, Workload};
    use serde_json::json;

    #[test]
    fn canonical_json_has_sorted_keys() {
        let mut out = String::new();
        write(&json!({"b": [1, {"d": null, "c": "x\"y"}], "a": 1.5}), &mut out);
        assert_eq!(out, r#"{"a":1.5,"b":[1,{"c":"x\"y","d":null}]}"#);
    }

    #[test]
    fn spellings_of_one_workload_are_one_revision_and_replicas_are_no_part_of_it() {
        let of = |request: &str, limit: &str, replicas| {
            let web = Container::new("web", "web:1").memory(request, limit);
            Workload::service("shop", "web").replicas(replicas).container(web).check().unwrap().revision().clone()
        };
        let first = of("64Mi", "1Gi", 1);
        assert_eq!(first, of("65536Ki", "1024Mi", 7));
        assert_ne!(first, of("64M", "1Gi", 1));
        let mut only_limit = Container::new("web", "web:1");
        only_limit.resources.memory.limit = Some("64Mi".into());
        let only_limit = Workload::service("shop", "web").container(only_limit).check().unwrap();
        assert_eq!(only_limit.revision(), &of("64Mi", "64Mi", 1));
    }
}
