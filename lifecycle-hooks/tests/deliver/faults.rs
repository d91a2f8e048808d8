//! Hooks that fail, hang, panic and defer, at each place in the list.

use std::sync::Arc;
use std::time::Duration;

use lifecycle_hooks::deliver::{Deadlines, DeliveryEnd, Recorder, Scripted, WorkerOptions};
use scheduler_core::hooks::{EventKind, HookError, HookName, Outcome};
use tokio::time::Instant;

use super::{Broken, Seen, app, event, left, outbox, sets, worker};

const HOOK: HookName = HookName::PostConfigChange;
const NAMES: [&str; 3] = ["one", "two", "three"];

fn three(at: usize, steps: impl IntoIterator<Item = Scripted>) -> [Recorder; 3] {
    let mut recorders = NAMES.map(Recorder::new);
    recorders[at] = recorders[at].clone().script(HOOK, steps);
    recorders
}

fn options() -> WorkerOptions {
    WorkerOptions::default().deadlines(Deadlines::each(Duration::from_secs(5)))
}

#[tokio::test(start_paused = true)]
async fn what_may_pass_is_told_again_from_the_first_set_on() {
    let troubles = [
        (Scripted::Fail(HookError::transient("busy")), "busy"),
        (Scripted::Panic("index out of bounds".into()), "index out of bounds"),
        (Scripted::Hang, "did not answer within 5 s"),
    ];
    for (at, name) in NAMES.iter().enumerate() {
        for (trouble, words) in &troubles {
            let recorders @ [one, two, three] = &three(at, [trouble.clone()]);
            let outbox = outbox(&["shop"], 2);
            let (worker, seen) = worker(&outbox, sets(&[one, two, three]), options());
            worker.run_until_idle().await;
            assert!(left(&outbox).await.is_empty());

            let deliveries = seen.deliveries();
            let DeliveryEnd::PutOff { error: Some(error), .. } = &deliveries[0].end else { panic!("{deliveries:?}") };
            assert!(error.retry && error.message.contains(words) && error.message.starts_with(name), "{error}");
            assert_eq!(deliveries[0].told.sets.len(), at + 1, "the sets behind it are not told");
            let ends: Vec<_> =
                deliveries.iter().map(|d| (d.event.as_str(), d.attempt, d.end == DeliveryEnd::Done)).collect();
            assert_eq!(ends, [("shop-0", 1, false), ("shop-0", 2, true), ("shop-1", 1, true)]);
            for (place, recorder) in recorders.iter().enumerate() {
                assert_eq!(recorder.hooks().len(), if place <= at { 3 } else { 2 });
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_does_not_pass_is_parked_at_once_and_holds_up_its_app_alone() {
    for (at, name) in NAMES.iter().enumerate() {
        let [one, two, three] = &three(at, [Scripted::Fail(HookError::permanent("no such registry"))]);
        let outbox = outbox(&["bank", "shop"], 2);
        // One app at a time, and the poisoned one comes first.
        let (worker, seen) = worker(&outbox, sets(&[one, two, three]), options().apps(1));
        worker.run_until_idle().await;
        let waiting = left(&outbox).await;
        let stand: Vec<_> = waiting.iter().map(|event| (event.id.as_str(), event.due.is_none())).collect();
        assert_eq!(stand, [("bank-0", true), ("bank-1", false)]);
        assert_eq!(waiting[0].error.as_ref().unwrap().message, format!("{name}: no such registry"));
        assert_eq!(seen.deliveries().iter().filter(|delivery| delivery.app.as_str() == "shop").count(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn after_so_many_attempts_it_is_parked_and_a_deferral_is_none() {
    let later = || Scripted::Answer(Outcome::Deferred { after: Duration::from_secs(3), reason: "the route".into() });
    let busy = || Scripted::Fail(HookError::transient("busy"));
    let steps = [later(), busy(), later(), later(), busy(), later(), busy()];
    let [one, two, three] = &three(1, steps);
    let outbox = outbox(&["shop"], 1);
    let (worker, seen) = worker(&outbox, sets(&[one, two, three]), options().attempts(3));
    let begun = Instant::now();
    worker.run_until_idle().await;
    assert!(begun.elapsed() >= Duration::from_secs(4 * 3), "each deferral was waited for");
    let deliveries = seen.deliveries();
    assert_eq!(deliveries.len(), 7);
    assert_eq!(deliveries[0].end, DeliveryEnd::PutOff { after: Duration::from_secs(3), error: None });
    let DeliveryEnd::Parked { error } = &deliveries[6].end else { panic!("{deliveries:?}") };
    assert_eq!(error.message, "after 3 attempts: two: busy");
    assert!(three.hooks().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_asked_for_delay_is_waited_and_others_are_told_meanwhile() {
    let mut asked = HookError::transient("429");
    asked.retry_after_ms = Some(600_000);
    let set = Recorder::new("one").script(HOOK, [Scripted::Fail(asked)]);
    let outbox = outbox(&["bank", "shop"], 1);
    let (worker, seen) =
        worker(&outbox, sets(&[&set]), options().backoff(Duration::from_secs(1), Duration::from_secs(2)));
    let begun = Instant::now();
    worker.run_until_idle().await;
    assert!(begun.elapsed() >= Duration::from_secs(600) && begun.elapsed() < Duration::from_secs(603));
    let order: Vec<_> = seen.deliveries().iter().map(|delivery| delivery.event.as_str().to_owned()).collect();
    assert_eq!(order, ["bank-0", "shop-0", "bank-0"]);
}

#[tokio::test(start_paused = true)]
async fn that_an_app_is_gone_is_told_when_all_sets_have_let_it_go() {
    let later = Scripted::Answer(Outcome::Deferred { after: Duration::from_secs(1), reason: "instances".into() });
    let one = Recorder::new("one").script(HookName::PostAppDestroy, [later]);
    let two = Recorder::new("two").script(HookName::OnAppGone, [Scripted::Fail(HookError::permanent("mail is down"))]);
    let outbox = outbox(&[], 0);
    outbox.append(event(1, app("shop"), EventKind::AppDestroyed)).unwrap();
    let (worker, seen) = worker(&outbox, sets(&[&one, &two]), options());
    worker.run_until_idle().await;
    assert!(left(&outbox).await.is_empty());
    assert_eq!(one.hooks(), [HookName::PostAppDestroy, HookName::PostAppDestroy, HookName::OnAppGone]);
    assert_eq!(two.hooks(), [HookName::PostAppDestroy, HookName::PostAppDestroy, HookName::OnAppGone]);
    let deliveries = seen.deliveries();
    assert_eq!(deliveries[0].gone, None);
    assert!(deliveries[1].gone.as_ref().unwrap().verdict().is_err(), "a report that failed is shown");
}

#[tokio::test(start_paused = true)]
async fn an_outbox_that_fails_is_asked_again_later() {
    let inner = outbox(&["shop"], 3);
    let set = Recorder::new("one").script(HOOK, [Scripted::Fail(HookError::transient("busy"))]);
    let fails = [("claim", 3), ("ack", 2), ("put_off", 2), ("list", 1)];
    let broken = std::sync::Arc::new(Broken::new(&inner, &fails));
    let seen = Arc::new(Seen::default());
    let options = options().seed(7).observer(Arc::<Seen>::clone(&seen));
    lifecycle_hooks::deliver::Worker::new(broken, sets(&[&set])).options(options).run_until_idle().await;
    assert!(left(&inner).await.is_empty());
    assert_eq!(set.hooks().len(), 4, "what was told is not told again because its answer came late");
    let mut failures = seen.failures.lock().unwrap().clone();
    failures.sort_unstable();
    assert_eq!(failures, ["ack", "ack", "claim", "claim", "claim", "list", "put_off", "put_off"]);
}
