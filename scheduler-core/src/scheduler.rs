//! The final encoding of the algebra: the trait that backends implement and models call.

use std::fmt::Debug;

use async_trait::async_trait;
use futures_core::stream::BoxStream;
use futures_util::StreamExt as _;

use crate::capability::Capabilities;
use crate::error::{Error, Result};
use crate::op::{Delete, Deleted, Found, Launch, Launched, List, Listed, OpName, Ping, Pong, Status, Watch};
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
    /// end of it, [`WasAbsent`](Deleted::WasAbsent) when there was nothing. Persistent volumes stay. What half a launch
    /// or half a delete left is taken too.
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
        let error =
            Error::unsupported(OpName::Watch, "this backend has no watch").with_backend(self.capabilities().backend());
        futures_util::stream::iter([Err(error)]).boxed()
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
        Err(Error::unsupported(OpName::Ping, "this backend has no ping").with_backend(self.capabilities().backend()))
    }
}
