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
    /// Clause 4: says that nothing took effect when a later request of an operation fails.
    HalfIsUnavailable,
    /// Clause 4: says that nothing took effect when the answer to a write is lost.
    LostAnswerIsUnavailable,
    /// Clause 0: does not tell how long the server asks to be left alone.
    ForgetsRetryAfter,
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
    /// Clause 1: scales, restarts, marks or runs what is somebody else's.
    ChangesWhatIsForeign,
    /// Clause 1: tells what somebody else's containers write.
    LogsOfAnybody,
    /// Clause 2: takes a guard that makes no sense for a change of what is there.
    TakesAnyGuard,
    /// Clause 2: scales or steers whatever version the guard names.
    ChangesAnyVersion,
    /// Clause 2: scales, steers or runs what is being deleted.
    ChangesWhatIsDeleted,
    /// Clause 4: changes a job in place.
    JobChangeInPlace,
    /// Clause 4: changes the kind, or the storage of instances, in place.
    KindChangeInPlace,
    /// Clause 4: a job that has ended runs again when it is launched again.
    EndedJobRunsAgain,
    /// Clause 4: a launch takes the routes away.
    LaunchDropsRoutes,
    /// Clause 5: a scale moves the revision.
    ScaleChangesRevision,
    /// Clause 5: a scale adds to the count.
    ScaleAdds,
    /// Clause 5: a scale replaces the instances.
    ScaleReplacesInstances,
    /// Clause 5: a scale leaves the version.
    ScaleMovesNoVersion,
    /// Clause 5: the same scale again writes.
    ScaleWritesAgain,
    /// Clause 5: scales what has no count.
    ScalesAnything,
    /// Clause 6: a restart moves the revision.
    RestartChangesRevision,
    /// Clause 6: restarts and pauses what has no rollout.
    RestartsJobs,
    /// Clause 6: pauses what has no rollout that goes on.
    PauseWithoutRollout,
    /// Clause 6: a paused rollout goes on.
    PauseStopsNothing,
    /// Clause 6: time that is spent paused counts against the deadline.
    PauseCountsAgainstDeadline,
    /// Clause 6: a launch that changes something leaves the pause.
    KeepsPauseAfterLaunch,
    /// Clause 6: resuming what is not paused changes something.
    ResumesAlways,
    /// Clause 6: a canary update replaces instances without a promotion.
    SkipsCanaries,
    /// Clause 6: canaries that are not ready can be promoted.
    PromotesUntested,
    /// Clause 6: an abort leaves the canaries.
    AbortKeepsCanaries,
    /// Clause 6: after an abort the verdict is not Failed.
    AbortIsNoFailure,
    /// Clause 6: aborts what has no rollout that goes on.
    AbortsWithoutRollout,
    /// Clause 6: stops an instance of another workload.
    StopsAnyInstance,
    /// Clause 6: stopping what has been stopped is told again.
    StopsTwice,
    /// Clause 6: a stopped instance is started again.
    StopOnlyRestarts,
    /// Clause 6: a restarted instance is replaced.
    RestartReplacesInstance,
    /// Clause 7: a revision that is launched again stands in the history twice.
    HistoryKeepsDuplicates,
    /// Clause 7: a revision that is launched again does not move to the top.
    HistoryKeepsOrder,
    /// Clause 7: keeps two revisions only.
    HistoryKeepsTwo,
    /// Clause 7: launches that failed push the healthy revision out of the history.
    FailuresPushOutTheHealthy,
    /// Clause 7: a revision that is launched again loses its mark.
    RelaunchForgetsMark,
    /// Clause 7: marks what is seen to be healthy.
    HealthyByReading,
    /// Clause 7: marks a revision that is not kept.
    MarksWhatIsNotKept,
    /// Clause 7: the same mark again writes.
    MarkWritesAgain,
    /// Clause 7: a mark moves the version.
    MarkMovesVersion,
    /// Clause 7: a mark replaces the instances.
    MarkReplacesInstances,
    /// Clause 8: leaves the runs of a periodic job behind.
    DeleteLeaksRuns,
    /// Clause 8: what is left without its main object counts as absent.
    DeleteLooksAtMainAlone,
    /// Clause 8: leaves the configurations behind.
    DeleteLeaksConfig,
    /// Clause 8: leaves the routes behind.
    DeleteLeaksRoutes,
    /// Clause 9: an instance of a job that ended badly is not tried again.
    ForgetsRetries,
    /// Clause 9: a job runs all of its instances at a time.
    RunsTooManyAtOnce,
    /// Clause 9: a job may take as long as it likes.
    ForgetsJobDeadline,
    /// Clause 9: a job is kept for ever.
    ForgetsTimeToLive,
    /// Clause 9: a job whose instances ended badly is complete.
    FailedJobIsComplete,
    /// Clause 9: does not show the instances of a job that have ended.
    ForgetsEndedInstances,
    /// Clause 9: begins a run beside the last one.
    OverlapIgnored,
    /// Clause 9: does not end the last run when a new one takes its place.
    ReplaceLeavesTheLast,
    /// Clause 9: a suspended schedule begins runs.
    SuspendIgnored,
    /// Clause 9: keeps more runs than the workload says.
    KeepsAllRuns,
    /// Clause 9: a system has an instance on one node only.
    SystemRunsOnce,
    /// Clause 9: a stable instance starts before the one of its ordinal has ended.
    SuccessorRunsBeside,
    /// Clause 10: a failed job has no diagnosis.
    HidesWhyAJobFailed,
    /// Clause 10: loses the signal that ended an instance.
    ForgetsSignal,
    /// Clause 13: a plan writes.
    PlanWrites,
    /// Clause 13: a plan says that nothing would change.
    PlanSaysUnchanged,
    /// Clause 13: a plan's token admits another workload.
    PlanTokenForAnyWorkload,
    /// Clause 13: a plan's token admits a world that has moved.
    PlanIgnoresMoved,
    /// Clause 14: the same key twice is two runs.
    RunTwiceForOneKey,
    /// Clause 14: the key of a run that has ended begins another.
    EndedRunRunsAgain,
    /// Clause 14: when the answer is lost, begins the run once more by itself.
    LostRunBeginsAnother,
    /// Clause 14: two keys are one run.
    RunForgetsKey,
    /// Clause 14: takes over what is somebody else's under the run's name.
    RunTakesOverOthers,
    /// Clause 14: does not tell of which periodic job a run is.
    RunForgetsPeriodic,
    /// Clause 14: what never started has ended well.
    NeverStartedIsExitZero,
    /// Clause 15: another content takes the place of the first.
    ConfigOverwrites,
    /// Clause 15: the same content again is written.
    ConfigWritesAgain,
    /// Clause 15: stores for somebody else's workload.
    ConfigOfOthers,
    /// Clause 15: gives up a version that a kept revision refers to.
    ConfigPrunesWhatIsUsed,
    /// Clause 15: keeps every version.
    ConfigIsNeverPruned,
    /// Clause 15: stores a value that was left out when it was written down.
    StoresWhatIsRedacted,
    /// Clause 16: takes a host and path that another workload has.
    RouteStolen,
    /// Clause 16: leads to a port that is not there.
    ExposesAnyPort,
    /// Clause 16: the same routes again are written.
    ExposeWritesAgain,
    /// Clause 16: keeps routes that are not in the list.
    ExposeKeepsOldRoutes,
    /// Clause 16: leaves the routes that were to be taken where they were.
    TakesNothing,
    /// Clause 16: takes all routes of the workload that some are to be taken from.
    TakesAllRoutes,
    /// Clause 16: takes routes away before they are written elsewhere.
    TakesBeforeWriting,
    /// Clause 19: takes nothing any more once the new routes are there.
    MoveIsNotCompleted,
    /// Clause 16: who may take routes from one workload may have those of a third.
    TakesFromThird,
    /// Clause 1: takes routes from somebody else's workload.
    TakesFromOthers,
    /// Clause 16: says that routes are gone, and keeps them.
    UnexposeKeepsRoutes,
    /// Clause 16: takes somebody else's routes away.
    UnexposesOthers,
    /// Clause 16: tells addresses of what is not ready.
    EndpointsCountUnready,
    /// Clause 16: tells addresses of what is on its way out.
    EndpointsCountTerminating,
    /// Clause 17: marks a namespace that it did not make.
    MarksForeignNamespace,
    /// Clause 17: says that a namespace that it did not make is ours.
    CallsForeignNamespaceOurs,
    /// Clause 17: deletes a namespace that it did not make.
    DeletesForeignNamespace,
    /// Clause 17: deletes a namespace that holds workloads.
    DeletesFullNamespace,
    /// Clause 18: a scale counts as a change by launch.
    ScaleCountsAsLaunch,
    /// Clause 20: tells no line.
    LogsSilent,
    /// Clause 20: tells all lines instead of the last.
    LogsIgnoreTail,
    /// Clause 20: tells what was written before.
    LogsIgnoreSince,
    /// Clause 20: does not say what cannot be had.
    LogsHideGaps,
    /// Clause 20: tells the present run instead of the previous one.
    PreviousIsPresent,
    /// Clause 20: a follower tells nothing after a restart.
    FollowStopsAtRestart,
    /// Clause 20: a follower tells nothing of instances that come later.
    FollowMissesNewInstances,
    /// Clause 20: a follower goes on after the end of a job.
    FollowNeverEnds,
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
