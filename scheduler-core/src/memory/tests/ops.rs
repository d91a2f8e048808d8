//! What the simulation itself decides of the operations on what runs, of plans, configurations, routes and namespaces.

use std::collections::BTreeSet;

use super::{Fate, MemoryScheduler, at_each_instant, image, launch, look, owner, pass, plain, target, web};
use crate::{
    Canary, ConfigRef, Conflict, Container, DeleteNamespace, DiagnosisKind, EnsureNamespace, EnvValue, ErrorKind,
    Expose, FieldAction, FieldChange, History, InstanceState, Launch, Namespace, NamespaceDeleted, NamespaceEnsured,
    Observation, OwnerId, Plan, PutConfig, Rollout, RolloutAction, Route, Run, RunKey, Scale, Scheduler as _, Target,
    Update, Verdict, VolumeSource, Waiting, Workload,
};

async fn steer(scheduler: &MemoryScheduler, action: RolloutAction) -> bool {
    scheduler.rollout(Rollout::new(target(), action)).await.unwrap().changed
}

async fn scale(scheduler: &MemoryScheduler, count: u32) {
    scheduler.scale(Scale::new(target(), count)).await.unwrap();
}

fn ids(seen: &Observation) -> BTreeSet<String> {
    seen.instances.iter().map(|instance| instance.id.clone()).collect()
}

/// How many are current, and how many are not.
fn split(seen: &Observation) -> (u32, u32) {
    (seen.counts.updated, seen.counts.old)
}

#[tokio::test(start_paused = true)]
async fn a_paused_rollout_keeps_what_there_is_and_heeds_a_scale() {
    let (cluster, scheduler) = plain();
    let of = |tag: &str| image(tag).replicas(4).min_ready(2);
    launch(&scheduler, of("web:1")).await;
    pass(10_000).await;
    launch(&scheduler, of("web:2")).await;
    // One is made beside four, and two of them are replaced after 6 s.
    pass(7_000).await;
    assert!(steer(&scheduler, RolloutAction::Pause).await);
    pass(1_000).await;
    let before = look(&scheduler).await;
    assert_eq!((before.verdict(), split(&before)), (Verdict::Progressing(Waiting::Paused), (3, 2)));
    pass(3_600_000).await;
    assert_eq!(ids(&look(&scheduler).await), ids(&before));
    // One that goes by itself is replaced by one of its kind.
    let old = before.instances.iter().find(|instance| !instance.current).unwrap();
    assert!(cluster.fail_node(old.node.as_ref().unwrap()));
    pass(20_000).await;
    assert_eq!(split(&look(&scheduler).await), (3, 2));
    // A scale adds to what ran before.
    scale(&scheduler, 6).await;
    pass(20_000).await;
    assert_eq!(split(&look(&scheduler).await), (3, 4));
    assert!(steer(&scheduler, RolloutAction::Resume).await);
    pass(60_000).await;
    let seen = look(&scheduler).await;
    assert_eq!((seen.verdict(), split(&seen)), (Verdict::Healthy, (6, 0)));
}

fn canary(tag: &str, canaries: u32) -> Workload {
    image(tag).replicas(3).update(Update::Canary(Canary::new(canaries)))
}

#[tokio::test(start_paused = true)]
async fn beside_canaries_what_ran_before_is_kept_whole() {
    let (cluster, scheduler) = plain();
    launch(&scheduler, canary("web:1", 1)).await;
    pass(5_000).await;
    launch(&scheduler, canary("web:2", 1)).await;
    pass(5_000).await;
    let seen = look(&scheduler).await;
    assert_eq!((seen.verdict(), split(&seen)), (Verdict::Progressing(Waiting::Promotion), (1, 3)));
    // Waiting for a promotion is not held against it.
    pass(3_600_000).await;
    assert_eq!(look(&scheduler).await.verdict(), Verdict::Progressing(Waiting::Promotion));
    let node = seen.instances.iter().find(|instance| !instance.current).unwrap().node.clone().unwrap();
    assert!(cluster.fail_node(&node));
    pass(20_000).await;
    assert_eq!(split(&look(&scheduler).await), (1, 3));
    // Other canaries take the place of the first.
    launch(&scheduler, canary("web:3", 2)).await;
    pass(5_000).await;
    assert_eq!(split(&look(&scheduler).await), (2, 3));
    assert!(steer(&scheduler, RolloutAction::Promote).await);
    let mut least = 3;
    at_each_instant(&cluster, |object, _| least = least.min(object.live().filter(|i| i.is_ready()).count())).await;
    let seen = look(&scheduler).await;
    assert_eq!((least, seen.verdict(), split(&seen)), (2, Verdict::Healthy, (3, 0)));
    assert!(!steer(&scheduler, RolloutAction::Promote).await);
}

#[tokio::test(start_paused = true)]
async fn canaries_that_never_get_ready_are_given_up() {
    let (_, scheduler) = plain();
    launch(&scheduler, canary("web:1", 1)).await;
    pass(5_000).await;
    launch(&scheduler, canary("sim/pull-error:2", 1).progress_deadline(60)).await;
    pass(61_000).await;
    let seen = look(&scheduler).await;
    assert_eq!((seen.verdict(), split(&seen)), (Verdict::Failed, (1, 3)));
    // What ran before is wanted again: it is all there.
    let before: BTreeSet<_> = seen.instances.iter().filter(|i| !i.current).map(|i| i.id.clone()).collect();
    launch(&scheduler, canary("web:1", 1)).await;
    pass(5_000).await;
    let seen = look(&scheduler).await;
    assert_eq!((seen.verdict(), ids(&seen)), (Verdict::Healthy, before));
}

#[tokio::test(start_paused = true)]
async fn an_abort_stays_until_something_else_is_launched() {
    let (_, scheduler) = plain();
    launch(&scheduler, canary("web:1", 1)).await;
    pass(5_000).await;
    launch(&scheduler, canary("web:2", 1)).await;
    pass(5_000).await;
    assert!(steer(&scheduler, RolloutAction::Abort).await);
    assert!(!steer(&scheduler, RolloutAction::Abort).await);
    scale(&scheduler, 5).await;
    pass(5_000).await;
    let seen = look(&scheduler).await;
    assert_eq!((seen.verdict(), split(&seen)), (Verdict::Failed, (0, 5)));
    launch(&scheduler, canary("web:3", 1)).await;
    pass(5_000).await;
    let seen = look(&scheduler).await;
    assert_eq!((seen.verdict(), split(&seen)), (Verdict::Progressing(Waiting::Promotion), (1, 3)));
}

#[tokio::test(start_paused = true)]
async fn a_restart_keeps_the_bounds_of_the_update() {
    let (cluster, scheduler) = plain();
    launch(&scheduler, image("web:1").replicas(4)).await;
    pass(5_000).await;
    assert!(steer(&scheduler, RolloutAction::Restart).await);
    let (mut most, mut least) = (0, 4);
    at_each_instant(&cluster, |object, _| {
        most = most.max(object.instances.iter().filter(|i| i.ending.is_none()).count());
        least = least.min(object.instances.iter().filter(|i| i.is_ready()).count());
    })
    .await;
    assert_eq!((most, least, look(&scheduler).await.verdict()), (5, 4, Verdict::Healthy));
}

#[tokio::test(start_paused = true)]
async fn the_last_ten_revisions_are_kept() {
    let (_, scheduler) = plain();
    for n in 0..12 {
        launch(&scheduler, image(&format!("web:{n}")).replicas(0)).await;
        pass(1_000).await;
    }
    launch(&scheduler, image("web:5").replicas(0)).await;
    let revisions = scheduler.history(History::new(target())).await.unwrap();
    let images: Vec<_> = revisions.entries.iter().map(|entry| entry.workload.containers[0].image.clone()).collect();
    let expected = [5, 11, 10, 9, 8, 7, 6, 4, 3, 2].map(|n| format!("web:{n}"));
    assert_eq!(images, expected);
    assert!(revisions.entries.iter().enumerate().all(|(at, entry)| entry.current == (at == 0)));
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_a_configuration_starts_when_it_is_stored() {
    let (_, scheduler) = plain();
    let put = |value: &str| PutConfig::new(target(), "app").entry("url", value);
    let version = put("a").version();
    let of = |key: &str| {
        let entry = crate::ConfigEntry::new("app", &version, key);
        web(Container::new("main", "web:1").env_from("URL", EnvValue::Config(entry)))
    };
    launch(&scheduler, of("url")).await;
    pass(5_000).await;
    assert_eq!(super::only(&look(&scheduler).await).kind, DiagnosisKind::ConfigMissing);
    scheduler.put_config(put("b")).await.unwrap();
    assert_eq!(look(&scheduler).await.counts.ready, 0);
    scheduler.put_config(put("a")).await.unwrap();
    pass(100).await;
    assert_eq!(look(&scheduler).await.verdict(), Verdict::Healthy);
    // An entry that it has not.
    launch(&scheduler, of("uri").update(Update::Recreate)).await;
    pass(5_000).await;
    assert!(super::only(&look(&scheduler).await).message.contains("uri"));
}

#[tokio::test(start_paused = true)]
async fn ten_versions_are_kept_and_those_that_a_kept_revision_refers_to() {
    let (cluster, scheduler) = plain();
    let put = |n: u32| PutConfig::new(target(), "app").entry("n", n.to_string());
    let used = ConfigRef::new("app", put(0).version());
    let first = scheduler.put_config(put(0)).await.unwrap();
    assert_eq!((first.config, first.created), (used.clone(), true));
    let mount = Container::new("main", "web:1").mount("c", "/c");
    launch(&scheduler, web(mount).replicas(0).volume("c", VolumeSource::Config(used))).await;
    for n in 1..15 {
        assert!(scheduler.put_config(put(n)).await.unwrap().created);
    }
    let there: BTreeSet<_> = cluster.objects(&target().namespace).into_iter().map(|(name, _)| name).collect();
    let expected: BTreeSet<_> =
        [0].into_iter().chain(5..15).map(|n| format!("Config/web.app.{}", put(n).version())).collect();
    assert_eq!(there.into_iter().filter(|name| name.starts_with("Config/")).collect::<BTreeSet<_>>(), expected);
    assert!(!scheduler.put_config(put(14)).await.unwrap().created);
    assert!(scheduler.put_config(put(4)).await.unwrap().created);
}

#[tokio::test(start_paused = true)]
async fn a_run_of_a_periodic_job_has_its_configurations() {
    let (_, scheduler) = plain();
    let put = PutConfig::new(target(), "app").entry("url", "a");
    let stored = scheduler.put_config(put).await.unwrap();
    let main = Container::new("main", "sim/done:1").env_from("URL", EnvValue::Config(stored.entry("url")));
    launch(&scheduler, Workload::periodic("shop", "web", "0 0 29 2 *").container(main)).await;
    let started = scheduler.run(Run::now(target(), RunKey::new("k").unwrap())).await.unwrap();
    pass(5_000).await;
    let seen = scheduler.status(crate::Status::new(started.run.target().clone(), crate::Detail::Counts)).await.unwrap();
    assert_eq!(seen.0.unwrap().verdict(), Verdict::Complete);
    // It is shown with those of the schedule.
    assert_eq!(look(&scheduler).await.instances.iter().map(|i| i.state).collect::<Vec<_>>(), [InstanceState::Ended]);
}

#[tokio::test(start_paused = true)]
async fn a_plan_names_the_fields_and_none_of_their_values() {
    let (_, scheduler) = plain();
    launch(&scheduler, web(Container::new("main", "web:1").env("SECRET", "old").port("http", 80))).await;
    let next = web(Container::new("main", "web:2").env("SECRET", "hunter2").port("http", 80).port("admin", 81));
    let planned = scheduler.plan(Plan::new(next.replicas(2).check().unwrap())).await.unwrap();
    let field = |path: &str, action| FieldChange::new("Workload/web", path, action);
    let expected = [
        field("containers[main].env[SECRET].value.text", FieldAction::Changed),
        field("containers[main].image", FieldAction::Changed),
        field("containers[main].ports[admin].name", FieldAction::Added),
        field("containers[main].ports[admin].port", FieldAction::Added),
        field("kind.service.replicas.exactly", FieldAction::Changed),
    ];
    // One instance is the default, and not written.
    let mut seen = planned.fields.clone();
    for change in &mut seen {
        if change.path.ends_with("replicas.exactly") {
            change.change = FieldAction::Changed;
        }
    }
    assert_eq!(seen, expected);
    assert!(!serde_json::to_string(&planned).unwrap().contains("hunter2"));
}

#[tokio::test(start_paused = true)]
async fn a_route_is_taken_by_the_first_who_writes_it() {
    let (cluster, scheduler) = plain();
    let named =
        |name: &str| Workload::service("shop", name).container(Container::new("main", "web:1").port("http", 80));
    for name in ["web", "api"] {
        launch(&scheduler, named(name).replicas(0)).await;
    }
    let of = |name: &str| {
        let target = Target::new("shop", name).unwrap();
        Expose::new(target, [Route::new("shop.example", "http"), Route::new("shop.example", "http").path("/a")])
    };
    // Both have seen that it is free.
    let read = |op: &Expose| cluster.shared.world().decide_expose(op, &owner()).unwrap().read;
    let (web, api) = (of("web"), of("api"));
    let (of_web, of_api) = (read(&web), read(&api));
    cluster.shared.world().expose(&web, &of_web, &owner()).unwrap();
    let refused = cluster.shared.world().expose(&api, &of_api, &owner()).unwrap_err();
    assert_eq!(*refused.kind(), ErrorKind::Conflict(Conflict::RouteTaken { by: "shop/web".into() }));
    // The order of the list means nothing.
    let turned = Expose::new(target(), web.routes.into_iter().rev());
    assert!(!scheduler.expose(turned).await.unwrap().changed);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_goes_with_what_no_workload_holds() {
    let (cluster, scheduler) = plain();
    let other = cluster.scheduler(OwnerId::new("other").unwrap());
    let qa = Namespace::new("qa").unwrap();
    let ensure = || EnsureNamespace::new(qa.clone());
    assert_eq!(scheduler.ensure_namespace(ensure()).await.unwrap(), NamespaceEnsured::Created);
    assert_eq!(scheduler.ensure_namespace(ensure()).await.unwrap(), NamespaceEnsured::Exists { owned: true });
    assert_eq!(other.ensure_namespace(ensure()).await.unwrap(), NamespaceEnsured::Exists { owned: false });
    scheduler.put_config(PutConfig::new(Target::new("qa", "web").unwrap(), "app").entry("a", "b")).await.unwrap();
    let theirs = Workload::service("qa", "theirs").container(Container::new("main", Fate::Run.image("1")));
    other.launch(Launch::new(theirs.check().unwrap())).await.unwrap();
    let delete = || DeleteNamespace::new(qa.clone());
    let refused = scheduler.delete_namespace(delete()).await.unwrap_err();
    assert_eq!(*refused.kind(), ErrorKind::Precondition);
    assert!(refused.message().contains("theirs"), "{refused}");
    other.delete(crate::Delete::new(Target::new("qa", "theirs").unwrap())).await.unwrap();
    pass(5_000).await;
    assert_eq!(scheduler.delete_namespace(delete()).await.unwrap(), NamespaceDeleted::Gone);
    assert_eq!(scheduler.delete_namespace(delete()).await.unwrap(), NamespaceDeleted::WasAbsent);
    assert!(cluster.objects(&qa).is_empty());
}
