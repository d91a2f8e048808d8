//! The server that the tests run on: one that is named, a real agent of our own, or the fake.

use std::io::Read as _;
use std::net::{IpAddr, TcpListener, ToSocketAddrs as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use scheduler_nomad::client::{Client, ConnectOptions, Query};

/// Names an agent.
const ADDRESS: &str = "SCHEDULER_TEST_NOMAD_ADDR";
/// Allows one that is not on this machine.
const ALLOW_REMOTE: &str = "SCHEDULER_TEST_ALLOW_REMOTE";

/// Where the tests run.
#[derive(Debug)]
pub(crate) enum Server {
    /// An agent that somebody else runs.
    Named(String),
    /// A real agent of our own.
    Own(Agent),
    /// The fake; each world has one of its own.
    Fake,
}

impl Server {
    /// The server that the environment asks for.
    pub(crate) fn find() -> Result<Self, String> {
        if let Ok(address) = std::env::var(ADDRESS) {
            let allowed = std::env::var(ALLOW_REMOTE).is_ok_and(|allowed| allowed == "1");
            if !allowed && !is_loopback(&address) {
                return Err(format!(
                    "{ADDRESS} names {address}, which is not on this machine; {ALLOW_REMOTE}=1 allows it"
                ));
            }
            return Ok(Self::Named(address));
        }
        match on_path("nomad") {
            Some(program) => Agent::start(&program).map(Self::Own),
            None => Ok(Self::Fake),
        }
    }

    /// The address of a real agent.
    pub(crate) fn address(&self) -> Option<&str> {
        match self {
            Self::Named(address) => Some(address),
            Self::Own(agent) => Some(&agent.address),
            Self::Fake => None,
        }
    }
}

fn is_loopback(address: &str) -> bool {
    let host = address.split_once("://").map_or(address, |(_, rest)| rest).split('/').next().unwrap_or_default();
    let host = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
    let found: Vec<IpAddr> = host.to_socket_addrs().into_iter().flatten().map(|address| address.ip()).collect();
    !found.is_empty() && found.iter().all(IpAddr::is_loopback)
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// A real agent in development mode, on loopback.
#[derive(Debug)]
pub(crate) struct Agent {
    address: String,
    /// A shell that ends the agent when its input does: also when this process is killed.
    guard: Child,
    folder: PathBuf,
}

impl Agent {
    fn start(program: &PathBuf) -> Result<Self, String> {
        let folder = std::env::temp_dir().join(format!("scheduler-nomad-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let [http, rpc, serf] = free_ports().map_err(|error| error.to_string())?;
        // It would ask its makers for updates, and the clouds' metadata services where it is.
        let settings = format!(
            "disable_update_check = true\nlog_level = \"WARN\"\nbind_addr = \"127.0.0.1\"\n\
             ports {{\n  http = {http}\n  rpc = {rpc}\n  serf = {serf}\n}}\n\
             limits {{\n  http_max_conns_per_client = 0\n}}\n\
             client {{\n  options = {{ \"fingerprint.denylist\" = \"env_aws,env_gce,env_azure,env_digitalocean\" }}\n}}\n\
             plugin \"raw_exec\" {{\n  config {{\n    enabled = true\n  }}\n}}\n"
        );
        let file = folder.join("agent.hcl");
        std::fs::write(&file, settings).map_err(|error| format!("{}: {error}", file.display()))?;
        let log = std::fs::File::create(folder.join("agent.log")).map_err(|error| error.to_string())?;
        let guard = Command::new("/bin/sh")
            .args(["-c", "\"$0\" agent -dev -config \"$1\" </dev/null & read _; kill $!; wait"])
            .arg(program)
            .arg(&file)
            .stdin(Stdio::piped())
            .stdout(log.try_clone().map_err(|error| error.to_string())?)
            .stderr(log)
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        Ok(Self { address: format!("http://127.0.0.1:{http}"), guard, folder })
    }

    /// Ends it, and its tasks with it.
    pub(crate) fn stop(mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }

    /// The end of what it said.
    pub(crate) fn log(&self) -> String {
        let mut text = String::new();
        let file = std::fs::File::open(self.folder.join("agent.log"));
        let _ = file.and_then(|mut file| file.read_to_string(&mut text));
        text.lines().rev().take(20).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

fn free_ports() -> std::io::Result<[u16; 3]> {
    let held =
        [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
    let mut ports = [0; 3];
    for (port, listener) in ports.iter_mut().zip(&held) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}

/// Waits until an agent can run jobs.
pub(crate) async fn ready(server: &Server) -> Result<(), String> {
    let Some(address) = server.address() else { return Ok(()) };
    let end = Instant::now() + Duration::from_secs(60);
    let mut said = String::new();
    while Instant::now() < end {
        match Client::connect(ConnectOptions::explicit(address)).await {
            Ok(client) => match client.query(&Query::leader()).await {
                // The node of an agent in development mode comes a moment after the leader; jobs wait for it.
                Ok(_) => return Ok(()),
                Err(error) => said = error.to_string(),
            },
            Err(error) => said = error.to_string(),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let log = if let Server::Own(agent) = server { agent.log() } else { String::new() };
    Err(format!("the agent at {address} is not ready: {said}\n{log}"))
}
