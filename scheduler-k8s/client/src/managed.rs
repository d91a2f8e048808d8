//! Moving field claims between managers, which server-side apply by itself cannot do.

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use crate::apply::{Condition, by_condition};
use crate::client::Client;
use crate::error::{Error, Verb};
use crate::resource::{PathAndQuery, Resource};
use crate::transport::{Call, Payload};

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
        let operation = resource.operation(Verb::Patch, namespace, Some(name));
        let target = PathAndQuery::new(resource.path(&operation)?);
        let metadata = json!({"uid": uid, "resourceVersion": resource_version, "managedFields": managed_fields});
        let body = json!({ "metadata": metadata });
        let call = Call {
            operation: operation.clone(),
            resource: Some(*resource),
            method: Method::PATCH,
            target,
            body: Some(Payload { content_type: "application/merge-patch+json", bytes: Bytes::from(body.to_string()) }),
        };
        let condition = Condition::Unchanged { uid: uid.to_owned(), resource_version: resource_version.to_owned() };
        let answer =
            self.transport().exchange(call).await.map_err(|error| by_condition(error, &condition, resource))?;
        answer.json(&operation)
    }
}
