//! The status of jobs, and how many allocations and children of them there are in which state.

use std::collections::BTreeMap;

use super::{
    children::Children,
    objects::{ClientStatus, Deployment},
    state::{State, Write},
};
use crate::job::{JobKey, JobStatus};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) groups: BTreeMap<String, Counts>,
    pub(crate) children: Children,
    pub(crate) modify_index: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) queued: u64,
    pub(crate) starting: u64,
    pub(crate) running: u64,
    pub(crate) complete: u64,
    pub(crate) failed: u64,
    pub(crate) lost: u64,
}

impl State {
    /// The status of a job and its summary follow from its allocations, its deployment and its evaluations.
    pub(super) fn refresh(&mut self, key: &JobKey, write: &mut Write) {
        let Some(job) = self.job(key).filter(|job| !job.is_parent()) else { return };
        let mut groups: BTreeMap<_, Counts> =
            job.spec.view.groups.iter().map(|group| (group.name.clone(), Counts::default())).collect();
        let mut runs = false;
        for alloc in self.allocs_of(key) {
            let counts = groups.entry(alloc.group.clone()).or_default();
            match alloc.status {
                ClientStatus::Pending => counts.starting += 1,
                ClientStatus::Running => counts.running += 1,
                ClientStatus::Complete => counts.complete += 1,
                ClientStatus::Failed => counts.failed += 1,
                ClientStatus::Lost => counts.lost += 1,
            }
            runs |= !alloc.is_terminal();
        }
        // A job of every node is there until it is stopped, with or without a node.
        runs |= job.spec.view.kind == "system" && !job.stop;
        runs |= self.latest_deployment(key).is_some_and(Deployment::is_active);
        let mut evals = self.evals.values().filter(|eval| eval.job == *key && eval.create_index >= job.create_index);
        let status = if runs {
            JobStatus::Running
        } else if evals.any(|eval| !eval.status.is_terminal()) {
            JobStatus::Pending
        } else {
            JobStatus::Dead
        };
        let changed = job.status != status;
        let Some(entry) = self.jobs.get_mut(key) else { return };
        for (group, count) in &entry.queued {
            if let Some(counts) = groups.get_mut(group) {
                counts.queued = *count;
            }
        }
        self.set_summary(key, groups, Children::default(), write);
        if changed {
            self.touch_job(write, key, |job| job.status = status);
        }
    }

    /// Moves the index of the summary only when there is something new in it.
    pub(super) fn set_summary(
        &mut self,
        key: &JobKey,
        groups: BTreeMap<String, Counts>,
        children: Children,
        write: &Write,
    ) {
        let Some(entry) = self.jobs.get_mut(key) else { return };
        let summary = &entry.summary;
        if summary.groups != groups || summary.children != children || summary.modify_index == 0 {
            entry.summary = Summary { groups, children, modify_index: write.index };
            self.tables.summaries = write.index;
        }
    }
}
