//! Requests about variables.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{access::Need, answer::Answer, post::Post, read::Look};
use crate::cluster::{Refusal, VariableError};

type Outcome = Result<Answer, Refusal>;

impl Post<'_> {
    pub(crate) fn put_variable(&mut self, path: &str) -> Outcome {
        let body = self.json("Variable")?;
        let text = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
        let namespace = match text("Namespace") {
            empty if empty.is_empty() => self.query.namespace().to_owned(),
            namespace => namespace,
        };
        self.caller.need(Need::Write, &namespace)?;
        let items = body["Items"].as_object().filter(|items| !items.is_empty());
        let items = items.ok_or_else(|| Refusal::new(400, "variable missing required Items object"))?;
        let items: Option<BTreeMap<_, _>> =
            items.iter().map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
        let items = items.ok_or_else(|| Refusal::unrecorded("items of a variable that are no texts"))?;
        // The path of the request wins over the one of the body.
        let place = (namespace, path.to_owned());
        let written = self.state.put_variable(&place, items, self.check()?);
        let written = written.map(|variable| (variable.modify_index, variable.to_json(&place, true)));
        match written {
            Ok((index, json)) => Ok(Answer::written(index, json)),
            Err(VariableError::Conflict) => Ok(self.conflict(&place)),
            Err(error) => Ok(Answer::from(Refusal::from(error)).at(0)),
        }
    }

    pub(crate) fn delete_variable(&mut self, path: &str) -> Outcome {
        let place = (self.query.namespace().to_owned(), path.to_owned());
        self.caller.need(Need::Write, &place.0)?;
        match self.state.delete_variable(&place, self.check()?) {
            Ok(index) => Ok(Answer::no_content(index)),
            Err(VariableError::Conflict) => Ok(self.conflict(&place)),
            Err(error) => Err(error.into()),
        }
    }

    fn check(&self) -> Result<Option<u64>, Refusal> {
        let parse = |text: &str| text.parse().map_err(|_| Refusal::unrecorded("a cas that is no number"));
        self.query.get("cas").map(parse).transpose()
    }

    /// The variable as it is, as the text of a conflict.
    fn conflict(&self, place: &(String, String)) -> Answer {
        let there = self.state.variables.get(place);
        let index = there.map_or(0, |variable| variable.modify_index);
        let json = there.map_or(Value::Null, |variable| variable.to_json(place, true));
        Answer::text(409, None, json.to_string()).at(index)
    }
}

impl Look<'_> {
    pub(crate) fn variable(&self, path: &str) -> Outcome {
        let place = (self.query.namespace().to_owned(), path.to_owned());
        self.caller.need(Need::Read, &place.0)?;
        Ok(match self.state.variables.get(&place) {
            None => Answer::text(404, Some(self.state.tables.variables), "variable not found"),
            Some(variable) => Answer::json(variable.modify_index, variable.to_json(&place, true)),
        })
    }

    pub(crate) fn variables(&self) -> Outcome {
        let (namespace, prefix) = (self.query.namespace(), self.query.text("prefix"));
        // Who may not read is answered an empty list.
        let visible = |of: &str| (of == namespace || namespace == "*") && self.caller.may(Need::Read, of);
        let all = self.state.variables.iter().filter(|(place, _)| visible(&place.0) && place.1.starts_with(prefix));
        let all: Vec<_> = all.map(|(place, variable)| variable.to_json(place, false)).collect();
        Ok(Answer::json(self.state.tables.variables, all))
    }
}
