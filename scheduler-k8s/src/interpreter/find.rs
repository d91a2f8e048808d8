//! What is there under a name, and whether an operation may touch it.

use futures_util::future::{try_join, try_join_all, try_join3};
use scheduler_core::{Conflict, Error, ErrorKind, Guard, OwnerId, Result, Target, Version};
use scheduler_k8s_client::{ListOptions, Resource};
use serde_json::Value;

use super::{KubernetesScheduler, history, text};
use crate::error::translate;
use crate::kind::MainKind;
use crate::{labels, observe};

/// A main object as it was read.
#[derive(Clone, Debug)]
pub(super) struct Main {
    pub(super) kind: MainKind,
    pub(super) object: Value,
}

impl Main {
    pub(super) fn uid(&self) -> &str {
        text(&self.object, "uid")
    }

    pub(super) fn version(&self) -> Version {
        observe::version(&self.object)
    }
}

/// The objects of a workload, as a launch decides by them.
pub(super) struct Live {
    pub(super) main: Option<Main>,
    pub(super) service: Option<Value>,
    pub(super) history: Vec<Value>,
}

impl Live {
    /// The versions that a plan is bound to.
    pub(super) fn versions(&self) -> Vec<Version> {
        // A Service has no generation. Hardly anything but a change of its specification writes it.
        let service = self.service.iter();
        let service = service
            .map(|service| Version::new(format!("{}.{}", text(service, "uid"), text(service, "resourceVersion"))));
        self.main.iter().map(Main::version).chain(service).collect()
    }
}

impl KubernetesScheduler {
    pub(super) async fn get(&self, resource: &Resource, target: &Target) -> Result<Option<Value>> {
        let found = self.client.get(resource, Some(target.namespace.as_str()), target.name.as_str()).await;
        found.map_err(|error| translate(&error))
    }

    pub(super) async fn list_of(&self, resource: &Resource, target: &Target, selector: String) -> Result<Vec<Value>> {
        let options = ListOptions::new().label_selector(selector);
        let found = self.client.list(resource, Some(target.namespace.as_str()), &options).await;
        found.map(|list| named(resource, list.items)).map_err(|error| translate(&error))
    }

    pub(crate) fn is_ours(&self, object: &Value) -> bool {
        labels::owner_of(object).as_ref() == Some(&self.owner)
    }

    async fn get_main(&self, kind: MainKind, target: &Target) -> Result<Option<Main>> {
        let object = self.get(kind.resource(), target).await?;
        Ok(object.filter(|object| is_main(kind, object)).map(|object| Main { kind, object }))
    }

    /// The main object of this name: ours if there is one, else somebody else's of any kind.
    ///
    /// Cost: one GET if it is ours and of this kind, else one of each kind.
    async fn find_near(&self, kind: MainKind, target: &Target) -> Result<Option<Main>> {
        let first = self.get_main(kind, target).await?;
        if first.as_ref().is_some_and(|main| self.is_ours(&main.object)) {
            return Ok(first);
        }
        let others = MainKind::ALL.into_iter().filter(|other| *other != kind);
        let others = try_join_all(others.map(|kind| self.get_main(kind, target))).await?;
        let mut found: Vec<Main> = first.into_iter().chain(others.into_iter().flatten()).collect();
        // Stable: of equals, the first.
        found.sort_by_key(|main| !self.is_ours(&main.object));
        Ok(found.into_iter().next())
    }

    /// The main object of this name, of whatever kind.
    ///
    /// Cost: one GET for a Deployment of ours, else five.
    pub(super) async fn find(&self, target: &Target) -> Result<Option<Main>> {
        self.find_near(MainKind::Deployment, target).await
    }

    /// The main object of this name, if it is ours.
    pub(super) async fn find_ours(&self, target: &Target) -> Result<Option<Main>> {
        Ok(self.find(target).await?.filter(|main| self.is_ours(&main.object)))
    }

    /// The main object that an operation changes: it must be there, be ours, not be on its way out, and have the version
    /// that the guard names.
    pub(super) async fn require(&self, target: &Target, guard: &Guard) -> Result<Main> {
        if !matches!(guard, Guard::IfOwned | Guard::IfVersion(_)) {
            return Err(Error::invalid_argument(
                "only IfOwned and IfVersion make sense for what must be there already",
            ));
        }
        let Some(main) = self.find(target).await? else {
            return Err(Error::new(ErrorKind::Conflict(Conflict::Absent), "there is no workload of this name"));
        };
        check_guard(guard, Some(&main), &self.owner)?;
        if is_deleting(&main.object) {
            return Err(deleting(main.kind.as_str()));
        }
        Ok(main)
    }

    /// What a launch of a workload of this kind decides by.
    pub(super) async fn read(&self, kind: MainKind, target: &Target) -> Result<Live> {
        // Also that of an owner from whom it is taken over.
        let history = self.list_of(&Resource::CONTROLLER_REVISION, target, history::anybodys(target));
        let main = self.find_near(kind, target);
        let (main, service, history) = try_join3(main, self.get(&Resource::SERVICE, target), history).await?;
        Ok(Live { main, service, history })
    }

    /// The main object, and the Service of its name, for a delete.
    pub(super) async fn find_with_service(&self, target: &Target) -> Result<(Option<Main>, Option<Value>)> {
        try_join(self.find(target), self.get(&Resource::SERVICE, target)).await
    }
}

/// Objects of a list with what they are, which the server leaves out there.
pub(crate) fn named(resource: &Resource, mut objects: Vec<Value>) -> Vec<Value> {
    for object in &mut objects {
        object["apiVersion"] = resource.api_version().into();
        object["kind"] = resource.kind.into();
    }
    objects
}

/// A Job that a schedule made is no main object: it bears the name of the periodic workload.
fn is_main(kind: MainKind, object: &Value) -> bool {
    let of = object["metadata"]["labels"][labels::TARGET].as_str();
    kind != MainKind::Job || of.is_none_or(|of| of == text(object, "name"))
}

/// What a guard says of the main object as it was read; `Ok` if the operation may go on.
pub(super) fn check_guard(guard: &Guard, main: Option<&Main>, owner: &OwnerId) -> Result<()> {
    let Some(main) = main else {
        return match guard {
            Guard::IfVersion(_) => Err(Error::new(ErrorKind::Conflict(Conflict::Absent), "there is no such workload")),
            _ => Ok(()),
        };
    };
    let (kind, live) = (main.kind.as_str(), &main.object);
    let found = labels::owner_of(live);
    match guard {
        Guard::IfAbsent => Err(exists(kind, found)),
        Guard::Adopt => Ok(()),
        _ if found.as_ref() != Some(owner) => Err(foreign(kind, found)),
        Guard::IfVersion(version) if !is_deleting(live) && *version != main.version() => {
            Err(moved(Some(main), &format!("the {kind} is not at that version")))
        }
        _ => Ok(()),
    }
}

pub(crate) fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

pub(super) fn exists(kind: &str, owner: Option<OwnerId>) -> Error {
    Error::new(ErrorKind::AlreadyExists { owner }, format!("a {kind} of this name"))
}

pub(super) fn foreign(kind: &str, owner: Option<OwnerId>) -> Error {
    Error::new(ErrorKind::Conflict(Conflict::Owner { owner }), format!("a {kind} of this name"))
}

pub(crate) fn deleting(kind: &str) -> Error {
    Error::new(ErrorKind::Conflict(Conflict::Deleting), format!("the {kind} of this name"))
}

pub(super) fn moved(main: Option<&Main>, message: &str) -> Error {
    let now = main.map(Main::version);
    Error::new(ErrorKind::Conflict(Conflict::Moved { now }), message)
}

/// Whether an object was not as it was read any more.
pub(crate) fn lost_a_race(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Conflict(Conflict::Moved { .. } | Conflict::Absent))
}
