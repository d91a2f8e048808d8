//! The one error type: what was tried, on what, what the server said, what to do.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::status::{FieldCause, Refusal};

/// What failed. The details are on [`Error`].
///
/// A kind is decided from the HTTP code and the machine-readable `reason`, never from a message. Where the two
/// disagree, the reading that claims less wins: a 403 with reason `NotFound` is [`Forbidden`](Self::Forbidden).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The connection cannot be set up as configured: a missing context, an unreadable file, a bad certificate.
    Configuration,
    /// The arguments are refused here; nothing was sent.
    InvalidRequest,
    /// No connection could be made: refused, no route, name not resolved, connect time-out.
    Unreachable,
    /// The TLS handshake failed: the server's certificate is expired, of an unknown authority, or for another name.
    Tls,
    /// The server does not know who we are (401), refuses our client certificate, or no token could be had.
    Unauthenticated,
    /// The server knows us and says no (403): access rules, a quota, an admission hook. A namespace that is being
    /// deleted is this too, with a [cause](Error::causes) whose reason is `NamespaceTerminating`.
    Forbidden,
    /// Something is not there (404); [`Missing`] says what.
    NotFound(Missing),
    /// An object of this name is there already (409).
    AlreadyExists,
    /// The object moved or is another one, or fields belong to another manager (409; for a guarded apply also 422 on
    /// `metadata.uid`).
    Conflict,
    /// The resource version or continue token is too old (410).
    Gone,
    /// The server refuses the object's content (422); see [`Error::causes`].
    Invalid,
    /// The server cannot read the request (400). An applied field that the kind does not have is this too, although the
    /// server says 500 then.
    BadRequest,
    /// The server asks to slow down (429); see [`Error::retry_after`].
    TooManyRequests,
    /// No answer within the time limit, ours or the server's (504, and 408).
    Timeout,
    /// The server or something before it fails (any other 5xx).
    Unavailable,
    /// The connection broke after the request was handed over.
    Interrupted,
    /// The answer is not what the API says: HTML, truncated JSON, another shape, too long.
    MalformedAnswer,
    /// The client's tasks ended, usually because the runtime that it was made on is gone.
    Closed,
    /// Any other code, a redirect among them.
    Unexpected,
}

/// What a 404 is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Missing {
    /// The object that the request names.
    Object,
    /// The namespace of the object.
    Namespace,
    /// The path: the server does not have this kind of resource, or what answered is no API server.
    Path,
    /// Something else, which the server's message names.
    Other,
}

/// Whether a failed request may have changed something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Effect {
    /// The request never left.
    NotSent,
    /// The server answered that it did nothing.
    Refused,
    /// It may have taken effect. Read the object before acting again.
    Unknown,
}

/// What a request does. Displays as the verb that role-based access control knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// Setting up the connection.
    Connect,
    /// Reading one object.
    Get,
    /// Reading many objects.
    List,
    /// Following changes.
    Watch,
    /// Server-side apply, and other partial writes.
    Patch,
    /// Deleting.
    Delete,
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connect",
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Patch => "patch",
            Self::Delete => "delete",
        })
    }
}

/// What was tried, on what. Displays like `patch deployments.apps shop/web`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Operation {
    /// The verb.
    pub verb: Verb,
    /// The resource as access rules name it (`deployments.apps`, `pods/log`), a path (`/version`), or the server for
    /// `connect`.
    pub resource: String,
    /// The namespace; `None` for cluster-scoped objects and for all namespaces.
    pub namespace: Option<String>,
    /// The object's name; `None` for lists and watches.
    pub name: Option<String>,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        match (&self.namespace, &self.name) {
            (Some(namespace), Some(name)) => write!(f, " {namespace}/{name}"),
            (None, Some(name)) => write!(f, " {name}"),
            (Some(namespace), None) => write!(f, " in {namespace}"),
            (None, None) => Ok(()),
        }
    }
}

/// A failed operation.
///
/// Holds no token and no request or response body; of an answer only `Status` fields are kept. Clones share the source.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    effect: Effect,
    operation: Operation,
    detail: String,
    status: Option<u16>,
    refusal: Refusal,
    retry_after: Option<Duration>,
    warnings: Vec<String>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, effect: Effect, operation: Operation, detail: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            effect,
            operation,
            detail: detail.into(),
            status: None,
            refusal: Refusal::default(),
            retry_after: None,
            warnings: Vec::new(),
            source: None,
        }))
    }

    pub(crate) fn with_answer(mut self, status: u16, retry_after: Option<Duration>, warnings: Vec<String>) -> Self {
        self.0.status = Some(status);
        self.0.retry_after = retry_after;
        self.0.warnings = warnings;
        self
    }

    pub(crate) fn with_refusal(mut self, refusal: Refusal) -> Self {
        self.0.refusal = refusal;
        self
    }

    pub(crate) fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.0.source = Some(Arc::new(source));
        self
    }

    pub(crate) fn with_kind(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self
    }

    pub(crate) fn with_note(mut self, note: &str) -> Self {
        self.0.detail.push_str(note);
        self
    }

    pub(crate) fn refusal(&self) -> &Refusal {
        &self.0.refusal
    }

    /// What failed.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the request may have changed something. For reads and dry runs, which change nothing, it says only how
    /// far the request came.
    #[must_use]
    pub fn effect(&self) -> Effect {
        self.0.effect
    }

    /// What was tried, on what.
    #[must_use]
    pub fn operation(&self) -> &Operation {
        &self.0.operation
    }

    /// The HTTP code of the answer, if there was one.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// The server's machine-readable reason (`NotFound`, `Conflict`, `Invalid` …), if it gave one.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.0.refusal.reason.as_deref()
    }

    /// The server's own words (`Status.message`), if it gave any.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        self.0.refusal.message.as_deref()
    }

    /// What the server objects to, field by field.
    #[must_use]
    pub fn causes(&self) -> &[FieldCause] {
        &self.0.refusal.causes
    }

    /// How long the server asks to wait, from `Retry-After` (seconds or a date) or the `Status`.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after.or(self.0.refusal.retry_after)
    }

    /// The managers that own the fields which an apply without `force` wanted, without repetition.
    #[must_use]
    pub fn conflicting_managers(&self) -> Vec<&str> {
        self.0.refusal.conflicting_managers()
    }

    /// What the server warned of beside refusing.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.0.warnings
    }

    /// Whether the same request may succeed later although nobody changes anything: the network, an overloaded or
    /// restarting server. For a write see also [`effect`](Self::effect).
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(
            self.0.kind,
            ErrorKind::Unreachable
                | ErrorKind::TooManyRequests
                | ErrorKind::Timeout
                | ErrorKind::Unavailable
                | ErrorKind::Interrupted
                | ErrorKind::MalformedAnswer
                | ErrorKind::Gone
        )
    }

    fn advice(&self) -> Option<&'static str> {
        Some(match self.0.kind {
            ErrorKind::Unreachable => "check the server's address and the network",
            ErrorKind::Tls => "check the certificate authority, the server's name and its certificate",
            ErrorKind::Unauthenticated => "check or renew the credentials",
            ErrorKind::NotFound(Missing::Namespace) => "create the namespace first",
            ErrorKind::NotFound(Missing::Path) => {
                "check that the address is that of an API server which has this resource"
            }
            ErrorKind::Conflict => "read the object again and decide anew",
            ErrorKind::Gone => "list again",
            ErrorKind::TooManyRequests => "wait, then repeat",
            ErrorKind::Closed => "make one client per runtime",
            ErrorKind::Timeout | ErrorKind::Unavailable | ErrorKind::Interrupted | ErrorKind::MalformedAnswer
                if self.0.effect == Effect::Unknown && matches!(self.0.operation.verb, Verb::Patch | Verb::Delete) =>
            {
                "it may have taken effect: read the object before repeating"
            }
            _ => return None,
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.operation, self.0.detail)?;
        if let Some(message) = self.message() {
            write!(f, ": {message}")?;
        }
        if let Some(wait) = self.retry_after() {
            write!(f, "; asked to wait {} s", wait.as_secs())?;
        }
        if let Some(advice) = self.advice() {
            write!(f, " ({advice})")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("effect", &self.0.effect)
            .field("operation", &self.0.operation)
            .field("detail", &self.0.detail)
            .field("status", &self.0.status)
            .field("refusal", &self.0.refusal)
            .field("retry_after", &self.0.retry_after)
            .field("warnings", &self.0.warnings)
            .field("source", &self.0.source)
            .finish()
    }
}

impl std::error::Error for Error {
    /// The transport's own error, where there is one. Errors of configuration have none, since those may quote a file
    /// that holds secrets.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
