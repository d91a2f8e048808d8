//! What every outbox promises, tried on each: in memory, on SQLite, and on the PostgreSQL that `SCHEDULER_TEST_DATABASE_URL` names.
#![expect(clippy::expect_used, clippy::panic, clippy::print_stderr, clippy::unwrap_used, reason = "this is a test")]

mod cases;
mod postgres;
mod sql;
mod stores;

use std::time::Duration;

use lifecycle_hooks::outbox::{Claim, Outbox};
use scheduler_core::hooks::{App, Event, EventId, EventKind};
use scheduler_core::{Namespace, Timestamp};

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(3600);
/// Nothing waits for so long, unless something is broken.
const HANGS: Duration = Duration::from_secs(30);

/// The app's event of this number: its id is `<app>-<number>`.
fn event(app: &str, number: u32) -> Event {
    let kind = EventKind::Other { name: "counted".into(), data: number.into() };
    let id = EventId::new(format!("{app}-{number}"));
    Event::new(id, Timestamp::from_millis(0), kind, App::new(app.parse().unwrap(), Namespace::new(app).unwrap()))
}

/// Claims what is due now.
async fn claim(outbox: &dyn Outbox) -> Option<Claim> {
    outbox.claim(LONG).await.unwrap()
}

/// Claims what is due now, which must be this event.
async fn claim_of(outbox: &dyn Outbox, event: &Event) -> Claim {
    let claim = claim(outbox).await.unwrap_or_else(|| panic!("{} is not due", event.id));
    assert_eq!(claim.event.as_ref().unwrap(), event);
    assert_eq!((&claim.id, &claim.app), (&event.id, &event.app.name));
    claim
}

/// Claims what is due next, as soon as it is.
async fn next(outbox: &dyn Outbox, lease: Duration) -> Claim {
    let next = async {
        loop {
            if let Some(claim) = outbox.claim(lease).await.unwrap() {
                return claim;
            }
            outbox.changed(LONG).await;
        }
    };
    tokio::time::timeout(HANGS, next).await.expect("something is due")
}

/// Runs cases on stores, each as a test of its own.
macro_rules! on {
    ($open:path: $($file:ident: $($case:ident)*;)*) => {
        $($(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            let Some(store) = $open().await else { return };
            super::$file::$case(&store).await;
            store.close().await;
        })*)*
    };
}

macro_rules! everywhere {
    ($open:path; $($more:tt)*) => {
        on! { $open:
            cases: order_is_that_of_commits one_at_a_time_per_app apps_take_turns a_claim_is_fenced a_late_answer_counts
                a_renewed_lease_holds parked_blocks_its_app_only what_is_put_off_waits retry_tells_at_once
                drop_lets_the_next_one_go a_dropped_event_is_not_told_beside_the_next names_are_given_once
                workers_never_share_an_app a_call_may_be_dropped_anywhere an_append_wakes a_delay_wakes lists_are_narrowed;
            $($more)*
        }
    };
}

mod memory {
    everywhere! { crate::stores::memory; }
}

mod sqlite {
    everywhere! { crate::stores::sqlite;
        sql: what_is_rolled_back_is_never_told an_event_of_a_later_version_is_handed_over_as_an_error
            what_was_told_is_kept_for_a_time tables_are_made_once tables_of_a_later_version_are_left_alone;
    }
}

mod on_postgres {
    everywhere! { crate::stores::postgres;
        sql: what_is_rolled_back_is_never_told an_event_of_a_later_version_is_handed_over_as_an_error
            what_was_told_is_kept_for_a_time tables_are_made_once tables_of_a_later_version_are_left_alone;
        postgres: transactions_of_two_apps_do_not_wait_for_each_other appends_of_one_app_come_one_after_the_other
            an_app_that_a_transaction_holds_is_passed_over a_lost_connection_is_replaced;
    }
}
