//! What model events mean on Kubernetes alone: what an app has there beside its workloads.

#[cfg(feature = "rustls-tls")]
mod pem;
mod place;
mod render;
mod surroundings;
mod tls;
mod validate;
mod volume;

use std::sync::Arc;

use async_trait::async_trait;
use scheduler_core::hooks::{
    App, AppVolume, DeployEnd, Domain, Event, HookError, HookName, LifecycleHooks, Outcome, SecretSource, Validation,
};
use scheduler_core::{Support, Target};
use scheduler_k8s_client::Resource;

pub use render::registry_secret;

use crate::KubernetesScheduler;
use place::Place;

const RESOURCE_QUOTA: Resource = Resource::namespaced("", "v1", "resourcequotas", "ResourceQuota");
const NETWORK_POLICY: Resource = Resource::namespaced("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy");
const STORAGE_CLASS: Resource = Resource::cluster_scoped("storage.k8s.io", "v1", "storageclasses", "StorageClass");

/// The hooks that only Kubernetes has: quota, isolation, the Service in front, credentials of registries, certificates and
/// volumes.
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
/// use scheduler_k8s::{KubernetesHooks, KubernetesScheduler};
///
/// # fn example(scheduler: &KubernetesScheduler) {
/// let secrets = BTreeMap::from([(SecretRef::new("registry"), ConfigValue::new("…"))]);
/// let hooks = KubernetesHooks::new(scheduler, Arc::new(secrets)).router_namespaces("role", "edge");
/// # }
/// ```
///
/// # Objects
///
/// They live in the app's namespace and bear the labels `scheduler/owner` and `scheduler/app`. One that is there without
/// them is somebody else's: it is never written or deleted, and what wanted to write it fails for good and says whose it
/// is.
///
/// | object | from | what it is |
/// |---|---|---|
/// | ResourceQuota `<app>` | [`Policy::quota`](scheduler_core::hooks::Policy::quota) | The bounds of all Pods. One of processor time or memory holds for requests and for limits, and the server then refuses containers without a limit; [`validate_release_create`](LifecycleHooks::validate_release_create) says so beforehand |
/// | NetworkPolicy `<app>` | [`Policy::isolation`](scheduler_core::hooks::Policy::isolation) | Lets in Pods of the namespace, and those of [router namespaces](Self::router_namespaces). It needs a network that heeds such policies |
/// | Service `<app>` | [`App::front`] | Port 80, to the front process' port |
/// | Secret `<app>-registries` | [`App::registries`] | For the [`pull_secrets`](scheduler_core::Workload::pull_secrets) of workloads; see [`registry_secret`] |
/// | Secret `<certificate>-tls` | [`App::certificates`] | One for each certificate that a domain has |
/// | `spec.tls` of Ingresses | [`App::domains`] | By the field manager `scheduler-tls`: a launch or an expose leaves it as it is |
/// | PersistentVolumeClaim `<volume>` | [`App::volumes`] | `ReadWriteOnce`. One that is there stays; it grows where the model wants more, if its class allows that, and never shrinks or moves |
///
/// # The Service in front
///
/// It is an address within the cluster that stays while releases come and go. Before the first cut-over it leads nowhere;
/// [`on_cut_over`](LifecycleHooks::on_cut_over) moves its selector to the workload of the front process, which may be named
/// as the process or as a [stack](scheduler_core::StackName) of it. If another process comes to the front, it leads to the workload of
/// that name at once. A workload that has the app's own name has the Service of that name, too: then there is no other one
/// in front, and the hooks say so.
///
/// # Certificates
///
/// The Secret is written before anything refers to it, and goes when no domain has the certificate any more. An Ingress
/// that is not there yet gets its `spec.tls` with the cut-over that exposes it. Attached once more, a certificate under the
/// same name is written anew. [`validate_certificate_attach`](LifecycleHooks::validate_certificate_attach) sees whether the
/// chain consists of certificates that can be read, and whether the key belongs to the first of them; not, whether it has
/// expired, is for the host, or is vouched for by anybody.
///
/// # The end of an app
///
/// Its volumes go with it, and what they held. They end with the last Pod that uses them, for which this set does not wait.
/// The isolation stays until there is no Pod in the namespace; [`on_app_gone`](LifecycleHooks::on_app_gone) takes it then, at
/// the latest. The namespace itself belongs to other hooks.
///
/// # Requests
///
/// An object that is as it should be costs 1 GET, and one that differs 1 PATCH besides (again after a race, at most ten
/// times). *tls* below is 1 LIST (Ingresses of the namespace), and 1 PATCH for each that differs.
///
/// | hook | requests |
/// |---|---|
/// | `post_app_create` | 4 objects, one for each certificate and each volume, *tls* |
/// | `reconcile_app` | the same, 1 LIST (Secrets), 1 DELETE for each that is too much |
/// | `post_policy_change` | 2 objects |
/// | `post_registry_change` | 1 object |
/// | `post_front_change`, `on_cut_over`, `on_deploy_end` | 1 object, *tls* |
/// | `post_domain_add` | the certificate, if it has one, *tls* |
/// | `post_domain_remove` | *tls* |
/// | `post_certificate_attach` | 1 object, *tls* |
/// | `post_certificate_detach` | *tls*, 1 GET and 1 DELETE |
/// | `post_volume_create` | 1 object |
/// | `post_volume_delete` | 2 GET, 1 LIST (Pods), 1 DELETE |
/// | `post_app_destroy` | *tls*, 3 LIST (Secrets, claims, Pods), 3 GET, 1 DELETE for each object |
/// | `on_app_gone` | 1 GET, 1 DELETE |
/// | `validate_app_create` | 1 GET (the namespace) |
/// | `validate_domain_add` | 1 LIST (Ingresses of the cluster, else of the namespace) |
/// | `validate_volume_create` | 1 GET, if it names a class |
/// | `validate_release_create`, `validate_certificate_attach` | none |
///
/// Secrets are read from the source when they are needed: the key by what writes a certificate, the passwords by
/// what writes the registries.
///
/// # Errors
///
/// A namespace that is missing or being deleted may pass, and is told again; so is what the network or the server does.
/// What a Kubernetes object refuses is somebody's to mend. No error holds a secret.
#[derive(Clone, Debug)]
pub struct KubernetesHooks {
    scheduler: KubernetesScheduler,
    secrets: Arc<dyn SecretSource>,
    /// The label of router namespaces: key and value.
    routers: (String, String),
}

impl KubernetesHooks {
    /// Hooks on the scheduler's cluster, as its owner. Sends nothing.
    #[must_use]
    pub fn new(scheduler: &KubernetesScheduler, secrets: Arc<dyn SecretSource>) -> Self {
        let routers = ("scheduler/router".to_owned(), "true".to_owned());
        Self { scheduler: scheduler.clone(), secrets, routers }
    }

    /// By which label of their namespace the platform's routers are known, which isolated apps let in:
    /// `scheduler/router=true` unless said otherwise. Whoever runs the cluster sets it; these hooks label no namespace.
    /// (`kubernetes.io/metadata.name` is on each namespace by itself and has its name.)
    #[must_use]
    pub fn router_namespaces(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.routers = (key.into(), value.into());
        self
    }

    fn at<'a>(&'a self, app: &'a App) -> Place<'a> {
        Place { app, hooks: self, scheduler: self.scheduler.for_one() }
    }
}

type Done = Result<Outcome, HookError>;

#[async_trait]
impl LifecycleHooks for KubernetesHooks {
    fn name(&self) -> &str {
        "kubernetes"
    }

    fn supports(&self, hook: HookName) -> Support {
        use HookName as N;
        let no = |reason: &str| Support::No(reason.to_owned());
        match hook {
            N::ValidateAppCreate
            | N::PostAppCreate
            | N::PostPolicyChange
            | N::PostAppDestroy
            | N::OnAppGone
            | N::ValidateReleaseCreate
            | N::PostRegistryChange
            | N::OnCutOver
            | N::OnDeployEnd
            | N::ValidateDomainAdd
            | N::PostFrontChange
            | N::PostDomainAdd
            | N::PostDomainRemove
            | N::PostCertificateAttach
            | N::PostCertificateDetach
            | N::ValidateVolumeCreate
            | N::PostVolumeCreate
            | N::PostVolumeDelete
            | N::ReconcileApp => Support::Yes,
            #[cfg(feature = "rustls-tls")]
            N::ValidateCertificateAttach => Support::Yes,
            #[cfg(not(feature = "rustls-tls"))]
            N::ValidateCertificateAttach => no("certificates are read by rustls, and the feature rustls-tls is off"),
            N::PostAppTransfer => no("nothing around an app says whose it is"),
            N::PostConfigChange => no("configurations are stored by the operation put_config"),
            N::PostReleaseCreate | N::PostFormationChange | N::PostRestartRequest | N::PostRunRequest => {
                no("workloads are launched, scaled, restarted and run by operations")
            }
            N::ValidateFormationChange => no("a quota bounds Pods, of which a rollout has more than a formation says"),
            N::OnReplicasChange | N::OnInstancesFailing | N::OnRunEnd | N::OnDrift => {
                no("it is for whoever keeps the models: nothing follows from it on Kubernetes")
            }
            _ => no("it means nothing to Kubernetes"),
        }
    }

    async fn validate_app_create(&self, app: &App) -> Result<Validation, HookError> {
        self.at(app).validate_namespace().await
    }

    async fn post_app_create(&self, event: &Event) -> Done {
        self.at(&event.app).ensure_all().await
    }

    async fn post_policy_change(&self, event: &Event) -> Done {
        self.at(&event.app).ensure_policy().await.map(Outcome::of)
    }

    async fn post_app_destroy(&self, event: &Event) -> Done {
        self.at(&event.app).remove_surroundings().await
    }

    async fn on_app_gone(&self, app: &App) -> Done {
        self.at(app).remove(&NETWORK_POLICY, app.name.as_str()).await.map(Outcome::of)
    }

    async fn validate_release_create(&self, app: &App) -> Result<Validation, HookError> {
        Ok(validate::validate_bounds(app))
    }

    async fn post_registry_change(&self, event: &Event) -> Done {
        self.at(&event.app).ensure_registries().await.map(Outcome::of)
    }

    async fn on_cut_over(&self, app: &App, to: &[Target]) -> Done {
        let place = self.at(app);
        // Whoever comes from outside must find the certificate before the address within moves.
        let shown = place.ensure_tls().await?;
        let front = place.ensure_front(to).await?;
        // Certificates that are as they should be make no difference to what is said of the front.
        Ok(if shown { front.and(Outcome::Applied) } else { front })
    }

    async fn on_deploy_end(&self, app: &App, _end: &DeployEnd) -> Done {
        self.on_cut_over(app, &[]).await
    }

    async fn validate_domain_add(&self, app: &App, domain: &Domain) -> Result<Validation, HookError> {
        self.at(app).validate_domain(domain).await
    }

    async fn post_front_change(&self, event: &Event) -> Done {
        self.on_cut_over(&event.app, &[]).await
    }

    async fn post_domain_add(&self, event: &Event, domain: &Domain) -> Done {
        let place = self.at(&event.app);
        let stored = match &domain.certificate {
            Some(certificate) => place.ensure_certificate(certificate).await?,
            None => false,
        };
        Ok(Outcome::of(place.ensure_tls().await? | stored))
    }

    async fn post_domain_remove(&self, event: &Event, _domain: &Domain) -> Done {
        self.at(&event.app).ensure_tls().await.map(Outcome::of)
    }

    #[cfg(feature = "rustls-tls")]
    async fn validate_certificate_attach(
        &self,
        app: &App,
        _host: &str,
        certificate: &str,
    ) -> Result<Validation, HookError> {
        self.at(app).validate_certificate(certificate).await
    }

    async fn post_certificate_attach(&self, event: &Event, _host: &str, certificate: &str) -> Done {
        let place = self.at(&event.app);
        let stored = place.ensure_certificate(certificate).await?;
        Ok(Outcome::of(place.ensure_tls().await? | stored))
    }

    async fn post_certificate_detach(&self, event: &Event, _host: &str, certificate: &str) -> Done {
        let place = self.at(&event.app);
        let mut changed = place.ensure_tls().await?;
        if !place.attached().contains(certificate) {
            changed |= place.remove(&Resource::SECRET, &render::certificate_secret(certificate)).await?;
        }
        Ok(Outcome::of(changed))
    }

    async fn validate_volume_create(&self, app: &App, name: &str) -> Result<Validation, HookError> {
        self.at(app).validate_volume(name).await
    }

    async fn post_volume_create(&self, event: &Event, name: &str) -> Done {
        let Some(volume) = event.app.volumes.get(name) else {
            return Err(HookError::permanent(format!("the app {} has no volume {name:?}", event.app.name)));
        };
        self.at(&event.app).ensure_claim(name, volume).await.map(Outcome::of)
    }

    async fn post_volume_delete(&self, event: &Event, name: &str, _volume: &AppVolume) -> Done {
        self.at(&event.app).delete_claim(name).await
    }

    async fn reconcile_app(&self, app: &App) -> Done {
        let place = self.at(app);
        let done = place.ensure_all().await?;
        Ok(done.and(Outcome::of(place.sweep_secrets().await?)))
    }
}
