//! Recorded answers of Nomad 2.0.6, through the models and back.

use std::collections::BTreeMap;

use scheduler_nomad_client::model::{
    AgentSelf, Allocation, CheckResult, CheckStatus, ClientStatus, Deployment, DeploymentStatus, DesiredStatus,
    DiffType, EvalStatus, Evaluation, Job, JobStub, JobSummary, JobType, Namespace, NamespaceServices, Nanos, Node,
    NodeEligibility, NodeStatus, Planned, ScaleStatus, ServiceRegistration, Submission, TaskStateName, UnixNanos,
    Variable, VariableStub,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

#[derive(serde::Deserialize)]
struct Recorded {
    of: String,
    body: Value,
}

fn recorded() -> Vec<Recorded> {
    serde_json::from_str(include_str!("../fixtures/answers.json")).unwrap()
}

fn bodies(of: &str) -> Vec<Value> {
    let bodies: Vec<_> = recorded().into_iter().filter(|answer| answer.of == of).map(|answer| answer.body).collect();
    assert!(!bodies.is_empty(), "{of}");
    bodies
}

/// Drops what the server treats like "not given" and the models leave out: null, empty, and for the server's own fields
/// false and zero.
fn normal(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (key.clone(), normal(value)))
            .filter(|(_, value)| !is_nothing(value))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Array(items) => items.iter().map(normal).collect(),
        other => other.clone(),
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.values().all(is_zero),
        other => *other == json!(0) || *other == json!(false),
    }
}

/// `at` names what differs, if anything does.
fn same(before: &Value, after: &Value, zero_is_nothing: &dyn Fn(&str) -> bool, at: &str) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (key, value) in before {
                match after.get(key) {
                    Some(other) => same(value, other, zero_is_nothing, &format!("{at}/{key}")),
                    None => assert!(is_zero(value) && zero_is_nothing(key), "{at}/{key} is lost: {value}"),
                }
            }
            for key in after.keys() {
                assert!(before.contains_key(key), "{at}/{key} is new");
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            assert_eq!(before.len(), after.len(), "{at}");
            for (place, (before, after)) in before.iter().zip(after).enumerate() {
                same(before, after, zero_is_nothing, &format!("{at}/{place}"));
            }
        }
        _ => assert_eq!(before, after, "{at}"),
    }
}

fn round<T: DeserializeOwned + Serialize>(body: &Value, zero_is_nothing: &dyn Fn(&str) -> bool) -> T {
    let model: T = serde_json::from_value(body.clone()).unwrap_or_else(|error| panic!("{error}: {body}"));
    same(&normal(body), &normal(&serde_json::to_value(&model).unwrap()), zero_is_nothing, "");
    model
}

/// The fields of a job that only the server writes, and for which it takes "not given" as false and zero.
fn of_server(key: &str) -> bool {
    ["Stop", "Stable", "Dispatched", "Version", "CreateIndex", "ModifyIndex", "JobModifyIndex", "SubmitTime"]
        .contains(&key)
}

#[test]
fn a_job_survives_reading_and_writing() {
    for body in bodies("job") {
        let job: Job = round(&body, &of_server);
        assert_eq!(job.id, body["ID"].as_str().unwrap());
        assert_eq!(job.job_modify_index, body["JobModifyIndex"].as_u64().unwrap());
        assert_eq!(job.task_groups.len(), body["TaskGroups"].as_array().unwrap().len());
    }
    for body in bodies("versions") {
        for version in body["Versions"].as_array().unwrap() {
            round::<Job>(version, &of_server);
        }
    }
}

#[test]
fn fields_to_come_survive() {
    let body = json!({
        "ID": "web", "Type": "service", "New": {"a": [1, null]}, "Priority": 0,
        "TaskGroups": [{"Name": "g", "Count": 0, "New": 1.5,
            "Update": {"MaxParallel": 0, "New": true},
            "Services": [{"Name": "s", "New": "x", "Checks": [{"Type": "http", "New": 1}]}],
            "Networks": [{"DynamicPorts": [{"Label": "http", "To": 0, "New": 1}]}],
            "Tasks": [{"Name": "t", "Driver": "exec", "KillTimeout": 0, "Leader": false, "New": [1],
                "Config": {"image": "x", "nested": {"deep": [{"a": null}]}},
                "Resources": {"CPU": 18446744073709551615u64, "New": -1}}]}],
    });
    let job: Job = serde_json::from_value(body.clone()).unwrap();
    assert_eq!(serde_json::to_value(&job).unwrap(), body);
    assert_eq!(job.task_groups[0].count, Some(0), "zero is not the same as not given");
}

#[test]
fn null_is_empty() {
    let body =
        json!({"ID": "web", "Datacenters": null, "TaskGroups": null, "Meta": null, "Periodic": null, "Stop": null});
    let job: Job = serde_json::from_value(body).unwrap();
    assert!(job.task_groups.is_empty() && job.meta.is_empty() && !job.stop);
    assert_eq!(serde_json::to_value(Job::new("web", JobType::Batch)).unwrap(), json!({"ID": "web", "Type": "batch"}));
}

#[test]
fn what_is_observed() {
    let any = |_: &str| true;
    for body in bodies("job_allocations") {
        for item in body.as_array().unwrap() {
            let allocation: Allocation = round(item, &any);
            assert!(!matches!(allocation.client_status, ClientStatus::Other(_)), "{allocation:?}");
            assert!(!matches!(allocation.desired_status, DesiredStatus::Other(_)), "{allocation:?}");
            assert!(allocation.job_version.is_some(), "lists have it");
            for state in allocation.task_states.values() {
                assert!(!matches!(state.state, TaskStateName::Other(_)), "{state:?}");
                assert!(state.events.iter().all(|event| !event.r#type.is_empty() && event.time.get() > 0));
            }
        }
    }
    for body in bodies("allocation") {
        let allocation: Allocation = round(&body, &any);
        assert_eq!(allocation.job.unwrap().id, allocation.job_id);
    }
    let lists = bodies("job_evaluations");
    for body in bodies("evaluation").iter().chain(lists.iter().flat_map(|list| list.as_array().unwrap())) {
        let evaluation: Evaluation = round(body, &any);
        assert!(!matches!(evaluation.status, EvalStatus::Other(_)));
    }
    let lists = [bodies("deployments"), bodies("job_deployments")].concat();
    for body in bodies("deployment").iter().chain(lists.iter().flat_map(|list| list.as_array().unwrap())) {
        let deployment: Deployment = round(body, &any);
        assert!(!matches!(deployment.status, DeploymentStatus::Other(_)));
        assert!(!deployment.task_groups.is_empty());
    }
    for body in bodies("jobs").iter().flat_map(|list| list.as_array().unwrap()) {
        let stub: JobStub = round(body, &any);
        assert_eq!(stub.job_summary.unwrap().job_id, stub.id);
    }
    for body in bodies("namespace") {
        round::<Namespace>(&body, &any);
    }
    for body in bodies("plan") {
        let planned: Planned = round(&body, &any);
        let r#type = body["Diff"]["Type"].as_str();
        assert_eq!(planned.diff.map(|diff| diff.r#type), r#type.map(DiffType::from));
    }
    let agent: AgentSelf = serde_json::from_value(bodies("agent").remove(0)).unwrap();
    assert_eq!(agent.member.tags["build"], "2.0.6-dev");
    let submission: Submission = round(&bodies("submission")[0], &any);
    assert_eq!(submission.source, "job \"large3\" {}");
}

/// The parent and the child of a clock, and those of a dispatch.
#[test]
fn jobs_that_make_jobs() {
    let jobs: Vec<Job> = bodies("job").into_iter().map(|body| serde_json::from_value(body).unwrap()).collect();
    let find = |start: &str| jobs.iter().find(|job| job.id.starts_with(start)).unwrap();
    let cron = find("cron").periodic.as_ref().unwrap();
    assert_eq!((cron.enabled, cron.prohibit_overlap, cron.time_zone.as_str()), (Some(true), Some(true), "UTC"));
    assert_eq!(cron.specs, ["0 0 1 1 *"]);
    let run = find("cron/periodic-");
    assert_eq!((run.parent_id.as_str(), run.periodic.is_none(), run.is_template()), ("cron", true, false));
    let template = find("disp");
    assert!(template.is_template());
    assert_eq!(template.parameterized_job.as_ref().unwrap().meta_required, ["who"]);
    let run = find("disp/dispatch-");
    // It has the same block.
    assert!(run.dispatched && run.parameterized_job.is_some() && !run.is_template());
    assert_eq!(run.parent_id, "disp");
}

#[test]
fn what_the_other_reads_answer() {
    let any = |_: &str| true;
    let scales: Vec<ScaleStatus> = bodies("scale_status").iter().map(|body| round(body, &any)).collect();
    let group = &scales[0].task_groups["g"];
    assert_eq!((group.desired, group.placed, group.running, group.healthy, group.unhealthy), (3, 3, 3, 3, 0));
    assert_eq!((group.events[0].count, group.events[0].previous_count), (Some(3), 1));
    let note = scales[1].task_groups["g"].events.iter().find(|event| event.message == "note only").unwrap();
    assert_eq!((note.count, note.error), (None, false));
    let children: Vec<_> =
        bodies("job_summary").iter().map(|body| round::<JobSummary>(body, &any).children.unwrap()).collect();
    assert_eq!((children[0].running, children[0].dead, children[1].running, children[1].dead), (1, 0, 0, 1));

    let of: Vec<NamespaceServices> = round_all(&bodies("services")[0]);
    assert_eq!((of[0].services[0].service_name.as_str(), of[0].services[0].tags.len()), ("sv-web", 2));
    let registrations: Vec<ServiceRegistration> = round_all(&bodies("service")[0]);
    let allocation: Allocation = bodies("allocation")
        .iter()
        .map(|body| round(body, &any))
        .find(|allocation: &Allocation| allocation.id == registrations[0].alloc_id)
        .unwrap();
    let port = &allocation.allocated_resources.unwrap().shared.ports[0];
    assert_eq!((port.label.as_str(), port.value, port.host_ip.as_str()), ("http", 28269, "127.0.0.1"));
    assert_eq!((registrations[0].port, registrations[0].address.as_str()), (28269, "127.0.0.1"));
    let found: Vec<_> = bodies("checks")
        .into_iter()
        .flat_map(|body| serde_json::from_value::<BTreeMap<String, CheckResult>>(body).unwrap().into_values())
        .map(|check| (check.status, check.status_code))
        .collect();
    assert_eq!(found, [(CheckStatus::Success, 200), (CheckStatus::Failure, 503)]);

    let variable: Variable = round(&bodies("variable")[0], &any);
    assert_eq!((variable.path.as_str(), variable.items["a"].expose()), ("nomad/jobs/vv", "1"));
    let stubs: Vec<VariableStub> = round_all(&bodies("variables")[0]);
    assert_eq!((stubs[0].path.as_str(), stubs[0].modify_index), ("nomad/jobs/vv", 450));
    let nodes: Vec<Node> = round_all(&bodies("nodes")[0]);
    assert_eq!((&nodes[0].status, &nodes[0].scheduling_eligibility), (&NodeStatus::Ready, &NodeEligibility::Eligible));
    assert!(nodes[0].drivers["raw_exec"].healthy && !nodes[0].drivers["docker"].detected);
    let waiting: Deployment = bodies("deployment")
        .iter()
        .map(|body| round(body, &any))
        .find(|deployment: &Deployment| deployment.status_description.contains("manual promotion"))
        .unwrap();
    let group = &waiting.task_groups["g"];
    assert_eq!((group.desired_canaries, group.promoted), (1, false));
}

fn round_all<T: DeserializeOwned + Serialize>(body: &Value) -> Vec<T> {
    body.as_array().unwrap().iter().map(|item| round(item, &|_| true)).collect()
}

/// An evaluation that could not place everything: recorded from a job that wants Plan 9.
#[test]
fn why_something_is_not_placed() {
    let of = |body: Value| serde_json::from_value::<Vec<Evaluation>>(body).unwrap();
    let all: Vec<_> = bodies("job_evaluations").into_iter().flat_map(of).collect();
    let reason = "${attr.kernel.name} = plan9";
    let found = all.iter().flat_map(|evaluation| evaluation.failed_tg_allocs.values());
    let found: Vec<_> = found.filter(|metric| metric.constraint_filtered.contains_key(reason)).collect();
    // Of a system job the server leaves the datacenters out.
    assert!(found.iter().all(|metric| metric.nodes_filtered == 1));
    assert!(found.iter().any(|metric| metric.nodes_available.get("dc1") == Some(&1)));
}

#[test]
fn words_stay_open() {
    for (word, status) in [("run", DesiredStatus::Run), ("hover", DesiredStatus::Other("hover".to_owned()))] {
        assert_eq!(DesiredStatus::from(word), status);
        assert_eq!(serde_json::to_value(&status).unwrap(), json!(word));
        assert_eq!(status.to_string(), word);
    }
}

#[test]
fn times() {
    use std::time::Duration;
    assert_eq!(Nanos::from(Duration::from_millis(1500)).get(), 1_500_000_000);
    assert_eq!(Nanos::from(Duration::MAX).get(), i64::MAX);
    assert_eq!(Nanos::new(-1).to_duration(), Duration::ZERO);
    assert_eq!(Nanos::new(7).to_duration(), Duration::from_nanos(7));
    let time: UnixNanos = serde_json::from_value(json!(1_796_073_195_639_007_254_i64)).unwrap();
    let since = time.to_system_time().unwrap().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert_eq!((since.as_secs(), since.subsec_nanos()), (1_796_073_195, 639_007_254));
    assert_eq!(UnixNanos::default().to_system_time(), None);
}
