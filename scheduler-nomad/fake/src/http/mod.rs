//! The HTTP side: connections, routes, and everything that waits.

mod access;
mod allocation;
mod answer;
mod filter;
mod launch;
mod logs;
mod post;
mod query;
mod read;
mod route;
mod services;
mod stream;
mod variables;
mod versions;

use std::{convert::Infallible, sync::Arc};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::nomad::Hub;

/// Accepts connections for ever. What is spawned ends with the runtime.
pub(crate) async fn serve(listener: TcpListener, hub: Arc<Hub>) {
    loop {
        // An error here is about one connection that is already gone.
        let Ok((stream, _)) = listener.accept().await else { continue };
        let hub = Arc::clone(&hub);
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let hub = Arc::clone(&hub);
                async move { Ok::<_, Infallible>(route::handle(hub, request).await) }
            });
            let connection =
                http1::Builder::new().title_case_headers(true).serve_connection(TokioIo::new(stream), service);
            // A client that hangs up is nobody's error.
            let _ = connection.await;
        });
    }
}
