//! Making apps be as their models have them.

use std::sync::Arc;
use std::time::Duration;

use lifecycle_hooks::deliver::{HookSets, Recorded, Recorder};
use lifecycle_hooks::generic::{Pace, Reconciler};
use scheduler_core::hooks::{App, DriftKind, LifecycleHooks, Report, SecretRef};
use scheduler_core::{Delete, Launch, OwnerId, Replicas, Scheduler as _, SchedulerExt as _, WaitOptions};
use tokio::time::{Instant, sleep};

use crate::{World, bare, service, shop, target};

fn reconciler(world: &World, recorder: &Recorder) -> Reconciler {
    let set: Arc<dyn LifecycleHooks> = Arc::new(recorder.clone());
    Reconciler::new(world.hooks.clone(), HookSets::new(vec![set]).unwrap())
}

/// What was told of drift.
fn drifts(recorder: &Recorder) -> Vec<(String, DriftKind)> {
    let records = recorder.records().into_iter();
    let drift = records.filter_map(|record| match record {
        Recorded::Report(_, Report::Drifted(drift)) => Some((drift.target.name.to_string(), drift.kind)),
        _ => None,
    });
    drift.collect()
}

/// Another workload of the app, which its model does not have.
async fn surplus(world: &World, app: &App) {
    let mut old = service("old", "sim/run:1");
    old.namespace = app.namespace.to_string();
    old.marks = app.marks();
    world.scheduler.launch(Launch::new(old.check().unwrap())).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_as_it_should_be_is_not_written() {
    let (world, app) = (World::with(&shop()).await, shop());
    let before = world.cluster.objects(&app.namespace);
    let report = Reconciler::new(world.hooks.clone(), HookSets::default()).run([app.clone()]).await;
    assert!(report.is_in_sync(), "{report:?}");
    assert_eq!(world.cluster.objects(&app.namespace), before);
}

#[tokio::test(start_paused = true)]
async fn drift_is_told_and_repaired() {
    let (world, recorder, app) = (World::with(&shop()).await, Recorder::new("recorder"), shop());
    let expected = world.state(&app).await;
    world.scheduler.delete_and_wait(Delete::new(target("api")), &WaitOptions::default()).await.unwrap();
    assert!(world.cluster.set_image(&target("web"), "sim/run:other"));
    surplus(&world, &app).await;
    let reconciler = reconciler(&world, &recorder);
    let report = reconciler.run([app.clone()]).await;
    assert!(report.errors.is_empty() && report.apps[0].errors.is_empty(), "{report:?}");
    assert_eq!(drifts(&recorder), [("web".to_owned(), DriftKind::Changed), ("api".to_owned(), DriftKind::Missing)]);
    assert_eq!(report.apps[0].spared, [target("old")], "it is too young");

    sleep(Duration::from_secs(2 * 60 * 60)).await;
    recorder.clear();
    reconciler.run([app.clone()]).await;
    assert_eq!(drifts(&recorder), [("old".to_owned(), DriftKind::Surplus)]);
    assert_eq!(world.state(&app).await, expected);
    recorder.clear();
    reconciler.run([app]).await;
    assert_eq!(drifts(&recorder), []);
}

#[tokio::test(start_paused = true)]
async fn a_count_is_restored_if_the_model_holds_it_and_told_otherwise() {
    let mut app = shop();
    app.release.as_mut().unwrap().processes[1] =
        service("api", "sim/run:1").with_service(|of| of.replicas = Replicas::Keep(1));
    let (world, recorder) = (World::with(&app).await, Recorder::new("recorder"));
    assert!(world.cluster.set_replicas(&target("web"), 7) && world.cluster.set_replicas(&target("api"), 5));
    let report = reconciler(&world, &recorder).run([app.clone()]).await;
    assert_eq!(report.apps[0].held.iter().map(|held| (held.from, held.to)).collect::<Vec<_>>(), [(1, 5)]);
    let counts: Vec<_> =
        world.state(&app).await.1.iter().map(|line| line.rsplit_once(' ').unwrap().1.to_owned()).collect();
    assert_eq!(counts, ["5", "2"], "api and web");
}

#[tokio::test(start_paused = true)]
async fn one_app_that_cannot_be_repaired_holds_up_no_other() {
    let mut lost = bare("lost");
    lost.release = shop().release;
    lost.release.as_mut().unwrap().config.insert("KEY".to_owned(), SecretRef::new("nowhere"));
    let (world, recorder) = (World::new(), Recorder::new("recorder"));
    let report = reconciler(&world, &recorder).run([lost, shop()]).await;
    let error = report.apps.iter().find(|app| app.app.as_str() == "lost").unwrap().errors[0].to_string();
    assert!(error.contains("nowhere") && !error.contains("hunter2"), "{error}");
    let other = report.apps.iter().find(|app| app.app.as_str() == "shop").unwrap();
    assert!(other.errors.is_empty() && other.changed, "{other:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_ours_or_of_no_unit_is_left_and_orphans_go_when_they_are_old() {
    let (world, recorder) = (World::with(&shop()).await, Recorder::new("recorder"));
    let other = world.cluster.scheduler(OwnerId::new("other").unwrap());
    let mut theirs = service("theirs", "sim/run:1");
    theirs.namespace = "shop".to_owned();
    theirs.marks = shop().marks();
    other.launch(Launch::new(theirs.check().unwrap())).await.unwrap();
    let mut nobodys = service("by-hand", "sim/run:1");
    nobodys.namespace = "shop".to_owned();
    world.scheduler.launch(Launch::new(nobodys.check().unwrap())).await.unwrap();
    let mut orphan = service("orphan", "sim/run:1");
    orphan.namespace = "shop".to_owned();
    orphan.marks = bare("gone").marks();
    world.scheduler.launch(Launch::new(orphan.check().unwrap())).await.unwrap();

    let hour = Duration::from_secs(60 * 60);
    let reconciler = reconciler(&world, &recorder).sweep_orphans(hour);
    assert_eq!(reconciler.run([shop()]).await.spared, [target("orphan")]);
    sleep(hour).await;
    assert_eq!(reconciler.run([shop()]).await.orphans, [target("orphan")]);
    let left: Vec<_> =
        world.state(&shop()).await.1.iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(left, ["shop/api", "shop/by-hand", "shop/web"]);
    assert!(world.cluster.objects(&shop().namespace).iter().any(|(name, _)| name == "Workload/theirs"));
}

#[tokio::test(start_paused = true)]
async fn writes_follow_each_other_at_the_pace_that_is_set() {
    let (world, recorder) = (World::new(), Recorder::new("recorder"));
    let apps: Vec<App> = (0..5)
        .map(|n| {
            let mut app = bare(&format!("app-{n}"));
            app.release = Some(scheduler_core::hooks::Release::new(1, vec![service("web", "sim/run:1")]));
            app
        })
        .collect();
    let begun = Instant::now();
    let report = reconciler(&world, &recorder).pace(Pace::new(5, Duration::from_secs(1))).run(apps).await;
    assert!(report.apps.iter().all(|app| app.changed && app.errors.is_empty()), "{report:?}");
    // A namespace and a workload each. A pause follows also the last one: what comes then turns out to write nothing.
    assert_eq!(begun.elapsed().as_secs(), 10);
}
