//! Writes to allocations, and to the clients that run them.

use serde_json::json;

use super::{access::Need, answer::Answer, post::Post};
use crate::cluster::Refusal;

type Outcome = Result<Answer, Refusal>;

impl Post<'_> {
    /// Lets an allocation be replaced.
    pub(crate) fn stop_allocation(&mut self, id: &str) -> Outcome {
        if id.len() != 36 {
            return Err(Refusal::new(500, "alloc lookup failed: index error: UUID must be 36 characters"));
        }
        let Some(alloc) = self.state.allocs.get(id) else {
            self.caller.need(Need::Write, self.query.namespace())?;
            return Err(Refusal::new(404, "allocation not found"));
        };
        self.caller.need(Need::Write, &alloc.job.spec.view.namespace)?;
        let (eval, index) = self.state.stop_alloc(id);
        Ok(Answer::written(index, json!({"EvalID": eval, "Index": index})))
    }

    /// What a server hands on to the client of an allocation: `<id>/<what>`.
    pub(crate) fn client(&mut self, rest: &str) -> Outcome {
        let (id, what) = rest.split_once('/').unwrap_or((rest, ""));
        let Some(alloc) = self.state.allocs.get(id) else {
            return Err(Refusal::new(404, format!("Unknown allocation {id:?}")));
        };
        self.caller.need(Need::Write, &alloc.job.spec.view.namespace)?;
        let body = if self.body.is_empty() { json!({}) } else { self.json("request to a client")? };
        let text = |key: &str| body[key].as_str().unwrap_or_default();
        match what {
            "restart" => self.state.restart_tasks(id, text("TaskName"), body["AllTasks"] == true)?,
            "signal" => self.state.signal_tasks(id, text("Task"), text("Signal"))?,
            other => return Err(Refusal::unrecorded(format!("/v1/client/allocation/:id/{other}"))),
        }
        Ok(Answer::plain_json(json!({"Index": 0})))
    }
}
