//! Names and label texts, checked against the intersection of what the backends accept.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::hash;

/// What is wrong with a name, a label key or a label value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {what}: {problem}")]
#[non_exhaustive]
pub struct NameError {
    /// The text that was refused.
    pub text: String,
    /// What it was meant to be, with its article ("a workload name").
    pub what: &'static str,
    /// The rule that it breaks.
    pub problem: NameProblem,
}

/// The rule that a name breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameProblem {
    /// It has no characters.
    #[error("it is empty")]
    Empty,
    /// It has too many characters.
    #[error("it has {length} characters, at most {most} are allowed")]
    TooLong {
        /// How many it has.
        length: usize,
        /// How many it may have.
        most: usize,
    },
    /// A character that may not stand in it.
    #[error("{0:?} is not allowed in it; {1} are")]
    Character(char, &'static str),
    /// A first character that may not stand there.
    #[error("it starts with {0:?}, not with {1}")]
    Start(char, &'static str),
    /// A last character that may not stand there.
    #[error("it ends with {0:?}, not with a letter or a digit")]
    End(char),
    /// The prefix is kept for the platform's or this library's own marks.
    #[error("the prefix {0:?} is reserved")]
    Reserved(&'static str),
    /// It lacks a letter where at least one is needed.
    #[error("it has no letter")]
    NoLetter,
    /// It has no dot where at least one is needed.
    #[error("it has no dot")]
    NoDot,
    /// Two dashes in a row where that is not allowed.
    #[error("it has two dashes in a row")]
    DoubleDash,
}

struct Rule {
    what: &'static str,
    most: usize,
    start: fn(char) -> bool,
    start_with: &'static str,
    inner: fn(char) -> bool,
    inner_are: &'static str,
}

fn lower_or_digit(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

const WORKLOAD: Rule = Rule {
    what: "a workload name",
    // A CronJob's name may have 52 characters, and pods of a StatefulSet with a longer name may never start.
    most: 52,
    start: |c| c.is_ascii_lowercase(),
    start_with: "a lower-case letter",
    inner: |c| lower_or_digit(c) || c == '-',
    inner_are: "lower-case letters, digits and dashes",
};

const NAMESPACE: Rule = Rule {
    what: "a namespace",
    most: 63,
    start: lower_or_digit,
    start_with: "a lower-case letter or a digit",
    ..WORKLOAD
};

const APP: Rule = Rule { what: "an app name", ..WORKLOAD };

const BACKEND: Rule = Rule { what: "a backend name", most: 63, ..WORKLOAD };

const LABEL_VALUE: Rule = Rule {
    what: "a label value",
    most: 63,
    start: |c| c.is_ascii_alphanumeric(),
    start_with: "a letter or a digit",
    inner: |c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'),
    inner_are: "letters, digits, dashes, underscores and dots",
};

const OWNER: Rule = Rule { what: "an owner id", ..LABEL_VALUE };

/// The rule for names of containers and volumes: a DNS label.
const PART: Rule = Rule { what: "a container or volume name", ..NAMESPACE };

/// The rule for names of ports: an IANA service name.
const PORT: Rule = Rule { what: "a port name", most: 15, ..NAMESPACE };

/// The rule for names of objects that the workload refers to: a DNS subdomain.
const OBJECT: Rule = Rule {
    what: "an object name",
    most: 253,
    inner: |c| lower_or_digit(c) || matches!(c, '-' | '.'),
    inner_are: "lower-case letters, digits, dashes and dots",
    ..NAMESPACE
};

const ENV: Rule = Rule {
    what: "the name of an environment variable",
    most: 253,
    start: |c| c.is_ascii_alphabetic() || c == '_',
    start_with: "a letter or an underscore",
    inner: |c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'),
    inner_are: "letters, digits, underscores and dots",
};

fn check(text: &str, rule: &Rule) -> Result<(), NameError> {
    let fail = |problem| Err(NameError { text: text.to_owned(), what: rule.what, problem });
    let Some(first) = text.chars().next() else { return fail(NameProblem::Empty) };
    if let Some(c) = text.chars().find(|c| !(rule.inner)(*c)) {
        return fail(NameProblem::Character(c, rule.inner_are));
    }
    if !(rule.start)(first) {
        return fail(NameProblem::Start(first, rule.start_with));
    }
    if let Some(last) = text.chars().next_back().filter(|c| !c.is_ascii_alphanumeric() && *c != '_') {
        return fail(NameProblem::End(last));
    }
    if rule.what != ENV.what && text.ends_with('_') {
        return fail(NameProblem::End('_'));
    }
    let length = text.chars().count();
    if length > rule.most {
        return fail(NameProblem::TooLong { length, most: rule.most });
    }
    Ok(())
}

/// Checks the name of a container or of a volume.
pub(crate) fn check_part(text: &str) -> Result<(), NameError> {
    check(text, &PART)
}

/// Checks the name of a port (an IANA service name, RFC 6335 §5.1).
pub(crate) fn check_port(text: &str) -> Result<(), NameError> {
    check(text, &PORT)?;
    let fail = |problem| Err(NameError { text: text.to_owned(), what: PORT.what, problem });
    if !text.contains(|c: char| c.is_ascii_lowercase()) {
        return fail(NameProblem::NoLetter);
    }
    if text.contains("--") {
        return fail(NameProblem::DoubleDash);
    }
    Ok(())
}

/// Checks the name of an object that a workload refers to (a DNS subdomain, RFC 1123).
pub(crate) fn check_object(text: &str) -> Result<(), NameError> {
    let fail = |problem| Err(NameError { text: text.to_owned(), what: OBJECT.what, problem });
    check(text, &OBJECT)?;
    for part in text.split('.') {
        match (part.chars().next(), part.chars().next_back()) {
            (None, _) => return fail(NameProblem::Start('.', "a lower-case letter or a digit")),
            (Some('-'), _) => return fail(NameProblem::Start('-', "a lower-case letter or a digit")),
            (_, Some('-')) => return fail(NameProblem::End('-')),
            _ => {}
        }
    }
    Ok(())
}

/// Checks a host of a route: a DNS name of at least two parts, the first of which may be `*`.
pub(crate) fn check_host(text: &str) -> Result<(), NameError> {
    const HOST: Rule = Rule { what: "a host name", ..OBJECT };
    let rest = text.strip_prefix("*.").unwrap_or(text);
    let checked = check_object(rest).map_err(|e| NameError { text: text.to_owned(), what: HOST.what, ..e });
    if checked.is_ok() && !rest.contains('.') {
        return Err(NameError { text: text.to_owned(), what: HOST.what, problem: NameProblem::NoDot });
    }
    checked
}

/// Checks the name of an environment variable.
pub(crate) fn check_env(text: &str) -> Result<(), NameError> {
    check(text, &ENV)
}

/// Checks the value of a label. Unlike marks, a label's value may be empty.
pub(crate) fn check_label_value(text: &str) -> Result<(), NameError> {
    if text.is_empty() { Ok(()) } else { check(text, &LABEL_VALUE) }
}

/// The prefix of every label and annotation that this library writes.
pub const MARK_PREFIX: &str = "scheduler/";

/// Checks the key of a label or of an annotation: an optional DNS subdomain and a slash, then a name of at most 63
/// characters. Prefixes of the platforms and of this library are reserved.
pub(crate) fn check_label_key(text: &str) -> Result<(), NameError> {
    const KEY: Rule = Rule { what: "a label key", ..LABEL_VALUE };
    let rename = |e: NameError| NameError { text: text.to_owned(), what: KEY.what, problem: e.problem };
    let fail = |problem| Err(NameError { text: text.to_owned(), what: KEY.what, problem });
    if text.starts_with(MARK_PREFIX) {
        return fail(NameProblem::Reserved(MARK_PREFIX));
    }
    match text.split_once('/') {
        None => check(text, &KEY),
        Some((prefix, name)) => {
            for reserved in ["kubernetes.io", "k8s.io"] {
                // `app.kubernetes.io` is the one prefix of Kubernetes that is meant for users.
                let is_reserved = prefix == reserved || prefix.strip_suffix(reserved).is_some_and(|p| p.ends_with('.'));
                if is_reserved && prefix != "app.kubernetes.io" {
                    return fail(NameProblem::Reserved(reserved));
                }
            }
            check_object(prefix).map_err(rename)?;
            check(name, &KEY).map_err(rename)
        }
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $rule:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Checks `text` and wraps it.
            ///
            /// # Errors
            /// [`NameError`] with the rule that `text` breaks.
            pub fn new(text: impl Into<String>) -> Result<Self, NameError> {
                let text = text.into();
                check(&text, &$rule)?;
                Ok(Self(text))
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NameError;
            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;
            fn try_from(text: String) -> Result<Self, NameError> {
                Self::new(text)
            }
        }

        impl TryFrom<&str> for $name {
            type Error = NameError;
            fn try_from(text: &str) -> Result<Self, NameError> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }
    };
}

name! {
    /// The name of a workload: at most 52 characters, lower-case letters, digits and dashes, starting with a letter and
    /// ending with a letter or a digit. The longest that every native object made from it still accepts.
    ///
    /// ```
    /// use scheduler_core::WorkloadName;
    /// assert!(WorkloadName::new("web").is_ok());
    /// assert!(WorkloadName::new("001-web").is_err());
    /// ```
    WorkloadName, WORKLOAD
}

impl WorkloadName {
    /// The name of a run of this workload, from the hexadecimal digits of a hash: `<name, cut>-run-<digits>`.
    pub(crate) fn of_run(&self, digits: &str) -> Self {
        let room = WORKLOAD.most - "-run-".len() - digits.len();
        // Its characters are ASCII.
        let cut = self.0.get(..room).unwrap_or(&self.0).trim_end_matches('-');
        Self(format!("{cut}-run-{digits}"))
    }
}

name! {
    /// A scheduler's namespace: a DNS label (RFC 1123) of at most 63 characters.
    Namespace, NAMESPACE
}

name! {
    /// The name of an app: the rule of a [`WorkloadName`], as objects are named after it.
    AppName, APP
}

name! {
    /// Who owns what a scheduler makes: a label value that names one control plane. Two control planes that share a
    /// cluster need two ids; there is no default.
    OwnerId, OWNER
}

name! {
    /// The name of a backend, as in configuration files and in a workload's `extensions`.
    BackendName, BACKEND
}

impl Namespace {
    /// Checks a part of a hierarchical name: a namespace by itself, without two dashes in a row.
    pub(crate) fn part(text: &str) -> Result<(), NameError> {
        check(text, &NAMESPACE)?;
        if text.contains("--") {
            return Err(NameError { text: text.to_owned(), what: NAMESPACE.what, problem: NameProblem::DoubleDash });
        }
        Ok(())
    }
}

/// The backends of this family. Others are made by [`new`](Self::new).
impl BackendName {
    /// `kubernetes`.
    #[must_use]
    pub fn kubernetes() -> Self {
        Self("kubernetes".to_owned())
    }

    /// `memory`.
    #[must_use]
    pub fn memory() -> Self {
        Self("memory".to_owned())
    }

    /// `nomad`.
    #[must_use]
    pub fn nomad() -> Self {
        Self("nomad".to_owned())
    }

    pub(crate) fn family() -> [Self; 3] {
        [Self::kubernetes(), Self::memory(), Self::nomad()]
    }
}

/// Where a workload lives: a namespace and a name in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "a target is these two names, on every backend and for ever")]
pub struct Target {
    /// The namespace.
    pub namespace: Namespace,
    /// The name within it.
    pub name: WorkloadName,
}

impl Target {
    /// Checks both names.
    ///
    /// # Errors
    /// [`NameError`] of the first that is not one.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Result<Self, NameError> {
        Ok(Self { namespace: Namespace::new(namespace)?, name: WorkloadName::new(name)? })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The name of an immutable stack, `<unit>--<version>--<hash>`, for platforms that launch each release beside the last.
///
/// Different parts never give the same name: dots of the version become dashes, and whenever that could be mistaken (a
/// version with dashes of its own, a unit with a double dash, any character that a name cannot have, more than 52
/// characters) a digest of the exact inputs follows (65 bits).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StackName(WorkloadName);

impl StackName {
    /// Builds the name from its parts.
    ///
    /// ```
    /// use scheduler_core::StackName;
    /// let name = StackName::new("web", "1.2.3", "a1b2")?;
    /// assert_eq!(name.as_str(), "web--1-2-3--a1b2");
    /// assert_ne!(StackName::new("a--b", "1", "c")?, StackName::new("a", "b--1", "c")?);
    /// # Ok::<(), scheduler_core::NameError>(())
    /// ```
    ///
    /// # Errors
    /// [`NameError`] if the unit is not a workload name. Versions and hashes may be any text.
    pub fn new(unit: &str, version: &str, hash: &str) -> Result<Self, NameError> {
        check(unit, &WORKLOAD)?;
        // Names of one form: no part can hold the separator, and a dash in the middle part can only have been a dot.
        let word = |text: &str| !text.is_empty() && text.chars().all(lower_or_digit);
        if !unit.contains("--") && version.split('.').all(word) && word(hash) {
            let name = format!("{unit}--{}--{hash}", version.replace('.', "-"));
            if name.len() <= WORKLOAD.most {
                return Ok(Self(WorkloadName(name)));
            }
        }
        // All other names end with one dash and a digest of 13 base-32 characters (65 bits), which no name above does.
        let readable = |text: &str| -> String {
            let text: String = text
                .chars()
                .map(|c| if lower_or_digit(c.to_ascii_lowercase()) { c.to_ascii_lowercase() } else { '-' })
                .collect();
            text.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
        };
        let digest = hash::base32(&[unit, version, hash], 13);
        let head = format!("{}--{}--{}", readable(unit), readable(version), readable(hash));
        let room = WORKLOAD.most - digest.len() - 1;
        let head = head.get(..room).unwrap_or(&head).trim_end_matches('-');
        Ok(Self(WorkloadName(format!("{head}-{digest}"))))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl From<StackName> for WorkloadName {
    fn from(name: StackName) -> Self {
        name.0
    }
}

impl fmt::Display for StackName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The label value of a mark: the text itself where it is a label value, else `h-` and 32 hex digits of its hash, beside
/// which the text stands in an annotation of the same key.
///
/// ```
/// use scheduler_core::mark_label;
/// assert_eq!(mark_label("qa"), "qa");
/// assert!(mark_label("dev/sandbox").starts_with("h-"));
/// ```
#[must_use]
pub fn mark_label(text: &str) -> String {
    if check(text, &LABEL_VALUE).is_ok() { text.to_owned() } else { format!("h-{}", hash::hex(text.as_bytes(), 32)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn workload_names_take_the_intersection_of_the_backends() {
        for good in ["a", "web", "a-b", "a1", "a--b", &"a".repeat(52)] {
            assert!(WorkloadName::new(good).is_ok(), "{good}");
        }
        for bad in ["", "A", "Web", "1a", "-a", "a-", "a_b", "a.b", "a/b", "ä", "a b", &"a".repeat(53)] {
            assert!(WorkloadName::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn label_keys_keep_reserved_prefixes() {
        for good in ["a", "A.b_c-d", "example.com/tier", "app.kubernetes.io/name"] {
            assert!(check_label_key(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "/a",
            "a/",
            "a/b/c",
            "Example.com/a",
            "scheduler/owner",
            "kubernetes.io/x",
            "node.kubernetes.io/x",
            "k8s.io/x",
        ] {
            assert!(check_label_key(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn stack_names_that_were_joined_differently_differ() {
        let name = |a, b, c| StackName::new(a, b, c).unwrap();
        assert_eq!(name("web", "1", "abc").as_str(), "web--1--abc");
        assert_ne!(name("a--b", "1", "c"), name("a", "b--1", "c"));
        assert_ne!(name("web", "1.2", "c"), name("web", "1-2", "c"));
        let long = "a".repeat(52);
        assert_ne!(name(&long, "1", "c"), name(&long, "2", "c"));
        assert!(StackName::new("Web", "1", "c").is_err());
    }

    proptest! {
        #[test]
        fn every_stack_name_is_a_workload_name(unit in "[a-z]([a-z0-9-]{0,50}[a-z0-9])?", version in ".{0,20}", hash in ".{0,20}") {
            let name = StackName::new(&unit, &version, &hash).unwrap();
            prop_assert!(WorkloadName::new(name.as_str()).is_ok(), "{name}");
        }

        #[test]
        fn stack_names_are_injective(a in ("[a-c](--?[a-c]){0,2}", "[a-c.-]{1,4}", "[a-c-]{1,3}"), b in ("[a-c](--?[a-c]){0,2}", "[a-c.-]{1,4}", "[a-c-]{1,3}")) {
            let name = |p: &(String, String, String)| StackName::new(&p.0, &p.1, &p.2).unwrap();
            prop_assert_eq!(name(&a) == name(&b), a == b);
        }

        #[test]
        fn every_mark_has_a_label_value(text in ".{0,80}") {
            prop_assert!(check(&mark_label(&text), &LABEL_VALUE).is_ok());
        }
    }
}
