//! Events in memory: for tests, and for platforms whose models live there too.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use scheduler_core::Timestamp;
use scheduler_core::hooks::{AppName, Event, EventId, HookError};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::{Claim, LONGEST, Outbox, OutboxError, OutboxFilter, Waiting};

/// An outbox that lives and dies with the process. Clones share one. It lives on tokio's clock, which tests can pause.
///
/// A claim looks at each app that has events; the other calls at one app.
#[derive(Clone, Debug, Default)]
pub struct MemoryOutbox {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    last_seq: i64,
    last_fence: i64,
    /// Only apps that have events or are held.
    apps: BTreeMap<AppName, Queue>,
    /// The app of each event.
    ids: BTreeMap<EventId, AppName>,
}

/// An app's events, and how the first of them stands.
#[derive(Debug)]
struct Queue {
    rows: VecDeque<Row>,
    stand: Stand,
    attempts: u32,
    error: Option<HookError>,
}

#[derive(Debug)]
struct Row {
    seq: i64,
    event: Event,
    appended: Instant,
}

#[derive(Clone, Copy, Debug)]
enum Stand {
    Waiting { due: Instant },
    Held { until: Instant, fence: i64 },
    Parked,
}

impl Stand {
    /// When somebody may claim it.
    fn due(self) -> Option<Instant> {
        match self {
            Self::Waiting { due } => Some(due),
            Self::Held { until, .. } => Some(until),
            Self::Parked => None,
        }
    }
}

impl Queue {
    /// The first event is done with: the next one is due.
    fn advance(&mut self, stand: Stand) {
        self.rows.pop_front();
        (self.stand, self.attempts, self.error) = (stand, 0, None);
    }
}

impl State {
    fn next_due(&self) -> Option<(Instant, &AppName)> {
        self.apps.iter().filter_map(|(app, queue)| Some((queue.stand.due()?, app))).min()
    }
}

impl MemoryOutbox {
    /// An outbox without events.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an event behind the others of its app.
    ///
    /// # Errors
    /// [`OutboxError::Duplicate`] while an event of the same name waits.
    pub fn append(&self, event: Event) -> Result<(), OutboxError> {
        let mut guard = self.state();
        let state = &mut *guard;
        let app = event.app.name.clone();
        if state.ids.contains_key(&event.id) {
            return Err(OutboxError::Duplicate { id: event.id, app });
        }
        state.ids.insert(event.id.clone(), app.clone());
        state.last_seq += 1;
        let now = Instant::now();
        let queue = state.apps.entry(app).or_insert_with(|| Queue {
            rows: VecDeque::new(),
            stand: Stand::Waiting { due: now },
            attempts: 0,
            error: None,
        });
        queue.rows.push_back(Row { seq: state.last_seq, event, appended: now });
        drop(guard);
        self.shared.changed.notify_waiters();
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a claim, if it is still good.
    fn answer(&self, claim: &Claim, how: impl FnOnce(&mut Queue)) -> Result<(), OutboxError> {
        let mut guard = self.state();
        let state = &mut *guard;
        let queue = state.apps.get_mut(&claim.app).filter(|queue| {
            matches!(queue.stand, Stand::Held { fence, .. } if fence == claim.fence)
                && queue.rows.front().is_some_and(|row| row.seq == claim.seq)
        });
        let Some(queue) = queue else {
            return Err(OutboxError::LeaseLost { id: claim.id.clone(), app: claim.app.clone() });
        };
        how(queue);
        let told = queue.rows.front().is_none_or(|row| row.seq != claim.seq);
        if queue.rows.is_empty() {
            state.apps.remove(&claim.app);
        }
        if told {
            state.ids.remove(&claim.id);
        }
        drop(guard);
        self.shared.changed.notify_waiters();
        Ok(())
    }

    /// Does something to the event of this name, which has this place among its app's.
    fn with_event(&self, id: &EventId, how: impl FnOnce(&mut State, &AppName, usize)) -> bool {
        let mut state = self.state();
        let Some(app) = state.ids.get(id).cloned() else { return false };
        let at = state.apps.get(&app).and_then(|queue| queue.rows.iter().position(|row| row.event.id == *id));
        let Some(at) = at else { return false };
        how(&mut state, &app, at);
        drop(state);
        self.shared.changed.notify_waiters();
        true
    }
}

#[async_trait]
impl Outbox for MemoryOutbox {
    async fn claim(&self, lease: Duration) -> Result<Option<Claim>, OutboxError> {
        let mut guard = self.state();
        let state = &mut *guard;
        let now = Instant::now();
        loop {
            let Some((due, app)) = state.next_due() else { return Ok(None) };
            if due > now {
                return Ok(None);
            }
            let app = app.clone();
            let Some(queue) = state.apps.get_mut(&app) else { return Ok(None) };
            let Some(first) = queue.rows.front() else {
                // Its last event was dropped while a worker had it; the lease is over now.
                state.apps.remove(&app);
                continue;
            };
            if matches!(queue.stand, Stand::Held { .. }) {
                queue.attempts = queue.attempts.saturating_add(1);
            }
            state.last_fence += 1;
            let fence = state.last_fence;
            queue.stand = Stand::Held { until: now + lease.min(LONGEST), fence };
            let (id, seq, attempts) = (first.event.id.clone(), first.seq, queue.attempts);
            return Ok(Some(Claim { id, event: Ok(first.event.clone()), app, seq, attempts, fence }));
        }
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<(), OutboxError> {
        let until = Instant::now() + lease.min(LONGEST);
        self.answer(claim, |queue| queue.stand = Stand::Held { until, fence: claim.fence })
    }

    async fn ack(&self, claim: &Claim) -> Result<(), OutboxError> {
        self.answer(claim, |queue| queue.advance(Stand::Waiting { due: Instant::now() }))
    }

    async fn put_off(&self, claim: &Claim, after: Duration, error: Option<&HookError>) -> Result<(), OutboxError> {
        self.answer(claim, |queue| {
            queue.stand = Stand::Waiting { due: Instant::now() + after.min(LONGEST) };
            if let Some(error) = error {
                queue.attempts = queue.attempts.saturating_add(1);
                queue.error = Some(error.clone());
            }
        })
    }

    async fn park(&self, claim: &Claim, error: &HookError) -> Result<(), OutboxError> {
        self.answer(claim, |queue| {
            queue.stand = Stand::Parked;
            queue.attempts = queue.attempts.saturating_add(1);
            queue.error = Some(error.clone());
        })
    }

    async fn changed(&self, most: Duration) {
        let end = Instant::now() + most.min(LONGEST);
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            // Before the look, so that nothing falls between the two.
            changed.as_mut().enable();
            let next = self.state().next_due().map(|(due, _)| due);
            let wake = next.unwrap_or(end).min(end);
            if wake <= Instant::now() || (timeout_at(wake, changed).await.is_err() && wake == end) {
                return;
            }
        }
    }

    async fn list(&self, filter: &OutboxFilter) -> Result<Vec<Waiting>, OutboxError> {
        let state = self.state();
        let clock = Clock::now();
        let limit = if filter.limit == 0 { usize::MAX } else { usize::try_from(filter.limit).unwrap_or(usize::MAX) };
        let queues = state.apps.iter().filter(|(app, _)| filter.app.as_ref().is_none_or(|wanted| wanted == *app));
        let rows = queues.flat_map(|(app, queue)| {
            queue.rows.iter().enumerate().map(move |(at, row)| {
                let first = at == 0;
                let due = if first { queue.stand.due() } else { Some(row.appended) };
                Waiting {
                    id: row.event.id.clone(),
                    app: app.clone(),
                    seq: row.seq,
                    hook: Some(row.event.hook()),
                    attempts: if first { queue.attempts } else { 0 },
                    due: due.map(|due| clock.at(due)),
                    error: queue.error.clone().filter(|_| first),
                }
            })
        });
        Ok(rows.filter(|row| !filter.parked || row.due.is_none()).take(limit).collect())
    }

    async fn retry(&self, id: &EventId) -> Result<bool, OutboxError> {
        Ok(self.with_event(id, |state, app, at| {
            let Some(queue) = state.apps.get_mut(app) else { return };
            if at == 0 && !matches!(queue.stand, Stand::Held { .. }) {
                queue.stand = Stand::Waiting { due: Instant::now() };
                queue.attempts = 0;
            }
        }))
    }

    async fn drop_event(&self, id: &EventId) -> Result<bool, OutboxError> {
        Ok(self.with_event(id, |state, app, at| {
            state.ids.remove(id);
            let Some(queue) = state.apps.get_mut(app) else { return };
            let held = match queue.stand {
                Stand::Held { until, .. } => Some(until),
                Stand::Waiting { .. } | Stand::Parked => None,
            };
            if at == 0 {
                queue.advance(Stand::Waiting { due: held.unwrap_or_else(Instant::now) });
            } else {
                queue.rows.remove(at);
            }
            if queue.rows.is_empty() && held.is_none() {
                state.apps.remove(app);
            }
        }))
    }
}

/// What tokio's clock says, in the terms of the wall's.
#[derive(Clone, Copy)]
struct Clock {
    instant: Instant,
    since_epoch: Duration,
}

impl Clock {
    fn now() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { instant: Instant::now(), since_epoch }
    }

    fn at(&self, instant: Instant) -> Timestamp {
        let ahead = instant.saturating_duration_since(self.instant);
        let behind = self.instant.saturating_duration_since(instant);
        Timestamp::from_millis(0).plus((self.since_epoch + ahead).saturating_sub(behind))
    }
}
