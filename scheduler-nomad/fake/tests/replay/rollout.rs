//! Rollouts that wait, fail, go back, or are steered by hand.

use serde_json::json;

use crate::player::Player;

const RACE: &str = "it names one of several evaluations that were asked for within some milliseconds";

/// The recorder changed one body again and again, and wrote it down at the end: what the version of a job's meta was.
fn meta_version(player: &mut Player, positions: &[(usize, &str)]) {
    for (position, version) in positions {
        player.correct(*position, |body| body["Job"]["Meta"]["v"] = json!(version));
    }
}

#[tokio::test]
async fn auto_revert() {
    Player::new("25-auto-revert.json").play_all().await;
}

#[tokio::test]
async fn auto_revert_impossible() {
    Player::new("26-auto-revert-impossible.json").play_all().await;
}

#[tokio::test]
async fn failed_update_no_revert() {
    Player::new("27-failed-update-no-revert.json").loose_indexes().play_all().await;
}

#[tokio::test]
async fn update_unschedulable() {
    Player::new("76-update-unschedulable.json").loose_indexes().play_all().await;
}

#[tokio::test]
async fn canary_promote() {
    let mut player = Player::new("28-canary-promote.json").loose_indexes();
    meta_version(&mut player, &[(0, "1")]);
    player.play_to(6).await;
    player.advance_to(3060);
    player.learn_newest("7903451f-3668-18a9-5c33-796809bdaed8", "/v1/job/can/deployments").await;
    player.leave_out([26], "a state between two that the recorder was quick enough to see");
    player.leave_out([33], RACE);
    player.play_all().await;
}

#[tokio::test]
async fn canary_auto_promote() {
    let mut player = Player::new("29-canary-auto-promote.json").loose_indexes();
    let mut job = player.exchange(0)["request"]["body"]["Job"].clone();
    job["Meta"]["v"] = json!("1");
    player.prepare("PUT", "/v1/jobs", json!({"Job": job})).await;
    player.leave_out([6], "the recorded server made some fifty evaluations while it waited to promote");
    player.play_all().await;
}

#[tokio::test]
async fn canary_failed() {
    let mut player = Player::new("30-canary-failed.json");
    player.play_to(11).await;
    let mut job = player.exchange(11)["request"]["body"]["Job"].clone();
    job["Meta"]["v"] = json!("1");
    player.prepare("PUT", "/v1/jobs", json!({"Job": job})).await;
    player.play_to(12).await;
    player.advance_to(21_200);
    player.learn_newest("738f2788-471c-42aa-aa3d-c5170e2c57b2", "/v1/job/caf3/deployments").await;
    player.play_all().await;
}

#[tokio::test]
async fn deployment_pause_resume_fail() {
    let mut player = Player::new("31-deployment-pause-resume-fail.json").loose_indexes();
    let mut job = player.exchange(0)["request"]["body"]["Job"].clone();
    job["Meta"]["v"] = json!("1");
    player.prepare("PUT", "/v1/jobs", json!({"Job": job})).await;
    player.leave_out([16], RACE);
    player.play_to(1).await;
    player.advance_to(4155);
    player.learn_newest("cf25c09a-55f4-980b-d9c9-d35750bfb8bf", "/v1/job/pr/deployments").await;
    player.play_all().await;
}

#[tokio::test]
async fn deployment_manual_health() {
    let mut player = Player::new("33-deployment-manual-health.json");
    player.play_to(1).await;
    player.advance_to(1000);
    player.learn_newest("15bfb2b0-aa73-ad9e-b799-53f6bf392a85", "/v1/job/mh/deployments").await;
    for (name, id) in
        [("mh.g[0]", "6df23c02-cb6e-63cb-b86a-36b756d6c231"), ("mh.g[1]", "a1ce3c13-8874-d4e6-13cd-a8eb4ca7b80c")]
    {
        player.learn_named(id, "/v1/job/mh/allocations", name).await;
    }
    player.play_all().await;
}

#[tokio::test]
async fn deployment_fail_with_auto_revert() {
    let mut player = Player::new("53-deployment-fail-with-auto-revert.json");
    meta_version(&mut player, &[(0, "0")]);
    player.play_to(2).await;
    player.advance_to(3010);
    player.learn_newest("b1f20d4c-11b5-96ce-8a20-9f821d2446eb", "/v1/job/far/deployments").await;
    player.play_all().await;
}

#[tokio::test]
async fn fail_after_scale() {
    Player::new("89-fail-after-scale.json").play_all().await;
}

#[tokio::test]
async fn canary_interrupted() {
    let mut player = Player::new("79-canary-interrupted.json");
    let mut job = player.exchange(0)["request"]["body"]["Job"].clone();
    player.prepare("PUT", "/v1/jobs", json!({"Job": job.take()})).await;
    meta_version(&mut player, &[(0, "1"), (4, "2")]);
    player.play_all().await;
}
