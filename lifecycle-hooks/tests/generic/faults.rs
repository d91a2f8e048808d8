//! Requests that fail, answers that are lost, and hooks that are dropped: the next telling does the rest.

use std::collections::BTreeMap;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use scheduler_core::hooks::{App, Domain, EventKind, Front, OneOff, Outcome};
use scheduler_core::memory::{Fate, RequestFault};
use scheduler_core::{Container, RunKey, Workload};
use tokio::time::sleep;

use crate::{World, shop};

/// What is told, of which app, in a world in which the other app's release runs, unless there is none.
fn told() -> Vec<(EventKind, App, Option<App>)> {
    let changed = |change: fn(&mut App)| {
        let mut app = shop();
        change(&mut app);
        app
    };
    let second = changed(|app| {
        let release = app.release.as_mut().unwrap();
        release.version = 2;
        release.processes[0].containers[0].image = Fate::Run.image("2");
    });
    let done = Container::new("main", Fate::Done { after: 1, exit_code: 0 }.image("1"));
    let run = OneOff::new(RunKey::new("first").unwrap(), Workload::job("", "migrate").container(done));
    vec![
        (EventKind::AppCreated, shop(), None),
        (EventKind::ReleaseCreated, second, Some(shop())),
        (
            EventKind::ConfigChanged,
            changed(|app| drop(app.config.insert("MORE".into(), app.config["TOKEN"].clone()))),
            Some(shop()),
        ),
        (
            EventKind::FormationChanged { from: BTreeMap::new() },
            changed(|app| app.formation = BTreeMap::from([("web".parse().unwrap(), 4), ("api".parse().unwrap(), 3)])),
            Some(shop()),
        ),
        (
            EventKind::DomainAdded(Domain::new("b.example")),
            changed(|app| app.domains.push(Domain::new("b.example"))),
            Some(shop()),
        ),
        (EventKind::DomainRemoved(Domain::new("shop.example")), changed(|app| app.domains.clear()), Some(shop())),
        (
            EventKind::FrontChanged,
            changed(|app| app.front = Some(Front::new("api".parse().unwrap(), "http"))),
            Some(shop()),
        ),
        (EventKind::RunRequested(Box::new(run)), shop(), Some(shop())),
        (EventKind::AppDestroyed, shop(), Some(shop())),
    ]
}

async fn begun(before: Option<&App>) -> World {
    match before {
        Some(app) => World::with(app).await,
        None => World::new(),
    }
}

/// Tells it until it is done, as an outbox does.
async fn insist(world: &World, kind: &EventKind, app: &App) {
    for _ in 0..50 {
        match world.tell(kind.clone(), app).await {
            Ok(Outcome::Deferred { after, .. }) => sleep(after).await,
            Ok(_) => return,
            Err(error) if error.retry => sleep(Duration::from_secs(2)).await,
            Err(error) => panic!("{kind:?}: {error}"),
        }
    }
    panic!("{kind:?} never ends");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_fails_is_made_good_by_telling_again() {
    for (kind, app, before) in told() {
        let world = begun(before.as_ref()).await;
        insist(&world, &kind, &app).await;
        let expected = world.state(&app).await;
        for fault in [RequestFault::Fail, RequestFault::Refuse, RequestFault::Reset, RequestFault::LoseAnswer] {
            for nth in 1.. {
                let world = begun(before.as_ref()).await;
                world.cluster.inject(nth, fault);
                insist(&world, &kind, &app).await;
                let met = world.cluster.injected();
                world.cluster.inject(u32::MAX, fault);
                assert_eq!(world.state(&app).await, expected, "{kind:?}, request {nth} met {fault:?}");
                if !met {
                    assert!(nth > 1, "{kind:?} makes no request");
                    break;
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_is_dropped_is_completed_by_telling_again() {
    for (kind, app, before) in told() {
        let world = begun(before.as_ref()).await;
        insist(&world, &kind, &app).await;
        let expected = world.state(&app).await;
        for polls in 1.. {
            let world = begun(before.as_ref()).await;
            let ended = {
                let (mut hook, mut left) = (pin!(world.tell(kind.clone(), &app)), polls);
                std::future::poll_fn(|context| {
                    if left == 0 {
                        return Poll::Ready(false);
                    }
                    left -= 1;
                    hook.as_mut().poll(context).map(|_| true)
                })
                .await
            };
            insist(&world, &kind, &app).await;
            assert_eq!(world.state(&app).await, expected, "{kind:?}, dropped after {polls} polls");
            if ended {
                break;
            }
        }
    }
}
