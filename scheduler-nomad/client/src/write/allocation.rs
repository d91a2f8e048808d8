//! Allocations. All go through the configured agent, which passes on what is for a node: no node is dialled.

use http::Method;
use serde_json::json;

use super::{Evaluated, of_uuid};
use crate::client::{Client, invalid};
use crate::error::{Error, Verb};
use crate::target::Target;

impl Client {
    /// Stops an allocation, and has another one placed if the job wants as many. Cost: one request,
    /// `PUT /v1/allocation/:id/stop`.
    ///
    /// **Not idempotent**: repeated, also on one that has ended, it makes another evaluation; that places nothing more than
    /// the job wants.
    ///
    /// # Errors
    ///
    /// [`Missing::Object`](crate::Missing::Object) if there is none.
    pub async fn stop_allocation(&self, namespace: &str, id: &str) -> Result<Evaluated, Error> {
        let operation = of_uuid(Verb::Stop, "allocation", namespace, id)?;
        let target = Target::new(["v1", "allocation", id, "stop"]).param("namespace", namespace);
        self.put(&operation, target, &json!({})).await
    }

    /// Starts a task of an allocation again on its node, or without a name all that run. Cost: one request,
    /// `PUT /v1/client/allocation/:id/restart`.
    ///
    /// The answer comes at once: that it happened is one more of [`restarts`](crate::model::TaskState::restarts), while
    /// the allocation mostly stays `running`. **Not idempotent.**
    ///
    /// # Errors
    ///
    /// [`Precondition`](crate::ErrorKind::Precondition) when the task does not run;
    /// [`Missing::Object`](crate::Missing::Object) if there is no such allocation, [`Missing::Other`](crate::Missing::Other)
    /// if it has no such task; [`Unavailable`](crate::ErrorKind::Unavailable) when its node is away, after up to 30 s.
    pub async fn restart_allocation(&self, namespace: &str, id: &str, task: Option<&str>) -> Result<(), Error> {
        let operation = of_uuid(Verb::Restart, "allocation", namespace, id)?;
        let target = Target::new(["v1", "client", "allocation", id, "restart"]).param("namespace", namespace);
        let body = task.map_or_else(|| json!({}), |task| json!({"TaskName": task}));
        self.write(&operation, Method::PUT, target, Some(&body)).await.map(drop)
    }

    /// Sends a signal, such as `SIGHUP`, to a task of an allocation, or without a name to all. Cost: one request,
    /// `PUT /v1/client/allocation/:id/signal`.
    ///
    /// A name that the node does not know succeeds too, and what the driver makes of it is its own affair. **Not
    /// idempotent.**
    ///
    /// # Errors
    ///
    /// As of [`restart_allocation`](Self::restart_allocation).
    pub async fn signal_allocation(
        &self,
        namespace: &str,
        id: &str,
        signal: &str,
        task: Option<&str>,
    ) -> Result<(), Error> {
        let operation = of_uuid(Verb::Signal, "allocation", namespace, id)?;
        if signal.is_empty() {
            return Err(invalid(&operation, "no signal is named"));
        }
        let target = Target::new(["v1", "client", "allocation", id, "signal"]).param("namespace", namespace);
        let body = json!({"Signal": signal, "Task": task.unwrap_or_default()});
        self.write(&operation, Method::PUT, target, Some(&body)).await.map(drop)
    }
}
