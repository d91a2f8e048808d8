//! What native objects say of a workload: objects as servers answer them, reduced to what counts.
#![expect(clippy::unwrap_used, reason = "this is a test, which clippy cannot tell in its helpers")]

use scheduler_core::{
    Detail, DiagnosisKind, FaultOf, Instance, InstanceState, Observation, Timestamp, Verdict, Waiting,
};
use scheduler_k8s::{MainKind, NativeObjects, observe};
use serde_json::{Value, json};

/// The time at which everything is looked at.
const NOW: &str = "2026-01-01T01:00:00Z";
/// Long before it.
const EARLY: &str = "2026-01-01T00:00:00Z";
/// Shortly before it.
const LATE: &str = "2026-01-01T00:59:50Z";

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"scheduler/target": "web"}}, "spec": {"containers": [{"name": "web", "image": image}]}})
}

fn condition(kind: &str, status: &str, reason: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "lastTransitionTime": EARLY, "message": "in words"})
}

/// A Deployment at rest with this many replicas.
fn deployment(replicas: u32) -> Value {
    json!({
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "d", "generation": 5,
            "labels": {"scheduler/owner": "platform", "scheduler/target": "web", "scheduler/unit": "web", "team": "blue"},
            "annotations": {"scheduler/revision": "v1:0123456789012345678901234567890123456789"},
        },
        "spec": {"replicas": replicas, "progressDeadlineSeconds": 600, "template": template("web:2")},
        "status": {
            "observedGeneration": 5,
            "conditions": [condition("Progressing", "True", "NewReplicaSetAvailable")],
        },
    })
}

fn set(uid: &str, image: &str, created: &str) -> Value {
    let mut template = template(image);
    template["metadata"]["labels"]["pod-template-hash"] = uid.into();
    template["metadata"]["creationTimestamp"] = Value::Null;
    json!({
        "metadata": {
            "name": format!("web-{uid}"), "uid": uid, "creationTimestamp": created,
            "ownerReferences": [{"kind": "Deployment", "name": "web", "uid": "d", "controller": true}],
        },
        "spec": {"template": template},
    })
}

/// A Pod that has no node yet.
fn pod(name: &str, set: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "uid": format!("uid-{name}"), "creationTimestamp": EARLY,
            "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": set, "controller": true}],
        },
        "spec": {},
        "status": {"phase": "Pending"},
    })
}

fn on_node(name: &str, set: &str, containers: Value) -> Value {
    let mut pod = pod(name, set);
    pod["spec"]["nodeName"] = "node-a".into();
    pod["status"] = json!({
        "phase": "Running", "podIP": "10.0.0.1", "containerStatuses": containers,
        "conditions": [condition("PodScheduled", "True", ""), condition("Ready", "False", "ContainersNotReady")],
    });
    pod
}

fn ready(name: &str, set: &str) -> Value {
    let mut pod =
        on_node(name, set, json!([{"name": "web", "ready": true, "state": {"running": {"startedAt": EARLY}}}]));
    pod["status"]["conditions"][1] = condition("Ready", "True", "");
    pod
}

fn waiting(reason: &str) -> Value {
    json!([{"name": "web", "restartCount": 0, "state": {"waiting": {"reason": reason, "message": "in words"}}}])
}

fn crashed(end: Value) -> Value {
    json!([{
        "name": "web", "restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": end},
    }])
}

fn see(deployment: &Value, sets: &[Value], pods: &[Value], events: &[Value]) -> Observation {
    let (sets, pods, events): (Vec<_>, Vec<_>, Vec<_>) =
        (sets.iter().collect(), pods.iter().collect(), events.iter().collect());
    let objects = NativeObjects::new(MainKind::Deployment, deployment).pods(&sets, &pods).events(&events);
    observe(&objects, NOW.parse().unwrap()).unwrap()
}

/// One current Pod of a Deployment that wants one.
fn one(pod: Value) -> (Observation, Instance) {
    let seen = see(&deployment(1), &[set("new", "web:2", EARLY)], &[pod], &[]);
    let instance = seen.instances[0].clone();
    (seen, instance)
}

#[test]
fn a_deployment_at_rest_is_healthy() {
    let seen = see(&deployment(2), &[set("new", "web:2", EARLY)], &[ready("a", "new"), ready("b", "new")], &[]);
    assert_eq!(seen.verdict(), Verdict::Healthy);
    assert_eq!((seen.counts.desired, seen.counts.ready, seen.counts.available, seen.counts.old), (2, 2, 2, 0));
    assert_eq!(seen.target.to_string(), "shop/web");
    assert_eq!((seen.owner.as_str(), seen.incarnation.as_str()), ("platform", "d"));
    assert_eq!(seen.marks.unit.as_deref(), Some("web"));
    assert_eq!(seen.labels.iter().collect::<Vec<_>>(), [(&"team".to_owned(), &"blue".to_owned())]);
    assert_eq!(seen.revision.unwrap().as_str(), "v1:0123456789012345678901234567890123456789");
    assert_eq!(seen.diagnoses, []);
}

/// BR-13, BR-27: what the controller said before it noticed the change is about something else.
#[test]
fn what_was_said_of_an_earlier_generation_does_not_count() {
    let mut stale = deployment(3);
    stale["status"]["observedGeneration"] = 4.into();
    stale["status"]["conditions"] = json!([
        condition("Progressing", "False", "ProgressDeadlineExceeded"),
        condition("ReplicaFailure", "True", "FailedCreate"),
    ]);
    let seen = see(&stale, &[set("new", "web:2", EARLY)], &[on_node("a", "new", waiting("InvalidImageName"))], &[]);
    assert_eq!(seen.verdict(), Verdict::Progressing(Waiting::Unnoticed));
    assert!(seen.gave_up.is_none() && !seen.completed && seen.diagnoses.is_empty());
    let mut never = deployment(3);
    never["status"] = json!({});
    assert_eq!(see(&never, &[], &[], &[]).verdict(), Verdict::Progressing(Waiting::Unnoticed));
}

/// As the controller reports it when a failed update is taken back: it has noticed, and repeats itself once more.
#[test]
fn giving_up_before_the_last_change_does_not_count() {
    let gave_up = |written: &str, told: &str| {
        let mut back = deployment(3);
        let mut condition = condition("Progressing", "False", "ProgressDeadlineExceeded");
        condition["lastTransitionTime"] = told.into();
        back["status"]["conditions"] = json!([condition]);
        let spec = json!({"f:spec": {"f:template": {}}});
        back["metadata"]["managedFields"] = json!([
            {"manager": "scheduler", "operation": "Apply", "time": written, "fieldsV1": spec},
            {"manager": "kubectl", "operation": "Update", "time": NOW, "fieldsV1": spec, "subresource": "scale"},
            {"manager": "kubectl", "operation": "Update", "time": NOW, "fieldsV1": {"f:metadata": {}}},
        ]);
        see(&back, &[], &[], &[]).gave_up.is_some()
    };
    let (before, after) = (EARLY, LATE);
    assert!(gave_up(before, after));
    assert!(!gave_up(after, before));
    assert!(!gave_up(after, after));
    // It counts the time of the update that was taken back: the new one has not had its own.
    assert!(!gave_up(after, "2026-01-01T00:59:55Z"));
}

/// BR-15: the old Pods serve, and an init container of the new one crashes.
#[test]
fn old_pods_do_not_make_a_crashing_update_healthy() {
    let mut updating = deployment(2);
    updating["status"]["conditions"] = json!([
        condition("Available", "True", "MinimumReplicasAvailable"),
        condition("Progressing", "True", "ReplicaSetUpdated"),
    ]);
    let mut new = on_node("c", "new", waiting("PodInitializing"));
    let end = json!({"exitCode": 3, "reason": "Error", "finishedAt": LATE});
    new["status"]["initContainerStatuses"] = crashed(end);
    new["status"]["initContainerStatuses"][0]["name"] = "migrate".into();
    let sets = [set("old", "web:1", EARLY), set("new", "web:2", LATE)];
    let seen = see(&updating, &sets, &[ready("a", "old"), ready("b", "old"), new], &[]);
    assert_eq!((seen.counts.old, seen.counts.updated, seen.counts.ready), (2, 1, 0));
    let [diagnosis] = &*seen.diagnoses else { panic!("{:?}", seen.diagnoses) };
    assert_eq!((diagnosis.kind, diagnosis.container.as_deref()), (DiagnosisKind::CrashLoop, Some("migrate")));
    assert_eq!((diagnosis.evidence.exit_code, diagnosis.evidence.restarts), (Some(3), Some(4)));
    // It has lasted for an hour, which is beyond the patience.
    assert_eq!(seen.verdict(), Verdict::Failed);
}

/// BR-23: with room for unavailability the platform may say that it is complete with nothing ready.
#[test]
fn completion_without_a_ready_instance_is_not_health() {
    let mut pod = on_node("a", "new", waiting("ContainerCreating"));
    pod["metadata"]["creationTimestamp"] = LATE.into();
    let (seen, _) = one(pod);
    assert!(seen.completed);
    assert_eq!(seen.verdict(), Verdict::Progressing(Waiting::Starting));
}

/// BR-25: the clock of a paused rollout stands still.
#[test]
fn a_paused_rollout_has_not_failed() {
    let mut paused = deployment(1);
    paused["spec"]["paused"] = true.into();
    paused["status"]["conditions"] = json!([condition("Progressing", "False", "ProgressDeadlineExceeded")]);
    let seen = see(&paused, &[set("new", "web:2", EARLY)], &[ready("a", "new")], &[]);
    assert_eq!(seen.verdict(), Verdict::Progressing(Waiting::Paused));
}

#[test]
fn a_passed_deadline_is_failure() {
    let mut late = deployment(1);
    late["status"]["conditions"] = json!([condition("Progressing", "False", "ProgressDeadlineExceeded")]);
    let seen = see(&late, &[set("new", "web:2", EARLY)], &[], &[]);
    assert_eq!(seen.verdict(), Verdict::Failed);
    assert_eq!(seen.diagnoses[0].kind, DiagnosisKind::RolloutDeadline);
}

/// BR-55: an evicted Pod is a note.
#[test]
fn an_evicted_pod_is_not_counted() {
    let mut evicted = pod("a", "new");
    evicted["status"] = json!({"phase": "Failed", "reason": "Evicted", "message": "low on disk"});
    let seen = see(&deployment(0), &[set("new", "web:2", EARLY)], &[evicted], &[]);
    assert_eq!((seen.counts.live, seen.verdict()), (0, Verdict::Healthy));
    let [note] = &*seen.diagnoses else { panic!("{:?}", seen.diagnoses) };
    assert_eq!((note.kind, note.current, note.kind.fault()), (DiagnosisKind::Evicted, false, FaultOf::Platform));
}

/// BR-61: after a roll-back the older ReplicaSet is the current one.
#[test]
fn the_current_pods_are_those_of_the_current_template() {
    let sets = [set("rolled-back", "web:2", EARLY), set("newest", "web:3", LATE)];
    let seen = see(&deployment(1), &sets, &[ready("a", "rolled-back"), ready("b", "newest")], &[]);
    assert_eq!((seen.counts.updated, seen.counts.old), (1, 1));
    assert!(seen.instances.iter().any(|instance| instance.id == "a" && instance.current));
}

#[test]
fn a_pod_that_merely_matches_is_not_counted() {
    let mut bare = ready("bare", "new");
    bare["metadata"]["ownerReferences"] = json!([]);
    let mut stranger = set("strange", "web:2", EARLY);
    stranger["metadata"]["ownerReferences"][0]["uid"] = "another".into();
    let sets = [set("new", "web:2", EARLY), stranger];
    let seen = see(&deployment(1), &sets, &[ready("a", "new"), bare, ready("other", "strange")], &[]);
    assert_eq!((seen.counts.live, seen.verdict()), (1, Verdict::Healthy));
}

/// Nelson's bug: one Pod without a node broke the status of all.
#[test]
fn an_odd_pod_hides_no_other() {
    let mut odd = pod("odd", "new");
    odd["spec"] = json!([1]);
    odd["status"] = json!({"phase": 7, "conditions": {"a": 1}, "containerStatuses": "?"});
    let seen = see(&deployment(2), &[set("new", "web:2", EARLY)], &[odd, ready("a", "new")], &[]);
    assert_eq!((seen.counts.live, seen.counts.ready), (2, 1));
}

#[test]
fn the_states_of_instances() {
    let state = |pod| {
        let (_, instance) = one(pod);
        (instance.state, instance.since.to_string())
    };
    assert_eq!(state(pod("a", "new")), (InstanceState::Pending, EARLY.to_owned()));
    assert_eq!(state(on_node("a", "new", waiting("ContainerCreating"))).0, InstanceState::Starting);
    let running = json!([{"name": "web", "ready": false, "state": {"running": {"startedAt": LATE}}}]);
    assert_eq!(state(on_node("a", "new", running)), (InstanceState::Running, LATE.to_owned()));
    let mut leaving = ready("a", "new");
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T01:00:20Z".into();
    leaving["metadata"]["deletionGracePeriodSeconds"] = 30.into();
    assert_eq!(state(leaving.clone()), (InstanceState::Terminating, LATE.to_owned()));
    // Ended, and about to vanish.
    leaving["status"]["phase"] = "Succeeded".into();
    assert_eq!(see(&deployment(1), &[set("new", "web:2", EARLY)], &[leaving], &[]).instances, []);
}

#[test]
fn a_pod_on_a_lost_node_ends_with_its_grace() {
    let mut lost = ready("a", "new");
    lost["metadata"]["deletionGracePeriodSeconds"] = 30.into();
    lost["metadata"]["deletionTimestamp"] = "2026-01-01T01:00:20Z".into();
    lost["status"]["conditions"] = json!([condition("DisruptionTarget", "True", "DeletionByTaintManager")]);
    let (seen, instance) = one(lost.clone());
    assert_eq!((instance.state, seen.diagnoses[0].kind), (InstanceState::Terminating, DiagnosisKind::NodeLost));
    lost["metadata"]["deletionTimestamp"] = "2026-01-01T00:59:59Z".into();
    assert_eq!(one(lost).1.state, InstanceState::Ended);
}

#[test]
fn readiness_has_to_last_to_be_availability() {
    let mut patient = deployment(1);
    patient["spec"]["minReadySeconds"] = 15.into();
    let mut pod = ready("a", "new");
    pod["status"]["conditions"][1]["lastTransitionTime"] = LATE.into();
    let seen = see(&patient, &[set("new", "web:2", EARLY)], &[pod], &[]);
    assert_eq!((seen.counts.ready, seen.counts.available), (1, 0));
}

#[test]
fn diagnoses_by_reason() {
    use DiagnosisKind as K;
    for (reason, kind) in [
        ("ErrImagePull", Some(K::ImagePull)),
        ("ImagePullBackOff", Some(K::ImagePull)),
        ("RegistryUnavailable", Some(K::ImagePull)),
        ("InvalidImageName", Some(K::InvalidImage)),
        ("CreateContainerConfigError", Some(K::ConfigMissing)),
        ("CreateContainerError", Some(K::StartError)),
        ("RunContainerError", Some(K::StartError)),
        ("CrashLoopBackOff", Some(K::CrashLoop)),
        ("ContainerCreating", None),
        ("PodInitializing", None),
    ] {
        let (seen, _) = one(on_node("a", "new", waiting(reason)));
        assert_eq!(seen.diagnoses.first().map(|d| d.kind), kind, "{reason}");
    }
}

#[test]
fn diagnoses_by_how_a_container_ended() {
    use DiagnosisKind as K;
    for (end, kind, code, signal) in [
        (json!({"exitCode": 3, "reason": "Error"}), K::CrashLoop, 3, None),
        (json!({"exitCode": 0, "reason": "Completed"}), K::CrashLoop, 0, None),
        (json!({"exitCode": 139, "signal": 11, "reason": "Error"}), K::CrashLoop, 139, Some(11)),
        (json!({"exitCode": 137, "signal": 9, "reason": "OOMKilled"}), K::OutOfMemory, 137, Some(9)),
        // BR-17
        (json!({"exitCode": 0, "reason": "OOMKilled"}), K::OutOfMemory, 0, None),
        (json!({"exitCode": 128, "reason": "StartError"}), K::StartError, 128, None),
    ] {
        let (seen, _) = one(on_node("a", "new", crashed(end.clone())));
        let diagnosis = &seen.diagnoses[0];
        assert_eq!(diagnosis.kind, kind, "{end}");
        assert_eq!((diagnosis.evidence.exit_code, diagnosis.evidence.signal), (Some(code), signal), "{end}");
        assert_eq!(diagnosis.kind.fault(), FaultOf::Workload);
    }
}

#[test]
fn a_pod_without_room_is_unschedulable() {
    let mut homeless = pod("a", "new");
    homeless["status"]["conditions"] = json!([condition("PodScheduled", "False", "Unschedulable")]);
    let (seen, _) = one(homeless);
    let diagnosis = &seen.diagnoses[0];
    assert_eq!((diagnosis.kind, diagnosis.message.as_str()), (DiagnosisKind::Unschedulable, "in words"));
    assert_eq!(diagnosis.since, EARLY.parse::<Timestamp>().unwrap());
}

#[test]
fn refused_creation_is_the_workloads_as_a_whole_with_its_events() {
    let mut refused = deployment(1);
    refused["status"]["conditions"] = json!([condition("ReplicaFailure", "True", "FailedCreate")]);
    let event = |uid: &str, time: &str| json!({"involvedObject": {"uid": uid}, "reason": "FailedCreate", "message": "quota", "count": 3, "lastTimestamp": time});
    let events = [event("new", NOW), event("new", LATE), event("other", LATE)];
    let seen = see(&refused, &[set("new", "web:2", EARLY)], &[], &events);
    let [diagnosis] = &*seen.diagnoses else { panic!("{:?}", seen.diagnoses) };
    assert_eq!((diagnosis.kind, &diagnosis.instance), (DiagnosisKind::CreationRefused, &None));
    let times: Vec<_> = diagnosis.evidence.events.iter().map(|event| (event.time.to_string(), event.count)).collect();
    assert_eq!(times, [(LATE.to_owned(), 3), (NOW.to_owned(), 3)]);
    assert!(seen.clone().trimmed(Detail::Counts).diagnoses[0].evidence.events.is_empty());
}

#[test]
fn events_of_all_forms_have_a_time() {
    let about = json!({"uid": "uid-a"});
    let events = [
        json!({"involvedObject": about, "reason": "New", "eventTime": LATE, "lastTimestamp": null}),
        json!({"involvedObject": about, "reason": "Series", "eventTime": EARLY,
            "series": {"count": 9, "lastObservedTime": NOW}}),
        json!({"involvedObject": about, "reason": "Bare", "metadata": {"creationTimestamp": EARLY}}),
    ];
    let pods = [on_node("a", "new", waiting("ErrImagePull"))];
    let seen = see(&deployment(1), &[set("new", "web:2", EARLY)], &pods, &events);
    let told: Vec<_> =
        seen.diagnoses[0].evidence.events.iter().map(|e| (e.reason.as_str(), e.time.to_string(), e.count)).collect();
    let (early, late, now) = (EARLY.to_owned(), LATE.to_owned(), NOW.to_owned());
    assert_eq!(told, [("Bare", early, 1), ("New", late, 1), ("Series", now, 9)]);
}

fn with_managers(entries: Value) -> Observation {
    let mut changed = deployment(1);
    changed["metadata"]["managedFields"] = entries;
    see(&changed, &[], &[], &[])
}

#[test]
fn the_revision_is_unknown_once_somebody_changed_the_specification() {
    let containers = |fields: Value| json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"web\"}": fields}}}}});
    let all = containers(json!({".": {}, "f:name": {}, "f:image": {}}));
    let ours = |fields: Value| json!({"manager": "scheduler", "operation": "Apply", "fieldsV1": fields});
    let theirs = |fields: Value| json!({"manager": "kubectl-set", "operation": "Update", "fieldsV1": fields});
    let image = containers(json!({"f:image": {}}));
    let known = |entries: Value| with_managers(entries).revision.is_some();
    assert!(!known(json!([ours(containers(json!({".": {}, "f:name": {}}))), theirs(image.clone())])), "changed");
    assert!(known(json!([ours(all.clone()), theirs(image)])), "both say the same");
    assert!(known(json!([ours(all.clone()), theirs(json!({"f:spec": {"f:replicas": {}}}))])), "scaled");
    let restart = json!({"f:spec": {"f:template": {"f:metadata": {"f:annotations": {".": {}, "f:restartedAt": {}}}}}});
    assert!(known(json!([ours(all.clone()), theirs(restart)])), "restarted");
    let status =
        json!({"manager": "x", "operation": "Update", "subresource": "scale", "fieldsV1": {"f:spec": {"f:x": {}}}});
    assert!(known(json!([ours(all), status])), "through a subresource");
}

#[test]
fn the_version_moves_with_specification_labels_and_annotations_but_not_with_bookkeeping() {
    let version = |change: &dyn Fn(&mut Value)| {
        let mut changed = deployment(1);
        change(&mut changed);
        see(&changed, &[], &[], &[]).version
    };
    let base = version(&|_| {});
    assert_ne!(base, version(&|d| d["metadata"]["generation"] = 6.into()));
    assert_ne!(base, version(&|d| d["metadata"]["uid"] = "e".into()));
    assert_ne!(base, version(&|d| d["metadata"]["labels"]["team"] = "red".into()));
    assert_ne!(base, version(&|d| d["metadata"]["annotations"]["note"] = "".into()));
    assert_eq!(base, version(&|d| d["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = "2".into()));
    assert_eq!(base, version(&|d| d["metadata"]["resourceVersion"] = "77".into()));
    assert_eq!(base, version(&|d| d["status"]["observedGeneration"] = 5.into()));
}

#[test]
fn what_bears_no_owner_is_nobodys() {
    let mut bare = deployment(1);
    bare["metadata"]["labels"] = json!({"app": "web"});
    assert_eq!(observe(&NativeObjects::new(MainKind::Deployment, &bare), NOW.parse().unwrap()), None);
}
