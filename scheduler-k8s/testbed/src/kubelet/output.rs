//! What simulated containers write. A log is a function of when a run began, when it ended and what time it is; no line
//! is stored anywhere.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

/// Between two lines of a container that runs.
const TICK: Duration = Duration::from_millis(500);

/// One run of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// 0 for the first run.
    pub(super) number: i32,
    pub(super) since: Timestamp,
    /// May be still to come, and may come sooner than it was to.
    pub(super) end: Option<End>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    pub(super) at: Timestamp,
    /// It came to its own end, and could say so.
    pub(super) by_itself: bool,
}

/// What there is to read of one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Output {
    pub(super) container: String,
    /// The run that is read unless the one before is asked for, or why there is none.
    pub(super) latest: Result<Run, &'static str>,
    /// The last run that has ended, unless that is the present state of the container.
    pub(super) previous: Option<Run>,
}

impl Output {
    /// The run that is asked for, or what a kubelet says when there is none.
    pub(super) fn run(&self, previous: bool, pod: &str) -> Result<Run, String> {
        let container = &self.container;
        match (previous, self.latest) {
            (true, _) => self
                .previous
                .ok_or_else(|| format!("previous terminated container {container:?} in pod {pod:?} not found")),
            (false, Ok(run)) => Ok(run),
            (false, Err(why)) => Err(format!("container {container:?} in pod {pod:?} is waiting to start: {why}")),
        }
    }

    /// What became of a run since it was looked at. `None`: it is forgotten.
    pub(super) fn again(&self, run: Run) -> Option<Run> {
        self.latest.ok().into_iter().chain(self.previous).find(|now| now.number == run.number)
    }
}

impl Run {
    /// `start <number>`, then `tick <k>` every half second, and `end` for a run that came to its own end. `None` behind the
    /// last line of a run that has ended.
    fn line(&self, index: u64) -> Option<(Timestamp, String)> {
        let Some(tick) = index.checked_sub(1) else {
            return Some((self.since, format!("start {}", self.number)));
        };
        let at = self.since + TICK.saturating_mul(u32::try_from(tick).ok()?);
        match self.end {
            Some(end) if at >= end.at => {
                let first_behind = tick == 0 || at - TICK < end.at;
                (end.by_itself && first_behind).then(|| (end.at, "end".to_owned()))
            }
            _ => Some((at, format!("tick {tick}"))),
        }
    }

    /// How many lines there are at a time.
    fn lines(&self, now: Timestamp) -> u64 {
        let length = |until: Timestamp| until.duration_since(self.since).as_nanos().max(0).unsigned_abs();
        let tick = TICK.as_nanos();
        let count = match self.end {
            // The last tick is before the end, not with it.
            Some(end) if end.at <= now => 1 + length(end.at).div_ceil(tick) + u128::from(end.by_itself),
            _ => 2 + length(now) / tick,
        };
        u64::try_from(count).unwrap_or(u64::MAX)
    }
}

/// What a request asks for, as `PodLogOptions` has it. What is to be followed and which run are the server's business.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Selection {
    pub(super) since: Option<Timestamp>,
    pub(super) tail: Option<u64>,
    pub(super) limit_bytes: Option<u64>,
    pub(super) timestamps: bool,
}

/// A place in a log.
#[derive(Debug)]
pub(super) struct Reader {
    next: u64,
    since: Timestamp,
    timestamps: bool,
    bytes_left: u64,
}

impl Reader {
    pub(super) fn new(run: &Run, selection: &Selection, now: Timestamp) -> Self {
        let tail = selection.tail.map_or(0, |tail| run.lines(now).saturating_sub(tail));
        Self {
            next: tail,
            since: selection.since.unwrap_or(Timestamp::MIN),
            timestamps: selection.timestamps,
            bytes_left: selection.limit_bytes.unwrap_or(u64::MAX),
        }
    }

    /// What was written by now and not read before. Also when the next line will be there; `None` at the end of the log.
    pub(super) fn read(&mut self, run: &Run, now: Timestamp) -> (String, Option<Timestamp>) {
        let mut text = String::new();
        while self.bytes_left > 0 {
            let Some((at, line)) = run.line(self.next) else {
                let end = run.end.map(|end| end.at);
                return (text, end.filter(|end| *end > now));
            };
            if at > now {
                return (text, Some(at));
            }
            self.next += 1;
            if at < self.since {
                continue;
            }
            let time = if self.timestamps { at.strftime("%Y-%m-%dT%H:%M:%S%.9fZ ").to_string() } else { String::new() };
            let whole = format!("{time}{line}\n");
            let length = usize::try_from(self.bytes_left).unwrap_or(usize::MAX).min(whole.len());
            // All of it is ASCII.
            text.push_str(&whole[..length]);
            self.bytes_left -= length as u64;
        }
        (text, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::UNIX_EPOCH;

    fn at(milliseconds: u64) -> Timestamp {
        START + Duration::from_millis(milliseconds)
    }

    fn run(end: Option<(u64, bool)>) -> Run {
        Run { number: 3, since: START, end: end.map(|(end, by_itself)| End { at: at(end), by_itself }) }
    }

    fn read(run: &Run, selection: &Selection, now: u64) -> Vec<String> {
        let (text, _) = Reader::new(run, selection, at(now)).read(run, at(now));
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_log_follows_from_start_end_and_now() {
        let all = Selection::default();
        for (end, now, expected) in [
            (None, 0, &["start 3", "tick 0"][..]),
            (None, 499, &["start 3", "tick 0"]),
            (None, 500, &["start 3", "tick 0", "tick 1"]),
            (Some((0, true)), 9000, &["start 3", "end"]),
            (Some((0, false)), 9000, &["start 3"]),
            (Some((1000, true)), 9000, &["start 3", "tick 0", "tick 1", "end"]),
            (Some((1200, true)), 9000, &["start 3", "tick 0", "tick 1", "tick 2", "end"]),
            (Some((1200, false)), 9000, &["start 3", "tick 0", "tick 1", "tick 2"]),
            (Some((1000, true)), 999, &["start 3", "tick 0", "tick 1"]),
            (Some((1000, true)), 1000, &["start 3", "tick 0", "tick 1", "end"]),
        ] {
            let run = run(end);
            assert_eq!(read(&run, &all, now), expected, "{end:?} at {now}");
            assert_eq!(run.lines(at(now)), expected.len() as u64, "{end:?} at {now}");
        }
    }

    #[test]
    fn a_request_takes_a_part() {
        let ended = run(Some((1200, true)));
        let tail = |lines| Selection { tail: Some(lines), ..Selection::default() };
        assert_eq!(read(&ended, &tail(2), 9000), ["tick 2", "end"]);
        assert_eq!(read(&ended, &tail(99), 9000).len(), 5);
        assert!(read(&run(None), &tail(0), 700).is_empty());
        let since = Selection { since: Some(at(500)), ..Selection::default() };
        assert_eq!(read(&ended, &since, 9000), ["tick 1", "tick 2", "end"]);
        let limited = Selection { limit_bytes: Some(10), ..Selection::default() };
        assert_eq!(read(&ended, &limited, 9000), ["start 3", "ti"]);
        let stamped = Selection { tail: Some(1), timestamps: true, ..Selection::default() };
        assert_eq!(read(&ended, &stamped, 9000), ["1970-01-01T00:00:01.200000000Z end"]);
    }

    #[test]
    fn a_follower_is_told_when_to_look_again() {
        let running = run(None);
        let mut reader = Reader::new(&running, &Selection { tail: Some(0), ..Selection::default() }, at(700));
        assert_eq!(reader.read(&running, at(700)), (String::new(), Some(at(1000))));
        assert_eq!(reader.read(&running, at(1000)), ("tick 2\n".to_owned(), Some(at(1500))));
        // It ended meanwhile, and says so.
        assert_eq!(reader.read(&run(Some((1300, true))), at(1400)), ("end\n".to_owned(), None));
        let killed = run(Some((1300, false)));
        assert_eq!(Reader::new(&killed, &Selection::default(), at(0)).read(&killed, at(1100)).1, Some(at(1300)));
        let mut limited = Reader::new(&running, &Selection { limit_bytes: Some(3), ..Selection::default() }, at(0));
        assert_eq!(limited.read(&running, at(0)), ("sta".to_owned(), None), "nothing more may be read");
    }
}
