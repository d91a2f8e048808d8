//! What the stages do, when all goes well and when one of them fails.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use lifecycle_hooks::deliver::{Deadlines, HookSets};
use lifecycle_hooks::pipeline::{
    DeployObserver, DeployOptions, DeployProbe, DeployProgress, DeployState, Evidence, PipelineError, PipelineName,
    StageName, StageVerdict,
};
use scheduler_core::hooks::{
    App, DeployEnd, HookError, HookName, LifecycleHooks, MockLifecycleHooks, Outcome, SecretRef,
};
use scheduler_core::memory::Fate;
use scheduler_core::{Change, Expose, Launch, OpName, Route, Seconds, Support, Target, WaitOutcome};

use crate::support::{
    World, app, deploy, good_image, job, namespace, release, service, set_image, target, verdict, verdicts,
};

use StageName as S;
use StageVerdict::{Failed, Skipped, Succeeded};

#[tokio::test(start_paused = true)]
async fn a_full_deploy_rolls_out_in_waves_and_cuts_over_last() {
    let world = World::new();
    let record = world.deployer().deploy(deploy(app(1), PipelineName::Full)).await.unwrap();
    assert_eq!(record.state, DeployState::Succeeded);
    let expected = [
        (S::Prepare, Succeeded),
        (S::Before, Succeeded),
        (S::RollOut, Succeeded),
        (S::CutOver, Succeeded),
        (S::Verify, Succeeded),
        (S::CleanUp, Skipped),
    ];
    assert_eq!(verdicts(&record), expected);
    assert_eq!(record.failures(), []);
    let ops = world.trap.ops.lock().unwrap().clone();
    let at = |op: OpName, name: &str| ops.iter().position(|done| *done == (op, Some(target(name)))).unwrap();
    let waited = ops.iter().rposition(|done| *done == (OpName::Status, Some(target("worker")))).unwrap();
    assert!(at(OpName::Run, "migrate") < at(OpName::Launch, "worker"));
    assert!(at(OpName::Launch, "worker") < at(OpName::Launch, "web"), "the front process comes last");
    assert!(at(OpName::Launch, "web") < at(OpName::Expose, "web"));
    assert!(waited > at(OpName::Launch, "worker"));
    assert_eq!(world.cluster.instances(&namespace()).len(), 3, "two of web by the formation, one of worker");
    // A deploy that is over answers its record, and touches nothing.
    world.trap.ops.lock().unwrap().clear();
    let again = world.deployer().deploy(deploy(app(1), PipelineName::Full)).await.unwrap();
    assert_eq!(again, record);
    assert!(world.trap.ops.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_process_that_is_no_more_goes_when_all_else_has_succeeded() {
    let world = World::new();
    world.deployer().deploy(deploy(app(1), PipelineName::Full)).await.unwrap();
    let without_worker = |version: u64| {
        let mut app = app(version);
        release(&mut app).processes.pop();
        app
    };
    let mut bad = without_worker(2);
    set_image(&mut bad, "web", &Fate::PullError.image("2"));
    let record = world.deployer().deploy(deploy(bad, PipelineName::Full)).await.unwrap();
    assert_eq!(record.state, DeployState::Failed { rolled_back_to: Some(1) });
    assert_eq!(world.release_of("worker").await.as_deref(), Some("1"));
    let record = world.deployer().deploy(deploy(without_worker(3), PipelineName::Full)).await.unwrap();
    assert_eq!(record.state, DeployState::Succeeded);
    assert_eq!(world.release_of("worker").await, None);
    let runs = |ops: &[String]| ops.iter().filter(|name| name.starts_with("Workload/migrate-run-")).count();
    assert_eq!(runs(&world.state().await.0), 1, "runs of earlier deploys are gone");
}

#[tokio::test(start_paused = true)]
async fn launch_only_waits_for_nothing() {
    let world = World::new();
    let mut app = app(1);
    set_image(&mut app, "worker", &Fate::PullError.image("1"));
    let record = world.deployer().deploy(deploy(app, PipelineName::LaunchOnly)).await.unwrap();
    assert_eq!(record.state, DeployState::Succeeded);
    let expected = [(S::Prepare, Succeeded), (S::Before, Succeeded), (S::Launch, Succeeded), (S::CutOver, Succeeded)];
    assert_eq!(verdicts(&record), expected);
}

#[tokio::test(start_paused = true)]
async fn canopus_shifts_the_requests_to_the_new_stack_and_retires_the_old() {
    let world = World::new();
    let first = world.deployer().deploy(deploy(app(1), PipelineName::Canopus)).await.unwrap();
    assert_eq!(first.state, DeployState::Succeeded, "{:?}", first.failures());
    assert_eq!(world.routed(), ["web--1--shop"]);
    let second = world.deployer().deploy(deploy(app(2), PipelineName::Canopus)).await.unwrap();
    assert_eq!(second.state, DeployState::Succeeded, "{:?}", second.failures());
    assert_eq!(world.routed(), ["web--2--shop"]);
    let exposed = Evidence::Exposed {
        target: target("web--2--shop"),
        hosts: vec!["shop.example".into()],
        from: Some(target("web--1--shop")),
    };
    assert_eq!(second.stage(S::CutOver).unwrap().evidence, [exposed]);
    assert_eq!(world.release_of("web--1--shop").await, None);
    assert_eq!(world.release_of("worker--1--shop").await, None);
    assert_eq!(world.release_of("worker--2--shop").await.as_deref(), Some("2"));
}

#[tokio::test(start_paused = true)]
async fn pipelines_can_be_changed_from_release_to_release() {
    let world = World::new();
    for (version, pipeline) in [(1, PipelineName::Full), (2, PipelineName::Canopus), (3, PipelineName::Full)] {
        let record = world.deployer().deploy(deploy(app(version), pipeline)).await.unwrap();
        assert_eq!(record.state, DeployState::Succeeded, "{:?}", record.failures());
    }
    assert_eq!(world.routed(), ["web"]);
    assert_eq!(world.cluster.instances(&namespace()).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_fails_or_never_starts_stops_the_deploy_before_the_roll_out() {
    for (fate, exit) in [(Fate::Done { after: 1, exit_code: 3 }, Some(3)), (Fate::PullError, None)] {
        let world = World::new();
        world.deployer().deploy(deploy(app(1), PipelineName::Full)).await.unwrap();
        let mut bad = app(2);
        release(&mut bad).before = vec![job("migrate", &fate.image("2")), job("second", "x")];
        let record = world.deployer().deploy(deploy(bad, PipelineName::Full)).await.unwrap();
        assert_eq!(record.state, DeployState::Failed { rolled_back_to: None });
        assert_eq!(verdicts(&record), [(S::Prepare, Succeeded), (S::Before, Failed)]);
        let ran = record.stage(S::Before).unwrap().evidence.iter().find_map(|evidence| match evidence {
            Evidence::Ran { outcome, exit, .. } => Some((outcome.clone(), *exit)),
            _ => None,
        });
        let (outcome, ended) = ran.unwrap();
        assert!(matches!(outcome, WaitOutcome::Failed(_)), "{outcome:?}");
        assert_eq!(ended.map(|exit| exit.code), exit);
        assert_eq!(world.release_of("web").await.as_deref(), Some("1"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_takes_too_long_fails_and_does_not_go_on() {
    let world = World::new();
    let mut slow = app(1);
    release(&mut slow).before = vec![job("migrate", &Fate::Done { after: 500, exit_code: 0 }.image("1"))];
    let options = DeployOptions::default().job(Seconds::new(60));
    let record = world.deployer().deploy(deploy(slow, PipelineName::Full).options(options)).await.unwrap();
    assert_eq!(record.state, DeployState::Failed { rolled_back_to: None });
    assert!(matches!(
        record.stage(S::Before).unwrap().evidence.as_slice(),
        [
            Evidence::Stored { .. },
            Evidence::Ran { outcome: WaitOutcome::Stalled(_) | WaitOutcome::DeadlineExceeded(_), .. },
            Evidence::Deleted { .. }
        ]
    ));
    assert_eq!(world.cluster.instances(&namespace()), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_is_a_failure() {
    let world = World::new();
    let mut slow = app(1);
    set_image(&mut slow, "web", &Fate::Slow { after: 1000 }.image("1"));
    release(&mut slow).processes[0].progress_deadline = Seconds::new(5000);
    let options = DeployOptions::default().wait(Seconds::new(300), Seconds::new(300));
    let record = world.deployer().deploy(deploy(slow, PipelineName::Full).options(options)).await.unwrap();
    assert_eq!(record.state, DeployState::Failed { rolled_back_to: None });
    assert_eq!(verdict(&record, S::RollOut), Some(Failed));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_deployed_fails_before_anything_is_done() {
    let mut without_front = app(1);
    release(&mut without_front).processes.remove(0);
    let mut bad_workload = app(1);
    release(&mut bad_workload).processes[1].containers[0].image = String::new();
    let mut no_secret = app(1);
    release(&mut no_secret).config.insert("OTHER".into(), SecretRef::new("nobody has it"));
    for (app, about) in [(without_front, "web"), (bad_workload, "image"), (no_secret, "OTHER")] {
        let world = World::new();
        let record = world.deployer().deploy(deploy(app, PipelineName::Full)).await.unwrap();
        assert_eq!(record.state, DeployState::Failed { rolled_back_to: None });
        assert_eq!(verdicts(&record), [(S::Prepare, Failed)]);
        let failures = record.failures();
        assert!(failures.len() == 1 && failures[0].what.contains(about), "{failures:?}");
        assert_eq!(world.cluster.objects(&namespace()), []);
    }
    let mut nothing = app(1);
    nothing.release = None;
    let world = World::new();
    let deploy = lifecycle_hooks::pipeline::Deploy::new(
        lifecycle_hooks::pipeline::DeployId::new("x").unwrap(),
        nothing,
        PipelineName::Full,
    );
    assert!(matches!(world.deployer().deploy(deploy).await, Err(PipelineError::NoRelease { .. })));
}

/// Somebody's workload, on which a clean-up meets an error.
#[tokio::test(start_paused = true)]
async fn a_clean_up_that_fails_is_shown_and_changes_nothing() {
    let world = World::new();
    let mut first = app(1);
    release(&mut first).processes.push(service("stubborn", &Fate::Stubborn.image("1")));
    release(&mut first).processes[2].termination_grace = Seconds::new(3600);
    world.deployer().deploy(deploy(first, PipelineName::Full)).await.unwrap();
    let options = DeployOptions::default().clean_up(Seconds::new(10));
    let record = world.deployer().deploy(deploy(app(2), PipelineName::Full).options(options)).await.unwrap();
    assert_eq!(record.state, DeployState::Succeeded);
    assert_eq!(verdict(&record, S::CleanUp), Some(Failed));
    let failures = record.failures();
    assert_eq!((failures.len(), failures[0].stage), (1, Some(S::CleanUp)));
    assert_eq!(failures[0].target, Some(target("stubborn")));
}

#[tokio::test(start_paused = true)]
async fn a_route_that_another_app_has_fails_the_cut_over_and_takes_the_release_back() {
    let world = World::new();
    world.deployer().deploy(deploy(app(1), PipelineName::Full)).await.unwrap();
    let mut other = service("other", "x");
    other.namespace = namespace().to_string();
    world.scheduler().launch(Launch::new(other.check().unwrap())).await.unwrap();
    world.scheduler().expose(Expose::new(target("other"), [Route::new("taken.example", "http")])).await.unwrap();
    let mut second = app(2);
    second.domains.push(scheduler_core::hooks::Domain::new("taken.example"));
    let record = world.deployer().deploy(deploy(second, PipelineName::Full)).await.unwrap();
    assert_eq!(verdict(&record, S::CutOver), Some(Failed));
    assert_eq!(world.release_of("web").await.as_deref(), Some("1"));
    assert_eq!(record.state, DeployState::Failed { rolled_back_to: Some(1) });
    assert_eq!(world.routed(), ["other", "web"]);
}

#[derive(Debug, Default)]
struct Watcher(Mutex<Vec<String>>);

impl DeployObserver for Watcher {
    fn saw(&self, progress: &DeployProgress<'_>) {
        let line = match progress {
            DeployProgress::Stage { report, .. } => format!("{} {:?}", report.stage, report.verdict),
            DeployProgress::Seen { observation, .. } => format!("seen {}", observation.target),
            DeployProgress::Ended(record) => format!("{:?}", record.state),
            _ => return,
        };
        let mut lines = self.0.lock().unwrap();
        if lines.last() != Some(&line) {
            lines.push(line);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_is_shown_stages_and_processes_as_they_come() {
    let (world, watcher) = (World::new(), Arc::new(Watcher::default()));
    let deployer = world.deployer().observer(std::sync::Arc::<Watcher>::clone(&watcher));
    let mut app = app(1);
    release(&mut app).processes.pop();
    release(&mut app).before.clear();
    deployer.deploy(deploy(app, PipelineName::Canopus)).await.unwrap();
    let expected = [
        "prepare None",
        "prepare Some(Succeeded)",
        "before None",
        "before Some(Skipped)",
        "launch None",
        "launch Some(Succeeded)",
        "await None",
        "seen shop/web--1--shop",
        "await Some(Succeeded)",
        "cut-over None",
        "cut-over Some(Succeeded)",
        "clean-up None",
        "clean-up Some(Skipped)",
        "Succeeded",
    ];
    assert_eq!(*watcher.0.lock().unwrap(), expected);
}

/// A set that is told of cut-overs and ends, and answers a cut-over so.
fn hooks(name: &str, ends: &Arc<Mutex<Vec<DeployEnd>>>, answer: Result<Outcome, HookError>) -> Arc<dyn LifecycleHooks> {
    let mut set = MockLifecycleHooks::new();
    set.expect_name().return_const(name.to_owned());
    set.expect_supports().returning(|hook| match hook {
        HookName::OnCutOver | HookName::OnDeployEnd => Support::Yes,
        _ => Support::No("not this one".into()),
    });
    set.expect_on_cut_over().returning(move |_, _| answer.clone());
    let ends = Arc::clone(ends);
    set.expect_on_deploy_end().returning(move |_, end| {
        ends.lock().unwrap().push(end.clone());
        Ok(Outcome::Applied)
    });
    Arc::new(set)
}

#[tokio::test(start_paused = true)]
async fn every_set_that_fails_the_cut_over_is_named_and_the_deploy_has_failed() {
    let (world, ends) = (World::new(), Arc::default());
    world.deployer().deploy(deploy(app(1), PipelineName::Full)).await.unwrap();
    let refuses = |name: &str| hooks(name, &ends, Err(HookError::permanent("no")));
    let sets = vec![hooks("front", &ends, Ok(Outcome::Applied)), refuses("router"), refuses("mailer")];
    let deployer = world.deployer().hooks(HookSets::new(sets).unwrap(), Deadlines::default());
    let record = deployer.deploy(deploy(app(2), PipelineName::Full)).await.unwrap();
    assert_eq!(verdict(&record, S::CutOver), Some(Failed));
    assert_ne!(record.state, DeployState::Succeeded);
    let failures: Vec<_> = record.failures().into_iter().filter(|f| f.stage == Some(S::CutOver)).collect();
    assert!(failures.len() == 2 && failures[0].what.contains("router") && failures[1].what.contains("mailer"));
    let ends = ends.lock().unwrap();
    assert!(ends.len() == 3 && ends.iter().all(|end| !end.succeeded && end.release == 2 && end.reason.is_some()));
}

#[tokio::test(start_paused = true)]
async fn a_set_that_defers_the_cut_over_is_told_again_when_the_deploy_is() {
    let (world, ends) = (World::new(), Arc::default());
    let wait = Outcome::Deferred { after: std::time::Duration::from_secs(1), reason: "a certificate".into() };
    let with = |answer| {
        let sets = HookSets::new(vec![hooks("front", &ends, answer)]).unwrap();
        world.deployer().hooks(sets, Deadlines::default())
    };
    let error = with(Ok(wait)).deploy(deploy(app(1), PipelineName::Full)).await.unwrap_err();
    assert!(matches!(&error, PipelineError::Unfinished { stage: S::CutOver, .. }), "{error}");
    assert!(HookError::from(error).retry);
    let record = with(Ok(Outcome::Applied)).deploy(deploy(app(1), PipelineName::Full)).await.unwrap();
    assert_eq!(record.state, DeployState::Succeeded);
    assert_eq!(*ends.lock().unwrap(), [DeployEnd::new(1, true)]);
}

#[derive(Debug)]
struct Smoke;

#[async_trait]
impl DeployProbe for Smoke {
    async fn probe(&self, app: &App, processes: &[Target]) -> Result<String, HookError> {
        match app.release.as_ref().unwrap().version {
            1 => Ok(format!("{} processes answer", processes.len())),
            _ => Err(HookError::permanent("the page is blank")),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_callers_probe_is_part_of_the_verification() {
    let world = World::new();
    let deployer = world.deployer().probe(Arc::new(Smoke));
    let good = deployer.deploy(deploy(app(1), PipelineName::Full)).await.unwrap();
    assert!(good.stage(S::Verify).unwrap().evidence.contains(&Evidence::Probed { saw: "2 processes answer".into() }));
    let bad = deployer.deploy(deploy(app(2), PipelineName::Full)).await.unwrap();
    assert_eq!(bad.state, DeployState::Failed { rolled_back_to: Some(1) });
    assert_eq!(verdict(&bad, S::Verify), Some(Failed));
    assert_eq!(world.release_of("web").await.as_deref(), Some("1"));
    assert!(!bad.stage(S::Verify).unwrap().evidence.iter().any(|e| matches!(e, Evidence::MarkedHealthy { .. })));
}

#[tokio::test(start_paused = true)]
async fn the_same_content_again_replaces_no_instance() {
    let world = World::new();
    world.deployer().deploy(deploy(app(1), PipelineName::Full)).await.unwrap();
    let again = lifecycle_hooks::pipeline::Deploy::new(
        lifecycle_hooks::pipeline::DeployId::new("again").unwrap(),
        app(1),
        PipelineName::Full,
    );
    let before = world.cluster.instances(&namespace());
    let record = world.deployer().deploy(again).await.unwrap();
    let launched = record.stage(S::RollOut).unwrap().evidence.iter().filter_map(|evidence| match evidence {
        Evidence::Launched { change, .. } => Some(*change),
        _ => None,
    });
    assert_eq!(launched.collect::<Vec<_>>(), [Change::Unchanged; 2]);
    assert_eq!(world.cluster.instances(&namespace()), before);
    assert_eq!(good_image(1), app(1).release.unwrap().processes[0].containers[0].image);
}
