//! What model events mean on Nomad alone: what an app has there beside its workloads.

mod place;

use std::sync::Arc;

use async_trait::async_trait;
use scheduler_core::Support;
use scheduler_core::hooks::{
    App, AppVolume, Domain, Event, HookError, HookName, LifecycleHooks, Outcome, SecretSource, Validation,
};

pub use place::certificate_variable;

use crate::NomadScheduler;
use place::Place;

/// The hooks that only Nomad has: whose a namespace is, certificates and volumes.
///
/// Everything that is said by operations (namespaces, launches, routes) is left to hooks over any
/// [`Scheduler`](scheduler_core::Scheduler), which are told before this set, and after it where something is taken away.
///
/// ```no_run
/// use std::collections::BTreeMap;
/// use std::sync::Arc;
///
/// use scheduler_core::ConfigValue;
/// use scheduler_core::hooks::SecretRef;
/// use scheduler_nomad::{NomadHooks, NomadScheduler};
///
/// # fn example(scheduler: &NomadScheduler) {
/// let secrets = BTreeMap::from([(SecretRef::new("shop-key"), ConfigValue::new("…"))]);
/// let hooks = NomadHooks::new(scheduler, Arc::new(secrets));
/// # }
/// ```
///
/// # Objects
///
/// | object | from | what it is |
/// |---|---|---|
/// | `scheduler/tenant` in the `Meta` of the namespace | [`App::tenant`] | Only of a namespace that is ours |
/// | variable [`scheduler/certificates/<app>/<name>`](certificate_variable) | [`App::certificates`] | One for each certificate that a domain has: `certificate`, `key`, and the owner |
/// | host volume `<volume>` | [`App::volumes`] | A folder of the node that the server chooses, by the plugin that the class names, else by [`volume_plugin`](Self::volume_plugin). One of that name that is there stays as it is |
///
/// # Certificates
///
/// Nomad ends no TLS. The variables are for the platform's router: a job with a policy that lets it read
/// `scheduler/certificates/*` in the app's namespace, which templates them into its own files. The routes themselves are
/// tags of the workloads' services and need no change.
///
/// # Volumes
///
/// A volume is on one node, and so is what claims it. A node has a name once, whatever the namespace: volumes of two apps
/// need two names, or two nodes. Volumes bear no mark: they are deleted only in a namespace that is ours.
///
/// # The end of an app
///
/// Its volumes go with it, and what they held, as soon as no allocation uses them: the set is told again until the
/// workloads have ended, as the hooks that delete these wait for their end.
///
/// # Requests
///
/// | hook | requests |
/// |---|---|
/// | `post_app_create`, `reconcile_app` | 1 (the namespace), 1 for each certificate, 1 (the volumes) if there are any, 1 (the variables), 1 write for what differs |
/// | `post_app_transfer` | 1, and 1 write |
/// | `post_domain_add`, `post_certificate_attach` | 1, and 1 write |
/// | `post_certificate_detach` | 1, and 1 write |
/// | `post_volume_create` | 1, and 1 write |
/// | `post_volume_delete` | 2, and 1 write for each of that name |
/// | `post_app_destroy` | 3, 2 for each certificate, 1 write for each volume |
/// | `validate_app_create` | 1 |
/// | `validate_domain_add` | 1 |
/// | `validate_volume_create` | none |
///
/// # Errors
///
/// A namespace that is missing may come, and is told again; so is what the network or the server does. What Nomad refuses is
/// somebody's to mend. No error holds a secret.
#[derive(Clone, Debug)]
pub struct NomadHooks {
    scheduler: NomadScheduler,
    secrets: Arc<dyn SecretSource>,
    plugin: String,
}

impl NomadHooks {
    /// Hooks on the scheduler's cluster, as its owner. Sends nothing.
    #[must_use]
    pub fn new(scheduler: &NomadScheduler, secrets: Arc<dyn SecretSource>) -> Self {
        Self { scheduler: scheduler.clone(), secrets, plugin: "mkdir".to_owned() }
    }

    /// Which plugin makes volumes that name no class: `mkdir` unless said otherwise, which is built in and bounds no size.
    #[must_use]
    pub fn volume_plugin(mut self, plugin: impl Into<String>) -> Self {
        self.plugin = plugin.into();
        self
    }

    fn at<'a>(&'a self, app: &'a App) -> Place<'a> {
        Place { app, hooks: self, scheduler: self.scheduler.for_one() }
    }
}

type Done = Result<Outcome, HookError>;

#[async_trait]
impl LifecycleHooks for NomadHooks {
    fn name(&self) -> &str {
        "nomad"
    }

    fn supports(&self, hook: HookName) -> Support {
        use HookName as N;
        let no = |reason: &str| Support::No(reason.to_owned());
        match hook {
            N::ValidateAppCreate
            | N::PostAppCreate
            | N::PostAppTransfer
            | N::PostAppDestroy
            | N::ValidateDomainAdd
            | N::PostDomainAdd
            | N::PostCertificateAttach
            | N::PostCertificateDetach
            | N::ValidateVolumeCreate
            | N::PostVolumeCreate
            | N::PostVolumeDelete
            | N::ReconcileApp => Support::Yes,
            N::PostPolicyChange => {
                no("Nomad has quotas in its Enterprise edition only, and no policy between the networks of allocations")
            }
            N::PostRegistryChange => {
                no("a job has no reference to credentials of registries; configure the driver on the nodes")
            }
            N::PostConfigChange => no("configurations are stored by the operation put_config"),
            N::PostFrontChange | N::PostDomainRemove | N::OnCutOver => {
                no("routes are tags of the workloads' services, which operations write")
            }
            N::ValidateCertificateAttach => no("Nomad keeps certificates and looks into none"),
            N::ValidateReleaseCreate | N::ValidateFormationChange => {
                no("what a workload may be is checked by the operations")
            }
            N::PostReleaseCreate | N::PostFormationChange | N::PostRestartRequest | N::PostRunRequest => {
                no("workloads are launched, scaled, restarted and run by operations")
            }
            N::OnAppGone => no("what this set made is gone before"),
            N::OnDeployEnd | N::OnReplicasChange | N::OnInstancesFailing | N::OnRunEnd | N::OnDrift => {
                no("it is for whoever keeps the models: nothing follows from it on Nomad")
            }
            _ => no("it means nothing to Nomad"),
        }
    }

    async fn validate_app_create(&self, app: &App) -> Result<Validation, HookError> {
        self.at(app).validate_namespace().await
    }

    async fn post_app_create(&self, event: &Event) -> Done {
        self.at(&event.app).ensure_all().await
    }

    async fn post_app_transfer<'a>(&self, event: &Event, _from: Option<&'a str>) -> Done {
        self.at(&event.app).ensure_tenant().await.map(Outcome::of)
    }

    async fn post_app_destroy(&self, event: &Event) -> Done {
        self.at(&event.app).remove_surroundings().await.map(Outcome::of)
    }

    async fn validate_domain_add(&self, app: &App, domain: &Domain) -> Result<Validation, HookError> {
        self.at(app).validate_domain(domain).await
    }

    async fn post_domain_add(&self, event: &Event, domain: &Domain) -> Done {
        match &domain.certificate {
            Some(certificate) => self.at(&event.app).ensure_certificate(certificate).await.map(Outcome::of),
            None => Ok(Outcome::AlreadyInState),
        }
    }

    async fn post_certificate_attach(&self, event: &Event, _host: &str, certificate: &str) -> Done {
        self.at(&event.app).ensure_certificate(certificate).await.map(Outcome::of)
    }

    async fn post_certificate_detach(&self, event: &Event, _host: &str, certificate: &str) -> Done {
        let place = self.at(&event.app);
        if place.attached().contains(certificate) {
            return Ok(Outcome::AlreadyInState);
        }
        place.remove_certificate(&certificate_variable(&event.app.name, certificate)).await.map(Outcome::of)
    }

    async fn validate_volume_create(&self, app: &App, name: &str) -> Result<Validation, HookError> {
        Ok(self.at(app).validate_volume(name))
    }

    async fn post_volume_create(&self, event: &Event, name: &str) -> Done {
        self.at(&event.app).ensure_volumes(Some(name)).await.map(Outcome::of)
    }

    async fn post_volume_delete(&self, event: &Event, name: &str, _volume: &AppVolume) -> Done {
        self.at(&event.app).delete_volume(name).await
    }

    async fn reconcile_app(&self, app: &App) -> Done {
        let place = self.at(app);
        let done = place.ensure_all().await?;
        Ok(done.and(Outcome::of(place.sweep_certificates().await?)))
    }
}
