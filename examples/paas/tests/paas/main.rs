//! The example `paas` over HTTP, as a person uses it: in memory, and on a real Kubernetes control plane.
//!
//! The platform runs in this process, but where it is killed.

mod client;
mod faults;
mod killed;
mod kubernetes;
mod story;
mod world;

use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use scheduler_k8s_testbed::Availability;
use tokio::runtime::Runtime;

use self::world::World;

/// No test takes longer.
const WHOLE: Duration = Duration::from_secs(180);

fn main() -> ExitCode {
    let trials = vec![
        trial("the_story_in_memory", the_story_in_memory),
        trial("faults_are_refused", faults::are_refused),
        trial("changes_of_haste_lose_nothing", faults::of_haste_lose_nothing),
        trial("breaks_of_the_line_are_made_good", faults::of_the_line_are_made_good),
        trial("commands_twice_under_one_key_run_once", faults::twice_under_one_key_run_once),
        trial("losses_behind_its_back_are_repaired", faults::behind_its_back_are_repaired),
        trial("deploys_of_a_release_that_hangs_make_way", faults::of_a_release_that_hangs_make_way),
        trial("killed_in_a_rollout_it_goes_on", killed::in_a_rollout_it_goes_on),
        Trial::ignorable_test("the_story_on_kubernetes", || match Availability::check()? {
            Availability::Servers(_) => run(kubernetes::the_story),
            Availability::Missing(reason) => Ok(Completion::ignored_with(reason)),
            _ => Ok(Completion::ignored_with("this needs the simulated kubelet of a control plane of its own")),
        }),
    ];
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials);
    // A static is never dropped.
    if let Ok(runtime) = Runtime::new() {
        runtime.block_on(kubernetes::TESTBED.stop());
    }
    conclusion.exit_code()
}

async fn the_story_in_memory() {
    let world = World::memory().await;
    story::is_told(world.client, "shop").await;
    world.stop().await;
}

fn trial<F: Future<Output = ()> + 'static>(name: &str, case: fn() -> F) -> Trial {
    Trial::ignorable_test(name, move || run(case))
}

/// Each test has a runtime of its own, which takes all that it began with it.
fn run<F: Future<Output = ()> + 'static>(case: fn() -> F) -> Result<Completion, Failed> {
    Runtime::new()?.block_on(async {
        tokio::time::timeout(WHOLE, case()).await.map_err(|_| format!("it has not ended after {WHOLE:?}"))
    })?;
    Ok(Completion::Completed)
}
