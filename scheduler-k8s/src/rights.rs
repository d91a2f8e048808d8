//! The least that the credentials must be allowed, as data.

use serde_json::{Value, json};

use crate::{KubernetesHooks, KubernetesScheduler};

/// What is done to a kind of object that is made, changed and taken away.
const WRITE: &[&str] = &["get", "list", "patch", "create", "delete"];

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

impl KubernetesScheduler {
    /// The rules of a Role, or of a ClusterRole, that allow all operations. Those in a single namespace need a Role there and
    /// no more; `list` and `watch` without a namespace, routes that are compared with those of other namespaces, and
    /// namespaces need the ClusterRole. The documentation of the type says what each is for.
    ///
    /// ```
    /// use scheduler_k8s::{KubernetesHooks, KubernetesScheduler};
    ///
    /// let rules = [KubernetesScheduler::rights(), KubernetesHooks::rights()].concat();
    /// let role = serde_json::json!({
    ///     "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "platform"},
    ///     "rules": rules,
    /// });
    /// println!("{role:#}");
    /// ```
    #[must_use]
    pub fn rights() -> Vec<Value> {
        const WATCHED: &[&str] = &["get", "list", "watch", "patch", "create", "delete"];
        vec![
            rule("apps", &["deployments", "statefulsets", "daemonsets", "controllerrevisions"], WATCHED),
            rule("batch", &["jobs", "cronjobs"], WATCHED),
            rule("apps", &["replicasets"], &["get", "list", "watch", "delete"]),
            rule("apps", &["deployments/scale", "statefulsets/scale"], &["patch"]),
            rule("autoscaling", &["horizontalpodautoscalers"], &["list"]),
            rule("", &["pods"], &["get", "list", "watch", "delete"]),
            rule("", &["pods/log"], &["get"]),
            rule("", &["services"], &["get", "patch", "create", "delete"]),
            rule("", &["secrets"], WRITE),
            rule("", &["events"], &["list"]),
            rule("networking.k8s.io", &["ingresses"], WRITE),
            rule("", &["namespaces"], &["get", "patch", "create", "delete"]),
        ]
    }
}

impl KubernetesHooks {
    /// The rules of a Role that these hooks need, in the namespaces of apps; of a ClusterRole for namespaces, storage classes,
    /// and to see the routes of other namespaces.
    #[must_use]
    pub fn rights() -> Vec<Value> {
        let single = &["get", "patch", "create", "delete"];
        vec![
            rule("", &["resourcequotas", "services"], single),
            rule("", &["secrets", "persistentvolumeclaims"], WRITE),
            rule("networking.k8s.io", &["networkpolicies"], single),
            rule("networking.k8s.io", &["ingresses"], &["list", "patch"]),
            rule("", &["pods"], &["list"]),
            rule("", &["namespaces"], &["get"]),
            rule("storage.k8s.io", &["storageclasses"], &["get"]),
        ]
    }
}
