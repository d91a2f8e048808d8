//! The event stream: the last lines that the writes produced.

use std::collections::VecDeque;

use serde_json::{Value, json};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topic {
    Job,
    Evaluation,
    Allocation,
    Deployment,
}

impl Topic {
    fn name(self) -> &'static str {
        match self {
            Self::Job => "Job",
            Self::Evaluation => "Evaluation",
            Self::Allocation => "Allocation",
            Self::Deployment => "Deployment",
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Event {
    topic: Topic,
    key: String,
    namespace: String,
    filters: Vec<String>,
    json: Value,
}

impl Event {
    pub(crate) fn new(
        topic: Topic,
        kind: &str,
        index: u64,
        key: &str,
        namespace: &str,
        filters: Option<Vec<String>>,
        payload: Value,
    ) -> Self {
        let json = json!({
            "Topic": topic.name(), "Type": kind, "Key": key, "Namespace": namespace, "FilterKeys": filters,
            "Index": index, "Payload": payload,
        });
        let filters = filters.unwrap_or_default();
        Self { topic, key: key.to_owned(), namespace: namespace.to_owned(), filters, json }
    }
}

/// Which events a subscriber wants.
#[derive(Debug)]
pub(crate) struct Subscription {
    /// Topic and key; `*` is any.
    pub(crate) topics: Vec<(String, String)>,
    /// None is any.
    pub(crate) namespace: Option<String>,
}

impl Subscription {
    fn wants(&self, event: &Event) -> bool {
        let key = |key: &str| key == "*" || key == event.key || event.filters.iter().any(|filter| filter == key);
        self.namespace.as_ref().is_none_or(|namespace| *namespace == event.namespace)
            && self.topics.iter().any(|(topic, wanted)| (topic == "*" || topic == event.topic.name()) && key(wanted))
    }
}

/// A bounded buffer of lines.
#[derive(Debug)]
pub(crate) struct EventBuffer {
    limit: usize,
    lines: VecDeque<Line>,
    /// The number of the next line. Unlike an index, it never stands for two lines.
    next: u64,
    /// Moves when the stream is cut.
    epoch: u64,
}

#[derive(Debug)]
struct Line {
    number: u64,
    index: u64,
    events: Vec<Event>,
}

/// Where a subscriber is in the buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Position {
    next: u64,
    epoch: u64,
}

impl EventBuffer {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, lines: VecDeque::new(), next: 0, epoch: 0 }
    }

    pub(crate) fn push(&mut self, index: u64, events: Vec<Event>) {
        if events.is_empty() {
            return;
        }
        self.lines.push_back(Line { number: self.next, index, events });
        self.next += 1;
        while self.lines.len() > self.limit {
            self.lines.pop_front();
        }
    }

    /// Forgets everything and ends every subscription, as a restart of the server would.
    pub(crate) fn cut(&mut self) {
        self.lines.clear();
        self.epoch += 1;
    }

    /// Where a subscription from an index on begins: at the index, or at the oldest line when that is gone.
    pub(crate) fn position(&self, index: u64) -> Position {
        let first = self.lines.iter().find(|line| line.index >= index);
        Position { next: first.map_or(self.next, |line| line.number), epoch: self.epoch }
    }

    /// The lines since a position, as they go over the wire. None when the stream was cut.
    pub(crate) fn read(&self, position: &mut Position, subscription: &Subscription) -> Option<String> {
        if position.epoch != self.epoch {
            return None;
        }
        let mut text = String::new();
        for line in self.lines.iter().filter(|line| line.number >= position.next) {
            let events: Vec<_> =
                line.events.iter().filter(|event| subscription.wants(event)).map(|event| event.json.clone()).collect();
            if !events.is_empty() {
                text.push_str(&json!({"Index": line.index, "Events": events}).to_string());
                text.push('\n');
            }
        }
        position.next = self.next;
        Some(text)
    }
}
