//! Quota, isolation, the Service in front, credentials.

use scheduler_core::StackName;

use super::*;

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [
        {"name": "web", "image": "sim/run:1", "resources": {"limits": {"cpu": "10m", "memory": "1Mi"}}},
    ]}})
}

pub(crate) async fn a_quota_refuses_what_exceeds_it() {
    let world = World::new().await;
    let mut app = world.bare();
    app.policy.quota.instances = Some(1);
    app.policy.quota.memory = Some("1Gi".to_owned());
    assert_eq!(world.tell(EventKind::PolicyChanged, &app).await, Ok(Outcome::Applied));
    assert_eq!(world.tell(EventKind::PolicyChanged, &app).await, Ok(Outcome::AlreadyInState));
    // Before its controller has counted, nothing is bounded.
    world.until(&["get", "quota", "shop", "--output", "jsonpath={.status.hard.pods}"], "1").await;
    world.create(&pod("first")).await;
    let refused = world.try_kubectl(&["create", "--filename", "-"], &pod("second").to_string()).await.unwrap_err();
    assert!(refused.contains("exceeded quota: shop"), "{refused}");
    let mut boundless = pod("third");
    boundless["spec"]["containers"][0]["resources"] = json!({});
    let refused = world.try_kubectl(&["create", "--filename", "-"], &boundless.to_string()).await.unwrap_err();
    assert!(refused.contains("must specify limits.memory"), "{refused}");
    // Which is said beforehand.
    let mut web = world.workload();
    web.containers[0].resources = Default::default();
    app.release = Some(Release::new(1, vec![web]));
    let said = world.hooks.validate_release_create(&app).await.unwrap();
    assert!(matches!(&said, Validation::Vetoed(faults) if faults[0].path.ends_with("memory.limit")), "{said:?}");

    app.policy.quota.instances = None;
    assert_eq!(world.tell(EventKind::PolicyChanged, &app).await, Ok(Outcome::Applied));
    let hard = &world.get("quota", "shop").await["spec"]["hard"];
    assert_eq!(*hard, json!({"limits.memory": "1Gi", "requests.memory": "1Gi"}), "what is bounded no more is free");
    app.policy.quota.memory = Some("lots".to_owned());
    let error = world.tell(EventKind::PolicyChanged, &app).await.unwrap_err();
    assert!(!error.retry && error.message.contains("policy.quota.memory"), "{error}");
}

pub(crate) async fn isolation_goes_with_the_policy() {
    let mut world = World::new().await;
    world.hooks = world.hooks.clone().router_namespaces("role", "edge");
    let mut app = world.bare();
    app.policy.isolation = Isolation::App;
    assert_eq!(world.tell(EventKind::PolicyChanged, &app).await, Ok(Outcome::Applied));
    let policy = world.get("networkpolicy", "shop").await;
    assert_eq!(
        policy["spec"],
        json!({
            "podSelector": {}, "policyTypes": ["Ingress"],
            "ingress": [{"from": [
                {"podSelector": {}}, {"namespaceSelector": {"matchLabels": {"role": "edge"}}},
            ]}],
        })
    );
    // Instances that end are still shut off.
    world.create(&pod("web")).await;
    assert_eq!(world.tell(EventKind::AppDestroyed, &app).await, Ok(Outcome::AlreadyInState));
    assert_eq!(world.around().await, ["networkpolicy.networking.k8s.io/shop"]);
    world.kubectl(&["delete", "pod", "web", "--grace-period=1"]).await;
    assert_eq!(world.hooks.on_app_gone(&app).await, Ok(Outcome::Applied));
    assert_eq!(world.around().await, [""; 0]);

    world.tell(EventKind::PolicyChanged, &app).await.unwrap();
    assert_eq!(world.tell(EventKind::PolicyChanged, &world.bare()).await, Ok(Outcome::Applied));
    assert_eq!(world.around().await, [""; 0]);
}

pub(crate) async fn the_front_moves_with_the_cut_over() {
    let world = World::new().await;
    let mut app = world.bare();
    app.front = Some(Front::new(WorkloadName::new("web").unwrap(), "http"));
    let leads_to = async || world.get("service", "shop").await["spec"]["selector"].clone();
    assert_eq!(world.tell(EventKind::AppCreated, &app).await, Ok(Outcome::Applied));
    let address = world.get("service", "shop").await["spec"]["clusterIP"].clone();
    assert_eq!(leads_to().await, json!({"scheduler/front": "nowhere"}));

    world.launch(world.workload()).await;
    app.release = Some(Release::new(1, vec![world.workload()]));
    assert_eq!(world.hooks.on_cut_over(&app, &[world.target("web")]).await, Ok(Outcome::Applied));
    assert_eq!(world.hooks.on_cut_over(&app, &[world.target("web")]).await, Ok(Outcome::AlreadyInState));
    assert_eq!(leads_to().await, json!({"scheduler/target": "web"}));
    let endpoints = [
        "get",
        "endpointslices",
        "--selector",
        "kubernetes.io/service-name=shop",
        "--output",
        "jsonpath={.items[*].ports[*].port} {.items[*].endpoints[*].conditions.ready}",
    ];
    world.until(&endpoints, "8080 true").await;

    // Beside the last one.
    let stack = StackName::new("web", "2", "shop").unwrap();
    let to = [world.target(stack.as_str())];
    assert_eq!(world.hooks.on_cut_over(&app, &to).await, Ok(Outcome::Applied));
    assert_eq!(leads_to().await, json!({"scheduler/target": stack.as_str()}));
    // What has no news of where requests go leaves it as it is.
    let end = scheduler_core::hooks::DeployEnd::new(2, true);
    assert_eq!(world.hooks.on_deploy_end(&app, &end).await, Ok(Outcome::AlreadyInState));
    assert_eq!(world.hooks.reconcile_app(&app).await, Ok(Outcome::AlreadyInState));

    app.front = Some(Front::new(WorkloadName::new("api").unwrap(), "grpc"));
    assert_eq!(world.tell(EventKind::FrontChanged, &app).await, Ok(Outcome::Applied));
    let service = world.get("service", "shop").await;
    assert_eq!(service["spec"]["selector"], json!({"scheduler/target": "api"}));
    let ports = json!([{"name": "grpc", "port": 80, "protocol": "TCP", "targetPort": "grpc"}]);
    assert_eq!((&service["spec"]["ports"], &service["spec"]["clusterIP"]), (&ports, &address), "it is the same one");
    app.front = None;
    assert_eq!(world.tell(EventKind::FrontChanged, &app).await, Ok(Outcome::Applied));
    assert_eq!(world.kubectl(&["get", "service", "shop", "--ignore-not-found"]).await, "");
}

pub(crate) async fn a_workload_of_the_app_s_name_has_its_service() {
    let world = World::new().await;
    let mut app = world.bare();
    app.front = Some(Front::new(WorkloadName::new("shop").unwrap(), "http"));
    world.tell(EventKind::AppCreated, &app).await.unwrap();
    let mut workload = world.workload();
    workload.name = "shop".to_owned();
    assert_eq!(world.launch(workload.clone()).await, Change::Created);
    let before = world.get("service", "shop").await;
    assert_eq!(before["spec"]["ports"][0]["port"], 8080, "that of the launch, and nothing else");
    assert_eq!(before["spec"]["ports"].as_array().unwrap().len(), 1);
    let said = world.hooks.on_cut_over(&app, &[world.target("shop")]).await.unwrap();
    assert!(matches!(&said, Outcome::NotSupported { reason } if reason.contains("workload shop")), "{said:?}");
    assert_eq!(world.hooks.reconcile_app(&app).await, Ok(Outcome::AlreadyInState));
    assert_eq!(world.launch(workload).await, Change::Unchanged);
    assert_eq!(world.get("service", "shop").await, before);
}

pub(crate) async fn credentials_are_what_the_kubelet_reads() {
    let world = World::new().await;
    let mut app = world.bare();
    let credentials = RegistryCredentials::new("joe", SecretRef::new("password"));
    app.registries =
        BTreeMap::from([("registry.example".to_owned(), credentials.clone()), ("docker.io".to_owned(), credentials)]);
    assert_eq!(world.tell(EventKind::RegistriesChanged, &app).await, Ok(Outcome::Applied));
    assert_eq!(world.tell(EventKind::RegistriesChanged, &app).await, Ok(Outcome::AlreadyInState));
    let theirs = ["registry.example", "https://index.docker.io/v1/"].map(|server| {
        let (server, password) = (format!("--docker-server={server}"), format!("--docker-password={PASSWORD}"));
        let dry = ["create", "secret", "docker-registry", "x", "--dry-run=client", "--output", "json"];
        dry.into_iter().map(str::to_owned).chain([server, password, "--docker-username=joe".to_owned()]).collect()
    });
    let ours = world.get("secret", &scheduler_k8s::registry_secret(&app.name)).await;
    assert_eq!(ours["type"], "kubernetes.io/dockerconfigjson");
    let ours: Value = serde_json::from_str(&decoded(&ours, ".dockerconfigjson")).unwrap();
    assert_eq!(ours["auths"].as_object().unwrap().len(), theirs.len());
    for arguments in theirs as [Vec<String>; 2] {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let theirs: Value = serde_json::from_str(&world.kubectl(&arguments).await).unwrap();
        let theirs: Value = serde_json::from_str(&decoded(&theirs, ".dockerconfigjson")).unwrap();
        for (server, credentials) in theirs["auths"].as_object().unwrap() {
            assert_eq!(ours["auths"][server], *credentials, "{server}");
        }
    }
    assert!(!format!("{:?}", world.hooks).contains(PASSWORD));

    app.registries.insert("other.example".to_owned(), RegistryCredentials::new("joe", SecretRef::new("lost")));
    let error = world.tell(EventKind::RegistriesChanged, &app).await.unwrap_err();
    assert!(error.message.contains("other.example") && error.message.contains("lost"), "{error}");
    assert!(!format!("{error:?}").contains(PASSWORD), "{error:?}");
    assert_eq!(world.tell(EventKind::RegistriesChanged, &world.bare()).await, Ok(Outcome::Applied));
    assert_eq!(world.around().await, [""; 0]);
}
