//! Which operations are repeated, when, and what the caller gets.

use std::sync::Arc;
use std::time::Duration;

use scheduler_core::layer::{Retry, RetryPolicy};
use scheduler_core::{
    BackendName, Container, Delete, DeleteNamespace, Detail, Endpoints, EnsureNamespace, Error, ErrorKind, Expose,
    Guard, History, InstanceAction, List, MarkHealthy, Namespace, OnInstance, OpName, OpService, Ping, Plan, PlanToken,
    PutConfig, Rollout, RolloutAction, Route, Run, RunKey, Scale, SchedulerOp, Status, Unexpose, Version, Workload,
};
use tokio::time::Instant;

use crate::script::{Answer, Script, error, launch, moved, target, unavailable, unknown};

fn script(errors: impl IntoIterator<Item = Error>) -> Arc<Script> {
    Arc::new(Script::new(errors.into_iter().map(Answer::Fails)))
}

fn retry(script: &Arc<Script>, policy: RetryPolicy) -> Retry {
    Retry::new(Arc::clone(script) as Arc<dyn OpService>, policy)
}

/// How often an operation is attempted that fails once in this way.
async fn attempts(op: SchedulerOp, error: Error) -> usize {
    let script = script([error]);
    let answer = retry(&script, RetryPolicy::default()).call(op).await;
    let calls = script.calls().len();
    assert_eq!(answer.is_ok(), calls == 2, "{answer:?} after {calls} attempts");
    calls
}

/// Every operation, and under each guard that matters, with whether it may follow one that may have taken effect.
fn table() -> Vec<(SchedulerOp, bool)> {
    let version = || Guard::IfVersion(Version::new("1"));
    let revision = || launch().workload.revision().clone();
    let namespace = || Namespace::new("shop").unwrap();
    let rollout = |action| Rollout::new(target(), action);
    let plan = || {
        let objects = [&Version::new("1")];
        Guard::IfPlan(PlanToken::new(&BackendName::memory(), &launch().workload, objects))
    };
    let job = Workload::job("shop", "migrate").container(Container::new("main", "x:1")).check().unwrap();
    let key = RunKey::new("7").unwrap();
    vec![
        (launch().into(), true),
        (launch().guard(Guard::IfAbsent).into(), false),
        (launch().guard(version()).into(), false),
        (launch().guard(plan()).into(), false),
        (launch().guard(Guard::Adopt).into(), false),
        (Delete::new(target()).into(), true),
        (Delete::new(target()).guard(version()).into(), false),
        (Delete::new(target()).guard(Guard::Adopt).into(), false),
        (Status::new(target(), Detail::Counts).into(), true),
        (List::default().into(), true),
        (Ping::default().into(), true),
        (Scale::new(target(), 2).into(), true),
        (Scale::new(target(), 2).guard(version()).into(), false),
        (rollout(RolloutAction::Restart).into(), false),
        (rollout(RolloutAction::Restart).guard(version()).into(), false),
        (rollout(RolloutAction::Pause).into(), true),
        (rollout(RolloutAction::Pause).guard(version()).into(), false),
        (rollout(RolloutAction::Resume).into(), true),
        (rollout(RolloutAction::Promote).into(), true),
        (rollout(RolloutAction::Abort).into(), false),
        (OnInstance::new(target(), "web-1", InstanceAction::Stop).into(), true),
        (OnInstance::new(target(), "web-1", InstanceAction::Restart).into(), false),
        (History::new(target()).into(), true),
        (MarkHealthy::new(target(), revision()).into(), true),
        (Run::one_off(job, key.clone()).into(), true),
        (Run::now(target(), key).into(), true),
        (Plan::new(launch().workload).into(), true),
        (PutConfig::new(target(), "app").entry("A", "1").into(), true),
        (Expose::new(target(), [Route::new("shop.example", "http")]).into(), true),
        (Expose::new(target(), [Route::new("shop.example", "http")]).guard(version()).into(), false),
        (Unexpose::new(target()).into(), true),
        (Endpoints::new(target()).into(), true),
        (EnsureNamespace::new(namespace()).into(), true),
        (DeleteNamespace::new(namespace()).into(), true),
    ]
}

#[tokio::test(start_paused = true)]
async fn after_an_unknown_outcome_only_what_may_be_done_twice_is_repeated() {
    for (op, twice) in table() {
        for error in [unknown(), error(ErrorKind::TimeLimit)] {
            assert_eq!(attempts(op.clone(), error.clone()).await == 2, twice, "{op:?} after {error}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_had_no_effect_is_repeated_whatever_it_is() {
    for (op, _) in table() {
        for kind in [ErrorKind::Unavailable, ErrorKind::RateLimited] {
            assert_eq!(attempts(op.clone(), error(kind)).await, 2, "{op:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_would_fail_again_or_asks_for_a_new_look_is_not_repeated() {
    for error in [error(ErrorKind::Forbidden), error(ErrorKind::MustReplace), moved()] {
        assert_eq!(attempts(launch().into(), error).await, 1);
    }
    // The error's own word counts, not its kind.
    assert_eq!(attempts(launch().into(), unavailable().with_retry(scheduler_core::Retry::Never)).await, 1);
    assert_eq!(attempts(launch().into(), unknown().with_retry(scheduler_core::Retry::Never)).await, 1);
}

#[tokio::test(start_paused = true)]
async fn it_gives_up_after_so_many_attempts_with_the_last_error() {
    let script = script((1..=9).map(|n| unavailable().with_retry_after(Duration::from_millis(n))));
    let answer = retry(&script, RetryPolicy::default().attempts(3)).call(launch().into()).await;
    assert_eq!(answer.unwrap_err().retry_after(), Some(Duration::from_millis(3)));
    assert_eq!(script.calls().len(), 3);
    for none in [0, 1] {
        let script = self::script([unavailable()]);
        assert!(retry(&script, RetryPolicy::default().attempts(none)).call(launch().into()).await.is_err());
        assert_eq!(script.calls().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_operation_that_is_repeated_is_the_same() {
    let script = script([unavailable()]);
    let op = SchedulerOp::from(launch().request_id("r-1"));
    retry(&script, RetryPolicy::default()).call(op.clone()).await.unwrap();
    let sent: Vec<_> = script.calls().iter().map(|(_, op)| op.clone()).collect();
    assert_eq!(sent, [op.clone(), op]);
}

#[tokio::test(start_paused = true)]
async fn an_effect_that_may_have_been_is_not_hidden_by_a_later_error_that_had_none() {
    let failing = |errors: Vec<Error>| async {
        let script = script(errors);
        retry(&script, RetryPolicy::default().attempts(3)).call(launch().into()).await.unwrap_err()
    };
    let error = failing(vec![unavailable(), unknown(), unavailable()]).await;
    assert_eq!(*error.kind(), ErrorKind::OutcomeUnknown);
    let error = failing(vec![unknown(), self::error(ErrorKind::Forbidden)]).await;
    assert_eq!(*error.kind(), ErrorKind::Forbidden);
}

const MS: Duration = Duration::from_millis(1);

/// The sleeps of one operation that is refused eight times.
async fn sleeps(seed: u64) -> Vec<Duration> {
    let script = script((0..8).map(|_| unavailable()));
    let policy = RetryPolicy::default().attempts(9).first(100 * MS).longest(1000 * MS).seed(seed);
    retry(&script, policy).call(launch().into()).await.unwrap();
    script.pauses()
}

#[tokio::test(start_paused = true)]
async fn sleeps_are_random_parts_of_a_bound_that_doubles_up_to_the_longest() {
    let bounds = [100, 200, 400, 800, 1000, 1000, 1000, 1000];
    let mut most = [Duration::ZERO; 8];
    let mut least = [Duration::MAX; 8];
    for seed in 0..100 {
        let sleeps = sleeps(seed).await;
        assert_eq!(sleeps.len(), 8);
        for (at, sleep) in sleeps.into_iter().enumerate() {
            most[at] = most[at].max(sleep);
            least[at] = least[at].min(sleep);
        }
    }
    for (at, bound) in bounds.into_iter().enumerate() {
        // Tokio's clock has a grain of a millisecond.
        assert!(most[at] <= (bound + 1) * MS && most[at] > bound * MS * 9 / 10, "{at}: at most {:?}", most[at]);
        assert!(least[at] < bound * MS / 10, "{at}: at least {:?}", least[at]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_seed_decides_the_sleeps_and_without_one_they_differ() {
    assert_eq!(sleeps(1).await, sleeps(1).await);
    assert_ne!(sleeps(1).await, sleeps(2).await);
    let unseeded = || async {
        let script = script((0..4).map(|_| unavailable()));
        retry(&script, RetryPolicy::default().first(100_000 * MS).longest(100_000 * MS).total(1_000_000 * MS))
            .call(launch().into())
            .await
            .unwrap();
        script.pauses()
    };
    assert_ne!(unseeded().await, unseeded().await);
}

#[tokio::test(start_paused = true)]
async fn it_leaves_a_server_alone_for_as_long_as_that_asks() {
    let script = script([error(ErrorKind::RateLimited).with_retry_after(5000 * MS)]);
    retry(&script, RetryPolicy::default().first(100 * MS)).call(launch().into()).await.unwrap();
    let pause = script.pauses()[0];
    assert!(pause >= 5000 * MS && pause <= 5101 * MS, "{pause:?}");
}

#[tokio::test(start_paused = true)]
async fn no_attempt_begins_when_the_time_is_over() {
    let script = script((0..100).map(|_| unavailable().with_retry_after(900 * MS)));
    let policy = RetryPolicy::default().attempts(100).first(Duration::ZERO).total(3000 * MS);
    let start = Instant::now();
    assert!(retry(&script, policy).call(launch().into()).await.is_err());
    assert_eq!(script.calls().len(), 4);
    // It does not sleep towards an attempt that will not be.
    assert!(start.elapsed() < 2800 * MS, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_time_limit_is_for_all_attempts() {
    let refusals = || (0..100).map(|_| Answer::Fails(unavailable().with_retry_after(900 * MS)));
    let policy = || RetryPolicy::default().attempts(100).first(Duration::ZERO);
    // It passes between attempts: the last error is told, at once.
    let script = Arc::new(Script::new(refusals()));
    let start = Instant::now();
    let error = retry(&script, policy()).call(launch().time_limit(2000 * MS).into()).await.unwrap_err();
    assert_eq!((error.kind(), script.calls().len()), (&ErrorKind::Unavailable, 3));
    assert!(start.elapsed() < 2000 * MS, "{:?}", start.elapsed());
    // It passes within an attempt, which ends there.
    let script = Arc::new(Script::new(refusals().take(2).chain([Answer::Hangs])));
    let start = Instant::now();
    let error = retry(&script, policy()).call(launch().time_limit(2000 * MS).into()).await.unwrap_err();
    assert_eq!((error.kind(), script.calls().len()), (&ErrorKind::TimeLimit, 3));
    assert_eq!((error.op(), error.target()), (Some(OpName::Launch), Some(&target())));
    assert_eq!(error.backend().map(|name| name.as_str()), Some("script"));
    assert!(start.elapsed() >= 2000 * MS && start.elapsed() <= 2001 * MS, "{:?}", start.elapsed());
    // One that is longer than any clock is none.
    let script = Arc::new(Script::new(refusals().take(1)));
    assert!(retry(&script, policy()).call(launch().time_limit(Duration::MAX).into()).await.is_ok());
}
