//! Where logs go on. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::op::{LogItem, LogLine, Logs};
use crate::time::Timestamp;

/// How far back from the last line to ask again, in milliseconds. Containers are interleaved, one later than another; what
/// was told already is left out.
const OVERLAP: i64 = 10_000;

/// Instance and container.
type Source = (String, String);

/// What was told of a log stream.
pub(super) struct LogsTold {
    asked: Logs,
    any: bool,
    /// Whether a line had no time, so that there is no saying where to go on.
    timeless: bool,
    /// Of each container the time of its last line, and how many of its lines have this time.
    last: BTreeMap<Source, (Timestamp, u32)>,
    /// Of each container that may repeat itself in this opening: up to where, and how many lines at that time.
    skip: BTreeMap<Source, (Timestamp, u32)>,
    /// Which containers were heard in the last opening that had lines.
    heard: BTreeSet<Source>,
    /// Whether there was no line in this opening yet.
    fresh: bool,
    /// Whether a gap is to be told before the next item.
    gap: bool,
}

impl LogsTold {
    pub(super) fn new(asked: Logs) -> Self {
        Self {
            asked,
            any: false,
            timeless: false,
            last: BTreeMap::new(),
            skip: BTreeMap::new(),
            heard: BTreeSet::new(),
            fresh: true,
            gap: false,
        }
    }

    /// Whether another opening can go on where this one broke.
    pub(super) fn can_go_on(&self) -> bool {
        !self.any || (self.asked.follow && !self.asked.previous)
    }

    /// What to ask for in the next opening.
    pub(super) fn go_on(&mut self) -> Logs {
        let mut ask = self.asked.clone();
        if self.heard.is_empty() {
            return ask;
        }
        (self.fresh, self.gap) = (true, true);
        let newest = self.last.values().map(|(time, _)| *time).max().filter(|_| !self.timeless);
        if let Some(newest) = newest {
            let back = Timestamp::from_millis(newest.millis().saturating_sub(OVERLAP));
            let since = ask.since.map_or(back, |asked| asked.max(back));
            self.last.retain(|_, (time, _)| *time >= since);
            self.skip.clone_from(&self.last);
            (ask.since, ask.tail) = (Some(since), None);
        } else {
            // Only what is written from now on.
            ask.tail = Some(0);
        }
        ask
    }

    /// Takes in an item. What is to be told.
    pub(super) fn take(&mut self, item: LogItem) -> Vec<LogItem> {
        let mut tell = Vec::new();
        if std::mem::take(&mut self.gap) {
            tell.extend(self.heard.iter().map(|(instance, container)| LogItem::Gap {
                instance: instance.clone(),
                container: container.clone(),
                why: "the stream broke and was opened again; what was written meanwhile may be missing".to_owned(),
            }));
        }
        if let LogItem::Line(line) = &item
            && !self.is_new(line)
        {
            return tell;
        }
        self.any = true;
        tell.push(item);
        tell
    }

    /// Takes in a line. Whether it was not told before.
    fn is_new(&mut self, line: &LogLine) -> bool {
        let source = (line.instance.clone(), line.container.clone());
        if let (Some(time), Some((until, left))) = (line.time, self.skip.get_mut(&source)) {
            if time < *until {
                return false;
            }
            if time == *until && *left > 0 {
                *left -= 1;
                return false;
            }
        }
        match line.time {
            None => self.timeless = true,
            Some(time) => {
                let (last, count) = self.last.entry(source.clone()).or_insert((time, 0));
                if time > *last {
                    (*last, *count) = (time, 0);
                }
                if time == *last {
                    *count = count.saturating_add(1);
                }
            }
        }
        if std::mem::take(&mut self.fresh) {
            self.heard.clear();
        }
        self.heard.insert(source);
        true
    }
}
