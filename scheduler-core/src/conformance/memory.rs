//! The harness of the memory scheduler, and the example for other harnesses.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::{Disturbance, Failure, Harness, Injection, Outcome, Timing, World};
#[cfg(feature = "mutation")]
use crate::memory::Mutation;
use crate::memory::{Fate, MemoryBuilder, MemoryCluster, RequestFault};
use crate::{BackendName, Capabilities, Detail, Namespace, OwnerId, Role, Scheduler, Status, Target, Workload};

/// Runs the suite on [`memory`](crate::memory): each case in a cluster of its own, on a runtime of its own, whose clock
/// is paused, so that no case takes longer than its computations.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct MemoryHarness {
    #[cfg(feature = "mutation")]
    mutation: Option<Mutation>,
}

impl MemoryHarness {
    /// A harness of clusters that are right.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A harness of clusters that are wrong in one way.
    #[cfg(feature = "mutation")]
    #[doc(hidden)]
    #[must_use]
    pub fn mutated(mutation: Mutation) -> Self {
        Self { mutation: Some(mutation) }
    }

    fn builder(&self) -> MemoryBuilder {
        let builder = MemoryCluster::builder().namespace("conformance").namespace("second");
        #[cfg(feature = "mutation")]
        if let Some(mutation) = self.mutation {
            return builder.mutation(mutation);
        }
        builder
    }
}

impl Harness for MemoryHarness {
    fn capabilities(&self) -> Capabilities {
        // Declared here and not asked of a scheduler, as it must be known without a server.
        Capabilities::all(BackendName::memory())
    }

    fn fate(&self, mut workload: Workload, fate: Fate, tag: &str) -> Workload {
        for container in workload.containers.iter_mut().filter(|container| container.role == Role::Main) {
            container.image = fate.image(tag);
        }
        workload
    }

    fn timing(&self) -> Timing {
        Timing::new(10, Duration::from_secs(120), Duration::from_millis(100))
    }

    fn run(&self, case: BoxFuture<'static, Outcome>) -> Outcome {
        // Paused: time passes only when everything waits, and then at once.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.map_err(|e| Failure(format!("no runtime: {e}")))?.block_on(case)
    }

    fn world(&self) -> BoxFuture<'static, Result<Arc<dyn World>, Failure>> {
        let builder = self.builder();
        async move {
            let named = |name: &str| Namespace::new(name).map_err(|e| Failure(e.to_string()));
            let world = MemoryWorld {
                cluster: builder.build(),
                namespace: named("conformance")?,
                second: named("second")?,
                owners: Mutex::default(),
            };
            Ok(Arc::new(world) as Arc<dyn World>)
        }
        .boxed()
    }
}

/// A cluster of its own for one case.
#[derive(Debug)]
struct MemoryWorld {
    cluster: MemoryCluster,
    namespace: Namespace,
    second: Namespace,
    /// Who has asked for a scheduler: one of them sees where an instance runs.
    owners: Mutex<Vec<OwnerId>>,
}

impl MemoryWorld {
    /// A node that runs an instance of a workload.
    async fn node_of(&self, target: &Target) -> Result<Option<String>, Failure> {
        let owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for owner in owners {
            let status = Status::new(target.clone(), Detail::Instances);
            if let Some(seen) = self.cluster.scheduler(owner).status(status).await?.0 {
                return Ok(seen.instances.into_iter().find_map(|instance| instance.node));
            }
        }
        Ok(None)
    }
}

#[async_trait]
impl World for MemoryWorld {
    fn namespace(&self) -> Namespace {
        self.namespace.clone()
    }

    async fn second_namespace(&self) -> Result<Namespace, Failure> {
        Ok(self.second.clone())
    }

    fn scheduler(&self, owner: &OwnerId) -> Arc<dyn Scheduler> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner).push(owner.clone());
        Arc::new(self.cluster.scheduler(owner.clone()))
    }

    async fn disturb(&self, target: &Target, disturbance: Disturbance) -> Result<(), Failure> {
        let cluster = &self.cluster;
        let done = match &disturbance {
            Disturbance::SetImage(image) => cluster.set_image(target, image),
            Disturbance::SetReplicas(count) => cluster.set_replicas(target, *count),
            Disturbance::AddAnnotation => cluster.annotate(target, "example.org/note", "somebody else's"),
            Disturbance::RemoveService => cluster.remove_service(target),
            Disturbance::MakeForeign(owner) => cluster.make_foreign(target, owner.clone()),
            Disturbance::MakeForeignInstance => cluster.make_foreign_instance(target),
            Disturbance::LoseNode => self.node_of(target).await?.is_some_and(|node| cluster.fail_node(&node)),
            Disturbance::BreakWatches => {
                cluster.break_watches();
                true
            }
        };
        if done { Ok(()) } else { Err(Failure(format!("{disturbance:?} found nothing to disturb at {target}"))) }
    }

    async fn objects(&self) -> Result<Vec<(String, String)>, Failure> {
        let mut objects = self.cluster.objects(&self.namespace);
        objects.sort();
        Ok(objects)
    }

    async fn instances(&self) -> Result<Vec<String>, Failure> {
        Ok(self.cluster.instances(&self.namespace))
    }

    fn inject(&self, nth: u32, fault: Injection) {
        let fault = match fault {
            Injection::Refuse => RequestFault::Refuse,
            Injection::Throttle => RequestFault::Throttle,
            Injection::Fail => RequestFault::Fail,
            Injection::Reset => RequestFault::Reset,
            Injection::LoseAnswer => RequestFault::LoseAnswer,
            Injection::Hang => RequestFault::Hang,
            Injection::Forbid => RequestFault::Forbid,
        };
        self.cluster.inject(nth, fault);
    }

    fn injected(&self) -> bool {
        self.cluster.injected()
    }
}
