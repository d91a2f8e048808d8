//! The clients: they start tasks, restart them by their policy, watch over health, end them, and tell the servers now and
//! then.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    deployments,
    fate::{Exit, Fate, Start},
    objects::{ClientStatus, Health, TaskEventKind, TaskPhase, TaskState, Trigger},
    reconcile::is_replaceable,
    scheduler,
    state::{State, Timer},
};
use crate::{
    job::{HealthRule, Restart},
    time::{GoDuration, Time, nanos},
};

/// From the placement until a client has received it.
const RECEIVE: Duration = Duration::from_millis(5);
/// From there until the driver has started the task.
const START: Duration = Duration::from_millis(150);
/// From the signal until the task has ended.
const END: Duration = Duration::from_millis(15);
/// How often a client tells the servers what they wait for: a status that has changed, health, an end.
const SYNC: Duration = Duration::from_millis(200);
/// How often it tells them of the rest, and of an allocation for the first time.
const SYNC_REST: Duration = Duration::from_millis(1000);
/// The longest kill timeout that a client grants.
const MAX_KILL_TIMEOUT: Duration = Duration::from_secs(30);

/// What a client knows of one allocation.
#[derive(Debug)]
pub(crate) struct Runner {
    node: String,
    tasks: BTreeMap<String, TaskRun>,
    /// Whether there is something that the servers do not know.
    dirty: bool,
    stopping: bool,
    health: Watch,
}

/// Watches over the health of an allocation.
#[derive(Debug, Clone, Copy)]
struct Watch {
    deadline: Option<Time>,
    decided: Option<(bool, Time)>,
}

#[derive(Debug)]
struct TaskRun {
    fate: Fate,
    kill_timeout: Duration,
    restart: Restart,
    state: TaskState,
    next: Step,
    /// A step that was superseded does not happen.
    generation: u64,
    /// Restarts within the interval, and when it began.
    counted: (i64, Time),
}

/// What happens to a task next.
#[derive(Debug, Clone, Copy)]
enum Step {
    Receive,
    Start,
    End(Exit),
    /// It was told to end, and does.
    Obey(Exit),
    Nothing,
}

/// A client takes an allocation.
pub(crate) fn start(state: &mut State, id: &str) {
    let Some(alloc) = state.allocs.get(id) else { return };
    let Some(group) = alloc.job.spec.view.group(&alloc.group) else { return };
    let now = state.now;
    let run = |task: &crate::job::Task| TaskRun {
        fate: Fate::of(task),
        kill_timeout: task.kill_timeout.min(MAX_KILL_TIMEOUT),
        restart: group.restart_policy.clone(),
        state: TaskState::default(),
        next: Step::Receive,
        generation: 0,
        counted: (0, now),
    };
    let tasks: BTreeMap<_, _> = group.tasks.iter().map(|task| (task.name.clone(), run(task))).collect();
    let names: Vec<_> = tasks.keys().cloned().collect();
    let health = Watch { deadline: None, decided: None };
    let runner = Runner { node: alloc.node.clone(), tasks, dirty: false, stopping: false, health };
    state.runners.insert(id.to_owned(), runner);
    for task in names {
        schedule(state, id, &task, Step::Receive, RECEIVE);
    }
    watch_health(state, id);
}

/// A client lets an allocation end. One that is cut off does so when it is back.
pub(crate) fn stop(state: &mut State, id: &str) {
    let now = state.now;
    let up = |runner: &&mut Runner| state.nodes.iter().any(|node| node.id == runner.node && node.up);
    let Some(runner) = state.runners.get_mut(id).filter(|runner| !runner.stopping).filter(up) else { return };
    runner.stopping = true;
    runner.health.deadline = None;
    let alive = runner.tasks.iter().filter(|(_, task)| task.state.state != TaskPhase::Dead);
    let alive: Vec<_> = alive.map(|(name, _)| name.clone()).collect();
    for name in &alive {
        kill(state, id, name, now);
    }
    if !alive.is_empty() {
        mark(state, id, false);
    }
}

fn kill(state: &mut State, id: &str, name: &str, now: Time) {
    let Some(task) = state.runners.get_mut(id).and_then(|runner| runner.tasks.get_mut(name)) else { return };
    match task.state.state {
        TaskPhase::Dead => {}
        TaskPhase::Pending => {
            task.next = Step::Nothing;
            task.generation += 1;
            end(&mut task.state, now, false);
            task.state.push(now, TaskEventKind::Killed);
        }
        TaskPhase::Running => {
            task.state.push(now, TaskEventKind::Killing(task.kill_timeout));
            let (exit, after) = task.fate.obeys.map_or((Exit::KILLED, task.kill_timeout), |exit| (exit, END));
            schedule(state, id, name, Step::Obey(exit), after);
        }
    }
}

fn end(task: &mut TaskState, now: Time, failed: bool) {
    task.state = TaskPhase::Dead;
    task.failed = failed;
    task.finished_at = Some(now);
}

fn schedule(state: &mut State, id: &str, name: &str, step: Step, after: Duration) {
    let at = state.now.after(after);
    let Some(task) = state.runners.get_mut(id).and_then(|runner| runner.tasks.get_mut(name)) else { return };
    task.next = step;
    task.generation += 1;
    let timer = Timer::Task { alloc: id.to_owned(), task: name.to_owned(), generation: task.generation };
    state.at(at, timer);
}

/// Something is to be told to the servers. A client does that at a steady beat.
fn mark(state: &mut State, id: &str, urgent: bool) {
    let beat = nanos(if urgent { SYNC } else { SYNC_REST });
    let since = state.now.0 - state.started.0;
    let at = Time(state.started.0 + (since / beat + 1) * beat);
    let Some(runner) = state.runners.get_mut(id) else { return };
    runner.dirty = true;
    let node = runner.node.clone();
    let Some(node) = state.nodes.iter_mut().find(|other| other.id == node && other.up) else { return };
    if node.sync_at.is_none_or(|planned| planned > at) {
        node.sync_at = Some(at);
        let id = node.id.clone();
        state.at(at, Timer::Sync(id));
    }
}

/// The next step of a task.
pub(crate) fn step(state: &mut State, id: &str, name: &str, generation: u64) {
    let now = state.now;
    let Some(runner) = state.runners.get_mut(id) else { return };
    let up = state.nodes.iter().any(|node| node.id == runner.node && node.up);
    let before = status(&runner_states(runner)).0;
    let task = runner.tasks.get_mut(name).filter(|task| task.generation == generation && up);
    let Some(task) = task else { return };
    match std::mem::replace(&mut task.next, Step::Nothing) {
        Step::Nothing => {}
        Step::Receive => {
            task.state.push(now, TaskEventKind::Received);
            task.state.push(now, TaskEventKind::Setup);
            let takes = START + task.fate.start_takes;
            schedule(state, id, name, Step::Start, takes);
        }
        Step::Start => match task.fate.start.clone() {
            Start::Works => {
                task.state.push(now, TaskEventKind::Started);
                task.state.state = TaskPhase::Running;
                task.state.started_at = Some(now);
                if let Some((after, exit)) = task.fate.ends {
                    schedule(state, id, name, Step::End(exit), after);
                }
            }
            Start::Fails(why) => {
                task.state.push(now, TaskEventKind::DriverFailure(why));
                restart(state, id, name);
            }
            Start::Impossible(why) => {
                task.state.push(now, TaskEventKind::DriverFailure(why));
                give_up(task, now, "Error was unrecoverable".to_owned());
            }
        },
        Step::End(exit) => {
            task.state.push(now, terminated(exit));
            restart(state, id, name);
        }
        Step::Obey(exit) => {
            task.state.push(now, terminated(exit));
            task.state.push(now, TaskEventKind::Killed);
            end(&mut task.state, now, false);
        }
    }
    settle(state, id, before);
}

fn terminated(exit: Exit) -> TaskEventKind {
    TaskEventKind::Terminated { exit_code: exit.code, signal: exit.signal, oom: exit.oom }
}

fn give_up(task: &mut TaskRun, now: Time, why: String) {
    task.state.push(now, TaskEventKind::NotRestarting(why));
    end(&mut task.state, now, true);
}

/// Starts a task again, later, or gives it up, as its policy says.
fn restart(state: &mut State, id: &str, name: &str) {
    let now = state.now;
    let Some(task) = state.runners.get_mut(id).and_then(|runner| runner.tasks.get_mut(name)) else { return };
    let policy = task.restart.clone();
    if policy.attempts == 0 && policy.mode == "fail" {
        return give_up(task, now, "Policy allows no restarts".to_owned());
    }
    let (count, since) = task.counted;
    task.counted = if since.after(policy.interval) <= now { (1, now) } else { (count + 1, since) };
    if task.counted.0 > policy.attempts && policy.mode == "fail" {
        let (attempts, interval) = (policy.attempts, GoDuration(policy.interval));
        let why = format!("Exceeded allowed attempts {attempts} in interval {interval} and mode is \"fail\"");
        return give_up(task, now, why);
    }
    // Real ones add a random quarter at most.
    let delay = policy.delay + policy.delay / 8;
    task.state.push(now, TaskEventKind::Restarting { delay });
    task.state.state = TaskPhase::Pending;
    task.state.restarts += 1;
    task.state.last_restart = Some(now);
    let takes = delay + task.fate.start_takes;
    schedule(state, id, name, Step::Start, takes);
}

/// What follows from a step for the allocation as a whole.
fn settle(state: &mut State, id: &str, before: ClientStatus) {
    let now = state.now;
    let Some(runner) = state.runners.get_mut(id) else { return };
    let (after, _) = status(&runner_states(runner));
    if after == ClientStatus::Failed && before != ClientStatus::Failed {
        runner.health.deadline = None;
        if runner.health.decided.is_none() {
            runner.health.decided = Some((false, now));
        }
        // The others of a failed task end with it.
        let others: Vec<_> = runner
            .tasks
            .iter()
            .filter(|(_, task)| task.state.state != TaskPhase::Dead)
            .map(|(name, _)| name.clone())
            .collect();
        for name in others {
            kill(state, id, &name, now);
        }
    }
    let alloc = state.allocs.get(id);
    let news = alloc.is_some_and(|alloc| alloc.status != after && alloc.tasks.is_some());
    mark(state, id, news || after.is_terminal());
    look_at_health(state, id);
}

fn runner_states(runner: &Runner) -> Vec<&TaskState> {
    runner.tasks.values().map(|task| &task.state).collect()
}

/// The status of an allocation, from those of its tasks.
fn status(tasks: &[&TaskState]) -> (ClientStatus, &'static str) {
    let any = |phase: TaskPhase| tasks.iter().any(|task| task.state == phase);
    if tasks.iter().any(|task| task.failed) {
        (ClientStatus::Failed, "Failed tasks")
    } else if any(TaskPhase::Running) {
        (ClientStatus::Running, "Tasks are running")
    } else if any(TaskPhase::Pending) {
        (ClientStatus::Pending, "No tasks have started")
    } else {
        (ClientStatus::Complete, "All tasks have completed")
    }
}

fn rule(state: &State, id: &str) -> Option<HealthRule> {
    let alloc = state.allocs.get(id)?;
    alloc.job.spec.view.group(&alloc.group)?.health_rule(alloc.deployment.is_some()).cloned()
}

/// Begins to watch over the health of an allocation: when it is placed, and when an update takes it over.
pub(crate) fn watch_health(state: &mut State, id: &str) {
    let Some(rule) = rule(state, id) else { return };
    let deadline = state.now.after(rule.healthy_deadline);
    let Some(runner) = state.runners.get_mut(id) else { return };
    runner.health = Watch { deadline: Some(deadline), decided: None };
    state.at(deadline, Timer::Health(id.to_owned()));
    look_at_health(state, id);
}

/// Decides whether an allocation is healthy, as soon as that can be said.
pub(crate) fn look_at_health(state: &mut State, id: &str) {
    let now = state.now;
    let Some(rule) = rule(state, id) else { return };
    let Some(alloc) = state.allocs.get(id) else { return };
    let has_checks = alloc.job.spec.view.group(&alloc.group).is_some_and(|group| group.has_checks());
    let in_place_since = alloc.modify_time;
    let updated = alloc.create_index < alloc.alloc_modify_index;
    let Some(runner) = state.runners.get_mut(id) else { return };
    let (Some(deadline), None) = (runner.health.deadline, runner.health.decided) else { return };
    let running = runner.tasks.values().all(|task| task.state.state == TaskPhase::Running);
    let checks_pass =
        rule.health_check != "checks" || !has_checks || runner.tasks.values().all(|task| task.fate.passes_checks);
    let since = runner.tasks.values().filter_map(|task| task.state.started_at).max();
    // One that an update took over has to prove itself again.
    let since = since.map(|since| if updated { since.max(in_place_since) } else { since });
    let healthy_at = since.filter(|_| running && checks_pass).map(|since| since.after(rule.min_healthy_time));
    match healthy_at {
        Some(at) if at <= now => {
            runner.health.decided = Some((true, now));
            runner.health.deadline = None;
            mark(state, id, true);
        }
        _ if deadline <= now => {
            runner.health.decided = Some((false, now));
            runner.health.deadline = None;
            for task in runner.tasks.values_mut() {
                let (min, deadline) = (GoDuration(rule.min_healthy_time), GoDuration(rule.healthy_deadline));
                let why = if task.state.state == TaskPhase::Running {
                    format!("Task not running for min_healthy_time of {min} by healthy_deadline of {deadline}")
                } else {
                    format!("Task not running by healthy_deadline of {deadline}")
                };
                task.state.push(now, TaskEventKind::Unhealthy(why));
            }
            mark(state, id, true);
        }
        Some(at) => state.at(at, Timer::Health(id.to_owned())),
        None => {}
    }
}

/// A client tells the servers what has changed on its node.
pub(crate) fn sync(state: &mut State, node: &str) {
    let now = state.now;
    let Some(found) = state.nodes.iter_mut().find(|other| other.id == node) else { return };
    if !found.up || found.sync_at.is_none_or(|at| at > now) {
        return;
    }
    found.sync_at = None;
    let dirty = state.runners.iter_mut().filter(|(_, runner)| runner.node == node && runner.dirty);
    let dirty: Vec<_> = dirty
        .map(|(id, runner)| {
            runner.dirty = false;
            id.clone()
        })
        .collect();
    tell(state, &dirty);
    // What has ended and was told is over.
    state.runners.retain(|_, runner| runner.dirty || !status(&runner_states(runner)).0.is_terminal());
}

fn tell(state: &mut State, dirty: &[String]) {
    let known: Vec<_> = dirty.iter().filter(|id| state.allocs.contains_key(*id)).cloned().collect();
    if known.is_empty() {
        // What they belonged to was purged. The room is free all the same.
        scheduler::unblock(state);
        return;
    }
    let mut write = state.begin("AllocationUpdated");
    let mut evals = Vec::new();
    let mut ended = false;
    let mut new_health = BTreeSet::new();
    for id in &known {
        let (Some(mut alloc), Some(runner)) = (state.allocs.get(id).cloned(), state.runners.get(id)) else { continue };
        let (status, description) = status(&runner_states(runner));
        let was = alloc.status;
        alloc.status = status;
        alloc.client_description = description;
        alloc.tasks = Some(runner.tasks.iter().map(|(name, task)| (name.clone(), task.state.clone())).collect());
        let stopped_early = runner.stopping && status == ClientStatus::Complete && quick(runner);
        let decided = runner.health.decided.or(stopped_early.then_some((false, state.now)));
        if let (Some((healthy, at)), None) = (decided, alloc.health) {
            alloc.health = Some(Health { healthy, at, modify_index: write.index });
            new_health.insert(id.clone());
            deployments::count_health(state, &mut write, &alloc);
        }
        ended |= status.is_terminal() && !was.is_terminal();
        let failed = status == ClientStatus::Failed && was != ClientStatus::Failed && alloc.wanted;
        let replaceable = failed && is_replaceable(&alloc);
        let key = alloc.job.key();
        state.put_alloc(&mut write, alloc);
        if replaceable {
            evals.push(key);
        }
    }
    evals.dedup();
    let mut queue = Vec::new();
    for key in evals {
        let eval = state.new_eval(&key, Trigger::AllocFailure);
        queue.push(eval.id.clone());
        state.put_eval(&mut write, eval);
    }
    state.tables.nodes = write.index;
    state.commit(write, false);
    queue.iter().for_each(|eval| scheduler::enqueue(state, eval));
    known.iter().for_each(|id| deployments::observe(state, id, new_health.contains(id)));
    if ended {
        scheduler::unblock(state);
    }
}

/// Whether what was stopped had begun, and ended before its kill timeout. Then the watch over its health says that it
/// was not healthy.
fn quick(runner: &Runner) -> bool {
    runner.tasks.values().all(|task| task.fate.obeys.is_some() && task.state.started_at.is_some())
}

/// The node is cut off: what runs there is no longer heard of.
pub(crate) fn forget_sync(state: &mut State, node: &str) {
    if let Some(node) = state.nodes.iter_mut().find(|other| other.id == node) {
        node.sync_at = None;
    }
}

/// The node is back: what is no longer wanted there ends, and the servers hear of the rest.
pub(crate) fn reconnect(state: &mut State, node: &str) {
    let here = state.runners.iter().filter(|(_, runner)| runner.node == node);
    let here: Vec<_> = here.map(|(id, _)| id.clone()).collect();
    for id in here {
        if state.allocs.get(&id).is_none_or(|alloc| !alloc.wanted) {
            stop(state, &id);
        } else {
            // Steps that were due in the meantime did not happen.
            let tasks = state.runners.get(&id).map(|runner| runner.tasks.keys().cloned().collect::<Vec<_>>());
            for name in tasks.into_iter().flatten() {
                let next = state.runners.get(&id).and_then(|runner| runner.tasks.get(&name)).map(|task| task.next);
                if let Some(step) = next.filter(|step| !matches!(step, Step::Nothing)) {
                    schedule(state, &id, &name, step, START);
                }
            }
            mark(state, &id, true);
        }
    }
}
