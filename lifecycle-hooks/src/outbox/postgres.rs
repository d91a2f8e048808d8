//! Events in PostgreSQL.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use scheduler_core::hooks::{Event, EventId, HookError};
use sqlx::postgres::{PgListener, PgPoolOptions};
use sqlx::{PgPool, PgTransaction};
use tokio::sync::{Mutex, Notify};
use tokio::time::{Instant, sleep_until};

use super::row::{self, WaitingRow, answered, doing, json, millis, not_appended};
use super::{Claim, LONGEST, Outbox, OutboxError, OutboxFilter, Waiting};

/// The channel on which appends are announced.
const CHANNEL: &str = "lifecycle_events";
/// How soon it looks again at an app that is due and that a model's open transaction holds.
const LOCKED: Duration = Duration::from_millis(100);
/// How soon it connects again to listen, after the connection was lost.
const RECONNECT: Duration = Duration::from_secs(1);

/// What makes a claim good: nobody has claimed the app since, and its event is there.
macro_rules! claimed {
    () => {
        " WHERE app = $1 AND fence = $2 AND state = 'held'
            AND EXISTS (SELECT FROM lifecycle_events WHERE seq = $3 AND told IS NULL)"
    };
}

/// The app's next event, if it has one, is due. Whether it has is in the row itself: an append that this statement waited for
/// is in no other table that it can see.
macro_rules! advance {
    () => {
        "UPDATE lifecycle_apps SET
             untold = untold - 1,
             attempts = 0,
             error = NULL,
             state = CASE WHEN untold > 1 THEN 'waiting' ELSE 'idle' END,
             due = CASE WHEN untold > 1 THEN clock_timestamp() END"
    };
}

/// Deletes up to `$most` events that were told more than `$keep` milliseconds ago.
macro_rules! delete_old {
    ($keep:literal, $most:literal) => {
        concat!(
            "DELETE FROM lifecycle_events WHERE seq IN
                 (SELECT seq FROM lifecycle_events WHERE told < now() - ",
            $keep,
            " * interval '1 millisecond' ORDER BY told LIMIT ",
            $most,
            " FOR UPDATE SKIP LOCKED)"
        )
    };
}
/// An outbox in a PostgreSQL database, beside the models' own tables. Clones share one.
///
/// It is used as [`SqliteOutbox`](super::SqliteOutbox) is, whose documentation has an example.
///
/// # What it asks of the models' transactions
///
/// * **Be short.** An append holds its app's row until the transaction ends. Other appends of that app wait for it, which is
///   what makes the order of events that of commits; so do a worker's answers about that app. Other apps are not touched.
/// * **Two apps in one transaction** are appended to in the order of their names, or two such transactions may each wait for
///   the other, until PostgreSQL ends one of them (`40P01`).
/// * **Stricter isolation** than the default, read committed, works; the append then fails like any other statement when
///   somebody wrote the same row meanwhile (`40001`), and the transaction is to be repeated.
/// * **No `PREPARE TRANSACTION`**, which cannot announce anything.
///
/// # Cost
///
/// An append is one statement in the caller's transaction; a claim is one transaction and one read, each answer one
/// transaction. All look things up by index. [`changed`](Outbox::changed) listens on the channel `lifecycle_events`, for which it
/// keeps one connection beside the pool's. While there is none, what others append is noticed at the latest after `most`.
///
/// # Tables
///
/// [`prepare`](Self::prepare) makes them. To have them in your own migrations, use [`SCHEMA`](Self::SCHEMA):
///
/// ```sql
#[doc = include_str!("postgres.sql")]
/// ```
#[derive(Clone, Debug)]
pub struct PostgresOutbox {
    pool: PgPool,
    ear: Arc<Ear>,
    retention: Option<i64>,
}

impl PostgresOutbox {
    /// The tables, all of whose names begin with `lifecycle_`. It may be run again.
    pub const SCHEMA: &'static str = include_str!("postgres.sql");

    /// An outbox in this database, whose tables are there ([`prepare`](Self::prepare)).
    #[must_use]
    pub fn new(pool: PgPool) -> Self {
        Self { pool, ear: Arc::default(), retention: None }
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
    pub async fn prepare(pool: &PgPool) -> Result<(), OutboxError> {
        // `IF NOT EXISTS` alone fails when two processes find nothing at the same time. Any number that others are unlikely to
        // use does.
        const ALONE: &str = "SELECT pg_advisory_xact_lock(7811887363127468129)";
        let what = doing("make the tables");
        let mut transaction = pool.begin().await.map_err(&what)?;
        sqlx::query(ALONE).execute(&mut *transaction).await.map_err(&what)?;
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
    pub async fn append(&self, transaction: &mut PgTransaction<'_>, event: &Event) -> Result<(), OutboxError> {
        // The event gets its place only when the app's row is ours, which it stays until the transaction ends.
        const APPEND: &str = "WITH queue AS (
                 INSERT INTO lifecycle_apps AS a (app, state, untold, due, fence, attempts)
                 VALUES ($1, 'waiting', 1, clock_timestamp(), 0, 0)
                 ON CONFLICT (app) DO UPDATE SET
                     untold = a.untold + 1,
                     state = CASE WHEN a.state = 'idle' THEN 'waiting' ELSE a.state END,
                     due = CASE WHEN a.state = 'idle' THEN clock_timestamp() ELSE a.due END
                 RETURNING app, untold
             ), added AS (
                 INSERT INTO lifecycle_events (app, id, event) SELECT app, $2, $3::json FROM queue
             )
             SELECT pg_notify('lifecycle_events', '') FROM queue WHERE untold = 1";
        let app = &event.app.name;
        let text = json(event, &event.id, app)?;
        let query = sqlx::query(APPEND).bind(app.as_str()).bind(event.id.as_str()).bind(text);
        query.execute(&mut **transaction).await.map_err(|error| not_appended(event, error))?;
        Ok(())
    }

    /// Deletes at most so many events that were told longer ago than the [retention](Self::retention), and the rows of apps
    /// that have no events. Says how many rows it deleted; call it until that is less than `at_most`.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn purge(&self, at_most: u32) -> Result<u64, OutboxError> {
        const EVENTS: &str = delete_old!("$1", "$2");
        const APPS: &str = "DELETE FROM lifecycle_apps WHERE app IN
            (SELECT app FROM lifecycle_apps WHERE state = 'idle' LIMIT $1 FOR UPDATE SKIP LOCKED) AND state = 'idle'";
        let what = doing("purge");
        let old = sqlx::query(EVENTS).bind(self.retention.unwrap_or(0)).bind(i64::from(at_most));
        let events = old.execute(&self.pool).await.map_err(&what)?.rows_affected();
        let left = i64::from(at_most).saturating_sub_unsigned(events);
        let apps = sqlx::query(APPS).bind(left).execute(&self.pool).await.map_err(&what)?.rows_affected();
        Ok(events + apps)
    }

    /// How long until something is due; `None` if nothing will be.
    async fn next_due(&self) -> Result<Option<Duration>, sqlx::Error> {
        // A row that cannot be locked now is due, and a claim would pass it over.
        const NEXT: &str = "SELECT
                 (SELECT true FROM lifecycle_apps WHERE due <= now() ORDER BY due LIMIT 1 FOR UPDATE SKIP LOCKED),
                 (SELECT ceil(extract(epoch FROM due - now()) * 1000)::bigint
                  FROM lifecycle_apps WHERE due IS NOT NULL ORDER BY due LIMIT 1)";
        let (ready, millis): (Option<bool>, Option<i64>) = sqlx::query_as(NEXT).fetch_one(&self.pool).await?;
        if ready.is_some() {
            return Ok(Some(Duration::ZERO));
        }
        Ok(millis.map(|millis| match u64::try_from(millis) {
            Ok(millis) if millis > 0 => Duration::from_millis(millis),
            _ => LOCKED,
        }))
    }
}

#[async_trait]
impl Outbox for PostgresOutbox {
    async fn claim(&self, lease: Duration) -> Result<Option<Claim>, OutboxError> {
        // An app that a model's open transaction holds is passed over: nobody waits for it.
        const CLAIM: &str = "UPDATE lifecycle_apps SET
                 attempts = attempts + (state = 'held')::int,
                 state = 'held',
                 fence = fence + 1,
                 due = clock_timestamp() + $1 * interval '1 millisecond'
             WHERE app = (SELECT app FROM lifecycle_apps WHERE due <= now() ORDER BY due LIMIT 1 FOR UPDATE SKIP LOCKED)
             RETURNING app, fence, attempts";
        // A statement of its own: the one above may see an event that was told while it began.
        const EVENT: &str = "SELECT seq, id, event::text FROM lifecycle_events
             WHERE app = $1 AND told IS NULL ORDER BY seq LIMIT 1";
        // Its last event was dropped while a worker had it; the lease is over now.
        const IDLE: &str = "UPDATE lifecycle_apps SET state = 'idle', due = NULL
             WHERE app = $1 AND fence = $2 AND untold = 0";
        let what = doing("claim an event");
        loop {
            let query = sqlx::query_as(CLAIM).bind(millis(lease));
            let held: Option<(String, i64, i64)> = query.fetch_optional(&self.pool).await.map_err(&what)?;
            let Some((app, fence, attempts)) = held else { return Ok(None) };
            let first = sqlx::query_as(EVENT).bind(&app).fetch_optional(&self.pool).await.map_err(&what)?;
            if let Some(first) = first {
                return row::claim(app, fence, attempts, first).map(Some);
            }
            sqlx::query(IDLE).bind(app).bind(fence).execute(&self.pool).await.map_err(&what)?;
        }
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<(), OutboxError> {
        const RENEW: &str =
            concat!("UPDATE lifecycle_apps SET due = clock_timestamp() + $4 * interval '1 millisecond'", claimed!());
        let query = sqlx::query(RENEW).bind(claim.app.as_str()).bind(claim.fence).bind(claim.seq).bind(millis(lease));
        let rows = query.execute(&self.pool).await.map_err(doing("renew a claim"))?.rows_affected();
        answered(claim, rows)
    }

    async fn ack(&self, claim: &Claim) -> Result<(), OutboxError> {
        const DELETE: &str = concat!(
            "WITH good AS (",
            advance!(),
            claimed!(),
            " RETURNING app) DELETE FROM lifecycle_events WHERE seq = $3 AND EXISTS (SELECT FROM good)"
        );
        const KEEP: &str = concat!(
            "WITH good AS (",
            advance!(),
            claimed!(),
            " RETURNING app), old AS (",
            delete_old!("$4", "2"),
            ") UPDATE lifecycle_events SET told = clock_timestamp() WHERE seq = $3 AND EXISTS (SELECT FROM good)"
        );
        let mut query = sqlx::query(if self.retention.is_some() { KEEP } else { DELETE });
        query = query.bind(claim.app.as_str()).bind(claim.fence).bind(claim.seq);
        if let Some(retention) = self.retention {
            query = query.bind(retention);
        }
        let rows = query.execute(&self.pool).await.map_err(doing("acknowledge an event"))?.rows_affected();
        answered(claim, rows)
    }

    async fn put_off(&self, claim: &Claim, after: Duration, error: Option<&HookError>) -> Result<(), OutboxError> {
        const PUT_OFF: &str = concat!(
            "UPDATE lifecycle_apps SET
                 state = 'waiting',
                 due = clock_timestamp() + $4 * interval '1 millisecond',
                 attempts = attempts + ($5::json IS NOT NULL)::int,
                 error = coalesce($5::json, error)",
            claimed!()
        );
        let error = error.map(|error| json(error, &claim.id, &claim.app)).transpose()?;
        let query = sqlx::query(PUT_OFF).bind(claim.app.as_str()).bind(claim.fence).bind(claim.seq);
        let query = query.bind(millis(after)).bind(error);
        let rows = query.execute(&self.pool).await.map_err(doing("put an event off"))?.rows_affected();
        answered(claim, rows)
    }

    async fn park(&self, claim: &Claim, error: &HookError) -> Result<(), OutboxError> {
        const PARK: &str = concat!(
            "UPDATE lifecycle_apps SET state = 'parked', due = NULL, attempts = attempts + 1, error = $4::json",
            claimed!()
        );
        let error = json(error, &claim.id, &claim.app)?;
        let query = sqlx::query(PARK).bind(claim.app.as_str()).bind(claim.fence).bind(claim.seq).bind(error);
        let rows = query.execute(&self.pool).await.map_err(doing("park an event"))?.rows_affected();
        answered(claim, rows)
    }

    async fn changed(&self, most: Duration) {
        let end = Instant::now() + most.min(LONGEST);
        loop {
            let heard = self.ear.heard.notified();
            tokio::pin!(heard);
            // Both before the look, so that nothing falls between.
            heard.as_mut().enable();
            self.ear.open(&self.pool, end).await;
            let next = self.next_due().await.ok().flatten().unwrap_or(LONGEST);
            let now = Instant::now();
            if next.is_zero() || now >= end {
                return;
            }
            tokio::select! {
                () = heard => {}
                () = self.ear.listen() => {}
                () = sleep_until((now + next).min(end)) => {}
            }
        }
    }

    async fn list(&self, filter: &OutboxFilter) -> Result<Vec<Waiting>, OutboxError> {
        const LIST: &str = "SELECT e.seq, e.id, e.app, e.event::text,
                 CASE WHEN first THEN a.attempts ELSE 0 END,
                 floor(extract(epoch FROM CASE WHEN first THEN a.due ELSE e.appended END) * 1000)::bigint,
                 CASE WHEN first THEN a.error::text END
             FROM (SELECT *, seq = (SELECT min(seq) FROM lifecycle_events f WHERE f.app = o.app AND f.told IS NULL) AS first
                   FROM lifecycle_events o WHERE told IS NULL) e
             JOIN lifecycle_apps a ON a.app = e.app
             WHERE ($1::text IS NULL OR e.app = $1) AND (NOT $2 OR (first AND a.state = 'parked'))
             ORDER BY e.app, e.seq LIMIT $3";
        let limit = (filter.limit > 0).then(|| i64::from(filter.limit));
        let query = sqlx::query_as(LIST).bind(filter.app.as_ref().map(|app| app.as_str())).bind(filter.parked);
        let rows: Vec<WaitingRow> = query.bind(limit).fetch_all(&self.pool).await.map_err(doing("list events"))?;
        rows.into_iter().map(row::waiting).collect()
    }

    async fn retry(&self, id: &EventId) -> Result<bool, OutboxError> {
        const RETRY: &str = "WITH again AS (
                 UPDATE lifecycle_apps SET state = 'waiting', due = clock_timestamp(), attempts = 0
                 WHERE app = $1 AND state IN ('waiting', 'parked')
                   AND $2 = (SELECT min(seq) FROM lifecycle_events WHERE app = $1 AND told IS NULL)
                 RETURNING app
             ) SELECT pg_notify('lifecycle_events', '') FROM again";
        let what = doing("retry an event");
        let mut transaction = self.pool.begin().await.map_err(&what)?;
        let Some((app, seq, _)) = find(&mut transaction, id).await.map_err(&what)? else { return Ok(false) };
        sqlx::query(RETRY).bind(app).bind(seq).execute(&mut *transaction).await.map_err(&what)?;
        transaction.commit().await.map_err(&what)?;
        Ok(true)
    }

    async fn drop_event(&self, id: &EventId) -> Result<bool, OutboxError> {
        const LATER: &str = "UPDATE lifecycle_apps SET untold = untold - 1 WHERE app = $1";
        // The lease is waited for: whoever has the event may still be at it.
        const HELD: &str =
            "UPDATE lifecycle_apps SET untold = untold - 1, attempts = 0, error = NULL, state = 'waiting'
             WHERE app = $1 AND state = 'held'";
        const NOT_HELD: &str = concat!(advance!(), " WHERE app = $1 AND state <> 'held'");
        let what = doing("drop an event");
        let mut transaction = self.pool.begin().await.map_err(&what)?;
        let Some((app, seq, first)) = find(&mut transaction, id).await.map_err(&what)? else { return Ok(false) };
        // Not-held first: after the other statement the app is not held.
        for statement in if first { &[NOT_HELD, HELD][..] } else { &[LATER][..] } {
            sqlx::query(*statement).bind(&app).execute(&mut *transaction).await.map_err(&what)?;
        }
        let delete = sqlx::query("DELETE FROM lifecycle_events WHERE seq = $1").bind(seq);
        delete.execute(&mut *transaction).await.map_err(&what)?;
        sqlx::query("SELECT pg_notify('lifecycle_events', '')").execute(&mut *transaction).await.map_err(&what)?;
        transaction.commit().await.map_err(&what)?;
        Ok(true)
    }
}

/// Locks the app of the event of this name. Its app, its place, and whether it is the app's first, as it is then.
async fn find(transaction: &mut PgTransaction<'_>, id: &EventId) -> Result<Option<(String, i64, bool)>, sqlx::Error> {
    const LOCK: &str = "SELECT FROM lifecycle_apps
         WHERE app = (SELECT app FROM lifecycle_events WHERE id = $1 AND told IS NULL) FOR UPDATE";
    // A statement of its own, which sees what was committed while the other one waited.
    const FIND: &str = "SELECT app, seq,
             seq = (SELECT min(seq) FROM lifecycle_events f WHERE f.app = e.app AND f.told IS NULL)
         FROM lifecycle_events e WHERE id = $1 AND told IS NULL";
    sqlx::query(LOCK).bind(id.as_str()).execute(&mut **transaction).await?;
    sqlx::query_as(FIND).bind(id.as_str()).fetch_optional(&mut **transaction).await
}

/// The connection on which appends are heard of. One of those who wait listens and wakes the others.
#[derive(Debug, Default)]
struct Ear {
    listening: Mutex<Listening>,
    heard: Notify,
}

#[derive(Debug, Default)]
struct Listening {
    listener: Option<PgListener>,
    /// When to try to connect again.
    again: Option<Instant>,
}

impl Ear {
    /// Listens, if nobody does yet. If it cannot, it tries again later, and what is appended is noticed without it.
    async fn open(&self, pool: &PgPool, end: Instant) {
        let Ok(mut listening) = self.listening.try_lock() else { return };
        if listening.listener.is_some() || listening.again.is_some_and(|again| Instant::now() < again) {
            return;
        }
        listening.again = Some(Instant::now() + RECONNECT);
        // Not one of the pool's connections, which are the models'.
        let own = PgPoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None);
        let own = own.connect_lazy_with((*pool.connect_options()).clone());
        let connect = async {
            let mut listener = PgListener::connect_with(&own).await?;
            listener.ignore_pool_close_event(true);
            listener.eager_reconnect(false);
            listener.listen(CHANNEL).await?;
            Ok::<_, sqlx::Error>(listener)
        };
        if let Ok(Ok(listener)) = tokio::time::timeout_at(end, connect).await {
            listening.listener = Some(listener);
            // Whoever looked before this has not heard of what was appended since.
            self.heard.notify_waiters();
        }
    }

    /// Returns when it has heard something, or may have missed something.
    async fn listen(&self) {
        let mut listening = self.listening.lock().await;
        let Some(listener) = &mut listening.listener else {
            let again = listening.again;
            drop(listening);
            return sleep_until(again.unwrap_or_else(|| Instant::now() + RECONNECT)).await;
        };
        if !matches!(listener.try_recv().await, Ok(Some(_))) {
            // The connection was lost: the next one is a new listener's.
            listening.listener = None;
        }
        while listening.listener.as_mut().and_then(PgListener::next_buffered).is_some() {}
        drop(listening);
        self.heard.notify_waiters();
    }
}

impl Drop for Listening {
    /// sqlx gives a connection back in a task, and panics where there is no runtime to run it. Then the process is about to
    /// end, which closes the connection too.
    fn drop(&mut self) {
        if tokio::runtime::Handle::try_current().is_err() {
            std::mem::forget(self.listener.take());
        }
    }
}
