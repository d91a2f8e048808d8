//! What an operation finds, what its guard says of that, and how it puts a changed job back.

use scheduler_core::{Conflict, Error, ErrorKind, Guard, OwnerId, Result, Target, Version};
use scheduler_nomad_client::model::{Job, Submission};
use scheduler_nomad_client::{Condition, Query, Register};

use super::NomadScheduler;
use crate::error::{lost_a_race, translate};
use crate::{meta, observe};

/// The job of a workload as it was read.
pub(super) enum Live {
    /// There is none.
    Absent,
    /// It was stopped and has ended. For everybody but the server it is not there.
    Gone(Box<Job>),
    /// It was stopped, and something of it still runs.
    Deleting(Box<Job>),
    /// It is there.
    Present(Box<Job>),
}

impl Live {
    /// The versions of all that there is, for the token of a plan.
    pub(super) fn versions(&self) -> Option<Version> {
        match self {
            Self::Absent | Self::Gone(_) => None,
            Self::Deleting(job) | Self::Present(job) => Some(observe::version(job)),
        }
    }
}

/// What a guard says of the job as it was read; `Ok` if the operation may go on.
pub(super) fn check_guard(guard: &Guard, live: &Live, owner: &OwnerId) -> Result<()> {
    let (job, deleting) = match live {
        Live::Absent | Live::Gone(_) => {
            return match guard {
                Guard::IfVersion(_) => Err(absent()),
                _ => Ok(()),
            };
        }
        Live::Deleting(job) => (job, true),
        Live::Present(job) => (job, false),
    };
    let found = meta::owner_of(&job.meta);
    match guard {
        Guard::IfAbsent => Err(Error::new(ErrorKind::AlreadyExists { owner: found }, "a job of this name")),
        Guard::Adopt => Ok(()),
        _ if found.as_ref() != Some(owner) => Err(foreign(found, "a job of this name")),
        Guard::IfVersion(version) if !deleting && *version != observe::version(job) => {
            Err(moved(job, "the job is not at that version"))
        }
        _ => Ok(()),
    }
}

/// Refuses a guard that makes no sense for an operation on what must be there.
pub(super) fn check_sense(guard: &Guard) -> Result<()> {
    match guard {
        Guard::IfOwned | Guard::IfVersion(_) => Ok(()),
        _ => Err(Error::invalid_argument("this guard makes no sense for what must be there and be ours already")),
    }
}

pub(super) fn absent() -> Error {
    Error::new(ErrorKind::Conflict(Conflict::Absent), "there is no such job")
}

pub(super) fn deleting() -> Error {
    Error::new(ErrorKind::Conflict(Conflict::Deleting), "the job of this name")
}

pub(super) fn foreign(owner: Option<OwnerId>, what: &str) -> Error {
    Error::new(ErrorKind::Conflict(Conflict::Owner { owner }), what)
}

pub(super) fn moved(job: &Job, message: &str) -> Error {
    Error::new(ErrorKind::Conflict(Conflict::Moved { now: Some(observe::version(job)) }), message)
}

impl NomadScheduler {
    /// What operations decide by. One request, and one more for a job that is stopped.
    pub(super) async fn read(&self, target: &Target) -> Result<Live> {
        let (namespace, id) = (target.namespace.as_str(), target.name.as_str());
        let Some(job) = self.query(&Query::job(namespace, id)).await? else { return Ok(Live::Absent) };
        if !job.stop {
            return Ok(Live::Present(Box::new(job)));
        }
        let allocations = self.query(&Query::job_allocations(namespace, id)).await?;
        let gone = observe::is_gone(&job, &allocations);
        Ok(if gone { Live::Gone(Box::new(job)) } else { Live::Deleting(Box::new(job)) })
    }

    /// The job of a workload that must be there, ours, and not on its way out.
    pub(super) async fn needed(&self, target: &Target, guard: &Guard) -> Result<Box<Job>> {
        let live = self.read(target).await?;
        check_guard(guard, &live, &self.owner)?;
        match live {
            Live::Present(job) => Ok(job),
            Live::Deleting(_) => Err(deleting()),
            Live::Absent | Live::Gone(_) => Err(absent()),
        }
    }

    /// What the present version of a job was launched from. One request.
    pub(super) async fn source_of(&self, job: &Job, target: &Target) -> Result<Option<Submission>> {
        self.query(&Query::submission(target.namespace.as_str(), &job.id, job.version)).await
    }

    /// Registers a job that was read and changed, if nobody changed it meanwhile. What was launched stays what it was: the
    /// source goes along.
    pub(super) async fn put_back(
        &self,
        job: &Job,
        source: Option<&Submission>,
        target: &Target,
        guard: &Guard,
    ) -> Result<Version> {
        let mut register = Register::new(job, Condition::Unchanged { job_modify_index: job.job_modify_index });
        if let Some(source) = source {
            register = register.submission(source);
        }
        match self.client.register(register).await {
            Ok(registered) => Ok(observe::version_of(job.create_index, registered.job_modify_index)),
            Err(error) if lost_a_race(&error) => {
                // Says first what is worse than that it moved.
                let now = self.needed(target, guard).await?;
                Err(moved(&now, error.message().unwrap_or_default()))
            }
            Err(error) => Err(translate(&error)),
        }
    }
}
