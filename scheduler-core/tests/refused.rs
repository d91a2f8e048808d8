//! Inputs that are refused, each with the path of the field that is at fault, before anything could be sent.
//!
//! Operations take a `CheckedWorkload` only, which these never become.

#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

use scheduler_core::{CheckedWorkload, Workload};
use serde_json::{Value, json};

/// A workload that uses every part of the model and has no fault.
fn full() -> Value {
    json!({
        "namespace": "shop",
        "name": "web",
        "kind": { "service": { "replicas": { "exactly": 3 }, "update": { "rolling": { "max_surge": 2, "max_unavailable": 1 } }, "min_ready": 5 } },
        "containers": [
            {
                "name": "web",
                "image": "registry.example:5000/shop/web:1.4.2",
                "command": ["/bin/web"],
                "args": ["--verbose"],
                "env": [
                    { "name": "A", "value": { "text": "x" } },
                    { "name": "B", "value": { "config": { "name": "settings", "version": "v1", "key": "b" } } },
                    { "name": "C", "value": { "field": "node_name" } }
                ],
                "ports": [{ "name": "http", "port": 8080 }, { "name": "dns", "port": 53, "protocol": "udp" }],
                "resources": { "cpu": { "request": "100m", "limit": "1" }, "memory": { "request": "64Mi", "limit": "128Mi" } },
                "probes": {
                    "startup": { "check": { "tcp": { "port": "http" } } },
                    "readiness": { "check": { "http": { "port": "http", "path": "/ready" } }, "period": 5, "timeout": 2 },
                    "liveness": { "check": { "grpc": { "port": "http", "service": "health" } } }
                },
                "mounts": [{ "volume": "tmp", "path": "/tmp" }, { "volume": "data", "path": "/data", "read_only": true }]
            },
            { "name": "proxy", "role": "sidecar", "image": "proxy:2", "probes": { "readiness": { "check": { "exec": { "command": ["true"] } } } } },
            { "name": "migrate", "role": "init", "image": "shop/migrate:1" }
        ],
        "volumes": [
            { "name": "tmp", "source": { "empty": { "size_limit": "1Gi" } } },
            { "name": "data", "source": { "claim": "data-0" } },
            { "name": "certs", "source": { "config": { "name": "certs", "version": "v2" } } },
            { "name": "sock", "source": { "host": "/run/sock" } }
        ],
        "placement": { "require": [{ "label": "zone", "is": { "in": ["a", "b"] } }], "spread": "topology.kubernetes.io/zone" },
        "identity": "web",
        "pull_secrets": ["registry"],
        "termination_grace": 10,
        "progress_deadline": 60,
        "labels": { "tier": "front" },
        "annotations": { "example.com/note": "any text" },
        "marks": { "unit": "web", "version": "1.4.2+build", "stack": "web--1-4-2--ab", "namespace": "dev/sandbox" },
        "extensions": { "kubernetes": { "deployment": {} } }
    })
}

/// Replaces what stands at a path such as `containers[0].ports[1].port`. A new key of an object is added.
fn with(path: &str, value: Value) -> Value {
    let mut workload = full();
    let mut at = &mut workload;
    for part in path.split(['.', '[']) {
        let part = part.trim_end_matches(']').trim_matches('"');
        at = match part.parse::<usize>() {
            Ok(index) => &mut at[index],
            Err(_) => &mut at[part],
        };
    }
    *at = value;
    workload
}

fn paths(workload: Value) -> Vec<String> {
    let workload: Workload = serde_json::from_value(workload).expect("the shape is right");
    match workload.check() {
        Ok(checked) => panic!("was accepted: {checked:?}"),
        Err(faults) => faults.faults.into_iter().map(|fault| fault.path).collect(),
    }
}

#[test]
fn the_workload_without_faults_is_accepted() {
    let workload: Workload = serde_json::from_value(full()).unwrap();
    let checked = workload.clone().check().unwrap();
    assert_eq!(*checked, workload);
}

/// Where a fault stands, and the values that it is reported for.
fn table() -> Vec<(&'static str, Vec<Value>)> {
    let label = |text: &str| json!({ text: "x" });
    let quantities = ["", "x", "-1", "0", "1Kib", "1 Gi", "1.2.3", "1e", "NaN", "99999999999999999999", "1e99"];
    let texts = |texts: &[&str]| texts.iter().map(|text| json!(text)).collect::<Vec<_>>();
    let names = ["", "Web", "web_1", "web/1", "-web", "web-", "wéb", "web.a", "we b"];
    let also = |more: &[&str]| texts(&[&names[..], more].concat());
    let long = |n: usize| json!("a".repeat(n));
    let mut cpu = texts(&quantities);
    cpu.extend(texts(&["0.0001", "1Gi", "100u"]));
    let mut memory = texts(&quantities);
    memory.extend(texts(&["800m", "0.3", "1u", "16Ei", "1e-3"]));
    let seconds = || vec![json!(2_147_483_648_u32), json!(u32::MAX)];
    let positive = || vec![json!(0), json!(2_147_483_648_u32)];
    vec![
        ("namespace", [also(&[]), vec![long(64)]].concat()),
        ("name", [also(&["1web", "001-svc", "9"]), vec![long(53), long(64)]].concat()),
        ("kind.service.replicas", vec![json!({ "exactly": 100_001 }), json!({ "keep": u32::MAX })]),
        ("kind.service.update.rolling", vec![json!({ "max_surge": 0, "max_unavailable": 0 })]),
        ("kind.service.min_ready", vec![json!(60), json!(600)]),
        ("containers", vec![json!([])]),
        ("containers[0].name", [also(&[]), vec![long(64)]].concat()),
        (
            "containers[0].image",
            [
                texts(&[
                    "",
                    " ",
                    "web:",
                    "Web",
                    "web:1:2",
                    "a//b",
                    "/web",
                    "web/",
                    ":1",
                    "web@sha256:00",
                    "h:0/a",
                    "h:70000/a",
                ]),
                texts(&["web 1", "web\n", "a___b", "wéb", "web:-1", "-web", "web@", "http://h/web"]),
                vec![json!(format!("web:{}", "a".repeat(129))), json!("a/".repeat(140) + "a")],
            ]
            .concat(),
        ),
        ("containers[0].command[0]", texts(&["", "a\0b"])),
        ("containers[0].args[0]", texts(&["a\0b"])),
        ("containers[0].env[0].name", texts(&["", "1A", "A-B", "A B", "A=B", "Ä", "$A"])),
        ("containers[0].env[0].value.text", texts(&["a\0b"])),
        ("containers[0].env[1].value.config.name", also(&[])),
        ("containers[0].env[1].value.config.version", also(&[])),
        ("containers[0].env[1].value.config.key", texts(&["", "a b", "a/b", ".", "..", "..a"])),
        ("containers[0].ports[0].name", [also(&["8080", "a--b", "abcdefghijklmnop"])].concat()),
        ("containers[0].ports[0].port", vec![json!(0), json!(65_536), json!(70_000), json!(u32::MAX)]),
        ("containers[0].resources.cpu.request", cpu.clone()),
        ("containers[0].resources.cpu.limit", cpu),
        ("containers[0].resources.memory.request", memory.clone()),
        ("containers[0].resources.memory.limit", [memory, texts(&["1Mi", "9Mi", "1"])].concat()),
        ("containers[0].probes.startup.check.tcp.port", texts(&["", "https", "8080", "HTTP"])),
        ("containers[0].probes.readiness.check.http.port", texts(&["", "https", "dns"])),
        ("containers[0].probes.readiness.check.http.path", texts(&["", "ready", "/re ady", "/a\n"])),
        ("containers[0].probes.liveness.check.grpc.port", texts(&["", "grpc", "dns"])),
        ("containers[0].probes.liveness.check.grpc.service", texts(&[""])),
        ("containers[1].probes.readiness.check.exec.command", vec![json!([]), json!([""])]),
        ("containers[0].probes.readiness.initial_delay", seconds()),
        ("containers[0].probes.readiness.period", positive()),
        ("containers[0].probes.readiness.timeout", [positive(), vec![json!(6)]].concat()),
        ("containers[0].probes.readiness.failures", positive()),
        ("containers[0].mounts[0].volume", texts(&["", "temp", "TMP"])),
        ("containers[0].mounts[0].path", texts(&["", "tmp", "./tmp", "/a/../b", "/a:b", "/..", "/a\0"])),
        ("containers[0].mounts[1].path", texts(&["/tmp", "/tmp/"])),
        ("volumes[0].name", [also(&[]), vec![long(64)]].concat()),
        ("volumes[0].source.empty.size_limit", texts(&["", "x", "0", "1m"])),
        ("volumes[1].source.claim", texts(&["", "Data", "a/b", "a..b", ".a", "a-"])),
        ("volumes[2].source.config.name", also(&[])),
        ("volumes[3].source.host", texts(&["", "run", "/a/..", "/a:b"])),
        ("placement.require[0].label", texts(&["", "a b", "/a", "a/", "-a", "a/b/c"])),
        ("placement.require[0].is.in", vec![json!([])]),
        ("placement.require[0].is.in[1]", texts(&["a b", "-a", "a/b"])),
        ("placement.spread", texts(&["", "a b", "/a"])),
        ("identity", texts(&["", "Web", "a b", "a/b"])),
        ("pull_secrets[0]", texts(&["", "Registry", "a b"])),
        ("termination_grace", seconds()),
        ("progress_deadline", vec![json!(2_147_483_648_u32)]),
        ("labels", vec![label("")]),
        ("marks.unit", vec![json!(""), json!("a\nb"), json!("a".repeat(1025))]),
        ("marks.version", texts(&[""])),
        ("marks.stack", texts(&["", "\u{7f}"])),
        ("marks.namespace", texts(&[""])),
    ]
}

#[test]
fn at_least_two_hundred_inputs_are_refused_with_the_path_of_their_fault() {
    let mut inputs = 0;
    for (path, values) in table() {
        for value in values {
            inputs += 1;
            let found = paths(with(path, value.clone()));
            let below = |found: &String| {
                found.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
            };
            assert!(found.iter().any(below), "{path} = {value}: {found:?}");
        }
    }
    assert!(inputs >= 200, "only {inputs} inputs");
}

#[test]
fn faults_that_need_two_fields_name_the_one_to_change() {
    for (path, value, expected) in [
        ("containers[0].resources.cpu.request", json!("2"), "containers[0].resources.cpu.request"),
        ("containers[0].resources.memory.limit", json!("32Mi"), "containers[0].resources.memory.request"),
        ("containers[1].role", json!("main"), "containers"),
        ("containers[0].role", json!("sidecar"), "containers"),
        ("containers[2].ports", json!([{ "name": "x", "port": 1 }]), "containers[2].ports"),
        (
            "containers[2].probes",
            json!({ "liveness": { "check": { "exec": { "command": ["a"] } } } }),
            "containers[2].probes.liveness",
        ),
        ("containers[1].ports", json!([{ "name": "http", "port": 1 }]), "containers[1].ports[0].name"),
        ("containers[1].ports", json!([{ "name": "other", "port": 8080 }]), "containers[1].ports[0].port"),
        ("containers[0].env[1].name", json!("A"), "containers[0].env[1].name"),
        ("containers[0].name", json!("proxy"), "containers[1].name"),
        ("containers[0].ports[1].name", json!("http"), "containers[0].ports[1].name"),
        ("containers[0].env[0].name", json!("B"), "containers[0].env[1].name"),
        ("volumes[0].name", json!("data"), "volumes[1].name"),
        ("pull_secrets", json!(["a", "a"]), "pull_secrets[1]"),
        ("progress_deadline", json!(0), "progress_deadline"),
        ("labels", json!({ "scheduler/owner": "x" }), "labels[\"scheduler/owner\"]"),
        ("labels", json!({ "node.kubernetes.io/x": "x" }), "labels[\"node.kubernetes.io/x\"]"),
        ("labels", json!({ "a": "not a value" }), "labels[\"a\"]"),
        ("labels", json!({ "a": "a".repeat(64) }), "labels[\"a\"]"),
        ("annotations", json!({ "scheduler/revision": "x" }), "annotations[\"scheduler/revision\"]"),
        ("annotations", json!({ "a b": "x" }), "annotations[\"a b\"]"),
        ("annotations", json!({ "a": "x".repeat(300_000) }), "annotations"),
        ("extensions", json!({ "kubernets": {} }), "extensions.kubernets"),
        ("extensions", json!({ "Kubernetes": {} }), "extensions.Kubernetes"),
    ] {
        let found = paths(with(path, value.clone()));
        assert!(found.contains(&expected.to_owned()), "{path} = {value}: {found:?}");
    }
}

#[test]
fn every_fault_is_told_at_once() {
    let mut workload = with("name", json!("Web"));
    workload["containers"][0]["image"] = json!("");
    workload["containers"][0]["ports"][0]["port"] = json!(0);
    workload["progress_deadline"] = json!(0);
    let found = paths(workload);
    for path in ["name", "containers[0].image", "containers[0].ports[0].port", "progress_deadline"] {
        assert!(found.contains(&path.to_owned()), "{path} is missing in {found:?}");
    }
}

#[test]
fn unknown_fields_are_refused_wherever_they_stand() {
    for path in [
        "x",
        "kind.service.x",
        "kind.service.update.rolling.x",
        "containers[0].x",
        "containers[0].env[0].x",
        "containers[0].env[1].value.config.x",
        "containers[0].ports[0].x",
        "containers[0].resources.x",
        "containers[0].resources.cpu.x",
        "containers[0].probes.x",
        "containers[0].probes.readiness.x",
        "containers[0].probes.readiness.check.http.x",
        "containers[0].mounts[0].x",
        "volumes[0].x",
        "volumes[0].source.empty.x",
        "placement.x",
        "placement.require[0].x",
        "marks.x",
    ] {
        let result: Result<Workload, _> = serde_json::from_value(with(path, json!(1)));
        assert!(result.is_err(), "{path} was accepted");
    }
}

#[test]
fn a_stored_workload_is_checked_again_when_it_is_read() {
    let bad = with("containers[0].ports[0].port", json!(0));
    let error = serde_json::from_value::<CheckedWorkload>(bad).unwrap_err();
    assert!(error.to_string().contains("containers[0].ports[0].port"), "{error}");
}
