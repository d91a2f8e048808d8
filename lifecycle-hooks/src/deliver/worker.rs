//! Takes events from an outbox and tells them.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_core::future::BoxFuture;
use futures_util::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use scheduler_core::hooks::{AppName, Event, EventKind, HookError, Outcome, Report};
use tokio::select;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::backoff::Backoff;
use super::{Delivery, DeliveryEnd, HookSets, Told, WorkerOptions};
use crate::outbox::{Claim, Outbox, OutboxError, OutboxFilter};

/// Takes events from an [`Outbox`] and tells them to [`HookSets`]: one app's in their order, several apps at a time.
///
/// * What the sets [applied](Outcome::Applied), had already done, or do not support, is acknowledged.
/// * What one [defers](Outcome::Deferred) is told again when it says, however often that is.
/// * After an error that may pass it is told again after a delay that grows, with jitter, and never before the error's
///   `retry_after_ms`; after [`attempts`](WorkerOptions::attempts) of them it is parked. So is an event during which so many
///   workers died. Any other error parks it at once.
///   A parked event blocks its app and no other.
/// * A claim is renewed while hooks run. When it is lost nevertheless (the outbox could not be reached for too long), the
///   hook is dropped, since another worker may have the app.
/// * When the outbox fails, the worker waits a while, with a delay that grows likewise, and goes on.
///
/// Several workers, in one process or many, can share an outbox.
///
/// Nothing of it runs outside the future of [`run`](Self::run): dropping that stops everything at once. What was being told
/// then is told again, here or elsewhere, when its lease has run out.
///
/// ```
/// use std::sync::Arc;
/// use lifecycle_hooks::deliver::{HookSets, Recorder, Worker};
/// use lifecycle_hooks::outbox::MemoryOutbox;
/// use scheduler_core::Timestamp;
/// use scheduler_core::hooks::{App, AppName, Event, EventId, EventKind, HookName};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (outbox, recorder) = (MemoryOutbox::new(), Recorder::new("test"));
/// let app = App::new(AppName::new("shop")?, "shop".try_into()?);
/// outbox.append(Event::new(EventId::new("1"), Timestamp::from_millis(0), EventKind::AppCreated, app));
///
/// let sets = HookSets::new(vec![Arc::new(recorder.clone())])?;
/// Worker::new(Arc::new(outbox), sets).run_until_idle().await;
/// assert_eq!(recorder.hooks(), [HookName::PostAppCreate]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Worker {
    outbox: Arc<dyn Outbox>,
    sets: HookSets,
    options: WorkerOptions,
}

impl Worker {
    /// A worker with the default options.
    #[must_use]
    pub fn new(outbox: Arc<dyn Outbox>, sets: HookSets) -> Self {
        Self { outbox, sets, options: WorkerOptions::default() }
    }

    /// Sets how it works.
    #[must_use]
    pub fn options(mut self, options: WorkerOptions) -> Self {
        self.options = options;
        self
    }

    /// Works until `shutdown` is done. Then it takes no further event, lets the hooks that run go on for the
    /// [grace](WorkerOptions::grace), drops those that have not ended by then, and gives their events back, so that another
    /// worker tells them again at once.
    ///
    /// Costs one claim for each event, one answer, and one renewal for each third of the lease that its hooks take; nothing
    /// while nothing is due, but one claim each [`look`](WorkerOptions::look).
    pub async fn run(&self, shutdown: impl Future<Output = ()> + Send) {
        self.work(shutdown, false).await;
    }

    /// Works until every event has been told, or is parked, or waits behind one that is. For tests; it reads the whole outbox
    /// whenever nothing is due.
    pub async fn run_until_idle(&self) {
        self.work(pending(), true).await;
    }

    async fn work(&self, shutdown: impl Future<Output = ()> + Send, until_idle: bool) {
        let options = &self.options;
        let backoff = Backoff::new(options.backoff, options.backoff_cap, options.seed);
        let (freed, stop, over) = (Notify::new(), Notify::new(), watch::Sender::new(false));
        let run = Run { worker: self, backoff, freed, stop, stopping: AtomicBool::new(false), over, until_idle };
        let (mut shutdown, mut running) = (pin!(shutdown), FuturesUnordered::new());
        let mut next: Option<BoxFuture<'_, Option<Held>>> = None;
        loop {
            if next.is_none() && running.len() < options.apps.max(1) {
                next = Some(run.next().boxed());
            }
            let claimed = select! {
                biased;
                () = &mut shutdown => break,
                Some(another) = running.next(), if !running.is_empty() => {
                    match another {
                        Some(held) => running.push(run.deliver(held)),
                        // Whoever waits for the end of everything may look now.
                        None => run.freed.notify_one(),
                    }
                    continue;
                }
                claimed = ready(&mut next) => claimed,
            };
            next = None;
            let Some(held) = claimed else { break };
            running.push(run.deliver(held));
        }
        run.stopping.store(true, Ordering::Relaxed);
        run.stop.notify_one();
        let rest = async {
            loop {
                let claimed = select! {
                    Some(another) = running.next(), if !running.is_empty() => another,
                    claimed = ready(&mut next), if next.is_some() => {
                        next = None;
                        claimed
                    }
                    else => break,
                };
                // Claimed just then, and given back. Beside the others: what this waits for may be theirs to end.
                running.extend(claimed.map(|held| run.deliver(held)));
            }
        };
        let mut rest = pin!(rest);
        if timeout(options.grace, &mut rest).await.is_err() {
            run.over.send_replace(true);
            // Told again when their leases have run out, if even this cannot be stored.
            let _ = timeout(GIVE_BACK, rest).await;
        }
    }
}

/// How long the outbox may take to be told, at the end, that events are to be told again.
const GIVE_BACK: Duration = Duration::from_secs(5);

/// How often a worker looks whether everything is told, if it is to end then.
const IDLE_LOOK: Duration = Duration::from_millis(250);

async fn ready<T>(future: &mut Option<BoxFuture<'_, T>>) -> T {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}

/// One run of a worker.
struct Run<'a> {
    worker: &'a Worker,
    backoff: Backoff,
    /// A delivery has ended.
    freed: Notify,
    /// No further event is to be taken: for who waits for one, and for who is about to claim one.
    stop: Notify,
    stopping: AtomicBool,
    /// Whether the grace is over.
    over: watch::Sender<bool>,
    until_idle: bool,
}

/// A claim, and until when it holds.
struct Held {
    claim: Claim,
    until: Instant,
}

/// What is to become of an event.
enum Step {
    Ack,
    PutOff(Duration, Option<HookError>),
    Park(HookError),
}

impl Run<'_> {
    /// The next event. `None`: none is wanted any more.
    async fn next(&self) -> Option<Held> {
        let (outbox, options) = (&self.worker.outbox, &self.worker.options);
        // Whether another worker has done the last of it, nothing tells.
        let look = if self.until_idle { options.look.min(IDLE_LOOK) } else { options.look };
        let mut failures = 0;
        loop {
            // Reckoned from before the call, so that we never believe in it longer than the outbox does.
            let until = Instant::now() + options.lease;
            let pause = match outbox.claim(options.lease).await {
                Ok(Some(claim)) => return Some(Held { claim, until }),
                Ok(None) if self.until_idle && self.is_idle().await => return None,
                Ok(None) => None,
                Err(error) => {
                    self.failed("claim", &error);
                    failures += 1;
                    Some(self.backoff.after(failures, None))
                }
            };
            let due = async {
                match pause {
                    Some(pause) => sleep(pause).await,
                    None => outbox.changed(look).await,
                }
            };
            select! {
                () = self.stop.notified() => return None,
                () = self.freed.notified() => {}
                () = due => {}
            }
            failures = if pause.is_some() { failures } else { 0 };
        }
    }

    /// Whether all that is left waits for an operator.
    async fn is_idle(&self) -> bool {
        match self.worker.outbox.list(&OutboxFilter::default()).await {
            Ok(waiting) => {
                let parked = |app: &AppName| waiting.iter().any(|event| event.app == *app && event.due.is_none());
                waiting.iter().all(|event| parked(&event.app))
            }
            Err(error) => {
                self.failed("list", &error);
                false
            }
        }
    }

    /// Tells an event, answers its claim, and takes another one if it is due: so there are as many claims at a time as there
    /// is other work, and none of it waits for the claims of the rest.
    async fn deliver(&self, held: Held) -> Option<Held> {
        if self.stopping.load(Ordering::Relaxed) {
            // Without an answer it would wait for the end of its lease.
            self.answer(&held.claim, &Step::PutOff(Duration::ZERO, None)).await;
            return None;
        }
        self.deliver_one(held).await;
        if self.stopping.load(Ordering::Relaxed) {
            return None;
        }
        let until = Instant::now() + self.worker.options.lease;
        // An error is met again, and waited for, where events are waited for.
        self.worker.outbox.claim(self.worker.options.lease).await.ok().flatten().map(|claim| Held { claim, until })
    }

    async fn deliver_one(&self, held: Held) {
        let Held { claim, until } = held;
        let attempt = claim.attempts.saturating_add(1);
        let (mut told, mut gone) = (Told::default(), None);
        let step = match &claim.event {
            Err(error) => Some(Step::Park(error.clone())),
            // No answer ever came, or it would be parked already: it may be what ends the workers.
            Ok(_) if claim.attempts >= self.worker.options.attempts.max(1) => Some(Step::Park(HookError::permanent(
                format!("{} attempts ended without an answer; the workers may have died of it", claim.attempts),
            ))),
            Ok(event) => select! {
                biased;
                answered = self.tell(event) => {
                    (told, gone) = answered;
                    Some(self.step(&told, attempt))
                }
                () = self.hold(&claim, until) => None,
                () = self.over() => Some(Step::PutOff(Duration::ZERO, None)),
            },
        };
        let stored = match &step {
            Some(step) => self.answer(&claim, step).await,
            None => false,
        };
        let end = match step {
            Some(Step::Ack) if stored => DeliveryEnd::Done,
            Some(Step::PutOff(after, error)) if stored => DeliveryEnd::PutOff { after, error },
            Some(Step::Park(error)) if stored => DeliveryEnd::Parked { error },
            _ => DeliveryEnd::Lost,
        };
        if let Some(observer) = &self.worker.options.observer {
            let hook = claim.event.as_ref().ok().map(Event::hook);
            let Claim { id: event, app, seq, .. } = claim;
            observer.delivered(&Delivery { app, seq, event, hook, attempt, told, gone, end });
        }
    }

    /// Tells an event; after the last one of an app, also that the app is gone.
    async fn tell(&self, event: &Event) -> (Told, Option<Told>) {
        let (sets, deadlines) = (&self.worker.sets, &self.worker.options.deadlines);
        let told = sets.tell(event, deadlines).await;
        let destroyed = matches!(event.kind, EventKind::AppDestroyed);
        let gone = match told.verdict() {
            Ok(outcome) if destroyed && !matches!(outcome, Outcome::Deferred { .. }) => {
                Some(sets.report(&event.app, &Report::AppGone, deadlines).await)
            }
            _ => None,
        };
        (told, gone)
    }

    fn step(&self, told: &Told, attempt: u32) -> Step {
        match told.verdict() {
            Ok(Outcome::Deferred { after, .. }) => Step::PutOff(after, None),
            Ok(_) => Step::Ack,
            Err(error) if !error.retry => Step::Park(error),
            Err(error) if attempt >= self.worker.options.attempts => {
                Step::Park(error.context(format_args!("after {attempt} attempts")))
            }
            Err(error) => {
                let asked = error.retry_after_ms.map(Duration::from_millis);
                Step::PutOff(self.backoff.after(attempt, asked), Some(error))
            }
        }
    }

    /// Ends when the grace does.
    async fn over(&self) {
        // The sender lives as long as this.
        let _ = self.over.subscribe().wait_for(|over| *over).await;
    }

    /// Keeps a claim for as long as it is polled. It ends when the claim is lost.
    async fn hold(&self, claim: &Claim, mut until: Instant) {
        let lease = self.worker.options.lease;
        loop {
            sleep_until((Instant::now() + lease / 3).min(until)).await;
            let asked = Instant::now();
            match timeout_at(until, self.worker.outbox.renew(claim, lease)).await {
                Ok(Ok(())) => until = asked + lease,
                Ok(Err(OutboxError::LeaseLost { .. })) | Err(_) => return,
                Ok(Err(error)) => {
                    self.failed("renew", &error);
                    if Instant::now() >= until {
                        return;
                    }
                }
            }
        }
    }

    /// Stores what became of an event. `false`: it could not, or somebody else has the app.
    async fn answer(&self, claim: &Claim, step: &Step) -> bool {
        let outbox = &self.worker.outbox;
        let end = Instant::now() + self.worker.options.lease;
        let mut failures = 0;
        loop {
            let (call, answer) = match step {
                Step::Ack => ("ack", outbox.ack(claim).await),
                Step::PutOff(after, error) => ("put_off", outbox.put_off(claim, *after, error.as_ref()).await),
                Step::Park(error) => ("park", outbox.park(claim, error).await),
            };
            match answer {
                Ok(()) => return true,
                Err(OutboxError::LeaseLost { .. }) => return false,
                Err(error) => self.failed(call, &error),
            }
            failures += 1;
            let pause = self.backoff.after(failures, None);
            if Instant::now() + pause >= end {
                return false;
            }
            sleep(pause).await;
        }
    }

    fn failed(&self, call: &'static str, error: &OutboxError) {
        if let Some(observer) = &self.worker.options.observer {
            observer.outbox_failed(call, error);
        }
    }
}
