//! Logs that break.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use scheduler_core::layer::{Retry, RetryPolicy};
use scheduler_core::{FromOps, LogItem, LogLine, Logs, Result, Scheduler as _, StreamItem, Subscription, Timestamp};

use crate::script::{Opening, Script, target, unavailable};

/// A line of `web-1` or another instance, at so many milliseconds.
fn line(instance: &str, at: i64, text: &str) -> LogItem {
    let mut line = LogLine::new(instance, "web", text);
    line.time = Some(Timestamp::from_millis(at));
    LogItem::Line(line)
}

fn timeless(text: &str) -> LogItem {
    LogItem::Line(LogLine::new("web-1", "web", text))
}

fn opening(items: impl IntoIterator<Item = LogItem>, breaks: bool, ends: bool) -> Opening {
    let items = items.into_iter().map(|item| Ok(StreamItem::Logs(item)));
    Opening { items: items.chain(breaks.then(|| Err(unavailable()))).collect(), ends }
}

fn breaks(items: impl IntoIterator<Item = LogItem>) -> Opening {
    opening(items, true, false)
}

fn ends(items: impl IntoIterator<Item = LogItem>) -> Opening {
    opening(items, false, true)
}

/// What is told of these openings, each item in short, and what was asked for in each.
async fn told(asked: Logs, openings: impl IntoIterator<Item = Opening>) -> (Vec<String>, Vec<Logs>) {
    let script = Arc::new(Script::streams(openings));
    let logs = FromOps::new(Arc::new(Retry::new(Arc::<Script>::clone(&script), RetryPolicy::default()))).logs(asked);
    let short = |item: Result<LogItem>| match item {
        Ok(LogItem::Line(line)) => line.text,
        Ok(LogItem::Gap { instance, container, .. }) => format!("gap {instance} {container}"),
        Ok(other) => format!("{other:?}"),
        Err(error) => format!("error {:?}", error.kind()),
    };
    // All openings of these tests end in the end, or break and go on: a stream that is silent for a day is over.
    let items = until_silent(logs).await.into_iter().map(short).collect();
    let logs = |(_, asked): &(_, Subscription)| match asked {
        Subscription::Logs(asked) => asked.clone(),
        other => panic!("{other:?}"),
    };
    let asked = script.opened().iter().map(logs).collect();
    (items, asked)
}

async fn until_silent(mut logs: futures_core::stream::BoxStream<'static, Result<LogItem>>) -> Vec<Result<LogItem>> {
    let mut items = Vec::new();
    while let Ok(Some(item)) = tokio::time::timeout(Duration::from_secs(86_400), logs.next()).await {
        items.push(item);
    }
    items
}

fn follow() -> Logs {
    Logs::new(target()).follow()
}

#[tokio::test(start_paused = true)]
async fn a_follower_goes_on_behind_the_last_line_of_each_container() {
    let (told, asked) = told(
        follow().tail(5),
        [
            breaks([line("web-1", 60_000, "a"), line("web-2", 59_000, "b"), line("web-1", 60_000, "c")]),
            // From the time that is asked for: what was told, two lines of one time among it, and what was not.
            ends([
                line("web-1", 60_000, "a"),
                line("web-2", 58_000, "before b"),
                line("web-1", 60_000, "c"),
                line("web-1", 60_000, "d"),
                line("web-2", 59_000, "b"),
                line("web-2", 59_500, "e"),
                line("web-3", 55_000, "f"),
                line("web-1", 61_000, "g"),
            ]),
        ],
    )
    .await;
    assert_eq!(told, ["a", "b", "c", "gap web-1 web", "gap web-2 web", "d", "e", "f", "g"]);
    // Ten seconds before the last line, and all of them: a tail would leave some out.
    assert_eq!(asked, [follow().tail(5), follow().since(Timestamp::from_millis(50_000))]);
}

#[tokio::test(start_paused = true)]
async fn a_second_break_goes_on_from_where_the_first_did() {
    let first = || [line("web-1", 60_000, "a"), line("web-1", 60_000, "b")];
    let (told, asked) = told(
        follow(),
        [
            breaks(first()),
            breaks([]),
            breaks(first().into_iter().take(1)),
            ends(first().into_iter().chain([line("web-1", 60_001, "c")])),
        ],
    )
    .await;
    assert_eq!(told, ["a", "b", "gap web-1 web", "gap web-1 web", "c"]);
    assert!(asked[1..].iter().all(|asked| asked.since == Some(Timestamp::from_millis(50_000))), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn it_never_asks_for_what_was_not_asked_for() {
    let since = Timestamp::from_millis(59_000);
    let (_, asked) = told(follow().since(since), [breaks([line("web-1", 60_000, "a")]), ends([])]).await;
    assert_eq!(asked[1].since, Some(since));
}

#[tokio::test(start_paused = true)]
async fn without_times_it_goes_on_with_what_is_written_from_then_on() {
    let openings = || [breaks([line("web-1", 60_000, "a"), timeless("b")]), ends([timeless("c")])];
    let (told, asked) = told(follow(), openings()).await;
    assert_eq!(told, ["a", "b", "gap web-1 web", "c"]);
    assert_eq!(asked[1], follow().tail(0));
}

#[tokio::test(start_paused = true)]
async fn before_anything_was_told_it_is_opened_as_it_was_asked_for() {
    let asked_for = Logs::new(target()).tail(3);
    let (told, asked) = told(asked_for.clone(), [breaks([]), ends([line("web-1", 1, "a")])]).await;
    assert_eq!(told, ["a"]);
    assert_eq!(asked, [asked_for.clone(), asked_for]);
}

#[tokio::test(start_paused = true)]
async fn without_follow_or_of_the_run_before_an_error_is_handed_on() {
    for logs in [Logs::new(target()), follow().previous()] {
        let broken = Opening {
            items: vec![
                Ok(StreamItem::Logs(line("web-1", 1, "a"))),
                Err(unavailable()),
                Ok(StreamItem::Logs(line("web-2", 1, "b"))),
            ],
            ends: true,
        };
        let (told, asked) = told(logs.clone(), [broken, ends([line("web-1", 1, "a")])]).await;
        assert_eq!(told, ["a", "error Unavailable", "b"]);
        assert_eq!(asked.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_is_the_end() {
    for logs in [Logs::new(target()), follow()] {
        let (told, asked) = told(logs, [ends([]), ends([line("web-1", 1, "a")])]).await;
        assert_eq!((told, asked.len()), (Vec::<String>::new(), 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_gap_is_told_of_those_that_were_heard_last() {
    let openings = [
        breaks([line("web-1", 60_000, "a")]),
        breaks([line("web-2", 61_000, "b")]),
        ends([line("web-2", 62_000, "c")]),
    ];
    let (told, _) = told(follow(), openings).await;
    assert_eq!(told, ["a", "gap web-1 web", "b", "gap web-2 web", "c"]);
}
