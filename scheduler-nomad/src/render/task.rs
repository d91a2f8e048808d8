//! The tasks of a job, and what they share: the network, services and volumes.

use scheduler_core::{
    Check, CheckedContainer, CheckedWorkload, EnvValue, Error, Feature, Probe, Protocol, Role, RuntimeField,
    VolumeSource,
};
use serde_json::{Map, Value, json};

use super::driver::{Driver, fault};
use super::{RenderContext, config, lacking, nanos, path_of, text, unknown};

/// The least that a task may ask for, in MiB.
const LEAST_MEMORY: u64 = 10;
/// A service's name is a DNS label.
const LONGEST_SERVICE: usize = 63;

/// The task of a container.
pub(super) fn task(
    workload: &CheckedWorkload,
    container: CheckedContainer<'_>,
    driver: &Driver,
    context: &RenderContext,
) -> Result<Value, Error> {
    if container.name == "alloc" {
        // It is the folder that all tasks share.
        return Err(fault(path_of(workload, "alloc", "name"), "Nomad keeps this name for itself"));
    }
    let settings = driver.config(workload, container)?;
    let mut task = json!({
        "Name": container.name,
        "Driver": driver.as_str(),
        "Config": settings,
        "Resources": resources(container),
        "KillTimeout": nanos(workload.termination_grace.get()),
        "KillSignal": "SIGTERM",
    });
    let mut env = Map::new();
    for var in &container.env {
        let value = match &var.value {
            EnvValue::Text(text) => text::in_env(text),
            EnvValue::Field(field) => runtime_field(*field)?.to_owned(),
            // Of a template.
            EnvValue::Config(_) => continue,
            _ => return Err(unknown("this source of an environment variable")),
        };
        env.insert(var.name.clone(), value.into());
    }
    let mut meta = Map::new();
    if text::needs_meta(&task["Config"].to_string()) || env.values().filter_map(Value::as_str).any(text::needs_meta) {
        meta.extend(text::META.map(|(name, mark)| (name.to_owned(), mark.into())));
    }
    if !driver.runs_images() {
        // So that a change of it replaces the instances, as everywhere.
        meta.insert("scheduler/image".to_owned(), container.image.as_str().into());
    }
    for (field, map) in [("Env", env), ("Meta", meta)] {
        if !map.is_empty() {
            task[field] = map.into();
        }
    }
    match container.role {
        Role::Main => {
            if workload.containers.iter().any(|container| container.role == Role::Sidecar) {
                task["Leader"] = true.into();
            }
        }
        Role::Sidecar => task["Lifecycle"] = json!({"Hook": "prestart", "Sidecar": true}),
        Role::Init => task["Lifecycle"] = json!({"Hook": "prestart"}),
        _ => return Err(unknown("this role of a container")),
    }
    let configs: Vec<&str> = config::mounted(workload, &container).map(|(volume, _)| volume).collect();
    let mut mounts = container.mounts.iter().filter(|mount| !configs.contains(&mount.volume.as_str())).peekable();
    if mounts.peek().is_some() {
        let mount = |mount: &scheduler_core::Mount| json!({"Volume": mount.volume, "Destination": mount.path, "ReadOnly": mount.read_only});
        task["VolumeMounts"] = mounts.map(mount).collect();
    }
    let templates = config::templates(workload, &container, context);
    if !templates.is_empty() {
        task["Templates"] = templates.into();
    }
    Ok(task)
}

fn runtime_field(field: RuntimeField) -> Result<&'static str, Error> {
    Ok(match field {
        RuntimeField::InstanceName => "${NOMAD_ALLOC_ID}",
        // An allocation is reached by its node's address and a dynamic port.
        RuntimeField::InstanceAddress => "${attr.unique.network.ip-address}",
        RuntimeField::NodeName => "${node.unique.name}",
        RuntimeField::Namespace => "${NOMAD_NAMESPACE}",
        RuntimeField::Ordinal => "${NOMAD_ALLOC_INDEX}",
        _ => return Err(unknown("this runtime field")),
    })
}

fn resources(container: CheckedContainer<'_>) -> Value {
    let mut resources = Map::new();
    if let Some(cpu) = container.resources.cpu_request {
        resources.insert("CPU".to_owned(), cpu.millis().max(1).into());
    }
    let mebibytes = |memory: scheduler_core::Memory| memory.bytes().div_ceil(1 << 20).max(LEAST_MEMORY);
    let (request, limit) = (container.resources.memory_request, container.resources.memory_limit);
    if let Some(request) = request.map(mebibytes) {
        resources.insert("MemoryMB".to_owned(), request.into());
        if let Some(limit) = limit.map(mebibytes).filter(|limit| *limit > request) {
            resources.insert("MemoryMaxMB".to_owned(), limit.into());
        }
    }
    Value::Object(resources)
}

/// The network of the group, and a service for each port with its checks.
pub(super) fn network(workload: &CheckedWorkload, driver: &Driver, group: &mut Value) -> Result<(), Error> {
    let (mut ports, mut services) = (Vec::new(), Vec::new());
    for container in &workload.containers {
        for (at, port) in container.ports.iter().enumerate() {
            // Both protocols are led through; a service says nothing of it.
            if !matches!(port.protocol, Protocol::Tcp | Protocol::Udp) {
                return Err(unknown("this protocol"));
            }
            let mut dynamic = json!({"Label": port.name});
            if driver.runs_images() {
                dynamic["To"] = port.port.into();
            }
            ports.push(dynamic);
            // No port has two dashes in a row, so that no two workloads share a service.
            let name = format!("{}--{}", workload.target().name, port.name);
            if name.len() > LONGEST_SERVICE {
                let path = path_of(workload, &container.name, &format!("ports[{at}].name"));
                let problem =
                    format!("makes the service {name}, of {} characters; Nomad allows {LONGEST_SERVICE}", name.len());
                return Err(fault(path, problem));
            }
            let mut service = json!({"Name": name, "Provider": "nomad", "PortLabel": port.name, "AddressMode": "auto"});
            let checks = checks(container, &port.name)?;
            if checks.iter().any(|check| check["CheckRestart"].is_object()) {
                // Otherwise all tasks of the group are started again.
                service["TaskName"] = container.name.as_str().into();
            }
            if !checks.is_empty() {
                service["Checks"] = checks.into();
            }
            services.push(service);
        }
    }
    for container in &workload.containers {
        if container.probes.startup.is_some() {
            return Err(lacking(Feature::StartupProbes));
        }
        for (_, probe) in container.probes.iter() {
            match probe.check {
                Check::Exec(_) => return Err(lacking(Feature::ExecProbes)),
                Check::Grpc(_) => return Err(lacking(Feature::GrpcProbes)),
                _ => {}
            }
        }
    }
    if !ports.is_empty() {
        group["Networks"] = json!([{"DynamicPorts": ports}]);
        group["Services"] = services.into();
    }
    Ok(())
}

/// The checks that ask this port of a container.
fn checks(container: &scheduler_core::Container, port: &str) -> Result<Vec<Value>, Error> {
    let mut checks = Vec::new();
    for (kind, probe) in container.probes.iter().filter(|(_, p)| p.check.port().is_some_and(|(_, of)| of == port)) {
        let mut check = check(probe)?;
        check["Name"] = format!("{}-{kind}", container.name).into();
        check["Interval"] = nanos(probe.period.get()).into();
        check["Timeout"] = nanos(probe.timeout.get()).into();
        if kind == "liveness" {
            check["CheckRestart"] = json!({"Limit": probe.failures, "Grace": nanos(probe.initial_delay.get())});
        }
        checks.push(check);
    }
    Ok(checks)
}

fn check(probe: &Probe) -> Result<Value, Error> {
    Ok(match &probe.check {
        Check::Http(check) => json!({"Type": "http", "Path": check.path}),
        Check::Https(check) => json!({"Type": "http", "Path": check.path, "Protocol": "https", "TLSSkipVerify": true}),
        Check::Tcp(_) => json!({"Type": "tcp"}),
        Check::Exec(_) => return Err(lacking(Feature::ExecProbes)),
        Check::Grpc(_) => return Err(lacking(Feature::GrpcProbes)),
        _ => return Err(unknown("this kind of probe")),
    })
}

/// The volumes of the group.
pub(super) fn volumes(workload: &CheckedWorkload, group: &mut Value) -> Result<(), Error> {
    let mut volumes = Map::new();
    for volume in &workload.volumes {
        let source = match &volume.source {
            VolumeSource::Claim(claim) => claim,
            VolumeSource::Empty(_) => return Err(lacking(Feature::EmptyVolumes)),
            VolumeSource::Host(_) => return Err(lacking(Feature::HostVolumes)),
            VolumeSource::PerInstance(_) => return Err(lacking(Feature::PerInstanceVolumes)),
            // Of templates.
            VolumeSource::Config(_) => continue,
            _ => return Err(unknown("this source of a volume")),
        };
        volumes.insert(volume.name.clone(), json!({"Name": volume.name, "Type": "host", "Source": source}));
    }
    if !volumes.is_empty() {
        group["Volumes"] = volumes.into();
    }
    Ok(())
}
