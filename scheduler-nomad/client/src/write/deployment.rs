//! Deployments.

use serde::Deserialize;
use serde_json::{Value, json};

use super::of_uuid;
use crate::client::{Client, invalid};
use crate::error::{Error, Verb};
use crate::model::nullable;
use crate::target::{Target, check_uuid};

/// The answer to a change of a deployment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[non_exhaustive]
pub struct DeploymentChanged {
    /// The evaluation that acts on it; empty for a pause, and where nothing changed.
    #[serde(rename = "EvalID", deserialize_with = "nullable")]
    pub eval_id: String,
    /// The deployment's new `ModifyIndex`; zero where nothing changed.
    pub deployment_modify_index: u64,
    /// The version that is registered again because of the failure (`auto_revert`).
    pub reverted_job_version: Option<u64>,
    /// The index of the write.
    pub index: u64,
}

impl Client {
    /// Lets the canaries of all groups take over. Cost: one request, `PUT /v1/deployment/promote/:id`.
    ///
    /// May be repeated. **Success does not mean that there was something to promote**: a second promotion, and one of a
    /// deployment without canaries, succeed too and make an evaluation. Look at
    /// [`placed_canaries`](crate::model::DeploymentGroup::placed_canaries) first.
    ///
    /// # Errors
    ///
    /// [`Precondition`](crate::ErrorKind::Precondition) while a canary is not healthy and when the deployment is over;
    /// [`Missing::Object`](crate::Missing::Object) if there is none.
    pub async fn promote_deployment(&self, namespace: &str, id: &str) -> Result<DeploymentChanged, Error> {
        let body = json!({"DeploymentID": id, "All": true});
        self.change_deployment(Verb::Promote, "promote", namespace, id, body).await
    }

    /// Ends a deployment without success. Cost: one request, `PUT /v1/deployment/fail/:id`.
    ///
    /// Canaries stop. Healthy instances of the new version go on running, and those of the old one that were not replaced
    /// yet stay; with `auto_revert` the last stable version is registered again. Not idempotent: it is over then.
    ///
    /// # Errors
    ///
    /// [`Precondition`](crate::ErrorKind::Precondition) when the deployment is over already;
    /// [`Missing::Object`](crate::Missing::Object) if there is none.
    pub async fn fail_deployment(&self, namespace: &str, id: &str) -> Result<DeploymentChanged, Error> {
        self.change_deployment(Verb::Fail, "fail", namespace, id, json!({"DeploymentID": id})).await
    }

    /// Holds a deployment: it still counts health and places nothing more. Cost: one request,
    /// `PUT /v1/deployment/pause/:id`.
    ///
    /// May be repeated. The job cannot be scaled meanwhile.
    ///
    /// # Errors
    ///
    /// [`Precondition`](crate::ErrorKind::Precondition) when the deployment is over;
    /// [`Missing::Object`](crate::Missing::Object) if there is none.
    pub async fn pause_deployment(&self, namespace: &str, id: &str) -> Result<DeploymentChanged, Error> {
        let body = json!({"DeploymentID": id, "Pause": true});
        self.change_deployment(Verb::Pause, "pause", namespace, id, body).await
    }

    /// Lets a held deployment go on. Its progress deadline begins anew (from 2.0.1 on). Cost: one request,
    /// `PUT /v1/deployment/pause/:id`.
    ///
    /// May be repeated; each one makes an evaluation.
    ///
    /// # Errors
    ///
    /// As of [`pause_deployment`](Self::pause_deployment).
    pub async fn resume_deployment(&self, namespace: &str, id: &str) -> Result<DeploymentChanged, Error> {
        let body = json!({"DeploymentID": id, "Pause": false});
        self.change_deployment(Verb::Resume, "pause", namespace, id, body).await
    }

    /// Lets a deployment of several regions go on that waits for the others. Cost: one request,
    /// `PUT /v1/deployment/unblock/:id`. Only the Enterprise edition has such deployments; of others it changes nothing, and
    /// succeeds.
    ///
    /// # Errors
    ///
    /// [`Missing::Object`](crate::Missing::Object) if there is none; otherwise what the request met.
    pub async fn unblock_deployment(&self, namespace: &str, id: &str) -> Result<DeploymentChanged, Error> {
        self.change_deployment(Verb::Resume, "unblock", namespace, id, json!({"DeploymentID": id})).await
    }

    /// Says of allocations of a deployment that they are healthy, or that they are not. Cost: one request,
    /// `PUT /v1/deployment/allocation-health/:id`.
    ///
    /// It is how health is found out where the update block says `manual`. May be repeated. An allocation that is unhealthy
    /// may fail the deployment.
    ///
    /// # Errors
    ///
    /// [`InvalidRequest`](crate::ErrorKind::InvalidRequest) if both lists are empty;
    /// [`Precondition`](crate::ErrorKind::Precondition) when the deployment is over;
    /// [`Missing::Other`](crate::Missing::Other) for an allocation that is not there, and nothing is changed then.
    pub async fn set_allocation_health(
        &self,
        namespace: &str,
        deployment: &str,
        healthy: &[&str],
        unhealthy: &[&str],
    ) -> Result<DeploymentChanged, Error> {
        let operation = of_uuid(Verb::Write, "health in deployment", namespace, deployment)?;
        if healthy.is_empty() && unhealthy.is_empty() {
            return Err(invalid(&operation, "no allocation is named"));
        }
        for id in healthy.iter().chain(unhealthy) {
            check_uuid(id).map_err(|why| invalid(&operation, why))?;
        }
        let body = json!({
            "DeploymentID": deployment, "HealthyAllocationIDs": healthy, "UnhealthyAllocationIDs": unhealthy,
        });
        let target = Target::new(["v1", "deployment", "allocation-health", deployment]).param("namespace", namespace);
        self.put(&operation, target, &body).await
    }

    async fn change_deployment(
        &self,
        verb: Verb,
        route: &str,
        namespace: &str,
        id: &str,
        body: Value,
    ) -> Result<DeploymentChanged, Error> {
        let operation = of_uuid(verb, "deployment", namespace, id)?;
        let target = Target::new(["v1", "deployment", route, id]).param("namespace", namespace);
        self.put(&operation, target, &body).await
    }
}
