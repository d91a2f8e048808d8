//! A layer between a client and its server that counts requests and lets one of them meet a fault.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use scheduler_core::conformance::Injection;
use scheduler_k8s::client::kube::{self, client::Body};
use tokio::sync::watch;
use tower::{BoxError, Service};

/// What the requests of one world meet; shared by all its clients.
#[derive(Clone, Debug)]
pub(crate) struct Faults(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Its value grows with each gap that open watches are to have.
    gaps: watch::Sender<u32>,
}

#[derive(Debug, Default)]
struct State {
    /// How many requests are still let through before the one that meets the fault.
    armed: Option<(u32, Injection)>,
    met: bool,
    seen: Vec<String>,
}

#[allow(dead_code, reason = "each of the two test binaries uses its part")]
impl Faults {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Shared { state: Mutex::default(), gaps: watch::Sender::new(0) }))
    }

    /// The request number `nth` from now, counted from 1, meets a fault.
    pub(crate) fn inject(&self, nth: u32, fault: Injection) {
        let mut state = self.0.state.lock().unwrap();
        (state.armed, state.met) = (Some((nth, fault)), false);
    }

    pub(crate) fn injected(&self) -> bool {
        self.0.state.lock().unwrap().met
    }

    /// Lets every open watch end as the server ends one whose version it has forgotten.
    pub(crate) fn break_watches(&self) {
        self.0.gaps.send_modify(|gaps| *gaps += 1);
    }

    /// The requests since the last call, as `METHOD path`.
    pub(crate) fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.0.state.lock().unwrap().seen)
    }

    /// A client above this layer.
    pub(crate) fn client(&self, below: kube::Client) -> kube::Client {
        kube::Client::new(Layered { faults: self.clone(), below }, "default")
    }

    fn next(&self, request: &Request<Body>) -> Option<Injection> {
        let mut state = self.0.state.lock().unwrap();
        state.seen.push(format!("{} {}", request.method(), request.uri().path()));
        let (left, fault) = state.armed?;
        state.armed = (left > 1).then_some((left - 1, fault));
        (left == 1).then_some(fault)
    }

    fn met(&self) {
        self.0.state.lock().unwrap().met = true;
    }
}

type Answer = UnsyncBoxBody<Bytes, BoxError>;

#[derive(Clone)]
struct Layered {
    faults: Faults,
    below: kube::Client,
}

impl Service<Request<Body>> for Layered {
    type Response = Response<Answer>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Answer>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { faults, below } = self.clone();
        let fault = faults.next(&request);
        let watches = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        Box::pin(async move {
            match fault {
                None => {
                    let answer = below.send(request).await?;
                    let gaps = faults.0.gaps.subscribe();
                    Ok(if watches {
                        answer.map(|body| with_gap(body, gaps))
                    } else {
                        answer.map(|body| body.map_err(BoxError::from).boxed_unsync())
                    })
                }
                Some(Injection::Reset) => {
                    faults.met();
                    Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset).into())
                }
                Some(fault) => {
                    if let Some(refusal) = refusal(fault) {
                        faults.met();
                        return Ok(refusal);
                    }
                    // The whole answer has to be read, or the effect would not be certain.
                    below.send(request).await?.into_body().collect().await?;
                    faults.met();
                    if fault == Injection::Hang {
                        std::future::pending::<()>().await;
                    }
                    Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset).into())
                }
            }
        })
    }
}

fn status(code: StatusCode, reason: &str) -> String {
    format!(
        r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","message":"by the test","reason":"{reason}","code":{}}}"#,
        code.as_u16()
    )
}

/// The answer of a server that does nothing.
fn refusal(fault: Injection) -> Option<Response<Answer>> {
    let (code, reason, patience) = match fault {
        Injection::Refuse => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", Some("1")),
        Injection::Throttle => (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", Some("1")),
        Injection::Fail => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError", None),
        Injection::Forbid => (StatusCode::FORBIDDEN, "Forbidden", None),
        _ => return None,
    };
    let body = Full::from(status(code, reason)).map_err(|never| match never {}).boxed_unsync();
    let mut answer = Response::builder().status(code).header("content-type", "application/json");
    if let Some(seconds) = patience {
        answer = answer.header("retry-after", seconds);
    }
    Some(answer.body(body).unwrap())
}

/// A watch that ends with the error of an expired version at the next gap.
fn with_gap(body: Body, mut gaps: watch::Receiver<u32>) -> Answer {
    let error = format!("{{\"type\":\"ERROR\",\"object\":{}}}\n", status(StatusCode::GONE, "Expired"));
    let gap = async move {
        if gaps.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let lines = body.into_data_stream().map_err(BoxError::from).take_until(gap);
    let lines = lines.chain(stream::once(async move { Ok::<_, BoxError>(Bytes::from(error)) }));
    StreamBody::new(lines.map_ok(Frame::data)).boxed_unsync()
}
