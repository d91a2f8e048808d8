use std::{collections::BTreeMap, num::NonZeroU32};

/// What a [`FakeNomad`](crate::FakeNomad) is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The client nodes.
    pub nodes: Vec<Node>,
    /// How the cluster's clock runs.
    pub pace: Pace,
    /// Whether requests need a token ([`FakeNomad::token`](crate::FakeNomad::token)). Off by default.
    pub acl: bool,
    /// How many lines the event stream can replay. 100 by default, as on a real server (`event_buffer_size`).
    pub event_buffer: usize,
}

impl Default for Options {
    /// Three nodes, `node-a` to `node-c`, in real time, without access control.
    fn default() -> Self {
        let nodes = ["node-a", "node-b", "node-c"].map(Node::new);
        Self { nodes: nodes.into(), pace: Pace::REAL, acl: false, event_buffer: 100 }
    }
}

impl Options {
    /// These nodes instead of the default ones.
    #[must_use]
    pub fn nodes(mut self, nodes: impl IntoIterator<Item = Node>) -> Self {
        self.nodes = nodes.into_iter().collect();
        self
    }

    /// With the clock running like this.
    #[must_use]
    pub fn pace(mut self, pace: Pace) -> Self {
        self.pace = pace;
        self
    }

    /// With access control on: a request without a sufficient token is refused.
    #[must_use]
    pub fn acl(mut self) -> Self {
        self.acl = true;
        self
    }

    /// With an event stream that can replay so many lines.
    #[must_use]
    pub fn event_buffer(mut self, lines: usize) -> Self {
        self.event_buffer = lines;
        self
    }
}

/// How the cluster's clock runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pace {
    /// So many times as fast as the wall clock.
    Times(NonZeroU32),
    /// Only by [`FakeNomad::advance`](crate::FakeNomad::advance).
    Manual,
}

impl Pace {
    /// As fast as the wall clock.
    pub const REAL: Self = Self::Times(NonZeroU32::MIN);
}

/// A client node: what it offers to the scheduler. All nodes are in the datacenter `dc1` and the node pool `default`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Node {
    /// Its name, unique in the cluster.
    pub name: String,
    /// CPU in MHz. 4000 by default.
    pub cpu: u32,
    /// Memory in MB. 8192 by default.
    pub memory_mb: u32,
    /// Disk in MB. 50 000 by default.
    pub disk_mb: u32,
    /// Its metadata, which a constraint sees as `${meta.<key>}`. None by default.
    pub meta: BTreeMap<String, String>,
}

impl Node {
    /// A node of the default size.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), cpu: 4000, memory_mb: 8192, disk_mb: 50_000, meta: BTreeMap::new() }
    }

    /// With that much CPU, in MHz.
    #[must_use]
    pub fn cpu(mut self, mhz: u32) -> Self {
        self.cpu = mhz;
        self
    }

    /// With that much memory, in MB.
    #[must_use]
    pub fn memory_mb(mut self, mb: u32) -> Self {
        self.memory_mb = mb;
        self
    }

    /// With this entry in its metadata.
    #[must_use]
    pub fn meta(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.meta.insert(key.into(), value.into());
        self
    }

    /// With that much disk, in MB.
    #[must_use]
    pub fn disk_mb(mut self, mb: u32) -> Self {
        self.disk_mb = mb;
        self
    }
}

/// What a token may do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// Everything.
    Management,
    /// What `policy = "write"` allows in one namespace.
    Write {
        /// The namespace. It need not exist.
        namespace: String,
    },
    /// What `policy = "read"` allows in one namespace.
    Read {
        /// The namespace. It need not exist.
        namespace: String,
    },
    /// Nothing: a token whose policies do not exist.
    Nothing,
}
