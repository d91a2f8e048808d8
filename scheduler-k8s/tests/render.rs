//! What a workload becomes, as kubectl would show it.
#![expect(clippy::unwrap_used, reason = "this is a test, which clippy cannot tell in its helpers")]

use scheduler_core::{
    BackendName, CheckedWorkload, ConfigEntry, ConfigRef, Container, EmptyVolume, EnvValue, ErrorKind, Marks, NodeRule,
    OwnerId, Probe, Role, RuntimeField, Update, VolumeSource, Workload,
};
use scheduler_k8s::{KubernetesExtension, MainKind, RenderContext, Rendered, render};
use serde_json::{Value, json};

fn owner() -> OwnerId {
    OwnerId::new("platform").unwrap()
}

fn rendered(workload: Workload) -> Rendered {
    render(&workload.check().unwrap(), &owner(), &RenderContext::new(3)).unwrap()
}

fn web() -> Container {
    Container::new("web", "registry.example/shop/web:1.4.2")
}

fn marks(unit: &str, version: &str, namespace: &str) -> Marks {
    let mut marks = Marks::default();
    marks.unit = Some(unit.to_owned());
    marks.version = Some(version.to_owned());
    marks.namespace = Some(namespace.to_owned());
    marks
}

fn everything() -> Workload {
    let mut workload = Workload::service("shop", "web")
        .container(
            web()
                .command(["/bin/web", "--listen=$(ADDRESS)"])
                .args(["$$"])
                .env("PASSWORD", "pa$$word")
                .env("EMPTY", "")
                .env_from("POD", EnvValue::Field(RuntimeField::InstanceName))
                .env_from("KEY", EnvValue::Config(ConfigEntry::new("app", "v1", "key")))
                .port("http", 8080)
                .udp_port("dns", 53)
                .port("rpc", 9090)
                .cpu("0.5", "2")
                .memory("1.5Gi", "2048Mi")
                .startup(Probe::exec(["test", "-f", "$HOME"]))
                .readiness(Probe::http("http", "/ready").initial_delay(2).period(5))
                .liveness(Probe::grpc("rpc"))
                .mount("scratch", "/tmp")
                .mount_read_only("settings", "/etc/app"),
        )
        .container(Container::new("migrate", "shop/migrate:1").role(Role::Init).mount("data", "/data"))
        .container(
            Container::new("proxy", "proxy:1").role(Role::Sidecar).port("admin", 9901).liveness(Probe::tcp("admin")),
        )
        .volume("scratch", VolumeSource::Empty(EmptyVolume::default()))
        .volume("settings", VolumeSource::Config(ConfigRef::new("app", "v1")))
        .volume("data", VolumeSource::Claim("web-data".to_owned()))
        .volume("logs", VolumeSource::Host("/var/log/web".to_owned()))
        .require(NodeRule::is_in("zone", ["a", "b"]))
        .min_ready(5)
        .termination_grace(60)
        .progress_deadline(300)
        .label("team", "blue")
        .marks(marks("web", "1.2+build", "dev/sandbox"));
    workload.annotations.insert("example.org/note".to_owned(), "for people".to_owned());
    workload.placement.spread = Some("zone".to_owned());
    workload.identity = Some("web".to_owned());
    workload.pull_secrets = vec!["registry".to_owned()];
    workload
}

#[test]
fn the_least_workload() {
    insta::assert_json_snapshot!(rendered(Workload::service("shop", "web").container(web())).main);
}

#[test]
fn a_workload_with_everything() {
    let objects: Vec<Value> = rendered(everything()).objects().cloned().collect();
    insta::assert_json_snapshot!(objects);
}

#[test]
fn nothing_is_rendered_that_apply_would_claim_by_accident() {
    fn has_null(value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::Array(items) => items.iter().any(has_null),
            Value::Object(fields) => fields.values().any(has_null),
            _ => false,
        }
    }
    for object in rendered(everything()).objects() {
        assert!(!has_null(object), "{object}");
        assert!(object.get("status").is_none() && object["metadata"].get("creationTimestamp").is_none(), "{object}");
    }
}

#[test]
fn a_workload_without_ports_has_no_service() {
    assert_eq!(rendered(Workload::service("shop", "web").container(web())).service, None);
}

#[test]
fn a_version_mark_alone_changes_no_pod() {
    let of = |version: &str| {
        rendered(Workload::service("shop", "web").container(web()).marks(marks("web", version, "qa"))).main
    };
    let (one, two) = (of("1.0"), of("2.0"));
    assert_eq!(one["spec"], two["spec"]);
    assert_eq!(two["metadata"]["labels"]["scheduler/version"], "2.0");
    assert_eq!(two["spec"]["template"]["metadata"]["labels"]["scheduler/namespace"], "qa");
}

#[test]
fn the_revision_is_on_the_deployment_alone() {
    let workload = Workload::service("shop", "web").container(web().port("http", 80)).check().unwrap();
    let objects = render(&workload, &owner(), &RenderContext::new(1)).unwrap();
    assert_eq!(objects.main["metadata"]["annotations"]["scheduler/revision"], workload.revision().as_str());
    assert!(!objects.service.unwrap().to_string().contains(workload.revision().as_str()));
    assert!(!objects.main["spec"].to_string().contains(workload.revision().as_str()));
}

#[test]
fn without_an_identity_there_are_no_credentials_of_the_platform() {
    let spec = |workload| rendered(workload).main["spec"]["template"]["spec"].clone();
    let bare = spec(Workload::service("shop", "web").container(web()));
    assert_eq!(bare["automountServiceAccountToken"], false);
    assert_eq!(bare["enableServiceLinks"], false);
    let mut workload = Workload::service("shop", "web").container(web());
    workload.identity = Some("web".to_owned());
    let with = spec(workload);
    assert_eq!((&with["serviceAccountName"], with.get("automountServiceAccountToken")), (&json!("web"), None));
}

#[test]
fn recreate_has_no_bounds() {
    let workload = Workload::service("shop", "web").container(web()).update(Update::Recreate);
    assert_eq!(rendered(workload).main["spec"]["strategy"], json!({"type": "Recreate"}));
}

#[test]
fn a_selector_that_was_taken_over_stays_and_is_matched() {
    let workload = Workload::service("shop", "web").container(web()).check().unwrap();
    let selector = json!({"matchLabels": {"app": "web"}});
    let context = RenderContext::new(1).selector(selector.clone());
    let deployment = render(&workload, &owner(), &context).unwrap().main;
    assert_eq!(deployment["spec"]["selector"], selector);
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    assert_eq!((&labels["app"], &labels["scheduler/target"]), (&json!("web"), &json!("web")));
}

#[test]
fn the_service_is_owned_by_the_deployment() {
    let service =
        rendered(Workload::service("shop", "web").container(web().port("http", 80))).service_of("u-1").unwrap();
    let owners = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u-1"}]);
    assert_eq!(service["metadata"]["ownerReferences"], owners);
}

fn extended(extension: Value) -> Result<Rendered, scheduler_core::Error> {
    let kubernetes = BackendName::kubernetes();
    let workload = Workload::service("shop", "web").container(web()).extension(&kubernetes, extension);
    render(&CheckedWorkload::try_from(workload).unwrap(), &owner(), &RenderContext::new(1))
}

#[test]
fn an_extension_sets_and_removes_what_the_model_has_no_word_for() {
    let patch = json!({"spec": {"revisionHistoryLimit": null, "template": {"spec": {"priorityClassName": "high"}}}});
    let extension = serde_json::to_value(KubernetesExtension::default().main(MainKind::Deployment, patch)).unwrap();
    let deployment = extended(extension).unwrap().main;
    assert_eq!(deployment["spec"]["template"]["spec"]["priorityClassName"], "high");
    assert_eq!(deployment["spec"].get("revisionHistoryLimit"), None);
    assert_eq!(deployment["spec"]["template"]["spec"]["containers"][0]["name"], "web");
}

#[test]
fn an_extension_touches_nothing_that_we_find_objects_by() {
    let at = "extensions.kubernetes.";
    for (extension, path) in [
        (json!({"pods": {}}), "pods"),
        (json!({"deployment": []}), "deployment"),
        (json!({"service": {"spec": {"type": "NodePort"}}}), "service"),
        (json!({"deployment": {"metadata": {"name": "other"}}}), "deployment.metadata.name"),
        (json!({"deployment": {"metadata": null}}), "deployment.metadata.name"),
        (json!({"deployment": {"metadata": {"namespace": "other"}}}), "deployment.metadata.namespace"),
        (json!({"deployment": {"spec": {"selector": {}}}}), "deployment.spec.selector"),
        (json!({"deployment": {"spec": {"replicas": 7}}}), "deployment.spec.replicas"),
        (json!({"deployment": {"spec": {"template": null}}}), "deployment.spec.template"),
        (json!({"deployment": {"spec": {"template": {"metadata": 1}}}}), "deployment.spec.template.metadata"),
        (json!({"deployment": {"status": {}}}), "deployment.status"),
        (
            json!({"deployment": {"metadata": {"labels": {"scheduler/owner": "other"}}}}),
            "deployment.metadata.labels[\"scheduler/owner\"]",
        ),
        (json!({"deployment": {"metadata": {"annotations": null}}}), "deployment.metadata.annotations"),
        (
            json!({"deployment": {"spec": {"template": {"metadata": {"labels": {"scheduler/target": null}}}}}}),
            "deployment.spec.template.metadata.labels[\"scheduler/target\"]",
        ),
        (
            json!({"deployment": {"spec": {"template": {"spec": {"tolerations": [null]}}}}}),
            "deployment.spec.template.spec.tolerations[0]",
        ),
    ] {
        let error = extended(extension.clone()).map(|_| ()).expect_err(&extension.to_string());
        assert_eq!(*error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(error.causes()[0].path, format!("{at}{path}"), "{extension}");
    }
}
