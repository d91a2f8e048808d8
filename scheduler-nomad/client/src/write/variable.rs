//! Variables.

use http::Method;
use serde::Serialize;

use crate::client::{Client, invalid};
use crate::error::{Error, Operation, Verb};
use crate::model::{Secret, Variable};
use crate::target::{Target, check_namespace, check_variable};

/// What must be true for a write of a variable to take effect. The server checks it atomically.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum VariableCondition {
    /// There is none at this path.
    Absent,
    /// It is there, and its [`Variable::modify_index`] is still this one.
    Unchanged {
        /// The index that was read.
        modify_index: u64,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct VariableBody<'a> {
    namespace: &'a str,
    path: &'a str,
    items: &'a std::collections::BTreeMap<String, Secret>,
}

impl Client {
    /// Makes or replaces the variable at this namespace and path, with all of its items. Answers it as it is now. Cost: one
    /// request, `PUT /v1/var/:path?cas=…`.
    ///
    /// All paths and values together may have 64 KiB. A task reads only `nomad/jobs`, `nomad/jobs/<job>` and, below, those
    /// of its group and task, unless a policy says more. **A namespace that does not exist is accepted.** Not idempotent:
    /// the condition does not hold the second time.
    ///
    /// # Errors
    ///
    /// [`Conflict`](crate::ErrorKind::Conflict) when the condition does not hold; [`Invalid`](crate::ErrorKind::Invalid)
    /// when it is too large. No error has anything of the items.
    pub async fn put_variable(&self, variable: &Variable, condition: VariableCondition) -> Result<Variable, Error> {
        let namespace = if variable.namespace.is_empty() { "default" } else { &variable.namespace };
        let (operation, target) = place(Verb::Write, namespace, &variable.path)?;
        if variable.items.is_empty() {
            return Err(invalid(&operation, "a variable needs an item"));
        }
        let cas = match condition {
            VariableCondition::Absent => 0,
            VariableCondition::Unchanged { modify_index } => index(&operation, modify_index)?,
        };
        let body = VariableBody { namespace, path: &variable.path, items: &variable.items };
        self.put(&operation, target.param("cas", cas.to_string()), &body).await
    }

    /// Removes a variable that is still the one that was read. Cost: one request, `DELETE /v1/var/:path?cas=…`.
    ///
    /// # Errors
    ///
    /// [`Conflict`](crate::ErrorKind::Conflict) when its [`Variable::modify_index`] is another, and also when it is gone.
    pub async fn delete_variable(&self, namespace: &str, path: &str, modify_index: u64) -> Result<(), Error> {
        let (operation, target) = place(Verb::Delete, namespace, path)?;
        let cas = index(&operation, modify_index)?;
        self.write::<()>(&operation, Method::DELETE, target.param("cas", cas.to_string()), None).await.map(drop)
    }
}

fn place(verb: Verb, namespace: &str, path: &str) -> Result<(Operation, Target), Error> {
    let operation = Operation::new(verb, "variable", Some(namespace), Some(path));
    match check_namespace(namespace).and_then(|()| check_variable(path)) {
        Ok(()) => Ok((operation, Target::new(["v1", "var", path]).param("namespace", namespace))),
        Err(why) => Err(invalid(&operation, why)),
    }
}

/// The server takes zero for "absent".
fn index(operation: &Operation, modify_index: u64) -> Result<u64, Error> {
    if modify_index == 0 { Err(invalid(operation, "no variable has the index 0")) } else { Ok(modify_index) }
}
