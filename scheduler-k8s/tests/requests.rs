//! What the interpreter sends and what it makes of the answers, against a scripted server.
#![expect(clippy::unwrap_used, reason = "this is a test, which clippy cannot tell in its helpers")]

#[path = "requests/routes.rs"]
mod routes;

use std::collections::{BTreeMap, VecDeque};
use std::future::{Ready, ready};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Collected, Full};
use scheduler_core::{
    Change, Conflict, Container, Delete, Deleted, Effect, Error, ErrorKind, Guard, Launch, Missing, OwnerId, Retry,
    Scheduler as _, Status, Target, Version, Workload,
};
use scheduler_k8s::client::Client;
use scheduler_k8s::client::kube::{self, client::Body};
use scheduler_k8s::{KubernetesScheduler, RenderContext, render};
use serde_json::{Value, json};
use tower::{BoxError, Service};

/// A server that answers what it is told, for each method and kind in order, and remembers what it was asked. Of what it was
/// told nothing there is nothing.
#[derive(Clone, Default)]
struct Script(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    answers: BTreeMap<String, VecDeque<Response<Full<Bytes>>>>,
    asked: Vec<String>,
    sent: Vec<Value>,
}

impl Script {
    /// To a request such as `GET deployments`; `LIST` is a GET of many.
    fn answer(self, to: &str, code: u16, body: &Value) -> Self {
        self.answer_with(to, code, &[("content-type", "application/json")], &body.to_string())
    }

    fn answer_with(self, to: &str, code: u16, headers: &[(&str, &str)], body: &str) -> Self {
        let mut response = Response::builder().status(code);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        let response = response.body(Full::from(body.to_owned())).unwrap();
        self.0.lock().unwrap().answers.entry(to.to_owned()).or_default().push_back(response);
        self
    }

    fn scheduler(&self) -> KubernetesScheduler {
        let client = Client::new(kube::Client::new(self.clone(), "default"));
        KubernetesScheduler::new(client, OwnerId::new("platform").unwrap())
    }

    /// What was asked; everything that was to be answered must have been asked for.
    fn asked(&self) -> Vec<String> {
        let state = self.0.lock().unwrap();
        let left: Vec<_> = state.answers.iter().filter(|(_, answers)| !answers.is_empty()).map(|(to, _)| to).collect();
        assert_eq!(left, [""; 0], "answers that nobody asked for, after {:?}", state.asked);
        state.asked.clone()
    }

    /// What was sent with each request; null where nothing was.
    fn sent(&self) -> Vec<Value> {
        self.0.lock().unwrap().sent.clone()
    }
}

impl Service<Request<Body>> for Script {
    type Response = Response<Full<Bytes>>;
    type Error = BoxError;
    type Future = Ready<Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let mut state = self.0.lock().unwrap();
        let (request, body) = request.into_parts();
        // The client has the body whole, so that nothing is waited for.
        let body = body.collect().now_or_never().and_then(Result::ok).map(Collected::to_bytes).unwrap_or_default();
        state.sent.push(serde_json::from_slice(&body).unwrap_or_default());
        let parts: Vec<&str> = request.uri.path().split('/').collect();
        // …/namespaces/shop/<kind>[/<name>], and nothing else is asked for here.
        let at = parts.iter().position(|part| *part == "namespaces").map_or(parts.len() - 1, |at| at + 2);
        let many = parts.len() == at + 1;
        let method = if many { "LIST" } else { request.method.as_str() };
        let asked = format!("{method} {}", parts[at]);
        state.asked.push(asked.clone());
        let answer = state.answers.get_mut(&asked).and_then(VecDeque::pop_front).or_else(|| {
            let (code, body) = match method {
                "LIST" => (200, json!({"items": [], "metadata": {}})),
                "GET" => (404, status(404, "NotFound", parts[at], parts[at + 1])),
                _ => return None,
            };
            let response = Response::builder().status(code).header("content-type", "application/json");
            Some(response.body(Full::from(body.to_string())).unwrap())
        });
        ready(answer.ok_or_else(|| format!("the script has no answer to {asked}").into()))
    }
}

fn workload() -> Workload {
    Workload::service("shop", "web").container(Container::new("web", "web:1").port("http", 80))
}

fn target() -> Target {
    Target::new("shop", "web").unwrap()
}

/// The Deployment as a server holds it after a launch.
fn stored() -> Value {
    let objects = render(&workload().check().unwrap(), &OwnerId::new("platform").unwrap(), &RenderContext::new(1));
    let mut deployment = objects.unwrap().main;
    deployment["metadata"]["uid"] = "d".into();
    deployment["metadata"]["generation"] = 1.into();
    deployment["metadata"]["resourceVersion"] = "10".into();
    deployment
}

fn stored_service() -> Value {
    let objects = render(&workload().check().unwrap(), &OwnerId::new("platform").unwrap(), &RenderContext::new(1));
    let mut service = objects.unwrap().service_of("d").unwrap();
    service["metadata"]["uid"] = "s".into();
    service["metadata"]["resourceVersion"] = "11".into();
    service
}

/// Its history, as a server lists it.
fn stored_history() -> Value {
    let workload = workload().check().unwrap();
    let name = format!("web.{}", workload.revision().as_str().trim_start_matches("v1:"));
    json!({"metadata": {}, "items": [{
        "metadata": {
            "name": name, "namespace": "shop", "uid": "r", "resourceVersion": "12",
            "labels": {"scheduler/owner": "platform", "scheduler/history": "web"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d"}],
        },
        "revision": 1,
        "data": {"workload": serde_json::to_value(&workload).unwrap()},
    }]})
}

/// A server that holds what a launch made, but for the Deployment, which is this one.
fn launched(deployment: &Value) -> Script {
    Script::default().answer("GET deployments", 200, deployment).answer("GET services", 200, &stored_service()).answer(
        "LIST controllerrevisions",
        200,
        &stored_history(),
    )
}

fn with(mut object: Value, pointer: &str, value: impl Into<Value>) -> Value {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[field] = value.into();
    object
}

fn status(code: u16, reason: &str, kind: &str, name: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": "the server's words", "details": {"kind": kind, "name": name},
    })
}

fn absent(kind: &str) -> Value {
    status(404, "NotFound", kind, "web")
}

async fn launch(script: &Script, guard: Guard) -> Result<scheduler_core::Launched, Error> {
    script.scheduler().launch(Launch::new(workload().check().unwrap()).guard(guard)).await
}

#[tokio::test]
async fn what_cannot_be_rendered_or_is_not_supported_is_refused_before_anything_is_sent() {
    let kubernetes = scheduler_core::BackendName::kubernetes();
    let odd = workload().extension(&kubernetes, json!({"pods": {}})).check().unwrap();
    let canary = workload().update(scheduler_core::Update::Canary(scheduler_core::Canary::new(1))).check().unwrap();
    for (workload, kind) in
        [(odd, ErrorKind::InvalidArgument), (canary, ErrorKind::Unsupported(Some(scheduler_core::Feature::Canaries)))]
    {
        let script = Script::default();
        let error = script.scheduler().launch(Launch::new(workload)).await.unwrap_err();
        assert_eq!((error.kind(), error.target()), (&kind, Some(&target())));
        assert_eq!(script.asked(), Vec::<String>::new());
    }
    let script = Script::default();
    let deleted = script.scheduler().delete(Delete::new(target()).guard(Guard::IfAbsent)).await.unwrap_err();
    assert_eq!((deleted.kind(), script.asked()), (&ErrorKind::InvalidArgument, vec![]));
}

#[tokio::test]
async fn a_known_version_decides_about_sidecars_and_jobs() {
    use scheduler_core::Feature;
    let has = |scheduler: KubernetesScheduler| {
        [Feature::Sidecars, Feature::Jobs].map(|feature| scheduler.capabilities().has(feature))
    };
    let script = Script::default();
    assert_eq!(has(script.scheduler()), [true; 2]);
    assert_eq!(has(script.scheduler().for_version(1, 28)), [false; 2]);
    assert_eq!(has(script.scheduler().for_version(1, 29)), [true; 2]);
    assert_eq!(has(script.scheduler().for_version(2, 0)), [true; 2]);
}

#[tokio::test]
async fn unchanged_takes_three_reads() {
    let script = launched(&stored());
    assert_eq!(launch(&script, Guard::IfOwned).await.unwrap().change, Change::Unchanged);
    assert_eq!(script.asked(), ["GET deployments", "GET services", "LIST controllerrevisions"]);
}

/// What a launch that was cut off before its last write left.
#[tokio::test]
async fn a_missing_entry_of_the_history_is_made_good() {
    let script = Script::default()
        .answer("GET deployments", 200, &stored())
        .answer("GET services", 200, &stored_service())
        .answer("PATCH controllerrevisions", 201, &stored_history()["items"][0]);
    assert_eq!(launch(&script, Guard::IfOwned).await.unwrap().change, Change::Updated(Effect::InPlace));
    script.asked();
}

/// A status update moved the resourceVersion: nobody's change.
#[tokio::test]
async fn a_conflict_without_a_change_is_repeated() {
    let old = with(stored(), "/spec/minReadySeconds", 9);
    let conflict = status(409, "Conflict", "deployments", "web");
    let script = launched(&old)
        .answer("PATCH deployments", 409, &conflict)
        .answer("GET deployments", 200, &with(old.clone(), "/metadata/resourceVersion", "12"))
        .answer("PATCH deployments", 409, &conflict)
        .answer("GET deployments", 200, &with(old, "/metadata/resourceVersion", "13"))
        .answer("PATCH deployments", 200, &with(stored(), "/metadata/resourceVersion", "14"));
    assert_eq!(launch(&script, Guard::IfOwned).await.unwrap().change, Change::Updated(Effect::InPlace));
    let asked = script.asked();
    assert_eq!(asked.iter().filter(|asked| *asked == "PATCH deployments").count(), 3);
    assert_eq!(asked.len(), 8);
}

#[tokio::test]
async fn conflicts_without_end_are_given_up() {
    let old = with(stored(), "/spec/minReadySeconds", 9);
    let mut script = launched(&old);
    for attempt in 1..=5 {
        script = script.answer("PATCH deployments", 409, &status(409, "Conflict", "deployments", "web"));
        if attempt < 5 {
            script = script.answer("GET deployments", 200, &old);
        }
    }
    let error = launch(&script, Guard::IfOwned).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Conflict(Conflict::Moved { .. })), "{error}");
    assert_eq!(error.retry(), Retry::AfterReread);
    script.asked();
}

#[tokio::test]
async fn a_conflict_with_a_change_is_told_with_the_version_now() {
    let old = with(stored(), "/spec/minReadySeconds", 9);
    let script = launched(&old)
        .answer("PATCH deployments", 409, &status(409, "Conflict", "deployments", "web"))
        .answer("GET deployments", 200, &with(old, "/metadata/generation", 2));
    let error = launch(&script, Guard::IfOwned).await.unwrap_err();
    let ErrorKind::Conflict(Conflict::Moved { now: Some(now) }) = error.kind() else { panic!("{error}") };
    assert!(now.as_str().starts_with("d.2."), "{now}");
    script.asked();
}

/// BR-09: somebody made it between our look and our apply; who decides what that means is the guard.
#[tokio::test]
async fn a_lost_race_to_create_is_decided_by_the_guard() {
    let race = |now: Value| {
        Script::default()
            .answer("GET deployments", 404, &absent("deployments"))
            .answer("PATCH deployments", 409, &status(409, "Conflict", "deployments", "web"))
            .answer("GET deployments", 200, &now)
    };
    let script = race(stored()).answer("PATCH services", 201, &stored_service()).answer(
        "PATCH controllerrevisions",
        201,
        &stored_history()["items"][0],
    );
    assert!(launch(&script, Guard::IfOwned).await.is_ok(), "ours");
    script.asked();
    let script = race(stored());
    let error = launch(&script, Guard::IfAbsent).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::AlreadyExists { owner: Some(_) }), "{error}");
    let script = race(with(stored(), "/metadata/labels", json!({})));
    let error = launch(&script, Guard::IfOwned).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Conflict(Conflict::Owner { owner: None }));
    // BR-37
    let script = race(with(stored(), "/metadata/deletionTimestamp", "2026-01-01T00:00:00Z"));
    let error = launch(&script, Guard::IfOwned).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (&ErrorKind::Conflict(Conflict::Deleting), Retry::AfterReread));
}

/// The claims are moved, and the apply after that has to be repeated: the warning is not lost.
#[tokio::test]
async fn what_was_taken_over_is_told_although_the_apply_is_repeated() {
    let variable = r#"k:{"name":"B"}"#;
    let env = json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {r#"k:{"name":"web"}"#: {"f:env": {variable: {".": {}}}}}}}}});
    let theirs = json!([{"manager": "kubectl-set", "operation": "Update", "fieldsV1": env}]);
    let ours = json!([{"manager": "scheduler", "operation": "Apply", "fieldsV1": env}]);
    let mut old = with(stored(), "/spec/template/spec/containers/0/image", "web:0");
    old["spec"]["template"]["spec"]["containers"][0]["env"] = json!([{"name": "B", "value": "2"}]);
    let claimed = with(old.clone(), "/metadata/managedFields", theirs);
    let moved = with(old, "/metadata/managedFields", ours);
    let script = launched(&claimed)
        .answer("PATCH deployments", 200, &with(moved.clone(), "/metadata/resourceVersion", "12"))
        .answer("PATCH deployments", 409, &status(409, "Conflict", "deployments", "web"))
        .answer("GET deployments", 200, &with(moved, "/metadata/resourceVersion", "13"))
        .answer("PATCH deployments", 200, &with(stored(), "/metadata/resourceVersion", "14"))
        .answer("PATCH controllerrevisions", 201, &stored_history()["items"][0]);
    let mut named = workload();
    named.containers[0] = named.containers[0].clone().env("A", "1");
    let launched = script.scheduler().launch(Launch::new(named.check().unwrap())).await.unwrap();
    assert_eq!(launched.warnings, ["took over fields of the Deployment from kubectl-set"]);
    script.asked();
}

/// BR-111: an admission hook that rewrites what we set, each time.
#[tokio::test]
async fn what_a_hook_undoes_is_no_change() {
    let rewritten = with(stored(), "/spec/template/spec/containers/0/image", "mirror.example/web:1");
    let script = launched(&rewritten).answer("PATCH deployments", 200, &rewritten);
    assert_eq!(launch(&script, Guard::IfOwned).await.unwrap().change, Change::Unchanged);
    script.asked();
}

#[tokio::test]
async fn the_server_s_warnings_reach_the_reply() {
    let warning = [("content-type", "application/json"), ("warning", "299 - \"this field is deprecated\"")];
    let script = Script::default()
        .answer_with("PATCH deployments", 201, &warning, &stored().to_string())
        .answer("PATCH services", 201, &stored_service())
        .answer("PATCH controllerrevisions", 201, &stored_history()["items"][0]);
    assert_eq!(launch(&script, Guard::IfOwned).await.unwrap().warnings, ["this field is deprecated"]);
}

#[tokio::test]
async fn a_delete_that_moved_meanwhile_is_decided_anew() {
    let version = launch(&launched(&stored()), Guard::IfOwned).await.unwrap().version;
    let script = Script::default()
        .answer("GET deployments", 200, &stored())
        .answer("DELETE deployments", 409, &status(409, "Conflict", "deployments", "web"))
        .answer("GET deployments", 200, &with(stored(), "/metadata/generation", 2));
    let error = script.scheduler().delete(Delete::new(target()).guard(Guard::IfVersion(version))).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Conflict(Conflict::Moved { now: Some(_) })), "{error}");
    assert_eq!(script.asked().iter().filter(|asked| asked.starts_with("DELETE")).count(), 1);
    let script = Script::default();
    let guard = Guard::IfVersion(Version::new("x"));
    let error = script.scheduler().delete(Delete::new(target()).guard(guard)).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Conflict(Conflict::Absent));
}

/// BR-77: a foreground deletion waits for what the schedule started, which may wait for somebody in its turn.
#[tokio::test]
async fn a_schedule_that_waits_for_what_it_started_names_it() {
    let periodic = Workload::periodic("shop", "web", "0 3 * * *").container(Container::new("web", "web:1"));
    let owner = OwnerId::new("platform").unwrap();
    let mut schedule = render(&periodic.check().unwrap(), &owner, &RenderContext::new(1)).unwrap().main;
    let meta = json!({"uid": "c", "resourceVersion": "10", "deletionTimestamp": "2026-01-01T00:00:00Z"});
    schedule["metadata"].as_object_mut().unwrap().extend(meta.as_object().unwrap().clone());
    schedule["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    let child = json!({"metadata": {
        "name": "web-1", "namespace": "shop", "uid": "j", "resourceVersion": "11", "finalizers": ["example.com/audit"],
        "labels": schedule["metadata"]["labels"],
        "ownerReferences": [{
            "apiVersion": "batch/v1beta1", "kind": "CronJob", "name": "web", "uid": "c", "controller": true,
            "blockOwnerDeletion": true,
        }],
    }});
    let script = Script::default().answer("GET cronjobs", 200, &schedule).answer(
        "LIST jobs",
        200,
        &json!({"metadata": {}, "items": [child]}),
    );
    let deleted = script.scheduler().delete(Delete::new(target())).await.unwrap();
    let Deleted::Deleting { remaining, blocked_by } = deleted else { panic!("{deleted:?}") };
    assert_eq!(remaining, ["CronJob/web", "Job/web-1"]);
    assert_eq!(blocked_by, ["Job/web-1: finalizer example.com/audit"]);
}

/// The first read of a status meets this answer.
async fn refused_read(code: u16, headers: &[(&str, &str)], body: &str) -> Error {
    let script = Script::default().answer_with("GET deployments", code, headers, body);
    script.scheduler().status(Status::new(target(), Default::default())).await.unwrap_err()
}

/// The first write of a launch meets this answer.
async fn refused_write(code: u16, headers: &[(&str, &str)], body: &str) -> Error {
    let script = Script::default().answer_with("PATCH deployments", code, headers, body);
    launch(&script, Guard::IfOwned).await.unwrap_err()
}

#[tokio::test]
async fn answers_become_kinds() {
    const JSON: &[(&str, &str)] = &[("content-type", "application/json")];
    let of = |code, reason| status(code, reason, "deployments", "web").to_string();
    for (code, body, read, write) in [
        (400, of(400, "BadRequest"), ErrorKind::InvalidArgument, ErrorKind::InvalidArgument),
        (401, of(401, "Unauthorized"), ErrorKind::Unauthenticated, ErrorKind::Unauthenticated),
        (403, of(403, "Forbidden"), ErrorKind::Forbidden, ErrorKind::Forbidden),
        // BR-103: the reading that claims less.
        (403, of(403, "NotFound"), ErrorKind::Forbidden, ErrorKind::Forbidden),
        (429, of(429, "TooManyRequests"), ErrorKind::RateLimited, ErrorKind::RateLimited),
        (500, of(500, "InternalError"), ErrorKind::Unavailable, ErrorKind::OutcomeUnknown),
        (503, of(503, "ServiceUnavailable"), ErrorKind::Unavailable, ErrorKind::OutcomeUnknown),
        (504, of(504, "Timeout"), ErrorKind::Unavailable, ErrorKind::OutcomeUnknown),
        (
            404,
            "404 page not found".to_owned(),
            ErrorKind::NotFound(Missing::Interface),
            ErrorKind::NotFound(Missing::Interface),
        ),
        (200, "{\"kind\": \"Deplo".to_owned(), ErrorKind::BadAnswer, ErrorKind::BadAnswer),
    ] {
        let error = refused_read(code, JSON, &body).await;
        assert_eq!(*error.kind(), read, "read {code} {body}: {error}");
        assert_eq!(error.target(), Some(&target()));
        let error = refused_write(code, JSON, &body).await;
        assert_eq!(*error.kind(), write, "write {code} {body}: {error}");
    }
    let missing = status(404, "NotFound", "namespaces", "shop").to_string();
    assert_eq!(*refused_write(404, JSON, &missing).await.kind(), ErrorKind::NotFound(Missing::Namespace));
    let html = refused_write(502, &[("content-type", "text/html")], "<html>secret</html>").await;
    assert!(!html.to_string().contains("secret") && !format!("{html:?}").contains("secret"), "{html}");
}

#[tokio::test]
async fn errors_say_what_was_tried_on_what_and_what_the_server_said() {
    const JSON: &[(&str, &str)] = &[("content-type", "application/json")];
    let error = refused_write(403, JSON, &status(403, "Forbidden", "deployments", "web").to_string()).await;
    assert_eq!(
        error.to_string(),
        "launch shop/web on kubernetes: not allowed: patch deployments.apps shop/web: the server's words \
         [403 Forbidden]; grant this right to the credentials in use"
    );
}

#[tokio::test]
async fn the_time_to_wait_is_handed_on() {
    let body = status(429, "TooManyRequests", "deployments", "web").to_string();
    let error = refused_read(429, &[("content-type", "application/json"), ("retry-after", "7")], &body).await;
    assert_eq!((error.retry_after(), error.retry()), (Some(Duration::from_secs(7)), Retry::SameRequest));
}

#[tokio::test]
async fn fields_that_the_server_refuses_are_ours() {
    let mut body = status(422, "Invalid", "deployments", "web");
    body["details"]["causes"] = json!([
        {"field": "spec.template.spec.containers[0].image", "reason": "FieldValueRequired", "message": "Required value"},
        {"field": "spec.replicas", "reason": "FieldValueInvalid", "message": "Invalid value"},
    ]);
    let error = refused_write(422, &[("content-type", "application/json")], &body.to_string()).await;
    assert_eq!(*error.kind(), ErrorKind::InvalidArgument);
    let causes: Vec<_> = error.causes().iter().map(|cause| (cause.path.as_str(), cause.problem.as_str())).collect();
    assert_eq!(causes, [("containers[0].image", "Required value"), ("kind.service.replicas", "Invalid value")]);
}

#[tokio::test]
async fn a_terminating_namespace_is_a_conflict() {
    let mut body = status(403, "Forbidden", "deployments", "web");
    body["details"]["causes"] =
        json!([{"reason": "NamespaceTerminating", "message": "", "field": "metadata.namespace"}]);
    let error = refused_write(403, &[("content-type", "application/json")], &body.to_string()).await;
    assert_eq!((error.kind(), error.retry()), (&ErrorKind::Conflict(Conflict::Deleting), Retry::AfterReread));
}

/// An answer that was lost after the effect: the key finds the run that there is.
#[tokio::test]
async fn a_run_whose_answer_was_lost_is_found_again() {
    let job = Workload::job("shop", "migrate").container(Container::new("migrate", "migrate:1")).check().unwrap();
    let run = scheduler_core::Run::one_off(job, scheduler_core::RunKey::new("7").unwrap());
    let there = |owner: &str| json!({"metadata": {"name": "x", "labels": {"scheduler/owner": owner}}});
    let race = |there: Value| {
        Script::default()
            .answer("PATCH jobs", 409, &status(409, "AlreadyExists", "jobs", "x"))
            .answer("GET jobs", 200, &there)
    };
    let script = race(there("platform"));
    assert!(!script.scheduler().run(run.clone()).await.unwrap().created);
    assert_eq!(script.asked(), ["PATCH jobs", "GET jobs"]);
    let error = race(there("other")).scheduler().run(run.clone()).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Conflict(Conflict::Owner { .. })), "{error}");
    let ending = with(there("platform"), "/metadata/deletionTimestamp", "2026-01-01T00:00:00Z");
    let error = race(ending).scheduler().run(run).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Conflict(Conflict::Deleting));
}

/// BR-53 and the like: the count is absolute, so it may be sent again.
#[tokio::test]
async fn a_scale_that_lost_a_race_looks_again() {
    let scale = json!({"metadata": {"uid": "d", "resourceVersion": "14"}, "spec": {"replicas": 3}});
    let script = Script::default()
        .answer("GET deployments", 200, &stored())
        .answer("PATCH deployments", 409, &status(409, "Conflict", "deployments", "web"))
        .answer("GET deployments", 200, &with(stored(), "/metadata/resourceVersion", "13"))
        .answer("PATCH deployments", 200, &scale);
    let scaled = script.scheduler().scale(scheduler_core::Scale::new(target(), 3)).await.unwrap();
    assert_eq!((scaled.from, scaled.to), (1, 3));
    assert!(scaled.version.as_str().starts_with("d.2."), "{}", scaled.version);
    script.asked();
}

/// What cannot be had is said, and hides no other instance.
#[tokio::test]
async fn logs_that_cannot_be_had_are_a_gap() {
    use futures_util::StreamExt as _;
    use scheduler_core::{LogItem, Logs};
    let owned = |kind: &str, uid: &str| json!([{"kind": kind, "uid": uid, "controller": true}]);
    let pod = |name: &str| {
        json!({
            "metadata": {"name": name, "uid": name, "ownerReferences": owned("ReplicaSet", "rs")},
            "spec": {"containers": [{"name": "web"}]},
            "status": {"containerStatuses": [{"name": "web", "restartCount": 0, "state": {"running": {}}}]},
        })
    };
    let set = json!({"metadata": {"name": "web-1", "uid": "rs", "ownerReferences": owned("Deployment", "d")}});
    let script = Script::default()
        .answer("GET deployments", 200, &stored())
        .answer("LIST replicasets", 200, &json!({"metadata": {}, "items": [set]}))
        .answer("LIST pods", 200, &json!({"metadata": {}, "items": [pod("a"), pod("b")]}))
        .answer_with("GET pods", 500, &[("content-type", "text/plain")], "dial tcp: no route to host")
        .answer_with("GET pods", 200, &[], "2026-01-01T00:00:00.5Z hello\n");
    let items: Vec<_> = script.scheduler().logs(Logs::new(target())).map(Result::unwrap).collect().await;
    let kinds: Vec<_> = items.iter().map(|item| matches!(item, LogItem::Gap { .. })).collect();
    assert_eq!(kinds, [true, false], "{items:?}");
    let LogItem::Line(line) = &items[1] else { panic!("{items:?}") };
    assert_eq!((line.instance.as_str(), line.text.as_str()), ("b", "hello"));
    assert_eq!(line.time.map(|time| time.to_string()), Some("2026-01-01T00:00:00.500Z".to_owned()));
    script.asked();
}
