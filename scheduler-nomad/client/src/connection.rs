//! The stack below: connect, pool, speak HTTP/1.1.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::rt::{Read, Write};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::client::legacy::{self};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::time::timeout;
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt, service_fn};

use crate::failure::BoxError;
use crate::transport::{Body, HttpService};

/// Idle connections that are kept. A server takes 100 from one address unless it is configured otherwise.
const MAX_IDLE: usize = 16;

/// Plain HTTP over TCP.
pub(crate) fn plain(limit: Duration) -> HttpService {
    pooled(HttpConnector::new(), limit)
}

/// HTTPS over TCP.
#[cfg(feature = "rustls-tls")]
pub(crate) fn secure(
    config: rustls::ClientConfig,
    server_name: Option<rustls::pki_types::ServerName<'static>>,
    limit: Duration,
) -> HttpService {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    let builder = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(config).https_only();
    let builder = match server_name {
        Some(name) => builder.with_server_name_resolver(hyper_rustls::FixedServerNameResolver::new(name)),
        None => builder,
    };
    pooled(builder.enable_http1().wrap_connector(tcp), limit)
}

/// HTTP over a unix socket.
#[cfg(unix)]
pub(crate) fn unix(path: PathBuf, limit: Duration) -> Result<HttpService, String> {
    let connector = service_fn(move |_: Uri| {
        let path = path.clone();
        async move { tokio::net::UnixStream::connect(path).await.map(TokioIo::new) }
    });
    Ok(pooled(connector, limit))
}

#[cfg(not(unix))]
pub(crate) fn unix(_: PathBuf, _: Duration) -> Result<HttpService, String> {
    Err("this system has no unix sockets".to_owned())
}

/// Any service of HTTP, in the one form that the transport knows.
pub(crate) fn erased<S, B>(service: S) -> HttpService
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let service = service
        .map_response(|response: Response<B>| response.map(|body| -> Body { body.map_err(Into::into).boxed_unsync() }))
        .map_err(Into::into);
    BoxCloneSyncService::new(service)
}

/// A pool over a connector, each of whose connections has this time to come about, TLS included.
fn pooled<C, Io>(connector: C, limit: Duration) -> HttpService
where
    C: Service<Uri, Response = Io> + Clone + Send + Sync + 'static,
    C::Error: Into<BoxError> + Send,
    C::Future: Send + 'static,
    Io: Read + Write + Connection + Unpin + Send + 'static,
{
    let connector = service_fn(move |uri: Uri| {
        let connector = connector.clone();
        Box::pin(async move {
            match timeout(limit, connector.oneshot(uri)).await {
                Ok(connection) => connection.map_err(Into::into),
                Err(_) => Err(BoxError::from(std::io::Error::from(std::io::ErrorKind::TimedOut))),
            }
        })
    });
    let client = legacy::Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_max_idle_per_host(MAX_IDLE)
        .build::<_, Full<Bytes>>(connector);
    erased(client)
}
