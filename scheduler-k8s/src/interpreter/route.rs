//! `expose` and `unexpose`: one Ingress for each workload.

use std::collections::BTreeMap;

use scheduler_core::{
    Conflict, Error, ErrorKind, Expose, Exposed, Fault, ObjectAction, Result, Route, Target, Unexpose, Unexposed,
};
use scheduler_k8s_client::{ErrorKind as ClientErrorKind, ListOptions, Resource};
use serde_json::{Value, json};

use super::find::{Main, foreign, is_deleting, lost_a_race, named};
use super::read::ports_of;
use super::write::Writer;
use super::{ATTEMPTS, KubernetesScheduler, text};
use crate::error::translate;
use crate::labels::{self, OWNER, TARGET};
use crate::render::owner_reference;

const RESOURCE: &Resource = &Resource::INGRESS;
/// By which Ingresses said of which class they are before there was a field for it. It still counts.
const OLD_CLASS: &str = "kubernetes.io/ingress.class";

pub(super) async fn expose(scheduler: &KubernetesScheduler, op: &Expose) -> Result<Exposed> {
    scheduler.capabilities.require(&op.features())?;
    op.check()?;
    let target = &op.target;
    let main = scheduler.require(target, &op.guard).await?;
    check_ports(scheduler, op, &main).await?;

    let namespace = target.namespace.as_str();
    let mut writer = Writer { scheduler, namespace, workload: None, warnings: Vec::new() };
    let all = ingresses(&mut writer).await?;
    let is_own =
        |ingress: &Value| text(ingress, "namespace") == namespace && text(ingress, "name") == target.name.as_str();
    let mut live = all.iter().find(|ingress| is_own(ingress)).cloned();
    if let Some(taken) = all.iter().filter(|ingress| !is_own(ingress)).find_map(|other| clash(scheduler, other, op)) {
        let message = format!("{} has {taken} already", text(taken.of, "name"));
        let by = format!("{}/{}", text(taken.of, "namespace"), text(taken.of, "name"));
        return Err(Error::new(ErrorKind::Conflict(Conflict::RouteTaken { by }), message));
    }
    let rendered = ingress(scheduler, op, &main);
    let mut attempt = 1;
    let written = loop {
        if let Some(theirs) = live.as_ref().filter(|ingress| !scheduler.is_ours(ingress)) {
            return Err(foreign("Ingress", labels::owner_of(theirs)));
        }
        if live.as_ref().is_some_and(is_deleting) {
            return Err(Error::new(ErrorKind::Conflict(Conflict::Deleting), "the Ingress of this name"));
        }
        match writer.write(RESOURCE, &rendered, live.as_ref()).await {
            Err(error) if attempt < ATTEMPTS && lost_a_race(&error) => attempt += 1,
            done => break done?,
        }
        live = scheduler.get(RESOURCE, target).await?;
    };
    let mut exposed = Exposed::new(written.action != ObjectAction::Unchanged);
    exposed.addresses = addresses(&written.object);
    exposed.warnings = writer.warnings;
    Ok(exposed)
}

/// Every port must be one of the workload that it is said to be of, which must be ours.
async fn check_ports(scheduler: &KubernetesScheduler, op: &Expose, main: &Main) -> Result<()> {
    let mut others: BTreeMap<&Target, Option<Main>> = BTreeMap::new();
    let named = op.routes.iter().flat_map(|route| &route.backends).filter_map(|backend| backend.target.as_ref());
    for target in named.filter(|target| **target != op.target) {
        if !others.contains_key(target) {
            others.insert(target, scheduler.find_ours(target).await?);
        }
    }
    let mut faults = Vec::new();
    for (i, route) in op.routes.iter().enumerate() {
        for (j, backend) in route.backends.iter().enumerate() {
            let of = backend.target.as_ref().filter(|target| **target != op.target);
            let found = of.map_or(Some(main), |target| others.get(target).and_then(Option::as_ref));
            let at = format!("routes[{i}].backends[{j}]");
            match found {
                None => faults.push(Fault::new(format!("{at}.target"), "there is no such workload of ours")),
                Some(main) if !has_port(main, &backend.port) => {
                    faults.push(Fault::new(format!("{at}.port"), format!("it has no TCP port {:?}", backend.port)));
                }
                Some(_) => {}
            }
        }
    }
    if faults.is_empty() {
        return Ok(());
    }
    Err(Error::invalid_argument("a port that is not there cannot be exposed").with_causes(faults))
}

fn has_port(main: &Main, name: &str) -> bool {
    let tcp = |port: &Value| port["protocol"].as_str().is_none_or(|protocol| protocol == "TCP");
    ports_of(main.kind.template(&main.object)).any(|port| port["name"] == name && tcp(port))
}

/// All Ingresses of the cluster, or of the namespace where that is all we may see.
async fn ingresses(writer: &mut Writer<'_>) -> Result<Vec<Value>> {
    let client = &writer.scheduler.client;
    match client.list(RESOURCE, None, &ListOptions::new()).await {
        Err(error) if error.kind() == ClientErrorKind::Forbidden => {
            writer
                .warnings
                .push("may not list Ingresses of other namespaces, so one there may have the same route".into());
            let list = client.list(RESOURCE, Some(writer.namespace), &ListOptions::new()).await;
            list.map(|list| named(RESOURCE, list.items)).map_err(|error| translate(&error))
        }
        list => list.map(|list| named(RESOURCE, list.items)).map_err(|error| translate(&error)),
    }
}

/// A host and path that another Ingress has.
struct Taken<'a> {
    of: &'a Value,
    route: &'a Route,
}

impl std::fmt::Display for Taken<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the host {} with the path {}", self.route.host, self.route.path)
    }
}

/// The first of our routes that another Ingress has, which the same router may read.
fn clash<'a>(scheduler: &KubernetesScheduler, other: &'a Value, op: &'a Expose) -> Option<Taken<'a>> {
    let annotation = &other["metadata"]["annotations"][OLD_CLASS];
    let theirs = other["spec"]["ingressClassName"].as_str().or_else(|| annotation.as_str());
    // Which class is meant by none is the cluster's affair.
    if let (Some(ours), Some(theirs)) = (scheduler.ingress_class.as_deref(), theirs)
        && ours != theirs
    {
        return None;
    }
    let rules = other["spec"]["rules"].as_array().into_iter().flatten();
    let has = |route: &Route| {
        rules.clone().filter(|rule| rule["host"] == route.host.as_str()).any(|rule| {
            let paths = rule["http"]["paths"].as_array().into_iter().flatten();
            paths.filter_map(|path| path["path"].as_str()).any(|path| same_path(path, &route.path))
        })
    };
    op.routes.iter().find(|route| has(route)).map(|route| Taken { of: other, route })
}

/// A slash at the end means nothing to a prefix.
fn same_path(a: &str, b: &str) -> bool {
    a.trim_end_matches('/') == b.trim_end_matches('/')
}

fn ingress(scheduler: &KubernetesScheduler, op: &Expose, main: &Main) -> Value {
    let mut hosts: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    let mut routes: Vec<&Route> = op.routes.iter().collect();
    routes.sort();
    for route in routes {
        // Several would need weights, which were refused.
        for backend in &route.backends {
            let service = backend.target.as_ref().unwrap_or(&op.target).name.as_str();
            hosts.entry(&route.host).or_default().push(json!({
                "path": route.path,
                "pathType": "Prefix",
                "backend": {"service": {"name": service, "port": {"name": backend.port}}},
            }));
        }
    }
    let rules: Vec<Value> =
        hosts.into_iter().map(|(host, paths)| json!({"host": host, "http": {"paths": paths}})).collect();
    let name = op.target.name.as_str();
    let mut ingress = json!({
        "apiVersion": RESOURCE.api_version(),
        "kind": RESOURCE.kind,
        "metadata": {
            "name": name,
            "namespace": op.target.namespace.as_str(),
            "labels": {OWNER: scheduler.owner.as_str(), TARGET: name},
            "ownerReferences": [owner_reference(main.kind, name, main.uid())],
        },
        "spec": {"rules": rules},
    });
    if let Some(class) = &scheduler.ingress_class {
        ingress["spec"]["ingressClassName"] = class.as_str().into();
    }
    ingress
}

fn addresses(ingress: &Value) -> Vec<String> {
    let found = ingress["status"]["loadBalancer"]["ingress"].as_array().into_iter().flatten();
    found.filter_map(|at| at["ip"].as_str().or_else(|| at["hostname"].as_str())).map(str::to_owned).collect()
}

pub(super) async fn unexpose(scheduler: &KubernetesScheduler, op: &Unexpose) -> Result<Unexposed> {
    let Some(found) = scheduler.get(RESOURCE, &op.target).await? else { return Ok(Unexposed::WasAbsent) };
    if !scheduler.is_ours(&found) {
        return Err(foreign("Ingress", labels::owner_of(&found)));
    }
    let namespace = op.target.namespace.as_str();
    let mut writer = Writer { scheduler, namespace, workload: None, warnings: Vec::new() };
    writer.remove(RESOURCE, &found).await?;
    Ok(Unexposed::Gone)
}
