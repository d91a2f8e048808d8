//! What is done with what is there: what is sent, and what is made of the answers.

use scheduler_nomad_client::model::{NewHostVolume, Secret, Variable};
use scheduler_nomad_client::{
    Dispatch, Effect, Error, ErrorKind, Missing, Query, Revert, Scale, VariableCondition, Verb,
};
use serde_json::{Value, json};

use crate::server::{Reply, Server};

const ID: &str = "a691a909-4c5a-3209-8b3b-a480fce642bf";
const OTHER: &str = "cbafc272-742f-dcbf-36f8-c4559fb9513b";

/// The body of each request, or null.
fn bodies(server: &Server) -> Vec<Value> {
    server.requests().iter().map(|request| if request.is_empty() { json!(null) } else { request.json() }).collect()
}

#[tokio::test]
async fn scale_and_revert() {
    let answer = json!({"EvalID": ID, "EvalCreateIndex": 171, "JobModifyIndex": 170, "Index": 172, "Warnings": null});
    let server = Server::start((0..4).map(|_| Reply::value(&answer))).await;
    let client = server.client().await;
    let scaled = client.scale("shop", "web", &Scale::new("g", 0)).await.unwrap();
    assert_eq!((scaled.eval_id.as_str(), scaled.job_modify_index, scaled.index), (ID, 170, 172));
    client.scale("shop", "a/b", &Scale::new("g", 3).message("more").if_unchanged(5)).await.unwrap();
    client.revert("shop", "web", Revert::to(0)).await.unwrap();
    client.revert("shop", "web", Revert::to(1).if_current(0)).await.unwrap();
    assert_eq!(
        server.lines(),
        [
            "PUT /v1/job/web/scale?namespace=shop",
            "PUT /v1/job/a%2Fb/scale?namespace=shop",
            "PUT /v1/job/web/revert?namespace=shop",
            "PUT /v1/job/web/revert?namespace=shop",
        ]
    );
    assert_eq!(
        bodies(&server),
        [
            json!({"Count": 0, "Target": {"Group": "g"}}),
            json!({"Count": 3, "Target": {"Group": "g"}, "Message": "more", "JobModifyIndex": 5}),
            json!({"JobID": "web", "JobVersion": 0}),
            // Zero is a version like any other.
            json!({"JobID": "web", "JobVersion": 1, "EnforcePriorVersion": 0}),
        ]
    );
}

#[tokio::test]
async fn marks_of_versions() {
    let server = Server::start((0..3).map(|_| Reply::value(&json!({"Index": 330})))).await;
    let client = server.client().await;
    client.set_stable("shop", "web", 2, false).await.unwrap();
    client.put_version_tag("shop", "web", 3, "a b", "why").await.unwrap();
    client.delete_version_tag("shop", "web", "a b").await.unwrap();
    assert_eq!(
        server.lines(),
        [
            "PUT /v1/job/web/stable?namespace=shop",
            "PUT /v1/job/web/versions/a%20b/tag?namespace=shop",
            "DELETE /v1/job/web/versions/a%20b/tag?namespace=shop",
        ]
    );
    assert_eq!(
        bodies(&server),
        [
            json!({"JobID": "web", "JobVersion": 2, "Stable": false}),
            json!({"Version": 3, "Description": "why"}),
            json!(null),
        ]
    );
}

#[tokio::test]
async fn evaluate_force_and_dispatch() {
    let evaluated = Reply::value(&json!({"EvalID": ID, "EvalCreateIndex": 608, "Index": 608}));
    let child = "disp/dispatch-1796072306-3e58ef81";
    let made =
        json!({"DispatchedJobID": child, "EvalCreateIndex": 295, "EvalID": ID, "Index": 295, "JobCreateIndex": 295});
    let there =
        json!({"DispatchedJobID": child, "EvalCreateIndex": 0, "EvalID": "", "Index": 299, "JobCreateIndex": 295});
    let server = Server::start([evaluated.clone(), evaluated, Reply::value(&made), Reply::value(&there)]).await;
    let client = server.client().await;
    assert_eq!(client.evaluate_job("shop", "web", true).await.unwrap().eval_id, ID);
    let forced = client.force_periodic("shop", "cron").await.unwrap();
    assert_eq!((forced.eval_id.as_str(), forced.index), (ID, 608));
    let dispatched = client.dispatch("shop", "disp", &Dispatch::new()).await.unwrap();
    assert_eq!((dispatched.job_id.as_str(), dispatched.eval_id.as_str()), (child, ID));
    let dispatch = Dispatch::new().payload("hello").meta("who", "me").idempotency_token("tok 1");
    let dispatched = client.dispatch("shop", "disp", &dispatch).await.unwrap();
    assert_eq!((dispatched.job_create_index, dispatched.eval_id.as_str(), dispatched.index), (295, "", 299));
    assert_eq!(
        server.lines(),
        [
            "PUT /v1/job/web/evaluate?namespace=shop",
            "PUT /v1/job/cron/periodic/force?namespace=shop",
            "PUT /v1/job/disp/dispatch?namespace=shop",
            "PUT /v1/job/disp/dispatch?namespace=shop&idempotency_token=tok%201",
        ]
    );
    assert_eq!(
        bodies(&server),
        [
            json!({"JobID": "web", "EvalOptions": {"ForceReschedule": true}}),
            json!({}),
            json!({"Meta": {}}),
            json!({"Payload": "aGVsbG8=", "Meta": {"who": "me"}}),
        ]
    );
}

#[tokio::test]
async fn deployments() {
    let changed = |reverted: Value| {
        Reply::value(&json!({
            "EvalID": ID, "EvalCreateIndex": 372, "DeploymentModifyIndex": 372, "RevertedJobVersion": reverted, "Index": 372,
        }))
    };
    let null = || changed(json!(null));
    let server = Server::start([null(), changed(json!(0)), null(), null(), null(), null()]).await;
    let client = server.client().await;
    let promoted = client.promote_deployment("shop", ID).await.unwrap();
    assert_eq!((promoted.deployment_modify_index, promoted.reverted_job_version), (372, None));
    assert_eq!(client.fail_deployment("shop", ID).await.unwrap().reverted_job_version, Some(0));
    client.pause_deployment("shop", ID).await.unwrap();
    client.resume_deployment("shop", ID).await.unwrap();
    client.unblock_deployment("shop", ID).await.unwrap();
    client.set_allocation_health("shop", ID, &[], &[OTHER]).await.unwrap();
    let routes = ["promote", "fail", "pause", "pause", "unblock", "allocation-health"];
    assert_eq!(server.lines(), routes.map(|route| format!("PUT /v1/deployment/{route}/{ID}?namespace=shop")));
    assert_eq!(
        bodies(&server),
        [
            json!({"DeploymentID": ID, "All": true}),
            json!({"DeploymentID": ID}),
            json!({"DeploymentID": ID, "Pause": true}),
            json!({"DeploymentID": ID, "Pause": false}),
            json!({"DeploymentID": ID}),
            json!({"DeploymentID": ID, "HealthyAllocationIDs": [], "UnhealthyAllocationIDs": [OTHER]}),
        ]
    );
}

#[tokio::test]
async fn allocations() {
    let index = || Reply::value(&json!({"Index": 0}));
    let stopped = Reply::value(&json!({"EvalID": OTHER, "Index": 575}));
    let server = Server::start([stopped, index(), index(), index(), index()]).await;
    let client = server.client().await;
    assert_eq!(client.stop_allocation("shop", ID).await.unwrap().eval_id, OTHER);
    client.restart_allocation("shop", ID, None).await.unwrap();
    client.restart_allocation("shop", ID, Some("t")).await.unwrap();
    client.signal_allocation("shop", ID, "SIGHUP", None).await.unwrap();
    client.signal_allocation("shop", ID, "SIGHUP", Some("t")).await.unwrap();
    let node = |route: &str| format!("PUT /v1/client/allocation/{ID}/{route}?namespace=shop");
    let stop = format!("PUT /v1/allocation/{ID}/stop?namespace=shop");
    assert_eq!(server.lines(), [stop, node("restart"), node("restart"), node("signal"), node("signal")]);
    assert_eq!(
        bodies(&server),
        [
            json!({}),
            json!({}),
            json!({"TaskName": "t"}),
            json!({"Signal": "SIGHUP", "Task": ""}),
            json!({"Signal": "SIGHUP", "Task": "t"}),
        ]
    );
}

#[tokio::test]
async fn variables_under_a_condition() {
    let stored = json!({"Namespace": "shop", "Path": "nomad/jobs/web", "Items": {"a": "1"}, "CreateIndex": 447,
        "ModifyIndex": 449, "CreateTime": 1, "ModifyTime": 2});
    let server = Server::start([
        Reply::value(&stored),
        Reply::value(&stored),
        Reply::new(204, &[], ""),
        // The content type is a lie of the server's.
        Reply::text(409, &stored.to_string()),
        Reply::text(404, "variable not found"),
    ])
    .await;
    let client = server.client().await;
    let mut variable = Variable::new("shop", "nomad/jobs/web");
    variable.items.insert("a".to_owned(), Secret::new("1"));
    let answer = client.put_variable(&variable, VariableCondition::Absent).await.unwrap();
    assert_eq!((answer.modify_index, answer.items["a"].expose()), (449, "1"));
    client.put_variable(&answer, VariableCondition::Unchanged { modify_index: 449 }).await.unwrap();
    client.delete_variable("shop", "nomad/jobs/web", 449).await.unwrap();
    let error = client.put_variable(&variable, VariableCondition::Absent).await.unwrap_err();
    assert_eq!((error.kind(), error.effect(), error.message()), (ErrorKind::Conflict, Effect::Refused, None));
    assert!(error.to_string().starts_with("write variable shop/nomad/jobs/web: the server answered 409"), "{error}");
    assert_eq!(client.query(&Query::variable("shop", "nomad/jobs/web")).await.unwrap().value, None);
    assert_eq!(
        server.lines()[..3],
        [
            "PUT /v1/var/nomad%2Fjobs%2Fweb?namespace=shop&cas=0",
            "PUT /v1/var/nomad%2Fjobs%2Fweb?namespace=shop&cas=449",
            "DELETE /v1/var/nomad%2Fjobs%2Fweb?namespace=shop&cas=449",
        ]
    );
    let body = json!({"Namespace": "shop", "Path": "nomad/jobs/web", "Items": {"a": "1"}});
    assert_eq!(bodies(&server)[..3], [body.clone(), body, json!(null)]);
}

#[tokio::test]
async fn what_is_removed() {
    let server = Server::start([
        Reply::new(200, &[("X-Nomad-Index", "18")], ""),
        Reply::text(500, "namespace not found"),
        Reply::new(200, &[], ""),
        Reply::text(500, "service registration not found"),
    ])
    .await;
    let client = server.client().await;
    client.delete_namespace("shop").await.unwrap();
    let gone = (ErrorKind::NotFound(Missing::Object), Verb::Delete);
    let seen = |error: Error| (error.kind(), error.operation().verb);
    assert_eq!(seen(client.delete_namespace("shop").await.unwrap_err()), gone);
    let id = "_nomad-task-1126fa95-group-g-sv-web-http";
    client.delete_service_registration("shop", "sv-web", id).await.unwrap();
    assert_eq!(seen(client.delete_service_registration("shop", "sv-web", id).await.unwrap_err()), gone);
    assert_eq!(server.lines()[0], "DELETE /v1/namespace/shop");
    assert_eq!(server.lines()[2], format!("DELETE /v1/service/sv-web/{id}?namespace=shop"));
}

#[tokio::test]
async fn what_cannot_be_is_not_sent() {
    let server = Server::start([]).await;
    let client = server.client().await;
    fn refused<T: std::fmt::Debug>(result: Result<T, Error>) {
        let error = result.unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::InvalidRequest, Effect::NotSent), "{error}");
    }
    refused(client.scale("shop", "a/scale", &Scale::new("g", 1)).await);
    refused(client.scale("shop", "web", &Scale::new("g", 1).if_unchanged(0)).await);
    refused(client.revert("*", "web", Revert::to(1)).await);
    // This route takes the ID up to its first slash: it would mark a version of the parent.
    refused(client.put_version_tag("shop", "cron/periodic-1", 0, "good", "").await);
    refused(client.delete_version_tag("shop", "web", "a/b").await);
    refused(client.dispatch("shop", "disp", &Dispatch::new().idempotency_token("")).await);
    refused(client.promote_deployment("shop", "7903451f").await);
    refused(client.set_allocation_health("shop", ID, &[], &[]).await);
    refused(client.set_allocation_health("shop", ID, &["x"], &[]).await);
    refused(client.stop_allocation("shop", "").await);
    refused(client.signal_allocation("shop", ID, "", None).await);
    let mut variable = Variable::new("shop", "x");
    refused(client.put_variable(&variable, VariableCondition::Absent).await);
    variable.items.insert("a".to_owned(), Secret::new("1"));
    refused(client.put_variable(&variable, VariableCondition::Unchanged { modify_index: 0 }).await);
    refused(client.delete_variable("shop", "x", 0).await);
    refused(client.delete_variable("shop", "/x", 1).await);
    refused(client.delete_service_registration("shop", "web", "").await);
    assert!(server.requests().is_empty());
}

/// Every one of them says that it may have taken effect when nobody can tell.
#[tokio::test]
async fn a_broken_connection_leaves_it_open() {
    let cut = || Reply::value(&json!({"Index": 1})).cut_after(20);
    let server = Server::start((0..7).map(|_| cut())).await;
    let client = server.client().await;
    let errors = [
        client.scale("shop", "web", &Scale::new("g", 1)).await.unwrap_err(),
        client.revert("shop", "web", Revert::to(1)).await.unwrap_err(),
        client.dispatch("shop", "web", &Dispatch::new()).await.unwrap_err(),
        client.force_periodic("shop", "web").await.unwrap_err(),
        client.fail_deployment("shop", ID).await.unwrap_err(),
        client.restart_allocation("shop", ID, None).await.unwrap_err(),
        client.delete_namespace("shop").await.unwrap_err(),
    ];
    for error in &errors {
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Interrupted, Effect::Unknown), "{error}");
        assert!(error.operation().verb.changes() && error.to_string().contains("it may have taken effect"), "{error}");
    }
    assert_eq!(errors[5].to_string().split(": ").next(), Some(format!("restart allocation shop/{ID}").as_str()));
    assert_eq!(server.requests().len(), errors.len(), "each was sent once");
}

#[tokio::test]
async fn host_volumes() {
    let volume = json!({
        "CapacityBytes": 0, "CreateIndex": 12, "CreateTime": 1_796_109_328_877_539_394_i64, "ID": ID, "ModifyIndex": 14,
        "ModifyTime": 1_796_109_328_877_539_394_i64, "Name": "data", "Namespace": "shop", "NodeID": OTHER,
        "NodePool": "default", "PluginID": "mkdir", "State": "ready",
    });
    let server = Server::start([
        Reply::value(&json!({"Index": 12, "Volume": volume, "Warnings": ""})),
        Reply::value(&json!([volume])),
        Reply::text(500, &format!("volume {ID} in use by allocations: [{OTHER}]")),
        Reply::value(&json!({"Index": 24})),
        Reply::text(500, &format!("no such volume: {ID}")),
    ])
    .await;
    let client = server.client().await;
    let made = client.create_host_volume("shop", &NewHostVolume::new("data", "mkdir", 1_000_000)).await.unwrap();
    assert_eq!((made.id.as_str(), made.node_id.as_str(), made.plugin_id.as_str()), (ID, OTHER, "mkdir"));
    assert_eq!(client.query(&Query::host_volumes("shop")).await.unwrap().value, [made]);
    assert_eq!(client.delete_host_volume("shop", ID).await.unwrap_err().kind(), ErrorKind::Precondition);
    client.delete_host_volume("shop", ID).await.unwrap();
    let gone = client.delete_host_volume("shop", ID).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound(Missing::Object));
    assert_eq!(
        server.lines()[..3],
        [
            "PUT /v1/volume/host/create?namespace=shop".to_owned(),
            "GET /v1/volumes?type=host&namespace=shop".to_owned(),
            format!("DELETE /v1/volume/host/{ID}/delete?namespace=shop"),
        ]
    );
    let mode = |access: &str| json!({"AttachmentMode": "file-system", "AccessMode": access});
    assert_eq!(
        bodies(&server)[0],
        json!({"Volume": {
            "Name": "data", "PluginID": "mkdir", "RequestedCapacityMinBytes": 1_000_000,
            "RequestedCapacityMaxBytes": 1_000_000,
            "RequestedCapabilities": [mode("single-node-writer"), mode("single-node-multi-writer")],
        }})
    );
}
