//! A workload as native objects. Pure: what it makes can be printed and compared without a server.

mod extension;
mod main_object;
mod pod;

use std::collections::BTreeMap;

use scheduler_core::{CheckedWorkload, Error, OpName, OwnerId};
use serde_json::{Value, json};

pub use extension::KubernetesExtension;
pub(crate) use pod::config_secret;

use crate::kind::MainKind;
use crate::labels;

/// What rendering depends on besides the workload and the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RenderContext {
    /// How many instances, from [`Replicas::resolve`](scheduler_core::Replicas::resolve). Only services have a count.
    pub replicas: u32,
    /// `spec.selector` of a main object that was taken over. A selector is immutable, so that such an object keeps its own,
    /// and its pods get those labels too.
    pub selector: Option<Value>,
}

impl RenderContext {
    /// This many instances.
    #[must_use]
    pub fn new(replicas: u32) -> Self {
        Self { replicas, selector: None }
    }

    /// For a main object that has this selector already.
    #[must_use]
    pub fn selector(mut self, selector: Value) -> Self {
        self.selector = Some(selector);
        self
    }
}

/// The native objects of a workload: what server-side apply is given, without nulls, status and defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rendered {
    /// What the main object is.
    pub kind: MainKind,
    /// The main object.
    pub main: Value,
    /// The Service of the same name: of a workload with ports, and of one with stable identities.
    pub service: Option<Value>,
}

impl Rendered {
    /// All objects, in the order in which they are written.
    pub fn objects(&self) -> impl Iterator<Item = &Value> {
        std::iter::once(&self.main).chain(&self.service)
    }

    /// The Service as it is written once the main object has a uid: owned by it, so that it goes when the main object is
    /// deleted, by whomever.
    #[must_use]
    pub fn service_of(&self, main_uid: &str) -> Option<Value> {
        let mut service = self.service.clone()?;
        let name = self.main["metadata"]["name"].as_str().unwrap_or_default();
        service["metadata"]["ownerReferences"] = json!([owner_reference(self.kind, name, main_uid)]);
        Some(service)
    }
}

/// That an object goes with a main object, whoever deletes it.
pub(crate) fn owner_reference(kind: MainKind, name: &str, uid: &str) -> Value {
    json!({"apiVersion": kind.resource().api_version(), "kind": kind.as_str(), "name": name, "uid": uid})
}

/// Renders a workload.
///
/// * The main object: a Deployment for a service, a StatefulSet if its instances have stable identities, a DaemonSet for a
///   system, a Job for a job, a CronJob for a periodic one.
/// * A Service of type `ClusterIP` if any container has ports. (A Service without ports is refused by the server.) That of
///   a StatefulSet is headless, and is there without ports too: it gives each instance its host name.
/// * The selector is the label `scheduler/target`. It, `scheduler/owner`, the workload's labels, marks and annotations are
///   on the objects and the pods, but the mark `version` is only on the main object: a new version of the same content
///   changes no pod.
/// * A configuration `app` of version `v1` of the workload `web` is the Secret `web.app.v1`. No part may have a dot, so
///   that no two configurations share a Secret.
/// * `$` in commands, arguments, environment texts and exec probes is written `$$`, as the kubelet expands those.
/// * Sidecars are init containers that are started anew for ever.
/// * A job with several completions is an indexed one, whose retries count for each index; its pods are never restarted in
///   place, and a new one starts when the last has ended.
/// * The claims of volumes that are made for each instance stay when it goes.
/// * [`KubernetesExtension`] is applied last.
///
/// ```
/// use scheduler_core::{Container, OwnerId, Workload};
/// use scheduler_k8s::{RenderContext, render};
///
/// let web = Workload::service("shop", "web").container(Container::new("web", "shop/web:1").port("http", 8080)).check()?;
/// let objects = render(&web, &OwnerId::new("platform")?, &RenderContext::new(1))?;
/// let kinds: Vec<_> = objects.objects().map(|object| object["kind"].as_str()).collect();
/// assert_eq!(kinds, [Some("Deployment"), Some("Service")]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`InvalidArgument`](scheduler_core::ErrorKind::InvalidArgument) when the workload's extension is not one; the causes
/// name its fields.
pub fn render(workload: &CheckedWorkload, owner: &OwnerId, context: &RenderContext) -> Result<Rendered, Error> {
    let extension = KubernetesExtension::of(workload)?;
    let kind = MainKind::of(workload)?;
    let common = Common::new(workload, owner);
    let main = main_object::render(workload, kind, &common, context)?;
    let mut rendered = Rendered { kind, main, service: service(workload, kind, &common)? };
    extension.patch(&mut rendered)?;
    Ok(rendered)
}

/// The model can grow; what this version does not know is refused and never left out.
pub(crate) fn unknown(what: &str) -> Error {
    Error::unsupported(OpName::Launch, format!("{what} is newer than this version of the Kubernetes backend"))
}

/// What the objects of a workload and its pods share.
struct Common {
    selector: BTreeMap<String, String>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

impl Common {
    fn new(workload: &CheckedWorkload, owner: &OwnerId) -> Self {
        let (marks, texts) = labels::of_marks(workload.marks.iter().filter(|(mark, _)| *mark != "version"));
        let mut common = Self {
            selector: labels::selector(workload.target()),
            labels: workload.labels.clone(),
            annotations: workload.annotations.clone(),
        };
        common.labels.extend(marks);
        common.labels.insert(labels::OWNER.to_owned(), owner.to_string());
        common.labels.extend(common.selector.clone());
        common.annotations.extend(texts);
        common
    }

    /// The labels and annotations, without a name.
    fn metadata(&self) -> Value {
        let mut metadata = json!({"labels": labels::to_json(&self.labels)});
        if !self.annotations.is_empty() {
            metadata["annotations"] = labels::to_json(&self.annotations);
        }
        metadata
    }
}

/// The Service in front of the pods. It finds a port by its name, so that during an update each pod gets its requests at
/// the number that it listens on.
fn service(workload: &CheckedWorkload, kind: MainKind, common: &Common) -> Result<Option<Value>, Error> {
    let mut ports = Vec::new();
    for port in workload.containers.iter().flat_map(|container| &container.ports) {
        let protocol = pod::protocol(port.protocol)?;
        ports.push(json!({"name": port.name, "port": port.port, "targetPort": port.name, "protocol": protocol}));
    }
    let headless = kind == MainKind::StatefulSet;
    if ports.is_empty() && !headless {
        return Ok(None);
    }
    let mut metadata = common.metadata();
    metadata["name"] = workload.target().name.as_str().into();
    metadata["namespace"] = workload.target().namespace.as_str().into();
    let mut spec = json!({"type": "ClusterIP", "selector": labels::to_json(&common.selector)});
    if !ports.is_empty() {
        spec["ports"] = ports.into();
    }
    if headless {
        spec["clusterIP"] = "None".into();
    }
    Ok(Some(json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})))
}
