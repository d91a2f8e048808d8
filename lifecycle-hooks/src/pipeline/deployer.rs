//! Runs deploys: whose turn it is, one stage after the other, and the record of it.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use scheduler_core::hooks::{App, AppName, HookError, Report, SecretSource};
use scheduler_core::{Observation, Scheduler, Target};
use tokio::time::sleep;

use super::record::{Deploy, DeployId, DeployRecord, DeployState, StageReport, StageVerdict};
use super::stage::{Next, StageName, cut_short, next};
use super::stages::{Cx, End, LOOK};
use super::store::{DeployStore, StoreError};
use super::turn::{Answer, Claim, Hold, Turn};
use crate::deliver::{Deadlines, HookSets};

/// Runs deploys over any scheduler. Clones share everything.
///
/// It repeats no operation: a scheduler that does is made by [`layer::Retry`](scheduler_core::layer::Retry). It has no tasks
/// of its own.
#[derive(Clone, Debug)]
pub struct Deployer {
    pub(super) scheduler: Arc<dyn Scheduler>,
    pub(super) store: Arc<dyn DeployStore>,
    pub(super) secrets: Option<Arc<dyn SecretSource>>,
    pub(super) hooks: Option<HookSets>,
    pub(super) deadlines: Deadlines,
    pub(super) probe: Option<Arc<dyn DeployProbe>>,
    observer: Option<Arc<dyn DeployObserver>>,
    lease: Duration,
    /// Tells this deployer from others that share the store.
    worker: u64,
    /// What this deployer works on.
    here: Arc<Mutex<BTreeSet<DeployId>>>,
}

/// Looks at a release when all of its processes are healthy and requests go to it: the platform's own smoke test.
#[async_trait]
pub trait DeployProbe: Debug + Send + Sync + 'static {
    /// Says in words what it saw.
    ///
    /// # Errors
    /// Any error fails the deploy, and the release is taken back.
    async fn probe(&self, app: &App, processes: &[Target]) -> Result<String, HookError>;
}

/// Is shown what happens while it happens. Called in between; it must not block.
pub trait DeployObserver: Debug + Send + Sync + 'static {
    /// Something happened.
    fn saw(&self, progress: &DeployProgress<'_>);
}

/// Something that happened to a deploy.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum DeployProgress<'a> {
    /// A stage began or ended.
    Stage {
        /// The deploy.
        record: &'a DeployRecord,
        /// The stage.
        report: &'a StageReport,
    },
    /// A process that is awaited was looked at.
    Seen {
        /// The deploy.
        record: &'a DeployRecord,
        /// The process.
        observation: &'a Observation,
    },
    /// The deploy ended.
    Ended(&'a DeployRecord),
}

/// Why a deploy did not come to an end. Its record is kept, and the same call again goes on with it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PipelineError {
    /// The app has no release.
    #[error("app {app} has no release that could be deployed")]
    NoRelease {
        /// The app.
        app: AppName,
    },
    /// A stage was cut short by something that may pass.
    #[error("deploy {id} stopped in {stage}, and goes on there when it is told again: {error}")]
    Unfinished {
        /// The deploy.
        id: DeployId,
        /// The stage.
        stage: StageName,
        /// What cut it short.
        error: HookError,
    },
    /// Its lease ran out, and another worker has the turn.
    #[error("deploy {id} was stalled for longer than its lease, and another worker goes on with the app")]
    TurnLost {
        /// The deploy.
        id: DeployId,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// All but a missing release may pass.
impl From<PipelineError> for HookError {
    fn from(error: PipelineError) -> Self {
        let words = error.to_string();
        match error {
            PipelineError::NoRelease { .. } => Self::permanent(words),
            PipelineError::Unfinished { mut error, .. } => {
                (error.message, error.retry) = (words, true);
                error
            }
            PipelineError::TurnLost { .. } | PipelineError::Store(_) => Self::transient(words),
        }
    }
}

impl Deployer {
    /// A deployer without secrets, hooks, probe and observer.
    #[must_use]
    pub fn new(scheduler: Arc<dyn Scheduler>, store: Arc<dyn DeployStore>) -> Self {
        Self {
            scheduler,
            store,
            secrets: None,
            hooks: None,
            deadlines: Deadlines::default(),
            probe: None,
            observer: None,
            lease: Duration::from_secs(30),
            worker: RandomState::new().hash_one(0),
            here: Arc::default(),
        }
    }

    /// Sets where configurations are read from.
    #[must_use]
    pub fn secrets(mut self, secrets: Arc<dyn SecretSource>) -> Self {
        self.secrets = Some(secrets);
        self
    }

    /// Sets who is told of the cut-over and of the end.
    #[must_use]
    pub fn hooks(mut self, hooks: HookSets, deadlines: Deadlines) -> Self {
        (self.hooks, self.deadlines) = (Some(hooks), deadlines);
        self
    }

    /// Sets what looks at a release before it counts as good.
    #[must_use]
    pub fn probe(mut self, probe: Arc<dyn DeployProbe>) -> Self {
        self.probe = Some(probe);
        self
    }

    /// Sets who is shown what happens.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn DeployObserver>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Sets how long a deploy has the turn without being heard of: how long it blocks the next one if its worker dies.
    /// 30 seconds; at least 3.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease.max(LOOK * 3);
        self
    }

    /// Deploys, until it has ended one way or the other. See [`pipeline`](super) for what that means.
    ///
    /// # Errors
    /// [`PipelineError`], when it has not ended. A release that is not healthy is none: see [`DeployRecord::state`].
    ///
    /// # Idempotency
    /// The same id is one deploy: it goes on at the stage that it had reached, and answers its record once it is over. What is
    /// asked for is what was asked for the first time.
    ///
    /// # Cancel safety
    /// When it is dropped, it stops where it is, and the same call again goes on; in another process once its
    /// [`lease`](Self::lease) is over.
    ///
    /// # Cost
    /// The operations of the stages; two writes to the store for each stage, and a read each second.
    pub async fn deploy(&self, deploy: Deploy) -> Result<DeployRecord, PipelineError> {
        if deploy.app.release.is_none() {
            return Err(PipelineError::NoRelease { app: deploy.app.name });
        }
        let id = deploy.id.clone();
        let _here = loop {
            match Here::enter(&self.here, &id) {
                Some(here) => break here,
                None => sleep(LOOK).await,
            }
        };
        let (mut record, mut version) = self.load_or_begin(deploy).await?;
        loop {
            if record.state.is_over() {
                // It may have died after its end was written.
                self.leave(&record).await?;
                return Ok(record);
            }
            match self.ask(&record).await? {
                Answer::Mine { left_by } => {
                    if let Some(left) = left_by {
                        self.settle(&left, &record).await?;
                    }
                    return self.run(record, version).await;
                }
                Answer::Wait => sleep(LOOK).await,
                Answer::Superseded { by } => return self.end(record, DeployState::Superseded { by }).await,
                Answer::Refused { by } => return self.end(record, DeployState::Refused { by }).await,
                Answer::Closed => return self.end(record, DeployState::AppGone).await,
            }
            (record, version) = match self.store.load(&id).await? {
                Some(found) => found,
                // The app was forgotten meanwhile.
                None => return self.end(record, DeployState::AppGone).await,
            };
        }
    }

    /// Says that an app has a newer release, whose deploy is asked for later: an older one that goes on ends as superseded
    /// within a second, and one that waits never begins.
    ///
    /// Where deploys are told by events in order, a deploy is asked for only when the one before it is over. Call this as soon
    /// as the release is committed, and the one before it does not hold it up. Without it, deploys of an app queue.
    ///
    /// # Errors
    /// Those of the store. Then the newer one waits, which is all: it is safe to ignore.
    pub async fn announce(&self, app: &AppName, release: u64) -> Result<(), StoreError> {
        self.turn(app, |turn| turn.announce(release)).await.map(drop)
    }

    /// Says that an app is being destroyed: a deploy that goes on ends within a second, and none begins.
    ///
    /// Call it as soon as that is committed, for the reason that [`announce`](Self::announce) has. [`close`](Self::close)
    /// follows when the event is told.
    ///
    /// # Errors
    /// As [`announce`](Self::announce).
    pub async fn announce_end(&self, app: &AppName) -> Result<(), StoreError> {
        self.turn(app, Turn::close).await.map(drop)
    }

    /// Ends what goes on with an app that is being destroyed. `true`: nothing does any more, and its deploys are forgotten;
    /// otherwise ask again: they end within a second, or when the lease of a worker that died is over.
    ///
    /// Call it before the app's workloads are deleted, so that no deploy launches any behind that.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn close(&self, app: &AppName) -> Result<bool, StoreError> {
        let turn = self.turn(app, Turn::close).await?;
        let is_over = !turn.is_busy(self.store.now());
        if is_over {
            self.store.forget(app).await?;
        }
        Ok(is_over)
    }

    /// The store, for who wants to read records.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn DeployStore> {
        &self.store
    }

    pub(super) fn show(&self, progress: &DeployProgress<'_>) {
        if let Some(observer) = &self.observer {
            observer.saw(progress);
        }
    }

    /// Changes whose turn it is, unless `change` says that there is nothing to change. Answers how it is now.
    async fn turn(&self, app: &AppName, mut change: impl FnMut(&mut Turn) -> bool) -> Result<Turn, StoreError> {
        loop {
            let (mut turn, seen) = self.store.turn(app).await?;
            if !change(&mut turn) {
                return Ok(turn);
            }
            match self.store.save_turn(app, &turn, seen).await {
                Ok(()) => return Ok(turn),
                Err(StoreError::Moved { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn load_or_begin(&self, deploy: Deploy) -> Result<(DeployRecord, u64), StoreError> {
        loop {
            if let Some(found) = self.store.load(&deploy.id).await? {
                return Ok(found);
            }
            let record = DeployRecord::new(deploy.clone(), self.store.now());
            match self.store.save(&record, None).await {
                Ok(version) => return Ok((record, version)),
                Err(StoreError::Moved { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn claim(&self, record: &DeployRecord) -> Claim {
        Claim {
            deploy: record.id().clone(),
            release: record.version(),
            policy: record.deploy.options.in_the_way,
            worker: self.worker,
            until: self.store.now().plus(self.lease),
        }
    }

    async fn ask(&self, record: &DeployRecord) -> Result<Answer, StoreError> {
        let mut answer = Answer::Wait;
        // By the time after the turn was read, which tells some stores what time it is.
        let ask = |turn: &mut Turn| {
            let before = turn.clone();
            answer = turn.ask(&self.claim(record), self.store.now());
            *turn != before
        };
        self.turn(record.app(), ask).await?;
        Ok(answer)
    }

    async fn leave(&self, record: &DeployRecord) -> Result<(), StoreError> {
        self.turn(record.app(), |turn| turn.leave(record.id())).await.map(drop)
    }

    /// Returns when the deploy must not go on.
    async fn hold(&self, mine: &Claim, app: &AppName) -> Result<Hold, StoreError> {
        loop {
            let (mut turn, seen) = self.store.turn(app).await?;
            let now = self.store.now();
            match turn.look(mine, now) {
                Hold::Good => {}
                other => return Ok(other),
            }
            if turn.renew(self.lease, now) {
                match self.store.save_turn(app, &turn, seen).await {
                    Ok(()) => {}
                    Err(StoreError::Moved { .. }) => continue,
                    Err(error) => return Err(error),
                }
            }
            sleep(LOOK).await;
        }
    }

    /// Ends the record of a deploy that died, from which this one takes over.
    async fn settle(&self, left: &DeployId, by: &DeployRecord) -> Result<(), StoreError> {
        let Some((mut record, version)) = self.store.load(left).await? else { return Ok(()) };
        if record.state.is_over() {
            return Ok(());
        }
        let good = self.good_of(&record).await?.map(|good| good.version());
        abandon(&mut record, DeployState::Superseded { by: by.version() }, good, self.store.now());
        match self.store.save(&record, Some(version)).await {
            Ok(_) | Err(StoreError::Moved { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The good deploy from which one took over.
    async fn good_of(&self, record: &DeployRecord) -> Result<Option<DeployRecord>, StoreError> {
        match &record.good {
            Some(good) => Ok(self.store.load(good).await?.map(|(good, _)| good)),
            None => Ok(None),
        }
    }

    /// Goes through the stages, as long as it has the turn.
    async fn run(&self, mut record: DeployRecord, mut version: u64) -> Result<DeployRecord, PipelineError> {
        if record.state == DeployState::Waiting {
            let earlier = self.store.of_app(record.app()).await?;
            let good = earlier.into_iter().find(|earlier| earlier.state == DeployState::Succeeded);
            record.good = good.map(|good| good.id().clone());
            record.state = DeployState::Running;
            version = self.store.save(&record, Some(version)).await?;
        }
        let good = self.good_of(&record).await?;
        let (claim, app) = (self.claim(&record), record.app().clone());
        let ended = tokio::select! {
            biased;
            held = self.hold(&claim, &app) => Err(held?),
            ended = self.stages(&mut record, &mut version, good.as_ref()) => Ok(ended),
        };
        let state = match ended {
            Ok(Ok(state)) => state,
            Ok(Err(error)) => {
                self.leave(&record).await?;
                return Err(error);
            }
            Err(Hold::Superseded { by }) => DeployState::Superseded { by },
            Err(Hold::Closed) => DeployState::AppGone,
            Err(Hold::Lost | Hold::Good) => return Err(PipelineError::TurnLost { id: claim.deploy }),
        };
        let good = good.as_ref().map(DeployRecord::version);
        abandon(&mut record, state, good, self.store.now());
        let state = record.state.clone();
        self.end(record, state).await
    }

    async fn stages(
        &self,
        record: &mut DeployRecord,
        version: &mut u64,
        good: Option<&DeployRecord>,
    ) -> Result<DeployState, PipelineError> {
        loop {
            let stage = match next(record, good.map(DeployRecord::version)) {
                Next::Stage(stage) => stage,
                Next::End(state) => return Ok(state),
            };
            if record.stages.last().is_none_or(|report| report.stage != stage) {
                record.stages.push(StageReport::begin(stage, self.store.now()));
                *version = self.store.save(record, Some(*version)).await?;
            }
            self.show_last(record);
            let Some(release) = record.release() else {
                return Err(PipelineError::NoRelease { app: record.app().clone() });
            };
            let step = Cx { deployer: self, record, release, good }.stage(stage).await;
            let verdict = match &step.end {
                End::Well if step.evidence.is_empty() => Some(StageVerdict::Skipped),
                End::Well => Some(StageVerdict::Succeeded),
                End::Badly => Some(StageVerdict::Failed),
                // Its failure is no reason to try for ever.
                End::Cut(_) if stage == StageName::CleanUp => Some(StageVerdict::Failed),
                End::Cut(_) => None,
            };
            if stage == StageName::Prepare {
                record.config = step.evidence.iter().find_map(super::Evidence::config).cloned();
            }
            if let Some(report) = record.stages.last_mut() {
                match verdict {
                    Some(verdict) => report.end(verdict, step.evidence, self.store.now()),
                    None => report.evidence = step.evidence,
                }
            }
            *version = self.store.save(record, Some(*version)).await?;
            self.show_last(record);
            if let (None, End::Cut(error)) = (verdict, step.end) {
                return Err(PipelineError::Unfinished { id: record.id().clone(), stage, error });
            }
        }
    }

    fn show_last(&self, record: &DeployRecord) {
        if let Some(report) = record.stages.last() {
            self.show(&DeployProgress::Stage { record, report });
        }
    }

    /// Writes how it ended, gives the turn back, and tells the hook sets.
    async fn end(&self, mut record: DeployRecord, state: DeployState) -> Result<DeployRecord, PipelineError> {
        record.state = state;
        record.ended = Some(self.store.now());
        // The version may have been lost with a write that was dropped; the turn is still this deploy's.
        let Some((there, version)) = self.store.load(record.id()).await? else { return Ok(record) };
        if there.state.is_over() {
            return Ok(there);
        }
        let version = self.store.save(&record, Some(version)).await?;
        self.leave(&record).await?;
        self.show(&DeployProgress::Ended(&record));
        if let (Some(hooks), Some(end)) = (&self.hooks, record.end()) {
            let told = hooks.report(&record.deploy.app, &Report::DeployEnded(end), &self.deadlines).await;
            record.told = told.sets;
            match self.store.save(&record, Some(version)).await {
                Ok(_) | Err(StoreError::Moved { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(record)
    }
}

/// Ends the record of a deploy that does not go on.
fn abandon(record: &mut DeployRecord, state: DeployState, good: Option<u64>, now: scheduler_core::Timestamp) {
    record.state = cut_short(record, good, state);
    record.ended = Some(now);
    if let Some(report) = record.stages.last_mut().filter(|report| report.verdict.is_none()) {
        let evidence = std::mem::take(&mut report.evidence);
        report.end(StageVerdict::Abandoned, evidence, now);
    }
}

/// Says, as long as it lives, that this deployer works on a deploy.
struct Here<'a> {
    all: &'a Mutex<BTreeSet<DeployId>>,
    id: DeployId,
}

impl<'a> Here<'a> {
    fn enter(all: &'a Mutex<BTreeSet<DeployId>>, id: &DeployId) -> Option<Self> {
        lock(all).insert(id.clone()).then(|| Self { all, id: id.clone() })
    }
}

impl Drop for Here<'_> {
    fn drop(&mut self) {
        lock(self.all).remove(&self.id);
    }
}

fn lock(all: &Mutex<BTreeSet<DeployId>>) -> MutexGuard<'_, BTreeSet<DeployId>> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}
