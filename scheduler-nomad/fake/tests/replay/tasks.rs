//! What the clients do with the tasks of an allocation.

use scheduler_nomad_fake::Node;

use crate::player::Player;

#[tokio::test]
async fn lifecycle() {
    // A failure is told together with the verdict on the health before it, or after that.
    let mut player = Player::new("83-lifecycle.json").loose_indexes();
    player.leave_out([45], "the state before the failure is told no more");
    player.play_all().await;
}

#[tokio::test]
async fn start_errors() {
    let mut player = Player::new("21-start-errors.json").loose_indexes();
    player.leave_out([2, 3, 5, 11, 12, 14], "drivers, programs and artifacts that are none: no program runs");
    player.play_all().await;
}

#[tokio::test]
async fn leader() {
    let mut player = Player::new("84-leader.json");
    player.leave_out([9], "the recorded tasks were told twice to end");
    player.play_all().await;
}

#[tokio::test]
async fn fields_and_constraints() {
    let node = Node::new("node-1").meta("zone", "a").meta("features", "ssd,gpu");
    let mut player = Player::with("85-fields-and-constraints.json", |options| options.nodes([node]));
    player.leave_out([7, 9], "the difference of services is not spelled out as far");
    player.mapping.first_index = 264;
    player.beat_after(400);
    player.play_to(2).await;
    player.learn("f148864f-702f-2929-b6a9-658b66006af3", "/v1/job/fi/allocations").await;
    player.play_all().await;
}

#[tokio::test]
async fn template() {
    let mut player = Player::new("87-template.json").loose_indexes();
    player.leave_out([9], "the difference of templates is not spelled out as far");
    player.play_all().await;
}

#[tokio::test]
async fn template_items() {
    let player = Player::new("90-template-items.json").loose_indexes();
    player.beat_after(600);
    player.play_all().await;
}
