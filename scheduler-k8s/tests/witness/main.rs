//! kubectl as an independent witness of what the scheduler says and does.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "this is a test, which clippy cannot tell without #[test]"
)]

mod logs;
mod objects;
mod operations;
mod routes;
#[path = "../support/mod.rs"]
mod support;

use std::process::{ExitCode, Stdio};
use std::time::Duration;

use futures_util::future::BoxFuture;
use libtest_mimic::{Arguments, Completion, Trial};
use scheduler_core::{
    Change, Container, Delete, Deleted, Effect, Error, ErrorKind, Guard, Launch, Missing, ObjectAction, OwnerId, Ping,
    Scheduler as _, Status, Target, Workload,
};
use scheduler_k8s::client::{Client, ConnectOptions};
use scheduler_k8s::{KubernetesConfig, KubernetesScheduler};
use scheduler_k8s_testbed::{Testbed, User};
use serde_json::{Value, json};
use support::fault::Faults;
use support::{RUNTIME, TESTBED};

type Case = fn() -> BoxFuture<'static, ()>;

macro_rules! cases {
    ($($module:ident: $($case:ident),* $(,)?;)*) => {
        vec![$($((stringify!($case), (|| Box::pin($module::$case())) as Case)),*),*]
    };
}

fn main() -> ExitCode {
    let cases = cases![
        objects:
            kubectl_sees_what_launch_says,
            a_second_launch_writes_nothing,
            requests_are_as_documented,
            drift_by_kubectl_is_repaired_and_reported,
            a_port_that_another_manager_holds_moves,
            what_another_manager_added_to_a_list_goes,
            adopting_leaves_nothing_of_the_other,
            an_object_made_by_create_is_adopted_whole,
            delete_leaves_nothing,
            an_orphaned_delete_is_completed,
            a_foreign_deployment_is_untouched,
            a_foreign_service_is_untouched_and_nothing_is_made,
            a_missing_namespace_is_not_found,
            refusals_of_the_server_name_our_fields,
            without_rights_it_is_forbidden,
            connects_as_configured;
        operations:
            a_job_runs_to_its_end_and_cannot_become_another,
            a_job_that_fails_tells_why,
            two_runs_of_one_key_are_one_job,
            a_run_by_hand_goes_with_its_cron_job,
            stable_identities_keep_their_volumes,
            an_orphaned_stateful_set_is_taken_whole,
            a_count_that_an_autoscaler_holds_is_left_alone,
            a_system_runs_on_each_node,
            configurations_are_immutable_and_pruned,
            a_namespace_is_ours_or_left_alone,
            the_history_of_a_daemon_is_not_its_controller_s,
            a_plan_writes_nothing,
            a_pause_by_somebody_else_ends_with_a_launch,
            what_was_cut_off_is_completed_by_repeating,
            operations_cost_what_is_documented;
        routes:
            routes_are_one_ingress,
            routes_move_without_a_gap,
            a_move_that_fails_halfway_leaves_both;
        logs:
            logs_go_on_over_a_restart,
            following_ends_with_the_job,
            following_goes_on_to_later_instances;
    ];
    let trials = cases.into_iter().map(|(name, case)| trial(name, case)).collect();
    support::run(&Arguments::from_args(), trials)
}

fn trial(name: &str, case: Case) -> Trial {
    support::gated(name, move || {
        RUNTIME.block_on(case());
        Ok(Completion::Completed)
    })
}

struct World {
    testbed: &'static Testbed,
    namespace: String,
    scheduler: KubernetesScheduler,
    faults: Faults,
}

impl World {
    async fn new() -> Self {
        let testbed = TESTBED.get().await.unwrap();
        let faults = Faults::new();
        let client = Client::new(faults.client(testbed.client(User::Admin).unwrap()));
        let scheduler = KubernetesScheduler::new(client, owner("platform"));
        Self { testbed, namespace: testbed.create_namespace("witness").await.unwrap(), scheduler, faults }
    }

    fn workload(&self) -> Workload {
        let web = Container::new("web", "sim/run:1").port("http", 8080).env("A", "1");
        Workload::service(&self.namespace, "web").container(web).termination_grace(1)
    }

    fn target(&self) -> Target {
        Target::new(&self.namespace, "web").unwrap()
    }

    async fn launch(&self, workload: Workload) -> scheduler_core::Launched {
        self.try_launch(workload, Guard::IfOwned).await.unwrap()
    }

    async fn try_launch(&self, workload: Workload, guard: Guard) -> Result<scheduler_core::Launched, Error> {
        self.scheduler.launch(Launch::new(workload.check().unwrap()).guard(guard)).await
    }

    async fn delete_whole(&self) {
        let steps = async {
            while let Deleted::Deleting { .. } = self.scheduler.delete(Delete::new(self.target())).await.unwrap() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), steps).await.expect("it is gone in time");
    }

    /// kubectl in this namespace; fails with what it says.
    async fn kubectl(&self, arguments: &[&str]) -> String {
        self.kubectl_with(arguments, "").await
    }

    async fn kubectl_with(&self, arguments: &[&str], input: &str) -> String {
        use std::io::Write as _;
        let mut command = self.testbed.kubectl();
        command.args(["--namespace", &self.namespace]).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let input = input.to_owned();
        let output = tokio::task::spawn_blocking(move || {
            let mut child = command.spawn().unwrap();
            child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
            child.wait_with_output().unwrap()
        });
        let output = output.await.unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    async fn get(&self, what: &str) -> Value {
        serde_json::from_str(&self.kubectl(&["get", what, "web", "--output", "json"]).await).unwrap()
    }

    /// Everything in the namespace that bears a label of ours.
    async fn ours(&self) -> Vec<String> {
        let kinds = "deployments,statefulsets,daemonsets,jobs,cronjobs,replicasets,pods,services,ingresses,configmaps,\
                     secrets,controllerrevisions";
        let names = self.kubectl(&["get", kinds, "--selector", "scheduler/owner", "--output", "name"]).await;
        names.lines().map(str::to_owned).collect()
    }

    async fn resource_versions(&self) -> Vec<Value> {
        let (deployment, service) = (self.get("deployment").await, self.get("service").await);
        [deployment, service].map(|object| object["metadata"]["resourceVersion"].clone()).into()
    }

    /// Waits until the controllers have nothing to do any more.
    async fn rolled_out(&self) {
        self.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]).await;
    }
}

fn owner(id: &str) -> OwnerId {
    OwnerId::new(id).unwrap()
}
