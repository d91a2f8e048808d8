//! How to reach a cluster, as a configuration file says it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use scheduler_core::registry::{self, SchedulerFactory, parse};
use scheduler_core::{
    BackendName, CheckedWorkload, Error, ErrorKind, Kind, OpName, OwnerId, Result, Scheduler, Seconds,
};
use scheduler_nomad_client::ConnectOptions;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::translate;
use crate::{Driver, NomadScheduler, RenderContext, render};

/// The settings of one cluster, for configuration files.
///
/// Without an `address` that of the environment counts (`NOMAD_ADDR`, else `http://127.0.0.1:4646`), with all else that the
/// variables of Nomad's own command line say. With one, nothing is taken from the environment. Secrets are named by their
/// files, but for `token`.
///
/// ```
/// let config: scheduler_nomad::NomadConfig = serde_json::from_value(serde_json::json!({
///     "owner": "platform",
///     "address": "https://nomad.example:4646",
///     "ca_file": "/etc/platform/nomad-ca.pem",
///     "driver": "podman",
/// }))?;
/// assert_eq!(config.driver, scheduler_nomad::Driver::Podman);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct NomadConfig {
    /// Whose workloads these are.
    pub owner: OwnerId,
    /// The agent's address: `http://`, `https://` or `unix://` with the path of a socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The region, if it is not the agent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The access token. A file is better.
    #[serde(default, skip_serializing)]
    pub token: Option<String>,
    /// A file with the access token, read when the scheduler is built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// The authorities that may have signed the server's certificate, in PEM. Else those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// A client certificate, in PEM; goes with `client_key_file`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate_file: Option<PathBuf>,
    /// The key of the client certificate, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_key_file: Option<PathBuf>,
    /// The name that the server's certificate must be for, where it is not the one in the address; mostly
    /// `server.<region>.nomad`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_server_name: Option<String>,
    /// Who runs containers, unless a workload's extension says otherwise. Docker if absent.
    #[serde(default, skip_serializing_if = "is_docker")]
    pub driver: Driver,
    /// How long a connection may take to come about. 10 s if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect_timeout: Option<Seconds>,
    /// How long a request may take in all. The client's own limit if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_timeout: Option<Seconds>,
}

fn is_docker(driver: &Driver) -> bool {
    *driver == Driver::Docker
}

impl std::fmt::Debug for NomadConfig {
    /// Without the token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NomadConfig")
            .field("owner", &self.owner)
            .field("address", &self.address)
            .field("region", &self.region)
            .field("driver", &self.driver)
            .finish_non_exhaustive()
    }
}

impl NomadConfig {
    /// What it says, for the client. Reads the files that it names.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) with the settings that contradict each other or name a file that
    /// cannot be read.
    pub fn connect_options(&self) -> Result<ConnectOptions> {
        if self.token.is_some() && self.token_file.is_some() {
            return Err(refuse("token_file", "cannot stand beside token"));
        }
        let mut options = match &self.address {
            Some(address) => ConnectOptions::explicit(address),
            None => ConnectOptions::from_environment().map_err(|error| translate(&error).with_op(OpName::Connect))?,
        };
        if let Some(region) = &self.region {
            options = options.region(region);
        }
        if let Some(token) = &self.token {
            options = options.token(token.as_str());
        }
        if let Some(path) = &self.token_file {
            let token = String::from_utf8(read("token_file", path)?);
            options = options.token(token.map_err(|_| refuse("token_file", "is no text"))?);
        }
        if let Some(path) = &self.ca_file {
            options = options.certificate_authority(read("ca_file", path)?);
        }
        options = match (&self.client_certificate_file, &self.client_key_file) {
            (None, None) => options,
            (Some(certificate), Some(key)) => {
                options.client_certificate(read("client_certificate_file", certificate)?, read("client_key_file", key)?)
            }
            (Some(_), None) => return Err(refuse("client_key_file", "is missing, and a certificate needs its key")),
            (None, Some(_)) => return Err(refuse("client_certificate_file", "is missing, and a key needs one")),
        };
        if let Some(name) = &self.tls_server_name {
            options = options.tls_server_name(name);
        }
        if let Some(seconds) = self.connect_timeout {
            options = options.connect_timeout(seconds.duration());
        }
        if let Some(seconds) = self.total_timeout {
            options = options.total_timeout(seconds.duration());
        }
        Ok(options)
    }
}

impl NomadScheduler {
    /// Connects as a configuration says. Cost: one request.
    ///
    /// # Errors
    /// As [`connect`](Self::connect) and [`NomadConfig::connect_options`].
    pub async fn connect_config(config: &NomadConfig) -> Result<Self> {
        let scheduler = Self::connect(config.connect_options()?, config.owner.clone()).await?;
        Ok(scheduler.driver(config.driver.clone()))
    }
}

fn read(setting: &str, path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| refuse(setting, format!("cannot read {}: {error}", path.display())))
}

fn refuse(setting: &str, problem: impl Into<String>) -> Error {
    registry::refuse(setting, problem).with_backend(&BackendName::nomad())
}

/// Builds Nomad schedulers for a [`Registry`](scheduler_core::registry::Registry); the settings are [`NomadConfig`].
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "it has no parts")]
pub struct NomadFactory;

#[async_trait]
impl SchedulerFactory for NomadFactory {
    fn backend(&self) -> BackendName {
        BackendName::nomad()
    }

    async fn build(&self, config: Value) -> Result<Arc<dyn Scheduler>> {
        let config: NomadConfig = parse(config)?;
        Ok(Arc::new(NomadScheduler::connect_config(&config).await?))
    }

    fn render(&self, config: Value, workload: &CheckedWorkload) -> Result<Vec<Value>> {
        let config: NomadConfig = parse(config)?;
        let replicas = match &workload.kind {
            Kind::Service(service) => service.replicas.resolve(None),
            _ => 0,
        };
        let context = RenderContext::new(replicas).driver(config.driver);
        let job = render(workload, &config.owner, &context)?.job;
        let unwritable = |error: serde_json::Error| Error::new(ErrorKind::Internal, error.to_string());
        Ok(vec![serde_json::to_value(job).map_err(unwritable)?])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn causes(config: Value) -> Vec<String> {
        let config: NomadConfig = serde_json::from_value(config).unwrap();
        let error = config.connect_options().err();
        error.iter().flat_map(|error| error.causes()).map(|cause| cause.path.clone()).collect()
    }

    #[test]
    fn the_backend_has_a_name() {
        assert_eq!(NomadFactory.backend().as_str(), crate::BACKEND);
    }

    #[test]
    fn settings_that_contradict_each_other_are_named() {
        let at = |more: Value| {
            let mut config = json!({"owner": "a", "address": "http://127.0.0.1:1"});
            config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            causes(config)
        };
        assert_eq!(at(json!({})), Vec::<String>::new());
        assert_eq!(at(json!({"token": "x", "token_file": "/x"})), ["token_file"]);
        assert_eq!(at(json!({"token_file": "/no/such/file"})), ["token_file"]);
        assert_eq!(at(json!({"client_key_file": "/x"})), ["client_certificate_file"]);
        assert!(serde_json::from_value::<NomadConfig>(json!({"owner": "a", "adress": "x"})).is_err());
    }

    #[test]
    fn the_factory_renders_without_a_server() {
        let web = scheduler_core::Container::new("web", "web:1").port("http", 80);
        let web = scheduler_core::Workload::service("shop", "web").replicas(2).container(web).check().unwrap();
        let jobs = NomadFactory.render(json!({"owner": "a", "driver": "podman"}), &web).unwrap();
        assert_eq!(jobs[0]["TaskGroups"][0]["Count"], 2);
        assert_eq!(jobs[0]["TaskGroups"][0]["Tasks"][0]["Driver"], "podman");
    }

    #[test]
    fn secrets_are_neither_shown_nor_written() {
        let config = json!({"owner": "a", "address": "http://127.0.0.1:1", "token": "s3cret"});
        let config: NomadConfig = serde_json::from_value(config).unwrap();
        let shown = format!("{config:?} {}", serde_json::to_string(&config).unwrap());
        assert!(!shown.contains("s3cret"), "{shown}");
        let options = format!("{:?}", config.connect_options().unwrap());
        assert!(!options.contains("s3cret"), "{options}");
    }
}
