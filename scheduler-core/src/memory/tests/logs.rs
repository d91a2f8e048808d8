//! What containers write, in time.

use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::time::timeout;

use super::{Fate, MemoryScheduler, Node, image, launch, look, on, pass, plain, target};
use crate::{Container, ErrorKind, LogItem, Logs, Missing, Role, Scheduler as _, Timestamp, Workload};

fn text(item: LogItem) -> String {
    match item {
        LogItem::Line(line) => line.text,
        LogItem::Gap { why, .. } => format!("gap: {why}"),
    }
}

/// All that a stream tells within an hour.
async fn read(scheduler: &MemoryScheduler, op: Logs) -> Vec<String> {
    let mut stream = scheduler.logs(op);
    let mut told = Vec::new();
    while let Ok(Some(item)) = timeout(Duration::from_secs(3600), stream.next()).await {
        told.push(text(item.unwrap()));
    }
    told
}

/// A container that runs for 1.2 s and is started again: at 1.05, 3.25, 6.45 … s.
fn crashing() -> Workload {
    image(&Fate::Crash { after: 1, exit_code: 1 }.image("1"))
}

#[tokio::test(start_paused = true)]
async fn what_was_written_so_far_is_told_once() {
    let (cluster, scheduler) = plain();
    launch(&scheduler, crashing()).await;
    let all = || Logs::new(target());
    assert_eq!(read(&scheduler, all()).await, [""; 0]);
    pass(1_600).await;
    assert_eq!(read(&scheduler, all()).await, ["start 0", "tick 0", "tick 1"]);
    // It ended after 2.05 s, and started again after 3.05 s.
    pass(2_000).await;
    assert_eq!(read(&scheduler, all()).await, ["start 1", "tick 0", "tick 1"]);
    assert_eq!(read(&scheduler, all().tail(1)).await, ["tick 1"]);
    assert_eq!(read(&scheduler, all().previous()).await, ["start 0", "tick 0", "tick 1", "end"]);
    let now = cluster.shared.world().now;
    let since = |ago: i64| Timestamp::from_millis(now.millis() - ago);
    assert_eq!(read(&scheduler, all().since(since(50))).await, ["tick 1"]);
    assert_eq!(read(&scheduler, all().since(since(49))).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_follower_goes_on_over_restarts_and_to_instances_that_come_later() {
    let (_, scheduler) = plain();
    launch(&scheduler, crashing()).await;
    pass(1_600).await;
    let mut stream = scheduler.logs(Logs::new(target()).follow());
    let mut told = Vec::new();
    for _ in 0..9 {
        told.push(text(stream.next().await.unwrap().unwrap()));
    }
    assert_eq!(told, ["start 0", "tick 0", "tick 1", "end", "start 1", "tick 0", "tick 1", "end", "start 2"]);

    let (_, scheduler) = plain();
    launch(&scheduler, image("web:1").replicas(0)).await;
    let mut stream = scheduler.logs(Logs::new(target()).follow());
    launch(&scheduler, image("web:1").replicas(2)).await;
    let (mut instances, mut times) = (Vec::new(), Vec::new());
    for _ in 0..6 {
        let LogItem::Line(line) = stream.next().await.unwrap().unwrap() else { panic!("a gap") };
        instances.push(line.instance);
        times.push(line.time.unwrap().millis() - 946_684_800_000);
    }
    // Interleaved as they come.
    assert_eq!(times, [1_050, 1_050, 1_050, 1_050, 1_550, 1_550]);
    assert_ne!(instances[4], instances[5]);
}

#[tokio::test(start_paused = true)]
async fn following_ends_with_the_job_or_with_the_workload() {
    let (_, scheduler) = plain();
    let job = Workload::job("shop", "web").container(Container::new("main", "sim/done/after-1/exit-3:1"));
    launch(&scheduler, job.with_job(|job| job.retries = 1)).await;
    let one = ["start 0", "tick 0", "tick 1", "end"];
    assert_eq!(read(&scheduler, Logs::new(target()).follow()).await, [one, one].concat());

    let (_, scheduler) = plain();
    launch(&scheduler, image("web:1")).await;
    let delete = async {
        pass(1_600).await;
        scheduler.delete(crate::Delete::new(target())).await.unwrap();
    };
    let (told, ()) = tokio::join!(read(&scheduler, Logs::new(target()).follow()), delete);
    assert_eq!(told, ["start 0", "tick 0", "tick 1"]);
}

#[tokio::test(start_paused = true)]
async fn runs_that_nobody_read_are_a_gap() {
    let (_, scheduler) = plain();
    launch(&scheduler, crashing()).await;
    pass(1_600).await;
    let mut stream = scheduler.logs(Logs::new(target()).follow());
    for wanted in ["start 0", "tick 0", "tick 1"] {
        assert_eq!(text(stream.next().await.unwrap().unwrap()), wanted);
    }
    // Runs 0 to 3 are over after 12.05 s.
    pass(11_000).await;
    assert!(text(stream.next().await.unwrap().unwrap()).starts_with("gap: a run"));
    assert_eq!(text(stream.next().await.unwrap().unwrap()), "start 2");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_had_is_told() {
    let node = Node::new("n1");
    let (cluster, scheduler) = on(super::MemoryCluster::builder().namespace("shop").node(node).build());
    let sidecar = Container::new("side", "side:1").role(Role::Sidecar);
    launch(&scheduler, image("web:1").container(sidecar)).await;
    pass(2_600).await;
    let of = |container: &str| Logs::new(target()).container(container).tail(1);
    assert_eq!(read(&scheduler, of("side")).await, ["tick 3"]);
    assert_eq!(read(&scheduler, of("main")).await, ["tick 1"]);
    let refused = async |op: Logs| scheduler.logs(op).next().await.unwrap().unwrap_err().kind().clone();
    assert_eq!(refused(of("other")).await, ErrorKind::InvalidArgument);
    assert_eq!(refused(Logs::new(target()).instance("other")).await, ErrorKind::NotFound(Missing::Instance));
    let id = look(&scheduler).await.instances[0].id.clone();
    assert_eq!(read(&scheduler, Logs::new(target()).instance(id).tail(1)).await, ["tick 1"]);
    assert!(cluster.fail_node("n1"));
    assert_eq!(read(&scheduler, Logs::new(target())).await, ["gap: node n1 does not answer"]);
    let absent = crate::Target::new("shop", "other").unwrap();
    assert_eq!(read(&scheduler, Logs::new(absent).follow()).await, [""; 0]);
}
