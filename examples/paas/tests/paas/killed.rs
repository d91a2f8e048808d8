//! The platform as a process of its own, killed and started again.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::json;

use super::client::Client;
use super::story::release;
use super::world::Database;

/// The program.
struct Process {
    child: Child,
    client: Client,
}

impl Process {
    fn start(database: &Database) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_paas"));
        command.args(["--listen", "127.0.0.1:0", "--reconcile", "1", "--database"]).arg(&database.0);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let address = lines.into_iter().find_map(|line| line.strip_prefix("open http://")?.parse().ok());
        Self { child, client: Client(address.expect("it says where it listens")) }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// As Ctrl-C does.
    fn interrupt(mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        assert!(self.child.wait().unwrap().success(), "it ends well");
    }
}

/// In memory all workloads end with the process. So what was there before comes back from the models alone, and the deploy
/// that was under way goes on.
pub async fn in_a_rollout_it_goes_on() {
    let database = Database::new();
    let first = Process::start(&database);
    let client = first.client;
    for app in ["quiet", "shop"] {
        client.post("/apps", &json!({ "name": app })).await.expect(201);
        let mut feed = client.follow(&format!("/apps/{app}/events"), None).await;
        client.post(&format!("/apps/{app}/releases"), &json!({ "image": "sim/run:1" })).await.expect(202);
        feed.until("app", |view| release(view, 1) == "good" && view["waiting"] == json!([])).await;
    }
    let mut feed = client.follow("/apps/shop/events", None).await;
    client.put("/apps/shop/formation", &json!({ "web": 2 })).await.expect(202);
    client.post("/apps/shop/releases", &json!({ "image": "sim/slow/after-2:2" })).await.expect(202);
    let rolls_out = json!("roll-out");
    let under_way = feed.until("app", |view| {
        let last = view["deploy"]["stages"].as_array().and_then(|stages| stages.last());
        view["deploy"]["release"] == 2
            && last.is_some_and(|last| last["stage"] == rolls_out && last["verdict"].is_null())
    });
    let under_way = under_way.await.data;
    first.kill();

    let second = Process::start(&database);
    let mut feed = second.client.follow("/events", None).await;
    let snapshot = feed.next().await.unwrap().data;
    let names: Vec<_> = snapshot["apps"].as_array().unwrap().iter().map(|view| &view["name"]).collect();
    assert_eq!(names, ["quiet", "shop"]);
    let ended = feed.until("app", |view| view["name"] == "shop" && release(view, 2) == "good").await.data;
    assert_eq!(ended["deploy"]["started"], under_way["deploy"]["started"], "it is the same deploy");
    for (app, count) in [("quiet", 1), ("shop", 2)] {
        let details = second.client.get(&format!("/apps/{app}")).await;
        let web = &details["workloads"][0];
        assert_eq!((&web["verdict"], &web["counts"]["ready"]), (&json!("healthy"), &json!(count)), "{details}");
    }
    second.interrupt();
}
