//! What takes time, on a paused clock: the service below is scripted and does no I/O, so that the clock jumps ahead
//! whenever everybody waits.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use scheduler_nomad_client::{
    Client, ConnectOptions, Effect, ErrorKind, EventOptions, ListOptions, LogOptions, LogStream, Query, StreamItem,
};
use tokio::time::{Instant, sleep};

type Body = UnsyncBoxBody<Bytes, Infallible>;

enum Script {
    Answer(Response<Body>),
    Refuse,
    Hang,
}

fn whole(code: u16, index: u64, body: &str) -> Script {
    let body = Full::new(Bytes::from(body.to_owned())).boxed_unsync();
    Script::Answer(Response::builder().status(code).header("X-Nomad-Index", index).body(body).unwrap())
}

/// A body of these pieces, each so many seconds after the last; then it stays open.
fn slow(pieces: Vec<(u64, &'static str)>) -> Script {
    let pieces = stream::iter(pieces).then(|(wait, piece)| async move {
        sleep(Duration::from_secs(wait)).await;
        Ok(Frame::data(Bytes::from_static(piece.as_bytes())))
    });
    Script::Answer(Response::new(StreamBody::new(pieces.chain(stream::pending())).boxed_unsync()))
}

/// A client of a service that answers by a script, and when it was asked for what.
async fn client(script: Vec<Script>) -> (Client, Arc<Mutex<Vec<(Instant, String)>>>) {
    let script = Arc::new(Mutex::new(VecDeque::from(script)));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&asked);
    let service = tower::service_fn(move |request: Request<Full<Bytes>>| {
        let target = request.uri().to_string();
        let next = if target.ends_with("/v1/agent/self") {
            Some(whole(200, 0, "{}"))
        } else {
            noted.lock().unwrap().push((Instant::now(), target));
            script.lock().unwrap().pop_front()
        };
        async move {
            match next {
                Some(Script::Answer(answer)) => Ok(answer),
                Some(Script::Refuse) => Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused)),
                Some(Script::Hang) | None => pending().await,
            }
        }
    });
    let options = ConnectOptions::explicit("http://127.0.0.1:4646").service(service);
    (Client::connect(options).await.unwrap(), asked)
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_never_comes() {
    let (client, asked) = client(vec![Script::Hang]).await;
    let before = Instant::now();
    let error = client.query(&Query::leader()).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, Effect::Unknown));
    assert_eq!(before.elapsed(), Duration::from_secs(30));
    assert_eq!(asked.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_stops_half_way() {
    let (client, _) = client(vec![slow(vec![(25, "\"1"), (4, "2")])]).await;
    let before = Instant::now();
    let error = client.query(&Query::leader()).await.unwrap_err();
    assert_eq!((error.kind(), before.elapsed().as_secs()), (ErrorKind::Timeout, 30), "the whole has 30 s");
}

/// The server holds a query for up to 17/16 of the wait, 32 s, which is longer than another request may take.
#[tokio::test(start_paused = true)]
async fn a_blocking_query_may_take_longer() {
    let (client, _) = client(vec![whole(200, 5, "[]"), slow(vec![(31, "[]"), (20, " ")]), Script::Hang]).await;
    let mut stream = client.follow(Query::jobs("default", &ListOptions::new()));
    stream.next().await.unwrap().unwrap();
    let before = Instant::now();
    // The second answer never ends; its pieces come in time, so the sum of both limits holds.
    let error = stream.next().await.unwrap().unwrap_err();
    assert_eq!((error.kind(), before.elapsed().as_secs()), (ErrorKind::Timeout, 75));
    // The third does not begin: the read limit holds, after the pause.
    let before = Instant::now();
    let error = stream.next().await.unwrap().unwrap_err();
    assert_eq!((error.kind(), before.elapsed().as_secs()), (ErrorKind::Timeout, 45));
}

/// Tables that other jobs change all the time must not make a busy loop, and neither must a lost server.
#[tokio::test(start_paused = true)]
async fn requests_keep_their_distance() {
    let refused = (0..9).map(|_| Script::Refuse);
    let busy = (1..=5).map(|index| whole(200, index, "[]"));
    let script = busy.chain([whole(200, 0, "[]")]).chain([whole(200, 6, "[]")]).chain(refused).collect();
    let (client, asked) = client(script).await;
    let mut stream = client.follow(Query::jobs("default", &ListOptions::new()));
    let mut errors = 0;
    while errors < 9 {
        if let Err(error) = stream.next().await.unwrap() {
            assert_eq!(error.kind(), ErrorKind::Unreachable);
            errors += 1;
        }
    }
    let asked = asked.lock().unwrap();
    let distances: Vec<_> = asked.windows(2).map(|pair| (pair[1].0 - pair[0].0).as_millis()).collect();
    assert_eq!(distances[..5], [100; 5], "busy");
    assert_eq!(distances[5], 1000, "after an answer without an index");
    assert_eq!(distances[6], 100);
    let bounds = [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000];
    for (distance, most) in distances[7..].iter().zip(bounds) {
        assert!((most / 2..=most).contains(distance), "{distance} is not from {} to {most}", most / 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_without_a_greeting() {
    let (client, asked) = client(vec![slow(vec![])]).await;
    let before = Instant::now();
    let mut items = client.events(EventOptions::new("shop"));
    let error = items.next().await.unwrap().unwrap_err();
    assert_eq!((error.kind(), before.elapsed().as_secs()), (ErrorKind::StreamRefused, 5));
    assert!(error.to_string().contains("check that the token may read"), "{error}");
    assert!(items.next().await.is_none());
    assert_eq!(asked.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn heartbeats_keep_a_stream_and_silence_ends_it() {
    let event = "{\"Index\":7,\"Events\":[{\"Topic\":\"Job\",\"Key\":\"web\",\"Index\":7}]}\n";
    let beats = slow(vec![(0, "{}\n"), (30, "{}\n"), (30, "{}\n"), (74, "{}\n"), (30, event)]);
    let (client, asked) = client(vec![beats, slow(vec![(0, "{}\n")])]).await;
    let mut items = client.events(EventOptions::new("*"));
    assert!(matches!(items.next().await, Some(Ok(StreamItem::Opened))));
    assert!(matches!(items.next().await, Some(Ok(StreamItem::Event(event))) if event.key == "web"));
    let before = Instant::now();
    let error = items.next().await.unwrap().unwrap_err();
    assert_eq!((error.kind(), before.elapsed().as_secs()), (ErrorKind::Timeout, 75));
    // It comes back by itself.
    assert!(matches!(items.next().await, Some(Ok(StreamItem::Opened))));
    assert!(asked.lock().unwrap()[1].1.ends_with("&index=7"));
}

/// The server sends a heartbeat each second; a log may be followed for longer than any other request takes.
#[tokio::test(start_paused = true)]
async fn silence_ends_a_log() {
    let (client, asked) = client(vec![slow(vec![(0, "{}"), (40, "{"), (40, "}"), (20, "{}{}")])]).await;
    let options = LogOptions::new("shop", "06b7ebea-201a-95e1-b1ce-53f7d3afe8c1", "t", LogStream::Stdout).follow();
    let mut frames = client.logs(options);
    assert!(frames.next().await.unwrap().unwrap().is_heartbeat());
    // Half a heartbeat is none.
    let before = Instant::now();
    let error = frames.next().await.unwrap().unwrap_err();
    assert_eq!((error.kind(), before.elapsed().as_secs()), (ErrorKind::Timeout, 45));
    assert!(frames.next().await.is_none());
    assert_eq!(asked.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_log_has_no_total_limit() {
    let beats = (0..30).map(|_| (10, "{}")).collect();
    let (client, _) = client(vec![slow(beats)]).await;
    let options = LogOptions::new("shop", "06b7ebea-201a-95e1-b1ce-53f7d3afe8c1", "t", LogStream::Stdout).follow();
    let frames: Vec<_> = client.logs(options).take(30).collect().await;
    assert!(frames.iter().all(|frame| frame.as_ref().is_ok_and(|frame| frame.is_heartbeat())), "{frames:?}");
}
