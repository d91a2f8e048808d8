//! Pods and Deployments as a user would write them, and every status that they go through.

use std::{collections::VecDeque, pin::Pin, time::Duration};

use futures_util::{Stream, StreamExt as _};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ContainerState, ContainerStatus, Event, Pod},
};
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
    runtime::watcher::{self, watcher},
};
use serde_json::{Value, json};

/// Far more than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What a namespace's Pods go through, from before the first one is created. A Pod that is deleted is `None`.
pub(crate) struct Pods {
    events: Pin<Box<dyn Stream<Item = watcher::Result<watcher::Event<Pod>>> + Send>>,
    seen: VecDeque<Pod>,
}

impl Pods {
    pub(crate) async fn watch(client: &Client, namespace: &str) -> Self {
        let api = Api::<Pod>::namespaced(client.clone(), namespace);
        let mut events = Box::pin(watcher(api, watcher::Config::default()));
        while !matches!(events.next().await.unwrap().unwrap(), watcher::Event::InitDone) {}
        Self { events, seen: VecDeque::new() }
    }

    async fn next(&mut self) -> watcher::Event<Pod> {
        tokio::time::timeout(PATIENCE, self.events.next()).await.expect("a change").unwrap().unwrap()
    }

    /// The next version of a Pod that is as wanted.
    pub(crate) async fn until(&mut self, what: &str, wanted: impl Fn(&Pod) -> bool + Send + Sync) -> Pod {
        let found = async {
            loop {
                if let watcher::Event::Apply(pod) = self.next().await {
                    self.seen.push_back(pod.clone());
                    if wanted(&pod) {
                        return pod;
                    }
                }
            }
        };
        let found = tokio::time::timeout(PATIENCE, found).await;
        found.unwrap_or_else(|_| {
            let last = self.seen.back().and_then(|pod| pod.status.as_ref());
            panic!("never {what}; last {last:#?}")
        })
    }

    pub(crate) async fn until_gone(&mut self) -> Pod {
        loop {
            match self.next().await {
                watcher::Event::Apply(pod) => self.seen.push_back(pod),
                watcher::Event::Delete(pod) => return pod,
                _ => {}
            }
        }
    }

    /// Every version so far, and forgets them.
    pub(crate) fn seen(&mut self) -> Vec<Pod> {
        self.seen.drain(..).collect()
    }
}

/// Creates a Deployment with one container; `more` is merged into the container.
pub(crate) async fn deploy(client: &Client, namespace: &str, replicas: u32, image: &str, more: Value) {
    let mut container = json!({"name": "main", "image": image});
    merge(&mut container, more);
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
        },
    });
    let deployment: Deployment = serde_json::from_value(deployment).unwrap();
    let api = Api::namespaced(client.clone(), namespace);
    api.create(&PostParams::default(), &deployment).await.unwrap();
}

/// Creates a Pod of its own.
pub(crate) async fn create_pod(client: &Client, namespace: &str, spec: Value) -> Pod {
    let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "pod"}, "spec": spec})).unwrap();
    Api::namespaced(client.clone(), namespace).create(&PostParams::default(), &pod).await.unwrap()
}

fn merge(into: &mut Value, more: Value) {
    if let (Some(into), Value::Object(more)) = (into.as_object_mut(), more) {
        into.extend(more);
    }
}

pub(crate) fn statuses(pod: &Pod) -> &[ContainerStatus] {
    pod.status.as_ref().and_then(|status| status.container_statuses.as_deref()).unwrap_or_default()
}

pub(crate) fn init_statuses(pod: &Pod) -> &[ContainerStatus] {
    pod.status.as_ref().and_then(|status| status.init_container_statuses.as_deref()).unwrap_or_default()
}

pub(crate) fn waits_for(status: &ContainerStatus, reason: &str) -> bool {
    let waiting = status.state.as_ref().and_then(|state| state.waiting.as_ref());
    waiting.is_some_and(|waiting| waiting.reason.as_deref() == Some(reason))
}

/// The first container waits, for this reason.
pub(crate) fn waits(pod: &Pod, reason: &str) -> bool {
    statuses(pod).first().is_some_and(|status| waits_for(status, reason))
}

pub(crate) fn runs(status: &ContainerStatus) -> bool {
    status.state.as_ref().is_some_and(|state| state.running.is_some())
}

/// Exit code, signal and reason.
pub(crate) fn end(state: Option<&ContainerState>) -> Option<(i32, Option<i32>, &str)> {
    let terminated = state?.terminated.as_ref()?;
    Some((terminated.exit_code, terminated.signal, terminated.reason.as_deref().unwrap_or_default()))
}

pub(crate) fn condition<'a>(pod: &'a Pod, type_: &str) -> Option<&'a str> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == type_).map(|condition| condition.status.as_str())
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready") == Some("True")
}

pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

pub(crate) fn node(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

/// The next Event about a Pod with that reason, past ones included.
pub(crate) async fn event(client: &Client, pod: &Pod, reason: &str) -> Event {
    let namespace = pod.metadata.namespace.as_deref().unwrap();
    let api = Api::<Event>::namespaced(client.clone(), namespace);
    let uid = pod.metadata.uid.as_deref().unwrap();
    let fields = format!("involvedObject.uid={uid},reason={reason}");
    let config = watcher::Config::default().fields(&fields);
    let mut events = Box::pin(watcher(api, config));
    let found = async {
        loop {
            if let watcher::Event::InitApply(event) | watcher::Event::Apply(event) =
                events.next().await.unwrap().unwrap()
            {
                return event;
            }
        }
    };
    tokio::time::timeout(PATIENCE, found).await.unwrap_or_else(|_| panic!("no event {reason}"))
}

pub(crate) async fn list(client: &Client, namespace: &str) -> Vec<Pod> {
    Api::<Pod>::namespaced(client.clone(), namespace).list(&ListParams::default()).await.unwrap().items
}
