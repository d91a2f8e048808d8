//! What the stages of a deploy did and saw, and what of it failed.

use std::fmt;

use scheduler_core::hooks::HookError;
use scheduler_core::{Change, ConfigRef, Exit, Revision, RunId, Target, WaitOutcome};
use serde::{Deserialize, Serialize};

use super::stage::StageName;
use crate::deliver::SetAnswer;

/// Something that a stage did or saw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Evidence {
    /// The configuration was stored for a workload.
    Stored {
        /// The workload.
        target: Target,
        /// The configuration.
        config: ConfigRef,
        /// Whether it was not there before.
        created: bool,
    },
    /// A job was run.
    Ran {
        /// The run.
        run: RunId,
        /// How waiting for it ended.
        outcome: WaitOutcome,
        /// How its container ended, if one ever started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit: Option<Exit>,
    },
    /// A process was launched.
    Launched {
        /// The workload.
        target: Target,
        /// What that changed.
        change: Change,
        /// What was launched.
        revision: Revision,
    },
    /// A process was awaited, or looked at again.
    Waited {
        /// The workload.
        target: Target,
        /// How that ended.
        outcome: WaitOutcome,
    },
    /// Routes lead to a process.
    Exposed {
        /// The workload.
        target: Target,
        /// The hosts.
        hosts: Vec<String>,
        /// The workload that had them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<Target>,
    },
    /// Hook sets were told of the cut-over.
    Told(SetAnswer),
    /// The caller's own probe looked at the release.
    Probed {
        /// What it saw.
        saw: String,
    },
    /// The release was marked as good with a process.
    MarkedHealthy {
        /// The workload.
        target: Target,
        /// What was marked.
        revision: Revision,
    },
    /// A workload was taken away.
    Deleted {
        /// The workload.
        target: Target,
        /// [`Gone`](WaitOutcome::Gone), or that it was not within its time.
        outcome: WaitOutcome,
    },
    /// Something could not be done.
    Error {
        /// The workload, if it was about one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<Target>,
        /// Why.
        error: HookError,
    },
}

/// One thing that failed in a deploy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Failure {
    /// The stage; none for what was told after the end.
    pub stage: Option<StageName>,
    /// The workload, if it is about one.
    pub target: Option<Target>,
    /// What failed, in words.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.stage {
            Some(stage) => write!(f, "{stage}: ")?,
            None => f.write_str("after the end: ")?,
        }
        match &self.target {
            Some(target) => write!(f, "{target}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl Evidence {
    /// What failed, if anything did: the workload, and words.
    pub(super) fn failure(&self) -> Option<(Option<&Target>, String)> {
        match self {
            Self::Ran { run, outcome, exit } if *outcome != WaitOutcome::Succeeded => {
                let how = match exit {
                    Some(exit) => format!("{}; exit code {}", words(outcome), exit.code),
                    None => format!("{}; no exit code", words(outcome)),
                };
                Some((Some(run.target()), how))
            }
            Self::Waited { target, outcome } if *outcome != WaitOutcome::Succeeded => {
                Some((Some(target), words(outcome)))
            }
            Self::Deleted { target, outcome } if *outcome != WaitOutcome::Gone => {
                Some((Some(target), format!("not gone: {}", words(outcome))))
            }
            Self::Told(SetAnswer { set, answer: Err(error), .. }) => Some((None, format!("hook set {set}: {error}"))),
            Self::Error { target, error } => Some((target.as_ref(), error.to_string())),
            _ => None,
        }
    }

    pub(super) fn is_failure(&self) -> bool {
        self.failure().is_some()
    }

    /// The configuration that was stored.
    pub(super) fn config(&self) -> Option<&ConfigRef> {
        match self {
            Self::Stored { config, .. } => Some(config),
            _ => None,
        }
    }

    /// The workload whose launch or wait failed.
    pub(super) fn failed_process(&self) -> Option<&Target> {
        self.failure().and_then(|(target, _)| target)
    }
}

fn words(outcome: &WaitOutcome) -> String {
    match outcome {
        WaitOutcome::Succeeded => "succeeded".to_owned(),
        WaitOutcome::Failed(diagnoses) if diagnoses.is_empty() => "failed".to_owned(),
        WaitOutcome::Failed(diagnoses) => {
            let kinds: Vec<_> = diagnoses.iter().map(|diagnosis| diagnosis.kind.words()).collect();
            format!("failed: {}", kinds.join(", "))
        }
        WaitOutcome::Stalled(counts) => format!("no progress, {} of {} ready", counts.ready, counts.desired),
        WaitOutcome::DeadlineExceeded(counts) => {
            format!("out of time, {} of {} ready", counts.ready, counts.desired)
        }
        WaitOutcome::Superseded { by } => format!("somebody else launched {}", by.short()),
        WaitOutcome::Gone => "it is gone".to_owned(),
        // The enum can grow.
        other => format!("{other:?}"),
    }
}
