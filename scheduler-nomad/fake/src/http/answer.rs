use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use serde::Serialize;
use serde_json::Value;
use std::convert::Infallible;

use crate::cluster::{Receipt, Refusal};

pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// An answer that is not a stream.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Sent as `X-Nomad-Index`.
    pub(crate) index: Option<u64>,
    body: String,
    json: bool,
    next_token: Option<String>,
    location: Option<String>,
    leader: Leader,
}

/// What the headers say of the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leader {
    Unsaid,
    Known,
    Unknown,
}

impl Answer {
    /// A read's answer.
    pub(crate) fn json(index: u64, body: impl Serialize) -> Self {
        Self { index: Some(index), leader: Leader::Known, ..Self::plain_json(body) }
    }

    /// JSON without the headers of a read.
    pub(crate) fn plain_json(body: impl Serialize) -> Self {
        let body = serde_json::to_value(body).unwrap_or(Value::Null).to_string();
        let json = true;
        Self { status: 200, index: None, body, json, next_token: None, location: None, leader: Leader::Unsaid }
    }

    pub(crate) fn text(status: u16, index: Option<u64>, text: impl Into<String>) -> Self {
        let leader = if index.is_some() { Leader::Known } else { Leader::Unsaid };
        Self { status, index, body: text.into(), json: false, next_token: None, location: None, leader }
    }

    /// What a path gets that does not exist.
    pub(crate) fn nothing() -> Self {
        Self::text(404, None, "")
    }

    pub(crate) fn redirect(to: &str) -> Self {
        let body = format!("<a href=\"{to}\">Temporary Redirect</a>.\n\n");
        Self { location: Some(to.to_owned()), ..Self::text(307, None, body) }
    }

    /// A write's answer. They all say that they know no leader, which means nothing.
    pub(crate) fn written(index: u64, body: impl Serialize) -> Self {
        Self { index: Some(index), ..Self::plain_json(body) }
    }

    pub(crate) fn receipt(receipt: &Receipt, known_leader: bool, more: Value) -> Self {
        let mut json = serde_json::json!({
            "EvalID": receipt.eval, "EvalCreateIndex": receipt.eval_index, "JobModifyIndex": receipt.job_modify_index,
            "Index": receipt.index, "KnownLeader": known_leader, "LastContact": 0, "NextToken": "",
        });
        if let (Some(json), Value::Object(more)) = (json.as_object_mut(), more) {
            json.extend(more);
        }
        Self::written(receipt.index, json)
    }

    /// A write that answers nothing but its index.
    pub(crate) fn empty(index: u64) -> Self {
        Self { index: Some(index), leader: Leader::Unsaid, ..Self::text(200, None, "") }
    }

    pub(crate) fn next(mut self, token: Option<String>) -> Self {
        self.next_token = token;
        self
    }

    /// With an index, but nothing else that a read has.
    pub(crate) fn at(mut self, index: u64) -> Self {
        self.index = Some(index);
        self
    }

    /// What a write answers that has removed something.
    pub(crate) fn no_content(index: u64) -> Self {
        Self { status: 204, ..Self::empty(index) }
    }

    /// Some writes say that they know no leader, which means nothing.
    pub(crate) fn leader_unknown(mut self) -> Self {
        self.leader = Leader::Unknown;
        self
    }

    /// The same from a server that knows no leader.
    pub(crate) fn without_leader(mut self) -> Self {
        if self.leader == Leader::Known {
            self.leader = Leader::Unknown;
        }
        self
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        let mut headers = HeaderMap::new();
        let kind = match (self.json, &self.location, self.body.is_empty()) {
            (true, _, _) => Some("application/json"),
            (_, Some(_), _) => Some("text/html; charset=utf-8"),
            (_, _, true) => None,
            _ => Some("text/plain; charset=utf-8"),
        };
        let leader = match self.leader {
            Leader::Unsaid => None,
            Leader::Known => Some(("true", "0")),
            Leader::Unknown => Some(("false", "9223372036854")),
        };
        let (known, contact) = leader.unzip();
        let all = [
            (header::CONTENT_TYPE, kind.map(str::to_owned)),
            (HeaderName::from_static("x-nomad-index"), self.index.map(|index| index.to_string())),
            (HeaderName::from_static("x-nomad-knownleader"), known.map(str::to_owned)),
            (HeaderName::from_static("x-nomad-lastcontact"), contact.map(str::to_owned)),
            (HeaderName::from_static("x-nomad-nexttoken"), self.next_token),
            (header::LOCATION, self.location),
        ];
        for (name, value) in all {
            // IDs that are no header values do not occur: they would have been refused as jobs.
            if let Some(value) = value.and_then(|value| HeaderValue::try_from(value).ok()) {
                headers.insert(name, value);
            }
        }
        let mut response = Response::new(Full::new(Bytes::from(self.body)).boxed_unsync());
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        *response.headers_mut() = headers;
        response
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        Self::text(refusal.status, None, refusal.text)
    }
}
