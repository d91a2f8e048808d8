//! What is wrong with an allocation, by the events of its tasks.

use scheduler_core::{Diagnosis, DiagnosisKind, EventLine, Instance, InstanceState, Timestamp};
use scheduler_nomad_client::model::{
    AllocMetric, Allocation, ClientStatus, DesiredStatus, TaskEvent, TaskState, TaskStateName,
};

use super::alloc::{View, awaits_replacement, healthy};
use super::{kind, moment, time};

/// How many events a diagnosis keeps. The server has about as many.
const MOST_EVENTS: usize = 10;

/// What a driver's sentence means. Drivers have no codes; what is not here is a start that failed.
///
/// The first row that is part of the sentence counts, without regard to case.
const DRIVER: &[(&str, DiagnosisKind)] = &[
    // The container engine's own parser.
    ("invalid reference format", DiagnosisKind::InvalidImage),
    ("could not parse image", DiagnosisKind::InvalidImage),
    ("failed to parse image", DiagnosisKind::InvalidImage),
    // Docker's driver.
    ("failed to pull", DiagnosisKind::ImagePull),
    ("failed to find docker image", DiagnosisKind::ImagePull),
    ("failed to find docker auth", DiagnosisKind::ImagePull),
    // Podman's driver.
    ("failed to create image", DiagnosisKind::ImagePull),
    ("failed to start task, unable to pull image", DiagnosisKind::ImagePull),
];

/// Everything that is wrong with an allocation.
pub(super) fn alloc(alloc: &Allocation, instance: &Instance, view: &View) -> Vec<Diagnosis> {
    let mut found = Vec::new();
    let modified = moment(alloc.modify_time).unwrap_or(instance.created);
    let mut whole = |kind, message: &str| {
        let mut diagnosis = Diagnosis::new(kind, modified);
        diagnosis.message = message.to_owned();
        found.push(diagnosis);
    };
    if alloc.client_status == ClientStatus::Unknown {
        whole(DiagnosisKind::NodeLost, &alloc.client_description);
    } else if alloc.desired_status == DesiredStatus::Evict {
        whole(DiagnosisKind::Evicted, &alloc.desired_description);
    }
    let for_want_of_memory = || alloc.task_states.values().filter_map(kind::exit_of).any(|exit| exit.out_of_memory);
    let telling = awaits_replacement(alloc)
        || (instance.current && view.has_failed)
        || (view.runs_to_its_end && alloc.client_status.is_terminal() && for_want_of_memory());
    let passing = !telling && matches!(instance.state, InstanceState::Ended | InstanceState::Terminating);
    if !passing {
        found.extend(alloc.task_states.iter().filter_map(|(name, state)| task(name, state, alloc, instance, view)));
    }
    for diagnosis in &mut found {
        diagnosis.instance = Some(instance.id.clone());
        diagnosis.current = instance.current && !passing;
    }
    found
}

fn task(name: &str, state: &TaskState, alloc: &Allocation, instance: &Instance, view: &View) -> Option<Diagnosis> {
    // One that was told to end is no failure; what was wrong before that may be.
    let killed = state.events.iter().rposition(|event| event.r#type == "Killing");
    if state.state == TaskStateName::Dead && !state.failed && killed.is_none() {
        // But for one that ended for want of memory with a good face.
        kind::exit_of(state).filter(|exit| exit.out_of_memory)?;
    }
    if state.state == TaskStateName::Running {
        // It runs again. As long as the instance is not ready, how it ended last time is the likely reason.
        let started = time(&state.started_at).unwrap_or(view.at);
        let recent = view.at.since(started) < view.patience.duration();
        if instance.state == InstanceState::Ready || state.restarts == 0 || !recent {
            return None;
        }
    }
    let events = &state.events[..killed.unwrap_or(state.events.len())];
    let (kind, event) = events.iter().rev().find_map(|event| Some((of_event(event, state)?, event)))?;
    let over = view.runs_to_its_end && instance.state == InstanceState::Ended;
    let kind = if over && kind == DiagnosisKind::CrashLoop { DiagnosisKind::Exited } else { kind };
    // A trouble lasts since the instance was well, or since it was made.
    let since = match healthy(alloc) {
        Some(true) => moment(event.time).unwrap_or(instance.created),
        _ => instance.created,
    };
    let mut diagnosis = Diagnosis::new(kind, since);
    diagnosis.container = Some(name.to_owned());
    diagnosis.message = event.display_message.trim().to_owned();
    let number = |key: &str| event.details.get(key).and_then(|text| text.parse::<i32>().ok());
    diagnosis.evidence.exit_code = number("exit_code");
    diagnosis.evidence.signal = number("signal").filter(|signal| *signal != 0);
    diagnosis.evidence.restarts = Some(u32::try_from(state.restarts).unwrap_or(u32::MAX));
    let lines = state.events.iter().map(line);
    diagnosis.evidence.events = lines.skip(state.events.len().saturating_sub(MOST_EVENTS)).collect();
    Some(diagnosis)
}

/// What an event says of what is wrong; `None` for one that says nothing of it. The end of a sibling is the sibling's own.
fn of_event(event: &TaskEvent, state: &TaskState) -> Option<DiagnosisKind> {
    match event.r#type.as_str() {
        "Terminated" if event.details.get("oom_killed").is_some_and(|text| text == "true") => {
            Some(DiagnosisKind::OutOfMemory)
        }
        "Terminated" => Some(DiagnosisKind::CrashLoop),
        "Driver Failure" => Some(of_driver(&event.display_message)),
        "Failed Validation" | "Setup Failure" | "Failed Artifact Download" | "Task hook failed" => {
            Some(DiagnosisKind::StartError)
        }
        // Before the first start it tells which data a template lacks.
        "Template" if state.state == TaskStateName::Pending && state.started_at.is_empty() => {
            Some(DiagnosisKind::ConfigMissing)
        }
        _ => None,
    }
}

fn of_driver(sentence: &str) -> DiagnosisKind {
    let sentence = sentence.to_lowercase();
    let row = DRIVER.iter().find(|(part, _)| sentence.contains(part));
    row.map_or(DiagnosisKind::StartError, |(_, kind)| *kind)
}

fn line(event: &TaskEvent) -> EventLine {
    let time = moment(event.time).unwrap_or(Timestamp::from_millis(0));
    EventLine::new(time, event.r#type.as_str(), event.display_message.trim())
}

/// Why nothing was placed, in words.
pub(crate) fn placement(metric: &AllocMetric) -> String {
    let mut words = vec![match metric.nodes_evaluated {
        1 => "1 node was looked at".to_owned(),
        nodes => format!("{nodes} nodes were looked at"),
    }];
    words.extend(metric.constraint_filtered.iter().map(|(rule, nodes)| format!("{nodes} ruled out by {rule}")));
    words.extend(metric.class_filtered.iter().map(|(class, nodes)| format!("{nodes} ruled out by the class {class}")));
    words.extend(metric.dimension_exhausted.iter().map(|(what, nodes)| format!("{nodes} without enough {what}")));
    words.extend(metric.quota_exhausted.iter().map(|quota| format!("the quota is used up: {quota}")));
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_say_why_in_sentences() {
        for (sentence, kind) in [
            ("Failed to pull `shop/web:1`: API error (404): pull access denied", DiagnosisKind::ImagePull),
            ("Failed to pull `Web`: API error (400): invalid reference format", DiagnosisKind::InvalidImage),
            ("failed to launch command with executor: binary \"/x\" could not be found", DiagnosisKind::StartError),
            ("", DiagnosisKind::StartError),
        ] {
            assert_eq!(of_driver(sentence), kind, "{sentence}");
        }
    }
}
