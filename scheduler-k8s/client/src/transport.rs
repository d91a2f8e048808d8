//! The one place where requests leave and answers come in.
//!
//! Everything goes through [`Transport::exchange`] or [`Transport::open`]: one request each, never a repeat. They use
//! `kube::Client::send`, which hands back the raw answer; kube's `request` logs bodies that it cannot parse.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_TYPE, DATE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Method, Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout};

use crate::date;
use crate::error::{Effect, Error, ErrorKind, Operation};
use crate::failure;
use crate::resource::{PathAndQuery, Resource};
use crate::status::{Refusal, classify};

/// The longest answer that is read, a page of a list included.
const MAX_ANSWER: usize = 64 << 20;
/// The longest error body that is read. What is longer is no `Status`.
const MAX_REFUSAL: usize = 1 << 20;

/// What the server's audit log shows of us.
const OUR_NAME: &str = concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));

/// A request to be.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) operation: Operation,
    /// `None` for paths that are no resource.
    pub(crate) resource: Option<Resource>,
    pub(crate) method: Method,
    pub(crate) target: PathAndQuery,
    pub(crate) body: Option<Payload>,
}

/// A request body and its type.
pub(crate) struct Payload {
    pub(crate) content_type: &'static str,
    pub(crate) bytes: Bytes,
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes of {}", self.bytes.len(), self.content_type)
    }
}

/// A successful answer, read whole.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) warnings: Vec<String>,
    /// The server's clock when it answered, from its `Date` header.
    pub(crate) served_at: Option<SystemTime>,
    content_type: String,
    body: Bytes,
}

/// The time limits of one request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) read: Duration,
    pub(crate) total: Duration,
}

#[derive(Clone)]
pub(crate) struct Transport {
    pub(crate) kube: kube::Client,
    pub(crate) limits: Limits,
    /// What failures to connect name. Without user info.
    pub(crate) server: Option<String>,
    /// Said when the server refuses our credentials.
    pub(crate) credentials_note: Option<CredentialsNote>,
}

/// When our client certificate expires, in seconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CredentialsNote {
    pub(crate) not_after: u64,
}

impl Transport {
    /// Sends one request and reads the whole answer. An answer other than 2xx is an error.
    pub(crate) async fn exchange(&self, call: Call) -> Result<Answer, Error> {
        let operation = call.operation.clone();
        let started = Instant::now();
        let result = match timeout(self.limits.total, self.exchange_unlimited(call)).await {
            Ok(result) => result,
            Err(_) => Err(no_answer(&operation, self.limits.total)),
        };
        log(&operation, result.as_ref().map(|answer| answer.status), started);
        result
    }

    /// Sends one request and hands back a 2xx answer as soon as its headers are there, for which alone the limit is.
    pub(crate) async fn open(&self, call: Call, limit: Option<Duration>) -> Result<Response<Body>, Error> {
        let operation = call.operation.clone();
        let started = Instant::now();
        let result = self.open_unlogged(call, limit).await;
        log(&operation, result.as_ref().map(|response| response.status().as_u16()), started);
        result
    }

    async fn exchange_unlimited(&self, call: Call) -> Result<Answer, Error> {
        let operation = call.operation.clone();
        let response = self.open_unlogged(call, Some(self.limits.read)).await?;
        let status = response.status().as_u16();
        let warnings = warnings(response.headers());
        let served_at = date(response.headers()).map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds));
        let content_type = content_type(response.headers());
        let body = self.read(response.into_body(), MAX_ANSWER, &operation).await?;
        Ok(Answer { status, warnings, served_at, content_type, body })
    }

    async fn open_unlogged(&self, call: Call, limit: Option<Duration>) -> Result<Response<Body>, Error> {
        let Call { operation, resource, method, target, body } = call;
        let mut request = Request::builder()
            .method(method)
            .uri(target.as_str())
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, OUR_NAME);
        if let Some(payload) = &body {
            request = request.header(CONTENT_TYPE, payload.content_type);
        }
        let body = body.map_or_else(Body::empty, |payload| Body::from(payload.bytes));
        let request = request.body(body).map_err(|error| {
            Error::new(
                ErrorKind::InvalidRequest,
                Effect::NotSent,
                operation.clone(),
                format!("no valid request: {error}"),
            )
        })?;
        let sent = self.kube.send(request);
        let sent = match limit {
            None => sent.await,
            Some(limit) => match timeout(limit, sent).await {
                Ok(sent) => sent,
                Err(_) => return Err(no_answer(&operation, limit)),
            },
        };
        let response = match sent {
            Ok(response) => response,
            Err(error) => {
                return Err(self.explain(failure::of_transport(error, operation, self.server.as_deref())));
            }
        };
        if response.status().is_success() {
            Ok(response)
        } else {
            Err(self.refusal(response, operation, resource.as_ref()).await)
        }
    }

    async fn refusal(&self, response: Response<Body>, operation: Operation, resource: Option<&Resource>) -> Error {
        let code = response.status().as_u16();
        let warnings = warnings(response.headers());
        let retry_after = retry_after(response.headers());
        let content_type = content_type(response.headers());
        // A body that breaks off takes nothing from what the code says.
        let body = self.read(response.into_body(), MAX_REFUSAL, &operation).await.unwrap_or_default();
        let refusal = Refusal::parse(&body);
        let mut detail = format!("the server answered {code}");
        match &refusal {
            Some(Refusal { reason: Some(reason), .. }) => detail.push_str(&format!(" {reason}")),
            Some(_) => {}
            None => detail.push_str(&format!(" with {} bytes of {content_type} instead of a Status", body.len())),
        }
        let refusal = refusal.unwrap_or_default();
        let (kind, effect) = classify(code, &refusal, &operation, resource);
        let error = Error::new(kind, effect, operation, detail);
        self.explain(error.with_refusal(refusal).with_answer(code, retry_after, warnings))
    }

    /// Adds that the client certificate is over, when the credentials were refused: the server does not say why.
    fn explain(&self, error: Error) -> Error {
        match self.credentials_note {
            Some(note) if error.kind() == ErrorKind::Unauthenticated && note.not_after < date::now() => {
                error.with_note(&format!("; the client certificate expired at {}", date::format(note.not_after)))
            }
            _ => error,
        }
    }

    async fn read(&self, mut body: Body, limit: usize, operation: &Operation) -> Result<Bytes, Error> {
        let mut bytes = BytesMut::new();
        loop {
            let frame = match timeout(self.limits.read, body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) => {
                    return Err(failure::of_body(error, operation.clone(), bytes.len()));
                }
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

impl Answer {
    /// Reads the body as JSON. The error says where it stops making sense and never quotes it.
    pub(crate) fn json<T: DeserializeOwned>(&self, operation: &Operation) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|error| {
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
                None,
                self.warnings.clone(),
            )
        })
    }
}

pub(crate) fn no_answer(operation: &Operation, limit: Duration) -> Error {
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

/// `Retry-After`: seconds, or a date (RFC 9110 §10.2.3), which is read by the server's own clock if it tells its time.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let then = date::parse_http(text)?;
    Some(Duration::from_secs(then.saturating_sub(date(headers).unwrap_or_else(date::now))))
}

/// When the server answered, by its own clock.
fn date(headers: &HeaderMap) -> Option<u64> {
    headers.get(DATE).and_then(|value| value.to_str().ok()).and_then(date::parse_http)
}

/// The texts of `Warning: 299 - "text"` headers (RFC 7234 §5.5), which the API server sends for deprecations and the
/// like. A quoted date may follow a text; it has no code in front and so is none.
fn warnings(headers: &HeaderMap) -> Vec<String> {
    let mut texts = Vec::new();
    for value in headers.get_all(http::header::WARNING) {
        let Ok(value) = std::str::from_utf8(value.as_bytes()) else {
            continue;
        };
        let mut rest = value;
        while let Some((head, tail)) = rest.split_once('"') {
            let Some((text, after)) = unquote(tail) else {
                break;
            };
            if head.trim_start_matches([',', ' ']).starts_with("299 ") {
                texts.push(text);
            }
            rest = after;
        }
    }
    texts
}

/// Reads up to the closing quote of a quoted string: its text, and what follows.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((out, &text[at + 1..])),
            '\\' => out.push(characters.next()?.1),
            other => out.push(other),
        }
    }
    None
}
