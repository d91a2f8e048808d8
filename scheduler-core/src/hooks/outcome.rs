//! What hooks answer.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::app::SecretRef;
use crate::error::{Error, FaultOf, Retry};
use crate::op::ConfigValue;
use crate::workload::Fault;

/// What a hook did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// Something was changed.
    Applied,
    /// Everything was as it should be.
    AlreadyInState,
    /// This set does nothing about it, and why. Whoever needs it done can see that nobody did it.
    NotSupported {
        /// Why.
        reason: String,
    },
    /// It cannot be finished yet; tell it again.
    Deferred {
        /// Not before so much time has passed.
        #[serde(rename = "after_ms", with = "millis")]
        after: Duration,
        /// What it waits for.
        reason: String,
    },
}

impl Outcome {
    /// [`Applied`](Self::Applied) if anything was changed.
    #[must_use]
    pub fn of(changed: bool) -> Self {
        if changed { Self::Applied } else { Self::AlreadyInState }
    }

    /// What two steps of one hook come to: what waits outweighs what was done, and that outweighs nothing to do.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let weight = |outcome: &Self| match outcome {
            Self::NotSupported { .. } => 0,
            Self::AlreadyInState => 1,
            Self::Applied => 2,
            Self::Deferred { .. } => 3,
        };
        if weight(&other) > weight(&self) { other } else { self }
    }
}

mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}

/// What a `validate_*` hook says of a change that is about to be committed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Validation {
    /// Nothing speaks against it.
    Accepted,
    /// It must not be committed, and why.
    Vetoed(Vec<Fault>),
    /// This set does not look at such changes, and why.
    NotSupported {
        /// Why.
        reason: String,
    },
}

/// Why a hook did not do what it is for. It holds no secret and can be stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct HookError {
    /// What was tried, on what, what was found, what to do.
    pub message: String,
    /// Whether it may go well if it is told again without anybody mending anything.
    pub retry: bool,
    /// How long to wait before that, if somebody said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The operation's error that it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[source]
    pub cause: Option<Error>,
}

impl HookError {
    /// An error that stays until somebody mends what is named.
    pub fn permanent(message: impl Into<String>) -> Self {
        Self { message: message.into(), retry: false, retry_after_ms: None, cause: None }
    }

    /// An error that may go away by itself.
    pub fn transient(message: impl Into<String>) -> Self {
        Self { retry: true, ..Self::permanent(message) }
    }

    /// Says in front of the message what was being done.
    #[must_use]
    pub fn context(mut self, doing: impl std::fmt::Display) -> Self {
        self.message = format!("{doing}: {}", self.message);
        self
    }
}

/// An operation's error is worth a repetition unless it is the caller's or the workload's fault and would come again.
impl From<Error> for HookError {
    fn from(error: Error) -> Self {
        Self {
            message: error.to_string(),
            retry: error.retry() != Retry::Never || error.fault() == FaultOf::Platform,
            retry_after_ms: error.retry_after().map(|after| u64::try_from(after.as_millis()).unwrap_or(u64::MAX)),
            cause: Some(error),
        }
    }
}

/// Where the platform keeps its secrets. Hooks read them when they need them, so that no event holds one.
#[async_trait]
pub trait SecretSource: std::fmt::Debug + Send + Sync + 'static {
    /// The secret that is referred to.
    ///
    /// # Errors
    /// When there is none (a [`permanent`](HookError::permanent) error), or the store cannot be asked.
    async fn get(&self, secret: &SecretRef) -> Result<ConfigValue, HookError>;
}

#[async_trait]
impl SecretSource for std::collections::BTreeMap<SecretRef, ConfigValue> {
    async fn get(&self, secret: &SecretRef) -> Result<ConfigValue, HookError> {
        let found = Self::get(self, secret).cloned();
        found.ok_or_else(|| HookError::permanent(format!("there is no secret {:?}", secret.as_str())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn what_the_platform_may_mend_by_itself_is_tried_again() {
        let retry = |kind| HookError::from(Error::new(kind, "")).retry;
        assert!(retry(ErrorKind::Unavailable) && retry(ErrorKind::Unauthenticated) && retry(ErrorKind::TimeLimit));
        assert!(!retry(ErrorKind::InvalidArgument) && !retry(ErrorKind::MustReplace));
    }

    #[test]
    fn what_waits_outweighs_what_was_done() {
        let deferred = Outcome::Deferred { after: Duration::from_secs(1), reason: "the route".into() };
        assert_eq!(Outcome::Applied.and(deferred.clone()).and(Outcome::AlreadyInState), deferred);
        assert_eq!(Outcome::AlreadyInState.and(Outcome::Applied), Outcome::Applied);
    }
}
