//! Making, planning and removing jobs.

use std::fmt;

use http::Method;
use serde::{Deserialize, Serialize};

use super::of_job;
use crate::client::{Client, invalid};
use crate::error::{Error, Verb};
use crate::model::{Job, Planned, Submission, nullable};
use crate::target::Target;

/// What must be true for a registration to take effect. The server checks it, atomically from 2.0.1 on
/// (hashicorp/nomad#27832).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Condition {
    /// The job is absent. **A stopped job is not absent** until it is purged.
    Absent,
    /// The job is there, and its [`Job::job_modify_index`] is still this one.
    Unchanged {
        /// The index that was read.
        job_modify_index: u64,
    },
}

/// A registration: the job as a whole, under a condition.
#[must_use]
pub struct Register<'a> {
    job: &'a Job,
    condition: Condition,
    submission: Option<&'a Submission>,
}

impl<'a> Register<'a> {
    /// Makes or replaces this job, in the namespace that it names (`default` if none).
    pub fn new(job: &'a Job, condition: Condition) -> Self {
        Self { job, condition, submission: None }
    }

    /// Keeps this beside the version that comes about.
    pub fn submission(mut self, submission: &'a Submission) -> Self {
        self.submission = Some(submission);
        self
    }
}

impl fmt::Debug for Register<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Register")
            .field("job", &self.job.id)
            .field("namespace", &self.job.namespace)
            .field("condition", &self.condition)
            .field("submission", &self.submission)
            .finish()
    }
}

/// The answer to a registration, and to what else makes a version of a job or an evaluation of it. That it was accepted
/// says nothing of whether it will run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[non_exhaustive]
pub struct Registered {
    /// The evaluation that places it; empty for periodic and parameterized jobs.
    #[serde(rename = "EvalID", deserialize_with = "nullable")]
    pub eval_id: String,
    /// The index of the evaluation; zero if there is none.
    pub eval_create_index: u64,
    /// **Not for the next condition**: when the content was what the server had already, this is the job's `ModifyIndex`.
    /// Read the job again.
    pub job_modify_index: u64,
    /// What the server warns of. Empty when of nothing.
    #[serde(deserialize_with = "nullable")]
    pub warnings: String,
    /// The index of the write.
    pub index: u64,
}

/// The answer to a deregistration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[non_exhaustive]
pub struct Deregistered {
    /// The evaluation that stops it; empty for periodic and parameterized jobs, and if there was no job.
    #[serde(rename = "EvalID", deserialize_with = "nullable")]
    pub eval_id: String,
    /// Zero if there was no job.
    pub job_modify_index: u64,
    /// The index of the write.
    pub index: u64,
}

impl Deregistered {
    /// Whether there was a job. The server answers success in either case.
    #[must_use]
    pub fn existed(&self) -> bool {
        self.job_modify_index != 0
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct RegisterBody<'a> {
    job: &'a Job,
    enforce_index: bool,
    job_modify_index: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    submission: Option<&'a Submission>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct PlanBody<'a> {
    job: &'a Job,
    diff: bool,
}

impl Client {
    /// Makes or replaces a job. Cost: one request, `PUT /v1/jobs`.
    ///
    /// It replaces the job as a whole, so read it and change what you mean to change: unknown fields survive that. Not
    /// idempotent: registering what is there already makes no version, but an evaluation.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) and [`Conflict`](crate::ErrorKind::Conflict) when the condition
    /// does not hold; a missing namespace is [`Missing::Namespace`](crate::Missing::Namespace).
    pub async fn register(&self, register: Register<'_>) -> Result<Registered, Error> {
        let Register { job, condition, submission } = register;
        let namespace = namespace_of(job);
        let operation = of_job(Verb::Register, "job", namespace, &job.id)?;
        let job_modify_index = match condition {
            Condition::Absent => 0,
            Condition::Unchanged { job_modify_index: 0 } => {
                return Err(invalid(&operation, "no job has the check index 0; `Absent` says that there is none"));
            }
            Condition::Unchanged { job_modify_index } => job_modify_index,
        };
        let body = RegisterBody { job, enforce_index: true, job_modify_index, submission };
        let target = Target::new(["v1", "jobs"]).param("namespace", namespace);
        self.put(&operation, target, &body).await
    }

    /// Asks what registering a job would do, and with `diff` also what it would change. Nothing is stored. Cost: one
    /// request, `PUT /v1/job/:id/plan`.
    ///
    /// It validates as a registration does, but does not refuse another type.
    ///
    /// # Errors
    ///
    /// What the request met.
    pub async fn plan(&self, job: &Job, diff: bool) -> Result<Planned, Error> {
        let namespace = namespace_of(job);
        let operation = of_job(Verb::Plan, "job", namespace, &job.id)?;
        let target = Target::new(["v1", "job", &job.id, "plan"]).param("namespace", namespace);
        self.put(&operation, target, &PlanBody { job, diff }).await
    }

    /// Stops a job, or with `purge` removes it with its versions, deployments and allocations. Cost: one request,
    /// `DELETE /v1/job/:id`.
    ///
    /// **Nothing makes it conditional**: the route takes no check index and ignores parameters that it does not know, and
    /// no other route removes a job. So stop under the index that was read, by [`register`](Self::register) with `stop`
    /// set; read the job again when its allocations have ended; and purge at once if it is still stopped. What somebody
    /// registers between that read and the purge goes with it.
    ///
    /// **Purge only when all allocations have ended**: those that still run are lost sight of, and before 2.0.5 may run for
    /// ever (hashicorp/nomad#28242). Jobs that it made, by the clock or by dispatch, stay. Every stop, also of a stopped
    /// job, makes a version and an evaluation; a purge of an absent job does nothing.
    ///
    /// # Errors
    ///
    /// What the request met. An absent job is no error, see [`Deregistered::existed`].
    pub async fn deregister(&self, namespace: &str, id: &str, purge: bool) -> Result<Deregistered, Error> {
        let operation = of_job(Verb::Deregister, "job", namespace, id)?;
        let mut target = Target::new(["v1", "job", id]).param("namespace", namespace);
        if purge {
            target = target.param("purge", "true");
        }
        let received = self.write::<()>(&operation, Method::DELETE, target, None).await?;
        received.decode(&operation, |body| serde_json::from_slice(body))
    }
}

fn namespace_of(job: &Job) -> &str {
    if job.namespace.is_empty() { "default" } else { &job.namespace }
}
