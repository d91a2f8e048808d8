//! What a server refuses in a job, in its words and in its order.

use jiff::tz::TimeZone;

use super::{
    cron::{Cron, CronError},
    spec::{Constraint, Group, Spec, Task, Update, View},
};
use crate::time::GoDuration;
use std::{collections::BTreeSet, time::Duration};

/// The operands that the server knows.
const OPERANDS: [&str; 18] = [
    "=",
    "==",
    "is",
    "!=",
    "not",
    "<",
    "<=",
    ">",
    ">=",
    "distinct_hosts",
    "distinct_property",
    "regexp",
    "version",
    "semver",
    "set_contains",
    "set_contains_any",
    "is_set",
    "is_not_set",
];
/// Those of them that the scheduler of this crate evaluates.
const SIMULATED: [&str; 10] =
    ["=", "==", "is", "!=", "not", "distinct_hosts", "is_set", "is_not_set", "set_contains", "set_contains_any"];
/// Attributes whose versions the server itself compares.
const VERSIONED: [&str; 2] = ["${attr.consul.version}", "${attr.nomad.version}"];

/// Several errors in one text, as the server writes them.
pub(crate) fn multi_error(errors: &[String]) -> String {
    let count = if errors.len() == 1 { "1 error".to_owned() } else { format!("{} errors", errors.len()) };
    let items: Vec<_> = errors.iter().map(|error| format!("\t* {error}")).collect();
    format!("{count} occurred:\n{}\n\n", items.join("\n"))
}

/// Everything that is wrong with a job. `namespaces` are those that exist.
pub(crate) fn validate<'a>(spec: &Spec, namespaces: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let job = &spec.view;
    let mut errors = Vec::new();
    if job.id.is_empty() {
        errors.push("Missing job ID".to_owned());
    } else if job.id.contains(' ') {
        errors.push("Job ID contains a space".to_owned());
    }
    if job.name.is_empty() {
        errors.push("Missing job name".to_owned());
    }
    if !["service", "batch", "system", "sysbatch"].contains(&job.kind.as_str()) {
        errors.push(format!("Invalid job type: {:?}", job.kind));
    }
    if job.datacenters.iter().any(String::is_empty) {
        errors.push("Job datacenter must be non-empty string".to_owned());
    }
    errors.extend(constraints(&job.constraints));
    if job.groups.is_empty() {
        errors.push("Missing job task groups".to_owned());
    }
    errors.extend(names_of_groups(job));
    errors.extend(job.groups.iter().filter_map(|group| {
        let wrong = group_errors(group, job);
        (!wrong.is_empty()).then(|| format!("Task group {} validation failed: {}", group.name, multi_error(&wrong)))
    }));
    if job.periodic.is_some() && !job.kind.ends_with("batch") {
        errors.push("Periodic can only be used with \"batch\" or \"sysbatch\" scheduler".to_owned());
    }
    if let Some(periodic) = &job.periodic {
        let faults = periodic.expressions().filter_map(|text| match Cron::parse(text) {
            Err(CronError::Refused(why)) => Some(format!("Invalid cron spec {text:?}: {why}")),
            _ => None,
        });
        let faults: Vec<_> = faults.collect();
        if !faults.is_empty() {
            errors.push(multi_error(&faults));
        }
    }
    if job.payload.as_ref().is_some_and(|payload| !payload.is_null()) {
        errors.push("job can't be submitted with a payload, only dispatched".to_owned());
    }
    if !(1..=100).contains(&job.priority) {
        errors.push("job priority must be between [1, 100]".to_owned());
    }
    if !namespaces.into_iter().any(|name| *name == job.namespace) {
        errors.push(format!("job {:?} is in nonexistent namespace {:?}", job.id, job.namespace));
    }
    if !["default", "all"].contains(&job.node_pool.as_str()) {
        errors.push(format!("job {:?} is in nonexistent node pool {:?}", job.id, job.node_pool));
    }
    errors
}

/// What a valid job says that is accepted with a warning.
pub(crate) fn warnings(spec: &Spec) -> Vec<String> {
    let groups = &spec.view.groups;
    let services = groups.iter().flat_map(|group| {
        let name = &group.name;
        let mut warnings = Vec::new();
        let tasks: BTreeSet<_> = group.services.iter().map(|service| &service.task_name).collect();
        warnings.extend(tasks.into_iter().filter(|task| !task.is_empty()).map(|task| {
            format!(
                "group {name:?} references task {task:?} in a service definition, but the task has no shutdown_delay set"
            )
        }));
        if group.services.iter().any(|service| service.task_name.is_empty()) {
            warnings.push(format!(
                "group {name:?} defines services, but neither the group nor any of its tasks have shutdown_delay set"
            ));
        }
        warnings
    });
    let memory = groups.iter().flat_map(|group| {
        let above = group.tasks.iter().filter(|task| task.resources.memory_max_mb > 0);
        above.map(|task| {
            let (group, task) = (&group.name, &task.name);
            format!(
                "Memory oversubscription is not enabled; Task \"{group}.{task}\" memory_max value will be ignored. \
                 Update the Scheduler Configuration to allow oversubscription."
            )
        })
    });
    let old = spec.view.periodic.as_ref().is_some_and(|periodic| !periodic.spec.is_empty());
    let old = old.then(|| "cron is deprecated and may be removed in a future release. Use crons instead".to_owned());
    services.chain(memory).chain(old).collect()
}

/// What a valid job asks for that is not simulated.
pub(crate) fn unsimulated(spec: &Spec) -> Option<String> {
    let job = &spec.view;
    if let Some(periodic) = &job.periodic {
        let unknown = |text: &&str| Cron::parse(text) == Err(CronError::Unrecorded);
        if periodic.spec_type != "cron" || TimeZone::get(&periodic.time_zone).is_err() {
            return Some("schedules of this type or in this time zone".to_owned());
        }
        if let Some(text) = periodic.expressions().find(unknown) {
            return Some(format!("the schedule {text:?}"));
        }
    }
    if job.node_pool != "default" {
        return Some(format!("the node pool {}", job.node_pool));
    }
    let all = job.constraints.iter().chain(job.groups.iter().flat_map(|group| &group.constraints));
    let all = all.chain(job.affinities.iter().map(|affinity| &affinity.constraint));
    let simulated = |one: &&Constraint| {
        let versioned = one.operand == "semver" && VERSIONED.contains(&one.left.as_str());
        versioned || SIMULATED.contains(&one.operand.as_str())
    };
    if let Some(constraint) = all.into_iter().find(|one| !simulated(one)) {
        return Some(format!("constraints with the operand {}", constraint.operand));
    }
    job.groups.iter().find_map(|group| {
        let too_slow = |update: &Update| {
            let deadline = update.progress_deadline;
            deadline > Duration::ZERO && group.tasks.iter().any(|task| task.kill_timeout > deadline)
        };
        if group.rollout().is_some_and(too_slow) {
            return Some("a kill timeout above the progress deadline, which is refused with 500,".to_owned());
        }
        let mode = group.networks.iter().find_map(|network| network.mode.as_deref().filter(|mode| *mode != "host"));
        mode.map(|mode| format!("the network mode {mode}"))
    })
}

fn names_of_groups(job: &View) -> Vec<String> {
    let mut errors = Vec::new();
    for (position, group) in job.groups.iter().enumerate() {
        let number = position + 1;
        if group.name.is_empty() {
            errors.push(format!("Job task group {number} missing name"));
        } else if let Some(first) = job.groups.iter().take(position).position(|other| other.name == group.name) {
            let (name, first) = (&group.name, first + 1);
            errors.push(format!("Job task group {number} redefines '{name}' from group {first}"));
        }
        if job.kind == "system" && group.count > 1 {
            let (name, count) = (&group.name, group.count);
            errors
                .push(format!("Job task group {name} has count {count}. Count cannot exceed 1 with system scheduler"));
        }
    }
    errors
}

fn group_errors(group: &Group, job: &View) -> Vec<String> {
    let mut errors = Vec::new();
    if group.name.is_empty() {
        errors.push("Missing task group name".to_owned());
    }
    if group.count < 0 {
        errors.push("Task group count can't be negative".to_owned());
    }
    if group.scaling.as_ref().and_then(|scaling| scaling.max).is_some_and(|max| group.count > max) {
        let why = "Scaling policy invalid: task group count must not be greater than maximum count in scaling policy";
        errors.push(format!("Task group scaling policy validation failed: {}", multi_error(&[why.to_owned()])));
    }
    if group.tasks.is_empty() {
        errors.push("Missing tasks for task group".to_owned());
    }
    errors.extend(constraints(&group.constraints));
    let restart = &group.restart_policy;
    if !["fail", "delay"].contains(&restart.mode.as_str()) {
        errors.push(format!("Unsupported restart mode: {:?}", restart.mode));
    }
    if restart.interval < Duration::from_secs(5) {
        errors.push(format!("Interval can not be less than 5s (got {})", GoDuration(restart.interval)));
    }
    if let Some(delay) = group.reschedule_policy.as_ref().map(|policy| policy.delay)
        && delay < Duration::from_secs(5)
    {
        errors.push(format!("Delay cannot be less than 5s (got {})", GoDuration(delay)));
    }
    errors.extend(group.update.as_ref().map(update_errors).into_iter().flatten());
    errors.extend(names_of_tasks(group));
    errors.extend(service_errors(group));
    errors.extend(group.tasks.iter().filter_map(|task| {
        let wrong = task_errors(task);
        (!wrong.is_empty()).then(|| format!("Task {} validation failed: {}", task.name, multi_error(&wrong)))
    }));
    if job.kind.ends_with("batch") && group.update.is_some() {
        errors.push(format!("Job type {:?} does not allow update block", job.kind));
    }
    if job.kind.starts_with("sys") && group.reschedule_policy.is_some() {
        errors.push("System or sysbatch jobs should not have a reschedule policy".to_owned());
    }
    errors
}

fn update_errors(update: &Update) -> Vec<String> {
    let (min, deadline) = (update.health.min_healthy_time, update.health.healthy_deadline);
    let mut errors = Vec::new();
    if update.auto_promote && update.canary == 0 {
        errors.push("Auto Promote requires a Canary count greater than zero".to_owned());
    }
    if update.max_parallel > 0 && min >= deadline {
        let (min, deadline) = (GoDuration(min), GoDuration(deadline));
        errors.push(format!("Minimum healthy time must be less than healthy deadline: {min} > {deadline}"));
    }
    errors
}

fn names_of_tasks(group: &Group) -> Vec<String> {
    let mut errors = Vec::new();
    for (position, task) in group.tasks.iter().enumerate() {
        if let Some(first) = group.tasks.iter().take(position).position(|other| other.name == task.name) {
            errors.push(format!("Task {} redefines '{}' from task {}", position + 1, task.name, first + 1));
        }
    }
    errors
}

fn task_errors(task: &Task) -> Vec<String> {
    let mut errors = Vec::new();
    if task.name.contains(['/', '\\']) {
        errors.push("Task name cannot include slashes".to_owned());
    }
    if task.driver.is_empty() {
        errors.push("Missing task driver".to_owned());
    }
    let resources = &task.resources;
    let mut minima = Vec::new();
    if resources.cpu < 1 {
        minima.push(format!("minimum CPU value is 1; got {}", resources.cpu));
    }
    if resources.memory_mb < 10 {
        minima.push(format!("minimum MemoryMB value is 10; got {}", resources.memory_mb));
    }
    if !minima.is_empty() {
        errors.push(multi_error(&[multi_error(&minima)]));
    }
    errors
}

fn service_errors(group: &Group) -> Vec<String> {
    let mut errors = Vec::new();
    let services = group.services.iter().enumerate().filter(|(_, service)| service.provider == "nomad");
    let wrong: Vec<_> = services
        .filter_map(|(position, service)| {
            let mut wrong = Vec::new();
            let label = |c: char| c.is_ascii_alphanumeric() || c == '-';
            if service.name.len() > 63 || !service.name.chars().all(label) {
                wrong.push(format!(
                    "Service name must be valid per RFC 1123 and can contain only alphanumeric characters or dashes \
                     and must be no longer than 63 characters: {:?}",
                    service.name
                ));
            }
            for check in &service.checks {
                if !["tcp", "http"].contains(&check.kind.as_str()) {
                    wrong.push(format!("invalid check type ({:?}), must be one of tcp, http", check.kind));
                }
                if check.interval < Duration::from_secs(1) {
                    wrong.push(format!("interval ({}) cannot be lower than 1s", GoDuration(check.interval)));
                }
            }
            let name = &service.name;
            (!wrong.is_empty())
                .then(|| format!("Service[{position}] {name} validation failed: {}", multi_error(&wrong)))
        })
        .collect();
    if !wrong.is_empty() {
        errors.push(format!("Task group service validation failed: {}", multi_error(&wrong)));
    }
    let scripts = group.services.iter().filter(|service| service.checks.iter().any(|check| check.kind == "script"));
    let scripts: Vec<_> = scripts
        .map(|service| {
            let (group, name) = (&group.name, &service.name);
            format!("Service [{group}]->{name} or Check service: {name:?} check must specify task parameter")
        })
        .collect();
    if !scripts.is_empty() {
        errors.push(format!("Task group service check validation failed: {}", multi_error(&scripts)));
    }
    errors
}

fn constraints(constraints: &[Constraint]) -> Vec<String> {
    let wrong = |constraint: &Constraint| {
        if !OPERANDS.contains(&constraint.operand.as_str()) {
            return Some(format!("Unknown constraint type {:?}", constraint.operand));
        }
        let attribute = constraint.left.strip_prefix("${").and_then(|left| left.strip_suffix('}'))?;
        let known = ["attr.", "device.", "meta."].iter().any(|prefix| attribute.starts_with(prefix))
            || BTreeSet::from(["node.unique.id", "node.unique.name", "node.datacenter", "node.class", "node.pool"])
                .contains(attribute);
        (!known).then(|| format!("unsupported attribute {:?}", constraint.left))
    };
    let numbered = constraints.iter().enumerate();
    numbered
        .filter_map(|(position, constraint)| {
            let wrong = multi_error(&[wrong(constraint)?]);
            Some(format!("Constraint {} validation failed: {wrong}", position + 1))
        })
        .collect()
}
