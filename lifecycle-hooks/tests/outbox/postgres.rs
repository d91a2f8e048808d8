//! What only PostgreSQL can be asked: several transactions that are open at once.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::stores::{Postgres, Sql as _, Store as _};
use crate::{HANGS, LONG, claim, claim_of, event, next};

/// The event whose transaction was begun first, and took its place first, is committed last. No cursor may pass over it.
pub(crate) async fn transactions_of_two_apps_do_not_wait_for_each_other(store: &Postgres) {
    let outbox = store.outbox();
    let mut early = store.pool.begin().await.unwrap();
    store.outbox.append(&mut early, &event("a", 1)).await.unwrap();
    timeout(HANGS, store.commit(&[event("b", 1)])).await.expect("b waits for nobody");
    let claimed = timeout(HANGS, next(&*outbox, LONG)).await.expect("nor does its delivery");
    assert_eq!(claimed.id.as_str(), "b-1");
    outbox.ack(&claimed).await.unwrap();
    assert!(claim(&*outbox).await.is_none(), "a is not committed");
    early.commit().await.unwrap();
    claim_of(&*outbox, &event("a", 1)).await;
}

pub(crate) async fn appends_of_one_app_come_one_after_the_other(store: &Postgres) {
    const BLOCKED: &str = "SELECT count(*) FROM pg_stat_activity
        WHERE application_name = current_setting('application_name') AND wait_event_type = 'Lock'";
    let outbox = store.outbox();
    for (round, committed) in [(1, true), (2, false)] {
        let mut first = store.pool.begin().await.unwrap();
        store.outbox.append(&mut first, &event("a", round * 10 + 1)).await.unwrap();
        let second = {
            let (pool, outbox) = (store.pool.clone(), store.outbox.clone());
            tokio::spawn(async move {
                let mut second = pool.begin().await.unwrap();
                outbox.append(&mut second, &event("a", round * 10 + 2)).await.unwrap();
                second.commit().await.unwrap();
            })
        };
        let blocked = async {
            while store.number(BLOCKED).await == 0 {
                tokio::task::yield_now().await;
            }
        };
        timeout(HANGS, blocked).await.expect("the second append waits for the first transaction");
        if committed {
            first.commit().await.unwrap();
        } else {
            first.rollback().await.unwrap();
        }
        timeout(HANGS, second).await.expect("the second goes on").unwrap();
        if committed {
            let claim = claim_of(&*outbox, &event("a", round * 10 + 1)).await;
            outbox.ack(&claim).await.unwrap();
        }
        let claim = claim_of(&*outbox, &event("a", round * 10 + 2)).await;
        outbox.ack(&claim).await.unwrap();
    }
}

pub(crate) async fn an_app_that_a_transaction_holds_is_passed_over(store: &Postgres) {
    let outbox = store.outbox();
    store.commit(&[event("a", 1), event("b", 1)]).await;
    for committed in [false, true] {
        let mut open = store.pool.begin().await.unwrap();
        store.outbox.append(&mut open, &event("a", 2)).await.unwrap();
        let other = timeout(HANGS, next(&*outbox, LONG)).await.expect("b is due");
        assert_eq!(other.app.as_str(), "b");
        assert!(claim(&*outbox).await.is_none());
        // It does not spin while a is due and cannot be had, and does not miss that it can.
        let waits = {
            let outbox = Arc::clone(&outbox);
            tokio::spawn(async move { outbox.changed(LONG).await })
        };
        outbox.changed(Duration::from_millis(20)).await;
        assert!(!waits.is_finished());
        if committed {
            open.commit().await.unwrap();
        } else {
            open.rollback().await.unwrap();
        }
        timeout(HANGS, waits).await.expect("a can be had").unwrap();
        let first = claim_of(&*outbox, &event("a", 1)).await;
        outbox.put_off(&first, Duration::ZERO, None).await.unwrap();
        outbox.put_off(&other, Duration::ZERO, None).await.unwrap();
    }
}

pub(crate) async fn a_lost_connection_is_replaced(store: &Postgres) {
    const LISTENING: &str = "SELECT pid::bigint FROM pg_stat_activity
        WHERE application_name = current_setting('application_name') AND query LIKE 'LISTEN%'
        UNION ALL SELECT 0 ORDER BY 1 DESC LIMIT 1";
    let outbox = store.outbox();
    let waits = {
        let outbox = Arc::clone(&outbox);
        tokio::spawn(async move { outbox.changed(LONG).await })
    };
    let listening = async |but: i64| {
        loop {
            let pid = store.number(LISTENING).await;
            if pid != 0 && pid != but {
                return pid;
            }
            tokio::task::yield_now().await;
        }
    };
    let first = timeout(HANGS, listening(0)).await.expect("it listens");
    store.execute(&format!("SELECT pg_terminate_backend({first})")).await;
    timeout(HANGS, listening(first)).await.expect("it listens again");
    assert!(!waits.is_finished());
    store.commit(&[event("a", 1)]).await;
    timeout(HANGS, waits).await.expect("it hears").unwrap();
    claim_of(&*outbox, &event("a", 1)).await;
}
