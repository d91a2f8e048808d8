//! Blocking queries and event streams, by a clock that only the test moves.
#![expect(clippy::expect_used, reason = "a test that cannot go on ends")]

mod support;

use std::{future::Future, time::Duration};

use scheduler_nomad_fake::{FakeNomad, Options, Pace};
use serde_json::{Value, json};
use support::{Answer, Http};

fn start(options: Options) -> (FakeNomad, Http) {
    let nomad = FakeNomad::start(options.pace(Pace::Manual)).expect("a fake starts");
    let http = Http::new(nomad.address());
    (nomad, http)
}

fn job(id: &str, count: u64, meta: &str) -> Value {
    json!({"Job": {"ID": id, "Meta": {"m": meta}, "TaskGroups": [{
        "Name": "g", "Count": count, "Update": {"MinHealthyTime": 1_000_000_000_u64, "HealthCheck": "task_states"},
        "Tasks": [{"Name": "t", "Driver": "docker", "Config": {"image": "sim/run:1"}}],
    }]}})
}

/// Moves the clock until the answer is there, and says how far.
async fn until_answered(
    nomad: &FakeNomad,
    http: &Http,
    asked: impl Future<Output = Answer> + Send + 'static,
) -> (Answer, Duration) {
    let asked = tokio::spawn(asked);
    let step = Duration::from_millis(100);
    let mut moved = Duration::ZERO;
    while !asked.is_finished() {
        nomad.advance(step);
        moved += step;
        // Gives the server its turn.
        http.get("/v1/regions").await;
    }
    (asked.await.expect("an answer"), moved)
}

fn ask(http: &Http, path: String) -> impl Future<Output = Answer> + Send + 'static {
    let http = http.clone();
    async move { http.get(&path).await }
}

#[tokio::test]
async fn a_query_that_nothing_wakes_takes_its_wait_and_a_sixteenth() {
    let (nomad, http) = start(Options::default());
    http.write("PUT", "/v1/jobs", job("a", 0, "1")).await;
    nomad.advance(Duration::from_secs(1));
    let index = http.get("/v1/job/a").await.index();
    for asked in [index, index + 1000] {
        let query = ask(&http, format!("/v1/job/a?index={asked}&wait=16s"));
        let (answer, took) = until_answered(&nomad, &http, query).await;
        assert_eq!((answer.status, answer.index()), (200, index));
        assert!(took >= Duration::from_secs(17), "{took:?}");
    }
    // Neither an older index, nor none, nor zero waits: the clock stands still.
    for query in [format!("?index={}&wait=5s", index - 1), "?wait=5s".to_owned(), "?index=0&wait=5s".to_owned()] {
        assert_eq!(http.get(&format!("/v1/job/a{query}")).await.index(), index);
    }
}

#[tokio::test]
async fn what_wakes_a_query_depends_on_the_route() {
    let (nomad, http) = start(Options::default());
    http.write("PUT", "/v1/jobs", job("own", 1, "1")).await;
    nomad.advance(Duration::from_secs(20));
    let routes =
        ["/v1/job/own", "/v1/job/own/summary", "/v1/job/own/deployment", "/v1/jobs", "/v1/job/own/evaluations"];
    let mut before = Vec::new();
    for route in routes {
        before.push(http.get(route).await.index());
    }
    // Another job without allocations: the lists move, what is this job's alone does not.
    http.write("PUT", "/v1/jobs", job("other", 0, "1")).await;
    let mut moved = Vec::new();
    for (route, before) in routes.into_iter().zip(before) {
        moved.push(http.get(route).await.index() > before);
    }
    assert_eq!(moved, [false, false, false, true, true]);
}

#[tokio::test]
async fn a_query_wakes_when_a_job_appears_changes_and_is_purged() {
    let (nomad, http) = start(Options::default());
    let absent = http.get("/v1/job/a").await;
    assert_eq!((absent.status, absent.text.as_str()), (404, "job not found"));
    let writes = [("PUT", "/v1/jobs", job("a", 0, "1")), ("DELETE", "/v1/job/a?purge=true", Value::Null)];
    let mut index = absent.index();
    for ((method, path, body), status) in writes.into_iter().zip([200, 404]) {
        let asked = tokio::spawn(ask(&http, format!("/v1/job/a?index={index}&wait=60s")));
        http.write(method, path, body).await;
        // The clock stands still: only the write can have woken it.
        let answer = asked.await.expect("an answer");
        assert_eq!(answer.status, status, "{}", answer.text);
        assert!(answer.index() > index);
        nomad.advance(Duration::from_secs(1));
        index = http.get("/v1/job/a").await.index();
    }
}

#[tokio::test]
async fn a_stream_replays_what_its_buffer_holds_and_ends_when_it_is_cut() {
    let (nomad, http) = start(Options::default().event_buffer(4));
    for meta in ["1", "2", "3"] {
        http.write("PUT", "/v1/jobs", job("a", 0, meta)).await;
        nomad.advance(Duration::from_secs(1));
    }
    let all = http.get("/v1/job/a").await.index();
    let (status, lines) =
        http.lines("/v1/event/stream?topic=Job:a&index=1", &[], || nomad.advance(Duration::from_secs(31))).await;
    assert_eq!(status, 200);
    // Each registration is a line with the job and one with the evaluation; the end of that is another.
    let versions: Vec<_> = lines.iter().skip(1).map(|line| &line["Events"][0]["Payload"]["Job"]["Version"]).collect();
    assert_eq!(versions, [&json!(1), &json!(2), &json!(2)]);
    assert_eq!(lines.last().expect("a line")["Index"], all);

    let (_, lines) = http.lines("/v1/event/stream", &[], || nomad.advance(Duration::from_secs(31))).await;
    assert_eq!(lines.len(), 1 + 4, "the first heartbeat, and what the buffer holds");

    let (_, lines) = http.lines("/v1/event/stream?topic=Job:a", &[], || nomad.cut_event_streams()).await;
    assert!(lines.len() <= 4, "a stream that is cut ends without a heartbeat: {lines:?}");
    let (_, lines) = http.lines("/v1/event/stream?topic=Job:a", &[], || nomad.advance(Duration::from_secs(31))).await;
    assert_eq!(lines, [json!({})], "what was there before is forgotten");
}

#[tokio::test]
async fn a_stream_without_rights_is_silent_and_then_ends() {
    let (nomad, http) = start(Options::default().acl());
    let (status, lines) =
        http.lines("/v1/event/stream?topic=Job:*", &[], || nomad.advance(Duration::from_secs(31))).await;
    assert_eq!((status, lines), (200, Vec::new()));
}
