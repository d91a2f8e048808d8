//! What the cluster holds beside jobs: evaluations, deployments, allocations, and the states of their tasks.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{
    job::{DesiredUpdates, Job, JobKey},
    time::Time,
};

#[derive(Debug, Clone)]
pub(crate) struct Eval {
    pub(crate) id: String,
    pub(crate) job: JobKey,
    /// The type of the job.
    pub(crate) kind: String,
    pub(crate) priority: i64,
    pub(crate) trigger: Trigger,
    pub(crate) status: EvalStatus,
    pub(crate) description: String,
    /// None where a recording leaves the field out.
    pub(crate) job_modify_index: Option<u64>,
    /// The node that changed, and its index.
    pub(crate) node: Option<(String, u64)>,
    pub(crate) deployment: Option<String>,
    pub(crate) wait_until: Option<Time>,
    pub(crate) next: Option<String>,
    pub(crate) previous: Option<String>,
    pub(crate) blocked: Option<String>,
    pub(crate) failed: BTreeMap<String, Metric>,
    /// Of one that is or was blocked: whether nodes of their only class can take the job at all.
    pub(crate) class_eligible: Option<bool>,
    pub(crate) queued: BTreeMap<String, u64>,
    /// There once the scheduler is done with it.
    pub(crate) annotations: Option<BTreeMap<String, DesiredUpdates>>,
    pub(crate) snapshot_index: u64,
    pub(crate) create_index: u64,
    pub(crate) modify_index: u64,
    pub(crate) create_time: Time,
    pub(crate) modify_time: Time,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trigger {
    JobRegister,
    JobDeregister,
    JobScaling,
    DeploymentWatcher,
    AllocFailure,
    AllocReschedule,
    QueuedAllocs,
    NodeUpdate,
    PeriodicJob,
    AllocStop,
}

impl Trigger {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::JobRegister => "job-register",
            Self::JobDeregister => "job-deregister",
            Self::JobScaling => "job-scaling",
            Self::DeploymentWatcher => "deployment-watcher",
            Self::AllocFailure => "alloc-failure",
            Self::AllocReschedule => "alloc-reschedule",
            Self::QueuedAllocs => "queued-allocs",
            Self::NodeUpdate => "node-update",
            Self::PeriodicJob => "periodic-job",
            Self::AllocStop => "alloc-stop",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EvalStatus {
    Pending,
    Blocked,
    Complete,
    Canceled,
}

impl EvalStatus {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Blocked => "blocked",
            Self::Complete => "complete",
            Self::Canceled => "canceled",
        }
    }

    pub(crate) fn is_terminal(self) -> bool {
        matches!(self, Self::Complete | Self::Canceled)
    }
}

/// Why the allocations of a group could not be placed, or what placing one took.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Metric {
    pub(crate) evaluated: u64,
    pub(crate) filtered: BTreeMap<String, u64>,
    pub(crate) exhausted: BTreeMap<String, u64>,
    /// Nodes that could be chosen, by datacenter.
    pub(crate) available: BTreeMap<String, u64>,
    pub(crate) in_pool: u64,
    /// What the group asked for in vain, by task: CPU and memory.
    pub(crate) wanted: BTreeMap<String, (i64, i64)>,
    /// More allocations that failed for the same reasons.
    pub(crate) coalesced: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Deployment {
    pub(crate) id: String,
    pub(crate) job: JobKey,
    pub(crate) job_version: u64,
    /// As the job was when it began.
    pub(crate) job_modify_index: u64,
    pub(crate) job_spec_modify_index: u64,
    pub(crate) job_create_index: u64,
    pub(crate) priority: i64,
    pub(crate) status: DeploymentStatus,
    /// What its failure did about the version before it. None when that was not asked for.
    pub(crate) rollback: Option<Rollback>,
    pub(crate) groups: BTreeMap<String, GroupState>,
    pub(crate) create_index: u64,
    pub(crate) modify_index: u64,
    pub(crate) create_time: Time,
    pub(crate) modify_time: Time,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rollback {
    To(u64),
    /// The stable version says the same as the current one.
    Same(u64),
    /// There is no stable version.
    Nowhere,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeploymentStatus {
    Running,
    Paused,
    Successful,
    FailedUnhealthy,
    FailedDeadline,
    FailedByHand,
    CancelledNewer,
    CancelledStopped,
}

impl DeploymentStatus {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Successful => "successful",
            Self::FailedUnhealthy | Self::FailedDeadline | Self::FailedByHand => "failed",
            Self::CancelledNewer | Self::CancelledStopped => "cancelled",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Running => "Deployment is running",
            Self::Paused => "Deployment is paused",
            Self::Successful => "Deployment completed successfully",
            Self::FailedUnhealthy => "Failed due to unhealthy allocations",
            Self::FailedDeadline => "Failed due to progress deadline",
            Self::FailedByHand => "Deployment marked as failed",
            Self::CancelledNewer => "Cancelled due to newer version of job",
            Self::CancelledStopped => "Cancelled because job is stopped",
        }
    }
}

impl Deployment {
    pub(crate) fn is_active(&self) -> bool {
        matches!(self.status, DeploymentStatus::Running | DeploymentStatus::Paused)
    }

    /// Canaries wait for somebody to promote them, or to become healthy for that.
    pub(crate) fn awaits_promotion(&self) -> bool {
        self.status == DeploymentStatus::Running && self.groups.values().any(GroupState::is_canarying)
    }

    /// Whatever canaries there are promote themselves.
    pub(crate) fn promotes_itself(&self) -> bool {
        let by_hand = |group: &GroupState| group.desired_canaries > 0 && !group.auto_promote;
        self.status == DeploymentStatus::Running && !self.groups.values().any(by_hand)
    }

    pub(crate) fn description(&self) -> String {
        if self.awaits_promotion() {
            let how =
                if self.promotes_itself() { "pending automatic promotion" } else { "but requires manual promotion" };
            return format!("Deployment is running {how}");
        }
        let text = self.status.description();
        match self.rollback {
            None => text.to_owned(),
            Some(Rollback::To(version)) => format!("{text} - rolling back to job version {version}"),
            Some(Rollback::Same(version)) => {
                let why = "as current job has same specification";
                format!("{text} - not rolling back to stable job version {version} {why}")
            }
            Some(Rollback::Nowhere) => format!("{text} - no stable job version to auto revert to"),
        }
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.status.text() == "failed"
    }
}

/// The deployment of one group.
#[derive(Debug, Clone)]
pub(crate) struct GroupState {
    pub(crate) desired: u64,
    pub(crate) placed: u64,
    pub(crate) healthy: u64,
    pub(crate) unhealthy: u64,
    pub(crate) progress_deadline: Duration,
    pub(crate) progress_by: Option<Time>,
    pub(crate) desired_canaries: u64,
    pub(crate) canaries: Vec<String>,
    pub(crate) promoted: bool,
    pub(crate) auto_promote: bool,
    pub(crate) auto_revert: bool,
}

impl GroupState {
    /// Its canaries are all that may be there of the new version.
    pub(crate) fn is_canarying(&self) -> bool {
        self.desired_canaries > 0 && !self.promoted
    }

    /// Whether there is as much health as there is to be for now.
    pub(crate) fn is_healthy(&self) -> bool {
        self.healthy >= if self.is_canarying() { self.desired_canaries } else { self.desired }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Alloc {
    pub(crate) id: String,
    pub(crate) eval: String,
    pub(crate) job: Arc<Job>,
    pub(crate) group: String,
    /// The number in its name.
    pub(crate) slot: u64,
    pub(crate) node: String,
    pub(crate) node_name: String,
    pub(crate) wanted: bool,
    pub(crate) desired_description: &'static str,
    pub(crate) status: ClientStatus,
    pub(crate) client_description: &'static str,
    /// What the client has told of the tasks. None before it said anything.
    pub(crate) tasks: Option<BTreeMap<String, TaskState>>,
    pub(crate) deployment: Option<String>,
    /// It is a canary that was not promoted.
    pub(crate) canary: bool,
    pub(crate) health: Option<Health>,
    /// The deployment lets it be replaced.
    pub(crate) may_reschedule: bool,
    /// Somebody wants it to be replaced at once.
    pub(crate) must_reschedule: bool,
    /// Somebody wants another one in its place.
    pub(crate) must_migrate: bool,
    pub(crate) followup: Option<String>,
    pub(crate) next: Option<String>,
    pub(crate) previous: Option<String>,
    pub(crate) reschedules: Vec<RescheduleEvent>,
    pub(crate) ports: Vec<Port>,
    pub(crate) metric: Metric,
    pub(crate) create_index: u64,
    pub(crate) modify_index: u64,
    /// Moves with what the servers write, not with what the client tells.
    pub(crate) alloc_modify_index: u64,
    pub(crate) create_time: Time,
    pub(crate) modify_time: Time,
}

impl Alloc {
    pub(crate) fn name(&self) -> String {
        format!("{}.{}[{}]", self.job.spec.view.id, self.group, self.slot)
    }

    /// Neither wanted nor able to run any more.
    pub(crate) fn is_terminal(&self) -> bool {
        !self.wanted || self.status.is_terminal()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientStatus {
    Pending,
    Running,
    Complete,
    Failed,
    Lost,
}

impl ClientStatus {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Failed => "failed",
            Self::Lost => "lost",
        }
    }

    pub(crate) fn is_terminal(self) -> bool {
        matches!(self, Self::Complete | Self::Failed | Self::Lost)
    }
}

/// Whether an allocation is healthy, once that is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Health {
    pub(crate) healthy: bool,
    pub(crate) at: Time,
    pub(crate) modify_index: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct RescheduleEvent {
    pub(crate) at: Time,
    pub(crate) delay: Duration,
    pub(crate) alloc: String,
    pub(crate) node: String,
}

#[derive(Debug, Clone)]
pub(crate) struct Port {
    pub(crate) label: String,
    pub(crate) value: i64,
    pub(crate) to: i64,
    /// Asked for by number.
    pub(crate) reserved: bool,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct TaskState {
    pub(crate) state: TaskPhase,
    pub(crate) failed: bool,
    pub(crate) restarts: u64,
    pub(crate) last_restart: Option<Time>,
    pub(crate) started_at: Option<Time>,
    pub(crate) finished_at: Option<Time>,
    /// The last ten.
    pub(crate) events: Vec<TaskEvent>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum TaskPhase {
    #[default]
    Pending,
    Running,
    Dead,
}

impl TaskPhase {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Dead => "dead",
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct TaskEvent {
    pub(crate) at: Time,
    pub(crate) kind: TaskEventKind,
}

#[derive(Debug, Clone)]
pub(crate) enum TaskEventKind {
    Received,
    Setup,
    Started,
    DriverFailure(String),
    Terminated {
        exit_code: i64,
        signal: i64,
        oom: bool,
    },
    Restarting {
        delay: Duration,
        /// By the restart policy, not because somebody asked for it.
        by_policy: bool,
    },
    /// A template waits for what is missing.
    TemplateWaits(String),
    RestartSignaled(String),
    Signaling(String),
    NotRestarting(String),
    Killing(Duration),
    Killed,
    /// Another task of the allocation has failed.
    SiblingFailed(String),
    LeaderDead,
    /// A sidecar has nothing to stand beside any more.
    MainDead,
    Unhealthy(String),
}

impl TaskState {
    pub(crate) fn events_extend(&mut self, at: Time, kinds: impl IntoIterator<Item = TaskEventKind>) {
        kinds.into_iter().for_each(|kind| self.push(at, kind));
    }

    pub(crate) fn push(&mut self, at: Time, kind: TaskEventKind) {
        self.events.push(TaskEvent { at, kind });
        if self.events.len() > 10 {
            self.events.remove(0);
        }
    }
}
