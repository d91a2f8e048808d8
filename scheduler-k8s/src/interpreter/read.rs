//! `status` and `list`.

use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::future::{OptionFuture, try_join3};
use scheduler_core::{Detail, Filter, Found, Listed, Result, Status, Timestamp, mark_label};
use scheduler_k8s_client::{ListOptions, Resource};
use serde_json::Value;

use super::KubernetesScheduler;
use crate::error::translate;
use crate::labels::{self, OWNER, TARGET};
use crate::observe::{self, NativeObjects};

pub(super) async fn status(scheduler: &KubernetesScheduler, op: &Status) -> Result<Found> {
    let deployment = scheduler.get(&Resource::DEPLOYMENT, &op.target).await?;
    let Some(deployment) = deployment.filter(|deployment| scheduler.is_ours(deployment)) else {
        return Ok(Found(None));
    };
    let namespace = Some(op.target.namespace.as_str());
    let ours = ListOptions::new().label_selector(selector_of(&deployment["spec"]["selector"]).unwrap_or_default());
    let warnings = ListOptions::new().field_selector("type=Warning");
    let client = &scheduler.client;
    let events = OptionFuture::from(
        (op.detail >= Detail::Evidence).then(|| client.list::<Value>(&Resource::EVENT, namespace, &warnings)),
    );
    let (sets, pods, events) = try_join3(
        client.list::<Value>(&Resource::REPLICA_SET, namespace, &ours),
        client.list::<Value>(&Resource::POD, namespace, &ours),
        async { events.await.transpose() },
    )
    .await
    .map_err(|error| translate(&error))?;
    let at = server_time(pods.served_at, std::iter::once(&deployment).chain(&pods.items));
    let (sets, pods) = (sets.items.iter().collect::<Vec<_>>(), pods.items.iter().collect::<Vec<_>>());
    let events: Vec<&Value> = events.iter().flat_map(|events| &events.items).collect();
    let objects = NativeObjects::new(&deployment).pods(&sets, &pods).events(&events);
    Ok(Found(observe::observe(&objects, at).map(|seen| Box::new(seen.trimmed(op.detail)))))
}

pub(super) async fn list(scheduler: &KubernetesScheduler, filter: &Filter) -> Result<Listed> {
    let namespace = filter.namespace.as_ref().map(|namespace| namespace.as_str());
    let selectors = Selectors::new(&scheduler.owner, filter);
    let mains = ListOptions::new().label_selector(selectors.main);
    let parts = ListOptions::new().label_selector(selectors.parts);
    let client = &scheduler.client;
    let (deployments, sets, pods) = try_join3(
        client.list::<Value>(&Resource::DEPLOYMENT, namespace, &mains),
        client.list::<Value>(&Resource::REPLICA_SET, namespace, &parts),
        client.list::<Value>(&Resource::POD, namespace, &parts),
    )
    .await
    .map_err(|error| translate(&error))?;
    let at = server_time(pods.served_at, deployments.items.iter().chain(&pods.items));
    let family = Family::new(&sets.items, &pods.items);
    let observed = deployments.items.iter().filter_map(|deployment| family.observe(deployment, at));
    let accepted = observed.filter(|seen| filter.accepts(&seen.target, &seen.marks, &seen.labels));
    Ok(Listed::new(accepted.collect()))
}

/// The label selectors of a filter. The server narrows by labels; the texts of hashed marks are compared afterwards.
pub(super) struct Selectors {
    /// Of Deployments.
    pub(super) main: String,
    /// Of ReplicaSets and Pods. Old ones may have other marks and labels than the Deployment has now.
    pub(super) parts: String,
}

impl Selectors {
    pub(super) fn new(owner: &scheduler_core::OwnerId, filter: &Filter) -> Self {
        let mut wanted = vec![format!("{OWNER}={owner}")];
        wanted.extend(filter.name.iter().map(|name| format!("{TARGET}={name}")));
        let parts = wanted.join(",");
        wanted
            .extend(filter.marks.iter().map(|(mark, text)| format!("{}={}", labels::mark_key(mark), mark_label(text))));
        Self { main: wanted.join(","), parts }
    }
}

/// ReplicaSets and Pods by what controls them.
pub(super) struct Family<'a> {
    sets: std::collections::HashMap<&'a str, Vec<&'a Value>>,
    pods: std::collections::HashMap<&'a str, Vec<&'a Value>>,
}

impl<'a> Family<'a> {
    pub(super) fn new(sets: impl IntoIterator<Item = &'a Value>, pods: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut family = Self { sets: Default::default(), pods: Default::default() };
        for (object, by) in sets.into_iter().filter_map(|set| Some((set, observe::controller(set)?))) {
            family.sets.entry(by).or_default().push(object);
        }
        for (object, by) in pods.into_iter().filter_map(|pod| Some((pod, observe::controller(pod)?))) {
            family.pods.entry(by).or_default().push(object);
        }
        family
    }

    pub(super) fn observe(&self, deployment: &Value, at: Timestamp) -> Option<scheduler_core::Observation> {
        let sets = self.sets.get(observe::uid_of(deployment)?).map(Vec::as_slice).unwrap_or_default();
        let of_set = |set: &&Value| self.pods.get(observe::uid_of(set)?);
        let pods: Vec<&Value> = sets.iter().filter_map(of_set).flatten().copied().collect();
        let seen = observe::observe(&NativeObjects::new(deployment).pods(sets, &pods), at)?;
        Some(seen.trimmed(Detail::Counts))
    }
}

/// A Deployment's selector as the server's list takes it. `None` if there is none.
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
