//! A job as it was submitted: its canonical JSON, and what the scheduler and the clients read of it.

use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::time::from_nanos;

/// What a submission said, in canonical form.
#[derive(Debug, Clone)]
pub(crate) struct Spec {
    /// Every field of the job that is not the server's.
    pub(crate) json: Map<String, Value>,
    pub(crate) view: View,
}

/// The fields of a job that decide something.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct View {
    #[serde(rename = "ID")]
    pub(crate) id: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    #[serde(rename = "Type")]
    pub(crate) kind: String,
    pub(crate) region: String,
    pub(crate) node_pool: String,
    pub(crate) priority: i64,
    pub(crate) stop: bool,
    #[serde(deserialize_with = "or_empty")]
    pub(crate) datacenters: Vec<String>,
    #[serde(deserialize_with = "or_empty")]
    pub(crate) constraints: Vec<Constraint>,
    #[serde(deserialize_with = "or_empty")]
    pub(crate) affinities: Vec<Affinity>,
    #[serde(deserialize_with = "or_empty")]
    pub(crate) spreads: Vec<Spread>,
    pub(crate) multiregion: Option<Value>,
    pub(crate) periodic: Option<Periodic>,
    pub(crate) parameterized_job: Option<Parameters>,
    #[serde(rename = "ParentID")]
    pub(crate) parent_id: String,
    pub(crate) dispatched: bool,
    pub(crate) payload: Option<Value>,
    #[serde(rename = "TaskGroups", deserialize_with = "or_empty")]
    pub(crate) groups: Vec<Group>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Periodic {
    pub(crate) enabled: bool,
    pub(crate) prohibit_overlap: bool,
    pub(crate) spec: String,
    #[serde(deserialize_with = "or_empty")]
    pub(crate) specs: Vec<String>,
    pub(crate) spec_type: String,
    pub(crate) time_zone: String,
}

impl Periodic {
    pub(crate) fn expressions(&self) -> impl Iterator<Item = &str> {
        let one = Some(self.spec.as_str()).filter(|spec| !spec.is_empty());
        one.into_iter().chain(self.specs.iter().map(String::as_str))
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Parameters {
    pub(crate) payload: String,
    #[serde(deserialize_with = "or_empty")]
    pub(crate) meta_required: Vec<String>,
    #[serde(deserialize_with = "or_empty")]
    pub(crate) meta_optional: Vec<String>,
}

#[derive(Debug, Clone, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Constraint {
    #[serde(rename = "LTarget")]
    pub(crate) left: String,
    pub(crate) operand: String,
    #[serde(rename = "RTarget")]
    pub(crate) right: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Affinity {
    #[serde(flatten)]
    pub(crate) constraint: Constraint,
    pub(crate) weight: i64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Spread {
    pub(crate) attribute: String,
    pub(crate) weight: i64,
    #[serde(rename = "SpreadTarget", deserialize_with = "or_empty")]
    pub(crate) targets: Vec<SpreadTarget>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct SpreadTarget {
    pub(crate) value: String,
    pub(crate) percent: i64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) count: i64,
    #[serde(deserialize_with = "or_empty")]
    pub(crate) constraints: Vec<Constraint>,
    #[serde(deserialize_with = "or_empty")]
    pub(crate) spreads: Vec<Spread>,
    pub(crate) ephemeral_disk: Disk,
    #[serde(default, deserialize_with = "or_empty")]
    pub(crate) networks: Vec<Network>,
    #[serde(deserialize_with = "or_empty")]
    pub(crate) services: Vec<Service>,
    #[serde(deserialize_with = "or_empty")]
    pub(crate) tasks: Vec<Task>,
    pub(crate) reschedule_policy: Option<Reschedule>,
    pub(crate) restart_policy: Restart,
    pub(crate) update: Option<Update>,
    pub(crate) migrate: Option<HealthRule>,
    pub(crate) scaling: Option<Scaling>,
}

/// Between what a group may be scaled.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Scaling {
    pub(crate) min: Option<i64>,
    pub(crate) max: Option<i64>,
}

impl Scaling {
    /// What is wrong with a count, in the server's words.
    pub(crate) fn refuses(&self, count: i64) -> Option<String> {
        match (self.min, self.max) {
            (_, Some(max)) if count > max => {
                Some(format!("group count was greater than scaling policy maximum: {count} > {max}"))
            }
            (Some(min), _) if count < min => {
                Some(format!("group count was less than scaling policy minimum: {count} < {min}"))
            }
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Disk {
    #[serde(rename = "SizeMB")]
    pub(crate) size_mb: i64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Network {
    pub(crate) mode: Option<String>,
    #[serde(default)]
    pub(crate) dynamic_ports: Vec<PortSpec>,
    #[serde(default)]
    pub(crate) reserved_ports: Vec<PortSpec>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct PortSpec {
    #[serde(default)]
    pub(crate) label: String,
    #[serde(default)]
    pub(crate) value: i64,
    #[serde(default)]
    pub(crate) to: i64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Service {
    pub(crate) name: String,
    pub(crate) provider: String,
    pub(crate) task_name: String,
    pub(crate) port_label: String,
    #[serde(deserialize_with = "or_empty")]
    pub(crate) tags: Vec<String>,
    #[serde(deserialize_with = "or_empty")]
    pub(crate) canary_tags: Vec<String>,
    #[serde(deserialize_with = "or_empty")]
    pub(crate) checks: Vec<Check>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Check {
    #[serde(rename = "Type")]
    pub(crate) kind: String,
    #[serde(deserialize_with = "duration")]
    pub(crate) interval: Duration,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Task {
    pub(crate) name: String,
    pub(crate) driver: String,
    #[serde(deserialize_with = "or_empty")]
    pub(crate) config: Map<String, Value>,
    #[serde(deserialize_with = "duration")]
    pub(crate) kill_timeout: Duration,
    pub(crate) leader: bool,
    pub(crate) lifecycle: Option<Lifecycle>,
    #[serde(deserialize_with = "or_empty")]
    pub(crate) templates: Vec<Template>,
    pub(crate) restart_policy: Option<Restart>,
    pub(crate) resources: Resources,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Lifecycle {
    pub(crate) hook: String,
    pub(crate) sidecar: bool,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Template {
    #[serde(rename = "EmbeddedTmpl")]
    pub(crate) text: String,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Resources {
    #[serde(rename = "CPU")]
    pub(crate) cpu: i64,
    #[serde(rename = "MemoryMB")]
    pub(crate) memory_mb: i64,
    #[serde(rename = "MemoryMaxMB")]
    pub(crate) memory_max_mb: i64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Restart {
    pub(crate) attempts: i64,
    #[serde(deserialize_with = "duration")]
    pub(crate) delay: Duration,
    #[serde(deserialize_with = "duration")]
    pub(crate) interval: Duration,
    pub(crate) mode: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Reschedule {
    pub(crate) attempts: i64,
    #[serde(deserialize_with = "duration")]
    pub(crate) delay: Duration,
    pub(crate) delay_function: String,
    #[serde(deserialize_with = "duration")]
    pub(crate) interval: Duration,
    #[serde(deserialize_with = "duration")]
    pub(crate) max_delay: Duration,
    pub(crate) unlimited: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Update {
    pub(crate) auto_promote: bool,
    pub(crate) auto_revert: bool,
    pub(crate) canary: i64,
    pub(crate) max_parallel: i64,
    #[serde(deserialize_with = "duration")]
    pub(crate) progress_deadline: Duration,
    #[serde(flatten)]
    pub(crate) health: HealthRule,
}

/// When an allocation counts as healthy.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct HealthRule {
    pub(crate) health_check: String,
    #[serde(deserialize_with = "duration")]
    pub(crate) min_healthy_time: Duration,
    #[serde(deserialize_with = "duration")]
    pub(crate) healthy_deadline: Duration,
}

impl View {
    pub(crate) fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }
}

impl Group {
    /// The update block, when it makes deployments.
    pub(crate) fn rollout(&self) -> Option<&Update> {
        self.update.as_ref().filter(|update| update.max_parallel > 0)
    }

    /// What health means for an allocation in a deployment, or outside of one.
    pub(crate) fn health_rule(&self, in_deployment: bool) -> Option<&HealthRule> {
        match self.rollout() {
            Some(update) if in_deployment => Some(&update.health),
            _ => self.migrate.as_ref(),
        }
    }

    pub(crate) fn cpu(&self) -> i64 {
        self.tasks.iter().map(|task| task.resources.cpu).sum()
    }

    pub(crate) fn memory_mb(&self) -> i64 {
        self.tasks.iter().map(|task| task.resources.memory_mb).sum()
    }

    pub(crate) fn has_checks(&self) -> bool {
        self.services.iter().any(|service| !service.checks.is_empty())
    }
}

fn or_empty<'de, T: Deserialize<'de> + std::default::Default, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    i64::deserialize(from).map(from_nanos)
}
