//! The platform: two tasks that change models, and a worker that tells of it.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use lifecycle_hooks::deliver::{HookSets, Worker, WorkerOptions};
use scheduler_core::hooks::LifecycleHooks;
use tokio::task::yield_now;

use crate::backend::Routes;
use crate::database::{Database, Place};

pub(crate) const APPS: [&str; 3] = ["bank", "blog", "shop"];
/// How many changes there are in a history.
const CHANGES: u64 = 16;
/// What was told when a worker was killed is told again after so long.
const LEASE: Duration = Duration::from_millis(60);

/// A change of a model, the same in each run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change(u64);

impl Change {
    pub(crate) fn app(self) -> &'static str {
        APPS[usize::try_from(self.0 * 7 / 2).unwrap() % APPS.len()]
    }

    /// The domain that is added, or removed if it is there.
    pub(crate) fn host(self) -> String {
        format!("h{}.{}.example", self.0 % 3, self.app())
    }

    /// Whether its transaction is taken back instead of being committed.
    pub(crate) fn rolls_back(self) -> bool {
        self.0 % 4 == 3
    }

    /// The name of its event.
    pub(crate) fn event(self) -> String {
        format!("{}{}", if self.rolls_back() { "rolled-back-" } else { "e" }, self.0)
    }
}

pub(crate) fn is_rolled_back(event: &str) -> bool {
    event.starts_with("rolled-back-")
}

/// Says that the platform has come to this point, and lets others come to theirs.
pub(crate) async fn step(name: &str) {
    // Whoever reads this may be gone.
    let _ = writeln!(std::io::stdout().lock(), "{name}");
    yield_now().await;
}

/// Makes the changes that were not made in an earlier run, and tells of all.
pub(crate) async fn platform(place: &Place) {
    let database = Database::open(place).await;
    step("it is up").await;
    let hooks: Arc<dyn LifecycleHooks> = Arc::new(Routes(database.folder().to_owned()));
    let options = WorkerOptions::default().lease(LEASE).backoff(LEASE, LEASE);
    let worker = Worker::new(database.outbox(), HookSets::new(vec![hooks]).unwrap()).options(options);
    let task = async |odd: u64| {
        for n in (0..CHANGES).filter(|n| n % 2 == odd) {
            database.make(Change(n)).await;
        }
    };
    worker
        .run(async {
            tokio::join!(task(0), task(1));
        })
        .await;
    worker.run_until_idle().await;
    database.close().await;
}
