//! Where events wait until they are told.
//!
//! A model writes its event with the store's own `append`, in the transaction that changes the model: both are committed or
//! neither is. A worker ([`deliver`](crate::deliver)) takes events through [`Outbox`], which is the same for all stores.
//!
//! | store            | feature    | for                                                                  |
//! | ---------------- | ---------- | -------------------------------------------------------------------- |
//! | [`MemoryOutbox`] |            | tests, and platforms whose models live in memory too                 |
//! | `SqliteOutbox`   | `sqlite`   | one machine: the platform and its database in one process, or in few |
//! | `PostgresOutbox` | `postgres` | several machines                                                     |
//!
//! # How it works
//!
//! Two tables: events, and one row per app that says whether its oldest event waits, is held by a worker, or is parked. The
//! app's row is what makes the promises of [`Outbox`]: an append and every answer of a worker write it, so they come one after
//! the other for one app, and never wait for each other for two. There is no cursor that could pass over an event whose
//! transaction was begun early and committed late.
//!
//! All times are the database's. The clock of a worker's machine decides nothing.

mod memory;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod row;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use scheduler_core::Timestamp;
use scheduler_core::hooks::{AppName, Event, EventId, HookError, HookName};
use serde::{Deserialize, Serialize};

pub use memory::MemoryOutbox;
#[cfg(feature = "postgres")]
pub use postgres::PostgresOutbox;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteOutbox;

/// More than any lease or delay needs, and little enough to be added to any time.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A store of events, as a worker and an operator see it.
///
/// # The contract
///
/// * An app's events are told in the order in which their transactions were committed.
/// * [`claim`](Self::claim) takes the oldest event of an app that nobody else works on. Nobody gets another event of that
///   app until the claim is answered ([`ack`](Self::ack), [`put_off`](Self::put_off), [`park`](Self::park)) or its lease has
///   run out. A claim is fenced: once somebody else has the app, its answers are refused as [`OutboxError::LeaseLost`]
///   and change nothing. An answer after the lease's end that nobody has forestalled still counts.
/// * A parked event blocks its app, and no other, until an operator retries or drops it. What is parked costs claims nothing.
/// * Apps take turns: the one that has been due for longest is next.
/// * Every call is cancel safe: dropped, it has happened wholly or not at all. A claim whose future was dropped may be
///   one that nobody knows of; its lease runs out.
#[async_trait]
pub trait Outbox: Debug + Send + Sync + 'static {
    /// Takes the next event that is due, for so long. `None`: nothing is due.
    async fn claim(&self, lease: Duration) -> Result<Option<Claim>, OutboxError>;

    /// Holds a claim for so much longer, from now.
    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<(), OutboxError>;

    /// The event was told. It is not told again.
    async fn ack(&self, claim: &Claim) -> Result<(), OutboxError>;

    /// The event is to be told again, not before `after` has passed. With an error, that counts as an attempt.
    async fn put_off(&self, claim: &Claim, after: Duration, error: Option<&HookError>) -> Result<(), OutboxError>;

    /// The event cannot be told until somebody mends something: it stays, with its error, and blocks its app.
    async fn park(&self, claim: &Claim, error: &HookError) -> Result<(), OutboxError>;

    /// Returns as soon as something is due, or at the latest after `most`. It may return too early. For a worker whose
    /// [`claim`](Self::claim) gave nothing: while something is due, it returns at once. It does not ask the store busily, and
    /// a store that cannot be asked is an outbox in which nothing is due.
    async fn changed(&self, most: Duration);

    /// Events that wait or are parked, by app and in their order. For operators.
    async fn list(&self, filter: &OutboxFilter) -> Result<Vec<Waiting>, OutboxError>;

    /// Lets a parked event, or one that was put off, be told at once; its attempts start from zero. It changes nothing about
    /// one that is being told, or that others of its app are in front of. `false`: there is no such event.
    async fn retry(&self, id: &EventId) -> Result<bool, OutboxError>;

    /// Takes an event out, untold. `false`: there is no such event. One that is being told may still have its effect: its app
    /// stays held until the lease ends, so that the next event is not told beside it.
    async fn drop_event(&self, id: &EventId) -> Result<bool, OutboxError>;
}

/// An event that a worker has for a time.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Claim {
    /// The event's name.
    pub id: EventId,
    /// The event, or why its stored form cannot be read: it was written by a later version, say. That error is permanent.
    pub event: Result<Event, HookError>,
    /// Its app.
    pub app: AppName,
    /// Its place among the app's events.
    pub seq: i64,
    /// How often it was tried before: answers with an error, and leases that ran out.
    pub attempts: u32,
    /// Which claim of the app this is; answers of earlier ones are refused.
    pub fence: i64,
}

/// Which events to list: all, unless it says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboxFilter {
    /// Only those of this app.
    pub app: Option<AppName>,
    /// Only those that are parked.
    pub parked: bool,
    /// At most so many; all if zero.
    pub limit: u32,
}

impl OutboxFilter {
    /// Only events of this app.
    #[must_use]
    pub fn app(self, app: AppName) -> Self {
        Self { app: Some(app), ..self }
    }

    /// Only events that are parked.
    #[must_use]
    pub fn parked(self) -> Self {
        Self { parked: true, ..self }
    }

    /// At most so many.
    #[must_use]
    pub fn limit(self, limit: u32) -> Self {
        Self { limit, ..self }
    }
}

/// An event that has not been told yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Waiting {
    /// Its name.
    pub id: EventId,
    /// Its app.
    pub app: AppName,
    /// Its place among the app's events.
    pub seq: i64,
    /// The hook that it will be told to; `None` if its stored form cannot be read.
    pub hook: Option<HookName>,
    /// How often it was tried.
    pub attempts: u32,
    /// When it may be told, if the others of its app in front of it have been; while it is being told, when the lease ends.
    /// `None` if it is parked.
    pub due: Option<Timestamp>,
    /// Why it was not told when it was last tried.
    pub error: Option<HookError>,
}

/// Why the store could not do it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutboxError {
    /// The claim is no longer good. Nothing was changed; whoever tells the event now should stop.
    #[error(
        "the claim on event {id} of {app} is no longer good: its lease ran out and another worker took the app, or an \
         operator dropped the event; nothing was changed"
    )]
    LeaseLost {
        /// The event.
        id: EventId,
        /// The app.
        app: AppName,
    },
    /// An event of this name is there already.
    #[error("there is an event {id} already; {app}'s was not appended: give each event a name of its own")]
    Duplicate {
        /// Its name.
        id: EventId,
        /// The app of the one that was to be appended.
        app: AppName,
    },
    /// The database could not be asked, or refused.
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    #[error("outbox: {doing}: {source}")]
    Database {
        /// What was being done.
        doing: &'static str,
        /// What the database said.
        source: sqlx::Error,
    },
    /// The tables are of a later version of this library.
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    #[error(
        "the outbox's tables have schema version {found}, and this version of lifecycle-hooks knows {known}: a newer one made \
         them; use that one"
    )]
    Schema {
        /// What the database has.
        found: i64,
        /// What this library makes.
        known: i64,
    },
    /// An event, or its error, cannot be written as JSON.
    #[error("event {id} of {app} cannot be written: {source}")]
    Unwritable {
        /// Its name.
        id: EventId,
        /// Its app.
        app: AppName,
        /// Why.
        source: serde_json::Error,
    },
}
