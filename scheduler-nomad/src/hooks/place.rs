//! Reading and writing what stands around one app, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use scheduler_core::hooks::{App, AppName, Domain, HookError, Outcome, Validation};
use scheduler_core::{BackendName, Conflict, Error, ErrorKind, Fault, Memory, Missing, OwnerId, Route};
use scheduler_nomad_client::model::{HostVolume, Namespace, NewHostVolume, Secret, Variable};
use scheduler_nomad_client::{self as client, ListOptions, Query, VariableCondition};

use super::NomadHooks;
use crate::error::{lost_a_race, translate};
use crate::{NomadScheduler, meta, routes};

pub(super) type Result<T> = std::result::Result<T, HookError>;

/// In the `Meta` of a namespace: whose the app is.
const TENANT: &str = "scheduler/tenant";
/// The item that says whose a variable is.
const OWNER: &str = "scheduler.owner";
/// How often a compare-and-set is tried.
const ATTEMPTS: u32 = 5;
/// How long until a volume that is in use is looked at again.
const LOOK: Duration = Duration::from_secs(5);

/// The variable that holds a certificate of an app: for the policy and the template of whoever ends TLS.
///
/// ```
/// use scheduler_core::hooks::AppName;
/// let shop = AppName::new("shop")?;
/// assert_eq!(scheduler_nomad::certificate_variable(&shop, "shop-example"), "scheduler/certificates/shop/shop-example");
/// # Ok::<(), scheduler_core::NameError>(())
/// ```
#[must_use]
pub fn certificate_variable(app: &AppName, certificate: &str) -> String {
    format!("scheduler/certificates/{app}/{certificate}")
}

/// Where an app lives, for one hook.
pub(super) struct Place<'a> {
    pub(super) app: &'a App,
    /// What the set was built with.
    pub(super) hooks: &'a NomadHooks,
    /// The set's, for this hook alone: it notes whether anything was changed.
    pub(super) scheduler: NomadScheduler,
}

impl Place<'_> {
    fn namespace(&self) -> &str {
        self.app.namespace.as_str()
    }

    async fn query<T>(&self, query: &Query<T>) -> Result<T> {
        self.scheduler.query(query).await.map_err(|error| self.failed(error))
    }

    fn client_failed(&self, error: &client::Error) -> HookError {
        self.failed(translate(error))
    }

    /// The failure of the hook.
    fn failed(&self, error: Error) -> HookError {
        let error = self.scheduler.client.judge(error).with_backend(&BackendName::nomad());
        // The namespace is on its way: another hook or an operator sees to it.
        let passing = *error.kind() == ErrorKind::NotFound(Missing::Namespace);
        let mut failed = HookError::from(error);
        failed.retry |= passing;
        failed
    }

    // ---- all of it ----

    pub(super) async fn ensure_all(&self) -> Result<Outcome> {
        let mut changed = self.ensure_tenant().await?;
        for certificate in self.attached() {
            changed |= self.ensure_certificate(certificate).await?;
        }
        changed |= self.ensure_volumes(None).await?;
        Ok(Outcome::of(changed))
    }

    /// Takes away what can go. What is still used goes when this is told again.
    pub(super) async fn remove_surroundings(&self) -> Result<bool> {
        let mut changed = self.remove_certificates(|_| true).await?;
        if self.app.volumes.is_empty() || self.ours().await?.is_none() {
            return Ok(changed);
        }
        for volume in self.volumes().await? {
            if self.app.volumes.contains_key(&volume.name) {
                changed |= self.delete(&volume).await? == Freed::Now;
            }
        }
        Ok(changed)
    }

    // ---- the namespace ----

    /// The namespace, if it is ours.
    async fn ours(&self) -> Result<Option<Namespace>> {
        let found = self.query(&Query::namespace(self.namespace())).await?;
        Ok(found.filter(|found| meta::owner_of(&found.meta).as_ref() == Some(self.scheduler.owner())))
    }

    /// Writes whose the app is into a namespace of ours. The server has no condition for it: two at once leave what was
    /// written last.
    pub(super) async fn ensure_tenant(&self) -> Result<bool> {
        let Some(mut namespace) = self.ours().await? else { return Ok(false) };
        if namespace.meta.get(TENANT) == self.app.tenant.as_ref() {
            return Ok(false);
        }
        match &self.app.tenant {
            Some(tenant) => namespace.meta.insert(TENANT.to_owned(), tenant.clone()),
            None => namespace.meta.remove(TENANT),
        };
        self.scheduler.client.put_namespace(&namespace).await.map_err(|error| self.client_failed(&error))?;
        Ok(true)
    }

    pub(super) async fn validate_namespace(&self) -> Result<Validation> {
        let name = self.namespace();
        let Some(found) = self.query(&Query::namespace(name)).await? else { return Ok(Validation::Accepted) };
        let whose = match meta::owner_of(&found.meta) {
            Some(owner) if owner == *self.scheduler.owner() => return Ok(Validation::Accepted),
            Some(owner) => format!("belongs to {owner}"),
            None => "has no mark of an owner".to_owned(),
        };
        let problem = format!("the namespace {name} {whose}; choose another one");
        Ok(Validation::Vetoed(vec![Fault::new("namespace", problem)]))
    }

    // ---- certificates ----

    /// The certificates that a domain has.
    pub(super) fn attached(&self) -> BTreeSet<&str> {
        self.app.domains.iter().filter_map(|domain| domain.certificate.as_deref()).collect()
    }

    /// Stores a certificate with its key. Answers whether anything was written.
    pub(super) async fn ensure_certificate(&self, name: &str) -> Result<bool> {
        let app = &self.app.name;
        let Some(certificate) = self.app.certificates.get(name) else {
            return Err(HookError::permanent(format!("the app {app} has no certificate {name:?}")));
        };
        let key = self.hooks.secrets.get(&certificate.key).await;
        let key = key.map_err(|error| error.context(format_args!("the key of the certificate {name} of {app}")))?;
        let items = BTreeMap::from([
            (OWNER.to_owned(), Secret::new(self.scheduler.owner().as_str())),
            ("certificate".to_owned(), Secret::new(certificate.chain.as_str())),
            ("key".to_owned(), Secret::new(key.expose())),
        ]);
        let mut wanted = Variable::new(self.namespace(), certificate_variable(app, name));
        wanted.items = items;
        let mut attempt = 1;
        loop {
            let live = self.query(&Query::variable(self.namespace(), &wanted.path)).await?;
            let condition = match &live {
                Some(live) if live.items == wanted.items => return Ok(false),
                Some(live) => {
                    self.refuse_foreign(live)?;
                    VariableCondition::Unchanged { modify_index: live.modify_index }
                }
                // The server takes variables for namespaces that it does not have.
                None if self.query(&Query::namespace(self.namespace())).await?.is_none() => {
                    return Err(self.failed(Error::new(
                        ErrorKind::NotFound(Missing::Namespace),
                        format!("there is no namespace {} for the certificate {name}", self.namespace()),
                    )));
                }
                None => VariableCondition::Absent,
            };
            match self.scheduler.client.put_variable(&wanted, condition).await {
                Ok(_) => return Ok(true),
                Err(error) if lost_a_race(&error) && attempt < ATTEMPTS => attempt += 1,
                Err(error) => return Err(self.client_failed(&error)),
            }
        }
    }

    fn refuse_foreign(&self, variable: &Variable) -> Result<()> {
        let owner = variable.items.get(OWNER).and_then(|owner| OwnerId::new(owner.expose()).ok());
        if owner.as_ref() == Some(self.scheduler.owner()) {
            return Ok(());
        }
        let words = format!("the variable {}/{} is not this platform's", variable.namespace, variable.path);
        Err(self.failed(Error::new(ErrorKind::Conflict(Conflict::Owner { owner }), words)))
    }

    /// Takes the variable of a certificate away, if it is there and ours.
    pub(super) async fn remove_certificate(&self, path: &str) -> Result<bool> {
        let mut attempt = 1;
        loop {
            let Some(live) = self.query(&Query::variable(self.namespace(), path)).await? else { return Ok(false) };
            self.refuse_foreign(&live)?;
            match self.scheduler.client.delete_variable(self.namespace(), path, live.modify_index).await {
                Ok(()) => return Ok(true),
                Err(error) if lost_a_race(&error) && attempt < ATTEMPTS => attempt += 1,
                Err(error) => return Err(self.client_failed(&error)),
            }
        }
    }

    async fn remove_certificates(&self, which: impl Fn(&str) -> bool) -> Result<bool> {
        let start = certificate_variable(&self.app.name, "");
        let mut changed = false;
        for stub in self.query(&Query::variables(self.namespace(), &start)).await? {
            if stub.path.strip_prefix(&start).is_some_and(&which) {
                changed |= self.remove_certificate(&stub.path).await?;
            }
        }
        Ok(changed)
    }

    /// Takes away the certificates that no domain has.
    pub(super) async fn sweep_certificates(&self) -> Result<bool> {
        let attached = self.attached();
        self.remove_certificates(|name| !attached.contains(name)).await
    }

    // ---- domains ----

    /// Looks for a job of another app with the same host.
    pub(super) async fn validate_domain(&self, domain: &Domain) -> Result<Validation> {
        let claim = routes::claim(&Route::new(&domain.host, ""));
        if claim.contains('"') {
            let problem = format!("{:?} is not a host name", domain.host);
            return Ok(Validation::Vetoed(vec![Fault::new("host", problem)]));
        }
        let filter = format!("any TaskGroups as g {{ any g.Services as s {{ \"{claim}\" in s.Tags }} }}");
        let options = ListOptions::new().filter(filter).meta();
        let found = self.scheduler.client.list_jobs("*", &options).await;
        let found = found.map_err(|error| self.client_failed(&error))?.value;
        let own = |job: &client::model::JobStub| {
            job.namespace == self.namespace() && meta::owner_of(&job.meta).as_ref() == Some(self.scheduler.owner())
        };
        let Some(taken) = found.iter().find(|job| !job.stop && !own(job)) else { return Ok(Validation::Accepted) };
        let problem = format!("the job {}/{} has the host {} already", taken.namespace, taken.id, domain.host);
        Ok(Validation::Vetoed(vec![Fault::new("host", problem)]))
    }

    // ---- volumes ----

    async fn volumes(&self) -> Result<Vec<HostVolume>> {
        self.query(&Query::host_volumes(self.namespace())).await
    }

    /// Makes the volumes that are not there: all, or this one. Answers whether any was made.
    pub(super) async fn ensure_volumes(&self, only: Option<&str>) -> Result<bool> {
        if let Some(name) = only
            && !self.app.volumes.contains_key(name)
        {
            return Err(HookError::permanent(format!("the app {} has no volume {name:?}", self.app.name)));
        }
        let wanted = self.app.volumes.iter().filter(|(name, _)| only.is_none_or(|only| only == *name));
        let wanted: Vec<_> = wanted.collect();
        if wanted.is_empty() {
            return Ok(false);
        }
        let there: BTreeSet<String> = self.volumes().await?.into_iter().map(|volume| volume.name).collect();
        let mut changed = false;
        for (name, volume) in wanted.into_iter().filter(|(name, _)| !there.contains(*name)) {
            let size: Memory = volume.size.parse().map_err(|error| {
                HookError::permanent(format!("the size of the volume {name} of {}: {error}", self.app.name))
            })?;
            let plugin = volume.class.as_deref().unwrap_or(&self.hooks.plugin);
            let made = NewHostVolume::new(name, plugin, size.bytes());
            let made = self.scheduler.client.create_host_volume(self.namespace(), &made).await;
            made.map_err(|error| self.client_failed(&error).context(format_args!("the volume {name}")))?;
            changed = true;
        }
        Ok(changed)
    }

    pub(super) fn validate_volume(&self, name: &str) -> Validation {
        let at = format!("volumes.{name}");
        let Some(volume) = self.app.volumes.get(name) else {
            return Validation::Vetoed(vec![Fault::new(at, "the app has no volume of this name")]);
        };
        match volume.size.parse::<Memory>() {
            Ok(_) => Validation::Accepted,
            Err(problem) => Validation::Vetoed(vec![Fault::new(format!("{at}.size"), problem.to_string())]),
        }
    }

    /// Deletes all volumes of a name.
    pub(super) async fn delete_volume(&self, name: &str) -> Result<Outcome> {
        let found: Vec<_> = self.volumes().await?.into_iter().filter(|volume| volume.name == name).collect();
        if found.is_empty() {
            return Ok(Outcome::AlreadyInState);
        }
        if self.ours().await?.is_none() {
            let reason = format!("the namespace {} is not ours, and so may be the volume {name}", self.namespace());
            return Err(HookError::permanent(format!("{reason}; delete it by hand")));
        }
        let mut done = Outcome::AlreadyInState;
        for volume in &found {
            done = done.and(match self.delete(volume).await? {
                Freed::Now => Outcome::Applied,
                Freed::Before => Outcome::AlreadyInState,
                Freed::Used => {
                    Outcome::Deferred { after: LOOK, reason: format!("allocations still use the volume {name}") }
                }
            });
        }
        Ok(done)
    }

    async fn delete(&self, volume: &HostVolume) -> Result<Freed> {
        match self.scheduler.client.delete_host_volume(self.namespace(), &volume.id).await {
            Ok(()) => Ok(Freed::Now),
            Err(error) if error.kind() == client::ErrorKind::NotFound(client::Missing::Object) => Ok(Freed::Before),
            Err(error) if error.kind() == client::ErrorKind::Precondition => Ok(Freed::Used),
            Err(error) => Err(self.client_failed(&error)),
        }
    }
}

/// What became of a volume.
#[derive(PartialEq)]
enum Freed {
    Now,
    Before,
    Used,
}
