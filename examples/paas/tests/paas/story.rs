//! The story in the header of the program, from the first app to its end, on any backend.

use serde_json::{Value, json};

use super::client::Client;

/// Everything that a person does, and what they see. `app` is new.
pub async fn is_told(client: Client, app: &str) {
    let url = format!("/apps/{app}");
    let created = client.post("/apps", &json!({ "name": app })).await.expect(201);
    assert_eq!((&created["name"], &created["releases"]), (&json!(app), &json!([])));
    let mut feed = client.follow(&format!("{url}/events"), None).await;
    let first = feed.next().await.unwrap();
    assert_eq!((first.event.as_str(), &first.data["apps"][0]["name"]), ("snapshot", &json!(app)));

    // A release runs, and only then a domain leads to it.
    client.post(&format!("{url}/releases"), &json!({ "image": "sim/run:1", "patience": 20 })).await.expect(202);
    feed.until("workload", |w| w["name"] == "web" && w["verdict"] == "healthy").await;
    feed.until("app", |a| release(a, 1) == "good").await;
    let host = format!("{app}.example");
    client.post(&format!("{url}/domains"), &json!({ "host": host })).await.expect(202);
    feed.until("app", |a| a["domains"] == json!([host]) && a["waiting"] == json!([])).await;

    client.put(&format!("{url}/formation"), &json!({ "web": 3 })).await.expect(202);
    feed.until("workload", |w| w["counts"]["ready"] == 3 && w["verdict"] == "healthy").await;

    let run = json!({ "command": ["migrate"], "image": "sim/done/after-1", "key": "first" });
    let running = client.post(&format!("{url}/runs"), &run).await.expect(202);
    let name = running["runs"][0]["workload"].clone();
    feed.until("workload", |w| w["name"] == name && w["verdict"] == "complete").await;

    // A bad image: it is tried, seen to be bad, and taken back, with the reason and its evidence.
    client.post(&format!("{url}/releases"), &json!({ "image": "sim/pull-error:2", "patience": 3 })).await.expect(202);
    let kind = |w: &Value| w["diagnoses"].as_array().is_some_and(|all| all.iter().any(|d| d["kind"] == "image_pull"));
    feed.until("workload", |w| w["name"] == "web" && kind(w)).await;
    let failed = feed.until("app", |a| release(a, 2) == "failed").await.data;
    assert_ne!(failed["releases"][0]["reason"], Value::Null, "{failed}");
    let back = client.get(&url).await;
    let web = back["workloads"].as_array().unwrap().iter().find(|w| w["name"] == "web").unwrap();
    assert!(web["verdict"] == "healthy" && web["diagnoses"] == json!([]), "the last good one is back: {web}");

    // By hand: a good one, and back from it. The count stays as it was set.
    client.post(&format!("{url}/releases"), &json!({ "image": "sim/run:3", "patience": 20 })).await.expect(202);
    feed.until("app", |a| release(a, 3) == "good").await;
    client.post(&format!("{url}/rollback"), &json!({})).await.expect(202);
    feed.until("app", |a| release(a, 4) == "good").await;
    let now = client.get(&url).await;
    assert_eq!(
        (&now["releases"][0]["rollback_of"], &now["releases"][0]["images"]["web"]),
        (&json!(1), &json!("sim/run:1"))
    );
    let web = now["workloads"].as_array().unwrap().iter().find(|w| w["name"] == "web").unwrap();
    assert_eq!((&web["counts"]["desired"], web["instances"].as_array().unwrap().len()), (&json!(3), 3), "{web}");

    client.delete(&url).await.expect(202);
    feed.until("gone", |gone| gone["app"] == app).await;
    assert!(feed.next().await.is_none(), "the feed of an app ends with it");
    client.send("GET", &url, "", &[]).await.expect(404);
}

/// What became of a release.
pub fn release(app: &Value, version: u64) -> Value {
    let rows = app["releases"].as_array().unwrap();
    rows.iter().find(|row| row["version"] == version).map_or(Value::Null, |row| row["state"].clone())
}
