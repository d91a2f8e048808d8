//! What is to run, from what the models say. Pure: deploys and reconciliation share it, so that they never disagree.

use std::collections::BTreeMap;

use scheduler_core::hooks::{App, HookError, Release, SecretRef, SecretSource};
use scheduler_core::{
    ConfigEntry, ConfigRef, ConfigValue, Container, EnvValue, Kind, NameError, Observation, PutConfig, Replicas, Role,
    StackName, Target, Workload, WorkloadName,
};
use serde::{Deserialize, Serialize};

/// The label in which a workload has the name of the process that it is.
pub const PROCESS_LABEL: &str = "lifecycle/process";

/// The name of the configuration under which a release's is stored, with each of its processes.
pub const CONFIG_NAME: &str = "app";

/// How the workloads of a release are named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Naming {
    /// As their processes: a new release is rolled out over the last.
    #[default]
    Process,
    /// [`StackName`]s: a new release runs beside the last, and takes its requests.
    Stack,
}

impl Naming {
    /// Where a process of this release lives.
    ///
    /// # Errors
    /// The process' name is no workload name.
    pub fn target(self, app: &App, release: &Release, process: &Workload) -> Result<Target, NameError> {
        let name = match self {
            Self::Process => WorkloadName::new(&process.name)?,
            Self::Stack => {
                // A release never changes, so that its number says what it runs.
                StackName::new(&process.name, &release.version.to_string(), app.name.as_str())?.into()
            }
        };
        Ok(Target { namespace: app.namespace.clone(), name })
    }
}

/// The processes of a release as they are to be launched: [`process`] for each.
///
/// # Errors
/// As [`Naming::target`].
pub fn workloads(
    app: &App,
    release: &Release,
    naming: Naming,
    config: Option<&ConfigRef>,
) -> Result<Vec<Workload>, NameError> {
    let one = |of: &Workload| Ok(process(app, release, of, &naming.target(app, release, of)?, config));
    release.processes.iter().map(one).collect()
}

/// A process of a release as it is to be launched there: named, marked, with the formation's count, and with the
/// configuration as environment variables of its main container, which a variable of the same name in the workload
/// outweighs. It lives in the app's namespace, whatever it says.
///
/// `config` is what [`config_of`] stored for it; `None` if the release has none.
#[must_use]
pub fn process(app: &App, release: &Release, of: &Workload, at: &Target, config: Option<&ConfigRef>) -> Workload {
    let mut workload = marked(app, release, of);
    workload.name = at.name.to_string();
    if workload.name != of.name {
        workload.marks.stack = Some(workload.name.clone());
    }
    if let (Kind::Service(service), Some(count)) = (&mut workload.kind, count_of(app, &of.name)) {
        service.replicas = Replicas::Exactly(count);
    }
    with_config(workload, &release.config, config)
}

/// A job of an app (one that runs before a release, one that somebody asked for) as it is to be run: in its namespace, and
/// marked, so that it goes when the app goes.
#[must_use]
pub fn job(app: &App, release: Option<&Release>, job: &Workload, config: Option<&ConfigRef>) -> Workload {
    match release {
        Some(release) => with_config(marked(app, release, job), &release.config, config),
        None => {
            let mut workload = job.clone();
            workload.namespace = app.namespace.to_string();
            workload.marks.unit = Some(app.name.to_string());
            workload
        }
    }
}

/// How many instances the model wants of a process, if it is the model that says so.
fn count_of(app: &App, process: &str) -> Option<u32> {
    app.formation.iter().find(|(name, _)| name.as_str() == process).map(|(_, count)| *count)
}

fn marked(app: &App, release: &Release, process: &Workload) -> Workload {
    let mut workload = process.clone();
    workload.namespace = app.namespace.to_string();
    workload.marks.unit = Some(app.name.to_string());
    workload.marks.version = Some(release.version.to_string());
    workload.labels.insert(PROCESS_LABEL.to_owned(), process.name.clone());
    workload
}

/// Adds the entries to the environment of the main container.
fn with_config(mut workload: Workload, wanted: &BTreeMap<String, SecretRef>, config: Option<&ConfigRef>) -> Workload {
    let Some(config) = config else { return workload };
    let add = |container: Container| {
        if container.role != Role::Main {
            return container;
        }
        let missing = |key: &&String| container.env.iter().all(|var| var.name != **key);
        let missing: Vec<_> = wanted.keys().filter(missing).cloned().collect();
        missing.into_iter().fold(container, |container, key| {
            let entry = ConfigEntry::new(&config.name, &config.version, &key);
            container.env_from(key, EnvValue::Config(entry))
        })
    };
    workload.containers = workload.containers.into_iter().map(add).collect();
    workload
}

/// Reads the values of a configuration.
///
/// # Errors
/// Those of the source, with the name of the variable.
pub async fn read_config(
    secrets: &dyn SecretSource,
    config: &BTreeMap<String, SecretRef>,
) -> Result<BTreeMap<String, ConfigValue>, HookError> {
    let mut values = BTreeMap::new();
    for (key, secret) in config {
        let value = secrets.get(secret).await.map_err(|error| error.context(format_args!("configuration {key:?}")))?;
        values.insert(key.clone(), value);
    }
    Ok(values)
}

/// The operation that stores a configuration for a workload; `None` if there is nothing to store. Its version follows from
/// the values alone, so that all processes of a release refer to the same one.
#[must_use]
pub fn config_of(target: Target, values: &BTreeMap<String, ConfigValue>) -> Option<PutConfig> {
    if values.is_empty() {
        return None;
    }
    let mut op = PutConfig::new(target, CONFIG_NAME);
    op.entries.clone_from(values);
    Some(op)
}

/// The process that a workload is: what its label says, or its name.
#[must_use]
pub fn process_of(seen: &Observation) -> &str {
    seen.labels.get(PROCESS_LABEL).map_or(seen.target.name.as_str(), String::as_str)
}
