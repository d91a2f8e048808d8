//! What a container writes: a pure function of when it ran.

use std::time::Duration;

use crate::Timestamp;

/// From one `tick` to the next.
const TICK: Duration = Duration::from_millis(500);

/// The runs of a container of which the platform keeps what was written.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    pub(super) present: Option<Run>,
    pub(super) previous: Option<Run>,
}

/// One run of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// How often the container had been started again.
    pub(super) number: u32,
    since: Timestamp,
    /// When it was over, and whether by itself.
    until: Option<(Timestamp, bool)>,
}

impl Log {
    /// The container starts.
    pub(super) fn begin(&mut self, number: u32, now: Timestamp) {
        self.previous = self.present.replace(Run { number, since: now, until: None });
    }

    /// The container ends, if it has not.
    pub(super) fn end(&mut self, now: Timestamp, by_itself: bool) {
        if let Some(run) = self.present.as_mut().filter(|run| run.until.is_none()) {
            run.until = Some((now, by_itself));
        }
    }
}

impl Run {
    /// What it has written by now: `start` and its number, a `tick` from zero each half second, and `end` if it ended by itself.
    pub(super) fn lines(&self, now: Timestamp) -> Vec<(Timestamp, String)> {
        let mut lines = vec![(self.since, format!("start {}", self.number))];
        let over = self.until.map(|(at, _)| at);
        let ticks = (0_u32..).map(|count| (self.since.plus(TICK.saturating_mul(count)), count));
        let written = ticks.take_while(|(at, _)| *at <= now && over.is_none_or(|over| *at < over));
        lines.extend(written.map(|(at, count)| (at, format!("tick {count}"))));
        if let Some((at, true)) = self.until {
            lines.push((at, "end".to_owned()));
        }
        lines
    }

    /// When it writes the next line, unless it has ended.
    pub(super) fn next(&self, now: Timestamp) -> Option<Timestamp> {
        let ticks = u32::try_from(now.since(self.since).as_millis() / TICK.as_millis()).ok()?;
        self.until.is_none().then(|| self.since.plus(TICK.saturating_mul(ticks + 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_follow_from_when_it_ran() {
        let at = Timestamp::from_millis;
        let texts = |run: &Run, now| -> Vec<String> {
            run.lines(at(now)).into_iter().map(|(time, text)| format!("{} {text}", time.millis())).collect()
        };
        let mut log = Log::default();
        log.begin(0, at(1_000));
        let run = log.present.unwrap();
        assert_eq!(texts(&run, 1_000), ["1000 start 0", "1000 tick 0"]);
        assert_eq!(texts(&run, 2_100), ["1000 start 0", "1000 tick 0", "1500 tick 1", "2000 tick 2"]);
        assert_eq!(run.next(at(2_000)), Some(at(2_500)));
        log.end(at(2_000), true);
        log.end(at(9_000), false);
        let run = log.present.unwrap();
        assert_eq!(texts(&run, 9_000), ["1000 start 0", "1000 tick 0", "1500 tick 1", "2000 end"]);
        assert_eq!(run.next(at(2_000)), None);
        log.begin(1, at(3_000));
        assert_eq!((log.previous, log.present.unwrap().number), (Some(run), 1));
    }
}
