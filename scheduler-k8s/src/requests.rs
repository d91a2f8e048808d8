//! The requests of one operation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use scheduler_core::Error;
use scheduler_k8s_client::{
    self as client, Applied, Apply, Client, Delete, Deletion, Effect, Resource, Scale, SetScale,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

type Result<T> = std::result::Result<T, client::Error>;

/// The client as an operation uses it: it notes whether the operation may have changed something.
///
/// The client below is reached through here alone, and what writes is written out below, so that no write can be forgotten.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    client: Client,
    changed: Arc<AtomicBool>,
}

impl Requests {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, changed: Arc::default() }
    }

    /// For another operation, which has changed nothing so far.
    pub(crate) fn afresh(&self) -> Self {
        Self::new(self.client.clone())
    }

    /// The failure of the operation, which says that nothing took effect only if that is so.
    pub(crate) fn judge(&self, error: Error) -> Error {
        if self.changed.load(Ordering::Relaxed) { error.after_a_change() } else { error }
    }

    /// For what only reads.
    pub(crate) fn reads(&self) -> &Client {
        &self.client
    }

    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<T>> {
        self.client.get(resource, namespace, name).await
    }

    pub(crate) async fn list<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        options: &client::ListOptions,
    ) -> Result<client::List<T>> {
        self.client.list(resource, namespace, options).await
    }

    /// An apply that is a dry run counts as a change, too: no operation that changes anything begins with one.
    pub(crate) async fn apply(&self, apply: Apply<'_>) -> Result<Applied> {
        self.note(self.client.apply(apply).await)
    }

    pub(crate) async fn delete(&self, delete: Delete<'_>) -> Result<Deletion> {
        self.note(self.client.delete(delete).await)
    }

    pub(crate) async fn set_scale(&self, set: SetScale<'_>) -> Result<Scale> {
        self.note(self.client.set_scale(set).await)
    }

    pub(crate) async fn set_managed_fields(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
        managed_fields: Value,
        uid: &str,
        resource_version: &str,
    ) -> Result<Value> {
        let set = self.client.set_managed_fields(resource, namespace, name, managed_fields, uid, resource_version);
        self.note(set.await)
    }

    /// What was refused changed nothing.
    fn note<T>(&self, answer: Result<T>) -> Result<T> {
        if answer.as_ref().err().is_none_or(|error| error.effect() == Effect::Unknown) {
            self.changed.store(true, Ordering::Relaxed);
        }
        answer
    }
}
