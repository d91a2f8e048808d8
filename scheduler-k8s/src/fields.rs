//! The fields of native objects in the words of the model, for refusals by the server.

use scheduler_core::{CheckedWorkload, Role, VolumeSource};

/// The path in the workload of a field of a rendered object (`Deployment`, `Service`, …). What has no counterpart there, such
/// as a field that an extension set, keeps its native path behind the object's name.
pub(crate) fn ours(workload: &CheckedWorkload, object: &str, native: &str) -> String {
    let native = native.trim_start_matches('.');
    let found = match object {
        "Service" => of_service(workload, native),
        _ => of_main(workload, object, native),
    };
    found.unwrap_or_else(|| format!("{object}.{native}"))
}

fn of_service(workload: &CheckedWorkload, native: &str) -> Option<String> {
    let (at, rest) = index(native.strip_prefix("spec.ports")?)?;
    let ports = workload.containers.iter().enumerate();
    let (container, port) = ports.flat_map(|(i, c)| (0..c.ports.len()).map(move |j| (i, j))).nth(at)?;
    let field = match rest {
        "" => "",
        ".name" => ".name",
        ".protocol" => ".protocol",
        _ => ".port",
    };
    Some(format!("containers[{container}].ports[{port}]{field}"))
}

type Paths = &'static [(&'static str, &'static str)];

/// What every main object has.
const COMMON: Paths = &[
    ("metadata.name", "name"),
    ("metadata.namespace", "namespace"),
    ("metadata.labels", "labels"),
    ("metadata.annotations", "annotations"),
    ("spec.template.metadata.labels", "labels"),
    ("spec.template.metadata.annotations", "annotations"),
    ("spec.template.spec.terminationGracePeriodSeconds", "termination_grace"),
    ("spec.template.spec.serviceAccountName", "identity"),
    ("spec.template.spec.affinity", "placement.require"),
    ("spec.template.spec.topologySpreadConstraints", "placement.spread"),
];
const SERVICE: Paths = &[
    ("spec.replicas", "kind.service.replicas"),
    ("spec.strategy", "kind.service.update"),
    ("spec.updateStrategy", "kind.service.update"),
    ("spec.minReadySeconds", "kind.service.min_ready"),
    ("spec.progressDeadlineSeconds", "progress_deadline"),
    ("spec.volumeClaimTemplates", "volumes"),
];
const SYSTEM: Paths =
    &[("spec.updateStrategy", "kind.system.max_unavailable"), ("spec.minReadySeconds", "kind.system.min_ready")];
const JOB: Paths = &[
    ("spec.completions", "completions"),
    ("spec.parallelism", "parallelism"),
    ("spec.backoffLimit", "retries"),
    ("spec.backoffLimitPerIndex", "retries"),
    ("spec.activeDeadlineSeconds", "deadline"),
    ("spec.ttlSecondsAfterFinished", "time_to_live"),
];
const PERIODIC: Paths = &[
    ("spec.schedule", "kind.periodic.schedule"),
    ("spec.timeZone", "kind.periodic.time_zone"),
    ("spec.concurrencyPolicy", "kind.periodic.overlap"),
    ("spec.startingDeadlineSeconds", "kind.periodic.starting_deadline"),
    ("spec.successfulJobsHistoryLimit", "kind.periodic.keep_succeeded"),
    ("spec.failedJobsHistoryLimit", "kind.periodic.keep_failed"),
    ("spec.suspend", "kind.periodic.suspend"),
];

fn of_main(workload: &CheckedWorkload, object: &str, native: &str) -> Option<String> {
    let find =
        |paths: Paths, native: &str| paths.iter().find(|(path, _)| is_below(native, path)).map(|(_, ours)| *ours);
    let (job, native) = match (object, native.strip_prefix("spec.jobTemplate.")) {
        ("CronJob", Some(of_job)) => (Some("kind.periodic.job"), of_job),
        ("Job", _) => (Some("kind.job"), native),
        _ => (None, native),
    };
    if let Some((of, field)) = job.zip(find(JOB, native)) {
        return Some(format!("{of}.{field}"));
    }
    let own = match object {
        "Deployment" | "StatefulSet" => find(SERVICE, native),
        "DaemonSet" => find(SYSTEM, native),
        "CronJob" => find(PERIODIC, native),
        _ => None,
    };
    if let Some(ours) = own.or_else(|| find(COMMON, native)) {
        return Some(ours.to_owned());
    }
    let pod = native.strip_prefix("spec.template.spec.")?;
    if let Some(rest) = pod.strip_prefix("imagePullSecrets") {
        return index(rest).map(|(at, _)| format!("pull_secrets[{at}]"));
    }
    if let Some(rest) = pod.strip_prefix("volumes") {
        let (at, field) = index(rest)?;
        // Those of single instances are no volumes of the pod template.
        let own = |source: &VolumeSource| matches!(source, VolumeSource::PerInstance(_));
        let (at, _) = workload.volumes.iter().enumerate().filter(|(_, volume)| !own(&volume.source)).nth(at)?;
        return Some(format!("volumes[{at}]{}", if field == ".name" { ".name" } else { ".source" }));
    }
    let (mains, rest) = match (pod.strip_prefix("containers"), pod.strip_prefix("initContainers")) {
        (Some(rest), _) => (true, rest),
        (_, Some(rest)) => (false, rest),
        _ => return None,
    };
    let (at, field) = index(rest)?;
    let mut containers = workload.containers.iter().enumerate().filter(|(_, c)| (c.role == Role::Main) == mains);
    let (ours, _) = containers.nth(at)?;
    Some(format!("containers[{ours}]{}", of_container(field)))
}

/// What stands behind a container, with its leading dot.
fn of_container(native: &str) -> String {
    const INDEXED: &[(&str, &str)] = &[(".env", ".env"), (".ports", ".ports"), (".volumeMounts", ".mounts")];
    const PLAIN: &[(&str, &str)] = &[
        (".resources.requests[cpu]", ".resources.cpu.request"),
        (".resources.requests[memory]", ".resources.memory.request"),
        (".resources.limits[cpu]", ".resources.cpu.limit"),
        (".resources.limits[memory]", ".resources.memory.limit"),
        (".resources", ".resources"),
        (".startupProbe", ".probes.startup"),
        (".readinessProbe", ".probes.readiness"),
        (".livenessProbe", ".probes.liveness"),
        (".image", ".image"),
        (".name", ".name"),
        (".command", ".command"),
        (".args", ".args"),
        (".restartPolicy", ".role"),
    ];
    for (field, ours) in INDEXED {
        if let Some((at, rest)) = native.strip_prefix(field).and_then(index) {
            let rest = match rest {
                ".name" => ".name",
                ".containerPort" => ".port",
                ".protocol" => ".protocol",
                ".mountPath" => ".path",
                "" => "",
                _ if *ours == ".env" => ".value",
                _ => "",
            };
            return format!("{ours}[{at}]{rest}");
        }
    }
    PLAIN.iter().find(|(field, _)| is_below(native, field)).map_or(String::new(), |(_, ours)| (*ours).to_owned())
}

/// Whether a path is this one or leads through it.
fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// `[3].name` as 3 and `.name`.
fn index(text: &str) -> Option<(usize, &str)> {
    let (number, rest) = text.strip_prefix('[')?.split_once(']')?;
    Some((number.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use scheduler_core::{Container, PerInstanceVolume, Role, VolumeSource, Workload};

    use super::ours;

    #[test]
    fn native_paths_become_ours() {
        let workload = Workload::service("shop", "web")
            .container(Container::new("setup", "a").role(Role::Init))
            .container(Container::new("web", "a").port("http", 80).port("admin", 81))
            .container(Container::new("side", "a").role(Role::Sidecar).port("side", 82))
            .volume("a", VolumeSource::Host("/a".to_owned()))
            .volume("b", VolumeSource::PerInstance(PerInstanceVolume::new("1Gi")))
            .volume("c", VolumeSource::Host("/c".to_owned()))
            .stable()
            .check()
            .unwrap();
        for (object, native, expected) in [
            ("Deployment", "metadata.name", "name"),
            ("Deployment", "metadata.labels", "labels"),
            ("Deployment", "spec.replicas", "kind.service.replicas"),
            ("Deployment", "spec.strategy.rollingUpdate.maxSurge", "kind.service.update"),
            ("Deployment", "spec.template.spec.containers[0].image", "containers[1].image"),
            ("Deployment", ".spec.template.spec.containers[0].image", "containers[1].image"),
            ("Deployment", "spec.template.spec.initContainers[0].image", "containers[0].image"),
            (
                "Deployment",
                "spec.template.spec.initContainers[1].ports[0].containerPort",
                "containers[2].ports[0].port",
            ),
            ("Deployment", "spec.template.spec.containers[0].env[3].name", "containers[1].env[3].name"),
            ("Deployment", "spec.template.spec.containers[0].env[3].valueFrom.fieldRef", "containers[1].env[3].value"),
            (
                "Deployment",
                "spec.template.spec.containers[0].volumeMounts[1].mountPath",
                "containers[1].mounts[1].path",
            ),
            (
                "Deployment",
                "spec.template.spec.containers[0].resources.limits[cpu]",
                "containers[1].resources.cpu.limit",
            ),
            (
                "Deployment",
                "spec.template.spec.containers[0].livenessProbe.httpGet.port",
                "containers[1].probes.liveness",
            ),
            ("Deployment", "spec.template.spec.containers[0].securityContext.runAsUser", "containers[1]"),
            (
                "Deployment",
                "spec.template.spec.containers[7].image",
                "Deployment.spec.template.spec.containers[7].image",
            ),
            ("StatefulSet", "spec.template.spec.volumes[1].hostPath.path", "volumes[2].source"),
            ("Deployment", "spec.template.spec.serviceAccountName", "identity"),
            ("Deployment", "spec.template.spec.priorityClassName", "Deployment.spec.template.spec.priorityClassName"),
            ("StatefulSet", "spec.replicas", "kind.service.replicas"),
            ("DaemonSet", "spec.updateStrategy.rollingUpdate.maxUnavailable", "kind.system.max_unavailable"),
            ("DaemonSet", "spec.template.spec.containers[0].image", "containers[1].image"),
            ("Job", "spec.backoffLimitPerIndex", "kind.job.retries"),
            ("CronJob", "spec.schedule", "kind.periodic.schedule"),
            ("CronJob", "spec.jobTemplate.spec.activeDeadlineSeconds", "kind.periodic.job.deadline"),
            ("CronJob", "spec.jobTemplate.spec.template.spec.containers[0].image", "containers[1].image"),
            ("Service", "spec.ports[2].port", "containers[2].ports[0].port"),
            ("Service", "spec.ports[1].nodePort", "containers[1].ports[1].port"),
            ("Service", "spec.clusterIP", "Service.spec.clusterIP"),
        ] {
            assert_eq!(ours(&workload, object, native), expected, "{native}");
        }
    }
}
