//! How to reach a server.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use kube::Config;
use kube::config::AuthInfo;

use crate::credentials;
use crate::error::{Effect, Error, ErrorKind, Operation, Verb};
use crate::kubeconfig;
use crate::transport::{Limits, Transport};

const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Where the server is, who we are, and how long to wait.
///
/// Start with [`kubeconfig`](Self::kubeconfig), [`kubeconfig_files`](Self::kubeconfig_files),
/// [`in_cluster`](Self::in_cluster) or [`explicit`](Self::explicit). What is set after that wins over what the files
/// say, as the flags of `kubectl` do. The server's certificate is verified in every case, unless
/// [`danger_accept_invalid_certificates`](Self::danger_accept_invalid_certificates) is called or the kubeconfig itself
/// has `insecure-skip-tls-verify`.
///
/// Proxies come from the kubeconfig (`proxy-url`) or from [`proxy`](Self::proxy), never from `HTTPS_PROXY`.
///
/// # What is read again
///
/// A token file about once a minute, and so is the in-cluster authority. A credential plugin runs again before its
/// token expires. Everything else — client certificate, key, a kubeconfig's authority, the kubeconfig — is read once, by
/// [`Client::connect`](crate::Client::connect), whether it is a file or embedded; connect again to renew it. When the
/// server refuses a client certificate that expired, the error says when that was.
///
/// # Credential plugins
///
/// A kubeconfig with `exec` names a program, and connecting **runs it**, several times and on the calling thread; it
/// may ask questions on the terminal unless its `interactiveMode` is `Never`. Never use a kubeconfig from somebody you
/// do not trust.
#[derive(Clone)]
#[must_use]
pub struct ConnectOptions {
    source: Source,
    context: Option<String>,
    certificate_authority: Option<Vec<u8>>,
    client_certificate: Option<(Vec<u8>, Vec<u8>)>,
    token: Option<Token>,
    proxy: Option<String>,
    tls_server_name: Option<String>,
    default_namespace: Option<String>,
    accept_invalid_certificates: bool,
    connect_timeout: Duration,
    limits: Limits,
}

#[derive(Debug, Clone)]
enum Source {
    Environment,
    Files(Vec<PathBuf>),
    InCluster,
    Explicit(String),
}

#[derive(Clone)]
enum Token {
    Text(String),
    File(PathBuf),
}

impl ConnectOptions {
    fn new(source: Source) -> Self {
        Self {
            source,
            context: None,
            certificate_authority: None,
            client_certificate: None,
            token: None,
            proxy: None,
            tls_server_name: None,
            default_namespace: None,
            accept_invalid_certificates: false,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            limits: Limits::DEFAULT,
        }
    }

    /// The files that `KUBECONFIG` lists, merged, or else `~/.kube/config`.
    pub fn kubeconfig() -> Self {
        Self::new(Source::Environment)
    }

    /// These kubeconfig files, merged as `kubectl` does: the first to name a context, cluster or user wins. Each has to be
    /// there.
    pub fn kubeconfig_files<P: Into<PathBuf>>(paths: impl IntoIterator<Item = P>) -> Self {
        Self::new(Source::Files(paths.into_iter().map(Into::into).collect()))
    }

    /// The service account of the pod that we run in: `KUBERNETES_SERVICE_HOST`, `KUBERNETES_SERVICE_PORT` and the files
    /// under `/var/run/secrets/kubernetes.io/serviceaccount`.
    pub fn in_cluster() -> Self {
        Self::new(Source::InCluster)
    }

    /// This server, such as `https://10.0.0.1:6443`, and nothing from files or the environment.
    ///
    /// Without [`certificate_authority`](Self::certificate_authority) the authorities of the operating system count.
    pub fn explicit(url: impl Into<String>) -> Self {
        Self::new(Source::Explicit(url.into()))
    }

    /// The kubeconfig's context to use, instead of its current one.
    pub fn context(mut self, name: impl Into<String>) -> Self {
        self.context = Some(name.into());
        self
    }

    /// The authorities that may have signed the server's certificate, in PEM.
    pub fn certificate_authority(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.certificate_authority = Some(pem.into());
        self
    }

    /// A client certificate (followed by its intermediates) and its key, in PEM.
    pub fn client_certificate(mut self, certificate_pem: impl Into<Vec<u8>>, key_pem: impl Into<Vec<u8>>) -> Self {
        self.client_certificate = Some((certificate_pem.into(), key_pem.into()));
        self
    }

    /// A bearer token. Replaces every other way to get one.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(Token::Text(token.into()));
        self
    }

    /// A file with a bearer token, read again about once a minute. Replaces every other way to get one.
    pub fn token_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.token = Some(Token::File(path.into()));
        self
    }

    /// A proxy for everything, `http://` or `https://`, with user and password in the URL if it wants them.
    pub fn proxy(mut self, url: impl Into<String>) -> Self {
        self.proxy = Some(url.into());
        self
    }

    /// The name that the server's certificate must be for, where it is not the one in the URL.
    pub fn tls_server_name(mut self, name: impl Into<String>) -> Self {
        self.tls_server_name = Some(name.into());
        self
    }

    /// What [`Client::default_namespace`](crate::Client::default_namespace) answers.
    pub fn default_namespace(mut self, name: impl Into<String>) -> Self {
        self.default_namespace = Some(name.into());
        self
    }

    /// **Does not verify the server's certificate.** Whoever sits on the wire gets the token and everything else.
    pub fn danger_accept_invalid_certificates(mut self) -> Self {
        self.accept_invalid_certificates = true;
        self
    }

    /// How long a connection, TLS included, may take to come about. 10 seconds unless said otherwise.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// How long an answer's headers, and then each next piece of its body, may take. 20 seconds unless said otherwise.
    /// Of a watch it covers the headers only.
    pub fn read_timeout(mut self, limit: Duration) -> Self {
        self.limits.read = limit;
        self
    }

    /// How long one request may take in all. 30 seconds unless said otherwise. A list is one request for each page; a
    /// watch has no such limit.
    pub fn total_timeout(mut self, limit: Duration) -> Self {
        self.limits.total = limit;
        self
    }

    pub(crate) async fn into_transport(self) -> Result<Transport, Error> {
        let operation = self.operation();
        let limits = self.limits;
        let config = self.into_config(&operation).await?;
        let server = without_user_info(&config.cluster_url);
        let operation = Operation { resource: server.clone(), ..operation };
        if config.cluster_url.scheme_str() == Some("https") {
            credentials::ensure_crypto_provider().map_err(|why| configuration(&operation, why))?;
        }
        credentials::check_token(&config.auth_info).map_err(|why| configuration(&operation, why))?;
        let kube = kube::Client::try_from(config.clone())
            .map_err(|error| configuration(&operation, kubeconfig::describe_client(&error)))?;
        let credentials_note = credentials::note(&config);
        Ok(Transport { kube, limits, server: Some(server), credentials_note })
    }

    async fn into_config(self, operation: &Operation) -> Result<Config, Error> {
        let refuse = |why: String| configuration(operation, why);
        if self.context.is_some() && !matches!(self.source, Source::Environment | Source::Files(_)) {
            return Err(refuse("a context is part of a kubeconfig, and none is used".to_owned()));
        }
        let mut config = match self.source {
            Source::Environment => {
                let listed = std::env::var_os("KUBECONFIG");
                let paths = kubeconfig::default_paths(listed.as_deref(), std::env::home_dir()).map_err(refuse)?;
                kubeconfig::load(&paths, self.context).await.map_err(refuse)?
            }
            Source::Files(paths) => kubeconfig::load(&paths, self.context).await.map_err(refuse)?,
            Source::InCluster => Config::incluster_env().map_err(|error| refuse(kubeconfig::describe_pod(&error)))?,
            Source::Explicit(url) => Config::new(server_url(&url).map_err(refuse)?),
        };
        config.default_retry = false;
        config.connect_timeout = Some(self.connect_timeout);
        config.accept_invalid_certs |= self.accept_invalid_certificates;
        if let Some(pem) = self.certificate_authority {
            config.root_cert = Some(credentials::authorities(&pem).map_err(refuse)?);
            config.root_cert_file = None;
        }
        if let Some((certificate, key)) = self.client_certificate {
            config.auth_info.client_certificate_data = Some(credentials::base64(&certificate));
            config.auth_info.client_key_data = Some(credentials::base64(&key).into());
        }
        if let Some(token) = self.token {
            let rest = config.auth_info;
            config.auth_info = AuthInfo {
                username: None,
                password: None,
                token: None,
                token_file: None,
                auth_provider: None,
                exec: None,
                ..rest
            };
            match token {
                Token::Text(token) => config.auth_info.token = Some(token.into()),
                Token::File(path) => config.auth_info.token_file = Some(path.to_string_lossy().into_owned()),
            }
        }
        if let Some(proxy) = self.proxy {
            let uri = proxy.parse().map_err(|_| refuse("the proxy is no URL".to_owned()))?;
            config.proxy_url = Some(uri);
        }
        if self.tls_server_name.is_some() {
            config.tls_server_name = self.tls_server_name;
        }
        if let Some(namespace) = self.default_namespace {
            config.default_namespace = namespace;
        }
        Ok(config)
    }

    fn operation(&self) -> Operation {
        let resource = match &self.source {
            Source::Environment => "by the kubeconfig of the environment".to_owned(),
            Source::Files(paths) => {
                let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
                format!("by kubeconfig {}", paths.join(", "))
            }
            Source::InCluster => "from inside the cluster".to_owned(),
            Source::Explicit(url) => match server_url(url) {
                Ok(url) => without_user_info(&url),
                Err(_) => "to the given server".to_owned(),
            },
        };
        Operation { verb: Verb::Connect, resource, namespace: None, name: None }
    }
}

impl fmt::Debug for ConnectOptions {
    /// Without keys, tokens and what a proxy's URL may hold.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectOptions")
            .field("operation", &self.operation().to_string())
            .field("context", &self.context)
            .field("certificate_authority", &self.certificate_authority.is_some())
            .field("client_certificate", &self.client_certificate.is_some())
            .field("token", &self.token.is_some())
            .field("proxy", &self.proxy.is_some())
            .field("tls_server_name", &self.tls_server_name)
            .field("default_namespace", &self.default_namespace)
            .field("accept_invalid_certificates", &self.accept_invalid_certificates)
            .field("connect_timeout", &self.connect_timeout)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

fn configuration(operation: &Operation, why: String) -> Error {
    Error::new(ErrorKind::Configuration, Effect::NotSent, operation.clone(), why)
}

fn server_url(text: &str) -> Result<Uri, String> {
    let uri: Uri = text.parse().map_err(|_| "the server's address is no URL".to_owned())?;
    match (uri.scheme_str(), uri.host()) {
        (Some("https" | "http"), Some(host)) if !host.is_empty() => Ok(uri),
        _ => Err("the server's address must begin with https:// (or http://) and name a host".to_owned()),
    }
}

fn without_user_info(uri: &Uri) -> String {
    let scheme = uri.scheme_str().unwrap_or("https");
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{}", uri.path().trim_end_matches('/'))
}
