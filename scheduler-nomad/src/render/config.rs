//! Configurations: what a task has of the variable that all of them are in.
//!
//! One variable, `nomad/jobs/<job>`, is what a task may read without a policy. In it the item `<name>.<version>` says that a
//! configuration is there, and `<name>.<version>.<key>` are its entries.
//!
//! A template waits for a variable that is absent, and takes an absent *item* for an empty one. So one that needs an item asks
//! whether it is there, and otherwise reads a variable that this library never makes: then the task waits, and the server says
//! what for.

use scheduler_core::{CheckedContainer, CheckedWorkload, ConfigRef, EnvValue, VolumeSource};
use scheduler_nomad_client::model::Job;
use serde_json::{Value, json};

use super::{RenderContext, text};

/// Where files of configurations are, in the folder of a task: memory that nobody reads by way of the server.
const FOLDER: &str = "secrets/config";
/// Where environment variables from configurations are.
const ENV: &str = "secrets/config.env";

/// The path of the variable of a job.
pub(crate) fn variable(job: &str) -> String {
    format!("nomad/jobs/{job}")
}

/// The item that says that this version of a configuration is there.
pub(crate) fn item_of(config: &ConfigRef) -> String {
    format!("{}.{}", config.name, config.version)
}

/// The volumes of a container that are configurations: the volume's name, and which configuration.
pub(super) fn mounted<'a>(
    workload: &'a CheckedWorkload,
    container: &'a CheckedContainer<'_>,
) -> impl Iterator<Item = (&'a str, &'a ConfigRef)> {
    let volumes = workload.volumes.iter().filter_map(|volume| match &volume.source {
        VolumeSource::Config(config) => Some((volume.name.as_str(), config)),
        _ => None,
    });
    volumes.filter(|(name, _)| container.mounts.iter().any(|mount| mount.volume == *name))
}

/// The templates of a task.
pub(super) fn templates(
    workload: &CheckedWorkload,
    container: &CheckedContainer<'_>,
    context: &RenderContext,
) -> Vec<Value> {
    let reader = Reader { job: workload.target().name.as_str(), task: &container.name };
    let mut templates = Vec::new();
    let lines = container.env.iter().filter_map(|var| match &var.value {
        EnvValue::Config(entry) => {
            let item = format!("{}.{}.{}", entry.name, entry.version, entry.key);
            Some(reader.item(&item, &format!("{}={{{{ (index . \"{item}\").Value | toJSON }}}}\n", var.name)))
        }
        _ => None,
    });
    let lines: String = lines.collect();
    if !lines.is_empty() {
        templates.push(template(ENV, true, &reader.variable(&lines)));
    }
    for (volume, config) in mounted(workload, container) {
        let item = item_of(config);
        let keys = context.keys_of(config);
        if keys.is_empty() {
            // Nobody knows its files before it is there, and a launch after that.
            let never = reader.variable(&reader.never());
            templates.push(template(&format!("{FOLDER}/{volume}.absent"), false, &never));
        }
        for key in keys {
            let item = format!("{item}.{key}");
            let text = reader.item(&item, &format!("{{{{ (index . \"{item}\").Value }}}}"));
            templates.push(template(&format!("{FOLDER}/{volume}/{key}"), false, &reader.variable(&text)));
        }
    }
    templates
}

/// The mounts of a container that runs an image, as Docker and Podman take them. What lies in the task's own folder may be
/// mounted also where no others may.
pub(super) fn mounts(workload: &CheckedWorkload, container: &CheckedContainer<'_>) -> Vec<String> {
    let of = |(volume, _)| {
        let mount = container.mounts.iter().find(|mount| mount.volume == volume)?;
        Some(format!("{FOLDER}/{volume}:{}:ro", text::in_config(&mount.path)))
    };
    mounted(workload, container).filter_map(of).collect()
}

/// The keys of the files that a live job makes in a volume: what the configuration had when it was launched.
pub(crate) fn keys_of(live: &Job, volume: &str) -> Vec<String> {
    let templates = live.task_groups.iter().flat_map(|group| &group.tasks).flat_map(|task| &task.templates);
    let folder = format!("{FOLDER}/{volume}/");
    let mut keys: Vec<String> =
        templates.filter_map(|template| template.dest_path.strip_prefix(&folder).map(str::to_owned)).collect();
    keys.sort();
    keys.dedup();
    keys
}

/// Lets a template of one job be one of another.
pub(crate) fn moved(template: &str, from: &str, to: &str) -> String {
    let whole = template.replace(&format!("\"{}\"", variable(from)), &format!("\"{}\"", variable(to)));
    whole.replace(&format!("\"{}/{from}/", variable(from)), &format!("\"{}/{to}/", variable(to)))
}

struct Reader<'a> {
    job: &'a str,
    task: &'a str,
}

impl Reader<'_> {
    /// Waits for the variable, and has its items in the dot.
    fn variable(&self, text: &str) -> String {
        format!("{{{{ with nomadVar \"{}\" }}}}{text}{{{{ end }}}}", variable(self.job))
    }

    /// Waits for an item.
    fn item(&self, item: &str, text: &str) -> String {
        format!("{{{{ if .Keys | contains \"{item}\" }}}}{text}{{{{ else }}}}{}{{{{ end }}}}", self.never())
    }

    /// Waits for what never comes.
    fn never(&self) -> String {
        format!("{{{{ with nomadVar \"{}/{}/{}\" }}}}{{{{ end }}}}", variable(self.job), self.job, self.task)
    }
}

fn template(path: &str, env: bool, text: &str) -> Value {
    let mut template = json!({"DestPath": path, "ChangeMode": "noop", "EmbeddedTmpl": text});
    if env {
        template["Envvars"] = true.into();
    }
    template
}
