//! A watch without gaps: list, follow, and list again when the server no longer knows where we were.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::time::{Duration, SystemTime};

use futures_util::stream::{self, BoxStream, StreamExt};
use http::Method;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout_at};

use crate::client::{Client, ListOptions};
use crate::error::{Effect, Error, ErrorKind, Operation, Verb};
use crate::lines::{Line, Lines};
use crate::resource::{PathAndQuery, Resource};
use crate::status::{Refusal, classify};
use crate::transport::Call;

/// How long the server keeps one watch open. Under the five minutes after which many proxies cut.
const DEFAULT_SERVER_TIMEOUT: Duration = Duration::from_secs(290);
/// How much later than that the connection counts as dead.
const WATCHDOG_MARGIN: Duration = Duration::from_secs(15);
/// A watch that the server ends sooner, without a word, counts as a failure: else two of them would be a busy loop.
const SHORT: Duration = Duration::from_secs(1);
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The longest that a server's `Retry-After` is obeyed.
const LONGEST_ASKED_PAUSE: Duration = Duration::from_secs(300);

/// What a watch is limited to.
#[derive(Debug, Clone)]
pub struct WatchOptions {
    list: ListOptions,
    server_timeout: Duration,
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self { list: ListOptions::new(), server_timeout: DEFAULT_SERVER_TIMEOUT }
    }
}

impl WatchOptions {
    /// Everything.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Only objects whose labels match. An object that stops matching is reported as deleted.
    #[must_use]
    pub fn label_selector(mut self, selector: impl Into<String>) -> Self {
        self.list = self.list.label_selector(selector);
        self
    }

    /// Only objects whose fields match. An object that stops matching is reported as deleted.
    #[must_use]
    pub fn field_selector(mut self, selector: impl Into<String>) -> Self {
        self.list = self.list.field_selector(selector);
        self
    }

    /// How long the server keeps one connection open before the watch goes on with another: whole seconds, 290 unless
    /// said otherwise. A connection that outlives it by 15 seconds is taken for dead.
    #[must_use]
    pub fn server_timeout(mut self, timeout: Duration) -> Self {
        self.server_timeout = Duration::from_secs(timeout.as_secs().max(1));
        self
    }
}

/// One step of a watch.
#[derive(Clone)]
#[non_exhaustive]
pub enum WatchEvent {
    /// Everything there is now. Replaces all that was reported before: what is missing here is gone.
    Listed {
        /// The objects.
        objects: Vec<Value>,
        /// The server's clock when it answered, if it told.
        served_at: Option<SystemTime>,
    },
    /// This object was made or changed.
    Applied(Value),
    /// This object, shown as it was last, is gone or no longer selected.
    Deleted(Value),
}

impl fmt::Debug for WatchEvent {
    /// Without the objects, which may be Secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listed { objects, .. } => write!(f, "Listed({} objects)", objects.len()),
            Self::Applied(object) => write!(f, "Applied({})", object["metadata"]["name"]),
            Self::Deleted(object) => write!(f, "Deleted({})", object["metadata"]["name"]),
        }
    }
}

impl Client {
    /// Follows all objects of a kind, in one namespace or (`None`) everywhere.
    ///
    /// The first item is [`WatchEvent::Listed`]. Later ones come whenever the server no longer has the changes since
    /// where we were (410, as a code or inside of a stream); so nothing is lost, deletes included: compare with what
    /// you hold. Versions that were overwritten before anyone looked may be left out.
    ///
    /// **Errors are items.** After a transient one ([`Error::is_transient`]) the next poll waits (0.5 s doubling to
    /// 30 s, half of it random, or as long as the server asks, up to 5 minutes) and goes on where the watch was. The
    /// wait is this stream's own and starts small again once the server sent something. After any other error the
    /// stream ends.
    ///
    /// A quiet watch is no error: time limits cover the list and the answer's headers, not the silence after. The
    /// server ends each connection after [`WatchOptions::server_timeout`] and the watch goes on with the next.
    ///
    /// Cost: the requests of one [`list`](Self::list), then one for each connection. The stream spawns nothing and
    /// reads only while it is polled; dropping it ends everything.
    pub fn watch(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        options: WatchOptions,
    ) -> BoxStream<'static, Result<WatchEvent, Error>> {
        let watcher = Watcher {
            client: self.clone(),
            resource: *resource,
            operation: resource.operation(Verb::Watch, namespace, None),
            options,
            step: Step::List,
            failures: 0,
            pause: None,
        };
        stream::unfold(watcher, |mut watcher| async move {
            let item = watcher.next().await?;
            Some((item, watcher))
        })
        .boxed()
    }
}

struct Watcher {
    client: Client,
    resource: Resource,
    operation: Operation,
    options: WatchOptions,
    step: Step,
    /// Failures since the server last sent something.
    failures: u32,
    pause: Option<Duration>,
}

enum Step {
    List,
    /// Open a watch after this version.
    Open(String),
    Follow(Connection),
    End,
}

struct Connection {
    lines: Lines,
    version: String,
    opened: Instant,
    deadline: Instant,
}

/// What one line of a watch, or its end, means.
enum Heard {
    Event(WatchEvent, Option<String>),
    Bookmark(Option<String>),
    Expired,
    Closed,
    Failed(Error, Then),
}

/// Where to go on after a failure.
enum Then {
    /// Nothing was skipped.
    Resume,
    /// Something may have been.
    Relist,
}

#[derive(Deserialize)]
struct RawEvent {
    r#type: String,
    object: Value,
}

impl Watcher {
    async fn next(&mut self) -> Option<Result<WatchEvent, Error>> {
        loop {
            if let Some(pause) = self.pause.take() {
                sleep(pause).await;
            }
            match std::mem::replace(&mut self.step, Step::End) {
                Step::End => return None,
                Step::List => {
                    let namespace = self.operation.namespace.as_deref();
                    match self.client.list(&self.resource, namespace, &self.options.list).await {
                        Ok(list) => {
                            self.step = Step::Open(list.resource_version);
                            return Some(Ok(WatchEvent::Listed { objects: list.items, served_at: list.served_at }));
                        }
                        Err(error) => return Some(Err(self.fail(error, Step::List))),
                    }
                }
                Step::Open(version) => match self.open(&version).await {
                    Ok(lines) => {
                        let opened = Instant::now();
                        let deadline = opened + self.options.server_timeout + WATCHDOG_MARGIN;
                        self.step = Step::Follow(Connection { lines, version, opened, deadline });
                    }
                    Err(error) if error.kind() == ErrorKind::Gone => self.back_off(None, Step::List),
                    Err(error) => return Some(Err(self.fail(error, Step::Open(version)))),
                },
                Step::Follow(mut connection) => match self.hear(&mut connection).await {
                    Heard::Event(event, version) => {
                        self.follow(connection, version);
                        return Some(Ok(event));
                    }
                    Heard::Bookmark(version) => self.follow(connection, version),
                    Heard::Expired => self.back_off(None, Step::List),
                    Heard::Closed if connection.opened.elapsed() < SHORT => {
                        self.back_off(None, Step::Open(connection.version));
                    }
                    Heard::Closed => {
                        self.failures = 0;
                        self.step = Step::Open(connection.version);
                    }
                    Heard::Failed(error, Then::Resume) => {
                        return Some(Err(self.fail(error, Step::Open(connection.version))));
                    }
                    Heard::Failed(error, Then::Relist) => {
                        return Some(Err(self.fail(error, Step::List)));
                    }
                },
            }
        }
    }

    fn follow(&mut self, mut connection: Connection, version: Option<String>) {
        self.failures = 0;
        if let Some(version) = version {
            connection.version = version;
        }
        self.step = Step::Follow(connection);
    }

    fn fail(&mut self, error: Error, then: Step) -> Error {
        if error.is_transient() {
            self.back_off(error.retry_after(), then);
        }
        error
    }

    fn back_off(&mut self, asked: Option<Duration>, then: Step) {
        let asked = asked.unwrap_or_default().min(LONGEST_ASKED_PAUSE);
        self.pause = Some(pause(self.failures, random()).max(asked));
        self.failures = self.failures.saturating_add(1);
        self.step = then;
    }

    async fn open(&mut self, version: &str) -> Result<Lines, Error> {
        let mut target = PathAndQuery::new(self.resource.path(&self.operation)?);
        target.push("watch", "true");
        target.push("allowWatchBookmarks", "true");
        target.push("resourceVersion", version);
        target.push("timeoutSeconds", &self.options.server_timeout.as_secs().to_string());
        self.options.list.push_selectors(&mut target);
        let call = Call {
            operation: self.operation.clone(),
            resource: Some(self.resource),
            method: Method::GET,
            target,
            body: None,
        };
        let transport = self.client.transport();
        let response = transport.open(call, Some(transport.limits.read)).await?;
        Ok(Lines::new(response.into_body()))
    }

    async fn hear(&mut self, connection: &mut Connection) -> Heard {
        let line = match timeout_at(connection.deadline, connection.lines.next(&self.operation)).await {
            Ok(Ok(line)) => line,
            Ok(Err(error)) if error.kind() == ErrorKind::Interrupted => {
                return Heard::Failed(error, Then::Resume);
            }
            Ok(Err(error)) => return Heard::Failed(error, Then::Relist),
            Err(_) => {
                let detail = "the server neither sent anything nor ended the watch in time; the connection seems dead";
                return Heard::Failed(self.error(ErrorKind::Timeout, detail), Then::Resume);
            }
        };
        match line {
            Line::Whole(line) => self.understand(&line),
            Line::End => Heard::Closed,
            // The server will send it again, since we ask for everything after the last whole event.
            Line::Torn(_) => {
                let detail = "the watch ended in the middle of an event";
                Heard::Failed(self.error(ErrorKind::Interrupted, detail), Then::Resume)
            }
        }
    }

    fn understand(&self, line: &[u8]) -> Heard {
        let Ok(RawEvent { r#type, object }) = serde_json::from_slice(line) else {
            let detail = format!("a line of {} bytes is no watch event", line.len());
            return Heard::Failed(self.error(ErrorKind::MalformedAnswer, detail), Then::Relist);
        };
        let version = object["metadata"]["resourceVersion"].as_str().map(str::to_owned);
        match r#type.as_str() {
            "ADDED" | "MODIFIED" => Heard::Event(WatchEvent::Applied(object), version),
            "DELETED" => Heard::Event(WatchEvent::Deleted(object), version),
            "BOOKMARK" => Heard::Bookmark(version),
            "ERROR" => self.refused(object),
            _ => {
                let detail = "an event is of a type that this client does not know";
                Heard::Failed(self.error(ErrorKind::MalformedAnswer, detail), Then::Relist)
            }
        }
    }

    /// An error inside of a 200 stream.
    fn refused(&self, object: Value) -> Heard {
        let code = object["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(500);
        let refusal = Refusal::from_value(object).unwrap_or_default();
        let (kind, effect) = classify(code, &refusal, &self.operation, Some(&self.resource));
        if kind == ErrorKind::Gone {
            return Heard::Expired;
        }
        let detail = format!("the server ended the watch with {code}");
        let error = Error::new(kind, effect, self.operation.clone(), detail);
        Heard::Failed(error.with_refusal(refusal).with_answer(code, None, Vec::new()), Then::Relist)
    }

    fn error(&self, kind: ErrorKind, detail: impl Into<String>) -> Error {
        Error::new(kind, Effect::Unknown, self.operation.clone(), detail)
    }
}

/// The pause after so many failures: doubling, with the upper half random, so that many watches that lost one server do
/// not come back in step.
fn pause(failures: u32, random: u64) -> Duration {
    let full = FIRST_PAUSE.saturating_mul(1 << failures.min(16)).min(LONGEST_PAUSE);
    let half = full / 2;
    let share = (random % 1024) as u32;
    half + half * share / 1024
}

/// Random enough for jitter: the standard library seeds each hasher anew.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_cap() {
        let pauses = |random| (0..9).map(|failures| pause(failures, random).as_millis()).collect::<Vec<_>>();
        assert_eq!(pauses(0), [250, 500, 1000, 2000, 4000, 8000, 15000, 15000, 15000]);
        assert!(pauses(1023).iter().zip(pauses(0)).all(|(most, least)| *most > least && *most <= 2 * least));
        assert_eq!(pause(u32::MAX, 0), Duration::from_secs(15));
    }
}
