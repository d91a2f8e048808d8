//! One container of one instance, and how far its lines were read.

use std::time::SystemTime;

use scheduler_core::{LogItem, Logs};
use scheduler_k8s_client as client;
use scheduler_k8s_client::LogOptions;
use serde_json::Value;

use super::{line, since, status};
use crate::kind::MainKind;
use crate::observe;

/// A container whose lines are read, run after run. The first run of a container has the number of its restarts, zero.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// The Pod's name and uid.
    pub(super) pod: String,
    pub(super) uid: String,
    pub(super) instance: String,
    pub(super) container: String,
    /// The Pod as it was seen last; none once it is gone.
    pub(super) seen: Option<Value>,
    /// The run that is read, or is to be read next.
    pub(super) run: u32,
    /// When its last line was written.
    pub(super) last: Option<SystemTime>,
    /// Whether anything of this container was read.
    pub(super) begun: bool,
    /// Whether a request for it is under way.
    pub(super) reading: bool,
    /// How many requests failed since the last line.
    pub(super) failures: u32,
}

/// What is to be read next of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The run goes on: what it writes.
    Follow,
    /// The run is over: what it wrote beyond what was read.
    Rest {
        /// Whether another run has begun since.
        previous: bool,
    },
    /// Runs were over before they could be read; this is the first that can be.
    Missed(u32),
    /// Nothing, until something happens to the Pod.
    Wait,
    /// Nothing any more.
    Done,
}

impl Source {
    /// The container that is meant, from its present run on.
    pub(super) fn new(op: &Logs, kind: MainKind, pod: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let container = op.container.clone().unwrap_or_else(|| text(&pod["spec"]["containers"][0]["name"]));
        let mut source = Self {
            pod: text(&pod["metadata"]["name"]),
            uid: text(&pod["metadata"]["uid"]),
            instance: observe::instance_id(kind, pod),
            container,
            seen: Some(pod.clone()),
            run: 0,
            last: None,
            begun: false,
            reading: false,
            failures: 0,
        };
        source.run = source.latest().map_or(0, |(run, _)| run);
        source
    }

    /// One that came later: from its first run on.
    pub(super) fn from_the_start(op: &Logs, kind: MainKind, pod: &Value) -> Self {
        Self { run: 0, ..Self::new(op, kind, pod) }
    }

    /// The latest run that has begun, and whether it is over. While a container waits to be started again, its last run is
    /// still the latest.
    fn latest(&self) -> Option<(u32, bool)> {
        let pod = self.seen.as_ref()?;
        let container = status(pod, &self.container)?;
        let run = container["restartCount"].as_u64().and_then(|count| count.try_into().ok()).unwrap_or(0);
        let state = &container["state"];
        if state["running"].is_object() {
            return Some((run, false));
        }
        let over = state["terminated"].is_object() || container["lastState"]["terminated"].is_object();
        over.then_some((run, true))
    }

    /// What is to be read next.
    pub(super) fn next(&self) -> Next {
        let ended = self.seen.as_ref().is_none_or(|pod| observe::has_ended(&pod["status"]));
        let nothing = if ended { Next::Done } else { Next::Wait };
        let Some((latest, over)) = self.latest() else { return nothing };
        match latest.checked_sub(self.run) {
            None => nothing,
            Some(0) if over => Next::Rest { previous: false },
            Some(0) => Next::Follow,
            Some(1) => Next::Rest { previous: true },
            Some(_) => Next::Missed(latest - 1),
        }
    }

    /// The run has been read to its end.
    pub(super) fn finish_run(&mut self) {
        self.run += 1;
        self.last = None;
        self.failures = 0;
    }

    /// What to ask the server for, if the run that is wanted has begun.
    pub(super) fn options(&self, op: &Logs, previous: bool) -> Option<LogOptions> {
        let (latest, _) = self.latest()?;
        if previous && latest == 0 {
            return None;
        }
        let mut options = LogOptions::new().container(&self.container);
        if previous {
            options = options.previous();
        }
        if let Some(from) = self.last.or_else(|| since(op)) {
            options = options.since_time(from);
        }
        match op.tail {
            Some(lines) if !self.begun => Some(options.tail(lines)),
            _ => Some(options),
        }
    }

    /// A line as an item. `None` for one that is too old, or that was told already: the server cuts times to seconds.
    pub(super) fn item(
        &self,
        read: client::LogLine,
        since: Option<SystemTime>,
        after: Option<SystemTime>,
    ) -> Option<LogItem> {
        let Some(at) = read.at else { return Some(self.gap(read.text)) };
        let told = after.is_some_and(|after| at <= after) || since.is_some_and(|since| at < since);
        (!told).then(|| line(self, read))
    }

    pub(super) fn gap(&self, why: String) -> LogItem {
        LogItem::Gap { instance: self.instance.clone(), container: self.container.clone(), why }
    }
}

#[cfg(test)]
mod tests {
    use scheduler_core::Target;
    use serde_json::json;

    use super::*;

    fn pod(restarts: u32, state: &Value, last: &Value) -> Value {
        json!({
            "metadata": {"name": "web-1", "uid": "u"},
            "spec": {"containers": [{"name": "web"}]},
            "status": {"containerStatuses": [{"name": "web", "restartCount": restarts, "state": state, "lastState": last}]},
        })
    }

    fn source(run: u32, pod: Value) -> Source {
        let op = Logs::new(Target::new("shop", "web").unwrap());
        Source { run, ..Source::new(&op, MainKind::Deployment, &pod) }
    }

    /// BR-117: the end of a run that crashed is read before the next one.
    #[test]
    fn runs_are_read_one_after_the_other() {
        let running = json!({"running": {}});
        let (waiting, ended) = (json!({"waiting": {}}), json!({"terminated": {}}));
        let none = json!({});
        for (what, run, pod, expected) in [
            ("not started", 0, pod(0, &waiting, &none), Next::Wait),
            ("running", 0, pod(0, &running, &none), Next::Follow),
            ("ended", 0, pod(0, &ended, &none), Next::Rest { previous: false }),
            ("waits to be started again", 0, pod(0, &waiting, &ended), Next::Rest { previous: false }),
            ("runs anew", 0, pod(1, &running, &ended), Next::Rest { previous: true }),
            ("runs anew, and the last run was read", 1, pod(1, &running, &ended), Next::Follow),
            ("read to its end", 1, pod(0, &waiting, &ended), Next::Wait),
            ("several runs since", 0, pod(3, &running, &ended), Next::Missed(2)),
        ] {
            assert_eq!(source(run, pod).next(), expected, "{what}");
        }
    }

    #[test]
    fn a_pod_that_has_ended_is_read_to_its_end_and_left() {
        let mut ended = pod(0, &json!({"terminated": {}}), &json!({}));
        ended["status"]["phase"] = "Succeeded".into();
        let mut source = source(0, ended);
        assert_eq!(source.next(), Next::Rest { previous: false });
        source.finish_run();
        assert_eq!(source.next(), Next::Done);
        source.seen = None;
        assert_eq!(source.next(), Next::Done);
    }

    #[test]
    fn a_pod_that_is_there_at_the_start_begins_with_its_present_run() {
        let op = Logs::new(Target::new("shop", "web").unwrap());
        let crashed = pod(2, &json!({"running": {}}), &json!({"terminated": {}}));
        assert_eq!(Source::new(&op, MainKind::Deployment, &crashed).next(), Next::Follow);
        assert_eq!(Source::from_the_start(&op, MainKind::Deployment, &crashed).next(), Next::Missed(1));
    }
}
