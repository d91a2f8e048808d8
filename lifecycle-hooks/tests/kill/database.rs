//! The models and the outbox, in either database.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lifecycle_hooks::outbox::{Outbox, PostgresOutbox, SqliteOutbox};
use scheduler_core::Timestamp;
use scheduler_core::hooks::{App, Domain, Event, EventId, EventKind};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use sqlx::{AssertSqlSafe, PgPool, SqlitePool};

use crate::child::{Change, step};

/// Which changes were committed, in their order, and the domains of each app.
const MODELS: [&str; 2] = [
    "CREATE TABLE changes (event TEXT PRIMARY KEY, app TEXT NOT NULL, place INTEGER NOT NULL)",
    "CREATE TABLE domains (app TEXT NOT NULL, host TEXT NOT NULL, PRIMARY KEY (app, host))",
];
/// Of one app the changes come one after the other, so that this says in which order.
const NOTE: &str = "INSERT INTO changes (event, app, place) SELECT $1, $2, count(*) FROM changes";
const NOTED: &str = "SELECT count(*) FROM changes WHERE event = $1";
const ADD: &str = "INSERT INTO domains (app, host) VALUES ($1, $2)";
const REMOVE: &str = "DELETE FROM domains WHERE app = $1 AND host = $2";
const HOSTS: &str = "SELECT host FROM domains WHERE app = $1 ORDER BY host";

const FOLDER: &str = "LIFECYCLE_KILLED_FOLDER";
const SCHEMA: &str = "LIFECYCLE_KILLED_SCHEMA";

/// The same statements for both databases, whose types have nothing in common.
macro_rules! make {
    ($transaction:ident, $outbox:ident, $change:ident) => {{
        let (name, host, id) = ($change.app(), $change.host(), $change.event());
        let noted: i64 = sqlx::query_scalar(NOTED).bind(&id).fetch_one(&mut *$transaction).await.unwrap();
        if noted > 0 {
            return;
        }
        let removed = sqlx::query(REMOVE).bind(name).bind(&host).execute(&mut *$transaction).await.unwrap();
        let kind = if removed.rows_affected() > 0 {
            EventKind::DomainRemoved(Domain::new(&host))
        } else {
            sqlx::query(ADD).bind(name).bind(&host).execute(&mut *$transaction).await.unwrap();
            EventKind::DomainAdded(Domain::new(&host))
        };
        step("a model is changed").await;
        let hosts: Vec<String> = sqlx::query_scalar(HOSTS).bind(name).fetch_all(&mut *$transaction).await.unwrap();
        let mut app = App::new(name.parse().unwrap(), name.try_into().unwrap());
        app.domains = hosts.iter().map(Domain::new).collect();
        let event = Event::new(EventId::new(id.as_str()), Timestamp::from_millis(0), kind, app);
        $outbox.append(&mut $transaction, &event).await.unwrap();
        sqlx::query(NOTE).bind(&id).bind(name).execute(&mut *$transaction).await.unwrap();
        step("an event is appended").await;
        if $change.rolls_back() {
            $transaction.rollback().await.unwrap();
        } else {
            $transaction.commit().await.unwrap();
        }
    }};
}

/// Where a platform has what outlives it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    folder: PathBuf,
    /// In PostgreSQL; otherwise the database is a file of the folder.
    schema: Option<String>,
}

impl Place {
    /// The place of the platform that this process is to be, if it is to be one.
    pub(crate) fn of_child() -> Option<Self> {
        let folder = std::env::var_os(FOLDER)?.into();
        Some(Self { folder, schema: std::env::var(SCHEMA).ok() })
    }

    pub(crate) fn pass_to<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env(FOLDER, &self.folder);
        match &self.schema {
            Some(schema) => command.env(SCHEMA, schema),
            None => command.env_remove(SCHEMA),
        }
    }

    fn new(schema: bool) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("killed_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(&name);
        std::fs::create_dir(&folder).unwrap();
        Self { folder, schema: schema.then_some(name) }
    }
}

pub(crate) fn postgres_url() -> Result<String, String> {
    let name = "SCHEDULER_TEST_DATABASE_URL";
    std::env::var(name).map_err(|_| format!("{name} names no PostgreSQL"))
}

/// An open database.
pub(crate) struct Database {
    place: Place,
    pool: Pool,
}

enum Pool {
    Sqlite(SqlitePool, SqliteOutbox),
    Postgres(PgPool, PostgresOutbox),
}

impl Database {
    /// A new one in a file.
    pub(crate) async fn sqlite() -> Self {
        let database = Self::open(&Place::new(false)).await;
        if let Pool::Sqlite(pool, _) = &database.pool {
            SqliteOutbox::prepare(pool).await.unwrap();
            for table in MODELS {
                sqlx::query(table).execute(pool).await.unwrap();
            }
        }
        database
    }

    /// A new one in a schema of its own.
    pub(crate) async fn postgres() -> Self {
        let place = Place::new(true);
        let database = Self::open(&place).await;
        if let (Pool::Postgres(pool, _), Some(schema)) = (&database.pool, &place.schema) {
            sqlx::query(AssertSqlSafe(format!("CREATE SCHEMA {schema}"))).execute(pool).await.unwrap();
            PostgresOutbox::prepare(pool).await.unwrap();
            for table in MODELS {
                sqlx::query(table).execute(pool).await.unwrap();
            }
        }
        database
    }

    pub(crate) async fn open(place: &Place) -> Self {
        let pool = match &place.schema {
            None => {
                let options = SqliteConnectOptions::new()
                    .filename(place.folder.join("platform.db"))
                    .create_if_missing(true)
                    .journal_mode(SqliteJournalMode::Wal)
                    .busy_timeout(Duration::from_secs(20));
                let pool = SqlitePoolOptions::new().max_connections(4).connect_with(options).await.unwrap();
                Pool::Sqlite(pool.clone(), SqliteOutbox::new(pool))
            }
            Some(schema) => {
                let options: PgConnectOptions = postgres_url().unwrap().parse().unwrap();
                let options = options.options([("search_path", schema)]);
                let pool = PgPoolOptions::new().max_connections(4).connect_with(options).await.unwrap();
                Pool::Postgres(pool.clone(), PostgresOutbox::new(pool))
            }
        };
        Self { place: place.clone(), pool }
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.place.folder
    }

    pub(crate) fn outbox(&self) -> Arc<dyn Outbox> {
        match &self.pool {
            Pool::Sqlite(_, outbox) => Arc::new(outbox.clone()),
            Pool::Postgres(_, outbox) => Arc::new(outbox.clone()),
        }
    }

    /// Makes a change, with its event, unless an earlier run has made it.
    pub(crate) async fn make(&self, change: Change) {
        step("a change begins").await;
        match &self.pool {
            Pool::Sqlite(pool, outbox) => {
                let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
                make!(transaction, outbox, change);
            }
            Pool::Postgres(pool, outbox) => {
                let mut transaction = pool.begin().await.unwrap();
                // Whoever changes an app waits for whoever does already, as platforms see to by a row of it.
                let lock = "SELECT pg_advisory_xact_lock(hashtext(current_schema() || $1))";
                sqlx::query(lock).bind(change.app()).execute(&mut *transaction).await.unwrap();
                make!(transaction, outbox, change);
            }
        }
        step("a change is made").await;
    }

    /// The events that were committed, with their apps, in their order.
    pub(crate) async fn committed(&self) -> Vec<(String, String)> {
        self.pairs("SELECT app, event FROM changes ORDER BY app, place").await
    }

    /// The domains of the models, with their apps.
    pub(crate) async fn domains(&self) -> Vec<(String, String)> {
        self.pairs("SELECT app, host FROM domains ORDER BY app, host").await
    }

    async fn pairs(&self, query: &'static str) -> Vec<(String, String)> {
        match &self.pool {
            Pool::Sqlite(pool, _) => sqlx::query_as(query).fetch_all(pool).await.unwrap(),
            Pool::Postgres(pool, _) => sqlx::query_as(query).fetch_all(pool).await.unwrap(),
        }
    }

    pub(crate) async fn close(self) {
        match self.pool {
            Pool::Sqlite(pool, _) => pool.close().await,
            Pool::Postgres(pool, _) => pool.close().await,
        }
    }

    /// Takes it away with all that is in it.
    pub(crate) async fn remove(self) {
        if let (Pool::Postgres(pool, _), Some(schema)) = (&self.pool, &self.place.schema) {
            sqlx::query(AssertSqlSafe(format!("DROP SCHEMA {schema} CASCADE"))).execute(pool).await.unwrap();
        }
        let folder = self.place.folder.clone();
        self.close().await;
        std::fs::remove_dir_all(folder).unwrap();
    }
}
