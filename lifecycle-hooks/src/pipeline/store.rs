//! Where deploys are kept, so that they can go on after a crash.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use scheduler_core::Timestamp;
use scheduler_core::hooks::AppName;
use tokio::time::Instant;

use super::record::{DeployId, DeployRecord, DeployState};
use super::turn::Turn;

/// How many deploys of an app are kept that are over.
pub(super) const KEPT: usize = 20;

/// A store of deploys.
///
/// # The contract
///
/// * Writes are compare-and-set, by versions that the store gives: `seen` is the version that was read, `None` where nothing
///   was there. If anything else is there it answers [`StoreError::Moved`] and changes nothing.
/// * A record that was written is read as it was, also by another process.
/// * Of each app the last twenty that are over are kept at least, and the last that succeeded, and all that are not over.
/// * Every call is cancel safe: dropped, it has happened wholly or not at all.
#[async_trait]
pub trait DeployStore: Debug + Send + Sync + 'static {
    /// The time, by the clock that all workers of this store share. Leases are by it.
    fn now(&self) -> Timestamp;

    /// A deploy, with its version.
    async fn load(&self, id: &DeployId) -> Result<Option<(DeployRecord, u64)>, StoreError>;

    /// Writes a deploy; answers its new version.
    async fn save(&self, record: &DeployRecord, seen: Option<u64>) -> Result<u64, StoreError>;

    /// The deploys that are not over, the oldest first: what to go on with after a start.
    async fn unfinished(&self) -> Result<Vec<DeployRecord>, StoreError>;

    /// The deploys of an app that are kept, the newest first.
    async fn of_app(&self, app: &AppName) -> Result<Vec<DeployRecord>, StoreError>;

    /// Whose turn it is with an app, with its version; the default, without a version, if nothing is known.
    async fn turn(&self, app: &AppName) -> Result<(Turn, Option<u64>), StoreError>;

    /// Writes whose turn it is.
    async fn save_turn(&self, app: &AppName, turn: &Turn, seen: Option<u64>) -> Result<(), StoreError>;

    /// Forgets an app: its deploys and its turn.
    async fn forget(&self, app: &AppName) -> Result<(), StoreError>;
}

/// Why the store could not do it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Somebody else has written meanwhile. Nothing was changed.
    #[error("{what} was written by another worker meanwhile; nothing was changed")]
    Moved {
        /// Which deploy, or which app's turn.
        what: String,
    },
    /// What was written cannot be read, or cannot be written.
    #[error("{what} cannot be read or written as JSON: {source}")]
    Json {
        /// Which deploy, or which app's turn.
        what: String,
        /// Why.
        source: serde_json::Error,
    },
    /// The database could not be asked, or refused.
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    #[error("deploys: {doing}: {source}")]
    Database {
        /// What was being done.
        doing: &'static str,
        /// What the database said.
        source: sqlx::Error,
    },
}

/// The records of an app that are to go, of all that are there, the newest first.
pub(super) fn surplus<'a>(newest_first: impl Iterator<Item = (&'a DeployId, &'a DeployState)>) -> Vec<DeployId> {
    let (mut over, mut good) = (0, false);
    let mut surplus = Vec::new();
    for (id, state) in newest_first.filter(|(_, state)| state.is_over()) {
        over += 1;
        let last_good = *state == DeployState::Succeeded && !good;
        good |= last_good;
        if over > KEPT && !last_good {
            surplus.push(id.clone());
        }
    }
    surplus
}

/// Deploys in memory: for tests, and for platforms whose models live there too. Clones share one. It lives on tokio's clock,
/// which tests can pause, and which begins at 2000-01-01T00:00:00Z.
#[derive(Clone, Debug)]
pub struct MemoryDeploys {
    began: Instant,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    /// By id, with a version, and with a number that grows from deploy to deploy.
    records: BTreeMap<DeployId, (DeployRecord, u64, u64)>,
    turns: BTreeMap<AppName, (Turn, u64)>,
}

impl State {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The newest first.
    fn of_app<'a>(&'a self, app: &'a AppName) -> Vec<&'a DeployRecord> {
        let mut of_app: Vec<_> = self.records.values().filter(|(record, ..)| record.app() == app).collect();
        of_app.sort_by_key(|(_, _, seq)| std::cmp::Reverse(*seq));
        of_app.into_iter().map(|(record, ..)| record).collect()
    }
}

impl Default for MemoryDeploys {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryDeploys {
    /// A store without deploys.
    #[must_use]
    pub fn new() -> Self {
        Self { began: Instant::now(), state: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn moved<T>(what: impl ToString) -> Result<T, StoreError> {
    Err(StoreError::Moved { what: what.to_string() })
}

#[async_trait]
impl DeployStore for MemoryDeploys {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(946_684_800_000).plus(self.began.elapsed())
    }

    async fn load(&self, id: &DeployId) -> Result<Option<(DeployRecord, u64)>, StoreError> {
        Ok(self.state().records.get(id).map(|(record, version, _)| (record.clone(), *version)))
    }

    async fn save(&self, record: &DeployRecord, seen: Option<u64>) -> Result<u64, StoreError> {
        let mut state = self.state();
        let there = state.records.get(record.id()).map(|(_, version, seq)| (*version, *seq));
        if there.map(|(version, _)| version) != seen {
            return moved(format_args!("deploy {}", record.id()));
        }
        let version = state.next();
        let seq = there.map_or(version, |(_, seq)| seq);
        state.records.insert(record.id().clone(), (record.clone(), version, seq));
        let surplus = surplus(state.of_app(record.app()).into_iter().map(|record| (record.id(), &record.state)));
        for id in surplus {
            state.records.remove(&id);
        }
        Ok(version)
    }

    async fn unfinished(&self) -> Result<Vec<DeployRecord>, StoreError> {
        let state = self.state();
        let mut open: Vec<_> = state.records.values().filter(|(record, ..)| !record.state.is_over()).collect();
        open.sort_by_key(|(_, _, seq)| *seq);
        Ok(open.into_iter().map(|(record, ..)| record.clone()).collect())
    }

    async fn of_app(&self, app: &AppName) -> Result<Vec<DeployRecord>, StoreError> {
        Ok(self.state().of_app(app).into_iter().cloned().collect())
    }

    async fn turn(&self, app: &AppName) -> Result<(Turn, Option<u64>), StoreError> {
        let found = self.state().turns.get(app).cloned();
        Ok(found.map_or_else(|| (Turn::default(), None), |(turn, version)| (turn, Some(version))))
    }

    async fn save_turn(&self, app: &AppName, turn: &Turn, seen: Option<u64>) -> Result<(), StoreError> {
        let mut state = self.state();
        if state.turns.get(app).map(|(_, version)| *version) != seen {
            return moved(format_args!("the turn of app {app}"));
        }
        let version = state.next();
        state.turns.insert(app.clone(), (turn.clone(), version));
        Ok(())
    }

    async fn forget(&self, app: &AppName) -> Result<(), StoreError> {
        let mut state = self.state();
        state.records.retain(|_, (record, ..)| record.app() != app);
        state.turns.remove(app);
        Ok(())
    }
}
