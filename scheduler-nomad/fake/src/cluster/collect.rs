//! The collection of garbage, which happens only when somebody asks for it.

use super::state::{State, Tables};
use crate::job::{Job, JobKey, JobStatus};

impl State {
    /// Removes jobs that are dead for good, with everything that belongs to them. Two writes: what belongs to them, and
    /// then the jobs.
    pub(crate) fn collect(&mut self) {
        let over = |job: &Job| {
            let ends = job.stop || (job.spec.view.kind.ends_with("batch") && !job.is_parent());
            job.status == JobStatus::Dead && ends
        };
        let dead = self.jobs.values().filter_map(|entry| entry.current()).filter(|job| over(job)).map(Job::key);
        let ended = |key: &JobKey| self.allocs_of(key).all(|alloc| alloc.status.is_terminal());
        let dead: Vec<_> = dead.filter(ended).collect();
        if dead.is_empty() {
            return;
        }
        let write = self.begin("EvaluationDeleted");
        self.tables = Tables { evals: write.index, ..self.tables };
        self.evals.retain(|_, eval| !dead.contains(&eval.job));
        self.commit(write, false);
        let mut write = self.begin("JobDeregistered");
        for key in &dead {
            self.purge_job(&mut write, key);
        }
        self.commit(write, false);
    }
}
