//! A backend that outlives the platform: files in a folder.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use scheduler_core::Support;
use scheduler_core::hooks::{Domain, Event, HookError, HookName, LifecycleHooks, Outcome};

use crate::child::step;

/// Makes the routes of an app be the domains of its model.
#[derive(Debug)]
pub(crate) struct Routes(pub(crate) PathBuf);

fn log(folder: &Path) -> PathBuf {
    folder.join("told.log")
}

/// Every event that a hook was told, with its app, in the order in which that began.
pub(crate) fn told(folder: &Path) -> Vec<(String, String)> {
    let text = fs::read_to_string(log(folder)).unwrap_or_default();
    let pair = |line: &str| line.split_once(' ').map(|(app, event)| (app.to_owned(), event.to_owned()));
    text.lines().filter_map(pair).collect()
}

/// The hosts that lead to an app.
pub(crate) fn routes(folder: &Path, app: &str) -> Vec<String> {
    let text = fs::read_to_string(folder.join(format!("{app}.routes"))).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

impl Routes {
    async fn make(&self, event: &Event) -> Result<Outcome, HookError> {
        let app = &event.app.name;
        step("a hook begins").await;
        // One write, which the file has as a whole or not at all.
        let mut file = OpenOptions::new().create(true).append(true).open(log(&self.0)).map_err(trouble)?;
        file.write_all(format!("{app} {}\n", event.id).as_bytes()).map_err(trouble)?;
        step("a hook is in the middle").await;
        let (path, new) = (self.0.join(format!("{app}.routes")), self.0.join(format!("{app}.new")));
        let hosts: String = event.app.domains.iter().map(|domain| format!("{}\n", domain.host)).collect();
        fs::write(&new, hosts).and_then(|()| fs::rename(&new, &path)).map_err(trouble)?;
        step("a hook ends").await;
        Ok(Outcome::Applied)
    }
}

fn trouble(error: std::io::Error) -> HookError {
    HookError::transient(error.to_string())
}

#[async_trait]
impl LifecycleHooks for Routes {
    fn name(&self) -> &str {
        "routes"
    }

    fn supports(&self, _: HookName) -> Support {
        Support::Yes
    }

    async fn post_domain_add(&self, event: &Event, _: &Domain) -> Result<Outcome, HookError> {
        self.make(event).await
    }

    async fn post_domain_remove(&self, event: &Event, _: &Domain) -> Result<Outcome, HookError> {
        self.make(event).await
    }
}
