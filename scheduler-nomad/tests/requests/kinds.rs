//! History, plans, jobs and runs.

use scheduler_core::{
    Change, Conflict, Container, Effect, ErrorKind, Guard, History, MarkHealthy, MarkedHealthy, OwnerId, Plan,
    PlanToken, Run, RunKey, Scheduler as _, Target, Workload,
};
use scheduler_nomad::{RenderContext, render};
use serde_json::{Value, json};

use crate::script::Script;
use crate::{launch, planned, registered, source, stored, target, workload};

/// hashicorp/nomad#24957: what a version says of its status is not asked.
#[tokio::test]
async fn a_history_is_a_list_of_versions_and_a_source_for_each() {
    let version = |number: u64, stop: bool| {
        let mut version = stored();
        (version["Version"], version["JobModifyIndex"], version["Stop"]) =
            (number.into(), (10 + number).into(), stop.into());
        version["SubmitTime"] = (number * 1_000_000_000).into();
        version["Status"] = "dead".into();
        version
    };
    let versions = json!({"Versions": [version(3, false), version(2, false), version(1, true)]});
    let script = Script::default().answer(&versions).answer(&source()).answer(&source());
    let history = script.scheduler().await.history(History::new(target())).await.unwrap().entries;
    assert_eq!(script.asked(), ["GET job/web/versions", "GET job/web/submission", "GET job/web/submission"]);
    // Two versions of one source: the second came of a scale, say.
    assert_eq!((history.len(), history[0].current, history[0].launched.millis()), (1, true, 2_000));

    let revision = workload().check().unwrap().revision().clone();
    let script = Script::default().answer(&stored()).answer(&json!({"Versions": [version(3, false)]}));
    let script = script.answer(&source()).refuse(404, "variable not found").answer(&json!({})).answer(&json!({}));
    let marked = script.scheduler().await.mark_healthy(MarkHealthy::new(target(), revision.clone())).await.unwrap();
    assert_eq!(marked, MarkedHealthy::Now);
    let tag = format!("healthy-{}", revision.as_str().replace(':', "-"));
    let put = format!("PUT job/web/versions/{tag}/tag");
    let (read, write) = ("GET var/scheduler/healthy/web", "PUT var/scheduler/healthy/web");
    assert_eq!(script.asked(), ["GET job/web", "GET job/web/versions", "GET job/web/submission", read, write, &put]);
    assert_eq!((&script.sent()[4]["Items"][&tag], &script.sent()[5]["Version"]), (&source()["Source"], &json!(3)));
}

#[tokio::test]
async fn a_history_begins_anew_with_another_life() {
    let version = |number: u64| {
        let mut version = stored();
        (version["Version"], version["JobModifyIndex"]) = (number.into(), (10 + number).into());
        version["Meta"]["scheduler/born"] = "12".into();
        version
    };
    let versions = json!({"Versions": [version(3), version(2), version(1)]});
    let script = Script::default().answer(&versions).answer(&source());
    let history = script.scheduler().await.history(History::new(target())).await.unwrap().entries;
    assert_eq!((history.len(), script.asked().len()), (1, 2));
}

/// The versions of so many revisions, the newest first, each with a name; and a source for each.
fn named(revisions: usize, name: impl Fn(usize, &Workload) -> Option<String>) -> (Value, Vec<Value>) {
    let all: Vec<Workload> = (0..revisions).map(|n| workload().label("n", n.to_string())).collect();
    let version = |(n, workload): (usize, &Workload)| {
        let mut version = stored();
        (version["Version"], version["JobModifyIndex"]) = ((100 - n).into(), (1000 - n).into());
        if let Some(name) = name(n, workload) {
            version["VersionTag"] = json!({"Name": name});
        }
        version
    };
    let versions: Vec<Value> = all.iter().enumerate().map(version).collect();
    let source = |workload: &Workload| json!({"Source": serde_json::to_string(workload).unwrap(), "Format": "json"});
    (json!({"Versions": versions}), all.iter().map(source).collect())
}

fn tag(workload: &Workload) -> String {
    format!("healthy-{}", workload.clone().check().unwrap().revision().as_str().replace(':', "-"))
}

/// A version with a name is kept for ever, so that marks are not.
#[tokio::test]
async fn the_ten_newest_marks_are_kept_and_no_name_is_taken_from_others() {
    let mark = MarkHealthy::new(target(), workload().label("n", "0").check().unwrap().revision().clone());
    let (versions, sources) = named(12, |n, workload| (n > 0).then(|| tag(workload)));
    let script = Script::default().answer(&stored()).answer(&versions);
    let script = sources.iter().fold(script, Script::answer).refuse(404, "variable not found").answer(&json!({}));
    let script = script.answer(&json!({})).answer(&json!({})).answer(&json!({}));
    script.scheduler().await.mark_healthy(mark.clone()).await.unwrap();
    let old = |n: usize| format!("DELETE job/web/versions/{}/tag", tag(&workload().label("n", n.to_string())));
    assert_eq!(script.asked().split_off(17), [old(10), old(11)]);

    let (versions, sources) = named(1, |_, _| Some("release".to_owned()));
    let script = Script::default().answer(&stored()).answer(&versions).answer(&sources[0]);
    let error = script.scheduler().await.mark_healthy(mark).await.unwrap_err();
    assert_eq!((error.kind(), script.asked().len()), (&ErrorKind::Precondition, 3));
}

/// The server keeps a version with a name, and gives up its source.
#[tokio::test]
async fn what_was_marked_is_known_by_the_variable_when_its_source_is_gone() {
    let (versions, sources) = named(2, |n, workload| (n == 1).then(|| tag(workload)));
    let old = workload().label("n", "1");
    let kept = json!({"Items": {"scheduler.owner": "platform", tag(&old): sources[1]["Source"]}, "ModifyIndex": 5});
    let script = Script::default().answer(&versions).answer(&sources[0]).refuse(404, "job source not found");
    let history = script.clone().answer(&kept).scheduler().await.history(History::new(target())).await.unwrap().entries;
    assert_eq!(script.asked()[3], "GET var/scheduler/healthy/web");
    let known: Vec<_> = history.iter().map(|entry| (entry.revision.clone(), entry.healthy)).collect();
    let revision = |workload: Workload| workload.check().unwrap().revision().clone();
    assert_eq!(known, [(revision(workload().label("n", "0")), false), (revision(old), true)]);
}

#[tokio::test]
async fn what_is_of_another_kind_must_be_replaced() {
    let system = Workload::system("shop", "web").container(Container::new("web", "web:1"));
    let periodic = Workload::periodic("shop", "web", "0 3 * * *").container(Container::new("web", "web:1"));
    for other in [system, periodic, workload().stable()] {
        let (live, source) = stored_job(other);
        let script = Script::default().answer(&live).answer(&source);
        let error = launch(&script, workload(), Guard::IfOwned).await.unwrap_err();
        assert_eq!((error.kind(), script.asked().len()), (&ErrorKind::MustReplace, 2));
    }
}

#[tokio::test]
async fn a_plan_is_a_launch_without_its_registration() {
    let script = Script::default().answer(&stored()).answer(&source()).answer(&planned("Edited", 1, 0));
    let changed = workload().label("team", "blue").check().unwrap();
    let plan = script.scheduler().await.plan(Plan::new(changed.clone())).await.unwrap();
    assert_eq!(plan.change, Change::Updated(Effect::Rolling));
    assert_eq!(script.asked(), ["GET job/web", "GET job/web/submission", "PUT job/web/plan"]);
    let token: PlanToken = plan.token.to_string().parse().unwrap();
    let mut moved = stored();
    moved["JobModifyIndex"] = 13.into();
    let script = Script::default().answer(&moved);
    let error = launch(&script, workload().label("team", "blue"), Guard::IfPlan(token.clone())).await.unwrap_err();
    let now = Some(scheduler_core::Version::new("7.13"));
    assert_eq!((error.kind(), script.asked().len()), (&ErrorKind::Conflict(Conflict::Moved { now }), 1));
    let script = Script::default();
    let error = launch(&script, workload(), Guard::IfPlan(token)).await.unwrap_err();
    assert_eq!((error.kind(), script.asked().len()), (&ErrorKind::InvalidArgument, 0));
}

/// hashicorp/nomad#2551: nothing is done to instances, and yet it is a change.
#[tokio::test]
async fn a_change_of_the_update_block_alone_is_one() {
    let plan = json!({"Diff": {"Type": "Edited"}, "Annotations": {"DesiredTGUpdates": {"web": {"Ignore": 3}}}});
    let script = Script::default().answer(&stored()).answer(&source()).answer(&plan).answer(&registered(20));
    let launched = launch(&script, workload().progress_deadline(50), Guard::IfOwned).await.unwrap();
    assert_eq!(launched.change, Change::Updated(Effect::InPlace));
}

fn job() -> Workload {
    Workload::job("shop", "web").container(Container::new("web", "web:1"))
}

fn stored_job(workload: Workload) -> (Value, Value) {
    let workload = workload.check().unwrap();
    let owner = OwnerId::new("platform").unwrap();
    let mut job = serde_json::to_value(render(&workload, &owner, &RenderContext::new(0)).unwrap().job).unwrap();
    (job["Version"], job["CreateIndex"], job["JobModifyIndex"]) = (3.into(), 7.into(), 12.into());
    (job, json!({"Source": serde_json::to_string(&workload).unwrap(), "Format": "json"}))
}

#[tokio::test]
async fn a_job_is_not_run_again_to_repair_it() {
    let (mut live, source) = stored_job(job());
    let other = job().label("team", "blue");
    let script = Script::default().answer(&live).answer(&source);
    assert_eq!(*launch(&script, other, Guard::IfOwned).await.unwrap_err().kind(), ErrorKind::MustReplace);
    assert_eq!(script.asked().len(), 2);
    live["TaskGroups"][0]["RestartPolicy"]["Attempts"] = 9.into();
    let plan = |place: u64| {
        let updates = json!({"DesiredTGUpdates": {"web": {"Place": place}}});
        Script::default()
            .answer(&live)
            .answer(&source)
            .answer(&json!({"Diff": {"Type": "Edited"}, "Annotations": updates}))
    };
    let script = plan(1);
    assert_eq!(*launch(&script, job(), Guard::IfOwned).await.unwrap_err().kind(), ErrorKind::MustReplace);
    assert_eq!(script.asked().len(), 3);
    let script = plan(0).answer(&registered(20));
    let repaired = launch(&script, job(), Guard::IfOwned).await.unwrap();
    assert_eq!(repaired.change, Change::Updated(Effect::InPlace));
}

#[tokio::test]
async fn a_run_is_one_request_and_two_if_it_is_there() {
    let run = || Run::one_off(job().check().unwrap(), RunKey::new("a").unwrap());
    let script = Script::default().answer(&registered(7));
    assert!(script.scheduler().await.run(run()).await.unwrap().created);
    assert_eq!(script.asked(), ["PUT jobs"]);
    let sent = script.sent().remove(0);
    assert_eq!((&sent["EnforceIndex"], &sent["JobModifyIndex"]), (&json!(true), &json!(0)));
    let exists = || Script::default().refuse(500, "Enforcing job modify index 0: job already exists");
    let script = exists().answer(&stored_job(job()).0);
    assert!(!script.scheduler().await.run(run()).await.unwrap().created);
    let mut theirs = stored_job(job()).0;
    theirs["Meta"]["scheduler/owner"] = "other".into();
    let script = exists().answer(&theirs);
    let error = script.scheduler().await.run(run()).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Conflict(Conflict::Owner { owner: Some(_) })), "{error}");

    let tick = Workload::periodic("shop", "tick", "0 3 * * *").container(Container::new("t", "t:1").port("http", 80));
    let (live, source) = stored_job(tick);
    let script = Script::default().answer(&live).answer(&source).answer(&registered(7));
    let now = Run::now(Target::new("shop", "tick").unwrap(), RunKey::new("a").unwrap());
    let name = script.scheduler().await.run(now).await.unwrap().run.target().name.to_string();
    assert_eq!(script.asked(), ["GET job/tick", "GET job/tick/submission", "PUT jobs"]);
    let sent = script.sent().remove(2)["Job"].clone();
    assert_eq!(
        (&sent["ID"], &sent["Periodic"], &sent["Meta"]["scheduler/run-of"]),
        (&json!(name), &Value::Null, &json!("tick"))
    );
    assert_eq!(sent["TaskGroups"][0]["Services"][0]["Name"], format!("{name}--http"));
}
