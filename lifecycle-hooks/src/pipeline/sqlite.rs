//! Deploys in SQLite.

use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use scheduler_core::Timestamp;
use scheduler_core::hooks::AppName;
use sqlx::SqlitePool;

use super::record::{DeployId, DeployRecord};
use super::row::{doing, loaded, moved, read, records, stored, write};
use super::store::{DeployStore, StoreError, surplus};
use super::turn::Turn;

/// Deploys in an SQLite database, beside the platform's own tables. Clones share one.
///
/// All workers are on one machine, as the database is: leases are by its clock. What is asked of the pool is what
/// [`SqliteOutbox`](crate::outbox::SqliteOutbox) asks of it.
///
/// [`prepare`](Self::prepare) makes the tables. To have them in your own migrations, use [`SCHEMA`](Self::SCHEMA):
///
/// ```sql
#[doc = include_str!("sqlite.sql")]
/// ```
#[derive(Clone, Debug)]
pub struct SqliteDeploys {
    pool: SqlitePool,
}

impl SqliteDeploys {
    /// The tables, all of whose names begin with `lifecycle_`. It may be run again.
    pub const SCHEMA: &'static str = include_str!("sqlite.sql");

    /// The deploys in this database, whose tables are there ([`prepare`](Self::prepare)).
    #[must_use]
    pub fn new(pool: SqlitePool) -> Self {
        Self { pool }
    }

    /// Makes the tables that are not there yet. Two processes may do it at once.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn prepare(pool: &SqlitePool) -> Result<(), StoreError> {
        let what = doing("make the tables");
        let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await.map_err(&what)?;
        sqlx::raw_sql(Self::SCHEMA).execute(&mut *transaction).await.map_err(&what)?;
        transaction.commit().await.map_err(&what)
    }
}

#[async_trait]
impl DeployStore for SqliteDeploys {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(0).plus(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
    }

    async fn load(&self, id: &DeployId) -> Result<Option<(DeployRecord, u64)>, StoreError> {
        let query = sqlx::query_as("SELECT record, version FROM lifecycle_deploys WHERE id = ?1").bind(id.as_str());
        let row: Option<(String, i64)> = query.fetch_optional(&self.pool).await.map_err(doing("read a deploy"))?;
        let Some((text, version)) = row else { return Ok(None) };
        Ok(Some((read(&text, || format!("deploy {id}"))?, loaded(version))))
    }

    async fn save(&self, record: &DeployRecord, seen: Option<u64>) -> Result<u64, StoreError> {
        const INSERT: &str = "INSERT INTO lifecycle_deploys (id, app, version, is_over, record)
            VALUES (?1, ?2, 1, ?3, ?4) ON CONFLICT (id) DO NOTHING";
        const UPDATE: &str = "UPDATE lifecycle_deploys SET version = version + 1, app = ?2, is_over = ?3, record = ?4
            WHERE id = ?1 AND version = ?5";
        let what = doing("write a deploy");
        let (id, is_over) = (record.id(), record.state.is_over());
        let text = write(record, || format!("deploy {id}"))?;
        let mut transaction = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(&what)?;
        let query = sqlx::query(if seen.is_some() { UPDATE } else { INSERT });
        let query = query.bind(id.as_str()).bind(record.app().as_str()).bind(is_over).bind(text);
        let query = if let Some(seen) = seen { query.bind(stored(seen)) } else { query };
        if query.execute(&mut *transaction).await.map_err(&what)?.rows_affected() == 0 {
            return Err(moved(format!("deploy {id}")));
        }
        if is_over {
            const OVER: &str = "SELECT id, record FROM lifecycle_deploys WHERE app = ?1 AND is_over ORDER BY seq DESC";
            let over = sqlx::query_as(OVER).bind(record.app().as_str());
            let over = records(over.fetch_all(&mut *transaction).await)?;
            for id in surplus(over.iter().map(|record| (record.id(), &record.state))) {
                let delete = sqlx::query("DELETE FROM lifecycle_deploys WHERE id = ?1").bind(id.as_str());
                delete.execute(&mut *transaction).await.map_err(&what)?;
            }
        }
        transaction.commit().await.map_err(&what)?;
        Ok(seen.unwrap_or_default() + 1)
    }

    async fn unfinished(&self) -> Result<Vec<DeployRecord>, StoreError> {
        const OPEN: &str = "SELECT id, record FROM lifecycle_deploys WHERE NOT is_over ORDER BY seq";
        records(sqlx::query_as(OPEN).fetch_all(&self.pool).await)
    }

    async fn of_app(&self, app: &AppName) -> Result<Vec<DeployRecord>, StoreError> {
        const OF_APP: &str = "SELECT id, record FROM lifecycle_deploys WHERE app = ?1 ORDER BY seq DESC";
        records(sqlx::query_as(OF_APP).bind(app.as_str()).fetch_all(&self.pool).await)
    }

    async fn turn(&self, app: &AppName) -> Result<(Turn, Option<u64>), StoreError> {
        let query = sqlx::query_as("SELECT turn, version FROM lifecycle_turns WHERE app = ?1").bind(app.as_str());
        let row: Option<(String, i64)> = query.fetch_optional(&self.pool).await.map_err(doing("read a turn"))?;
        let Some((text, version)) = row else { return Ok((Turn::default(), None)) };
        Ok((read(&text, || format!("the turn of app {app}"))?, Some(loaded(version))))
    }

    async fn save_turn(&self, app: &AppName, turn: &Turn, seen: Option<u64>) -> Result<(), StoreError> {
        const INSERT: &str = "INSERT INTO lifecycle_turns (app, version, turn)
            VALUES (?1, 1, ?2) ON CONFLICT (app) DO NOTHING";
        const UPDATE: &str =
            "UPDATE lifecycle_turns SET version = version + 1, turn = ?2 WHERE app = ?1 AND version = ?3";
        let text = write(turn, || format!("the turn of app {app}"))?;
        let query = sqlx::query(if seen.is_some() { UPDATE } else { INSERT }).bind(app.as_str()).bind(text);
        let query = if let Some(seen) = seen { query.bind(stored(seen)) } else { query };
        if query.execute(&self.pool).await.map_err(doing("write a turn"))?.rows_affected() == 0 {
            return Err(moved(format!("the turn of app {app}")));
        }
        Ok(())
    }

    async fn forget(&self, app: &AppName) -> Result<(), StoreError> {
        let what = doing("forget an app");
        let mut transaction = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(&what)?;
        for delete in ["DELETE FROM lifecycle_deploys WHERE app = ?1", "DELETE FROM lifecycle_turns WHERE app = ?1"] {
            sqlx::query(delete).bind(app.as_str()).execute(&mut *transaction).await.map_err(&what)?;
        }
        transaction.commit().await.map_err(&what)
    }
}
