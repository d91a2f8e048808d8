//! The client and its reads.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::connect::ConnectOptions;
use crate::error::{Effect, Error, ErrorKind, Missing, Operation, Verb};
use crate::resource::{PathAndQuery, Resource};
use crate::transport::{Call, Limits, Transport};

/// How often a list starts over because its continue token expired.
const MAX_LIST_RESTARTS: usize = 3;
/// Objects per page, as in other Kubernetes clients.
const DEFAULT_PAGE_SIZE: u32 = 500;

/// A connection to one API server. Cheap to clone.
///
/// Every method sends exactly the requests that its documentation counts: nothing is repeated, no task runs on its own.
/// (The connection pool below may put a request on a fresh connection when it finds, before writing it, that a pooled
/// one is dead.) All futures can be dropped at any time; what a dropped write did is unknown.
///
/// A client lives on the runtime that it was made on and ends with it ([`ErrorKind::Closed`]). Make one per runtime.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    transport: Transport,
    version: Option<ServerVersion>,
}

/// What a server says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerVersion {
    /// Major version; 1 until further notice.
    pub major: u32,
    /// Minor version. A vendor's trailing mark, as in `33+`, is dropped.
    pub minor: u32,
    /// The full version, such as `v1.36.3`.
    pub git_version: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawVersion {
    major: String,
    minor: String,
    git_version: String,
}

/// What a list is limited to, and how it is read.
#[derive(Debug, Clone, Default)]
pub struct ListOptions {
    label_selector: Option<String>,
    field_selector: Option<String>,
    page_size: Option<u32>,
}

impl ListOptions {
    /// Everything.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Only objects whose labels match, such as `app=web,tier!=cache`.
    #[must_use]
    pub fn label_selector(mut self, selector: impl Into<String>) -> Self {
        self.label_selector = Some(selector.into());
        self
    }

    /// Only objects whose fields match, such as `metadata.name=web`. Which fields can be asked for depends on the kind.
    #[must_use]
    pub fn field_selector(mut self, selector: impl Into<String>) -> Self {
        self.field_selector = Some(selector.into());
        self
    }

    /// Objects per request, 500 unless said otherwise. Zero asks for everything in one request.
    #[must_use]
    pub fn page_size(mut self, objects: u32) -> Self {
        self.page_size = Some(objects);
        self
    }

    pub(crate) fn push_selectors(&self, target: &mut PathAndQuery) {
        if let Some(selector) = &self.label_selector {
            target.push("labelSelector", selector);
        }
        if let Some(selector) = &self.field_selector {
            target.push("fieldSelector", selector);
        }
    }
}

/// A complete list.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct List<T> {
    /// The objects. Inside of lists the server leaves their `apiVersion` and `kind` out.
    pub items: Vec<T>,
    /// The version that the list shows. Opaque; a watch can start from it.
    pub resource_version: String,
    /// The server's clock when it answered for the first page, if it told.
    pub served_at: Option<SystemTime>,
}

#[derive(Deserialize)]
struct Page<T> {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(default = "Vec::new")]
    items: Vec<T>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PageMetadata {
    resource_version: String,
    r#continue: String,
}

impl Client {
    /// Connects, and asks the server for its version once. Cost: one request, `GET /version`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Configuration`] before anything is sent; otherwise what the request met.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime with time and I/O enabled, like everything in tokio.
    pub async fn connect(options: ConnectOptions) -> Result<Self, Error> {
        let transport = options.into_transport().await?;
        let version = version(&transport).await?;
        Ok(Self(Arc::new(Inner { transport, version: Some(version) })))
    }

    /// Uses a ready client. Sends nothing, so [`server_version`](Self::server_version) is `None`.
    ///
    /// What is below is yours: its proxy, its layers, and its retry policy, which cannot be seen from here. kube's own
    /// default repeats 429, 503 and 504 up to 15 times, writes included; switch it off by `config.default_retry =
    /// false`. Requests have the default time limits of [`ConnectOptions`].
    #[must_use]
    pub fn new(kube: kube::Client) -> Self {
        let transport = Transport { kube, limits: Limits::DEFAULT, server: None, credentials_note: None };
        Self(Arc::new(Inner { transport, version: None }))
    }

    /// The client below, for what this crate does not do. Requests sent there are not classified as here.
    #[must_use]
    pub fn kube(&self) -> &kube::Client {
        &self.0.transport.kube
    }

    /// The namespace that the kubeconfig's context, the pod, or [`ConnectOptions::default_namespace`] names; else
    /// `default`.
    #[must_use]
    pub fn default_namespace(&self) -> &str {
        self.0.transport.kube.default_namespace()
    }

    /// The version that the server told when we connected; `None` for a client made by [`new`](Self::new).
    #[must_use]
    pub fn server_version(&self) -> Option<&ServerVersion> {
        self.0.version.as_ref()
    }

    /// Asks the server for its version: also the cheapest way to see that it answers. Cost: one request.
    ///
    /// Any client may ask this on a default server, so it says little about our rights.
    ///
    /// # Errors
    ///
    /// What the request met.
    pub async fn version(&self) -> Result<ServerVersion, Error> {
        version(&self.0.transport).await
    }

    /// Reads one object. Cost: one request.
    ///
    /// `None` only if the server says that this very object is absent. `namespace` is `None` for cluster-scoped kinds
    /// only.
    ///
    /// # Errors
    ///
    /// What the request met. A namespace that does not exist is no error here: the server says that the object is
    /// absent. A path that does not exist is [`Missing::Path`].
    pub async fn get<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<T>, Error> {
        let operation = resource.operation(Verb::Get, namespace, Some(name));
        let target = PathAndQuery::new(resource.path(&operation)?);
        match self.read(operation.clone(), Some(*resource), target).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.kind() == ErrorKind::NotFound(Missing::Object) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads all objects of a kind, in one namespace or (`None`) everywhere. Cost: one request per page.
    ///
    /// The server keeps the snapshot behind a list for some minutes. If it is gone between two pages (410), the list
    /// starts over, at most three times; so the result is one consistent snapshot, whatever it took.
    ///
    /// # Errors
    ///
    /// What a request met; nothing of a list that failed half-way is returned. A namespace that does not exist has an
    /// empty list.
    pub async fn list<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<List<T>, Error> {
        let operation = resource.operation(Verb::List, namespace, None);
        let path = resource.path(&operation)?;
        let mut restarts = 0;
        'restart: loop {
            let mut items = Vec::new();
            let mut token = String::new();
            let mut served_at = None;
            loop {
                let mut target = PathAndQuery::new(path.clone());
                options.push_selectors(&mut target);
                match options.page_size.unwrap_or(DEFAULT_PAGE_SIZE) {
                    0 => {}
                    limit => target.push("limit", &limit.to_string()),
                }
                if !token.is_empty() {
                    target.push("continue", &token);
                }
                let call = get(&operation, Some(*resource), target);
                let answer = match self.transport().exchange(call).await {
                    Ok(answer) => answer,
                    Err(error)
                        if error.kind() == ErrorKind::Gone && !token.is_empty() && restarts < MAX_LIST_RESTARTS =>
                    {
                        restarts += 1;
                        continue 'restart;
                    }
                    Err(error) => return Err(error),
                };
                let page: Page<T> = answer.json(&operation)?;
                served_at = served_at.or(answer.served_at);
                items.extend(page.items);
                token = page.metadata.r#continue;
                if token.is_empty() {
                    return Ok(List { items, resource_version: page.metadata.resource_version, served_at });
                }
            }
        }
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.0.transport
    }

    pub(crate) async fn read<T: DeserializeOwned>(
        &self,
        operation: Operation,
        resource: Option<Resource>,
        target: PathAndQuery,
    ) -> Result<T, Error> {
        read(&self.0.transport, operation, resource, target).await
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("server", &self.0.transport.server)
            .field("version", &self.0.version)
            .field("limits", &self.0.transport.limits)
            .finish_non_exhaustive()
    }
}

impl Limits {
    pub(crate) const DEFAULT: Self = Self { read: Duration::from_secs(20), total: Duration::from_secs(30) };
}

async fn read<T: DeserializeOwned>(
    transport: &Transport,
    operation: Operation,
    resource: Option<Resource>,
    target: PathAndQuery,
) -> Result<T, Error> {
    transport.exchange(get(&operation, resource, target)).await?.json(&operation)
}

fn get(operation: &Operation, resource: Option<Resource>, target: PathAndQuery) -> Call {
    Call { operation: operation.clone(), resource, method: Method::GET, target, body: None }
}

async fn version(transport: &Transport) -> Result<ServerVersion, Error> {
    let operation = Operation { verb: Verb::Get, resource: "/version".to_owned(), namespace: None, name: None };
    let target = PathAndQuery::new("/version".to_owned());
    let raw: RawVersion = read(transport, operation.clone(), None, target).await?;
    match (number(&raw.major), number(&raw.minor)) {
        (Some(major), Some(minor)) => Ok(ServerVersion { major, minor, git_version: raw.git_version }),
        _ => {
            let detail = "the server's version is not of the form major.minor";
            Err(Error::new(ErrorKind::MalformedAnswer, Effect::Unknown, operation, detail))
        }
    }
}

fn number(text: &str) -> Option<u32> {
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}
