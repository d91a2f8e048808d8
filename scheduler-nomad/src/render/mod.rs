//! A workload as a job. Pure: what it makes can be printed and compared without a server.

mod config;
mod driver;
mod extension;
mod kind;
mod task;
mod text;

use scheduler_core::registry::parse;
use scheduler_core::{
    CheckedWorkload, ConfigRef, Error, Fault, Feature, Kind, NodeMatch, OpName, OwnerId, Role, Rolling, Service, Update,
};
use scheduler_nomad_client::model::Job;
use serde_json::{Value, json};

pub(crate) use config::{item_of, keys_of, moved, variable};
pub use driver::Driver;
pub use extension::NomadExtension;

use crate::meta;
use driver::fault;

/// What rendering depends on besides the workload and the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RenderContext {
    /// How many instances of a service, from [`Replicas::resolve`](scheduler_core::Replicas::resolve).
    pub replicas: u32,
    /// Who runs the containers, unless the workload's extension says otherwise.
    pub driver: Driver,
    configs: Vec<(ConfigRef, Vec<String>)>,
}

impl RenderContext {
    /// This many instances, run by Docker.
    #[must_use]
    pub fn new(replicas: u32) -> Self {
        Self { replicas, driver: Driver::default(), configs: Vec::new() }
    }

    /// With this driver.
    #[must_use]
    pub fn driver(mut self, driver: Driver) -> Self {
        self.driver = driver;
        self
    }

    /// With the keys that a configuration has: Nomad writes one file at a time, and wants to know its name. A task whose
    /// volume is a configuration that nobody told of waits for ever.
    #[must_use]
    pub fn config(mut self, config: ConfigRef, keys: impl IntoIterator<Item = String>) -> Self {
        self.configs.push((config, keys.into_iter().collect()));
        self
    }

    fn keys_of(&self, config: &ConfigRef) -> &[String] {
        self.configs.iter().find(|(known, _)| known == config).map_or(&[], |(_, keys)| keys)
    }
}

/// A rendered job, and what of the workload means less on Nomad than it says.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Rendered {
    /// The job.
    pub job: Job,
    /// What a launch warns of.
    pub warnings: Vec<String>,
}

/// Renders a workload: one job with one task group, both of the workload's name, and a task for each container.
///
/// * **Kinds**: a service is a job of type `service`; with stable identities its instances are replaced one by one, and each
///   begins when the one before it has ended. A job is of type `batch` with as many instances as completions, each tried again
///   on its node (`RestartPolicy`, mode `fail`). A periodic one is a batch job with a `Periodic` block. A system is a job of
///   type `system`, which is spread over the nodes by itself.
///
/// * **Meta** of the job: labels, annotations, `scheduler/owner` and the marks, but for `version`.
/// * **Driver**: the scheduler's, or the extension's. `docker` and `podman` run the image, with `command` as entry point;
///   `exec` and `raw_exec` run the command, and the image is only a name, kept in the task's `Meta`; any other driver is
///   configured by the extension.
/// * **Texts** reach the program byte for byte. The node would replace `${…}` in them, so that a `$` before a brace is
///   written `${NOMAD_META_scheduler_dollar}`, a variable that holds it.
/// * **Ports** are dynamic ports of the node, which Docker and Podman lead to the container's; a program of another driver
///   has no network of its own and has to listen on `NOMAD_PORT_<name>`. Each is a service of Nomad's own registry, named
///   `<workload>--<port>`.
/// * **Probes**: readiness by HTTP and TCP is a check that a rollout waits for. Its `initial_delay` is part of the time that
///   an instance has to be well (`MinHealthyTime`). Nomad asks no more once the rollout is complete. Liveness is a check
///   that restarts the task after `failures`; a rollout waits for it too.
/// * **Processor time**: 1000 millicores are 1000 MHz. It is a share; a limit is kept only where it equals the request and
///   the driver can (`cpu_hard_limit`).
/// * **Memory** in MiB: the request is set aside and is the limit too, unless a higher one is given and the cluster allows
///   memory oversubscription. Without any, Nomad gives 300 MiB.
/// * **Updates**: with `max_unavailable` n, n instances at a time are replaced, never more than there should be
///   (`MaxParallel`). With 0, Nomad knows only one way that never has too few: as many new ones as there should be beside
///   the old ones, which end once all of them are healthy (`Canary`, promoted automatically). That is more than a small
///   `max_surge` allows, and the launch warns of it. `auto_revert` is never set.
/// * **Deadline**: Nomad wants the `ProgressDeadline` longer than the other times; where `progress_deadline` is shorter
///   than the grace, the grace counts. The verdict's patience is not touched by that.
/// * **Canary updates** are Nomad's own (`Canary`, without automatic promotion).
/// * **Restarts** of services and systems go on for ever on the node. What cannot be started there is placed anew, for ever.
/// * **Configurations** are read from the variable `nomad/jobs/<workload>`, by templates that change nothing in a running task.
///   A volume's files are at its place in containers of Docker and Podman; a program of another driver finds them in
///   `NOMAD_SECRETS_DIR/config/<volume>`.
/// * **Init containers and sidecars** are prestart tasks, which Nomad starts all at once. So there can be one init container
///   without sidecars, or sidecars, whose order counts for nothing.
/// * **Volumes**: a claim is a host volume of that name; the extension makes another of it (`group.Volumes`).
/// * **Placement**: a node's label is its `Meta` (`${meta.<label>}`).
/// * [`NomadExtension`] is applied last.
///
/// ```
/// use scheduler_core::{Container, OwnerId, Workload};
/// use scheduler_nomad::{RenderContext, render};
///
/// let web = Workload::service("shop", "web").container(Container::new("web", "shop/web:1").port("http", 8080)).check()?;
/// let job = render(&web, &OwnerId::new("platform")?, &RenderContext::new(2))?.job;
/// assert_eq!(job.task_groups[0].count, Some(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`InvalidArgument`](scheduler_core::ErrorKind::InvalidArgument) when Nomad cannot have it so, or the extension is not
/// one; the causes name the fields. [`Unsupported`](scheduler_core::ErrorKind::Unsupported) where the
/// [capabilities](scheduler_core::Capabilities) say so.
pub fn render(workload: &CheckedWorkload, owner: &OwnerId, context: &RenderContext) -> Result<Rendered, Error> {
    let extension = NomadExtension::of(workload)?;
    let driver = extension.driver.clone().unwrap_or_else(|| context.driver.clone());
    check_roles(workload)?;
    let name = workload.target().name.as_str();
    let mut tasks = Vec::new();
    for container in workload.containers() {
        tasks.push(task::task(workload, container, &driver, context)?);
    }
    let mut group = json!({"Name": name, "Tasks": tasks});
    kind::group(workload, context.replicas, &mut group)?;
    task::network(workload, &driver, &mut group)?;
    task::volumes(workload, &mut group)?;
    let mut job = json!({
        "ID": name,
        "Name": name,
        "Namespace": workload.target().namespace.as_str(),
        "Type": kind::type_of(&workload.kind)?,
        "Datacenters": ["*"],
        "Meta": meta::of(workload, owner)?,
        "TaskGroups": [group],
    });
    kind::periodic(&workload.kind, &mut job)?;
    placement(workload, &mut job)?;
    extension.patch(&mut job)?;
    // What was rendered fits; what a patch made of it may not.
    let job = parse(job).map_err(|error| {
        let causes =
            error.causes().iter().map(|cause| Fault::new(format!("extensions.nomad: {}", cause.path), &*cause.problem));
        Error::invalid_argument("the extension is refused").with_causes(causes.collect())
    })?;
    Ok(Rendered { job, warnings: warnings(workload, context.replicas, &driver) })
}

/// The model can grow; what this version does not know is refused and never left out.
fn unknown(what: &str) -> Error {
    Error::unsupported(OpName::Launch, format!("{what} is newer than this version of the Nomad backend"))
}

/// What the capabilities say no to. The check before it is the caller's; a job is not rendered without it either.
fn lacking(feature: Feature) -> Error {
    Error::new(scheduler_core::ErrorKind::Unsupported(Some(feature)), format!("{feature}: Nomad has none"))
}

/// The path of a container's field.
fn path_of(workload: &CheckedWorkload, container: &str, field: &str) -> String {
    let at = workload.containers.iter().position(|c| c.name == container).unwrap_or_default();
    format!("containers[{at}].{field}")
}

/// So many seconds, as Nomad writes them.
fn nanos(seconds: u32) -> u64 {
    u64::from(seconds) * 1_000_000_000
}

/// Nomad starts all prestart tasks at once: nothing that has to come after another can be among them.
fn check_roles(workload: &CheckedWorkload) -> Result<(), Error> {
    let with = |role| workload.containers.iter().filter(move |container| container.role == role);
    let others = with(Role::Sidecar).count() + with(Role::Init).count() - 1_usize.min(with(Role::Init).count());
    match with(Role::Init).next_back() {
        Some(last) if others > 0 => Err(fault(
            path_of(workload, &last.name, "role"),
            "Nomad starts init containers and sidecars all at once: there can be one init container without sidecars",
        )),
        _ => Ok(()),
    }
}

fn placement(workload: &CheckedWorkload, job: &mut Value) -> Result<(), Error> {
    let mut constraints = Vec::new();
    for rule in &workload.placement.require {
        let attribute = format!("${{meta.{}}}", rule.label);
        let mut add = |operand: &str, value: &str| {
            constraints.push(json!({"LTarget": attribute, "Operand": operand, "RTarget": value}));
        };
        match &rule.is {
            // A label's value has no comma, which separates them here.
            NodeMatch::In(values) => add("set_contains_any", &values.join(",")),
            NodeMatch::NotIn(values) => values.iter().for_each(|value| add("!=", value)),
            NodeMatch::Exists => add("is_set", ""),
            NodeMatch::Absent => add("is_not_set", ""),
            _ => return Err(unknown("this rule over nodes")),
        }
    }
    if !constraints.is_empty() {
        job["Constraints"] = constraints.into();
    }
    // Nomad refuses it for a system, which is spread over all nodes anyway.
    if let (Some(label), false) = (&workload.placement.spread, matches!(workload.kind, Kind::System(_))) {
        job["Spreads"] = json!([{"Attribute": format!("${{meta.{label}}}"), "Weight": 100}]);
    }
    Ok(())
}

/// What of the workload means less than it says.
fn warnings(workload: &CheckedWorkload, replicas: u32, driver: &Driver) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Kind::Service(Service { update: Update::Rolling(Rolling { max_surge, max_unavailable: 0, .. }), .. }) =
        workload.kind
        && replicas > max_surge
    {
        warnings.push(format!(
            "with max_unavailable 0 an update has {replicas} instances above the count for a time, not {max_surge}"
        ));
    }
    if workload.containers.iter().filter(|container| container.role == Role::Sidecar).count() > 1 {
        warnings.push("sidecars start all at once, not in the order of the list".to_owned());
    }
    for container in workload.containers() {
        let name = &container.name;
        if !driver.runs_images() {
            warnings.push(format!("{name}: the driver {driver} runs no image; {} is only a name", container.image));
            if !container.ports.is_empty() {
                warnings
                    .push(format!("{name}: the driver {driver} has no ports of its own; listen on NOMAD_PORT_<name>"));
            }
            for (volume, _) in config::mounted(workload, &container) {
                warnings.push(format!(
                    "{name}: the driver {driver} has no file system of its own; the configuration is in \
                     NOMAD_SECRETS_DIR/config/{volume}"
                ));
            }
        }
        let resources = container.resources;
        if resources.cpu_limit.is_some() && (resources.cpu_limit != resources.cpu_request || !driver.runs_images()) {
            warnings.push(format!("{name}: the processor limit is not kept; the request is its share"));
        }
        match (resources.memory_request, resources.memory_limit) {
            (None, _) => warnings.push(format!("{name}: without a memory bound Nomad gives 300 MiB and no more")),
            (Some(_), None) => warnings.push(format!("{name}: the memory request is the limit too")),
            _ => {}
        }
    }
    warnings
}
