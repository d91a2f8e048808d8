//! Blocking queries as a stream.

use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt};
use tokio::time::{Instant, sleep_until};

use crate::client::{Answer, Client};
use crate::error::Error;
use crate::pause::Failures;
use crate::query::Query;

/// The least time from one request to the next: other jobs' changes may wake a query many times a second.
const MIN_INTERVAL: Duration = Duration::from_millis(100);
/// The same for a route that tells no index, and so cannot wait.
const BLIND_INTERVAL: Duration = Duration::from_secs(1);

impl Client {
    /// Has every new answer of a query: the first at once, the next when the server's index for it moves.
    ///
    /// **A new answer need not differ from the last**: most indexes belong to a whole table, so changes of other jobs are
    /// reported too. Compare what you care for. States that were overwritten before the server looked are left out. An
    /// object that goes is an answer with `None`, and the stream goes on.
    ///
    /// When the index goes back, because the cluster was restored or the newest object was removed, the query starts over
    /// without one (hashicorp/nomad#6403). Between two requests are 100 ms at least, and one second where the server tells
    /// no index.
    ///
    /// **Errors are items.** After a transient one ([`Error::is_transient`]) the next poll waits (0.5 s doubling to 30 s,
    /// half of it random, or as long as the server asks, up to 5 minutes) and goes on where it was. After any other error
    /// the stream ends.
    ///
    /// Cost: one request, then one for each answer and one for each [`wait`](crate::ConnectOptions::wait) without one. The
    /// stream spawns nothing and asks only while it is polled. Dropping it closes the connection; the server notices only
    /// when the wait is over.
    pub fn follow<T: Send + 'static>(&self, query: Query<T>) -> BoxStream<'static, Result<Answer<T>, Error>> {
        let follower = Follower {
            client: self.clone(),
            query,
            index: None,
            failures: Failures::default(),
            next_at: None,
            ended: false,
        };
        stream::unfold(follower, |mut follower| async move {
            let item = follower.next().await?;
            Some((item, follower))
        })
        .boxed()
    }
}

struct Follower<T> {
    client: Client,
    query: Query<T>,
    /// Where we are; `None` to be answered at once.
    index: Option<u64>,
    failures: Failures,
    next_at: Option<Instant>,
    ended: bool,
}

impl<T> Follower<T> {
    async fn next(&mut self) -> Option<Result<Answer<T>, Error>> {
        while !self.ended {
            if let Some(at) = self.next_at.take() {
                sleep_until(at).await;
            }
            let started = Instant::now();
            match self.client.query_after(&self.query, self.index).await {
                Ok(answer) => {
                    self.failures.reset();
                    if self.is_new(answer.meta.index, started) {
                        return Some(Ok(answer));
                    }
                }
                Err(error) => {
                    if error.is_transient() {
                        self.next_at = Some(Instant::now() + self.failures.add(error.retry_after()));
                    } else {
                        self.ended = true;
                    }
                    return Some(Err(error));
                }
            }
        }
        None
    }

    /// Moves the index, and tells whether the answer is one to report.
    fn is_new(&mut self, told: Option<u64>, started: Instant) -> bool {
        self.next_at = Some(started + MIN_INTERVAL);
        let told = told.filter(|index| *index > 0);
        let Some(index) = told else {
            // Asked with zero, or with none, the server would answer at once, for ever. One is the lowest that waits.
            self.next_at = Some(started + BLIND_INTERVAL);
            self.index = Some(1);
            return true;
        };
        match self.index {
            Some(last) if index < last => {
                self.index = None;
                false
            }
            Some(last) if index == last => false,
            _ => {
                self.index = Some(index);
                true
            }
        }
    }
}
