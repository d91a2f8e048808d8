//! How many events a second go through an outbox to a hook that does nothing, beside bare inserts and deletes of the same
//! rows in the same database: `cargo bench -p lifecycle-hooks`.
//!
//! One event is, through the outbox: a transaction that appends it, and a worker's claim and acknowledgement of it. Bare, it
//! is: a transaction that inserts it, and one that deletes it. Both go event by event, from as many connections. SQLite has its
//! journal in WAL mode and is synchronous as `normal`; PostgreSQL is as its server is set up. PostgreSQL is the one
//! of `SCHEDULER_TEST_DATABASE_URL`, and is left out without it. Each number is the median of the rounds.
//!
//! `--long 1000000` appends and tells so many events at the same time, and says now and then how much memory is used.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "this is a program")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::stream::{self, StreamExt as _};
use lifecycle_hooks::deliver::{HookSets, Worker};
use lifecycle_hooks::outbox::{Outbox, PostgresOutbox, SqliteOutbox};
use scheduler_core::hooks::{App, Event, EventId, EventKind, HookError, HookName, LifecycleHooks, Outcome};
use scheduler_core::{Support, Timestamp};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{AssertSqlSafe, PgPool, SqlitePool};
use tokio::sync::Notify;

const EVENTS: u64 = 4_000;
const ROUNDS: usize = 5;
const APPS: u64 = 100;
/// How many are written at a time, on both sides.
const CONNECTIONS: usize = 4;

fn event(n: u64) -> Event {
    let name = format!("app-{}", n % APPS);
    let app = App::new(name.parse().unwrap(), name.as_str().try_into().unwrap());
    Event::new(EventId::new(format!("event-{n}")), Timestamp::from_millis(0), EventKind::ConfigChanged, app)
}

/// Does nothing, and says when it has done so often enough.
#[derive(Debug)]
struct Nothing {
    left: AtomicU64,
    done: Notify,
}

#[async_trait]
impl LifecycleHooks for Nothing {
    fn name(&self) -> &str {
        "nothing"
    }

    fn supports(&self, _: HookName) -> Support {
        Support::Yes
    }

    async fn post_config_change(&self, _: &Event) -> Result<Outcome, HookError> {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.done.notify_one();
        }
        Ok(Outcome::AlreadyInState)
    }
}

/// Tells so many events, and returns when the last one is acknowledged.
async fn tell(outbox: Arc<dyn Outbox>, events: u64, beside: impl Future<Output = ()> + Send) {
    let nothing = Arc::new(Nothing { left: AtomicU64::new(events), done: Notify::new() });
    let hooks: Arc<dyn LifecycleHooks> = Arc::<Nothing>::clone(&nothing);
    let worker = Worker::new(outbox, HookSets::new(vec![hooks]).unwrap());
    tokio::join!(worker.run(nothing.done.notified()), beside);
}

/// Does something for each number, some at a time.
async fn each<F: Future<Output = ()>>(events: u64, one: impl Fn(u64) -> F) {
    stream::iter(0..events).for_each_concurrent(CONNECTIONS, one).await;
}

/// The same for both databases, whose types have nothing in common.
macro_rules! database {
    ($module:ident, $pool:ty, $outbox:ty, $begin:expr) => {
        mod $module {
            use super::*;

            async fn append(pool: &$pool, outbox: &$outbox, events: std::ops::Range<u64>) {
                let mut transaction = $begin(pool).await.unwrap();
                for n in events {
                    outbox.append(&mut transaction, &event(n)).await.unwrap();
                }
                transaction.commit().await.unwrap();
            }

            async fn through_the_outbox(pool: &$pool) -> Duration {
                let outbox = <$outbox>::new(pool.clone());
                let begun = Instant::now();
                each(EVENTS, async |n| append(pool, &outbox, n..n + 1).await).await;
                tell(Arc::new(outbox), EVENTS, async {}).await;
                begun.elapsed()
            }

            async fn bare(pool: &$pool) -> Duration {
                let begun = Instant::now();
                each(EVENTS, async |n| {
                    let event = event(n);
                    let mut transaction = $begin(pool).await.unwrap();
                    let insert = "INSERT INTO bare (app, id, event) VALUES ($1, $2, $3)";
                    let insert = sqlx::query(insert).bind(event.app.name.as_str()).bind(event.id.as_str());
                    insert.bind(serde_json::to_string(&event).unwrap()).execute(&mut *transaction).await.unwrap();
                    transaction.commit().await.unwrap();
                })
                .await;
                each(EVENTS, async |n| {
                    let mut transaction = $begin(pool).await.unwrap();
                    let delete = sqlx::query("DELETE FROM bare WHERE id = $1").bind(format!("event-{n}"));
                    delete.execute(&mut *transaction).await.unwrap();
                    transaction.commit().await.unwrap();
                })
                .await;
                begun.elapsed()
            }

            pub(super) async fn compare(name: &str, pool: &$pool) {
                <$outbox>::prepare(pool).await.unwrap();
                sqlx::query("CREATE TABLE bare (id TEXT PRIMARY KEY, app TEXT NOT NULL, event TEXT NOT NULL)")
                    .execute(pool)
                    .await
                    .unwrap();
                let (mut outbox, mut peer) = (Vec::new(), Vec::new());
                for _ in 0..ROUNDS {
                    outbox.push(through_the_outbox(pool).await);
                    peer.push(bare(pool).await);
                }
                report(name, outbox, peer);
            }

            pub(super) async fn long(name: &str, pool: &$pool, events: u64) {
                <$outbox>::prepare(pool).await.unwrap();
                let outbox = <$outbox>::new(pool.clone());
                let begun = Instant::now();
                let append = async {
                    for start in (0..events).step_by(1_000) {
                        append(pool, &outbox, start..(start + 1_000).min(events)).await;
                        if start % (events / 10).next_multiple_of(1_000) == 0 {
                            println!("{name}: {start} appended, {} MiB resident", resident());
                        }
                    }
                };
                tell(Arc::new(outbox.clone()), events, append).await;
                let rate = events as f64 / begun.elapsed().as_secs_f64();
                println!("{name}: {events} told, {rate:.0} a second, {} MiB resident", resident());
            }
        }
    };
}

database!(on_sqlite, SqlitePool, SqliteOutbox, |pool: &SqlitePool| {
    let pool = pool.clone();
    async move { pool.begin_with("BEGIN IMMEDIATE").await }
});
database!(on_postgres, PgPool, PostgresOutbox, |pool: &PgPool| {
    let pool = pool.clone();
    async move { pool.begin().await }
});

fn report(name: &str, mut outbox: Vec<Duration>, mut peer: Vec<Duration>) {
    outbox.sort();
    peer.sort();
    let rate = |times: &[Duration]| EVENTS as f64 / times[ROUNDS / 2].as_secs_f64();
    let (outbox, peer) = (rate(&outbox), rate(&peer));
    println!("{name}: {outbox:.0} events a second, bare {peer:.0}, ratio {:.2}", outbox / peer);
}

/// The memory of this process, where the system tells it.
fn resident() -> String {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
    pages.map_or_else(|| "?".to_owned(), |pages| (pages * 4096 / 1024 / 1024).to_string())
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let long = arguments.iter().position(|argument| argument == "--long").map(|at| arguments[at + 1].parse().unwrap());

    let folder = std::env::temp_dir().join(format!("outbox-bench-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let options = SqliteConnectOptions::new()
        .filename(folder.join("bench.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Normal)
        .busy_timeout(Duration::from_secs(20));
    let pool = SqlitePoolOptions::new().max_connections(CONNECTIONS as u32).connect_with(options).await.unwrap();
    match long {
        Some(events) => on_sqlite::long("SQLite", &pool, events).await,
        None => on_sqlite::compare("SQLite", &pool).await,
    }
    pool.close().await;
    std::fs::remove_dir_all(&folder).unwrap();

    let Ok(url) = std::env::var("SCHEDULER_TEST_DATABASE_URL") else {
        println!("PostgreSQL: left out, as SCHEDULER_TEST_DATABASE_URL names none");
        return;
    };
    let schema = format!("outbox_bench_{}", std::process::id());
    let options: PgConnectOptions = url.parse().unwrap();
    let options = options.options([("search_path", &schema)]);
    let pool = PgPoolOptions::new().max_connections(CONNECTIONS as u32).connect_with(options).await.unwrap();
    sqlx::query(AssertSqlSafe(format!("CREATE SCHEMA {schema}"))).execute(&pool).await.unwrap();
    match long {
        Some(events) => on_postgres::long("PostgreSQL", &pool, events).await,
        None => on_postgres::compare("PostgreSQL", &pool).await,
    }
    sqlx::query(AssertSqlSafe(format!("DROP SCHEMA {schema} CASCADE"))).execute(&pool).await.unwrap();
    pool.close().await;
}
