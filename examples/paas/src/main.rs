//! A small platform over any scheduler: `cargo run -p paas`, then open <http://127.0.0.1:7777>.
//!
//! Apps, releases, domains and runs are rows in SQLite. A change of them and the event that tells of it are committed
//! together; a worker then tells the event to hooks, which make it so on the backend: in this process' memory, unless a
//! configuration names another (`--config examples/datacenters.toml --datacenter cluster`). Killed at any moment and started
//! again with the same `--database`, it goes on where it was.
//!
//! Nobody has to log in. Let it listen on loopback only.
//!
//! # The whole story, from a terminal
//!
//! ```text
//! J='content-type: application/json'; P=http://127.0.0.1:7777
//!
//! curl $P/apps -H "$J" -d '{"name": "shop"}'                       # an app
//! curl -N $P/apps/shop/events &                                    # what happens to it, from now on
//! curl $P/apps/shop/releases -H "$J" -d '{"image": "shop/web:1"}'  # a release of its process `web`
//! curl $P/apps/shop/domains -H "$J" -d '{"host": "shop.example"}'  # requests for a host go to it
//! curl -X PUT $P/apps/shop/formation -H "$J" -d '{"web": 3}'       # three instances
//! curl $P/apps/shop/runs -H "$J" -d '{"command": ["migrate"]}'     # a command, once
//!
//! # An image that cannot be pulled: the release fails, what ran goes on running, and the diagnosis says why.
//! curl $P/apps/shop/releases -H "$J" -d '{"image": "sim/pull-error:2", "patience": 5}'
//! curl $P/apps/shop                                                # all of it, with evidence from the backend
//!
//! curl $P/apps/shop/releases -H "$J" -d '{"image": "shop/web:3"}'
//! curl $P/apps/shop/rollback -H "$J" -d '{}'                       # back to the last good one; or {"to": 1}
//! curl -X DELETE $P/apps/shop                                      # the end of it
//! ```
//!
//! In memory, and on the simulated nodes of this project's tests, an image under `sim/` says itself what becomes of it:
//! `sim/crash`, `sim/never-ready`, `sim/oom`, `sim/slow/after-20` (see `scheduler_core::memory::Fate`).
//!
//! # Everything that can be asked
//!
//! | request | body | |
//! |---|---|---|
//! | `GET /apps`, `POST /apps` | `{"name"}` | all apps; a new one |
//! | `GET /apps/A`, `DELETE /apps/A` | | its model, last deploy and workloads; its end |
//! | `POST /apps/A/releases` | `{"image", "port"?, "patience"?}` or `{"processes": [..], "before"?: [..]}`; or a workload file, as `application/yaml` | a new release |
//! | `POST /apps/A/rollback` | `{"to"?}` | a new release with the content of an earlier good one |
//! | `PUT /apps/A/formation` | `{"web": 3}` | how many instances its processes are to have |
//! | `POST /apps/A/domains`, `DELETE /apps/A/domains/H` | `{"host"}` | a domain |
//! | `POST /apps/A/runs` | `{"command": [..], "process"?, "image"?, "key"?}` | a command, once; the same key is the same run |
//! | `POST /apps/A/restart` | `{"process"?}` | new instances of what runs |
//! | `GET /apps/A/events`, `GET /events` | | what happens, as server-sent events, to one app or to all |
//! | `GET /hooks` | | what the hooks do about what, and why not where they do nothing |
//! | `GET /outbox`, `POST /outbox/E/retry`, `DELETE /outbox/E` | | events that are not dealt with yet; for operators |
//!
//! A change answers 202 when it is committed; the events tell what comes of it. What is refused has changed nothing: 404 for
//! what is not there, 409 for what does not fit the present state, 422 with every fault by its path, 503 when the backend
//! could not be asked. The body is `{"error", "message", "hint", "faults"?: [{"path", "problem"}]}`.
//!
//! The stream of events begins with a `snapshot`, or after the event that `Last-Event-ID` names. Then come `app` (its model,
//! its deploy with the verdict of each stage, its waiting events), `workload` (verdict, counts, diagnoses), `workload_gone`,
//! `stage`, `drift`, `told` (what hooks answered) and, at the end, `gone`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use lifecycle_hooks::pipeline::PipelineName;
use paas::backend::Backend;
use paas::serve::{Failure, Settings, serve};
use tokio::net::TcpListener;

/// A small platform, with a page to look at.
#[derive(Debug, Parser)]
struct Arguments {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:7777")]
    listen: SocketAddr,
    /// The database file; a temporary one if absent.
    #[arg(long)]
    database: Option<PathBuf>,
    /// A file with data centres, as examples/datacenters.toml.
    #[arg(long, requires = "datacenter")]
    config: Option<PathBuf>,
    /// Which of them; this process' memory if absent.
    #[arg(long, requires = "config")]
    datacenter: Option<String>,
    /// How releases are deployed: `full`, `canopus` (each beside the last) or `launch-only`.
    #[arg(long, default_value = "full")]
    pipeline: PipelineName,
    /// How often apps are compared with their models, in seconds.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    reconcile: u64,
}

/// The platform until Ctrl-C.
#[tokio::main]
async fn main() -> ExitCode {
    match run(&Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(reason)) => {
            eprintln!("error: {reason}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> Result<(), Failure> {
    let backend = match (&arguments.config, &arguments.datacenter) {
        (Some(config), Some(datacenter)) => Backend::from_file(config, datacenter).await?,
        _ => Backend::memory().await?,
    };
    let database = match &arguments.database {
        Some(path) => path.clone(),
        None => std::env::temp_dir().join(format!("paas-{}.db", std::process::id())),
    };
    let listener = TcpListener::bind(arguments.listen).await;
    let listener = listener.map_err(|error| Failure(format!("cannot listen on {}: {error}", arguments.listen)))?;
    println!("the database is {}", database.display());
    println!("open http://{}", listener.local_addr()?);
    let reconcile = Duration::from_secs(arguments.reconcile);
    let settings = Settings { database, backend, pipeline: arguments.pipeline, reconcile };
    let stop = async {
        if let Err(error) = tokio::signal::ctrl_c().await {
            eprintln!("Ctrl-C will end it at once: {error}");
            std::future::pending::<()>().await;
        }
    };
    serve(listener, settings, stop).await
}
