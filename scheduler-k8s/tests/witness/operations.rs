//! The other kinds and operations, seen by kubectl.

use futures_util::StreamExt as _;
use scheduler_core::{
    ConfigRef, Conflict, DeleteNamespace, Detail, DiagnosisKind, Endpoints, EnsureNamespace, Expose, Finished, History,
    InstanceState, Logs, MarkHealthy, Namespace, NamespaceDeleted, NamespaceEnsured, Observation, PerInstanceVolume,
    Plan, PutConfig, Rollout, RolloutAction, Route, Run, RunKey, Scale, Unexpose, Verdict, VolumeSource, Waiting,
};

use super::*;

pub(crate) fn job(world: &World, image: &str) -> Workload {
    Workload::job(&world.namespace, "web").container(Container::new("web", image)).termination_grace(1)
}

fn periodic(world: &World) -> Workload {
    // Once a year, so that nothing is due.
    let container = Container::new("web", "sim/done:1");
    Workload::periodic(&world.namespace, "web", "0 0 1 1 *").container(container).termination_grace(1)
}

pub(crate) async fn seen(world: &World, target: &Target) -> Option<Box<Observation>> {
    world.scheduler.status(Status::new(target.clone(), Detail::Instances)).await.unwrap().0
}

pub(crate) async fn settle(
    world: &World,
    target: &Target,
    what: &str,
    holds: impl Fn(&Observation) -> bool + Send + Sync,
) -> Observation {
    let mut last = None;
    let found = async {
        loop {
            last = seen(world, target).await;
            if let Some(seen) = last.as_deref().filter(|seen| holds(seen)) {
                return seen.clone();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(60), found).await;
    found.unwrap_or_else(|_| panic!("{what}: {last:#?}"))
}

pub(crate) fn healthy(seen: &Observation) -> bool {
    seen.verdict() == Verdict::Healthy
}

fn ended(seen: &Observation) -> bool {
    seen.finished.is_some()
}

/// BR-07, BR-79.
pub(crate) async fn a_job_runs_to_its_end_and_cannot_become_another() {
    let world = World::new().await;
    let three = |image: &str| job(&world, image).with_job(|job| job.completions = 3);
    assert_eq!(world.launch(three("sim/done:1")).await.change, Change::Created);
    let done = settle(&world, &world.target(), "complete", ended).await;
    assert_eq!((done.verdict(), done.counts.succeeded, done.counts.live), (Verdict::Complete, 3, 0));
    let mut ordinals: Vec<_> =
        done.instances.iter().map(|i| (i.ordinal, i.state, i.exit.map(|exit| exit.code))).collect();
    ordinals.sort_by_key(|(ordinal, ..)| *ordinal);
    assert_eq!(ordinals, [0, 1, 2].map(|at| (Some(at), InstanceState::Ended, Some(0))));

    let before = world.get("job").await;
    assert_eq!(before["status"]["completedIndexes"], "0-2");
    assert_eq!(world.launch(three("sim/done:1")).await.change, Change::Unchanged);
    let refused = world.try_launch(three("sim/done:2"), Guard::IfOwned).await.unwrap_err();
    assert_eq!(*refused.kind(), ErrorKind::MustReplace);
    let service = world.try_launch(world.workload(), Guard::IfOwned).await.unwrap_err();
    assert_eq!(*service.kind(), ErrorKind::MustReplace);
    assert_eq!(world.get("job").await["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
    world.delete_whole().await;
    assert_eq!(world.ours().await, [""; 0]);
}

/// BR-81, BR-132: what did not end well has no exit code of zero, and says how it ended.
pub(crate) async fn a_job_that_fails_tells_why() {
    for (image, deadline, kind, code, signal) in [
        ("sim/done/exit-3:1", None, DiagnosisKind::Exited, Some(3), None),
        ("sim/crash/signal-15:1", None, DiagnosisKind::Exited, Some(143), Some(15)),
        ("sim/oom:1", None, DiagnosisKind::OutOfMemory, Some(137), Some(9)),
        ("sim/run:1", Some(2), DiagnosisKind::JobDeadline, None, None),
    ] {
        let world = World::new().await;
        world
            .launch(job(&world, image).with_job(|job| job.deadline = deadline.map(scheduler_core::Seconds::new)))
            .await;
        let failed = settle(&world, &world.target(), image, ended).await;
        assert_eq!((failed.finished, failed.verdict()), (Some(Finished::Failed), Verdict::Failed));
        let [diagnosis] = failed.diagnoses.as_slice() else { panic!("{image}: {:#?}", failed.diagnoses) };
        let evidence = &diagnosis.evidence;
        assert_eq!((diagnosis.kind, evidence.exit_code, evidence.signal), (kind, code, signal), "{image}");
    }
}

/// Two at once, one after the end, and one under another owner.
pub(crate) async fn two_runs_of_one_key_are_one_job() {
    let world = World::new().await;
    let work = job(&world, "sim/done:1").check().unwrap();
    let run = Run::one_off(work, RunKey::new("release 7").unwrap());
    let (one, other) = tokio::join!(world.scheduler.run(run.clone()), world.scheduler.run(run.clone()));
    let (one, other) = (one.unwrap(), other.unwrap());
    assert!(one.created != other.created && one.run == other.run, "{one:?} {other:?}");
    settle(&world, one.run.target(), "complete", |seen| seen.verdict() == Verdict::Complete).await;
    assert!(!world.scheduler.run(run.clone()).await.unwrap().created);
    assert_eq!(world.kubectl(&["get", "jobs", "--output", "name"]).await.lines().count(), 1);

    let client = Client::new(world.testbed.client(User::Admin).unwrap());
    let stranger = KubernetesScheduler::new(client, owner("stranger"));
    let refused = stranger.run(run).await.unwrap_err();
    assert_eq!(*refused.kind(), ErrorKind::Conflict(Conflict::Owner { owner: Some(owner("platform")) }));
}

/// BR-75: it has the controller reference by which the limits of history count it.
pub(crate) async fn a_run_by_hand_goes_with_its_cron_job() {
    let world = World::new().await;
    world.launch(periodic(&world)).await;
    let idle = seen(&world, &world.target()).await.unwrap();
    assert_eq!((idle.verdict(), idle.counts.desired), (Verdict::Idle, 0));

    let run = world.scheduler.run(Run::now(world.target(), RunKey::new("k").unwrap())).await.unwrap();
    // As the schedule makes one.
    world.kubectl(&["create", "job", "--from=cronjob/web", "web-scheduled"]).await;
    let done = settle(&world, run.run.target(), "complete", ended).await;
    assert_eq!(done.run_of, Some(world.target().name));
    let both = |seen: &Observation| seen.instances.iter().filter(|instance| instance.exit.is_some()).count() == 2;
    let all = settle(&world, &world.target(), "both runs are shown and over", |seen| {
        both(seen) && seen.schedule.is_some_and(|schedule| schedule.active == 0)
    })
    .await;
    assert_eq!(all.counts.live, 0);
    let listed = world.scheduler.list(scheduler_core::List::default()).await.unwrap().workloads;
    let names: Vec<_> = listed
        .iter()
        .filter(|seen| seen.target.namespace.as_str() == world.namespace)
        .map(|seen| seen.target.name.as_str())
        .collect();
    assert_eq!(names, ["web", run.run.target().name.as_str()], "what the schedule made is no workload");
    let owner = world.kubectl(&["get", "job", run.run.target().name.as_str(), "--output", "json"]).await;
    let owner: Value = serde_json::from_str(&owner).unwrap();
    assert_eq!(owner["metadata"]["ownerReferences"][0]["controller"], true);

    world.delete_whole().await;
    assert_eq!(world.ours().await, [""; 0]);
    assert_eq!(world.kubectl(&["get", "jobs,pods", "--output", "name"]).await, "");
}

/// BR-39 as well: nothing is orphaned.
pub(crate) async fn stable_identities_keep_their_volumes() {
    let world = World::new().await;
    let web = |image: &str| {
        let container = Container::new("web", image).port("http", 8080).mount("data", "/data");
        let volume = VolumeSource::PerInstance(PerInstanceVolume::new("1Gi"));
        Workload::service(&world.namespace, "web").container(container).volume("data", volume).termination_grace(1)
    };
    let stable = |image: &str| web(image).stable().replicas(2);
    world.launch(stable("sim/run:1")).await;
    let first = settle(&world, &world.target(), "healthy", healthy).await;
    let mut ordinals: Vec<_> = first.instances.iter().map(|instance| instance.ordinal).collect();
    ordinals.sort();
    assert_eq!(ordinals, [Some(0), Some(1)]);
    assert_eq!(world.launch(stable("sim/run:1")).await.change, Change::Unchanged);

    assert_eq!(world.launch(stable("sim/run:2")).await.change, Change::Updated(Effect::Rolling));
    let second = settle(&world, &world.target(), "healthy anew", |seen| {
        healthy(seen) && seen.instances.iter().all(|new| first.instances.iter().all(|old| old.id != new.id))
    })
    .await;
    assert_eq!(second.counts.live, 2, "the names are the same, and the ids are not");
    let mut without = stable("sim/run:2");
    without.volumes.clear();
    without.containers[0].mounts.clear();
    let mut interchangeable = without.clone().replicas(2);
    if let scheduler_core::Kind::Service(service) = &mut interchangeable.kind {
        service.identities = scheduler_core::Identities::Interchangeable;
    }
    let more = stable("sim/run:2").volume("more", VolumeSource::PerInstance(PerInstanceVolume::new("1Gi")));
    for other in [without, interchangeable, more] {
        let refused = world.try_launch(other, Guard::IfOwned).await.unwrap_err();
        assert_eq!(*refused.kind(), ErrorKind::MustReplace);
    }
    world.scheduler.scale(Scale::new(world.target(), 1)).await.unwrap();
    settle(&world, &world.target(), "one", |seen| healthy(seen) && seen.counts.live == 1).await;
    world.delete_whole().await;
    assert_eq!(world.ours().await, [""; 0]);
    let claims = world.kubectl(&["get", "persistentvolumeclaims", "--output", "name"]).await;
    assert_eq!(claims.lines().count(), 2, "{claims}");
}

/// BR-39: Pods that were left alone are taken by the next delete.
pub(crate) async fn an_orphaned_stateful_set_is_taken_whole() {
    let world = World::new().await;
    world.launch(world.workload().stable().replicas(2)).await;
    settle(&world, &world.target(), "healthy", healthy).await;
    world.kubectl(&["delete", "statefulset", "web", "--cascade=orphan"]).await;
    assert!(seen(&world, &world.target()).await.is_none());
    let deleted = world.scheduler.delete(Delete::new(world.target())).await.unwrap();
    let Deleted::Deleting { remaining, .. } = deleted else { panic!("{deleted:?}") };
    assert_eq!(remaining.iter().filter(|name| name.starts_with("Pod/")).count(), 2, "{remaining:?}");
    world.delete_whole().await;
    assert_eq!(world.ours().await, [""; 0]);
}

/// BR-53, BR-57.
pub(crate) async fn a_count_that_an_autoscaler_holds_is_left_alone() {
    let world = World::new().await;
    world.launch(world.workload()).await;
    world.rolled_out().await;
    let before = world.get("deployment").await;
    let scaled = world.scheduler.scale(Scale::new(world.target(), 2)).await.unwrap();
    let after = world.get("deployment").await;
    assert_eq!((scaled.from, scaled.to, &after["spec"]["replicas"]), (1, 2, &json!(2)));
    assert_eq!(after["spec"]["template"], before["spec"]["template"]);
    world.kubectl(&["autoscale", "deployment/web", "--min=2", "--max=4"]).await;
    let held = world.scheduler.scale(Scale::new(world.target(), 0)).await.unwrap_err();
    assert_eq!(*held.kind(), ErrorKind::Conflict(Conflict::Owner { owner: None }));
    assert!(held.message().contains("HorizontalPodAutoscaler web"), "{held}");
    assert_eq!(world.get("deployment").await["spec"]["replicas"], 2);
}

/// BR-13: while the controller has not counted, zero is not all.
pub(crate) async fn a_system_runs_on_each_node() {
    let world = World::new().await;
    let system = |image: &str| {
        Workload::system(&world.namespace, "web").container(Container::new("web", image)).termination_grace(1)
    };
    world.launch(system("sim/run:1")).await;
    let nodes = world.kubectl(&["get", "nodes", "--output", "name"]).await.lines().count();
    let first = settle(&world, &world.target(), "healthy", healthy).await;
    assert_eq!(first.counts.desired as usize, nodes);
    assert_eq!(world.launch(system("sim/run:1")).await.change, Change::Unchanged);
    world.launch(system("sim/run:2")).await;
    let second = settle(&world, &world.target(), "healthy anew", |seen| {
        healthy(seen) && seen.instances.iter().all(|new| first.instances.iter().all(|old| old.id != new.id))
    })
    .await;
    // Back to a template that the controller has a revision of.
    world.launch(system("sim/run:1")).await;
    settle(&world, &world.target(), "healthy again", |seen| {
        healthy(seen) && seen.instances.iter().all(|new| second.instances.iter().all(|old| old.id != new.id))
    })
    .await;
    world.scheduler.rollout(Rollout::new(world.target(), RolloutAction::Restart)).await.unwrap();
    assert_eq!(world.launch(system("sim/run:1")).await.change, Change::Unchanged);
    world.delete_whole().await;
    assert_eq!(world.ours().await, [""; 0]);
}

/// BR-63: what a kept revision refers to stays.
pub(crate) async fn configurations_are_immutable_and_pruned() {
    let world = World::new().await;
    let put = |value: String| PutConfig::new(world.target(), "app").entry("KEY", value);
    let first = world.scheduler.put_config(put("0".into())).await.unwrap();
    assert!(first.created && !world.scheduler.put_config(put("0".into())).await.unwrap().created);
    let mut web = world.workload().volume("app", VolumeSource::Config(first.config.clone()));
    web.containers[0] = web.containers[0].clone().mount_read_only("app", "/etc/app");
    world.launch(web).await;
    settle(&world, &world.target(), "healthy", healthy).await;

    for n in 1..12 {
        assert!(world.scheduler.put_config(put(n.to_string())).await.unwrap().created);
    }
    let text = world.kubectl(&["get", "secrets", "--output", "json"]).await;
    let secrets: Value = serde_json::from_str(&text).unwrap();
    let secrets = secrets["items"].as_array().unwrap();
    let mut kept: Vec<_> = secrets.iter().map(|secret| secret["metadata"]["name"].as_str().unwrap()).collect();
    kept.sort_unstable();
    let name = |config: &ConfigRef| format!("web.{}.{}", config.name, config.version);
    let mut expected: Vec<_> = (2..12).map(|n| put(n.to_string()).version()).map(|v| format!("web.app.{v}")).collect();
    expected.push(name(&first.config));
    expected.sort_unstable();
    assert_eq!(kept, expected, "the ten newest, and the one in use");
    assert!(secrets.iter().all(|secret| secret["immutable"] == true));
    let used = secrets.iter().find(|secret| secret["metadata"]["name"] == name(&first.config)).unwrap();
    assert_eq!(used["data"]["KEY"], "MA==");
    world.delete_whole().await;
    assert_eq!(world.ours().await, [""; 0]);
}

/// BR-107, BR-109.
pub(crate) async fn a_namespace_is_ours_or_left_alone() {
    let world = World::new().await;
    let foreign = Namespace::new(&world.namespace).unwrap();
    let ensured = world.scheduler.ensure_namespace(EnsureNamespace::new(foreign.clone())).await.unwrap();
    assert_eq!(ensured, NamespaceEnsured::Exists { owned: false });
    let refused = world.scheduler.delete_namespace(DeleteNamespace::new(foreign)).await.unwrap_err();
    assert_eq!(*refused.kind(), ErrorKind::Conflict(Conflict::Owner { owner: None }));

    let name = format!("{}-own", world.namespace);
    let own = Namespace::new(&name).unwrap();
    let ensure = || world.scheduler.ensure_namespace(EnsureNamespace::new(own.clone()));
    assert_eq!(ensure().await.unwrap(), NamespaceEnsured::Created);
    assert_eq!(ensure().await.unwrap(), NamespaceEnsured::Exists { owned: true });
    let client = Client::new(world.testbed.client(User::ReadOnly).unwrap());
    let reader = KubernetesScheduler::new(client, owner("platform"));
    let read = reader.ensure_namespace(EnsureNamespace::new(own.clone())).await.unwrap();
    assert_eq!(read, NamespaceEnsured::Exists { owned: true }, "who may not make one can use it");

    world.kubectl(&["--namespace", &name, "create", "deployment", "theirs", "--image=sim/run:1"]).await;
    let delete = || world.scheduler.delete_namespace(DeleteNamespace::new(own.clone()));
    let held = delete().await.unwrap_err();
    assert_eq!(*held.kind(), ErrorKind::Precondition);
    assert!(held.message().contains("Deployment/theirs"), "{held}");
    world.kubectl(&["--namespace", &name, "delete", "deployment", "theirs", "--cascade=foreground"]).await;
    assert!(matches!(delete().await.unwrap(), NamespaceDeleted::Deleting { .. } | NamespaceDeleted::Gone));
    match ensure().await {
        Err(error) => assert_eq!(*error.kind(), ErrorKind::Conflict(Conflict::Deleting)),
        Ok(ensured) => assert_eq!(ensured, NamespaceEnsured::Created, "it was gone already"),
    }
}

/// A DaemonSet's controller takes ControllerRevisions that its selector finds, and forgets them by its own rule. BR-61 too.
pub(crate) async fn the_history_of_a_daemon_is_not_its_controller_s() {
    let world = World::new().await;
    let system = |image: &str| {
        let container = Container::new("web", image);
        Workload::system(&world.namespace, "web").container(container).termination_grace(1).check().unwrap()
    };
    let mut revisions = Vec::new();
    for n in 1..=5 {
        let launched = world.scheduler.launch(Launch::new(system(&format!("sim/run:{n}")))).await.unwrap();
        revisions.push(launched.revision);
    }
    let marked = world.scheduler.mark_healthy(MarkHealthy::new(world.target(), revisions[1].clone())).await.unwrap();
    assert_eq!(marked, scheduler_core::MarkedHealthy::Now);
    world.scheduler.launch(Launch::new(system("sim/run:2"))).await.unwrap();
    settle(&world, &world.target(), "healthy", healthy).await;
    let history = world.scheduler.history(History::new(world.target())).await.unwrap();
    let found: Vec<_> = history.entries.iter().map(|entry| (&entry.revision, entry.current, entry.healthy)).collect();
    let expected = [(1, true, true), (4, false, false), (3, false, false), (2, false, false), (0, false, false)];
    assert_eq!(found, expected.map(|(at, current, healthy)| (&revisions[at], current, healthy)));
    assert_eq!(*history.entries[0].workload, system("sim/run:2"));
}

/// BR-98 as well: no value is told.
pub(crate) async fn a_plan_writes_nothing() {
    let world = World::new().await;
    let plan = |workload: Workload| world.scheduler.plan(Plan::new(workload.check().unwrap()));
    let planned = plan(world.workload()).await.unwrap();
    assert_eq!(planned.change, Change::Created);
    assert_eq!(world.ours().await, [""; 0]);
    let launched = world.try_launch(world.workload(), Guard::IfPlan(planned.token.clone())).await.unwrap();
    assert_eq!((launched.change, &launched.objects), (Change::Created, &planned.objects));
    let moved = world.try_launch(world.workload(), Guard::IfPlan(planned.token)).await.unwrap_err();
    assert!(matches!(moved.kind(), ErrorKind::Conflict(Conflict::Moved { .. })), "{moved}");
    world.rolled_out().await;

    let before = world.resource_versions().await;
    assert_eq!(plan(world.workload()).await.unwrap().change, Change::Unchanged);
    let mut other = world.workload();
    other.containers[0] = other.containers[0].clone().env("B", "hunter2");
    let planned = plan(other.clone()).await.unwrap();
    assert_eq!(planned.change, Change::Updated(Effect::Rolling));
    let paths: Vec<_> = planned.fields.iter().map(|field| field.path.as_str()).collect();
    assert_eq!(
        paths,
        ["metadata.annotations.scheduler/revision", "spec.template.spec.containers[web].env[B]"],
        "{planned:?}"
    );
    assert!(!format!("{planned:?}").contains("hunter2"));
    assert_eq!(world.resource_versions().await, before);
    let another = world.try_launch(world.workload(), Guard::IfPlan(planned.token.clone())).await.unwrap_err();
    assert_eq!(*another.kind(), ErrorKind::InvalidArgument);
    let launched = world.try_launch(other, Guard::IfPlan(planned.token)).await.unwrap();
    assert_eq!((launched.change, launched.objects), (planned.change, planned.objects));
    let replaced = plan(job(&world, "sim/done:1")).await.unwrap();
    assert_eq!(replaced.change, Change::Updated(Effect::Replaced));
}

/// BR-25: and its clock stands.
pub(crate) async fn a_pause_by_somebody_else_ends_with_a_launch() {
    let world = World::new().await;
    world.launch(world.workload()).await;
    world.rolled_out().await;
    world.kubectl(&["rollout", "pause", "deployment/web"]).await;
    let paused =
        settle(&world, &world.target(), "paused", |seen| seen.verdict() == Verdict::Progressing(Waiting::Paused)).await;
    assert!(paused.revision.is_some(), "a pause is no other revision");
    assert_eq!(world.launch(world.workload()).await.change, Change::Unchanged);
    assert_eq!(world.get("deployment").await["spec"]["paused"], true);
    let mut other = world.workload();
    other.containers[0].image = "sim/run:2".into();
    world.launch(other).await;
    assert_eq!(world.get("deployment").await["spec"].get("paused"), None);
}

/// Each request of each operation loses its answer in turn, or is refused; the repetition finds or completes what there is,
/// and nothing is there twice.
pub(crate) async fn what_was_cut_off_is_completed_by_repeating() {
    use scheduler_core::conformance::Injection;
    for fault in [Injection::LoseAnswer, Injection::Refuse] {
        let world = World::new().await;
        world.launch(world.workload()).await;
        world.rolled_out().await;
        let revision = world.scheduler.history(History::new(world.target())).await.unwrap().entries[0].revision.clone();
        let schedule = Target::new(&world.namespace, "nightly").unwrap();
        let mut nightly = periodic(&world);
        nightly.name = "nightly".into();
        world.launch(nightly).await;
        let key = || RunKey::new("k").unwrap();
        let work = job(&world, "sim/done:1").check().unwrap();
        let host = format!("{}.example", world.namespace);
        let s = &world.scheduler;
        type Operation<'a> = Box<dyn Fn() -> BoxFuture<'a, Result<(), Error>> + Send + Sync + 'a>;
        let operations: Vec<(&str, Operation<'_>)> = vec![
            ("scale", Box::new(|| Box::pin(async { s.scale(Scale::new(world.target(), 3)).await.map(drop) }))),
            (
                "mark",
                Box::new(|| {
                    let mark = MarkHealthy::new(world.target(), revision.clone());
                    Box::pin(async { s.mark_healthy(mark).await.map(drop) })
                }),
            ),
            ("run", Box::new(|| Box::pin(async { s.run(Run::one_off(work.clone(), key())).await.map(drop) }))),
            ("trigger", Box::new(|| Box::pin(async { s.run(Run::now(schedule.clone(), key())).await.map(drop) }))),
            (
                "put_config",
                Box::new(|| {
                    Box::pin(async {
                        s.put_config(PutConfig::new(world.target(), "app").entry("A", "1")).await.map(drop)
                    })
                }),
            ),
            (
                "expose",
                Box::new(|| {
                    Box::pin(async {
                        s.expose(Expose::new(world.target(), [Route::new(&host, "http")])).await.map(drop)
                    })
                }),
            ),
        ];
        for (name, operation) in &operations {
            for nth in 1..20 {
                world.faults.inject(nth, fault);
                let first = operation().await;
                let met = world.faults.injected();
                world.faults.inject(1_000, fault);
                let again = operation().await;
                assert!(again.is_ok(), "{name}, after request {nth} met {fault:?} ({first:?}): {again:?}");
                if !met {
                    break;
                }
            }
        }
        let count = async |what: &str| world.kubectl(&["get", what, "--output", "name"]).await.lines().count();
        assert_eq!([count("jobs").await, count("secrets").await, count("ingresses").await], [2, 1, 1], "{fault:?}");
        assert_eq!(world.get("deployment").await["spec"]["replicas"], 3);
        let history = world.scheduler.history(History::new(world.target())).await.unwrap();
        assert!(history.entries.iter().all(|entry| entry.healthy) && history.entries.len() == 1);
        // A delete that is cut off at each of its requests.
        for nth in 1..40 {
            world.faults.inject(nth, fault);
            let _ = world.scheduler.delete(Delete::new(world.target())).await;
            if !world.faults.injected() {
                break;
            }
        }
        world.faults.inject(1_000, fault);
        world.delete_whole().await;
        let left = world.kubectl(&["get", "secrets,ingresses,deployments,services", "--output", "name"]).await;
        assert_eq!(left, "", "{fault:?}");
    }
}

pub(crate) async fn operations_cost_what_is_documented() {
    let world = World::new().await;
    let cost = |what: &str, reads: usize, writes: usize| {
        let asked = world.faults.take_requests();
        let (read, written): (Vec<_>, Vec<_>) = asked.iter().partition(|request| request.starts_with("GET"));
        // A write that met a status update is decided and sent again.
        let times = written.len().checked_div(writes).unwrap_or(1);
        assert!((1..=5).contains(&times), "{what}: {asked:#?}");
        assert_eq!((read.len(), written.len()), (times * reads, times * writes), "{what}: {asked:#?}");
    };
    world.launch(world.workload()).await;
    cost("a first launch", 3 + 4, 3);
    world.rolled_out().await;
    world.scheduler.scale(Scale::new(world.target(), 2)).await.unwrap();
    cost("scale", 2, 1);
    world.rolled_out().await;
    world.scheduler.rollout(Rollout::new(world.target(), RolloutAction::Restart)).await.unwrap();
    cost("restart", 1, 1);
    world.rolled_out().await;
    let plan = Plan::new(world.workload().check().unwrap());
    world.scheduler.plan(plan).await.unwrap();
    cost("plan", 3, 1);
    let history = world.scheduler.history(History::new(world.target())).await.unwrap();
    cost("history", 2, 0);
    let revision = history.entries[0].revision.clone();
    world.scheduler.mark_healthy(MarkHealthy::new(world.target(), revision)).await.unwrap();
    cost("mark_healthy", 2, 1);
    let key = RunKey::new("k").unwrap();
    let run = Run::one_off(job(&world, "sim/done:1").check().unwrap(), key);
    world.scheduler.run(run.clone()).await.unwrap();
    cost("run", 0, 1);
    world.scheduler.run(run).await.unwrap();
    cost("the same run", 1, 1);
    world.scheduler.put_config(PutConfig::new(world.target(), "app").entry("A", "1")).await.unwrap();
    cost("put_config", 2, 1);
    let host = format!("{}.example", world.namespace);
    let expose = Expose::new(world.target(), [Route::new(&host, "http")]);
    world.scheduler.expose(expose).await.unwrap();
    cost("expose", 3, 1);
    let target = Target::new(&world.namespace, "next").unwrap();
    let mut next = world.workload();
    next.name = "next".into();
    world.launch(next).await;
    world.faults.take_requests();
    let moves = Expose::new(target, [Route::new(&host, "http")]).taking_from(world.target());
    world.scheduler.expose(moves.clone()).await.unwrap();
    cost("expose from another", 4, 2);
    world.scheduler.expose(moves).await.unwrap();
    cost("expose from another, again", 3, 0);
    world.scheduler.expose(Expose::new(world.target(), [Route::new(format!("b.{host}"), "http")])).await.unwrap();
    cost("expose again", 3, 1);
    world.scheduler.endpoints(Endpoints::new(world.target())).await.unwrap();
    cost("endpoints", 3, 0);
    world.scheduler.unexpose(Unexpose::new(world.target())).await.unwrap();
    cost("unexpose", 1, 1);
    let namespace = Namespace::new(&world.namespace).unwrap();
    world.scheduler.ensure_namespace(EnsureNamespace::new(namespace)).await.unwrap();
    cost("ensure_namespace", 1, 0);
    let instances = seen(&world, &world.target()).await.unwrap().instances;
    cost("status", 3, 0);
    assert!(world.scheduler.logs(Logs::new(world.target())).count().await > 0);
    cost("logs", 3 + instances.len(), 0);
    let stop = scheduler_core::OnInstance::new(world.target(), &instances[0].id, scheduler_core::InstanceAction::Stop);
    world.scheduler.instance(stop).await.unwrap();
    cost("instance", 3, 1);
}
