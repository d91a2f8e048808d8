//! The one table that turns Nomad's sentences into kinds.
//!
//! Nomad answers most refusals with 500 and a sentence in plain text, and has no codes of its own. The sentences below
//! were recorded from 2.0.6 or are known from older releases; every recorded refusal is tested against them. The first
//! row that fits counts. A sentence that no row knows claims nothing: with 500 it is [`ErrorKind::ServerError`], of which
//! nobody can say whether it took effect.

use crate::error::{Effect, ErrorKind as Kind, Missing, Operation, Verb};

use Shape::{Contains, Ends, Is, StartEnd, Starts};

/// How a sentence is recognised.
enum Shape {
    Is(&'static str),
    Starts(&'static str),
    Ends(&'static str),
    Contains(&'static str),
    StartEnd(&'static str, &'static str),
}

/// With 400, which otherwise means that the request makes no sense.
const BAD_REQUEST: &[(Shape, Kind)] = &[
    (Is("job scaling blocked due to active deployment"), Kind::DeploymentActive),
    (Is("ACL support disabled"), Kind::Disabled),
    (Starts("ACL bootstrap already done"), Kind::Precondition),
    (Starts("Client sent an HTTP request to an HTTPS server"), Kind::Tls),
];

/// With 403, 404 and 500: which of them it is differs between releases.
const REFUSED: &[(Shape, Kind)] = &[
    // The check index of register and scale. The first is what create-only meets.
    (Is("Enforcing job modify index 0: job already exists"), Kind::AlreadyExists),
    (Starts("Enforcing job modify index "), Kind::Conflict),
    // The version check of revert, and tags.
    (Starts("Current job has version "), Kind::Conflict),
    (Contains(" already exists on a different version of job "), Kind::AlreadyExists),
    // Several faults come as one list. What is not about the job's content stands first.
    (StartEnd("1 error occurred:\n\t* Task group ", " healthy allocations"), Kind::Precondition),
    (Contains("\" has non-terminal "), Kind::Precondition),
    (Contains(" associated with it in regions: "), Kind::Precondition),
    (Contains(" is in nonexistent namespace "), Kind::NotFound(Missing::Namespace)),
    (Starts("1 error occurred:\n\t* 1 error occurred:\n\t* Invalid time zone \""), Kind::NotFound(Missing::TimeZone)),
    (Contains(" error occurred:"), Kind::Invalid),
    (Contains(" errors occurred:"), Kind::Invalid),
    // Other faults of the content.
    (Starts("cannot update job from type "), Kind::Invalid),
    (Starts("cannot update periodic job to being "), Kind::Invalid),
    (Starts("cannot update non-periodic job to being "), Kind::Invalid),
    (Starts("cannot update parameterized job to being "), Kind::Invalid),
    (Starts("cannot update non-parameterized job to being "), Kind::Invalid),
    (Starts("total count was greater than "), Kind::Invalid),
    (Starts("Dispatch did not provide required meta keys"), Kind::Invalid),
    (Starts("Dispatch request included unpermitted metadata keys"), Kind::Invalid),
    (Starts("Payload exceeds maximum size"), Kind::Invalid),
    (Is("Payload provided but forbidden by parameterized job"), Kind::Invalid),
    (Is("Payload is not provided but required by parameterized job"), Kind::Invalid),
    (Starts("must specify at least one "), Kind::Invalid),
    (Is("task name cannot be set when restarting all tasks"), Kind::Invalid),
    (Contains("index error: "), Kind::Invalid),
    // Who we are. An unknown token is "not found" before 1.10.1 (hashicorp/nomad#25937).
    (Ends("ACL token not found"), Kind::Unauthenticated),
    (Ends("ACL token expired"), Kind::Unauthenticated),
    (Ends("Permission denied"), Kind::Forbidden),
    (Ends(" are disabled by the scheduler configuration"), Kind::Disabled),
    // What is not there.
    (Is("job not found"), Kind::NotFound(Missing::Object)),
    (Is("job versions not found"), Kind::NotFound(Missing::Object)),
    (Is("job source not found"), Kind::NotFound(Missing::Object)),
    (Is("parameterized job not found"), Kind::NotFound(Missing::Object)),
    (Is("eval not found"), Kind::NotFound(Missing::Object)),
    (Is("alloc not found"), Kind::NotFound(Missing::Object)),
    (Is("allocation not found"), Kind::NotFound(Missing::Object)),
    (Is("deployment not found"), Kind::NotFound(Missing::Object)),
    (Is("node not found"), Kind::NotFound(Missing::Object)),
    (Is("variable not found"), Kind::NotFound(Missing::Object)),
    (Is("volume not found"), Kind::NotFound(Missing::Object)),
    (Starts("no such volume: "), Kind::NotFound(Missing::Object)),
    (Starts("volume validation failed: no such namespace "), Kind::NotFound(Missing::Namespace)),
    (Starts("volume validation failed: "), Kind::Invalid),
    (Is("service registration not found"), Kind::NotFound(Missing::Object)),
    (Is("Namespace not found"), Kind::NotFound(Missing::Object)),
    (Is("namespace not found"), Kind::NotFound(Missing::Object)),
    (Starts("Unknown allocation \""), Kind::NotFound(Missing::Object)),
    (Starts("Unknown job \""), Kind::NotFound(Missing::Object)),
    (StartEnd("state for allocation ", " not found on client"), Kind::NotFound(Missing::Object)),
    // Of an object that may well be there: a version, a tag, a task, a file.
    (Contains(" at version "), Kind::NotFound(Missing::Other)),
    (Contains("\" version "), Kind::NotFound(Missing::Other)),
    (StartEnd("job \"", "\" not found"), Kind::NotFound(Missing::Object)),
    (Starts("tag \""), Kind::NotFound(Missing::Other)),
    (Starts("unknown alloc \""), Kind::NotFound(Missing::Other)),
    (Starts("Could not find task runner for task"), Kind::NotFound(Missing::Other)),
    (Is("Task not found"), Kind::NotFound(Missing::Other)),
    (Is("No path to region"), Kind::NotFound(Missing::Region)),
    // States that do not allow it.
    (StartEnd("can't ", " terminal deployment"), Kind::Precondition),
    (Is("can't revert to current version"), Kind::Precondition),
    (Is("can't force launch non-periodic job"), Kind::Precondition),
    (StartEnd("can't evaluate ", " job"), Kind::Precondition),
    (Starts("force launch for job "), Kind::Precondition),
    (Starts("Specified job \""), Kind::Precondition),
    (Contains(" in use by allocations: "), Kind::Precondition),
    (Starts("could not place volume "), Kind::Precondition),
    (Is("Task not running"), Kind::Precondition),
    (Contains(" not started yet"), Kind::Precondition),
    (Is("can not delete default namespace"), Kind::Precondition),
    // The cluster, or the way from one server to another.
    (Is("No cluster leader"), Kind::Unavailable),
    (Is("No path to node"), Kind::Unavailable),
    (Contains("Not ready to serve consistent reads"), Kind::Unavailable),
    (Contains("leadership lost"), Kind::Unavailable),
    (Contains("eval broker disabled"), Kind::Unavailable),
    (Contains("connection refused"), Kind::Unavailable),
    (Contains("i/o timeout"), Kind::Unavailable),
    (Ends("EOF"), Kind::Unavailable),
];

impl Shape {
    fn fits(&self, text: &str) -> bool {
        match self {
            Is(whole) => text == *whole,
            Starts(start) => text.starts_with(start),
            Ends(end) => text.ends_with(end),
            Contains(part) => text.contains(part),
            StartEnd(start, end) => text.starts_with(start) && text.ends_with(end),
        }
    }
}

/// What a refusal means, from its code and its body.
pub(crate) fn classify(status: u16, body: &str, operation: &Operation) -> (Kind, Effect) {
    let kind = kind(status, sentence(body), operation);
    let effect = match kind {
        Kind::Unavailable | Kind::Timeout | Kind::ServerError | Kind::Unexpected => Effect::Unknown,
        _ => Effect::Refused,
    };
    (kind, effect)
}

fn kind(status: u16, text: &str, operation: &Operation) -> Kind {
    let row = |table: &[(Shape, Kind)]| table.iter().find(|(shape, _)| shape.fits(text)).map(|(_, kind)| *kind);
    match status {
        400 => row(BAD_REQUEST).unwrap_or(Kind::Invalid),
        401 => Kind::Unauthenticated,
        403 => row(REFUSED).unwrap_or(Kind::Forbidden),
        // How the server's router says that it has no such route.
        404 if text.is_empty() => Kind::Unsupported,
        404 => row(REFUSED).unwrap_or(Kind::NotFound(Missing::Other)),
        405 | 501 => Kind::Unsupported,
        408 | 504 => Kind::Timeout,
        409 => Kind::Conflict,
        413 | 422 => Kind::Invalid,
        429 => Kind::TooManyRequests,
        // What one may not read is "unknown" here; what is absent is 404 on this route.
        500 if operation.verb == Verb::Read
            && operation.resource == "allocation"
            && text.starts_with("Unknown allocation \"") =>
        {
            Kind::Forbidden
        }
        500 => row(REFUSED).unwrap_or(Kind::ServerError),
        502 | 503 => Kind::Unavailable,
        501..=599 => Kind::ServerError,
        _ => Kind::Unexpected,
    }
}

/// The sentence without what wraps it: white space, and the mark of an error that came by way of another server.
fn sentence(body: &str) -> &str {
    let mut text = body.trim();
    while let Some(rest) = text.strip_prefix("rpc error: ") {
        text = rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize)]
    struct Refusal {
        method: String,
        path: String,
        status: u16,
        body: String,
        kind: String,
    }

    /// What the client calls a request to this path. Only the read of an allocation matters.
    fn operation(refusal: &Refusal) -> Operation {
        let verb = if refusal.method == "GET" { Verb::Read } else { Verb::Write };
        let segments: Vec<_> = refusal.path.trim_start_matches('/').split('/').collect();
        let resource = match segments[..] {
            ["v1", resource, _] => resource,
            _ => "something else",
        };
        Operation::new(verb, resource, None, None)
    }

    /// Every refusal that was recorded from a real agent, with the kind that it was judged to be by hand.
    #[test]
    fn recorded_refusals() {
        let refusals: Vec<Refusal> = serde_json::from_str(include_str!("../tests/fixtures/refusals.json")).unwrap();
        assert!(refusals.len() > 200);
        for refusal in refusals {
            let (kind, effect) = classify(refusal.status, &refusal.body, &operation(&refusal));
            let Refusal { method, path, status, body, kind: expected } = refusal;
            assert_eq!(format!("{kind:?}"), expected, "{method} {path} {status} {body}");
            let unknown = matches!(kind, Kind::Unavailable | Kind::ServerError);
            assert_eq!(effect == Effect::Unknown, unknown, "{method} {path} {status} {body}");
        }
    }

    #[test]
    fn sentences_of_other_releases() {
        let read = Operation::new(Verb::Read, "job", None, None);
        let kind = |status, body| classify(status, body, &read).0;
        // An error that came by way of another server has a mark, one or more times.
        assert_eq!(kind(500, "rpc error: Permission denied"), Kind::Forbidden);
        assert_eq!(kind(500, "rpc error: rpc error: No cluster leader\n"), Kind::Unavailable);
        assert_eq!(kind(500, "rpc error: EOF"), Kind::Unavailable);
        // An unknown token, by release; hashicorp/nomad#25937. Never "the job is absent".
        for status in [403, 404, 500] {
            assert_eq!(kind(status, "ACL token not found"), Kind::Unauthenticated);
        }
        // On other routes than the read of an allocation, "unknown" is what it says.
        assert_eq!(kind(500, "Unknown allocation \"x\""), Kind::NotFound(Missing::Object));
        // Nothing is read into what is not known.
        assert_eq!(kind(404, "<html>no such page</html>"), Kind::NotFound(Missing::Other));
        assert_eq!(kind(500, "something new"), Kind::ServerError);
        assert_eq!(kind(500, ""), Kind::ServerError);
    }
}
