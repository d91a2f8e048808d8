//! Making one app be as its model has it.

use scheduler_core::hooks::{App, AppName, Drift, DriftKind, HookError, Outcome, Release};
use scheduler_core::{
    Change, CheckedWorkload, Delete, Effect, EnsureNamespace, Error, ErrorKind, Feature, FieldAction, FieldChange,
    Guard, Launch, NamespaceEnsured, Observation, Plan, Scale, Target,
};
use serde::{Deserialize, Serialize};

use super::SchedulerHooks;
use super::decide::{count_of, keeping_count, runs_on};
use super::reconcile::Pacer;
use super::steps::{check, is_foreign};
use crate::deliver::Told;
use crate::desired;

/// What a reconciliation found of one app, and did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AppReport {
    /// The app.
    pub app: AppName,
    /// How its workloads differed from the model. Each was repaired, unless an error says otherwise.
    pub drifts: Vec<Drift>,
    /// Numbers of instances that something other than the model holds. They were left.
    pub held: Vec<Held>,
    /// Workloads that the model does not have, and that are too young to be taken for surplus.
    pub spared: Vec<Target>,
    /// Whether anything was written.
    pub changed: bool,
    /// What could not be done. The rest was done nevertheless.
    pub errors: Vec<HookError>,
    /// What other hook sets answered to [`reconcile_app`](scheduler_core::hooks::LifecycleHooks::reconcile_app).
    pub others: Told,
    /// What hook sets answered to the reports of what was found.
    pub reports: Vec<Told>,
}

/// A number of instances that something other than the model holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Held {
    /// The workload.
    pub target: Target,
    /// What the model has.
    pub from: u32,
    /// What is wanted now.
    pub to: u32,
}

impl AppReport {
    pub(super) fn new(app: &App) -> Self {
        Self {
            app: app.name.clone(),
            drifts: Vec::new(),
            held: Vec::new(),
            spared: Vec::new(),
            changed: false,
            errors: Vec::new(),
            others: Told::default(),
            reports: Vec::new(),
        }
    }

    /// What it comes to: its first error, or whether anything was changed.
    ///
    /// # Errors
    /// Its first one.
    pub fn outcome(&self) -> Result<Outcome, HookError> {
        match self.errors.first() {
            Some(error) => Err(error.clone()),
            None => Ok(Outcome::of(self.changed)),
        }
    }

    fn failed(&mut self, error: impl Into<HookError>) {
        self.errors.push(error.into());
    }
}

impl SchedulerHooks {
    /// Looks first, and repairs what differs. Nothing that fails holds up what does not depend on it.
    pub(super) async fn bring(&self, app: &App, pacer: &Pacer) -> AppReport {
        let mut report = AppReport::new(app);
        if let Err(error) = self.bring_all(app, pacer, &mut report).await {
            report.failed(error);
        }
        report
    }

    async fn bring_all(&self, app: &App, pacer: &Pacer, report: &mut AppReport) -> Result<(), HookError> {
        // An app without a release that is nowhere has nothing that would need a namespace yet, but it is cheap and the rest
        // of its surroundings does.
        if self.scheduler.capabilities().has(Feature::Namespaces) {
            let mut turn = pacer.turn().await;
            let ensured = self.scheduler.ensure_namespace(EnsureNamespace::new(app.namespace.clone())).await?;
            turn.wrote(ensured == NamespaceEnsured::Created);
            report.changed |= ensured == NamespaceEnsured::Created;
        }
        let seen = self.seen(app).await?;
        let mut wanted = Vec::new();
        if let Some(release) = &app.release {
            wanted = self.targets(app, release)?;
            let launched = self.bring_processes(app, release, &seen, pacer, report).await?;
            self.bring_routes(app, launched, seen.clone(), pacer, report).await;
        }
        self.sweep_surplus(&seen, &wanted, pacer, report).await;
        Ok(())
    }

    /// Whether anything is launched that was not there.
    async fn bring_processes(
        &self,
        app: &App,
        release: &Release,
        seen: &[Observation],
        pacer: &Pacer,
        report: &mut AppReport,
    ) -> Result<bool, HookError> {
        let targets = self.targets(app, release)?;
        let (config, stored) = self.store_config(app, &release.config, &targets, pacer).await?;
        report.changed |= stored;
        let mut launched = false;
        for (process, target) in release.processes.iter().zip(&targets) {
            let workload = desired::process(app, release, process, target, config.as_ref());
            let count = count_of(&workload);
            match self.bring_one(app, keeping_count(workload), pacer, report).await {
                Ok(created) => launched |= created,
                Err(error) => {
                    report.failed(error);
                    continue;
                }
            }
            let now = seen.iter().find(|seen| seen.target == *target);
            if let (Some((count, is_held)), Some(now)) = (count, now)
                && now.counts.desired != count
            {
                self.bring_count(target, count, is_held, now.counts.desired, pacer, report).await;
            }
        }
        Ok(launched)
    }

    /// Whether it had to be created.
    async fn bring_one(
        &self,
        app: &App,
        workload: scheduler_core::Workload,
        pacer: &Pacer,
        report: &mut AppReport,
    ) -> Result<bool, HookError> {
        let workload = check(app, workload)?;
        let target = workload.target().clone();
        let mut fields = Vec::new();
        if self.scheduler.capabilities().has(Feature::Plan) {
            let planned = self.scheduler.plan(Plan::new(workload.clone())).await?;
            if planned.change == Change::Unchanged {
                return Ok(false);
            }
            fields = planned.fields;
            if planned.change == Change::Updated(Effect::Replaced) {
                report.drifts.push(drift(&target, DriftKind::Changed, fields));
                let error = Error::new(ErrorKind::MustReplace, "reconciliation replaces nothing; a deploy does");
                return Err(error.with_target(&target).into());
            }
        }
        let change = self.launch(workload, pacer).await?;
        let kind = match change {
            Change::Unchanged => return Ok(false),
            Change::Created => DriftKind::Missing,
            _ => DriftKind::Changed,
        };
        report.changed = true;
        report.drifts.push(drift(&target, kind, fields));
        Ok(kind == DriftKind::Missing)
    }

    async fn launch(&self, workload: CheckedWorkload, pacer: &Pacer) -> Result<Change, HookError> {
        let mut turn = pacer.turn().await;
        let launched = self.scheduler.launch(Launch::new(workload)).await?;
        turn.wrote(launched.change != Change::Unchanged);
        Ok(launched.change)
    }

    /// A number that the model holds is restored; one that something else holds is left.
    async fn bring_count(
        &self,
        target: &Target,
        count: u32,
        is_held: bool,
        now: u32,
        pacer: &Pacer,
        report: &mut AppReport,
    ) {
        let held = Held { target: target.clone(), from: count, to: now };
        if !is_held || !self.scheduler.capabilities().has(Feature::Scale) {
            report.held.push(held);
            return;
        }
        let mut turn = pacer.turn().await;
        match self.scheduler.scale(Scale::new(target.clone(), count)).await {
            Ok(scaled) => {
                turn.wrote(scaled.from != scaled.to);
                report.changed |= scaled.from != scaled.to;
                let field = FieldChange::new(target.name.as_str(), "replicas", FieldAction::Changed);
                report.drifts.push(drift(target, DriftKind::Changed, vec![field]));
            }
            Err(error) if is_foreign(&error) => report.held.push(held),
            Err(error) => report.failed(error),
        }
    }

    async fn bring_routes(
        &self,
        app: &App,
        launched: bool,
        seen: Vec<Observation>,
        pacer: &Pacer,
        report: &mut AppReport,
    ) {
        if !self.scheduler.capabilities().has(Feature::Expose) {
            return;
        }
        // What was launched just now was not there to be seen.
        let seen = if launched { self.seen(app).await } else { Ok(seen) };
        let routed = match seen {
            Ok(seen) => self.route(app, &seen, pacer).await,
            Err(error) => Err(error),
        };
        match routed {
            Ok(outcome) => report.changed |= outcome == Outcome::Applied,
            Err(error) => report.failed(error),
        }
    }

    /// Deletes what the model does not have, unless it is young.
    async fn sweep_surplus(&self, seen: &[Observation], wanted: &[Target], pacer: &Pacer, report: &mut AppReport) {
        for surplus in seen.iter().filter(|seen| runs_on(seen) && !seen.deleting && !wanted.contains(&seen.target)) {
            if !is_old(surplus, self.spare) {
                report.spared.push(surplus.target.clone());
                continue;
            }
            report.drifts.push(drift(&surplus.target, DriftKind::Surplus, Vec::new()));
            match self.delete(surplus, pacer).await {
                Ok(()) => report.changed = true,
                Err(error) => report.failed(error),
            }
        }
    }

    /// Deletes a workload if it is still as it was seen. It does not wait for its end.
    pub(super) async fn delete(&self, seen: &Observation, pacer: &Pacer) -> Result<(), Error> {
        let mut turn = pacer.turn().await;
        let guard = Guard::IfVersion(seen.version.clone());
        self.scheduler.delete(Delete::new(seen.target.clone()).guard(guard)).await?;
        turn.wrote(true);
        Ok(())
    }
}

/// Whether no launch has changed a workload for so long, by the server's clock. What has no age is not old.
pub(super) fn is_old(seen: &Observation, spare: std::time::Duration) -> bool {
    seen.changed.is_some_and(|changed| seen.at.since(changed) >= spare)
}

fn drift(target: &Target, kind: DriftKind, fields: Vec<FieldChange>) -> Drift {
    let mut drift = Drift::new(target.clone(), kind);
    drift.fields = fields;
    drift
}
