//! Faults between a scheduler and its cluster, for tests of what happens then.

use crate::{Error, ErrorKind, NativeCode};

/// What happens to one request; see [`MemoryCluster::inject`](super::MemoryCluster::inject).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RequestFault {
    /// It is refused with status 503, and nothing is done.
    Refuse,
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

/// The error of a request that was refused, or whose answer was lost.
pub(super) fn error(fault: RequestFault, writes: bool) -> Error {
    let refused = |kind, status, reason: &str| {
        Error::new(kind, "a test asked for this").with_native(NativeCode::new(Some(status), Some(reason.to_owned())))
    };
    match fault {
        RequestFault::Refuse => refused(ErrorKind::Unavailable, 503, "ServiceUnavailable"),
        RequestFault::Forbid => refused(ErrorKind::Forbidden, 403, "Forbidden"),
        // What only reads cannot have taken effect.
        RequestFault::LoseAnswer | RequestFault::Hang => Error::new(
            if writes { ErrorKind::OutcomeUnknown } else { ErrorKind::Unavailable },
            "the answer was lost, as a test asked for",
        ),
    }
}
