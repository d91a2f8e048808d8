//! The parts of an app's surroundings, each made as the model has it.

use std::collections::BTreeSet;

use scheduler_core::Target;
use scheduler_core::hooks::{Certificate, HookError, Outcome};
use scheduler_k8s_client::Resource;
use serde_json::Value;

use super::place::{Place, Result};
use super::{NETWORK_POLICY, RESOURCE_QUOTA, render};
use crate::labels;

impl Place<'_> {
    fn name(&self) -> &str {
        self.app.name.as_str()
    }

    /// Everything, in an order in which nothing refers to what is not there yet. Volumes come last: one that cannot be made
    /// so holds up nothing else.
    pub(super) async fn ensure_all(&self) -> Result<Outcome> {
        let mut done = Outcome::of(self.ensure_policy().await?);
        done = done.and(Outcome::of(self.ensure_registries().await?));
        done = done.and(self.ensure_front(&[]).await?);
        for certificate in self.attached() {
            done = done.and(Outcome::of(self.ensure_certificate(certificate).await?));
        }
        done = done.and(Outcome::of(self.ensure_tls().await?));
        for (name, volume) in &self.app.volumes {
            done = done.and(Outcome::of(self.ensure_claim(name, volume).await?));
        }
        // Of what nothing is to be made there is nothing to say.
        Ok(if matches!(done, Outcome::NotSupported { .. }) { Outcome::AlreadyInState } else { done })
    }

    /// The quota and the isolation.
    pub(super) async fn ensure_policy(&self) -> Result<bool> {
        let owner = self.scheduler.owner();
        let quota = render::quota(self.app, owner)
            .map_err(|(field, error)| HookError::permanent(format!("{field} of the app {}: {error}", self.name())))?;
        let policy = render::network_policy(self.app, owner, &self.hooks.routers);
        let quota = self.ensure_or_remove(&RESOURCE_QUOTA, self.name(), quota.as_ref()).await?;
        let policy = self.ensure_or_remove(&NETWORK_POLICY, self.name(), policy.as_ref()).await?;
        Ok(quota || policy)
    }

    async fn ensure_or_remove(&self, resource: &Resource, name: &str, rendered: Option<&Value>) -> Result<bool> {
        match rendered {
            Some(rendered) => self.ensure(resource, name, rendered).await,
            None => self.remove(resource, name).await,
        }
    }

    /// The Service in front; see [`render::front`].
    pub(super) async fn ensure_front(&self, to: &[Target]) -> Result<Outcome> {
        let found = self.get(&Resource::SERVICE, self.name()).await?;
        if self.app.front.is_none() {
            return self.remove_all(&Resource::SERVICE, found.into_iter().collect()).await.map(Outcome::of);
        }
        if found.as_ref().is_some_and(|found| self.is_of_a_workload(found)) {
            let reason = format!("the Service {0} is that of the workload {0}, which is found by it", self.name());
            return Ok(Outcome::NotSupported { reason });
        }
        let (app, owner) = (self.app, self.scheduler.owner());
        let rendered = |live: Option<&Value>| {
            let gave_way = live.is_some_and(|live| self.is_of_a_workload(live));
            if gave_way { None } else { render::front(app, owner, to, live) }
        };
        self.settle(&Resource::SERVICE, self.name(), found, rendered).await.map(Outcome::of)
    }

    /// Whether a Service belongs to a launch of ours: a workload may have the app's name.
    fn is_of_a_workload(&self, service: &Value) -> bool {
        self.scheduler.is_ours(service) && service["metadata"]["labels"][labels::TARGET].is_string()
    }

    /// The Secret with the credentials of the registries.
    pub(super) async fn ensure_registries(&self) -> Result<bool> {
        let name = render::registry_secret(&self.app.name);
        if self.app.registries.is_empty() {
            return self.remove(&Resource::SECRET, &name).await;
        }
        let mut credentials = Vec::new();
        for (host, of_host) in &self.app.registries {
            let password = self.hooks.secrets.get(&of_host.password).await;
            let password = password
                .map_err(|error| error.context(format_args!("the password of {host} of the app {}", self.name())))?;
            credentials.push((host.as_str(), of_host, password));
        }
        let rendered = render::registries(self.app, self.scheduler.owner(), &credentials);
        self.ensure(&Resource::SECRET, &name, &rendered).await
    }

    /// The certificates that a domain has.
    pub(super) fn attached(&self) -> BTreeSet<&str> {
        self.app.domains.iter().filter_map(|domain| domain.certificate.as_deref()).collect()
    }

    /// The Secret with a certificate and its key.
    pub(super) async fn ensure_certificate(&self, name: &str) -> Result<bool> {
        let Some(Certificate { chain, key, .. }) = self.app.certificates.get(name) else {
            return Err(HookError::permanent(format!("the app {} has no certificate {name:?}", self.name())));
        };
        let key = self.hooks.secrets.get(key).await;
        let key = key.map_err(|error| {
            error.context(format_args!("the key of the certificate {name} of the app {}", self.name()))
        })?;
        let rendered = render::certificate(self.app, self.scheduler.owner(), name, chain, &key);
        self.ensure(&Resource::SECRET, &render::certificate_secret(name), &rendered).await
    }

    /// Takes away the Secrets around the app that nothing in the model stands for.
    pub(super) async fn sweep_secrets(&self) -> Result<bool> {
        let mut wanted: BTreeSet<String> = self.attached().into_iter().map(render::certificate_secret).collect();
        if !self.app.registries.is_empty() {
            wanted.insert(render::registry_secret(&self.app.name));
        }
        let found = self.list(&Resource::SECRET, Some(self.selector())).await?;
        let is_wanted = |secret: &Value| secret["metadata"]["name"].as_str().is_some_and(|name| wanted.contains(name));
        let surplus = found.into_iter().filter(|secret| !is_wanted(secret)).collect();
        self.remove_all(&Resource::SECRET, surplus).await
    }

    /// Takes everything away: references before what they refer to, and the isolation only when no Pod is left that it is
    /// for.
    pub(super) async fn remove_surroundings(&self) -> Result<Outcome> {
        let mut bare = self.app.clone();
        bare.domains.clear();
        let without_domains = Place { app: &bare, hooks: self.hooks, scheduler: self.scheduler.clone() };
        let mut changed = without_domains.ensure_tls().await?;
        changed |= self.remove(&Resource::SERVICE, self.name()).await?;
        for resource in [&Resource::SECRET, &Resource::PERSISTENT_VOLUME_CLAIM] {
            let found = self.list(resource, Some(self.selector())).await?;
            changed |= self.remove_all(resource, found).await?;
        }
        changed |= self.remove(&RESOURCE_QUOTA, self.name()).await?;
        if self.list(&Resource::POD, None).await?.is_empty() {
            changed |= self.remove(&NETWORK_POLICY, self.name()).await?;
        }
        Ok(Outcome::of(changed))
    }
}
