use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, Method, Response, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use tokio::sync::watch;

use super::{
    access::{Caller, Need},
    answer::Body,
    query::Query,
};
use crate::{
    cluster::{Position, Refusal, Subscription},
    nomad::Hub,
    time::Time,
};

const HEARTBEAT: Duration = Duration::from_secs(30);
/// How long somebody without rights is left in silence. From 0.6 to 20 s is recorded.
const SILENCE: Duration = Duration::from_secs(10);

struct Stream {
    hub: Arc<Hub>,
    changes: watch::Receiver<u64>,
    subscription: Subscription,
    position: Position,
    started: bool,
    allowed: bool,
    /// When something is sent for its own sake, or the silence ends.
    deadline: Time,
}

/// Opens an event stream. One that is not allowed is opened all the same, and says nothing.
pub(crate) fn open(
    hub: &Arc<Hub>,
    method: &Method,
    query: &Query,
    headers: &HeaderMap,
) -> Result<Response<Body>, Refusal> {
    if *method != Method::GET {
        return Err(Refusal::new(405, "Invalid method"));
    }
    let mut topics = query.all("topic").map(topic).collect::<Result<Vec<_>, _>>()?;
    if topics.is_empty() {
        topics.push(("*".to_owned(), "*".to_owned()));
    }
    let index = match query.get("index") {
        None | Some("") => 0,
        Some(text) => text.parse().map_err(|_| {
            Refusal::new(400, format!("Unable to parse index: strconv.Atoi: parsing {text:?}: invalid syntax"))
        })?,
    };
    let namespace = query.namespace();
    let changes = hub.changes();
    let (position, allowed) = hub.look(|state| {
        let caller = Caller::of(headers, state);
        let nodes = topics.iter().any(|(topic, _)| topic == "*" || topic == "Node");
        let readable = match namespace {
            "*" => state.namespaces.keys().all(|namespace| caller.may(Need::Read, namespace)),
            one => caller.may(Need::Read, one),
        };
        (state.events.position(index), readable && (!nodes || caller.may(Need::Management, "")))
    });
    let namespace = Some(namespace.to_owned()).filter(|namespace| namespace != "*");
    let subscription = Subscription { topics, namespace };
    let deadline = hub.now().after(if allowed { HEARTBEAT } else { SILENCE });
    let hub = Arc::clone(hub);
    let stream = Stream { hub, changes, subscription, position, started: false, allowed, deadline };
    let body = StreamBody::new(stream::unfold(stream, |mut stream| async {
        let text = stream.next().await?;
        Some((Ok::<_, Infallible>(Frame::data(Bytes::from(text))), stream))
    }));
    let mut response = Response::new(body.boxed_unsync());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    Ok(response)
}

impl Stream {
    /// The next lines. None at the end.
    async fn next(&mut self) -> Option<String> {
        if self.allowed && !std::mem::replace(&mut self.started, true) {
            return Some("{}\n".to_owned());
        }
        loop {
            let (hub, position, subscription) = (&self.hub, &mut self.position, &self.subscription);
            let news = hub.look(|state| state.events.read(position, subscription))?;
            if self.allowed && !news.is_empty() {
                return Some(news);
            }
            let now = self.hub.now();
            if now >= self.deadline {
                self.deadline = now.after(HEARTBEAT);
                return self.allowed.then(|| "{}\n".to_owned());
            }
            self.hub.wait(&mut self.changes, self.deadline).await;
        }
    }
}

/// A topic with a key: `Job:web`, `Job:*`, or `Job` alone.
fn topic(text: &str) -> Result<(String, String), Refusal> {
    let mut parts = text.split(':');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(topic), key, None) => Ok((topic.to_owned(), key.unwrap_or("*").to_owned())),
        _ => {
            let text =
                format!("Invalid topic query: error parsing topics: Invalid key value pair for topic, topic: {text}");
            Err(Refusal::new(400, text))
        }
    }
}
