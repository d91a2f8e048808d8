//! Each event and report reaches the hook that it names, and a hook that is not implemented says so.

use super::*;
use crate::op::RunKey;
use crate::{Container, Namespace, Timestamp, Workload};

fn app() -> App {
    App::new(AppName::new("shop").unwrap(), Namespace::new("shop").unwrap())
}

fn target() -> Target {
    Target::new("shop", "web").unwrap()
}

/// One of each kind.
fn events() -> Vec<Event> {
    let (host, certificate) = ("shop.example".to_owned(), "main".to_owned());
    let job = Workload::job("shop", "migrate").container(Container::new("migrate", "shop/web:1"));
    let kinds = [
        EventKind::AppCreated,
        EventKind::AppTransferred { from: Some("team-a".into()) },
        EventKind::AppDestroyed,
        EventKind::PolicyChanged,
        EventKind::ConfigChanged,
        EventKind::RegistriesChanged,
        EventKind::ReleaseCreated,
        EventKind::FormationChanged { from: BTreeMap::new() },
        EventKind::RestartRequested { process: None },
        EventKind::RunRequested(Box::new(OneOff::new(RunKey::new("1").unwrap(), job))),
        EventKind::FrontChanged,
        EventKind::DomainAdded(Domain::new("shop.example")),
        EventKind::DomainRemoved(Domain::new("shop.example")),
        EventKind::CertificateAttached { host: host.clone(), certificate: certificate.clone() },
        EventKind::CertificateDetached { host, certificate },
        EventKind::VolumeCreated { name: "data".into() },
        EventKind::VolumeDeleted { name: "data".into(), volume: AppVolume::new("1Gi") },
        EventKind::Other { name: "invoice_sent".into(), data: Value::Null },
    ];
    kinds.map(|kind| Event::new(EventId::new("1"), Timestamp::from_millis(0), kind, app())).into()
}

/// One of each kind.
fn reports() -> Vec<Report> {
    let run = RunId::of(&target(), &RunKey::new("1").unwrap());
    vec![
        Report::AppGone,
        Report::CutOver { to: vec![target()] },
        Report::DeployEnded(DeployEnd::new(1, true)),
        Report::ReplicasChanged { target: target(), from: 1, to: 2 },
        Report::InstancesFailing { target: target(), diagnoses: Vec::new() },
        Report::RunEnded { run, outcome: WaitOutcome::Gone },
        Report::Drifted(Drift::new(target(), DriftKind::Missing)),
    ]
}

/// Expects exactly one call, of the hook of this name; mockall panics at any other.
#[cfg(feature = "mock")]
fn expecting(hook: HookName) -> MockLifecycleHooks {
    let mut mock = MockLifecycleHooks::new();
    macro_rules! expect {
        ($($name:ident $method:ident;)*) => {
            match hook {
                $(HookName::$name => { mock.$method().times(1).return_const(Ok(Outcome::Applied)); })*
                _ => panic!("{hook} is no hook of an event or a report"),
            }
        };
    }
    expect! {
        PostAppCreate expect_post_app_create;
        PostAppTransfer expect_post_app_transfer;
        PostPolicyChange expect_post_policy_change;
        PostAppDestroy expect_post_app_destroy;
        OnAppGone expect_on_app_gone;
        PostReleaseCreate expect_post_release_create;
        PostConfigChange expect_post_config_change;
        PostRegistryChange expect_post_registry_change;
        OnCutOver expect_on_cut_over;
        OnDeployEnd expect_on_deploy_end;
        PostFormationChange expect_post_formation_change;
        PostRestartRequest expect_post_restart_request;
        OnReplicasChange expect_on_replicas_change;
        OnInstancesFailing expect_on_instances_failing;
        PostRunRequest expect_post_run_request;
        OnRunEnd expect_on_run_end;
        PostFrontChange expect_post_front_change;
        PostDomainAdd expect_post_domain_add;
        PostDomainRemove expect_post_domain_remove;
        PostCertificateAttach expect_post_certificate_attach;
        PostCertificateDetach expect_post_certificate_detach;
        PostVolumeCreate expect_post_volume_create;
        PostVolumeDelete expect_post_volume_delete;
        OnDrift expect_on_drift;
        Other expect_other;
    }
    mock
}

#[cfg(feature = "mock")]
#[tokio::test]
async fn each_event_and_report_reaches_the_hook_that_it_names() {
    for event in events() {
        assert_eq!(event.tell(&expecting(event.hook())).await, Ok(Outcome::Applied));
    }
    for report in reports() {
        assert_eq!(report.tell(&app(), &expecting(report.hook())).await, Ok(Outcome::Applied));
    }
}

/// A set that implements nothing.
#[derive(Debug)]
struct Idle(Support);

#[async_trait]
impl LifecycleHooks for Idle {
    fn name(&self) -> &str {
        "idle"
    }

    fn supports(&self, _: HookName) -> Support {
        self.0.clone()
    }
}

/// What each hook of the set answers.
async fn answers(set: &Idle) -> Vec<(HookName, Result<Option<String>, HookError>)> {
    let mut answers = Vec::new();
    let reason = |outcome| match outcome {
        Outcome::NotSupported { reason } => Some(reason),
        _ => None,
    };
    for event in events() {
        answers.push((event.hook(), event.tell(set).await.map(reason)));
    }
    for report in reports() {
        answers.push((report.hook(), report.tell(&app(), set).await.map(reason)));
    }
    answers.push((HookName::ReconcileApp, set.reconcile_app(&app()).await.map(reason)));
    let domain = Domain::new("shop.example");
    for (hook, validation) in [
        (HookName::ValidateAppCreate, set.validate_app_create(&app()).await),
        (HookName::ValidateReleaseCreate, set.validate_release_create(&app()).await),
        (HookName::ValidateFormationChange, set.validate_formation_change(&app()).await),
        (HookName::ValidateDomainAdd, set.validate_domain_add(&app(), &domain).await),
        (HookName::ValidateCertificateAttach, set.validate_certificate_attach(&app(), "shop.example", "main").await),
        (HookName::ValidateVolumeCreate, set.validate_volume_create(&app(), "data").await),
    ] {
        let reason = validation.map(|validation| match validation {
            Validation::NotSupported { reason } => Some(reason),
            _ => None,
        });
        answers.push((hook, reason));
    }
    answers
}

#[tokio::test]
async fn what_is_not_implemented_is_declined_with_the_reason_that_the_set_gives() {
    let answers = answers(&Idle(Support::No("nobody asked".into()))).await;
    assert_eq!(
        answers.iter().map(|(hook, _)| *hook).collect::<std::collections::BTreeSet<_>>(),
        HookName::ALL.iter().copied().collect(),
        "every hook is tried here"
    );
    assert_eq!(answers.len(), HookName::ALL.len());
    for (hook, answer) in answers {
        assert_eq!(answer, Ok(Some("nobody asked".to_owned())), "{hook}");
    }
}

#[tokio::test]
async fn a_set_that_says_yes_and_does_nothing_is_found_out() {
    for (hook, answer) in answers(&Idle(Support::Yes)).await {
        let error = answer.unwrap_err();
        assert!(!error.retry && error.message.contains(hook.as_str()), "{error}");
    }
}

#[test]
fn names_are_those_of_the_methods_also_when_written() {
    for hook in HookName::ALL {
        assert_eq!(serde_json::to_value(hook).unwrap(), hook.as_str());
    }
}
