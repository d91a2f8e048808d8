//! A layer between a client and its server that counts requests and lets one of them meet a fault.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use scheduler_core::conformance::Injection;
use scheduler_nomad::client::ConnectOptions;
use tokio::sync::watch;
use tower::{BoxError, Service};

type Connections = Pool<HttpConnector, Full<Bytes>>;

/// Connections to the agent, shared by all worlds of a server.
pub(crate) fn connections() -> Connections {
    Pool::builder(TokioExecutor::new()).build_http()
}

/// What the requests of one world meet; shared by all its clients.
#[derive(Clone, Debug)]
pub(crate) struct Faults(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Its value grows with each end that open event streams are to have.
    gaps: watch::Sender<u32>,
}

#[derive(Debug, Default)]
struct State {
    /// How many requests are still let through before the one that meets the fault.
    armed: Option<(u32, Injection)>,
    met: bool,
}

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

    /// Lets every open event stream end.
    pub(crate) fn break_watches(&self) {
        self.0.gaps.send_modify(|gaps| *gaps += 1);
    }

    /// Options for clients above this layer.
    pub(crate) fn options(&self, address: &str, below: Connections) -> ConnectOptions {
        ConnectOptions::explicit(address).service(Layered { faults: self.clone(), below })
    }

    fn next(&self) -> Option<Injection> {
        let mut state = self.0.state.lock().unwrap();
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
    below: Connections,
}

impl Service<Request<Full<Bytes>>> for Layered {
    type Response = Response<Answer>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Answer>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        let Self { faults, below } = self.clone();
        let fault = faults.next();
        let streams = request.uri().path().ends_with("/event/stream");
        Box::pin(async move {
            match fault {
                None => {
                    // Before the request: a gap between it and its answer counts.
                    let gaps = faults.0.gaps.subscribe();
                    let answer = below.request(request).await?;
                    let body = |body: Incoming| body.map_err(BoxError::from).boxed_unsync();
                    Ok(if streams { answer.map(|answer| with_gap(answer, gaps)) } else { answer.map(body) })
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
                    let answer = below.request(request).await?;
                    if !streams {
                        answer.into_body().collect().await?;
                    }
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

/// The answer of a server that does nothing.
fn refusal(fault: Injection) -> Option<Response<Answer>> {
    let (code, sentence, patience) = match fault {
        Injection::Refuse => (StatusCode::SERVICE_UNAVAILABLE, "by the test", Some("1")),
        Injection::Throttle => (StatusCode::TOO_MANY_REQUESTS, "by the test", Some("1")),
        Injection::Fail => (StatusCode::INTERNAL_SERVER_ERROR, "by the test", None),
        Injection::Forbid => (StatusCode::FORBIDDEN, "Permission denied", None),
        _ => return None,
    };
    let body = Full::from(sentence).map_err(|never| match never {}).boxed_unsync();
    let mut answer = Response::builder().status(code).header("content-type", "text/plain; charset=utf-8");
    if let Some(seconds) = patience {
        answer = answer.header("retry-after", seconds);
    }
    Some(answer.body(body).unwrap())
}

/// An event stream that ends at the next gap, with a whole line.
fn with_gap(body: Incoming, gaps: watch::Receiver<u32>) -> Answer {
    let start = (body.into_data_stream(), gaps, true);
    let pieces = stream::unfold(start, |(mut pieces, mut gaps, whole)| async move {
        let piece = tokio::select! {
            biased;
            gap = gaps.changed(), if whole => {
                if gap.is_ok() {
                    return None;
                }
                pieces.next().await?
            }
            piece = pieces.next() => piece?,
        };
        let whole = piece.as_ref().is_ok_and(|piece| piece.ends_with(b"\n"));
        Some((piece.map(Frame::data).map_err(BoxError::from), (pieces, gaps, whole)))
    });
    StreamBody::new(pieces).boxed_unsync()
}
