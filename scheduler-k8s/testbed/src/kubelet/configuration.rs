//! What a container's environment takes from ConfigMaps and Secrets, and what of it is missing.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ConfigMap, Container, Pod, Secret};
use kube::{Api, Client};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    ConfigMap,
    Secret,
}

/// A reference that a container cannot be created without.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Reference {
    kind: Kind,
    name: String,
    /// Without one, all of the object is taken.
    key: Option<String>,
}

/// The references of a container in their order, optional ones left out.
fn references(container: &Container) -> Vec<Reference> {
    let all = container.env_from.iter().flatten().flat_map(|from| {
        let config_map = from.config_map_ref.as_ref().map(|one| (Kind::ConfigMap, &one.name, None, one.optional));
        let secret = from.secret_ref.as_ref().map(|one| (Kind::Secret, &one.name, None, one.optional));
        config_map.into_iter().chain(secret)
    });
    let keys = container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()).flat_map(|from| {
        let config_map = from.config_map_key_ref.as_ref();
        let config_map = config_map.map(|one| (Kind::ConfigMap, &one.name, Some(&one.key), one.optional));
        let secret = from.secret_key_ref.as_ref();
        let secret = secret.map(|one| (Kind::Secret, &one.name, Some(&one.key), one.optional));
        config_map.into_iter().chain(secret)
    });
    all.chain(keys)
        .filter(|(.., optional)| *optional != Some(true))
        .map(|(kind, name, key, _)| Reference { kind, name: name.clone(), key: key.cloned() })
        .collect()
}

impl Reference {
    /// What a kubelet says when the object, whose keys are given, is absent or lacks the key.
    fn missing(&self, namespace: &str, keys: Option<&BTreeSet<String>>) -> Option<String> {
        let (lower, kind) = match self.kind {
            Kind::ConfigMap => ("configmap", "ConfigMap"),
            Kind::Secret => ("secret", "Secret"),
        };
        let name = &self.name;
        match (keys, &self.key) {
            (None, _) => Some(format!("{lower} {name:?} not found")),
            (Some(keys), Some(key)) if !keys.contains(key) => {
                Some(format!("couldn't find key {key} in {kind} {namespace}/{name}"))
            }
            _ => None,
        }
    }
}

/// The first thing that is missing for each of the named containers. One request for each object that they refer to.
pub(super) async fn missing<'a>(
    client: &Client,
    pod: &Pod,
    containers: impl Iterator<Item = &'a str>,
) -> Result<BTreeMap<String, String>, kube::Error> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let mut objects = BTreeMap::new();
    let mut missing = BTreeMap::new();
    for name in containers {
        let Some(container) = find(pod, name) else { continue };
        for reference in references(container) {
            let object = (reference.kind, reference.name.clone());
            if !objects.contains_key(&object) {
                objects.insert(object.clone(), keys(client, namespace, &reference).await?);
            }
            let keys = objects.get(&object).and_then(Option::as_ref);
            if let Some(what) = reference.missing(namespace, keys) {
                missing.insert(name.to_owned(), what);
                break;
            }
        }
    }
    Ok(missing)
}

fn find<'a>(pod: &'a Pod, name: &str) -> Option<&'a Container> {
    let spec = pod.spec.as_ref()?;
    spec.init_containers.iter().flatten().chain(&spec.containers).find(|container| container.name == name)
}

/// The keys of an object, or `None` when there is no such object.
async fn keys(
    client: &Client,
    namespace: &str,
    reference: &Reference,
) -> Result<Option<BTreeSet<String>>, kube::Error> {
    let name = &reference.name;
    Ok(match reference.kind {
        Kind::ConfigMap => Api::<ConfigMap>::namespaced(client.clone(), namespace).get_opt(name).await?.map(|object| {
            let binary = object.binary_data.unwrap_or_default().into_keys();
            object.data.unwrap_or_default().into_keys().chain(binary).collect()
        }),
        Kind::Secret => Api::<Secret>::namespaced(client.clone(), namespace)
            .get_opt(name)
            .await?
            .map(|object| object.data.unwrap_or_default().into_keys().collect()),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_not_optional_counts_and_the_message_is_a_kubelets() {
        let container: Container = serde_json::from_value(json!({
            "name": "main",
            "envFrom": [
                {"configMapRef": {"name": "settings"}},
                {"secretRef": {"name": "maybe", "optional": true}},
            ],
            "env": [
                {"name": "PLAIN", "value": "x"},
                {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password", "optional": false}}},
                {"name": "LEVEL", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "level", "optional": true}}},
                {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ],
        }))
        .unwrap();
        let references = references(&container);
        let names: Vec<_> = references.iter().map(|one| (one.name.as_str(), one.key.as_deref())).collect();
        assert_eq!(names, [("settings", None), ("db", Some("password"))]);

        let keys = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(references[0].missing("shop", None).unwrap(), r#"configmap "settings" not found"#);
        assert_eq!(references[0].missing("shop", Some(&keys(&[]))), None);
        let other = Some(keys(&["user"]));
        let absent_key = references[1].missing("shop", other.as_ref()).unwrap();
        assert_eq!(absent_key, "couldn't find key password in Secret shop/db");
        assert_eq!(references[1].missing("shop", Some(&keys(&["password"]))), None);
    }
}
