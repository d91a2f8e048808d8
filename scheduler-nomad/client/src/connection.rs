//! The stack below: connect, pool, speak HTTP/1.1.

use std::future::poll_fn;
use std::io;
#[cfg(unix)]
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::rt::{Read, Write};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::timeout;
use tower_service::Service;

use crate::failure::BoxError;
use crate::transport::{Body, Http, HttpService};

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
    Ok(pooled(Socket(Arc::from(path)), limit))
}

#[cfg(not(unix))]
pub(crate) fn unix(_: PathBuf, _: Duration) -> Result<HttpService, String> {
    Err("this system has no unix sockets".to_owned())
}

/// Connects to a socket, wherever the request goes.
#[cfg(unix)]
#[derive(Clone)]
struct Socket(Arc<Path>);

#[cfg(unix)]
impl Service<Uri> for Socket {
    type Response = hyper_util::rt::TokioIo<tokio::net::UnixStream>;
    type Error = io::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let path = Arc::clone(&self.0);
        Box::pin(async move { tokio::net::UnixStream::connect(path).await.map(hyper_util::rt::TokioIo::new) })
    }
}

/// Gives each connection this time to come about, TLS included.
#[derive(Clone)]
struct Limited<C> {
    connector: C,
    limit: Duration,
}

impl<C> Service<Uri> for Limited<C>
where
    C: Service<Uri> + Clone + Send + 'static,
    C::Error: Into<BoxError>,
    C::Future: Send,
{
    type Response = C::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        // Readiness is part of what the limit is for.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (connector, limit) = (self.connector.clone(), self.limit);
        Box::pin(async move {
            match timeout(limit, once(connector, uri)).await {
                Ok(connection) => connection.map_err(Into::into),
                Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
            }
        })
    }
}

/// Any service of HTTP, in the one form that the transport knows.
struct Erased<S>(S);

impl<S, B> Http for Erased<S>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    fn send(&self, request: Request<Full<Bytes>>) -> BoxFuture<'static, Result<Response<Body>, BoxError>> {
        let service = self.0.clone();
        Box::pin(async move {
            let response = once(service, request).await.map_err(Into::into)?;
            Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
        })
    }
}

pub(crate) fn erased<S, B>(service: S) -> HttpService
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    Arc::new(Erased(service))
}

/// Waits until the service is ready, and calls it.
async fn once<S: Service<R>, R>(mut service: S, request: R) -> Result<S::Response, S::Error> {
    poll_fn(|context| service.poll_ready(context)).await?;
    service.call(request).await
}

fn pooled<C, Io>(connector: C, limit: Duration) -> HttpService
where
    C: Service<Uri, Response = Io> + Clone + Send + Sync + 'static,
    C::Error: Into<BoxError> + Send,
    C::Future: Send + 'static,
    Io: Read + Write + Connection + Unpin + Send + 'static,
{
    let client = legacy::Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_max_idle_per_host(MAX_IDLE)
        .build::<_, Full<Bytes>>(Limited { connector, limit });
    erased(client)
}
