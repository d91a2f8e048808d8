//! What is wrong with a Pod, by the API's own reasons.

use scheduler_core::{Diagnosis, DiagnosisKind, EventLine, Instance, InstanceState, Timestamp};
use serde_json::Value;

use super::pod::{View, is_lost, statuses};
use super::{condition, time};

/// How many events a diagnosis keeps.
const MOST_EVENTS: usize = 10;

/// Everything that is wrong with a Pod.
pub(super) fn pod(pod: &Value, instance: &Instance, view: &View) -> Vec<Diagnosis> {
    let status = &pod["status"];
    let mut found = Vec::new();
    if let Some((kind, since, message)) = whole(status, instance) {
        let mut diagnosis = Diagnosis::new(kind, since);
        diagnosis.message = message;
        found.push(diagnosis);
    }
    if !matches!(instance.state, InstanceState::Ended | InstanceState::Terminating) {
        // A trouble lasts since the Pod was last ready, or since it was made.
        let not_ready = condition(status, "Ready").filter(|ready| ready["status"] != "True");
        let since = not_ready.map_or(instance.created, |ready| time(&ready["lastTransitionTime"], instance.created));
        for container in statuses(status) {
            found.extend(self::container(container, instance, since, view));
        }
    }
    for diagnosis in &mut found {
        diagnosis.instance = Some(instance.id.clone());
        // What has ended or is about to says nothing of what was launched last.
        let passing = matches!(instance.state, InstanceState::Ended | InstanceState::Terminating);
        diagnosis.current = instance.current && !passing;
    }
    found
}

/// What is wrong with the Pod as a whole.
fn whole(status: &Value, instance: &Instance) -> Option<(DiagnosisKind, Timestamp, String)> {
    let words = |object: &Value| object["message"].as_str().unwrap_or_default().to_owned();
    match status["reason"].as_str() {
        Some("Evicted" | "Preempting" | "NodeShutdown") => {
            return Some((DiagnosisKind::Evicted, instance.since, words(status)));
        }
        Some("NodeLost" | "NodeAffinity") => return Some((DiagnosisKind::NodeLost, instance.since, words(status))),
        _ => {}
    }
    if let Some(target) = condition(status, "DisruptionTarget").filter(|c| c["status"] == "True") {
        let kind = if is_lost(status) { DiagnosisKind::NodeLost } else { DiagnosisKind::Evicted };
        return Some((kind, time(&target["lastTransitionTime"], instance.since), words(target)));
    }
    let scheduled = condition(status, "PodScheduled")?;
    (scheduled["status"] == "False" && scheduled["reason"] == "Unschedulable").then(|| {
        let since = time(&scheduled["lastTransitionTime"], instance.created);
        (DiagnosisKind::Unschedulable, since, words(scheduled))
    })
}

fn container(container: &Value, instance: &Instance, since: Timestamp, view: &View) -> Option<Diagnosis> {
    let (state, last) = (&container["state"], &container["lastState"]["terminated"]);
    let (kind, message) = if let Some(waiting) = state["waiting"]["reason"].as_str() {
        (of_waiting(waiting, last)?, &state["waiting"]["message"])
    } else if state["terminated"].is_object() {
        (of_end(&state["terminated"])?, &state["terminated"]["message"])
    } else {
        // It runs again. As long as the Pod is not ready, how it ended last time is the likely reason.
        let started = time(&state["running"]["startedAt"], view.at);
        let recent = view.at.since(started) < view.patience.duration();
        if !last.is_object() || instance.state == InstanceState::Ready || !recent || container["ready"] == true {
            return None;
        }
        (of_end(last)?, &last["message"])
    };
    let mut diagnosis = Diagnosis::new(kind, since);
    diagnosis.container = container["name"].as_str().map(str::to_owned);
    diagnosis.message = message.as_str().unwrap_or_default().to_owned();
    let end = [&state["terminated"], last].into_iter().find(|end| end.is_object());
    let number = |field: &str| end.and_then(|end| end[field].as_i64()).and_then(|n| i32::try_from(n).ok());
    diagnosis.evidence.exit_code = number("exitCode");
    diagnosis.evidence.signal = number("signal").filter(|signal| *signal != 0);
    diagnosis.evidence.restarts = container["restartCount"].as_u64().and_then(|n| n.try_into().ok());
    Some(diagnosis)
}

/// The reasons that the kubelet gives for a container that waits (`pkg/kubelet/images/types.go`,
/// `pkg/kubelet/container/sync_result.go`, `pkg/kubelet/kuberuntime`).
fn of_waiting(reason: &str, last: &Value) -> Option<DiagnosisKind> {
    Some(match reason {
        "ErrImagePull"
        | "ImagePullBackOff"
        | "ErrImageNeverPull"
        | "RegistryUnavailable"
        | "ImageInspectError"
        | "SignatureValidationFailed" => DiagnosisKind::ImagePull,
        "InvalidImageName" => DiagnosisKind::InvalidImage,
        "CreateContainerConfigError" => DiagnosisKind::ConfigMissing,
        "CreateContainerError"
        | "RunContainerError"
        | "StartError"
        | "ContainerCannotRun"
        | "PostStartHookError"
        | "PreStartHookError"
        | "PreCreateHookError" => DiagnosisKind::StartError,
        "CrashLoopBackOff" => of_end(last).unwrap_or(DiagnosisKind::CrashLoop),
        _ => return None,
    })
}

/// How a container ended. `None` for an init container that did its work; a main container must not end at all, and one
/// that ends with exit code 0 waits to be started again as [`CrashLoopBackOff`](of_waiting).
fn of_end(end: &Value) -> Option<DiagnosisKind> {
    match end["reason"].as_str() {
        // The runtime says so also of a container whose main process ended well, when another one was killed.
        Some("OOMKilled") => Some(DiagnosisKind::OutOfMemory),
        Some("StartError" | "ContainerCannotRun") => Some(DiagnosisKind::StartError),
        _ if end["exitCode"].as_i64() == Some(0) => None,
        _ => Some(DiagnosisKind::CrashLoop),
    }
}

/// The last events about one of these objects, oldest first.
pub(super) fn events_about(events: &[&Value], uids: &[&str], at: Timestamp) -> Vec<EventLine> {
    let about = |event: &&&Value| event["involvedObject"]["uid"].as_str().is_some_and(|uid| uids.contains(&uid));
    let mut lines: Vec<EventLine> = events.iter().filter(about).map(|event| line(event, at)).collect();
    lines.sort_by(|a, b| (a.time, &a.reason, &a.message).cmp(&(b.time, &b.reason, &b.message)));
    lines.drain(..lines.len().saturating_sub(MOST_EVENTS));
    lines
}

/// An event has one of three forms, by the age of the component that wrote it.
fn line(event: &Value, at: Timestamp) -> EventLine {
    let (series, metadata) = (&event["series"], &event["metadata"]);
    let times = [&series["lastObservedTime"], &event["lastTimestamp"], &event["eventTime"], &event["firstTimestamp"]];
    let seen = times.into_iter().find(|time| time.is_string()).unwrap_or(&metadata["creationTimestamp"]);
    let text = |field: &str| event[field].as_str().unwrap_or_default();
    let mut line = EventLine::new(time(seen, at), text("reason"), text("message"));
    let counts = [&series["count"], &event["count"]];
    line.count = counts.into_iter().find_map(Value::as_u64).and_then(|n| n.try_into().ok()).unwrap_or(1);
    line
}
