//! `watch` over real connections. What takes minutes is in `clock`.

use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};
use scheduler_k8s_client::{Error, ErrorKind, Missing, Resource, WatchEvent, WatchOptions};
use serde_json::json;
use tokio::time::timeout;

use crate::recorded;
use crate::server::{Reply, Server};

type Items = BoxStream<'static, Result<WatchEvent, Error>>;

fn list(version: &str, names: &[&str]) -> Reply {
    let items: Vec<_> = names.iter().map(|name| json!({"metadata": {"name": name}})).collect();
    Reply::value(&json!({"metadata": {"resourceVersion": version}, "items": items}))
}

fn event(r#type: &str, name: &str, version: &str) -> String {
    format!("{}\n", json!({"type": r#type, "object": {"metadata": {"name": name, "resourceVersion": version}}}))
}

/// As a server sends it whose history was compacted.
const EXPIRED: &str = "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"too old resource version: 1 (9)\",\"reason\":\"Expired\",\"code\":410}}\n";

async fn watch(server: &Server) -> Items {
    server.client().await.watch(&Resource::DEPLOYMENT, Some("shop"), WatchOptions::new())
}

/// The next so many items in short. The limit only turns a hang into a failure.
async fn take(items: &mut Items, count: usize) -> Vec<String> {
    let name = |object: &serde_json::Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    let mut out = Vec::new();
    for _ in 0..count {
        let item = timeout(Duration::from_secs(20), items.next()).await;
        out.push(match item.unwrap_or_else(|_| panic!("nothing comes after {out:?}")) {
            None => "end".to_owned(),
            Some(Ok(WatchEvent::Listed { objects, .. })) => {
                format!("listed {}", objects.iter().map(name).collect::<Vec<_>>().join(" "))
            }
            Some(Ok(WatchEvent::Applied(object))) => format!("applied {}", name(&object)),
            Some(Ok(WatchEvent::Deleted(object))) => format!("deleted {}", name(&object)),
            Some(Ok(other)) => panic!("{other:?}"),
            Some(Err(error)) => format!("{:?}", error.kind()),
        });
    }
    out
}

/// The versions after which the watches started.
fn versions(server: &Server) -> Vec<String> {
    let version = |line: String| line.split("resourceVersion=").nth(1)?.split('&').next().map(str::to_owned);
    server.lines().into_iter().filter_map(version).collect()
}

#[tokio::test]
async fn list_then_follow() {
    let events = [event("ADDED", "b", "6"), event("MODIFIED", "a", "7"), event("DELETED", "b", "8")].concat();
    // Pieces end anywhere, as packets do, and a blank line is no event.
    let (first, second) = events.split_at(100);
    let server = Server::start([list("5", &["a"]), Reply::open_stream(&[first, second, "\n"])]).await;
    let options = WatchOptions::new().label_selector("x=y").field_selector("metadata.name!=z");
    let mut items = server.client().await.watch(&Resource::DEPLOYMENT, Some("shop"), options);
    assert_eq!(take(&mut items, 4).await, ["listed a", "applied b", "applied a", "deleted b"]);
    assert!(items.next().now_or_never().is_none(), "silence is no item");
    assert_eq!(
        server.lines(),
        [
            "GET /apis/apps/v1/namespaces/shop/deployments?labelSelector=x%3Dy&fieldSelector=metadata.name%21%3Dz\
             &limit=500",
            "GET /apis/apps/v1/namespaces/shop/deployments?watch=true&allowWatchBookmarks=true&resourceVersion=5\
             &timeoutSeconds=290&labelSelector=x%3Dy&fieldSelector=metadata.name%21%3Dz",
        ]
    );
}

#[tokio::test]
async fn dropping_it_ends_the_connection() {
    let mut server = Server::start([list("5", &[]), Reply::open_stream(&[&event("ADDED", "a", "6")])]).await;
    let mut items = watch(&server).await;
    take(&mut items, 2).await;
    drop(items);
    server.hung_up().await;
}

#[tokio::test]
async fn an_ordinary_end_goes_on_where_it_was() {
    // A bookmark moves the version although nothing is reported.
    let bookmark = event("BOOKMARK", "", "9");
    let server = Server::start([
        list("5", &["a"]),
        Reply::stream(&[&event("ADDED", "b", "6")]),
        Reply::stream(&[&bookmark]),
        Reply::open_stream(&[&event("DELETED", "a", "10")]),
    ])
    .await;
    let mut items = watch(&server).await;
    assert_eq!(take(&mut items, 3).await, ["listed a", "applied b", "deleted a"]);
    assert_eq!(versions(&server), ["5", "6", "9"]);
}

/// BR-47, and the same as an HTTP code.
#[tokio::test]
async fn an_expired_version_lists_again() {
    let gone = Reply::json(410, r#"{"kind":"Status","reason":"Expired","code":410}"#);
    let server = Server::start([
        list("1", &["a", "b"]),
        Reply::stream(&[&event("ADDED", "c", "2"), EXPIRED]),
        list("9", &["b"]),
        gone,
        list("12", &["b", "d"]),
        Reply::open_stream(&[&event("DELETED", "d", "13")]),
    ])
    .await;
    let mut items = watch(&server).await;
    assert_eq!(take(&mut items, 5).await, ["listed a b", "applied c", "listed b", "listed b d", "deleted d"]);
    assert_eq!(versions(&server), ["1", "9", "12"]);
}

#[tokio::test]
async fn a_cut_is_an_item_and_loses_nothing() {
    let lost = event("MODIFIED", "a", "7");
    let server = Server::start([
        list("5", &["a"]),
        Reply::open_stream(&[&event("ADDED", "b", "6"), &lost[..30]]).cut(),
        // This one ends properly, but in the middle of a line.
        Reply::stream(&[&lost[..30]]),
        Reply::open_stream(&[&lost]),
    ])
    .await;
    let mut items = watch(&server).await;
    assert_eq!(take(&mut items, 5).await, ["listed a", "applied b", "Interrupted", "Interrupted", "applied a"]);
    assert_eq!(versions(&server), ["5", "6", "6"]);
}

#[tokio::test]
async fn what_cannot_be_understood_lists_again() {
    let error = "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"reason\":\"InternalError\",\"code\":500}}\n";
    for line in ["<html>\n", "{\"type\":\"NEWS\",\"object\":{}}\n", "{\"type\":\"ADDED\"}\n", error] {
        let server =
            Server::start([list("5", &["a"]), Reply::open_stream(&[line]), list("6", &["b"]), Reply::open_stream(&[])])
                .await;
        let mut items = watch(&server).await;
        let kind = if line == error { "Unavailable" } else { "MalformedAnswer" };
        assert_eq!(take(&mut items, 3).await, ["listed a", kind, "listed b"], "{line}");
    }
}

#[tokio::test]
async fn it_ends_after_an_error_that_stays() {
    let path = ErrorKind::NotFound(Missing::Path);
    for (code, kind) in [
        (400, ErrorKind::BadRequest),
        (401, ErrorKind::Unauthenticated),
        (403, ErrorKind::Forbidden),
        (404, path),
        (405, ErrorKind::Unexpected),
        (422, ErrorKind::Invalid),
    ] {
        let refusal = Reply::json(code, "{}");
        let server = Server::start([refusal.clone(), list("5", &[]), refusal]).await;
        let mut listing = watch(&server).await;
        assert_eq!(take(&mut listing, 2).await, [format!("{kind:?}").as_str(), "end"]);
        let mut following = watch(&server).await;
        assert_eq!(take(&mut following, 3).await, ["listed ", &format!("{kind:?}"), "end"]);
        assert_eq!(server.requests().len(), 3);
    }
    let inside = format!("{{\"type\":\"ERROR\",\"object\":{}}}\n", recorded::FORBIDDEN);
    let server = Server::start([list("5", &[]), Reply::open_stream(&[&inside])]).await;
    assert_eq!(take(&mut watch(&server).await, 3).await, ["listed ", "Forbidden", "end"]);
}
