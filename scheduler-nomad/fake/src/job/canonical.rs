use serde_json::{Map, Value, json};

use super::{
    fields::{BATCH_RESCHEDULE, BATCH_RESTART, JOB, MIGRATE, REQUEST, RESCHEDULE, UPDATE},
    schema::{DecodeError, Struct, decode},
    spec::Spec,
};

/// The body of a registration or a plan.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) spec: Spec,
    /// The index to check, when one is to be checked.
    pub(crate) check_index: Option<u64>,
    pub(crate) preserve_counts: bool,
    pub(crate) submission: Option<Value>,
    pub(crate) diff: bool,
}

/// What the query says about the job, which wins over what the job says.
pub(crate) fn read_request(body: &[u8], namespace: Option<&str>) -> Result<Request, DecodeError> {
    let refused = |text: &str| DecodeError::Refused(text.to_owned());
    if body.is_empty() {
        return Err(refused("Request body is empty"));
    }
    // What follows the first value is not looked at.
    let mut values = serde_json::Deserializer::from_slice(body).into_iter::<Value>();
    let body = match values.next() {
        Some(Ok(body)) => body,
        Some(Err(error)) if !error.is_eof() => {
            return Err(DecodeError::Unrecorded(format!("JSON that is malformed in this way ({error})")));
        }
        _ => return Err(refused("unexpected EOF")),
    };
    let request = decode(&REQUEST, &body, "")?;
    let sent = match request.get("Job") {
        None | Some(Value::Null) if job_key(&body).is_none() => return Err(refused("Job must be specified")),
        None | Some(Value::Null) => json!({}),
        Some(job) => job.clone(),
    };
    let has_id = sent.as_object().is_none_or(|job| job.keys().any(|key| key.eq_ignore_ascii_case("ID")));
    let json = decode(&JOB, &sent, "Job")?;
    if !has_id {
        return Err(refused("Job ID hasn't been provided"));
    }
    let flag = |name: &str| request.get(name) == Some(&Value::Bool(true));
    Ok(Request {
        spec: canonical(json, &sent, namespace)?,
        check_index: flag("EnforceIndex").then(|| request.get("JobModifyIndex").and_then(Value::as_u64).unwrap_or(0)),
        preserve_counts: flag("PreserveCounts"),
        submission: request.get("Submission").filter(|submission| !submission.is_null()).cloned(),
        diff: flag("Diff"),
    })
}

/// An empty object is dropped by [`decode`], but a job that is empty is not one that is missing.
fn job_key(body: &Value) -> Option<&Value> {
    let (_, job) = body.as_object()?.iter().find(|(key, _)| key.eq_ignore_ascii_case("Job"))?;
    (!job.is_null()).then_some(job)
}

/// Defaults that depend on other fields.
fn canonical(mut job: Map<String, Value>, sent: &Value, namespace: Option<&str>) -> Result<Spec, DecodeError> {
    let said = job.get("Namespace").and_then(Value::as_str).unwrap_or_default();
    let namespace = namespace.filter(|name| !name.is_empty()).unwrap_or(if said.is_empty() { "default" } else { said });
    let namespace = json!(namespace);
    if is_empty(job.get("Name")) {
        let id = job.get("ID").cloned().unwrap_or_default();
        job.insert("Name".to_owned(), id);
    }
    if job.get("Priority") == Some(&json!(0)) {
        job.insert("Priority".to_owned(), json!(50));
    }
    if is_empty(job.get("Type")) {
        job.insert("Type".to_owned(), json!("service"));
    }
    if is_empty(job.get("Region")) {
        job.insert("Region".to_owned(), json!("global"));
    }
    if is_empty(job.get("NodePool")) {
        job.insert("NodePool".to_owned(), json!("default"));
    }
    let kind = job.get("Type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let batch = kind.ends_with("batch");
    if batch {
        no_update(&mut job);
    }
    let job_id = job.get("ID").cloned().unwrap_or_default();
    let groups_sent = sent_list(sent, "TaskGroups");
    for (position, group) in objects(&mut job, "TaskGroups").enumerate() {
        let defaults: &[(&str, &'static Struct)] = match kind.as_str() {
            "service" => &[("Migrate", &MIGRATE), ("ReschedulePolicy", &RESCHEDULE), ("Update", &UPDATE)],
            "system" => &[("Update", &UPDATE)],
            _ => &[],
        };
        for (name, kind) in defaults {
            if group.get(*name) == Some(&Value::Null) {
                group.insert((*name).to_owned(), Value::Object(decode(kind, &Value::Null, "")?));
            }
        }
        let sent = groups_sent.get(position).unwrap_or(&Value::Null);
        scale(group, sent, (&job_id, &namespace));
        if batch {
            let policies: [(&str, &'static Struct); 2] =
                [("RestartPolicy", &BATCH_RESTART), ("ReschedulePolicy", &BATCH_RESCHEDULE)];
            for (name, defaults) in policies.into_iter().filter(|(name, _)| kind == "batch" || *name == "RestartPolicy")
            {
                group.insert(name.to_owned(), Value::Object(decode(defaults, &sent_field(sent, name), "")?));
            }
        }
        let restart = group.get("RestartPolicy").cloned().unwrap_or_default();
        for task in objects(group, "Tasks") {
            if task.get("RestartPolicy") == Some(&Value::Null) {
                task.insert("RestartPolicy".to_owned(), restart.clone());
            }
            task.get_mut("Config").map(floats);
        }
        let (mut native, mut checked) = (false, false);
        for service in objects(group, "Services") {
            service.insert("Namespace".to_owned(), namespace.clone());
            let task = service.get("TaskName").cloned().unwrap_or_default();
            let nomad = service.get("Provider") == Some(&json!("nomad"));
            native |= nomad;
            for check in objects(service, "Checks") {
                checked |= nomad;
                if is_empty(check.get("TaskName")) {
                    check.insert("TaskName".to_owned(), task.clone());
                }
            }
        }
        if native {
            inject(group, "${attr.nomad.service_discovery}", "=", "true");
        }
        if checked {
            inject(group, "${attr.nomad.version}", "semver", ">= 1.4.0");
        }
        let consul = objects(group, "Services").any(|service| service.get("Provider") == Some(&json!("consul")));
        if consul {
            inject(group, "${attr.consul.version}", "semver", ">= 1.8.0");
        }
    }
    job.insert("Namespace".to_owned(), namespace);
    let view = serde_json::from_value(Value::Object(job.clone()))
        .map_err(|error| DecodeError::Unrecorded(format!("a job of this form ({error})")))?;
    Ok(Spec { json: job, view })
}

/// A policy of scaling says what it is about, and how many there are when the group does not say it.
fn scale(group: &mut Map<String, Value>, sent: &Value, (job, namespace): (&Value, &Value)) {
    let target = json!({"Namespace": namespace, "Job": job, "Group": group.get("Name")});
    let Some(policy) = group.get_mut("Scaling").filter(|policy| policy.is_object()) else { return };
    policy["Target"] = target;
    let min = policy["Min"].clone();
    if sent_field(sent, "Count").is_null() && min.is_number() {
        group.insert("Count".to_owned(), min);
    }
}

/// The update block of a job that has no rollouts.
fn no_update(job: &mut Map<String, Value>) {
    if let Some(update) = job.get_mut("Update") {
        update["MaxParallel"] = json!(0);
        update["Stagger"] = json!(0);
    }
}

fn sent_field(of: &Value, name: &str) -> Value {
    let found = of.as_object().and_then(|of| of.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)));
    found.map(|(_, value)| value.clone()).unwrap_or_default()
}

fn sent_list(of: &Value, name: &str) -> Vec<Value> {
    sent_field(of, name).as_array().cloned().unwrap_or_default()
}

/// The configuration of a driver has no other numbers.
fn floats(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(float) = number.as_f64().and_then(serde_json::Number::from_f64) {
                *number = float;
            }
        }
        Value::Array(list) => list.iter_mut().for_each(floats),
        Value::Object(map) => map.values_mut().for_each(floats),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// The server adds a constraint for what a service needs.
fn inject(group: &mut Map<String, Value>, left: &str, operand: &str, right: &str) {
    let constraint = json!({"LTarget": left, "Operand": operand, "RTarget": right});
    match group.get_mut("Constraints") {
        Some(Value::Array(constraints)) if constraints.contains(&constraint) => {}
        Some(Value::Array(constraints)) => constraints.push(constraint),
        _ => drop(group.insert("Constraints".to_owned(), json!([constraint]))),
    }
}

fn objects<'a>(of: &'a mut Map<String, Value>, list: &str) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    of.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

fn is_empty(value: Option<&Value>) -> bool {
    matches!(value, None | Some(Value::Null)) || value == Some(&json!(""))
}
