//! Guarded server-side apply.

use std::fmt;

use bytes::Bytes;
use http::Method;
use serde_json::{Map, Value};

use crate::client::Client;
use crate::error::{Effect, Error, ErrorKind, Missing, Operation, Verb};
use crate::resource::{PathAndQuery, Resource};
use crate::transport::{Call, Payload};

/// The server's limit (`validateManager` in its apimachinery's `meta/v1/validation`).
const MAX_MANAGER: usize = 128;

/// What must hold for an apply to take effect.
///
/// Server-side apply by itself creates what is absent and changes what belongs to somebody else, so there is no
/// unguarded form: read, decide, then say here what was read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Condition {
    /// No object of this name exists. Otherwise [`ErrorKind::AlreadyExists`].
    ///
    /// Sent as `resourceVersion: "1"`, which no stored object has: the server creates what is absent (an apply ignores
    /// the version then) and answers 409 for what is there.
    Absent,
    /// The object is still the one that was read. Otherwise [`ErrorKind::Conflict`].
    ///
    /// Both parts are needed: a version alone would create anew what was deleted meanwhile, a uid alone would not
    /// notice a change.
    Unchanged {
        /// `metadata.uid` as read.
        uid: String,
        /// `metadata.resourceVersion` as read.
        resource_version: String,
    },
}

impl Condition {
    pub(crate) fn check(&self, operation: &Operation) -> Result<(), Error> {
        match self {
            Self::Unchanged { uid, resource_version } if uid.is_empty() || resource_version.is_empty() => {
                let why = "the condition's uid or resource version is empty and would guard nothing";
                Err(Error::new(ErrorKind::InvalidRequest, Effect::NotSent, operation.clone(), why))
            }
            _ => Ok(()),
        }
    }
}

/// An apply to be sent by [`Client::apply`].
///
/// # Marks beside a manifest
///
/// What one field manager applies, its next apply removes if it is left out. Something that has to outlive the next apply
/// of a manifest (a restart's annotation on a pod template, a mark of another program) is therefore applied by a manager
/// of its own, with nothing else in the body:
///
/// ```
/// use scheduler_k8s_client::{Apply, Condition, Resource};
/// use serde_json::json;
///
/// let read = Condition::Unchanged { uid: "0f34…".to_owned(), resource_version: "271".to_owned() };
/// let mark = json!({"spec": {"template": {"metadata": {"annotations": {"example.com/restarted": "2026-11-30"}}}}});
/// let apply = Apply::new(&Resource::DEPLOYMENT, Some("shop"), "web", mark, "my-program-restart", read);
/// ```
#[derive(Clone)]
pub struct Apply<'a> {
    resource: &'a Resource,
    namespace: Option<&'a str>,
    name: &'a str,
    body: Value,
    field_manager: &'a str,
    condition: Condition,
    force: bool,
    dry_run: bool,
}

impl<'a> Apply<'a> {
    /// Applies `body`: the fields that `field_manager` wants to own, and nothing else.
    ///
    /// `apiVersion`, `kind`, `metadata.name` and `metadata.namespace` may be left out. A field that this manager applied
    /// before and that is missing now is removed.
    #[must_use]
    pub fn new(
        resource: &'a Resource,
        namespace: Option<&'a str>,
        name: &'a str,
        body: Value,
        field_manager: &'a str,
        condition: Condition,
    ) -> Self {
        Self { resource, namespace, name, body, field_manager, condition, force: false, dry_run: false }
    }

    /// Takes fields over from other managers. Without it such fields are [`ErrorKind::Conflict`], with
    /// [`Error::conflicting_managers`].
    #[must_use]
    pub fn force(mut self) -> Self {
        self.force = true;
        self
    }

    /// Lets the server check, default and answer everything, and store nothing.
    #[must_use]
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// The request body: the caller's, completed and guarded.
    fn complete(&self, operation: &Operation) -> Result<Value, Error> {
        let refuse = |why: String| Error::new(ErrorKind::InvalidRequest, Effect::NotSent, operation.clone(), why);
        if self.field_manager.is_empty() || self.field_manager.len() > MAX_MANAGER {
            return Err(refuse(format!("a field manager's name has 1 to {MAX_MANAGER} bytes")));
        }
        let Value::Object(mut body) = self.body.clone() else {
            return Err(refuse("the body is no JSON object".to_owned()));
        };
        if body.contains_key("status") {
            return Err(refuse("the body has a status, which belongs to the server".to_owned()));
        }
        if let Some(path) = path_of_null(&body) {
            return Err(refuse(format!("{path} is null; leave it out, or apply would own it as empty")));
        }
        complete(&mut body, "apiVersion", &self.resource.api_version()).map_err(refuse)?;
        complete(&mut body, "kind", self.resource.kind).map_err(refuse)?;
        let metadata = body.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        let Value::Object(metadata) = metadata else {
            return Err(refuse("metadata is no JSON object".to_owned()));
        };
        for field in ["managedFields", "uid", "resourceVersion", "creationTimestamp", "generation", "generateName"] {
            if metadata.contains_key(field) {
                return Err(refuse(format!("metadata.{field} is the server's, or said by the condition")));
            }
        }
        complete(metadata, "name", self.name).map_err(refuse)?;
        if let Some(namespace) = self.namespace {
            complete(metadata, "namespace", namespace).map_err(refuse)?;
        }
        self.condition.check(operation)?;
        let version = match &self.condition {
            Condition::Absent => "1",
            Condition::Unchanged { uid, resource_version } => {
                metadata.insert("uid".to_owned(), Value::String(uid.clone()));
                resource_version
            }
        };
        metadata.insert("resourceVersion".to_owned(), Value::String(version.to_owned()));
        Ok(Value::Object(body))
    }
}

impl fmt::Debug for Apply<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Apply")
            .field("resource", &self.resource.qualified_name())
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .field("field_manager", &self.field_manager)
            .field("condition", &self.condition)
            .field("force", &self.force)
            .field("dry_run", &self.dry_run)
            .finish_non_exhaustive()
    }
}

/// What an apply did.
#[derive(Clone)]
#[non_exhaustive]
pub struct Applied {
    /// The object as stored, or as it would be.
    pub object: Value,
    /// Whether it was made anew (the server answered 201).
    pub created: bool,
    /// What the server warned of, such as deprecated fields.
    pub warnings: Vec<String>,
}

impl fmt::Debug for Applied {
    /// Without the object, which may be a Secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Applied")
            .field("created", &self.created)
            .field("warnings", &self.warnings)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Applies an object under a condition. Cost: one request, `PATCH` with `fieldValidation=Strict`.
    ///
    /// Idempotent in what it leaves behind: repeated after an unknown outcome, it is refused by its own condition if the
    /// first one took effect with a change. An apply that changes nothing leaves `resourceVersion` as it is.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::InvalidRequest`], nothing sent: a body with `status`, nulls or fields of the server's, or one that
    ///   contradicts the arguments.
    /// - [`ErrorKind::AlreadyExists`] and [`ErrorKind::Conflict`] when the condition does not hold; the latter also for
    ///   fields of other managers, and then [`Error::conflicting_managers`] is not empty.
    /// - [`ErrorKind::BadRequest`] for fields that the kind does not have, [`ErrorKind::Invalid`] for values.
    /// - `NotFound(Missing::Namespace)` if the namespace is missing.
    /// - what the request met otherwise.
    pub async fn apply(&self, apply: Apply<'_>) -> Result<Applied, Error> {
        let operation = apply.resource.operation(Verb::Patch, apply.namespace, Some(apply.name));
        let mut target = PathAndQuery::new(apply.resource.path(&operation)?);
        let body = apply.complete(&operation)?;
        target.push("fieldManager", apply.field_manager);
        target.push("fieldValidation", "Strict");
        if apply.force {
            target.push("force", "true");
        }
        if apply.dry_run {
            target.push("dryRun", "All");
        }
        let call = Call {
            operation: operation.clone(),
            resource: Some(*apply.resource),
            method: Method::PATCH,
            target,
            // JSON is YAML; this is the type that every server since 1.22 takes.
            body: Some(Payload { content_type: "application/apply-patch+yaml", bytes: Bytes::from(body.to_string()) }),
        };
        let answer = self
            .transport()
            .exchange(call)
            .await
            .map_err(|error| by_condition(error, &apply.condition, apply.resource))?;
        Ok(Applied { object: answer.json(&operation)?, created: answer.status == 201, warnings: answer.warnings })
    }
}

/// Gives a refusal the meaning that our condition lends it.
pub(crate) fn by_condition(error: Error, condition: &Condition, resource: &Resource) -> Error {
    let about_this = error.refusal().about.as_ref().is_none_or(|(kind, _)| resource.is_called(kind));
    match (condition, error.kind()) {
        // Any conflict over this object says that it is there. (A quota's conflict is about the quota.)
        (Condition::Absent, ErrorKind::Conflict) if about_this => {
            error.with_kind(ErrorKind::AlreadyExists).with_note("; an object of this name is there already")
        }
        (Condition::Unchanged { .. }, ErrorKind::Invalid)
            if error.causes().iter().any(|cause| cause.field == "metadata.uid") =>
        {
            error.with_kind(ErrorKind::Conflict)
        }
        // A merge patch of what is gone; an apply is answered 409 then.
        (Condition::Unchanged { .. }, ErrorKind::NotFound(Missing::Object)) => error.with_kind(ErrorKind::Conflict),
        _ => error,
    }
}

/// Sets a field that may be missing, and refuses one that says something else.
fn complete(object: &mut Map<String, Value>, field: &str, value: &str) -> Result<(), String> {
    match object.get(field) {
        None => {
            object.insert(field.to_owned(), Value::String(value.to_owned()));
            Ok(())
        }
        Some(Value::String(there)) if there == value => Ok(()),
        Some(_) => Err(format!("the body's {field} is not {value:?}")),
    }
}

/// The path of the first null, like `spec.ports[0].nodePort`.
fn path_of_null(object: &Map<String, Value>) -> Option<String> {
    fn search(value: &Value, path: &str) -> Option<String> {
        match value {
            Value::Null => Some(path.to_owned()),
            Value::Array(items) => {
                items.iter().enumerate().find_map(|(index, item)| search(item, &format!("{path}[{index}]")))
            }
            Value::Object(fields) => fields.iter().find_map(|(name, field)| search(field, &format!("{path}.{name}"))),
            _ => None,
        }
    }
    object.iter().find_map(|(name, field)| search(field, name))
}
