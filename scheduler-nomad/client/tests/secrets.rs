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
use scheduler_nomad_client::model::{Job, Submission};
use scheduler_nomad_client::{Condition, EventOptions, ListOptions, Query, Register, Token};
use serde_json::json;
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

/// Part of every body, of requests and answers, in the places where jobs hold secrets.
const HUSH: &str = "aHVzaA";

async fn try_everything(seen: &mut String) {
    let body = json!({
        "ID": "web", "Namespace": "shop", "Type": "service", "Meta": {"m": HUSH}, "JobModifyIndex": 7, "Payload": HUSH,
        "TaskGroups": [{"Name": "g", "Meta": {"m": HUSH}, "Services": [{"Name": "s", "Checks": [{"Header": {"h": [HUSH]}}]}],
            "Tasks": [{"Name": "t", "Driver": "docker", "Env": {"E": HUSH}, "Config": {"auth": {"password": HUSH}},
                "Templates": [{"EmbeddedTmpl": HUSH, "DestPath": "x"}], "Unknown": HUSH}]}],
    });
    let diff = json!({"Fields": [{"Name": "Env[E]", "Old": HUSH, "New": HUSH, "Type": "Edited"}], "Type": "Edited"});
    let event = json!({"Topic": "Job", "Key": "web", "Namespace": "shop", "Index": 7, "Payload": {"Job": body}});
    let line = format!("{}\n", json!({"Index": 7, "Events": [event]}));
    let torn = format!(r#"{{"Index":8,"Events":"{HUSH}"#);
    let server = Server::start([
        Reply::at(7, &body),
        Reply::at(7, &json!([{"ID": "web", "Meta": {"m": HUSH}}])),
        Reply::value(&json!({"Diff": diff, "JobModifyIndex": 7})),
        Reply::value(&json!({"EvalID": "e", "JobModifyIndex": 9})),
        Reply::text(409, &json!({"Items": {"password": HUSH}}).to_string()),
        Reply::text(502, &format!("<html>{HUSH}")),
        Reply::value(&json!(HUSH)),
        Reply::at(9, &body).cut_after(400),
        Reply::stream(&["{}\n", &line, &torn]).cut(),
    ])
    .await;
    writeln!(seen, "{:?} {:?}", server.options().client_certificate("cert", HUSH), Token::new(TOKEN)).unwrap();
    let client = server.client().await;
    writeln!(seen, "{client:?}").unwrap();

    let query = Query::job("shop", "web");
    let answer = client.query(&query).await.unwrap();
    writeln!(seen, "{query:?} {answer:?}").unwrap();
    let job: Job = answer.value.unwrap();
    assert!(serde_json::to_string(&job).unwrap().contains(HUSH));
    let group = &job.task_groups[0];
    let task = &group.tasks[0];
    writeln!(seen, "{:?} {:?} {:?}", group.services, task, task.templates).unwrap();
    writeln!(seen, "{:?}", client.query(&Query::jobs("shop", &ListOptions::new().meta())).await.unwrap()).unwrap();
    let planned = client.plan(&job, true).await.unwrap();
    writeln!(seen, "{planned:?} {:?}", planned.diff.as_ref().unwrap().fields).unwrap();

    let submission = Submission::new(HUSH, "json");
    let condition = Condition::Unchanged { job_modify_index: 7 };
    let register = || Register::new(&job, condition).submission(&submission);
    writeln!(seen, "{:?} {:?}", register(), client.register(register()).await.unwrap()).unwrap();
    for _ in 0..4 {
        let error = client.register(register()).await.unwrap_err();
        writeln!(seen, "{error} {error:?} {:?}", std::error::Error::source(&error)).unwrap();
    }
    let mut events = client.events(EventOptions::new("shop"));
    for _ in 0..3 {
        writeln!(seen, "{:?}", events.next().await.unwrap()).unwrap();
    }
    assert_eq!(server.requests().len(), 9);
    assert!(server.requests().iter().all(|request| request.header("x-nomad-token") == Some(TOKEN)));
}

#[test]
fn nothing_leaks() {
    let log = Log::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut seen = String::new();
    tracing::subscriber::with_default(log.clone(), || runtime.block_on(try_everything(&mut seen)));
    let log = log.0.lock().unwrap();
    assert!(log.contains("verb=register resource=\"job\" namespace=\"shop\" name=\"web\" status=409"), "{log}");
    for (place, text) in [("shown", &seen), ("logged", &*log)] {
        for secret in [TOKEN, HUSH] {
            let line = text.lines().find(|line| line.contains(secret));
            assert_eq!(line, None, "{secret} is {place}");
        }
    }
}
