//! The `Status` object by which a server refuses, and what it means.

use std::time::Duration;

use serde::Deserialize;

use crate::error::{Effect, ErrorKind, Missing, Operation, Verb};
use crate::resource::Resource;

/// One thing that the server objects to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldCause {
    /// The field's path as the server writes it, such as `spec.template.spec.containers[0].image`; with a dot in front
    /// where an apply conflicts. Empty if the server names none.
    pub field: String,
    /// The server's machine-readable reason, such as `FieldValueRequired` or `FieldManagerConflict`.
    pub reason: String,
    /// The server's words.
    pub message: String,
}

/// The parts of a `Status` that an error keeps.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refusal {
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) causes: Vec<FieldCause>,
    pub(crate) retry_after: Option<Duration>,
    /// Kind and name of the object that the server speaks of.
    pub(crate) about: Option<(String, String)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    kind: String,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    details: Option<Details>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Details {
    name: String,
    kind: String,
    causes: Option<Vec<Cause>>,
    retry_after_seconds: u64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Cause {
    field: String,
    reason: String,
    message: String,
}

impl Refusal {
    /// Reads a `Status`; `None` if the bytes are something else.
    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        serde_json::from_slice(body).ok().and_then(Self::from_status)
    }

    /// The same for what was read already.
    pub(crate) fn from_value(body: serde_json::Value) -> Option<Self> {
        serde_json::from_value(body).ok().and_then(Self::from_status)
    }

    fn from_status(status: Status) -> Option<Self> {
        if status.kind != "Status" {
            return None;
        }
        let details = status.details.unwrap_or_default();
        let causes = details.causes.unwrap_or_default();
        Some(Self {
            reason: status.reason.filter(|reason| !reason.is_empty()),
            message: status.message.filter(|message| !message.is_empty()),
            causes: causes
                .into_iter()
                .map(|Cause { field, reason, message }| FieldCause { field, reason, message })
                .collect(),
            retry_after: (details.retry_after_seconds > 0).then(|| Duration::from_secs(details.retry_after_seconds)),
            about: (!details.kind.is_empty()).then_some((details.kind, details.name)),
        })
    }

    pub(crate) fn conflicting_managers(&self) -> Vec<&str> {
        let mut managers = Vec::new();
        for cause in self.causes.iter().filter(|cause| cause.reason == "FieldManagerConflict") {
            if let Some(manager) = quoted_manager(&cause.message).filter(|manager| !managers.contains(manager)) {
                managers.push(manager);
            }
        }
        managers
    }
}

// The server says two things in words only. Everything that reads its words is below; other words are no error, they
// just yield less.

/// The manager in `conflict with "kubectl" with subresource "scale" using apps/v1`, whose name stands nowhere else
/// (`printManager` in its `managedfields/internal/conflict.go`).
fn quoted_manager(message: &str) -> Option<&str> {
    let rest = message.strip_prefix("conflict with \"")?;
    rest.split_once('"').map(|(manager, _)| manager)
}

/// Whether an apply failed because the body does not fit its kind: an unknown field, the same list key twice. The server
/// finds that before it stores anything, and answers 500 without a reason (`managedfields/internal/structuredmerge.go`).
fn is_untyped_patch(refusal: &Refusal) -> bool {
    let message = refusal.message.as_deref().unwrap_or_default();
    refusal.reason.is_none() && message.starts_with("failed to create typed patch object")
}

/// What a code and a reason together mean.
pub(crate) fn classify(
    code: u16,
    refusal: &Refusal,
    operation: &Operation,
    resource: Option<&Resource>,
) -> (ErrorKind, Effect) {
    let reason = refusal.reason.as_deref().unwrap_or_default();
    let kind = match code {
        400 => ErrorKind::BadRequest,
        401 => ErrorKind::Unauthenticated,
        403 => ErrorKind::Forbidden,
        404 => ErrorKind::NotFound(missing(reason, refusal, operation, resource)),
        408 | 504 => ErrorKind::Timeout,
        409 if reason == "AlreadyExists" => ErrorKind::AlreadyExists,
        409 => ErrorKind::Conflict,
        410 => ErrorKind::Gone,
        422 => ErrorKind::Invalid,
        429 => ErrorKind::TooManyRequests,
        500 if operation.verb == Verb::Patch && is_untyped_patch(refusal) => {
            return (ErrorKind::BadRequest, Effect::Refused);
        }
        500 if reason == "Timeout" || reason == "ServerTimeout" => ErrorKind::Timeout,
        500.. => ErrorKind::Unavailable,
        _ => ErrorKind::Unexpected,
    };
    // A 408 comes from a proxy, which does not know what the server did.
    let effect = if (400..500).contains(&code) && code != 408 { Effect::Refused } else { Effect::Unknown };
    (kind, effect)
}

/// Only a `Status` with reason `NotFound` that names an object proves that this object is absent. An unknown path is
/// answered in plain text, or by a `Status` that names nothing.
fn missing(reason: &str, refusal: &Refusal, operation: &Operation, resource: Option<&Resource>) -> Missing {
    match &refusal.about {
        Some((kind, name)) if reason == "NotFound" => {
            if resource.is_some_and(|resource| resource.is_called(kind)) && Some(name) == operation.name.as_ref() {
                Missing::Object
            } else if kind == "namespaces" && Some(name) == operation.namespace.as_ref() {
                Missing::Namespace
            } else {
                Missing::Other
            }
        }
        _ => Missing::Path,
    }
}
