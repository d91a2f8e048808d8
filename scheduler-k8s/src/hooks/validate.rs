//! What is looked at before a change is committed.

use scheduler_core::hooks::{App, Domain, Validation};
use scheduler_core::{Fault, Route, Workload};
use scheduler_k8s_client::{ErrorKind as ClientErrorKind, ListOptions, Resource};
use serde_json::Value;

#[cfg(feature = "rustls-tls")]
use super::pem;
use super::place::{Place, Result};
use crate::error::translate;
use crate::interpreter::{namespace, route};
use crate::labels;

pub(super) fn verdict(faults: Vec<Fault>) -> Validation {
    if faults.is_empty() { Validation::Accepted } else { Validation::Vetoed(faults) }
}

impl Place<'_> {
    pub(super) async fn validate_namespace(&self) -> Result<Validation> {
        let name = self.app.namespace.as_str();
        let found = self.get(&Resource::NAMESPACE, name).await?;
        let problem = found.and_then(|found| {
            if namespace::is_terminating(&found) {
                return Some(format!("the namespace {name} is being deleted; wait until it is gone"));
            }
            if self.scheduler.is_ours(&found) {
                return None;
            }
            let whose = match labels::owner_of(&found) {
                Some(owner) => format!("belongs to {owner}"),
                None => "has no mark of an owner".to_owned(),
            };
            Some(format!("the namespace {name} {whose}; choose another one"))
        });
        Ok(verdict(problem.into_iter().map(|problem| Fault::new("namespace", problem)).collect()))
    }

    /// Looks for an Ingress of another workload, ours or not, with the same host, which the same router may read.
    pub(super) async fn validate_domain(&self, domain: &Domain) -> Result<Validation> {
        let list = async |namespace: Option<&str>| {
            self.scheduler.client.list::<Value>(&Resource::INGRESS, namespace, &ListOptions::new()).await
        };
        let mut found = list(None).await;
        // What may not be seen is found by the expose, if at all.
        if found.as_ref().is_err_and(|error| error.kind() == ClientErrorKind::Forbidden) {
            found = list(Some(self.app.namespace.as_str())).await;
        }
        let found = found.map_err(|error| self.failed(translate(&error)))?;
        let wanted = Route::new(&domain.host, "");
        let own = |ingress: &Value| {
            ingress["metadata"]["namespace"] == self.app.namespace.as_str() && self.scheduler.is_ours(ingress)
        };
        let taken = found.items.iter().filter(|ingress| !own(ingress)).find(|ingress| {
            route::shares_router(&self.scheduler, ingress)
                && route::routes_of(ingress).iter().any(|route| route.is_for_same_requests(&wanted))
        });
        let fault = taken.map(|ingress| {
            let text = |field: &str| ingress["metadata"][field].as_str().unwrap_or_default();
            let by = format!("{}/{}", text("namespace"), text("name"));
            Fault::new("host", format!("the Ingress {by} has the host {} already", domain.host))
        });
        Ok(verdict(fault.into_iter().collect()))
    }
}

#[cfg(feature = "rustls-tls")]
impl Place<'_> {
    pub(super) async fn validate_certificate(&self, name: &str) -> Result<Validation> {
        let at = format!("certificates.{name}");
        let Some(certificate) = self.app.certificates.get(name) else {
            return Ok(Validation::Vetoed(vec![Fault::new(at, "the app has no certificate of this name")]));
        };
        let fault = match pem::chain(&certificate.chain) {
            Err(problem) => Some(Fault::new(format!("{at}.chain"), problem)),
            Ok(chain) => {
                let key = self.hooks.secrets.get(&certificate.key).await;
                let key = key.map_err(|error| error.context(format_args!("the key of the certificate {name}")))?;
                pem::key(chain, &key).err().map(|problem| Fault::new(format!("{at}.key"), problem))
            }
        };
        Ok(verdict(fault.into_iter().collect()))
    }
}

/// Under a quota of processor time or memory the server refuses Pods whose containers have no bound of it.
pub(super) fn validate_bounds(app: &App) -> Validation {
    let quota = &app.policy.quota;
    let mut faults = Vec::new();
    let mut check = |at: &str, workload: &Workload| {
        for (i, container) in workload.containers.iter().enumerate() {
            let bounds = &container.resources;
            for (name, bound, limit) in
                [("cpu", &quota.cpu, &bounds.cpu.limit), ("memory", &quota.memory, &bounds.memory.limit)]
            {
                if bound.is_some() && limit.is_none() {
                    let at = format!("release.{at}.containers[{i}].resources.{name}.limit");
                    faults.push(Fault::new(at, format!("is needed, as the app has a quota of {name}")));
                }
            }
        }
    };
    if let Some(release) = &app.release {
        for (i, workload) in release.processes.iter().enumerate() {
            check(&format!("processes[{i}]"), workload);
        }
        for (i, job) in release.before.iter().enumerate() {
            check(&format!("before[{i}]"), job);
        }
    }
    verdict(faults)
}

#[cfg(test)]
mod tests {
    use scheduler_core::hooks::{AppName, Release};
    use scheduler_core::{Container, Namespace};

    use super::*;

    #[test]
    fn a_quota_wants_a_bound_of_each_container() {
        let web = Workload::service("shop", "web")
            .container(Container::new("web", "web:1").cpu("1", "1"))
            .container(Container::new("side", "side:1").cpu("1", "1").memory("1Gi", "1Gi"));
        let mut app = App::new(AppName::new("shop").unwrap(), Namespace::new("shop").unwrap());
        let mut release = Release::new(1, vec![web]);
        release.before = vec![Workload::job("shop", "migrate").container(Container::new("migrate", "web:1"))];
        app.release = Some(release);
        assert_eq!(validate_bounds(&app), Validation::Accepted);
        app.policy.quota.memory = Some("4Gi".to_owned());
        app.policy.quota.instances = Some(3);
        let Validation::Vetoed(faults) = validate_bounds(&app) else { panic!("it is not accepted") };
        let paths: Vec<_> = faults.iter().map(|fault| fault.path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "release.processes[0].containers[0].resources.memory.limit",
                "release.before[0].containers[0].resources.memory.limit",
            ]
        );
    }
}
