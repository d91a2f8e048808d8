//! The reads. Each one looks at the state and answers; a blocking query repeats it until its index has moved.

use serde_json::{Value, json};

use super::{
    access::{Caller, Need},
    answer::Answer,
    filter::Filter,
    query::Query,
};
use crate::{
    cluster::{Alloc, Deployment, Entry, Eval, Refusal, State, render},
    job::JobKey,
};

/// What a read looks at.
pub(crate) struct Look<'a> {
    pub(crate) state: &'a State,
    pub(crate) caller: &'a Caller,
    pub(crate) query: &'a Query,
}

type Outcome = Result<Answer, Refusal>;

impl Look<'_> {
    /// A read below `/v1/job/<id>`.
    pub(crate) fn job(&self, id: &str, part: &str) -> Outcome {
        let (state, namespace) = (self.state, self.query.namespace());
        self.caller.need(Need::Read, namespace)?;
        let key = (namespace.to_owned(), id.to_owned());
        let entry = state.jobs.get(&key);
        let tables = &state.tables;
        match part {
            "" => self
                .of_job(entry, tables.jobs, "job not found", |_, job| (job.modify_index, Value::Object(job.to_json()))),
            "summary" => self.of_job(entry, tables.summaries, "job not found", |entry, job| {
                (entry.summary.modify_index, render::summary(job, &entry.summary))
            }),
            "versions" => match entry.and_then(|entry| Some((entry, entry.current()?))) {
                None => Ok(Answer::text(404, Some(tables.jobs), "job versions not found")),
                Some((entry, job)) => self.versions(entry, job),
            },
            "scale" => self.of_job(entry, state.index, "job not found", |entry, _| self.scale(&key, entry)),
            "submission" => self.submission(entry),
            "allocations" => {
                let all = state.allocs_of(&key).map(render::alloc_stub).collect::<Vec<_>>();
                Ok(Answer::json(tables.allocs, all))
            }
            "evaluations" => {
                let all = state.evals.values().filter(|eval| eval.job == key).map(render::eval);
                Ok(Answer::json(tables.evals, all.collect::<Vec<_>>()))
            }
            "deployments" => {
                let all = state.deployments.values().filter(|deployment| deployment.job == key).map(render::deployment);
                Ok(Answer::json(tables.deployments, all.collect::<Vec<_>>()))
            }
            "deployment" => {
                let latest = state.latest_deployment(&key).map(render::deployment);
                Ok(Answer::json(tables.deployments, latest))
            }
            "services" => match entry.and_then(Entry::current) {
                None => Ok(Answer::text(404, Some(0), "job not found")),
                Some(_) => {
                    let all = self.registrations(|of| of.job == key.1 && of.namespace == key.0);
                    Ok(Answer::json(tables.services, all))
                }
            },
            "actions" if entry.is_none() => Err(Refusal::new(500, format!("Unknown job {id:?}"))),
            _ => Err(Refusal::unrecorded(format!("GET /v1/job/:id/{part}"))),
        }
    }

    fn of_job(
        &self,
        entry: Option<&Entry>,
        absent_index: u64,
        absent: &str,
        of: impl FnOnce(&Entry, &crate::job::Job) -> (u64, Value),
    ) -> Outcome {
        let Some((entry, job)) = entry.and_then(|entry| entry.current().map(|job| (entry, job))) else {
            return Ok(Answer::text(404, Some(absent_index), absent));
        };
        let (index, json) = of(entry, job);
        Ok(Answer::json(index, json))
    }

    fn scale(&self, key: &JobKey, entry: &Entry) -> (u64, Value) {
        let mut index = 0;
        let mut groups = serde_json::Map::new();
        let Some(job) = entry.current() else { return (0, Value::Null) };
        for group in &job.spec.view.groups {
            let live = self
                .state
                .allocs_of(key)
                .filter(|alloc| alloc.group == group.name && !alloc.is_terminal() && !alloc.canary);
            let live: Vec<_> = live.collect();
            let count = |what: &dyn Fn(&Alloc) -> bool| live.iter().filter(|alloc| what(alloc)).count();
            let health = |healthy: bool| move |alloc: &Alloc| alloc.health.is_some_and(|h| h.healthy == healthy);
            let events = entry.scaling.get(&group.name);
            let latest_event = events.and_then(|events| events.first()).and_then(|event| event["CreateIndex"].as_u64());
            index = index.max(latest_event.unwrap_or(0));
            let json = json!({
                "Desired": group.count, "Placed": live.len(), "Running": count(&|alloc| alloc.status.text() == "running"),
                "Healthy": count(&health(true)), "Unhealthy": count(&health(false)), "Events": events,
            });
            groups.insert(group.name.clone(), json);
        }
        let allocs = self.state.allocs_of(key).map(|alloc| alloc.modify_index).max().unwrap_or(0);
        let json = json!({
            "JobID": key.1, "Namespace": key.0, "JobCreateIndex": job.create_index, "JobModifyIndex": job.modify_index,
            "JobStopped": job.stop, "TaskGroups": groups,
        });
        (index.max(allocs).max(job.modify_index), json)
    }

    fn submission(&self, entry: Option<&Entry>) -> Outcome {
        let Ok(version) = self.query.text("version").parse::<u64>() else {
            return Err(Refusal::new(400, "Unable to parse job submission version parameter"));
        };
        let found = entry.and_then(|entry| {
            let job = entry.versions().iter().find(|job| job.version == version)?;
            Some((job, entry.submissions.get(&version)?))
        });
        Ok(match found {
            Some((job, submission)) => Answer::json(job.job_modify_index, render::submission(job, submission)),
            None => Answer::text(404, Some(0), "job source not found"),
        })
    }

    pub(crate) fn jobs(&self) -> Outcome {
        let namespace = self.query.namespace();
        self.caller.need_list(namespace)?;
        let page = self.query.page()?;
        let filter = self.filter()?;
        let mut stubs = Vec::new();
        for ((of, id), entry) in &self.state.jobs {
            let Some(job) = entry.current() else { continue };
            let wanted = (namespace == of || (namespace == "*" && self.caller.may(Need::Read, of)))
                && id.starts_with(self.query.text("prefix"));
            if wanted && filter.as_ref().map_or(Ok(true), |filter| filter.accepts(&Value::Object(job.to_json())))? {
                let stub = render::job_stub(job, &entry.summary, self.query.is_true("meta"));
                stubs.push((format!("{of}.{id}"), stub));
            }
        }
        let index = self.state.tables.jobs.max(self.state.tables.summaries);
        let (stubs, next) = page.cut(stubs, |(token, _)| token.clone());
        let stubs: Vec<_> = stubs.into_iter().map(|(_, stub)| stub).collect();
        Ok(Answer::json(index, stubs).next(next))
    }

    /// An overview of the jobs that were asked for by name.
    pub(crate) fn statuses(&self, asked: &[JobKey]) -> Outcome {
        if !self.caller.may(Need::Read, "*")
            && asked.iter().all(|(namespace, _)| !self.caller.may(Need::Read, namespace))
        {
            return Err(Refusal::permission());
        }
        let mut index = 0;
        let mut statuses = Vec::new();
        for (key, entry) in asked.iter().filter_map(|key| Some((key, self.state.jobs.get(key)?))) {
            let Some(job) = entry.current().filter(|_| self.caller.may(Need::Read, &key.0)) else { continue };
            let allocs: Vec<_> = self.state.allocs_of(key).collect();
            let deployment = self.state.latest_deployment(key);
            let newest = allocs.iter().map(|alloc| alloc.modify_index).chain(deployment.map(|d| d.modify_index));
            index = newest.chain([index, job.modify_index, entry.summary.modify_index]).max().unwrap_or(0);
            let json = job.to_json();
            let taken = |name: &str| json.get(name).cloned().unwrap_or_default();
            let allocs: Vec<_> = allocs.into_iter().map(alloc_status).collect();
            statuses.push((job.modify_index, json!({
                "ID": key.1, "Namespace": key.0, "Name": job.spec.view.name, "Type": job.spec.view.kind,
                "NodePool": job.spec.view.node_pool, "Datacenters": taken("Datacenters"),
                "Priority": job.spec.view.priority, "Version": job.version, "SubmitTime": job.submit_time,
                "ModifyIndex": job.modify_index, "ParentID": job.spec.view.parent_id,
                "ChildStatuses": job.is_parent().then(|| self.child_statuses(key)), "IsPack": false,
                "Stop": job.stop, "Status": job.status.text(), "Allocs": if allocs.is_empty() { Value::Null } else { json!(allocs) },
                "GroupCountSum": job.spec.view.groups.iter().map(|group| group.count).sum::<i64>(),
                "LatestDeployment": deployment.map(deployment_status),
            })));
        }
        statuses.sort_by_key(|(modified, _)| std::cmp::Reverse(*modified));
        Ok(Answer::json(index, statuses.into_iter().map(|(_, status)| status).collect::<Vec<_>>()))
    }

    fn child_statuses(&self, key: &JobKey) -> Vec<&'static str> {
        self.state.child_jobs(key).map(|child| child.status.text()).collect()
    }

    pub(crate) fn evaluations(&self, count: bool) -> Outcome {
        let (job, status) = (self.query.text("job"), self.query.text("status"));
        if self.query.get("filter").is_some() && !(count || job.is_empty() && status.is_empty()) {
            return Err(Refusal::new(400, "Filter expression cannot be used with other filter parameters"));
        }
        let prefix = self.id_prefix("eval")?;
        let tables = self.state.tables.evals;
        let namespace = |eval: &Eval| eval.job.0.clone();
        let wanted = |eval: &Eval| {
            (job.is_empty() || count || eval.job.1 == job) && (status.is_empty() || eval.status.text() == status)
        };
        let all = self.state.evals.values().filter(|eval| wanted(eval) && eval.id.starts_with(&prefix));
        let items = self.list(all, namespace, render::eval)?;
        if count {
            let json = json!({
                "Count": items.len(), "Index": tables, "KnownLeader": true, "LastContact": 0, "NextToken": "",
            });
            return Ok(Answer::json(tables, json));
        }
        self.page(items, tables)
    }

    pub(crate) fn allocations(&self) -> Outcome {
        let prefix = self.id_prefix("alloc")?;
        let all = self.state.allocs.values().filter(|alloc| alloc.id.starts_with(&prefix));
        let items = self.list(all, |alloc| alloc.job.spec.view.namespace.clone(), render::alloc_stub)?;
        self.page(items, self.state.tables.allocs)
    }

    pub(crate) fn deployments(&self) -> Outcome {
        let prefix = self.id_prefix("deployment")?;
        let all = self.state.deployments.values().filter(|deployment| deployment.id.starts_with(&prefix));
        let items = self.list(all, |deployment| deployment.job.0.clone(), render::deployment)?;
        self.page(items, self.state.tables.deployments)
    }

    pub(crate) fn evaluation(&self, id: &str) -> Outcome {
        full_id(id, "failed to lookup eval: eval lookup failed")?;
        let Some(eval) = self.state.evals.get(id) else {
            self.caller.need(Need::Read, self.query.namespace())?;
            return Ok(Answer::text(404, Some(self.state.tables.evals), "eval not found"));
        };
        self.caller.need(Need::Read, &eval.job.0)?;
        let mut json = render::eval(eval);
        if self.query.is_true("related") {
            let linked = |other: &&Eval| {
                let mut links = [&eval.next, &eval.previous, &eval.blocked].into_iter().flatten();
                let back =
                    [&other.next, &other.previous, &other.blocked].into_iter().flatten().any(|link| *link == eval.id);
                back || links.any(|link| *link == other.id)
            };
            let related: Vec<_> = self.state.evals.values().filter(linked).map(render::eval_stub).collect();
            if !related.is_empty() {
                json["RelatedEvals"] = Value::Array(related);
            }
        }
        Ok(Answer::json(eval.modify_index, json))
    }

    pub(crate) fn allocation(&self, id: &str) -> Outcome {
        full_id(id, "alloc lookup failed")?;
        let found = self.state.allocs.get(id);
        let namespace = found.map_or(self.query.namespace(), |alloc| &alloc.job.spec.view.namespace);
        if !self.caller.may(Need::Read, namespace) {
            // Who may not read it is told that it is not there.
            return Err(Refusal::new(500, format!("Unknown allocation {id:?}")));
        }
        Ok(match found {
            None => Answer::text(404, Some(self.state.tables.allocs), "alloc not found"),
            Some(alloc) => Answer::json(alloc.modify_index, render::alloc(alloc, true)),
        })
    }

    /// The service registrations of an allocation.
    pub(crate) fn allocation_services(&self, id: &str) -> Outcome {
        let Some(alloc) = self.state.allocs.get(id) else {
            self.caller.need(Need::Read, self.query.namespace())?;
            return Ok(Answer::text(404, Some(0), "allocation not found"));
        };
        self.caller.need(Need::Read, &alloc.job.spec.view.namespace)?;
        Ok(Answer::json(self.state.tables.services, self.registrations(|of| of.alloc == id)))
    }

    pub(crate) fn deployment(&self, id: &str) -> Outcome {
        // The right is checked on the namespace of the request, whatever the deployment's is.
        self.caller.need(Need::Read, self.query.namespace())?;
        full_id(id, "deployment lookup failed")?;
        Ok(match self.state.deployments.get(id) {
            None => Answer::text(404, Some(self.state.tables.deployments), "deployment not found"),
            Some(deployment) => Answer::json(deployment.modify_index, render::deployment(deployment)),
        })
    }

    /// The allocations that an evaluation or a deployment made.
    pub(crate) fn allocations_of(&self, belongs: impl Fn(&Alloc) -> bool) -> Outcome {
        self.caller.need(Need::Read, self.query.namespace())?;
        let all = self.state.allocs.values().filter(|alloc| belongs(alloc)).map(render::alloc_stub);
        Ok(Answer::json(self.state.tables.allocs, all.collect::<Vec<_>>()))
    }

    pub(crate) fn nodes(&self) -> Outcome {
        self.caller.need(Need::Management, "")?;
        let mut nodes: Vec<_> = self.state.nodes.iter().collect();
        nodes.sort_by(|one, other| one.id.cmp(&other.id));
        let nodes: Vec<_> = nodes.into_iter().map(render::node).collect();
        Ok(Answer::json(self.state.tables.nodes, nodes))
    }

    pub(crate) fn namespaces(&self) -> Outcome {
        let prefix = self.query.text("prefix");
        let visible = self.state.namespaces.values().filter(|namespace| self.caller.may(Need::Read, &namespace.name));
        let wanted = visible.filter(|namespace| namespace.name.starts_with(prefix));
        Ok(Answer::json(self.state.tables.namespaces, wanted.map(render::namespace).collect::<Vec<_>>()))
    }

    pub(crate) fn namespace(&self, name: &str) -> Outcome {
        self.caller.need(Need::Read, name)?;
        Ok(match self.state.namespaces.get(name) {
            None => Answer::text(404, Some(self.state.tables.namespaces), "Namespace not found"),
            Some(namespace) => Answer::json(namespace.modify_index, render::namespace(namespace)),
        })
    }

    pub(super) fn filter(&self) -> Result<Option<Filter>, Refusal> {
        self.query.get("filter").filter(|filter| !filter.is_empty()).map(Filter::parse).transpose()
    }

    fn list<'a, T: 'a>(
        &self,
        all: impl Iterator<Item = &'a T>,
        namespace_of: impl Fn(&T) -> String,
        render: impl Fn(&T) -> Value,
    ) -> Result<Vec<Value>, Refusal> {
        let namespace = self.query.namespace();
        self.caller.need_list(namespace)?;
        let filter = self.filter()?;
        let mut items = Vec::new();
        for item in all {
            let of = namespace_of(item);
            if of == namespace || (namespace == "*" && self.caller.may(Need::Read, &of)) {
                let json = render(item);
                if filter.as_ref().map_or(Ok(true), |filter| filter.accepts(&json))? {
                    items.push(json);
                }
            }
        }
        Ok(items)
    }

    fn page(&self, items: Vec<Value>, index: u64) -> Outcome {
        let id = |item: &Value| item["ID"].as_str().unwrap_or_default().to_owned();
        let (items, next) = self.query.page()?.cut(items, id);
        Ok(Answer::json(index, items).next(next))
    }

    fn id_prefix(&self, of: &str) -> Result<String, Refusal> {
        let prefix = self.query.text("prefix");
        let digits = prefix.replace('-', "");
        let wrong = |why: String| Err(Refusal::new(500, format!("{of} lookup failed: index error: {why}")));
        if let Some(odd) = digits.chars().find(|c| !c.is_ascii_hexdigit()) {
            let code = u32::from(odd);
            return wrong(format!("Invalid UUID: encoding/hex: invalid byte: U+{code:04X} '{odd}'"));
        }
        if digits.len() % 2 == 1 {
            return wrong("Input (without hyphens) must be even length".to_owned());
        }
        Ok(prefix.to_owned())
    }
}

fn alloc_status(alloc: &Alloc) -> Value {
    let healthy = alloc.health.map(|health| health.healthy);
    let health = (alloc.canary || healthy.is_some()).then(|| json!({"Canary": alloc.canary, "Healthy": healthy}));
    json!({
        "ID": alloc.id, "Group": alloc.group, "ClientStatus": alloc.status.text(), "NodeID": alloc.node,
        "DeploymentStatus": health, "JobVersion": alloc.job.version,
        "FollowupEvalID": alloc.followup.as_deref().unwrap_or(""), "HasPausedTask": false,
    })
}

fn deployment_status(deployment: &Deployment) -> Value {
    json!({
        "ID": deployment.id, "IsActive": deployment.is_active(), "JobVersion": deployment.job_version,
        "Status": deployment.status.text(), "StatusDescription": deployment.description(),
        // Where there are no canaries at all, this holds as well.
        "AllAutoPromote": deployment.promotes_itself(), "RequiresPromotion": deployment.awaits_promotion(),
    })
}

/// A read by ID takes no abbreviation.
fn full_id(id: &str, what: &str) -> Result<(), Refusal> {
    if id.len() == 36 {
        return Ok(());
    }
    Err(Refusal::new(500, format!("{what}: index error: UUID must be 36 characters")))
}
