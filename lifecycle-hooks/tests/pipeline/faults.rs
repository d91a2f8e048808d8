//! A worker that dies at every step, answers that are lost, and requests that are refused.

use std::sync::Arc;
use std::time::Duration;

use lifecycle_hooks::pipeline::{
    Deploy, DeployRecord, DeployState, Deployer, PipelineError, PipelineName, StageName, StageVerdict,
};
use scheduler_core::layer::{Chaos, ChaosOptions, ChaosScript, Mishap};
use scheduler_core::memory::Fate;
use scheduler_core::{FromOps, Kind};
use tokio::time::sleep;

use crate::support::{World, app, deploy, secrets, set_image, verdicts};

/// A second release: a good one, one that is bad in its last wave, and one whose job fails.
fn seconds() -> [(&'static str, scheduler_core::hooks::App); 3] {
    let mut bad = app(2);
    set_image(&mut bad, "web", &Fate::PullError.image("2"));
    let mut no_job = app(2);
    no_job.release.as_mut().unwrap().before[0].containers[0].image = Fate::Done { after: 1, exit_code: 1 }.image("2");
    [("good", app(2)), ("bad", bad), ("job fails", no_job)]
}

const PIPELINES: [PipelineName; 3] = [PipelineName::LaunchOnly, PipelineName::Canopus, PipelineName::Full];

/// A world in which the first release runs.
async fn begun(pipeline: PipelineName) -> World {
    let world = World::new();
    let record = world.deployer().deploy(deploy(app(1), pipeline)).await.unwrap();
    assert_eq!(record.state, DeployState::Succeeded);
    world
}

/// How a deploy ended, and what it left when all is quiet.
#[derive(Debug, PartialEq)]
struct Ended {
    state: DeployState,
    verdicts: Vec<(StageName, StageVerdict)>,
    objects: Vec<String>,
    workloads: Vec<String>,
    routed: Vec<String>,
}

async fn end(world: &World, record: &DeployRecord) -> Ended {
    sleep(Duration::from_secs(600)).await;
    let (objects, workloads) = world.state().await;
    // What died after its last step has nothing left to do.
    let done = |verdict| if verdict == StageVerdict::Skipped { StageVerdict::Succeeded } else { verdict };
    let verdicts = verdicts(record).into_iter().map(|(stage, verdict)| (stage, done(verdict))).collect();
    Ended { state: record.state.clone(), verdicts, objects, workloads, routed: world.routed() }
}

async fn undisturbed(pipeline: PipelineName, second: Deploy) -> (u64, Ended) {
    let world = begun(pipeline).await;
    world.trap.set(0, false);
    let record = world.deployer().deploy(second).await.unwrap();
    (world.trap.steps(), end(&world, &record).await)
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_dies_at_any_step_leaves_what_the_next_one_finishes() {
    for pipeline in PIPELINES {
        for (name, app) in seconds() {
            let second = || deploy(app.clone(), pipeline);
            let (steps, expected) = undisturbed(pipeline, second()).await;
            assert!(steps > 8, "{pipeline}, {name}: {steps} steps");
            for (step, after) in (1..=steps).flat_map(|step| [(step, false), (step, true)]) {
                let world = begun(pipeline).await;
                world.trap.set(step, after);
                let deployer = world.deployer();
                let died = world.deploy_until_trapped(&deployer, second()).await;
                // Where it waits how long for what is not the same each time, the last steps may not be reached.
                let same_worker = step % 2 == 0;
                let again = if same_worker { deployer } else { world.deployer() };
                let record = match died {
                    Some(ended) => ended.unwrap(),
                    None => again.deploy(second()).await.unwrap(),
                };
                let found = end(&world, &record).await;
                assert!(
                    found == expected,
                    "{pipeline}, {name}, step {step}/{steps} {after}: {found:#?}\n{expected:#?}"
                );
            }
        }
    }
}

/// Asks again until it has ended, as an outbox does.
async fn insist(deployer: &Deployer, deploy: &Deploy) -> DeployRecord {
    for _ in 0..50 {
        match deployer.deploy(deploy.clone()).await {
            Ok(record) => return record,
            Err(PipelineError::Unfinished { .. }) => sleep(Duration::from_secs(1)).await,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("it never ends");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_refused_or_whose_answer_is_lost_fails_no_release() {
    for pipeline in PIPELINES {
        for (name, app) in seconds() {
            let second = deploy(app, pipeline);
            let (_, expected) = undisturbed(pipeline, second.clone()).await;
            for (call, mishap) in (1..40).flat_map(|call| [(call, Mishap::Refuse), (call, Mishap::LoseAnswer)]) {
                let world = begun(pipeline).await;
                let chaos = Arc::new(Chaos::scripted(Arc::clone(&world.ops), ChaosScript::new().call(call, mishap)));
                let scheduler = Arc::new(FromOps::new(Arc::clone(&chaos) as _));
                let deployer = Deployer::new(scheduler, Arc::clone(&world.store)).secrets(secrets());
                let record = insist(&deployer, &second).await;
                // A clean-up is not tried again for an answer that is lost: it is shown, and the next one finds the rest.
                let cleaned = record.failures().iter().all(|failure| failure.stage != Some(StageName::CleanUp));
                let found = end(&world, &record).await;
                assert!(
                    found == expected || !cleaned,
                    "{pipeline}, {name}, call {call} {mishap:?}: {found:#?}\n{expected:#?}"
                );
                assert_eq!(
                    record.state == DeployState::Succeeded,
                    name == "good" || pipeline == PipelineName::LaunchOnly && name == "bad"
                );
                if chaos.calls() < call {
                    break;
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn among_many_failures_every_deploy_ends_as_it_should() {
    for seed in 0..40 {
        for pipeline in [PipelineName::Canopus, PipelineName::Full] {
            for (name, app) in seconds() {
                let world = begun(pipeline).await;
                let options = ChaosOptions::new(seed).refuse(100).lose_answer(100);
                let chaos = Arc::new(Chaos::seeded(Arc::clone(&world.ops), options));
                let deployer =
                    Deployer::new(Arc::new(FromOps::new(chaos)), Arc::clone(&world.store)).secrets(secrets());
                let record = insist(&deployer, &deploy(app, pipeline)).await;
                assert_eq!(record.state == DeployState::Succeeded, name == "good", "seed {seed}, {pipeline}, {name}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_roll_back_takes_the_present_formation() {
    let world = begun(PipelineName::Full).await;
    let mut bad = app(2);
    set_image(&mut bad, "web", &Fate::PullError.image("2"));
    bad.formation.insert("web".parse().unwrap(), 5);
    assert!(matches!(bad.release.as_ref().unwrap().processes[0].kind, Kind::Service(_)));
    world.deployer().deploy(deploy(bad, PipelineName::Full)).await.unwrap();
    assert!(world.state().await.1.iter().any(|line| line.starts_with("shop/web ") && line.ends_with(" 5")));
}
