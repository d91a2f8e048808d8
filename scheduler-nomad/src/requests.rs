//! The requests of one operation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use scheduler_core::Error;
use scheduler_nomad_client::model::{HostVolume, Job, JobStub, Namespace, NewHostVolume, Planned, Variable};
use scheduler_nomad_client::{
    self as client, Answer, Client, DeploymentChanged, Deregistered, Effect, Evaluated, ListOptions, Query, Register,
    Registered, Scale, VariableCondition,
};

type Result<T> = std::result::Result<T, client::Error>;

/// The client as an operation uses it: it notes whether the operation may have changed something.
///
/// The client below is reached through here alone, and what writes is written out below, so that no write can be forgotten.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    client: Client,
    changed: Arc<AtomicBool>,
}

impl Requests {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, changed: Arc::default() }
    }

    /// For another operation, which has changed nothing so far.
    pub(crate) fn afresh(&self) -> Self {
        Self::new(self.client.clone())
    }

    /// The failure of the operation, which says that nothing took effect only if that is so.
    pub(crate) fn judge(&self, error: Error) -> Error {
        if self.changed.load(Ordering::Relaxed) { error.after_a_change() } else { error }
    }

    /// For what only reads.
    pub(crate) fn reads(&self) -> &Client {
        &self.client
    }

    pub(crate) async fn query<T>(&self, query: &Query<T>) -> Result<Answer<T>> {
        self.client.query(query).await
    }

    pub(crate) async fn list_jobs(&self, namespace: &str, options: &ListOptions) -> Result<Answer<Vec<JobStub>>> {
        self.client.list_jobs(namespace, options).await
    }

    pub(crate) async fn plan(&self, job: &Job, diff: bool) -> Result<Planned> {
        self.client.plan(job, diff).await
    }

    /// What was refused changed nothing.
    fn note<T>(&self, answer: Result<T>) -> Result<T> {
        if answer.as_ref().err().is_none_or(|error| error.effect() == Effect::Unknown) {
            self.changed.store(true, Ordering::Relaxed);
        }
        answer
    }
}

/// The writes of the client under the same names, each noted.
macro_rules! writes {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $answer:ty;)*) => {
        impl Requests {
            $(pub(crate) async fn $name(&self, $($argument: $kind),*) -> Result<$answer> {
                self.note(self.client.$name($($argument),*).await)
            })*
        }
    };
}

writes! {
    register(register: Register<'_>) -> Registered;
    deregister(namespace: &str, id: &str, purge: bool) -> Deregistered;
    scale(namespace: &str, id: &str, scale: &Scale) -> Registered;
    pause_deployment(namespace: &str, id: &str) -> DeploymentChanged;
    resume_deployment(namespace: &str, id: &str) -> DeploymentChanged;
    promote_deployment(namespace: &str, id: &str) -> DeploymentChanged;
    fail_deployment(namespace: &str, id: &str) -> DeploymentChanged;
    stop_allocation(namespace: &str, id: &str) -> Evaluated;
    restart_allocation(namespace: &str, id: &str, task: Option<&str>) -> ();
    put_version_tag(namespace: &str, id: &str, version: u64, name: &str, description: &str) -> ();
    delete_version_tag(namespace: &str, id: &str, name: &str) -> ();
    put_variable(variable: &Variable, condition: VariableCondition) -> Variable;
    delete_variable(namespace: &str, path: &str, modify_index: u64) -> ();
    delete_service_registration(namespace: &str, name: &str, id: &str) -> ();
    put_namespace(namespace: &Namespace) -> ();
    delete_namespace(name: &str) -> ();
    create_host_volume(namespace: &str, volume: &NewHostVolume) -> HostVolume;
    delete_host_volume(namespace: &str, id: &str) -> ();
}
