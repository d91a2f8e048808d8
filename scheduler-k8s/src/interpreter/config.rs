//! `put_config`: an immutable Secret for each version.

use std::collections::BTreeSet;

use futures_util::future::try_join;
use scheduler_core::{CheckedWorkload, ConfigRef, ConfigStored, EnvValue, PutConfig, Result, Target, VolumeSource};
use scheduler_k8s_client::{Apply, Condition, ErrorKind as ClientErrorKind, Resource};
use serde_json::{Map, Value, json};

use super::find::{deleting, foreign, is_deleting};
use super::write::Writer;
use super::{KubernetesScheduler, history, text};
use crate::MANAGER;
use crate::error::translate;
use crate::labels::{self, CONFIG, OWNER, TARGET};
use crate::render::config_secret;

/// How many versions of a name are kept.
const KEPT: usize = 10;

const RESOURCE: &Resource = &Resource::SECRET;

pub(super) async fn put(scheduler: &KubernetesScheduler, op: &PutConfig) -> Result<ConfigStored> {
    op.check()?;
    let target = &op.target;
    let version = op.version();
    let name = config_secret(target, &op.name, &version);
    let of_name = format!("{TARGET}={},{CONFIG}={}", target.name, op.name);
    let (main, mut found) = try_join(scheduler.find(target), scheduler.list_of(RESOURCE, target, of_name)).await?;
    if let Some(main) = main {
        if !scheduler.is_ours(&main.object) {
            return Err(foreign(main.kind.as_str(), labels::owner_of(&main.object)));
        }
        // What is stored now would be taken with it, or be left behind.
        if is_deleting(&main.object) {
            return Err(deleting(main.kind.as_str()));
        }
    }
    if let Some(theirs) = found.iter().find(|secret| !scheduler.is_ours(secret)) {
        return Err(foreign("Secret", labels::owner_of(theirs)));
    }
    let namespace = target.namespace.as_str();
    let mut writer = Writer { scheduler, namespace, workload: None, warnings: Vec::new() };
    let mut stored = ConfigStored::new(ConfigRef::new(&op.name, &version), false);
    if !found.iter().any(|secret| text(secret, "name") == name) {
        let apply = Apply::new(RESOURCE, Some(namespace), &name, secret(scheduler, op), MANAGER, Condition::Absent);
        match scheduler.client.apply(apply).await {
            Ok(applied) => {
                stored.created = true;
                writer.warnings.extend(applied.warnings);
                found.push(applied.object);
            }
            // Somebody was faster.
            Err(error) if error.kind() == ClientErrorKind::AlreadyExists => {
                let there: Option<Value> =
                    scheduler.client.get(RESOURCE, Some(namespace), &name).await.map_err(|error| translate(&error))?;
                if let Some(theirs) = there.filter(|there| !scheduler.is_ours(there)) {
                    return Err(foreign("Secret", labels::owner_of(&theirs)));
                }
            }
            Err(error) => return Err(translate(&error)),
        }
    }
    prune(&mut writer, op, found, &name).await?;
    stored.warnings = writer.warnings;
    Ok(stored)
}

fn secret(scheduler: &KubernetesScheduler, op: &PutConfig) -> Value {
    let entries = op.entries.iter().map(|(key, value)| (key.clone(), Value::from(value.expose())));
    json!({
        "metadata": {
            "labels": {
                OWNER: scheduler.owner.as_str(),
                TARGET: op.target.name.as_str(),
                CONFIG: op.name,
            },
        },
        "type": "Opaque",
        "immutable": true,
        "stringData": entries.collect::<Map<_, _>>(),
    })
}

/// Lets go of the versions of a name that are too old and that no revision in the history refers to.
async fn prune(writer: &mut Writer<'_>, op: &PutConfig, mut found: Vec<Value>, present: &str) -> Result<()> {
    if found.len() <= KEPT {
        return Ok(());
    }
    // Versions of a store grow, and nobody writes what is immutable: they tell the order within a second.
    let written = |secret: &Value| text(secret, "resourceVersion").parse::<u64>().unwrap_or(u64::MAX);
    found.sort_by_key(|secret| std::cmp::Reverse((text(secret, "creationTimestamp").to_owned(), written(secret))));
    let selector = history::selector(&writer.scheduler.owner, &op.target);
    let revisions = writer.scheduler.list_of(&Resource::CONTROLLER_REVISION, &op.target, selector).await?;
    let mut used = BTreeSet::from([present.to_owned()]);
    for revision in &revisions {
        match history::workload_of(revision) {
            Some(workload) => used.extend(configs_of(&op.target, &workload)),
            // What cannot be read may refer to any of them.
            None => return Ok(()),
        }
    }
    for old in found.iter().skip(KEPT).filter(|secret| !used.contains(text(secret, "name"))) {
        writer.remove(RESOURCE, old).await?;
    }
    Ok(())
}

/// The Secrets that a workload refers to.
fn configs_of(target: &Target, workload: &CheckedWorkload) -> Vec<String> {
    let volumes = workload.volumes.iter().filter_map(|volume| match &volume.source {
        VolumeSource::Config(config) => Some(config_secret(target, &config.name, &config.version)),
        _ => None,
    });
    let variables = workload.containers.iter().flat_map(|container| &container.env);
    let variables = variables.filter_map(|variable| match &variable.value {
        EnvValue::Config(entry) => Some(config_secret(target, &entry.name, &entry.version)),
        _ => None,
    });
    volumes.chain(variables).collect()
}
