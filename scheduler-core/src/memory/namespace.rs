//! Namespaces, and who made them.

use super::decide;
use super::mutation::Mutation;
use super::world::World;
use crate::{Error, ErrorKind, Namespace, NamespaceDeleted, NamespaceEnsured, OwnerId, Result};

impl World {
    /// What there is of a namespace; `None` if it is to be made.
    pub(super) fn decide_ensure(&self, namespace: &Namespace, me: &OwnerId) -> Option<NamespaceEnsured> {
        let owner = self.namespaces.get(namespace.as_str())?;
        let owned = owner.as_ref() == Some(me) || self.mutant.is(Mutation::CallsForeignNamespaceOurs);
        Some(NamespaceEnsured::Exists { owned })
    }

    /// Makes a namespace with our mark, unless it is there by now.
    pub(super) fn ensure(&mut self, namespace: &Namespace, me: &OwnerId) -> NamespaceEnsured {
        if self.mutant.is(Mutation::MarksForeignNamespace) {
            self.namespaces.insert(namespace.to_string(), Some(me.clone()));
        }
        if let Some(there) = self.decide_ensure(namespace, me) {
            return there;
        }
        self.namespaces.insert(namespace.to_string(), Some(me.clone()));
        NamespaceEnsured::Created
    }

    /// Whether a namespace is there and may be deleted.
    pub(super) fn decide_delete_namespace(&self, namespace: &Namespace, me: &OwnerId) -> Result<bool> {
        let Some(owner) = self.namespaces.get(namespace.as_str()) else { return Ok(false) };
        decide::not_foreign(owner.as_ref(), me, self.mutant.is(Mutation::DeletesForeignNamespace))?;
        let here = |target: &&crate::Target| target.namespace == *namespace;
        let held: Vec<String> = self.workloads.keys().filter(here).map(|target| target.name.to_string()).collect();
        if held.is_empty() || self.mutant.is(Mutation::DeletesFullNamespace) {
            return Ok(true);
        }
        Err(Error::new(ErrorKind::Precondition, format!("it holds {}", held.join(", "))))
    }

    /// Takes a namespace away, with what no workload holds any more.
    pub(super) fn delete_namespace(&mut self, namespace: &Namespace, me: &OwnerId) -> Result<NamespaceDeleted> {
        if !self.decide_delete_namespace(namespace, me)? {
            return Ok(NamespaceDeleted::WasAbsent);
        }
        self.namespaces.remove(namespace.as_str());
        self.workloads.retain(|target, _| target.namespace != *namespace);
        self.services.retain(|target, _| target.namespace != *namespace);
        self.configs.retain(|target, _| target.namespace != *namespace);
        self.routes.retain(|target, _| target.namespace != *namespace);
        self.strays.retain(|stray| stray.target.namespace != *namespace);
        self.claims.retain(|(of, _)| of != namespace.as_str());
        self.identities.retain(|(of, _)| of != namespace.as_str());
        Ok(NamespaceDeleted::Gone)
    }
}
