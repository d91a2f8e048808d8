//! What runs, and how a new version comes about.

use std::collections::BTreeMap;

use super::{AllocMetric, Job, Nanos, UnixNanos, model, words};

words! {
    /// What the server wants of an allocation.
    DesiredStatus {
        /// It shall run.
        Run = "run",
        /// It shall end.
        Stop = "stop",
        /// It makes room for another.
        Evict = "evict",
    }
}

words! {
    /// What the node says of an allocation.
    ClientStatus {
        /// It has not started, or waits to be started again on its node.
        Pending = "pending",
        /// A task runs.
        Running = "running",
        /// It ended as it should.
        Complete = "complete",
        /// It ended otherwise.
        Failed = "failed",
        /// Its node is gone.
        Lost = "lost",
        /// Its node is away and may come back.
        Unknown = "unknown",
    }
}

impl ClientStatus {
    /// Whether it stays so: complete, failed or lost.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Complete | Self::Failed | Self::Lost)
    }
}

words! {
    /// What one task is about.
    TaskStateName {
        /// Not started, or between two starts.
        Pending = "pending",
        /// Running.
        Running = "running",
        /// Ended.
        Dead = "dead",
    }
}

words! {
    /// How far a deployment is.
    DeploymentStatus {
        /// It goes on.
        Running = "running",
        /// Somebody stopped it for now.
        Paused = "paused",
        /// It ended without success.
        Failed = "failed",
        /// It ended with success.
        Successful = "successful",
        /// A newer version, or the job's stop, ended it.
        Cancelled = "cancelled",
        /// It begins (several regions).
        Initializing = "initializing",
        /// It waits for its turn (several regions).
        Pending = "pending",
        /// It waits for the others (several regions).
        Blocked = "blocked",
        /// It goes on soon (several regions).
        Unblocking = "unblocking",
    }
}

model! {
    /// One instance of a task group, on one node.
    ///
    /// Lists answer a shorter form than a read of one allocation: what only one of the two has is said at the field.
    Allocation shows [id, namespace, job_id, job_version, task_group, name, desired_status, client_status] {
        /// The identity.
        #[serde(rename = "ID")]
        id: String,
        /// The evaluation that made it or changed it last.
        #[serde(rename = "EvalID")]
        eval_id: String,
        /// `job.group[index]`.
        name: String,
        /// The namespace.
        namespace: String,
        /// The node.
        #[serde(rename = "NodeID")]
        node_id: String,
        /// The node's name.
        node_name: String,
        /// The job.
        #[serde(rename = "JobID")]
        job_id: String,
        /// The job's version that it is at, which an update in place moves. Lists only; a read has it in `job`.
        job_version: Option<u64>,
        /// The job at that version. A read only; not in events.
        job: Option<Box<Job>>,
        /// The group.
        task_group: String,
        /// What the server wants.
        desired_status: DesiredStatus,
        /// Why, in words.
        desired_description: String,
        /// What the node says.
        client_status: ClientStatus,
        /// Why, in words.
        client_description: String,
        /// The tasks, by name. Empty until the node took it.
        task_states: BTreeMap<String, TaskState>,
        /// The deployment that it belongs to. A read only.
        #[serde(rename = "DeploymentID")]
        deployment_id: String,
        /// Its health in that deployment.
        deployment_status: Option<AllocDeploymentStatus>,
        /// The evaluation that will place it anew.
        #[serde(rename = "FollowupEvalID")]
        followup_eval_id: String,
        /// What replaces it.
        next_allocation: String,
        /// What it replaces. A read only.
        previous_allocation: String,
        /// What took its place by right of priority.
        preempted_by_allocation: String,
        /// What it has of its node, ports among it. A read only.
        allocated_resources: Option<AllocatedResources>,
        /// How the placement was found. A read only.
        metrics: Option<AllocMetric>,
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
    /// What an allocation has of its node.
    AllocatedResources shows [shared] {
        /// What its tasks share.
        shared: SharedResources,
    }
}

model! {
    /// What the tasks of an allocation share.
    SharedResources shows [disk_mb, ports] {
        /// MB.
        #[serde(rename = "DiskMB")]
        disk_mb: u64,
        /// The ports that its group asked for.
        ports: Vec<AllocatedPort>,
    }
}

model! {
    /// A port of a node that an allocation has.
    AllocatedPort shows [label, value, to, host_ip] {
        /// The name, as the group gave it.
        label: String,
        /// The number on the node.
        value: u16,
        /// The number inside of the network namespace; zero if it is the same.
        to: i32,
        /// The node's address.
        #[serde(rename = "HostIP")]
        host_ip: String,
    }
}

model! {
    /// What a deployment thinks of an allocation. Set once: checks that fail later do not change it.
    AllocDeploymentStatus shows [healthy, canary, timestamp] {
        /// `None` until it is decided.
        healthy: Option<bool>,
        /// When it was decided, RFC 3339.
        timestamp: String,
        /// Whether it is a canary that nobody promoted.
        canary: bool,
        /// Moves with each change.
        modify_index: u64,
    }
}

model! {
    /// What one task is about.
    TaskState shows [state, failed, restarts, started_at, finished_at] {
        /// What it is about.
        state: TaskStateName,
        /// Whether it ended otherwise than it should.
        failed: bool,
        /// How often it was started again on this node.
        restarts: u64,
        /// When that was last, RFC 3339.
        last_restart: String,
        /// When it started, RFC 3339.
        started_at: String,
        /// When it ended, RFC 3339.
        finished_at: String,
        /// What happened, the oldest first; about the last ten.
        events: Vec<TaskEvent>,
    }
}

model! {
    /// Something that happened to a task.
    TaskEvent shows [r#type, time, display_message] {
        /// What: `Received`, `Started`, `Driver Failure`, `Terminated`, `Restarting` and so on.
        r#type: String,
        /// When.
        time: UnixNanos,
        /// For people.
        display_message: String,
        /// For programs, such as `exit_code`, `signal` and `oom_killed` of `Terminated`.
        details: BTreeMap<String, String>,
    }
}

model! {
    /// The rollout of one version of a job.
    Deployment shows [id, namespace, job_id, job_version, status, status_description] {
        /// The identity.
        #[serde(rename = "ID")]
        id: String,
        /// The namespace.
        namespace: String,
        /// The job.
        #[serde(rename = "JobID")]
        job_id: String,
        /// The version that it rolls out.
        job_version: u64,
        /// The job's `ModifyIndex` then.
        job_modify_index: u64,
        /// The job's `JobModifyIndex` then.
        job_spec_modify_index: u64,
        /// The `CreateIndex` of the job: another one means a deployment of an earlier job of the same ID.
        job_create_index: u64,
        /// How far it is.
        status: DeploymentStatus,
        /// Why, in words.
        status_description: String,
        /// The groups, by name.
        task_groups: BTreeMap<String, DeploymentGroup>,
        /// The index at which it was made.
        create_index: u64,
        /// Moves with each change.
        modify_index: u64,
        /// When it was made; from 1.10 on.
        create_time: UnixNanos,
        /// When it changed last; from 1.10 on.
        modify_time: UnixNanos,
    }
}

model! {
    /// How far a deployment is with one group.
    DeploymentGroup shows [desired_total, placed_allocs, healthy_allocs, unhealthy_allocs, promoted] {
        /// Whether a failure registers the last stable version again.
        auto_revert: bool,
        /// Whether canaries are promoted as soon as all are healthy.
        auto_promote: bool,
        /// How long it goes on without a newly healthy instance.
        progress_deadline: Nanos,
        /// When that is over, RFC 3339. Year 1 until something is placed.
        require_progress_by: String,
        /// Whether canaries were promoted.
        promoted: bool,
        /// Canaries, by ID.
        placed_canaries: Vec<String>,
        /// Canaries that there shall be.
        desired_canaries: u64,
        /// Instances that there shall be.
        desired_total: u64,
        /// Instances of this version that were placed.
        placed_allocs: u64,
        /// Those that are healthy.
        healthy_allocs: u64,
        /// Those that are not.
        unhealthy_allocs: u64,
    }
}
