//! The memory scheduler from configuration.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::Value;

use super::MemoryCluster;
use crate::error::Result;
use crate::name::{BackendName, OwnerId};
use crate::registry::{SchedulerFactory, parse};
use crate::scheduler::Scheduler;

/// Builds in-memory schedulers for a [`Registry`](crate::registry::Registry), each on a cluster of its own.
///
/// Settings: `owner`, and `namespaces`, the ones that exist.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "it has no parts")]
pub struct MemoryFactory;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    owner: OwnerId,
    #[serde(default)]
    namespaces: Vec<crate::Namespace>,
}

#[async_trait]
impl SchedulerFactory for MemoryFactory {
    fn backend(&self) -> BackendName {
        super::backend()
    }

    async fn build(&self, config: Value) -> Result<Arc<dyn Scheduler>> {
        let settings: Settings = parse(config)?;
        let cluster = settings.namespaces.iter().fold(MemoryCluster::builder(), |b, name| b.namespace(name.as_str()));
        Ok(Arc::new(cluster.build().scheduler(settings.owner)))
    }
}
