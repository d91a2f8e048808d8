//! What a scheduler sees of the cluster, in neutral terms.

use super::instance::{Instance, Trouble};
use super::mutation::Mutation;
use super::object::MainObject;
use super::world::World;
use crate::{
    Counts, Diagnosis, DiagnosisKind, EventLine, Exit, Filter, InstanceState, Kind, Observation, OwnerId,
    ScheduleState, Target,
};

impl World {
    /// What an owner sees of a workload.
    pub(super) fn status(&self, target: &Target, me: &OwnerId) -> Option<Observation> {
        let object = self.workloads.get(target)?;
        let ours = object.meta.owner.as_ref() == Some(me) || self.mutant.is(Mutation::ShowsForeign);
        ours.then(|| self.observe(object, me))
    }

    /// All workloads of an owner that pass a filter, in the order of their targets.
    pub(super) fn visible(&self, me: &OwnerId, filter: &Filter) -> Vec<Observation> {
        let ours = |o: &&MainObject| o.meta.owner.as_ref() == Some(me) || self.mutant.is(Mutation::ListsForeign);
        let first = self.workloads.values().find(ours).map(|o| &o.target.namespace);
        let here = |o: &&MainObject| !self.mutant.is(Mutation::ListsOneNamespace) || Some(&o.target.namespace) == first;
        let passes = |o: &&MainObject| self.passes(o, filter);
        self.workloads.values().filter(ours).filter(here).filter(passes).map(|o| self.observe(o, me)).collect()
    }

    fn passes(&self, object: &MainObject, filter: &Filter) -> bool {
        let meta = &object.meta;
        if self.mutant.is(Mutation::FiltersByLabel) {
            let label = |marks: &crate::Marks| {
                marks.iter().map(|(name, text)| (name, crate::mark_label(text))).collect::<Vec<_>>()
            };
            let own = label(&meta.marks);
            let without = Filter { marks: crate::Marks::default(), ..filter.clone() };
            return label(&filter.marks).iter().all(|wanted| own.contains(wanted))
                && without.accepts(&object.target, &meta.marks, &meta.labels);
        }
        filter.accepts(&object.target, &meta.marks, &meta.labels)
    }

    fn observe(&self, object: &MainObject, me: &OwnerId) -> Observation {
        let (mutant, rollout) = (self.mutant, &object.rollout);
        let owner = object.meta.owner.clone().unwrap_or_else(|| me.clone());
        let version = object.version(mutant);
        let mut seen =
            Observation::new(object.target.clone(), owner, object.incarnation.to_string(), version, self.now);
        seen.kind = object.spec.kind.name();
        seen.run_of = object.run_of.as_ref().map(|periodic| periodic.name.clone());
        seen.revision = object.revision(mutant);
        seen.marks = object.meta.marks.clone();
        seen.labels = object.meta.labels.clone();
        seen.patience = object.spec.patience;
        seen.noticed = object.notice_at <= self.now;
        seen.deleting = object.deleting;
        seen.changed = object.changed;
        seen.paused = rollout.is_paused();
        seen.awaits_promotion = rollout.awaits_promotion;
        seen.finished = object.job.finished.map(|(how, _)| how);
        if let Kind::Periodic(periodic) = &object.spec.kind {
            seen.suspended = periodic.suspend;
            let active = u32::try_from(self.active(&object.target)).unwrap_or(u32::MAX);
            seen.schedule = Some(ScheduleState::new(object.schedule.last, active));
        }
        seen.completed = rollout.completed || mutant.is(Mutation::CompleteFromStart);
        seen.gave_up = rollout.gave_up;
        seen.counts = Counts::desired(object.desired(self.eligible(object)));
        (seen.counts.succeeded, seen.counts.failed) = object.job_counts();
        seen.diagnoses = self.diagnoses(object);
        let shown = |i: &&Instance| {
            (i.ending.is_none() || !mutant.is(Mutation::ForgetsTerminating))
                && (i.ended.is_none() || !mutant.is(Mutation::ForgetsEndedInstances))
        };
        let shown_of =
            |of: &MainObject| of.instances.iter().filter(shown).map(|i| self.instance(of, i)).collect::<Vec<_>>();
        let mut instances = shown_of(object);
        instances.extend(self.runs_of(&object.target).flat_map(shown_of));
        if mutant.is(Mutation::CountsForeignInstances) {
            instances.extend(self.strays.iter().filter(|stray| stray.target == object.target).map(|stray| {
                let instance = crate::Instance::new(stray.id.clone(), stray.created);
                crate::Instance { state: InstanceState::Ready, available: true, ..instance }
            }));
        }
        if seen.gave_up.is_some() && mutant.is(Mutation::TimeoutIsSuccess) {
            (seen.gave_up, seen.completed) = (None, true);
            seen.diagnoses.clear();
            for instance in instances.iter_mut().filter(|i| i.current && i.state != InstanceState::Terminating) {
                (instance.state, instance.available) = (InstanceState::Ready, true);
            }
        }
        seen.with_instances(instances)
    }

    fn instance(&self, object: &MainObject, instance: &Instance) -> crate::Instance {
        let mutant = self.mutant;
        let taken_for_new = mutant.is(Mutation::CountsOldAsReady) && instance.is_ready();
        let restarts = instance.restarts();
        crate::Instance {
            current: object.is_current(instance) || taken_for_new,
            state: instance.state,
            available: instance.is_available(object.spec.min_ready(), self.now),
            restarts: if mutant.is(Mutation::RestartsDecrease) { restarts % 2 } else { restarts },
            since: instance.since,
            node: instance.node.clone(),
            address: instance.address.clone(),
            ordinal: instance.place.ordinal,
            exit: self.exit(instance),
            ..crate::Instance::new(instance.id.clone(), instance.created)
        }
    }

    fn exit(&self, instance: &Instance) -> Option<Exit> {
        let mutant = self.mutant;
        let ended = instance.ended.as_ref()?;
        let exit = ended.exit.or_else(|| mutant.is(Mutation::NeverStartedIsExitZero).then(|| Exit::new(0)))?;
        Some(if mutant.is(Mutation::ForgetsSignal) { Exit { signal: None, ..exit } } else { exit })
    }

    fn diagnoses(&self, object: &MainObject) -> Vec<Diagnosis> {
        let refused = object.refused.map(|since| {
            let identity = object.spec.template.identity.as_deref().unwrap_or_default();
            let message = format!("there is no identity {identity} in {}", object.target.namespace);
            let mut diagnosis = Diagnosis::new(DiagnosisKind::CreationRefused, since);
            diagnosis.evidence.events.push(EventLine::new(since, "FailedCreate", message.clone()));
            diagnosis.message = message;
            diagnosis
        });
        let of_instances = object.instances.iter().filter_map(|instance| {
            let trouble = instance.trouble.as_ref()?;
            let current = object.is_current(instance) && instance.ending.is_none();
            self.diagnosis(instance, trouble, current)
        });
        let of_job = object.job_diagnoses().into_iter().filter(|_| !self.mutant.is(Mutation::HidesWhyAJobFailed));
        refused.into_iter().chain(of_instances).chain(of_job).collect()
    }

    fn diagnosis(&self, instance: &Instance, trouble: &Trouble, current: bool) -> Option<Diagnosis> {
        let mutant = self.mutant;
        if trouble.kind == DiagnosisKind::ImagePull && mutant.is(Mutation::HidesPullError) {
            return None;
        }
        let as_crash = trouble.kind == DiagnosisKind::OutOfMemory && mutant.is(Mutation::OutOfMemoryIsCrash);
        let kind = if as_crash { DiagnosisKind::CrashLoop } else { trouble.kind };
        let mut evidence = trouble.evidence.clone();
        evidence.events.clone_from(&instance.events);
        evidence.exit_code = evidence.exit_code.filter(|_| !mutant.is(Mutation::ForgetsExitCode));
        Some(Diagnosis {
            instance: Some(instance.id.clone()),
            container: trouble.container.clone(),
            current,
            message: trouble.message.clone(),
            evidence,
            ..Diagnosis::new(kind, trouble.since)
        })
    }
}
