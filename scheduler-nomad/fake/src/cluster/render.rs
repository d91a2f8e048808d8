//! The JSON of evaluations, deployments, allocations and summaries, as an agent answers it.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    objects::{Alloc, Deployment, Eval, GroupState, Metric, TaskEvent, TaskEventKind, TaskState},
    state::{Namespace, NodeState},
    summary::Summary,
};
use crate::{
    job::{Job, Submission},
    time::{GoDuration, Time, nanos},
};

pub(crate) fn eval(eval: &Eval) -> Value {
    let mut json = json!({
        "ID": eval.id, "Namespace": eval.job.0, "JobID": eval.job.1, "Priority": eval.priority, "Type": eval.kind,
        "TriggeredBy": eval.trigger.text(), "Status": eval.status.text(), "CreateTime": eval.create_time.0,
        "ModifyTime": eval.modify_time.0,
    });
    let stored = eval.create_index > 0;
    let failed: Map<_, _> = eval.failed.iter().map(|(group, why)| (group.clone(), metric(why))).collect();
    let annotations = eval.annotations.as_ref().map(|groups| {
        let groups: Map<_, _> = groups.iter().map(|(group, updates)| (group.clone(), updates.to_json())).collect();
        json!({"DesiredTGUpdates": groups, "PreemptedAllocs": null})
    });
    let (node, node_index) = eval.node.clone().unzip();
    // These are left out when there is nothing to say.
    let optional = [
        ("CreateIndex", stored.then(|| json!(eval.create_index))),
        ("ModifyIndex", stored.then(|| json!(eval.modify_index))),
        ("StatusDescription", (!eval.description.is_empty()).then(|| json!(eval.description))),
        ("JobModifyIndex", eval.job_modify_index.map(Value::from)),
        ("NodeID", node.map(Value::from)),
        ("NodeModifyIndex", node_index.map(Value::from)),
        ("DeploymentID", eval.deployment.clone().map(Value::from)),
        ("WaitUntil", eval.wait_until.map(time)),
        ("NextEval", eval.next.clone().map(Value::from)),
        ("PreviousEval", eval.previous.clone().map(Value::from)),
        ("BlockedEval", eval.blocked.clone().map(Value::from)),
        ("ClassEligibility", eval.class_eligible.map(|eligible| json!({"v1:1": eligible}))),
        ("FailedTGAllocs", (!failed.is_empty()).then_some(Value::Object(failed))),
        ("QueuedAllocations", (!eval.queued.is_empty()).then(|| json!(eval.queued))),
        ("PlanAnnotations", annotations),
        ("SnapshotIndex", (eval.snapshot_index > 0).then(|| json!(eval.snapshot_index))),
    ];
    for (key, value) in optional {
        if let Some(value) = value {
            json[key] = value;
        }
    }
    json
}

/// What an evaluation says about another one that it belongs to.
pub(crate) fn eval_stub(eval: &Eval) -> Value {
    json!({
        "ID": eval.id, "Namespace": eval.job.0, "JobID": eval.job.1, "Priority": eval.priority, "Type": eval.kind,
        "TriggeredBy": eval.trigger.text(), "Status": eval.status.text(), "StatusDescription": eval.description,
        "CreateIndex": eval.create_index, "ModifyIndex": eval.modify_index, "CreateTime": eval.create_time.0,
        "ModifyTime": eval.modify_time.0, "NodeID": eval.node.as_ref().map_or("", |(node, _)| node.as_str()),
        "DeploymentID": eval.deployment.as_deref().unwrap_or(""), "WaitUntil": eval.wait_until.map(time),
        "NextEval": eval.next.as_deref().unwrap_or(""), "PreviousEval": eval.previous.as_deref().unwrap_or(""),
        "BlockedEval": eval.blocked.as_deref().unwrap_or(""),
    })
}

pub(crate) fn metric(metric: &Metric) -> Value {
    let counts = |map: &BTreeMap<String, u64>| if map.is_empty() { Value::Null } else { json!(map) };
    let wanted: Map<_, _> =
        metric.wanted.iter().map(|(task, (cpu, memory))| (task.clone(), resources(*cpu, *memory, 0, 0))).collect();
    json!({
        "AllocationTime": 1, "ClassExhausted": null, "ClassFiltered": null, "CoalescedFailures": metric.coalesced,
        "ConstraintFiltered": counts(&metric.filtered), "DimensionExhausted": counts(&metric.exhausted),
        "NodePool": "default", "NodesAvailable": metric.available, "NodesEvaluated": metric.evaluated,
        "NodesExhausted": metric.exhausted.values().sum::<u64>(), "NodesFiltered": metric.filtered.values().sum::<u64>(),
        "NodesInPool": metric.in_pool, "QuotaExhausted": null,
        "ResourcesExhausted": if wanted.is_empty() { Value::Null } else { Value::Object(wanted) }, "ScoreMetaData": null, "Scores": null,
    })
}

fn resources(cpu: i64, memory: i64, memory_max: i64, disk: i64) -> Value {
    json!({
        "CPU": cpu, "Cores": 0, "Devices": null, "DiskMB": disk, "IOPS": 0, "MemoryMB": memory,
        "MemoryMaxMB": memory_max, "NUMA": null, "Networks": null, "SecretsMB": 0,
    })
}

pub(crate) fn deployment(deployment: &Deployment) -> Value {
    let groups: Map<_, _> =
        deployment.groups.iter().map(|(name, state)| (name.clone(), deployment_group(state))).collect();
    json!({
        "ID": deployment.id, "Namespace": deployment.job.0, "JobID": deployment.job.1,
        "JobVersion": deployment.job_version, "JobModifyIndex": deployment.job_modify_index,
        "JobSpecModifyIndex": deployment.job_spec_modify_index, "JobCreateIndex": deployment.job_create_index,
        "IsMultiregion": false, "EvalPriority": deployment.priority, "TaskGroups": groups,
        "Status": deployment.status.text(), "StatusDescription": deployment.description(),
        "CreateIndex": deployment.create_index, "ModifyIndex": deployment.modify_index,
        "CreateTime": deployment.create_time.0, "ModifyTime": deployment.modify_time.0,
    })
}

fn deployment_group(state: &GroupState) -> Value {
    json!({
        "AutoPromote": state.auto_promote, "AutoRevert": state.auto_revert, "DesiredCanaries": state.desired_canaries,
        "DesiredTotal": state.desired, "HealthyAllocs": state.healthy, "PlacedAllocs": state.placed,
        "PlacedCanaries": (!state.canaries.is_empty()).then_some(&state.canaries), "Promoted": state.promoted,
        "ProgressDeadline": nanos(state.progress_deadline), "RequireProgressBy": state.progress_by.map(time),
        "UnhealthyAllocs": state.unhealthy,
    })
}

pub(crate) fn alloc_stub(alloc: &Alloc) -> Value {
    let job = &alloc.job.spec.view;
    let reschedule = (!alloc.reschedules.is_empty()).then(|| reschedule_tracker(alloc));
    json!({
        "ID": alloc.id, "EvalID": alloc.eval, "Name": alloc.name(), "Namespace": job.namespace, "NodeID": alloc.node,
        "NodeName": alloc.node_name, "JobID": job.id, "JobType": job.kind, "JobVersion": alloc.job.version,
        "TaskGroup": alloc.group, "DesiredStatus": desired(alloc), "DesiredDescription": alloc.desired_description,
        "ClientStatus": alloc.status.text(), "ClientDescription": alloc.client_description,
        "DesiredTransition": transition(alloc), "TaskStates": task_states(alloc), "DeploymentStatus": health(alloc),
        "FollowupEvalID": alloc.followup.as_deref().unwrap_or(""), "NextAllocation": alloc.next.as_deref().unwrap_or(""),
        "RescheduleTracker": reschedule, "PreemptedAllocations": null, "PreemptedByAllocation": "",
        "CreateIndex": alloc.create_index, "ModifyIndex": alloc.modify_index, "CreateTime": alloc.create_time.0,
        "ModifyTime": alloc.modify_time.0,
    })
}

/// The whole allocation. The event stream leaves out its job.
pub(crate) fn alloc(alloc: &Alloc, with_job: bool) -> Value {
    let job = &alloc.job.spec.view;
    let empty = Vec::new();
    let group = job.group(&alloc.group);
    let tasks = group.map_or(&empty, |group| &group.tasks);
    let disk = group.map_or(0, |group| group.ephemeral_disk.size_mb);
    let (cpu, memory) = group.map_or((0, 0), |group| (group.cpu(), group.memory_mb()));
    let networks = networks(alloc);
    let with_networks = |mut resources: Value| {
        resources["Networks"] = networks.clone();
        resources
    };
    let per_task = |of: &dyn Fn(i64, i64) -> Value| -> Map<_, _> {
        tasks.iter().map(|task| (task.name.clone(), of(task.resources.cpu, task.resources.memory_mb))).collect()
    };
    let allocated = per_task(&|cpu, memory| {
        json!({
            "Cpu": {"CpuShares": cpu, "ReservedCores": null}, "Devices": null,
            "Memory": {"MemoryMB": memory, "MemoryMaxMB": 0}, "Networks": null,
        })
    });
    let lifecycles: Map<_, _> = tasks
        .iter()
        .map(|task| {
            let of = task.lifecycle.as_ref().map(|of| json!({"Hook": of.hook, "Sidecar": of.sidecar}));
            (task.name.clone(), of.unwrap_or_default())
        })
        .collect();
    let ports: Vec<_> = alloc.ports.iter().map(|port| port_json(port, true)).collect();
    let ports = if ports.is_empty() { Value::Null } else { Value::Array(ports) };
    let mut metric = metric(&alloc.metric);
    metric["ScoreMetaData"] = json!([{"NodeID": alloc.node, "NormScore": 0.0, "Scores": {
        "binpack": 0.0, "job-anti-affinity": 0.0, "node-affinity": 0.0, "node-reschedule-penalty": 0.0,
    }}]);
    let mut json = json!({
        "ID": alloc.id, "EvalID": alloc.eval, "Name": alloc.name(), "Namespace": job.namespace, "NodeID": alloc.node,
        "NodeName": alloc.node_name, "JobID": job.id, "TaskGroup": alloc.group, "DesiredStatus": desired(alloc),
        "ClientStatus": alloc.status.text(), "Metrics": metric,
        "AllocatedResources": {
            "Shared": {"DiskMB": disk, "Networks": networks, "Ports": ports}, "TaskLifecycles": lifecycles,
            "Tasks": allocated,
        },
        "Resources": with_networks(resources(cpu, memory, memory, disk)),
        "SharedResources": with_networks(resources(0, 0, 0, disk)),
        "TaskResources": per_task(&|cpu, memory| resources(cpu, memory, 0, 0)),
        "SigningKeyID": "00000000-0000-4000-8000-000000000000", "CreateIndex": alloc.create_index,
        "ModifyIndex": alloc.modify_index, "AllocModifyIndex": alloc.alloc_modify_index,
        "CreateTime": alloc.create_time.0, "ModifyTime": alloc.modify_time.0,
    });
    let told = alloc.tasks.is_some();
    let optional = [
        ("Job", with_job.then(|| Value::Object(alloc.job.to_json()))),
        ("ClientDescription", (!alloc.client_description.is_empty()).then(|| json!(alloc.client_description))),
        ("DesiredDescription", (!alloc.desired_description.is_empty()).then(|| json!(alloc.desired_description))),
        (
            "DesiredTransition",
            (alloc.may_reschedule || alloc.must_reschedule || alloc.must_migrate).then(|| transition(alloc)),
        ),
        ("DeploymentID", alloc.deployment.clone().map(Value::from)),
        ("DeploymentStatus", (alloc.canary || alloc.health.is_some()).then(|| health(alloc))),
        ("FollowupEvalID", alloc.followup.clone().map(Value::from)),
        ("NextAllocation", alloc.next.clone().map(Value::from)),
        ("PreviousAllocation", alloc.previous.clone().map(Value::from)),
        ("RescheduleTracker", (!alloc.reschedules.is_empty()).then(|| reschedule_tracker(alloc))),
        ("TaskStates", told.then(|| task_states(alloc))),
        ("NetworkStatus", told.then(|| json!({"Address": "", "AddressIPv6": "", "DNS": null, "InterfaceName": ""}))),
    ];
    for (key, value) in optional {
        if let Some(value) = value {
            json[key] = value;
        }
    }
    json
}

fn networks(alloc: &Alloc) -> Value {
    if alloc.ports.is_empty() {
        return Value::Null;
    }
    let of = |reserved: bool| {
        let ports = alloc.ports.iter().filter(move |port| port.reserved == reserved);
        ports.map(|port| port_json(port, false)).collect::<Vec<_>>()
    };
    let mut network = json!({"IP": "127.0.0.1"});
    for (key, ports) in [("DynamicPorts", of(false)), ("ReservedPorts", of(true))] {
        if !ports.is_empty() {
            network[key] = Value::Array(ports);
        }
    }
    json!([network])
}

fn port_json(port: &super::objects::Port, shared: bool) -> Value {
    let mut json = json!({"Label": port.label, "Value": port.value});
    let (key, value) = if shared { ("HostIP", "127.0.0.1") } else { ("HostNetwork", "default") };
    json[key] = json!(value);
    if port.to != 0 {
        json["To"] = json!(port.to);
    }
    json
}

fn desired(alloc: &Alloc) -> &'static str {
    if alloc.wanted { "run" } else { "stop" }
}

fn transition(alloc: &Alloc) -> Value {
    let reschedule = alloc.may_reschedule.then_some(true).or(alloc.must_migrate.then_some(false));
    let force = alloc.must_reschedule.then_some(true);
    json!({
        "ForceReschedule": force, "Migrate": alloc.must_migrate.then_some(true), "MigrateDisablePlacement": null,
        "NoShutdownDelay": alloc.must_migrate.then_some(false), "Reschedule": reschedule,
    })
}

fn reschedule_tracker(alloc: &Alloc) -> Value {
    let events = alloc.reschedules.iter().map(|event| {
        json!({
            "RescheduleTime": event.at.0, "PrevAllocID": event.alloc, "PrevNodeID": event.node,
            "Delay": nanos(event.delay),
        })
    });
    json!({"Events": events.collect::<Vec<_>>(), "LastReschedule": "ok"})
}

/// A canary says so before its health is decided.
fn health(alloc: &Alloc) -> Value {
    match alloc.health {
        None if !alloc.canary => Value::Null,
        None => json!({"Canary": true, "Healthy": null, "ModifyIndex": alloc.create_index, "Timestamp": null}),
        Some(health) => json!({
            "Canary": alloc.canary, "Healthy": health.healthy, "ModifyIndex": health.modify_index,
            "Timestamp": time(health.at),
        }),
    }
}

fn task_states(alloc: &Alloc) -> Value {
    alloc.tasks.as_ref().map_or(Value::Null, |tasks| {
        Value::Object(tasks.iter().map(|(name, state)| (name.clone(), task_state(state))).collect())
    })
}

fn task_state(state: &TaskState) -> Value {
    json!({
        "State": state.state.text(), "Failed": state.failed, "Restarts": state.restarts, "Paused": "",
        "LastRestart": state.last_restart.map(time), "StartedAt": state.started_at.map(time),
        "FinishedAt": state.finished_at.map(time), "Events": state.events.iter().map(task_event).collect::<Vec<_>>(),
    })
}

const WITHIN_POLICY: &str = "Restart within policy";

/// An event: its type, what it says to people, and what it says to programs.
fn task_event(event: &TaskEvent) -> Value {
    let (kind, message, details) = match &event.kind {
        TaskEventKind::Received => ("Received", "Task received by client".to_owned(), json!({})),
        TaskEventKind::Setup => {
            let text = "Building Task Directory";
            ("Task Setup", text.to_owned(), json!({"message": text}))
        }
        TaskEventKind::Started => ("Started", "Task started by client".to_owned(), json!({})),
        TaskEventKind::DriverFailure(why) => ("Driver Failure", why.clone(), json!({"driver_error": why})),
        TaskEventKind::Terminated { exit_code, signal, oom } => {
            let suffix = if *signal == 0 { String::new() } else { format!(", Signal: {signal}") };
            let details = json!({
                "exit_code": exit_code.to_string(), "signal": signal.to_string(), "oom_killed": oom.to_string(),
            });
            ("Terminated", format!("Exit Code: {exit_code}{suffix}"), details)
        }
        TaskEventKind::Restarting { delay, by_policy } => {
            let why = if *by_policy { WITHIN_POLICY } else { "" };
            let details = json!({"restart_reason": why, "start_delay": nanos(*delay).to_string()});
            ("Restarting", format!("Task restarting in {}", GoDuration(*delay)), details)
        }
        TaskEventKind::NotRestarting(why) => {
            ("Not Restarting", why.clone(), json!({"fails_task": "true", "restart_reason": why}))
        }
        TaskEventKind::Killing(timeout) => {
            let timeout = GoDuration(*timeout).to_string();
            let message = format!("Sent interrupt. Waiting {timeout} before force killing");
            ("Killing", message, json!({"kill_timeout": timeout}))
        }
        TaskEventKind::TemplateWaits(why) => ("Template", why.clone(), json!({})),
        TaskEventKind::RestartSignaled(why) => ("Restart Signaled", why.clone(), json!({"restart_reason": why})),
        TaskEventKind::Signaling(signal) => {
            ("Signaling", "Task being sent a signal".to_owned(), json!({"signal": signal}))
        }
        TaskEventKind::SiblingFailed(task) => {
            ("Sibling Task Failed", format!("Task's sibling {task:?} failed"), json!({"failed_sibling": task}))
        }
        TaskEventKind::LeaderDead => ("Leader Task Dead", "Leader Task in Group dead".to_owned(), json!({})),
        TaskEventKind::MainDead => ("Main Tasks Dead", "Main tasks in the group died".to_owned(), json!({})),
        TaskEventKind::Killed => ("Killed", "Task successfully killed".to_owned(), json!({})),
        TaskEventKind::Unhealthy(why) => ("Alloc Unhealthy", why.clone(), json!({"message": why})),
    };
    let mut json = json!({
        "Type": kind, "Time": event.at.0, "DisplayMessage": message, "Details": details, "DiskLimit": 0,
        "DownloadError": "", "DriverError": "", "DriverMessage": "", "ExitCode": 0, "FailedSibling": "",
        "FailsTask": false, "GenericSource": "", "KillError": "", "KillReason": "", "KillTimeout": 0, "Message": "",
        "RestartReason": "", "SetupError": "", "Signal": 0, "StartDelay": 0, "TaskSignal": "", "TaskSignalReason": "",
        "ValidationError": "", "VaultError": "",
    });
    // The fields of old, of which a few are still filled.
    match &event.kind {
        TaskEventKind::Setup => json["Message"] = json!(message),
        TaskEventKind::Unhealthy(why) => json["Message"] = json!(why),
        TaskEventKind::DriverFailure(why) => json["DriverError"] = json!(why),
        TaskEventKind::Terminated { exit_code, signal, .. } => {
            json["ExitCode"] = json!(exit_code);
            json["Signal"] = json!(signal);
        }
        TaskEventKind::RestartSignaled(why) => json["RestartReason"] = json!(why),
        TaskEventKind::Restarting { delay, by_policy } => {
            json["RestartReason"] = json!(if *by_policy { WITHIN_POLICY } else { "" });
            json["StartDelay"] = json!(nanos(*delay));
        }
        TaskEventKind::NotRestarting(why) => {
            json["FailsTask"] = json!(true);
            json["RestartReason"] = json!(why);
        }
        TaskEventKind::Killing(timeout) => json["KillTimeout"] = json!(nanos(*timeout)),
        TaskEventKind::SiblingFailed(task) => json["FailedSibling"] = json!(task),
        TaskEventKind::Received
        | TaskEventKind::Started
        | TaskEventKind::Killed
        | TaskEventKind::Signaling(_)
        | TaskEventKind::TemplateWaits(_)
        | TaskEventKind::LeaderDead
        | TaskEventKind::MainDead => {}
    }
    json
}

pub(crate) fn summary(job: &Job, summary: &Summary) -> Value {
    let groups: Map<_, _> = summary
        .groups
        .iter()
        .map(|(name, counts)| {
            let json = json!({
                "Queued": counts.queued, "Complete": counts.complete, "Failed": counts.failed,
                "Running": counts.running, "Starting": counts.starting, "Lost": counts.lost, "Unknown": 0,
            });
            (name.clone(), json)
        })
        .collect();
    let view = &job.spec.view;
    json!({
        "JobID": view.id, "Namespace": view.namespace, "Summary": groups,
        "Children": {
            "Pending": summary.children.pending, "Running": summary.children.running, "Dead": summary.children.dead,
        },
        "CreateIndex": job.create_index,
        "ModifyIndex": summary.modify_index,
    })
}

pub(crate) fn job_stub(job: &Job, of: &Summary, with_meta: bool) -> Value {
    let json = job.to_json();
    let taken = |name: &str| json.get(name).cloned().unwrap_or_default();
    let names = [
        "ID",
        "ParentID",
        "Name",
        "Namespace",
        "Datacenters",
        "NodePool",
        "Multiregion",
        "Type",
        "Priority",
        "Stop",
        "Status",
        "StatusDescription",
        "CreateIndex",
        "ModifyIndex",
        "JobModifyIndex",
        "SubmitTime",
    ];
    let mut stub: Map<_, _> = names.into_iter().map(|name| (name.to_owned(), taken(name))).collect();
    let view = &job.spec.view;
    stub.insert("Periodic".to_owned(), json!(view.periodic.is_some()));
    stub.insert("ParameterizedJob".to_owned(), json!(view.parameterized_job.is_some() && !view.dispatched));
    stub.insert("JobSummary".to_owned(), summary(job, of));
    if with_meta {
        stub.insert("Meta".to_owned(), taken("Meta"));
    }
    Value::Object(stub)
}

pub(crate) fn submission(job: &Job, submission: &Submission) -> Value {
    let mut json = submission.0.clone();
    json["JobID"] = json!(job.spec.view.id);
    json["Namespace"] = json!(job.spec.view.namespace);
    json["Version"] = json!(job.version);
    json["JobModifyIndex"] = json!(job.job_modify_index);
    json
}

pub(crate) fn namespace(namespace: &Namespace) -> Value {
    json!({
        "Name": namespace.name, "Description": namespace.description, "Meta": namespace.meta, "Quota": "",
        "Capabilities": null, "NodePoolConfiguration": null, "VaultConfiguration": null, "ConsulConfiguration": null,
        "OptionalExtraClaims": null, "RequiredExtraClaims": null, "Hash": "", "CreateIndex": namespace.create_index,
        "ModifyIndex": namespace.modify_index,
    })
}

pub(crate) fn node(node: &NodeState) -> Value {
    let drivers: Map<_, _> = super::fate::DRIVERS
        .iter()
        .map(|driver| {
            let state = json!({"Detected": true, "Healthy": true, "HealthDescription": "Healthy"});
            ((*driver).to_owned(), state)
        })
        .collect();
    json!({
        "ID": node.id, "Name": node.name, "Address": "127.0.0.1", "Datacenter": "dc1", "NodePool": "default",
        "NodeClass": "", "Status": if node.up { "ready" } else { "down" }, "StatusDescription": "",
        "SchedulingEligibility": "eligible", "Drain": false, "Drivers": drivers, "HostVolumes": {}, "LastDrain": null,
        "Version": "2.0.6-dev", "CreateIndex": node.create_index, "ModifyIndex": node.modify_index,
    })
}

fn time(time: Time) -> Value {
    json!(time.to_string())
}
