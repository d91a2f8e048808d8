//! Jobs, and what starts them by a schedule.

use std::collections::BTreeMap;

use scheduler_core::{Diagnosis, DiagnosisKind, Exit, Finished, Instance, Observation, ScheduleState};
use serde_json::Value;

use super::{condition, controller, number, time, uid_of};
use crate::labels::TARGET;

/// How far a Job is.
pub(super) fn job(seen: &mut Observation, main: &Value) {
    let (spec, status) = (&main["spec"], &main["status"]);
    seen.counts.desired = number(&spec["completions"]).unwrap_or(1);
    seen.counts.succeeded = number(&status["succeeded"]).unwrap_or(0);
    seen.counts.failed = number(&status["failed"]).unwrap_or(0);
    seen.finished = finished(main);
    // A Job has no observedGeneration.
    seen.noticed = status["startTime"].is_string() || seen.finished.is_some();
}

/// How a Job ended. Beside the conditions that say so there are others that say that it is about to (`SuccessCriteriaMet`,
/// `FailureTarget`).
pub(crate) fn finished(job: &Value) -> Option<Finished> {
    let holds = |kind: &str| condition(&job["status"], kind).is_some_and(|condition| condition["status"] == "True");
    if holds("Complete") {
        Some(Finished::Complete)
    } else if holds("Failed") {
        Some(Finished::Failed)
    } else {
        None
    }
}

/// What a schedule did. Runs that were begun by hand are none of it, as the controller has it: for `concurrencyPolicy` only
/// those count that it began.
pub(super) fn periodic(seen: &mut Observation, main: &Value, jobs: &[&Value]) {
    seen.counts.desired = 0;
    seen.suspended = main["spec"]["suspend"] == true;
    let last = main["status"]["lastScheduleTime"].as_str().and_then(|time| time.parse().ok());
    let own = jobs.iter().filter(|job| controller(job) == uid_of(main));
    let begun = own.filter(|job| job["metadata"]["labels"][TARGET] == main["metadata"]["name"]);
    let active = begun.filter(|job| finished(job).is_none()).count();
    seen.schedule = Some(ScheduleState::new(last, u32::try_from(active).unwrap_or(u32::MAX)));
}

/// Why a Job failed: that it took too long, and how the last try of each completion that was not reached ended.
pub(super) fn diagnose(seen: &mut Observation, main: &Value, instances: &[(Instance, &Value)]) {
    if seen.finished != Some(Finished::Failed) {
        return;
    }
    let failed = condition(&main["status"], "Failed").unwrap_or(&Value::Null);
    let since = time(&failed["lastTransitionTime"], seen.at);
    let words = failed["message"].as_str().unwrap_or_default();
    if failed["reason"] == "DeadlineExceeded" {
        let mut diagnosis = Diagnosis::new(DiagnosisKind::JobDeadline, since);
        diagnosis.message = words.to_owned();
        seen.diagnoses.push(diagnosis);
    }
    let mut last: BTreeMap<Option<u32>, (&Instance, &Value, Exit)> = BTreeMap::new();
    for (instance, pod) in instances {
        let Some(exit) = instance.exit else { continue };
        let known = last.get(&instance.ordinal);
        let reached = known.is_some_and(|(.., exit)| exit.is_success());
        let newer = known.is_none_or(|(known, ..)| known.created <= instance.created);
        if exit.is_success() || (!reached && newer) {
            last.insert(instance.ordinal, (instance, pod, exit));
        }
    }
    for (instance, pod, exit) in last.into_values().filter(|(.., exit)| !exit.is_success()) {
        let kind = if exit.out_of_memory { DiagnosisKind::OutOfMemory } else { DiagnosisKind::Exited };
        let mut diagnosis = Diagnosis::new(kind, instance.since);
        diagnosis.instance = Some(instance.id.clone());
        diagnosis.container = pod["spec"]["containers"][0]["name"].as_str().map(str::to_owned);
        diagnosis.evidence.exit_code = Some(exit.code);
        diagnosis.evidence.signal = exit.signal;
        diagnosis.evidence.restarts = Some(instance.restarts);
        seen.diagnoses.push(diagnosis);
    }
    if seen.diagnoses.is_empty() {
        // Its Pods are gone.
        let mut diagnosis = Diagnosis::new(DiagnosisKind::Exited, since);
        diagnosis.message = words.to_owned();
        seen.diagnoses.push(diagnosis);
    }
}
