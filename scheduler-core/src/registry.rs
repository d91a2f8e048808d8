//! Data centres by name: from configuration to schedulers.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! use scheduler_core::registry::Registry;
//! use scheduler_core::memory::MemoryFactory;
//! use serde_json::json;
//!
//! let registry = Registry::new().backend(MemoryFactory);
//! let schedulers = registry
//!     .build(json!({ "test": { "scheduler": "memory", "memory": { "owner": "me", "namespaces": ["shop"] } } }))
//!     .await?;
//! assert_eq!(schedulers.get("test")?.capabilities().backend().as_str(), "memory");
//! assert!(schedulers.get("tset").unwrap_err().to_string().contains("test"));
//! # Ok::<(), scheduler_core::Error>(())
//! # }).unwrap();
//! ```

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind, Result};
use crate::name::BackendName;
use crate::op::OpName;
use crate::scheduler::Scheduler;
use crate::workload::{CheckedWorkload, Fault};

/// Builds the schedulers of one backend from configuration. Object safe: third-party backends bring their own.
#[async_trait]
pub trait SchedulerFactory: Debug + Send + Sync + 'static {
    /// The backend's name: the value of `scheduler`, and the key of its settings, in the configuration.
    fn backend(&self) -> BackendName;

    /// Builds a scheduler, connecting it where the backend has a server.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] with the path of each setting that is wrong (see [`parse`]), or why the server could not be
    /// reached.
    async fn build(&self, config: Value) -> Result<Arc<dyn Scheduler>>;

    /// The native objects that a launch would make of a workload, in order, without a server.
    ///
    /// # Errors
    /// As [`build`](Self::build) for the settings; those of a launch for the workload; and
    /// [`ErrorKind::Unsupported`] from a backend that has no native objects to print.
    fn render(&self, config: Value, workload: &CheckedWorkload) -> Result<Vec<Value>> {
        let _ = (config, workload);
        let reason = format!("{} has no native objects to print", self.backend());
        Err(Error::unsupported(OpName::Launch, reason).with_backend(&self.backend()))
    }
}

/// Reads a backend's settings. For factories.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] with the path of the setting that is wrong.
pub fn parse<T: DeserializeOwned>(config: Value) -> Result<T> {
    serde_path_to_error::deserialize(config)
        .map_err(|error| refuse(error.path().to_string(), error.inner().to_string()))
}

/// The error for a setting that is wrong. For factories; the registry puts the setting's place in the configuration before
/// its path.
pub fn refuse(setting: impl Into<String>, problem: impl Into<String>) -> Error {
    connect("settings", vec![Fault::new(setting, problem)])
}

/// The backends that a program knows.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    factories: BTreeMap<BackendName, Arc<dyn SchedulerFactory>>,
}

/// The schedulers of all data centres of one configuration, each built once.
#[derive(Clone, Debug, Default)]
pub struct Datacenters {
    schedulers: BTreeMap<String, Arc<dyn Scheduler>>,
}

impl Registry {
    /// No backends yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a backend. One of the same name is replaced.
    #[must_use]
    pub fn backend(mut self, factory: impl SchedulerFactory) -> Self {
        self.factories.insert(factory.backend(), Arc::new(factory));
        self
    }

    /// Builds the schedulers of all data centres.
    ///
    /// The configuration is an object of data centres by name, each `{ "scheduler": "<backend>", "<backend>": { … } }`, with
    /// the backend's own settings under its name.
    ///
    /// # Errors
    /// The first fault of the configuration with its path, or the first error of a backend, with the data centre's name.
    pub async fn build(&self, config: Value) -> Result<Datacenters> {
        let Value::Object(entries) = config else {
            return Err(connect("the configuration is not a table of data centres by name", Vec::new()));
        };
        let mut schedulers = BTreeMap::new();
        for (name, entry) in entries {
            let scheduler = self.datacenter(&name, entry).await?;
            schedulers.insert(name, scheduler);
        }
        Ok(Datacenters { schedulers })
    }

    /// Builds the scheduler of one data centre of a configuration; the others are not looked at.
    ///
    /// # Errors
    /// As [`build`](Self::build); and when there is no data centre of that name, with the names that there are.
    pub async fn build_one(&self, config: Value, name: &str) -> Result<Arc<dyn Scheduler>> {
        self.datacenter(name, pick(config, name)?).await
    }

    /// The native objects that a launch in this data centre would make of a workload; asks no server.
    ///
    /// # Errors
    /// As [`build_one`](Self::build_one) and [`SchedulerFactory::render`].
    pub fn render(&self, config: Value, name: &str, workload: &CheckedWorkload) -> Result<Vec<Value>> {
        let (factory, settings) = self.entry(name, pick(config, name)?)?;
        factory.render(settings, workload).map_err(|error| place(error, name, &factory.backend()))
    }

    async fn datacenter(&self, name: &str, entry: Value) -> Result<Arc<dyn Scheduler>> {
        let (factory, settings) = self.entry(name, entry)?;
        let placed = |error| place(error, name, &factory.backend()).with_op(OpName::Connect);
        factory.build(settings).await.map_err(placed)
    }

    /// The backend of a data centre, and its settings.
    fn entry(&self, name: &str, entry: Value) -> Result<(&dyn SchedulerFactory, Value)> {
        let invalid =
            |path: &str, problem: String| connect(&format!("data centre {name}"), vec![Fault::new(path, problem)]);
        let Value::Object(mut entry) = entry else {
            return Err(invalid(name, "is not a table with the key scheduler".to_owned()));
        };
        let known = || list(self.factories.keys());
        let at = format!("{name}.scheduler");
        let backend = match entry.remove("scheduler") {
            Some(Value::String(backend)) => backend,
            Some(_) => return Err(invalid(&at, format!("is not a text; known backends: {}", known()))),
            None => return Err(invalid(&at, format!("is missing; known backends: {}", known()))),
        };
        let Some((_, factory)) = self.factories.iter().find(|(known, _)| known.as_str() == backend) else {
            return Err(invalid(&at, format!("{backend:?} is not a backend that is known here; known: {}", known())));
        };
        let settings = entry.remove(&backend).unwrap_or_else(|| Value::Object(Map::new()));
        match entry.keys().next() {
            Some(other) => {
                let problem = format!("unknown key; expected scheduler and {backend}");
                Err(invalid(&format!("{name}.{other}"), problem))
            }
            None => Ok((&**factory, settings)),
        }
    }
}

/// The entry of one data centre.
fn pick(mut config: Value, name: &str) -> Result<Value> {
    match config.get_mut(name) {
        Some(entry) => Ok(entry.take()),
        None => {
            let known = config.as_object().map(|entries| list(entries.keys())).unwrap_or_default();
            Err(unknown_datacenter(name, &known))
        }
    }
}

/// Names the backend, and puts a setting at its place in the configuration: under the backend's name in the data centre.
/// Only what is marked as of connecting is about settings; a workload that is refused keeps its own paths.
fn place(error: Error, name: &str, backend: &BackendName) -> Error {
    let error = error.with_backend(backend);
    if error.op() != Some(OpName::Connect) {
        return error;
    }
    let causes =
        error.causes().iter().map(|c| Fault::new(format!("{name}.{backend}.{}", c.path), &*c.problem)).collect();
    error.with_causes(causes)
}

impl Datacenters {
    /// The scheduler of a data centre.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] with the names that there are.
    pub fn get(&self, name: &str) -> Result<Arc<dyn Scheduler>> {
        self.schedulers.get(name).map(Arc::clone).ok_or_else(|| unknown_datacenter(name, &list(self.schedulers.keys())))
    }

    /// All data centres, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Arc<dyn Scheduler>)> {
        self.schedulers.iter().map(|(name, scheduler)| (name.as_str(), scheduler))
    }
}

fn list<T: ToString>(names: impl Iterator<Item = T>) -> String {
    let names: Vec<String> = names.map(|name| name.to_string()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn unknown_datacenter(name: &str, known: &str) -> Error {
    connect(&format!("no data centre {name:?} in the configuration; there are: {known}"), Vec::new())
}

fn connect(message: &str, causes: Vec<Fault>) -> Error {
    Error::new(ErrorKind::InvalidArgument, message).with_op(OpName::Connect).with_causes(causes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Debug)]
    struct Strict;

    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Settings {
        limits: Limits,
    }

    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Limits {
        seconds: u32,
    }

    #[async_trait]
    impl SchedulerFactory for Strict {
        fn backend(&self) -> BackendName {
            BackendName::new("strict").unwrap()
        }

        async fn build(&self, config: Value) -> Result<Arc<dyn Scheduler>> {
            let settings = parse::<Settings>(config)?;
            if settings.limits.seconds == 0 {
                return Err(refuse("limits.seconds", "is zero"));
            }
            Err(Error::new(ErrorKind::Unavailable, "no server here"))
        }

        fn render(&self, config: Value, _: &CheckedWorkload) -> Result<Vec<Value>> {
            parse::<Settings>(config)?;
            Err(Error::invalid_argument("").with_causes(vec![Fault::new("extensions.strict", "is odd")]))
        }
    }

    async fn fails(entry: Value) -> Error {
        Registry::new().backend(Strict).build(json!({ "east": entry })).await.map(|_| ()).unwrap_err()
    }

    #[tokio::test]
    async fn faults_name_their_place_in_the_configuration() {
        for (entry, path, word) in [
            (json!({ "scheduler": "kubernets" }), "east.scheduler", "strict"),
            (json!({}), "east.scheduler", "strict"),
            (json!({ "scheduler": 1 }), "east.scheduler", "strict"),
            (json!(1), "east", "scheduler"),
            (json!({ "scheduler": "strict", "nomad": {} }), "east.nomad", "strict"),
            (json!({ "scheduler": "strict" }), "east.strict.", "limits"),
            (
                json!({ "scheduler": "strict", "strict": { "limits": { "seconds": 0 } } }),
                "east.strict.limits.seconds",
                "zero",
            ),
            (
                json!({ "scheduler": "strict", "strict": { "limits": { "seconds": "x" } } }),
                "east.strict.limits.seconds",
                "u32",
            ),
            (
                json!({ "scheduler": "strict", "strict": { "limits": { "minutes": 1 } } }),
                "east.strict.limits",
                "minutes",
            ),
        ] {
            let error = fails(entry.clone()).await;
            assert_eq!((error.kind(), error.op()), (&ErrorKind::InvalidArgument, Some(OpName::Connect)), "{entry}");
            let [cause] = error.causes() else { panic!("{entry}: {error}") };
            assert!(cause.path.starts_with(path) && cause.problem.contains(word), "{entry}: {error}");
        }
    }

    #[tokio::test]
    async fn a_backend_that_cannot_be_reached_is_named() {
        let error = fails(json!({ "scheduler": "strict", "strict": { "limits": { "seconds": 1 } } })).await;
        assert_eq!((error.kind(), error.backend().map(BackendName::as_str)), (&ErrorKind::Unavailable, Some("strict")));
    }

    #[test]
    fn a_workload_that_is_refused_keeps_its_paths() {
        let workload = crate::Workload::service("shop", "web").container(crate::Container::new("web", "web:1"));
        let workload = workload.check().unwrap();
        let refused = |seconds: Value| {
            let config = json!({ "east": { "scheduler": "strict", "strict": { "limits": { "seconds": seconds } } } });
            let error = Registry::new().backend(Strict).render(config, "east", &workload).unwrap_err();
            error.causes()[0].path.clone()
        };
        assert_eq!(refused(json!(1)), "extensions.strict");
        assert_eq!(refused(json!("x")), "east.strict.limits.seconds");
    }

    #[tokio::test]
    async fn an_unknown_data_centre_is_told_with_the_known_ones() {
        let error =
            Registry::new().build_one(json!({ "east": {}, "west": {} }), "north").await.map(|_| ()).unwrap_err();
        assert!(error.message().contains("east, west"), "{error}");
    }
}
