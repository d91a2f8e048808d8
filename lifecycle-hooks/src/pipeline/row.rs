//! What the databases of deploys have in common.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::record::DeployRecord;
use super::store::StoreError;

/// The id of a deploy, and its record.
pub(super) type Row = (String, String);

pub(super) fn records(rows: sqlx::Result<Vec<Row>>) -> Result<Vec<DeployRecord>, StoreError> {
    let rows = rows.map_err(doing("read the deploys"))?;
    rows.iter().map(|(id, text)| read(text, || format!("deploy {id}"))).collect()
}

pub(super) fn doing(doing: &'static str) -> impl Fn(sqlx::Error) -> StoreError {
    move |source| StoreError::Database { doing, source }
}

pub(super) fn read<T: DeserializeOwned>(text: &str, what: impl FnOnce() -> String) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|source| StoreError::Json { what: what(), source })
}

pub(super) fn write<T: Serialize>(value: &T, what: impl FnOnce() -> String) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|source| StoreError::Json { what: what(), source })
}

/// Versions count from 1, and stay far below where the two kinds of numbers part.
pub(super) fn stored(version: u64) -> i64 {
    i64::try_from(version).unwrap_or(i64::MAX)
}

pub(super) fn loaded(version: i64) -> u64 {
    u64::try_from(version).unwrap_or_default()
}

pub(super) fn moved(what: String) -> StoreError {
    StoreError::Moved { what }
}
