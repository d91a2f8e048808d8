//! The one error of all operations: what was attempted, on what, what the server said, and what to do next.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::capability::Feature;
use crate::name::{BackendName, OwnerId, Target};
use crate::op::OpName;
use crate::version::Version;
use crate::workload::{Fault, Faults};

/// A result of an operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation did not do what it was asked for.
///
/// It is data: it survives serde, so that it can be stored and sent. Decide by [`kind`](Self::kind) and
/// [`retry`](Self::retry), never by its text. It holds no secrets and no bodies of requests or answers.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Error {
    parts: Box<Parts>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Parts {
    kind: ErrorKind,
    retry: Retry,
    fault: FaultOf,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    op: Option<OpName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target: Option<Target>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    backend: Option<BackendName>,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    native: Option<NativeCode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    causes: Vec<Fault>,
}

/// What kind of failure it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// Something is there, where nothing should be.
    AlreadyExists {
        /// Whose it is, if it says so.
        owner: Option<OwnerId>,
    },
    /// The answer was not what the server's protocol allows (an HTML page of a proxy, say).
    BadAnswer,
    /// The world is not as the operation supposed.
    Conflict(Conflict),
    /// The credentials are good, and do not allow this.
    Forbidden,
    /// A defect in this library or a backend; please report it.
    Internal,
    /// The operation itself is wrong; the causes name the fields.
    InvalidArgument,
    /// The change cannot be made to what is there: it must be deleted and made again. See
    /// [`launch_or_replace`](crate::SchedulerExt::launch_or_replace).
    MustReplace,
    /// The namespace, which launch never makes, does not exist; or the server has no such interface.
    NotFound(Missing),
    /// It may have taken effect, as a whole or in part: a request was sent and no answer came, or one of several failed
    /// after another had changed something.
    OutcomeUnknown,
    /// Something that must come first has not.
    Precondition,
    /// The namespace or the cluster has no room left for it by rule.
    QuotaExceeded,
    /// Too many requests; see [`Error::retry_after`]. Nothing has taken effect.
    RateLimited,
    /// The operation's own time limit passed. It may have taken effect.
    TimeLimit,
    /// The credentials are missing, wrong or expired.
    Unauthenticated,
    /// The server could not be reached or could not answer. Nothing has taken effect: of an operation of several requests,
    /// none before the one that failed has changed anything.
    Unavailable,
    /// This backend cannot do it.
    Unsupported(Option<Feature>),
}

/// What is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Missing {
    /// The namespace.
    Namespace,
    /// The instance.
    Instance,
    /// The interface at the server: wrong address, wrong version, a proxy in between.
    Interface,
}

/// How the world differs from what the operation supposed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Conflict {
    /// It is somebody else's.
    Owner {
        /// Whose, if it says so.
        owner: Option<OwnerId>,
    },
    /// It is being deleted; wait until it is gone.
    Deleting,
    /// It has changed since.
    Moved {
        /// Its version now.
        now: Option<Version>,
    },
    /// It is not there.
    Absent,
    /// Another workload has this host and path already.
    RouteTaken {
        /// Which one, as the platform names it.
        by: String,
    },
}

/// Whether, and how, the same operation may be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "a retry loop must know all of them")]
pub enum Retry {
    /// It would fail again.
    Never,
    /// The very same request may be sent again.
    SameRequest,
    /// Read the state first, then decide anew.
    AfterReread,
}

/// Whose fault it is, that is: who can mend it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FaultOf {
    /// The caller: the operation, its arguments, its assumptions.
    Caller,
    /// The workload: its image, its configuration, its needs.
    Workload,
    /// The platform: servers, network, credentials, capacity.
    Platform,
}

/// What the backend's own protocol said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NativeCode {
    /// The HTTP status.
    pub status: Option<u16>,
    /// The protocol's own word for it (`Forbidden`, `Conflict`).
    pub reason: Option<String>,
}

impl NativeCode {
    /// A status and a reason.
    pub fn new(status: Option<u16>, reason: Option<String>) -> Self {
        Self { status, reason }
    }
}

impl Error {
    /// An error of this kind, with what was found in words. Retry and fault follow from the kind until they are set.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let (retry, fault) = kind.defaults();
        Self {
            parts: Box::new(Parts {
                kind,
                retry,
                fault,
                op: None,
                target: None,
                backend: None,
                message: message.into(),
                native: None,
                retry_after_ms: None,
                causes: Vec::new(),
            }),
        }
    }

    /// The operation is not one that this backend has.
    pub fn unsupported(op: OpName, reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported(None), reason).with_op(op)
    }

    /// The arguments are wrong.
    pub fn invalid_argument(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }

    /// What kind of failure it was.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.parts.kind
    }

    /// Whether the same operation may be tried again.
    #[must_use]
    pub fn retry(&self) -> Retry {
        self.parts.retry
    }

    /// Whose fault it is.
    #[must_use]
    pub fn fault(&self) -> FaultOf {
        self.parts.fault
    }

    /// The operation.
    #[must_use]
    pub fn op(&self) -> Option<OpName> {
        self.parts.op
    }

    /// What it was attempted on.
    #[must_use]
    pub fn target(&self) -> Option<&Target> {
        self.parts.target.as_ref()
    }

    /// The backend that attempted it.
    #[must_use]
    pub fn backend(&self) -> Option<&BackendName> {
        self.parts.backend.as_ref()
    }

    /// What was found, in words.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.parts.message
    }

    /// What the backend's protocol said.
    #[must_use]
    pub fn native(&self) -> Option<&NativeCode> {
        self.parts.native.as_ref()
    }

    /// How long the server asks to be left alone.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.parts.retry_after_ms.map(Duration::from_millis)
    }

    /// Single fields and what is wrong with each.
    #[must_use]
    pub fn causes(&self) -> &[Fault] {
        &self.parts.causes
    }

    /// Sets the operation, unless it is set.
    #[must_use]
    pub fn with_op(mut self, op: OpName) -> Self {
        self.parts.op.get_or_insert(op);
        self
    }

    /// Sets what it was attempted on, unless it is set.
    #[must_use]
    pub fn with_target(mut self, target: &Target) -> Self {
        self.parts.target.get_or_insert_with(|| target.clone());
        self
    }

    /// Sets the backend, unless it is set.
    #[must_use]
    pub fn with_backend(mut self, backend: &BackendName) -> Self {
        self.parts.backend.get_or_insert_with(|| backend.clone());
        self
    }

    /// Sets what the backend's protocol said.
    #[must_use]
    pub fn with_native(mut self, native: NativeCode) -> Self {
        self.parts.native = Some(native);
        self
    }

    /// Sets whether it may be tried again.
    #[must_use]
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.parts.retry = retry;
        self
    }

    /// Sets how long the server asks to be left alone.
    #[must_use]
    pub fn with_retry_after(mut self, after: Duration) -> Self {
        self.parts.retry_after_ms = Some(u64::try_from(after.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// The same failure of an operation that had changed something before: it does not say that nothing took effect, nor
    /// that the very same request may be sent again. For backends, whose operations may be several requests.
    ///
    /// ```
    /// use scheduler_core::{Error, ErrorKind, Retry};
    ///
    /// let failed = Error::new(ErrorKind::Unavailable, "503").after_a_change();
    /// assert_eq!((failed.kind(), failed.retry()), (&ErrorKind::OutcomeUnknown, Retry::AfterReread));
    /// ```
    #[must_use]
    pub fn after_a_change(mut self) -> Self {
        if matches!(self.parts.kind, ErrorKind::Unavailable | ErrorKind::RateLimited) {
            self.parts.kind = ErrorKind::OutcomeUnknown;
        }
        if self.parts.retry == Retry::SameRequest {
            self.parts.retry = Retry::AfterReread;
        }
        self
    }

    /// Sets the fields and what is wrong with each.
    #[must_use]
    pub fn with_causes(mut self, causes: Vec<Fault>) -> Self {
        self.parts.causes = causes;
        self
    }
}

impl ErrorKind {
    fn defaults(&self) -> (Retry, FaultOf) {
        use {FaultOf::*, Retry::*};
        match self {
            Self::InvalidArgument | Self::MustReplace | Self::Unsupported(_) | Self::Precondition => (Never, Caller),
            Self::AlreadyExists { .. } | Self::Conflict(Conflict::Owner { .. } | Conflict::RouteTaken { .. }) => {
                (Never, Caller)
            }
            Self::Conflict(_) => (AfterReread, Caller),
            Self::NotFound(Missing::Namespace | Missing::Instance) => (Never, Caller),
            Self::BadAnswer
            | Self::Forbidden
            | Self::Internal
            | Self::NotFound(_)
            | Self::QuotaExceeded
            | Self::Unauthenticated => (Never, Platform),
            Self::RateLimited | Self::Unavailable => (SameRequest, Platform),
            // Operations are idempotent, so that a repetition is safe; but what it finds may be its own effect.
            Self::OutcomeUnknown | Self::TimeLimit => (AfterReread, Platform),
        }
    }

    fn words(&self) -> &'static str {
        match self {
            Self::AlreadyExists { .. } => "exists already",
            Self::BadAnswer => "the answer is not the server's protocol",
            Self::Conflict(Conflict::Owner { .. }) => "it belongs to somebody else",
            Self::Conflict(Conflict::Deleting) => "it is being deleted",
            Self::Conflict(Conflict::Moved { .. }) => "it has changed meanwhile",
            Self::Conflict(Conflict::Absent) => "it is not there",
            Self::Conflict(Conflict::RouteTaken { .. }) => "another workload has this route",
            Self::Forbidden => "not allowed",
            Self::Internal => "a defect of this library",
            Self::InvalidArgument => "refused as invalid",
            Self::MustReplace => "this cannot be changed in what is there",
            Self::NotFound(Missing::Namespace) => "the namespace does not exist",
            Self::NotFound(Missing::Instance) => "there is no such instance",
            Self::NotFound(Missing::Interface) => "the server has no such interface",
            Self::OutcomeUnknown => "not known to have succeeded; it may have taken effect, at least in part",
            Self::Precondition => "something must come first",
            Self::QuotaExceeded => "over quota",
            Self::RateLimited => "too many requests; nothing took effect",
            Self::TimeLimit => "the time limit passed; it may have taken effect",
            Self::Unauthenticated => "not authenticated",
            Self::Unavailable => "the server is not available; nothing took effect",
            Self::Unsupported(_) => "not supported",
        }
    }

    /// What whoever reads the error can do.
    fn advice(&self) -> &'static str {
        match self {
            Self::AlreadyExists { .. } => "choose another name, or launch without IfAbsent",
            Self::BadAnswer => "check the address: a proxy or another server may have answered",
            Self::Conflict(Conflict::Owner { .. }) => "choose another name, or take it over with Guard::Adopt",
            Self::Conflict(Conflict::Deleting) => "wait until it is gone, then try again",
            Self::Conflict(Conflict::Moved { .. } | Conflict::Absent) => "read the state and decide anew",
            Self::Conflict(Conflict::RouteTaken { .. }) => {
                "choose another host or path, or unexpose the other workload"
            }
            Self::Forbidden => "grant this right to the credentials in use",
            Self::Internal => "report it",
            Self::InvalidArgument => "correct what is named and try again",
            Self::MustReplace => "delete it and launch anew, which launch_or_replace does",
            Self::NotFound(Missing::Namespace) => "create the namespace first",
            Self::NotFound(Missing::Instance) => "read the status for the instances that there are",
            Self::NotFound(Missing::Interface) => "check the server's address and version",
            Self::OutcomeUnknown | Self::TimeLimit => "read the state, or repeat the operation: it is idempotent",
            Self::Precondition => "do that first",
            Self::QuotaExceeded => "raise the quota or ask for less",
            Self::RateLimited => "try again later",
            Self::Unauthenticated => "renew or correct the credentials",
            Self::Unavailable => "check that the server runs and can be reached, then try again",
            Self::Unsupported(_) => "use a backend that can, or do without",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let p = &*self.parts;
        match (p.op, &p.target) {
            (Some(op), Some(target)) => write!(f, "{op} {target}")?,
            (Some(op), None) => write!(f, "{op}")?,
            (None, Some(target)) => write!(f, "{target}")?,
            (None, None) => {}
        }
        if let Some(backend) = &p.backend {
            write!(f, "{}on {backend}", if p.op.is_some() || p.target.is_some() { " " } else { "" })?;
        }
        if p.op.is_some() || p.target.is_some() || p.backend.is_some() {
            f.write_str(": ")?;
        }
        f.write_str(p.kind.words())?;
        if let ErrorKind::Conflict(Conflict::Owner { owner }) | ErrorKind::AlreadyExists { owner } = &p.kind {
            match owner {
                Some(owner) => write!(f, " (owner {owner})")?,
                None => f.write_str(" (without a mark of an owner)")?,
            }
        }
        if let ErrorKind::Conflict(Conflict::RouteTaken { by }) = &p.kind {
            write!(f, " ({by})")?;
        }
        if !p.message.is_empty() {
            write!(f, ": {}", p.message)?;
        }
        if let Some(native) = &p.native {
            match (native.status, &native.reason) {
                (Some(status), Some(reason)) => write!(f, " [{status} {reason}]")?,
                (Some(status), None) => write!(f, " [{status}]")?,
                (None, Some(reason)) => write!(f, " [{reason}]")?,
                (None, None) => {}
            }
        }
        for cause in &p.causes {
            write!(f, "\n  {cause}")?;
        }
        write!(f, "{}{}", if p.causes.is_empty() { "; " } else { "\n" }, p.kind.advice())?;
        if let Some(after) = self.retry_after() {
            write!(f, " (after {} s)", after.as_secs_f32())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.parts, f)
    }
}

impl std::error::Error for Error {}

impl From<Faults> for Error {
    fn from(faults: Faults) -> Self {
        Self::invalid_argument(format!("workload {}", faults.workload)).with_causes(faults.faults)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_what_was_attempted_on_what_what_was_said_and_what_to_do() {
        let error = Error::new(ErrorKind::Forbidden, "cannot patch deployments.apps in the namespace shop")
            .with_native(NativeCode::new(Some(403), Some("Forbidden".into())))
            .with_op(OpName::Launch)
            .with_target(&Target::new("shop", "web").unwrap())
            .with_backend(&BackendName::new("kubernetes").unwrap());
        assert_eq!(
            error.to_string(),
            "launch shop/web on kubernetes: not allowed: cannot patch deployments.apps in the namespace shop \
             [403 Forbidden]; grant this right to the credentials in use"
        );
        assert_eq!((error.retry(), error.fault()), (Retry::Never, FaultOf::Platform));
    }

    #[test]
    fn what_is_set_first_stays() {
        let error = Error::new(ErrorKind::Internal, "").with_op(OpName::Launch).with_op(OpName::Status);
        assert_eq!(error.op(), Some(OpName::Launch));
    }
}
