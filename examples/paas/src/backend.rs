//! The backend by configuration: its scheduler, and the hooks that only it has.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use scheduler_core::hooks::{LifecycleHooks, SecretRef};
use scheduler_core::memory::MemoryFactory;
use scheduler_core::registry::Registry;
use scheduler_core::{ConfigValue, Scheduler};
use scheduler_k8s::{KubernetesConfig, KubernetesFactory, KubernetesHooks, KubernetesScheduler};
use scheduler_nomad::{NomadConfig, NomadFactory, NomadHooks, NomadScheduler};
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
        let scheduler = registry.build_one(config.clone(), datacenter).await?;
        Ok(Self { scheduler, hooks: own_hooks(&config[datacenter]).await? })
    }
}

/// The hooks that only this backend has: quota, isolation and front Service on Kubernetes, tenants on Nomad, and volumes on both.
/// They have a connection of their own.
async fn own_hooks(config: &Value) -> Result<Option<Arc<dyn LifecycleHooks>>, Failure> {
    // This platform has no registries and no certificates, and so no secrets.
    let secrets: Arc<BTreeMap<SecretRef, ConfigValue>> = Arc::default();
    Ok(match config["scheduler"].as_str() {
        Some("kubernetes") => {
            let config: KubernetesConfig = serde_json::from_value(config["kubernetes"].clone())?;
            let scheduler = KubernetesScheduler::connect_config(&config).await?;
            Some(Arc::new(KubernetesHooks::new(&scheduler, secrets)))
        }
        Some("nomad") => {
            let config: NomadConfig = serde_json::from_value(config["nomad"].clone())?;
            let scheduler = NomadScheduler::connect_config(&config).await?;
            Some(Arc::new(NomadHooks::new(&scheduler, secrets)))
        }
        _ => None,
    })
}
