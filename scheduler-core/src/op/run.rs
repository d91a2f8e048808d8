//! Running something once, under a key of the caller's.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::CallOptions;
use crate::hash;
use crate::name::Target;
use crate::workload::CheckedWorkload;

/// Runs something once. See [`Scheduler::run`](crate::Scheduler::run).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Run {
    /// What is to be run.
    pub what: RunWhat,
    /// The caller's key: the same key for the same target twice is one run.
    pub key: RunKey,
    /// What the call carries.
    #[serde(default, skip_serializing_if = "CallOptions::is_default")]
    pub call: CallOptions,
}

impl Run {
    /// Runs this [`Kind::Job`](crate::Kind::Job) once.
    pub fn one_off(job: impl Into<Arc<CheckedWorkload>>, key: RunKey) -> Self {
        Self { what: RunWhat::OneOff(job.into()), key, call: CallOptions::default() }
    }

    /// Runs a periodic job now, whatever its schedule says.
    #[must_use]
    pub fn now(periodic: Target, key: RunKey) -> Self {
        Self { what: RunWhat::Now(periodic), key, call: CallOptions::default() }
    }

    /// What it is a run of.
    #[must_use]
    pub fn base(&self) -> &Target {
        match &self.what {
            RunWhat::OneOff(job) => job.target(),
            RunWhat::Now(target) => target,
        }
    }

    /// The run's id, known before anything is sent.
    #[must_use]
    pub fn id(&self) -> RunId {
        RunId::of(self.base(), &self.key)
    }
}

/// What is to be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunWhat {
    /// This workload, which must be of the kind [`Job`](crate::Kind::Job). Its own name is never launched: the run has a name
    /// of its own that is made from it and from the key.
    OneOff(Arc<CheckedWorkload>),
    /// The job of this periodic workload, which must be there.
    Now(Target),
}

/// A caller's key for a run: 1 to 128 characters, none of them control characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunKey(String);

/// A text that is no key of a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no key of a run: 1 to 128 characters, none of them control characters")]
pub struct RunKeyError(String);

impl RunKey {
    /// Checks `text` and wraps it.
    ///
    /// # Errors
    /// [`RunKeyError`] if it is empty, too long, or has control characters.
    pub fn new(text: impl Into<String>) -> Result<Self, RunKeyError> {
        let text = text.into();
        if (1..=128).contains(&text.chars().count()) && !text.contains(char::is_control) {
            Ok(Self(text))
        } else {
            Err(RunKeyError(text))
        }
    }

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for RunKey {
    type Error = RunKeyError;
    fn try_from(text: String) -> Result<Self, RunKeyError> {
        Self::new(text)
    }
}

impl From<RunKey> for String {
    fn from(key: RunKey) -> Self {
        key.0
    }
}

impl fmt::Debug for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The id of a run. As a [`Target`] it names a job, for status, logs and delete.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(Target);

impl RunId {
    /// The id of the run of `base` under this key. It is a function of the two, so that it is known even when the answer
    /// to [`Run`] was lost: the name (cut to 31 characters), `-run-`, and 16 hex digits of a hash over name and key.
    #[must_use]
    pub fn of(base: &Target, key: &RunKey) -> Self {
        let digits = hash::hex(format!("{}/{key}", base.name).as_bytes(), 16);
        Self(Target { namespace: base.namespace.clone(), name: base.name.of_run(&digits) })
    }

    /// The job that it names.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.0
    }
}

impl From<RunId> for Target {
    fn from(id: RunId) -> Self {
        id.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A run is under way, or over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunStarted {
    /// Which one.
    pub run: RunId,
    /// Whether this call began it. Otherwise an earlier one with the same key did.
    pub created: bool,
    /// What the backend wants known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl RunStarted {
    /// This run, begun by this call or an earlier one.
    #[must_use]
    pub fn new(run: RunId, created: bool) -> Self {
        Self { run, created, warnings: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_name_that_depends_on_base_and_key() {
        let base = |name: &str| Target::new("shop", name).unwrap();
        let key = |text: &str| RunKey::new(text).unwrap();
        let first = RunId::of(&base("migrate"), &key("release 7"));
        assert_eq!(first, RunId::of(&base("migrate"), &key("release 7")));
        assert!(first.target().name.as_str().starts_with("migrate-run-"));
        assert_ne!(first, RunId::of(&base("migrate"), &key("release 8")));
        assert_ne!(first, RunId::of(&base("migrate2"), &key("release 7")));
        // Names that differ only beyond the cut, or end in a dash there.
        let long = format!("{}-{}", "a".repeat(30), "b".repeat(21));
        let longer = format!("{}-{}", "a".repeat(30), "c".repeat(21));
        let (one, other) = (RunId::of(&base(&long), &key("k")), RunId::of(&base(&longer), &key("k")));
        assert_ne!(one, other);
        assert!(one.target().name.as_str().starts_with(&format!("{}-run-", "a".repeat(30))));
    }

    #[test]
    fn keys_are_checked() {
        assert!(RunKey::new("").is_err() && RunKey::new("a\nb").is_err() && RunKey::new("x".repeat(129)).is_err());
        assert!(RunKey::new("x".repeat(128)).is_ok());
    }
}
