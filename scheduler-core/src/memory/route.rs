//! Routes, and the addresses of what is ready. There is no router: routes are kept and compared, and no request is led.

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
    /// In order.
    routes: Vec<Route>,
    pub(super) incarnation: u64,
    /// Counts all writes.
    pub(super) writes: u64,
}

fn has_port(object: &MainObject, name: &str) -> bool {
    let ports = object.spec.template.containers.iter().flat_map(|container| &container.ports);
    ports.into_iter().any(|port| port.name == name && port.protocol == Protocol::Tcp)
}

/// What an expose has to write.
#[derive(Debug)]
pub(super) struct ExposePlan {
    /// The version of the workload that the decision is based on.
    pub(super) read: Version,
    /// Whether the workload has other routes than these.
    pub(super) differs: bool,
    /// Those of the routes that another workload has and is to lose.
    pub(super) taken: Vec<Route>,
}

impl World {
    /// What is to be written so that a workload has these routes.
    pub(super) fn decide_expose(&self, op: &Expose, me: &OwnerId) -> Result<ExposePlan> {
        let mutant = self.mutant;
        let object = decide::guarded(self, &op.target, &op.guard, me)?;
        if let Some(there) = self.routes.get(&op.target) {
            decide::not_foreign(Some(&there.owner), me, false)?;
        }
        self.check_from(op, me)?;
        let faults = self.faults(op, object, me);
        if !faults.is_empty() {
            return Err(Error::invalid_argument("routes to what is not there").with_causes(faults));
        }
        for (other, there) in self.routes.iter().filter(|(other, _)| **other != op.target) {
            let admitted = op.from.as_ref() == Some(other)
                || mutant.is(Mutation::RouteStolen)
                || (op.from.is_some() && mutant.is(Mutation::TakesFromThird));
            if !admitted && !op.routes_among(&there.routes).is_empty() {
                return Err(decide::conflict(Conflict::RouteTaken { by: other.to_string() }));
            }
        }
        let same = self.routes.get(&op.target).is_some_and(|there| there.routes == sorted(op));
        let differs = !same || mutant.is(Mutation::ExposeWritesAgain);
        let old = op.from.as_ref().and_then(|from| self.routes.get(from)).filter(|_| {
            let forgets = !differs && mutant.is(Mutation::MoveIsNotCompleted);
            !forgets && !mutant.is(Mutation::TakesNothing)
        });
        let taken = old.map(|old| op.routes_among(&old.routes)).unwrap_or_default();
        Ok(ExposePlan { read: object.version(mutant), differs, taken })
    }

    /// What routes are taken from must be ours, if it is there.
    fn check_from(&self, op: &Expose, me: &OwnerId) -> Result<()> {
        let Some(from) = &op.from else { return Ok(()) };
        let forgets = self.mutant.is(Mutation::TakesFromOthers);
        if let Some(object) = self.workloads.get(from) {
            decide::not_foreign(object.meta.owner.as_ref(), me, forgets)?;
        }
        match self.routes.get(from) {
            Some(routes) => decide::not_foreign(Some(&routes.owner), me, forgets),
            None => Ok(()),
        }
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
                routes.sort();
            }
            there.routes = routes;
            there.writes += 1;
            return Ok(());
        }
        let object = RouteObject { owner: me.clone(), routes, incarnation: self.next_serial(), writes: 1 };
        self.routes.insert(op.target.clone(), object);
        Ok(())
    }

    /// Takes the routes of an expose from the workload that had them, which keeps its others.
    pub(super) fn take_routes(&mut self, op: &Expose, me: &OwnerId) -> Result<()> {
        // It may have become somebody else's meanwhile.
        self.check_from(op, me)?;
        let takes_all = self.mutant.is(Mutation::TakesAllRoutes);
        let Some((from, old)) = op.from.as_ref().and_then(|from| Some((from, self.routes.get_mut(from)?))) else {
            return Ok(());
        };
        old.routes.retain(|route| !takes_all && !op.routes.iter().any(|new| new.is_for_same_requests(route)));
        old.writes += 1;
        if old.routes.is_empty() {
            self.routes.remove(from);
        }
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

fn sorted(op: &Expose) -> Vec<Route> {
    let mut routes = op.routes.clone();
    routes.sort();
    routes
}
