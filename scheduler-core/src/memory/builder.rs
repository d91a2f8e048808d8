//! Building a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::cluster::MemoryCluster;
use super::mutation::Mutant;
#[cfg(feature = "mutation")]
use super::mutation::Mutation;
use super::timing::START_UP;
use super::world::{NodeState, World};
use crate::{Cpu, Memory, Timestamp};

/// 2000-01-01T00:00:00Z: when every cluster begins, by its own clock.
const BEGINNING: Timestamp = Timestamp::from_millis(946_684_800_000);

/// A simulated node.
///
/// ```
/// use scheduler_core::{Cpu, Memory, memory::Node};
/// let node = Node::new("n1").cpu(Cpu::from_cores(4)).memory(Memory::from_mebibytes(8192)).label("zone", "a");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub(super) name: String,
    pub(super) cpu: Cpu,
    pub(super) memory: Memory,
    pub(super) slots: u32,
    pub(super) labels: BTreeMap<String, String>,
}

impl Node {
    /// A node of 64 cores, 256 GiB and 250 slots, without labels.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            cpu: Cpu::from_cores(64),
            memory: Memory::from_mebibytes(256 * 1024),
            slots: 250,
            labels: BTreeMap::new(),
        }
    }

    /// Sets its processor time. Instances take what their containers request.
    #[must_use]
    pub fn cpu(mut self, cpu: Cpu) -> Self {
        self.cpu = cpu;
        self
    }

    /// Sets its memory. Instances take what their containers request.
    #[must_use]
    pub fn memory(mut self, memory: Memory) -> Self {
        self.memory = memory;
        self
    }

    /// Sets how many instances it takes at most.
    #[must_use]
    pub fn slots(mut self, slots: u32) -> Self {
        self.slots = slots;
        self
    }

    /// Adds a label, for [`NodeRule`](crate::NodeRule)s and for spreading.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }
}

/// Builds a [`MemoryCluster`]; made by [`MemoryCluster::builder`].
///
/// ```
/// use scheduler_core::memory::{MemoryCluster, Node};
/// let cluster = MemoryCluster::builder()
///     .namespace("shop")
///     .node(Node::new("n1").label("zone", "a"))
///     .node(Node::new("n2").label("zone", "b"))
///     .claim("shop", "uploads")
///     .identity("shop", "web")
///     .seed(7)
///     .build();
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct MemoryBuilder {
    namespaces: BTreeSet<String>,
    nodes: Vec<Node>,
    claims: BTreeSet<(String, String)>,
    identities: BTreeSet<(String, String)>,
    seed: u64,
    start_up: Duration,
    mutant: Mutant,
}

impl MemoryBuilder {
    pub(super) fn new() -> Self {
        Self {
            namespaces: BTreeSet::new(),
            nodes: Vec::new(),
            claims: BTreeSet::new(),
            identities: BTreeSet::new(),
            seed: 0,
            start_up: START_UP,
            mutant: Mutant::default(),
        }
    }

    /// Adds a namespace. A launch never makes one. A text that is no [`Namespace`](crate::Namespace) adds nothing that any
    /// target could name.
    pub fn namespace(mut self, name: impl Into<String>) -> Self {
        self.namespaces.insert(name.into());
        self
    }

    /// Adds a node, in place of an earlier one of its name. Without any there are three large ones, `node-1` to `node-3`.
    pub fn node(mut self, node: Node) -> Self {
        self.nodes.push(node);
        self
    }

    /// Adds persistent storage that workloads of a namespace may mount by its name.
    pub fn claim(mut self, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        self.claims.insert((namespace.into(), name.into()));
        self
    }

    /// Adds a service identity that workloads of a namespace may run as. `default` is always there.
    pub fn identity(mut self, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        self.identities.insert((namespace.into(), name.into()));
        self
    }

    /// Sets what decides between nodes that are equally good. Clusters of one seed behave alike.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets how long a container takes to be pulled and started, 1 s if it is not set.
    pub fn start_up(mut self, start_up: Duration) -> Self {
        self.start_up = start_up;
        self
    }

    /// Makes the cluster wrong in one way.
    #[cfg(feature = "mutation")]
    #[doc(hidden)]
    pub fn mutation(mut self, mutation: Mutation) -> Self {
        self.mutant = Mutant::of(mutation);
        self
    }

    /// Builds the cluster. Its clock is tokio's and starts here: where the clock is paused, build it on that runtime.
    #[must_use]
    pub fn build(self) -> MemoryCluster {
        let mut world = World::new(BEGINNING, self.seed, self.start_up, self.mutant);
        world.namespaces = self.namespaces.into_iter().map(|name| (name, None)).collect();
        world.claims = self.claims;
        world.identities = self.identities;
        let nodes = match self.nodes {
            nodes if nodes.is_empty() => (1..=3).map(|n| Node::new(format!("node-{n}"))).collect(),
            nodes => nodes,
        };
        world.nodes = nodes.into_iter().map(|node| (node.name.clone(), NodeState { node, up: true })).collect();
        MemoryCluster::of(world)
    }
}
