//! Variables: what jobs shall know and their specification shall not show.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{UnixNanos, model};

/// A value that `Debug` hides.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// This value.
    #[must_use]
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

model! {
    /// A variable: values under keys, at a path.
    Variable shows [namespace, path, modify_index] {
        /// The namespace; `default` where it is left out.
        namespace: String,
        /// The path: letters, digits and `-_~/`, at most 128.
        path: String,
        /// The values, by key.
        items: BTreeMap<String, Secret>,
        /// The index at which it was made.
        create_index: u64,
        /// Moves with each change. The index of a [condition](crate::VariableCondition).
        modify_index: u64,
        /// When it was made.
        create_time: UnixNanos,
        /// When it changed last.
        modify_time: UnixNanos,
    }
}

impl Variable {
    /// A variable at this place, with nothing in it.
    #[must_use]
    pub fn new(namespace: impl Into<String>, path: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), path: path.into(), ..Self::default() }
    }
}

model! {
    /// A variable in a list, without its values.
    VariableStub shows [namespace, path, modify_index] {
        /// The namespace.
        namespace: String,
        /// The path.
        path: String,
        /// The index at which it was made.
        create_index: u64,
        /// Moves with each change.
        modify_index: u64,
        /// When it was made.
        create_time: UnixNanos,
        /// When it changed last.
        modify_time: UnixNanos,
    }
}
