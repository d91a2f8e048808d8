//! Nomad's own service registry, and what its checks found.

use super::{model, words};

model! {
    /// The services of a namespace.
    NamespaceServices shows [namespace, services] {
        /// The namespace.
        namespace: String,
        /// The services.
        services: Vec<ServiceName>,
    }
}

model! {
    /// A service that has registrations.
    ServiceName shows [service_name, tags] {
        /// The name.
        service_name: String,
        /// The tags of all of its registrations.
        tags: Vec<String>,
    }
}

model! {
    /// Where an instance of a service is. **That it is registered says nothing of its health**: it is so from the start of
    /// its task on, whatever its checks find, and may stay when the allocation is long gone.
    ServiceRegistration shows [id, service_name, namespace, job_id, alloc_id, address, port] {
        /// The identity, unique in the namespace.
        #[serde(rename = "ID")]
        id: String,
        /// The service.
        service_name: String,
        /// The namespace.
        namespace: String,
        /// The node.
        #[serde(rename = "NodeID")]
        node_id: String,
        /// The node's datacenter.
        datacenter: String,
        /// The job.
        #[serde(rename = "JobID")]
        job_id: String,
        /// The allocation.
        #[serde(rename = "AllocID")]
        alloc_id: String,
        /// Words that others read.
        tags: Vec<String>,
        /// The address.
        address: String,
        /// The port; zero if the service names none.
        port: u16,
        /// The index at which it was made.
        create_index: u64,
        /// Moves with each change.
        modify_index: u64,
    }
}

words! {
    /// What a check found last.
    CheckStatus {
        /// It is well.
        Success = "success",
        /// It is not.
        Failure = "failure",
        /// It has not been looked at yet.
        Pending = "pending",
    }
}

model! {
    /// What a check of Nomad's own found last. `Debug` leaves its output out, which is the service's answer.
    CheckResult shows [service, check, status, status_code] {
        /// The identity. It has no meaning.
        #[serde(rename = "ID")]
        id: String,
        /// The service.
        service: String,
        /// The check's name.
        check: String,
        /// The task; empty for a service of the group.
        task: String,
        /// `healthiness`, or `readiness` for a check that does not count for deployments.
        mode: String,
        /// What it found.
        status: CheckStatus,
        /// The HTTP code, for HTTP.
        status_code: u16,
        /// The answer, or what went wrong.
        output: String,
        /// When, in seconds since 1970 by the node's clock.
        timestamp: i64,
    }
}
