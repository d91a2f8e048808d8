//! How to reach a cluster, as a configuration file says it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use scheduler_core::registry::{self, SchedulerFactory, parse};
use scheduler_core::{BackendName, CheckedWorkload, Error, Kind, OwnerId, Result, Scheduler, Seconds};
use scheduler_k8s_client::ConnectOptions;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{KubernetesScheduler, RenderContext, render};

/// The settings of one cluster, for configuration files.
///
/// One of `kubeconfig`, `in_cluster` and `url` says where it is; with none of them the kubeconfig of the environment counts
/// (`KUBECONFIG`, else `~/.kube/config`). Secrets are named by their files, but for `token`.
///
/// ```
/// let config: scheduler_k8s::KubernetesConfig = serde_json::from_value(serde_json::json!({
///     "owner": "platform",
///     "kubeconfig": "/etc/platform/kubeconfig",
///     "context": "staging",
/// }))?;
/// assert_eq!(config.owner.as_str(), "platform");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct KubernetesConfig {
    /// Whose workloads these are.
    pub owner: OwnerId,
    /// A kubeconfig file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context, instead of its current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// By the service account of the pod that this runs in.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_cluster: bool,
    /// The server's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The authorities that may have signed the server's certificate, in PEM. Else those of the system or the kubeconfig.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// A client certificate, in PEM; goes with `client_key_file`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate_file: Option<PathBuf>,
    /// The key of the client certificate, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_key_file: Option<PathBuf>,
    /// A bearer token. A file is better.
    #[serde(default, skip_serializing)]
    pub token: Option<String>,
    /// A file with a bearer token, read again about once a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// A proxy for everything. Its address may hold a password.
    #[serde(default, skip_serializing)]
    pub proxy: Option<String>,
    /// The name that the server's certificate must be for, where it is not the one in the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_server_name: Option<String>,
    /// The class of the Ingresses that expose workloads; the cluster's default class if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress_class: Option<String>,
    /// How long a connection may take to come about. 10 s if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect_timeout: Option<Seconds>,
    /// How long the server may be silent within a request. 20 s if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_timeout: Option<Seconds>,
    /// How long a request may take in all. 30 s if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_timeout: Option<Seconds>,
}

impl std::fmt::Debug for KubernetesConfig {
    /// Without the token and the proxy.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubernetesConfig")
            .field("owner", &self.owner)
            .field("kubeconfig", &self.kubeconfig)
            .field("context", &self.context)
            .field("in_cluster", &self.in_cluster)
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl KubernetesConfig {
    /// What it says, for the client. Reads the files that it names.
    ///
    /// # Errors
    /// [`InvalidArgument`](scheduler_core::ErrorKind::InvalidArgument) with the settings that contradict each other or name
    /// a file that cannot be read.
    pub fn connect_options(&self) -> Result<ConnectOptions> {
        let sources =
            [("kubeconfig", self.kubeconfig.is_some()), ("in_cluster", self.in_cluster), ("url", self.url.is_some())];
        let named: Vec<&str> = sources.iter().filter(|(_, named)| *named).map(|(name, _)| *name).collect();
        if let [first, second, ..] = *named {
            return Err(refuse(second, format!("cannot stand beside {first}; one of them says where the cluster is")));
        }
        if self.token.is_some() && self.token_file.is_some() {
            return Err(refuse("token_file", "cannot stand beside token"));
        }
        let mut options = match (&self.kubeconfig, &self.url) {
            (Some(path), _) => ConnectOptions::kubeconfig_files([path]),
            (_, Some(url)) => ConnectOptions::explicit(url),
            _ if self.in_cluster => ConnectOptions::in_cluster(),
            _ => ConnectOptions::kubeconfig(),
        };
        if let Some(context) = &self.context {
            options = options.context(context);
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
        if let Some(token) = &self.token {
            options = options.token(token);
        }
        if let Some(path) = &self.token_file {
            options = options.token_file(path);
        }
        if let Some(proxy) = &self.proxy {
            options = options.proxy(proxy);
        }
        if let Some(name) = &self.tls_server_name {
            options = options.tls_server_name(name);
        }
        let limit = |seconds: Seconds| Duration::from(seconds);
        if let Some(seconds) = self.connect_timeout {
            options = options.connect_timeout(limit(seconds));
        }
        if let Some(seconds) = self.read_timeout {
            options = options.read_timeout(limit(seconds));
        }
        if let Some(seconds) = self.total_timeout {
            options = options.total_timeout(limit(seconds));
        }
        Ok(options)
    }
}

impl KubernetesScheduler {
    /// Connects as a configuration says. Cost: one request.
    ///
    /// # Errors
    /// As [`connect`](Self::connect) and [`KubernetesConfig::connect_options`].
    pub async fn connect_config(config: &KubernetesConfig) -> Result<Self> {
        let scheduler = Self::connect(config.connect_options()?, config.owner.clone()).await?;
        Ok(match &config.ingress_class {
            Some(class) => scheduler.ingress_class(class),
            None => scheduler,
        })
    }
}

fn read(setting: &str, path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| refuse(setting, format!("cannot read {}: {error}", path.display())))
}

fn refuse(setting: &str, problem: impl Into<String>) -> Error {
    registry::refuse(setting, problem).with_backend(&BackendName::kubernetes())
}

/// Builds Kubernetes schedulers for a [`Registry`](scheduler_core::registry::Registry); the settings are
/// [`KubernetesConfig`].
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "it has no parts")]
pub struct KubernetesFactory;

#[async_trait]
impl SchedulerFactory for KubernetesFactory {
    fn backend(&self) -> BackendName {
        BackendName::kubernetes()
    }

    async fn build(&self, config: Value) -> Result<Arc<dyn Scheduler>> {
        let config: KubernetesConfig = parse(config)?;
        Ok(Arc::new(KubernetesScheduler::connect_config(&config).await?))
    }

    fn render(&self, config: Value, workload: &CheckedWorkload) -> Result<Vec<Value>> {
        let config: KubernetesConfig = parse(config)?;
        let count = match &workload.kind {
            Kind::Service(service) => service.replicas.resolve(None),
            _ => 0,
        };
        let context = RenderContext::new(count);
        let rendered = render(workload, &config.owner, &context)?;
        Ok(rendered.objects().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn causes(config: Value) -> Vec<String> {
        let config: KubernetesConfig = serde_json::from_value(config).unwrap();
        let error = config.connect_options().map(|_| ()).unwrap_err();
        error.causes().iter().map(|cause| cause.path.clone()).collect()
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused_by_name() {
        for (config, path) in [
            (json!({"owner": "a", "kubeconfig": "/k", "url": "https://10.0.0.1"}), "url"),
            (json!({"owner": "a", "kubeconfig": "/k", "in_cluster": true}), "in_cluster"),
            (json!({"owner": "a", "token": "t", "token_file": "/t"}), "token_file"),
            (json!({"owner": "a", "client_key_file": "/k"}), "client_certificate_file"),
            (json!({"owner": "a", "client_certificate_file": "/c"}), "client_key_file"),
            (json!({"owner": "a", "ca_file": "/no/such/file"}), "ca_file"),
        ] {
            assert_eq!(causes(config.clone()), [path], "{config}");
        }
    }

    #[tokio::test]
    async fn the_factory_names_the_setting_that_is_wrong() {
        for (config, path) in [
            (json!({"owner": "a", "kubeconfg": "/k"}), "kubeconfg"),
            (json!({"owner": "not/an/owner"}), "owner"),
            (json!({"owner": "a", "read_timeout": "soon"}), "read_timeout"),
        ] {
            let error = KubernetesFactory.build(config.clone()).await.map(|_| ()).unwrap_err();
            assert_eq!(error.causes()[0].path, path, "{config}");
        }
    }

    #[test]
    fn the_factory_renders_without_a_server() {
        let web = scheduler_core::Container::new("web", "web:1").port("http", 80);
        let web = scheduler_core::Workload::service("shop", "web").replicas(2).container(web).check().unwrap();
        let objects = KubernetesFactory.render(json!({"owner": "a", "in_cluster": true}), &web).unwrap();
        let kinds: Vec<_> = objects.iter().map(|object| object["kind"].as_str()).collect();
        assert_eq!(kinds, [Some("Deployment"), Some("Service")]);
        assert_eq!(objects[0]["spec"]["replicas"], 2);
    }

    #[test]
    fn secrets_are_neither_shown_nor_written() {
        let config = json!({"owner": "a", "token": "s3cret", "proxy": "http://u:s3cret@proxy"});
        let config: KubernetesConfig = serde_json::from_value(config).unwrap();
        let shown = format!("{config:?} {}", serde_json::to_string(&config).unwrap());
        assert!(!shown.contains("s3cret"), "{shown}");
        let options = format!("{:?}", config.connect_options().unwrap());
        assert!(!options.contains("s3cret"), "{options}");
    }
}
