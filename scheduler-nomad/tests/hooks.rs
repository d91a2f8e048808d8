//! The hooks that only Nomad has, on the agent that `SCHEDULER_TEST_NOMAD_ADDR` names (on this machine only), else on the
//! fake, which has no volumes: those are in `requests`, and here on an agent (`--ignored`).
#![expect(clippy::panic, clippy::unwrap_used, reason = "this is a test, which clippy cannot tell in its helpers")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use scheduler_core::hooks::{
    App, AppName, AppVolume, Certificate, DeployEnd, Domain, Drift, DriftKind, Event, EventId, EventKind, HookError,
    HookName, LifecycleHooks as _, OneOff, Outcome, Report, SecretRef, Validation,
};
use scheduler_core::{
    ConfigValue, Container, EnsureNamespace, Expose, Launch, Namespace, OwnerId, Route, RunKey, Scheduler as _,
    Support, Target, Timestamp, WaitOutcome, Workload,
};
use scheduler_nomad::client::model::{Namespace as NativeNamespace, Secret, Variable};
use scheduler_nomad::client::{Client, ConnectOptions, Query, VariableCondition};
use scheduler_nomad::{NomadHooks, NomadScheduler, certificate_variable};
use scheduler_nomad_fake::{FakeNomad, Options};

const KEY: &str = "-----BEGIN PRIVATE KEY----- 4711";

struct Place {
    scheduler: NomadScheduler,
    client: Client,
    hooks: NomadHooks,
    app: App,
    _fake: Option<FakeNomad>,
}

impl Place {
    /// An app in a namespace of ours.
    async fn new() -> Self {
        let place = Self::without_namespace().await;
        let ensure = EnsureNamespace::new(place.app.namespace.clone());
        place.scheduler.ensure_namespace(ensure).await.unwrap();
        place
    }

    async fn without_namespace() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let (address, fake) = match std::env::var("SCHEDULER_TEST_NOMAD_ADDR") {
            Ok(address) if address.starts_with("http://127.0.0.1:") => (address, None),
            Ok(other) => panic!("{other} is not on this machine"),
            Err(_) => {
                let fake = FakeNomad::start(Options::default()).unwrap();
                (fake.address().to_owned(), Some(fake))
            }
        };
        let client = Client::connect(ConnectOptions::explicit(&address)).await.unwrap();
        let name = format!("hooks-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let scheduler = NomadScheduler::new(client.clone(), OwnerId::new("platform").unwrap());
        let secrets = BTreeMap::from([(SecretRef::new("key"), ConfigValue::new(KEY))]);
        let hooks = NomadHooks::new(&scheduler, Arc::new(secrets));
        let app = App::new(AppName::new(name.as_str()).unwrap(), Namespace::new(name.as_str()).unwrap());
        Self { scheduler, client, hooks, app, _fake: fake }
    }

    async fn tell(&self, kind: EventKind) -> Result<Outcome, HookError> {
        event(kind, &self.app).tell(&self.hooks).await
    }

    /// Tells it twice: the second time there must be nothing left to do.
    async fn applies(&self, kind: EventKind) {
        assert_eq!(self.tell(kind.clone()).await.unwrap(), Outcome::Applied, "{kind:?}");
        assert_eq!(self.tell(kind.clone()).await.unwrap(), Outcome::AlreadyInState, "{kind:?} again");
    }

    async fn variable(&self, certificate: &str) -> Option<Variable> {
        let path = certificate_variable(&self.app.name, certificate);
        self.client.query(&Query::variable(self.app.namespace.as_str(), &path)).await.unwrap().value
    }

    fn with_certificate(&mut self) {
        self.app.certificates.insert("shop".into(), Certificate::new("CHAIN", SecretRef::new("key")));
        self.app.domains = vec![Domain::new("a.shop.example").certificate("shop"), Domain::new("b.shop.example")];
    }
}

fn event(kind: EventKind, app: &App) -> Event {
    Event::new(EventId::new("e"), Timestamp::from_millis(0), kind, app.clone())
}

fn attached() -> EventKind {
    EventKind::CertificateAttached { host: "a.shop.example".into(), certificate: "shop".into() }
}

fn detached() -> EventKind {
    EventKind::CertificateDetached { host: "a.shop.example".into(), certificate: "shop".into() }
}

#[tokio::test]
async fn a_new_app_gets_what_it_has() {
    let mut place = Place::new().await;
    place.with_certificate();
    place.app.tenant = Some("team-a".into());
    place.applies(EventKind::AppCreated).await;
    let namespace = Query::namespace(place.app.namespace.as_str());
    let namespace = place.client.query(&namespace).await.unwrap().value.unwrap();
    assert_eq!(namespace.meta["scheduler/tenant"], "team-a");
    assert_eq!(namespace.meta["scheduler/owner"], "platform", "the mark of the owner stays");
    let stored = place.variable("shop").await.unwrap();
    let items: Vec<_> = stored.items.iter().map(|(key, value)| (key.as_str(), value.expose())).collect();
    assert_eq!(items, [("certificate", "CHAIN"), ("key", KEY), ("scheduler.owner", "platform")]);
}

#[tokio::test]
async fn a_namespace_that_is_not_there_yet_is_waited_for() {
    let mut place = Place::without_namespace().await;
    place.with_certificate();
    let error = place.tell(EventKind::AppCreated).await.unwrap_err();
    assert!(error.retry, "{error}");
    assert_eq!(place.variable("shop").await, None);
}

#[tokio::test]
async fn an_app_changes_hands() {
    let mut place = Place::new().await;
    place.app.tenant = Some("team-b".into());
    place.applies(EventKind::AppTransferred { from: None }).await;
    place.app.tenant = None;
    place.applies(EventKind::AppTransferred { from: Some("team-b".into()) }).await;
}

#[tokio::test]
async fn a_namespace_of_somebody_else_is_refused_and_never_marked() {
    let mut place = Place::without_namespace().await;
    assert_eq!(place.hooks.validate_app_create(&place.app).await.unwrap(), Validation::Accepted);
    place.client.put_namespace(&NativeNamespace::new(place.app.namespace.as_str())).await.unwrap();
    let Validation::Vetoed(faults) = place.hooks.validate_app_create(&place.app).await.unwrap() else {
        panic!("a foreign namespace was accepted")
    };
    assert_eq!(faults[0].path, "namespace");
    place.app.tenant = Some("team-a".into());
    assert_eq!(place.tell(EventKind::AppTransferred { from: None }).await.unwrap(), Outcome::AlreadyInState);
    let query = Query::namespace(place.app.namespace.as_str());
    assert!(place.client.query(&query).await.unwrap().value.unwrap().meta.is_empty());
}

#[tokio::test]
async fn a_certificate_comes_changes_and_goes_with_its_last_domain() {
    let mut place = Place::new().await;
    place.with_certificate();
    place.applies(attached()).await;
    place.app.certificates.insert("shop".into(), Certificate::new("ANOTHER", SecretRef::new("key")));
    place.applies(attached()).await;
    // The other domain has it, too.
    place.app.domains[1].certificate = Some("shop".into());
    assert_eq!(
        place.tell(EventKind::DomainAdded(place.app.domains[1].clone())).await.unwrap(),
        Outcome::AlreadyInState
    );
    place.app.domains[0].certificate = None;
    assert_eq!(place.tell(detached()).await.unwrap(), Outcome::AlreadyInState);
    assert!(place.variable("shop").await.is_some());
    place.app.domains[1].certificate = None;
    place.applies(detached()).await;
    assert_eq!(place.variable("shop").await, None);
}

#[tokio::test]
async fn a_variable_of_somebody_else_is_left_alone() {
    let mut place = Place::new().await;
    place.with_certificate();
    let mut theirs = Variable::new(place.app.namespace.as_str(), certificate_variable(&place.app.name, "shop"));
    theirs.items.insert("key".into(), Secret::new("theirs"));
    place.client.put_variable(&theirs, VariableCondition::Absent).await.unwrap();
    let error = place.tell(attached()).await.unwrap_err();
    assert!(!error.retry && error.to_string().contains("is not this platform's"), "{error}");
    assert!(!format!("{error:?}").contains("4711"), "{error:?}");
    place.app.domains.clear();
    place.tell(detached()).await.unwrap_err();
    assert_eq!(place.variable("shop").await.unwrap().items, theirs.items);
}

#[tokio::test]
async fn a_secret_that_cannot_be_read_is_named() {
    let mut place = Place::new().await;
    place.with_certificate();
    place.app.certificates.insert("shop".into(), Certificate::new("CHAIN", SecretRef::new("elsewhere")));
    let error = place.tell(attached()).await.unwrap_err();
    assert!(error.to_string().contains("\"elsewhere\"") && !error.retry, "{error}");
}

#[tokio::test]
async fn reconciling_mends_and_then_writes_nothing() {
    let mut place = Place::new().await;
    place.with_certificate();
    assert_eq!(place.hooks.reconcile_app(&place.app).await.unwrap(), Outcome::Applied);
    let index = place.variable("shop").await.unwrap().modify_index;
    assert_eq!(place.hooks.reconcile_app(&place.app).await.unwrap(), Outcome::AlreadyInState);
    assert_eq!(place.variable("shop").await.unwrap().modify_index, index);
    place.app.domains.clear();
    assert_eq!(place.hooks.reconcile_app(&place.app).await.unwrap(), Outcome::Applied);
    assert_eq!(place.variable("shop").await, None);
}

#[tokio::test]
async fn the_end_of_an_app_takes_its_certificates() {
    let mut place = Place::new().await;
    place.with_certificate();
    place.tell(attached()).await.unwrap();
    place.applies(EventKind::AppDestroyed).await;
    assert_eq!(place.variable("shop").await, None);
}

#[tokio::test]
async fn a_host_that_another_app_has_is_vetoed() {
    let (place, mut other) = (Place::new().await, App::new(AppName::new("b").unwrap(), Namespace::new("b").unwrap()));
    let host = format!("{}.example", place.app.name);
    let domain = Domain::new(host.as_str());
    let validate = async |app: &App| place.hooks.validate_domain_add(app, &domain).await.unwrap();
    assert_eq!(validate(&place.app).await, Validation::Accepted);
    let web = Container::new("web", "shop/web:1").port("http", 8080);
    let web = Workload::service(place.app.namespace.as_str(), "web").replicas(0).container(web).check().unwrap();
    let target = web.target().clone();
    place.scheduler.launch(Launch::new(web)).await.unwrap();
    place.scheduler.expose(Expose::new(target, [Route::new(host, "http")])).await.unwrap();
    assert_eq!(validate(&place.app).await, Validation::Accepted, "its own");
    other.namespace = Namespace::new("elsewhere").unwrap();
    let Validation::Vetoed(faults) = validate(&other).await else { panic!("a host with two apps was accepted") };
    assert!(faults[0].problem.contains(place.app.namespace.as_str()), "{faults:?}");
    let odd = place.hooks.validate_domain_add(&other, &Domain::new("a\"b")).await.unwrap();
    assert!(matches!(odd, Validation::Vetoed(_)));
}

#[tokio::test]
async fn volumes_need_a_size() {
    let mut place = Place::without_namespace().await;
    for (size, accepted) in [("1Gi", true), ("much", false)] {
        place.app.volumes.insert("data".into(), AppVolume::new(size));
        let answer = place.hooks.validate_volume_create(&place.app, "data").await.unwrap();
        assert_eq!(answer == Validation::Accepted, accepted, "{size}: {answer:?}");
    }
}

/// What each hook answers, and what the set says of it, must be the same.
#[tokio::test]
async fn the_set_says_what_it_does() {
    let mut place = Place::new().await;
    place.with_certificate();
    let run = OneOff::new(RunKey::new("k").unwrap(), Workload::job("shop", "j"));
    let (process, target) = (None, Target::new("shop", "web").unwrap());
    let run_id = scheduler_core::Run::now(target.clone(), RunKey::new("k").unwrap()).id();
    let events = [
        EventKind::AppCreated,
        EventKind::AppTransferred { from: None },
        EventKind::PolicyChanged,
        EventKind::ConfigChanged,
        EventKind::RegistriesChanged,
        EventKind::ReleaseCreated,
        EventKind::FormationChanged { from: BTreeMap::new() },
        EventKind::RestartRequested { process },
        EventKind::RunRequested(Box::new(run)),
        EventKind::FrontChanged,
        EventKind::DomainAdded(Domain::new("c.example")),
        EventKind::DomainRemoved(Domain::new("c.example")),
        attached(),
        detached(),
        EventKind::Other { name: "x".into(), data: serde_json::Value::Null },
        EventKind::AppDestroyed,
    ];
    let reports = [
        Report::CutOver { to: vec![] },
        Report::DeployEnded(DeployEnd::new(1, true)),
        Report::ReplicasChanged { target: target.clone(), from: 1, to: 2 },
        Report::InstancesFailing { target: target.clone(), diagnoses: vec![] },
        Report::Drifted(Drift::new(target, DriftKind::Missing)),
        Report::RunEnded { run: run_id, outcome: WaitOutcome::Gone },
        Report::AppGone,
    ];
    let mut answered = BTreeMap::new();
    for kind in events {
        let event = event(kind, &place.app);
        answered.insert(event.hook(), place.hooks_answer(event.tell(&place.hooks).await));
    }
    for report in reports {
        answered.insert(report.hook(), place.hooks_answer(report.tell(&place.app, &place.hooks).await));
    }
    let answer = place.hooks.reconcile_app(&place.app).await;
    answered.insert(HookName::ReconcileApp, place.hooks_answer(answer));
    let (app, hooks) = (&place.app, &place.hooks);
    let validated = [
        (HookName::ValidateAppCreate, hooks.validate_app_create(app).await),
        (HookName::ValidateReleaseCreate, hooks.validate_release_create(app).await),
        (HookName::ValidateFormationChange, hooks.validate_formation_change(app).await),
        (HookName::ValidateDomainAdd, hooks.validate_domain_add(app, &app.domains[0]).await),
        (HookName::ValidateCertificateAttach, hooks.validate_certificate_attach(app, "a", "shop").await),
        (HookName::ValidateVolumeCreate, hooks.validate_volume_create(app, "data").await),
    ];
    for (hook, answer) in validated {
        let reason = if let Validation::NotSupported { reason } = answer.unwrap() { Some(reason) } else { None };
        answered.insert(hook, reason);
    }
    for hook in HookName::ALL {
        // Volumes are not on the fake; `requests` has them.
        if matches!(hook, HookName::PostVolumeCreate | HookName::PostVolumeDelete) {
            continue;
        }
        let said = if let Support::No(reason) = place.hooks.supports(*hook) { Some(reason) } else { None };
        assert_eq!(answered.get(hook), Some(&said), "{hook}");
    }
}

impl Place {
    /// The reason why a hook is not supported, if it is not.
    fn hooks_answer(&self, answer: Result<Outcome, HookError>) -> Option<String> {
        match answer.unwrap() {
            Outcome::NotSupported { reason } => Some(reason),
            _ => None,
        }
    }
}

#[tokio::test]
#[ignore = "the fake has no volumes: name an agent by SCHEDULER_TEST_NOMAD_ADDR"]
async fn volumes_on_an_agent() {
    let mut place = Place::new().await;
    // A node has a name once, whatever the namespace.
    let name = format!("{}-data", place.app.name);
    place.app.volumes.insert(name.clone(), AppVolume::new("1Mi"));
    place.applies(EventKind::VolumeCreated { name: name.clone() }).await;
    let volumes = Query::host_volumes(place.app.namespace.as_str());
    let made = place.client.query(&volumes).await.unwrap().value;
    assert_eq!(made.iter().map(|volume| volume.name.as_str()).collect::<Vec<_>>(), [name.as_str()]);
    place.applies(EventKind::VolumeDeleted { name: name.clone(), volume: AppVolume::new("1Mi") }).await;
    assert_eq!(place.client.query(&volumes).await.unwrap().value, []);
    place.tell(EventKind::AppCreated).await.unwrap();
    place.applies(EventKind::AppDestroyed).await;
    assert_eq!(place.client.query(&volumes).await.unwrap().value, []);
}
