//! The simulated nodes: their objects in the API, and whether each is connected.

use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use k8s_openapi::{
    api::core::v1::{Node as NodeObject, Pod},
    jiff::Timestamp,
};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::sync::{RwLock, RwLockReadGuard, watch};

use crate::{
    Node, TestbedError,
    testbed::{object, wait_for},
};

/// The nodes of a testbed by name.
#[derive(Debug)]
pub(crate) struct Nodes(BTreeMap<String, Link>);

/// The connection of one node's kubelet to the API server.
pub(crate) struct Link {
    pub(crate) address: IpAddr,
    up: watch::Sender<bool>,
    /// Held shared while the kubelet writes, so that nothing of it arrives after the node is lost.
    writes: RwLock<()>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("address", &self.address).field("up", &*self.up.borrow()).finish_non_exhaustive()
    }
}

impl Link {
    /// Waits until the node is connected; it stays so while the guard is held.
    pub(crate) async fn connected(&self) -> RwLockReadGuard<'_, ()> {
        let mut up = self.up.subscribe();
        loop {
            // The sender lives as long as `self`, so this cannot fail.
            let _ = up.wait_for(|up| *up).await;
            let writing = self.writes.read().await;
            if *self.up.borrow() {
                return writing;
            }
        }
    }

    /// Tells of every loss and return from now on.
    pub(crate) fn changes(&self) -> watch::Receiver<bool> {
        self.up.subscribe()
    }

    async fn cut(&self) {
        self.up.send_replace(false);
        drop(self.writes.write().await);
    }
}

impl Nodes {
    pub(crate) fn new(nodes: &[Node]) -> Self {
        let link = |(index, node): (usize, &Node)| {
            // 198.18.0.0/15 is set aside for simulations of networks (RFC 2544). Pods get what follows 198.18.16.0.
            let address = Ipv4Addr::from_bits(Ipv4Addr::new(198, 18, 0, 1).to_bits() + index as u32);
            (node.name.clone(), Link { address: address.into(), up: watch::Sender::new(true), writes: RwLock::new(()) })
        };
        Self(nodes.iter().enumerate().map(link).collect())
    }

    pub(crate) fn link(&self, name: &str) -> Option<&Link> {
        self.0.get(name)
    }

    fn known(&self, name: &str) -> Result<&Link, TestbedError> {
        self.link(name).ok_or_else(|| TestbedError::NoSuchNode(name.to_owned()))
    }

    /// Creates the objects and waits until the real node controller finds them fit for Pods.
    pub(crate) async fn register(
        &self,
        client: &Client,
        nodes: &[Node],
        kubelets: SocketAddr,
    ) -> Result<(), TestbedError> {
        let api = Api::<NodeObject>::all(client.clone());
        for node in nodes {
            let link = self.known(&node.name)?;
            let doing = format!("register the node {}", node.name);
            let node_object = object(as_object(node, link.address, kubelets), &doing)?;
            api.create(&PostParams::default(), &node_object).await.map_err(TestbedError::kubernetes(doing))?;
        }
        for node in nodes {
            wait_until_tainted(&api, &node.name, false).await?;
        }
        Ok(())
    }

    pub(crate) async fn lose(&self, client: &Client, name: &str) -> Result<(), TestbedError> {
        self.known(name)?.cut().await;
        let api = Api::<NodeObject>::all(client.clone());
        set_conditions(&api, name, conditions("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status."))
            .await?;
        pods_are_not_ready(client, name).await?;
        wait_until_tainted(&api, name, true).await
    }

    pub(crate) async fn restore(&self, client: &Client, name: &str) -> Result<(), TestbedError> {
        let link = self.known(name)?;
        let api = Api::<NodeObject>::all(client.clone());
        set_conditions(&api, name, healthy()).await?;
        link.up.send_replace(true);
        wait_until_tainted(&api, name, false).await
    }
}

/// What a kubelet posts when it registers its node.
fn as_object(node: &Node, address: IpAddr, kubelets: SocketAddr) -> Value {
    let mut labels = node.labels.clone();
    for (key, value) in [("hostname", node.name.as_str()), ("os", "linux"), ("arch", "amd64")] {
        labels.insert(format!("kubernetes.io/{key}"), value.to_owned());
    }
    let resources = json!({
        "cpu": node.cpus.to_string(),
        "memory": format!("{}Gi", node.memory_gib),
        "pods": node.pods.to_string(),
        "ephemeral-storage": "100Gi",
    });
    json!({
        "metadata": {"name": node.name, "labels": labels},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": healthy(),
            "addresses": [
                {"type": "InternalIP", "address": address},
                {"type": "Hostname", "address": node.name},
                // The one that the API server is told to use.
                {"type": "ExternalIP", "address": kubelets.ip()},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelets.port()}},
            "nodeInfo": {
                "architecture": "amd64", "operatingSystem": "linux", "osImage": "simulated", "kernelVersion": "simulated",
                "containerRuntimeVersion": "sim://1", "kubeletVersion": "v1.36.0-simulated", "kubeProxyVersion": "",
                "machineID": "", "systemUUID": "", "bootID": "",
            },
        },
    })
}

fn healthy() -> Value {
    let mut conditions = conditions("False", "KubeletIsWell", "the simulated kubelet is well");
    conditions[0] = condition("Ready", "True", "KubeletReady", "the simulated kubelet is ready");
    conditions
}

/// All conditions of a node with the same status; the first one is Ready.
fn conditions(status: &str, reason: &str, message: &str) -> Value {
    ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"]
        .map(|type_| condition(type_, status, reason, message))
        .into()
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    json!({
        "type": type_, "status": status, "reason": reason, "message": message,
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    })
}

async fn set_conditions(api: &Api<NodeObject>, name: &str, conditions: Value) -> Result<(), TestbedError> {
    let patch = Patch::Strategic(json!({"status": {"conditions": conditions}}));
    api.patch_status(name, &PatchParams::default(), &patch)
        .await
        .map_err(TestbedError::kubernetes(format!("set the conditions of the node {name}")))?;
    Ok(())
}

/// What the real node controller does when it misses a heartbeat, and only then: the condition's status changes, its
/// reason stays. (`NodeLost` as the reason of a Pod's status is history: Kubernetes 1.36 has the constant, and no caller.)
async fn pods_are_not_ready(client: &Client, node: &str) -> Result<(), TestbedError> {
    let on_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let pods = Api::<Pod>::all(client.clone())
        .list(&on_node)
        .await
        .map_err(TestbedError::kubernetes(format!("list the Pods of the node {node}")))?;
    for pod in pods {
        let conditions = pod.status.and_then(|status| status.conditions).unwrap_or_default();
        let ready = conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
        let (Some(name), Some(namespace), true) = (&pod.metadata.name, &pod.metadata.namespace, ready) else {
            continue;
        };
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let patch = json!({
            "metadata": {"uid": pod.metadata.uid},
            "status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": now}]},
        });
        let api = Api::<Pod>::namespaced(client.clone(), namespace);
        match api.patch_status(name, &PatchParams::default(), &Patch::Strategic(patch)).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {} // gone since we looked
            result => {
                result.map_err(TestbedError::kubernetes(format!("turn the Pod {namespace}/{name} not ready")))?;
            }
        }
    }
    Ok(())
}

/// Waits for the taints by which the real controllers keep Pods off a node: one that counts at scheduling is there, or
/// none is.
async fn wait_until_tainted(api: &Api<NodeObject>, name: &str, tainted: bool) -> Result<(), TestbedError> {
    let condition = move |node: Option<&NodeObject>| {
        let Some(node) = node else { return false };
        let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        let mut ours = taints.filter(|taint| taint.key.starts_with("node.kubernetes.io/"));
        if tainted { ours.any(|taint| taint.effect == "NoSchedule") } else { ours.next().is_none() }
    };
    let what = format!("the node {name} {} taints", if tainted { "gets its" } else { "is free of" });
    wait_for(api.clone(), name, condition, what).await
}
