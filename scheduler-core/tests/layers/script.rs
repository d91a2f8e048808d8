//! A service that answers as written down.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use futures_core::stream::BoxStream;
use futures_util::StreamExt as _;
use scheduler_core::{
    BackendName, Capabilities, Conflict, Container, Error, ErrorKind, Launch, OpService, Pong, Reply, Result,
    SchedulerOp, StreamItem, Subscription, Target, Version, Workload,
};
use tokio::time::Instant;

/// What a call comes to.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Done,
    Fails(Error),
    Hangs,
}

/// What an opened stream gives, and whether it ends then. If not, it is silent for ever.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) items: Vec<Result<StreamItem>>,
    pub(crate) ends: bool,
}

#[derive(Debug)]
pub(crate) struct Script {
    capabilities: Capabilities,
    answers: Mutex<VecDeque<Answer>>,
    openings: Mutex<VecDeque<Opening>>,
    calls: Mutex<Vec<(Instant, SchedulerOp)>>,
    opened: Mutex<Vec<(Instant, Subscription)>>,
}

impl Script {
    /// These answers; all that come after are good.
    pub(crate) fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self {
            capabilities: Capabilities::all(BackendName::new("script").unwrap()),
            answers: Mutex::new(answers.into_iter().collect()),
            openings: Mutex::default(),
            calls: Mutex::default(),
            opened: Mutex::default(),
        }
    }

    /// These streams; all that come after are silent.
    pub(crate) fn streams(openings: impl IntoIterator<Item = Opening>) -> Self {
        Self { openings: Mutex::new(openings.into_iter().collect()), ..Self::new([]) }
    }

    pub(crate) fn calls(&self) -> MutexGuard<'_, Vec<(Instant, SchedulerOp)>> {
        self.calls.lock().unwrap()
    }

    pub(crate) fn opened(&self) -> MutexGuard<'_, Vec<(Instant, Subscription)>> {
        self.opened.lock().unwrap()
    }

    /// How long it was from each call to the next.
    pub(crate) fn pauses(&self) -> Vec<Duration> {
        self.calls().windows(2).map(|pair| pair[1].0 - pair[0].0).collect()
    }

    /// How long it was from each opening to the next.
    pub(crate) fn stream_pauses(&self) -> Vec<Duration> {
        self.opened().windows(2).map(|pair| pair[1].0 - pair[0].0).collect()
    }
}

#[async_trait]
impl OpService for Script {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn call(&self, op: SchedulerOp) -> Result<Reply> {
        self.calls().push((Instant::now(), op));
        let answer = self.answers.lock().unwrap().pop_front();
        match answer {
            None | Some(Answer::Done) => Ok(Reply::Ping(Pong::new("1"))),
            Some(Answer::Fails(error)) => Err(error),
            Some(Answer::Hangs) => std::future::pending().await,
        }
    }

    fn open(&self, subscription: Subscription) -> BoxStream<'static, Result<StreamItem>> {
        self.opened().push((Instant::now(), subscription));
        match self.openings.lock().unwrap().pop_front() {
            None => futures_util::stream::pending().boxed(),
            Some(Opening { items, ends: true }) => futures_util::stream::iter(items).boxed(),
            Some(Opening { items, ends: false }) => {
                futures_util::stream::iter(items).chain(futures_util::stream::pending()).boxed()
            }
        }
    }
}

pub(crate) fn error(kind: ErrorKind) -> Error {
    Error::new(kind, "as written down")
}

pub(crate) fn unavailable() -> Error {
    error(ErrorKind::Unavailable)
}

pub(crate) fn unknown() -> Error {
    error(ErrorKind::OutcomeUnknown)
}

pub(crate) fn moved() -> Error {
    error(ErrorKind::Conflict(Conflict::Moved { now: Some(Version::new("9")) }))
}

pub(crate) fn target() -> Target {
    Target::new("shop", "web").unwrap()
}

pub(crate) fn launch() -> Launch {
    Launch::new(Workload::service("shop", "web").container(Container::new("web", "web:1")).check().unwrap())
}
