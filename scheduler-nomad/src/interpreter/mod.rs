//! One operation after the other: read, decide, write, observe.

mod capabilities;
mod config;
mod delete;
mod fields;
mod healthy;
mod history;
mod launch;
mod live;
mod logs;
mod namespace;
mod read;
mod rollout;
mod route;
mod run;
mod watch;

use async_trait::async_trait;
use futures_util::stream::{BoxStream, StreamExt as _};
use scheduler_core::{
    BackendName, Capabilities, CheckedWorkload, ConfigStored, Delete, DeleteNamespace, Deleted, Endpoints,
    EnsureNamespace, Error, Expose, Exposed, Found, History, InstanceAnswer, Launch, Launched, List, Listed, LogItem,
    Logs, MarkHealthy, MarkedHealthy, NamespaceDeleted, NamespaceEnsured, OnInstance, OpName, OwnerId, Ping, Plan,
    Planned, Pong, PutConfig, ReadyEndpoints, Result, Revisions, Rollout, Run, RunStarted, Scale, Scaled, Scheduler,
    Status, Steered, Target, Unexpose, Unexposed, Watch, WatchItem, within,
};
use scheduler_nomad_client::model::Job;
use scheduler_nomad_client::{Client, ConnectOptions, Query};

use capabilities::capabilities;

use crate::error::translate;
use crate::meta;
use crate::render::{Driver, RenderContext, Rendered, render};
use crate::requests::Requests;

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
/// | `launch` of what refers to configurations | 1 read of the variable more |
/// | `plan` | as `launch`, with a plan instead of the registration |
/// | `delete`, first step | 2 reads (job, source), 1 registration, 2 lists (allocations, evaluations), and the last step if nothing runs |
/// | `delete`, further steps | 1 read, 3 lists |
/// | `delete`, last step | besides: 1 list of services (with ports), 2 reads of variables, 1 purge, and 1 deletion for each that is left |
/// | `delete` of a periodic workload | besides: 2 lists of runs at each step and in the end, and for each run 1 list, 1 stop, 2 reads, 1 purge |
/// | `status` | 2 reads (job, source), 3 lists (allocations, deployments, evaluations) of this job |
/// | `status` of a periodic workload | besides: 1 list of its runs, and 1 of allocations for each that goes on; with instances for each of the newest 20 |
/// | `list` | 1 list of jobs, and what a `status` takes for each of ours |
/// | `watch` | as `list` at the start, after each gap and once a minute; what a `status` takes for each change |
/// | `scale` | 1 read, 1 scale; 1 read and 1 registration more while a deployment goes on |
/// | `rollout`, restart | 2 reads (job, source), 1 registration |
/// | `rollout`, else | 1 read, 1 list of deployments, 1 write; to promote 1 list of allocations more |
/// | `instance` | 2 reads (job, allocation), 1 write |
/// | `run`, one-off | 1 registration; 1 read more if it is there |
/// | `run`, now | 2 reads (job, source), 1 registration; 1 read more if it is there |
/// | `run` with configurations | 1 or 2 reads, 1 write more |
/// | `history` | 1 list of versions, 1 read of the source of each; 1 read of a variable if a marked one has lost it |
/// | `mark_healthy` | 1 read, what a `history` takes, 1 read and 2 writes; 1 deletion for each mark beyond ten |
/// | `put_config` | 2 reads (job, variable), 1 write; 1 read of the namespace if there is no job; what a `history` takes if something is given up |
/// | `expose` | 2 reads (job, source), 1 list of jobs; 1 registration and that list again if something differs |
/// | `expose` that takes from another workload | besides: 1 read of its job, and if it has one of the routes 1 read and 1 registration |
/// | `expose` that met another of the same route | besides: 2 reads and 1 registration, which takes the first back |
/// | `unexpose` | 1 read, and if there is a route 1 read and 1 registration |
/// | `endpoints` | what a `status` takes, 1 list of services |
/// | `ensure_namespace` | 1 read, 1 write if it is absent |
/// | `delete_namespace` | 1 read, 1 list of jobs, for each stopped one 1 list, 2 reads and 1 purge, 1 deletion, 1 read |
/// | `logs` | what a `status` takes, and 2 for each container, for its two outputs |
/// | `logs`, followed | besides: a `watch`, a `status` at each change and every five seconds, and 2 connections for each container |
/// | `ping` | 1 read |
///
/// When a check index does not hold, the job is read once more to say why. When a job moves between the requests of one
/// `status`, they are sent again, at most three times in all. The compare-and-set of a variable is tried five times. Nothing
/// else is repeated.
///
/// # How it writes
///
/// A registration replaces the job as a whole, under the check index that was read (`EnforceIndex`). So what somebody else
/// added to the job stays for as long as launches have nothing to change, and goes with the first one that has: each entry
/// is a warning. The count is copied from the live job under
/// [`Replicas::Keep`](scheduler_core::Replicas::Keep), and what other operations wrote into it in any case: the mark of a restart
/// (in the `Meta` of the main task) and routes (tags of services). Servers before 2.0.1 check the index and write in two steps:
/// [`Feature::CompareAndSet`](scheduler_core::Feature::CompareAndSet) is a "no" there.
///
/// A server keeps the source only with a version that it makes, and makes none for an unchanged job. So the job's
/// description (`UI.Description`, from 1.8 on) tells the revision and the check index: it changes with every launch that
/// writes, and replaces no instance.
///
/// A job ([`Kind::Job`](scheduler_core::Kind::Job)) that has ended runs again whenever its version changes. So a launch repairs one
/// only where the plan places and replaces nothing, and is refused as
/// [`MustReplace`](scheduler_core::ErrorKind::MustReplace) otherwise.
///
/// # How it deletes
///
/// By a registration of the live job with `Stop`, under its check index. Once the last allocation has ended the job is gone
/// for us: it has no status, is in no list, and a launch registers over it and says `Created`. The server keeps it until the
/// next `delete` purges it, which is done only when nothing of it runs or is to be placed. A purge knows no check index: of
/// two control planes with one owner id, one that purges may take what the other one launches in that moment.
///
/// The runs of a periodic job are jobs of their own, which the server leaves behind; they are stopped and purged with it. So are
/// the variables with its configurations and with its healthy revisions, for which the token needs the right to read and write
/// `nomad/jobs/*` and `scheduler/healthy/*`, and what the registry of services forgot.
///
/// # What differs
///
/// * **Rollouts.** Only a deployment that goes on can be paused or aborted. Canaries that became healthy in a pause are promoted
///   with the resumption, where the update has no other way to keep all instances.
/// * **Scaling and restarting** make versions of the job. They count among the six that a server keeps (`job_tracked_versions`),
///   so that the `history` has fewer revisions then, and they move
///   [`changed`](scheduler_core::Observation::changed). A mark is a tag of a version, `healthy-<revision>`, and keeps it; the
///   ten newest marks stay. As the server does not keep its source, that is an item of the variable
///   `scheduler/healthy/<workload>` besides, if it fits into 64 KiB with the other nine.
/// * **Configurations** of a workload are items of one variable, 64 KiB in all. A volume has the files that its configuration had
///   when it was launched: one that is stored later needs another launch. A run gets a copy of the variable.
/// * **Routes** are tags for Traefik (version 3, its provider for Nomad) on the service of the port. Whether another workload has
///   one is asked before and after the registration, as the server enforces nothing: of two that take one route at the same
///   moment one or none keeps it, and who gives way may try [again](scheduler_core::Retry::AfterReread). One that was cut off
///   between leaves its tags; then each further expose of the route is refused, also of the two that have it, until one of
///   them is unexposed. Routes that [move](scheduler_core::Expose::taking_from) are tags of both for a moment.
/// * **Endpoints** are addresses and ports of nodes.
/// * **Logs** have no times, and the output of all runs of a task is one. What a node removed is a gap.
/// * **A namespace** that is made by two at once belongs to the one who wrote last.
#[derive(Clone, Debug)]
pub struct NomadScheduler {
    pub(crate) client: Requests,
    owner: OwnerId,
    driver: Driver,
    capabilities: Capabilities,
}

impl NomadScheduler {
    /// Connects, and asks the agent for its version. Cost: one request.
    ///
    /// # Errors
    /// [`InvalidArgument`](scheduler_core::ErrorKind::InvalidArgument) when the connection cannot be set up as described; otherwise what
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
        Self { capabilities: capabilities(version), client: Requests::new(client), owner, driver: Driver::default() }
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
        self.client.reads()
    }

    /// The owner whose workloads these are.
    #[must_use]
    pub fn owner(&self) -> &OwnerId {
        &self.owner
    }

    /// The same for one operation that changes something.
    pub(crate) fn for_one(&self) -> Self {
        Self { client: self.client.afresh(), ..self.clone() }
    }

    /// The failure of the operation that this value is for.
    fn failed(&self, error: Error, op: OpName, target: Option<&Target>) -> Error {
        about(self.client.judge(error), op, target)
    }

    pub(crate) async fn query<T>(&self, query: &Query<T>) -> Result<T> {
        self.client.query(query).await.map(|answer| answer.value).map_err(|error| translate(&error))
    }

    fn is_ours(&self, job: &Job) -> bool {
        meta::owner_of(&job.meta).as_ref() == Some(&self.owner)
    }

    fn render(&self, workload: &CheckedWorkload, context: &RenderContext) -> Result<Rendered> {
        render(workload, &self.owner, &context.clone().driver(self.driver.clone()))
    }
}

#[async_trait]
impl Scheduler for NomadScheduler {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn launch(&self, op: Launch) -> Result<Launched> {
        let own = self.for_one();
        let done = within(&op.call, launch::launch(&own, &op)).await;
        done.map_err(|error| own.failed(error, OpName::Launch, Some(op.workload.target())))
    }

    async fn plan(&self, op: Plan) -> Result<Planned> {
        let done = within(&op.call, launch::plan(self, &op)).await;
        done.map_err(|error| about(error, OpName::Plan, Some(op.workload.target())))
    }

    async fn delete(&self, op: Delete) -> Result<Deleted> {
        let own = self.for_one();
        let done = within(&op.call, delete::delete(&own, &op)).await;
        done.map_err(|error| own.failed(error, OpName::Delete, Some(&op.target)))
    }

    async fn status(&self, op: Status) -> Result<Found> {
        let done = within(&op.call, read::status(self, &op)).await;
        done.map_err(|error| about(error, OpName::Status, Some(&op.target)))
    }

    async fn list(&self, op: List) -> Result<Listed> {
        let done = within(&op.call, read::list(self, &op)).await;
        done.map_err(|error| about(error, OpName::List, None))
    }

    async fn scale(&self, op: Scale) -> Result<Scaled> {
        let own = self.for_one();
        let done = within(&op.call, rollout::scale(&own, &op)).await;
        done.map_err(|error| own.failed(error, OpName::Scale, Some(&op.target)))
    }

    async fn rollout(&self, op: Rollout) -> Result<Steered> {
        let own = self.for_one();
        let done = within(&op.call, rollout::rollout(&own, &op)).await;
        done.map_err(|error| own.failed(error, OpName::Rollout, Some(&op.target)))
    }

    async fn instance(&self, op: OnInstance) -> Result<InstanceAnswer> {
        let own = self.for_one();
        let done = within(&op.call, rollout::instance(&own, &op)).await;
        done.map_err(|error| own.failed(error, OpName::OnInstance, Some(&op.target)))
    }

    async fn run(&self, op: Run) -> Result<RunStarted> {
        let own = self.for_one();
        let done = within(&op.call, run::run(&own, &op)).await;
        done.map_err(|error| own.failed(error, OpName::Run, Some(op.base())))
    }

    async fn history(&self, op: History) -> Result<Revisions> {
        let done = within(&op.call, history::history(self, &op)).await;
        done.map_err(|error| about(error, OpName::History, Some(&op.target)))
    }

    async fn mark_healthy(&self, op: MarkHealthy) -> Result<MarkedHealthy> {
        let own = self.for_one();
        let done = within(&op.call, history::mark_healthy(&own, &op)).await;
        done.map_err(|error| own.failed(error, OpName::MarkHealthy, Some(&op.target)))
    }

    async fn put_config(&self, op: PutConfig) -> Result<ConfigStored> {
        let own = self.for_one();
        let done = within(&op.call, config::put_config(&own, &op)).await;
        done.map_err(|error| own.failed(error, OpName::PutConfig, Some(&op.target)))
    }

    async fn expose(&self, op: Expose) -> Result<Exposed> {
        let own = self.for_one();
        let done = within(&op.call, route::expose(&own, &op)).await;
        done.map_err(|error| own.failed(error, OpName::Expose, Some(&op.target)))
    }

    async fn unexpose(&self, op: Unexpose) -> Result<Unexposed> {
        let own = self.for_one();
        let done = within(&op.call, route::unexpose(&own, &op)).await;
        done.map_err(|error| own.failed(error, OpName::Unexpose, Some(&op.target)))
    }

    async fn endpoints(&self, op: Endpoints) -> Result<ReadyEndpoints> {
        let done = within(&op.call, route::endpoints(self, &op)).await;
        done.map_err(|error| about(error, OpName::Endpoints, Some(&op.target)))
    }

    async fn ensure_namespace(&self, op: EnsureNamespace) -> Result<NamespaceEnsured> {
        let own = self.for_one();
        let done = within(&op.call, namespace::ensure(&own, &op)).await;
        done.map_err(|error| own.failed(error, OpName::EnsureNamespace, None))
    }

    async fn delete_namespace(&self, op: DeleteNamespace) -> Result<NamespaceDeleted> {
        let own = self.for_one();
        let done = within(&op.call, namespace::delete(&own, &op)).await;
        done.map_err(|error| own.failed(error, OpName::DeleteNamespace, None))
    }

    fn logs(&self, op: Logs) -> BoxStream<'static, Result<LogItem>> {
        let target = op.target.clone();
        let items = logs::logs(self.clone(), op);
        items.map(move |item| item.map_err(|error| about(error, OpName::Logs, Some(&target)))).boxed()
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
