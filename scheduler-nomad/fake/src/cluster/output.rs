//! What simulated containers write: to be read as the logs of their tasks.

use std::{collections::BTreeMap, time::Duration};

use super::state::State;
use crate::time::{Time, nanos};

const TICK: Duration = Duration::from_millis(500);

/// One run of a container.
#[derive(Debug, Clone, Copy)]
struct Run {
    since: Time,
    until: Option<Time>,
    /// It came to its own end.
    ended: bool,
}

/// The runs of the containers of an allocation, by task.
#[derive(Debug, Default)]
pub(crate) struct Output(BTreeMap<String, Vec<Run>>);

/// What there is of the output of a task.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Written {
    UnknownTask,
    NotStarted,
    Text(String),
}

impl Output {
    pub(super) fn begin(&mut self, task: &str, now: Time) {
        self.0.entry(task.to_owned()).or_default().push(Run { since: now, until: None, ended: false });
    }

    pub(super) fn end(&mut self, task: &str, now: Time, ended: bool) {
        let last = self.0.get_mut(task).and_then(|runs| runs.last_mut());
        if let Some(run) = last.filter(|run| run.until.is_none()) {
            (run.until, run.ended) = (Some(now), ended);
        }
    }

    /// Each run writes `start` and its number, a `tick` at once and each half second, and `end` at its own end.
    fn text(&self, task: &str, now: Time) -> Option<String> {
        let mut text = String::new();
        for (number, run) in self.0.get(task)?.iter().enumerate() {
            text += &format!("start {number}\n");
            let until = run.until.unwrap_or(Time(now.0.saturating_add(1)));
            let ticks = (until.0 - run.since.0).div_euclid(nanos(TICK)) + i64::from(has_rest(run.since, until));
            for tick in 0..ticks.max(0) {
                text += &format!("tick {tick}\n");
            }
            if run.ended {
                text += "end\n";
            }
        }
        Some(text)
    }
}

/// Whether the time between the two is no whole number of ticks.
fn has_rest(since: Time, until: Time) -> bool {
    (until.0 - since.0).rem_euclid(nanos(TICK)) != 0
}

impl State {
    /// What a task has written by now. Drivers other than those of containers write nothing here.
    pub(crate) fn written(&self, alloc: &str, task: &str, stdout: bool) -> Written {
        let Some(found) = self.allocs.get(alloc) else { return Written::UnknownTask };
        let group = found.job.spec.view.group(&found.group);
        let Some(of) = group.and_then(|group| group.tasks.iter().find(|other| other.name == task)) else {
            return Written::UnknownTask;
        };
        match self.outputs.get(alloc).and_then(|output| output.text(task, self.now)) {
            None => Written::NotStarted,
            Some(_) if !stdout || !["docker", "podman"].contains(&of.driver.as_str()) => Written::Text(String::new()),
            Some(text) => Written::Text(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_writes_its_number_its_ticks_and_its_end() {
        let second = 1_000_000_000;
        let mut output = Output::default();
        assert_eq!(output.text("t", Time(0)), None);
        output.begin("t", Time(0));
        assert_eq!(output.text("t", Time(0)).as_deref(), Some("start 0\ntick 0\n"));
        assert_eq!(output.text("t", Time(second)).as_deref(), Some("start 0\ntick 0\ntick 1\ntick 2\n"));
        output.end("t", Time(second), true);
        let once = "start 0\ntick 0\ntick 1\nend\n";
        assert_eq!(output.text("t", Time(9 * second)).as_deref(), Some(once), "the last tick is before the end");
        output.begin("t", Time(2 * second));
        output.end("t", Time(2 * second + 1), false);
        assert_eq!(output.text("t", Time(9 * second)), Some(format!("{once}start 1\ntick 0\n")), "it was killed");
    }
}
