//! The exchanges that were recorded with a real agent (see `tests/fixtures/README.md`), played against the fake. An answer
//! has to have the recorded status, headers, text or shape, and every recorded value that is not listed in
//! [`compare`] as one that differs from run to run.
#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot go on ends")]

mod allocation;
mod batch;
mod compare;
mod coverage;
mod launch;
mod player;
mod rollout;
#[path = "../support/mod.rs"]
mod support;
mod tasks;
mod versions;

use player::Player;
use scheduler_nomad_fake::Access;
use serde_json::{Value, json};

#[tokio::test]
async fn register_new_service() {
    let mut player = Player::new("01-register-new-service.json");
    player.mapping.first_index = 704;
    player.play_all().await;
}

#[tokio::test]
async fn register_unchanged() {
    Player::new("02-register-unchanged.json").play_all().await;
}

#[tokio::test]
async fn register_what_moves_version() {
    let mut player = Player::new("03-register-what-moves-version.json");
    for (registration, read) in [(0, 1), (3, 4), (6, 7), (9, 10), (12, 13), (15, 16), (18, 19)] {
        player.register_what_is_read_at(registration, read);
    }
    player.play_all().await;
}

#[tokio::test]
async fn register_enforce_index() {
    Player::new("04-register-enforce-index.json").play_all().await;
}

#[tokio::test]
async fn register_after_stop() {
    Player::new("05-register-after-stop.json").play_all().await;
}

#[tokio::test]
async fn register_invalid() {
    Player::new("06-register-invalid.json").play_all().await;
}

#[tokio::test]
async fn register_malformed() {
    Player::new("07-register-malformed.json").play_all().await;
}

#[tokio::test]
async fn register_large_body() {
    let mut player = Player::new("08-register-large-body.json");
    player.leave_out(0..5, "the recording leaves the body out");
    player.play_all().await;
}

#[tokio::test]
async fn validate() {
    Player::new("09-validate.json").play_all().await;
}

#[tokio::test]
async fn plan() {
    let mut player = Player::new("10-plan.json");
    player.leave_out([0], "the difference of a new job is not spelled out as far");
    player.leave_out(
        [10],
        "a plan says \"computed class ineligible\" in the place of a constraint, for a reason of its own",
    );
    player.leave_out([14], "what a change of the type says of the tasks");
    player.play_all().await;
}

#[tokio::test]
async fn plan_then_register() {
    let mut player = Player::new("11-plan-then-register.json");
    for position in [0, 1] {
        player.correct(position, |body| body["Job"]["Meta"] = Value::Null);
    }
    player.correct(3, |body| body["Job"]["Meta"]["a"] = json!("9"));
    player.play_all().await;
}

#[tokio::test]
async fn absent_job() {
    Player::new("12-absent-job.json").play_all().await;
}

#[tokio::test]
async fn list_jobs() {
    let mut player = Player::new("13-list-jobs.json");
    player.prepare("PUT", "/v1/namespace", json!({"Name": "team-a"})).await;
    let read = player.exchange(39)["response"]["body"].clone();
    for (number, by) in ["scheduler", "scheduler", "scheduler", "other", "other"].into_iter().enumerate() {
        let mut job = read.clone();
        job["ID"] = json!(format!("ls-{number}"));
        job["Name"] = job["ID"].clone();
        job["Namespace"] = json!("default");
        job["Meta"] = json!({"managed_by": by, "scheduler.name": format!("n{number}")});
        player.prepare("PUT", "/v1/jobs", json!({"Job": job})).await;
        player.advance(std::time::Duration::from_millis(5));
    }
    player.prepare("PUT", "/v1/jobs", json!({"Job": read})).await;
    // A job of earlier scenarios.
    player.rewrite(|exchange| {
        if let Some(list) = exchange["response"]["body"].as_array_mut() {
            list.retain(|job| job["ID"] != "other");
        }
    });
    player.leave_out([12], "the operator matches: it would take regular expressions");
    player.leave_out([46], "counts the evaluations of earlier scenarios");
    player.play_all().await;
}

#[tokio::test]
async fn job_id_encoding() {
    Player::new("14-job-id-encoding.json").play_all().await;
}

#[tokio::test]
async fn job_statuses() {
    let mut player = Player::new("15-job-statuses.json").loose_indexes();
    let job = |id: &str, count: u64, constraint: Value| {
        json!({"Job": {"ID": id, "Name": id, "TaskGroups": [{
            "Name": "g", "Count": count, "Constraints": constraint,
            "Tasks": [{"Name": "t", "Driver": "mock_driver", "Config": {"run_for": "600s"}}],
            "Update": {"HealthCheck": "task_states", "MinHealthyTime": 1_000_000_000_u64},
        }]}})
    };
    let plan9 = json!([{"LTarget": "${attr.kernel.name}", "Operand": "=", "RTarget": "plan9"}]);
    player.prepare("PUT", "/v1/jobs", job("st-a", 2, Value::Null)).await;
    player.play_to(1).await;
    player.prepare("PUT", "/v1/jobs", job("st-b", 0, Value::Null)).await;
    player.prepare("PUT", "/v1/jobs", job("st-c", 1, plan9)).await;
    player.leave_out([3, 4], "GET: loses jobs while paging, so nobody should use it");
    player.play_all().await;
}

#[tokio::test]
async fn timeline_first_deployment() {
    Player::new("16-timeline-first-deployment.json").play_all().await;
}

#[tokio::test]
async fn timeline_rolling_update() {
    let player = Player::new("17-timeline-rolling-update.json");
    let mut job = player.exchange(0)["request"]["body"]["Job"].clone();
    job["Meta"]["v"] = json!("1");
    player.prepare("PUT", "/v1/jobs", json!({"Job": job})).await;
    player.play_all().await;
}

#[tokio::test]
async fn timeline_crash_loop() {
    Player::new("18-timeline-crash-loop.json").play_all().await;
}

#[tokio::test]
async fn crash_loop_unlimited() {
    let mut player = Player::new("19-crash-loop-unlimited.json");
    player.leave_out([24], "a state between two that the recorder was quick enough to see");
    player.beat_after(500);
    player.play_all().await;
}

#[tokio::test]
async fn no_reschedule() {
    // Four jobs at once: their clients' news share indexes.
    Player::new("20-no-reschedule.json").loose_indexes().play_all().await;
}

#[tokio::test]
async fn deploy_healthy_deadline() {
    let mut player = Player::new("22-deploy-healthy-deadline.json");
    player.leave_out([16, 17], "a verdict and a restart in one message of the client");
    player.play_all().await;
}

#[tokio::test]
async fn deploy_progress_deadline() {
    Player::new("23-deploy-progress-deadline.json").play_all().await;
}

#[tokio::test]
async fn deploy_progress_deadline_zero() {
    Player::new("24-deploy-progress-deadline-zero.json").play_all().await;
}

#[tokio::test]
async fn deployment_superseded() {
    let mut player = Player::new("32-deployment-superseded.json");
    player.correct(0, |body| body["Job"]["Meta"]["v"] = json!("1"));
    player.play_all().await;
}

#[tokio::test]
async fn scale() {
    Player::new("34-scale.json").play_all().await;
}

#[tokio::test]
async fn scale_bounds() {
    let mut player = Player::new("35-scale-bounds.json").loose_indexes();
    player.leave_out([4], "lists of policies, which an autoscaler reads");
    player.correct(5, |body| body["Job"]["TaskGroups"][0]["Count"] = json!(4));
    player.play_all().await;
}

#[tokio::test]
async fn scale_during_deployment() {
    let mut player = Player::new("36-scale-during-deployment.json");
    player.correct(0, |body| body["Job"]["TaskGroups"][0]["Count"] = json!(2));
    player.play_all().await;
}

#[tokio::test]
async fn scale_then_register() {
    Player::new("37-scale-then-register.json").play_all().await;
}

#[tokio::test]
async fn stop() {
    let player = Player::new("40-stop.json");
    player.beat_after(300);
    player.prepare_job_read_at(0).await;
    player.play_all().await;
}

#[tokio::test]
async fn purge() {
    let mut player = Player::new("41-purge.json");
    player.prepare_job_read_at(13).await;
    let evals = "/v1/job/pu/evaluations";
    player.learn("ce87dce2-f0a9-bb85-d5df-d8a36cb0ea11", evals).await;
    player.play_to(1).await;
    player.learn("8888c117-c87b-8826-feba-fcac0a095a0f", "/v1/job/pu/allocations").await;
    player.learn("5b64dd34-a35d-64f8-9536-5287643ba6d8", "/v1/job/pu/deployments").await;
    player.play_all().await;
}

#[tokio::test]
async fn kill_timeout_ignored_signal() {
    let mut player = Player::new("42-kill-timeout-ignored-signal.json");
    player.rewrite(player::stubborn);
    player.beat_after(600);
    player.play_all().await;
}

#[tokio::test]
async fn blocked_constraint() {
    let mut player = Player::new("48-blocked-constraint.json");
    for position in [0, 12] {
        player.correct(position, |body| {
            let plan9 = json!([{"LTarget": "${attr.kernel.name}", "Operand": "=", "RTarget": "plan9"}]);
            body["Job"]["TaskGroups"][0]["Constraints"] = plan9;
        });
    }
    player.play_all().await;
}

#[tokio::test]
async fn blocked_resources() {
    // Several jobs at once: their clients' news share indexes.
    let mut player = Player::new("49-blocked-resources.json").loose_indexes();
    player.beat_after(20);
    player.mapping.first_index = 364;
    player.leave_out([25, 33], "volumes");
    player.leave_out([23, 31, 37, 38, 39], "the recorded node has two addresses, and takes a static port twice");
    player.leave_out([18, 19], "the deployment watcher gathered in two batches what comes in one here");
    player.play_all().await;
}

#[tokio::test]
async fn evaluations() {
    Player::new("50-evaluations.json").play_all().await;
}

#[tokio::test]
async fn namespaces() {
    let mut player = Player::new("62-namespaces.json");
    player.play_to(18).await;
    player.learn("d39f260e-9840-0ed5-711a-f2d63ffbef79", "/v1/job/nsj/allocations?namespace=team-b").await;
    player.learn("d77d1865-67bc-80eb-fb1d-d3d2212b94e8", "/v1/job/nsj/deployments?namespace=team-b").await;
    player.play_to(27).await;
    player.advance_to(172);
    for job in ["nsj", "nsq", "nsr"] {
        player.prepare("DELETE", &format!("/v1/job/{job}?namespace=team-b"), Value::Null).await;
    }
    player.play_all().await;
}

#[tokio::test]
async fn agent_endpoints() {
    let mut player = Player::new("65-agent-endpoints.json").loose_indexes();
    player.leave_out(8..18, "search, parsing, licences and figures");
    player.play_all().await;
}

#[tokio::test]
async fn acl() {
    let mut player = Player::with("67-acl.json", |options| options.acl());
    let secret = player.nomad.token(Access::Management);
    player.mapping.learn_id("00000000-0000-4000-8000-000000000001", &secret);
    player.play_to(1).await;
    player.leave_out([1, 2, 60], "tokens are made by FakeNomad::token");
    player.leave_out([56], "a stream from the beginning, where other indexes are");
    player.play_to(13).await;
    player.advance_to(1053);
    player.secret = Some(secret);
    player.learn("7ea563cf-3483-c6c4-b001-a790b6d5ee69", "/v1/allocations").await;
    player.play_all().await;
}

#[tokio::test]
async fn blocked_deployment_no_deadline() {
    Player::new("75-blocked-deployment-no-deadline.json").play_all().await;
}

#[tokio::test]
async fn event_stream_job_life() {
    let mut player = Player::new("57-event-stream-job-life.json").loose_indexes();
    player.mapping.first_index = 411;
    let job = |priority: u64| {
        json!({"Job": {"ID": "ev", "Name": "ev", "Priority": priority, "TaskGroups": [{
            "Name": "g", "Count": 1, "EphemeralDisk": {"SizeMB": 20},
            "Tasks": [{"Name": "t", "Driver": "mock_driver", "Config": {"run_for": "600s"},
                "Resources": {"CPU": 50, "MemoryMB": 32}, "LogConfig": {"MaxFiles": 1, "MaxFileSizeMB": 1}}],
            "Update": {"MaxParallel": 1, "HealthCheck": "task_states", "MinHealthyTime": 300_000_000_u64,
                "HealthyDeadline": 5_000_000_000_u64, "ProgressDeadline": 10_000_000_000_u64},
        }]}})
    };
    player.prepare("PUT", "/v1/jobs", job(50)).await;
    player.advance_to(2000);
    player.prepare("PUT", "/v1/jobs", job(55)).await;
    player.advance_to(4500);
    player.prepare("DELETE", "/v1/job/ev", Value::Null).await;
    player.advance_to(5500);
    player.prepare("DELETE", "/v1/job/ev?purge=true", Value::Null).await;
    player.advance_to(6000);
    player.rewrite(|exchange| {
        // It was asked from an index on that is far in the future here as well; what follows is what is buffered here.
        exchange["request"]["query"] = json!([["topic", "*"]]);
        let lines = exchange["response"]["body"].as_array_mut().expect("lines");
        lines.retain(|line| line["Events"][0]["Key"] != "9e3c2ac6-68ac-ea61-9e25-faef3a7b7e95");
    });
    player.play_all().await;
}

#[tokio::test]
async fn event_stream_frames() {
    let mut player = Player::new("58-event-stream-frames.json");
    player.prepare_job_read_at(1).await;
    player.advance_to(1100);
    player.mapping.first_index = 337;
    player.leave_out([0], "the table has been written by other jobs");
    player.leave_out([14], "the lines of other jobs");
    player.play_all().await;
}

#[tokio::test]
async fn acl_limited() {
    let mut player = Player::with("68-acl-limited.json", |options| options.acl()).loose_indexes();
    let namespace = || "team-a".to_owned();
    let management = player.nomad.token(Access::Management);
    let secrets = [
        management.clone(),
        player.nomad.token(Access::Write { namespace: namespace() }),
        player.nomad.token(Access::Read { namespace: namespace() }),
        player.nomad.token(Access::Nothing),
    ];
    for (number, secret) in secrets.iter().enumerate() {
        player.mapping.learn_id(&format!("00000000-0000-4000-8000-00000000000{}", number + 1), secret);
    }
    player.leave_out(1..8, "tokens are made by FakeNomad::token");
    player.leave_out([96], "the recording leaves the end of this stream open");
    player.leave_out(101..112, "tokens do not expire, and are not deleted");
    player.play_to(9).await;
    player.secret = Some(management);
    player.advance_to(2214);
    player.learn("cf8b92b7-0bb9-4905-3464-5908a43d670c", "/v1/allocations?namespace=team-a").await;
    player.learn("6e076721-666d-99c3-4dca-662f3bb128a4", "/v1/deployments?namespace=team-a").await;
    player.play_all().await;
}
