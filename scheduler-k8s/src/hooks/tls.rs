//! Which certificate an Ingress shows for which host: `spec.tls`, by a field manager of its own, so that a launch or an
//! expose, which do not render it, leave it as it is.

use scheduler_k8s_client::Resource;
use serde_json::{Value, json};

use super::place::{Place, Result};
use super::render;
use crate::interpreter::ATTEMPTS;
use crate::interpreter::find::{is_deleting, lost_a_race};
use crate::interpreter::write::mark;
use crate::labels::OWNER;
use crate::{TLS_MANAGER, claims};

impl Place<'_> {
    /// Makes the Ingresses of the app's namespace refer to the certificates of the app's domains, those of whose hosts have
    /// any, and to no others that this set has written. Answers whether anything was written.
    pub(super) async fn ensure_tls(&self) -> Result<bool> {
        let (mut changed, mut attempt) = (false, 1);
        'read: loop {
            let ours = format!("{OWNER}={}", self.scheduler.owner());
            let ingresses = self.list(&Resource::INGRESS, Some(ours)).await?;
            for ingress in ingresses.iter().filter(|ingress| !is_deleting(ingress)) {
                let wanted = render::tls(self.app, ingress);
                if is_as_wanted(ingress, &wanted) {
                    continue;
                }
                let body = if wanted.is_empty() { json!({}) } else { json!({"spec": {"tls": wanted}}) };
                match mark(&self.scheduler, &Resource::INGRESS, ingress, TLS_MANAGER, body).await {
                    Ok(_) => changed = true,
                    Err(error) if attempt < ATTEMPTS && lost_a_race(&error) => {
                        attempt += 1;
                        continue 'read;
                    }
                    Err(error) => return Err(self.failed(error)),
                }
            }
            return Ok(changed);
        }
    }
}

/// Where nothing is wanted, only what we wrote ourselves is too much.
fn is_as_wanted(ingress: &Value, wanted: &[Value]) -> bool {
    if wanted.is_empty() {
        return !claims::has_field(ingress, TLS_MANAGER, &["spec", "tls"]);
    }
    ingress["spec"]["tls"].as_array().is_some_and(|live| live == wanted)
}
