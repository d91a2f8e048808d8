//! What a backend brings along, so that the suite can be run on it.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;

use crate::memory::Fate;
use crate::{Capabilities, Namespace, OwnerId, Scheduler, Target, Workload};

/// Why a case failed, for the person who reads the report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
#[expect(clippy::exhaustive_structs, reason = "it is only a text")]
pub struct Failure(pub String);

impl From<crate::Error> for Failure {
    fn from(error: crate::Error) -> Self {
        Self(format!("unexpected error: {error}"))
    }
}

/// How a case ended.
pub type Outcome = Result<(), Failure>;

/// A backend that the suite can be run on.
pub trait Harness: Debug + Send + Sync + 'static {
    /// The capabilities that a scheduler of this backend has. Called without a server, to decide what is skipped.
    fn capabilities(&self) -> Capabilities;

    /// Changes a workload so that its main container meets this fate. `tag` makes two images of one fate differ.
    fn fate(&self, workload: Workload, fate: Fate, tag: &str) -> Workload;

    /// How fast things happen here.
    fn timing(&self) -> Timing;

    /// Runs a case to its end, on a runtime of this harness's choice.
    fn run(&self, case: BoxFuture<'static, Outcome>) -> Outcome;

    /// Why this harness cannot do something that a few cases need, if it cannot: its platform has nothing of the kind.
    /// Those cases are skipped with that reason.
    fn lacks(&self, hand: Hand) -> Option<String> {
        let _ = hand;
        None
    }

    /// Makes a world for one case: an empty namespace in which instances can be made at once. Called from within
    /// [`run`](Self::run).
    fn world(&self) -> BoxFuture<'static, Result<Arc<dyn World>, Failure>>;
}

/// Something that a few cases need of a harness, and that not every platform has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Hand {
    /// [`Disturbance::RemoveService`]: the Service is an object of its own.
    RemoveService,
    /// [`Disturbance::MakeForeignInstance`]: instances belong to a workload by what they bear, so that others can match.
    MakeForeignInstance,
    /// [`Disturbance::LoseNode`]: there are several nodes, and one can be lost.
    LoseNode,
    /// [`Fate::OutOfMemory`]: a container can be killed for its memory.
    OutOfMemory,
    /// A container writes `start <n>` with the count of its restarts when it starts, `tick <k>` from zero each half second
    /// while it runs, and `end` when it ends by itself.
    KnownOutput,
    /// The image alone decides a container's fate, so that sidecars and init containers have one too.
    ImageFates,
}

/// How fast things happen on a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timing {
    /// A progress deadline, in seconds, that a good rollout keeps easily, one that takes a third of it by itself
    /// included, and that a case can afford to wait for. At least 4.
    pub patience: u32,
    /// The longest that anything may take to settle, patience included. At least half a minute: some cases wait for a
    /// container to be started again a few times.
    pub settle: Duration,
    /// How often a case looks.
    pub poll: Duration,
}

impl Timing {
    /// These times.
    #[must_use]
    pub fn new(patience: u32, settle: Duration, poll: Duration) -> Self {
        Self { patience, settle, poll }
    }
}

/// A place for one case: an empty namespace, shared with nobody, and hands that reach behind the scheduler's back.
#[async_trait]
pub trait World: Debug + Send + Sync + 'static {
    /// The namespace: no other world has it at the same time, and it has at most 60 characters, since the suite makes
    /// the names of owners from it.
    fn namespace(&self) -> Namespace;

    /// A second namespace, equally empty.
    async fn second_namespace(&self) -> Result<Namespace, Failure>;

    /// A scheduler for this owner, over a client of its own.
    fn scheduler(&self, owner: &OwnerId) -> Arc<dyn Scheduler>;

    /// Does something behind the scheduler's back.
    async fn disturb(&self, target: &Target, disturbance: Disturbance) -> Result<(), Failure>;

    /// Every native object of the namespace that could be ours (not the platform's own), as `Kind/name`, in order, each
    /// with a token that changes whenever somebody writes its specification or its metadata; bookkeeping of the
    /// platform's own controllers does not count. Instances are not among them.
    async fn objects(&self) -> Result<Vec<(String, String)>, Failure>;

    /// The ids of the instances in the namespace that have not ended, whosever they are.
    async fn instances(&self) -> Result<Vec<String>, Failure>;

    /// From now on, lets the request number `nth` (from 1) of this world's schedulers meet this fault, once. Takes the
    /// place of an earlier one that was not met.
    fn inject(&self, nth: u32, fault: Injection);

    /// Whether the last injected fault has been met; if it lets its request take effect, then that has happened.
    fn injected(&self) -> bool;
}

/// Something that happens behind the scheduler's back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disturbance {
    /// Somebody sets the main container's image in the main object.
    SetImage(String),
    /// Somebody sets the number of instances.
    SetReplicas(u32),
    /// Somebody adds an annotation that no launch renders.
    AddAnnotation,
    /// Somebody deletes the Service.
    RemoveService,
    /// Somebody makes a workload of this name, with this owner's mark or none, such that it can be taken over, and with
    /// no object besides the main one.
    MakeForeign(Option<OwnerId>),
    /// Somebody makes a bare instance whose labels match the workload's selector.
    MakeForeignInstance,
    /// The node of one of the instances stops answering, for good; there are others.
    LoseNode,
    /// Open watches miss something: the next that they say comes after a gap.
    BreakWatches,
}

/// A fault between a scheduler and its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Injection {
    /// The server answers 503, asks to be left alone for a second (`Retry-After`), and does nothing.
    Refuse,
    /// The server answers 429, asks to be left alone for a second (`Retry-After`), and does nothing.
    Throttle,
    /// The server answers 500 and does nothing.
    Fail,
    /// The connection is cut before the request takes effect.
    Reset,
    /// The request takes effect, and the connection is cut before the answer.
    LoseAnswer,
    /// The request takes effect, and no answer ever comes.
    Hang,
    /// The server answers 403 and does nothing.
    Forbid,
}
