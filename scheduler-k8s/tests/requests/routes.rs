//! Routes: which requests an expose sends, and in which order.

use scheduler_core::{
    Conflict, Error, ErrorKind, Expose, Exposed, Feature, OwnerId, Retry, Route, RouteBackend, Scheduler as _, Target,
};
use serde_json::{Value, json};

use super::{Script, status, stored, target, with};

const LOOK: &str = "LIST ingresses";

/// The Ingress of a workload of ours with these hosts, as a server holds it.
fn ingress(name: &str, hosts: &[&str]) -> Value {
    let backend = json!({"service": {"name": name, "port": {"name": "http"}}});
    let rule = |host: &&str| json!({"host": host, "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}});
    json!({
        "metadata": {
            "name": name, "namespace": "shop", "uid": format!("i-{name}"), "resourceVersion": "20",
            "labels": {"scheduler/owner": "platform", "scheduler/target": name},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": "d"}],
        },
        "spec": {"rules": hosts.iter().map(rule).collect::<Vec<_>>()},
    })
}

fn list(items: &[&Value]) -> Value {
    json!({"metadata": {}, "items": items})
}

/// A server with the Deployment `web`, and in turn these Ingresses.
fn server(looks: &[&[&Value]]) -> Script {
    let script = Script::default().answer("GET deployments", 200, &stored());
    looks.iter().fold(script, |script, items| script.answer(LOOK, 200, &list(items)))
}

fn old() -> Target {
    Target::new("shop", "old").unwrap()
}

fn deployment_of_old(owner: &str) -> Value {
    let mut deployment = with(stored(), "/metadata/name", "old");
    deployment["metadata"]["labels"]["scheduler/owner"] = OwnerId::new(owner).unwrap().as_str().into();
    deployment
}

/// Exposes `web` with a host.
fn expose(hosts: &[&str]) -> Expose {
    Expose::new(target(), hosts.iter().map(|host| Route::new(*host, "http")))
}

async fn play(script: &Script, op: Expose) -> (Result<Exposed, Error>, Vec<String>) {
    (script.scheduler().expose(op).await, script.asked())
}

/// Who may not look into other namespaces is warned once, and not refused.
#[tokio::test]
async fn routes_of_other_namespaces_that_may_not_be_seen_are_a_warning() {
    let script = Script::default()
        .answer("GET deployments", 200, &stored())
        .answer(LOOK, 403, &status(403, "Forbidden", "ingresses", ""))
        .answer("PATCH ingresses", 201, &ingress("web", &["a.example"]));
    let (exposed, asked) = play(&script, expose(&["a.example"])).await;
    let exposed = exposed.unwrap();
    assert_eq!((exposed.changed, exposed.warnings.len()), (true, 1));
    assert_eq!(asked, ["GET deployments", LOOK, LOOK, "PATCH ingresses", LOOK]);
}

/// With a class of another router, the same route is no clash.
#[tokio::test]
async fn a_route_of_another_router_is_not_taken() {
    for (class, taken) in [("inner", true), ("outer", false)] {
        let mut other = ingress("other", &["a.example"]);
        other["spec"]["ingressClassName"] = class.into();
        let script = if taken {
            server(&[&[&other]])
        } else {
            let written = ingress("web", &["a.example"]);
            server(&[&[&other], &[&other]]).answer("PATCH ingresses", 201, &written)
        };
        let exposed = script.scheduler().ingress_class("inner").expose(expose(&["a.example"])).await;
        assert_eq!(exposed.is_err(), taken, "{class}: {exposed:?}");
        script.asked();
    }
}

/// BR-69: shares that the router cannot give are refused, and nothing is asked.
#[tokio::test]
async fn a_route_has_one_backend() {
    let both = [RouteBackend::new("http").weight(3), RouteBackend::of(old(), "http").weight(7)];
    let op = Expose::new(target(), [Route::new("a.example", "http").backends(both)]);
    let (refused, asked) = play(&Script::default(), op).await;
    assert_eq!(*refused.unwrap_err().kind(), ErrorKind::Unsupported(Some(Feature::WeightedRoutes)));
    assert_eq!(asked, [""; 0]);
}

/// BR-71: the router tells no address for some seconds. That is nobody's change of the routes.
#[tokio::test]
async fn addresses_come_and_go_and_the_route_stays() {
    let told = json!([{"ip": "192.0.2.4"}, {"hostname": "lb.example"}]);
    for (status, addresses) in [(told, vec!["192.0.2.4", "lb.example"]), (json!([]), vec![])] {
        let mut live = ingress("web", &["a.example"]);
        live["status"] = json!({"loadBalancer": {"ingress": status}});
        let (exposed, asked) = play(&server(&[&[&live]]), expose(&["a.example"])).await;
        let exposed = exposed.unwrap();
        assert!(!exposed.changed);
        assert_eq!(exposed.addresses, addresses);
        assert_eq!(asked, ["GET deployments", LOOK]);
    }
}

/// The later of two writers sees the other one, whose write it must not outlive.
#[tokio::test]
async fn who_meets_another_of_the_same_route_takes_its_write_back() {
    let other = || ingress("api", &["b.example"]);
    let gone = json!({"kind": "Status", "status": "Success"});
    let written = ingress("web", &["a.example", "b.example"]);
    let new = server(&[&[], &[&written, &other()]]).answer("PATCH ingresses", 201, &written).answer(
        "DELETE ingresses",
        200,
        &gone,
    );
    let before = ingress("web", &["a.example"]);
    let grown = server(&[&[&before], &[&written, &other()]])
        .answer("PATCH ingresses", 200, &with(written, "/metadata/resourceVersion", "21"))
        .answer("PATCH ingresses", 200, &with(before, "/metadata/resourceVersion", "22"));
    for (script, undone) in [(new, "DELETE ingresses"), (grown, "PATCH ingresses")] {
        let (refused, asked) = play(&script, expose(&["a.example", "b.example"])).await;
        let refused = refused.unwrap_err();
        assert_eq!(*refused.kind(), ErrorKind::Conflict(Conflict::RouteTaken { by: "shop/api".into() }));
        assert_eq!(refused.retry(), Retry::AfterReread);
        assert_eq!(asked, ["GET deployments", LOOK, "PATCH ingresses", LOOK, undone]);
        if undone == "PATCH ingresses" {
            assert_eq!(script.sent()[4]["spec"], ingress("web", &["a.example"])["spec"]);
        }
    }
}

/// The new Ingress is written before the old one loses anything. Status updates move the old one's version, too.
#[tokio::test]
async fn what_moves_is_written_before_it_is_taken() {
    let conflict = status(409, "Conflict", "ingresses", "old");
    let new = ingress("web", &["a.example"]);
    for (had, takes) in [
        (ingress("old", &["a.example"]), "DELETE ingresses"),
        (ingress("old", &["a.example", "b.example"]), "PATCH ingresses"),
    ] {
        let moved = with(had.clone(), "/metadata/resourceVersion", "30");
        let done = with(ingress("old", &["b.example"]), "/metadata/resourceVersion", "31");
        let script = server(&[&[&had], &[&had, &new]])
            .answer("GET deployments", 200, &deployment_of_old("platform"))
            .answer("PATCH ingresses", 201, &new)
            .answer(takes, 409, &conflict)
            .answer("GET ingresses", 200, &moved)
            .answer(takes, 200, &done);
        let (exposed, asked) = play(&script, expose(&["a.example"]).taking_from(old())).await;
        assert_eq!(exposed.unwrap().taken, [Route::new("a.example", "http")]);
        let first = ["GET deployments", "GET deployments", LOOK, "PATCH ingresses", LOOK];
        assert_eq!(asked, [&first[..], &[takes, "GET ingresses", takes]].concat());
        // As it was read each time: whoever adds a route meanwhile does not lose it.
        let under = |sent: &Value| {
            let condition = if takes == "PATCH ingresses" { &sent["metadata"] } else { &sent["preconditions"] };
            (condition["uid"].clone(), condition["resourceVersion"].clone())
        };
        let sent = script.sent();
        assert_eq!([under(&sent[5]), under(&sent[7])], ["20", "30"].map(|version| (json!("i-old"), json!(version))));
    }
}

#[tokio::test]
async fn a_move_that_was_cut_off_has_one_write_left() {
    let both = [ingress("old", &["a.example"]), ingress("web", &["a.example"])];
    let script = server(&[&[&both[0], &both[1]]])
        .answer("GET deployments", 200, &deployment_of_old("platform"))
        .answer("DELETE ingresses", 200, &json!({"kind": "Status", "status": "Success"}));
    let (exposed, asked) = play(&script, expose(&["a.example"]).taking_from(old())).await;
    let exposed = exposed.unwrap();
    assert_eq!((exposed.changed, exposed.taken), (true, vec![Route::new("a.example", "http")]));
    assert_eq!(asked, ["GET deployments", "GET deployments", LOOK, "DELETE ingresses"]);
}

#[tokio::test]
async fn nothing_is_written_if_the_other_is_somebody_else_s() {
    let theirs = server(&[]).answer("GET deployments", 200, &deployment_of_old("other"));
    // Nobody's Ingress under the name of a workload that is not there.
    let bare = with(ingress("old", &["a.example"]), "/metadata/labels", json!({}));
    let stray = server(&[&[&bare]]);
    for (script, owner) in [(theirs, Some(OwnerId::new("other").unwrap())), (stray, None)] {
        let (refused, asked) = play(&script, expose(&["a.example"]).taking_from(old())).await;
        assert_eq!(*refused.unwrap_err().kind(), ErrorKind::Conflict(Conflict::Owner { owner }));
        assert!(asked.iter().all(|asked| asked.starts_with("GET") || asked == LOOK), "{asked:?}");
    }
}
