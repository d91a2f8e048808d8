//! Pods played over simulated time: no clock, no server.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::{
    api::core::v1::{ContainerStatus, Pod, PodStatus},
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::Timestamp,
};
use serde_json::{Value, json};

use super::{output::End, pod::SimulatedPod};

const START: Timestamp = Timestamp::UNIX_EPOCH;

fn at(seconds: u64) -> Timestamp {
    START + Duration::from_secs(seconds)
}

/// A Pod, and everything that was published and told about it.
struct Play {
    pod: Pod,
    simulated: SimulatedPod,
    now: Timestamp,
    due: Option<Timestamp>,
    missing: BTreeMap<String, String>,
    published: Vec<PodStatus>,
    /// Reason and container.
    told: Vec<(&'static str, String)>,
}

impl Play {
    fn new(spec: Value) -> Self {
        let pod: Pod =
            serde_json::from_value(json!({"metadata": {"uid": "u", "generation": 1}, "spec": spec})).unwrap();
        let address = [198, 18, 16, 1].into();
        let simulated = SimulatedPod::new(&pod, address, [198, 18, 0, 1].into(), START);
        let (published, told, missing) = Default::default();
        Self { pod, simulated, now: START, due: Some(START), missing, published, told }
    }

    /// A Pod of one main container.
    fn of(image: &str) -> Self {
        Self::new(json!({"containers": [{"name": "main", "image": image}]}))
    }

    fn look(&mut self) {
        self.simulated.observe(&self.pod, self.now);
        let step = self.simulated.advance(self.now, &self.missing);
        self.due = step.due;
        self.told.extend(step.notes.into_iter().map(|note| (note.reason, note.container)));
        let status = self.simulated.status(self.now);
        if self.published.last() != Some(&status) {
            self.published.push(status);
        }
    }

    /// Looks whenever something is due, up to and with this second.
    fn until(&mut self, second: u64) -> &mut Self {
        let mut looks = 0;
        while let Some(due) = self.due.filter(|due| *due <= at(second)) {
            self.now = self.now.max(due);
            self.look();
            looks += 1;
            assert!(looks < 1000, "it does not come to rest");
        }
        self.now = at(second);
        self
    }

    fn delete(&mut self, grace: i64) -> &mut Self {
        self.pod.metadata.deletion_timestamp = Some(Time(self.now));
        self.pod.metadata.deletion_grace_period_seconds = Some(grace);
        self.due = Some(self.now);
        self
    }

    fn status(&self) -> &PodStatus {
        self.published.last().unwrap()
    }

    fn phase(&self) -> &str {
        self.status().phase.as_deref().unwrap()
    }

    fn main(&self) -> &ContainerStatus {
        &self.status().container_statuses.as_ref().unwrap()[0]
    }
}

fn summary(status: &ContainerStatus) -> String {
    let state = status.state.as_ref().unwrap();
    match (&state.waiting, &state.terminated) {
        (Some(waiting), _) => waiting.reason.clone().unwrap(),
        (_, Some(terminated)) => format!("exit {}", terminated.exit_code),
        _ if status.ready => "ready".to_owned(),
        _ => "running".to_owned(),
    }
}

#[test]
fn back_off_doubles_up_to_its_cap() {
    let mut play = Play::of("sim/crash/after-0");
    play.until(40);
    let mut starts: Vec<_> = play
        .published
        .iter()
        .filter_map(|status| {
            let running = status.container_statuses.as_ref()?[0].state.as_ref()?.running.clone()?;
            Some(running.started_at?.0.as_second())
        })
        .collect();
    starts.dedup();
    assert_eq!(starts, [0, 1, 3, 7, 15, 25, 35]);
    assert_eq!(play.main().restart_count, 6);
}

#[test]
fn every_state_of_a_crash_is_published() {
    let mut play = Play::of("sim/crash/after-2/exit-3");
    play.until(3);
    let seen: Vec<_> =
        play.published.iter().map(|status| summary(&status.container_statuses.as_ref().unwrap()[0])).collect();
    assert_eq!(seen, ["ready", "exit 3", "CrashLoopBackOff", "ready"]);
    let last = play.main().last_state.as_ref().unwrap().terminated.as_ref().unwrap();
    assert_eq!(
        (last.exit_code, last.started_at.clone(), last.finished_at.clone()),
        (3, Some(Time(at(0))), Some(Time(at(2))))
    );
    assert_ne!(last.container_id, play.main().container_id);
}

#[test]
fn with_a_readiness_probe_the_first_status_is_not_ready() {
    let mut play = Play::new(json!({"containers": [
        {"name": "main", "image": "sim/run", "readinessProbe": {"tcpSocket": {"port": 1}}},
    ]}));
    play.until(0);
    let seen: Vec<_> =
        play.published.iter().map(|status| summary(&status.container_statuses.as_ref().unwrap()[0])).collect();
    assert_eq!(seen, ["running", "ready"]);
}

#[test]
fn probes_pass_after_their_initial_delay() {
    let probe = |seconds| json!({"tcpSocket": {"port": 1}, "initialDelaySeconds": seconds});
    let mut play = Play::new(json!({"containers": [
        {"name": "main", "image": "sim/run", "startupProbe": probe(2), "readinessProbe": probe(5)},
    ]}));
    let expected = [(0, false, false), (1, false, false), (2, true, false), (4, true, false), (5, true, true)];
    for (second, started, ready) in expected {
        play.until(second);
        assert_eq!((play.main().started, play.main().ready), (Some(started), ready), "after {second} s");
    }
}

#[test]
fn a_probe_that_never_passes_is_told_once() {
    let mut play = Play::new(json!({"containers": [
        {"name": "main", "image": "sim/never-ready", "startupProbe": {"tcpSocket": {"port": 1}}},
    ]}));
    play.until(600);
    assert_eq!(play.told, [("Unhealthy", "main".to_owned())]);
    assert_eq!((play.main().started, play.main().ready, play.main().restart_count), (Some(false), false, 0));
}

#[test]
fn conditions_remember_when_they_changed() {
    let mut play = Play::of("sim/crash/after-3");
    play.until(3);
    let moment = |play: &Play, type_: &str| {
        let conditions = play.status().conditions.clone().unwrap();
        let condition = conditions.into_iter().find(|condition| condition.type_ == type_).unwrap();
        (condition.status, condition.last_transition_time.unwrap().0)
    };
    assert_eq!(moment(&play, "Ready"), ("False".to_owned(), at(3)));
    assert_eq!(moment(&play, "ContainersReady"), ("False".to_owned(), at(3)));
    assert_eq!(moment(&play, "Initialized"), ("True".to_owned(), at(0)));
}

#[test]
fn the_grace_is_shortened_by_a_second_delete_and_never_lengthened() {
    let mut play = Play::of("sim/stubborn");
    play.until(10).delete(30).until(20);
    assert_eq!((summary(play.main()).as_str(), play.simulated.is_gone()), ("ready", false));
    play.delete(5).until(24);
    assert!(!play.simulated.is_gone());
    play.until(25);
    assert_eq!((summary(play.main()).as_str(), play.simulated.is_gone()), ("exit 137", true));
    assert_eq!(play.told, [("Killing", "main".to_owned())]);
}

#[test]
fn what_never_ran_is_gone_at_once_when_deleted() {
    let mut play = Play::of("sim/pull-error");
    play.until(5).delete(30).until(5);
    assert!(play.simulated.is_gone());
    assert_eq!((summary(play.main()).as_str(), play.phase()), ("ImagePullBackOff", "Failed"));
}

#[test]
fn the_restart_policy_decides_how_a_pod_ends() {
    for (policy, image, phase, restarts) in [
        ("Never", "sim/crash/after-0/exit-0", "Succeeded", 0),
        ("Never", "sim/crash/after-0/exit-3", "Failed", 0),
        ("OnFailure", "sim/crash/after-0/exit-0", "Succeeded", 0),
        ("OnFailure", "sim/crash/after-0/exit-3", "Running", 2),
        ("Never", "sim/done/after-1", "Succeeded", 0),
        ("Never", "sim/done/after-1/exit-2", "Failed", 0),
        ("Never", "sim/oom/after-1", "Failed", 0),
        ("OnFailure", "sim/done/after-1", "Succeeded", 0),
        ("OnFailure", "sim/done/after-1/exit-2", "Running", 1),
        ("Always", "sim/done/after-1", "Running", 1),
        ("Always", "sim/crash/after-0/exit-0", "Running", 2),
    ] {
        let mut play = Play::new(json!({"restartPolicy": policy, "containers": [{"name": "main", "image": image}]}));
        play.until(4);
        assert_eq!((play.phase(), play.main().restart_count), (phase, restarts), "{policy} {image}");
    }
}

#[test]
fn a_sidecar_ends_with_the_work_it_serves() {
    let mut play = Play::new(json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "proxy", "image": "sim/run", "restartPolicy": "Always"}],
        "containers": [{"name": "main", "image": "sim/crash/after-2/exit-0"}],
    }));
    play.until(1);
    let sidecar = |play: &Play| summary(&play.status().init_container_statuses.as_ref().unwrap()[0]);
    assert_eq!((sidecar(&play).as_str(), play.phase()), ("ready", "Running"));
    play.until(2);
    assert_eq!((sidecar(&play).as_str(), play.phase()), ("exit 0", "Succeeded"));
}

#[test]
fn a_crashing_sidecar_does_not_stop_what_has_begun() {
    let mut play = Play::new(json!({
        "initContainers": [{"name": "proxy", "image": "sim/crash/after-1", "restartPolicy": "Always"}],
        "containers": [{
            "name": "main", "image": "sim/run",
            "readinessProbe": {"tcpSocket": {"port": 1}, "initialDelaySeconds": 4},
        }],
    }));
    // The sidecar is down from 1 to 2 and from 3 to 5.
    play.until(4);
    assert_eq!(summary(play.main()), "ready");
}

#[test]
fn an_init_container_that_fails_for_good_fails_the_pod() {
    let spec = |policy: &str| {
        json!({
            "restartPolicy": policy,
            "initContainers": [{"name": "init", "image": "sim/crash/after-0/exit-9"}],
            "containers": [{"name": "main", "image": "sim/run"}],
        })
    };
    let mut play = Play::new(spec("Never"));
    play.until(60);
    assert_eq!((play.phase(), summary(play.main()).as_str()), ("Failed", "PodInitializing"));
    let mut play = Play::new(spec("Always"));
    play.until(60);
    let init = &play.status().init_container_statuses.as_ref().unwrap()[0];
    assert!(init.restart_count > 2);
    assert_eq!((play.phase(), summary(play.main()).as_str()), ("Pending", "PodInitializing"));
}

#[test]
fn configuration_matters_when_the_container_is_created() {
    let mut play = Play::of("sim/slow/after-3");
    let wanted = |play: &Play| play.simulated.wants_configuration(play.now).count();
    assert_eq!(wanted(&play), 0, "it is pulled first");
    play.until(2);
    assert_eq!((wanted(&play), summary(play.main()).as_str()), (0, "ContainerCreating"));
    play.now = at(3);
    assert_eq!(wanted(&play), 1);
    play.missing.insert("main".to_owned(), "secret \"s\" not found".to_owned());
    play.until(6);
    assert_eq!(summary(play.main()), "CreateContainerConfigError");
    assert_eq!(play.told, [("Failed", "main".to_owned())], "told once, although it looked again");
    play.missing.clear();
    play.until(7);
    assert_eq!((summary(play.main()).as_str(), wanted(&play)), ("ready", 0));
}

/// A Job counts a Pod that succeeded, so one whose work was cut short must not.
#[test]
fn work_that_is_cut_short_has_failed() {
    for (policy, image, code, phase) in [
        ("Always", "sim/run", 0, "Succeeded"),
        ("OnFailure", "sim/run", 143, "Failed"),
        ("Never", "sim/done/after-9", 143, "Failed"),
        ("Never", "sim/done/after-1", 0, "Succeeded"),
    ] {
        let mut play = Play::new(json!({"restartPolicy": policy, "containers": [{"name": "main", "image": image}]}));
        play.until(2).delete(30).until(2);
        assert_eq!((summary(play.main()), play.phase()), (format!("exit {code}"), phase), "{policy} {image}");
    }
}

#[test]
fn a_pod_that_is_active_for_too_long_fails() {
    let spec = |image| {
        json!({
            "activeDeadlineSeconds": 3, "terminationGracePeriodSeconds": 2,
            "containers": [{"name": "main", "image": image}],
        })
    };
    let mut play = Play::new(spec("sim/crash/after-1"));
    play.until(2);
    assert_eq!((play.phase(), &play.status().reason), ("Running", &None));
    play.until(60);
    assert_eq!((play.phase(), play.status().reason.as_deref()), ("Failed", Some("DeadlineExceeded")));
    assert!(!play.simulated.is_gone(), "nobody deletes it");
    assert_eq!(play.main().restart_count, 1, "it is not started any more");

    let mut play = Play::new(spec("sim/stubborn"));
    play.until(4);
    assert_eq!(play.phase(), "Running", "it has its grace");
    play.until(5);
    assert_eq!((play.phase(), summary(play.main()).as_str()), ("Failed", "exit 137"));

    let mut play = Play::new(json!({
        "restartPolicy": "Never", "activeDeadlineSeconds": 3,
        "containers": [{"name": "main", "image": "sim/done/after-1"}],
    }));
    play.until(60).look();
    assert_eq!((play.phase(), &play.status().reason), ("Succeeded", &None));
}

/// The words are a kubelet's (`validateContainerLogStatus`).
#[test]
fn what_can_be_read_follows_from_the_state() {
    let read = |play: &Play, previous| {
        let output = play.simulated.output().remove(0);
        output.run(previous, "pod").map(|run| (run.number, run.since))
    };
    let waits = |why: &str| Err(format!("container \"main\" in pod \"pod\" is waiting to start: {why}"));
    let none = || Err("previous terminated container \"main\" in pod \"pod\" not found".to_owned());

    let mut play = Play::of("sim/slow/after-1");
    play.until(0);
    assert_eq!((read(&play, false), read(&play, true)), (waits("ContainerCreating"), none()));
    play.until(1);
    assert_eq!((read(&play, false), read(&play, true)), (Ok((0, at(1))), none()));

    // Who follows knows the end before it comes, and so reads no tick at it.
    let mut play = Play::of("sim/done/after-2");
    play.until(1);
    let run = play.simulated.output()[0].run(false, "pod").unwrap();
    assert_eq!(run.end, Some(End { at: at(2), by_itself: true }));

    let mut play = Play::of("sim/pull-error");
    play.until(0);
    assert_eq!(read(&play, false), waits("image can't be pulled"));
    play.until(1);
    assert_eq!(read(&play, false), waits("trying and failing to pull image"));

    // It runs from 0 to 2, from 3 to 5 and from 7 on.
    let mut play = Play::of("sim/crash/after-2");
    play.until(2);
    assert_eq!(summary(play.main()), "CrashLoopBackOff");
    assert_eq!((read(&play, false), read(&play, true)), (Ok((0, at(0))), Ok((0, at(0)))));
    play.until(4);
    assert_eq!((read(&play, false), read(&play, true)), (Ok((1, at(3))), Ok((0, at(0)))));
    play.until(7);
    assert_eq!((read(&play, false), read(&play, true)), (Ok((2, at(7))), Ok((1, at(3)))));
}
