//! The event stream: a hint of what to read again, never the truth.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt};
use http::Method;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout_at};

use crate::client::{Client, invalid};
use crate::error::{Effect, Error, ErrorKind, Operation, Verb};
use crate::lines::{Line, Lines};
use crate::model::{model, words};
use crate::pause::Failures;
use crate::target::{Target, check_namespace};
use crate::transport::{Call, Limit};

/// A server that grants the stream greets at once; one that does not says nothing, and may not even close.
const GREETING: Duration = Duration::from_secs(5);
/// The server sends something every 30 s.
const SILENCE: Duration = Duration::from_secs(75);
/// A stream that the server ends sooner counts as a failure: else two of them would be a busy loop.
const SHORT: Duration = Duration::from_secs(1);

words! {
    /// What an event is about. Decide by it, and not by [`Event::type`], which names the write that made the event.
    Topic {
        /// A job.
        Job = "Job",
        /// An allocation; its key is its own ID, and a filter may also name its job or deployment.
        Allocation = "Allocation",
        /// An evaluation; likewise.
        Evaluation = "Evaluation",
        /// A deployment; a filter may also name its job.
        Deployment = "Deployment",
        /// A node. Every change of an allocation is one of its node too.
        Node = "Node",
        /// A registration in Nomad's own service registry.
        Service = "Service",
    }
}

model! {
    /// Something that happened. `Debug` leaves the payload out.
    Event shows [topic, r#type, key, namespace, index] {
        /// What it is about.
        topic: Topic,
        /// The write that made it, such as `JobRegistered` or `PlanResult`. A purge is a `JobDeregistered` (from 1.7.5
        /// on).
        r#type: String,
        /// The ID of what it is about.
        key: String,
        /// The namespace; empty for nodes.
        namespace: String,
        /// What else a filter finds it by: the job and the deployment.
        filter_keys: Vec<String>,
        /// The index of the write.
        index: u64,
        /// The object, under the name of its topic.
        payload: Value,
    }
}

/// One step of an event stream.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum StreamItem {
    /// The stream begins, or begins anew. **Read everything now**: what happened before may or may not follow, and nobody
    /// can tell what is missing.
    Opened,
    /// Something happened.
    Event(Event),
}

/// What a stream of events is limited to.
#[derive(Debug, Clone)]
#[must_use]
pub struct EventOptions {
    namespace: String,
    topics: Vec<(Topic, Option<String>)>,
    index: Option<u64>,
}

impl EventOptions {
    /// Everything in this namespace, or in all (`*`; that needs the right to read jobs in each of them).
    pub fn new(namespace: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), topics: Vec::new(), index: None }
    }

    /// Also all events of this topic. Once a topic is named, only named ones come.
    pub fn topic(mut self, topic: Topic) -> Self {
        self.topics.push((topic, None));
        self
    }

    /// Also the events of this topic that have this key or filter key, such as the ID of a job. A key with a colon cannot be
    /// asked for.
    pub fn topic_of(mut self, topic: Topic, key: impl Into<String>) -> Self {
        self.topics.push((topic, Some(key.into())));
        self
    }

    /// Begin with the events of this index, if the server still has them. Otherwise with the oldest that it has: the last
    /// 100 lines or so.
    pub fn index(mut self, index: u64) -> Self {
        self.index = Some(index);
        self
    }

    fn target(&self) -> Result<Target, String> {
        if self.namespace != "*" {
            check_namespace(&self.namespace)?;
        }
        let mut target = Target::new(["v1", "event", "stream"]).param("namespace", &self.namespace);
        for (topic, key) in &self.topics {
            let key = key.as_deref().unwrap_or("*");
            if topic.as_str().contains(':') || key.contains(':') {
                return Err(format!("events of {key:?} cannot be asked for, since it has a colon"));
            }
            target = target.param("topic", format!("{topic}:{key}"));
        }
        Ok(target)
    }
}

impl Client {
    /// Follows what happens. Cost: one connection, and one request each time that it has to be opened anew.
    ///
    /// The server keeps few events, tells of no gap, and sends nothing when it collects evaluations and allocations. So an
    /// event says what to read again, each [`StreamItem::Opened`] says to read all, and reading all once a minute is wise.
    /// Events that were there already are left out where the stream can see it; some may come twice.
    ///
    /// **Errors are items.** After a transient one ([`Error::is_transient`]) the next poll waits (0.5 s doubling to 30 s,
    /// half of it random, or as long as the server asks, up to 5 minutes) and opens the stream from where it was. After
    /// any other, and after [`ErrorKind::MalformedAnswer`], the stream ends. An open stream on which nothing, not even the
    /// server's heartbeat, comes for 75 s is [`ErrorKind::Timeout`].
    ///
    /// The stream spawns nothing, holds no more than one line, and reads only while it is polled. A server ends the stream
    /// of a reader that is too slow.
    ///
    /// # When there is no stream
    ///
    /// Whatever ended it, [`follow`](Self::follow) of [`Query::jobs`](crate::Query::jobs) and
    /// [`Query::deployments`](crate::Query::deployments) tells of changes too, unless the arguments were wrong
    /// ([`InvalidRequest`](ErrorKind::InvalidRequest), [`Invalid`](ErrorKind::Invalid)); and if that is not granted either,
    /// its own error says so. The stream alone is refused by:
    ///
    /// - [`StreamRefused`](ErrorKind::StreamRefused): no greeting within 5 s, or an end before it, which is how servers from
    ///   1.11.2 on refuse, and what a proxy that holds the answer back looks like.
    /// - [`Forbidden`](ErrorKind::Forbidden) and [`Unauthenticated`](ErrorKind::Unauthenticated): how older servers refuse.
    ///   All namespaces (`*`) need the right to read jobs in each one, while a list shows what one may read.
    /// - [`Unsupported`](ErrorKind::Unsupported), [`NotFound`](ErrorKind::NotFound) and
    ///   [`Unexpected`](ErrorKind::Unexpected): a proxy that does not pass the route on, or leads to a log-in.
    /// - [`MalformedAnswer`](ErrorKind::MalformedAnswer): an agent of version 1.11.2 itself, whose status line is no HTTP
    ///   (hashicorp/nomad#27586), or a line that is too long.
    pub fn events(&self, options: EventOptions) -> BoxStream<'static, Result<StreamItem, Error>> {
        let operation = Operation::new(Verb::Watch, "events", Some(&options.namespace), None);
        let reader = Reader {
            client: self.clone(),
            operation,
            place: Place { index: options.index, seen: BTreeSet::new() },
            options,
            step: Step::Open,
            waiting: VecDeque::new(),
            failures: Failures::default(),
            pause: None,
        };
        stream::unfold(reader, |mut reader| async move {
            let item = reader.next().await?;
            Some((item, reader))
        })
        .boxed()
    }
}

struct Reader {
    client: Client,
    operation: Operation,
    options: EventOptions,
    place: Place,
    step: Step,
    /// The rest of the last line.
    waiting: VecDeque<Event>,
    failures: Failures,
    pause: Option<Duration>,
}

enum Step {
    Open,
    Follow(Connection),
    End,
}

struct Connection {
    lines: Lines,
    opened: Instant,
    greeted: bool,
}

/// Where the stream is: the last index, and which of its events came. A server that is asked for an index sends all
/// events of it again.
struct Place {
    index: Option<u64>,
    seen: BTreeSet<(String, String, String)>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct RawLine {
    events: Option<Vec<Event>>,
}

/// What one line, or its lack, means.
enum Heard {
    Line(Vec<Event>),
    Closed,
    Failed(Error),
}

impl Reader {
    async fn next(&mut self) -> Option<Result<StreamItem, Error>> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(Ok(StreamItem::Event(event)));
            }
            if let Some(pause) = self.pause.take() {
                sleep(pause).await;
            }
            match std::mem::replace(&mut self.step, Step::End) {
                Step::End => return None,
                Step::Open => match self.open().await {
                    Ok(lines) => {
                        self.step = Step::Follow(Connection { lines, opened: Instant::now(), greeted: false });
                    }
                    Err(error) => return Some(Err(self.fail(error))),
                },
                Step::Follow(mut connection) => match self.hear(&mut connection).await {
                    Heard::Line(events) => {
                        self.failures.reset();
                        let events = events.into_iter().filter(|event| is_of(event, &self.options.namespace));
                        self.waiting.extend(events.filter(|event| self.place.is_new(event)));
                        let greeted = std::mem::replace(&mut connection.greeted, true);
                        self.step = Step::Follow(connection);
                        if !greeted {
                            return Some(Ok(StreamItem::Opened));
                        }
                    }
                    Heard::Closed if !connection.greeted => {
                        let detail = "the server accepted the stream and ended it without a word";
                        return Some(Err(self.fail(self.error(ErrorKind::StreamRefused, detail))));
                    }
                    Heard::Closed => {
                        self.step = Step::Open;
                        if connection.opened.elapsed() < SHORT {
                            self.pause = Some(self.failures.add(None));
                        }
                    }
                    Heard::Failed(error) => return Some(Err(self.fail(error))),
                },
            }
        }
    }

    fn fail(&mut self, error: Error) -> Error {
        // What the server cannot say in HTTP, or in a line that we take, it will say the same way again.
        if error.is_transient() && error.kind() != ErrorKind::MalformedAnswer {
            self.pause = Some(self.failures.add(error.retry_after()));
            self.step = Step::Open;
        }
        error
    }

    async fn open(&mut self) -> Result<Lines, Error> {
        let mut target = self.options.target().map_err(|why| invalid(&self.operation, why))?;
        if let Some(index) = self.place.index {
            target = target.param("index", index.to_string());
        }
        let operation = self.operation.clone();
        let call = Call { operation, method: Method::GET, target, body: None, limit: Limit::Total };
        self.client.transport().open(call).await.map(Lines::new)
    }

    async fn hear(&mut self, connection: &mut Connection) -> Heard {
        let limit = if connection.greeted { SILENCE } else { GREETING };
        match timeout_at(Instant::now() + limit, connection.lines.next(&self.operation)).await {
            Ok(Ok(Line::Whole(line))) => match serde_json::from_slice::<RawLine>(&line) {
                Ok(line) => Heard::Line(line.events.unwrap_or_default()),
                // Older servers say in plain text why they end the stream.
                Err(_) => Heard::Closed,
            },
            Ok(Ok(Line::End)) => Heard::Closed,
            Ok(Ok(Line::Torn)) => {
                Heard::Failed(self.error(ErrorKind::Interrupted, "the stream ended in the middle of a line"))
            }
            Ok(Err(error)) => Heard::Failed(error),
            Err(_) if connection.greeted => {
                let detail = format!("not even a heartbeat came for {SILENCE:?}; the connection seems dead");
                Heard::Failed(self.error(ErrorKind::Timeout, &detail))
            }
            Err(_) => {
                let detail = format!("the server accepted the stream and said nothing for {GREETING:?}");
                Heard::Failed(self.error(ErrorKind::StreamRefused, &detail))
            }
        }
    }

    fn error(&self, kind: ErrorKind, detail: &str) -> Error {
        Error::new(kind, Effect::Unknown, self.operation.clone(), detail)
    }
}

impl Place {
    /// Moves on, and tells whether this event did not come yet. A lower index than the last is one of a cluster that was
    /// restored, so it counts.
    fn is_new(&mut self, event: &Event) -> bool {
        if self.index != Some(event.index) {
            self.index = Some(event.index);
            self.seen.clear();
        }
        self.seen.insert((event.topic.to_string(), event.key.clone(), event.r#type.clone()))
    }
}

/// Whether an event is of the namespace that was asked for. Servers before 1.9.6 sent those of others too
/// (CVE-2025-0937).
fn is_of(event: &Event, namespace: &str) -> bool {
    namespace == "*" || event.namespace.is_empty() || event.namespace == namespace
}
