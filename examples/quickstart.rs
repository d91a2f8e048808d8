//! A workload in memory, from its launch to its end: `cargo run --example quickstart`.
//!
//! Nothing has to be installed or set up. The in-memory scheduler lives in this process and on its clock.

use std::error::Error;
use std::time::Duration;

use scheduler_core::memory::{Fate, MemoryCluster, MemoryScheduler};
use scheduler_core::{
    CheckedWorkload, Container, Delete, Faults, Launch, OwnerId, Probe, Scheduler, SchedulerExt, WaitOptions,
    WaitOutcome, Workload,
};

/// The web shop, with an image of our choice.
fn web(image: &str) -> Result<CheckedWorkload, Faults> {
    let container = Container::new("web", image)
        .port("http", 8080)
        .memory("64Mi", "128Mi")
        .readiness(Probe::http("http", "/healthz"));
    // A patience of three seconds: this is a demonstration.
    Workload::service("shop", "web").replicas(3).progress_deadline(3).container(container).check()
}

/// Launches and shows the rollout as it goes.
async fn roll_out(scheduler: &MemoryScheduler, image: &str) -> Result<(), Box<dyn Error>> {
    println!("\nlaunch {image}");
    let workload = web(image)?;
    let target = workload.target().clone();
    let launched = scheduler.launch(Launch::new(workload)).await?;
    println!("  {}, revision {}", launched.change, launched.revision.short());

    let options = WaitOptions::default().revision(launched.revision).total(Duration::from_secs(30));
    let mut last = String::new();
    let outcome = scheduler
        .wait_observed(&target, &options, &mut |seen| {
            let c = seen.counts;
            let line = format!("{} of {} ready, {} old: {}", c.ready, c.desired, c.old, seen.verdict());
            if line != last {
                println!("  {line}");
                last = line;
            }
        })
        .await?;
    match outcome {
        WaitOutcome::Succeeded => println!("  succeeded"),
        WaitOutcome::Failed(diagnoses) => {
            println!("  failed, since:");
            diagnoses.iter().for_each(|diagnosis| println!("    {diagnosis}"));
        }
        other => println!("  ended as {other:?}"),
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let cluster = MemoryCluster::builder().namespace("shop").build();
    let scheduler = cluster.scheduler(OwnerId::new("quickstart")?);

    roll_out(&scheduler, "shop/web:1").await?;
    // An image that cannot be pulled: what serves goes on serving, and the diagnosis says what is wrong.
    roll_out(&scheduler, &Fate::PullError.image("2")).await?;
    roll_out(&scheduler, "shop/web:3").await?;

    println!("\ndelete");
    let target = web("shop/web:3")?.target().clone();
    println!("  {:?}", scheduler.delete(Delete::new(target.clone())).await?);
    println!("  {:?}", scheduler.wait_gone(&target, &WaitOptions::default()).await?);
    Ok(())
}
