//! What the rows of the two databases have in common.

use std::time::Duration;

use scheduler_core::Timestamp;
use scheduler_core::hooks::{AppName, Event, EventId, HookError};
use serde::Serialize;

use super::{Claim, LONGEST, OutboxError, Waiting};

/// The version of the tables that this library makes and knows.
pub(super) const SCHEMA_VERSION: i64 = 1;

/// An event: its place, its name, its stored form.
pub(super) type EventRow = (i64, String, String);

/// A row of a list: place, name, app, stored form, attempts, due (milliseconds since 1970), stored error.
pub(super) type WaitingRow = (i64, String, String, String, i64, Option<i64>, Option<String>);

/// An error of the database, with what was being done.
pub(super) fn doing(doing: &'static str) -> impl Fn(sqlx::Error) -> OutboxError {
    move |source| OutboxError::Database { doing, source }
}

/// The error of an append. The only unique thing that it writes is the event's name.
pub(super) fn not_appended(event: &Event, source: sqlx::Error) -> OutboxError {
    if source.as_database_error().is_some_and(sqlx::error::DatabaseError::is_unique_violation) {
        return OutboxError::Duplicate { id: event.id.clone(), app: event.app.name.clone() };
    }
    OutboxError::Database { doing: "append an event", source }
}

/// Whole milliseconds, never fewer than were asked for.
pub(super) fn millis(span: Duration) -> i64 {
    i64::try_from(span.min(LONGEST).as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

/// An event, or its error, as it is stored.
pub(super) fn json<T: Serialize>(value: &T, id: &EventId, app: &AppName) -> Result<String, OutboxError> {
    serde_json::to_string(value).map_err(|source| OutboxError::Unwritable { id: id.clone(), app: app.clone(), source })
}

/// The version of the tables must be one that this library knows.
pub(super) fn check_schema(found: i64) -> Result<(), OutboxError> {
    if found == SCHEMA_VERSION { Ok(()) } else { Err(OutboxError::Schema { found, known: SCHEMA_VERSION }) }
}

/// An answer to a good claim changes a row; one to a claim that is lost changes none.
pub(super) fn answered(claim: &Claim, rows: u64) -> Result<(), OutboxError> {
    if rows == 0 {
        return Err(OutboxError::LeaseLost { id: claim.id.clone(), app: claim.app.clone() });
    }
    Ok(())
}

/// The claim of an app's first event.
pub(super) fn claim(app: String, fence: i64, attempts: i64, (seq, id, event): EventRow) -> Result<Claim, OutboxError> {
    let event = serde_json::from_str(&event).map_err(|error| {
        HookError::permanent(format!(
            "event {id} cannot be read by this version of lifecycle-hooks: {error}; let a worker of the version that wrote it \
             tell it, or drop it"
        ))
    });
    Ok(Claim { id: EventId::new(id), event, app: app_name(app)?, seq, attempts: count(attempts), fence })
}

/// What an operator sees of it.
pub(super) fn waiting((seq, id, app, event, attempts, due, error): WaitingRow) -> Result<Waiting, OutboxError> {
    let error = error.map(|text| {
        serde_json::from_str(&text).unwrap_or_else(|error| {
            HookError::permanent(format!("the stored error cannot be read by this version of lifecycle-hooks: {error}"))
        })
    });
    Ok(Waiting {
        id: EventId::new(id),
        app: app_name(app)?,
        seq,
        hook: serde_json::from_str(&event).ok().map(|event: Event| event.hook()),
        attempts: count(attempts),
        due: due.map(Timestamp::from_millis),
        error,
    })
}

fn app_name(text: String) -> Result<AppName, OutboxError> {
    AppName::new(text).map_err(|error| doing("read an app's name")(sqlx::Error::Decode(Box::new(error))))
}

fn count(stored: i64) -> u32 {
    u32::try_from(stored).unwrap_or(u32::MAX)
}
