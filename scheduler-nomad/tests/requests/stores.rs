//! Configurations, endpoints, namespaces.

use scheduler_core::{
    Conflict, Container, DeleteNamespace, Endpoints, EnsureNamespace, EnvValue, ErrorKind, FaultOf, Guard,
    NamespaceDeleted, NamespaceEnsured, PutConfig, Retry, Scheduler as _, Workload,
};
use serde_json::json;

use crate::script::Script;
use crate::{launch, source, stored, target, workload};

#[tokio::test]
async fn a_configuration_is_read_and_written_under_its_index_and_again_if_it_moved() {
    let put = || PutConfig::new(target(), "app").entry("A", "s3cret");
    let variable = |index: u64| json!({"Path": "nomad/jobs/web", "ModifyIndex": index, "Items": {"scheduler.owner": "platform", "x.1": "4"}});
    let script = Script::default().answer(&stored()).answer(&variable(5));
    let script = script.push(409, "text/plain", &variable(6).to_string()).answer(&variable(6)).answer(&variable(7));
    let stored_config = script.scheduler().await.put_config(put()).await.unwrap();
    assert!(stored_config.created);
    let asked = ["GET job/web", "GET var/nomad/jobs/web", "PUT var/nomad/jobs/web"];
    assert_eq!(script.asked(), [&asked[..], &asked[1..]].concat());
    let sent = script.sent().remove(4)["Items"].clone();
    let item = format!("app.{}", stored_config.config.version);
    assert_eq!((&sent[&item], &sent[format!("{item}.A")]), (&json!("5"), &json!("s3cret")));
    assert!(!format!("{stored_config:?}").contains("s3cret"));
    // Nobody's variable is not ours.
    let script = Script::default().answer(&stored()).answer(&json!({"Items": {"a": "b"}, "ModifyIndex": 5}));
    let error = script.scheduler().await.put_config(put()).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Conflict(Conflict::Owner { owner: None }));
    // What its tasks would read is not launched over either.
    let mut refers = workload();
    let entry = scheduler_core::ConfigEntry::new("app", "1", "A");
    refers.containers[0] = refers.containers[0].clone().env_from("A", EnvValue::Config(entry));
    let script = Script::default().refuse(404, "job not found");
    let script = script.answer(&json!({"Items": {"scheduler.owner": "other"}, "ModifyIndex": 5}));
    let error = launch(&script, refers, Guard::IfOwned).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Conflict(Conflict::Owner { owner: Some(_) })), "{error}");
}

/// hashicorp/nomad#17182: what is registered may be long gone; and what is registered may not be ready.
#[tokio::test]
async fn endpoints_are_six_requests_and_only_what_is_ready() {
    let alloc = |id: &str, status: &str, desired: &str| {
        json!({
            "ID": id, "JobID": "web", "JobVersion": 3, "ClientStatus": status, "DesiredStatus": desired,
            "TaskStates": {"web": {"State": "running", "StartedAt": "2026-01-01T00:00:00Z"}},
        })
    };
    let allocations =
        json!([alloc("a", "running", "run"), alloc("b", "running", "stop"), alloc("c", "complete", "stop")]);
    let registration =
        |id: &str| json!({"ServiceName": "web--http", "AllocID": id, "Address": "192.0.2.1", "Port": 20_000});
    let registered = json!([registration("a"), registration("b"), registration("c"), registration("gone")]);
    let none = json!([]);
    let script = Script::default().answer(&stored()).answer(&source()).answer(&none).answer(&allocations).answer(&none);
    let script = script.answer(&registered);
    let ready = script.scheduler().await.endpoints(Endpoints::new(target())).await.unwrap();
    assert_eq!(ready.endpoints, [scheduler_core::Endpoint::new("a", "http", "192.0.2.1", 20_000)]);
    assert_eq!(script.asked().len(), 6);
}

/// hashicorp/nomad#19414: a deletion that was granted is not one that was done.
#[tokio::test]
async fn a_namespace_is_gone_when_it_is_not_there() {
    let ours = json!({"Name": "shop", "Meta": {"scheduler/owner": "platform"}});
    let none = json!([]);
    let name = || scheduler_core::Namespace::new("shop").unwrap();
    let script = Script::default().answer(&ours).answer(&none).answer(&json!({})).answer(&ours);
    let deleted = script.scheduler().await.delete_namespace(DeleteNamespace::new(name())).await.unwrap();
    assert_eq!(deleted, NamespaceDeleted::Deleting { remaining: vec![] });
    assert_eq!(script.asked(), ["GET namespace/shop", "GET jobs", "DELETE namespace/shop", "GET namespace/shop"]);
    let script = Script::default().answer(&json!({"Name": "shop"}));
    let ensured = script.scheduler().await.ensure_namespace(EnsureNamespace::new(name())).await.unwrap();
    assert_eq!(ensured, NamespaceEnsured::Exists { owned: false });
    // Rights to make one are needed only for one that is not there.
    assert_eq!(script.asked(), ["GET namespace/shop"]);
}

/// hashicorp/nomad#10978: the zone was checked, so that it is the server that lacks it.
#[tokio::test]
async fn a_server_without_the_data_of_time_zones_is_at_fault() {
    let tick =
        Workload::periodic("shop", "web", "0 3 * * *").with_periodic(|p| p.time_zone = "Europe/Berlin".to_owned());
    let sentence = "1 error occurred:\n\t* 1 error occurred:\n\t* Invalid time zone \"Europe/Berlin\": unknown time zone Europe/Berlin";
    let script = Script::default().refuse(404, "job not found").refuse(500, sentence);
    let error = launch(&script, tick.container(Container::new("t", "t:1")), Guard::IfOwned).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (&ErrorKind::Unavailable, Retry::Never));
    assert_eq!(error.fault(), FaultOf::Platform);
}
