//! A job and what stands at its top level.

use std::collections::BTreeMap;

use super::{TaskGroup, UnixNanos, model, words};

words! {
    /// What kind of job it is. It cannot change while the job exists.
    JobType {
        /// Runs until it is stopped.
        Service = "service",
        /// Runs to completion.
        Batch = "batch",
        /// One instance on every fitting node.
        System = "system",
        /// One run to completion on every fitting node.
        Sysbatch = "sysbatch",
    }
}

words! {
    /// The server's summary of a job's state. It says little: a stopped job is `dead` while its tasks still run, and so
    /// is one that is scaled to zero.
    JobStatus {
        /// Nothing runs yet.
        Pending = "pending",
        /// Something runs, or a deployment does.
        Running = "running",
        /// Nothing is left to be placed.
        Dead = "dead",
    }
}

model! {
    /// A job, as it is read and as it is registered.
    ///
    /// The fields from `stop` on are the server's. They may be sent back as they came.
    Job shows [id, namespace, r#type, version, job_modify_index, stop, status, task_groups] {
        /// The identity, unique in the namespace.
        #[serde(rename = "ID")]
        id: String,
        /// The name; the ID where it is left out.
        name: String,
        /// The namespace; `default` where it is left out.
        namespace: String,
        /// The region; the agent's where it is left out.
        region: String,
        /// What kind of job it is; service where it is left out.
        r#type: JobType,
        /// From 1 to 100; 50 where it is left out.
        priority: Option<i64>,
        /// The datacenters that it may run in, globs allowed; all where there are none.
        datacenters: Vec<String>,
        /// The node pool; `default` where it is left out.
        node_pool: String,
        /// Marks. **Any change of them replaces every instance.**
        meta: BTreeMap<String, String>,
        /// What a node must have.
        constraints: Vec<Constraint>,
        /// The groups of tasks, each placed as a whole.
        task_groups: Vec<TaskGroup>,
        /// When to run, for batch jobs that run by the clock.
        periodic: Option<Periodic>,
        /// Set on a job that is a template for dispatches, and on the dispatched ones: see [`Job::is_template`].
        parameterized_job: Option<ParameterizedJob>,
        /// Whether it is stopped. A registration with `true` stops it under the check index, which a deregistration has
        /// not.
        stop: bool,
        /// The periodic or parameterized job that made this one.
        #[serde(rename = "ParentID")]
        parent_id: String,
        /// Whether it was made by a dispatch.
        dispatched: bool,
        /// The token of that dispatch.
        dispatch_idempotency_token: String,
        /// Counts up with each change, from 0 on.
        version: u64,
        /// Whether a deployment of this version succeeded. A scale, a stop and an automatic revert inherit it.
        stable: bool,
        /// The server's summary. See [`JobStatus`].
        status: JobStatus,
        /// Mostly empty.
        status_description: String,
        /// The index at which this job was made. Another one means another job of the same ID.
        create_index: u64,
        /// Moves with every write, those of the server's own about status and stability included. **Not for
        /// compare-and-set.**
        modify_index: u64,
        /// Moves with what people change. The check index of a registration.
        job_modify_index: u64,
        /// When this version was registered.
        submit_time: UnixNanos,
        /// The name given to this version.
        version_tag: Option<VersionTag>,
    }
}

impl Job {
    /// A job of this ID and kind, with nothing in it.
    #[must_use]
    pub fn new(id: impl Into<String>, r#type: JobType) -> Self {
        Self { id: id.into(), r#type, ..Self::default() }
    }

    /// Whether it runs only by its dispatches. They are parameterized too, and have been dispatched.
    #[must_use]
    pub fn is_template(&self) -> bool {
        self.parameterized_job.is_some() && !self.dispatched
    }
}

model! {
    /// What a node must have.
    Constraint shows [l_target, operand, r_target] {
        /// What is looked at, such as `${attr.kernel.name}`.
        #[serde(rename = "LTarget")]
        l_target: String,
        /// What it is compared with.
        #[serde(rename = "RTarget")]
        r_target: String,
        /// How: `=`, `!=`, `version`, `regexp` and so on.
        operand: String,
    }
}

model! {
    /// When a periodic job runs.
    Periodic shows [enabled, specs, spec, time_zone, prohibit_overlap] {
        /// Whether it runs at all; `true` where it is left out. Disabled it cannot be forced either.
        enabled: Option<bool>,
        /// The expressions, from 1.7 on: five fields, or a word such as `@daily`.
        specs: Vec<String>,
        /// The one expression of older servers; newer ones warn of it.
        spec: String,
        /// `cron`.
        spec_type: String,
        /// Whether a run is left out while the one before still runs. A forced run never is.
        prohibit_overlap: Option<bool>,
        /// An IANA name; UTC where it is left out. The server needs the zones' data.
        time_zone: String,
    }
}

model! {
    /// What a dispatch must and may bring.
    ParameterizedJob shows [payload, meta_required, meta_optional] {
        /// `optional`, `required` or `forbidden`; optional where it is left out.
        payload: String,
        /// Parameters that must be there.
        meta_required: Vec<String>,
        /// Parameters that may be there. No others may.
        meta_optional: Vec<String>,
    }
}

model! {
    /// A name for a version of a job. Versions that have one are not pruned.
    VersionTag shows [name, description, tagged_time] {
        /// The name, unique in the job.
        name: String,
        /// For people.
        description: String,
        /// When it was given.
        tagged_time: UnixNanos,
    }
}

model! {
    /// What a job was made from. The server keeps it per version, outside of the job, and never interprets it. `Debug`
    /// leaves the source out, which may hold anything.
    ///
    /// Above 1 MB the server drops it, with a warning.
    Submission shows [format] {
        /// The text.
        source: String,
        /// What it is: `hcl2`, `json` or another word.
        format: String,
    }
}

impl Submission {
    /// This text, of this format.
    #[must_use]
    pub fn new(source: impl Into<String>, format: impl Into<String>) -> Self {
        Self { source: source.into(), format: format.into(), ..Self::default() }
    }
}
