//! Nodes of one's own, and nodes that are lost. Both need a control plane that nobody else uses.
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

use std::{collections::HashSet, process::ExitCode};

use k8s_openapi::api::core::v1::Pod;
use pods::{Pods, condition, create_pod, deploy, is_ready, list, node};
use scheduler_k8s_testbed::{Node, Options, Testbed, TestbedError, User};
use serde_json::json;

fn main() -> ExitCode {
    support::run(cases![nodes_are_as_asked_for, a_lost_node_is_left_and_comes_back])
}

async fn nodes_are_as_asked_for() {
    let node = Node::new("big").cpus(64).memory_gib(3).pods(500).label("disk", "fast");
    let testbed = Testbed::start(Options::default().nodes([node])).await.unwrap();
    let template = "{range .items[*]}{.metadata.name} {.status.allocatable.cpu} {.status.allocatable.memory} \
                    {.status.allocatable.pods} {.metadata.labels.disk} {.spec.taints}{end}";
    let output = testbed.kubectl().args(["get", "nodes", "-o", &format!("jsonpath={template}")]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "big 64 3Gi 500 fast ");
    testbed.stop().await;
}

async fn a_lost_node_is_left_and_comes_back() {
    let testbed = Testbed::start(Options::default()).await.unwrap();
    let client = testbed.client(User::Admin).unwrap();
    let namespace = testbed.create_namespace("test").await.unwrap();
    let mut pods = Pods::watch(&client, &namespace).await;
    deploy(&client, &namespace, 3, "sim/run", json!({})).await;
    let victim = pods.until("ready on c", |pod| is_ready(pod) && node(pod) == "node-c").await;
    testbed.lose_node("node-c").await.unwrap();
    let is_victim = |pod: &Pod| pod.metadata.uid == victim.metadata.uid;
    pods.until("not ready", |pod| is_victim(pod) && condition(pod, "Ready") == Some("False")).await;
    let evicted = pods.until("evicted", |pod| is_victim(pod) && pod.metadata.deletion_timestamp.is_some()).await;
    assert_eq!(condition(&evicted, "DisruptionTarget"), Some("True"));
    let known: HashSet<_> = pods.seen().into_iter().map(|pod| pod.metadata.uid).collect();
    let replacement = pods.until("replaced", |pod| is_ready(pod) && !known.contains(&pod.metadata.uid)).await;
    assert_ne!(node(&replacement), "node-c");
    assert!(list(&client, &namespace).await.iter().any(is_victim), "nobody can end a Pod on a lost node");

    testbed.restore_node("node-c").await.unwrap();
    assert_eq!(pods.until_gone().await.metadata.uid, victim.metadata.uid);
    let spec = json!({"nodeName": "node-c", "containers": [{"name": "main", "image": "sim/run"}]});
    create_pod(&client, &namespace, spec).await;
    pods.until("ready on c again", |pod| is_ready(pod) && node(pod) == "node-c").await;

    for result in [testbed.lose_node("node-z").await, testbed.restore_node("node-z").await] {
        assert!(matches!(result, Err(TestbedError::NoSuchNode(name)) if name == "node-z"));
    }
    testbed.stop().await;
}
