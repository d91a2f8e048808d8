//! Which stages there are, in which order, and what comes after what. Pure.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::record::{DeployRecord, DeployState, StageVerdict};
use crate::desired::Naming;

/// A pipeline: an ordered list of stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PipelineName {
    /// Launches each process and waits for none. Succeeded means launched. Nothing is taken back, and nothing is cleaned up.
    LaunchOnly,
    /// Each release is a stack of its own ([`StackName`](scheduler_core::StackName)) beside the last; it is launched, awaited,
    /// given the requests, and the old stack is retired. If it fails, the new stack is deleted.
    Canopus,
    /// Processes keep their names, and the new release is rolled out over the last. If it fails, the last good release is
    /// launched again.
    Full,
}

/// A part of a deploy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum StageName {
    /// Checks the release, and stores its configuration for each process and each job.
    Prepare,
    /// Runs the release's jobs, one after the other. One that ends badly, or never starts, fails the stage.
    Before,
    /// Launches all processes, and waits for none.
    Launch,
    /// Waits until all processes are healthy.
    Await,
    /// Launches the processes in waves, the front one last, and waits until each wave is healthy.
    RollOut,
    /// Routes lead to the new release, and hook sets are told.
    CutOver,
    /// Looks at every process again, asks the caller's own probe, and marks the release as good.
    Verify,
    /// Takes away what ran before and does not belong to the release: processes that it has no more, the old stack, runs of
    /// jobs. Its failure does not change how the deploy ends.
    CleanUp,
    /// Takes back what failed.
    RollBack,
}

impl PipelineName {
    /// All pipelines.
    pub const ALL: &'static [Self] = &[Self::LaunchOnly, Self::Canopus, Self::Full];

    /// Its stages, in their order. [`StageName::RollBack`] is not among them: it follows a failure.
    #[must_use]
    pub fn stages(self) -> &'static [StageName] {
        use StageName as S;
        match self {
            Self::LaunchOnly => &[S::Prepare, S::Before, S::Launch, S::CutOver],
            Self::Canopus => &[S::Prepare, S::Before, S::Launch, S::Await, S::CutOver, S::CleanUp],
            Self::Full => &[S::Prepare, S::Before, S::RollOut, S::CutOver, S::Verify, S::CleanUp],
        }
    }

    /// How its workloads are named.
    #[must_use]
    pub fn naming(self) -> Naming {
        match self {
            Self::Canopus => Naming::Stack,
            Self::LaunchOnly | Self::Full => Naming::Process,
        }
    }

    /// Its name as text.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LaunchOnly => "launch-only",
            Self::Canopus => "canopus",
            Self::Full => "full",
        }
    }

    /// Whether the failure of a stage leaves something that must be taken back.
    fn takes_back(self, failed: StageName) -> bool {
        use StageName as S;
        match self {
            Self::LaunchOnly => false,
            // Configurations of the new stack are there from the first stage on.
            Self::Canopus => matches!(failed, S::Before | S::Launch | S::Await | S::CutOver),
            Self::Full => matches!(failed, S::RollOut | S::CutOver | S::Verify),
        }
    }
}

impl fmt::Display for PipelineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that names no pipeline.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no pipeline; there are launch-only, canopus and full")]
pub struct UnknownPipeline(String);

impl FromStr for PipelineName {
    type Err = UnknownPipeline;

    fn from_str(text: &str) -> Result<Self, UnknownPipeline> {
        Self::ALL.iter().copied().find(|name| name.as_str() == text).ok_or_else(|| UnknownPipeline(text.to_owned()))
    }
}

impl fmt::Display for StageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prepare => "prepare",
            Self::Before => "before",
            Self::Launch => "launch",
            Self::Await => "await",
            Self::RollOut => "roll-out",
            Self::CutOver => "cut-over",
            Self::Verify => "verify",
            Self::CleanUp => "clean-up",
            Self::RollBack => "roll-back",
        })
    }
}

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Stage(StageName),
    End(DeployState),
}

/// What comes next for a deploy whose turn it is. `last_good`: the release that a roll-back goes back to.
pub(super) fn next(record: &DeployRecord, last_good: Option<u64>) -> Next {
    let pipeline = record.deploy.pipeline;
    let verdict = |stage| record.stage(stage).and_then(|report| report.verdict);
    let stages = pipeline.stages().iter().copied();
    let failed = stages.clone().find(|stage| {
        *stage != StageName::CleanUp && matches!(verdict(*stage), Some(StageVerdict::Failed | StageVerdict::Abandoned))
    });
    if let Some(failed) = failed {
        return match verdict(StageName::RollBack) {
            None if pipeline.takes_back(failed) => Next::Stage(StageName::RollBack),
            Some(StageVerdict::Succeeded) if all_taken_back(record) => {
                Next::End(DeployState::Failed { rolled_back_to: last_good })
            }
            _ => Next::End(DeployState::Failed { rolled_back_to: None }),
        };
    }
    match stages.clone().find(|stage| verdict(*stage).is_none()) {
        Some(stage) => Next::Stage(stage),
        None => Next::End(DeployState::Succeeded),
    }
}

/// Whether nothing of the release is meant to stay after a roll-back.
fn all_taken_back(record: &DeployRecord) -> bool {
    record.deploy.options.take_back == super::TakeBack::All || record.deploy.pipeline != PipelineName::Full || {
        let failed = |stage| record.stage(stage).is_some_and(|report| report.verdict == Some(StageVerdict::Failed));
        !failed(StageName::RollOut)
    }
}

/// How a deploy ends that does not go on: what is left of a deploy whose clean-up had begun succeeded all the same.
pub(super) fn cut_short(record: &DeployRecord, last_good: Option<u64>, state: DeployState) -> DeployState {
    match next(record, last_good) {
        Next::Stage(StageName::CleanUp) => DeployState::Succeeded,
        Next::End(end) => end,
        Next::Stage(_) => state,
    }
}
