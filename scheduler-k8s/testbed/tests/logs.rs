//! Logs as the real API server passes them on from the simulated kubelets.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "this is a test, which clippy cannot tell without #[test]"
)]

#[expect(dead_code, reason = "shared with other tests, which use more of it")]
#[path = "support/pods.rs"]
mod pods;
mod support;

use std::{pin::Pin, process::ExitCode, time::Duration};

use futures_util::{AsyncBufRead, AsyncBufReadExt as _, StreamExt as _, io::Lines};
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::{
    Api, Client,
    api::{DeleteParams, LogParams},
};
use pods::{PATIENCE, Pods, create_pod, is_ready, node, phase, runs, statuses};
use scheduler_k8s_testbed::{LazyTestbed, Options, Testbed, User};
use serde_json::json;

static TESTBED: LazyTestbed = LazyTestbed::new();

fn main() -> ExitCode {
    let code = support::run(cases![
        a_log_tells_of_one_run,
        a_request_takes_a_part_of_it,
        a_follower_hears_the_end,
        a_follower_hears_a_delete,
        the_run_before_can_be_read,
        without_a_run_there_is_no_log,
        a_lost_node_answers_nobody,
    ]);
    support::block_on(TESTBED.stop());
    code
}

async fn set_up() -> (Client, Api<Pod>, Pods, String) {
    let testbed = TESTBED.get().await.unwrap();
    let client = testbed.client(User::Admin).unwrap();
    let namespace = testbed.create_namespace("test").await.unwrap();
    let pods = Pods::watch(&client, &namespace).await;
    (client.clone(), Api::namespaced(client, &namespace), pods, namespace)
}

async fn run(client: &Client, namespace: &str, policy: &str, image: &str) {
    let spec = json!({"restartPolicy": policy, "containers": [{"name": "main", "image": image}]});
    create_pod(client, namespace, spec).await;
}

async fn read(api: &Api<Pod>, parameters: &LogParams) -> Vec<String> {
    api.logs("pod", parameters).await.unwrap().lines().map(str::to_owned).collect()
}

async fn refusal(api: &Api<Pod>, pod: &str, parameters: LogParams) -> (u16, String) {
    match api.logs(pod, &parameters).await.unwrap_err() {
        kube::Error::Api(status) => (status.code, status.message),
        error => panic!("{error}"),
    }
}

type Follower = Lines<Pin<Box<dyn AsyncBufRead + Send>>>;

async fn follow(api: &Api<Pod>, tail: Option<i64>) -> Follower {
    let parameters = LogParams { follow: true, tail_lines: tail, ..LogParams::default() };
    let reader: Pin<Box<dyn AsyncBufRead + Send>> = Box::pin(api.log_stream("pod", &parameters).await.unwrap());
    reader.lines()
}

async fn next(follower: &mut Follower) -> Option<String> {
    tokio::time::timeout(PATIENCE, follower.next()).await.expect("a line or the end").transpose().unwrap()
}

/// Everything until the end.
async fn rest(follower: &mut Follower) -> Vec<String> {
    let lines = async {
        let mut lines = Vec::new();
        while let Some(line) = next(follower).await {
            lines.push(line);
        }
        lines
    };
    tokio::time::timeout(PATIENCE, lines).await.expect("the end")
}

async fn a_log_tells_of_one_run() {
    let (client, api, mut pods, namespace) = set_up().await;
    run(&client, &namespace, "Never", "sim/done/after-1").await;
    let pod = pods.until("done", |pod| phase(pod) == "Succeeded").await;
    assert_eq!(read(&api, &LogParams::default()).await, ["start 0", "tick 0", "tick 1", "end"]);

    let stamped = read(&api, &LogParams { timestamps: true, ..LogParams::default() }).await;
    let times: Vec<Timestamp> = stamped.iter().map(|line| line.split_once(' ').unwrap().0.parse().unwrap()).collect();
    let ended = statuses(&pod)[0].state.as_ref().unwrap().terminated.as_ref().unwrap();
    let (started, finished) = (ended.started_at.as_ref().unwrap().0, ended.finished_at.as_ref().unwrap().0);
    assert_eq!((times[0].as_second(), times[3].as_second()), (started.as_second(), finished.as_second()));
    assert_eq!(times[2].duration_since(times[1]).unsigned_abs(), Duration::from_millis(500));
}

async fn a_request_takes_a_part_of_it() {
    let (client, api, mut pods, namespace) = set_up().await;
    run(&client, &namespace, "Never", "sim/done/after-2").await;
    pods.until("done", |pod| phase(pod) == "Succeeded").await;
    let all = LogParams::default;
    assert_eq!(read(&api, &LogParams { tail_lines: Some(2), ..all() }).await, ["tick 3", "end"]);
    assert_eq!(read(&api, &LogParams { limit_bytes: Some(12), ..all() }).await, ["start 0", "tick"]);
    assert_eq!(read(&api, &LogParams { since_seconds: Some(3600), ..all() }).await.len(), 6);
    let later = Some(Timestamp::now() + Duration::from_secs(3600));
    assert!(read(&api, &LogParams { since_time: later, ..all() }).await.is_empty());
}

async fn a_follower_hears_the_end() {
    let (client, api, mut pods, namespace) = set_up().await;
    run(&client, &namespace, "Never", "sim/done/after-2").await;
    pods.until("running", |pod| statuses(pod).first().is_some_and(runs)).await;
    let mut follower = follow(&api, None).await;
    assert_eq!(rest(&mut follower).await, ["start 0", "tick 0", "tick 1", "tick 2", "tick 3", "end"]);
}

async fn a_follower_hears_a_delete() {
    let (client, api, mut pods, namespace) = set_up().await;
    run(&client, &namespace, "Always", "sim/run").await;
    pods.until("ready", is_ready).await;
    // Only what is new.
    let mut follower = follow(&api, Some(0)).await;
    assert!(next(&mut follower).await.unwrap().starts_with("tick "));
    api.delete("pod", &DeleteParams::default()).await.unwrap();
    let lines = rest(&mut follower).await;
    assert!(lines.iter().all(|line| line.starts_with("tick ")), "who is told to stop says nothing more: {lines:?}");
}

async fn the_run_before_can_be_read() {
    let (client, api, mut pods, namespace) = set_up().await;
    run(&client, &namespace, "Always", "sim/crash/after-2/exit-3").await;
    pods.until("runs again", |pod| statuses(pod).first().is_some_and(|one| runs(one) && one.restart_count == 1)).await;
    let previous = LogParams { previous: true, ..LogParams::default() };
    assert_eq!(read(&api, &previous).await, ["start 0", "tick 0", "tick 1", "tick 2", "tick 3", "end"]);
    assert_eq!(read(&api, &LogParams::default()).await[..2], ["start 1", "tick 0"]);
}

async fn without_a_run_there_is_no_log() {
    let (client, api, mut pods, namespace) = set_up().await;
    let spec = json!({
        "initContainers": [{"name": "init", "image": "sim/run"}],
        "containers": [{"name": "main", "image": "sim/slow/after-3600"}, {"name": "side", "image": "sim/run"}],
    });
    create_pod(&client, &namespace, spec).await;
    pods.until("side runs", |pod| statuses(pod).get(1).is_some_and(runs)).await;
    let of = |container: &str| LogParams { container: Some(container.to_owned()), ..LogParams::default() };
    assert_eq!(api.logs("pod", &of("init")).await.unwrap(), "start 0\nend\n");
    let waiting = "container \"main\" in pod \"pod\" is waiting to start: ContainerCreating";
    assert_eq!(refusal(&api, "pod", of("main")).await, (400, waiting.to_owned()));
    let none = "previous terminated container \"side\" in pod \"pod\" not found";
    let previous = LogParams { previous: true, ..of("side") };
    assert_eq!(refusal(&api, "pod", previous).await, (400, none.to_owned()));
    // These are the API server's own.
    assert_eq!(refusal(&api, "pod", LogParams::default()).await.0, 400);
    assert_eq!(refusal(&api, "pod", of("other")).await.0, 400);
    assert_eq!(refusal(&api, "nobody", of("main")).await.0, 404);
}

async fn a_lost_node_answers_nobody() {
    let testbed = Testbed::start(Options::default()).await.unwrap();
    let client = testbed.client(User::Admin).unwrap();
    let namespace = testbed.create_namespace("test").await.unwrap();
    let mut pods = Pods::watch(&client, &namespace).await;
    let api = Api::<Pod>::namespaced(client.clone(), &namespace);
    let spec = json!({
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "main", "image": "sim/run"}],
    });
    create_pod(&client, &namespace, spec).await;
    let pod = pods.until("ready", is_ready).await;
    let mut follower = follow(&api, None).await;
    assert_eq!(next(&mut follower).await.as_deref(), Some("start 0"));
    testbed.lose_node(node(&pod)).await.unwrap();
    // The API server keeps to itself why there is no more.
    rest(&mut follower).await;
    for previous in [false, true] {
        assert_eq!(refusal(&api, "pod", LogParams { previous, ..LogParams::default() }).await.0, 500);
    }
    testbed.restore_node(node(&pod)).await.unwrap();
    assert_eq!(read(&api, &LogParams::default()).await[0], "start 0", "the container never stopped");
    testbed.stop().await;
}
