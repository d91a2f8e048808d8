//! `delete`: one step further at each call.

use futures_util::future::try_join4;
use scheduler_core::{Delete, Deleted, Error, Guard, Result};
use scheduler_k8s_client::{self as client, Propagation, Resource};
use serde_json::Value;

use super::find::{Main, check_guard, is_deleting, lost_a_race};
use super::read::{own_selector, selector};
use super::{ATTEMPTS, KubernetesScheduler, history, text};
use crate::error::translate;
use crate::kind::MainKind;
use crate::{labels, observe};

pub(super) async fn delete(scheduler: &KubernetesScheduler, op: &Delete) -> Result<Deleted> {
    scheduler.capabilities.require(&op.features())?;
    if matches!(op.guard, Guard::IfAbsent | Guard::IfPlan(_)) {
        return Err(Error::invalid_argument("IfAbsent and IfPlan make no sense for a delete"));
    }
    let mut attempt = 1;
    loop {
        let found = read(scheduler, op).await?;
        check_guard(&op.guard, found.main.as_ref(), &scheduler.owner)?;
        let deletion = Deletion { scheduler, op, remaining: Vec::new(), blocked_by: Vec::new() };
        match deletion.run(found).await {
            Err(error) if attempt < ATTEMPTS && lost_a_race(&error) => attempt += 1,
            done => return done,
        }
    }
}

/// All that bears a workload's name or labels, but for its Pods and what stands between.
struct Belongings {
    main: Option<Main>,
    service: Option<Value>,
    others: Vec<(&'static Resource, Value)>,
}

async fn read(scheduler: &KubernetesScheduler, op: &Delete) -> Result<Belongings> {
    let target = &op.target;
    let ours = own_selector(&scheduler.owner, target);
    let ((main, service), routes, configs, history) = try_join4(
        scheduler.find_with_service(target),
        scheduler.list_of(&Resource::INGRESS, target, ours.clone()),
        scheduler.list_of(&Resource::SECRET, target, ours),
        scheduler.list_of(&Resource::CONTROLLER_REVISION, target, history::selector(&scheduler.owner, target)),
    )
    .await?;
    let routes = routes.into_iter().map(|object| (&Resource::INGRESS, object));
    let configs = configs.into_iter().map(|object| (&Resource::SECRET, object));
    let history = history.into_iter().map(|object| (&Resource::CONTROLLER_REVISION, object));
    Ok(Belongings { main, service, others: routes.chain(configs).chain(history).collect() })
}

struct Deletion<'a> {
    scheduler: &'a KubernetesScheduler,
    op: &'a Delete,
    remaining: Vec<String>,
    blocked_by: Vec<String>,
}

impl Deletion<'_> {
    async fn run(mut self, belongings: Belongings) -> Result<Deleted> {
        let Belongings { main, service, others } = belongings;
        // Of a main object that is not ours, and may be taken by its guard, the Service goes along only if both say that
        // they belong to the same one.
        let owner = main.as_ref().map_or(Some(self.scheduler.owner.clone()), |main| labels::owner_of(&main.object));
        let service = service.filter(|service| owner.is_some() && labels::owner_of(service) == owner);
        let mut found = main.is_some() || service.is_some() || !others.is_empty();

        // Foreground: the main object stays until its Pods have ended, and a launch meanwhile sees that it is terminating.
        if let Some(main) = &main {
            self.remove(main.kind.resource(), &main.object, Propagation::Foreground).await?;
        }
        if let Some(service) = &service {
            self.remove(&Resource::SERVICE, service, Propagation::Background).await?;
        }
        for (resource, object) in &others {
            self.remove(resource, object, Propagation::Background).await?;
        }

        let target = &self.op.target;
        let own = own_selector(&self.scheduler.owner, target);
        let selector = main.as_ref().map_or(own, |main| selector(&self.scheduler.owner, target, main));
        let list = |resource: &'static Resource, wanted: bool| {
            let selector = selector.clone();
            async move { if wanted { self.scheduler.list_of(resource, target, selector).await } else { Ok(Vec::new()) } }
        };
        // Of what is gone it is not known what stood between.
        let kind = main.as_ref().map(|main| main.kind);
        let sets = list(&Resource::REPLICA_SET, kind.is_none_or(|kind| kind == MainKind::Deployment));
        let jobs = list(&Resource::JOB, kind.is_none_or(|kind| kind == MainKind::CronJob));
        let templates = list(&Resource::CONTROLLER_REVISION, kind.is_none());
        let (sets, jobs, templates, pods) = try_join4(sets, jobs, templates, list(&Resource::POD, true)).await?;
        let between: Vec<(&Resource, &Value)> = sets
            .iter()
            .map(|set| (&Resource::REPLICA_SET, set))
            .chain(jobs.iter().map(|job| (&Resource::JOB, job)))
            .chain(templates.iter().map(|template| (&Resource::CONTROLLER_REVISION, template)))
            .collect();
        // Somebody deleted the main object alone (`kubectl delete --cascade=orphan`).
        for (resource, object) in &between {
            if observe::controller(object).is_none() && self.is_labelled(object) {
                found = true;
                self.remove(resource, object, Propagation::Foreground).await?;
            }
        }
        let uid = main.as_ref().map(Main::uid);
        let own = between.iter().filter(|(_, object)| uid.is_some() && observe::controller(object) == uid);
        // A foreground deletion waits for them, each of which may have finalizers.
        for (resource, job) in own.clone().filter(|(resource, _)| **resource == Resource::JOB) {
            self.remains(resource.kind, job);
        }
        let own: Vec<&str> = own.filter_map(|(_, object)| observe::uid_of(object)).chain(uid).collect();
        for pod in &pods {
            match observe::controller(pod) {
                Some(controller) if own.contains(&controller) || self.is_labelled(pod) => {
                    found = true;
                    self.remains("Pod", pod);
                }
                None if self.is_labelled(pod) && was_controlled(pod) => {
                    found = true;
                    self.remove(&Resource::POD, pod, Propagation::Background).await?;
                }
                // A bare Pod with our labels is nothing that a launch made.
                _ => {}
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
        let is_main = MainKind::ALL.iter().any(|kind| kind.resource() == resource);
        if matches!(self.op.guard, Guard::IfVersion(_)) && is_main {
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
        labels::is_of(object, &self.scheduler.owner, &self.op.target)
    }

    fn remains(&mut self, kind: &str, object: &Value) {
        let name = format!("{kind}/{}", text(object, "name"));
        let finalizers = object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str);
        // How a foreground deletion waits, and how a Job counts: both pass by themselves.
        const PASSING: &[&str] = &["foregroundDeletion", "batch.kubernetes.io/job-tracking"];
        for finalizer in finalizers.filter(|finalizer| !PASSING.contains(finalizer)) {
            self.blocked_by.push(format!("{name}: finalizer {finalizer}"));
        }
        self.remaining.push(name);
    }
}

/// Whether a controller made this Pod, although none has it now: a StatefulSet, a DaemonSet or a Job, which were deleted
/// without it.
fn was_controlled(pod: &Value) -> bool {
    let labels = &pod["metadata"]["labels"];
    ["controller-revision-hash", "batch.kubernetes.io/controller-uid"].iter().any(|label| labels[*label].is_string())
}
