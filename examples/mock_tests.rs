//! How to unit-test a control plane: with a mock, and with the in-memory scheduler under a paused clock.
//!
//! `cargo test -p examples --example mock_tests` runs the tests; run as a program, it only says so.

use std::sync::Arc;
use std::time::Duration;

use scheduler_core::{
    Container, Error, ErrorKind, Launch, Scheduler, SchedulerExt, Target, WaitOptions, WaitOutcome, Workload,
};

/// A tiny control plane: apps, each with a release that should run.
struct ControlPlane {
    scheduler: Arc<dyn Scheduler>,
}

/// How a deploy ended, in the control plane's own words.
#[derive(Debug, PartialEq)]
enum Deploy {
    Live,
    Broken { reasons: Vec<String> },
    Late,
    TryAgainLater,
}

impl ControlPlane {
    /// Deploys a release of an app and waits until it is live.
    async fn deploy(&self, app: &str, image: &str) -> Result<Deploy, Error> {
        // Ready for five seconds counts as up: what crashes right after its start must not pass for live.
        let workload = Workload::service("apps", app).replicas(2).min_ready(5).progress_deadline(60);
        let workload = workload.container(Container::new("app", image)).check()?;
        let options = WaitOptions::default().total(Duration::from_secs(600));
        let outcome = match self.scheduler.launch_and_wait(Launch::new(workload), &options).await {
            Ok((_, outcome)) => outcome,
            Err(error) if *error.kind() == ErrorKind::RateLimited => return Ok(Deploy::TryAgainLater),
            Err(error) => return Err(error),
        };
        Ok(match outcome {
            WaitOutcome::Succeeded => Deploy::Live,
            WaitOutcome::Failed(diagnoses) => {
                Deploy::Broken { reasons: diagnoses.iter().map(|diagnosis| diagnosis.kind.to_string()).collect() }
            }
            _ => Deploy::Late,
        })
    }

    /// Whether an app can be reached.
    async fn is_up(&self, app: &str) -> Result<bool, Error> {
        let target = Target::new("apps", app).map_err(|error| Error::invalid_argument(error.to_string()))?;
        let summary = self.scheduler.summary(&target).await?;
        Ok(summary.and_then(|summary| summary.ready).is_some_and(|ready| ready > 0))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let cluster = scheduler_core::memory::MemoryCluster::builder().namespace("apps").build();
    let owner = scheduler_core::OwnerId::new("example").map_err(|error| Error::invalid_argument(error.to_string()))?;
    let plane = ControlPlane { scheduler: Arc::new(cluster.scheduler(owner)) };
    println!("deploy: {:?}, up: {}", plane.deploy("web", "web:1").await?, plane.is_up("web").await?);
    println!("The tests in this file are the point: cargo test -p examples --example mock_tests");
    Ok(())
}

#[cfg(test)]
mod tests {
    use scheduler_core::memory::{Fate, MemoryCluster};
    use scheduler_core::{Found, MockScheduler, OwnerId};

    use super::*;

    /// A mock answers what the test says: right for "was it called, with what" and for errors that are hard to bring about.
    #[tokio::test]
    async fn a_rate_limit_is_no_failure() {
        let mut mock = MockScheduler::new();
        mock.expect_launch()
            .withf(|launch| launch.workload.containers[0].image == "web:1")
            .times(1)
            .returning(|_| Err(Error::new(ErrorKind::RateLimited, "slow down")));
        let plane = ControlPlane { scheduler: Arc::new(mock) };
        assert_eq!(plane.deploy("web", "web:1").await.unwrap(), Deploy::TryAgainLater);
    }

    #[tokio::test]
    async fn what_could_not_be_asked_is_not_down() {
        let mut mock = MockScheduler::new();
        mock.expect_status().returning(|_| Err(Error::new(ErrorKind::Unavailable, "no route")));
        let plane = ControlPlane { scheduler: Arc::new(mock) };
        assert_eq!(plane.is_up("web").await.unwrap_err().kind(), &ErrorKind::Unavailable);
    }

    #[tokio::test]
    async fn what_is_not_there_is_not_up() {
        let mut mock = MockScheduler::new();
        mock.expect_status().returning(|_| Ok(Found(None)));
        let plane = ControlPlane { scheduler: Arc::new(mock) };
        assert!(!plane.is_up("web").await.unwrap());
    }

    #[tokio::test]
    async fn a_faulty_app_name_is_never_sent() {
        // No expectation: any call would fail the test.
        let plane = ControlPlane { scheduler: Arc::new(MockScheduler::new()) };
        let error = plane.deploy("Web", "web:1").await.unwrap_err();
        assert_eq!(error.causes()[0].path, "name");
    }

    /// The in-memory scheduler behaves: right for what happens over time. The clock is paused, so that minutes take no time.
    fn plane() -> ControlPlane {
        let cluster = MemoryCluster::builder().namespace("apps").build();
        ControlPlane { scheduler: Arc::new(cluster.scheduler(OwnerId::new("test").unwrap())) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_good_release_goes_live() {
        let plane = plane();
        assert_eq!(plane.deploy("web", "web:1").await.unwrap(), Deploy::Live);
        assert!(plane.is_up("web").await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_release_that_crashes_is_broken_and_the_last_one_stays_up() {
        let plane = plane();
        assert_eq!(plane.deploy("web", "web:1").await.unwrap(), Deploy::Live);
        let crash = Fate::Crash { after: 1, exit_code: 3 }.image("2");
        let Deploy::Broken { reasons } = plane.deploy("web", &crash).await.unwrap() else { panic!("was not broken") };
        assert_eq!(reasons, ["a container ends again and again"]);
        // The new revision has none ready; the old instances are still there.
        let target = Target::new("apps", "web").unwrap();
        assert_eq!(plane.scheduler.summary(&target).await.unwrap().unwrap().old, Some(2));
    }
}
