//! What clients do to single allocations: stop them, restart and signal their tasks.

use super::{
    objects::{TaskEventKind, TaskPhase, Trigger},
    runner::{Step, restart_signaled},
    scheduler,
    state::State,
    sync::mark,
    write::Refusal,
};

impl State {
    /// Lets an allocation be replaced, wherever it runs.
    pub(crate) fn stop_alloc(&mut self, id: &str) -> (String, u64) {
        let Some(mut alloc) = self.allocs.get(id).cloned() else { return (String::new(), self.index) };
        let key = alloc.job.key();
        alloc.must_migrate = true;
        let mut write = self.begin("AllocationUpdateDesiredStatus");
        let index = write.index;
        self.put_alloc(&mut write, alloc);
        let mut eval = self.new_eval(&key, Trigger::AllocStop);
        eval.job_modify_index = self.job(&key).map(|job| job.modify_index);
        let eval_id = eval.id.clone();
        self.put_eval(&mut write, eval);
        self.commit(write, false);
        scheduler::enqueue(self, &eval_id);
        (eval_id, index)
    }

    /// Ends tasks and starts them again, outside of their policy: one, or all that run.
    pub(crate) fn restart_tasks(&mut self, id: &str, task: &str, all: bool) -> Result<(), Refusal> {
        if all && !task.is_empty() {
            return Err(Refusal::new(500, "task name cannot be set when restarting all tasks"));
        }
        let unknown = format!("Could not find task runner for task: {task}");
        let names = self.running_tasks(id, task, &unknown)?;
        let who = if task.is_empty() { "running tasks" } else { "task" };
        for name in names {
            restart_signaled(self, id, &name, &format!("User requested {who} to restart"));
        }
        mark(self, id, false);
        Ok(())
    }

    /// Sends tasks a signal, which none of them minds: one, or all that run.
    pub(crate) fn signal_tasks(&mut self, id: &str, task: &str, signal: &str) -> Result<(), Refusal> {
        let now = self.now;
        let names = self.running_tasks(id, task, "Task not found")?;
        let Some(runner) = self.runners.get_mut(id) else { return Ok(()) };
        for name in names {
            if let Some(task) = runner.tasks.get_mut(&name) {
                task.state.push(now, TaskEventKind::Signaling(signal.to_owned()));
            }
        }
        mark(self, id, false);
        Ok(())
    }

    fn running_tasks(&self, id: &str, task: &str, unknown: &str) -> Result<Vec<String>, Refusal> {
        let not_running = || Refusal::new(500, "Task not running");
        let runner = self.runners.get(id).filter(|runner| !runner.status().0.is_terminal()).ok_or_else(not_running)?;
        let runs = |name: &String| {
            runner.tasks.get(name).is_some_and(|task| {
                task.state.state == TaskPhase::Running && !matches!(task.next, Step::Obey(_) | Step::Restart(_))
            })
        };
        if task.is_empty() {
            return Ok(runner.tasks.keys().filter(|name| runs(name)).cloned().collect());
        }
        if !runner.tasks.contains_key(task) {
            return Err(Refusal::new(500, unknown));
        }
        let name = task.to_owned();
        if runs(&name) { Ok(vec![name]) } else { Err(not_running()) }
    }
}
