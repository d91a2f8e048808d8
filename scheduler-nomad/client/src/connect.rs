//! How to reach an agent.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::Full;
use tower_service::Service;

use crate::connection;
use crate::environment;
use crate::error::{Effect, Error, ErrorKind, Operation, Verb};
use crate::target::check_namespace;
use crate::transport::{HttpService, Limits, Transport};

pub(crate) const DEFAULT_ADDRESS: &str = "http://127.0.0.1:4646";
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The server waits no longer, whatever it is asked for.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// Where the agent is, who we are, and how long to wait.
///
/// Start with [`explicit`](Self::explicit) or [`from_environment`](Self::from_environment). What is set after that wins
/// over the environment. The server's certificate is verified in every case.
///
/// Files are read once, by [`Client::connect`](crate::Client::connect); connect again to renew a certificate. No proxy is
/// used, and no redirect followed.
#[derive(Clone)]
#[must_use]
pub struct ConnectOptions {
    address: String,
    token: Option<Token>,
    region: Option<String>,
    default_namespace: Option<String>,
    pub(crate) tls: TlsOptions,
    connect_timeout: Duration,
    limits: Limits,
    service: Option<HttpService>,
}

/// What is known for TLS.
#[derive(Clone, Default)]
pub(crate) struct TlsOptions {
    pub(crate) authorities: Vec<Pem>,
    pub(crate) certificate: Option<Pem>,
    pub(crate) key: Option<Pem>,
    pub(crate) server_name: Option<String>,
}

/// A PEM text or the file that has it.
#[derive(Clone)]
#[cfg_attr(not(feature = "rustls-tls"), expect(dead_code, reason = "only TLS reads what is in it"))]
pub(crate) enum Pem {
    Text(Vec<u8>),
    File(PathBuf),
}

/// The secret of an access token. `Debug` hides it.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// This secret, without white space around it.
    #[must_use]
    pub fn new(secret: impl AsRef<str>) -> Self {
        Self(secret.as_ref().trim().to_owned())
    }

    fn header(&self) -> Result<HeaderValue, String> {
        let mut value = HeaderValue::try_from(&self.0)
            .map_err(|_| "the token has a character that no header can hold, such as a line end".to_owned())?;
        value.set_sensitive(true);
        Ok(value)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl From<&str> for Token {
    fn from(secret: &str) -> Self {
        Self::new(secret)
    }
}

impl From<String> for Token {
    fn from(secret: String) -> Self {
        Self::new(secret)
    }
}

impl ConnectOptions {
    /// This agent, and nothing from the environment: `http://` or `https://` with host and port, and a path if a proxy
    /// wants one; or `unix://` with the path of a socket.
    ///
    /// Without [`certificate_authority`](Self::certificate_authority) the authorities of the operating system count.
    pub fn explicit(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            token: None,
            region: None,
            default_namespace: None,
            tls: TlsOptions::default(),
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            limits: Limits::DEFAULT,
            service: None,
        }
    }

    /// What the environment says, by the variables of Nomad's own command line: `NOMAD_ADDR` (`http://127.0.0.1:4646`
    /// unless it is set), `NOMAD_TOKEN`, `NOMAD_NAMESPACE`, `NOMAD_REGION`, `NOMAD_CACERT`, `NOMAD_CAPATH`,
    /// `NOMAD_CLIENT_CERT`, `NOMAD_CLIENT_KEY` and `NOMAD_TLS_SERVER_NAME`. An empty one counts as not set.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Configuration`] if `NOMAD_SKIP_VERIFY` is true or `NOMAD_HTTP_AUTH` is set, since this client does
    /// neither, and if a variable is no text.
    pub fn from_environment() -> Result<Self, Error> {
        environment::read(|name| std::env::var_os(name)).map_err(|why| {
            let operation = Operation::new(Verb::Connect, "by the environment", None, None);
            Error::new(ErrorKind::Configuration, Effect::NotSent, operation, why)
        })
    }

    /// The access token.
    pub fn token(mut self, token: impl Into<Token>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// The region that requests go to, by way of the agent. Its own unless said otherwise.
    pub fn region(mut self, name: impl Into<String>) -> Self {
        self.region = Some(name.into());
        self
    }

    /// What [`Client::default_namespace`](crate::Client::default_namespace) answers.
    pub fn default_namespace(mut self, name: impl Into<String>) -> Self {
        self.default_namespace = Some(name.into());
        self
    }

    /// The authorities that may have signed the server's certificate, in PEM, in place of all others.
    pub fn certificate_authority(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.tls.authorities = vec![Pem::Text(pem.into())];
        self
    }

    /// A client certificate (followed by its intermediates) and its key, in PEM.
    pub fn client_certificate(mut self, certificate_pem: impl Into<Vec<u8>>, key_pem: impl Into<Vec<u8>>) -> Self {
        self.tls.certificate = Some(Pem::Text(certificate_pem.into()));
        self.tls.key = Some(Pem::Text(key_pem.into()));
        self
    }

    /// The name that the server's certificate must be for, where it is not the host of the address. Nomad's own
    /// certificates are for `server.<region>.nomad` and `client.<region>.nomad`.
    pub fn tls_server_name(mut self, name: impl Into<String>) -> Self {
        self.tls.server_name = Some(name.into());
        self
    }

    /// How long a connection, TLS included, may take to come about. 10 seconds unless said otherwise.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// How long an answer's headers, and then each next piece of its body, may take. 45 seconds unless said otherwise. Of an
    /// event stream it covers the headers only.
    ///
    /// A blocking query is answered after [`wait`](Self::wait) and up to a sixteenth of it more, so this must be longer.
    pub fn read_timeout(mut self, limit: Duration) -> Self {
        self.limits.read = limit;
        self
    }

    /// How long one request may take in all. 30 seconds unless said otherwise. A blocking query has this time after the
    /// read time limit; an event stream has no such limit.
    pub fn total_timeout(mut self, limit: Duration) -> Self {
        self.limits.total = limit;
        self
    }

    /// How long the server holds a blocking query that has nothing new. 30 seconds unless said otherwise, 5 minutes at most.
    ///
    /// **Keep it short**: a query that is given up keeps its place among the 100 connections that a server takes from one
    /// address until this time is over.
    pub fn wait(mut self, time: Duration) -> Self {
        self.limits.wait = time;
        self
    }

    /// Sends all requests by this service instead of connections of its own. It is given whole requests, with the
    /// configured address in their URI, and TLS, pooling and connect time-outs are its business.
    ///
    /// So a test can answer by itself, a layer can stand between, and a connector of yours can be used:
    ///
    /// ```
    /// use hyper_util::client::legacy::{Client as Pool, connect::HttpConnector};
    /// use hyper_util::rt::TokioExecutor;
    /// use scheduler_nomad_client::ConnectOptions;
    ///
    /// let mut connector = HttpConnector::new();
    /// connector.set_local_address(Some([127, 0, 0, 1].into()));
    /// let service = Pool::builder(TokioExecutor::new()).build(connector);
    /// let options = ConnectOptions::explicit("http://127.0.0.1:4646").service(service);
    /// ```
    pub fn service<S, B>(mut self, service: S) -> Self
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        S::Future: Send + 'static,
        B: hyper::body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.service = Some(connection::erased(service));
        self
    }

    /// The transport, and the default namespace.
    pub(crate) fn into_parts(self) -> Result<(Transport, String), Error> {
        let operation = self.operation();
        self.build().map_err(|why| Error::new(ErrorKind::Configuration, Effect::NotSent, operation, why))
    }

    fn build(self) -> Result<(Transport, String), String> {
        let Limits { read, total, wait } = self.limits;
        if [read, total, wait, self.connect_timeout].contains(&Duration::ZERO) {
            return Err("a time limit of zero leaves no time at all".to_owned());
        }
        if wait > LONGEST_WAIT {
            return Err(format!("the server holds a blocking query for {LONGEST_WAIT:?} at most, not {wait:?}"));
        }
        if wait + wait / 16 >= read {
            return Err(format!(
                "a blocking query may be held for {wait:?} and a sixteenth more, so the read time limit of {read:?} is \
                 too short"
            ));
        }
        let namespace = self.default_namespace.unwrap_or_else(|| "default".to_owned());
        check_namespace(&namespace)?;
        let token = self.token.as_ref().map(Token::header).transpose()?;
        let address = Address::parse(&self.address)?;
        let server = address.to_string();
        let base = match &address {
            Address::Unix(_) => "http://localhost".to_owned(),
            Address::Tcp { .. } => server.clone(),
        };
        let secure = matches!(address, Address::Tcp { secure: true, .. });
        if !secure && self.tls.is_set() && self.service.is_none() {
            return Err("certificates or a TLS server name are configured, but the address is not https://".to_owned());
        }
        let service = match (self.service, address) {
            (Some(service), _) => service,
            (None, Address::Unix(path)) => connection::unix(path, self.connect_timeout)?,
            (None, Address::Tcp { secure: false, .. }) => connection::plain(self.connect_timeout),
            (None, Address::Tcp { secure: true, .. }) => self.tls.connect(self.connect_timeout)?,
        };
        Ok((Transport { service, base, server, token, region: self.region, limits: self.limits }, namespace))
    }

    fn operation(&self) -> Operation {
        let server = match Address::parse(&self.address) {
            Ok(address) => format!("to {address}"),
            Err(_) => "to the given server".to_owned(),
        };
        Operation::new(Verb::Connect, &server, None, None)
    }
}

impl TlsOptions {
    fn is_set(&self) -> bool {
        !self.authorities.is_empty() || self.certificate.is_some() || self.key.is_some() || self.server_name.is_some()
    }

    #[cfg(feature = "rustls-tls")]
    fn connect(self, limit: Duration) -> Result<HttpService, String> {
        let server_name = self.server_name.clone().map(crate::tls::server_name).transpose()?;
        Ok(connection::secure(crate::tls::config(self)?, server_name, limit))
    }

    #[cfg(not(feature = "rustls-tls"))]
    fn connect(self, _: Duration) -> Result<HttpService, String> {
        Err("https:// is of use with the feature rustls-tls only".to_owned())
    }
}

impl fmt::Debug for ConnectOptions {
    /// Without keys and tokens.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectOptions")
            .field("operation", &self.operation().to_string())
            .field("token", &self.token)
            .field("region", &self.region)
            .field("default_namespace", &self.default_namespace)
            .field("certificate_authority", &!self.tls.authorities.is_empty())
            .field("client_certificate", &self.tls.certificate.is_some())
            .field("tls_server_name", &self.tls.server_name)
            .field("connect_timeout", &self.connect_timeout)
            .field("limits", &self.limits)
            .field("service", &self.service.is_some())
            .finish_non_exhaustive()
    }
}

/// Where an agent listens. Displays without user info.
enum Address {
    Unix(PathBuf),
    Tcp { secure: bool, authority: String, path: String },
}

impl Address {
    fn parse(text: &str) -> Result<Self, String> {
        const NO_URL: &str =
            "the server's address must begin with http://, https:// or unix:// and name a host or socket";
        if let Some(path) = text.strip_prefix("unix://") {
            if path.is_empty() {
                return Err(NO_URL.to_owned());
            }
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        let uri: Uri = text.parse().map_err(|_| NO_URL.to_owned())?;
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(NO_URL.to_owned()),
        };
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        if authority.contains('@') {
            return Err("the server's address has a user name, which this client sends to nobody".to_owned());
        }
        if uri.query().is_some() {
            return Err("the server's address has a query string".to_owned());
        }
        if uri.host().is_none_or(str::is_empty) {
            return Err(NO_URL.to_owned());
        }
        Ok(Self::Tcp { secure, authority: authority.to_owned(), path: uri.path().trim_end_matches('/').to_owned() })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp { secure, authority, path } => {
                write!(f, "http{}://{authority}{path}", if *secure { "s" } else { "" })
            }
        }
    }
}
