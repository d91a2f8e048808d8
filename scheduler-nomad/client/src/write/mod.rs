//! What changes something, and the dry run of it. Every function sends one request.

mod allocation;
mod deployment;
mod job;
mod namespace;
mod register;
mod variable;
mod volume;

use bytes::Bytes;
use http::Method;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::client::{Client, invalid};
use crate::error::{Error, Operation, Verb};
use crate::model::nullable;
use crate::target::{Target, check_job, check_namespace, check_uuid};
use crate::transport::{Call, Limit, Payload, Received};

pub use deployment::DeploymentChanged;
pub use job::{Dispatch, Dispatched, Revert, Scale};
pub use register::{Condition, Deregistered, Register, Registered};
pub use variable::VariableCondition;

/// The answer to what only makes an evaluation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[non_exhaustive]
pub struct Evaluated {
    /// The evaluation.
    #[serde(rename = "EvalID", deserialize_with = "nullable")]
    pub eval_id: String,
    /// The index of the write.
    pub index: u64,
}

impl Client {
    async fn write<B: Serialize + Sync>(
        &self,
        operation: &Operation,
        method: Method,
        target: Target,
        body: Option<&B>,
    ) -> Result<Received, Error> {
        let encode = |body| serde_json::to_vec(body).map(Bytes::from).map(Payload);
        let body = body.map(encode).transpose().map_err(|_| invalid(operation, "it cannot be written as JSON"))?;
        let call = Call { operation: operation.clone(), method, target, body, limit: Limit::Total };
        self.transport().exchange(call).await
    }

    /// The same with `PUT` and a body, where the answer is JSON.
    async fn put<B: Serialize + Sync, T: DeserializeOwned>(
        &self,
        operation: &Operation,
        target: Target,
        body: &B,
    ) -> Result<T, Error> {
        let received = self.write(operation, Method::PUT, target, Some(body)).await?;
        received.decode(operation, |body| serde_json::from_slice(body))
    }
}

/// An operation on a job that can be addressed.
fn of_job(verb: Verb, resource: &str, namespace: &str, id: &str) -> Result<Operation, Error> {
    let operation = Operation::new(verb, resource, Some(namespace), Some(id));
    match check_namespace(namespace).and_then(|()| check_job(id)) {
        Ok(()) => Ok(operation),
        Err(why) => Err(invalid(&operation, why)),
    }
}

/// An operation on an object that has a full ID.
fn of_uuid(verb: Verb, resource: &str, namespace: &str, id: &str) -> Result<Operation, Error> {
    let operation = Operation::new(verb, resource, Some(namespace), Some(id));
    match check_namespace(namespace).and_then(|()| check_uuid(id)) {
        Ok(()) => Ok(operation),
        Err(why) => Err(invalid(&operation, why)),
    }
}
