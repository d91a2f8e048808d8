use std::collections::BTreeMap;

/// What a [`Testbed`](crate::Testbed) is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The simulated nodes.
    pub nodes: Vec<Node>,
}

impl Default for Options {
    /// Three nodes, `node-a` to `node-c`, labelled `zone=a` to `zone=c`, on each of which a thousand Pods fit: hundreds of tests
    /// leave theirs behind.
    fn default() -> Self {
        let nodes = ["a", "b", "c"].map(|zone| Node::new(format!("node-{zone}")).label("zone", zone).pods(1_000));
        Self { nodes: nodes.into() }
    }
}

impl Options {
    /// These nodes instead of the default ones.
    #[must_use]
    pub fn nodes(mut self, nodes: impl IntoIterator<Item = Node>) -> Self {
        self.nodes = nodes.into_iter().collect();
        self
    }
}

/// A simulated node: what it offers to the real scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Node {
    /// Its name, a DNS label.
    pub name: String,
    /// Whole CPUs. 4 by default.
    pub cpus: u32,
    /// Memory in GiB. 8 by default.
    pub memory_gib: u32,
    /// How many Pods fit on it. 110 by default.
    pub pods: u32,
    /// Labels beside `kubernetes.io/hostname`, `kubernetes.io/os` and `kubernetes.io/arch`, which every node has.
    pub labels: BTreeMap<String, String>,
}

impl Node {
    /// A node of the default size without labels of its own.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), cpus: 4, memory_gib: 8, pods: 110, labels: BTreeMap::new() }
    }

    /// With that many whole CPUs.
    #[must_use]
    pub fn cpus(mut self, cpus: u32) -> Self {
        self.cpus = cpus;
        self
    }

    /// With that much memory, in GiB.
    #[must_use]
    pub fn memory_gib(mut self, memory_gib: u32) -> Self {
        self.memory_gib = memory_gib;
        self
    }

    /// With room for that many Pods.
    #[must_use]
    pub fn pods(mut self, pods: u32) -> Self {
        self.pods = pods;
        self
    }

    /// With one more label.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }
}

/// Who a request comes from. RBAC is on, so each may do something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum User {
    /// May do everything (group `system:masters`).
    Admin,
    /// Has the built-in cluster role `view` everywhere: reads most things, Secrets not, and writes nothing.
    ReadOnly,
    /// Is known, and may do nothing: every request about objects is answered 403.
    Nobody,
}

impl User {
    pub(crate) const ALL: [Self; 3] = [Self::Admin, Self::ReadOnly, Self::Nobody];

    /// The name that the API server knows this user by.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::ReadOnly => "read-only",
            Self::Nobody => "nobody",
        }
    }
}
