//! The one error type: what was tried, on what, what the server said, what to do.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::transport::Meta;

/// What failed. The details are on [`Error`].
///
/// Nomad has few codes: most refusals are a 500 with a sentence. One table in this crate knows the sentences; nobody else
/// should look at them. Where a sentence is unknown the kind is [`ServerError`](Self::ServerError).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The connection cannot be set up as configured: an unreadable file, a bad certificate, time limits that contradict
    /// each other.
    Configuration,
    /// The arguments are refused here; nothing was sent.
    InvalidRequest,
    /// No connection could be made: refused, no route, name not resolved, connect time-out.
    Unreachable,
    /// The TLS handshake failed, or one side speaks TLS and the other does not.
    Tls,
    /// The server does not know who we are (401, an expired token), or refuses our client certificate.
    ///
    /// Servers from 1.10.1 on answer an unknown token like an insufficient one, so it is mostly
    /// [`Forbidden`](Self::Forbidden).
    Unauthenticated,
    /// The token is missing, unknown, or not sufficient (403).
    Forbidden,
    /// The server's configuration forbids it to everybody: registrations are off, access control is off.
    Disabled,
    /// Something is not there; [`Missing`] says what.
    NotFound(Missing),
    /// Something of this name is there already, although it should not be.
    AlreadyExists,
    /// It moved since it was read: a check index, version or check-and-set does not hold. Of a variable it may also mean
    /// that it went.
    Conflict,
    /// What is there is not in a state that allows it, such as a deployment that is over.
    Precondition,
    /// A deployment runs, and the server scales no job meanwhile.
    DeploymentActive,
    /// The server refuses the content: a job that is not valid, a parameter that it cannot read.
    Invalid,
    /// The server does not have this route, method or feature: it is too old, of another edition, or no Nomad.
    Unsupported,
    /// Too many connections from our address (429). See [`Error::retry_after`].
    TooManyRequests,
    /// No answer within the time limit, ours or a proxy's.
    Timeout,
    /// The cluster has no leader, a node is away, or the server or something before it fails (502, 503).
    Unavailable,
    /// A 500 that says what this crate does not know. It may be a fault of the request or of the server.
    ServerError,
    /// The connection broke after the request was handed over.
    Interrupted,
    /// An event stream that was accepted and then says nothing: this is how servers from 1.11.2 on refuse one. A proxy
    /// that holds the stream back looks the same. [`Client::events`](crate::Client::events) says what to do instead.
    StreamRefused,
    /// The answer is not what the API says: HTML, truncated JSON, another shape, too long, no HTTP.
    MalformedAnswer,
    /// Any other code, a redirect among them.
    Unexpected,
}

/// What is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Missing {
    /// What the request names.
    Object,
    /// The namespace of the job.
    Namespace,
    /// The region.
    Region,
    /// The time zone of a periodic job: there is none of this name, or the server lacks the zones' data
    /// (hashicorp/nomad#10978).
    TimeZone,
    /// Something else, which the server's message names, or which it does not name at all.
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

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// Setting up the connection.
    Connect,
    /// Reading one object.
    Read,
    /// Reading many objects.
    List,
    /// Following events.
    Watch,
    /// Asking what a registration would do.
    Plan,
    /// Making or replacing a job.
    Register,
    /// Stopping or purging a job.
    Deregister,
    /// Changing how many instances run.
    Scale,
    /// Registering an earlier version of a job again.
    Revert,
    /// Running the scheduler over a job.
    Evaluate,
    /// Running a job of the clock now.
    Force,
    /// Running a parameterized job.
    Dispatch,
    /// Letting canaries take over.
    Promote,
    /// Ending a deployment without success.
    Fail,
    /// Holding a deployment.
    Pause,
    /// Letting a deployment that is held go on.
    Resume,
    /// Replacing an instance.
    Stop,
    /// Starting the tasks of an instance again.
    Restart,
    /// Sending a signal to the tasks of an instance.
    Signal,
    /// Making or replacing something else.
    Write,
    /// Removing something else.
    Delete,
}

impl Verb {
    /// Whether it changes something, so that its failure may leave an unknown [`Effect`].
    #[must_use]
    pub fn changes(self) -> bool {
        !matches!(self, Self::Connect | Self::Read | Self::List | Self::Watch | Self::Plan)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connect",
            Self::Read => "read",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Plan => "plan",
            Self::Register => "register",
            Self::Deregister => "deregister",
            Self::Scale => "scale",
            Self::Revert => "revert",
            Self::Evaluate => "evaluate",
            Self::Force => "force",
            Self::Dispatch => "dispatch",
            Self::Promote => "promote",
            Self::Fail => "fail",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Stop => "stop",
            Self::Restart => "restart",
            Self::Signal => "signal",
            Self::Write => "write",
            Self::Delete => "delete",
        })
    }
}

/// What was tried, on what. Displays like `register job shop/web` or `list allocations of job shop/web`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Operation {
    /// The verb.
    pub verb: Verb,
    /// The kind of thing, such as `job` or `allocations of job`; for `connect` the server.
    pub resource: String,
    /// The namespace, `*` for all; `None` for what lives in none.
    pub namespace: Option<String>,
    /// The ID or name; `None` for lists and streams.
    pub name: Option<String>,
}

impl Operation {
    pub(crate) fn new(verb: Verb, resource: &str, namespace: Option<&str>, name: Option<&str>) -> Self {
        Self {
            verb,
            resource: resource.to_owned(),
            namespace: namespace.map(str::to_owned),
            name: name.map(str::to_owned),
        }
    }
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
/// Holds no token and no request or response body; of an answer only a plain sentence is kept. Clones share the source.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    effect: Effect,
    operation: Operation,
    detail: String,
    status: Option<u16>,
    message: Option<String>,
    retry_after: Option<Duration>,
    meta: Meta,
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
            message: None,
            retry_after: None,
            meta: Meta::default(),
            source: None,
        }))
    }

    pub(crate) fn with_answer(mut self, status: u16, meta: Meta, retry_after: Option<Duration>) -> Self {
        self.0.status = Some(status);
        self.0.meta = meta;
        self.0.retry_after = retry_after;
        self
    }

    pub(crate) fn with_message(mut self, message: Option<String>) -> Self {
        self.0.message = message;
        self
    }

    pub(crate) fn with_source(mut self, source: Arc<dyn std::error::Error + Send + Sync>) -> Self {
        self.0.source = Some(source);
        self
    }

    /// The headers of the answer. That something is absent has an index too.
    pub(crate) fn meta(&self) -> &Meta {
        &self.0.meta
    }

    /// What failed.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the request may have changed something. For reads and plans, which change nothing, it says only how far
    /// the request came.
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

    /// The server's own sentence, if it gave one. Answers that are JSON or HTML are left out, since they may hold values
    /// of the job.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        self.0.message.as_deref()
    }

    /// How long to wait, from `Retry-After` in seconds. Nomad itself never says; a proxy may.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// Whether the same request may succeed later although nobody changes anything: the network, a missing leader, too
    /// many connections. An unknown sentence counts for reads, but not for what changes something.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self.0.kind {
            ErrorKind::Unreachable
            | ErrorKind::TooManyRequests
            | ErrorKind::Timeout
            | ErrorKind::Unavailable
            | ErrorKind::Interrupted
            | ErrorKind::MalformedAnswer => true,
            ErrorKind::ServerError => !self.0.operation.verb.changes(),
            _ => false,
        }
    }

    fn advice(&self) -> Option<&'static str> {
        Some(match self.0.kind {
            ErrorKind::Unreachable => "check the server's address and the network",
            ErrorKind::Tls => "check the address, the certificate authority, the server's name and its certificate",
            ErrorKind::Unauthenticated => "check or renew the token",
            ErrorKind::Forbidden => "check that the token is valid and that its policies allow this",
            ErrorKind::NotFound(Missing::Namespace) => "create the namespace first",
            ErrorKind::NotFound(Missing::Region) => "check the region",
            ErrorKind::NotFound(Missing::TimeZone) => {
                "check the time zone's name, or install the zones' data on the servers"
            }
            ErrorKind::Conflict | ErrorKind::AlreadyExists => "read it again and decide anew",
            ErrorKind::DeploymentActive => "wait for the deployment to end, or register the job with the new count",
            ErrorKind::Unsupported => "check the address and the server's version",
            ErrorKind::TooManyRequests => "wait, and hold fewer connections open",
            ErrorKind::StreamRefused => "check that the token may read what is asked for, or poll instead",
            ErrorKind::Timeout
            | ErrorKind::Unavailable
            | ErrorKind::ServerError
            | ErrorKind::Interrupted
            | ErrorKind::MalformedAnswer
                if self.0.effect == Effect::Unknown && self.0.operation.verb.changes() =>
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
            .field("message", &self.0.message)
            .field("retry_after", &self.0.retry_after)
            .field("source", &self.0.source)
            .finish_non_exhaustive()
    }
}

impl std::error::Error for Error {
    /// The transport's own error, where there is one.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
