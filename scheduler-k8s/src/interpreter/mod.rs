//! One operation after the other: read, decide, write, observe.

mod delete;
mod launch;
mod read;
mod watch;

use async_trait::async_trait;
use futures_util::future::try_join;
use futures_util::stream::{BoxStream, StreamExt as _};
use scheduler_core::{
    BackendName, Capabilities, Conflict, Delete, Deleted, Error, ErrorKind, Feature, Found, Guard, Launch, Launched,
    List, Listed, OpName, OwnerId, Ping, Pong, Result, Scheduler, Status, Support, Target, Watch, WatchItem, within,
};
use scheduler_k8s_client::{Client, ConnectOptions, Resource};
use serde_json::Value;

use crate::error::translate;
use crate::{labels, observe};

/// The oldest version of Kubernetes that this library speaks to: probes by gRPC are stable there.
const OLDEST: (u32, u32) = (1, 27);
/// From here on init containers can be sidecars.
const SIDECARS_SINCE: (u32, u32) = (1, 29);
/// How often a compare-and-set is sent that failed although nobody changed anything: status updates move an object's
/// `resourceVersion` too.
const ATTEMPTS: u32 = 5;

/// Schedules on Kubernetes.
///
/// It holds a client and the owner's id, and no other state: any number of them may work on one cluster, in one process or
/// many. A client lives on the runtime that it was made on, and so does this.
///
/// # Requests
///
/// | operation | requests |
/// |---|---|
/// | `launch`, nothing differs | 2 GET (Deployment, Service) |
/// | `launch` | as above, then one PATCH for each object that differs, one DELETE for a surplus Service, and one PATCH of `managedFields` where others hold list items that must go |
/// | `delete` | 2 GET, at most 2 DELETE, 2 LIST (ReplicaSets, Pods), one DELETE for each orphaned ReplicaSet |
/// | `status` | 1 GET, 2 LIST; with [`Detail::Evidence`](scheduler_core::Detail::Evidence) 3 LIST |
/// | `list` | 3 LIST (Deployments, ReplicaSets, Pods) |
/// | `watch` | 3 LIST and 3 watches |
/// | `ping` | 1 GET |
///
/// A LIST is one request for each 500 objects. When an object's `resourceVersion` moved between GET and PATCH although
/// its [`Version`](scheduler_core::Version) did not (the controllers write its status), that GET and PATCH are sent again, at most five times
/// in all. Nothing else is repeated.
///
/// # How it writes
///
/// By server-side apply as the field manager `scheduler`, forced, under the uid and the resourceVersion that were read, or
/// under the condition that nothing is there. Fields of others that it does not render stay, but for items of lists that it
/// renders (ports, variables, mounts), which go with the next launch that changes something. What was taken from whom is a
/// warning in the reply.
///
/// # Adopting
///
/// [`Guard::Adopt`] of a Deployment keeps its selector, which is immutable. `list` and `watch` find Pods by our labels, so
/// that they do not count the Pods from before until the rollout replaced them; `status` does.
#[derive(Clone, Debug)]
pub struct KubernetesScheduler {
    client: Client,
    owner: OwnerId,
    capabilities: Capabilities,
}

impl KubernetesScheduler {
    /// Connects, and asks the server for its version. Cost: one request.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) when the connection cannot be set up as described; otherwise what
    /// the request met.
    pub async fn connect(options: ConnectOptions, owner: OwnerId) -> Result<Self> {
        let client = Client::connect(options)
            .await
            .map_err(|error| translate(&error).with_op(OpName::Connect).with_backend(&BackendName::kubernetes()))?;
        Ok(Self::new(client, owner))
    }

    /// Uses a ready client. Sends nothing: a client that has not asked the server for its version is taken to speak to the
    /// oldest one supported (1.27), which has no sidecars. See [`for_version`](Self::for_version).
    #[must_use]
    pub fn new(client: Client, owner: OwnerId) -> Self {
        let version = client.server_version().map(|version| (version.major, version.minor));
        Self { capabilities: capabilities(version), client, owner }
    }

    /// For a ready client whose server is known to be of this version (1 and 36, say).
    #[must_use]
    pub fn for_version(mut self, major: u32, minor: u32) -> Self {
        self.capabilities = capabilities(Some((major, minor)));
        self
    }

    /// The client below.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The owner whose workloads these are.
    #[must_use]
    pub fn owner(&self) -> &OwnerId {
        &self.owner
    }

    /// What a launch and a delete decide by.
    async fn read(&self, target: &Target) -> Result<Live> {
        let (deployment, service) =
            try_join(self.get(&Resource::DEPLOYMENT, target), self.get(&Resource::SERVICE, target)).await?;
        Ok(Live { deployment, service })
    }

    async fn get(&self, resource: &Resource, target: &Target) -> Result<Option<Value>> {
        let found = self.client.get(resource, Some(target.namespace.as_str()), target.name.as_str()).await;
        found.map_err(|error| translate(&error))
    }

    fn is_ours(&self, object: &Value) -> bool {
        labels::owner_of(object).as_ref() == Some(&self.owner)
    }
}

fn capabilities(version: Option<(u32, u32)>) -> Capabilities {
    let all = Capabilities::all(BackendName::kubernetes());
    let (major, minor) = version.unwrap_or(OLDEST);
    if (major, minor) >= SIDECARS_SINCE {
        return all;
    }
    let how = if version.is_some() { "the server has" } else { "the server's version is unknown, so it is taken for" };
    all.with(Feature::Sidecars, Support::No(format!("they need Kubernetes 1.29; {how} {major}.{minor}")))
}

/// The objects of a workload as they were read.
struct Live {
    deployment: Option<Value>,
    service: Option<Value>,
}

/// What a guard says of the Deployment as it was read; `Ok` if the operation may go on.
fn check_guard(guard: &Guard, deployment: Option<&Value>, owner: &OwnerId) -> Result<()> {
    let Some(live) = deployment else {
        return match guard {
            Guard::IfVersion(_) => Err(Error::new(ErrorKind::Conflict(Conflict::Absent), "there is no Deployment")),
            _ => Ok(()),
        };
    };
    let found = labels::owner_of(live);
    match guard {
        Guard::IfAbsent => Err(exists("Deployment", found)),
        Guard::Adopt => Ok(()),
        _ if found.as_ref() != Some(owner) => Err(foreign("Deployment", found)),
        Guard::IfVersion(version) if !is_deleting(live) && *version != observe::version(live) => {
            Err(moved(Some(live), "the Deployment is not at that version"))
        }
        _ => Ok(()),
    }
}

fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

fn exists(kind: &str, owner: Option<OwnerId>) -> Error {
    Error::new(ErrorKind::AlreadyExists { owner }, format!("a {kind} of this name"))
}

fn foreign(kind: &str, owner: Option<OwnerId>) -> Error {
    Error::new(ErrorKind::Conflict(Conflict::Owner { owner }), format!("a {kind} of this name"))
}

fn moved(deployment: Option<&Value>, message: &str) -> Error {
    let now = deployment.map(observe::version);
    Error::new(ErrorKind::Conflict(Conflict::Moved { now }), message)
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

#[async_trait]
impl Scheduler for KubernetesScheduler {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn launch(&self, op: Launch) -> Result<Launched> {
        let done = within(&op.call, launch::launch(self, &op)).await;
        done.map_err(|error| about(error, OpName::Launch, Some(op.workload.target())))
    }

    async fn delete(&self, op: Delete) -> Result<Deleted> {
        let done = within(&op.call, delete::delete(self, &op)).await;
        done.map_err(|error| about(error, OpName::Delete, Some(&op.target)))
    }

    async fn status(&self, op: Status) -> Result<Found> {
        let done = within(&op.call, read::status(self, &op)).await;
        done.map_err(|error| about(error, OpName::Status, Some(&op.target)))
    }

    async fn list(&self, op: List) -> Result<Listed> {
        let done = within(&op.call, read::list(self, &op.filter)).await;
        done.map_err(|error| about(error, OpName::List, None))
    }

    fn watch(&self, op: Watch) -> BoxStream<'static, Result<WatchItem>> {
        let items = watch::watch(&self.client, &self.owner, op.filter);
        items.map(|item| item.map_err(|error| about(error, OpName::Watch, None))).boxed()
    }

    async fn ping(&self, op: Ping) -> Result<Pong> {
        let asked = async { self.client.version().await.map_err(|error| translate(&error)) };
        let version = within(&op.call, asked).await.map_err(|error| about(error, OpName::Ping, None))?;
        Ok(Pong::new(version.git_version))
    }
}

fn about(error: Error, op: OpName, target: Option<&Target>) -> Error {
    let error = error.with_op(op).with_backend(&BackendName::kubernetes());
    match target {
        Some(target) => error.with_target(target),
        None => error,
    }
}
