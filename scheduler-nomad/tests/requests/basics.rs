//! Launch, delete, status and list.

use scheduler_core::{
    Change, Conflict, Container, Delete, Deleted, Detail, Effect, ErrorKind, Feature, Filter, Guard, List, Missing,
    OwnerId, Retry, Role, Scheduler as _, Status, Support,
};
use serde_json::{Value, json};

use crate::script::Script;
use crate::{launch, planned, registered, source, stored, target, workload};

#[tokio::test]
async fn what_cannot_be_rendered_or_is_not_supported_is_refused_before_anything_is_sent() {
    let nomad = scheduler_core::BackendName::nomad();
    let odd = workload().extension(&nomad, json!({"pods": {}}));
    let mut identity = workload();
    identity.identity = Some("web".to_owned());
    for (workload, kind) in
        [(odd, ErrorKind::InvalidArgument), (identity, ErrorKind::Unsupported(Some(Feature::Identity)))]
    {
        let script = Script::default();
        let error = launch(&script, workload, Guard::IfOwned).await.unwrap_err();
        assert_eq!((error.kind(), error.target()), (&kind, Some(&target())));
        assert_eq!(script.asked(), Vec::<String>::new());
    }
    let script = Script::default();
    let deleted = script.scheduler().await.delete(Delete::new(target()).guard(Guard::IfAbsent)).await.unwrap_err();
    assert_eq!((deleted.kind(), script.asked()), (&ErrorKind::InvalidArgument, vec![]));
}

#[tokio::test]
async fn an_absent_job_is_registered_in_two_requests() {
    let script = Script::default().refuse(404, "job not found").answer(&registered(7));
    let launched = launch(&script, workload(), Guard::IfOwned).await.unwrap();
    assert_eq!((launched.change, launched.version.as_str()), (Change::Created, "7.7"));
    assert_eq!(script.asked(), ["GET job/web", "PUT jobs"]);
}

#[tokio::test]
async fn an_unchanged_job_is_read_and_nothing_more() {
    let script = Script::default().answer(&stored()).answer(&source());
    let launched = launch(&script, workload(), Guard::IfOwned).await.unwrap();
    assert_eq!((launched.change, launched.version.as_str()), (Change::Unchanged, "7.12"));
    assert_eq!(script.asked(), ["GET job/web", "GET job/web/submission"]);
}

#[tokio::test]
async fn a_changed_job_is_planned_and_registered() {
    for (destructive, in_place, effect) in [(1, 0, Effect::Rolling), (0, 1, Effect::InPlace)] {
        let script = Script::default().answer(&stored()).answer(&source());
        let script = script.answer(&planned("Edited", destructive, in_place)).answer(&registered(20));
        let launched = launch(&script, workload().label("team", "blue"), Guard::IfOwned).await.unwrap();
        assert_eq!((launched.change, launched.version.as_str()), (Change::Updated(effect), "7.20"));
        assert_eq!(script.asked(), ["GET job/web", "GET job/web/submission", "PUT job/web/plan", "PUT jobs"]);
    }
}

#[tokio::test]
async fn what_the_server_writes_in_its_own_way_is_no_change() {
    let mut stored = stored();
    stored["TaskGroups"][0]["Tasks"][0]["KillTimeout"] = 1.into();
    let script = Script::default().answer(&stored).answer(&source()).answer(&planned("None", 0, 0));
    assert_eq!(launch(&script, workload(), Guard::IfOwned).await.unwrap().change, Change::Unchanged);
    assert_eq!(script.asked().last().unwrap(), "PUT job/web/plan");
}

#[tokio::test]
async fn a_job_without_its_source_is_launched_again() {
    // As somebody else's registration, or an old server, leaves it: the content alone does not tell the revision.
    let script = Script::default().answer(&stored()).refuse(404, "job source not found");
    let script = script.answer(&planned("None", 0, 0)).answer(&registered(20));
    let launched = launch(&script, workload(), Guard::IfOwned).await.unwrap();
    assert_eq!(launched.change, Change::Updated(Effect::InPlace));
    assert_eq!(script.asked().len(), 4);
}

#[tokio::test]
async fn what_a_registration_drops_of_others_is_a_warning() {
    let mut stored = stored();
    stored["Meta"]["note"] = "by somebody else".into();
    let script = Script::default().answer(&stored).answer(&source());
    let script = script.answer(&planned("Edited", 0, 1)).answer(&registered(20));
    let launched = launch(&script, workload().label("team", "blue"), Guard::IfOwned).await.unwrap();
    assert_eq!(launched.warnings, ["dropped Meta[\"note\"], which somebody else set"]);
}

#[tokio::test]
async fn a_check_index_that_does_not_hold_is_told_with_the_version_now() {
    let mut moved = stored();
    moved["JobModifyIndex"] = 15.into();
    let script = Script::default().answer(&stored()).answer(&source()).answer(&planned("Edited", 1, 0));
    let script = script.refuse(500, "Enforcing job modify index 12: job exists with conflicting job modify index: 15");
    let script = script.answer(&moved);
    let error = launch(&script, workload().label("team", "blue"), Guard::IfOwned).await.unwrap_err();
    let now = Some(scheduler_core::Version::new("7.15"));
    assert_eq!(error.kind(), &ErrorKind::Conflict(Conflict::Moved { now }));
    assert_eq!((error.retry(), script.asked().len()), (Retry::AfterReread, 5));
    // Somebody was faster with the same name.
    let mut theirs = stored();
    theirs["Meta"]["scheduler/owner"] = "other".into();
    let script = Script::default().refuse(404, "job not found");
    let script = script.refuse(500, "Enforcing job modify index 0: job already exists").answer(&theirs);
    let error = launch(&script, workload(), Guard::IfOwned).await.unwrap_err();
    let owner = Some(OwnerId::new("other").unwrap());
    assert_eq!(error.kind(), &ErrorKind::Conflict(Conflict::Owner { owner }));
}

#[tokio::test]
async fn what_has_ended_is_launched_over_and_is_another_one() {
    let mut gone = stored();
    gone["Stop"] = true.into();
    let ended = json!([{"ID": "a", "JobID": "web", "ClientStatus": "complete", "DesiredStatus": "stop"}]);
    let script = Script::default().answer(&gone).answer(&ended).answer(&registered(30));
    let launched = launch(&script, workload(), Guard::IfAbsent).await.unwrap();
    assert_eq!((launched.change, launched.version.as_str()), (Change::Created, "7.30"));
    let running = json!([{"ID": "a", "JobID": "web", "ClientStatus": "running", "DesiredStatus": "stop"}]);
    let script = Script::default().answer(&gone).answer(&running);
    let error = launch(&script, workload(), Guard::IfOwned).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Conflict(Conflict::Deleting));
    // And it has no status.
    let status = |allocations: Value| {
        let script = Script::default().answer(&gone).answer(&source());
        script.answer(&json!([])).answer(&allocations).answer(&json!([]))
    };
    let found = status(ended).scheduler().await.status(Status::new(target(), Detail::Counts)).await.unwrap();
    assert_eq!(found.0, None);
    let found = status(running).scheduler().await.status(Status::new(target(), Detail::Counts)).await.unwrap();
    assert!(found.0.unwrap().deleting);
}

#[tokio::test]
async fn a_delete_stops_then_waits_then_purges() {
    let none = json!([]);
    let script = Script::default().answer(&stored()).answer(&source()).answer(&registered(20));
    let script = script.answer(&none).answer(&none).answer(&none).refuse(404, "variable not found");
    let script = script.refuse(404, "variable not found").answer(&registered(21));
    let deleted = script.scheduler().await.delete(Delete::new(target())).await.unwrap();
    assert_eq!(deleted, Deleted::Gone);
    let stop =
        ["GET job/web", "GET job/web/submission", "PUT jobs", "GET job/web/evaluations", "GET job/web/allocations"];
    let variables = ["GET var/nomad/jobs/web", "GET var/scheduler/healthy/web"];
    let purge = [&["GET job/web/services"], &variables[..], &["DELETE job/web"]].concat();
    assert_eq!(script.asked(), [&stop[..], &purge[..]].concat());

    // What runs, and what may still be placed, keeps it from being purged.
    let mut stopped = stored();
    stopped["Stop"] = true.into();
    let running = json!([{"ID": "a", "JobID": "web", "ClientStatus": "unknown", "NodeName": "n"}]);
    let pending = json!([{"ID": "e", "JobID": "web", "Status": "pending"}]);
    let script = Script::default().answer(&stopped).answer(&running).answer(&pending).answer(&running);
    let deleted = script.scheduler().await.delete(Delete::new(target())).await.unwrap();
    let Deleted::Deleting { remaining, blocked_by } = deleted else { panic!("{deleted:?}") };
    assert_eq!(remaining, ["Allocation/a", "Evaluation/e"]);
    assert_eq!(blocked_by, ["Allocation/a: its node n does not answer"]);
    assert_eq!(script.asked().len(), 4);
}

#[tokio::test]
async fn what_somebody_else_left_stopped_is_absent_and_not_purged() {
    let mut theirs = stored();
    (theirs["Stop"], theirs["Meta"]["scheduler/owner"]) = (true.into(), "other".into());
    let script = Script::default().answer(&theirs).answer(&json!([])).refuse(404, "variable not found");
    let script = script.refuse(404, "variable not found");
    let deleted = script.scheduler().await.delete(Delete::new(target())).await.unwrap();
    assert_eq!((deleted, script.asked().len()), (Deleted::WasAbsent, 4));
}

#[tokio::test]
async fn a_status_is_five_requests_and_one_if_it_is_not_ours() {
    let none = json!([]);
    let script = Script::default().answer(&stored()).answer(&source()).answer(&none).answer(&none).answer(&none);
    let found = script.scheduler().await.status(Status::new(target(), Detail::Evidence)).await.unwrap().0.unwrap();
    assert_eq!(found.at.to_string(), "2026-01-01T01:00:00Z");
    assert_eq!(found.revision.as_ref(), Some(workload().check().unwrap().revision()));
    // In this order: what a complete evaluation has placed is among the allocations that are read after it.
    let all =
        ["", "/submission", "/evaluations", "/allocations", "/deployments"].map(|part| format!("GET job/web{part}"));
    assert_eq!(script.asked(), all);
    let mut theirs = stored();
    theirs["Meta"]["scheduler/owner"] = "other".into();
    let script = Script::default().answer(&theirs);
    let found = script.scheduler().await.status(Status::new(target(), Detail::Counts)).await.unwrap();
    assert_eq!((found.0, script.asked().len()), (None, 1));
}

#[tokio::test]
async fn a_job_that_moves_while_it_is_looked_at_is_looked_at_again() {
    let none = json!([]);
    let later =
        json!([{"ID": "a", "JobID": "web", "JobVersion": 4, "ClientStatus": "running", "DesiredStatus": "run"}]);
    let mut moved = stored();
    moved["Version"] = 4.into();
    let script = Script::default().answer(&stored()).answer(&source()).answer(&none).answer(&later).answer(&none);
    let script = script.answer(&moved).answer(&source()).answer(&none).answer(&later).answer(&none);
    let found = script.scheduler().await.status(Status::new(target(), Detail::Counts)).await.unwrap().0.unwrap();
    assert_eq!((found.counts.updated, script.asked().len()), (1, 10));
}

#[tokio::test]
async fn a_list_is_one_request_and_five_for_each_workload() {
    let none = json!([]);
    let stubs = json!([{"ID": "web", "Namespace": "shop"}, {"ID": "Not One", "Namespace": "shop"}]);
    let script = Script::default().answer(&stubs);
    let script = script.answer(&stored()).answer(&source()).answer(&none).answer(&none).answer(&none);
    let listed = script.scheduler().await.list(List::new(Filter::default())).await.unwrap();
    assert_eq!((listed.workloads.len(), script.asked().len()), (1, 6));
}

#[tokio::test]
async fn compare_and_set_is_denied_where_the_server_does_it_in_two_steps() {
    let has = async |version: &str| {
        Script::default().of_version(version).await.capabilities().support(Feature::CompareAndSet)
    };
    assert_eq!(has("2.0.1").await, Support::Yes);
    assert!(matches!(has("2.0.0").await, Support::No(reason) if reason.contains("2.0.0")));
    assert!(matches!(has("").await, Support::No(reason) if reason.contains("unknown")));
}

/// What each refusal of a read, a plan and a registration is.
#[tokio::test]
async fn refusals_are_told_by_kind() {
    let of = async |code: u16, sentence: &str, write: bool| {
        let script = if write { Script::default().refuse(404, "job not found") } else { Script::default() };
        let script = script.refuse(code, sentence);
        launch(&script, workload(), Guard::IfOwned).await.unwrap_err()
    };
    for (code, sentence, read, write) in [
        (403, "Permission denied", ErrorKind::Forbidden, ErrorKind::Forbidden),
        (500, "No cluster leader", ErrorKind::Unavailable, ErrorKind::OutcomeUnknown),
        (500, "something new", ErrorKind::Unavailable, ErrorKind::OutcomeUnknown),
        (503, "a proxy", ErrorKind::Unavailable, ErrorKind::OutcomeUnknown),
        (429, "too many", ErrorKind::RateLimited, ErrorKind::RateLimited),
        (404, "", ErrorKind::NotFound(Missing::Interface), ErrorKind::NotFound(Missing::Interface)),
        (500, "1 error occurred:\n\t* Missing job type", ErrorKind::InvalidArgument, ErrorKind::InvalidArgument),
        (
            500,
            "job \"web\" is in nonexistent namespace \"shop\"",
            ErrorKind::NotFound(Missing::Namespace),
            ErrorKind::NotFound(Missing::Namespace),
        ),
        (200, "<html>", ErrorKind::BadAnswer, ErrorKind::BadAnswer),
    ] {
        for (kind, is_write) in [(read, false), (write, true)] {
            let error = of(code, sentence, is_write).await;
            assert_eq!(*error.kind(), kind, "{code} {sentence:?}, write: {is_write}");
            assert_eq!(error.backend().map(|backend| backend.as_str()), Some("nomad"));
        }
    }
}

#[tokio::test]
async fn sidecars_are_warned_of_where_their_order_is_lost() {
    let side = |name: &str| Container::new(name, "side:1").role(Role::Sidecar).memory("16Mi", "16Mi");
    let script = Script::default().refuse(404, "job not found").answer(&registered(7));
    let two = workload().container(side("one")).container(side("two"));
    let launched = launch(&script, two, Guard::IfOwned).await.unwrap();
    assert_eq!(launched.warnings, ["sidecars start all at once, not in the order of the list"]);
}
