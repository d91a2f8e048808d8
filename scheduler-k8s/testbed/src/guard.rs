//! The processes of a testbed, and what ends them when nobody else can.

use std::{
    fs,
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::{fs::DirBuilderExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
};

use crate::TestbedError;

/// Waits for the end of the process that holds the other end of its standard input, then kills the process group `$1`
/// and removes the folder `$2`. The second `rm` is for a file that a dying server made behind the first one's back.
const SWEEP: &str = r#"cat; kill -s KILL -- "-$1"; rm -rf -- "$2" || { sleep 1; rm -rf -- "$2"; }"#;

/// How much of a log an error quotes.
const LOG_TAIL: usize = 2_000;

/// Owns the servers and their folder. Everything ends with it: by drop, by the end of this process, by its SIGKILL.
///
/// The servers share one process group, so that no list of process ids can be out of date: a server belongs to the
/// group before it runs its first instruction. The group's leader is an idle process that does nothing else (`cat`):
/// the group needs a name before the first server and a sweeper that is not in it.
#[derive(Debug)]
pub(crate) struct Guard {
    folder: PathBuf,
    leader: Child,
    sweeper: Child,
    /// Closing it sets the sweeper to work. Close-on-exec, hence held by this process alone.
    pipe: Option<ChildStdin>,
    servers: Vec<Server>,
}

#[derive(Debug)]
struct Server {
    program: &'static str,
    child: Child,
}

impl Guard {
    /// Makes a folder that only this user can enter, and the guard of what will run in it.
    pub(crate) fn new(folder: PathBuf) -> Result<Self, TestbedError> {
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&folder)
            .map_err(TestbedError::machine(format!("make {}", folder.display())))?;
        let (leader, mut sweeper) = guards(&folder).map_err(|error| {
            let _ = fs::remove_dir(&folder);
            TestbedError::machine("start a guard process")(error)
        })?;
        let pipe = sweeper.stdin.take();
        Ok(Self { folder, leader, sweeper, pipe, servers: Vec::new() })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts a server of the group. It inherits nothing of the environment, which could configure it (`ETCD_…`).
    pub(crate) fn spawn(
        &mut self,
        folder_of_programs: &Path,
        program: &'static str,
        arguments: &[String],
    ) -> Result<(), TestbedError> {
        let log = fs::File::create(self.log(program)).map_err(TestbedError::machine(format!("log {program}")))?;
        let errors = log.try_clone().map_err(TestbedError::machine(format!("log {program}")))?;
        let group = i32::try_from(self.leader.id())
            .map_err(|error| TestbedError::machine("name a process group")(io::Error::other(error)))?;
        let child = Command::new(folder_of_programs.join(program))
            .args(arguments)
            .env_clear()
            .process_group(group)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .map_err(TestbedError::machine(format!("start {program}")))?;
        self.servers.push(Server { program, child });
        Ok(())
    }

    /// Takes out a server that has ended by itself, if there is one, as the error that it is.
    pub(crate) fn ended(&mut self) -> Option<TestbedError> {
        let (index, status) = self.servers.iter_mut().enumerate().find_map(|(index, server)| {
            let status = server.child.try_wait().ok().flatten()?;
            Some((index, status))
        })?;
        let program = self.servers.swap_remove(index).program;
        let log = tail(&self.log(program)).unwrap_or_else(|error| format!("(no log: {error})"));
        Some(TestbedError::Ended { program, status, log })
    }

    /// The process ids of everything that runs: the servers and the two processes of the guard.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let servers = self.servers.iter().map(|server| server.child.id());
        servers.chain([self.leader.id(), self.sweeper.id()]).collect()
    }

    fn log(&self, program: &str) -> PathBuf {
        self.folder.join(program).with_extension("log")
    }
}

impl Drop for Guard {
    /// Blocks for the milliseconds that it takes to kill and reap, so that nothing is left when it returns.
    fn drop(&mut self) {
        for server in &mut self.servers {
            end(&mut server.child);
        }
        drop(self.pipe.take());
        let _ = self.sweeper.wait();
        end(&mut self.leader);
    }
}

/// The leader of the servers' group, and the sweeper in a group of its own.
fn guards(folder: &Path) -> io::Result<(Child, Child)> {
    let idle = |command: &mut Command| {
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    };
    let mut leader = idle(&mut Command::new("cat"))?;
    let group = leader.id().to_string();
    match idle(Command::new("sh").args(["-c", SWEEP, "sweeper", &group]).arg(folder)) {
        Ok(sweeper) => Ok((leader, sweeper)),
        Err(error) => {
            end(&mut leader);
            Err(error)
        }
    }
}

/// Kills and reaps. Both fail only for a process that was reaped before.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn tail(path: &Path) -> io::Result<String> {
    let mut file = fs::File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL as u64)))?;
    let mut bytes = Vec::with_capacity(LOG_TAIL);
    file.take(LOG_TAIL as u64).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
}
