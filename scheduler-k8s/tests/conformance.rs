//! The conformance suite of the core on a real Kubernetes API server, with real controllers and simulated kubelets.
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "this is a test, which clippy cannot tell without #[test]"
)]

mod support;

use std::collections::BTreeMap;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, try_join_all};
use libtest_mimic::{Arguments, Completion};
use scheduler_core::conformance::{
    Case, Disturbance, Failure, Hand, Harness, Injection, Outcome, Timing, World, cases, soak,
};
use scheduler_core::memory::Fate;
use scheduler_core::{Capabilities, Namespace, OwnerId, Role, Scheduler, Target, Workload};
use scheduler_k8s::KubernetesScheduler;
use scheduler_k8s::client::{Client, kube};
use scheduler_k8s_testbed::{LazyTestbed, Testbed, User};
use serde_json::{Value, json};
use support::fault::Faults;
use support::{RUNTIME, TESTBED};

static OTHER_TESTBED: LazyTestbed = LazyTestbed::new();

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Cases wait most of the time.
    arguments.test_threads.get_or_insert(8);
    let harness: Arc<dyn Harness> = Arc::new(KubernetesHarness { testbed: &TESTBED });
    let mut trials: Vec<_> = cases().into_iter().map(trial).collect();
    trials.extend(soak(&harness).expect("a range of seeds"));
    let code = support::run(&arguments, trials);
    RUNTIME.block_on(OTHER_TESTBED.stop());
    code
}

fn trial(case: Case) -> libtest_mimic::Trial {
    // Cases that end a node for good share a control plane of their own.
    let testbed = if case.hands().contains(&Hand::LoseNode) { &OTHER_TESTBED } else { &TESTBED };
    let harness: Arc<dyn Harness> = Arc::new(KubernetesHarness { testbed });
    support::gated(case.id(), move || match case.skipped_on(&harness.capabilities()) {
        Some(reason) => Ok(Completion::ignored_with(reason)),
        None => case.run(&harness).map(|()| Completion::Completed).map_err(Into::into),
    })
}

#[derive(Debug)]
struct KubernetesHarness {
    testbed: &'static LazyTestbed,
}

impl Harness for KubernetesHarness {
    fn capabilities(&self) -> Capabilities {
        // Without a server: what a scheduler says of those that it is made for.
        let _runtime = RUNTIME.enter();
        let nowhere = tower::service_fn(|_: http::Request<kube::client::Body>| async {
            Err::<http::Response<http_body_util::Empty<bytes::Bytes>>, tower::BoxError>("there is no server".into())
        });
        let client = Client::new(kube::Client::new(nowhere, "default"));
        KubernetesScheduler::new(client, OwnerId::new("anybody").expect("it is one")).capabilities().clone()
    }

    fn fate(&self, mut workload: Workload, fate: Fate, tag: &str) -> Workload {
        for container in workload.containers.iter_mut().filter(|container| container.role == Role::Main) {
            container.image = fate.image(tag);
        }
        workload
    }

    fn timing(&self) -> Timing {
        Timing::new(12, Duration::from_secs(90), Duration::from_millis(100))
    }

    fn run(&self, case: BoxFuture<'static, Outcome>) -> Outcome {
        RUNTIME.block_on(case)
    }

    fn world(&self) -> BoxFuture<'static, Result<Arc<dyn World>, Failure>> {
        let testbed = self.testbed;
        async move {
            let testbed = testbed.get().await.map_err(failure)?;
            let namespace =
                Namespace::new(testbed.create_namespace("case").await.map_err(failure)?).map_err(failure)?;
            let hands = testbed.client(User::Admin).map_err(failure)?;
            let world: Arc<dyn World> = Arc::new(KubernetesWorld { testbed, namespace, hands, faults: Faults::new() });
            Ok(world)
        }
        .boxed()
    }
}

fn failure(error: impl ToString) -> Failure {
    Failure(error.to_string())
}

struct KubernetesWorld {
    testbed: &'static Testbed,
    namespace: Namespace,
    /// Reads behind the scheduler's back.
    hands: kube::Client,
    faults: Faults,
}

impl std::fmt::Debug for KubernetesWorld {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubernetesWorld").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

impl KubernetesWorld {
    /// kubectl in this world's namespace, as somebody else.
    fn kubectl(&self) -> Command {
        let mut command = self.testbed.kubectl();
        command.args(["--namespace", self.namespace.as_str()]);
        command
    }

    async fn run(&self, mut command: Command) -> Result<String, Failure> {
        let output = tokio::task::spawn_blocking(move || command.output()).await.map_err(failure)?.map_err(failure)?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(Failure(String::from_utf8_lossy(&output.stderr).into_owned()))
        }
    }

    async fn kubectl_with(&self, arguments: &[&str]) -> Result<String, Failure> {
        let mut command = self.kubectl();
        command.args(arguments);
        self.run(command).await
    }

    /// The objects of a kind, read at the path of its interface.
    async fn get(&self, interface: &str, kinds: &str) -> Result<Vec<Value>, Failure> {
        let path = format!("{interface}/namespaces/{}/{kinds}", self.namespace);
        let request = http::Request::get(path).body(Vec::new()).map_err(failure)?;
        let mut list: Value = self.hands.request(request).await.map_err(failure)?;
        Ok(list["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
    }

    async fn create(&self, object: &Value) -> Result<(), Failure> {
        use std::io::Write as _;
        let text = object.to_string();
        let mut command = self.kubectl();
        command.args(["create", "--filename", "-"]).stdin(std::process::Stdio::piped());
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let output = tokio::task::spawn_blocking(move || {
            let mut child = command.spawn()?;
            child.stdin.take().expect("it is piped").write_all(text.as_bytes())?;
            child.wait_with_output()
        });
        let output = output.await.map_err(failure)?.map_err(failure)?;
        let said = || Failure(String::from_utf8_lossy(&output.stderr).into_owned());
        output.status.success().then_some(()).ok_or_else(said)
    }
}

#[async_trait]
impl World for KubernetesWorld {
    fn namespace(&self) -> Namespace {
        self.namespace.clone()
    }

    async fn second_namespace(&self) -> Result<Namespace, Failure> {
        Namespace::new(self.testbed.create_namespace("second").await.map_err(failure)?).map_err(failure)
    }

    fn scheduler(&self, owner: &OwnerId) -> Arc<dyn Scheduler> {
        let client = self.faults.client(self.testbed.client(User::Admin).expect("a client"));
        Arc::new(KubernetesScheduler::new(Client::new(client), owner.clone()).for_version(1, 36))
    }

    async fn disturb(&self, target: &Target, disturbance: Disturbance) -> Result<(), Failure> {
        let name = target.name.as_str();
        let deployment = match disturbance {
            Disturbance::MakeForeign(_) | Disturbance::RemoveService | Disturbance::BreakWatches => String::new(),
            _ => self.main_object(name).await?,
        };
        let done = match disturbance {
            Disturbance::SetImage(image) => {
                let template = if deployment.starts_with("cronjob") { "spec.jobTemplate.spec" } else { "spec" };
                let path = format!("jsonpath={{.{template}.template.spec.containers[0].name}}");
                let container = self.kubectl_with(&["get", &deployment, "--output", &path]).await?;
                let image = format!("{container}={image}");
                self.kubectl_with(&["set", "image", &deployment, &image]).await
            }
            Disturbance::SetReplicas(count) => {
                self.kubectl_with(&["scale", &deployment, &format!("--replicas={count}")]).await
            }
            Disturbance::AddAnnotation => {
                self.kubectl_with(&["annotate", &deployment, "example.org/note=by somebody else"]).await
            }
            Disturbance::RemoveService => self.kubectl_with(&["delete", "service", name]).await,
            Disturbance::MakeForeign(owner) => {
                let mut labels = json!({"app": name});
                if let Some(owner) = owner {
                    labels["scheduler/owner"] = owner.as_str().into();
                }
                return self.create(&foreign_deployment(name, &labels)).await;
            }
            Disturbance::MakeForeignInstance => {
                let path = "jsonpath={.spec.selector.matchLabels}";
                let selector = self.kubectl_with(&["get", &deployment, "--output", path]).await?;
                let labels: Value = serde_json::from_str(&selector).map_err(failure)?;
                return self.create(&foreign_pod(&format!("{name}-foreign"), &labels)).await;
            }
            Disturbance::LoseNode => return self.lose_node(name).await,
            Disturbance::BreakWatches => {
                self.faults.break_watches();
                return Ok(());
            }
            other => return Err(Failure(format!("this harness does not know {other:?}"))),
        };
        done.map(drop)
    }

    async fn objects(&self) -> Result<Vec<(String, String)>, Failure> {
        let (mut found, mut histories) = (Vec::new(), BTreeMap::<String, Vec<_>>::new());
        let all = try_join_all(KINDS.iter().map(|(interface, kinds, kind)| async move {
            self.get(interface, kinds).await.map(|objects| objects.into_iter().map(move |object| (*kind, object)))
        }));
        for (kind, object) in all.await?.into_iter().flatten() {
            let metadata = &object["metadata"];
            let name = metadata["name"].as_str().unwrap_or_default();
            // Of what a controller made, only a run that was begun by hand is ours.
            let is_run = kind == "Job" && metadata["labels"]["scheduler/target"] == name;
            let controlled = metadata["ownerReferences"][0]["controller"] == true && !is_run;
            // The authority's certificate is in every namespace.
            if controlled || name == "kube-root-ca.crt" {
                continue;
            }
            // Who wrote what, but for the controllers, which write the status alone.
            let managed = metadata["managedFields"].as_array().into_iter().flatten();
            let managed: Vec<_> = managed.filter(|entry| entry.get("subresource") != Some(&json!("status"))).collect();
            // Kinds without a generation have no status, so that no controller writes them.
            let written = metadata.get("generation").unwrap_or(&metadata["resourceVersion"]);
            let token = json!([metadata["uid"], written, metadata["labels"], managed]);
            // How many entries a history has depends on what was launched before. A launch tells them as one, too.
            match metadata["labels"]["scheduler/history"].as_str() {
                Some(of) => histories.entry(format!("ControllerRevisions/{of}")).or_default().push(token),
                None => found.push((format!("{kind}/{name}"), token.to_string())),
            }
        }
        found.extend(histories.into_iter().map(|(name, tokens)| (name, json!(tokens).to_string())));
        found.sort();
        Ok(found)
    }

    async fn instances(&self) -> Result<Vec<String>, Failure> {
        let pods = self.get("/api/v1", "pods").await?;
        let living = pods.iter().filter(|pod| !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")));
        Ok(living.map(instance_id).collect())
    }

    fn inject(&self, nth: u32, fault: Injection) {
        self.faults.inject(nth, fault);
    }

    fn injected(&self) -> bool {
        self.faults.injected()
    }
}

impl KubernetesWorld {
    /// The main object of this name, as kubectl takes it (`deployment.apps/web`).
    async fn main_object(&self, name: &str) -> Result<String, Failure> {
        for kind in ["deployment", "statefulset", "daemonset", "job", "cronjob"] {
            let found = self.kubectl_with(&["get", kind, name, "--ignore-not-found", "--output", "name"]).await?;
            if !found.trim().is_empty() {
                return Ok(found.trim().to_owned());
            }
        }
        Err(Failure(format!("there is no main object {name}")))
    }

    /// Loses the node of one of the workload's Pods.
    async fn lose_node(&self, name: &str) -> Result<(), Failure> {
        let pods = self.get("/api/v1", "pods").await?;
        let pod = pods.iter().find(|pod| pod["metadata"]["labels"]["scheduler/target"] == name);
        let node =
            pod.and_then(|pod| pod["spec"]["nodeName"].as_str()).ok_or_else(|| Failure("no Pod has a node".into()))?;
        self.testbed.lose_node(node).await.map_err(failure)
    }
}

/// Where the kinds are that could be ours, and what they are called.
const KINDS: &[(&str, &str, &str)] = &[
    ("/apis/apps/v1", "deployments", "Deployment"),
    ("/apis/apps/v1", "statefulsets", "StatefulSet"),
    ("/apis/apps/v1", "daemonsets", "DaemonSet"),
    ("/apis/apps/v1", "replicasets", "ReplicaSet"),
    ("/apis/apps/v1", "controllerrevisions", "ControllerRevision"),
    ("/apis/batch/v1", "jobs", "Job"),
    ("/apis/batch/v1", "cronjobs", "CronJob"),
    ("/apis/networking.k8s.io/v1", "ingresses", "Ingress"),
    ("/api/v1", "services", "Service"),
    ("/api/v1", "configmaps", "ConfigMap"),
    ("/api/v1", "secrets", "Secret"),
];

/// As the scheduler makes it: of a StatefulSet's Pod with the start of its uid.
fn instance_id(pod: &Value) -> String {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
    match pod["metadata"]["ownerReferences"][0]["kind"].as_str() {
        Some("StatefulSet") => format!("{}.{}", text("name"), &text("uid")[..8]),
        _ => text("name"),
    }
}

fn foreign_deployment(name: &str, labels: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "other", "image": "sim/run:foreign"}]},
            },
        },
    })
}

fn foreign_pod(name: &str, labels: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "other", "image": "sim/run:foreign"}]},
    })
}
