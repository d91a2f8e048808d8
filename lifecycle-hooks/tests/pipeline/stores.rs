//! What every store of deploys promises, in memory, on SQLite and on PostgreSQL.

use std::sync::OnceLock;
use std::time::Duration;

use lifecycle_hooks::pipeline::{
    DeployId, DeployRecord, DeployState, DeployStore, Deployer, MemoryDeploys, PipelineName, PostgresDeploys,
    SqliteDeploys, StoreError,
};
use scheduler_core::memory::MemoryCluster;
use scheduler_core::{OwnerId, Seconds};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use sqlx::{AssertSqlSafe, SqlitePool};

use crate::support::{World, app, deploy, secrets};

/// A record as a deploy writes it, with another name and end.
fn record(name: &str, version: u64, state: DeployState) -> DeployRecord {
    static WRITTEN: OnceLock<DeployRecord> = OnceLock::new();
    let write = || {
        // A thread of its own can have a paused clock, whatever the clock of the test is.
        let deploy = async { World::new().deployer().deploy(deploy(app(1), PipelineName::LaunchOnly)).await.unwrap() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        std::thread::spawn(move || runtime.block_on(deploy)).join().unwrap()
    };
    let mut record = WRITTEN.get_or_init(write).clone();
    record.deploy.id = DeployId::new(name).unwrap();
    record.deploy.app.release.as_mut().unwrap().version = version;
    record.state = state;
    record
}

fn is_moved<T>(answer: Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::Moved { .. }))
}

async fn keeps_its_promises(store: &dyn DeployStore) {
    let name = app(1).name;
    let mut first = record("first", 1, DeployState::Running);
    let version = store.save(&first, None).await.unwrap();
    assert!(is_moved(store.save(&first, None).await));
    assert!(is_moved(store.save(&first, Some(version + 7)).await));
    assert_eq!(store.load(first.id()).await.unwrap(), Some((first.clone(), version)));
    assert_eq!(store.unfinished().await.unwrap(), [first.clone()]);

    first.state = DeployState::Succeeded;
    let next = store.save(&first, Some(version)).await.unwrap();
    assert!(is_moved(store.save(&first, Some(version)).await));
    assert_ne!(next, version);
    assert_eq!(store.unfinished().await.unwrap(), []);

    // The last good one is kept, however many bad ones follow it.
    let open = record("open", 2, DeployState::Waiting);
    store.save(&open, None).await.unwrap();
    for n in 0..30 {
        let bad = record(&format!("bad-{n:02}"), 3 + n, DeployState::Failed { rolled_back_to: None });
        store.save(&bad, None).await.unwrap();
    }
    let kept: Vec<_> = store.of_app(&name).await.unwrap().iter().map(|record| record.id().to_string()).collect();
    assert_eq!(kept.first().map(String::as_str), Some("bad-29"));
    assert_eq!(kept.iter().filter(|id| id.starts_with("bad")).count(), 20);
    assert_eq!(kept[20..], ["open", "first"]);

    let (turn, seen) = store.turn(&name).await.unwrap();
    assert_eq!((&turn, seen), (&lifecycle_hooks::pipeline::Turn::default(), None));
    store.save_turn(&name, &turn, None).await.unwrap();
    assert!(is_moved(store.save_turn(&name, &turn, None).await));
    let (_, seen) = store.turn(&name).await.unwrap();
    store.save_turn(&name, &turn, seen).await.unwrap();
    assert!(is_moved(store.save_turn(&name, &turn, seen).await));

    store.forget(&name).await.unwrap();
    assert_eq!(store.of_app(&name).await.unwrap(), []);
    assert_eq!(store.turn(&name).await.unwrap().1, None);
}

#[tokio::test(start_paused = true)]
async fn in_memory() {
    keeps_its_promises(&MemoryDeploys::new()).await;
}

struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("deploys-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

async fn pool(folder: &Folder) -> SqlitePool {
    let options = SqliteConnectOptions::new()
        .filename(folder.0.join("deploys.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(Duration::from_secs(30));
    let pool = SqlitePoolOptions::new().max_connections(4).connect_with(options).await.unwrap();
    SqliteDeploys::prepare(&pool).await.unwrap();
    pool
}

#[tokio::test]
async fn on_sqlite() {
    let folder = Folder::new("promises");
    let pool = pool(&folder).await;
    SqliteDeploys::prepare(&pool).await.unwrap();
    keeps_its_promises(&SqliteDeploys::new(pool.clone())).await;
    pool.close().await;
}

/// In a schema of its own of the PostgreSQL that tests may use.
#[tokio::test]
async fn on_postgres() {
    let Ok(url) = std::env::var("SCHEDULER_TEST_DATABASE_URL") else {
        assert!(std::env::var_os("REQUIRE_POSTGRES").is_none(), "SCHEDULER_TEST_DATABASE_URL names no PostgreSQL");
        eprintln!("skipped: SCHEDULER_TEST_DATABASE_URL names no PostgreSQL");
        return;
    };
    let schema = format!("deploys_{}", std::process::id());
    let options: PgConnectOptions = url.parse().unwrap();
    let options = options.options([("search_path", &schema)]);
    let pool = PgPoolOptions::new().max_connections(4).connect_with(options).await.unwrap();
    sqlx::query(AssertSqlSafe(format!("CREATE SCHEMA {schema}"))).execute(&pool).await.unwrap();
    let both = tokio::join!(PostgresDeploys::prepare(&pool), PostgresDeploys::prepare(&pool));
    assert!(both.0.is_ok() && both.1.is_ok(), "{both:?}");
    let store = PostgresDeploys::new(pool.clone());
    keeps_its_promises(&store).await;
    let clock = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    let database: i64 = sqlx::query_scalar(clock).fetch_one(&pool).await.unwrap();
    assert!((store.now().millis() - database).abs() < 5_000, "it is the database's clock");
    sqlx::query(AssertSqlSafe(format!("DROP SCHEMA {schema} CASCADE"))).execute(&pool).await.unwrap();
    pool.close().await;
}

/// One process begins a deploy and dies; another one, with the same file, finishes it.
#[tokio::test]
async fn a_deploy_goes_on_from_the_file() {
    let folder = Folder::new("resume");
    let cluster = MemoryCluster::builder().namespace("shop").start_up(Duration::from_millis(1)).build();
    let scheduler: std::sync::Arc<dyn scheduler_core::Scheduler> =
        std::sync::Arc::new(cluster.scheduler(OwnerId::new("tests").unwrap()));
    let mut app = app(1);
    app.release.as_mut().unwrap().before.clear();
    app.release.as_mut().unwrap().processes[0].containers[0].image =
        scheduler_core::memory::Fate::Slow { after: 3 }.image("1");
    app.release.as_mut().unwrap().processes[0].progress_deadline = Seconds::new(30);
    let open = pool(&folder).await;
    let begun = Deployer::new(std::sync::Arc::clone(&scheduler), std::sync::Arc::new(SqliteDeploys::new(open.clone())))
        .secrets(secrets())
        .lease(Duration::from_secs(3));
    let asked = deploy(app, PipelineName::Full);
    let died = tokio::time::timeout(Duration::from_millis(500), begun.deploy(asked.clone())).await;
    drop((died, begun));
    open.close().await;

    let open = pool(&folder).await;
    let store = std::sync::Arc::new(SqliteDeploys::new(open.clone()));
    let unfinished = store.unfinished().await.unwrap();
    let [left] = unfinished.as_slice() else { panic!("{unfinished:?}") };
    let deployer = Deployer::new(scheduler, store).secrets(secrets());
    let record = deployer.deploy(left.deploy.clone()).await.unwrap();
    assert_eq!(record.state, DeployState::Succeeded, "{:?}", record.failures());
    assert_eq!(record.started, left.started);
    open.close().await;
}
