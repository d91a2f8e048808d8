//! Operations from end to end: on the agent that `SCHEDULER_TEST_NOMAD_ADDR` names (on this machine only), else on the fake.
//! What the core's suite does not look into: what stands on Nomad after an operation.
#![expect(clippy::panic, clippy::unwrap_used, reason = "this is a test, which clippy cannot tell in its helpers")]

#[expect(dead_code, reason = "the conformance suite uses the rest")]
mod support;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use scheduler_core::memory::Fate;
use scheduler_core::{
    Change, ConfigRef, Conflict, Container, Delete, DeleteNamespace, Deleted, Detail, DiagnosisKind, Effect, Endpoints,
    EnsureNamespace, EnvValue, ErrorKind, Exit, Expose, Finished, Guard, History, InstanceState, KindName, Launch,
    Launched, List, LogItem, Logs, MarkHealthy, MarkedHealthy, NamespaceDeleted, NamespaceEnsured, Observation,
    OwnerId, Plan, PutConfig, Role, RollbackTo, Route, Run, RunKey, Scale, Scheduler as _, SchedulerExt as _, Status,
    Target, Unexpose, Unexposed, Verdict, VolumeSource, Workload,
};
use scheduler_nomad::NomadScheduler;
use scheduler_nomad::client::model::Namespace;
use scheduler_nomad::client::{Client, ConnectOptions, ListOptions, Query};
use scheduler_nomad_fake::{FakeNomad, Options};
use support::fates::Play;

/// The longest that anything takes to settle.
const LONG: Duration = Duration::from_secs(60);

struct Place {
    scheduler: NomadScheduler,
    client: Client,
    namespace: String,
    play: Play,
    _fake: Option<FakeNomad>,
}

impl Place {
    async fn new() -> Self {
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
        let namespace = format!("op-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        client.put_namespace(&Namespace::new(namespace.as_str())).await.unwrap();
        let scheduler = NomadScheduler::new(client.clone(), OwnerId::new(namespace.as_str()).unwrap());
        let play = if fake.is_some() { Play::Images } else { Play::Programs };
        Self { scheduler, client, namespace, play, _fake: fake }
    }

    fn target(&self, name: &str) -> Target {
        Target::new(self.namespace.as_str(), name).unwrap()
    }

    fn fated(&self, workload: Workload, fate: Fate, tag: &str) -> Workload {
        let workload = workload.container(Container::new("main", "main")).termination_grace(2).progress_deadline(20);
        self.play.fate(workload, fate, tag)
    }

    fn service(&self, tag: &str) -> Workload {
        let service = Workload::service(self.namespace.as_str(), "web");
        let mut service = self.fated(service, Fate::Run, tag);
        service.containers[0] = service.containers[0].clone().port("http", 8080);
        service
    }

    fn job(&self, fate: Fate) -> Workload {
        self.fated(Workload::job(self.namespace.as_str(), "work"), fate, "1")
    }

    async fn launch(&self, workload: Workload) -> Launched {
        self.scheduler.launch(Launch::new(workload.check().unwrap())).await.unwrap()
    }

    async fn seen(&self, name: &str) -> Option<Observation> {
        let found = self.scheduler.status(Status::new(self.target(name), Detail::Evidence)).await.unwrap();
        found.0.map(|seen| *seen)
    }

    /// Waits until it is so.
    async fn settle(&self, name: &str, what: &str, holds: impl Fn(&Observation) -> bool) -> Observation {
        let end = tokio::time::Instant::now() + LONG;
        loop {
            let seen = self.seen(name).await;
            if let Some(seen) = seen.clone().filter(|seen| holds(seen)) {
                return seen;
            }
            assert!(tokio::time::Instant::now() < end, "{name} never was {what}: {seen:#?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn verdict(&self, name: &str, verdict: Verdict) -> Observation {
        self.settle(name, &verdict.to_string(), |seen| seen.verdict() == verdict).await
    }

    async fn delete(&self, name: &str) {
        let end = tokio::time::Instant::now() + LONG;
        while self.scheduler.delete(Delete::new(self.target(name))).await.unwrap() != Deleted::Gone {
            assert!(tokio::time::Instant::now() < end, "{name} is never gone");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Everything that the server has in the namespace.
    async fn left(&self) -> BTreeSet<String> {
        let jobs = self.client.list_jobs(&self.namespace, &ListOptions::new()).await.unwrap().value;
        let variables = self.client.query(&Query::variables(&self.namespace, "")).await.unwrap().value;
        jobs.into_iter().map(|job| job.id).chain(variables.into_iter().map(|variable| variable.path)).collect()
    }
}

fn key(text: &str) -> RunKey {
    RunKey::new(text).unwrap()
}

const fn done(after: u32, exit_code: u8) -> Fate {
    Fate::Done { after, exit_code }
}

#[tokio::test]
async fn a_job_is_complete_when_all_of_its_indexed_instances_are() {
    let place = Place::new().await;
    let job = place.job(done(1, 0)).with_job(|job| job.completions = 2);
    assert_eq!(place.launch(job.clone()).await.change, Change::Created);
    let seen = place.verdict("work", Verdict::Complete).await;
    assert_eq!((seen.kind, seen.finished), (KindName::Job, Some(Finished::Complete)));
    assert_eq!((seen.counts.desired, seen.counts.succeeded, seen.counts.failed, seen.counts.live), (2, 2, 0, 0));
    let ordinals: BTreeSet<_> = seen.instances.iter().map(|instance| instance.ordinal).collect();
    assert_eq!(ordinals, BTreeSet::from([Some(0), Some(1)]));
    assert!(seen.instances.iter().all(|i| i.state == InstanceState::Ended && i.exit == Some(Exit::new(0))));
    // It does not run again, and cannot become another one.
    assert_eq!(place.launch(job.clone()).await.change, Change::Unchanged);
    let other = job.label("team", "blue").check().unwrap();
    let error = place.scheduler.launch(Launch::new(other)).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::MustReplace);
    assert_eq!(place.seen("work").await.unwrap().version, seen.version);
    place.delete("work").await;
    assert_eq!(place.left().await, BTreeSet::new());
}

#[tokio::test]
async fn a_job_fails_when_it_has_no_tries_left_and_says_how() {
    let place = Place::new().await;
    place.launch(place.job(done(1, 3)).with_job(|job| job.retries = 1)).await;
    let seen = place.verdict("work", Verdict::Failed).await;
    assert_eq!((seen.counts.succeeded, seen.counts.failed, seen.instances[0].restarts), (0, 2, 1));
    assert_eq!(seen.instances[0].exit, Some(Exit::new(3)));
    let diagnosis = &seen.diagnoses[0];
    assert_eq!((diagnosis.kind, diagnosis.evidence.exit_code), (DiagnosisKind::Exited, Some(3)));
}

/// Two launches of one name with a delete in between are two lives.
#[tokio::test]
async fn a_job_that_was_stopped_and_is_launched_again_has_another_life() {
    let place = Place::new().await;
    place.launch(place.job(done(1, 3))).await;
    let failed = place.verdict("work", Verdict::Failed).await;
    // Stopped, and not purged.
    place.client.deregister(&place.namespace, "work", false).await.unwrap();
    let mut waited = 0;
    while place.seen("work").await.is_some() {
        waited += 1;
        assert!(waited < 600);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(place.launch(place.job(done(1, 0))).await.change, Change::Created);
    let again = place.verdict("work", Verdict::Complete).await;
    assert_eq!((again.counts.failed, again.instances.len()), (0, 1));
    assert_ne!(again.incarnation, failed.incarnation);
}

#[tokio::test]
async fn a_run_is_one_for_one_key() {
    let place = Place::new().await;
    let job = place.job(done(1, 0)).check().unwrap();
    let first = place.scheduler.run(Run::one_off(job.clone(), key("a"))).await.unwrap();
    assert!(first.created);
    let name = first.run.target().name.as_str().to_owned();
    let seen = place.verdict(&name, Verdict::Complete).await;
    assert!(seen.revision.is_some() && seen.run_of.is_none());
    assert!(!place.scheduler.run(Run::one_off(job.clone(), key("a"))).await.unwrap().created);
    assert!(place.scheduler.run(Run::one_off(job, key("b"))).await.unwrap().created);
    assert_eq!(place.left().await.len(), 2);
    place.delete(&name).await;
    assert_eq!(place.left().await.len(), 1);
    let service = place.service("1").check().unwrap();
    let refused = place.scheduler.run(Run::one_off(service, key("a"))).await.unwrap_err();
    assert_eq!(*refused.kind(), ErrorKind::InvalidArgument);
}

fn yearly(place: &Place, fate: Fate) -> Workload {
    place.fated(Workload::periodic(place.namespace.as_str(), "tick", "0 0 29 2 *"), fate, "1")
}

#[tokio::test]
async fn a_periodic_job_is_run_now_and_takes_its_runs_along() {
    let place = Place::new().await;
    place.launch(yearly(&place, done(1, 0))).await;
    let idle = place.verdict("tick", Verdict::Idle).await;
    assert_eq!((idle.schedule.unwrap().active, idle.counts.desired), (0, 0));
    let run = place.scheduler.run(Run::now(place.target("tick"), key("now"))).await.unwrap().run;
    let name = run.target().name.as_str();
    let seen = place.verdict(name, Verdict::Complete).await;
    assert_eq!(seen.run_of.as_ref().map(|name| name.as_str()), Some("tick"));
    assert!(seen.revision.is_some(), "the run is not what its source says");
    let suspended = yearly(&place, done(1, 0)).with_periodic(|periodic| periodic.suspend = true);
    assert_eq!(place.launch(suspended).await.change, Change::Updated(Effect::InPlace));
    assert_eq!(place.seen("tick").await.unwrap().verdict(), Verdict::Suspended);
    // It can be run all the same.
    assert!(place.scheduler.run(Run::now(place.target("tick"), key("again"))).await.unwrap().created);
    place.delete("tick").await;
    assert_eq!(place.left().await, BTreeSet::new());
    let absent = place.scheduler.run(Run::now(place.target("tick"), key("now"))).await.unwrap_err();
    assert_eq!(*absent.kind(), ErrorKind::Conflict(Conflict::Absent));
}

/// hashicorp/nomad#2263, #26850: what a schedule started outlives its job on Nomad.
#[tokio::test]
async fn what_the_schedule_started_is_shown_and_goes_with_it() {
    let place = Place::new().await;
    place.launch(yearly(&place, Fate::Run)).await;
    place.client.force_periodic(&place.namespace, "tick").await.unwrap();
    let seen = place.settle("tick", "running", |seen| seen.counts.live == 1).await;
    let schedule = seen.schedule.unwrap();
    assert_eq!((schedule.active, schedule.last.is_some(), seen.instances.len()), (1, true, 1));
    let listed = place.scheduler.list(List::default()).await.unwrap().workloads;
    let ours: Vec<_> = listed.iter().filter(|seen| seen.target.namespace.as_str() == place.namespace).collect();
    assert_eq!(ours.len(), 1, "{ours:?}");
    place.delete("tick").await;
    assert_eq!(place.left().await, BTreeSet::new());
}

#[tokio::test]
async fn a_system_has_an_instance_on_each_node_and_is_restarted_and_updated() {
    let place = Place::new().await;
    let system = |tag| place.fated(Workload::system(place.namespace.as_str(), "agent"), Fate::Run, tag);
    place.launch(system("1")).await;
    let seen = place.verdict("agent", Verdict::Healthy).await;
    assert!(seen.counts.desired > 0 && seen.counts.ready == seen.counts.desired, "{:?}", seen.counts);
    let nodes: BTreeSet<_> = seen.instances.iter().map(|instance| instance.node.clone()).collect();
    assert_eq!(nodes.len(), seen.instances.len());
    assert_eq!(place.launch(system("1")).await.change, Change::Unchanged);
    let ids = |seen: &Observation| -> BTreeSet<String> {
        let living = seen.instances.iter().filter(|i| i.state != InstanceState::Ended);
        living.map(|i| i.id.clone()).collect()
    };
    place.scheduler.restart(&place.target("agent")).await.unwrap();
    let others = |seen: &Observation, before: &Observation| {
        seen.verdict() == Verdict::Healthy && ids(seen).is_disjoint(&ids(before))
    };
    let restarted = place.settle("agent", "restarted", |now| others(now, &seen)).await;
    assert_eq!(restarted.revision, seen.revision);
    assert_eq!(place.launch(system("2")).await.change, Change::Updated(Effect::Rolling));
    place.settle("agent", "updated", |now| others(now, &restarted)).await;
    let scaled = place.scheduler.scale(Scale::new(place.target("agent"), 0)).await.unwrap_err();
    assert_eq!(*scaled.kind(), ErrorKind::InvalidArgument);
    place.delete("agent").await;
}

#[tokio::test]
async fn stable_identities_are_indexes() {
    let place = Place::new().await;
    let stable = |tag| place.service(tag).replicas(2).stable();
    place.launch(stable("1")).await;
    let ordinals = |seen: &Observation| -> Vec<u32> {
        let mut ordinals: Vec<u32> = seen.instances.iter().filter_map(|instance| instance.ordinal).collect();
        ordinals.sort_unstable();
        ordinals
    };
    let seen = place.verdict("web", Verdict::Healthy).await;
    assert_eq!(ordinals(&seen), [0, 1]);
    place.launch(stable("2")).await;
    let seen = place.verdict("web", Verdict::Healthy).await;
    assert_eq!((ordinals(&seen), seen.counts.old), (vec![0, 1], 0));
    let error = place.scheduler.launch(Launch::new(place.service("2").replicas(2).check().unwrap())).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::MustReplace);
    let job = Workload::job(place.namespace.as_str(), "web");
    let job = place.fated(job, done(1, 0), "1").check().unwrap();
    assert_eq!(*place.scheduler.launch(Launch::new(job)).await.unwrap_err().kind(), ErrorKind::MustReplace);
}

#[tokio::test]
async fn history_is_what_was_launched_and_marks_are_tags() {
    let place = Place::new().await;
    let first = place.launch(place.service("1")).await.revision;
    place.verdict("web", Verdict::Healthy).await;
    let second = place.launch(place.service("2")).await.revision;
    place.verdict("web", Verdict::Healthy).await;
    place.scheduler.scale(Scale::new(place.target("web"), 2)).await.unwrap();
    let before = place.verdict("web", Verdict::Healthy).await;
    let history = place.scheduler.history(History::new(place.target("web"))).await.unwrap().entries;
    let told: Vec<_> = history.iter().map(|e| (&e.revision, e.current, e.healthy)).collect();
    assert_eq!(told, [(&second, true, false), (&first, false, false)]);
    assert!(history[0].launched > history[1].launched);
    // A scale is no launch.
    assert!(history[0].launched < before.changed.unwrap());
    let mark = |revision| place.scheduler.mark_healthy(MarkHealthy::new(place.target("web"), revision));
    assert_eq!(mark(first.clone()).await.unwrap(), MarkedHealthy::Now);
    assert_eq!(mark(first.clone()).await.unwrap(), MarkedHealthy::Already);
    assert_eq!(place.seen("web").await.unwrap().version, before.version);
    let rolled = place.scheduler.rollback(&place.target("web"), &RollbackTo::LastHealthy).await.unwrap();
    assert_eq!(rolled.revision, first);
    assert_eq!(place.verdict("web", Verdict::Healthy).await.counts.desired, 2);
    let history = place.scheduler.history(History::new(place.target("web"))).await.unwrap().entries;
    let told: Vec<_> = history.iter().map(|e| (&e.revision, e.current, e.healthy)).collect();
    assert_eq!(told, [(&first, true, true), (&second, false, false)]);
    let unknown = place.service("9").check().unwrap().revision().clone();
    assert_eq!(*mark(unknown).await.unwrap_err().kind(), ErrorKind::Precondition);
}

#[tokio::test]
async fn a_plan_writes_nothing_and_binds_a_launch() {
    let place = Place::new().await;
    let plan = |workload: Workload| place.scheduler.plan(Plan::new(workload.check().unwrap()));
    let bound = |workload: Workload, token| {
        place.scheduler.launch(Launch::new(workload.check().unwrap()).guard(Guard::IfPlan(token)))
    };
    let create = plan(place.service("1")).await.unwrap();
    assert_eq!(create.change, Change::Created);
    assert_eq!(place.left().await, BTreeSet::new());
    assert_eq!(bound(place.service("1"), create.token.clone()).await.unwrap().change, Change::Created);
    let stale = bound(place.service("1"), create.token).await.unwrap_err();
    assert!(matches!(stale.kind(), ErrorKind::Conflict(Conflict::Moved { .. })), "{stale}");
    let before = place.verdict("web", Verdict::Healthy).await;
    assert_eq!(plan(place.service("1")).await.unwrap().change, Change::Unchanged);
    let secret = |tag| {
        let mut service = place.service(tag);
        service.containers[0] = service.containers[0].clone().env("PASSWORD", "hunter2");
        service
    };
    let update = plan(secret("2")).await.unwrap();
    assert_eq!(update.change, Change::Updated(Effect::Rolling));
    let shown = format!("{update:?}");
    assert!(shown.contains("PASSWORD") && !shown.contains("hunter2"), "{shown}");
    assert_eq!(place.seen("web").await.unwrap().version, before.version);
    let other = bound(place.service("3"), update.token.clone()).await.unwrap_err();
    assert_eq!(*other.kind(), ErrorKind::InvalidArgument);
    assert_eq!(bound(secret("2"), update.token).await.unwrap().change, Change::Updated(Effect::Rolling));
    let replaced = place.fated(Workload::job(place.namespace.as_str(), "web"), done(1, 0), "1");
    assert_eq!(plan(replaced).await.unwrap().change, Change::Updated(Effect::Replaced));
}

fn put(place: &Place, value: &str) -> PutConfig {
    PutConfig::new(place.target("web"), "app").entry("A", value).entry("b.conf", "x = 1")
}

#[tokio::test]
async fn configurations_are_kept_pruned_and_taken_along() {
    let place = Place::new().await;
    let stored = place.scheduler.put_config(put(&place, "0")).await.unwrap();
    assert!(stored.created);
    assert!(!place.scheduler.put_config(put(&place, "0")).await.unwrap().created);
    let mut web = place.service("1").replicas(0);
    web.containers[0] = web.containers[0].clone().env_from("A", EnvValue::Config(stored.entry("A")));
    place.launch(web).await;
    for n in 1..=12 {
        assert!(place.scheduler.put_config(put(&place, &n.to_string())).await.unwrap().created);
    }
    let variable = Query::variable(&place.namespace, "nomad/jobs/web");
    let items = place.client.query(&variable).await.unwrap().value.unwrap().items;
    let versions: BTreeSet<&str> =
        items.keys().filter_map(|key| key.strip_prefix("app.")).filter(|v| !v.contains('.')).collect();
    assert_eq!(versions.len(), 11, "{versions:?}");
    assert!(versions.contains(stored.config.version.as_str()), "what a revision refers to was pruned");
    assert!(!versions.contains(put(&place, "1").version().as_str()));
    let full = put(&place, &"x".repeat(60_000));
    let error = place.scheduler.put_config(full.clone().entry("C", "y".repeat(5_000))).await.unwrap_err();
    assert_eq!((error.kind(), error.causes()[0].path.as_str()), (&ErrorKind::InvalidArgument, "entries"));
    let other = NomadScheduler::new(place.client.clone(), OwnerId::new("other").unwrap());
    let theirs = other.put_config(put(&place, "0")).await.unwrap_err();
    assert!(matches!(theirs.kind(), ErrorKind::Conflict(Conflict::Owner { .. })), "{theirs}");
    place.delete("web").await;
    assert_eq!(place.left().await, BTreeSet::new());
    // Also where there is nothing else.
    place.scheduler.put_config(put(&place, "0")).await.unwrap();
    assert_eq!(place.scheduler.delete(Delete::new(place.target("web"))).await.unwrap(), Deleted::Gone);
    assert_eq!(place.scheduler.delete(Delete::new(place.target("web"))).await.unwrap(), Deleted::WasAbsent);
    let nowhere = PutConfig::new(Target::new("no-such-namespace", "web").unwrap(), "app").entry("A", "1");
    let error = place.scheduler.put_config(nowhere).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotFound(_)), "{error}");
}

#[tokio::test]
async fn a_configuration_that_is_missing_holds_up_and_says_so() {
    let place = Place::new().await;
    let absent = scheduler_core::ConfigEntry::new("app", put(&place, "1").version(), "A");
    let mut web = place.service("1");
    web.containers[0] = web.containers[0].clone().env_from("A", EnvValue::Config(absent));
    place.launch(web).await;
    let missing = |seen: &Observation| seen.diagnoses.iter().any(|d| d.kind == DiagnosisKind::ConfigMissing);
    place.settle("web", "waiting for its configuration", missing).await;
    // Another version is there, and not this one.
    place.scheduler.put_config(put(&place, "2")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(place.seen("web").await.unwrap().counts.ready, 0);
    place.scheduler.put_config(put(&place, "1")).await.unwrap();
    place.verdict("web", Verdict::Healthy).await;
}

#[tokio::test]
async fn a_volume_is_the_files_of_its_configuration() {
    let place = Place::new().await;
    let config = place.scheduler.put_config(put(&place, "1")).await.unwrap().config;
    let mounted = |config: ConfigRef| {
        let mut web = place.service("1").volume("conf", VolumeSource::Config(config));
        web.containers[0] = web.containers[0].clone().mount_read_only("conf", "/etc/app");
        web
    };
    place.launch(mounted(config.clone())).await;
    let seen = place.verdict("web", Verdict::Healthy).await;
    assert!(seen.revision.is_some(), "the files are taken for somebody else's doing");
    assert_eq!(place.launch(mounted(config)).await.change, Change::Unchanged);
    let job = place.client.query(&Query::job(&place.namespace, "web")).await.unwrap().value.unwrap();
    let files: BTreeSet<&str> =
        job.task_groups[0].tasks[0].templates.iter().map(|template| template.dest_path.as_str()).collect();
    assert_eq!(files, BTreeSet::from(["secrets/config/conf/A", "secrets/config/conf/b.conf"]));
}

#[tokio::test]
async fn a_run_has_the_configurations_of_its_workload() {
    let place = Place::new().await;
    let target = place.target("work");
    let stored = place.scheduler.put_config(PutConfig::new(target, "app").entry("A", "1")).await.unwrap();
    let mut job = place.job(done(1, 0));
    job.containers[0] = job.containers[0].clone().env_from("A", EnvValue::Config(stored.entry("A")));
    let run = place.scheduler.run(Run::one_off(job.check().unwrap(), key("a"))).await.unwrap().run;
    let name = run.target().name.as_str();
    place.verdict(name, Verdict::Complete).await;
    place.delete(name).await;
    assert_eq!(place.left().await, BTreeSet::from(["nomad/jobs/work".to_owned()]));
}

#[tokio::test]
async fn routes_are_tags_that_a_launch_leaves() {
    let place = Place::new().await;
    let target = place.target("web");
    let host = format!("{}.example", place.namespace);
    place.launch(place.service("1").replicas(0)).await;
    let expose = |routes: Vec<Route>| place.scheduler.expose(Expose::new(place.target("web"), routes));
    assert!(expose(vec![Route::new(&*host, "http")]).await.unwrap().changed);
    assert!(!expose(vec![Route::new(&*host, "http")]).await.unwrap().changed);
    assert_eq!(place.launch(place.service("1").replicas(0)).await.change, Change::Unchanged);
    assert!(place.seen("web").await.unwrap().revision.is_some());
    place.launch(place.service("2").replicas(0)).await;
    let tags = || async {
        let job = place.client.query(&Query::job(&place.namespace, "web")).await.unwrap().value.unwrap();
        job.task_groups[0].services[0].tags.clone()
    };
    assert!(tags().await.contains(&format!("scheduler.route={host}")), "{:?}", tags().await);
    // Another workload cannot have it, but another path.
    let mut other = Workload::service(place.namespace.as_str(), "api").replicas(0);
    other = place.fated(other, Fate::Run, "1");
    other.containers[0] = other.containers[0].clone().port("http", 8080);
    place.launch(other).await;
    let steal = Expose::new(place.target("api"), [Route::new(&*host, "http")]);
    let taken = place.scheduler.expose(steal).await.unwrap_err();
    let by = target.to_string();
    assert_eq!(*taken.kind(), ErrorKind::Conflict(Conflict::RouteTaken { by }));
    let beside = Expose::new(place.target("api"), [Route::new(&*host, "http").path("/api")]);
    assert!(place.scheduler.expose(beside).await.unwrap().changed);
    let none = expose(vec![Route::new(&*host, "nope")]).await.unwrap_err();
    assert_eq!(none.causes()[0].path, "routes[0].backends[0].port");
    let unexpose = || place.scheduler.unexpose(Unexpose::new(place.target("web")));
    assert_eq!(unexpose().await.unwrap(), Unexposed::Gone);
    assert_eq!(unexpose().await.unwrap(), Unexposed::WasAbsent);
    assert_eq!(tags().await, Vec::<String>::new());
    let gone = Expose::new(place.target("nobody"), [Route::new(&*host, "http")]);
    assert_eq!(*place.scheduler.expose(gone).await.unwrap_err().kind(), ErrorKind::Conflict(Conflict::Absent));
}

/// One registration of each job, one evaluation for each, and no instance is replaced.
#[tokio::test]
async fn routes_move_by_one_registration_of_each_job() {
    let place = Place::new().await;
    let hosts = ["a", "b"].map(|part| format!("{part}.{}.example", place.namespace));
    let mut next = place.service("2");
    next.name = "next".into();
    place.launch(place.service("1")).await;
    place.launch(next).await;
    let (old, new) = (place.verdict("web", Verdict::Healthy).await, place.verdict("next", Verdict::Healthy).await);
    let routes = hosts.each_ref().map(|host| Route::new(&**host, "http"));
    place.scheduler.expose(Expose::new(place.target("web"), routes.clone())).await.unwrap();
    let facts = async |name: &str| {
        let job = place.client.query(&Query::job(&place.namespace, name)).await.unwrap().value.unwrap();
        let evaluations = place.client.query(&Query::job_evaluations(&place.namespace, name)).await.unwrap().value;
        let registered = evaluations.iter().filter(|evaluation| evaluation.triggered_by == "job-register").count();
        let tags = &job.task_groups[0].services[0].tags;
        let claims: Vec<_> =
            tags.iter().filter_map(|tag| tag.strip_prefix("scheduler.route=")).map(str::to_owned).collect();
        (job.version, registered, claims)
    };
    let [before, before_new] = [facts("web").await, facts("next").await];
    assert_eq!((&before.2, &before_new.2), (&hosts.to_vec(), &vec![]));
    let moves = || Expose::new(place.target("next"), [routes[0].clone()]).taking_from(place.target("web"));
    assert_eq!(place.scheduler.expose(moves()).await.unwrap().taken, routes[..1]);
    assert!(!place.scheduler.expose(moves()).await.unwrap().changed);
    assert_eq!(facts("web").await, (before.0 + 1, before.1 + 1, vec![hosts[1].clone()]));
    assert_eq!(facts("next").await, (before_new.0 + 1, before_new.1 + 1, vec![hosts[0].clone()]));
    for (name, before) in [("web", old), ("next", new)] {
        let now = place.verdict(name, Verdict::Healthy).await;
        let ids = |seen: &Observation| seen.instances.iter().map(|i| i.id.clone()).collect::<BTreeSet<_>>();
        assert_eq!((ids(&now), now.revision), (ids(&before), before.revision), "{name}");
    }
}

#[tokio::test]
async fn endpoints_are_the_ports_of_what_is_ready() {
    let place = Place::new().await;
    let ask = || place.scheduler.endpoints(Endpoints::new(place.target("web")));
    assert_eq!(ask().await.unwrap().endpoints, []);
    place.launch(place.service("1").replicas(2)).await;
    let seen = place.verdict("web", Verdict::Healthy).await;
    let endpoints = ask().await.unwrap().endpoints;
    let ids: BTreeSet<&str> = endpoints.iter().map(|endpoint| endpoint.instance.as_str()).collect();
    assert_eq!(ids, seen.instances.iter().map(|instance| instance.id.as_str()).collect());
    assert!(
        endpoints.iter().all(|endpoint| endpoint.port == "http" && endpoint.number > 0 && !endpoint.address.is_empty())
    );
    let other = Endpoints::new(place.target("web")).port("admin");
    assert_eq!(place.scheduler.endpoints(other).await.unwrap().endpoints, []);
}

#[tokio::test]
async fn namespaces_of_ours_go_when_they_are_empty() {
    let place = Place::new().await;
    let name = scheduler_core::Namespace::new(format!("{}-made", place.namespace)).unwrap();
    let ensure = || place.scheduler.ensure_namespace(EnsureNamespace::new(name.clone()));
    let delete = || place.scheduler.delete_namespace(DeleteNamespace::new(name.clone()));
    assert_eq!(delete().await.unwrap(), NamespaceDeleted::WasAbsent);
    assert_eq!(ensure().await.unwrap(), NamespaceEnsured::Created);
    assert_eq!(ensure().await.unwrap(), NamespaceEnsured::Exists { owned: true });
    let mut web = place.service("1").replicas(0);
    web.namespace = name.to_string();
    place.launch(web).await;
    let full = delete().await.unwrap_err();
    assert_eq!(*full.kind(), ErrorKind::Precondition);
    assert!(full.to_string().contains("web"), "{full}");
    let target = Target::new(name.as_str(), "web").unwrap();
    while place.scheduler.delete(Delete::new(target.clone())).await.unwrap() != Deleted::Gone {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(delete().await.unwrap(), NamespaceDeleted::Gone);
    let foreign = scheduler_core::Namespace::new(place.namespace.as_str()).unwrap();
    let ensured = place.scheduler.ensure_namespace(EnsureNamespace::new(foreign.clone())).await.unwrap();
    assert_eq!(ensured, NamespaceEnsured::Exists { owned: false });
    let theirs = place.scheduler.delete_namespace(DeleteNamespace::new(foreign)).await.unwrap_err();
    assert_eq!(*theirs.kind(), ErrorKind::Conflict(Conflict::Owner { owner: None }));
}

fn text(item: &LogItem) -> &str {
    match item {
        LogItem::Line(line) => &line.text,
        _ => panic!("{item:?}"),
    }
}

fn texts(items: &[LogItem]) -> Vec<&str> {
    items.iter().map(text).collect()
}

#[tokio::test]
async fn logs_are_what_was_written_and_end_with_the_job() {
    let place = Place::new().await;
    place.launch(place.job(done(2, 0))).await;
    // Followed from before it starts, over its end.
    let follow = place.scheduler.logs(Logs::new(place.target("work")).follow());
    let followed = tokio::time::timeout(LONG, follow.collect::<Vec<_>>()).await.unwrap();
    let followed: Vec<LogItem> = followed.into_iter().map(Result::unwrap).collect();
    let lines = texts(&followed);
    assert_eq!(lines[..2], ["start 0", "tick 0"], "{lines:?}");
    assert_eq!(lines.last(), Some(&"end"));
    assert_eq!(lines.iter().filter(|line| line.starts_with("tick")).count(), lines.len() - 2);
    let read = |op: Logs| place.scheduler.logs(op).map(Result::unwrap).collect::<Vec<_>>();
    let all = read(Logs::new(place.target("work"))).await;
    assert_eq!(texts(&all), lines);
    assert_eq!(texts(&read(Logs::new(place.target("work")).tail(1)).await), ["end"]);
    assert_eq!(read(Logs::new(place.target("nobody"))).await, []);
    let unknown = place.scheduler.logs(Logs::new(place.target("work")).instance("no-such")).next().await.unwrap();
    assert!(matches!(unknown.unwrap_err().kind(), ErrorKind::NotFound(_)));
    let strange = place.scheduler.logs(Logs::new(place.target("work")).container("no-such")).next().await.unwrap();
    assert_eq!(*strange.unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn a_follower_goes_on_to_instances_that_come_later_and_ends_with_the_workload() {
    let place = Place::new().await;
    place.launch(place.service("1")).await;
    let first = place.verdict("web", Verdict::Healthy).await.instances[0].id.clone();
    let mut follow = place.scheduler.logs(Logs::new(place.target("web")).follow());
    let mut until = async |wanted: &dyn Fn(&scheduler_core::LogLine) -> bool| loop {
        let item = tokio::time::timeout(LONG, follow.next()).await.expect("no line comes");
        match item {
            Some(Ok(LogItem::Line(line))) if wanted(&line) => return true,
            Some(item) => drop(item.unwrap()),
            None => return false,
        }
    };
    assert!(until(&|line| line.instance == first && line.text == "tick 3").await);
    place.scheduler.restart(&place.target("web")).await.unwrap();
    assert!(until(&|line| line.instance != first && line.text == "tick 1").await);
    place.delete("web").await;
    assert!(!until(&|_| false).await, "it goes on after the workload is gone");
}

/// A sidecar's lines are its own.
#[tokio::test]
async fn logs_are_of_one_container() {
    let place = Place::new().await;
    if place.play != Play::Images {
        return;
    }
    let side = Container::new("side", Fate::Run.image("1")).role(Role::Sidecar);
    place.launch(place.service("1").container(side)).await;
    place.verdict("web", Verdict::Healthy).await;
    let items: Vec<_> = place.scheduler.logs(Logs::new(place.target("web")).container("side")).collect().await;
    let items: Vec<LogItem> = items.into_iter().map(Result::unwrap).collect();
    assert!(
        items.iter().all(|item| matches!(item, LogItem::Line(line) if line.container == "side")) && !items.is_empty()
    );
}
