//! What Pods go through on simulated nodes, as the real API server and the real controllers see it.
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

use std::process::ExitCode;

use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
};
use pods::{
    Pods, condition, create_pod, deploy, end, event, init_statuses, is_ready, list, phase, runs, statuses, waits,
    waits_for,
};
use scheduler_k8s_testbed::{LazyTestbed, Testbed, TestbedError, User};
use serde_json::json;

static TESTBED: LazyTestbed = LazyTestbed::new();

fn main() -> ExitCode {
    let code = support::run(cases![
        run_becomes_ready_with_addresses_of_its_own,
        slow_creates_its_container_first,
        pull_error_backs_off,
        invalid_image_waits,
        crash_loops_with_its_exit_code,
        a_signal_and_oom_are_told_from_an_exit,
        never_ready_runs_unready,
        never_ready_without_a_probe_is_ready,
        a_readiness_probe_delays_readiness,
        init_containers_come_in_order,
        a_missing_secret_holds_the_container_up,
        run_stops_at_once_stubborn_takes_its_grace,
        kubectl_is_a_witness,
        users_may_do_what_they_are_for,
        namespaces_are_unique_and_usable,
    ]);
    support::block_on(TESTBED.stop());
    code
}

/// The shared testbed, a client of this test's runtime, and a namespace of the test's own.
async fn set_up() -> (&'static Testbed, Client, String) {
    let testbed = TESTBED.get().await.unwrap();
    let client = testbed.client(User::Admin).unwrap();
    let namespace = testbed.create_namespace("test").await.unwrap();
    (testbed, client, namespace)
}

async fn run_becomes_ready_with_addresses_of_its_own() {
    let (_, client, namespace) = set_up().await;
    let mut pods = Pods::watch(&client, &namespace).await;
    deploy(&client, &namespace, 2, "sim/run:1", json!({})).await;
    let first = pods.until("ready", is_ready).await;
    let second = pods.until("ready", |pod| is_ready(pod) && pod.metadata.uid != first.metadata.uid).await;
    let address = |pod: &Pod| pod.status.as_ref().unwrap().pod_ip.clone().unwrap();
    assert_ne!(address(&first), address(&second));
    for pod in [&first, &second] {
        assert!(address(pod).starts_with("198.18."));
        assert!(pod.status.as_ref().unwrap().host_ip.as_ref().unwrap().starts_with("198.18.0."));
        assert_eq!(phase(pod), "Running");
        assert_eq!(condition(pod, "PodScheduled"), Some("True"), "the scheduler's condition stays");
        assert_eq!(condition(pod, "Initialized"), Some("True"));
        assert!(pod.status.as_ref().unwrap().start_time.is_some());
        let main = &statuses(pod)[0];
        assert!(main.ready && main.started == Some(true) && main.restart_count == 0 && !main.image_id.is_empty());
    }
}

async fn slow_creates_its_container_first() {
    let (_, client, namespace) = set_up().await;
    let mut pods = Pods::watch(&client, &namespace).await;
    deploy(&client, &namespace, 1, "sim/slow/after-1", json!({})).await;
    let creating = pods.until("creating", |pod| waits(pod, "ContainerCreating")).await;
    assert_eq!(phase(&creating), "Pending");
    assert_eq!(condition(&creating, "Ready"), Some("False"));
    pods.until("ready", is_ready).await;
}

async fn pull_error_backs_off() {
    let (_, client, namespace) = set_up().await;
    let mut pods = Pods::watch(&client, &namespace).await;
    deploy(&client, &namespace, 1, "sim/pull-error", json!({})).await;
    pods.until("ErrImagePull", |pod| waits(pod, "ErrImagePull")).await;
    let pod = pods.until("ImagePullBackOff", |pod| waits(pod, "ImagePullBackOff")).await;
    assert_eq!(phase(&pod), "Pending");
    let failed = event(&client, &pod, "Failed").await;
    assert_eq!(failed.type_.as_deref(), Some("Warning"));
    assert_eq!(failed.involved_object.field_path.as_deref(), Some("spec.containers{main}"));
    event(&client, &pod, "BackOff").await;
}

async fn invalid_image_waits() {
    let (_, client, namespace) = set_up().await;
    let mut pods = Pods::watch(&client, &namespace).await;
    deploy(&client, &namespace, 1, "sim/no-such-fate", json!({})).await;
    pods.until("InvalidImageName", |pod| waits(pod, "InvalidImageName")).await;
}

async fn crash_loops_with_its_exit_code() {
    let (_, client, namespace) = set_up().await;
    let mut pods = Pods::watch(&client, &namespace).await;
    deploy(&client, &namespace, 1, "sim/crash/after-1/exit-7", json!({})).await;
    pods.until("running", |pod| runs_first(pod) && is_ready(pod)).await;
    let ended = pods.until("terminated", |pod| end(statuses(pod)[0].state.as_ref()).is_some()).await;
    assert_eq!(end(statuses(&ended)[0].state.as_ref()), Some((7, None, "Error")));
    let looping = pods.until("CrashLoopBackOff", |pod| waits(pod, "CrashLoopBackOff")).await;
    assert_eq!(end(statuses(&looping)[0].last_state.as_ref()), Some((7, None, "Error")));
    assert_eq!((phase(&looping), is_ready(&looping)), ("Running", false));
    pods.until("a second restart", |pod| statuses(pod)[0].restart_count == 2).await;
    let counts: Vec<_> = pods.seen().iter().filter_map(|pod| Some(statuses(pod).first()?.restart_count)).collect();
    assert!(counts.is_sorted(), "{counts:?}");
    event(&client, &looping, "BackOff").await;
}

fn runs_first(pod: &Pod) -> bool {
    statuses(pod).first().is_some_and(runs)
}

async fn a_signal_and_oom_are_told_from_an_exit() {
    let (_, client, namespace) = set_up().await;
    let mut pods = Pods::watch(&client, &namespace).await;
    let spec = json!({"containers": [
        {"name": "fault", "image": "sim/crash/after-0/signal-11"},
        {"name": "hog", "image": "sim/oom/after-0"},
    ]});
    create_pod(&client, &namespace, spec).await;
    let both = |pod: &Pod| statuses(pod).iter().filter(|one| waits_for(one, "CrashLoopBackOff")).count() == 2;
    let pod = pods.until("both loop", both).await;
    let ends: Vec<_> = statuses(&pod).iter().map(|one| end(one.last_state.as_ref()).unwrap()).collect();
    assert_eq!(ends, [(139, Some(11), "Error"), (137, Some(9), "OOMKilled")]);
}

async fn never_ready_runs_unready() {
    let (_, client, namespace) = set_up().await;
    let mut pods = Pods::watch(&client, &namespace).await;
    let probe = json!({"readinessProbe": {"tcpSocket": {"port": 1}}});
    deploy(&client, &namespace, 1, "sim/never-ready", probe).await;
    let pod = pods.until("running", runs_first).await;
    event(&client, &pod, "Unhealthy").await;
    let pod = list(&client, &namespace).await.remove(0);
    assert!(runs_first(&pod) && !is_ready(&pod) && !statuses(&pod)[0].ready);
    assert_eq!(statuses(&pod)[0].started, Some(true));
}

async fn never_ready_without_a_probe_is_ready() {
    let (_, client, namespace) = set_up().await;
    let mut pods = Pods::watch(&client, &namespace).await;
    deploy(&client, &namespace, 1, "sim/never-ready", json!({})).await;
    pods.until("ready", is_ready).await;
}

async fn a_readiness_probe_delays_readiness() {
    let (_, client, namespace) = set_up().await;
    let mut pods = Pods::watch(&client, &namespace).await;
    let probes = json!({
        "startupProbe": {"tcpSocket": {"port": 1}},
        "readinessProbe": {"tcpSocket": {"port": 1}, "initialDelaySeconds": 1},
    });
    deploy(&client, &namespace, 1, "sim/run", probes).await;
    pods.until("ready", is_ready).await;
    let mut seen: Vec<_> =
        pods.seen().iter().filter(|pod| runs_first(pod)).map(|pod| (statuses(pod)[0].started, is_ready(pod))).collect();
    seen.dedup();
    assert_eq!(seen, [(Some(false), false), (Some(true), false), (Some(true), true)]);
}

async fn init_containers_come_in_order() {
    let (_, client, namespace) = set_up().await;
    let mut pods = Pods::watch(&client, &namespace).await;
    let spec = json!({
        "initContainers": [
            {"name": "migrate", "image": "sim/run"},
            {"name": "proxy", "image": "sim/run", "restartPolicy": "Always"},
            {"name": "warm", "image": "sim/crash/after-1/exit-0"},
        ],
        "containers": [{"name": "main", "image": "sim/run"}],
    });
    create_pod(&client, &namespace, spec).await;
    let ready = pods.until("ready", is_ready).await;
    assert_eq!(end(init_statuses(&ready)[0].state.as_ref()), Some((0, None, "Completed")));
    assert!(runs(&init_statuses(&ready)[1]) && runs_first(&ready));
    for pod in pods.seen().iter().filter(|pod| !init_statuses(pod).is_empty()) {
        let done = |index: usize| end(init_statuses(pod)[index].state.as_ref()).is_some();
        assert!(done(0) || waits_for(&init_statuses(pod)[1], "PodInitializing"), "proxy before migrate was done");
        assert!(
            runs(&init_statuses(pod)[1]) || waits_for(&init_statuses(pod)[2], "PodInitializing"),
            "warm before proxy ran"
        );
        assert!(done(2) || waits(pod, "PodInitializing"), "main before warm was done");
        assert!(done(2) || phase(pod) == "Pending");
    }
}

async fn a_missing_secret_holds_the_container_up() {
    let (_, client, namespace) = set_up().await;
    let mut pods = Pods::watch(&client, &namespace).await;
    let env = json!({"env": [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "api", "key": "key"}}}]});
    deploy(&client, &namespace, 1, "sim/run", env).await;
    let pod = pods.until("an error", |pod| waits(pod, "CreateContainerConfigError")).await;
    let waiting = statuses(&pod)[0].state.as_ref().unwrap().waiting.as_ref().unwrap();
    assert_eq!(waiting.message.as_deref(), Some("secret \"api\" not found"));
    event(&client, &pod, "Failed").await;
    let secret: Secret =
        serde_json::from_value(json!({"metadata": {"name": "api"}, "stringData": {"key": "x"}})).unwrap();
    Api::namespaced(client.clone(), &namespace).create(&PostParams::default(), &secret).await.unwrap();
    let ready = pods.until("ready", is_ready).await;
    assert_eq!(statuses(&ready)[0].restart_count, 0);
}

async fn run_stops_at_once_stubborn_takes_its_grace() {
    let (_, client, namespace) = set_up().await;
    let mut pods = Pods::watch(&client, &namespace).await;
    let spec = json!({
        "terminationGracePeriodSeconds": 2,
        "initContainers": [{"name": "proxy", "image": "sim/run", "restartPolicy": "Always"}],
        "containers": [{"name": "polite", "image": "sim/run"}, {"name": "deaf", "image": "sim/stubborn"}],
    });
    let created = create_pod(&client, &namespace, spec).await;
    pods.until("ready", is_ready).await;
    let api = Api::<Pod>::namespaced(client.clone(), &namespace);
    api.delete("pod", &DeleteParams::default()).await.unwrap();
    event(&client, &created, "Killing").await;
    let stopping = pods.until("one stopped", |pod| end(statuses(pod)[0].state.as_ref()).is_some()).await;
    assert_eq!(end(statuses(&stopping)[0].state.as_ref()), Some((0, None, "Completed")));
    assert!(runs(&statuses(&stopping)[1]), "the deaf one runs on");
    assert!(runs(&init_statuses(&stopping)[0]), "the sidecar stays until the end");
    let stopped = pods.until("the other stopped", |pod| end(statuses(pod)[1].state.as_ref()).is_some()).await;
    assert_eq!(end(statuses(&stopped)[1].state.as_ref()), Some((137, None, "Error")));
    assert_eq!(end(init_statuses(&stopped)[0].state.as_ref()), Some((0, None, "Completed")));
    let gone = pods.until_gone().await;
    assert_eq!(gone.metadata.uid, created.metadata.uid);
}

async fn kubectl_is_a_witness() {
    let (testbed, client, namespace) = set_up().await;
    let mut pods = Pods::watch(&client, &namespace).await;
    deploy(&client, &namespace, 1, "sim/run", json!({})).await;
    pods.until("ready", is_ready).await;
    let output = testbed.kubectl().args(["get", "pods", "-n", &namespace, "--no-headers"]).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    let columns: Vec<_> = told.split_whitespace().collect();
    assert_eq!(columns[1..4], ["1/1", "Running", "0"]);
    let rollout =
        testbed.kubectl().args(["rollout", "status", "deployment/web", "--timeout=60s", "-n", &namespace]).output();
    assert!(rollout.unwrap().status.success());
}

async fn users_may_do_what_they_are_for() {
    let (testbed, _, namespace) = set_up().await;
    let code = |result: kube::Result<()>| match result {
        Ok(()) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(error) => panic!("{error}"),
    };
    let pods = |user| Api::<Pod>::namespaced(testbed.client(user).unwrap(), &namespace);
    let secrets = Api::<Secret>::namespaced(testbed.client(User::ReadOnly).unwrap(), &namespace);
    let parameters = Default::default();
    assert_eq!(code(pods(User::ReadOnly).list(&parameters).await.map(drop)), 200);
    assert_eq!(code(secrets.list(&parameters).await.map(drop)), 403);
    assert_eq!(code(pods(User::ReadOnly).delete("none", &DeleteParams::default()).await.map(drop)), 403);
    assert_eq!(code(pods(User::Nobody).list(&parameters).await.map(drop)), 403);

    let file = testbed.kubectl().env("KUBECONFIG", "/nowhere").args(["auth", "whoami", "-o", "name"]).output().unwrap();
    assert!(file.status.success(), "kubectl takes the testbed's kubeconfig");
    let options = kube::config::KubeConfigOptions::default();
    let kubeconfig = kube::config::Kubeconfig::read_from(testbed.kubeconfig(User::Nobody)).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let nobody = Api::<Pod>::namespaced(Client::try_from(config).unwrap(), &namespace);
    assert_eq!(code(nobody.list(&parameters).await.map(drop)), 403);

    let mut config = testbed.config(User::Admin);
    config.auth_info.token = Some("not-a-token".to_owned().into());
    let stranger = Api::<Pod>::namespaced(Client::try_from(config).unwrap(), &namespace);
    assert_eq!(code(stranger.list(&parameters).await.map(drop)), 401);
}

async fn namespaces_are_unique_and_usable() {
    let (testbed, client, first) = set_up().await;
    let second = testbed.create_namespace("test").await.unwrap();
    assert_ne!(first, second);
    create_pod(&client, &second, json!({"containers": [{"name": "main", "image": "sim/run"}]})).await;
    let refused = testbed.create_namespace("Not A Name").await.unwrap_err();
    assert!(matches!(&refused, TestbedError::Kubernetes { doing, .. } if doing.contains("Not A Name")), "{refused:?}");
}
