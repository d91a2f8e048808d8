//! A hook set for tests.

use std::collections::{BTreeMap, VecDeque};
use std::future::pending;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use scheduler_core::hooks::{
    App, AppVolume, DeployEnd, Domain, Drift, Event, HookError, HookName, LifecycleHooks, OneOff, Outcome, Report,
    Validation,
};
use scheduler_core::{Diagnosis, Fault, RunId, Support, Target, WaitOutcome, WorkloadName};
use serde_json::Value;

/// A hook set that writes down what it is told. It supports every hook; unless a [script](Self::script) says otherwise it
/// answers [`Applied`](Outcome::Applied) the first time that it is told an event, a report or to reconcile, and
/// [`AlreadyInState`](Outcome::AlreadyInState) to the same event again; it accepts every proposal. Clones share one record.
///
/// So a platform can test its own models: that a domain that is added is told once, after the commit, and one that is rolled
/// back never.
#[derive(Clone, Debug)]
pub struct Recorder {
    name: String,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    records: Vec<Recorded>,
    scripts: BTreeMap<HookName, VecDeque<Scripted>>,
}

/// Something that a [`Recorder`] was told, or asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recorded {
    /// An event.
    Event(Event),
    /// A report about this app.
    Report(App, Report),
    /// Whether a change may be committed; the app as it would be.
    Proposal(HookName, App),
    /// To reconcile this app.
    Reconcile(App),
}

impl Recorded {
    /// The hook.
    #[must_use]
    pub fn hook(&self) -> HookName {
        match self {
            Self::Event(event) => event.hook(),
            Self::Report(_, report) => report.hook(),
            Self::Proposal(hook, _) => *hook,
            Self::Reconcile(_) => HookName::ReconcileApp,
        }
    }

    /// The app.
    #[must_use]
    pub fn app(&self) -> &App {
        match self {
            Self::Event(event) => &event.app,
            Self::Report(app, _) | Self::Proposal(_, app) | Self::Reconcile(app) => app,
        }
    }
}

/// What a [`Recorder`] is to do when it is told something.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scripted {
    /// Answers this.
    Answer(Outcome),
    /// Fails with this.
    Fail(HookError),
    /// Vetoes a proposal for this reason. (It has nothing to say to what has happened already: that is applied.)
    Veto(String),
    /// Panics with this text, without a word on the standard error.
    Panic(String),
    /// Never answers.
    Hang,
}

impl Recorder {
    /// A set of this name that has been told nothing.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), state: Arc::default() }
    }

    /// What it does the next times that this hook is called, one after the other. Behind what was scripted before.
    #[must_use]
    pub fn script(self, hook: HookName, steps: impl IntoIterator<Item = Scripted>) -> Self {
        self.state().scripts.entry(hook).or_default().extend(steps);
        self
    }

    /// All that it was told, in order.
    #[must_use]
    pub fn records(&self) -> Vec<Recorded> {
        self.state().records.clone()
    }

    /// The hooks that were called, in order.
    #[must_use]
    pub fn hooks(&self) -> Vec<HookName> {
        self.state().records.iter().map(Recorded::hook).collect()
    }

    /// Forgets what it was told. Scripts stay.
    pub fn clear(&self) {
        self.state().records.clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down, and does what the script says. Also whether it was told the same before.
    async fn play(&self, record: Recorded) -> Result<(Option<Scripted>, bool), HookError> {
        let (step, again) = {
            let mut state = self.state();
            let again = matches!(record, Recorded::Event(_)) && state.records.contains(&record);
            let step = state.scripts.get_mut(&record.hook()).and_then(VecDeque::pop_front);
            state.records.push(record);
            (step, again)
        };
        match step {
            Some(Scripted::Hang) => pending().await,
            Some(Scripted::Panic(words)) => resume_unwind(Box::new(words)),
            Some(Scripted::Fail(error)) => Err(error),
            step => Ok((step, again)),
        }
    }

    async fn told(&self, record: Recorded) -> Result<Outcome, HookError> {
        match self.play(record).await? {
            (Some(Scripted::Answer(outcome)), _) => Ok(outcome),
            (_, again) => Ok(Outcome::of(!again)),
        }
    }

    async fn event(&self, event: &Event) -> Result<Outcome, HookError> {
        self.told(Recorded::Event(event.clone())).await
    }

    async fn report(&self, app: &App, report: Report) -> Result<Outcome, HookError> {
        self.told(Recorded::Report(app.clone(), report)).await
    }

    async fn asked(&self, hook: HookName, app: &App) -> Result<Validation, HookError> {
        match self.play(Recorded::Proposal(hook, app.clone())).await?.0 {
            Some(Scripted::Veto(problem)) => Ok(Validation::Vetoed(vec![Fault::new(hook.as_str(), problem)])),
            Some(Scripted::Answer(Outcome::NotSupported { reason })) => Ok(Validation::NotSupported { reason }),
            _ => Ok(Validation::Accepted),
        }
    }
}

/// Every hook, each handed on to one of the three above: the trait has to be written out so that none falls to its default.
#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl LifecycleHooks for Recorder {
    fn name(&self) -> &str {
        &self.name
    }

    fn supports(&self, _: HookName) -> Support {
        Support::Yes
    }

    async fn validate_app_create(&self, app: &App) -> Result<Validation, HookError> {
        self.asked(HookName::ValidateAppCreate, app).await
    }

    async fn validate_release_create(&self, app: &App) -> Result<Validation, HookError> {
        self.asked(HookName::ValidateReleaseCreate, app).await
    }

    async fn validate_formation_change(&self, app: &App) -> Result<Validation, HookError> {
        self.asked(HookName::ValidateFormationChange, app).await
    }

    async fn validate_domain_add(&self, app: &App, _: &Domain) -> Result<Validation, HookError> {
        self.asked(HookName::ValidateDomainAdd, app).await
    }

    async fn validate_certificate_attach(&self, app: &App, _: &str, _: &str) -> Result<Validation, HookError> {
        self.asked(HookName::ValidateCertificateAttach, app).await
    }

    async fn validate_volume_create(&self, app: &App, _: &str) -> Result<Validation, HookError> {
        self.asked(HookName::ValidateVolumeCreate, app).await
    }

    async fn post_app_create(&self, event: &Event) -> Result<Outcome, HookError> {
        self.event(event).await
    }

    async fn post_app_transfer<'a>(&self, event: &Event, _: Option<&'a str>) -> Result<Outcome, HookError> {
        self.event(event).await
    }

    async fn post_policy_change(&self, event: &Event) -> Result<Outcome, HookError> {
        self.event(event).await
    }

    async fn post_app_destroy(&self, event: &Event) -> Result<Outcome, HookError> {
        self.event(event).await
    }

    async fn post_release_create(&self, event: &Event) -> Result<Outcome, HookError> {
        self.event(event).await
    }

    async fn post_config_change(&self, event: &Event) -> Result<Outcome, HookError> {
        self.event(event).await
    }

    async fn post_registry_change(&self, event: &Event) -> Result<Outcome, HookError> {
        self.event(event).await
    }

    async fn post_formation_change(
        &self,
        event: &Event,
        _: &BTreeMap<WorkloadName, u32>,
    ) -> Result<Outcome, HookError> {
        self.event(event).await
    }

    async fn post_restart_request<'a>(&self, event: &Event, _: Option<&'a WorkloadName>) -> Result<Outcome, HookError> {
        self.event(event).await
    }

    async fn post_run_request(&self, event: &Event, _: &OneOff) -> Result<Outcome, HookError> {
        self.event(event).await
    }

    async fn post_front_change(&self, event: &Event) -> Result<Outcome, HookError> {
        self.event(event).await
    }

    async fn post_domain_add(&self, event: &Event, _: &Domain) -> Result<Outcome, HookError> {
        self.event(event).await
    }

    async fn post_domain_remove(&self, event: &Event, _: &Domain) -> Result<Outcome, HookError> {
        self.event(event).await
    }

    async fn post_certificate_attach(&self, event: &Event, _: &str, _: &str) -> Result<Outcome, HookError> {
        self.event(event).await
    }

    async fn post_certificate_detach(&self, event: &Event, _: &str, _: &str) -> Result<Outcome, HookError> {
        self.event(event).await
    }

    async fn post_volume_create(&self, event: &Event, _: &str) -> Result<Outcome, HookError> {
        self.event(event).await
    }

    async fn post_volume_delete(&self, event: &Event, _: &str, _: &AppVolume) -> Result<Outcome, HookError> {
        self.event(event).await
    }

    async fn other(&self, event: &Event, _: &str, _: &Value) -> Result<Outcome, HookError> {
        self.event(event).await
    }

    async fn on_app_gone(&self, app: &App) -> Result<Outcome, HookError> {
        self.report(app, Report::AppGone).await
    }

    async fn on_cut_over(&self, app: &App, to: &[Target]) -> Result<Outcome, HookError> {
        self.report(app, Report::CutOver { to: to.to_vec() }).await
    }

    async fn on_deploy_end(&self, app: &App, end: &DeployEnd) -> Result<Outcome, HookError> {
        self.report(app, Report::DeployEnded(end.clone())).await
    }

    async fn on_replicas_change(&self, app: &App, target: &Target, from: u32, to: u32) -> Result<Outcome, HookError> {
        self.report(app, Report::ReplicasChanged { target: target.clone(), from, to }).await
    }

    async fn on_instances_failing(
        &self,
        app: &App,
        target: &Target,
        diagnoses: &[Diagnosis],
    ) -> Result<Outcome, HookError> {
        let (target, diagnoses) = (target.clone(), diagnoses.to_vec());
        self.report(app, Report::InstancesFailing { target, diagnoses }).await
    }

    async fn on_run_end(&self, app: &App, run: &RunId, outcome: &WaitOutcome) -> Result<Outcome, HookError> {
        self.report(app, Report::RunEnded { run: run.clone(), outcome: outcome.clone() }).await
    }

    async fn on_drift(&self, app: &App, drift: &Drift) -> Result<Outcome, HookError> {
        self.report(app, Report::Drifted(drift.clone())).await
    }

    async fn reconcile_app(&self, app: &App) -> Result<Outcome, HookError> {
        self.told(Recorded::Reconcile(app.clone())).await
    }
}
