//! What a workload becomes, as Nomad's API takes it.
#![expect(clippy::unwrap_used, reason = "this is a test, which clippy cannot tell in its helpers")]

use scheduler_core::{
    BackendName, Canary, ConfigEntry, ConfigRef, Container, EnvValue, ErrorKind, Feature, Marks, NodeMatch, NodeRule,
    Overlap, OwnerId, PerInstanceVolume, Probe, Role, Rolling, RuntimeField, Seconds, Update, VolumeSource, Workload,
};
use scheduler_nomad::client::model::Job;
use scheduler_nomad::{NomadExtension, RenderContext, Rendered, render};
use serde_json::{Value, json};

fn owner() -> OwnerId {
    OwnerId::new("platform").unwrap()
}

fn try_render(workload: Workload, driver: &str) -> Result<Rendered, scheduler_core::Error> {
    render(&workload.check().unwrap(), &owner(), &RenderContext::new(3).driver(driver.into()))
}

fn rendered(workload: Workload) -> Rendered {
    try_render(workload, "docker").unwrap()
}

fn web() -> Container {
    Container::new("web", "registry.example/shop/web:1.4.2")
}

fn service() -> Workload {
    Workload::service("shop", "web")
}

fn everything() -> Workload {
    let mut marks = Marks::default();
    marks.unit = Some("web".to_owned());
    marks.version = Some("1.2+build".to_owned());
    marks.namespace = Some("dev/sandbox".to_owned());
    let mut workload = service()
        .container(
            web()
                .command(["/bin/web", "--listen=${ADDRESS}"])
                .args(["%{if}", "$HOME"])
                .env("PASSWORD", "pa$$word${HOME}")
                .env("EMPTY", "")
                .env_from("ME", EnvValue::Field(RuntimeField::InstanceName))
                .env_from("AT", EnvValue::Field(RuntimeField::InstanceAddress))
                .env_from("ON", EnvValue::Field(RuntimeField::NodeName))
                .env_from("IN", EnvValue::Field(RuntimeField::Namespace))
                .port("http", 8080)
                .udp_port("dns", 53)
                .cpu("0.5", "2")
                .memory("1.5Gi", "2048Mi")
                .readiness(Probe::https("http", "/ready").initial_delay(7).period(5))
                .liveness(Probe::tcp("http").initial_delay(3))
                .mount_read_only("data", "/data"),
        )
        .container(Container::new("proxy", "proxy:1").role(Role::Sidecar).port("admin", 9901))
        .volume("data", VolumeSource::Claim("web-data".to_owned()))
        .require(NodeRule::is_in("example.org/zone", ["a", "b"]))
        .min_ready(5)
        .termination_grace(60)
        .progress_deadline(300)
        .label("team", "blue")
        .marks(marks);
    for is in [NodeMatch::NotIn(vec!["old".to_owned()]), NodeMatch::Exists, NodeMatch::Absent] {
        let mut rule = NodeRule::is_in("disk", ["x"]);
        rule.is = is;
        workload = workload.require(rule);
    }
    workload.annotations.insert("example.org/note".to_owned(), "for people".to_owned());
    workload.placement.spread = Some("zone".to_owned());
    workload
}

#[test]
fn the_least_workload() {
    insta::assert_json_snapshot!(rendered(service().container(web())).job);
}

#[test]
fn a_workload_with_everything() {
    let rendered = rendered(everything());
    insta::assert_json_snapshot!(rendered.job);
    insta::assert_json_snapshot!("what_means_less", rendered.warnings);
}

#[test]
fn a_program_of_the_node() {
    let workload = service().container(web().command(["/bin/web", "-v"]).args(["x"]).port("http", 8080));
    insta::assert_json_snapshot!(try_render(workload, "raw_exec").unwrap().job.task_groups[0]);
}

#[test]
fn the_kinds() {
    let job = Workload::job("shop", "work").container(web()).with_job(|job| (job.completions, job.retries) = (3, 2));
    let mut periodic = Workload::periodic("shop", "tick", "30 2 * * mon-fri").container(web());
    periodic = periodic.with_periodic(|p| (p.overlap, p.suspend) = (Overlap::Allow, true));
    let zoned = periodic.with_periodic(|periodic| periodic.time_zone = "Europe/Berlin".to_owned());
    let system = Workload::system("shop", "agent").container(web()).min_ready(5);
    let of = |workload| {
        let job = serde_json::to_value(rendered(workload).job).unwrap();
        let group = &job["TaskGroups"][0];
        json!({
            "Type": job["Type"], "Periodic": job["Periodic"], "Meta": job["Meta"], "Count": group["Count"],
            "Update": group["Update"], "RestartPolicy": group["RestartPolicy"], "ReschedulePolicy": group["ReschedulePolicy"],
        })
    };
    let stable = service().container(web()).stable();
    let canary = service().container(web()).update(Update::Canary(Canary::new(2)));
    insta::assert_json_snapshot!(json!({
        "job": of(job), "periodic": of(zoned), "system": of(system), "stable": of(stable), "canary": of(canary),
    }));
}

#[test]
fn configurations() {
    let config = ConfigRef::new("app", "0123456789abcdef");
    let entry = ConfigEntry::new("app", "0123456789abcdef", "PASSWORD");
    let container = web().env_from("PASSWORD", EnvValue::Config(entry)).mount_read_only("conf", "/etc/app");
    let workload =
        service().container(container.command(["/bin/web"])).volume("conf", VolumeSource::Config(config.clone()));
    let workload = workload.check().unwrap();
    let context = |driver: &str| RenderContext::new(1).driver(driver.into());
    let of = |context: &RenderContext| {
        let rendered = render(&workload, &owner(), context).unwrap();
        let task = serde_json::to_value(&rendered.job.task_groups[0].tasks[0]).unwrap();
        json!({"Templates": task["Templates"], "volumes": task["Config"]["volumes"], "warnings": rendered.warnings})
    };
    let known = |driver| context(driver).config(config.clone(), ["a".to_owned(), "b.conf".to_owned()]);
    insta::assert_json_snapshot!(of(&known("docker")));
    let unknown = of(&context("docker"))["Templates"][1].clone();
    assert_eq!(unknown["DestPath"], "secrets/config/conf.absent");
    let program = of(&known("raw_exec"));
    assert_eq!(program["volumes"], Value::Null);
    assert!(program["warnings"].to_string().contains("NOMAD_SECRETS_DIR/config/conf"), "{}", program["warnings"]);
}

/// Nomad spreads a system by itself, and refuses to be told so.
#[test]
fn a_system_is_not_spread_twice() {
    let mut system = Workload::system("shop", "agent").container(web());
    system.placement.spread = Some("zone".to_owned());
    assert!(!rendered(system).job.extra.contains_key("Spreads"));
}

#[test]
fn a_version_mark_changes_nothing_of_the_job() {
    let of = |version: &str| {
        let mut marks = Marks::default();
        marks.version = Some(version.to_owned());
        rendered(service().container(web()).marks(marks)).job
    };
    assert_eq!(of("1.0"), of("2.0"));
}

fn update_of(job: &Job) -> (Option<u32>, Option<u32>, Option<bool>, Option<bool>) {
    let update = job.task_groups[0].update.clone().unwrap();
    (update.max_parallel, update.canary, update.auto_promote, update.auto_revert)
}

#[test]
fn too_few_instances_are_worse_than_too_many() {
    let of = |surge, unavailable| {
        rendered(service().container(web()).update(Update::Rolling(Rolling::new(surge, unavailable))))
    };
    assert_eq!(update_of(&of(1, 2).job), (Some(2), None, None, None));
    let none_missing = of(1, 0);
    assert_eq!(update_of(&none_missing.job), (Some(1), Some(3), Some(true), None));
    let surge = |rendered: &Rendered| rendered.warnings.iter().any(|warning| warning.contains("max_unavailable"));
    assert!(surge(&none_missing) && !surge(&of(3, 0)) && !surge(&of(1, 2)));
}

#[test]
fn the_servers_order_of_times_is_kept() {
    // The server refuses a deadline that is not longer than the others, and a grace above it.
    for (deadline, grace, ready) in [(1, 0, 0), (12, 30, 5), (600, 30, 599)] {
        let workload = service().container(web()).progress_deadline(deadline).termination_grace(grace).min_ready(ready);
        let group = rendered(workload).job.task_groups.remove(0);
        let update = group.update.unwrap();
        let (well, healthy, progress) = (update.min_healthy_time, update.healthy_deadline, update.progress_deadline);
        assert!(well.unwrap_or_default() < healthy.unwrap() && healthy < progress, "{update:?}");
        assert!(group.tasks[0].kill_timeout.unwrap() <= progress.unwrap(), "{update:?}");
    }
}

fn refused(workload: Workload, driver: &str) -> (ErrorKind, Vec<String>) {
    let error = try_render(workload, driver).unwrap_err();
    (error.kind().clone(), error.causes().iter().map(|cause| cause.path.clone()).collect())
}

#[test]
fn what_nomad_cannot_have_is_refused_by_its_field() {
    let invalid = |path: &str| (ErrorKind::InvalidArgument, vec![path.to_owned()]);
    let init = || Container::new("init", "init:1").role(Role::Init);
    let side = || Container::new("side", "side:1").role(Role::Sidecar);
    assert_eq!(refused(service().container(web()), "exec"), invalid("containers[0].command"));
    assert_eq!(refused(service().container(web().args(["x"])), "java"), invalid("containers[0].command"));
    assert_eq!(refused(service().container(Container::new("alloc", "a:1")), "docker"), invalid("containers[0].name"));
    assert_eq!(
        refused(service().container(web()).container(side()).container(init()), "docker"),
        invalid("containers[2].role")
    );
    let two = Container::new("second", "init:1").role(Role::Init);
    assert_eq!(
        refused(service().container(web()).container(init()).container(two), "docker"),
        invalid("containers[2].role")
    );
    let long = Workload::service("shop", "x".repeat(52)).container(web().port("a-long-one", 80));
    assert_eq!(refused(long, "docker"), invalid("containers[0].ports[0].name"));
    assert!(try_render(service().container(web()).container(init()), "docker").is_ok());
}

#[test]
fn what_the_capabilities_deny_is_not_rendered_either() {
    let lacking = |workload: Workload| match refused(workload, "docker").0 {
        ErrorKind::Unsupported(feature) => feature,
        other => panic!("{other:?}"),
    };
    assert_eq!(lacking(service().container(web()).update(Update::Recreate)), Some(Feature::Recreate));
    let probed = service().container(web().liveness(Probe::exec(["true"])));
    assert_eq!(lacking(probed), Some(Feature::ExecProbes));
    let startup = service().container(web().port("http", 80).startup(Probe::tcp("http")));
    assert_eq!(lacking(startup), Some(Feature::StartupProbes));
    let job = |change: fn(&mut scheduler_core::workload::Job)| {
        lacking(Workload::job("shop", "work").container(web()).with_job(change))
    };
    assert_eq!(job(|job| (job.completions, job.parallelism) = (3, Some(2))), Some(Feature::JobParallelism));
    assert_eq!(job(|job| job.deadline = Some(Seconds::new(60))), Some(Feature::JobDeadline));
    assert_eq!(job(|job| job.time_to_live = Some(Seconds::new(60))), Some(Feature::JobTimeToLive));
    let periodic = |change: fn(&mut scheduler_core::workload::Periodic)| {
        lacking(Workload::periodic("shop", "tick", "0 3 * * *").container(web()).with_periodic(change))
    };
    assert_eq!(periodic(|periodic| periodic.overlap = Overlap::Replace), Some(Feature::ReplaceOverlap));
    let late = periodic(|periodic| periodic.starting_deadline = Some(Seconds::new(60)));
    assert_eq!(late, Some(Feature::StartingDeadline));
    assert_eq!(periodic(|periodic| periodic.keep_failed = Some(1)), Some(Feature::PeriodicHistory));
    let own = VolumeSource::PerInstance(PerInstanceVolume::new("1Gi"));
    let own = service().container(web().mount("x", "/x")).volume("x", own).stable();
    assert_eq!(lacking(own), Some(Feature::PerInstanceVolumes));
    let volume = service().container(web().mount("x", "/x")).volume("x", VolumeSource::Host("/x".to_owned()));
    assert_eq!(lacking(volume), Some(Feature::HostVolumes));
}

fn patched(extension: Value) -> Result<Job, Vec<String>> {
    let workload = service().container(web()).extension(&BackendName::nomad(), extension);
    match try_render(workload, "docker") {
        Ok(rendered) => Ok(rendered.job),
        Err(error) => Err(error.causes().iter().map(|cause| cause.path.clone()).collect()),
    }
}

#[test]
fn an_extension_is_applied_last() {
    let extension = NomadExtension::default()
        .driver("podman")
        .job(json!({"Priority": 80, "Meta": {"cost": "x"}}))
        .group(json!({"ReschedulePolicy": null}))
        .task("web", json!({"Config": {"privileged": true}, "User": "web"}));
    let job = patched(serde_json::to_value(extension).unwrap()).unwrap();
    let task = &job.task_groups[0].tasks[0];
    assert_eq!((job.priority, task.driver.as_str(), task.user.as_str()), (Some(80), "podman", "web"));
    assert_eq!((job.meta["cost"].as_str(), job.meta["scheduler/owner"].as_str()), ("x", "platform"));
    assert_eq!(
        (&task.config["privileged"], &task.config["image"]),
        (&json!(true), &json!("registry.example/shop/web:1.4.2"))
    );
    assert_eq!(job.task_groups[0].reschedule_policy, None);
}

#[test]
fn an_extension_touches_nothing_by_which_jobs_are_found_and_guarded() {
    for (extension, path) in [
        (json!({"jobs": {}}), "extensions.nomad.jobs"),
        (json!({"job": {"ID": "x"}}), "extensions.nomad.job.ID"),
        (json!({"job": {"stop": true}}), "extensions.nomad.job.stop"),
        (json!({"job": {"meta": {}}}), "extensions.nomad.job.meta"),
        (json!({"job": {"Meta": {"scheduler/owner": "me"}}}), "extensions.nomad.job.Meta[\"scheduler/owner\"]"),
        (json!({"group": {"Count": 9}}), "extensions.nomad.group.Count"),
        (json!({"tasks": {"api": {}}}), "extensions.nomad.tasks.api"),
        (json!({"tasks": {"web": {"Name": "x"}}}), "extensions.nomad.tasks.web.Name"),
        (json!({"job": {"Datacenters": [null]}}), "extensions.nomad.job.Datacenters[0]"),
    ] {
        assert_eq!(patched(extension).unwrap_err(), [path]);
    }
    // What is of another type than the server's is named, too.
    let path = patched(json!({"job": {"Priority": "high"}})).unwrap_err();
    assert!(path[0].ends_with("Priority"), "{path:?}");
}
