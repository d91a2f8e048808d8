//! What happens by itself: the fates of images, nodes that are lost, servers without a leader.
#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot go on ends")]

mod support;

use std::{num::NonZeroU32, time::Duration};

use scheduler_nomad_fake::{FakeError, FakeNomad, Node, Options, Pace};
use serde_json::{Value, json};
use support::Http;

fn start(options: Options) -> (FakeNomad, Http) {
    let nomad = FakeNomad::start(options.pace(Pace::Manual)).expect("a fake starts");
    let http = Http::new(nomad.address());
    (nomad, http)
}

/// A job with one restart, no rescheduling, and a check.
fn job(image: &str) -> Value {
    json!({"Job": {"ID": "web", "TaskGroups": [{
        "Name": "g", "Count": 1, "Networks": [{"DynamicPorts": [{"Label": "http"}]}],
        "Services": [{"Name": "web", "Provider": "nomad", "PortLabel": "http", "Checks": [
            {"Name": "ready", "Type": "http", "Path": "/", "Interval": 1_000_000_000_u64, "Timeout": 1_000_000_000_u64},
        ]}],
        "RestartPolicy": {"Attempts": 1, "Interval": 60_000_000_000_u64, "Delay": 1_000_000_000_u64, "Mode": "fail"},
        "ReschedulePolicy": {"Attempts": 0, "Unlimited": false},
        "Update": {"MinHealthyTime": 1_500_000_000_u64, "HealthyDeadline": 10_000_000_000_u64,
            "ProgressDeadline": 20_000_000_000_u64},
        "Tasks": [{"Name": "t", "Driver": "docker", "Config": {"image": image}, "KillTimeout": 3_000_000_000_u64}],
    }]}})
}

async fn allocs(http: &Http) -> Vec<Value> {
    let mut allocs = http.get("/v1/job/web/allocations").await.json().as_array().expect("a list").clone();
    allocs.sort_by_key(|alloc| alloc["CreateIndex"].as_u64());
    allocs
}

/// The types of the events of the only task, and what the last one that is named says.
async fn told(http: &Http, kind: &str) -> (Value, Value) {
    let alloc = allocs(http).await.remove(0);
    let task = alloc["TaskStates"]["t"].clone();
    let events = task["Events"].as_array().expect("events");
    let last = events.iter().rev().find(|event| event["Type"] == kind);
    (alloc["ClientStatus"].clone(), last.unwrap_or_else(|| panic!("no event {kind} in {events:?}")).clone())
}

async fn deployment(http: &Http) -> String {
    let deployment = http.get("/v1/job/web/deployment").await.json();
    format!("{}: {}", deployment["Status"], deployment["StatusDescription"]).replace('"', "")
}

#[tokio::test]
async fn an_image_that_runs_becomes_healthy() {
    let (nomad, http) = start(Options::default());
    http.write("PUT", "/v1/jobs", job("sim/run:1")).await;
    nomad.advance(Duration::from_secs(5));
    assert_eq!(deployment(&http).await, "successful: Deployment completed successfully");
    // A new tag is an update, which replaces it.
    http.write("PUT", "/v1/jobs", job("sim/run:2")).await;
    nomad.advance(Duration::from_secs(5));
    let allocs = allocs(&http).await;
    let states: Vec<_> =
        allocs.iter().map(|alloc| (alloc["JobVersion"].clone(), alloc["ClientStatus"].clone())).collect();
    assert_eq!(states, [(json!(0), json!("complete")), (json!(1), json!("running"))]);
}

#[tokio::test]
async fn a_slow_image_starts_when_it_has_been_pulled() {
    let (nomad, http) = start(Options::default());
    http.write("PUT", "/v1/jobs", job("sim/slow/after-5")).await;
    nomad.advance(Duration::from_secs(5));
    assert_eq!(allocs(&http).await[0]["ClientStatus"], "pending");
    nomad.advance(Duration::from_secs(2));
    assert_eq!(allocs(&http).await[0]["ClientStatus"], "running");
}

#[tokio::test]
async fn an_image_that_crashes_is_restarted_and_then_fails() {
    let (nomad, http) = start(Options::default());
    http.write("PUT", "/v1/jobs", job("sim/crash/after-1/exit-3")).await;
    nomad.advance(Duration::from_millis(2000));
    let (status, event) = told(&http, "Restarting").await;
    assert_eq!(
        (status, event["Details"]["restart_reason"].clone()),
        (json!("pending"), json!("Restart within policy"))
    );
    nomad.advance(Duration::from_secs(10));
    let (status, event) = told(&http, "Terminated").await;
    assert_eq!(status, "failed");
    assert_eq!(event["Details"], json!({"exit_code": "3", "signal": "0", "oom_killed": "false"}));
    assert_eq!(deployment(&http).await, "failed: Failed due to unhealthy allocations");
    assert_eq!(http.get("/v1/job/web").await.json()["Status"], "dead");
}

#[tokio::test]
async fn an_image_that_takes_too_much_memory_is_killed() {
    let (nomad, http) = start(Options::default());
    http.write("PUT", "/v1/jobs", job("sim/oom")).await;
    nomad.advance(Duration::from_secs(10));
    let (status, event) = told(&http, "Terminated").await;
    assert_eq!(status, "failed");
    assert_eq!(event["Details"], json!({"exit_code": "137", "signal": "9", "oom_killed": "true"}));
}

#[tokio::test]
async fn an_image_that_cannot_be_had_fails_after_its_restarts_or_at_once() {
    for (image, restarts) in [("sim/pull-error", 1), ("sim/invalid-image", 0)] {
        let (nomad, http) = start(Options::default());
        http.write("PUT", "/v1/jobs", job(image)).await;
        nomad.advance(Duration::from_secs(10));
        let (status, _) = told(&http, "Driver Failure").await;
        assert_eq!(status, "failed", "{image}");
        assert_eq!(allocs(&http).await[0]["TaskStates"]["t"]["Restarts"], restarts, "{image}");
    }
}

#[tokio::test]
async fn an_image_that_is_never_ready_fails_its_deployment() {
    let (nomad, http) = start(Options::default());
    http.write("PUT", "/v1/jobs", job("sim/never-ready")).await;
    nomad.advance(Duration::from_secs(9));
    assert_eq!(deployment(&http).await, "running: Deployment is running");
    nomad.advance(Duration::from_secs(3));
    let (status, event) = told(&http, "Alloc Unhealthy").await;
    assert_eq!(status, "running", "it goes on running");
    let text = "Task not running for min_healthy_time of 1.5s by healthy_deadline of 10s";
    assert_eq!(event["DisplayMessage"], text);
    assert_eq!(deployment(&http).await, "failed: Failed due to unhealthy allocations");
    // Without a check nobody asks.
    let mut unchecked = job("sim/never-ready:2");
    unchecked["Job"]["TaskGroups"][0]["Services"] = Value::Null;
    http.write("PUT", "/v1/jobs", unchecked).await;
    nomad.advance(Duration::from_secs(5));
    assert_eq!(deployment(&http).await, "successful: Deployment completed successfully");
}

#[tokio::test]
async fn a_stubborn_image_takes_its_kill_timeout() {
    let (nomad, http) = start(Options::default());
    http.write("PUT", "/v1/jobs", job("sim/stubborn")).await;
    nomad.advance(Duration::from_secs(5));
    http.write("DELETE", "/v1/job/web", Value::Null).await;
    nomad.advance(Duration::from_secs(2));
    assert_eq!(http.get("/v1/job/web").await.json()["Status"], "dead", "long before its allocation");
    assert_eq!(allocs(&http).await[0]["ClientStatus"], "running");
    nomad.advance(Duration::from_secs(2));
    let (status, event) = told(&http, "Terminated").await;
    assert_eq!((status, event["DisplayMessage"].clone()), (json!("complete"), json!("Exit Code: 137, Signal: 9")));
}

#[tokio::test]
async fn what_a_lost_node_held_is_replaced_elsewhere() {
    let (nomad, http) = start(Options::default().nodes([Node::new("a"), Node::new("b")]));
    http.write("PUT", "/v1/jobs", job("sim/run")).await;
    nomad.advance(Duration::from_secs(5));
    nomad.lose_node("a").expect("a node of this name");
    nomad.advance(Duration::from_secs(2));
    let lost = allocs(&http).await;
    let brief = |alloc: &Value| {
        ["NodeName", "DesiredStatus", "ClientStatus"].map(|key| alloc[key].as_str().expect("a text").to_owned())
    };
    assert_eq!(lost.iter().map(brief).collect::<Vec<_>>(), [["a", "stop", "lost"], ["b", "run", "running"]]);
    assert_eq!(lost[0]["DesiredDescription"], "alloc is lost since its node is down");
    assert_eq!(lost[0]["NextAllocation"], lost[1]["ID"]);
    let evals = http.get("/v1/job/web/evaluations").await.json();
    assert!(evals.as_array().expect("a list").iter().any(|eval| eval["TriggeredBy"] == "node-update"));

    nomad.restore_node("a").expect("a node of this name");
    nomad.advance(Duration::from_secs(2));
    assert_eq!(
        allocs(&http).await.iter().map(brief).collect::<Vec<_>>(),
        [["a", "stop", "complete"], ["b", "run", "running"]]
    );
    let unknown = nomad.lose_node("z").expect_err("no such node");
    assert!(matches!(unknown, FakeError::NoSuchNode { .. }));
    assert_eq!(unknown.to_string(), "there is no node z; the nodes are a, b");
}

#[tokio::test]
async fn what_has_no_place_waits_until_there_is_room() {
    let (nomad, http) = start(Options::default().nodes([Node::new("a").memory_mb(1000)]));
    let sized = |id: &str| {
        let mut job = job("sim/run");
        job["Job"]["ID"] = json!(id);
        job["Job"]["TaskGroups"][0]["Tasks"][0]["Resources"] = json!({"MemoryMB": 800});
        job
    };
    http.write("PUT", "/v1/jobs", sized("first")).await;
    nomad.advance(Duration::from_secs(1));
    http.write("PUT", "/v1/jobs", sized("web")).await;
    nomad.advance(Duration::from_secs(1));
    let summary = http.get("/v1/job/web/summary").await.json();
    assert_eq!(summary["Summary"]["g"]["Queued"], 1);
    let blocked = http.get("/v1/evaluations?status=blocked").await.json();
    assert_eq!(blocked[0]["FailedTGAllocs"]["g"]["DimensionExhausted"], json!({"memory": 1}));
    http.write("DELETE", "/v1/job/first", Value::Null).await;
    nomad.advance(Duration::from_secs(3));
    assert_eq!(allocs(&http).await[0]["ClientStatus"], "running");
    assert_eq!(http.get("/v1/evaluations?status=blocked").await.json(), json!([]));
}

#[tokio::test]
async fn no_more_are_replaced_at_a_time_than_the_update_block_allows() {
    let (nomad, http) = start(Options::default());
    let version = |tag: &str| {
        let mut job = job(tag);
        job["Job"]["TaskGroups"][0]["Count"] = json!(3);
        job
    };
    http.write("PUT", "/v1/jobs", version("sim/run:1")).await;
    nomad.advance(Duration::from_secs(5));
    http.write("PUT", "/v1/jobs", version("sim/run:2")).await;
    nomad.advance(Duration::from_millis(500));
    // An evaluation in the middle of a batch is no reason for another one.
    http.write("PUT", "/v1/jobs", version("sim/run:2")).await;
    nomad.advance(Duration::from_millis(500));
    let new = allocs(&http).await.into_iter().filter(|alloc| alloc["JobVersion"] == 1).count();
    assert_eq!(new, 1);
    nomad.advance(Duration::from_secs(20));
    assert_eq!(deployment(&http).await, "successful: Deployment completed successfully");
}

#[tokio::test]
async fn without_a_progress_deadline_the_first_failure_ends_a_deployment() {
    let (nomad, http) = start(Options::default());
    let mut job = job("sim/crash");
    job["Job"]["TaskGroups"][0]["ReschedulePolicy"] = Value::Null;
    http.write("PUT", "/v1/jobs", job.clone()).await;
    nomad.advance(Duration::from_secs(8));
    assert_eq!(deployment(&http).await, "running: Deployment is running", "it is replaced until the deadline");
    job["Job"]["TaskGroups"][0]["Update"]["ProgressDeadline"] = json!(0);
    job["Job"]["TaskGroups"][0]["Tasks"][0]["Config"]["image"] = json!("sim/crash:2");
    http.write("PUT", "/v1/jobs", job).await;
    nomad.advance(Duration::from_secs(8));
    assert_eq!(deployment(&http).await, "failed: Failed due to unhealthy allocations");
}

#[tokio::test]
async fn without_a_leader_only_stale_reads_are_answered() {
    let (nomad, http) = start(Options::default());
    nomad.set_leader(false);
    let stale = http.get("/v1/jobs?stale").await;
    assert_eq!((stale.status, stale.text.as_str()), (200, "[]"));
    assert_eq!(stale.headers["x-nomad-knownleader"], "false");
    let asked = tokio::spawn({
        let http = http.clone();
        async move { http.get("/v1/jobs").await }
    });
    while !asked.is_finished() {
        nomad.advance(Duration::from_secs(1));
        http.get("/v1/regions").await;
    }
    let answer = asked.await.expect("an answer");
    assert_eq!((answer.status, answer.text.as_str()), (500, "No cluster leader"));
    nomad.set_leader(true);
    assert_eq!(http.get("/v1/jobs").await.status, 200);
}

#[tokio::test]
async fn what_is_not_recorded_is_answered_with_501() {
    let (_nomad, http) = start(Options::default());
    let mut canary = job("sim/run");
    canary["Job"]["TaskGroups"][0]["Update"]["Canary"] = json!(1);
    let mut templates = job("sim/run");
    templates["Job"]["TaskGroups"][0]["Tasks"][0]["Templates"] = json!([{"DestPath": "x"}]);
    for body in [canary, templates] {
        let answer = http.send("PUT", "/v1/jobs", &[], body.to_string().into_bytes()).await;
        assert_eq!(answer.status, 501, "{}", answer.text);
        assert!(answer.text.starts_with("scheduler-nomad-fake: there is no recording of "), "{}", answer.text);
    }
    assert_eq!(http.get("/v1/jobs").await.json(), json!([]), "nothing was stored");
}

#[tokio::test]
async fn a_job_that_was_read_can_be_stopped_by_a_registration() {
    let (nomad, http) = start(Options::default());
    http.write("PUT", "/v1/jobs", job("sim/run")).await;
    nomad.advance(Duration::from_secs(5));
    let mut read = http.get("/v1/job/web").await.json();
    let index = read["JobModifyIndex"].clone();
    let unchanged = json!({"Job": read, "EnforceIndex": true, "JobModifyIndex": index});
    http.write("PUT", "/v1/jobs", unchanged).await;
    assert_eq!(http.get("/v1/job/web").await.json()["Version"], 0, "what was read is what is there");
    read["Stop"] = json!(true);
    http.write("PUT", "/v1/jobs", json!({"Job": read, "EnforceIndex": true, "JobModifyIndex": index})).await;
    nomad.advance(Duration::from_secs(2));
    let stopped = http.get("/v1/job/web").await.json();
    assert_eq!((&stopped["Version"], &stopped["Stop"], &stopped["Status"]), (&json!(1), &json!(true), &json!("dead")));
    assert_eq!(allocs(&http).await[0]["ClientStatus"], "complete");
}

#[tokio::test]
async fn the_clock_of_a_cluster_can_run_by_itself() {
    let speed = NonZeroU32::new(50).expect("not zero");
    let nomad = FakeNomad::start(Options::default().pace(Pace::Times(speed))).expect("a fake starts");
    let http = Http::new(nomad.address());
    http.write("PUT", "/v1/jobs", job("sim/run")).await;
    let mut index = 1;
    loop {
        // Each answer is news, so that this ends.
        let answer = http.get(&format!("/v1/job/web/deployment?index={index}&wait=60s")).await;
        if answer.json()["Status"] == "successful" {
            break;
        }
        index = answer.index();
    }
    nomad.stop();
    let gone = std::net::TcpStream::connect(nomad.address().trim_start_matches("http://"));
    assert!(gone.is_err(), "nothing answers any more");
}
