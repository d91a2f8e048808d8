//! As much of an HTTP client as these tests need: one request a connection, and a feed that is read line by line.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::TcpStream;

/// No test waits longer for anything.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
pub struct Client(pub SocketAddr);

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Value,
}

impl Client {
    pub async fn get(self, path: &str) -> Value {
        self.send("GET", path, "", &[]).await.expect(200)
    }

    pub async fn post(self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, &body.to_string(), &[("content-type", "application/json")]).await
    }

    pub async fn put(self, path: &str, body: &Value) -> Answer {
        self.send("PUT", path, &body.to_string(), &[("content-type", "application/json")]).await
    }

    pub async fn delete(self, path: &str) -> Answer {
        self.send("DELETE", path, "", &[]).await
    }

    pub async fn send(self, method: &str, path: &str, body: &str, headers: &[(&str, &str)]) -> Answer {
        let mut stream = self.open(method, path, body, headers).await;
        let mut text = String::new();
        within(stream.read_to_string(&mut text), path).await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, body: serde_json::from_str(body).unwrap_or_else(|_| json!(body)) }
    }

    /// What happens from now on, or after `last`.
    pub async fn follow(self, path: &str, last: Option<&str>) -> Feed {
        let last: Vec<(&str, &str)> = last.map(|id| ("last-event-id", id)).into_iter().collect();
        let mut lines = BufReader::new(self.open("GET", path, "", &last).await).lines();
        assert!(lines.next_line().await.unwrap().unwrap().contains("200"), "{path}");
        Feed { lines, path: path.to_owned() }
    }

    /// HTTP 1.0: the answer ends with the connection, and has no chunks in it.
    async fn open(self, method: &str, path: &str, body: &str, headers: &[(&str, &str)]) -> TcpStream {
        let mut stream = TcpStream::connect(self.0).await.unwrap();
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let (host, length) = (self.0, body.len());
        let request =
            format!("{method} {path} HTTP/1.0\r\nhost: {host}\r\ncontent-length: {length}\r\n{headers}\r\n{body}");
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }
}

impl Answer {
    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        self.body
    }
}

/// What a server tells as it happens.
pub struct Feed {
    lines: Lines<BufReader<TcpStream>>,
    path: String,
}

#[derive(Clone, Debug, Default)]
pub struct Message {
    pub id: String,
    pub event: String,
    pub data: Value,
}

impl Feed {
    /// The next message; none after the last.
    pub async fn next(&mut self) -> Option<Message> {
        let mut message = Message::default();
        loop {
            let line = within(self.lines.next_line(), &self.path).await.unwrap()?;
            match line.split_once(": ") {
                Some(("id", id)) => id.clone_into(&mut message.id),
                Some(("event", event)) => event.clone_into(&mut message.event),
                Some(("data", data)) => message.data = serde_json::from_str(data).unwrap(),
                _ if line.is_empty() && !message.event.is_empty() => return Some(message),
                _ => {}
            }
        }
    }

    /// Reads on to the end.
    pub async fn until_end(&mut self) {
        while self.next().await.is_some() {}
    }

    /// Reads on to a message of this kind that is as wanted.
    pub async fn until(&mut self, event: &str, wanted: impl Fn(&Value) -> bool) -> Message {
        let mut seen = Vec::new();
        let found = async {
            loop {
                match self.next().await {
                    Some(message) if message.event == event && wanted(&message.data) => return message,
                    Some(message) => seen.push(message),
                    None => panic!("the feed ended before {event}"),
                }
            }
        };
        match tokio::time::timeout(PATIENCE, found).await {
            Ok(message) => message,
            Err(_) => panic!("no such {event}; there were {seen:#?}"),
        }
    }
}

pub async fn within<T>(future: impl Future<Output = T>, what: &str) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(done) => done,
        Err(_) => panic!("{what}: nothing for {PATIENCE:?}"),
    }
}
