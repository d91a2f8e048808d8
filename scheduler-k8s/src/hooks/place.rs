//! Reading and writing the objects around one app, and no others.

use scheduler_core::hooks::{App, HookError};
use scheduler_core::{BackendName, Conflict, Error, ErrorKind, Missing, ObjectAction};
use scheduler_k8s_client::{ListOptions, Resource};
use serde_json::Value;

use super::KubernetesHooks;
use crate::KubernetesScheduler;
use crate::error::translate;
use crate::interpreter::ATTEMPTS;
use crate::interpreter::find::{deleting, is_deleting, lost_a_race, named};
use crate::interpreter::write::Writer;
use crate::labels::{self, APP, OWNER};

pub(super) type Result<T> = std::result::Result<T, HookError>;

/// Where an app lives, for one hook.
pub(super) struct Place<'a> {
    pub(super) app: &'a App,
    /// What the set was built with.
    pub(super) hooks: &'a KubernetesHooks,
    /// The set's, for this hook alone: it notes whether anything was changed.
    pub(super) scheduler: KubernetesScheduler,
}

impl Place<'_> {
    fn namespace(&self) -> &str {
        self.app.namespace.as_str()
    }

    /// An object of the app's namespace, whoever's.
    pub(super) async fn get(&self, resource: &Resource, name: &str) -> Result<Option<Value>> {
        let namespace = resource.namespaced.then_some(self.namespace());
        self.scheduler.client.get(resource, namespace, name).await.map_err(|error| self.failed(translate(&error)))
    }

    /// The objects of the app's namespace, or those of them with these labels.
    pub(super) async fn list(&self, resource: &Resource, selector: Option<String>) -> Result<Vec<Value>> {
        let mut options = ListOptions::new();
        if let Some(selector) = selector {
            options = options.label_selector(selector);
        }
        let found = self.scheduler.client.list(resource, Some(self.namespace()), &options).await;
        found.map(|list| named(resource, list.items)).map_err(|error| self.failed(translate(&error)))
    }

    /// What all objects around the app have.
    pub(super) fn selector(&self) -> String {
        format!("{OWNER}={},{APP}={}", self.scheduler.owner(), self.app.name)
    }

    /// Whether an object is one of those around the app, and of ours.
    pub(super) fn is_own(&self, object: &Value) -> bool {
        self.scheduler.is_ours(object) && object["metadata"]["labels"][APP] == self.app.name.as_str()
    }

    fn refuse_foreign(&self, resource: &Resource, object: &Value) -> Result<()> {
        if self.is_own(object) {
            return Ok(());
        }
        let owner = labels::owner_of(object);
        let of = match object["metadata"]["labels"][APP].as_str() {
            Some(app) => format!(" of the app {app}"),
            None => String::new(),
        };
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let words = format!("there is a {} {}/{name}{of} that is not this app's", resource.kind, self.namespace());
        Err(self.failed(Error::new(ErrorKind::Conflict(Conflict::Owner { owner }), words)))
    }

    /// Makes an object be as rendered. Answers whether anything was written.
    pub(super) async fn ensure(&self, resource: &Resource, name: &str, rendered: &Value) -> Result<bool> {
        let live = self.get(resource, name).await?;
        self.settle(resource, name, live, |_| Some(rendered.clone())).await
    }

    /// Makes an object that was read be as is rendered from it. `None` leaves it as it is.
    pub(super) async fn settle(
        &self,
        resource: &Resource,
        name: &str,
        mut live: Option<Value>,
        render: impl Fn(Option<&Value>) -> Option<Value> + Send + Sync,
    ) -> Result<bool> {
        let (scheduler, namespace) = (&self.scheduler, self.namespace());
        let mut writer = Writer { scheduler, namespace, workload: None, warnings: Vec::new() };
        for attempt in 1.. {
            if let Some(found) = &live {
                self.refuse_foreign(resource, found)?;
                if is_deleting(found) {
                    break;
                }
            }
            let Some(rendered) = render(live.as_ref()) else { return Ok(false) };
            match writer.write(resource, &rendered, live.as_ref()).await {
                Err(error) if attempt < ATTEMPTS && lost_a_race(&error) => {}
                Ok(written) => return Ok(written.action != ObjectAction::Unchanged),
                Err(error) => return Err(self.failed(error)),
            }
            live = self.get(resource, name).await?;
        }
        Err(self.failed(deleting(resource.kind)))
    }

    /// Takes an object away, if it is there and is this app's. Answers whether this began it.
    pub(super) async fn remove(&self, resource: &Resource, name: &str) -> Result<bool> {
        let live = self.get(resource, name).await?;
        self.remove_all(resource, live.into_iter().collect()).await
    }

    /// The same for objects that were read.
    pub(super) async fn remove_all(&self, resource: &Resource, objects: Vec<Value>) -> Result<bool> {
        let (scheduler, namespace) = (&self.scheduler, self.namespace());
        let mut writer = Writer { scheduler, namespace, workload: None, warnings: Vec::new() };
        let mut removed = false;
        for object in objects.iter().filter(|object| self.is_own(object) && !is_deleting(object)) {
            match writer.remove(resource, object).await {
                Ok(_) => removed = true,
                // Another one of this name by now: what was to go is gone.
                Err(error) if lost_a_race(&error) => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(removed)
    }

    /// The failure of the hook.
    pub(super) fn failed(&self, error: Error) -> HookError {
        let error = self.scheduler.client.judge(error).with_backend(&BackendName::kubernetes());
        // The namespace is on its way, or on its way out: another hook or an operator sees to it.
        let passing =
            matches!(error.kind(), ErrorKind::NotFound(Missing::Namespace) | ErrorKind::Conflict(Conflict::Deleting));
        let mut failed = HookError::from(error);
        failed.retry |= passing;
        failed
    }
}
