//! `run`: a Job, made once under a name that follows from the caller's key.

use scheduler_core::{
    CheckedWorkload, Error, ErrorKind, Guard, Kind, Result, Run, RunId, RunStarted, RunWhat, Target, Workload,
};
use scheduler_k8s_client::{Apply, Condition, ErrorKind as ClientErrorKind, Resource};
use serde_json::{Value, json};

use super::find::{deleting, foreign, is_deleting};
use super::launch::warnings;
use super::{KubernetesScheduler, text};
use crate::MANAGER;
use crate::error::translate_write;
use crate::kind::MainKind;
use crate::labels::{self, PATIENCE, REVISION, TARGET};
use crate::render::{RenderContext, owner_reference, render};

pub(super) async fn run(scheduler: &KubernetesScheduler, op: &Run) -> Result<RunStarted> {
    scheduler.capabilities.require(&op.features())?;
    let id = op.id();
    let (job, workload, warnings) = match &op.what {
        RunWhat::OneOff(workload) => {
            let renamed = renamed(workload, &id)?;
            let rendered = render(&renamed, &scheduler.owner, &RenderContext::new(0))?;
            let warnings = warnings(&renamed);
            (rendered.main, Some(renamed), warnings)
        }
        RunWhat::Now(periodic) => (of_schedule(scheduler, periodic, &id).await?, None, Vec::new()),
        _ => {
            return Err(Error::unsupported(scheduler_core::OpName::Run, "this kind of run is newer than this backend"));
        }
    };
    create(scheduler, id, job, workload.as_ref(), warnings).await
}

/// The job under the run's own name.
fn renamed(workload: &CheckedWorkload, id: &RunId) -> Result<CheckedWorkload> {
    if !matches!(workload.kind, Kind::Job(_)) {
        return Err(Error::invalid_argument(format!("a {} cannot be run once, only a job", workload.kind.name())));
    }
    let mut run: Workload = (**workload).clone();
    run.name = id.target().name.to_string();
    Ok(run.check()?)
}

/// The Job that a CronJob would make, under the run's name, and controlled by it: so it goes with the CronJob, and with
/// what its limits of history let go.
async fn of_schedule(scheduler: &KubernetesScheduler, periodic: &Target, id: &RunId) -> Result<Value> {
    let main = scheduler.require(periodic, &Guard::IfOwned).await?;
    if main.kind != MainKind::CronJob {
        return Err(Error::invalid_argument(format!("a {} has no runs, only a periodic job", main.kind.workload())));
    }
    let template = &main.object["spec"]["jobTemplate"];
    let (mut metadata, mut spec) = (template["metadata"].clone(), template["spec"].clone());
    let name = id.target().name.as_str();
    metadata["name"] = name.into();
    metadata["namespace"] = periodic.namespace.as_str().into();
    metadata["labels"][TARGET] = name.into();
    for annotation in [REVISION, PATIENCE] {
        if let Some(text) = main.object["metadata"]["annotations"][annotation].as_str() {
            metadata["annotations"][annotation] = text.into();
        }
    }
    let mut owner = owner_reference(main.kind, periodic.name.as_str(), main.uid());
    owner["controller"] = true.into();
    owner["blockOwnerDeletion"] = true.into();
    metadata["ownerReferences"] = json!([owner]);
    spec["template"]["metadata"]["labels"][TARGET] = name.into();
    for metadata in [&mut metadata, &mut spec["template"]["metadata"]] {
        // The server writes a null for the time of what was not made.
        metadata.as_object_mut().map(|fields| fields.remove("creationTimestamp"));
    }
    Ok(json!({"apiVersion": Resource::JOB.api_version(), "kind": "Job", "metadata": metadata, "spec": spec}))
}

async fn create(
    scheduler: &KubernetesScheduler,
    id: RunId,
    job: Value,
    workload: Option<&CheckedWorkload>,
    mut warnings: Vec<String>,
) -> Result<RunStarted> {
    let target = id.target().clone();
    let namespace = Some(target.namespace.as_str());
    let apply = Apply::new(&Resource::JOB, namespace, text(&job, "name"), job.clone(), MANAGER, Condition::Absent);
    let created = match scheduler.client.apply(apply).await {
        Ok(applied) => {
            warnings.extend(applied.warnings);
            true
        }
        Err(error) if error.kind() == ClientErrorKind::AlreadyExists => {
            let there = scheduler.get(&Resource::JOB, &target).await?;
            let Some(there) = there else {
                let again = translate_write(&error, workload, "Job");
                return Err(Error::new(ErrorKind::Conflict(scheduler_core::Conflict::Absent), again.message()));
            };
            if !scheduler.is_ours(&there) {
                return Err(foreign("Job", labels::owner_of(&there)));
            }
            if is_deleting(&there) {
                return Err(deleting("Job"));
            }
            false
        }
        Err(error) => return Err(translate_write(&error, workload, "Job")),
    };
    let mut started = RunStarted::new(id, created);
    started.warnings = warnings;
    Ok(started)
}
