//! Host volumes.

use http::Method;
use serde::{Deserialize, Serialize};

use crate::client::{Client, invalid};
use crate::error::{Error, Operation, Verb};
use crate::model::{HostVolume, NewHostVolume};
use crate::target::{Target, check_namespace};

use super::of_uuid;

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Wanted<'a> {
    volume: &'a NewHostVolume,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Made {
    volume: HostVolume,
}

impl Client {
    /// Makes a host volume on a node of the server's choice (from 1.10 on). Answers it as it is on the way: its node may
    /// not have reported it yet. Cost: one request, `PUT /v1/volume/host/create`.
    ///
    /// Not idempotent: the same again makes another volume of that name on another node, if there is one.
    ///
    /// # Errors
    ///
    /// [`Precondition`](crate::ErrorKind::Precondition) when no node has the plugin and no volume of that name, of whatever
    /// namespace;
    /// [`Missing::Namespace`](crate::Missing::Namespace) for a namespace that is not there.
    pub async fn create_host_volume(&self, namespace: &str, volume: &NewHostVolume) -> Result<HostVolume, Error> {
        let operation = Operation::new(Verb::Write, "host volume", Some(namespace), Some(&volume.name));
        check_namespace(namespace).map_err(|why| invalid(&operation, why))?;
        let target = Target::new(["v1", "volume", "host", "create"]).param("namespace", namespace);
        let made: Made = self.put(&operation, target, &Wanted { volume }).await?;
        Ok(made.volume)
    }

    /// Removes a host volume, with what it holds. Cost: one request, `DELETE /v1/volume/host/:id/delete`.
    ///
    /// # Errors
    ///
    /// [`Precondition`](crate::ErrorKind::Precondition) while allocations use it;
    /// [`Missing::Object`](crate::Missing::Object) if it is gone, so a repetition that meets this has what it wants.
    pub async fn delete_host_volume(&self, namespace: &str, id: &str) -> Result<(), Error> {
        let operation = of_uuid(Verb::Delete, "host volume", namespace, id)?;
        let target = Target::new(["v1", "volume", "host", id, "delete"]).param("namespace", namespace);
        self.write::<()>(&operation, Method::DELETE, target, None).await.map(drop)
    }
}
