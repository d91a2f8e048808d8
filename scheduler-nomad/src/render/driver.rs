//! Task drivers, and what each makes of a container.

use std::fmt;

use scheduler_core::{CheckedContainer, CheckedWorkload, Error, Fault};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{config, text};

/// Who runs the containers of a workload on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
#[non_exhaustive]
pub enum Driver {
    /// Docker.
    #[default]
    Docker,
    /// Podman.
    Podman,
    /// A program in a chroot of the node. It has no image: the container's command is run.
    Exec,
    /// A program on the node, without any isolation. It has no image: the container's command is run.
    RawExec,
    /// Any other driver, by its name. Its settings are given by
    /// [`NomadExtension::tasks`](super::NomadExtension::tasks).
    Other(String),
}

impl Driver {
    /// Its name on Nomad.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Exec => "exec",
            Self::RawExec => "raw_exec",
            Self::Other(name) => name,
        }
    }

    /// Whether it runs images, in a network of their own.
    pub(super) fn runs_images(&self) -> bool {
        matches!(self, Self::Docker | Self::Podman)
    }

    /// The driver's settings for a container.
    pub(super) fn config(&self, workload: &CheckedWorkload, container: CheckedContainer<'_>) -> Result<Value, Error> {
        let command = words(&container.command);
        let args = words(&container.args);
        let mut settings = Map::new();
        match self {
            Self::Docker | Self::Podman => {
                settings.insert("image".to_owned(), container.image.as_str().into());
                for (setting, words) in [("entrypoint", command), ("args", args)] {
                    if !words.is_empty() {
                        settings.insert(setting.to_owned(), words.into());
                    }
                }
                if !container.ports.is_empty() {
                    let labels = container.ports.iter().map(|port| Value::from(port.name.as_str())).collect();
                    settings.insert("ports".to_owned(), labels);
                }
                let mounts = config::mounts(workload, &container);
                if !mounts.is_empty() {
                    settings.insert("volumes".to_owned(), mounts.into());
                }
                let limit = container.resources.cpu_limit;
                if limit.is_some() && limit == container.resources.cpu_request {
                    settings.insert("cpu_hard_limit".to_owned(), true.into());
                }
            }
            Self::Exec | Self::RawExec => {
                let mut words = command.into_iter();
                let Some(program) = words.next() else {
                    let problem = format!("is missing: the driver {self} runs a program of the node and no image");
                    return Err(refuse(workload, container, "command", problem));
                };
                settings.insert("command".to_owned(), program.into());
                settings.insert("args".to_owned(), words.chain(args).map(Value::from).collect());
            }
            Self::Other(_) if !command.is_empty() || !args.is_empty() => {
                let name = &container.name;
                let problem = format!("says nothing to the driver {self}: give extensions.nomad.tasks.{name}.Config");
                return Err(refuse(workload, container, "command", problem));
            }
            Self::Other(_) => {}
        }
        Ok(json!(settings))
    }
}

fn words(words: &[String]) -> Vec<String> {
    words.iter().map(|word| text::in_config(word)).collect()
}

fn refuse(workload: &CheckedWorkload, container: CheckedContainer<'_>, field: &str, problem: String) -> Error {
    super::fault(super::path_of(workload, &container.name, field), problem)
}

/// One fault of the workload.
pub(super) fn fault(path: String, problem: impl Into<String>) -> Error {
    Error::invalid_argument("the workload cannot be a job").with_causes(vec![Fault::new(path, problem)])
}

impl From<String> for Driver {
    fn from(name: String) -> Self {
        match name.as_str() {
            "docker" => Self::Docker,
            "podman" => Self::Podman,
            "exec" => Self::Exec,
            "raw_exec" => Self::RawExec,
            _ => Self::Other(name),
        }
    }
}

impl From<&str> for Driver {
    fn from(name: &str) -> Self {
        Self::from(name.to_owned())
    }
}

impl From<Driver> for String {
    fn from(driver: Driver) -> Self {
        driver.as_str().to_owned()
    }
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
