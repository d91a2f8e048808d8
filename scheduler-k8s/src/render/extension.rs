//! What a workload says for Kubernetes alone, as patches on what was rendered.

use scheduler_core::{CheckedWorkload, Error, Fault};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Rendered;
use crate::kind::MainKind;
use crate::labels;

/// The key of the entry.
const BACKEND: &str = "kubernetes";

/// The entry `kubernetes` of a workload's `extensions`: JSON merge patches (RFC 7386) on the rendered objects, for what
/// the neutral model has no word for.
///
/// A patch may set or, with `null`, remove any field but those by which this library finds and guards its objects: name,
/// namespace, selector, replicas, service name, pause, owner references, status, and labels and annotations that begin with `scheduler/`. Lists
/// are replaced whole.
///
/// ```
/// use scheduler_core::{BackendName, Container, Workload};
/// use scheduler_k8s::{KubernetesExtension, MainKind};
///
/// let extension = KubernetesExtension::default()
///     .main(MainKind::Deployment, serde_json::json!({"spec": {"template": {"spec": {"priorityClassName": "high"}}}}));
/// let web = Workload::service("shop", "web")
///     .container(Container::new("web", "shop/web:1"))
///     .extension(&BackendName::new("kubernetes")?, serde_json::to_value(extension)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct KubernetesExtension {
    /// The patch of the Deployment.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub deployment: Map<String, Value>,
    /// The patch of the StatefulSet.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub stateful_set: Map<String, Value>,
    /// The patch of the DaemonSet.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub daemon_set: Map<String, Value>,
    /// The patch of the Job.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub job: Map<String, Value>,
    /// The patch of the CronJob.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub cron_job: Map<String, Value>,
    /// The patch of the Service.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub service: Map<String, Value>,
}

impl KubernetesExtension {
    /// Sets the patch of a main object. Anything but an object is no patch and leaves it empty.
    #[must_use]
    pub fn main(mut self, kind: MainKind, patch: Value) -> Self {
        *self.of_kind(kind).1 = into_object(patch);
        self
    }

    fn of_kind(&mut self, kind: MainKind) -> (&'static str, &mut Map<String, Value>) {
        match kind {
            MainKind::Deployment => ("deployment", &mut self.deployment),
            MainKind::StatefulSet => ("stateful_set", &mut self.stateful_set),
            MainKind::DaemonSet => ("daemon_set", &mut self.daemon_set),
            MainKind::Job => ("job", &mut self.job),
            MainKind::CronJob => ("cron_job", &mut self.cron_job),
        }
    }

    /// Sets the patch of the Service. Anything but an object is no patch and leaves it empty.
    #[must_use]
    pub fn service(mut self, patch: Value) -> Self {
        self.service = into_object(patch);
        self
    }

    pub(super) fn of(workload: &CheckedWorkload) -> Result<Self, Error> {
        let Some(value) = workload.extensions.get(BACKEND) else { return Ok(Self::default()) };
        serde_path_to_error::deserialize(value).map_err(|error| {
            let path = error.path().to_string();
            let path = if path == "." { String::new() } else { format!(".{path}") };
            refuse(format!("extensions.{BACKEND}{path}"), error.into_inner().to_string())
        })
    }

    /// Patches the objects, and refuses a patch that touches what it may not, or what the workload has not.
    pub(super) fn patch(mut self, rendered: &mut Rendered) -> Result<(), Error> {
        let kind = rendered.kind;
        for other in MainKind::ALL.into_iter().filter(|other| *other != kind) {
            let (name, patch) = self.of_kind(other);
            if !patch.is_empty() {
                let problem = format!("this workload is a {} and no {}", kind.as_str(), other.as_str());
                return Err(refuse(format!("extensions.{BACKEND}.{name}"), problem));
            }
        }
        let (name, main) = self.of_kind(kind);
        patch(name, &mut rendered.main, std::mem::take(main))?;
        match &mut rendered.service {
            Some(service) => patch("service", service, self.service),
            None if self.service.is_empty() => Ok(()),
            None => Err(refuse(format!("extensions.{BACKEND}.service"), "a workload without ports has no Service")),
        }
    }
}

fn into_object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn refuse(path: String, problem: impl Into<String>) -> Error {
    Error::invalid_argument("the extension is refused").with_causes(vec![Fault::new(path, problem)])
}

fn patch(object: &str, target: &mut Value, patch: Map<String, Value>) -> Result<(), Error> {
    let at = format!("extensions.{BACKEND}.{object}");
    let patch = Value::Object(patch);
    if let Some(path) = touched(&patch) {
        return Err(refuse(format!("{at}.{path}"), "is this library's to set"));
    }
    merge(target, patch);
    match path_of_null(target) {
        Some(path) => Err(refuse(format!("{at}{path}"), "null inside of a list means nothing")),
        None => Ok(()),
    }
}

/// RFC 7386, section 2.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(&key);
        } else {
            merge(target.entry(key).or_insert(Value::Null), value);
        }
    }
}

/// The first field that a patch may not touch.
fn touched(patch: &Value) -> Option<String> {
    const KEPT: &[&[&str]] = &[
        &["apiVersion"],
        &["kind"],
        &["status"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "ownerReferences"],
        &["metadata", "finalizers"],
        &["spec", "selector"],
        &["spec", "replicas"],
        &["spec", "serviceName"],
        &["spec", "paused"],
    ];
    for path in KEPT {
        // A scalar or null in place of an object on the way removes all that is below it.
        let mut at = Some(patch);
        for field in *path {
            at = match at {
                Some(Value::Object(fields)) => fields.get(*field),
                Some(_) => break,
                None => None,
            };
        }
        if at.is_some() {
            return Some(path.join("."));
        }
    }
    for path in PLACES {
        for texts in ["labels", "annotations"] {
            let dotted = format!("{}.{texts}", path.trim_start_matches('/').replace('/', "."));
            match patch.pointer(&format!("{path}/{texts}")) {
                None => {}
                Some(Value::Object(texts)) => {
                    if let Some(key) = texts.keys().find(|key| labels::is_ours(key)) {
                        return Some(format!("{dotted}[{key:?}]"));
                    }
                }
                Some(_) => return Some(dotted),
            }
        }
    }
    // An object on the way to them that is no object any more.
    WAYS.iter()
        .find(|path| patch.pointer(path).is_some_and(|value| !value.is_object()))
        .map(|path| path.trim_start_matches('/').replace('/', "."))
}

/// Where our labels and annotations are.
const PLACES: &[&str] =
    &["/metadata", "/spec/template/metadata", "/spec/jobTemplate/metadata", "/spec/jobTemplate/spec/template/metadata"];

/// The objects on the way there.
const WAYS: &[&str] = &[
    "/spec",
    "/spec/template",
    "/spec/template/metadata",
    "/spec/jobTemplate",
    "/spec/jobTemplate/metadata",
    "/spec/jobTemplate/spec",
    "/spec/jobTemplate/spec/template",
    "/spec/jobTemplate/spec/template/metadata",
];

fn path_of_null(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some(String::new()),
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(i, item)| path_of_null(item).map(|path| format!("[{i}]{path}")))
        }
        Value::Object(fields) => {
            fields.iter().find_map(|(key, field)| path_of_null(field).map(|path| format!(".{key}{path}")))
        }
        _ => None,
    }
}
