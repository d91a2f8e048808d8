//! The event stream over real connections. What takes longer is in `clock`.

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use scheduler_nomad_client::{Error, ErrorKind, EventOptions, StreamItem, Topic};
use serde_json::json;

use crate::server::{Reply, Server};

type Items = BoxStream<'static, Result<StreamItem, Error>>;

/// A line of events of one index: (topic, type, key).
fn line(index: u64, events: &[(&str, &str, &str)]) -> String {
    in_namespace(index, "shop", events)
}

fn in_namespace(index: u64, namespace: &str, events: &[(&str, &str, &str)]) -> String {
    let events: Vec<_> = events
        .iter()
        .map(|(topic, r#type, key)| {
            json!({"Topic": topic, "Type": r#type, "Key": key, "Namespace": namespace, "FilterKeys": null,
                   "Index": index, "Payload": {topic.to_string(): {"ID": key}}})
        })
        .collect();
    format!("{}\n", json!({"Index": index, "Events": events}))
}

const HEARTBEAT: &str = "{}\n";

async fn take(items: &mut Items, count: usize) -> Vec<String> {
    let mut out = Vec::new();
    for _ in 0..count {
        out.push(match items.next().await {
            None => "end".to_owned(),
            Some(Ok(StreamItem::Opened)) => "opened".to_owned(),
            Some(Ok(StreamItem::Event(event))) => format!("{} {} {}", event.index, event.topic, event.key),
            Some(Ok(other)) => panic!("{other:?}"),
            Some(Err(error)) => format!("{:?}", error.kind()),
        });
    }
    out
}

#[tokio::test]
async fn lines_become_events() {
    // A registration is two lines of one index. Pieces of a line may come one by one.
    let job = line(12, &[("Job", "JobRegistered", "web")]);
    let evaluation = line(12, &[("Evaluation", "JobRegistered", "e1")]);
    let (first, second) = job.split_at(40);
    let server = Server::start([Reply::stream(&[HEARTBEAT, first, second, HEARTBEAT, "\n", &evaluation])]).await;
    let options = EventOptions::new("shop").topic_of(Topic::Job, "web").topic(Topic::Evaluation).index(12);
    let mut items = server.client().await.events(options);
    assert_eq!(take(&mut items, 1).await, ["opened"]);
    let Some(Ok(StreamItem::Event(event))) = items.next().await else { panic!("no event") };
    assert_eq!((&event.topic, event.r#type.as_str(), event.key.as_str()), (&Topic::Job, "JobRegistered", "web"));
    assert_eq!((event.namespace.as_str(), event.index), ("shop", 12));
    assert_eq!(event.payload["Job"]["ID"], "web");
    assert_eq!(take(&mut items, 1).await, ["12 Evaluation e1"]);
    assert_eq!(server.lines(), ["GET /v1/event/stream?namespace=shop&topic=Job%3Aweb&topic=Evaluation%3A%2A&index=12"]);
}

/// The server sends the events of the last index again, and nobody can tell what else it lost: so each opening is told.
#[tokio::test]
async fn a_cut_goes_on_where_it_was() {
    let twelve = line(12, &[("Job", "JobRegistered", "web")]);
    let more = line(12, &[("Evaluation", "JobRegistered", "e1")]);
    let lost = line(13, &[("Allocation", "PlanResult", "a1")]);
    let server = Server::start([
        Reply::stream(&[HEARTBEAT, &twelve, &more[..50]]).cut(),
        Reply::stream(&[HEARTBEAT, &twelve, &more, &lost]).cut(),
        // The server lost its buffer, and begins with what it has.
        Reply::stream(&[HEARTBEAT, &line(40, &[("Job", "JobRegistered", "other")])]),
    ])
    .await;
    let mut items = server.client().await.events(EventOptions::new("shop"));
    assert_eq!(
        take(&mut items, 8).await,
        [
            "opened",
            "12 Job web",
            "Interrupted",
            "opened",
            "12 Evaluation e1",
            "13 Allocation a1",
            "opened",
            "40 Job other",
        ]
    );
    let asked: Vec<_> = server.lines().iter().map(|line| line.split("&index=").nth(1).map(str::to_owned)).collect();
    assert_eq!(asked, [None, Some("12".to_owned()), Some("13".to_owned())]);
}

/// A restored cluster counts anew.
#[tokio::test]
async fn lower_indexes_are_not_dropped() {
    let server = Server::start([
        Reply::stream(&[HEARTBEAT, &line(90, &[("Job", "JobRegistered", "web")])]).cut(),
        Reply::stream(&[HEARTBEAT, &line(4, &[("Job", "JobRegistered", "web")])]),
    ])
    .await;
    let mut items = server.client().await.events(EventOptions::new("shop"));
    assert_eq!(take(&mut items, 4).await, ["opened", "90 Job web", "opened", "4 Job web"]);
}

/// CVE-2025-0937: servers before 1.9.6 sent events of other namespaces.
#[tokio::test]
async fn other_namespaces_are_left_out() {
    let lines = [
        HEARTBEAT.to_owned(),
        in_namespace(5, "theirs", &[("Job", "JobRegistered", "web")]),
        in_namespace(6, "", &[("Node", "NodeRegistration", "n1")]),
        line(7, &[("Job", "JobRegistered", "web")]),
    ];
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    let server = Server::start([Reply::stream(&lines), Reply::stream(&lines)]).await;
    let client = server.client().await;
    let mut items = client.events(EventOptions::new("shop"));
    assert_eq!(take(&mut items, 3).await, ["opened", "6 Node n1", "7 Job web"]);
    let mut items = client.events(EventOptions::new("*"));
    assert_eq!(take(&mut items, 4).await, ["opened", "5 Job web", "6 Node n1", "7 Job web"]);
}

/// Older servers say in plain text why they end it.
#[tokio::test]
async fn a_line_that_is_no_json_ends_the_stream() {
    let told = "subscription closed by server, client should resubscribe\n";
    let server = Server::start([Reply::stream(&[HEARTBEAT, told]), Reply::stream(&[HEARTBEAT])]).await;
    let mut items = server.client().await.events(EventOptions::new("shop"));
    assert_eq!(take(&mut items, 2).await, ["opened", "opened"]);
}

/// From 1.11.2 on a refusal is an empty 200.
#[tokio::test]
async fn an_end_before_the_greeting_is_a_refusal() {
    let server = Server::start([Reply::stream(&[]).cut()]).await;
    let mut items = server.client().await.events(EventOptions::new("shop"));
    assert_eq!(take(&mut items, 2).await, ["StreamRefused", "end"]);
}

#[tokio::test]
async fn it_ends_after_an_error_that_stays() {
    for (reply, kind) in [
        (Reply::text(403, "Permission denied"), "Forbidden"),
        (Reply::text(400, "Invalid topic query"), "Invalid"),
        (Reply::text(404, ""), "Unsupported"),
        (Reply::text(404, "<html>no such page"), "NotFound(Other)"),
        (Reply::text(401, "log in"), "Unauthenticated"),
        (Reply::new(302, &[("Location", "/login")], ""), "Unexpected"),
        // An agent of version 1.11.2 itself; hashicorp/nomad#27586.
        (Reply::raw("HTTP/0.0 200 OK\r\nConnection: close\r\n\r\n{}\n").cut(), "MalformedAnswer"),
    ] {
        let server = Server::start([reply]).await;
        let mut items = server.client().await.events(EventOptions::new("shop"));
        assert_eq!(take(&mut items, 2).await, [kind, "end"]);
    }
    let server = Server::start([]).await;
    let client = server.client().await;
    for options in [EventOptions::new("shop").topic_of(Topic::Job, "a:b"), EventOptions::new("a b")] {
        let error = client.events(options).next().await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
    }
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn dropping_it_ends_the_connection() {
    let mut server = Server::start([Reply::stream(&[HEARTBEAT])]).await;
    let mut items = server.client().await.events(EventOptions::new("shop"));
    take(&mut items, 1).await;
    drop(items);
    server.hung_up().await;
}
