//! `ensure_namespace` and `delete_namespace`.

use futures_util::future::try_join_all;
use scheduler_core::{
    Conflict, DeleteNamespace, EnsureNamespace, Error, ErrorKind, NamespaceDeleted, NamespaceEnsured, Result,
};
use scheduler_k8s_client::{
    Apply, Condition, Delete, Deleted, ErrorKind as ClientErrorKind, ListOptions, Propagation, Resource,
};
use serde_json::{Value, json};

use super::find::{foreign, is_deleting};
use super::{KubernetesScheduler, text};
use crate::MANAGER;
use crate::error::translate;
use crate::kind::MainKind;
use crate::labels::{self, OWNER};

const RESOURCE: &Resource = &Resource::NAMESPACE;

async fn get(scheduler: &KubernetesScheduler, name: &str) -> Result<Option<Value>> {
    scheduler.client.get(RESOURCE, None, name).await.map_err(|error| translate(&error))
}

pub(super) async fn ensure(scheduler: &KubernetesScheduler, op: &EnsureNamespace) -> Result<NamespaceEnsured> {
    let name = op.namespace.as_str();
    // Read first: who may not make namespaces can still use one that is there.
    if let Some(found) = get(scheduler, name).await? {
        return usable(scheduler, &found);
    }
    let body = json!({"metadata": {"labels": {OWNER: scheduler.owner.as_str()}}});
    let apply = Apply::new(RESOURCE, None, name, body, MANAGER, Condition::Absent);
    match scheduler.client.apply(apply).await {
        Ok(_) => Ok(NamespaceEnsured::Created),
        Err(error) if error.kind() == ClientErrorKind::AlreadyExists => match get(scheduler, name).await? {
            Some(found) => usable(scheduler, &found),
            None => Err(translate(&error)),
        },
        Err(error) => Err(translate(&error)),
    }
}

fn usable(scheduler: &KubernetesScheduler, found: &Value) -> Result<NamespaceEnsured> {
    if is_terminating(found) {
        let why = format!("the namespace {}", text(found, "name"));
        return Err(Error::new(ErrorKind::Conflict(Conflict::Deleting), why));
    }
    Ok(NamespaceEnsured::Exists { owned: scheduler.is_ours(found) })
}

pub(crate) fn is_terminating(namespace: &Value) -> bool {
    is_deleting(namespace) || namespace["status"]["phase"] == "Terminating"
}

pub(super) async fn delete(scheduler: &KubernetesScheduler, op: &DeleteNamespace) -> Result<NamespaceDeleted> {
    let name = op.namespace.as_str();
    let Some(found) = get(scheduler, name).await? else { return Ok(NamespaceDeleted::WasAbsent) };
    if !scheduler.is_ours(&found) {
        return Err(foreign("Namespace", labels::owner_of(&found)));
    }
    if is_terminating(&found) {
        return Ok(NamespaceDeleted::Deleting { remaining: remaining(&found) });
    }
    let held = workloads(scheduler, name).await?;
    if !held.is_empty() {
        let message = format!("the namespace {name} holds {}", held.join(", "));
        return Err(Error::new(ErrorKind::Precondition, message));
    }
    let delete = Delete::new(RESOURCE, None, name, Propagation::Background).uid(text(&found, "uid"));
    let done = scheduler.client.delete(delete).await.map_err(|error| translate(&error))?;
    Ok(match done.outcome {
        Deleted::Started(object) => NamespaceDeleted::Deleting { remaining: remaining(&object) },
        Deleted::WasAbsent => NamespaceDeleted::WasAbsent,
        _ => NamespaceDeleted::Gone,
    })
}

/// Everything that runs in a namespace, whoever's. What a controller made is not told beside what it was made for.
async fn workloads(scheduler: &KubernetesScheduler, namespace: &str) -> Result<Vec<String>> {
    let kinds = MainKind::ALL.map(MainKind::resource).into_iter().chain([&Resource::REPLICA_SET, &Resource::POD]);
    let options = ListOptions::new();
    let lists = kinds.map(|resource| {
        let options = &options;
        async move {
            let list = scheduler.client.list::<Value>(resource, Some(namespace), options).await;
            list.map(|list| (resource, list.items)).map_err(|error| translate(&error))
        }
    });
    let found = try_join_all(lists).await?.into_iter().flat_map(|(resource, items)| {
        let own = items.into_iter().filter(|object| crate::observe::controller(object).is_none());
        own.map(|object| format!("{}/{}", resource.kind, text(&object, "name"))).collect::<Vec<_>>()
    });
    Ok(found.collect())
}

/// What the server says that still holds up a deletion.
fn remaining(namespace: &Value) -> Vec<String> {
    let conditions = namespace["status"]["conditions"].as_array().into_iter().flatten();
    let holding = conditions.filter(|condition| {
        condition["status"] == "True"
            && matches!(condition["type"].as_str(), Some("NamespaceContentRemaining" | "NamespaceFinalizersRemaining"))
    });
    holding.filter_map(|condition| condition["message"].as_str().map(str::to_owned)).collect()
}
