//! What is to be done, without doing it. Pure.

use std::collections::BTreeSet;

use scheduler_core::hooks::{App, Domain, Release};
use scheduler_core::{
    Capabilities, CheckedWorkload, ConfigRef, Expose, Fault, Feature, Kind, KindName, Launch, NameError, Observation,
    Protocol, PutConfig, Replicas, Route, Run, RunKey, Support, Target, Workload,
};

use crate::desired::{self, CONFIG_NAME, Naming};

/// The workload that is a process now: the one that is wanted, or, until that is there, the newest that is there.
pub(super) fn current<'a>(process: &str, wanted: Option<&Target>, seen: &'a [Observation]) -> Option<&'a Observation> {
    let are = || seen.iter().filter(|seen| !seen.deleting && runs_on(seen) && desired::process_of(seen) == process);
    let version = |seen: &&Observation| seen.marks.version.as_ref().and_then(|text| text.parse::<u64>().ok());
    are().find(|seen| Some(&seen.target) == wanted).or_else(|| are().max_by_key(version))
}

/// Whether it is something that runs until it is deleted, and no run that ends by itself.
pub(super) fn runs_on(seen: &Observation) -> bool {
    seen.kind != KindName::Job && seen.run_of.is_none()
}

/// All routes that an app is to have.
pub(super) fn routes(app: &App) -> Vec<Route> {
    let port = app.front.as_ref().map(|front| &front.port);
    port.map_or_else(Vec::new, |port| app.domains.iter().map(|domain| Route::new(&domain.host, port)).collect())
}

/// How many instances the model wants of a workload, and whether it holds that number. `None` for what has no number.
pub(super) fn count_of(workload: &Workload) -> Option<(u32, bool)> {
    match &workload.kind {
        Kind::Service(service) => match service.replicas {
            Replicas::Exactly(count) => Some((count, true)),
            Replicas::Keep(initial) => Some((initial, false)),
            _ => None,
        },
        _ => None,
    }
}

/// The same workload with a number of instances that only its first launch takes: the rest is a scale's affair.
pub(super) fn keeping_count(mut workload: Workload) -> Workload {
    if let (Some((count, _)), Kind::Service(service)) = (count_of(&workload), &mut workload.kind) {
        service.replicas = Replicas::Keep(count);
    }
    workload
}

/// The processes that can have routes.
pub(super) fn with_ports(release: &Release) -> impl Iterator<Item = &Workload> {
    let tcp = |workload: &&Workload| {
        let mut ports = workload.containers.iter().flat_map(|container| &container.ports);
        ports.any(|port| port.protocol == Protocol::Tcp)
    };
    release.processes.iter().filter(tcp)
}

/// What speaks against a release.
pub(super) fn release_faults(app: &App, naming: Naming, can: &Capabilities) -> Vec<Fault> {
    let Some(release) = &app.release else { return vec![Fault::new("release", "there is none")] };
    let mut faults = Vec::new();
    let mut names = BTreeSet::new();
    for (at, process) in release.processes.iter().enumerate() {
        let path = format!("processes[{at}]");
        if !names.insert(&process.name) {
            faults.push(Fault::new(format!("{path}.name"), format!("another process is called {:?}", process.name)));
        }
        if process.kind.name() == KindName::Job {
            // It would be found missing after its end, and run again.
            faults.push(Fault::new(format!("{path}.kind"), "a job ends; it is run before the release, or on request"));
        }
        let target = naming.target(app, release, process);
        let wanted = target.map(|target| desired::process(app, release, process, &target, config_to_be(app).as_ref()));
        faults.extend(checked(&path, wanted, |workload| Launch::new(workload).features(), can));
    }
    for (at, job) in release.before.iter().enumerate() {
        let path = format!("before[{at}]");
        if job.kind.name() != KindName::Job {
            faults.push(Fault::new(format!("{path}.kind"), "only a job ends, which is what is waited for"));
        }
        let wanted = Ok(desired::job(app, Some(release), job, config_to_be(app).as_ref()));
        // Any key will do: it is no part of what is needed.
        let features = |workload| RunKey::new("any").map(|key| Run::one_off(workload, key).features());
        faults.extend(checked(&path, wanted, |workload| features(workload).unwrap_or_default(), can));
    }
    faults.extend(config_faults(app, release, can));
    faults.extend(front_fault(app, release));
    faults.extend(quota_fault(app, release));
    faults
}

/// A reference of the form that the configuration's will have.
fn config_to_be(app: &App) -> Option<ConfigRef> {
    let config = app.release.as_ref().is_some_and(|release| !release.config.is_empty());
    config.then(|| ConfigRef::new(CONFIG_NAME, "0123456789abcdef"))
}

/// The faults of one workload, with the features that it needs and the backend has not.
fn checked(
    path: &str,
    workload: Result<Workload, NameError>,
    features: impl FnOnce(CheckedWorkload) -> BTreeSet<Feature>,
    can: &Capabilities,
) -> Vec<Fault> {
    let checked = match workload.map(Workload::check) {
        Err(error) => return vec![Fault::new(format!("{path}.name"), error.to_string())],
        Ok(Err(faults)) => {
            let at = |fault: &Fault| Fault::new(format!("{path}.{}", fault.path), &*fault.problem);
            return faults.faults.iter().map(at).collect();
        }
        Ok(Ok(checked)) => checked,
    };
    let lack = |feature| match can.support(feature) {
        Support::Yes => None,
        Support::No(reason) => {
            Some(Fault::new(path, format!("needs {feature}, which {} has not: {reason}", can.backend())))
        }
    };
    features(checked).into_iter().filter_map(lack).collect()
}

fn config_faults(app: &App, release: &Release, can: &Capabilities) -> Vec<Fault> {
    let Some(process) = release.processes.first().filter(|_| !release.config.is_empty()) else { return Vec::new() };
    let Ok(target) = Naming::Process.target(app, release, process) else { return Vec::new() };
    let op = release.config.keys().fold(PutConfig::new(target, CONFIG_NAME), |op, key| op.entry(key, "any"));
    let mut faults = match op.check() {
        Ok(()) => Vec::new(),
        Err(error) => error.causes().iter().map(|f| Fault::new(format!("config.{}", f.path), &*f.problem)).collect(),
    };
    if let Support::No(reason) = can.support(Feature::PutConfig) {
        faults.push(Fault::new("config", format!("{} stores none: {reason}", can.backend())));
    }
    faults
}

fn front_fault(app: &App, release: &Release) -> Option<Fault> {
    let front = app.front.as_ref()?;
    let fault = |problem: String| Some(Fault::new("front", problem));
    let process = with_ports(release).find(|process| process.name == front.process.as_str());
    let Some(process) = process else {
        return fault(format!("the release has no process {} with a TCP port", front.process));
    };
    let mut ports = process.containers.iter().flat_map(|container| &container.ports);
    if ports.any(|port| port.name == front.port && port.protocol == Protocol::Tcp) {
        return None;
    }
    fault(format!("the process {} has no TCP port {:?}", front.process, front.port))
}

/// What speaks against a formation.
pub(super) fn formation_faults(app: &App) -> Vec<Fault> {
    // Before the first release anything may be said about processes to come.
    let Some(release) = &app.release else { return Vec::new() };
    let mut faults = Vec::new();
    for name in app.formation.keys() {
        let path = format!("formation[{:?}]", name.as_str());
        match release.processes.iter().find(|process| process.name == name.as_str()) {
            None => faults.push(Fault::new(path, format!("release {} has no such process", release.version))),
            Some(process) if count_of(process).is_none() => {
                faults.push(Fault::new(path, format!("a {} has no number of instances", process.kind.name())));
            }
            Some(_) => {}
        }
    }
    faults.extend(quota_fault(app, release));
    faults
}

fn quota_fault(app: &App, release: &Release) -> Option<Fault> {
    let most = app.policy.quota.instances?;
    let count = |process: &Workload| {
        let said = app.formation.iter().find(|(name, _)| name.as_str() == process.name);
        said.map(|(_, count)| *count).or(count_of(process).map(|(count, _)| count)).unwrap_or_default()
    };
    let sum = release.processes.iter().map(count).fold(0_u32, u32::saturating_add);
    (sum > most).then(|| Fault::new("formation", format!("{sum} instances are more than the quota of {most}")))
}

/// What speaks against a domain, as far as can be known without asking who has its route.
pub(super) fn domain_faults(app: &App, domain: &Domain, can: &Capabilities) -> Vec<Fault> {
    let mut faults = Vec::new();
    if app.domains.iter().filter(|other| other.host == domain.host).count() > 1 {
        faults.push(Fault::new("host", format!("{} has {} already", app.name, domain.host)));
    }
    // The rule for hosts is the operation's; its target and port do not matter here.
    if let Ok(target) = Target::new(app.namespace.as_str(), app.name.as_str()) {
        let op = Expose::new(target, [Route::new(&domain.host, "http")]);
        if let Err(error) = op.check() {
            faults.extend(error.causes().iter().map(|cause| Fault::new("host", &*cause.problem)));
        }
    }
    if let Support::No(reason) = can.support(Feature::Expose) {
        faults.push(Fault::new("host", format!("{} has no routes: {reason}", can.backend())));
    }
    faults
}
