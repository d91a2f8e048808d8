use std::{
    env, fmt,
    future::Future,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use k8s_openapi::api::{
    core::v1::{Namespace, ServiceAccount},
    rbac::v1::ClusterRoleBinding,
};
use k8s_openapi::serde::de::DeserializeOwned;
use kube::{
    Api, Client, Resource,
    api::PostParams,
    runtime::wait::{Condition, await_condition},
};
use serde_json::{Value, json};
use tokio::{runtime, sync::oneshot, task::JoinSet};

use crate::{
    Availability, Options, TestbedError, User,
    credentials::{Credentials, random_hex},
    guard::Guard,
    kubelet::{self, Endpoint},
    nodes::Nodes,
    servers, storage,
};

/// How long the API may take to show what its controllers do. Milliseconds are usual.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running control plane with simulated nodes. See the [crate's page](crate).
///
/// It can be used from any runtime and any thread: its own work is done on a thread of its own. Everything ends when it
/// is dropped, at [`Testbed::stop`], or with the process.
pub struct Testbed {
    programs: PathBuf,
    url: http::Uri,
    url_text: String,
    credentials: Credentials,
    kubeconfigs: [(User, PathBuf); User::ALL.len()],
    nodes: Arc<Nodes>,
    /// The client of the background thread. Requests with it are made on that thread alone ([`Testbed::run`]): its
    /// connections live on the runtime that made them.
    admin: Client,
    handle: runtime::Handle,
    namespaces: AtomicU64,
    running: Mutex<Option<Running>>,
}

/// What ends with [`Testbed::stop`], in the order of the fields: first the kubelets, then the servers.
#[expect(dead_code, reason = "they are held in order to be dropped")]
struct Running {
    background: Background,
    guard: Guard,
}

impl fmt::Debug for Testbed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Testbed").field("url", &self.url_text).field("nodes", &self.nodes).finish_non_exhaustive()
    }
}

impl Testbed {
    /// Starts a control plane with the servers that [`Availability::check`] finds, and returns when Pods can be created
    /// in it and land on its nodes. Takes a few seconds. Needs a tokio runtime with I/O and time.
    ///
    /// Dropping the future ends what was started.
    ///
    /// # Errors
    /// [`TestbedError::Missing`] when there are no servers (skip the test, then), [`TestbedError::NamesCluster`] when
    /// the environment names a running cluster instead, and whatever can go wrong with processes.
    pub async fn start(options: Options) -> Result<Self, TestbedError> {
        let programs = match Availability::check()? {
            Availability::Servers(folder) => folder,
            Availability::Kubeconfig(path) => return Err(TestbedError::NamesCluster(path)),
            Availability::Missing(reason) => return Err(TestbedError::Missing(reason)),
        };
        let unique = random_hex().map_err(TestbedError::machine("read /dev/urandom"))?;
        // Short, because the path of a socket in it has to fit into some hundred bytes.
        let mut guard = Guard::new(env::temp_dir().join(format!("testbed-{unique}")))?;
        let credentials = Credentials::new(guard.folder())?;
        let url = servers::start(&programs, &mut guard, &credentials).await?;
        let endpoint = Endpoint::bind(&credentials)?;

        let background = Background::start()?;
        let handle = background.handle.clone();
        let config = credentials.config(User::Admin, &url);
        let admin = on(&handle, async move { Client::try_from(config) })
            .await?
            .map_err(TestbedError::kubernetes("make a client"))?;
        let testbed = Self {
            programs,
            url_text: url.to_string().trim_end_matches('/').to_owned(),
            url,
            kubeconfigs: User::ALL.map(|user| (user, credentials.kubeconfig(user))),
            credentials,
            nodes: Arc::new(Nodes::new(&options.nodes)),
            admin,
            handle,
            namespaces: AtomicU64::new(1),
            running: Mutex::new(Some(Running { background, guard })),
        };
        testbed.settle(options, endpoint).await?;
        Ok(testbed)
    }

    /// Registers the nodes, lets the kubelets run, and waits for the controllers that a Pod needs.
    async fn settle(&self, options: Options, endpoint: Endpoint) -> Result<(), TestbedError> {
        let (client, nodes) = (self.admin.clone(), Arc::clone(&self.nodes));
        let kubelets = endpoint.address();
        self.handle.spawn(kubelet::run(client.clone(), Arc::clone(&nodes), endpoint));
        self.handle.spawn(storage::run(client.clone()));
        self.run(async move {
            grant_view(&client).await?;
            storage::register(&client).await?;
            nodes.register(&client, &options.nodes, kubelets).await?;
            service_account_exists(&client, "default").await
        })
        .await
    }

    /// Ends everything, and returns when all processes are gone and their folder is removed. Idempotent; afterwards
    /// nothing answers any more.
    pub async fn stop(&self) {
        if let Some(running) = self.take_running() {
            // Reaping blocks, for milliseconds.
            let _ = tokio::task::spawn_blocking(move || drop(running)).await;
        }
    }

    fn take_running(&self) -> Option<Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The address of the API server: `https://127.0.0.1:<port>`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url_text
    }

    /// The certificate, in PEM, of the authority that signed the API server's certificate.
    #[must_use]
    pub fn certificate_authority(&self) -> &str {
        &self.credentials.authority
    }

    /// The bearer token of a user.
    #[must_use]
    pub fn token(&self, user: User) -> &str {
        self.credentials.token(user)
    }

    /// The kubeconfig file of a user, with one context of the user's [name](User::name).
    #[must_use]
    pub fn kubeconfig(&self, user: User) -> &Path {
        self.kubeconfigs.iter().find(|(known, _)| *known == user).map_or(Path::new(""), |(_, path)| path)
    }

    /// A client configuration for a user, without implicit retries.
    #[must_use]
    pub fn config(&self, user: User) -> kube::Config {
        self.credentials.config(user, &self.url)
    }

    /// A new client for the runtime that this is called on. A client dies with its runtime, so tests that have a
    /// runtime each need a client each. Panics outside of a runtime, as every kube client does.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn client(&self, user: User) -> Result<Client, TestbedError> {
        Client::try_from(self.config(user)).map_err(TestbedError::kubernetes("make a client"))
    }

    /// kubectl as [`User::Admin`], as an independent witness: of the same version, and deaf to the configuration of
    /// whoever runs the tests.
    #[must_use]
    pub fn kubectl(&self) -> Command {
        let mut command = Command::new(self.programs.join("kubectl"));
        command
            .env_remove("KUBECONFIG")
            .env("KUBERC", "off")
            .arg("--kubeconfig")
            .arg(self.kubeconfig(User::Admin))
            .arg("--cache-dir")
            .arg(self.credentials.file("kubectl-cache"));
        command
    }

    /// The processes that the testbed consists of: the servers and their guard. Empty after [`Testbed::stop`].
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.as_ref().map(|running| running.guard.processes()).unwrap_or_default()
    }

    /// Makes a namespace that nobody else has, `<prefix>-<number>`, and returns its name when Pods can be created in
    /// it, which is when its service account `default` exists. To delete it is not worth the wait: it ends with the
    /// testbed.
    ///
    /// # Errors
    /// When the prefix makes no valid name, or the API server fails.
    pub async fn create_namespace(&self, prefix: &str) -> Result<String, TestbedError> {
        let name = format!("{prefix}-{}", self.namespaces.fetch_add(1, Ordering::Relaxed));
        let client = self.admin.clone();
        self.run(async move {
            let namespace = object(json!({"metadata": {"name": name}}), &name)?;
            Api::<Namespace>::all(client.clone())
                .create(&PostParams::default(), &namespace)
                .await
                .map_err(TestbedError::kubernetes(format!("create the namespace {name}")))?;
            service_account_exists(&client, &name).await?;
            Ok(name)
        })
        .await
    }

    /// Cuts a node off, as a power failure would: its kubelet falls silent, the node's conditions become Unknown, its
    /// Pods turn `Ready=False`, and the scheduler avoids it from when this returns. About two seconds later the real
    /// eviction controller deletes its Pods (condition DisruptionTarget, reason DeletionByTaintManager) and others
    /// replace them elsewhere; as on a real cluster they stay Terminating until the node is back.
    ///
    /// Idempotent. It meets every Pod on the node, so tests that run in parallel need another testbed. When all nodes
    /// are lost, Kubernetes evicts nothing.
    ///
    /// # Errors
    /// [`TestbedError::NoSuchNode`], or the API server fails.
    pub async fn lose_node(&self, name: &str) -> Result<(), TestbedError> {
        let (client, nodes, name) = (self.admin.clone(), Arc::clone(&self.nodes), name.to_owned());
        self.run(async move { nodes.lose(&client, &name).await }).await
    }

    /// Brings a lost node back: its kubelet reports again, finishes the Pods that were deleted meanwhile, and new Pods
    /// may land on it from when this returns.
    ///
    /// # Errors
    /// [`TestbedError::NoSuchNode`], or the API server fails.
    pub async fn restore_node(&self, name: &str) -> Result<(), TestbedError> {
        let (client, nodes, name) = (self.admin.clone(), Arc::clone(&self.nodes), name.to_owned());
        self.run(async move { nodes.restore(&client, &name).await }).await
    }

    /// Runs a future on the background thread. Dropping this drops that.
    async fn run<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T, TestbedError>> + Send + 'static,
    ) -> Result<T, TestbedError> {
        on(&self.handle, future).await?
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        drop(self.take_running());
    }
}

/// A thread with a runtime of its own, which outlives the runtimes of single tests.
struct Background {
    handle: runtime::Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Background {
    fn start() -> Result<Self, TestbedError> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(TestbedError::machine("make a runtime"))?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new()
            .name("testbed".to_owned())
            .spawn(move || {
                // Either way there is nothing left to do: told to stop, or nobody left to tell.
                let _ = runtime.block_on(stopped);
            })
            .map_err(TestbedError::machine("start a thread"))?;
        Ok(Self { handle, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Runs a future on another runtime, for as long as the returned one is not dropped.
async fn on<T: Send + 'static>(
    handle: &runtime::Handle,
    future: impl Future<Output = T> + Send + 'static,
) -> Result<T, TestbedError> {
    let mut tasks = JoinSet::new();
    tasks.spawn_on(future, handle);
    match tasks.join_next().await {
        Some(Ok(output)) => Ok(output),
        Some(Err(_)) | None => Err(TestbedError::Stopped),
    }
}

/// Gives [`User::ReadOnly`] what its name says.
async fn grant_view(client: &Client) -> Result<(), TestbedError> {
    let binding = object(
        json!({
            "metadata": {"name": "testbed-read-only"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": User::ReadOnly.name()}],
        }),
        "a role binding",
    )?;
    Api::<ClusterRoleBinding>::all(client.clone())
        .create(&PostParams::default(), &binding)
        .await
        .map_err(TestbedError::kubernetes("give the user read-only the role view"))?;
    Ok(())
}

/// A typed object from its JSON.
pub(crate) fn object<K: DeserializeOwned>(json: Value, what: &str) -> Result<K, TestbedError> {
    serde_json::from_value(json)
        .map_err(|error| TestbedError::kubernetes(format!("write {what}"))(kube::Error::SerdeError(error)))
}

/// Without it the API server refuses Pods.
async fn service_account_exists(client: &Client, namespace: &str) -> Result<(), TestbedError> {
    let api = Api::<ServiceAccount>::namespaced(client.clone(), namespace);
    let exists = |account: Option<&ServiceAccount>| account.is_some();
    wait_for(api, "default", exists, format!("the service account default exists in {namespace}")).await
}

/// Waits on a watch until an object is as wanted.
pub(crate) async fn wait_for<K>(
    api: Api<K>,
    name: &str,
    condition: impl Condition<K> + Send + Sync,
    what: String,
) -> Result<(), TestbedError>
where
    K: Clone + fmt::Debug + Send + DeserializeOwned + Resource + 'static,
{
    match tokio::time::timeout(PATIENCE, await_condition(api, name, condition)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(source)) => Err(TestbedError::Wait { what, source: Box::new(source) }),
        Err(_) => Err(TestbedError::TooLate { what, within: PATIENCE }),
    }
}
