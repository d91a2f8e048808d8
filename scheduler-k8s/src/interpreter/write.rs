//! Writing one object: only what differs, only if it is still as it was read.

use scheduler_core::{CheckedWorkload, ObjectAction, Result};
use scheduler_k8s_client::{Apply, Condition, Delete, Propagation, Resource};
use serde_json::Value;

use super::{KubernetesScheduler, text};
use crate::claims::{self, Extent};
use crate::error::{translate, translate_write};
use crate::{MANAGER, compare};

/// An object after it was written, or found to be right.
pub(crate) struct Written {
    pub(crate) object: Value,
    pub(crate) action: ObjectAction,
}

/// Writes objects of one namespace, and gathers what the server has to say.
pub(crate) struct Writer<'a> {
    pub(crate) scheduler: &'a KubernetesScheduler,
    pub(crate) namespace: &'a str,
    /// The workload whose fields a refusal names.
    pub(crate) workload: Option<&'a CheckedWorkload>,
    pub(crate) warnings: Vec<String>,
}

impl Writer<'_> {
    /// Makes one object be as rendered, if it is still as it was read.
    pub(crate) async fn write(
        &mut self,
        resource: &Resource,
        rendered: &Value,
        live: Option<&Value>,
    ) -> Result<Written> {
        let Some(before) = live else {
            let object = self.apply(resource, rendered, Condition::Absent).await?;
            return Ok(Written { object, action: ObjectAction::Created });
        };
        let ours = self.scheduler.is_ours(before);
        if ours && is_as_rendered(rendered, before) {
            return Ok(Written { object: before.clone(), action: ObjectAction::Unchanged });
        }
        let uid = text(before, "uid").to_owned();
        let extent = if ours { Extent::ListItems } else { Extent::All };
        let mut base = before.clone();
        if let Some(claimed) = claims::take_over(rendered, before, extent) {
            let (client, version) = (&self.scheduler.client, text(before, "resourceVersion"));
            let name = text(rendered, "name");
            let moved = client.set_managed_fields(resource, Some(self.namespace), name, claimed, &uid, version).await;
            base = moved.map_err(|error| translate_write(&error, self.workload, resource.kind))?;
            // Told at once: the apply after it may have to be repeated, and then nothing is left to see of it.
            self.tell_lost(resource, before, &base);
        }
        let resource_version = text(&base, "resourceVersion").to_owned();
        let object = self.apply(resource, rendered, Condition::Unchanged { uid, resource_version }).await?;
        self.tell_lost(resource, &base, &object);
        // Something between us and the store may undo what we set, each time: then nothing was changed.
        let same = text(before, "resourceVersion") == text(&object, "resourceVersion");
        Ok(Written { action: if same { ObjectAction::Unchanged } else { ObjectAction::Updated }, object })
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
        let (namespace, name) = (Some(self.namespace), text(rendered, "name"));
        let apply = Apply::new(resource, namespace, name, rendered.clone(), MANAGER, condition).force();
        let applied = self.scheduler.client.apply(apply).await;
        let applied = applied.map_err(|error| translate_write(&error, self.workload, resource.kind))?;
        self.warnings.extend(applied.warnings);
        Ok(applied.object)
    }

    /// Deletes an object that nothing depends on, if it is still this one.
    pub(crate) async fn remove(&mut self, resource: &Resource, object: &Value) -> Result<ObjectAction> {
        let delete = Delete::new(resource, Some(self.namespace), text(object, "name"), Propagation::Background);
        self.delete(delete.uid(text(object, "uid"))).await
    }

    /// The same, if it is also as it was read.
    pub(super) async fn remove_as_read(&mut self, resource: &Resource, object: &Value) -> Result<ObjectAction> {
        let delete = Delete::new(resource, Some(self.namespace), text(object, "name"), Propagation::Background);
        self.delete(delete.uid(text(object, "uid")).resource_version(text(object, "resourceVersion"))).await
    }

    async fn delete(&mut self, delete: Delete<'_>) -> Result<ObjectAction> {
        let done = self.scheduler.client.delete(delete).await.map_err(|error| translate(&error))?;
        self.warnings.extend(done.warnings);
        Ok(ObjectAction::Deleted)
    }
}

/// Whether an object of ours has all that is rendered, and nothing that was and is not any more.
pub(super) fn is_as_rendered(rendered: &Value, live: &Value) -> bool {
    compare::drift(rendered, live).is_empty() && claims::surplus(rendered, live).is_empty()
}

/// A patch of an object by one of the managers beside the launching one, if it is still as it was read.
pub(crate) async fn mark(
    scheduler: &KubernetesScheduler,
    resource: &Resource,
    object: &Value,
    manager: &str,
    body: Value,
) -> Result<(Value, Vec<String>)> {
    let (uid, resource_version) = (text(object, "uid").to_owned(), text(object, "resourceVersion").to_owned());
    let (namespace, name) = (Some(text(object, "namespace")), text(object, "name"));
    let condition = Condition::Unchanged { uid, resource_version };
    let apply = Apply::new(resource, namespace, name, body, manager, condition).force();
    let applied = scheduler.client.apply(apply).await.map_err(|error| translate(&error))?;
    Ok((applied.object, applied.warnings))
}
