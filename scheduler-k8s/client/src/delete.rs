//! Delete with preconditions.

use std::fmt;

use bytes::Bytes;
use http::Method;
use serde::Serialize;
use serde_json::Value;

use crate::client::Client;
use crate::error::{Effect, Error, ErrorKind, Missing, Verb};
use crate::resource::{PathAndQuery, Resource};
use crate::transport::{Call, Payload};

/// What happens to the objects that the deleted one owns.
///
/// There is no default: the server's differs by kind, and leaves the pods of a `batch/v1` Job behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[expect(clippy::exhaustive_enums, reason = "the API has these three")]
pub enum Propagation {
    /// They go first; the object stays, terminating, until they are gone.
    Foreground,
    /// The object goes at once; the garbage collector takes them later.
    Background,
    /// They stay.
    Orphan,
}

/// A delete to be sent by [`Client::delete`].
#[derive(Debug, Clone)]
pub struct Delete<'a> {
    resource: &'a Resource,
    namespace: Option<&'a str>,
    name: &'a str,
    propagation: Propagation,
    preconditions: Preconditions<'a>,
    grace_seconds: Option<u32>,
    dry_run: bool,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Preconditions<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeleteOptions<'a> {
    api_version: &'static str,
    kind: &'static str,
    propagation_policy: Propagation,
    preconditions: Preconditions<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grace_period_seconds: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dry_run: Option<[&'static str; 1]>,
}

impl<'a> Delete<'a> {
    /// Deletes one object.
    #[must_use]
    pub fn new(resource: &'a Resource, namespace: Option<&'a str>, name: &'a str, propagation: Propagation) -> Self {
        Self {
            resource,
            namespace,
            name,
            propagation,
            preconditions: Preconditions::default(),
            grace_seconds: None,
            dry_run: false,
        }
    }

    /// Only if it is still this object and not another of the same name.
    #[must_use]
    pub fn uid(mut self, uid: &'a str) -> Self {
        self.preconditions.uid = Some(uid);
        self
    }

    /// Only if nothing of it changed since it was read.
    #[must_use]
    pub fn resource_version(mut self, resource_version: &'a str) -> Self {
        self.preconditions.resource_version = Some(resource_version);
        self
    }

    /// Seconds that a pod has to end, instead of its own `terminationGracePeriodSeconds`. Zero removes it from the
    /// server's records at once, whether or not its processes still run.
    #[must_use]
    pub fn grace_seconds(mut self, seconds: u32) -> Self {
        self.grace_seconds = Some(seconds);
        self
    }

    /// Lets the server check everything and delete nothing.
    #[must_use]
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }
}

/// What a delete found and did.
#[derive(Clone)]
#[non_exhaustive]
pub enum Deleted {
    /// Deletion has begun and is not over: grace periods, finalizers, dependents. This is the terminating object.
    Started(Value),
    /// It is gone.
    Gone,
    /// There was none.
    WasAbsent,
}

impl fmt::Debug for Deleted {
    /// Without the object, which may be a Secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Started(_) => "Started",
            Self::Gone => "Gone",
            Self::WasAbsent => "WasAbsent",
        })
    }
}

/// A delete's outcome.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Deletion {
    /// How far it is.
    pub outcome: Deleted,
    /// What the server warned of.
    pub warnings: Vec<String>,
}

impl Client {
    /// Deletes one object. Cost: one request.
    ///
    /// Idempotent: repeated, it says how far the deletion is. It does not wait for the end.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Conflict`] if a precondition does not hold. (If there is no object at all, that is
    ///   [`Deleted::WasAbsent`], whatever was asked.)
    /// - what the request met otherwise. Only the server's word that this very object is absent counts as absent: no 404
    ///   of a path, no 403.
    pub async fn delete(&self, delete: Delete<'_>) -> Result<Deletion, Error> {
        let operation = delete.resource.operation(Verb::Delete, delete.namespace, Some(delete.name));
        let target = PathAndQuery::new(delete.resource.path(&operation)?);
        let options = DeleteOptions {
            api_version: "v1",
            kind: "DeleteOptions",
            propagation_policy: delete.propagation,
            preconditions: delete.preconditions,
            grace_period_seconds: delete.grace_seconds,
            dry_run: delete.dry_run.then_some(["All"]),
        };
        let bytes = serde_json::to_vec(&options).map_err(|_| {
            Error::new(ErrorKind::InvalidRequest, Effect::NotSent, operation.clone(), "cannot write the options")
        })?;
        let call = Call {
            operation: operation.clone(),
            resource: Some(*delete.resource),
            method: Method::DELETE,
            target,
            body: Some(Payload { content_type: "application/json", bytes: Bytes::from(bytes) }),
        };
        match self.transport().exchange(call).await {
            Ok(answer) => {
                let outcome = outcome(answer.json(&operation)?);
                Ok(Deletion { outcome, warnings: answer.warnings })
            }
            Err(error) if error.kind() == ErrorKind::NotFound(Missing::Object) => {
                Ok(Deletion { outcome: Deleted::WasAbsent, warnings: error.warnings().to_vec() })
            }
            Err(error) => Err(error),
        }
    }
}

/// The server answers with a `Status` for what is gone, or with the object. Some kinds are answered with the object
/// although it is gone: it is not marked as terminating then, or its grace is over and nothing holds it.
fn outcome(body: Value) -> Deleted {
    let metadata = &body["metadata"];
    let terminating = metadata["deletionTimestamp"].is_string();
    let held = metadata["finalizers"].as_array().is_some_and(|list| !list.is_empty());
    // A terminating namespace has no grace at all, and is not gone: its finalizers are in its spec.
    let over = metadata["deletionGracePeriodSeconds"] == 0 && !held;
    if terminating && !over { Deleted::Started(body) } else { Deleted::Gone }
}
