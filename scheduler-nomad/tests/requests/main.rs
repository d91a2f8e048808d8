//! What the interpreter sends and what it makes of the answers, against a scripted server.
#![expect(clippy::unwrap_used, reason = "this is a test, which clippy cannot tell in its helpers")]

mod basics;
mod hooks;
mod kinds;
mod rollout;
mod routes;
mod script;
mod stores;

use scheduler_core::{Container, Error, Guard, Launch, Launched, OwnerId, Scheduler as _, Target, Workload};
use scheduler_nomad::{RenderContext, render};
use serde_json::{Value, json};

use script::Script;

pub(crate) fn workload() -> Workload {
    Workload::service("shop", "web").container(Container::new("web", "web:1").memory("64Mi", "64Mi").port("http", 80))
}

pub(crate) fn target() -> Target {
    Target::new("shop", "web").unwrap()
}

/// The job as a server holds it after a launch.
pub(crate) fn stored() -> Value {
    let owner = OwnerId::new("platform").unwrap();
    let job = render(&workload().check().unwrap(), &owner, &RenderContext::new(1)).unwrap().job;
    let mut job = serde_json::to_value(job).unwrap();
    (job["Version"], job["CreateIndex"], job["JobModifyIndex"]) = (3.into(), 7.into(), 12.into());
    job
}

pub(crate) fn source() -> Value {
    json!({"Source": serde_json::to_string(&workload().check().unwrap()).unwrap(), "Format": "json"})
}

pub(crate) fn registered(index: u64) -> Value {
    json!({"EvalID": "e", "JobModifyIndex": index, "Index": index})
}

pub(crate) fn planned(kind: &str, destructive: u64, in_place: u64) -> Value {
    json!({
        "Diff": {"Type": kind},
        "Annotations": {"DesiredTGUpdates": {"web": {"DestructiveUpdate": destructive, "InPlaceUpdate": in_place}}},
    })
}

pub(crate) async fn launch(script: &Script, workload: Workload, guard: Guard) -> Result<Launched, Error> {
    script.scheduler().await.launch(Launch::new(workload.check().unwrap()).guard(guard)).await
}
