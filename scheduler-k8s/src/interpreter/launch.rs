//! `launch`: by reading, decide; write what differs.

use scheduler_core::{
    BackendName, Change, CheckedWorkload, Conflict, Effect, Error, ErrorKind, Guard, Kind, Launch, Launched,
    ObjectAction, ObjectChange, OwnerId, Result,
};
use scheduler_k8s_client::{Apply, Condition, Delete, Propagation, Resource};
use serde_json::Value;

use super::{ATTEMPTS, KubernetesScheduler, Live, check_guard, exists, foreign, is_deleting, moved, text};
use crate::claims::{self, Extent};
use crate::error::{translate, translate_write};
use crate::render::{RenderContext, Rendered, render};
use crate::{MANAGER, compare, labels, observe};

pub(super) async fn launch(scheduler: &KubernetesScheduler, op: &Launch) -> Result<Launched> {
    scheduler.capabilities.require(&op.features())?;
    let workload = &*op.workload;
    // Refuses what cannot be rendered before anything is sent, and tells whether there is to be a Service.
    let has_service = render(workload, &scheduler.owner, &RenderContext::new(0))?.service.is_some();
    let live = scheduler.read(workload.target()).await?;
    check(op, &live, has_service, &scheduler.owner)?;
    let adopted_from = [live.deployment.as_ref(), live.service.as_ref().filter(|_| has_service)]
        .into_iter()
        .flatten()
        .find(|object| !scheduler.is_ours(object))
        .map(labels::owner_of);

    let mut writer = Writer { scheduler, workload, guard: &op.guard, warnings: warnings(workload) };
    let main = writer.deployment(live.deployment).await?;
    let service = writer.service(live.service, &main).await?;

    let change = match main.action {
        ObjectAction::Created => Change::Created,
        ObjectAction::Updated if main.rolling => Change::Updated(Effect::Rolling),
        ObjectAction::Updated => Change::Updated(Effect::InPlace),
        _ if service.is_some_and(|action| action != ObjectAction::Unchanged) => Change::Updated(Effect::InPlace),
        _ => Change::Unchanged,
    };
    let mut launched = Launched::new(change, workload.revision().clone(), observe::version(&main.object));
    let name = workload.target().name.as_str();
    launched.objects.push(ObjectChange::new("Deployment", name, main.action));
    launched.objects.extend(service.map(|action| ObjectChange::new("Service", name, action)));
    launched.adopted_from = adopted_from;
    launched.warnings = writer.warnings;
    Ok(launched)
}

/// Whether the launch may go on. Looks at all objects before the first is written, so that nothing is half made.
fn check(op: &Launch, live: &Live, has_service: bool, owner: &OwnerId) -> Result<()> {
    let service = live.service.as_ref().filter(|_| has_service);
    let terminating = [live.deployment.as_ref(), service].into_iter().flatten().find(|object| is_deleting(object));
    if let Some(object) = terminating.filter(|_| op.guard != Guard::IfAbsent) {
        let kind = object["kind"].as_str().unwrap_or("object");
        return Err(Error::new(ErrorKind::Conflict(Conflict::Deleting), format!("the {kind} of this name")));
    }
    check_guard(&op.guard, live.deployment.as_ref(), owner)?;
    // A Service of ours without a Deployment is what an earlier launch or delete left half done.
    match service.map(|service| (service, labels::owner_of(service))) {
        Some((service, found)) if found.as_ref() == Some(owner) => match op.guard {
            Guard::IfAbsent if is_deleting(service) => Err(exists("Service", found)),
            _ => Ok(()),
        },
        Some((_, found)) => match op.guard {
            Guard::Adopt => Ok(()),
            Guard::IfAbsent => Err(exists("Service", found)),
            _ => Err(foreign("Service", found)),
        },
        None => Ok(()),
    }
}

fn warnings(workload: &CheckedWorkload) -> Vec<String> {
    let backend = BackendName::kubernetes();
    let others = workload.extensions_for_others(&backend);
    others.map(|name| format!("extensions.{name} means nothing on {backend} and was left out")).collect()
}

/// An object after it was written, or found to be right.
struct Written {
    object: Value,
    action: ObjectAction,
    /// Whether its pod template is another one now.
    rolling: bool,
}

struct Writer<'a> {
    scheduler: &'a KubernetesScheduler,
    workload: &'a CheckedWorkload,
    guard: &'a Guard,
    warnings: Vec<String>,
}

impl Writer<'_> {
    /// Makes the Deployment be as rendered.
    async fn deployment(&mut self, mut live: Option<Value>) -> Result<Written> {
        let mut attempt = 1;
        loop {
            let rendered = self.render(live.as_ref())?.deployment;
            let error = match self.write(&Resource::DEPLOYMENT, &rendered, live.as_ref()).await {
                Err(error) if attempt < ATTEMPTS && lost_a_race(&error) => error,
                done => return done,
            };
            let now = self.scheduler.get(&Resource::DEPLOYMENT, self.workload.target()).await?;
            if now.as_ref().is_some_and(is_deleting) && *self.guard != Guard::IfAbsent {
                return Err(Error::new(ErrorKind::Conflict(Conflict::Deleting), error.message()));
            }
            check_guard(self.guard, now.as_ref(), &self.scheduler.owner)?;
            // Where nothing was, the guard alone decides. What was there is compared with what is: only status updates may
            // have come between.
            if live.is_some() && live.as_ref().map(observe::version) != now.as_ref().map(observe::version) {
                return Err(moved(now.as_ref(), error.message()));
            }
            live = now;
            attempt += 1;
        }
    }

    /// Makes the Service be as rendered, or not be there.
    async fn service(&mut self, mut live: Option<Value>, main: &Written) -> Result<Option<ObjectAction>> {
        let Some(rendered) = self.render(Some(&main.object))?.service_of(text(&main.object, "uid")) else {
            return match live {
                Some(surplus) if self.is_surplus(&surplus) => self.remove_service(&surplus).await.map(Some),
                _ => Ok(None),
            };
        };
        let mut attempt = 1;
        loop {
            let error = match self.write(&Resource::SERVICE, &rendered, live.as_ref()).await {
                Err(error) if attempt < ATTEMPTS && lost_a_race(&error) => error,
                done => return done.map(|written| Some(written.action)),
            };
            live = self.scheduler.get(&Resource::SERVICE, self.workload.target()).await?;
            match &live {
                Some(now) if is_deleting(now) => {
                    return Err(Error::new(ErrorKind::Conflict(Conflict::Deleting), error.message()));
                }
                Some(now) if !self.scheduler.is_ours(now) && *self.guard != Guard::Adopt => {
                    return Err(foreign("Service", labels::owner_of(now)));
                }
                _ => attempt += 1,
            }
        }
    }

    fn render(&self, live: Option<&Value>) -> Result<Rendered> {
        let replicas = live.and_then(|live| u32::try_from(live["spec"]["replicas"].as_u64()?).ok());
        let wanted = match &self.workload.kind {
            Kind::Service(service) => service.replicas.resolve(replicas),
            // Rendering refuses it.
            _ => 0,
        };
        let mut context = RenderContext::new(wanted);
        if let Some(live) = live {
            context = context.selector(live["spec"]["selector"].clone());
        }
        render(self.workload, &self.scheduler.owner, &context)
    }

    /// Makes one object be as rendered, if it is still as it was read.
    async fn write(&mut self, resource: &Resource, rendered: &Value, live: Option<&Value>) -> Result<Written> {
        let Some(before) = live else {
            let object = self.apply(resource, rendered, Condition::Absent).await?;
            return Ok(Written { object, action: ObjectAction::Created, rolling: false });
        };
        let ours = self.scheduler.is_ours(before);
        if ours && compare::drift(rendered, before).is_empty() && !claims::claims_surplus(rendered, before) {
            return Ok(Written { object: before.clone(), action: ObjectAction::Unchanged, rolling: false });
        }
        let uid = text(before, "uid").to_owned();
        let extent = if ours { Extent::ListItems } else { Extent::All };
        let mut base = before.clone();
        if let Some(claimed) = claims::take_over(rendered, before, extent) {
            let target = self.workload.target();
            let (namespace, name) = (Some(target.namespace.as_str()), target.name.as_str());
            let (client, version) = (&self.scheduler.client, text(before, "resourceVersion"));
            let moved = client.set_managed_fields(resource, namespace, name, claimed, &uid, version).await;
            base = moved.map_err(|error| translate_write(&error, self.workload, resource.kind))?;
            // Told at once: the apply after it may have to be repeated, and then nothing is left to see of it.
            self.tell_lost(resource, before, &base);
        }
        let resource_version = text(&base, "resourceVersion").to_owned();
        let object = self.apply(resource, rendered, Condition::Unchanged { uid, resource_version }).await?;
        self.tell_lost(resource, &base, &object);
        let same = text(before, "resourceVersion") == text(&object, "resourceVersion");
        Ok(Written {
            // Something between us and the store may undo what we set, each time: then nothing was changed.
            action: if same { ObjectAction::Unchanged } else { ObjectAction::Updated },
            rolling: before["spec"]["template"] != object["spec"]["template"],
            object,
        })
    }

    fn tell_lost(&mut self, resource: &Resource, before: &Value, after: &Value) {
        for manager in claims::lost(before, after) {
            let warning = format!("took over fields of the {} from {manager}", resource.kind);
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
    }

    async fn apply(&mut self, resource: &Resource, rendered: &Value, condition: Condition) -> Result<Value> {
        let target = self.workload.target();
        let (namespace, name) = (Some(target.namespace.as_str()), target.name.as_str());
        let apply = Apply::new(resource, namespace, name, rendered.clone(), MANAGER, condition).force();
        let applied = self.scheduler.client.apply(apply).await;
        let applied = applied.map_err(|error| translate_write(&error, self.workload, resource.kind))?;
        self.warnings.extend(applied.warnings);
        Ok(applied.object)
    }

    /// Whether a Service that is not rendered is one that a launch of this workload made.
    fn is_surplus(&self, service: &Value) -> bool {
        let of = service["metadata"]["labels"][labels::TARGET].as_str();
        self.scheduler.is_ours(service) && of == Some(self.workload.target().name.as_str()) && !is_deleting(service)
    }

    async fn remove_service(&mut self, surplus: &Value) -> Result<ObjectAction> {
        let target = self.workload.target();
        let (namespace, name) = (Some(target.namespace.as_str()), target.name.as_str());
        let delete = Delete::new(&Resource::SERVICE, namespace, name, Propagation::Background);
        let done = self.scheduler.client.delete(delete.uid(text(surplus, "uid"))).await;
        let done = done.map_err(|error| translate(&error))?;
        self.warnings.extend(done.warnings);
        Ok(ObjectAction::Deleted)
    }
}

/// Whether an object was not as it was read any more.
pub(super) fn lost_a_race(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Conflict(Conflict::Moved { .. } | Conflict::Absent))
}
