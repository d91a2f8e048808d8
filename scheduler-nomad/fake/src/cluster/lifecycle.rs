//! In which order the tasks of an allocation run.

use super::objects::{TaskPhase, TaskState};
use crate::job::Task;

/// When a task runs, next to the main ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Main,
    Prestart { sidecar: bool },
    Poststart { sidecar: bool },
    Poststop,
}

impl Role {
    pub(crate) fn of(task: &Task) -> Self {
        let Some(lifecycle) = &task.lifecycle else { return Self::Main };
        let sidecar = lifecycle.sidecar;
        match lifecycle.hook.as_str() {
            "prestart" => Self::Prestart { sidecar },
            "poststart" => Self::Poststart { sidecar },
            _ => Self::Poststop,
        }
    }

    /// It is to end by itself, and successful when it does so without an error.
    pub(crate) fn is_once(self) -> bool {
        matches!(self, Self::Prestart { sidecar: false } | Self::Poststart { sidecar: false } | Self::Poststop)
    }

    pub(crate) fn is_sidecar(self) -> bool {
        matches!(self, Self::Prestart { sidecar: true } | Self::Poststart { sidecar: true })
    }

    /// Whether its turn has come.
    pub(crate) fn may_start<'a>(self, all: impl IntoIterator<Item = (Self, &'a TaskState)>) -> bool {
        all.into_iter().all(|(role, state)| match (self, role) {
            (Self::Main, Self::Prestart { sidecar: true }) => state.started_at.is_some(),
            (Self::Main, Self::Prestart { sidecar: false }) => state.state == TaskPhase::Dead && !state.failed,
            (Self::Poststart { .. }, Self::Main) => state.state == TaskPhase::Running,
            (Self::Poststop, Self::Main) => state.state == TaskPhase::Dead,
            _ => true,
        })
    }

    /// Whether a task in this state lets its allocation be healthy.
    pub(crate) fn is_well(self, state: &TaskState) -> bool {
        match self {
            Self::Poststop => true,
            _ if self.is_once() => state.state == TaskPhase::Dead && !state.failed,
            _ => state.state == TaskPhase::Running,
        }
    }
}
