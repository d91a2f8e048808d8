//! What is checked of each kind of workload.

use super::Finder;
use crate::time::Seconds;
use crate::workload::{Cron, Identities, Job, Kind, Periodic, Role, Rolling, Service, Update, Workload, cron};

/// More instances than any supported platform runs of one workload; beyond it a typing error is likelier.
const MOST_REPLICAS: u32 = 100_000;

impl Finder {
    pub(super) fn kind(&mut self, w: &Workload) {
        match &w.kind {
            Kind::Service(service) => self.service(service, w),
            Kind::Job(job) => self.job("kind.job", job, w),
            Kind::Periodic(periodic) => self.periodic(periodic, w),
            Kind::System(system) => {
                self.many("kind.system.max_unavailable", system.max_unavailable, 1);
                self.min_ready("kind.system.min_ready", system.min_ready, w);
            }
        }
    }

    fn many(&mut self, path: &str, count: u32, least: u32) {
        if count < least {
            self.add(path, format!("must be at least {least}"));
        }
        if count > MOST_REPLICAS {
            self.add(path, format!("{count} is too many, at most {MOST_REPLICAS}"));
        }
    }

    fn min_ready(&mut self, path: &str, span: Seconds, w: &Workload) {
        self.seconds(path, span, 0);
        if span >= w.progress_deadline && span.get() > 0 {
            self.add(path, "must be shorter than progress_deadline, or no rollout could ever complete");
        }
    }

    fn service(&mut self, service: &Service, w: &Workload) {
        self.many("kind.service.replicas", service.replicas.written(), 0);
        match service.update {
            Update::Rolling(rolling) => {
                if rolling.max_surge == 0 && rolling.max_unavailable == 0 {
                    self.add(
                        "kind.service.update.rolling",
                        "max_surge and max_unavailable are both zero, so that no update could ever begin",
                    );
                }
                self.many("kind.service.update.rolling.max_surge", rolling.max_surge, 0);
                self.many("kind.service.update.rolling.max_unavailable", rolling.max_unavailable, 0);
            }
            Update::Recreate => {}
            Update::Canary(canary) => {
                self.many("kind.service.update.canary.canaries", canary.canaries, 1);
                self.many("kind.service.update.canary.at_a_time", canary.at_a_time, 1);
            }
        }
        if service.identities == Identities::Stable && service.update != Update::Rolling(Rolling::new(0, 1)) {
            self.add(
                "kind.service.update",
                "stable identities need rolling: {max_surge: 0, max_unavailable: 1}: a successor cannot run beside its \
                 predecessor",
            );
        }
        self.min_ready("kind.service.min_ready", service.min_ready, w);
    }

    fn job(&mut self, path: &str, job: &Job, w: &Workload) {
        self.many(&format!("{path}.completions"), job.completions, 1);
        if let Some(most) = job.parallelism {
            self.many(&format!("{path}.parallelism"), most, 1);
        }
        self.many(&format!("{path}.retries"), job.retries, 0);
        if let Some(deadline) = job.deadline {
            self.seconds(&format!("{path}.deadline"), deadline, 1);
        }
        if let Some(time) = job.time_to_live {
            self.seconds(&format!("{path}.time_to_live"), time, 0);
        }
        for (i, container) in w.containers.iter().enumerate() {
            for (kind, _) in container.probes.iter().filter(|_| container.role == Role::Main) {
                self.add(
                    format!("containers[{i}].probes.{kind}"),
                    "the main container of a job runs to its end and is not probed",
                );
            }
        }
    }

    fn periodic(&mut self, periodic: &Periodic, w: &Workload) {
        self.ok("kind.periodic.schedule", periodic.schedule.parse::<Cron>());
        if !cron::is_zone(&periodic.time_zone) {
            self.add(
                "kind.periodic.time_zone",
                format!("{:?} is no time zone of the IANA data base, such as Europe/Berlin", periodic.time_zone),
            );
        }
        if let Some(span) = periodic.starting_deadline {
            // Kubernetes looks every ten seconds, and misses what is due within less.
            self.seconds("kind.periodic.starting_deadline", span, 10);
        }
        for (field, kept) in [("keep_succeeded", periodic.keep_succeeded), ("keep_failed", periodic.keep_failed)] {
            self.many(&format!("kind.periodic.{field}"), kept.unwrap_or_default(), 0);
        }
        self.job("kind.periodic.job", &periodic.job, w);
    }
}
