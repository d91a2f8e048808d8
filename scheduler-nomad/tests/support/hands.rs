//! Hands that reach behind the scheduler's back.

use scheduler_core::conformance::Failure;
use scheduler_core::{OwnerId, Target};
use scheduler_nomad::client::model::{Job, VariableStub};
use scheduler_nomad::client::{Client, Condition, ErrorKind, ListOptions, Query, Register};
use serde_json::{Value, json};

pub(crate) fn failure(error: impl ToString) -> Failure {
    Failure(error.to_string())
}

/// Whether who changes a job brings along the source that it had.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// As a scale does, and a careful tool.
    Kept,
    /// As everybody else does.
    Lost,
}

/// Reads a job, changes it, and registers it.
pub(crate) async fn change(
    client: &Client,
    target: &Target,
    source: Source,
    change: impl Fn(&mut Value) + Send + Sync,
) -> Result<(), Failure> {
    let (namespace, id) = (target.namespace.as_str(), target.name.as_str());
    loop {
        let job = client.query(&Query::job(namespace, id)).await.map_err(failure)?.value;
        let job = job.ok_or_else(|| Failure(format!("there is no job {target}")))?;
        let kept = client.query(&Query::submission(namespace, id, job.version)).await.map_err(failure)?.value;
        let condition = Condition::Unchanged { job_modify_index: job.job_modify_index };
        let mut changed = serde_json::to_value(job).map_err(failure)?;
        change(&mut changed);
        let changed: Job = serde_json::from_value(changed).map_err(failure)?;
        let mut register = Register::new(&changed, condition);
        if let Some(kept) = kept.as_ref().filter(|_| source == Source::Kept) {
            register = register.submission(kept);
        }
        match client.register(register).await {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            Err(error) => return Err(failure(error)),
        }
    }
}

/// Makes a job of this name, with this owner's mark or none, that runs one task.
pub(crate) async fn make_foreign(
    client: &Client,
    target: &Target,
    owner: Option<OwnerId>,
    task: Value,
) -> Result<(), Failure> {
    let meta = owner.map_or(json!({}), |owner| json!({"scheduler/owner": owner.as_str()}));
    let job = json!({
        "ID": target.name.as_str(), "Namespace": target.namespace.as_str(), "Type": "service", "Meta": meta,
        "TaskGroups": [{"Name": "other", "Tasks": [task]}],
    });
    let job: Job = serde_json::from_value(job).map_err(failure)?;
    client.register(Register::new(&job, Condition::Absent)).await.map(drop).map_err(failure)
}

/// Every job of the namespace that is not gone, and every variable, with its version.
pub(crate) async fn objects(client: &Client, namespace: &str) -> Result<Vec<(String, String)>, Failure> {
    let variables = client.query(&Query::variables(namespace, "")).await.map_err(failure)?.value;
    let of = |found: VariableStub| (format!("Variable/{}", found.path), found.modify_index.to_string());
    let mut found: Vec<_> = variables.into_iter().map(of).collect();
    for stub in client.list_jobs(namespace, &ListOptions::new()).await.map_err(failure)?.value {
        if stub.stop && living(client, namespace, &stub.id).await?.is_empty() {
            continue;
        }
        found.push((format!("Job/{}", stub.id), format!("{}.{}", stub.create_index, stub.job_modify_index)));
    }
    found.sort();
    Ok(found)
}

/// The ids of all allocations of the namespace's jobs that have not ended.
pub(crate) async fn instances(client: &Client, namespace: &str) -> Result<Vec<String>, Failure> {
    let mut found = Vec::new();
    for stub in client.list_jobs(namespace, &ListOptions::new()).await.map_err(failure)?.value {
        found.extend(living(client, namespace, &stub.id).await?);
    }
    Ok(found)
}

async fn living(client: &Client, namespace: &str, id: &str) -> Result<Vec<String>, Failure> {
    let allocations = client.query(&Query::job_allocations(namespace, id)).await.map_err(failure)?.value;
    let living = allocations.into_iter().filter(|alloc| !alloc.client_status.is_terminal());
    Ok(living.map(|alloc| alloc.id).collect())
}

/// Takes everything away from a namespace.
pub(crate) async fn clear(client: &Client, namespace: &str) -> Result<(), Failure> {
    for stub in client.list_jobs(namespace, &ListOptions::new()).await.map_err(failure)?.value {
        client.deregister(namespace, &stub.id, true).await.map_err(failure)?;
    }
    for stub in client.query(&Query::variables(namespace, "")).await.map_err(failure)?.value {
        client.delete_variable(namespace, &stub.path, stub.modify_index).await.map_err(failure)?;
    }
    Ok(())
}
