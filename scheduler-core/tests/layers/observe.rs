//! What is told of operations, and what is not.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_core::stream::BoxStream;
use futures_util::{FutureExt as _, StreamExt as _};
use scheduler_core::layer::{Meter, Observe, Outcome};
use scheduler_core::{
    Capabilities, ErrorKind, FromOps, List, Logs, OpName, OpService, PutConfig, Reply, Result, Scheduler as _,
    SchedulerOp, StreamItem, Subscription, Watch, WatchItem,
};
use tracing::field::{Field, Visit};
use tracing::span;

use crate::script::{Answer, Opening, Script, error, launch, moved, target, unavailable};

/// Fields of a span or an event.
type Fields = BTreeMap<String, String>;

/// A subscriber that writes it all down.
#[derive(Clone, Default)]
struct Book {
    pages: Arc<Mutex<Pages>>,
}

#[derive(Default)]
struct Pages {
    spans: Vec<Fields>,
    entered: Vec<u64>,
    /// In which span, and what.
    events: Vec<(Option<u64>, Fields)>,
}

struct Pen<'a>(&'a mut Fields);

impl Visit for Pen<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

impl tracing::Subscriber for Book {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("scheduler_core")
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        let mut fields = Fields::from([("name".to_owned(), attributes.metadata().name().to_owned())]);
        attributes.record(&mut Pen(&mut fields));
        let spans = &mut self.pages.lock().unwrap().spans;
        spans.push(fields);
        span::Id::from_u64(spans.len() as u64)
    }

    fn record(&self, span: &span::Id, values: &span::Record<'_>) {
        values.record(&mut Pen(&mut self.pages.lock().unwrap().spans[span.into_u64() as usize - 1]));
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields::from([("level".to_owned(), event.metadata().level().to_string())]);
        event.record(&mut Pen(&mut fields));
        let mut pages = self.pages.lock().unwrap();
        let span = pages.entered.last().copied();
        pages.events.push((span, fields));
    }

    fn enter(&self, span: &span::Id) {
        self.pages.lock().unwrap().entered.push(span.into_u64());
    }

    fn exit(&self, _: &span::Id) {
        self.pages.lock().unwrap().entered.pop();
    }
}

/// A meter that writes it all down.
#[derive(Debug, Default)]
struct Measures(Mutex<Vec<(OpName, Outcome, Duration)>>);

impl Meter for Measures {
    fn finished(&self, op: OpName, outcome: Outcome, took: Duration) {
        self.0.lock().unwrap().push((op, outcome, took));
    }
}

impl Measures {
    fn take(&self) -> Vec<(OpName, Outcome, Duration)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn fields<const N: usize>(of: [(&str, &str); N]) -> Fields {
    of.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Runs this with a book, on a clock that is paused.
fn written(run: impl AsyncFnOnce()) -> (Vec<Fields>, Vec<(Option<u64>, Fields)>) {
    let book = Book::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    tracing::subscriber::with_default(book.clone(), || runtime.block_on(run()));
    let pages = std::mem::take(&mut *book.pages.lock().unwrap());
    assert!(pages.entered.is_empty());
    (pages.spans, pages.events)
}

#[test]
fn an_operation_is_a_span_with_what_is_known_and_an_event_at_its_end() {
    let (spans, events) = written(async || {
        let script = Script::new([Answer::Done, Answer::Fails(moved())]);
        let observe = Observe::new(Arc::new(script));
        observe.call(launch().request_id("r-1").into()).await.unwrap();
        observe.call(List::default().into()).await.unwrap_err();
    });
    let launch = [("op", "launch"), ("workload", "shop/web"), ("request_id", "r-1"), ("outcome", "done")];
    let list = [("op", "list"), ("outcome", "conflict"), ("retry", "after_reread")];
    let common = || fields([("name", "scheduler"), ("backend", "script")]);
    assert_eq!(spans[0], common().into_iter().chain(fields(launch)).collect());
    assert_eq!(spans[1], common().into_iter().chain(fields(list)).collect());
    let done = fields([("level", "DEBUG"), ("message", "done"), ("took_ms", "0")]);
    assert_eq!(events[0], (Some(1), done));
    let said = moved().to_string();
    let failed = fields([("level", "WARN"), ("message", "conflict"), ("took_ms", "0"), ("error", &said)]);
    assert_eq!(events[1], (Some(2), failed));
    assert_eq!((spans.len(), events.len()), (2, 2));
}

#[test]
fn what_an_operation_carries_is_not_written_down() {
    let (spans, events) = written(async || {
        let observe = Observe::new(Arc::new(Script::new([Answer::Done, Answer::Fails(unavailable())])));
        for _ in 0..2 {
            drop(observe.call(PutConfig::new(target(), "app").entry("KEY-OF-IT", "hunter2").into()).await);
        }
    });
    assert_eq!(spans.len(), 2);
    let all = format!("{spans:?} {events:?}");
    assert!(!all.contains("hunter2") && !all.contains("KEY-OF-IT"), "{all}");
}

#[test]
fn a_meter_is_told_each_end_once() {
    let script = Script::new([Answer::Done, Answer::Fails(error(ErrorKind::RateLimited)), Answer::Hangs]);
    let measures = Arc::new(Measures::default());
    let meter = Arc::clone(&measures);
    let (spans, events) = written(async move || {
        let observe = Observe::new(Arc::new(script)).with_meter(Arc::<Measures>::clone(&meter));
        observe.call(launch().into()).await.unwrap();
        observe.call(launch().into()).await.unwrap_err();
        let took = Duration::from_secs(7);
        assert!(tokio::time::timeout(took, observe.call(launch().into())).await.is_err());
        let of = |outcome, took| (OpName::Launch, outcome, took);
        assert_eq!(
            meter.take(),
            [
                of(Outcome::Done, Duration::ZERO),
                of(Outcome::Failed("rate_limited"), Duration::ZERO),
                of(Outcome::Dropped, took)
            ]
        );
    });
    assert_eq!(spans[2]["outcome"], "dropped");
    assert_eq!(events.len(), 3);
}

#[test]
fn a_stream_is_one_span_from_its_opening_to_its_end() {
    let measures = Arc::new(Measures::default());
    let meter = Arc::clone(&measures);
    let (spans, events) = written(async move || {
        let synced = || Ok(StreamItem::Watch(WatchItem::Synced));
        let openings = [
            Opening { items: vec![synced(), Err(unavailable()), synced()], ends: true },
            Opening { items: vec![synced(), Err(error(ErrorKind::Forbidden))], ends: true },
            Opening { items: vec![], ends: false },
        ];
        let scheduler =
            FromOps::new(Arc::new(
                Observe::new(Arc::new(Script::streams(openings))).with_meter(Arc::<Measures>::clone(&meter)),
            ));
        assert_eq!(scheduler.watch(Watch::default()).count().await, 3);
        assert_eq!(meter.take(), [(OpName::Watch, Outcome::Done, Duration::ZERO)]);
        assert_eq!(scheduler.watch(Watch::default()).count().await, 2);
        assert_eq!(meter.take(), [(OpName::Watch, Outcome::Failed("forbidden"), Duration::ZERO)]);
        let mut logs = scheduler.logs(Logs::new(target()));
        assert!(logs.next().now_or_never().is_none());
        assert!(meter.take().is_empty());
        drop(logs);
        assert_eq!(meter.take(), [(OpName::Logs, Outcome::Dropped, Duration::ZERO)]);
    });
    let outcomes: Vec<_> = spans.iter().map(|span| (&*span["op"], &*span["outcome"])).collect();
    assert_eq!(outcomes, [("watch", "done"), ("watch", "forbidden"), ("logs", "dropped")]);
    assert_eq!(spans[2]["workload"], "shop/web");
    let told: Vec<_> = events.iter().map(|(span, event)| (span.unwrap(), &*event["message"])).collect();
    assert_eq!(told, [(1, "the stream broke"), (1, "done"), (2, "forbidden"), (3, "dropped")]);
}

/// A service with a word of its own on each call, and on each item that it gives.
#[derive(Debug)]
struct Speaks(Script);

#[async_trait::async_trait]
impl OpService for Speaks {
    fn capabilities(&self) -> &Capabilities {
        self.0.capabilities()
    }

    async fn call(&self, op: SchedulerOp) -> Result<Reply> {
        tracing::info!(target: "scheduler_core::speaks", "called");
        self.0.call(op).await
    }

    fn open(&self, subscription: Subscription) -> BoxStream<'static, Result<StreamItem>> {
        let items = self.0.open(subscription);
        items.inspect(|_| tracing::info!(target: "scheduler_core::speaks", "gave")).boxed()
    }
}

#[test]
fn what_happens_inside_happens_in_the_span() {
    let (_, events) = written(async || {
        let items = vec![Ok(StreamItem::Watch(WatchItem::Synced))];
        let observe = Observe::new(Arc::new(Speaks(Script::streams([Opening { items, ends: true }]))));
        observe.call(launch().into()).await.unwrap();
        assert_eq!(observe.open(Subscription::Watch(Watch::default())).count().await, 1);
    });
    let told: Vec<_> = events.iter().map(|(span, event)| (*span, &*event["message"])).collect();
    assert_eq!(told, [(Some(1), "called"), (Some(1), "done"), (Some(2), "gave"), (Some(2), "done")]);
}
