//! Processes evaluations: decides, finds places, and writes what came of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    deployments, health,
    objects::{
        Alloc, ClientStatus, Deployment, DeploymentStatus, Eval, EvalStatus, GroupState, Metric, RescheduleEvent,
        Trigger,
    },
    placement::{Place, Usage, allows},
    reconcile::{Decision, Desired, MIGRATED, Placement, Replaces, Situation, UPDATED, reconcile},
    runner, services,
    state::{NodeState, State, Timer, Write},
    write::same_content,
};
use crate::job::{DesiredUpdates, Group, Job, JobKey, JobStatus, Spec};

/// How long an evaluation waits for a scheduler.
const DEQUEUE: Duration = Duration::from_millis(4);

/// Lets an evaluation be processed soon.
pub(crate) fn enqueue(state: &mut State, eval: &str) {
    let at = state.now.after(DEQUEUE);
    state.at(at, Timer::Evaluate(eval.to_owned()));
}

/// Lets everything that is blocked be tried again, because there may be room now.
pub(crate) fn unblock(state: &mut State) {
    let blocked = state.evals.values().filter(|eval| eval.status == EvalStatus::Blocked);
    let blocked: Vec<_> = blocked.map(|eval| eval.id.clone()).collect();
    for eval in blocked {
        enqueue(state, &eval);
    }
}

/// The decision about a job with the places that were found. Nothing is stored yet.
pub(crate) struct Plan {
    pub(crate) decision: Decision,
    placed: Vec<(Placement, Place)>,
    pub(crate) failed: BTreeMap<String, Metric>,
    queued: BTreeMap<String, u64>,
}

/// Plans for the job as it is, or as it would be.
pub(crate) fn plan(state: &State, key: &JobKey, job: Option<&Job>, eval: &str) -> Plan {
    let down = state.nodes.iter().filter(|node| !node.up).map(|node| node.id.as_str()).collect();
    let may_stay = |alloc: &Alloc| {
        let group = job.and_then(|job| Some((&job.spec, job.spec.view.group(&alloc.group)?)));
        let node = state.node(&alloc.node);
        node.zip(group).is_some_and(|(node, (spec, group))| allows(node, spec, group))
    };
    let nodes = |group: &Group| {
        let spec = job.map(|job| &job.spec);
        let may = |node: &&NodeState| node.up && spec.is_some_and(|spec| allows(node, spec, group));
        state.nodes.iter().filter(may).map(|node| node.id.as_str()).collect()
    };
    let situation = Situation {
        may_stay: &may_stay,
        nodes: &nodes,
        job,
        allocs: state.allocs_of(key).collect(),
        deployment: state.latest_deployment(key),
        down,
        eval,
        now: state.now,
    };
    let mut decision = reconcile(&situation);
    let mut plan =
        Plan { placed: Vec::new(), failed: BTreeMap::new(), queued: queued(&decision), decision: Decision::default() };
    if let Some(job) = job {
        let spec = &job.spec;
        // What stops in this plan, or is replaced by it, makes room in it.
        let replaced = decision.placements.iter().filter_map(|placement| match &placement.replaces {
            Replaces::Updated(alloc) | Replaces::Migrated(alloc) => Some(alloc.as_str()),
            _ => None,
        });
        let leaving: BTreeSet<_> = decision.stops.iter().map(|stop| stop.alloc.as_str()).chain(replaced).collect();
        let stay =
            state.allocs.values().filter(|alloc| !alloc.status.is_terminal() && !leaving.contains(alloc.id.as_str()));
        let mut usage = Usage::of(stay, spec);
        for placement in std::mem::take(&mut decision.placements) {
            plan.find(state, spec, placement, &mut usage);
        }
    }
    plan.decision = decision;
    plan
}

/// Nothing is queued yet: of all groups, or of those that have something to be placed.
fn queued(decision: &Decision) -> BTreeMap<String, u64> {
    let placed: BTreeSet<_> = decision.placements.iter().map(|placement| &placement.group).collect();
    let groups = decision.updates.keys().filter(|group| placed.is_empty() || placed.contains(group));
    groups.map(|group| (group.clone(), 0)).collect()
}

/// What registering a job would do.
pub(crate) struct DryRun {
    pub(crate) updates: BTreeMap<String, DesiredUpdates>,
    pub(crate) failed: BTreeMap<String, Metric>,
    /// The evaluation that would wait for room.
    pub(crate) blocked: Option<Eval>,
}

pub(crate) fn dry_run(state: &mut State, key: &JobKey, spec: &Spec) -> DryRun {
    let old = state.job(key).cloned();
    // The job of a plan has no token, so that one that was registered with a token always looks changed.
    let changed = old
        .as_ref()
        .is_none_or(|old| old.stop != spec.view.stop || !old.token.is_empty() || !same_content(&old.spec, spec));
    // A plan counts from the job, not from what the index will be.
    let next = old.as_ref().map_or(0, |old| old.job_modify_index) + 1;
    let job = match old {
        Some(old) if !changed => old,
        old => Job {
            spec: spec.clone().into(),
            version: old.as_ref().map_or(0, |old| old.version + 1),
            stable: false,
            stop: spec.view.stop,
            status: JobStatus::Pending,
            create_index: old.as_ref().map_or(next, |old| old.create_index),
            modify_index: next,
            job_modify_index: next,
            submit_time: state.now.0,
            token: String::new(),
            tag: None,
        },
    };
    let Plan { decision, failed, .. } = plan(state, key, Some(&job), "");
    let blocked = (!failed.is_empty()).then(|| {
        let mut eval = state.new_eval(key, Trigger::JobRegister);
        eval.job_modify_index = Some(next);
        blocked_by(state, &eval, &failed)
    });
    DryRun { updates: decision.updates, failed, blocked }
}

impl Plan {
    fn find(&mut self, state: &State, spec: &Spec, placement: Placement, usage: &mut Usage) {
        let Some(group) = spec.view.group(&placement.group) else { return };
        match usage.place(&state.nodes, spec, group, placement.node.as_deref()) {
            Ok(place) => self.placed.push((placement, place)),
            Err(metric) => {
                *self.queued.entry(placement.group.clone()).or_default() += 1;
                match self.failed.get_mut(&placement.group) {
                    None => drop(self.failed.insert(placement.group, metric)),
                    Some(first) => {
                        first.coalesced += 1;
                        for (task, (cpu, memory)) in metric.wanted {
                            let wanted = first.wanted.entry(task).or_default();
                            *wanted = (wanted.0 + cpu, wanted.1 + memory);
                        }
                    }
                }
            }
        }
    }

    /// Whether there is anything to write.
    fn is_empty(&self) -> bool {
        let decision = &self.decision;
        self.placed.is_empty()
            && decision.stops.is_empty()
            && decision.in_place.is_empty()
            && decision.later.is_empty()
            && decision.new_deployment.is_none()
            && decision.deployment_ends.is_none()
    }
}

pub(crate) fn evaluate(state: &mut State, eval: &str) {
    let Some(mut eval) = state.evals.get(eval).filter(|eval| !eval.status.is_terminal()).cloned() else { return };
    let was_blocked = eval.status == EvalStatus::Blocked;
    let key = eval.job.clone();
    eval.snapshot_index = state.index;
    let job = state.job(&key).cloned();
    let plan = plan(state, &key, job.as_ref(), &eval.id);
    if was_blocked && plan.is_empty() && !plan.failed.is_empty() {
        // Still no room: it goes on waiting.
        return;
    }
    if let Some(followup) = follow_up(state, &eval, &plan.decision, job.as_ref()) {
        eval.next = Some(followup);
    }
    if !plan.failed.is_empty() && !was_blocked {
        eval.blocked = Some(block(state, &eval, &plan));
    }
    let updates = plan.decision.updates.clone();
    let (failed, queued) = (plan.failed.clone(), plan.queued.clone());
    if !plan.is_empty() {
        apply(state, plan, &eval, job.as_ref());
    }
    finish(state, eval, updates, failed, queued, was_blocked);
}

/// An evaluation for those that are to be replaced later.
fn follow_up(state: &mut State, eval: &Eval, decision: &Decision, job: Option<&Job>) -> Option<String> {
    let first = decision.later.iter().map(|(_, at)| *at).min()?;
    let mut followup = state.new_eval(&eval.job, Trigger::AllocReschedule);
    followup.job_modify_index = job.map(|job| job.modify_index);
    followup.description = "created for delayed rescheduling".to_owned();
    followup.wait_until = Some(first);
    followup.previous = Some(eval.id.clone());
    followup.snapshot_index = eval.snapshot_index;
    let id = followup.id.clone();
    store(state, followup);
    state.at(first, Timer::Evaluate(id.clone()));
    Some(id)
}

fn block(state: &mut State, eval: &Eval, plan: &Plan) -> String {
    let blocked = blocked_by(state, eval, &plan.failed);
    let id = blocked.id.clone();
    store(state, blocked);
    id
}

/// An evaluation that waits for room.
fn blocked_by(state: &mut State, eval: &Eval, failed: &BTreeMap<String, Metric>) -> Eval {
    let mut blocked = state.new_eval(&eval.job, Trigger::QueuedAllocs);
    blocked.status = EvalStatus::Blocked;
    blocked.description = "created to place remaining allocations".to_owned();
    blocked.job_modify_index = eval.job_modify_index;
    blocked.previous = Some(eval.id.clone());
    // All nodes are of one class: a filter rules the class out, unless it is about single nodes.
    let filters = failed.values().flat_map(|metric| metric.filtered.keys());
    let eligible = filters.into_iter().all(|reason| reason == "distinct_hosts");
    blocked.class_eligible = failed.values().any(|metric| metric.evaluated > 0).then_some(eligible);
    blocked.failed.clone_from(failed);
    blocked.snapshot_index = eval.snapshot_index;
    blocked
}

fn store(state: &mut State, eval: Eval) {
    let mut write = state.begin("EvaluationUpdated");
    state.put_eval(&mut write, eval);
    state.commit(write, false);
}

/// The evaluation is done; what it makes superfluous is canceled.
fn finish(
    state: &mut State,
    mut eval: Eval,
    updates: BTreeMap<String, DesiredUpdates>,
    failed: BTreeMap<String, Metric>,
    queued: BTreeMap<String, u64>,
    was_blocked: bool,
) {
    let key = eval.job.clone();
    let others = state.evals.values().filter(|other| {
        other.job == key
            && other.status == EvalStatus::Blocked
            && other.id != eval.id
            && Some(&other.id) != eval.blocked.as_ref()
    });
    let others: Vec<_> = others.cloned().collect();
    let cancel = |state: &mut State, write: &mut Write, why: &str| {
        for mut other in others.clone() {
            other.status = EvalStatus::Canceled;
            other.description = why.to_owned();
            state.put_eval(write, other);
        }
    };
    eval.deployment = state.latest_deployment(&key).map(|deployment| deployment.id.clone());
    let succeeded = failed.is_empty();
    if succeeded || !was_blocked {
        eval.status = EvalStatus::Complete;
        eval.description.clear();
        eval.queued = queued;
        eval.annotations = Some(updates);
    }
    eval.failed = failed;
    let id = eval.id.clone();
    let mut write = state.begin("EvaluationUpdated");
    state.put_eval(&mut write, eval);
    if succeeded {
        cancel(state, &mut write, &format!("evaluation {id:?} successful"));
    }
    state.commit(write, false);
    if !succeeded && !others.is_empty() {
        let mut write = state.begin("EvaluationUpdated");
        cancel(state, &mut write, &format!("existing blocked evaluation exists for job {:?}", key.1));
        state.commit(write, false);
    }
}

/// Writes a plan, and lets the clients know.
fn apply(state: &mut State, plan: Plan, eval: &Eval, job: Option<&Job>) {
    let key = eval.job.clone();
    let Plan { decision, placed, .. } = plan;
    let mut write = state.begin("PlanResult");
    let deployment = decision.new_deployment.as_ref().zip(job).map(|(groups, job)| new_deployment(state, job, groups));
    let current = state.latest_deployment(&key).filter(|latest| latest.is_active());
    let current = current.filter(|latest| job.is_some_and(|job| job.version == latest.job_version));
    let part_of = deployment.as_ref().or(current).map(|deployment| deployment.id.clone());
    let has_allocs = !placed.is_empty() || !decision.stops.is_empty() || !decision.in_place.is_empty();
    if has_allocs {
        touch_eval(state, &mut write, &eval.id);
    }
    let mut successful = false;
    if let Some((id, status)) = &decision.deployment_ends
        && let Some(mut ended) = state.deployments.get(id).cloned()
    {
        ended.status = *status;
        successful = *status == DeploymentStatus::Successful;
        state.put_deployment(&mut write, ended);
    }
    if let Some(deployment) = deployment {
        let id = deployment.id.clone();
        state.put_deployment(&mut write, deployment);
        deployments::watch_deadlines(state, &id);
    }
    if successful {
        mark_stable(state, &mut write, &key);
    }
    let mut stopped = Vec::new();
    for stop in &decision.stops {
        let Some(mut alloc) = state.allocs.get(&stop.alloc).cloned() else { continue };
        alloc.wanted = false;
        alloc.desired_description = stop.description;
        alloc.alloc_modify_index = write.index;
        if stop.lost {
            alloc.status = ClientStatus::Lost;
        }
        stopped.push(alloc.id.clone());
        state.put_alloc(&mut write, alloc);
    }
    let snapshot = state.job_for_alloc(&key);
    for id in &decision.in_place {
        let (Some(mut alloc), Some(job)) = (state.allocs.get(id).cloned(), snapshot.clone()) else { continue };
        alloc.job = job;
        alloc.eval.clone_from(&eval.id);
        alloc.alloc_modify_index = write.index;
        alloc.health = None;
        alloc.deployment.clone_from(&part_of);
        deployments::count_placed(state, &mut write, &alloc);
        state.put_alloc(&mut write, alloc);
    }
    for (id, _) in &decision.later {
        let Some(mut alloc) = state.allocs.get(id).cloned() else { continue };
        alloc.followup.clone_from(&eval.next);
        alloc.alloc_modify_index = write.index;
        state.put_alloc(&mut write, alloc);
    }
    let mut started = Vec::new();
    for (placement, place) in placed {
        let Some(job) = snapshot.clone() else { continue };
        let mut alloc = new_alloc(state, &placement, place, job, eval);
        let in_rollout = alloc.job.spec.view.group(&alloc.group).is_some_and(|group| group.rollout().is_some());
        alloc.deployment = part_of.clone().filter(|_| in_rollout);
        alloc.canary = placement.canary;
        alloc.alloc_modify_index = write.index;
        if let Some(previous) = replaced(&placement.replaces).and_then(|id| state.allocs.get(id)).cloned() {
            stopped.extend(replace(state, &mut write, &placement.replaces, previous, &mut alloc));
        }
        deployments::count_placed(state, &mut write, &alloc);
        started.push(alloc.id.clone());
        state.put_alloc(&mut write, alloc);
    }
    if !has_allocs && (successful || !decision.later.is_empty()) {
        touch_eval(state, &mut write, &eval.id);
    }
    state.commit(write, false);
    started.iter().for_each(|id| runner::start(state, id));
    stopped.iter().for_each(|id| runner::stop(state, id));
    for id in &decision.in_place {
        health::watch_health(state, id);
        services::refresh(state, id);
    }
    let lost = decision.stops.iter().filter(|stop| stop.lost);
    lost.for_each(|stop| services::refresh(state, &stop.alloc));
}

/// A plan is written to its evaluation, but says nothing of it yet.
fn touch_eval(state: &mut State, write: &mut Write, id: &str) {
    if let Some(eval) = state.evals.get(id).cloned() {
        state.put_eval(write, eval);
    }
}

/// A version that is stable already, because it inherited that, is left alone.
fn mark_stable(state: &mut State, write: &mut Write, key: &JobKey) {
    if state.job(key).is_some_and(|job| !job.stable) {
        state.touch_job(write, key, |job| job.stable = true);
    }
}

fn replaced(replaces: &Replaces) -> Option<&String> {
    match replaces {
        Replaces::Nothing => None,
        Replaces::Updated(alloc)
        | Replaces::Failed(alloc, _)
        | Replaces::Lost(alloc)
        | Replaces::Dead(alloc)
        | Replaces::Migrated(alloc) => Some(alloc),
    }
}

/// Links an allocation with the one that it replaces. Returns that one when it has to be stopped for it.
fn replace(
    state: &mut State,
    write: &mut Write,
    replaces: &Replaces,
    mut previous: Alloc,
    alloc: &mut Alloc,
) -> Option<String> {
    previous.next = Some(alloc.id.clone());
    alloc.previous = Some(previous.id.clone());
    touch_previous(state, write, &previous);
    let stop = matches!(replaces, Replaces::Updated(_) | Replaces::Migrated(_));
    if stop {
        previous.wanted = false;
        previous.desired_description = if previous.must_migrate { MIGRATED } else { UPDATED };
        previous.alloc_modify_index = write.index;
    }
    if let Replaces::Failed(_, delay) = replaces {
        alloc.reschedules.clone_from(&previous.reschedules);
        let (id, node) = (previous.id.clone(), previous.node.clone());
        alloc.reschedules.push(RescheduleEvent { at: state.now, delay: *delay, alloc: id, node });
    }
    let id = previous.id.clone();
    state.put_alloc(write, previous);
    stop.then_some(id)
}

/// One that is replaced lets the one that it once replaced be written as well, though that stays as it is.
fn touch_previous(state: &mut State, write: &mut Write, alloc: &Alloc) {
    if let Some(previous) = alloc.previous.as_ref().and_then(|id| state.allocs.get(id)).cloned() {
        state.put_alloc(write, previous);
    }
}

fn new_alloc(state: &mut State, placement: &Placement, place: Place, job: std::sync::Arc<Job>, eval: &Eval) -> Alloc {
    Alloc {
        id: state.new_id(),
        eval: eval.id.clone(),
        job,
        group: placement.group.clone(),
        slot: placement.slot,
        node: place.node,
        node_name: place.node_name,
        wanted: true,
        desired_description: "",
        status: ClientStatus::Pending,
        client_description: "",
        tasks: None,
        deployment: None,
        canary: false,
        health: None,
        may_reschedule: false,
        must_reschedule: false,
        must_migrate: false,
        followup: None,
        next: None,
        previous: None,
        reschedules: Vec::new(),
        ports: place.ports,
        metric: place.metric,
        create_index: 0,
        modify_index: 0,
        alloc_modify_index: 0,
        create_time: state.now,
        modify_time: state.now,
    }
}

fn new_deployment(state: &mut State, job: &Job, groups: &BTreeMap<String, Desired>) -> Deployment {
    let group = |name: &String, desired: &Desired| {
        let update = job.spec.view.group(name).and_then(|group| group.rollout());
        let progress_deadline = update.map_or(Duration::ZERO, |update| update.progress_deadline);
        GroupState {
            desired: desired.total,
            placed: 0,
            healthy: 0,
            unhealthy: 0,
            progress_deadline,
            progress_by: None,
            desired_canaries: desired.canaries,
            canaries: Vec::new(),
            promoted: false,
            auto_promote: update.is_some_and(|update| update.auto_promote),
            auto_revert: update.is_some_and(|update| update.auto_revert),
        }
    };
    Deployment {
        id: state.new_id(),
        job: job.key(),
        job_version: job.version,
        job_modify_index: job.modify_index,
        job_spec_modify_index: job.job_modify_index,
        job_create_index: job.create_index,
        priority: job.spec.view.priority,
        status: DeploymentStatus::Running,
        rollback: None,
        groups: groups.iter().map(|(name, desired)| (name.clone(), group(name, desired))).collect(),
        create_index: 0,
        modify_index: 0,
        create_time: state.now,
        modify_time: state.now,
    }
}
