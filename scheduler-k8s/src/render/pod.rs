//! The pod template's specification.

use std::collections::BTreeMap;

use scheduler_core::{
    Check, CheckedContainer, CheckedWorkload, Container, EnvValue, EnvVar, Error, Kind, NodeMatch, Probe, Protocol,
    Role, RuntimeField, Target, VolumeSource,
};
use serde_json::{Map, Value, json};

use super::unknown;
use crate::labels;

/// Renders the specification of the pods.
pub(super) fn spec(workload: &CheckedWorkload, selector: &BTreeMap<String, String>) -> Result<Value, Error> {
    let (mut main, mut init) = (Vec::new(), Vec::new());
    for checked in workload.containers() {
        let mut rendered = container(workload, checked)?;
        match checked.role {
            Role::Main => main.push(rendered),
            Role::Init => init.push(rendered),
            Role::Sidecar => {
                rendered["restartPolicy"] = "Always".into();
                init.push(rendered);
            }
            _ => return Err(unknown("this role of a container")),
        }
    }
    let mut spec = json!({
        "containers": main,
        // Otherwise the container sees variables for every Service of the namespace, which collide with its own.
        "enableServiceLinks": false,
        "terminationGracePeriodSeconds": workload.termination_grace.get(),
    });
    if !init.is_empty() {
        spec["initContainers"] = init.into();
    }
    if workload.kind.job().is_some() {
        spec["restartPolicy"] = "Never".into();
    }
    match &workload.identity {
        Some(identity) => spec["serviceAccountName"] = identity.as_str().into(),
        None => spec["automountServiceAccountToken"] = false.into(),
    }
    if !workload.pull_secrets.is_empty() {
        spec["imagePullSecrets"] = workload.pull_secrets.iter().map(|name| json!({"name": name})).collect();
    }
    let mut volumes = Vec::new();
    // A StatefulSet adds those that are made for each instance itself.
    for volume in workload.volumes.iter().filter(|volume| !matches!(volume.source, VolumeSource::PerInstance(_))) {
        let (kind, source) = volume_source(workload, &volume.source)?;
        volumes.push(json!({"name": volume.name, kind: source}));
    }
    if !volumes.is_empty() {
        spec["volumes"] = volumes.into();
    }
    placement(workload, selector, &mut spec)?;
    Ok(spec)
}

fn container(workload: &CheckedWorkload, checked: CheckedContainer<'_>) -> Result<Value, Error> {
    let mut rendered = json!({"name": checked.name, "image": checked.image});
    for (field, words) in [("command", &checked.command), ("args", &checked.args)] {
        if !words.is_empty() {
            rendered[field] = words.iter().map(|word| escape(word)).collect();
        }
    }
    if !checked.env.is_empty() {
        rendered["env"] = checked.env.iter().map(|var| env(workload, var)).collect::<Result<_, _>>()?;
    }
    if !checked.ports.is_empty() {
        let mut ports = Vec::new();
        for port in &checked.ports {
            let protocol = protocol(port.protocol)?;
            ports.push(json!({"name": port.name, "containerPort": port.port, "protocol": protocol}));
        }
        rendered["ports"] = ports.into();
    }
    if let Some(resources) = resources(checked) {
        rendered["resources"] = resources;
    }
    for (kind, rule) in checked.probes.iter() {
        rendered[format!("{kind}Probe")] = probe(rule, checked.container)?;
    }
    if !checked.mounts.is_empty() {
        rendered["volumeMounts"] = checked
            .mounts
            .iter()
            .map(|mount| json!({"name": mount.volume, "mountPath": mount.path, "readOnly": mount.read_only}))
            .collect();
    }
    Ok(rendered)
}

/// The kubelet expands `$(NAME)` and turns `$$` into `$` (`third_party/forked/golang/expansion`). Doubling every `$` makes
/// it hand over the text as it was.
fn escape(text: &str) -> String {
    text.replace('$', "$$")
}

fn env(workload: &CheckedWorkload, var: &EnvVar) -> Result<Value, Error> {
    let from = match &var.value {
        EnvValue::Text(text) => return Ok(json!({"name": var.name, "value": escape(text)})),
        EnvValue::Config(entry) => {
            let secret = config_secret(workload.target(), &entry.name, &entry.version);
            json!({"secretKeyRef": {"name": secret, "key": entry.key}})
        }
        EnvValue::Field(field) => {
            let path = match field {
                RuntimeField::Ordinal if matches!(workload.kind, Kind::Service(_)) => {
                    "metadata.labels['apps.kubernetes.io/pod-index']"
                }
                RuntimeField::Ordinal => "metadata.annotations['batch.kubernetes.io/job-completion-index']",
                RuntimeField::InstanceName => "metadata.name",
                RuntimeField::InstanceAddress => "status.podIP",
                RuntimeField::NodeName => "spec.nodeName",
                RuntimeField::Namespace => "metadata.namespace",
                _ => return Err(unknown("this runtime field")),
            };
            json!({"fieldRef": {"fieldPath": path}})
        }
        _ => return Err(unknown("this source of an environment variable")),
    };
    Ok(json!({"name": var.name, "valueFrom": from}))
}

/// The name of the Secret that holds a version of a configuration.
pub(crate) fn config_secret(target: &Target, name: &str, version: &str) -> String {
    format!("{}.{name}.{version}", target.name)
}

pub(super) fn protocol(protocol: Protocol) -> Result<&'static str, Error> {
    match protocol {
        Protocol::Tcp => Ok("TCP"),
        Protocol::Udp => Ok("UDP"),
        _ => Err(unknown("this protocol")),
    }
}

fn resources(checked: CheckedContainer<'_>) -> Option<Value> {
    let bounds = |cpu: Option<scheduler_core::Cpu>, memory: Option<scheduler_core::Memory>| {
        let cpu = cpu.map(|cpu| ("cpu".to_owned(), Value::from(cpu.to_string())));
        let memory = memory.map(|memory| ("memory".to_owned(), Value::from(memory.to_string())));
        cpu.into_iter().chain(memory).collect::<Map<_, _>>()
    };
    let r = checked.resources;
    let both = [("requests", bounds(r.cpu_request, r.memory_request)), ("limits", bounds(r.cpu_limit, r.memory_limit))];
    let set: Map<_, _> = both
        .into_iter()
        .filter(|(_, bounds)| !bounds.is_empty())
        .map(|(name, bounds)| (name.to_owned(), Value::Object(bounds)))
        .collect();
    (!set.is_empty()).then_some(Value::Object(set))
}

fn probe(rule: &Probe, container: &Container) -> Result<Value, Error> {
    let (kind, check) = match &rule.check {
        Check::Http(check) => ("httpGet", json!({"path": check.path, "port": check.port, "scheme": "HTTP"})),
        Check::Https(check) => ("httpGet", json!({"path": check.path, "port": check.port, "scheme": "HTTPS"})),
        Check::Tcp(check) => ("tcpSocket", json!({"port": check.port})),
        Check::Exec(check) => {
            let command: Vec<_> = check.command.iter().map(|word| escape(word)).collect();
            ("exec", json!({"command": command}))
        }
        Check::Grpc(check) => {
            // The API takes a number here, where all others take a name.
            let port = container.ports.iter().find(|port| port.name == check.port).map(|port| port.port);
            let mut grpc = json!({"port": port.unwrap_or_default()});
            if let Some(service) = &check.service {
                grpc["service"] = service.as_str().into();
            }
            ("grpc", grpc)
        }
        _ => return Err(unknown("this kind of probe")),
    };
    Ok(json!({
        kind: check,
        "initialDelaySeconds": rule.initial_delay.get(),
        "periodSeconds": rule.period.get(),
        "timeoutSeconds": rule.timeout.get(),
        "failureThreshold": rule.failures,
    }))
}

fn volume_source(workload: &CheckedWorkload, source: &VolumeSource) -> Result<(&'static str, Value), Error> {
    Ok(match source {
        VolumeSource::Empty(empty) => {
            let mut volume = Map::new();
            if empty.in_memory {
                volume.insert("medium".to_owned(), "Memory".into());
            }
            if let Some(limit) = &empty.size_limit {
                volume.insert("sizeLimit".to_owned(), limit.as_str().into());
            }
            ("emptyDir", Value::Object(volume))
        }
        VolumeSource::Host(path) => ("hostPath", json!({"path": path})),
        VolumeSource::Claim(claim) => ("persistentVolumeClaim", json!({"claimName": claim})),
        VolumeSource::Config(config) => {
            ("secret", json!({"secretName": config_secret(workload.target(), &config.name, &config.version)}))
        }
        _ => return Err(unknown("this source of a volume")),
    })
}

fn placement(workload: &CheckedWorkload, selector: &BTreeMap<String, String>, spec: &mut Value) -> Result<(), Error> {
    let mut rules = Vec::new();
    for rule in &workload.placement.require {
        let (operator, values) = match &rule.is {
            NodeMatch::In(values) => ("In", Some(values)),
            NodeMatch::NotIn(values) => ("NotIn", Some(values)),
            NodeMatch::Exists => ("Exists", None),
            NodeMatch::Absent => ("DoesNotExist", None),
            _ => return Err(unknown("this rule over nodes")),
        };
        let mut expression = json!({"key": rule.label, "operator": operator});
        if let Some(values) = values {
            expression["values"] = values.iter().map(String::as_str).collect();
        }
        rules.push(expression);
    }
    if !rules.is_empty() {
        spec["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": rules}],
        }}});
    }
    if let Some(label) = &workload.placement.spread {
        spec["topologySpreadConstraints"] = json!([{
            "maxSkew": 1,
            "topologyKey": label,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": labels::to_json(selector)},
        }]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::escape;

    /// What the kubelet does, from the description of the syntax: `$(NAME)` is replaced if NAME is known and stays
    /// otherwise, `$$` is `$`, any other `$` is itself.
    fn kubelet_expands(text: &str, known: impl Fn(&str) -> Option<String>) -> String {
        let (mut out, mut rest) = (String::new(), text);
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            if let Some(after) = after.strip_prefix('$') {
                out.push('$');
                rest = after;
            } else if let Some((name, behind)) = after.strip_prefix('(').and_then(|after| after.split_once(')')) {
                out.push_str(&known(name).unwrap_or_else(|| format!("$({name})")));
                rest = behind;
            } else {
                out.push('$');
                rest = after;
            }
        }
        out + rest
    }

    #[test]
    fn the_reference_expands() {
        let expand = |text| kubelet_expands(text, |name| (name == "HOME").then(|| "/root".to_owned()));
        assert_eq!(expand("pa$$word $(HOME)/x $(NOPE) $x $( $"), "pa$word /root/x $(NOPE) $x $( $");
    }

    proptest! {
        #[test]
        fn the_container_sees_the_text_byte_for_byte(text in "([$()]|[A-C]|\\PC){0,40}") {
            prop_assert_eq!(kubelet_expands(&escape(&text), |_| Some("expanded".to_owned())), text);
        }
    }
}
