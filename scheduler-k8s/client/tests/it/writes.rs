//! `apply` and `delete`.

use scheduler_k8s_client::{
    Apply, Client, Condition, Delete, Deleted, Effect, Error, ErrorKind, Missing, Propagation, Resource,
};
use serde_json::{Value, json};

use crate::recorded;
use crate::server::{Reply, Server};

fn unchanged() -> Condition {
    Condition::Unchanged { uid: "u-1".to_owned(), resource_version: "64".to_owned() }
}

fn apply(condition: Condition, body: Value) -> Apply<'static> {
    Apply::new(&Resource::DEPLOYMENT, Some("shop"), "web", body, "tester", condition)
}

async fn apply_error(condition: Condition, code: u16, answer: &str) -> Error {
    let server = Server::start([Reply::json(code, answer)]).await;
    let error = server.client().await.apply(apply(condition, json!({}))).await.unwrap_err();
    assert_eq!(server.requests().len(), 1, "sent once");
    error
}

#[tokio::test]
async fn create_only_apply_on_the_wire() {
    let stored = json!({"metadata": {"name": "web", "uid": "u-1"}});
    let reply = Reply::new(
        201,
        &[("Content-Type", "application/json"), ("Warning", "299 - \"spec.x is deprecated\"")],
        &stored.to_string(),
    );
    let server = Server::start([reply]).await;
    let body = json!({"spec": {"replicas": 1}});
    let applied = server.client().await.apply(apply(Condition::Absent, body)).await.unwrap();
    assert_eq!(applied.object, stored);
    assert!(applied.created);
    assert_eq!(applied.warnings, ["spec.x is deprecated"]);

    let request = &server.requests()[0];
    assert_eq!(
        request.line(),
        "PATCH /apis/apps/v1/namespaces/shop/deployments/web?fieldManager=tester&fieldValidation=Strict"
    );
    assert_eq!(request.header("content-type"), Some("application/apply-patch+yaml"));
    assert_eq!(
        request.json(),
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop", "resourceVersion": "1"},
            "spec": {"replicas": 1},
        })
    );
}

#[tokio::test]
async fn guarded_forced_dry_run_on_the_wire() {
    let server = Server::start([Reply::value(&json!({}))]).await;
    let body = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"labels": {"a": "b"}}});
    let applied = server.client().await.apply(apply(unchanged(), body).force().dry_run()).await.unwrap();
    assert!(!applied.created);
    let request = &server.requests()[0];
    assert!(
        request.target.ends_with("?fieldManager=tester&fieldValidation=Strict&force=true&dryRun=All"),
        "{request:?}"
    );
    assert_eq!(
        request.json()["metadata"],
        json!({"name": "web", "namespace": "shop", "uid": "u-1", "resourceVersion": "64", "labels": {"a": "b"}})
    );
}

#[tokio::test]
async fn bodies_that_must_not_be_applied_are_refused_here() {
    let server = Server::start([]).await;
    let client = server.client().await;
    let empty = |uid: &str, version: &str| Condition::Unchanged { uid: uid.into(), resource_version: version.into() };
    for (condition, body, told) in [
        (unchanged(), json!([]), "no JSON object"),
        (unchanged(), json!({"status": {}}), "status"),
        (unchanged(), json!({"metadata": {"creationTimestamp": null}}), "metadata.creationTimestamp"),
        (unchanged(), json!({"spec": {"ports": [{"port": 80}, {"nodePort": null}]}}), "spec.ports[1].nodePort is null"),
        (unchanged(), json!({"metadata": {"managedFields": []}}), "metadata.managedFields"),
        (unchanged(), json!({"metadata": {"uid": "u-1"}}), "metadata.uid"),
        (unchanged(), json!({"metadata": {"resourceVersion": "64"}}), "metadata.resourceVersion"),
        (unchanged(), json!({"metadata": {"name": "other"}}), "name"),
        (unchanged(), json!({"metadata": {"namespace": "other"}}), "namespace"),
        (unchanged(), json!({"metadata": []}), "metadata"),
        (unchanged(), json!({"kind": "Service"}), "kind"),
        (unchanged(), json!({"apiVersion": "v1"}), "apiVersion"),
        (empty("", "64"), json!({}), "condition"),
        (empty("u-1", ""), json!({}), "condition"),
    ] {
        let error = client.apply(apply(condition, body)).await.unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::InvalidRequest, Effect::NotSent), "{error}");
        assert!(error.to_string().contains(told), "{error}");
    }
    for manager in [String::new(), "m".repeat(129)] {
        let apply = Apply::new(&Resource::POD, Some("shop"), "web", json!({}), &manager, Condition::Absent);
        assert_eq!(client.apply(apply).await.unwrap_err().kind(), ErrorKind::InvalidRequest);
    }
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn what_is_there_already() {
    for answer in [recorded::MODIFIED, recorded::TWO_MANAGERS] {
        let error = apply_error(Condition::Absent, 409, answer).await;
        assert_eq!((error.kind(), error.effect()), (ErrorKind::AlreadyExists, Effect::Refused));
        assert_eq!(error.reason(), Some("Conflict"));
        assert!(error.to_string().contains("there already"), "{error}");
    }
    let quota = recorded::MODIFIED.replace("\"kind\":\"deployments\"", "\"kind\":\"resourcequotas\"");
    assert_eq!(apply_error(Condition::Absent, 409, &quota).await.kind(), ErrorKind::Conflict);
}

#[tokio::test]
async fn what_moved() {
    for (code, answer) in [(409, recorded::MODIFIED), (409, recorded::UID_OF_NOTHING), (422, recorded::UID_IMMUTABLE)] {
        let error = apply_error(unchanged(), code, answer).await;
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Conflict, Effect::Refused), "{answer}");
        assert_eq!(error.status(), Some(code));
        assert_eq!(error.conflicting_managers(), Vec::<&str>::new());
    }
}

#[tokio::test]
async fn who_owns_the_fields() {
    let error = apply_error(unchanged(), 409, recorded::TWO_MANAGERS).await;
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(error.conflicting_managers(), ["kubectl", "kubectl-set"]);
    let fields: Vec<_> = error.causes().iter().map(|cause| cause.field.as_str()).collect();
    assert_eq!(fields, [".spec.replicas", ".spec.paused"]);
}

#[tokio::test]
async fn what_is_wrong_with_the_body() {
    let error = apply_error(unchanged(), 422, recorded::INVALID).await;
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Invalid, Effect::Refused));
    let cause = &error.causes()[0];
    assert_eq!(
        (cause.field.as_str(), cause.reason.as_str(), cause.message.as_str()),
        ("spec.replicas", "FieldValueInvalid", "Invalid value: -3: must be greater than or equal to 0")
    );
    assert_eq!(
        error.to_string(),
        "patch deployments.apps shop/web: the server answered 422 Invalid: Deployment.apps \"web\" is invalid: \
         spec.replicas: Invalid value: -3: must be greater than or equal to 0"
    );

    let error = apply_error(unchanged(), 500, recorded::UNKNOWN_FIELD).await;
    assert_eq!((error.kind(), error.effect()), (ErrorKind::BadRequest, Effect::Refused));
    // Any other 500 may have had an effect, and so may one that gives a reason.
    let other = recorded::UNKNOWN_FIELD.replace("\"code\"", "\"reason\":\"InternalError\",\"code\"");
    assert_eq!(apply_error(unchanged(), 500, &other).await.kind(), ErrorKind::Unavailable);
    let error = apply_error(unchanged(), 500, &recorded::UNKNOWN_FIELD.replace("failed to create", "timed out")).await;
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::Unknown));
}

#[tokio::test]
async fn namespaces_that_take_nothing() {
    let error = apply_error(Condition::Absent, 404, recorded::NAMESPACE_NOT_FOUND).await;
    assert_eq!(error.kind(), ErrorKind::NotFound(Missing::Namespace));
    let error = apply_error(Condition::Absent, 403, recorded::NAMESPACE_TERMINATING).await;
    assert_eq!(error.kind(), ErrorKind::Forbidden);
    assert_eq!(error.causes()[0].reason, "NamespaceTerminating");
}

fn delete() -> Delete<'static> {
    Delete::new(&Resource::DEPLOYMENT, Some("shop"), "web", Propagation::Background)
}

#[tokio::test]
async fn delete_on_the_wire() {
    let server = Server::start([Reply::json(200, recorded::DELETED_STATUS), Reply::value(&json!({}))]).await;
    let client: Client = server.client().await;
    client.delete(delete()).await.unwrap();
    let guarded = Delete::new(&Resource::POD, Some("shop"), "p", Propagation::Orphan);
    client.delete(guarded.uid("u-1").resource_version("64").grace_seconds(5).dry_run()).await.unwrap();
    let requests = server.requests();
    assert_eq!(requests[0].line(), "DELETE /apis/apps/v1/namespaces/shop/deployments/web");
    assert_eq!(
        requests[0].json(),
        json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background", "preconditions": {},
        })
    );
    assert_eq!(requests[1].line(), "DELETE /api/v1/namespaces/shop/pods/p");
    assert_eq!(
        requests[1].json(),
        json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Orphan",
            "preconditions": {"uid": "u-1", "resourceVersion": "64"}, "gracePeriodSeconds": 5, "dryRun": ["All"],
        })
    );
}

#[tokio::test]
async fn how_far_a_deletion_is() {
    for (code, answer, expected) in [
        (200, recorded::DELETED_STATUS, "Gone"),
        (200, recorded::DELETED_SERVICE, "Gone"),
        (200, recorded::DELETED_POD, "Gone"),
        (200, recorded::DELETING_FOREGROUND, "Started"),
        (200, recorded::DELETING_POD, "Started"),
        (200, recorded::DELETING_NAMESPACE, "Started"),
        (404, recorded::NOT_FOUND, "WasAbsent"),
    ] {
        let server = Server::start([Reply::json(code, answer)]).await;
        let deletion = server.client().await.delete(delete()).await.unwrap();
        let outcome = match deletion.outcome {
            Deleted::Started(object) => {
                assert_eq!(object, serde_json::from_str::<Value>(answer).unwrap());
                "Started"
            }
            Deleted::Gone => "Gone",
            Deleted::WasAbsent => "WasAbsent",
            other => panic!("{other:?}"),
        };
        assert_eq!(outcome, expected, "{answer}");
    }
}

#[tokio::test]
async fn what_is_no_absence() {
    let disagree = recorded::NOT_FOUND.replace("404", "403");
    for (code, answer, expected) in [
        (409, recorded::WRONG_UID, ErrorKind::Conflict),
        (404, "404 page not found", ErrorKind::NotFound(Missing::Path)),
        (404, recorded::NAMESPACE_NOT_FOUND, ErrorKind::NotFound(Missing::Namespace)),
        (403, &disagree, ErrorKind::Forbidden),
        (401, recorded::UNAUTHORIZED, ErrorKind::Unauthenticated),
    ] {
        let server = Server::start([Reply::json(code, answer)]).await;
        let error = server.client().await.delete(delete()).await.unwrap_err();
        assert_eq!((error.kind(), error.effect()), (expected, Effect::Refused), "{answer}");
    }
}

#[tokio::test]
async fn moved_claims_are_guarded_like_an_apply() {
    let stored = json!({"metadata": {"resourceVersion": "65"}});
    let claims = json!([{"manager": "tester", "operation": "Apply"}]);
    let server = Server::start([
        Reply::value(&stored),
        Reply::json(409, recorded::MODIFIED),
        Reply::json(422, recorded::UID_IMMUTABLE),
        Reply::json(404, recorded::NOT_FOUND),
    ])
    .await;
    let client = server.client().await;
    let send = || client.set_managed_fields(&Resource::DEPLOYMENT, Some("shop"), "web", claims.clone(), "u-1", "64");
    assert_eq!(send().await.unwrap(), stored);
    for _ in 0..3 {
        let error = send().await.unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Conflict, Effect::Refused));
    }
    let request = &server.requests()[0];
    assert_eq!(request.line(), "PATCH /apis/apps/v1/namespaces/shop/deployments/web");
    assert_eq!(request.header("content-type"), Some("application/merge-patch+json"));
    assert_eq!(request.json(), json!({"metadata": {"uid": "u-1", "resourceVersion": "64", "managedFields": claims}}));
}
