//! Delivery: sets in their order, hooks that fail, hang, panic and veto, workers beside each other, and ends at any time.

#![allow(clippy::panic, clippy::unwrap_used, reason = "helpers of tests are tests")]

mod domains;
mod ends;
mod faults;
mod sets;
mod workers;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lifecycle_hooks::deliver::{Delivery, DeliveryObserver, HookSets, Recorder, Worker, WorkerOptions};
use lifecycle_hooks::outbox::{Claim, MemoryOutbox, Outbox, OutboxError, OutboxFilter, Waiting};
use scheduler_core::Timestamp;
use scheduler_core::hooks::{App, AppName, Event, EventId, EventKind, HookError, LifecycleHooks};
use tokio::task::yield_now;

fn app(name: &str) -> App {
    App::new(AppName::new(name).unwrap(), name.try_into().unwrap())
}

fn event(id: impl ToString, app: App, kind: EventKind) -> Event {
    Event::new(EventId::new(id.to_string()), Timestamp::from_millis(0), kind, app)
}

/// An outbox with these many events of each of these apps, called `<app>-<n>`, appended in turns.
fn outbox(apps: &[&str], events: usize) -> MemoryOutbox {
    let outbox = MemoryOutbox::new();
    for n in 0..events {
        for name in apps {
            outbox.append(event(format!("{name}-{n}"), app(name), EventKind::ConfigChanged)).unwrap();
        }
    }
    outbox
}

fn sets(recorders: &[&Recorder]) -> HookSets {
    HookSets::new(recorders.iter().map(|set| Arc::new((*set).clone()) as Arc<dyn LifecycleHooks>).collect()).unwrap()
}

/// Keeps what it is shown.
#[derive(Debug, Default)]
struct Seen {
    deliveries: Mutex<Vec<Delivery>>,
    failures: Mutex<Vec<&'static str>>,
}

impl DeliveryObserver for Seen {
    fn delivered(&self, delivery: &Delivery) {
        self.deliveries.lock().unwrap().push(delivery.clone());
    }

    fn outbox_failed(&self, call: &'static str, _: &OutboxError) {
        self.failures.lock().unwrap().push(call);
    }
}

impl Seen {
    fn deliveries(&self) -> Vec<Delivery> {
        self.deliveries.lock().unwrap().clone()
    }
}

fn worker(outbox: &MemoryOutbox, sets: HookSets, options: WorkerOptions) -> (Worker, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let worker =
        Worker::new(Arc::new(outbox.clone()), sets).options(options.seed(7).observer(Arc::<Seen>::clone(&seen)));
    (worker, seen)
}

async fn left(outbox: &dyn Outbox) -> Vec<Waiting> {
    outbox.list(&OutboxFilter::default()).await.unwrap()
}

/// An outbox of which single calls fail. Each takes its time before and after its effect, and lets no other call be made
/// meanwhile.
#[derive(Debug)]
struct Broken {
    inner: MemoryOutbox,
    /// Which calls fail, and how often from now on.
    fails: Mutex<Vec<(&'static str, u32)>>,
    turn: tokio::sync::Mutex<()>,
}

impl Broken {
    fn new(inner: &MemoryOutbox, fails: &[(&'static str, u32)]) -> Self {
        Self { inner: inner.clone(), fails: Mutex::new(fails.to_vec()), turn: tokio::sync::Mutex::default() }
    }

    async fn meet(&self, call: &'static str) -> Result<(), OutboxError> {
        yield_now().await;
        let mut fails = self.fails.lock().unwrap();
        match fails.iter_mut().find(|(name, left)| *name == call && *left > 0) {
            None => Ok(()),
            Some((_, left)) => {
                *left -= 1;
                let source = serde_json::from_str::<u32>("broken").unwrap_err();
                Err(OutboxError::Unwritable { id: EventId::new("1"), app: app("shop").name, source })
            }
        }
    }
}

#[async_trait]
impl Outbox for Broken {
    async fn claim(&self, lease: Duration) -> Result<Option<Claim>, OutboxError> {
        let _turn = self.turn.lock().await;
        self.meet("claim").await?;
        let answer = self.inner.claim(lease).await;
        yield_now().await;
        answer
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<(), OutboxError> {
        let _turn = self.turn.lock().await;
        self.meet("renew").await?;
        let answer = self.inner.renew(claim, lease).await;
        yield_now().await;
        answer
    }

    async fn ack(&self, claim: &Claim) -> Result<(), OutboxError> {
        let _turn = self.turn.lock().await;
        self.meet("ack").await?;
        let answer = self.inner.ack(claim).await;
        yield_now().await;
        answer
    }

    async fn put_off(&self, claim: &Claim, after: Duration, error: Option<&HookError>) -> Result<(), OutboxError> {
        let _turn = self.turn.lock().await;
        self.meet("put_off").await?;
        let answer = self.inner.put_off(claim, after, error).await;
        yield_now().await;
        answer
    }

    async fn park(&self, claim: &Claim, error: &HookError) -> Result<(), OutboxError> {
        let _turn = self.turn.lock().await;
        self.meet("park").await?;
        let answer = self.inner.park(claim, error).await;
        yield_now().await;
        answer
    }

    async fn changed(&self, most: Duration) {
        self.inner.changed(most).await;
    }

    async fn list(&self, filter: &OutboxFilter) -> Result<Vec<Waiting>, OutboxError> {
        let _turn = self.turn.lock().await;
        self.meet("list").await?;
        let answer = self.inner.list(filter).await;
        yield_now().await;
        answer
    }

    async fn retry(&self, id: &EventId) -> Result<bool, OutboxError> {
        self.inner.retry(id).await
    }

    async fn drop_event(&self, id: &EventId) -> Result<bool, OutboxError> {
        self.inner.drop_event(id).await
    }
}
