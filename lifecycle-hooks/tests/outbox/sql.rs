//! What the stores in databases promise besides.

use std::time::Duration;

use futures_util::future::join_all;
use lifecycle_hooks::outbox::{OutboxError, OutboxFilter};
use scheduler_core::hooks::HookName;

use crate::stores::Sql;
use crate::{LONG, claim, claim_of, event, next};

pub(crate) async fn what_is_rolled_back_is_never_told(store: &impl Sql) {
    let outbox = store.outbox();
    store.roll_back(&[event("a", 1), event("b", 1)]).await;
    assert!(claim(&*outbox).await.is_none());
    store.commit(&[event("a", 2)]).await;
    store.roll_back(&[event("a", 3)]).await;
    let first = claim_of(&*outbox, &event("a", 2)).await;
    store.roll_back(&[event("a", 4)]).await;
    outbox.ack(&first).await.unwrap();
    assert!(claim(&*outbox).await.is_none());
    // What was rolled back leaves nothing that would be in the way of the same event later.
    store.commit(&[event("a", 3)]).await;
    claim_of(&*outbox, &event("a", 3)).await;
    assert_eq!(outbox.list(&OutboxFilter::default()).await.unwrap().len(), 1);
}

pub(crate) async fn an_event_of_a_later_version_is_handed_over_as_an_error(store: &impl Sql) {
    let outbox = store.outbox();
    store.commit(&[event("a", 1), event("a", 2)]).await;
    store.execute(r#"UPDATE lifecycle_events SET event = '{"of a later": "version"}' WHERE id = 'a-1'"#).await;
    let rows = outbox.list(&OutboxFilter::default()).await.unwrap();
    assert_eq!((rows[0].hook, rows[1].hook), (None, Some(HookName::Other)));
    let claim = next(&*outbox, LONG).await;
    let error = claim.event.as_ref().unwrap_err();
    assert!(!error.retry && error.message.contains("a-1"), "{error}");
    outbox.park(&claim, error).await.unwrap();
    assert!(outbox.drop_event(&claim.id).await.unwrap());
    claim_of(&*outbox, &event("a", 2)).await;
}

pub(crate) async fn what_was_told_is_kept_for_a_time(store: &impl Sql) {
    const TOLD: &str = "SELECT count(*) FROM lifecycle_events WHERE told IS NOT NULL";
    let outbox = store.retaining(LONG);
    for number in 1..=10 {
        store.commit(&[event("a", number)]).await;
        let claim = claim_of(&*outbox, &event("a", number)).await;
        outbox.ack(&claim).await.unwrap();
        assert!(outbox.ack(&claim).await.is_err(), "it is kept, not told again");
    }
    assert!(outbox.list(&OutboxFilter::default()).await.unwrap().is_empty());
    assert!(!outbox.retry(&event("a", 1).id).await.unwrap() && !outbox.drop_event(&event("a", 1).id).await.unwrap());
    assert_eq!(store.number(TOLD).await, 10);

    // Each that is told takes two with it that were kept for long enough.
    store.age().await;
    store.commit(&[event("b", 1)]).await;
    let claim = claim_of(&*outbox, &event("b", 1)).await;
    outbox.ack(&claim).await.unwrap();
    assert_eq!(store.number(TOLD).await, 10 + 1 - 2);
    assert_eq!(store.purge(LONG, 3).await, 3);
    assert_eq!(store.purge(LONG, 1000).await, 5 + 2, "five events, and the rows of a and b, which have none left");
    assert_eq!(store.number(TOLD).await, 1);
    assert_eq!(store.number("SELECT count(*) FROM lifecycle_apps").await, 0);

    // An app that comes back is a new one to earlier claims.
    let stale = claim;
    store.commit(&[event("b", 2)]).await;
    let claim = claim_of(&*outbox, &event("b", 2)).await;
    assert_eq!(claim.fence, stale.fence);
    assert!(matches!(outbox.ack(&stale).await, Err(OutboxError::LeaseLost { .. })));
    // What has events is not purged, nor is what was told just now.
    assert_eq!(store.purge(Duration::from_secs(60), 1000).await, 0);
    outbox.ack(&claim).await.unwrap();
}

pub(crate) async fn tables_are_made_once(store: &impl Sql) {
    for table in ["lifecycle_apps", "lifecycle_events", "lifecycle_schema"] {
        store.execute(&format!("DROP TABLE {table}")).await;
    }
    for made in join_all((0..4).map(|_| store.prepare())).await {
        made.unwrap();
    }
    store.commit(&[event("a", 1)]).await;
    store.prepare().await.unwrap();
    assert_eq!(store.number("SELECT count(*) FROM lifecycle_schema").await, 1);
    claim_of(&*store.outbox(), &event("a", 1)).await;
}

pub(crate) async fn tables_of_a_later_version_are_left_alone(store: &impl Sql) {
    store.execute("UPDATE lifecycle_schema SET version = 99").await;
    let refused = store.prepare().await;
    assert!(matches!(refused, Err(OutboxError::Schema { found: 99, known: 1, .. })), "{refused:?}");
}
