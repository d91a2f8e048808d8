//! Lists of jobs, namespaces, and what an agent says of itself.

use std::collections::BTreeMap;

use super::{JobStatus, JobType, UnixNanos, model};

model! {
    /// A job in a list. It has no version.
    JobStub shows [id, namespace, r#type, status, stop, job_modify_index] {
        /// The identity, unique in the namespace.
        #[serde(rename = "ID")]
        id: String,
        /// The periodic or parameterized job that made this one.
        #[serde(rename = "ParentID")]
        parent_id: String,
        /// The name.
        name: String,
        /// The namespace.
        namespace: String,
        /// What kind of job it is.
        r#type: JobType,
        /// Whether it runs by the clock.
        periodic: bool,
        /// Whether it is a template for dispatches. False for the dispatched ones.
        parameterized_job: bool,
        /// Whether it is stopped.
        stop: bool,
        /// The server's summary.
        status: JobStatus,
        /// Mostly empty.
        status_description: String,
        /// Marks, if they were asked for.
        meta: BTreeMap<String, String>,
        /// How its instances do.
        job_summary: Option<JobSummary>,
        /// The index at which it was made.
        create_index: u64,
        /// Moves with every write.
        modify_index: u64,
        /// Moves with what people change.
        job_modify_index: u64,
        /// When this version was registered.
        submit_time: UnixNanos,
    }
}

model! {
    /// How the instances of a job do.
    JobSummary shows [job_id, namespace, summary] {
        /// The job.
        #[serde(rename = "JobID")]
        job_id: String,
        /// The namespace.
        namespace: String,
        /// The groups, by name.
        summary: BTreeMap<String, GroupSummary>,
        /// The jobs that this one made. May be out of date.
        children: Option<JobChildren>,
        /// The index at which it was made.
        create_index: u64,
        /// Moves with each change.
        modify_index: u64,
    }
}

model! {
    /// How the instances of a group do. `complete`, `failed` and `lost` count all that ever were, over all versions.
    GroupSummary shows [queued, starting, running, complete, failed, lost, unknown] {
        /// What the last evaluation could not place.
        queued: i64,
        /// Placed and not running, those between two starts included.
        starting: i64,
        /// Running.
        running: i64,
        /// Ended as they should.
        complete: i64,
        /// Ended otherwise.
        failed: i64,
        /// Gone with their node.
        lost: i64,
        /// On a node that is away.
        unknown: i64,
    }
}

model! {
    /// The jobs that a periodic or parameterized one made. The server's count can be off, and even negative.
    JobChildren shows [pending, running, dead] {
        /// Not started.
        pending: i64,
        /// Running.
        running: i64,
        /// Ended.
        dead: i64,
    }
}

model! {
    /// A namespace. A write replaces it as a whole, so read it first.
    Namespace shows [name, description, meta] {
        /// The name: letters, digits and dashes, at most 128.
        name: String,
        /// For people, at most 256 characters.
        description: String,
        /// Marks.
        meta: BTreeMap<String, String>,
        /// The index at which it was made.
        create_index: u64,
        /// Moves with each change.
        modify_index: u64,
    }
}

impl Namespace {
    /// A namespace of this name, with nothing in it.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

model! {
    /// What an agent says of itself.
    AgentSelf shows [member] {
        /// Its place in the cluster. This key is spelled small, unlike all others.
        #[serde(rename = "member")]
        member: AgentMember,
    }
}

model! {
    /// An agent's place in the cluster.
    AgentMember shows [name, addr, status, tags] {
        /// The name.
        name: String,
        /// The address.
        addr: String,
        /// `alive` or not.
        status: String,
        /// Facts, such as the version (`build`), `region` and `dc`.
        tags: BTreeMap<String, String>,
    }
}
