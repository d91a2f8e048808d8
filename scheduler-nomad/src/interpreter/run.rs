//! `run`: a job of its own, under a name that follows from the caller's key.

use scheduler_core::{
    CheckedWorkload, Error, Kind, KindName, Periodic, Result, Run, RunId, RunStarted, RunWhat, Target,
};
use scheduler_nomad_client::model::{Job, Submission};
use scheduler_nomad_client::{Condition, Query, Register};

use super::NomadScheduler;
use super::live::{Live, absent, deleting, foreign};
use crate::error::{lost_a_race, translate};
use crate::render::{RenderContext, moved};
use crate::{meta, observe, source};

pub(super) async fn run(scheduler: &NomadScheduler, op: &Run) -> Result<RunStarted> {
    if matches!(&op.what, RunWhat::OneOff(workload) if workload.kind.name() != KindName::Job) {
        return Err(Error::invalid_argument("only a job can be run once"));
    }
    scheduler.capabilities.require(&op.features())?;
    let id = op.id();
    let (job, source, configs) = match &op.what {
        RunWhat::OneOff(workload) => one_off(scheduler, workload, &id).await?,
        RunWhat::Now(periodic) => now(scheduler, periodic, &id).await?,
        _ => return Err(Error::invalid_argument("this kind of run is newer than this version of the Nomad backend")),
    };
    if configs {
        scheduler.copy_configs(op.base(), id.target()).await?;
    }
    begin(scheduler, &id, job, source.as_ref()).await
}

/// The job of a workload under the run's name. Its configurations are those of the workload.
async fn one_off(
    scheduler: &NomadScheduler,
    workload: &CheckedWorkload,
    id: &RunId,
) -> Result<(Job, Option<Submission>, bool)> {
    let mut renamed = workload.clone().into_inner();
    renamed.name = id.target().name.to_string();
    let renamed = CheckedWorkload::try_from(renamed)?;
    let context = scheduler.with_configs(RenderContext::new(0), workload).await?;
    let job = scheduler.render(&renamed, &context)?.job;
    let configs = has_templates(&job);
    Ok((job, Some(source::of(&renamed)?), configs))
}

/// The job of a periodic workload as it is, without its schedule.
async fn now(scheduler: &NomadScheduler, periodic: &Target, id: &RunId) -> Result<(Job, Option<Submission>, bool)> {
    let parent = match scheduler.read(periodic).await? {
        Live::Present(job) | Live::Deleting(job) if !scheduler.is_ours(&job) => {
            return Err(foreign(meta::owner_of(&job.meta), "the periodic job"));
        }
        Live::Present(job) => job,
        Live::Deleting(_) => return Err(deleting()),
        Live::Absent | Live::Gone(_) => return Err(absent()),
    };
    if observe::kind_of(&parent) != KindName::Periodic {
        return Err(Error::invalid_argument("it is no periodic workload, which alone can be run now"));
    }
    let (namespace, name) = (periodic.namespace.as_str(), periodic.name.as_str());
    let submission = scheduler.query(&Query::submission(namespace, name, parent.version)).await?;
    let source = submission.and_then(|submission| source::read(&submission, periodic));
    let run = id.target().name.as_str();
    let mut job = as_run(&parent, run);
    job.meta.insert(meta::RUN_OF.to_owned(), name.to_owned());
    let source = source.and_then(|workload| {
        let mut workload = workload.into_inner();
        let Kind::Periodic(Periodic { job, .. }) = workload.kind else { return None };
        workload.kind = Kind::Job(job);
        workload.name = run.to_owned();
        source::of(&CheckedWorkload::try_from(workload).ok()?).ok()
    });
    let configs = has_templates(&job);
    Ok((job, source, configs))
}

/// The same job once, under another name: what bears the parent's name bears the run's.
pub(crate) fn as_run(parent: &Job, run: &str) -> Job {
    let mut job = parent.clone();
    (job.id, job.name) = (run.to_owned(), run.to_owned());
    job.periodic = None;
    job.stop = false;
    (job.version, job.create_index, job.modify_index, job.job_modify_index) = (0, 0, 0, 0);
    (job.stable, job.version_tag, job.status) = (false, None, Default::default());
    job.submit_time = Default::default();
    job.extra.remove("UI");
    job.meta.remove(meta::BORN);
    for group in &mut job.task_groups {
        if group.name == parent.id {
            group.name = run.to_owned();
        }
        for service in &mut group.services {
            if let Some(port) = service.name.strip_prefix(&format!("{}--", parent.id)) {
                service.name = format!("{run}--{port}");
            }
        }
        for template in group.tasks.iter_mut().flat_map(|task| &mut task.templates) {
            template.embedded_tmpl = moved(&template.embedded_tmpl, &parent.id, run);
        }
    }
    job
}

fn has_templates(job: &Job) -> bool {
    job.task_groups.iter().flat_map(|group| &group.tasks).any(|task| !task.templates.is_empty())
}

/// Registers the run if there is none of its name.
async fn begin(
    scheduler: &NomadScheduler,
    id: &RunId,
    mut job: Job,
    source: Option<&Submission>,
) -> Result<RunStarted> {
    let mut condition = Condition::Absent;
    loop {
        let mut register = Register::new(&job, condition);
        if let Some(source) = source {
            register = register.submission(source);
        }
        let error = match scheduler.client.register(register).await {
            Ok(registered) => {
                let mut started = RunStarted::new(id.clone(), true);
                started.warnings.extend(Some(registered.warnings).filter(|words| !words.is_empty()));
                return Ok(started);
            }
            Err(error) if lost_a_race(&error) => error,
            Err(error) => return Err(translate(&error)),
        };
        match scheduler.read(id.target()).await? {
            Live::Present(live) if scheduler.is_ours(&live) => return Ok(RunStarted::new(id.clone(), false)),
            // One that was deleted, and that the server still keeps: nobody else can be faster twice.
            Live::Gone(gone) if condition == Condition::Absent => {
                condition = Condition::Unchanged { job_modify_index: gone.job_modify_index };
                job.meta.insert(meta::BORN.to_owned(), gone.job_modify_index.to_string());
            }
            Live::Present(live) | Live::Deleting(live) if !scheduler.is_ours(&live) => {
                return Err(foreign(meta::owner_of(&live.meta), "the run's name"));
            }
            Live::Deleting(_) => return Err(deleting()),
            _ => return Err(translate(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use scheduler_core::{ConfigEntry, Container, EnvValue, OwnerId, Workload};

    use super::*;
    use crate::{Driver, render};

    /// So that the run is what its own source says, and reads its own variable.
    #[test]
    fn a_run_of_a_schedule_is_what_the_job_alone_renders_to() {
        let container = Container::new("main", "tick:1").port("http", 80);
        let container = container.env_from("A", EnvValue::Config(ConfigEntry::new("app", "0", "A")));
        let tick = Workload::periodic("shop", "tick", "0 3 * * *").container(container).check().unwrap();
        let owner = OwnerId::new("platform").unwrap();
        let parent = render(&tick, &owner, &RenderContext::new(0)).unwrap().job;
        let run = as_run(&parent, "tick-run-0");
        let mut alone = tick.clone().into_inner();
        alone.kind = Kind::Job(Default::default());
        alone.name = "tick-run-0".to_owned();
        let alone = alone.check().unwrap();
        assert_eq!(run, render(&alone, &owner, &RenderContext::new(0)).unwrap().job);
        assert!(observe::is_rendered_from(&run, &alone, &Driver::Docker));
    }
}
