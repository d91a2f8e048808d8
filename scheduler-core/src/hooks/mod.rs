//! Hooks on a platform's models: what happens to an app, told to whoever makes it so.
//!
//! A platform's models (app, release, domain, certificate …) must not know what a namespace or an ingress is. They say what
//! happened: an [`Event`], which is data and holds the whole state that the [`App`] is to be in. [`LifecycleHooks`] are
//! observers of such events. Each backend implements those that mean something there and declines the others with a reason,
//! which whoever asks can see.
//!
//! This module has what hooks and models share. The crate `lifecycle-hooks` delivers events: in order, at least once, through
//! an outbox in the models' own database. It also has hooks over any [`Scheduler`](crate::Scheduler), deploy pipelines and
//! reconciliation.
//!
//! ```
//! use async_trait::async_trait;
//! use scheduler_core::Support;
//! use scheduler_core::hooks::{Event, HookError, HookName, LifecycleHooks, Outcome};
//!
//! /// Tells the billing system about apps.
//! #[derive(Debug)]
//! struct Billing;
//!
//! #[async_trait]
//! impl LifecycleHooks for Billing {
//!     fn name(&self) -> &str {
//!         "billing"
//!     }
//!
//!     fn supports(&self, hook: HookName) -> Support {
//!         match hook {
//!             HookName::PostAppCreate => Support::Yes,
//!             _ => Support::No("it is not billed".into()),
//!         }
//!     }
//!
//!     async fn post_app_create(&self, event: &Event) -> Result<Outcome, HookError> {
//!         println!("{} has {}", event.app.tenant.as_deref().unwrap_or("nobody"), event.app.name);
//!         Ok(Outcome::Applied)
//!     }
//! }
//! ```

mod app;
mod event;
mod hook;
mod outcome;
mod report;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Debug;

use async_trait::async_trait;
use serde_json::Value;

pub use app::{
    App, AppVolume, Certificate, Domain, Front, Isolation, Policy, Quota, RegistryCredentials, Release, SecretRef,
};
pub use event::{Event, EventId, EventKind, OneOff};
pub use hook::HookName;
pub use outcome::{HookError, Outcome, SecretSource, Validation};
pub use report::{DeployEnd, Drift, DriftKind, Report};

pub use crate::name::AppName;

use crate::capability::Support;
use crate::diagnosis::Diagnosis;
use crate::ext::WaitOutcome;
use crate::name::{Target, WorkloadName};
use crate::op::RunId;

/// A set of hooks: what model events mean in one place (a backend, a biller, a mailer).
///
/// # For all hooks
///
/// * **Names are facts of the model.** `validate_*` only read, and may veto a change before it is committed. `post_*` run
///   after the commit. `on_*` report what a backend saw. `reconcile_app` needs no event.
/// * **The whole state.** Each is given the app as it is to be. A hook makes things be so (*ensure*); it never edits what
///   it supposes to be there.
/// * **At least once, in order.** `post_*` are told again after a failure or a crash, and one app's events in their order,
///   the next one only after this one has succeeded. So **each must be idempotent**: told again after it was done, also
///   in part, it answers [`AlreadyInState`](Outcome::AlreadyInState) or does the rest.
/// * **Visible absence.** A hook that is not implemented answers [`NotSupported`](Outcome::NotSupported) with the reason
///   that [`supports`](Self::supports) gives.
/// * **Cancel safe.** A deadline drops the future; the next telling must repair what was left.
/// * **No undoing.** An error leaves things as they are. What was made for nothing is taken by reconciliation.
///
/// # Errors
/// Each fails with a [`HookError`], which says whether to tell it again by itself or to wait for somebody to mend it.
#[cfg_attr(feature = "mock", mockall::automock)]
#[async_trait]
pub trait LifecycleHooks: Debug + Send + Sync + 'static {
    /// The name of the set, for people and for records. One word, the same at each start.
    fn name(&self) -> &str;

    /// Whether this set does anything about a hook, or why not. Fixed when it was built.
    fn supports(&self, hook: HookName) -> Support;

    // ---- the app ----

    /// * **When**: before a new app is committed.
    /// * **Information**: the app that is to be.
    /// * **Vetoes**: the namespace is somebody else's, or is being deleted.
    async fn validate_app_create(&self, app: &App) -> Result<Validation, HookError> {
        let _ = app;
        declined_validation(self.supports(HookName::ValidateAppCreate), HookName::ValidateAppCreate)
    }

    /// * **When**: a new app is committed. The first event of an app.
    /// * **Information**: the app; it may have everything but a release already.
    /// * **Errors**: a namespace of that name is being deleted (transient).
    /// * **Idempotent**: it makes what is missing of the app's surroundings and leaves the rest.
    async fn post_app_create(&self, event: &Event) -> Result<Outcome, HookError> {
        declined(self.supports(event.hook()), event.hook(), &event.app)
    }

    /// * **When**: the app belongs to somebody else now.
    /// * **Information**: [`App::tenant`], and whose it was.
    /// * **Idempotent**: marks of the tenant are set, not exchanged.
    async fn post_app_transfer<'a>(&self, event: &Event, from: Option<&'a str>) -> Result<Outcome, HookError> {
        let _ = from;
        declined(self.supports(event.hook()), event.hook(), &event.app)
    }

    /// * **When**: the quota or the isolation of the app changed.
    /// * **Information**: [`App::policy`].
    /// * **Errors**: the backend refuses the quota (permanent).
    /// * **Idempotent**: bounds are absolute.
    async fn post_policy_change(&self, event: &Event) -> Result<Outcome, HookError> {
        declined(self.supports(event.hook()), event.hook(), &event.app)
    }

    /// * **When**: the app is no more. The last event of an app; nothing is told of it afterwards.
    /// * **Information**: the app as it was.
    /// * **Answers**: [`Deferred`](Outcome::Deferred) while instances end: an app is gone when nothing of it is left, not when
    ///   its end was asked for.
    /// * **Idempotent**: what is gone already is [`AlreadyInState`](Outcome::AlreadyInState).
    async fn post_app_destroy(&self, event: &Event) -> Result<Outcome, HookError> {
        declined(self.supports(event.hook()), event.hook(), &event.app)
    }

    /// * **When**: every set has answered [`post_app_destroy`](Self::post_app_destroy) without deferring it.
    /// * **Information**: the app as it was.
    async fn on_app_gone(&self, app: &App) -> Result<Outcome, HookError> {
        declined(self.supports(HookName::OnAppGone), HookName::OnAppGone, app)
    }

    // ---- releases ----

    /// * **When**: before a new release is committed.
    /// * **Information**: the app with the release that is to be in [`App::release`].
    /// * **Vetoes**: a workload that does not pass its check, or needs what the backend has not.
    async fn validate_release_create(&self, app: &App) -> Result<Validation, HookError> {
        let _ = app;
        declined_validation(self.supports(HookName::ValidateReleaseCreate), HookName::ValidateReleaseCreate)
    }

    /// * **When**: a new release is committed; a rollback is one too.
    /// * **Information**: [`App::release`], the formation, the domains.
    /// * **Errors**: a release that does not become healthy is *not* an error of the hook: the deploy has a verdict of its
    ///   own ([`on_deploy_end`](Self::on_deploy_end)). An error means that it could not be tried.
    /// * **Idempotent**: told again, the deploy goes on where it was, or its verdict stands.
    async fn post_release_create(&self, event: &Event) -> Result<Outcome, HookError> {
        declined(self.supports(event.hook()), event.hook(), &event.app)
    }

    /// * **When**: the configuration changed; the release that uses it may follow.
    /// * **Information**: [`App::config`], as references.
    /// * **Errors**: a secret cannot be read.
    /// * **Idempotent**: configurations are immutable and named by their content.
    async fn post_config_change(&self, event: &Event) -> Result<Outcome, HookError> {
        declined(self.supports(event.hook()), event.hook(), &event.app)
    }

    /// * **When**: the registries of the app or their credentials changed.
    /// * **Information**: [`App::registries`].
    /// * **Errors**: a secret cannot be read.
    /// * **Idempotent**: the credentials are written whole.
    async fn post_registry_change(&self, event: &Event) -> Result<Outcome, HookError> {
        declined(self.supports(event.hook()), event.hook(), &event.app)
    }

    /// * **When**: a deploy's processes are ready, and before anything of the last release is taken away.
    /// * **Information**: the app, and where requests are to go: the workloads that the routes lead to now.
    /// * **Errors**: fail the deploy's cut-over.
    /// * **Idempotent**: the whole destination is given, not a difference.
    async fn on_cut_over(&self, app: &App, to: &[Target]) -> Result<Outcome, HookError> {
        let _ = to;
        declined(self.supports(HookName::OnCutOver), HookName::OnCutOver, app)
    }

    /// * **When**: a deploy ended, well or not. At most once for one attempt: whoever missed it reads the deploy's record.
    /// * **Information**: the release, and whether it runs.
    async fn on_deploy_end(&self, app: &App, end: &DeployEnd) -> Result<Outcome, HookError> {
        let _ = end;
        declined(self.supports(HookName::OnDeployEnd), HookName::OnDeployEnd, app)
    }

    // ---- processes ----

    /// * **When**: before a new formation is committed.
    /// * **Information**: the app with the formation that is to be.
    /// * **Vetoes**: a process that the release has not; more instances than the quota allows.
    async fn validate_formation_change(&self, app: &App) -> Result<Validation, HookError> {
        let _ = app;
        declined_validation(self.supports(HookName::ValidateFormationChange), HookName::ValidateFormationChange)
    }

    /// * **When**: the app's processes are to have other numbers of instances.
    /// * **Information**: [`App::formation`], and what it was.
    /// * **Answers**: without waiting for the instances.
    /// * **Idempotent**: numbers are absolute.
    async fn post_formation_change(
        &self,
        event: &Event,
        from: &BTreeMap<WorkloadName, u32>,
    ) -> Result<Outcome, HookError> {
        let _ = from;
        declined(self.supports(event.hook()), event.hook(), &event.app)
    }

    /// * **When**: somebody asked for new instances of what runs.
    /// * **Information**: the process, or all of them.
    /// * **Idempotent**: at least once: told again it may restart again, which harms nothing but time.
    async fn post_restart_request<'a>(
        &self,
        event: &Event,
        process: Option<&'a WorkloadName>,
    ) -> Result<Outcome, HookError> {
        let _ = process;
        declined(self.supports(event.hook()), event.hook(), &event.app)
    }

    /// * **When**: something other than the model (an autoscaler, a person) changed a number of instances.
    /// * **Information**: the workload, what the model has, what is wanted now.
    async fn on_replicas_change(&self, app: &App, target: &Target, from: u32, to: u32) -> Result<Outcome, HookError> {
        let _ = (target, from, to);
        declined(self.supports(HookName::OnReplicasChange), HookName::OnReplicasChange, app)
    }

    /// * **When**: a workload's diagnoses changed, and there are some.
    /// * **Information**: the workload and its diagnoses with their evidence.
    async fn on_instances_failing(
        &self,
        app: &App,
        target: &Target,
        diagnoses: &[Diagnosis],
    ) -> Result<Outcome, HookError> {
        let _ = (target, diagnoses);
        declined(self.supports(HookName::OnInstancesFailing), HookName::OnInstancesFailing, app)
    }

    /// * **When**: somebody asked for a job to be run once.
    /// * **Information**: the job, and the key by which it is one run.
    /// * **Answers**: when it was begun, not when it has ended.
    /// * **Idempotent**: by its key.
    async fn post_run_request(&self, event: &Event, run: &OneOff) -> Result<Outcome, HookError> {
        let _ = run;
        declined(self.supports(event.hook()), event.hook(), &event.app)
    }

    /// * **When**: a run ended, or was seen never to start.
    /// * **Information**: the run and how it ended.
    async fn on_run_end(&self, app: &App, run: &RunId, outcome: &WaitOutcome) -> Result<Outcome, HookError> {
        let _ = (run, outcome);
        declined(self.supports(HookName::OnRunEnd), HookName::OnRunEnd, app)
    }

    // ---- domains and certificates ----

    /// * **When**: before a domain is committed.
    /// * **Information**: the app, and the domain that is to be.
    /// * **Vetoes**: a host name that is none; a route that another app has.
    async fn validate_domain_add(&self, app: &App, domain: &Domain) -> Result<Validation, HookError> {
        let _ = (app, domain);
        declined_validation(self.supports(HookName::ValidateDomainAdd), HookName::ValidateDomainAdd)
    }

    /// * **When**: another process takes the requests from outside, or none does.
    /// * **Information**: [`App::front`].
    /// * **Idempotent**: all routes are written, not a difference.
    async fn post_front_change(&self, event: &Event) -> Result<Outcome, HookError> {
        declined(self.supports(event.hook()), event.hook(), &event.app)
    }

    /// * **When**: a domain is the app's now.
    /// * **Information**: the domain, and all of [`App::domains`].
    /// * **Answers**: [`AlreadyInState`](Outcome::AlreadyInState) before the first release: there is nothing to lead to, and the
    ///   deploy will expose it.
    /// * **Errors**: another app has the route (permanent).
    /// * **Idempotent**: all routes are written, not a difference.
    async fn post_domain_add(&self, event: &Event, domain: &Domain) -> Result<Outcome, HookError> {
        let _ = domain;
        declined(self.supports(event.hook()), event.hook(), &event.app)
    }

    /// * **When**: a domain is the app's no more.
    /// * **Information**: the domain as it was, and those that are left in [`App::domains`]. Its certificate, if it had one,
    ///   was detached before, which is an event of its own.
    /// * **Idempotent**: all routes are written; after the last domain none is left.
    async fn post_domain_remove(&self, event: &Event, domain: &Domain) -> Result<Outcome, HookError> {
        let _ = domain;
        declined(self.supports(event.hook()), event.hook(), &event.app)
    }

    /// * **When**: before a certificate is attached to a domain.
    /// * **Information**: the app with the certificate in [`App::certificates`].
    /// * **Vetoes**: text that is no certificate; a key that does not belong to it.
    async fn validate_certificate_attach(
        &self,
        app: &App,
        host: &str,
        certificate: &str,
    ) -> Result<Validation, HookError> {
        let _ = (app, host, certificate);
        declined_validation(self.supports(HookName::ValidateCertificateAttach), HookName::ValidateCertificateAttach)
    }

    /// * **When**: a domain has a certificate now, or another one.
    /// * **Information**: the domain, the certificate's name; chain and reference to the key are in [`App::certificates`].
    /// * **Order**: the key is stored before anything refers to it.
    /// * **Idempotent**: both are written whole.
    async fn post_certificate_attach(
        &self,
        event: &Event,
        host: &str,
        certificate: &str,
    ) -> Result<Outcome, HookError> {
        let _ = (host, certificate);
        declined(self.supports(event.hook()), event.hook(), &event.app)
    }

    /// * **When**: a domain has its certificate no more.
    /// * **Information**: the domain and the certificate's name; [`App::domains`] says whether another one still has it.
    /// * **Order**: references go before the key, and the key only when nothing refers to it.
    /// * **Idempotent**: a key that is gone already is no error.
    async fn post_certificate_detach(
        &self,
        event: &Event,
        host: &str,
        certificate: &str,
    ) -> Result<Outcome, HookError> {
        let _ = (host, certificate);
        declined(self.supports(event.hook()), event.hook(), &event.app)
    }

    // ---- volumes ----

    /// * **When**: before a volume is committed.
    /// * **Information**: the app with the volume in [`App::volumes`].
    /// * **Vetoes**: a size that is none; a kind of storage that is not there.
    async fn validate_volume_create(&self, app: &App, name: &str) -> Result<Validation, HookError> {
        let _ = (app, name);
        declined_validation(self.supports(HookName::ValidateVolumeCreate), HookName::ValidateVolumeCreate)
    }

    /// * **When**: there is a new volume.
    /// * **Information**: its name; the rest is in [`App::volumes`].
    /// * **Idempotent**: one that is there stays as it is, with what it holds.
    async fn post_volume_create(&self, event: &Event, name: &str) -> Result<Outcome, HookError> {
        let _ = name;
        declined(self.supports(event.hook()), event.hook(), &event.app)
    }

    /// * **When**: a volume is no more, by somebody's wish: what it held is lost.
    /// * **Information**: its name and what it was.
    /// * **Errors**: something still uses it (transient).
    /// * **Idempotent**: one that is gone already is [`AlreadyInState`](Outcome::AlreadyInState).
    async fn post_volume_delete(&self, event: &Event, name: &str, volume: &AppVolume) -> Result<Outcome, HookError> {
        let _ = (name, volume);
        declined(self.supports(event.hook()), event.hook(), &event.app)
    }

    // ---- without an event ----

    /// * **When**: whenever somebody wants the app to be as its model has it: at a start, after an outage, by the clock.
    /// * **Information**: the app.
    /// * **Idempotent**: it looks first, and writes nothing where everything is as it should be.
    async fn reconcile_app(&self, app: &App) -> Result<Outcome, HookError> {
        declined(self.supports(HookName::ReconcileApp), HookName::ReconcileApp, app)
    }

    /// * **When**: a reconciliation found a workload that is not as the model has it.
    /// * **Information**: the workload, and in what way.
    async fn on_drift(&self, app: &App, drift: &Drift) -> Result<Outcome, HookError> {
        let _ = drift;
        declined(self.supports(HookName::OnDrift), HookName::OnDrift, app)
    }

    /// * **When**: something happened that only this platform has a name for.
    /// * **Information**: the name and the data of [`EventKind::Other`].
    async fn other(&self, event: &Event, name: &str, data: &Value) -> Result<Outcome, HookError> {
        let _ = (name, data);
        declined(self.supports(event.hook()), event.hook(), &event.app)
    }
}

/// The answer of a hook that is not implemented.
fn declined(support: Support, hook: HookName, app: &App) -> Result<Outcome, HookError> {
    match support {
        Support::No(reason) => Ok(Outcome::NotSupported { reason }),
        Support::Yes => Err(said_yes(hook).context(&app.name)),
    }
}

fn declined_validation(support: Support, hook: HookName) -> Result<Validation, HookError> {
    match support {
        Support::No(reason) => Ok(Validation::NotSupported { reason }),
        Support::Yes => Err(said_yes(hook)),
    }
}

fn said_yes(hook: HookName) -> HookError {
    HookError::permanent(format!("the set says that it supports {hook}, and does not implement it; report it"))
}
