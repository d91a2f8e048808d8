//! Which node takes an allocation, or why none does.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    fate::DRIVERS,
    objects::{Alloc, Metric, Port},
    state::NodeState,
};
use crate::job::{Constraint, Group, Spec, Spread};

/// Ports that are given out on demand.
const DYNAMIC_PORTS: std::ops::Range<i64> = 20_000..32_000;

/// What is taken on the nodes, by the allocations that are there or about to be.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    nodes: BTreeMap<String, Taken>,
}

#[derive(Debug, Default, Clone)]
struct Taken {
    cpu: i64,
    memory_mb: i64,
    disk_mb: i64,
    ports: BTreeSet<i64>,
    /// Allocations of the job that is being placed, by group.
    same_job: Vec<String>,
}

/// A place for one allocation.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) node: String,
    pub(crate) node_name: String,
    pub(crate) ports: Vec<Port>,
    pub(crate) metric: Metric,
}

impl Usage {
    /// What these allocations take. `job` is the one to be placed.
    pub(crate) fn of<'a>(allocs: impl Iterator<Item = &'a Alloc>, job: &Spec) -> Self {
        let mut usage = Self::default();
        for alloc in allocs {
            let of = &alloc.job.spec.view;
            let Some(group) = of.group(&alloc.group) else { continue };
            let same_job = of.id == job.view.id && of.namespace == job.view.namespace;
            usage.take(&alloc.node, group, &alloc.ports, same_job);
        }
        usage
    }

    fn take(&mut self, node: &str, group: &Group, ports: &[Port], same_job: bool) {
        let taken = self.nodes.entry(node.to_owned()).or_default();
        taken.cpu += group.cpu();
        taken.memory_mb += group.memory_mb();
        taken.disk_mb += group.ephemeral_disk.size_mb;
        taken.ports.extend(ports.iter().map(|port| port.value));
        if same_job {
            taken.same_job.push(group.name.clone());
        }
    }

    /// Chooses a node, or takes the only one that will do, and takes what the group needs there. Preferred are the nodes with the most affinity, then those
    /// that a spread wants, then those with the
    /// fewest allocations of the job, then the fullest.
    pub(crate) fn place(
        &mut self,
        nodes: &[NodeState],
        job: &Spec,
        group: &Group,
        only: Option<&str>,
    ) -> Result<Place, Metric> {
        let mut metric = Metric::default();
        let up = || nodes.iter().filter(|node| node.up && only.is_none_or(|only| node.id == only));
        metric.in_pool = up().count() as u64;
        if in_datacenter(job) {
            metric.evaluated = metric.in_pool;
            metric.available = BTreeMap::from([("dc1".to_owned(), metric.in_pool)]);
        } else {
            return Err(Metric { in_pool: 0, ..metric });
        }
        let mut fitting = Vec::new();
        for node in up() {
            let taken = self.nodes.get(&node.id).cloned().unwrap_or_default();
            if let Some(reason) = infeasible(node, &taken, job, group) {
                *metric.filtered.entry(reason).or_default() += 1;
            } else if let Some(dimension) = exhausted(node, &taken, group) {
                *metric.exhausted.entry(dimension).or_default() += 1;
            } else {
                let affinity: i64 =
                    job.view.affinities.iter().filter(|a| holds(&a.constraint, node)).map(|a| a.weight).sum();
                let spreads = job.view.spreads.iter().chain(&group.spreads);
                let crowding: i64 = spreads.map(|spread| self.crowding(nodes, node, spread, &group.name)).sum();
                fitting.push((-affinity, crowding, taken.same_job.len(), -taken.memory_mb, node));
            }
        }
        let best = fitting
            .into_iter()
            .min_by(|(a, b, c, d, one), (e, f, g, h, other)| (a, b, c, d, &one.name).cmp(&(e, f, g, h, &other.name)));
        let Some((.., node)) = best else {
            metric.wanted = wanted(&metric, group);
            return Err(metric);
        };
        let ports = self.ports(group);
        self.take(&node.id, group, &ports, true);
        Ok(Place { node: node.id.clone(), node_name: node.name.clone(), ports, metric })
    }

    /// How full it would be where the node is, against what a spread wants there.
    fn crowding(&self, nodes: &[NodeState], node: &NodeState, spread: &Spread, group: &str) -> i64 {
        let value = resolve(&spread.attribute, node);
        let alike = nodes.iter().filter(|other| resolve(&spread.attribute, other) == value);
        let taken = alike.filter_map(|other| self.nodes.get(&other.id));
        let there = taken.flat_map(|taken| &taken.same_job).filter(|other| *other == group).count();
        let named: i64 = spread.targets.iter().map(|target| target.percent).sum();
        let wanted = spread.targets.iter().find(|target| Some(&target.value) == value.as_ref());
        // Values that are not named share what the named ones leave.
        let percent = wanted.map_or(100 - named, |target| target.percent).max(1);
        spread.weight * (i64::try_from(there).unwrap_or(i64::MAX / 1_000_000) + 1) * 100 / percent
    }

    fn ports(&self, group: &Group) -> Vec<Port> {
        // All nodes have the address of the loopback, so that a port of one is a port of all.
        let mut taken: BTreeSet<i64> = self.nodes.values().flat_map(|taken| taken.ports.iter().copied()).collect();
        let mut ports = Vec::new();
        for network in &group.networks {
            for port in &network.reserved_ports {
                ports.push(Port { label: port.label.clone(), value: port.value, to: port.to, reserved: true });
            }
            for port in &network.dynamic_ports {
                let value = DYNAMIC_PORTS.into_iter().find(|value| taken.insert(*value)).unwrap_or(DYNAMIC_PORTS.start);
                ports.push(Port { label: port.label.clone(), value, to: port.to, reserved: false });
            }
        }
        ports
    }
}

/// Whether the only datacenter is one of those that the job names.
fn in_datacenter(job: &Spec) -> bool {
    let patterns = &job.view.datacenters;
    patterns.is_empty() || patterns.iter().any(|pattern| matches(pattern, "dc1"))
}

/// Whether a node may hold an allocation of the group, with regard to nothing but the node.
pub(crate) fn allows(node: &NodeState, job: &Spec, group: &Group) -> bool {
    in_datacenter(job) && infeasible(node, &Taken::default(), job, group).is_none()
}

/// Why a node is out of the question, whatever is free on it.
fn infeasible(node: &NodeState, taken: &Taken, job: &Spec, group: &Group) -> Option<String> {
    if group.tasks.iter().any(|task| !DRIVERS.contains(&task.driver.as_str())) {
        return Some("missing drivers".to_owned());
    }
    let mut constraints = job.view.constraints.iter().chain(&group.constraints);
    let of_group = |constraint: &Constraint| group.constraints.contains(constraint);
    constraints.find_map(|constraint| {
        if constraint.operand == "distinct_hosts" {
            let clash = taken.same_job.iter().any(|other| !of_group(constraint) || *other == group.name);
            return (clash && constraint.right != "false").then(|| "distinct_hosts".to_owned());
        }
        let text = || format!("{} {} {}", constraint.left, constraint.operand, constraint.right);
        (!holds(constraint, node)).then(text)
    })
}

/// Which resource of a node does not suffice.
fn exhausted(node: &NodeState, taken: &Taken, group: &Group) -> Option<String> {
    let reserved = group.networks.iter().flat_map(|network| &network.reserved_ports);
    if let Some(port) = reserved.into_iter().find(|port| taken.ports.contains(&port.value)) {
        return Some(format!("network: reserved port collision {}={}", port.label, port.value));
    }
    if taken.cpu + group.cpu() > node.cpu {
        return Some("cpu".to_owned());
    }
    if taken.memory_mb + group.memory_mb() > node.memory_mb {
        return Some("memory".to_owned());
    }
    (taken.disk_mb + group.ephemeral_disk.size_mb > node.disk_mb).then(|| "disk".to_owned())
}

/// What was asked for in vain, in the dimension that was missing.
fn wanted(metric: &Metric, group: &Group) -> BTreeMap<String, (i64, i64)> {
    if metric.exhausted.is_empty() {
        return BTreeMap::new();
    }
    let of = |dimension: &str, amount: i64| if metric.exhausted.contains_key(dimension) { amount } else { 0 };
    let tasks = group.tasks.iter();
    tasks
        .map(|task| (task.name.clone(), (of("cpu", task.resources.cpu), of("memory", task.resources.memory_mb))))
        .collect()
}

/// Whether a constraint or an affinity holds on a node.
fn holds(constraint: &Constraint, node: &NodeState) -> bool {
    let left = resolve(&constraint.left, node);
    let right = resolve(&constraint.right, node);
    match constraint.operand.as_str() {
        "=" | "==" | "is" => left.is_some() && left == right,
        "!=" | "not" => left != right,
        "is_set" => left.is_some(),
        "is_not_set" => left.is_none(),
        "set_contains" | "set_contains_all" => sets(left, right).is_some_and(|(has, wants)| wants.is_subset(&has)),
        "set_contains_any" => sets(left, right).is_some_and(|(has, wants)| !wants.is_disjoint(&has)),
        // What the server asks of its own version holds.
        "semver" => constraint.left == "${attr.nomad.version}",
        _ => false,
    }
}

/// Two lists with commas.
fn sets(left: Option<String>, right: Option<String>) -> Option<(BTreeSet<String>, BTreeSet<String>)> {
    let items = |text: String| text.split(',').map(|item| item.trim().to_owned()).collect();
    left.zip(right).map(|(left, right)| (items(left), items(right)))
}

fn resolve(target: &str, node: &NodeState) -> Option<String> {
    let Some(attribute) = target.strip_prefix("${").and_then(|target| target.strip_suffix('}')) else {
        return Some(target.to_owned());
    };
    if let Some(key) = attribute.strip_prefix("meta.") {
        return node.meta.get(key).cloned();
    }
    let value = match attribute {
        "node.unique.id" => &node.id,
        "node.unique.name" => &node.name,
        "node.datacenter" => "dc1",
        "node.pool" => "default",
        "node.class" => "",
        "attr.kernel.name" => "linux",
        "attr.nomad.service_discovery" => "true",
        "attr.nomad.version" => "2.0.6",
        _ => return None,
    };
    Some(value.to_owned())
}

/// Whether a datacenter pattern, with `*` for anything, matches.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((prefix, rest)) => text
            .strip_prefix(prefix)
            .is_some_and(|text| (0..=text.len()).any(|from| text.get(from..).is_some_and(|tail| matches(rest, tail)))),
    }
}
