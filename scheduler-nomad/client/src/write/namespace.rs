//! Namespaces, and registrations that were left behind.

use http::Method;

use crate::client::{Client, invalid};
use crate::error::{Error, Operation, Verb};
use crate::model::Namespace;
use crate::target::{Target, check_namespace, check_segment};

impl Client {
    /// Makes or replaces a namespace. Cost: one request, `PUT /v1/namespace`.
    ///
    /// Idempotent. It replaces the namespace as a whole, and the server checks no index.
    ///
    /// # Errors
    ///
    /// What the request met.
    pub async fn put_namespace(&self, namespace: &Namespace) -> Result<(), Error> {
        let operation = of_namespace(Verb::Write, &namespace.name)?;
        let target = Target::new(["v1", "namespace"]);
        self.write(&operation, Method::PUT, target, Some(namespace)).await.map(drop)
    }

    /// Removes a namespace. Cost: one request, `DELETE /v1/namespace/:name`.
    ///
    /// The server checks no index. Jobs that are stopped and not purged do not keep it from going, and stay readable in
    /// the namespace that is gone: purge them first. Older servers may answer success although variables or volumes are
    /// left (hashicorp/nomad#19414): read it again.
    ///
    /// # Errors
    ///
    /// [`Precondition`](crate::ErrorKind::Precondition) while jobs or allocations in it have not ended, variables or volumes
    /// are left, and of `default`; [`Missing::Object`](crate::Missing::Object) if there is none of this name, so a
    /// repetition that meets this has what it wants.
    pub async fn delete_namespace(&self, name: &str) -> Result<(), Error> {
        let operation = of_namespace(Verb::Delete, name)?;
        let target = Target::new(["v1", "namespace", name]);
        self.write::<()>(&operation, Method::DELETE, target, None).await.map(drop)
    }

    /// Removes one registration of a service, such as one whose allocation is long gone (hashicorp/nomad#17182). Cost: one
    /// request, `DELETE /v1/service/:name/:id`.
    ///
    /// A node registers a running task's service again only when the task starts again or its tags change, so leave the
    /// registrations of running allocations alone.
    ///
    /// # Errors
    ///
    /// [`Missing::Object`](crate::Missing::Object) if it is gone, so a repetition that meets this has what it wants.
    pub async fn delete_service_registration(&self, namespace: &str, name: &str, id: &str) -> Result<(), Error> {
        let operation = Operation::new(Verb::Delete, "registration of service", Some(namespace), Some(name));
        check_namespace(namespace)
            .and_then(|()| check_segment("service", name))
            .and_then(|()| check_segment("registration", id))
            .map_err(|why| invalid(&operation, why))?;
        let target = Target::new(["v1", "service", name, id]).param("namespace", namespace);
        self.write::<()>(&operation, Method::DELETE, target, None).await.map(drop)
    }
}

fn of_namespace(verb: Verb, name: &str) -> Result<Operation, Error> {
    let operation = Operation::new(verb, "namespace", None, Some(name));
    match check_namespace(name) {
        Ok(()) => Ok(operation),
        Err(why) => Err(invalid(&operation, why)),
    }
}
