//! Jobs that do not run themselves: they have children, launched by a clock or by somebody's dispatch.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};

use super::{
    objects::Trigger,
    scheduler,
    state::{State, Timer, Write},
    summary::Counts,
    write::Refusal,
};
use crate::{
    job::{Cron, Job, JobKey, JobStatus, Parameters, Periodic, Spec},
    time::Time,
};

/// The largest payload of a dispatch, in bytes.
const MAX_PAYLOAD: usize = 16 * 1024;

/// How many children there are, by their status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Children {
    pub(crate) pending: u64,
    pub(crate) running: u64,
    pub(crate) dead: u64,
}

/// What a dispatch asks for.
#[derive(Debug)]
pub(crate) struct Dispatch {
    pub(crate) payload: Option<String>,
    pub(crate) payload_size: usize,
    pub(crate) meta: BTreeMap<String, String>,
    pub(crate) prefix: String,
    pub(crate) priority: i64,
    pub(crate) token: String,
}

/// What it answers.
#[derive(Debug)]
pub(crate) struct Dispatched {
    pub(crate) id: String,
    /// Empty when the token had been used before.
    pub(crate) eval: String,
    pub(crate) index: u64,
    pub(crate) create_index: u64,
}

/// The next launch of a periodic job, if it has one.
pub(crate) fn next_launch(periodic: &Periodic, after: Time) -> Option<Time> {
    let zone = TimeZone::get(&periodic.time_zone).ok()?;
    let crons = periodic.expressions().filter_map(|text| Cron::parse(text).ok());
    crons.filter_map(|cron| cron.next(after, &zone)).min()
}

impl State {
    pub(crate) fn children_of(&self, key: &JobKey) -> Children {
        let mut children = Children::default();
        for child in self.child_jobs(key) {
            match child.status {
                JobStatus::Pending => children.pending += 1,
                JobStatus::Running => children.running += 1,
                JobStatus::Dead => children.dead += 1,
            }
        }
        children
    }

    pub(crate) fn child_jobs<'a>(&'a self, key: &'a JobKey) -> impl Iterator<Item = &'a Job> {
        let jobs = self.jobs.values().filter_map(|entry| entry.current());
        jobs.filter(move |job| job.spec.view.namespace == key.0 && job.spec.view.parent_id == key.1)
    }

    /// Lets the clock launch a job from now on, as its current version says.
    pub(super) fn track(&mut self, key: &JobKey) {
        let Some((job, periodic)) = self.tracked(key) else { return };
        let (version, next) = (job.version, next_launch(periodic, self.now));
        if let Some(at) = next {
            self.at(at, Timer::Launch { job: key.clone(), version });
        }
    }

    fn tracked(&self, key: &JobKey) -> Option<(&Job, &Periodic)> {
        let job = self.job(key).filter(|job| !job.stop)?;
        Some((job, job.spec.view.periodic.as_ref().filter(|periodic| periodic.enabled)?))
    }

    /// The clock has reached a launch.
    pub(super) fn launch_due(&mut self, key: &JobKey, version: u64) {
        let Some((job, periodic)) = self.tracked(key).filter(|(job, _)| job.version == version) else { return };
        let job = job.clone();
        let waits = periodic.prohibit_overlap && self.child_jobs(key).any(|child| child.status != JobStatus::Dead);
        if !waits {
            self.launch(&job);
        }
        self.track(key);
    }

    /// Launches a periodic job now, whatever its schedule and its other children are.
    pub(crate) fn force(&mut self, key: &JobKey) -> Result<(String, u64), Refusal> {
        let Some(job) = self.job(key).cloned() else { return Err(Refusal::new(500, "job not found")) };
        if job.spec.view.periodic.is_none() {
            return Err(Refusal::new(500, "can't force launch non-periodic job"));
        }
        if self.tracked(key).is_none() {
            let (namespace, id) = key;
            let why = format!("can't force run non-tracked job {id:?} ({namespace})");
            return Err(Refusal::new(500, format!("force launch for job {id:?} failed: {why}")));
        }
        Ok(self.launch(&job))
    }

    fn launch(&mut self, job: &Job) -> (String, u64) {
        let id = format!("{}/periodic-{}", job.spec.view.id, self.now.0.div_euclid(1_000_000_000));
        let mut spec = child_spec(job, &id);
        spec.json.insert("Periodic".to_owned(), Value::Null);
        spec.view.periodic = None;
        self.put_child(spec, Trigger::PeriodicJob, job.token.clone())
    }

    pub(crate) fn dispatch(&mut self, key: &JobKey, dispatch: Dispatch, caller: &str) -> Result<Dispatched, Refusal> {
        let Some(job) = self.job(key).cloned() else { return Err(Refusal::new(500, "parameterized job not found")) };
        let refuse = |text: String| Err(Refusal::new(500, text));
        let view = &job.spec.view;
        let Some(parameters) = view.parameterized_job.as_ref().filter(|_| !view.dispatched) else {
            return refuse(format!("Specified job {:?} is not a parameterized job", key.1));
        };
        if job.stop {
            return refuse(format!("Specified job {:?} is stopped", key.1));
        }
        check(parameters, &dispatch)?;
        let same = |child: &&Job| child.spec.json.get("DispatchIdempotencyToken") == Some(&json!(dispatch.token));
        let used = self.child_jobs(key).find(|child| !dispatch.token.is_empty() && same(child));
        if let Some(child) = used {
            let (id, index, create_index) = (child.spec.view.id.clone(), child.modify_index, child.create_index);
            return Ok(Dispatched { id, eval: String::new(), index, create_index });
        }
        let prefix = if dispatch.prefix.is_empty() { String::new() } else { format!("{}-", dispatch.prefix) };
        let unique = self.new_id();
        let unique = unique.split('-').next().unwrap_or_default();
        let id = format!("{}/dispatch-{prefix}{}-{unique}", key.1, self.now.0.div_euclid(1_000_000_000));
        let mut spec = child_spec(&job, &id);
        let mut meta = spec.json.get("Meta").and_then(Value::as_object).cloned().unwrap_or_default();
        meta.extend(dispatch.meta.into_iter().map(|(key, value)| (key, json!(value))));
        let priority = if dispatch.priority > 0 { dispatch.priority } else { view.priority };
        spec.view.priority = priority;
        spec.view.dispatched = true;
        let fields = [
            ("Meta", if meta.is_empty() { Value::Null } else { Value::Object(meta) }),
            ("Priority", json!(priority)),
            ("Dispatched", json!(true)),
            ("DispatchIdempotencyToken", json!(dispatch.token)),
            ("Payload", dispatch.payload.map(Value::from).unwrap_or_default()),
        ];
        spec.json.extend(fields.map(|(key, value)| (key.to_owned(), value)));
        let (eval, index) = self.put_child(spec, Trigger::JobRegister, caller.to_owned());
        Ok(Dispatched { id, eval, index, create_index: index })
    }

    /// Registers a child, again as a new version if it is there already.
    fn put_child(&mut self, spec: Spec, trigger: Trigger, token: String) -> (String, u64) {
        let key = (spec.view.namespace.clone(), spec.view.id.clone());
        let existing = self.job(&key).cloned();
        let mut write = self.begin("JobRegistered");
        let index = write.index;
        let job = Job {
            spec: spec.into(),
            version: existing.as_ref().map_or(0, |old| old.version + 1),
            stable: false,
            stop: false,
            status: existing.as_ref().map_or(JobStatus::Pending, |old| old.status),
            create_index: existing.as_ref().map_or(index, |old| old.create_index),
            modify_index: index,
            job_modify_index: index,
            submit_time: self.now.0,
            token,
            tag: None,
        };
        self.put_job(&mut write, job, None);
        let mut eval = self.new_eval(&key, trigger);
        eval.job_modify_index = Some(index);
        let id = eval.id.clone();
        self.put_eval(&mut write, eval);
        self.commit(write, true);
        scheduler::enqueue(self, &id);
        (id, index)
    }

    /// The summary of a parent follows from its children.
    pub(super) fn refresh_parent(&mut self, key: &JobKey, write: &mut Write) {
        let Some(parent) = self.job(key).filter(|job| job.is_parent()) else { return };
        let status = if parent.stop { JobStatus::Dead } else { JobStatus::Running };
        let changed = parent.status != status;
        let groups: BTreeMap<_, _> =
            parent.spec.view.groups.iter().map(|group| (group.name.clone(), Counts::default())).collect();
        let children = self.children_of(key);
        self.set_summary(key, groups, children, write);
        if changed {
            self.touch_job(write, key, |job| job.status = status);
        }
    }
}

/// A child's specification: its parent's under another name.
fn child_spec(parent: &Job, id: &str) -> Spec {
    let mut spec = (*parent.spec).clone();
    id.clone_into(&mut spec.view.id);
    id.clone_into(&mut spec.view.name);
    spec.view.parent_id.clone_from(&parent.spec.view.id);
    spec.view.stop = false;
    let fields: Map<_, _> = [("ID", json!(id)), ("Name", json!(id)), ("ParentID", json!(parent.spec.view.id))]
        .map(|(key, value)| (key.to_owned(), value))
        .into_iter()
        .collect();
    spec.json.extend(fields);
    spec
}

fn check(parameters: &Parameters, dispatch: &Dispatch) -> Result<(), Refusal> {
    let refuse = |text: String| Err(Refusal::new(500, text));
    match (parameters.payload.as_str(), &dispatch.payload) {
        ("required", None) => {
            return refuse("Payload is not provided but required by parameterized job".to_owned());
        }
        ("forbidden", Some(_)) => {
            return refuse("Payload provided but forbidden by parameterized job".to_owned());
        }
        _ if dispatch.payload_size > MAX_PAYLOAD => {
            return refuse(format!("Payload exceeds maximum size; {} > {MAX_PAYLOAD}", dispatch.payload_size));
        }
        _ => {}
    }
    let list = |keys: Vec<&String>| keys.into_iter().map(String::as_str).collect::<Vec<_>>().join(" ");
    let allowed = |key: &&String| parameters.meta_required.contains(key) || parameters.meta_optional.contains(key);
    let extra: Vec<_> = dispatch.meta.keys().filter(|key| !allowed(key)).collect();
    if !extra.is_empty() {
        return refuse(format!("Dispatch request included unpermitted metadata keys: [{}]", list(extra)));
    }
    let missing: Vec<_> = parameters.meta_required.iter().filter(|key| !dispatch.meta.contains_key(*key)).collect();
    if !missing.is_empty() {
        return refuse(format!("Dispatch did not provide required meta keys: [{}]", list(missing)));
    }
    Ok(())
}
