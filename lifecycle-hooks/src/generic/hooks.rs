//! The hooks.

use std::collections::BTreeMap;

use async_trait::async_trait;
use scheduler_core::hooks::{App, Domain, Event, HookError, HookName, LifecycleHooks, OneOff, Outcome, Validation};
use scheduler_core::{
    EnsureNamespace, Fault, KindName, NamespaceEnsured, Rollout, RolloutAction, Run, RunId, Scale, Support,
    WorkloadName,
};

use super::decide::{count_of, current, domain_faults, formation_faults, release_faults};
use super::reconcile::Pacer;
use super::steps::{check, is_foreign, waiting};
use super::{Deploys, SchedulerHooks};
use crate::desired::{self, Naming};
use crate::pipeline::{Deploy, DeployId, PipelineError};

fn judged(faults: Vec<Fault>) -> Result<Validation, HookError> {
    Ok(if faults.is_empty() { Validation::Accepted } else { Validation::Vetoed(faults) })
}

impl SchedulerHooks {
    fn declined(&self, hook: HookName) -> Option<Outcome> {
        match self.support(hook) {
            Support::Yes => None,
            Support::No(reason) => Some(Outcome::NotSupported { reason }),
        }
    }

    async fn write_routes(&self, event: &Event) -> Result<Outcome, HookError> {
        if let Some(declined) = self.declined(event.hook()) {
            return Ok(declined);
        }
        if event.app.release.is_none() {
            return Ok(Outcome::AlreadyInState);
        }
        let seen = self.seen(&event.app).await?;
        self.route(&event.app, &seen, &Pacer::none()).await
    }
}

#[async_trait]
impl LifecycleHooks for SchedulerHooks {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn supports(&self, hook: HookName) -> Support {
        self.support(hook)
    }

    async fn post_app_create(&self, event: &Event) -> Result<Outcome, HookError> {
        if let Some(declined) = self.declined(event.hook()) {
            return Ok(declined);
        }
        let ensured = self.scheduler.ensure_namespace(EnsureNamespace::new(event.app.namespace.clone())).await?;
        Ok(Outcome::of(ensured == NamespaceEnsured::Created))
    }

    async fn post_app_destroy(&self, event: &Event) -> Result<Outcome, HookError> {
        if let Some(declined) = self.declined(event.hook()) {
            return Ok(declined);
        }
        if let Some(deploys) = &self.deploys
            && !deploys.deployer.close(&event.app.name).await.map_err(PipelineError::from)?
        {
            return Ok(waiting("its deploy"));
        }
        self.tear_down(&event.app).await
    }

    async fn post_release_create(&self, event: &Event) -> Result<Outcome, HookError> {
        let Some(Deploys { deployer, pipeline, options }) = &self.deploys else {
            return Ok(self.declined(event.hook()).unwrap_or(Outcome::AlreadyInState));
        };
        let id = DeployId::new(event.id.as_str()).map_err(|error| HookError::permanent(error.to_string()))?;
        let known = deployer.store().load(&id).await.map_err(PipelineError::from)?;
        if known.is_some_and(|(record, _)| record.state.is_over()) {
            return Ok(Outcome::AlreadyInState);
        }
        let deploy = Deploy::new(id, App::clone(&event.app), *pipeline).options(options.clone());
        // What became of it is told by `on_deploy_end`.
        deployer.deploy(deploy).await?;
        Ok(Outcome::Applied)
    }

    async fn validate_release_create(&self, app: &App) -> Result<Validation, HookError> {
        judged(release_faults(app, self.naming, self.scheduler.capabilities()))
    }

    async fn post_config_change(&self, event: &Event) -> Result<Outcome, HookError> {
        if let Some(declined) = self.declined(event.hook()) {
            return Ok(declined);
        }
        let app = &event.app;
        // A stack's configuration is stored with it, when it is launched.
        let Some(release) = app.release.as_ref().filter(|_| self.naming == Naming::Process) else {
            return Ok(Outcome::AlreadyInState);
        };
        let targets = self.targets(app, release)?;
        let (_, created) = self.store_config(app, &app.config, &targets, &Pacer::none()).await?;
        Ok(Outcome::of(created))
    }

    async fn validate_formation_change(&self, app: &App) -> Result<Validation, HookError> {
        judged(formation_faults(app))
    }

    async fn post_formation_change(
        &self,
        event: &Event,
        _from: &BTreeMap<WorkloadName, u32>,
    ) -> Result<Outcome, HookError> {
        if let Some(declined) = self.declined(event.hook()) {
            return Ok(declined);
        }
        let app = &event.app;
        let Some(release) = &app.release else { return Ok(Outcome::AlreadyInState) };
        let seen = self.seen(app).await?;
        let (mut changed, mut held) = (false, None);
        for process in &release.processes {
            let target = self.naming.target(app, release, process).ok();
            // What is not there yet is launched with its number.
            let Some(now) = current(&process.name, target.as_ref(), &seen) else { continue };
            let wanted = desired::process(app, release, process, &now.target, None);
            let Some((count, true)) = count_of(&wanted) else { continue };
            if now.counts.desired == count {
                continue;
            }
            match self.scheduler.scale(Scale::new(now.target.clone(), count)).await {
                Ok(scaled) => changed |= scaled.from != scaled.to,
                // It is ours, so that it is its number that is somebody else's: an autoscaler's.
                Err(error) if is_foreign(&error) => held = Some(error.to_string()),
                Err(error) => return Err(error.into()),
            }
        }
        match held {
            Some(reason) if !changed => Ok(Outcome::NotSupported { reason }),
            _ => Ok(Outcome::of(changed)),
        }
    }

    async fn post_restart_request<'a>(
        &self,
        event: &Event,
        process: Option<&'a WorkloadName>,
    ) -> Result<Outcome, HookError> {
        if let Some(declined) = self.declined(event.hook()) {
            return Ok(declined);
        }
        let app = &event.app;
        let Some(release) = &app.release else { return Ok(Outcome::AlreadyInState) };
        let seen = self.seen(app).await?;
        let mut changed = false;
        for of in release.processes.iter().filter(|of| process.is_none_or(|wanted| wanted.as_str() == of.name)) {
            let target = self.naming.target(app, release, of).ok();
            let Some(now) = current(&of.name, target.as_ref(), &seen) else { continue };
            // A periodic job has nothing that runs on.
            if matches!(now.kind, KindName::Service | KindName::System) {
                let steered = self.scheduler.rollout(Rollout::new(now.target.clone(), RolloutAction::Restart)).await?;
                changed |= steered.changed;
            }
        }
        Ok(Outcome::of(changed))
    }

    async fn post_run_request(&self, event: &Event, run: &OneOff) -> Result<Outcome, HookError> {
        if let Some(declined) = self.declined(event.hook()) {
            return Ok(declined);
        }
        let (app, release) = (&*event.app, event.app.release.as_ref());
        let base = check(app, desired::job(app, release, &run.job, None))?;
        // Its containers refer to a configuration of the run, which has a name of its own.
        let id = RunId::of(base.target(), &run.key);
        let config = release.map(|release| &release.config).filter(|config| !config.is_empty());
        let config = match config {
            Some(config) => self.store_config(app, config, &[id.target().clone()], &Pacer::none()).await?.0,
            None => None,
        };
        let job = check(app, desired::job(app, release, &run.job, config.as_ref()))?;
        let started = self.scheduler.run(Run::one_off(job, run.key.clone())).await?;
        Ok(Outcome::of(started.created))
    }

    async fn validate_domain_add(&self, app: &App, domain: &Domain) -> Result<Validation, HookError> {
        judged(domain_faults(app, domain, self.scheduler.capabilities()))
    }

    async fn post_front_change(&self, event: &Event) -> Result<Outcome, HookError> {
        self.write_routes(event).await
    }

    async fn post_domain_add(&self, event: &Event, _domain: &Domain) -> Result<Outcome, HookError> {
        self.write_routes(event).await
    }

    async fn post_domain_remove(&self, event: &Event, _domain: &Domain) -> Result<Outcome, HookError> {
        self.write_routes(event).await
    }

    async fn reconcile_app(&self, app: &App) -> Result<Outcome, HookError> {
        self.bring(app, &Pacer::none()).await.outcome()
    }
}
