//! What is asked of the server, and what is made of its answers.

use std::time::Duration;

use scheduler_nomad_client::model::{Job, JobType, Namespace, Submission, TaskGroup};
use scheduler_nomad_client::{
    Client, Condition, ConnectOptions, Effect, ErrorKind, ListOptions, Missing, Query, Register,
};
use serde_json::json;

use crate::server::{Reply, Server, TOKEN};

const ID: &str = "a691a909-4c5a-3209-8b3b-a480fce642bf";

#[tokio::test]
async fn every_read_has_its_path() {
    let replies = (0..26).map(|_| Reply::value(&json!(null)));
    let server = Server::start(replies.chain([Reply::value(&json!("127.0.0.1:4647"))])).await;
    let client = server.client().await;
    client.query(&Query::job("shop", "cron/periodic-1")).await.unwrap();
    assert!(client.query(&Query::job_versions("shop", "web")).await.is_err(), "null is no answer there");
    client.query(&Query::submission("shop", "web", 7)).await.unwrap();
    client.query(&Query::job_evaluations("shop", "web")).await.unwrap();
    client.query(&Query::job_deployments("shop", "web")).await.unwrap();
    client.query(&Query::job_allocations("shop", "web")).await.unwrap();
    client.query(&Query::deployments("*")).await.unwrap();
    client.query(&Query::evaluation("shop", ID)).await.unwrap();
    client.query(&Query::allocation("shop", ID)).await.unwrap();
    client.query(&Query::deployment("shop", ID)).await.unwrap();
    client.query(&Query::namespaces()).await.unwrap();
    client.query(&Query::namespace("shop")).await.unwrap();
    client.query(&Query::jobs("shop", &ListOptions::new())).await.unwrap();
    let options = ListOptions::new().prefix("web").filter("Meta[\"a.b\"] == \"c\"").meta();
    client.query(&Query::jobs("*", &options)).await.unwrap();
    client.query(&Query::jobs("shop", &ListOptions::new().children_of("cron"))).await.unwrap();
    let options = ListOptions::new().children_of("a\"b\\c").filter("Stop == false or Meta.a == \"b\"");
    client.query(&Query::jobs("shop", &options)).await.unwrap();
    client.query(&Query::job_summary("shop", "a/b")).await.unwrap();
    client.query(&Query::scale_status("shop", "web")).await.unwrap();
    client.query(&Query::job_services("shop", "web")).await.unwrap();
    client.query(&Query::services("*")).await.unwrap();
    client.query(&Query::service("shop", "web-http")).await.unwrap();
    client.query(&Query::allocation_checks("shop", ID)).await.unwrap();
    client.query(&Query::variable("shop", "nomad/jobs/web")).await.unwrap();
    client.query(&Query::variables("shop", "nomad/jobs/")).await.unwrap();
    client.query(&Query::nodes()).await.unwrap();
    client.query(&Query::node(ID)).await.unwrap();
    assert_eq!(client.query(&Query::leader()).await.unwrap().value, "127.0.0.1:4647");
    assert_eq!(
        server.lines(),
        [
            "GET /v1/job/cron%2Fperiodic-1?namespace=shop".to_owned(),
            "GET /v1/job/web/versions?namespace=shop".to_owned(),
            "GET /v1/job/web/submission?version=7&namespace=shop".to_owned(),
            "GET /v1/job/web/evaluations?namespace=shop".to_owned(),
            "GET /v1/job/web/deployments?namespace=shop".to_owned(),
            "GET /v1/job/web/allocations?namespace=shop".to_owned(),
            "GET /v1/deployments?namespace=%2A".to_owned(),
            format!("GET /v1/evaluation/{ID}?namespace=shop"),
            format!("GET /v1/allocation/{ID}?namespace=shop"),
            format!("GET /v1/deployment/{ID}?namespace=shop"),
            "GET /v1/namespaces".to_owned(),
            "GET /v1/namespace/shop".to_owned(),
            "GET /v1/jobs?namespace=shop".to_owned(),
            "GET /v1/jobs?prefix=web&filter=Meta%5B%22a.b%22%5D%20%3D%3D%20%22c%22&meta=true&namespace=%2A".to_owned(),
            "GET /v1/jobs?prefix=cron%2F&filter=ParentID%20%3D%3D%20%22cron%22&namespace=shop".to_owned(),
            // `ParentID == "a\u0022b\u005cc" and (Stop == false or Meta.a == "b")`
            "GET /v1/jobs?prefix=a%22b%5Cc%2F&filter=ParentID%20%3D%3D%20%22a%5Cu0022b%5Cu005cc%22%20and%20%28Stop%20%3D%3D%20false\
             %20or%20Meta.a%20%3D%3D%20%22b%22%29&namespace=shop"
                .to_owned(),
            "GET /v1/job/a%2Fb/summary?namespace=shop".to_owned(),
            "GET /v1/job/web/scale?namespace=shop".to_owned(),
            "GET /v1/job/web/services?namespace=shop".to_owned(),
            "GET /v1/services?namespace=%2A".to_owned(),
            "GET /v1/service/web-http?namespace=shop".to_owned(),
            format!("GET /v1/client/allocation/{ID}/checks?namespace=shop"),
            "GET /v1/var/nomad%2Fjobs%2Fweb?namespace=shop".to_owned(),
            "GET /v1/vars?prefix=nomad%2Fjobs%2F&namespace=shop".to_owned(),
            "GET /v1/nodes".to_owned(),
            format!("GET /v1/node/{ID}"),
            "GET /v1/status/leader".to_owned(),
        ]
    );
    for request in server.requests() {
        assert_eq!(request.header("x-nomad-token"), Some(TOKEN));
        assert_eq!(request.header("authorization"), None);
        assert_eq!(request.header("accept-encoding"), None, "streams would be held back");
        assert!(request.header("user-agent").unwrap().starts_with("scheduler-nomad-client/"));
    }
}

#[tokio::test]
async fn what_the_headers_say() {
    let headers = [
        ("X-Nomad-Index", "704"),
        ("X-Nomad-Knownleader", "true"),
        ("X-Nomad-Lastcontact", "15"),
        ("X-Nomad-NextToken", "default.b"),
    ];
    let server =
        Server::start([Reply::new(200, &headers, "[]"), Reply::new(200, &[("X-Nomad-Index", "x")], "[]")]).await;
    let client = server.client().await;
    let query = Query::jobs("default", &ListOptions::new());
    let meta = client.query(&query).await.unwrap().meta;
    assert_eq!((meta.index, meta.known_leader), (Some(704), Some(true)));
    assert_eq!((meta.last_contact, meta.next_token.as_deref()), (Some(Duration::from_millis(15)), Some("default.b")));
    let meta = client.query(&query).await.unwrap().meta;
    assert_eq!((meta.index, meta.known_leader, meta.last_contact, meta.next_token), (None, None, None, None));
}

#[tokio::test]
async fn only_the_right_sentence_means_absent() {
    let index = ("X-Nomad-Index", "35");
    let server = Server::start([
        Reply::new(404, &[index], "job not found"),
        Reply::text(404, "ACL token not found"),
        Reply::text(404, ""),
        Reply::text(404, "<html>not found</html>"),
        Reply::text(403, "Permission denied"),
        Reply::text(500, "Unknown allocation \"x\""),
        Reply::text(404, "alloc not found"),
        Reply::text(404, "job not found"),
        Reply::text(404, "node not found"),
    ])
    .await;
    let client = server.client().await;
    let job = Query::job("default", "web");
    let answer = client.query(&job).await.unwrap();
    assert_eq!((answer.value, answer.meta.index), (None, Some(35)));
    for kind in
        [ErrorKind::Unauthenticated, ErrorKind::Unsupported, ErrorKind::NotFound(Missing::Other), ErrorKind::Forbidden]
    {
        assert_eq!(client.query(&job).await.unwrap_err().kind(), kind);
    }
    let allocation = Query::allocation("default", ID);
    assert_eq!(client.query(&allocation).await.unwrap_err().kind(), ErrorKind::Forbidden);
    assert_eq!(client.query(&allocation).await.unwrap().value, None);
    assert_eq!(client.query(&Query::job_services("default", "web")).await.unwrap().value, []);
    assert_eq!(client.query(&Query::node(ID)).await.unwrap().value, None);
}

#[tokio::test]
async fn a_list_is_read_page_by_page() {
    let page = |ids: &[(&str, &str)], index: &str, next: Option<&str>| {
        let jobs: Vec<_> = ids.iter().map(|(namespace, id)| json!({"Namespace": namespace, "ID": id})).collect();
        let next = next.map(|next| ("X-Nomad-NextToken", next));
        let headers: Vec<_> = [("X-Nomad-Index", index)].into_iter().chain(next).collect();
        Reply::new(200, &headers, &json!(jobs).to_string())
    };
    let server = Server::start([
        page(&[("a", "x"), ("a", "y")], "9", Some("a.z/1")),
        // A page that repeats, as servers before 1.10.2 do.
        page(&[("a", "y"), ("b", "x")], "12", Some("b.y")),
        // A token that stays.
        page(&[("b", "y")], "13", Some("b.y")),
    ])
    .await;
    let client = server.client().await;
    let list = client.list_jobs("*", &ListOptions::new().page_size(2).meta()).await.unwrap();
    let ids: Vec<_> = list.value.iter().map(|job| format!("{}/{}", job.namespace, job.id)).collect();
    assert_eq!(ids, ["a/x", "a/y", "b/x", "b/y"]);
    assert_eq!((list.meta.index, list.meta.next_token), (Some(9), None));
    assert_eq!(
        server.lines(),
        [
            "GET /v1/jobs?meta=true&per_page=2&namespace=%2A",
            "GET /v1/jobs?meta=true&per_page=2&next_token=a.z%2F1&namespace=%2A",
            "GET /v1/jobs?meta=true&per_page=2&next_token=b.y&namespace=%2A",
        ]
    );
}

fn job() -> Job {
    let mut job = Job::new("web", JobType::Service);
    job.namespace = "shop".to_owned();
    job.task_groups.push(TaskGroup::new("g"));
    job
}

#[tokio::test]
async fn a_registration_is_checked() {
    let answer = json!({"EvalID": ID, "EvalCreateIndex": 12, "JobModifyIndex": 12, "Warnings": null, "Index": 13});
    let server = Server::start([Reply::value(&answer), Reply::value(&answer)]).await;
    let client = server.client().await;
    let registered = client.register(Register::new(&job(), Condition::Absent)).await.unwrap();
    assert_eq!((registered.eval_id.as_str(), registered.eval_create_index), (ID, 12));
    assert_eq!((registered.job_modify_index, registered.index, registered.warnings.as_str()), (12, 13, ""));
    let submission = Submission::new("{}", "json");
    let condition = Condition::Unchanged { job_modify_index: 7 };
    client.register(Register::new(&Job::new("web", JobType::Batch), condition).submission(&submission)).await.unwrap();

    assert_eq!(server.lines(), ["PUT /v1/jobs?namespace=shop", "PUT /v1/jobs?namespace=default"]);
    let requests = server.requests();
    assert_eq!(requests[0].header("content-type"), Some("application/json"));
    assert_eq!(
        requests[0].json(),
        json!({
            "Job": {"ID": "web", "Namespace": "shop", "Type": "service", "TaskGroups": [{"Name": "g"}]},
            "EnforceIndex": true, "JobModifyIndex": 0,
        })
    );
    assert_eq!(
        requests[1].json(),
        json!({
            "Job": {"ID": "web", "Type": "batch"}, "EnforceIndex": true, "JobModifyIndex": 7,
            "Submission": {"Source": "{}", "Format": "json"},
        })
    );
}

#[tokio::test]
async fn plan_deregister_and_namespace() {
    let plan = json!({"Diff": {"Type": "None"}, "JobModifyIndex": 49, "FailedTGAllocs": null, "Warnings": ""});
    let absent = json!({"EvalID": "", "EvalCreateIndex": 0, "JobModifyIndex": 0, "Index": 0});
    let there = json!({"EvalID": ID, "EvalCreateIndex": 91, "JobModifyIndex": 91, "Index": 91});
    let server = Server::start([
        Reply::value(&plan),
        Reply::value(&there),
        Reply::value(&absent),
        Reply::new(200, &[("X-Nomad-Index", "462")], ""),
    ])
    .await;
    let client = server.client().await;
    let planned = client.plan(&job(), true).await.unwrap();
    assert_eq!(planned.diff.unwrap().r#type.as_str(), "None");
    assert_eq!(planned.job_modify_index, 49);
    assert!(client.deregister("shop", "a/b", false).await.unwrap().existed());
    assert!(!client.deregister("shop", "web", true).await.unwrap().existed());
    let mut namespace = Namespace::new("shop");
    namespace.meta.insert("owner".to_owned(), "me".to_owned());
    client.put_namespace(&namespace).await.unwrap();
    assert_eq!(
        server.lines(),
        [
            "PUT /v1/job/web/plan?namespace=shop",
            "DELETE /v1/job/a%2Fb?namespace=shop",
            "DELETE /v1/job/web?namespace=shop&purge=true",
            "PUT /v1/namespace",
        ]
    );
    let requests = server.requests();
    assert_eq!(requests[0].json()["Diff"], true);
    assert_eq!(requests[3].json(), json!({"Name": "shop", "Meta": {"owner": "me"}}));
}

#[tokio::test]
async fn what_cannot_be_is_not_sent() {
    let server = Server::start([]).await;
    let client = server.client().await;
    let refused = |error: scheduler_nomad_client::Error| {
        assert_eq!((error.kind(), error.effect()), (ErrorKind::InvalidRequest, Effect::NotSent), "{error}");
    };
    refused(client.query(&Query::job("shop", "a/plan")).await.unwrap_err());
    refused(client.query(&Query::job("*", "web")).await.unwrap_err());
    refused(client.query(&Query::job_allocations("shop", "")).await.unwrap_err());
    refused(client.query(&Query::evaluation("shop", "a691a909")).await.unwrap_err());
    refused(client.query(&Query::namespace("a/b")).await.unwrap_err());
    refused(client.query(&Query::node("node-1")).await.unwrap_err());
    refused(client.query(&Query::service("shop", "a/b")).await.unwrap_err());
    refused(client.query(&Query::variable("shop", "a//b")).await.unwrap_err());
    refused(client.query(&Query::allocation_checks("*", ID)).await.unwrap_err());
    refused(client.query(&Query::jobs("a b", &ListOptions::new())).await.unwrap_err());
    refused(client.deregister("shop", "../x", true).await.unwrap_err());
    refused(client.plan(&Job::default(), false).await.unwrap_err());
    refused(client.put_namespace(&Namespace::new("")).await.unwrap_err());
    refused(client.delete_namespace("*").await.unwrap_err());
    let zero = Condition::Unchanged { job_modify_index: 0 };
    refused(client.register(Register::new(&job(), zero)).await.unwrap_err());
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn region_base_path_and_version() {
    let server = Server::start([Reply::value(&json!([]))]).await;
    let options = ConnectOptions::explicit(format!("{}/base/", server.url())).region("eu").default_namespace("shop");
    // The agent is not where the test server answers by itself, so this is the script's.
    let client = Client::connect(options).await;
    assert_eq!(server.lines(), ["GET /base/v1/agent/self?region=eu"]);
    assert!(client.is_err(), "a list is no agent");

    let server = Server::start([]).await;
    let client = Client::connect(server.options().default_namespace("shop")).await.unwrap();
    assert_eq!(client.default_namespace(), "shop");
    let version = client.server_version().unwrap();
    assert_eq!((version.major, version.minor, version.patch, version.text.as_str()), (2, 0, 6, "2.0.6-dev"));
}
