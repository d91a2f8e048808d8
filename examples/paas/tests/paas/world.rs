//! A platform for a test.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lifecycle_hooks::pipeline::PipelineName;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::client::{Client, within};
use paas::backend::Backend;
use paas::serve::{Failure, Settings, serve};

/// A platform that runs in this process.
pub struct World {
    pub client: Client,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), Failure>>,
    database: Database,
}

/// A file that goes with its owner.
pub struct Database(pub PathBuf);

impl Database {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("paas-test-{}-{}.db", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        for suffix in ["", "-wal", "-shm"] {
            let mut path = self.0.clone().into_os_string();
            path.push(suffix);
            let _ = std::fs::remove_file(path);
        }
    }
}

impl World {
    pub async fn memory() -> Self {
        Self::start(Backend::memory().await.unwrap(), Database::new()).await
    }

    pub async fn start(backend: Backend, database: Database) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = Client(listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel();
        let until = async { drop(stopped.await) };
        let (database_file, pipeline, reconcile) = (database.0.clone(), PipelineName::Full, Duration::from_secs(1));
        let settings = Settings { database: database_file, backend, pipeline, reconcile };
        let running = tokio::spawn(serve(listener, settings, until));
        Self { client, stop, running, database }
    }

    /// Ends it as Ctrl-C does. The database is left.
    pub async fn stop(self) -> Database {
        self.stop.send(()).unwrap();
        within(self.running, "the platform's end").await.unwrap().unwrap();
        self.database
    }
}
