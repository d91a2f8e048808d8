//! What a launch or a delete does, decided from what was read. Pure.

use std::sync::Arc;

use super::mutation::{Mutant, Mutation};
use super::object::{MainObject, ServiceObject};
use super::render::{Rendered, SERVICE, ServiceSpec, WORKLOAD, render};
use super::world::World;
use crate::{
    Change, CheckedWorkload, Conflict, Effect, Error, ErrorKind, Guard, Kind, Missing, ObjectAction, ObjectChange,
    OwnerId, PlanToken, Replicas, Result, Target, Version,
};

/// What a launch has to write.
#[derive(Debug)]
pub(super) struct LaunchPlan {
    pub(super) workload: Arc<CheckedWorkload>,
    pub(super) rendered: Rendered,
    pub(super) main: ObjectAction,
    pub(super) service: Option<ObjectAction>,
    /// [`Effect::Replaced`]: what is there must go first.
    pub(super) change: Change,
    /// The version that the decision is based on; `None` if there was no main object.
    pub(super) read: Option<Version>,
    /// Binds a launch to what was read.
    pub(super) token: PlanToken,
    pub(super) adopted_from: Option<Option<OwnerId>>,
}

/// What a delete has to write.
#[derive(Debug)]
pub(super) struct DeletePlan {
    /// The version of the main object that is to be deleted.
    pub(super) main: Option<Version>,
    pub(super) service: bool,
    pub(super) configs: bool,
    pub(super) routes: bool,
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

pub(super) fn conflict(conflict: Conflict) -> Error {
    Error::new(ErrorKind::Conflict(conflict), "")
}

/// Refuses what has somebody else's mark, or none, unless a mutant `forgets` to.
pub(super) fn not_foreign(owner: Option<&OwnerId>, me: &OwnerId, forgets: bool) -> Result<()> {
    if owner == Some(me) || forgets { Ok(()) } else { Err(conflict(Conflict::Owner { owner: owner.cloned() })) }
}

pub(super) fn not_deleting(object: &MainObject, mutant: Mutant) -> Result<()> {
    if object.deleting && !mutant.is(Mutation::ChangesWhatIsDeleted) {
        return Err(conflict(Conflict::Deleting));
    }
    Ok(())
}

pub(super) fn in_namespace(world: &World, target: &Target) -> Result<()> {
    if world.namespaces.contains_key(target.namespace.as_str()) || world.mutant.is(Mutation::MakesNamespace) {
        return Ok(());
    }
    let words = format!("there is no namespace {}", target.namespace);
    Err(Error::new(ErrorKind::NotFound(Missing::Namespace), words))
}

/// A workload that an operation changes: it must be there, ours, and not be going.
pub(super) fn ours<'a>(world: &'a World, target: &Target, me: &OwnerId) -> Result<&'a MainObject> {
    let object = world.workloads.get(target).ok_or_else(|| conflict(Conflict::Absent))?;
    not_foreign(object.meta.owner.as_ref(), me, world.mutant.is(Mutation::ChangesWhatIsForeign))?;
    not_deleting(object, world.mutant)?;
    Ok(object)
}

/// The same under a guard.
pub(super) fn guarded<'a>(world: &'a World, target: &Target, guard: &Guard, me: &OwnerId) -> Result<&'a MainObject> {
    let senseless = matches!(guard, Guard::IfAbsent | Guard::Adopt | Guard::IfPlan(_));
    if senseless && !world.mutant.is(Mutation::TakesAnyGuard) {
        return Err(Error::invalid_argument("this guard makes no sense for a change of what is there and ours"));
    }
    let object = ours(world, target, me)?;
    if let Guard::IfVersion(wanted) = guard
        && !world.mutant.is(Mutation::ChangesAnyVersion)
    {
        is_version(object, wanted, world.mutant)?;
    }
    Ok(object)
}

/// Decides a launch.
pub(super) fn launch(
    world: &World,
    workload: &Arc<CheckedWorkload>,
    guard: &Guard,
    me: &OwnerId,
) -> Result<LaunchPlan> {
    let (target, mutant) = (workload.target(), world.mutant);
    in_namespace(world, target)?;
    let main = world.workloads.get(target);
    let live = main.and_then(|object| object.spec.service()).map(|service| service.replicas.written());
    let rendered = render(workload, me, resolve(workload, live, mutant));
    // A Service of somebody else matters only where ours must be, or where all is taken over.
    let matters =
        |s: &&ServiceObject| rendered.service.is_some() || *guard == Guard::Adopt || s.spec.owner.as_ref() == Some(me);
    let service = world.services.get(target).filter(matters);
    let adopted_from = admit_launch(main, service, guard, me, mutant)?;
    let versions: Vec<Version> =
        main.map(|object| object.version(mutant)).into_iter().chain(service.map(ServiceObject::version)).collect();
    let token = PlanToken::new(&super::backend(), workload, &versions);
    if let Guard::IfPlan(planned) = guard
        && !planned.holds(&super::backend(), workload, &versions)
        && !mutant.is(Mutation::PlanIgnoresMoved)
    {
        let now = main.map(|object| object.version(mutant));
        return Err(Error::new(ErrorKind::Conflict(Conflict::Moved { now }), "it has changed since the plan was made"));
    }
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
        workload: Arc::clone(workload),
        rendered,
        main: main_action,
        service,
        change,
        read: main.map(|object| object.version(mutant)),
        token,
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
        Guard::IfOwned | Guard::IfVersion(_) | Guard::IfPlan(_) => {
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

/// How many instances a launch asks for; nothing for other kinds than services.
fn resolve(workload: &CheckedWorkload, live: Option<u32>, mutant: Mutant) -> u32 {
    let Kind::Service(service) = &workload.kind else { return 0 };
    match service.replicas {
        Replicas::Keep(initial) if mutant.is(Mutation::KeepResetsCount) => initial,
        Replicas::Exactly(count) if mutant.is(Mutation::ExactlyKeepsCount) => live.unwrap_or(count),
        replicas => replicas.resolve(live),
    }
}

/// What a change of the main object to what was rendered means; `None` if nothing that launch writes differs.
fn main_difference(live: &MainObject, rendered: &Rendered, mutant: Mutant) -> Option<Effect> {
    let (spec, meta) = (&rendered.spec, &rendered.meta);
    // A job is done once: what has another revision is another job.
    let other_job = matches!(spec.kind, Kind::Job(_)) && live.meta.revision != meta.revision;
    if (other_job && !mutant.is(Mutation::JobChangeInPlace))
        || (spec.must_replace(&live.spec) && !mutant.is(Mutation::KindChangeInPlace))
    {
        return Some(Effect::Replaced);
    }
    let same_spec = live.spec == *spec || (mutant.is(Mutation::HidesDrift) && live.meta.revision == meta.revision);
    let drifts = mutant.is(Mutation::ForeignFieldIsDrift) && !live.foreign.is_empty();
    let again = mutant.is(Mutation::EndedJobRunsAgain) && live.job.finished.is_some();
    if same_spec && live.meta == *meta && !drifts && !again {
        return None;
    }
    let replaces = spec.kind.job().is_none() && live.spec.template != spec.template;
    let rolling = replaces && !mutant.is(Mutation::CallsRollingInPlace);
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
    let main = world.workloads.get(target);
    let takes_all = matches!(guard, Guard::Adopt) || mutant.is(Mutation::ForgetsOwnerOnDelete);
    if let Some(object) = main {
        not_foreign(object.meta.owner.as_ref(), me, takes_all)?;
    }
    let ours = |owner: Option<&OwnerId>| owner == Some(me) || takes_all;
    let service = world.services.get(target).is_some_and(|s| ours(s.spec.owner.as_ref()));
    let configs = world.configs_of(target).iter().any(|config| ours(Some(&config.owner)));
    let routes = world.routes.get(target).is_some_and(|routes| ours(Some(&routes.owner)));
    let rest = (service || configs || routes) && !mutant.is(Mutation::DeleteLooksAtMainAlone);
    let there = main.is_some() || rest;
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
        service: service && !mutant.is(Mutation::DeleteLeaksService),
        configs: configs && !mutant.is(Mutation::DeleteLeaksConfig),
        routes: routes && !mutant.is(Mutation::DeleteLeaksRoutes),
        there,
    })
}
