//! The writes.

use serde_json::{Value, json};

use super::{
    access::{Caller, Need},
    answer::Answer,
    query::Query,
};
use crate::{
    cluster::{Refusal, ScaleRequest, State, deployments, dry_run, next_launch, render, warnings_of},
    job::{DecodeError, JobKey, Request, diff, multi_error, read_request, unsimulated},
};

/// A request that writes.
pub(crate) struct Post<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) caller: &'a Caller,
    pub(crate) query: &'a Query,
    pub(crate) body: &'a [u8],
}

type Outcome = Result<Answer, Refusal>;

impl From<DecodeError> for Refusal {
    fn from(error: DecodeError) -> Self {
        match error {
            DecodeError::Refused(text) => Self::new(400, text),
            DecodeError::Unrecorded(what) => Self::unrecorded(what),
        }
    }
}

impl Post<'_> {
    /// `id` is the one in the path, when there is one.
    pub(crate) fn register(&mut self, id: Option<&str>) -> Outcome {
        let request = self.job_request()?;
        if id.is_some_and(|id| id != request.spec.view.id) {
            return Err(Refusal::new(400, "Job ID does not match name"));
        }
        self.state.check_job(&request.spec)?;
        self.caller.need(Need::Write, &request.spec.view.namespace)?;
        let receipt = self.state.register(request, &self.caller.accessor)?;
        let warnings = json!({"Warnings": receipt.warnings});
        Ok(Answer::receipt(&receipt, false, warnings))
    }

    pub(crate) fn plan(&mut self, id: &str) -> Outcome {
        let request = self.job_request()?;
        if id != request.spec.view.id {
            return Err(Refusal::new(400, "Job ID does not match"));
        }
        self.state.check_job(&request.spec)?;
        let key = (request.spec.view.namespace.clone(), id.to_owned());
        self.caller.need(Need::Write, &key.0)?;
        if let Some(what) = unsimulated(&request.spec) {
            return Err(Refusal::unrecorded(what));
        }
        let warnings = warnings_of(&request.spec);
        let old = self.state.job(&key).cloned();
        let plan = dry_run(self.state, &key, &request.spec);
        let diff = request.diff.then(|| {
            let old = old.as_ref().map(|job| (&*job.spec, job.stop));
            diff(old, &request.spec, |group| plan.updates.get(group).cloned())
        });
        let updates: serde_json::Map<_, _> =
            plan.updates.iter().map(|(group, updates)| (group.clone(), updates.to_json())).collect();
        let failed: serde_json::Map<_, _> =
            plan.failed.iter().map(|(group, metric)| (group.clone(), render::metric(metric))).collect();
        let created = plan.blocked.as_ref().map(|eval| json!([render::eval(eval)]));
        let index = old.map_or(0, |job| job.job_modify_index);
        let periodic = request.spec.view.periodic.as_ref();
        let next = periodic.and_then(|periodic| next_launch(periodic, self.state.now)).map(|at| at.to_string());
        let json = json!({
            "Annotations": {"DesiredTGUpdates": updates, "PreemptedAllocs": null}, "CreatedEvals": created,
            "Diff": diff, "FailedTGAllocs": if failed.is_empty() { Value::Null } else { Value::Object(failed) },
            "Index": index, "JobModifyIndex": index, "NextPeriodicLaunch": next, "Warnings": warnings,
        });
        Ok(Answer::written(index, json))
    }

    pub(crate) fn validate(&mut self) -> Outcome {
        let request = match self.job_request() {
            // A job without an ID is one of the faults to report.
            Err(refusal) if refusal.text == "Job ID hasn't been provided" => {
                let faults = ["Missing job ID", "Missing job name", "Missing job task groups"].map(str::to_owned);
                return Ok(validation(&faults, String::new()));
            }
            other => other?,
        };
        let namespace = &request.spec.view.namespace;
        let exists = self.state.namespaces.contains_key(namespace);
        if exists {
            self.caller.need(Need::Read, namespace)?;
        }
        Ok(validation(&self.state.job_errors(&request.spec), warnings_of(&request.spec)))
    }

    pub(crate) fn deregister(&mut self, id: &str) -> Outcome {
        let key = self.key(id);
        self.caller.need(Need::Write, &key.0)?;
        if self.query.get("global").is_some() || self.query.get("eval_priority").is_some() {
            return Err(Refusal::unrecorded("a stop with these parameters"));
        }
        let purge = self.query.is_true("purge");
        let receipt = self.state.deregister(&key, purge);
        Ok(Answer::receipt(&receipt, false, json!({"VolumeEvalID": "", "VolumeEvalIndex": 0})))
    }

    pub(crate) fn evaluate(&mut self, id: &str) -> Outcome {
        let body = self.json("JobEvaluateRequest")?;
        if body["JobID"].as_str() != Some(id) {
            return Err(Refusal::new(400, "JobID not same as job name"));
        }
        let key = self.key(id);
        self.caller.need(Need::Write, &key.0)?;
        let receipt = self.state.force_evaluation(&key, body["EvalOptions"]["ForceReschedule"] == true)?;
        Ok(Answer::receipt(&receipt, false, json!({"Warnings": ""})))
    }

    pub(crate) fn scale(&mut self, id: &str) -> Outcome {
        let body = self.json("ScalingRequest")?;
        let key = self.key(id);
        self.caller.need(Need::Write, &key.0)?;
        let count = match &body["Count"] {
            Value::Null => None,
            Value::Number(number) => number.as_i64(),
            other => {
                let kind = if other.is_string() { "string" } else { "bool" };
                let text =
                    format!("json: cannot unmarshal {kind} into Go struct field ScalingRequest.Count of type int64");
                return Err(Refusal::new(400, text));
            }
        };
        let request = ScaleRequest {
            count,
            group: body["Target"]["Group"].as_str().map(str::to_owned),
            message: body["Message"].as_str().unwrap_or_default().to_owned(),
            error: body["Error"] == true,
            meta: body["Meta"].clone(),
            check_index: body["JobModifyIndex"].as_u64().unwrap_or(0),
        };
        let receipt = self.state.scale(&key, request)?;
        Ok(Answer::receipt(&receipt, true, json!({"Warnings": ""})))
    }

    /// A write to a deployment: `<what>/<id>`.
    pub(crate) fn deployment(&mut self, rest: &str) -> Outcome {
        let (what, id) = rest.split_once('/').unwrap_or((rest, ""));
        let known = ["promote", "fail", "pause", "allocation-health"].contains(&what);
        if !known {
            return Err(Refusal::unrecorded(format!("/v1/deployment/{what}")));
        }
        let body = self.json("deployment request")?;
        if body["DeploymentID"].as_str() != Some(id) {
            return Err(Refusal::new(400, "Deployment ID does not match"));
        }
        // That there is none is said before the right is checked.
        if let Some(found) = self.state.deployments.get(id) {
            self.caller.need(Need::Write, &found.job.0)?;
        }
        let texts = |key: &str| -> Vec<String> {
            let list = body[key].as_array().into_iter().flatten();
            list.filter_map(|item| item.as_str().map(str::to_owned)).collect()
        };
        let changed = match what {
            "promote" if body["All"] == true => deployments::promote(self.state, id, None),
            "promote" => deployments::promote(self.state, id, Some(&texts("Groups"))),
            "fail" => deployments::fail_by_hand(self.state, id),
            "pause" => deployments::pause(self.state, id, body["Pause"] == true),
            _ if !texts("UnhealthyAllocationIDs").is_empty() => {
                Err(Refusal::unrecorded("allocations that are set to unhealthy"))
            }
            _ => deployments::set_healthy(self.state, id, &texts("HealthyAllocationIDs")),
        }?;
        let created = if changed.eval.is_some() { changed.index } else { 0 };
        let json = json!({
            "EvalID": changed.eval.unwrap_or_default(), "EvalCreateIndex": created, "Index": changed.index,
            "DeploymentModifyIndex": changed.index, "RevertedJobVersion": changed.reverted,
        });
        Ok(Answer::written(changed.index, json))
    }

    pub(crate) fn put_namespace(&mut self, name: Option<&str>) -> Outcome {
        self.caller.need(Need::Management, "")?;
        let body = self.json("Namespace")?;
        let text = |key: &str| body[key].as_str().unwrap_or_default();
        if name.is_some_and(|name| name != text("Name")) {
            return Err(Refusal::new(400, "Namespace name does not match request path"));
        }
        let more = ["Quota", "Capabilities", "NodePoolConfiguration", "VaultConfiguration", "ConsulConfiguration"];
        if let Some(more) = more.into_iter().find(|key| !body[*key].is_null() && body[*key] != "") {
            return Err(Refusal::unrecorded(format!("a namespace with {more}")));
        }
        self.state.put_namespace(text("Name"), text("Description"), body["Meta"].clone()).map(Answer::empty)
    }

    pub(crate) fn delete_namespace(&mut self, name: &str) -> Outcome {
        self.caller.need(Need::Management, "")?;
        self.state.delete_namespace(name).map(Answer::empty)
    }

    pub(super) fn key(&self, id: &str) -> JobKey {
        (self.query.namespace().to_owned(), id.to_owned())
    }

    fn job_request(&self) -> Result<Request, Refusal> {
        let region = self.query.get("region").is_some_and(|region| region != "global" && !region.is_empty());
        if region {
            return Err(Refusal::new(500, "No path to region"));
        }
        Ok(read_request(self.body, self.query.get("namespace"))?)
    }

    pub(super) fn json(&self, what: &str) -> Result<Value, Refusal> {
        if self.body.is_empty() {
            return Err(Refusal::new(400, "Request body is empty"));
        }
        serde_json::from_slice(self.body).map_err(|error| {
            if error.is_eof() {
                Refusal::new(400, "unexpected EOF")
            } else {
                Refusal::unrecorded(format!("a {what} that is malformed in this way ({error})"))
            }
        })
    }
}

fn validation(faults: &[String], warnings: String) -> Answer {
    let (error, list) = match faults {
        [] => (String::new(), Value::Null),
        faults => (multi_error(faults), json!(faults)),
    };
    Answer::plain_json(json!({
        "DriverConfigValidated": true, "ValidationErrors": list, "Error": error, "Warnings": warnings,
    }))
}
