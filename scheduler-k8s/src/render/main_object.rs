//! The main object.

use scheduler_core::{CheckedWorkload, Error, Job, Kind, Overlap, Periodic, Service, System, Update, VolumeSource};
use serde_json::{Value, json};

use super::{Common, RenderContext, pod, unknown};
use crate::kind::MainKind;
use crate::labels;

/// How many old ReplicaSets a Deployment keeps, and old templates a StatefulSet and a DaemonSet. They serve `kubectl
/// rollout undo` and nothing of ours; each is one more object in every list.
const KEPT_TEMPLATES: u32 = 2;

pub(super) fn render(
    workload: &CheckedWorkload,
    kind: MainKind,
    common: &Common,
    context: &RenderContext,
) -> Result<Value, Error> {
    let spec = match &workload.kind {
        Kind::Service(service) if kind == MainKind::StatefulSet => stateful_set(workload, service, common, context)?,
        Kind::Service(service) => deployment(workload, service, common, context)?,
        Kind::System(system) => daemon_set(workload, system, common, context)?,
        Kind::Job(job) => self::job(workload, job, common)?,
        Kind::Periodic(periodic) => cron_job(workload, periodic, common)?,
        _ => return Err(unknown("this kind of workload")),
    };
    let resource = kind.resource();
    Ok(json!({
        "apiVersion": resource.api_version(),
        "kind": resource.kind,
        "metadata": metadata(workload, kind, common),
        "spec": spec,
    }))
}

/// What the main object alone bears beside what all objects do.
fn metadata(workload: &CheckedWorkload, kind: MainKind, common: &Common) -> Value {
    let (mut labels, mut annotations) = (common.labels.clone(), common.annotations.clone());
    let (version, text) = labels::of_marks(workload.marks.iter().filter(|(mark, _)| *mark == "version"));
    labels.extend(version);
    annotations.extend(text);
    annotations.insert(labels::REVISION.to_owned(), workload.revision().to_string());
    if kind != MainKind::Deployment {
        annotations.insert(labels::PATIENCE.to_owned(), workload.progress_deadline.get().to_string());
    }
    json!({
        "name": workload.target().name.as_str(),
        "namespace": workload.target().namespace.as_str(),
        "labels": labels::to_json(&labels),
        "annotations": labels::to_json(&annotations),
    })
}

/// The selector, and the template of pods that it finds.
fn selected(workload: &CheckedWorkload, common: &Common, context: &RenderContext) -> Result<(Value, Value), Error> {
    let own = json!({"matchLabels": labels::to_json(&common.selector)});
    let selector = context.selector.clone().unwrap_or(own);
    let mut template = template(workload, common)?;
    if let (Some(labels), Some(kept)) =
        (template["metadata"]["labels"].as_object_mut(), selector["matchLabels"].as_object())
    {
        for (key, value) in kept {
            labels.entry(key.as_str()).or_insert_with(|| value.clone());
        }
    }
    Ok((selector, template))
}

fn template(workload: &CheckedWorkload, common: &Common) -> Result<Value, Error> {
    Ok(json!({"metadata": common.metadata(), "spec": pod::spec(workload, &common.selector)?}))
}

fn deployment(
    workload: &CheckedWorkload,
    service: &Service,
    common: &Common,
    context: &RenderContext,
) -> Result<Value, Error> {
    let (selector, template) = selected(workload, common, context)?;
    let strategy = match service.update {
        Update::Recreate => json!({"type": "Recreate"}),
        Update::Rolling(bounds) => json!({
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": bounds.max_surge, "maxUnavailable": bounds.max_unavailable},
        }),
        _ => return Err(unknown("this kind of update")),
    };
    Ok(json!({
        "replicas": context.replicas,
        "selector": selector,
        "strategy": strategy,
        "minReadySeconds": service.min_ready.get(),
        "progressDeadlineSeconds": workload.progress_deadline.get(),
        "revisionHistoryLimit": KEPT_TEMPLATES,
        "template": template,
    }))
}

/// Pods come and go in any order, but an update replaces one at a time: that is what stable identities promise, and waiting
/// for each other at the start is not.
fn stateful_set(
    workload: &CheckedWorkload,
    service: &Service,
    common: &Common,
    context: &RenderContext,
) -> Result<Value, Error> {
    let (selector, template) = selected(workload, common, context)?;
    let mut spec = json!({
        "replicas": context.replicas,
        "selector": selector,
        "serviceName": workload.target().name.as_str(),
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "RollingUpdate"},
        "minReadySeconds": service.min_ready.get(),
        "revisionHistoryLimit": KEPT_TEMPLATES,
        "template": template,
    });
    let mut claims = Vec::new();
    for volume in &workload.volumes {
        let VolumeSource::PerInstance(own) = &volume.source else { continue };
        let mut claim = json!({
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": own.size}},
        });
        if let Some(class) = &own.class {
            claim["storageClassName"] = class.as_str().into();
        }
        claims.push(json!({"metadata": {"name": volume.name}, "spec": claim}));
    }
    if !claims.is_empty() {
        spec["volumeClaimTemplates"] = claims.into();
        spec["persistentVolumeClaimRetentionPolicy"] = json!({"whenDeleted": "Retain", "whenScaled": "Retain"});
    }
    Ok(spec)
}

fn daemon_set(
    workload: &CheckedWorkload,
    system: &System,
    common: &Common,
    context: &RenderContext,
) -> Result<Value, Error> {
    let (selector, template) = selected(workload, common, context)?;
    Ok(json!({
        "selector": selector,
        "updateStrategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": 0, "maxUnavailable": system.max_unavailable},
        },
        "minReadySeconds": system.min_ready.get(),
        "revisionHistoryLimit": KEPT_TEMPLATES,
        "template": template,
    }))
}

/// The server makes the selector of a Job itself.
fn job(workload: &CheckedWorkload, job: &Job, common: &Common) -> Result<Value, Error> {
    let mut spec = json!({
        "completions": job.completions,
        "parallelism": job.at_a_time(),
        // No second Pod beside one that is on its way out.
        "podReplacementPolicy": "Failed",
        "template": template(workload, common)?,
    });
    if job.completions > 1 {
        spec["completionMode"] = "Indexed".into();
        spec["backoffLimitPerIndex"] = job.retries.into();
    } else {
        spec["backoffLimit"] = job.retries.into();
    }
    if let Some(deadline) = job.deadline {
        spec["activeDeadlineSeconds"] = deadline.get().into();
    }
    if let Some(time) = job.time_to_live {
        spec["ttlSecondsAfterFinished"] = time.get().into();
    }
    Ok(spec)
}

fn cron_job(workload: &CheckedWorkload, periodic: &Periodic, common: &Common) -> Result<Value, Error> {
    // All runs bear its name, those that are begun by hand too.
    let runs = |mut object: Value| {
        object["metadata"]["labels"][labels::RUN_OF] = workload.target().name.as_str().into();
        object
    };
    let mut job = runs(json!({"metadata": common.metadata(), "spec": self::job(workload, &periodic.job, common)?}));
    job["spec"]["template"] = runs(job["spec"]["template"].take());
    let mut spec = json!({
        "schedule": periodic.schedule,
        "timeZone": periodic.time_zone,
        "concurrencyPolicy": match periodic.overlap {
            Overlap::Forbid => "Forbid",
            Overlap::Allow => "Allow",
            Overlap::Replace => "Replace",
            _ => return Err(unknown("this kind of overlap")),
        },
        "suspend": periodic.suspend,
        "jobTemplate": job,
    });
    if let Some(deadline) = periodic.starting_deadline {
        spec["startingDeadlineSeconds"] = deadline.get().into();
    }
    if let Some(kept) = periodic.keep_succeeded {
        spec["successfulJobsHistoryLimit"] = kept.into();
    }
    if let Some(kept) = periodic.keep_failed {
        spec["failedJobsHistoryLimit"] = kept.into();
    }
    Ok(spec)
}
