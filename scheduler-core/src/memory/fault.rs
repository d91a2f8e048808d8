//! Faults between a scheduler and its cluster, for tests of what happens then.

use std::time::Duration;

use super::scheduler::Access;
use crate::{Error, ErrorKind, NativeCode};

/// What happens to one request; see [`MemoryCluster::inject`](super::MemoryCluster::inject).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RequestFault {
    /// It is refused with status 503, for a second, and nothing is done.
    Refuse,
    /// It is refused with status 429, for a second, and nothing is done.
    Throttle,
    /// It fails with status 500, and nothing is done.
    Fail,
    /// The connection is cut before anything is done.
    Reset,
    /// It is refused with status 403, and nothing is done.
    Forbid,
    /// It takes effect, and the connection is cut before the answer.
    LoseAnswer,
    /// It takes effect, and no answer ever comes.
    Hang,
}

/// The fault that is planned, and how far away it is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Planned {
    fault: Option<RequestFault>,
    left: u32,
    pub(super) met: bool,
}

impl Planned {
    pub(super) fn new(nth: u32, fault: RequestFault) -> Self {
        Self { fault: Some(fault), left: nth.max(1), met: false }
    }

    /// Counts a request. The fault that it meets, if any.
    pub(super) fn count(&mut self) -> Option<RequestFault> {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 { self.fault.take() } else { None }
    }
}

impl RequestFault {
    /// Whether the request takes effect all the same.
    pub(super) fn takes_effect(self) -> bool {
        matches!(self, Self::LoseAnswer | Self::Hang)
    }

    /// What comes of a request, as far as can be told from outside.
    pub(super) fn error(self, access: Access) -> Error {
        let words = "a test asked for this";
        // Whoever gets no answer cannot tell, but what only reads has no effect.
        let unknown = match access {
            Access::Writes => ErrorKind::OutcomeUnknown,
            Access::Reads => ErrorKind::Unavailable,
        };
        let (kind, status, reason) = match self {
            Self::Refuse => (ErrorKind::Unavailable, 503, "ServiceUnavailable"),
            Self::Throttle => (ErrorKind::RateLimited, 429, "TooManyRequests"),
            Self::Forbid => (ErrorKind::Forbidden, 403, "Forbidden"),
            Self::Fail => (unknown, 500, "InternalError"),
            Self::Reset | Self::LoseAnswer | Self::Hang => return Error::new(unknown, words),
        };
        let error = Error::new(kind, words).with_native(NativeCode::new(Some(status), Some(reason.to_owned())));
        if matches!(self, Self::Refuse | Self::Throttle) {
            error.with_retry_after(Duration::from_secs(1))
        } else {
            error
        }
    }
}
