//! Carries out what the simulation of one Pod decides: the only part of the kubelet that talks to the API server.

use std::{
    collections::BTreeMap,
    future::Future,
    net::{IpAddr, Ipv4Addr},
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference, Pod, PodStatus},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
    jiff::{SignedDuration, Timestamp},
};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::json;
use tokio::sync::{Semaphore, watch};

use super::{
    configuration,
    container::Note,
    endpoint::{Outputs, Writer},
    pod::SimulatedPod,
};
use crate::nodes::Nodes;

/// Requests at a time. Each one under way holds a connection, and a handshake for every Pod of a large rollout would
/// cost more than it wins.
const REQUESTS: usize = 32;

/// After a failed request, before the Pod is looked at again.
const RETRY: Duration = Duration::from_millis(200);

/// The first address of Pods; nodes have those before.
const FIRST_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 16, 1);

/// How many addresses there are until the end of 198.18.0.0/15.
const ADDRESSES: u32 = (1 << 17) - (16 << 8) - 2;

/// What all Pods share.
pub(super) struct Kubelet {
    client: Client,
    nodes: Arc<Nodes>,
    outputs: Arc<Outputs>,
    requests: Semaphore,
    next_address: AtomicU32,
    next_event: AtomicU64,
}

impl Kubelet {
    pub(super) fn new(client: Client, nodes: Arc<Nodes>, outputs: Arc<Outputs>) -> Self {
        Self {
            client,
            nodes,
            outputs,
            requests: Semaphore::new(REQUESTS),
            next_address: AtomicU32::new(0),
            next_event: AtomicU64::new(0),
        }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// An address that no Pod of the last hundred thousand had.
    fn address(&self) -> IpAddr {
        let number = self.next_address.fetch_add(1, Ordering::Relaxed) % ADDRESSES;
        Ipv4Addr::from_bits(FIRST_ADDRESS.to_bits() + number).into()
    }

    /// A request, when its turn comes.
    async fn request<T>(&self, request: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
        // Nobody closes the semaphore, so there always is a permit.
        let _permit = self.requests.acquire().await.ok();
        request.await
    }
}

/// Plays a Pod until it is gone.
pub(super) async fn play(kubelet: Arc<Kubelet>, mut pods: watch::Receiver<Arc<Pod>>) {
    let pod = Arc::clone(&pods.borrow());
    let Some(link) = pod.spec.as_ref().and_then(|spec| kubelet.nodes.link(spec.node_name.as_deref()?)) else {
        return; // bound to a node of somebody else
    };
    let address = kubelet.address();
    let simulated = SimulatedPod::new(&pod, address, link.address, Timestamp::now());
    let mut player = Player {
        api: Api::namespaced(kubelet.client.clone(), pod.metadata.namespace.as_deref().unwrap_or_default()),
        kubelet: &kubelet,
        output: kubelet.outputs.open(&pod, simulated.output()),
        simulated,
        published: None,
        pod,
    };
    let mut connection = link.changes();
    loop {
        let due = {
            let _connected = link.connected().await;
            if pods.has_changed().is_err() {
                return;
            }
            player.pod = Arc::clone(&pods.borrow_and_update());
            // If the Pod itself is gone, the watch will end this.
            player.look().await.unwrap_or_else(|_| Some(Timestamp::now() + RETRY))
        };
        tokio::select! {
            changed = pods.changed() => if changed.is_err() { return },
            () = until(due) => {}
            // Whatever was said in its absence, it says again what it knows.
            _ = connection.changed() => player.published = None,
        }
    }
}

async fn until(due: Option<Timestamp>) {
    match due {
        Some(due) => {
            let wait = due.duration_since(Timestamp::now()).max(SignedDuration::ZERO);
            tokio::time::sleep(wait.unsigned_abs()).await;
        }
        None => std::future::pending().await,
    }
}

/// One Pod with what it takes to speak about it.
struct Player<'a> {
    kubelet: &'a Kubelet,
    api: Api<Pod>,
    pod: Arc<Pod>,
    simulated: SimulatedPod,
    output: Writer,
    /// The status that the API server has, as far as known.
    published: Option<PodStatus>,
}

impl Player<'_> {
    /// Lets the Pod take a step, and tells the API server. Returns when to look again.
    async fn look(&mut self) -> kube::Result<Option<Timestamp>> {
        let now = Timestamp::now();
        self.simulated.observe(&self.pod, now);
        let missing = self.missing(now).await?;
        let step = self.simulated.advance(now, &missing);
        self.output.write(self.simulated.output());
        let told = self.publish(now).await;
        for note in step.notes {
            self.tell(note, now).await;
        }
        told?;
        if self.simulated.is_gone() {
            self.delete().await?;
        }
        Ok(step.due)
    }

    async fn missing(&self, now: Timestamp) -> kube::Result<BTreeMap<String, String>> {
        let containers = self.simulated.wants_configuration(now);
        self.kubelet.request(configuration::missing(&self.kubelet.client, &self.pod, containers)).await
    }

    /// Strategic merge as real kubelets do it: conditions of others (PodScheduled, DisruptionTarget) stay. The uid makes
    /// it fail on another Pod of the same name.
    async fn publish(&mut self, now: Timestamp) -> kube::Result<()> {
        let status = self.simulated.status(now);
        if self.published.as_ref() == Some(&status) {
            return Ok(());
        }
        let patch = Patch::Strategic(json!({"metadata": {"uid": self.pod.metadata.uid}, "status": status}));
        let parameters = PatchParams::default();
        let request = self.api.patch_status(self.name(), &parameters, &patch);
        self.kubelet.request(request).await?;
        self.published = Some(status);
        Ok(())
    }

    /// The last act of a kubelet: the object itself goes, now that nothing runs any more.
    async fn delete(&self) -> kube::Result<()> {
        let preconditions = Preconditions { uid: self.pod.metadata.uid.clone(), ..Preconditions::default() };
        let parameters = DeleteParams::default().grace_period(0).preconditions(preconditions);
        let request = self.api.delete(self.name(), &parameters);
        self.kubelet.request(request).await?;
        Ok(())
    }

    /// An Event. It may be lost, as Events may: a namespace that is being deleted takes none.
    async fn tell(&self, note: Note, now: Timestamp) {
        let metadata = &self.pod.metadata;
        let number = self.kubelet.next_event.fetch_add(1, Ordering::Relaxed);
        let is_init = |spec: &k8s_openapi::api::core::v1::PodSpec| {
            spec.init_containers.iter().flatten().any(|container| container.name == note.container)
        };
        let list = if self.pod.spec.as_ref().is_some_and(is_init) { "initContainers" } else { "containers" };
        let event = Event {
            metadata: ObjectMeta {
                name: Some(format!("{}.{number:x}", self.name())),
                namespace: metadata.namespace.clone(),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: metadata.name.clone(),
                namespace: metadata.namespace.clone(),
                uid: metadata.uid.clone(),
                field_path: Some(format!("spec.{list}{{{}}}", note.container)),
                ..ObjectReference::default()
            },
            type_: Some(if note.warning { "Warning" } else { "Normal" }.to_owned()),
            reason: Some(note.reason.to_owned()),
            message: Some(note.message),
            count: Some(1),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            source: Some(EventSource {
                component: Some("kubelet".to_owned()),
                host: self.pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
            }),
            reporting_component: Some("kubelet".to_owned()),
            ..Event::default()
        };
        let events =
            Api::<Event>::namespaced(self.kubelet.client.clone(), metadata.namespace.as_deref().unwrap_or_default());
        let parameters = PostParams::default();
        let _ = self.kubelet.request(events.create(&parameters, &event)).await;
    }

    fn name(&self) -> &str {
        self.pod.metadata.name.as_deref().unwrap_or_default()
    }
}
