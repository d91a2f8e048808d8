//! The scale subresource: how many replicas, apart from everything else.

use serde::Deserialize;
use serde_json::json;

use crate::client::Client;
use crate::error::{Error, ErrorKind, Missing, Operation, Verb};
use crate::merge::Merge;
use crate::resource::{PathAndQuery, Resource};

/// The replicas of an object, as its scale subresource shows them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Scale {
    /// How many there should be.
    pub desired: u32,
    /// How many its controller counted when it last looked.
    pub current: u32,
    /// Which pods are meant, as a label selector in text form. Empty if the server gives none.
    pub selector: String,
    /// `metadata.uid` of the object itself.
    pub uid: String,
    /// `metadata.resourceVersion` of the object itself.
    pub resource_version: String,
}

/// A change of the replicas, to be sent by [`Client::set_scale`].
#[derive(Debug, Clone)]
pub struct SetScale<'a> {
    resource: &'a Resource,
    namespace: Option<&'a str>,
    name: &'a str,
    replicas: u32,
    field_manager: &'a str,
    uid: &'a str,
    resource_version: &'a str,
}

impl<'a> SetScale<'a> {
    /// Asks for `replicas`, if the object is still the one that was read: `uid` and `resource_version` are from a
    /// [`Scale`] or from the object itself, which share both. `field_manager` will own the count.
    #[must_use]
    pub fn new(
        resource: &'a Resource,
        namespace: Option<&'a str>,
        name: &'a str,
        replicas: u32,
        field_manager: &'a str,
        uid: &'a str,
        resource_version: &'a str,
    ) -> Self {
        Self { resource, namespace, name, replicas, field_manager, uid, resource_version }
    }
}

#[derive(Deserialize)]
struct RawScale {
    metadata: RawMetadata,
    #[serde(default)]
    spec: RawSpec,
    #[serde(default)]
    status: RawStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMetadata {
    uid: String,
    resource_version: String,
}

/// The server leaves a zero out.
#[derive(Deserialize, Default)]
#[serde(default)]
struct RawSpec {
    replicas: u32,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawStatus {
    replicas: u32,
    selector: String,
}

impl From<RawScale> for Scale {
    fn from(RawScale { metadata, spec, status }: RawScale) -> Self {
        Self {
            desired: spec.replicas,
            current: status.replicas,
            selector: status.selector,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
        }
    }
}

impl Client {
    /// Reads how many replicas an object has: a Deployment, a ReplicaSet, a StatefulSet, or a kind of somebody's that has
    /// a scale. Cost: one request.
    ///
    /// `None` only if the server says that this very object is absent.
    ///
    /// # Errors
    ///
    /// What the request met. A kind that cannot be scaled (a DaemonSet, a Job) is [`Missing::Path`].
    pub async fn scale(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Scale>, Error> {
        let (operation, target) = address(resource, Verb::Get, namespace, name)?;
        match self.read::<RawScale>(operation, Some(*resource), target).await {
            Ok(scale) => Ok(Some(scale.into())),
            Err(error) if error.kind() == ErrorKind::NotFound(Missing::Object) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Changes how many replicas an object should have, and nothing else of it. Answers the scale as stored, with the
    /// object's new `resourceVersion`. Cost: one request, a merge `PATCH`.
    ///
    /// Idempotent: repeated after an unknown outcome it is refused by its own condition if it took effect. To ask for the
    /// number that there is changes nothing but, at most, who owns it.
    ///
    /// Whoever applied another number before loses the field to this one. (A zero is owned by nobody: a scale leaves it
    /// out.)
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Conflict`] if the object is another one, has changed, or is gone. Its status counts as a change.
    /// - `NotFound(Missing::Path)` for a kind that cannot be scaled.
    /// - what the request met otherwise.
    pub async fn set_scale(&self, set: SetScale<'_>) -> Result<Scale, Error> {
        let SetScale { resource, namespace, name, replicas, field_manager, uid, resource_version } = set;
        let (operation, mut target) = address(resource, Verb::Patch, namespace, name)?;
        target.push("fieldManager", field_manager);
        let body = json!({"spec": {"replicas": replicas}});
        let merge = Merge { operation: &operation, resource, target, body, uid, resource_version };
        self.merge(merge).await?.json::<RawScale>(&operation).map(Scale::from)
    }
}

fn address(
    resource: &Resource,
    verb: Verb,
    namespace: Option<&str>,
    name: &str,
) -> Result<(Operation, PathAndQuery), Error> {
    let mut operation = resource.operation(verb, namespace, Some(name));
    let path = resource.path(&operation)?;
    operation.resource = resource.subresource("scale");
    Ok((operation, PathAndQuery::new(format!("{path}/scale"))))
}
