//! `watch`: events say what to look at again; what changed in it is told.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use scheduler_core::{Detail, Error, Filter, Observation, Result, Retry, Target, WatchItem};
use scheduler_nomad_client::{self as client, Event, EventOptions, ListOptions, Query, StreamItem, Topic};
use tokio::time::{Instant, timeout_at};

use super::NomadScheduler;
use super::read::{Look, look, look_at_all};
use crate::error::translate;
use crate::meta::OWNER;

/// How long events are gathered before their workloads are looked at: one write makes several.
const GATHER: Duration = Duration::from_millis(50);
/// The pause before a look that failed is tried again.
const PAUSE: Duration = Duration::from_secs(1);
/// How often workloads are judged again whose counts depend on time alone: instances that become available, starts that
/// take too long.
const RECHECK: Duration = Duration::from_secs(5);
/// How often everything is looked at again. The server tells neither what it collects nor what it forgot to tell.
const RELIST: Duration = Duration::from_secs(60);

/// Follows the event stream, and tells what that means for workloads.
///
/// The stream opens itself again. Each time it does, whatever was missed is found by comparing, and everything is shown
/// anew after a `Resync`. Where there is no stream, the lists of jobs and deployments tell when to look.
pub(super) fn watch(scheduler: NomadScheduler, filter: Filter) -> BoxStream<'static, Result<WatchItem>> {
    // The first poll starts the clock; a stream may be made outside of a runtime.
    let start = async move {
        let watcher = Watcher::new(scheduler, filter);
        stream::unfold(watcher, |mut watcher| async { watcher.next().await.map(|item| (item, watcher)) })
    };
    stream::once(start).flatten().boxed()
}

/// What tells that there is something to look at.
enum Sign {
    /// From now on nothing is missed.
    Opened,
    /// It is about one job.
    Event(Box<Event>),
    /// It is about any.
    Changed,
}

struct Watcher {
    scheduler: NomadScheduler,
    signs: BoxStream<'static, Result<Sign, client::Error>>,
    /// Whether the server has no event stream for us.
    without_events: bool,
    picture: Picture,
    out: VecDeque<Result<WatchItem>>,
    /// What is to be looked at, and when.
    due: BTreeSet<Target>,
    look_at: Instant,
    /// When everything is to be looked at; `None` while the stream is not open.
    list_at: Option<Instant>,
    /// Whether the next list comes after a gap.
    gap: bool,
    judge_at: Instant,
    over: bool,
}

impl Watcher {
    fn new(scheduler: NomadScheduler, filter: Filter) -> Self {
        let now = Instant::now();
        Self {
            signs: events(&scheduler, &filter),
            without_events: false,
            picture: Picture::new(filter),
            scheduler,
            out: VecDeque::new(),
            due: BTreeSet::new(),
            look_at: now,
            list_at: None,
            gap: false,
            judge_at: now + RECHECK,
            over: false,
        }
    }

    async fn next(&mut self) -> Option<Result<WatchItem>> {
        loop {
            if let Some(item) = self.out.pop_front() {
                return Some(item);
            }
            if self.over {
                return None;
            }
            let looks = (!self.due.is_empty()).then_some(self.look_at);
            let until = [looks, self.list_at].into_iter().flatten().fold(self.judge_at, Instant::min);
            match timeout_at(until, self.signs.next()).await {
                Ok(Some(Ok(Sign::Opened))) => (self.list_at, self.gap) = (Some(Instant::now()), true),
                Ok(Some(Ok(Sign::Event(event)))) => self.take(&event),
                // Not oftener than that: everything is looked at.
                Ok(Some(Ok(Sign::Changed))) => {
                    let soon = Instant::now() + PAUSE;
                    self.list_at = Some(self.list_at.map_or(soon, |at| at.min(soon)));
                }
                Ok(Some(Err(error))) if !self.without_events && is_refused(&error) => {
                    self.without_events = true;
                    self.signs = lists(&self.scheduler, &self.picture.filter);
                }
                Ok(Some(Err(error))) => self.fail(translate(&error)),
                // It ends after an error that does not pass by itself; whether that ends us was decided then.
                Ok(None) => {
                    tokio::time::sleep(PAUSE).await;
                    let again = if self.without_events { lists } else { events };
                    self.signs = again(&self.scheduler, &self.picture.filter);
                }
                Err(_) => self.act().await,
            }
        }
    }

    fn fail(&mut self, error: Error) {
        self.over = error.retry() == Retry::Never;
        self.out.push_back(Err(error));
    }

    /// Notes what an event is about.
    fn take(&mut self, event: &Event) {
        let id = if event.topic == Topic::Job { Some(&event.key) } else { event.filter_keys.first() };
        // A run of a schedule is part of its workload.
        let own = id.map(|id| id.split_once("/periodic-").map_or(id.as_str(), |(parent, _)| parent));
        let Some(target) = own.and_then(|id| Target::new(event.namespace.as_str(), id).ok()) else { return };
        let ours = event.topic == Topic::Job
            && event.payload["Job"]["Meta"][OWNER].as_str() == Some(self.scheduler.owner.as_str());
        if !ours && !self.picture.looks.contains_key(&target) {
            return;
        }
        if self.due.is_empty() {
            self.look_at = Instant::now() + GATHER;
        }
        self.due.insert(target);
    }

    /// Does what its time has come for.
    async fn act(&mut self) {
        let now = Instant::now();
        if self.list_at.is_some_and(|at| at <= now) {
            match look_at_all(&self.scheduler, &self.picture.filter).await {
                Ok(looks) => {
                    self.due.clear();
                    self.list_at = Some(Instant::now() + RELIST);
                    self.picture.replace(looks, std::mem::take(&mut self.gap), &mut self.out);
                }
                Err(error) => {
                    self.list_at = Some(Instant::now() + PAUSE);
                    self.fail(error);
                }
            }
        } else if !self.due.is_empty() && self.look_at <= now {
            while let Some(target) = self.due.pop_first() {
                match look(&self.scheduler, &target).await {
                    Ok(look) => self.picture.put(target, look, &mut self.out),
                    Err(error) => {
                        self.due.insert(target);
                        self.look_at = Instant::now() + PAUSE;
                        return self.fail(error);
                    }
                }
            }
        }
        if self.judge_at <= now {
            self.judge_at = now + RECHECK;
            self.picture.judge(None, &mut self.out);
        }
    }
}

/// Whether an error of the event stream says that there is none. What is plainly forbidden is no such thing: then other reads
/// are as well.
fn is_refused(error: &client::Error) -> bool {
    use client::ErrorKind as Kind;
    let no_stream = matches!(error.kind(), Kind::StreamRefused | Kind::Unsupported | Kind::MalformedAnswer);
    no_stream || matches!(error.kind(), Kind::NotFound(_) | Kind::Unexpected)
}

/// The event stream.
fn events(scheduler: &NomadScheduler, filter: &Filter) -> BoxStream<'static, Result<Sign, client::Error>> {
    let mut options = EventOptions::new(namespace_of(filter));
    for topic in [Topic::Job, Topic::Allocation, Topic::Deployment, Topic::Evaluation] {
        options = match &filter.name {
            Some(name) => options.topic_of(topic, name.as_str()),
            None => options.topic(topic),
        };
    }
    let signs = scheduler.client.reads().events(options).filter_map(|item| {
        std::future::ready(match item {
            Ok(StreamItem::Opened) => Some(Ok(Sign::Opened)),
            Ok(StreamItem::Event(event)) => Some(Ok(Sign::Event(Box::new(event)))),
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        })
    });
    signs.boxed()
}

/// The lists that change with what a workload is about.
fn lists(scheduler: &NomadScheduler, filter: &Filter) -> BoxStream<'static, Result<Sign, client::Error>> {
    let (client, namespace) = (scheduler.client.reads(), namespace_of(filter));
    let options = ListOptions::new().filter(format!("Meta[\"{OWNER}\"] == \"{}\"", scheduler.owner));
    let jobs = client.follow(Query::jobs(namespace, &options)).map(|answer| answer.map(drop));
    let deployments = client.follow(Query::deployments(namespace)).map(|answer| answer.map(drop));
    let changes = stream::select(jobs, deployments).map(|change| change.map(|()| Sign::Changed));
    stream::iter([Ok(Sign::Opened)]).chain(changes).boxed()
}

fn namespace_of(filter: &Filter) -> &str {
    filter.namespace.as_ref().map_or("*", |namespace| namespace.as_str())
}

/// What was seen last, and what was told of it.
struct Picture {
    filter: Filter,
    looks: BTreeMap<Target, Seen>,
    told: BTreeMap<Target, Observation>,
    synced: bool,
}

/// A look, and when that was by our own clock, which only measures how long ago it was.
struct Seen {
    look: Look,
    since: Instant,
}

impl Picture {
    fn new(filter: Filter) -> Self {
        Self { filter, looks: BTreeMap::new(), told: BTreeMap::new(), synced: false }
    }

    /// Takes in everything that there is.
    fn replace(&mut self, looks: Vec<Look>, gap: bool, out: &mut VecDeque<Result<WatchItem>>) {
        let since = Instant::now();
        let of = |look: Look| Some((look.target()?, Seen { look, since }));
        self.looks = looks.into_iter().filter_map(of).collect();
        if !gap {
            return self.judge(None, out);
        }
        let seen = self.observe(None);
        if self.synced {
            self.tell_gone(None, &seen, out);
            out.push_back(Ok(WatchItem::Resync));
        }
        out.extend(seen.values().map(|seen| Ok(WatchItem::Snapshot(Box::new(seen.clone())))));
        out.push_back(Ok(WatchItem::Synced));
        self.told = seen;
        self.synced = true;
    }

    /// Takes in one look, or that there is nothing.
    fn put(&mut self, target: Target, look: Option<Look>, out: &mut VecDeque<Result<WatchItem>>) {
        match look {
            Some(look) => self.looks.insert(target.clone(), Seen { look, since: Instant::now() }),
            None => self.looks.remove(&target),
        };
        self.judge(Some(&target), out);
    }

    /// What is there, of one workload or of all.
    fn observe(&self, only: Option<&Target>) -> BTreeMap<Target, Observation> {
        let looks = self.looks.iter().filter(|(target, _)| only.is_none_or(|only| *target == only));
        let seen = looks.filter_map(|(_, Seen { look, since })| look.observe(look.at.plus(since.elapsed())));
        let accepted = seen.filter(|seen| self.filter.accepts(&seen.target, &seen.marks, &seen.labels));
        accepted.map(|seen| (seen.target.clone(), seen.trimmed(Detail::Counts))).collect()
    }

    /// Tells what is different from what was told, of one workload or of all.
    fn judge(&mut self, only: Option<&Target>, out: &mut VecDeque<Result<WatchItem>>) {
        if !self.synced {
            return;
        }
        let seen = self.observe(only);
        self.tell_gone(only, &seen, out);
        for (target, seen) in seen {
            if self.told.get(&target).is_none_or(|told| differ(told, &seen)) {
                out.push_back(Ok(WatchItem::Changed(Box::new(seen.clone()))));
                self.told.insert(target, seen);
            }
        }
    }

    /// Tells what is gone, also what is there again as another one.
    fn tell_gone(
        &mut self,
        only: Option<&Target>,
        seen: &BTreeMap<Target, Observation>,
        out: &mut VecDeque<Result<WatchItem>>,
    ) {
        self.told.retain(|target, told| {
            let concerned = only.is_none_or(|only| target == only);
            let gone = concerned && seen.get(target).is_none_or(|seen| seen.incarnation != told.incarnation);
            if gone {
                let incarnation = told.incarnation.clone();
                out.push_back(Ok(WatchItem::Deleted { target: target.clone(), incarnation }));
            }
            !gone
        });
    }
}

/// Whether more differs than the time of looking.
fn differ(told: &Observation, seen: &Observation) -> bool {
    let mut told = told.clone();
    told.at = seen.at;
    told != *seen
}
