//! Answers recorded from a kube-apiserver v1.36.3; long objects are cut to what matters.

pub(crate) const NOT_FOUND: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"deployments.apps \"web\" not found","reason":"NotFound","details":{"name":"web","group":"apps","kind":"deployments"},"code":404}"#;

/// An apply into a namespace that is not there.
pub(crate) const NAMESPACE_NOT_FOUND: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"namespaces \"shop\" not found","reason":"NotFound","details":{"name":"shop","kind":"namespaces"},"code":404}"#;

/// An unknown resource of a known group. An unknown group is answered in plain text.
pub(crate) const UNKNOWN_RESOURCE: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server could not find the requested resource","reason":"NotFound","details":{},"code":404}"#;

pub(crate) const MODIFIED: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Operation cannot be fulfilled on deployments.apps \"web\": the object has been modified; please apply your changes to the latest version and try again","reason":"Conflict","details":{"name":"web","group":"apps","kind":"deployments"},"code":409}"#;

/// An apply with the uid of an object that is gone.
pub(crate) const UID_OF_NOTHING: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Operation cannot be fulfilled on deployments.apps \"web\": uid mismatch: the provided object specified uid c9326057-5e7f-4db9-89e4-bb4cf83ce568, and no existing object was found","reason":"Conflict","details":{"name":"web","group":"apps","kind":"deployments"},"code":409}"#;

/// An apply with another uid and the right version.
pub(crate) const UID_IMMUTABLE: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Deployment.apps \"web\" is invalid: metadata.uid: Invalid value: \"0a0a0a0a-0000-0000-0000-000000000000\": field is immutable","reason":"Invalid","details":{"name":"web","group":"apps","kind":"Deployment","causes":[{"reason":"FieldValueInvalid","message":"Invalid value: \"0a0a0a0a-0000-0000-0000-000000000000\": field is immutable","field":"metadata.uid"},{"reason":"FieldValueInvalid","message":"Invalid value: \"0a0a0a0a-0000-0000-0000-000000000000\": field is immutable","field":"metadata.uid"}]},"code":422}"#;

pub(crate) const INVALID: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Deployment.apps \"web\" is invalid: spec.replicas: Invalid value: -3: must be greater than or equal to 0","reason":"Invalid","details":{"name":"web","group":"apps","kind":"Deployment","causes":[{"reason":"FieldValueInvalid","message":"Invalid value: -3: must be greater than or equal to 0","field":"spec.replicas"}]},"code":422}"#;

/// An apply without force after `kubectl scale` and `kubectl set`.
pub(crate) const TWO_MANAGERS: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Apply failed with 2 conflicts: conflicts with \"kubectl\" with subresource \"scale\" using apps/v1:\n- .spec.replicas\nconflicts with \"kubectl-set\" using apps/v1:\n- .spec.paused","reason":"Conflict","details":{"causes":[{"reason":"FieldManagerConflict","message":"conflict with \"kubectl\" with subresource \"scale\" using apps/v1","field":".spec.replicas"},{"reason":"FieldManagerConflict","message":"conflict with \"kubectl-set\" using apps/v1","field":".spec.paused"}]},"code":409}"#;

/// An applied field that the kind does not have, with `fieldValidation=Strict`.
pub(crate) const UNKNOWN_FIELD: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"failed to create typed patch object (/web; apps/v1, Kind=Deployment): .spec.replicaz: field not declared in schema","code":500}"#;

pub(crate) const FORBIDDEN: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"deployments.apps \"web\" is forbidden: User \"weak\" cannot patch resource \"deployments\" in API group \"apps\" in the namespace \"shop\"","reason":"Forbidden","details":{"name":"web","group":"apps","kind":"deployments"},"code":403}"#;

pub(crate) const NAMESPACE_TERMINATING: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"deployments.apps \"web\" is forbidden: unable to create new content in namespace shop because it is being terminated","reason":"Forbidden","details":{"name":"web","group":"apps","kind":"deployments","causes":[{"reason":"NamespaceTerminating","message":"namespace shop is being terminated","field":"metadata.namespace"}]},"code":403}"#;

pub(crate) const UNAUTHORIZED: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}"#;

pub(crate) const WRONG_UID: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Operation cannot be fulfilled on Deployment.apps \"web\": the UID in the precondition (0a0a) does not match the UID in record (c9326057-5e7f-4db9-89e4-bb4cf83ce568). The object might have been deleted and then recreated","reason":"Conflict","details":{"name":"web","group":"apps","kind":"Deployment"},"code":409}"#;

/// Deployment, background.
pub(crate) const DELETED_STATUS: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"web","group":"apps","kind":"deployments","uid":"c9326057-5e7f-4db9-89e4-bb4cf83ce568"}}"#;

/// Deployment, foreground.
pub(crate) const DELETING_FOREGROUND: &str = r#"{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"web","namespace":"shop","uid":"c9326057-5e7f-4db9-89e4-bb4cf83ce568","resourceVersion":"218","generation":2,"creationTimestamp":"2026-11-30T22:08:26Z","deletionTimestamp":"2026-11-30T22:09:14Z","deletionGracePeriodSeconds":0,"finalizers":["foregroundDeletion"]}}"#;

/// Service, background: it is gone, and answered all the same.
pub(crate) const DELETED_SERVICE: &str = r#"{"kind":"Service","apiVersion":"v1","metadata":{"name":"s","namespace":"shop","uid":"5f099eca-3d2f-45c4-afc9-6385d2c4c541","resourceVersion":"221","creationTimestamp":"2026-11-30T22:09:14Z"}}"#;

/// Pod that no node runs: gone.
pub(crate) const DELETED_POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"shop","uid":"06788931-fecf-441c-9c86-3764c2a3fb55","resourceVersion":"228","generation":2,"creationTimestamp":"2026-11-30T22:09:14Z","deletionTimestamp":"2026-11-30T22:09:14Z","deletionGracePeriodSeconds":0}}"#;

/// Pod on a node.
pub(crate) const DELETING_POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"shop","uid":"43e54b76-95c1-4d17-bf5b-cb7956c4e673","resourceVersion":"230","generation":2,"creationTimestamp":"2026-11-30T22:09:14Z","deletionTimestamp":"2026-11-30T22:09:44Z","deletionGracePeriodSeconds":30}}"#;

/// Namespace.
pub(crate) const DELETING_NAMESPACE: &str = r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"shop","uid":"5cad677d-5002-4dbf-a340-3fb53f882066","resourceVersion":"237","creationTimestamp":"2026-11-30T22:09:21Z","deletionTimestamp":"2026-11-30T22:09:21Z","labels":{"kubernetes.io/metadata.name":"shop"}},"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Terminating"}}"#;

pub(crate) const SCALE: &str = r#"{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"web","namespace":"shop","uid":"2dcf5331-2351-4bfd-ba94-6b2e6d597a48","resourceVersion":"259","creationTimestamp":"2026-12-01T00:57:44Z"},"spec":{"replicas":3},"status":{"replicas":2,"selector":"app=web"}}"#;

/// Scaled to zero, with pods that are still counted.
pub(crate) const SCALE_TO_ZERO: &str = r#"{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"web","namespace":"shop","uid":"2dcf5331-2351-4bfd-ba94-6b2e6d597a48","resourceVersion":"260","creationTimestamp":"2026-12-01T00:57:44Z"},"spec":{},"status":{"replicas":2,"selector":"app=web"}}"#;

/// A scale with another uid and the right version.
pub(crate) const SCALE_OF_ANOTHER: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Operation cannot be fulfilled on deployments/scale.apps \"web\": Precondition failed: UID in precondition: 0a0a0a0a-0000-0000-0000-000000000000, UID in object meta: 2dcf5331-2351-4bfd-ba94-6b2e6d597a48","reason":"Conflict","details":{"name":"web","group":"apps","kind":"deployments/scale"},"code":409}"#;

pub(crate) const POD_NOT_FOUND: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"pods \"p\" not found","reason":"NotFound","details":{"name":"p","kind":"pods"},"code":404}"#;

/// The log of a pod that its node does not know.
pub(crate) const POD_UNKNOWN_TO_NODE: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server could not find the requested resource ( pods/log p)","reason":"NotFound","details":{"name":"p","kind":"pods/log"},"code":404}"#;

/// The log of a pod whose node is gone. (The server takes it for a pod.)
pub(crate) const NODE_NOT_FOUND: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"pods \"node-a\" not found","reason":"NotFound","details":{"name":"node-a","kind":"pods"},"code":404}"#;

pub(crate) const CONTAINER_WAITS: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"container \"main\" in pod \"p\" is waiting to start: ContainerCreating","reason":"BadRequest","code":400}"#;
