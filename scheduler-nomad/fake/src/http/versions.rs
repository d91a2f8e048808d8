//! Requests about the versions of a job.

use serde_json::{Value, json};

use super::{access::Need, answer::Answer, post::Post, read::Look};
use crate::{
    cluster::{Entry, Refusal},
    job::{Job, diff},
};

type Outcome = Result<Answer, Refusal>;

impl Post<'_> {
    pub(crate) fn revert(&mut self, id: &str) -> Outcome {
        let body = self.about_job(id)?;
        let key = self.key(id);
        self.caller.need(Need::Write, &key.0)?;
        let version = body["JobVersion"].as_u64().unwrap_or(0);
        let prior = body["EnforcePriorVersion"].as_u64();
        let receipt = self.state.revert(&key, version, prior, &self.caller.accessor)?;
        Ok(Answer::receipt(&receipt, false, json!({"Warnings": receipt.warnings})).leader_unknown())
    }

    pub(crate) fn stable(&mut self, id: &str) -> Outcome {
        let body = self.about_job(id)?;
        let key = self.key(id);
        self.caller.need(Need::Write, &key.0)?;
        let version = body["JobVersion"].as_u64().unwrap_or(0);
        let index = self.state.set_stable(&key, version, body["Stable"] == true)?;
        Ok(Answer::written(index, json!({"Index": index})))
    }

    /// A tag: `<job>/versions/<name>`.
    pub(crate) fn tag(&mut self, rest: &str, delete: bool) -> Outcome {
        let (id, name) = rest.rsplit_once("/versions/").unwrap_or((rest, ""));
        let key = self.key(id);
        self.caller.need(Need::Write, &key.0)?;
        let (index, tag) = if delete {
            (self.state.untag_version(&key, name)?, json!({"Name": "", "Description": "", "TaggedTime": 0}))
        } else {
            let body = self.json("version tag")?;
            let description = body["Description"].as_str().unwrap_or_default();
            let (index, tag) = self.state.tag_version(&key, name, body["Version"].as_u64(), description)?;
            (index, tag.to_json())
        };
        let mut json = json!({"Index": index, "KnownLeader": false, "LastContact": 0, "NextToken": ""});
        if let (Some(json), Value::Object(tag)) = (json.as_object_mut(), tag) {
            json.extend(tag);
        }
        Ok(Answer::plain_json(json))
    }

    /// A body that has to name the job of the path.
    fn about_job(&self, id: &str) -> Result<Value, Refusal> {
        let body = self.json("request about a job")?;
        match body["JobID"].as_str().unwrap_or_default() {
            "" => Err(Refusal::new(400, "JobID must be specified")),
            named if named != id => Err(Refusal::new(400, "Job ID does not match")),
            _ => Ok(body),
        }
    }
}

impl Look<'_> {
    /// The versions of a job, newest first, and what each changed.
    pub(crate) fn versions(&self, entry: &Entry, job: &Job) -> Outcome {
        let versions = entry.versions();
        let index = versions.iter().map(|job| job.modify_index).max().unwrap_or(job.modify_index);
        let diffs = self.query.is_true("diffs").then(|| self.diffs(entry)).transpose()?;
        let json: Vec<_> = versions.iter().map(|job| Value::Object(job.to_json())).collect();
        let json = json!({
            "Versions": json, "Diffs": diffs, "Index": index, "KnownLeader": true, "LastContact": 0, "NextToken": "",
        });
        Ok(Answer::json(index, json))
    }

    /// Against the one before, or against one that the query names.
    fn diffs(&self, entry: &Entry) -> Result<Vec<Value>, Refusal> {
        let versions = entry.versions();
        let between = |old: &Job, new: &Job| {
            let mut spec = (*new.spec).clone();
            spec.view.stop = new.stop;
            diff(Some((&old.spec, old.stop)), &spec, |_| None)
        };
        let base = if let Some(name) = self.query.get("diff_tag") {
            let tagged = versions.iter().find(|job| job.tag.as_ref().is_some_and(|tag| tag.name == name));
            Some(tagged.ok_or_else(|| Refusal::new(500, format!("tag {name:?} not found")))?)
        } else if let Some(version) = self.query.get("diff_version") {
            let unrecorded = || Refusal::unrecorded("differences against a version that is not there");
            let found = version.parse().ok().and_then(|version| entry.version(version));
            Some(found.ok_or_else(unrecorded)?)
        } else {
            None
        };
        Ok(match base {
            Some(base) => versions.iter().map(|job| between(base, job)).collect(),
            None => versions.iter().zip(versions.iter().skip(1)).map(|(new, old)| between(old, new)).collect(),
        })
    }
}
