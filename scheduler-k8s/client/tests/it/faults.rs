//! What breaks on the way, and what servers say when they refuse.

use std::time::Duration;

use scheduler_k8s_client::{
    Apply, Client, Condition, ConnectOptions, Delete, Effect, Error, ErrorKind, ListOptions, Missing, Propagation,
    Resource,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::recorded;
use crate::server::{Reply, Server};

async fn get_error(reply: Reply) -> Error {
    let server = Server::start([reply]).await;
    let client = server.client().await;
    let error = client.get::<Value>(&Resource::DEPLOYMENT, Some("shop"), "web").await.unwrap_err();
    assert_eq!(server.requests().len(), 1, "sent once");
    error
}

#[tokio::test]
async fn every_code_has_its_meaning() {
    use Effect::{Refused, Unknown};
    for (code, kind, effect, transient) in [
        (302, ErrorKind::Unexpected, Unknown, false),
        (400, ErrorKind::BadRequest, Refused, false),
        (401, ErrorKind::Unauthenticated, Refused, false),
        (403, ErrorKind::Forbidden, Refused, false),
        (404, ErrorKind::NotFound(Missing::Path), Refused, false),
        (405, ErrorKind::Unexpected, Refused, false),
        (408, ErrorKind::Timeout, Unknown, true),
        (409, ErrorKind::Conflict, Refused, false),
        (410, ErrorKind::Gone, Refused, true),
        (413, ErrorKind::Unexpected, Refused, false),
        (422, ErrorKind::Invalid, Refused, false),
        (429, ErrorKind::TooManyRequests, Refused, true),
        (500, ErrorKind::Unavailable, Unknown, true),
        (502, ErrorKind::Unavailable, Unknown, true),
        (503, ErrorKind::Unavailable, Unknown, true),
        (504, ErrorKind::Timeout, Unknown, true),
    ] {
        let error = get_error(Reply::json(code, &format!(r#"{{"kind":"Status","code":{code}}}"#))).await;
        assert_eq!((error.kind(), error.effect(), error.is_transient()), (kind, effect, transient), "{code}");
        assert_eq!(error.status(), Some(code));
    }
    let exists = get_error(Reply::json(409, r#"{"kind":"Status","reason":"AlreadyExists"}"#)).await;
    assert_eq!(exists.kind(), ErrorKind::AlreadyExists);
    let slow = get_error(Reply::json(500, r#"{"kind":"Status","reason":"ServerTimeout"}"#)).await;
    assert_eq!(slow.kind(), ErrorKind::Timeout);
}

#[tokio::test]
async fn a_refusal_says_what_was_tried_on_what() {
    let server = Server::start([Reply::json(403, recorded::FORBIDDEN)]).await;
    let apply = Apply::new(&Resource::DEPLOYMENT, Some("shop"), "web", json!({}), "m", Condition::Absent);
    let error = server.client().await.apply(apply).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "patch deployments.apps shop/web: the server answered 403 Forbidden: deployments.apps \"web\" is forbidden: \
         User \"weak\" cannot patch resource \"deployments\" in API group \"apps\" in the namespace \"shop\""
    );
    assert_eq!(error.operation().verb.to_string(), "patch");
    assert_eq!(error.operation().resource, "deployments.apps");
}

#[tokio::test]
async fn how_long_to_wait() {
    let status = r#"{"kind":"Status","reason":"TooManyRequests","details":{"retryAfterSeconds":9},"code":429}"#;
    let json = ("Content-Type", "application/json");
    for (headers, body, expected) in [
        (vec![json, ("Retry-After", "7")], "{}", Some(7)),
        (vec![json, ("Retry-After", "7")], status, Some(7)),
        (vec![json], status, Some(9)),
        (vec![json], "{}", None),
        (vec![json, ("Retry-After", "soon")], "{}", None),
        (
            vec![("Date", "Sun, 06 Nov 1994 08:49:37 GMT"), ("Retry-After", "Sun, 06 Nov 1994 08:51:37 GMT")],
            "",
            Some(120),
        ),
        // Without the server's time, ours counts; that date is long over.
        (vec![("Retry-After", "Sun, 06 Nov 1994 08:51:37 GMT")], "", Some(0)),
    ] {
        let error = get_error(Reply::new(429, &headers, body)).await;
        assert_eq!(error.retry_after(), expected.map(Duration::from_secs), "{headers:?}");
    }
}

#[tokio::test]
async fn warnings_of_all_shapes() {
    let headers = [
        ("Content-Type", "application/json"),
        ("Warning", r#"299 - "one, \"quoted\" \\ text""#),
        ("Warning", r#"299 - "two" "Sun, 06 Nov 1994 08:49:37 GMT", 199 - "not for us", 299 host:80 "three""#),
        ("Warning", r#"299 - "never closed"#),
        ("Warning", "nothing quoted"),
    ];
    let error = get_error(Reply::new(403, &headers, recorded::FORBIDDEN)).await;
    assert_eq!(error.warnings(), [r#"one, "quoted" \ text"#, "two", "three"]);
}

#[tokio::test]
async fn answers_that_are_none() {
    #[derive(Debug, Deserialize)]
    struct Counted {
        #[expect(dead_code, reason = "only the shape counts")]
        replicas: u32,
    }
    let html = ("Content-Type", "text/html");
    let json = ("Content-Type", "application/json");
    for (header, body, told) in [
        (html, "<html>hush</html>", "17 bytes of text/html): it is not JSON"),
        (json, r#"{"replicas": 1, "hush"#, "21 bytes of application/json): it ends too early"),
        (json, r#"{"replicas": "hush"}"#, "it has another shape than asked for at line 1 column 19"),
        (json, "", "it ends too early"),
    ] {
        let server = Server::start([Reply::new(200, &[header], body)]).await;
        let result = server.client().await.get::<Counted>(&Resource::DEPLOYMENT, Some("shop"), "web").await;
        let error = result.unwrap_err();
        assert_eq!((error.kind(), error.status()), (ErrorKind::MalformedAnswer, Some(200)));
        assert!(error.to_string().contains(told), "{error}");
        assert!(!format!("{error} {error:?}").contains("hush"), "{error:?}");
    }
    let error = get_error(Reply::new(502, &[html], "<html>hush</html>")).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("502 with 17 bytes of text/html instead of a Status"), "{error}");
    assert!(!format!("{error} {error:?}").contains("hush"), "{error:?}");
}

#[tokio::test]
async fn connections_that_break() {
    let whole = Reply::json(200, r#"{"metadata":{}}"#);
    let head = "HTTP/1.1 200 Code\r\nContent-Length: 15\r\nContent-Type: application/json\r\n\r\n".len();
    for (after, told) in [
        (0, "broke before an answer came"),
        (20, "broke before an answer came"),
        (head, "broke off after 0 bytes"),
        (head + 3, "broke off after 3 bytes"),
    ] {
        let error = get_error(whole.clone().cut_after(after)).await;
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Interrupted, Effect::Unknown), "{after}: {error:?}");
        assert!(error.to_string().contains(told), "{error}");
    }
    // The code is known before the body breaks off, and it counts.
    let refused = Reply::json(403, recorded::FORBIDDEN);
    let error = get_error(refused.cut_after(90)).await;
    assert_eq!((error.kind(), error.reason()), (ErrorKind::Forbidden, None));
    let error = get_error(Reply::raw("220 smtp.example.com ESMTP\r\n").cut()).await;
    assert_eq!(error.kind(), ErrorKind::MalformedAnswer, "{error:?}");
}

#[tokio::test]
async fn a_broken_write_says_that_it_may_have_taken_effect() {
    let server = Server::start([Reply::raw("").cut()]).await;
    let delete = Delete::new(&Resource::POD, Some("shop"), "p", Propagation::Background);
    let error = server.client().await.delete(delete).await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown);
    assert!(error.to_string().ends_with("(it may have taken effect: read the object before repeating)"), "{error}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn silence_ends_by_the_read_timeout() {
    for reply in [Reply::hang(), Reply::open_stream(&["{"])] {
        let server = Server::start([reply]).await;
        let options = server.options().read_timeout(Duration::from_millis(50));
        let client = Client::connect(options).await.unwrap();
        let error = client.get::<Value>(&Resource::POD, Some("shop"), "p").await.unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, Effect::Unknown));
        assert!(error.to_string().contains("within 50ms"), "{error}");
    }
}

#[tokio::test]
async fn nobody_listens() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = Client::connect(ConnectOptions::explicit(format!("http://{address}"))).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unreachable, Effect::NotSent));
    assert!(error.to_string().contains(&format!("cannot connect to http://{address}: ")), "{error}");
    assert!(std::error::Error::source(&error).is_some());
}

#[tokio::test]
async fn the_connect_timeout_covers_the_handshake() {
    // The listener's backlog takes the connection, and nobody ever speaks.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let options = ConnectOptions::explicit(format!("https://{address}")).connect_timeout(Duration::from_millis(50));
    let error = Client::connect(options.danger_accept_invalid_certificates()).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unreachable, Effect::NotSent), "{error:?}");
}

#[test]
fn a_client_ends_with_its_runtime() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let (server, client) = first.block_on(async {
        let server = Server::start([]).await;
        let client = server.client().await;
        (server, client)
    });
    drop(first);
    let result = runtime().block_on(client.list::<Value>(&Resource::POD, None, &ListOptions::new()));
    let error = result.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Closed, Effect::NotSent), "{error:?}");
    assert!(error.to_string().contains("one client per runtime"), "{error}");
    drop(server);
}
