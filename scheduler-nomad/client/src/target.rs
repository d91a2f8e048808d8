//! Paths and query strings, and the IDs in them.

use std::fmt::Write as _;

/// Where the server's router cuts a job's path: an ID that ends so cannot be addressed.
const ROUTES: &[&str] = &[
    "action",
    "actions",
    "allocations",
    "deployment",
    "deployments",
    "dispatch",
    "dispatch/payload",
    "evaluate",
    "evaluations",
    "periodic/force",
    "plan",
    "revert",
    "scale",
    "services",
    "stable",
    "submission",
    "summary",
    "tag",
    "versions",
];

/// A path below the server's address, with a query string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    path: String,
    params: Vec<(&'static str, String)>,
}

impl Target {
    /// A path of these segments, each of them encoded as one.
    pub(crate) fn new<const N: usize>(segments: [&str; N]) -> Self {
        let mut path = String::new();
        for segment in segments {
            path.push('/');
            push_encoded(&mut path, segment);
        }
        Self { path, params: Vec::new() }
    }

    pub(crate) fn param(mut self, key: &'static str, value: impl Into<String>) -> Self {
        self.params.push((key, value.into()));
        self
    }

    pub(crate) fn uri(&self, base: &str, region: Option<&str>) -> String {
        let mut uri = format!("{base}{}", self.path);
        let region = region.map(|region| ("region", region));
        let params = self.params.iter().map(|(key, value)| (*key, value.as_str())).chain(region);
        for (place, (key, value)) in params.enumerate() {
            uri.push(if place == 0 { '?' } else { '&' });
            uri.push_str(key);
            uri.push('=');
            push_encoded(&mut uri, value);
        }
        uri
    }
}

/// Appends `text`, with everything but RFC 3986's unreserved characters percent-encoded.
fn push_encoded(out: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

/// Refuses IDs that would address something else: the server looks at the decoded path, cleans it up, and finds the end
/// of the ID by what follows (hashicorp/nomad#11749, #23633).
pub(crate) fn check_job(id: &str) -> Result<(), String> {
    if id.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
        return Err(format!("a job of the ID {id:?} cannot be addressed: its path would be cleaned up"));
    }
    let route = ROUTES.iter().find(|route| id.strip_suffix(**route).is_some_and(|rest| rest.ends_with('/')));
    match route {
        Some(route) => Err(format!("a job of the ID {id:?} cannot be addressed: its path is that of `{route}`")),
        None => Ok(()),
    }
}

/// The server's rule for names of namespaces.
pub(crate) fn check_namespace(name: &str) -> Result<(), String> {
    let fits = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if (1..=128).contains(&name.len()) && fits(name) {
        Ok(())
    } else {
        Err(format!("{name:?} cannot be the name of a namespace"))
    }
}

/// Evaluations, allocations and deployments are looked up by the full ID only.
pub(crate) fn check_uuid(id: &str) -> Result<(), String> {
    if id.len() == 36 && id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-') {
        Ok(())
    } else {
        Err(format!("{id:?} is no full ID of 36 characters"))
    }
}

/// A name that is one segment of a path, where nothing more is known of it.
pub(crate) fn check_segment(what: &str, name: &str) -> Result<(), String> {
    if name.contains('/') || matches!(name, "" | "." | "..") {
        return Err(format!("a {what} called {name:?} cannot be addressed here"));
    }
    Ok(())
}

/// The server's rule for paths of variables. Empty segments would be cleaned up on the way.
pub(crate) fn check_variable(path: &str) -> Result<(), String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~' | b'/');
    if (1..=128).contains(&path.len()) && path.bytes().all(fits) && !path.split('/').any(str::is_empty) {
        Ok(())
    } else {
        Err(format!("{path:?} cannot be the path of a variable"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_segment_stays_one() {
        let target =
            Target::new(["v1", "job", "a/b c#d?e%ü", "plan"]).param("namespace", "*").param("filter", "a == \"b\"");
        assert_eq!(
            target.uri("http://127.0.0.1:4646/base", None),
            "http://127.0.0.1:4646/base/v1/job/a%2Fb%20c%23d%3Fe%25%C3%BC/plan?namespace=%2A&filter=a%20%3D%3D%20%22b%22"
        );
        assert_eq!(Target::new(["v1", "jobs"]).uri("http://h", Some("eu west")), "http://h/v1/jobs?region=eu%20west");
    }

    #[test]
    fn ids_that_address_something_else() {
        for id in ["", ".", "..", "/a", "a/", "a//b", "a/../b", "a/plan", "x/y/summary", "x/periodic/force"] {
            assert!(check_job(id).is_err(), "{id}");
        }
        // A child of a periodic job, and words that are routes only behind a slash.
        for id in ["web", "cron/periodic-1", "plan", "a/explan", "periodic/forced", "a b", "a%2F", "ü"] {
            assert_eq!(check_job(id), Ok(()), "{id}");
        }
    }

    #[test]
    fn namespaces_and_ids() {
        for (name, fits) in
            [("default", true), ("A-1", true), ("", false), ("*", false), ("a_b", false), ("a/b", false)]
        {
            assert_eq!(check_namespace(name).is_ok(), fits, "{name}");
        }
        assert!(check_namespace(&"x".repeat(128)).is_ok());
        assert!(check_namespace(&"x".repeat(129)).is_err());
        assert!(check_uuid("a691a909-4c5a-3209-8b3b-a480fce642bf").is_ok());
        for id in ["", "a691a909", "a691a909-4c5a-3209-8b3b-a480fce642b/", "a691a909-4c5a-3209-8b3b-a480fce642bff"] {
            assert!(check_uuid(id).is_err(), "{id}");
        }
    }

    #[test]
    fn segments_and_variables() {
        for (name, fits) in [("a b", true), ("_nomad-task-1-x", true), ("", false), ("..", false), ("a/b", false)] {
            assert_eq!(check_segment("tag", name).is_ok(), fits, "{name}");
        }
        for path in ["nomad/jobs/web", "A-1_~", &"x".repeat(128)] {
            assert_eq!(check_variable(path), Ok(()), "{path}");
        }
        for path in ["", "/a", "a/", "a//b", "a.b", "a b", "é", &"x".repeat(129)] {
            assert!(check_variable(path).is_err(), "{path}");
        }
    }
}
