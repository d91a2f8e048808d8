//! An app as its model wants it: what every hook is given.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::name::{AppName, Namespace, Target, WorkloadName};
use crate::workload::{Marks, Workload, is_default};

/// The whole desired state of an app after a change. It says what there is to be, in the terms of a platform's models; what
/// that means on a backend is the hooks' affair.
///
/// It holds no secret, only [references](SecretRef) to some, so that it can be stored and logged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct App {
    /// Its name; also the mark `unit` of its workloads.
    pub name: AppName,
    /// The scheduler's namespace in which it lives, and lives alone.
    pub namespace: Namespace,
    /// Whose it is (a team, a tenant), in the platform's own words.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tenant: Option<String>,
    /// What it may use at most, and who may talk to it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub policy: Policy,
    /// The release that is to run. None before the first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub release: Option<Release>,
    /// How many instances each process is to have. A process that is not listed has what its workload says.
    #[serde(default, skip_serializing_if = "is_default")]
    pub formation: BTreeMap<WorkloadName, u32>,
    /// Its configuration, as environment variables of every process.
    #[serde(default, skip_serializing_if = "is_default")]
    pub config: BTreeMap<String, SecretRef>,
    /// The process that requests from outside go to.
    #[serde(default, skip_serializing_if = "is_default")]
    pub front: Option<Front>,
    /// Its domains.
    #[serde(default, skip_serializing_if = "is_default")]
    pub domains: Vec<Domain>,
    /// Its certificates, by their names.
    #[serde(default, skip_serializing_if = "is_default")]
    pub certificates: BTreeMap<String, Certificate>,
    /// The registries that its images come from and that want credentials, by their host names.
    #[serde(default, skip_serializing_if = "is_default")]
    pub registries: BTreeMap<String, RegistryCredentials>,
    /// Its persistent volumes, by the names under which workloads claim them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub volumes: BTreeMap<String, AppVolume>,
}

impl App {
    /// An app with nothing in it yet.
    #[must_use]
    pub fn new(name: AppName, namespace: Namespace) -> Self {
        Self {
            name,
            namespace,
            tenant: None,
            policy: Policy::default(),
            release: None,
            formation: BTreeMap::new(),
            config: BTreeMap::new(),
            front: None,
            domains: Vec::new(),
            certificates: BTreeMap::new(),
            registries: BTreeMap::new(),
            volumes: BTreeMap::new(),
        }
    }

    /// Where a process of this app lives, if it keeps its name from release to release.
    #[must_use]
    pub fn target(&self, process: &WorkloadName) -> Target {
        Target { namespace: self.namespace.clone(), name: process.clone() }
    }

    /// The marks by which its workloads are found: the app is the unit.
    #[must_use]
    pub fn marks(&self) -> Marks {
        Marks { unit: Some(self.name.to_string()), ..Marks::default() }
    }
}

/// What an app may use at most, and who may talk to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Policy {
    /// The most that all of its instances may have together.
    #[serde(default, skip_serializing_if = "is_default")]
    pub quota: Quota,
    /// Who may talk to its instances.
    #[serde(default, skip_serializing_if = "is_default")]
    pub isolation: Isolation,
}

/// The most that all instances of an app may have together; what is absent is not bounded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Quota {
    /// Processor time (a [`Cpu`](crate::Cpu) quantity).
    #[serde(default, skip_serializing_if = "is_default")]
    pub cpu: Option<String>,
    /// Memory (a [`Memory`](crate::Memory) quantity).
    #[serde(default, skip_serializing_if = "is_default")]
    pub memory: Option<String>,
    /// How many instances.
    #[serde(default, skip_serializing_if = "is_default")]
    pub instances: Option<u32>,
}

/// Who may talk to the instances of an app.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Isolation {
    /// Everybody.
    #[default]
    Open,
    /// Instances of the same app, and the routers of the platform, which it names by a label of their namespace.
    App,
}

/// One version of what an app runs. It never changes: another configuration or image is another release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Release {
    /// Counts the releases of the app, from 1. Failed ones count too.
    pub version: u64,
    /// Its processes: one workload each, whose name is the process' name. They live in the app's namespace.
    pub processes: Vec<Workload>,
    /// Jobs that must end well before any process is rolled out, in this order (a migration of a database, say).
    #[serde(default, skip_serializing_if = "is_default")]
    pub before: Vec<Workload>,
    /// The configuration that it was made with.
    #[serde(default, skip_serializing_if = "is_default")]
    pub config: BTreeMap<String, SecretRef>,
    /// The release whose content this one repeats, if it is a rollback.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rollback_of: Option<u64>,
}

impl Release {
    /// A release of these processes.
    #[must_use]
    pub fn new(version: u64, processes: Vec<Workload>) -> Self {
        Self { version, processes, before: Vec::new(), config: BTreeMap::new(), rollback_of: None }
    }
}

/// The process that requests from outside go to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Front {
    /// Which process.
    pub process: WorkloadName,
    /// The name of its port.
    pub port: String,
}

impl Front {
    /// This port of this process.
    pub fn new(process: WorkloadName, port: impl Into<String>) -> Self {
        Self { process, port: port.into() }
    }
}

/// A host name under which an app is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Domain {
    /// The host name; its first part may be `*`.
    pub host: String,
    /// The certificate that is attached to it, by its name.
    #[serde(default, skip_serializing_if = "is_default")]
    pub certificate: Option<String>,
}

impl Domain {
    /// A domain without a certificate.
    pub fn new(host: impl Into<String>) -> Self {
        Self { host: host.into(), certificate: None }
    }

    /// Attaches a certificate.
    #[must_use]
    pub fn certificate(mut self, name: impl Into<String>) -> Self {
        self.certificate = Some(name.into());
        self
    }
}

/// A certificate with the key that belongs to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Certificate {
    /// The certificate and those that vouch for it, as PEM.
    pub chain: String,
    /// The private key, as PEM.
    pub key: SecretRef,
}

impl Certificate {
    /// A certificate and its key.
    pub fn new(chain: impl Into<String>, key: SecretRef) -> Self {
        Self { chain: chain.into(), key }
    }
}

/// Credentials for a registry of images.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RegistryCredentials {
    /// The user's name.
    pub user: String,
    /// The password or token.
    pub password: SecretRef,
}

impl RegistryCredentials {
    /// A user and a password.
    pub fn new(user: impl Into<String>, password: SecretRef) -> Self {
        Self { user: user.into(), password }
    }
}

/// A persistent volume that workloads of the app can claim by its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct AppVolume {
    /// How much it holds (a [`Memory`](crate::Memory) quantity).
    pub size: String,
    /// The platform's name for the kind of storage; its default if absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub class: Option<String>,
}

impl AppVolume {
    /// A volume of this size.
    pub fn new(size: impl Into<String>) -> Self {
        Self { size: size.into(), class: None }
    }
}

/// Where a secret is found, in the words of the platform's [`SecretSource`](crate::hooks::SecretSource). Not the secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretRef(String);

impl SecretRef {
    /// A reference.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The reference as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
