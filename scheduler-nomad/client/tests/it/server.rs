//! A server that answers by a script, byte for byte, and notes what it was asked.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use scheduler_nomad_client::{Client, ConnectOptions};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

pub(crate) const TOKEN: &str = "00000000-0000-4000-8000-t0ken0000001";
const AGENT: &str = "/v1/agent/self";

/// An answer: bytes, then what happens to the connection.
#[derive(Clone)]
pub(crate) struct Reply {
    bytes: Vec<u8>,
    then: Then,
}

#[derive(Clone, Copy, PartialEq)]
enum Then {
    Keep,
    Cut,
    Hang,
}

impl Reply {
    pub(crate) fn new(code: u16, headers: &[(&str, &str)], body: &str) -> Self {
        let mut text = format!("HTTP/1.1 {code} Code\r\nContent-Length: {}\r\n", body.len());
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        Self { bytes: format!("{text}\r\n{body}").into_bytes(), then: Then::Keep }
    }

    /// A refusal, as Nomad words it.
    pub(crate) fn text(code: u16, body: &str) -> Self {
        Self::new(code, &[("Content-Type", "text/plain; charset=utf-8")], body)
    }

    /// A success, with this index.
    pub(crate) fn at(index: u64, body: &Value) -> Self {
        let headers = [
            ("Content-Type", "application/json"),
            ("X-Nomad-Index", &index.to_string()),
            ("X-Nomad-Knownleader", "true"),
            ("X-Nomad-Lastcontact", "0"),
        ];
        Self::new(200, &headers, &body.to_string())
    }

    /// The same with nothing in the headers.
    pub(crate) fn value(body: &Value) -> Self {
        Self::new(200, &[("Content-Type", "application/json")], &body.to_string())
    }

    /// An event stream of these lines, as servers from 1.11.2 on send it: neither a length nor chunks.
    pub(crate) fn stream(lines: &[&str]) -> Self {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n";
        Self { bytes: format!("{head}{}", lines.concat()).into_bytes(), then: Then::Hang }
    }

    pub(crate) fn raw(bytes: &str) -> Self {
        Self { bytes: bytes.as_bytes().to_vec(), then: Then::Keep }
    }

    pub(crate) fn hang() -> Self {
        Self { bytes: Vec::new(), then: Then::Hang }
    }

    /// Cuts the connection after so many bytes.
    pub(crate) fn cut_after(mut self, bytes: usize) -> Self {
        self.bytes.truncate(bytes);
        self.cut()
    }

    pub(crate) fn cut(mut self) -> Self {
        self.then = Then::Cut;
        self
    }
}

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Recorded {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.body.is_empty()
    }

    /// `GET /path?query`.
    pub(crate) fn line(&self) -> String {
        format!("{} {}", self.method, self.target)
    }
}

#[derive(Clone)]
struct Shared {
    script: Arc<Mutex<VecDeque<Reply>>>,
    requests: Arc<Mutex<Vec<Recorded>>>,
    hung_up: mpsc::UnboundedSender<()>,
}

pub(crate) struct Server {
    pub(crate) port: u16,
    shared: Shared,
    hung_up: mpsc::UnboundedReceiver<()>,
}

impl Server {
    /// Answers `GET /v1/agent/self` by itself, everything else by the script.
    pub(crate) async fn start(script: impl IntoIterator<Item = Reply>) -> Self {
        Self::start_with(script, None).await
    }

    pub(crate) async fn start_with(script: impl IntoIterator<Item = Reply>, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = Self::new(port, script);
        let shared = server.shared.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (shared, tls) = (shared.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(socket, &shared).await,
                        // A failed handshake is the client's to report.
                        Some(tls) => {
                            if let Ok(socket) = tls.accept(socket).await {
                                serve(socket, &shared).await;
                            }
                        }
                    }
                });
            }
        });
        server
    }

    /// The same on a unix socket.
    #[cfg(unix)]
    pub(crate) async fn start_unix(path: &std::path::Path, script: impl IntoIterator<Item = Reply>) -> Self {
        let listener = tokio::net::UnixListener::bind(path).unwrap();
        let server = Self::new(0, script);
        let shared = server.shared.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let shared = shared.clone();
                tokio::spawn(async move { serve(socket, &shared).await });
            }
        });
        server
    }

    fn new(port: u16, script: impl IntoIterator<Item = Reply>) -> Self {
        let (sender, hung_up) = mpsc::unbounded_channel();
        let script = Arc::new(Mutex::new(script.into_iter().collect()));
        Self { port, shared: Shared { script, requests: Arc::default(), hung_up: sender }, hung_up }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn options(&self) -> ConnectOptions {
        ConnectOptions::explicit(self.url()).token(TOKEN)
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.options()).await.unwrap()
    }

    /// The requests so far, without `GET /v1/agent/self`.
    pub(crate) fn requests(&self) -> Vec<Recorded> {
        let requests = self.shared.requests.lock().unwrap();
        requests.iter().filter(|request| request.target.split('?').next() != Some(AGENT)).cloned().collect()
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.requests().iter().map(Recorded::line).collect()
    }

    /// Waits until a client leaves a connection on which the server is silent.
    pub(crate) async fn hung_up(&mut self) {
        self.hung_up.recv().await.unwrap();
    }
}

async fn serve(mut socket: impl AsyncRead + AsyncWrite + Unpin, shared: &Shared) {
    let mut buffer = Vec::new();
    while let Some(request) = read(&mut socket, &mut buffer).await {
        let reply = if request.target.split('?').next() == Some(AGENT) {
            Reply::value(&serde_json::json!({"member": {"Tags": {"build": "2.0.6-dev"}}}))
        } else {
            let next = shared.script.lock().unwrap().pop_front();
            next.unwrap_or_else(|| Reply::text(418, "the script is over"))
        };
        shared.requests.lock().unwrap().push(request);
        if socket.write_all(&reply.bytes).await.is_err() || socket.flush().await.is_err() {
            return;
        }
        match reply.then {
            Then::Keep => {}
            Then::Cut => {
                let _ = socket.shutdown().await;
                return;
            }
            Then::Hang => {
                while matches!(socket.read_buf(&mut buffer).await, Ok(read) if read > 0) {}
                let _ = shared.hung_up.send(());
                return;
            }
        }
    }
}

/// Reads one request, or `None` at the end of the connection.
async fn read(socket: &mut (impl AsyncRead + Unpin), buffer: &mut Vec<u8>) -> Option<Recorded> {
    let head_end = loop {
        if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        if socket.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(buffer[..head_end].to_vec()).ok()?;
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let (method, target) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let length = headers
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .map_or(0, |(_, length)| length.parse().unwrap());
    let body_start = head_end + 4;
    while buffer.len() < body_start + length {
        if socket.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    let body = String::from_utf8(buffer[body_start..body_start + length].to_vec()).ok()?;
    buffer.drain(..body_start + length);
    Some(Recorded { method, target, headers, body })
}
