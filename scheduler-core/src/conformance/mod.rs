//! The conformance suite: one contract, checked on every backend.
//!
//! Each [`Case`] is one sentence of the contract of [`Scheduler`](crate::Scheduler), tried on a world of its own. A
//! backend brings a [`Harness`]: how a world is made, how a container can be made to fail, and hands that reach behind
//! the scheduler's back. [`MemoryHarness`] is the example to start from.
//!
//! # Running it
//!
//! In a test target with `harness = false`:
//!
//! ```no_run
//! use std::sync::Arc;
//! use scheduler_core::conformance::{MemoryHarness, libtest_mimic, trials};
//!
//! fn main() {
//!     let arguments = libtest_mimic::Arguments::from_args();
//!     // Your own harness in its place:
//!     let harness = Arc::new(MemoryHarness::new());
//!     libtest_mimic::run(&arguments, trials(harness)).exit();
//! }
//! ```
//!
//! Every case is a test of its own, and can be chosen by its name: `cargo test --test conformance -- delete/`. A case
//! that needs a [`Feature`] which [`Harness::capabilities`] answers with a "no", or a [`Hand`] that the harness
//! [lacks](Harness::lacks), is reported as ignored, with the reason.
//!
//! # What is checked
//!
//! | ids | clause | |
//! |---|---|---|
//! | `owner/`, `namespace/` | 1, 17 | whose a workload is, finding it again, namespaces |
//! | `guard/` | 2 | under which condition a change is made |
//! | `revision/`, `version/` | 3 | what was launched, and the token for compare-and-set |
//! | `launch/` | 4 | *ensure*: unchanged, drift, effects |
//! | `replicas/` | 5 | how many instances |
//! | `delete/` | 8 | deleting step by step |
//! | `status/` | 9 | what is observed, and the verdict |
//! | `diagnosis/` | 10 | what is wrong, with evidence |
//! | `wait/` | 11 | how waiting ends |
//! | `watch/` | 12 | what a watch tells |
//! | `faults/` | all | requests that fail, each in turn, and operations that are repeated then |
//! | `cancel/` | 19 | futures that are dropped, at each request in turn |
//! | `ops/` | | operations as data |
//! | `sequence/`, `fields/` | | generated sequences, and a change of each field, compared with the memory scheduler |
//!
//! # Names
//!
//! An id is `<topic>/<what holds>`, and stays the same for as long as the case means the same. **What a case does is
//! not covered by semantic versioning:** a new version of this crate may have more cases and stricter ones, so that a
//! backend that passed may fail. That is then a defect of one of the two.
//!
//! # Writing a harness
//!
//! * A world's namespace is empty at its start and shared with nobody. Cases run in parallel, unless you run them with
//!   `--test-threads 1`.
//! * A case waits by looking every [`Timing::poll`] until [`Timing::settle`] has passed, on tokio's clock. Nothing
//!   depends on exact instants. Choose [`Timing::patience`] as short as a good rollout under load still keeps.
//! * [`Disturbance`]s and [`Injection`]s happen below the scheduler: between it and its server, or at the server.
//! * What a platform has nothing of is said by [`Harness::lacks`]. A harness may answer any other disturbance that it cannot
//!   bring about with a [`Failure`]; then the case fails, as it should: a part of the contract was not checked.

mod cases;
mod changing;
mod ctx;
mod fields;
mod harness;
mod memory;
mod sequence;

use std::fmt;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
pub use libtest_mimic;
use libtest_mimic::{Completion, Trial};

pub use harness::{Disturbance, Failure, Hand, Harness, Injection, Outcome, Timing, World};
pub use memory::MemoryHarness;
pub use sequence::run_sequence;

use crate::{Capabilities, Feature, Support};
use ctx::Ctx;

/// How many times the longest settling a case may take, after which it counts as hung.
const MOST_SETTLES: u32 = 20;

/// One sentence of the contract, and how to try it.
#[derive(Clone)]
pub struct Case {
    id: &'static str,
    clause: u8,
    about: &'static str,
    needs: &'static [Feature],
    hands: &'static [Hand],
    body: fn(Ctx) -> BoxFuture<'static, Outcome>,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("id", &self.id).field("clause", &self.clause).finish_non_exhaustive()
    }
}

impl Case {
    /// Its stable name, `<topic>/<what holds>`.
    #[must_use]
    pub fn id(&self) -> &'static str {
        self.id
    }

    /// The clause of the contract that it checks, as they are numbered in the project's design; 0 for what holds for
    /// all operations, or of all clauses together.
    #[must_use]
    pub fn clause(&self) -> u8 {
        self.clause
    }

    /// What holds, in a sentence.
    #[must_use]
    pub fn about(&self) -> &'static str {
        self.about
    }

    /// What a backend must be able to do for the case to make sense, besides the required operations.
    #[must_use]
    pub fn needs(&self) -> &'static [Feature] {
        self.needs
    }

    /// What a harness must be able to do for the case to make sense, besides what every harness can.
    #[must_use]
    pub fn hands(&self) -> &'static [Hand] {
        self.hands
    }

    /// Why the case makes no sense with a harness, if it does not: its backend or itself cannot do what is needed.
    #[must_use]
    pub fn skipped_with(&self, harness: &dyn Harness) -> Option<String> {
        let lacking = || self.hands.iter().find_map(|hand| harness.lacks(*hand));
        self.skipped_on(&harness.capabilities()).or_else(lacking)
    }

    /// Why the case makes no sense on a backend, if it does not.
    #[must_use]
    pub fn skipped_on(&self, capabilities: &Capabilities) -> Option<String> {
        self.needs.iter().find_map(|feature| match capabilities.support(*feature) {
            Support::Yes => None,
            Support::No(reason) => Some(format!("{feature}: {reason}")),
        })
    }

    /// Tries it, in a new world of this harness. Does not ask whether it makes sense.
    ///
    /// # Errors
    /// [`Failure`] with the sentence that does not hold, and what was seen instead.
    pub fn run(&self, harness: &Arc<dyn Harness>) -> Outcome {
        let (body, within) = (self.body, harness.timing().settle * MOST_SETTLES);
        let own = Arc::clone(harness);
        let case = async move {
            let whole = async { body(Ctx::new(own).await?).await };
            tokio::time::timeout(within, whole)
                .await
                .unwrap_or_else(|_| Err(Failure(format!("it hung: nothing came within {} s", within.as_secs()))))
        };
        harness
            .run(case.boxed())
            .map_err(|Failure(seen)| Failure(format!("clause {}: {}\n{seen}", self.clause, self.about)))
    }
}

/// Every case, in the order of the clauses' topics.
#[must_use]
pub fn cases() -> Vec<Case> {
    cases::ALL.iter().flat_map(|topic| topic.iter().cloned()).collect()
}

/// Every case as a test of its own, for [`libtest_mimic::run`].
#[must_use]
pub fn trials(harness: Arc<dyn Harness>) -> Vec<Trial> {
    let trial = |case: Case| {
        let skip = case.skipped_with(&*harness);
        let harness = Arc::clone(&harness);
        Trial::ignorable_test(case.id, move || match skip {
            Some(reason) => Ok(Completion::ignored_with(reason)),
            None => case.run(&harness).map(|()| Completion::Completed).map_err(Into::into),
        })
    };
    cases().into_iter().map(trial).collect()
}

/// More generated sequences, each a test of its own, for long runs: those of the seeds that the environment variable
/// `SCHEDULER_SOAK` names as `<first>..<end>`; none without it. A failure tells its seed.
///
/// # Errors
/// When the variable is no such range.
pub fn soak(harness: &Arc<dyn Harness>) -> Result<Vec<Trial>, Failure> {
    let Ok(range) = std::env::var("SCHEDULER_SOAK") else { return Ok(Vec::new()) };
    let seeds = range.split_once("..").and_then(|(first, end)| Some((first.parse().ok()?, end.parse().ok()?)));
    let (first, end): (u64, u64) = seeds
        .ok_or_else(|| Failure(format!("SCHEDULER_SOAK is {range:?}, not a range of seeds such as 1000..1050")))?;
    let trial = |seed: u64| {
        let harness = Arc::clone(harness);
        Trial::test(format!("soak/{seed}"), move || run_sequence(&harness, seed).map_err(Into::into))
    };
    Ok((first..end).map(trial).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::cases;

    #[test]
    fn ids_are_unique_and_every_clause_of_these_operations_has_a_case() {
        let cases = cases();
        let ids: BTreeSet<_> = cases.iter().map(|case| case.id).collect();
        assert_eq!(ids.len(), cases.len());
        let clauses: BTreeSet<_> = cases.iter().map(|case| case.clause).collect();
        assert_eq!(clauses, (0..=19).collect());
    }
}
