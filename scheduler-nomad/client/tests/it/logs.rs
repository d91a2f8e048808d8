//! The output of tasks over real connections. What takes longer is in `clock`.

use std::num::NonZeroU64;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use scheduler_nomad_client::{Error, ErrorKind, FileEvent, LogFrame, LogOptions, LogOrigin, LogStream, Missing};

use crate::server::{Reply, Server};

const ID: &str = "06b7ebea-201a-95e1-b1ce-53f7d3afe8c1";

fn options() -> LogOptions {
    LogOptions::new("shop", ID, "t", LogStream::Stdout)
}

async fn all(frames: BoxStream<'static, Result<LogFrame, Error>>) -> Vec<String> {
    // No test here has as many: one that does not end fails.
    let mut frames = frames.take(20);
    let mut out = Vec::new();
    while let Some(frame) = frames.next().await {
        out.push(match frame {
            Ok(frame) if frame.is_heartbeat() => "heartbeat".to_owned(),
            Ok(LogFrame { event: Some(event), file, .. }) => format!("{file}: {event}"),
            Ok(frame) => format!("{} {} {:?}", frame.file, frame.offset, std::str::from_utf8(&frame.data).unwrap()),
            Err(error) => format!("{:?}", error.kind()),
        });
    }
    out
}

/// Recorded: frames and heartbeats follow each other with nothing between them.
const RECORDED: &str = r#"{"Data":"b3V0LTEKb3V0LTIK","File":"alloc/logs/t.stdout.0","Offset":12}{"Data":"b3V0LTMK","File":"alloc/logs/t.stdout.0","Offset":18}{}{"Data":"b3V0LTQK","File":"alloc/logs/t.stdout.0","Offset":24}"#;

#[tokio::test]
async fn frames_follow_each_other() {
    let server = Server::start([Reply::stream(&[RECORDED]).cut(), Reply::new(200, &[], "")]).await;
    let client = server.client().await;
    assert_eq!(
        all(client.logs(options())).await,
        [
            r#"alloc/logs/t.stdout.0 12 "out-1\nout-2\n""#,
            r#"alloc/logs/t.stdout.0 18 "out-3\n""#,
            "heartbeat",
            r#"alloc/logs/t.stdout.0 24 "out-4\n""#,
        ]
    );
    // A task that printed nothing.
    let options = LogOptions::new("shop", ID, "a b", LogStream::Stderr)
        .origin(LogOrigin::End(NonZeroU64::new(10).unwrap()))
        .follow();
    assert_eq!(all(client.logs(options)).await, [""; 0]);
    let logs = format!("GET /v1/client/fs/logs/{ID}?task=");
    assert_eq!(
        server.lines(),
        [
            format!("{logs}t&type=stdout&origin=start&offset=0&follow=false&plain=false&namespace=shop"),
            format!("{logs}a%20b&type=stderr&origin=end&offset=10&follow=true&plain=false&namespace=shop"),
        ]
    );
    assert!(
        server.requests().iter().all(|request| request.header("accept-encoding").is_none()),
        "it would be held back"
    );
}

/// The connection cuts frames where it likes, and bytes need not be text.
#[tokio::test]
async fn pieces_of_frames() {
    let frame = r#"{"Data":"/+7///8=","File":"a}\"{.0","Offset":5}"#;
    for at in 1..frame.len() {
        let chunks: String =
            [&frame[..at], &frame[at..]].map(|part| format!("{:x}\r\n{part}\r\n", part.len())).concat();
        let reply = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n");
        let server = Server::start([Reply::raw(&reply)]).await;
        let frames: Vec<_> = server.client().await.logs(options()).collect().await;
        let [Ok(frame)] = &frames[..] else { panic!("{at}: {frames:?}") };
        assert_eq!((&frame.data[..], frame.file.as_str()), (&[0xff, 0xee, 0xff, 0xff, 0xff][..], "a}\"{.0"));
    }
}

#[tokio::test]
async fn files_come_and_go() {
    let frames = [
        r#"{"Data":"YQ==","File":"t.stdout.0","Offset":983044}"#,
        r#"{"File":"t.stdout.0","FileEvent":"file truncated","Offset":0}"#,
        r#"{"Data":"Yg==","File":"t.stdout.1","Offset":1}"#,
        r#"{"Data":null,"File":"t.stdout.1","FileEvent":"file deleted"}"#,
    ];
    let server = Server::start([Reply::stream(&frames).cut()]).await;
    let mut frames = server.client().await.logs(options());
    let mut seen = Vec::new();
    while let Some(frame) = frames.next().await {
        let frame = frame.unwrap();
        assert!(!frame.is_heartbeat());
        seen.push((frame.file, frame.offset, frame.data.len(), frame.event));
    }
    let file = |number: u8| format!("t.stdout.{number}");
    assert_eq!(
        seen,
        [
            (file(0), 983_044, 1, None),
            (file(0), 0, 0, Some(FileEvent::Truncated)),
            (file(1), 1, 1, None),
            (file(1), 0, 0, Some(FileEvent::Deleted)),
        ]
    );
}

#[tokio::test]
async fn it_ends_after_an_error() {
    let first = r#"{"Data":"YQ==","File":"f","Offset":1}"#;
    let a = "f 1 \"a\"";
    let long = format!(r#"{{"Data":"{}"#, "YQ==".repeat(1 << 18));
    for (body, kind) in [
        // What goes wrong on the way comes as a sentence.
        ("rpc error: No path to node", "MalformedAnswer"),
        (r#"{"Data":"*","File":"f","Offset":2}"#, "MalformedAnswer"),
        (r#"{"Data":7}"#, "MalformedAnswer"),
        (&first[..20], "Interrupted"),
        (long.as_str(), "MalformedAnswer"),
    ] {
        let server = Server::start([Reply::stream(&[first, body]).cut()]).await;
        let frames = all(server.client().await.logs(options())).await;
        assert_eq!(frames, [a, kind], "{:.40}", body);
        assert_eq!(server.requests().len(), 1, "it does not open itself again");
    }
    let reply = Reply::new(200, &[], &format!("{first}{first}")).cut_after(80);
    let server = Server::start([reply]).await;
    assert_eq!(all(server.client().await.logs(options())).await, [a, "Interrupted"], "the connection broke");
}

#[tokio::test]
async fn why_there_is_none() {
    for (code, sentence, kind) in [
        (404, "task \"t\" not started yet. No logs available", ErrorKind::Precondition),
        (404, "Unknown allocation \"06b7ebea\"", ErrorKind::NotFound(Missing::Object)),
        (404, "state for allocation 06b7ebea not found on client", ErrorKind::NotFound(Missing::Object)),
        (400, "unknown task name \"t\"", ErrorKind::Invalid),
        (403, "Permission denied", ErrorKind::Forbidden),
        (500, "No path to node", ErrorKind::Unavailable),
    ] {
        let server = Server::start([Reply::text(code, sentence)]).await;
        let mut frames = server.client().await.logs(options());
        let error = frames.next().await.unwrap().unwrap_err();
        assert_eq!((error.kind(), error.message()), (kind, Some(sentence)));
        assert!(error.to_string().starts_with(&format!("read logs of allocation shop/{ID}: ")), "{error}");
        assert!(frames.next().await.is_none());
    }
    let server = Server::start([]).await;
    let client = server.client().await;
    for options in [
        LogOptions::new("*", ID, "t", LogStream::Stdout),
        LogOptions::new("shop", "06b7ebea", "t", LogStream::Stdout),
        LogOptions::new("shop", ID, "", LogStream::Stdout),
    ] {
        let error = client.logs(options).next().await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
    }
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn dropping_it_ends_the_connection() {
    let mut server = Server::start([Reply::stream(&["{}"])]).await;
    let mut frames = server.client().await.logs(options().follow());
    assert!(frames.next().await.unwrap().unwrap().is_heartbeat());
    drop(frames);
    server.hung_up().await;
}
