//! The story on a real control plane with simulated kubelets.

use scheduler_k8s_testbed::{LazyTestbed, Testbed, User};
use serde_json::json;

use super::story;
use super::world::{Database, World};
use paas::backend::Backend;

/// Starts with the first test that really runs.
pub static TESTBED: LazyTestbed = LazyTestbed::new();

const OWNER: &str = "paas-test";

/// From the first app to its end; and nothing is left behind.
pub async fn the_story() {
    let testbed = TESTBED.get().await.unwrap();
    let kubernetes = json!({ "owner": OWNER, "kubeconfig": testbed.kubeconfig(User::Admin) });
    let config = json!({ "cluster": { "scheduler": "kubernetes", "kubernetes": kubernetes } });
    let world = World::start(Backend::of(config, "cluster").await.unwrap(), Database::new()).await;
    story::is_told(world.client, "shop").await;
    world.stop().await;

    let namespaces = kubectl(testbed, &["get", "namespaces", "--output", "name"]);
    assert!(!namespaces.contains("app-shop"), "{namespaces}");
    let kinds =
        "deployments,jobs,services,ingresses,secrets,configmaps,networkpolicies,resourcequotas,controllerrevisions";
    let owner = format!("scheduler/owner={OWNER}");
    let left = kubectl(testbed, &["get", kinds, "--all-namespaces", "--selector", &owner, "--output", "name"]);
    assert_eq!(left, "", "nothing of the platform is left");
}

fn kubectl(testbed: &Testbed, arguments: &[&str]) -> String {
    let output = testbed.kubectl().args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
