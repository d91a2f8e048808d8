//! Jobs that are to end, and jobs of every node.

use std::time::Duration;

use serde_json::Value;

use crate::player::Player;

#[tokio::test]
async fn batch_success() {
    let mut player = Player::new("43-batch-success.json");
    for position in [0, 12] {
        player.correct(position, |body| body["Job"]["Meta"] = Value::Null);
    }
    player.play_all().await;
}

#[tokio::test]
async fn batch_failure() {
    let mut player = Player::new("44-batch-failure.json").loose_indexes();
    player.beat_after(250);
    player.leave_out([34], "the message of an exit");
    player.leave_out(35..38, "a program that ends by its number: no program runs");
    player.leave_out(5..9, "states before the placement, which comes sooner here");
    player.play_all().await;
}

#[tokio::test]
async fn batch_stopped() {
    Player::new("77-batch-stopped.json").play_all().await;
}

#[tokio::test]
async fn evaluate_force_reschedule() {
    let mut player = Player::new("52-evaluate-force-reschedule.json").loose_indexes();
    player.leave_out(
        [4, 6, 8, 11, 13, 15],
        "whether the health of what fails at once is told is a race without a deployment",
    );
    player.play_all().await;
}

#[tokio::test]
async fn system() {
    let mut player = Player::new("47-system.json").loose_indexes();
    player.mapping.first_index = 497;
    player.correct(0, |body| body["Job"]["Meta"] = Value::Null);
    player.leave_out([5, 19], "the recorded server counts a placement that it does not make");
    player.leave_out([17], "a client tells here nothing of a failed start before it gives up");
    player.leave_out(21..25, "a job that no node takes");
    player.play_all().await;
}

#[tokio::test]
async fn gc() {
    let mut player = Player::new("69-gc.json").loose_indexes();
    player.leave_out([19, 20], "summaries that are counted anew");
    player.play_to(3).await;
    player.advance(Duration::from_millis(1000));
    player.learn("eee76899-d33b-9ef6-918e-8db9d08da624", "/v1/job/g1/allocations").await;
    player.play_all().await;
}
