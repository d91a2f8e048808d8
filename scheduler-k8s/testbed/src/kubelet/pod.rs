//! One Pod as its kubelet sees it: which container's turn it is, and the status that follows from theirs. No I/O.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use k8s_openapi::{
    api::core::v1::{Container as ContainerSpec, HostIP, Pod, PodCondition, PodIP, PodSpec, PodStatus},
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::Timestamp,
};

use super::{
    container::{Container, Note, Restart, Role},
    output::Output,
};

/// A Pod on a node, from the moment when its kubelet learns of it.
#[derive(Debug)]
pub(super) struct SimulatedPod {
    uid: String,
    generation: Option<i64>,
    address: IpAddr,
    host: IpAddr,
    since: Timestamp,
    /// Init containers and sidecars in their order, then the main ones.
    containers: Vec<Container>,
    /// How many of them may run. Never less than before: what has begun goes on when a sidecar crashes.
    turn: usize,
    /// How long its containers may take to end, unless a delete says otherwise.
    grace: Duration,
    /// When it has been active for too long.
    active_until: Option<Timestamp>,
    /// It was active for too long, and has failed by that.
    overdue: bool,
    /// It is to be deleted.
    deleted: bool,
    /// When containers that ignore SIGTERM are killed; set once the Pod is to end, for either reason.
    kill_at: Option<Timestamp>,
    told_killing: bool,
    /// When each condition got its present status.
    conditions: BTreeMap<&'static str, (bool, Timestamp)>,
}

/// What a look at the Pod came to.
#[derive(Debug, Default)]
pub(super) struct Step {
    pub(super) notes: Vec<Note>,
    /// When to look again, if nothing happens before. May be in the past, which means at once.
    pub(super) due: Option<Timestamp>,
}

impl SimulatedPod {
    pub(super) fn new(pod: &Pod, address: IpAddr, host: IpAddr, now: Timestamp) -> Self {
        let nothing = PodSpec::default();
        let spec = pod.spec.as_ref().unwrap_or(&nothing);
        let restart = restart(spec.restart_policy.as_deref());
        let init = spec.init_containers.as_deref().unwrap_or_default();
        let container = |spec: &ContainerSpec, role, restart| Container::new(spec, role, restart, !init.is_empty());
        let before = init.iter().map(|spec| match spec.restart_policy.as_deref() {
            Some("Always") => container(spec, Role::Sidecar, Restart::Always),
            // It runs to completion, so for it Always means OnFailure.
            _ if restart == Restart::Never => container(spec, Role::Init, Restart::Never),
            _ => container(spec, Role::Init, Restart::OnFailure),
        });
        let main = spec.containers.iter().map(|spec| container(spec, Role::Main, restart));
        let mut simulated = Self {
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            generation: None,
            address,
            host,
            since: now,
            containers: before.chain(main).collect(),
            turn: 0,
            grace: seconds(spec.termination_grace_period_seconds.unwrap_or(30)),
            active_until: spec.active_deadline_seconds.map(|limit| now + seconds(limit)),
            overdue: false,
            deleted: false,
            kill_at: None,
            told_killing: false,
            conditions: BTreeMap::new(),
        };
        simulated.pass_turn();
        simulated
    }

    /// Takes note of what may change in a Pod: its generation, and that it is to be deleted.
    pub(super) fn observe(&mut self, pod: &Pod, now: Timestamp) {
        self.generation = pod.metadata.generation;
        if pod.metadata.deletion_timestamp.is_some() {
            self.deleted = true;
            self.end(now + seconds(pod.metadata.deletion_grace_period_seconds.unwrap_or(0)));
        }
    }

    fn end(&mut self, kill_at: Timestamp) {
        // A second delete may shorten the grace, a repeated observation must not lengthen it.
        self.kill_at = Some(self.kill_at.map_or(kill_at, |earlier| earlier.min(kill_at)));
    }

    /// The containers that the next look would create, and whose configuration therefore matters now.
    pub(super) fn wants_configuration(&self, now: Timestamp) -> impl Iterator<Item = &str> {
        let turn = if self.kill_at.is_some() { 0 } else { self.turn };
        self.containers[..turn].iter().filter(move |one| one.wants_configuration(now)).map(|one| one.name.as_str())
    }

    /// Lets every container whose turn it is take one step. `missing` has what the configuration of those lacks that
    /// [want](Self::wants_configuration) it.
    pub(super) fn advance(&mut self, now: Timestamp, missing: &BTreeMap<String, String>) -> Step {
        let mut step = Step::default();
        if self.kill_at.is_none() && !self.is_complete() && self.active_until.is_some_and(|until| until <= now) {
            self.overdue = true;
            self.end(now + self.grace);
        }
        if let Some(kill_at) = self.kill_at {
            self.tell_killing(&mut step.notes);
            self.stop(now, kill_at);
            step.due = self.runs().then_some(kill_at);
            return step;
        }
        if self.is_complete() {
            // Sidecars do not keep a Pod alive.
            self.stop(now, now);
            return step;
        }
        for one in &mut self.containers[..self.turn] {
            let missing = missing.get(&one.name).map(String::as_str);
            let due = one.advance(now, missing, &mut step.notes);
            step.due = step.due.into_iter().chain(due).min();
        }
        if self.pass_turn() || self.is_complete() {
            step.due = Some(now);
        }
        step.due = step.due.into_iter().chain(self.active_until).min();
        step
    }

    /// What there is to read of each container.
    pub(super) fn output(&self) -> Vec<Output> {
        self.containers.iter().map(Container::output).collect()
    }

    fn runs(&self) -> bool {
        self.containers.iter().any(Container::is_running)
    }

    /// Whether it is to be deleted, and nothing of it runs any more.
    pub(super) fn is_gone(&self) -> bool {
        self.deleted && !self.runs()
    }

    /// Lets containers begin up to and with the first one that the others have to wait for. Whether that is news.
    fn pass_turn(&mut self) -> bool {
        let holds_up = |one: &Container| match one.role {
            Role::Init => one.exit_code() != Some(0),
            Role::Sidecar => !one.is_started(),
            Role::Main => false,
        };
        let turn = self.containers.iter().position(holds_up).map_or(self.containers.len(), |first| first + 1);
        let news = turn > self.turn;
        self.turn = self.turn.max(turn);
        news
    }

    fn with_role(&self, role: Role) -> impl Iterator<Item = &Container> {
        self.containers.iter().filter(move |one| one.role == role)
    }

    /// All its work is done, or an init container failed for good.
    fn is_complete(&self) -> bool {
        self.has_failed_init() || self.with_role(Role::Main).all(|one| one.exit_code().is_some())
    }

    fn has_failed_init(&self) -> bool {
        self.with_role(Role::Init).any(|one| one.exit_code().is_some_and(|code| code != 0))
    }

    /// SIGTERM to what runs, SIGKILL when the grace is over; sidecars when everything else has ended.
    fn stop(&mut self, now: Timestamp, kill_at: Timestamp) {
        for sidecars in [false, true] {
            let turn = |one: &&mut Container| (one.role == Role::Sidecar) == sidecars;
            for one in self.containers.iter_mut().filter(turn) {
                one.terminate(now);
                if now >= kill_at {
                    one.kill(now);
                }
            }
            if self.containers.iter().any(|one| one.role != Role::Sidecar && one.is_running()) {
                return;
            }
        }
    }

    fn tell_killing(&mut self, notes: &mut Vec<Note>) {
        if std::mem::replace(&mut self.told_killing, true) {
            return;
        }
        notes.extend(self.containers.iter().filter(|one| one.is_running()).map(|one| Note {
            container: one.name.clone(),
            warning: false,
            reason: "Killing",
            message: format!("Stopping container {}", one.name),
        }));
    }

    /// The status as the API shows it, without the conditions that are not a kubelet's.
    pub(super) fn status(&mut self, now: Timestamp) -> PodStatus {
        let phase = self.phase();
        let statuses = |main: bool| {
            let wanted = self.containers.iter().filter(|one| (one.role == Role::Main) == main);
            let statuses: Vec<_> = wanted.map(|one| one.status(&self.uid)).collect();
            (!statuses.is_empty()).then_some(statuses)
        };
        let overdue = self.overdue && phase == "Failed";
        PodStatus {
            phase: Some(phase.to_owned()),
            reason: overdue.then(|| "DeadlineExceeded".to_owned()),
            message: overdue.then(|| "Pod was active on the node longer than the specified deadline".to_owned()),
            observed_generation: self.generation,
            start_time: Some(Time(self.since)),
            pod_ip: Some(self.address.to_string()),
            pod_ips: Some(vec![PodIP { ip: self.address.to_string() }]),
            host_ip: Some(self.host.to_string()),
            host_ips: Some(vec![HostIP { ip: self.host.to_string() }]),
            init_container_statuses: statuses(false),
            container_statuses: statuses(true),
            conditions: Some(self.current_conditions(phase, now)),
            ..PodStatus::default()
        }
    }

    fn phase(&self) -> &'static str {
        if self.overdue && !self.runs() {
            return "Failed";
        }
        if self.is_complete() || self.is_gone() {
            let mut counted = self.containers.iter().filter(|one| one.role != Role::Sidecar);
            return if counted.all(|one| one.last_code() == Some(0)) { "Succeeded" } else { "Failed" };
        }
        let initializing = self.with_role(Role::Init).any(|one| one.exit_code().is_none());
        if initializing || self.with_role(Role::Main).any(Container::never_ran) { "Pending" } else { "Running" }
    }

    fn current_conditions(&mut self, phase: &str, now: Timestamp) -> Vec<PodCondition> {
        let names =
            |unready: Vec<&Container>| unready.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(" ");
        let incomplete: Vec<_> = self
            .containers
            .iter()
            .filter(|one| match one.role {
                Role::Init => one.exit_code() != Some(0),
                Role::Sidecar => one.never_ran(),
                Role::Main => false,
            })
            .collect();
        let unready: Vec<_> = self.containers.iter().filter(|one| one.role != Role::Init && !one.is_ready()).collect();
        let initialized = match incomplete.is_empty() {
            true => None,
            false => Some((
                "ContainersNotInitialized",
                format!("containers with incomplete status: [{}]", names(incomplete)),
            )),
        };
        let ready = match (phase, unready.is_empty()) {
            ("Succeeded", _) => Some(("PodCompleted", String::new())),
            ("Failed", _) => Some(("PodFailed", String::new())),
            (_, true) => None,
            (_, false) => Some(("ContainersNotReady", format!("containers with unready status: [{}]", names(unready)))),
        };
        [("Initialized", initialized), ("ContainersReady", ready.clone()), ("Ready", ready)]
            .map(|(type_, problem)| self.condition(type_, problem, now))
            .into()
    }

    fn condition(&mut self, type_: &'static str, problem: Option<(&str, String)>, now: Timestamp) -> PodCondition {
        let holds = problem.is_none();
        let known = self.conditions.entry(type_).or_insert((holds, now));
        if known.0 != holds {
            *known = (holds, now);
        }
        PodCondition {
            type_: type_.to_owned(),
            status: if holds { "True" } else { "False" }.to_owned(),
            reason: problem.as_ref().map(|(reason, _)| (*reason).to_owned()),
            message: problem.map(|(_, message)| message).filter(|message| !message.is_empty()),
            last_transition_time: Some(Time(known.1)),
            observed_generation: self.generation,
            ..PodCondition::default()
        }
    }
}

fn seconds(count: i64) -> Duration {
    Duration::from_secs(count.max(0).unsigned_abs())
}

fn restart(policy: Option<&str>) -> Restart {
    match policy {
        Some("Never") => Restart::Never,
        Some("OnFailure") => Restart::OnFailure,
        _ => Restart::Always,
    }
}
