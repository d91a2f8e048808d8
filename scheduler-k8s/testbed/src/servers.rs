//! Starts the four servers and waits until they answer.

use std::{
    net::{Ipv4Addr, TcpListener},
    os::unix::net::UnixStream,
    path::Path,
    time::{Duration, Instant},
};

use crate::{TestbedError, User, credentials::Credentials, guard::Guard};

/// How long a server may take to answer. Seconds are usual; a busy machine takes longer.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often a server that starts is asked. It announces its readiness by nothing else.
const POLL: Duration = Duration::from_millis(20);

/// How long an answer to "are you ready?" may take.
const ANSWER: Duration = Duration::from_secs(2);

/// How many ports are tried when somebody else takes the free one that was found.
const PORTS_TRIED: u32 = 5;

/// Starts everything and returns the API server's address. The controllers and the scheduler may still be settling.
pub(crate) async fn start(
    programs: &Path,
    guard: &mut Guard,
    credentials: &Credentials,
) -> Result<http::Uri, TestbedError> {
    start_etcd(programs, guard).await?;
    let url = start_api_server(programs, guard, credentials).await?;
    credentials.write_kubeconfigs(&url.to_string())?;

    let kubeconfig = format!("--kubeconfig={}", credentials.kubeconfig(User::Admin).display());
    // Leader election and a port of their own would be for nobody. The default of 20 requests a second makes a rollout
    // of some hundred Pods take a minute.
    let common = ["--leader-elect=false", "--secure-port=0", "--kube-api-qps=2000", "--kube-api-burst=4000"];
    let with_common = |own: &[&str]| -> Vec<String> {
        let all = own.iter().chain(&common).copied().chain([kubeconfig.as_str()]);
        all.map(str::to_owned).collect()
    };
    // Nodes have no heartbeat here, so the grace period never ends and only `lose_node` makes one unreachable. What
    // follows from that (taints, evictions) is left to the real controllers, at a quicker pace than their default.
    let node_flags = [
        "--node-monitor-grace-period=8760h",
        "--node-startup-grace-period=8760h",
        "--node-monitor-period=500ms",
        "--node-eviction-rate=100",
        "--unhealthy-zone-threshold=1",
    ];
    guard.spawn(programs, "kube-controller-manager", &with_common(&node_flags))?;
    guard.spawn(programs, "kube-scheduler", &with_common(&[]))?;
    Ok(url)
}

/// etcd listens on a socket in our folder: no port to lose, and nobody else on the machine can reach it.
async fn start_etcd(programs: &Path, guard: &mut Guard) -> Result<(), TestbedError> {
    let socket = guard.folder().join("etcd.sock");
    let arguments = [
        format!("--data-dir={}", guard.folder().join("etcd").display()),
        format!("--listen-client-urls=unix://{}", socket.display()),
        // It insists on an address to advertise and on a peer port, which nobody uses.
        "--advertise-client-urls=http://127.0.0.1:0".to_owned(),
        "--listen-peer-urls=http://127.0.0.1:0".to_owned(),
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
    ];
    guard.spawn(programs, "etcd", &arguments)?;
    let start = Instant::now();
    while UnixStream::connect(&socket).is_err() {
        still_starting(guard, start, "the start of etcd")?;
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

async fn start_api_server(
    programs: &Path,
    guard: &mut Guard,
    credentials: &Credentials,
) -> Result<http::Uri, TestbedError> {
    let mut attempt = 1;
    loop {
        let port = free_port()?;
        guard.spawn(programs, "kube-apiserver", &api_server_flags(port, guard.folder(), credentials))?;
        match wait_until_ready(port, guard, credentials).await {
            // Between our look and the server's bind, somebody else took the port.
            Err(TestbedError::Ended { .. }) if attempt < PORTS_TRIED && !is_free(port) => attempt += 1,
            other => return other,
        }
    }
}

fn api_server_flags(port: u16, folder: &Path, credentials: &Credentials) -> Vec<String> {
    let file = |flag: &str, name: &str| format!("--{flag}={}", credentials.file(name).display());
    vec![
        format!("--etcd-servers=unix://{}", folder.join("etcd.sock").display()),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        // The `kubernetes` Service would need an address that is not loopback.
        "--endpoint-reconciler-type=none".to_owned(),
        format!("--secure-port={port}"),
        file("tls-cert-file", "server.crt"),
        file("tls-private-key-file", "server.key"),
        file("token-auth-file", "tokens.csv"),
        "--authorization-mode=RBAC".to_owned(),
        // Of a node's addresses, the one that is real here.
        "--kubelet-preferred-address-types=ExternalIP".to_owned(),
        file("kubelet-certificate-authority", "authority.crt"),
        "--service-cluster-ip-range=10.0.0.0/16".to_owned(),
        "--service-account-issuer=https://127.0.0.1".to_owned(),
        file("service-account-key-file", "service-accounts.pub"),
        file("service-account-signing-key-file", "service-accounts.key"),
        // Pods leave a lost node after a second instead of five minutes.
        "--default-not-ready-toleration-seconds=1".to_owned(),
        "--default-unreachable-toleration-seconds=1".to_owned(),
    ]
}

async fn wait_until_ready(port: u16, guard: &mut Guard, credentials: &Credentials) -> Result<http::Uri, TestbedError> {
    let url = format!("https://127.0.0.1:{port}");
    let uri: http::Uri = url.parse().map_err(|error: http::uri::InvalidUri| {
        TestbedError::machine(format!("use the address {url}"))(std::io::Error::other(error))
    })?;
    let client = kube::Client::try_from(credentials.config(User::Admin, &uri))
        .map_err(TestbedError::kubernetes("make a client"))?;
    let start = Instant::now();
    loop {
        let request = http::Request::get("/readyz").body(Vec::new());
        let request =
            request.map_err(|error| TestbedError::kubernetes("ask for /readyz")(kube::Error::HttpError(error)))?;
        // Whoever took our port may accept connections and say nothing.
        let answer = tokio::time::timeout(ANSWER, client.request_text(request)).await;
        if matches!(answer, Ok(Ok(_))) {
            return Ok(uri);
        }
        still_starting(guard, start, "the start of kube-apiserver")?;
        tokio::time::sleep(POLL).await;
    }
}

/// An error when a server has ended, or has taken too long.
fn still_starting(guard: &mut Guard, start: Instant, what: &str) -> Result<(), TestbedError> {
    if let Some(ended) = guard.ended() {
        return Err(ended);
    }
    if start.elapsed() > PATIENCE {
        return Err(TestbedError::TooLate { what: what.to_owned(), within: PATIENCE });
    }
    Ok(())
}

/// A port that nobody listens on at the moment.
fn free_port() -> Result<u16, TestbedError> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(TestbedError::machine("find a free port"))
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}
