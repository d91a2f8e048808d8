use std::{io, path::PathBuf, process::ExitStatus, time::Duration};

use crate::AvailabilityError;

/// Why a [`Testbed`](crate::Testbed) could not be started, or could not do what a test asked of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestbedError {
    /// The environment asks for something that is refused, or lacks what is required.
    #[error(transparent)]
    Availability(#[from] AvailabilityError),
    /// There are no servers to start. Skip the test, and say why.
    #[error("no Kubernetes control plane can be started: {0}")]
    Missing(String),
    /// The environment names a running cluster. It is used as it is; there is nothing to start.
    #[error("the environment names a running cluster ({}); unset SCHEDULER_TEST_KUBECONFIG to start a control plane", .0.display())]
    NamesCluster(PathBuf),
    /// Something on this machine failed: a file, a process, a port.
    #[error("cannot {doing}")]
    Machine {
        /// What was tried.
        doing: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// A server ended by itself.
    #[error("{program} ended while it was needed ({status}); the end of its log:\n{log}")]
    Ended {
        /// The server.
        program: &'static str,
        /// How it ended.
        status: ExitStatus,
        /// The last lines that it wrote.
        log: String,
    },
    /// Something did not come about in a generous time.
    #[error("{what} did not happen within {} s", within.as_secs())]
    TooLate {
        /// What was waited for.
        what: String,
        /// How long.
        within: Duration,
    },
    /// The API server, or the way to it, failed.
    #[error("cannot {doing}")]
    Kubernetes {
        /// What was tried, on what.
        doing: String,
        /// The client's error.
        source: Box<kube::Error>,
    },
    /// A watch that waits for something failed.
    #[error("cannot wait until {what}")]
    Wait {
        /// What was waited for.
        what: String,
        /// The watch's error.
        source: Box<kube::runtime::wait::Error>,
    },
    /// The testbed has no node of this name.
    #[error("the testbed has no node {0:?}")]
    NoSuchNode(String),
    /// The testbed was stopped.
    #[error("the testbed was stopped")]
    Stopped,
}

impl TestbedError {
    /// Turns the error of a file or process into this type; `doing` completes "cannot …".
    pub(crate) fn machine(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Machine { doing: doing.into(), source }
    }

    /// Turns a client's error into this type; `doing` completes "cannot …".
    pub(crate) fn kubernetes(doing: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Kubernetes { doing: doing.into(), source: Box::new(source) }
    }
}
