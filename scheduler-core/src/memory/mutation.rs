//! Named wrong variants of the memory scheduler, by which the conformance suite itself is tested.

macro_rules! mutations {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// A named mistake. Each falsifies one decision and must be caught by the case of the clause that it breaks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[cfg_attr(not(feature = "mutation"), expect(unreachable_pub, reason = "public only with the feature"))]
        #[non_exhaustive]
        pub enum Mutation {
            $($(#[doc = $doc])* $name,)*
        }

        #[cfg(feature = "mutation")]
        impl Mutation {
            /// Every mutation.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
        }
    };
}

mutations! {
    /// Clause 2: launches onto somebody else's workload.
    ForgetsOwnerOnLaunch,
    /// Clause 2: deletes somebody else's workload.
    ForgetsOwnerOnDelete,
    /// Clause 2: `IfAbsent` updates what is there.
    ForgetsIfAbsent,
    /// Clause 2: `IfVersion` ignores that the version moved.
    ForgetsIfVersion,
    /// Clause 2: `IfVersion` creates what is absent.
    IfVersionCreates,
    /// Clause 2: `Adopt` does not report from whom it took.
    AdoptsInSilence,
    /// Clause 2: `IfAbsent` is taken for a delete's guard.
    DeletesIfAbsent,
    /// Clause 3: the revision moves with the number of replicas.
    RevisionCountsReplicas,
    /// Clause 3: the version misses somebody else's change.
    VersionMissesChange,
    /// Clause 3: a workload that is made anew has the version of the last one.
    VersionSurvivesRecreation,
    /// Clause 4: says `Unchanged` although somebody changed the image.
    HidesDrift,
    /// Clause 4: does not make a missing Service again.
    IgnoresMissingService,
    /// Clause 4: leaves a Service whose ports are gone from the workload.
    KeepsSurplusService,
    /// Clause 4: replaces the instances of an unchanged workload.
    RestartsOnRelaunch,
    /// Clause 4: writes although nothing differs.
    WritesOnRelaunch,
    /// Clause 4: takes a field that it does not render for drift.
    ForeignFieldIsDrift,
    /// Clause 4: reports an update that replaces instances as in place.
    CallsRollingInPlace,
    /// Clause 4: a change of replicas alone replaces instances.
    RollsOnScale,
    /// Clause 4: after half a launch the next one says `Unchanged`.
    ForgetsHalfLaunch,
    /// Clause 5: `Keep` sets the initial count at an update.
    KeepResetsCount,
    /// Clause 5: `Exactly` leaves a count that somebody else set.
    ExactlyKeepsCount,
    /// Clause 8: leaves the Service behind.
    DeleteLeaksService,
    /// Clause 8: says `Gone` while instances are still ending.
    GoneTooEarly,
    /// Clause 8: says `Gone` of what was never there.
    AbsentIsGone,
    /// Clause 8: launches onto what is being deleted.
    LaunchesOntoTerminating,
    /// Clause 8: takes other workloads of the namespace along.
    DeletesNeighbours,
    /// Clause 9: answers `None` when it could not look.
    ErrorIsAbsence,
    /// Clause 9: shows somebody else's workload.
    ShowsForeign,
    /// Clause 9: counts instances that merely match the selector.
    CountsForeignInstances,
    /// Clause 9: does not count instances that are on their way out.
    ForgetsTerminating,
    /// Clause 9: counts ready instances of the last revision for the new one.
    CountsOldAsReady,
    /// Clause 9: takes what it said of an earlier rollout for this one.
    KeepsStaleFailure,
    /// Clause 9: says that a rollout is complete from its start.
    CompleteFromStart,
    /// Clause 9: never gives up on a rollout.
    NeverGivesUp,
    /// Clause 9: when the deadline passes, calls the rollout complete and everything ready.
    TimeoutIsSuccess,
    /// Clause 10: reports no diagnosis for an image that cannot be pulled.
    HidesPullError,
    /// Clause 10: takes running out of memory for a crash.
    OutOfMemoryIsCrash,
    /// Clause 10: loses the exit code.
    ForgetsExitCode,
    /// Clause 12: loses a deletion in the watch.
    WatchLosesDelete,
    /// Clause 12: never says `Synced`.
    WatchNeverSyncs,
    /// Clause 12: a workload that was made anew is only `Changed`.
    WatchHidesRecreation,
    /// Clause 12: after a gap, goes on as if there had been none.
    WatchHidesGap,
    /// Clause 12: restarts decrease.
    RestartsDecrease,
    /// Clause 1: lists somebody else's workloads.
    ListsForeign,
    /// Clause 1: lists one namespace only.
    ListsOneNamespace,
    /// Clause 1: filters by the label instead of by the text of a mark.
    FiltersByLabel,
    /// Clause 17: makes a namespace that is not there.
    MakesNamespace,
}

/// The mistake that a cluster makes, if any; always none without the feature `mutation`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mutant {
    #[cfg(feature = "mutation")]
    mutation: Option<Mutation>,
}

impl Mutant {
    #[cfg(feature = "mutation")]
    pub(super) fn of(mutation: Mutation) -> Self {
        Self { mutation: Some(mutation) }
    }

    /// Whether the cluster makes this mistake.
    #[cfg(feature = "mutation")]
    pub(super) fn is(self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// Whether the cluster makes this mistake.
    #[cfg(not(feature = "mutation"))]
    #[expect(clippy::unused_self, reason = "the same call with and without the feature")]
    pub(super) fn is(self, _: Mutation) -> bool {
        false
    }
}
