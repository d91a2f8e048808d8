//! What the hooks do on a real control plane, with kubectl as an independent witness.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "this is a test, which clippy cannot tell without #[test]"
)]

mod certificates;
mod contract;
#[path = "../support/mod.rs"]
mod support;
mod surroundings;
mod volumes;

use std::collections::BTreeMap;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use libtest_mimic::{Arguments, Completion, Trial};
use scheduler_core::hooks::{
    App, AppName, AppVolume, Certificate, Domain, Event, EventId, EventKind, Front, HookError, HookName, Isolation,
    LifecycleHooks, Outcome, RegistryCredentials, Release, SecretRef, Validation,
};
use scheduler_core::{
    Change, ConfigValue, Container, Expose, Launch, Namespace, OwnerId, Route, Scheduler as _, Target, Timestamp,
    Workload, WorkloadName,
};
use scheduler_k8s::client::Client;
use scheduler_k8s::{KubernetesHooks, KubernetesScheduler};
use scheduler_k8s_testbed::{Testbed, User};
use serde_json::{Value, json};
use support::fault::Faults;
use support::{RUNTIME, TESTBED};

type Case = fn() -> BoxFuture<'static, ()>;

macro_rules! cases {
    ($($module:ident: $($case:ident),* $(,)?;)*) => {
        vec![$($((stringify!($case), (|| Box::pin($module::$case())) as Case)),*),*]
    };
}

fn main() -> ExitCode {
    let cases = cases![
        contract:
            what_is_supported_is_what_is_done,
            everything_is_made_once_and_goes_whole,
            an_app_that_is_as_it_should_be_costs_reads,
            drift_is_repaired,
            what_was_cut_off_is_completed_by_repeating,
            foreign_objects_are_named_and_untouched,
            the_rights_that_are_named_are_enough,
            a_namespace_that_is_missing_may_come,
            a_namespace_of_others_is_vetoed;
        surroundings:
            a_quota_refuses_what_exceeds_it,
            isolation_goes_with_the_policy,
            the_front_moves_with_the_cut_over,
            a_workload_of_the_app_s_name_has_its_service,
            credentials_are_what_the_kubelet_reads;
        certificates:
            a_key_is_stored_before_and_goes_after_its_reference,
            a_launch_and_an_expose_leave_tls_alone,
            a_certificate_waits_for_its_route,
            two_domains_share_a_certificate,
            tls_of_others_is_left_until_it_is_ours_to_set,
            a_key_of_another_certificate_is_vetoed,
            a_host_of_another_workload_is_vetoed;
        volumes:
            a_volume_stays_and_grows,
            a_volume_goes_when_nothing_uses_it,
            sizes_and_classes_that_are_none_are_vetoed;
    ];
    let trials = cases.into_iter().map(|(name, case)| trial(name, case)).collect();
    support::run(&Arguments::from_args(), trials)
}

fn trial(name: &str, case: Case) -> Trial {
    support::gated(name, move || {
        RUNTIME.block_on(case());
        Ok(Completion::Completed)
    })
}

/// What may be seen nowhere but in Secrets.
const PASSWORD: &str = "passw0rd-of-the-registry";

struct World {
    testbed: &'static Testbed,
    namespace: String,
    scheduler: KubernetesScheduler,
    hooks: KubernetesHooks,
    faults: Faults,
    /// A chain and its key.
    pem: (String, String),
}

impl World {
    async fn new() -> Self {
        Self::of(User::Admin).await
    }

    async fn of(user: User) -> Self {
        let testbed = TESTBED.get().await.unwrap();
        let faults = Faults::new();
        let client = Client::new(faults.client(testbed.client(user).unwrap()));
        let scheduler = KubernetesScheduler::new(client, OwnerId::new("platform").unwrap()).ingress_class("sim");
        let pem = generate("shop.example");
        let secrets = BTreeMap::from([
            (SecretRef::new("password"), ConfigValue::new(PASSWORD)),
            (SecretRef::new("key"), ConfigValue::new(&pem.1)),
            (SecretRef::new("other-key"), ConfigValue::new(generate("other.example").1)),
        ]);
        let hooks = KubernetesHooks::new(&scheduler, Arc::new(secrets));
        let namespace = testbed.create_namespace("hooks").await.unwrap();
        Self { testbed, namespace, scheduler, hooks, faults, pem }
    }

    /// An app with nothing in it.
    fn bare(&self) -> App {
        App::new(AppName::new("shop").unwrap(), Namespace::new(&self.namespace).unwrap())
    }

    /// An app that has one of each. Its host is that of the namespace, as routes are one for all of the cluster.
    fn full(&self) -> App {
        let mut app = self.bare();
        app.policy.quota.cpu = Some("4000m".to_owned());
        app.policy.quota.memory = Some("1.5Gi".to_owned());
        app.policy.quota.instances = Some(9);
        app.policy.isolation = Isolation::App;
        app.front = Some(Front::new(WorkloadName::new("web").unwrap(), "http"));
        app.release = Some(Release::new(1, vec![self.workload()]));
        app.domains = vec![Domain::new(self.host()).certificate("main")];
        app.certificates = BTreeMap::from([("main".to_owned(), self.certificate())]);
        let credentials = RegistryCredentials::new("joe", SecretRef::new("password"));
        app.registries = BTreeMap::from([("registry.example".to_owned(), credentials)]);
        app.volumes = BTreeMap::from([("data".to_owned(), AppVolume::new("1024Mi"))]);
        app
    }

    fn certificate(&self) -> Certificate {
        Certificate::new(&self.pem.0, SecretRef::new("key"))
    }

    fn host(&self) -> String {
        format!("{}.example", self.namespace)
    }

    fn workload(&self) -> Workload {
        let web = Container::new("web", "sim/run:1").port("http", 8080).cpu("10m", "10m").memory("16Mi", "16Mi");
        Workload::service(&self.namespace, "web").container(web).termination_grace(1)
    }

    async fn launch(&self, workload: Workload) -> Change {
        self.scheduler.launch(Launch::new(workload.check().unwrap())).await.unwrap().change
    }

    fn target(&self, name: &str) -> Target {
        Target::new(&self.namespace, name).unwrap()
    }

    async fn expose(&self, name: &str, hosts: &[String]) -> bool {
        let routes = hosts.iter().map(|host| Route::new(host, "http"));
        let expose = Expose::new(self.target(name), routes);
        self.scheduler.expose(expose).await.unwrap().changed
    }

    fn event(&self, kind: EventKind, app: &App) -> Event {
        Event::new(EventId::new("1"), "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap(), kind, app.clone())
    }

    async fn tell(&self, kind: EventKind, app: &App) -> Result<Outcome, HookError> {
        self.event(kind, app).tell(&self.hooks).await
    }

    /// Tells it until it is neither deferred nor failed for a while.
    async fn told(&self, kind: EventKind, app: &App) -> Outcome {
        let told = async {
            loop {
                match self.tell(kind.clone(), app).await.unwrap() {
                    Outcome::Deferred { .. } => tokio::time::sleep(Duration::from_millis(100)).await,
                    outcome => return outcome,
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(60), told).await.expect("it is done in time")
    }

    /// Those of the requests since the last call that write, as `METHOD kind`.
    fn writes(&self) -> Vec<String> {
        let requests = self.faults.take_requests();
        let writes = requests.iter().filter(|request| !request.starts_with("GET"));
        let short = writes.map(|request| {
            let (method, path) = request.split_once(' ').unwrap();
            let parts: Vec<&str> = path.split('/').collect();
            let at = parts.iter().position(|part| *part == "namespaces").unwrap();
            format!("{method} {}", parts[at + 2])
        });
        short.collect()
    }

    async fn kubectl(&self, arguments: &[&str]) -> String {
        let output = self.try_kubectl(arguments, "").await;
        output.unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
    }

    async fn create(&self, object: &Value) -> String {
        self.try_kubectl(&["create", "--filename", "-"], &object.to_string()).await.unwrap()
    }

    /// kubectl in this namespace; fails with what it says.
    async fn try_kubectl(&self, arguments: &[&str], input: &str) -> Result<String, String> {
        use std::io::Write as _;
        let mut command = self.testbed.kubectl();
        command.args(["--namespace", &self.namespace]).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let input = input.to_owned();
        let output = tokio::task::spawn_blocking(move || {
            let mut child = command.spawn().unwrap();
            child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
            child.wait_with_output().unwrap()
        });
        let output = output.await.unwrap();
        if output.status.success() {
            Ok(String::from_utf8(output.stdout).unwrap())
        } else {
            Err(String::from_utf8(output.stderr).unwrap())
        }
    }

    async fn get(&self, kind: &str, name: &str) -> Value {
        serde_json::from_str(&self.kubectl(&["get", kind, name, "--output", "json"]).await).unwrap()
    }

    /// The names of everything around apps, sorted.
    async fn around(&self) -> Vec<String> {
        let kinds = "resourcequotas,networkpolicies,services,secrets,persistentvolumeclaims";
        let names = self.kubectl(&["get", kinds, "--selector", "scheduler/app", "--output", "name"]).await;
        let mut names: Vec<String> = names.lines().map(str::to_owned).collect();
        names.sort();
        names
    }

    /// Waits until a question has this answer.
    async fn until(&self, arguments: &[&str], expected: &str) {
        let seen = async {
            while self.kubectl(arguments).await.trim() != expected {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let seen = tokio::time::timeout(Duration::from_secs(60), seen).await;
        if seen.is_err() {
            panic!("{arguments:?} is {:?} and never {expected:?}", self.kubectl(arguments).await);
        }
    }
}

/// A chain for a host, and its key.
fn generate(host: &str) -> (String, String) {
    let made = rcgen::generate_simple_self_signed([host.to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

fn decoded(secret: &Value, key: &str) -> String {
    let kubectl = secret["data"][key].as_str().unwrap_or_else(|| panic!("{key} is missing"));
    let output =
        std::process::Command::new("base64").arg("--decode").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = output.unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), kubectl.as_bytes()).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}
