//! The logs of tasks, in frames or plain, as far as they go or as they grow.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, Response, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use serde_json::json;
use tokio::sync::watch;

use super::{
    access::{Caller, Need},
    answer::Body,
    launch::encode,
    query::Query,
};
use crate::{
    cluster::{Refusal, State, Written},
    nomad::Hub,
    time::Time,
};

/// How often somebody who follows hears something.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// How often there can be something new.
const GROWTH: Duration = Duration::from_millis(100);
/// The most bytes in a frame.
const FRAME: usize = 64 * 1024;

/// What is asked for.
struct Asked {
    alloc: String,
    task: String,
    stdout: bool,
    follow: bool,
    plain: bool,
}

struct Follow {
    hub: Arc<Hub>,
    changes: watch::Receiver<u64>,
    asked: Asked,
    /// How much has been sent.
    offset: usize,
    deadline: Time,
}

/// `GET /v1/client/fs/logs/<allocation>`
pub(crate) fn open(hub: &Arc<Hub>, id: &str, query: &Query, headers: &HeaderMap) -> Result<Response<Body>, Refusal> {
    let changes = hub.changes();
    let (asked, offset) = hub.look(|state| read_request(state, id, query, &Caller::of(headers, state)))?;
    let plain = asked.plain;
    let deadline = hub.now().after(HEARTBEAT);
    let follow = Follow { hub: Arc::clone(hub), changes, asked, offset, deadline };
    let body = StreamBody::new(stream::unfold(follow, |mut follow| async {
        let bytes = follow.next().await?;
        Some((Ok::<_, Infallible>(Frame::data(Bytes::from(bytes))), follow))
    }));
    let mut response = Response::new(body.boxed_unsync());
    let kind = if plain { "text/plain" } else { "application/json" };
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}

fn read_request(state: &State, id: &str, query: &Query, caller: &Caller) -> Result<(Asked, usize), Refusal> {
    let refuse = |status: u16, text: String| Err(Refusal::new(status, text));
    if id.is_empty() {
        return refuse(400, "must provide a valid alloc id".to_owned());
    }
    let task = query.text("task");
    if task.is_empty() {
        return refuse(400, "must provide task name".to_owned());
    }
    let flag = |name: &str| match query.text(name) {
        "" | "false" => Ok(false),
        "true" => Ok(true),
        other => {
            let why = format!("strconv.ParseBool: parsing {other:?}: invalid syntax");
            Err(Refusal::new(400, format!("failed to parse {name} field to boolean: {why}")))
        }
    };
    let (follow, plain) = (flag("follow")?, flag("plain")?);
    let stdout = match query.text("type") {
        "stdout" => true,
        "stderr" => false,
        _ => return refuse(400, "must provide log type (stdout/stderr)".to_owned()),
    };
    let offset = match query.text("offset") {
        "" => 0,
        text => text.parse::<i64>().map_err(|_| {
            let why = format!("strconv.ParseInt: parsing {text:?}: invalid syntax");
            Refusal::new(400, format!("error parsing offset: {why}"))
        })?,
    };
    let from_end = match query.text("origin") {
        "" | "start" => false,
        "end" => true,
        _ => return refuse(400, "origin must be start or end".to_owned()),
    };
    if id.len() != 36 {
        return refuse(500, "alloc lookup failed: index error: UUID must be 36 characters".to_owned());
    }
    let Some(alloc) = state.allocs.get(id) else { return refuse(404, format!("Unknown allocation {id:?}")) };
    // To read a job is not to read its logs.
    caller.need(Need::Write, &alloc.job.spec.view.namespace)?;
    let text = match state.written(id, task, stdout) {
        Written::UnknownTask => return refuse(400, format!("unknown task name {task:?}")),
        Written::NotStarted => return refuse(404, format!("task {task:?} not started yet. No logs available")),
        Written::Text(text) => text,
    };
    // Zero bytes from the end are all, and so are more than there are. Less than none is counted from the end.
    let distance = usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX);
    let offset = match (from_end || offset < 0, distance) {
        (true, 0) => 0,
        (true, distance) => text.len().saturating_sub(distance),
        (false, distance) => distance.min(text.len()),
    };
    Ok((Asked { alloc: id.to_owned(), task: task.to_owned(), stdout, follow, plain }, offset))
}

impl Follow {
    /// What comes next. None at the end, which somebody who follows never sees.
    async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let asked = &self.asked;
            let written = self.hub.look(|state| state.written(&asked.alloc, &asked.task, asked.stdout));
            let Written::Text(text) = written else { return None };
            let rest = text.as_bytes().get(self.offset..).unwrap_or_default();
            if !rest.is_empty() {
                let rest = rest.get(..rest.len().min(FRAME)).unwrap_or_default();
                self.offset += rest.len();
                self.deadline = self.hub.now().after(HEARTBEAT);
                return Some(self.frame(rest));
            }
            if !self.asked.follow {
                return None;
            }
            let now = self.hub.now();
            if now >= self.deadline {
                self.deadline = now.after(HEARTBEAT);
                if !self.asked.plain {
                    return Some(b"{}".to_vec());
                }
            }
            let until = self.deadline.min(now.after(GROWTH));
            self.hub.wait(&mut self.changes, until).await;
        }
    }

    fn frame(&self, bytes: &[u8]) -> Vec<u8> {
        if self.asked.plain {
            return bytes.to_vec();
        }
        let stream = if self.asked.stdout { "stdout" } else { "stderr" };
        let file = format!("alloc/logs/{}.{stream}.0", self.asked.task);
        json!({"Data": encode(bytes), "File": file, "Offset": self.offset}).to_string().into_bytes()
    }
}
