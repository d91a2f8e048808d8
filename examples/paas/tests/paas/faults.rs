//! What goes wrong, and what is said about it.

use std::sync::Arc;

use scheduler_core::memory::MemoryCluster;
use scheduler_core::{Delete, OwnerId, Scheduler as _, Target};
use serde_json::{Value, json};

use super::story::release;
use super::world::{Database, World};
use paas::backend::Backend;

fn paths(refused: &Value) -> Vec<&str> {
    refused["faults"].as_array().unwrap().iter().map(|fault| fault["path"].as_str().unwrap()).collect()
}

/// What is refused says what was wrong, and changes nothing.
pub async fn are_refused() {
    let world = World::memory().await;
    let client = world.client;
    let refused = client.post("/apps", &json!({ "name": "Shop" })).await.expect(422);
    assert_eq!(paths(&refused), ["name"]);
    let refused = client.post("/apps", &json!({ "nom": "shop" })).await.expect(422);
    assert_eq!(refused["error"], "invalid", "{refused}");
    client.post("/apps/shop/releases", &json!({ "image": "sim/run:1" })).await.expect(404);

    client.post("/apps", &json!({ "name": "shop" })).await.expect(201);
    client.post("/apps", &json!({ "name": "blog" })).await.expect(201);
    assert_eq!(client.post("/apps", &json!({ "name": "shop" })).await.expect(409)["error"], "conflict");
    client.post("/apps/shop/rollback", &json!({})).await.expect(409);
    client.post("/apps/shop/runs", &json!({})).await.expect(409);

    // A fault of shape, of values that the platform knows, and of values that only the hooks judge.
    let refused = client.post("/apps/shop/releases", &json!({ "image": "x", "port": "http" })).await.expect(422);
    assert_eq!(paths(&refused), ["port"]);
    let refused = client.post("/apps/shop/releases", &json!({})).await.expect(422);
    assert_eq!(paths(&refused), ["image"]);
    let refused = client.post("/apps/shop/releases", &json!({ "image": "not an image" })).await.expect(422);
    assert!(paths(&refused)[0].ends_with("containers[0].image"), "{refused}");
    let file = "namespace: x\nname: web\ncontainers:\n  - name: web\n    imago: web:1\n";
    let refused = client.send("POST", "/apps/shop/releases", file, &[("content-type", "application/yaml")]).await;
    let refused = refused.expect(422);
    assert!(refused["message"].as_str().unwrap().contains("line 5"), "{refused}");
    assert_eq!(client.get("/apps/shop").await["releases"], json!([]), "a veto leaves no release behind");

    client.post("/apps/shop/domains", &json!({ "host": "shop.example" })).await.expect(202);
    let taken = client.post("/apps/blog/domains", &json!({ "host": "shop.example" })).await.expect(409);
    assert!(taken["message"].as_str().unwrap().contains("shop.example is a domain of shop"), "{taken}");
    client.post("/apps/blog/domains", &json!({ "host": "not a host" })).await.expect(422);
    client.delete("/apps/blog/domains/blog.example").await.expect(404);
    client.post("/apps/shop/releases", &json!({ "image": "sim/run:1" })).await.expect(202);
    let refused = client.put("/apps/shop/formation", &json!({ "wbe": 2 })).await.expect(422);
    assert!(paths(&refused)[0].contains("wbe"), "{refused}");

    let elsewhere = [("content-type", "application/json"), ("origin", "http://evil.example")];
    client.send("POST", "/apps", r#"{"name": "trap"}"#, &elsewhere).await.expect(403);
    client.send("GET", "/apps/trap", "", &[]).await.expect(404);
    world.stop().await;
}

/// Ten at once over two apps: each request is answered with success or a conflict, and the model has what succeeded.
pub async fn of_haste_lose_nothing() {
    let world = World::memory().await;
    let client = world.client;
    for app in ["one", "two"] {
        client.post("/apps", &json!({ "name": app })).await.expect(201);
    }
    let add = async |n: usize| {
        let (app, host) = (["one", "two"][n % 2], format!("h{}.example", n / 2));
        let answer = client.post(&format!("/apps/{app}/domains"), &json!({ "host": host })).await;
        assert!(matches!(answer.status, 202 | 409), "{}", answer.body);
        (answer.status == 202).then_some((app, host))
    };
    let mut done: Vec<_> = futures_util::future::join_all((0..10).map(add)).await.into_iter().flatten().collect();
    done.sort();
    let mut feed = client.follow("/events", None).await;
    let mut there = Vec::new();
    for app in ["one", "two"] {
        let view = client.get(&format!("/apps/{app}")).await;
        there.extend(view["domains"].as_array().unwrap().iter().map(|host| (app, host.as_str().unwrap().to_owned())));
    }
    assert_eq!(there, done);
    let hosts: std::collections::BTreeSet<_> = done.iter().map(|(_, host)| host).collect();
    assert!(hosts.len() == done.len() && !done.is_empty(), "{done:?}");
    assert_eq!(feed.next().await.unwrap().event, "snapshot");
    world.stop().await;
}

/// Whoever was cut off goes on after the last message that it saw; whoever says nothing sensible begins anew.
pub async fn of_the_line_are_made_good() {
    let world = World::memory().await;
    let client = world.client;
    client.post("/apps", &json!({ "name": "shop" })).await.expect(201);
    let mut feed = client.follow("/apps/shop/events", None).await;
    let snapshot = feed.next().await.unwrap();
    client.post("/apps/shop/domains", &json!({ "host": "a.example" })).await.expect(202);
    let seen = feed.until("app", |app| app["domains"] == json!(["a.example"])).await;
    drop(feed);
    client.post("/apps/shop/domains", &json!({ "host": "b.example" })).await.expect(202);

    let mut again = client.follow("/apps/shop/events", Some(&seen.id)).await;
    let next = again.next().await.unwrap();
    assert_ne!(next.event, "snapshot", "{next:?}");
    assert!(number(&next.id) > number(&seen.id) && number(&seen.id) >= number(&snapshot.id), "{next:?}");
    again.until("app", |app| app["domains"] == json!(["a.example", "b.example"])).await;
    for odd in ["", "x", "other-run-5", "999999"] {
        let mut anew = client.follow("/apps/shop/events", Some(odd)).await;
        assert_eq!(anew.next().await.unwrap().event, "snapshot", "{odd}");
    }
    // Feeds end with the platform, or it would not end.
    world.stop().await;
    again.until_end().await;
}

fn number(id: &str) -> u64 {
    id.rsplit_once('-').unwrap().1.parse().unwrap()
}

/// A command runs once, whoever asks for it again under its key.
pub async fn twice_under_one_key_run_once() {
    let world = World::memory().await;
    let client = world.client;
    client.post("/apps", &json!({ "name": "shop" })).await.expect(201);
    let mut feed = client.follow("/apps/shop/events", None).await;
    client.post("/apps/shop/releases", &json!({ "image": "sim/run:1" })).await.expect(202);
    feed.until("app", |app| release(app, 1) == "good").await;
    let run = json!({ "command": ["migrate"], "key": "one" });
    client.post("/apps/shop/runs", &run).await.expect(202);
    let again = client.post("/apps/shop/runs", &run).await.expect(202);
    assert_eq!(again["runs"].as_array().unwrap().len(), 1);
    let asked = again["waiting"].as_array().unwrap().iter().filter(|event| event["hook"] == "post_run_request");
    assert!(asked.count() <= 1, "{again}");
    world.stop().await;
}

/// What somebody takes away behind the platform's back is told, and comes again.
pub async fn behind_its_back_are_repaired() {
    let cluster = MemoryCluster::builder().build();
    let scheduler = cluster.scheduler(OwnerId::new("platform").unwrap());
    let backend = Backend { scheduler: Arc::new(scheduler.clone()), hooks: None };
    let world = World::start(backend, Database::new()).await;
    let client = world.client;
    client.post("/apps", &json!({ "name": "shop" })).await.expect(201);
    let mut feed = client.follow("/apps/shop/events", None).await;
    client.post("/apps/shop/releases", &json!({ "image": "sim/run:1" })).await.expect(202);
    feed.until("app", |app| release(app, 1) == "good" && app["waiting"] == json!([])).await;

    let web = Target::new("app-shop", "web").unwrap();
    scheduler.delete(Delete::new(web)).await.unwrap();
    let drift = feed.until("drift", |_| true).await.data;
    assert_eq!((&drift["target"]["name"], &drift["kind"]), (&json!("web"), &json!("missing")));
    feed.until("workload", |w| w["name"] == "web" && w["verdict"] == "healthy").await;
    world.stop().await;
}

/// A release that hangs is no reason to wait for its end.
pub async fn of_a_release_that_hangs_make_way() {
    let world = World::memory().await;
    let client = world.client;
    client.post("/apps", &json!({ "name": "shop" })).await.expect(201);
    let mut feed = client.follow("/apps/shop/events", None).await;
    let hangs = json!({ "image": "sim/never-ready:1", "patience": 3600 });
    let rolls_out = |app: &Value| app["deploy"]["stages"].as_array().is_some_and(|stages| stages.len() > 2);
    client.post("/apps/shop/releases", &hangs).await.expect(202);
    feed.until("app", |app| release(app, 1) == "deploying" && rolls_out(app)).await;
    client.post("/apps/shop/releases", &json!({ "image": "sim/run:2" })).await.expect(202);
    let ended = feed.until("app", |app| release(app, 2) == "good").await.data;
    let first = ended["releases"].as_array().unwrap().iter().find(|row| row["version"] == 1).unwrap();
    assert!(first["reason"].as_str().unwrap().contains("release 2"), "{first}");

    // Nor is one that hangs when the app is destroyed.
    client.post("/apps/shop/releases", &hangs).await.expect(202);
    feed.until("app", |app| release(app, 3) == "deploying" && app["deploy"]["release"] == 3 && rolls_out(app)).await;
    client.delete("/apps/shop").await.expect(202);
    feed.until("gone", |gone| gone["app"] == "shop").await;
    client.post("/apps", &json!({ "name": "shop" })).await.expect(201);
    let mut feed = client.follow("/apps/shop/events", None).await;
    client.post("/apps/shop/releases", &json!({ "image": "sim/run:1" })).await.expect(202);
    feed.until("app", |app| release(app, 1) == "good").await;
    world.stop().await;
}
