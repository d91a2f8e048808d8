//! Routes as tags of a service, for Traefik's provider of Nomad services (version 3).
//!
//! A router bears the hash of its own content in its name: while an update goes on, old and new instances define it both, and
//! Traefik drops a router that is defined in two ways. One more tag, [`CLAIM`], says the route in clear text, so that the
//! server can be asked for the job that has it.

use std::collections::BTreeSet;

use scheduler_core::{Expose, Fault, Route, Target};
use scheduler_nomad_client::model::{Job, Service};

/// The tag that says which host and path a service has.
pub(crate) const CLAIM: &str = "scheduler.route=";
/// How the names of our routers and services begin.
const PREFIX: &str = "scheduler-";
const ENABLE: &str = "traefik.enable=true";

/// The text by which a route is known: no other may have the same.
pub(crate) fn claim(route: &Route) -> String {
    format!("{CLAIM}{}{}", route.host, trimmed(&route.path))
}

/// The routes that a job's services say they have.
pub(crate) fn of(job: &Job) -> Vec<Route> {
    let services = job.task_groups.iter().flat_map(|group| &group.services);
    let of_service = |service: &Service| {
        let claims: Vec<_> = service.tags.iter().filter_map(|tag| tag.strip_prefix(CLAIM)).collect();
        let route = |claim: &str| {
            let (host, path) = claim.split_at(claim.find('/').unwrap_or(claim.len()));
            let route = Route::new(host, &*service.port_label);
            if path.is_empty() { route } else { route.path(path) }
        };
        claims.into_iter().map(route).collect::<Vec<_>>()
    };
    services.flat_map(of_service).collect()
}

/// The path without a last slash, as it takes whole parts: `/` is nothing.
fn trimmed(path: &str) -> &str {
    path.trim_end_matches('/')
}

/// Whether a tag is one of ours. Who enables Traefik otherwise has a router of its own.
pub(crate) fn is_ours(tags: &[String], tag: &str) -> bool {
    let own = |kind: &str| tag.starts_with(&format!("traefik.http.{kind}.{PREFIX}"));
    tag.starts_with(CLAIM)
        || own("routers")
        || own("services")
        || (tag == ENABLE && tags.iter().any(|tag| tag.starts_with(CLAIM)))
}

/// The tags of each port's service, for these routes.
pub(crate) fn tags(target: &Target, routes: &[Route]) -> Vec<(String, Vec<String>)> {
    let ports: BTreeSet<&str> =
        routes.iter().flat_map(|route| &route.backends).map(|backend| backend.port.as_str()).collect();
    let of = |port: &str| {
        let own = routes.iter().filter(|route| route.backends.iter().any(|backend| backend.port == port));
        let service = format!("{PREFIX}{}", short(&format!("{target}/{port}")));
        let mut tags = BTreeSet::from([
            ENABLE.to_owned(),
            // Traefik makes a name of its own from the service's, in which dashes do not count.
            format!("traefik.http.services.{service}.loadbalancer.passhostheader=true"),
        ]);
        for route in own {
            let rule = rule(route);
            let router = format!("{PREFIX}{}", short(&format!("{service} {rule}")));
            tags.insert(claim(route));
            tags.insert(format!("traefik.http.routers.{router}.rule={rule}"));
            tags.insert(format!("traefik.http.routers.{router}.service={service}"));
        }
        tags.into_iter().collect()
    };
    ports.into_iter().map(|port| (port.to_owned(), of(port))).collect()
}

/// Traefik's rule. Its `PathPrefix` takes parts of words, too.
fn rule(route: &Route) -> String {
    let host = match route.host.strip_prefix("*.") {
        Some(rest) => format!("HostRegexp(`^[^.]+\\.{}$`)", rest.replace('.', "\\.")),
        None => format!("Host(`{}`)", route.host),
    };
    match trimmed(&route.path) {
        "" => host,
        path => format!("{host} && (Path(`{path}`) || PathPrefix(`{path}/`))"),
    }
}

/// 64 bits of FNV-1a in hex. It tells contents apart; nobody gains by making two alike.
fn short(text: &str) -> String {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}

/// What of the routes cannot be had from this job.
pub(crate) fn faults(op: &Expose, job: &Job, is_tcp: impl Fn(&str) -> bool) -> Vec<Fault> {
    let mut faults = Vec::new();
    let services: BTreeSet<&str> =
        job.task_groups.iter().flat_map(|group| &group.services).map(|service| service.port_label.as_str()).collect();
    for (i, route) in op.routes.iter().enumerate() {
        for (j, backend) in route.backends.iter().enumerate() {
            let at = format!("routes[{i}].backends[{j}]");
            if backend.target.as_ref().is_some_and(|other| *other != op.target) {
                faults.push(Fault::new(
                    format!("{at}.target"),
                    "on Nomad a route leads to the workload that it belongs to, whose tags it is",
                ));
            } else if !services.contains(backend.port.as_str()) || !is_tcp(&backend.port) {
                faults.push(Fault::new(format!("{at}.port"), "is no TCP port of the workload"));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use scheduler_core::RouteBackend;
    use serde_json::json;

    use super::*;

    fn target() -> Target {
        Target::new("shop", "web").unwrap()
    }

    fn rules(routes: &[Route]) -> Vec<String> {
        let tags = tags(&target(), routes).into_iter().flat_map(|(_, tags)| tags);
        let mut rules: Vec<_> = tags.filter_map(|tag| Some(tag.split_once(".rule=")?.1.to_owned())).collect();
        rules.sort();
        rules
    }

    #[test]
    fn rules_take_whole_parts_of_paths() {
        assert_eq!(rules(&[Route::new("a.example", "http")]), ["Host(`a.example`)"]);
        let api = "Host(`a.example`) && (Path(`/api`) || PathPrefix(`/api/`))";
        assert_eq!(rules(&[Route::new("a.example", "http").path("/api")]), [api]);
        assert_eq!(rules(&[Route::new("a.example", "http").path("/api/")]), [api]);
        assert_eq!(rules(&[Route::new("*.a.example", "http")]), ["HostRegexp(`^[^.]+\\.a\\.example$`)"]);
    }

    /// traefik/traefik#7738: one name that is defined in two ways is dropped, and old and new instances run side by side.
    #[test]
    fn a_name_is_never_defined_in_two_ways() {
        let defined = |routes: &[Route]| -> BTreeSet<(String, String)> {
            let tags = tags(&target(), routes).into_iter().flat_map(|(_, tags)| tags);
            tags.filter_map(|tag| {
                let (name, value) = tag.strip_prefix("traefik.http.")?.split_once('=')?;
                Some((name.to_owned(), value.to_owned()))
            })
            .collect()
        };
        let one = defined(&[Route::new("a.example", "http")]);
        let other = defined(&[Route::new("a.example", "http").path("/b"), Route::new("c.example", "admin")]);
        let both: BTreeSet<_> = one.union(&other).collect();
        let names: BTreeSet<&str> = both.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names.len(), both.len(), "{both:?}");
        assert!(one.len() == 3 && other.len() == 6);
    }

    #[test]
    fn only_our_own_tags_are_taken_away() {
        let tag = |text: &str| text.to_owned();
        let mut tags: Vec<String> = tags_of("http")
            .into_iter()
            .chain([tag("version=1"), tag("traefik.http.routers.mine.rule=Host(`x`)")])
            .collect();
        let is_ours = |tags: &[String], text: &str| super::is_ours(tags, text);
        let others: Vec<_> = tags.iter().filter(|text| !is_ours(&tags, text)).cloned().collect();
        assert_eq!(others, ["version=1", "traefik.http.routers.mine.rule=Host(`x`)"]);
        // Without a route of ours, it is somebody else who enables it.
        tags = vec![ENABLE.to_owned()];
        assert!(!is_ours(&tags, ENABLE));
    }

    #[test]
    fn routes_are_read_from_the_tags_that_they_became() {
        let routes = [
            Route::new("*.a.example", "http"),
            Route::new("a.example", "http"),
            Route::new("a.example", "admin").path("/api/v1"),
        ];
        let service = |(port, mut tags): (String, Vec<String>)| {
            tags.push("mine".to_owned());
            json!({"Name": port, "PortLabel": port, "Tags": tags})
        };
        let services: Vec<_> = tags(&target(), &routes).into_iter().map(service).collect();
        let job = json!({"ID": "web", "TaskGroups": [{"Name": "web", "Services": services}]});
        let mut read = of(&serde_json::from_value(job).unwrap());
        read.sort();
        assert_eq!(read, routes);
    }

    fn tags_of(port: &str) -> Vec<String> {
        tags(&target(), &[Route::new("a.example", port)]).remove(0).1
    }

    #[test]
    fn routes_lead_to_tcp_ports_of_the_workload_itself() {
        let job = json!({"ID": "web", "TaskGroups": [{"Name": "web", "Services": [
            {"Name": "web--http", "PortLabel": "http"}, {"Name": "web--dns", "PortLabel": "dns"},
        ]}]});
        let job: Job = serde_json::from_value(job).unwrap();
        let other = RouteBackend::of(Target::new("shop", "api").unwrap(), "http");
        let routes = ["http", "dns", "nope"].map(|port| Route::new(format!("{port}.example"), port));
        let routes = routes.into_iter().chain([Route::new("d.example", "http").backends([other])]);
        let faults = faults(&Expose::new(target(), routes), &job, |port| port != "dns");
        let paths: Vec<_> = faults.iter().map(|fault| fault.path.as_str()).collect();
        assert_eq!(paths, ["routes[1].backends[0].port", "routes[2].backends[0].port", "routes[3].backends[0].target"]);
    }
}
