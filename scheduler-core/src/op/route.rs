//! How a workload is reached: routes from outside, and the addresses of what is ready.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::CallOptions;
use crate::error::Error;
use crate::name::{Target, check_host};
use crate::version::Guard;
use crate::workload::{Fault, is_default};

/// Makes a workload reachable from outside. See [`Scheduler::expose`](crate::Scheduler::expose).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Expose {
    /// The workload that the routes belong to. It must be there.
    pub target: Target,
    /// All of its routes: those that it had before and that are not in the list go.
    pub routes: Vec<Route>,
    /// A workload of ours, in the same namespace, from which it may take those of the routes that it has.
    /// See [`taking_from`](Self::taking_from).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Target>,
    /// Under which condition; [`Guard::IfAbsent`] and [`Guard::Adopt`] make no sense here and are refused.
    #[serde(default)]
    pub guard: Guard,
    /// What the call carries.
    #[serde(default, skip_serializing_if = "CallOptions::is_default")]
    pub call: CallOptions,
}

/// Requests for this host and path go to these ports.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Route {
    /// The host name; its first part may be `*`.
    pub host: String,
    /// The start of the path, in whole parts: `/api` takes `/api` and `/api/x`, and not `/apix`.
    #[serde(default = "root", skip_serializing_if = "is_root")]
    pub path: String,
    /// Where requests go; to several by weight, where the backend can.
    pub backends: Vec<RouteBackend>,
}

fn root() -> String {
    "/".to_owned()
}

fn is_root(path: &String) -> bool {
    path == "/"
}

/// A port of a workload, with its share of the requests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RouteBackend {
    /// The workload; that of the operation if absent, otherwise one of the same namespace.
    #[serde(default, skip_serializing_if = "is_default")]
    pub target: Option<Target>,
    /// The name of one of its TCP ports.
    pub port: String,
    /// Its share, relative to the sum of all.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub weight: u32,
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one(n: &u32) -> bool {
    *n == 1
}

impl Route {
    /// All paths of this host go to this port of the workload.
    pub fn new(host: impl Into<String>, port: impl Into<String>) -> Self {
        Self { host: host.into(), path: root(), backends: vec![RouteBackend::new(port)] }
    }

    /// Sets the start of the path.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// Whether the other one is for the same requests: its host is the same, and its path but for a slash at the end, which
    /// means nothing to the start of a path. Two workloads cannot both have such routes.
    #[must_use]
    pub fn is_for_same_requests(&self, other: &Self) -> bool {
        self.place() == other.place()
    }

    /// What no other route may have.
    fn place(&self) -> (&str, &str) {
        (&self.host, self.path.trim_end_matches('/'))
    }

    /// Sets where requests go.
    #[must_use]
    pub fn backends(mut self, backends: impl IntoIterator<Item = RouteBackend>) -> Self {
        self.backends = backends.into_iter().collect();
        self
    }
}

impl RouteBackend {
    /// This port of the operation's workload.
    pub fn new(port: impl Into<String>) -> Self {
        Self { target: None, port: port.into(), weight: 1 }
    }

    /// This port of another workload.
    pub fn of(target: Target, port: impl Into<String>) -> Self {
        Self { target: Some(target), ..Self::new(port) }
    }

    /// Sets its share.
    #[must_use]
    pub fn weight(mut self, weight: u32) -> Self {
        self.weight = weight;
        self
    }
}

impl Expose {
    /// These routes and no others, under [`Guard::IfOwned`].
    pub fn new(target: Target, routes: impl IntoIterator<Item = Route>) -> Self {
        let routes = routes.into_iter().collect();
        Self { target, routes, from: None, guard: Guard::IfOwned, call: CallOptions::default() }
    }

    /// Lets it take over those of the routes that this workload has: how a release that was launched beside the last one
    /// gets its requests.
    ///
    /// ```
    /// use scheduler_core::{Expose, Route, Target};
    ///
    /// let (old, new) = (Target::new("shop", "web--1")?, Target::new("shop", "web--2")?);
    /// let op = Expose::new(new, [Route::new("shop.example", "http")]).taking_from(old);
    /// assert!(op.check().is_ok());
    /// # Ok::<(), scheduler_core::NameError>(())
    /// ```
    ///
    /// The new routes are written first, and then the same ones are taken from the old workload, which keeps its others. So
    /// there is no moment in which nobody has a route; for a short time both have it, and the router chooses. A workload that
    /// is not there, or has none of the routes, is fine: nothing is taken, as when the operation is repeated. What was cut
    /// off in between is completed by the repetition.
    ///
    /// It must be ours, in the same namespace, and not the target itself. A route that any other workload has is taken
    /// ([`RouteTaken`](crate::Conflict::RouteTaken)) all the same.
    #[must_use]
    pub fn taking_from(mut self, old: Target) -> Self {
        self.from = Some(old);
        self
    }

    /// Those of its routes that are for the same requests as one of these: what the workload that has them must not have, or
    /// is to lose.
    #[must_use]
    pub fn routes_among(&self, had: &[Route]) -> Vec<Route> {
        let is_had = |route: &&Route| had.iter().any(|old| old.is_for_same_requests(route));
        self.routes.iter().filter(is_had).cloned().collect()
    }

    /// Checks what can be known without a server. Backends call it before they send anything.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) with every fault.
    pub fn check(&self) -> Result<(), Error> {
        let mut faults = Vec::new();
        let mut add = |path: String, problem: String| faults.push(Fault::new(path, problem));
        if self.routes.is_empty() {
            add("routes".into(), "there is none; unexpose takes all away".into());
        }
        match &self.from {
            Some(from) if *from == self.target => add("from".into(), "is the workload itself".into()),
            Some(from) if from.namespace != self.target.namespace => {
                add("from".into(), format!("is not in the namespace {}", self.target.namespace));
            }
            _ => {}
        }
        let mut seen = BTreeSet::new();
        for (i, route) in self.routes.iter().enumerate() {
            let at = format!("routes[{i}]");
            if let Err(problem) = check_host(&route.host) {
                add(format!("{at}.host"), problem.to_string());
            }
            // What routers treat alike: no query, no blanks, no characters with a meaning in their rules.
            let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.' | '~' | '%');
            let parts_fine =
                !route.path.contains("//") && !route.path.split('/').any(|part| part == "." || part == "..");
            if !route.path.starts_with('/') || !route.path.chars().all(fine) || !parts_fine {
                add(
                    format!("{at}.path"),
                    format!(
                        "{:?} is no path: it starts with / and has letters, digits, and - _ . ~ % between single slashes",
                        route.path
                    ),
                );
            }
            if !seen.insert(route.place()) {
                add(
                    at.clone(),
                    format!("another route has the host {} and the path {} already", route.host, route.path),
                );
            }
            if route.backends.is_empty() {
                add(format!("{at}.backends"), "there is none".into());
            } else if route.backends.iter().all(|backend| backend.weight == 0) {
                add(format!("{at}.backends"), "all weights are zero".into());
            }
            for (j, backend) in route.backends.iter().enumerate() {
                if backend.target.as_ref().is_some_and(|target| target.namespace != self.target.namespace) {
                    add(
                        format!("{at}.backends[{j}].target"),
                        format!("is not in the namespace {}", self.target.namespace),
                    );
                }
                if backend.weight > MOST_WEIGHT {
                    add(format!("{at}.backends[{j}].weight"), format!("is above {MOST_WEIGHT}"));
                }
            }
        }
        if faults.is_empty() {
            return Ok(());
        }
        Err(Error::invalid_argument("routes").with_causes(faults))
    }
}

/// The most that the Gateway API of Kubernetes takes as a weight.
const MOST_WEIGHT: u32 = 1_000_000;

/// The routes are there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Exposed {
    /// Whether anything was written. Otherwise they were there.
    pub changed: bool,
    /// Those of the routes that this call took from [the other workload](Expose::from).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taken: Vec<Route>,
    /// Where the router takes requests, as far as the platform tells; empty also while it has not told yet.
    pub addresses: Vec<String>,
    /// What the backend wants known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Exposed {
    /// Whether anything was written.
    #[must_use]
    pub fn new(changed: bool) -> Self {
        Self { changed, taken: Vec::new(), addresses: Vec::new(), warnings: Vec::new() }
    }
}

/// Takes all routes of a workload away. See [`Scheduler::unexpose`](crate::Scheduler::unexpose).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Unexpose {
    /// Of which workload.
    pub target: Target,
    /// What the call carries.
    #[serde(default, skip_serializing_if = "CallOptions::is_default")]
    pub call: CallOptions,
}

impl Unexpose {
    /// Takes the routes of this workload away.
    #[must_use]
    pub fn new(target: Target) -> Self {
        Self { target, call: CallOptions::default() }
    }
}

/// No route of the workload is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Unexposed {
    /// This call took them away.
    Gone,
    /// There was none.
    WasAbsent,
}

/// Asks for the addresses at which a workload can be reached within the platform. See
/// [`Scheduler::endpoints`](crate::Scheduler::endpoints).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Endpoints {
    /// Of which workload.
    pub target: Target,
    /// The name of one of its ports; all ports if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// What the call carries.
    #[serde(default, skip_serializing_if = "CallOptions::is_default")]
    pub call: CallOptions,
}

impl Endpoints {
    /// Those of all ports of this workload.
    #[must_use]
    pub fn new(target: Target) -> Self {
        Self { target, port: None, call: CallOptions::default() }
    }

    /// Only those of this port.
    #[must_use]
    pub fn port(mut self, port: impl Into<String>) -> Self {
        self.port = Some(port.into());
        self
    }
}

/// The addresses of the instances that are ready and not on their way out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ReadyEndpoints {
    /// In order. None also if the workload is not there.
    pub endpoints: Vec<Endpoint>,
}

impl ReadyEndpoints {
    /// These endpoints, put in order.
    #[must_use]
    pub fn new(mut endpoints: Vec<Endpoint>) -> Self {
        endpoints.sort();
        endpoints.dedup();
        Self { endpoints }
    }
}

/// A port of an instance that is ready.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Endpoint {
    /// The instance's id.
    pub instance: String,
    /// The port's name.
    pub port: String,
    /// Its address: an IP address, or a host name.
    pub address: String,
    /// Its number at that address.
    pub number: u16,
}

impl Endpoint {
    /// A port of an instance.
    pub fn new(instance: impl Into<String>, port: impl Into<String>, address: impl Into<String>, number: u16) -> Self {
        Self { instance: instance.into(), port: port.into(), address: address.into(), number }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_of_routes_is_named_at_once() {
        let target = Target::new("shop", "web").unwrap();
        let other = RouteBackend::of(Target::new("bank", "web").unwrap(), "http");
        let paths = |routes: Vec<Route>| match Expose::new(target.clone(), routes).check() {
            Ok(()) => vec![],
            Err(error) => error.causes().iter().map(|fault| fault.path.clone()).collect::<Vec<_>>(),
        };
        let fine = Route::new("shop.example", "http");
        assert_eq!(paths(vec![fine.clone(), Route::new("*.shop.example", "http").path("/a/b")]), [""; 0]);
        assert_eq!(paths(vec![]), ["routes"]);
        assert_eq!(paths(vec![fine.clone(), fine.clone()]), ["routes[1]"]);
        assert_eq!(paths(vec![fine.clone().path("/a"), fine.clone().path("/a/")]), ["routes[1]"]);
        assert_eq!(
            paths(vec![Route::new("shop", "http"), Route::new("a.*.b", "http")]),
            ["routes[0].host", "routes[1].host"]
        );
        for path in ["a", "/a//b", "/a/../b", "/a b", "/a`) || Host(`x", "/?a"] {
            assert_eq!(paths(vec![fine.clone().path(path)]), ["routes[0].path"], "{path}");
        }
        assert_eq!(paths(vec![fine.clone().backends([])]), ["routes[0].backends"]);
        assert_eq!(paths(vec![fine.clone().backends([RouteBackend::new("http").weight(0)])]), ["routes[0].backends"]);
        assert_eq!(
            paths(vec![fine.backends([other.weight(2_000_000)])]),
            ["routes[0].backends[0].target", "routes[0].backends[0].weight"]
        );
    }

    #[test]
    fn routes_are_taken_from_another_workload_of_the_namespace() {
        let web = || Target::new("shop", "web").unwrap();
        let is_fault = |from: Target| {
            let checked = Expose::new(web(), [Route::new("shop.example", "http")]).taking_from(from).check();
            checked.is_err_and(|error| error.causes().iter().any(|fault| fault.path == "from"))
        };
        assert!(!is_fault(Target::new("shop", "old").unwrap()));
        assert!(is_fault(web()));
        assert!(is_fault(Target::new("bank", "old").unwrap()));
    }
}
