//! `logs`: what the tasks of allocations write, by way of the server.
//!
//! What there is is read first, container by container. A follower then opens each output where the reading ended, and looks
//! again at each change for instances that are new or have ended: the server never ends an output that is followed.

mod lines;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use futures_util::future::Either;
use futures_util::stream::{self, AbortHandle, BoxStream, SelectAll, StreamExt as _};
use scheduler_core::{
    Error, ErrorKind, Filter, Finished, LogItem, LogLine, LogStream, Logs, Missing, Result, Retry, Subscription,
    WatchItem,
};
use scheduler_nomad_client::model::{Allocation, ClientStatus, TaskStateName};
use scheduler_nomad_client::{self as client, LogFrame, LogOptions, LogOrigin};
use tokio::time::{Instant, timeout_at};

use super::NomadScheduler;
use super::read::look;
use super::watch::watch;
use crate::carry;
use crate::error::translate;
use lines::{Lines, Piece};

/// How often a follower looks for instances without having been told of a change.
const LOOK: Duration = Duration::from_secs(5);
/// How many signs of life without output end the output of a task that has ended. The server sends one each second.
const IDLE: u32 = 2;

/// Opens the stream.
pub(super) fn logs(scheduler: NomadScheduler, op: Logs) -> BoxStream<'static, Result<LogItem>> {
    let changes = op.follow.then(|| watch(scheduler.clone(), Filter::target(op.target.clone())));
    let reader = Reader {
        scheduler,
        op,
        changes,
        outputs: BTreeMap::new(),
        open: SelectAll::new(),
        gaps: BTreeSet::new(),
        ready: VecDeque::new(),
        step: Step::Look,
        ended: false,
    };
    stream::unfold(reader, |mut reader| async move { reader.next().await.map(|item| (item, reader)) }).boxed()
}

/// One output of one task of one allocation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    allocation: String,
    task: String,
    is_error: bool,
}

/// The frames of outputs, with an end of each.
type Frames = BoxStream<'static, (Key, Option<Result<LogFrame, client::Error>>)>;

/// What is known of an output.
#[derive(Default)]
struct Output {
    lines: Lines,
    /// Whether it is being followed.
    is_open: bool,
    /// Ends its connection: the server would go on for ever.
    abort: Option<AbortHandle>,
    /// Whether its task has ended, and how many signs of life without output came since.
    idle: Option<u32>,
    /// Whether nothing more will come.
    is_over: bool,
}

/// A container of an instance that is to be read.
struct Source {
    allocation: String,
    task: String,
    /// Whether it ever started.
    has_started: bool,
    has_ended: bool,
    /// Why it cannot be read, if that is known.
    away: Option<String>,
}

enum Step {
    /// The first look.
    Look,
    /// What there is is read, container by container.
    Read(VecDeque<Source>),
    /// What comes is told; with the time of the next look.
    Follow(Instant),
    Over,
}

struct Reader {
    scheduler: NomadScheduler,
    op: Logs,
    changes: Option<BoxStream<'static, Result<WatchItem>>>,
    outputs: BTreeMap<Key, Output>,
    /// What is followed; `None` at the end of one.
    open: SelectAll<Frames>,
    /// Of which outputs a gap was told since they were read last.
    gaps: BTreeSet<Key>,
    ready: VecDeque<Result<LogItem>>,
    step: Step,
    /// Whether nothing new will begin: the workload is gone, or its job has ended.
    ended: bool,
}

impl Reader {
    async fn next(&mut self) -> Option<Result<LogItem>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(item);
            }
            match std::mem::replace(&mut self.step, Step::Over) {
                Step::Look => {
                    if let Some(sources) = self.look().await {
                        self.step = Step::Read(sources.into());
                    }
                }
                Step::Read(mut sources) => match sources.pop_front() {
                    Some(source) => {
                        self.step = Step::Read(sources);
                        self.read(source).await;
                    }
                    None if self.op.follow => self.step = Step::Follow(Instant::now()),
                    None => {}
                },
                Step::Follow(at) => self.follow(at).await,
                Step::Over => return None,
            }
        }
    }

    /// The containers that there are. `None`, with the error to be told, if they could not be had.
    async fn look(&mut self) -> Option<Vec<Source>> {
        match self.sources().await {
            Ok(sources) => Some(sources),
            Err(error) => {
                self.ready.push_back(Err(error));
                None
            }
        }
    }

    async fn sources(&mut self) -> Result<Vec<Source>> {
        let needed = Subscription::Logs(self.op.clone()).features();
        self.scheduler.capabilities.require(&needed)?;
        self.ended = true;
        let Some(mut look) = look(&self.scheduler, &self.op.target).await? else { return Ok(Vec::new()) };
        look.read_ended_runs(&self.scheduler).await?;
        let Some(seen) = look.observe(look.at) else { return Ok(Vec::new()) };
        self.ended = seen.finished.is_some_and(|end| matches!(end, Finished::Complete | Finished::Failed));
        let main = carry::main_task(look.job()).map(|task| task.name.clone());
        let Some(task) = self.op.container.clone().or(main) else { return Ok(Vec::new()) };
        if !look.job().task_groups.iter().flat_map(|group| &group.tasks).any(|known| known.name == task) {
            return Err(Error::invalid_argument(format!("it has no container {task}")));
        }
        let shown = |alloc: &&Allocation| match &self.op.instance {
            Some(wanted) => alloc.id == *wanted,
            None => seen.instances.iter().any(|instance| instance.id == alloc.id),
        };
        let sources: Vec<Source> = look.allocations().filter(shown).map(|alloc| source(alloc, task.clone())).collect();
        match &self.op.instance {
            // One that was seen can be forgotten by the server.
            Some(wanted) if sources.is_empty() && !self.outputs.keys().any(|key| key.allocation == *wanted) => {
                Err(Error::new(ErrorKind::NotFound(Missing::Instance), format!("it has no instance {wanted}")))
            }
            _ => Ok(sources),
        }
    }

    /// Reads what a container has written so far.
    async fn read(&mut self, source: Source) {
        if let Some(why) = source.away {
            return self.gap(&key(&source.allocation, &source.task, false), why);
        }
        if !source.has_started {
            return;
        }
        let keys = [false, true].map(|is_error| key(&source.allocation, &source.task, is_error));
        let [out, err] = keys.clone().map(|key| self.output(key, false, LogOrigin::Start(0)));
        let mut frames = stream::select(out, err);
        let mut items = VecDeque::new();
        while let Some((key, frame)) = frames.next().await {
            let output = self.outputs.entry(key.clone()).or_default();
            match frame {
                Some(Ok(frame)) => {
                    items.extend(output.lines.take(&frame).into_iter().map(|piece| (key.clone(), piece)));
                }
                Some(Err(error)) => self.fail(&key, &error),
                None => {}
            }
        }
        if !self.op.follow {
            for key in keys {
                let rest = self.outputs.get_mut(&key).and_then(|output| output.lines.end());
                items.extend(rest.map(|piece| (key, piece)));
            }
        }
        if let Some(tail) = self.op.tail {
            items.drain(..items.len().saturating_sub(tail as usize));
        }
        self.ready.extend(items.into_iter().map(|(key, piece)| Ok(item(&key, piece))));
    }

    /// Tells what comes next, or looks for what is new.
    async fn follow(&mut self, at: Instant) {
        let mut due = at;
        if at <= Instant::now() {
            let Some(sources) = self.look().await else {
                let passes = matches!(self.ready.back(), Some(Err(error)) if error.retry() != Retry::Never);
                if passes {
                    self.step = Step::Follow(Instant::now() + LOOK);
                }
                return;
            };
            self.open(sources);
            if self.ended && self.outputs.values().all(|output| output.is_over || !output.is_open) {
                return;
            }
            due = Instant::now() + LOOK;
        }
        self.step = Step::Follow(due);
        let Some(changes) = &mut self.changes else { return };
        let open = async { if self.open.is_empty() { std::future::pending().await } else { self.open.next().await } };
        let open = std::pin::pin!(open);
        match timeout_at(due, futures_util::future::select(open, changes.next())).await {
            Ok(Either::Left((Some((key, frame)), _))) => self.take(&key, frame),
            // Something changed. An error of the watch is its own affair: looks go on by the clock.
            Ok(Either::Right((Some(Ok(_)), _))) => self.step = Step::Follow(Instant::now()),
            Ok(Either::Right((None, _))) => self.changes = Some(stream::pending().boxed()),
            Ok(Either::Left((None, _)) | Either::Right((Some(Err(_)), _))) | Err(_) => {}
        }
    }

    /// Follows what is there and is not followed yet.
    fn open(&mut self, sources: Vec<Source>) {
        let there: BTreeSet<&str> = sources.iter().map(|source| source.allocation.as_str()).collect();
        for (key, output) in &mut self.outputs {
            // What is shown no more has ended: a service's instances are forgotten then.
            if !there.contains(key.allocation.as_str()) {
                output.idle.get_or_insert(0);
            }
        }
        for source in sources {
            let keys = [false, true].map(|is_error| key(&source.allocation, &source.task, is_error));
            if let Some(why) = source.away {
                self.gap(&keys[0], why);
                continue;
            }
            for key in keys.into_iter().filter(|_| source.has_started) {
                let output = self.outputs.entry(key.clone()).or_default();
                if source.has_ended {
                    output.idle.get_or_insert(0);
                }
                if !output.is_open && !output.is_over {
                    output.is_open = true;
                    let origin = LogOrigin::Start(output.lines.bytes);
                    let (frames, abort) = stream::abortable(self.output(key.clone(), true, origin));
                    self.open.push(frames.boxed());
                    self.outputs.entry(key).or_default().abort = Some(abort);
                }
            }
        }
    }

    /// Takes in a frame of an output that is followed, or its end.
    fn take(&mut self, key: &Key, frame: Option<Result<LogFrame, client::Error>>) {
        let Some(output) = self.outputs.get_mut(key).filter(|output| !output.is_over) else { return };
        match frame {
            Some(Ok(frame)) if frame.is_heartbeat() => {
                if let Some(idle) = &mut output.idle {
                    *idle += 1;
                    output.is_over = *idle >= IDLE;
                }
                if output.is_over {
                    let rest = output.lines.end();
                    self.ready.extend(rest.map(|piece| Ok(item(key, piece))));
                    self.close(key);
                }
            }
            Some(Ok(frame)) => {
                if output.idle.is_some() {
                    output.idle = Some(0);
                }
                self.gaps.remove(key);
                self.ready.extend(output.lines.take(&frame).into_iter().map(|piece| Ok(item(key, piece))));
            }
            Some(Err(error)) => {
                output.is_open = false;
                output.is_over = output.idle.is_some();
                self.fail(key, &error);
            }
            None => {
                output.is_open = false;
                output.is_over = output.idle.is_some();
            }
        }
    }

    /// Ends the connection of an output. The others go on.
    fn close(&mut self, key: &Key) {
        if let Some(output) = self.outputs.get_mut(key) {
            output.is_open = false;
            if let Some(abort) = output.abort.take() {
                abort.abort();
            }
        }
        if self.ended {
            // Whether that was the last one.
            self.step = Step::Follow(Instant::now());
        }
    }

    /// Tells what it means that an output cannot be read.
    fn fail(&mut self, key: &Key, error: &client::Error) {
        use client::ErrorKind as Kind;
        match error.kind() {
            // It has not started; then it has written nothing.
            Kind::Precondition => {}
            Kind::Forbidden | Kind::Unauthenticated | Kind::Disabled | Kind::Unsupported => {
                self.ready.push_back(Err(translate(error)));
                self.step = Step::Over;
            }
            _ => self.gap(key, error.to_string()),
        }
    }

    fn gap(&mut self, key: &Key, why: String) {
        if self.gaps.insert(key.clone()) {
            let (instance, container) = (key.allocation.clone(), key.task.clone());
            self.ready.push_back(Ok(LogItem::Gap { instance, container, why }));
        }
    }

    /// The frames of an output, with an end.
    fn output(&self, key: Key, follow: bool, origin: LogOrigin) -> Frames {
        let which = if key.is_error { client::LogStream::Stderr } else { client::LogStream::Stdout };
        let namespace = self.op.target.namespace.as_str();
        let mut options = LogOptions::new(namespace, &*key.allocation, &*key.task, which).origin(origin);
        if follow {
            options = options.follow();
        }
        let frames = self.scheduler.client.reads().logs(options).map(Some).chain(stream::iter([None]));
        frames.map(move |frame| (key.clone(), frame)).boxed()
    }
}

fn key(allocation: &str, task: &str, is_error: bool) -> Key {
    Key { allocation: allocation.to_owned(), task: task.to_owned(), is_error }
}

fn source(alloc: &Allocation, task: String) -> Source {
    let state = alloc.task_states.get(&task);
    let has_started = state.is_some_and(|state| {
        state.state != TaskStateName::Pending || state.restarts > 0 || !state.started_at.is_empty()
    });
    let away = matches!(alloc.client_status, ClientStatus::Unknown | ClientStatus::Lost)
        .then(|| format!("its node {} does not answer", alloc.node_name));
    Source { allocation: alloc.id.clone(), task, has_started, has_ended: alloc.client_status.is_terminal(), away }
}

fn item(key: &Key, piece: Piece) -> LogItem {
    match piece {
        Piece::Line(text) => {
            let mut line = LogLine::new(&*key.allocation, &*key.task, text);
            line.stream = if key.is_error { LogStream::Err } else { LogStream::Out };
            LogItem::Line(line)
        }
        Piece::Gap(why) => {
            LogItem::Gap { instance: key.allocation.clone(), container: key.task.clone(), why: why.to_owned() }
        }
    }
}
