//! What clients write about the versions of a job: going back to one, its stable flag, and tags.

use serde_json::json;

use super::{
    state::State,
    write::{Receipt, Refusal},
};
use crate::job::{JobKey, Request, VersionTag};

impl State {
    /// Registers an older version again, stopped or not as it was.
    pub(crate) fn revert(
        &mut self,
        key: &JobKey,
        version: u64,
        prior: Option<u64>,
        token: &str,
    ) -> Result<Receipt, Refusal> {
        let Some(entry) = self.jobs.get(key) else { return Err(absent(key)) };
        let current = entry.current().ok_or_else(|| absent(key))?;
        if current.version == version {
            return Err(Refusal::new(500, "can't revert to current version"));
        }
        if let Some(prior) = prior.filter(|prior| *prior != current.version) {
            let text = format!("Current job has version {}; enforcing version {prior}", current.version);
            return Err(Refusal::new(500, text));
        }
        let old = entry.version(version).ok_or_else(|| no_version(key, version))?;
        let mut spec = (*old.spec).clone();
        spec.view.stop = old.stop;
        spec.json.insert("Stop".to_owned(), json!(old.stop));
        let submission = entry.submissions.get(&version).map(|submission| submission.0.clone());
        let check_index = Some(current.job_modify_index);
        let request = Request { spec, check_index, preserve_counts: false, submission, diff: false };
        let receipt = self.register(request, token)?;
        Ok(Receipt { warnings: String::new(), ..receipt })
    }

    /// Sets or clears the stable flag of a version. Where that changes something, the job is that version from then on.
    pub(crate) fn set_stable(&mut self, key: &JobKey, version: u64, stable: bool) -> Result<u64, Refusal> {
        let old =
            self.jobs.get(key).and_then(|entry| entry.version(version)).ok_or_else(|| no_version(key, version))?;
        let changes = old.stable != stable;
        let mut write = self.begin("JobStabilityUpdated");
        let index = write.index;
        if changes {
            if let Some(entry) = self.jobs.get_mut(key) {
                entry.select(version);
            }
            self.touch_job(&mut write, key, |job| job.stable = stable);
        }
        self.commit(write, false);
        Ok(index)
    }

    /// Names a version. It has one name at most, and the server keeps it for that.
    pub(crate) fn tag_version(
        &mut self,
        key: &JobKey,
        name: &str,
        version: Option<u64>,
        description: &str,
    ) -> Result<(u64, VersionTag), Refusal> {
        // Also a refusal takes an index.
        self.index += 1;
        let (index, now, id) = (self.index, self.now, &key.1);
        let entry = self.jobs.get_mut(key);
        let asked = version.or_else(|| Some(entry.as_ref()?.current()?.version)).unwrap_or(0);
        let missing = || Refusal::new(500, format!("job {id:?} version {asked} not found"));
        let entry = entry.filter(|entry| entry.version(asked).is_some()).ok_or_else(missing)?;
        let named = |tag: &Option<VersionTag>| tag.as_ref().is_some_and(|tag| tag.name == name);
        if entry.versions().iter().any(|job| job.version != asked && named(&job.tag)) {
            let text = format!("tag {name:?} already exists on a different version of job {id:?}");
            return Err(Refusal::new(500, text));
        }
        let tag = VersionTag { name: name.to_owned(), description: description.to_owned(), time: now.0 };
        entry.change_version(asked, |job| {
            job.tag = Some(tag.clone());
            job.modify_index = index;
        });
        self.tables.jobs = index;
        Ok((index, tag))
    }

    pub(crate) fn untag_version(&mut self, key: &JobKey, name: &str) -> Result<u64, Refusal> {
        self.index += 1;
        let index = self.index;
        let named = |tag: &Option<VersionTag>| tag.as_ref().is_some_and(|tag| tag.name == name);
        let entry = self.jobs.get_mut(key);
        let found = entry.and_then(|entry| {
            let version = entry.versions().iter().find(|job| named(&job.tag))?.version;
            Some((entry, version))
        });
        let Some((entry, version)) = found else {
            return Err(Refusal::new(500, format!("tag {name:?} not found on job {:?}", key.1)));
        };
        entry.change_version(version, |job| {
            job.tag = None;
            job.modify_index = index;
        });
        entry.prune(Some(version));
        self.tables.jobs = index;
        Ok(index)
    }
}

fn absent(key: &JobKey) -> Refusal {
    Refusal::new(500, format!("job {:?} not found", key.1))
}

fn no_version(key: &JobKey, version: u64) -> Refusal {
    let (namespace, id) = key;
    Refusal::new(500, format!("job {id:?} in namespace {namespace:?} at version {version} not found"))
}
