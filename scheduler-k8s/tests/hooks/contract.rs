//! What holds for all hooks: told twice, cut off, refused, counted.

use scheduler_core::conformance::Injection;
use scheduler_core::hooks::{DeployEnd, Drift, DriftKind, Report};
use scheduler_core::{Conflict, ErrorKind, RunKey, Support};

use super::*;

/// Everything around the app of [`World::full`].
const ALL: &[&str] = &[
    "networkpolicy.networking.k8s.io/shop",
    "persistentvolumeclaim/data",
    "resourcequota/shop",
    "secret/main-tls",
    "secret/shop-registries",
    "service/shop",
];

pub(crate) async fn what_is_supported_is_what_is_done() {
    let world = World::new().await;
    let app = world.full();
    world.launch(world.workload()).await;
    let job = Workload::job(&world.namespace, "migrate").container(Container::new("migrate", "sim/run:1"));
    let run = scheduler_core::hooks::OneOff::new(RunKey::new("1").unwrap(), job);
    let domain = app.domains[0].clone();
    let (host, certificate) = (domain.host.clone(), "main".to_owned());
    let events = [
        EventKind::AppCreated,
        EventKind::AppTransferred { from: None },
        EventKind::PolicyChanged,
        EventKind::ConfigChanged,
        EventKind::RegistriesChanged,
        EventKind::ReleaseCreated,
        EventKind::FormationChanged { from: BTreeMap::new() },
        EventKind::RestartRequested { process: None },
        EventKind::RunRequested(Box::new(run)),
        EventKind::FrontChanged,
        EventKind::DomainAdded(domain.clone()),
        EventKind::DomainRemoved(domain.clone()),
        EventKind::CertificateAttached { host: host.clone(), certificate: certificate.clone() },
        EventKind::CertificateDetached { host: host.clone(), certificate: certificate.clone() },
        EventKind::VolumeCreated { name: "data".to_owned() },
        EventKind::VolumeDeleted { name: "data".to_owned(), volume: AppVolume::new("1Gi") },
        EventKind::Other { name: "x".to_owned(), data: Value::Null },
        EventKind::AppDestroyed,
    ];
    let target = world.target("web");
    let reports = [
        Report::CutOver { to: vec![target.clone()] },
        Report::DeployEnded(DeployEnd::new(1, true)),
        Report::ReplicasChanged { target: target.clone(), from: 1, to: 2 },
        Report::InstancesFailing { target: target.clone(), diagnoses: Vec::new() },
        Report::Drifted(Drift::new(target, DriftKind::Missing)),
        Report::AppGone,
    ];
    let mut answers: BTreeMap<HookName, Option<String>> = BTreeMap::new();
    let mut note = |hook, outcome| {
        let reason = match outcome {
            Outcome::NotSupported { reason } => Some(reason),
            _ => None,
        };
        answers.insert(hook, reason);
    };
    for kind in events {
        let event = world.event(kind, &app);
        note(event.hook(), event.tell(&world.hooks).await.unwrap());
    }
    for report in reports {
        note(report.hook(), report.tell(&app, &world.hooks).await.unwrap());
    }
    note(HookName::ReconcileApp, world.hooks.reconcile_app(&app).await.unwrap());
    let validations = [
        (HookName::ValidateAppCreate, world.hooks.validate_app_create(&app).await),
        (HookName::ValidateReleaseCreate, world.hooks.validate_release_create(&app).await),
        (HookName::ValidateFormationChange, world.hooks.validate_formation_change(&app).await),
        (HookName::ValidateDomainAdd, world.hooks.validate_domain_add(&app, &domain).await),
        (HookName::ValidateCertificateAttach, world.hooks.validate_certificate_attach(&app, &host, &certificate).await),
        (HookName::ValidateVolumeCreate, world.hooks.validate_volume_create(&app, "data").await),
    ];
    for (hook, answer) in validations {
        let reason = match answer.unwrap() {
            Validation::NotSupported { reason } => Some(reason),
            _ => None,
        };
        answers.insert(hook, reason);
    }
    // It takes a run's outcome, which only a wait gives.
    answers.insert(
        HookName::OnRunEnd,
        match world.hooks.supports(HookName::OnRunEnd) {
            Support::No(reason) => Some(reason),
            Support::Yes => None,
        },
    );
    for hook in HookName::ALL {
        let said = match world.hooks.supports(*hook) {
            Support::Yes => None,
            Support::No(reason) => Some(reason),
        };
        assert_eq!(answers.get(hook), Some(&said), "{hook}");
    }
}

pub(crate) async fn everything_is_made_once_and_goes_whole() {
    let world = World::new().await;
    let app = world.full();
    assert_eq!(world.tell(EventKind::AppCreated, &app).await, Ok(Outcome::Applied));
    assert_eq!(world.around().await, ALL);
    world.faults.take_requests();
    assert_eq!(world.tell(EventKind::AppCreated, &app).await, Ok(Outcome::AlreadyInState));
    assert_eq!(world.writes(), [""; 0]);

    assert_eq!(world.tell(EventKind::AppDestroyed, &app).await, Ok(Outcome::Applied));
    world.until(&["get", "persistentvolumeclaims", "--output", "name"], "").await;
    assert_eq!(world.around().await, [""; 0]);
    world.faults.take_requests();
    assert_eq!(world.tell(EventKind::AppDestroyed, &app).await, Ok(Outcome::AlreadyInState));
    assert_eq!(world.hooks.on_app_gone(&app).await, Ok(Outcome::AlreadyInState));
    assert_eq!(world.writes(), [""; 0]);
}

pub(crate) async fn an_app_that_is_as_it_should_be_costs_reads() {
    let world = World::new().await;
    let app = world.full();
    world.launch(world.workload()).await;
    world.expose("web", &[world.host()]).await;
    assert_eq!(world.hooks.reconcile_app(&app).await, Ok(Outcome::Applied));
    world.faults.take_requests();
    assert_eq!(world.hooks.reconcile_app(&app).await, Ok(Outcome::AlreadyInState));
    let (core, networking) = (
        format!("/api/v1/namespaces/{}", world.namespace),
        format!("/apis/networking.k8s.io/v1/namespaces/{}", world.namespace),
    );
    let expected = [
        format!("GET {core}/resourcequotas/shop"),
        format!("GET {networking}/networkpolicies/shop"),
        format!("GET {core}/secrets/shop-registries"),
        format!("GET {core}/services/shop"),
        format!("GET {core}/secrets/main-tls"),
        format!("GET {networking}/ingresses"),
        format!("GET {core}/persistentvolumeclaims/data"),
        format!("GET {core}/secrets"),
    ];
    assert_eq!(world.faults.take_requests(), expected);
}

pub(crate) async fn drift_is_repaired() {
    let world = World::new().await;
    let mut app = world.full();
    world.tell(EventKind::AppCreated, &app).await.unwrap();
    world.kubectl(&["patch", "resourcequota", "shop", "--patch", r#"{"spec":{"hard":{"pods":"99"}}}"#]).await;
    world
        .kubectl(&["patch", "service", "shop", "--patch", r#"{"spec":{"ports":[{"port":80,"targetPort":"no"}]}}"#])
        .await;
    world.kubectl(&["delete", "networkpolicy", "shop"]).await;
    world.kubectl(&["patch", "secret", "main-tls", "--patch", r#"{"data":{"tls.crt":""}}"#]).await;
    world.faults.take_requests();
    assert_eq!(world.hooks.reconcile_app(&app).await, Ok(Outcome::Applied));
    assert_eq!(world.writes(), ["PATCH resourcequotas", "PATCH networkpolicies", "PATCH services", "PATCH secrets"]);
    assert_eq!(world.get("resourcequota", "shop").await["spec"]["hard"]["pods"], "9");
    assert_eq!(world.get("service", "shop").await["spec"]["ports"][0]["targetPort"], "http");
    assert_eq!(decoded(&world.get("secret", "main-tls").await, "tls.crt"), world.pem.0);

    // What the model has not any more: a detach or a change of the registries that was never told.
    (app.domains[0].certificate, app.registries) = (None, BTreeMap::new());
    assert_eq!(world.hooks.reconcile_app(&app).await, Ok(Outcome::Applied));
    assert_eq!(world.kubectl(&["get", "secrets", "--output", "name"]).await, "");
    assert_eq!(world.hooks.reconcile_app(&app).await, Ok(Outcome::AlreadyInState));
}

/// Each request of the whole meets a fault once, before or after its effect; the next telling does the rest.
pub(crate) async fn what_was_cut_off_is_completed_by_repeating() {
    for fault in [Injection::Reset, Injection::LoseAnswer] {
        for nth in 1.. {
            let world = World::new().await;
            let app = world.full();
            world.launch(world.workload()).await;
            world.expose("web", &[world.host()]).await;
            world.faults.inject(nth, fault);
            let told = world.tell(EventKind::AppCreated, &app).await;
            if !world.faults.injected() {
                // Each object was read and written, and the routes were too.
                assert!(nth > 14, "there are only {nth} requests");
                break;
            }
            let error = told.expect_err("a request met a fault");
            assert!(error.retry, "{fault:?} {nth}: {error}");
            assert!(!format!("{error:?}").contains(PASSWORD) && !format!("{error:?}").contains("PRIVATE KEY"));
            world.tell(EventKind::AppCreated, &app).await.unwrap();
            assert_eq!(world.around().await, ALL, "{fault:?} {nth}");
            assert_eq!(world.get("ingress", "web").await["spec"]["tls"][0]["secretName"], "main-tls");
            world.faults.take_requests();
            assert_eq!(world.tell(EventKind::AppCreated, &app).await, Ok(Outcome::AlreadyInState));
            assert_eq!(world.writes(), [""; 0]);

            world.faults.inject(nth, fault);
            let ended = world.tell(EventKind::AppDestroyed, &app).await;
            assert_eq!(ended.is_err(), world.faults.injected(), "{fault:?} {nth}: {ended:?}");
            // It has fewer requests than the other hook.
            world.faults.inject(u32::MAX, fault);
            world.tell(EventKind::AppDestroyed, &app).await.unwrap();
            // The Pods of the workload still stand.
            let kinds = "resourcequotas,services,secrets";
            let left = world.kubectl(&["get", kinds, "--selector", "scheduler/app", "--output", "name"]).await;
            assert_eq!(left, "", "{fault:?} {nth}");
            assert_eq!(world.get("ingress", "web").await["spec"].get("tls"), None);
        }
    }
}

pub(crate) async fn foreign_objects_are_named_and_untouched() {
    let world = World::new().await;
    let app = world.full();
    let named = |api: &str, kind: &str, name: &str, labels: Value, rest: Value| {
        let mut object = json!({"apiVersion": api, "kind": kind, "metadata": {"name": name, "labels": labels}});
        for (field, value) in rest.as_object().unwrap() {
            object[field] = value.clone();
        }
        object
    };
    let theirs = json!({"scheduler/owner": "somebody", "scheduler/app": "shop"});
    let other_app = json!({"scheduler/owner": "platform", "scheduler/app": "other"});
    let claim = json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}});
    let objects = [
        named("v1", "ResourceQuota", "shop", theirs.clone(), json!({"spec": {"hard": {"pods": "50"}}})),
        named("networking.k8s.io/v1", "NetworkPolicy", "shop", json!({}), json!({"spec": {"podSelector": {}}})),
        named("v1", "Service", "shop", json!({}), json!({"spec": {"ports": [{"port": 1}]}})),
        named("v1", "Secret", "shop-registries", json!({}), json!({})),
        named("v1", "Secret", "main-tls", other_app, json!({})),
        named("v1", "PersistentVolumeClaim", "data", json!({}), claim),
    ];
    for object in &objects {
        world.create(object).await;
    }
    world.until(&["get", "pvc", "data", "--output", "jsonpath={.status.phase}"], "Bound").await;
    let of = |kind: EventKind, app: App| (kind, app);
    let mut only_policy = app.clone();
    only_policy.policy.quota = Default::default();
    let host = world.host();
    let attached = EventKind::CertificateAttached { host, certificate: "main".to_owned() };
    let told = [
        (of(EventKind::PolicyChanged, app.clone()), "ResourceQuota", Some("somebody")),
        (of(EventKind::PolicyChanged, only_policy), "NetworkPolicy", None),
        (of(EventKind::FrontChanged, app.clone()), "Service", None),
        (of(EventKind::RegistriesChanged, app.clone()), "Secret", None),
        (of(attached, app.clone()), "Secret", Some("platform")),
        (of(EventKind::VolumeCreated { name: "data".to_owned() }, app.clone()), "PersistentVolumeClaim", None),
    ];
    for ((kind, app), object, whose) in told {
        let error = world.tell(kind, &app).await.unwrap_err();
        assert!(!error.retry && error.message.contains(object), "{error}");
        let owner = whose.map(|owner| OwnerId::new(owner).unwrap());
        let cause = error.cause.as_ref().map(|cause| cause.kind().clone());
        assert_eq!(cause, Some(ErrorKind::Conflict(Conflict::Owner { owner })), "{error}");
    }
    let detached = EventKind::CertificateDetached { host: world.host(), certificate: "main".to_owned() };
    let gone = EventKind::VolumeDeleted { name: "data".to_owned(), volume: AppVolume::new("1Gi") };
    for kind in [EventKind::PolicyChanged, EventKind::FrontChanged, EventKind::RegistriesChanged, detached, gone] {
        assert_eq!(world.tell(kind, &world.bare()).await, Ok(Outcome::AlreadyInState));
    }
    assert_eq!(world.tell(EventKind::AppDestroyed, &app).await, Ok(Outcome::AlreadyInState));
    assert_eq!(world.writes(), [""; 0]);
    let left = world.kubectl(&["get", "resourcequotas,networkpolicies,services,secrets,pvc", "--output", "name"]).await;
    assert_eq!(left.lines().count(), objects.len(), "{left}");
}

/// The rights of Nobody are none, until a binding gives those that are documented.
pub(crate) async fn the_rights_that_are_named_are_enough() {
    let world = World::of(User::Nobody).await;
    let app = world.full();
    let refused = world.tell(EventKind::AppCreated, &app).await.unwrap_err();
    assert_eq!(refused.cause.map(|cause| cause.kind().clone()), Some(ErrorKind::Forbidden));
    let rules = [KubernetesScheduler::rights(), KubernetesHooks::rights()].concat();
    let rbac = "rbac.authorization.k8s.io";
    let version = format!("{rbac}/v1");
    world
        .create(
            &json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": "platform"}, "rules": rules}),
        )
        .await;
    world
        .create(&json!({
            "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": "platform"},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "platform"},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": User::Nobody.name()}],
        }))
        .await;
    let allowed = async {
        while world.hooks.validate_app_create(&app).await.is_err() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), allowed).await.expect("the binding counts in time");
    assert_eq!(world.tell(EventKind::AppCreated, &app).await, Ok(Outcome::Applied));
    world.launch(world.workload()).await;
    world.expose("web", &[world.host()]).await;
    assert_eq!(world.hooks.on_cut_over(&app, &[world.target("web")]).await, Ok(Outcome::Applied));
    let mut volume = AppVolume::new("1Gi");
    volume.class = Some("testbed".to_owned());
    let mut classed = app.clone();
    classed.volumes.insert("data".to_owned(), volume);
    assert_eq!(world.hooks.validate_volume_create(&classed, "data").await, Ok(Validation::Accepted));
    assert_eq!(world.hooks.validate_domain_add(&app, &app.domains[0]).await, Ok(Validation::Accepted));
    assert_eq!(world.hooks.reconcile_app(&app).await, Ok(Outcome::AlreadyInState));
    let gone = EventKind::VolumeDeleted { name: "data".to_owned(), volume: AppVolume::new("1Gi") };
    world.told(gone, &world.bare()).await;
    assert_eq!(world.tell(EventKind::AppDestroyed, &app).await, Ok(Outcome::Applied));
}

pub(crate) async fn a_namespace_that_is_missing_may_come() {
    let mut world = World::new().await;
    world.namespace = format!("{}-later", world.namespace);
    let app = world.full();
    let error = world.tell(EventKind::AppCreated, &app).await.unwrap_err();
    assert!(error.retry, "{error}");
    // Of what is not there, nothing is to be taken away.
    assert_eq!(world.tell(EventKind::AppDestroyed, &app).await, Ok(Outcome::AlreadyInState));
    assert_eq!(world.hooks.validate_app_create(&app).await, Ok(Validation::Accepted));
    world.kubectl(&["create", "namespace", &world.namespace]).await;
    assert_eq!(world.tell(EventKind::AppCreated, &app).await, Ok(Outcome::Applied));
    let labels =
        world.kubectl(&["get", "namespace", &world.namespace, "--output", "jsonpath={.metadata.labels}"]).await;
    assert!(!labels.contains("scheduler/"), "a foreign namespace was labelled: {labels}");
}

pub(crate) async fn a_namespace_of_others_is_vetoed() {
    let world = World::new().await;
    let app = world.bare();
    let problem = async || match world.hooks.validate_app_create(&app).await.unwrap() {
        Validation::Vetoed(faults) => faults[0].problem.clone(),
        other => panic!("{other:?}"),
    };
    assert!(problem().await.contains("no mark of an owner"));
    world.kubectl(&["label", "namespace", &world.namespace, "scheduler/owner=somebody"]).await;
    assert!(problem().await.contains("belongs to somebody"));
    world.kubectl(&["label", "namespace", &world.namespace, "scheduler/owner=platform", "--overwrite"]).await;
    assert_eq!(world.hooks.validate_app_create(&app).await, Ok(Validation::Accepted));
    // Held, so that it is seen on its way out.
    let held = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["example.com/held"]},
    });
    world.create(&held).await;
    world.kubectl(&["delete", "namespace", &world.namespace, "--wait=false"]).await;
    assert!(problem().await.contains("being deleted"));
    let created = world.tell(EventKind::AppCreated, &world.full()).await.unwrap_err();
    assert!(created.retry, "{created}");
    world
        .kubectl(&[
            "patch",
            "configmap",
            "held",
            "--type=json",
            r#"--patch=[{"op":"remove","path":"/metadata/finalizers"}]"#,
        ])
        .await;
}
