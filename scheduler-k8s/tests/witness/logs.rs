//! What containers write, through the API server and the kubelet.

use futures_util::StreamExt as _;
use scheduler_core::{Finished, InstanceState, LogItem, Logs, Rollout, RolloutAction};

use super::operations::{healthy, job, seen, settle};
use super::*;

/// BR-117.
pub(crate) async fn logs_go_on_over_a_restart() {
    let world = World::new().await;
    let mut web = world.workload();
    web.containers[0].image = "sim/crash/after-1:1".into();
    world.launch(web).await;
    settle(&world, &world.target(), "runs", |seen| seen.instances.iter().any(|i| i.state != InstanceState::Pending))
        .await;
    let mut lines = world.scheduler.logs(Logs::new(world.target()).follow());
    let texts = async {
        let mut texts = Vec::new();
        while let Some(item) = lines.next().await {
            match item.unwrap() {
                LogItem::Line(line) => texts.push(line.text),
                other => panic!("{other:?}"),
            }
            if texts.iter().any(|text| text == "start 2") {
                break;
            }
        }
        texts
    };
    let texts = tokio::time::timeout(Duration::from_secs(60), texts).await.unwrap();
    let from = texts.iter().position(|text| text == "start 1").expect("the first restart");
    assert_eq!(texts[from..], ["start 1", "tick 0", "tick 1", "end", "start 2"], "{texts:?}");

    let previous = world.scheduler.logs(Logs::new(world.target()).previous()).collect::<Vec<_>>().await;
    let LogItem::Line(first) = previous[0].as_ref().unwrap() else { panic!("{previous:?}") };
    assert!(first.text.starts_with("start "), "{first:?}");
}

/// It ends with the job, whose instances may come and go before anybody looks.
pub(crate) async fn following_ends_with_the_job() {
    let world = World::new().await;
    world.launch(job(&world, "sim/done/after-2:1").with_job(|job| job.completions = 2)).await;
    let all = world.scheduler.logs(Logs::new(world.target()).follow()).collect::<Vec<_>>();
    let items = tokio::time::timeout(Duration::from_secs(60), all).await.expect("it ends");
    let mut texts: Vec<(String, String)> = Vec::new();
    for item in items {
        match item.unwrap() {
            LogItem::Line(line) => texts.push((line.instance, line.text)),
            other => panic!("{other:?}"),
        }
    }
    let done = seen(&world, &world.target()).await.unwrap();
    assert_eq!(done.finished, Some(Finished::Complete));
    for instance in &done.instances {
        let own: Vec<_> = texts.iter().filter(|(of, _)| *of == instance.id).map(|(_, text)| text.as_str()).collect();
        assert_eq!(own, ["start 0", "tick 0", "tick 1", "tick 2", "tick 3", "end"]);
    }
    let texts: Vec<LogItem> =
        world.scheduler.logs(Logs::new(world.target()).tail(1)).map(Result::unwrap).collect().await;
    assert_eq!(texts.len(), 2, "one line of each: {texts:?}");
}

/// An instance that came later, and one that is unknown.
pub(crate) async fn following_goes_on_to_later_instances() {
    let world = World::new().await;
    world.launch(world.workload()).await;
    let first = settle(&world, &world.target(), "healthy", healthy).await;
    let mut items = world.scheduler.logs(Logs::new(world.target()).follow());
    let begun = tokio::time::timeout(Duration::from_secs(30), items.next()).await.unwrap().unwrap().unwrap();
    assert!(matches!(begun, LogItem::Line(line) if line.instance == first.instances[0].id));
    world.scheduler.rollout(Rollout::new(world.target(), RolloutAction::Restart)).await.unwrap();
    let later = async {
        while let Some(item) = items.next().await {
            match item.unwrap() {
                LogItem::Line(line) if line.instance != first.instances[0].id => return line.text,
                _ => {}
            }
        }
        String::new()
    };
    assert_eq!(tokio::time::timeout(Duration::from_secs(60), later).await.unwrap(), "start 0");
    world.delete_whole().await;
    let rest = tokio::time::timeout(Duration::from_secs(30), items.map(drop).count()).await;
    assert!(rest.is_ok(), "it ends when the workload is gone");

    world.launch(world.workload()).await;
    let unknown = world.scheduler.logs(Logs::new(world.target()).instance("nobody")).next().await.unwrap().unwrap_err();
    assert_eq!(*unknown.kind(), ErrorKind::NotFound(Missing::Instance));
}
