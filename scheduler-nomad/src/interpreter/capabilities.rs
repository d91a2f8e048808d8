//! What this backend can do, and why it cannot do the rest.

use scheduler_core::{BackendName, Capabilities, Feature, Support};

/// From here on the check index and the registration are one step (hashicorp/nomad#27832).
const ATOMIC_SINCE: (u32, u32, u32) = (2, 0, 1);

/// What there is no way to say to Nomad, or to be told by it.
const LACKS: &[(Feature, &str)] = &[
    (Feature::StartupProbes, "Nomad has no check that the others wait for"),
    (Feature::ExecProbes, "Nomad's own services are checked by HTTP and TCP only"),
    (Feature::GrpcProbes, "Nomad's own services are checked by HTTP and TCP only"),
    (Feature::EmptyVolumes, "each driver has its own; use the folder NOMAD_ALLOC_DIR, or the extension"),
    (Feature::HostVolumes, "Nomad knows folders of a node by names, not by paths; use a claim"),
    (Feature::Recreate, "Nomad starts a new allocation when the old one is told to end, not when it has"),
    (Feature::Identity, "Nomad binds rights to the names of jobs, not to accounts"),
    (Feature::PullSecrets, "Nomad has none; configure the driver on the nodes, or use the extension"),
    (Feature::JobParallelism, "Nomad places all instances of a batch job at once"),
    (Feature::JobDeadline, "Nomad bounds one instance (from 2.0.3 on), not a job with all its tries"),
    (Feature::JobTimeToLive, "the servers collect all ended jobs after one time (batch_eval_gc_threshold)"),
    (Feature::ReplaceOverlap, "Nomad leaves a run out or starts it beside the last one; it ends none"),
    (Feature::StartingDeadline, "Nomad starts what it missed when it comes back, however late"),
    (Feature::PeriodicHistory, "the servers collect all ended runs after one time (batch_eval_gc_threshold)"),
    (Feature::OrderedSuccessors, "Nomad starts a new allocation when the old one is told to end, not when it has"),
    (Feature::PerInstanceVolumes, "Nomad finds a volume for each instance (per_alloc) and makes none"),
    (Feature::LaunchTimes, "the time of a job is that of its last registration, and a scale is one"),
    (Feature::WeightedRoutes, "the tags of a service say nothing of other services, nor of weights"),
    (Feature::LogsSince, "Nomad keeps output without its times"),
    (Feature::PreviousLogs, "Nomad keeps the output of all runs of a task in one file"),
];

/// What a server of this version allows.
pub(super) fn capabilities(version: Option<(u32, u32, u32)>) -> Capabilities {
    let no = |reason: &str| Support::No(reason.to_owned());
    let all = Capabilities::all(BackendName::nomad());
    let all = LACKS.iter().fold(all, |all, (feature, reason)| all.with(*feature, no(reason)));
    if version.is_some_and(|version| version >= ATOMIC_SINCE) {
        return all;
    }
    let (major, minor, patch) = ATOMIC_SINCE;
    let which = match version {
        Some((major, minor, patch)) => format!("the server has {major}.{minor}.{patch}"),
        None => "the server's version is unknown".to_owned(),
    };
    all.with(
        Feature::CompareAndSet,
        no(&format!("the check index is atomic from Nomad {major}.{minor}.{patch} on; {which}")),
    )
}
