//! Watches that break.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use scheduler_core::layer::{Retry, RetryPolicy};
use scheduler_core::{
    Error, ErrorKind, FromOps, Observation, OpName, OwnerId, Result, Scheduler as _, StreamItem, Timestamp, Version,
    Watch, WatchItem,
};
use tokio::time::Instant;

use crate::script::{Opening, Script, error, target, unavailable};

const MS: Duration = Duration::from_millis(1);

fn seen() -> WatchItem {
    let (owner, version) = (OwnerId::new("me").unwrap(), Version::new("1"));
    WatchItem::Snapshot(Box::new(Observation::new(target(), owner, "1", version, Timestamp::from_millis(0))))
}

/// An opening that tells these, and then breaks.
fn breaks(items: impl IntoIterator<Item = WatchItem>, error: Error) -> Opening {
    let items = items.into_iter().map(|item| Ok(StreamItem::Watch(item))).chain([Err(error)]).collect();
    Opening { items, ends: false }
}

fn ends(items: impl IntoIterator<Item = WatchItem>) -> Opening {
    Opening { items: items.into_iter().map(|item| Ok(StreamItem::Watch(item))).collect(), ends: true }
}

struct Told {
    items: Vec<Result<WatchItem>>,
    /// Whether the stream has ended, and is not merely silent.
    ended: bool,
    script: Arc<Script>,
}

/// What a watch through the layer tells of these openings, until there is nothing more for a day.
async fn told(policy: RetryPolicy, openings: impl IntoIterator<Item = Opening>) -> Told {
    let script = Arc::new(Script::streams(openings));
    let mut watch = FromOps::new(Arc::new(Retry::new(Arc::<Script>::clone(&script), policy))).watch(Watch::default());
    let mut items = Vec::new();
    loop {
        match tokio::time::timeout(Duration::from_secs(86_400), watch.next()).await {
            Err(_) => return Told { items, ended: false, script },
            Ok(None) => return Told { items, ended: true, script },
            Ok(Some(item)) => items.push(item),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_after_a_break_comes_after_a_resync() {
    let told = told(
        RetryPolicy::default(),
        [
            breaks([seen(), WatchItem::Synced], unavailable()),
            breaks([], unavailable()),
            ends([seen(), WatchItem::Synced]),
        ],
    )
    .await;
    let expected = [
        Ok(seen()),
        Ok(WatchItem::Synced),
        // One for both breaks; and the early end is one again, after which nothing came.
        Ok(WatchItem::Resync),
        Ok(seen()),
        Ok(WatchItem::Synced),
    ];
    assert_eq!(told.items, expected);
    assert!(!told.ended);
    assert_eq!(told.script.opened().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn there_is_no_resync_before_anything_was_told_nor_a_second_one() {
    let openings = || [breaks([], unavailable()), ends([seen()]), breaks([WatchItem::Resync, seen()], unavailable())];
    let told = told(RetryPolicy::default(), openings()).await;
    assert_eq!(told.items, [Ok(seen()), Ok(WatchItem::Resync), Ok(seen())]);
}

#[tokio::test(start_paused = true)]
async fn an_error_that_never_passes_ends_it() {
    let never = || error(ErrorKind::Forbidden);
    let told = told(RetryPolicy::default(), [breaks([seen()], never()), ends([seen()])]).await;
    assert_eq!(told.items, [Ok(seen()), Err(never())]);
    assert!(told.ended);
    assert_eq!(told.script.opened().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn each_time_the_policy_is_used_up_the_error_is_told_and_the_watch_goes_on() {
    let policy = RetryPolicy::default().attempts(3).longest(1000 * MS);
    let told = told(policy, (0..7).map(|_| breaks([], unavailable())).chain([ends([seen()])])).await;
    assert_eq!(told.items[..3], [Err(unavailable()), Err(unavailable()), Ok(seen())]);
    // After an error that was told it sleeps for as long as it ever does.
    let pauses = told.script.stream_pauses();
    assert!(pauses[2] >= 1000 * MS && pauses[5] >= 1000 * MS && pauses[0] < 1000 * MS, "{pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn an_early_end_that_is_told_says_what_it_was() {
    let told = told(RetryPolicy::default().attempts(1), [ends([])]).await;
    let [Err(error)] = &told.items[..] else { panic!("{:?}", told.items) };
    assert_eq!((error.kind(), error.op()), (&ErrorKind::Unavailable, Some(OpName::Watch)));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_breaks_at_once_each_time_is_opened_ever_more_rarely() {
    let policy = RetryPolicy::default().attempts(100).first(100 * MS).longest(100_000 * MS).total(Duration::MAX);
    let told = told(policy, (0..20).map(|_| breaks([seen(), WatchItem::Synced], unavailable()))).await;
    let start = told.script.opened()[0].0;
    let last = told.script.opened()[20].0;
    // Ten sleeps of up to 100 s each: that all are short has a chance below 10^-9.
    assert!(last - start > 30_000 * MS, "{:?}", last - start);
}

#[tokio::test(start_paused = true)]
async fn one_that_stood_for_long_begins_a_new_row() {
    let script = Arc::new(Script::streams([]));
    let policy = RetryPolicy::default().attempts(2).longest(1000 * MS);
    let stands = Arc::new(Standing { script: Arc::<Script>::clone(&script), life: 1000 * MS });
    let mut watch = FromOps::new(Arc::new(Retry::new(stands, policy.clone()))).watch(Watch::default());
    assert!(tokio::time::timeout(Duration::from_secs(60), watch.next()).await.is_err(), "no error is told");
    let opened = script.opened().len();
    assert!(opened > 30, "{opened}");
    let stands = Arc::new(Standing { script, life: 900 * MS });
    let mut watch = FromOps::new(Arc::new(Retry::new(stands, policy))).watch(Watch::default());
    assert!(watch.next().await.unwrap().is_err());
}

/// Streams that are silent for so long, then break.
#[derive(Debug)]
struct Standing {
    script: Arc<Script>,
    life: Duration,
}

#[async_trait::async_trait]
impl scheduler_core::OpService for Standing {
    fn capabilities(&self) -> &scheduler_core::Capabilities {
        self.script.capabilities()
    }

    async fn call(&self, op: scheduler_core::SchedulerOp) -> Result<scheduler_core::Reply> {
        self.script.call(op).await
    }

    fn open(
        &self,
        subscription: scheduler_core::Subscription,
    ) -> futures_core::stream::BoxStream<'static, Result<StreamItem>> {
        drop(self.script.open(subscription));
        let life = self.life;
        let breaks = async move {
            tokio::time::sleep(life).await;
            Err(unavailable())
        };
        breaks.into_stream().boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_opened_before_it_is_polled_and_dropping_it_ends_it() {
    let script = Arc::new(Script::streams([breaks([], unavailable())]));
    let mut watch = FromOps::new(Arc::new(Retry::new(Arc::<Script>::clone(&script), RetryPolicy::default())))
        .watch(Watch::default());
    assert!(script.opened().is_empty());
    assert!(watch.next().now_or_never().is_none());
    assert_eq!(script.opened().len(), 1);
    drop(watch);
    let start = Instant::now();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(start.elapsed() >= Duration::from_secs(60));
    assert_eq!(script.opened().len(), 1);
}
