//! A platform of one app, on a cluster that can be stopped at any operation.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_core::stream::BoxStream;
use lifecycle_hooks::pipeline::{
    Deploy, DeployId, DeployRecord, DeployStore, Deployer, MemoryDeploys, PipelineError, PipelineName, StageName,
    StageVerdict, StoreError, Turn,
};
use scheduler_core::hooks::{App, AppName, Domain, Front, Release, SecretRef};
use scheduler_core::memory::{Fate, MemoryCluster};
use scheduler_core::{
    Capabilities, ConfigValue, Container, FromOps, List, Namespace, OpName, OpService, OwnerId, Reply, Result,
    Scheduler, SchedulerOp, StreamItem, Subscription, Target, Timestamp, ToOps, Workload,
};
use tokio::sync::Notify;

pub(crate) const NAMESPACE: &str = "shop";

pub(crate) fn namespace() -> Namespace {
    Namespace::new(NAMESPACE).unwrap()
}

pub(crate) fn target(name: &str) -> Target {
    Target::new(NAMESPACE, name).unwrap()
}

pub(crate) fn service(name: &str, image: &str) -> Workload {
    let container = Container::new("main", image).port("http", 8080);
    Workload::service("", name).progress_deadline(60).container(container)
}

pub(crate) fn job(name: &str, image: &str) -> Workload {
    Workload::job("", name).progress_deadline(60).container(Container::new("main", image))
}

pub(crate) fn good_image(version: u64) -> String {
    Fate::Run.image(&version.to_string())
}

/// An app with a front process and another one, a domain, a configuration, and a job before each release.
pub(crate) fn app(version: u64) -> App {
    let image = good_image(version);
    let mut app = App::new("shop".parse().unwrap(), namespace());
    let mut release = Release::new(version, vec![service("web", &image), service("worker", &image)]);
    release.before = vec![job("migrate", &Fate::Done { after: 5, exit_code: 0 }.image(&version.to_string()))];
    release.config = BTreeMap::from([("TOKEN".to_owned(), SecretRef::new("token"))]);
    app.release = Some(release);
    app.front = Some(Front::new("web".parse().unwrap(), "http"));
    app.domains = vec![Domain::new("shop.example")];
    app.formation = BTreeMap::from([("web".parse().unwrap(), 2)]);
    app
}

pub(crate) fn release(app: &mut App) -> &mut Release {
    app.release.as_mut().unwrap()
}

/// Gives a process of the release another image.
pub(crate) fn set_image(app: &mut App, process: &str, image: &str) {
    let found = release(app).processes.iter_mut().find(|workload| workload.name == process);
    found.unwrap().containers[0].image = image.to_owned();
}

pub(crate) fn secrets() -> Arc<BTreeMap<SecretRef, ConfigValue>> {
    Arc::new(BTreeMap::from([(SecretRef::new("token"), ConfigValue::new("hunter2"))]))
}

pub(crate) fn deploy(app: App, pipeline: PipelineName) -> Deploy {
    let id = DeployId::new(format!("release-{}", app.release.as_ref().unwrap().version)).unwrap();
    Deploy::new(id, app, pipeline)
}

/// Where a caller is stopped: at a step of the scheduler or of the store, before or after its effect.
#[derive(Debug, Default)]
pub(crate) struct Trap {
    steps: AtomicU64,
    at: AtomicU64,
    after: std::sync::atomic::AtomicBool,
    pub(crate) sprung: Notify,
    pub(crate) ops: Mutex<Vec<(OpName, Option<Target>)>>,
}

impl Trap {
    /// Stops at this step from now, from 1; never at 0.
    pub(crate) fn set(&self, at: u64, after: bool) {
        self.steps.store(0, Ordering::SeqCst);
        self.at.store(at, Ordering::SeqCst);
        self.after.store(after, Ordering::SeqCst);
    }

    pub(crate) fn steps(&self) -> u64 {
        self.steps.load(Ordering::SeqCst)
    }

    async fn step<T>(&self, doing: impl Future<Output = T>) -> T {
        let stops = self.steps.fetch_add(1, Ordering::SeqCst) + 1 == self.at.load(Ordering::SeqCst);
        if !stops {
            return doing.await;
        }
        if self.after.load(Ordering::SeqCst) {
            drop(doing.await);
        }
        self.sprung.notify_one();
        std::future::pending().await
    }
}

#[derive(Debug)]
struct TrapLayer {
    inner: Arc<dyn OpService>,
    trap: Arc<Trap>,
}

#[async_trait]
impl OpService for TrapLayer {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    async fn call(&self, op: SchedulerOp) -> Result<Reply> {
        self.trap.ops.lock().unwrap().push((op.name(), op.target().cloned()));
        self.trap.step(self.inner.call(op)).await
    }

    fn open(&self, subscription: Subscription) -> BoxStream<'static, Result<StreamItem>> {
        self.inner.open(subscription)
    }
}

/// Stops at writes only: what is read is read again.
#[derive(Debug)]
struct TrapStore {
    inner: MemoryDeploys,
    trap: Arc<Trap>,
}

#[async_trait]
impl DeployStore for TrapStore {
    fn now(&self) -> Timestamp {
        self.inner.now()
    }
    async fn load(&self, id: &DeployId) -> Result<Option<(DeployRecord, u64)>, StoreError> {
        self.inner.load(id).await
    }
    async fn save(&self, record: &DeployRecord, seen: Option<u64>) -> Result<u64, StoreError> {
        self.trap.step(self.inner.save(record, seen)).await
    }
    async fn unfinished(&self) -> Result<Vec<DeployRecord>, StoreError> {
        self.inner.unfinished().await
    }
    async fn of_app(&self, app: &AppName) -> Result<Vec<DeployRecord>, StoreError> {
        self.inner.of_app(app).await
    }
    async fn turn(&self, app: &AppName) -> Result<(Turn, Option<u64>), StoreError> {
        self.inner.turn(app).await
    }
    async fn save_turn(&self, app: &AppName, turn: &Turn, seen: Option<u64>) -> Result<(), StoreError> {
        self.trap.step(self.inner.save_turn(app, turn, seen)).await
    }
    async fn forget(&self, app: &AppName) -> Result<(), StoreError> {
        self.inner.forget(app).await
    }
}

/// A cluster, a store, and what stops them.
pub(crate) struct World {
    pub(crate) cluster: MemoryCluster,
    pub(crate) ops: Arc<dyn OpService>,
    pub(crate) store: Arc<dyn DeployStore>,
    pub(crate) trap: Arc<Trap>,
}

impl World {
    pub(crate) fn new() -> Self {
        let cluster = MemoryCluster::builder().namespace(NAMESPACE).build();
        let memory = Arc::new(cluster.scheduler(OwnerId::new("tests").unwrap()));
        let trap = Arc::new(Trap::default());
        let ops = Arc::new(TrapLayer { inner: Arc::new(ToOps::new(memory)), trap: Arc::clone(&trap) });
        let store = Arc::new(TrapStore { inner: MemoryDeploys::new(), trap: Arc::clone(&trap) });
        Self { cluster, ops, store, trap }
    }

    pub(crate) fn scheduler(&self) -> Arc<dyn Scheduler> {
        Arc::new(FromOps::new(Arc::clone(&self.ops)))
    }

    pub(crate) fn deployer(&self) -> Deployer {
        Deployer::new(self.scheduler(), Arc::clone(&self.store)).secrets(secrets())
    }

    /// Native objects by their names, and each workload with its release, revision and verdict: what two worlds that went
    /// different ways have in common in the end.
    pub(crate) async fn state(&self) -> (Vec<String>, Vec<String>) {
        let objects = self.cluster.objects(&namespace()).into_iter().map(|(name, _)| name).collect();
        let seen = self.scheduler().list(List::default()).await.unwrap().workloads;
        let line = |seen: &scheduler_core::Observation| {
            format!(
                "{} {:?} {:?} {:?} {}",
                seen.target,
                seen.marks.version,
                seen.revision,
                seen.verdict(),
                seen.counts.desired
            )
        };
        (objects, seen.iter().map(line).collect())
    }

    /// Who has routes.
    pub(crate) fn routed(&self) -> Vec<String> {
        let objects = self.cluster.objects(&namespace()).into_iter();
        objects.filter_map(|(name, _)| name.strip_prefix("Routes/").map(str::to_owned)).collect()
    }

    /// The release of a workload, if it is there.
    pub(crate) async fn release_of(&self, name: &str) -> Option<String> {
        let seen = self.scheduler().list(List::default()).await.unwrap().workloads;
        seen.into_iter().find(|seen| seen.target == target(name)).map(|seen| seen.marks.version.unwrap())
    }

    /// Deploys; drops the deploy if the trap springs.
    pub(crate) async fn deploy_until_trapped(
        &self,
        deployer: &Deployer,
        deploy: Deploy,
    ) -> Option<Result<DeployRecord, PipelineError>> {
        tokio::select! {
            biased;
            () = self.trap.sprung.notified() => None,
            ended = deployer.deploy(deploy) => Some(ended),
        }
    }
}

pub(crate) fn verdicts(record: &DeployRecord) -> Vec<(StageName, StageVerdict)> {
    record.stages.iter().map(|report| (report.stage, report.verdict.unwrap())).collect()
}

pub(crate) fn verdict(record: &DeployRecord, stage: StageName) -> Option<StageVerdict> {
    record.stage(stage).and_then(|report| report.verdict)
}
