//! The final encoding of the algebra: the trait that backends implement and models call.

use std::fmt::Debug;

use async_trait::async_trait;
use futures_core::stream::BoxStream;
use futures_util::StreamExt as _;

use crate::capability::Capabilities;
use crate::error::{Error, Result};
use crate::name::Target;
use crate::op::{
    ConfigStored, Delete, DeleteNamespace, Deleted, Endpoints, EnsureNamespace, Expose, Exposed, Found, History,
    InstanceAnswer, Launch, Launched, List, Listed, LogItem, Logs, MarkHealthy, MarkedHealthy, NamespaceDeleted,
    NamespaceEnsured, OnInstance, OpName, Ping, Plan, Planned, Pong, PutConfig, ReadyEndpoints, Revisions, Rollout,
    Run, RunStarted, Scale, Scaled, Status, Steered, Unexpose, Unexposed, Watch,
};
use crate::watch::WatchItem;

/// A scheduler.
///
/// Models hold an `Arc<dyn Scheduler>`; backends implement it. The contract below is the same for every backend, and the
/// suite in `conformance` checks it.
///
/// # For all operations
///
/// * **Checked first.** What an operation needs is compared with [`capabilities`](Self::capabilities), and arguments are
///   checked, before anything is sent. Nothing that is asked for is silently left out.
/// * **Idempotent.** Any operation may be repeated, also after an error or when its answer was lost.
/// * **Cancel safe.** Dropping the future leaves nothing that the next call of the same operation does not repair. No
///   operation leaves a task behind.
/// * **No hidden retries**, but for the bounded repetition of one compare-and-set that is documented with each backend.
/// * **Ownership.** A scheduler is built with an [`OwnerId`](crate::OwnerId) and touches nothing without that mark.
///
/// # Where schedulers think differently
///
/// The contract was settled on two that do, Kubernetes and Nomad. What they cannot have alike is either left open here, or
/// is a [`Feature`](crate::Feature) that one of them declines with its reason:
///
/// | what | Kubernetes | Nomad | settled as |
/// |---|---|---|---|
/// | objects of a workload | Deployment, Service | one job | [`ObjectChange`](crate::ObjectChange)s are told, never compared |
/// | what replaces instances | the pod template | also labels, annotations | [`Effect`](crate::Effect) may differ; created, updated, unchanged may not |
/// | surge | in instances | blue/green, or none | the bounds are honoured or exceeded with a warning |
/// | `Recreate` | old ones end first | no such order | a feature |
/// | an instance without a node | is there, pending | is not made | a diagnosis of the workload as a whole will do |
/// | a lost node | its instances stay, terminating | are lost | they count as ended once they are past their deletion |
/// | a foreign instance | can match the selector | cannot | never counted where it can |
/// | readiness | always | while deploying | `ready` means what the platform tells |
/// | same name, made anew | another uid | the same create index, if stopped only | `incarnation` differs |
/// | revision after a change from outside | claims of other managers | the source does not render to the job | `None` |
/// | image that is none | its own reason | the driver's words | a table in the Nomad backend, tested on recordings |
#[cfg_attr(feature = "mock", mockall::automock)]
#[async_trait]
pub trait Scheduler: Debug + Send + Sync + 'static {
    /// What this scheduler can do. Fixed when it was built; sends nothing.
    fn capabilities(&self) -> &Capabilities;

    /// Makes a workload be as it is described (*ensure*).
    ///
    /// Decided by reading: [`Unchanged`](crate::Change::Unchanged) when every native object that would be rendered is
    /// there, is ours, has each rendered field, and nothing surplus of ours is left; then nothing is written and nothing
    /// is restarted, healthy or not. What differs is repaired and reported as [`Updated`](crate::Change::Updated): somebody
    /// else's change to a rendered field, a missing object, a surplus one. Fields that are not rendered are left alone.
    ///
    /// What cannot be changed in place is refused as [`MustReplace`](crate::ErrorKind::MustReplace): any change of a job, of
    /// the volumes of stable identities, of the kind. See
    /// [`launch_or_replace`](crate::SchedulerExt::launch_or_replace).
    ///
    /// It never makes a namespace, and does not wait for instances: see
    /// [`launch_and_wait`](crate::SchedulerExt::launch_and_wait).
    ///
    /// # Errors
    /// * [`Unsupported`](crate::ErrorKind::Unsupported): the workload needs what the backend has not.
    /// * [`Conflict`](crate::ErrorKind::Conflict): somebody else's ([`Guard::IfOwned`](crate::Guard::IfOwned)), being
    ///   deleted, or another version than [`Guard::IfVersion`](crate::Guard::IfVersion) names.
    /// * [`AlreadyExists`](crate::ErrorKind::AlreadyExists): anything is there, under
    ///   [`Guard::IfAbsent`](crate::Guard::IfAbsent).
    /// * [`NotFound`](crate::ErrorKind::NotFound): the namespace does not exist.
    /// * [`InvalidArgument`](crate::ErrorKind::InvalidArgument): the server refuses fields; the causes name ours.
    ///
    /// # Idempotency
    /// A second launch of the same workload is [`Unchanged`](crate::Change::Unchanged). One that is repeated because the
    /// answer was lost finds its own effect: under [`Guard::IfAbsent`](crate::Guard::IfAbsent) and
    /// [`Guard::IfVersion`](crate::Guard::IfVersion) that is refused, hence their [`retry`](Error::retry) asks for a new
    /// look first.
    ///
    /// # Cancel safety
    /// When it is dropped, or ends with an error, part of the objects may be made; the next launch repairs that, and a
    /// delete takes it away.
    ///
    /// # Cost
    /// Reads of each native object, and one write for each that differs; each backend's scheduler says how many.
    async fn launch(&self, op: Launch) -> Result<Launched>;

    /// Takes away what launch made, and nothing else, one step further at each call.
    ///
    /// [`Deleting`](Deleted::Deleting) until the last instance has ended, [`Gone`](Deleted::Gone) when this call saw the
    /// end of it, [`WasAbsent`](Deleted::WasAbsent) when there was nothing. Its history, its configurations, its routes and,
    /// of a periodic workload, its runs go with it. Persistent volumes stay. What half a launch or half a delete left is taken
    /// too.
    ///
    /// # Errors
    /// As [`launch`](Self::launch); [`Guard::IfAbsent`](crate::Guard::IfAbsent) is an invalid argument. "May not look" and
    /// "could not ask" are errors and never `WasAbsent`.
    ///
    /// # Idempotency
    /// Call it until it does not answer [`Deleting`](Deleted::Deleting). What is being deleted already goes on, whatever
    /// version the guard names.
    ///
    /// # Cancel safety
    /// When it is dropped, or ends with an error, part of the objects may be gone; the next delete takes the rest.
    ///
    /// # Cost
    /// Reads of what there is, and one write for each native object that is not being deleted yet.
    async fn delete(&self, op: Delete) -> Result<Deleted>;

    /// How a workload is. Reads only.
    ///
    /// `None` only when the backend said that it is not there; what belongs to somebody else is not there for us. The
    /// [verdict](crate::Observation::verdict) is the same at each level of detail. One strange instance never hides the
    /// others.
    ///
    /// # Errors
    /// When it could not be asked, or may not be.
    ///
    /// # Idempotency, cancel safety
    /// It changes nothing, and can be dropped and repeated at will.
    ///
    /// # Cost
    /// A fixed number of requests for one workload, however many instances it has, but for the pages of long lists.
    /// [`Detail::Evidence`](crate::Detail::Evidence) may cost more.
    async fn status(&self, op: Status) -> Result<Found>;

    /// All of our workloads that pass the filter, across namespaces unless it names one. Reads only.
    ///
    /// # Errors
    /// When it could not be asked, or may not be; never a part of the list without an error.
    ///
    /// # Idempotency, cancel safety
    /// It changes nothing, and can be dropped and repeated at will.
    ///
    /// # Cost
    /// A number of requests that each backend's scheduler states: fixed but for pages where the server lists instances in
    /// bulk (Kubernetes), a few for each workload where it does not (Nomad).
    async fn list(&self, op: List) -> Result<Listed>;

    /// What happens to our workloads, level-triggered: see [`WatchItem`].
    ///
    /// Folding the items ([`WatchState`](crate::WatchState)) always converges to what [`list`](Self::list) answers. An
    /// error is an item; the stream goes on after it unless its [`retry`](Error::retry) is
    /// [`Never`](crate::Retry::Never), and ends only then.
    ///
    /// # Cancel safety
    /// Nothing is sent before it is first polled, and dropping it ends everything. A stream that is not polled may miss
    /// states in between, and never a deletion.
    ///
    /// # Cost
    /// As [`list`](Self::list) at the start and after each gap; then only what the server sends.
    fn watch(&self, op: Watch) -> BoxStream<'static, Result<WatchItem>> {
        drop(op);
        futures_util::stream::iter([lacks(self.capabilities(), OpName::Watch, None)]).boxed()
    }

    /// Changes how many instances a service has, and nothing else: neither its revision nor its template.
    ///
    /// The count holds until the next scale, or the next launch that says
    /// [`Exactly`](crate::Replicas::Exactly). It does not wait for instances.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when the workload is not there, being deleted, somebody else's, or when an
    /// autoscaler holds its count; [`InvalidArgument`](crate::ErrorKind::InvalidArgument) for another kind than a service.
    ///
    /// # Idempotency, cancel safety
    /// The count is absolute. The same scale again writes nothing.
    ///
    /// # Cost
    /// Two reads at most, and one write if the count differs.
    async fn scale(&self, op: Scale) -> Result<Scaled> {
        lacks(self.capabilities(), OpName::Scale, Some(&op.target))
    }

    /// Steers how a revision is rolled out: see [`RolloutAction`](crate::RolloutAction).
    ///
    /// * `Restart` leaves the revision as it is, and a launch afterwards is
    ///   [`Unchanged`](crate::Change::Unchanged).
    /// * `Pause` needs a rollout that goes on, `Promote` canaries that stand the test, `Abort` a rollout that goes on; without
    ///   it they are a [`Precondition`](crate::ErrorKind::Precondition). A pause ends with `Resume`, and with the next launch
    ///   that changes something. Time that is spent paused counts against no deadline.
    /// * `Abort` ends canaries and leaves what ran before them; the verdict is Failed until something else is launched.
    ///
    /// # Errors
    /// As [`scale`](Self::scale), and [`Precondition`](crate::ErrorKind::Precondition).
    ///
    /// # Idempotency, cancel safety
    /// Pausing what is paused, resuming what is not, and promoting what has been promoted changes nothing. A restart that is
    /// repeated restarts again, unless [`Guard::IfVersion`](crate::Guard::IfVersion) binds it.
    ///
    /// # Cost
    /// Two reads at most, and one write.
    async fn rollout(&self, op: Rollout) -> Result<Steered> {
        lacks(self.capabilities(), OpName::Rollout, Some(&op.target))
    }

    /// Stops or restarts one instance, whose id a [`status`](Self::status) tells.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such instance of this workload;
    /// [`Conflict`](crate::ErrorKind::Conflict) as for [`scale`](Self::scale).
    ///
    /// # Idempotency, cancel safety
    /// Stopping one that ends already is [`WasEnding`](crate::InstanceAnswer::WasEnding): an id is never used again, so that
    /// no other instance is hit. A restart that is repeated restarts again.
    ///
    /// # Cost
    /// Two reads at most, and one write.
    async fn instance(&self, op: OnInstance) -> Result<InstanceAnswer> {
        lacks(self.capabilities(), OpName::OnInstance, Some(&op.target))
    }

    /// The revisions that are kept of a workload, with what was launched. Reads only. Empty if it is not there.
    ///
    /// At least the last five are kept, and the last ten that were [marked](Self::mark_healthy), however many others were
    /// launched since; each backend's scheduler says how many more. They go when the workload is deleted.
    ///
    /// # Errors
    /// When it could not be asked, or may not be.
    ///
    /// # Idempotency, cancel safety
    /// It changes nothing, and can be dropped and repeated at will.
    ///
    /// # Cost
    /// A number of requests that each backend's scheduler states.
    async fn history(&self, op: History) -> Result<Revisions> {
        lacks(self.capabilities(), OpName::History, Some(&op.target))
    }

    /// Says that a revision was good, for [`rollback`](crate::SchedulerExt::rollback). Nothing else says so: no read does.
    ///
    /// # Errors
    /// [`Precondition`](crate::ErrorKind::Precondition) when the revision is not among those that are kept;
    /// [`Conflict`](crate::ErrorKind::Conflict) as for [`scale`](Self::scale).
    ///
    /// # Idempotency, cancel safety
    /// The same mark again writes nothing. It moves no [`Version`](crate::Version) and no instance.
    ///
    /// # Cost
    /// The reads of [`history`](Self::history), and one write.
    async fn mark_healthy(&self, op: MarkHealthy) -> Result<MarkedHealthy> {
        lacks(self.capabilities(), OpName::MarkHealthy, Some(&op.target))
    }

    /// Runs a job once, or the job of a periodic workload now, under the caller's key. It does not wait for its end.
    ///
    /// The run is a workload of its own, of the kind job, whose target follows from base and key ([`RunId`](crate::RunId)):
    /// status, logs and delete take it. One of a periodic workload is deleted with it. A periodic workload that is suspended
    /// can be run too. Such a run neither holds up the next one of the schedule
    /// ([`Overlap`](crate::workload::Overlap)), nor is it held up by one: no platform counts it among those that the schedule
    /// began.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) for a workload that is no job, or a target that is not
    /// periodic; [`Conflict`](crate::ErrorKind::Conflict) when the periodic workload is not there, or when the run's name
    /// belongs to somebody else.
    ///
    /// # Idempotency, cancel safety
    /// The same key twice is one run, also when both are sent at once, when an answer was lost, and when the first has ended,
    /// as long as it is kept: until it is deleted, or its time to live is over.
    ///
    /// # Cost
    /// Two reads at most, and one write.
    async fn run(&self, op: Run) -> Result<RunStarted> {
        lacks(self.capabilities(), OpName::Run, Some(op.base()))
    }

    /// What a launch would do, without doing it. Reads only; the server checks the objects as well where it can.
    ///
    /// The [token](crate::PlanToken) binds a launch to it: under [`Guard::IfPlan`](crate::Guard::IfPlan) it is done only if
    /// nothing has changed since. Values of fields are never told.
    ///
    /// # Errors
    /// As [`launch`](Self::launch), without its effect.
    ///
    /// # Idempotency, cancel safety
    /// It changes nothing, and can be dropped and repeated at will.
    ///
    /// # Cost
    /// As a launch: its writes are dry runs.
    async fn plan(&self, op: Plan) -> Result<Planned> {
        lacks(self.capabilities(), OpName::Plan, Some(op.workload.target()))
    }

    /// Stores a configuration of a workload, which may refer to it by name and version.
    ///
    /// It cannot be changed: another content is another version, beside the first. The ten newest versions of a name are
    /// kept, and those that a revision in the [history](Self::history) refers to; all go when the workload is deleted.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument): see [`PutConfig::check`](crate::PutConfig::check), and where
    /// all configurations of a workload have to share a space that is full;
    /// [`NotFound`](crate::ErrorKind::NotFound): the namespace does not exist; [`Conflict`](crate::ErrorKind::Conflict): the
    /// workload, or a configuration of that name, belongs to somebody else.
    ///
    /// # Idempotency, cancel safety
    /// The same content again writes nothing.
    ///
    /// # Cost
    /// Two reads at most, one write, and one for each version that is given up.
    async fn put_config(&self, op: PutConfig) -> Result<ConfigStored> {
        lacks(self.capabilities(), OpName::PutConfig, Some(&op.target))
    }

    /// Makes a workload reachable from outside by these routes, and by no others that it had.
    ///
    /// A launch leaves them alone, a delete takes them. They can be [moved](Expose::taking_from) from another workload of ours
    /// without a gap.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument): see [`Expose::check`](crate::Expose::check), and for a port that
    /// the workload has not; [`Conflict`](crate::ErrorKind::Conflict): the workload is not there, another one has this host
    /// and path, or the workload to take them from is somebody else's.
    ///
    /// # Two at once
    /// Two exposes of one route never both succeed: one that finds after its write that another wrote the same takes its own
    /// back. Both may find that; they are told to look again ([`AfterReread`](crate::Retry::AfterReread)).
    ///
    /// # Idempotency, cancel safety
    /// The same routes again write nothing. If two of them were dropped or failed between their write and that second look, both
    /// workloads may have the route; every later expose of it is refused until one of them gives it up.
    ///
    /// # Cost
    /// Three reads at most, and one write with one read after it. If routes may be taken from another workload two reads more,
    /// and one write if it has any. What is taken back takes two reads and a write.
    async fn expose(&self, op: Expose) -> Result<Exposed> {
        lacks(self.capabilities(), OpName::Expose, Some(&op.target))
    }

    /// Takes all routes of a workload away.
    ///
    /// # Errors
    /// When it could not be asked, or may not be; [`Conflict`](crate::ErrorKind::Conflict) when they are somebody else's.
    ///
    /// # Idempotency, cancel safety
    /// Again, it finds nothing.
    ///
    /// # Cost
    /// Two reads at most, and one write.
    async fn unexpose(&self, op: Unexpose) -> Result<Unexposed> {
        lacks(self.capabilities(), OpName::Unexpose, Some(&op.target))
    }

    /// The addresses of the instances that are ready and not on their way out. Reads only.
    ///
    /// [`watch_endpoints`](crate::watch_endpoints) follows them.
    ///
    /// # Errors
    /// When it could not be asked, or may not be.
    ///
    /// # Idempotency, cancel safety
    /// It changes nothing, and can be dropped and repeated at will.
    ///
    /// # Cost
    /// Two reads at most, but for the pages of long lists.
    async fn endpoints(&self, op: Endpoints) -> Result<ReadyEndpoints> {
        lacks(self.capabilities(), OpName::Endpoints, Some(&op.target))
    }

    /// Makes a namespace be there, with our mark if it was not.
    ///
    /// One that is there and has not our mark is used as it is: it is neither marked nor deleted.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) while it is being deleted. Rights to make namespaces are needed only for one
    /// that is not there.
    ///
    /// # Idempotency, cancel safety
    /// Again, it finds what is there.
    ///
    /// # Cost
    /// One read, and one write if it is not there.
    async fn ensure_namespace(&self, op: EnsureNamespace) -> Result<NamespaceEnsured> {
        drop(op);
        lacks(self.capabilities(), OpName::EnsureNamespace, None)
    }

    /// Takes away a namespace that [`ensure_namespace`](Self::ensure_namespace) made, one step further at each call.
    ///
    /// # Errors
    /// [`Precondition`](crate::ErrorKind::Precondition) while it holds workloads, whoever's; their names are in the message.
    /// [`Conflict`](crate::ErrorKind::Conflict) for one without our mark.
    ///
    /// # Idempotency, cancel safety
    /// Call it until it does not answer [`Deleting`](crate::NamespaceDeleted::Deleting).
    ///
    /// # Cost
    /// A read of the namespace and one of what is in it, and one write.
    async fn delete_namespace(&self, op: DeleteNamespace) -> Result<NamespaceDeleted> {
        drop(op);
        lacks(self.capabilities(), OpName::DeleteNamespace, None)
    }

    /// What the containers of a workload write: so far, or also from now on.
    ///
    /// The lines of one container are in their order; those of several are interleaved as they come. A follower goes on over
    /// the restart of a container, and to instances that come later. What cannot be had is a
    /// [`Gap`](crate::LogItem::Gap), never silence: no lines means that none were written.
    ///
    /// Without [`follow`](crate::Logs::follow) the stream ends after what there is. With it, it ends when the workload is
    /// gone, or its job has ended and all was read. An error is an item; the stream goes on after it unless its
    /// [`retry`](Error::retry) is [`Never`](crate::Retry::Never), and ends only then.
    ///
    /// # Cancel safety
    /// Nothing is sent before it is first polled, and dropping it ends everything.
    ///
    /// # Cost
    /// A status with instances, and one request for each container; with `follow` also a watch.
    fn logs(&self, op: Logs) -> BoxStream<'static, Result<LogItem>> {
        let error = lacks::<LogItem>(self.capabilities(), OpName::Logs, Some(&op.target));
        futures_util::stream::iter([error]).boxed()
    }

    /// Whether the backend is there and answers. Reads only.
    ///
    /// # Errors
    /// When it could not be reached, or refuses us.
    ///
    /// # Cost
    /// One request. It can be dropped and repeated at will.
    async fn ping(&self, op: Ping) -> Result<Pong> {
        drop(op);
        lacks(self.capabilities(), OpName::Ping, None)
    }
}

/// The answer of a backend that does not have the operation.
fn lacks<T>(capabilities: &Capabilities, op: OpName, target: Option<&Target>) -> Result<T> {
    let error = Error::unsupported(op, format!("this backend has no {op}")).with_backend(capabilities.backend());
    Err(match target {
        Some(target) => error.with_target(target),
        None => error,
    })
}
