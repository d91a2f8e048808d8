//! From the hierarchical names that people give (`dev/sandbox`) to the flat namespaces that schedulers have.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::name::{NameError, Namespace};

/// How the platform's names of namespaces become a scheduler's. It is configuration: operations take the scheduler's own.
///
/// A name that is listed has the namespace that is listed. Any other becomes the prefix and its parts, joined by two dashes;
/// two names never become one, since a part with two dashes is refused.
///
/// ```
/// use scheduler_core::NamespaceMapping;
/// let mapping = NamespaceMapping::prefixed("paas").with("prod", "production".parse()?);
/// assert_eq!(mapping.namespace("dev/sandbox")?.as_str(), "paas--dev--sandbox");
/// assert_eq!(mapping.namespace("prod")?.as_str(), "production");
/// assert!(mapping.namespace("dev--sandbox").is_err());
/// # Ok::<(), scheduler_core::NameError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct NamespaceMapping {
    /// What every name that is not listed begins with; nothing if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// The namespaces of some names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<String, Namespace>,
}

impl NamespaceMapping {
    /// Names that are not listed begin with this.
    pub fn prefixed(prefix: impl Into<String>) -> Self {
        Self { prefix: Some(prefix.into()), names: BTreeMap::new() }
    }

    /// Gives a name this namespace.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, namespace: Namespace) -> Self {
        self.names.insert(name.into(), namespace);
        self
    }

    /// The namespace of a name.
    ///
    /// # Errors
    /// [`NameError`] if a part of the name, or all of it together, could not be a namespace.
    pub fn namespace(&self, name: &str) -> Result<Namespace, NameError> {
        if let Some(listed) = self.names.get(name) {
            return Ok(listed.clone());
        }
        let parts: Vec<&str> = self.prefix.as_deref().into_iter().chain(name.split('/')).collect();
        for part in &parts {
            Namespace::part(part)?;
        }
        Namespace::new(parts.join("--"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_names_never_become_one() {
        let mapping = NamespaceMapping::default();
        assert_eq!(mapping.namespace("qa").unwrap().as_str(), "qa");
        assert_eq!(mapping.namespace("a-b/c").unwrap().as_str(), "a-b--c");
        assert_eq!(mapping.namespace("a/b-c").unwrap().as_str(), "a--b-c");
        for refused in ["", "/", "a/", "a//b", "a-/b", "a/-b", "a--b", "Dev", &"x".repeat(64)] {
            assert!(mapping.namespace(refused).is_err(), "{refused}");
        }
    }
}
