//! Deploys a workload file to a data centre: `cargo run --example deploy -- --help`.
//!
//! ```text
//! cargo run --example deploy -- --config examples/datacenters.toml --datacenter local examples/workloads/web.yaml
//! ```
//!
//! Exit code: 0 when all went well, 1 when the rollout failed or did not end in time, 2 when it could not be tried.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use scheduler_core::memory::MemoryFactory;
use scheduler_core::registry::Registry;
use scheduler_core::{
    CheckedWorkload, Delete, Deleted, Detail, Expose, Guard, KindName, Launch, Observation, Route, Scheduler,
    SchedulerExt, Status, WaitOptions, WaitOutcome, Workload,
};
use scheduler_k8s::KubernetesFactory;
use scheduler_nomad::NomadFactory;
use serde_json::Value;

/// Deploys a workload file to a data centre, and tells how it goes.
#[derive(Parser)]
struct Arguments {
    /// The file with the data centres.
    #[arg(long, default_value = "examples/datacenters.toml")]
    config: PathBuf,
    /// Which of them.
    #[arg(long)]
    datacenter: String,
    /// Delete the workload instead.
    #[arg(long, group = "action")]
    delete: bool,
    /// Only tell how the workload is.
    #[arg(long, group = "action")]
    status: bool,
    /// Only print the native objects; asks no server.
    #[arg(long, group = "action")]
    render: bool,
    /// Take the workload over if somebody else owns it.
    #[arg(long)]
    adopt: bool,
    /// Delete and launch anew what cannot be changed in place, such as a job.
    #[arg(long)]
    replace: bool,
    /// Send requests for this host to the first port of the workload.
    #[arg(long)]
    host: Option<String>,
    /// How long to wait in all, in seconds.
    #[arg(long, default_value_t = 900)]
    timeout: u64,
    /// The workload file.
    workload: PathBuf,
}

/// Why it could not be tried, in words for a person.
struct Refusal(String);

impl<E: std::error::Error> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(Refusal(reason)) => {
            eprintln!("error: {reason}");
            ExitCode::from(2)
        }
    }
}

async fn run(arguments: &Arguments) -> Result<bool, Refusal> {
    let workload = read_workload(&arguments.workload)?;
    let config = read_config(&arguments.config)?;
    let registry = Registry::new().backend(MemoryFactory).backend(KubernetesFactory).backend(NomadFactory);
    if arguments.render {
        return print(&registry.render(config, &arguments.datacenter, &workload)?);
    }
    let scheduler = registry.build_one(config, &arguments.datacenter).await?;
    let guard = if arguments.adopt { Guard::Adopt } else { Guard::IfOwned };
    if arguments.delete {
        delete(&*scheduler, &workload, guard, arguments.timeout).await
    } else if arguments.status {
        status(&*scheduler, &workload).await
    } else {
        deploy(&*scheduler, workload, guard, arguments).await
    }
}

/// Prints objects, for a pipe too: a reader that has seen enough is no failure.
fn print(objects: &[Value]) -> Result<bool, Refusal> {
    let mut out = std::io::stdout().lock();
    for object in objects {
        match writeln!(out, "{object:#}") {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => break,
            written => written?,
        }
    }
    Ok(true)
}

async fn deploy(s: &dyn Scheduler, workload: CheckedWorkload, guard: Guard, a: &Arguments) -> Result<bool, Refusal> {
    let (target, timeout) = (workload.target().clone(), a.timeout);
    let port = workload.containers().find_map(|container| container.ports.first().map(|port| port.name.clone()));
    let launch = Launch::new(workload).guard(guard);
    let patience = WaitOptions::default().total(Duration::from_secs(timeout));
    let launched = if a.replace { s.launch_or_replace(launch, &patience).await? } else { s.launch(launch).await? };
    println!("{target}: {}, revision {}", launched.change, launched.revision.short());
    for object in &launched.objects {
        println!("  {} {}: {:?}", object.kind, object.name, object.action);
    }
    if let Some(from) = &launched.adopted_from {
        println!("  taken over from {}", from.as_ref().map_or("nobody that it says", |owner| owner.as_str()));
    }
    launched.warnings.iter().for_each(|warning| println!("  warning: {warning}"));

    if let Some(host) = &a.host {
        let port = port.ok_or_else(|| Refusal(format!("{target} has no port for the route of {host}")))?;
        let exposed = s.expose(Expose::new(target.clone(), [Route::new(host, port)])).await?;
        println!("  route {host}: {}", if exposed.changed { "made" } else { "there already" });
    }

    let total = Duration::from_secs(timeout);
    let options = WaitOptions::default().revision(launched.revision).total(total).stall(total);
    let mut progress = Progress::new();
    let outcome = s.wait_observed(&target, &options, &mut |seen| progress.show(seen)).await;
    progress.finish();
    match outcome? {
        WaitOutcome::Succeeded => {
            let seen = s.status(Status::new(target.clone(), Detail::Counts)).await?.0;
            println!(
                "{target}: {}",
                seen.map_or_else(|| "done, and gone".to_owned(), |seen| seen.verdict().to_string())
            );
            Ok(true)
        }
        WaitOutcome::Failed(diagnoses) => {
            println!("{target}: the rollout failed");
            for diagnosis in diagnoses {
                println!("  {diagnosis}");
                for event in diagnosis.evidence.events {
                    println!("    {} {} (×{}): {}", event.time, event.reason, event.count, event.message);
                }
            }
            Ok(false)
        }
        WaitOutcome::Superseded { by } => {
            println!("{target}: revision {} was launched meanwhile", by.short());
            Ok(false)
        }
        WaitOutcome::Gone => {
            println!("{target}: was deleted meanwhile");
            Ok(false)
        }
        other => {
            println!("{target}: not healthy within {timeout} s: {other:?}");
            Ok(false)
        }
    }
}

async fn delete(s: &dyn Scheduler, workload: &CheckedWorkload, guard: Guard, timeout: u64) -> Result<bool, Refusal> {
    let target = workload.target();
    match s.delete(Delete::new(target.clone()).guard(guard)).await? {
        Deleted::WasAbsent => println!("{target}: was not there"),
        Deleted::Gone => println!("{target}: gone"),
        Deleted::Deleting { remaining, .. } => {
            println!("{target}: deleting, {} left", remaining.len());
            let options = WaitOptions::default().total(Duration::from_secs(timeout));
            if s.delete_and_wait(Delete::new(target.clone()), &options).await? != WaitOutcome::Gone {
                println!("{target}: not gone within {timeout} s");
                return Ok(false);
            }
            println!("{target}: gone");
        }
        other => println!("{target}: {other:?}"),
    }
    Ok(true)
}

async fn status(s: &dyn Scheduler, workload: &CheckedWorkload) -> Result<bool, Refusal> {
    let target = workload.target();
    let Some(seen) = s.status(Status::new(target.clone(), Detail::Evidence)).await?.0 else {
        println!("{target}: not there");
        return Ok(false);
    };
    let as_file = seen.revision.as_ref() == Some(workload.revision());
    let revision = if as_file { "as in the file" } else { "not what is in the file" };
    println!("{target}: {}, {revision}", seen.verdict());
    println!("  {}", counts(&seen));
    for i in &seen.instances {
        let node = i.node.as_deref().unwrap_or("no node");
        println!("  {} on {node}: {:?}, {} restarts", i.id, i.state, i.restarts);
    }
    seen.diagnoses.iter().for_each(|diagnosis| println!("  {diagnosis}"));
    Ok(true)
}

fn counts(seen: &Observation) -> String {
    let c = seen.counts;
    if seen.kind == KindName::Job {
        return format!("{} of {} completed, {} failed, {} running", c.succeeded, c.desired, c.failed, c.live);
    }
    format!("{} desired, {} updated, {} ready, {} available, {} old", c.desired, c.updated, c.ready, c.available, c.old)
}

/// A bar on a terminal, a line for each change elsewhere.
struct Progress {
    bar: Option<ProgressBar>,
    last: String,
}

impl Progress {
    fn new() -> Self {
        let bar = std::io::stdout().is_terminal().then(|| {
            let style = ProgressStyle::with_template("  [{bar:30}] {pos}/{len} ready, {msg} ({elapsed})");
            ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self { bar, last: String::new() }
    }

    fn show(&mut self, seen: &Observation) {
        match &self.bar {
            Some(bar) => {
                bar.set_length(seen.counts.desired.into());
                bar.set_position(seen.counts.ready.into());
                bar.set_message(seen.verdict().to_string());
            }
            None => {
                let line = format!("  {}: {}", counts(seen), seen.verdict());
                if line != self.last {
                    println!("{line}");
                    self.last = line;
                }
            }
        }
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn read(path: &Path) -> Result<String, Refusal> {
    std::fs::read_to_string(path).map_err(|error| Refusal(format!("{}: {error}", path.display())))
}

/// Reads a workload. A fault of shape is told with line and column, a fault of values with the path of each field.
fn read_workload(path: &Path) -> Result<CheckedWorkload, Refusal> {
    let text = read(path)?;
    let workload: Workload =
        serde_saphyr::from_str(&text).map_err(|error| Refusal(format!("{}: {error}", path.display())))?;
    workload.check().map_err(|faults| Refusal(format!("{}: {faults}", path.display())))
}

/// Reads the data centres.
fn read_config(path: &Path) -> Result<Value, Refusal> {
    toml::from_str(&read(path)?).map_err(|error| Refusal(format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
    }

    fn refused(text: &str) -> String {
        let path = std::env::temp_dir().join(format!("workload-{}-{}.yaml", std::process::id(), text.len()));
        std::fs::write(&path, text).unwrap();
        let refusal = read_workload(&path).err().map(|Refusal(reason)| reason);
        std::fs::remove_file(&path).unwrap();
        refusal.unwrap()
    }

    #[test]
    fn the_workload_files_have_no_fault() {
        for (name, target) in [
            ("web", "shop/web"),
            ("broken", "shop/web"),
            ("migrate", "shop/migrate"),
            ("nightly", "shop/nightly"),
            ("agent", "shop/agent"),
            ("database", "shop/database"),
        ] {
            let workload = read_workload(&file(&format!("workloads/{name}.yaml")));
            assert!(workload.is_ok_and(|read| read.target().to_string() == target), "{name}");
        }
    }

    #[test]
    fn an_unknown_field_is_told_with_line_and_column() {
        let reason = refused("namespace: shop\nname: web\ncontainers:\n  - name: web\n    imago: web:1\n");
        assert!(reason.contains("line 5 column 5") && reason.contains("imago"), "{reason}");
    }

    #[test]
    fn a_wrong_value_is_told_with_its_path() {
        let reason = refused("namespace: shop\nname: web\ncontainers:\n  - name: web\n    image: ''\n");
        assert!(reason.contains("containers[0].image"), "{reason}");
    }
}
