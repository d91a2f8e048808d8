//! One container of an instance: a state machine over given points in time.

use std::fmt;
use std::time::Duration;

use super::fate::Fate;
use super::instance::Note;
use super::log::Log;
use super::timing::{FIRST_BACK_OFF, LAST_BACK_OFF, STEADY, STOPPING};
use crate::{Container, DiagnosisKind, EnvValue, Evidence, Exit, Probe, Role, Timestamp, Volume, VolumeSource};

/// One container of an instance.
#[derive(Clone, Debug)]
pub(super) struct ContainerRun {
    pub(super) name: String,
    pub(super) role: Role,
    image: String,
    fate: Fate,
    /// The delays of the probes that there are.
    startup: Option<Duration>,
    readiness: Option<Duration>,
    /// The configurations that it refers to.
    references: Vec<Reference>,
    /// Which of them was not there when it was to start.
    missing: Option<Reference>,
    /// Whether it is not started again after it ended.
    once: bool,
    phase: Phase,
    pub(super) restarts: u32,
    /// How often it ended without a long run in between.
    crashes: u32,
    last: Option<Exit>,
    pub(super) log: Log,
}

/// A configuration that a container refers to, or one entry of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) key: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
enum Phase {
    /// Its turn has not come.
    Idle,
    /// It is being pulled and started.
    Starting { until: Timestamp },
    /// It will never start.
    Stuck(DiagnosisKind),
    /// It runs. `told`: that its probe fails was said.
    Running { since: Timestamp, told: bool },
    /// It ended and waits to be started again.
    BackOff { until: Timestamp },
    /// An init container that did its work.
    Done,
    /// It ended and is not started again.
    Over,
    /// It ended with its instance.
    Stopped,
}

/// What is wrong with a container.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Problem {
    pub(super) kind: DiagnosisKind,
    pub(super) message: String,
    pub(super) evidence: Evidence,
}

impl ContainerRun {
    pub(super) fn new(spec: &Container, volumes: &[Volume]) -> Self {
        let delay = |probe: &Option<Probe>| probe.as_ref().map(|probe| probe.initial_delay.duration());
        Self {
            name: spec.name.clone(),
            role: spec.role,
            image: spec.image.clone(),
            fate: Fate::of_image(&spec.image),
            startup: delay(&spec.probes.startup),
            readiness: delay(&spec.probes.readiness),
            references: references(spec, volumes),
            missing: None,
            once: false,
            phase: Phase::Idle,
            restarts: 0,
            crashes: 0,
            last: None,
            log: Log::default(),
        }
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running { .. })
    }

    /// Whether it ignores being asked to stop.
    pub(super) fn is_stubborn(&self) -> bool {
        self.fate == Fate::Stubborn && self.is_running()
    }

    /// When it is past its startup probe.
    fn started_at(&self) -> Option<Timestamp> {
        let Phase::Running { since, .. } = self.phase else { return None };
        match self.startup {
            None => Some(since),
            Some(_) if self.fate == Fate::NeverReady => None,
            Some(delay) => Some(since.plus(delay)),
        }
    }

    /// When its readiness probe passes. Its delay counts from the start of the container.
    fn ready_at(&self) -> Option<Timestamp> {
        let Phase::Running { since, .. } = self.phase else { return None };
        let started = self.started_at()?;
        match self.readiness {
            None => Some(started),
            Some(_) if self.fate == Fate::NeverReady => None,
            Some(delay) => Some(started.max(since.plus(delay))),
        }
    }

    /// When its first probe that can never pass fails for the first time.
    fn unhealthy_at(&self) -> Option<Timestamp> {
        let Phase::Running { since, told: false } = self.phase else { return None };
        let delay = self.startup.or(self.readiness).filter(|_| self.fate == Fate::NeverReady)?;
        Some(since.plus(delay))
    }

    /// When its run ends, and how.
    fn ends_at(&self) -> Option<(Timestamp, Exit)> {
        let Phase::Running { since, .. } = self.phase else { return None };
        let (after, end) = match self.fate {
            Fate::Crash { after, exit_code } | Fate::Done { after, exit_code } => (after, Exit::new(exit_code.into())),
            Fate::Killed { after, signal } => {
                (after, Exit { signal: Some(signal.into()), ..Exit::new(128 + i32::from(signal)) })
            }
            Fate::OutOfMemory { after } => (after, Exit { signal: Some(9), out_of_memory: true, ..Exit::new(137) }),
            // What would run on as a main container is taken for a program that does its work and ends.
            _ if self.role == Role::Init => (0, Exit::new(0)),
            // Likewise the program of a job, unless its image says that it runs.
            _ if self.once && !Fate::is_named_by(&self.image) => (1, Exit::new(0)),
            _ => return None,
        };
        Some((since.plus(Duration::from_secs(after.into())), end))
    }

    pub(super) fn is_ready(&self, now: Timestamp) -> bool {
        self.ready_at().is_some_and(|at| at <= now)
    }

    /// Whether what follows it in the list has to wait.
    pub(super) fn holds_up(&self, now: Timestamp) -> bool {
        match self.role {
            Role::Init => self.phase != Phase::Done,
            Role::Sidecar => self.started_at().is_none_or(|at| at > now),
            Role::Main => false,
        }
    }

    /// Lets it begin, if it has not. `start_up` is how long any container takes to start.
    /// `once`: it is not started again after its end.
    pub(super) fn begin(&mut self, now: Timestamp, start_up: Duration, once: bool, notes: &mut Vec<Note>) {
        if self.phase != Phase::Idle {
            return;
        }
        self.once = once && self.role != Role::Sidecar;
        self.phase = match self.fate {
            Fate::InvalidImage => {
                notes.push(Note::new("Failed", format!("{:?} is not an image reference", self.image)));
                Phase::Stuck(DiagnosisKind::InvalidImage)
            }
            Fate::PullError => {
                notes.push(Note::new("Failed", format!("image {:?} cannot be pulled: not found", self.image)));
                Phase::Stuck(DiagnosisKind::ImagePull)
            }
            Fate::Slow { after } => {
                Phase::Starting { until: now.plus(start_up.saturating_add(Duration::from_secs(after.into()))) }
            }
            _ => Phase::Starting { until: now.plus(start_up) },
        };
    }

    /// Takes the steps that are due. Whether there was one.
    pub(super) fn advance(
        &mut self,
        now: Timestamp,
        is_there: &impl Fn(&Reference) -> bool,
        notes: &mut Vec<Note>,
    ) -> bool {
        match self.phase {
            Phase::Starting { until } if until <= now => {
                self.missing = self.references.iter().find(|reference| !is_there(reference)).cloned();
                match &self.missing {
                    Some(missing) => {
                        notes.push(Note::new("Failed", missing.to_string()));
                        self.phase = Phase::Stuck(DiagnosisKind::ConfigMissing);
                    }
                    None => self.run(now, notes),
                }
            }
            // It starts as soon as somebody stores what is missing.
            Phase::Stuck(DiagnosisKind::ConfigMissing) if self.references.iter().all(is_there) => {
                self.missing = None;
                self.run(now, notes);
            }
            Phase::BackOff { until } if until <= now => {
                self.restarts = self.restarts.saturating_add(1);
                self.run(now, notes);
            }
            Phase::Running { since, .. } => {
                if let Some((_, end)) = self.ends_at().filter(|(at, _)| *at <= now) {
                    self.ended(end, now, notes);
                } else if self.unhealthy_at().is_some_and(|at| at <= now) {
                    notes.push(Note::new("Unhealthy", format!("a probe of container {} fails", self.name)));
                    self.phase = Phase::Running { since, told: true };
                } else if self.crashes > 0 && now.since(since) >= STEADY {
                    self.crashes = 0;
                } else {
                    return false;
                }
            }
            _ => return false,
        }
        true
    }

    fn run(&mut self, now: Timestamp, notes: &mut Vec<Note>) {
        notes.push(Note::new("Started", format!("container {} was started", self.name)));
        self.phase = Phase::Running { since: now, told: false };
        self.log.begin(self.restarts, now);
    }

    fn ended(&mut self, end: Exit, now: Timestamp, notes: &mut Vec<Note>) {
        self.last = Some(end);
        self.log.end(now, true);
        if self.role == Role::Init && end.is_success() {
            self.phase = Phase::Done;
            return;
        }
        if self.once {
            self.phase = Phase::Over;
            return;
        }
        let back_off = FIRST_BACK_OFF.saturating_mul(1 << self.crashes.min(16)).min(LAST_BACK_OFF);
        notes.push(Note::new("BackOff", format!("container {} ended and is started again", self.name)));
        self.crashes = self.crashes.saturating_add(1);
        self.phase = Phase::BackOff { until: now.plus(back_off) };
    }

    /// How it ended, if it is not started again.
    pub(super) fn exit(&self) -> Option<Exit> {
        self.last.filter(|_| self.phase == Phase::Over)
    }

    /// Whether its end is that of its instance.
    pub(super) fn is_past_its_end(&self) -> bool {
        self.phase == Phase::Over
    }

    /// It ends with its instance.
    pub(super) fn stop(&mut self, now: Timestamp) {
        self.log.end(now, false);
        if !matches!(self.phase, Phase::Over | Phase::Done) {
            self.phase = Phase::Stopped;
        }
    }

    /// It ends, and is started again. What does not run is left alone.
    pub(super) fn restart(&mut self, now: Timestamp) {
        if self.is_running() {
            self.log.end(now, false);
            self.phase = Phase::BackOff { until: now.plus(STOPPING) };
        }
    }

    /// When something may happen to it, past times included.
    pub(super) fn due(&self) -> impl Iterator<Item = Timestamp> {
        let steady = match self.phase {
            Phase::Starting { until } | Phase::BackOff { until } => Some(until),
            Phase::Running { since, .. } if self.crashes > 0 => Some(since.plus(STEADY)),
            _ => None,
        };
        let end = self.ends_at().map(|(at, _)| at);
        [steady, end, self.started_at(), self.ready_at(), self.unhealthy_at()].into_iter().flatten()
    }

    /// What is wrong with it.
    pub(super) fn problem(&self) -> Option<Problem> {
        let problem = |kind, message, evidence| Some(Problem { kind, message, evidence });
        match self.phase {
            Phase::Stuck(kind) => {
                let message = match kind {
                    DiagnosisKind::ConfigMissing => self.missing.as_ref().map(ToString::to_string).unwrap_or_default(),
                    _ => format!("image {:?}", self.image),
                };
                problem(kind, message, Evidence::default())
            }
            _ if self.crashes > 0 => {
                let end = self.last?;
                let kind = if end.out_of_memory { DiagnosisKind::OutOfMemory } else { DiagnosisKind::CrashLoop };
                let evidence = Evidence {
                    exit_code: Some(end.code),
                    signal: end.signal,
                    restarts: Some(self.restarts),
                    events: Vec::new(),
                };
                problem(kind, String::new(), evidence)
            }
            _ => None,
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, version, key } = self;
        match key {
            None => write!(f, "there is no configuration {name} of version {version}"),
            Some(key) => write!(f, "there is no entry {key} in a configuration {name} of version {version}"),
        }
    }
}

/// The configurations that a container refers to.
fn references(spec: &Container, volumes: &[Volume]) -> Vec<Reference> {
    let of_env = spec.env.iter().filter_map(|var| match &var.value {
        EnvValue::Config(entry) => {
            let (name, version) = (entry.name.clone(), entry.version.clone());
            Some(Reference { name, version, key: Some(entry.key.clone()) })
        }
        _ => None,
    });
    let mounted = |volume: &&Volume| spec.mounts.iter().any(|mount| mount.volume == volume.name);
    let of_volumes = volumes.iter().filter(mounted).filter_map(|volume| match &volume.source {
        VolumeSource::Config(config) => {
            Some(Reference { name: config.name.clone(), version: config.version.clone(), key: None })
        }
        _ => None,
    });
    of_env.chain(of_volumes).collect()
}
