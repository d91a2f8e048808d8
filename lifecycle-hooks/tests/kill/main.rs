//! A platform that is killed at random points of its life, again and again: nothing that was committed is lost, nothing that was
//! rolled back is told, and in the end the backend has what the models have.
//!
//! The platform is this program, run as a process of its own. It says each step that it takes; it is killed at a random one, or
//! after a random time. A failure names the seed of its history; `LIFECYCLE_KILLS=17..18` plays only that.

#![expect(
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "this is a test, which clippy cannot tell in its helpers"
)]

mod backend;
mod child;
mod database;
mod history;

use std::ops::Range;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use tokio::runtime::Builder;

use self::database::{Database, Place};

/// How many histories there are on each database, unless [`SEEDS`] says which.
const HISTORIES: u64 = 200;
const SEEDS: &str = "LIFECYCLE_KILLS";

fn main() -> ExitCode {
    if let Some(place) = Place::of_child() {
        runtime().block_on(child::platform(&place));
        return ExitCode::SUCCESS;
    }
    let trials = vec![
        Trial::test("on_sqlite", || all_on(Database::sqlite)),
        Trial::ignorable_test("on_postgres", || match database::postgres_url() {
            Ok(_) => all_on(Database::postgres).map(|()| Completion::Completed),
            Err(_) if std::env::var_os("REQUIRE_POSTGRES").is_none() => {
                Ok(Completion::ignored_with("SCHEDULER_TEST_DATABASE_URL names no PostgreSQL"))
            }
            Err(reason) => Err(reason.into()),
        }),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn runtime() -> tokio::runtime::Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Plays every history on databases of their own, some at a time: they mostly wait.
fn all_on<F: Future<Output = Database>>(make: fn() -> F) -> Result<(), Failed> {
    let seeds = seeds()?;
    let (next, kills) = (AtomicU64::new(seeds.start), AtomicU64::new(0));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return Ok(());
            }
            let killed = runtime().block_on(async {
                let database = make().await;
                let killed = history::play(&database, seed).await;
                database.remove().await;
                killed
            });
            kills.fetch_add(killed.map_err(|problem| format!("seed {seed}: {problem}"))?, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..6).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap())
    })
    .map_err(|problem: String| Failed::from(problem))?;
    let (histories, kills) = (seeds.end - seeds.start, kills.into_inner());
    eprintln!("{histories} histories, {kills} kills");
    if kills < histories { Err("there are histories without a kill".into()) } else { Ok(()) }
}

fn seeds() -> Result<Range<u64>, String> {
    let Ok(text) = std::env::var(SEEDS) else { return Ok(0..HISTORIES) };
    let range = text.split_once("..").and_then(|(start, end)| Some(start.parse().ok()?..end.parse().ok()?));
    range.ok_or_else(|| format!("{SEEDS} is to be like 17..18"))
}
