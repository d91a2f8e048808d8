//! How the simulation behaves in time. What any backend must do is in the conformance suite.

mod kinds;
mod logs;
mod ops;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::{Fate, MemoryCluster, MemoryScheduler, Node};
use crate::{
    Change, ConfigRef, Container, Cpu, Delete, Deleted, Detail, Diagnosis, DiagnosisKind, Effect, EnvValue, Error,
    ErrorKind, InstanceState, Launch, NodeRule, Observation, OwnerId, Probe, Role, Rolling, RuntimeField,
    Scheduler as _, Status, Target, Update, Verdict, VolumeSource, Watch, WatchItem, Workload,
};

fn owner() -> OwnerId {
    OwnerId::new("tests").unwrap()
}

fn plain() -> (MemoryCluster, MemoryScheduler) {
    on(MemoryCluster::builder().namespace("shop").build())
}

fn on(cluster: MemoryCluster) -> (MemoryCluster, MemoryScheduler) {
    let scheduler = cluster.scheduler(owner());
    (cluster, scheduler)
}

fn target() -> Target {
    Target::new("shop", "web").unwrap()
}

fn web(container: Container) -> Workload {
    Workload::service("shop", "web").container(container)
}

fn image(image: &str) -> Workload {
    web(Container::new("main", image))
}

async fn launch(scheduler: &MemoryScheduler, workload: Workload) -> Change {
    scheduler.launch(Launch::new(workload.check().unwrap())).await.unwrap().change
}

async fn look(scheduler: &MemoryScheduler) -> Observation {
    *scheduler.status(Status::new(target(), Detail::Evidence)).await.unwrap().0.unwrap()
}

async fn pass(millis: u64) {
    sleep(Duration::from_millis(millis)).await;
}

/// The only diagnosis.
fn only(seen: &Observation) -> &Diagnosis {
    assert_eq!(seen.diagnoses.len(), 1, "{:?}", seen.diagnoses);
    &seen.diagnoses[0]
}

/// Looks at each instant at which something happens, until nothing changes for an hour.
async fn at_each_instant(cluster: &MemoryCluster, mut see: impl FnMut(&super::object::MainObject, crate::Timestamp)) {
    let end = Instant::now() + Duration::from_secs(3600);
    loop {
        let due = {
            let world = cluster.shared.world();
            see(&world.workloads[&target()], world.now);
            world.next_due().map(|due| cluster.shared.instant(due))
        };
        match due.filter(|due| *due < end) {
            Some(due) => sleep_until(due).await,
            None => return,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_rolling_update_keeps_its_bounds_at_each_instant() {
    for (surge, unavailable) in [(1, 0), (0, 1), (2, 1), (5, 0)] {
        let (cluster, scheduler) = plain();
        let update = Update::Rolling(Rolling::new(surge, unavailable));
        let of = |tag: &str| image(tag).replicas(5).min_ready(3).update(update);
        launch(&scheduler, of("web:1")).await;
        pass(10_000).await;
        assert_eq!(launch(&scheduler, of("web:2")).await, Change::Updated(Effect::Rolling));
        let (mut most, mut least) = (0, 5);
        at_each_instant(&cluster, |object, now| {
            let min_ready = object.spec.min_ready();
            most = most.max(object.instances.iter().filter(|i| i.ending.is_none()).count());
            least = least.min(object.instances.iter().filter(|i| i.is_available(min_ready, now)).count());
        })
        .await;
        // Both bounds are made full use of, and neither is passed.
        assert_eq!((most, least), (5 + surge as usize, 5 - unavailable as usize), "{surge} {unavailable}");
        assert_eq!(look(&scheduler).await.verdict(), Verdict::Healthy);
    }
}

#[tokio::test(start_paused = true)]
async fn recreate_lets_the_old_end_before_the_new_begin() {
    let (cluster, scheduler) = plain();
    let of = |tag: &str| image(&Fate::Stubborn.image(tag)).replicas(3).termination_grace(20).update(Update::Recreate);
    launch(&scheduler, of("1")).await;
    pass(5_000).await;
    launch(&scheduler, of("2")).await;
    let mut images = BTreeSet::new();
    at_each_instant(&cluster, |object, _| {
        let now: BTreeSet<_> = object.instances.iter().map(|i| i.template.containers[0].image.clone()).collect();
        assert!(now.len() <= 1, "{now:?}");
        images.extend(now);
    })
    .await;
    assert_eq!(images.len(), 2);
    assert_eq!(look(&scheduler).await.verdict(), Verdict::Healthy);
}

#[tokio::test(start_paused = true)]
async fn an_update_that_cannot_become_ready_ends_no_old_instance() {
    let (_, scheduler) = plain();
    launch(&scheduler, image("web:1").replicas(3).progress_deadline(60)).await;
    pass(5_000).await;
    let before = look(&scheduler).await;
    launch(&scheduler, image("sim/pull-error:2").replicas(3).progress_deadline(60)).await;
    pass(120_000).await;
    let seen = look(&scheduler).await;
    assert_eq!((seen.verdict(), seen.counts.old, seen.counts.updated), (Verdict::Failed, 3, 1));

    // The template that is wanted again is current again: nobody is replaced.
    launch(&scheduler, image("web:1").replicas(3).progress_deadline(60)).await;
    pass(1_000).await;
    let after = look(&scheduler).await;
    let ids = |seen: &Observation| seen.instances.iter().map(|i| i.id.clone()).collect::<Vec<_>>();
    assert_eq!((after.verdict(), ids(&after)), (Verdict::Healthy, ids(&before)));
}

#[tokio::test(start_paused = true)]
async fn a_stubborn_instance_takes_its_whole_grace_and_others_do_not() {
    for (fate, grace, millis) in
        [(Fate::Stubborn, 7, 7_000), (Fate::Run, 7, 100), (Fate::Run, 0, 0), (Fate::Stubborn, 0, 0)]
    {
        let (cluster, scheduler) = plain();
        launch(&scheduler, image(&fate.image("1")).termination_grace(grace)).await;
        pass(5_000).await;
        let asked = Instant::now();
        let deleted = scheduler.delete(Delete::new(target())).await.unwrap();
        assert_eq!(deleted == Deleted::Gone, millis == 0, "{fate:?} {grace}");
        while !cluster.instances(&target().namespace).is_empty() && asked.elapsed() < Duration::from_secs(60) {
            assert_eq!(look(&scheduler).await.verdict(), Verdict::Deleting);
            pass(1).await;
        }
        assert_eq!(asked.elapsed(), Duration::from_millis(millis), "{fate:?} {grace}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_crashing_container_waits_longer_each_time() {
    let (cluster, scheduler) = plain();
    launch(&scheduler, image("sim/crash/after-1/exit-3:1")).await;
    let began = cluster.shared.world().now;
    let mut starts = BTreeMap::new();
    let watched = at_each_instant(&cluster, |object, now| {
        if let Some(instance) = object.instances.first().filter(|i| i.state == InstanceState::Ready) {
            starts.entry(instance.restarts()).or_insert(now.since(began).as_millis());
        }
    });
    timeout(Duration::from_secs(60), watched).await.unwrap_err();
    // Noticed after 50 ms, started after 1 s; then each run takes 1 s, and the waits are 1, 2, 4, 8, 10, 10 s.
    let expected = [1_050, 3_050, 6_050, 11_050, 20_050, 31_050, 42_050, 53_050];
    assert_eq!(starts.into_values().collect::<Vec<_>>(), expected);
    let seen = look(&scheduler).await;
    let diagnosis = only(&seen);
    assert_eq!((diagnosis.kind, diagnosis.evidence.exit_code), (DiagnosisKind::CrashLoop, Some(3)));
    assert_eq!(diagnosis.since.since(began), Duration::from_millis(2_050));
}

#[tokio::test(start_paused = true)]
async fn a_long_run_makes_up_for_a_crash() {
    let (_, scheduler) = plain();
    launch(&scheduler, image("sim/oom/after-100:1")).await;
    pass(101_100).await;
    assert_eq!(only(&look(&scheduler).await).kind, DiagnosisKind::OutOfMemory);
    // Started again after 1 s, and well after 10 s more.
    pass(10_900).await;
    assert_eq!(look(&scheduler).await.diagnoses.len(), 1);
    pass(100).await;
    let seen = look(&scheduler).await;
    assert_eq!((seen.diagnoses.len(), seen.instances[0].restarts), (0, 1));
    // The next wait is a first one again: the end comes at 202.05 s, the start at 203.05 s.
    pass(203_100 - 112_100).await;
    assert_eq!(look(&scheduler).await.instances[0].restarts, 2);
}

#[tokio::test(start_paused = true)]
async fn the_platform_gives_up_at_the_deadline_and_takes_it_back_with_progress() {
    let node = Node::new("n1").cpu(Cpu::from_cores(2));
    let (_, scheduler) = on(MemoryCluster::builder().namespace("shop").node(node).build());
    let one_core = |name: &str| {
        let container = Container::new("main", "web:1").cpu("1", "1");
        Workload::service("shop", name).progress_deadline(60).container(container)
    };
    launch(&scheduler, one_core("other")).await;
    launch(&scheduler, one_core("web").replicas(3)).await;
    // All that could be had was ready after 1.05 s.
    pass(61_049).await;
    let seen = look(&scheduler).await;
    assert_eq!((seen.gave_up.is_some(), seen.counts.ready), (false, 1));
    assert!(seen.diagnoses.iter().all(|d| d.kind == DiagnosisKind::Unschedulable), "{:?}", seen.diagnoses);
    pass(1).await;
    assert!(look(&scheduler).await.gave_up.is_some());
    assert_eq!(look(&scheduler).await.verdict(), Verdict::Failed);
    // Room becomes free for one more: that is progress, and all that there is for another 60 s.
    scheduler.delete(Delete::new(Target::new("shop", "other").unwrap())).await.unwrap();
    pass(61_099).await;
    let seen = look(&scheduler).await;
    assert_eq!((seen.gave_up.is_some(), seen.counts.ready), (false, 2));
    pass(1).await;
    assert!(look(&scheduler).await.gave_up.is_some());
}

#[tokio::test(start_paused = true)]
async fn flapping_is_no_progress() {
    let (_, scheduler) = plain();
    // Ready for 5 s at a time, which is too short to be available.
    launch(&scheduler, image("sim/crash/after-5:1").min_ready(20).progress_deadline(60)).await;
    pass(61_100).await;
    let seen = look(&scheduler).await;
    assert!(seen.gave_up.is_some() && seen.instances[0].restarts > 2, "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn an_update_of_many_that_takes_an_hour_ends_well() {
    let (_, scheduler) = plain();
    let of = |tag: &str| image(tag).replicas(60).min_ready(60);
    launch(&scheduler, of("web:1")).await;
    pass(62_000).await;
    let began = Instant::now();
    launch(&scheduler, of("web:2")).await;
    let mut watch = scheduler.watch(Watch::default());
    let healthy = async {
        while let Some(item) = watch.next().await {
            let (WatchItem::Snapshot(seen) | WatchItem::Changed(seen)) = item.unwrap() else { continue };
            if seen.verdict() == Verdict::Healthy {
                break;
            }
        }
    };
    timeout(Duration::from_secs(7200), healthy).await.unwrap();
    // Sixty times, one after the other: 1 s to start and 60 s to be available. Before, it is noticed (50 ms); after, the
    // last old one ends (100 ms).
    assert_eq!(began.elapsed(), Duration::from_millis(60 * 61_000 + 150));
}

#[tokio::test(start_paused = true)]
async fn one_seed_is_one_history() {
    async fn history(seed: u64) -> Vec<(String, Option<String>)> {
        let nodes = (0..8).fold(MemoryCluster::builder(), |b, n| b.node(Node::new(format!("n{n}"))));
        let (_, scheduler) = on(nodes.namespace("shop").seed(seed).build());
        launch(&scheduler, image("web:1").replicas(6)).await;
        pass(5_000).await;
        look(&scheduler).await.instances.into_iter().map(|i| (i.id, i.node)).collect()
    }
    assert_eq!(history(1).await, history(1).await);
    assert_ne!(history(1).await, history(2).await);
}

#[tokio::test(start_paused = true)]
async fn placement_heeds_room_rules_and_spread() {
    let zones = |b: super::MemoryBuilder| {
        ["a", "a", "a", "b"].iter().enumerate().fold(b, |b, (n, zone)| {
            b.node(Node::new(format!("n{n}")).cpu(Cpu::from_millis(2_500)).label("zone", *zone).slots(20))
        })
    };
    let (cluster, scheduler) = on(zones(MemoryCluster::builder().namespace("shop")).build());
    let cpu = |millis: &str| web(Container::new("main", "web:1").cpu(millis, millis));
    let per_node = |seen: &Observation| {
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        for node in seen.instances.iter().filter(|i| i.state == InstanceState::Ready).filter_map(|i| i.node.clone()) {
            *counts.entry(node).or_default() += 1;
        }
        counts.into_iter().collect::<Vec<_>>()
    };
    let pairs = |list: &[(&str, u32)]| list.iter().map(|(n, c)| ((*n).to_owned(), *c)).collect::<Vec<_>>();

    // Two of 1 core fit on each of three nodes.
    launch(&scheduler, cpu("1").require(NodeRule::is_in("zone", ["a"])).replicas(7)).await;
    pass(5_000).await;
    let seen = look(&scheduler).await;
    assert_eq!(per_node(&seen), pairs(&[("n0", 2), ("n1", 2), ("n2", 2)]));
    let diagnosis = only(&seen);
    assert_eq!(diagnosis.kind, DiagnosisKind::Unschedulable);
    assert_eq!(diagnosis.message, "none of 4 nodes fits: 1 against the rules, 3 short of processor time");
    assert_eq!(diagnosis.evidence.events[0].reason, "FailedScheduling");

    scheduler.delete(Delete::new(target())).await.unwrap();
    pass(5_000).await;
    assert!(cluster.instances(&target().namespace).is_empty());
    let mut spread = image("web:1").replicas(6);
    spread.placement.spread = Some("zone".into());
    launch(&scheduler, spread).await;
    pass(5_000).await;
    assert_eq!(per_node(&look(&scheduler).await), pairs(&[("n0", 1), ("n1", 1), ("n2", 1), ("n3", 3)]));
}

#[tokio::test(start_paused = true)]
async fn a_lost_node_takes_its_instances_along_after_a_while() {
    let (cluster, scheduler) = plain();
    launch(&scheduler, image("web:1")).await;
    pass(5_000).await;
    let before = look(&scheduler).await.instances[0].clone();
    let node = before.node.clone().unwrap();

    assert!(cluster.fail_node(&node));
    let seen = look(&scheduler).await;
    assert_eq!((seen.counts.ready, only(&seen).kind), (0, DiagnosisKind::NodeLost));
    pass(4_000).await;
    assert!(cluster.restore_node(&node));
    assert_eq!(look(&scheduler).await.instances[0].state, InstanceState::Ready);

    assert!(cluster.fail_node(&node));
    pass(4_999).await;
    assert_eq!(look(&scheduler).await.instances[0].id, before.id);
    pass(1).await;
    let seen = look(&scheduler).await;
    assert_ne!(seen.instances[0].id, before.id);
    assert_ne!(seen.instances[0].node.as_ref(), Some(&node));
    pass(1_000).await;
    assert_eq!(look(&scheduler).await.verdict(), Verdict::Healthy);
    assert!(!cluster.fail_node("no such node"));
}

#[tokio::test(start_paused = true)]
async fn nobody_sees_an_instance_end_on_a_lost_node() {
    let (cluster, scheduler) = plain();
    launch(&scheduler, image("web:1")).await;
    pass(5_000).await;
    let node = look(&scheduler).await.instances[0].node.clone().unwrap();
    assert!(cluster.fail_node(&node));
    scheduler.delete(Delete::new(target())).await.unwrap();
    pass(1_000).await;
    let Deleted::Deleting { remaining, blocked_by } = scheduler.delete(Delete::new(target())).await.unwrap() else {
        panic!("it is gone")
    };
    assert_eq!((remaining.len(), blocked_by), (1, vec![format!("node {node} does not answer")]));
    pass(4_000).await;
    assert_eq!(scheduler.delete(Delete::new(target())).await.unwrap(), Deleted::WasAbsent);
}

#[tokio::test(start_paused = true)]
async fn containers_start_in_their_order() {
    let (cluster, scheduler) = plain();
    let side =
        Container::new("side", "side:1").role(Role::Sidecar).port("s", 1).startup(Probe::tcp("s").initial_delay(3));
    let main = Container::new("main", "web:1").port("http", 80).readiness(Probe::tcp("http").initial_delay(2));
    let workload = web(main)
        .container(Container::new("first", "sim/slow/after-4:1").role(Role::Init))
        .container(Container::new("second", "setup:1").role(Role::Init))
        .container(side);
    let began = cluster.shared.world().now;
    launch(&scheduler, workload).await;
    let mut states = Vec::new();
    at_each_instant(&cluster, |object, now| {
        let Some(instance) = object.instances.first() else { return };
        if states.last().is_none_or(|(state, _)| *state != instance.state) {
            states.push((instance.state, now.since(began).as_millis()));
        }
    })
    .await;
    // 50 ms to be noticed; 5 s for the pull and start of the first, 1 s for the second, 1 s for the sidecar and 3 s for
    // its startup probe, 1 s for the main container; 2 s for its readiness probe.
    let expected = [(InstanceState::Starting, 50), (InstanceState::Running, 11_050), (InstanceState::Ready, 13_050)];
    assert_eq!(states, expected);
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_is_named() {
    let cluster = MemoryCluster::builder().namespace("shop").claim("shop", "data").identity("shop", "robot").build();
    let (_, scheduler) = on(cluster);
    let entry = EnvValue::Config(crate::ConfigEntry::new("settings", "v1", "url"));
    let mut stranger = image("web:1");
    stranger.identity = Some("stranger".into());
    let mut robot = image("web:1").volume("data", VolumeSource::Claim("data".into()));
    robot.identity = Some("robot".into());
    let node = EnvValue::Field(RuntimeField::NodeName);
    for (workload, kind, words) in [
        (web(Container::new("main", "web:1").env_from("A", entry)), Some(DiagnosisKind::ConfigMissing), "settings"),
        (
            web(Container::new("main", "web:1").mount("c", "/c"))
                .volume("c", VolumeSource::Config(ConfigRef::new("files", "v2"))),
            Some(DiagnosisKind::ConfigMissing),
            "files",
        ),
        (
            image("web:1").volume("data", VolumeSource::Claim("elsewhere".into())),
            Some(DiagnosisKind::VolumeUnavailable),
            "elsewhere",
        ),
        (stranger, Some(DiagnosisKind::CreationRefused), "stranger"),
        (robot, None, ""),
        (web(Container::new("main", "web:1").env_from("NODE", node)), None, ""),
    ] {
        launch(&scheduler, workload.update(Update::Recreate)).await;
        pass(5_000).await;
        let seen = look(&scheduler).await;
        match kind {
            None => assert_eq!(seen.verdict(), Verdict::Healthy, "{seen:?}"),
            Some(kind) => {
                assert_eq!(only(&seen).kind, kind);
                assert!(only(&seen).message.contains(words), "{}", only(&seen).message);
                assert!(!only(&seen).evidence.events.is_empty());
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_tells_what_happens_by_itself_and_nothing_else() {
    let (_, scheduler) = plain();
    launch(&scheduler, image("web:1").min_ready(2)).await;
    let mut watch = scheduler.watch(Watch::default());
    let mut told = Vec::new();
    while let Ok(item) = timeout(Duration::from_secs(3600), watch.next()).await {
        told.push(match item.unwrap().unwrap() {
            WatchItem::Snapshot(seen) => format!("snapshot {}", seen.verdict()),
            WatchItem::Synced => "synced".to_owned(),
            WatchItem::Changed(seen) => format!("{} ({} available)", seen.verdict(), seen.counts.available),
            other => panic!("{other:?}"),
        });
    }
    let expected = [
        "snapshot progressing (not noticed yet)",
        "synced",
        "progressing (never complete yet) (0 available)",
        "progressing (never complete yet) (0 available)",
        "healthy (1 available)",
    ];
    assert_eq!(told, expected);
}

#[tokio::test(start_paused = true)]
async fn extensions_of_this_backend_are_refused_and_those_of_others_are_said_to_be_ignored() {
    let (cluster, scheduler) = plain();
    let with = |backend: &str| {
        let mut workload = image("web:1");
        workload.extensions.insert(backend.into(), serde_json::json!({}));
        Launch::new(workload.check().unwrap())
    };
    let error: Error = scheduler.launch(with("memory")).await.unwrap_err();
    assert_eq!((error.kind(), error.causes()[0].path.as_str()), (&ErrorKind::InvalidArgument, "extensions.memory"));
    assert!(cluster.objects(&target().namespace).is_empty());
    let launched = scheduler.launch(with("kubernetes")).await.unwrap();
    assert!(launched.warnings[0].contains("extensions.kubernetes"), "{:?}", launched.warnings);
}
