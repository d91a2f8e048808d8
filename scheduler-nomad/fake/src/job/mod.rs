//! Jobs: reading, checking and comparing them.

mod canonical;
mod cron;
mod diff;
mod fields;
mod schema;
mod spec;
mod template;
mod validate;

use std::sync::Arc;

use serde_json::{Map, Value, json};

pub(crate) use canonical::{Request, read_request};
pub(crate) use cron::Cron;
pub(crate) use diff::{DesiredUpdates, diff, replaces};
pub(crate) use schema::DecodeError;
pub(crate) use spec::{
    Constraint, Group, HealthRule, Parameters, Periodic, Reschedule, Restart, Spec, Spread, Task, View,
};
pub(crate) use template::{Wait, waits};
pub(crate) use validate::{multi_error, unsimulated, validate, warnings};

/// Namespace and ID.
pub(crate) type JobKey = (String, String);

/// One version of a job.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) spec: Arc<Spec>,
    pub(crate) version: u64,
    pub(crate) stable: bool,
    pub(crate) stop: bool,
    pub(crate) status: JobStatus,
    pub(crate) create_index: u64,
    pub(crate) modify_index: u64,
    /// Moves with what a client writes, and with nothing else.
    pub(crate) job_modify_index: u64,
    pub(crate) submit_time: i64,
    /// Accessor of the token that it was registered with.
    pub(crate) token: String,
    pub(crate) tag: Option<VersionTag>,
}

/// The name of a version, which is kept for it.
#[derive(Debug, Clone)]
pub(crate) struct VersionTag {
    pub(crate) name: String,
    pub(crate) description: String,
    /// Nanoseconds since the Unix epoch.
    pub(crate) time: i64,
}

impl VersionTag {
    pub(crate) fn to_json(&self) -> Value {
        json!({"Name": self.name, "Description": self.description, "TaggedTime": self.time})
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobStatus {
    Pending,
    Running,
    Dead,
}

impl JobStatus {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Dead => "dead",
        }
    }
}

impl Job {
    pub(crate) fn key(&self) -> JobKey {
        (self.spec.view.namespace.clone(), self.spec.view.id.clone())
    }

    /// It does not run itself, but has children that do.
    pub(crate) fn is_parent(&self) -> bool {
        let view = &self.spec.view;
        view.periodic.is_some() || (view.parameterized_job.is_some() && !view.dispatched)
    }

    /// The job as a read answers it.
    pub(crate) fn to_json(&self) -> Map<String, Value> {
        let mut json = self.spec.json.clone();
        let server = [
            ("CreateIndex", json!(self.create_index)),
            ("ModifyIndex", json!(self.modify_index)),
            ("JobModifyIndex", json!(self.job_modify_index)),
            ("NomadTokenID", json!(self.token)),
            ("Stable", json!(self.stable)),
            ("Status", json!(self.status.text())),
            ("Stop", json!(self.stop)),
            ("SubmitTime", json!(self.submit_time)),
            ("Version", json!(self.version)),
            ("VersionTag", self.tag.as_ref().map(VersionTag::to_json).unwrap_or_default()),
        ];
        json.extend(server.map(|(key, value)| (key.to_owned(), value)));
        json
    }
}

/// The source that a version was submitted with.
#[derive(Debug, Clone)]
pub(crate) struct Submission(pub(crate) Value);
