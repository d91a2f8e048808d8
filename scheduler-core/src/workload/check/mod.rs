//! Checking a workload: every fault at once, each with its path.

mod kind;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

use super::{
    Check, Container, EnvValue, Identities, Kind, Mount, NodeMatch, Probe, Protocol, Role, Volume, VolumeSource,
    Workload, canonical, image,
};
use crate::name::{self, BackendName, Namespace, Target, WorkloadName};
use crate::quantity::{Cpu, Memory, QuantityError};
use crate::time::Seconds;
use crate::version::Revision;

/// The least memory that every backend accepts as a limit: Nomad refuses less than 10 MiB, and container runtimes fail to
/// start with a few MiB.
const LEAST_MEMORY: Memory = Memory::from_mebibytes(10);
/// Kubernetes holds spans in 32 signed bits.
const MOST_SECONDS: u32 = i32::MAX as u32;
/// Kubernetes' limit on all annotations of an object together, less what marks need.
const MOST_ANNOTATION_BYTES: usize = 200 * 1024;

/// One fault of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Fault {
    /// The field (`containers[0].ports[1].port`).
    pub path: String,
    /// What is wrong with it.
    pub problem: String,
}

impl Fault {
    /// A fault of the field at `path`.
    pub fn new(path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { path: path.into(), problem: problem.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.problem)
    }
}

/// Every fault of a workload, in the order of its fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Faults {
    /// The workload, as it names itself.
    pub workload: String,
    /// The faults; never empty.
    pub faults: Vec<Fault>,
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "workload {} has {} fault{}",
            self.workload,
            self.faults.len(),
            if self.faults.len() == 1 { "" } else { "s" }
        )?;
        self.faults.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
    }
}

impl std::error::Error for Faults {}

/// A workload without faults: the only form that operations take.
///
/// It derefs to the [`Workload`] (with its quantities in normal form) and adds typed views. In serde it is a plain
/// workload, checked when it is read.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Workload", into = "Workload")]
pub struct CheckedWorkload {
    workload: Workload,
    target: Target,
    revision: Revision,
    resources: Vec<Resources>,
}

/// What a container asks for and may use, as typed quantities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Resources {
    /// The processor time set aside.
    pub cpu_request: Option<Cpu>,
    /// The most processor time.
    pub cpu_limit: Option<Cpu>,
    /// The memory set aside.
    pub memory_request: Option<Memory>,
    /// The most memory.
    pub memory_limit: Option<Memory>,
}

/// A container of a [`CheckedWorkload`], with its typed quantities.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CheckedContainer<'a> {
    /// The container.
    pub container: &'a Container,
    /// Its quantities.
    pub resources: &'a Resources,
}

impl Deref for CheckedContainer<'_> {
    type Target = Container;
    fn deref(&self) -> &Container {
        self.container
    }
}

impl CheckedWorkload {
    /// Where it lives.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The hash of its canonical form, without replicas.
    #[must_use]
    pub fn revision(&self) -> &Revision {
        &self.revision
    }

    /// Its containers of all roles, in the order of the list.
    pub fn containers(&self) -> impl Iterator<Item = CheckedContainer<'_>> {
        self.workload
            .containers
            .iter()
            .zip(&self.resources)
            .map(|(container, resources)| CheckedContainer { container, resources })
    }

    /// The names of the extensions that are for other backends than this one. Each is worth a warning in a reply.
    pub fn extensions_for_others<'a>(&'a self, backend: &'a BackendName) -> impl Iterator<Item = &'a str> {
        self.workload.extensions.keys().map(String::as_str).filter(move |name| *name != backend.as_str())
    }

    /// The plain workload, for a change and a new check.
    #[must_use]
    pub fn into_inner(self) -> Workload {
        self.workload
    }
}

impl Deref for CheckedWorkload {
    type Target = Workload;
    fn deref(&self) -> &Workload {
        &self.workload
    }
}

impl TryFrom<Workload> for CheckedWorkload {
    type Error = Faults;

    /// As [`Workload::check`], but extensions may name any backend: whoever wrote down an operation may know more of
    /// them than the reader.
    fn try_from(workload: Workload) -> Result<Self, Faults> {
        check(workload, None)
    }
}

impl From<CheckedWorkload> for Workload {
    fn from(checked: CheckedWorkload) -> Self {
        checked.workload
    }
}

pub(super) fn check(workload: Workload, backends: Option<&[BackendName]>) -> Result<CheckedWorkload, Faults> {
    let mut found = Finder::default();
    let resources = found.workload(&workload, backends);
    let name = format!("{}/{}", workload.namespace, workload.name);
    let target = Namespace::new(&workload.namespace).ok().zip(WorkloadName::new(&workload.name).ok());
    match target {
        Some((namespace, name)) if found.faults.is_empty() => {
            let workload = canonical::normalised(workload);
            let revision = canonical::revision(&workload);
            Ok(CheckedWorkload { target: Target { namespace, name }, revision, resources, workload })
        }
        _ => Err(Faults { workload: name, faults: found.faults }),
    }
}

/// What is wrong with the key of an entry of a configuration.
pub(crate) fn check_config_key(key: &str) -> Option<String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let refused = key.is_empty() || key.len() > 253 || !key.chars().all(allowed) || key == "." || key.starts_with("..");
    refused.then(|| {
        format!("{key:?} is no key: 1 to 253 letters, digits, dashes, underscores and dots, not . or a leading ..")
    })
}

#[derive(Default)]
struct Finder {
    faults: Vec<Fault>,
}

impl Finder {
    fn add(&mut self, path: impl Into<String>, problem: impl ToString) {
        self.faults.push(Fault::new(path, problem.to_string()));
    }

    fn ok<T, E: ToString>(&mut self, path: impl Into<String>, result: Result<T, E>) -> Option<T> {
        result.map_err(|problem| self.add(path, problem)).ok()
    }

    fn unique<'a>(&mut self, names: impl Iterator<Item = (String, &'a str)>) {
        let mut seen = BTreeMap::new();
        for (path, name) in names {
            if let Some(first) = seen.get(name) {
                self.add(path, format!("{name:?} is the name at {first} already"));
            } else {
                seen.insert(name, path);
            }
        }
    }

    fn seconds(&mut self, path: &str, span: Seconds, least: u32) {
        if span.get() < least {
            self.add(path, format!("{span} is too short, at least {least} s"));
        }
        if span.get() > MOST_SECONDS {
            self.add(path, format!("{span} is too long, at most {MOST_SECONDS} s"));
        }
    }

    fn workload(&mut self, w: &Workload, backends: Option<&[BackendName]>) -> Vec<Resources> {
        self.ok("namespace", Namespace::new(&w.namespace));
        self.ok("name", WorkloadName::new(&w.name));
        self.kind(w);
        let resources = self.containers(w);
        self.volumes(&w.volumes, &w.kind);
        self.placement(w);
        if let Some(identity) = &w.identity {
            self.ok("identity", name::check_object(identity));
        }
        for (i, secret) in w.pull_secrets.iter().enumerate() {
            self.ok(format!("pull_secrets[{i}]"), name::check_object(secret));
        }
        self.unique(w.pull_secrets.iter().enumerate().map(|(i, n)| (format!("pull_secrets[{i}]"), n.as_str())));
        self.seconds("termination_grace", w.termination_grace, 0);
        self.seconds("progress_deadline", w.progress_deadline, 1);
        self.labels(w);
        for (mark, text) in w.marks.iter() {
            if text.is_empty() {
                self.add(format!("marks.{mark}"), "a mark is not empty; leave it out instead");
            } else if text.len() > 1024 || text.contains(char::is_control) {
                self.add(format!("marks.{mark}"), "a mark has at most 1024 bytes and no control characters");
            }
        }
        for backend in w.extensions.keys() {
            let path = format!("extensions.{backend}");
            if let Some(name) = self.ok(path.clone(), BackendName::new(backend))
                && let Some(known) = backends.filter(|known| !known.contains(&name))
            {
                let known: Vec<&str> = known.iter().map(BackendName::as_str).collect();
                self.add(path, format!("no backend {backend:?} is known here; known are {}", known.join(", ")));
            }
        }
        resources
    }

    fn containers(&mut self, w: &Workload) -> Vec<Resources> {
        let mains = w.containers.iter().filter(|c| c.role == Role::Main).count();
        if mains != 1 {
            self.add("containers", format!("{mains} containers have the role main, exactly one must"));
        }
        let at = |i: usize, field: &str| format!("containers[{i}].{field}");
        self.unique(w.containers.iter().enumerate().map(|(i, c)| (at(i, "name"), c.name.as_str())));
        let resources = w
            .containers
            .iter()
            .enumerate()
            .map(|(i, c)| self.container(&format!("containers[{i}]"), c, &w.volumes))
            .collect();
        // All containers of an instance share one network, so that port names and numbers are the workload's.
        let ports = || {
            w.containers.iter().enumerate().flat_map(|(i, c)| c.ports.iter().enumerate().map(move |(j, p)| (i, j, p)))
        };
        self.unique(ports().map(|(i, j, p)| (at(i, &format!("ports[{j}].name")), p.name.as_str())));
        let mut seen = BTreeSet::new();
        for (i, j, port) in ports() {
            if !seen.insert((port.port, port.protocol)) {
                self.add(
                    at(i, &format!("ports[{j}].port")),
                    format!("{} is taken by another port of the workload", port.port),
                );
            }
        }
        resources
    }

    fn container(&mut self, at: &str, c: &Container, volumes: &[Volume]) -> Resources {
        self.ok(format!("{at}.name"), name::check_part(&c.name));
        if let Some(problem) = image::fault(&c.image) {
            self.add(format!("{at}.image"), problem);
        }
        for (field, words) in [("command", &c.command), ("args", &c.args)] {
            for (i, word) in words.iter().enumerate() {
                self.no_nul(&format!("{at}.{field}[{i}]"), word);
            }
        }
        if c.command.first().is_some_and(String::is_empty) {
            self.add(format!("{at}.command[0]"), "the program's name is empty");
        }
        self.env(at, c);
        for (i, port) in c.ports.iter().enumerate() {
            self.ok(format!("{at}.ports[{i}].name"), name::check_port(&port.name));
            if !(1..=65_535).contains(&port.port) {
                self.add(format!("{at}.ports[{i}].port"), format!("{} is no port, they go from 1 to 65535", port.port));
            }
        }
        if c.role == Role::Init && !c.ports.is_empty() {
            self.add(format!("{at}.ports"), "an init container has ended before anybody could reach its ports");
        }
        let resources = self.resources(at, c);
        self.probes(at, c);
        self.mounts(at, &c.mounts, volumes);
        resources
    }

    fn no_nul(&mut self, path: &str, text: &str) {
        if text.contains('\0') {
            self.add(path, "a NUL character cannot be handed to a process");
        }
    }

    fn env(&mut self, at: &str, c: &Container) {
        for (i, var) in c.env.iter().enumerate() {
            let path = format!("{at}.env[{i}]");
            self.ok(format!("{path}.name"), name::check_env(&var.name));
            match &var.value {
                EnvValue::Text(text) => self.no_nul(&format!("{path}.value.text"), text),
                EnvValue::Config(entry) => {
                    self.config(&format!("{path}.value.config"), &entry.name, &entry.version);
                    self.config_key(&format!("{path}.value.config.key"), &entry.key);
                }
                EnvValue::Field(_) => {}
            }
        }
        self.unique(c.env.iter().enumerate().map(|(i, v)| (format!("{at}.env[{i}].name"), v.name.as_str())));
    }

    fn config(&mut self, path: &str, name: &str, version: &str) {
        self.ok(format!("{path}.name"), name::check_part(name));
        self.ok(format!("{path}.version"), name::check_part(version));
    }

    fn config_key(&mut self, path: &str, key: &str) {
        if let Some(problem) = check_config_key(key) {
            self.add(path, problem);
        }
    }

    fn resources(&mut self, at: &str, c: &Container) -> Resources {
        fn parse<Q: std::str::FromStr<Err = QuantityError>>(
            found: &mut Finder,
            path: String,
            text: Option<&String>,
        ) -> Option<Q> {
            text.and_then(|text| found.ok(path, text.parse()))
        }
        let (cpu, memory) = (&c.resources.cpu, &c.resources.memory);
        let path = |field: &str| format!("{at}.resources.{field}");
        let cpu_limit = parse::<Cpu>(self, path("cpu.limit"), cpu.limit.as_ref());
        let memory_limit = parse::<Memory>(self, path("memory.limit"), memory.limit.as_ref());
        let found = Resources {
            cpu_request: parse(self, path("cpu.request"), cpu.request.as_ref()).or(cpu_limit),
            cpu_limit,
            memory_request: parse(self, path("memory.request"), memory.request.as_ref()).or(memory_limit),
            memory_limit,
        };
        if let (Some(request), Some(limit)) = (found.cpu_request, cpu_limit)
            && request > limit
        {
            self.add(path("cpu.request"), format!("{request} is above the limit of {limit}"));
        }
        if let (Some(request), Some(limit)) = (found.memory_request, memory_limit)
            && request > limit
        {
            self.add(path("memory.request"), format!("{request} is above the limit of {limit}"));
        }
        if let Some(limit) = memory_limit.filter(|limit| *limit < LEAST_MEMORY) {
            self.add(
                path("memory.limit"),
                format!("{limit} is too little to start a container in, at least {LEAST_MEMORY}"),
            );
        }
        for (field, value) in [
            ("cpu.request", found.cpu_request.map(Cpu::millis)),
            ("memory.request", found.memory_request.map(Memory::bytes)),
        ] {
            if value.is_some_and(|value| value > i64::MAX as u64) {
                self.add(path(field), "is too large");
            }
        }
        found
    }

    fn probes(&mut self, at: &str, c: &Container) {
        for (kind, probe) in c.probes.iter() {
            let path = format!("{at}.probes.{kind}");
            if c.role == Role::Init {
                self.add(path.clone(), "an init container runs to its end and is not probed");
            }
            self.probe(&path, probe, c);
        }
    }

    fn probe(&mut self, path: &str, probe: &Probe, c: &Container) {
        if let Some((kind, name)) = probe.check.port() {
            let path = format!("{path}.check.{kind}.port");
            match c.ports.iter().find(|port| port.name == name) {
                None => {
                    let known = c.ports.iter().map(|port| port.name.as_str()).collect::<Vec<_>>().join(", ");
                    let known = if known.is_empty() { "no ports".to_owned() } else { known };
                    self.add(path, format!("no port {name:?} in this container, which has {known}"));
                }
                Some(port) if port.protocol != Protocol::Tcp => {
                    self.add(path, format!("port {name:?} is not a TCP port"))
                }
                Some(_) => {}
            }
        }
        match &probe.check {
            Check::Http(check) | Check::Https(check) => {
                let kind = probe.check.port().map_or("http", |(kind, _)| kind);
                if !check.path.starts_with('/') || check.path.contains(|c: char| c.is_whitespace() || c.is_control()) {
                    self.add(
                        format!("{path}.check.{kind}.path"),
                        format!("{:?} is no path: it starts with / and has no blanks", check.path),
                    );
                }
            }
            Check::Exec(check) if check.command.first().is_none_or(String::is_empty) => {
                self.add(format!("{path}.check.exec.command"), "no program is named");
            }
            Check::Exec(check) => {
                for (i, word) in check.command.iter().enumerate() {
                    self.no_nul(&format!("{path}.check.exec.command[{i}]"), word);
                }
            }
            Check::Grpc(check) if check.service.as_deref() == Some("") => {
                self.add(
                    format!("{path}.check.grpc.service"),
                    "is empty; leave it out to ask for the server as a whole",
                );
            }
            Check::Tcp(_) | Check::Grpc(_) => {}
        }
        self.seconds(&format!("{path}.initial_delay"), probe.initial_delay, 0);
        self.seconds(&format!("{path}.period"), probe.period, 1);
        self.seconds(&format!("{path}.timeout"), probe.timeout, 1);
        if probe.timeout > probe.period {
            self.add(
                format!("{path}.timeout"),
                format!("{} is longer than the period of {}", probe.timeout, probe.period),
            );
        }
        if !(1..=MOST_SECONDS).contains(&probe.failures) {
            self.add(format!("{path}.failures"), "must be at least 1, and fit in 31 bits");
        }
    }

    fn mounts(&mut self, at: &str, mounts: &[Mount], volumes: &[Volume]) {
        for (i, mount) in mounts.iter().enumerate() {
            if !volumes.iter().any(|volume| volume.name == mount.volume) {
                self.add(format!("{at}.mounts[{i}].volume"), format!("the workload has no volume {:?}", mount.volume));
            }
            self.path(&format!("{at}.mounts[{i}].path"), &mount.path);
        }
        self.unique(
            mounts.iter().enumerate().map(|(i, m)| (format!("{at}.mounts[{i}].path"), m.path.trim_end_matches('/'))),
        );
    }

    fn path(&mut self, path: &str, text: &str) {
        if !text.starts_with('/') || text.contains([':', '\0']) || text.split('/').any(|part| part == "..") {
            self.add(path, format!("{text:?} is not an absolute path without .. and :"));
        }
    }

    fn volumes(&mut self, volumes: &[Volume], kind: &Kind) {
        for (i, volume) in volumes.iter().enumerate() {
            let at = format!("volumes[{i}]");
            self.ok(format!("{at}.name"), name::check_part(&volume.name));
            match &volume.source {
                VolumeSource::Empty(empty) => {
                    if let Some(text) = &empty.size_limit {
                        self.ok(format!("{at}.source.empty.size_limit"), text.parse::<Memory>());
                    }
                }
                VolumeSource::Host(path) => self.path(&format!("{at}.source.host"), path),
                VolumeSource::Claim(claim) => {
                    self.ok(format!("{at}.source.claim"), name::check_object(claim));
                }
                VolumeSource::Config(config) => {
                    self.config(&format!("{at}.source.config"), &config.name, &config.version);
                }
                VolumeSource::PerInstance(own) => {
                    self.ok(format!("{at}.source.per_instance.size"), own.size.parse::<Memory>());
                    if let Some(class) = &own.class {
                        self.ok(format!("{at}.source.per_instance.class"), name::check_object(class));
                    }
                    if !matches!(kind, Kind::Service(service) if service.identities == Identities::Stable) {
                        self.add(
                            format!("{at}.source.per_instance"),
                            "only a service with identities: stable can have volumes of each instance",
                        );
                    }
                }
            }
        }
        self.unique(volumes.iter().enumerate().map(|(i, v)| (format!("volumes[{i}].name"), v.name.as_str())));
    }

    fn placement(&mut self, w: &Workload) {
        for (i, rule) in w.placement.require.iter().enumerate() {
            let at = format!("placement.require[{i}]");
            self.node_label(&format!("{at}.label"), &rule.label);
            let (kind, values) = match &rule.is {
                NodeMatch::In(values) => ("in", values.as_slice()),
                NodeMatch::NotIn(values) => ("not_in", values.as_slice()),
                NodeMatch::Exists | NodeMatch::Absent => continue,
            };
            if values.is_empty() {
                self.add(format!("{at}.is.{kind}"), "names no value");
            }
            for (j, value) in values.iter().enumerate() {
                self.ok(format!("{at}.is.{kind}[{j}]"), name::check_label_value(value));
            }
        }
        if let Some(label) = &w.placement.spread {
            self.node_label("placement.spread", label);
        }
    }

    /// Labels of nodes are read, not written, so that the platform's own prefixes are fine.
    fn node_label(&mut self, path: &str, key: &str) {
        match name::check_label_key(key) {
            Err(e) if !matches!(e.problem, name::NameProblem::Reserved(_)) => self.add(path, e),
            _ => {}
        }
    }

    fn labels(&mut self, w: &Workload) {
        for (key, value) in &w.labels {
            let path = format!("labels[{key:?}]");
            self.ok(path.clone(), name::check_label_key(key));
            self.ok(path, name::check_label_value(value));
        }
        for key in w.annotations.keys() {
            self.ok(format!("annotations[{key:?}]"), name::check_label_key(key));
        }
        let bytes: usize = w.annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
        if bytes > MOST_ANNOTATION_BYTES {
            self.add("annotations", format!("{bytes} bytes are too many, at most {MOST_ANNOTATION_BYTES}"));
        }
    }
}
