//! What a case works with: a world, schedulers of two owners, workloads, and ways to wait.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use tokio::time::{Instant, sleep};

use super::{Disturbance, Failure, Harness, Injection, Outcome, Timing, World};
use crate::memory::Fate;
use crate::{
    CheckedWorkload, Container, Delete, Deleted, Detail, Error, ErrorKind, FromOps, Guard, InstanceState, Job, Kind,
    Launch, Launched, Observation, OpService, OwnerId, Periodic, Probe, Result as OpResult, Scheduler, Status, System,
    Target, Verdict, Workload,
};

/// A container that does its work in a second, and ends well.
pub(super) const DONE: Fate = Fate::Done { after: 1, exit_code: 0 };

/// A container that needs a second to fail.
pub(super) const FAILS: Fate = Fate::Done { after: 1, exit_code: 3 };

/// The most requests that an operation is believed to take.
pub(super) const MOST_REQUESTS: u32 = 30;

/// Fails the case unless the condition holds.
macro_rules! check {
    ($holds:expr, $($words:tt)+) => {
        if !$holds {
            return Err($crate::conformance::Failure(format!($($words)+)));
        }
    };
}

/// Fails the case unless both are equal.
macro_rules! check_eq {
    ($seen:expr, $wanted:expr, $($words:tt)+) => {
        // A match, so that temporaries live long enough.
        match (&$seen, &$wanted) {
            (seen, wanted) => {
                if seen != wanted {
                    let what = format!($($words)+);
                    return Err($crate::conformance::Failure(format!("{what}: seen {seen:?}, wanted {wanted:?}")));
                }
            }
        }
    };
}

pub(super) use {check, check_eq};

/// What a case works with.
#[derive(Clone, Debug)]
pub(super) struct Ctx {
    pub(super) harness: Arc<dyn Harness>,
    pub(super) world: Arc<dyn World>,
    /// Who asks.
    pub(super) owner: OwnerId,
    /// Somebody else.
    pub(super) other: OwnerId,
    pub(super) scheduler: Arc<dyn Scheduler>,
}

impl Ctx {
    pub(super) async fn new(harness: Arc<dyn Harness>) -> Result<Self, Failure> {
        let world = harness.world().await?;
        // List and watch go across namespaces: worlds that share a server must not share owners.
        let named = |who| {
            OwnerId::new(format!("{}.{who}", world.namespace())).map_err(|e| Failure(format!("the namespace: {e}")))
        };
        let (owner, other) = (named('a')?, named('b')?);
        let scheduler = world.scheduler(&owner);
        Ok(Self { harness, world, owner, other, scheduler })
    }

    /// The same world, seen by the other owner.
    pub(super) fn theirs(&self) -> Self {
        Self {
            owner: self.other.clone(),
            other: self.owner.clone(),
            scheduler: self.world.scheduler(&self.other),
            ..self.clone()
        }
    }

    /// The same, with operations that go through the initial encoding.
    pub(super) fn through(&self, service: impl FnOnce(Arc<dyn Scheduler>) -> Arc<dyn OpService>) -> Self {
        let scheduler = Arc::new(FromOps::new(service(Arc::clone(&self.scheduler))));
        Self { scheduler, ..self.clone() }
    }

    pub(super) fn timing(&self) -> Timing {
        self.harness.timing()
    }

    pub(super) fn target(&self, name: &str) -> Result<Target, Failure> {
        Target::new(self.world.namespace().as_str(), name).map_err(|e| Failure(e.to_string()))
    }

    /// A service with one instance that runs, one port, and a short grace and patience.
    pub(super) fn service(&self, name: &str) -> Workload {
        self.fated(name, Fate::Run)
    }

    /// The same without instances, for cases in which they do not matter.
    pub(super) fn idle(&self, name: &str) -> Workload {
        self.service(name).replicas(0)
    }

    /// The same with instances that meet this fate.
    pub(super) fn fated(&self, name: &str, fate: Fate) -> Workload {
        let workload = Workload::service(self.world.namespace().as_str(), name)
            .container(Container::new("main", "main").port("http", 8080))
            .termination_grace(2)
            .progress_deadline(self.timing().patience);
        self.harness.fate(workload, fate, "1")
    }

    /// A job with one instance that runs to its end with this fate, without ports.
    pub(super) fn job(&self, name: &str, fate: Fate) -> Workload {
        self.of_kind(name, Kind::Job(Job::default()), fate)
    }

    /// A periodic job that is never due while a case lasts: only on a 29th of February.
    pub(super) fn periodic(&self, name: &str) -> Workload {
        self.of_kind(name, Kind::Periodic(Periodic::new("0 0 29 2 *")), DONE)
    }

    /// One instance on each node.
    pub(super) fn system(&self, name: &str) -> Workload {
        self.of_kind(name, Kind::System(System::default()), Fate::Run)
    }

    fn of_kind(&self, name: &str, kind: Kind, fate: Fate) -> Workload {
        let workload = Workload::of_kind(self.world.namespace().as_str(), name, kind)
            .container(Container::new("main", "main"))
            .termination_grace(2)
            .progress_deadline(self.timing().patience);
        self.harness.fate(workload, fate, "1")
    }

    /// The same with a readiness probe, for which the backend needs TCP probes.
    pub(super) fn probed(&self, mut workload: Workload) -> Workload {
        for container in &mut workload.containers {
            *container = container.clone().readiness(Probe::tcp("http").period(1));
        }
        workload
    }

    pub(super) fn with_fate(&self, workload: Workload, fate: Fate, tag: &str) -> Workload {
        self.harness.fate(workload, fate, tag)
    }

    /// What neither comes up nor is given up while anybody waits for it.
    pub(super) fn hopeful(&self, name: &str) -> Workload {
        self.fated(name, Fate::PullError).progress_deadline(self.long_patience())
    }

    /// Longer than any case waits for anything, in seconds.
    pub(super) fn long_patience(&self) -> u32 {
        u32::try_from(self.timing().settle.as_secs()).unwrap_or(u32::MAX / 4) * 3
    }

    /// Another image of the fate that runs.
    pub(super) fn with_tag(&self, workload: Workload, tag: &str) -> Workload {
        self.with_fate(workload, Fate::Run, tag)
    }

    /// The same on another port, which changes all of its objects.
    pub(super) fn with_other_port(&self, mut workload: Workload) -> Workload {
        for port in workload.containers.iter_mut().flat_map(|container| &mut container.ports) {
            port.port += 1000;
        }
        workload
    }

    /// The name of another image of the fate that runs.
    pub(super) fn image(&self, tag: &str) -> String {
        let workload = self.with_tag(self.service("web"), tag);
        workload.containers.into_iter().next().map(|container| container.image).unwrap_or_default()
    }

    pub(super) async fn try_launch(&self, workload: Workload, guard: Guard) -> Result<OpResult<Launched>, Failure> {
        Ok(self.scheduler.launch(Launch::new(checked(workload)?).guard(guard)).await)
    }

    pub(super) async fn launch(&self, workload: Workload) -> Result<Launched, Failure> {
        Ok(self.try_launch(workload, Guard::IfOwned).await??)
    }

    /// Launches, and waits until it is healthy.
    pub(super) async fn launch_healthy(&self, workload: Workload) -> Result<Observation, Failure> {
        let name = workload.name.clone();
        self.launch(workload).await?;
        self.healthy(&name).await
    }

    pub(super) async fn try_status(
        &self,
        name: &str,
        detail: Detail,
    ) -> Result<OpResult<Option<Observation>>, Failure> {
        let found = self.scheduler.status(Status::new(self.target(name)?, detail)).await;
        Ok(found.map(|found| found.0.map(|seen| *seen)))
    }

    /// The status with each instance, or `None`.
    pub(super) async fn status(&self, name: &str) -> Result<Option<Observation>, Failure> {
        Ok(self.try_status(name, Detail::Instances).await??)
    }

    /// The status of what must be there.
    pub(super) async fn seen(&self, name: &str) -> Result<Observation, Failure> {
        self.status(name).await?.ok_or_else(|| Failure(format!("the status of {name} is None, but it is there")))
    }

    pub(super) async fn try_delete(&self, name: &str, guard: Guard) -> Result<OpResult<Deleted>, Failure> {
        Ok(self.scheduler.delete(Delete::new(self.target(name)?).guard(guard)).await)
    }

    /// One step of a delete.
    pub(super) async fn delete(&self, name: &str) -> Result<Deleted, Failure> {
        Ok(self.try_delete(name, Guard::IfOwned).await??)
    }

    /// Deletes step by step, until nothing is left. Tells whether anything was there.
    ///
    /// The last answer may be either: `Gone`, if that step saw the end, or `WasAbsent`, if it came by itself meanwhile.
    pub(super) async fn delete_whole(&self, name: &str) -> Result<bool, Failure> {
        let end = Instant::now() + self.timing().settle;
        let mut there = false;
        loop {
            match self.delete(name).await? {
                Deleted::WasAbsent => return Ok(there),
                Deleted::Gone => return Ok(true),
                step => check!(Instant::now() < end, "{name} was not gone in time: {step:?}"),
            }
            there = true;
            sleep(self.timing().poll).await;
        }
    }

    /// Makes a workload that is being deleted, and stays so for half a minute.
    pub(super) async fn terminating(&self, name: &str) -> Outcome {
        self.launch_healthy(self.fated(name, Fate::Stubborn).termination_grace(30)).await?;
        let step = self.delete(name).await?;
        check!(matches!(step, Deleted::Deleting { .. }), "an instance takes its time to end, but delete says {step:?}");
        Ok(())
    }

    /// Looks until the condition holds. `None` is shown to it as well.
    pub(super) async fn look(
        &self,
        name: &str,
        what: &str,
        mut holds: impl FnMut(Option<&Observation>) -> Result<bool, Failure> + Send,
    ) -> Result<Option<Observation>, Failure> {
        let end = Instant::now() + self.timing().settle;
        loop {
            let seen = self.status(name).await?;
            if holds(seen.as_ref())? {
                return Ok(seen);
            }
            let last = || seen.as_ref().map_or_else(|| "nothing".to_owned(), brief);
            check!(Instant::now() < end, "{name} never was {what}; last seen: {}", last());
            sleep(self.timing().poll).await;
        }
    }

    /// Looks until the condition holds. That it is not there at all is a failure.
    pub(super) async fn settle(
        &self,
        name: &str,
        what: &str,
        mut holds: impl FnMut(&Observation) -> Result<bool, Failure> + Send,
    ) -> Result<Observation, Failure> {
        let seen = self.look(name, what, |seen| {
            let seen = seen.ok_or_else(|| Failure(format!("the status of {name} is None, but it is there")))?;
            holds(seen)
        });
        seen.await?.ok_or_else(|| Failure(format!("the status of {name} is None")))
    }

    pub(super) async fn verdict(&self, name: &str, verdict: Verdict) -> Result<Observation, Failure> {
        self.settle(name, &verdict.to_string(), |seen| Ok(seen.verdict() == verdict)).await
    }

    pub(super) async fn healthy(&self, name: &str) -> Result<Observation, Failure> {
        self.verdict(name, Verdict::Healthy).await
    }

    pub(super) async fn disturb(&self, name: &str, disturbance: Disturbance) -> Outcome {
        self.world.disturb(&self.target(name)?, disturbance).await
    }

    pub(super) async fn objects(&self) -> Result<Vec<(String, String)>, Failure> {
        self.world.objects().await
    }

    /// The names of the native objects.
    pub(super) async fn object_names(&self) -> Result<BTreeSet<String>, Failure> {
        Ok(self.objects().await?.into_iter().map(|(name, _)| name).collect())
    }

    /// That nothing is left in the namespace.
    pub(super) async fn nothing_left(&self) -> Outcome {
        check_eq!(self.objects().await?, Vec::new(), "the objects that are left");
        check_eq!(self.world.instances().await?, Vec::<String>::new(), "the instances that are left");
        Ok(())
    }

    /// Runs an operation until a fault in its way was met, then drops it. Tells whether the operation came so far; if
    /// not, its answer comes with it.
    pub(super) async fn drop_at<T: Send>(
        &self,
        nth: u32,
        operation: impl Future<Output = T> + Send,
    ) -> Result<Option<T>, Failure> {
        use futures_util::future::{Either, select};
        self.world.inject(nth, Injection::Hang);
        let met = async {
            let end = Instant::now() + self.timing().settle;
            while !self.world.injected() && Instant::now() < end {
                sleep(self.timing().poll).await;
            }
        };
        match select(Box::pin(operation), Box::pin(met)).await {
            Either::Left((answer, _)) => Ok(Some(answer)),
            Either::Right(((), operation)) => {
                drop(operation);
                check!(self.world.injected(), "the operation neither ended nor sent request {nth}");
                Ok(None)
            }
        }
    }

    /// Takes an injected fault away that was not met.
    pub(super) fn inject_nothing(&self) {
        self.world.inject(u32::MAX, Injection::Refuse);
    }
}

/// That an operation went on beyond any belief.
pub(super) fn too_many_requests() -> Outcome {
    Err(Failure(format!("the operation sends more than {MOST_REQUESTS} requests")))
}

/// A workload of the suite's own, checked. It may have extensions for any backend.
pub(super) fn checked(workload: Workload) -> Result<CheckedWorkload, Failure> {
    CheckedWorkload::try_from(workload).map_err(|e| Failure(e.to_string()))
}

/// The kind of an error that must be there.
pub(super) fn refused<T: Debug>(what: &str, result: OpResult<T>) -> Result<ErrorKind, Failure> {
    error_of(what, result).map(|error| error.kind().clone())
}

/// An error that must be there.
pub(super) fn error_of<T: Debug>(what: &str, result: OpResult<T>) -> Result<Error, Failure> {
    match result {
        Ok(answer) => Err(Failure(format!("{what} must be refused, but was answered {answer:?}"))),
        Err(error) => Ok(error),
    }
}

/// The ids of the instances that were seen and have not ended.
pub(super) fn ids(seen: &Observation) -> BTreeSet<String> {
    let living = seen.instances.iter().filter(|instance| instance.state != InstanceState::Ended);
    living.map(|instance| instance.id.clone()).collect()
}

/// An observation in a line.
pub(super) fn brief(seen: &Observation) -> String {
    let diagnoses: Vec<String> = seen.diagnoses.iter().map(|d| format!("{d} [current: {}]", d.current)).collect();
    let instances: Vec<String> =
        seen.instances.iter().map(|i| format!("{} {:?} current={}", i.id, i.state, i.current)).collect();
    format!(
        "{} {} {} (noticed={} completed={} gave_up={:?}) {:?} diagnoses={diagnoses:?} instances={instances:?}",
        seen.target,
        seen.version,
        seen.verdict(),
        seen.noticed,
        seen.completed,
        seen.gave_up,
        seen.counts
    )
}
