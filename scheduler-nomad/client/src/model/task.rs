//! Groups, tasks and what belongs to them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Constraint, Nanos, model};

model! {
    /// Tasks that are placed together on one node, a number of times.
    TaskGroup shows [name, count, tasks] {
        /// The name, unique in the job.
        name: String,
        /// How many instances. Left out it is 1, **also on a job that was scaled**; zero is zero.
        count: Option<u32>,
        /// Marks. Any change replaces every instance.
        meta: BTreeMap<String, String>,
        /// What a node must have.
        constraints: Vec<Constraint>,
        /// At most one network.
        networks: Vec<Network>,
        /// Services to register.
        services: Vec<Service>,
        /// What happens on the node when a task ends.
        restart_policy: Option<RestartPolicy>,
        /// What happens when an instance failed on its node. Refused on system jobs.
        reschedule_policy: Option<ReschedulePolicy>,
        /// How a new version is rolled out. Refused on batch jobs.
        update: Option<Update>,
        /// Space that the tasks share.
        ephemeral_disk: Option<EphemeralDisk>,
        /// Volumes, by the name that mounts use.
        volumes: BTreeMap<String, VolumeRequest>,
        /// The tasks.
        tasks: Vec<Task>,
    }
}

impl TaskGroup {
    /// A group of this name, with nothing in it.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

model! {
    /// One program.
    Task shows [name, driver] {
        /// The name, unique in the group.
        name: String,
        /// Who runs it: `docker`, `exec`, `raw_exec`, `podman` or another plug-in.
        driver: String,
        /// The user on the node.
        user: String,
        /// The driver's own settings. Durations are strings here.
        config: BTreeMap<String, Value>,
        /// Environment variables. The node replaces `${…}` in them.
        env: BTreeMap<String, String>,
        /// Marks. Any change replaces every instance.
        meta: BTreeMap<String, String>,
        /// What a node must have.
        constraints: Vec<Constraint>,
        /// Files made on the node.
        templates: Vec<Template>,
        /// What it needs.
        resources: Option<Resources>,
        /// Volumes of the group, as this task sees them.
        volume_mounts: Vec<VolumeMount>,
        /// How much output is kept.
        log_config: Option<LogConfig>,
        /// How long it may take to end; 5 s where it is left out.
        kill_timeout: Option<Nanos>,
        /// The signal that asks it to end; SIGINT where it is left out.
        kill_signal: String,
        /// The time between leaving the service registry and the signal.
        shutdown_delay: Option<Nanos>,
        /// Whether the others end with it.
        leader: Option<bool>,
        /// When it runs, for those that are not main tasks.
        lifecycle: Option<Lifecycle>,
    }
}

impl Task {
    /// A task of this name and driver, with nothing in it.
    #[must_use]
    pub fn new(name: impl Into<String>, driver: impl Into<String>) -> Self {
        Self { name: name.into(), driver: driver.into(), ..Self::default() }
    }
}

model! {
    /// When a task runs that is not a main one.
    Lifecycle shows [hook, sidecar] {
        /// `prestart`, `poststart` or `poststop`.
        hook: String,
        /// Whether it runs beside the main tasks, instead of ending before or after them.
        sidecar: Option<bool>,
    }
}

model! {
    /// What a task needs.
    Resources shows [cpu, cores, memory_mb, memory_max_mb] {
        /// MHz; 100 where it is left out. Not together with `cores`.
        #[serde(rename = "CPU")]
        cpu: Option<u64>,
        /// Whole cores.
        cores: Option<u64>,
        /// MB; 300 where it is left out.
        #[serde(rename = "MemoryMB")]
        memory_mb: Option<u64>,
        /// MB up to which it may go where the cluster allows more than asked for. Zero is none, −1 no limit.
        #[serde(rename = "MemoryMaxMB")]
        memory_max_mb: Option<i64>,
    }
}

model! {
    /// How much of a task's output is kept.
    LogConfig shows [max_files, max_file_size_mb, disabled] {
        /// Files per stream; 10 where it is left out.
        max_files: Option<u64>,
        /// MB per file; 10 where it is left out.
        #[serde(rename = "MaxFileSizeMB")]
        max_file_size_mb: Option<u64>,
        /// Whether none is kept.
        disabled: Option<bool>,
    }
}

model! {
    /// Space that the tasks of a group share.
    EphemeralDisk shows [size_mb, sticky, migrate] {
        /// MB; 300 where it is left out.
        #[serde(rename = "SizeMB")]
        size_mb: Option<u64>,
        /// Whether the next instance comes to the same node if it can.
        sticky: Option<bool>,
        /// Whether the data moves along to another node.
        migrate: Option<bool>,
    }
}

model! {
    /// The network of a group.
    Network shows [mode, reserved_ports, dynamic_ports] {
        /// `host`, `bridge`, `none` or `cni/<name>`; host where it is left out.
        mode: String,
        /// Ports of the node that are asked for by number.
        reserved_ports: Vec<Port>,
        /// Ports of the node that the server picks.
        dynamic_ports: Vec<Port>,
    }
}

model! {
    /// A port.
    Port shows [label, value, to] {
        /// The name, unique in the group.
        label: String,
        /// The number on the node.
        value: Option<u16>,
        /// The number inside of the network namespace. −1 means the same as outside.
        to: Option<i32>,
        /// Which of the node's addresses.
        host_network: String,
    }
}

model! {
    /// A service to register.
    Service shows [name, provider, port_label, tags] {
        /// The name that it is found by.
        name: String,
        /// `nomad` or `consul`. **Left out it is consul**, without which the group cannot be placed.
        provider: String,
        /// The port's label.
        port_label: String,
        /// Which address is registered: `auto`, `alloc`, `driver` or `host`.
        address_mode: String,
        /// Words that others read, such as a proxy's rules.
        tags: Vec<String>,
        /// The same for canaries. Empty means `tags`.
        canary_tags: Vec<String>,
        /// How its health is found out.
        checks: Vec<ServiceCheck>,
        /// Pairs that others read.
        meta: BTreeMap<String, String>,
    }
}

model! {
    /// How the health of a service is found out.
    ServiceCheck shows [name, r#type, path, interval, timeout] {
        /// The name, best unique in the service.
        name: String,
        /// `http`, `tcp`; others with Consul only.
        r#type: String,
        /// What an HTTP check asks for.
        path: String,
        /// `GET` where it is left out.
        method: String,
        /// `http` or `https`.
        protocol: String,
        /// Another port than the service's.
        port_label: String,
        /// Another address than the service's.
        address_mode: String,
        /// The time between two checks, 1 s or more.
        interval: Option<Nanos>,
        /// How long an answer may take, 1 s or more.
        timeout: Option<Nanos>,
        /// What a failure means for a rollout: `require_healthy`, `ignore` or `ignore_warnings`.
        on_update: String,
        /// Headers that an HTTP check sends.
        header: BTreeMap<String, Vec<String>>,
    }
}

model! {
    /// What happens on the node when a task ends.
    RestartPolicy shows [attempts, interval, delay, mode] {
        /// How often it is started again within the interval.
        attempts: Option<u32>,
        /// The interval, 5 s or more.
        interval: Option<Nanos>,
        /// The pause before each start.
        delay: Option<Nanos>,
        /// `fail` or `delay`.
        mode: String,
    }
}

model! {
    /// What happens when an instance failed on its node.
    ReschedulePolicy shows [attempts, interval, delay, delay_function, max_delay, unlimited] {
        /// How often it is placed anew within the interval.
        attempts: Option<u32>,
        /// The interval, 15 s or more.
        interval: Option<Nanos>,
        /// The pause before, 5 s or more.
        delay: Option<Nanos>,
        /// `constant`, `exponential` or `fibonacci`.
        delay_function: String,
        /// The longest pause.
        max_delay: Option<Nanos>,
        /// Whether there is no end to it.
        unlimited: Option<bool>,
    }
}

model! {
    /// How a new version is rolled out.
    Update shows [max_parallel, canary, health_check, min_healthy_time, healthy_deadline, progress_deadline] {
        /// How many at once. Zero means that there are no deployments.
        max_parallel: Option<u32>,
        /// How many run beside the old ones until somebody promotes them.
        canary: Option<u32>,
        /// `checks`, `task_states` or `manual`.
        health_check: String,
        /// How long an instance has to be well to count as healthy.
        min_healthy_time: Option<Nanos>,
        /// How long it may take to be so.
        healthy_deadline: Option<Nanos>,
        /// How long a deployment goes on without a newly healthy instance. Zero: the first unhealthy one ends it.
        progress_deadline: Option<Nanos>,
        /// Whether a failed deployment registers the last stable version again.
        auto_revert: Option<bool>,
        /// Whether canaries are promoted as soon as all are healthy.
        auto_promote: Option<bool>,
        /// For system jobs before 1.11.
        stagger: Option<Nanos>,
    }
}

model! {
    /// A file made on the node. **While what it reads is missing, such as a variable, the task stays pending.**
    Template shows [dest_path, change_mode, envvars] {
        /// The text, with `{{ … }}` for what the node puts in.
        embedded_tmpl: String,
        /// A file of the task that has the text instead.
        source_path: String,
        /// Where it goes, from the task's folder.
        dest_path: String,
        /// What happens when it changes: `restart`, `noop`, `signal` or `script`; restart where it is left out.
        change_mode: String,
        /// The signal, for `signal`.
        change_signal: String,
        /// Whether its lines become environment variables.
        envvars: Option<bool>,
        /// Whether a key that is missing in what was read is an error, instead of `<no value>`.
        err_missing_key: Option<bool>,
        /// Octal permissions; `0644` where it is left out.
        perms: String,
        /// The longest random pause before a change takes effect; 5 s where it is left out.
        splay: Option<Nanos>,
    }
}

model! {
    /// A volume of a group.
    VolumeRequest shows [name, r#type, source, read_only] {
        /// The name again.
        name: String,
        /// `host` or `csi`.
        r#type: String,
        /// What it is called on the node or in the cluster.
        source: String,
        /// Whether nobody writes.
        read_only: Option<bool>,
        /// `single-node-writer` and the like.
        access_mode: String,
        /// `file-system` or `block-device`.
        attachment_mode: String,
    }
}

model! {
    /// A volume of the group, as a task sees it.
    VolumeMount shows [volume, destination, read_only] {
        /// The name in the group.
        volume: String,
        /// Where it appears.
        destination: String,
        /// Whether this task only reads.
        read_only: Option<bool>,
    }
}
