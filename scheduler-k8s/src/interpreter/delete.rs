//! `delete`: one step further at each call.

use futures_util::future::try_join;
use scheduler_core::{Delete, Deleted, Error, Guard, Result};
use scheduler_k8s_client::{self as client, ListOptions, Propagation, Resource};
use serde_json::Value;

use super::read::selector_of;
use super::{ATTEMPTS, KubernetesScheduler, check_guard, is_deleting, text};
use crate::error::translate;
use crate::labels::{self, OWNER, TARGET};
use crate::observe;

pub(super) async fn delete(scheduler: &KubernetesScheduler, op: &Delete) -> Result<Deleted> {
    scheduler.capabilities.require(&op.features())?;
    if op.guard == Guard::IfAbsent {
        return Err(Error::invalid_argument("IfAbsent makes no sense for a delete"));
    }
    let mut attempt = 1;
    loop {
        let live = scheduler.read(&op.target).await?;
        check_guard(&op.guard, live.deployment.as_ref(), &scheduler.owner)?;
        let deletion = Deletion { scheduler, op, remaining: Vec::new(), blocked_by: Vec::new() };
        match deletion.run(live.deployment, live.service).await {
            Err(error) if attempt < ATTEMPTS && super::launch::lost_a_race(&error) => attempt += 1,
            done => return done,
        }
    }
}

struct Deletion<'a> {
    scheduler: &'a KubernetesScheduler,
    op: &'a Delete,
    remaining: Vec<String>,
    blocked_by: Vec<String>,
}

impl Deletion<'_> {
    async fn run(mut self, deployment: Option<Value>, service: Option<Value>) -> Result<Deleted> {
        // Of a Deployment that is not ours, and may be taken by its guard, the Service goes along only if both say that
        // they belong to the same one.
        let owner = deployment.as_ref().map_or(Some(self.scheduler.owner.clone()), labels::owner_of);
        let service = service.filter(|service| owner.is_some() && labels::owner_of(service) == owner);
        let selector = deployment.as_ref().and_then(|deployment| selector_of(&deployment["spec"]["selector"]));
        let own = format!("{OWNER}={},{TARGET}={}", self.scheduler.owner, self.op.target.name);
        let selector = selector.unwrap_or(own);
        let mut found = deployment.is_some() || service.is_some();

        // Foreground: the Deployment stays until its Pods have ended, and a launch meanwhile sees that it is terminating.
        if let Some(deployment) = &deployment {
            self.remove(&Resource::DEPLOYMENT, deployment, Propagation::Foreground).await?;
        }
        if let Some(service) = &service {
            self.remove(&Resource::SERVICE, service, Propagation::Background).await?;
        }

        let namespace = Some(self.op.target.namespace.as_str());
        let options = ListOptions::new().label_selector(selector);
        let client = &self.scheduler.client;
        let sets = client.list::<Value>(&Resource::REPLICA_SET, namespace, &options);
        let pods = client.list::<Value>(&Resource::POD, namespace, &options);
        let (sets, pods) = try_join(sets, pods).await.map_err(|error| translate(&error))?;
        // Somebody deleted the Deployment alone (`kubectl delete --cascade=orphan`).
        for set in &sets.items {
            if observe::controller(set).is_none() && self.is_labelled(set) {
                found = true;
                self.remove(&Resource::REPLICA_SET, set, Propagation::Foreground).await?;
            }
        }
        let uid = deployment.as_ref().and_then(observe::uid_of);
        let own = sets.items.iter().filter(|set| uid.is_some() && observe::controller(set) == uid);
        let own: Vec<_> = own.filter_map(observe::uid_of).collect();
        for pod in &pods.items {
            // A bare Pod with our labels is nothing that a launch made.
            let Some(controller) = observe::controller(pod) else { continue };
            if own.contains(&controller) || self.is_labelled(pod) {
                found = true;
                self.remains("Pod", pod);
            }
        }
        Ok(match (self.remaining.is_empty(), found) {
            (true, true) => Deleted::Gone,
            (true, false) => Deleted::WasAbsent,
            (false, _) => Deleted::Deleting { remaining: self.remaining, blocked_by: self.blocked_by },
        })
    }

    /// Deletes an object as it was read, unless that has begun.
    async fn remove(&mut self, resource: &Resource, object: &Value, propagation: Propagation) -> Result<()> {
        if is_deleting(object) {
            self.remains(resource.kind, object);
            return Ok(());
        }
        let namespace = Some(self.op.target.namespace.as_str());
        let mut delete = client::Delete::new(resource, namespace, text(object, "name"), propagation);
        delete = delete.uid(text(object, "uid"));
        if matches!(self.op.guard, Guard::IfVersion(_)) && *resource == Resource::DEPLOYMENT {
            delete = delete.resource_version(text(object, "resourceVersion"));
        }
        let deletion = self.scheduler.client.delete(delete).await.map_err(|error| translate(&error))?;
        if let client::Deleted::Started(object) = deletion.outcome {
            self.remains(resource.kind, &object);
        }
        Ok(())
    }

    /// Whether an object bears the labels of this workload, and not merely those of a selector that was taken over.
    fn is_labelled(&self, object: &Value) -> bool {
        let of = object["metadata"]["labels"][TARGET].as_str();
        self.scheduler.is_ours(object) && of == Some(self.op.target.name.as_str())
    }

    fn remains(&mut self, kind: &str, object: &Value) {
        let name = format!("{kind}/{}", text(object, "name"));
        let finalizers = object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str);
        // The one of the garbage collector is how a foreground deletion waits.
        for finalizer in finalizers.filter(|finalizer| *finalizer != "foregroundDeletion") {
            self.blocked_by.push(format!("{name}: finalizer {finalizer}"));
        }
        self.remaining.push(name);
    }
}
