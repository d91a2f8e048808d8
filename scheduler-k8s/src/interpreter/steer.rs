//! `scale`, `rollout` and `instance`: what is done to what runs.

use scheduler_core::{
    Conflict, Error, ErrorKind, Feature, InstanceAnswer, Missing, OnInstance, Result, Rollout, RolloutAction, Scale,
    Scaled, Steered, Timestamp,
};
use scheduler_k8s_client::{self as client, Propagation, Resource, SetScale};
use serde_json::{Value, json};

use super::find::{Main, is_deleting, lost_a_race};
use super::write::mark;
use super::{ATTEMPTS, KubernetesScheduler, text};
use crate::error::translate;
use crate::kind::MainKind;
use crate::observe::{self, NativeObjects};
use crate::{MANAGER, PAUSER, RESTARTER, labels};

pub(super) async fn scale(scheduler: &KubernetesScheduler, op: &Scale) -> Result<Scaled> {
    let mut attempt = 1;
    loop {
        let main = scheduler.require(&op.target, &op.guard).await?;
        if !matches!(main.kind, MainKind::Deployment | MainKind::StatefulSet) {
            return Err(wrong_kind(&main, "has no count of instances"));
        }
        let from = main.object["spec"]["replicas"].as_u64().and_then(|count| count.try_into().ok()).unwrap_or(1);
        if from == op.count {
            return Ok(Scaled::new(from, op.count, main.version()));
        }
        let warnings = check_autoscaler(scheduler, op, &main).await?;
        let (uid, version) = (main.uid(), text(&main.object, "resourceVersion"));
        let (namespace, name) = (Some(op.target.namespace.as_str()), op.target.name.as_str());
        let set = SetScale::new(main.kind.resource(), namespace, name, op.count, MANAGER, uid, version);
        match scheduler.client.set_scale(set).await.map_err(|error| translate(&error)) {
            Err(error) if attempt < ATTEMPTS && lost_a_race(&error) => attempt += 1,
            Err(error) => return Err(error),
            Ok(_) => {
                // The answer has no generation. As nothing else came between, it is the next one.
                let mut scaled = main.object.clone();
                let generation = scaled["metadata"]["generation"].as_i64().unwrap_or(0);
                scaled["metadata"]["generation"] = (generation + 1).into();
                let mut scaled = Scaled::new(from, op.count, observe::version(&scaled));
                scaled.warnings = warnings;
                return Ok(scaled);
            }
        }
    }
}

const AUTOSCALER: &Resource =
    &Resource::namespaced("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler");

/// A count that an autoscaler holds would be undone at once. Who may not look is warned.
async fn check_autoscaler(scheduler: &KubernetesScheduler, op: &Scale, main: &Main) -> Result<Vec<String>> {
    let namespace = Some(op.target.namespace.as_str());
    let found = scheduler.client.list::<Value>(AUTOSCALER, namespace, &client::ListOptions::new()).await;
    let found = match found {
        Err(error) if error.kind() == client::ErrorKind::Forbidden => {
            return Ok(vec!["may not see whether an autoscaler holds the count".to_owned()]);
        }
        found => found.map_err(|error| translate(&error))?.items,
    };
    let holds = |autoscaler: &&Value| {
        let of = &autoscaler["spec"]["scaleTargetRef"];
        of["kind"] == main.kind.as_str() && of["name"] == op.target.name.as_str()
    };
    match found.iter().find(holds) {
        None => Ok(Vec::new()),
        Some(autoscaler) => {
            let message = format!("the HorizontalPodAutoscaler {} holds the count", text(autoscaler, "name"));
            Err(Error::new(ErrorKind::Conflict(Conflict::Owner { owner: None }), message))
        }
    }
}

fn wrong_kind(main: &Main, problem: &str) -> Error {
    Error::invalid_argument(format!("the workload is a {} and {problem}", main.kind.workload()))
}

pub(super) async fn rollout(scheduler: &KubernetesScheduler, op: &Rollout) -> Result<Steered> {
    let mut attempt = 1;
    loop {
        let main = scheduler.require(&op.target, &op.guard).await?;
        let Some((manager, body)) = patch(&main, op.action)? else {
            return Ok(Steered::new(false, main.version()));
        };
        match mark(scheduler, main.kind.resource(), &main.object, manager, body).await {
            Err(error) if attempt < ATTEMPTS && lost_a_race(&error) => attempt += 1,
            Err(error) => return Err(error),
            Ok((object, warnings)) => {
                let mut steered = Steered::new(true, observe::version(&object));
                steered.warnings = warnings;
                return Ok(steered);
            }
        }
    }
}

/// Who applies what. `None` if it is so already.
fn patch(main: &Main, action: RolloutAction) -> Result<Option<(&'static str, Value)>> {
    if matches!(main.kind, MainKind::Job | MainKind::CronJob) {
        return Err(wrong_kind(main, "has no rollout"));
    }
    if action == RolloutAction::Restart {
        // Each restart raises it, so that no two have the same mark, and no clock is needed.
        let generation = main.object["metadata"]["generation"].to_string();
        let template = json!({"metadata": {"annotations": {labels::RESTART: generation}}});
        return Ok(Some((RESTARTER, json!({"spec": {"template": template}}))));
    }
    if main.kind != MainKind::Deployment {
        let reason = format!("the rollout of a {} cannot be paused", main.kind.as_str());
        return Err(Error::new(ErrorKind::Unsupported(Some(Feature::Pause)), reason));
    }
    let paused = main.object["spec"]["paused"] == true;
    match action {
        RolloutAction::Pause if paused => Ok(None),
        RolloutAction::Pause => {
            let objects = NativeObjects::new(main.kind, &main.object);
            // Whether it is complete depends on no clock.
            if observe::observe(&objects, Timestamp::from_millis(0)).is_some_and(|seen| seen.completed) {
                return Err(Error::new(ErrorKind::Precondition, "the rollout is complete, so there is none to pause"));
            }
            Ok(Some((PAUSER, json!({"spec": {"paused": true}}))))
        }
        RolloutAction::Resume => Ok(paused.then(|| (PAUSER, json!({"spec": {"paused": false}})))),
        _ => Err(Error::new(ErrorKind::Unsupported(Some(action.feature())), "Kubernetes has no canary updates")),
    }
}

pub(super) async fn stop(scheduler: &KubernetesScheduler, op: &OnInstance) -> Result<InstanceAnswer> {
    let main = scheduler.require(&op.target, &scheduler_core::Guard::IfOwned).await?;
    // Of a StatefulSet the id has a dot and part of the uid behind the name.
    let name = op.instance.split_once('.').map_or(op.instance.as_str(), |(name, _)| name);
    let namespace = op.target.namespace.as_str();
    let pod: Option<Value> = match scheduler.client.get(&Resource::POD, Some(namespace), name).await {
        // No id of ours.
        Err(error) if error.kind() == client::ErrorKind::InvalidRequest => None,
        found => found.map_err(|error| translate(&error))?,
    };
    let Some(pod) = pod.filter(|pod| observe::instance_id(main.kind, pod) == op.instance) else {
        return Err(unknown(op));
    };
    if !is_instance(scheduler, &main, &pod, namespace).await? {
        return Err(unknown(op));
    }
    if is_deleting(&pod) || observe::has_ended(&pod["status"]) {
        return Ok(InstanceAnswer::WasEnding);
    }
    let delete = client::Delete::new(&Resource::POD, Some(namespace), name, Propagation::Background);
    let deletion = scheduler.client.delete(delete.uid(text(&pod, "uid"))).await.map_err(|error| translate(&error));
    match deletion {
        Ok(deletion) if matches!(deletion.outcome, client::Deleted::WasAbsent) => Ok(InstanceAnswer::WasEnding),
        Ok(_) => Ok(InstanceAnswer::Told),
        // Another one has its name now.
        Err(error) if lost_a_race(&error) => Ok(InstanceAnswer::WasEnding),
        Err(error) => Err(error),
    }
}

fn unknown(op: &OnInstance) -> Error {
    Error::new(ErrorKind::NotFound(Missing::Instance), format!("there is no instance {:?} of it", op.instance))
}

/// Whether a Pod leads to this main object by its controllers. Cost: one GET for a Deployment and a CronJob.
pub(super) async fn is_instance(
    scheduler: &KubernetesScheduler,
    main: &Main,
    pod: &Value,
    namespace: &str,
) -> Result<bool> {
    let between = match main.kind {
        MainKind::Deployment | MainKind::CronJob => main.kind.between(),
        MainKind::StatefulSet | MainKind::DaemonSet | MainKind::Job => None,
    };
    let Some(between) = between else { return Ok(observe::controller(pod) == Some(main.uid())) };
    let owners = pod["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let Some(owner) = owners.into_iter().find(|owner| owner["controller"] == true && owner["kind"] == between.kind)
    else {
        return Ok(false);
    };
    let name = owner["name"].as_str().unwrap_or_default();
    let found: Option<Value> =
        scheduler.client.get(between, Some(namespace), name).await.map_err(|error| translate(&error))?;
    Ok(found.is_some_and(|object| {
        object["metadata"]["uid"] == owner["uid"] && observe::controller(&object) == Some(main.uid())
    }))
}
