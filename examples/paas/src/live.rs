//! Tells the feed what happens: to the models, to their events and deploys, and to the workloads on the backend.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::{BoxStream, once};
use lifecycle_hooks::deliver::{Delivery, DeliveryEnd, DeliveryObserver};
use lifecycle_hooks::outbox::OutboxError;
use lifecycle_hooks::pipeline::{DeployObserver, DeployProgress};
use scheduler_core::hooks::{AppName, HookName, Outcome};
use scheduler_core::{Result, Target, Watch, WatchItem};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::feed::GONE;
use crate::platform::Platform;
use crate::view::WorkloadView;

/// After so long a watch that ended for good is opened again.
const REOPEN: Duration = Duration::from_secs(5);

/// Something that a follower of an app wants to hear of.
#[derive(Debug)]
pub enum Notice {
    /// The app's model, its deploy or its events are not as they were.
    Changed(AppName),
    /// Anything else, by its name in the feed.
    Happened(AppName, &'static str, Value),
}

/// Where things are said that the feed is to tell. Nobody waits here.
#[derive(Clone, Debug)]
pub struct Notices(pub UnboundedSender<Notice>);

impl Notices {
    pub fn changed(&self, app: &AppName) {
        self.send(Notice::Changed(app.clone()));
    }

    pub fn happened(&self, app: &AppName, event: &'static str, data: Value) {
        self.send(Notice::Happened(app.clone(), event, data));
    }

    fn send(&self, notice: Notice) {
        // Nobody listens any more only at the very end.
        let _ = self.0.send(notice);
    }
}

impl DeliveryObserver for Notices {
    fn delivered(&self, delivery: &Delivery) {
        let Delivery { app, event, hook, attempt, told, .. } = delivery;
        // That all is well is told every few seconds, and is no news.
        if *hook != Some(HookName::Other) || told.verdict() != Ok(Outcome::AlreadyInState) {
            let end = match &delivery.end {
                DeliveryEnd::Done => "done",
                DeliveryEnd::PutOff { error: None, .. } => "goes on",
                DeliveryEnd::PutOff { .. } => "tried again soon",
                DeliveryEnd::Parked { .. } => "parked",
                _ => "lost",
            };
            let data =
                json!({ "app": app, "event": event, "hook": hook, "attempt": attempt, "end": end, "sets": told.sets });
            self.happened(app, "told", data);
        }
        self.changed(app);
    }

    fn outbox_failed(&self, call: &'static str, error: &OutboxError) {
        eprintln!("{call}: {error}; it is tried again");
    }
}

impl DeployObserver for Notices {
    fn saw(&self, progress: &DeployProgress<'_>) {
        match progress {
            DeployProgress::Stage { record, report } => {
                let mut data = json!(report);
                data["app"] = json!(record.app());
                data["release"] = json!(record.version());
                self.happened(record.app(), "stage", data);
                self.changed(record.app());
            }
            DeployProgress::Ended(record) => self.changed(record.app()),
            // The backend's watch shows them, also when nothing is deployed.
            _ => {}
        }
    }
}

type Changes = BoxStream<'static, Result<WatchItem>>;

/// Tells the feed, as long as it is polled.
pub async fn tell(platform: &Platform, mut notices: UnboundedReceiver<Notice>) {
    let mut shown = BTreeMap::new();
    let open = || -> Changes { platform.scheduler.watch(Watch::default()) };
    let mut changes = open();
    loop {
        tokio::select! {
            Some(notice) = notices.recv() => publish(platform, notice).await,
            item = changes.next() => match item {
                Some(Ok(item)) => see(platform, &mut shown, item),
                Some(Err(error)) => eprintln!("watching {}: {error}", platform.backend()),
                None => {
                    let again = open();
                    changes = once(tokio::time::sleep(REOPEN)).flat_map(|()| futures_util::stream::empty()).chain(again).boxed();
                }
            },
        }
    }
}

async fn publish(platform: &Platform, notice: Notice) {
    match notice {
        Notice::Happened(app, event, data) => platform.feed.publish(&app, event, &data),
        Notice::Changed(app) => match platform.find(&app).await {
            Ok(Some(view)) => platform.feed.publish(&app, "app", &view),
            Ok(None) => platform.feed.publish(&app, GONE, &json!({ "app": app })),
            Err(refusal) => eprintln!("{app}: {}", refusal.message),
        },
    }
}

/// Takes in what the backend says, and tells what looks different from what was told last.
fn see(platform: &Platform, shown: &mut BTreeMap<Target, WorkloadView>, item: WatchItem) {
    let picture: BTreeMap<_, _> = platform.picture(|picture| {
        picture.apply(item);
        picture.iter().filter_map(|seen| Some((seen.target.clone(), WorkloadView::new(seen)?))).collect()
    });
    let app = |view: &WorkloadView| AppName::new(view.app.as_str()).ok();
    for (target, view) in &picture {
        if let Some(app) = app(view).filter(|_| shown.get(target) != Some(view)) {
            platform.feed.publish(&app, "workload", view);
        }
    }
    for (target, view) in shown.iter() {
        if let Some(app) = app(view).filter(|_| !picture.contains_key(target)) {
            platform.feed.publish(&app, "workload_gone", &json!({ "app": app, "name": target.name }));
        }
    }
    *shown = picture;
}
