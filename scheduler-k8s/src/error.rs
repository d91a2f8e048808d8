//! What the client reports, in the terms of the algebra.

use scheduler_core::{CheckedWorkload, Conflict, Error, ErrorKind, Fault, Missing, NativeCode, Retry};
use scheduler_k8s_client as client;
use scheduler_k8s_client::{Effect, Verb};

use crate::fields;

/// Translates a failure. Decided by kind, effect and machine-readable reasons, never by words.
///
/// | the client says | here |
/// |---|---|
/// | `Configuration`, `InvalidRequest`, `Invalid` (422), `BadRequest` (400) | `InvalidArgument`, with the fields |
/// | `Unreachable`, `Tls`, `Closed`, `Gone` | `Unavailable` |
/// | `Timeout`, `Unavailable`, `Interrupted` | `OutcomeUnknown` for a write that may have taken effect, else `Unavailable` |
/// | `Unauthenticated` (401) | `Unauthenticated` |
/// | `Forbidden` (403) | `Forbidden`; `Conflict(Deleting)` when the namespace is terminating |
/// | `NotFound` (404) | `NotFound(Namespace)`, `NotFound(Interface)`, `Conflict(Absent)` for the object |
/// | `AlreadyExists`, `Conflict` (409) | `Conflict(Moved)` |
/// | `TooManyRequests` (429) | `RateLimited`, with the time to wait |
/// | anything else | `BadAnswer` |
pub(crate) fn translate(error: &client::Error) -> Error {
    use client::ErrorKind as Kind;
    let write = matches!(error.operation().verb, Verb::Patch | Verb::Delete);
    let unknown = write && error.effect() == Effect::Unknown;
    let terminating = error.causes().iter().any(|cause| cause.reason == "NamespaceTerminating");
    let kind = match error.kind() {
        Kind::Configuration | Kind::InvalidRequest | Kind::Invalid | Kind::BadRequest => ErrorKind::InvalidArgument,
        Kind::Unreachable | Kind::Tls | Kind::Closed | Kind::Gone => ErrorKind::Unavailable,
        Kind::Timeout | Kind::Unavailable | Kind::Interrupted if unknown => ErrorKind::OutcomeUnknown,
        Kind::Timeout | Kind::Unavailable | Kind::Interrupted => ErrorKind::Unavailable,
        Kind::Unauthenticated => ErrorKind::Unauthenticated,
        Kind::Forbidden if terminating => ErrorKind::Conflict(Conflict::Deleting),
        Kind::Forbidden => ErrorKind::Forbidden,
        Kind::NotFound(client::Missing::Namespace) => ErrorKind::NotFound(Missing::Namespace),
        Kind::NotFound(client::Missing::Path) => ErrorKind::NotFound(Missing::Interface),
        Kind::NotFound(client::Missing::Object) => ErrorKind::Conflict(Conflict::Absent),
        Kind::NotFound(_) => ErrorKind::Precondition,
        Kind::AlreadyExists | Kind::Conflict => ErrorKind::Conflict(Conflict::Moved { now: None }),
        Kind::TooManyRequests => ErrorKind::RateLimited,
        _ => ErrorKind::BadAnswer,
    };
    let mut translated = Error::new(kind, words(error));
    if let Some(status) = error.status() {
        translated = translated.with_native(NativeCode::new(Some(status), error.reason().map(str::to_owned)));
    }
    if let Some(after) = error.retry_after() {
        translated = translated.with_retry_after(after);
    }
    match error.kind() {
        // Nothing passes by itself here: a certificate, a runtime that is gone.
        Kind::Tls | Kind::Closed => translated.with_retry(Retry::Never),
        Kind::MalformedAnswer if unknown => translated.with_retry(Retry::AfterReread),
        Kind::MalformedAnswer => translated.with_retry(Retry::SameRequest),
        _ => translated,
    }
}

/// The same for a write of an object that was rendered from a workload: what the server objects to is named by our fields.
/// Without a workload the native fields are named.
pub(crate) fn translate_write(error: &client::Error, workload: Option<&CheckedWorkload>, object: &str) -> Error {
    let causes = error.causes().iter().filter(|cause| !cause.field.is_empty());
    let causes = causes.map(|cause| {
        let path = match workload {
            Some(workload) => fields::ours(workload, object, &cause.field),
            None => format!("{object}.{}", cause.field),
        };
        Fault::new(path, cause.message.as_str())
    });
    translate(error).with_causes(causes.collect())
}

/// What was tried on which object, and the server's words.
fn words(error: &client::Error) -> String {
    match error.message() {
        Some(message) => format!("{}: {message}", error.operation()),
        None => error.to_string(),
    }
}
