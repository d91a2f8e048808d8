//! What the client reports, in the terms of the algebra.

use scheduler_core::{Conflict, Error, ErrorKind, Missing, NativeCode, Retry};
use scheduler_nomad_client as client;
use scheduler_nomad_client::Effect;

/// Translates a failure. Decided by kind and effect; the client alone knows Nomad's sentences.
///
/// | the client says | here |
/// |---|---|
/// | `Configuration`, `InvalidRequest`, `Invalid` | `InvalidArgument` |
/// | `Unreachable`, `Tls` | `Unavailable` |
/// | `Timeout`, `Unavailable`, `ServerError`, `Interrupted` | `OutcomeUnknown` for a write that may have taken effect, else `Unavailable` |
/// | `Unauthenticated` | `Unauthenticated` |
/// | `Forbidden`, `Disabled`, `StreamRefused` | `Forbidden` |
/// | `NotFound` | `NotFound(Namespace)`; `Conflict(Absent)` for the job; `Unavailable` for the zones' data; `Precondition` for anything else |
/// | `Unsupported` | `NotFound(Interface)` |
/// | `AlreadyExists`, `Conflict` | `Conflict(Moved)` |
/// | `Precondition`, `DeploymentActive` | `Precondition` |
/// | `TooManyRequests` | `RateLimited`, with the time to wait |
/// | anything else | `BadAnswer` |
pub(crate) fn translate(error: &client::Error) -> Error {
    use client::ErrorKind as Kind;
    let unknown = error.operation().verb.changes() && error.effect() == Effect::Unknown;
    let kind = match error.kind() {
        Kind::Configuration | Kind::InvalidRequest | Kind::Invalid => ErrorKind::InvalidArgument,
        Kind::Unreachable | Kind::Tls => ErrorKind::Unavailable,
        Kind::Timeout | Kind::Unavailable | Kind::ServerError | Kind::Interrupted if unknown => {
            ErrorKind::OutcomeUnknown
        }
        Kind::Timeout | Kind::Unavailable | Kind::ServerError | Kind::Interrupted => ErrorKind::Unavailable,
        Kind::Unauthenticated => ErrorKind::Unauthenticated,
        Kind::Forbidden | Kind::Disabled | Kind::StreamRefused => ErrorKind::Forbidden,
        Kind::NotFound(client::Missing::Namespace) => ErrorKind::NotFound(Missing::Namespace),
        // The server's lack: a zone that is none was refused before.
        Kind::NotFound(client::Missing::TimeZone) => ErrorKind::Unavailable,
        Kind::NotFound(client::Missing::Object) => ErrorKind::Conflict(Conflict::Absent),
        Kind::NotFound(_) | Kind::Precondition | Kind::DeploymentActive => ErrorKind::Precondition,
        Kind::Unsupported => ErrorKind::NotFound(Missing::Interface),
        Kind::AlreadyExists | Kind::Conflict => ErrorKind::Conflict(Conflict::Moved { now: None }),
        Kind::TooManyRequests => ErrorKind::RateLimited,
        _ => ErrorKind::BadAnswer,
    };
    let words = match error.message() {
        Some(message) => format!("{}: {message}", error.operation()),
        None => error.to_string(),
    };
    let mut translated = Error::new(kind, words);
    if let Some(status) = error.status() {
        translated = translated.with_native(NativeCode::new(Some(status), None));
    }
    if let Some(after) = error.retry_after() {
        translated = translated.with_retry_after(after);
    }
    match error.kind() {
        // Neither a certificate nor a server without the data of time zones mends itself.
        Kind::Tls | Kind::NotFound(client::Missing::TimeZone) => translated.with_retry(Retry::Never),
        Kind::MalformedAnswer if unknown => translated.with_retry(Retry::AfterReread),
        Kind::MalformedAnswer => translated.with_retry(Retry::SameRequest),
        _ => translated,
    }
}

/// Whether a check index did not hold.
pub(crate) fn lost_a_race(error: &client::Error) -> bool {
    matches!(error.kind(), client::ErrorKind::AlreadyExists | client::ErrorKind::Conflict)
}
