//! Reads as values: what is asked, and what the answer is. Building one does no I/O.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::DeserializeOwned;

use crate::error::{Operation, Verb};
use crate::model::{
    AgentSelf, Allocation, CheckResult, Deployment, Evaluation, HostVolume, Job, JobStub, JobSummary, Namespace,
    NamespaceServices, Node, ScaleStatus, ServiceRegistration, Submission, Variable, VariableStub,
};
use crate::target::{Target, check_job, check_namespace, check_segment, check_uuid, check_variable};

/// A read whose answer is a `T`. Give it to [`Client::query`](crate::Client::query) to have the answer once, or to
/// [`Client::follow`](crate::Client::follow) to have every new one.
///
/// An argument that cannot be a name or an ID is reported when the query is sent, and nothing is sent then.
///
/// Absence is `None`, and only if the server says that this very object is absent. **Lists are not so exact**: of a job
/// that does not exist, and of one in a namespace that does not exist, they are empty.
#[must_use]
pub struct Query<T> {
    pub(crate) operation: Operation,
    pub(crate) target: Result<Target, String>,
    pub(crate) decode: fn(&[u8]) -> Result<T, serde_json::Error>,
    pub(crate) absent: Option<fn() -> T>,
}

/// What a list of jobs is limited to, and what it shows.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct ListOptions {
    prefix: Option<String>,
    filter: Option<String>,
    parent: Option<String>,
    meta: bool,
    pub(crate) page_size: Option<u32>,
}

impl ListOptions {
    /// Everything, without marks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only jobs whose ID begins so.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// Only jobs that this expression holds for, such as `Meta["owner"] == "me" and Stop == false`. It is about the stored
    /// job, so marks can be asked for without being shown.
    pub fn filter(mut self, expression: impl Into<String>) -> Self {
        self.filter = Some(expression.into());
        self
    }

    /// Only the jobs that this one made, by the clock or by dispatch. They outlive it.
    pub fn children_of(mut self, parent: impl Into<String>) -> Self {
        self.parent = Some(parent.into());
        self
    }

    /// Shows the marks of each job.
    pub fn meta(mut self) -> Self {
        self.meta = true;
        self
    }

    /// Jobs per request of [`Client::list_jobs`](crate::Client::list_jobs), 500 unless said otherwise.
    pub fn page_size(mut self, jobs: u32) -> Self {
        self.page_size = Some(jobs);
        self
    }

    fn apply(&self, mut target: Target) -> Target {
        // The prefix lets the server look at few jobs; it is the filter that tells children from others (`a/b` and `a/bc`).
        let children = self.parent.as_ref().map(|parent| format!("{parent}/"));
        if let Some(prefix) = self.prefix.as_ref().or(children.as_ref()) {
            target = target.param("prefix", prefix);
        }
        let parent = self.parent.as_ref().map(|parent| format!("ParentID == {}", quoted(parent)));
        let filter = match (parent, &self.filter) {
            (Some(parent), Some(filter)) => Some(format!("{parent} and ({filter})")),
            (parent, filter) => parent.or_else(|| filter.clone()),
        };
        if let Some(filter) = filter {
            target = target.param("filter", filter);
        }
        if self.meta { target.param("meta", "true") } else { target }
    }
}

/// A text as a filter has it. Its grammar ends the text at the next quote, whatever stands before, and reads escapes then.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' | '\0'..='\x1f' => out.push_str(&format!("\\u{:04x}", u32::from(character))),
            _ => out.push(character),
        }
    }
    out.push('"');
    out
}

impl Query<Option<Job>> {
    /// A job. `GET /v1/job/:id`.
    pub fn job(namespace: &str, id: &str) -> Self {
        one(of_job(Verb::Read, "job", namespace, id, Target::new(["v1", "job", id])))
    }
}

impl Query<Option<Vec<Job>>> {
    /// The versions of a job that the server still has, newest first: 6 unless it is configured otherwise, and those with
    /// a tag. `GET /v1/job/:id/versions`.
    ///
    /// Their `Status` is not to be trusted (hashicorp/nomad#24957).
    pub fn job_versions(namespace: &str, id: &str) -> Self {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Versions {
            versions: Option<Vec<Job>>,
        }
        let target = Target::new(["v1", "job", id, "versions"]);
        let (operation, target) = of_job(Verb::List, "versions of job", namespace, id, target);
        let decode = |body: &[u8]| serde_json::from_slice::<Versions>(body).map(|answer| answer.versions);
        Self { operation, target, decode, absent: Some(|| None) }
    }
}

impl Query<Option<Submission>> {
    /// What a version of a job was made from, if it was said and is still kept. `GET /v1/job/:id/submission`.
    pub fn submission(namespace: &str, id: &str, version: u64) -> Self {
        let target = Target::new(["v1", "job", id, "submission"]).param("version", version.to_string());
        one(of_job(Verb::Read, "submission of job", namespace, id, target))
    }
}

impl Query<Vec<Evaluation>> {
    /// The evaluations of a job, sorted by ID and not by time. Those of an earlier job of the same ID are among them, also
    /// after it was purged: compare `create_index`. `GET /v1/job/:id/evaluations`.
    pub fn job_evaluations(namespace: &str, id: &str) -> Self {
        let target = Target::new(["v1", "job", id, "evaluations"]);
        many(of_job(Verb::List, "evaluations of job", namespace, id, target))
    }
}

impl Query<Vec<Deployment>> {
    /// The deployments of a job, in no order. `GET /v1/job/:id/deployments`.
    pub fn job_deployments(namespace: &str, id: &str) -> Self {
        let target = Target::new(["v1", "job", id, "deployments"]);
        many(of_job(Verb::List, "deployments of job", namespace, id, target))
    }

    /// All deployments of a namespace, or of all (`*`). `GET /v1/deployments`.
    pub fn deployments(namespace: &str) -> Self {
        many(in_namespace("deployments", namespace, Target::new(["v1", "deployments"])))
    }
}

impl Query<Vec<Allocation>> {
    /// The allocations of a job of its present `CreateIndex`, sorted by ID: also those that ended, until the server
    /// collects them. `GET /v1/job/:id/allocations`.
    pub fn job_allocations(namespace: &str, id: &str) -> Self {
        let target = Target::new(["v1", "job", id, "allocations"]);
        many(of_job(Verb::List, "allocations of job", namespace, id, target))
    }
}

impl Query<Option<Evaluation>> {
    /// An evaluation. `GET /v1/evaluation/:id`.
    pub fn evaluation(namespace: &str, id: &str) -> Self {
        one(by_uuid("evaluation", namespace, id))
    }
}

impl Query<Option<Allocation>> {
    /// An allocation with its job and all that is known. `GET /v1/allocation/:id`.
    ///
    /// Without the right to read it, the server says "unknown"; that is
    /// [`ErrorKind::Forbidden`](crate::ErrorKind::Forbidden) and not `None`.
    pub fn allocation(namespace: &str, id: &str) -> Self {
        one(by_uuid("allocation", namespace, id))
    }
}

impl Query<Option<Deployment>> {
    /// A deployment. `GET /v1/deployment/:id`.
    pub fn deployment(namespace: &str, id: &str) -> Self {
        one(by_uuid("deployment", namespace, id))
    }
}

impl Query<Vec<JobStub>> {
    /// All jobs of a namespace, or of all (`*`), in one answer; see [`Client::list_jobs`](crate::Client::list_jobs) for
    /// many. Sorted by namespace and ID. `GET /v1/jobs`.
    ///
    /// Followed, it wakes on registrations, stops, and whatever changes a summary, of any job of the region. It does not
    /// wake on the health of a deployment or on a restart that is over quickly.
    pub fn jobs(namespace: &str, options: &ListOptions) -> Self {
        Self::jobs_page(namespace, options, None, None)
    }

    pub(crate) fn jobs_page(namespace: &str, options: &ListOptions, size: Option<u32>, token: Option<&str>) -> Self {
        let mut target = options.apply(Target::new(["v1", "jobs"]));
        if let Some(size) = size {
            target = target.param("per_page", size.to_string());
        }
        if let Some(token) = token {
            target = target.param("next_token", token);
        }
        many(in_namespace("jobs", namespace, target))
    }
}

impl Query<Option<JobSummary>> {
    /// How the instances of a job do, and the jobs that it made. `GET /v1/job/:id/summary`.
    pub fn job_summary(namespace: &str, id: &str) -> Self {
        one(of_job(Verb::Read, "summary of job", namespace, id, Target::new(["v1", "job", id, "summary"])))
    }
}

impl Query<Option<ScaleStatus>> {
    /// The counts of a job's groups, and what was done to them. `GET /v1/job/:id/scale`.
    pub fn scale_status(namespace: &str, id: &str) -> Self {
        one(of_job(Verb::Read, "scale of job", namespace, id, Target::new(["v1", "job", id, "scale"])))
    }
}

impl Query<BTreeMap<String, CheckResult>> {
    /// What Nomad's own checks of an allocation found last, by the check's ID. Its node answers, by way of the agent, and
    /// nobody keeps it: there is nothing to follow, and a node that is away is
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable). `GET /v1/client/allocation/:id/checks`.
    pub fn allocation_checks(namespace: &str, id: &str) -> Self {
        let operation = Operation::new(Verb::List, "checks of allocation", Some(namespace), Some(id));
        let checked = check_namespace(namespace).and_then(|()| check_uuid(id));
        let target = Target::new(["v1", "client", "allocation", id, "checks"]).param("namespace", namespace);
        let decode = |body: &[u8]| serde_json::from_slice::<Option<_>>(body).map(Option::unwrap_or_default);
        Self { operation, target: checked.map(|()| target), decode, absent: None }
    }
}

impl Query<Vec<NamespaceServices>> {
    /// The services of Nomad's own registry that have registrations, in a namespace or in all (`*`). `GET /v1/services`.
    pub fn services(namespace: &str) -> Self {
        many(in_namespace("services", namespace, Target::new(["v1", "services"])))
    }
}

impl Query<Vec<ServiceRegistration>> {
    /// Where the instances of a service are: those that are healthy, those that are not, and those left behind. Empty for a
    /// service that nobody knows. `GET /v1/service/:name`.
    ///
    /// An address is of use when its allocation still runs and no check of it fails, see
    /// [`allocation_checks`](Query::allocation_checks).
    pub fn service(namespace: &str, name: &str) -> Self {
        let operation = Operation::new(Verb::List, "registrations of service", Some(namespace), Some(name));
        let checked = check_namespace(namespace).and_then(|()| check_segment("service", name));
        let target = Target::new(["v1", "service", name]).param("namespace", namespace);
        many((operation, checked.map(|()| target)))
    }

    /// The same for all services of a job; empty too for one that does not exist. `GET /v1/job/:id/services`.
    pub fn job_services(namespace: &str, id: &str) -> Self {
        let target = Target::new(["v1", "job", id, "services"]);
        let query = many(of_job(Verb::List, "services of job", namespace, id, target));
        Self { absent: Some(Vec::new), ..query }
    }
}

impl Query<Option<Variable>> {
    /// A variable with its values. `GET /v1/var/:path`.
    pub fn variable(namespace: &str, path: &str) -> Self {
        let operation = Operation::new(Verb::Read, "variable", Some(namespace), Some(path));
        let checked = check_namespace(namespace).and_then(|()| check_variable(path));
        one((operation, checked.map(|()| Target::new(["v1", "var", path]).param("namespace", namespace))))
    }
}

impl Query<Vec<VariableStub>> {
    /// The variables of a namespace, or of all (`*`), whose path begins so, without their values. `GET /v1/vars`.
    pub fn variables(namespace: &str, prefix: &str) -> Self {
        many(in_namespace("variables", namespace, Target::new(["v1", "vars"]).param("prefix", prefix)))
    }
}

impl Query<Vec<HostVolume>> {
    /// The host volumes of a namespace, or of all (`*`), that the servers made (from 1.10 on). `GET /v1/volumes`.
    pub fn host_volumes(namespace: &str) -> Self {
        many(in_namespace("host volumes", namespace, Target::new(["v1", "volumes"]).param("type", "host")))
    }
}

impl Query<Vec<Node>> {
    /// The nodes. Followed, it wakes on every change of an allocation. `GET /v1/nodes`.
    pub fn nodes() -> Self {
        let operation = Operation::new(Verb::List, "nodes", None, None);
        many((operation, Ok(Target::new(["v1", "nodes"]))))
    }
}

impl Query<Option<Node>> {
    /// A node with all that is known of it. `GET /v1/node/:id`.
    pub fn node(id: &str) -> Self {
        let operation = Operation::new(Verb::Read, "node", None, Some(id));
        one((operation, check_uuid(id).map(|()| Target::new(["v1", "node", id]))))
    }
}

impl Query<Vec<Namespace>> {
    /// The namespaces that the token may use. `GET /v1/namespaces`.
    pub fn namespaces() -> Self {
        let operation = Operation::new(Verb::List, "namespaces", None, None);
        many((operation, Ok(Target::new(["v1", "namespaces"]))))
    }
}

impl Query<Option<Namespace>> {
    /// A namespace. `GET /v1/namespace/:name`.
    pub fn namespace(name: &str) -> Self {
        let operation = Operation::new(Verb::Read, "namespace", None, Some(name));
        let target = check_namespace(name).map(|()| Target::new(["v1", "namespace", name]));
        one((operation, target))
    }
}

impl Query<AgentSelf> {
    /// What the agent says of itself. Needs `agent:read`. `GET /v1/agent/self`.
    pub fn agent() -> Self {
        let operation = Operation::new(Verb::Read, "agent", None, None);
        let target = Ok(Target::new(["v1", "agent", "self"]));
        Self { operation, target, decode: |body| serde_json::from_slice(body), absent: None }
    }
}

impl Query<String> {
    /// The leader's address. Anybody may ask, so it is the cheapest way to see that the cluster works; without a leader it
    /// is [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) after some 5 s. `GET /v1/status/leader`.
    pub fn leader() -> Self {
        let operation = Operation::new(Verb::Read, "leader", None, None);
        let target = Ok(Target::new(["v1", "status", "leader"]));
        Self { operation, target, decode: |body| serde_json::from_slice(body), absent: None }
    }
}

/// What is read, and where.
type Place = (Operation, Result<Target, String>);

fn of_job(verb: Verb, resource: &str, namespace: &str, id: &str, target: Target) -> Place {
    let operation = Operation::new(verb, resource, Some(namespace), Some(id));
    let checked = check_namespace(namespace).and_then(|()| check_job(id));
    (operation, checked.map(|()| target.param("namespace", namespace)))
}

fn by_uuid(resource: &str, namespace: &str, id: &str) -> Place {
    let operation = Operation::new(Verb::Read, resource, Some(namespace), Some(id));
    let checked = check_namespace(namespace).and_then(|()| check_uuid(id));
    // The right to read is looked up in the namespace that is asked for, not in that of the object.
    (operation, checked.map(|()| Target::new(["v1", resource, id]).param("namespace", namespace)))
}

fn in_namespace(resource: &str, namespace: &str, target: Target) -> Place {
    let operation = Operation::new(Verb::List, resource, Some(namespace), None);
    let checked = if namespace == "*" { Ok(()) } else { check_namespace(namespace) };
    (operation, checked.map(|()| target.param("namespace", namespace)))
}

/// An object that may be absent.
fn one<T: DeserializeOwned>((operation, target): Place) -> Query<Option<T>> {
    Query { operation, target, decode: |body| serde_json::from_slice(body), absent: Some(|| None) }
}

/// A list. The server says `null` for some empty ones.
fn many<T: DeserializeOwned>((operation, target): Place) -> Query<Vec<T>> {
    let decode = |body: &[u8]| serde_json::from_slice::<Option<Vec<T>>>(body).map(Option::unwrap_or_default);
    Query { operation, target, decode, absent: None }
}

impl<T> Clone for Query<T> {
    fn clone(&self) -> Self {
        Self {
            operation: self.operation.clone(),
            target: self.target.clone(),
            decode: self.decode,
            absent: self.absent,
        }
    }
}

impl<T> fmt::Debug for Query<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Query({})", self.operation)
    }
}
