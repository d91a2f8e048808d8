//! How a testbed starts, and that it ends however its process ends.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "this is a test, which clippy cannot tell without #[test]"
)]

mod support;

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    net::TcpListener,
    os::unix::{
        fs::{PermissionsExt as _, symlink},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use scheduler_k8s_testbed::{Availability, Options, Testbed, TestbedError, User};

/// Makes this binary start a testbed, say what it consists of and wait to be killed.
const CHILD: &str = "TESTBED_TEST_CHILD";

/// Makes this binary hold the port that it names, and wait to be killed.
const HOLD: &str = "TESTBED_TEST_HOLD";

/// The file with the process id of the holder.
const HOLDER: &str = "holder";

fn main() -> ExitCode {
    let own = PathBuf::from(env::args_os().next().unwrap_or_default());
    if own.ends_with("kube-apiserver") {
        return lose_port_once(&own);
    }
    if let Ok(port) = env::var(HOLD) {
        hold(&port);
    }
    if env::var_os(CHILD).is_some() {
        return support::block_on(child());
    }
    support::run(cases![
        stop_leaves_nothing,
        drop_leaves_nothing,
        sigkill_leaves_nothing,
        a_server_that_ends_is_named_with_its_log,
        another_port_is_tried_when_the_first_one_is_lost,
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
    let mode = fs::metadata(&folder).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "the tokens in it are this user's alone");
    assert_eq!(processes.len(), 6, "four servers and two processes of the guard");
    assert_eq!(running(&processes), processes);
    testbed.stop().await;
    assert!(running(&processes).is_empty());
    assert!(!folder.exists());
    assert!(matches!(testbed.create_namespace("late").await, Err(TestbedError::Stopped)));
    testbed.stop().await;
}

async fn drop_leaves_nothing() {
    let testbed = Testbed::start(Options::default()).await.unwrap();
    let (folder, processes) = (folder(&testbed), testbed.processes());
    drop(testbed);
    assert!(running(&processes).is_empty());
    assert!(!folder.exists());
}

async fn sigkill_leaves_nothing() {
    let (mut child, folder, processes) = start_child(&mut child_command());
    assert_eq!(processes.len(), 6);
    assert_eq!(running(&processes), processes);
    assert!(folder.exists());
    child.kill().unwrap();
    child.wait().unwrap();
    gone(&folder, &processes).await;
}

fn child_command() -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.env(CHILD, "1").stdout(Stdio::piped());
    command
}

/// The child, the folder of its testbed and the processes.
fn start_child(command: &mut Command) -> (Child, PathBuf, Vec<u32>) {
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let folder = PathBuf::from(lines.next().unwrap().unwrap());
    let processes = lines.next().expect("no error instead").unwrap();
    (child, folder, processes.split(' ').map(|process| process.parse().unwrap()).collect())
}

/// Nothing tells of the end of another's child, so they are asked for.
async fn gone(folder: &Path, processes: &[u32]) {
    let start = Instant::now();
    while folder.exists() || !running(processes).is_empty() {
        assert!(start.elapsed() < Duration::from_secs(30), "left: {:?} {folder:?}", running(processes));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn running(processes: &[u32]) -> Vec<u32> {
    processes.iter().copied().filter(|process| is_running(*process)).collect()
}

/// Whether a process is there and not merely unburied: who inherits the servers may take its time.
fn is_running(process: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{process}/stat")) else { return false };
    // The name, in parentheses, may contain anything; the state follows.
    !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z')
}

async fn a_server_that_ends_is_named_with_its_log() {
    let programs = Programs::without_api_server("broken");
    let script = programs.0.join("kube-apiserver");
    fs::write(&script, "#!/bin/sh\necho no port is good enough\nexit 3\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let output = child_command().env("KUBEBUILDER_ASSETS", &programs.0).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    for part in ["kube-apiserver ended", "exit status: 3", "no port is good enough"] {
        assert!(said.contains(part), "{said}");
    }
}

async fn another_port_is_tried_when_the_first_one_is_lost() {
    let programs = Programs::without_api_server("thief");
    symlink(env::current_exe().unwrap(), programs.0.join("kube-apiserver")).unwrap();
    let (mut child, folder, mut processes) = start_child(child_command().env("KUBEBUILDER_ASSETS", &programs.0));
    child.kill().unwrap();
    child.wait().unwrap();
    let holder = fs::read_to_string(programs.0.join(HOLDER)).expect("the first port was lost");
    processes.push(holder.parse().unwrap());
    gone(&folder, &processes).await;
}

/// A folder of servers, removed at the end of the test. Its `kube-apiserver` is still to be made.
struct Programs(PathBuf);

impl Programs {
    fn without_api_server(name: &str) -> Self {
        let Ok(Availability::Servers(servers)) = Availability::check() else { panic!("servers were there") };
        let folder = env::temp_dir().join(format!("testbed-test-{name}-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        for program in ["etcd", "kube-controller-manager", "kube-scheduler", "kubectl"] {
            symlink(servers.join(program), folder.join(program)).unwrap();
        }
        symlink(servers.join("kube-apiserver"), folder.join("real")).unwrap();
        Self(folder)
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What this binary does when a testbed starts it as `kube-apiserver`: the first time it loses its port to another
/// process and ends, as the real one would; after that it becomes the real one.
#[expect(clippy::zombie_processes, reason = "the holder outlives this process, and ends with the testbed's group")]
fn lose_port_once(own: &Path) -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let folder = own.parent().expect("a file is in a folder");
    if folder.join(HOLDER).exists() {
        let error = Command::new(folder.join("real")).args(arguments).exec();
        panic!("{error}");
    }
    let port = arguments.iter().find_map(|argument| argument.strip_prefix("--secure-port=")).expect("a port");
    let mut holder = Command::new(env::current_exe().unwrap()).env(HOLD, port).stdout(Stdio::piped()).spawn().unwrap();
    fs::write(folder.join(HOLDER), holder.id().to_string()).unwrap();
    let held = BufReader::new(holder.stdout.take().unwrap()).lines().next();
    assert!(held.is_some_and(|line| line.is_ok()), "the holder says when it has the port");
    ExitCode::FAILURE
}

fn hold(port: &str) -> ! {
    let _listener = TcpListener::bind(("127.0.0.1", port.parse().unwrap())).unwrap();
    println!("held");
    loop {
        std::thread::park();
    }
}
