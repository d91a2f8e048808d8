//! Routes, and the Ingresses that they are.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};

use scheduler_core::conformance::Injection;
use scheduler_core::{Conflict, Endpoints, Expose, Route, Unexpose, Unexposed};
use tokio::sync::mpsc;

use super::*;
use crate::operations::{healthy, settle};

/// BR-67, BR-72.
pub(crate) async fn routes_are_one_ingress() {
    let world = World::new().await;
    world.launch(world.workload().replicas(2)).await;
    settle(&world, &world.target(), "healthy", healthy).await;
    let host = format!("{}.example", world.namespace);
    let expose = |path: &str| Expose::new(world.target(), [Route::new(&host, "http").path(path)]);
    assert!(world.scheduler.expose(expose("/")).await.unwrap().changed);
    assert!(!world.scheduler.expose(expose("/")).await.unwrap().changed);
    assert_eq!(world.launch(world.workload().replicas(2)).await.change, Change::Unchanged);
    let ingress = world.get("ingress").await;
    let path = &ingress["spec"]["rules"][0]["http"]["paths"][0];
    assert_eq!((&path["pathType"], &path["backend"]["service"]["port"]["name"]), (&json!("Prefix"), &json!("http")));

    let other = World::new().await;
    other.launch(other.workload()).await;
    let taken = other.scheduler.expose(Expose::new(other.target(), [Route::new(&host, "http")])).await.unwrap_err();
    let by = format!("{}/web", world.namespace);
    assert_eq!(*taken.kind(), ErrorKind::Conflict(Conflict::RouteTaken { by }));
    let missing = world.scheduler.expose(Expose::new(world.target(), [Route::new(&host, "dns")])).await.unwrap_err();
    assert_eq!(missing.causes()[0].path, "routes[0].backends[0].port");
    assert!(world.scheduler.expose(expose("/api")).await.unwrap().changed);
    assert!(other.scheduler.expose(Expose::new(other.target(), [Route::new(&host, "http")])).await.is_ok());

    let endpoints = world.scheduler.endpoints(Endpoints::new(world.target()).port("http")).await.unwrap().endpoints;
    let path = "jsonpath={range .items[*]}{.metadata.name} {.status.podIP}{\"\\n\"}{end}";
    let pods = world.kubectl(&["get", "pods", "--output", path]).await;
    let mut expected: Vec<&str> = pods.lines().collect();
    expected.sort_unstable();
    let found: Vec<_> = endpoints.iter().map(|at| format!("{} {}", at.instance, at.address)).collect();
    assert_eq!(found, expected);
    assert!(endpoints.iter().all(|at| at.number == 8080));

    assert_eq!(world.scheduler.unexpose(Unexpose::new(world.target())).await.unwrap(), Unexposed::Gone);
    assert_eq!(world.scheduler.unexpose(Unexpose::new(world.target())).await.unwrap(), Unexposed::WasAbsent);
    other.delete_whole().await;
    assert_eq!(other.ours().await, [""; 0]);
}

/// The workload of a release, beside the last one.
async fn launch_next(world: &World) -> Target {
    let mut next = world.workload();
    next.name = "next".into();
    world.launch(next).await;
    Target::new(&world.namespace, "next").unwrap()
}

/// The names of the Ingresses that have a host.
async fn who_has(world: &World, host: &str) -> Vec<String> {
    let path = "jsonpath={range .items[*]}{.metadata.name} {.spec.rules[*].host}{\"\\n\"}{end}";
    let all = world.kubectl(&["get", "ingresses", "--output", path]).await;
    let having = all.lines().filter(|line| line.split(' ').skip(1).any(|had| had == host));
    having.filter_map(|line| Some(line.split(' ').next()?.to_owned())).collect()
}

/// kubectl's watch of all Ingresses, from the first that there is: each event as its type, name and hosts.
fn watch_ingresses(world: &World) -> (mpsc::UnboundedReceiver<Vec<String>>, std::process::Child) {
    let mut command = world.testbed.kubectl();
    let path = "jsonpath={.type} {.object.metadata.name} {.object.spec.rules[*].host}{\"\\n\"}";
    command.args(["--namespace", &world.namespace, "get", "ingresses", "--watch", "--output-watch-events"]);
    let mut child = command.args(["--output", path]).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (send, events) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let _ = send.send(line.split(' ').map(str::to_owned).collect());
        }
    });
    (events, child)
}

/// At each step of its history some Ingress has the host.
pub(crate) async fn routes_move_without_a_gap() {
    let world = World::new().await;
    world.launch(world.workload()).await;
    let next = launch_next(&world).await;
    let (host, other) = (format!("{}.example", world.namespace), format!("b.{}.example", world.namespace));
    let stays = [Route::new(&other, "http")];
    world.scheduler.expose(Expose::new(world.target(), [Route::new(&host, "http"), stays[0].clone()])).await.unwrap();
    let (mut events, mut child) = watch_ingresses(&world);
    let mut hosts = BTreeMap::new();
    let mut fold = |event: &[String]| {
        let [change, name, had @ ..] = event else { panic!("{event:?}") };
        hosts.insert(name.clone(), if change == "DELETED" { vec![] } else { had.to_vec() });
        let having = hosts.iter().filter(|(_, had)| had.contains(&host));
        having.map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(fold(&events.recv().await.unwrap()), ["web"]);
    let moves = Expose::new(next.clone(), [Route::new(&host, "http")]).taking_from(world.target());
    let moved = world.scheduler.expose(moves).await.unwrap();
    assert_eq!(moved.taken, [Route::new(&host, "http")]);
    assert!(!world.scheduler.expose(Expose::new(world.target(), stays)).await.unwrap().changed);
    // And the last that there is, after which the old one has none.
    let back = [Route::new(&host, "http"), Route::new(&other, "http")];
    world.scheduler.expose(Expose::new(next, back).taking_from(world.target())).await.unwrap();
    let history = async {
        let mut history = Vec::new();
        loop {
            let event = events.recv().await.unwrap();
            history.push(fold(&event));
            if event[0] == "DELETED" {
                return history;
            }
        }
    };
    let history = tokio::time::timeout(Duration::from_secs(60), history).await.expect("it is told in time");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(history[..2], [vec!["next", "web"], vec!["next"]]);
    assert!(history.iter().all(|having| !having.is_empty()), "{history:?}");
}

/// Whatever its writes meet: the host is in one of the two, and the repetition completes the move.
pub(crate) async fn a_move_that_fails_halfway_leaves_both() {
    let world = World::new().await;
    world.launch(world.workload()).await;
    let next = launch_next(&world).await;
    let host = format!("{}.example", world.namespace);
    world.scheduler.expose(Expose::new(world.target(), [Route::new(&host, "http")])).await.unwrap();
    let moves = || Expose::new(next.clone(), [Route::new(&host, "http")]).taking_from(world.target());
    // Two finds, a look, the write; a look, and the other write.
    for (nth, having) in [(4, vec!["web"]), (6, vec!["next", "web"])] {
        world.faults.inject(nth, Injection::Refuse);
        let failed = world.scheduler.expose(moves()).await.unwrap_err();
        assert!(world.faults.injected(), "{failed}");
        assert_eq!(who_has(&world, &host).await, having);
    }
    assert_eq!(world.scheduler.expose(moves()).await.unwrap().taken, [Route::new(&host, "http")]);
    assert_eq!(who_has(&world, &host).await, ["next"]);
    assert!(!world.scheduler.expose(moves()).await.unwrap().changed);
}
