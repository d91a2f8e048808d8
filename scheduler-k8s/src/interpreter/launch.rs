//! `launch`: by reading, decide; write what differs.

use scheduler_core::{
    BackendName, Change, CheckedWorkload, Effect, Error, ErrorKind, Guard, Kind, Launch, Launched, ObjectAction,
    ObjectChange, OwnerId, Result,
};
use scheduler_k8s_client::Resource;
use serde_json::Value;

use super::find::{Live, Main, check_guard, deleting, exists, foreign, is_deleting, lost_a_race, moved};
use super::write::{Writer, Written};
use super::{ATTEMPTS, KubernetesScheduler, history, text};
use crate::kind::MainKind;
use crate::render::{RenderContext, Rendered, render};
use crate::{compare, labels, observe};

pub(super) async fn launch(scheduler: &KubernetesScheduler, op: &Launch) -> Result<Launched> {
    scheduler.capabilities.require(&op.features())?;
    let workload = &*op.workload;
    // Refuses what cannot be rendered before anything is sent, and tells whether there is to be a Service.
    let draft = render(workload, &scheduler.owner, &RenderContext::new(0))?;
    let planned = match &op.guard {
        Guard::IfPlan(token) if !token.is_for(&BackendName::kubernetes(), workload) => {
            return Err(Error::invalid_argument("the plan is for another workload, or for another backend"));
        }
        Guard::IfPlan(token) => Some(token),
        _ => None,
    };
    let live = scheduler.read(draft.kind, workload.target()).await?;
    check(&op.guard, &live, draft.service.is_some(), &scheduler.owner)?;
    if planned.is_some_and(|token| !token.holds(&BackendName::kubernetes(), workload, &live.versions())) {
        return Err(moved(live.main.as_ref(), "something has changed since the plan was made"));
    }
    if let Some(main) = &live.main
        && let Some(why) = must_replace(workload, &render_for(scheduler, workload, Some(&main.object))?, main)
    {
        return Err(Error::new(ErrorKind::MustReplace, why));
    }
    let adopted_from =
        [live.main.as_ref().map(|main| &main.object), live.service.as_ref().filter(|_| draft.service.is_some())]
            .into_iter()
            .flatten()
            .find(|object| !scheduler.is_ours(object))
            .map(labels::owner_of);

    let target = workload.target();
    let writer = Writer {
        scheduler,
        namespace: target.namespace.as_str(),
        workload: Some(workload),
        warnings: warnings(workload),
    };
    let mut launch = Launching { writer, workload, guard: &op.guard, kind: draft.kind };
    let (main, rolling) = launch.main(live.main).await?;
    let service = launch.service(live.service, &main).await?;
    let kept = history::keep(&mut launch.writer, workload, draft.kind, &main.object, live.history).await?;

    let others = service.into_iter().chain([kept]);
    let change = match main.action {
        ObjectAction::Created => Change::Created,
        ObjectAction::Updated if rolling => Change::Updated(Effect::Rolling),
        ObjectAction::Updated => Change::Updated(Effect::InPlace),
        _ if others.clone().any(|action| action != ObjectAction::Unchanged) => Change::Updated(Effect::InPlace),
        _ => Change::Unchanged,
    };
    let mut launched = Launched::new(change, workload.revision().clone(), observe::version(&main.object));
    let name = target.name.as_str();
    launched.objects.push(ObjectChange::new(draft.kind.as_str(), name, main.action));
    launched.objects.extend(service.map(|action| ObjectChange::new("Service", name, action)));
    launched.objects.push(ObjectChange::new(history::ALL, name, kept));
    launched.adopted_from = adopted_from;
    launched.warnings = launch.writer.warnings;
    Ok(launched)
}

/// Whether the launch may go on. Looks at all objects before the first is written, so that nothing is half made.
pub(super) fn check(guard: &Guard, live: &Live, has_service: bool, owner: &OwnerId) -> Result<()> {
    let service = live.service.as_ref().filter(|_| has_service);
    let main = live.main.as_ref().map(|main| (main.kind.as_str(), &main.object));
    let terminating = main.into_iter().chain(service.map(|service| ("Service", service)));
    if let Some((kind, _)) = terminating.clone().find(|(_, object)| is_deleting(object))
        && *guard != Guard::IfAbsent
    {
        return Err(deleting(kind));
    }
    check_guard(guard, live.main.as_ref(), owner)?;
    // A Service of ours without a main object is what an earlier launch or delete left half done.
    match service.map(|service| (service, labels::owner_of(service))) {
        Some((service, found)) if found.as_ref() == Some(owner) => match guard {
            Guard::IfAbsent if is_deleting(service) => Err(exists("Service", found)),
            _ => Ok(()),
        },
        Some((_, found)) => match guard {
            Guard::Adopt => Ok(()),
            Guard::IfAbsent => Err(exists("Service", found)),
            _ => Err(foreign("Service", found)),
        },
        None => Ok(()),
    }
}

/// Why what is there cannot become this workload.
pub(super) fn must_replace(workload: &CheckedWorkload, rendered: &Rendered, main: &Main) -> Option<String> {
    let (kind, live) = (main.kind, &main.object);
    if kind != rendered.kind {
        return Some(format!("it is a {} and would become a {}", kind.as_str(), rendered.kind.as_str()));
    }
    match kind {
        MainKind::Job => (live["metadata"]["annotations"][labels::REVISION] != workload.revision().as_str())
            .then(|| "a Job cannot become another one".to_owned()),
        MainKind::StatefulSet => {
            const FIXED: &[&str] = &["spec.volumeClaimTemplates", "spec.serviceName", "spec.podManagementPolicy"];
            let drift = compare::drift(&rendered.main, live);
            let field =
                drift.iter().map(|drift| &drift.path).find(|path| FIXED.iter().any(|fixed| path.starts_with(fixed)));
            let gone = rendered.main["spec"].get("volumeClaimTemplates").is_none()
                && live["spec"]["volumeClaimTemplates"].as_array().is_some_and(|claims| !claims.is_empty());
            match field {
                Some(field) => Some(format!("{field} of a StatefulSet cannot be changed")),
                None => gone.then(|| "the volumes of a StatefulSet cannot be taken away".to_owned()),
            }
        }
        MainKind::Deployment | MainKind::DaemonSet | MainKind::CronJob => None,
    }
}

/// Renders a workload for what is there of it.
pub(super) fn render_for(
    scheduler: &KubernetesScheduler,
    workload: &CheckedWorkload,
    live: Option<&Value>,
) -> Result<Rendered> {
    let replicas = live.and_then(|live| u32::try_from(live["spec"]["replicas"].as_u64()?).ok());
    let wanted = match &workload.kind {
        Kind::Service(service) => service.replicas.resolve(replicas),
        // Nothing else has a count.
        _ => 0,
    };
    let mut context = RenderContext::new(wanted);
    if let Some(live) = live {
        context = context.selector(live["spec"]["selector"].clone());
    }
    render(workload, &scheduler.owner, &context)
}

pub(super) fn warnings(workload: &CheckedWorkload) -> Vec<String> {
    let backend = BackendName::kubernetes();
    let others = workload.extensions_for_others(&backend);
    others.map(|name| format!("extensions.{name} means nothing on {backend} and was left out")).collect()
}

/// Whether instances are replaced when the main object becomes another one: if its pod template does.
pub(super) fn is_rolling(kind: MainKind, before: &Value, after: &Value) -> bool {
    let rolls = matches!(kind, MainKind::Deployment | MainKind::StatefulSet | MainKind::DaemonSet);
    rolls && kind.template(before) != kind.template(after)
}

/// Whether a Service that is not rendered is one that a launch of this workload made.
pub(super) fn is_surplus(scheduler: &KubernetesScheduler, workload: &CheckedWorkload, service: &Value) -> bool {
    labels::is_of(service, &scheduler.owner, workload.target()) && !is_deleting(service)
}

struct Launching<'a> {
    writer: Writer<'a>,
    workload: &'a CheckedWorkload,
    guard: &'a Guard,
    kind: MainKind,
}

impl Launching<'_> {
    /// Makes the main object be as rendered. Also tells whether its pod template is another one now.
    async fn main(&mut self, live: Option<Main>) -> Result<(Written, bool)> {
        let scheduler = self.writer.scheduler;
        let mut live = live.map(|main| main.object);
        let mut attempt = 1;
        loop {
            let rendered = render_for(scheduler, self.workload, live.as_ref())?.main;
            let error = match self.writer.write(self.kind.resource(), &rendered, live.as_ref()).await {
                Err(error) if attempt < ATTEMPTS && lost_a_race(&error) => error,
                Err(error) => return Err(error),
                Ok(written) => {
                    let rolling = live.is_some_and(|before| is_rolling(self.kind, &before, &written.object));
                    return Ok((written, rolling));
                }
            };
            let now = scheduler.get(self.kind.resource(), self.workload.target()).await?;
            let now = now.map(|object| Main { kind: self.kind, object });
            if now.as_ref().is_some_and(|now| is_deleting(&now.object)) && *self.guard != Guard::IfAbsent {
                return Err(Error::new(deleting(self.kind.as_str()).kind().clone(), error.message()));
            }
            check_guard(self.guard, now.as_ref(), &scheduler.owner)?;
            // Where nothing was, the guard alone decides. What was there is compared with what is: only status updates may
            // have come between.
            if live.is_some() && live.as_ref().map(observe::version) != now.as_ref().map(Main::version) {
                return Err(moved(now.as_ref(), error.message()));
            }
            live = now.map(|main| main.object);
            attempt += 1;
        }
    }

    /// Makes the Service be as rendered, or not be there.
    async fn service(&mut self, mut live: Option<Value>, main: &Written) -> Result<Option<ObjectAction>> {
        let scheduler = self.writer.scheduler;
        let rendered = render_for(scheduler, self.workload, Some(&main.object))?.service_of(text(&main.object, "uid"));
        let Some(rendered) = rendered else {
            return match live {
                Some(surplus) if is_surplus(scheduler, self.workload, &surplus) => {
                    self.writer.remove(&Resource::SERVICE, &surplus).await.map(Some)
                }
                _ => Ok(None),
            };
        };
        let mut attempt = 1;
        loop {
            let error = match self.writer.write(&Resource::SERVICE, &rendered, live.as_ref()).await {
                Err(error) if attempt < ATTEMPTS && lost_a_race(&error) => error,
                done => return done.map(|written| Some(written.action)),
            };
            live = scheduler.get(&Resource::SERVICE, self.workload.target()).await?;
            match &live {
                Some(now) if is_deleting(now) => {
                    return Err(Error::new(deleting("Service").kind().clone(), error.message()));
                }
                Some(now) if !scheduler.is_ours(now) && *self.guard != Guard::Adopt => {
                    return Err(foreign("Service", labels::owner_of(now)));
                }
                _ => attempt += 1,
            }
        }
    }
}
