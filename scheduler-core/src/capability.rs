//! What a backend can do, as a value, with the reason for each "no".

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind};
use crate::name::BackendName;

macro_rules! features {
    ($($(#[$doc:meta])* $name:ident $text:literal,)*) => {
        /// Something that a backend may be able to do.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum Feature {
            $($(#[$doc])* $name,)*
        }

        impl Feature {
            /// Every feature, in the order of the list.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// A few words for people.
            #[must_use]
            pub fn words(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

features! {
    /// `launch`, for services.
    Launch "launch services",
    /// `delete`.
    Delete "delete",
    /// `status`.
    Status "status",
    /// `list`.
    List "list",
    /// `ping`.
    Ping "ping",
    /// `watch`. Without it, waiting polls.
    Watch "watch",
    /// Guards by version are atomic with the change that they guard.
    CompareAndSet "compare-and-set by version",
    /// Taking over what somebody else owns.
    Adopt "adopt",
    /// Jobs.
    Jobs "jobs",
    /// Jobs that run fewer instances at a time than they need.
    JobParallelism "jobs that run only some of their instances at a time",
    /// Jobs with a bound on their whole time.
    JobDeadline "jobs with a deadline",
    /// Jobs that the platform deletes some time after their end.
    JobTimeToLive "jobs that go by themselves after their end",
    /// Periodic jobs.
    PeriodicJobs "periodic jobs",
    /// Periodic jobs whose new run ends the last one.
    ReplaceOverlap "periodic jobs whose new run ends the last",
    /// Periodic jobs with a bound on how late a run may start.
    StartingDeadline "periodic jobs with a starting deadline",
    /// Periodic jobs of which so many runs are kept.
    PeriodicHistory "periodic jobs with a bound on the runs that are kept",
    /// One instance on each node.
    Systems "one instance on each node",
    /// Instances with stable identities.
    StableIdentities "stable identities",
    /// An instance with a stable identity starts only when its predecessor has ended.
    OrderedSuccessors "successors that start only when their predecessors have ended",
    /// Volumes of each instance with a stable identity.
    PerInstanceVolumes "volumes of each instance",
    /// Canary updates, with promote and abort.
    Canaries "canary updates",
    /// `scale`.
    Scale "scale",
    /// A scale and a restart leave [`Observation::changed`](crate::Observation::changed) as it is.
    LaunchTimes "times of launches apart from those of scales",
    /// `rollout(Restart)`.
    Restart "restart",
    /// `rollout(Pause)` and `rollout(Resume)`.
    Pause "pause and resume",
    /// `rollout(Promote)`.
    Promote "promote",
    /// `rollout(Abort)`.
    Abort "abort",
    /// `instance(Stop)`.
    StopInstance "stop an instance",
    /// `instance(Restart)`.
    RestartInstance "restart an instance",
    /// `history`.
    History "history",
    /// `mark_healthy`.
    MarkHealthy "mark as healthy",
    /// `run` of a job of the caller's.
    RunOneOff "run a job once",
    /// `run` of a periodic job, now.
    RunNow "run a periodic job now",
    /// `plan`, and launches that are bound to one.
    Plan "plan",
    /// `put_config`.
    PutConfig "store configurations",
    /// `expose` and `unexpose`.
    Expose "expose",
    /// Routes to several workloads by weight.
    WeightedRoutes "weighted routes",
    /// `endpoints`.
    Endpoints "endpoints",
    /// `ensure_namespace` and `delete_namespace`.
    Namespaces "namespaces",
    /// `logs`.
    Logs "logs",
    /// `logs` from a time on.
    LogsSince "logs since a time",
    /// `logs` of the run of a container before the present one.
    PreviousLogs "logs of the previous run",
    /// Sidecar containers.
    Sidecars "sidecar containers",
    /// Init containers.
    InitContainers "init containers",
    /// HTTP and HTTPS probes.
    HttpProbes "HTTP probes",
    /// TCP probes.
    TcpProbes "TCP probes",
    /// Commands as probes.
    ExecProbes "exec probes",
    /// gRPC probes.
    GrpcProbes "gRPC probes",
    /// Startup probes.
    StartupProbes "startup probes",
    /// UDP ports.
    UdpPorts "UDP ports",
    /// Environment variables with what only the instance knows.
    RuntimeFields "runtime fields in env",
    /// Environment variables and files from a configuration.
    ConfigReferences "configuration references",
    /// Empty volumes.
    EmptyVolumes "empty volumes",
    /// Folders of the node as volumes.
    HostVolumes "host volumes",
    /// Persistent volumes.
    ClaimVolumes "persistent volumes",
    /// Replacing all instances at once.
    Recreate "recreate updates",
    /// Placement by node labels.
    NodeRules "placement by node labels",
    /// Spreading over a node label.
    Spread "spread placement",
    /// Service identities.
    Identity "service identity",
    /// Registry credentials.
    PullSecrets "pull secrets",
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

/// Whether a backend can do something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "it is yes or no")]
pub enum Support {
    /// It can.
    Yes,
    /// It cannot, and why.
    No(String),
}

/// What a backend can do. Fixed when a scheduler is built; a feature that is not listed is a "no".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    backend: BackendName,
    features: BTreeMap<Feature, Support>,
}

impl Capabilities {
    /// A backend that can do nothing yet.
    #[must_use]
    pub fn none(backend: BackendName) -> Self {
        Self { backend, features: BTreeMap::new() }
    }

    /// A backend that can do everything that this version of the library knows.
    #[must_use]
    pub fn all(backend: BackendName) -> Self {
        Feature::ALL.iter().fold(Self::none(backend), |all, feature| all.with(*feature, Support::Yes))
    }

    /// Sets one feature.
    #[must_use]
    pub fn with(mut self, feature: Feature, support: Support) -> Self {
        self.features.insert(feature, support);
        self
    }

    /// The backend.
    #[must_use]
    pub fn backend(&self) -> &BackendName {
        &self.backend
    }

    /// Whether it has the feature.
    #[must_use]
    pub fn has(&self, feature: Feature) -> bool {
        self.features.get(&feature) == Some(&Support::Yes)
    }

    /// Whether it has the feature, or why not.
    #[must_use]
    pub fn support(&self, feature: Feature) -> Support {
        self.features
            .get(&feature)
            .cloned()
            .unwrap_or_else(|| Support::No("this backend does not know of it".to_owned()))
    }

    /// Checks what an operation needs, before anything is sent.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] with the first feature that is missing and the reason.
    pub fn require(&self, needed: &BTreeSet<Feature>) -> Result<(), Error> {
        for feature in needed {
            if let Support::No(reason) = self.support(*feature) {
                return Err(Error::new(ErrorKind::Unsupported(Some(*feature)), format!("{feature}: {reason}"))
                    .with_backend(&self.backend));
            }
        }
        Ok(())
    }
}
