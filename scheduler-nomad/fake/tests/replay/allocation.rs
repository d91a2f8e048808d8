//! Single allocations: their logs, and what is done to them; and variables.

use std::time::Duration;

use serde_json::json;

use crate::player::{Player, stubborn};

#[tokio::test]
async fn logs_not_started() {
    let mut player = Player::new("61-logs-not-started.json").loose_indexes();
    player.leave_out([3, 5], "statistics: nothing is measured here");
    player.play_to(1).await;
    player.advance(Duration::from_millis(20));
    player.learn("fd980268-a682-2268-8346-3871b592ebcd", "/v1/job/ln/allocations").await;
    player.play_all().await;
}

#[tokio::test]
async fn alloc_restart_signal_stop() {
    let mut player = Player::new("64-alloc-restart-signal-stop.json").loose_indexes();
    player.leave_out([1, 31, 35], "statistics: nothing is measured here");
    player.leave_out([17, 19, 21, 23, 25], "how many restarts fit into some milliseconds");
    player.play_to(1).await;
    player.advance(Duration::from_millis(20));
    player.learn("cbafc272-742f-dcbf-36f8-c4559fb9513b", "/v1/job/ao/allocations").await;
    player.play_all().await;
}

#[tokio::test]
async fn variables() {
    let mut player = Player::new("66-variables.json");
    player.leave_out([11], "the recording leaves the body out");
    player.play_all().await;
}

#[tokio::test]
async fn logs() {
    let mut player = Player::new("60-logs.json").loose_indexes();
    player.leave_out(1..13, "what a program writes: no program runs");
    player.leave_out([20], "what a program writes: no program runs");
    player.leave_out(24..30, "files and statistics");
    player.play_to(1).await;
    player.advance(Duration::from_millis(1200));
    player.learn("06b7ebea-201a-95e1-b1ce-53f7d3afe8c1", "/v1/job/lg/allocations").await;
    player.play_all().await;
}

#[tokio::test]
async fn services() {
    let mut player = Player::new("63-services.json").loose_indexes();
    player.leave_out([5, 8], "which one is chosen, and which has the smaller random ID");
    player.leave_out([12, 16], "the results of checks");
    // No program runs here whose check could fail; an image says that it does.
    player.correct(14, |body| {
        let task = &mut body["Job"]["TaskGroups"][0]["Tasks"][0];
        (task["Driver"], task["Config"]) = (json!("docker"), json!({"image": "sim/never-ready"}));
    });
    // Two clients' writes in one moment: here the other one was first.
    player.rewrite(|exchange| {
        let list = exchange["response"]["body"].as_array_mut().into_iter().flatten();
        for item in list.filter(|item| item["ServiceName"].is_string()) {
            item["CreateIndex"] = match item["CreateIndex"].as_u64() {
                Some(462) => json!(463),
                Some(463) => json!(462),
                _ => continue,
            };
        }
    });
    player.play_to(1).await;
    player.advance(Duration::from_millis(20));
    for (id, name) in
        [("607b5fde-e4a4-b0ae-499f-070b36697c55", "sv.g[1]"), ("939d83fd-968c-b4d3-d88f-b4d687c350ea", "sv.g[0]")]
    {
        player.learn_named(id, "/v1/job/sv/allocations", name).await;
    }
    player.play_all().await;
}

#[tokio::test]
async fn service_tags() {
    Player::new("88-service-tags.json").loose_indexes().play_all().await;
}

#[tokio::test]
async fn service_before_the_end() {
    let mut player = Player::new("91-service-before-the-end.json").loose_indexes();
    player.rewrite(stubborn);
    player.play_all().await;
}
