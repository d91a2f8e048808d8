//! One container as its kubelet sees it: a state machine over given points in time, without I/O.

use std::time::Duration;

use k8s_openapi::{
    api::core::v1::{
        Container as Spec, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
        ContainerStatus, Probe,
    },
    jiff::Timestamp,
};

use super::{
    fate::{Exit, Fate},
    output::{End, Output, Run},
};

/// Between restarts: doubled from the first to the last. A real kubelet takes 10 s to 5 minutes.
const FIRST_BACK_OFF: Duration = Duration::from_secs(1);
const LAST_BACK_OFF: Duration = Duration::from_secs(10);

/// How long a failed pull is called ErrImagePull before it is called ImagePullBackOff.
const PULL_BACK_OFF: Duration = Duration::from_secs(1);

/// How often a container that lacks its configuration looks for it again.
const CONFIG_RETRY: Duration = Duration::from_secs(1);

/// What a container is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Runs to completion before what follows.
    Init,
    /// An init container that keeps running beside the main ones.
    Sidecar,
    Main,
}

/// After which end a container is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Restart {
    Always,
    OnFailure,
    Never,
}

/// Something to tell in an Event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) container: String,
    pub(super) warning: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

#[derive(Debug)]
pub(super) struct Container {
    pub(super) name: String,
    pub(super) role: Role,
    image: String,
    fate: Fate,
    restart: Restart,
    /// The Pod has init containers, so its containers wait for one another.
    initializing: bool,
    /// `initialDelaySeconds` of the probes that there are.
    startup: Option<Duration>,
    readiness: Option<Duration>,
    state: State,
    restarts: i32,
    /// The run before this one, or before the back-off.
    last: Option<Ended>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// Its turn has not come.
    Idle,
    Pulling {
        until: Timestamp,
    },
    PullFailed {
        at: Timestamp,
    },
    PullBackOff,
    InvalidImage,
    ConfigMissing {
        what: String,
        retry: Timestamp,
    },
    Running(Running),
    /// Ended, for good or before the back-off.
    Ended(Ended),
    BackOff {
        until: Timestamp,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Running {
    since: Timestamp,
    started: bool,
    ready: bool,
    /// The failure of its probe was told.
    told_unhealthy: bool,
}

/// One run of a container, from start to end.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ended {
    /// 0 for the first run.
    number: i32,
    since: Timestamp,
    at: Timestamp,
    exit: Exit,
    /// It came to its own end, and was not killed or stopped.
    by_itself: bool,
}

impl Ended {
    fn run(&self) -> Run {
        Run { number: self.number, since: self.since, end: Some(End { at: self.at, by_itself: self.by_itself }) }
    }
}

impl Container {
    pub(super) fn new(spec: &Spec, role: Role, restart: Restart, initializing: bool) -> Self {
        let delay = |probe: &Option<Probe>| {
            let seconds = probe.as_ref()?.initial_delay_seconds.unwrap_or(0);
            Some(Duration::from_secs(seconds.max(0).unsigned_abs().into()))
        };
        let image = spec.image.clone().unwrap_or_default();
        let fate = match (role, Fate::of(&image)) {
            // An image that would run on as a main container is taken for a program that does its work and ends.
            (Role::Init, Fate::Run | Fate::NeverReady | Fate::Stubborn) => Fate::Ends(Duration::ZERO, Exit::code(0)),
            (_, fate) => fate,
        };
        Self {
            name: spec.name.clone(),
            role,
            image,
            fate,
            restart,
            initializing,
            startup: delay(&spec.startup_probe),
            readiness: delay(&spec.readiness_probe),
            state: State::Idle,
            restarts: 0,
            last: None,
        }
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.state, State::Running(_))
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self.state, State::Running(Running { ready: true, .. }))
    }

    /// Running, and past its startup probe: what follows a sidecar may begin.
    pub(super) fn is_started(&self) -> bool {
        matches!(self.state, State::Running(Running { started: true, .. }))
    }

    /// Waiting without ever having run: what makes a Pod Pending.
    pub(super) fn never_ran(&self) -> bool {
        self.last.is_none() && !matches!(self.state, State::Running(_) | State::Ended(_))
    }

    /// The exit code, once it has ended and will not be started again.
    pub(super) fn exit_code(&self) -> Option<i32> {
        match &self.state {
            State::Ended(ended) if !self.restarts_after(ended.exit) => Some(ended.exit.code),
            _ => None,
        }
    }

    /// The exit code of its latest run that has ended.
    pub(super) fn last_code(&self) -> Option<i32> {
        match &self.state {
            State::Ended(ended) => Some(ended.exit.code),
            _ => self.last.as_ref().map(|last| last.exit.code),
        }
    }

    /// Whether the next look would create it, and so needs to know whether its configuration is there.
    pub(super) fn wants_configuration(&self, now: Timestamp) -> bool {
        match &self.state {
            State::Idle => !matches!(self.fate, Fate::Slow(_) | Fate::PullError | Fate::InvalidImage),
            State::Pulling { until } | State::BackOff { until } => *until <= now,
            State::ConfigMissing { retry, .. } => *retry <= now,
            _ => false,
        }
    }

    /// Takes at most one step: every state in between is seen by whoever watches. Returns when to look again.
    /// `missing` says what its configuration lacks, and matters only when it [wants](Self::wants_configuration) to know.
    pub(super) fn advance(
        &mut self,
        now: Timestamp,
        missing: Option<&str>,
        notes: &mut Vec<Note>,
    ) -> Option<Timestamp> {
        match self.state.clone() {
            State::Idle => self.begin(now, missing, notes),
            State::Pulling { until } if until <= now => self.create(now, missing, notes),
            State::ConfigMissing { retry, .. } if retry <= now => self.create(now, missing, notes),
            State::BackOff { until } if until <= now => {
                self.restarts += 1;
                self.create(now, missing, notes);
            }
            State::PullFailed { at } if at + PULL_BACK_OFF <= now => {
                self.state = State::PullBackOff;
                notes.push(self.warning("BackOff", format!("Back-off pulling image {:?}", self.image)));
                notes.push(self.warning("Failed", "Error: ImagePullBackOff".to_owned()));
            }
            State::Running(running) => self.keep_running(running, now, notes),
            State::Ended(ended) if self.restarts_after(ended.exit) => {
                let until = ended.at + self.back_off();
                notes.push(self.warning("BackOff", format!("Back-off restarting failed container {}", self.name)));
                self.state = State::BackOff { until };
                self.last = Some(ended);
            }
            _ => {}
        }
        self.due(now)
    }

    /// SIGTERM: it stops, if it runs and listens.
    pub(super) fn terminate(&mut self, now: Timestamp) {
        // Work that was to come to an end is cut short. What serves has nothing to finish.
        let exit = if self.restart == Restart::Always { Exit::code(0) } else { Exit::interrupted() };
        if self.fate != Fate::Stubborn {
            self.end(now, exit, false);
        }
    }

    /// SIGKILL: it ends, if it runs.
    pub(super) fn kill(&mut self, now: Timestamp) {
        self.end(now, Exit::killed(), false);
    }

    fn end(&mut self, now: Timestamp, exit: Exit, by_itself: bool) {
        if let State::Running(Running { since, .. }) = self.state {
            self.state = State::Ended(Ended { number: self.restarts, since, at: now, exit, by_itself });
        }
    }

    fn begin(&mut self, now: Timestamp, missing: Option<&str>, notes: &mut Vec<Note>) {
        match self.fate {
            Fate::InvalidImage => {
                self.state = State::InvalidImage;
                let message = format!("Failed to apply default image tag {:?}: couldn't parse image name", self.image);
                notes.push(self.warning("InspectFailed", message));
                notes.push(self.warning("Failed", "Error: InvalidImageName".to_owned()));
            }
            Fate::PullError => {
                self.state = State::PullFailed { at: now };
                notes.push(self.warning("Failed", format!("Failed to pull image {:?}: not found", self.image)));
                notes.push(self.warning("Failed", "Error: ErrImagePull".to_owned()));
            }
            Fate::Slow(pull) => self.state = State::Pulling { until: now + pull },
            _ => self.create(now, missing, notes),
        }
    }

    fn create(&mut self, now: Timestamp, missing: Option<&str>, notes: &mut Vec<Note>) {
        if let Some(what) = missing {
            if !matches!(self.state, State::ConfigMissing { .. }) {
                notes.push(self.warning("Failed", format!("Error: {what}")));
            }
            self.state = State::ConfigMissing { what: what.to_owned(), retry: now + CONFIG_RETRY };
            return;
        }
        let started = self.startup.is_none();
        let ready = started && self.readiness.is_none();
        self.state = State::Running(Running { since: now, started, ready, told_unhealthy: false });
    }

    /// The first thing that is due: the end, then the startup probe, then the readiness probe.
    fn keep_running(&mut self, mut running: Running, now: Timestamp, notes: &mut Vec<Note>) {
        if let Fate::Ends(after, exit) = self.fate
            && running.since + after <= now
        {
            // When it was due, however late it is seen: that is what its log says.
            self.end(running.since + after, exit, exit.signal.is_none());
            return;
        }
        if self.probe_due(&running).is_none_or(|due| due > now) {
            return;
        }
        if self.fate == Fate::NeverReady {
            let kind = if running.started { "Readiness" } else { "Startup" };
            notes.push(self.warning("Unhealthy", format!("{kind} probe failed: the image says never-ready")));
            running.told_unhealthy = true;
        } else if running.started {
            running.ready = true;
        } else {
            running.started = true;
            running.ready = self.readiness.is_none();
        }
        self.state = State::Running(running);
    }

    /// When the next probe of a running container passes or fails, if one is still to come.
    fn probe_due(&self, running: &Running) -> Option<Timestamp> {
        if running.ready || running.told_unhealthy {
            return None;
        }
        let delay = if running.started { self.readiness } else { self.startup };
        Some(running.since + delay?)
    }

    fn due(&self, now: Timestamp) -> Option<Timestamp> {
        match &self.state {
            State::Pulling { until } | State::BackOff { until } => Some(*until),
            State::ConfigMissing { retry, .. } => Some(*retry),
            State::PullFailed { at } => Some(*at + PULL_BACK_OFF),
            State::Ended(ended) => self.restarts_after(ended.exit).then_some(now),
            State::Running(running) => {
                let crash = match self.fate {
                    Fate::Ends(after, _) => Some(running.since + after),
                    _ => None,
                };
                crash.into_iter().chain(self.probe_due(running)).min()
            }
            State::Idle | State::PullBackOff | State::InvalidImage => None,
        }
    }

    fn restarts_after(&self, exit: Exit) -> bool {
        match self.restart {
            Restart::Always => true,
            Restart::OnFailure => exit.code != 0,
            Restart::Never => false,
        }
    }

    fn back_off(&self) -> Duration {
        let doublings = self.restarts.clamp(0, 4).unsigned_abs();
        (FIRST_BACK_OFF * 2_u32.pow(doublings)).min(LAST_BACK_OFF)
    }

    fn warning(&self, reason: &'static str, message: String) -> Note {
        Note { container: self.name.clone(), warning: true, reason, message }
    }

    /// The end that its image has in store for a run.
    fn fated_end(&self, running: &Running) -> Option<End> {
        match self.fate {
            Fate::Ends(after, exit) => Some(End { at: running.since + after, by_itself: exit.signal.is_none() }),
            _ => None,
        }
    }

    /// What there is to read of it: a real kubelet's choice (`validateContainerLogStatus`), in its words.
    pub(super) fn output(&self) -> Output {
        let last = self.last.as_ref().map(Ended::run);
        let latest = match &self.state {
            State::Running(running) => {
                Ok(Run { number: self.restarts, since: running.since, end: self.fated_end(running) })
            }
            State::Ended(ended) => Ok(ended.run()),
            waiting => last.ok_or_else(|| match self.waiting(waiting).0 {
                "ErrImagePull" => "image can't be pulled",
                "ImagePullBackOff" => "trying and failing to pull image",
                reason => reason,
            }),
        };
        Output { container: self.name.clone(), latest, previous: last }
    }

    /// As the API shows it. `uid` is the Pod's, for identifiers that differ between Pods.
    pub(super) fn status(&self, uid: &str) -> ContainerStatus {
        let id = |number: i32| format!("sim://{uid}/{}/{number}", self.name);
        let terminated = |ended: &Ended| ContainerState {
            terminated: Some(ContainerStateTerminated {
                container_id: Some(id(ended.number)),
                exit_code: ended.exit.code,
                signal: ended.exit.signal,
                reason: Some(ended.exit.reason.to_owned()),
                started_at: Some(ended.since.into()),
                finished_at: Some(ended.at.into()),
                message: None,
            }),
            ..ContainerState::default()
        };
        let state = match &self.state {
            State::Running(running) => ContainerState {
                running: Some(ContainerStateRunning { started_at: Some(running.since.into()) }),
                ..ContainerState::default()
            },
            State::Ended(ended) => terminated(ended),
            waiting => {
                let (reason, message) = self.waiting(waiting);
                let waiting = ContainerStateWaiting { reason: Some(reason.to_owned()), message };
                ContainerState { waiting: Some(waiting), ..ContainerState::default() }
            }
        };
        let run = match &self.state {
            State::Running(_) | State::Ended(_) => Some(self.restarts),
            _ => self.last.as_ref().map(|last| last.number),
        };
        ContainerStatus {
            name: self.name.clone(),
            image: self.image.clone(),
            image_id: run.map(|_| format!("sim://{}", self.image)).unwrap_or_default(),
            container_id: run.map(id),
            ready: self.is_ready() || (self.role == Role::Init && self.exit_code() == Some(0)),
            started: Some(self.is_started()),
            restart_count: self.restarts,
            state: Some(state),
            last_state: self.last.as_ref().map(terminated),
            ..ContainerStatus::default()
        }
    }

    /// Reason and message of a state in which it waits.
    fn waiting(&self, state: &State) -> (&'static str, Option<String>) {
        let image = &self.image;
        match state {
            State::PullFailed { .. } => ("ErrImagePull", Some(format!("failed to pull image {image:?}: not found"))),
            State::PullBackOff => ("ImagePullBackOff", Some(format!("Back-off pulling image {image:?}"))),
            State::InvalidImage => ("InvalidImageName", Some(format!("couldn't parse image name {image:?}"))),
            State::ConfigMissing { what, .. } => ("CreateContainerConfigError", Some(what.clone())),
            State::BackOff { .. } => {
                let seconds = self.back_off().as_secs();
                ("CrashLoopBackOff", Some(format!("back-off {seconds}s restarting failed container={}", self.name)))
            }
            State::Idle if self.initializing => ("PodInitializing", None),
            _ => ("ContainerCreating", None),
        }
    }
}
