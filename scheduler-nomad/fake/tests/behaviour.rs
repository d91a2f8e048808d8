//! What happens by itself: the fates of images, nodes that are lost, servers without a leader.
#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot go on ends")]

mod support;

use std::{num::NonZeroU32, time::Duration};

use http_body_util::BodyExt as _;
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
async fn an_image_that_cannot_be_had_fails_after_its_restarts() {
    let absent = "API error (404): pull access denied for sim/pull-error, repository does not exist";
    for (image, why) in [("sim/pull-error", absent), ("sim/invalid-image", "API error (400): invalid reference format")]
    {
        let (nomad, http) = start(Options::default());
        http.write("PUT", "/v1/jobs", job(image)).await;
        nomad.advance(Duration::from_secs(10));
        let (status, event) = told(&http, "Driver Failure").await;
        assert_eq!(status, "failed", "{image}");
        assert_eq!(event["DriverError"], format!("Failed to pull `{image}`: {why}"));
        assert_eq!(allocs(&http).await[0]["TaskStates"]["t"]["Restarts"], 1, "{image}");
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
    let mut volumes = job("sim/run");
    volumes["Job"]["TaskGroups"][0]["Volumes"] = json!({"data": {"Name": "data", "Type": "host"}});
    let mut templates = job("sim/run");
    templates["Job"]["TaskGroups"][0]["Tasks"][0]["Templates"] = json!([{"SourcePath": "x"}]);
    for body in [volumes, templates] {
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

#[tokio::test]
async fn a_system_job_is_on_every_node_that_may_hold_it() {
    let nodes = ["a", "b", "c"].map(|name| Node::new(name).meta("zone", if name == "c" { "cold" } else { "warm" }));
    let (nomad, http) = start(Options::default().nodes(nodes));
    let mut everywhere = job("sim/run");
    everywhere["Job"]["Type"] = json!("system");
    everywhere["Job"]["Constraints"] = json!([{"LTarget": "${meta.zone}", "Operand": "=", "RTarget": "warm"}]);
    everywhere["Job"]["TaskGroups"][0]["ReschedulePolicy"] = json!(null);
    http.write("PUT", "/v1/jobs", everywhere).await;
    nomad.advance(Duration::from_secs(3));
    let on = async |status: &str| {
        let allocs = allocs(&http).await;
        let list = allocs.iter().filter(|alloc| alloc["ClientStatus"] == status);
        let mut names: Vec<_> = list.map(|alloc| alloc["NodeName"].as_str().expect("a name").to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(on("running").await, ["a", "b"]);
    nomad.lose_node("a").expect("a node");
    nomad.advance(Duration::from_secs(3));
    assert_eq!((on("running").await, on("lost").await), (vec!["b".to_owned()], vec!["a".to_owned()]));
    nomad.restore_node("a").expect("a node");
    nomad.advance(Duration::from_secs(3));
    assert_eq!(on("running").await, ["a", "b"]);
}

#[tokio::test]
async fn a_spread_wins_over_the_names_of_nodes() {
    let nodes = [("a", "x"), ("b", "x"), ("c", "y")].map(|(name, zone)| Node::new(name).meta("zone", zone));
    let (nomad, http) = start(Options::default().nodes(nodes));
    let mut spread = job("sim/run");
    spread["Job"]["TaskGroups"][0]["Count"] = json!(2);
    spread["Job"]["Spreads"] = json!([{"Attribute": "${meta.zone}", "Weight": 100}]);
    http.write("PUT", "/v1/jobs", spread).await;
    nomad.advance(Duration::from_secs(1));
    let mut names: Vec<_> = allocs(&http).await.iter().map(|alloc| alloc["NodeName"].clone()).collect();
    names.sort_by_key(ToString::to_string);
    assert_eq!(names, ["a", "c"]);
}

#[tokio::test]
async fn an_image_that_is_done_ends_with_its_output() {
    let (nomad, http) = start(Options::default());
    let mut once = job("sim/done/after-2");
    once["Job"]["Type"] = json!("batch");
    for policy in ["Update", "ReschedulePolicy"] {
        once["Job"]["TaskGroups"][0][policy] = json!(null);
    }
    http.write("PUT", "/v1/jobs", once).await;
    nomad.advance(Duration::from_secs(1));
    let id = allocs(&http).await[0]["ID"].as_str().expect("an ID").to_owned();
    let logs = format!("/v1/client/fs/logs/{id}?task=t&type=stdout");
    assert_eq!(http.get(&format!("{logs}&plain=true")).await.text, "start 0\ntick 0\ntick 1\n");
    // Somebody who follows hears of what comes, and then only that there is nothing.
    let (_, mut body) = http.open("GET", &format!("{logs}&follow=true&offset=8"), &[], Vec::new()).await.into_parts();
    let mut frame = async || {
        let frame = body.frame().await.expect("a frame").expect("a frame").into_data().expect("data");
        serde_json::from_slice::<Value>(&frame).expect("JSON")
    };
    assert_eq!(frame().await["Data"], "dGljayAwCnRpY2sgMQo=");
    nomad.advance(Duration::from_secs(3));
    let rest = frame().await;
    assert_eq!((&rest["Data"], &rest["Offset"]), (&json!("dGljayAyCnRpY2sgMwplbmQK"), &json!(40)));
    nomad.advance(Duration::from_secs(1));
    assert_eq!(frame().await, json!({}));
    assert_eq!(http.get("/v1/job/web").await.json()["Status"], "dead");
    assert_eq!(allocs(&http).await[0]["ClientStatus"], "complete");
}

#[tokio::test]
async fn a_launch_waits_for_the_one_before_where_they_must_not_overlap() {
    let (nomad, http) = start(Options::default());
    let mut cron = job("sim/done/after-90");
    cron["Job"]["Type"] = json!("batch");
    for policy in ["Update", "ReschedulePolicy"] {
        cron["Job"]["TaskGroups"][0][policy] = json!(null);
    }
    cron["Job"]["Periodic"] = json!({"Specs": ["* * * * *"], "ProhibitOverlap": true});
    http.write("PUT", "/v1/jobs", cron).await;
    nomad.advance(Duration::from_secs(60));
    let children = async || http.get("/v1/jobs?prefix=web/").await.json().as_array().expect("a list").len();
    assert_eq!(children().await, 1);
    nomad.advance(Duration::from_secs(60));
    assert_eq!(children().await, 1, "the first one runs still");
    nomad.advance(Duration::from_secs(60));
    assert_eq!(children().await, 2);
}

#[tokio::test]
async fn a_paused_deployment_replaces_nothing_whoever_asks() {
    let (nomad, http) = start(Options::default());
    let mut three = job("sim/run:1");
    three["Job"]["TaskGroups"][0]["Count"] = json!(3);
    http.write("PUT", "/v1/jobs", three.clone()).await;
    nomad.advance(Duration::from_secs(5));
    three["Job"]["TaskGroups"][0]["Tasks"][0]["Config"] = json!({"image": "sim/run:2"});
    http.write("PUT", "/v1/jobs", three).await;
    nomad.advance(Duration::from_millis(100));
    let id = http.get("/v1/job/web/deployment").await.json()["ID"].clone();
    let path = format!("/v1/deployment/pause/{}", id.as_str().expect("an ID"));
    http.write("PUT", &path, json!({"DeploymentID": id, "Pause": true})).await;
    nomad.advance(Duration::from_secs(5));
    http.write("PUT", "/v1/job/web/evaluate", json!({"JobID": "web"})).await;
    nomad.advance(Duration::from_secs(5));
    let new = async || allocs(&http).await.iter().filter(|alloc| alloc["JobVersion"] == 1).count();
    assert_eq!(new().await, 1);
    http.write("PUT", &path, json!({"DeploymentID": id, "Pause": false})).await;
    nomad.advance(Duration::from_secs(15));
    assert_eq!(new().await, 3);
    assert_eq!(deployment(&http).await, "successful: Deployment completed successfully");
}

#[tokio::test]
async fn what_waits_for_room_is_no_garbage() {
    let (nomad, http) = start(Options::default().nodes([Node::new("small").memory_mb(100)]));
    let mut once = job("sim/done");
    once["Job"]["Type"] = json!("batch");
    for policy in ["Update", "ReschedulePolicy"] {
        once["Job"]["TaskGroups"][0][policy] = json!(null);
    }
    http.write("PUT", "/v1/jobs", once).await;
    nomad.advance(Duration::from_secs(1));
    http.write("PUT", "/v1/system/gc", json!(null)).await;
    assert_eq!(http.get("/v1/job/web").await.json()["Status"], "pending");
    http.write("DELETE", "/v1/job/web", json!(null)).await;
    nomad.advance(Duration::from_secs(1));
    http.write("PUT", "/v1/system/gc", json!(null)).await;
    assert_eq!(http.get("/v1/job/web").await.status, 404);
}
