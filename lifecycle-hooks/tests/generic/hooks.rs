//! What each hook does, and that it is done once.

use std::collections::BTreeMap;

use scheduler_core::hooks::{
    App, AppVolume, Domain, EventKind, Front, HookName, LifecycleHooks as _, OneOff, Outcome, Validation,
};
use scheduler_core::memory::Fate;
use scheduler_core::{Container, Replicas, RunKey, Support, Workload};
use serde_json::Value;

use crate::{World, bare, event, service, shop, target};

/// Told first it changes something, told again it writes nothing.
async fn once(world: &World, kind: EventKind, app: &App) {
    assert_eq!(world.tell(kind.clone(), app).await, Ok(Outcome::Applied), "{kind:?}");
    let before = world.cluster.objects(&app.namespace);
    assert_eq!(world.tell(kind.clone(), app).await, Ok(Outcome::AlreadyInState), "{kind:?}");
    assert_eq!(world.cluster.objects(&app.namespace), before, "{kind:?}");
}

fn routes(world: &World) -> Vec<String> {
    let objects = world.cluster.objects(&shop().namespace).into_iter();
    objects.filter_map(|(name, _)| name.strip_prefix("Routes/").map(str::to_owned)).collect()
}

#[tokio::test(start_paused = true)]
async fn each_is_done_once() {
    let (world, mut app) = (World::new(), shop());
    once(&world, EventKind::AppCreated, &app).await;
    once(&world, EventKind::ReleaseCreated, &app).await;
    assert_eq!(routes(&world), ["web"]);

    app.config.insert("MORE".to_owned(), app.config["TOKEN"].clone());
    once(&world, EventKind::ConfigChanged, &app).await;

    let from = std::mem::replace(&mut app.formation, BTreeMap::from([("web".parse().unwrap(), 3)]));
    once(&world, EventKind::FormationChanged { from }, &app).await;
    assert_eq!(world.state(&app).await.1.iter().filter(|line| line.starts_with("shop/web ")).count(), 1);
    assert!(world.state(&app).await.1.iter().any(|line| line.starts_with("shop/web ") && line.ends_with(" 3")));

    app.domains.push(Domain::new("www.shop.example"));
    once(&world, EventKind::DomainAdded(Domain::new("www.shop.example")), &app).await;
    let removed = app.domains.remove(0);
    once(&world, EventKind::DomainRemoved(removed), &app).await;
    app.front = Some(Front::new("api".parse().unwrap(), "http"));
    once(&world, EventKind::FrontChanged, &app).await;
    assert_eq!(routes(&world), ["api"]);
    app.domains.clear();
    once(&world, EventKind::DomainRemoved(Domain::new("www.shop.example")), &app).await;
    assert_eq!(routes(&world), [""; 0]);

    let done = Container::new("main", Fate::Done { after: 1, exit_code: 0 }.image("1"));
    let run = OneOff::new(RunKey::new("first").unwrap(), Workload::job("", "migrate").container(done));
    once(&world, EventKind::RunRequested(Box::new(run)), &app).await;
    let run = |line: &&String| line.contains("migrate");
    assert_eq!(world.state(&app).await.1.iter().filter(run).count(), 1);

    let restarted = EventKind::RestartRequested { process: Some("api".parse().unwrap()) };
    let before = world.cluster.instances(&app.namespace);
    assert_eq!(world.tell(restarted, &app).await, Ok(Outcome::Applied));
    world.state(&app).await;
    let after = world.cluster.instances(&app.namespace);
    assert_eq!(after.iter().filter(|id| !before.contains(id)).count(), 1, "the other process goes on");

    loop {
        match world.tell(EventKind::AppDestroyed, &app).await.unwrap() {
            Outcome::Deferred { after, .. } => tokio::time::sleep(after).await,
            done => {
                assert_eq!(done, Outcome::Applied);
                break;
            }
        }
    }
    assert_eq!(world.tell(EventKind::AppDestroyed, &app).await, Ok(Outcome::AlreadyInState));
    assert_eq!(world.state(&app).await, (Vec::new(), Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn an_app_without_a_release_has_nothing_to_change() {
    let (world, app) = (World::new(), bare("shop"));
    world.tell(EventKind::AppCreated, &app).await.unwrap();
    let kinds = [
        EventKind::ConfigChanged,
        EventKind::FormationChanged { from: BTreeMap::new() },
        EventKind::RestartRequested { process: None },
        EventKind::FrontChanged,
        EventKind::DomainAdded(Domain::new("shop.example")),
    ];
    for kind in kinds {
        assert_eq!(world.tell(kind.clone(), &app).await, Ok(Outcome::AlreadyInState), "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_count_that_the_model_does_not_hold_is_left() {
    let mut app = shop();
    app.formation.clear();
    app.release.as_mut().unwrap().processes =
        vec![service("web", "sim/run:1").with_service(|of| of.replicas = Replicas::Keep(1))];
    let world = World::with(&app).await;
    assert!(world.cluster.set_replicas(&target("web"), 5));
    let told = world.tell(EventKind::FormationChanged { from: BTreeMap::new() }, &app).await;
    assert_eq!(told, Ok(Outcome::AlreadyInState));
    assert!(world.state(&app).await.1[0].ends_with(" 5"));
}

#[tokio::test]
async fn what_is_not_supported_is_declined_with_the_same_reason() {
    let (world, app) = (World::new(), shop());
    let certificate = || ("shop.example".to_owned(), "main".to_owned());
    let ((host, attached), (other, detached)) = (certificate(), certificate());
    let kinds = [
        EventKind::AppTransferred { from: None },
        EventKind::PolicyChanged,
        EventKind::RegistriesChanged,
        EventKind::CertificateAttached { host, certificate: attached },
        EventKind::CertificateDetached { host: other, certificate: detached },
        EventKind::VolumeCreated { name: "data".to_owned() },
        EventKind::VolumeDeleted { name: "data".to_owned(), volume: AppVolume::new("1Gi") },
        EventKind::Other { name: "paid".to_owned(), data: Value::Null },
    ];
    let mut declined = Vec::new();
    for kind in kinds {
        let hook = event(kind.clone(), &app).hook();
        let Support::No(reason) = world.hooks.supports(hook) else { panic!("{hook} is supported") };
        assert!(!reason.is_empty());
        assert_eq!(world.tell(kind, &app).await, Ok(Outcome::NotSupported { reason }), "{hook}");
        declined.push(hook);
    }
    // Every other event is supported.
    for hook in HookName::ALL.iter().filter(|hook| hook.as_str().starts_with("post_") && !declined.contains(hook)) {
        assert_eq!(world.hooks.supports(*hook), Support::Yes, "{hook}");
    }
}

fn vetoes(validation: Validation) -> Vec<String> {
    match validation {
        Validation::Vetoed(faults) => faults.into_iter().map(|fault| fault.path).collect(),
        _ => Vec::new(),
    }
}

#[tokio::test]
async fn what_would_not_work_is_vetoed_by_its_path() {
    let hooks = World::new().hooks;
    assert_eq!(hooks.validate_release_create(&shop()).await, Ok(Validation::Accepted));
    let mut app = shop();
    let release = app.release.as_mut().unwrap();
    release.processes.push(service("web", "sim/run:1"));
    release.processes.push(Workload::job("", "once").container(Container::new("main", "sim/run:1")));
    release.processes[1].containers[0].image = "not an image".to_owned();
    release.before = vec![service("early", "sim/run:1")];
    app.front = Some(Front::new("nobody".parse().unwrap(), "http"));
    app.policy.quota.instances = Some(2);
    let paths = vetoes(hooks.validate_release_create(&app).await.unwrap());
    for expected in [
        "processes[2].name",
        "processes[3].kind",
        "processes[1].containers[0].image",
        "before[0].kind",
        "front",
        "formation",
    ] {
        assert!(paths.iter().any(|path| path == expected), "{expected} is not among {paths:?}");
    }

    let mut app = shop();
    app.formation.insert("worker".parse().unwrap(), 1);
    assert_eq!(vetoes(hooks.validate_formation_change(&app).await.unwrap()), ["formation[\"worker\"]"]);
    for host in ["not a host", "shop.example"] {
        let mut app = shop();
        app.domains.push(Domain::new(host));
        let validation = hooks.validate_domain_add(&app, &Domain::new(host)).await.unwrap();
        assert!(vetoes(validation).iter().all(|path| path == "host"), "{host}");
    }
}
