//! Conditional merge patches: the writes that server-side apply cannot express.

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use crate::apply::{Condition, by_condition};
use crate::client::Client;
use crate::error::{Error, Operation, Verb};
use crate::resource::{PathAndQuery, Resource};
use crate::transport::{Answer, Call, Payload};

/// One merge patch, to an object or to a subresource of it.
pub(crate) struct Merge<'a> {
    pub(crate) operation: &'a Operation,
    pub(crate) resource: &'a Resource,
    pub(crate) target: PathAndQuery,
    /// Without `metadata.uid` and `metadata.resourceVersion`, which the condition adds.
    pub(crate) body: Value,
    pub(crate) uid: &'a str,
    pub(crate) resource_version: &'a str,
}

impl Client {
    /// Replaces `metadata.managedFields` of an object that is still as it was read, and nothing else. Answers the object
    /// as stored. Cost: one request, a merge `PATCH`.
    ///
    /// An apply removes a field that its manager leaves out only if no other manager claims it. What somebody made by
    /// POST, or set by an update, therefore stays for ever, and a list item that two managers claim can block an update.
    /// With the claims moved to one's own manager first, the next apply removes them. (client-go calls the same a
    /// migration from client-side to server-side apply.)
    ///
    /// Idempotent: repeated after an unknown outcome it is refused by its own condition if it took effect.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Conflict`](crate::ErrorKind::Conflict) if the object is another one, has changed, or is gone.
    /// - what the request met otherwise.
    pub async fn set_managed_fields(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
        managed_fields: Value,
        uid: &str,
        resource_version: &str,
    ) -> Result<Value, Error> {
        let operation = &resource.operation(Verb::Patch, namespace, Some(name));
        let target = PathAndQuery::new(resource.path(operation)?);
        let body = json!({"metadata": {"managedFields": managed_fields}});
        self.merge(Merge { operation, resource, target, body, uid, resource_version }).await?.json(operation)
    }

    /// Sends a merge patch that takes effect only on the object that was read.
    pub(crate) async fn merge(&self, merge: Merge<'_>) -> Result<Answer, Error> {
        let Merge { operation, resource, target, mut body, uid, resource_version } = merge;
        let condition = Condition::Unchanged { uid: uid.to_owned(), resource_version: resource_version.to_owned() };
        condition.check(operation)?;
        body["metadata"]["uid"] = uid.into();
        body["metadata"]["resourceVersion"] = resource_version.into();
        let call = Call {
            operation: operation.clone(),
            resource: Some(*resource),
            method: Method::PATCH,
            target,
            body: Some(Payload { content_type: "application/merge-patch+json", bytes: Bytes::from(body.to_string()) }),
        };
        self.transport().exchange(call).await.map_err(|error| by_condition(error, &condition, resource))
    }
}
