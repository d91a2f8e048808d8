//! Faults on purpose.

mod plan;
mod streams;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use futures_core::stream::BoxStream;

use super::effect::{Effect, effect};
use super::named;
use crate::capability::Capabilities;
use crate::error::{Error, ErrorKind, Result};
use crate::op::{Reply, SchedulerOp, Subscription};
use crate::service::{OpService, StreamItem};

use plan::Plan;
pub use plan::{ChaosOptions, ChaosScript, Mishap};

/// Lets operations fail, as networks and servers do, for tests of what happens then.
///
/// What happens to a call is a function of its number alone: by the dice of a seed ([`seeded`](Self::seeded)), or as it is
/// written down ([`scripted`](Self::scripted)). So a run can be repeated as long as the calls come in the same order, and
/// a script can try each failure at each call:
///
/// ```
/// use std::sync::Arc;
///
/// use scheduler_core::layer::{Chaos, ChaosScript, Mishap, Retry, RetryPolicy};
/// use scheduler_core::memory::MemoryCluster;
/// use scheduler_core::{Container, FromOps, Launch, OwnerId, Scheduler, ToOps, Workload};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let cluster = MemoryCluster::builder().namespace("shop").build();
/// let memory = Arc::new(cluster.scheduler(OwnerId::new("shop-platform")?));
/// let script = ChaosScript::new().call(1, Mishap::Refuse).call(2, Mishap::LoseAnswer);
/// let chaos = Arc::new(Chaos::scripted(Arc::new(ToOps::new(memory)), script));
/// let scheduler = FromOps::new(Arc::new(Retry::new(chaos.clone(), RetryPolicy::default())));
///
/// let web = Workload::service("shop", "web").container(Container::new("web", "web:1")).check()?;
/// scheduler.launch(Launch::new(web)).await?;
/// assert_eq!(chaos.calls(), 3);
/// # Ok(())
/// # }
/// ```
///
/// # Streams
///
/// A gap of a watch is an error that may pass; then the watch is opened anew, and what it tells comes after a
/// [`Resync`](crate::WatchItem::Resync). Of logs a gap is the error alone, and nothing is lost.
///
/// # Cancel safety
/// As that of the operation. A call is counted when it begins.
#[derive(Debug)]
pub struct Chaos {
    service: Arc<dyn OpService>,
    plan: Arc<Plan>,
    calls: AtomicU64,
    items: Arc<AtomicU64>,
}

impl Chaos {
    /// Failures by the dice.
    #[must_use]
    pub fn seeded(service: Arc<dyn OpService>, options: ChaosOptions) -> Self {
        Self::new(service, Plan::Seeded(options))
    }

    /// Failures as written down.
    #[must_use]
    pub fn scripted(service: Arc<dyn OpService>, script: ChaosScript) -> Self {
        Self::new(service, Plan::Scripted(script))
    }

    fn new(service: Arc<dyn OpService>, plan: Plan) -> Self {
        Self { service, plan: Arc::new(plan), calls: AtomicU64::new(0), items: Arc::default() }
    }

    /// How many operations were called so far. Streams are none.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// How many items all streams have given so far, errors included.
    #[must_use]
    pub fn items(&self) -> u64 {
        self.items.load(Ordering::Relaxed)
    }

    fn error(&self, op: &SchedulerOp, kind: ErrorKind, message: &str) -> Error {
        named(Error::new(kind, message), op.name(), op.target(), self.capabilities().backend())
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl OpService for Chaos {
    fn capabilities(&self) -> &Capabilities {
        self.service.capabilities()
    }

    async fn call(&self, op: SchedulerOp) -> Result<Reply> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let (delay, mishap) = self.plan.of_call(number);
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        match mishap {
            None | Some(Mishap::Delay(_)) => self.service.call(op).await,
            Some(Mishap::Refuse) => Err(self.error(&op, ErrorKind::Unavailable, "chaos refused it")),
            Some(Mishap::RefuseFor(span)) => {
                let error = self.error(&op, ErrorKind::Unavailable, "chaos refused it for a while");
                Err(error.with_retry_after(span))
            }
            Some(Mishap::LoseAnswer) => {
                // What only reads cannot have taken effect.
                let kind = match effect(&op) {
                    Effect::Reads => ErrorKind::Unavailable,
                    Effect::Repeatable | Effect::Once => ErrorKind::OutcomeUnknown,
                };
                let error = self.error(&op, kind, "chaos lost the answer");
                // Whether it took effect or was refused is what nobody will know.
                drop(self.service.call(op).await);
                Err(error)
            }
        }
    }

    fn open(&self, subscription: Subscription) -> BoxStream<'static, Result<StreamItem>> {
        streams::open(Arc::clone(&self.service), Arc::clone(&self.plan), Arc::clone(&self.items), subscription)
    }
}
