//! The worker's end: asked for, or at any time.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use lifecycle_hooks::deliver::{Deadlines, DeliveryEnd, Recorded, Recorder, Scripted, Worker, WorkerOptions};
use lifecycle_hooks::outbox::Outbox as _;
use scheduler_core::hooks::{EventId, HookError, HookName};
use tokio::time::{Instant, sleep};

use super::{Broken, left, outbox, sets, worker};

const HOOK: HookName = HookName::PostConfigChange;

#[tokio::test(start_paused = true)]
async fn a_shutdown_takes_nothing_more_and_lets_hooks_end() {
    let set = Recorder::new("one").script(HOOK, [Scripted::Hang]);
    let outbox = outbox(&["bank", "shop"], 2);
    let options = WorkerOptions::default().apps(1).deadlines(Deadlines::each(Duration::from_secs(8)));
    let (worker, seen) = worker(&outbox, sets(&[&set]), options);
    worker.run(sleep(Duration::from_secs(1))).await;
    // It was told until its deadline, which lies within the grace; nothing else was begun.
    let deliveries = seen.deliveries();
    assert!(matches!(&deliveries[..], [one] if matches!(one.end, DeliveryEnd::PutOff { error: Some(_), .. })));
    assert_eq!(set.hooks().len(), 1);
    assert_eq!(left(&outbox).await.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn what_outlives_the_grace_is_given_back_at_once() {
    let set = Recorder::new("one").script(HOOK, [Scripted::Hang]);
    let outbox = outbox(&["shop"], 1);
    let long = || WorkerOptions::default().lease(Duration::from_secs(3600)).deadlines(Deadlines::each(Duration::MAX));
    let (first, seen) = worker(&outbox, sets(&[&set]), long().grace(Duration::from_secs(10)));
    let begun = Instant::now();
    first.run(sleep(Duration::from_secs(1))).await;
    assert_eq!(begun.elapsed(), Duration::from_secs(11));
    assert_eq!(seen.deliveries()[0].end, DeliveryEnd::PutOff { after: Duration::ZERO, error: None });

    let (second, seen) = worker(&outbox, sets(&[&set]), long());
    second.run_until_idle().await;
    assert_eq!(begun.elapsed(), Duration::from_secs(11), "it waits for no lease");
    assert_eq!((seen.deliveries()[0].attempt, &seen.deliveries()[0].end), (1, &DeliveryEnd::Done));
}

#[tokio::test(start_paused = true)]
async fn a_worker_without_events_ends_when_it_is_asked_to() {
    let outbox = outbox(&[], 0);
    let (worker, _) = worker(&outbox, sets(&[]), WorkerOptions::default());
    let begun = Instant::now();
    worker.run(sleep(Duration::from_secs(1))).await;
    assert_eq!(begun.elapsed(), Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn an_event_during_which_workers_die_is_parked_in_the_end() {
    let set = Recorder::new("one");
    let outbox = outbox(&["shop"], 1);
    for _ in 0..3 {
        // What a killed worker leaves.
        outbox.claim(Duration::from_secs(1)).await.unwrap().unwrap();
        sleep(Duration::from_secs(2)).await;
    }
    let (worker, seen) = worker(&outbox, sets(&[&set]), WorkerOptions::default().attempts(3));
    worker.run_until_idle().await;
    assert!(matches!(&seen.deliveries()[0].end, DeliveryEnd::Parked { .. }), "{:?}", seen.deliveries());
    assert!(set.hooks().is_empty());
    // An operator may try again.
    assert!(outbox.retry(&EventId::new("shop-0")).await.unwrap());
    worker.run_until_idle().await;
    assert_eq!(set.hooks(), [HOOK]);
}

/// Drops a run after so many polls; then another one does the rest.
#[tokio::test(start_paused = true)]
async fn dropped_at_any_time_it_loses_nothing_and_keeps_the_order() {
    let mut polls = 0;
    loop {
        let steps = [Scripted::Fail(HookError::transient("busy")), Scripted::Hang];
        let sets_of = [Recorder::new("one"), Recorder::new("two").script(HOOK, steps)];
        let outbox = outbox(&["bank", "shop"], 3);
        let options = || WorkerOptions::default().deadlines(Deadlines::each(Duration::from_secs(5))).seed(polls);
        let slow = Arc::new(Broken::new(&outbox, &[]));
        let worker = Worker::new(slow, sets(&[&sets_of[0], &sets_of[1]])).options(options());
        let ended = {
            let mut run = pin!(worker.run_until_idle());
            let mut left = polls;
            poll_fn(|context| {
                if left == 0 {
                    return Poll::Ready(false);
                }
                left -= 1;
                run.as_mut().poll(context).map(|()| true)
            })
            .await
        };
        worker.run_until_idle().await;
        assert!(left(&outbox).await.is_empty());
        for set in &sets_of {
            for app in ["bank", "shop"] {
                let mut told: Vec<_> = set
                    .records()
                    .into_iter()
                    .filter_map(|record| match record {
                        Recorded::Event(event) if event.app.name.as_str() == app => Some(event.id.to_string()),
                        _ => None,
                    })
                    .collect();
                // Told again is fine; told after a later one is not.
                told.dedup();
                assert_eq!(told, (0..3).map(|n| format!("{app}-{n}")).collect::<Vec<_>>(), "after {polls} polls");
            }
        }
        if ended {
            break;
        }
        polls += 1;
    }
    assert!(polls > 40, "{polls} polls are too few to have met anything");
}

/// Calls of the outbox that wait for each other are no reason to wait for the grace, whatever went on when the end was asked
/// for.
#[tokio::test(start_paused = true)]
async fn an_end_never_waits_for_itself() {
    for polls in 0..60 {
        let set = Recorder::new("one");
        let outbox = outbox(&["bank", "blog", "shop"], 3);
        let options = WorkerOptions::default().apps(2);
        let worker = Worker::new(Arc::new(Broken::new(&outbox, &[])), sets(&[&set])).options(options);
        let (begun, mut left_over) = (Instant::now(), polls);
        let asked = poll_fn(|context| {
            if left_over == 0 {
                return Poll::Ready(());
            }
            left_over -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        });
        worker.run(asked).await;
        assert_eq!(begun.elapsed(), Duration::ZERO, "asked to end at poll {polls}");
        // Nothing is held any more.
        worker.run_until_idle().await;
        assert_eq!((begun.elapsed(), left(&outbox).await.len()), (Duration::ZERO, 0), "asked to end at poll {polls}");
    }
}
