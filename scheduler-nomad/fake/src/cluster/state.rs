//! The state of the cluster, and how it is written: every write has an index of its own, moves the indexes of the tables
//! that it touches, and becomes a line of the event stream.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::{Value, json};

use super::{
    events::{Event, EventBuffer, Topic},
    objects::{Alloc, Deployment, Eval, EvalStatus, Trigger},
    output::Output,
    render,
    runner::Runner,
    services::Registration,
    summary::Summary,
    variables::{Place, Variable},
};
use crate::{
    Access, Options,
    job::{Job, JobKey, Submission},
    time::Time,
};

/// How many versions of a job are kept.
const VERSIONS: usize = 6;

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) started: Time,
    pub(crate) now: Time,
    pub(crate) index: u64,
    pub(crate) tables: Tables,
    pub(crate) jobs: BTreeMap<JobKey, Entry>,
    pub(crate) evals: BTreeMap<String, Eval>,
    pub(crate) deployments: BTreeMap<String, Deployment>,
    pub(crate) allocs: BTreeMap<String, Alloc>,
    pub(crate) nodes: Vec<NodeState>,
    pub(crate) namespaces: BTreeMap<String, Namespace>,
    /// What the clients do, by allocation. It outlives a purge.
    pub(crate) runners: BTreeMap<String, Runner>,
    /// What they have written, until it is purged.
    pub(crate) outputs: BTreeMap<String, Output>,
    pub(crate) variables: BTreeMap<Place, Variable>,
    /// By their IDs.
    pub(crate) services: BTreeMap<String, Registration>,
    pub(crate) events: EventBuffer,
    pub(crate) acl: bool,
    pub(crate) tokens: Vec<Token>,
    pub(crate) has_leader: bool,
    timers: BTreeMap<(Time, u64), Timer>,
    ids: u64,
}

/// The index at which a table was last written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tables {
    pub(crate) jobs: u64,
    pub(crate) summaries: u64,
    pub(crate) evals: u64,
    pub(crate) deployments: u64,
    pub(crate) allocs: u64,
    pub(crate) nodes: u64,
    pub(crate) namespaces: u64,
    pub(crate) variables: u64,
    pub(crate) services: u64,
}

/// A job with what belongs to it.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Newest first, never empty.
    versions: Vec<Job>,
    /// The version that the job is. Only the stable flag makes it another one than the newest.
    current: u64,
    pub(crate) submissions: BTreeMap<u64, Submission>,
    pub(crate) summary: Summary,
    /// Newest first, by group.
    pub(crate) scaling: BTreeMap<String, Vec<Value>>,
    /// What the last evaluation could not place.
    pub(super) queued: BTreeMap<String, u64>,
}

impl Entry {
    pub(crate) fn current(&self) -> Option<&Job> {
        self.version(self.current)
    }

    pub(crate) fn version(&self, version: u64) -> Option<&Job> {
        self.versions.iter().find(|job| job.version == version)
    }

    /// Forgets the oldest versions, but not those with a tag, and not the one that just lost its tag.
    pub(crate) fn prune(&mut self, untagged: Option<u64>) {
        let mut kept = usize::from(untagged.is_some());
        self.versions.retain(|job| {
            let stays = job.tag.is_some() || untagged == Some(job.version);
            kept += usize::from(!stays);
            stays || kept <= VERSIONS
        });
    }

    /// Forgets all but the newest sources, also those of versions with a tag.
    fn prune_submissions(&mut self) {
        while self.submissions.len() > VERSIONS {
            self.submissions.pop_first();
        }
    }

    pub(crate) fn select(&mut self, version: u64) {
        self.current = version;
    }

    pub(crate) fn change_version(&mut self, version: u64, change: impl FnOnce(&mut Job)) {
        if let Some(job) = self.versions.iter_mut().find(|job| job.version == version) {
            change(job);
        }
    }

    pub(crate) fn versions(&self) -> &[Job] {
        &self.versions
    }
}

#[derive(Debug)]
pub(crate) struct NodeState {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) cpu: i64,
    pub(crate) memory_mb: i64,
    pub(crate) disk_mb: i64,
    pub(crate) meta: BTreeMap<String, String>,
    pub(crate) up: bool,
    pub(crate) create_index: u64,
    pub(crate) modify_index: u64,
    /// When the client tells the servers what has changed.
    pub(crate) sync_at: Option<Time>,
}

#[derive(Debug)]
pub(crate) struct Namespace {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) meta: Value,
    pub(crate) create_index: u64,
    pub(crate) modify_index: u64,
}

#[derive(Debug)]
pub(crate) struct Token {
    pub(crate) secret: String,
    pub(crate) accessor: String,
    pub(crate) access: Access,
    pub(crate) created: Time,
    pub(crate) index: u64,
}

/// What happens by itself, later.
#[derive(Debug, Clone)]
pub(crate) enum Timer {
    Evaluate(String),
    Task {
        alloc: String,
        task: String,
        generation: u64,
    },
    Health(String),
    Sync(String),
    /// The deployment watcher has gathered long enough.
    Watch(String),
    Fail(String),
    ProgressDeadline(String),
    /// The clock launches a periodic job, if it is still at this version.
    Launch {
        job: JobKey,
        version: u64,
    },
}

/// One write, while it is being made.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) index: u64,
    kind: &'static str,
    touched: Vec<(Topic, String)>,
    /// Objects that are gone afterwards.
    gone: Vec<Event>,
    jobs: BTreeSet<JobKey>,
}

impl State {
    pub(crate) fn new(options: &Options, now: Time) -> Self {
        // Indexes begin above those that a server uses for itself.
        let tables = Tables {
            jobs: 1,
            summaries: 1,
            evals: 1,
            deployments: 1,
            allocs: 1,
            nodes: 10,
            namespaces: 1,
            variables: 1,
            services: 1,
        };
        let mut state = Self {
            started: now,
            now,
            index: 10,
            tables,
            jobs: BTreeMap::new(),
            evals: BTreeMap::new(),
            deployments: BTreeMap::new(),
            allocs: BTreeMap::new(),
            nodes: Vec::new(),
            namespaces: BTreeMap::new(),
            runners: BTreeMap::new(),
            outputs: BTreeMap::new(),
            variables: BTreeMap::new(),
            services: BTreeMap::new(),
            events: EventBuffer::new(options.event_buffer),
            acl: options.acl,
            tokens: Vec::new(),
            has_leader: true,
            timers: BTreeMap::new(),
            ids: 0,
        };
        let default = Namespace {
            name: "default".to_owned(),
            description: "Default shared namespace".to_owned(),
            meta: Value::Null,
            create_index: 1,
            modify_index: 1,
        };
        state.namespaces.insert(default.name.clone(), default);
        for node in &options.nodes {
            let node = NodeState {
                id: state.new_id(),
                name: node.name.clone(),
                cpu: node.cpu.into(),
                memory_mb: node.memory_mb.into(),
                disk_mb: node.disk_mb.into(),
                meta: node.meta.clone(),
                up: true,
                create_index: 10,
                modify_index: 10,
                sync_at: None,
            };
            state.nodes.push(node);
        }
        state
    }

    /// A new ID. They look random, because a list is sorted by them and nobody should take that for an order in time,
    /// but are the same in every run.
    pub(crate) fn new_id(&mut self) -> String {
        self.ids += 1;
        let half = |salt: u64| {
            // The finaliser of splitmix64.
            let mut bits = (self.ids ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            bits ^ (bits >> 31)
        };
        let digits = format!("{:016x}{:016x}", half(0), half(1 << 63));
        let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
        format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
    }

    pub(crate) fn job(&self, key: &JobKey) -> Option<&Job> {
        self.jobs.get(key)?.current()
    }

    /// The allocations of the job that is there now, in the order of their IDs.
    pub(crate) fn allocs_of<'a>(&'a self, key: &'a JobKey) -> impl Iterator<Item = &'a Alloc> {
        self.allocs
            .values()
            .filter(move |alloc| alloc.job.spec.view.id == key.1 && alloc.job.spec.view.namespace == key.0)
    }

    pub(crate) fn latest_deployment(&self, key: &JobKey) -> Option<&Deployment> {
        let of_job = self.deployments.values().filter(|deployment| deployment.job == *key);
        of_job.max_by_key(|deployment| deployment.create_index)
    }

    pub(crate) fn node(&self, id: &str) -> Option<&NodeState> {
        self.nodes.iter().find(|node| node.id == id)
    }

    pub(crate) fn at(&mut self, time: Time, timer: Timer) {
        self.ids += 1;
        self.timers.insert((time, self.ids), timer);
    }

    /// When something happens next by itself.
    pub(crate) fn next_timer(&self) -> Option<Time> {
        self.timers.keys().next().map(|(time, _)| *time)
    }

    pub(crate) fn pop_timer(&mut self, until: Time) -> Option<(Time, Timer)> {
        let first = self.timers.first_entry().filter(|entry| entry.key().0 <= until)?;
        let (time, _) = *first.key();
        Some((time, first.remove()))
    }

    /// Begins a write. `kind` is what the event stream calls it.
    pub(crate) fn begin(&mut self, kind: &'static str) -> Write {
        self.index += 1;
        Write { index: self.index, kind, touched: Vec::new(), gone: Vec::new(), jobs: BTreeSet::new() }
    }

    /// Ends a write: statuses and counts that follow from it are brought up to date, and its events are published, in
    /// one line, or in one each.
    pub(crate) fn commit(&mut self, mut write: Write, lines_of_their_own: bool) {
        let jobs = std::mem::take(&mut write.jobs);
        for key in &jobs {
            self.refresh(key, &mut write);
        }
        let parents = jobs.iter().filter_map(|key| Some((key.0.clone(), self.job(key)?.spec.view.parent_id.clone())));
        let parents: BTreeSet<_> = parents.chain(jobs.iter().cloned()).collect();
        for key in &parents {
            self.refresh_parent(key, &mut write);
        }
        let mut events = std::mem::take(&mut write.gone);
        for (topic, key) in &write.touched {
            events.extend(self.event(*topic, key, &write));
        }
        if lines_of_their_own {
            events.into_iter().for_each(|event| self.events.push(write.index, vec![event]));
        } else {
            self.events.push(write.index, events);
        }
    }

    fn event(&self, topic: Topic, key: &str, write: &Write) -> Option<Event> {
        let (key, namespace, filters, payload) = match topic {
            Topic::Job => {
                let (namespace, id) = key.split_once('\n')?;
                let job = self.job(&(namespace.to_owned(), id.to_owned()))?;
                (id, namespace, None, json!({"Job": job.to_json()}))
            }
            Topic::Evaluation => {
                let eval = self.evals.get(key)?;
                let filters = vec![eval.job.1.clone(), eval.deployment.clone().unwrap_or_default()];
                (key, eval.job.0.as_str(), Some(filters), json!({"Evaluation": render::eval(eval)}))
            }
            Topic::Allocation => {
                let alloc = self.allocs.get(key)?;
                let job = &alloc.job.spec.view;
                let filters = vec![job.id.clone(), alloc.deployment.clone().unwrap_or_default()];
                (key, job.namespace.as_str(), Some(filters), json!({"Allocation": render::alloc(alloc, false)}))
            }
            Topic::Deployment => {
                let deployment = self.deployments.get(key)?;
                let filters = vec![deployment.job.1.clone()];
                let payload = json!({"Deployment": render::deployment(deployment)});
                (key, deployment.job.0.as_str(), Some(filters), payload)
            }
        };
        Some(Event::new(topic, write.kind, write.index, key, namespace, filters, payload))
    }

    /// A new version of a job, or the first.
    pub(crate) fn put_job(&mut self, write: &mut Write, job: Job, submission: Option<Submission>) {
        let key = job.key();
        let entry = self.jobs.entry(key.clone()).or_insert_with(|| Entry {
            versions: Vec::new(),
            current: 0,
            submissions: BTreeMap::new(),
            summary: Summary::default(),
            scaling: BTreeMap::new(),
            queued: BTreeMap::new(),
        });
        if let Some(submission) = submission {
            entry.submissions.insert(job.version, submission);
            entry.prune_submissions();
        }
        entry.current = job.version;
        // One that was gone back to by its stable flag may be followed by a version that was there before.
        entry.versions.retain(|other| other.version != job.version);
        entry.versions.insert(0, job);
        entry.versions.sort_by_key(|job| std::cmp::Reverse(job.version));
        entry.prune(None);
        self.tables.jobs = write.index;
        write.touch(Topic::Job, job_event_key(&key));
        write.jobs.insert(key);
    }

    /// Changes the current version of a job in a way that makes no new one.
    pub(crate) fn touch_job(&mut self, write: &mut Write, key: &JobKey, change: impl FnOnce(&mut Job)) {
        if let Some(entry) = self.jobs.get_mut(key) {
            entry.change_version(entry.current, |job| {
                change(job);
                job.modify_index = write.index;
            });
            self.tables.jobs = write.index;
            write.touch(Topic::Job, job_event_key(key));
        }
    }

    /// Removes a job with everything but its evaluations.
    pub(crate) fn purge_job(&mut self, write: &mut Write, key: &JobKey) {
        let Some(entry) = self.jobs.remove(key) else { return };
        if let Some(job) = entry.current() {
            let payload = json!({"Deleted": true, "Job": job.to_json()});
            write.gone.push(Event::new(Topic::Job, write.kind, write.index, &key.1, &key.0, None, payload));
        }
        self.allocs.retain(|_, alloc| alloc.job.key() != *key);
        let allocs = &self.allocs;
        self.outputs.retain(|id, _| allocs.contains_key(id));
        self.deployments.retain(|_, deployment| deployment.job != *key);
        let index = write.index;
        self.tables = Tables { jobs: index, summaries: index, allocs: index, deployments: index, ..self.tables };
    }

    pub(crate) fn put_eval(&mut self, write: &mut Write, mut eval: Eval) {
        if eval.create_index == 0 {
            eval.create_index = write.index;
            eval.create_time = self.now;
        }
        eval.modify_index = write.index;
        eval.modify_time = self.now;
        write.touch(Topic::Evaluation, eval.id.clone());
        write.jobs.insert(eval.job.clone());
        self.tables.evals = write.index;
        if eval.status == EvalStatus::Complete
            && let Some(entry) = self.jobs.get_mut(&eval.job)
        {
            entry.queued.clone_from(&eval.queued);
        }
        self.evals.insert(eval.id.clone(), eval);
    }

    pub(crate) fn put_deployment(&mut self, write: &mut Write, mut deployment: Deployment) {
        if deployment.create_index == 0 {
            deployment.create_index = write.index;
            deployment.create_time = self.now;
        }
        deployment.modify_index = write.index;
        deployment.modify_time = self.now;
        write.touch(Topic::Deployment, deployment.id.clone());
        self.tables.deployments = write.index;
        self.deployments.insert(deployment.id.clone(), deployment);
    }

    pub(crate) fn put_alloc(&mut self, write: &mut Write, mut alloc: Alloc) {
        if alloc.create_index == 0 {
            alloc.create_index = write.index;
            alloc.create_time = self.now;
        }
        alloc.modify_index = write.index;
        alloc.modify_time = self.now;
        write.touch(Topic::Allocation, alloc.id.clone());
        write.jobs.insert(alloc.job.key());
        self.tables.allocs = write.index;
        self.allocs.insert(alloc.id.clone(), alloc);
    }

    /// A new evaluation of a job. It is not yet stored.
    pub(crate) fn new_eval(&mut self, job: &JobKey, trigger: Trigger) -> Eval {
        Eval {
            id: self.new_id(),
            job: job.clone(),
            kind: self.job(job).map_or_else(|| "service".to_owned(), |job| job.spec.view.kind.clone()),
            priority: self.job(job).map_or(50, |job| job.spec.view.priority),
            trigger,
            status: EvalStatus::Pending,
            description: String::new(),
            job_modify_index: None,
            node: None,
            deployment: None,
            wait_until: None,
            next: None,
            previous: None,
            blocked: None,
            failed: BTreeMap::new(),
            class_eligible: None,
            queued: BTreeMap::new(),
            annotations: None,
            snapshot_index: 0,
            create_index: 0,
            modify_index: 0,
            create_time: self.now,
            modify_time: self.now,
        }
    }

    /// Keeps what a client sees of an allocation's job as it was when the allocation was made.
    pub(crate) fn job_for_alloc(&self, key: &JobKey) -> Option<Arc<Job>> {
        self.job(key).map(|job| Arc::new(job.clone()))
    }
}

impl Write {
    fn touch(&mut self, topic: Topic, key: String) {
        if !self.touched.iter().any(|(other, seen)| *other == topic && *seen == key) {
            self.touched.push((topic, key));
        }
    }
}

/// The same ID may stand in several namespaces, and no ID or namespace contains a line break.
fn job_event_key(key: &JobKey) -> String {
    format!("{}\n{}", key.0, key.1)
}
