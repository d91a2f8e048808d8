//! Routes, and the addresses of what is ready. There is no router: routes are kept and compared, and no request is led.

use std::collections::BTreeSet;

use super::decide;
use super::instance::Instance;
use super::mutation::Mutation;
use super::object::MainObject;
use super::world::World;
use crate::{
    Conflict, Endpoint, Endpoints, Error, Expose, Fault, OwnerId, Protocol, ReadyEndpoints, Result, Route, Target,
    Version,
};

/// The routes of a workload.
#[derive(Clone, Debug)]
pub(super) struct RouteObject {
    pub(super) owner: OwnerId,
    routes: BTreeSet<Route>,
    pub(super) incarnation: u64,
    /// Counts all writes.
    pub(super) writes: u64,
}

fn has_port(object: &MainObject, name: &str) -> bool {
    let ports = object.spec.template.containers.iter().flat_map(|container| &container.ports);
    ports.into_iter().any(|port| port.name == name && port.protocol == Protocol::Tcp)
}

impl World {
    /// The version of the workload that is to have other routes; `None` if it has these.
    pub(super) fn decide_expose(&self, op: &Expose, me: &OwnerId) -> Result<Option<Version>> {
        let mutant = self.mutant;
        let object = decide::guarded(self, &op.target, &op.guard, me)?;
        if let Some(there) = self.routes.get(&op.target) {
            decide::not_foreign(Some(&there.owner), me, false)?;
        }
        let faults = self.faults(op, object, me);
        if !faults.is_empty() {
            return Err(Error::invalid_argument("routes to what is not there").with_causes(faults));
        }
        for (other, there) in self.routes.iter().filter(|(other, _)| **other != op.target) {
            let taken = |route: &&Route| op.routes.iter().any(|new| new.host == route.host && new.path == route.path);
            if there.routes.iter().any(|route| taken(&route)) && !mutant.is(Mutation::RouteStolen) {
                return Err(decide::conflict(Conflict::RouteTaken { by: other.to_string() }));
            }
        }
        let same = self.routes.get(&op.target).is_some_and(|there| there.routes.iter().eq(&sorted(op)));
        Ok((!same || mutant.is(Mutation::ExposeWritesAgain)).then(|| object.version(mutant)))
    }

    /// What routes lead to and is not there.
    fn faults(&self, op: &Expose, object: &MainObject, me: &OwnerId) -> Vec<Fault> {
        let mut faults = Vec::new();
        if self.mutant.is(Mutation::ExposesAnyPort) {
            return faults;
        }
        for (i, route) in op.routes.iter().enumerate() {
            for (j, backend) in route.backends.iter().enumerate() {
                let at = format!("routes[{i}].backends[{j}]");
                let led_to = match &backend.target {
                    None => Some(object),
                    Some(target) => self.workloads.get(target).filter(|other| other.is_of(me) && !other.deleting),
                };
                match led_to {
                    None => faults.push(Fault::new(format!("{at}.target"), "is not there, or not ours")),
                    Some(to) if !has_port(to, &backend.port) => {
                        let problem = format!("{} has no TCP port {}", to.target, backend.port);
                        faults.push(Fault::new(format!("{at}.port"), problem));
                    }
                    Some(_) => {}
                }
            }
        }
        faults
    }

    /// Gives a workload these routes and no others.
    pub(super) fn expose(&mut self, op: &Expose, read: &Version, me: &OwnerId) -> Result<()> {
        self.is_as_read(&op.target, Some(read))?;
        // Another workload may have taken a route meanwhile.
        self.decide_expose(op, me)?;
        let mut routes = sorted(op);
        if let Some(there) = self.routes.get_mut(&op.target) {
            if self.mutant.is(Mutation::ExposeKeepsOldRoutes) {
                routes.extend(there.routes.iter().cloned());
            }
            there.routes = routes;
            there.writes += 1;
            return Ok(());
        }
        let object = RouteObject { owner: me.clone(), routes, incarnation: self.next_serial(), writes: 1 };
        self.routes.insert(op.target.clone(), object);
        Ok(())
    }

    /// Whether a workload has routes that may be taken away.
    pub(super) fn decide_unexpose(&self, target: &Target, me: &OwnerId) -> Result<bool> {
        let Some(there) = self.routes.get(target) else { return Ok(false) };
        decide::not_foreign(Some(&there.owner), me, self.mutant.is(Mutation::UnexposesOthers))?;
        Ok(true)
    }

    /// The addresses of what is ready.
    pub(super) fn endpoints(&self, op: &Endpoints, me: &OwnerId) -> ReadyEndpoints {
        let Some(object) = self.workloads.get(&op.target).filter(|object| object.is_of(me)) else {
            return ReadyEndpoints::default();
        };
        let mutant = self.mutant;
        let serves = |i: &&Instance| {
            i.is_ready()
                || (i.ending.is_none() && i.ended.is_none() && mutant.is(Mutation::EndpointsCountUnready))
                || (i.ending.is_some() && mutant.is(Mutation::EndpointsCountTerminating))
        };
        let of_instance = |instance: &Instance| {
            let address = instance.address.clone().unwrap_or_default();
            let ports = instance.template.containers.iter().flat_map(|container| &container.ports);
            let wanted = ports.filter(|port| op.port.as_ref().is_none_or(|name| *name == port.name));
            // A port that was checked is a number of 16 bits.
            let numbered = wanted.filter_map(|port| Some((port.name.clone(), u16::try_from(port.port).ok()?)));
            numbered
                .map(|(name, number)| Endpoint::new(instance.id.clone(), name, address.clone(), number))
                .collect::<Vec<_>>()
        };
        ReadyEndpoints::new(object.live().filter(serves).flat_map(of_instance).collect())
    }
}

fn sorted(op: &Expose) -> BTreeSet<Route> {
    op.routes.iter().cloned().collect()
}
