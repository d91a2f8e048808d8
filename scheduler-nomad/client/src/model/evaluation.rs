//! What the scheduler did, and why something was not placed.

use std::collections::BTreeMap;

use super::{UnixNanos, model, words};

words! {
    /// How far an evaluation is.
    EvalStatus {
        /// It waits for the scheduler, or for its time.
        Pending = "pending",
        /// It waits for capacity.
        Blocked = "blocked",
        /// The scheduler is done with it. **That says nothing of whether everything was placed.**
        Complete = "complete",
        /// The scheduler gave up.
        Failed = "failed",
        /// Another one made it needless.
        Canceled = "canceled",
    }
}

model! {
    /// One run of the scheduler over one job.
    Evaluation shows [id, namespace, job_id, triggered_by, status, status_description] {
        /// The identity.
        #[serde(rename = "ID")]
        id: String,
        /// The namespace.
        namespace: String,
        /// The job's type, for jobs: the scheduler that ran.
        r#type: String,
        /// Why it came about: `job-register`, `alloc-failure`, `deployment-watcher` and so on.
        triggered_by: String,
        /// The job.
        #[serde(rename = "JobID")]
        job_id: String,
        /// The job's `JobModifyIndex` that it is about. Zero for those that the server made by itself.
        job_modify_index: u64,
        /// The deployment that it is about.
        #[serde(rename = "DeploymentID")]
        deployment_id: String,
        /// How far it is.
        status: EvalStatus,
        /// Why, in words.
        status_description: String,
        /// When it runs at the earliest, RFC 3339.
        wait_until: String,
        /// The one that follows.
        next_eval: String,
        /// The one before.
        previous_eval: String,
        /// The one that waits for what this one could not place.
        blocked_eval: String,
        /// Why instances were not placed, by group. Empty when all were.
        #[serde(rename = "FailedTGAllocs")]
        failed_tg_allocs: BTreeMap<String, AllocMetric>,
        /// How many were not placed, by group.
        queued_allocations: BTreeMap<String, u64>,
        /// The quota that is used up.
        quota_limit_reached: String,
        /// The index at which it was made.
        create_index: u64,
        /// Moves with each change.
        modify_index: u64,
        /// When it was made.
        create_time: UnixNanos,
        /// When it changed last.
        modify_time: UnixNanos,
    }
}

model! {
    /// How a placement was looked for.
    AllocMetric shows [nodes_evaluated, nodes_filtered, nodes_exhausted, coalesced_failures] {
        /// Nodes that were looked at.
        nodes_evaluated: u64,
        /// Nodes that do not fit.
        nodes_filtered: u64,
        /// Ready nodes of the pool.
        nodes_in_pool: u64,
        /// The pool; from 1.11 on.
        node_pool: String,
        /// Ready nodes, by datacenter.
        nodes_available: BTreeMap<String, u64>,
        /// How many nodes a class ruled out.
        class_filtered: BTreeMap<String, u64>,
        /// How many nodes a reason ruled out. The reasons are for people.
        constraint_filtered: BTreeMap<String, u64>,
        /// Nodes that fit and have no room.
        nodes_exhausted: u64,
        /// The same, by class.
        class_exhausted: BTreeMap<String, u64>,
        /// The same, by what they lack, such as `memory`.
        dimension_exhausted: BTreeMap<String, u64>,
        /// Quotas that are used up.
        quota_exhausted: Vec<String>,
        /// How many more instances failed for the same reason.
        coalesced_failures: u64,
    }
}
