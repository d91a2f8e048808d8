//! Volumes for claims, as a cluster's provisioner would make them. Nothing is stored: the volumes are names.

use std::pin::pin;

use futures_util::StreamExt as _;
use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim},
    storage::v1::StorageClass,
};
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
    runtime::{WatchStreamExt as _, watcher},
};
use serde_json::json;

use crate::{TestbedError, testbed::object};

/// The name of the class and of its provisioner.
const CLASS: &str = "testbed";

/// Makes the class that claims get unless they name another one.
pub(crate) async fn register(client: &Client) -> Result<(), TestbedError> {
    let class = json!({
        "metadata": {"name": CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": CLASS,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    });
    let class: StorageClass = object(class, "a storage class")?;
    let api = Api::<StorageClass>::all(client.clone());
    api.create(&PostParams::default(), &class).await.map_err(TestbedError::kubernetes("make a storage class"))?;
    Ok(())
}

/// Provisions until it is dropped. A request that fails is repeated when its object changes next, which the real volume
/// controller sees to: it notes on each claim what it waits for.
pub(crate) async fn run(client: Client) {
    let (claims, volumes) = (Api::all(client.clone()), Api::all(client.clone()));
    let config = watcher::Config::default();
    let mut claims = pin!(
        watcher::watcher(claims, config.clone())
            .default_backoff()
            .applied_objects()
            .filter_map(|claim| async { wanted(&claim.ok()?) })
    );
    let mut released = pin!(
        watcher::watcher(volumes, config)
            .default_backoff()
            .applied_objects()
            .filter_map(|volume| async { released(volume.ok()?) })
    );
    let api = Api::<PersistentVolume>::all(client);
    loop {
        tokio::select! {
            Some(volume) = claims.next() => drop(api.create(&PostParams::default(), &volume).await),
            Some(name) = released.next() => drop(api.delete(&name, &DeleteParams::default()).await),
            else => return,
        }
    }
}

/// The volume that a claim of our class still lacks. Its name is made from the claim's uid, so that there is one.
fn wanted(claim: &PersistentVolumeClaim) -> Option<PersistentVolume> {
    let (metadata, spec) = (&claim.metadata, claim.spec.as_ref()?);
    if spec.storage_class_name.as_deref() != Some(CLASS) || spec.volume_name.is_some() {
        return None;
    }
    let name = format!("pvc-{}", metadata.uid.as_deref()?);
    let volume = json!({
        "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": CLASS}},
        "spec": {
            "storageClassName": CLASS,
            "persistentVolumeReclaimPolicy": "Delete",
            "capacity": spec.resources.as_ref()?.requests.as_ref()?,
            "accessModes": spec.access_modes,
            "volumeMode": spec.volume_mode,
            "hostPath": {"path": format!("/testbed/{name}")},
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "namespace": metadata.namespace, "name": metadata.name, "uid": metadata.uid,
            },
        },
    });
    object(volume, "a volume").ok()
}

/// The name of a volume of ours whose claim is gone.
fn released(volume: PersistentVolume) -> Option<String> {
    let is_ours = volume.spec?.storage_class_name.as_deref() == Some(CLASS);
    let is_released = volume.status?.phase.as_deref() == Some("Released");
    volume.metadata.name.filter(|_| is_ours && is_released)
}
