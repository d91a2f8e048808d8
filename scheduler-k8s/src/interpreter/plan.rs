//! `plan`: what a launch would do, tried by the server and stored nowhere.

use scheduler_core::{
    BackendName, Change, Effect, Error, FieldAction, FieldChange, Guard, ObjectAction, ObjectChange, Plan, PlanToken,
    Planned, Result,
};
use scheduler_k8s_client::{Apply, Condition, Resource};
use serde_json::Value;

use super::find::lost_a_race;
use super::launch::{check, is_surplus, must_replace, render_for, warnings};
use super::write::is_as_rendered;
use super::{ATTEMPTS, KubernetesScheduler, history, text};
use crate::claims::{self, Extent};
use crate::error::translate_write;
use crate::kind::MainKind;
use crate::{MANAGER, compare};

pub(super) async fn plan(scheduler: &KubernetesScheduler, op: &Plan) -> Result<Planned> {
    scheduler.capabilities.require(&op.features())?;
    if matches!(op.guard, Guard::IfPlan(_)) {
        return Err(Error::invalid_argument("IfPlan is for a launch"));
    }
    let mut attempt = 1;
    loop {
        match look(scheduler, op).await {
            // The server says so, and not the guard.
            Err(error) if attempt < ATTEMPTS && lost_a_race(&error) && error.native().is_some() => attempt += 1,
            done => return done,
        }
    }
}

/// One look, and what would follow from it.
async fn look(scheduler: &KubernetesScheduler, op: &Plan) -> Result<Planned> {
    let workload = &*op.workload;
    let kind = MainKind::of(workload)?;
    let has_service = render_for(scheduler, workload, None)?.service.is_some();
    let live = scheduler.read(kind, workload.target()).await?;
    check(&op.guard, &live, has_service, &scheduler.owner)?;
    let versions = live.versions();
    let token = PlanToken::new(&BackendName::kubernetes(), workload, &versions);
    let name = workload.target().name.as_str();

    let before = live.main.as_ref().map(|main| &main.object);
    let rendered = render_for(scheduler, workload, before)?;
    if let Some(main) = &live.main
        && let Some(why) = must_replace(workload, &rendered, main)
    {
        let mut planned = Planned::new(Change::Updated(Effect::Replaced), token);
        planned.objects.push(ObjectChange::new(main.kind.as_str(), name, ObjectAction::Updated));
        planned.warnings = warnings(workload);
        planned.warnings.push(why);
        return Ok(planned);
    }

    let mut trial = Trial { scheduler, op, objects: Vec::new(), fields: Vec::new(), warnings: warnings(workload) };
    let (action, after) = trial.object(kind.resource(), &rendered.main, before).await?;
    let rolls = trial.fields.iter().any(|field| field.effect == Some(Effect::Rolling));
    let mut change = match action {
        ObjectAction::Created => Change::Created,
        ObjectAction::Updated if rolls => Change::Updated(Effect::Rolling),
        ObjectAction::Updated => Change::Updated(Effect::InPlace),
        _ => Change::Unchanged,
    };
    let service = match rendered.service_of(text(&after, "uid")) {
        Some(service) => Some(trial.object(&Resource::SERVICE, &service, live.service.as_ref()).await?.0),
        None => live.service.filter(|service| is_surplus(scheduler, workload, service)).map(|_| {
            trial.objects.push(ObjectChange::new("Service", name, ObjectAction::Deleted));
            ObjectAction::Deleted
        }),
    };
    let kept = match history::is_kept(&live.history, workload) {
        true => ObjectAction::Unchanged,
        false if live.history.is_empty() => ObjectAction::Created,
        false => ObjectAction::Updated,
    };
    trial.objects.push(ObjectChange::new(history::ALL, name, kept));
    let mut others = service.into_iter().chain([kept]);
    if change == Change::Unchanged && others.any(|action| action != ObjectAction::Unchanged) {
        change = Change::Updated(Effect::InPlace);
    }
    let mut planned = Planned::new(change, token);
    planned.objects = trial.objects;
    planned.fields = trial.fields;
    planned.warnings = trial.warnings;
    Ok(planned)
}

struct Trial<'a> {
    scheduler: &'a KubernetesScheduler,
    op: &'a Plan,
    objects: Vec<ObjectChange>,
    fields: Vec<FieldChange>,
    warnings: Vec<String>,
}

impl Trial<'_> {
    /// What would happen to one object, and how it would be then.
    async fn object(
        &mut self,
        resource: &Resource,
        rendered: &Value,
        live: Option<&Value>,
    ) -> Result<(ObjectAction, Value)> {
        let (mut action, after) = self.try_out(resource, rendered, live).await?;
        if let (ObjectAction::Updated, Some(live)) = (action, live) {
            if is_same(live, &after) {
                action = ObjectAction::Unchanged;
            } else {
                self.tell(resource, rendered, live);
            }
        }
        self.objects.push(ObjectChange::new(resource.kind, text(rendered, "name"), action));
        Ok((action, after))
    }

    async fn try_out(
        &mut self,
        resource: &Resource,
        rendered: &Value,
        live: Option<&Value>,
    ) -> Result<(ObjectAction, Value)> {
        let (action, condition) = match live {
            None => (ObjectAction::Created, Condition::Absent),
            Some(live) => {
                let ours = self.scheduler.is_ours(live);
                if ours && is_as_rendered(rendered, live) {
                    return Ok((ObjectAction::Unchanged, live.clone()));
                }
                let extent = if ours { Extent::ListItems } else { Extent::All };
                if claims::take_over(rendered, live, extent).is_some() {
                    // It begins with a write of what others claim, and how the rest would end without that says nothing.
                    return Ok((ObjectAction::Updated, rendered.clone()));
                }
                let (uid, resource_version) = (text(live, "uid").to_owned(), text(live, "resourceVersion").to_owned());
                (ObjectAction::Updated, Condition::Unchanged { uid, resource_version })
            }
        };
        let (namespace, name) = (Some(text(rendered, "namespace")), text(rendered, "name"));
        let apply = Apply::new(resource, namespace, name, rendered.clone(), MANAGER, condition).force().dry_run();
        let applied = self.scheduler.client.apply(apply).await;
        let applied = applied.map_err(|error| translate_write(&error, Some(&self.op.workload), resource.kind))?;
        self.warnings.extend(applied.warnings);
        Ok((action, applied.object))
    }

    /// Tells the fields, and never a value.
    fn tell(&mut self, resource: &Resource, rendered: &Value, live: &Value) {
        let object = format!("{}/{}", resource.kind, text(rendered, "name"));
        let drift = compare::drift(rendered, live).into_iter();
        let drift = drift.map(|drift| {
            let action = if drift.missing { FieldAction::Added } else { FieldAction::Changed };
            (drift.path, action)
        });
        let surplus = claims::surplus(rendered, live).into_iter().map(|path| (path, FieldAction::Removed));
        for (path, action) in drift.chain(surplus) {
            let rolls = path.starts_with("spec.template.");
            let mut field = FieldChange::new(&object, path, action);
            field.effect = Some(if rolls { Effect::Rolling } else { Effect::InPlace });
            self.fields.push(field);
        }
    }
}

/// Whether a write would leave the object as it is: something between us and the store may undo what we set, each time.
fn is_same(live: &Value, after: &Value) -> bool {
    let parts = ["/spec", "/metadata/labels", "/metadata/annotations", "/metadata/ownerReferences"];
    parts.iter().all(|part| live.pointer(part) == after.pointer(part))
}
