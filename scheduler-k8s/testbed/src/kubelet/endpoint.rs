//! The kubelets' own server, which the API server reads logs from: one listener on loopback for all nodes.
//!
//! It does not ask who reads. All that it tells is what simulated containers write, and that holds no secret.

use std::{
    collections::HashMap,
    convert::Infallible,
    io,
    net::{Ipv4Addr, SocketAddr},
    str::FromStr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{Stream, stream};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    Request, Response, StatusCode,
    body::{Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use tokio::{net::TcpListener, sync::watch};
use tokio_rustls::TlsAcceptor;

use super::output::{Output, Reader, Run, Selection};
use crate::{
    TestbedError,
    credentials::Credentials,
    nodes::{Link, Nodes},
};

/// After a connection that could not be taken, before the next one.
const RETRY: Duration = Duration::from_millis(100);

/// Where the kubelets will listen.
pub(crate) struct Endpoint {
    listener: std::net::TcpListener,
    address: SocketAddr,
    tls: TlsAcceptor,
}

impl Endpoint {
    /// Takes a free port. Connections wait until the kubelets run.
    pub(crate) fn bind(credentials: &Credentials) -> Result<Self, TestbedError> {
        let listen = || {
            let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) = listen().map_err(TestbedError::machine("listen as the kubelets"))?;
        let tls = TlsAcceptor::from(Arc::new(credentials.server_tls()?));
        Ok(Self { listener, address, tls })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until it is dropped.
    pub(super) async fn serve(self, outputs: Arc<Outputs>, nodes: Arc<Nodes>) -> io::Result<Infallible> {
        let listener = TcpListener::from_std(self.listener)?;
        loop {
            let Ok((socket, _)) = listener.accept().await else {
                tokio::time::sleep(RETRY).await;
                continue;
            };
            let (tls, outputs, nodes) = (self.tls.clone(), Arc::clone(&outputs), Arc::clone(&nodes));
            tokio::spawn(async move {
                // A connection that breaks is the API server's to report.
                let Ok(socket) = tls.accept(socket).await else { return };
                let answer = service_fn(|request| {
                    let answer = answer(&request, &outputs, &nodes);
                    async { answer }
                });
                let _ = http1::Builder::new().serve_connection(TokioIo::new(socket), answer).await;
            });
        }
    }
}

/// What the containers of all Pods write.
#[derive(Default)]
pub(super) struct Outputs(Mutex<HashMap<Name, Entry>>);

type Name = (String, String);

#[derive(Clone)]
struct Entry {
    uid: Option<String>,
    node: String,
    written: watch::Receiver<Vec<Output>>,
}

impl Outputs {
    /// Lets a Pod write, until what this returns is dropped.
    pub(super) fn open(self: &Arc<Self>, pod: &Pod, now: Vec<Output>) -> Writer {
        let metadata = &pod.metadata;
        let name = (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default());
        let (sender, written) = watch::channel(now);
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
        self.lock().insert(name.clone(), Entry { uid: metadata.uid.clone(), node, written });
        Writer { outputs: Arc::clone(self), name, uid: metadata.uid.clone(), sender }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A Pod's place among the [`Outputs`].
pub(super) struct Writer {
    outputs: Arc<Outputs>,
    name: Name,
    uid: Option<String>,
    sender: watch::Sender<Vec<Output>>,
}

impl Writer {
    pub(super) fn write(&self, now: Vec<Output>) {
        self.sender.send_if_modified(|before| {
            let changed = *before != now;
            *before = now;
            changed
        });
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut outputs = self.outputs.lock();
        // A Pod that followed under the same name has the place now.
        if outputs.get(&self.name).is_some_and(|entry| entry.uid == self.uid) {
            outputs.remove(&self.name);
        }
    }
}

/// The node is lost: there is no answer, and what was begun breaks off.
#[derive(Debug, thiserror::Error)]
#[error("the node is lost")]
struct Lost;

/// Why there is no log.
enum Refusal {
    Lost,
    Answer(StatusCode, String),
}

type Body = UnsyncBoxBody<Bytes, Lost>;

fn answer(request: &Request<Incoming>, outputs: &Outputs, nodes: &Nodes) -> Result<Response<Body>, Lost> {
    let (status, body) = match find(request, outputs, nodes) {
        Ok(log) => (StatusCode::OK, log.into_body()),
        Err(Refusal::Answer(status, why)) => (status, Full::from(why).map_err(|never| match never {}).boxed_unsync()),
        Err(Refusal::Lost) => return Err(Lost),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    Ok(response)
}

/// The log that is asked for, or what a kubelet answers instead.
fn find(request: &Request<Incoming>, outputs: &Outputs, nodes: &Nodes) -> Result<Log, Refusal> {
    let not_found = |why: String| Refusal::Answer(StatusCode::NOT_FOUND, why);
    let bad_request = |why: String| Refusal::Answer(StatusCode::BAD_REQUEST, why);

    let path: Vec<_> = request.uri().path().split('/').collect();
    let ["", "containerLogs", namespace, pod, container] = path[..] else {
        return Err(not_found("404 page not found".to_owned()));
    };
    let entry = outputs.lock().get(&(namespace.to_owned(), pod.to_owned())).cloned();
    let entry = entry.ok_or_else(|| not_found(format!("pod {pod:?} does not exist")))?;
    let up = nodes.link(&entry.node).map(Link::changes).filter(|up| *up.borrow()).ok_or(Refusal::Lost)?;

    let now = Timestamp::now();
    let query = Query::parse(request.uri().query().unwrap_or_default(), now);
    let query = query.ok_or_else(|| bad_request("Unable to decode query.".to_owned()))?;
    let output = entry.written.borrow().iter().find(|output| output.container == container).cloned();
    let output = output.ok_or_else(|| not_found(format!("container {container:?} not found in pod {pod:?}")))?;
    let run = output.run(query.previous, pod).map_err(bad_request)?;
    let reader = Reader::new(&run, &query.selection, now);
    Ok(Log { container: output.container, run, reader, follow: query.follow, written: Some(entry.written), up })
}

/// What is asked for behind the `?`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Query {
    follow: bool,
    previous: bool,
    selection: Selection,
}

impl Query {
    fn parse(text: &str, now: Timestamp) -> Option<Self> {
        let mut query = Self::default();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=')?;
            let value = decode(value)?;
            let selection = &mut query.selection;
            match key {
                "follow" => query.follow = value.parse().ok()?,
                "previous" => query.previous = value.parse().ok()?,
                "timestamps" => selection.timestamps = value.parse().ok()?,
                "sinceSeconds" => selection.since = Some(now - Duration::from_secs(value.parse::<u32>().ok()?.into())),
                "sinceTime" => selection.since = Some(Timestamp::from_str(&value).ok()?),
                "tailLines" => selection.tail = Some(value.parse().ok()?),
                "limitBytes" => selection.limit_bytes = Some(value.parse().ok()?),
                // Of the two streams there is one.
                _ => {}
            }
        }
        Some(query)
    }
}

/// Undoes percent-encoding.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut parts = text.split('%');
    bytes.extend_from_slice(parts.next()?.as_bytes());
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

/// A log on its way.
struct Log {
    container: String,
    run: Run,
    reader: Reader,
    follow: bool,
    /// `None` once nothing more can change.
    written: Option<watch::Receiver<Vec<Output>>>,
    up: watch::Receiver<bool>,
}

impl Log {
    fn into_body(self) -> Body {
        StreamBody::new(self.pieces()).boxed_unsync()
    }

    fn pieces(self) -> impl Stream<Item = Result<Frame<Bytes>, Lost>> + Send {
        stream::unfold(self, |mut log| async {
            let piece = log.piece().await?;
            Some((piece.map(|text| Frame::data(Bytes::from(text))), log))
        })
    }

    /// The next lines, as soon as there are any.
    async fn piece(&mut self) -> Option<Result<String, Lost>> {
        loop {
            if !*self.up.borrow_and_update() {
                return Some(Err(Lost));
            }
            if let Some(written) = &mut self.written {
                let known = written.borrow_and_update();
                let output = known.iter().find(|output| output.container == self.container);
                // A run that is forgotten has been read to its end, or nobody can tell any more.
                self.run = output.and_then(|output| output.again(self.run))?;
            }
            let (text, due) = self.reader.read(&self.run, Timestamp::now());
            if !text.is_empty() {
                return Some(Ok(text));
            }
            let (due, written) = (due.filter(|_| self.follow)?, self.written.as_mut()?);
            let wait = due.duration_since(Timestamp::now()).max(Default::default()).unsigned_abs();
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                changed = written.changed() => if changed.is_err() { self.written = None },
                _ = self.up.changed() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// As a StatefulSet makes them: the next one may come before the last one's task has ended.
    #[test]
    fn a_pod_leaves_its_place_to_the_next_of_its_name() {
        let pod = |uid: &str| -> Pod {
            serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": "db-0", "uid": uid}})).unwrap()
        };
        let outputs = Arc::new(Outputs::default());
        let name = ("shop".to_owned(), "db-0".to_owned());
        let first = outputs.open(&pod("1"), Vec::new());
        let second = outputs.open(&pod("2"), Vec::new());
        drop(first);
        assert_eq!(outputs.lock().get(&name).unwrap().uid.as_deref(), Some("2"));
        drop(second);
        assert!(outputs.lock().is_empty());
    }

    #[test]
    fn queries_are_read_as_the_api_server_writes_them() {
        let now: Timestamp = "2026-11-30T10:00:00Z".parse().unwrap();
        let at = |text: &str| Some(text.parse().unwrap());
        let query = Query::parse("follow=true&sinceSeconds=90&stream=All&tailLines=0&timestamps=true", now).unwrap();
        let selection =
            Selection { since: at("2026-11-30T09:58:30Z"), tail: Some(0), limit_bytes: None, timestamps: true };
        assert_eq!(query, Query { follow: true, previous: false, selection });
        let query = Query::parse("limitBytes=7&previous=true&sinceTime=2026-11-30T09%3A00%3A00Z", now).unwrap();
        let selection = Selection { since: at("2026-11-30T09:00:00Z"), limit_bytes: Some(7), ..Selection::default() };
        assert_eq!(query, Query { follow: false, previous: true, selection });
        assert_eq!(Query::parse("", now), Some(Query::default()));
        for wrong in ["follow", "follow=maybe", "tailLines=-1", "sinceTime=now", "sinceTime=%3", "sinceTime=%zz"] {
            assert_eq!(Query::parse(wrong, now), None, "{wrong}");
        }
    }
}
