//! `connect`, `version`, `get` and `list`.

use scheduler_k8s_client::kube;
use scheduler_k8s_client::{Client, Effect, ErrorKind, ListOptions, Missing, Resource};
use serde_json::{Value, json};

use crate::recorded;
use crate::server::{Reply, Server, TOKEN};

const WIDGET: Resource = Resource::cluster_scoped("example.com", "v1beta1", "widgets", "Widget");

#[tokio::test]
async fn connect_asks_the_version_once() {
    let server = Server::start([Reply::value(&json!({"name": "x"}))]).await;
    let client = server.client().await;
    let version = client.server_version().unwrap();
    assert_eq!((version.major, version.minor, version.git_version.as_str()), (1, 36, "v1.36.3"));
    assert_eq!(server.requests().len(), 0);

    let ready = Client::new(client.kube().clone());
    assert_eq!(ready.server_version(), None);
    assert_eq!(ready.version().await.unwrap().minor, 36);
}

#[tokio::test]
async fn get_sends_one_plain_request() {
    let object = json!({"metadata": {"name": "web"}});
    let server = Server::start([Reply::value(&object), Reply::value(&object), Reply::value(&object)]).await;
    let client = server.client().await;
    let found: Option<Value> = client.get(&Resource::DEPLOYMENT, Some("shop"), "web").await.unwrap();
    assert_eq!(found, Some(object));
    let _: Option<Value> = client.get(&Resource::NAMESPACE, None, "shop").await.unwrap();
    // A colon is legal in the names of some kinds.
    let _: Option<Value> = client.get(&WIDGET, None, "system:admin x").await.unwrap();
    assert_eq!(
        server.lines(),
        [
            "GET /apis/apps/v1/namespaces/shop/deployments/web",
            "GET /api/v1/namespaces/shop",
            "GET /apis/example.com/v1beta1/widgets/system%3Aadmin%20x",
        ]
    );
    let request = &server.requests()[0];
    assert_eq!(request.header("accept"), Some("application/json"));
    assert!(request.header("user-agent").unwrap().starts_with("scheduler-k8s-client/"));
    assert_eq!(request.header("authorization"), Some(format!("Bearer {TOKEN}").as_str()));
}

#[tokio::test]
async fn only_the_servers_word_on_this_object_makes_it_absent() {
    let other = recorded::NOT_FOUND.replace("\"name\":\"web\"", "\"name\":\"other\"");
    // BR-103: the code says forbidden, the reason says absent.
    let disagree = recorded::NOT_FOUND.replace("404", "403");
    for (code, body, expected) in [
        (404, recorded::NOT_FOUND, None),
        (404, "404 page not found", Some(ErrorKind::NotFound(Missing::Path))),
        (404, recorded::UNKNOWN_RESOURCE, Some(ErrorKind::NotFound(Missing::Path))),
        (404, recorded::NAMESPACE_NOT_FOUND, Some(ErrorKind::NotFound(Missing::Namespace))),
        (404, &other, Some(ErrorKind::NotFound(Missing::Other))),
        (403, &disagree, Some(ErrorKind::Forbidden)),
        (500, recorded::NOT_FOUND, Some(ErrorKind::Unavailable)),
    ] {
        let server = Server::start([Reply::json(code, body)]).await;
        let got = server.client().await.get::<Value>(&Resource::DEPLOYMENT, Some("shop"), "web").await;
        assert_eq!(got.map_err(|error| error.kind()), expected.map_or(Ok(None), Err), "{code} {body}");
    }
}

#[tokio::test]
async fn names_that_would_change_the_path_are_refused_here() {
    let server = Server::start([]).await;
    let client = server.client().await;
    for (resource, namespace, name) in [
        (Resource::POD, Some("shop"), "a/b"),
        (Resource::POD, Some("shop"), "a%2Fb"),
        (Resource::POD, Some("shop"), ".."),
        (Resource::POD, Some("shop"), "."),
        (Resource::POD, Some("shop"), ""),
        (Resource::POD, Some(""), "a"),
        (Resource::POD, Some("../kube-system"), "a"),
        (Resource::POD, None, "a"),
        (Resource::NAMESPACE, Some("shop"), "a"),
    ] {
        let error = client.get::<Value>(&resource, namespace, name).await.unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::InvalidRequest, Effect::NotSent), "{error}");
    }
    assert_eq!(server.requests().len(), 0);
}

fn page(names: &[&str], token: &str) -> Reply {
    let items: Vec<_> = names.iter().map(|name| json!({"metadata": {"name": name}})).collect();
    Reply::value(&json!({"metadata": {"resourceVersion": "7", "continue": token}, "items": items}))
}

fn expired() -> Reply {
    Reply::json(410, r#"{"kind":"Status","reason":"Expired","message":"too old","code":410}"#)
}

fn names(items: &[Value]) -> Vec<&str> {
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn list_reads_all_pages() {
    let server = Server::start([page(&["a", "b"], "t/1="), page(&["c"], "")]).await;
    let options = ListOptions::new().label_selector("app in (a,b)").field_selector("spec.x=1").page_size(2);
    let list = server.client().await.list::<Value>(&Resource::POD, Some("shop"), &options).await.unwrap();
    assert_eq!(names(&list.items), ["a", "b", "c"]);
    assert_eq!(list.resource_version, "7");
    let first =
        "GET /api/v1/namespaces/shop/pods?labelSelector=app%20in%20%28a%2Cb%29&fieldSelector=spec.x%3D1&limit=2";
    assert_eq!(server.lines(), [first.to_owned(), format!("{first}&continue=t%2F1%3D")]);
}

#[tokio::test]
async fn list_everywhere_and_unpaged() {
    // An empty Go list may be written as null by others; as an absent field it is empty.
    let server = Server::start([Reply::json(200, r#"{"metadata":{"resourceVersion":"7"}}"#), page(&[], "")]).await;
    let client = server.client().await;
    let list = client.list::<Value>(&Resource::DEPLOYMENT, None, &ListOptions::new()).await.unwrap();
    assert_eq!(list.items.len(), 0);
    client.list::<Value>(&Resource::DEPLOYMENT, None, &ListOptions::new().page_size(0)).await.unwrap();
    assert_eq!(server.lines(), ["GET /apis/apps/v1/deployments?limit=500", "GET /apis/apps/v1/deployments"]);
}

#[tokio::test]
async fn list_starts_over_when_its_snapshot_is_gone() {
    let server = Server::start([page(&["a"], "t"), expired(), page(&["a", "b"], "")]).await;
    let list = server.client().await.list::<Value>(&Resource::POD, None, &ListOptions::new()).await.unwrap();
    assert_eq!(names(&list.items), ["a", "b"]);
}

#[tokio::test]
async fn list_does_not_start_over_for_ever() {
    let server = Server::start((0..20).map(|at| if at % 2 == 0 { page(&["a"], "t") } else { expired() })).await;
    let error = server.client().await.list::<Value>(&Resource::POD, None, &ListOptions::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Gone);
    assert_eq!(server.requests().len(), 8);
}

#[tokio::test]
async fn a_list_that_fails_on_the_way_is_no_list() {
    let server = Server::start([page(&["a"], "t"), Reply::json(403, recorded::FORBIDDEN)]).await;
    let error = server.client().await.list::<Value>(&Resource::POD, None, &ListOptions::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Forbidden);
    assert_eq!(error.operation().to_string(), "list pods");
}

#[tokio::test]
async fn vendors_mark_their_versions() {
    let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
        let body = r#"{"major":"1","minor":"33+","gitVersion":"v1.33.5-gke.100"}"#;
        Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::from(body.as_bytes().to_vec())))
    });
    let version = Client::new(kube::Client::new(service, "default")).version().await.unwrap();
    assert_eq!((version.major, version.minor), (1, 33));
}

#[tokio::test]
async fn a_list_tells_the_servers_clock_of_its_first_page() {
    let at = |date: &str, token: &str| {
        let body = json!({"metadata": {"continue": token}, "items": []}).to_string();
        Reply::new(200, &[("Content-Type", "application/json"), ("Date", date)], &body)
    };
    let server =
        Server::start([at("Sun, 06 Nov 1994 08:49:37 GMT", "more"), at("Sun, 06 Nov 1994 08:49:39 GMT", "")]).await;
    let list = server.client().await.list::<Value>(&Resource::POD, None, &ListOptions::new()).await.unwrap();
    let seconds = list.served_at.unwrap().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    // RFC 9110 §5.6.7 has this date as its example; `date -d` gives the number.
    assert_eq!(seconds, 784_111_777);
}
