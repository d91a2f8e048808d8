//! `logs` over real connections. What takes minutes is in `clock`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};
use scheduler_k8s_client::{Effect, Error, ErrorKind, LogLine, LogOptions, Missing};

use crate::recorded;
use crate::server::{Reply, Server};

type Lines = BoxStream<'static, Result<LogLine, Error>>;

/// The example of RFC 9110 §5.6.7; `date -d` gives the number.
const SECOND: u64 = 784_111_777;

fn stamped(nanoseconds: u32, text: &str) -> String {
    format!("1994-11-06T08:49:37.{nanoseconds:09}Z {text}")
}

fn at(nanoseconds: u32) -> Option<SystemTime> {
    Some(UNIX_EPOCH + Duration::new(SECOND, nanoseconds))
}

async fn logs(server: &Server, options: LogOptions) -> Result<Lines, Error> {
    server.client().await.logs("shop", "p", &options).await
}

async fn next(lines: &mut Lines) -> Option<Result<LogLine, Error>> {
    // The limit only turns a hang into a failure.
    tokio::time::timeout(Duration::from_secs(20), lines.next()).await.unwrap()
}

async fn line(lines: &mut Lines) -> (Option<SystemTime>, String) {
    let line = next(lines).await.unwrap().unwrap();
    (line.at, line.text)
}

#[tokio::test]
async fn what_is_asked_for() {
    let empty = || Reply::new(200, &[], "");
    let server = Server::start([empty(), empty(), empty(), empty()]).await;
    let half = UNIX_EPOCH + Duration::from_millis(SECOND * 1000 + 500);
    for options in [
        LogOptions::new(),
        LogOptions::new().container("main").follow().tail(0).since(Duration::from_millis(1500)),
        LogOptions::new().previous().since(Duration::ZERO),
        LogOptions::new().since(Duration::ZERO).since_time(half),
    ] {
        assert!(logs(&server, options).await.unwrap().next().await.is_none());
    }
    assert_eq!(
        server.lines(),
        [
            "GET /api/v1/namespaces/shop/pods/p/log?timestamps=true",
            "GET /api/v1/namespaces/shop/pods/p/log?container=main&follow=true&sinceSeconds=2&tailLines=0\
             &timestamps=true",
            "GET /api/v1/namespaces/shop/pods/p/log?previous=true&sinceSeconds=1&timestamps=true",
            "GET /api/v1/namespaces/shop/pods/p/log?sinceTime=1994-11-06T08%3A49%3A37Z&timestamps=true",
        ]
    );
}

#[tokio::test]
async fn lines_carry_their_time_and_nothing_is_made_of_their_text() {
    let text = [stamped(0, "start 0"), stamped(1, ""), stamped(2, "  two  spaces \r"), stamped(3, "ünd")].join("\n");
    // Pieces end anywhere, in the middle of a character too, and the last line need not end.
    let (first, second) = text.split_at(100);
    let server = Server::start([Reply::stream(&[first, second])]).await;
    let mut lines = logs(&server, LogOptions::new()).await.unwrap();
    assert_eq!(line(&mut lines).await, (at(0), "start 0".to_owned()));
    assert_eq!(line(&mut lines).await, (at(1), String::new()));
    assert_eq!(line(&mut lines).await, (at(2), "  two  spaces \r".to_owned()));
    assert_eq!(line(&mut lines).await, (at(3), "ünd".to_owned()));
    assert!(next(&mut lines).await.is_none());
}

#[tokio::test]
async fn bytes_that_are_no_text_are_replaced() {
    let bytes = [stamped(0, "a").as_bytes(), b"\xff\xfeb\n"].concat();
    let server = Server::start([Reply::bytes(200, &bytes)]).await;
    let mut lines = logs(&server, LogOptions::new()).await.unwrap();
    assert_eq!(line(&mut lines).await, (at(0), "a\u{fffd}\u{fffd}b".to_owned()));
}

/// kubernetes/kubernetes#142258: the code is sent before the node looks for the container.
#[tokio::test]
async fn a_complaint_of_the_node_is_no_line_of_the_container() {
    let complaint = "unable to retrieve container logs for containerd://5f09";
    let server = Server::start([Reply::stream(&[&stamped(0, "one"), "\n", complaint])]).await;
    let mut lines = logs(&server, LogOptions::new()).await.unwrap();
    assert_eq!(line(&mut lines).await, (at(0), "one".to_owned()));
    assert_eq!(line(&mut lines).await, (None, complaint.to_owned()));
    assert!(next(&mut lines).await.is_none());
}

#[tokio::test]
async fn why_there_is_none() {
    let unreachable = r#"{"kind":"Status","message":"EOF","code":500}"#;
    for (code, answer, kind) in [
        (404, recorded::POD_NOT_FOUND, ErrorKind::NotFound(Missing::Object)),
        (404, recorded::POD_UNKNOWN_TO_NODE, ErrorKind::NotFound(Missing::Other)),
        (404, recorded::NODE_NOT_FOUND, ErrorKind::NotFound(Missing::Other)),
        (400, recorded::CONTAINER_WAITS, ErrorKind::BadRequest),
        (403, recorded::FORBIDDEN, ErrorKind::Forbidden),
        (500, unreachable, ErrorKind::Unavailable),
    ] {
        let server = Server::start([Reply::json(code, answer)]).await;
        let error = logs(&server, LogOptions::new()).await.err().unwrap();
        assert_eq!(error.kind(), kind, "{answer}");
        assert!(error.to_string().starts_with("get pods/log shop/p: "), "{error}");
        assert_eq!(server.requests().len(), 1, "sent once");
    }
    let server = Server::start([Reply::raw("HTTP/1.1 204 No Content\r\n\r\n")]).await;
    let error = logs(&server, LogOptions::new()).await.err().unwrap();
    assert_eq!(
        (error.kind(), error.effect(), error.status()),
        (ErrorKind::Unexpected, Effect::Refused, Some(204)),
        "no node is not the same as no output"
    );
}

#[tokio::test]
async fn a_cut_is_the_last_item() {
    let whole = stamped(0, "one\n");
    let torn = stamped(1, "tw");
    let server = Server::start([Reply::open_stream(&[&whole, &torn]).cut()]).await;
    let mut lines = logs(&server, LogOptions::new().follow()).await.unwrap();
    assert_eq!(line(&mut lines).await, (at(0), "one".to_owned()));
    let error = next(&mut lines).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    assert!(next(&mut lines).await.is_none());
    assert_eq!(server.requests().len(), 1, "it does not resume");
}

#[tokio::test]
async fn leaving_it_ends_the_connection() {
    let mut server = Server::start([Reply::open_stream(&[&stamped(0, "one\n")])]).await;
    let mut lines = logs(&server, LogOptions::new().follow()).await.unwrap();
    line(&mut lines).await;
    assert!(lines.next().now_or_never().is_none(), "silence is no item");
    drop(lines);
    server.hung_up().await;
}
