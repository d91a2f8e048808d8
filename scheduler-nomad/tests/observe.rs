//! What a job and its parts say of a workload: answers recorded from Nomad 2.0.6, with our marks put in, and what follows
//! from small changes of them.
#![expect(clippy::unwrap_used, reason = "this is a test, which clippy cannot tell in its helpers")]

use scheduler_core::{
    ConfigRef, Container, DiagnosisKind, Exit, Finished, InstanceState, KindName, Observation, OwnerId, Timestamp,
    Verdict, VolumeSource, Waiting, Workload,
};
use scheduler_nomad::client::model::{Allocation, Deployment, Evaluation, Job, Submission};
use scheduler_nomad::{Driver, NativeObjects, PeriodicRun, RenderContext, observe, render};
use serde::Deserialize;
use serde_json::{Value, json};

/// What was recorded.
#[derive(Clone, Deserialize)]
struct Recorded {
    job: Value,
    allocations: Vec<Value>,
    deployments: Vec<Value>,
    evaluations: Vec<Value>,
    /// The newest time in it.
    at_ms: i64,
}

macro_rules! recorded {
    ($name:literal) => {
        serde_json::from_str::<Recorded>(include_str!(concat!("fixtures/", $name, ".json"))).unwrap()
    };
}

fn typed<T: serde::de::DeserializeOwned>(values: &[Value]) -> Vec<T> {
    values.iter().map(|value| serde_json::from_value(value.clone()).unwrap()).collect()
}

/// What is seen so many seconds after the last thing that happened.
fn seen_after(recorded: &Recorded, seconds: i64) -> Option<Observation> {
    let mut job = recorded.job.clone();
    job["Meta"]["scheduler/owner"] = "platform".into();
    let job: Job = serde_json::from_value(job).unwrap();
    let allocations = typed::<Allocation>(&recorded.allocations);
    let (deployments, evaluations) =
        (typed::<Deployment>(&recorded.deployments), typed::<Evaluation>(&recorded.evaluations));
    let objects = NativeObjects::new(&job).allocations(&allocations).rollout(&deployments, &evaluations);
    observe(&objects, Timestamp::from_millis(recorded.at_ms + seconds * 1000))
}

fn seen(recorded: &Recorded) -> Observation {
    seen_after(recorded, 0).unwrap()
}

fn kinds(seen: &Observation) -> Vec<(DiagnosisKind, bool)> {
    seen.diagnoses.iter().map(|d| (d.kind, d.current)).collect()
}

#[test]
fn a_first_rollout_is_not_complete_before_its_deployment_is() {
    let starting = seen(&recorded!("starting"));
    assert_eq!(starting.verdict(), Verdict::Progressing(Waiting::NeverComplete));
    // Nothing is checked, so that it is ready as soon as it runs.
    assert_eq!((starting.counts.desired, starting.counts.updated, starting.counts.ready), (1, 1, 1));
    let complete = seen(&recorded!("complete"));
    assert_eq!((complete.verdict(), complete.counts.available), (Verdict::Healthy, 1));
    assert_eq!(complete.instances[0].node.as_deref(), Some("node-1"));
}

#[test]
fn nothing_counts_before_the_scheduler_looked() {
    let mut unnoticed = recorded!("starting");
    unnoticed.evaluations[0]["Status"] = "pending".into();
    assert_eq!(seen(&unnoticed).verdict(), Verdict::Progressing(Waiting::Unnoticed));
    // A reschedule that is to come is no change that nobody looked at.
    unnoticed.evaluations[0]["WaitUntil"] = "2030-01-01T00:00:00Z".into();
    assert!(seen(&unnoticed).noticed);
    // Evaluations are collected.
    let mut collected = recorded!("complete");
    collected.evaluations.clear();
    assert!(seen(&collected).noticed);
}

#[test]
fn stable_stands_for_a_deployment_that_was_collected() {
    let mut collected = recorded!("complete");
    collected.deployments.clear();
    assert_eq!(seen(&collected).verdict(), Verdict::Healthy);
    collected.job["Stable"] = false.into();
    assert_eq!(seen(&collected).verdict(), Verdict::Progressing(Waiting::NeverComplete));
}

#[test]
fn a_deployment_of_another_version_or_of_another_job_says_nothing() {
    for (field, value) in [("JobVersion", 7), ("JobCreateIndex", 1)] {
        let mut other = recorded!("complete");
        other.job["Stable"] = false.into();
        other.deployments[0][field] = value.into();
        assert_eq!(seen(&other).verdict(), Verdict::Progressing(Waiting::NeverComplete), "{field}");
    }
}

#[test]
fn a_task_between_two_starts_is_diagnosed() {
    let seen = seen(&recorded!("crash-loop"));
    assert_eq!(
        (seen.verdict(), kinds(&seen)),
        (Verdict::Progressing(Waiting::NeverComplete), vec![(DiagnosisKind::CrashLoop, true)])
    );
    let diagnosis = &seen.diagnoses[0];
    assert_eq!((diagnosis.evidence.exit_code, diagnosis.evidence.restarts), (Some(1), Some(1)));
    assert_eq!((diagnosis.container.as_deref(), &diagnosis.instance), (Some("t"), &Some(seen.instances[0].id.clone())));
    assert!(diagnosis.evidence.events.iter().any(|event| event.reason == "Restarting"));
    assert_eq!((seen.instances[0].state, seen.instances[0].restarts), (InstanceState::Starting, 1));
}

#[test]
fn what_failed_for_good_is_failed_and_says_why() {
    let seen = seen(&recorded!("crash-given-up"));
    assert_eq!((seen.verdict(), kinds(&seen)), (Verdict::Failed, vec![(DiagnosisKind::CrashLoop, true)]));
    assert_eq!(seen.counts.live, 0);
    // Also where the deployment is gone: nothing is left to be placed.
    let mut collected = recorded!("crash-given-up");
    collected.deployments.clear();
    assert_eq!(seen_after(&collected, 0).unwrap().verdict(), Verdict::Failed);
}

#[test]
fn a_canary_that_failed_is_why_the_update_did_and_the_old_ones_serve() {
    let seen = seen(&recorded!("canary-failed"));
    assert_eq!((seen.verdict(), kinds(&seen)), (Verdict::Failed, vec![(DiagnosisKind::StartError, true)]));
    assert_eq!((seen.counts.old, seen.counts.ready, seen.counts.live), (2, 0, 2));
    let serving = seen.instances.iter().filter(|i| !i.current && i.state == InstanceState::Ready);
    assert_eq!(serving.count(), 2);
}

#[test]
fn a_deadline_without_a_reason_is_the_diagnosis() {
    let seen = seen(&recorded!("deadline"));
    assert_eq!((seen.verdict(), kinds(&seen)), (Verdict::Failed, vec![(DiagnosisKind::RolloutDeadline, true)]));
}

#[test]
fn what_is_stopped_is_being_deleted_until_its_last_allocation_has_ended() {
    let stopping = seen(&recorded!("stopping"));
    assert_eq!((stopping.verdict(), stopping.counts.live), (Verdict::Deleting, 1));
    assert_eq!(seen_after(&recorded!("stopped"), 0), None);
}

#[test]
fn what_cannot_be_placed_is_of_the_whole_and_failed_after_the_patience() {
    let blocked = recorded!("blocked");
    let early = seen(&blocked);
    assert_eq!(early.verdict(), Verdict::Progressing(Waiting::Updating));
    assert_eq!(kinds(&early), [(DiagnosisKind::Unschedulable, true)]);
    assert_eq!((early.diagnoses[0].instance.as_deref(), early.counts.live), (None, 0));
    assert!(early.diagnoses[0].message.contains("${"), "{}", early.diagnoses[0].message);
    let patience = i64::from(early.patience.get());
    assert_eq!(seen_after(&blocked, patience).unwrap().verdict(), Verdict::Failed);
}

#[test]
fn lost_allocations_have_ended_and_unknown_ones_have_not() {
    let lost = seen(&recorded!("lost"));
    assert_eq!((lost.verdict(), lost.counts.live, lost.counts.ready), (Verdict::Healthy, 1, 1));
    let unknown = seen(&recorded!("unknown"));
    assert_eq!((unknown.counts.live, unknown.counts.ready), (1, 0));
    assert_eq!(kinds(&unknown), [(DiagnosisKind::NodeLost, true)]);
}

/// An allocation that kept its old version through an update (hashicorp/nomad#14925).
#[test]
fn an_allocation_of_an_old_version_keeps_it_from_being_healthy() {
    let mut old = recorded!("complete");
    let mut other = old.allocations[0].clone();
    (other["ID"], other["JobVersion"]) = ("another".into(), 0.into());
    old.allocations[0]["JobVersion"] = 1.into();
    old.job["Version"] = 1.into();
    old.deployments[0]["JobVersion"] = 1.into();
    old.allocations.push(other);
    assert_eq!(seen(&old).verdict(), Verdict::Progressing(Waiting::OldInstances));
}

#[test]
fn a_check_makes_ready_what_the_deployment_calls_healthy() {
    let gated = |health: Value, deployment: &str| {
        let mut gated = recorded!("starting");
        gated.job["TaskGroups"][0]["Update"]["HealthCheck"] = "checks".into();
        gated.job["TaskGroups"][0]["Services"] = json!([{"Name": "tl", "Checks": [{"Name": "c", "Type": "tcp"}]}]);
        gated.allocations[0]["DeploymentStatus"] = health;
        gated.deployments[0]["Status"] = deployment.into();
        seen(&gated).instances[0].state
    };
    assert_eq!(gated(Value::Null, "running"), InstanceState::Running);
    assert_eq!(gated(Value::Null, "failed"), InstanceState::Running);
    assert_eq!(gated(json!({"Healthy": false}), "running"), InstanceState::Running);
    assert_eq!(gated(json!({"Healthy": true}), "running"), InstanceState::Ready);
    // What replaces another after the rollout is asked by nobody.
    assert_eq!(gated(Value::Null, "successful"), InstanceState::Ready);
}

#[test]
fn a_job_is_complete_when_each_of_its_instances_ended_well() {
    let running = seen(&recorded!("job-running"));
    assert_eq!((running.kind, running.verdict()), (KindName::Job, Verdict::Progressing(Waiting::Running)));
    assert_eq!((running.counts.desired, running.counts.live, running.counts.succeeded), (2, 2, 0));
    let complete = seen(&recorded!("job-complete"));
    assert_eq!((complete.verdict(), complete.finished), (Verdict::Complete, Some(Finished::Complete)));
    assert_eq!((complete.counts.succeeded, complete.counts.failed, complete.counts.live), (2, 0, 0));
    let mut ordinals: Vec<_> = complete.instances.iter().map(|i| i.ordinal).collect();
    ordinals.sort();
    assert_eq!((ordinals, complete.instances[0].exit), (vec![Some(0), Some(1)], Some(Exit::new(0))));
}

/// hashicorp/nomad#12489: the server calls it pending, or waits for an evaluation.
#[test]
fn a_job_is_failed_by_its_instances_and_not_by_its_status() {
    let mut half = recorded!("job-half-failed");
    for status in ["dead", "pending"] {
        half.job["Status"] = status.into();
        let seen = seen(&half);
        assert_eq!((seen.verdict(), seen.counts.succeeded, seen.counts.failed), (Verdict::Failed, 1, 1), "{status}");
        assert_eq!(kinds(&seen), [(DiagnosisKind::Exited, true)]);
    }
    // As long as the other one runs, the job goes on.
    let other = half.allocations.iter().position(|alloc| alloc["ClientStatus"] == "complete").unwrap();
    half.allocations[other]["ClientStatus"] = "running".into();
    assert_eq!(seen(&half).finished, None);
    let signalled = seen(&recorded!("job-signalled"));
    assert_eq!((signalled.verdict(), signalled.diagnoses[0].evidence.signal), (Verdict::Failed, Some(15)));
    assert_eq!(signalled.instances[0].exit.unwrap().signal, Some(15));
}

#[test]
fn a_job_that_is_to_be_placed_anew_goes_on() {
    let mut anew = recorded!("job-placed-anew");
    assert_eq!(seen(&anew).finished, None);
    let follow_up = anew.allocations[0].as_object_mut().unwrap();
    follow_up.remove("FollowupEvalID");
    assert_eq!(seen(&anew).finished, Some(Finished::Failed));
}

/// An end for want of memory is none that is good (flyteorg/flyte#4704); nor is one from outside (apache/airflow#73006).
#[test]
fn exit_code_zero_is_not_always_success() {
    let mut starved = recorded!("job-complete");
    let alloc = &mut starved.allocations[0];
    let events = alloc["TaskStates"]["t"]["Events"].as_array_mut().unwrap();
    let end = events.iter_mut().find(|event| event["Type"] == "Terminated").unwrap();
    end["Details"]["oom_killed"] = "true".into();
    let judged = seen(&starved);
    assert_eq!((judged.verdict(), judged.counts.succeeded), (Verdict::Failed, 1));
    assert_eq!(kinds(&judged), [(DiagnosisKind::OutOfMemory, true)]);
    let mut stopped = recorded!("job-stopped");
    stopped.job["Stop"] = false.into();
    // Its evaluations were collected; that takes a while.
    let judged = seen_after(&stopped, 60).unwrap();
    assert_eq!((judged.counts.succeeded, judged.finished), (0, Some(Finished::Failed)));
    assert_eq!(judged.instances[0].exit, Some(Exit::new(0)));
}

/// A completion that was reached is reached, whatever became of another try.
#[test]
fn one_success_of_a_completion_is_enough() {
    let mut twice = recorded!("job-complete");
    let mut later = twice.allocations[0].clone();
    (later["ID"], later["CreateIndex"], later["ClientStatus"]) = ("later".into(), 999_999.into(), "failed".into());
    twice.allocations.push(later);
    let twice = seen(&twice);
    assert_eq!((twice.finished, twice.counts.succeeded, twice.counts.failed), (Some(Finished::Complete), 2, 1));
}

/// What ran before a job was stopped and launched anew is of another life.
#[test]
fn instances_of_an_earlier_life_are_not_counted() {
    let mut again = recorded!("job-complete");
    again.job["Meta"]["scheduler/born"] = "1000000".into();
    let seen = seen(&again);
    assert_eq!((seen.finished, seen.counts.succeeded, seen.instances.len()), (None, 0, 0));
    assert!(seen.incarnation.ends_with(".1000000"), "{}", seen.incarnation);
}

#[test]
fn a_canary_that_stands_the_test_waits_for_a_promotion() {
    let waiting = recorded!("canary-waiting");
    let judged = seen(&waiting);
    assert_eq!(judged.verdict(), Verdict::Progressing(Waiting::Promotion));
    assert_eq!((judged.counts.updated, judged.counts.old), (1, 2));
    let group = |change: fn(&mut Value)| {
        let mut changed = waiting.clone();
        change(&mut changed.deployments[0]["TaskGroups"]["g"]);
        seen(&changed).awaits_promotion
    };
    assert!(!group(|group| group["Promoted"] = true.into()));
    assert!(!group(|group| group["AutoPromote"] = true.into()));
    assert!(!group(|group| group["DesiredCanaries"] = 2.into()));
    // hashicorp/nomad#8150: one had to be replaced, and the server forgets to promote by itself.
    assert!(group(|group| {
        group["AutoPromote"] = true.into();
        group["PlacedCanaries"] = json!(["a", "b"]);
    }));
    let mut unwell = waiting.clone();
    for alloc in &mut unwell.allocations {
        if alloc["DeploymentStatus"]["Canary"] == true {
            alloc["DeploymentStatus"]["Healthy"] = false.into();
        }
    }
    assert!(!seen(&unwell).awaits_promotion);
}

/// hashicorp/nomad#12748: nodes that the placement rules out are none that are missing.
#[test]
fn a_system_is_for_the_nodes_that_have_it_or_lack_the_room() {
    let system = seen(&recorded!("system"));
    assert_eq!((system.kind, system.verdict()), (KindName::System, Verdict::Healthy));
    assert_eq!((system.counts.desired, system.counts.ready, system.counts.old), (1, 1, 0));
    let mut nowhere = recorded!("system-nowhere");
    let none = seen(&nowhere);
    assert_eq!((none.verdict(), none.counts.desired, kinds(&none)), (Verdict::Healthy, 0, vec![]));
    // A node without room has an evaluation of its own that waits.
    let mut full = nowhere
        .evaluations
        .iter()
        .find(|eval| eval["JobModifyIndex"] == nowhere.job["JobModifyIndex"])
        .unwrap()
        .clone();
    (full["ID"], full["Status"], full["NodeID"]) = ("waits".into(), "blocked".into(), "node-2".into());
    nowhere.evaluations.push(full);
    let full = seen(&nowhere);
    assert_eq!((full.counts.desired, kinds(&full)), (1, vec![(DiagnosisKind::Unschedulable, true)]));
    assert_eq!(full.verdict(), Verdict::Progressing(Waiting::Updating));
}

/// hashicorp/nomad#5487: with overlap prohibited two runs may go on, and both are shown.
#[test]
fn a_schedule_is_idle_and_tells_of_its_runs() {
    let workload = Workload::periodic("shop", "tick", "0 3 * * *").container(Container::new("t", "tick:1"));
    let workload = workload.check().unwrap();
    let mut job = render(&workload, &OwnerId::new("platform").unwrap(), &RenderContext::new(0)).unwrap().job;
    let run = |second: u32, status: &str, allocations: Vec<Allocation>| {
        let stub = json!({"ID": format!("tick/periodic-{second}"), "ParentID": "tick", "Status": status});
        PeriodicRun::new(serde_json::from_value(stub).unwrap(), allocations)
    };
    let running = recorded!("job-running");
    let runs =
        [run(100, "dead", vec![]), run(300, "running", typed(&running.allocations)), run(200, "running", vec![])];
    let see = |job: &Job| observe(&NativeObjects::new(job).runs(&runs), Timestamp::from_millis(running.at_ms)).unwrap();
    let idle = see(&job);
    assert_eq!((idle.verdict(), idle.counts.desired, idle.counts.live), (Verdict::Idle, 0, 2));
    let schedule = idle.schedule.unwrap();
    assert_eq!((schedule.active, schedule.last), (2, Some(Timestamp::from_millis(300_000))));
    job.periodic.as_mut().unwrap().enabled = Some(false);
    assert_eq!(see(&job).verdict(), Verdict::Suspended);
}

fn launched() -> (Job, Submission) {
    let web = Workload::service("shop", "web").replicas(2).container(Container::new("web", "web:1")).check().unwrap();
    let job = render(&web, &OwnerId::new("platform").unwrap(), &RenderContext::new(5)).unwrap().job;
    (job, Submission::new(serde_json::to_string(&web).unwrap(), "json"))
}

#[test]
fn the_revision_is_known_as_long_as_the_job_is_what_its_source_says() {
    let revision = |job: &Job, source: &Submission| {
        let objects = NativeObjects::new(job).source(Some(source), Driver::Docker);
        observe(&objects, Timestamp::from_millis(0)).unwrap().revision
    };
    let (job, source) = launched();
    assert!(revision(&job, &source).is_some());
    // The count is anybody's, and so is what we do not render.
    let mut scaled = job.clone();
    scaled.task_groups[0].count = Some(9);
    scaled.meta.insert("note".to_owned(), "x".to_owned());
    assert_eq!(revision(&scaled, &source), revision(&job, &source));
    let mut changed = job.clone();
    changed.task_groups[0].tasks[0].config.insert("image".to_owned(), "web:2".into());
    assert_eq!(revision(&changed, &source), None);
    assert_eq!(revision(&job, &Submission::new("job \"web\" {}", "hcl2")), None);
}

/// What other operations write into a job is no change of what was launched; nor are the names of a configuration's files.
#[test]
fn restarts_routes_and_files_leave_the_revision() {
    let config = ConfigRef::new("app", "0123456789abcdef");
    let web = Container::new("web", "web:1").port("http", 80).mount_read_only("conf", "/etc/app");
    let web = Workload::service("shop", "web").container(web).volume("conf", VolumeSource::Config(config.clone()));
    let web = web.check().unwrap();
    let context = RenderContext::new(1).config(config, ["a".to_owned(), "b.conf".to_owned()]);
    let mut job = render(&web, &OwnerId::new("platform").unwrap(), &context).unwrap().job;
    let source = Submission::new(serde_json::to_string(&web).unwrap(), "json");
    let revision = |job: &Job| {
        let objects = NativeObjects::new(job).source(Some(&source), Driver::Docker);
        observe(&objects, Timestamp::from_millis(0)).unwrap().revision
    };
    assert_eq!(revision(&job).as_ref(), Some(web.revision()));
    job.task_groups[0].tasks[0].meta.insert("scheduler/restart".to_owned(), "7".to_owned());
    job.task_groups[0].services[0].tags =
        ["traefik.enable=true", "scheduler.route=shop.example"].map(str::to_owned).into();
    assert_eq!(revision(&job).as_ref(), Some(web.revision()));
    job.task_groups[0].tasks[0].templates[0].embedded_tmpl = "other".to_owned();
    assert_eq!(revision(&job), None);
}

#[test]
fn a_job_without_our_mark_or_with_another_name_is_none_of_ours() {
    let (mut job, _) = launched();
    job.id = "Not A Workload".to_owned();
    assert_eq!(observe(&NativeObjects::new(&job), Timestamp::from_millis(0)), None);
    let (mut job, _) = launched();
    job.meta.remove("scheduler/owner");
    assert_eq!(observe(&NativeObjects::new(&job), Timestamp::from_millis(0)), None);
}
