//! The state machine: what clients write, and what then happens by itself. It does no I/O and knows the time only from
//! whoever calls it.

mod by_hand;
mod children;
mod collect;
pub(crate) mod deployments;
mod events;
mod fate;
mod health;
mod lifecycle;
mod objects;
mod output;
mod placement;
mod reconcile;
pub(crate) mod render;
mod runner;
mod scheduler;
mod services;
mod state;
mod summary;
mod sync;
mod system;
mod variables;
mod versions;
mod write;

use std::collections::BTreeSet;

use crate::{FakeError, job::Job, time::Time};

use objects::{DeploymentStatus, Trigger};
use state::Timer;

pub(crate) use children::{Dispatch, next_launch};
pub(crate) use events::{Position, Subscription};
pub(crate) use objects::{Alloc, Deployment, Eval};
pub(crate) use output::Written;
pub(crate) use scheduler::dry_run;
pub(crate) use services::Registration;
pub(crate) use state::{Entry, State, Token};
pub(crate) use variables::VariableError;
pub(crate) use write::{Receipt, Refusal, ScaleRequest, warnings_of};

impl State {
    /// Lets everything happen that is due until then.
    pub(crate) fn advance(&mut self, until: Time) {
        while let Some((time, timer)) = self.pop_timer(until) {
            self.now = self.now.max(time);
            match timer {
                Timer::Evaluate(eval) => scheduler::evaluate(self, &eval),
                Timer::Task { alloc, task, generation } => runner::step(self, &alloc, &task, generation),
                Timer::Health(alloc) => health::look_at_health(self, &alloc),
                Timer::Sync(node) => sync::sync(self, &node),
                Timer::Watch(deployment) => deployments::proceed(self, &deployment),
                Timer::Fail(deployment) => {
                    let _ = deployments::fail(self, &deployment, DeploymentStatus::FailedUnhealthy);
                }
                Timer::Launch { job, version } => self.launch_due(&job, version),
                Timer::ProgressDeadline(deployment) => deployments::check_deadline(self, &deployment),
            }
        }
        self.now = self.now.max(until);
    }

    /// A node falls silent, or is back.
    pub(crate) fn set_node(&mut self, name: &str, up: bool) -> Result<(), FakeError> {
        let Some(node) = self.nodes.iter().position(|node| node.name == name) else {
            let known = self.nodes.iter().map(|node| node.name.clone()).collect();
            return Err(FakeError::NoSuchNode { name: name.to_owned(), known });
        };
        if self.nodes.get(node).is_none_or(|node| node.up == up) {
            return Ok(());
        }
        let mut write = self.begin("NodeRegistration");
        let index = write.index;
        let Some(node) = self.nodes.get_mut(node) else { return Ok(()) };
        node.up = up;
        node.modify_index = index;
        let id = node.id.clone();
        self.tables.nodes = index;
        let jobs = self.allocs.values().filter(|alloc| alloc.node == id && !alloc.is_terminal());
        let jobs = jobs.map(|alloc| alloc.job.key());
        // A node that is back is one more for those that run on every one.
        let system = self.jobs.values().filter_map(|entry| entry.current());
        let system = system.filter(|job| up && job.spec.view.kind.starts_with("sys") && !job.stop).map(Job::key);
        let jobs: BTreeSet<_> = jobs.chain(system).collect();
        let mut evals = Vec::new();
        for key in jobs {
            let mut eval = self.new_eval(&key, Trigger::NodeUpdate);
            eval.node = Some((id.clone(), index));
            evals.push(eval.id.clone());
            self.put_eval(&mut write, eval);
        }
        self.commit(write, false);
        evals.iter().for_each(|eval| scheduler::enqueue(self, eval));
        if up {
            sync::reconnect(self, &id);
            scheduler::unblock(self);
        } else {
            sync::forget_sync(self, &id);
        }
        Ok(())
    }
}
