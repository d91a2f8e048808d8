//! A scripted server.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use scheduler_core::OwnerId;
use scheduler_nomad::NomadScheduler;
use scheduler_nomad::client::{Client, ConnectOptions};
use serde_json::{Value, json};
use tower::{BoxError, Service};

/// A server that answers what it is told, in order, and remembers what it was asked.
#[derive(Clone, Default)]
pub(crate) struct Script(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    answers: VecDeque<Response<Full<Bytes>>>,
    asked: Vec<String>,
    sent: Vec<Value>,
}

impl Script {
    pub(crate) fn answer(self, body: &Value) -> Self {
        self.push(200, "application/json", &body.to_string())
    }

    pub(crate) fn refuse(self, code: u16, sentence: &str) -> Self {
        self.push(code, "text/plain; charset=utf-8", sentence)
    }

    pub(crate) fn push(self, code: u16, kind: &str, body: &str) -> Self {
        let response = Response::builder().status(code).header("content-type", kind);
        let response = response.header("date", "Thu, 01 Jan 2026 01:00:00 GMT");
        self.0.lock().unwrap().answers.push_back(response.body(Full::from(body.to_owned())).unwrap());
        self
    }

    /// A scheduler for a server of this version.
    pub(crate) async fn of_version(&self, version: &str) -> NomadScheduler {
        let agent = json!({"member": {"Tags": {"build": version}}}).to_string();
        self.0.lock().unwrap().answers.push_front(Response::new(Full::from(agent)));
        let options = ConnectOptions::explicit("http://127.0.0.1").service(self.clone());
        let client = Client::connect(options).await.unwrap();
        self.0.lock().unwrap().asked.clear();
        self.0.lock().unwrap().sent.clear();
        NomadScheduler::new(client, OwnerId::new("platform").unwrap())
    }

    pub(crate) async fn scheduler(&self) -> NomadScheduler {
        self.of_version("2.0.6").await
    }

    /// What was asked; everything that was to be answered must have been asked for.
    pub(crate) fn asked(&self) -> Vec<String> {
        let state = self.0.lock().unwrap();
        assert_eq!(state.answers.len(), 0, "answers that nobody asked for, after {:?}", state.asked);
        state.asked.clone()
    }
}

impl Script {
    /// What was sent with each request; null where nothing was.
    pub(crate) fn sent(&self) -> Vec<Value> {
        self.0.lock().unwrap().sent.clone()
    }
}

impl Service<Request<Full<Bytes>>> for Script {
    type Response = Response<Full<Bytes>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        let script = self.clone();
        Box::pin(async move {
            let path = request.uri().path().trim_start_matches("/v1/").replace("%2F", "/");
            let asked = format!("{} {path}", request.method());
            let sent = request.into_body().collect().await?.to_bytes();
            let mut state = script.0.lock().unwrap();
            state.asked.push(asked);
            state.sent.push(serde_json::from_slice(&sent).unwrap_or_default());
            state.answers.pop_front().ok_or_else(|| "the script has no more answers".into())
        })
    }
}
