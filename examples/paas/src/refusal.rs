//! Why the platform does not do what it was asked for, as an answer for a person and for a program.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use lifecycle_hooks::deliver;
use lifecycle_hooks::outbox::OutboxError;
use lifecycle_hooks::pipeline::StoreError;
use scheduler_core::{Error, ErrorKind, Fault};
use serde_json::json;

/// What was wrong, where, and what to do.
#[derive(Debug)]
pub struct Refusal {
    pub kind: RefusalKind,
    pub message: String,
    /// The single faults, each with the path of its field.
    pub faults: Vec<Fault>,
    /// What to do about it.
    pub hint: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// The request cannot be read, or says what cannot be.
    Invalid,
    NotFound,
    /// It does not fit the state that the app, or another one, is in.
    Conflict,
    /// The backend could not be asked. Nothing was changed.
    Unavailable,
    /// The platform's own fault.
    Internal,
}

impl Refusal {
    pub fn new(kind: RefusalKind, message: impl Into<String>, hint: &'static str) -> Self {
        Self { kind, message: message.into(), faults: Vec::new(), hint }
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(RefusalKind::NotFound, message, "GET /apps tells what there is")
    }

    pub fn conflict(message: impl Into<String>, hint: &'static str) -> Self {
        Self::new(RefusalKind::Conflict, message, hint)
    }

    pub fn invalid(message: impl Into<String>, faults: Vec<Fault>) -> Self {
        Self { faults, ..Self::new(RefusalKind::Invalid, message, "mend what is named and send it again") }
    }

    /// One fault of the request.
    pub fn fault(path: &str, problem: impl Into<String>) -> Self {
        Self::invalid("the request has a fault", vec![Fault::new(path, problem)])
    }

    fn status(&self) -> StatusCode {
        match self.kind {
            RefusalKind::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
            RefusalKind::NotFound => StatusCode::NOT_FOUND,
            RefusalKind::Conflict => StatusCode::CONFLICT,
            RefusalKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            RefusalKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let word = match self.kind {
            RefusalKind::Invalid => "invalid",
            RefusalKind::NotFound => "not_found",
            RefusalKind::Conflict => "conflict",
            RefusalKind::Unavailable => "unavailable",
            RefusalKind::Internal => "internal",
        };
        let mut body = json!({ "error": word, "message": self.message, "hint": self.hint });
        if !self.faults.is_empty() {
            body["faults"] = json!(self.faults);
        }
        (self.status(), Json(body)).into_response()
    }
}

impl From<sqlx::Error> for Refusal {
    fn from(error: sqlx::Error) -> Self {
        Self::new(RefusalKind::Internal, format!("database: {error}"), "nothing was changed; try again")
    }
}

impl From<OutboxError> for Refusal {
    fn from(error: OutboxError) -> Self {
        Self::new(RefusalKind::Internal, error.to_string(), "nothing was changed; try again")
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::new(RefusalKind::Internal, error.to_string(), "nothing was changed; try again")
    }
}

/// What hooks have against a change: all of it, or that one could not judge.
impl From<deliver::Refusal> for Refusal {
    fn from(refusal: deliver::Refusal) -> Self {
        match refusal {
            deliver::Refusal::Vetoed(vetoes) => {
                Self::invalid("it would not work", vetoes.into_iter().flat_map(|veto| veto.faults).collect())
            }
            unknown => Self::new(RefusalKind::Unavailable, unknown.to_string(), "try again when the backend answers"),
        }
    }
}

/// An operation's error, when the backend was only asked.
impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let (kind, hint) = match error.kind() {
            ErrorKind::InvalidArgument => (RefusalKind::Invalid, "mend what is named and send it again"),
            ErrorKind::NotFound(_) => (RefusalKind::NotFound, "it is not there yet, or no more"),
            _ => (RefusalKind::Unavailable, "try again when the backend answers"),
        };
        Self { faults: error.causes().to_vec(), ..Self::new(kind, error.to_string(), hint) }
    }
}
