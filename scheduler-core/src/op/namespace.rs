//! Namespaces of the scheduler.

use serde::{Deserialize, Serialize};

use super::CallOptions;
use crate::name::Namespace;

/// Makes a namespace be there. See [`Scheduler::ensure_namespace`](crate::Scheduler::ensure_namespace).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct EnsureNamespace {
    /// Which one.
    pub namespace: Namespace,
    /// What the call carries.
    #[serde(default, skip_serializing_if = "CallOptions::is_default")]
    pub call: CallOptions,
}

impl EnsureNamespace {
    /// This namespace.
    #[must_use]
    pub fn new(namespace: Namespace) -> Self {
        Self { namespace, call: CallOptions::default() }
    }
}

/// The namespace is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NamespaceEnsured {
    /// This call made it, with our mark.
    Created,
    /// It was there.
    Exists {
        /// Whether it has our mark. One that has not can be used, and is never marked nor deleted.
        owned: bool,
    },
}

/// Takes away a namespace that [`EnsureNamespace`] made. See
/// [`Scheduler::delete_namespace`](crate::Scheduler::delete_namespace).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct DeleteNamespace {
    /// Which one.
    pub namespace: Namespace,
    /// What the call carries.
    #[serde(default, skip_serializing_if = "CallOptions::is_default")]
    pub call: CallOptions,
}

impl DeleteNamespace {
    /// This namespace.
    #[must_use]
    pub fn new(namespace: Namespace) -> Self {
        Self { namespace, call: CallOptions::default() }
    }
}

/// What the deletion of a namespace found and did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NamespaceDeleted {
    /// It was there and is gone.
    Gone,
    /// It is on its way out; call again.
    Deleting {
        /// What is still there, as far as the platform tells.
        remaining: Vec<String>,
    },
    /// There was none.
    WasAbsent,
}
