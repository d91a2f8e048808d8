//! The platform's own hooks.

use async_trait::async_trait;
use lifecycle_hooks::generic::Reconciler;
use scheduler_core::Support;
use scheduler_core::hooks::{App, DeployEnd, Drift, Event, HookError, HookName, LifecycleHooks, Outcome};
use serde_json::{Value, json};
use sqlx::SqlitePool;

use crate::live::Notices;
use crate::model;

/// The name of the event that asks for an app to be compared with its model.
///
/// It goes through the outbox as all events do, so that it is never told beside a deploy of the same app.
pub const RECONCILE: &str = "reconcile";

/// Writes down in the models what came of them.
#[derive(Debug)]
pub struct Ledger {
    pub pool: SqlitePool,
    pub notices: Notices,
}

#[async_trait]
impl LifecycleHooks for Ledger {
    fn name(&self) -> &str {
        "ledger"
    }

    fn supports(&self, hook: HookName) -> Support {
        match hook {
            HookName::OnDeployEnd | HookName::OnAppGone | HookName::OnDrift => Support::Yes,
            _ => Support::No("it was written down before it was told".into()),
        }
    }

    /// A release that failed is not the app's release any more: what runs is the last one that did not.
    async fn on_deploy_end(&self, app: &App, end: &DeployEnd) -> Result<Outcome, HookError> {
        let mut conn = self.pool.acquire().await.map_err(trouble)?;
        let changed = model::end_release(&mut conn, &app.name, end).await.map_err(trouble)?;
        self.notices.changed(&app.name);
        Ok(Outcome::of(changed))
    }

    async fn on_app_gone(&self, app: &App) -> Result<Outcome, HookError> {
        let mut conn = self.pool.acquire().await.map_err(trouble)?;
        let changed = model::forget(&mut conn, &app.name).await.map_err(trouble)?;
        self.notices.changed(&app.name);
        Ok(Outcome::of(changed))
    }

    async fn on_drift(&self, app: &App, drift: &Drift) -> Result<Outcome, HookError> {
        let Drift { target, kind, fields, .. } = drift;
        let data = json!({ "app": app.name, "target": target, "kind": kind, "fields": fields });
        self.notices.happened(&app.name, "drift", data);
        Ok(Outcome::Applied)
    }
}

/// The database may answer the next time.
fn trouble(error: sqlx::Error) -> HookError {
    HookError::transient(format!("database: {error}"))
}

/// Makes an app be as its model has it, when its turn has come.
#[derive(Debug)]
pub struct Keeper(pub Reconciler);

#[async_trait]
impl LifecycleHooks for Keeper {
    fn name(&self) -> &str {
        "keeper"
    }

    fn supports(&self, hook: HookName) -> Support {
        match hook {
            HookName::Other => Support::Yes,
            _ => Support::No("it keeps what others made".into()),
        }
    }

    /// What it could not do it does the next time: it must not hold up the events behind it.
    async fn other(&self, event: &Event, name: &str, _: &Value) -> Result<Outcome, HookError> {
        if name != RECONCILE {
            return Ok(Outcome::NotSupported { reason: format!("nobody knows {name}") });
        }
        let report = self.0.run([App::clone(&event.app)]).await;
        for error in report.apps.iter().flat_map(|app| &app.errors).chain(&report.errors) {
            eprintln!("{}: reconciliation: {error}", event.app.name);
        }
        Ok(Outcome::of(!report.is_in_sync()))
    }
}
