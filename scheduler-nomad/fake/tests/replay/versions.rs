//! Versions of a job: going back, the stable flag, tags.

use std::time::Duration;

use serde_json::json;

use crate::player::Player;

/// The recorder changed one body again and again, and wrote it down at the end: what the meta and the count were.
fn was(player: &mut Player, positions: &[(usize, &str, u64)]) {
    for (position, version, count) in positions {
        player.correct(*position, |body| {
            body["Job"]["Meta"]["v"] = json!(version);
            body["Job"]["TaskGroups"][0]["Count"] = json!(count);
        });
    }
}

#[tokio::test]
async fn revert() {
    let mut player = Player::new("38-revert.json");
    was(&mut player, &[(0, "0", 1)]);
    player.play_all().await;
}

#[tokio::test]
async fn stable_of_old_version() {
    let mut player = Player::new("51-stable-of-old-version.json");
    was(&mut player, &[(0, "0", 1)]);
    player.play_all().await;
}

#[tokio::test]
async fn versions_stable_tags() {
    let mut player = Player::new("39-versions-stable-tags.json").loose_indexes();
    let job = player.exchange(0)["request"]["body"]["Job"].clone();
    was(&mut player, &[(0, "0", 0)]);
    player.play_to(1).await;
    let register = async |player: &mut Player, version: u64| {
        let mut job = job.clone();
        job["Meta"]["v"] = json!(version.to_string());
        player.prepare("PUT", "/v1/jobs", json!({"Job": job})).await;
        player.advance(Duration::from_millis(5));
    };
    player.advance(Duration::from_millis(5));
    for version in 1..3 {
        register(&mut player, version).await;
    }
    player.play_to(19).await;
    for version in 3..12 {
        register(&mut player, version).await;
    }
    player.play_all().await;
}
