//! Options that do not do, and a unix socket.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use scheduler_nomad_client::{Client, ConnectOptions, Effect, ErrorKind, Query};

async fn refused(options: ConnectOptions, told: &str) {
    let error = Client::connect(options).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Configuration, Effect::NotSent), "{error}");
    assert!(error.to_string().contains(told), "{error}");
}

#[tokio::test]
async fn options_that_do_not_do() {
    let here = || ConnectOptions::explicit("http://127.0.0.1:1");
    for address in ["", "127.0.0.1:4646", "ftp://127.0.0.1", "http://", "unix://", "/just/a/path"] {
        refused(ConnectOptions::explicit(address), "must begin with http://").await;
    }
    refused(ConnectOptions::explicit("http://127.0.0.1/?a=b"), "has a query string").await;
    refused(here().token("a\nb"), "the token has a character").await;
    refused(here().default_namespace("a/b"), "cannot be the name of a namespace").await;
    refused(here().certificate_authority("x"), "the address is not https://").await;
    refused(here().total_timeout(Duration::ZERO), "leaves no time").await;
    refused(here().wait(Duration::from_secs(301)).read_timeout(Duration::from_secs(900)), "for 300s at most").await;
    let error = Client::connect(ConnectOptions::explicit("http://me:hush@127.0.0.1:1")).await.unwrap_err();
    assert!(error.to_string().contains("has a user name") && !format!("{error:?}").contains("hush"), "{error}");
}

/// The server adds up to a sixteenth: a read time limit of just that would end queries that are well.
#[tokio::test]
async fn the_wait_leaves_time_to_answer() {
    let options = |read| {
        let options = ConnectOptions::explicit("http://127.0.0.1:1").wait(Duration::from_secs(16));
        options.read_timeout(Duration::from_secs(read))
    };
    refused(options(16), "the read time limit of 16s is too short").await;
    refused(options(17), "the read time limit of 17s is too short").await;
    // Nobody listens there, so this came as far as it can.
    assert_eq!(Client::connect(options(18)).await.unwrap_err().kind(), ErrorKind::Unreachable);
}

#[cfg(unix)]
#[tokio::test]
async fn by_a_unix_socket() {
    use serde_json::json;

    use crate::server::{Reply, Server};

    let path = std::env::temp_dir().join(format!("scheduler-nomad-client-{}.sock", std::process::id()));
    let server = Server::start_unix(&path, [Reply::value(&json!("127.0.0.1:4647"))]).await;
    let client = Client::connect(ConnectOptions::explicit(format!("unix://{}", path.display()))).await.unwrap();
    assert_eq!(client.query(&Query::leader()).await.unwrap().value, "127.0.0.1:4647");
    assert_eq!(server.requests()[0].header("host"), Some("localhost"));
    std::fs::remove_file(&path).unwrap();

    let error = Client::connect(ConnectOptions::explicit(format!("unix://{}", path.display()))).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unreachable, Effect::NotSent));
    assert!(error.to_string().contains(&path.display().to_string()), "{error}");
}

/// Becomes ready at the second question, as a limit of concurrency does, and answers 500 to who did not wait for that.
#[derive(Clone, Default)]
struct Busy {
    asked: usize,
}

impl tower::Service<Request<Full<Bytes>>> for Busy {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.asked += 1;
        if self.asked < 2 {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Full<Bytes>>) -> Self::Future {
        let code = if std::mem::take(&mut self.asked) == 2 { 200 } else { 500 };
        let mut response = Response::new(Full::from("{}"));
        *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
        ready(Ok(response))
    }
}

#[tokio::test]
async fn a_service_is_waited_for() {
    let options = ConnectOptions::explicit("http://127.0.0.1:1").service(Busy::default());
    let client = Client::connect(options).await.unwrap();
    client.query(&Query::agent()).await.unwrap();
}
