//! The handle of a cluster, and hands that reach behind the schedulers' backs.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::time::Instant;

use super::builder::MemoryBuilder;
use super::fault::{Planned, RequestFault};
use super::mutation::{Mutant, Mutation};
use super::object::MainObject;
use super::render::{Meta, SERVICE, Spec, Template, WORKLOAD};
use super::scheduler::MemoryScheduler;
use super::world::{Stray, World};
use crate::{Container, Kind, Namespace, OwnerId, Role, Seconds, Target, Timestamp};

/// A cluster in memory. Clones are handles of one and the same.
///
/// It lives on tokio's clock and has no task: each call first brings it to the present. Under a paused clock an hour
/// passes in milliseconds, and the same calls always give the same answers.
///
/// The methods here are the hands of everybody else: of another operator, of the hardware. They reach behind the backs of
/// the schedulers that are made by [`scheduler`](Self::scheduler), and answer whether there was what they reach for.
///
/// ```
/// use scheduler_core::memory::MemoryCluster;
/// use scheduler_core::{Change, Container, Detail, Launch, OwnerId, Scheduler, Status, Verdict, Workload};
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let cluster = MemoryCluster::builder().namespace("shop").build();
/// let scheduler = cluster.scheduler(OwnerId::new("shop-platform")?);
/// let web = Workload::service("shop", "web").replicas(2).container(Container::new("web", "web:1")).check()?;
/// let target = web.target().clone();
///
/// let launched = scheduler.launch(Launch::new(web)).await?;
/// assert_eq!(launched.change, Change::Created);
/// tokio::time::sleep(Duration::from_secs(5)).await;
/// let seen = scheduler.status(Status::new(target.clone(), Detail::Counts)).await?.0.ok_or("it is not there")?;
/// assert_eq!(seen.verdict(), Verdict::Healthy);
///
/// assert!(cluster.set_image(&target, "web:2"), "somebody else does this");
/// let seen = scheduler.status(Status::new(target, Detail::Counts)).await?.0.ok_or("it is not there")?;
/// assert_eq!(seen.revision, None);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct MemoryCluster {
    pub(super) shared: Arc<Shared>,
}

/// What all handles, schedulers and watches of a cluster share.
pub(super) struct Shared {
    pub(super) mutant: Mutant,
    origin: Instant,
    beginning: Timestamp,
    world: Mutex<World>,
    planned: Mutex<Planned>,
    changed: watch::Sender<()>,
}

impl fmt::Debug for MemoryCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryCluster").finish_non_exhaustive()
    }
}

impl Shared {
    /// The world, brought to the present.
    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        let now = self.beginning.plus(self.origin.elapsed());
        // A panic elsewhere cannot have left it half changed: nothing in it panics.
        let mut world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        world.advance(now);
        world
    }

    /// Changes the world, lets everything happen that follows at once, and wakes the watches.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        let mut world = self.world();
        let answer = change(&mut world);
        world.settle();
        drop(world);
        self.changed.send_replace(());
        answer
    }

    /// When the cluster's clock shows this time.
    pub(super) fn instant(&self, time: Timestamp) -> Instant {
        self.origin + time.since(self.beginning)
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// The fault that is planned.
    pub(super) fn planned(&self) -> MutexGuard<'_, Planned> {
        self.planned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryCluster {
    /// Builds a cluster.
    pub fn builder() -> MemoryBuilder {
        MemoryBuilder::new()
    }

    pub(super) fn of(world: World) -> Self {
        let shared = Shared {
            mutant: world.mutant,
            origin: Instant::now(),
            beginning: world.now,
            world: Mutex::new(world),
            planned: Mutex::default(),
            changed: watch::Sender::new(()),
        };
        Self { shared: Arc::new(shared) }
    }

    /// A scheduler that works for this owner.
    #[must_use]
    pub fn scheduler(&self, owner: OwnerId) -> MemoryScheduler {
        MemoryScheduler::new(self.clone(), owner)
    }

    /// Somebody makes a namespace, unless it is there. It has nobody's mark.
    pub fn create_namespace(&self, namespace: &Namespace) {
        self.shared.change(|world| {
            world.namespaces.entry(namespace.to_string()).or_default();
        });
    }

    /// A node stops answering: its instances are not ready any more, and after 5 s they are given up and replaced.
    pub fn fail_node(&self, name: &str) -> bool {
        self.set_node(name, false)
    }

    /// A node answers again, with those of its instances that were not given up. The others do not come back.
    pub fn restore_node(&self, name: &str) -> bool {
        self.set_node(name, true)
    }

    fn set_node(&self, name: &str, up: bool) -> bool {
        self.shared.change(|world| {
            let now = world.now;
            let Some(state) = world.nodes.get_mut(name) else { return false };
            if std::mem::replace(&mut state.up, up) != up {
                let objects = world.workloads.values_mut().chain(world.runs.values_mut());
                let instances = objects.flat_map(|object| &mut object.instances);
                for instance in instances.filter(|i| i.ended.is_none() && i.node.as_deref() == Some(name)) {
                    instance.set_lost(!up, now);
                }
            }
            true
        })
    }

    /// Somebody sets the main container's image in the main object.
    pub fn set_image(&self, target: &Target, image: &str) -> bool {
        self.respec(target, |spec| {
            let mut template = Template::clone(&spec.template);
            for container in template.containers.iter_mut().filter(|c| c.role == Role::Main) {
                image.clone_into(&mut container.image);
            }
            spec.template = Arc::new(template);
        })
    }

    /// Somebody sets the number of instances in the main object of a service.
    pub fn set_replicas(&self, target: &Target, replicas: u32) -> bool {
        self.respec(target, |spec| *spec = spec.with_replicas(replicas))
    }

    fn respec(&self, target: &Target, change: impl FnOnce(&mut Spec)) -> bool {
        self.shared.change(|world| {
            let (now, mutant) = (world.now, world.mutant);
            let Some(object) = world.workloads.get_mut(target) else { return false };
            let mut spec = object.spec.clone();
            change(&mut spec);
            if mutant.is(Mutation::VersionMissesChange) {
                object.respec_in_secret(spec, now, mutant);
            } else {
                object.respec(spec, now, mutant);
            }
            true
        })
    }

    /// Somebody adds an annotation to the main object that no launch writes. It is nobody's drift, and no change of the
    /// [`Version`](crate::Version).
    pub fn annotate(&self, target: &Target, key: impl Into<String>, value: impl Into<String>) -> bool {
        let (key, value) = (key.into(), value.into());
        self.shared.change(|world| {
            let Some(object) = world.workloads.get_mut(target) else { return false };
            object.foreign.insert(key, value);
            object.writes += 1;
            true
        })
    }

    /// Somebody deletes the Service.
    pub fn remove_service(&self, target: &Target) -> bool {
        self.shared.change(|world| world.services.remove(target).is_some())
    }

    /// Somebody makes a workload of this name, with one instance and this owner's mark or none. If there is one
    /// already, it becomes theirs. False if there is no such namespace.
    pub fn make_foreign(&self, target: &Target, owner: Option<OwnerId>) -> bool {
        self.shared.change(|world| {
            if !world.namespaces.contains_key(target.namespace.as_str()) {
                return false;
            }
            if let Some(object) = world.workloads.get_mut(target) {
                object.take_over(owner);
                return true;
            }
            let meta = Meta { owner, ..Meta::default() };
            let incarnation = world.next_serial();
            let object = MainObject::new(target.clone(), incarnation, meta, foreign_spec(), world.now);
            world.workloads.insert(target.clone(), object);
            true
        })
    }

    /// Somebody makes a bare instance whose labels match the workload's selector. False if there is no such namespace.
    pub fn make_foreign_instance(&self, target: &Target) -> bool {
        self.shared.change(|world| {
            let there = world.namespaces.contains_key(target.namespace.as_str());
            if there {
                let id = format!("stray-{}", world.next_serial());
                world.strays.push(Stray { target: target.clone(), id, created: world.now });
            }
            there
        })
    }

    /// Open watches miss what happens until they are polled next; what they then say comes after a
    /// [`Resync`](crate::WatchItem::Resync).
    pub fn break_watches(&self) {
        self.shared.change(|world| world.gaps += 1);
    }

    /// Every native object of a namespace, whosever it is, as `Kind/name`, each with a token that changes whenever
    /// somebody writes it. Instances are not among them.
    #[must_use]
    pub fn objects(&self, namespace: &Namespace) -> Vec<(String, String)> {
        let world = self.shared.world();
        let mut objects = Vec::new();
        let mut add = |kind: &str, target: &Target, more: &str, token: String| {
            if target.namespace == *namespace {
                objects.push((format!("{kind}/{}{more}", target.name), token));
            }
        };
        for (target, service) in &world.services {
            add(SERVICE, target, "", format!("{}.{}", service.incarnation, service.writes));
        }
        for (target, object) in &world.workloads {
            add(WORKLOAD, target, "", format!("{}.{}", object.incarnation, object.writes));
        }
        for (incarnation, run) in &world.runs {
            add("Run", &run.target, &format!(".{incarnation}"), incarnation.to_string());
        }
        for (target, config) in world.configs.iter().flat_map(|(target, all)| all.iter().map(move |one| (target, one)))
        {
            let more = format!(".{}.{}", config.config.name, config.config.version);
            add("Config", target, &more, config.incarnation.to_string());
        }
        for (target, routes) in &world.routes {
            add("Routes", target, "", format!("{}.{}", routes.incarnation, routes.writes));
        }
        objects
    }

    /// The ids of the instances of a namespace that have not ended, whosever they are.
    #[must_use]
    pub fn instances(&self, namespace: &Namespace) -> Vec<String> {
        let world = self.shared.world();
        let owned = world.all().filter(|object| object.target.namespace == *namespace).flat_map(MainObject::live);
        let strays = world.strays.iter().filter(|stray| stray.target.namespace == *namespace);
        owned.map(|instance| instance.id.clone()).chain(strays.map(|stray| stray.id.clone())).collect()
    }

    /// The names of the persistent storage of a namespace: that it was built with, and that of instances with storage of
    /// their own, `<volume>-<workload>-<ordinal>`, which stays when they go.
    #[must_use]
    pub fn claims(&self, namespace: &Namespace) -> Vec<String> {
        let world = self.shared.world();
        let here = world.claims.iter().filter(|(of, _)| of == namespace.as_str());
        here.map(|(_, name)| name.clone()).collect()
    }

    /// Lets the request number `nth` from now (from 1) of this cluster's schedulers meet a fault, once. A fault that was
    /// planned before and not met is forgotten.
    ///
    /// What only reads is one request, and so is each snapshot of a watch. A launch is up to three: it reads, writes the
    /// main object, writes the Service; a delete likewise, and one more for configurations and for routes. What else
    /// changes something reads, then writes; an expose that takes routes from another workload writes twice. What needs no
    /// write is not sent.
    pub fn inject(&self, nth: u32, fault: RequestFault) {
        *self.shared.planned() = Planned::new(nth, fault);
    }

    /// Whether the fault that was planned last has been met, its effect included.
    #[must_use]
    pub fn injected(&self) -> bool {
        self.shared.planned().met
    }
}

/// What somebody else runs.
fn foreign_spec() -> Spec {
    let template = Template { containers: vec![Container::new("main", "sim/run:foreign")], ..Template::default() };
    Spec { kind: Kind::default(), patience: Seconds::new(600), template: Arc::new(template) }
}
