//! Several apps at a time, and several workers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lifecycle_hooks::deliver::{DeliveryEnd, HookSets, Worker, WorkerOptions};
use lifecycle_hooks::outbox::{MemoryOutbox, Outbox, SqliteOutbox};
use scheduler_core::Support;
use scheduler_core::hooks::{AppName, Event, EventKind, HookError, HookName, LifecycleHooks, Outcome};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use tokio::time::sleep;

use super::{Broken, Seen, app, event, left, outbox};

/// Takes its time, and sees who is told at the same time.
#[derive(Debug, Default)]
struct Slow {
    takes: Duration,
    inside: Mutex<BTreeSet<AppName>>,
    most: AtomicUsize,
    doubled: AtomicBool,
    told: Mutex<BTreeMap<AppName, Vec<String>>>,
    dropped: Arc<AtomicUsize>,
}

/// Counts a hook that was dropped before it ended.
struct Running(Arc<AtomicUsize>, bool);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_add(usize::from(!self.1), Ordering::SeqCst);
    }
}

#[async_trait]
impl LifecycleHooks for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn supports(&self, _: HookName) -> Support {
        Support::Yes
    }

    async fn post_config_change(&self, event: &Event) -> Result<Outcome, HookError> {
        let name = event.app.name.clone();
        let mut running = Running(Arc::clone(&self.dropped), false);
        {
            let mut inside = self.inside.lock().unwrap();
            self.doubled.fetch_or(!inside.insert(name.clone()), Ordering::SeqCst);
            self.most.fetch_max(inside.len(), Ordering::SeqCst);
        }
        sleep(self.takes).await;
        self.inside.lock().unwrap().remove(&name);
        self.told.lock().unwrap().entry(name).or_default().push(event.id.to_string());
        running.1 = true;
        Ok(Outcome::Applied)
    }
}

fn slow(takes: Duration) -> (Arc<Slow>, HookSets) {
    let slow = Arc::new(Slow { takes, ..Slow::default() });
    let set: Arc<dyn LifecycleHooks> = Arc::<Slow>::clone(&slow);
    (slow, HookSets::new(vec![set]).unwrap())
}

const APPS: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];

fn in_order(slow: &Slow, events: usize) {
    let told = slow.told.lock().unwrap();
    assert_eq!(told.len(), APPS.len());
    for (app, ids) in &*told {
        assert_eq!(*ids, (0..events).map(|n| format!("{app}-{n}")).collect::<Vec<_>>());
    }
    assert!(!slow.doubled.load(Ordering::SeqCst), "an app was told two events at once");
}

#[tokio::test(start_paused = true)]
async fn apps_are_told_side_by_side_but_no_more_than_allowed() {
    for most in [1, 3] {
        let (slow, sets) = slow(Duration::from_secs(1));
        let outbox = outbox(&APPS, 5);
        Worker::new(Arc::new(outbox), sets).options(WorkerOptions::default().apps(most)).run_until_idle().await;
        assert_eq!(slow.most.load(Ordering::SeqCst), most);
        in_order(&slow, 5);
    }
}

#[tokio::test(start_paused = true)]
async fn two_workers_share_an_outbox_in_memory() {
    let (slow, sets) = slow(Duration::from_millis(70));
    let outbox = outbox(&APPS, 20);
    let worker = Worker::new(Arc::new(outbox), sets).options(WorkerOptions::default().apps(4));
    tokio::join!(worker.run_until_idle(), worker.run_until_idle());
    assert!(slow.most.load(Ordering::SeqCst) > 4, "both worked");
    in_order(&slow, 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_workers_share_an_outbox_in_sqlite() {
    let folder = std::env::temp_dir().join(format!("lifecycle-deliver-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let options = SqliteConnectOptions::new().filename(folder.join("outbox.db")).create_if_missing(true);
    let pool = SqlitePoolOptions::new().max_connections(4).connect_with(options).await.unwrap();
    SqliteOutbox::prepare(&pool).await.unwrap();
    let outbox = SqliteOutbox::new(pool.clone());
    for n in 0..10 {
        let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
        for name in APPS {
            let event = event(format!("{name}-{n}"), app(name), EventKind::ConfigChanged);
            outbox.append(&mut transaction, &event).await.unwrap();
        }
        transaction.commit().await.unwrap();
    }
    let (slow, sets) = slow(Duration::from_millis(1));
    let worker = Worker::new(Arc::new(outbox.clone()), sets);
    tokio::join!(worker.run_until_idle(), worker.run_until_idle());
    in_order(&slow, 10);
    pool.close().await;
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_renewed_for_as_long_as_a_hook_runs() {
    let (slow, sets) = slow(Duration::from_secs(600));
    let outbox = outbox(&["shop"], 1);
    let options = || WorkerOptions::default().lease(Duration::from_secs(3)).deadlines(forever());
    let worker = Worker::new(Arc::new(outbox), sets).options(options());
    tokio::join!(worker.run_until_idle(), worker.run_until_idle());
    assert_eq!(slow.told.lock().unwrap()[&app("shop").name], ["shop-0"], "the other worker never got it");
}

fn forever() -> lifecycle_hooks::deliver::Deadlines {
    lifecycle_hooks::deliver::Deadlines::each(Duration::from_secs(86_400))
}

#[tokio::test(start_paused = true)]
async fn a_hook_is_dropped_when_its_claim_is_lost() {
    // The first worker cannot renew, and would have told the event until the next day.
    let inner = outbox(&["shop"], 1);
    let (stuck, stuck_sets) = slow(Duration::from_secs(80_000));
    let seen = Arc::new(Seen::default());
    let lease = Duration::from_secs(30);
    let broken: Arc<dyn Outbox> = Arc::new(Broken::new(&inner, &[("renew", u32::MAX)]));
    let options =
        WorkerOptions::default().lease(lease).deadlines(forever()).observer(Arc::<Seen>::clone(&seen)).seed(7);
    let first = Worker::new(broken, stuck_sets).options(options);
    let (quick, quick_sets) = slow(Duration::from_secs(1));
    let second = Worker::new(Arc::new(inner.clone()), quick_sets).options(WorkerOptions::default().lease(lease));
    tokio::select! {
        () = first.run(std::future::pending()) => {}
        () = async {
            // The first one claims first.
            sleep(Duration::from_secs(1)).await;
            second.run_until_idle().await;
        } => {}
    }
    assert!(left(&inner).await.is_empty());
    assert_eq!(quick.told.lock().unwrap()[&app("shop").name], ["shop-0"]);
    assert_eq!(stuck.dropped.load(Ordering::SeqCst), 1);
    assert!(stuck.told.lock().unwrap().is_empty());
    assert_eq!(seen.deliveries()[0].end, DeliveryEnd::Lost);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_too_late_changes_nothing() {
    // Known failure: a relay whose lease ran out overwrites the newer one's bookkeeping.
    let outbox: MemoryOutbox = outbox(&["shop"], 2);
    let stale = outbox.claim(Duration::from_secs(1)).await.unwrap().unwrap();
    sleep(Duration::from_secs(2)).await;
    let (slow, sets) = slow(Duration::from_millis(1));
    let worker = Worker::new(Arc::new(outbox.clone()), sets);
    worker.run_until_idle().await;
    assert!(outbox.park(&stale, &HookError::permanent("late")).await.is_err());
    assert!(left(&outbox).await.is_empty());
    assert_eq!(slow.told.lock().unwrap()[&app("shop").name], ["shop-0", "shop-1"]);
}
