//! Hooks over any scheduler, on the in-memory one and a paused clock.
#![expect(clippy::panic, clippy::unwrap_used, reason = "this is a test, which clippy cannot tell in its helpers")]

mod deploys;
mod faults;
mod hooks;
mod reconcile;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lifecycle_hooks::generic::SchedulerHooks;
use lifecycle_hooks::pipeline::{DeployOptions, Deployer, MemoryDeploys, PipelineName};
use scheduler_core::hooks::{
    App, AppName, Domain, Event, EventId, EventKind, Front, HookError, Outcome, Release, SecretRef,
};
use scheduler_core::memory::{Fate, MemoryCluster, MemoryScheduler};
use scheduler_core::{ConfigValue, Container, List, OwnerId, Scheduler as _, Target, Timestamp, Workload};
use tokio::time::sleep;

/// A cluster, and what is told of a platform's apps.
pub(crate) struct World {
    pub(crate) cluster: MemoryCluster,
    pub(crate) scheduler: MemoryScheduler,
    pub(crate) deployer: Deployer,
    pub(crate) hooks: SchedulerHooks,
}

pub(crate) fn secrets() -> Arc<BTreeMap<SecretRef, ConfigValue>> {
    Arc::new(BTreeMap::from([(SecretRef::new("token"), ConfigValue::new("hunter2"))]))
}

impl World {
    pub(crate) fn new() -> Self {
        let cluster = MemoryCluster::builder().build();
        let scheduler = cluster.scheduler(OwnerId::new("platform").unwrap());
        let deployer = Deployer::new(Arc::new(scheduler.clone()), Arc::new(MemoryDeploys::new())).secrets(secrets());
        let hooks = SchedulerHooks::new(Arc::new(scheduler.clone())).secrets(secrets());
        let hooks = hooks.deployer(deployer.clone(), PipelineName::Full, DeployOptions::default());
        Self { cluster, scheduler, deployer, hooks }
    }

    /// A world in which the app is created and its release runs.
    pub(crate) async fn with(app: &App) -> Self {
        let world = Self::new();
        world.tell(EventKind::AppCreated, app).await.unwrap();
        world.tell(EventKind::ReleaseCreated, app).await.unwrap();
        world
    }

    /// Tells an event, which has the same name each time.
    pub(crate) async fn tell(&self, kind: EventKind, app: &App) -> Result<Outcome, HookError> {
        event(kind, app).tell(&self.hooks).await
    }

    /// Native objects of the app's namespace, and its workloads with what they run, when all is quiet.
    pub(crate) async fn state(&self, app: &App) -> (Vec<String>, Vec<String>) {
        sleep(Duration::from_secs(300)).await;
        let objects = self.cluster.objects(&app.namespace).into_iter().map(|(name, _)| name).collect();
        let seen = self.scheduler.list(List::default()).await.unwrap().workloads;
        let line = |seen: &scheduler_core::Observation| {
            format!("{} {:?} {:?} {}", seen.target, seen.revision, seen.verdict(), seen.counts.desired)
        };
        (objects, seen.iter().map(line).collect())
    }
}

pub(crate) fn event(kind: EventKind, app: &App) -> Event {
    let version = app.release.as_ref().map_or(0, |release| release.version);
    let probe = Event::new(EventId::new("probe"), Timestamp::from_millis(0), kind.clone(), app.clone());
    let id = EventId::new(format!("{}-{}-{version}", app.name, probe.hook()));
    Event::new(id, Timestamp::from_millis(0), kind, app.clone())
}

pub(crate) fn service(name: &str, image: &str) -> Workload {
    let container = Container::new("main", image).port("http", 8080);
    Workload::service("", name).progress_deadline(60).container(container)
}

/// An app without anything.
pub(crate) fn bare(name: &str) -> App {
    App::new(AppName::new(name).unwrap(), name.try_into().unwrap())
}

/// An app with two processes, of which one takes requests, a configuration, and a domain.
pub(crate) fn shop() -> App {
    let mut app = bare("shop");
    let image = Fate::Run.image("1");
    let mut release = Release::new(1, vec![service("web", &image), service("api", &image)]);
    release.config = BTreeMap::from([("TOKEN".to_owned(), SecretRef::new("token"))]);
    app.config.clone_from(&release.config);
    app.release = Some(release);
    app.front = Some(Front::new("web".parse().unwrap(), "http"));
    app.domains = vec![Domain::new("shop.example")];
    app.formation = BTreeMap::from([("web".parse().unwrap(), 2)]);
    app
}

pub(crate) fn target(name: &str) -> Target {
    Target::new("shop", name).unwrap()
}
