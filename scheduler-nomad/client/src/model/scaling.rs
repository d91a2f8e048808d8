//! Counts, and how they came about.

use std::collections::BTreeMap;

use super::{UnixNanos, model};

model! {
    /// The counts of a job's groups.
    ScaleStatus shows [job_id, namespace, job_stopped, task_groups] {
        /// The job.
        #[serde(rename = "JobID")]
        job_id: String,
        /// The namespace.
        namespace: String,
        /// Whether it is stopped.
        job_stopped: bool,
        /// The index at which the job was made.
        job_create_index: u64,
        /// The job's `ModifyIndex`. **Not for the next condition.**
        job_modify_index: u64,
        /// The groups, by name.
        task_groups: BTreeMap<String, GroupScale>,
    }
}

model! {
    /// The counts of a group. Canaries and what has ended are not counted.
    GroupScale shows [desired, placed, running, healthy, unhealthy] {
        /// Instances that there shall be.
        desired: u64,
        /// Those that are placed.
        placed: u64,
        /// Those that run.
        running: u64,
        /// Those that a deployment found healthy.
        healthy: u64,
        /// Those that a deployment found not to be.
        unhealthy: u64,
        /// What was done to the count, the newest first.
        events: Vec<ScalingEvent>,
    }
}

model! {
    /// Something that was done to the count of a group.
    ScalingEvent shows [count, previous_count, error, time] {
        /// The new count; `None` for a note.
        count: Option<i64>,
        /// The count before.
        previous_count: i64,
        /// Why, in the words of who did it.
        message: String,
        /// Whether it is a note about a failure.
        error: bool,
        /// The evaluation; empty if there is none.
        #[serde(rename = "EvalID")]
        eval_id: String,
        /// When.
        time: UnixNanos,
        /// The index of the write.
        create_index: u64,
    }
}
