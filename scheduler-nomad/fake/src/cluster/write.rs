//! What clients write: registrations, stops, scaling, namespaces.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    objects::{Alloc, ClientStatus, Deployment, Trigger},
    reconcile::is_replaceable,
    runner, scheduler,
    state::{Namespace, State},
};
use crate::job::{Job, JobKey, JobStatus, Request, Spec, Submission, multi_error, unsimulated, validate, warnings};

/// The largest source that is kept, in bytes.
const MAX_SOURCE: usize = 1_000_000;
const MAX_COUNT: i64 = 50_000;

/// Why a request is refused, in the server's words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Refusal {
    pub(crate) fn new(status: u16, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }

    pub(crate) fn permission() -> Self {
        Self::new(403, "Permission denied")
    }

    /// What a real agent would answer is not known.
    pub(crate) fn unrecorded(what: impl std::fmt::Display) -> Self {
        Self::new(501, format!("scheduler-nomad-fake: there is no recording of {what}, so it is not simulated"))
    }
}

/// What a write answers.
#[derive(Debug, Default)]
pub(crate) struct Receipt {
    pub(crate) eval: String,
    pub(crate) eval_index: u64,
    pub(crate) job_modify_index: u64,
    pub(crate) index: u64,
    pub(crate) warnings: String,
}

/// The body of a scale request.
#[derive(Debug)]
pub(crate) struct ScaleRequest {
    pub(crate) count: Option<i64>,
    pub(crate) group: Option<String>,
    pub(crate) message: String,
    pub(crate) error: bool,
    pub(crate) meta: Value,
    pub(crate) check_index: u64,
}

impl State {
    /// What a server says to a job before it looks at rights.
    pub(crate) fn check_job(&self, spec: &Spec) -> Result<(), Refusal> {
        if spec.view.region != "global" || spec.view.multiregion.is_some() {
            return Err(Refusal::new(500, "No path to region"));
        }
        match self.job_errors(spec).as_slice() {
            [] => Ok(()),
            errors => Err(Refusal::new(500, multi_error(errors))),
        }
    }

    pub(crate) fn job_errors(&self, spec: &Spec) -> Vec<String> {
        validate(spec, self.namespaces.keys())
    }

    /// Registers a job, or says why not. The job has been checked.
    pub(crate) fn register(&mut self, request: Request, token: &str) -> Result<Receipt, Refusal> {
        let Request { mut spec, check_index, preserve_counts, submission, .. } = request;
        let key = (spec.view.namespace.clone(), spec.view.id.clone());
        let existing = self.job(&key).cloned();
        if let Some(index) = check_index {
            let conflict = match &existing {
                None if index == 0 => None,
                None => Some("job does not exist".to_owned()),
                Some(_) if index == 0 => Some("job already exists".to_owned()),
                Some(job) if job.job_modify_index == index => None,
                Some(job) => Some(format!("job exists with conflicting job modify index: {}", job.job_modify_index)),
            };
            if let Some(conflict) = conflict {
                return Err(Refusal::new(500, format!("Enforcing job modify index {index}: {conflict}")));
            }
        }
        if let Some(old) = existing.as_ref().filter(|old| old.spec.view.kind != spec.view.kind) {
            let (old, new) = (&old.spec.view.kind, &spec.view.kind);
            return Err(Refusal::new(500, format!("cannot update job from type {old:?} to {new:?}")));
        }
        if existing.as_ref().is_some_and(|old| old.spec.view.periodic.is_some()) && spec.view.periodic.is_none() {
            return Err(Refusal::new(500, "cannot update periodic job to being non-periodic"));
        }
        if let Some(what) = unsimulated(&spec) {
            return Err(Refusal::unrecorded(what));
        }
        let mut warnings = warnings(&spec);
        let (submission, too_large) = keep(submission);
        warnings.extend(too_large);
        let mut changed = existing
            .as_ref()
            .is_none_or(|old| old.stop != spec.view.stop || old.token != token || !same_content(&old.spec, &spec));
        if preserve_counts && let Some(old) = &existing {
            preserve(&old.spec, &mut spec);
            changed |= !same_content(&old.spec, &spec);
        }
        let mut write = self.begin("JobRegistered");
        let mut eval = self.new_eval(&key, Trigger::JobRegister);
        eval.priority = spec.view.priority;
        eval.kind.clone_from(&spec.view.kind);
        if changed {
            name_policies(self, existing.as_ref(), &mut spec, write.index);
            let stop = spec.view.stop;
            let job = Job {
                spec: spec.into(),
                version: existing.as_ref().map_or(0, |old| old.version + 1),
                stable: false,
                stop,
                status: existing.as_ref().map_or(JobStatus::Pending, |old| old.status),
                create_index: existing.as_ref().map_or(write.index, |old| old.create_index),
                modify_index: write.index,
                job_modify_index: write.index,
                submit_time: self.now.0,
                token: token.to_owned(),
                tag: None,
            };
            eval.job_modify_index = Some(write.index);
            self.put_job(&mut write, job, submission);
        }
        if self.job(&key).is_some_and(Job::is_parent) {
            // It is its children that are evaluated.
            let index = write.index;
            self.commit(write, true);
            if changed {
                self.track(&key);
            }
            let warnings = warnings_text(&warnings);
            return Ok(Receipt { eval: String::new(), eval_index: 0, job_modify_index: index, index, warnings });
        }
        let receipt = Receipt {
            eval: eval.id.clone(),
            eval_index: write.index,
            // Of a job that was not changed it is the other index.
            job_modify_index: if changed { write.index } else { existing.map_or(0, |job| job.modify_index) },
            index: write.index,
            warnings: warnings_text(&warnings),
        };
        self.put_eval(&mut write, eval);
        self.commit(write, true);
        scheduler::enqueue(self, &receipt.eval);
        Ok(receipt)
    }

    /// Stops a job, and removes it if asked to. One that is not there is no error.
    pub(crate) fn deregister(&mut self, key: &JobKey, purge: bool) -> Receipt {
        let Some(job) = self.job(key).cloned() else { return Receipt::default() };
        let parent = job.is_parent();
        let mut write = self.begin("JobDeregistered");
        let index = write.index;
        let mut eval = self.new_eval(key, Trigger::JobDeregister);
        eval.priority = job.spec.view.priority;
        // Whatever the type of the job is.
        "service".clone_into(&mut eval.kind);
        eval.job_modify_index = Some(index);
        let mut orphans = Vec::new();
        if purge {
            orphans = self.allocs_of(key).map(|alloc| alloc.id.clone()).collect();
            self.purge_job(&mut write, key);
        } else {
            let submission = self.jobs.get(key).and_then(|entry| entry.submissions.get(&job.version)).cloned();
            let stopped = Job {
                version: job.version + 1,
                stop: true,
                modify_index: index,
                job_modify_index: index,
                submit_time: self.now.0,
                tag: None,
                ..job
            };
            self.put_job(&mut write, stopped, submission);
        }
        if parent {
            self.commit(write, true);
            let (eval, warnings) = (String::new(), String::new());
            return Receipt { eval, eval_index: index, job_modify_index: index, index, warnings };
        }
        let id = eval.id.clone();
        self.put_eval(&mut write, eval);
        self.commit(write, true);
        scheduler::enqueue(self, &id);
        orphans.iter().for_each(|alloc| runner::stop(self, alloc));
        Receipt { eval: id, eval_index: index, job_modify_index: index, index, warnings: String::new() }
    }

    /// Makes an evaluation of a job.
    /// With `replace`, what has failed and may be replaced at all is replaced at once.
    pub(crate) fn force_evaluation(&mut self, key: &JobKey, replace: bool) -> Result<Receipt, Refusal> {
        let Some(job) = self.job(key) else { return Err(Refusal::new(500, "job not found")) };
        if job.is_parent() {
            let kind = if job.spec.view.periodic.is_some() { "periodic" } else { "parameterized" };
            return Err(Refusal::new(500, format!("can't evaluate {kind} job")));
        }
        let modify_index = job.modify_index;
        let mut write = self.begin("EvaluationUpdated");
        let mut eval = self.new_eval(key, Trigger::JobRegister);
        eval.job_modify_index = Some(modify_index);
        let (id, index) = (eval.id.clone(), write.index);
        self.put_eval(&mut write, eval);
        let failed = self.allocs_of(key).filter(|alloc| replace && alloc.next.is_none() && is_due(alloc));
        let failed: Vec<_> = failed.cloned().collect();
        for mut alloc in failed {
            alloc.must_reschedule = true;
            self.put_alloc(&mut write, alloc);
        }
        self.commit(write, false);
        scheduler::enqueue(self, &id);
        Ok(Receipt { eval: id, eval_index: index, job_modify_index: modify_index, index, warnings: String::new() })
    }

    /// Changes the count of a group. Three writes: the job, the evaluation, the scaling event.
    pub(crate) fn scale(&mut self, key: &JobKey, request: ScaleRequest) -> Result<Receipt, Refusal> {
        let Some(group) = request.group.filter(|group| !group.is_empty()) else {
            return Err(Refusal::new(400, "missing task group name for scaling action"));
        };
        match request.count {
            Some(_) if request.error => {
                return Err(Refusal::new(400, "scaling action should not contain count if error is true"));
            }
            Some(..0) => return Err(Refusal::new(400, "scaling action count can't be negative")),
            _ => {}
        }
        let Some(job) = self.job(key).cloned() else {
            return Err(Refusal::new(404, format!("job {:?} not found", key.1)));
        };
        let Some(previous) = job.spec.view.group(&group).map(|group| group.count) else {
            let text = format!("task group {group:?} specified for scaling does not exist in job");
            return Err(Refusal::new(400, text));
        };
        if let Some(count) = request.count {
            let (index, current) = (request.check_index, job.job_modify_index);
            if index != 0 && index != current {
                let text = format!(
                    "Enforcing job modify index {index}: job exists with conflicting job modify index: {current}"
                );
                return Err(Refusal::new(500, text));
            }
            if job.spec.view.kind.starts_with("sys") && count > 1 {
                let text = format!("jobs of type {:?} can only be scaled between 0 and 1", job.spec.view.kind);
                return Err(Refusal::new(400, text));
            }
            let policy = job.spec.view.group(&group).and_then(|group| group.scaling.as_ref());
            if let Some(text) = policy.and_then(|policy| policy.refuses(count)) {
                return Err(Refusal::new(400, text));
            }
            if count > MAX_COUNT {
                let text = format!("total count was greater than configured job_max_count: {count} > {MAX_COUNT}");
                return Err(Refusal::new(500, text));
            }
            if self.latest_deployment(key).is_some_and(Deployment::is_active) {
                return Err(Refusal::new(400, "job scaling blocked due to active deployment"));
            }
        }
        let mut receipt = Receipt { job_modify_index: job.modify_index, ..Receipt::default() };
        if let Some(count) = request.count {
            receipt = self.scale_job(key, job, &group, count);
        }
        let write = self.begin("ScalingEvent");
        receipt.index = write.index;
        self.commit(write, false);
        let event = json!({
            "Count": request.count, "PreviousCount": previous, "Message": request.message, "Error": request.error,
            "EvalID": (!receipt.eval.is_empty()).then_some(&receipt.eval), "Meta": request.meta, "Time": self.now.0,
            "CreateIndex": receipt.index,
        });
        if let Some(entry) = self.jobs.get_mut(key) {
            entry.scaling.entry(group).or_default().insert(0, event);
        }
        Ok(receipt)
    }

    fn scale_job(&mut self, key: &JobKey, job: Job, group: &str, count: i64) -> Receipt {
        let mut write = self.begin("JobRegistered");
        let job_index = write.index;
        let mut spec = (*job.spec).clone();
        set_count(&mut spec, group, count);
        let submission = self.jobs.get(key).and_then(|entry| entry.submissions.get(&job.version)).cloned();
        let scaled = Job {
            spec: spec.into(),
            version: job.version + 1,
            modify_index: job_index,
            job_modify_index: job_index,
            submit_time: self.now.0,
            tag: None,
            ..job
        };
        let parent = scaled.is_parent();
        self.put_job(&mut write, scaled, submission);
        self.commit(write, false);
        if parent {
            self.track(key);
            return Receipt { job_modify_index: job_index, ..Receipt::default() };
        }
        let mut write = self.begin("EvaluationUpdated");
        let mut eval = self.new_eval(key, Trigger::JobScaling);
        eval.job_modify_index = Some(job_index);
        let (id, eval_index) = (eval.id.clone(), write.index);
        self.put_eval(&mut write, eval);
        self.commit(write, false);
        scheduler::enqueue(self, &id);
        let index = eval_index;
        Receipt { eval: id, eval_index, job_modify_index: job_index, index, warnings: String::new() }
    }

    /// Makes a namespace, or changes the whole of it.
    pub(crate) fn put_namespace(&mut self, name: &str, description: &str, meta: Value) -> Result<u64, Refusal> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if name.is_empty() || name.len() > 128 || !name.chars().all(allowed) {
            let fault = format!("invalid name {name:?}. Must match regex ^[a-zA-Z0-9-]{{1,128}}$");
            return Err(Refusal::new(500, format!("Invalid namespace {name:?}: {}", multi_error(&[fault]))));
        }
        let write = self.begin("NamespaceUpserted");
        let index = write.index;
        let create_index = self.namespaces.get(name).map_or(index, |namespace| namespace.create_index);
        let namespace = Namespace {
            name: name.to_owned(),
            description: description.to_owned(),
            meta,
            create_index,
            modify_index: index,
        };
        self.namespaces.insert(name.to_owned(), namespace);
        self.tables.namespaces = index;
        self.commit(write, false);
        Ok(index)
    }

    /// Removes a namespace in which nothing is left to do. Its dead jobs stay.
    pub(crate) fn delete_namespace(&mut self, name: &str) -> Result<u64, Refusal> {
        if name == "default" {
            return Err(Refusal::new(500, "can not delete default namespace"));
        }
        if !self.namespaces.contains_key(name) {
            return Err(Refusal::new(500, "namespace not found"));
        }
        let jobs = self.jobs.values().filter_map(|entry| entry.current());
        let busy = jobs.filter(|job| job.spec.view.namespace == name).any(|job| job.status != JobStatus::Dead);
        let allocs = self.allocs.values().filter(|alloc| alloc.job.spec.view.namespace == name);
        let running = allocs.into_iter().any(|alloc| !alloc.status.is_terminal());
        let left = [(busy, "jobs"), (running, "allocations")];
        let left = left.into_iter().filter(|(there, _)| *there);
        let left: Vec<_> =
            left.map(|(_, what)| format!("namespace {name:?} has non-terminal {what} in regions: [global]")).collect();
        if !left.is_empty() {
            return Err(Refusal::new(500, multi_error(&left)));
        }
        let write = self.begin("NamespaceDeleted");
        let index = write.index;
        self.namespaces.remove(name);
        self.tables.namespaces = index;
        self.commit(write, false);
        Ok(index)
    }
}

/// It has failed, and its policy allows another one.
fn is_due(alloc: &Alloc) -> bool {
    alloc.status == ClientStatus::Failed && is_replaceable(alloc)
}

fn warnings_text(warnings: &[String]) -> String {
    match warnings {
        [] => String::new(),
        [one] => format!("1 warning:\n\n* {one}"),
        more => format!("{} warnings:\n\n* {}", more.len(), more.join("\n* ")),
    }
}

pub(crate) fn warnings_of(spec: &Spec) -> String {
    warnings_text(&warnings(spec))
}

/// A source that is too large is dropped with a warning.
fn keep(submission: Option<Value>) -> (Option<Submission>, Option<String>) {
    let size = submission.as_ref().and_then(|submission| submission["Source"].as_str()).map_or(0, str::len);
    if size <= MAX_SOURCE {
        return (submission.map(Submission), None);
    }
    let tenths = size / 100_000;
    let (whole, tenth) = (tenths / 10, tenths % 10);
    let text = format!("job source size of {whole}.{tenth} MB exceeds maximum of 1.0 MB and will be discarded");
    (None, Some(text))
}

/// Whether two submissions say the same. Whether the job runs is not part of that.
pub(crate) fn same_content(one: &Spec, other: &Spec) -> bool {
    let keys = one.json.keys().chain(other.json.keys()).filter(|key| *key != "Stop");
    keys.into_iter().all(|key| match (one.json.get(key), other.json.get(key)) {
        (Some(one), Some(other)) if key == "TaskGroups" => nameless(one) == nameless(other),
        (one, other) => one == other,
    })
}

/// Groups without what the server adds to their policies of scaling.
fn nameless(groups: &Value) -> Value {
    let mut groups = groups.clone();
    for policy in groups.as_array_mut().into_iter().flatten().filter_map(|group| group.get_mut("Scaling")) {
        if let Some(policy) = policy.as_object_mut() {
            policy.retain(|key, _| !["ID", "CreateIndex", "ModifyIndex"].contains(&key.as_str()));
        }
    }
    groups
}

/// Policies of scaling have IDs. Those of a job that was there before keep theirs, and say no indexes.
fn name_policies(state: &mut State, old: Option<&Job>, spec: &mut Spec, index: u64) {
    let groups = |spec: &Spec| spec.json.get("TaskGroups").and_then(Value::as_array).cloned().unwrap_or_default();
    let before = old.map(|old| groups(&old.spec)).unwrap_or_default();
    let new = spec.json.get_mut("TaskGroups").and_then(Value::as_array_mut).into_iter().flatten();
    for group in new.filter(|group| group["Scaling"].is_object()) {
        let known = before.iter().find(|other| other["Name"] == group["Name"] && other["Scaling"].is_object());
        let (id, index) = match known {
            Some(known) => (known["Scaling"]["ID"].clone(), 0),
            None => (json!(state.new_id()), index),
        };
        let policy = &mut group["Scaling"];
        (policy["ID"], policy["CreateIndex"], policy["ModifyIndex"]) = (id, json!(index), json!(index));
    }
}

fn preserve(old: &Spec, new: &mut Spec) {
    let counts: BTreeMap<_, _> = old.view.groups.iter().map(|group| (group.name.clone(), group.count)).collect();
    for (group, count) in counts {
        set_count(new, &group, count);
    }
}

fn set_count(spec: &mut Spec, name: &str, count: i64) {
    if let Some(group) = spec.view.groups.iter_mut().find(|group| group.name == name) {
        group.count = count;
    }
    let groups = spec.json.get_mut("TaskGroups").and_then(Value::as_array_mut).into_iter().flatten();
    for group in groups.filter(|group| group["Name"] == name) {
        group["Count"] = json!(count);
    }
}
