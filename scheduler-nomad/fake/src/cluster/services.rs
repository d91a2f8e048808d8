//! The registrations of Nomad's own services: a client makes them while an allocation runs.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    lifecycle::Role,
    objects::{Alloc, TaskPhase},
    state::State,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Registration {
    pub(crate) service: String,
    pub(crate) namespace: String,
    pub(crate) job: String,
    pub(crate) alloc: String,
    node: String,
    pub(crate) tags: Vec<String>,
    address: &'static str,
    port: i64,
    pub(crate) create_index: u64,
    pub(crate) modify_index: u64,
}

impl Registration {
    pub(crate) fn to_json(&self, id: &str) -> Value {
        json!({
            "ID": id, "ServiceName": self.service, "Namespace": self.namespace, "NodeID": self.node,
            "Datacenter": "dc1", "JobID": self.job, "AllocID": self.alloc, "Tags": self.tags, "Address": self.address,
            "Port": self.port, "CreateIndex": self.create_index, "ModifyIndex": self.modify_index,
        })
    }
}

/// Brings the registrations of an allocation to what its tasks and its job say now, in a write of its own.
pub(super) fn refresh(state: &mut State, id: &str) {
    let runs = state.runners.get(id).is_some_and(|runner| {
        let mut mains = runner.tasks.values().filter(|task| task.role == Role::Main);
        !runner.stopping && mains.all(|task| task.state.state == TaskPhase::Running)
    });
    let alloc = state.allocs.get(id).filter(|alloc| runs && !alloc.status.is_terminal());
    let mut wanted = alloc.map(registrations).unwrap_or_default();
    let there: BTreeMap<_, _> =
        state.services.iter().filter(|(_, of)| of.alloc == id).map(|(key, of)| (key.clone(), of.clone())).collect();
    for (key, registration) in &mut wanted {
        if let Some(old) = there.get(key) {
            (registration.create_index, registration.modify_index) = (old.create_index, old.modify_index);
        }
    }
    if wanted == there {
        return;
    }
    let write = state.begin(if wanted.is_empty() { "ServiceDeregistration" } else { "ServiceRegistration" });
    let index = write.index;
    state.services.retain(|_, of| of.alloc != id);
    for (key, mut registration) in wanted {
        if there.get(&key) != Some(&registration) {
            registration.modify_index = index;
        }
        if registration.create_index == 0 {
            registration.create_index = index;
        }
        state.services.insert(key, registration);
    }
    state.tables.services = index;
    state.commit(write, false);
}

fn registrations(alloc: &Alloc) -> BTreeMap<String, Registration> {
    let view = &alloc.job.spec.view;
    let services = view.group(&alloc.group).map_or(&[][..], |group| &group.services);
    let native = services.iter().filter(|service| service.provider == "nomad");
    let registration = native.map(|service| {
        let label = service.port_label.as_str();
        let (address, port) = match (alloc.ports.iter().find(|port| port.label == label), label.parse()) {
            (Some(port), _) => ("127.0.0.1", port.value),
            (None, Ok(number)) => ("", number),
            (None, Err(_)) => ("127.0.0.1", 0),
        };
        let tags = if alloc.canary && !service.canary_tags.is_empty() { &service.canary_tags } else { &service.tags };
        let id = format!("_nomad-task-{}-group-{}-{}-{label}", alloc.id, alloc.group, service.name);
        let registration = Registration {
            service: service.name.clone(),
            namespace: view.namespace.clone(),
            job: view.id.clone(),
            alloc: alloc.id.clone(),
            node: alloc.node.clone(),
            tags: tags.clone(),
            address,
            port,
            create_index: 0,
            modify_index: 0,
        };
        (id, registration)
    });
    registration.collect()
}

impl State {
    /// Removes a registration behind the back of its allocation.
    pub(crate) fn delete_service(&mut self, namespace: &str, name: &str, id: &str) -> Option<u64> {
        self.services.get(id).filter(|of| of.namespace == namespace && of.service == name)?;
        let write = self.begin("ServiceDeregistration");
        let index = write.index;
        self.services.remove(id);
        self.tables.services = index;
        self.commit(write, false);
        Some(index)
    }
}
