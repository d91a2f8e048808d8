//! A thousand changes of domains by ten tasks: in the end the routes are what the models have.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lifecycle_hooks::deliver::{HookSets, Recorded, Recorder, Worker, WorkerOptions};
use lifecycle_hooks::generic::SchedulerHooks;
use lifecycle_hooks::outbox::MemoryOutbox;
use scheduler_core::hooks::{App, AppName, Domain, EventKind, Front, LifecycleHooks as _, Release};
use scheduler_core::memory::{MemoryCluster, RequestFault};
use scheduler_core::{
    Container, Expose, OwnerId, Route, Scheduler as _, Target, Unexpose, Unexposed, Workload, WorkloadName,
};
use tokio::time::sleep;

use super::{app, event};

const APPS: [&str; 4] = ["bank", "blog", "chat", "shop"];

/// A platform's models, which change with their events or not at all.
#[derive(Debug)]
struct Models {
    outbox: MemoryOutbox,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    apps: BTreeMap<AppName, App>,
    /// The events, in the order of the commits.
    appended: Vec<(AppName, String)>,
}

impl Models {
    /// Adds a domain, or removes it if it is there.
    fn toggle(&self, name: &AppName, host: &str) {
        let mut state = self.state.lock().unwrap();
        let app = state.apps.get_mut(name).unwrap();
        let kind = match app.domains.iter().position(|domain| domain.host == host) {
            Some(at) => EventKind::DomainRemoved(app.domains.remove(at)),
            None => {
                app.domains.push(Domain::new(host));
                EventKind::DomainAdded(Domain::new(host))
            }
        };
        let app = app.clone();
        let id = format!("{}", state.appended.len());
        state.appended.push((name.clone(), id.clone()));
        self.outbox.append(event(id, app, kind)).unwrap();
    }
}

fn released(name: &str) -> App {
    let mut app = app(name);
    let web = Workload::service(name, "web").container(Container::new("web", "shop/web:1").port("http", 8080));
    app.release = Some(Release::new(1, vec![web]));
    app.front = Some(Front::new(WorkloadName::new("web").unwrap(), "http"));
    app
}

#[tokio::test(start_paused = true)]
async fn a_thousand_changes_by_ten_tasks_end_as_the_models_have_it() {
    let cluster = MemoryCluster::builder().build();
    let scheduler = cluster.scheduler(OwnerId::new("platform").unwrap());
    let hooks = SchedulerHooks::new(Arc::new(scheduler.clone()));
    let mut apps = BTreeMap::new();
    for name in APPS {
        let app = released(name);
        hooks.reconcile_app(&app).await.unwrap();
        apps.insert(app.name.clone(), app);
    }
    let models =
        Arc::new(Models { outbox: MemoryOutbox::new(), state: Mutex::new(State { apps, appended: Vec::new() }) });

    let recorder = Recorder::new("recorder");
    let sets = HookSets::new(vec![Arc::new(hooks), Arc::new(recorder.clone())]).unwrap();
    let options = WorkerOptions::default().seed(7).backoff(Duration::from_millis(10), Duration::from_secs(1));
    let worker = Worker::new(Arc::new(models.outbox.clone()), sets).options(options);

    let tasks = (0..10_usize).map(|task| {
        let (models, cluster) = (Arc::clone(&models), cluster.clone());
        tokio::spawn(async move {
            for n in 0..100 {
                let name = AppName::new(APPS[(task * 7 + n * 3) % APPS.len()]).unwrap();
                models.toggle(&name, &format!("h{}.{name}.example", (task + n * n) % 6));
                if n % 10 == task {
                    let fault = [RequestFault::Fail, RequestFault::LoseAnswer, RequestFault::Throttle][n % 3];
                    cluster.inject(u32::try_from(n % 4 + 1).unwrap(), fault);
                }
                sleep(Duration::from_millis(u64::try_from((task * 13 + n * 29) % 40).unwrap())).await;
            }
        })
    });
    let tasks: Vec<_> = tasks.collect();
    worker
        .run(async {
            for task in tasks {
                task.await.unwrap();
            }
        })
        .await;
    worker.run_until_idle().await;
    assert!(super::left(&models.outbox).await.is_empty());

    let State { apps, appended } = std::mem::take(&mut *models.state.lock().unwrap());
    assert_eq!(appended.len(), 1000);
    for (name, app) in &apps {
        let target = Target::new(name.as_str(), "web").unwrap();
        let routes: Vec<_> = app.domains.iter().map(|domain| Route::new(&domain.host, "http")).collect();
        if routes.is_empty() {
            assert_eq!(scheduler.unexpose(Unexpose::new(target)).await.unwrap(), Unexposed::WasAbsent);
        } else {
            // The same routes again write nothing, so that these are the ones that it has.
            assert!(!scheduler.expose(Expose::new(target, routes)).await.unwrap().changed, "{name}");
        }
        let wanted: Vec<_> = appended.iter().filter(|(of, _)| of == name).map(|(_, id)| id.clone()).collect();
        let told = recorder.records().into_iter().filter_map(|record| match record {
            Recorded::Event(event) if event.app.name == *name => Some(event.id.to_string()),
            _ => None,
        });
        // What a set fails is told again to those that were told before it.
        let mut told: Vec<_> = told.collect();
        told.dedup();
        assert_eq!(told, wanted, "{name}: each, in the order of the commits");
    }
}
