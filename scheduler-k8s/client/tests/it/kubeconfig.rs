//! Kubeconfig files: merging, choosing, and what is said of bad ones.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use scheduler_k8s_client::{Client, ConnectOptions, Effect, Error, ErrorKind, Resource};
use serde_json::{Value, json};

use crate::server::{Reply, Server};

/// A folder that ends with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("scheduler-k8s-client-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const CONTEXTS: &str = "
apiVersion: v1
kind: Config
current-context: one
contexts:
- {name: one, context: {cluster: here, user: me, namespace: shop}}
- {name: two, context: {cluster: nowhere, user: me}}
";

fn clusters(server: &Server) -> String {
    format!(
        "
apiVersion: v1
kind: Config
current-context: other
clusters:
- {{name: here, cluster: {{server: '{}'}}}}
users:
- {{name: me, user: {{tokenFile: token}}}}
contexts:
- {{name: one, context: {{cluster: nowhere}}}}
- {{name: other, context: {{cluster: here}}}}
",
        server.url()
    )
}

async fn refused(options: ConnectOptions) -> Error {
    let error = Client::connect(options).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Configuration, Effect::NotSent), "{error}");
    error
}

#[tokio::test]
async fn several_files_are_one() {
    let server = Server::start([Reply::value(&json!({})), Reply::value(&json!({}))]).await;
    let folder = Folder::new();
    folder.file("token", "from-a-file");
    let files = [folder.file("a", CONTEXTS), folder.file("b", &clusters(&server))];

    // The first file's current context and its meaning of "one" win; cluster and user come from the second. The token's
    // path is relative to the file that names it.
    let client = Client::connect(ConnectOptions::kubeconfig_files(&files)).await.unwrap();
    assert_eq!(client.default_namespace(), "shop");
    client.get::<Value>(&Resource::POD, Some("shop"), "p").await.unwrap();
    assert_eq!(server.requests()[0].header("authorization"), Some("Bearer from-a-file"));

    // What is set beside the files wins over them.
    let options = ConnectOptions::kubeconfig_files(&files).token("from-here").default_namespace("mine");
    let client = Client::connect(options).await.unwrap();
    assert_eq!(client.default_namespace(), "mine");
    client.get::<Value>(&Resource::POD, Some("shop"), "p").await.unwrap();
    assert_eq!(server.requests()[1].header("authorization"), Some("Bearer from-here"));

    let client = Client::connect(ConnectOptions::kubeconfig_files(&files).context("other")).await.unwrap();
    assert_eq!(client.default_namespace(), "default");
}

#[tokio::test]
async fn a_context_that_is_not_there() {
    let server = Server::start([]).await;
    let folder = Folder::new();
    let files = [folder.file("a", CONTEXTS), folder.file("b", &clusters(&server))];
    let error = refused(ConnectOptions::kubeconfig_files(&files).context("prod")).await;
    assert!(error.to_string().ends_with("no context \"prod\"; there are: one, two, other"), "{error}");

    let error = refused(ConnectOptions::kubeconfig_files(&files).context("two")).await;
    assert!(error.to_string().contains("cluster \"nowhere\" is not there"), "{error}");

    let none = CONTEXTS.replace("current-context: one", "");
    let error = refused(ConnectOptions::kubeconfig_files([folder.file("c", &none)])).await;
    assert!(error.to_string().contains("no current context and none was chosen; there are: one, two"), "{error}");

    let error = refused(ConnectOptions::kubeconfig_files([folder.file("d", "")])).await;
    assert!(error.to_string().contains("there is no context at all"), "{error}");

    let error = refused(ConnectOptions::explicit(server.url()).context("one")).await;
    assert!(error.to_string().contains("a context is part of a kubeconfig"), "{error}");
}

fn with_user(user: &str) -> String {
    format!(
        "
current-context: one
contexts: [{{name: one, context: {{cluster: here, user: me}}}}]
clusters: [{{name: here, cluster: {{server: 'https://127.0.0.1:1'}}}}]
users: [{{name: me, user: {user}}}]
"
    )
}

#[tokio::test]
async fn files_that_are_no_good() {
    let folder = Folder::new();
    let missing = folder.0.join("missing");
    let cluster = |cluster: &str| with_user("{}").replace("{server: 'https://127.0.0.1:1'}", cluster);
    for (content, told) in [
        ("clusters: 7".to_owned(), "line 1 column"),
        (with_user("{client-certificate-data: '%', client-key-data: '%'}"), "client certificate: it is not base64"),
        (with_user("{client-certificate-data: Zm9v}"), "client key: it is missing"),
        (with_user("{client-certificate-data: Zm9v, client-key-data: Zm9v}"), "client key is missing, or in a form"),
        (with_user("{client-certificate: nowhere.pem, client-key: nowhere.key}"), "nowhere.pem cannot be read"),
        (with_user("{tokenFile: nowhere}"), "cannot read the token file"),
        (with_user("{token: \"two\\nlines\"}"), "a character that no header can hold"),
        (with_user("{exec: {apiVersion: client.authentication.k8s.io/v1, command: /nowhere}}"), "could not be started"),
        (cluster("{}"), "cluster has no server"),
        (cluster("{server: 'a b'}"), "server is no URL"),
        (cluster("{server: 'https://x', certificate-authority: nowhere.pem}"), "nowhere.pem cannot be read"),
        (cluster("{server: 'https://x', proxy-url: 'ftp://p'}"), "proxy must begin with"),
    ] {
        let error = refused(ConnectOptions::kubeconfig_files([folder.file("a", &content)])).await;
        assert!(error.to_string().contains(told), "{content}\n{error}");
    }
    let error = refused(ConnectOptions::kubeconfig_files([missing.clone()])).await;
    assert!(error.to_string().contains(&format!("{}: cannot be read", missing.display())), "{error}");
}

#[tokio::test]
async fn explicit_parts_that_are_no_good() {
    let at = ConnectOptions::explicit;
    let url = "https://127.0.0.1:1";
    for (options, told) in [
        (at(""), "no URL"),
        (at("127.0.0.1:6443"), "must begin with https://"),
        (at("ftp://127.0.0.1"), "must begin with https://"),
        (at(url).certificate_authority("nothing"), "no certificate in PEM"),
        (at(url).client_certificate("nothing", "nothing"), "client key is missing"),
        (at(url).token("two\nlines"), "a character that no header can hold"),
        (at(url).token_file("/nowhere/token"), "cannot read the token file /nowhere/token"),
        (at(url).proxy("socks5://127.0.0.1:1"), "proxy must begin with"),
        (at(url).proxy("a b"), "proxy is no URL"),
        (at(url).tls_server_name("a b"), "no host name"),
    ] {
        let error = refused(options).await;
        assert!(error.to_string().contains(told), "{error}");
    }
}
