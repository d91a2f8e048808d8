//! `launch`: by reading, decide; write what differs.

use scheduler_core::{
    BackendName, Change, CheckedWorkload, Conflict, Effect, Error, ErrorKind, Guard, Kind, Launch, Launched,
    ObjectAction, ObjectChange, Result,
};
use scheduler_nomad_client::model::{DiffType, Job, Planned, Submission};
use scheduler_nomad_client::{Condition, Query, Register};
use serde_json::{Value, json};

use super::{Live, NomadScheduler, check_guard, moved};
use crate::error::{lost_a_race, translate};
use crate::{compare, meta, observe, source};

pub(super) async fn launch(scheduler: &NomadScheduler, op: &Launch) -> Result<Launched> {
    scheduler.capabilities.require(&op.features())?;
    let workload = &*op.workload;
    // Refuses what cannot be a job before anything is sent.
    let source = source::of(workload)?;
    scheduler.render(workload, 0)?;
    let launcher = Launcher { scheduler, op, source };
    let live = scheduler.read(workload.target()).await?;
    launcher.check(&live)?;
    match live {
        Live::Absent => launcher.create(None).await,
        Live::Gone(job) => launcher.create(Some(&job)).await,
        Live::Present(job) | Live::Deleting(job) => launcher.update(&job).await,
    }
}

struct Launcher<'a> {
    scheduler: &'a NomadScheduler,
    op: &'a Launch,
    source: Submission,
}

impl Launcher<'_> {
    fn check(&self, live: &Live) -> Result<()> {
        if matches!(live, Live::Deleting(_)) && self.op.guard != Guard::IfAbsent {
            return Err(Error::new(ErrorKind::Conflict(Conflict::Deleting), "the job of this name"));
        }
        check_guard(&self.op.guard, live, &self.scheduler.owner)
    }

    /// Registers a job where there is none, or over one that has ended.
    async fn create(&self, gone: Option<&Job>) -> Result<Launched> {
        let workload = &*self.op.workload;
        let mut rendered = self.scheduler.render(workload, replicas(workload, None))?;
        if let Some(gone) = gone {
            rendered.job.meta.insert(meta::BORN.to_owned(), gone.job_modify_index.to_string());
        }
        let (version, warnings) = self.register(rendered.job, gone).await?;
        let mut launched = Launched::new(Change::Created, workload.revision().clone(), version);
        launched.objects.push(ObjectChange::new("Job", workload.target().name.as_str(), ObjectAction::Created));
        launched.warnings = self.warnings(rendered.warnings);
        launched.warnings.extend(warnings);
        Ok(launched)
    }

    /// Makes a job that is there be as rendered.
    async fn update(&self, live: &Job) -> Result<Launched> {
        let (scheduler, workload) = (self.scheduler, &*self.op.workload);
        let target = workload.target();
        let submission = Query::submission(target.namespace.as_str(), target.name.as_str(), live.version);
        let before = scheduler.query(&submission).await?.and_then(|submission| source::read(&submission, target));
        let mut rendered = scheduler.render(workload, replicas(workload, Some(live)))?;
        if let Some(born) = live.meta.get(meta::BORN) {
            rendered.job.meta.insert(meta::BORN.to_owned(), born.clone());
        }
        let ours = scheduler.is_ours(live);
        let same = ours && before.as_ref().is_some_and(|before| before.revision() == workload.revision());
        let mut launched = Launched::new(Change::Unchanged, workload.revision().clone(), observe::version(live));
        let mut action = ObjectAction::Unchanged;
        launched.warnings = self.warnings(rendered.warnings);
        if !same || !compare::drift(&rendered.job, live).is_empty() {
            // As the server sees it, nothing may differ: it has its own ways to write some fields.
            let mut planned = rendered.job.clone();
            planned.extra.extend(live.extra.get("UI").map(|ui| ("UI".to_owned(), ui.clone())));
            let plan = scheduler.client.plan(&planned, true).await.map_err(|error| translate(&error))?;
            if !same || plan.diff.as_ref().is_none_or(|diff| diff.r#type != DiffType::None) {
                let last = before.and_then(|before| scheduler.render(&before, replicas(workload, Some(live))).ok());
                let dropped = compare::dropped(&rendered.job, last.as_ref().map(|last| &last.job), live);
                let (version, warnings) = self.register(rendered.job, Some(live)).await?;
                launched.version = version;
                launched.change = Change::Updated(effect(&plan, target.name.as_str()));
                launched
                    .warnings
                    .extend(dropped.iter().map(|entry| format!("dropped {entry}, which somebody else set")));
                launched.warnings.extend(warnings);
                action = ObjectAction::Updated;
            }
        }
        launched.objects.push(ObjectChange::new("Job", target.name.as_str(), action));
        launched.adopted_from = (!ours).then(|| meta::owner_of(&live.meta));
        Ok(launched)
    }

    /// Registers a job in the place of this one, if it is still as it was read.
    async fn register(&self, mut job: Job, live: Option<&Job>) -> Result<(scheduler_core::Version, Vec<String>)> {
        let index = live.map_or(0, |live| live.job_modify_index);
        let revision = self.op.workload.revision();
        let mut ui =
            live.and_then(|live| live.extra.get("UI")).filter(|ui| ui.is_object()).cloned().unwrap_or(json!({}));
        ui["Description"] = Value::from(format!("Launched as {revision} over index {index}"));
        job.extra.insert("UI".to_owned(), ui);
        let condition = match live {
            None => Condition::Absent,
            Some(live) => Condition::Unchanged { job_modify_index: live.job_modify_index },
        };
        let registered = self.scheduler.client.register(Register::new(&job, condition).submission(&self.source)).await;
        match registered {
            // The job is never what it was, so that the index is that of a new version.
            Ok(registered) => {
                let created = live.map_or(registered.job_modify_index, |live| live.create_index);
                let warnings = Some(registered.warnings).filter(|warnings| !warnings.is_empty());
                Ok((observe::version_of(created, registered.job_modify_index), warnings.into_iter().collect()))
            }
            Err(error) if lost_a_race(&error) => {
                let now = self.scheduler.read(self.op.workload.target()).await?;
                self.check(&now)?;
                Err(match &now {
                    Live::Present(job) => moved(job, error.message().unwrap_or_default()),
                    _ => translate(&error),
                })
            }
            Err(error) => Err(translate(&error)),
        }
    }

    fn warnings(&self, rendered: Vec<String>) -> Vec<String> {
        let backend = BackendName::nomad();
        let others = self.op.workload.extensions_for_others(&backend);
        let others = others.map(|name| format!("extensions.{name} means nothing on {backend} and was left out"));
        others.chain(rendered).collect()
    }
}

/// How many instances, given the live job.
fn replicas(workload: &CheckedWorkload, live: Option<&Job>) -> u32 {
    let group = live.and_then(|live| {
        let own = live.task_groups.iter().find(|group| group.name == workload.target().name.as_str());
        own.or(live.task_groups.first())
    });
    match &workload.kind {
        Kind::Service(service) => service.replicas.resolve(group.map(|group| group.count.unwrap_or(1))),
        // Rendering refuses it.
        _ => 0,
    }
}

/// What a plan says of the instances. That some are placed or end is no replacement, unless it is another group that ends.
fn effect(plan: &Planned, own: &str) -> Effect {
    let groups = plan.annotations.iter().flat_map(|annotations| &annotations.desired_tg_updates);
    let replaces = |(name, updates): (&String, &scheduler_nomad_client::model::DesiredUpdates)| {
        updates.destructive_update > 0 || updates.canary > 0 || (updates.stop > 0 && name != own)
    };
    if groups.into_iter().any(replaces) { Effect::Rolling } else { Effect::InPlace }
}
