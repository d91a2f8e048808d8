//! What users may have stored: operations, replies, errors, observations, and the revisions of workloads.
//!
//! Each file in `tests/golden` must be read as the value here, and the value be written as the file, by this version of
//! the library and by every later one. A new field is added with a default; a new value goes into a new entry.

#![allow(clippy::panic, clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use scheduler_core::hooks::{
    App, AppName, AppVolume, Certificate, DeployEnd, Domain, Drift, DriftKind, Event, EventId, EventKind, Front,
    Isolation, OneOff, Policy, Quota, RegistryCredentials, Release, Report, SecretRef,
};
use scheduler_core::{
    BackendName, Change, CheckedWorkload, ConfigRef, ConfigStored, Conflict, Container, Delete, DeleteNamespace,
    Deleted, Detail, Diagnosis, DiagnosisKind, Effect, Endpoint, Endpoints, EnsureNamespace, Error, ErrorKind,
    EventLine, Exit, Expose, Exposed, Fault, FieldAction, FieldChange, Filter, Finished, Found, Guard, History,
    HistoryEntry, Instance, InstanceAction, InstanceAnswer, InstanceState, Job, Kind, KindName, Launch, Launched, List,
    Listed, LogItem, LogLine, LogStream, Logs, MarkHealthy, MarkedHealthy, Marks, Missing, NamespaceDeleted,
    NamespaceEnsured, NativeCode, ObjectAction, ObjectChange, Observation, OnInstance, OpName, Overlap, OwnerId,
    Periodic, Ping, Plan, PlanToken, Planned, Pong, Probe, PutConfig, ReadyEndpoints, Reply, Revisions, Rollout,
    RolloutAction, Route, RouteBackend, Run, RunId, RunKey, RunStarted, Scale, Scaled, ScheduleState, SchedulerOp,
    Seconds, Status, Steered, Subscription, System, Target, Timestamp, Unexpose, Unexposed, Version, WatchItem,
    Workload,
};
use scheduler_core::{Counts, Namespace, WaitOutcome, WorkloadName};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Compares the entries of a golden file with values, both ways.
fn golden<T: Serialize + DeserializeOwned + PartialEq + Debug>(file: &str, values: &[T]) {
    let path = format!("{}/tests/golden/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let stored: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert_eq!(stored.len(), values.len(), "{file} has another number of entries");
    for (stored, value) in stored.into_iter().zip(values) {
        assert_eq!(serde_json::to_value(value).unwrap(), stored, "{file}: written otherwise than before");
        assert_eq!(&serde_json::from_value::<T>(stored).unwrap(), value, "{file}: read otherwise than before");
    }
}

fn web() -> Arc<CheckedWorkload> {
    let mut marks = Marks::default();
    marks.namespace = Some("dev/sandbox".into());
    Arc::new(
        Workload::service("shop", "web")
            .replicas(2)
            .container(
                Container::new("web", "shop/web:1")
                    .port("http", 8080)
                    .env("A", "b")
                    .memory("1024Ki", "64Mi")
                    .readiness(Probe::http("http", "/ready")),
            )
            .marks(marks)
            .check()
            .unwrap_or_else(|faults| panic!("{faults}")),
    )
}

fn target() -> Target {
    Target::new("shop", "web").unwrap()
}

fn time(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_796_074_958_000 + millis)
}

fn seen() -> Observation {
    let mut diagnosis = Diagnosis::new(DiagnosisKind::CrashLoop, time(-5000));
    diagnosis.instance = Some("web-2".into());
    diagnosis.container = Some("web".into());
    diagnosis.message = "back-off".into();
    diagnosis.evidence.exit_code = Some(137);
    diagnosis.evidence.signal = Some(9);
    diagnosis.evidence.restarts = Some(3);
    diagnosis.evidence.events.push(EventLine::new(time(-1000), "BackOff", "Back-off restarting failed container"));
    let mut ready = Instance::new("web-1", time(-60_000));
    (ready.state, ready.available, ready.node, ready.address) =
        (InstanceState::Ready, true, Some("n1".into()), Some("198.18.0.1".into()));
    let mut crashed = Instance::new("web-2", time(-50_000));
    (crashed.state, crashed.restarts) = (InstanceState::Starting, 3);
    let mut old = Instance::new("web-0", time(-90_000));
    (old.state, old.current) = (InstanceState::Terminating, false);
    let mut seen =
        Observation::new(target(), OwnerId::new("me").unwrap(), "uid-1", Version::new("uid-1/7/abc"), time(0));
    seen.revision = Some(web().revision().clone());
    seen.marks = web().marks.clone();
    seen.labels = BTreeMap::from([("tier".into(), "front".into())]);
    seen.patience = Seconds::new(600);
    seen.counts.desired = 2;
    seen.diagnoses.push(diagnosis);
    seen.with_instances(vec![ready, crashed, old])
}

fn ended_job() -> Observation {
    let mut seen = Observation::new(target(), OwnerId::new("me").unwrap(), "uid-1", Version::new("t"), time(0));
    (seen.kind, seen.finished, seen.changed) = (KindName::Job, Some(Finished::Failed), Some(time(-60_000)));
    seen.run_of = Some(target().name);
    seen.schedule = Some(ScheduleState::new(Some(time(-1000)), 2));
    (seen.suspended, seen.awaits_promotion) = (true, true);
    (seen.counts.desired, seen.counts.succeeded, seen.counts.failed) = (2, 1, 3);
    let mut ended = Instance::new("web-1", time(-50_000));
    (ended.state, ended.ordinal) = (InstanceState::Ended, Some(1));
    ended.exit = Some({
        let mut exit = Exit::new(137);
        (exit.signal, exit.out_of_memory) = (Some(9), true);
        exit
    });
    seen.with_instances(vec![ended])
}

#[test]
fn operations() {
    let mut filter = Filter::target(target());
    filter.marks = web().marks.clone();
    filter.labels = BTreeMap::from([("tier".into(), "front".into())]);
    golden::<SchedulerOp>(
        "ops.json",
        &[
            Launch::new(web()).into(),
            Launch::new(web()).guard(Guard::IfAbsent).time_limit(Duration::from_secs(5)).request_id("r-1").into(),
            Launch::new(web()).guard(Guard::IfVersion(Version::new("t"))).into(),
            Launch::new(web()).guard(Guard::Adopt).into(),
            Delete::new(target()).into(),
            Delete::new(target()).guard(Guard::IfVersion(Version::new("t"))).into(),
            Status::new(target(), Detail::Counts).into(),
            Status::new(target(), Detail::Instances).into(),
            Status::new(target(), Detail::Evidence).into(),
            List::default().into(),
            List::new(filter).into(),
            Ping::default().into(),
            Launch::new(web()).guard(Guard::IfPlan(plan_token())).into(),
            Launch::new(of_each_kind(Kind::Job(Job::default()))).into(),
            Launch::new(of_each_kind(periodic())).into(),
            Launch::new(of_each_kind(Kind::System(System::default()))).into(),
            Scale::new(target(), 3).into(),
            Rollout::new(target(), RolloutAction::Restart).into(),
            Rollout::new(target(), RolloutAction::Pause).guard(Guard::IfVersion(Version::new("t"))).into(),
            Rollout::new(target(), RolloutAction::Resume).into(),
            Rollout::new(target(), RolloutAction::Promote).into(),
            Rollout::new(target(), RolloutAction::Abort).into(),
            OnInstance::new(target(), "web-1", InstanceAction::Stop).into(),
            OnInstance::new(target(), "web-1", InstanceAction::Restart).into(),
            History::new(target()).into(),
            MarkHealthy::new(target(), web().revision().clone()).into(),
            Run::one_off(of_each_kind(Kind::Job(Job::default())), key()).into(),
            Run::now(target(), key()).into(),
            Plan::new(web()).into(),
            // Redacted: what is read again is what was written.
            PutConfig::new(target(), "app").entry("KEY", "Redacted").into(),
            Expose::new(target(), [Route::new("shop.example", "http"), shared()]).into(),
            Unexpose::new(target()).into(),
            Endpoints::new(target()).into(),
            Endpoints::new(target()).port("http").into(),
            EnsureNamespace::new(target().namespace).into(),
            DeleteNamespace::new(target().namespace).into(),
            Expose::new(target(), [Route::new("shop.example", "http")]).taking_from(old()).into(),
        ],
    );
    golden(
        "subscriptions.json",
        &[
            Subscription::Watch(scheduler_core::Watch::new(Filter::target(target()))),
            Subscription::Logs(Logs::new(target())),
            Subscription::Logs(
                Logs::new(target()).instance("web-1").container("web").follow().previous().since(time(0)).tail(10),
            ),
        ],
    );
}

fn old() -> Target {
    Target::new("shop", "old").unwrap()
}

fn of_each_kind(kind: Kind) -> Arc<CheckedWorkload> {
    let workload = Workload::of_kind("shop", "web", kind).container(Container::new("web", "shop/web:1"));
    Arc::new(workload.check().unwrap())
}

fn periodic() -> Kind {
    let mut periodic = Periodic::new("30 2 * * *");
    periodic.time_zone = "Europe/Berlin".into();
    periodic.overlap = Overlap::Allow;
    (periodic.starting_deadline, periodic.keep_succeeded) = (Some(Seconds::new(60)), Some(2));
    (periodic.job.completions, periodic.job.parallelism) = (3, Some(2));
    Kind::Periodic(periodic)
}

fn key() -> RunKey {
    RunKey::new("release 7").unwrap()
}

fn plan_token() -> PlanToken {
    PlanToken::new(&BackendName::memory(), &web(), [&Version::new("t")])
}

fn shared() -> Route {
    let other = RouteBackend::of(Target::new("shop", "api").unwrap(), "http").weight(9);
    Route::new("*.shop.example", "http").path("/api").backends([RouteBackend::new("http"), other])
}

#[test]
fn replies() {
    let mut launched = Launched::new(Change::Updated(Effect::Rolling), web().revision().clone(), Version::new("t"));
    launched.objects.push(ObjectChange::new("Deployment", "web", ObjectAction::Updated));
    launched.objects.push(ObjectChange::new("Service", "web", ObjectAction::Deleted));
    launched.adopted_from = Some(Some(OwnerId::new("other").unwrap()));
    launched.warnings.push("deprecated".into());
    let plain = |change| Launched::new(change, web().revision().clone(), Version::new("t"));
    let mut from_nobody = plain(Change::Updated(Effect::InPlace));
    from_nobody.adopted_from = Some(None);
    let mut entry = HistoryEntry::new(web(), time(0));
    (entry.current, entry.healthy) = (true, true);
    let mut planned = Planned::new(Change::Updated(Effect::Rolling), plan_token());
    planned.objects.push(ObjectChange::new("Deployment", "web", ObjectAction::Updated));
    let mut field = FieldChange::new("Deployment/web", "spec.replicas", FieldAction::Changed);
    field.effect = Some(Effect::InPlace);
    planned.fields = vec![field, FieldChange::new("Deployment/web", "metadata.labels.a", FieldAction::Removed)];
    let mut exposed = Exposed::new(true);
    exposed.addresses.push("198.18.0.9".into());
    let mut moved = Exposed::new(true);
    moved.taken.push(Route::new("shop.example", "http"));
    golden::<Reply>(
        "replies.json",
        &[
            Reply::Launch(launched),
            Reply::Launch(plain(Change::Created)),
            Reply::Launch(plain(Change::Unchanged)),
            Reply::Launch(plain(Change::Updated(Effect::Replaced))),
            Reply::Launch(from_nobody),
            Reply::Delete(Deleted::Gone),
            Reply::Delete(Deleted::Deleting {
                remaining: vec!["Pod/web-1".into()],
                blocked_by: vec!["a finalizer".into()],
            }),
            Reply::Delete(Deleted::WasAbsent),
            Reply::Status(Found(None)),
            Reply::Status(Found(Some(Box::new(seen())))),
            Reply::List(Listed::new(vec![seen().trimmed(Detail::Counts)])),
            Reply::Ping(Pong::new("v1.36.3")),
            Reply::Status(Found(Some(Box::new(ended_job())))),
            Reply::Scale(Scaled::new(1, 3, Version::new("t"))),
            Reply::Rollout(Steered::new(true, Version::new("t"))),
            Reply::OnInstance(InstanceAnswer::Told),
            Reply::OnInstance(InstanceAnswer::WasEnding),
            Reply::History(Revisions::new(vec![entry])),
            Reply::MarkHealthy(MarkedHealthy::Now),
            Reply::MarkHealthy(MarkedHealthy::Already),
            Reply::Run(RunStarted::new(RunId::of(&target(), &key()), true)),
            Reply::Plan(planned),
            Reply::PutConfig(ConfigStored::new(ConfigRef::new("app", "0123456789abcdef"), true)),
            Reply::Expose(exposed),
            Reply::Unexpose(Unexposed::Gone),
            Reply::Unexpose(Unexposed::WasAbsent),
            Reply::Endpoints(ReadyEndpoints::new(vec![Endpoint::new("web-1", "http", "198.18.0.1", 8080)])),
            Reply::EnsureNamespace(NamespaceEnsured::Created),
            Reply::EnsureNamespace(NamespaceEnsured::Exists { owned: false }),
            Reply::DeleteNamespace(NamespaceDeleted::Gone),
            Reply::DeleteNamespace(NamespaceDeleted::Deleting { remaining: vec!["Pod/web-1".into()] }),
            Reply::DeleteNamespace(NamespaceDeleted::WasAbsent),
            Reply::Expose(moved),
        ],
    );
    let mut line = LogLine::new("web-1", "web", "started");
    (line.stream, line.time) = (LogStream::Err, Some(time(0)));
    golden(
        "logs.json",
        &[
            LogItem::Line(line),
            LogItem::Line(LogLine::new("web-1", "web", "")),
            LogItem::Gap { instance: "web-1".into(), container: "web".into(), why: "the node is lost".into() },
        ],
    );
    golden(
        "watch.json",
        &[
            WatchItem::Snapshot(Box::new(seen().trimmed(Detail::Counts))),
            WatchItem::Synced,
            WatchItem::Changed(Box::new(seen().trimmed(Detail::Counts))),
            WatchItem::Deleted { target: target(), incarnation: "uid-1".into() },
            WatchItem::Resync,
        ],
    );
}

/// An app that has everything.
fn app() -> App {
    let secret = |text: &str| SecretRef::new(format!("vault:shop/{text}"));
    let (web, shop) = (WorkloadName::new("web").unwrap(), "tenant-shop");
    let mut policy = Policy::default();
    let mut quota = Quota::default();
    (quota.cpu, quota.memory, quota.instances) = (Some("4".into()), Some("8Gi".into()), Some(20));
    (policy.quota, policy.isolation) = (quota, Isolation::App);
    let container = Container::new("web", "shop/web:7").port("http", 8080);
    let mut release = Release::new(7, vec![Workload::service(shop, "web").container(container)]);
    release.before = vec![Workload::job(shop, "migrate").container(Container::new("migrate", "shop/web:7"))];
    release.config = BTreeMap::from([("DATABASE".into(), secret("database"))]);
    release.rollback_of = Some(5);
    let mut volume = AppVolume::new("10Gi");
    volume.class = Some("fast".into());
    let mut app = App::new(AppName::new("shop").unwrap(), Namespace::new(shop).unwrap());
    app.tenant = Some("team-a".into());
    app.policy = policy;
    app.release = Some(release);
    app.formation = BTreeMap::from([(web.clone(), 3)]);
    app.config = BTreeMap::from([("DATABASE".into(), secret("database"))]);
    app.front = Some(Front::new(web, "http"));
    app.domains = vec![Domain::new("shop.example").certificate("main"), Domain::new("*.shop.example")];
    let certificate = Certificate::new("-----BEGIN CERTIFICATE-----", secret("key"));
    app.certificates = BTreeMap::from([("main".into(), certificate)]);
    let credentials = RegistryCredentials::new("shop", secret("registry"));
    app.registries = BTreeMap::from([("registry.example".into(), credentials)]);
    app.volumes = BTreeMap::from([("data".into(), volume), ("tmp".into(), AppVolume::new("1Gi"))]);
    app
}

#[test]
fn events() {
    let of = |kind, app| Event::new(EventId::new("e-1"), time(0), kind, app);
    let event = |kind| of(kind, App::new(AppName::new("shop").unwrap(), Namespace::new("shop").unwrap()));
    let web = || WorkloadName::new("web").unwrap();
    let (host, certificate) = ("shop.example".to_owned(), "main".to_owned());
    let job = Workload::job("shop", "web").container(Container::new("web", "shop/web:1"));
    golden(
        "events.json",
        &[
            event(EventKind::AppCreated),
            of(EventKind::ReleaseCreated, app()),
            event(EventKind::AppTransferred { from: Some("team-a".into()) }),
            event(EventKind::AppTransferred { from: None }),
            event(EventKind::AppDestroyed),
            event(EventKind::PolicyChanged),
            event(EventKind::ConfigChanged),
            event(EventKind::RegistriesChanged),
            event(EventKind::FormationChanged { from: BTreeMap::from([(web(), 2)]) }),
            event(EventKind::FormationChanged { from: BTreeMap::new() }),
            event(EventKind::RestartRequested { process: Some(web()) }),
            event(EventKind::RestartRequested { process: None }),
            event(EventKind::RunRequested(Box::new(OneOff::new(key(), job)))),
            event(EventKind::FrontChanged),
            event(EventKind::DomainAdded(Domain::new("shop.example"))),
            event(EventKind::DomainRemoved(Domain::new("shop.example").certificate("main"))),
            event(EventKind::CertificateAttached { host: host.clone(), certificate: certificate.clone() }),
            event(EventKind::CertificateDetached { host, certificate }),
            event(EventKind::VolumeCreated { name: "data".into() }),
            event(EventKind::VolumeDeleted { name: "data".into(), volume: AppVolume::new("10Gi") }),
            event(EventKind::Other { name: "invoice_sent".into(), data: serde_json::json!({"amount": 12}) }),
            event(EventKind::Other { name: "pinged".into(), data: Value::Null }),
        ],
    );
}

#[test]
fn what_a_later_version_wrote_is_refused_and_not_half_understood() {
    let written = |event: &str| serde_json::from_str::<Event>(event).map_err(|error| error.to_string());
    let app = r#"{"name": "shop", "namespace": "shop"}"#;
    let at = r#""id": "e-1", "at": "2026-01-01T00:00:00Z""#;
    assert!(written(&format!(r#"{{{at}, "kind": "app_created", "app": {app}}}"#)).is_ok());
    for (later, word) in [
        (format!(r#"{{{at}, "kind": "app_archived", "app": {app}}}"#), "app_archived"),
        (format!(r#"{{{at}, "kind": "app_created", "app": {app}, "actor": "me"}}"#), "actor"),
        (format!(r#"{{{at}, "kind": {{"volume_created": {{"name": "a", "zone": "b"}}}}, "app": {app}}}"#), "zone"),
        (
            format!(r#"{{{at}, "kind": "app_created", "app": {{"name": "shop", "namespace": "shop", "mesh": 1}}}}"#),
            "mesh",
        ),
    ] {
        let error = written(&later).unwrap_err();
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn reports() {
    let mut rolled_back = DeployEnd::new(8, false);
    (rolled_back.rolled_back_to, rolled_back.reason) = (Some(7), Some("web: crash loop".into()));
    let mut changed = Drift::new(target(), DriftKind::Changed);
    changed.fields = vec![FieldChange::new("Deployment/web", "spec.replicas", FieldAction::Changed)];
    let ended = |outcome| Report::RunEnded { run: RunId::of(&target(), &key()), outcome };
    let diagnoses = vec![Diagnosis::new(DiagnosisKind::ImagePull, time(0))];
    golden(
        "reports.json",
        &[
            Report::CutOver { to: vec![target()] },
            Report::DeployEnded(DeployEnd::new(7, true)),
            Report::DeployEnded(rolled_back),
            Report::ReplicasChanged { target: target(), from: 2, to: 5 },
            Report::InstancesFailing { target: target(), diagnoses },
            Report::Drifted(Drift::new(target(), DriftKind::Missing)),
            Report::Drifted(changed),
            Report::Drifted(Drift::new(target(), DriftKind::Surplus)),
            ended(WaitOutcome::Succeeded),
            ended(WaitOutcome::Stalled(Counts::desired(2))),
            Report::AppGone,
        ],
    );
}

#[test]
fn errors() {
    let new = |kind| Error::new(kind, "because");
    let owner = || Some(OwnerId::new("other").unwrap());
    let fault = Fault::new("containers[0].image", "it is empty");
    golden(
        "errors.json",
        &[
            new(ErrorKind::InvalidArgument).with_causes(vec![fault]),
            new(ErrorKind::Forbidden)
                .with_native(NativeCode::new(Some(403), Some("Forbidden".into())))
                .with_op(OpName::Launch)
                .with_target(&target())
                .with_backend(&BackendName::new("kubernetes").unwrap()),
            new(ErrorKind::RateLimited).with_retry_after(Duration::from_millis(1500)),
            new(ErrorKind::AlreadyExists { owner: owner() }),
            new(ErrorKind::AlreadyExists { owner: None }),
            new(ErrorKind::Conflict(Conflict::Owner { owner: owner() })),
            new(ErrorKind::Conflict(Conflict::Deleting)),
            new(ErrorKind::Conflict(Conflict::Moved { now: Some(Version::new("t")) })),
            new(ErrorKind::Conflict(Conflict::Absent)),
            new(ErrorKind::NotFound(Missing::Namespace)),
            new(ErrorKind::NotFound(Missing::Interface)),
            new(ErrorKind::Unsupported(Some(scheduler_core::Feature::Sidecars))),
            new(ErrorKind::BadAnswer),
            new(ErrorKind::Internal),
            new(ErrorKind::OutcomeUnknown),
            new(ErrorKind::Precondition),
            new(ErrorKind::QuotaExceeded),
            new(ErrorKind::TimeLimit),
            new(ErrorKind::Unauthenticated),
            new(ErrorKind::Unavailable),
            new(ErrorKind::MustReplace),
            new(ErrorKind::Conflict(Conflict::RouteTaken { by: "shop/api".into() })),
            new(ErrorKind::NotFound(Missing::Instance)),
        ],
    );
}

/// The hashes in the file are the first 40 hex digits of the SHA-256 of the canonical JSON beside them.
#[test]
fn revisions() {
    #[derive(serde::Deserialize)]
    struct Entry {
        workload: CheckedWorkload,
        revision: String,
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/revisions.json");
    let entries: Vec<Entry> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(entries.len() >= 5);
    for entry in entries {
        assert_eq!(entry.workload.revision().as_str(), entry.revision, "{:?}", *entry.workload);
    }
}
