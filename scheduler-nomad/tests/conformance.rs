//! The conformance suite of the core: on the agent that `SCHEDULER_TEST_NOMAD_ADDR` names, else on a real agent of our own
//! if there is a `nomad` on the path, else on the fake.
#![expect(
    clippy::expect_used,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "this is a test, which clippy cannot tell without #[test]"
)]

mod support;

use std::convert::Infallible;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http_body_util::Full;
use libtest_mimic::{Arguments, Completion, Trial};
use scheduler_core::conformance::{
    Case, Disturbance, Failure, Hand, Harness, Injection, Outcome, Timing, World, cases, soak,
};
use scheduler_core::memory::Fate;
use scheduler_core::{Capabilities, Namespace, OwnerId, Scheduler, Target, Workload};
use scheduler_nomad::NomadScheduler;
use scheduler_nomad::client::{Client, ConnectOptions, Query, model};
use scheduler_nomad_fake::{FakeNomad, Options};
use serde_json::json;
use support::agent::{Server, ready};
use support::fates::Play;
use support::fault::Faults;
use support::hands::{self, Source, failure};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// The version whose abilities are declared. An agent of another one is refused by the first case.
const VERSION: &str = "2.0.6";

/// The runtime that owns every client.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
});

/// What is being cleared away after cases.
static CLEARED: Mutex<Vec<JoinHandle<()>>> = Mutex::new(Vec::new());

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    let server = match Server::find() {
        Ok(server) => server,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    // Cases wait most of the time; real instances take their share of a real node.
    arguments.test_threads.get_or_insert(if server.address().is_some() { 4 } else { 8 });
    let play = if server.address().is_some() { Play::Programs } else { Play::Images };
    if !arguments.list {
        eprintln!("on {}", server.address().unwrap_or("the fake"));
        if let Err(error) = RUNTIME.block_on(ready(&server)) {
            eprintln!("{error}");
            stop(server);
            return ExitCode::FAILURE;
        }
    }
    let address = server.address().map(str::to_owned);
    let harness: Arc<dyn Harness> =
        Arc::new(NomadHarness { address, play, capabilities: RUNTIME.block_on(capabilities()) });
    let mut trials: Vec<_> = cases().into_iter().map(|case| trial(case, &harness)).collect();
    trials.extend(soak(&harness).expect("a range of seeds"));
    let conclusion = libtest_mimic::run(&arguments, trials);
    let cleared = std::mem::take(&mut *CLEARED.lock().unwrap());
    RUNTIME.block_on(futures_util::future::join_all(cleared));
    stop(server);
    conclusion.exit_code()
}

fn trial(case: Case, harness: &Arc<dyn Harness>) -> Trial {
    let harness = Arc::clone(harness);
    let skip = case.skipped_with(&*harness);
    Trial::ignorable_test(case.id(), move || match skip {
        Some(reason) => Ok(Completion::ignored_with(reason)),
        None => case.run(&harness).map(|()| Completion::Completed).map_err(Into::into),
    })
}

fn stop(server: Server) {
    if let Server::Own(agent) = server {
        agent.stop();
    }
}

/// What a scheduler can do whose agent has the version. Asks no server.
async fn capabilities() -> Capabilities {
    let agent = tower::service_fn(|_: http::Request<Full<Bytes>>| async {
        let told = json!({"member": {"Tags": {"build": VERSION}}}).to_string();
        Ok::<_, Infallible>(http::Response::new(Full::from(told)))
    });
    let client = Client::connect(ConnectOptions::explicit("http://127.0.0.1").service(agent)).await.expect("a client");
    NomadScheduler::new(client, OwnerId::new("nobody").unwrap()).capabilities().clone()
}

#[derive(Debug)]
struct NomadHarness {
    /// A real agent; none: each world has a fake of its own.
    address: Option<String>,
    play: Play,
    capabilities: Capabilities,
}

impl Harness for NomadHarness {
    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    fn fate(&self, workload: Workload, fate: Fate, tag: &str) -> Workload {
        self.play.fate(workload, fate, tag)
    }

    fn timing(&self) -> Timing {
        Timing::new(12, Duration::from_secs(120), Duration::from_millis(100))
    }

    fn run(&self, case: BoxFuture<'static, Outcome>) -> Outcome {
        RUNTIME.block_on(case)
    }

    fn lacks(&self, hand: Hand) -> Option<String> {
        let reason = match hand {
            Hand::RemoveService => "a service is a part of its job, and there is nothing to take away beside it",
            Hand::MakeForeignInstance => {
                "an allocation belongs to a job by the job's id, and nothing else can match it"
            }
            _ if self.play == Play::Images => return None,
            Hand::LoseNode => "the agent is the only node",
            Hand::OutOfMemory => "programs on the node are not held to their memory",
            Hand::ImageFates => "no images are run here",
            _ => return None,
        };
        Some(reason.to_owned())
    }

    fn world(&self) -> BoxFuture<'static, Result<Arc<dyn World>, Failure>> {
        let (address, play) = (self.address.clone(), self.play);
        async move { Ok(Arc::new(NomadWorld::new(address, play).await?) as Arc<dyn World>) }.boxed()
    }
}

struct NomadWorld {
    play: Play,
    fake: Option<FakeNomad>,
    /// Behind the faults.
    client: Client,
    /// Before them.
    faulty: Client,
    faults: Faults,
    namespace: Namespace,
    second: Namespace,
}

impl std::fmt::Debug for NomadWorld {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NomadWorld").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

impl NomadWorld {
    async fn new(address: Option<String>, play: Play) -> Result<Self, Failure> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let (address, fake) = match address {
            Some(address) => (address, None),
            None => {
                let fake = FakeNomad::start(Options::default()).map_err(failure)?;
                (fake.address().to_owned(), Some(fake))
            }
        };
        let client = Client::connect(ConnectOptions::explicit(&address)).await.map_err(failure)?;
        let faults = Faults::new();
        let faulty = Client::connect(faults.options(&address, support::fault::connections())).await.map_err(failure)?;
        let name = format!("case-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let namespace = Namespace::new(name.as_str()).map_err(failure)?;
        let second = Namespace::new(format!("{name}-second")).map_err(failure)?;
        for name in [&namespace, &second] {
            client.put_namespace(&model::Namespace::new(name.as_str())).await.map_err(failure)?;
        }
        Ok(Self { play, fake, client, faulty, faults, namespace, second })
    }

    async fn lose_node(&self, target: &Target) -> Result<(), Failure> {
        let fake = self.fake.as_ref().ok_or_else(|| failure("only the fake has nodes to lose"))?;
        let (namespace, id) = (target.namespace.as_str(), target.name.as_str());
        let allocations = self.client.query(&Query::job_allocations(namespace, id)).await.map_err(failure)?.value;
        let node = allocations.first().map(|alloc| alloc.node_name.clone());
        fake.lose_node(&node.ok_or_else(|| failure("no allocation has a node"))?).map_err(failure)
    }
}

impl Drop for NomadWorld {
    /// Frees the node for the next case.
    fn drop(&mut self) {
        if self.fake.is_some() {
            return;
        }
        let (client, namespaces) = (self.client.clone(), [self.namespace.clone(), self.second.clone()]);
        let cleared = RUNTIME.spawn(async move {
            for namespace in namespaces {
                // What cannot be cleared goes with the agent.
                let _ = hands::clear(&client, namespace.as_str()).await;
            }
        });
        CLEARED.lock().unwrap().push(cleared);
    }
}

#[async_trait]
impl World for NomadWorld {
    fn namespace(&self) -> Namespace {
        self.namespace.clone()
    }

    async fn second_namespace(&self) -> Result<Namespace, Failure> {
        Ok(self.second.clone())
    }

    fn scheduler(&self, owner: &OwnerId) -> Arc<dyn Scheduler> {
        Arc::new(NomadScheduler::new(self.faulty.clone(), owner.clone()))
    }

    async fn disturb(&self, target: &Target, disturbance: Disturbance) -> Result<(), Failure> {
        let (client, play) = (&self.client, self.play);
        match disturbance {
            Disturbance::SetImage(image) => {
                let set = |job: &mut serde_json::Value| play.set_image(&mut job["TaskGroups"][0]["Tasks"][0], &image);
                hands::change(client, target, Source::Lost, set).await
            }
            Disturbance::SetReplicas(count) => {
                let set = |job: &mut serde_json::Value| job["TaskGroups"][0]["Count"] = count.into();
                hands::change(client, target, Source::Kept, set).await
            }
            Disturbance::AddAnnotation => {
                let set = |job: &mut serde_json::Value| job["Meta"]["example.org/note"] = "by somebody else".into();
                hands::change(client, target, Source::Kept, set).await
            }
            Disturbance::MakeForeign(owner) => {
                let mut task = json!({"Name": "other", "Driver": "docker", "Config": {}});
                play.set_image(&mut task, &Fate::Run.image("foreign"));
                hands::make_foreign(client, target, owner, task).await
            }
            Disturbance::LoseNode => self.lose_node(target).await,
            Disturbance::BreakWatches => {
                self.faults.break_watches();
                Ok(())
            }
            other => Err(failure(format!("this harness does not know {other:?}"))),
        }
    }

    async fn objects(&self) -> Result<Vec<(String, String)>, Failure> {
        hands::objects(&self.client, self.namespace.as_str()).await
    }

    async fn instances(&self) -> Result<Vec<String>, Failure> {
        hands::instances(&self.client, self.namespace.as_str()).await
    }

    fn inject(&self, nth: u32, fault: Injection) {
        self.faults.inject(nth, fault);
    }

    fn injected(&self) -> bool {
        self.faults.injected()
    }
}
