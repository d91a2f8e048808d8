//! What the tests share: a small HTTP client.
#![allow(dead_code, reason = "no test uses everything")]

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::Value;

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| Value::String(self.text.clone()))
    }

    pub(crate) fn index(&self) -> u64 {
        let index = self.headers.get("x-nomad-index").expect("an index").to_str().expect("a text");
        index.parse().expect("a number")
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Http {
    client: Client<HttpConnector, Full<Bytes>>,
    address: String,
    pub(crate) token: Option<String>,
}

impl Http {
    pub(crate) fn new(address: &str) -> Self {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { client, address: address.to_owned(), token: None }
    }

    pub(crate) async fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(String, String)],
        body: Vec<u8>,
    ) -> Response<Incoming> {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.address));
        if let Some(token) = &self.token {
            request = request.header("X-Nomad-Token", token);
        }
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(Bytes::from(body))).expect("a request");
        self.client.request(request).await.expect("an answer")
    }

    pub(crate) async fn send(&self, method: &str, path: &str, headers: &[(String, String)], body: Vec<u8>) -> Answer {
        let (head, body) = self.open(method, path, headers, body).await.into_parts();
        let body = body.collect().await.expect("a whole body").to_bytes();
        let text = String::from_utf8(body.to_vec()).expect("text");
        Answer { status: head.status.as_u16(), headers: head.headers, text }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], Vec::new()).await
    }

    /// A write that succeeds.
    pub(crate) async fn write(&self, method: &str, path: &str, body: Value) -> Value {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let answer = self.send(method, path, &[], body).await;
        assert_eq!(answer.status, 200, "{method} {path}: {}", answer.text);
        answer.json()
    }

    /// The lines of an event stream up to its next heartbeat, for which `tick` moves the clock.
    pub(crate) async fn lines(
        &self,
        path: &str,
        headers: &[(String, String)],
        tick: impl FnOnce(),
    ) -> (u16, Vec<Value>) {
        let response = self.open("GET", path, headers, Vec::new()).await;
        let status = response.status().as_u16();
        tick();
        let mut body = response.into_body();
        let mut text = String::new();
        let mut lines = Vec::new();
        while let Some(frame) = body.frame().await {
            let data = frame.expect("a frame").into_data().expect("data");
            text.push_str(std::str::from_utf8(&data).expect("text"));
            while let Some((line, rest)) = text.split_once('\n') {
                lines.push(serde_json::from_str(line).expect("a line of JSON"));
                text = rest.to_owned();
            }
            if lines.iter().filter(|line: &&Value| line.as_object().is_some_and(serde_json::Map::is_empty)).count() == 2
            {
                lines.pop();
                break;
            }
        }
        (status, lines)
    }
}
