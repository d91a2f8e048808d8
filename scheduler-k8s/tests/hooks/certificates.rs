//! Certificates, and the Ingresses that show them.

use super::*;

fn attach(world: &World) -> EventKind {
    EventKind::CertificateAttached { host: world.host(), certificate: "main".to_owned() }
}

fn detach(world: &World) -> EventKind {
    EventKind::CertificateDetached { host: world.host(), certificate: "main".to_owned() }
}

/// An app with a front and one domain, which has a certificate.
async fn exposed(world: &World) -> App {
    let mut app = world.full();
    (app.policy, app.registries, app.volumes) = Default::default();
    world.launch(world.workload()).await;
    world.expose("web", &[world.host()]).await;
    world.faults.take_requests();
    app
}

async fn shown(world: &World) -> Value {
    world.get("ingress", "web").await["spec"].get("tls").cloned().unwrap_or_default()
}

pub(crate) async fn a_key_is_stored_before_and_goes_after_its_reference() {
    let world = World::new().await;
    let mut app = exposed(&world).await;
    assert_eq!(world.tell(attach(&world), &app).await, Ok(Outcome::Applied));
    assert_eq!(world.writes(), ["PATCH secrets", "PATCH ingresses"]);
    assert_eq!(world.tell(attach(&world), &app).await, Ok(Outcome::AlreadyInState));
    assert_eq!(world.writes(), [""; 0]);
    assert_eq!(shown(&world).await, json!([{"hosts": [world.host()], "secretName": "main-tls"}]));
    let secret = world.get("secret", "main-tls").await;
    assert_eq!(secret["type"], "kubernetes.io/tls");
    assert_eq!((decoded(&secret, "tls.crt"), decoded(&secret, "tls.key")), world.pem);

    app.domains[0].certificate = None;
    world.faults.take_requests();
    assert_eq!(world.tell(detach(&world), &app).await, Ok(Outcome::Applied));
    assert_eq!(world.writes(), ["PATCH ingresses", "DELETE secrets"]);
    assert_eq!(world.tell(detach(&world), &app).await, Ok(Outcome::AlreadyInState));
    assert_eq!(world.writes(), [""; 0]);
    assert_eq!((shown(&world).await, world.around().await), (Value::Null, vec![]));

    let lost = Certificate::new(&world.pem.0, SecretRef::new("lost"));
    app.certificates.insert("main".to_owned(), lost);
    let error = world.tell(attach(&world), &app).await.unwrap_err();
    assert!(error.message.contains("certificate main") && error.message.contains("\"lost\""), "{error}");
    app.certificates.clear();
    let error = world.tell(attach(&world), &app).await.unwrap_err();
    assert!(!error.retry && error.message.contains("has no certificate"), "{error}");
}

pub(crate) async fn a_launch_and_an_expose_leave_tls_alone() {
    let world = World::new().await;
    let app = exposed(&world).await;
    world.tell(attach(&world), &app).await.unwrap();
    let before = world.get("ingress", "web").await;
    assert_eq!(world.launch(world.workload()).await, Change::Unchanged);
    assert!(!world.expose("web", &[world.host()]).await, "nothing is to be exposed");
    assert_eq!(world.get("ingress", "web").await, before);
    // Nor does one that changes something.
    let more = format!("more.{}", world.host());
    assert!(world.expose("web", &[world.host(), more]).await);
    assert_eq!(shown(&world).await, before["spec"]["tls"]);
    // And what tls changes is none of expose's.
    let mut bare = app.clone();
    bare.domains[0].certificate = None;
    world.tell(detach(&world), &bare).await.unwrap();
    assert_eq!(shown(&world).await, Value::Null);
}

pub(crate) async fn a_certificate_waits_for_its_route() {
    let world = World::new().await;
    let app = world.full();
    world.faults.take_requests();
    let added = EventKind::DomainAdded(app.domains[0].clone());
    assert_eq!(world.tell(added, &app).await, Ok(Outcome::Applied));
    assert_eq!(world.writes(), ["PATCH secrets"]);
    assert_eq!(world.tell(attach(&world), &app).await, Ok(Outcome::AlreadyInState));
    world.launch(world.workload()).await;
    world.expose("web", &[world.host()]).await;
    assert_eq!(world.hooks.on_cut_over(&app, &[world.target("web")]).await, Ok(Outcome::Applied));
    assert_eq!(shown(&world).await, json!([{"hosts": [world.host()], "secretName": "main-tls"}]));
}

pub(crate) async fn two_domains_share_a_certificate() {
    let world = World::new().await;
    let mut app = exposed(&world).await;
    let more = format!("more.{}", world.host());
    app.domains.push(Domain::new(&more).certificate("main"));
    world.expose("web", &[world.host(), more.clone()]).await;
    world.tell(attach(&world), &app).await.unwrap();
    let mut hosts = [world.host(), more.clone()];
    hosts.sort();
    assert_eq!(shown(&world).await, json!([{"hosts": hosts, "secretName": "main-tls"}]));
    app.domains[0].certificate = None;
    assert_eq!(world.tell(detach(&world), &app).await, Ok(Outcome::Applied));
    assert_eq!(shown(&world).await, json!([{"hosts": [more], "secretName": "main-tls"}]));
    assert_eq!(world.around().await, ["secret/main-tls"], "the other domain still has it");
    // A domain goes before its route does.
    let removed = app.domains.pop().unwrap();
    assert_eq!(world.tell(EventKind::DomainRemoved(removed), &app).await, Ok(Outcome::Applied));
    assert_eq!(shown(&world).await, Value::Null);
}

pub(crate) async fn tls_of_others_is_left_until_it_is_ours_to_set() {
    let world = World::new().await;
    let mut app = exposed(&world).await;
    let theirs = json!([{"hosts": [world.host()], "secretName": "theirs"}]);
    let patch = json!({"spec": {"tls": theirs}}).to_string();
    world.kubectl(&["patch", "ingress", "web", "--type=merge", "--patch", &patch]).await;
    app.domains[0].certificate = None;
    assert_eq!(world.hooks.reconcile_app(&app).await.unwrap(), Outcome::Applied, "the Service in front");
    assert_eq!(shown(&world).await, theirs, "the model has no certificate for it");
    app.domains[0].certificate = Some("main".to_owned());
    assert_eq!(world.tell(attach(&world), &app).await, Ok(Outcome::Applied));
    assert_eq!(shown(&world).await[0]["secretName"], "main-tls");
}

pub(crate) async fn a_key_of_another_certificate_is_vetoed() {
    let world = World::new().await;
    let mut app = world.full();
    let mut validate = async |certificate: Certificate| {
        app.certificates.insert("main".to_owned(), certificate);
        let said = world.hooks.validate_certificate_attach(&app, &world.host(), "main").await.unwrap();
        assert!(!format!("{said:?}").contains("PRIVATE"), "{said:?}");
        match said {
            Validation::Vetoed(faults) => Some(faults[0].path.clone()),
            _ => None,
        }
    };
    let chain = &world.pem.0;
    assert_eq!(validate(world.certificate()).await, None);
    let swapped = Certificate::new(chain, SecretRef::new("other-key"));
    assert_eq!(validate(swapped).await.as_deref(), Some("certificates.main.key"));
    let no_key = Certificate::new(chain, SecretRef::new("password"));
    assert_eq!(validate(no_key).await.as_deref(), Some("certificates.main.key"));
    let no_chain = Certificate::new("no certificate", SecretRef::new("key"));
    assert_eq!(validate(no_chain).await.as_deref(), Some("certificates.main.chain"));
}

pub(crate) async fn a_host_of_another_workload_is_vetoed() {
    let (world, other) = (World::new().await, World::new().await);
    exposed(&other).await;
    let validate = async |host: &str| {
        let said = world.hooks.validate_domain_add(&world.bare(), &Domain::new(host)).await.unwrap();
        match said {
            Validation::Vetoed(faults) => Some(faults[0].problem.clone()),
            _ => None,
        }
    };
    let problem = validate(&other.host()).await.expect("another namespace has it");
    assert!(problem.contains(&format!("{}/web", other.namespace)), "{problem}");
    assert_eq!(validate(&world.host()).await, None);
    world.launch(world.workload()).await;
    world.expose("web", &[world.host()]).await;
    assert_eq!(validate(&world.host()).await, None, "the app has it itself");
    // A router of another class never reads it.
    let class = r#"{"spec":{"ingressClassName":"elsewhere"}}"#;
    other.kubectl(&["patch", "ingress", "web", "--type=merge", "--patch", class]).await;
    assert_eq!(validate(&other.host()).await, None);
}
