//! What a container wrote.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::stream::{self, BoxStream, StreamExt};
use http::Method;
use tokio::time::timeout;

use crate::client::Client;
use crate::date;
use crate::error::{Effect, Error, ErrorKind, Operation, Verb};
use crate::lines::{Line, Lines};
use crate::resource::{PathAndQuery, Resource};
use crate::transport::{Call, no_answer};

/// Which lines of which container are wanted.
#[derive(Debug, Clone, Default)]
pub struct LogOptions {
    container: Option<String>,
    follow: bool,
    previous: bool,
    since: Option<Since>,
    tail: Option<u32>,
}

#[derive(Debug, Clone, Copy)]
enum Since {
    Ago(Duration),
    At(SystemTime),
}

impl LogOptions {
    /// Everything that the latest run of the pod's only container wrote so far.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Of this container; sidecars and init containers count. Must be given if the pod has several.
    #[must_use]
    pub fn container(mut self, name: impl Into<String>) -> Self {
        self.container = Some(name.into());
        self
    }

    /// Goes on with what the container writes from now on, until this run of it ends.
    #[must_use]
    pub fn follow(mut self) -> Self {
        self.follow = true;
        self
    }

    /// The run before the latest one. Nodes keep no more than that.
    #[must_use]
    pub fn previous(mut self) -> Self {
        self.previous = true;
        self
    }

    /// Only what is not older than this by the server's clock, in whole seconds: a part of one counts as one. Replaces
    /// [`since_time`](Self::since_time).
    #[must_use]
    pub fn since(mut self, age: Duration) -> Self {
        self.since = Some(Since::Ago(age));
        self
    }

    /// Only what was written at this time or later. The server takes whole seconds, so what was written earlier in the
    /// same second comes too; see [`LogLine::at`]. Replaces [`since`](Self::since).
    #[must_use]
    pub fn since_time(mut self, time: SystemTime) -> Self {
        self.since = Some(Since::At(time));
        self
    }

    /// Of what is there already, only that many lines at the end. With zero, a follow begins with what is new.
    #[must_use]
    pub fn tail(mut self, lines: u32) -> Self {
        self.tail = Some(lines);
        self
    }

    fn push_to(&self, target: &mut PathAndQuery) {
        if let Some(container) = &self.container {
            target.push("container", container);
        }
        if self.follow {
            target.push("follow", "true");
        }
        if self.previous {
            target.push("previous", "true");
        }
        match self.since {
            None => {}
            Some(Since::Ago(age)) => {
                // Zero is refused.
                let seconds = age.as_secs() + u64::from(age.subsec_nanos() > 0);
                target.push("sinceSeconds", &seconds.max(1).to_string());
            }
            Some(Since::At(time)) => {
                let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
                target.push("sinceTime", &date::format(seconds));
            }
        }
        if let Some(lines) = self.tail {
            target.push("tailLines", &lines.to_string());
        }
        target.push("timestamps", "true");
    }
}

/// One line of a log.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogLine {
    /// When the node took the line from the container.
    ///
    /// `None` marks a line that is none of the container's. A node that meets a fault when its answer has begun can tell
    /// of it only there: kubelets since 1.32 write `unable to retrieve container logs for …` into an answer of 200, for
    /// a container that is gone from the node (kubernetes/kubernetes#142258).
    pub at: Option<SystemTime>,
    /// The text without its line end. What is not UTF-8 is replaced by U+FFFD.
    pub text: String,
}

impl fmt::Debug for LogLine {
    /// Without the text: programs write all kinds of things into their logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogLine").field("at", &self.at).field("bytes", &self.text.len()).finish_non_exhaustive()
    }
}

impl LogLine {
    /// `2026-11-30T21:50:00.000000000Z text`, as nodes write it when asked for time stamps.
    fn read(line: &[u8]) -> Self {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = String::from_utf8_lossy(line);
        match line.split_once(' ').and_then(|(time, text)| Some((date::parse_rfc3339(time)?, text))) {
            Some((at, text)) => Self { at: Some(at), text: text.to_owned() },
            None => Self { at: None, text: line.into_owned() },
        }
    }
}

impl Client {
    /// Reads what one run of a container wrote. The server fetches it from the pod's node. Cost: one request.
    ///
    /// The stream ends with the log, and a [follow](LogOptions::follow) with the run. **An end proves nothing**: a server
    /// that loses the node in the middle ends its answer in the same way, without a word. Nor does an empty log: that is
    /// what a node has just after it rotated its files (kubernetes/kubernetes#11046). Look at the pod: whether the
    /// container runs on, has ended, or runs anew, which is another log. For this reason the stream does not resume by
    /// itself. To resume, ask again with [`since_time`](LogOptions::since_time) of the last line and leave out what was
    /// there already.
    ///
    /// **An error is an item**, and the last one. What came before it counts; the line in which it happened is left out.
    ///
    /// Silence is no error: a follow has no time limit, neither for the lines nor for the headers, which nodes before 1.32
    /// send with the first line. It is no sign of life either: when a node is lost without a word, nothing comes for
    /// ever. Watch the pod beside it. Without follow, every piece has to come within the read time-out.
    ///
    /// Nothing is read unless the stream is polled, and dropping it ends the request. It holds a connection of its own.
    ///
    /// # Errors
    ///
    /// - `NotFound(Missing::Object)` if there is no such pod; `NotFound(Missing::Other)` if its node is gone, or does not
    ///   know it (yet).
    /// - [`ErrorKind::BadRequest`] if there is no such container, no container is named and there are several, the container has not
    ///   started yet, or has no previous run. The server tells these apart in words only; the pod's status says it properly.
    /// - [`ErrorKind::Unexpected`] with [`status`](Error::status) 204 if the pod is on no node yet.
    /// - [`ErrorKind::Unavailable`] if the server cannot reach the node, among others.
    /// - what the request met otherwise.
    pub async fn logs(
        &self,
        namespace: &str,
        pod: &str,
        options: &LogOptions,
    ) -> Result<BoxStream<'static, Result<LogLine, Error>>, Error> {
        let resource = Resource::POD;
        let mut operation = resource.operation(Verb::Get, Some(namespace), Some(pod));
        let path = resource.path(&operation)?;
        operation.resource = resource.subresource("log");
        let mut target = PathAndQuery::new(format!("{path}/log"));
        options.push_to(&mut target);
        let call =
            Call { operation: operation.clone(), resource: Some(resource), method: Method::GET, target, body: None };
        let limit = (!options.follow).then_some(self.transport().limits.read);
        let response = self.transport().open(call, limit).await?;
        if response.status() == http::StatusCode::NO_CONTENT {
            let detail = "the pod is on no node yet, so nothing of it has run";
            let error = Error::new(ErrorKind::Unexpected, Effect::Refused, operation, detail);
            return Err(error.with_answer(204, None, Vec::new()));
        }
        let log = Log { lines: Lines::new(response.into_body()), operation, limit };
        Ok(stream::unfold(Some(log), |log| async {
            let mut log = log?;
            match log.next().await {
                Ok(Line::Whole(line)) => Some((Ok(LogLine::read(&line)), Some(log))),
                Ok(Line::Torn(rest)) => Some((Ok(LogLine::read(&rest)), None)),
                Ok(Line::End) => None,
                Err(error) => Some((Err(error), None)),
            }
        })
        .boxed())
    }
}

struct Log {
    lines: Lines,
    operation: Operation,
    /// How long each line may take.
    limit: Option<Duration>,
}

impl Log {
    async fn next(&mut self) -> Result<Line, Error> {
        let line = self.lines.next(&self.operation);
        match self.limit {
            None => line.await,
            Some(limit) => timeout(limit, line).await.unwrap_or_else(|_| Err(no_answer(&self.operation, limit))),
        }
    }
}
