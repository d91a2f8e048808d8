//! What happens to a release that is no good.

use lifecycle_hooks::pipeline::{
    DeployId, DeployOptions, DeployState, Evidence, PipelineName, StageName, StageVerdict, TakeBack,
};
use scheduler_core::memory::Fate;
use scheduler_core::{DiagnosisKind, Seconds, WaitOutcome};

use crate::support::{World, app, deploy, namespace, release, service, set_image, target, verdict};

#[tokio::test(start_paused = true)]
async fn a_bad_image_in_any_wave_takes_everything_back_and_is_named() {
    for process in ["worker", "web"] {
        let world = World::new();
        world.deployer().deploy(deploy(app(1), PipelineName::Full)).await.unwrap();
        let mut bad = app(2);
        set_image(&mut bad, process, &Fate::PullError.image("2"));
        release(&mut bad).processes.push(service("new", "x"));
        let record = world.deployer().deploy(deploy(bad, PipelineName::Full)).await.unwrap();
        assert_eq!(record.state, DeployState::Failed { rolled_back_to: Some(1) });
        let failures = record.failures();
        assert_eq!(failures.len(), 1);
        assert_eq!((failures[0].stage, &failures[0].target), (Some(StageName::RollOut), &Some(target(process))));
        let evidence = &record.stage(StageName::RollOut).unwrap().evidence;
        assert!(
            evidence
                .iter()
                .any(|evidence| matches!(evidence, Evidence::Waited { outcome: WaitOutcome::Failed(why), .. }
            if why[0].kind == DiagnosisKind::ImagePull))
        );
        for process in ["worker", "web"] {
            assert_eq!(world.release_of(process).await.as_deref(), Some("1"));
        }
        assert_eq!(world.release_of("new").await, None, "what only the bad release had is gone");
        assert_eq!(record.stage(StageName::CutOver), None, "requests never went elsewhere");
        assert_eq!(world.routed(), ["web"]);
        assert_eq!(world.cluster.instances(&namespace()).len(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn after_two_bad_releases_the_last_good_one_is_back() {
    let world = World::new();
    world.deployer().deploy(deploy(app(1), PipelineName::Full)).await.unwrap();
    for version in [2, 3] {
        let mut bad = app(version);
        set_image(&mut bad, "web", &Fate::Crash { after: 1, exit_code: 1 }.image("x"));
        let record = world.deployer().deploy(deploy(bad, PipelineName::Full)).await.unwrap();
        assert_eq!(record.state, DeployState::Failed { rolled_back_to: Some(1) });
        assert_eq!(record.good, Some(DeployId::new("release-1").unwrap()));
        assert_eq!(world.release_of("web").await.as_deref(), Some("1"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_stack_is_deleted_and_the_old_one_untouched() {
    let world = World::new();
    world.deployer().deploy(deploy(app(1), PipelineName::Canopus)).await.unwrap();
    let before = world.cluster.instances(&namespace());
    let mut bad = app(2);
    set_image(&mut bad, "worker", &Fate::PullError.image("2"));
    let record = world.deployer().deploy(deploy(bad, PipelineName::Canopus)).await.unwrap();
    assert_eq!(record.state, DeployState::Failed { rolled_back_to: Some(1) });
    assert_eq!(world.routed(), ["web--1--shop"]);
    assert_eq!(world.cluster.instances(&namespace()), before);
    let stack_2 = |name: &String| name.contains("--2--");
    assert!(!world.state().await.0.iter().any(stack_2), "{:?}", world.state().await.0);
}

#[tokio::test(start_paused = true)]
async fn deploying_a_good_stack_again_never_deletes_it() {
    let world = World::new();
    world.deployer().deploy(deploy(app(1), PipelineName::Canopus)).await.unwrap();
    let mut again = deploy(app(1), PipelineName::Canopus);
    again.id = DeployId::new("again").unwrap();
    // Released versions never change; one that does all the same is the platform's mistake.
    set_image(&mut again.app, "worker", &Fate::PullError.image("1"));
    let record = world.deployer().deploy(again).await.unwrap();
    assert_eq!(record.state, DeployState::Failed { rolled_back_to: Some(1) });
    assert_eq!(world.cluster.instances(&namespace()).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn processes_can_be_taken_back_one_by_one() {
    let world = World::new();
    world.deployer().deploy(deploy(app(1), PipelineName::Full)).await.unwrap();
    let mut bad = app(2);
    set_image(&mut bad, "worker", &Fate::PullError.image("2"));
    let options = DeployOptions::default().take_back(TakeBack::Each);
    let record = world.deployer().deploy(deploy(bad, PipelineName::Full).options(options)).await.unwrap();
    assert_eq!(record.state, DeployState::Failed { rolled_back_to: None }, "not all of it runs the last good release");
    assert_eq!(world.release_of("worker").await.as_deref(), Some("1"));
    assert_eq!(world.release_of("web").await.as_deref(), Some("2"), "the front wave was rolled out all the same");
}

#[tokio::test(start_paused = true)]
async fn the_first_release_has_nothing_to_go_back_to_and_the_next_one_repairs() {
    let world = World::new();
    let mut bad = app(1);
    set_image(&mut bad, "web", &Fate::PullError.image("1"));
    let record = world.deployer().deploy(deploy(bad, PipelineName::Full)).await.unwrap();
    assert_eq!(record.state, DeployState::Failed { rolled_back_to: None });
    assert_eq!(verdict(&record, StageName::RollBack), Some(StageVerdict::Skipped));
    assert_eq!(world.release_of("web").await.as_deref(), Some("1"));
    let record = world.deployer().deploy(deploy(app(2), PipelineName::Full)).await.unwrap();
    assert_eq!(record.state, DeployState::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn requests_go_back_when_the_release_fails_after_the_cut_over() {
    let world = World::new();
    world.deployer().deploy(deploy(app(1), PipelineName::Full)).await.unwrap();
    // Another front process, which crashes some time after it was ready.
    let mut bad = app(2);
    let mut other = service("other", &Fate::Run.image("2"));
    other.termination_grace = Seconds::new(1);
    release(&mut bad).processes.push(other);
    bad.front = Some(scheduler_core::hooks::Front::new("other".parse().unwrap(), "http"));
    let deployer = world.deployer().probe(std::sync::Arc::new(Blank));
    let record = deployer.deploy(deploy(bad, PipelineName::Full)).await.unwrap();
    assert_eq!(verdict(&record, StageName::CutOver), Some(StageVerdict::Succeeded));
    assert_eq!(record.state, DeployState::Failed { rolled_back_to: Some(1) });
    assert_eq!(world.routed(), ["web"]);
    assert_eq!(world.release_of("other").await, None);
}

#[derive(Debug)]
struct Blank;

#[async_trait::async_trait]
impl lifecycle_hooks::pipeline::DeployProbe for Blank {
    async fn probe(
        &self,
        _: &scheduler_core::hooks::App,
        _: &[scheduler_core::Target],
    ) -> Result<String, scheduler_core::hooks::HookError> {
        Err(scheduler_core::hooks::HookError::permanent("the page is blank"))
    }
}
