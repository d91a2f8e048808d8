//! What a launch or a delete does, decided from what was read. Pure.

use super::mutation::{Mutant, Mutation};
use super::object::{MainObject, Rendered, SERVICE, ServiceObject, ServiceSpec, WORKLOAD, render};
use super::world::World;
use crate::{
    Change, CheckedWorkload, Conflict, Effect, Error, ErrorKind, Guard, Kind, Missing, ObjectAction, ObjectChange,
    OwnerId, Replicas, Result, Target, Version,
};

/// What a launch has to write.
#[derive(Debug)]
pub(super) struct LaunchPlan {
    pub(super) rendered: Rendered,
    pub(super) main: ObjectAction,
    pub(super) service: Option<ObjectAction>,
    pub(super) change: Change,
    /// The version that the decision is based on; `None` if there was no main object.
    pub(super) read: Option<Version>,
    pub(super) adopted_from: Option<Option<OwnerId>>,
}

/// What a delete has to write.
#[derive(Debug)]
pub(super) struct DeletePlan {
    /// The version of the main object that is to be deleted.
    pub(super) main: Option<Version>,
    pub(super) service: bool,
    /// Whether there is anything of ours.
    pub(super) there: bool,
}

impl LaunchPlan {
    /// The native objects, and what happens to each.
    pub(super) fn objects(&self, name: &str) -> Vec<ObjectChange> {
        let main = ObjectChange::new(WORKLOAD, name, self.main);
        let service = self.service.map(|action| ObjectChange::new(SERVICE, name, action));
        std::iter::once(main).chain(service).collect()
    }
}

/// Decides a launch.
pub(super) fn launch(world: &World, workload: &CheckedWorkload, guard: &Guard, me: &OwnerId) -> Result<LaunchPlan> {
    let (target, mutant) = (workload.target(), world.mutant);
    if !world.namespaces.contains(target.namespace.as_str()) && !mutant.is(Mutation::MakesNamespace) {
        let words = format!("there is no namespace {}", target.namespace);
        return Err(Error::new(ErrorKind::NotFound(Missing::Namespace), words));
    }
    let main = world.workloads.get(target);
    let live = main.map(|object| object.spec.replicas);
    let rendered = render(workload, me, resolve(workload, live, mutant));
    // A Service of somebody else matters only where ours must be, or where all is taken over.
    let matters =
        |s: &&ServiceObject| rendered.service.is_some() || *guard == Guard::Adopt || s.spec.owner.as_ref() == Some(me);
    let service = world.services.get(target).filter(matters);
    let adopted_from = admit_launch(main, service, guard, me, mutant)?;
    let difference = main.map(|object| main_difference(object, &rendered, mutant));
    let service = match (difference, service) {
        (Some(None), _) if mutant.is(Mutation::ForgetsHalfLaunch) => None,
        (Some(_), None) if mutant.is(Mutation::IgnoresMissingService) => None,
        _ => service_action(rendered.service.as_ref(), service, mutant),
    };
    let settled = service.is_none_or(|action| action == ObjectAction::Unchanged);
    let (main_action, change) = match difference {
        None => (ObjectAction::Created, Change::Created),
        Some(None) if settled => (ObjectAction::Unchanged, Change::Unchanged),
        Some(None) => (ObjectAction::Unchanged, Change::Updated(Effect::InPlace)),
        Some(Some(effect)) => (ObjectAction::Updated, Change::Updated(effect)),
    };
    Ok(LaunchPlan {
        rendered,
        main: main_action,
        service,
        change,
        read: main.map(|object| object.version(mutant)),
        adopted_from: adopted_from.filter(|_| !mutant.is(Mutation::AdoptsInSilence)),
    })
}

/// Whether the guard admits a launch onto what is there; and from whom it takes it over.
fn admit_launch(
    main: Option<&MainObject>,
    service: Option<&ServiceObject>,
    guard: &Guard,
    me: &OwnerId,
    mutant: Mutant,
) -> Result<Option<Option<OwnerId>>> {
    let owners = || main.map(|o| &o.meta.owner).into_iter().chain(service.map(|s| &s.spec.owner));
    let foreign = owners().find(|owner| owner.as_ref() != Some(me));
    match guard {
        Guard::IfAbsent => {
            let Some(owner) = foreign.or_else(|| owners().next()) else { return Ok(None) };
            let forgets = mutant.is(Mutation::ForgetsIfAbsent) && foreign.is_none();
            if !forgets {
                return Err(Error::new(ErrorKind::AlreadyExists { owner: owner.clone() }, ""));
            }
        }
        Guard::IfOwned | Guard::IfVersion(_) => {
            if let Some(owner) = foreign.filter(|_| !mutant.is(Mutation::ForgetsOwnerOnLaunch)) {
                return Err(conflict(Conflict::Owner { owner: owner.clone() }));
            }
        }
        Guard::Adopt => {}
    }
    if main.is_some_and(|object| object.deleting) && !mutant.is(Mutation::LaunchesOntoTerminating) {
        return Err(conflict(Conflict::Deleting));
    }
    if let Guard::IfVersion(wanted) = guard {
        match main {
            None if !mutant.is(Mutation::IfVersionCreates) => return Err(conflict(Conflict::Absent)),
            Some(object) if !mutant.is(Mutation::ForgetsIfVersion) => is_version(object, wanted, mutant)?,
            _ => {}
        }
    }
    Ok(foreign.cloned())
}

fn is_version(object: &MainObject, wanted: &Version, mutant: Mutant) -> Result<()> {
    let now = object.version(mutant);
    if now == *wanted {
        return Ok(());
    }
    let words = format!("its version is {now}, not {wanted}");
    Err(Error::new(ErrorKind::Conflict(Conflict::Moved { now: Some(now) }), words))
}

fn conflict(conflict: Conflict) -> Error {
    Error::new(ErrorKind::Conflict(conflict), "")
}

/// How many instances a launch asks for.
fn resolve(workload: &CheckedWorkload, live: Option<u32>, mutant: Mutant) -> u32 {
    let Kind::Service(service) = &workload.kind;
    match service.replicas {
        Replicas::Keep(initial) if mutant.is(Mutation::KeepResetsCount) => initial,
        Replicas::Exactly(count) if mutant.is(Mutation::ExactlyKeepsCount) => live.unwrap_or(count),
        replicas => replicas.resolve(live),
    }
}

/// What a change of the main object to what was rendered means; `None` if nothing that launch writes differs.
fn main_difference(live: &MainObject, rendered: &Rendered, mutant: Mutant) -> Option<Effect> {
    let same_spec =
        live.spec == rendered.spec || (mutant.is(Mutation::HidesDrift) && live.meta.revision == rendered.meta.revision);
    let drifts = mutant.is(Mutation::ForeignFieldIsDrift) && !live.foreign.is_empty();
    if same_spec && live.meta == rendered.meta && !drifts {
        return None;
    }
    let rolling = live.spec.template != rendered.spec.template && !mutant.is(Mutation::CallsRollingInPlace);
    Some(if rolling { Effect::Rolling } else { Effect::InPlace })
}

/// What happens to the Service, whose owner was checked before.
fn service_action(wanted: Option<&ServiceSpec>, live: Option<&ServiceObject>, mutant: Mutant) -> Option<ObjectAction> {
    match (wanted, live) {
        (None, None) => None,
        (Some(_), None) => Some(ObjectAction::Created),
        (None, Some(_)) if mutant.is(Mutation::KeepsSurplusService) => None,
        (None, Some(_)) => Some(ObjectAction::Deleted),
        (Some(wanted), Some(live)) if *wanted == live.spec => Some(ObjectAction::Unchanged),
        (Some(_), Some(_)) => Some(ObjectAction::Updated),
    }
}

/// Decides a delete. What is somebody else's is refused before anything else is looked at.
pub(super) fn delete(world: &World, target: &Target, guard: &Guard, me: &OwnerId) -> Result<DeletePlan> {
    let mutant = world.mutant;
    let (main, service) = (world.workloads.get(target), world.services.get(target));
    let takes_all = matches!(guard, Guard::Adopt) || mutant.is(Mutation::ForgetsOwnerOnDelete);
    if let Some(object) = main
        && object.meta.owner.as_ref() != Some(me)
        && !takes_all
    {
        return Err(conflict(Conflict::Owner { owner: object.meta.owner.clone() }));
    }
    let service = service.filter(|s| s.spec.owner.as_ref() == Some(me) || takes_all);
    let there = main.is_some() || service.is_some();
    if let Guard::IfVersion(wanted) = guard {
        match main {
            None if !there => return Err(conflict(Conflict::Absent)),
            // What is being deleted already only goes on.
            Some(object) if !object.deleting && !mutant.is(Mutation::ForgetsIfVersion) => {
                is_version(object, wanted, mutant)?;
            }
            _ => {}
        }
    }
    Ok(DeletePlan {
        main: main.filter(|object| !object.deleting).map(|object| object.version(mutant)),
        service: service.is_some() && !mutant.is(Mutation::DeleteLeaksService),
        there,
    })
}
