//! The fields of a job, as the recordings show them: their types, and what the server answers for one that was not sent.

use super::schema::{
    Default::{self, Absent, Null},
    Field,
    Kind::{self, Any, Bool, Duration, Int, List, Object, Server, Text, TextMap, Texts, Uint, Unrecorded},
    Struct,
};

const fn field(name: &'static str, kind: Kind, default: Default) -> Field {
    Field { name, kind, default }
}

const NO: Default = Default::Bool(false);
const ZERO: Default = Default::Int(0);
const EMPTY: Default = Default::Text("");
const SECOND: i64 = 1_000_000_000;

/// The body of a registration, and of a plan.
pub(crate) static REQUEST: Struct = Struct {
    name: "JobRegisterRequest",
    fields: &[
        field("Job", Any, Null),
        field("EnforceIndex", Bool, NO),
        field("JobModifyIndex", Uint, ZERO),
        field("PreserveCounts", Bool, NO),
        field("PreserveResources", Unrecorded, NO),
        field("PolicyOverride", Unrecorded, NO),
        field("EvalPriority", Unrecorded, ZERO),
        field("Submission", Object(&SUBMISSION), Null),
        field("Diff", Bool, NO),
    ],
};

static SUBMISSION: Struct = Struct {
    name: "JobSubmission",
    fields: &[
        field("Source", Text, EMPTY),
        field("Format", Text, EMPTY),
        field("Variables", Text, EMPTY),
        field("VariableFlags", TextMap, Null),
    ],
};

pub(crate) static JOB: Struct = Struct {
    name: "Job",
    fields: &[
        field("Affinities", List(&AFFINITY), Null),
        field("AllAtOnce", Unrecorded, NO),
        field("Constraints", List(&CONSTRAINT), Null),
        field("ConsulNamespace", Unrecorded, EMPTY),
        field("CreateIndex", Server, ZERO),
        field("Datacenters", Texts, Default::Texts("*")),
        field("DispatchIdempotencyToken", Server, EMPTY),
        field("Dispatched", Server, NO),
        field("ID", Text, EMPTY),
        field("JobModifyIndex", Server, ZERO),
        field("Meta", TextMap, Null),
        field("ModifyIndex", Server, ZERO),
        field("Multiregion", Any, Null),
        field("Name", Text, EMPTY),
        field("Namespace", Text, EMPTY),
        field("NodePool", Text, Default::Text("default")),
        field("NomadTokenID", Server, EMPTY),
        field("ParameterizedJob", Object(&PARAMETERS), Null),
        field("ParentID", Server, EMPTY),
        field("Payload", Any, Null),
        field("Periodic", Object(&PERIODIC), Null),
        field("Priority", Int, Default::Int(50)),
        field("Region", Text, Default::Text("global")),
        field("Reschedule", Unrecorded, Absent),
        field("Migrate", Unrecorded, Absent),
        field("Spreads", List(&SPREAD), Null),
        field("Stable", Server, NO),
        field("Status", Server, EMPTY),
        field("StatusDescription", Server, EMPTY),
        field("Stop", Bool, NO),
        field("SubmitTime", Server, ZERO),
        field("TaskGroups", List(&GROUP), Null),
        field("Type", Text, Default::Text("service")),
        field("UI", Any, Null),
        field("Update", Object(&JOB_UPDATE), Default::Object),
        field("VaultNamespace", Unrecorded, EMPTY),
        field("Version", Server, ZERO),
        field("VersionTag", Server, Null),
    ],
};

static PERIODIC: Struct = Struct {
    name: "PeriodicConfig",
    fields: &[
        field("Enabled", Bool, Default::Bool(true)),
        field("ProhibitOverlap", Bool, NO),
        field("Spec", Text, EMPTY),
        field("SpecType", Text, Default::Text("cron")),
        field("Specs", Texts, Null),
        field("TimeZone", Text, Default::Text("UTC")),
    ],
};

static PARAMETERS: Struct = Struct {
    name: "ParameterizedJobConfig",
    fields: &[
        field("MetaOptional", Texts, Null),
        field("MetaRequired", Texts, Null),
        field("Payload", Text, Default::Text("optional")),
    ],
};

/// Every service job has it; only groups are recorded to have another one.
static JOB_UPDATE: Struct = Struct {
    name: "UpdateStrategy",
    fields: &[
        field("AutoPromote", Unrecorded, NO),
        field("AutoRevert", Unrecorded, NO),
        field("Canary", Unrecorded, ZERO),
        field("HealthCheck", Unrecorded, EMPTY),
        field("HealthyDeadline", Unrecorded, ZERO),
        field("MaxParallel", Server, Default::Int(1)),
        field("MinHealthyTime", Unrecorded, ZERO),
        field("ProgressDeadline", Unrecorded, ZERO),
        field("Stagger", Server, Default::Int(30 * SECOND)),
    ],
};

static CONSTRAINT: Struct = Struct {
    name: "Constraint",
    fields: &[field("LTarget", Text, EMPTY), field("Operand", Text, EMPTY), field("RTarget", Text, EMPTY)],
};

static AFFINITY: Struct = Struct {
    name: "Affinity",
    fields: &[
        field("LTarget", Text, EMPTY),
        field("Operand", Text, EMPTY),
        field("RTarget", Text, EMPTY),
        field("Weight", Int, Default::Int(50)),
    ],
};

static SPREAD: Struct = Struct {
    name: "Spread",
    fields: &[
        field("Attribute", Text, EMPTY),
        field("SpreadTarget", List(&SPREAD_TARGET), Null),
        field("Weight", Int, Default::Int(50)),
    ],
};

static SPREAD_TARGET: Struct =
    Struct { name: "SpreadTarget", fields: &[field("Percent", Int, ZERO), field("Value", Text, EMPTY)] };

static GROUP: Struct = Struct {
    name: "TaskGroup",
    fields: &[
        field("Affinities", Unrecorded, Null),
        field("Constraints", List(&CONSTRAINT), Null),
        field("Consul", Unrecorded, Null),
        field("Count", Int, Default::Int(1)),
        field("Disconnect", Unrecorded, Null),
        field("EphemeralDisk", Object(&DISK), Default::Object),
        field("MaxClientDisconnect", Unrecorded, Null),
        field("MaxRunDuration", Unrecorded, Null),
        field("Meta", TextMap, Null),
        field("Migrate", Object(&MIGRATE), Null),
        field("Name", Text, EMPTY),
        field("Networks", List(&NETWORK), Null),
        field("PreventRescheduleOnLost", Unrecorded, NO),
        field("ReschedulePolicy", Object(&RESCHEDULE), Null),
        field("RestartPolicy", Object(&RESTART), Default::Object),
        field("Scaling", Object(&SCALING), Null),
        field("Services", List(&SERVICE), Null),
        field("ShutdownDelay", Unrecorded, Null),
        field("Spreads", List(&SPREAD), Null),
        field("StopAfterClientDisconnect", Unrecorded, Null),
        field("Tasks", List(&TASK), Null),
        field("Update", Object(&UPDATE), Null),
        field("Volumes", Unrecorded, Null),
    ],
};

static SCALING: Struct = Struct {
    name: "ScalingPolicy",
    fields: &[
        field("CreateIndex", Server, ZERO),
        field("Enabled", Bool, Default::Bool(true)),
        field("ID", Server, EMPTY),
        field("Max", Int, Null),
        field("Min", Int, Null),
        field("ModifyIndex", Server, ZERO),
        field("Policy", Any, Default::Object),
        field("Target", Server, Null),
        field("Type", Text, Default::Text("horizontal")),
    ],
};

static DISK: Struct = Struct {
    name: "EphemeralDisk",
    fields: &[
        field("Migrate", Unrecorded, NO),
        field("SizeMB", Int, Default::Int(300)),
        field("Sticky", Unrecorded, NO),
    ],
};

pub(crate) static MIGRATE: Struct = Struct {
    name: "MigrateStrategy",
    fields: &[
        field("HealthCheck", Text, Default::Text("checks")),
        field("HealthyDeadline", Duration, Default::Int(300 * SECOND)),
        field("MaxParallel", Int, Default::Int(1)),
        field("MinHealthyTime", Duration, Default::Int(10 * SECOND)),
    ],
};

pub(crate) static RESCHEDULE: Struct = Struct {
    name: "ReschedulePolicy",
    fields: &[
        field("Attempts", Int, ZERO),
        field("Delay", Duration, Default::Int(30 * SECOND)),
        field("DelayFunction", Text, Default::Text("exponential")),
        field("Interval", Duration, ZERO),
        field("MaxDelay", Duration, Default::Int(3600 * SECOND)),
        field("Unlimited", Bool, Default::Bool(true)),
    ],
};

/// What a batch job has in the place of [`RESCHEDULE`].
pub(crate) static BATCH_RESCHEDULE: Struct = Struct {
    name: "ReschedulePolicy",
    fields: &[
        field("Attempts", Int, Default::Int(1)),
        field("Delay", Duration, Default::Int(5 * SECOND)),
        field("DelayFunction", Text, Default::Text("constant")),
        field("Interval", Duration, Default::Int(86_400 * SECOND)),
        field("MaxDelay", Duration, ZERO),
        field("Unlimited", Bool, NO),
    ],
};

/// What a batch job has in the place of [`RESTART`].
pub(crate) static BATCH_RESTART: Struct = Struct {
    name: "RestartPolicy",
    fields: &[
        field("Attempts", Int, Default::Int(3)),
        field("Delay", Duration, Default::Int(15 * SECOND)),
        field("Interval", Duration, Default::Int(86_400 * SECOND)),
        field("Mode", Text, Default::Text("fail")),
        field("RenderTemplates", Unrecorded, NO),
    ],
};

static RESTART: Struct = Struct {
    name: "RestartPolicy",
    fields: &[
        field("Attempts", Int, Default::Int(2)),
        field("Delay", Duration, Default::Int(15 * SECOND)),
        field("Interval", Duration, Default::Int(1800 * SECOND)),
        field("Mode", Text, Default::Text("fail")),
        field("RenderTemplates", Unrecorded, NO),
    ],
};

pub(crate) static UPDATE: Struct = Struct {
    name: "UpdateStrategy",
    fields: &[
        field("AutoPromote", Bool, NO),
        field("AutoRevert", Bool, NO),
        field("Canary", Int, ZERO),
        field("HealthCheck", Text, Default::Text("checks")),
        field("HealthyDeadline", Duration, Default::Int(300 * SECOND)),
        field("MaxParallel", Int, Default::Int(1)),
        field("MinHealthyTime", Duration, Default::Int(10 * SECOND)),
        field("ProgressDeadline", Duration, Default::Int(600 * SECOND)),
        field("Stagger", Duration, Default::Int(30 * SECOND)),
    ],
};

static NETWORK: Struct = Struct {
    name: "NetworkResource",
    fields: &[
        field("CIDR", Unrecorded, Absent),
        field("CNI", Unrecorded, Absent),
        field("DNS", Unrecorded, Absent),
        field("Device", Unrecorded, Absent),
        field("DynamicPorts", List(&PORT), Absent),
        field("Hostname", Unrecorded, Absent),
        field("IP", Unrecorded, Absent),
        field("MBits", Unrecorded, Absent),
        field("Mode", Text, Absent),
        field("ReservedPorts", List(&PORT), Absent),
    ],
};

static PORT: Struct = Struct {
    name: "Port",
    fields: &[
        field("HostNetwork", Text, Default::Text("default")),
        field("IgnoreCollision", Unrecorded, Absent),
        field("Label", Text, Absent),
        field("To", Int, Absent),
        field("Value", Int, Absent),
    ],
};

static SERVICE: Struct = Struct {
    name: "Service",
    fields: &[
        field("Address", Unrecorded, EMPTY),
        field("AddressMode", Unrecorded, Default::Text("auto")),
        field("CanaryMeta", Unrecorded, Null),
        field("CanaryTags", Texts, Null),
        field("Checks", List(&CHECK), Null),
        field("Cluster", Unrecorded, Default::Text("default")),
        field("Connect", Unrecorded, Null),
        field("EnableTagOverride", Unrecorded, NO),
        field("Identity", Unrecorded, Null),
        field("Kind", Unrecorded, EMPTY),
        field("Meta", Unrecorded, Null),
        field("Name", Text, EMPTY),
        field("Namespace", Server, Default::Text("default")),
        field("OnUpdate", Unrecorded, Default::Text("require_healthy")),
        field("PortLabel", Text, EMPTY),
        field("Provider", Text, Default::Text("consul")),
        field("TaggedAddresses", Unrecorded, Null),
        field("Tags", Texts, Null),
        field("TaskName", Text, EMPTY),
        field("Weights", Unrecorded, Null),
    ],
};

static CHECK: Struct = Struct {
    name: "ServiceCheck",
    fields: &[
        field("AddressMode", Unrecorded, EMPTY),
        field("Args", Unrecorded, Null),
        field("Body", Unrecorded, EMPTY),
        field("CheckRestart", Object(&CHECK_RESTART), Null),
        field("Command", Text, EMPTY),
        field("Expose", Unrecorded, NO),
        field("FailuresBeforeCritical", Unrecorded, ZERO),
        field("FailuresBeforeWarning", Unrecorded, ZERO),
        field("GRPCService", Unrecorded, EMPTY),
        field("GRPCUseTLS", Unrecorded, NO),
        field("Header", Unrecorded, Null),
        field("InitialStatus", Unrecorded, EMPTY),
        field("Interval", Duration, ZERO),
        field("Method", Text, EMPTY),
        field("Name", Text, EMPTY),
        field("Notes", Unrecorded, EMPTY),
        field("OnUpdate", Unrecorded, Default::Text("require_healthy")),
        field("Path", Text, EMPTY),
        field("PortLabel", Text, EMPTY),
        field("Protocol", Text, EMPTY),
        field("SuccessBeforePassing", Unrecorded, ZERO),
        field("TLSServerName", Unrecorded, EMPTY),
        field("TLSSkipVerify", Bool, NO),
        field("TaskName", Text, EMPTY),
        field("Timeout", Duration, ZERO),
        field("Type", Text, EMPTY),
    ],
};

static CHECK_RESTART: Struct = Struct {
    name: "CheckRestart",
    fields: &[
        field("Grace", Duration, Default::Int(SECOND)),
        field("IgnoreWarnings", Bool, NO),
        field("Limit", Int, ZERO),
    ],
};

static LIFECYCLE: Struct =
    Struct { name: "TaskLifecycle", fields: &[field("Hook", Text, EMPTY), field("Sidecar", Bool, NO)] };

static TASK: Struct = Struct {
    name: "Task",
    fields: &[
        field("Actions", Unrecorded, Null),
        field("Affinities", Unrecorded, Null),
        field("Artifacts", Unrecorded, Null),
        field("CSIPluginConfig", Unrecorded, Null),
        field("Config", Any, Null),
        field("Constraints", Unrecorded, Null),
        field("Consul", Unrecorded, Null),
        field("DispatchPayload", Unrecorded, Null),
        field("Driver", Text, EMPTY),
        field("Env", TextMap, Null),
        field("Identities", Unrecorded, Null),
        field("Identity", Object(&IDENTITY), Default::Object),
        field("KillSignal", Text, EMPTY),
        field("KillTimeout", Duration, Default::Int(5 * SECOND)),
        field("Kind", Unrecorded, EMPTY),
        field("Leader", Bool, NO),
        field("Lifecycle", Object(&LIFECYCLE), Null),
        field("LogConfig", Object(&LOGS), Default::Object),
        field("Meta", TextMap, Null),
        field("Name", Text, EMPTY),
        field("Resources", Object(&RESOURCES), Default::Object),
        field("RestartPolicy", Object(&RESTART), Null),
        field("ScalingPolicies", Unrecorded, Null),
        field("Schedule", Unrecorded, Null),
        field("Secrets", Unrecorded, Null),
        field("Services", Unrecorded, Null),
        field("ShutdownDelay", Unrecorded, ZERO),
        field("Templates", List(&TEMPLATE), Null),
        field("User", Text, EMPTY),
        field("Vault", Unrecorded, Null),
        field("VolumeMounts", Unrecorded, Null),
    ],
};

static TEMPLATE: Struct = Struct {
    name: "Template",
    fields: &[
        field("ChangeMode", Text, Default::Text("restart")),
        field("ChangeScript", Unrecorded, Null),
        field("ChangeSignal", Text, EMPTY),
        field("DestPath", Text, EMPTY),
        field("EmbeddedTmpl", Text, EMPTY),
        field("Envvars", Bool, NO),
        field("ErrMissingKey", Bool, NO),
        field("Gid", Unrecorded, Null),
        field("LeftDelim", Text, Default::Text("{{")),
        field("Once", Bool, NO),
        field("Perms", Text, Default::Text("0644")),
        field("RightDelim", Text, Default::Text("}}")),
        field("SourcePath", Unrecorded, EMPTY),
        field("Splay", Duration, Default::Int(5 * SECOND)),
        field("Uid", Unrecorded, Null),
        field("VaultGrace", Unrecorded, ZERO),
        field("Wait", Unrecorded, Null),
    ],
};

static IDENTITY: Struct = Struct {
    name: "WorkloadIdentity",
    fields: &[
        field("Audience", Texts, Default::Texts("nomadproject.io")),
        field("ChangeMode", Unrecorded, EMPTY),
        field("ChangeSignal", Unrecorded, EMPTY),
        field("Env", Unrecorded, NO),
        field("ExtraClaims", Unrecorded, Null),
        field("File", Unrecorded, NO),
        field("Filepath", Unrecorded, EMPTY),
        field("Name", Unrecorded, Default::Text("default")),
        field("ServiceName", Unrecorded, EMPTY),
        field("TTL", Unrecorded, ZERO),
    ],
};

static LOGS: Struct = Struct {
    name: "LogConfig",
    fields: &[
        field("Disabled", Unrecorded, NO),
        field("MaxFileSizeMB", Int, Default::Int(10)),
        field("MaxFiles", Int, Default::Int(10)),
    ],
};

static RESOURCES: Struct = Struct {
    name: "Resources",
    fields: &[
        field("CPU", Int, Default::Int(100)),
        field("Cores", Unrecorded, ZERO),
        field("Devices", Unrecorded, Null),
        field("DiskMB", Unrecorded, ZERO),
        field("IOPS", Unrecorded, ZERO),
        field("MemoryMB", Int, Default::Int(300)),
        field("MemoryMaxMB", Int, ZERO),
        field("NUMA", Unrecorded, Null),
        field("Networks", Unrecorded, Null),
        field("SecretsMB", Unrecorded, ZERO),
    ],
};
