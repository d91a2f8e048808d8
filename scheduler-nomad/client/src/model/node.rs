//! Nodes.

use std::collections::BTreeMap;

use super::{model, words};

words! {
    /// How a node is.
    NodeStatus {
        /// It has registered and not yet fetched its work.
        Initializing = "initializing",
        /// It works.
        Ready = "ready",
        /// It is gone.
        Down = "down",
        /// It is away, with allocations that may outlast that.
        Disconnected = "disconnected",
    }
}

words! {
    /// Whether something new may be placed on a node.
    NodeEligibility {
        /// It may.
        Eligible = "eligible",
        /// It may not.
        Ineligible = "ineligible",
    }
}

model! {
    /// A node. Lists answer a shorter form: what only a read has is said at the field.
    Node shows [id, name, datacenter, node_pool, status, scheduling_eligibility, drain] {
        /// The identity.
        #[serde(rename = "ID")]
        id: String,
        /// The name.
        name: String,
        /// The datacenter.
        datacenter: String,
        /// The class; mostly empty.
        node_class: String,
        /// The pool.
        node_pool: String,
        /// How it is.
        status: NodeStatus,
        /// Why, in words.
        status_description: String,
        /// Whether something new may be placed on it.
        scheduling_eligibility: NodeEligibility,
        /// Whether its allocations move away.
        drain: bool,
        /// What can run tasks on it, by name.
        drivers: BTreeMap<String, NodeDriver>,
        /// Facts, such as `kernel.name`. A read only.
        attributes: BTreeMap<String, String>,
        /// Marks. A read only.
        meta: BTreeMap<String, String>,
        /// The index at which it was made.
        create_index: u64,
        /// Moves with each change, those of its allocations included.
        modify_index: u64,
    }
}

model! {
    /// What can run tasks on a node.
    NodeDriver shows [detected, healthy] {
        /// Whether it is there.
        detected: bool,
        /// Whether it works.
        healthy: bool,
        /// Why not, in words.
        health_description: String,
    }
}
