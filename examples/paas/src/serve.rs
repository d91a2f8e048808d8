//! Everything together: the API, the worker that tells events, the feed, and reconciliation. All of it lives in one future.

use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lifecycle_hooks::deliver::{Deadlines, HookSets, Worker, WorkerOptions};
use lifecycle_hooks::generic::{Reconciler, SchedulerHooks};
use lifecycle_hooks::outbox::{Outbox, SqliteOutbox};
use lifecycle_hooks::pipeline::{DeployOptions, Deployer, PipelineName, SqliteDeploys};
use scheduler_core::hooks::LifecycleHooks;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval};

use crate::api;
use crate::backend::Backend;
use crate::feed::Feed;
use crate::hooks::{Keeper, Ledger};
use crate::live::{self, Notices};
use crate::model;
use crate::platform::Platform;

/// A worker that was killed holds up its apps for so long.
const LEASE: Duration = Duration::from_secs(5);

/// What is under way may go on for so long at the end; then it is dropped, and goes on at the next start.
const GRACE: Duration = Duration::from_secs(2);

/// How the platform is run.
#[derive(Debug)]
pub struct Settings {
    pub database: PathBuf,
    pub backend: Backend,
    /// How releases are deployed.
    pub pipeline: PipelineName,
    /// How often apps are compared with their models.
    pub reconcile: Duration,
}

/// Why the platform cannot run, in words for a person.
#[derive(Debug)]
pub struct Failure(pub String);

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// Runs the platform until `stop`. Whatever is under way then goes on when it is run again with the same database.
pub async fn serve(listener: TcpListener, settings: Settings, stop: impl Future<Output = ()>) -> Result<(), Failure> {
    let Settings { database, backend, pipeline, reconcile } = settings;
    let pool = model::open(&database).await;
    let pool = pool.map_err(|error| Failure(format!("the database {}: {error}", database.display())))?;
    SqliteOutbox::prepare(&pool).await?;
    SqliteDeploys::prepare(&pool).await?;
    let outbox = Arc::new(SqliteOutbox::new(pool.clone()));
    let (sender, notices) = mpsc::unbounded_channel();
    let sender = Notices(sender);

    // Who hears of the end of a deploy; the deployer, in its turn, belongs to the hooks that hear of its beginning.
    let ledger: Arc<dyn LifecycleHooks> = Arc::new(Ledger { pool: pool.clone(), notices: sender.clone() });
    let after: Vec<_> = backend.hooks.into_iter().chain([ledger]).collect();
    let deployer = Deployer::new(Arc::clone(&backend.scheduler), Arc::new(SqliteDeploys::new(pool.clone())))
        .hooks(HookSets::new(after.clone())?, Deadlines::default())
        .observer(Arc::new(sender.clone()))
        .lease(LEASE);
    let generic = SchedulerHooks::new(Arc::clone(&backend.scheduler)).deployer(
        deployer.clone(),
        pipeline,
        DeployOptions::default(),
    );
    let keeper = Keeper(Reconciler::new(generic.clone(), HookSets::new(after.clone())?));
    let first: [Arc<dyn LifecycleHooks>; 2] = [Arc::new(generic), Arc::new(keeper)];
    let hooks = HookSets::new(first.into_iter().chain(after).collect())?;

    let options = WorkerOptions::default().lease(LEASE).grace(GRACE).observer(Arc::new(sender.clone()));
    let worker = Worker::new(Arc::clone(&outbox) as Arc<dyn Outbox>, hooks.clone()).options(options);
    let start = sqlx::query_scalar("SELECT lower(hex(randomblob(4)))").fetch_one(&pool).await?;
    let platform = Arc::new(Platform {
        pool: pool.clone(),
        outbox,
        deployer,
        hooks,
        scheduler: backend.scheduler,
        feed: Arc::new(Feed::new(start)),
        notices: sender,
        seen: Mutex::default(),
    });

    let (stopping, stopped) = watch::channel(false);
    let stopped = || {
        let mut stopped = stopped.clone();
        async move {
            // The sender is dropped after this has ended.
            let _ = stopped.wait_for(|stopped| *stopped).await;
        }
    };
    let server = axum::serve(listener, api::router(Arc::clone(&platform))).with_graceful_shutdown(stopped());
    let tell = until(stopped(), live::tell(&platform, notices));
    let work = async {
        until(stopped(), platform.recover()).await;
        tokio::join!(worker.run(stopped()), until(stopped(), keep(&platform, reconcile)));
    };
    let end = async {
        stop.await;
        platform.feed.close();
        // Somebody is there to hear it: all of this ends together.
        let _ = stopping.send(true);
    };
    let (served, (), (), ()) = tokio::join!(server.into_future(), tell, work, end);
    pool.close().await;
    Ok(served?)
}

/// Has apps compared with their models: at once, and then by the clock.
async fn keep(platform: &Platform, every: Duration) {
    let mut clock = interval(every);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        clock.tick().await;
        if let Err(refusal) = platform.reconcile().await {
            eprintln!("reconciliation: {}", refusal.message);
        }
    }
}

/// A future, until something else has happened.
async fn until(end: impl Future<Output = ()>, work: impl Future<Output = ()>) {
    tokio::select! {
        () = end => {}
        () = work => {}
    }
}
