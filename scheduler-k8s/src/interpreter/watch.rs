//! `watch`: a watch of each kind, one picture, and what changes in it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use futures_util::stream::{self, BoxStream, SelectAll, StreamExt as _};
use scheduler_core::{Filter, Observation, OwnerId, Result, Retry, Target, Timestamp, WatchItem};
use scheduler_k8s_client::{self as client, Client, Resource, WatchEvent, WatchOptions};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::family::Family;
use super::read::{Selectors, server_time};
use crate::error::translate;
use crate::kind::MainKind;
use crate::observe;

/// What is watched: main objects, what stands between, Pods. A Job can be the first and the second.
const PARTS: [&Resource; 8] = [
    &Resource::DEPLOYMENT,
    &Resource::STATEFUL_SET,
    &Resource::DAEMON_SET,
    &Resource::JOB,
    &Resource::CRON_JOB,
    &Resource::REPLICA_SET,
    &Resource::CONTROLLER_REVISION,
    &Resource::POD,
];

/// The place of a kind in [`PARTS`].
type Part = usize;
const JOBS: Part = 3;
const REPLICA_SETS: Part = 5;
const REVISIONS: Part = 6;
const PODS: Part = 7;

fn main_kind(part: Part) -> Option<MainKind> {
    MainKind::ALL.into_iter().find(|kind| kind.resource() == PARTS[part])
}

/// How often workloads are judged again whose counts depend on time alone: instances that become available, starts that
/// take too long.
const RECHECK: Duration = Duration::from_secs(5);

/// Follows all kinds, and tells what that means for workloads.
///
/// Each of the watches recovers by itself. When one of them has to list again, whatever was missed is found by comparing,
/// and the stream says `Resync` and shows everything anew.
pub(super) fn watch(client: &Client, owner: &OwnerId, filter: Filter) -> BoxStream<'static, Result<WatchItem>> {
    let namespace = filter.namespace.as_ref().map(|namespace| namespace.as_str());
    let selectors = Selectors::new(owner, &filter);
    let events = stream::select_all(PARTS.iter().enumerate().map(|(part, resource)| {
        let options = WatchOptions::new().label_selector(selectors.of(resource));
        client.watch(resource, namespace, options).map(move |event| (part, event)).boxed()
    }));
    let picture = Picture::new(filter);
    // The first poll starts the clock; a stream may be made outside of a runtime.
    let start = async move {
        let recheck = Instant::now() + RECHECK;
        let watcher = Watcher { events, picture, out: VecDeque::new(), recheck, over: false };
        stream::unfold(watcher, |mut watcher| async { watcher.next().await.map(|item| (item, watcher)) })
    };
    stream::once(start).flatten().boxed()
}

type Event = (Part, Result<WatchEvent, client::Error>);

struct Watcher {
    events: SelectAll<BoxStream<'static, Event>>,
    picture: Picture,
    out: VecDeque<Result<WatchItem>>,
    recheck: Instant,
    over: bool,
}

impl Watcher {
    async fn next(&mut self) -> Option<Result<WatchItem>> {
        loop {
            if let Some(item) = self.out.pop_front() {
                return Some(item);
            }
            if self.over {
                return None;
            }
            let Ok(event) = timeout_at(self.recheck, self.events.next()).await else {
                self.recheck = Instant::now() + RECHECK;
                self.picture.judge(None, &mut self.out);
                continue;
            };
            match event {
                Some((part, Ok(event))) => self.picture.take(part, event, &mut self.out),
                Some((_, Err(error))) => {
                    let error = translate(&error);
                    self.over = error.retry() == Retry::Never;
                    return Some(Err(error));
                }
                None => self.over = true,
            }
        }
    }
}

/// What the watches have shown, and what was told of it.
struct Picture {
    filter: Filter,
    /// By uid; `None` until it was listed.
    objects: [Option<HashMap<String, Value>>; PARTS.len()],
    told: BTreeMap<Target, Observation>,
    synced: bool,
    clock: Option<(Timestamp, Instant)>,
}

impl Picture {
    fn new(filter: Filter) -> Self {
        Self { filter, objects: Default::default(), told: BTreeMap::new(), synced: false, clock: None }
    }

    fn is_whole(&self) -> bool {
        self.objects.iter().all(Option::is_some)
    }

    fn take(&mut self, part: Part, event: WatchEvent, out: &mut VecDeque<Result<WatchItem>>) {
        match event {
            WatchEvent::Listed { objects, served_at } => {
                self.set_clock(server_time(served_at, objects.iter()));
                let objects = objects.into_iter().filter_map(|object| keyed(part, object)).collect();
                self.objects[part] = Some(objects);
                if self.is_whole() {
                    self.show(out);
                }
            }
            WatchEvent::Applied(object) => {
                let main = self.main_of(part, &object);
                if let (Some(objects), Some((uid, object))) = (&mut self.objects[part], keyed(part, object)) {
                    objects.insert(uid, object);
                }
                self.judge(Some(&main), out);
            }
            WatchEvent::Deleted(object) => {
                let main = self.main_of(part, &object);
                if let (Some(objects), Some(uid)) = (&mut self.objects[part], observe::uid_of(&object)) {
                    objects.remove(uid);
                }
                self.judge(Some(&main), out);
            }
            _ => {}
        }
    }

    /// The uid of the main object that an object belongs to; empty if none is known. A Job that is controlled counts for
    /// what controls it; if it is a run, it is told itself by [`judge`](Self::judge) with the rest.
    fn main_of(&self, part: Part, object: &Value) -> Vec<String> {
        let of = |part: Part, uid: &str| self.objects[part].as_ref().and_then(|objects| objects.get(uid));
        let mut found = vec![observe::uid_of(object)];
        let mut controller = observe::controller(object);
        found.push(controller);
        if part == PODS {
            controller = controller
                .and_then(|uid| of(REPLICA_SETS, uid).or_else(|| of(JOBS, uid)))
                .and_then(observe::controller);
            found.push(controller);
        }
        found.into_iter().flatten().map(str::to_owned).collect()
    }

    /// The server's clock stood so at the last list; ours only measures how long ago that was.
    fn set_clock(&mut self, at: Timestamp) {
        if self.clock.is_none_or(|(known, since)| known.plus(since.elapsed()) < at) {
            self.clock = Some((at, Instant::now()));
        }
    }

    /// What is there, of these main objects or of all.
    fn observe(&self, only: Option<&[String]>) -> BTreeMap<Target, Observation> {
        let at = self.clock.map_or(Timestamp::from_millis(0), |(at, since)| at.plus(since.elapsed()));
        if !self.is_whole() {
            return BTreeMap::new();
        }
        let all = |part: Part| self.objects[part].iter().flat_map(HashMap::values);
        let family = Family::new([REPLICA_SETS, REVISIONS, JOBS].into_iter().flat_map(all), all(PODS));
        let mains = (0..PARTS.len()).filter_map(|part| Some((main_kind(part)?, self.objects[part].as_ref()?)));
        let mains = mains.flat_map(|(kind, objects)| objects.iter().map(move |(uid, main)| (kind, uid, main)));
        let concerned = mains.filter(|(_, uid, _)| only.is_none_or(|only| only.contains(uid)));
        let seen = concerned.filter_map(|(kind, _, main)| family.observe(kind, main, at));
        let accepted = seen.filter(|seen| self.filter.accepts(&seen.target, &seen.marks, &seen.labels));
        accepted.map(|seen| (seen.target.clone(), seen)).collect()
    }

    /// Shows everything, after a list.
    fn show(&mut self, out: &mut VecDeque<Result<WatchItem>>) {
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

    /// Tells what is different from what was told, of these main objects or of all.
    fn judge(&mut self, only: Option<&[String]>, out: &mut VecDeque<Result<WatchItem>>) {
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
        only: Option<&[String]>,
        seen: &BTreeMap<Target, Observation>,
        out: &mut VecDeque<Result<WatchItem>>,
    ) {
        self.told.retain(|target, told| {
            let concerned = only.is_none_or(|only| only.contains(&told.incarnation)) || seen.contains_key(target);
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

/// An object by its uid, without who claims what in parts, which would be half of what is held.
fn keyed(part: Part, mut object: Value) -> Option<(String, Value)> {
    let uid = observe::uid_of(&object)?.to_owned();
    if main_kind(part).is_none()
        && let Some(metadata) = object["metadata"].as_object_mut()
    {
        metadata.remove("managedFields");
    }
    Some((uid, object))
}
