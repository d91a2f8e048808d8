//! Hooks over any scheduler, and reconciliation: what model events mean in operations alone.
//!
//! [`SchedulerHooks`] is a hook set over any [`Scheduler`]; a backend's own set, told after it, adds what only that backend
//! has. [`Reconciler`] makes whole platforms be as their models have them, at a pace.
//!
//! ```
//! use std::sync::Arc;
//! use lifecycle_hooks::generic::SchedulerHooks;
//! use scheduler_core::memory::MemoryCluster;
//! use scheduler_core::hooks::{App, AppName, LifecycleHooks as _, Outcome, Release};
//! use scheduler_core::{Container, OwnerId, Workload};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let scheduler = MemoryCluster::builder().build().scheduler(OwnerId::new("my-platform")?);
//! let hooks = SchedulerHooks::new(Arc::new(scheduler));
//!
//! let web = Workload::service("shop", "web").container(Container::new("web", "shop/web:1"));
//! let mut app = App::new(AppName::new("shop")?, "shop".try_into()?);
//! app.release = Some(Release::new(1, vec![web]));
//! assert_eq!(hooks.reconcile_app(&app).await?, Outcome::Applied);
//! assert_eq!(hooks.reconcile_app(&app).await?, Outcome::AlreadyInState);
//! # Ok(())
//! # }
//! ```

mod bring;
mod decide;
mod hooks;
mod reconcile;
mod steps;

use std::sync::Arc;
use std::time::Duration;

use scheduler_core::hooks::{HookName, SecretSource};
use scheduler_core::{Feature, Scheduler, Support};

use crate::desired::Naming;
use crate::pipeline::{DeployOptions, Deployer, PipelineName};

pub use bring::{AppReport, Held};
pub use reconcile::{Pace, ReconcileReport, Reconciler};

/// Hooks over any [`Scheduler`].
///
/// | hook | what it does |
/// |---|---|
/// | `post_app_create` | makes the namespace be there; one that is somebody else's is used, and never deleted |
/// | `post_app_destroy` | ends its deploy, deletes its workloads, then the namespace if it is ours; deferred until nothing is left |
/// | `post_release_create` | deploys it, with a [`deployer`](SchedulerHooks::deployer) |
/// | `post_config_change` | stores the configuration for the processes, ahead of the release that will use it |
/// | `post_formation_change` | scales the processes whose number differs |
/// | `post_restart_request` | restarts the processes |
/// | `post_run_request` | runs the job once, under its key, with the release's configuration |
/// | `post_front_change`, `post_domain_add`, `post_domain_remove` | writes all routes of the front process |
/// | `validate_release_create` | vetoes what does not pass its check, or needs what the backend has not |
/// | `validate_formation_change` | vetoes unknown processes, and more than the quota's instances |
/// | `validate_domain_add` | vetoes host names that are none; who has a route is found when it is written |
/// | `reconcile_app` | see [`Reconciler`] |
///
/// Each looks first, and writes nothing where everything is as it should be. The rest it declines with a reason.
///
/// Dropped in the middle, what was done stays done, and the next telling does the rest.
#[derive(Clone, Debug)]
pub struct SchedulerHooks {
    scheduler: Arc<dyn Scheduler>,
    secrets: Option<Arc<dyn SecretSource>>,
    naming: Naming,
    spare: Duration,
    deploys: Option<Deploys>,
}

/// How releases are deployed.
#[derive(Clone, Debug)]
struct Deploys {
    deployer: Deployer,
    pipeline: PipelineName,
    options: DeployOptions,
}

impl SchedulerHooks {
    /// The name of this set.
    pub const NAME: &'static str = "scheduler";

    /// Hooks over this scheduler.
    #[must_use]
    pub fn new(scheduler: Arc<dyn Scheduler>) -> Self {
        Self { scheduler, secrets: None, naming: Naming::default(), spare: Duration::from_secs(60 * 60), deploys: None }
    }

    /// Sets where the values of configurations are read.
    #[must_use]
    pub fn secrets(mut self, secrets: Arc<dyn SecretSource>) -> Self {
        self.secrets = Some(secrets);
        self
    }

    /// Sets how the workloads of a release are named, if something else than a [`deployer`](Self::deployer) deploys them.
    #[must_use]
    pub fn naming(mut self, naming: Naming) -> Self {
        self.naming = naming;
        self
    }

    /// Sets what deploys releases, by which pipeline, and names workloads as that does.
    ///
    /// The id of a deploy is that of the event which tells of the release, which has at most 64 characters for that. So the same event told again goes on with the same
    /// deploy, and [`DeployStore::load`](crate::pipeline::DeployStore::load) finds its record by the event. The hook takes as
    /// long as the deploy does: the [deadline](crate::deliver::Deadlines) of `post_release_create` must be longer, or cuts it
    /// into parts.
    #[must_use]
    pub fn deployer(mut self, deployer: Deployer, pipeline: PipelineName, options: DeployOptions) -> Self {
        self.naming = pipeline.naming();
        self.deploys = Some(Deploys { deployer, pipeline, options });
        self
    }

    /// Sets for how long after a launch changed it a workload is spared that the model does not have: a deploy may be about
    /// to tell of it. One hour, unless it is set; it must be longer than any deploy.
    #[must_use]
    pub fn spare(mut self, spare: Duration) -> Self {
        self.spare = spare;
        self
    }

    /// Whether this set does something about a hook.
    fn support(&self, hook: HookName) -> Support {
        use HookName as N;
        let can = |feature| self.scheduler.capabilities().support(feature);
        let no = |reason: &str| Support::No(reason.to_owned());
        match hook {
            N::PostAppCreate => can(Feature::Namespaces),
            N::PostAppDestroy => can(Feature::List),
            N::PostReleaseCreate if self.deploys.is_none() => no("no deployer was given"),
            N::PostReleaseCreate => can(Feature::Launch),
            N::PostConfigChange if self.secrets.is_none() => no("no source of secrets was given"),
            N::PostConfigChange => can(Feature::PutConfig),
            N::PostFormationChange => can(Feature::Scale),
            N::PostRestartRequest => can(Feature::Restart),
            N::PostRunRequest => can(Feature::RunOneOff),
            N::PostFrontChange | N::PostDomainAdd | N::PostDomainRemove => can(Feature::Expose),
            N::ValidateReleaseCreate | N::ValidateFormationChange | N::ValidateDomainAdd | N::ReconcileApp => {
                Support::Yes
            }
            N::ValidateAppCreate => no("no operation reads a namespace"),
            N::PostAppTransfer => no("operations know no tenant"),
            N::PostPolicyChange => no("operations know neither quota nor isolation"),
            N::PostRegistryChange => no("operations know no registries; workloads name the secrets of some"),
            N::ValidateCertificateAttach | N::PostCertificateAttach | N::PostCertificateDetach => {
                no("operations know no certificates")
            }
            N::ValidateVolumeCreate | N::PostVolumeCreate | N::PostVolumeDelete => {
                no("operations make no volumes but those of stable instances")
            }
            N::OnCutOver => no("routes were written before this is told"),
            N::OnAppGone | N::OnDeployEnd | N::OnReplicasChange | N::OnInstancesFailing | N::OnRunEnd | N::OnDrift => {
                no("it is news, and needs nothing done")
            }
            N::Other => no("it is this platform's own"),
            _ => no("this version does not know it"),
        }
    }
}
