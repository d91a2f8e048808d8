use std::{
    env,
    ffi::OsString,
    net::IpAddr,
    path::{Path, PathBuf},
};

use kube::config::{Kubeconfig, KubeconfigError};

/// The programs that a control plane consists of, and the witness.
const PROGRAMS: [&str; 5] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"];

/// What the environment offers to tests that need a real Kubernetes API.
///
/// | variable | meaning |
/// |---|---|
/// | `SCHEDULER_TEST_KUBECONFIG` | the kubeconfig of a running cluster to use, by its current context |
/// | `SCHEDULER_TEST_ALLOW_REMOTE=1` | that cluster may be on another machine |
/// | `KUBEBUILDER_ASSETS` | the folder of the servers to start, when no cluster is named |
/// | `REQUIRE_REAL_KUBERNETES=1` | neither is an error instead of [`Availability::Missing`] |
///
/// `KUBECONFIG` is never looked at: it may name a cluster that somebody lives on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Availability {
    /// A folder with all servers: [`Testbed::start`](crate::Testbed::start) works.
    Servers(PathBuf),
    /// The kubeconfig of a running cluster, which has nodes of its own: no image fates, no testbed.
    Kubeconfig(PathBuf),
    /// Neither, for this reason. Skip the test, and print the reason.
    Missing(String),
}

/// Why the environment cannot be followed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AvailabilityError {
    /// `REQUIRE_REAL_KUBERNETES=1`, and nothing is there.
    #[error("REQUIRE_REAL_KUBERNETES is set, but there is no Kubernetes to test with: {0}")]
    Required(String),
    /// The kubeconfig cannot be read.
    #[error("SCHEDULER_TEST_KUBECONFIG names {}, which cannot be used", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<KubeconfigError>,
    },
    /// The kubeconfig has no current context that leads to a server.
    #[error("SCHEDULER_TEST_KUBECONFIG names {}, whose current context leads to no server", .0.display())]
    NoServer(PathBuf),
    /// The cluster is on another machine, and nobody said that this is meant.
    #[error(
        "SCHEDULER_TEST_KUBECONFIG leads to {server}, which is not on this machine; tests create and delete namespaces \
         there. Set SCHEDULER_TEST_ALLOW_REMOTE=1 if that is meant"
    )]
    Remote {
        /// The URL of the cluster.
        server: String,
    },
}

impl Availability {
    /// Reads the environment. A named cluster goes before servers to start. Contacts nobody.
    ///
    /// # Errors
    /// When the named cluster is refused or its kubeconfig unusable, or when nothing is there although it is required.
    pub fn check() -> Result<Self, AvailabilityError> {
        Environment {
            kubeconfig: env::var_os("SCHEDULER_TEST_KUBECONFIG").filter(|value| !value.is_empty()),
            allow_remote: env::var_os("SCHEDULER_TEST_ALLOW_REMOTE").is_some_and(|value| value == "1"),
            assets: env::var_os("KUBEBUILDER_ASSETS").filter(|value| !value.is_empty()),
            required: env::var_os("REQUIRE_REAL_KUBERNETES").is_some_and(|value| value == "1"),
        }
        .decide()
    }
}

/// The variables as values, so that the decision can be tested: a test cannot change its own environment safely.
struct Environment {
    kubeconfig: Option<OsString>,
    allow_remote: bool,
    assets: Option<OsString>,
    required: bool,
}

impl Environment {
    fn decide(self) -> Result<Availability, AvailabilityError> {
        if let Some(path) = self.kubeconfig {
            let path = PathBuf::from(path);
            let server = server_of(&path)?;
            return if self.allow_remote || is_loopback(&server) {
                Ok(Availability::Kubeconfig(path))
            } else {
                Err(AvailabilityError::Remote { server })
            };
        }
        let reason = match self.assets {
            None => {
                "KUBEBUILDER_ASSETS is not set; `.ci/kubernetes-servers` builds the servers and prints their folder"
                    .to_owned()
            }
            Some(folder) => {
                let folder = PathBuf::from(folder);
                match PROGRAMS.iter().find(|program| !folder.join(program).is_file()) {
                    None => return Ok(Availability::Servers(folder)),
                    Some(program) => format!("KUBEBUILDER_ASSETS names {}, which has no {program}", folder.display()),
                }
            }
        };
        if self.required { Err(AvailabilityError::Required(reason)) } else { Ok(Availability::Missing(reason)) }
    }
}

/// The server that the current context of a kubeconfig leads to.
fn server_of(path: &Path) -> Result<String, AvailabilityError> {
    let kubeconfig = Kubeconfig::read_from(path)
        .map_err(|source| AvailabilityError::Kubeconfig { path: path.to_owned(), source: Box::new(source) })?;
    let cluster = kubeconfig
        .current_context
        .as_ref()
        .and_then(|current| kubeconfig.contexts.iter().find(|context| &context.name == current))
        .and_then(|context| context.context.as_ref())
        .map(|context| &context.cluster);
    kubeconfig
        .clusters
        .iter()
        .find(|named| Some(&named.name) == cluster)
        .and_then(|named| named.cluster.as_ref()?.server.clone())
        .ok_or_else(|| AvailabilityError::NoServer(path.to_owned()))
}

/// Whether a URL leads to this machine. An unreadable one does not.
fn is_loopback(url: &str) -> bool {
    let Ok(uri) = url.parse::<http::Uri>() else { return false };
    let Some(host) = uri.host() else { return false };
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const NOTHING: Environment = Environment { kubeconfig: None, allow_remote: false, assets: None, required: false };

    /// A folder of this test alone, removed at its end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = env::temp_dir().join(format!("testbed-availability-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn kubeconfig(&self, server: &str) -> OsString {
            let text = format!(
                "apiVersion: v1\nkind: Config\ncurrent-context: two\nclusters:\n\
                 - {{name: near, cluster: {{server: 'https://127.0.0.1:1'}}}}\n- {{name: far, cluster: {{server: '{server}'}}}}\n\
                 contexts:\n- {{name: one, context: {{cluster: near, user: u}}}}\n- {{name: two, context: {{cluster: far, user: u}}}}\n\
                 users: []\n"
            );
            let path = self.0.join("kubeconfig");
            fs::write(&path, text).unwrap();
            path.into()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn servers_are_there_only_when_every_program_is() {
        let folder = Folder::new("servers");
        for program in &PROGRAMS[1..] {
            fs::write(folder.0.join(program), "").unwrap();
        }
        let with = || Environment { assets: Some(folder.0.clone().into()), ..NOTHING };
        let Availability::Missing(reason) = with().decide().unwrap() else { panic!("etcd is missing") };
        assert!(reason.ends_with("has no etcd"), "{reason}");
        fs::write(folder.0.join("etcd"), "").unwrap();
        assert_eq!(with().decide().unwrap(), Availability::Servers(folder.0.clone()));
    }

    #[test]
    fn what_is_required_is_an_error_when_missing() {
        assert!(matches!(NOTHING.decide(), Ok(Availability::Missing(_))));
        let required = Environment { required: true, ..NOTHING };
        assert!(matches!(required.decide(), Err(AvailabilityError::Required(_))));
    }

    #[test]
    fn a_cluster_elsewhere_is_refused_unless_allowed() {
        let folder = Folder::new("remote");
        let path = folder.kubeconfig("https://10.1.2.3:6443");
        let with = |allow_remote| Environment { kubeconfig: Some(path.clone()), allow_remote, ..NOTHING };
        assert!(
            matches!(with(false).decide(), Err(AvailabilityError::Remote { server }) if server == "https://10.1.2.3:6443")
        );
        assert_eq!(with(true).decide().unwrap(), Availability::Kubeconfig(path.clone().into()));
    }

    #[test]
    fn the_current_context_decides_and_goes_before_servers() {
        let folder = Folder::new("near");
        let path = folder.kubeconfig("https://[::1]:6443");
        let both = Environment { kubeconfig: Some(path.clone()), assets: Some("/nowhere".into()), ..NOTHING };
        assert_eq!(both.decide().unwrap(), Availability::Kubeconfig(path.into()));
    }

    #[test]
    fn an_unusable_kubeconfig_is_never_skipped() {
        let folder = Folder::new("unusable");
        let absent = Environment { kubeconfig: Some(folder.0.join("absent").into()), ..NOTHING };
        assert!(matches!(absent.decide(), Err(AvailabilityError::Kubeconfig { .. })));
        let path = folder.0.join("empty");
        fs::write(&path, "apiVersion: v1\nkind: Config\n").unwrap();
        let empty = Environment { kubeconfig: Some(path.into()), ..NOTHING };
        assert!(matches!(empty.decide(), Err(AvailabilityError::NoServer(_))));
    }

    #[test]
    fn loopback_is_told_from_names_that_look_like_it() {
        for near in ["https://127.0.0.1:6443", "https://127.8.9.1", "http://localhost:1", "https://[::1]:2"] {
            assert!(is_loopback(near), "{near}");
        }
        for far in [
            "https://localhost.example.com",
            "https://127.0.0.1.example.com:1",
            "https://[2001:db8::1]:1",
            "",
            "https://",
        ] {
            assert!(!is_loopback(far), "{far}");
        }
    }
}
