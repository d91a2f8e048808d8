//! Jobs, periodic jobs, systems and stable identities in time.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::{Instant, sleep_until};

use super::super::object::MainObject;
use super::{
    Fate, MemoryCluster, MemoryScheduler, Node, at_each_instant, image, launch, look, on, only, pass, plain, target,
};
use crate::{
    Change, Container, Delete, Deleted, DiagnosisKind, Effect, Exit, InstanceState, NodeRule, Observation, Overlap,
    PerInstanceVolume, Periodic, Role, Scheduler as _, Verdict, VolumeSource, Waiting, Workload,
};

fn job(of: &str) -> Workload {
    Workload::job("shop", "web").container(Container::new("main", of))
}

fn done(after: u32, exit_code: u8) -> Workload {
    job(&Fate::Done { after, exit_code }.image("1"))
}

fn exits(seen: &Observation) -> Vec<Option<Exit>> {
    seen.instances.iter().map(|instance| instance.exit).collect()
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_no_more_at_a_time_than_it_may_until_all_have_ended_well() {
    let (cluster, scheduler) = plain();
    let workload = done(2, 0).with_job(|job| (job.completions, job.parallelism) = (5, Some(2)));
    launch(&scheduler, workload).await;
    let mut most = 0;
    at_each_instant(&cluster, |object, _| most = most.max(object.live().count())).await;
    assert_eq!(most, 2);
    let seen = look(&scheduler).await;
    assert_eq!((seen.verdict(), seen.counts.succeeded, seen.counts.live), (Verdict::Complete, 5, 0));
    let ordinals: BTreeSet<_> = seen.instances.iter().map(|instance| instance.ordinal).collect();
    assert_eq!(ordinals, (0..5).map(Some).collect());
    assert!(exits(&seen).iter().all(|exit| *exit == Some(Exit::new(0))));
    // A job that has ended is done.
    assert_eq!(cluster.instances(&target().namespace), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn what_ends_badly_is_tried_again_after_a_while_each_time() {
    let (cluster, scheduler) = plain();
    launch(&scheduler, done(1, 3).with_job(|job| job.retries = 3)).await;
    let began = cluster.shared.world().now;
    let mut made = BTreeMap::new();
    at_each_instant(&cluster, |object, _| {
        for instance in &object.instances {
            made.insert(instance.id.clone(), instance.created.since(began).as_millis());
        }
    })
    .await;
    // Noticed after 50 ms; each try takes 1 s to start and 1 s to fail; the waits are 1, 2 and 4 s.
    assert_eq!(made.into_values().collect::<Vec<_>>(), [50, 3_050, 7_050, 13_050]);
    let seen = look(&scheduler).await;
    assert_eq!((seen.verdict(), seen.counts.failed, seen.counts.succeeded), (Verdict::Failed, 4, 0));
    let diagnosis = only(&seen);
    assert_eq!((diagnosis.kind, diagnosis.evidence.exit_code), (DiagnosisKind::Exited, Some(3)));
    assert_eq!(diagnosis.instance, seen.instances.last().map(|instance| instance.id.clone()));
}

#[tokio::test(start_paused = true)]
async fn how_a_job_ended_is_told_by_its_containers() {
    let killed = Exit { signal: Some(15), ..Exit::new(143) };
    let no_memory = Exit { signal: Some(9), out_of_memory: true, ..Exit::new(137) };
    let kinds = |seen: &Observation| seen.diagnoses.iter().map(|diagnosis| diagnosis.kind).collect::<Vec<_>>();
    for (of, exit, kind) in [
        (Fate::Killed { after: 1, signal: 15 }, killed, DiagnosisKind::Exited),
        (Fate::OutOfMemory { after: 1 }, no_memory, DiagnosisKind::OutOfMemory),
    ] {
        let (_, scheduler) = plain();
        launch(&scheduler, job(&of.image("1"))).await;
        pass(5_000).await;
        let seen = look(&scheduler).await;
        assert_eq!((seen.verdict(), exits(&seen), kinds(&seen)), (Verdict::Failed, vec![Some(exit)], vec![kind]));
    }
    // An init container that fails: the main one has no exit.
    let (_, scheduler) = plain();
    let init = Container::new("setup", Fate::Done { after: 1, exit_code: 7 }.image("1")).role(Role::Init);
    launch(&scheduler, done(1, 0).container(init)).await;
    pass(5_000).await;
    let seen = look(&scheduler).await;
    assert_eq!((seen.verdict(), exits(&seen)), (Verdict::Failed, vec![None]));
    let diagnosis = only(&seen);
    assert_eq!((diagnosis.container.as_deref(), diagnosis.evidence.exit_code), (Some("setup"), Some(7)));
    // A sidecar that ends is started again, and ends with the main container.
    let (cluster, scheduler) = plain();
    let sidecar = Container::new("side", Fate::Crash { after: 1, exit_code: 1 }.image("1")).role(Role::Sidecar);
    launch(&scheduler, done(5, 0).container(sidecar)).await;
    pass(10_000).await;
    let seen = look(&scheduler).await;
    assert_eq!((seen.verdict(), seen.instances[0].restarts > 0), (Verdict::Complete, true));
    assert!(cluster.instances(&target().namespace).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_a_job_and_what_never_started_has_no_exit() {
    let (_, scheduler) = plain();
    let workload = job(&Fate::PullError.image("1")).termination_grace(2);
    launch(&scheduler, workload.with_job(|job| job.deadline = Some(crate::Seconds::new(10)))).await;
    pass(9_999).await;
    assert_eq!(look(&scheduler).await.verdict(), Verdict::Progressing(Waiting::Running));
    pass(500).await;
    let seen = look(&scheduler).await;
    assert_eq!((seen.verdict(), exits(&seen), seen.counts.live), (Verdict::Failed, vec![None], 0));
    assert_eq!(only(&seen).kind, DiagnosisKind::JobDeadline);
    assert_eq!(seen.instances[0].state, InstanceState::Ended);
}

#[tokio::test(start_paused = true)]
async fn a_job_goes_some_time_after_its_end_if_it_says_so() {
    let (cluster, scheduler) = plain();
    let workload = done(1, 0).with_job(|job| job.time_to_live = Some(crate::Seconds::new(60)));
    launch(&scheduler, workload).await;
    pass(2_050 + 59_999).await;
    assert_eq!(look(&scheduler).await.verdict(), Verdict::Complete);
    pass(1).await;
    assert!(cluster.objects(&target().namespace).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_stopped_instance_of_a_job_is_replaced_and_no_failure() {
    let (_, scheduler) = plain();
    launch(&scheduler, done(5, 0)).await;
    pass(2_000).await;
    let victim = look(&scheduler).await.instances[0].id.clone();
    scheduler.instance(crate::OnInstance::new(target(), victim, crate::InstanceAction::Stop)).await.unwrap();
    pass(20_000).await;
    let seen = look(&scheduler).await;
    assert_eq!((seen.verdict(), seen.counts.failed), (Verdict::Complete, 0));
    assert_eq!(exits(&seen), [None, Some(Exit::new(0))]);
}

fn periodic(of: Fate, change: impl FnOnce(&mut Periodic)) -> Workload {
    let workload = Workload::periodic("shop", "web", "* * * * *").container(Container::new("main", of.image("1")));
    workload.with_periodic(change)
}

/// When runs began, in seconds since midnight, as far as they are kept; looked at for so many minutes, which pass.
async fn starts(cluster: &MemoryCluster, minutes: u64) -> Vec<u64> {
    let end = Instant::now() + std::time::Duration::from_secs(60 * minutes);
    let mut starts = BTreeSet::new();
    loop {
        let due = {
            let world = cluster.shared.world();
            let midnight = "2000-01-01T00:00:00Z".parse().unwrap();
            starts.extend(world.runs.values().map(|run| run.created.since(midnight).as_secs()));
            world.next_due().map(|due| cluster.shared.instant(due))
        };
        match due.filter(|due| *due < end) {
            Some(due) => sleep_until(due).await,
            None => break,
        }
    }
    sleep_until(end).await;
    starts.into_iter().collect()
}

#[tokio::test(start_paused = true)]
async fn an_ordinary_image_of_a_job_does_its_work_and_ends() {
    let (_, scheduler) = plain();
    launch(&scheduler, Workload::job("shop", "web").container(Container::new("main", "shop/migrate:1"))).await;
    pass(5_000).await;
    assert_eq!(look(&scheduler).await.verdict(), Verdict::Complete);
}

#[tokio::test(start_paused = true)]
async fn a_schedule_begins_a_run_when_it_is_due() {
    let (cluster, scheduler) = plain();
    launch(&scheduler, periodic(Fate::Done { after: 5, exit_code: 0 }, |p| p.keep_succeeded = Some(2))).await;
    assert_eq!(starts(&cluster, 5).await, [60, 120, 180, 240]);
    pass(10_000).await;
    let seen = look(&scheduler).await;
    let schedule = seen.schedule.unwrap();
    assert_eq!((seen.verdict(), seen.counts.desired, schedule.active), (Verdict::Idle, 0, 0));
    assert_eq!(schedule.last.unwrap().to_string(), "2000-01-01T00:05:00Z");
    // Two of the runs are kept.
    assert_eq!(exits(&seen), [Some(Exit::new(0)); 2]);
    let names: Vec<_> = cluster.objects(&target().namespace).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.iter().filter(|name| name.starts_with("Run/")).count(), 2, "{names:?}");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_due_beside_the_last_one_is_left_out_or_not() {
    // Each run takes a minute and a half.
    for (overlap, expected, most) in [
        (Overlap::Forbid, vec![60, 180, 300], 1),
        (Overlap::Allow, vec![60, 120, 180, 240, 300], 2),
        (Overlap::Replace, vec![60, 120, 180, 240, 300], 1),
    ] {
        let (cluster, scheduler) = plain();
        launch(&scheduler, periodic(Fate::Done { after: 90, exit_code: 0 }, |p| p.overlap = overlap)).await;
        assert_eq!(starts(&cluster, 6).await, expected, "{overlap:?}");
        assert_eq!(look(&scheduler).await.schedule.unwrap().active, most, "{overlap:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_due_while_suspended_is_not_made_up_for() {
    let (cluster, scheduler) = plain();
    let of = |suspend| periodic(Fate::Done { after: 1, exit_code: 0 }, |p| p.suspend = suspend);
    launch(&scheduler, of(true)).await;
    assert_eq!(starts(&cluster, 4).await, [0; 0]);
    assert_eq!(look(&scheduler).await.verdict(), Verdict::Suspended);
    assert_eq!(launch(&scheduler, of(false)).await, Change::Updated(Effect::InPlace));
    assert_eq!(starts(&cluster, 2).await, [300]);
}

#[tokio::test(start_paused = true)]
async fn a_periodic_job_goes_when_its_runs_have_ended() {
    let (cluster, scheduler) = plain();
    launch(&scheduler, periodic(Fate::Stubborn, |_| ()).termination_grace(20)).await;
    pass(70_000).await;
    let Deleted::Deleting { remaining, .. } = scheduler.delete(Delete::new(target())).await.unwrap() else {
        panic!("it is gone")
    };
    assert_eq!(remaining.len(), 1);
    pass(19_999).await;
    assert_eq!(look(&scheduler).await.verdict(), Verdict::Deleting);
    pass(1).await;
    assert!(cluster.objects(&target().namespace).is_empty());
}

fn system(of: &str) -> Workload {
    Workload::system("shop", "web").container(Container::new("main", of))
}

fn nodes_of(object: &MainObject) -> Vec<String> {
    let mut nodes: Vec<_> = object.live().filter_map(|instance| instance.node.clone()).collect();
    nodes.sort();
    nodes
}

#[tokio::test(start_paused = true)]
async fn a_system_has_one_instance_on_each_node_that_fits() {
    let node = |name: &str, zone: &str| Node::new(name).label("zone", zone);
    let builder = MemoryCluster::builder().namespace("shop").node(node("n1", "a")).node(node("n2", "a"));
    let (cluster, scheduler) = on(builder.node(node("n3", "b")).build());
    launch(&scheduler, system("web:1").require(NodeRule::is_in("zone", ["a"]))).await;
    pass(5_000).await;
    let nodes = || nodes_of(&cluster.shared.world().workloads[&target()]);
    assert_eq!(nodes(), ["n1", "n2"]);
    assert_eq!(look(&scheduler).await.counts.desired, 2);
    // Other rules: one goes, another comes.
    launch(&scheduler, system("web:1")).await;
    pass(5_000).await;
    assert_eq!(
        (nodes(), look(&scheduler).await.verdict()),
        (vec!["n1".into(), "n2".into(), "n3".into()], Verdict::Healthy)
    );
    // A node that does not answer is no longer one of them.
    assert!(cluster.fail_node("n2"));
    pass(6_000).await;
    let seen = look(&scheduler).await;
    assert_eq!((nodes().len(), seen.counts.desired, seen.verdict()), (2, 2, Verdict::Healthy));
    assert!(cluster.restore_node("n2"));
    pass(5_000).await;
    assert_eq!((nodes().len(), look(&scheduler).await.verdict()), (3, Verdict::Healthy));
}

#[tokio::test(start_paused = true)]
async fn an_update_of_a_system_replaces_no_more_at_a_time_than_it_may() {
    for most in [1, 2] {
        let (cluster, scheduler) = plain();
        let of = |tag: &str| {
            let mut workload = system(tag).min_ready(2);
            if let crate::Kind::System(system) = &mut workload.kind {
                system.max_unavailable = most;
            }
            workload
        };
        launch(&scheduler, of("web:1")).await;
        pass(10_000).await;
        assert_eq!(launch(&scheduler, of("web:2")).await, Change::Updated(Effect::Rolling));
        let mut least = 3;
        at_each_instant(&cluster, |object, now| {
            let min_ready = object.spec.min_ready();
            least = least.min(object.instances.iter().filter(|i| i.is_available(min_ready, now)).count());
            let nodes = nodes_of(object);
            assert_eq!(nodes.iter().collect::<BTreeSet<_>>().len(), nodes.len(), "two on one node: {nodes:?}");
        })
        .await;
        assert_eq!((least, look(&scheduler).await.verdict()), (3 - most as usize, Verdict::Healthy));
    }
}

async fn ordinals(scheduler: &MemoryScheduler) -> Vec<Option<u32>> {
    let mut ordinals: Vec<_> = look(scheduler).await.instances.iter().map(|instance| instance.ordinal).collect();
    ordinals.sort();
    ordinals
}

#[tokio::test(start_paused = true)]
async fn a_stable_instance_starts_when_the_one_of_its_ordinal_has_ended() {
    let (cluster, scheduler) = plain();
    let of = |tag: &str| image(&Fate::Stubborn.image(tag)).stable().replicas(3).termination_grace(20);
    launch(&scheduler, of("1")).await;
    pass(5_000).await;
    assert_eq!(ordinals(&scheduler).await, [Some(0), Some(1), Some(2)]);
    launch(&scheduler, of("2")).await;
    let mut order = Vec::new();
    at_each_instant(&cluster, |object, _| {
        let live: Vec<_> = object.live().filter_map(|instance| instance.place.ordinal).collect();
        assert_eq!(live.iter().collect::<BTreeSet<_>>().len(), live.len(), "two of one ordinal: {live:?}");
        let ending = object.instances.iter().filter(|i| i.ending.is_some()).filter_map(|i| i.place.ordinal);
        let ending: Vec<_> = ending.collect();
        assert!(ending.len() <= 1, "more than one at a time: {ending:?}");
        order.extend(ending.into_iter().filter(|at| !order.contains(at)).collect::<Vec<_>>());
    })
    .await;
    assert_eq!((order, look(&scheduler).await.verdict()), (vec![2, 1, 0], Verdict::Healthy));
    // The highest ordinals go first.
    launch(&scheduler, of("2").replicas(1)).await;
    pass(30_000).await;
    assert_eq!(ordinals(&scheduler).await, [Some(0)]);
}

#[tokio::test(start_paused = true)]
async fn a_broken_update_of_stable_instances_can_be_mended() {
    let (_, scheduler) = plain();
    let of = |image_: &str| image(image_).stable().replicas(2);
    launch(&scheduler, of("web:1")).await;
    pass(5_000).await;
    launch(&scheduler, of("sim/pull-error:2")).await;
    pass(5_000).await;
    assert_eq!(look(&scheduler).await.counts.old, 1);
    launch(&scheduler, of("web:3")).await;
    pass(20_000).await;
    assert_eq!(look(&scheduler).await.verdict(), Verdict::Healthy);
}

#[tokio::test(start_paused = true)]
async fn storage_of_instances_outlives_them() {
    let (cluster, scheduler) = plain();
    let of = |size: &str| {
        let own = VolumeSource::PerInstance(PerInstanceVolume::new(size));
        super::web(Container::new("main", "web:1").mount("data", "/data")).volume("data", own).stable().replicas(2)
    };
    launch(&scheduler, of("1Gi")).await;
    pass(5_000).await;
    assert_eq!(cluster.claims(&target().namespace), ["data-web-0", "data-web-1"]);
    let larger = scheduler.launch(crate::Launch::new(of("2Gi").check().unwrap())).await.unwrap_err();
    assert_eq!(*larger.kind(), crate::ErrorKind::MustReplace);
    scheduler.delete(Delete::new(target())).await.unwrap();
    pass(5_000).await;
    assert!(cluster.objects(&target().namespace).is_empty());
    assert_eq!(cluster.claims(&target().namespace).len(), 2);
}
