//! Reads JSON as Go does, by a description of the types, and says in Go's words what is wrong with it.

use serde_json::{Map, Value, json};

/// A Go struct: what its fields are called, and of which type.
#[derive(Debug)]
pub(crate) struct Struct {
    pub(crate) name: &'static str,
    pub(crate) fields: &'static [Field],
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) default: Default,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Bool,
    Int,
    Uint,
    /// Nanoseconds.
    Duration,
    Text,
    /// `[]string`
    Texts,
    /// `map[string]string`
    TextMap,
    /// Whatever is there.
    Any,
    Object(&'static Struct),
    List(&'static Struct),
    /// Set by the server. What a client sends, because it was read before, is dropped.
    Server,
    /// There is a recording of the default alone.
    Unrecorded,
}

/// What stands for a field that was not sent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Default {
    Null,
    /// The key is left out.
    Absent,
    Bool(bool),
    Int(i64),
    Text(&'static str),
    /// A list of one text.
    Texts(&'static str),
    /// An object with its own defaults.
    Object,
}

/// Why a body is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// Go's decoder refuses it, with this text.
    Refused(String),
    /// It says something that there is no recording of.
    Unrecorded(String),
}

/// Reads a value as the struct. Unknown keys are dropped, the case of keys does not matter, and what is missing has its
/// default.
pub(crate) fn decode(kind: &'static Struct, value: &Value, path: &str) -> Result<Map<String, Value>, DecodeError> {
    let empty = Map::new();
    let sent = match value {
        Value::Object(sent) => sent,
        Value::Null => &empty,
        other => {
            let text = format!("json: cannot unmarshal {} into Go value of type api.{}", go_kind(other), kind.name);
            return Err(DecodeError::Refused(text));
        }
    };
    let mut out = Map::new();
    for field in kind.fields {
        let value = sent.get(field.name).or_else(|| {
            let found = sent.iter().find(|(key, _)| key.eq_ignore_ascii_case(field.name));
            found.map(|(_, value)| value)
        });
        let place = Place { owner: kind.name, path: join(path, field.name) };
        match place.read(field, value.unwrap_or(&Value::Null))? {
            Some(value) => drop(out.insert(field.name.to_owned(), value)),
            None => continue,
        }
    }
    Ok(out)
}

/// Where a value stands, for the error text.
struct Place {
    owner: &'static str,
    path: String,
}

impl Place {
    /// The canonical value, none when the key is to be left out.
    fn read(&self, field: &Field, value: &Value) -> Result<Option<Value>, DecodeError> {
        // Go's canonical form knows no empty list or map beside the missing one, except where missing means something.
        let missing = match value {
            Value::Null => true,
            Value::Array(list) => {
                list.is_empty()
                    && matches!(field.kind, Kind::Texts | Kind::List(_))
                    && !matches!(field.default, Default::Texts(_))
            }
            Value::Object(map) => map.is_empty() && matches!(field.kind, Kind::TextMap | Kind::Any),
            _ => false,
        };
        if missing || matches!(field.kind, Kind::Server) {
            return self.default(field);
        }
        let (go, fits) = match field.kind {
            Kind::Bool => ("bool", value.is_boolean()),
            Kind::Int => ("int", value.is_i64()),
            Kind::Uint => ("uint64", value.is_u64()),
            Kind::Duration => ("time.Duration", value.is_i64()),
            Kind::Text => ("string", value.is_string()),
            Kind::Texts => return self.texts(value).map(Some),
            Kind::TextMap => return self.text_map(value).map(Some),
            Kind::Object(kind) => {
                if !value.is_object() {
                    return Err(self.refuse(value, &format!("api.{}", kind.name)));
                }
                return decode(kind, value, &self.path).map(|object| Some(Value::Object(object)));
            }
            Kind::List(kind) => {
                let Value::Array(list) = value else {
                    return Err(self.refuse(value, &format!("[]*api.{}", kind.name)));
                };
                let objects = list.iter().map(|item| decode(kind, item, &self.path).map(Value::Object));
                return objects.collect::<Result<_, _>>().map(|list| Some(Value::Array(list)));
            }
            Kind::Any | Kind::Server => return Ok(Some(value.clone())),
            Kind::Unrecorded => {
                let default = self.default(field)?;
                if default.as_ref() == Some(value) {
                    return Ok(default);
                }
                return Err(DecodeError::Unrecorded(format!("the field {} of a {}", self.path, self.owner)));
            }
        };
        // A default of zero that is left out is left out as well when it is sent.
        let is_zero = matches!(field.default, Default::Absent) && (*value == json!(0) || *value == json!(""));
        if !fits {
            return Err(self.refuse(value, go));
        }
        Ok(if is_zero { None } else { Some(value.clone()) })
    }

    fn default(&self, field: &Field) -> Result<Option<Value>, DecodeError> {
        Ok(match (field.default, field.kind) {
            (Default::Absent, _) => None,
            (Default::Null, _) => Some(Value::Null),
            (Default::Bool(value), _) => Some(json!(value)),
            (Default::Int(value), _) => Some(json!(value)),
            (Default::Text(value), _) => Some(json!(value)),
            (Default::Texts(value), _) => Some(json!([value])),
            (Default::Object, Kind::Object(kind)) => {
                Some(Value::Object(decode(kind, &Value::Null, &join(&self.path, field.name))?))
            }
            (Default::Object, _) => Some(json!({})),
        })
    }

    fn texts(&self, value: &Value) -> Result<Value, DecodeError> {
        let Value::Array(list) = value else { return Err(self.refuse(value, "[]string")) };
        match list.iter().find(|item| !item.is_string()) {
            Some(wrong) => Err(self.refuse(wrong, "string")),
            None => Ok(value.clone()),
        }
    }

    fn text_map(&self, value: &Value) -> Result<Value, DecodeError> {
        let Value::Object(map) = value else { return Err(self.refuse(value, "map[string]string")) };
        match map.values().find(|item| !item.is_string()) {
            Some(wrong) => Err(self.refuse(wrong, "string")),
            None => Ok(value.clone()),
        }
    }

    fn refuse(&self, value: &Value, go: &str) -> DecodeError {
        let found = match value {
            // The number itself is told only where another number would have fitted.
            Value::Number(number) if go != "string" => format!("number {number}"),
            other => go_kind(other).to_owned(),
        };
        let (owner, path) = (self.owner, &self.path);
        DecodeError::Refused(format!("json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {go}"))
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
