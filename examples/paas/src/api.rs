//! The platform over HTTP. What it understands stands in the header of the program.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{FromRequest, Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use axum::{Json, Router};
use futures_util::Stream;
use lifecycle_hooks::outbox::{OutboxFilter, Waiting};
use scheduler_core::hooks::{AppName, EventId};
use scheduler_core::registry;
use scheduler_core::{RunKey, Workload, WorkloadName};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::change::{Change, NewRelease, NewRun};
use crate::platform::Platform;
use crate::refusal::Refusal;
use crate::view::AppView;

type Answer<T> = Result<T, Refusal>;

/// Everything that can be asked.
pub fn router(platform: Arc<Platform>) -> Router {
    Router::new()
        .route("/", get(async || Html(include_str!("page.html"))))
        .route("/apps", get(apps).post(create))
        .route("/apps/{app}", get(app).delete(destroy))
        .route("/apps/{app}/releases", post(release))
        .route("/apps/{app}/rollback", post(roll_back))
        .route("/apps/{app}/formation", put(scale))
        .route("/apps/{app}/domains", post(add_domain))
        .route("/apps/{app}/domains/{host}", delete(remove_domain))
        .route("/apps/{app}/runs", post(run))
        .route("/apps/{app}/restart", post(restart))
        .route("/apps/{app}/events", get(app_events))
        .route("/events", get(events))
        .route("/hooks", get(hooks))
        .route("/outbox", get(outbox))
        .route("/outbox/{event}", delete(drop_event))
        .route("/outbox/{event}/retry", post(retry))
        .fallback(async || Refusal::not_found("there is no such address"))
        .method_not_allowed_fallback(async || {
            let what = "this address does not take that method";
            (StatusCode::METHOD_NOT_ALLOWED, Json(json!({ "error": "method_not_allowed", "message": what })))
        })
        .layer(from_fn(same_site))
        .with_state(platform)
}

/// Nobody has to log in here, so that a page of another site, open in the same browser, must not be able to steer it.
async fn same_site(request: Request, next: Next) -> Response {
    if is_from_elsewhere(request.headers()) {
        let body = json!({ "error": "forbidden", "message": "requests from pages of other sites are refused" });
        return (StatusCode::FORBIDDEN, Json(body)).into_response();
    }
    next.run(request).await
}

/// Browsers say from which page a request comes; other clients do not.
fn is_from_elsewhere(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let site = |origin: &str| origin.split_once("://").map(|(_, site)| site.to_owned());
    text(header::ORIGIN).is_some_and(|origin| site(origin).as_deref() != text(header::HOST))
}

async fn apps(State(platform): State<Arc<Platform>>) -> Answer<Json<Vec<AppView>>> {
    Ok(Json(platform.apps().await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewApp {
    name: String,
}

async fn create(State(platform): State<Arc<Platform>>, Body(new): Body<NewApp>) -> Answer<Response> {
    let name = AppName::new(new.name).map_err(|error| Refusal::fault("name", error.to_string()))?;
    let view = platform.change(&name, &Change::Create).await?;
    Ok((StatusCode::CREATED, [(header::LOCATION, format!("/apps/{name}"))], Json(view)).into_response())
}

async fn app(State(platform): State<Arc<Platform>>, Path(app): Path<String>) -> Answer<Json<Value>> {
    Ok(Json(platform.details(&named(app)?).await?))
}

async fn destroy(State(platform): State<Arc<Platform>>, Path(app): Path<String>) -> Answer<Response> {
    change(&platform, app, Change::Destroy).await
}

/// An image, or processes, as JSON; or a workload file as it is.
async fn release(
    State(platform): State<Arc<Platform>>,
    Path(app): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Answer<Response> {
    let new = match content_type(&headers) {
        "application/yaml" => {
            let refuse = |problem: String| Refusal::invalid(format!("the workload file: {problem}"), Vec::new());
            let text = std::str::from_utf8(&body).map_err(|error| refuse(error.to_string()))?;
            let process: Workload = serde_saphyr::from_str(text).map_err(|error| refuse(error.to_string()))?;
            NewRelease { processes: vec![process], ..NewRelease::default() }
        }
        "application/json" => read_json(&body)?,
        _ => return Err(unreadable_kind()),
    };
    change(&platform, app, Change::Release(new)).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RollBack {
    to: Option<u64>,
}

async fn roll_back(
    State(platform): State<Arc<Platform>>,
    Path(app): Path<String>,
    Body(body): Body<RollBack>,
) -> Answer<Response> {
    change(&platform, app, Change::RollBack(body.to)).await
}

async fn scale(
    State(platform): State<Arc<Platform>>,
    Path(app): Path<String>,
    Body(counts): Body<BTreeMap<WorkloadName, u32>>,
) -> Answer<Response> {
    change(&platform, app, Change::Scale(counts)).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewDomain {
    host: String,
}

async fn add_domain(
    State(platform): State<Arc<Platform>>,
    Path(app): Path<String>,
    Body(new): Body<NewDomain>,
) -> Answer<Response> {
    change(&platform, app, Change::AddDomain(new.host)).await
}

async fn remove_domain(
    State(platform): State<Arc<Platform>>,
    Path((app, host)): Path<(String, String)>,
) -> Answer<Response> {
    change(&platform, app, Change::RemoveDomain(host)).await
}

async fn run(
    State(platform): State<Arc<Platform>>,
    Path(app): Path<String>,
    Body(new): Body<NewRun>,
) -> Answer<Response> {
    let key = match &new.key {
        Some(key) => key.clone(),
        None => RunKey::new(platform.new_id().await?).map_err(|error| Refusal::fault("key", error.to_string()))?,
    };
    change(&platform, app, Change::Run(key, new)).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Restart {
    process: Option<WorkloadName>,
}

async fn restart(
    State(platform): State<Arc<Platform>>,
    Path(app): Path<String>,
    Body(body): Body<Restart>,
) -> Answer<Response> {
    change(&platform, app, Change::Restart(body.process)).await
}

/// Committed, and on its way to the hooks.
async fn change(platform: &Platform, app: String, change: Change) -> Answer<Response> {
    let view = platform.change(&named(app)?, &change).await?;
    Ok((StatusCode::ACCEPTED, Json(view)).into_response())
}

async fn app_events(
    State(platform): State<Arc<Platform>>,
    Path(app): Path<String>,
    headers: HeaderMap,
) -> Answer<Sse<impl Stream<Item = Result<Sent, Infallible>>>> {
    let app = named(app)?;
    platform.app(&app).await?;
    Ok(follow(&platform, Some(app), &headers))
}

async fn events(
    State(platform): State<Arc<Platform>>,
    headers: HeaderMap,
) -> Sse<impl Stream<Item = Result<Sent, Infallible>>> {
    follow(&platform, None, &headers)
}

fn follow(
    platform: &Arc<Platform>,
    app: Option<AppName>,
    headers: &HeaderMap,
) -> Sse<impl Stream<Item = Result<Sent, Infallible>> + use<>> {
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let (platform, of) = (Arc::clone(platform), app.clone());
    let feed = Arc::clone(&platform.feed);
    let snapshot = move || {
        let (platform, of) = (Arc::clone(&platform), of.clone());
        async move { platform.snapshot(of.as_ref()).await }
    };
    Sse::new(feed.follow(app, last, snapshot)).keep_alive(KeepAlive::default())
}

async fn hooks(State(platform): State<Arc<Platform>>) -> Json<Value> {
    Json(platform.supports())
}

async fn outbox(State(platform): State<Arc<Platform>>) -> Answer<Json<Vec<Waiting>>> {
    Ok(Json(platform.waiting(&OutboxFilter::default()).await?))
}

async fn retry(State(platform): State<Arc<Platform>>, Path(event): Path<String>) -> Answer<Response> {
    platform.retry(&EventId::new(event)).await?;
    Ok(StatusCode::ACCEPTED.into_response())
}

async fn drop_event(State(platform): State<Arc<Platform>>, Path(event): Path<String>) -> Answer<Response> {
    platform.drop_event(&EventId::new(event)).await?;
    Ok(StatusCode::ACCEPTED.into_response())
}

/// A name that is none is no app's.
fn named(app: String) -> Answer<AppName> {
    AppName::new(app).map_err(|error| Refusal::not_found(error.to_string()))
}

/// A JSON body. Its faults are told with their paths, as those of a workload are.
struct Body<T>(T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let kind = content_type(request.headers()).to_owned();
        let body = Bytes::from_request(request, state).await;
        let body = body.map_err(|error| Refusal::invalid(error.body_text(), Vec::new()))?;
        if kind == "application/json" { read_json(&body).map(Self) } else { Err(unreadable_kind()) }
    }
}

fn content_type(headers: &HeaderMap) -> &str {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim()
}

fn unreadable_kind() -> Refusal {
    Refusal::invalid(
        "the content type of the body is neither application/json nor, for a release, application/yaml",
        Vec::new(),
    )
}

fn read_json<T: DeserializeOwned>(body: &[u8]) -> Answer<T> {
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| Refusal::invalid(format!("the body is not JSON: {error}"), Vec::new()))?;
    registry::parse(value).map_err(|error| Refusal::invalid("the body has a fault", error.causes().to_vec()))
}
