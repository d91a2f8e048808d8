//! The output of a task, frame by frame, by way of the agent.

use std::fmt;
use std::num::NonZeroU64;

use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, BoxStream, StreamExt};
use http::Method;
use http_body_util::BodyExt;
use serde::Deserialize;
use tokio::time::timeout;

use crate::base64;
use crate::client::{Client, invalid};
use crate::error::{Effect, Error, ErrorKind, Operation, Verb};
use crate::failure;
use crate::model::{nullable, words};
use crate::target::{Target, check_namespace, check_uuid};
use crate::transport::{Body, Call, Limit};

/// The longest frame that is read. The server puts 64 KiB into one.
const MAX_FRAME: usize = 1 << 20;

/// Which output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Where to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LogOrigin {
    /// So many bytes after the beginning of what the node still has; past the end it is the end.
    Start(u64),
    /// So many bytes before the end; more than there are is all of it. There is no way to ask for lines, so the first may be
    /// torn. Not zero, which the server takes for everything: who wants only what is new asks for one byte more than that.
    End(NonZeroU64),
}

words! {
    /// What happened to a file of output.
    FileEvent {
        /// It was removed: so many newer ones came after it.
        Deleted = "file deleted",
        /// It begins anew.
        Truncated = "file truncated",
    }
}

/// What to read.
#[derive(Debug, Clone)]
#[must_use]
pub struct LogOptions {
    namespace: String,
    allocation: String,
    task: String,
    stream: LogStream,
    origin: LogOrigin,
    follow: bool,
}

impl LogOptions {
    /// All that the node still has of this task's output.
    pub fn new(
        namespace: impl Into<String>,
        allocation: impl Into<String>,
        task: impl Into<String>,
        stream: LogStream,
    ) -> Self {
        Self {
            namespace: namespace.into(),
            allocation: allocation.into(),
            task: task.into(),
            stream,
            origin: LogOrigin::Start(0),
            follow: false,
        }
    }

    /// Where to begin.
    pub fn origin(mut self, origin: LogOrigin) -> Self {
        self.origin = origin;
        self
    }

    /// Goes on with what is written from now on.
    pub fn follow(mut self) -> Self {
        self.follow = true;
        self
    }

    fn target(&self) -> Result<Target, String> {
        check_namespace(&self.namespace)?;
        check_uuid(&self.allocation)?;
        if self.task.is_empty() {
            return Err("no task is named".to_owned());
        }
        let stream = match self.stream {
            LogStream::Stdout => "stdout",
            LogStream::Stderr => "stderr",
        };
        let (origin, offset) = match self.origin {
            LogOrigin::Start(offset) => ("start", offset),
            LogOrigin::End(offset) => ("end", offset.get()),
        };
        Ok(Target::new(["v1", "client", "fs", "logs", &self.allocation])
            .param("task", &self.task)
            .param("type", stream)
            .param("origin", origin)
            .param("offset", offset.to_string())
            .param("follow", if self.follow { "true" } else { "false" })
            .param("plain", "false")
            .param("namespace", &self.namespace))
    }
}

/// A piece of output, an event of its file, or a heartbeat. `Debug` shows how long the output is, never what it is.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogFrame {
    /// The file, such as `alloc/logs/web.stdout.0`. **A line may begin in one file and go on in the next**, and a file may be
    /// gone before its end was sent (hashicorp/nomad#11653): the last number counts up by one where nothing is missing.
    pub file: String,
    /// Where in that file the output ends. Of frames that the server merged it is not exact.
    pub offset: u64,
    /// The output. It need not end at the end of a line, or of a character.
    pub data: Bytes,
    /// What happened to the file.
    pub event: Option<FileEvent>,
}

impl LogFrame {
    /// Whether it says only that the stream is alive and there is nothing new. While it follows, the server sends one each
    /// second.
    #[must_use]
    pub fn is_heartbeat(&self) -> bool {
        self.data.is_empty() && self.event.is_none()
    }
}

impl fmt::Debug for LogFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogFrame")
            .field("file", &self.file)
            .field("offset", &self.offset)
            .field("bytes", &self.data.len())
            .field("event", &self.event)
            .finish()
    }
}

impl Client {
    /// Reads the output of a task. Cost: one connection and one request, `GET /v1/client/fs/logs/:id`, which the agent passes
    /// on to the node: no node is dialled.
    ///
    /// Without [`follow`](LogOptions::follow) the stream ends where the output ends. **With it, it never ends by itself**,
    /// also when the task has ended: read the allocation when heartbeats come, and drop the stream when it is terminal and
    /// two of them brought nothing.
    ///
    /// The stream ends after its first error: it does not open itself again, since offsets are not exact enough to go on
    /// without a gap or a repetition. It is [`ErrorKind::Timeout`] when nothing, not even a heartbeat, comes within the
    /// [read time limit](crate::ConnectOptions::read_timeout). It spawns nothing and reads only while it is polled.
    ///
    /// The first item may be [`Precondition`](ErrorKind::Precondition) for a task that has not started (ask again later);
    /// [`Missing::Object`](crate::Missing::Object) for an allocation that is not there, or whose output its node has
    /// removed; [`Invalid`](ErrorKind::Invalid) for a task that it does not have. When its node stopped answering, the
    /// stream may end without output and without an error after some 30 s.
    pub fn logs(&self, options: LogOptions) -> BoxStream<'static, Result<LogFrame, Error>> {
        let operation =
            Operation::new(Verb::Read, "logs of allocation", Some(&options.namespace), Some(&options.allocation));
        let reader = Reader { client: self.clone(), operation, step: Step::Open(options) };
        stream::unfold(reader, |mut reader| async move {
            let item = reader.next().await.transpose()?;
            if item.is_err() {
                reader.step = Step::End;
            }
            Some((item, reader))
        })
        .boxed()
    }
}

struct Reader {
    client: Client,
    operation: Operation,
    step: Step,
}

enum Step {
    Open(LogOptions),
    Read(Frames),
    End,
}

impl Reader {
    async fn next(&mut self) -> Result<Option<LogFrame>, Error> {
        if let Step::Open(options) = &self.step {
            let target = options.target().map_err(|why| invalid(&self.operation, why))?;
            let operation = self.operation.clone();
            let call = Call { operation, method: Method::GET, target, body: None, limit: Limit::Total };
            let body = self.client.transport().open(call).await?;
            self.step = Step::Read(Frames { body, buffer: BytesMut::new() });
        }
        let Step::Read(frames) = &mut self.step else { return Ok(None) };
        let limit = self.client.transport().limits.read;
        timeout(limit, frames.next(&self.operation)).await.unwrap_or_else(|_| {
            let detail = format!("not even a heartbeat came for {limit:?}; the connection or the node seems dead");
            Err(Error::new(ErrorKind::Timeout, Effect::Unknown, self.operation.clone(), detail))
        })
    }
}

/// A body that is one JSON object after the other, with nothing between them.
struct Frames {
    body: Body,
    buffer: BytesMut,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct RawFrame {
    #[serde(deserialize_with = "nullable")]
    file: String,
    offset: i64,
    #[serde(deserialize_with = "nullable")]
    data: String,
    #[serde(deserialize_with = "nullable")]
    file_event: FileEvent,
}

impl Frames {
    /// The next frame, or `None` at the end. Loses nothing when it is dropped and called again.
    async fn next(&mut self, operation: &Operation) -> Result<Option<LogFrame>, Error> {
        let fail = |kind, detail: &str| Error::new(kind, Effect::Unknown, operation.clone(), detail);
        loop {
            let mut values = serde_json::Deserializer::from_slice(&self.buffer).into_iter::<RawFrame>();
            match values.next() {
                Some(Ok(raw)) => {
                    let length = values.byte_offset();
                    let _ = self.buffer.split_to(length);
                    return match raw.decode() {
                        Some(frame) => Ok(Some(frame)),
                        None => Err(fail(ErrorKind::MalformedAnswer, "the output in a frame is not base64")),
                    };
                }
                Some(Err(error)) if !error.is_eof() => {
                    // What goes wrong on the way is appended to the answer as a sentence. It may also be output, of a proxy
                    // that changes what it passes on; so it is not repeated.
                    let detail =
                        format!("the output breaks off with what is no frame: {}", failure::describe_json(&error));
                    return Err(fail(ErrorKind::MalformedAnswer, &detail));
                }
                _ => {}
            }
            if self.buffer.len() > MAX_FRAME {
                return Err(fail(ErrorKind::MalformedAnswer, &format!("a frame is longer than {MAX_FRAME} bytes")));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => return Err(failure::of_body(error, operation.clone(), self.buffer.len())),
                None if self.buffer.trim_ascii().is_empty() => return Ok(None),
                None => return Err(fail(ErrorKind::Interrupted, "the output ended in the middle of a frame")),
            }
        }
    }
}

impl RawFrame {
    fn decode(self) -> Option<LogFrame> {
        Some(LogFrame {
            file: self.file,
            offset: u64::try_from(self.offset).unwrap_or_default(),
            data: base64::decode(&self.data)?.into(),
            event: Some(self.file_event).filter(|event| !event.as_str().is_empty()),
        })
    }
}
