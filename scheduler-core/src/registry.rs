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
use crate::workload::Fault;

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
}

/// Reads a backend's settings. For factories.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] with the path of the setting that is wrong.
pub fn parse<T: DeserializeOwned>(config: Value) -> Result<T> {
    serde_path_to_error::deserialize(config).map_err(|error| {
        let (path, problem) = (error.path().to_string(), error.inner().to_string());
        Error::invalid_argument("settings").with_causes(vec![fault(&path, problem)])
    })
}

fn fault(path: &str, problem: impl Into<String>) -> Fault {
    Fault { path: path.to_owned(), problem: problem.into() }
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
    pub async fn build_one(&self, mut config: Value, name: &str) -> Result<Arc<dyn Scheduler>> {
        match config.get_mut(name) {
            Some(entry) => self.datacenter(name, entry.take()).await,
            None => {
                let known = config.as_object().map(|entries| list(entries.keys())).unwrap_or_default();
                Err(unknown_datacenter(name, &known))
            }
        }
    }

    async fn datacenter(&self, name: &str, entry: Value) -> Result<Arc<dyn Scheduler>> {
        let invalid =
            |path: String, problem: String| connect(&format!("data centre {name}"), vec![fault(&path, problem)]);
        let Value::Object(mut entry) = entry else {
            return Err(invalid(name.to_owned(), "is not a table with the key scheduler".to_owned()));
        };
        let known = || list(self.factories.keys());
        let backend = match entry.remove("scheduler") {
            Some(Value::String(backend)) => backend,
            Some(_) => {
                return Err(invalid(format!("{name}.scheduler"), format!("is not a text; known backends: {}", known())));
            }
            None => {
                return Err(invalid(format!("{name}.scheduler"), format!("is missing; known backends: {}", known())));
            }
        };
        let Some((_, factory)) = self.factories.iter().find(|(known, _)| known.as_str() == backend) else {
            return Err(invalid(
                format!("{name}.scheduler"),
                format!("{backend:?} is not a backend that is known here; known: {}", known()),
            ));
        };
        let settings = entry.remove(&backend).unwrap_or_else(|| Value::Object(Map::new()));
        if let Some(other) = entry.keys().next() {
            return Err(invalid(format!("{name}.{other}"), format!("unknown key; expected scheduler and {backend}")));
        }
        factory.build(settings).await.map_err(|error| {
            let causes =
                error.causes().iter().map(|c| fault(&format!("{name}.{backend}.{}", c.path), &*c.problem)).collect();
            error.with_causes(causes).with_op(OpName::Connect).with_backend(&factory.backend())
        })
    }
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
