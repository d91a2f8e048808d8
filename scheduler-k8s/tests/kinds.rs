//! The kinds beside the Deployment: what they become, and what their objects say.
#![expect(clippy::unwrap_used, reason = "this is a test, which clippy cannot tell in its helpers")]

use scheduler_core::{
    Container, DiagnosisKind, EnvValue, Exit, Finished, Observation, Overlap, OwnerId, PerInstanceVolume, Role,
    RuntimeField, Seconds, Verdict, VolumeSource, Waiting, Workload,
};
use scheduler_k8s::{MainKind, NativeObjects, RenderContext, Rendered, observe, render};
use serde_json::{Value, json};

fn rendered(workload: Workload) -> Rendered {
    let owner = OwnerId::new("platform").unwrap();
    render(&workload.check().unwrap(), &owner, &RenderContext::new(3)).unwrap()
}

fn main_of(workload: Workload) -> Value {
    rendered(workload).main
}

fn web() -> Container {
    Container::new("web", "web:1")
}

#[test]
fn a_job_with_everything() {
    let workload = Workload::job("shop", "report").container(web()).with_job(|job| {
        job.completions = 5;
        job.parallelism = Some(2);
        job.retries = 3;
        job.deadline = Some(Seconds::new(60));
        job.time_to_live = Some(Seconds::new(3600));
    });
    insta::assert_json_snapshot!(main_of(workload));
}

#[test]
fn the_retries_of_a_single_completion_are_those_of_the_job() {
    let workload = Workload::job("shop", "report").container(web()).with_job(|job| job.retries = 3);
    let spec = main_of(workload)["spec"].clone();
    assert_eq!((&spec["backoffLimit"], &spec["parallelism"]), (&json!(3), &json!(1)));
    assert!(spec.get("completionMode").is_none() && spec.get("backoffLimitPerIndex").is_none());
}

#[test]
fn a_periodic_job() {
    let workload =
        Workload::periodic("shop", "report", "30 2 * * mon-fri").container(web()).with_periodic(|periodic| {
            periodic.time_zone = "Europe/Berlin".to_owned();
            periodic.overlap = Overlap::Replace;
            periodic.starting_deadline = Some(Seconds::new(30));
            periodic.keep_failed = Some(0);
            periodic.suspend = true;
        });
    insta::assert_json_snapshot!(main_of(workload));
}

#[test]
fn stable_identities() {
    let workload = Workload::service("shop", "db")
        .container(web().mount("data", "/data").env_from("AT", EnvValue::Field(RuntimeField::Ordinal)))
        .container(Container::new("log", "log:1").role(Role::Sidecar))
        .volume("data", VolumeSource::PerInstance(PerInstanceVolume::new("10Gi")))
        .stable();
    let objects: Vec<Value> = rendered(workload).objects().cloned().collect();
    insta::assert_json_snapshot!(objects);
}

#[test]
fn a_system() {
    insta::assert_json_snapshot!(main_of(Workload::system("shop", "agent").container(web())));
}

#[test]
fn an_ordinal_comes_from_where_the_kind_has_it() {
    let with = web().env_from("AT", EnvValue::Field(RuntimeField::Ordinal));
    let job = Workload::job("shop", "report").container(with).with_job(|job| job.completions = 2);
    let path = "/spec/template/spec/containers/0/env/0/valueFrom/fieldRef/fieldPath";
    let main = main_of(job);
    assert_eq!(main.pointer(path).unwrap(), "metadata.annotations['batch.kubernetes.io/job-completion-index']");
}

#[test]
fn a_patch_is_for_the_main_object_that_there_is() {
    let refused = |workload: Workload, extension: Value| {
        let kubernetes = scheduler_core::BackendName::kubernetes();
        let workload = workload.container(web()).extension(&kubernetes, extension).check().unwrap();
        let owner = OwnerId::new("platform").unwrap();
        let error = render(&workload, &owner, &RenderContext::new(1)).map(|_| ()).unwrap_err();
        error.causes()[0].path.clone()
    };
    let at = "extensions.kubernetes";
    let job = || Workload::job("shop", "report");
    let periodic = || Workload::periodic("shop", "report", "0 0 * * *");
    assert_eq!(refused(job(), json!({"deployment": {"spec": {"x": 1}}})), format!("{at}.deployment"));
    assert_eq!(
        refused(
            periodic(),
            json!({"cron_job": {"spec": {"jobTemplate": {"metadata": {"labels": {"scheduler/target": "x"}}}}}})
        ),
        format!("{at}.cron_job.spec.jobTemplate.metadata.labels[\"scheduler/target\"]")
    );
    assert_eq!(
        refused(periodic(), json!({"cron_job": {"spec": {"jobTemplate": {"spec": {"template": null}}}}})),
        format!("{at}.cron_job.spec.jobTemplate.spec.template")
    );
}

const NOW: &str = "2026-01-01T01:00:00Z";
const EARLY: &str = "2026-01-01T00:00:00Z";
const LATE: &str = "2026-01-01T00:59:50Z";

/// A main object with this specification and status, of patience 600.
fn main_object(spec: Value, status: Value) -> Value {
    json!({
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "m", "generation": 2,
            "labels": {"scheduler/owner": "platform", "scheduler/target": "web"},
            "annotations": {"scheduler/patience": "600"},
            "managedFields": [{
                "manager": "scheduler", "operation": "Apply", "time": EARLY, "fieldsV1": {"f:spec": {"f:template": {}}},
            }],
        },
        "spec": spec,
        "status": status,
    })
}

fn see(kind: MainKind, main: &Value, between: &[Value], pods: &[Value]) -> Observation {
    let (between, pods): (Vec<&Value>, Vec<&Value>) = (between.iter().collect(), pods.iter().collect());
    observe(&NativeObjects::new(kind, main).pods(&between, &pods), NOW.parse().unwrap()).unwrap()
}

fn pod(name: &str, controller: &str, labels: Value, status: Value) -> Value {
    json!({
        "metadata": {
            "name": name, "uid": format!("12345678-{name}"), "creationTimestamp": EARLY, "labels": labels,
            "ownerReferences": [{"uid": controller, "controller": true}],
        },
        "spec": {"nodeName": "n", "containers": [{"name": "web"}]},
        "status": status,
    })
}

fn ready(since: &str) -> Value {
    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}]})
}

fn terminated(phase: &str, end: Value) -> Value {
    json!({"phase": phase, "containerStatuses": [{"name": "web", "restartCount": 0, "state": {"terminated": end}}]})
}

fn condition(kind: &str, reason: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": reason, "lastTransitionTime": LATE, "message": "in words"})
}

/// BR-79: what is about to be so is not so yet.
#[test]
fn a_job_has_ended_when_its_last_condition_says_so() {
    let of = |conditions: Value| {
        let status = json!({"startTime": EARLY, "succeeded": 2, "failed": 1, "conditions": conditions});
        see(MainKind::Job, &main_object(json!({"completions": 3}), status), &[], &[])
    };
    for (conditions, finished, verdict) in [
        (json!([]), None, Verdict::Progressing(Waiting::Running)),
        (json!([condition("SuccessCriteriaMet", "")]), None, Verdict::Progressing(Waiting::Running)),
        (
            json!([condition("SuccessCriteriaMet", ""), condition("Complete", "")]),
            Some(Finished::Complete),
            Verdict::Complete,
        ),
        (json!([condition("FailureTarget", "")]), None, Verdict::Progressing(Waiting::Running)),
        (json!([condition("FailureTarget", ""), condition("Failed", "")]), Some(Finished::Failed), Verdict::Failed),
    ] {
        let seen = of(conditions.clone());
        assert_eq!((seen.finished, seen.verdict()), (finished, verdict), "{conditions}");
        assert_eq!((seen.counts.desired, seen.counts.succeeded, seen.counts.failed), (3, 2, 1));
    }
    let fresh = see(MainKind::Job, &main_object(json!({}), json!({})), &[], &[]);
    assert_eq!(fresh.verdict(), Verdict::Progressing(Waiting::Unnoticed));
}

/// BR-17: killed for its memory with exit code zero is no success. BR-81: what vanished has no exit code.
#[test]
fn how_an_instance_of_a_job_ended() {
    let status = json!({"startTime": EARLY, "conditions": [condition("Failed", "BackoffLimitExceeded")]});
    let main = main_object(json!({"completions": 1}), status);
    let of = |status: Value| {
        let seen = see(MainKind::Job, &main, &[], &[pod("web-a", "m", json!({}), status)]);
        let kinds: Vec<_> = seen.diagnoses.iter().map(|diagnosis| diagnosis.kind).collect();
        (seen.instances[0].exit, kinds)
    };
    let killed = of(terminated("Succeeded", json!({"exitCode": 0, "reason": "OOMKilled"})));
    assert!(killed.0.is_some_and(|exit: Exit| exit.code == 0 && !exit.is_success()), "{killed:?}");
    assert_eq!(killed.1, [DiagnosisKind::OutOfMemory]);
    let signal = of(terminated("Failed", json!({"exitCode": 143, "signal": 15, "reason": "Error"})));
    assert_eq!(signal.0.map(|exit| (exit.code, exit.signal)), Some((143, Some(15))));
    assert_eq!(signal.1, [DiagnosisKind::Exited]);
    let never_started = of(json!({"phase": "Failed", "reason": "NodeShutdown"}));
    assert_eq!(never_started, (None, vec![DiagnosisKind::Evicted]));
}

/// Only the last try of what was not reached says why; one that was tried again well says nothing.
#[test]
fn a_job_failed_for_its_last_tries() {
    let status = json!({"startTime": EARLY, "conditions": [condition("Failed", "FailedIndexes")]});
    let main = main_object(json!({"completions": 2}), status);
    let at = |name: &str, index: &str, created: &str, phase: &str, code: i32| {
        let mut pod = pod(name, "m", json!({}), terminated(phase, json!({"exitCode": code})));
        pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] = index.into();
        pod["metadata"]["creationTimestamp"] = created.into();
        pod
    };
    let pods = [
        // Times are cut to seconds.
        at("b", "0", EARLY, "Succeeded", 0),
        at("a", "0", EARLY, "Failed", 1),
        at("d", "1", LATE, "Failed", 3),
        at("c", "1", EARLY, "Failed", 2),
    ];
    let seen = see(MainKind::Job, &main, &[], &pods);
    let why: Vec<_> = seen.diagnoses.iter().map(|why| (why.instance.as_deref(), why.evidence.exit_code)).collect();
    assert_eq!(why, [(Some("d"), Some(3))]);
    assert_eq!(seen.instances.iter().map(|instance| instance.ordinal).max(), Some(Some(1)));
}

#[test]
fn a_job_that_took_too_long() {
    let status = json!({"startTime": EARLY, "conditions": [condition("Failed", "DeadlineExceeded")]});
    let seen = see(MainKind::Job, &main_object(json!({}), status), &[], &[]);
    let kinds: Vec<_> = seen.diagnoses.iter().map(|diagnosis| diagnosis.kind).collect();
    assert_eq!(kinds, [DiagnosisKind::JobDeadline]);
}

#[test]
fn what_a_schedule_made_is_no_workload_and_shows_with_it() {
    let job = |name: &str, target: &str, conditions: Value| {
        json!({
            "metadata": {
                "name": name, "namespace": "shop", "uid": name,
                "labels": {"scheduler/owner": "platform", "scheduler/target": target, "scheduler/run-of": "web"},
                "ownerReferences": [{"uid": "m", "controller": true}],
            },
            "status": {"startTime": EARLY, "conditions": conditions},
        })
    };
    let scheduled = job("web-1", "web", json!([condition("Complete", "")]));
    let by_hand = job("web-run-1", "web-run-1", json!([]));
    let active = job("web-2", "web", json!([]));
    let now = NOW.parse().unwrap();
    assert_eq!(observe(&NativeObjects::new(MainKind::Job, &scheduled), now), None);
    let run = observe(&NativeObjects::new(MainKind::Job, &by_hand), now).unwrap();
    assert_eq!(run.run_of.unwrap().as_str(), "web");

    let main = main_object(json!({"suspend": true}), json!({"lastScheduleTime": LATE}));
    let done = pod("web-1-a", "web-1", json!({}), terminated("Succeeded", json!({"exitCode": 0})));
    let runs = pod("web-run-1-a", "web-run-1", json!({}), ready(LATE));
    let seen = see(MainKind::CronJob, &main, &[scheduled, active, by_hand], &[done, runs]);
    assert_eq!((seen.verdict(), seen.counts.desired, seen.counts.live), (Verdict::Suspended, 0, 1));
    let schedule = seen.schedule.unwrap();
    assert_eq!((schedule.last.unwrap().to_string(), schedule.active), ("2026-01-01T00:59:50Z".to_owned(), 1));
    assert_eq!(seen.instances.len(), 2);
}

/// BR-13: a fresh one shows zero of zero.
#[test]
fn a_system_of_which_nobody_has_counted_the_nodes_progresses() {
    let of = |observed: i64| {
        let status = json!({"desiredNumberScheduled": 0, "numberReady": 0, "observedGeneration": observed});
        see(MainKind::DaemonSet, &main_object(json!({}), status), &[], &[]).verdict()
    };
    assert_eq!((of(0), of(2)), (Verdict::Progressing(Waiting::Unnoticed), Verdict::Healthy));
}

/// What the present template is, its newest revision says; and what nobody gives up is given up here.
#[test]
fn a_rollout_of_a_system() {
    let revision = |hash: &str, number: i64| {
        json!({
            "metadata": {
                "uid": hash, "labels": {"controller-revision-hash": hash},
                "ownerReferences": [{"uid": "m", "controller": true}],
            },
            "revision": number,
        })
    };
    let of = |updated: u32, available: u32, since: &str| {
        let status = json!({
            "observedGeneration": 2, "desiredNumberScheduled": 2,
            "updatedNumberScheduled": updated, "numberAvailable": available,
        });
        let hash = |hash: &str| json!({"controller-revision-hash": hash});
        // The first revision was gone back to.
        let revisions = [revision("a", 3), revision("b", 2)];
        let pods = [pod("p", "m", hash("a"), ready(since)), pod("q", "m", hash("b"), ready(EARLY))];
        see(MainKind::DaemonSet, &main_object(json!({}), status), &revisions, &pods)
    };
    let rolling = of(1, 1, LATE);
    assert_eq!((rolling.counts.updated, rolling.counts.old), (1, 1));
    assert_eq!((rolling.completed, rolling.gave_up), (false, None));
    let stuck = of(1, 1, EARLY);
    assert_eq!(stuck.gave_up.unwrap().to_string(), "2026-01-01T00:10:00Z");
    assert_eq!(stuck.verdict(), Verdict::Failed);
}

/// BR-29: a rollout that the controller calls settled is complete when all are up.
#[test]
fn a_rollout_of_stable_identities() {
    let of = |current: &str, updated: u32, available: u32| {
        let status = json!({
            "observedGeneration": 2, "currentRevision": current, "updateRevision": "web-b",
            "updatedReplicas": updated, "availableReplicas": available,
        });
        let hash = |hash: &str| json!({"controller-revision-hash": hash});
        let pods = [pod("web-0", "m", hash("web-a"), ready(LATE)), pod("web-1", "m", hash("web-b"), ready(LATE))];
        see(MainKind::StatefulSet, &main_object(json!({"replicas": 2}), status), &[], &pods)
    };
    let rolling = of("web-a", 1, 2);
    assert_eq!(rolling.verdict(), Verdict::Progressing(Waiting::Updating));
    let ids: Vec<_> = rolling.instances.iter().map(|i| (i.id.as_str(), i.ordinal, i.current)).collect();
    assert_eq!(ids, [("web-0.12345678", Some(0), false), ("web-1.12345678", Some(1), true)]);
    assert!(!rolling.completed && of("web-b", 2, 2).completed);
}
