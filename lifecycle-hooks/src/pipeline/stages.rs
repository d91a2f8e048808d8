//! The stages: what each does, as operations. They hold nothing: a stage that is begun again finds its own effects.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use scheduler_core::hooks::{App, Front, HookError, Outcome, Release, Report};
use scheduler_core::{
    CheckedWorkload, ConfigRef, ConfigValue, Conflict, Delete, Error, ErrorKind, Expose, Feature, Filter, Launch, List,
    MarkHealthy, NameError, Observation, Retry, Route, Run, RunId, RunKey, Scheduler, SchedulerExt as _, Target,
    WaitOptions, WaitOutcome, Workload,
};

use super::deployer::{DeployProgress, Deployer};
use super::evidence::Evidence;
use super::record::{DeployRecord, TakeBack};
use super::stage::StageName;
use crate::desired;

/// What a stage works with.
#[derive(Clone, Copy)]
pub(super) struct Cx<'a> {
    pub(super) deployer: &'a Deployer,
    pub(super) record: &'a DeployRecord,
    /// The release that is to run.
    pub(super) release: &'a Release,
    /// The last good deploy.
    pub(super) good: Option<&'a DeployRecord>,
}

/// What a part of a stage came to.
pub(super) struct Step {
    pub(super) evidence: Vec<Evidence>,
    pub(super) end: End,
}

/// How a part of a stage ended. The weightier of two is what they come to together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    Well,
    /// It cannot be known yet: the platform could not be asked. To be begun again.
    Cut(HookError),
    Badly,
}

impl Step {
    fn well(evidence: impl IntoIterator<Item = Evidence>) -> Self {
        Self { evidence: evidence.into_iter().collect(), end: End::Well }
    }

    /// Badly if the evidence is not as it should be.
    fn judged(evidence: Evidence) -> Self {
        let end = if evidence.is_failure() { End::Badly } else { End::Well };
        Self { evidence: vec![evidence], end }
    }

    fn failed(target: Option<&Target>, error: HookError) -> Self {
        Self { evidence: vec![Evidence::Error { target: target.cloned(), error }], end: End::Badly }
    }

    /// An operation's error: one that may pass cuts the stage short and fails nothing.
    fn error(target: &Target, error: Error) -> Self {
        let passes = error.retry() != Retry::Never;
        let mut step = Self::failed(Some(target), error.into());
        if let (true, Some(Evidence::Error { error, .. })) = (passes, step.evidence.first()) {
            step.end = End::Cut(error.clone());
        }
        step
    }

    fn and(mut self, other: Self) -> Self {
        self.evidence.extend(other.evidence);
        self.end = match (self.end, other.end) {
            (End::Badly, _) | (_, End::Badly) => End::Badly,
            (End::Cut(error), _) | (End::Well, End::Cut(error)) => End::Cut(error),
            (End::Well, End::Well) => End::Well,
        };
        self
    }

    fn is_well(&self) -> bool {
        self.end == End::Well
    }
}

impl Extend<Self> for Step {
    fn extend<T: IntoIterator<Item = Self>>(&mut self, steps: T) {
        for step in steps {
            *self = std::mem::replace(self, Self::well([])).and(step);
        }
    }
}

impl Cx<'_> {
    /// Does a stage, from its beginning.
    pub(super) async fn stage(self, stage: StageName) -> Step {
        match stage {
            StageName::Prepare => self.prepare().await,
            StageName::Before => self.before().await,
            StageName::Launch => self.launch().await,
            StageName::Await => self.wait_for_all().await,
            StageName::RollOut => self.roll_out().await,
            StageName::CutOver => self.cut_over().await,
            StageName::Verify => self.verify().await,
            StageName::CleanUp => self.clean_up().await,
            StageName::RollBack => self.roll_back().await,
        }
    }

    fn app(&self) -> &App {
        &self.record.deploy.app
    }

    fn scheduler(&self) -> &dyn Scheduler {
        &*self.deployer.scheduler
    }

    /// The processes as they are to be launched.
    fn wanted(&self) -> Result<Vec<CheckedWorkload>, Step> {
        let naming = self.record.deploy.pipeline.naming();
        checked(desired::workloads(self.app(), self.release, naming, self.record.config.as_ref()))
    }

    /// Where the last good deploy's processes are, and what they were; with the present numbers of instances.
    fn good_workloads(&self) -> Result<Vec<CheckedWorkload>, Step> {
        let Some((good, release)) = self.good.and_then(|good| Some((good, good.release()?))) else { return Ok(vec![]) };
        checked(desired::workloads(self.app(), release, good.deploy.pipeline.naming(), good.config.as_ref()))
    }

    fn wait_options(&self) -> WaitOptions {
        let options = &self.record.deploy.options;
        WaitOptions::default().stall(options.stall.duration()).total(options.total.duration())
    }

    fn clean_up_options(&self) -> WaitOptions {
        WaitOptions::default().total(self.record.deploy.options.clean_up.duration())
    }

    async fn prepare(self) -> Step {
        let (app, release) = (self.app(), self.release);
        let wanted = match (self.wanted(), self.jobs(None)) {
            (Ok(wanted), Ok(_)) => wanted,
            (Err(step), _) | (_, Err(step)) => return step,
        };
        let has = |front: &Front| release.processes.iter().any(|process| process.name == front.process.as_str());
        if let Some(front) = app.front.as_ref().filter(|front| !has(front)) {
            let words = format!("requests are to go to {}, which release {} has not", front.process, release.version);
            return Step::failed(None, HookError::permanent(words));
        }
        let values = match self.values().await {
            Ok(values) => values,
            Err(step) => return step,
        };
        let mut step = Step::well([]);
        for workload in wanted {
            step.extend([self.store(workload.target().clone(), &values).await]);
            if !step.is_well() {
                break;
            }
        }
        step
    }

    /// The release's configuration.
    async fn values(&self) -> Result<BTreeMap<String, ConfigValue>, Step> {
        if self.release.config.is_empty() {
            return Ok(BTreeMap::new());
        }
        let Some(secrets) = &self.deployer.secrets else {
            let words = "the release has a configuration, and the deployer no secret source to read it from";
            return Err(Step::failed(None, HookError::permanent(words)));
        };
        desired::read_config(&**secrets, &self.release.config).await.map_err(|error| {
            let end = if error.retry { End::Cut(error.clone()) } else { End::Badly };
            Step { end, ..Step::failed(None, error) }
        })
    }

    async fn store(&self, target: Target, values: &BTreeMap<String, ConfigValue>) -> Step {
        let Some(op) = desired::config_of(target.clone(), values) else { return Step::well([]) };
        match self.scheduler().put_config(op).await {
            Ok(stored) => Step::well([Evidence::Stored { target, config: stored.config, created: stored.created }]),
            Err(error) => Step::error(&target, error),
        }
    }

    /// The jobs before the roll-out, each under a key of this deploy's.
    fn jobs(&self, config: Option<&ConfigRef>) -> Result<Vec<Run>, Step> {
        let run = |job: &Workload| {
            let key = RunKey::new(format!("{}/{}", self.record.id(), job.name));
            let key = key.map_err(|error| Step::failed(None, HookError::permanent(error.to_string())))?;
            let job = desired::job(self.app(), Some(self.release), job, config);
            Ok(Run::one_off(job.check().map_err(|faults| Step::failed(None, Error::from(faults).into()))?, key))
        };
        self.release.before.iter().map(run).collect()
    }

    async fn before(self) -> Step {
        let jobs = match self.jobs(self.record.config.as_ref()) {
            Ok(jobs) if jobs.is_empty() => return Step::well([]),
            Ok(jobs) => jobs,
            Err(step) => return step,
        };
        let values = match self.values().await {
            Ok(values) => values,
            Err(step) => return step,
        };
        let mut step = Step::well([]);
        for job in jobs {
            // A configuration belongs to one workload, and that of a job is its run.
            step.extend([self.store(job.id().into(), &values).await]);
            if step.is_well() {
                step.extend([self.run(job).await]);
            }
            if !step.is_well() {
                break;
            }
        }
        step
    }

    async fn run(&self, job: Run) -> Step {
        let budget = self.record.deploy.options.job.duration();
        let options = WaitOptions::default().stall(budget).total(budget);
        let target = Target::from(job.id());
        match self.scheduler().run_and_wait(job, &options).await {
            Ok(ran) => {
                let late = matches!(ran.outcome, WaitOutcome::Stalled(_) | WaitOutcome::DeadlineExceeded(_));
                let ran = Step::judged(Evidence::Ran { run: ran.run, outcome: ran.outcome, exit: ran.exit });
                // The next deploy's jobs must not meet one that still runs.
                if late { ran.and(self.delete(target).await) } else { ran }
            }
            Err(error) => Step::error(&target, error),
        }
    }

    async fn launch(self) -> Step {
        match self.wanted() {
            Ok(wanted) => self.each(wanted, |workload| self.launch_one(workload)).await,
            Err(step) => step,
        }
    }

    async fn wait_for_all(self) -> Step {
        match self.wanted() {
            Ok(wanted) => self.each(wanted, |workload| self.wait_for(workload)).await,
            Err(step) => step,
        }
    }

    /// One wave after the other: the front process alone and last, so that requests meet what is new when all behind it is.
    async fn roll_out(self) -> Step {
        let wanted = match self.wanted() {
            Ok(wanted) => wanted,
            Err(step) => return step,
        };
        let front = self.app().front.as_ref().map(|front| &front.process);
        let (last, first): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|w| Some(&w.target().name) == front);
        let mut step = Step::well([]);
        for wave in [first, last] {
            step.extend([self.each(wave, |workload| self.launch_and_wait_for(workload)).await]);
            if !step.is_well() && self.record.deploy.options.take_back == TakeBack::All {
                break;
            }
        }
        step
    }

    async fn cut_over(self) -> Step {
        let Some(front) = &self.app().front else { return Step::well([]) };
        let naming = self.record.deploy.pipeline.naming();
        let process = self.release.processes.iter().find(|process| process.name == front.process.as_str());
        let target = process.map(|process| naming.target(self.app(), self.release, process));
        match target {
            Some(Ok(target)) => self.lead_to(front, target, self.good_front().map(|(_, target)| target)).await,
            Some(Err(error)) => Step::failed(None, HookError::permanent(error.to_string())),
            None => Step::well([]),
        }
    }

    /// The front process of the last good deploy.
    fn good_front(&self) -> Option<(&Front, Target)> {
        let good = self.good?;
        let (front, release) = (good.deploy.app.front.as_ref()?, good.release()?);
        let process = release.processes.iter().find(|process| process.name == front.process.as_str())?;
        Some((front, good.deploy.pipeline.naming().target(self.app(), release, process).ok()?))
    }

    /// Leads the app's domains to a workload, takes them from the one that has them, and tells the hook sets.
    async fn lead_to(self, front: &Front, to: Target, from: Option<Target>) -> Step {
        let app = self.app();
        let mut step = Step::well([]);
        if !app.domains.is_empty() {
            step.extend([self.expose(front, &to, from.filter(|from| *from != to)).await]);
        }
        if let (true, Some(hooks)) = (step.is_well(), &self.deployer.hooks) {
            let told = hooks.report(app, &Report::CutOver { to: vec![to] }, &self.deployer.deadlines).await;
            for answer in told.sets {
                let deferred = match &answer.answer {
                    Ok(Outcome::Deferred { reason, .. }) => {
                        Some(HookError::transient(format!("hook set {} waits for {reason}", answer.set)))
                    }
                    _ => None,
                };
                let told = Step::judged(Evidence::Told(answer));
                step.extend([if let Some(error) = deferred { Step { end: End::Cut(error), ..told } } else { told }]);
            }
        }
        step
    }

    async fn expose(self, front: &Front, to: &Target, from: Option<Target>) -> Step {
        let hosts: Vec<_> = self.app().domains.iter().map(|domain| domain.host.clone()).collect();
        let op = Expose::new(to.clone(), hosts.iter().map(|host| Route::new(host, &front.port)));
        let taking = |from: Option<&Target>| match from {
            Some(from) => op.clone().taking_from(from.clone()),
            None => op.clone(),
        };
        let exposed = |from| Step::well([Evidence::Exposed { target: to.clone(), hosts: hosts.clone(), from }]);
        let mut error = match self.scheduler().expose(taking(from.as_ref())).await {
            Ok(_) => return exposed(from),
            Err(error) => error,
        };
        if !is_taken(&error) {
            return Step::error(to, error);
        }
        // A deploy that died after its cut-over has them; or the front was another process.
        let others = match self.processes().await {
            Ok(seen) => {
                seen.into_iter().map(|seen| seen.target).filter(|other| other != to && Some(other) != from.as_ref())
            }
            Err(error) => return Step::error(to, error),
        };
        for other in others {
            error = match self.scheduler().expose(taking(Some(&other))).await {
                Ok(_) => return exposed(Some(other)),
                Err(error) if is_taken(&error) => error,
                Err(error) => return Step::error(to, error),
            };
        }
        Step::error(to, error)
    }

    async fn verify(self) -> Step {
        let wanted = match self.wanted() {
            Ok(wanted) => wanted,
            Err(step) => return step,
        };
        let revisions: Vec<_> = wanted.iter().map(|w| (w.target().clone(), w.revision().clone())).collect();
        let mut step = self.each(wanted, |workload| self.wait_for(workload)).await;
        if let (true, Some(probe)) = (step.is_well(), &self.deployer.probe) {
            let targets: Vec<_> = revisions.iter().map(|(target, _)| target.clone()).collect();
            step.extend([match probe.probe(self.app(), &targets).await {
                Ok(saw) => Step::well([Evidence::Probed { saw }]),
                Err(error) => Step::failed(None, error),
            }]);
        }
        if !step.is_well() || !self.scheduler().capabilities().has(Feature::MarkHealthy) {
            return step;
        }
        for (target, revision) in revisions {
            step.extend([
                match self.scheduler().mark_healthy(MarkHealthy::new(target.clone(), revision.clone())).await {
                    Ok(_) => Step::well([Evidence::MarkedHealthy { target, revision }]),
                    Err(error) => Step::error(&target, error),
                },
            ]);
        }
        step
    }

    /// Only what deploys made is taken: processes by their label, jobs by the records of the deploys that ran them.
    async fn clean_up(self) -> Step {
        let app = &self.app().name;
        let wanted = match self.wanted() {
            Ok(wanted) => wanted.iter().map(|workload| workload.target().clone()).collect::<BTreeSet<_>>(),
            Err(step) => return step,
        };
        let earlier = match self.deployer.store.of_app(app).await {
            Ok(records) => records,
            Err(error) => return Step::failed(None, HookError::transient(error.to_string())),
        };
        let runs: BTreeSet<_> =
            earlier.iter().filter(|record| record.id() != self.record.id()).flat_map(runs_before).collect();
        let seen = match self.all().await {
            Ok(seen) => seen,
            Err(error) => return Step::failed(None, error.into()),
        };
        let surplus =
            |seen: &Observation| runs.contains(&seen.target) || (is_process(seen) && !wanted.contains(&seen.target));
        let surplus = seen.into_iter().filter(surplus).map(|seen| seen.target).collect();
        self.each(surplus, |target| self.delete(target)).await
    }

    async fn roll_back(self) -> Step {
        let (wanted, good) = match (self.wanted(), self.good_workloads()) {
            (Ok(wanted), Ok(good)) => (wanted, good),
            (Err(step), _) | (_, Err(step)) => return step,
        };
        let failed = self.failed_alone();
        let is_meant = |workload: &CheckedWorkload| failed.as_ref().is_none_or(|f| f.contains(workload.target()));
        let kept: BTreeSet<_> = good.iter().map(|workload| workload.target().clone()).collect();
        let again = good.into_iter().filter(&is_meant).collect();
        let mut step = self.each(again, |workload| self.launch_and_wait_for(workload)).await;
        // Otherwise the requests never went elsewhere.
        let is_move = |evidence: &Evidence| matches!(evidence, Evidence::Exposed { .. } | Evidence::Told(_));
        if self.record.stage(StageName::CutOver).is_some_and(|report| report.evidence.iter().any(is_move))
            && step.is_well()
            && let Some((front, target)) = self.good_front()
        {
            let from = match self.app().front.as_ref() {
                Some(front) => wanted.iter().find(|w| desired_process(w) == front.process.as_str()),
                None => None,
            };
            step.extend([self.lead_to(front, target, from.map(|workload| workload.target().clone())).await]);
        }
        // Without anything to go back to, what has failed stays to be looked at, unless it is a stack of its own.
        let beside = self.record.deploy.pipeline.naming() == desired::Naming::Stack;
        if step.is_well() && (beside || self.good.is_some()) {
            let new = wanted.iter().filter(|workload| is_meant(workload)).map(|workload| workload.target().clone());
            let new = new.filter(|target| !kept.contains(target)).collect();
            step.extend([self.each(new, |target| self.delete(target)).await]);
        }
        self.insist(step)
    }

    /// What may pass by itself, or by somebody's help, is no end of a roll-back.
    fn insist(self, mut step: Step) -> Step {
        let again = |evidence: &Evidence| match evidence {
            Evidence::Error { error, .. } if error.retry => Some(error.clone()),
            _ => None,
        };
        if let (End::Badly, Some(error)) = (&step.end, step.evidence.iter().find_map(again)) {
            step.end = End::Cut(error);
        }
        step
    }

    /// The processes that failed, where each is taken back alone.
    fn failed_alone(&self) -> Option<BTreeSet<Target>> {
        let report = self.record.stage(StageName::RollOut)?;
        let failed: BTreeSet<_> = report.evidence.iter().filter_map(Evidence::failed_process).cloned().collect();
        let alone = self.record.deploy.options.take_back == TakeBack::Each && !failed.is_empty();
        alone.then_some(failed)
    }

    // ---- single steps ----

    async fn launch_one(self, workload: CheckedWorkload) -> Step {
        let target = workload.target().clone();
        match self.scheduler().launch(Launch::new(workload)).await {
            Ok(done) => Step::well([Evidence::Launched { target, change: done.change, revision: done.revision }]),
            Err(error) => Step::error(&target, error),
        }
    }

    async fn wait_for(self, workload: CheckedWorkload) -> Step {
        let target = workload.target().clone();
        let options = self.wait_options().revision(workload.revision().clone());
        let mut look =
            |seen: &Observation| self.deployer.show(&DeployProgress::Seen { record: self.record, observation: seen });
        match self.scheduler().wait_observed(&target, &options, &mut look).await {
            Ok(outcome) => Step::judged(Evidence::Waited { target, outcome }),
            Err(error) => Step::error(&target, error),
        }
    }

    async fn launch_and_wait_for(self, workload: CheckedWorkload) -> Step {
        let step = self.launch_one(workload.clone()).await;
        if step.is_well() { step.and(self.wait_for(workload).await) } else { step }
    }

    async fn delete(self, target: Target) -> Step {
        let op = Delete::new(target.clone());
        match self.scheduler().delete_and_wait(op, &self.clean_up_options()).await {
            Ok(outcome) => Step::judged(Evidence::Deleted { target, outcome }),
            Err(error) => Step::error(&target, error),
        }
    }

    /// The same for several, some at a time. All are ended before this ends, so that nothing goes on behind a roll-back.
    async fn each<T, F>(self, of: Vec<T>, one: impl Fn(T) -> F + Send) -> Step
    where
        T: Send,
        F: Future<Output = Step> + Send,
    {
        let at_once = usize::try_from(self.record.deploy.options.at_once.max(1)).unwrap_or(1);
        let steps: Vec<_> = stream::iter(of.into_iter().map(one)).buffered(at_once).collect().await;
        let mut all = Step::well([]);
        all.extend(steps);
        all
    }

    async fn all(&self) -> Result<Vec<Observation>, Error> {
        let mut filter = Filter::namespace(self.app().namespace.clone());
        filter.marks = self.app().marks();
        Ok(self.scheduler().list(List::new(filter)).await?.workloads)
    }

    async fn processes(&self) -> Result<Vec<Observation>, Error> {
        Ok(self.all().await?.into_iter().filter(is_process).collect())
    }
}

/// Whether a workload is a process that a deploy launched, whichever pipeline it was, and no run of a job.
fn is_process(seen: &Observation) -> bool {
    let name = seen.target.name.as_str();
    let process = seen.labels.get(desired::PROCESS_LABEL).map(String::as_str);
    process.is_some() && (process == Some(name) || seen.marks.stack.as_deref() == Some(name))
}

fn desired_process(workload: &CheckedWorkload) -> &str {
    workload.labels.get(desired::PROCESS_LABEL).map_or(workload.name.as_str(), String::as_str)
}

/// The runs of a deploy's jobs.
fn runs_before(record: &DeployRecord) -> Vec<Target> {
    let run = |job: &Workload| {
        let base = Target::new(record.deploy.app.namespace.as_str(), job.name.as_str()).ok()?;
        Some(RunId::of(&base, &RunKey::new(format!("{}/{}", record.id(), job.name)).ok()?).into())
    };
    record.release().iter().flat_map(|release| &release.before).filter_map(run).collect()
}

fn is_taken(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Conflict(Conflict::RouteTaken { .. }))
}

fn checked(workloads: Result<Vec<Workload>, NameError>) -> Result<Vec<CheckedWorkload>, Step> {
    let workloads = workloads.map_err(|error| Step::failed(None, HookError::permanent(error.to_string())))?;
    let check = |workload: Workload| {
        let name = workload.name.clone();
        let failed = |error: Error| Step::failed(None, HookError::from(error).context(name));
        workload.check().map_err(|faults| failed(faults.into()))
    };
    workloads.into_iter().map(check).collect()
}

/// How often a deploy looks whether it still has the turn, and one that waits, whether it gets it.
pub(super) const LOOK: Duration = Duration::from_secs(1);
