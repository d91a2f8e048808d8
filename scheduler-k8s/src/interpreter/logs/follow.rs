//! Following a workload: over restarts, to instances that come later, until it is gone or its job has ended.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::SystemTime;

use futures_util::stream::{self, BoxStream, SelectAll, StreamExt as _};
use scheduler_core::{LogItem, Logs, Result, Retry};
use scheduler_k8s_client as client;
use scheduler_k8s_client::{ErrorKind as ClientErrorKind, Missing, Resource, WatchEvent, WatchOptions};
use serde_json::Value;
use tokio::time::sleep;

use super::source::{Next, Source};
use super::{Items, pause, since};
use crate::error::translate;
use crate::interpreter::KubernetesScheduler;
use crate::interpreter::find::Main;
use crate::interpreter::read::{parts, selector};
use crate::interpreter::steer::is_instance;
use crate::kind::MainKind;
use crate::observe;

/// Follows these containers and those of Pods that come later.
///
/// One stream without a task: the watches of the main object and of the Pods, and the logs that are open, are polled
/// together. A log that ends proves nothing, so the Pod is read each time to see what its end means.
pub(super) fn follow(scheduler: KubernetesScheduler, op: Logs, main: Main, sources: Vec<Source>) -> Items {
    let namespace = Some(op.target.namespace.as_str());
    let pods = WatchOptions::new().label_selector(selector(&scheduler.owner, &op.target, &main));
    let pods = scheduler.client.reads().watch(&Resource::POD, namespace, pods).map(Event::Pods).boxed();
    let itself = WatchOptions::new().field_selector(format!("metadata.name={}", op.target.name));
    let itself = scheduler.client.reads().watch(main.kind.resource(), namespace, itself).map(Event::Main).boxed();
    let mut follower = Follower {
        events: stream::select_all([pods, itself]),
        sources: BTreeMap::new(),
        unknown: BTreeMap::new(),
        left: BTreeSet::new(),
        out: VecDeque::new(),
        closing: Closing::No,
        over: false,
        scheduler,
        op,
        main,
    };
    for source in sources {
        follower.add(source);
    }
    stream::unfold(follower, |mut follower| async { follower.next().await.map(|item| (item, follower)) }).boxed()
}

enum Event {
    Main(Result<WatchEvent, client::Error>),
    Pods(Result<WatchEvent, client::Error>),
    /// Whether a Pod that is new to us is an instance, by its uid.
    Judged(String, Result<bool>),
    /// A line of a container, by the Pod's uid; and when the last line before this request was written.
    Line(String, client::LogLine, Option<SystemTime>),
    /// The answer for a container is over.
    Ended(String, Asked, Option<client::Error>),
    /// The Pod as it is after that.
    Looked(String, Result<Option<Value>>),
    /// All instances, after the workload has ended.
    Last(Result<Vec<Source>>),
}

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Follow,
    Rest,
}

/// How near the end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    No,
    /// The workload has ended, and it is being looked which instances it had.
    Looking,
    /// When what is open has been read, it is over.
    Draining,
}

struct Follower {
    scheduler: KubernetesScheduler,
    op: Logs,
    main: Main,
    events: SelectAll<BoxStream<'static, Event>>,
    /// By the Pod's uid.
    sources: BTreeMap<String, Source>,
    /// Pods of which it is not known yet whether they are instances, as they were seen last.
    unknown: BTreeMap<String, Value>,
    /// Pods that are none of ours, or have been read to their end.
    left: BTreeSet<String>,
    out: VecDeque<Result<LogItem>>,
    closing: Closing,
    over: bool,
}

impl Follower {
    async fn next(&mut self) -> Option<Result<LogItem>> {
        loop {
            if let Some(item) = self.out.pop_front() {
                self.over |= item.as_ref().is_err_and(|error| error.retry() == Retry::Never);
                return Some(item);
            }
            let one_is_read = self.op.instance.is_some() || self.closing == Closing::Draining;
            if self.over || (one_is_read && self.sources.is_empty()) {
                return None;
            }
            let event = self.events.next().await?;
            self.take(event);
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Main(Ok(event)) => self.main_event(event),
            Event::Pods(Ok(event)) => self.pod_event(event),
            Event::Main(Err(error)) | Event::Pods(Err(error)) => self.out.push_back(Err(translate(&error))),
            Event::Judged(uid, judged) => self.judged(uid, judged),
            Event::Line(uid, line, after) => {
                let since = since(&self.op);
                let Some(source) = self.sources.get_mut(&uid) else { return };
                source.last = line.at.or(source.last);
                (source.begun, source.failures) = (true, 0);
                self.out.extend(source.item(line, since, after).map(Ok));
            }
            Event::Ended(uid, asked, error) => self.ended(uid, asked, error),
            Event::Looked(uid, found) => self.looked(uid, found),
            Event::Last(Ok(sources)) => {
                self.closing = Closing::Draining;
                for source in sources {
                    if self.sources.contains_key(&source.uid) || self.left.contains(&source.uid) {
                        self.see(&source.uid.clone(), source.seen);
                    } else {
                        self.add(Source { run: 0, ..source });
                    }
                }
            }
            Event::Last(Err(error)) => {
                self.out.push_back(Err(error));
                self.close();
            }
        }
    }

    fn main_event(&mut self, event: WatchEvent) {
        let uid = self.main.uid();
        let ended = match event {
            WatchEvent::Listed { objects, .. } => {
                match objects.iter().find(|object| observe::uid_of(object) == Some(uid)) {
                    Some(main) => self.has_finished(main),
                    None => true,
                }
            }
            WatchEvent::Applied(main) => observe::uid_of(&main) == Some(uid) && self.has_finished(&main),
            WatchEvent::Deleted(main) => observe::uid_of(&main) == Some(uid),
            _ => false,
        };
        if ended && self.closing == Closing::No {
            self.close();
        }
    }

    fn has_finished(&self, main: &Value) -> bool {
        self.main.kind == MainKind::Job && observe::finished(main).is_some()
    }

    /// Looks which instances there are now, so that one that came and went at the very end is not missed.
    fn close(&mut self) {
        let failed = self.closing != Closing::No;
        self.closing = Closing::Looking;
        let (scheduler, op, main) = (self.scheduler.clone(), self.op.clone(), self.main.clone());
        self.push(async move {
            sleep(pause(u32::from(failed) * 3)).await;
            let found = parts(&scheduler, &op.target, &main, false).await;
            Event::Last(found.map(|parts| super::sources(&op, &main, &parts).unwrap_or_default()))
        });
    }

    fn pod_event(&mut self, event: WatchEvent) {
        match event {
            WatchEvent::Listed { objects, .. } => {
                let there: BTreeSet<&str> = objects.iter().filter_map(observe::uid_of).collect();
                let gone: Vec<String> =
                    self.sources.keys().filter(|uid| !there.contains(uid.as_str())).cloned().collect();
                self.unknown.retain(|uid, _| there.contains(uid.as_str()));
                for uid in gone {
                    self.see(&uid, None);
                }
                for pod in objects {
                    self.applied(pod);
                }
            }
            WatchEvent::Applied(pod) => self.applied(pod),
            WatchEvent::Deleted(pod) => {
                if let Some(uid) = observe::uid_of(&pod) {
                    self.unknown.remove(uid);
                    self.see(uid, None);
                }
            }
            _ => {}
        }
    }

    fn applied(&mut self, pod: Value) {
        let Some(uid) = observe::uid_of(&pod).map(str::to_owned) else { return };
        if self.sources.contains_key(&uid) {
            self.see(&uid, Some(pod));
            return;
        }
        let wanted = self.op.instance.as_ref().is_none_or(|id| *id == observe::instance_id(self.main.kind, &pod));
        if !wanted || self.left.contains(&uid) {
            return;
        }
        if self.unknown.insert(uid.clone(), pod.clone()).is_none() {
            self.judge(uid, pod, 0);
        }
    }

    fn judge(&mut self, uid: String, pod: Value, failures: u32) {
        let (scheduler, main) = (self.scheduler.clone(), self.main.clone());
        let namespace = self.op.target.namespace.to_string();
        self.push(async move {
            sleep(pause(failures)).await;
            let judged = is_instance(&scheduler, &main, &pod, &namespace).await;
            Event::Judged(uid, judged)
        });
    }

    fn judged(&mut self, uid: String, judged: Result<bool>) {
        match (judged, self.unknown.remove(&uid)) {
            (Ok(true), Some(pod)) => self.add(Source::from_the_start(&self.op, self.main.kind, &pod)),
            (Ok(false), _) => {
                self.left.insert(uid);
            }
            // It is gone by now.
            (_, None) => {}
            (Err(error), Some(pod)) => {
                if error.retry() != Retry::Never {
                    self.unknown.insert(uid.clone(), pod.clone());
                    self.judge(uid, pod, 3);
                }
                self.out.push_back(Err(error));
            }
        }
    }

    fn add(&mut self, source: Source) {
        let uid = source.uid.clone();
        if self.left.contains(&uid) {
            return;
        }
        self.sources.entry(uid.clone()).or_insert(source);
        self.advance(&uid);
    }

    /// Takes in how a Pod is now.
    fn see(&mut self, uid: &str, pod: Option<Value>) {
        if let Some(source) = self.sources.get_mut(uid) {
            source.seen = pod;
            self.advance(uid);
        }
    }

    /// Asks for what is to be read next of a container, unless that is under way.
    fn advance(&mut self, uid: &str) {
        let Some(source) = self.sources.get_mut(uid).filter(|source| !source.reading) else { return };
        let mut next = source.next();
        if let Next::Missed(run) = next {
            self.out.push_back(Ok(source.gap(format!("runs {} to {} were over too soon", source.run, run - 1))));
            source.run = run;
            source.last = None;
            next = source.next();
        }
        let (asked, previous) = match next {
            Next::Follow => (Asked::Follow, false),
            Next::Rest { previous } => (Asked::Rest, previous),
            Next::Wait | Next::Missed(_) => return,
            Next::Done => {
                self.sources.remove(uid);
                self.left.insert(uid.to_owned());
                return;
            }
        };
        let Some(mut options) = source.options(&self.op, previous) else { return };
        if asked == Asked::Follow {
            options = options.follow();
        }
        source.reading = true;
        let (delay, after) = (pause(source.failures), source.last);
        let (client, pod, uid) = (self.scheduler.client.reads().clone(), source.pod.clone(), uid.to_owned());
        let namespace = self.op.target.namespace.to_string();
        let opened = async move {
            sleep(delay).await;
            match client.logs(&namespace, &pod, &options).await {
                Err(error) => stream::iter([Event::Ended(uid, asked, Some(error))]).boxed(),
                Ok(lines) => stream::unfold(Some(lines), move |lines| {
                    let uid = uid.clone();
                    async move {
                        let mut lines = lines?;
                        Some(match lines.next().await {
                            Some(Ok(line)) => (Event::Line(uid, line, after), Some(lines)),
                            Some(Err(error)) => (Event::Ended(uid, asked, Some(error)), None),
                            None => (Event::Ended(uid, asked, None), None),
                        })
                    }
                })
                .boxed(),
            }
        };
        self.events.push(stream::once(opened).flatten().boxed());
    }

    fn ended(&mut self, uid: String, asked: Asked, error: Option<client::Error>) {
        let Some(source) = self.sources.get_mut(&uid).filter(|source| source.reading) else { return };
        source.reading = false;
        match error {
            None if asked == Asked::Rest => {
                source.finish_run();
                self.advance(&uid);
                return;
            }
            // A log that is cut again and again is not asked for without a pause.
            None => source.failures += 1,
            Some(error) => {
                source.failures += 1;
                let translated = translate(&error);
                match error.kind() {
                    ClientErrorKind::NotFound(Missing::Object) => {
                        self.out.push_back(Ok(source.gap("the instance is gone before it was read to its end".into())));
                        self.sources.remove(&uid);
                        self.left.insert(uid);
                        return;
                    }
                    // The node has it no more.
                    ClientErrorKind::NotFound(_) | ClientErrorKind::BadRequest if asked == Asked::Rest => {
                        self.out.push_back(Ok(source.gap(translated.message().to_owned())));
                        source.finish_run();
                        self.advance(&uid);
                        return;
                    }
                    // It runs, and its node does not know it yet.
                    ClientErrorKind::NotFound(_) | ClientErrorKind::BadRequest => {}
                    // It is said once, and asked again until it can be had or the Pod is gone.
                    _ if source.failures == 1 => self.out.push_back(super::refused(source, translated)),
                    _ => {}
                }
            }
        }
        // Nothing is asked for until it is known what became of the Pod.
        source.reading = true;
        let delay = pause(source.failures.saturating_sub(1));
        let (client, pod) = (self.scheduler.client.reads().clone(), source.pod.clone());
        let namespace = self.op.target.namespace.to_string();
        self.push(async move {
            sleep(delay).await;
            let found: Result<Option<Value>, client::Error> = client.get(&Resource::POD, Some(&namespace), &pod).await;
            let found = found.map_err(|error| translate(&error));
            Event::Looked(uid, found)
        });
    }

    fn looked(&mut self, uid: String, found: Result<Option<Value>>) {
        let Some(source) = self.sources.get_mut(&uid) else { return };
        source.reading = false;
        match found {
            Ok(pod) => {
                // One of the same name that came after it is another one.
                let same = pod.filter(|pod| observe::uid_of(pod) == Some(uid.as_str()));
                self.see(&uid, same);
            }
            Err(error) => {
                self.out.push_back(Err(error));
                source.failures += 1;
                self.advance(&uid);
            }
        }
    }

    fn push(&mut self, event: impl Future<Output = Event> + Send + 'static) {
        self.events.push(stream::once(event).boxed());
    }
}
