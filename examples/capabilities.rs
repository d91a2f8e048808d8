//! What each backend can do, as a table, and why not where it cannot: `cargo run --example capabilities`.
//!
//! The table in the README is this one: `cargo run --example capabilities -- --write` puts it there.

use std::fmt::Write as _;
use std::path::PathBuf;

use scheduler_core::memory::MemoryCluster;
use scheduler_core::{Capabilities, Feature, OwnerId, Scheduler, Support};
use scheduler_k8s::KubernetesScheduler;
use scheduler_k8s::client::kube;
use scheduler_nomad::NomadScheduler;
use scheduler_nomad::client::ConnectOptions;
use scheduler_nomad_fake::{FakeNomad, Options};

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let table = table(&capabilities().await?);
    if std::env::args().any(|argument| argument == "--write") {
        std::fs::write(readme(), with_table(&std::fs::read_to_string(readme())?, &table)?)?;
    } else {
        print!("{table}");
    }
    Ok(())
}

/// What a scheduler of each backend says of itself. None asks a server of yours.
async fn capabilities() -> Result<[Capabilities; 3], Failure> {
    let owner = OwnerId::new("example-platform")?;
    let memory = MemoryCluster::builder().build().scheduler(owner.clone());
    // A client sends nothing before it is asked to.
    let client = kube::Client::try_from(kube::Config::new("http://127.0.0.1".parse()?))?;
    let kubernetes = KubernetesScheduler::new(scheduler_k8s::client::Client::new(client), owner.clone());
    let fake = FakeNomad::start(Options::default())?;
    let client = scheduler_nomad::client::Client::connect(ConnectOptions::explicit(fake.address())).await?;
    let nomad = NomadScheduler::new(client, owner);
    Ok([memory.capabilities().clone(), kubernetes.capabilities().clone(), nomad.capabilities().clone()])
}

fn table(backends: &[Capabilities]) -> String {
    let mut table = String::from("| |");
    for backend in backends {
        let _ = write!(table, " {} |", backend.backend());
    }
    let _ = writeln!(table, "\n|{}", " --- |".repeat(backends.len() + 1));
    for feature in Feature::ALL {
        let _ = write!(table, "| {feature} |");
        for backend in backends {
            let _ = match backend.support(*feature) {
                Support::Yes => write!(table, " yes |"),
                Support::No(reason) => write!(table, " no: {reason} |"),
            };
        }
        table.push('\n');
    }
    table
}

const BEGIN: &str = "<!-- capabilities -->\n";
const END: &str = "<!-- /capabilities -->\n";

fn readme() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../README.md")
}

/// The text with the table between its marks.
fn with_table(text: &str, table: &str) -> Result<String, Failure> {
    let (before, rest) = text.split_once(BEGIN).ok_or("the README has no mark where the table begins")?;
    let (_, after) = rest.split_once(END).ok_or("the README has no mark where the table ends")?;
    Ok(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_readme_has_this_table() {
        let text = std::fs::read_to_string(readme()).unwrap();
        let now = with_table(&text, &table(&capabilities().await.unwrap())).unwrap();
        assert!(text == now, "run `cargo run --example capabilities -- --write`");
    }
}
