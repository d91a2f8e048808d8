//! One instance: its containers, its node, its end.

use std::sync::Arc;
use std::time::Duration;

use super::container::{ContainerRun, Problem, Reference};
use super::object::Place;
use super::render::Template;
use super::timing::{EVICTION, STOPPING};
use crate::{DiagnosisKind, EventLine, Evidence, Exit, InstanceState, Role, Seconds, Timestamp};

/// How many events are kept of an instance.
const EVENTS: usize = 10;

/// Something worth an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    reason: &'static str,
    message: String,
}

impl Note {
    pub(super) fn new(reason: &'static str, message: String) -> Self {
        Self { reason, message }
    }
}

/// One instance of a workload.
#[derive(Clone, Debug)]
pub(super) struct Instance {
    pub(super) id: String,
    serial: u64,
    pub(super) template: Arc<Template>,
    pub(super) place: Place,
    /// How often all instances of the workload had been restarted when it was made.
    pub(super) restarted: u64,
    /// Whether it ends with its main container, and is kept then.
    pub(super) runs_to_end: bool,
    pub(super) created: Timestamp,
    pub(super) node: Option<String>,
    pub(super) address: Option<String>,
    pub(super) containers: Vec<ContainerRun>,
    /// Until when it ends, if it is on its way out.
    pub(super) ending: Option<Timestamp>,
    /// How it ended, if it is kept after that.
    pub(super) ended: Option<Ended>,
    /// Since when its node does not answer.
    pub(super) lost: Option<Timestamp>,
    /// Why it has no node.
    unplaced: Option<(DiagnosisKind, String)>,
    pub(super) state: InstanceState,
    pub(super) since: Timestamp,
    pub(super) trouble: Option<Trouble>,
    pub(super) events: Vec<EventLine>,
}

/// How an instance ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ended {
    pub(super) at: Timestamp,
    /// Whether it came to its end by itself; otherwise it was asked to stop.
    pub(super) by_itself: bool,
    /// How its main container ended, if it did.
    pub(super) exit: Option<Exit>,
    /// Which container ended badly, and how.
    pub(super) failure: Option<(String, Exit)>,
}

impl Ended {
    pub(super) fn is_success(&self) -> bool {
        self.exit.is_some_and(|exit| exit.is_success())
    }
}

/// What is wrong with an instance, and since when.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Trouble {
    pub(super) kind: DiagnosisKind,
    pub(super) container: Option<String>,
    pub(super) since: Timestamp,
    pub(super) message: String,
    pub(super) evidence: Evidence,
}

impl Instance {
    /// An instance without a node. `serial` was never given to another one.
    pub(super) fn new(of: &str, serial: u64, template: Arc<Template>, place: Place, now: Timestamp) -> Self {
        // The main container comes last, all others in the order of the list.
        let (main, others): (Vec<_>, Vec<_>) = template.containers.iter().partition(|c| c.role == Role::Main);
        let containers =
            others.into_iter().chain(main).map(|spec| ContainerRun::new(spec, &template.volumes)).collect();
        Self {
            id: place.ordinal.map_or_else(|| format!("{of}-{serial}"), |at| format!("{of}-{at}-{serial}")),
            serial,
            place,
            restarted: 0,
            runs_to_end: false,
            created: now,
            node: None,
            address: None,
            containers,
            template,
            ending: None,
            ended: None,
            lost: None,
            unplaced: None,
            state: InstanceState::Pending,
            since: now,
            trouble: None,
            events: Vec::new(),
        }
    }

    /// Whether it is made from this template.
    pub(super) fn is_of(&self, template: &Arc<Template>) -> bool {
        Arc::ptr_eq(&self.template, template) || self.template == *template
    }

    pub(super) fn is_ready(&self) -> bool {
        self.state == InstanceState::Ready
    }

    /// Whether it has been ready for so long.
    pub(super) fn is_available(&self, min_ready: Seconds, now: Timestamp) -> bool {
        self.is_ready() && now.since(self.since) >= min_ready.duration()
    }

    pub(super) fn restarts(&self) -> u32 {
        self.containers.iter().fold(0, |sum, container| sum.saturating_add(container.restarts))
    }

    /// Asks it to stop. What was never placed ends at once; a stubborn one takes its whole grace.
    pub(super) fn end(&mut self, now: Timestamp) {
        if self.ending.is_some() || self.ended.is_some() {
            return;
        }
        let grace = self.template.grace.duration();
        let takes = match self.node {
            None => Duration::ZERO,
            Some(_) if self.containers.iter().any(ContainerRun::is_stubborn) => grace,
            Some(_) => grace.min(STOPPING),
        };
        self.ending = Some(now.plus(takes));
        self.note(now, Note::new("Killing", "asked to stop".to_owned()));
        self.refresh(now);
    }

    /// Whether it is over and can be forgotten. On a lost node nobody sees it end before it is given up.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        self.ended.is_none() && self.is_past(now)
    }

    fn is_past(&self, now: Timestamp) -> bool {
        match self.lost {
            Some(since) => now.since(since) >= EVICTION,
            None => self.ending.is_some_and(|until| until <= now),
        }
    }

    /// Keeps it as ended, if it is of a job and was seen to end. Whether it was.
    pub(super) fn lay_to_rest(&mut self, now: Timestamp) -> bool {
        let rests = self.runs_to_end && self.ended.is_none() && self.lost.is_none() && self.is_past(now);
        if rests {
            self.ended_with(false, now);
        }
        rests
    }

    /// Its containers end, if they have not.
    fn ended_with(&mut self, by_itself: bool, now: Timestamp) {
        for container in &mut self.containers {
            container.stop(now);
        }
        let exit = self.containers.last().and_then(ContainerRun::exit).filter(|_| by_itself);
        let failure = self.containers.iter().find_map(|container| {
            let exit = container.exit().filter(|exit| !exit.is_success())?;
            Some((container.name.clone(), exit))
        });
        self.ended = Some(Ended { at: now, by_itself, exit, failure: failure.filter(|_| by_itself) });
        self.refresh(now);
    }

    /// Lets its containers end, and start again.
    pub(super) fn restart(&mut self, now: Timestamp) {
        for container in &mut self.containers {
            container.restart(now);
        }
        self.note(now, Note::new("Restarting", "its containers are started again".to_owned()));
        self.refresh(now);
    }

    /// Puts it on a node.
    pub(super) fn place(&mut self, node: &str, now: Timestamp) {
        self.note(now, Note::new("Scheduled", format!("placed on {node}")));
        self.node = Some(node.to_owned());
        let [.., b, c, d] = self.serial.to_be_bytes();
        self.address = Some(format!("10.{b}.{c}.{d}"));
        self.unplaced = None;
        self.refresh(now);
    }

    /// Says why it cannot be placed.
    pub(super) fn cannot_be_placed(&mut self, kind: DiagnosisKind, why: String, now: Timestamp) {
        let why = Some((kind, why));
        if self.unplaced != why {
            if let Some((_, message)) = &why {
                self.note(now, Note::new("FailedScheduling", message.clone()));
            }
            self.unplaced = why;
            self.refresh(now);
        }
    }

    /// Its node stops or begins to answer.
    pub(super) fn set_lost(&mut self, lost: bool, now: Timestamp) {
        self.lost = lost.then_some(now);
        let reason = if lost { "NodeNotReady" } else { "NodeReady" };
        self.note(now, Note::new(reason, self.node.clone().unwrap_or_default()));
        self.refresh(now);
    }

    /// Takes the steps that are due. Whether there was one.
    pub(super) fn advance(
        &mut self,
        now: Timestamp,
        start_up: Duration,
        is_there: &impl Fn(&Reference) -> bool,
    ) -> bool {
        let mut moved = false;
        if self.node.is_some() && self.ending.is_none() && self.ended.is_none() {
            let mut notes = Vec::new();
            let mut turn = true;
            for container in &mut self.containers {
                if turn {
                    container.begin(now, start_up, self.runs_to_end, &mut notes);
                }
                while container.advance(now, is_there, &mut notes) {
                    moved = true;
                }
                turn = turn && !container.holds_up(now);
            }
            for note in notes {
                self.note(now, note);
            }
            if self.containers.iter().any(ContainerRun::is_past_its_end) {
                self.ended_with(true, now);
                return true;
            }
        }
        self.refresh(now) || moved
    }

    /// When something may happen to it, past times included.
    pub(super) fn due(&self) -> Vec<Timestamp> {
        if self.ended.is_some() {
            return Vec::new();
        }
        let mut due: Vec<_> = self.lost.map(|since| since.plus(EVICTION)).into_iter().chain(self.ending).collect();
        if self.node.is_some() && self.ending.is_none() {
            due.extend(self.containers.iter().flat_map(ContainerRun::due));
        }
        due
    }

    /// Brings state and trouble up to date. Whether the state changed.
    fn refresh(&mut self, now: Timestamp) -> bool {
        let state = self.state_at(now);
        let changed = state != self.state;
        if changed {
            self.state = state;
            self.since = now;
        }
        let before = self.trouble.take();
        self.trouble = self.trouble_now().map(|mut trouble| {
            let same = before.filter(|b| b.kind == trouble.kind && b.container == trouble.container);
            trouble.since = same.map_or(now, |before| before.since);
            trouble
        });
        changed
    }

    fn state_at(&self, now: Timestamp) -> InstanceState {
        if self.ended.is_some() {
            return InstanceState::Ended;
        }
        let main_runs = self.containers.last().is_some_and(ContainerRun::is_running);
        let all_ready = || self.containers.iter().filter(|c| c.role != Role::Init).all(|c| c.is_ready(now));
        match (&self.ending, &self.node) {
            (Some(_), _) => InstanceState::Terminating,
            (None, None) => InstanceState::Pending,
            _ if !main_runs => InstanceState::Starting,
            _ if self.lost.is_none() && all_ready() => InstanceState::Ready,
            _ => InstanceState::Running,
        }
    }

    fn trouble_now(&self) -> Option<Trouble> {
        let whole = |kind, message: String| Trouble {
            kind,
            container: None,
            since: self.since,
            message,
            evidence: Evidence::default(),
        };
        if self.ended.is_some() {
            return None;
        }
        if self.lost.is_some() {
            let node = self.node.as_deref().unwrap_or_default();
            return Some(whole(DiagnosisKind::NodeLost, format!("node {node} does not answer")));
        }
        if let Some((kind, message)) = &self.unplaced {
            return Some(whole(*kind, message.clone()));
        }
        self.containers.iter().find_map(|container| {
            let Problem { kind, message, evidence } = container.problem()?;
            Some(Trouble { container: Some(container.name.clone()), evidence, ..whole(kind, message) })
        })
    }

    /// Keeps an event: one that was said before counts up instead.
    fn note(&mut self, now: Timestamp, note: Note) {
        let known = self.events.iter().position(|e| e.reason == note.reason && e.message == note.message);
        let mut line = known.map_or_else(
            || EventLine { count: 0, ..EventLine::new(now, note.reason, note.message) },
            |at| self.events.remove(at),
        );
        line.time = now;
        line.count += 1;
        if self.events.len() == EVENTS {
            self.events.remove(0);
        }
        self.events.push(line);
    }
}
