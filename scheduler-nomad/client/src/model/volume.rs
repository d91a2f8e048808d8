//! Host volumes that the servers made.

use serde::Serialize;

use super::model;

model! {
    /// A host volume: a folder of one node, under a name. Several nodes can each have one of the same name.
    HostVolume shows [id, name, namespace, node_id, plugin_id, state] {
        /// Its ID.
        #[serde(rename = "ID")]
        id: String,
        /// The name by which a group asks for it.
        name: String,
        /// The namespace.
        namespace: String,
        /// The node that it is on.
        #[serde(rename = "NodeID")]
        node_id: String,
        /// The plugin that made it.
        #[serde(rename = "PluginID")]
        plugin_id: String,
        /// `pending`, `ready` or `unavailable`.
        state: String,
        /// How much it holds, as far as the plugin says.
        capacity_bytes: i64,
        /// The index at which it was made.
        create_index: u64,
        /// Moves with each change.
        modify_index: u64,
    }
}

/// A host volume that is to be made. The server chooses the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
#[non_exhaustive]
pub struct NewHostVolume {
    /// The name.
    pub name: String,
    /// The plugin that makes it. `mkdir`, which makes a folder and bounds nothing, is built in.
    #[serde(rename = "PluginID")]
    pub plugin_id: String,
    /// How much it is to hold.
    pub requested_capacity_min_bytes: u64,
    /// How much it may hold.
    pub requested_capacity_max_bytes: u64,
    requested_capabilities: Vec<Capability>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Capability {
    attachment_mode: &'static str,
    access_mode: &'static str,
}

impl NewHostVolume {
    /// A volume of this size, that one allocation or several may write on its node.
    pub fn new(name: impl Into<String>, plugin_id: impl Into<String>, bytes: u64) -> Self {
        let mode = |access_mode| Capability { attachment_mode: "file-system", access_mode };
        Self {
            name: name.into(),
            plugin_id: plugin_id.into(),
            requested_capacity_min_bytes: bytes,
            // The server wants a limit that is not below what is asked for.
            requested_capacity_max_bytes: bytes,
            requested_capabilities: vec![mode("single-node-writer"), mode("single-node-multi-writer")],
        }
    }
}
