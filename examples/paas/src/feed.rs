//! What happens, in order, for whoever follows it: the last messages are kept, so that a follower that was cut off goes on
//! where it was, and one that was away too long begins again with a snapshot.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use axum::response::sse;
use futures_util::Stream;
use futures_util::stream::unfold;
use scheduler_core::hooks::AppName;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;

/// So many messages are kept.
const KEPT: usize = 1000;
/// The last message about an app.
pub const GONE: &str = "gone";

/// A message about an app.
#[derive(Debug)]
struct Message {
    id: u64,
    app: AppName,
    event: &'static str,
    data: String,
}

/// The feed of one run of the platform.
#[derive(Debug)]
pub struct Feed {
    /// Tells the ids of this run from those of an earlier one.
    start: String,
    kept: Mutex<VecDeque<Arc<Message>>>,
    newest: watch::Sender<Newest>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Newest {
    id: u64,
    closed: bool,
}

impl Feed {
    pub fn new(start: String) -> Self {
        Self { start, kept: Mutex::default(), newest: watch::Sender::default() }
    }

    /// Adds a message. Its data stand for themselves: a follower that sees it twice, or after a later snapshot, is not misled
    /// for longer than until the next one.
    pub fn publish(&self, app: &AppName, event: &'static str, data: &impl Serialize) {
        let Ok(data) = serde_json::to_string(data) else { return };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let id = self.newest.borrow().id + 1;
        kept.push_back(Arc::new(Message { id, app: app.clone(), event, data }));
        if kept.len() > KEPT {
            kept.pop_front();
        }
        self.newest.send_modify(|newest| newest.id = id);
    }

    /// Ends every follower's stream.
    pub fn close(&self) {
        self.newest.send_modify(|newest| newest.closed = true);
    }

    /// The messages after this one; `None` if some of them are not kept any more.
    fn after(&self, id: u64) -> Option<Vec<Arc<Message>>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let first = kept.front().map_or(id + 1, |message| message.id);
        (id + 1 >= first).then(|| kept.iter().filter(|message| message.id > id).map(Arc::clone).collect())
    }

    /// Where a follower stands that has seen the message of this id.
    fn place(&self, last: Option<&str>) -> Option<u64> {
        let (start, id) = last?.rsplit_once('-')?;
        (start == self.start).then(|| id.parse().ok()).flatten().filter(|id| *id <= self.newest.borrow().id)
    }

    /// The messages about one app, or about all, after the one whose id is `last`; else from now on, after a snapshot.
    pub fn follow<F, S>(
        self: Arc<Self>,
        app: Option<AppName>,
        last: Option<&str>,
        snapshot: F,
    ) -> impl Stream<Item = Result<sse::Event, Infallible>> + use<F, S>
    where
        F: Fn() -> S + Send + 'static,
        S: Future<Output = Value> + Send + 'static,
    {
        let (at, newest) = (self.place(last), self.newest.subscribe());
        let follower = Follower { feed: self, app, at, newest, ready: VecDeque::new(), ended: false, snapshot };
        unfold(follower, |mut follower| async move { Some((Ok(follower.next().await?), follower)) })
    }

    fn event(&self, id: u64, name: &str, data: &str) -> sse::Event {
        sse::Event::default().id(format!("{}-{id}", self.start)).event(name).data(data)
    }
}

struct Follower<F> {
    feed: Arc<Feed>,
    app: Option<AppName>,
    /// The last message that was told; `None` before the snapshot.
    at: Option<u64>,
    newest: watch::Receiver<Newest>,
    ready: VecDeque<Arc<Message>>,
    /// The app that is followed is gone.
    ended: bool,
    snapshot: F,
}

impl<F, S> Follower<F>
where
    F: Fn() -> S,
    S: Future<Output = Value>,
{
    async fn next(&mut self) -> Option<sse::Event> {
        loop {
            if let Some(message) = self.ready.pop_front().filter(|_| !self.ended) {
                self.ended = self.app.is_some() && message.event == GONE;
                return Some(self.feed.event(message.id, message.event, &message.data));
            }
            let newest = *self.newest.borrow_and_update();
            if newest.closed || self.ended {
                return None;
            }
            let Some(at) = self.at else {
                // What happens while the snapshot is taken is told after it.
                self.at = Some(newest.id);
                let snapshot = (self.snapshot)().await;
                return Some(self.feed.event(newest.id, "snapshot", &snapshot.to_string()));
            };
            match self.feed.after(at) {
                None => self.at = None,
                Some(messages) => match messages.last() {
                    None => self.newest.changed().await.ok()?,
                    Some(last) => {
                        self.at = Some(last.id);
                        let wanted = |message: &Arc<Message>| self.app.as_ref().is_none_or(|app| *app == message.app);
                        self.ready = messages.into_iter().filter(wanted).collect();
                    }
                },
            }
        }
    }
}
