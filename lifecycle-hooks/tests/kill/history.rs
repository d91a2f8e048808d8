//! One history: its kills, and what must be so in the end.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use lifecycle_hooks::outbox::OutboxFilter;

use crate::backend;
use crate::child::{APPS, is_rolled_back};
use crate::database::Database;

/// No run takes longer, unless something hangs.
const HANGS: Duration = Duration::from_secs(60);
/// The first run takes more steps than this before it is done.
const FIRST: u64 = 30;
/// A later kill is at one of so many steps, or within so many milliseconds.
const LATER: u64 = 60;

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
}

/// When a run is killed.
enum Kill {
    AtStep(u64),
    After(Duration),
    Never,
}

/// Answers how often the platform was killed.
pub(crate) async fn play(database: &Database, seed: u64) -> Result<u64, String> {
    let mut rng = Rng(seed);
    let mut kills = u64::from(run(database, &Kill::AtStep(1 + rng.below(FIRST)))?);
    for _ in 0..rng.below(3) {
        let kill = match rng.below(2) {
            0 => Kill::AtStep(1 + rng.below(LATER)),
            _ => Kill::After(Duration::from_millis(rng.below(LATER))),
        };
        kills += u64::from(run(database, &kill)?);
    }
    run(database, &Kill::Never)?;
    judge(database).await?;
    Ok(kills)
}

/// Runs the platform. Answers whether it was killed before it had ended.
fn run(database: &Database, kill: &Kill) -> Result<bool, String> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let mut child = database.place().pass_to(&mut command).stdout(Stdio::piped()).spawn().unwrap();
    let steps = steps_of(&mut child);
    let killed = match kill {
        Kill::AtStep(step) => (0..*step).all(|_| matches!(steps.recv_timeout(HANGS), Ok(()))),
        Kill::After(time) => {
            let end = Instant::now() + *time;
            loop {
                match steps.recv_timeout(end.saturating_duration_since(Instant::now())) {
                    Ok(()) => {}
                    Err(RecvTimeoutError::Timeout) => break true,
                    Err(RecvTimeoutError::Disconnected) => break false,
                }
            }
        }
        Kill::Never => {
            let end = Instant::now() + HANGS;
            loop {
                match steps.recv_timeout(end.saturating_duration_since(Instant::now())) {
                    Ok(()) => {}
                    Err(RecvTimeoutError::Timeout) => {
                        child.kill().unwrap();
                        child.wait().unwrap();
                        return Err(format!("the platform has not ended within {HANGS:?}"));
                    }
                    Err(RecvTimeoutError::Disconnected) => break false,
                }
            }
        }
    };
    if killed {
        child.kill().unwrap();
    }
    let ended = child.wait().unwrap();
    if !killed && !ended.success() {
        return Err(format!("the platform ended with {ended}"));
    }
    Ok(!ended.success())
}

/// One message for each step that the platform says; the end of them when it has ended.
fn steps_of(child: &mut Child) -> Receiver<()> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (sender, steps) = channel();
    std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|_| sender.send(())));
    steps
}

async fn judge(database: &Database) -> Result<(), String> {
    let left = database.outbox().list(&OutboxFilter::default()).await.unwrap();
    if !left.is_empty() {
        return Err(format!("there are events left: {left:?}"));
    }
    let committed = database.committed().await;
    let told = backend::told(database.folder());
    if let Some(event) = told.iter().map(|(_, event)| event).find(|event| is_rolled_back(event)) {
        return Err(format!("{event} was told, and was rolled back"));
    }
    let mut domains: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (app, host) in database.domains().await {
        domains.entry(app).or_default().push(host);
    }
    for app in APPS {
        let of_app = |all: &[(String, String)]| -> Vec<String> {
            all.iter().filter(|(of, _)| of == app).map(|(_, event)| event.clone()).collect()
        };
        let (wanted, mut told) = (of_app(&committed), of_app(&told));
        // What was being told when it was killed is told again; nothing else is.
        told.dedup();
        if told != wanted {
            return Err(format!("{app}: told {told:?}, committed {wanted:?}"));
        }
        let (models, routes) = (domains.remove(app).unwrap_or_default(), backend::routes(database.folder(), app));
        if models != routes {
            return Err(format!("{app}: the models have {models:?}, the backend {routes:?}"));
        }
    }
    Ok(())
}
