//! kubectl as an independent witness of what the scheduler says and does.
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "this is a test, which clippy cannot tell without #[test]"
)]

mod support;

use std::process::{ExitCode, Stdio};
use std::time::Duration;

use futures_util::future::BoxFuture;
use libtest_mimic::{Arguments, Completion, Trial};
use scheduler_core::{
    Change, Container, Delete, Deleted, Effect, Error, ErrorKind, Guard, Launch, Missing, ObjectAction, OwnerId, Ping,
    Scheduler as _, Status, Target, Workload,
};
use scheduler_k8s::client::{Client, ConnectOptions};
use scheduler_k8s::{KubernetesConfig, KubernetesScheduler};
use scheduler_k8s_testbed::{Testbed, User};
use serde_json::{Value, json};
use support::fault::Faults;
use support::{RUNTIME, TESTBED};

type Case = fn() -> BoxFuture<'static, ()>;

macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        vec![$((stringify!($case), (|| Box::pin($case())) as Case)),*]
    };
}

fn main() -> ExitCode {
    let cases = cases![
        kubectl_sees_what_launch_says,
        a_second_launch_writes_nothing,
        requests_are_as_documented,
        drift_by_kubectl_is_repaired_and_reported,
        a_port_that_another_manager_holds_moves,
        what_another_manager_added_to_a_list_goes,
        adopting_leaves_nothing_of_the_other,
        an_object_made_by_create_is_adopted_whole,
        delete_leaves_nothing,
        an_orphaned_delete_is_completed,
        a_foreign_deployment_is_untouched,
        a_foreign_service_is_untouched_and_nothing_is_made,
        a_missing_namespace_is_not_found,
        refusals_of_the_server_name_our_fields,
        without_rights_it_is_forbidden,
        connects_as_configured,
    ];
    let trials = cases.into_iter().map(|(name, case)| trial(name, case)).collect();
    support::run(&Arguments::from_args(), trials)
}

fn trial(name: &str, case: Case) -> Trial {
    support::gated(name, move || {
        RUNTIME.block_on(case());
        Ok(Completion::Completed)
    })
}

struct World {
    testbed: &'static Testbed,
    namespace: String,
    scheduler: KubernetesScheduler,
    faults: Faults,
}

impl World {
    async fn new() -> Self {
        let testbed = TESTBED.get().await.unwrap();
        let faults = Faults::new();
        let client = Client::new(faults.client(testbed.client(User::Admin).unwrap()));
        let scheduler = KubernetesScheduler::new(client, owner("platform")).for_version(1, 36);
        Self { testbed, namespace: testbed.create_namespace("witness").await.unwrap(), scheduler, faults }
    }

    fn workload(&self) -> Workload {
        let web = Container::new("web", "sim/run:1").port("http", 8080).env("A", "1");
        Workload::service(&self.namespace, "web").container(web).termination_grace(1)
    }

    fn target(&self) -> Target {
        Target::new(&self.namespace, "web").unwrap()
    }

    async fn launch(&self, workload: Workload) -> scheduler_core::Launched {
        self.try_launch(workload, Guard::IfOwned).await.unwrap()
    }

    async fn try_launch(&self, workload: Workload, guard: Guard) -> Result<scheduler_core::Launched, Error> {
        self.scheduler.launch(Launch::new(workload.check().unwrap()).guard(guard)).await
    }

    async fn delete_whole(&self) {
        let steps = async {
            while let Deleted::Deleting { .. } = self.scheduler.delete(Delete::new(self.target())).await.unwrap() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), steps).await.expect("it is gone in time");
    }

    /// kubectl in this namespace; fails with what it says.
    async fn kubectl(&self, arguments: &[&str]) -> String {
        self.kubectl_with(arguments, "").await
    }

    async fn kubectl_with(&self, arguments: &[&str], input: &str) -> String {
        use std::io::Write as _;
        let mut command = self.testbed.kubectl();
        command.args(["--namespace", &self.namespace]).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let input = input.to_owned();
        let output = tokio::task::spawn_blocking(move || {
            let mut child = command.spawn().unwrap();
            child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
            child.wait_with_output().unwrap()
        });
        let output = output.await.unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    async fn get(&self, what: &str) -> Value {
        serde_json::from_str(&self.kubectl(&["get", what, "web", "--output", "json"]).await).unwrap()
    }

    /// Everything in the namespace that bears a label of ours.
    async fn ours(&self) -> Vec<String> {
        let kinds = "deployments,replicasets,pods,services,configmaps,secrets,controllerrevisions";
        let names = self.kubectl(&["get", kinds, "--selector", "scheduler/target", "--output", "name"]).await;
        names.lines().map(str::to_owned).collect()
    }

    async fn resource_versions(&self) -> Vec<Value> {
        let (deployment, service) = (self.get("deployment").await, self.get("service").await);
        [deployment, service].map(|object| object["metadata"]["resourceVersion"].clone()).into()
    }

    /// Waits until the controllers have nothing to do any more.
    async fn rolled_out(&self) {
        self.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]).await;
    }
}

fn owner(id: &str) -> OwnerId {
    OwnerId::new(id).unwrap()
}

async fn kubectl_sees_what_launch_says() {
    let world = World::new().await;
    let launched = world.launch(world.workload().replicas(2).label("team", "blue")).await;
    assert_eq!(launched.change, Change::Created);
    let said: Vec<_> = launched.objects.iter().map(|o| (o.kind.as_str(), o.name.as_str(), o.action)).collect();
    assert_eq!(said, [("Deployment", "web", ObjectAction::Created), ("Service", "web", ObjectAction::Created)]);
    world.rolled_out().await;
    let (deployment, service) = (world.get("deployment").await, world.get("service").await);
    assert_eq!(deployment["metadata"]["annotations"]["scheduler/revision"], launched.revision.as_str());
    assert_eq!(deployment["status"]["readyReplicas"], 2);
    assert_eq!(service["spec"]["ports"][0]["port"], 8080);
    assert_eq!(service["metadata"]["ownerReferences"][0]["uid"], deployment["metadata"]["uid"]);
    let pods = world.kubectl(&["get", "pods", "-l", "scheduler/owner=platform,team=blue", "-o", "name"]).await;
    assert_eq!(pods.lines().count(), 2);
    let addresses =
        world.kubectl(&["get", "endpointslices", "-o", "jsonpath={.items[*].endpoints[*].addresses}"]).await;
    assert_eq!(addresses.split_whitespace().count(), 2, "the Service finds the Pods: {addresses}");
}

async fn a_second_launch_writes_nothing() {
    let world = World::new().await;
    world.launch(world.workload()).await;
    world.rolled_out().await;
    let before = world.resource_versions().await;
    assert_eq!(world.launch(world.workload()).await.change, Change::Unchanged);
    assert_eq!(world.resource_versions().await, before);
}

async fn requests_are_as_documented() {
    let world = World::new().await;
    let (deployment, service, sets, pods) = (
        format!("/apis/apps/v1/namespaces/{}/deployments/web", world.namespace),
        format!("/api/v1/namespaces/{}/services/web", world.namespace),
        format!("/apis/apps/v1/namespaces/{}/replicasets", world.namespace),
        format!("/api/v1/namespaces/{}/pods", world.namespace),
    );
    let sent = |requests: &[(&str, &String)]| -> Vec<String> {
        requests.iter().map(|(method, path)| format!("{method} {path}")).collect()
    };
    world.launch(world.workload()).await;
    let created = [("GET", &deployment), ("GET", &service), ("PATCH", &deployment), ("PATCH", &service)];
    assert_eq!(world.faults.take_requests(), sent(&created));
    world.rolled_out().await;

    world.launch(world.workload()).await;
    assert_eq!(world.faults.take_requests(), sent(&[("GET", &deployment), ("GET", &service)]));

    world.launch(world.workload().replicas(2)).await;
    assert_eq!(world.faults.take_requests(), sent(&[("GET", &deployment), ("GET", &service), ("PATCH", &deployment)]));
    world.rolled_out().await;

    let status = |detail| world.scheduler.status(Status::new(world.target(), detail));
    status(scheduler_core::Detail::Instances).await.unwrap();
    assert_eq!(world.faults.take_requests(), sent(&[("GET", &deployment), ("GET", &sets), ("GET", &pods)]));
    status(scheduler_core::Detail::Evidence).await.unwrap();
    assert_eq!(world.faults.take_requests().len(), 4);

    world.scheduler.list(scheduler_core::List::default()).await.unwrap();
    assert_eq!(world.faults.take_requests().len(), 3);
    world.scheduler.ping(Ping::default()).await.unwrap();
    assert_eq!(world.faults.take_requests(), ["GET /version"]);

    world.scheduler.delete(Delete::new(world.target())).await.unwrap();
    let deleted = [
        ("GET", &deployment),
        ("GET", &service),
        ("DELETE", &deployment),
        ("DELETE", &service),
        ("GET", &sets),
        ("GET", &pods),
    ];
    assert_eq!(world.faults.take_requests(), sent(&deleted));
}

async fn drift_by_kubectl_is_repaired_and_reported() {
    let world = World::new().await;
    world.launch(world.workload()).await;
    world.kubectl(&["set", "image", "deployment/web", "web=sim/run:drift"]).await;
    world.kubectl(&["delete", "service", "web"]).await;
    let seen = world.scheduler.status(Status::new(world.target(), Default::default())).await.unwrap().0.unwrap();
    assert_eq!(seen.revision, None, "somebody else changed it");

    let repaired = world.launch(world.workload()).await;
    assert_eq!(repaired.change, Change::Updated(Effect::Rolling));
    let actions: Vec<_> = repaired.objects.iter().map(|object| object.action).collect();
    assert_eq!(actions, [ObjectAction::Updated, ObjectAction::Created]);
    assert!(repaired.warnings.iter().any(|warning| warning.contains("kubectl")), "{:?}", repaired.warnings);
    let image = &world.get("deployment").await["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image, "sim/run:1");
    world.get("service").await;
    let seen = world.scheduler.status(Status::new(world.target(), Default::default())).await.unwrap().0.unwrap();
    assert_eq!(seen.revision, Some(repaired.revision));
}

/// BR-01: another manager claims the port too, so that the old number would stay beside the new one under the same name,
/// which the server refuses.
async fn a_port_that_another_manager_holds_moves() {
    let world = World::new().await;
    world.launch(world.workload()).await;
    let ports = json!([{"name": "http", "port": 8080, "targetPort": "http", "protocol": "TCP"}]);
    let theirs = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": ports}});
    world.kubectl_with(&["apply", "--server-side", "--filename", "-"], &theirs.to_string()).await;
    let managers = world.kubectl(&["get", "service", "web", "--show-managed-fields", "--output", "json"]).await;
    let port = r#"k:{\"port\":8080,\"protocol\":\"TCP\"}"#;
    assert_eq!(managers.matches(port).count(), 2, "the port is claimed twice: {managers}");

    let mut moved = world.workload();
    moved.containers[0].ports[0].port = 9090;
    let launched = world.launch(moved.clone()).await;
    assert!(matches!(launched.change, Change::Updated(_)), "{}", launched.change);
    let ports = world.get("service").await["spec"]["ports"].clone();
    assert_eq!(ports.as_array().unwrap().len(), 1, "{ports}");
    assert_eq!(ports[0]["port"], 9090);
    assert_eq!(world.launch(moved).await.change, Change::Unchanged);
}

async fn what_another_manager_added_to_a_list_goes() {
    let world = World::new().await;
    world.launch(world.workload()).await;
    world.kubectl(&["set", "env", "deployment/web", "B=2"]).await;
    // It is nobody's drift by itself.
    assert_eq!(world.launch(world.workload()).await.change, Change::Unchanged);
    let mut changed = world.workload();
    changed.containers[0].image = "sim/run:2".to_owned();
    let launched = world.launch(changed).await;
    assert!(launched.warnings.iter().any(|warning| warning.contains("kubectl")), "{:?}", launched.warnings);
    let env = &world.get("deployment").await["spec"]["template"]["spec"]["containers"][0]["env"];
    assert_eq!(*env, json!([{"name": "A", "value": "1"}]));
}

fn foreign_deployment(labels: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "labels": labels},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}, "annotations": {"tool": "x"}},
                "spec": {
                    "nodeSelector": {"kubernetes.io/os": "linux"},
                    "containers": [{
                        "name": "web", "image": "sim/run:theirs",
                        "env": [{"name": "A", "value": "0"}, {"name": "B", "value": "2"}],
                    }],
                },
            },
        },
    })
}

async fn adopting_leaves_nothing_of_the_other() {
    let world = World::new().await;
    let other = Client::new(world.testbed.client(User::Admin).unwrap());
    let other = KubernetesScheduler::new(other, owner("other")).for_version(1, 36);
    let mut theirs = world.workload().label("theirs", "yes");
    theirs.containers[0] = theirs.containers[0].clone().env("B", "2").port("more", 8081);
    other.launch(Launch::new(theirs.check().unwrap())).await.unwrap();
    let adopted = world.try_launch(world.workload(), Guard::Adopt).await.unwrap();
    assert_eq!(adopted.adopted_from, Some(Some(owner("other"))));
    assert_eq!(adopted.change, Change::Updated(Effect::Rolling));
    let (deployment, service) = (world.get("deployment").await, world.get("service").await);
    assert_eq!(deployment["metadata"]["labels"], json!({"scheduler/owner": "platform", "scheduler/target": "web"}));
    assert_eq!(service["spec"]["ports"].as_array().unwrap().len(), 1);
    world.rolled_out().await;
    assert_eq!(world.launch(world.workload()).await.change, Change::Unchanged);
}

/// BR-03: server-side apply alone leaves what a create set.
async fn an_object_made_by_create_is_adopted_whole() {
    let world = World::new().await;
    world.kubectl_with(&["create", "--filename", "-"], &foreign_deployment(&json!({"app": "web"})).to_string()).await;
    let adopted = world.try_launch(world.workload(), Guard::Adopt).await.unwrap();
    assert_eq!(adopted.adopted_from, Some(None));
    assert_eq!(adopted.change, Change::Updated(Effect::Rolling));
    assert!(adopted.warnings.iter().any(|warning| warning.contains("kubectl")), "{:?}", adopted.warnings);
    let template = &world.get("deployment").await["spec"]["template"];
    assert_eq!(template["spec"]["containers"][0]["env"], json!([{"name": "A", "value": "1"}]));
    assert_eq!((template["spec"].get("nodeSelector"), template["metadata"].get("annotations")), (None, None));
    world.rolled_out().await;
    assert_eq!(world.launch(world.workload()).await.change, Change::Unchanged);
    // Also what is left of the other's Pods counts until it has ended, and a delete takes all of it.
    world.delete_whole().await;
    assert_eq!(world.kubectl(&["get", "deployments,replicasets,pods,services", "--output", "name"]).await, "");
}

async fn delete_leaves_nothing() {
    let world = World::new().await;
    world.launch(world.workload().replicas(2)).await;
    world.rolled_out().await;
    assert!(world.ours().await.len() >= 5);
    world.delete_whole().await;
    assert_eq!(world.ours().await, Vec::<String>::new());
    assert_eq!(world.scheduler.delete(Delete::new(world.target())).await.unwrap(), Deleted::WasAbsent);
}

async fn an_orphaned_delete_is_completed() {
    let world = World::new().await;
    world.launch(world.workload()).await;
    world.rolled_out().await;
    world.kubectl(&["delete", "deployment", "web", "--cascade=orphan"]).await;
    assert!(!world.ours().await.is_empty());
    world.delete_whole().await;
    // The ReplicaSet goes after its Pods.
    world.kubectl(&["wait", "--for=delete", "replicasets,pods", "--all", "--timeout=60s"]).await;
    assert_eq!(world.ours().await, Vec::<String>::new());
}

async fn a_foreign_deployment_is_untouched() {
    let world = World::new().await;
    world.kubectl_with(&["create", "--filename", "-"], &foreign_deployment(&json!({"app": "web"})).to_string()).await;
    world.rolled_out().await;
    let before = world.get("deployment").await;
    let launched = world.try_launch(world.workload(), Guard::IfOwned).await.unwrap_err();
    let deleted = world.scheduler.delete(Delete::new(world.target())).await.unwrap_err();
    let foreign = ErrorKind::Conflict(scheduler_core::Conflict::Owner { owner: None });
    assert_eq!((launched.kind(), deleted.kind()), (&foreign, &foreign));
    let status = world.scheduler.status(Status::new(world.target(), Default::default())).await.unwrap();
    assert!(status.0.is_none());
    let after = world.get("deployment").await;
    assert_eq!(after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
    assert_eq!(world.kubectl(&["get", "services", "--output", "name"]).await, "");
}

async fn a_foreign_service_is_untouched_and_nothing_is_made() {
    let world = World::new().await;
    world.kubectl(&["create", "service", "clusterip", "web", "--tcp=80:80"]).await;
    let launched = world.try_launch(world.workload(), Guard::IfOwned).await.unwrap_err();
    assert_eq!(*launched.kind(), ErrorKind::Conflict(scheduler_core::Conflict::Owner { owner: None }));
    assert_eq!(world.kubectl(&["get", "deployments", "--output", "name"]).await, "");
    // A workload without ports has no need of that name.
    let mut silent = world.workload();
    silent.containers[0].ports.clear();
    assert_eq!(world.launch(silent).await.change, Change::Created);
    world.delete_whole().await;
    assert_eq!(world.get("service").await["spec"]["ports"][0]["port"], 80);
}

async fn a_missing_namespace_is_not_found() {
    let mut world = World::new().await;
    world.namespace = "nowhere".to_owned();
    let error = world.try_launch(world.workload(), Guard::IfOwned).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::NotFound(Missing::Namespace), "{error}");
}

async fn refusals_of_the_server_name_our_fields() {
    let world = World::new().await;
    let mut workload = world.workload();
    // What the model lets pass and this server does not.
    workload.annotations.insert("note".to_owned(), "x".repeat(190 * 1024));
    let kubernetes = scheduler_core::BackendName::kubernetes();
    let extension = json!({"deployment": {
        "metadata": {"annotations": {"more": "x".repeat(100 * 1024)}},
        "spec": {"template": {"spec": {"priorityClassName": "Not A Name"}}},
    }});
    let error = world.try_launch(workload.extension(&kubernetes, extension), Guard::IfOwned).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::InvalidArgument, "{error}");
    let mut paths: Vec<_> = error.causes().iter().map(|cause| cause.path.as_str()).collect();
    paths.dedup();
    assert_eq!(paths, ["annotations", "Deployment.spec.template.spec.priorityClassName"], "{error}");
}

async fn without_rights_it_is_forbidden() {
    let world = World::new().await;
    let as_user = |user| KubernetesScheduler::new(Client::new(world.testbed.client(user).unwrap()), owner("platform"));
    let read_only = as_user(User::ReadOnly).launch(Launch::new(world.workload().check().unwrap())).await.unwrap_err();
    assert_eq!(*read_only.kind(), ErrorKind::Forbidden);
    assert!(read_only.to_string().contains("patch deployments.apps"), "{read_only}");
    let nobody = as_user(User::Nobody).status(Status::new(world.target(), Default::default())).await.unwrap_err();
    assert_eq!(*nobody.kind(), ErrorKind::Forbidden, "and not None");
    let nobody = as_user(User::Nobody).delete(Delete::new(world.target())).await.unwrap_err();
    assert_eq!(*nobody.kind(), ErrorKind::Forbidden, "and not WasAbsent");
}

async fn connects_as_configured() {
    let world = World::new().await;
    let config: KubernetesConfig = serde_json::from_value(json!({
        "owner": "platform", "kubeconfig": world.testbed.kubeconfig(User::Admin), "context": User::Admin.name(),
    }))
    .unwrap();
    let scheduler = KubernetesScheduler::connect_config(&config).await.unwrap();
    assert!(scheduler.capabilities().has(scheduler_core::Feature::Sidecars));
    assert_eq!(scheduler.ping(Ping::default()).await.unwrap().server_version, "v1.36.3");
    let wrong = ConnectOptions::explicit(world.testbed.url())
        .certificate_authority(world.testbed.certificate_authority())
        .token("wrong");
    let error = KubernetesScheduler::connect(wrong, owner("platform")).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Unauthenticated, "{error}");
}
