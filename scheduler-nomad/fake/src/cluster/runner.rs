//! The clients: they start tasks in their order, restart them by their policy, and end them.

use std::{collections::BTreeMap, time::Duration};

use super::{
    fate::{Exit, Fate, Start},
    health::{Watch, look_at_health, watch_health},
    lifecycle::Role,
    objects::{ClientStatus, TaskEventKind, TaskPhase, TaskState},
    services,
    state::{State, Timer},
    sync::mark,
    variables::{Place, Variable},
};
use crate::{
    job::{Restart, Task, View, Wait, waits},
    time::{GoDuration, Time},
};

/// From the placement until a client has received it.
const RECEIVE: Duration = Duration::from_millis(5);
/// From there until the driver has started the task.
pub(crate) const START: Duration = Duration::from_millis(150);
/// From the signal until the task has ended.
const END: Duration = Duration::from_millis(15);
/// How long a template waits in silence.
const TEMPLATE: Duration = Duration::from_secs(3);
/// How long a client says nothing of a task that it gave up because it could not be started.
const START_FAILED: Duration = Duration::from_secs(4);
/// The longest kill timeout that a client grants.
const MAX_KILL_TIMEOUT: Duration = Duration::from_secs(30);

const NO_RESTARTS: &str = "Policy allows no restarts";

/// What a client knows of one allocation.
#[derive(Debug)]
pub(crate) struct Runner {
    pub(super) node: String,
    pub(super) tasks: BTreeMap<String, TaskRun>,
    /// Whether there is something that the servers do not know.
    pub(super) dirty: bool,
    /// The servers hear nothing of it before.
    pub(super) silent_until: Option<Time>,
    pub(super) stopping: bool,
    pub(super) health: Watch,
}

#[derive(Debug)]
pub(crate) struct TaskRun {
    pub(super) fate: Fate,
    pub(super) role: Role,
    pub(super) leader: bool,
    /// Its end without an error is a success.
    completes: bool,
    namespace: String,
    /// What its templates wait for.
    waits: Vec<Wait>,
    kill_timeout: Duration,
    restart: Restart,
    pub(super) state: TaskState,
    pub(super) next: Step,
    /// A step that was superseded does not happen.
    generation: u64,
    /// Restarts within the interval, and when it began.
    counted: (i64, Time),
}

/// What happens to a task next.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    Receive,
    /// It waits for its turn among the tasks of its allocation.
    Wait,
    /// It says that its templates wait for variables, and goes on waiting for them.
    Template,
    Start,
    End(Exit),
    /// It was told to end, and does.
    Obey(Exit),
    /// It was told to start again, and ends for that.
    Restart(Exit),
    Nothing,
}

impl TaskRun {
    fn new(task: &Task, view: &View, restart: &Restart, now: Time) -> Self {
        let role = Role::of(task);
        let mut fate = Fate::of(task);
        if role.is_once() && fate.ends.is_none() {
            // What would run for ever elsewhere has its work done at once where an end is awaited.
            fate.ends = Some((Duration::ZERO, Exit::default()));
        }
        Self {
            fate,
            role,
            leader: task.leader,
            completes: role.is_once() || view.kind.ends_with("batch"),
            namespace: view.namespace.clone(),
            waits: task.templates.iter().flat_map(|template| waits(&template.text)).collect(),
            kill_timeout: task.kill_timeout.min(MAX_KILL_TIMEOUT),
            restart: task.restart_policy.clone().unwrap_or_else(|| restart.clone()),
            state: TaskState::default(),
            next: Step::Receive,
            generation: 0,
            counted: (0, now),
        }
    }

    fn is_dead(&self) -> bool {
        self.state.state == TaskPhase::Dead
    }

    fn give_up(&mut self, now: Time, why: String) {
        self.state.push(now, TaskEventKind::NotRestarting(why));
        end(&mut self.state, now, true);
    }

    /// The variables that its templates wait for, as its events call them.
    fn missing(&self, variables: &BTreeMap<Place, Variable>) -> impl Iterator<Item = String> {
        let variable = |path: &str| variables.get(&(self.namespace.clone(), path.to_owned()));
        let missing = self.waits.iter().filter(move |wait| {
            // Where the variable around is missing, nothing within it is asked for.
            let asked =
                wait.unless.as_ref().is_none_or(|(around, item)| variable(around).is_some_and(|of| !of.has(item)));
            asked && variable(&wait.path).is_none()
        });
        let paths: std::collections::BTreeSet<_> = missing.map(|wait| wait.path.as_str()).collect();
        paths.into_iter().map(|path| format!("nomad.var.block({path}@{}.global)", self.namespace))
    }

    fn never_restarts(&self) -> bool {
        self.restart.attempts == 0 && self.restart.mode == "fail"
    }
}

impl Runner {
    fn names(&self, which: impl Fn(&TaskRun) -> bool) -> Vec<String> {
        self.tasks.iter().filter(|(_, task)| which(task)).map(|(name, _)| name.clone()).collect()
    }

    /// The status of the allocation, from those of its tasks.
    pub(super) fn status(&self) -> (ClientStatus, &'static str) {
        let any = |phase: TaskPhase| self.tasks.values().any(|task| task.state.state == phase);
        if self.tasks.values().any(|task| task.state.failed) {
            (ClientStatus::Failed, "Failed tasks")
        } else if any(TaskPhase::Running) {
            (ClientStatus::Running, "Tasks are running")
        } else if any(TaskPhase::Pending) {
            (ClientStatus::Pending, "No tasks have started")
        } else {
            (ClientStatus::Complete, "All tasks have completed")
        }
    }
}

/// A client takes an allocation.
pub(crate) fn start(state: &mut State, id: &str) {
    let Some(alloc) = state.allocs.get(id) else { return };
    let Some(group) = alloc.job.spec.view.group(&alloc.group) else { return };
    let (now, view) = (state.now, &alloc.job.spec.view);
    let run = |task: &Task| (task.name.clone(), TaskRun::new(task, view, &group.restart_policy, now));
    let tasks: BTreeMap<_, _> = group.tasks.iter().map(run).collect();
    let names: Vec<_> = tasks.keys().cloned().collect();
    let health = Watch::default();
    let node = alloc.node.clone();
    let runner = Runner { node, tasks, dirty: false, silent_until: None, stopping: false, health };
    state.runners.insert(id.to_owned(), runner);
    for task in names {
        schedule(state, id, &task, Step::Receive, RECEIVE);
    }
    watch_health(state, id);
}

/// A client lets an allocation end. One that is cut off does so when it is back.
pub(crate) fn stop(state: &mut State, id: &str) {
    let up = |runner: &&mut Runner| state.nodes.iter().any(|node| node.id == runner.node && node.up);
    let Some(runner) = state.runners.get_mut(id).filter(|runner| !runner.stopping).filter(up) else { return };
    runner.stopping = true;
    runner.health.deadline = None;
    // The leader first, then the main ones, and then what runs beside them.
    let leads = runner.tasks.values().any(|task| task.leader && !task.is_dead());
    let mains = runner.tasks.values().any(|task| task.role == Role::Main && !task.is_dead());
    let first = runner.names(|task| match (leads, mains) {
        (true, _) => task.leader,
        (_, true) => !task.role.is_sidecar() && task.role != Role::Poststop,
        _ => task.role != Role::Poststop,
    });
    for name in &first {
        kill(state, id, name, None);
    }
    follow(state, id);
    services::refresh(state, id);
    if !first.is_empty() {
        mark(state, id, false);
    }
}

/// Ends a task. `why` is what its events say of the reason.
fn kill(state: &mut State, id: &str, name: &str, why: Option<TaskEventKind>) {
    let now = state.now;
    let Some(task) = state.runners.get_mut(id).and_then(|runner| runner.tasks.get_mut(name)) else { return };
    if task.is_dead() || matches!(task.next, Step::Obey(_)) {
        return;
    }
    let because = why.is_some();
    task.state.events_extend(now, why);
    if task.state.state == TaskPhase::Pending {
        task.next = Step::Nothing;
        task.generation += 1;
        end(&mut task.state, now, false);
        let event = if because { TaskEventKind::Killing(task.kill_timeout) } else { TaskEventKind::Killed };
        task.state.push(now, event);
        return;
    }
    task.state.push(now, TaskEventKind::Killing(task.kill_timeout));
    let (exit, after) = task.fate.obeys.map_or((Exit::KILLED, task.kill_timeout), |exit| (exit, END));
    schedule(state, id, name, Step::Obey(exit), after);
}

/// Lets a running task end and start again.
pub(super) fn restart_signaled(state: &mut State, id: &str, name: &str, why: &str) {
    let now = state.now;
    let Some(task) = state.runners.get_mut(id).and_then(|runner| runner.tasks.get_mut(name)) else { return };
    task.state.push(now, TaskEventKind::RestartSignaled(why.to_owned()));
    let (exit, after) = task.fate.obeys.map_or((Exit::KILLED, task.kill_timeout), |exit| (exit, END));
    schedule(state, id, name, Step::Restart(exit), after);
}

fn end(task: &mut TaskState, now: Time, failed: bool) {
    task.state = TaskPhase::Dead;
    task.failed = failed;
    task.finished_at = Some(now);
}

pub(super) fn schedule(state: &mut State, id: &str, name: &str, step: Step, after: Duration) {
    let at = state.now.after(after);
    let Some(task) = state.runners.get_mut(id).and_then(|runner| runner.tasks.get_mut(name)) else { return };
    task.next = step;
    task.generation += 1;
    let timer = Timer::Task { alloc: id.to_owned(), task: name.to_owned(), generation: task.generation };
    state.at(at, timer);
}

/// A variable is there now: those that wait for it may go on.
pub(super) fn variable_written(state: &mut State, place: &(String, String)) {
    let waiting = state.runners.iter().flat_map(|(id, runner)| {
        let waits = |task: &TaskRun| {
            task.state.state == TaskPhase::Pending
                && matches!(task.next, Step::Template | Step::Nothing)
                && task.namespace == place.0
                && task.waits.iter().any(|wait| wait.path == place.1)
        };
        runner.names(waits).into_iter().map(move |name| (id.clone(), name))
    });
    let waiting: Vec<_> = waiting.collect();
    for (id, name) in waiting {
        schedule(state, &id, &name, Step::Start, START);
    }
}

/// The next step of a task.
pub(crate) fn step(state: &mut State, id: &str, name: &str, generation: u64) {
    let now = state.now;
    let Some(runner) = state.runners.get_mut(id) else { return };
    let up = state.nodes.iter().any(|node| node.id == runner.node && node.up);
    let before = runner.status().0;
    let task = runner.tasks.get_mut(name).filter(|task| task.generation == generation && up);
    let Some(task) = task else { return };
    match std::mem::replace(&mut task.next, Step::Nothing) {
        Step::Nothing | Step::Wait => {}
        Step::Template => {
            let missing: Vec<_> = task.missing(&state.variables).collect();
            task.state.push(now, TaskEventKind::TemplateWaits(format!("Missing: {}", missing.join(", "))));
        }
        Step::Start if task.missing(&state.variables).next().is_some() => {
            schedule(state, id, name, Step::Template, TEMPLATE);
        }
        Step::Receive => {
            task.state.push(now, TaskEventKind::Received);
            task.next = Step::Wait;
        }
        Step::Start => match task.fate.start.clone() {
            Start::Works => {
                task.state.push(now, TaskEventKind::Started);
                task.state.state = TaskPhase::Running;
                task.state.started_at = Some(now);
                state.outputs.entry(id.to_owned()).or_default().begin(name, now);
                if let Some((after, exit)) = task.fate.ends {
                    schedule(state, id, name, Step::End(exit), after);
                }
            }
            Start::Fails(why) => {
                task.state.push(now, TaskEventKind::DriverFailure(why));
                restart(state, id, name);
                let Some(runner) = state.runners.get_mut(id) else { return };
                if runner.tasks.get(name).is_some_and(TaskRun::is_dead) {
                    runner.silent_until = Some(now.after(START_FAILED));
                }
            }
            Start::Impossible(why) => {
                task.state.push(now, TaskEventKind::DriverFailure(why));
                let why = if task.never_restarts() { NO_RESTARTS } else { "Error was unrecoverable" };
                task.give_up(now, why.to_owned());
                runner.silent_until = Some(now.after(START_FAILED));
            }
        },
        Step::End(exit) => {
            task.state.push(now, terminated(exit));
            state.outputs.entry(id.to_owned()).or_default().end(name, now, true);
            if task.completes && exit == Exit::default() {
                end(&mut task.state, now, false);
            } else {
                restart(state, id, name);
            }
        }
        Step::Obey(exit) => {
            task.state.push(now, terminated(exit));
            task.state.push(now, TaskEventKind::Killed);
            end(&mut task.state, now, false);
            state.outputs.entry(id.to_owned()).or_default().end(name, now, false);
        }
        Step::Restart(exit) => {
            task.state.push(now, terminated(exit));
            task.state.push(now, TaskEventKind::Restarting { delay: Duration::ZERO, by_policy: false });
            task.state.state = TaskPhase::Pending;
            task.state.restarts += 1;
            task.state.last_restart = Some(now);
            let takes = task.fate.start_takes;
            state.outputs.entry(id.to_owned()).or_default().end(name, now, false);
            schedule(state, id, name, Step::Start, takes);
        }
    }
    settle(state, id, before);
}

fn terminated(exit: Exit) -> TaskEventKind {
    TaskEventKind::Terminated { exit_code: exit.code, signal: exit.signal, oom: exit.oom }
}

/// Starts a task again, later, or gives it up, as its policy says.
fn restart(state: &mut State, id: &str, name: &str) {
    let now = state.now;
    let Some(task) = state.runners.get_mut(id).and_then(|runner| runner.tasks.get_mut(name)) else { return };
    if task.never_restarts() {
        return task.give_up(now, NO_RESTARTS.to_owned());
    }
    let policy = task.restart.clone();
    let (count, since) = task.counted;
    task.counted = if since.after(policy.interval) <= now { (1, now) } else { (count + 1, since) };
    if task.counted.0 > policy.attempts && policy.mode == "fail" {
        let (attempts, interval) = (policy.attempts, GoDuration(policy.interval));
        let why = format!("Exceeded allowed attempts {attempts} in interval {interval} and mode is \"fail\"");
        return task.give_up(now, why);
    }
    // Real ones add a random quarter at most.
    let delay = policy.delay + policy.delay / 8;
    task.state.push(now, TaskEventKind::Restarting { delay, by_policy: true });
    task.state.state = TaskPhase::Pending;
    task.state.restarts += 1;
    task.state.last_restart = Some(now);
    let takes = delay + task.fate.start_takes;
    schedule(state, id, name, Step::Start, takes);
}

/// What follows from a step for the allocation as a whole.
fn settle(state: &mut State, id: &str, before: ClientStatus) {
    let now = state.now;
    follow(state, id);
    let Some(runner) = state.runners.get_mut(id) else { return };
    let (after, _) = runner.status();
    let fails = after == ClientStatus::Failed && before != ClientStatus::Failed;
    if fails && runner.health.deadline.take().is_some() && runner.health.decided.is_none() {
        runner.health.decided = Some((false, now));
    }
    let alloc = state.allocs.get(id);
    let news = alloc.is_some_and(|alloc| alloc.status != after && alloc.tasks.is_some());
    mark(state, id, news || after.is_terminal());
    services::refresh(state, id);
    look_at_health(state, id);
}

/// What follows from the state of some tasks for the others: they end with them, or their turn has come.
fn follow(state: &mut State, id: &str) {
    let Some(runner) = state.runners.get(id) else { return };
    let failed = runner.tasks.iter().find(|(_, task)| task.state.failed).map(|(name, _)| name.clone());
    let leader_dead = runner.tasks.values().any(|task| task.leader && task.is_dead());
    let mains_dead = runner.tasks.values().all(|task| task.role != Role::Main || task.is_dead());
    let (why, doomed) = match failed {
        Some(name) => (TaskEventKind::SiblingFailed(name), runner.names(|task| task.role != Role::Poststop)),
        None if leader_dead => (TaskEventKind::LeaderDead, runner.names(|task| task.role != Role::Poststop)),
        None if mains_dead => (TaskEventKind::MainDead, runner.names(|task| task.role.is_sidecar())),
        None => (TaskEventKind::MainDead, Vec::new()),
    };
    for name in doomed {
        kill(state, id, &name, Some(why.clone()));
    }
    let now = state.now;
    let Some(runner) = state.runners.get_mut(id) else { return };
    let all: Vec<_> = runner.tasks.values().map(|task| (task.role, task.state.clone())).collect();
    let mut due = Vec::new();
    for (name, task) in &mut runner.tasks {
        let waits = matches!(task.next, Step::Wait);
        if waits && task.role.may_start(all.iter().map(|(role, state)| (*role, state))) {
            task.state.push(now, TaskEventKind::Setup);
            due.push((name.clone(), START + task.fate.start_takes));
        }
    }
    for (name, takes) in due {
        schedule(state, id, &name, Step::Start, takes);
    }
}
