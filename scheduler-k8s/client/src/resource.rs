//! What the client needs to know of a kind of object: where it lives.

use std::fmt::Write as _;

use crate::error::{Effect, Error, ErrorKind, Operation, Verb};

/// A kind of object and the path under which the server has it.
///
/// Exhaustive on purpose: it is a description without behaviour, made as a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "users describe their own resources with a struct literal")]
pub struct Resource {
    /// API group, empty for the core group.
    pub group: &'static str,
    /// API version, such as `v1`.
    pub version: &'static str,
    /// Plural, lower-case name, as in paths and access rules.
    pub plural: &'static str,
    /// Kind, as in manifests.
    pub kind: &'static str,
    /// Whether objects live in a namespace.
    pub namespaced: bool,
}

impl Resource {
    /// `apps/v1` Deployment.
    pub const DEPLOYMENT: Self = Self::namespaced("apps", "v1", "deployments", "Deployment");
    /// `apps/v1` DaemonSet.
    pub const DAEMON_SET: Self = Self::namespaced("apps", "v1", "daemonsets", "DaemonSet");
    /// `apps/v1` StatefulSet.
    pub const STATEFUL_SET: Self = Self::namespaced("apps", "v1", "statefulsets", "StatefulSet");
    /// `apps/v1` ControllerRevision.
    pub const CONTROLLER_REVISION: Self = Self::namespaced("apps", "v1", "controllerrevisions", "ControllerRevision");
    /// `batch/v1` Job.
    pub const JOB: Self = Self::namespaced("batch", "v1", "jobs", "Job");
    /// `batch/v1` CronJob.
    pub const CRON_JOB: Self = Self::namespaced("batch", "v1", "cronjobs", "CronJob");
    /// `apps/v1` ReplicaSet.
    pub const REPLICA_SET: Self = Self::namespaced("apps", "v1", "replicasets", "ReplicaSet");
    /// Core `v1` Pod.
    pub const POD: Self = Self::namespaced("", "v1", "pods", "Pod");
    /// Core `v1` Service.
    pub const SERVICE: Self = Self::namespaced("", "v1", "services", "Service");
    /// `networking.k8s.io/v1` Ingress.
    pub const INGRESS: Self = Self::namespaced("networking.k8s.io", "v1", "ingresses", "Ingress");
    /// `discovery.k8s.io/v1` EndpointSlice.
    pub const ENDPOINT_SLICE: Self = Self::namespaced("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice");
    /// Core `v1` ConfigMap.
    pub const CONFIG_MAP: Self = Self::namespaced("", "v1", "configmaps", "ConfigMap");
    /// Core `v1` Secret.
    pub const SECRET: Self = Self::namespaced("", "v1", "secrets", "Secret");
    /// Core `v1` PersistentVolumeClaim.
    pub const PERSISTENT_VOLUME_CLAIM: Self =
        Self::namespaced("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim");
    /// Core `v1` Event.
    pub const EVENT: Self = Self::namespaced("", "v1", "events", "Event");
    /// Core `v1` Namespace.
    pub const NAMESPACE: Self = Self::cluster_scoped("", "v1", "namespaces", "Namespace");

    /// Describes a kind whose objects live in a namespace.
    #[must_use]
    pub const fn namespaced(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
    ) -> Self {
        Self { group, version, plural, kind, namespaced: true }
    }

    /// Describes a kind whose objects live outside of namespaces.
    #[must_use]
    pub const fn cluster_scoped(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
    ) -> Self {
        Self { group, version, plural, kind, namespaced: false }
    }

    /// `apps/v1` or `v1`: the `apiVersion` of its objects.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// `deployments.apps` or `pods`: the name that access rules and errors use.
    #[must_use]
    pub fn qualified_name(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// Whether the server means this kind. Its refusals name it by plural or by kind, depending on where they arise.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        name == self.plural || name == self.kind
    }

    /// The name of one of its subresources, such as `deployments.apps/scale`.
    pub(crate) fn subresource(&self, subresource: &str) -> String {
        format!("{}/{subresource}", self.qualified_name())
    }

    pub(crate) fn operation(&self, verb: Verb, namespace: Option<&str>, name: Option<&str>) -> Operation {
        Operation {
            verb,
            resource: self.qualified_name(),
            namespace: namespace.map(str::to_owned),
            name: name.map(str::to_owned),
        }
    }

    /// The path of one object (with `name`) or of the collection (without, and then `namespace: None` means all).
    pub(crate) fn path(&self, operation: &Operation) -> Result<String, Error> {
        let refuse = |why: String| Err(Error::new(ErrorKind::InvalidRequest, Effect::NotSent, operation.clone(), why));
        let mut path = if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        };
        match (&operation.namespace, &operation.name) {
            (Some(_), _) if !self.namespaced => {
                return refuse(format!("{} objects have no namespace", self.kind));
            }
            (None, Some(_)) if self.namespaced => {
                return refuse(format!("{} objects live in a namespace, and none was given", self.kind));
            }
            _ => {}
        }
        if let Some(namespace) = &operation.namespace {
            if !is_path_segment(namespace) {
                return refuse(format!("{namespace:?} cannot be the name of a namespace"));
            }
            path.push_str("/namespaces/");
            push_encoded(&mut path, namespace);
        }
        path.push('/');
        path.push_str(self.plural);
        if let Some(name) = &operation.name {
            if !is_path_segment(name) {
                return refuse(format!("{name:?} cannot be the name of an object"));
            }
            path.push('/');
            push_encoded(&mut path, name);
        }
        Ok(path)
    }
}

/// The server's rule for every name (`IsValidPathSegmentName` in its `api/validation/path`). Checked here too, because a
/// name with a slash would address another object.
fn is_path_segment(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '%'])
}

/// Appends `text`, with everything but RFC 3986's unreserved characters percent-encoded.
fn push_encoded(out: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

/// A path with a query string.
#[derive(Debug)]
pub(crate) struct PathAndQuery {
    text: String,
    has_query: bool,
}

impl PathAndQuery {
    pub(crate) fn new(path: String) -> Self {
        Self { text: path, has_query: false }
    }

    pub(crate) fn push(&mut self, key: &str, value: &str) {
        self.text.push(if self.has_query { '&' } else { '?' });
        self.has_query = true;
        self.text.push_str(key);
        self.text.push('=');
        push_encoded(&mut self.text, value);
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }
}
