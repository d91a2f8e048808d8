//! What launch, status and delete do to objects.

use super::*;

pub(crate) async fn kubectl_sees_what_launch_says() {
    let world = World::new().await;
    let launched = world.launch(world.workload().replicas(2).label("team", "blue")).await;
    assert_eq!(launched.change, Change::Created);
    let said: Vec<_> = launched.objects.iter().map(|o| (o.kind.as_str(), o.name.as_str(), o.action)).collect();
    assert_eq!(said, ["Deployment", "Service", "ControllerRevisions"].map(|kind| (kind, "web", ObjectAction::Created)));
    world.rolled_out().await;
    let (deployment, service) = (world.get("deployment").await, world.get("service").await);
    assert_eq!(deployment["metadata"]["annotations"]["scheduler/revision"], launched.revision.as_str());
    assert_eq!(deployment["status"]["readyReplicas"], 2);
    assert_eq!(service["spec"]["ports"][0]["port"], 8080);
    assert_eq!(service["metadata"]["ownerReferences"][0]["uid"], deployment["metadata"]["uid"]);
    let pods = world.kubectl(&["get", "pods", "-l", "scheduler/owner=platform,team=blue", "-o", "name"]).await;
    assert_eq!(pods.lines().count(), 2);
    // That has a controller of its own, which may be a moment behind.
    let found = async {
        let path = "jsonpath={.items[*].endpoints[*].addresses}";
        while world.kubectl(&["get", "endpointslices", "-o", path]).await.split_whitespace().count() != 2 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), found).await.expect("the Service finds the Pods");
}

pub(crate) async fn a_second_launch_writes_nothing() {
    let world = World::new().await;
    world.launch(world.workload()).await;
    world.rolled_out().await;
    let before = world.resource_versions().await;
    assert_eq!(world.launch(world.workload()).await.change, Change::Unchanged);
    assert_eq!(world.resource_versions().await, before);
}

pub(crate) async fn requests_are_as_documented() {
    let world = World::new().await;
    let (deployment, service, history, sets, pods) = (
        format!("/apis/apps/v1/namespaces/{}/deployments/web", world.namespace),
        format!("/api/v1/namespaces/{}/services/web", world.namespace),
        format!("/apis/apps/v1/namespaces/{}/controllerrevisions", world.namespace),
        format!("/apis/apps/v1/namespaces/{}/replicasets", world.namespace),
        format!("/api/v1/namespaces/{}/pods", world.namespace),
    );
    let sent = |requests: &[(&str, &String)]| -> Vec<String> {
        requests.iter().map(|(method, path)| format!("{method} {path}")).collect()
    };
    world.launch(world.workload()).await;
    world.rolled_out().await;
    world.faults.take_requests();

    world.launch(world.workload()).await;
    let unchanged = [("GET", &deployment), ("GET", &service), ("GET", &history)];
    assert_eq!(world.faults.take_requests(), sent(&unchanged));

    world.launch(world.workload().replicas(2)).await;
    let scaled = [("GET", &deployment), ("GET", &service), ("GET", &history), ("PATCH", &deployment)];
    assert_eq!(world.faults.take_requests(), sent(&scaled));
    world.rolled_out().await;

    let status = |detail| world.scheduler.status(Status::new(world.target(), detail));
    status(scheduler_core::Detail::Instances).await.unwrap();
    assert_eq!(world.faults.take_requests(), sent(&[("GET", &deployment), ("GET", &sets), ("GET", &pods)]));
    status(scheduler_core::Detail::Evidence).await.unwrap();
    assert_eq!(world.faults.take_requests().len(), 4);

    world.scheduler.list(scheduler_core::List::default()).await.unwrap();
    assert_eq!(world.faults.take_requests().len(), 8);
    world.scheduler.ping(Ping::default()).await.unwrap();
    assert_eq!(world.faults.take_requests(), ["GET /version"]);

    world.scheduler.delete(Delete::new(world.target())).await.unwrap();
    let asked = world.faults.take_requests();
    let of = |method: &str| asked.iter().filter(|request| request.starts_with(method)).count();
    // Two GETs and three LISTs to find all, two LISTs of what is left; main object, Service, and one entry of history.
    assert_eq!((of("GET"), of("DELETE")), (7, 3), "{asked:#?}");
}

pub(crate) async fn drift_by_kubectl_is_repaired_and_reported() {
    let world = World::new().await;
    world.launch(world.workload()).await;
    world.kubectl(&["set", "image", "deployment/web", "web=sim/run:drift"]).await;
    world.kubectl(&["delete", "service", "web"]).await;
    let seen = world.scheduler.status(Status::new(world.target(), Default::default())).await.unwrap().0.unwrap();
    assert_eq!(seen.revision, None, "somebody else changed it");

    let repaired = world.launch(world.workload()).await;
    assert_eq!(repaired.change, Change::Updated(Effect::Rolling));
    let actions: Vec<_> = repaired.objects.iter().map(|object| object.action).collect();
    assert_eq!(actions, [ObjectAction::Updated, ObjectAction::Created, ObjectAction::Unchanged]);
    assert!(repaired.warnings.iter().any(|warning| warning.contains("kubectl")), "{:?}", repaired.warnings);
    let image = &world.get("deployment").await["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image, "sim/run:1");
    world.get("service").await;
    let seen = world.scheduler.status(Status::new(world.target(), Default::default())).await.unwrap().0.unwrap();
    assert_eq!(seen.revision, Some(repaired.revision));
}

/// BR-01: another manager claims the port too, so that the old number would stay beside the new one under the same name,
/// which the server refuses.
pub(crate) async fn a_port_that_another_manager_holds_moves() {
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

pub(crate) async fn what_another_manager_added_to_a_list_goes() {
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

pub(crate) async fn adopting_leaves_nothing_of_the_other() {
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
pub(crate) async fn an_object_made_by_create_is_adopted_whole() {
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

pub(crate) async fn delete_leaves_nothing() {
    let world = World::new().await;
    world.launch(world.workload().replicas(2)).await;
    world.rolled_out().await;
    assert!(world.ours().await.len() >= 5);
    world.delete_whole().await;
    assert_eq!(world.ours().await, Vec::<String>::new());
    assert_eq!(world.scheduler.delete(Delete::new(world.target())).await.unwrap(), Deleted::WasAbsent);
}

pub(crate) async fn an_orphaned_delete_is_completed() {
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

pub(crate) async fn a_foreign_deployment_is_untouched() {
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

pub(crate) async fn a_foreign_service_is_untouched_and_nothing_is_made() {
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

pub(crate) async fn a_missing_namespace_is_not_found() {
    let mut world = World::new().await;
    world.namespace = "nowhere".to_owned();
    let error = world.try_launch(world.workload(), Guard::IfOwned).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::NotFound(Missing::Namespace), "{error}");
}

pub(crate) async fn refusals_of_the_server_name_our_fields() {
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

pub(crate) async fn without_rights_it_is_forbidden() {
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

pub(crate) async fn connects_as_configured() {
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
