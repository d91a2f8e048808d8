//! The stores, each with what a test needs of its models' side.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lifecycle_hooks::outbox::{MemoryOutbox, Outbox, OutboxError, PostgresOutbox, SqliteOutbox};
use scheduler_core::hooks::Event;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{AssertSqlSafe, PgPool, SqlitePool};

/// A store, and what models do with it.
#[async_trait]
pub(crate) trait Store: Send + Sync {
    fn outbox(&self) -> Arc<dyn Outbox>;

    /// The same store as another process sees it.
    async fn elsewhere(&self) -> Arc<dyn Outbox>;

    /// Appends events in one transaction.
    async fn append(&self, events: &[Event]) -> Result<(), OutboxError>;

    /// Appends events, and drops whatever it is that does so after so many polls.
    async fn append_in_part(&self, events: &[Event], polls: u32);

    async fn commit(&self, events: &[Event]) {
        self.append(events).await.unwrap();
    }
}

/// A store in a database.
#[async_trait]
pub(crate) trait Sql: Store {
    async fn roll_back(&self, events: &[Event]);
    async fn execute(&self, statement: &str);
    async fn number(&self, query: &str) -> i64;
    /// As if all that was told had been told a day earlier.
    async fn age(&self);
    async fn prepare(&self) -> Result<(), OutboxError>;
    /// With events kept for so long; and what purges it.
    fn retaining(&self, retention: Duration) -> Arc<dyn Outbox>;
    async fn purge(&self, retention: Duration, at_most: u32) -> u64;
}

/// A name that no other test has, in this process or another.
fn unique() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("outbox_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

// ---- memory ----

pub(crate) struct Memory(MemoryOutbox);

pub(crate) async fn memory() -> Option<Memory> {
    Some(Memory(MemoryOutbox::new()))
}

impl Memory {
    pub(crate) async fn close(self) {}
}

#[async_trait]
impl Store for Memory {
    fn outbox(&self) -> Arc<dyn Outbox> {
        Arc::new(self.0.clone())
    }

    async fn elsewhere(&self) -> Arc<dyn Outbox> {
        Arc::new(self.0.clone())
    }

    async fn append(&self, events: &[Event]) -> Result<(), OutboxError> {
        events.iter().cloned().try_for_each(|event| self.0.append(event))
    }

    async fn append_in_part(&self, _: &[Event], _: u32) {}
}

// ---- SQLite ----

pub(crate) struct Sqlite {
    folder: PathBuf,
    pool: SqlitePool,
    outbox: SqliteOutbox,
}

async fn sqlite_pool(folder: &std::path::Path) -> SqlitePool {
    let options = SqliteConnectOptions::new()
        .filename(folder.join("platform.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Normal)
        .busy_timeout(Duration::from_secs(20));
    SqlitePoolOptions::new().max_connections(5).connect_with(options).await.unwrap()
}

pub(crate) async fn sqlite() -> Option<Sqlite> {
    let folder = std::env::temp_dir().join(unique());
    std::fs::create_dir(&folder).unwrap();
    let pool = sqlite_pool(&folder).await;
    SqliteOutbox::prepare(&pool).await.unwrap();
    Some(Sqlite { folder, outbox: SqliteOutbox::new(pool.clone()), pool })
}

impl Sqlite {
    pub(crate) async fn close(self) {
        self.pool.close().await;
        std::fs::remove_dir_all(self.folder).unwrap();
    }
}

#[async_trait]
impl Store for Sqlite {
    fn outbox(&self) -> Arc<dyn Outbox> {
        Arc::new(self.outbox.clone())
    }

    async fn elsewhere(&self) -> Arc<dyn Outbox> {
        Arc::new(SqliteOutbox::new(sqlite_pool(&self.folder).await))
    }

    async fn append(&self, events: &[Event]) -> Result<(), OutboxError> {
        let mut transaction = self.pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
        for event in events {
            self.outbox.append(&mut transaction, event).await?;
        }
        transaction.commit().await.unwrap();
        Ok(())
    }

    async fn append_in_part(&self, events: &[Event], polls: u32) {
        let mut transaction = self.pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
        for event in events {
            Cut::after(polls, self.outbox.append(&mut transaction, event)).await;
        }
    }
}

#[async_trait]
impl Sql for Sqlite {
    async fn roll_back(&self, events: &[Event]) {
        let mut transaction = self.pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
        for event in events {
            self.outbox.append(&mut transaction, event).await.unwrap();
        }
        transaction.rollback().await.unwrap();
    }

    async fn execute(&self, statement: &str) {
        sqlx::query(AssertSqlSafe(statement)).execute(&self.pool).await.unwrap();
    }

    async fn number(&self, query: &str) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(query)).fetch_one(&self.pool).await.unwrap()
    }

    async fn age(&self) {
        self.execute("UPDATE lifecycle_events SET told = told - 86400000").await;
    }

    async fn prepare(&self) -> Result<(), OutboxError> {
        SqliteOutbox::prepare(&self.pool).await
    }

    fn retaining(&self, retention: Duration) -> Arc<dyn Outbox> {
        Arc::new(self.outbox.clone().retention(retention))
    }

    async fn purge(&self, retention: Duration, at_most: u32) -> u64 {
        self.outbox.clone().retention(retention).purge(at_most).await.unwrap()
    }
}

// ---- PostgreSQL ----

pub(crate) struct Postgres {
    options: PgConnectOptions,
    /// Also what its connections call themselves.
    pub(crate) schema: String,
    pub(crate) pool: PgPool,
    pub(crate) outbox: PostgresOutbox,
}

/// Each test has a schema of its own in the database.
pub(crate) async fn postgres() -> Option<Postgres> {
    let Ok(url) = std::env::var("SCHEDULER_TEST_DATABASE_URL") else {
        assert!(std::env::var_os("REQUIRE_POSTGRES").is_none(), "SCHEDULER_TEST_DATABASE_URL names no PostgreSQL");
        eprintln!("skipped: SCHEDULER_TEST_DATABASE_URL names no PostgreSQL");
        return None;
    };
    let schema = unique();
    let options: PgConnectOptions = url.parse().unwrap();
    let options = options.options([("search_path", &schema)]).application_name(&schema);
    let pool = PgPoolOptions::new().max_connections(5).connect_with(options.clone()).await.unwrap();
    sqlx::query(AssertSqlSafe(format!("CREATE SCHEMA {schema}"))).execute(&pool).await.unwrap();
    PostgresOutbox::prepare(&pool).await.unwrap();
    Some(Postgres { options, schema, outbox: PostgresOutbox::new(pool.clone()), pool })
}

impl Postgres {
    pub(crate) async fn close(self) {
        self.execute(&format!("DROP SCHEMA {} CASCADE", self.schema)).await;
        self.pool.close().await;
    }
}

#[async_trait]
impl Store for Postgres {
    fn outbox(&self) -> Arc<dyn Outbox> {
        Arc::new(self.outbox.clone())
    }

    async fn elsewhere(&self) -> Arc<dyn Outbox> {
        let pool = PgPoolOptions::new().max_connections(5).connect_with(self.options.clone()).await.unwrap();
        Arc::new(PostgresOutbox::new(pool))
    }

    async fn append(&self, events: &[Event]) -> Result<(), OutboxError> {
        let mut transaction = self.pool.begin().await.unwrap();
        for event in events {
            self.outbox.append(&mut transaction, event).await?;
        }
        transaction.commit().await.unwrap();
        Ok(())
    }

    async fn append_in_part(&self, events: &[Event], polls: u32) {
        let mut transaction = self.pool.begin().await.unwrap();
        for event in events {
            Cut::after(polls, self.outbox.append(&mut transaction, event)).await;
        }
    }
}

#[async_trait]
impl Sql for Postgres {
    async fn roll_back(&self, events: &[Event]) {
        let mut transaction = self.pool.begin().await.unwrap();
        for event in events {
            self.outbox.append(&mut transaction, event).await.unwrap();
        }
        transaction.rollback().await.unwrap();
    }

    async fn execute(&self, statement: &str) {
        sqlx::query(AssertSqlSafe(statement)).execute(&self.pool).await.unwrap();
    }

    async fn number(&self, query: &str) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(query)).fetch_one(&self.pool).await.unwrap()
    }

    async fn age(&self) {
        self.execute("UPDATE lifecycle_events SET told = told - interval '1 day'").await;
    }

    async fn prepare(&self) -> Result<(), OutboxError> {
        PostgresOutbox::prepare(&self.pool).await
    }

    fn retaining(&self, retention: Duration) -> Arc<dyn Outbox> {
        Arc::new(self.outbox.clone().retention(retention))
    }

    async fn purge(&self, retention: Duration, at_most: u32) -> u64 {
        self.outbox.clone().retention(retention).purge(at_most).await.unwrap()
    }
}

/// Polls a future so often and then drops it: `None`, unless it was ready before.
pub(crate) struct Cut<F> {
    future: std::pin::Pin<Box<F>>,
    polls: u32,
}

impl<F: Future> Cut<F> {
    pub(crate) fn after(polls: u32, future: F) -> Self {
        Self { future: Box::pin(future), polls }
    }
}

impl<F: Future> Future for Cut<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: std::pin::Pin<&mut Self>, context: &mut std::task::Context<'_>) -> std::task::Poll<Self::Output> {
        use std::task::Poll;
        if self.polls == 0 {
            return Poll::Ready(None);
        }
        self.polls -= 1;
        match self.future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if self.polls == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}
