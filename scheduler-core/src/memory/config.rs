//! Configurations: immutable, each of one workload.

use std::collections::BTreeSet;

use super::container::Reference;
use super::decide;
use super::mutation::Mutation;
use super::world::World;
use crate::{ConfigRef, OwnerId, PutConfig, Result, Target};

/// So many versions of a name are kept, and those that a kept revision refers to.
const KEPT: usize = 10;

/// One version of a configuration. Its values are not kept, as nothing in the simulation reads them.
#[derive(Clone, Debug)]
pub(super) struct ConfigObject {
    pub(super) owner: OwnerId,
    pub(super) config: ConfigRef,
    keys: BTreeSet<String>,
    pub(super) incarnation: u64,
}

impl ConfigObject {
    pub(super) fn has(&self, reference: &Reference) -> bool {
        self.config.name == reference.name
            && self.config.version == reference.version
            && reference.key.as_ref().is_none_or(|key| self.keys.contains(key))
    }
}

impl World {
    /// The configurations of a workload, oldest first.
    pub(super) fn configs_of(&self, target: &Target) -> &[ConfigObject] {
        self.configs.get(target).map_or(&[], Vec::as_slice)
    }

    /// Whether a configuration is to be stored; otherwise it is there already.
    pub(super) fn decide_config(&self, op: &PutConfig, me: &OwnerId) -> Result<bool> {
        let mutant = self.mutant;
        decide::in_namespace(self, &op.target)?;
        if let Some(object) = self.workloads.get(&op.target) {
            decide::not_foreign(object.meta.owner.as_ref(), me, mutant.is(Mutation::ConfigOfOthers))?;
            decide::not_deleting(object, mutant)?;
        }
        let of_name = || self.configs_of(&op.target).iter().filter(|there| there.config.name == op.name);
        for there in of_name() {
            decide::not_foreign(Some(&there.owner), me, mutant.is(Mutation::ConfigOfOthers))?;
        }
        let version = op.version();
        Ok(of_name().all(|there| there.config.version != version) || mutant.is(Mutation::ConfigWritesAgain))
    }

    /// Stores a configuration, and gives up the versions that are kept no more.
    pub(super) fn put_config(&mut self, op: &PutConfig, me: &OwnerId) -> Result<()> {
        if !self.decide_config(op, me)? {
            return Ok(());
        }
        let (mutant, incarnation) = (self.mutant, self.next_serial());
        let config = ConfigRef::new(&op.name, op.version());
        let history = self.workloads.get(&op.target).map(|object| &object.history);
        let in_use = |config: &ConfigRef| {
            history.is_some_and(|history| history.refers_to(config)) && !mutant.is(Mutation::ConfigPrunesWhatIsUsed)
        };
        let all = self.configs.entry(op.target.clone()).or_default();
        all.retain(|there| there.config != config);
        if mutant.is(Mutation::ConfigOverwrites) {
            all.retain(|there| there.config.name != op.name);
        }
        all.push(ConfigObject { owner: me.clone(), config, keys: op.entries.keys().cloned().collect(), incarnation });
        let count = all.iter().filter(|there| there.config.name == op.name).count();
        let mut surplus = count.saturating_sub(KEPT);
        if mutant.is(Mutation::ConfigIsNeverPruned) {
            surplus = 0;
        }
        all.retain(|there| {
            let oldest = there.config.name == op.name && surplus > 0;
            surplus -= usize::from(oldest);
            !oldest || in_use(&there.config)
        });
        Ok(())
    }
}
