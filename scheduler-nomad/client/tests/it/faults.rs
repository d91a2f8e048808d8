//! What breaks on the way, and what an error tells.

use std::time::Duration;

use scheduler_nomad_client::model::{Job, JobType};
use scheduler_nomad_client::{
    Client, Condition, ConnectOptions, Effect, Error, ErrorKind, ListOptions, Missing, Query, Register, Verb,
};
use serde_json::json;
use tokio::net::TcpListener;

use crate::server::{Reply, Server};

async fn list_error(reply: Reply) -> Error {
    let server = Server::start([reply]).await;
    let error = server.client().await.query(&Query::jobs("shop", &ListOptions::new())).await.unwrap_err();
    assert_eq!(server.requests().len(), 1, "sent once");
    error
}

async fn register_error(reply: Reply) -> Error {
    let server = Server::start([reply]).await;
    let mut job = Job::new("web", JobType::Service);
    job.namespace = "shop".to_owned();
    let error = server.client().await.register(Register::new(&job, Condition::Absent)).await.unwrap_err();
    assert_eq!(server.requests().len(), 1, "sent once");
    error
}

#[tokio::test]
async fn every_code_has_its_meaning() {
    use Effect::{Refused, Unknown};
    for (code, kind, effect, transient) in [
        (302, ErrorKind::Unexpected, Unknown, false),
        (400, ErrorKind::Invalid, Refused, false),
        (401, ErrorKind::Unauthenticated, Refused, false),
        (403, ErrorKind::Forbidden, Refused, false),
        (404, ErrorKind::NotFound(Missing::Other), Refused, false),
        (405, ErrorKind::Unsupported, Refused, false),
        (408, ErrorKind::Timeout, Unknown, true),
        (409, ErrorKind::Conflict, Refused, false),
        (413, ErrorKind::Invalid, Refused, false),
        (429, ErrorKind::TooManyRequests, Refused, true),
        (500, ErrorKind::ServerError, Unknown, true),
        (501, ErrorKind::Unsupported, Refused, false),
        (502, ErrorKind::Unavailable, Unknown, true),
        (503, ErrorKind::Unavailable, Unknown, true),
        (504, ErrorKind::Timeout, Unknown, true),
        (599, ErrorKind::ServerError, Unknown, true),
    ] {
        let error = list_error(Reply::text(code, "some sentence")).await;
        assert_eq!((error.kind(), error.effect(), error.is_transient()), (kind, effect, transient), "{code}");
        assert_eq!((error.status(), error.message()), (Some(code), Some("some sentence")));
    }
}

#[tokio::test]
async fn an_error_says_what_was_tried_and_what_to_do() {
    let error = register_error(Reply::text(500, "Enforcing job modify index 0: job already exists")).await;
    assert_eq!((error.kind(), error.effect()), (ErrorKind::AlreadyExists, Effect::Refused));
    assert_eq!((error.operation().verb, error.is_transient()), (Verb::Register, false));
    assert_eq!(
        error.to_string(),
        "register job shop/web: the server answered 500: Enforcing job modify index 0: job already exists (read it \
         again and decide anew)"
    );
    // A write whose sentence nobody knows is not for repeating.
    let error = register_error(Reply::text(500, "something new")).await;
    assert_eq!((error.kind(), error.effect(), error.is_transient()), (ErrorKind::ServerError, Effect::Unknown, false));
    assert!(error.to_string().ends_with("(it may have taken effect: read the object before repeating)"), "{error}");
    let error = list_error(Reply::text(403, "Permission denied")).await;
    assert_eq!(
        error.to_string(),
        "list jobs in shop: the server answered 403: Permission denied (check that the token is valid and that its \
         policies allow this)"
    );
}

#[tokio::test]
async fn only_sentences_are_repeated() {
    // A conflict on a variable answers the variable.
    for document in [r#"{"Items":{"password":"hush"}}"#, r#"["hush"]"#, "<html>hush</html>", &"hush ".repeat(1000)] {
        let error = list_error(Reply::text(500, document)).await;
        assert_eq!(error.message(), None);
        let shown = format!("{error} {error:?}");
        assert!(shown.contains(&format!("{} bytes of text/plain", document.len())), "{shown}");
        assert!(!shown.contains("hush"), "{shown}");
    }
}

#[tokio::test]
async fn how_long_to_wait() {
    for (value, expected) in [("7", Some(Duration::from_secs(7))), ("soon", None), ("-1", None)] {
        let error = list_error(Reply::new(429, &[("Retry-After", value)], "slow down")).await;
        assert_eq!((error.kind(), error.retry_after()), (ErrorKind::TooManyRequests, expected));
    }
}

#[tokio::test]
async fn answers_that_make_no_sense() {
    for reply in [
        Reply::new(200, &[], "<html>"),
        Reply::value(&json!({"ID": "web"})),
        Reply::new(200, &[], ""),
        // An agent of 1.11.2 on the event stream; hashicorp/nomad#27586.
        Reply::raw("HTTP/0.0 200 OK\r\n\r\n"),
    ] {
        let error = list_error(reply).await;
        assert_eq!((error.kind(), error.effect()), (ErrorKind::MalformedAnswer, Effect::Unknown), "{error}");
    }
}

#[tokio::test]
async fn a_connection_that_breaks() {
    let whole = Reply::value(&json!([{"ID": "web"}]));
    for bytes in [0, 20, 80] {
        let error = list_error(whole.clone().cut_after(bytes)).await;
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Interrupted, Effect::Unknown), "{bytes}: {error}");
        assert!(std::error::Error::source(&error).is_some());
    }
    let error = register_error(whole.cut_after(20)).await;
    assert!(error.is_transient() && error.to_string().contains("it may have taken effect"), "{error}");
}

#[tokio::test]
async fn nobody_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = Client::connect(ConnectOptions::explicit(format!("http://{address}"))).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unreachable, Effect::NotSent));
    assert!(error.to_string().contains(&format!("cannot connect to http://{address}")), "{error}");
}

#[tokio::test]
async fn dropping_a_request_ends_its_connection() {
    let mut server = Server::start([Reply::hang()]).await;
    let client = server.client().await;
    let query = Query::leader();
    let request = client.query(&query);
    // Ends when the server has read the request, whatever the machine does meanwhile.
    tokio::select! {
        answer = request => panic!("{answer:?}"),
        () = async { while server.requests().is_empty() { tokio::task::yield_now().await } } => {}
    }
    server.hung_up().await;
}

#[tokio::test]
async fn connecting_without_the_right_to_read_the_agent() {
    let refusing = |code: u16, body: &'static str| {
        tower::service_fn(move |_: http::Request<http_body_util::Full<bytes::Bytes>>| async move {
            let response = http::Response::builder().status(code);
            response.body(http_body_util::Full::new(bytes::Bytes::from_static(body.as_bytes())))
        })
    };
    let options = || ConnectOptions::explicit("http://127.0.0.1:4646");
    let client = Client::connect(options().service(refusing(403, "Permission denied"))).await.unwrap();
    assert_eq!(client.server_version(), None);
    let error = Client::connect(options().service(refusing(404, ""))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "this is no Nomad");
}
