//! Containers and what belongs to one.

use serde::{Deserialize, Serialize};

use super::is_default;
use super::probe::{Probe, Probes};

/// One container of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Container {
    /// Its name, unique in the workload.
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub role: Role,
    /// The image reference: `[registry/]repository[:tag][@digest]`.
    pub image: String,
    /// What to run instead of the image's entry point, taken literally: no variable is expanded in it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub command: Vec<String>,
    /// Arguments, taken literally.
    #[serde(default, skip_serializing_if = "is_default")]
    pub args: Vec<String>,
    /// Environment variables. The container sees these and no others besides its image's and the platform's own few.
    #[serde(default, skip_serializing_if = "is_default")]
    pub env: Vec<EnvVar>,
    /// Ports that it listens on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ports: Vec<Port>,
    /// What it asks for and what it may use at most.
    #[serde(default, skip_serializing_if = "is_default")]
    pub resources: ResourceBounds,
    /// How its state is found out.
    #[serde(default, skip_serializing_if = "is_default")]
    pub probes: Probes,
    /// The volumes that it sees.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mounts: Vec<Mount>,
}

/// What a container is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Role {
    /// The container that the workload is about. There is exactly one.
    #[default]
    Main,
    /// Starts before the main container, in the order of the list, and runs beside it as long as that runs.
    Sidecar,
    /// Runs to its end before the main container starts, in the order of the list.
    Init,
}

/// An environment variable.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct EnvVar {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: EnvValue,
}

/// Where the value of an environment variable comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EnvValue {
    /// This text, byte for byte: no variable is expanded in it. Not for secrets; those are references.
    Text(String),
    /// An entry of a configuration of this workload.
    Config(ConfigEntry),
    /// Something that only the running instance knows.
    Field(RuntimeField),
}

/// One entry of one version of a configuration that belongs to the workload.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ConfigEntry {
    /// The configuration's name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The entry's key.
    pub key: String,
}

impl ConfigEntry {
    /// A reference to this entry.
    pub fn new(name: impl Into<String>, version: impl Into<String>, key: impl Into<String>) -> Self {
        Self { name: name.into(), version: version.into(), key: key.into() }
    }
}

/// Something that only the running instance knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RuntimeField {
    /// The instance's name (a Pod's name, an allocation's id).
    InstanceName,
    /// The instance's address.
    InstanceAddress,
    /// The name of the node that it runs on.
    NodeName,
    /// The namespace.
    Namespace,
    /// The instance's ordinal, from zero; of a service with stable identities, or of a job with several completions.
    Ordinal,
}

/// A port that a container listens on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Port {
    /// Its name, unique in the workload: an IANA service name of at most 15 characters.
    pub name: String,
    /// Its number, 1 to 65535, unique in the workload for its protocol.
    pub port: u32,
    /// Its protocol.
    #[serde(default, skip_serializing_if = "is_default")]
    pub protocol: Protocol,
}

/// A transport protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
}

/// What a container asks for and may use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ResourceBounds {
    /// Processor time ([`Cpu`](crate::Cpu) quantities).
    #[serde(default, skip_serializing_if = "is_default")]
    pub cpu: Bounds,
    /// Memory ([`Memory`](crate::Memory) quantities).
    #[serde(default, skip_serializing_if = "is_default")]
    pub memory: Bounds,
}

/// A lower and an upper bound, each a quantity as text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Bounds {
    /// What is set aside for it. The limit, if there is only that.
    #[serde(default, skip_serializing_if = "is_default")]
    pub request: Option<String>,
    /// What it may use at most; no bound if absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub limit: Option<String>,
}

/// A volume in a container's file system.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Mount {
    /// The volume's name.
    pub volume: String,
    /// Where it appears: an absolute path without `..` and `:`.
    pub path: String,
    /// Whether it cannot be written to.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_only: bool,
}

impl Container {
    /// The main container, with this name and image.
    pub fn new(name: impl Into<String>, image: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            role: Role::Main,
            image: image.into(),
            command: Vec::new(),
            args: Vec::new(),
            env: Vec::new(),
            ports: Vec::new(),
            resources: ResourceBounds::default(),
            probes: Probes::default(),
            mounts: Vec::new(),
        }
    }

    /// Sets the role.
    #[must_use]
    pub fn role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// Sets the command.
    #[must_use]
    pub fn command<T: Into<String>>(mut self, command: impl IntoIterator<Item = T>) -> Self {
        self.command = command.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the arguments.
    #[must_use]
    pub fn args<T: Into<String>>(mut self, args: impl IntoIterator<Item = T>) -> Self {
        self.args = args.into_iter().map(Into::into).collect();
        self
    }

    /// Adds an environment variable with a literal text.
    #[must_use]
    pub fn env(self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.env_from(name, EnvValue::Text(text.into()))
    }

    /// Adds an environment variable.
    #[must_use]
    pub fn env_from(mut self, name: impl Into<String>, value: EnvValue) -> Self {
        self.env.push(EnvVar { name: name.into(), value });
        self
    }

    /// Adds a TCP port.
    #[must_use]
    pub fn port(mut self, name: impl Into<String>, port: u16) -> Self {
        self.ports.push(Port { name: name.into(), port: port.into(), protocol: Protocol::Tcp });
        self
    }

    /// Adds a UDP port.
    #[must_use]
    pub fn udp_port(mut self, name: impl Into<String>, port: u16) -> Self {
        self.ports.push(Port { name: name.into(), port: port.into(), protocol: Protocol::Udp });
        self
    }

    /// Bounds processor time (`"100m"`, or a [`Cpu`](crate::Cpu)).
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "reads better at the call")]
    pub fn cpu(mut self, request: impl ToString, limit: impl ToString) -> Self {
        self.resources.cpu = Bounds { request: Some(request.to_string()), limit: Some(limit.to_string()) };
        self
    }

    /// Bounds memory (`"64Mi"`, or a [`Memory`](crate::Memory)).
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "reads better at the call")]
    pub fn memory(mut self, request: impl ToString, limit: impl ToString) -> Self {
        self.resources.memory = Bounds { request: Some(request.to_string()), limit: Some(limit.to_string()) };
        self
    }

    /// Sets the startup probe.
    #[must_use]
    pub fn startup(mut self, probe: Probe) -> Self {
        self.probes.startup = Some(probe);
        self
    }

    /// Sets the readiness probe.
    #[must_use]
    pub fn readiness(mut self, probe: Probe) -> Self {
        self.probes.readiness = Some(probe);
        self
    }

    /// Sets the liveness probe.
    #[must_use]
    pub fn liveness(mut self, probe: Probe) -> Self {
        self.probes.liveness = Some(probe);
        self
    }

    /// Mounts a volume, writable.
    #[must_use]
    pub fn mount(mut self, volume: impl Into<String>, path: impl Into<String>) -> Self {
        self.mounts.push(Mount { volume: volume.into(), path: path.into(), read_only: false });
        self
    }

    /// Mounts a volume that cannot be written to.
    #[must_use]
    pub fn mount_read_only(mut self, volume: impl Into<String>, path: impl Into<String>) -> Self {
        self.mounts.push(Mount { volume: volume.into(), path: path.into(), read_only: true });
        self
    }
}
