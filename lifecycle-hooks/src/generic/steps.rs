//! What hooks and reconciliation do with a scheduler, step by step.

use std::collections::BTreeSet;

use scheduler_core::hooks::{App, HookError, Outcome, Release};
use scheduler_core::{
    CheckedWorkload, ConfigRef, Conflict, Delete, DeleteNamespace, Deleted, ErrorKind, Expose, Feature, Filter, List,
    NameError, NamespaceDeleted, Observation, Route, Target, Unexpose, Unexposed, Workload,
};

use super::SchedulerHooks;
use super::decide::{current, routes, runs_on, with_ports};
use super::reconcile::Pacer;
use crate::desired::{self, CONFIG_NAME};

impl SchedulerHooks {
    /// The workloads of an app that are there. One list.
    pub(super) async fn seen(&self, app: &App) -> Result<Vec<Observation>, HookError> {
        let mut filter = Filter::marks(app.marks());
        filter.namespace = Some(app.namespace.clone());
        Ok(self.scheduler.list(List::new(filter)).await?.workloads)
    }

    /// Where the processes of a release are to be.
    pub(super) fn targets(&self, app: &App, release: &Release) -> Result<Vec<Target>, HookError> {
        let target = |process: &Workload| self.naming.target(app, release, process).map_err(|e| no_name(app, &e));
        release.processes.iter().map(target).collect()
    }

    /// Stores a configuration for one workload, and tells which it is, and whether it had to be stored.
    pub(super) async fn store_config(
        &self,
        app: &App,
        config: &std::collections::BTreeMap<String, scheduler_core::hooks::SecretRef>,
        targets: &[Target],
        pacer: &Pacer,
    ) -> Result<(Option<ConfigRef>, bool), HookError> {
        if config.is_empty() {
            return Ok((None, false));
        }
        let Some(secrets) = &self.secrets else {
            return Err(HookError::permanent(format!(
                "{} has a configuration, and no source of secrets was given to read it from",
                app.name
            )));
        };
        let values = desired::read_config(&**secrets, config).await.map_err(|error| error.context(&app.name))?;
        let (mut stored, mut created) = (None, false);
        for target in targets {
            let Some(op) = desired::config_of(target.clone(), &values) else { continue };
            stored = Some(ConfigRef::new(CONFIG_NAME, op.version()));
            let mut turn = pacer.turn().await;
            let answer = self.scheduler.put_config(op).await?;
            turn.wrote(answer.created);
            created |= answer.created;
        }
        Ok((stored, created))
    }

    /// Makes all routes of an app lead to its front process, and to no other.
    ///
    /// Before the process runs there is nothing to lead to: whoever launches it exposes it.
    pub(super) async fn route(&self, app: &App, seen: &[Observation], pacer: &Pacer) -> Result<Outcome, HookError> {
        let Some(release) = &app.release else { return Ok(Outcome::AlreadyInState) };
        let now = |process: &str| {
            let workload = release.processes.iter().find(|workload| workload.name == process);
            let wanted = workload.and_then(|workload| self.naming.target(app, release, workload).ok());
            current(process, wanted.as_ref(), seen).map(|seen| seen.target.clone())
        };
        let routes = routes(app);
        let front = app.front.as_ref().filter(|_| !routes.is_empty());
        let mut changed = false;
        let to = front.and_then(|front| now(front.process.as_str()));
        if let Some(to) = &to {
            changed |= self.expose(to, routes, seen, pacer).await?;
        } else if front.is_some() {
            return Ok(Outcome::AlreadyInState);
        }
        let others = with_ports(release).filter_map(|process| now(&process.name)).collect::<BTreeSet<_>>();
        for other in others.iter().filter(|other| to.as_ref() != Some(other)) {
            let mut turn = pacer.turn().await;
            let gone = self.scheduler.unexpose(Unexpose::new(other.clone())).await? == Unexposed::Gone;
            turn.wrote(gone);
            changed |= gone;
        }
        Ok(Outcome::of(changed))
    }

    /// Exposes a workload; what another workload of the app has, it takes over.
    async fn expose(
        &self,
        to: &Target,
        routes: Vec<Route>,
        seen: &[Observation],
        pacer: &Pacer,
    ) -> Result<bool, HookError> {
        let op = Expose::new(to.clone(), routes);
        // Each of the others may have some of them; the error does not say which one does in a form that could be used.
        let mut others = seen.iter().filter(|seen| runs_on(seen) && seen.target != *to);
        let mut attempt = op.clone();
        loop {
            let mut turn = pacer.turn().await;
            let error = match self.scheduler.expose(attempt).await {
                Ok(exposed) => {
                    let changed = exposed.changed || !exposed.taken.is_empty();
                    turn.wrote(changed);
                    return Ok(changed);
                }
                Err(error) => error,
            };
            let is_taken = matches!(error.kind(), ErrorKind::Conflict(Conflict::RouteTaken { .. }));
            let Some(other) = others.next().filter(|_| is_taken) else { return Err(error.into()) };
            attempt = op.clone().taking_from(other.target.clone());
        }
    }

    /// Takes an app away, one step further at each call.
    pub(super) async fn tear_down(&self, app: &App) -> Result<Outcome, HookError> {
        let seen: BTreeSet<_> = self.seen(app).await?.into_iter().map(|seen| seen.target).collect();
        // What was never launched may have configurations all the same.
        let planned = app.release.as_ref().map(|release| self.targets(app, release)).transpose()?.unwrap_or_default();
        let (mut changed, mut left) = (false, Vec::new());
        for target in seen.iter().chain(planned.iter().filter(|target| !seen.contains(target))) {
            match self.scheduler.delete(Delete::new(target.clone())).await {
                Ok(Deleted::Gone) => changed = true,
                Ok(Deleted::Deleting { .. }) => left.push(target.to_string()),
                Ok(_) => {}
                // Somebody else's, of the same name.
                Err(error) if !seen.contains(target) && is_foreign(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if !left.is_empty() {
            return Ok(waiting(&left.join(", ")));
        }
        if !self.scheduler.capabilities().has(Feature::Namespaces) {
            return Ok(Outcome::of(changed));
        }
        match self.scheduler.delete_namespace(DeleteNamespace::new(app.namespace.clone())).await {
            Ok(NamespaceDeleted::Gone) => Ok(Outcome::Applied),
            Ok(NamespaceDeleted::Deleting { .. }) => Ok(waiting(&format!("the namespace {}", app.namespace))),
            Ok(_) => Ok(Outcome::of(changed)),
            // It was there before the app, and stays.
            Err(error) if is_foreign(&error) => Ok(Outcome::of(changed)),
            Err(error) => {
                // A deploy may have launched something meanwhile, which the next telling deletes.
                let retry = *error.kind() == ErrorKind::Precondition;
                let mut error = HookError::from(error);
                error.retry |= retry;
                Err(error)
            }
        }
    }
}

/// How long until something that is ending is looked at again.
const LOOK: std::time::Duration = std::time::Duration::from_secs(2);

pub(super) fn waiting(what: &str) -> Outcome {
    Outcome::Deferred { after: LOOK, reason: format!("still ending: {what}") }
}

/// Whether it failed since something belongs to somebody else.
pub(super) fn is_foreign(error: &scheduler_core::Error) -> bool {
    matches!(error.kind(), ErrorKind::Conflict(Conflict::Owner { .. }))
}

fn no_name(app: &App, error: &NameError) -> HookError {
    HookError::permanent(format!("{}: {error}", app.name))
}

/// Checks a workload of an app.
pub(super) fn check(app: &App, workload: Workload) -> Result<CheckedWorkload, HookError> {
    workload.check().map_err(|faults| HookError::from(scheduler_core::Error::from(faults)).context(&app.name))
}
