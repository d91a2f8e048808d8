//! What a registration takes over from the live job, since it replaces the job as a whole.
//!
//! Other operations than launch write into a job, too: a restart its mark, `expose` its tags. A launch renders nothing of
//! that, and leaves it.

use std::collections::BTreeMap;

use scheduler_nomad_client::model::{Job, Task, TaskGroup};

use crate::{meta, routes};

/// The keys of the job's `Meta` that no launch renders.
const META: [&str; 2] = [meta::BORN, meta::RUN_OF];

/// Puts into the rendered job what of the live one is to stay. Answers what cannot: the ports whose routes go.
pub(crate) fn over(live: &Job, rendered: &mut Job) -> Vec<String> {
    copy(&META, &live.meta, &mut rendered.meta);
    let mut lost = Vec::new();
    for group in &mut rendered.task_groups {
        let Some(live) = own_group(live, &group.name) else { continue };
        for task in &mut group.tasks {
            if let Some(live) = live.tasks.iter().find(|live| live.name == task.name) {
                copy(&[meta::RESTART], &live.meta, &mut task.meta);
            }
        }
        for service in &live.services {
            let mut tags = service.tags.iter().filter(|tag| routes::is_ours(&service.tags, tag)).cloned().peekable();
            if tags.peek().is_none() {
                continue;
            }
            match group.services.iter_mut().find(|rendered| rendered.port_label == service.port_label) {
                Some(rendered) => rendered.tags.extend(tags),
                None => lost.push(service.port_label.clone()),
            }
        }
    }
    lost
}

fn copy(keys: &[&str], from: &BTreeMap<String, String>, to: &mut BTreeMap<String, String>) {
    let kept = keys.iter().filter_map(|key| from.get_key_value(*key));
    to.extend(kept.map(|(key, text)| (key.clone(), text.clone())));
}

/// The group of a workload's instances: the one of the job's own name, or the only one.
pub(crate) fn own_group<'a>(job: &'a Job, name: &str) -> Option<&'a TaskGroup> {
    job.task_groups.iter().find(|group| group.name == name).or(job.task_groups.first())
}

/// The task of the main container: the one that is neither an init container nor a sidecar.
pub(crate) fn main_task(job: &Job) -> Option<&Task> {
    own_group(job, &job.id)?.tasks.iter().find(|task| task.lifecycle.is_none())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn job(change: impl FnOnce(&mut Value)) -> Job {
        let mut job = json!({
            "ID": "web", "Meta": {"team": "blue"},
            "TaskGroups": [{
                "Name": "web",
                "Services": [{"Name": "web--http", "PortLabel": "http"}],
                "Tasks": [
                    {"Name": "init", "Lifecycle": {"Hook": "prestart"}, "Meta": {"scheduler/image": "i:1"}},
                    {"Name": "main"},
                ],
            }],
        });
        change(&mut job);
        serde_json::from_value(job).unwrap()
    }

    #[test]
    fn what_other_operations_wrote_stays_and_nothing_else() {
        let live = job(|live| {
            live["Meta"] = json!({"scheduler/born": "7", "scheduler/run-of": "tick", "note": "x"});
            let group = &mut live["TaskGroups"][0];
            group["Services"][0]["Tags"] = json!(["mine", "scheduler.route=a.example", "traefik.enable=true"]);
            group["Tasks"][1]["Meta"] = json!({"scheduler/restart": "9", "scheduler/image": "web:1"});
        });
        let mut rendered = job(|_| ());
        assert_eq!(over(&live, &mut rendered), Vec::<String>::new());
        let expected = job(|job| {
            job["Meta"] = json!({"scheduler/born": "7", "scheduler/run-of": "tick", "team": "blue"});
            let group = &mut job["TaskGroups"][0];
            group["Services"][0]["Tags"] = json!(["scheduler.route=a.example", "traefik.enable=true"]);
            group["Tasks"][1]["Meta"] = json!({"scheduler/restart": "9"});
        });
        assert_eq!(rendered, expected);
        // A port that is gone has no routes.
        let mut other = job(|job| job["TaskGroups"][0]["Services"][0]["PortLabel"] = "admin".into());
        assert_eq!(over(&live, &mut other), ["http"]);
        assert_eq!(main_task(&live).map(|task| task.name.as_str()), Some("main"));
    }
}
