//! Probes: how the state of a container is found out.

use serde::{Deserialize, Serialize};

use super::is_default;
use crate::time::Seconds;

/// The probes of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Probes {
    /// Until it passes, the others wait; if it never does, the container is started again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub startup: Option<Probe>,
    /// Whether the container can do its work now. Without one it is ready as soon as it runs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub readiness: Option<Probe>,
    /// If it fails, the container is started again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub liveness: Option<Probe>,
}

impl Probes {
    /// The probes that are set, with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Probe)> {
        [("startup", &self.startup), ("readiness", &self.readiness), ("liveness", &self.liveness)]
            .into_iter()
            .filter_map(|(name, probe)| Some((name, probe.as_ref()?)))
    }
}

/// One probe.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Probe {
    /// What is asked.
    pub check: Check,
    /// How long after the container's start the first one comes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub initial_delay: Seconds,
    /// How long from one to the next.
    #[serde(default = "ten", skip_serializing_if = "is_ten")]
    pub period: Seconds,
    /// How long the answer may take; at most the period.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub timeout: Seconds,
    /// How many failures in a row make it fail.
    #[serde(default = "three", skip_serializing_if = "is_three")]
    pub failures: u32,
}

fn ten() -> Seconds {
    Seconds::new(10)
}

fn is_ten(span: &Seconds) -> bool {
    *span == ten()
}

fn one() -> Seconds {
    Seconds::new(1)
}

fn is_one(span: &Seconds) -> bool {
    *span == one()
}

fn three() -> u32 {
    3
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_three(n: &u32) -> bool {
    *n == 3
}

/// What a probe asks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Check {
    /// An HTTP GET that must answer 200 to 399.
    Http(HttpCheck),
    /// The same over TLS; the certificate is not verified.
    Https(HttpCheck),
    /// A TCP connection that must be accepted.
    Tcp(TcpCheck),
    /// A command inside the container that must exit 0.
    Exec(ExecCheck),
    /// The gRPC health protocol, which must answer SERVING.
    Grpc(GrpcCheck),
}

impl Check {
    /// The name of the port that it asks, and the name of this kind of check; `None` for a command.
    #[must_use]
    pub fn port(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::Http(check) => Some(("http", &check.port)),
            Self::Https(check) => Some(("https", &check.port)),
            Self::Tcp(check) => Some(("tcp", &check.port)),
            Self::Grpc(check) => Some(("grpc", &check.port)),
            Self::Exec(_) => None,
        }
    }
}

/// An HTTP request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct HttpCheck {
    /// The name of a TCP port of the same container.
    pub port: String,
    /// The path, with a leading slash.
    #[serde(default = "root", skip_serializing_if = "is_root")]
    pub path: String,
}

fn root() -> String {
    "/".to_owned()
}

fn is_root(path: &str) -> bool {
    path == "/"
}

/// A TCP connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TcpCheck {
    /// The name of a TCP port of the same container.
    pub port: String,
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ExecCheck {
    /// The command and its arguments, taken literally; no shell reads them.
    pub command: Vec<String>,
}

/// A gRPC health request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct GrpcCheck {
    /// The name of a TCP port of the same container.
    pub port: String,
    /// The service that is asked for; the server as a whole if absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub service: Option<String>,
}

impl Probe {
    /// A probe with the default times: first at once, then every 10 s, each within 1 s, failed after 3.
    #[must_use]
    pub fn new(check: Check) -> Self {
        Self { check, initial_delay: Seconds::default(), period: ten(), timeout: one(), failures: three() }
    }

    /// An HTTP probe.
    pub fn http(port: impl Into<String>, path: impl Into<String>) -> Self {
        Self::new(Check::Http(HttpCheck { port: port.into(), path: path.into() }))
    }

    /// An HTTPS probe.
    pub fn https(port: impl Into<String>, path: impl Into<String>) -> Self {
        Self::new(Check::Https(HttpCheck { port: port.into(), path: path.into() }))
    }

    /// A TCP probe.
    pub fn tcp(port: impl Into<String>) -> Self {
        Self::new(Check::Tcp(TcpCheck { port: port.into() }))
    }

    /// A command as probe.
    pub fn exec<T: Into<String>>(command: impl IntoIterator<Item = T>) -> Self {
        Self::new(Check::Exec(ExecCheck { command: command.into_iter().map(Into::into).collect() }))
    }

    /// A gRPC probe of the whole server.
    pub fn grpc(port: impl Into<String>) -> Self {
        Self::new(Check::Grpc(GrpcCheck { port: port.into(), service: None }))
    }

    /// Sets when the first one comes, in seconds after the start.
    #[must_use]
    pub fn initial_delay(mut self, seconds: u32) -> Self {
        self.initial_delay = Seconds::new(seconds);
        self
    }

    /// Sets how often, in seconds.
    #[must_use]
    pub fn period(mut self, seconds: u32) -> Self {
        self.period = Seconds::new(seconds);
        self
    }
}
