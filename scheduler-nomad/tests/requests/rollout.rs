//! What runs: its count, its rollout, one of its instances.

use scheduler_core::{
    Error, ErrorKind, InstanceAction, InstanceAnswer, Missing, OnInstance, Rollout, RolloutAction, Scale,
    Scheduler as _, Steered,
};
use serde_json::{Value, json};

use crate::script::Script;
use crate::{registered, source, stored, target};

/// The one deployment of the stored version.
fn deployment(status: &str, group: Value) -> Value {
    json!([{
        "ID": ROLLOUT, "JobID": "web", "JobVersion": 3, "JobCreateIndex": 7, "Status": status, "CreateIndex": 13,
        "TaskGroups": {"web": group},
    }])
}

const ROLLOUT: &str = "7903451f-3668-18a9-5c33-796809bdaed8";
const INSTANCE: &str = "c5b07662-f8b7-c865-ef1d-08308eeefff8";

#[tokio::test]
async fn a_scale_is_two_requests_and_four_while_a_deployment_goes_on() {
    let scale = Scale::new(target(), 3);
    let script = Script::default().answer(&stored()).answer(&registered(20));
    let scaled = script.scheduler().await.scale(scale.clone()).await.unwrap();
    assert_eq!((scaled.from, scaled.to, scaled.version.as_str()), (1, 3, "7.20"));
    assert_eq!(script.asked(), ["GET job/web", "PUT job/web/scale"]);
    assert_eq!(script.sent()[1]["JobModifyIndex"], 12);

    let script = Script::default().answer(&stored()).refuse(400, "job scaling blocked due to active deployment");
    let script = script.answer(&source()).answer(&registered(21));
    let scaled = script.scheduler().await.scale(scale).await.unwrap();
    assert_eq!((scaled.from, scaled.to, scaled.version.as_str()), (1, 3, "7.21"));
    assert_eq!(script.asked(), ["GET job/web", "PUT job/web/scale", "GET job/web/submission", "PUT jobs"]);
    let sent = script.sent().remove(3);
    assert_eq!((&sent["Job"]["TaskGroups"][0]["Count"], &sent["JobModifyIndex"]), (&json!(3), &json!(12)));
    assert_eq!(sent["Job"]["TaskGroups"][0]["Update"]["Canary"], 3, "an update would have too few");
    assert_eq!(sent["Submission"], source());

    let script = Script::default().answer(&stored());
    assert_eq!(script.scheduler().await.scale(Scale::new(target(), 1)).await.unwrap().from, 1);
    assert_eq!(script.asked(), ["GET job/web"]);
}

async fn rollout(script: &Script, action: RolloutAction) -> Result<Steered, Error> {
    script.scheduler().await.rollout(Rollout::new(target(), action)).await
}

#[tokio::test]
async fn a_restart_is_three_requests_and_changes_one_mark() {
    let script = Script::default().answer(&stored()).answer(&source()).answer(&registered(20));
    let steered = rollout(&script, RolloutAction::Restart).await.unwrap();
    assert_eq!((steered.changed, steered.version.as_str()), (true, "7.20"));
    assert_eq!(script.asked(), ["GET job/web", "GET job/web/submission", "PUT jobs"]);
    let sent = script.sent().remove(2);
    let mut before = stored();
    before["TaskGroups"][0]["Tasks"][0]["Meta"]["scheduler/restart"] = "12".into();
    assert_eq!(sent["Job"], before);
    assert_eq!(sent["Submission"], source());
}

#[tokio::test]
async fn a_rollout_is_steered_by_its_deployment() {
    let auto = json!({"DesiredCanaries": 1, "AutoPromote": true});
    let steer = async |action, status: &str, group: &Value, more: usize| {
        let mut script = Script::default().answer(&stored()).answer(&deployment(status, group.clone()));
        for _ in 0..more {
            script = script.answer(&json!([]));
        }
        let steered = rollout(&script, action).await.map(|steered| steered.changed);
        (steered.map_err(|error| error.kind().clone()), script.asked().split_off(2))
    };
    let put = |route: &str| vec![format!("PUT deployment/{route}/{ROLLOUT}")];
    let none = Vec::<String>::new();
    let precondition = || Err(ErrorKind::Precondition);
    let changed = json!({"EvalID": "e"});
    let write = async |action, status: &str| {
        let script = Script::default().answer(&stored()).answer(&deployment(status, json!({}))).answer(&changed);
        (rollout(&script, action).await.unwrap().changed, script.asked().split_off(2))
    };
    assert_eq!(write(RolloutAction::Pause, "running").await, (true, put("pause")));
    assert_eq!(write(RolloutAction::Resume, "paused").await, (true, put("pause")));
    assert_eq!(write(RolloutAction::Abort, "paused").await, (true, put("fail")));
    for status in ["successful", "failed", "cancelled"] {
        assert_eq!(steer(RolloutAction::Pause, status, &auto, 0).await, (precondition(), none.clone()), "{status}");
        assert_eq!(steer(RolloutAction::Abort, status, &auto, 0).await, (precondition(), none.clone()), "{status}");
        assert_eq!(steer(RolloutAction::Resume, status, &auto, 0).await, (Ok(false), none.clone()), "{status}");
    }
    assert_eq!(steer(RolloutAction::Pause, "paused", &auto, 0).await, (Ok(false), none.clone()));
    let look = vec!["GET job/web/allocations".to_owned()];
    // The server would promote what is not well, what is promoted, and what is not there.
    let waiting = json!({"DesiredCanaries": 1});
    assert_eq!(steer(RolloutAction::Promote, "running", &waiting, 1).await, (precondition(), look.clone()));
    let promoted = json!({"DesiredCanaries": 1, "Promoted": true});
    assert_eq!(steer(RolloutAction::Promote, "running", &promoted, 0).await, (Ok(false), none.clone()));
    assert_eq!(steer(RolloutAction::Promote, "running", &json!({}), 0).await, (precondition(), none));
    // A pause in which its canaries became healthy is made up for, also when it has ended meanwhile.
    let canary = json!([{
        "ID": "a", "JobID": "web", "JobVersion": 3, "ClientStatus": "running", "DesiredStatus": "run",
        "DeploymentStatus": {"Healthy": true, "Canary": true},
    }]);
    let script = Script::default().answer(&stored()).answer(&deployment("running", auto)).answer(&canary);
    let script = script.answer(&changed);
    assert!(!rollout(&script, RolloutAction::Resume).await.unwrap().changed);
    assert_eq!(script.asked().split_off(2), [look, put("promote")].concat());
}

#[tokio::test]
async fn an_instance_is_looked_at_before_it_is_stopped() {
    let act = async |alloc: Value, told: bool| {
        let mut script = Script::default().answer(&stored()).answer(&alloc);
        if told {
            script = script.answer(&json!({"EvalID": "e"}));
        }
        let op = OnInstance::new(target(), INSTANCE, InstanceAction::Stop);
        let answer = script.scheduler().await.instance(op).await.map_err(|error| error.kind().clone());
        (answer, script.asked().len())
    };
    let alloc = |job: &str, status: &str| json!({"ID": INSTANCE, "Namespace": "shop", "JobID": job, "ClientStatus": status, "DesiredStatus": "run"});
    let unknown = || Err(ErrorKind::NotFound(Missing::Instance));
    assert_eq!(act(alloc("web", "running"), true).await, (Ok(InstanceAnswer::Told), 3));
    assert_eq!(act(alloc("web", "complete"), false).await, (Ok(InstanceAnswer::WasEnding), 2));
    assert_eq!(act(alloc("api", "running"), false).await, (unknown(), 2));
    let script = Script::default().answer(&stored());
    let op = OnInstance::new(target(), "no id", InstanceAction::Stop);
    assert_eq!(script.scheduler().await.instance(op).await.map_err(|error| error.kind().clone()), unknown());
    assert_eq!(script.asked().len(), 1);
}
