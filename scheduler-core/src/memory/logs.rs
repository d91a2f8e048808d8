//! The stream of what containers write.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use futures_core::stream::BoxStream;
use futures_util::StreamExt as _;
use tokio::sync::watch::Receiver;
use tokio::time::timeout_at;

use super::instance::Instance;
use super::log::{Log, Run};
use super::mutation::{Mutant, Mutation};
use super::object::MainObject;
use super::scheduler::MemoryScheduler;
use super::world::World;
use crate::{
    Error, ErrorKind, Kind, LogItem, LogLine, LogStream, Logs, Missing, OwnerId, Result, Retry, Role, Timestamp,
};

/// A container whose lines are wanted.
struct Source {
    instance: String,
    container: String,
    log: Log,
    /// The node that does not answer.
    lost: Option<String>,
}

/// What a look found.
pub(super) struct Sources {
    now: Timestamp,
    sources: Vec<Source>,
    /// Whether nothing will be written any more.
    over: bool,
    /// When something is due in the cluster.
    due: Option<Timestamp>,
}

/// How far a container's lines were told.
#[derive(Clone, Copy, Default)]
struct Told {
    run: u32,
    lines: usize,
}

/// A stream of logs, from one item to the next.
struct Reader {
    scheduler: MemoryScheduler,
    op: Logs,
    changes: Receiver<()>,
    /// What was told; `None` before the first look.
    told: Option<BTreeMap<(String, String), Told>>,
    /// The instances of which it was said that nothing can be had.
    gaps: BTreeSet<String>,
    ready: VecDeque<LogItem>,
    /// When there may be more.
    due: Option<Timestamp>,
    over: bool,
}

/// Opens a stream. Nothing happens before it is polled.
pub(super) fn stream(scheduler: MemoryScheduler, op: Logs) -> BoxStream<'static, Result<LogItem>> {
    let reader = Reader {
        changes: scheduler.shared().subscribe(),
        scheduler,
        op,
        told: None,
        gaps: BTreeSet::new(),
        ready: VecDeque::new(),
        due: None,
        over: false,
    };
    futures_util::stream::unfold(reader, |mut reader| async move {
        let item = reader.next().await?;
        Some((item, reader))
    })
    .boxed()
}

impl World {
    /// The containers that an operation asks for. Of what is not there, none.
    pub(super) fn log_sources(&self, op: &Logs, me: &OwnerId) -> Result<Sources> {
        let anybodys = self.mutant.is(Mutation::LogsOfAnybody);
        let object = self.workloads.get(&op.target).filter(|object| object.is_of(me) || anybodys);
        let mut found = Sources { now: self.now, sources: Vec::new(), over: true, due: self.next_due() };
        let Some(object) = object else { return Ok(found) };
        found.over = matches!(object.spec.kind, Kind::Job(_)) && object.job.finished.is_some();
        let mut instances = std::iter::once(object).chain(self.runs_of(&op.target)).flat_map(|of| &of.instances);
        if let Some(wanted) = &op.instance {
            let Some(instance) = instances.find(|instance| instance.id == *wanted) else {
                let words = format!("it has no instance {wanted}");
                return Err(Error::new(ErrorKind::NotFound(Missing::Instance), words));
            };
            found.sources.push(source(instance, op, object)?);
            return Ok(found);
        }
        for instance in instances {
            found.sources.push(source(instance, op, object)?);
        }
        Ok(found)
    }
}

/// The container of an instance that an operation asks for.
fn source(instance: &Instance, op: &Logs, object: &MainObject) -> Result<Source> {
    let chosen = |container: &&super::container::ContainerRun| {
        op.container.as_ref().map_or(container.role == Role::Main, |name| *name == container.name)
    };
    let Some(container) = instance.containers.iter().find(chosen) else {
        let name = op.container.as_deref().unwrap_or_default();
        return Err(Error::invalid_argument(format!("{} has no container {name}", object.target)));
    };
    Ok(Source {
        instance: instance.id.clone(),
        container: container.name.clone(),
        log: container.log.clone(),
        lost: instance.lost.and(instance.node.clone()),
    })
}

impl Reader {
    async fn next(&mut self) -> Option<Result<LogItem>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(Ok(item));
            }
            if self.over {
                return None;
            }
            self.changes.mark_unchanged();
            match self.look().await {
                Ok(found) => self.tell(found),
                Err(error) => {
                    self.over = error.retry() == Retry::Never;
                    return Some(Err(error));
                }
            }
            if self.ready.is_empty() && !self.over {
                self.wait().await;
            }
        }
    }

    /// Only the first look is a request; after it the cluster tells by itself.
    async fn look(&self) -> Result<Sources> {
        if self.told.is_none() {
            return self.scheduler.log_sources(&self.op).await;
        }
        self.scheduler.shared().world().log_sources(&self.op, self.scheduler.owner())
    }

    /// Takes in what was found: what is new since the last look, in the order of time.
    fn tell(&mut self, found: Sources) {
        let (mutant, first) = (self.scheduler.shared().mutant, self.told.is_none());
        let mut told = self.told.take().unwrap_or_default();
        let follows = self.op.follow && !self.op.previous;
        self.over = !follows || (found.over && !mutant.is(Mutation::FollowNeverEnds));
        let ticks = found.sources.iter().filter_map(|source| source.log.present?.next(found.now));
        self.due = ticks.chain(found.due).min();
        let mut lines = Vec::new();
        for source in found.sources {
            if let Some(node) = &source.lost {
                if self.gaps.insert(source.instance.clone()) && !mutant.is(Mutation::LogsHideGaps) {
                    self.ready.push_back(gap(&source, format!("node {node} does not answer")));
                }
                continue;
            }
            let key = (source.instance.clone(), source.container.clone());
            let before = told.get(&key).copied();
            let mut runs = if first {
                self.first(&source, found.now, mutant)
            } else {
                self.later(&source, before, found.now, mutant)
            };
            if let Some(present) = source.log.present {
                let all = present.lines(found.now).len();
                told.insert(key, Told { run: present.number, lines: all });
            }
            let since = self.op.since.filter(|_| !mutant.is(Mutation::LogsIgnoreSince));
            runs.retain(|(at, _)| since.is_none_or(|since| *at >= since));
            if let Some(tail) = self.op.tail.filter(|_| first && !mutant.is(Mutation::LogsIgnoreTail)) {
                runs.drain(..runs.len().saturating_sub(tail as usize));
            }
            lines.extend(runs.into_iter().map(|(at, text)| (at, line(&source, at, text))));
        }
        lines.sort_by_key(|(at, _)| *at);
        if !mutant.is(Mutation::LogsSilent) {
            self.ready.extend(lines.into_iter().map(|(_, line)| LogItem::Line(line)));
        }
        self.told = Some(told);
    }

    /// The lines of one run, present or previous.
    fn first(&self, source: &Source, now: Timestamp, mutant: Mutant) -> Vec<(Timestamp, String)> {
        let previous = self.op.previous && !mutant.is(Mutation::PreviousIsPresent);
        let run = if previous { source.log.previous } else { source.log.present };
        run.map(|run| run.lines(now)).unwrap_or_default()
    }

    /// What was written since the last look, over restarts. The first line of a run that was never seen is not known to
    /// follow the last one that was told.
    fn later(
        &mut self,
        source: &Source,
        told: Option<Told>,
        now: Timestamp,
        mutant: Mutant,
    ) -> Vec<(Timestamp, String)> {
        if (told.is_none() && mutant.is(Mutation::FollowMissesNewInstances))
            || (told.is_some_and(|told| source.log.present.is_some_and(|run| run.number != told.run))
                && mutant.is(Mutation::FollowStopsAtRestart))
        {
            return Vec::new();
        }
        let told = told.unwrap_or_default();
        let rest = |run: Run| {
            let skipped = if run.number == told.run { told.lines } else { 0 };
            run.lines(now).into_iter().skip(skipped)
        };
        let runs: Vec<Run> = [source.log.previous, source.log.present].into_iter().flatten().collect();
        let new: Vec<Run> = runs.into_iter().filter(|run| run.number >= told.run).collect();
        if new.first().is_some_and(|run| run.number > told.run) {
            self.ready.push_back(gap(source, "a run of the container was over before it could be read".to_owned()));
        }
        new.into_iter().flat_map(rest).collect()
    }

    /// Sleeps until somebody changes something, or something happens by itself.
    async fn wait(&mut self) {
        let due = self.due.map(|due| self.scheduler.shared().instant(due));
        let changed = self.changes.changed();
        // Whichever it was, the next look tells. The sender lives as long as the cluster, which this stream holds.
        let _ = match due {
            None => Ok(changed.await),
            Some(due) => timeout_at(due, changed).await,
        };
    }
}

fn gap(source: &Source, why: String) -> LogItem {
    LogItem::Gap { instance: source.instance.clone(), container: source.container.clone(), why }
}

fn line(source: &Source, at: Timestamp, text: String) -> LogLine {
    let line = LogLine::new(&source.instance, &source.container, text);
    LogLine { stream: LogStream::Out, time: Some(at), ..line }
}
