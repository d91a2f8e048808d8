//! Events in SQLite.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use scheduler_core::hooks::{Event, EventId, HookError};
use sqlx::{SqlitePool, SqliteTransaction};
use tokio::sync::{Mutex, MutexGuard, Notify};
use tokio::time::{Instant, timeout, timeout_at};

use super::row::{self, WaitingRow, answered, doing, json, millis, not_appended};
use super::{Claim, LONGEST, Outbox, OutboxError, OutboxFilter, Waiting};

/// At most so long it takes to notice what another process has appended.
const LOOK: Duration = Duration::from_millis(250);
/// How soon it looks again after an append of this process, which may not be committed yet.
const LOOK_SOON: Duration = Duration::from_millis(1);
/// At most so long a writer waits for the others of this process, before it leaves that to SQLite.
const TURN: Duration = Duration::from_millis(100);

/// The database's clock, in milliseconds since 1970.
macro_rules! now {
    () => {
        "CAST(unixepoch('subsec') * 1000 AS INTEGER)"
    };
}

/// What makes a claim good: nobody has claimed the app since, and its event is there.
macro_rules! claimed {
    () => {
        " WHERE app = ?1 AND fence = ?2 AND state = 'held'
            AND EXISTS (SELECT 1 FROM lifecycle_events WHERE seq = ?3 AND told IS NULL)"
    };
}

/// An outbox in an SQLite database, beside the models' own tables. Clones share one.
///
/// # In the platform
///
/// ```
/// use std::time::Duration;
///
/// use lifecycle_hooks::outbox::{Outbox, SqliteOutbox};
/// use scheduler_core::hooks::{App, Event, EventId, EventKind};
/// use scheduler_core::{Namespace, Timestamp};
/// use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = std::env::temp_dir().join(format!("outbox-example-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let file = folder.join("platform.db");
/// let options = SqliteConnectOptions::new()
///     .filename(&file)
///     .create_if_missing(true)
///     .journal_mode(SqliteJournalMode::Wal) // who reads waits for nobody
///     .busy_timeout(Duration::from_secs(5)); // who writes waits for at most so long
/// let pool = SqlitePoolOptions::new().connect_with(options).await?;
/// sqlx::query("CREATE TABLE apps (name TEXT PRIMARY KEY)").execute(&pool).await?;
/// SqliteOutbox::prepare(&pool).await?;
/// let outbox = SqliteOutbox::new(pool.clone());
///
/// // A model changes: the change and its event are committed together.
/// let app = App::new("shop".parse()?, Namespace::new("shop")?);
/// let event = Event::new(EventId::new("shop-1"), Timestamp::from_millis(0), EventKind::AppCreated, app);
/// let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await?;
/// sqlx::query("INSERT INTO apps VALUES ('shop')").execute(&mut *transaction).await?;
/// outbox.append(&mut transaction, &event).await?;
/// transaction.commit().await?;
///
/// // What a worker does.
/// outbox.changed(Duration::from_secs(5)).await;
/// let claim = outbox.claim(Duration::from_secs(30)).await?.ok_or("the event waits")?;
/// assert_eq!(claim.event.as_ref().ok(), Some(&event));
/// outbox.ack(&claim).await?;
/// # pool.close().await;
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
///
/// # What it asks of the pool
///
/// * **A file** rather than `:memory:`, of which each connection has its own; journal mode WAL; and a busy timeout that is
///   longer than the longest transaction. SQLite has one writer at a time: a claim or an answer waits for a model's
///   transaction, and fails as [`OutboxError::Database`] when the time-out is over. Nothing is lost by that.
/// * **`BEGIN IMMEDIATE`** for transactions that read and then write. Those begun with a plain `BEGIN` fail at once
///   (`SQLITE_BUSY_SNAPSHOT`) when somebody has written between.
/// * **Two connections** or more, or a worker waits for a model's whole transaction.
///
/// # Cost
///
/// An append is two statements in the caller's transaction; a claim and each answer is one transaction. All look things up
/// by index. While nothing is due, [`changed`](Outbox::changed) reads one row four times a second, for what other processes
/// may have appended.
///
/// # Tables
///
/// [`prepare`](Self::prepare) makes them. To have them in your own migrations, use [`SCHEMA`](Self::SCHEMA):
///
/// ```sql
#[doc = include_str!("sqlite.sql")]
/// ```
#[derive(Clone, Debug)]
pub struct SqliteOutbox {
    pool: SqlitePool,
    appended: Arc<Notify>,
    /// Held by whoever writes: see [`turn`](Self::turn).
    writing: Arc<Mutex<()>>,
    retention: Option<i64>,
}

impl SqliteOutbox {
    /// The tables, all of whose names begin with `lifecycle_`. It may be run again.
    pub const SCHEMA: &'static str = include_str!("sqlite.sql");

    /// An outbox in this database, whose tables are there ([`prepare`](Self::prepare)).
    #[must_use]
    pub fn new(pool: SqlitePool) -> Self {
        Self { pool, appended: Arc::default(), writing: Arc::default(), retention: None }
    }

    /// Keeps events that were told for so long, for people to look at. Without it they are deleted.
    ///
    /// Each [`ack`](Outbox::ack) then deletes up to two that are older, so that the table stays as large as what is told in
    /// that time; [`purge`](Self::purge) deletes the rest of them after a quiet time.
    #[must_use]
    pub fn retention(self, keep: Duration) -> Self {
        Self { retention: Some(millis(keep)), ..self }
    }

    /// Makes the tables that are not there yet. Two processes may do it at once.
    ///
    /// # Errors
    /// [`OutboxError::Schema`] if a later version of this library made them, and those of the database.
    pub async fn prepare(pool: &SqlitePool) -> Result<(), OutboxError> {
        let what = doing("make the tables");
        let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await.map_err(&what)?;
        sqlx::raw_sql(Self::SCHEMA).execute(&mut *transaction).await.map_err(&what)?;
        let version = sqlx::query_scalar("SELECT version FROM lifecycle_schema");
        row::check_schema(version.fetch_one(&mut *transaction).await.map_err(&what)?)?;
        transaction.commit().await.map_err(&what)
    }

    /// Adds an event behind the others of its app, in the transaction that changes the model.
    ///
    /// It is told after the commit. Rolled back, it was never there.
    ///
    /// # Errors
    /// [`OutboxError::Duplicate`] if an event of its name is there; those of the database. The transaction must be rolled back
    /// then.
    pub async fn append(&self, transaction: &mut SqliteTransaction<'_>, event: &Event) -> Result<(), OutboxError> {
        const EVENT: &str =
            concat!("INSERT INTO lifecycle_events (app, id, event, appended) VALUES (?1, ?2, ?3, ", now!(), ")");
        const APP: &str = concat!(
            "INSERT INTO lifecycle_apps AS a (app, state, untold, due, fence, attempts)
             VALUES (?1, 'waiting', 1, ",
            now!(),
            ", 0, 0)
             ON CONFLICT (app) DO UPDATE SET
                 untold = untold + 1,
                 state = CASE WHEN state = 'idle' THEN 'waiting' ELSE state END,
                 due = CASE WHEN state = 'idle' THEN excluded.due ELSE due END"
        );
        let app = &event.app.name;
        let text = json(event, &event.id, app)?;
        let insert = sqlx::query(EVENT).bind(app.as_str()).bind(event.id.as_str()).bind(text);
        insert.execute(&mut **transaction).await.map_err(|error| not_appended(event, error))?;
        let upsert = sqlx::query(APP).bind(app.as_str());
        upsert.execute(&mut **transaction).await.map_err(doing("append an event"))?;
        self.appended.notify_waiters();
        Ok(())
    }

    /// Deletes at most so many events that were told longer ago than the [retention](Self::retention), and the rows of apps
    /// that have no events. Says how many rows it deleted; call it until that is less than `at_most`.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn purge(&self, at_most: u32) -> Result<u64, OutboxError> {
        const APPS: &str = "DELETE FROM lifecycle_apps WHERE app IN
            (SELECT app FROM lifecycle_apps WHERE state = 'idle' LIMIT ?1)";
        let what = doing("purge");
        let old = sqlx::query(DELETE_OLD).bind(self.retention.unwrap_or(0)).bind(i64::from(at_most));
        let events = old.execute(&self.pool).await.map_err(&what)?.rows_affected();
        let left = i64::from(at_most).saturating_sub_unsigned(events);
        let apps = sqlx::query(APPS).bind(left).execute(&self.pool).await.map_err(&what)?.rows_affected();
        Ok(events + apps)
    }

    /// Lets writers follow each other. SQLite lets those who must wait sleep by the clock; this wakes them. Whoever waits for
    /// long goes on without: the one that has it may be a future that nobody polls now.
    async fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        timeout(TURN, self.writing.lock()).await.ok()
    }

    /// How long until something is due; `None` if nothing will be.
    async fn next_due(&self) -> Result<Option<Duration>, sqlx::Error> {
        const NEXT: &str =
            concat!("SELECT max(due - ", now!(), ", 0) FROM lifecycle_apps WHERE due IS NOT NULL ORDER BY due LIMIT 1");
        let millis: Option<i64> = sqlx::query_scalar(NEXT).fetch_optional(&self.pool).await?;
        Ok(millis.map(|millis| Duration::from_millis(u64::try_from(millis).unwrap_or(0))))
    }
}

const DELETE_OLD: &str = concat!(
    "DELETE FROM lifecycle_events WHERE seq IN
        (SELECT seq FROM lifecycle_events WHERE told < ",
    now!(),
    " - ?1 ORDER BY told LIMIT ?2)"
);

/// The app's next event, if it has one, is due: `?4`, or at once.
macro_rules! advance {
    () => {
        concat!(
            "UPDATE lifecycle_apps SET
                 untold = untold - 1,
                 attempts = 0,
                 error = NULL,
                 state = CASE WHEN untold > 1 THEN 'waiting' ELSE 'idle' END,
                 due = CASE WHEN untold > 1 THEN ",
            now!(),
            " END"
        )
    };
}

#[async_trait]
impl Outbox for SqliteOutbox {
    async fn claim(&self, lease: Duration) -> Result<Option<Claim>, OutboxError> {
        // One statement, which takes the write lock before it looks.
        const CLAIM: &str = concat!(
            "UPDATE lifecycle_apps SET
                 attempts = attempts + (state = 'held'),
                 state = 'held',
                 fence = fence + 1,
                 due = ?1 + ",
            now!(),
            " WHERE app = (SELECT app FROM lifecycle_apps WHERE due <= ",
            now!(),
            " ORDER BY due LIMIT 1)
             RETURNING app, fence, attempts"
        );
        const EVENT: &str = "SELECT seq, id, event FROM lifecycle_events
             WHERE app = ?1 AND told IS NULL ORDER BY seq LIMIT 1";
        // Its last event was dropped while a worker had it; the lease is over now.
        const IDLE: &str = "UPDATE lifecycle_apps SET state = 'idle', due = NULL
             WHERE app = ?1 AND fence = ?2 AND untold = 0";
        let what = doing("claim an event");
        let _turn = self.turn().await;
        loop {
            // To the statement's end, which is where SQLite commits it.
            let mut apps: Vec<(String, i64, i64)> =
                sqlx::query_as(CLAIM).bind(millis(lease)).fetch_all(&self.pool).await.map_err(&what)?;
            let Some((app, fence, attempts)) = apps.pop() else { return Ok(None) };
            let first = sqlx::query_as(EVENT).bind(&app).fetch_optional(&self.pool).await.map_err(&what)?;
            if let Some(first) = first {
                return row::claim(app, fence, attempts, first).map(Some);
            }
            sqlx::query(IDLE).bind(app).bind(fence).execute(&self.pool).await.map_err(&what)?;
        }
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<(), OutboxError> {
        const RENEW: &str = concat!("UPDATE lifecycle_apps SET due = ?4 + ", now!(), claimed!());
        let query = sqlx::query(RENEW).bind(claim.app.as_str()).bind(claim.fence).bind(claim.seq).bind(millis(lease));
        let _turn = self.turn().await;
        let rows = query.execute(&self.pool).await.map_err(doing("renew a claim"))?.rows_affected();
        answered(claim, rows)
    }

    async fn ack(&self, claim: &Claim) -> Result<(), OutboxError> {
        const APP: &str = concat!(advance!(), claimed!());
        const DELETE: &str = "DELETE FROM lifecycle_events WHERE seq = ?1";
        const KEEP: &str = concat!("UPDATE lifecycle_events SET told = ", now!(), " WHERE seq = ?1");
        let what = doing("acknowledge an event");
        let _turn = self.turn().await;
        let mut transaction = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(&what)?;
        let query = sqlx::query(APP).bind(claim.app.as_str()).bind(claim.fence).bind(claim.seq);
        answered(claim, query.execute(&mut *transaction).await.map_err(&what)?.rows_affected())?;
        let told = sqlx::query(if self.retention.is_some() { KEEP } else { DELETE }).bind(claim.seq);
        told.execute(&mut *transaction).await.map_err(&what)?;
        if let Some(retention) = self.retention {
            let old = sqlx::query(DELETE_OLD).bind(retention).bind(2);
            old.execute(&mut *transaction).await.map_err(&what)?;
        }
        transaction.commit().await.map_err(&what)
    }

    async fn put_off(&self, claim: &Claim, after: Duration, error: Option<&HookError>) -> Result<(), OutboxError> {
        const PUT_OFF: &str = concat!(
            "UPDATE lifecycle_apps SET state = 'waiting', due = ?4 + ",
            now!(),
            ", attempts = attempts + (?5 IS NOT NULL), error = coalesce(?5, error)",
            claimed!()
        );
        let error = error.map(|error| json(error, &claim.id, &claim.app)).transpose()?;
        let query = sqlx::query(PUT_OFF).bind(claim.app.as_str()).bind(claim.fence).bind(claim.seq);
        let query = query.bind(millis(after)).bind(error);
        let _turn = self.turn().await;
        let rows = query.execute(&self.pool).await.map_err(doing("put an event off"))?.rows_affected();
        answered(claim, rows)
    }

    async fn park(&self, claim: &Claim, error: &HookError) -> Result<(), OutboxError> {
        const PARK: &str = concat!(
            "UPDATE lifecycle_apps SET state = 'parked', due = NULL, attempts = attempts + 1, error = ?4",
            claimed!()
        );
        let error = json(error, &claim.id, &claim.app)?;
        let query = sqlx::query(PARK).bind(claim.app.as_str()).bind(claim.fence).bind(claim.seq).bind(error);
        let _turn = self.turn().await;
        let rows = query.execute(&self.pool).await.map_err(doing("park an event"))?.rows_affected();
        answered(claim, rows)
    }

    async fn changed(&self, most: Duration) {
        let end = Instant::now() + most.min(LONGEST);
        let mut pause = LOOK_SOON;
        loop {
            let appended = self.appended.notified();
            tokio::pin!(appended);
            // Before the look, so that nothing falls between the two.
            appended.as_mut().enable();
            let next = self.next_due().await.ok().flatten().unwrap_or(LONGEST);
            let now = Instant::now();
            if next.is_zero() || now >= end {
                return;
            }
            let wake = (now + pause.min(next)).min(end);
            // An append may be committed a moment later, or never.
            pause = if timeout_at(wake, appended).await.is_ok() { LOOK_SOON } else { (pause * 2).min(LOOK) };
        }
    }

    async fn list(&self, filter: &OutboxFilter) -> Result<Vec<Waiting>, OutboxError> {
        const LIST: &str = "SELECT e.seq, e.id, e.app, e.event,
                 iif(first, a.attempts, 0), iif(first, a.due, e.appended), iif(first, a.error, NULL)
             FROM (SELECT *, seq = (SELECT min(seq) FROM lifecycle_events f WHERE f.app = o.app AND f.told IS NULL) AS first
                   FROM lifecycle_events o WHERE told IS NULL) e
             JOIN lifecycle_apps a ON a.app = e.app
             WHERE (?1 IS NULL OR e.app = ?1) AND (NOT ?2 OR (first AND a.state = 'parked'))
             ORDER BY e.app, e.seq LIMIT ?3";
        let limit = if filter.limit == 0 { -1 } else { i64::from(filter.limit) };
        let query = sqlx::query_as(LIST).bind(filter.app.as_ref().map(|app| app.as_str())).bind(filter.parked);
        let rows: Vec<WaitingRow> = query.bind(limit).fetch_all(&self.pool).await.map_err(doing("list events"))?;
        rows.into_iter().map(row::waiting).collect()
    }

    async fn retry(&self, id: &EventId) -> Result<bool, OutboxError> {
        const RETRY: &str = concat!(
            "UPDATE lifecycle_apps SET state = 'waiting', due = ",
            now!(),
            ", attempts = 0
             WHERE app = ?1 AND state IN ('waiting', 'parked')
               AND ?2 = (SELECT min(seq) FROM lifecycle_events WHERE app = ?1 AND told IS NULL)"
        );
        let what = doing("retry an event");
        let mut transaction = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(&what)?;
        let found = sqlx::query_as("SELECT app, seq FROM lifecycle_events WHERE id = ?1 AND told IS NULL");
        let found: Option<(String, i64)> =
            found.bind(id.as_str()).fetch_optional(&mut *transaction).await.map_err(&what)?;
        let Some((app, seq)) = found else { return Ok(false) };
        sqlx::query(RETRY).bind(app).bind(seq).execute(&mut *transaction).await.map_err(&what)?;
        transaction.commit().await.map_err(&what)?;
        self.appended.notify_waiters();
        Ok(true)
    }

    async fn drop_event(&self, id: &EventId) -> Result<bool, OutboxError> {
        const FIRST: &str = "SELECT app, seq,
                 seq = (SELECT min(seq) FROM lifecycle_events f WHERE f.app = e.app AND f.told IS NULL)
             FROM lifecycle_events e WHERE id = ?1 AND told IS NULL";
        const LATER: &str = "UPDATE lifecycle_apps SET untold = untold - 1 WHERE app = ?1";
        // The lease is waited for: whoever has the event may still be at it.
        const HELD: &str =
            "UPDATE lifecycle_apps SET untold = untold - 1, attempts = 0, error = NULL, state = 'waiting'
             WHERE app = ?1 AND state = 'held'";
        const NOT_HELD: &str = concat!(advance!(), " WHERE app = ?1 AND state <> 'held'");
        let what = doing("drop an event");
        let mut transaction = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(&what)?;
        let found = sqlx::query_as(FIRST).bind(id.as_str());
        let found: Option<(String, i64, bool)> = found.fetch_optional(&mut *transaction).await.map_err(&what)?;
        let Some((app, seq, first)) = found else { return Ok(false) };
        // Not-held first: after the other statement the app is not held.
        for statement in if first { &[NOT_HELD, HELD][..] } else { &[LATER][..] } {
            sqlx::query(*statement).bind(&app).execute(&mut *transaction).await.map_err(&what)?;
        }
        let delete = sqlx::query("DELETE FROM lifecycle_events WHERE seq = ?1").bind(seq);
        delete.execute(&mut *transaction).await.map_err(&what)?;
        transaction.commit().await.map_err(&what)?;
        self.appended.notify_waiters();
        Ok(true)
    }
}
