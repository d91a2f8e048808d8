//! Volumes, which the fake does not have. The answers are those of a real agent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use scheduler_core::hooks::{App, AppName, AppVolume, Event, EventId, EventKind, Outcome, SecretRef};
use scheduler_core::{ConfigValue, Namespace, Timestamp};
use scheduler_nomad::NomadHooks;
use serde_json::{Value, json};

use crate::script::Script;

const ID: &str = "303e5c9e-940d-fda5-f6f7-13d32703a443";

fn volume() -> Value {
    json!({"ID": ID, "Name": "data", "Namespace": "shop", "NodeID": "n", "PluginID": "mkdir", "State": "ready"})
}

fn owned() -> Value {
    json!({"Name": "shop", "Meta": {"scheduler/owner": "platform"}})
}

fn in_use() -> String {
    format!("volume {ID} in use by allocations: [a5c2268f-491c-c921-adc8-7762457858ca]")
}

async fn tell(script: &Script, kind: EventKind) -> Result<Outcome, scheduler_core::hooks::HookError> {
    let mut app = App::new(AppName::new("shop").unwrap(), Namespace::new("shop").unwrap());
    app.volumes.insert("data".into(), AppVolume::new("1Mi"));
    let event = Event::new(EventId::new("1"), Timestamp::from_millis(0), kind, app);
    let secrets = BTreeMap::<SecretRef, ConfigValue>::new();
    event.tell(&NomadHooks::new(&script.scheduler().await, Arc::new(secrets))).await
}

fn created() -> EventKind {
    EventKind::VolumeCreated { name: "data".into() }
}

fn deleted() -> EventKind {
    EventKind::VolumeDeleted { name: "data".into(), volume: AppVolume::new("1Mi") }
}

#[tokio::test]
async fn a_volume_is_made_once() {
    let script = Script::default().answer(&json!([])).answer(&json!({"Index": 3, "Volume": volume()}));
    assert_eq!(tell(&script, created()).await.unwrap(), Outcome::Applied);
    assert_eq!(script.asked(), ["GET volumes", "PUT volume/host/create"]);
    assert_eq!(script.sent()[1]["Volume"]["RequestedCapacityMinBytes"], 1024 * 1024);
    let script = Script::default().answer(&json!([volume()]));
    assert_eq!(tell(&script, created()).await.unwrap(), Outcome::AlreadyInState);
    script.asked();
}

#[tokio::test]
async fn a_volume_that_fits_on_no_node_is_for_somebody_to_mend() {
    let sentence = "could not place volume \"data\": no node meets constraints: 1 nodes had existing volume, 0 nodes \
                    filtered by node pool governance, 0 nodes were infeasible";
    let script = Script::default().answer(&json!([])).refuse(500, sentence);
    let error = tell(&script, created()).await.unwrap_err();
    assert!(!error.retry && error.message.contains("1 nodes had existing volume"), "{error}");
}

#[tokio::test]
async fn a_volume_in_use_is_waited_for() {
    let script = Script::default().answer(&json!([volume()])).answer(&owned()).refuse(500, &in_use());
    let Outcome::Deferred { after, .. } = tell(&script, deleted()).await.unwrap() else {
        panic!("it was not deferred")
    };
    assert_eq!(after, Duration::from_secs(5));
    let script = Script::default().answer(&json!([volume()])).answer(&owned()).answer(&json!({"Index": 9}));
    assert_eq!(tell(&script, deleted()).await.unwrap(), Outcome::Applied);
    assert_eq!(script.asked()[2], format!("DELETE volume/host/{ID}/delete"));
    // Somebody was faster.
    let gone = format!("no such volume: {ID}");
    let script = Script::default().answer(&json!([volume()])).answer(&owned()).refuse(500, &gone);
    assert_eq!(tell(&script, deleted()).await.unwrap(), Outcome::AlreadyInState);
}

#[tokio::test]
async fn no_volume_of_a_foreign_namespace_is_deleted() {
    let script = Script::default().answer(&json!([volume()])).answer(&json!({"Name": "shop"}));
    let error = tell(&script, deleted()).await.unwrap_err();
    assert!(!error.retry && error.message.contains("by hand"), "{error}");
    script.asked();
    let script = Script::default().answer(&json!([])).answer(&json!({"Name": "shop"}));
    assert_eq!(tell(&script, EventKind::AppDestroyed).await.unwrap(), Outcome::AlreadyInState);
    script.asked();
}

#[tokio::test]
async fn the_end_of_an_app_takes_what_is_free_and_does_not_wait() {
    let other = json!({"ID": ID, "Name": "else", "Namespace": "shop", "NodeID": "n"});
    let script = Script::default().answer(&json!([])).answer(&owned());
    let script = script.answer(&json!([volume(), other])).refuse(500, &in_use());
    assert_eq!(tell(&script, EventKind::AppDestroyed).await.unwrap(), Outcome::AlreadyInState);
    assert_eq!(script.asked().len(), 4, "the volume that the app has not is left");
    let script = Script::default().answer(&json!([])).answer(&owned()).answer(&json!([volume()]));
    let script = script.answer(&json!({"Index": 9}));
    assert_eq!(tell(&script, EventKind::AppDestroyed).await.unwrap(), Outcome::Applied);
}
