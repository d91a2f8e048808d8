use std::io;

/// Why a [`FakeNomad`](crate::FakeNomad) could not be started, or could not do what a test asked of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FakeError {
    /// Something on this machine failed: a port, a thread.
    #[error("cannot {doing}")]
    Machine {
        /// What was tried.
        doing: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
    /// There is no node of this name.
    #[error("there is no node {name}; the nodes are {}", .known.join(", "))]
    NoSuchNode {
        /// The name that was asked for.
        name: String,
        /// The nodes that there are.
        known: Vec<String>,
    },
}

impl FakeError {
    pub(crate) fn machine(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Machine { doing, source }
    }
}
