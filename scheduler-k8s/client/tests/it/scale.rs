//! `scale` and `set_scale`.

use scheduler_k8s_client::{Effect, ErrorKind, Missing, Resource, SetScale};
use serde_json::json;

use crate::recorded;
use crate::server::{Reply, Server};

#[tokio::test]
async fn a_zero_is_left_out_by_the_server() {
    let server = Server::start([Reply::json(200, recorded::SCALE), Reply::json(200, recorded::SCALE_TO_ZERO)]).await;
    let client = server.client().await;
    let scale = client.scale(&Resource::DEPLOYMENT, Some("shop"), "web").await.unwrap().unwrap();
    assert_eq!((scale.desired, scale.current, scale.selector.as_str()), (3, 2, "app=web"));
    assert_eq!((scale.uid.as_str(), scale.resource_version.as_str()), ("2dcf5331-2351-4bfd-ba94-6b2e6d597a48", "259"));
    let scale = client.scale(&Resource::STATEFUL_SET, Some("shop"), "web").await.unwrap().unwrap();
    assert_eq!((scale.desired, scale.current), (0, 2));
    assert_eq!(
        server.lines(),
        [
            "GET /apis/apps/v1/namespaces/shop/deployments/web/scale",
            "GET /apis/apps/v1/namespaces/shop/statefulsets/web/scale",
        ]
    );
}

#[tokio::test]
async fn what_has_no_scale() {
    for (answer, expected) in
        [(recorded::NOT_FOUND, Ok(None)), (recorded::UNKNOWN_RESOURCE, Err(ErrorKind::NotFound(Missing::Path)))]
    {
        let server = Server::start([Reply::json(404, answer)]).await;
        let scale = server.client().await.scale(&Resource::DEPLOYMENT, Some("shop"), "web").await;
        assert_eq!(scale.map_err(|error| error.kind()), expected);
    }
}

fn set<'a>(uid: &'a str, version: &'a str) -> SetScale<'a> {
    SetScale::new(&Resource::DEPLOYMENT, Some("shop"), "web", 0, "tester", uid, version)
}

#[tokio::test]
async fn a_change_on_the_wire() {
    let server = Server::start([Reply::json(200, recorded::SCALE_TO_ZERO)]).await;
    let scale = server.client().await.set_scale(set("u-1", "64")).await.unwrap();
    assert_eq!((scale.desired, scale.resource_version.as_str()), (0, "260"));
    let request = &server.requests()[0];
    assert_eq!(request.line(), "PATCH /apis/apps/v1/namespaces/shop/deployments/web/scale?fieldManager=tester");
    assert_eq!(request.header("content-type"), Some("application/merge-patch+json"));
    assert_eq!(request.json(), json!({"metadata": {"uid": "u-1", "resourceVersion": "64"}, "spec": {"replicas": 0}}));
}

#[tokio::test]
async fn a_change_is_guarded() {
    for (code, answer) in [(409, recorded::MODIFIED), (409, recorded::SCALE_OF_ANOTHER), (404, recorded::NOT_FOUND)] {
        let server = Server::start([Reply::json(code, answer)]).await;
        let error = server.client().await.set_scale(set("u-1", "64")).await.unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Conflict, Effect::Refused), "{answer}");
        assert!(error.to_string().starts_with("patch deployments.apps/scale shop/web: "), "{error}");
        assert_eq!(server.requests().len(), 1, "sent once");
    }
    let server = Server::start([Reply::json(404, recorded::UNKNOWN_RESOURCE)]).await;
    let client = server.client().await;
    let error = client.set_scale(set("u-1", "64")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound(Missing::Path));
    for nothing in [set("", "64"), set("u-1", "")] {
        let error = client.set_scale(nothing).await.unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::InvalidRequest, Effect::NotSent));
    }
    assert_eq!(server.requests().len(), 1);
}
