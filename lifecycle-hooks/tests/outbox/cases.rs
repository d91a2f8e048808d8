//! What all stores promise.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lifecycle_hooks::outbox::{Claim, OutboxError, OutboxFilter};
use scheduler_core::Timestamp;
use scheduler_core::hooks::{HookError, HookName};

use crate::stores::{Cut, Store};
use crate::{HANGS, LONG, claim, claim_of, event, next};

fn now() -> Timestamp {
    Timestamp::from_millis(0).plus(SystemTime::now().duration_since(UNIX_EPOCH).unwrap())
}

fn lost<T: std::fmt::Debug>(answer: Result<T, OutboxError>) -> bool {
    matches!(answer, Err(OutboxError::LeaseLost { .. }))
}

pub(crate) async fn order_is_that_of_commits(store: &impl Store) {
    let outbox = store.outbox();
    store.commit(&[event("a", 1), event("a", 2)]).await;
    store.commit(&[event("a", 3)]).await;
    for number in 1..=3 {
        let claim = claim_of(&*outbox, &event("a", number)).await;
        outbox.ack(&claim).await.unwrap();
    }
    assert!(claim(&*outbox).await.is_none());
    assert!(outbox.list(&OutboxFilter::default()).await.unwrap().is_empty());
}

pub(crate) async fn one_at_a_time_per_app(store: &impl Store) {
    let outbox = store.outbox();
    store.commit(&[event("a", 1), event("a", 2)]).await;
    let first = claim_of(&*outbox, &event("a", 1)).await;
    assert!(claim(&*outbox).await.is_none(), "a is held");
    store.commit(&[event("a", 3)]).await;
    assert!(claim(&*outbox).await.is_none(), "an append changes nothing about that");
    outbox.ack(&first).await.unwrap();
    claim_of(&*outbox, &event("a", 2)).await;
}

pub(crate) async fn apps_take_turns(store: &impl Store) {
    let outbox = store.outbox();
    store.commit(&[event("a", 1), event("a", 2)]).await;
    // Databases count milliseconds.
    let due = outbox.list(&OutboxFilter::default()).await.unwrap()[0].due.unwrap();
    while now() <= due {
        tokio::task::yield_now().await;
    }
    store.commit(&[event("b", 1), event("b", 2)]).await;
    let first = claim_of(&*outbox, &event("a", 1)).await;
    while now() <= outbox.list(&OutboxFilter::default()).await.unwrap()[2].due.unwrap() {
        tokio::task::yield_now().await;
    }
    outbox.ack(&first).await.unwrap();
    claim_of(&*outbox, &event("b", 1)).await;
    claim_of(&*outbox, &event("a", 2)).await;
}

pub(crate) async fn a_claim_is_fenced(store: &impl Store) {
    let (outbox, other) = (store.outbox(), store.elsewhere().await);
    store.commit(&[event("a", 1)]).await;
    let stale = outbox.claim(Duration::from_millis(1)).await.unwrap().unwrap();
    assert_eq!(stale.attempts, 0);
    let good = next(&*other, LONG).await;
    assert_eq!(good.id, stale.id);
    assert_eq!(good.attempts, 1, "a lease that ran out is an attempt");

    let before = outbox.list(&OutboxFilter::default()).await.unwrap();
    let error = HookError::permanent("stale");
    assert!(lost(outbox.renew(&stale, LONG).await));
    assert!(lost(outbox.park(&stale, &error).await));
    assert!(lost(outbox.put_off(&stale, Duration::ZERO, Some(&error)).await));
    assert!(lost(outbox.ack(&stale).await));
    assert_eq!(outbox.list(&OutboxFilter::default()).await.unwrap(), before);

    other.ack(&good).await.unwrap();
    assert!(lost(other.ack(&good).await), "an answer counts once");
    // Nor does it count for the next event.
    store.commit(&[event("a", 2)]).await;
    let second = claim_of(&*outbox, &event("a", 2)).await;
    assert!(lost(outbox.ack(&stale).await) && lost(outbox.ack(&good).await));
    outbox.ack(&second).await.unwrap();
}

pub(crate) async fn a_late_answer_counts(store: &impl Store) {
    let outbox = store.outbox();
    store.commit(&[event("a", 1)]).await;
    let late = outbox.claim(Duration::ZERO).await.unwrap().unwrap();
    outbox.changed(LONG).await;
    outbox.ack(&late).await.unwrap();
    assert!(claim(&*outbox).await.is_none());
}

pub(crate) async fn a_renewed_lease_holds(store: &impl Store) {
    let outbox = store.outbox();
    store.commit(&[event("a", 1)]).await;
    let held = outbox.claim(Duration::ZERO).await.unwrap().unwrap();
    outbox.renew(&held, LONG).await.unwrap();
    outbox.changed(Duration::from_millis(5)).await;
    assert!(claim(&*outbox).await.is_none());
    outbox.ack(&held).await.unwrap();
}

pub(crate) async fn parked_blocks_its_app_only(store: &impl Store) {
    let outbox = store.outbox();
    store.commit(&[event("a", 1), event("a", 2)]).await;
    let poison = claim_of(&*outbox, &event("a", 1)).await;
    let error = HookError::permanent("the registry knows no such image");
    outbox.park(&poison, &error).await.unwrap();
    store.commit(&[event("b", 1), event("a", 3)]).await;
    let other = claim_of(&*outbox, &event("b", 1)).await;
    outbox.ack(&other).await.unwrap();
    assert!(claim(&*outbox).await.is_none());

    let all = outbox.list(&OutboxFilter::default()).await.unwrap();
    assert_eq!(all.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["a-1", "a-2", "a-3"]);
    assert_eq!((all[0].due, all[0].attempts, all[0].error.as_ref()), (None, 1, Some(&error)));
    assert_eq!((all[1].due.is_some(), all[1].attempts, all[1].error.as_ref()), (true, 0, None));
    assert!(all.iter().all(|row| row.hook == Some(HookName::Other)));
}

pub(crate) async fn what_is_put_off_waits(store: &impl Store) {
    let outbox = store.outbox();
    store.commit(&[event("a", 1), event("a", 2)]).await;
    let first = claim_of(&*outbox, &event("a", 1)).await;
    // For its own reasons: no attempt.
    outbox.put_off(&first, Duration::from_millis(20), None).await.unwrap();
    let due = outbox.list(&OutboxFilter::default()).await.unwrap()[0].due.unwrap();
    let second = next(&*outbox, LONG).await;
    assert!(now() >= due);
    assert_eq!((second.id.as_str(), second.attempts), ("a-1", 0));

    let before = now();
    let error = HookError::transient("no answer");
    outbox.put_off(&second, LONG, Some(&error)).await.unwrap();
    assert!(claim(&*outbox).await.is_none(), "neither it nor the one behind it");
    let row = outbox.list(&OutboxFilter::default()).await.unwrap().remove(0);
    assert!(row.due.unwrap() >= before.plus(LONG) && row.due.unwrap() <= now().plus(LONG));
    assert_eq!((row.attempts, row.error.as_ref()), (1, Some(&error)));
}

pub(crate) async fn retry_tells_at_once(store: &impl Store) {
    let outbox = store.outbox();
    store.commit(&[event("a", 1), event("b", 1), event("b", 2)]).await;
    let error = HookError::transient("no answer");
    let poison = claim_of(&*outbox, &event("a", 1)).await;
    outbox.park(&poison, &error).await.unwrap();
    let held = claim_of(&*outbox, &event("b", 1)).await;
    // What is being told, and what waits behind it, goes on as it was.
    assert!(outbox.retry(&held.id).await.unwrap() && outbox.retry(&event("b", 2).id).await.unwrap());
    assert!(claim(&*outbox).await.is_none());

    assert!(outbox.retry(&poison.id).await.unwrap());
    let again = claim_of(&*outbox, &event("a", 1)).await;
    assert_eq!(again.attempts, 0);
    outbox.put_off(&again, LONG, Some(&error)).await.unwrap();
    assert!(claim(&*outbox).await.is_none());
    assert!(outbox.retry(&poison.id).await.unwrap());
    let again = claim_of(&*outbox, &event("a", 1)).await;
    assert_eq!(again.attempts, 0);
    assert!(lost(outbox.ack(&poison).await));
    outbox.ack(&again).await.unwrap();
    outbox.ack(&held).await.unwrap();
    claim_of(&*outbox, &event("b", 2)).await;
    assert!(!outbox.retry(&poison.id).await.unwrap(), "it was told");
}

pub(crate) async fn drop_lets_the_next_one_go(store: &impl Store) {
    let outbox = store.outbox();
    store.commit(&[event("a", 1), event("a", 2), event("a", 3)]).await;
    let poison = claim_of(&*outbox, &event("a", 1)).await;
    outbox.park(&poison, &HookError::permanent("never")).await.unwrap();
    assert!(outbox.drop_event(&event("a", 2).id).await.unwrap());
    assert!(claim(&*outbox).await.is_none(), "the parked one is still in front");
    assert!(outbox.drop_event(&poison.id).await.unwrap());
    assert!(!outbox.drop_event(&poison.id).await.unwrap());
    let third = claim_of(&*outbox, &event("a", 3)).await;
    assert_eq!(third.attempts, 0);
    outbox.ack(&third).await.unwrap();
    store.commit(&[event("a", 4)]).await;
    assert!(outbox.drop_event(&event("a", 4).id).await.unwrap());
    assert!(claim(&*outbox).await.is_none());
    store.commit(&[event("a", 5)]).await;
    claim_of(&*outbox, &event("a", 5)).await;
}

pub(crate) async fn a_dropped_event_is_not_told_beside_the_next(store: &impl Store) {
    let outbox = store.outbox();
    store.commit(&[event("a", 1)]).await;
    let held = claim_of(&*outbox, &event("a", 1)).await;
    assert!(outbox.drop_event(&held.id).await.unwrap());
    assert!(lost(outbox.renew(&held, LONG).await) && lost(outbox.ack(&held).await));
    store.commit(&[event("a", 2)]).await;
    assert!(claim(&*outbox).await.is_none(), "whoever had the dropped one may still be at it");

    store.commit(&[event("b", 1)]).await;
    let held = outbox.claim(Duration::from_millis(50)).await.unwrap().unwrap();
    assert!(outbox.drop_event(&held.id).await.unwrap());
    outbox.changed(Duration::from_millis(200)).await;
    assert!(claim(&*outbox).await.is_none(), "the lease is over, and nothing is left");
    store.commit(&[event("b", 2)]).await;
    let after = claim_of(&*outbox, &event("b", 2)).await;
    assert_eq!(after.attempts, 0);
}

pub(crate) async fn names_are_given_once(store: &impl Store) {
    store.commit(&[event("a", 1)]).await;
    let again = store.append(&[event("a", 1)]).await;
    assert!(matches!(again, Err(OutboxError::Duplicate { ref id, .. }) if *id == event("a", 1).id), "{again:?}");
    assert_eq!(store.outbox().list(&OutboxFilter::default()).await.unwrap().len(), 1);
}

pub(crate) async fn workers_never_share_an_app(store: &impl Store) {
    const EVENTS: u32 = 12;
    const APPS: [&str; 4] = ["a", "b", "c", "d"];
    for number in 1..=EVENTS {
        for app in APPS {
            store.commit(&[event(app, number)]).await;
        }
    }
    let busy = Arc::new(Mutex::new(BTreeSet::new()));
    let told = Arc::new(Mutex::new(BTreeMap::<String, Vec<String>>::new()));
    let mut workers = tokio::task::JoinSet::new();
    for outbox in [store.outbox(), store.outbox(), store.elsewhere().await, store.elsewhere().await] {
        let (busy, told) = (Arc::clone(&busy), Arc::clone(&told));
        workers.spawn(async move {
            while told.lock().unwrap().values().map(Vec::len).sum::<usize>() < APPS.len() * EVENTS as usize {
                let Some(claim) = outbox.claim(LONG).await.unwrap() else {
                    outbox.changed(Duration::from_millis(10)).await;
                    continue;
                };
                assert!(busy.lock().unwrap().insert(claim.app.clone()), "two workers have {}", claim.app);
                tokio::task::yield_now().await;
                told.lock().unwrap().entry(claim.app.to_string()).or_default().push(claim.id.to_string());
                assert!(busy.lock().unwrap().remove(&claim.app));
                outbox.ack(&claim).await.unwrap();
            }
        });
    }
    while let Some(worker) = workers.join_next().await {
        worker.unwrap();
    }
    let told = told.lock().unwrap();
    for app in APPS {
        let wanted: Vec<_> = (1..=EVENTS).map(|number| format!("{app}-{number}")).collect();
        assert_eq!(told[app], wanted);
    }
}

/// At least once and in order, whatever was dropped: no event is passed over, and none comes back after a later one.
pub(crate) async fn a_call_may_be_dropped_anywhere(store: &impl Store) {
    const EVENTS: u32 = 30;
    const LEASE: Duration = Duration::from_millis(5);
    let outbox = store.outbox();
    let mut told: Vec<Claim> = Vec::new();
    let error = HookError::transient("not yet");
    for number in 1..=EVENTS {
        store.append_in_part(&[event("a", number + 1000), event("a", number + 2000)], number % 7).await;
        store.commit(&[event("a", number)]).await;
        for polls in 0..4 {
            Cut::after(polls, outbox.list(&OutboxFilter::default())).await;
            Cut::after(polls + number % 3, outbox.changed(LEASE)).await;
            let Some(Ok(Some(claim))) = Cut::after(polls + number % 5, outbox.claim(LEASE)).await else { continue };
            told.push(claim.clone());
            Cut::after(polls, outbox.renew(&claim, LEASE)).await;
            if polls == 1 {
                Cut::after(number % 4, outbox.put_off(&claim, Duration::ZERO, Some(&error))).await;
            } else {
                Cut::after(number % 6, outbox.ack(&claim)).await;
            }
            Cut::after(polls, outbox.retry(&claim.id)).await;
        }
    }
    let last = event("a", EVENTS).id;
    while !outbox.list(&OutboxFilter::default()).await.unwrap().is_empty() {
        let claim = next(&*outbox, LONG).await;
        told.push(claim.clone());
        outbox.ack(&claim).await.unwrap();
    }
    let mut wanted = 1;
    for claim in &told {
        let number = claim.id.as_str().strip_prefix("a-").unwrap().parse::<u32>().unwrap();
        assert!(number == wanted || number + 1 == wanted, "{number} came where {wanted} was the next");
        wanted = number + 1;
    }
    assert_eq!(told.last().unwrap().id, last);
}

pub(crate) async fn an_append_wakes(store: &impl Store) {
    for outbox in [store.outbox(), store.elsewhere().await] {
        let waits = {
            let outbox = Arc::clone(&outbox);
            tokio::spawn(async move { outbox.changed(LONG).await })
        };
        store.commit(&[event("a", 1)]).await;
        tokio::time::timeout(HANGS, waits).await.expect("it is woken").unwrap();
        // While something is due there is nothing to wait for.
        tokio::time::timeout(HANGS, outbox.changed(LONG)).await.expect("it is due");
        let claim = claim_of(&*outbox, &event("a", 1)).await;
        outbox.ack(&claim).await.unwrap();
        // And it waits for no longer than it is told to.
        tokio::time::timeout(HANGS, outbox.changed(Duration::from_millis(5))).await.expect("the time is over");
    }
}

pub(crate) async fn a_delay_wakes(store: &impl Store) {
    let outbox = store.outbox();
    store.commit(&[event("a", 1)]).await;
    let first = claim_of(&*outbox, &event("a", 1)).await;
    let waits = {
        let outbox = Arc::clone(&outbox);
        tokio::spawn(async move { outbox.changed(LONG).await })
    };
    outbox.put_off(&first, Duration::from_millis(300), None).await.unwrap();
    assert!(claim(&*outbox).await.is_none());
    // Whoever waits already is not told of a new delay by every store; whoever begins to wait is.
    tokio::time::timeout(HANGS, outbox.changed(LONG)).await.expect("it is due");
    claim_of(&*outbox, &event("a", 1)).await;
    waits.abort();
}

pub(crate) async fn lists_are_narrowed(store: &impl Store) {
    let outbox = store.outbox();
    store.commit(&[event("b", 1), event("a", 1), event("b", 2), event("c", 1)]).await;
    let ids = async |filter: OutboxFilter| {
        let rows = outbox.list(&filter).await.unwrap();
        rows.iter().map(|row| row.id.as_str().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids(OutboxFilter::default()).await, ["a-1", "b-1", "b-2", "c-1"]);
    assert_eq!(ids(OutboxFilter::default().limit(2)).await, ["a-1", "b-1"]);
    assert_eq!(ids(OutboxFilter::default().app("b".parse().unwrap())).await, ["b-1", "b-2"]);
    assert_eq!(ids(OutboxFilter::default().parked()).await, Vec::<String>::new());
    let error = HookError::permanent("never");
    while let Some(claim) = claim(&*outbox).await {
        outbox.park(&claim, &error).await.unwrap();
    }
    assert_eq!(ids(OutboxFilter::default().parked()).await, ["a-1", "b-1", "c-1"]);
    assert_eq!(ids(OutboxFilter::default().parked().app("c".parse().unwrap())).await, ["c-1"]);
}
