//! The suite itself is tested: each named mistake of the memory scheduler is caught by the cases of its clause.

use std::sync::Arc;

use scheduler_core::conformance::libtest_mimic::{self, Arguments, Failed, Trial};
use scheduler_core::conformance::{Case, Harness, MemoryHarness, cases};
use scheduler_core::memory::Mutation;

/// Each mistake, the clause that it breaks, and the cases each of which must notice it.
const CAUGHT_BY: &[(Mutation, u8, &[&str])] = &[
    (Mutation::ListsForeign, 1, &["owner/list-is-ours"]),
    (Mutation::ListsOneNamespace, 1, &["owner/list-crosses-namespaces"]),
    (Mutation::FiltersByLabel, 1, &["owner/filter-by-text"]),
    (Mutation::ForgetsOwnerOnLaunch, 2, &["guard/owned-refuses-foreign", "guard/owned-refuses-unmarked"]),
    (Mutation::ForgetsOwnerOnDelete, 2, &["guard/delete-refuses-foreign", "guard/delete-refuses-unmarked"]),
    (Mutation::ForgetsIfAbsent, 2, &["guard/absent-refuses-ours"]),
    (Mutation::ForgetsIfVersion, 2, &["guard/version-stale"]),
    (Mutation::IfVersionCreates, 2, &["guard/version-absent"]),
    (Mutation::AdoptsInSilence, 2, &["guard/adopt-foreign", "guard/adopt-unmarked"]),
    (Mutation::DeletesIfAbsent, 2, &["guard/delete-if-absent"]),
    (Mutation::RevisionCountsReplicas, 3, &["revision/unmoved-by-replicas"]),
    (Mutation::VersionMissesChange, 3, &["version/moves-with-outside-change"]),
    (Mutation::VersionSurvivesRecreation, 3, &["version/differs-after-recreation"]),
    (Mutation::HidesDrift, 4, &["launch/repairs-image"]),
    (Mutation::IgnoresMissingService, 4, &["launch/makes-missing-object"]),
    (Mutation::KeepsSurplusService, 4, &["launch/removes-surplus-object"]),
    (Mutation::RestartsOnRelaunch, 4, &["launch/unchanged-restarts-nothing"]),
    (Mutation::WritesOnRelaunch, 4, &["launch/unchanged-writes-nothing", "launch/unchanged-when-unhealthy"]),
    (Mutation::ForeignFieldIsDrift, 4, &["launch/leaves-foreign-fields"]),
    (Mutation::CallsRollingInPlace, 4, &["launch/update-replaces-instances", "launch/effect-is-true"]),
    (Mutation::RollsOnScale, 4, &["launch/scale-is-in-place"]),
    (Mutation::ForgetsHalfLaunch, 4, &["faults/launch"]),
    (Mutation::HalfIsUnavailable, 4, &["faults/launch", "faults/update"]),
    (Mutation::LostAnswerIsUnavailable, 4, &["faults/launch", "faults/update"]),
    (Mutation::ForgetsRetryAfter, 0, &["faults/too-many-requests"]),
    (Mutation::KeepResetsCount, 5, &["replicas/keep-survives-update"]),
    (Mutation::ExactlyKeepsCount, 5, &["replicas/exactly-wins"]),
    (Mutation::DeleteLeaksService, 8, &["delete/leaves-nothing"]),
    (Mutation::GoneTooEarly, 8, &["delete/waits-for-the-last-instance"]),
    (Mutation::AbsentIsGone, 8, &["delete/of-absent", "delete/twice"]),
    (Mutation::LaunchesOntoTerminating, 8, &["delete/launch-onto-terminating"]),
    (Mutation::DeletesNeighbours, 8, &["delete/leaves-neighbours"]),
    (Mutation::ErrorIsAbsence, 9, &["status/error-is-not-absence"]),
    (Mutation::ShowsForeign, 9, &["status/foreign-is-absent"]),
    (Mutation::CountsForeignInstances, 9, &["status/foreign-instance-not-counted"]),
    (Mutation::ForgetsTerminating, 9, &["status/old-count-until-ended"]),
    (Mutation::CountsOldAsReady, 9, &["status/old-are-not-the-new"]),
    (Mutation::KeepsStaleFailure, 9, &["status/good-after-failed"]),
    (Mutation::CompleteFromStart, 9, &["status/new-is-not-complete"]),
    (Mutation::NeverGivesUp, 9, &["status/gives-up"]),
    (Mutation::TimeoutIsSuccess, 9, &["status/gives-up"]),
    (Mutation::HidesPullError, 10, &["diagnosis/pull-error"]),
    (Mutation::OutOfMemoryIsCrash, 10, &["diagnosis/out-of-memory"]),
    (Mutation::ForgetsExitCode, 10, &["diagnosis/crash-exit-code"]),
    (Mutation::WatchLosesDelete, 12, &["watch/tells-deletion"]),
    (Mutation::WatchNeverSyncs, 12, &["watch/snapshot-then-synced"]),
    (Mutation::WatchHidesRecreation, 12, &["watch/tells-recreation"]),
    (Mutation::WatchHidesGap, 12, &["watch/gap-converges", "watch/gap-hides-no-deletion"]),
    (Mutation::RestartsDecrease, 12, &["watch/restarts-never-decrease"]),
    (Mutation::ScaleChangesRevision, 5, &["scale/revision-and-instances-stay"]),
    (Mutation::ScaleAdds, 5, &["scale/count-follows"]),
    (Mutation::ScaleReplacesInstances, 5, &["scale/revision-and-instances-stay"]),
    (Mutation::ScaleWritesAgain, 5, &["scale/again-writes-nothing"]),
    (Mutation::ScalesAnything, 5, &["scale/only-services"]),
    (Mutation::TakesAnyGuard, 2, &["scale/senseless-guards"]),
    (Mutation::ChangesAnyVersion, 2, &["scale/if-version"]),
    (Mutation::ChangesWhatIsForeign, 1, &["scale/only-ours"]),
    (Mutation::RestartChangesRevision, 6, &["restart/launch-is-unchanged"]),
    (Mutation::RestartsJobs, 6, &["restart/no-jobs"]),
    (Mutation::PauseWithoutRollout, 6, &["pause/needs-a-rollout"]),
    (Mutation::KeepsPauseAfterLaunch, 6, &["pause/launch-ends-it"]),
    (Mutation::ResumesAlways, 6, &["pause/again-changes-nothing"]),
    (Mutation::SkipsCanaries, 6, &["canary/waits-beside-the-old"]),
    (Mutation::PromotesUntested, 6, &["canary/promote-needs-health"]),
    (Mutation::AbortKeepsCanaries, 6, &["canary/abort"]),
    (Mutation::AbortIsNoFailure, 6, &["canary/abort"]),
    (Mutation::AbortsWithoutRollout, 6, &["canary/abort"]),
    (Mutation::StopsAnyInstance, 6, &["instance/unknown"]),
    (Mutation::StopOnlyRestarts, 6, &["instance/stop"]),
    (Mutation::RestartReplacesInstance, 6, &["instance/restart"]),
    (Mutation::JobChangeInPlace, 4, &["job/change-must-replace"]),
    (Mutation::KindChangeInPlace, 4, &["stable/must-replace"]),
    (Mutation::EndedJobRunsAgain, 4, &["job/ended-runs-once"]),
    (Mutation::ForgetsRetries, 9, &["job/retries"]),
    (Mutation::RunsTooManyAtOnce, 9, &["job/parallelism"]),
    (Mutation::ForgetsJobDeadline, 9, &["job/deadline"]),
    (Mutation::ForgetsTimeToLive, 9, &["job/time-to-live"]),
    (Mutation::FailedJobIsComplete, 10, &["job/fails"]),
    (Mutation::ForgetsEndedInstances, 9, &["job/shows-ended-instances"]),
    (Mutation::SystemRunsOnce, 9, &["system/healthy"]),
    (Mutation::SuccessorRunsBeside, 9, &["stable/successor"]),
    (Mutation::HidesWhyAJobFailed, 10, &["job/fails"]),
    (Mutation::ForgetsSignal, 10, &["job/signal"]),
    (Mutation::PauseStopsNothing, 6, &["pause/stops-and-goes-on"]),
    (Mutation::PauseCountsAgainstDeadline, 6, &["pause/stops-the-deadline"]),
    (Mutation::StopsTwice, 6, &["instance/stop-again"]),
    (Mutation::HistoryKeepsDuplicates, 7, &["history/relaunch-moves-up"]),
    (Mutation::HistoryKeepsOrder, 7, &["history/relaunch-moves-up"]),
    (Mutation::HistoryKeepsTwo, 7, &["history/keeps-five"]),
    (Mutation::FailuresPushOutTheHealthy, 7, &["history/keeps-the-healthy"]),
    (Mutation::RelaunchForgetsMark, 7, &["mark/survives-launches"]),
    (Mutation::HealthyByReading, 7, &["mark/says-so"]),
    (Mutation::MarksWhatIsNotKept, 7, &["mark/unknown"]),
    (Mutation::MarkWritesAgain, 7, &["mark/moves-nothing"]),
    (Mutation::MarkMovesVersion, 7, &["mark/moves-nothing"]),
    (Mutation::MarkReplacesInstances, 7, &["mark/moves-nothing"]),
    (Mutation::DeleteLeaksRuns, 8, &["run/now-deleted-with-it"]),
    (Mutation::PlanWrites, 13, &["plan/is-true"]),
    (Mutation::PlanSaysUnchanged, 13, &["plan/is-true"]),
    (Mutation::PlanTokenForAnyWorkload, 13, &["plan/token-of-another"]),
    (Mutation::PlanIgnoresMoved, 13, &["plan/launch-in-a-moved-world"]),
    (Mutation::RunTwiceForOneKey, 14, &["run/same-key-is-one-run"]),
    (Mutation::EndedRunRunsAgain, 14, &["run/same-key-is-one-run"]),
    (Mutation::LostRunBeginsAnother, 14, &["faults/run"]),
    (Mutation::RunForgetsKey, 14, &["run/other-key-is-another"]),
    (Mutation::RunTakesOverOthers, 1, &["run/only-ours"]),
    (Mutation::RunForgetsPeriodic, 14, &["run/now"]),
    (Mutation::NeverStartedIsExitZero, 14, &["job/never-started-has-no-exit"]),
    (Mutation::ScaleMovesNoVersion, 2, &["scale/if-version"]),
    (Mutation::LogsOfAnybody, 1, &["logs/only-ours"]),
    (Mutation::LaunchDropsRoutes, 16, &["expose/launch-leaves-them"]),
    (Mutation::DeleteLooksAtMainAlone, 8, &["faults/delete"]),
    (Mutation::DeleteLeaksConfig, 8, &["config/deleted-with-it"]),
    (Mutation::DeleteLeaksRoutes, 8, &["expose/deleted-with-it"]),
    (Mutation::ConfigOverwrites, 15, &["config/other-content"]),
    (Mutation::ConfigWritesAgain, 15, &["config/same-content"]),
    (Mutation::ConfigOfOthers, 1, &["config/only-ours"]),
    (Mutation::ConfigPrunesWhatIsUsed, 15, &["config/kept-versions"]),
    (Mutation::ConfigIsNeverPruned, 15, &["config/kept-versions"]),
    (Mutation::StoresWhatIsRedacted, 15, &["config/refused"]),
    (Mutation::RouteStolen, 16, &["expose/taken", "expose/two-at-once"]),
    (Mutation::ExposesAnyPort, 16, &["expose/unknown-port"]),
    (Mutation::ExposeWritesAgain, 16, &["expose/again-writes-nothing"]),
    (Mutation::ExposeKeepsOldRoutes, 16, &["expose/all-of-its-routes"]),
    (Mutation::TakesNothing, 16, &["expose/moves"]),
    (Mutation::TakesAllRoutes, 16, &["expose/moves-no-others"]),
    (Mutation::TakesBeforeWriting, 16, &["expose/move-leaves-no-gap"]),
    (Mutation::MoveIsNotCompleted, 19, &["expose/move-is-completed"]),
    (Mutation::TakesFromThird, 16, &["expose/moves-not-from-a-third"]),
    (Mutation::TakesFromOthers, 1, &["expose/moves-only-ours"]),
    (Mutation::UnexposeKeepsRoutes, 16, &["unexpose/takes-all"]),
    (Mutation::UnexposesOthers, 1, &["unexpose/only-ours"]),
    (Mutation::EndpointsCountUnready, 16, &["endpoints/not-unready"]),
    (Mutation::EndpointsCountTerminating, 16, &["endpoints/not-terminating"]),
    (Mutation::MarksForeignNamespace, 17, &["namespace/foreign"]),
    (Mutation::CallsForeignNamespaceOurs, 17, &["namespace/foreign"]),
    (Mutation::DeletesForeignNamespace, 17, &["namespace/foreign"]),
    (Mutation::DeletesFullNamespace, 17, &["namespace/full"]),
    (Mutation::ScaleCountsAsLaunch, 18, &["sweep/scale-does-not-make-young"]),
    (Mutation::LogsSilent, 0, &["logs/so-far"]),
    (Mutation::LogsIgnoreTail, 0, &["logs/tail"]),
    (Mutation::LogsIgnoreSince, 0, &["logs/since"]),
    (Mutation::LogsHideGaps, 0, &["logs/gap"]),
    (Mutation::PreviousIsPresent, 0, &["logs/previous"]),
    (Mutation::FollowStopsAtRestart, 0, &["logs/follow-over-restart"]),
    (Mutation::FollowMissesNewInstances, 0, &["logs/follow-new-instances"]),
    (Mutation::FollowNeverEnds, 0, &["logs/follow-ends-with-a-job"]),
    (Mutation::ChangesWhatIsDeleted, 2, &["scale/terminating"]),
    (Mutation::OverlapIgnored, 9, &["schedule/overlap-forbidden"]),
    (Mutation::ReplaceLeavesTheLast, 9, &["schedule/overlap-replaced"]),
    (Mutation::SuspendIgnored, 9, &["schedule/suspended"]),
    (Mutation::KeepsAllRuns, 9, &["schedule/kept-runs"]),
    (Mutation::MakesNamespace, 17, &["namespace/launch-makes-none"]),
];

/// What generated sequences must notice as well: at least one of those in the suite.
const CAUGHT_BY_SEQUENCES: &[Mutation] = &[
    Mutation::RevisionCountsReplicas,
    Mutation::HidesDrift,
    Mutation::IgnoresMissingService,
    Mutation::KeepsSurplusService,
    Mutation::KeepResetsCount,
    Mutation::ExactlyKeepsCount,
    Mutation::DeleteLeaksService,
    Mutation::DeletesNeighbours,
    Mutation::KeepsStaleFailure,
    Mutation::TimeoutIsSuccess,
    Mutation::ScaleChangesRevision,
    Mutation::RestartChangesRevision,
    Mutation::LaunchDropsRoutes,
    Mutation::RunTwiceForOneKey,
];

fn case(id: &str) -> Result<Case, Failed> {
    cases().into_iter().find(|case| case.id() == id).ok_or_else(|| format!("there is no case {id}").into())
}

/// That the case passes without the mistake, and fails with it.
fn caught(mutation: Mutation, clause: u8, id: &str) -> Result<(), Failed> {
    let case = case(id)?;
    if case.clause() != clause {
        return Err(format!("{id} is of clause {}, and {mutation:?} breaks clause {clause}", case.clause()).into());
    }
    let right: Arc<dyn Harness> = Arc::new(MemoryHarness::new());
    case.run(&right).map_err(|seen| format!("{id} fails without any mistake: {seen}"))?;
    let wrong: Arc<dyn Harness> = Arc::new(MemoryHarness::mutated(mutation));
    match case.run(&wrong) {
        Ok(()) => Err(format!("{mutation:?} is not noticed by {id}").into()),
        Err(_) => Ok(()),
    }
}

fn caught_by_sequences(mutation: Mutation) -> Result<(), Failed> {
    let wrong: Arc<dyn Harness> = Arc::new(MemoryHarness::mutated(mutation));
    let mut sequences = cases().into_iter().filter(|case| case.id().starts_with("sequence/"));
    if sequences.any(|case| case.run(&wrong).is_err()) {
        return Ok(());
    }
    Err(format!("{mutation:?} is not noticed by any generated sequence").into())
}

fn all_are_listed() -> Result<(), Failed> {
    for mutation in Mutation::ALL {
        let times = CAUGHT_BY.iter().filter(|(listed, ..)| listed == mutation).count();
        if times != 1 {
            return Err(format!("{mutation:?} is listed {times} times").into());
        }
    }
    Ok(())
}

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = vec![Trial::test("every-mutant-is-listed", all_are_listed)];
    trials.extend(CAUGHT_BY.iter().map(|(mutation, clause, ids)| {
        Trial::test(format!("mutant/{mutation:?}"), move || {
            ids.iter().try_for_each(|id| caught(*mutation, *clause, id))
        })
    }));
    trials.extend(
        CAUGHT_BY_SEQUENCES
            .iter()
            .map(|mutation| Trial::test(format!("sequences/{mutation:?}"), move || caught_by_sequences(*mutation))),
    );
    libtest_mimic::run(&arguments, trials).exit();
}
