//! Several deploys of one app at once, and apps that go.

use std::time::Duration;

use lifecycle_hooks::pipeline::{
    DeployId, DeployOptions, DeployState, InTheWay, PipelineError, PipelineName, StageName, StageVerdict,
};
use scheduler_core::memory::Fate;
use scheduler_core::{Delete, SchedulerExt as _, Seconds, WaitOptions, WaitOutcome};
use tokio::time::{Instant, sleep};

use crate::support::{World, app, deploy, namespace, release, set_image, verdict};

/// A release whose front process takes its time.
fn slow(version: u64) -> scheduler_core::hooks::App {
    let mut app = app(version);
    set_image(&mut app, "web", &Fate::Slow { after: 50 }.image(&version.to_string()));
    app
}

fn with(policy: InTheWay) -> DeployOptions {
    DeployOptions::default().in_the_way(policy)
}

#[tokio::test(start_paused = true)]
async fn a_newer_deploy_takes_the_place_of_an_older_one_and_repairs_what_it_left() {
    for pipeline in [PipelineName::Full, PipelineName::Canopus] {
        let world = World::new();
        let (deployer, other) = (world.deployer(), world.deployer());
        let older = deployer.deploy(deploy(slow(1), pipeline));
        let newer = async {
            sleep(Duration::from_secs(20)).await;
            other.deploy(deploy(app(2), pipeline)).await
        };
        let (older, newer) = tokio::join!(older, newer);
        let older = older.unwrap();
        assert_eq!(older.state, DeployState::Superseded { by: 2 });
        assert_eq!(older.stages.last().unwrap().verdict, Some(StageVerdict::Abandoned));
        assert_eq!(newer.unwrap().state, DeployState::Succeeded);
        let undisturbed = World::new();
        undisturbed.deployer().deploy(deploy(app(2), pipeline)).await.unwrap();
        assert_eq!(world.state().await.1.len(), undisturbed.state().await.1.len());
        assert_eq!(world.routed(), undisturbed.routed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_deploy_that_queues_runs_after_the_one_before_it() {
    let world = World::new();
    let (deployer, other) = (world.deployer(), world.deployer());
    let second = async {
        sleep(Duration::from_secs(20)).await;
        other.deploy(deploy(app(2), PipelineName::Full).options(with(InTheWay::Queue))).await
    };
    let (first, second) = tokio::join!(deployer.deploy(deploy(slow(1), PipelineName::Full)), second);
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!((&first.state, &second.state), (&DeployState::Succeeded, &DeployState::Succeeded));
    assert!(second.stages[0].started >= first.ended.unwrap());
    assert_eq!(second.good, Some(DeployId::new("release-1").unwrap()));
}

#[tokio::test(start_paused = true)]
async fn a_deploy_that_may_not_wait_is_refused() {
    let world = World::new();
    let (deployer, other) = (world.deployer(), world.deployer());
    let second = async {
        sleep(Duration::from_secs(20)).await;
        other.deploy(deploy(app(2), PipelineName::Full).options(with(InTheWay::Refuse))).await
    };
    let (first, second) = tokio::join!(deployer.deploy(deploy(slow(1), PipelineName::Full)), second);
    assert_eq!(first.unwrap().state, DeployState::Succeeded);
    let second = second.unwrap();
    assert_eq!(second.state, DeployState::Refused { by: DeployId::new("release-1").unwrap() });
    assert_eq!(second.stages, []);
}

#[tokio::test(start_paused = true)]
async fn an_older_release_never_runs_after_a_newer_one() {
    let world = World::new();
    world.deployer().deploy(deploy(app(2), PipelineName::Full)).await.unwrap();
    let older = world.deployer().deploy(deploy(app(1), PipelineName::Full)).await.unwrap();
    assert_eq!(older.state, DeployState::Superseded { by: 2 });
    assert_eq!(world.release_of("web").await.as_deref(), Some("2"));
}

#[tokio::test(start_paused = true)]
async fn the_same_deploy_asked_for_twice_is_one() {
    let world = World::new();
    let (deployer, other) = (world.deployer(), world.deployer());
    let one = || deploy(slow(1), PipelineName::Full);
    let (a, b, c) = tokio::join!(deployer.deploy(one()), deployer.deploy(one()), other.deploy(one()));
    let a = a.unwrap();
    assert_eq!(a.state, DeployState::Succeeded);
    assert_eq!((b.unwrap(), c.unwrap()), (a.clone(), a));
    let launches = world.trap.ops.lock().unwrap().iter().filter(|(op, _)| op.as_str() == "launch").count();
    assert_eq!(launches, 2);
}

/// The worker is gone; its lease is all that is left.
#[tokio::test(start_paused = true)]
async fn a_deploy_whose_worker_died_blocks_nobody_for_longer_than_its_lease() {
    for policy in [InTheWay::Queue, InTheWay::Supersede] {
        let world = World::new();
        world.trap.set(14, false);
        assert!(world.deploy_until_trapped(&world.deployer(), deploy(slow(1), PipelineName::Full)).await.is_none());
        let (begun, other) = (Instant::now(), world.deployer());
        let record = other.deploy(deploy(app(2), PipelineName::Full).options(with(policy))).await.unwrap();
        assert_eq!(record.state, DeployState::Succeeded);
        assert!(record.stages[0].started.since(record.started) <= Duration::from_secs(32), "{:?}", begun.elapsed());
        let dead = world.store.of_app(&app(1).name).await.unwrap().pop().unwrap();
        assert_eq!(dead.state, DeployState::Superseded { by: 2 });
        assert_eq!(dead.stages.last().unwrap().verdict, Some(StageVerdict::Abandoned));
        // Its worker comes back.
        let back = world.deployer().deploy(deploy(slow(1), PipelineName::Full)).await.unwrap();
        assert_eq!(back, dead);
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_stalled_beyond_its_lease_stops_and_changes_no_record() {
    let world = World::new();
    let deployer = world.deployer();
    let stalled = async {
        // Polled no more for some minutes, as if the machine slept.
        let mut deploying = std::pin::pin!(deployer.deploy(deploy(slow(1), PipelineName::Full)));
        tokio::select! {
            biased;
            () = sleep(Duration::from_secs(20)) => {}
            _ = &mut deploying => panic!("it takes longer"),
        }
        sleep(Duration::from_secs(300)).await;
        deploying.await
    };
    let other = world.deployer();
    let second = async {
        sleep(Duration::from_secs(21)).await;
        other.deploy(deploy(app(2), PipelineName::Full).options(with(InTheWay::Queue))).await
    };
    let (stalled, second) = tokio::join!(stalled, second);
    assert_eq!(second.unwrap().state, DeployState::Succeeded);
    assert!(matches!(stalled, Err(PipelineError::TurnLost { .. })), "{stalled:?}");
    let first = world.store.of_app(&app(1).name).await.unwrap().pop().unwrap();
    assert_eq!(first.state, DeployState::Superseded { by: 2 });
}

#[tokio::test(start_paused = true)]
async fn an_app_that_is_destroyed_ends_its_deploys_and_nothing_is_left() {
    let world = World::new();
    let (deployer, waiting) = (world.deployer(), world.deployer());
    let name = app(1).name;
    let destroy = async {
        sleep(Duration::from_secs(20)).await;
        while !waiting.close(&name).await.unwrap() {
            sleep(Duration::from_secs(1)).await;
        }
        // What a hook does then.
        for seen in world.scheduler().list_all().await.unwrap() {
            let delete = Delete::new(seen.target);
            let gone = world.scheduler().delete_and_wait(delete, &WaitOptions::default()).await.unwrap();
            assert_eq!(gone, WaitOutcome::Gone);
        }
    };
    let queued = async {
        sleep(Duration::from_secs(10)).await;
        waiting.deploy(deploy(app(2), PipelineName::Full).options(with(InTheWay::Queue))).await
    };
    let (running, queued, ()) = tokio::join!(deployer.deploy(deploy(slow(1), PipelineName::Full)), queued, destroy);
    assert_eq!(running.unwrap().state, DeployState::AppGone);
    assert_eq!(queued.unwrap().state, DeployState::AppGone);
    sleep(Duration::from_secs(600)).await;
    assert_eq!(world.cluster.objects(&namespace()), []);
    assert_eq!(world.store.of_app(&name).await.unwrap(), []);
    // An app of the same name, later, begins at its first release.
    let record = deployer.deploy(deploy(app(1), PipelineName::Full)).await.unwrap();
    assert_eq!(record.state, DeployState::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn without_its_namespace_a_deploy_ends() {
    let world = World::new();
    let mut lost = app(1);
    lost.namespace = scheduler_core::Namespace::new("elsewhere").unwrap();
    let record = world.deployer().deploy(deploy(lost, PipelineName::Full)).await.unwrap();
    assert_eq!(record.state, DeployState::Failed { rolled_back_to: None });
}

#[tokio::test(start_paused = true)]
async fn a_deploy_that_only_cleans_up_has_succeeded_when_a_newer_one_comes() {
    let world = World::new();
    let mut first = app(1);
    release(&mut first).processes.push(crate::support::service("stubborn", &Fate::Stubborn.image("1")));
    release(&mut first).processes[2].termination_grace = Seconds::new(300);
    world.deployer().deploy(deploy(first, PipelineName::Full)).await.unwrap();
    let (deployer, other) = (world.deployer(), world.deployer());
    let newer = async {
        sleep(Duration::from_secs(60)).await;
        other.deploy(deploy(app(3), PipelineName::Full)).await
    };
    let (older, newer) = tokio::join!(deployer.deploy(deploy(app(2), PipelineName::Full)), newer);
    let older = older.unwrap();
    assert_eq!(older.state, DeployState::Succeeded);
    assert_eq!(verdict(&older, StageName::CleanUp), Some(StageVerdict::Abandoned));
    let newer = newer.unwrap();
    assert_eq!((newer.state, newer.good), (DeployState::Succeeded, Some(DeployId::new("release-2").unwrap())));
}
