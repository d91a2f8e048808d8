//! A job and what belongs to it as a neutral [`Observation`]. Pure.

mod alloc;
mod diagnose;
mod kind;

use scheduler_core::{
    CheckedWorkload, Diagnosis, DiagnosisKind, Instance, Kind, KindName, Observation, Seconds, Target, Timestamp,
    Version, VolumeSource, WorkloadName,
};
use scheduler_nomad_client::model::{
    Allocation, Deployment, DeploymentGroup, DeploymentStatus, DesiredStatus, EvalStatus, Evaluation, Job, JobStatus,
    JobStub, Nanos, Submission, UnixNanos,
};

pub(crate) use diagnose::placement;
pub(crate) use kind::{index_of, kind_of};

use crate::render::{Driver, RenderContext, keys_of, render};
use crate::{carry, compare, meta, source};

/// How long a change may go without any sign of the scheduler until it counts as noticed all the same: a server collects
/// evaluations, an hour old by default.
const NOTICED_AFTER: Seconds = Seconds::new(60);
/// What Nomad takes for `ProgressDeadline` where nobody says another.
const DEFAULT_DEADLINE: Seconds = Seconds::new(600);

/// What the server says of one job.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NativeObjects<'a> {
    /// The job.
    pub job: &'a Job,
    /// The source of its present version, if it has one.
    pub source: Option<&'a Submission>,
    /// What the source was rendered with, to see whether the job is still what it says.
    pub driver: Driver,
    /// Its allocations, also those that have ended.
    pub allocations: &'a [Allocation],
    /// Its deployments.
    pub deployments: &'a [Deployment],
    /// Its evaluations.
    pub evaluations: &'a [Evaluation],
    /// The runs that its schedule made, of a periodic one.
    pub runs: &'a [PeriodicRun],
}

/// A run that the schedule of a periodic job made: a job of its own on Nomad.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PeriodicRun {
    /// The job.
    pub job: JobStub,
    /// Its allocations, if they were asked for.
    pub allocations: Vec<Allocation>,
}

impl PeriodicRun {
    /// This run, with these allocations.
    #[must_use]
    pub fn new(job: JobStub, allocations: Vec<Allocation>) -> Self {
        Self { job, allocations }
    }

    /// Whether it has not ended: the server calls one that was told to end dead at once.
    fn is_active(&self) -> bool {
        self.job.status != JobStatus::Dead || self.allocations.iter().any(|alloc| !alloc.client_status.is_terminal())
    }
}

impl<'a> NativeObjects<'a> {
    /// A job alone.
    #[must_use]
    pub fn new(job: &'a Job) -> Self {
        Self {
            job,
            source: None,
            driver: Driver::default(),
            allocations: &[],
            deployments: &[],
            evaluations: &[],
            runs: &[],
        }
    }

    /// With this source, launched by a scheduler with this driver.
    #[must_use]
    pub fn source(mut self, source: Option<&'a Submission>, driver: Driver) -> Self {
        (self.source, self.driver) = (source, driver);
        self
    }

    /// With these allocations.
    #[must_use]
    pub fn allocations(mut self, allocations: &'a [Allocation]) -> Self {
        self.allocations = allocations;
        self
    }

    /// With these deployments and evaluations.
    #[must_use]
    pub fn rollout(mut self, deployments: &'a [Deployment], evaluations: &'a [Evaluation]) -> Self {
        self.deployments = deployments;
        self.evaluations = evaluations;
        self
    }

    /// With these runs of its schedule.
    #[must_use]
    pub fn runs(mut self, runs: &'a [PeriodicRun]) -> Self {
        self.runs = runs;
        self
    }
}

/// What these objects say of the workload, at this time of the server's clock; with all details, so that a caller leaves
/// out what is not wanted ([`Observation::trimmed`]). `None` if the job bears no owner's mark, and if it is gone: stopped,
/// with no allocation that has not ended.
///
/// * The revision is that of the workload in the source, if the job is what that renders to. (The server lets a source stand
///   also when somebody else registers the job without one.) Marks and labels are those of the source in any case.
/// * The present version of the job is what was launched last. Allocations of earlier versions are old, but for those that
///   an update in place moved along: their `JobVersion` follows. Deployments of other versions say nothing.
/// * The job's own `Status` says little: it is `dead` while tasks still run. It counts only where nothing else is left.
/// * An allocation has ended when it is complete, failed or lost. One that failed and waits to be placed anew is still
///   shown, with what is wrong with it; so is a canary of a rollout that failed, which is told to end then, and each of a job
///   for as long as the server keeps it.
/// * A job is judged by its allocations, not by its own status. One that was ended from outside, or for want of memory, did
///   not end well, whatever its exit code.
/// * A system is for the nodes that have an instance or lack the room for one.
/// * It was changed last when its present version was registered; a scale and a restart count, too.
/// * Complete means a successful deployment of this version; or `Stable`, which stays when deployments are collected and
///   which a scale carries on; or that no instance is wanted, or the job has no deployments.
/// * Ready means that the tasks run, and where a check is waited for, that the deployment called the allocation healthy.
///   Nomad asks no more after that.
/// * An instance's id is its allocation's. There is none before it is placed: what cannot be placed is a diagnosis of the
///   workload as a whole.
#[must_use]
pub fn observe(objects: &NativeObjects<'_>, at: Timestamp) -> Option<Observation> {
    let job = objects.job;
    let (owner, target) = (meta::owner_of(&job.meta)?, target_of(job)?);
    if is_gone(job, objects.allocations) {
        return None;
    }
    let born = job.meta.get(meta::BORN).map(|index| format!(".{index}")).unwrap_or_default();
    let mut seen = Observation::new(target, owner, format!("{}{born}", job.create_index), version(job), at);
    seen.kind = kind_of(job);
    seen.run_of = job.meta.get(meta::RUN_OF).and_then(|name| WorkloadName::new(name.as_str()).ok());
    seen.changed = moment(job.submit_time);
    let min_ready = describe(&mut seen, objects);
    let deployment = deployment_of(job, objects.deployments);
    let is = |status: &DeploymentStatus| deployment.is_some_and(|deployment| deployment.status == *status);
    seen.deleting = job.stop;
    seen.noticed = noticed(objects, deployment, at);
    seen.paused = is(&DeploymentStatus::Paused);
    let count = job.task_groups.iter().map(|group| group.count.unwrap_or(1)).sum();
    seen.counts.desired = match seen.kind {
        KindName::System => kind::nodes(objects, deployment),
        KindName::Periodic => 0,
        _ => count,
    };
    let rolls_out = matches!(seen.kind, KindName::Service | KindName::System);
    let nothing_wanted = seen.counts.desired == 0;
    if seen.noticed && rolls_out {
        let without = !has_deployments(job) || (seen.kind == KindName::System && deployment.is_none());
        seen.completed = is(&DeploymentStatus::Successful)
            || (!is(&DeploymentStatus::Failed) && (job.stable || nothing_wanted || without));
        seen.gave_up = gave_up(objects, deployment, at).filter(|_| !nothing_wanted);
        seen.awaits_promotion = deployment.is_some_and(|deployment| awaits_promotion(objects, deployment));
    }
    if seen.kind == KindName::Job {
        let outcome = kind::outcome(job, count, of_this_life(objects));
        (seen.finished, seen.counts.succeeded, seen.counts.failed) =
            (outcome.finished.filter(|_| seen.noticed), outcome.succeeded, outcome.failed);
    }
    let view = alloc::View {
        at,
        patience: seen.patience,
        min_ready,
        is_gated: is_gated(job),
        is_rolled_out: deployment.is_none() || is(&DeploymentStatus::Successful),
        has_failed: is(&DeploymentStatus::Failed),
        runs_to_its_end: !rolls_out,
    };
    let mut instances = Vec::new();
    if seen.kind == KindName::Periodic {
        periodic(&mut seen, objects.runs, &mut instances, &view, job);
        return Some(seen.with_instances(instances));
    }
    let mut lively = 0;
    for alloc in of_this_life(objects) {
        let current = seen.kind == KindName::Job || is_current(job, alloc);
        let Some(mut instance) = alloc::instance(alloc, current, &view) else { continue };
        instance.exit = kind::exit(job, alloc);
        instance.ordinal = index_of(alloc).filter(|_| has_ordinals(job, count));
        if seen.noticed {
            seen.diagnoses.extend(diagnose::alloc(alloc, &instance, &view));
        }
        lively += u32::from(instance.current && alloc::is_live(alloc));
        instances.push(instance);
    }
    if seen.noticed && seen.finished.is_none() && lively < seen.counts.desired {
        seen.diagnoses.extend(unschedulable(objects));
    }
    Some(seen.with_instances(instances))
}

/// What the workload, or without it the job, says of itself. Answers how long an instance must be ready to be available.
fn describe(seen: &mut Observation, objects: &NativeObjects<'_>) -> Seconds {
    let job = objects.job;
    let update = job.task_groups.iter().find_map(|group| group.update.as_ref());
    let seconds =
        |span: Option<Nanos>| span.and_then(|span| span.to_duration().as_secs().try_into().ok()).map(Seconds::new);
    seen.suspended = job.periodic.as_ref().is_some_and(|periodic| periodic.enabled == Some(false));
    let Some(workload) = objects.source.and_then(|source| source::read(source, &seen.target)) else {
        seen.marks = meta::marks_of(&job.meta);
        seen.labels = meta::foreign(&job.meta);
        seen.patience = seconds(update.and_then(|update| update.progress_deadline)).unwrap_or(DEFAULT_DEADLINE);
        return seconds(update.and_then(|update| update.min_healthy_time)).unwrap_or_default();
    };
    let rendered = is_rendered_from(job, &workload, &objects.driver);
    seen.revision = rendered.then(|| workload.revision().clone());
    seen.marks = workload.marks.clone();
    seen.labels = workload.labels.clone();
    seen.patience = workload.progress_deadline;
    match &workload.kind {
        Kind::Service(service) => service.min_ready,
        Kind::System(system) => system.min_ready,
        _ => Seconds::default(),
    }
}

/// What the runs of a schedule say.
fn periodic(
    seen: &mut Observation,
    runs: &[PeriodicRun],
    instances: &mut Vec<Instance>,
    view: &alloc::View,
    job: &Job,
) {
    seen.schedule = Some(kind::schedule(runs));
    let count = job.task_groups.iter().map(|group| group.count.unwrap_or(1)).sum();
    for run in runs {
        for alloc in &run.allocations {
            let Some(mut instance) = alloc::instance(alloc, true, view) else { continue };
            instance.exit = kind::exit(job, alloc);
            instance.ordinal = index_of(alloc).filter(|_| has_ordinals(job, count));
            if run.is_active() {
                seen.diagnoses.extend(diagnose::alloc(alloc, &instance, view));
            }
            instances.push(instance);
        }
    }
}

fn has_ordinals(job: &Job, count: u32) -> bool {
    match kind_of(job) {
        KindName::Job | KindName::Periodic => count > 1,
        KindName::Service => job.meta.contains_key(meta::IDENTITIES),
        _ => false,
    }
}

/// The allocations of a job since it was launched over one that had been stopped.
fn of_this_life<'a>(objects: &NativeObjects<'a>) -> impl Iterator<Item = &'a Allocation> {
    let born: u64 = objects.job.meta.get(meta::BORN).and_then(|index| index.parse().ok()).unwrap_or(0);
    let job = objects.job;
    objects.allocations.iter().filter(move |alloc| alloc.job_id == job.id && (born == 0 || alloc.create_index > born))
}

/// Whether a rollout waits for somebody to promote its canaries. The server promotes those by itself that are to be so, but for
/// one that had to be replaced: then it waits for ever (hashicorp/nomad#8150).
fn awaits_promotion(objects: &NativeObjects<'_>, deployment: &Deployment) -> bool {
    let stalled = |group: &DeploymentGroup| group.placed_canaries.len() as u64 > group.desired_canaries;
    let by_hand = unpromoted(deployment).all(|group| !group.auto_promote || stalled(group));
    by_hand && canaries_stand(objects, deployment)
}

/// Whether as many canaries as there should be stand the test, and are not promoted yet. Those that were replaced on the way are
/// counted by the server, too.
pub(crate) fn canaries_stand(objects: &NativeObjects<'_>, deployment: &Deployment) -> bool {
    let wanted: u64 = unpromoted(deployment).map(|group| group.desired_canaries).sum();
    let is_canary = |alloc: &&Allocation| alloc.deployment_status.as_ref().is_some_and(|status| status.canary);
    let canaries = of_this_life(objects).filter(|alloc| is_current(objects.job, alloc)).filter(is_canary);
    let healthy = canaries.filter(|alloc| alloc::is_live(alloc) && alloc::healthy(alloc) == Some(true)).count();
    is_active(deployment) && wanted > 0 && healthy as u64 >= wanted
}

/// The groups of a deployment whose canaries nobody has promoted.
fn unpromoted(deployment: &Deployment) -> impl Iterator<Item = &DeploymentGroup> {
    deployment.task_groups.values().filter(|group| group.desired_canaries > 0 && !group.promoted)
}

/// Whether a deployment goes on, or is paused.
pub(crate) fn is_active(deployment: &Deployment) -> bool {
    !matches!(deployment.status, DeploymentStatus::Successful | DeploymentStatus::Failed | DeploymentStatus::Cancelled)
}

/// Whether nobody else changed what a launch of this workload renders. The count of a service is anybody's.
pub(crate) fn is_rendered_from(job: &Job, workload: &CheckedWorkload, driver: &Driver) -> bool {
    let Some(owner) = meta::owner_of(&job.meta) else { return false };
    let count = carry::own_group(job, &job.id).map_or(0, |group| group.count.unwrap_or(1));
    let mut context = RenderContext::new(count).driver(driver.clone());
    for volume in &workload.volumes {
        if let VolumeSource::Config(config) = &volume.source {
            context = context.config(config.clone(), keys_of(job, &volume.name));
        }
    }
    render(workload, &owner, &context).is_ok_and(|mut rendered| {
        carry::over(job, &mut rendered.job);
        compare::drift(&rendered.job, job).is_empty()
    })
}

/// The token for compare-and-set. `JobModifyIndex` moves with each registration, and with nothing that the server does by
/// itself.
pub(crate) fn version(job: &Job) -> Version {
    version_of(job.create_index, job.job_modify_index)
}

pub(crate) fn version_of(create_index: u64, job_modify_index: u64) -> Version {
    Version::new(format!("{create_index}.{job_modify_index}"))
}

/// Which workload a job is, by its name.
pub(crate) fn target_of(job: &Job) -> Option<Target> {
    Target::new(job.namespace.as_str(), job.id.as_str()).ok()
}

/// Whether a job is gone: it was stopped, and the last allocation has ended. The server keeps it until somebody purges it.
pub(crate) fn is_gone(job: &Job, allocations: &[Allocation]) -> bool {
    job.stop && !allocations.iter().any(|alloc| alloc.job_id == job.id && !alloc.client_status.is_terminal())
}

fn is_current(job: &Job, alloc: &Allocation) -> bool {
    alloc.job_version == Some(job.version)
}

/// The deployment of the present version; the last, should there be several.
pub(crate) fn deployment_of<'a>(job: &Job, deployments: &'a [Deployment]) -> Option<&'a Deployment> {
    let own = deployments.iter().filter(|deployment| {
        deployment.job_id == job.id
            && deployment.job_create_index == job.create_index
            && deployment.job_version == job.version
    });
    own.max_by_key(|deployment| deployment.create_index)
}

/// Whether a rollout waits for checks.
fn is_gated(job: &Job) -> bool {
    job.task_groups.iter().any(|group| {
        group.update.as_ref().is_some_and(|update| matches!(update.health_check.as_str(), "checks" | ""))
            && group.services.iter().any(|service| !service.checks.is_empty())
    })
}

/// Whether the server makes deployments for a job at all.
fn has_deployments(job: &Job) -> bool {
    let updates = job.task_groups.iter().filter_map(|group| group.update.as_ref());
    updates.into_iter().any(|update| update.max_parallel.unwrap_or(1) > 0)
}

/// The evaluations of the present version. Those that the server makes by itself bear no index of the job.
fn evaluations<'a>(objects: &NativeObjects<'a>) -> impl Iterator<Item = &'a Evaluation> {
    let job = objects.job;
    objects.evaluations.iter().filter(|eval| {
        let index = if eval.job_modify_index > 0 { eval.job_modify_index } else { eval.create_index };
        eval.job_id == job.id && index >= job.job_modify_index && eval.status != EvalStatus::Canceled
    })
}

/// Whether the scheduler has looked at the present version.
fn noticed(objects: &NativeObjects<'_>, deployment: Option<&Deployment>, at: Timestamp) -> bool {
    let job = objects.job;
    // A periodic job is never evaluated itself.
    if kind_of(job) == KindName::Periodic {
        return true;
    }
    let mut about = evaluations(objects).filter(|eval| eval.job_modify_index > 0).peekable();
    let is_due = |eval: &Evaluation| time(&eval.wait_until).is_none_or(|until| until.millis() <= 0);
    if about.peek().is_some() {
        return about.any(|eval| eval.status != EvalStatus::Pending || !is_due(eval));
    }
    deployment.is_some()
        || objects.allocations.iter().any(|alloc| is_current(job, alloc))
        || at.since(moment(job.submit_time).unwrap_or(at)) >= NOTICED_AFTER.duration()
}

/// Since when nothing is done any more for the present version.
fn gave_up(objects: &NativeObjects<'_>, deployment: Option<&Deployment>, at: Timestamp) -> Option<Timestamp> {
    let job = objects.job;
    let own = || objects.allocations.iter().filter(|alloc| is_current(job, alloc));
    let last = || own().filter_map(|alloc| moment(alloc.modify_time)).max();
    match deployment.map(|deployment| (&deployment.status, deployment)) {
        Some((DeploymentStatus::Failed, deployment)) => moment(deployment.modify_time).or_else(last).or(Some(at)),
        Some((DeploymentStatus::Running | DeploymentStatus::Paused, _)) => None,
        // Without a deployment: all have failed, and none is to be placed anew.
        _ => {
            let over = job.status == JobStatus::Dead && !job.stop;
            let replaced = |alloc: &Allocation| !alloc.next_allocation.is_empty();
            let hopeless = |alloc: &Allocation| {
                alloc.client_status.is_terminal() && (alloc.followup_eval_id.is_empty() || replaced(alloc))
            };
            last().filter(|_| over && own().all(hopeless))
        }
    }
}

/// What cannot be placed, and why.
fn unschedulable(objects: &NativeObjects<'_>) -> Option<Diagnosis> {
    let blocked = evaluations(objects).filter(|eval| eval.status == EvalStatus::Blocked);
    let blocked = blocked.min_by_key(|eval| eval.create_index)?;
    let since = moment(blocked.create_time).unwrap_or(Timestamp::from_millis(0));
    let mut diagnosis = Diagnosis::new(DiagnosisKind::Unschedulable, since);
    // Older servers leave the reasons with the evaluation before it.
    let before = objects.evaluations.iter().filter(|eval| eval.blocked_eval == blocked.id);
    let metrics = std::iter::once(blocked).chain(before).flat_map(|eval| &eval.failed_tg_allocs).next();
    diagnosis.message = metrics.map(|(_, metric)| diagnose::placement(metric)).unwrap_or_default();
    Some(diagnosis)
}

/// The newest time that any of the objects bears: the server's clock showed no less.
pub(crate) fn newest_time(objects: &NativeObjects<'_>) -> Timestamp {
    let allocations = objects.allocations.iter().flat_map(|alloc| [alloc.create_time, alloc.modify_time]);
    let evaluations = objects.evaluations.iter().flat_map(|eval| [eval.create_time, eval.modify_time]);
    let runs = objects.runs.iter().flat_map(|run| &run.allocations).map(|alloc| alloc.modify_time);
    let times = allocations.chain(evaluations).chain(runs).chain([objects.job.submit_time]);
    times.filter_map(moment).max().unwrap_or(Timestamp::from_millis(0))
}

/// A point in time, if it was said.
pub(crate) fn moment(time: UnixNanos) -> Option<Timestamp> {
    (time.get() > 0).then(|| Timestamp::from_millis(time.get() / 1_000_000))
}

fn time(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

/// Whether the server wants an allocation to run.
fn is_wanted(alloc: &Allocation) -> bool {
    !matches!(alloc.desired_status, DesiredStatus::Stop | DesiredStatus::Evict)
}
