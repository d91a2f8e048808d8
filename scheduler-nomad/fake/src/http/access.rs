//! Who asks, and what they may do.

use http::HeaderMap;

use crate::{
    Access,
    cluster::{Refusal, State},
};

/// The rights of a request.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// None without access control, where everybody may do everything.
    access: Option<Access>,
    /// The accessor of the token, which a job keeps.
    pub(crate) accessor: String,
}

/// What a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    Read,
    Write,
    Management,
}

impl Caller {
    pub(crate) fn of(headers: &HeaderMap, state: &State) -> Self {
        if !state.acl {
            return Self { access: None, accessor: String::new() };
        }
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
        let bearer = || {
            let (scheme, secret) = text("authorization")?.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim())
        };
        let secret = text("x-nomad-token").filter(|secret| !secret.is_empty()).or_else(bearer);
        let token = secret.and_then(|secret| state.tokens.iter().find(|token| token.secret == secret));
        match token {
            Some(token) => Self { access: Some(token.access.clone()), accessor: token.accessor.clone() },
            None => Self { access: Some(Access::Nothing), accessor: String::new() },
        }
    }

    /// Whether something may be done in a namespace.
    pub(crate) fn may(&self, need: Need, namespace: &str) -> bool {
        match &self.access {
            None | Some(Access::Management) => true,
            Some(Access::Write { namespace: own }) => need != Need::Management && own == namespace,
            Some(Access::Read { namespace: own }) => need == Need::Read && own == namespace,
            Some(Access::Nothing) => false,
        }
    }

    pub(crate) fn need(&self, need: Need, namespace: &str) -> Result<(), Refusal> {
        if self.may(need, namespace) { Ok(()) } else { Err(Refusal::permission()) }
    }

    /// A list may ask for all namespaces, and gets those that it may read.
    pub(crate) fn need_list(&self, namespace: &str) -> Result<(), Refusal> {
        let some = namespace == "*" && !matches!(self.access, Some(Access::Nothing));
        if some { Ok(()) } else { self.need(Need::Read, namespace) }
    }
}
