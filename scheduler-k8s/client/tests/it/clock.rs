//! What takes time, on a paused clock: the service below is scripted and does no I/O, so that the clock jumps ahead
//! whenever everybody waits.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, SelectAll};
use futures_util::{FutureExt, StreamExt};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use scheduler_k8s_client::kube::{self, client::Body};
use scheduler_k8s_client::{Client, Effect, ErrorKind, ListOptions, LogOptions, Resource, WatchEvent, WatchOptions};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

fn whole(code: u16, body: &str) -> Answer {
    let body = Full::new(Bytes::from(body.to_owned())).boxed_unsync();
    Response::builder().status(code).body(body).unwrap()
}

fn list() -> Answer {
    whole(200, r#"{"metadata":{"resourceVersion":"5"},"items":[]}"#)
}

/// A body of these pieces, each some time after the last; at its end it stays open or ends.
fn slow(pieces: Vec<(Duration, &'static str)>, open: bool) -> Answer {
    let pieces = stream::iter(pieces).then(|(wait, piece)| async move {
        sleep(wait).await;
        Ok(Frame::data(Bytes::from_static(piece.as_bytes())))
    });
    let end = stream::once(async move {
        if open {
            pending().await
        }
    })
    .filter_map(|()| async { None });
    Response::new(StreamBody::new(pieces.chain(end)).boxed_unsync())
}

enum Script {
    Answer(Answer),
    Refuse,
    Hang,
}

/// A client of a service that answers by a script, and the targets that were asked for.
fn client(script: Vec<Script>) -> (Client, Arc<Mutex<Vec<String>>>) {
    let script = Arc::new(Mutex::new(VecDeque::from(script)));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&asked);
    let service = tower::service_fn(move |request: Request<Body>| {
        noted.lock().unwrap().push(request.uri().to_string());
        let next = script.lock().unwrap().pop_front();
        async move {
            match next {
                Some(Script::Answer(answer)) => Ok(answer),
                Some(Script::Refuse) => Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused)),
                Some(Script::Hang) | None => pending().await,
            }
        }
    });
    (Client::new(kube::Client::new(service, "default")), asked)
}

#[tokio::test(start_paused = true)]
async fn headers_that_never_come() {
    let (client, asked) = client(vec![Script::Hang]);
    let before = Instant::now();
    let error = client.get::<Value>(&Resource::POD, Some("shop"), "p").await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, Effect::Unknown));
    assert_eq!(before.elapsed().as_secs(), 20);
    assert_eq!(asked.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_trickles_for_ever() {
    // Each piece comes in time, the whole does not.
    let pieces = (0..1000).map(|_| (Duration::from_secs(1), " ")).collect();
    let (client, _) = client(vec![Script::Answer(slow(pieces, true))]);
    let before = Instant::now();
    let error = client.list::<Value>(&Resource::POD, None, &ListOptions::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert_eq!(before.elapsed().as_secs(), 30);
}

/// BR-51: ten silent minutes, with bookmarks and without.
#[tokio::test(start_paused = true)]
async fn a_quiet_watch_is_no_error() {
    const BOOKMARK: &str = "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"6\"}}}\n";
    let bookmarks = (0..4).map(|_| (Duration::from_secs(60), BOOKMARK)).chain([(Duration::from_secs(50), "")]);
    let (client, asked) = client(vec![
        Script::Answer(list()),
        Script::Answer(slow(bookmarks.collect(), false)),
        Script::Answer(slow(vec![(Duration::from_secs(290), "")], false)),
        Script::Answer(slow(vec![(Duration::from_secs(290), "")], false)),
    ]);
    let mut items = client.watch(&Resource::POD, None, WatchOptions::new());
    assert!(matches!(items.next().await, Some(Ok(WatchEvent::Listed { .. }))));
    let quiet = timeout(Duration::from_secs(600), items.next()).await;
    assert!(quiet.is_err(), "{quiet:?}");
    let asked = asked.lock().unwrap();
    assert_eq!(asked.len(), 4, "one list and three watches");
    assert!(asked[1].contains("resourceVersion=5") && asked[2].contains("resourceVersion=6"), "{asked:?}");
}

/// BR-51 for logs. Nodes before 1.32 send the headers with the first line.
#[tokio::test(start_paused = true)]
async fn a_quiet_follow_is_no_error() {
    const LINE: &str = "2026-11-30T21:50:00Z tick\n";
    let minutes = |count: u64| Duration::from_secs(60 * count);
    let service = tower::service_fn(move |_: Request<Body>| async move {
        sleep(minutes(10)).await;
        Ok::<_, Infallible>(slow(vec![(minutes(600), LINE)], true))
    });
    let client = Client::new(kube::Client::new(service, "default"));
    let before = Instant::now();
    let mut lines = client.logs("shop", "p", &LogOptions::new().follow()).await.unwrap();
    assert_eq!(lines.next().await.unwrap().unwrap().text, "tick");
    assert_eq!(before.elapsed(), minutes(610));
}

/// Who does not follow wants an answer.
#[tokio::test(start_paused = true)]
async fn a_log_that_stops_in_the_middle() {
    let (client, _) = client(vec![
        Script::Hang,
        Script::Answer(slow(vec![(Duration::from_secs(15), "a\n"), (Duration::from_secs(15), "b\n")], true)),
    ]);
    // The limit only turns a hang into a failure.
    let hour = Duration::from_secs(3600);
    let before = Instant::now();
    let opened = timeout(hour, client.logs("shop", "p", &LogOptions::new())).await.unwrap();
    assert_eq!((opened.err().unwrap().kind(), before.elapsed().as_secs()), (ErrorKind::Timeout, 20));
    let before = Instant::now();
    let lines = client.logs("shop", "p", &LogOptions::new()).await.unwrap();
    let items: Vec<_> = timeout(hour, lines.collect()).await.unwrap();
    let items: Vec<_> =
        items.into_iter().map(|item| item.map(|line| line.text).map_err(|error| error.kind())).collect();
    assert_eq!(items, [Ok("a".to_owned()), Ok("b".to_owned()), Err(ErrorKind::Timeout)]);
    assert_eq!(before.elapsed().as_secs(), 50, "what comes in pieces may take its time");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_died_in_silence() {
    let (client, asked) = client(vec![Script::Answer(list()), Script::Answer(slow(Vec::new(), true)), Script::Hang]);
    let mut items = client.watch(&Resource::POD, None, WatchOptions::new().server_timeout(Duration::from_secs(60)));
    items.next().await.unwrap().unwrap();
    let before = Instant::now();
    let error = items.next().await.unwrap().unwrap_err();
    assert_eq!((error.kind(), before.elapsed().as_secs()), (ErrorKind::Timeout, 75));
    assert!(timeout(Duration::from_secs(1), items.next()).await.is_err());
    assert!(asked.lock().unwrap()[2].contains("resourceVersion=5"), "it goes on where it was");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_up_at_once_is_no_busy_loop() {
    let answers = std::iter::repeat_with(|| Script::Answer(slow(Vec::new(), false))).take(1000);
    let (client, asked) = client([Script::Answer(list())].into_iter().chain(answers).collect());
    let mut items = client.watch(&Resource::POD, None, WatchOptions::new());
    items.next().await.unwrap().unwrap();
    assert!(timeout(Duration::from_secs(300), items.next()).await.is_err());
    // Half a second doubling to 30: 6 pauses up to 31 s in all, then at least 15 s each.
    let count = asked.lock().unwrap().len();
    assert!((10..30).contains(&count), "{count}");
}

#[tokio::test(start_paused = true)]
async fn the_servers_wish_to_wait_is_granted() {
    let mut answer = whole(429, "");
    answer.headers_mut().insert("retry-after", http::HeaderValue::from_static("120"));
    let (client, asked) = client(vec![Script::Answer(answer), Script::Answer(list())]);
    let mut items = client.watch(&Resource::POD, None, WatchOptions::new());
    assert_eq!(items.next().await.unwrap().unwrap_err().kind(), ErrorKind::TooManyRequests);
    let before = Instant::now();
    items.next().await.unwrap().unwrap();
    assert_eq!(before.elapsed().as_secs(), 120);
    assert_eq!(asked.lock().unwrap().len(), 2);
}

/// BR-49: five watches, merged, and a server that refuses for two minutes.
#[tokio::test(start_paused = true)]
async fn an_outage_ends_for_each_watch_by_itself() {
    let start = Instant::now();
    let outage = Duration::from_secs(120);
    let service = tower::service_fn(move |request: Request<Body>| async move {
        if start.elapsed() < outage {
            return Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused));
        }
        let watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        Ok(if watch { slow(Vec::new(), true) } else { list() })
    });
    let client = Client::new(kube::Client::new(service, "default"));
    let resources = [Resource::POD, Resource::SERVICE, Resource::DEPLOYMENT, Resource::REPLICA_SET, Resource::EVENT];
    let mut merged: SelectAll<_> = resources
        .iter()
        .map(|resource| client.watch(resource, None, WatchOptions::new()).map(|item| (resource.kind, item)).boxed())
        .collect();
    let mut listed = Vec::new();
    while listed.len() < resources.len() {
        match merged.next().await.unwrap() {
            (kind, Ok(WatchEvent::Listed { .. })) => listed.push(kind),
            (_, Err(error)) => assert_eq!(error.kind(), ErrorKind::Unreachable),
            (_, Ok(other)) => panic!("{other:?}"),
        }
    }
    assert!(start.elapsed() <= outage + Duration::from_secs(30), "within one pause: {:?}", start.elapsed());
    listed.sort_unstable();
    assert_eq!(listed, ["Deployment", "Event", "Pod", "ReplicaSet", "Service"]);
    assert!(merged.next().now_or_never().is_none());
}

#[tokio::test(start_paused = true)]
async fn pauses_start_small_again_after_success() {
    const EVENT: &str = "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"6\"}}}\n";
    let refusals = || std::iter::repeat_with(|| Script::Refuse).take(8);
    let mut script: Vec<_> = refusals().collect();
    script.push(Script::Answer(list()));
    // Short, so that its end is a failure too.
    script.push(Script::Answer(slow(vec![(Duration::ZERO, EVENT)], false)));
    script.push(Script::Refuse);
    script.push(Script::Answer(slow(vec![(Duration::ZERO, EVENT)], true)));
    let (client, _) = client(script);
    let mut items = client.watch(&Resource::POD, None, WatchOptions::new());
    for _ in 0..8 {
        items.next().await.unwrap().unwrap_err();
    }
    items.next().await.unwrap().unwrap();
    items.next().await.unwrap().unwrap();
    items.next().await.unwrap().unwrap_err();
    let before = Instant::now();
    assert!(matches!(items.next().await.unwrap().unwrap(), WatchEvent::Applied(_)));
    assert!(before.elapsed() <= Duration::from_secs(1), "{:?}", before.elapsed());
}
