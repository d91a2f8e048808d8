//! The one place where requests leave and answers come in.
//!
//! Everything goes through [`Transport::exchange`] or [`Transport::open`]: one request each, never a repeat.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use tokio::time::{Instant, timeout};

use crate::date;
use crate::error::{Effect, Error, ErrorKind, Operation};
use crate::failure::{self, BoxError};
use crate::target::Target;
use crate::texts;

/// The longest answer that is read.
const MAX_ANSWER: usize = 64 << 20;
/// The longest refusal that is read.
const MAX_REFUSAL: usize = 64 << 10;
/// The longest sentence that an error repeats.
const MAX_MESSAGE: usize = 4 << 10;

const TOKEN: &str = "x-nomad-token";

/// What the server's log shows of us.
const OUR_NAME: &str = concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));

pub(crate) type Body = UnsyncBoxBody<Bytes, BoxError>;

pub(crate) type HttpService = Arc<dyn Http>;

/// What carries a request to the server and the answer back.
pub(crate) trait Http: Send + Sync {
    fn send(&self, request: Request<Full<Bytes>>) -> BoxFuture<'static, Result<Response<Body>, BoxError>>;
}

/// What the headers of an answer say beside the body. Each may be missing: agent and status routes have none of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Meta {
    /// The index that the answer shows, from `X-Nomad-Index`. Never for compare-and-set.
    pub index: Option<u64>,
    /// Whether the server knew a leader. A read that was answered without one may be old.
    pub known_leader: Option<bool>,
    /// How long ago the server heard from the leader.
    pub last_contact: Option<Duration>,
    /// Where the next page begins, if there is one.
    pub next_token: Option<String>,
    /// When the server sent it, by its own clock, from `Date`; in whole seconds. Every route says it.
    pub served_at: Option<SystemTime>,
}

/// A request to be.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) operation: Operation,
    pub(crate) method: Method,
    pub(crate) target: Target,
    pub(crate) body: Option<Payload>,
    pub(crate) limit: Limit,
}

/// A JSON body.
pub(crate) struct Payload(pub(crate) Bytes);

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// How long a request may take in all.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Limit {
    /// The total time limit.
    Total,
    /// The same after the read time limit, since a blocking query may begin its answer as late as that.
    Blocking,
}

/// A successful answer, read whole.
pub(crate) struct Received {
    pub(crate) status: u16,
    pub(crate) meta: Meta,
    content_type: String,
    body: Bytes,
}

/// The time limits of the requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) read: Duration,
    pub(crate) total: Duration,
    pub(crate) wait: Duration,
}

#[derive(Clone)]
pub(crate) struct Transport {
    pub(crate) service: HttpService,
    /// Scheme, authority and what a proxy has before `/v1`, without a slash at its end.
    pub(crate) base: String,
    /// What errors call the server. Without user info.
    pub(crate) server: String,
    pub(crate) token: Option<HeaderValue>,
    pub(crate) region: Option<String>,
    pub(crate) limits: Limits,
}

impl Transport {
    /// Sends one request and reads the whole answer. An answer other than 2xx is an error.
    pub(crate) async fn exchange(&self, call: Call) -> Result<Received, Error> {
        let operation = call.operation.clone();
        let limit = match call.limit {
            Limit::Total => self.limits.total,
            Limit::Blocking => self.limits.total + self.limits.read,
        };
        let started = Instant::now();
        let result = match timeout(limit, self.exchange_unlimited(call)).await {
            Ok(result) => result,
            Err(_) => Err(no_answer(&operation, limit)),
        };
        log(&operation, result.as_ref().map(|received| received.status), started);
        result
    }

    /// Sends one request and hands back the body of a 2xx answer as it comes. Only the headers have a time limit.
    pub(crate) async fn open(&self, call: Call) -> Result<Body, Error> {
        let operation = call.operation.clone();
        let started = Instant::now();
        let result = self.open_unlogged(call).await;
        log(&operation, result.as_ref().map(|response| response.status().as_u16()), started);
        result.map(Response::into_body)
    }

    async fn exchange_unlimited(&self, call: Call) -> Result<Received, Error> {
        let operation = call.operation.clone();
        let response = self.open_unlogged(call).await?;
        let status = response.status().as_u16();
        let meta = Meta::read(response.headers());
        let content_type = content_type(response.headers());
        let body = self.read(response.into_body(), MAX_ANSWER, &operation).await?;
        Ok(Received { status, meta, content_type, body })
    }

    async fn open_unlogged(&self, call: Call) -> Result<Response<Body>, Error> {
        let Call { operation, method, target, body, .. } = call;
        let uri = target.uri(&self.base, self.region.as_deref());
        let mut request =
            Request::builder().method(method).uri(uri).header(ACCEPT, "application/json").header(USER_AGENT, OUR_NAME);
        if let Some(token) = &self.token {
            request = request.header(TOKEN, token);
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let request = request.body(Full::new(body.map_or_else(Bytes::new, |payload| payload.0))).map_err(|error| {
            let detail = format!("no valid request: {error}");
            Error::new(ErrorKind::InvalidRequest, Effect::NotSent, operation.clone(), detail)
        })?;
        let response = match timeout(self.limits.read, self.service.send(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(failure::of_transport(error, operation, &self.server)),
            Err(_) => return Err(no_answer(&operation, self.limits.read)),
        };
        if response.status().is_success() { Ok(response) } else { Err(self.refusal(response, operation).await) }
    }

    async fn refusal(&self, response: Response<Body>, operation: Operation) -> Error {
        let status = response.status().as_u16();
        let meta = Meta::read(response.headers());
        let retry_after = retry_after(response.headers());
        let content_type = content_type(response.headers());
        // A body that breaks off takes nothing from what the code says.
        let body = self.read(response.into_body(), MAX_REFUSAL, &operation).await.unwrap_or_default();
        let text = String::from_utf8_lossy(&body);
        let (kind, effect) = texts::classify(status, &text, &operation);
        let message = sentence(&text);
        let mut detail = format!("the server answered {status}");
        if message.is_none() && !body.is_empty() {
            detail.push_str(&format!(" with {} bytes of {content_type}", body.len()));
        }
        Error::new(kind, effect, operation, detail).with_message(message).with_answer(status, meta, retry_after)
    }

    async fn read(&self, mut body: Body, limit: usize, operation: &Operation) -> Result<Bytes, Error> {
        let mut bytes = BytesMut::new();
        loop {
            let frame = match timeout(self.limits.read, body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) => return Err(failure::of_body(error, operation.clone(), bytes.len())),
                Ok(None) => return Ok(bytes.freeze()),
                Err(_) => return Err(no_answer(operation, self.limits.read)),
            };
            if let Ok(data) = frame.into_data() {
                if bytes.len() + data.len() > limit {
                    let detail = format!("the answer is longer than {limit} bytes");
                    return Err(Error::new(ErrorKind::MalformedAnswer, Effect::Unknown, operation.clone(), detail));
                }
                bytes.extend_from_slice(&data);
            }
        }
    }
}

impl Limits {
    pub(crate) const DEFAULT: Self =
        Self { read: Duration::from_secs(45), total: Duration::from_secs(30), wait: Duration::from_secs(30) };
}

impl Received {
    /// Reads the body by `decode`. The error says where it stops making sense and never quotes it.
    pub(crate) fn decode<T>(
        &self,
        operation: &Operation,
        decode: impl FnOnce(&[u8]) -> Result<T, serde_json::Error>,
    ) -> Result<T, Error> {
        decode(&self.body).map_err(|error| {
            let detail = format!(
                "cannot read the answer ({} bytes of {}): {} at line {} column {}",
                self.body.len(),
                self.content_type,
                failure::describe_json(&error),
                error.line(),
                error.column(),
            );
            Error::new(ErrorKind::MalformedAnswer, Effect::Unknown, operation.clone(), detail).with_answer(
                self.status,
                self.meta.clone(),
                None,
            )
        })
    }
}

impl Meta {
    fn read(headers: &HeaderMap) -> Self {
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).map(str::trim);
        Self {
            index: text("x-nomad-index").and_then(|text| text.parse().ok()),
            known_leader: text("x-nomad-knownleader").and_then(|text| text.parse().ok()),
            last_contact: text("x-nomad-lastcontact").and_then(|text| text.parse().ok()).map(Duration::from_millis),
            next_token: text("x-nomad-nexttoken").filter(|text| !text.is_empty()).map(str::to_owned),
            served_at: text("date").and_then(date::parse),
        }
    }
}

/// The server's own words, if the body is a sentence. Documents may hold values of jobs and variables.
fn sentence(body: &str) -> Option<String> {
    let text = body.trim();
    if text.is_empty() || text.len() > MAX_MESSAGE || text.starts_with(['{', '[', '<']) {
        return None;
    }
    Some(text.to_owned())
}

fn no_answer(operation: &Operation, limit: Duration) -> Error {
    let detail = format!("no complete answer within {limit:?}");
    Error::new(ErrorKind::Timeout, Effect::Unknown, operation.clone(), detail)
}

fn log(operation: &Operation, result: Result<u16, &Error>, started: Instant) {
    let (status, failure) = match result {
        Ok(status) => (Some(status), None),
        Err(error) => (error.status(), Some(error.kind())),
    };
    tracing::debug!(
        verb = %operation.verb,
        resource = operation.resource,
        namespace = operation.namespace,
        name = operation.name,
        status,
        failure = failure.map(tracing::field::debug),
        duration = ?started.elapsed(),
        "request",
    );
}

fn content_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.unwrap_or("no content type").to_owned()
}

/// `Retry-After` in seconds. The date form is left out: Nomad sends neither, and proxies in front of it seconds.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}
