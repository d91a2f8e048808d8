//! A workload as native objects. Pure: what it makes can be printed and compared without a server.

mod extension;
mod pod;

use std::collections::BTreeMap;

use scheduler_core::{CheckedWorkload, Error, Kind, OpName, OwnerId, Service, Update};
use serde_json::{Value, json};

pub use extension::KubernetesExtension;

use crate::labels;

/// How many old ReplicaSets a Deployment keeps. They serve `kubectl rollout undo` and nothing of ours; each is one more
/// object in every list.
const KEPT_REPLICA_SETS: u32 = 2;

/// What rendering depends on besides the workload and the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RenderContext {
    /// How many instances, from [`Replicas::resolve`](scheduler_core::Replicas::resolve).
    pub replicas: u32,
    /// `spec.selector` of a Deployment that was taken over. A selector is immutable, so that such a Deployment keeps its
    /// own, and its pods get those labels too.
    pub selector: Option<Value>,
}

impl RenderContext {
    /// This many instances.
    #[must_use]
    pub fn new(replicas: u32) -> Self {
        Self { replicas, selector: None }
    }

    /// For a Deployment that has this selector already.
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
    /// The main object.
    pub deployment: Value,
    /// The Service of the same name; only of a workload with ports.
    pub service: Option<Value>,
}

impl Rendered {
    /// All objects, in the order in which they are written.
    pub fn objects(&self) -> impl Iterator<Item = &Value> {
        std::iter::once(&self.deployment).chain(&self.service)
    }

    /// The Service as it is written once the Deployment has a uid: owned by it, so that it goes when the Deployment is
    /// deleted, by whomever.
    #[must_use]
    pub fn service_of(&self, deployment_uid: &str) -> Option<Value> {
        let mut service = self.service.clone()?;
        service["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": self.deployment["metadata"]["name"],
            "uid": deployment_uid,
        }]);
        Some(service)
    }
}

/// Renders a workload.
///
/// * A Deployment, and a Service of type `ClusterIP` if any container has ports. (A Service without ports is refused by
///   the server.)
/// * The selector is the label `scheduler/target`. It, `scheduler/owner`, the workload's labels, marks and annotations are
///   on the objects and the pods, but the mark `version` is only on the Deployment: a new version of the same content changes
///   no pod.
/// * A configuration `app` of version `v1` of the workload `web` is the Secret `web.app.v1`. No part may have a dot, so
///   that no two configurations share a Secret.
/// * `$` in commands, arguments, environment texts and exec probes is written `$$`, as the kubelet expands those.
/// * Sidecars are init containers that are started anew for ever (Kubernetes 1.29).
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
    let common = Common::new(workload, owner);
    let Kind::Service(kind) = &workload.kind else { return Err(unknown("this kind of workload")) };
    let mut rendered =
        Rendered { deployment: deployment(workload, kind, &common, context)?, service: service(workload, &common)? };
    extension.patch(&mut rendered)?;
    Ok(rendered)
}

/// The model can grow; what this version does not know is refused and never left out.
fn unknown(what: &str) -> Error {
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
}

fn metadata(
    workload: &CheckedWorkload,
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> Value {
    let mut metadata = json!({
        "name": workload.target().name.as_str(),
        "namespace": workload.target().namespace.as_str(),
        "labels": labels::to_json(labels),
    });
    if !annotations.is_empty() {
        metadata["annotations"] = labels::to_json(annotations);
    }
    metadata
}

fn deployment(
    workload: &CheckedWorkload,
    kind: &Service,
    common: &Common,
    context: &RenderContext,
) -> Result<Value, Error> {
    let (mut labels, mut annotations) = (common.labels.clone(), common.annotations.clone());
    let (version, text) = labels::of_marks(workload.marks.iter().filter(|(mark, _)| *mark == "version"));
    labels.extend(version);
    annotations.extend(text);
    annotations.insert(labels::REVISION.to_owned(), workload.revision().to_string());

    let own = json!({"matchLabels": labels::to_json(&common.selector)});
    let selector = context.selector.clone().unwrap_or(own);
    let mut template_labels = labels::to_json(&common.labels);
    if let (Value::Object(labels), Some(kept)) = (&mut template_labels, selector["matchLabels"].as_object()) {
        for (key, value) in kept {
            labels.entry(key.as_str()).or_insert_with(|| value.clone());
        }
    }
    let mut template = json!({"metadata": {"labels": template_labels}, "spec": pod::spec(workload, &common.selector)?});
    if !common.annotations.is_empty() {
        template["metadata"]["annotations"] = labels::to_json(&common.annotations);
    }
    let strategy = match kind.update {
        Update::Recreate => json!({"type": "Recreate"}),
        Update::Rolling(bounds) => json!({
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": bounds.max_surge, "maxUnavailable": bounds.max_unavailable},
        }),
        _ => return Err(unknown("this kind of update")),
    };
    Ok(json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(workload, &labels, &annotations),
        "spec": {
            "replicas": context.replicas,
            "selector": selector,
            "strategy": strategy,
            "minReadySeconds": kind.min_ready.get(),
            "progressDeadlineSeconds": workload.progress_deadline.get(),
            "revisionHistoryLimit": KEPT_REPLICA_SETS,
            "template": template,
        },
    }))
}

/// The Service in front of the pods. It finds a port by its name, so that during an update each pod gets its requests at
/// the number that it listens on.
fn service(workload: &CheckedWorkload, common: &Common) -> Result<Option<Value>, Error> {
    let mut ports = Vec::new();
    for port in workload.containers.iter().flat_map(|container| &container.ports) {
        let protocol = pod::protocol(port.protocol)?;
        ports.push(json!({"name": port.name, "port": port.port, "targetPort": port.name, "protocol": protocol}));
    }
    Ok((!ports.is_empty()).then(|| {
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata(workload, &common.labels, &common.annotations),
            "spec": {"type": "ClusterIP", "selector": labels::to_json(&common.selector), "ports": ports},
        })
    }))
}
