//! `status`, `list` and `endpoints`.

use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::future::{try_join3, try_join5};
use scheduler_core::{
    Detail, Endpoint, Endpoints, Filter, Found, InstanceState, Listed, Observation, OwnerId, ReadyEndpoints, Result,
    Status, Target, Timestamp, mark_label,
};
use scheduler_k8s_client::{self as client, ListOptions, Resource};
use serde_json::Value;

use super::KubernetesScheduler;
use super::family::Family;
use super::find::Main;
use crate::error::translate;
use crate::kind::MainKind;
use crate::labels::{self, OWNER, RUN_OF, TARGET};
use crate::observe::{self, NativeObjects};

/// What belongs to a main object.
pub(super) struct Parts {
    pub(super) between: Vec<Value>,
    pub(super) pods: Vec<Value>,
    events: Vec<Value>,
    at: Timestamp,
}

impl Parts {
    pub(super) fn observe(&self, main: &Main) -> Option<Observation> {
        let (between, pods): (Vec<&Value>, Vec<&Value>) = (self.between.iter().collect(), self.pods.iter().collect());
        let events: Vec<&Value> = self.events.iter().collect();
        let objects = NativeObjects::new(main.kind, &main.object).pods(&between, &pods).events(&events);
        observe::observe(&objects, self.at)
    }
}

/// Reads what belongs to a main object. Cost: one LIST for its Pods, one for what stands between, one for events.
pub(super) async fn parts(
    scheduler: &KubernetesScheduler,
    target: &Target,
    main: &Main,
    events: bool,
) -> Result<Parts> {
    let namespace = Some(target.namespace.as_str());
    let ours = ListOptions::new().label_selector(selector(&scheduler.owner, target, main));
    let warnings = ListOptions::new().field_selector("type=Warning");
    let client = &scheduler.client;
    let (between, pods, events) = try_join3(
        maybe(main.kind.between().map(|resource| client.list::<Value>(resource, namespace, &ours))),
        client.list::<Value>(&Resource::POD, namespace, &ours),
        maybe(events.then(|| client.list::<Value>(&Resource::EVENT, namespace, &warnings))),
    )
    .await
    .map_err(|error| translate(&error))?;
    let at = server_time(pods.served_at, std::iter::once(&main.object).chain(&pods.items));
    Ok(Parts { between, pods: pods.items, events, at })
}

async fn maybe(
    list: Option<impl Future<Output = Result<client::List<Value>, client::Error>>>,
) -> Result<Vec<Value>, client::Error> {
    match list {
        Some(list) => list.await.map(|list| list.items),
        None => Ok(Vec::new()),
    }
}

/// What finds the Pods of a main object, and what stands between.
pub(super) fn selector(owner: &OwnerId, target: &Target, main: &Main) -> String {
    match main.kind {
        // It has no selector.
        MainKind::CronJob => format!("{OWNER}={owner},{RUN_OF}={}", target.name),
        _ => selector_of(&main.object["spec"]["selector"]).unwrap_or_else(|| own_selector(owner, target)),
    }
}

/// The labels of everything that belongs to a workload.
pub(super) fn own_selector(owner: &OwnerId, target: &Target) -> String {
    format!("{OWNER}={owner},{TARGET}={}", target.name)
}

pub(super) async fn status(scheduler: &KubernetesScheduler, op: &Status) -> Result<Found> {
    let Some(main) = scheduler.find_ours(&op.target).await? else { return Ok(Found(None)) };
    let parts = parts(scheduler, &op.target, &main, op.detail >= Detail::Evidence).await?;
    Ok(Found(parts.observe(&main).map(|seen| Box::new(seen.trimmed(op.detail)))))
}

pub(super) async fn endpoints(scheduler: &KubernetesScheduler, op: &Endpoints) -> Result<ReadyEndpoints> {
    let Some(main) = scheduler.find_ours(&op.target).await? else { return Ok(ReadyEndpoints::default()) };
    let parts = parts(scheduler, &op.target, &main, false).await?;
    let ready = parts.observe(&main).map(|seen| seen.instances).unwrap_or_default();
    let mut found = Vec::new();
    for instance in ready.into_iter().filter(|instance| instance.state == InstanceState::Ready) {
        let pod = parts.pods.iter().find(|pod| observe::instance_id(main.kind, pod) == instance.id);
        let (Some(pod), Some(address)) = (pod, &instance.address) else { continue };
        // The numbers that this Pod listens on, which during an update are not those of every Pod.
        for port in ports_of(pod) {
            let (Some(name), Some(number)) = (port["name"].as_str(), port["containerPort"].as_u64()) else { continue };
            let wanted = op.port.as_deref().is_none_or(|wanted| wanted == name);
            if let Some(number) = u16::try_from(number).ok().filter(|_| wanted) {
                found.push(Endpoint::new(&instance.id, name, address, number));
            }
        }
    }
    Ok(ReadyEndpoints::new(found))
}

/// The ports of a Pod, or of a pod template.
pub(super) fn ports_of(pod: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["initContainers", "containers"].into_iter().filter_map(|list| pod["spec"][list].as_array());
    lists.flatten().filter_map(|container| container["ports"].as_array()).flatten()
}

pub(super) async fn list(scheduler: &KubernetesScheduler, filter: &Filter) -> Result<Listed> {
    let namespace = filter.namespace.as_ref().map(|namespace| namespace.as_str());
    let selectors = Selectors::new(&scheduler.owner, filter);
    let client = &scheduler.client;
    let list = |resource: &'static Resource| {
        let options = ListOptions::new().label_selector(selectors.of(resource));
        async move { client.list::<Value>(resource, namespace, &options).await }
    };
    // What a main object says of its parts is true of the parts that are read afterwards, not of those that were read before.
    let mains = try_join5(
        list(&Resource::DEPLOYMENT),
        list(&Resource::STATEFUL_SET),
        list(&Resource::DAEMON_SET),
        list(&Resource::JOB),
        list(&Resource::CRON_JOB),
    );
    let (deployments, stateful, daemons, jobs, periodic) = mains.await.map_err(|error| translate(&error))?;
    let parts = try_join3(list(&Resource::REPLICA_SET), list(&Resource::CONTROLLER_REVISION), list(&Resource::POD));
    let (sets, revisions, pods) = parts.await.map_err(|error| translate(&error))?;
    let at = server_time(pods.served_at, deployments.items.iter().chain(&pods.items));
    let between = sets.items.iter().chain(&revisions.items).chain(&jobs.items);
    let family = Family::new(between, &pods.items);
    let mains = [
        (MainKind::Deployment, &deployments.items),
        (MainKind::StatefulSet, &stateful.items),
        (MainKind::DaemonSet, &daemons.items),
        (MainKind::Job, &jobs.items),
        (MainKind::CronJob, &periodic.items),
    ];
    let mains = mains.into_iter().flat_map(|(kind, items)| items.iter().map(move |main| (kind, main)));
    let observed = mains.filter_map(|(kind, main)| family.observe(kind, main, at));
    let accepted = observed.filter(|seen| filter.accepts(&seen.target, &seen.marks, &seen.labels));
    Ok(Listed::new(accepted.collect()))
}

/// The label selectors of a filter. The server narrows by labels; the texts of hashed marks are compared afterwards.
pub(super) struct Selectors {
    /// Of main objects.
    main: String,
    /// Of what belongs to them. Old ones may have other marks and labels than the main object has now. With a name it leaves
    /// out the runs of a periodic workload that were begun by hand, which have names of their own.
    part: String,
}

impl Selectors {
    pub(super) fn new(owner: &OwnerId, filter: &Filter) -> Self {
        let mut wanted = vec![format!("{OWNER}={owner}")];
        wanted.extend(filter.name.iter().map(|name| format!("{TARGET}={name}")));
        let part = wanted.join(",");
        wanted
            .extend(filter.marks.iter().map(|(mark, text)| format!("{}={}", labels::mark_key(mark), mark_label(text))));
        Self { main: wanted.join(","), part }
    }

    /// That of a kind. A Job is both a main object and what belongs to one.
    pub(super) fn of(&self, resource: &Resource) -> String {
        let main = MainKind::ALL.iter().any(|kind| kind.resource() == resource) && *resource != Resource::JOB;
        match resource {
            _ if main => self.main.clone(),
            // Without the entries of our own history.
            resource if *resource == Resource::CONTROLLER_REVISION => format!("{},!{}", self.part, labels::HISTORY),
            _ => self.part.clone(),
        }
    }
}

/// A selector as the server's list takes it. `None` if there is none.
pub(super) fn selector_of(selector: &Value) -> Option<String> {
    let equal = selector["matchLabels"].as_object().into_iter().flatten();
    let mut parts: Vec<String> = equal.filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?))).collect();
    for rule in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = rule["key"].as_str()?;
        let values = rule["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let values = values.collect::<Vec<_>>().join(",");
        parts.push(match rule["operator"].as_str()? {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return None,
        });
    }
    (!parts.is_empty()).then(|| parts.join(","))
}

/// The server's clock: as its answer says, else the newest time that any of the objects bears.
pub(super) fn server_time<'a>(served_at: Option<SystemTime>, objects: impl Iterator<Item = &'a Value>) -> Timestamp {
    if let Some(since) = served_at.and_then(|at| at.duration_since(UNIX_EPOCH).ok()) {
        return Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
    }
    let times = objects.flat_map(|object| {
        let managed = object["metadata"]["managedFields"].as_array().into_iter().flatten().map(|entry| &entry["time"]);
        managed.chain([&object["metadata"]["creationTimestamp"]]).filter_map(|time| time.as_str()?.parse().ok())
    });
    times.max().unwrap_or(Timestamp::from_millis(0))
}
