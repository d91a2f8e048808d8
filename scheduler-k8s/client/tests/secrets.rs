//! Tokens, keys and bodies stay out of `Debug`, `Display` and log lines.
//!
//! A program of its own, since tracing decides once for all threads who listens.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

#[path = "it/server.rs"]
#[expect(dead_code, reason = "this test needs less of it")]
mod server;

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use scheduler_k8s_client::{
    Apply, Client, Condition, ConnectOptions, Delete, ListOptions, LogOptions, Propagation, Resource, SetScale,
    WatchOptions,
};
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::span;

use server::{Reply, Server, TOKEN};

/// Writes every span, event and field of every crate down.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Visit for Log {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0.lock().unwrap(), "{field}={value:?} ").unwrap();
    }
}

impl tracing::Subscriber for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        attributes.record(&mut self.clone());
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        values.record(&mut self.clone());
    }
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
        self.0.lock().unwrap().push('\n');
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

const SECRET: Resource = Resource::SECRET;
/// Part of every body, of requests and answers.
const HUSH: &str = "aHVzaA";

async fn try_everything(seen: &mut String) {
    let secret = json!({"metadata": {"name": "s", "resourceVersion": "1"}, "data": {"password": HUSH}});
    let refusal = format!(r#"{{"kind":"Status","message":"no","reason":"Invalid","x":"{HUSH}"}}"#);
    let event = format!("{}\n", json!({"type": "ADDED", "object": secret}));
    let torn = format!(r#"{{"type":"ADDED","object":"{HUSH}"#);
    let server = Server::start([
        Reply::value(&secret),
        Reply::value(&json!({"metadata": {"resourceVersion": "1"}, "items": [secret]})),
        Reply::value(&secret),
        Reply::json(422, &refusal),
        Reply::json(503, HUSH),
        Reply::json(200, &format!("<html>{HUSH}")),
        Reply::json(200, &secret.to_string()).cut_after(120),
        Reply::value(&json!({"metadata": {"deletionTimestamp": "now", "x": HUSH}})),
        Reply::value(&json!({"metadata": {"resourceVersion": "1"}, "items": [secret]})),
        Reply::stream(&[&event, &torn]),
        Reply::stream(&[&format!("2026-11-30T21:50:00Z {HUSH}\n{HUSH}")]),
        Reply::json(200, &format!(r#"{{"spec":"{HUSH}"}}"#)),
    ])
    .await;
    let options = server.options().client_certificate("cert", HUSH).proxy(format!("http://me:{HUSH}@127.0.0.1:1"));
    writeln!(seen, "{options:?}").unwrap();
    let client = server.client().await;
    writeln!(seen, "{client:?}").unwrap();

    let get = client.get::<Value>(&SECRET, Some("shop"), "s").await.unwrap();
    assert!(get.unwrap().to_string().contains(HUSH));
    client.list::<Value>(&SECRET, Some("shop"), &ListOptions::new()).await.unwrap();
    let apply = || {
        let body = json!({"data": {"password": HUSH}});
        Apply::new(&SECRET, Some("shop"), "s", body, "m", Condition::Absent)
    };
    writeln!(seen, "{:?} {:?}", apply(), client.apply(apply()).await.unwrap()).unwrap();
    for _ in 0..4 {
        let error = client.apply(apply()).await.unwrap_err();
        writeln!(seen, "{error} {error:?} {:?}", std::error::Error::source(&error)).unwrap();
    }
    let delete = Delete::new(&SECRET, Some("shop"), "s", Propagation::Background);
    writeln!(seen, "{:?}", client.delete(delete).await.unwrap()).unwrap();
    let mut watch = client.watch(&SECRET, Some("shop"), WatchOptions::new());
    for _ in 0..3 {
        writeln!(seen, "{:?}", watch.next().await.unwrap()).unwrap();
    }
    let mut lines = client.logs("shop", "p", &LogOptions::new()).await.unwrap();
    while let Some(line) = lines.next().await {
        assert_eq!(line.as_ref().unwrap().text, HUSH);
        writeln!(seen, "{line:?}").unwrap();
    }
    let set = SetScale::new(&Resource::DEPLOYMENT, Some("shop"), "web", 1, "m", "u-1", "1");
    let error = client.set_scale(set).await.unwrap_err();
    writeln!(seen, "{error} {error:?}").unwrap();
    assert_eq!(server.requests().len(), 12);
    assert!(server.requests().iter().all(|request| request.header("authorization").unwrap().contains(TOKEN)));

    for file in ["users: [{name: a, user: {token: aHVzaA", "users: [{name: a, user: {token: [aHVzaA]}}]"] {
        let path = std::env::temp_dir().join(format!("scheduler-k8s-client-{}.yaml", std::process::id()));
        std::fs::write(&path, file).unwrap();
        let error = Client::connect(ConnectOptions::kubeconfig_files([&path])).await.unwrap_err();
        std::fs::remove_file(&path).unwrap();
        writeln!(seen, "{error} {error:?}").unwrap();
    }
}

#[test]
fn nothing_leaks() {
    let log = Log::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut seen = String::new();
    tracing::subscriber::with_default(log.clone(), || runtime.block_on(try_everything(&mut seen)));
    let log = log.0.lock().unwrap();
    // One line of ours per request, and kube's own for comparison.
    assert!(log.contains("verb=patch resource=\"secrets\" namespace=\"shop\" name=\"s\" status=422"), "{log}");
    assert!(log.contains("http.url"), "{log}");
    for (place, text) in [("shown", &seen), ("logged", &*log)] {
        for secret in [TOKEN, HUSH] {
            let line = text.lines().find(|line| line.contains(secret));
            assert_eq!(line, None, "{secret} is {place}");
        }
    }
}
