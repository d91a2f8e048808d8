//! Pods of the other kinds that own some: the real controllers make them, the simulated kubelet plays them.
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "this is a test, which clippy cannot tell without #[test]"
)]

#[expect(dead_code, reason = "shared with other tests, which use more of it")]
#[path = "support/pods.rs"]
mod pods;
mod support;

use std::{collections::BTreeSet, fmt, process::ExitCode, time::Duration};

use k8s_openapi::api::{
    apps::v1::{DaemonSet, StatefulSet},
    batch::v1::{CronJob, Job},
    core::v1::{PersistentVolume, PersistentVolumeClaim, Pod},
};
use k8s_openapi::{
    NamespaceResourceScope,
    jiff::Timestamp,
    serde::{Serialize, de::DeserializeOwned},
};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    runtime::wait::{Condition, await_condition, conditions},
};
use pods::{PATIENCE, Pods, condition, create_pod, end, is_ready, node, phase, statuses};
use scheduler_k8s_testbed::{LazyTestbed, User};
use serde_json::{Value, json};

static TESTBED: LazyTestbed = LazyTestbed::new();

fn main() -> ExitCode {
    let code = support::run(cases![
        a_job_completes,
        a_job_fails_when_its_back_off_is_used_up,
        a_job_counts_no_pod_whose_work_was_cut_short,
        a_cron_job_makes_jobs,
        a_daemon_set_has_a_pod_on_every_node,
        a_stateful_set_gets_its_volumes_and_its_names_back,
        volumes_go_with_their_claims,
        a_claim_of_another_class_holds_its_pod_up,
    ]);
    support::block_on(TESTBED.stop());
    code
}

async fn set_up() -> (Client, String) {
    let testbed = TESTBED.get().await.unwrap();
    (testbed.client(User::Admin).unwrap(), testbed.create_namespace("test").await.unwrap())
}

trait Object:
    Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + fmt::Debug + Send + Sync + 'static
{
}
impl<K> Object for K where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + fmt::Debug + Send + Sync + 'static
{
}

async fn create<K: Object + Resource<Scope = NamespaceResourceScope>>(
    client: &Client,
    namespace: &str,
    name: &str,
    spec: Value,
) -> Api<K> {
    let api = Api::<K>::namespaced(client.clone(), namespace);
    let object = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
    api
}

async fn wait<K: Object>(api: &Api<K>, name: &str, condition: impl Condition<K> + Send + Sync) -> Option<K> {
    let found = tokio::time::timeout(PATIENCE, await_condition(api.clone(), name, condition)).await;
    found.unwrap_or_else(|_| panic!("{name} never came so far")).unwrap()
}

/// A template of one container, selected by `app`.
fn template(app: &str, policy: &str, image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"restartPolicy": policy, "containers": [{"name": "main", "image": image}]},
    })
}

async fn a_job_completes() {
    let (client, namespace) = set_up().await;
    let mut pods = Pods::watch(&client, &namespace).await;
    let spec = json!({"completions": 2, "parallelism": 2, "template": template("job", "Never", "sim/done/after-1")});
    let jobs = create::<Job>(&client, &namespace, "once", spec).await;
    let pod = pods.until("Succeeded", |pod| phase(pod) == "Succeeded").await;
    assert_eq!(end(statuses(&pod)[0].state.as_ref()), Some((0, None, "Completed")));
    let job = wait(&jobs, "once", conditions::is_job_completed()).await.unwrap();
    assert_eq!(job.status.unwrap().succeeded, Some(2));
}

async fn a_job_fails_when_its_back_off_is_used_up() {
    let (client, namespace) = set_up().await;
    let is_failed = |job: Option<&Job>| {
        let conditions = job.and_then(|job| job.status.as_ref()?.conditions.as_ref()).into_iter().flatten();
        conditions.into_iter().any(|one| one.type_ == "Failed" && one.status == "True")
    };
    // Once by Pods that fail, once by a container that is started again.
    for (policy, code) in [("Never", 3), ("OnFailure", 4)] {
        let image = format!("sim/done/after-0/exit-{code}");
        let spec = json!({"backoffLimit": 0, "template": template("job", policy, &image)});
        let name = policy.to_lowercase();
        let mut pods = Pods::watch(&client, &namespace).await;
        let jobs = create::<Job>(&client, &namespace, &name, spec).await;
        let ended = |pod: &Pod| statuses(pod).first().and_then(|one| end(one.state.as_ref())).map(|end| end.0);
        let pod = pods.until("ended", |pod| ended(pod) == Some(code)).await;
        assert_eq!(phase(&pod), if policy == "Never" { "Failed" } else { "Running" });
        wait(&jobs, &name, is_failed).await;
    }
}

async fn a_job_counts_no_pod_whose_work_was_cut_short() {
    let (client, namespace) = set_up().await;
    let mut pods = Pods::watch(&client, &namespace).await;
    let spec = json!({"template": template("job", "Never", "sim/done/after-3600")});
    let jobs = create::<Job>(&client, &namespace, "long", spec).await;
    let first = pods.until("ready", is_ready).await;
    let api = Api::<Pod>::namespaced(client, &namespace);
    api.delete(first.metadata.name.as_deref().unwrap(), &DeleteParams::default()).await.unwrap();
    let counted = |job: Option<&Job>| {
        let status = job.and_then(|job| job.status.as_ref());
        status.is_some_and(|status| status.failed == Some(1) || status.succeeded.is_some())
    };
    let job = wait(&jobs, "long", counted).await.unwrap();
    assert_eq!(job.status.unwrap().succeeded, None);
}

async fn a_cron_job_makes_jobs() {
    let (client, namespace) = set_up().await;
    let template = template("cron", "OnFailure", "sim/done/after-0");
    let spec = json!({"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}});
    let jobs = create::<CronJob>(&client, &namespace, "minutely", spec).await;
    // The controller makes up for the minutes that it missed, so that nobody waits for the next one.
    let missed = Timestamp::now() - Duration::from_secs(120);
    let patch = Patch::Merge(json!({"status": {"lastScheduleTime": missed.to_string()}}));
    jobs.patch_status("minutely", &PatchParams::default(), &patch).await.unwrap();
    let succeeded = |job: Option<&CronJob>| {
        job.is_some_and(|job| job.status.as_ref().is_some_and(|status| status.last_successful_time.is_some()))
    };
    wait(&jobs, "minutely", succeeded).await;
}

async fn a_daemon_set_has_a_pod_on_every_node() {
    let (client, namespace) = set_up().await;
    let mut pods = Pods::watch(&client, &namespace).await;
    let spec =
        json!({"selector": {"matchLabels": {"app": "agent"}}, "template": template("agent", "Always", "sim/run")});
    let sets = create::<DaemonSet>(&client, &namespace, "agent", spec).await;
    let ready = |set: Option<&DaemonSet>| {
        set.is_some_and(|set| set.status.as_ref().is_some_and(|status| status.number_ready == 3))
    };
    wait(&sets, "agent", ready).await;
    let mut nodes = BTreeSet::new();
    while nodes.len() < 3 {
        nodes.insert(node(&pods.until("ready", is_ready).await).to_owned());
    }
    assert!(nodes.iter().eq(["node-a", "node-b", "node-c"]), "{nodes:?}");
}

fn stateful(image: &str) -> Value {
    json!({
        "replicas": 2,
        "serviceName": "db",
        "selector": {"matchLabels": {"app": "db"}},
        "template": template("db", "Always", image),
        "volumeClaimTemplates": [{
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }],
    })
}

async fn a_stateful_set_gets_its_volumes_and_its_names_back() {
    let (client, namespace) = set_up().await;
    let mut pods = Pods::watch(&client, &namespace).await;
    let mut spec = stateful("sim/run");
    spec["template"]["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    create::<StatefulSet>(&client, &namespace, "db", spec).await;
    let called = |pod: &Pod, name: &str| pod.metadata.name.as_deref() == Some(name);
    let first = pods.until("db-0 ready", |pod| called(pod, "db-0") && is_ready(pod)).await;
    pods.until("db-1 ready", |pod| called(pod, "db-1") && is_ready(pod)).await;

    let claims = Api::<PersistentVolumeClaim>::namespaced(client.clone(), &namespace);
    let claim = claims.get("data-db-0").await.unwrap();
    assert_eq!(claim.status.as_ref().unwrap().phase.as_deref(), Some("Bound"));
    let api = Api::<Pod>::namespaced(client, &namespace);
    api.delete("db-0", &DeleteParams::default()).await.unwrap();
    let again =
        pods.until("db-0 again", |pod| called(pod, "db-0") && is_ready(pod) && pod.metadata.uid != first.metadata.uid);
    again.await;
    let volume = |claim: &PersistentVolumeClaim| claim.spec.as_ref().unwrap().volume_name.clone().unwrap();
    assert_eq!(volume(&claims.get("data-db-0").await.unwrap()), volume(&claim), "the volume stays");
}

fn claim(class: Option<&str>) -> Value {
    json!({
        "storageClassName": class,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    })
}

async fn volumes_go_with_their_claims() {
    let (client, namespace) = set_up().await;
    let claims = create::<PersistentVolumeClaim>(&client, &namespace, "data", claim(None)).await;
    let bound = |claim: Option<&PersistentVolumeClaim>| {
        claim.is_some_and(|claim| claim.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Bound")))
    };
    let claim = wait(&claims, "data", bound).await.unwrap();
    let volume = claim.spec.unwrap().volume_name.unwrap();
    let volumes = Api::<PersistentVolume>::all(client);
    let uid = volumes.get(&volume).await.unwrap().metadata.uid.unwrap();
    claims.delete("data", &DeleteParams::default()).await.unwrap();
    wait(&volumes, &volume, conditions::is_deleted(&uid)).await;
}

async fn a_claim_of_another_class_holds_its_pod_up() {
    let (client, namespace) = set_up().await;
    let mut pods = Pods::watch(&client, &namespace).await;
    let claims = create::<PersistentVolumeClaim>(&client, &namespace, "nowhere", claim(Some("other"))).await;
    let spec = json!({
        "containers": [{"name": "main", "image": "sim/run"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "nowhere"}}],
    });
    create_pod(&client, &namespace, spec).await;
    let pod = pods.until("refused by the scheduler", |pod| condition(pod, "PodScheduled") == Some("False")).await;
    assert_eq!((phase(&pod), node(&pod), statuses(&pod).len()), ("Pending", "", 0));
    let claim = claims.get("nowhere").await.unwrap();
    assert_eq!(claim.status.unwrap().phase.as_deref(), Some("Pending"));
}
