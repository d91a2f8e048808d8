//! The simulated kubelets of all nodes: one watch on the Pods that are bound, one task per Pod.
//!
//! What happens to a Pod is decided by [`pod`] and [`container`], which know neither clock nor network; what the names
//! of images mean is in [`fate`], and what containers write in [`output`]; [`worker`] carries it out, and [`endpoint`]
//! lets the API server read.

mod configuration;
mod container;
mod endpoint;
mod fate;
mod output;
mod pod;
#[cfg(test)]
mod simulation_tests;
mod worker;

use std::{
    collections::{HashMap, HashSet},
    pin::pin,
    sync::Arc,
};

use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event, watcher},
    },
};
use tokio::sync::watch;

use crate::nodes::Nodes;
use endpoint::Outputs;
use worker::Kubelet;

pub(crate) use endpoint::Endpoint;

/// Plays the kubelets of all nodes until it is dropped.
pub(crate) async fn run(client: Client, nodes: Arc<Nodes>, endpoint: Endpoint) {
    let outputs = Arc::new(Outputs::default());
    let kubelet = Arc::new(Kubelet::new(client, Arc::clone(&nodes), Arc::clone(&outputs)));
    // Without its endpoint there are no logs; the Pods go on.
    let _ = tokio::join!(endpoint.serve(outputs, nodes), play_all(kubelet));
}

async fn play_all(kubelet: Arc<Kubelet>) {
    let bound = watcher::Config::default().fields("spec.nodeName!=");
    let mut events = pin!(watcher(Api::<Pod>::all(kubelet.client().clone()), bound).default_backoff());
    let mut players = Players { kubelet, pods: HashMap::new() };
    let mut listed = HashSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(pod)) => {
                listed.extend(pod.metadata.uid.clone());
                players.show(pod);
            }
            // What a new list omits was deleted while the watch was broken.
            Ok(Event::InitDone) => players.pods.retain(|uid, _| listed.contains(uid)),
            Ok(Event::Apply(pod)) => players.show(pod),
            Ok(Event::Delete(pod)) => {
                pod.metadata.uid.map(|uid| players.pods.remove(&uid));
            }
            // The stream recovers by itself, after the back-off.
            Err(_) => {}
        }
    }
}

/// The tasks by the uid of their Pod. A task ends when its sender is dropped.
struct Players {
    kubelet: Arc<Kubelet>,
    pods: HashMap<String, watch::Sender<Arc<Pod>>>,
}

impl Players {
    fn show(&mut self, pod: Pod) {
        let Some(uid) = pod.metadata.uid.clone() else { return };
        let pod = Arc::new(pod);
        if let Some(player) = self.pods.get(&uid) {
            player.send_replace(pod);
        } else {
            let (sender, receiver) = watch::channel(pod);
            tokio::spawn(worker::play(Arc::clone(&self.kubelet), receiver));
            self.pods.insert(uid, sender);
        }
    }
}
