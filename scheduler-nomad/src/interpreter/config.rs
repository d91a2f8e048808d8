//! `put_config`: entries of the one variable that a job's tasks may read.

use std::collections::{BTreeMap, BTreeSet};

use scheduler_core::{
    CheckedWorkload, ConfigRef, ConfigStored, EnvValue, Error, ErrorKind, Fault, Guard, Missing, OwnerId, PutConfig,
    Result, Target, VolumeSource,
};
use scheduler_nomad_client::model::{Secret, Variable};
use scheduler_nomad_client::{Query, VariableCondition};

use super::live::{Live, check_guard, deleting, foreign};
use super::{NomadScheduler, history};
use crate::error::{lost_a_race, translate};
use crate::render::{RenderContext, item_of, variable};

/// The item that says whose a variable is.
pub(super) const OWNER: &str = "scheduler.owner";
/// How many versions of a name are kept besides those that a kept revision refers to.
const KEPT: usize = 10;
/// What the server lets a variable hold.
pub(super) const MOST_BYTES: usize = 64 * 1024;
/// How often the compare-and-set is tried: another configuration of the same workload may be stored meanwhile.
const ATTEMPTS: u32 = 5;

pub(super) async fn put_config(scheduler: &NomadScheduler, op: &PutConfig) -> Result<ConfigStored> {
    op.check()?;
    let target = &op.target;
    match scheduler.read(target).await? {
        Live::Deleting(job) if scheduler.is_ours(&job) => return Err(deleting()),
        // The server takes variables for namespaces that it does not have.
        Live::Absent | Live::Gone(_)
            if scheduler.query(&Query::namespace(target.namespace.as_str())).await?.is_none() =>
        {
            return Err(Error::new(ErrorKind::NotFound(Missing::Namespace), "there is no such namespace"));
        }
        live => check_guard(&Guard::IfOwned, &live, &scheduler.owner)?,
    }
    let config = ConfigRef::new(op.name.as_str(), op.version());
    let mut attempt = 1;
    loop {
        let found = scheduler.configs(target).await?;
        let condition = found.condition();
        let mut items = found.items;
        if items.contains_key(&item_of(&config)) {
            return Ok(ConfigStored::new(config, false));
        }
        let last = versions(&items).into_iter().map(|(_, number)| number).max().unwrap_or(0);
        items.insert(OWNER.to_owned(), Secret::new(scheduler.owner.as_str()));
        items.insert(item_of(&config), Secret::new((last + 1).to_string()));
        let entries = op.entries.iter();
        items.extend(entries.map(|(key, value)| (format!("{}.{key}", item_of(&config)), Secret::new(value.expose()))));
        prune(scheduler, target, &mut items, &op.name).await?;
        let bytes: usize = items.iter().map(|(key, value)| key.len() + value.expose().len()).sum();
        if bytes > MOST_BYTES {
            let problem =
                format!("all configurations of a workload share {MOST_BYTES} bytes on Nomad, and would have {bytes}");
            return Err(Error::invalid_argument("configuration").with_causes(vec![Fault::new("entries", problem)]));
        }
        match scheduler.client.put_variable(&made(target, items), condition).await {
            Ok(_) => return Ok(ConfigStored::new(config, true)),
            Err(error) if lost_a_race(&error) && attempt < ATTEMPTS => attempt += 1,
            Err(error) => return Err(translate(&error)),
        }
    }
}

fn made(target: &Target, items: BTreeMap<String, Secret>) -> Variable {
    let mut made = Variable::new(target.namespace.as_str(), variable(target.name.as_str()));
    made.items = items;
    made
}

/// The configurations in a variable, with the number that says which came later.
fn versions(items: &BTreeMap<String, Secret>) -> Vec<(ConfigRef, u64)> {
    let of = |(key, value): (&String, &Secret)| {
        let (name, version) = key.split_once('.').filter(|(_, version)| !version.contains('.') && key != OWNER)?;
        Some((ConfigRef::new(name, version), value.expose().parse().ok()?))
    };
    items.iter().filter_map(of).collect()
}

/// Takes away the oldest versions of a name, but for those that a revision in the history refers to.
async fn prune(
    scheduler: &NomadScheduler,
    target: &Target,
    items: &mut BTreeMap<String, Secret>,
    name: &str,
) -> Result<()> {
    let mut own: Vec<_> = versions(items).into_iter().filter(|(config, _)| config.name == name).collect();
    if own.len() <= KEPT {
        return Ok(());
    }
    own.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
    let kept = history::versions(scheduler, target).await?.revisions;
    let referred: BTreeSet<String> = kept.iter().flat_map(|kept| referred(&kept.entry.workload)).collect();
    for (config, _) in own.into_iter().skip(KEPT) {
        let item = item_of(&config);
        if !referred.contains(&item) {
            items.retain(|key, _| *key != item && !key.starts_with(&format!("{item}.")));
        }
    }
    Ok(())
}

/// The configurations that a workload refers to.
fn referred(workload: &CheckedWorkload) -> Vec<String> {
    let volumes = workload.volumes.iter().filter_map(|volume| match &volume.source {
        VolumeSource::Config(config) => Some(item_of(config)),
        _ => None,
    });
    let env = workload.containers.iter().flat_map(|container| &container.env).filter_map(|var| match &var.value {
        EnvValue::Config(entry) => Some(item_of(&ConfigRef::new(&*entry.name, &*entry.version))),
        _ => None,
    });
    volumes.chain(env).collect()
}

/// What the variable of a workload holds.
pub(super) struct Configs {
    items: BTreeMap<String, Secret>,
    modify_index: Option<u64>,
}

impl Configs {
    fn condition(&self) -> VariableCondition {
        match self.modify_index {
            None => VariableCondition::Absent,
            Some(modify_index) => VariableCondition::Unchanged { modify_index },
        }
    }
}

impl NomadScheduler {
    /// The configurations of a workload. One request.
    ///
    /// # Errors
    /// A conflict if the variable is somebody else's.
    pub(super) async fn configs(&self, target: &Target) -> Result<Configs> {
        let path = variable(target.name.as_str());
        let Some(found) = self.query(&Query::variable(target.namespace.as_str(), &path)).await? else {
            return Ok(Configs { items: BTreeMap::new(), modify_index: None });
        };
        let owner = found.items.get(OWNER).and_then(|owner| OwnerId::new(owner.expose()).ok());
        if owner.as_ref() != Some(&self.owner) {
            return Err(foreign(owner, "the variable of the workload's configurations"));
        }
        Ok(Configs { items: found.items, modify_index: Some(found.modify_index) })
    }

    /// Tells a rendering which files the configurations of a workload are. One request if it refers to any.
    pub(super) async fn with_configs(
        &self,
        mut context: RenderContext,
        workload: &CheckedWorkload,
    ) -> Result<RenderContext> {
        if referred(workload).is_empty() {
            return Ok(context);
        }
        // It also says whose they are: the tasks could read what somebody else left at this name.
        let items = self.configs(workload.target()).await?.items;
        for volume in &workload.volumes {
            let VolumeSource::Config(config) = &volume.source else { continue };
            let start = format!("{}.", item_of(config));
            let keys = items.keys().filter_map(|key| key.strip_prefix(&start)).map(str::to_owned);
            context = context.config(config.clone(), keys);
        }
        Ok(context)
    }

    /// Gives a run what its workload has: its tasks can read no other job's variable. One request, or two.
    pub(super) async fn copy_configs(&self, from: &Target, to: &Target) -> Result<()> {
        let found = self.configs(from).await?;
        if found.modify_index.is_none() {
            return Ok(());
        }
        match self.client.put_variable(&made(to, found.items), VariableCondition::Absent).await {
            Err(error) if !lost_a_race(&error) => Err(translate(&error)),
            // The run was begun before.
            _ => Ok(()),
        }
    }

    /// Takes all configurations of a workload away; whether there were any of ours. One request, or two.
    pub(super) async fn forget_configs(&self, target: &Target) -> Result<bool> {
        let found = match self.configs(target).await {
            Err(error) if matches!(error.kind(), ErrorKind::Conflict(_)) => return Ok(false),
            found => found?,
        };
        let Some(modify_index) = found.modify_index else { return Ok(false) };
        let path = variable(target.name.as_str());
        let gone = self.client.delete_variable(target.namespace.as_str(), &path, modify_index).await;
        gone.map(|()| true).map_err(|error| translate(&error))
    }
}
