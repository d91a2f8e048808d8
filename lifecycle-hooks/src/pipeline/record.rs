//! A deploy as data: what is wanted, how far it is, what came of it.

use std::fmt;

use scheduler_core::hooks::{App, AppName, DeployEnd, Release};
use scheduler_core::{ConfigRef, Seconds, Timestamp};
use serde::{Deserialize, Serialize};

use super::evidence::{Evidence, Failure};
use super::stage::{PipelineName, StageName};
use crate::deliver::SetAnswer;

/// Names a deploy, and it alone: 1 to 64 characters, none of them control characters. The id of the event that asked for
/// it is a good one, as long as it is short.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DeployId(String);

/// A text that does not name a deploy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names no deploy: 1 to 64 characters, none of them control characters")]
pub struct DeployIdError(String);

impl DeployId {
    /// Checks `text` and wraps it.
    ///
    /// # Errors
    /// [`DeployIdError`] if it is empty, too long, or has control characters.
    pub fn new(text: impl Into<String>) -> Result<Self, DeployIdError> {
        let text = text.into();
        if (1..=64).contains(&text.chars().count()) && !text.contains(char::is_control) {
            Ok(Self(text))
        } else {
            Err(DeployIdError(text))
        }
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for DeployId {
    type Error = DeployIdError;
    fn try_from(text: String) -> Result<Self, DeployIdError> {
        Self::new(text)
    }
}

impl From<DeployId> for String {
    fn from(id: DeployId) -> Self {
        id.0
    }
}

impl fmt::Debug for DeployId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for DeployId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Asks for a deploy of the app's release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Deploy {
    /// Which deploy; the same id again goes on with it, or answers how it ended.
    pub id: DeployId,
    /// The app, with the release that is to run.
    pub app: App,
    /// By which stages.
    pub pipeline: PipelineName,
    /// How.
    #[serde(default)]
    pub options: DeployOptions,
}

impl Deploy {
    /// A deploy with the default options.
    #[must_use]
    pub fn new(id: DeployId, app: App, pipeline: PipelineName) -> Self {
        Self { id, app, pipeline, options: DeployOptions::default() }
    }

    /// Sets how.
    #[must_use]
    pub fn options(mut self, options: DeployOptions) -> Self {
        self.options = options;
        self
    }
}

/// How long a deploy may take, and what happens when something goes wrong or is in its way.
///
/// Each budget counts anew when a deploy is taken up again after a crash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct DeployOptions {
    /// How long a process may go without progress. 10 minutes.
    pub stall: Seconds,
    /// How long a process may take in all. An hour.
    pub total: Seconds,
    /// How long each job before the roll-out may take. 30 minutes.
    pub job: Seconds,
    /// How long what is taken away may take to go. 10 minutes.
    pub clean_up: Seconds,
    /// How many processes of a wave are rolled out at a time. 4; zero counts as one.
    pub at_once: u32,
    /// What is taken back when a process fails.
    pub take_back: TakeBack,
    /// What happens when a deploy of the same app goes on already.
    pub in_the_way: InTheWay,
}

impl Default for DeployOptions {
    fn default() -> Self {
        Self {
            stall: Seconds::new(600),
            total: Seconds::new(3600),
            job: Seconds::new(1800),
            clean_up: Seconds::new(600),
            at_once: 4,
            take_back: TakeBack::default(),
            in_the_way: InTheWay::default(),
        }
    }
}

impl DeployOptions {
    /// Sets how long a process may go without progress, and how long it may take in all.
    #[must_use]
    pub fn wait(mut self, stall: Seconds, total: Seconds) -> Self {
        (self.stall, self.total) = (stall, total);
        self
    }

    /// Sets how long each job before the roll-out may take.
    #[must_use]
    pub fn job(mut self, job: Seconds) -> Self {
        self.job = job;
        self
    }

    /// Sets how long what is taken away may take to go.
    #[must_use]
    pub fn clean_up(mut self, clean_up: Seconds) -> Self {
        self.clean_up = clean_up;
        self
    }

    /// Sets what is taken back when a process fails.
    #[must_use]
    pub fn take_back(mut self, take_back: TakeBack) -> Self {
        self.take_back = take_back;
        self
    }

    /// Sets what happens when a deploy of the same app goes on already.
    #[must_use]
    pub fn in_the_way(mut self, in_the_way: InTheWay) -> Self {
        self.in_the_way = in_the_way;
        self
    }
}

/// What is taken back when a process of a rolling deploy fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TakeBack {
    /// Everything: no further wave begins, and all processes of the last good release run again.
    #[default]
    All,
    /// Each process that failed, alone: all waves are rolled out, and the other processes stay on the new release. The
    /// deploy has failed all the same, and nothing is cut over.
    Each,
}

/// What happens to a deploy when one of the same app goes on already. An older release never takes the place of a newer one,
/// nor runs after it: such a deploy ends as [`Superseded`](DeployState::Superseded).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum InTheWay {
    /// The older one ends where it is; what it left is this one's to repair.
    #[default]
    Supersede,
    /// It waits until the older one has ended.
    Queue,
    /// It ends as [`Refused`](DeployState::Refused).
    Refuse,
}

/// A deploy: what was asked for, how far it is, and what came of it.
///
/// Its written form is kept by stores, and is read by later versions of this library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct DeployRecord {
    /// What was asked for.
    pub deploy: Deploy,
    /// How far it is.
    pub state: DeployState,
    /// The stages that were begun, in that order; then, if something is taken back, [`StageName::RollBack`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageReport>,
    /// The release's configuration, once it is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<ConfigRef>,
    /// The last good deploy, from which this one took over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub good: Option<DeployId>,
    /// What hook sets answered when they were told of the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub told: Vec<SetAnswer>,
    /// When it was asked for, by the store's clock.
    pub started: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
}

/// How far a deploy is, or how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum DeployState {
    /// It waits for its turn.
    Waiting,
    /// It goes on; a worker that died may have left it.
    Running,
    /// The release runs. What its clean-up could not do is told in that stage's report.
    Succeeded,
    /// The release does not run, or not as it should.
    Failed {
        /// The release that all processes run now instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rolled_back_to: Option<u64>,
    },
    /// A deploy of this release took its place.
    Superseded {
        /// The release.
        by: u64,
    },
    /// Another deploy was in its way, and it was not to wait.
    Refused {
        /// That deploy.
        by: DeployId,
    },
    /// The app was destroyed.
    AppGone,
}

impl DeployState {
    /// Whether nothing more will happen.
    #[must_use]
    pub fn is_over(&self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }
}

/// What came of one stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct StageReport {
    /// Which stage.
    pub stage: StageName,
    /// What came of it; none while it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<StageVerdict>,
    /// What was done and seen, in the order of the processes. Of a stage that was begun again after a crash, only what came
    /// of it then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// When it began, by the store's clock.
    pub started: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
}

impl StageReport {
    pub(super) fn begin(stage: StageName, now: Timestamp) -> Self {
        Self { stage, verdict: None, evidence: Vec::new(), started: now, ended: None }
    }

    pub(super) fn end(&mut self, verdict: StageVerdict, evidence: Vec<Evidence>, now: Timestamp) {
        (self.verdict, self.evidence, self.ended) = (Some(verdict), evidence, Some(now));
    }
}

/// What came of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StageVerdict {
    /// All was done.
    Succeeded,
    /// Something failed; the evidence says what.
    Failed,
    /// There was nothing to do.
    Skipped,
    /// The deploy ended while the stage went on.
    Abandoned,
}

impl DeployRecord {
    pub(super) fn new(deploy: Deploy, now: Timestamp) -> Self {
        Self {
            deploy,
            state: DeployState::Waiting,
            stages: Vec::new(),
            config: None,
            good: None,
            told: Vec::new(),
            started: now,
            ended: None,
        }
    }

    /// Which deploy.
    #[must_use]
    pub fn id(&self) -> &DeployId {
        &self.deploy.id
    }

    /// Of which app.
    #[must_use]
    pub fn app(&self) -> &AppName {
        &self.deploy.app.name
    }

    /// The release that is to run.
    #[must_use]
    pub fn release(&self) -> Option<&Release> {
        self.deploy.app.release.as_ref()
    }

    /// The number of the release; zero without one.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.release().map_or(0, |release| release.version)
    }

    /// The report of a stage, if it was begun.
    #[must_use]
    pub fn stage(&self, stage: StageName) -> Option<&StageReport> {
        self.stages.iter().find(|report| report.stage == stage)
    }

    /// Everything that failed, in all stages and in the hooks that were told of the end. A deploy that succeeded may have
    /// some: of its clean-up, and of those hooks.
    #[must_use]
    pub fn failures(&self) -> Vec<Failure> {
        let of_stage = |report: &StageReport| {
            let stage = report.stage;
            let failure = move |evidence: &Evidence| {
                let (target, what) = evidence.failure()?;
                Some(Failure { stage: Some(stage), target: target.cloned(), what })
            };
            report.evidence.iter().filter_map(failure).collect::<Vec<_>>()
        };
        let after = self.told.iter().filter_map(|told| {
            let error = told.answer.as_ref().err()?;
            Some(Failure { stage: None, target: None, what: format!("hook set {}: {error}", told.set) })
        });
        self.stages.iter().flat_map(of_stage).chain(after).collect()
    }

    /// What hooks are told of the end; `None` before it.
    #[must_use]
    pub fn end(&self) -> Option<DeployEnd> {
        let mut end = DeployEnd::new(self.version(), self.state == DeployState::Succeeded);
        let failures = || {
            let failures: Vec<_> = self.failures().iter().map(ToString::to_string).collect();
            failures.join("; ")
        };
        end.reason = match &self.state {
            DeployState::Waiting | DeployState::Running => return None,
            DeployState::Succeeded => None,
            DeployState::Failed { rolled_back_to } => {
                end.rolled_back_to = *rolled_back_to;
                Some(failures())
            }
            DeployState::Superseded { by } => Some(format!("release {by} took its place")),
            DeployState::Refused { by } => Some(format!("deploy {by} went on")),
            DeployState::AppGone => Some("the app was destroyed".to_owned()),
        };
        Some(end)
    }
}
