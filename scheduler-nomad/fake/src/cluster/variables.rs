//! Variables: a few texts under a path, written by check-and-set.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{runner, state::State, write::Refusal};
use crate::time::Time;

/// How many bytes the keys and values of one may have.
const MAX_SIZE: usize = 64 * 1024;

#[derive(Debug, Clone)]
pub(crate) struct Variable {
    items: BTreeMap<String, String>,
    pub(crate) create_index: u64,
    pub(crate) modify_index: u64,
    created: Time,
    modified: Time,
}

/// Namespace and path.
pub(crate) type Place = (String, String);

impl Variable {
    pub(crate) fn has(&self, item: &str) -> bool {
        self.items.contains_key(item)
    }

    pub(crate) fn to_json(&self, place: &Place, with_items: bool) -> Value {
        let mut json = json!({
            "Namespace": place.0, "Path": place.1, "CreateIndex": self.create_index, "ModifyIndex": self.modify_index,
            "CreateTime": self.created.0, "ModifyTime": self.modified.0,
        });
        if with_items {
            json["Items"] = json!(self.items);
        }
        json
    }
}

impl State {
    /// Writes all items. With `check`, only when the index is still that; 0 is that there is none.
    pub(crate) fn put_variable(
        &mut self,
        place: &Place,
        items: BTreeMap<String, String>,
        check: Option<u64>,
    ) -> Result<Variable, VariableError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_~/".contains(c);
        let path = &place.1;
        if path.is_empty() || path.len() > 128 || !path.chars().all(allowed) {
            return Err(VariableError::Invalid(format!("invalid path {path:?}")));
        }
        if items.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>() > MAX_SIZE {
            return Err(VariableError::Invalid("variables are limited to 64KiB in total size".to_owned()));
        }
        // A conflict takes an index as well.
        self.index += 1;
        let (index, now) = (self.index, self.now);
        let existing = self.variables.get(place);
        if check.is_some_and(|check| check != existing.map_or(0, |variable| variable.modify_index)) {
            return Err(VariableError::Conflict);
        }
        let create_index = existing.map_or(index, |variable| variable.create_index);
        let created = existing.map_or(now, |variable| variable.created);
        let variable = Variable { items, create_index, modify_index: index, created, modified: now };
        self.tables.variables = index;
        self.variables.insert(place.clone(), variable.clone());
        runner::variable_written(self, place);
        Ok(variable)
    }

    /// Removes a variable. That there is none is no error.
    pub(crate) fn delete_variable(&mut self, place: &Place, check: Option<u64>) -> Result<u64, VariableError> {
        self.index += 1;
        let existing = self.variables.get(place).map_or(0, |variable| variable.modify_index);
        if check.is_some_and(|check| check != existing) {
            return Err(VariableError::Conflict);
        }
        self.variables.remove(place);
        self.tables.variables = self.index;
        Ok(self.index)
    }
}

#[derive(Debug)]
pub(crate) enum VariableError {
    /// Another index than the one to be checked.
    Conflict,
    Invalid(String),
}

impl From<VariableError> for Refusal {
    fn from(error: VariableError) -> Self {
        match error {
            VariableError::Conflict => Self::new(409, "cas conflict"),
            VariableError::Invalid(why) => Self::new(400, format!("RPC Error:: 400,{why}")),
        }
    }
}
