//! What a workload says for Nomad alone, as patches on the rendered job.

use std::collections::BTreeMap;

use scheduler_core::registry::parse;
use scheduler_core::{CheckedWorkload, Error, Fault};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Driver;
use crate::{BACKEND, meta};

/// The entry `nomad` of a workload's `extensions`: the driver, and JSON merge patches (RFC 7386) on the rendered job, its
/// group and its tasks, for what the neutral model has no word for. Fields have the names of Nomad's JSON API.
///
/// A patch may set or, with `null`, remove any field but those by which this library finds and guards its jobs. Lists are
/// replaced whole. Nomad ignores fields that it does not know, so check the spelling with a first launch.
///
/// ```
/// use scheduler_core::{BackendName, Container, Workload};
/// use scheduler_nomad::NomadExtension;
///
/// let extension = NomadExtension::default()
///     .driver("raw_exec")
///     .job(serde_json::json!({"Priority": 80}))
///     .task("web", serde_json::json!({"User": "web"}));
/// let web = Workload::service("shop", "web")
///     .container(Container::new("web", "shop/web:1").command(["/usr/local/bin/web"]))
///     .extension(&BackendName::nomad(), serde_json::to_value(extension)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct NomadExtension {
    /// The driver of all containers, instead of the scheduler's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<Driver>,
    /// The patch of the job.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub job: Map<String, Value>,
    /// The patch of its task group.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub group: Map<String, Value>,
    /// The patches of its tasks, by the names of containers. `Driver` and `Config` are among what they may set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tasks: BTreeMap<String, Map<String, Value>>,
}

/// What no patch touches.
const JOB: &[&str] = &[
    "ID",
    "Name",
    "Namespace",
    "Region",
    "Type",
    "TaskGroups",
    "Stop",
    "Version",
    "Periodic",
    "ParameterizedJob",
    "UI",
    "Update",
    "ParentID",
    "Payload",
    "Dispatched",
];
const GROUP: &[&str] = &["Name", "Count", "Tasks"];
const TASK: &[&str] = &["Name"];

impl NomadExtension {
    /// Sets the driver.
    #[must_use]
    pub fn driver(mut self, driver: impl Into<Driver>) -> Self {
        self.driver = Some(driver.into());
        self
    }

    /// Sets the patch of the job. Anything but an object is no patch and leaves it empty.
    #[must_use]
    pub fn job(mut self, patch: Value) -> Self {
        self.job = into_object(patch);
        self
    }

    /// Sets the patch of the task group. Anything but an object is no patch and leaves it empty.
    #[must_use]
    pub fn group(mut self, patch: Value) -> Self {
        self.group = into_object(patch);
        self
    }

    /// Sets the patch of the task of this container. Anything but an object is no patch and leaves it empty.
    #[must_use]
    pub fn task(mut self, container: impl Into<String>, patch: Value) -> Self {
        self.tasks.insert(container.into(), into_object(patch));
        self
    }

    pub(super) fn of(workload: &CheckedWorkload) -> Result<Self, Error> {
        let Some(value) = workload.extensions.get(BACKEND) else { return Ok(Self::default()) };
        parse(value.clone()).map_err(|error| {
            let below = |cause: &Fault| match cause.path.as_str() {
                "" | "." => String::new(),
                path => format!(".{path}"),
            };
            let causes = error.causes().iter();
            let causes =
                causes.map(|cause| Fault::new(format!("extensions.{BACKEND}{}", below(cause)), &*cause.problem));
            Error::invalid_argument("the extension is refused").with_causes(causes.collect())
        })
    }

    /// Patches the job, and refuses a patch that touches what it may not.
    pub(super) fn patch(self, job: &mut Value) -> Result<(), Error> {
        patch("job", JOB, job, self.job)?;
        let group = &mut job["TaskGroups"][0];
        patch("group", GROUP, group, self.group)?;
        for (name, fields) in self.tasks {
            let tasks = group["Tasks"].as_array_mut().into_iter().flatten();
            let at = format!("tasks.{name}");
            match tasks.into_iter().find(|task| task["Name"] == *name) {
                Some(task) => patch(&at, TASK, task, fields)?,
                None => return Err(refuse(&at, "there is no container of this name")),
            }
        }
        Ok(())
    }
}

fn into_object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

pub(super) fn refuse(at: &str, problem: impl Into<String>) -> Error {
    let path = format!("extensions.{BACKEND}.{at}");
    Error::invalid_argument("the extension is refused").with_causes(vec![Fault::new(path, problem)])
}

fn patch(at: &str, kept: &[&str], target: &mut Value, patch: Map<String, Value>) -> Result<(), Error> {
    for (field, value) in &patch {
        // The server does not mind the case of a field; two spellings of one would be a lottery.
        if kept.iter().any(|kept| kept.eq_ignore_ascii_case(field)) {
            return Err(refuse(&format!("{at}.{field}"), "is this library's to set"));
        }
        let fields = target.as_object().into_iter().flatten().map(|(name, _)| name);
        if let Some(name) = fields.into_iter().find(|name| *name != field && name.eq_ignore_ascii_case(field)) {
            return Err(refuse(&format!("{at}.{field}"), format!("is spelled {name}")));
        }
        if field == "Meta" {
            let ours = value.as_object().map(|texts| texts.keys().find(|key| meta::is_ours(key)));
            match ours {
                Some(None) => {}
                Some(Some(key)) => return Err(refuse(&format!("{at}.Meta[{key:?}]"), "is this library's to set")),
                None => return Err(refuse(&format!("{at}.Meta"), "is no object")),
            }
        }
    }
    merge(target, Value::Object(patch));
    match path_of_null(target) {
        Some(path) => Err(refuse(&format!("{at}{path}"), "null inside of a list means nothing")),
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
