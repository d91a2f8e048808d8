//! The client and its reads.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use http::Method;

use crate::connect::ConnectOptions;
use crate::error::{Effect, Error, ErrorKind, Missing, Operation};
use crate::model::JobStub;
use crate::query::{ListOptions, Query};
use crate::target::Target;
use crate::transport::{Call, Limit, Meta, Transport};

/// Jobs per page.
const DEFAULT_PAGE_SIZE: u32 = 500;

/// A connection to one Nomad agent. Cheap to clone.
///
/// Every method sends exactly the requests that its documentation counts: nothing is repeated, no task of this crate runs
/// on its own. (The connection pool below may put a request on a fresh connection when it finds, before writing it, that a
/// pooled one is dead, and each pooled connection has a task.) All futures can be dropped at any time; what a dropped write
/// did is unknown.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    transport: Transport,
    namespace: String,
    version: Option<ServerVersion>,
}

/// The version of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerVersion {
    /// The first number.
    pub major: u32,
    /// The second.
    pub minor: u32,
    /// The third.
    pub patch: u32,
    /// The whole, such as `2.0.6-dev`.
    pub text: String,
}

/// An answer, with what its headers say.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Answer<T> {
    /// What was asked for.
    pub value: T,
    /// What the headers say.
    pub meta: Meta,
}

impl Client {
    /// Connects, and asks the agent for its version once. Cost: one request, `GET /v1/agent/self`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Configuration`] before anything is sent; otherwise what the request met. That the token may not read
    /// the agent is no error: the version is not known then.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime with time and I/O enabled, like everything in tokio.
    pub async fn connect(options: ConnectOptions) -> Result<Self, Error> {
        let (transport, namespace) = options.into_parts()?;
        let mut inner = Inner { transport, namespace, version: None };
        match inner.query(&Query::agent()).await {
            Ok(answer) => {
                inner.version = answer.value.member.tags.get("build").and_then(|text| ServerVersion::parse(text));
            }
            Err(error) if error.kind() == ErrorKind::Forbidden => {}
            Err(error) => return Err(error),
        }
        Ok(Self(Arc::new(inner)))
    }

    /// The version that the agent told when we connected; `None` if the token may not read it. Other servers of the
    /// cluster may have another.
    #[must_use]
    pub fn server_version(&self) -> Option<&ServerVersion> {
        self.0.version.as_ref()
    }

    /// The namespace that the options name, `default` unless they do. No request uses it by itself.
    #[must_use]
    pub fn default_namespace(&self) -> &str {
        &self.0.namespace
    }

    /// Reads. Cost: one request.
    ///
    /// # Errors
    ///
    /// What the request met. [`ErrorKind::InvalidRequest`] if the query has an argument that cannot be.
    pub async fn query<T>(&self, query: &Query<T>) -> Result<Answer<T>, Error> {
        self.0.query(query).await
    }

    /// Reads all jobs of a namespace, or of all (`*`), page by page. Cost: one request per page.
    ///
    /// It is no snapshot: what changes between two pages may be missing. A job that a page repeats, as servers before
    /// 1.10.2 do, is there once. The index of the answer is that of the first page, so following from there misses
    /// nothing.
    ///
    /// # Errors
    ///
    /// What a request met; nothing of a list that failed half-way is returned. A namespace that does not exist has an
    /// empty list.
    pub async fn list_jobs(&self, namespace: &str, options: &ListOptions) -> Result<Answer<Vec<JobStub>>, Error> {
        let size = options.page_size.unwrap_or(DEFAULT_PAGE_SIZE);
        let mut seen = BTreeSet::new();
        let mut jobs = Vec::new();
        let mut first: Option<Meta> = None;
        let mut token: Option<String> = None;
        loop {
            let page = self.query(&Query::jobs_page(namespace, options, Some(size), token.as_deref())).await?;
            jobs.extend(page.value.into_iter().filter(|job| seen.insert((job.namespace.clone(), job.id.clone()))));
            let next = page.meta.next_token.clone();
            let meta = first.get_or_insert(page.meta);
            // A token that stays would never end.
            if next.is_none() || next == token {
                return Ok(Answer { value: jobs, meta: Meta { next_token: None, ..meta.clone() } });
            }
            token = next;
        }
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.0.transport
    }

    /// One blocking query after this index, or an ordinary one.
    pub(crate) async fn query_after<T>(&self, query: &Query<T>, index: Option<u64>) -> Result<Answer<T>, Error> {
        let target = target_of(query)?;
        let Some(index) = index else {
            return self.0.send(query, target, Limit::Total).await;
        };
        let wait = format!("{}ms", self.0.transport.limits.wait.as_millis());
        let target = target.param("index", index.to_string()).param("wait", wait);
        self.0.send(query, target, Limit::Blocking).await
    }
}

impl Inner {
    async fn query<T>(&self, query: &Query<T>) -> Result<Answer<T>, Error> {
        self.send(query, target_of(query)?, Limit::Total).await
    }

    async fn send<T>(&self, query: &Query<T>, target: Target, limit: Limit) -> Result<Answer<T>, Error> {
        let operation = query.operation.clone();
        let call = Call { operation: operation.clone(), method: Method::GET, target, body: None, limit };
        match self.transport.exchange(call).await {
            Ok(received) => {
                let value = received.decode(&operation, query.decode)?;
                Ok(Answer { value, meta: received.meta })
            }
            Err(error) => match query.absent {
                Some(absent) if error.kind() == ErrorKind::NotFound(Missing::Object) => {
                    Ok(Answer { value: absent(), meta: error.meta().clone() })
                }
                _ => Err(error),
            },
        }
    }
}

fn target_of<T>(query: &Query<T>) -> Result<Target, Error> {
    query.target.clone().map_err(|why| invalid(&query.operation, why))
}

pub(crate) fn invalid(operation: &Operation, why: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidRequest, Effect::NotSent, operation.clone(), why)
}

impl ServerVersion {
    fn parse(text: &str) -> Option<Self> {
        let numbers = text.split(['-', '+']).next()?;
        let mut numbers = numbers.split('.').map(|number| number.parse().ok());
        let (major, minor, patch) = (numbers.next()??, numbers.next()??, numbers.next()??);
        Some(Self { major, minor, patch, text: text.to_owned() })
    }

    /// Whether it is this version or a later one. A pre-release counts as the release.
    #[must_use]
    pub fn is_at_least(&self, major: u32, minor: u32, patch: u32) -> bool {
        (self.major, self.minor, self.patch) >= (major, minor, patch)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("server", &self.0.transport.server)
            .field("namespace", &self.0.namespace)
            .field("region", &self.0.transport.region)
            .field("version", &self.0.version)
            .field("limits", &self.0.transport.limits)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let version = ServerVersion::parse("2.0.6-dev").unwrap();
        assert_eq!((version.major, version.minor, version.patch), (2, 0, 6));
        assert!(version.is_at_least(2, 0, 6) && version.is_at_least(1, 11, 9) && !version.is_at_least(2, 1, 0));
        assert_eq!(ServerVersion::parse("1.6.3+ent").unwrap().patch, 3);
        for text in ["", "2", "2.0", "v2.0.1", "2.0.x"] {
            assert_eq!(ServerVersion::parse(text), None, "{text}");
        }
    }
}
