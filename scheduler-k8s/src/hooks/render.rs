//! What an app has on Kubernetes beside its workloads, as native objects. Pure: no server, no secret store.

use std::collections::{BTreeMap, BTreeSet};

use scheduler_core::hooks::{App, AppName, AppVolume, Isolation, RegistryCredentials};
use scheduler_core::{ConfigValue, Cpu, Memory, OwnerId, QuantityError, Target};
use scheduler_k8s_client::Resource;
use serde_json::{Map, Value, json};

use super::{NETWORK_POLICY, RESOURCE_QUOTA};
use crate::labels::{self, APP, OWNER};

/// The name of the Secret with the credentials of an app's registries: what its workloads put into their
/// [`pull_secrets`](scheduler_core::Workload::pull_secrets).
///
/// ```
/// let app = scheduler_core::hooks::AppName::new("shop")?;
/// assert_eq!(scheduler_k8s::registry_secret(&app), "shop-registries");
/// # Ok::<(), scheduler_core::NameError>(())
/// ```
#[must_use]
pub fn registry_secret(app: &AppName) -> String {
    format!("{app}-registries")
}

/// The name of the Secret with a certificate and its key.
pub(super) fn certificate_secret(certificate: &str) -> String {
    format!("{certificate}-tls")
}

/// What tells that an object is of an app's surroundings, and whose.
pub(super) fn metadata(app: &App, owner: &OwnerId, name: &str) -> Value {
    json!({
        "name": name,
        "namespace": app.namespace.as_str(),
        "labels": {OWNER: owner.as_str(), APP: app.name.as_str()},
    })
}

fn object(resource: &Resource, metadata: Value) -> Value {
    json!({"apiVersion": resource.api_version(), "kind": resource.kind, "metadata": metadata})
}

/// The bounds of all Pods together; `None` if there are none. A bound of processor time or memory is one of what is set
/// aside and of what may be used.
///
/// # Errors
/// With the field's name.
pub(super) fn quota(app: &App, owner: &OwnerId) -> Result<Option<Value>, (&'static str, QuantityError)> {
    let quota = &app.policy.quota;
    let mut hard = Map::new();
    if let Some(cpu) = &quota.cpu {
        let cpu: Cpu = cpu.parse().map_err(|error| ("policy.quota.cpu", error))?;
        hard.insert("requests.cpu".to_owned(), cpu.to_string().into());
        hard.insert("limits.cpu".to_owned(), cpu.to_string().into());
    }
    if let Some(memory) = &quota.memory {
        let memory: Memory = memory.parse().map_err(|error| ("policy.quota.memory", error))?;
        hard.insert("requests.memory".to_owned(), memory.to_string().into());
        hard.insert("limits.memory".to_owned(), memory.to_string().into());
    }
    if let Some(instances) = quota.instances {
        hard.insert("pods".to_owned(), instances.to_string().into());
    }
    if hard.is_empty() {
        return Ok(None);
    }
    let mut rendered = object(&RESOURCE_QUOTA, metadata(app, owner, app.name.as_str()));
    rendered["spec"] = json!({"hard": hard});
    Ok(Some(rendered))
}

/// Who may talk to the Pods; `None` if everybody.
pub(super) fn network_policy(app: &App, owner: &OwnerId, routers: &(String, String)) -> Option<Value> {
    let from = match app.policy.isolation {
        Isolation::Open => return None,
        // Also of what a later version knows: that shuts out more than it lets in.
        _ => json!([
            {"podSelector": {}},
            {"namespaceSelector": {"matchLabels": {routers.0.as_str(): routers.1.as_str()}}},
        ]),
    };
    let mut rendered = object(&NETWORK_POLICY, metadata(app, owner, app.name.as_str()));
    rendered["spec"] = json!({"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": from}]});
    Some(rendered)
}

/// Where the front Service leads to before the first cut-over. No Pod has this label: workloads cannot set labels of this
/// prefix.
const NOWHERE: (&str, &str) = ("scheduler/front", "nowhere");

/// The Service in front of the process that requests from outside go to; `None` if there is no such process.
///
/// It leads to the workload in `to` that is this process, of whatever release. Without one it leads where it led before (see
/// `live`), if that is this process; else to the workload of the process' own name, as soon as there is a release.
pub(super) fn front(app: &App, owner: &OwnerId, to: &[Target], live: Option<&Value>) -> Option<Value> {
    let front = app.front.as_ref()?;
    let process = front.process.as_str();
    let led_to = live.and_then(|live| live["spec"]["selector"][labels::TARGET].as_str());
    let target = workload_of(process, to)
        .map(|target| target.name.as_str())
        .or_else(|| led_to.filter(|name| is_of_process(name, process)))
        .or_else(|| app.release.is_some().then_some(process));
    let selector = match target {
        Some(name) => json!({labels::TARGET: name}),
        None => json!({NOWHERE.0: NOWHERE.1}),
    };
    let mut rendered = object(&Resource::SERVICE, metadata(app, owner, app.name.as_str()));
    rendered["spec"] = json!({
        "type": "ClusterIP",
        "selector": selector,
        // By its name, so that each Pod gets its requests at the number that it listens on.
        "ports": [{"name": front.port, "port": 80, "targetPort": front.port, "protocol": "TCP"}],
    });
    Some(rendered)
}

/// The workload among these that is this process. Of a single one nothing else can be meant.
fn workload_of<'a>(process: &str, among: &'a [Target]) -> Option<&'a Target> {
    among.iter().find(|target| is_of_process(target.name.as_str(), process)).or(match among {
        [only] => Some(only),
        _ => None,
    })
}

/// Whether a workload is this process, in place or as a [stack](scheduler_core::StackName).
fn is_of_process(workload: &str, process: &str) -> bool {
    workload.strip_prefix(process).is_some_and(|rest| rest.is_empty() || rest.starts_with("--"))
}

/// The credentials of all registries, as Docker's configuration file has them.
pub(super) fn registries(
    app: &App,
    owner: &OwnerId,
    credentials: &[(&str, &RegistryCredentials, ConfigValue)],
) -> Value {
    let auths = credentials.iter().map(|(host, credentials, password)| {
        let auth = base64(format!("{}:{}", credentials.user, password.expose()).as_bytes());
        (registry_key(host), json!({"username": credentials.user, "password": password.expose(), "auth": auth}))
    });
    let config = json!({"auths": auths.collect::<Map<_, _>>()}).to_string();
    let name = registry_secret(&app.name);
    secret(app, owner, &name, "kubernetes.io/dockerconfigjson", [(".dockerconfigjson", config.as_str())])
}

/// The key that the kubelet finds the credentials of a registry by: its host name, but for Docker Hub, whose credentials
/// have been kept under another host's name since before it had this one (`docker login` writes the same).
fn registry_key(host: &str) -> String {
    match host {
        "docker.io" | "index.docker.io" | "registry-1.docker.io" => "https://index.docker.io/v1/".to_owned(),
        host => host.to_owned(),
    }
}

/// A certificate and its key.
pub(super) fn certificate(app: &App, owner: &OwnerId, name: &str, chain: &str, key: &ConfigValue) -> Value {
    let data = [("tls.crt", chain), ("tls.key", key.expose())];
    secret(app, owner, &certificate_secret(name), "kubernetes.io/tls", data)
}

/// Not by `stringData`, which the server never shows, so that nobody could see that there is nothing to write.
fn secret<const N: usize>(app: &App, owner: &OwnerId, name: &str, kind: &str, data: [(&str, &str); N]) -> Value {
    let data: Map<_, _> =
        data.into_iter().map(|(key, text)| (key.to_owned(), base64(text.as_bytes()).into())).collect();
    let mut rendered = object(&Resource::SECRET, metadata(app, owner, name));
    rendered["type"] = kind.into();
    rendered["data"] = data.into();
    rendered
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let digit = (bits >> (18 - 6 * place)) as usize & 63;
            text.push(if place > group.len() { '=' } else { char::from(DIGITS[digit]) });
        }
    }
    text
}

/// `spec.tls` of an Ingress: each of its hosts that has a certificate, under the Secret that holds it.
pub(super) fn tls(app: &App, ingress: &Value) -> Vec<Value> {
    let rules = ingress["spec"]["rules"].as_array().into_iter().flatten();
    let routed: BTreeSet<&str> = rules.filter_map(|rule| rule["host"].as_str()).collect();
    let mut hosts: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for domain in app.domains.iter().filter(|domain| routed.contains(domain.host.as_str())) {
        if let Some(certificate) = &domain.certificate {
            hosts.entry(certificate).or_default().insert(&domain.host);
        }
    }
    let entry = |(name, hosts)| json!({"hosts": hosts, "secretName": certificate_secret(name)});
    hosts.into_iter().map(entry).collect()
}

/// A claim of this volume that is not there yet.
pub(super) fn claim(app: &App, owner: &OwnerId, name: &str, volume: &AppVolume, size: Memory) -> Value {
    let mut rendered = object(&Resource::PERSISTENT_VOLUME_CLAIM, metadata(app, owner, name));
    rendered["spec"] =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size.to_string()}}});
    if let Some(class) = &volume.class {
        rendered["spec"]["storageClassName"] = class.as_str().into();
    }
    rendered
}

/// The same claim with more in it; `None` if it holds as much already. Everything else of a claim is immutable and stays as
/// it was made, and a claim never becomes smaller.
pub(super) fn grown_claim(app: &App, owner: &OwnerId, name: &str, size: Memory, live: &Value) -> Option<Value> {
    let now = live["spec"]["resources"]["requests"]["storage"].as_str();
    if now.and_then(|now| now.parse::<Memory>().ok()).is_none_or(|now| now >= size) {
        return None;
    }
    let mut rendered = object(&Resource::PERSISTENT_VOLUME_CLAIM, metadata(app, owner, name));
    rendered["spec"] = json!({
        "accessModes": live["spec"]["accessModes"],
        "resources": {"requests": {"storage": size.to_string()}},
    });
    // Claimed by whoever made it, perhaps us: an apply without it would try to remove it.
    if let Some(class) = live["spec"].get("storageClassName") {
        rendered["spec"]["storageClassName"] = class.clone();
    }
    Some(rendered)
}

#[cfg(test)]
mod tests {
    use scheduler_core::Namespace;
    use scheduler_core::hooks::{Domain, Front, Quota, Release, SecretRef};
    use scheduler_core::{StackName, WorkloadName};

    use super::*;

    fn app() -> App {
        App::new(AppName::new("shop").unwrap(), Namespace::new("shop-ns").unwrap())
    }

    fn owner() -> OwnerId {
        OwnerId::new("platform").unwrap()
    }

    fn target(name: &str) -> Target {
        Target::new("shop-ns", name).unwrap()
    }

    fn with_front(process: &str) -> App {
        let mut app = app();
        app.front = Some(Front::new(WorkloadName::new(process).unwrap(), "http"));
        app
    }

    #[test]
    fn an_app_with_everything() {
        let mut app = with_front("web");
        app.policy.isolation = Isolation::App;
        app.policy.quota = Quota::default();
        app.policy.quota.cpu = Some("2000m".to_owned());
        app.policy.quota.memory = Some("1.5Gi".to_owned());
        app.policy.quota.instances = Some(5);
        let routers = ("scheduler/router".to_owned(), "true".to_owned());
        let credentials = RegistryCredentials::new("joe", SecretRef::new("r"));
        let password = || ConfigValue::new("pass");
        let logins = [("docker.io", &credentials, password()), ("registry.example:5000", &credentials, password())];
        let mut volume = AppVolume::new("1024Mi");
        volume.class = Some("fast".to_owned());
        let objects = [
            quota(&app, &owner()).unwrap().unwrap(),
            network_policy(&app, &owner(), &routers).unwrap(),
            front(&app, &owner(), &[target("web")], None).unwrap(),
            registries(&app, &owner(), &logins),
            certificate(&app, &owner(), "shop.example", "CHAIN", &ConfigValue::new("KEY")),
            claim(&app, &owner(), "data", &volume, "1024Mi".parse().unwrap()),
        ];
        insta::assert_json_snapshot!(objects);
    }

    #[test]
    fn an_app_without_a_policy_has_neither_quota_nor_isolation() {
        assert_eq!(quota(&app(), &owner()).unwrap(), None);
        assert_eq!(network_policy(&app(), &owner(), &(String::new(), String::new())), None);
    }

    #[test]
    fn a_quota_that_is_none_is_refused_by_its_field() {
        let mut app = app();
        app.policy.quota.memory = Some("much".to_owned());
        assert_eq!(quota(&app, &owner()).unwrap_err().0, "policy.quota.memory");
    }

    #[test]
    fn the_front_leads_to_its_process_of_whatever_release() {
        let leads_to = |app: &App, to: &[&str], live: Option<&str>| {
            let to: Vec<_> = to.iter().map(|name| target(name)).collect();
            let live = live.map(|name| json!({"spec": {"selector": {"scheduler/target": name}}}));
            let selector = front(app, &owner(), &to, live.as_ref()).unwrap()["spec"]["selector"].clone();
            selector["scheduler/target"].as_str().map(str::to_owned)
        };
        let some = |name: &str| Some(name.to_owned());
        let mut app = with_front("web");
        assert_eq!(leads_to(&app, &[], None), None, "there is nothing yet");
        assert_eq!(leads_to(&app, &["worker", "web"], None), some("web"));
        let stack = StackName::new("web", "3", "shop").unwrap();
        assert_eq!(leads_to(&app, &["worker--3--shop", stack.as_str()], Some("web")), some(stack.as_str()));
        assert_eq!(leads_to(&app, &[], Some(stack.as_str())), some(stack.as_str()), "nothing moved");
        assert_eq!(leads_to(&app, &[], Some("worker")), None, "another process is in front now");
        assert_eq!(leads_to(&app, &[], Some("website")), None, "which is another process");
        app.release = Some(Release::new(1, Vec::new()));
        assert_eq!(leads_to(&app, &[], Some("worker")), some("web"));
        assert_eq!(front(&super::tests::app(), &owner(), &[target("web")], None), None);
    }

    #[test]
    fn tls_is_of_the_hosts_that_an_ingress_has_and_that_have_a_certificate() {
        let mut app = app();
        app.domains = vec![
            Domain::new("b.example").certificate("x"),
            Domain::new("a.example").certificate("x"),
            Domain::new("c.example"),
            Domain::new("d.example").certificate("y"),
            Domain::new("e.example").certificate("z"),
        ];
        let rules = ["a.example", "b.example", "c.example", "d.example", "f.example"].map(|host| json!({"host": host}));
        let found = tls(&app, &json!({"spec": {"rules": rules}}));
        assert_eq!(
            found,
            [
                json!({"hosts": ["a.example", "b.example"], "secretName": "x-tls"}),
                json!({"hosts": ["d.example"], "secretName": "y-tls"}),
            ]
        );
        assert_eq!(tls(&app, &json!({"spec": {"rules": []}})), [json!(null); 0]);
    }

    #[test]
    fn a_claim_grows_and_keeps_the_rest() {
        let live = json!({"spec": {
            "accessModes": ["ReadWriteMany"], "storageClassName": "slow", "volumeMode": "Filesystem",
            "resources": {"requests": {"storage": "1Gi"}},
        }});
        let grown = |size: &str| grown_claim(&app(), &owner(), "data", size.parse().unwrap(), &live);
        assert_eq!((grown("1024Mi"), grown("1M")), (None, None));
        assert_eq!(
            grown("2Gi").unwrap()["spec"],
            json!({
                "accessModes": ["ReadWriteMany"], "storageClassName": "slow",
                "resources": {"requests": {"storage": "2Gi"}},
            })
        );
    }

    /// RFC 4648, section 10.
    #[test]
    fn base64_of_the_standard() {
        for (text, expected) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(text.as_bytes()), expected);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
    }
}
