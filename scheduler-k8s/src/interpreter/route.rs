//! `expose` and `unexpose`: one Ingress for each workload.

use std::collections::BTreeMap;

use scheduler_core::{
    Conflict, Error, ErrorKind, Expose, Exposed, Fault, ObjectAction, Result, Retry, Route, Target, Unexpose, Unexposed,
};
use scheduler_k8s_client::{ErrorKind as ClientErrorKind, ListOptions, Resource};
use serde_json::{Value, json};

use super::find::{Main, deleting, foreign, is_deleting, lost_a_race, named};
use super::read::ports_of;
use super::write::{Writer, Written};
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
    let main = scheduler.require(&op.target, &op.guard).await?;
    check_ports(scheduler, op, &main).await?;
    check_from(scheduler, op).await?;

    let writer = Writer { scheduler, namespace: op.target.namespace.as_str(), workload: None, warnings: Vec::new() };
    let mut exposing = Exposing { scheduler, op, writer, everywhere: true };
    let mut all = exposing.look().await?;
    exposing.check_free(&all)?;
    let before = find(&all, &op.target).cloned();
    let references = json!([owner_reference(main.kind, op.target.name.as_str(), main.uid())]);
    let rendered = manifest(scheduler, &op.target, &references, rules(op));
    let written = exposing.put(&rendered, before.clone()).await?;
    let changed = written.action != ObjectAction::Unchanged;
    if changed {
        // The server has no lock over Ingresses. Of two that write one route, the later writer looks after both writes, and
        // so sees the other: if each who sees another gives way, no two are left.
        all = exposing.look().await?;
        if let Err(taken) = exposing.check_free(&all) {
            exposing.take_back(before.as_ref(), written.object).await?;
            return Err(taken.with_retry(Retry::AfterReread));
        }
    }
    let taken = exposing.take_from_old(&all).await?;
    let mut exposed = Exposed::new(changed || !taken.is_empty());
    exposed.taken = taken;
    exposed.addresses = addresses(&written.object);
    exposed.warnings = exposing.writer.warnings;
    Ok(exposed)
}

/// An expose under way.
struct Exposing<'a> {
    scheduler: &'a KubernetesScheduler,
    op: &'a Expose,
    writer: Writer<'a>,
    /// Whether the Ingresses of all namespaces may be listed, as far as is known.
    everywhere: bool,
}

impl Exposing<'_> {
    /// All Ingresses of the cluster, or of the namespace where that is all we may see.
    async fn look(&mut self) -> Result<Vec<Value>> {
        let client = &self.scheduler.client;
        let list = async |namespace: Option<&str>| client.list(RESOURCE, namespace, &ListOptions::new()).await;
        let mut found = list((!self.everywhere).then_some(self.writer.namespace)).await;
        if self.everywhere && found.as_ref().is_err_and(|error| error.kind() == ClientErrorKind::Forbidden) {
            self.everywhere = false;
            let blind = "may not list Ingresses of other namespaces, so one there may have the same route";
            self.writer.warnings.push(blind.into());
            found = list(Some(self.writer.namespace)).await;
        }
        found.map(|list| named(RESOURCE, list.items)).map_err(|error| translate(&error))
    }

    /// Refuses a route that another workload has, but for the one from which it is to be taken. That one must be ours.
    fn check_free(&self, all: &[Value]) -> Result<()> {
        let Expose { target, from, .. } = self.op;
        if let Some(old) = from.as_ref().and_then(|from| find(all, from))
            && !self.scheduler.is_ours(old)
        {
            return Err(not_ours_to_take("Ingress", old));
        }
        let others = all.iter().filter(|other| !is_of(other, target));
        let mut others = others.filter(|other| !from.as_ref().is_some_and(|from| is_of(other, from)));
        let Some((other, route)) = others.find_map(|other| Some((other, clash(self.scheduler, other, self.op)?)))
        else {
            return Ok(());
        };
        let (namespace, name) = (text(other, "namespace"), text(other, "name"));
        let message = format!("{name} has the host {} with the path {} already", route.host, route.path);
        let by = format!("{namespace}/{name}");
        Err(Error::new(ErrorKind::Conflict(Conflict::RouteTaken { by }), message))
    }

    /// Makes the Ingress of the workload be as rendered.
    async fn put(&mut self, rendered: &Value, mut live: Option<Value>) -> Result<Written> {
        for attempt in 1.. {
            if let Some(theirs) = live.as_ref().filter(|ingress| !self.scheduler.is_ours(ingress)) {
                return Err(foreign("Ingress", labels::owner_of(theirs)));
            }
            if live.as_ref().is_some_and(is_deleting) {
                break;
            }
            match self.writer.write(RESOURCE, rendered, live.as_ref()).await {
                Err(error) if attempt < ATTEMPTS && lost_a_race(&error) => {}
                done => return done,
            }
            live = self.scheduler.get(RESOURCE, &self.op.target).await?;
        }
        Err(deleting("Ingress"))
    }

    /// Makes the Ingress of the workload be what it was before it was written.
    async fn take_back(&mut self, before: Option<&Value>, written: Value) -> Result<()> {
        let Some(before) = before else {
            return self.writer.remove(RESOURCE, &written).await.map(drop);
        };
        let rules = before["spec"]["rules"].as_array().cloned().unwrap_or_default();
        let references = &written["metadata"]["ownerReferences"];
        let restored = manifest(self.scheduler, &self.op.target, references, rules);
        self.put(&restored, Some(written)).await.map(drop)
    }

    /// Takes those of the routes that the old workload has from it, and its Ingress if none is left. Answers them.
    async fn take_from_old(&mut self, all: &[Value]) -> Result<Vec<Route>> {
        let Some(from) = &self.op.from else { return Ok(Vec::new()) };
        let mut live = find(all, from).cloned();
        for attempt in 1.. {
            // One that is on its way out takes its routes along.
            let Some(old) = live.filter(|old| !is_deleting(old)) else { break };
            if !self.scheduler.is_ours(&old) {
                return Err(not_ours_to_take("Ingress", &old));
            }
            let taken = self.op.routes_among(&routes_of(&old));
            if taken.is_empty() {
                break;
            }
            let rest = rules_without(&old, &self.op.routes);
            let done = if rest.is_empty() {
                self.writer.remove_as_read(RESOURCE, &old).await.map(drop)
            } else {
                let reduced = manifest(self.scheduler, from, &old["metadata"]["ownerReferences"], rest);
                self.writer.write(RESOURCE, &reduced, Some(&old)).await.map(drop)
            };
            match done {
                Err(error) if attempt < ATTEMPTS && lost_a_race(&error) => {}
                done => return done.map(|()| taken),
            }
            live = self.scheduler.get(RESOURCE, from).await?;
        }
        Ok(Vec::new())
    }
}

/// A workload that routes are to be taken from must be ours, if it is there.
async fn check_from(scheduler: &KubernetesScheduler, op: &Expose) -> Result<()> {
    let Some(from) = &op.from else { return Ok(()) };
    match scheduler.find(from).await? {
        Some(main) if !scheduler.is_ours(&main.object) => Err(not_ours_to_take(main.kind.as_str(), &main.object)),
        _ => Ok(()),
    }
}

fn not_ours_to_take(kind: &str, object: &Value) -> Error {
    let owner = labels::owner_of(object);
    let words = format!("the {kind} {}, from which routes were to be taken", text(object, "name"));
    Error::new(ErrorKind::Conflict(Conflict::Owner { owner }), words)
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

fn is_of(ingress: &Value, target: &Target) -> bool {
    text(ingress, "namespace") == target.namespace.as_str() && text(ingress, "name") == target.name.as_str()
}

fn find<'a>(all: &'a [Value], target: &Target) -> Option<&'a Value> {
    all.iter().find(|ingress| is_of(ingress, target))
}

/// The first of our routes that another Ingress has, which the same router may read.
fn clash(scheduler: &KubernetesScheduler, other: &Value, op: &Expose) -> Option<Route> {
    let routes = shares_router(scheduler, other).then(|| op.routes_among(&routes_of(other)));
    routes.into_iter().flatten().next()
}

/// Whether the router of our Ingresses may read another one.
pub(crate) fn shares_router(scheduler: &KubernetesScheduler, other: &Value) -> bool {
    let annotation = &other["metadata"]["annotations"][OLD_CLASS];
    let theirs = other["spec"]["ingressClassName"].as_str().or_else(|| annotation.as_str());
    // Which class is meant by none is the cluster's affair.
    scheduler.ingress_class.as_deref().zip(theirs).is_none_or(|(ours, theirs)| ours == theirs)
}

/// The hosts and paths of an Ingress. Where they lead to is not told.
pub(crate) fn routes_of(ingress: &Value) -> Vec<Route> {
    let rules = ingress["spec"]["rules"].as_array().into_iter().flatten();
    let of_rule = |rule: &Value| {
        let paths = rule["http"]["paths"].as_array().into_iter().flatten();
        paths.filter_map(|path| route_of(&rule["host"], path)).collect::<Vec<_>>()
    };
    rules.flat_map(of_rule).collect()
}

fn route_of(host: &Value, path: &Value) -> Option<Route> {
    let port = path["backend"]["service"]["port"]["name"].as_str().unwrap_or_default();
    Some(Route::new(host.as_str()?, port).path(path["path"].as_str()?))
}

/// The rules of an Ingress but for these routes.
fn rules_without(ingress: &Value, routes: &[Route]) -> Vec<Value> {
    let mut rules = ingress["spec"]["rules"].as_array().cloned().unwrap_or_default();
    rules.retain_mut(|rule| {
        let host = rule.get("host").cloned().unwrap_or_default();
        let Some(paths) = rule.pointer_mut("/http/paths").and_then(Value::as_array_mut) else { return true };
        let is_taken = |old: &Route| routes.iter().any(|new| new.is_for_same_requests(old));
        paths.retain(|path| !route_of(&host, path).as_ref().is_some_and(is_taken));
        !paths.is_empty()
    });
    rules
}

fn rules(op: &Expose) -> Vec<Value> {
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
    hosts.into_iter().map(|(host, paths)| json!({"host": host, "http": {"paths": paths}})).collect()
}

/// The Ingress of a workload with these rules.
fn manifest(scheduler: &KubernetesScheduler, target: &Target, references: &Value, rules: Vec<Value>) -> Value {
    let name = target.name.as_str();
    let mut ingress = json!({
        "apiVersion": RESOURCE.api_version(),
        "kind": RESOURCE.kind,
        "metadata": {
            "name": name,
            "namespace": target.namespace.as_str(),
            "labels": {OWNER: scheduler.owner.as_str(), TARGET: name},
        },
        "spec": {"rules": rules},
    });
    if references.is_array() {
        ingress["metadata"]["ownerReferences"] = references.clone();
    }
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
