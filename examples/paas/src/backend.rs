//! The backend by configuration: its scheduler, and the hooks that only it has.

use std::path::Path;
use std::sync::Arc;

use scheduler_core::Scheduler;
use scheduler_core::hooks::LifecycleHooks;
use scheduler_core::memory::MemoryFactory;
use scheduler_core::registry::Registry;
use scheduler_k8s::KubernetesFactory;
use scheduler_nomad::NomadFactory;
use serde_json::{Value, json};

use crate::serve::Failure;

/// Whose workloads those of the platform are, where no configuration says so.
const OWNER: &str = "example-platform";

/// Where apps run.
#[derive(Clone, Debug)]
pub struct Backend {
    pub scheduler: Arc<dyn Scheduler>,
    /// What only this backend has, if anything.
    pub hooks: Option<Arc<dyn LifecycleHooks>>,
}

impl Backend {
    /// This process' memory: for a first look.
    pub async fn memory() -> Result<Self, Failure> {
        Self::of(json!({ "memory": { "scheduler": "memory", "memory": { "owner": OWNER } } }), "memory").await
    }

    /// A data centre of a configuration file.
    pub async fn from_file(path: &Path, datacenter: &str) -> Result<Self, Failure> {
        let problem = |error: &dyn std::fmt::Display| Failure(format!("{}: {error}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| problem(&error))?;
        Self::of(toml::from_str(&text).map_err(|error| problem(&error))?, datacenter).await
    }

    /// A data centre of a configuration.
    pub async fn of(config: Value, datacenter: &str) -> Result<Self, Failure> {
        let registry = Registry::new().backend(MemoryFactory).backend(KubernetesFactory).backend(NomadFactory);
        let scheduler = registry.build_one(config, datacenter).await?;
        Ok(Self { scheduler, hooks: None })
    }
}
