//! One operation after the other: read, decide, write, observe.

mod config;
mod delete;
mod family;
pub(crate) mod find;
mod history;
mod launch;
mod logs;
pub(crate) mod namespace;
mod plan;
mod read;
pub(crate) mod route;
mod run;
mod steer;
mod watch;
pub(crate) mod write;

use async_trait::async_trait;
use futures_util::stream::{BoxStream, StreamExt as _};
use scheduler_core::{
    BackendName, Capabilities, ConfigStored, Delete, DeleteNamespace, Deleted, Endpoints, EnsureNamespace, Error,
    Expose, Exposed, Feature, Found, History, InstanceAction, InstanceAnswer, Launch, Launched, List, Listed, LogItem,
    Logs, MarkHealthy, MarkedHealthy, NamespaceDeleted, NamespaceEnsured, OnInstance, OpName, OwnerId, Ping, Plan,
    Planned, Pong, PutConfig, ReadyEndpoints, Result, Revisions, Rollout, Run, RunStarted, Scale, Scaled, Scheduler,
    Status, Steered, Support, Target, Unexpose, Unexposed, Watch, WatchItem, within,
};
use scheduler_k8s_client::{Client, ConnectOptions};
use serde_json::Value;

use crate::error::translate;
use crate::requests::Requests;

/// The oldest version of Kubernetes that this library speaks to: from here on init containers can be sidecars, a job's
/// retries count for each completion, and a Pod of a job is replaced only when it has ended.
const OLDEST: (u32, u32) = (1, 29);
/// How often a compare-and-set is sent that failed although nobody changed anything: status updates move an object's
/// `resourceVersion` too.
pub(crate) const ATTEMPTS: u32 = 10;

/// Schedules on Kubernetes.
///
/// It holds a client and the owner's id, and no other state: any number of them may work on one cluster, in one process or
/// many. A client lives on the runtime that it was made on, and so does this.
///
/// # Requests
///
/// To find a workload by its name takes 1 GET if it is a Deployment, and else one for each of the five kinds; *find* below.
///
/// | operation | requests |
/// |---|---|
/// | `launch`, nothing differs | 2 GET (main object, Service), 1 LIST (history); 4 GET more if there is no main object of that kind and ours |
/// | `launch` | as above, then one PATCH for each object that differs, one DELETE for a surplus Service and for each revision beyond the ten, and one PATCH of `managedFields` where others hold list items that must go |
/// | `plan` | as a launch; its PATCHes are dry runs |
/// | `delete` | find, 1 GET (Service), 3 LIST (Ingresses, Secrets, history), one DELETE for each of those, 1 or 2 LIST (Pods, what stands between; 4 if there is no main object), one DELETE for each orphan |
/// | `status`, `endpoints` | find, 1 or 2 LIST (Pods, what stands between); with [`Detail::Evidence`](scheduler_core::Detail::Evidence) one more |
/// | `list` | 8 LIST (five kinds, ReplicaSets, ControllerRevisions, Pods) |
/// | `watch` | 8 LIST and 8 watches |
/// | `logs` | as a status, then 1 GET for each container; with `follow` also two watches, one GET for each Pod that comes, and one for each log that ends |
/// | `scale` | find, 1 LIST (autoscalers) and 1 PATCH if the count differs |
/// | `rollout` | find, 1 PATCH |
/// | `instance` | find, 1 or 2 GET (the Pod, what controls it), 1 DELETE |
/// | `history` | find, 1 LIST |
/// | `mark_healthy` | find, 1 LIST, 1 PATCH |
/// | `run` | 1 PATCH, and 1 GET if it is there; of a periodic workload find before that |
/// | `put_config` | find, 1 LIST, 1 PATCH; with more than ten versions another LIST, and one DELETE for each that goes |
/// | `expose` | find, for each other workload find, 1 LIST (Ingresses of the cluster); if the routes differ 1 PATCH and that LIST again |
/// | `expose` that takes from another workload | find that one as well, and if it has one of the routes 1 PATCH or DELETE |
/// | `expose` that met another of the same route | besides: 1 PATCH or DELETE, which takes its write back |
/// | `unexpose` | 1 GET, 1 DELETE |
/// | `ensure_namespace` | 1 GET, 1 PATCH |
/// | `delete_namespace` | 1 GET, 7 LIST, 1 DELETE |
/// | `ping` | 1 GET |
///
/// A LIST is one request for each 500 objects. When an object's `resourceVersion` moved between GET and PATCH although
/// its [`Version`](scheduler_core::Version) did not (the controllers write its status), that GET and PATCH are sent again, at most ten times
/// in all. Nothing else is repeated.
///
/// # Rights
///
/// What the credentials must be allowed, in the namespaces of the workloads; a right that is missing fails the operations
/// that need it, and no others.
///
/// | resources | verbs |
/// |---|---|
/// | `apps`: deployments, statefulsets, daemonsets; `batch`: jobs, cronjobs | get, list, watch, patch, create, delete |
/// | `apps`: controllerrevisions | get, list, watch, patch, create, delete |
/// | `apps`: replicasets | get, list, watch, delete |
/// | `apps`: deployments/scale, statefulsets/scale | patch |
/// | `autoscaling`: horizontalpodautoscalers | list (else a warning) |
/// | pods | get, list, watch, delete |
/// | pods/log | get |
/// | services | get, patch, create, delete |
/// | secrets | get, list, patch, create, delete |
/// | events | list |
/// | `networking.k8s.io`: ingresses | get, list (in all namespaces, else a warning), patch, create, delete |
/// | namespaces | get, patch, create, delete (for namespaces that it makes) |
///
/// `list` and `watch` without a namespace need list and watch in all of them.
///
/// # What stands beside a launch
///
/// Each revision that was launched is a ControllerRevision; the last ten that were marked healthy are kept, and the last ten
/// of the others. A reply names them together, as `ControllerRevisions` of the workload's name. A restart is an annotation of
/// the pod template, a pause (of Deployments alone) is `spec.paused`, both by field managers of their own, so that a launch neither makes nor removes
/// them; but one that changes something ends a pause. A configuration is an immutable Secret. The routes of a workload are
/// one Ingress, which the router of [`ingress_class`](Self::ingress_class) reads. A run of a periodic workload is controlled by its CronJob and goes with
/// what that one's limits of history let go; it does not hold up the schedule. Runs have no Service and no history.
///
/// # Routes
///
/// The server has no lock over Ingresses. So an expose that wrote looks at all of them once more: if another Ingress has one
/// of its routes now, it takes its own write back and answers
/// [`RouteTaken`](scheduler_core::Conflict::RouteTaken), to be tried [again](scheduler_core::Retry::AfterReread). Of two at
/// once, one or none passes, never both. One that was cut off before that second look leaves its write; then each further
/// expose of the route is refused, also by the two that have it, until one of them is unexposed.
///
/// Routes that [move](scheduler_core::Expose::taking_from) to another workload are in two Ingresses for a moment, and the
/// router chooses. A router whose admission webhook refuses that does not let them move: that of ingress-nginx does, unless it
/// is turned off (kubernetes/ingress-nginx#6776). The answer is then the server's refusal, and nothing has changed.
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
/// [`Guard::Adopt`](scheduler_core::Guard::Adopt) of a main object keeps its selector, which is immutable. `list` and `watch` find Pods by our labels, so
/// that they do not count the Pods from before until the rollout replaced them; `status` does.
#[derive(Clone, Debug)]
pub struct KubernetesScheduler {
    pub(crate) client: Requests,
    owner: OwnerId,
    capabilities: Capabilities,
    ingress_class: Option<String>,
}

impl KubernetesScheduler {
    /// Connects, and asks the server for its version. Cost: one request.
    ///
    /// # Errors
    /// [`InvalidArgument`](scheduler_core::ErrorKind::InvalidArgument) when the connection cannot be set up as described; otherwise what
    /// the request met.
    pub async fn connect(options: ConnectOptions, owner: OwnerId) -> Result<Self> {
        let client = Client::connect(options)
            .await
            .map_err(|error| translate(&error).with_op(OpName::Connect).with_backend(&BackendName::kubernetes()))?;
        Ok(Self::new(client, owner))
    }

    /// Uses a ready client. Sends nothing: a client that has not asked the server for its version is taken to speak to the
    /// oldest one supported, 1.29. See [`for_version`](Self::for_version).
    #[must_use]
    pub fn new(client: Client, owner: OwnerId) -> Self {
        let version = client.server_version().map(|version| (version.major, version.minor));
        Self { capabilities: capabilities(version), client: Requests::new(client), owner, ingress_class: None }
    }

    /// For a ready client whose server is known to be of this version (1 and 36, say).
    #[must_use]
    pub fn for_version(mut self, major: u32, minor: u32) -> Self {
        self.capabilities = capabilities(Some((major, minor)));
        self
    }

    /// Exposes by Ingresses of this class. Without one the cluster's default class counts.
    #[must_use]
    pub fn ingress_class(mut self, class: impl Into<String>) -> Self {
        self.ingress_class = Some(class.into());
        self
    }

    /// The client below.
    #[must_use]
    pub fn client(&self) -> &Client {
        self.client.reads()
    }

    /// The owner whose workloads these are.
    #[must_use]
    pub fn owner(&self) -> &OwnerId {
        &self.owner
    }

    /// The same for one operation that changes something.
    pub(crate) fn for_one(&self) -> Self {
        Self { client: self.client.afresh(), ..self.clone() }
    }

    /// The failure of the operation that this value is for.
    fn failed(&self, error: Error, op: OpName, target: Option<&Target>) -> Error {
        about(self.client.judge(error), op, target)
    }
}

fn capabilities(version: Option<(u32, u32)>) -> Capabilities {
    let no = |reason: &str| Support::No(reason.to_owned());
    let all = Capabilities::all(BackendName::kubernetes());
    let canaries = "a Deployment has no canaries; run the new version as a workload of its own beside the old one";
    let mut can = all
        .with(Feature::Canaries, no(canaries))
        .with(Feature::Promote, no(canaries))
        .with(Feature::Abort, no(canaries))
        .with(Feature::RestartInstance, no("the kubelet cannot be asked to start a container again; stop the instance"))
        .with(Feature::WeightedRoutes, no("an Ingress has no weights"));
    let (major, minor) = version.unwrap_or(OLDEST);
    if (major, minor) < OLDEST {
        let reason = no(&format!("it needs Kubernetes 1.29; the server has {major}.{minor}"));
        let newer = [Feature::Sidecars, Feature::Jobs, Feature::PeriodicJobs, Feature::RunOneOff, Feature::RunNow];
        can = newer.into_iter().fold(can, |can, feature| can.with(feature, reason.clone()));
    }
    can
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
        let own = self.for_one();
        let done = within(&op.call, launch::launch(&own, &op)).await;
        done.map_err(|error| own.failed(error, OpName::Launch, Some(op.workload.target())))
    }

    async fn delete(&self, op: Delete) -> Result<Deleted> {
        let own = self.for_one();
        let done = within(&op.call, delete::delete(&own, &op)).await;
        done.map_err(|error| own.failed(error, OpName::Delete, Some(&op.target)))
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
        let items = watch::watch(self.client.reads(), &self.owner, op.filter);
        items.map(|item| item.map_err(|error| about(error, OpName::Watch, None))).boxed()
    }

    async fn scale(&self, op: Scale) -> Result<Scaled> {
        let own = self.for_one();
        let done = within(&op.call, steer::scale(&own, &op)).await;
        done.map_err(|error| own.failed(error, OpName::Scale, Some(&op.target)))
    }

    async fn rollout(&self, op: Rollout) -> Result<Steered> {
        let own = self.for_one();
        let done = within(&op.call, steer::rollout(&own, &op)).await;
        done.map_err(|error| own.failed(error, OpName::Rollout, Some(&op.target)))
    }

    async fn instance(&self, op: OnInstance) -> Result<InstanceAnswer> {
        if op.action != InstanceAction::Stop {
            let needed = [Feature::RestartInstance].into();
            self.capabilities.require(&needed).map_err(|error| about(error, OpName::OnInstance, Some(&op.target)))?;
        }
        let own = self.for_one();
        let done = within(&op.call, steer::stop(&own, &op)).await;
        done.map_err(|error| own.failed(error, OpName::OnInstance, Some(&op.target)))
    }

    async fn history(&self, op: History) -> Result<Revisions> {
        let done = within(&op.call, history::history(self, &op.target)).await;
        done.map_err(|error| about(error, OpName::History, Some(&op.target)))
    }

    async fn mark_healthy(&self, op: MarkHealthy) -> Result<MarkedHealthy> {
        let own = self.for_one();
        let done = within(&op.call, history::mark_healthy(&own, &op)).await;
        done.map_err(|error| own.failed(error, OpName::MarkHealthy, Some(&op.target)))
    }

    async fn run(&self, op: Run) -> Result<RunStarted> {
        let own = self.for_one();
        let done = within(&op.call, run::run(&own, &op)).await;
        done.map_err(|error| own.failed(error, OpName::Run, Some(op.base())))
    }

    async fn plan(&self, op: Plan) -> Result<Planned> {
        let done = within(&op.call, plan::plan(self, &op)).await;
        done.map_err(|error| about(error, OpName::Plan, Some(op.workload.target())))
    }

    async fn put_config(&self, op: PutConfig) -> Result<ConfigStored> {
        let own = self.for_one();
        let done = within(&op.call, config::put(&own, &op)).await;
        done.map_err(|error| own.failed(error, OpName::PutConfig, Some(&op.target)))
    }

    async fn expose(&self, op: Expose) -> Result<Exposed> {
        let own = self.for_one();
        let done = within(&op.call, route::expose(&own, &op)).await;
        done.map_err(|error| own.failed(error, OpName::Expose, Some(&op.target)))
    }

    async fn unexpose(&self, op: Unexpose) -> Result<Unexposed> {
        let own = self.for_one();
        let done = within(&op.call, route::unexpose(&own, &op)).await;
        done.map_err(|error| own.failed(error, OpName::Unexpose, Some(&op.target)))
    }

    async fn endpoints(&self, op: Endpoints) -> Result<ReadyEndpoints> {
        let done = within(&op.call, read::endpoints(self, &op)).await;
        done.map_err(|error| about(error, OpName::Endpoints, Some(&op.target)))
    }

    async fn ensure_namespace(&self, op: EnsureNamespace) -> Result<NamespaceEnsured> {
        let own = self.for_one();
        let done = within(&op.call, namespace::ensure(&own, &op)).await;
        done.map_err(|error| own.failed(error, OpName::EnsureNamespace, None))
    }

    async fn delete_namespace(&self, op: DeleteNamespace) -> Result<NamespaceDeleted> {
        let own = self.for_one();
        let done = within(&op.call, namespace::delete(&own, &op)).await;
        done.map_err(|error| own.failed(error, OpName::DeleteNamespace, None))
    }

    fn logs(&self, op: Logs) -> BoxStream<'static, Result<LogItem>> {
        let target = op.target.clone();
        let items = logs::logs(self, op);
        items.map(move |item| item.map_err(|error| about(error, OpName::Logs, Some(&target)))).boxed()
    }

    async fn ping(&self, op: Ping) -> Result<Pong> {
        let asked = async { self.client.reads().version().await.map_err(|error| translate(&error)) };
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
