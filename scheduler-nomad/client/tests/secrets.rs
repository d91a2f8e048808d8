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
use scheduler_nomad_client::model::{Job, Secret, Submission, Variable};
use scheduler_nomad_client::{
    Client, Condition, Dispatch, EventOptions, ListOptions, LogOptions, LogStream, Query, Register, Token,
    VariableCondition,
};
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
    let variable =
        json!({"Namespace": "shop", "Path": "nomad/jobs/web", "Items": {"password": HUSH}, "ModifyIndex": 7});
    let frame = format!(r#"{{"Data":"{HUSH}==","File":"f","Offset":4}}"#);
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
        Reply::value(&variable),
        Reply::text(409, &variable.to_string()),
        Reply::text(200, &variable.to_string()).cut_after(140),
        Reply::value(&json!([variable])),
        Reply::value(&json!({"DispatchedJobID": "web/dispatch-1", "EvalID": "e"})),
        Reply::value(&json!({"c": {"ID": "c", "Status": "failure", "Output": HUSH}})),
        Reply::stream(&[&frame, HUSH]).cut(),
        Reply::stream(&[&frame, &format!(r#"{{"Data":"*{HUSH}"}}"#)]).cut(),
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
    try_values(&client, seen).await;
    assert_eq!(server.requests().len(), 17);
    assert!(server.requests().iter().all(|request| request.header("x-nomad-token") == Some(TOKEN)));
}

/// What holds nothing but secrets: variables, payloads, and what programs print.
async fn try_values(client: &Client, seen: &mut String) {
    let query = Query::variable("shop", "nomad/jobs/web");
    let variable: Variable = client.query(&query).await.unwrap().value.unwrap();
    assert_eq!(variable.items["password"].expose(), HUSH);
    writeln!(seen, "{variable:?} {:?} {:?}", variable.items, Secret::new(HUSH)).unwrap();
    let condition = VariableCondition::Unchanged { modify_index: 7 };
    for _ in 0..2 {
        let error = client.put_variable(&variable, condition).await.unwrap_err();
        writeln!(seen, "{error} {error:?}").unwrap();
    }
    writeln!(seen, "{:?}", client.query(&Query::variables("shop", "")).await.unwrap()).unwrap();
    let dispatch = Dispatch::new().payload(HUSH).meta("m", HUSH);
    writeln!(seen, "{dispatch:?} {:?}", client.dispatch("shop", "web", &dispatch).await.unwrap()).unwrap();
    let allocation = "06b7ebea-201a-95e1-b1ce-53f7d3afe8c1";
    writeln!(seen, "{:?}", client.query(&Query::allocation_checks("shop", allocation)).await.unwrap()).unwrap();
    for _ in 0..2 {
        let mut frames = client.logs(LogOptions::new("shop", allocation, "t", LogStream::Stdout));
        let frame = frames.next().await.unwrap().unwrap();
        assert_eq!(&frame.data[..], b"hush");
        let error = frames.next().await.unwrap().unwrap_err();
        writeln!(seen, "{frame:?} {error} {error:?}").unwrap();
    }
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
        for secret in [TOKEN, HUSH, "hush"] {
            let line = text.lines().find(|line| line.contains(secret));
            assert_eq!(line, None, "{secret} is {place}");
        }
    }
}
