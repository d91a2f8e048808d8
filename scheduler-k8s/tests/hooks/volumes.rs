//! Volumes: what they hold outlives everything but somebody's wish.

use super::*;

fn volume(size: &str, class: Option<&str>) -> AppVolume {
    let mut volume = AppVolume::new(size);
    volume.class = class.map(str::to_owned);
    volume
}

fn with_volume(world: &World, volume: AppVolume) -> App {
    let mut app = world.bare();
    app.volumes.insert("data".to_owned(), volume);
    app
}

fn created() -> EventKind {
    EventKind::VolumeCreated { name: "data".to_owned() }
}

pub(crate) async fn a_volume_stays_and_grows() {
    let world = World::new().await;
    let growing = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "testbed",
        "metadata": {"name": "growing"}, "allowVolumeExpansion": true,
    });
    world.create(&growing).await;
    // The testbed provisions for its own class alone.
    let capacity = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": world.namespace},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "growing",
            "hostPath": {"path": "/data"},
        },
    });
    world.create(&capacity).await;
    let size = async || world.get("pvc", "data").await["spec"]["resources"]["requests"]["storage"].clone();
    let app = with_volume(&world, volume("1Gi", Some("growing")));
    assert_eq!(world.tell(created(), &app).await, Ok(Outcome::Applied));
    assert_eq!(world.tell(created(), &app).await, Ok(Outcome::AlreadyInState));
    world.until(&["get", "pvc", "data", "--output", "jsonpath={.status.phase}"], "Bound").await;
    assert_eq!(world.tell(created(), &app).await, Ok(Outcome::AlreadyInState), "also when it is bound");
    let before = world.get("pvc", "data").await;

    let smaller = with_volume(&world, volume("1Mi", None));
    assert_eq!(world.tell(created(), &smaller).await, Ok(Outcome::AlreadyInState), "it stays as it was made");
    let larger = with_volume(&world, volume("2Gi", Some("elsewhere")));
    assert_eq!(world.tell(created(), &larger).await, Ok(Outcome::Applied));
    assert_eq!(world.tell(created(), &larger).await, Ok(Outcome::AlreadyInState));
    let after = world.get("pvc", "data").await;
    assert_eq!(size().await, "2Gi");
    assert_eq!(
        (&after["metadata"]["uid"], &after["spec"]["storageClassName"]),
        (&before["metadata"]["uid"], &json!("growing"))
    );

    // The default class does not allow it.
    let other = World::new().await;
    other.tell(created(), &with_volume(&other, volume("1Gi", None))).await.unwrap();
    other.until(&["get", "pvc", "data", "--output", "jsonpath={.status.phase}"], "Bound").await;
    let refused = other.tell(created(), &with_volume(&other, volume("2Gi", None))).await.unwrap_err();
    assert!(refused.message.contains("resize") || refused.message.contains("expan"), "{refused}");
}

pub(crate) async fn a_volume_goes_when_nothing_uses_it() {
    let world = World::new().await;
    let app = with_volume(&world, volume("1Gi", None));
    world.tell(created(), &app).await.unwrap();
    let user = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "user"},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "web", "image": "sim/run:1"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        },
    });
    world.create(&user).await;
    let gone = || EventKind::VolumeDeleted { name: "data".to_owned(), volume: AppVolume::new("1Gi") };
    world.faults.take_requests();
    let waits = world.tell(gone(), &world.bare()).await.unwrap();
    assert!(matches!(&waits, Outcome::Deferred { reason, .. } if reason.contains("used by user")), "{waits:?}");
    assert_eq!(world.writes(), [""; 0], "what it holds is there as long as it is used");
    world.kubectl(&["delete", "pod", "user"]).await;
    world.told(gone(), &world.bare()).await;
    assert_eq!(world.kubectl(&["get", "pvc", "--output", "name"]).await, "");
    assert_eq!(world.tell(gone(), &world.bare()).await, Ok(Outcome::AlreadyInState));
}

pub(crate) async fn sizes_and_classes_that_are_none_are_vetoed() {
    let world = World::new().await;
    let validate = async |volume: AppVolume| match world
        .hooks
        .validate_volume_create(&with_volume(&world, volume), "data")
        .await
        .unwrap()
    {
        Validation::Vetoed(faults) => faults.into_iter().map(|fault| fault.path).collect(),
        _ => Vec::new(),
    };
    assert_eq!(validate(volume("1Gi", Some("testbed"))).await, [""; 0]);
    assert_eq!(validate(volume("1Gi", None)).await, [""; 0]);
    assert_eq!(validate(volume("much", Some("nowhere"))).await, ["volumes.data.size", "volumes.data.class"]);
    let refused = world.tell(created(), &with_volume(&world, volume("much", None))).await.unwrap_err();
    assert!(!refused.retry && refused.message.contains("size of the volume data"), "{refused}");
}
