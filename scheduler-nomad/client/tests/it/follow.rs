//! Blocking queries over real connections. What takes longer is in `clock`.

use futures_util::StreamExt;
use scheduler_nomad_client::{ErrorKind, ListOptions, Query};
use serde_json::{Value, json};

use crate::server::{Reply, Server};

fn jobs(id: &str) -> Value {
    json!([{"ID": id, "Namespace": "default"}])
}

/// What the stream reports, in short, and what the server was asked.
async fn follow(script: Vec<Reply>, count: usize) -> (Vec<String>, Vec<String>) {
    let server = Server::start(script).await;
    let mut stream = server.client().await.follow(Query::jobs("default", &ListOptions::new()));
    let mut items = Vec::new();
    for _ in 0..count {
        items.push(match stream.next().await {
            None => "end".to_owned(),
            Some(Err(error)) => format!("{:?}", error.kind()),
            Some(Ok(answer)) => match answer.value.first() {
                Some(job) => format!("{} at {:?}", job.id, answer.meta.index.unwrap_or_default()),
                None => "nothing".to_owned(),
            },
        });
    }
    let after = |line: String| line.trim_start_matches("GET /v1/jobs?namespace=default").to_owned();
    (items, server.lines().into_iter().map(after).collect())
}

#[tokio::test]
async fn it_goes_on_after_the_last_index() {
    // The second is a time-out without a change.
    let script = vec![
        Reply::at(7, &jobs("a")),
        Reply::at(7, &jobs("a")),
        Reply::at(9, &jobs("b")),
        Reply::text(403, "Permission denied"),
    ];
    let (items, asked) = follow(script, 4).await;
    assert_eq!(items, ["a at 7", "b at 9", "Forbidden", "end"]);
    assert_eq!(asked, ["", "&index=7&wait=30000ms", "&index=7&wait=30000ms", "&index=9&wait=30000ms"]);
}

/// The index goes back when the newest object is purged or the cluster is restored: hashicorp/nomad#6403.
#[tokio::test]
async fn an_index_that_goes_back_starts_over() {
    let script = vec![
        Reply::at(56, &jobs("a")),
        Reply::at(12, &jobs("b")),
        Reply::at(12, &jobs("c")),
        Reply::at(13, &jobs("d")),
    ];
    let (items, asked) = follow(script, 3).await;
    assert_eq!(items, ["a at 56", "c at 12", "d at 13"]);
    assert_eq!(asked, ["", "&index=56&wait=30000ms", "", "&index=12&wait=30000ms"]);
}

/// Zero would be answered at once, for ever.
#[tokio::test]
async fn an_index_of_zero_is_never_asked_for() {
    let script = vec![Reply::at(0, &json!([])), Reply::at(5, &jobs("a"))];
    let (items, asked) = follow(script, 2).await;
    assert_eq!(items, ["nothing", "a at 5"]);
    assert_eq!(asked, ["", "&index=1&wait=30000ms"]);
}

#[tokio::test]
async fn an_object_comes_and_goes() {
    let absent = |index| Reply::new(404, &[("X-Nomad-Index", index)], "job not found");
    let server = Server::start([absent("35"), Reply::at(36, &json!({"ID": "web"})), absent("39")]).await;
    let mut stream = server.client().await.follow(Query::job("default", "web"));
    let mut there = Vec::new();
    for _ in 0..3 {
        there.push(stream.next().await.unwrap().unwrap().value.is_some());
    }
    assert_eq!(there, [false, true, false]);
    assert_eq!(server.lines()[1], "GET /v1/job/web?namespace=default&index=35&wait=30000ms");
}

#[tokio::test]
async fn a_cut_is_an_item_and_the_index_stays() {
    let script = vec![
        Reply::at(7, &jobs("a")),
        Reply::at(8, &jobs("b")).cut_after(60),
        Reply::text(500, "No cluster leader"),
        Reply::at(8, &jobs("b")),
    ];
    let (items, asked) = follow(script, 4).await;
    assert_eq!(items, ["a at 7", "Interrupted", "Unavailable", "b at 8"]);
    assert_eq!(asked[1..], ["&index=7&wait=30000ms"; 3]);
}

#[tokio::test]
async fn dropping_it_ends_the_connection() {
    let mut server = Server::start([Reply::at(7, &jobs("a")), Reply::hang()]).await;
    let mut stream = server.client().await.follow(Query::jobs("default", &ListOptions::new()));
    stream.next().await.unwrap().unwrap();
    tokio::select! {
        item = stream.next() => panic!("{:?}", item.map(|item| item.map(|answer| answer.meta))),
        () = async { while server.requests().len() < 2 { tokio::task::yield_now().await } } => {}
    }
    drop(stream);
    server.hung_up().await;
}

#[tokio::test]
async fn arguments_that_cannot_be() {
    let server = Server::start([]).await;
    let mut stream = server.client().await.follow(Query::job("default", "a/plan"));
    assert_eq!(stream.next().await.unwrap().unwrap_err().kind(), ErrorKind::InvalidRequest);
    assert!(stream.next().await.is_none());
    assert!(server.requests().is_empty());
}
