//! What chaos does to calls and streams.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use scheduler_core::layer::{Chaos, ChaosOptions, ChaosScript, Mishap};
use scheduler_core::{
    ErrorKind, FromOps, LogItem, LogLine, Logs, OpName, OpService as _, Ping, Scheduler as _, StreamItem, Watch,
    WatchItem,
};
use tokio::time::Instant;

use crate::script::{Opening, Script, launch, target};

fn chaos(script: ChaosScript) -> (Arc<Script>, Chaos) {
    let inner = Arc::new(Script::new([]));
    (Arc::<Script>::clone(&inner), Chaos::scripted(inner, script))
}

const WHILE: Duration = Duration::from_secs(3);

#[tokio::test(start_paused = true)]
async fn a_call_meets_what_is_written_down_for_its_number() {
    let script = ChaosScript::new()
        .call(2, Mishap::Refuse)
        .call(3, Mishap::RefuseFor(WHILE))
        .call(4, Mishap::LoseAnswer)
        .call(5, Mishap::LoseAnswer)
        .call(6, Mishap::Delay(WHILE));
    let (inner, chaos) = chaos(script);
    chaos.call(launch().into()).await.unwrap();

    let refused = chaos.call(launch().into()).await.unwrap_err();
    assert_eq!((refused.kind(), refused.retry_after()), (&ErrorKind::Unavailable, None));
    assert_eq!((refused.op(), refused.target()), (Some(OpName::Launch), Some(&target())));
    let refused = chaos.call(launch().into()).await.unwrap_err();
    assert_eq!((refused.kind(), refused.retry_after()), (&ErrorKind::Unavailable, Some(WHILE)));
    assert_eq!(inner.calls().len(), 1, "what is refused is not done");

    let lost = chaos.call(launch().into()).await.unwrap_err();
    assert_eq!(*lost.kind(), ErrorKind::OutcomeUnknown);
    let lost = chaos.call(Ping::default().into()).await.unwrap_err();
    assert_eq!(*lost.kind(), ErrorKind::Unavailable, "what only reads has no effect that could be unknown");
    assert_eq!(inner.calls().len(), 3, "it is done all the same");

    let start = Instant::now();
    chaos.call(launch().into()).await.unwrap();
    assert_eq!(inner.calls()[3].0 - start, WHILE);
    chaos.call(launch().into()).await.unwrap();
    assert_eq!((chaos.calls(), inner.calls().len()), (7, 5));
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_does_the_same_and_no_other_seed_does() {
    let run = |seed| async move {
        let options = ChaosOptions::new(seed).refuse(200).lose_answer(200);
        let script = Arc::new(Script::new([]));
        let chaos = Chaos::seeded(script, options);
        let mut told = Vec::new();
        for _ in 0..50 {
            told.push(chaos.call(launch().into()).await.map_err(|error| error.kind().clone()));
        }
        told
    };
    assert_eq!(run(1).await, run(1).await);
    assert_ne!(run(1).await, run(2).await);
}

#[tokio::test(start_paused = true)]
async fn a_gap_of_a_watch_is_an_error_and_a_new_snapshot_after_a_resync() {
    let opening = || Opening { items: vec![Ok(StreamItem::Watch(WatchItem::Synced)); 2], ends: true };
    let inner = Arc::new(Script::streams([opening(), opening(), opening()]));
    let chaos = Arc::new(Chaos::scripted(Arc::<Script>::clone(&inner), ChaosScript::new().gap(1).gap(3)));
    let items: Vec<_> = FromOps::new(Arc::<Chaos>::clone(&chaos)).watch(Watch::default()).collect().await;
    let short: Vec<_> = items.iter().map(|item| item.as_ref().map_err(|error| error.kind())).collect();
    let synced = Ok(&WatchItem::Synced);
    let gap = Err(&ErrorKind::Unavailable);
    assert_eq!(short, [gap, synced, gap, Ok(&WatchItem::Resync), synced, synced]);
    assert_eq!((inner.opened().len(), chaos.items(), chaos.calls()), (2, 6, 0));
}

#[tokio::test(start_paused = true)]
async fn a_gap_of_logs_loses_nothing() {
    let line = |text: &str| Ok(StreamItem::Logs(LogItem::Line(LogLine::new("web-1", "web", text))));
    let inner = Arc::new(Script::streams([Opening { items: vec![line("a"), line("b")], ends: true }]));
    let chaos = Arc::new(Chaos::scripted(Arc::<Script>::clone(&inner), ChaosScript::new().gap(2)));
    let items: Vec<_> = FromOps::new(chaos).logs(Logs::new(target())).collect().await;
    let error = items[1].as_ref().unwrap_err();
    assert_eq!((error.op(), error.target()), (Some(OpName::Logs), Some(&target())));
    let texts: Vec<_> = items.iter().flatten().collect();
    assert_eq!(texts.len(), 2);
    assert_eq!(inner.opened().len(), 1);
}
