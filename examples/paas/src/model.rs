//! The platform's models: its tables, and what they say of an app.
//!
//! None of this knows a backend. [`change`](super::change) changes the tables; what follows from a change is told to hooks.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use lifecycle_hooks::outbox::Waiting;
use scheduler_core::hooks::{App, AppName, DeployEnd, Domain, Front, Release};
use scheduler_core::{Namespace, Timestamp, Workload, WorkloadName};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqliteRow};
use sqlx::{Row as _, SqliteConnection};

use crate::refusal::Refusal;

/// `rev` counts the changes of an app: who reads it, thinks, and writes, sees whether somebody else wrote in between.
const TABLES: &str = "
CREATE TABLE IF NOT EXISTS apps (
  name TEXT PRIMARY KEY,
  rev INTEGER NOT NULL DEFAULT 1,
  created INTEGER NOT NULL,
  destroyed INTEGER,
  front_process TEXT,
  front_port TEXT
) STRICT;
CREATE TABLE IF NOT EXISTS releases (
  app TEXT NOT NULL REFERENCES apps ON DELETE CASCADE,
  version INTEGER NOT NULL,
  content TEXT NOT NULL,
  created INTEGER NOT NULL,
  event TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'deploying' CHECK (state IN ('deploying', 'good', 'failed')),
  reason TEXT,
  PRIMARY KEY (app, version)
) STRICT;
CREATE TABLE IF NOT EXISTS formations (
  app TEXT NOT NULL REFERENCES apps ON DELETE CASCADE,
  process TEXT NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY (app, process)
) STRICT;
CREATE TABLE IF NOT EXISTS domains (
  host TEXT PRIMARY KEY,
  app TEXT NOT NULL REFERENCES apps ON DELETE CASCADE
) STRICT;
CREATE TABLE IF NOT EXISTS runs (
  app TEXT NOT NULL REFERENCES apps ON DELETE CASCADE,
  key TEXT NOT NULL,
  job TEXT NOT NULL,
  created INTEGER NOT NULL,
  PRIMARY KEY (app, key)
) STRICT;
";

/// An app and all that belongs to it.
#[derive(Debug)]
pub struct Model {
    pub rev: i64,
    /// Somebody destroyed it; it is here until nothing is left of it on the backend.
    pub destroyed: bool,
    pub created: Timestamp,
    /// As hooks are told of it. Its release is the newest that has not failed.
    pub app: App,
    /// The newest first.
    pub releases: Vec<ReleaseRow>,
    /// The newest first.
    pub runs: Vec<RunRow>,
}

impl Model {
    /// Whether a deploy is under way, or is going to be.
    pub fn is_deploying(&self) -> bool {
        self.releases.iter().any(|row| row.state == ReleaseState::Deploying)
    }
}

#[derive(Debug)]
pub struct ReleaseRow {
    pub release: Release,
    pub state: ReleaseState,
    /// Why it failed.
    pub reason: Option<String>,
    pub created: Timestamp,
    /// The event that told of it, and the deploy that followed.
    pub event: String,
}

/// What became of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReleaseState {
    /// Its deploy has not ended.
    Deploying,
    /// It ran, and requests went to it.
    Good,
    /// It did not, and was taken back.
    Failed,
}

#[derive(Debug)]
pub struct RunRow {
    pub key: String,
    pub job: Workload,
    pub created: Timestamp,
}

/// Opens the database, and makes the tables in a new one.
pub async fn open(path: &Path) -> Result<SqlitePool, sqlx::Error> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(Duration::from_secs(10));
    let pool = SqlitePool::connect_with(options).await?;
    sqlx::raw_sql(TABLES).execute(&pool).await?;
    Ok(pool)
}

/// The namespace of an app. The prefix keeps apps away from namespaces that the platform did not make.
pub fn namespace(app: &AppName) -> Result<Namespace, Refusal> {
    Namespace::new(format!("app-{app}")).map_err(|error| Refusal::fault("name", error.to_string()))
}

/// The names of all apps, those included that are on their way out.
pub async fn names(conn: &mut SqliteConnection) -> Result<Vec<AppName>, Refusal> {
    let rows = sqlx::query("SELECT name FROM apps ORDER BY name").fetch_all(conn).await?;
    rows.iter().map(|row| name(row, "name", AppName::new)).collect()
}

/// An app, if there is one of that name.
pub async fn find(conn: &mut SqliteConnection, app: &AppName) -> Result<Option<Model>, Refusal> {
    let sql = "SELECT rev, created, destroyed, front_process, front_port FROM apps WHERE name = ?";
    let Some(row) = sqlx::query(sql).bind(app.as_str()).fetch_optional(&mut *conn).await? else { return Ok(None) };
    let mut model = Model {
        rev: row.try_get("rev")?,
        destroyed: row.try_get::<Option<i64>, _>("destroyed")?.is_some(),
        created: time(&row)?,
        app: App::new(app.clone(), namespace(app)?),
        releases: releases(&mut *conn, app).await?,
        runs: runs(&mut *conn, app).await?,
    };
    if row.try_get::<Option<String>, _>("front_process")?.is_some() {
        let process = name(&row, "front_process", WorkloadName::new)?;
        model.app.front = Some(Front::new(process, row.try_get::<String, _>("front_port")?));
    }
    let live = model.releases.iter().find(|row| row.state != ReleaseState::Failed);
    model.app.release = live.map(|row| row.release.clone());
    model.app.formation = formation(&mut *conn, app).await?;
    let hosts = sqlx::query_scalar("SELECT host FROM domains WHERE app = ? ORDER BY host").bind(app.as_str());
    model.app.domains = hosts.fetch_all(conn).await?.into_iter().map(|host: String| Domain::new(host)).collect();
    Ok(Some(model))
}

/// An app that must be there.
pub async fn load(conn: &mut SqliteConnection, app: &AppName) -> Result<Model, Refusal> {
    find(conn, app).await?.ok_or_else(|| Refusal::not_found(format!("there is no app {app}")))
}

async fn releases(conn: &mut SqliteConnection, app: &AppName) -> Result<Vec<ReleaseRow>, Refusal> {
    let sql = "SELECT content, state, reason, created, event FROM releases WHERE app = ? ORDER BY version DESC";
    let rows = sqlx::query(sql).bind(app.as_str()).fetch_all(conn).await?;
    let read = |row: &SqliteRow| {
        Ok(ReleaseRow {
            release: json(row, "content")?,
            state: match row.try_get("state")? {
                "good" => ReleaseState::Good,
                "failed" => ReleaseState::Failed,
                _ => ReleaseState::Deploying,
            },
            reason: row.try_get("reason")?,
            created: time(row)?,
            event: row.try_get("event")?,
        })
    };
    rows.iter().map(read).collect()
}

async fn runs(conn: &mut SqliteConnection, app: &AppName) -> Result<Vec<RunRow>, Refusal> {
    let sql = "SELECT key, job, created FROM runs WHERE app = ? ORDER BY created DESC, key";
    let rows = sqlx::query(sql).bind(app.as_str()).fetch_all(conn).await?;
    let read = |row: &SqliteRow| Ok(RunRow { key: row.try_get("key")?, job: json(row, "job")?, created: time(row)? });
    rows.iter().map(read).collect()
}

async fn formation(conn: &mut SqliteConnection, app: &AppName) -> Result<BTreeMap<WorkloadName, u32>, Refusal> {
    let sql = "SELECT process, count FROM formations WHERE app = ?";
    let rows = sqlx::query(sql).bind(app.as_str()).fetch_all(conn).await?;
    rows.iter().map(|row| Ok((name(row, "process", WorkloadName::new)?, row.try_get("count")?))).collect()
}

/// Writes down how the deploy of a release ended; the first word counts. `false`: there is no such release any more, or it
/// had ended.
pub async fn end_release(conn: &mut SqliteConnection, app: &AppName, end: &DeployEnd) -> Result<bool, sqlx::Error> {
    let state = if end.succeeded { "good" } else { "failed" };
    let sql = "UPDATE releases SET state = ?, reason = ? WHERE app = ? AND version = ? AND state = 'deploying'";
    let version = i64::try_from(end.release).unwrap_or(i64::MAX);
    let query = sqlx::query(sql).bind(state).bind(end.reason.as_deref()).bind(app.as_str()).bind(version);
    Ok(query.execute(conn).await?.rows_affected() > 0)
}

/// A release whose event was taken out will never be deployed.
pub async fn give_up(conn: &mut SqliteConnection, event: &Waiting) -> Result<(), sqlx::Error> {
    let sql = "UPDATE releases SET state = 'failed', reason = 'its event was dropped by an operator'
               WHERE event = ? AND state = 'deploying'";
    sqlx::query(sql).bind(event.id.as_str()).execute(conn).await.map(drop)
}

/// Forgets an app of which nothing is left. One of the same name that is alive stays.
pub async fn forget(conn: &mut SqliteConnection, app: &AppName) -> Result<bool, sqlx::Error> {
    let sql = "DELETE FROM apps WHERE name = ? AND destroyed IS NOT NULL";
    Ok(sqlx::query(sql).bind(app.as_str()).execute(conn).await?.rows_affected() > 0)
}

pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn time(row: &SqliteRow) -> Result<Timestamp, sqlx::Error> {
    row.try_get("created").map(Timestamp::from_millis)
}

fn json<T: DeserializeOwned>(row: &SqliteRow, column: &str) -> Result<T, sqlx::Error> {
    serde_json::from_str(row.try_get(column)?).map_err(|error| unreadable(column, error))
}

/// A name that was checked when it was written.
fn name<T, E>(row: &SqliteRow, column: &str, check: fn(String) -> Result<T, E>) -> Result<T, Refusal>
where
    E: std::error::Error + Send + Sync + 'static,
{
    Ok(check(row.try_get(column)?).map_err(|error| unreadable(column, error))?)
}

fn unreadable(column: &str, error: impl std::error::Error + Send + Sync + 'static) -> sqlx::Error {
    sqlx::Error::ColumnDecode { index: column.to_owned(), source: Box::new(error) }
}
