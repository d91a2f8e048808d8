//! Jobs that have children.

use serde_json::{Value, json};

use crate::player::Player;

fn batch(id: &str, field: &str, value: Value) -> Value {
    let group = json!({"Name": "g", "Tasks": [{"Name": "t", "Driver": "mock_driver", "Config": {"run_for": "1s"}}]});
    json!({"Job": {"ID": id, "Name": id, "Type": "batch", "TaskGroups": [group], field: value}})
}

#[tokio::test]
async fn periodic() {
    let mut player = Player::new("45-periodic.json").loose_indexes();
    player.play_to(31).await;
    player.prepare("PUT", "/v1/jobs", batch("notcron", "Meta", Value::Null)).await;
    player.play_all().await;
}

#[tokio::test]
async fn dispatch() {
    let mut player = Player::new("46-dispatch.json").loose_indexes();
    let too_large = format!("{}=", "A".repeat(22_667));
    player.correct(16, |body| body["Payload"] = json!(too_large));
    player.play_to(24).await;
    for (id, payload) in [("disp2", "forbidden"), ("disp3", "required")] {
        player.prepare("PUT", "/v1/jobs", batch(id, "ParameterizedJob", json!({"Payload": payload}))).await;
    }
    player.prepare("PUT", "/v1/jobs", batch("nodisp", "Meta", Value::Null)).await;
    player.play_all().await;
}

#[tokio::test]
async fn children() {
    let mut player = Player::new("86-children.json");
    player.leave_out([6, 9], "the recorded parent goes on counting a child that is its child no more");
    player.play_all().await;
}
