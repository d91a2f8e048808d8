use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::{
    access::{Caller, Need},
    answer::{Answer, Body},
    logs,
    post::Post,
    query::{Query, decode},
    read::Look,
    stream,
};
use crate::{
    cluster::{Refusal, State},
    job::JobKey,
    nomad::Hub,
};

/// How long a server looks for a leader before it gives up.
const LEADER: Duration = Duration::from_secs(5);
/// What there is below a job. An ID that ends like this cannot be reached.
const JOB_PARTS: [&str; 18] = [
    "/evaluate",
    "/allocations",
    "/evaluations",
    "/periodic/force",
    "/plan",
    "/summary",
    "/dispatch",
    "/dispatch/payload",
    "/versions",
    "/revert",
    "/deployments",
    "/deployment",
    "/stable",
    "/scale",
    "/services",
    "/submission",
    "/actions",
    "/tag",
];
/// Endpoints that a real agent has and this one does not.
const UNRECORDED: [&str; 12] = [
    "acl",
    "client",
    "jobs/parse",
    "operator",
    "plugins",
    "quotas",
    "recommendation",
    "scaling",
    "search",
    "system",
    "volume",
    "node/pool",
];

/// A request, taken apart.
struct Asked {
    method: Method,
    /// Below `/v1/`, decoded.
    path: String,
    query: Query,
    headers: http::HeaderMap,
    body: Bytes,
}

pub(crate) async fn handle(hub: Arc<Hub>, request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let raw = head.uri.path();
    if let Some(clean) = clean(raw) {
        return Answer::redirect(&clean).into_response();
    }
    let body = match body.collect().await {
        Ok(body) => body.to_bytes(),
        // The client went away while it was sending.
        Err(_) => return Answer::nothing().into_response(),
    };
    let asked = Asked {
        method: head.method,
        path: decode(raw.strip_prefix("/v1/").unwrap_or_default()).into_owned(),
        query: Query::parse(head.uri.query().unwrap_or_default()),
        headers: head.headers,
        body,
    };
    if !raw.starts_with("/v1/") || encoded_slash(raw) {
        return Answer::nothing().into_response();
    }
    if let Some(id) = asked.path.strip_prefix("client/fs/logs/").filter(|_| asked.method == Method::GET) {
        return match logs::open(&hub, id, &asked.query, &asked.headers) {
            Ok(response) => response,
            Err(refusal) => Answer::from(refusal).into_response(),
        };
    }
    if asked.path == "event/stream" {
        return match stream::open(&hub, &asked.method, &asked.query, &asked.headers) {
            Ok(response) => response,
            Err(refusal) => Answer::from(refusal).into_response(),
        };
    }
    answer(&hub, &asked).await.unwrap_or_else(Answer::from).into_response()
}

/// Where a path leads that is not written as the server writes it.
fn clean(raw: &str) -> Option<String> {
    if raw == "/" {
        return Some("/ui/".to_owned());
    }
    if raw == "/v1/job" {
        return Some("/v1/job/".to_owned());
    }
    let dotted = raw.split('/').any(|segment| segment == "." || segment == "..");
    if !raw.contains("//") && !dotted {
        return None;
    }
    let mut kept = Vec::new();
    for segment in raw.split('/').filter(|segment| !segment.is_empty() && *segment != ".") {
        if segment == ".." {
            kept.pop();
        } else {
            kept.push(segment);
        }
    }
    let slash = if raw.ends_with('/') || raw.ends_with("/.") { "/" } else { "" };
    Some(format!("/{}{slash}", kept.join("/")))
}

/// The slash after the first word is never encoded.
fn encoded_slash(raw: &str) -> bool {
    let first = raw.strip_prefix("/v1/").and_then(|rest| rest.split('/').next()).unwrap_or_default();
    first.contains('%')
}

/// Answers, and repeats a blocking query until it has news.
async fn answer(hub: &Hub, asked: &Asked) -> Result<Answer, Refusal> {
    let mut changes = hub.changes();
    let stale = asked.query.stale()?;
    if !stale && needs_leader(&asked.path) {
        let until = hub.now().after(LEADER);
        while !hub.look(|state| state.has_leader) {
            if hub.now() >= until {
                return Err(Refusal::new(500, "No cluster leader"));
            }
            hub.wait(&mut changes, until).await;
        }
    }
    let blocking = asked.query.blocking()?;
    let until = blocking.map(|blocking| hub.now().after(blocking.wait));
    loop {
        let (outcome, leader) = if is_write(asked) {
            hub.change(|state| (dispatch_write(state, asked), state.has_leader))
        } else {
            hub.look(|state| (dispatch_read(state, asked), state.has_leader))
        };
        let outcome = outcome.map(|answer| if leader { answer } else { answer.without_leader() });
        match (&outcome, blocking, until) {
            (Ok(answer), Some(blocking), Some(until))
                if !is_write(asked)
                    && answer.index.is_some_and(|index| index <= blocking.index)
                    && hub.now() < until =>
            {
                hub.wait(&mut changes, until).await;
            }
            _ => return outcome,
        }
    }
}

fn needs_leader(path: &str) -> bool {
    !["agent/self", "agent/members", "regions", "status/peers"].contains(&path) && !path.starts_with("client/")
}

/// Whether a request writes. Some reads do not look at the method.
fn is_write(asked: &Asked) -> bool {
    let writes = matches!(asked.method, Method::PUT | Method::POST | Method::DELETE);
    let job = asked.path.strip_prefix("job/").map(|rest| split_job(rest).1);
    let read_only_part = job.is_some_and(|part| {
        ["summary", "allocations", "evaluations", "deployments", "deployment", "versions"].contains(&part)
    });
    let restarts = asked.path.starts_with("client/allocation/") && asked.path.ends_with("/restart");
    (writes && !read_only_part && asked.path != "jobs/statuses") || restarts
}

/// The ID of a job, and what is asked of it.
fn split_job(rest: &str) -> (&str, &str) {
    let part = JOB_PARTS.into_iter().filter(|part| rest.ends_with(part)).max_by_key(|part| part.len());
    match part.and_then(|part| Some((rest.strip_suffix(part)?, part.strip_prefix('/')?))) {
        Some(split) => split,
        None => (rest, ""),
    }
}

fn wrong_method() -> Result<Answer, Refusal> {
    Err(Refusal::new(405, "Invalid method"))
}

fn dispatch_write(state: &mut State, asked: &Asked) -> Result<Answer, Refusal> {
    let caller = Caller::of(&asked.headers, state);
    let mut post = Post { state, caller: &caller, query: &asked.query, body: &asked.body };
    let delete = asked.method == Method::DELETE;
    let path = asked.path.as_str();
    if let Some(rest) = path.strip_prefix("job/") {
        let (id, part) = split_job(rest);
        return match (part, delete) {
            ("", true) => post.deregister(id),
            ("", false) => post.register(Some(id)),
            ("plan", false) => post.plan(id),
            ("evaluate", false) => post.evaluate(id),
            ("scale", false) => post.scale(id),
            ("scale" | "plan" | "evaluate" | "revert" | "stable", true) => wrong_method(),
            ("revert", false) => post.revert(id),
            ("stable", false) => post.stable(id),
            ("tag", _) => post.tag(id, delete),
            ("dispatch", false) => post.dispatch(id, false),
            ("dispatch/payload", false) => post.dispatch(id, true),
            ("periodic/force", false) => post.force_launch(id),
            (part, _) => {
                caller.need(Need::Write, asked.query.namespace())?;
                Err(Refusal::unrecorded(format!("{} /v1/job/:id/{part}", asked.method)))
            }
        };
    }
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    match (first, rest, delete) {
        ("jobs", "", false) => post.register(None),
        ("jobs", "", true) => wrong_method(),
        ("validate", "job", false) => post.validate(),
        ("namespace", "", false) => post.put_namespace(None),
        ("namespace", name, false) => post.put_namespace(Some(name)),
        ("namespace", name, true) => post.delete_namespace(name),
        ("deployment", rest, false) => post.deployment(rest),
        ("allocation", rest, false) if rest.ends_with("/stop") => {
            post.stop_allocation(rest.strip_suffix("/stop").unwrap_or_default())
        }
        ("client", rest, false) if rest.starts_with("allocation/") => {
            post.client(rest.strip_prefix("allocation/").unwrap_or_default())
        }
        ("client", _, _) => client(post.state, &caller, asked),
        ("system", "gc", false) => {
            caller.need(Need::Management, "")?;
            post.state.collect();
            Ok(Answer::text(200, None, ""))
        }
        ("service", rest, true) => post.delete_service(rest),
        ("var", path, false) => post.put_variable(path),
        ("var", path, true) => post.delete_variable(path),
        ("acl", _, _) if !post.state.acl => Err(Refusal::new(400, "ACL support disabled")),
        _ => other(&caller, path),
    }
}

/// Requests that a server hands on to the client of an allocation.
fn client(state: &State, caller: &Caller, asked: &Asked) -> Result<Answer, Refusal> {
    let rest = asked.path.strip_prefix("client/allocation/").or_else(|| asked.path.strip_prefix("client/fs/logs/"));
    let id = rest.and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let Some(alloc) = state.allocs.get(id).filter(|_| rest.is_some()) else {
        return Err(Refusal::new(404, format!("Unknown allocation {id:?}")));
    };
    // To read a job is not to read its logs.
    let reads = asked.method == Method::GET && !asked.path.starts_with("client/fs/");
    let need = if reads { Need::Read } else { Need::Write };
    caller.need(need, &alloc.job.spec.view.namespace)?;
    Err(Refusal::unrecorded("this request to the client of an allocation"))
}

fn dispatch_read(state: &State, asked: &Asked) -> Result<Answer, Refusal> {
    let caller = Caller::of(&asked.headers, state);
    let look = Look { state, caller: &caller, query: &asked.query };
    let path = asked.path.as_str();
    if asked.query.get("region").is_some_and(|region| region != "global") {
        return Err(Refusal::new(500, "No path to region"));
    }
    if path == "jobs/statuses" {
        if asked.method == Method::GET {
            return Err(Refusal::unrecorded("GET /v1/jobs/statuses that nobody should use (ask with POST)"));
        }
        return look.statuses(&asked_jobs(asked)?);
    }
    if asked.method != Method::GET && ["jobs", "validate/job"].contains(&path) {
        return wrong_method();
    }
    if let Some(rest) = path.strip_prefix("job/") {
        let (id, part) = split_job(rest);
        return match part {
            "plan" | "evaluate" | "revert" | "stable" | "dispatch" | "periodic/force" => wrong_method(),
            part => look.job(id, part),
        };
    }
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    match (first, rest) {
        ("jobs", "") if path == "jobs" => look.jobs(),
        ("validate", "job") => wrong_method(),
        ("evaluations", "") => look.evaluations(false),
        ("evaluations", "count") => look.evaluations(true),
        ("evaluation", rest) => match rest.split_once('/') {
            None => look.evaluation(rest),
            Some((id, "allocations")) => look.allocations_of(|alloc| alloc.eval == id),
            Some(_) => other(&caller, path),
        },
        ("allocations", "") => look.allocations(),
        ("allocation", rest) => match rest.split_once('/') {
            None => look.allocation(rest),
            Some((id, "services")) => look.allocation_services(id),
            Some((_, "stop")) => wrong_method(),
            Some(_) => other(&caller, path),
        },
        ("deployments", "") => look.deployments(),
        ("deployment", rest) => match rest.split_once('/') {
            None => look.deployment(rest),
            Some(("allocations", id)) => look.allocations_of(|alloc| alloc.deployment.as_deref() == Some(id)),
            Some(("promote" | "fail" | "pause" | "allocation-health", _)) => wrong_method(),
            Some(_) => other(&caller, path),
        },
        ("nodes", "") => look.nodes(),
        ("node", id) if !id.is_empty() && !id.contains('/') => {
            caller.need(Need::Management, "")?;
            match state.node(id) {
                None => Ok(Answer::text(404, Some(state.tables.nodes), "node not found")),
                Some(_) => Err(Refusal::unrecorded("GET /v1/node/:id (the recordings cut it down)")),
            }
        }
        ("namespaces", "") => look.namespaces(),
        ("namespace", name) if !name.is_empty() => look.namespace(name),
        ("agent", _) | ("status", _) | ("regions", "") => agent(&look, path),
        ("acl", "token/self") if state.acl => token_self(state, asked),
        ("acl", _) if !state.acl => Err(Refusal::new(400, "ACL support disabled")),
        ("client", _) => client(state, &caller, asked),
        ("system", "gc") => wrong_method(),
        ("services", "") => look.services(),
        ("service", name) if !name.is_empty() => look.service(name),
        ("vars", "") => look.variables(),
        ("var", path) => look.variable(path),
        _ => other(&caller, path),
    }
}

/// The jobs that a request for statuses names.
fn asked_jobs(asked: &Asked) -> Result<Vec<JobKey>, Refusal> {
    let body: Value =
        serde_json::from_slice(&asked.body).map_err(|_| Refusal::unrecorded("a request for statuses of this form"))?;
    let jobs = body["Jobs"].as_array().filter(|jobs| !jobs.is_empty());
    let jobs = jobs.ok_or_else(|| Refusal::new(400, "no jobs in request"))?;
    let text = |job: &Value, key: &str| job[key].as_str().unwrap_or_default().to_owned();
    let namespace = |job: &Value| match text(job, "Namespace") {
        empty if empty.is_empty() => asked.query.namespace().to_owned(),
        namespace => namespace,
    };
    Ok(jobs.iter().map(|job| (namespace(job), text(job, "ID"))).collect())
}

fn agent(look: &Look<'_>, path: &str) -> Result<Answer, Refusal> {
    let member = json!({
        "Name": "node-1.global", "Addr": "127.0.0.1", "Port": 4648, "Status": "alive", "ProtocolMin": 1,
        "ProtocolMax": 5, "ProtocolCur": 2, "DelegateMin": 2, "DelegateMax": 5, "DelegateCur": 4,
        "Tags": {
            "build": "2.0.6-dev", "bootstrap": "1", "dc": "dc1", "expect": "1", "port": "4647", "raft_vsn": "3",
            "region": "global", "revision": "", "role": "nomad", "rpc_addr": "127.0.0.1", "vsn": "1",
            "id": "69331675-a553-10ff-8652-b905cb9312b5",
        },
    });
    let leader = "127.0.0.1:4647";
    Ok(match path {
        "agent/self" => {
            look.caller.need(Need::Management, "")?;
            let version = json!({"Version": "2.0.6", "VersionPrerelease": "dev", "VersionMetadata": "", "Revision": "", "BuildDate": null});
            let config = json!({"Version": version, "Region": "global", "Datacenter": "dc1", "NodeName": "node-1"});
            let known = look.state.has_leader.to_string();
            let stats = json!({"nomad": {
                "server": "true", "leader": known, "leader_addr": leader, "bootstrap": "true", "known_regions": "1",
            }});
            Answer::plain_json(json!({"config": config, "member": member, "stats": stats}))
        }
        "agent/members" => {
            look.caller.need(Need::Management, "")?;
            Answer::plain_json(json!({
                "Members": [member], "ServerDC": "dc1", "ServerName": "node-1", "ServerRegion": "global",
            }))
        }
        "agent/health" => {
            let ok = json!({"ok": true, "message": "ok"});
            let mut health = serde_json::Map::new();
            for kind in ["server", "client"] {
                if look.query.get("type").is_none_or(|wanted| wanted == kind) {
                    health.insert(kind.to_owned(), ok.clone());
                }
            }
            Answer::plain_json(health)
        }
        "status/leader" => Answer::plain_json(leader),
        "status/peers" => Answer::plain_json([leader]),
        "regions" => Answer::plain_json(["global"]),
        _ => return other(look.caller, path),
    })
}

fn token_self(state: &State, asked: &Asked) -> Result<Answer, Refusal> {
    let accessor = Caller::of(&asked.headers, state).accessor;
    let Some(token) = state.tokens.iter().find(|token| token.accessor == accessor) else {
        return Ok(Answer::json(
            0,
            json!({
                "AccessorID": "anonymous", "SecretID": "", "Name": "Anonymous Token", "Type": "client",
                "Policies": ["anonymous"], "Roles": null, "Global": false, "Hash": null, "ExpirationTime": null,
            "ExpirationTTL": "", "CreateTime": "0001-01-01T00:00:00Z", "CreateIndex": 0, "ModifyIndex": 0,
            }),
        ));
    };
    let policies = match &token.access {
        crate::Access::Management => None,
        crate::Access::Write { namespace } => Some(format!("{namespace}-write")),
        crate::Access::Read { namespace } => Some(format!("{namespace}-read")),
        crate::Access::Nothing => Some("nosuch-policy".to_owned()),
    };
    let (kind, name) = if policies.is_some() { ("client", "t") } else { ("management", "Bootstrap Token") };
    Ok(Answer::json(
        token.index,
        json!({
            "AccessorID": token.accessor, "SecretID": token.secret, "Name": name, "Type": kind,
            "Policies": policies.map(|policy| [policy]), "Roles": null, "Global": kind == "management", "Hash": "",
            "ExpirationTime": null, "ExpirationTTL": "", "CreateTime": token.created.to_string(),
            "CreateIndex": token.index, "ModifyIndex": token.index,
        }),
    ))
}

/// An endpoint that is not simulated, or none at all.
fn other(caller: &Caller, path: &str) -> Result<Answer, Refusal> {
    let known = UNRECORDED.into_iter().any(|known| path == known || path.starts_with(known));
    if !known {
        return Ok(Answer::nothing());
    }
    caller.need(Need::Management, "")?;
    Err(Refusal::unrecorded(format!("/v1/{path}")))
}
