//! Several hook sets, told in a defined order.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use scheduler_core::hooks::{App, Event, HookError, HookName, LifecycleHooks, Outcome, Report, Validation};
use scheduler_core::{Fault, Support};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::Proposal;

/// Hook sets in their order. Clones share the sets.
///
/// What builds up is told from the first to the last, so that a later set finds what an earlier one made. What takes away
/// (`post_app_destroy`, `post_domain_remove`, `post_certificate_detach`, `post_volume_delete`) is told from the last to the
/// first.
///
/// A hook that panics, or does not answer within its [deadline](Deadlines), has failed like any other; it takes nobody
/// with it (unless panics abort the process). A deadline cannot stop a hook that blocks its thread.
#[derive(Clone, Debug, Default)]
pub struct HookSets {
    sets: Arc<[Named]>,
}

#[derive(Debug)]
struct Named {
    name: String,
    hooks: Arc<dyn LifecycleHooks>,
}

/// Two hook sets have one name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("two hook sets are called {0:?}; records could not tell them apart")]
pub struct DuplicateName(pub String);

impl HookSets {
    /// These sets in this order.
    ///
    /// # Errors
    /// When two of them have the same name.
    pub fn new(sets: Vec<Arc<dyn LifecycleHooks>>) -> Result<Self, DuplicateName> {
        let mut names = BTreeSet::new();
        let mut named = Vec::new();
        for hooks in sets {
            let name = hooks.name().to_owned();
            if !names.insert(name.clone()) {
                return Err(DuplicateName(name));
            }
            named.push(Named { name, hooks });
        }
        Ok(Self { sets: named.into() })
    }

    /// Which sets do something about a hook, and why the others do not: by their names, in their order.
    #[must_use]
    pub fn supports(&self, hook: HookName) -> Vec<(String, Support)> {
        self.sets.iter().map(|set| (set.name.clone(), set.hooks.supports(hook))).collect()
    }

    /// Tells an event to one set after the other. It stops at the first that fails or [defers](Outcome::Deferred): those
    /// behind it may need what it has not done. When the event is told again, it begins with the first.
    ///
    /// Cancel safe as hooks are: told again, they do the rest.
    pub async fn tell(&self, event: &Event, deadlines: &Deadlines) -> Told {
        let hook = event.hook();
        let mut told = Told::default();
        for set in self.in_order(hook) {
            let answer = guarded(hook, &event.app, deadlines, event.tell(&*set.hooks)).await;
            let goes_on = matches!(&answer, Ok(outcome) if !matches!(outcome, Outcome::Deferred { .. }));
            told.sets.push(SetAnswer { set: set.name.clone(), answer });
            if !goes_on {
                break;
            }
        }
        told
    }

    /// Tells a report to every set, whatever the others answer: nobody tells it again.
    pub async fn report(&self, app: &App, report: &Report, deadlines: &Deadlines) -> Told {
        let hook = report.hook();
        let mut told = Told::default();
        for set in self.in_order(hook) {
            let answer = guarded(hook, app, deadlines, report.tell(app, &*set.hooks)).await;
            told.sets.push(SetAnswer { set: set.name.clone(), answer });
        }
        told
    }

    /// Asks every set for [`reconcile_app`](LifecycleHooks::reconcile_app), but the one of this name. The failure of one does
    /// not hold up the next.
    pub async fn reconcile(&self, app: &App, but: Option<&str>, deadlines: &Deadlines) -> Told {
        let hook = HookName::ReconcileApp;
        let mut told = Told::default();
        for set in self.sets.iter().filter(|set| but != Some(&set.name)) {
            let answer = guarded(hook, app, deadlines, set.hooks.reconcile_app(app)).await;
            told.sets.push(SetAnswer { set: set.name.clone(), answer });
        }
        told
    }

    /// Asks every set whether a change may be committed.
    ///
    /// # Errors
    /// [`Vetoed`](Refusal::Vetoed) with every veto. Without one, [`Unknown`](Refusal::Unknown) if a set could not judge: it
    /// never passes for a yes.
    pub async fn validate(&self, proposal: &Proposal<'_>, deadlines: &Deadlines) -> Result<(), Refusal> {
        let (mut vetoes, mut unknown) = (Vec::new(), None);
        for set in &*self.sets {
            let judged = guarded(proposal.hook(), proposal.app(), deadlines, proposal.ask(&*set.hooks)).await;
            match judged {
                Ok(Validation::Vetoed(faults)) => vetoes.push(Veto { set: set.name.clone(), faults }),
                Ok(_) => {}
                Err(error) => unknown = unknown.or(Some(Refusal::Unknown { set: set.name.clone(), error })),
            }
        }
        match (vetoes.is_empty(), unknown) {
            (false, _) => Err(Refusal::Vetoed(vetoes)),
            (true, Some(unknown)) => Err(unknown),
            (true, None) => Ok(()),
        }
    }

    fn in_order(&self, hook: HookName) -> Box<dyn Iterator<Item = &Named> + Send + '_> {
        use HookName as N;
        match hook {
            N::PostAppDestroy | N::PostDomainRemove | N::PostCertificateDetach | N::PostVolumeDelete => {
                Box::new(self.sets.iter().rev())
            }
            _ => Box::new(self.sets.iter()),
        }
    }
}

/// Turns a panic and a missing answer into errors.
async fn guarded<T>(
    hook: HookName,
    app: &App,
    deadlines: &Deadlines,
    call: impl Future<Output = Result<T, HookError>> + Send,
) -> Result<T, HookError> {
    let deadline = deadlines.of(hook);
    match timeout(deadline, AssertUnwindSafe(call).catch_unwind()).await {
        Ok(Ok(answer)) => answer,
        // It may have met something that passes; a defect that stays is parked after some attempts.
        Ok(Err(panic)) => {
            Err(HookError::transient(format!("{hook} of {} panicked: {}", app.name, words(panic.as_ref()))))
        }
        Err(_) => Err(HookError::transient(format!(
            "{hook} of {} did not answer within {} s; it was dropped, and is to do the rest when it is told again",
            app.name,
            deadline.as_secs_f32()
        ))),
    }
}

/// What a panic said.
fn words(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(words), _) => words,
        (None, Some(words)) => words,
        (None, None) => "it said nothing",
    }
}

/// How long hooks may take. One minute each, and an hour for `post_release_create`, which may be a whole deploy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlines {
    each: Duration,
    of: BTreeMap<HookName, Duration>,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self::each(Duration::from_secs(60)).hook(HookName::PostReleaseCreate, Duration::from_secs(60 * 60))
    }
}

impl Deadlines {
    /// So long for each hook.
    #[must_use]
    pub fn each(each: Duration) -> Self {
        Self { each, of: BTreeMap::new() }
    }

    /// So long for this one.
    #[must_use]
    pub fn hook(mut self, hook: HookName, deadline: Duration) -> Self {
        self.of.insert(hook, deadline);
        self
    }

    /// How long this hook may take.
    #[must_use]
    pub fn of(&self, hook: HookName) -> Duration {
        self.of.get(&hook).copied().unwrap_or(self.each)
    }
}

/// What the sets answered, in the order in which they were asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Told {
    /// One answer for each set that was asked.
    pub sets: Vec<SetAnswer>,
}

/// What one set answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SetAnswer {
    /// The set's name.
    pub set: String,
    /// Its answer.
    pub answer: Result<Outcome, HookError>,
}

impl Told {
    /// What the answers come to: the first error, with the set's name; otherwise the weightiest outcome
    /// ([`Outcome::and`]). [`NotSupported`](Outcome::NotSupported) only if no set did anything about it.
    ///
    /// # Errors
    /// The first one's.
    pub fn verdict(&self) -> Result<Outcome, HookError> {
        let mut verdict: Option<Outcome> = None;
        for SetAnswer { set, answer } in &self.sets {
            let outcome = answer.clone().map_err(|error| error.context(set))?;
            verdict = Some(match verdict {
                Some(before) => before.and(outcome),
                None => outcome,
            });
        }
        Ok(verdict.unwrap_or_else(|| Outcome::NotSupported { reason: "there is no hook set".to_owned() }))
    }
}

/// Why a change is not to be committed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Refusal {
    /// Sets spoke against it.
    #[error("refused: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Vetoed(Vec<Veto>),
    /// A set could not judge it. The change may be proposed again.
    #[error("{set} could not judge it: {error}")]
    Unknown {
        /// The set's name.
        set: String,
        /// Why.
        error: HookError,
    },
}

/// What one set has against a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{set}: {}", .faults.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
#[non_exhaustive]
pub struct Veto {
    /// The set's name.
    pub set: String,
    /// Each thing that is wrong.
    pub faults: Vec<Fault>,
}
