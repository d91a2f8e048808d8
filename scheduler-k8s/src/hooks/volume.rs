//! Volumes: claims that outlive the workloads that use them.

use std::time::Duration;

use scheduler_core::hooks::{AppVolume, HookError, Outcome, Validation};
use scheduler_core::{Fault, Memory};
use scheduler_k8s_client::Resource;
use serde_json::Value;

use super::place::{Place, Result};
use super::{STORAGE_CLASS, render};
use crate::interpreter::find::is_deleting;

const RESOURCE: &Resource = &Resource::PERSISTENT_VOLUME_CLAIM;
/// How long to leave a claim alone that is still used.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the server may take to let a claim go that nothing uses.
const MOMENT: Duration = Duration::from_secs(1);

impl Place<'_> {
    /// Makes the claim of a volume, or lets it grow.
    pub(super) async fn ensure_claim(&self, name: &str, volume: &AppVolume) -> Result<bool> {
        let (app, owner) = (self.app, self.scheduler.owner());
        let size: Memory = volume.size.parse().map_err(|error| {
            HookError::permanent(format!("the size of the volume {name} of the app {}: {error}", app.name))
        })?;
        let found = self.get(RESOURCE, name).await?;
        let render = |live: Option<&Value>| match live {
            None => Some(render::claim(app, owner, name, volume, size)),
            Some(live) => render::grown_claim(app, owner, name, size, live),
        };
        self.settle(RESOURCE, name, found, render).await
    }

    /// Deletes the claim of a volume, once no Pod uses it.
    pub(super) async fn delete_claim(&self, name: &str) -> Result<Outcome> {
        let found = self.get(RESOURCE, name).await?;
        let Some(claim) = found.filter(|claim| self.is_own(claim)) else { return Ok(Outcome::AlreadyInState) };
        let pods = self.list(&Resource::POD, None).await?;
        let users: Vec<&str> = pods.iter().filter(|pod| uses(pod, name)).filter_map(name_of).collect();
        if !users.is_empty() {
            let reason = format!("the volume {name} is used by {}", users.join(", "));
            return Ok(Outcome::Deferred { after: PATIENCE, reason });
        }
        if !is_deleting(&claim) {
            self.remove_all(RESOURCE, vec![claim]).await?;
        }
        // Gone is what is not there any more: a finalizer of the server holds each claim for a moment.
        match self.get(RESOURCE, name).await? {
            None => Ok(Outcome::Applied),
            Some(_) => Ok(Outcome::Deferred { after: MOMENT, reason: format!("the volume {name} is being deleted") }),
        }
    }

    pub(super) async fn validate_volume(&self, name: &str) -> Result<Validation> {
        let at = format!("volumes.{name}");
        let Some(volume) = self.app.volumes.get(name) else {
            return Ok(Validation::Vetoed(vec![Fault::new(at, "the app has no volume of this name")]));
        };
        let mut faults = Vec::new();
        if let Err(error) = volume.size.parse::<Memory>() {
            faults.push(Fault::new(format!("{at}.size"), error.to_string()));
        }
        if let Some(class) = &volume.class
            && self.get(&STORAGE_CLASS, class).await?.is_none()
        {
            faults.push(Fault::new(format!("{at}.class"), format!("the cluster has no storage class {class:?}")));
        }
        Ok(super::validate::verdict(faults))
    }
}

/// Whether a Pod mounts a claim and has not ended.
fn uses(pod: &Value, claim: &str) -> bool {
    let ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let volumes = pod["spec"]["volumes"].as_array();
    !ended && volumes.into_iter().flatten().any(|volume| volume["persistentVolumeClaim"]["claimName"] == claim)
}

fn name_of(object: &Value) -> Option<&str> {
    object["metadata"]["name"].as_str()
}
