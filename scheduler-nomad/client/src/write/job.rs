//! What is done with a job that is there.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Evaluated, Registered, of_job};
use crate::base64;
use crate::client::{Client, invalid};
use crate::error::{Error, Operation, Verb};
use crate::model::nullable;
use crate::target::{Target, check_segment};

/// How many instances of a group there shall be.
#[derive(Debug, Clone)]
#[must_use]
pub struct Scale {
    group: String,
    count: u32,
    message: Option<String>,
    job_modify_index: Option<u64>,
}

impl Scale {
    /// So many instances of this group.
    pub fn new(group: impl Into<String>, count: u32) -> Self {
        Self { group: group.into(), count, message: None, job_modify_index: None }
    }

    /// Says why, for the group's [scaling events](crate::model::ScalingEvent).
    pub fn message(mut self, text: impl Into<String>) -> Self {
        self.message = Some(text.into());
        self
    }

    /// Only if the job's [`job_modify_index`](crate::model::Job::job_modify_index) is still this one. Servers before 1.8.2
    /// do not look at it.
    pub fn if_unchanged(mut self, job_modify_index: u64) -> Self {
        self.job_modify_index = Some(job_modify_index);
        self
    }
}

/// Which version to register again.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct Revert {
    to: u64,
    current: Option<u64>,
}

impl Revert {
    /// This version.
    pub fn to(version: u64) -> Self {
        Self { to: version, current: None }
    }

    /// Only if the job's version is still this one.
    pub fn if_current(mut self, version: u64) -> Self {
        self.current = Some(version);
        self
    }
}

/// A run of a parameterized job. `Debug` leaves payload and values out.
#[derive(Clone, Default)]
#[must_use]
pub struct Dispatch {
    payload: Option<Bytes>,
    meta: BTreeMap<String, String>,
    idempotency_token: Option<String>,
}

impl Dispatch {
    /// Without payload and parameters.
    pub fn new() -> Self {
        Self::default()
    }

    /// What the task finds in its payload file: 16 KiB at most.
    pub fn payload(mut self, bytes: impl Into<Bytes>) -> Self {
        self.payload = Some(bytes.into());
        self
    }

    /// A parameter. The job names those that it needs and takes.
    pub fn meta(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.meta.insert(key.into(), value.into());
        self
    }

    /// Makes it one run, however often it is sent: as long as a child with this token is there, finished or not, the answer
    /// is that child, whatever else is asked for.
    pub fn idempotency_token(mut self, token: impl Into<String>) -> Self {
        self.idempotency_token = Some(token.into());
        self
    }
}

impl fmt::Debug for Dispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatch")
            .field("payload_bytes", &self.payload.as_ref().map(Bytes::len))
            .field("meta", &self.meta.keys())
            .field("idempotency_token", &self.idempotency_token)
            .finish()
    }
}

/// The answer to a dispatch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[non_exhaustive]
pub struct Dispatched {
    /// The child: a job of its own, with the dispatched one as its parent.
    #[serde(rename = "DispatchedJobID", deserialize_with = "nullable")]
    pub job_id: String,
    /// The evaluation that places it; empty if the child was there already, and for parents that are periodic.
    #[serde(rename = "EvalID", deserialize_with = "nullable")]
    pub eval_id: String,
    /// The index at which the child was made.
    pub job_create_index: u64,
    /// The index of the write.
    pub index: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ScaleBody<'a> {
    target: ScaleTarget<'a>,
    count: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    job_modify_index: Option<u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ScaleTarget<'a> {
    group: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct RevertBody<'a> {
    #[serde(rename = "JobID")]
    job_id: &'a str,
    job_version: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    enforce_prior_version: Option<u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct DispatchBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<String>,
    meta: &'a BTreeMap<String, String>,
}

impl Client {
    /// Sets how many instances of a group there are. Cost: one request, `PUT /v1/job/:id/scale`.
    ///
    /// **Every scale makes a version**, also to the same count, so it is not idempotent; the count itself is absolute. The
    /// version's stability and submission are those of the one before. Of a stopped job it changes the count only, of a
    /// periodic one that of its next runs.
    ///
    /// # Errors
    ///
    /// [`DeploymentActive`](crate::ErrorKind::DeploymentActive) while a deployment runs, is paused or waits for promotion: it
    /// is for the caller to register the job with the count instead, which ends the deployment, or to wait.
    /// [`Invalid`](crate::ErrorKind::Invalid) for a group that is not there or a count that its scaling policy does not
    /// allow; [`Conflict`](crate::ErrorKind::Conflict) when the job changed; [`Missing::Object`](crate::Missing::Object) if
    /// there is none.
    pub async fn scale(&self, namespace: &str, id: &str, scale: &Scale) -> Result<Registered, Error> {
        let operation = of_job(Verb::Scale, "job", namespace, id)?;
        if scale.job_modify_index == Some(0) {
            return Err(invalid(&operation, "no job has the check index 0"));
        }
        let body = ScaleBody {
            target: ScaleTarget { group: &scale.group },
            count: scale.count,
            message: scale.message.as_deref(),
            job_modify_index: scale.job_modify_index,
        };
        let target = Target::new(["v1", "job", id, "scale"]).param("namespace", namespace);
        self.put(&operation, target, &body).await
    }

    /// Registers an earlier version again, as a new version. Cost: one request, `PUT /v1/job/:id/revert`.
    ///
    /// **Its counts come back too**, and its submission (from 1.6 on); it is rolled out like any other version, canaries included.
    /// A version that was a stop stops the job, and any other one starts a stopped job. A version whose content is that of
    /// the current one is accepted and makes no version (hashicorp/nomad#10337). Versions that were pruned are gone; see
    /// [`Query::job_versions`](crate::Query::job_versions).
    ///
    /// # Errors
    ///
    /// [`Conflict`](crate::ErrorKind::Conflict) when the job moved on; [`Precondition`](crate::ErrorKind::Precondition) to
    /// the current version; [`Missing::Other`](crate::Missing::Other) for a version that is not there,
    /// [`Missing::Object`](crate::Missing::Object) if there is no job.
    pub async fn revert(&self, namespace: &str, id: &str, revert: Revert) -> Result<Registered, Error> {
        let operation = of_job(Verb::Revert, "job", namespace, id)?;
        let body = RevertBody { job_id: id, job_version: revert.to, enforce_prior_version: revert.current };
        let target = Target::new(["v1", "job", id, "revert"]).param("namespace", namespace);
        self.put(&operation, target, &body).await
    }

    /// Says of a version that it is stable, or that it is not. Cost: one request, `PUT /v1/job/:id/stable`.
    ///
    /// **Of the current version only**: if the flag of another one changes, that one becomes the job, and the next
    /// evaluation runs it. The server does not refuse that, and no condition keeps the version from becoming an old one
    /// meanwhile; [`put_version_tag`](Self::put_version_tag) is a mark without this danger. Idempotent. The job's
    /// `modify_index` moves, its `job_modify_index` does not.
    ///
    /// # Errors
    ///
    /// [`Missing::Other`](crate::Missing::Other) for a job or version that is not there.
    pub async fn set_stable(&self, namespace: &str, id: &str, version: u64, stable: bool) -> Result<(), Error> {
        let operation = of_job(Verb::Write, "stability of job", namespace, id)?;
        let target = Target::new(["v1", "job", id, "stable"]).param("namespace", namespace);
        let body = json!({"JobID": id, "JobVersion": version, "Stable": stable});
        self.write(&operation, Method::PUT, target, Some(&body)).await.map(drop)
    }

    /// Names a version, so that the server keeps it. Needs 1.9. Cost: one request, `PUT /v1/job/:id/versions/:tag/tag`.
    ///
    /// A version has one name: another takes its place. Idempotent. Name and description together have 1000 characters at
    /// most. The job itself does not change, but registering the content of a current version that has a name makes a new
    /// version.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) if another version has the name;
    /// [`Missing::Other`](crate::Missing::Other) for a job or version that is not there;
    /// [`InvalidRequest`](crate::ErrorKind::InvalidRequest) for a job whose ID has a slash, which this route cannot address.
    pub async fn put_version_tag(
        &self,
        namespace: &str,
        id: &str,
        version: u64,
        name: &str,
        description: &str,
    ) -> Result<(), Error> {
        let (operation, target) = of_tag(Verb::Write, namespace, id, name)?;
        let body = json!({"Version": version, "Description": description});
        self.write(&operation, Method::PUT, target, Some(&body)).await.map(drop)
    }

    /// Takes the name of a version away; it may be pruned then. Needs 1.9. Cost: one request,
    /// `DELETE /v1/job/:id/versions/:tag/tag`.
    ///
    /// # Errors
    ///
    /// [`Missing::Other`](crate::Missing::Other) if no version has the name, so a repetition that meets this has what it
    /// wants; otherwise as of [`put_version_tag`](Self::put_version_tag).
    pub async fn delete_version_tag(&self, namespace: &str, id: &str, name: &str) -> Result<(), Error> {
        let (operation, target) = of_tag(Verb::Delete, namespace, id, name)?;
        self.write::<()>(&operation, Method::DELETE, target, None).await.map(drop)
    }

    /// Runs the scheduler over a job. Cost: one request, `PUT /v1/job/:id/evaluate`.
    ///
    /// With `force_reschedule`, failed instances that wait to be placed anew are so at once. It revives none whose policy
    /// allows no other placement. May be repeated; each one makes an evaluation.
    ///
    /// # Errors
    ///
    /// [`Precondition`](crate::ErrorKind::Precondition) for periodic and parameterized jobs;
    /// [`Missing::Object`](crate::Missing::Object) if there is none.
    pub async fn evaluate_job(&self, namespace: &str, id: &str, force_reschedule: bool) -> Result<Registered, Error> {
        let operation = of_job(Verb::Evaluate, "job", namespace, id)?;
        let target = Target::new(["v1", "job", id, "evaluate"]).param("namespace", namespace);
        let body = json!({"JobID": id, "EvalOptions": {"ForceReschedule": force_reschedule}});
        self.put(&operation, target, &body).await
    }

    /// Runs a periodic job now. Cost: one request, `PUT /v1/job/:id/periodic/force`.
    ///
    /// The answer does not name the child; its evaluation does, as [`job_id`](crate::model::Evaluation::job_id). A child is
    /// called after the second of its start: **a second time within a second is the same child again**, as its next
    /// version. Whether an overlap is prohibited does not matter here (hashicorp/nomad#5487). Not idempotent.
    ///
    /// # Errors
    ///
    /// [`Precondition`](crate::ErrorKind::Precondition) for a job that is not periodic, is not enabled or is stopped;
    /// [`Missing::Object`](crate::Missing::Object) if there is none.
    pub async fn force_periodic(&self, namespace: &str, id: &str) -> Result<Evaluated, Error> {
        let operation = of_job(Verb::Force, "periodic job", namespace, id)?;
        let target = Target::new(["v1", "job", id, "periodic", "force"]).param("namespace", namespace);
        self.put(&operation, target, &json!({})).await
    }

    /// Runs a parameterized job, as a child. Cost: one request, `PUT /v1/job/:id/dispatch`.
    ///
    /// Idempotent with a [token](Dispatch::idempotency_token), from 1.11.2 on also when two are sent at once; without one
    /// each is another run.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) when payload or parameters are not what the job takes;
    /// [`Precondition`](crate::ErrorKind::Precondition) for a job that is not parameterized or is stopped;
    /// [`Missing::Object`](crate::Missing::Object) if there is none.
    pub async fn dispatch(&self, namespace: &str, id: &str, dispatch: &Dispatch) -> Result<Dispatched, Error> {
        let operation = of_job(Verb::Dispatch, "job", namespace, id)?;
        let mut target = Target::new(["v1", "job", id, "dispatch"]).param("namespace", namespace);
        if let Some(token) = &dispatch.idempotency_token {
            if token.is_empty() {
                return Err(invalid(&operation, "an idempotency token that is empty is none"));
            }
            target = target.param("idempotency_token", token);
        }
        let payload = dispatch.payload.as_deref().map(base64::encode);
        self.put(&operation, target, &DispatchBody { payload, meta: &dispatch.meta }).await
    }
}

/// The place of a tag. The server looks for the job's ID up to the first slash here.
fn of_tag(verb: Verb, namespace: &str, id: &str, name: &str) -> Result<(Operation, Target), Error> {
    let operation = of_job(verb, "version tag of job", namespace, id)?;
    check_segment("job", id).and_then(|()| check_segment("tag", name)).map_err(|why| invalid(&operation, why))?;
    let target = Target::new(["v1", "job", id, "versions", name, "tag"]).param("namespace", namespace);
    Ok((operation, target))
}
