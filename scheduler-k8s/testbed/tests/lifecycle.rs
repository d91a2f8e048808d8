//! How a testbed starts, and that it ends however its process ends.

mod support;

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use scheduler_k8s_testbed::{Availability, Options, Testbed, TestbedError, User};

/// Makes this binary start a testbed, say what it consists of and wait to be killed.
const CHILD: &str = "TESTBED_TEST_CHILD";

fn main() -> ExitCode {
    if env::var_os(CHILD).is_some() {
        return support::block_on(child());
    }
    support::run(cases![
        stop_leaves_nothing,
        drop_leaves_nothing,
        sigkill_leaves_nothing,
        a_server_that_ends_is_named_with_its_log,
        nodes_are_as_asked_for,
    ])
}

async fn child() -> ExitCode {
    match Testbed::start(Options::default()).await {
        Ok(testbed) => {
            println!("{}", folder(&testbed).display());
            println!("{}", testbed.processes().iter().map(u32::to_string).collect::<Vec<_>>().join(" "));
            std::future::pending().await
        }
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn folder(testbed: &Testbed) -> PathBuf {
    testbed.kubeconfig(User::Admin).parent().expect("a file is in a folder").to_owned()
}

async fn stop_leaves_nothing() {
    let testbed = Testbed::start(Options::default()).await.unwrap();
    let (folder, processes) = (folder(&testbed), testbed.processes());
    assert_eq!(processes.len(), 6, "four servers and two processes of the guard");
    assert!(processes.iter().all(|process| is_running(*process)));
    testbed.stop().await;
    assert_eq!(processes.into_iter().filter(|process| is_running(*process)).collect::<Vec<_>>(), []);
    assert!(!folder.exists());
    assert!(matches!(testbed.create_namespace("late").await, Err(TestbedError::Stopped)));
    testbed.stop().await;
}

async fn drop_leaves_nothing() {
    let testbed = Testbed::start(Options::default()).await.unwrap();
    let (folder, processes) = (folder(&testbed), testbed.processes());
    drop(testbed);
    assert_eq!(processes.into_iter().filter(|process| is_running(*process)).collect::<Vec<_>>(), []);
    assert!(!folder.exists());
}

async fn sigkill_leaves_nothing() {
    let mut child = Command::new(env::current_exe().unwrap()).env(CHILD, "1").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let folder = PathBuf::from(lines.next().unwrap().unwrap());
    let processes = lines.next().unwrap().unwrap();
    let processes: Vec<u32> = processes.split(' ').map(|process| process.parse().unwrap()).collect();
    assert_eq!(processes.len(), 6);
    assert!(processes.iter().all(|process| is_running(*process)));
    assert!(folder.exists());
    child.kill().unwrap();
    child.wait().unwrap();
    // Nothing tells of the end of another's child, so they are asked for.
    let start = Instant::now();
    while folder.exists() || processes.iter().any(|process| is_running(*process)) {
        assert!(start.elapsed() < Duration::from_secs(30), "left: {processes:?} {folder:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Whether a process is there and not merely unburied: who inherits the servers may take its time.
fn is_running(process: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{process}/stat")) else { return false };
    // The name, in parentheses, may contain anything; the state follows.
    !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z')
}

async fn a_server_that_ends_is_named_with_its_log() {
    let Ok(Availability::Servers(servers)) = Availability::check() else { panic!("servers were there") };
    let broken = env::temp_dir().join(format!("testbed-broken-{}", std::process::id()));
    fs::create_dir_all(&broken).unwrap();
    for program in ["etcd", "kube-controller-manager", "kube-scheduler", "kubectl"] {
        std::os::unix::fs::symlink(servers.join(program), broken.join(program)).unwrap();
    }
    executable(&broken.join("kube-apiserver"), "#!/bin/sh\necho no port is good enough\nexit 3\n");
    let output =
        Command::new(env::current_exe().unwrap()).env(CHILD, "1").env("KUBEBUILDER_ASSETS", &broken).output().unwrap();
    fs::remove_dir_all(&broken).unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    for part in ["kube-apiserver ended", "exit status: 3", "no port is good enough"] {
        assert!(said.contains(part), "{said}");
    }
}

fn executable(path: &Path, script: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::write(path, script).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

async fn nodes_are_as_asked_for() {
    let node = scheduler_k8s_testbed::Node::new("big").cpus(64).memory_gib(3).pods(500).label("disk", "fast");
    let testbed = Testbed::start(Options::default().nodes([node])).await.unwrap();
    let template = "{range .items[*]}{.metadata.name} {.status.allocatable.cpu} {.status.allocatable.memory} \
                    {.status.allocatable.pods} {.metadata.labels.disk} {.spec.taints}{end}";
    let output = testbed.kubectl().args(["get", "nodes", "-o", &format!("jsonpath={template}")]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "big 64 3Gi 500 fast ");
    testbed.stop().await;
}
