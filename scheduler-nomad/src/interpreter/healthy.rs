//! The sources of the revisions that were marked as healthy.
//!
//! The server keeps a version that has a name, and yet gives up its source with the sixth source that follows
//! (`job_tracked_versions`). Without it nobody could go back. So a mark stores the source in a variable as well, which no
//! task may read: `scheduler/healthy/<job>`, with an item for each mark.

use std::collections::BTreeMap;

use scheduler_core::{CheckedWorkload, ErrorKind, OwnerId, Result, Revision, Target};
use scheduler_nomad_client::model::{Secret, Submission, Variable};
use scheduler_nomad_client::{Query, VariableCondition};

use super::NomadScheduler;
use super::config::{MOST_BYTES, OWNER};
use super::live::foreign;
use crate::error::{lost_a_race, translate};
use crate::source;

/// How many marked revisions are kept. A version with a name is never pruned.
pub(super) const MOST_MARKED: usize = 10;
/// How often the compare-and-set is tried: another revision may be marked meanwhile.
const ATTEMPTS: u32 = 5;

/// What names of marked versions begin with.
const PREFIX: &str = "healthy-";

/// The name of the version that was good.
pub(super) fn tag_of(revision: &Revision) -> String {
    // A colon means something in an address.
    format!("{PREFIX}{}", revision.as_str().replace(':', "-"))
}

/// Whether a version with this name may be one that was marked.
pub(super) fn is_tag(name: &str) -> bool {
    name.starts_with(PREFIX)
}

fn path(target: &Target) -> String {
    format!("scheduler/healthy/{}", target.name)
}

/// The variable of a workload, with an item for each mark.
#[derive(Default)]
pub(super) struct Sources {
    items: BTreeMap<String, Secret>,
    modify_index: Option<u64>,
}

impl Sources {
    /// The workload of a mark.
    pub(super) fn of(&self, tag: &str, target: &Target) -> Option<CheckedWorkload> {
        let text = self.items.get(tag)?.expose();
        source::read(&Submission::new(text, "json"), target).filter(|workload| tag_of(workload.revision()) == tag)
    }
}

/// What there is and what is to be added, the newest first, as far as it fits. What another mark added in the same moment stays.
fn merged(found: &Sources, owner: &OwnerId, wanted: &[(String, String)]) -> BTreeMap<String, Secret> {
    let owner = (OWNER.to_owned(), Secret::new(owner.as_str()));
    let size = |items: &BTreeMap<String, Secret>| -> usize {
        items.iter().map(|(key, value)| key.len() + value.expose().len()).sum()
    };
    let mut items = found.items.clone();
    items.extend(
        std::iter::once(owner.clone()).chain(wanted.iter().map(|(tag, text)| (tag.clone(), Secret::new(text)))),
    );
    if items.len() <= 2 * MOST_MARKED && size(&items) <= MOST_BYTES {
        return items;
    }
    let mut items = BTreeMap::from([owner]);
    for (tag, text) in wanted {
        items.insert(tag.clone(), Secret::new(text));
        if size(&items) > MOST_BYTES {
            items.remove(tag);
            break;
        }
    }
    items
}

impl NomadScheduler {
    /// The sources of what was marked. One request.
    pub(super) async fn sources(&self, target: &Target) -> Result<Sources> {
        let found = self.query(&Query::variable(target.namespace.as_str(), &path(target))).await?;
        let Some(found) = found else { return Ok(Sources::default()) };
        let owner = found.items.get(OWNER).and_then(|owner| OwnerId::new(owner.expose()).ok());
        if owner.as_ref() != Some(&self.owner) {
            return Err(foreign(owner, "the variable of the workload's healthy revisions"));
        }
        Ok(Sources { items: found.items, modify_index: Some(found.modify_index) })
    }

    /// Keeps the sources of marked revisions, the newest first. One that does not fit into a variable is there for as long as
    /// the server keeps it beside its version. Two requests, or one if all are there.
    pub(super) async fn keep_sources(&self, target: &Target, wanted: &[&CheckedWorkload]) -> Result<()> {
        let mut texts = Vec::new();
        for workload in wanted {
            texts.push((tag_of(workload.revision()), source::of(workload)?.source));
        }
        let mut attempt = 1;
        loop {
            let found = self.sources(target).await?;
            let items = merged(&found, &self.owner, &texts);
            let keys = |items: &BTreeMap<String, Secret>| items.keys().cloned().collect::<Vec<_>>();
            if found.modify_index.is_some() && keys(&items) == keys(&found.items) {
                return Ok(());
            }
            let mut made = Variable::new(target.namespace.as_str(), path(target));
            made.items = items;
            let condition = match found.modify_index {
                None => VariableCondition::Absent,
                Some(modify_index) => VariableCondition::Unchanged { modify_index },
            };
            match self.client.put_variable(&made, condition).await {
                Ok(_) => return Ok(()),
                Err(error) if lost_a_race(&error) && attempt < ATTEMPTS => attempt += 1,
                Err(error) => return Err(translate(&error)),
            }
        }
    }

    /// Takes the sources away; whether there were any of ours. One request, or two.
    pub(super) async fn forget_sources(&self, target: &Target) -> Result<bool> {
        let found = match self.sources(target).await {
            Err(error) if matches!(error.kind(), ErrorKind::Conflict(_)) => return Ok(false),
            found => found?,
        };
        let Some(modify_index) = found.modify_index else { return Ok(false) };
        let gone = self.client.delete_variable(target.namespace.as_str(), &path(target), modify_index).await;
        gone.map(|()| true).map_err(|error| translate(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(sizes: &[usize]) -> Vec<(String, String)> {
        let one = |(n, size): (usize, &usize)| (format!("{PREFIX}{n}"), "x".repeat(*size));
        sizes.iter().enumerate().map(one).collect()
    }

    fn kept(found: &Sources, sizes: &[usize]) -> Vec<String> {
        let items = merged(found, &OwnerId::new("platform").unwrap(), &wanted(sizes));
        assert_eq!(items[OWNER].expose(), "platform");
        items.into_keys().filter(|key| is_tag(key)).collect()
    }

    #[test]
    fn as_many_as_fit_are_kept_and_the_newest_first() {
        let none = Sources::default();
        assert_eq!(kept(&none, &[10, 20]), ["healthy-0", "healthy-1"]);
        assert_eq!(kept(&none, &[40_000, 20_000, 20_000]), ["healthy-0", "healthy-1"]);
        assert_eq!(kept(&none, &[MOST_BYTES]), [""; 0]);
        let items = ["healthy-a", "healthy-b"].map(|tag| (tag.to_owned(), Secret::new("y".repeat(30_000))));
        let found = Sources { items: BTreeMap::from(items), modify_index: Some(1) };
        assert_eq!(kept(&found, &[10]), ["healthy-0", "healthy-a", "healthy-b"]);
        assert_eq!(kept(&found, &[10_000]), ["healthy-0"]);
    }
}
