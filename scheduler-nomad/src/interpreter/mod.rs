//! One operation after the other: read, decide, write, observe.

mod delete;
mod launch;
mod read;
mod watch;

use async_trait::async_trait;
use futures_util::stream::{BoxStream, StreamExt as _};
use scheduler_core::{
    BackendName, Capabilities, CheckedWorkload, Conflict, Delete, Deleted, Error, ErrorKind, Feature, Found, Guard,
    Launch, Launched, List, Listed, OpName, OwnerId, Ping, Pong, Result, Scheduler, Status, Support, Target, Watch,
    WatchItem, within,
};
use scheduler_nomad_client::model::Job;
use scheduler_nomad_client::{Client, ConnectOptions, Query};

use crate::error::translate;
use crate::render::{Driver, RenderContext, Rendered, render};
use crate::{meta, observe};

/// From here on the check index and the registration are one step (hashicorp/nomad#27832).
const ATOMIC_SINCE: (u32, u32, u32) = (2, 0, 1);

/// Schedules on Nomad, from version 1.8 on.
///
/// It holds a client, the owner's id and the driver, and no other state: any number of them may work on one cluster, in one
/// process or many.
///
/// # Requests
///
/// | operation | requests |
/// |---|---|
/// | `launch`, absent | 1 read of the job, 1 registration |
/// | `launch`, nothing differs | 2 reads (job, source) |
/// | `launch`, something differs | 2 reads, 1 plan, 1 registration |
/// | `launch` onto a stopped job | 1 read of its allocations more |
/// | `delete`, first step | 2 reads (job, source), 1 registration, 2 lists (allocations, evaluations), and 1 purge if nothing runs |
/// | `delete`, further steps | 1 read, 2 lists, and 1 purge in the last one |
/// | `status` | 2 reads (job, source), 3 lists (allocations, deployments, evaluations) of this job |
/// | `list` | 1 list of jobs, and what a `status` takes for each of ours |
/// | `watch` | as `list` at the start, after each gap and once a minute; what a `status` takes for each change |
/// | `ping` | 1 read |
///
/// When a check index does not hold, the job is read once more to say why. When a job moves between the requests of one
/// `status`, they are sent again, at most three times in all. Nothing else is repeated.
///
/// # How it writes
///
/// A registration replaces the job as a whole, under the check index that was read (`EnforceIndex`). So what somebody else
/// added to the job stays for as long as launches have nothing to change, and goes with the first one that has: each entry
/// is a warning. The count is copied from the live job under
/// [`Replicas::Keep`](scheduler_core::Replicas::Keep). Servers before 2.0.1 check the index and write in two steps:
/// [`Feature::CompareAndSet`] is a "no" there.
///
/// A server keeps the source only with a version that it makes, and makes none for an unchanged job. So the job's
/// description (`UI.Description`, from 1.8 on) tells the revision and the check index: it changes with every launch that
/// writes, and replaces no instance.
///
/// # How it deletes
///
/// By a registration of the live job with `Stop`, under its check index. Once the last allocation has ended the job is gone
/// for us: it has no status, is in no list, and a launch registers over it and says `Created`. The server keeps it until the
/// next `delete` purges it, which is done only when nothing of it runs or is to be placed. A purge knows no check index: of
/// two control planes with one owner id, one that purges may take what the other one launches in that moment.
#[derive(Clone, Debug)]
pub struct NomadScheduler {
    client: Client,
    owner: OwnerId,
    driver: Driver,
    capabilities: Capabilities,
}

impl NomadScheduler {
    /// Connects, and asks the agent for its version. Cost: one request.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) when the connection cannot be set up as described; otherwise what
    /// the request met.
    pub async fn connect(options: ConnectOptions, owner: OwnerId) -> Result<Self> {
        let client = Client::connect(options)
            .await
            .map_err(|error| translate(&error).with_op(OpName::Connect).with_backend(&BackendName::nomad()))?;
        Ok(Self::new(client, owner))
    }

    /// Uses a ready client. Sends nothing: where the client does not know the server's version (the token may not read the
    /// agent), that is taken for an old one, which has no atomic compare-and-set. See [`for_version`](Self::for_version).
    #[must_use]
    pub fn new(client: Client, owner: OwnerId) -> Self {
        let version = client.server_version().map(|version| (version.major, version.minor, version.patch));
        Self { capabilities: capabilities(version), client, owner, driver: Driver::default() }
    }

    /// For servers that are all known to be of this version or later.
    #[must_use]
    pub fn for_version(mut self, major: u32, minor: u32, patch: u32) -> Self {
        self.capabilities = capabilities(Some((major, minor, patch)));
        self
    }

    /// Runs containers by this driver instead of Docker, unless a workload's [extension](crate::NomadExtension) says
    /// otherwise.
    #[must_use]
    pub fn driver(mut self, driver: impl Into<Driver>) -> Self {
        self.driver = driver.into();
        self
    }

    /// The client below.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The owner whose workloads these are.
    #[must_use]
    pub fn owner(&self) -> &OwnerId {
        &self.owner
    }

    async fn query<T>(&self, query: &Query<T>) -> Result<T> {
        self.client.query(query).await.map(|answer| answer.value).map_err(|error| translate(&error))
    }

    /// What a launch and a delete decide by.
    async fn read(&self, target: &Target) -> Result<Live> {
        let (namespace, id) = (target.namespace.as_str(), target.name.as_str());
        let Some(job) = self.query(&Query::job(namespace, id)).await? else { return Ok(Live::Absent) };
        if !job.stop {
            return Ok(Live::Present(Box::new(job)));
        }
        let allocations = self.query(&Query::job_allocations(namespace, id)).await?;
        let gone = observe::is_gone(&job, &allocations);
        Ok(if gone { Live::Gone(Box::new(job)) } else { Live::Deleting(Box::new(job)) })
    }

    fn is_ours(&self, job: &Job) -> bool {
        meta::owner_of(&job.meta).as_ref() == Some(&self.owner)
    }

    fn render(&self, workload: &CheckedWorkload, replicas: u32) -> Result<Rendered> {
        render(workload, &self.owner, &RenderContext::new(replicas).driver(self.driver.clone()))
    }
}

fn capabilities(version: Option<(u32, u32, u32)>) -> Capabilities {
    let no = |reason: &str| Support::No(reason.to_owned());
    let mut all = Capabilities::all(BackendName::nomad())
        .with(Feature::StartupProbes, no("Nomad has no check that the others wait for"))
        .with(Feature::ExecProbes, no("Nomad's own services are checked by HTTP and TCP only"))
        .with(Feature::GrpcProbes, no("Nomad's own services are checked by HTTP and TCP only"))
        .with(Feature::ConfigReferences, no("this version of the Nomad backend has no configurations"))
        .with(Feature::EmptyVolumes, no("each driver has its own; use the folder NOMAD_ALLOC_DIR, or the extension"))
        .with(Feature::HostVolumes, no("Nomad knows folders of a node by names, not by paths; use a claim"))
        .with(Feature::Recreate, no("Nomad starts a new allocation when the old one is told to end, not when it has"))
        .with(Feature::Identity, no("Nomad binds rights to the names of jobs, not to accounts"))
        .with(Feature::PullSecrets, no("Nomad has none; configure the driver on the nodes, or use the extension"));
    if version.is_none_or(|version| version < ATOMIC_SINCE) {
        let (major, minor, patch) = ATOMIC_SINCE;
        let which = match version {
            Some((major, minor, patch)) => format!("the server has {major}.{minor}.{patch}"),
            None => "the server's version is unknown".to_owned(),
        };
        let reason = format!("the check index is atomic from Nomad {major}.{minor}.{patch} on; {which}");
        all = all.with(Feature::CompareAndSet, Support::No(reason));
    }
    all
}

/// The job of a workload as it was read.
enum Live {
    /// There is none.
    Absent,
    /// It was stopped and has ended. For everybody but the server it is not there.
    Gone(Box<Job>),
    /// It was stopped, and something of it still runs.
    Deleting(Box<Job>),
    /// It is there.
    Present(Box<Job>),
}

/// What a guard says of the job as it was read; `Ok` if the operation may go on.
fn check_guard(guard: &Guard, live: &Live, owner: &OwnerId) -> Result<()> {
    let (job, deleting) = match live {
        Live::Absent | Live::Gone(_) => {
            return match guard {
                Guard::IfVersion(_) => Err(Error::new(ErrorKind::Conflict(Conflict::Absent), "there is no such job")),
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
        _ if found.as_ref() != Some(owner) => {
            Err(Error::new(ErrorKind::Conflict(Conflict::Owner { owner: found }), "a job of this name"))
        }
        Guard::IfVersion(version) if !deleting && *version != observe::version(job) => {
            Err(moved(job, "the job is not at that version"))
        }
        _ => Ok(()),
    }
}

fn moved(job: &Job, message: &str) -> Error {
    Error::new(ErrorKind::Conflict(Conflict::Moved { now: Some(observe::version(job)) }), message)
}

#[async_trait]
impl Scheduler for NomadScheduler {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn launch(&self, op: Launch) -> Result<Launched> {
        let done = within(&op.call, launch::launch(self, &op)).await;
        done.map_err(|error| about(error, OpName::Launch, Some(op.workload.target())))
    }

    async fn delete(&self, op: Delete) -> Result<Deleted> {
        let done = within(&op.call, delete::delete(self, &op)).await;
        done.map_err(|error| about(error, OpName::Delete, Some(&op.target)))
    }

    async fn status(&self, op: Status) -> Result<Found> {
        let done = within(&op.call, read::status(self, &op)).await;
        done.map_err(|error| about(error, OpName::Status, Some(&op.target)))
    }

    async fn list(&self, op: List) -> Result<Listed> {
        let done = within(&op.call, read::list(self, &op.filter)).await;
        done.map_err(|error| about(error, OpName::List, None))
    }

    fn watch(&self, op: Watch) -> BoxStream<'static, Result<WatchItem>> {
        let items = watch::watch(self.clone(), op.filter);
        items.map(|item| item.map_err(|error| about(error, OpName::Watch, None))).boxed()
    }

    async fn ping(&self, op: Ping) -> Result<Pong> {
        let agent = within(&op.call, self.query(&Query::agent())).await;
        let agent = agent.map_err(|error| about(error, OpName::Ping, None))?;
        Ok(Pong::new(agent.member.tags.get("build").cloned().unwrap_or_default()))
    }
}

fn about(error: Error, op: OpName, target: Option<&Target>) -> Error {
    let error = error.with_op(op).with_backend(&BackendName::nomad());
    match target {
        Some(target) => error.with_target(target),
        None => error,
    }
}
