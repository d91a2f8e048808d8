//! Releases that are told through an outbox.

use std::sync::Arc;
use std::time::Duration;

use lifecycle_hooks::deliver::{Deadlines, HookSets, Recorded, Recorder, Worker};
use lifecycle_hooks::generic::SchedulerHooks;
use lifecycle_hooks::outbox::{MemoryOutbox, Outbox as _, OutboxFilter};
use lifecycle_hooks::pipeline::{DeployOptions, DeployState, PipelineName};
use scheduler_core::hooks::{App, DeployEnd, EventKind, LifecycleHooks, Report};
use scheduler_core::memory::Fate;
use tokio::time::sleep;

use crate::{World, event, shop};

/// A platform whose events go through an outbox.
struct Platform {
    world: World,
    outbox: MemoryOutbox,
    worker: Worker,
    recorder: Recorder,
}

impl Platform {
    fn new() -> Self {
        let (world, outbox, recorder) = (World::new(), MemoryOutbox::new(), Recorder::new("recorder"));
        let told: Arc<dyn LifecycleHooks> = Arc::new(recorder.clone());
        let deployer =
            world.deployer.clone().hooks(HookSets::new(vec![Arc::clone(&told)]).unwrap(), Deadlines::default());
        let hooks = SchedulerHooks::new(Arc::new(world.scheduler.clone())).secrets(crate::secrets());
        let hooks = hooks.deployer(deployer, PipelineName::Full, DeployOptions::default());
        let sets = HookSets::new(vec![Arc::new(hooks), told]).unwrap();
        let worker = Worker::new(Arc::new(outbox.clone()), sets);
        Self { world, outbox, worker, recorder }
    }

    fn happened(&self, kind: EventKind, app: &App) {
        self.outbox.append(event(kind, app)).unwrap();
    }

    /// How the deploys of the app ended, in that order.
    fn ends(&self) -> Vec<DeployEnd> {
        let records = self.recorder.records().into_iter();
        let ends = records.filter_map(|record| match record {
            Recorded::Report(_, Report::DeployEnded(end)) => Some(end),
            _ => None,
        });
        ends.collect()
    }
}

fn release(version: u64, fate: Fate) -> App {
    let mut app = shop();
    let release = app.release.as_mut().unwrap();
    release.version = version;
    for process in &mut release.processes {
        process.containers[0].image = fate.image(&version.to_string());
    }
    app
}

#[tokio::test(start_paused = true)]
async fn a_release_that_fails_is_no_error_of_the_hook_and_its_end_is_told() {
    let platform = Platform::new();
    platform.happened(EventKind::AppCreated, &release(1, Fate::Run));
    platform.happened(EventKind::ReleaseCreated, &release(1, Fate::Run));
    platform.happened(EventKind::ReleaseCreated, &release(2, Fate::PullError));
    platform.worker.run_until_idle().await;
    assert!(platform.outbox.list(&OutboxFilter::default()).await.unwrap().is_empty(), "nothing is parked");
    let ends: Vec<_> = platform.ends().iter().map(|end| (end.release, end.succeeded)).collect();
    assert_eq!(ends, [(1, true), (2, false)]);
    assert!(platform.ends()[1].reason.as_ref().unwrap().contains("pulled"), "{:?}", platform.ends()[1]);
    // Told once more, a deploy that is over stays as it is.
    let told = event(EventKind::ReleaseCreated, &release(2, Fate::PullError)).tell(&platform.world.hooks).await;
    assert_eq!(told, Ok(scheduler_core::hooks::Outcome::AlreadyInState));
}

#[tokio::test(start_paused = true)]
async fn a_release_that_hangs_makes_way_for_a_newer_one_that_is_announced() {
    for announced in [true, false] {
        let platform = Platform::new();
        platform.happened(EventKind::AppCreated, &release(1, Fate::Run));
        platform.happened(EventKind::ReleaseCreated, &release(1, Fate::PullError));
        let newer = async {
            sleep(Duration::from_secs(5)).await;
            platform.happened(EventKind::ReleaseCreated, &release(2, Fate::Run));
            if announced {
                platform.world.deployer.announce(&shop().name, 2).await.unwrap();
            }
            sleep(Duration::from_secs(20)).await;
        };
        platform.worker.run(newer).await;
        platform.worker.run_until_idle().await;
        let records = platform.world.deployer.store().of_app(&shop().name).await.unwrap();
        let states: Vec<_> = records.iter().map(|record| record.state.clone()).collect();
        let first = match announced {
            true => DeployState::Superseded { by: 2 },
            false => DeployState::Failed { rolled_back_to: None },
        };
        assert_eq!(states, [DeployState::Succeeded, first], "announced: {announced}");
        assert!(platform.world.state(&shop()).await.1.iter().all(|line| line.contains("Healthy")));
    }
}

#[tokio::test(start_paused = true)]
async fn an_app_that_is_destroyed_while_it_is_deployed_leaves_nothing() {
    for announced in [true, false] {
        let platform = Platform::new();
        platform.happened(EventKind::AppCreated, &release(1, Fate::Run));
        platform.happened(EventKind::ReleaseCreated, &release(1, Fate::PullError));
        let destroyed = async {
            sleep(Duration::from_secs(5)).await;
            platform.happened(EventKind::AppDestroyed, &release(1, Fate::PullError));
            if announced {
                platform.world.deployer.announce_end(&shop().name).await.unwrap();
            }
            sleep(Duration::from_secs(20)).await;
        };
        platform.worker.run(destroyed).await;
        platform.worker.run_until_idle().await;
        assert_eq!(platform.world.state(&shop()).await, (Vec::new(), Vec::new()), "announced: {announced}");

        // Another app of the same name knows nothing of it.
        let mut anew = release(1, Fate::Run);
        anew.release.as_mut().unwrap().version = 7;
        platform.happened(EventKind::AppCreated, &anew);
        platform.happened(EventKind::ReleaseCreated, &anew);
        platform.worker.run_until_idle().await;
        assert_eq!(platform.ends().last().map(|end| (end.release, end.succeeded)), Some((7, true)));
    }
}
