use std::{
    fmt,
    net::{Ipv4Addr, TcpListener},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use tokio::{
    runtime,
    sync::{oneshot, watch},
};

use crate::{
    Access, FakeError, Options,
    cluster::{State, Token},
    http,
    time::{Clock, Time},
};

/// A Nomad for tests. See the [crate's page](crate).
///
/// It can be used from any runtime and any thread: its own work is done on a thread of its own. It ends when it is
/// dropped, or at [`FakeNomad::stop`]; then nothing answers at its address any more.
pub struct FakeNomad {
    hub: Arc<Hub>,
    address: String,
    running: Mutex<Option<Background>>,
}

impl fmt::Debug for FakeNomad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeNomad").field("address", &self.address).finish_non_exhaustive()
    }
}

impl FakeNomad {
    /// Starts a cluster without jobs, on a free port of 127.0.0.1. It answers as soon as this returns.
    ///
    /// # Errors
    /// When there is no port or no thread to be had.
    pub fn start(options: Options) -> Result<Self, FakeError> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(FakeError::machine("bind a loopback port"))?;
        listener.set_nonblocking(true).map_err(FakeError::machine("prepare a socket"))?;
        let address = listener.local_addr().map_err(FakeError::machine("read the address of a socket"))?;
        let hub = Arc::new(Hub::new(&options));
        let background = Background::start(listener, Arc::clone(&hub))?;
        Ok(Self { hub, address: format!("http://{address}"), running: Mutex::new(Some(background)) })
    }

    /// Where it answers: `http://127.0.0.1:<port>`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The secret of a new token, which is valid as long as the cluster runs. Without access control
    /// ([`Options::acl`]) tokens are ignored, as by a real agent.
    #[must_use]
    pub fn token(&self, access: Access) -> String {
        self.hub.change(|state| {
            let (secret, accessor) = (state.new_id(), state.new_id());
            let (index, created) = (state.index, state.now);
            state.tokens.push(Token { secret: secret.clone(), accessor, access, created, index });
            secret
        })
    }

    /// Moves the clock of a cluster that runs at [`Pace::Manual`](crate::Pace::Manual), and returns when everything has
    /// happened that is due by then. Who waits in a blocking query or on the event stream is woken. At another pace it
    /// has no effect.
    pub fn advance(&self, by: Duration) {
        self.hub.advance(by);
    }

    /// Cuts a node off, as a power failure would, and lets the servers know at once: its allocations are lost, and
    /// replaced on other nodes if there is room. A real server notices after its heartbeat time-out, some 10 to 30 s.
    ///
    /// Idempotent.
    ///
    /// # Errors
    /// [`FakeError::NoSuchNode`].
    pub fn lose_node(&self, name: &str) -> Result<(), FakeError> {
        self.hub.change(|state| state.set_node(name, false))
    }

    /// Brings a lost node back. What was replaced elsewhere ends there, what was not goes on.
    ///
    /// Idempotent.
    ///
    /// # Errors
    /// [`FakeError::NoSuchNode`].
    pub fn restore_node(&self, name: &str) -> Result<(), FakeError> {
        self.hub.change(|state| state.set_node(name, true))
    }

    /// Leaves the servers without a leader, or gives them one again. Without one, reads and writes are answered after
    /// 5 s with status 500 and `No cluster leader`, and reads with `stale` at once.
    pub fn set_leader(&self, has_leader: bool) {
        self.hub.change(|state| state.has_leader = has_leader);
    }

    /// Ends every event stream and forgets what it could replay, as a restart of the server would.
    pub fn cut_event_streams(&self) {
        self.hub.change(|state| state.events.cut());
    }

    /// Ends the cluster, and returns when its thread has ended. Idempotent.
    pub fn stop(&self) {
        drop(self.running.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// A thread with a runtime of its own, which outlives the runtimes of single tests.
struct Background {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Background {
    fn start(listener: TcpListener, hub: Arc<Hub>) -> Result<Self, FakeError> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(FakeError::machine("make a runtime"))?;
        let listener = {
            let _entered = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(FakeError::machine("listen on a socket"))?
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::Builder::new()
            .name("fake-nomad".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = http::serve(listener, Arc::clone(&hub)) => {}
                        () = hub.live() => {}
                        // Told to stop, or nobody left to tell.
                        _ = stopped => {}
                    }
                });
            })
            .map_err(FakeError::machine("start a thread"))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The state, its clock, and those who wait for it to change.
#[derive(Debug)]
pub(crate) struct Hub {
    state: Mutex<State>,
    clock: Clock,
    changes: watch::Sender<u64>,
}

impl Hub {
    fn new(options: &Options) -> Self {
        let clock = Clock::start(options.pace);
        let state = State::new(options, clock.origin());
        Self { state: Mutex::new(state), clock, changes: watch::Sender::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.now().unwrap_or_else(|| self.lock().now)
    }

    /// Reads the state as it is now.
    pub(crate) fn look<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        let mut state = self.lock();
        let before = state.index;
        if let Some(now) = self.clock.now() {
            state.advance(now);
        }
        if state.index != before {
            self.tell();
        }
        read(&state)
    }

    /// Changes the state as it is now.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        if let Some(now) = self.clock.now() {
            state.advance(now);
        }
        let outcome = change(&mut state);
        self.tell();
        outcome
    }

    fn advance(&self, by: Duration) {
        if self.clock.now().is_none() {
            let mut state = self.lock();
            let until = state.now.after(by);
            state.advance(until);
            self.tell();
        }
    }

    fn tell(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// To be told of every change from now on.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Waits for a change, or until then.
    pub(crate) async fn wait(&self, changes: &mut watch::Receiver<u64>, until: Time) {
        tokio::select! {
            // It fails only when the hub is gone, and who waits with it.
            _ = changes.changed() => {}
            () = self.clock.sleep_until(until) => {}
        }
    }

    /// Lets things happen when they are due, whether somebody looks or not.
    async fn live(&self) {
        let mut changes = self.changes();
        loop {
            match self.look(State::next_timer) {
                Some(next) => self.wait(&mut changes, next).await,
                None => drop(changes.changed().await),
            }
        }
    }
}
