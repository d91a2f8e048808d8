//! Configurations: immutable, named by a hash of their content, and each of one workload.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::CallOptions;
use crate::error::Error;
use crate::hash;
use crate::name::{Target, check_part};
use crate::workload::{ConfigEntry, ConfigRef, Fault, check_config_key};

/// Stores a configuration of a workload. See [`Scheduler::put_config`](crate::Scheduler::put_config).
///
/// Written down (a log, an outbox) it has no values: each reads `Redacted`, and an operation that is read from there is
/// refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PutConfig {
    /// The workload that it belongs to, and that alone can refer to it. It need not be there yet.
    pub target: Target,
    /// The configuration's name within the workload, as for a volume.
    pub name: String,
    /// Its entries.
    pub entries: BTreeMap<String, ConfigValue>,
    /// What the call carries.
    #[serde(default, skip_serializing_if = "CallOptions::is_default")]
    pub call: CallOptions,
}

/// How much a configuration may hold, keys and values: what fits into one variable of Nomad.
const MOST_BYTES: usize = 64 * 1024;

impl PutConfig {
    /// A configuration without entries yet.
    pub fn new(target: Target, name: impl Into<String>) -> Self {
        Self { target, name: name.into(), entries: BTreeMap::new(), call: CallOptions::default() }
    }

    /// Adds an entry.
    #[must_use]
    pub fn entry(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.entries.insert(key.into(), ConfigValue::new(value));
        self
    }

    /// The version that this content has: 16 hex digits of a hash over it.
    ///
    /// A short or guessable secret can be found from it by trying.
    #[must_use]
    pub fn version(&self) -> String {
        let mut text = String::new();
        for (key, value) in &self.entries {
            // Lengths keep one entry apart from the next.
            text.push_str(&format!("{}:{key}{}:{}", key.len(), value.0.len(), value.0));
        }
        hash::hex(text.as_bytes(), 16)
    }

    /// Checks what can be known without a server. Backends call it before they send anything.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) with every fault: a name or a key that is none, no entry, a
    /// redacted value, more than 64 KiB.
    pub fn check(&self) -> Result<(), Error> {
        let mut faults = Vec::new();
        if let Err(problem) = check_part(&self.name) {
            faults.push(Fault::new("name", problem.to_string()));
        }
        if self.entries.is_empty() {
            faults.push(Fault::new("entries", "there is none"));
        }
        for (key, value) in &self.entries {
            if let Some(problem) = check_config_key(key) {
                faults.push(Fault::new(format!("entries[{key:?}]"), problem));
            }
            if value.0 == REDACTED {
                faults
                    .push(Fault::new(format!("entries[{key:?}]"), "its value was left out when this was written down"));
            }
        }
        let bytes: usize = self.entries.iter().map(|(key, value)| key.len() + value.0.len()).sum();
        if bytes > MOST_BYTES {
            faults.push(Fault::new("entries", format!("{bytes} bytes are too many, at most {MOST_BYTES}")));
        }
        if faults.is_empty() {
            return Ok(());
        }
        Err(Error::invalid_argument(format!("configuration {:?}", self.name)).with_causes(faults))
    }
}

/// What a written down value reads.
const REDACTED: &str = "Redacted";

/// A value that may be secret. It shows itself nowhere: not in `Debug`, and not in its serde form.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigValue(String);

impl ConfigValue {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text. For backends.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ConfigValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl Serialize for ConfigValue {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(REDACTED)
    }
}

impl<'de> Deserialize<'de> for ConfigValue {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self)
    }
}

/// A configuration is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ConfigStored {
    /// Name and version, for a volume of the workload.
    pub config: ConfigRef,
    /// Whether this call stored it. Otherwise it was there.
    pub created: bool,
    /// What the backend wants known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl ConfigStored {
    /// This version of this configuration.
    #[must_use]
    pub fn new(config: ConfigRef, created: bool) -> Self {
        Self { config, created, warnings: Vec::new() }
    }

    /// A reference to one entry, for an environment variable of the workload.
    pub fn entry(&self, key: impl Into<String>) -> ConfigEntry {
        ConfigEntry::new(&self.config.name, &self.config.version, key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put() -> PutConfig {
        PutConfig::new(Target::new("shop", "web").unwrap(), "app")
    }

    #[test]
    fn a_value_shows_itself_nowhere_and_what_was_written_down_is_refused() {
        let op = put().entry("PASSWORD", "hunter2");
        let written = serde_json::to_string(&op).unwrap();
        assert!(!written.contains("hunter2") && !format!("{op:?}").contains("hunter2"));
        assert!(op.check().is_ok());
        let read: PutConfig = serde_json::from_str(&written).unwrap();
        assert_eq!(read.check().unwrap_err().causes()[0].path, "entries[\"PASSWORD\"]");
    }

    #[test]
    fn every_fault_is_named_at_once() {
        let bad = PutConfig { name: "App".into(), ..put() }.entry("a b", "x").entry("BIG", "x".repeat(MOST_BYTES));
        let faults = bad.check().unwrap_err();
        let paths: Vec<_> = faults.causes().iter().map(|fault| fault.path.as_str()).collect();
        assert_eq!(paths, ["name", "entries[\"a b\"]", "entries"]);
        assert!(put().check().is_err());
    }

    #[test]
    fn the_version_depends_on_the_content_alone() {
        let version = |key: &str, value: &str| put().entry(key, value).version();
        assert_eq!(version("A", "b"), version("A", "b"));
        assert_ne!(version("A", "bc"), version("Ab", "c"));
        assert_ne!(put().entry("A", "1").entry("B", "2").version(), version("A", "11:B1:2"));
    }
}
