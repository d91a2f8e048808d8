//! Routes: which requests an expose sends, and in which order.

use scheduler_core::{
    Conflict, Error, ErrorKind, Expose, Exposed, Feature, OwnerId, Retry, Route, RouteBackend, Scheduler as _, Target,
};
use serde_json::{Value, json};

use crate::script::Script;
use crate::{registered, source, stored, target};

const READS: [&str; 2] = ["GET job/web", "GET job/web/submission"];
const LOOK: &str = "GET jobs";

fn expose() -> Expose {
    Expose::new(target(), [Route::new("a.example", "http")])
}

fn old() -> Target {
    Target::new("shop", "old").unwrap()
}

/// The job of the old workload, of this owner, with the tags that routes of `a.example` and of this path became.
fn job_of_old(owner: &str, paths: &[&str]) -> Value {
    let mut job = stored();
    (job["ID"], job["Meta"]["scheduler/owner"]) = ("old".into(), owner.into());
    let claims: Vec<_> = paths.iter().map(|path| format!("scheduler.route=a.example{path}")).collect();
    let mut tags = json!(["mine", "traefik.enable=true", "traefik.http.routers.scheduler-0.rule=Host(`a.example`)"]);
    tags.as_array_mut().unwrap().extend(claims.into_iter().map(Value::from));
    job["TaskGroups"][0]["Services"][0]["Tags"] = tags;
    job
}

fn tags(sent: &Value) -> Vec<&str> {
    let tags = sent["Job"]["TaskGroups"][0]["Services"][0]["Tags"].as_array();
    tags.into_iter().flatten().map(|tag| tag.as_str().unwrap()).collect()
}

fn of(jobs: &[(&str, &str)]) -> Value {
    jobs.iter().map(|(namespace, id)| json!({"ID": id, "Namespace": namespace})).collect()
}

/// What a server answers to the first reads of the workload.
fn server() -> Script {
    Script::default().answer(&stored()).answer(&source())
}

async fn play(script: &Script, op: Expose) -> (Result<Exposed, Error>, Vec<String>) {
    (script.scheduler().await.expose(op).await, script.asked())
}

#[tokio::test]
async fn routes_are_looked_for_before_and_after_the_registration() {
    let script = server().answer(&of(&[])).answer(&registered(20)).answer(&of(&[("shop", "web")]));
    let (exposed, asked) = play(&script, expose()).await;
    assert!(exposed.unwrap().changed);
    assert_eq!(asked, [&READS[..], &[LOOK, "PUT jobs", LOOK]].concat());
    let script = server().answer(&of(&[("bank", "api")]));
    let (refused, asked) = play(&script, expose()).await;
    let refused = refused.unwrap_err();
    assert_eq!(*refused.kind(), ErrorKind::Conflict(Conflict::RouteTaken { by: "bank/api".to_owned() }));
    assert_eq!((refused.retry(), asked.len()), (Retry::Never, 3));
}

/// BR-69: shares that the router cannot give are refused, and nothing is asked.
#[tokio::test]
async fn a_route_has_one_backend() {
    let both = [RouteBackend::new("http").weight(3), RouteBackend::of(old(), "http").weight(7)];
    let op = Expose::new(target(), [Route::new("a.example", "http").backends(both)]);
    let (refused, asked) = play(&Script::default(), op).await;
    assert_eq!(*refused.unwrap_err().kind(), ErrorKind::Unsupported(Some(Feature::WeightedRoutes)));
    assert_eq!(asked, [""; 0]);
}

/// The later of two writers sees the other one, whose write it must not outlive.
#[tokio::test]
async fn who_meets_another_of_the_same_route_takes_its_write_back() {
    let mut written = stored();
    written["JobModifyIndex"] = 20.into();
    written["TaskGroups"][0]["Services"][0]["Tags"] =
        json!(["mine", "scheduler.route=a.example", "traefik.enable=true"]);
    let script = server().answer(&of(&[])).answer(&registered(20)).answer(&of(&[("shop", "web"), ("bank", "api")]));
    let script = script.answer(&written).answer(&source()).answer(&registered(21));
    let (refused, asked) = play(&script, expose()).await;
    let refused = refused.unwrap_err();
    assert_eq!(*refused.kind(), ErrorKind::Conflict(Conflict::RouteTaken { by: "bank/api".to_owned() }));
    assert_eq!(refused.retry(), Retry::AfterReread);
    assert_eq!(asked, [&READS[..], &[LOOK, "PUT jobs", LOOK], &READS, &["PUT jobs"]].concat());
    let undone = script.sent().remove(7);
    assert_eq!((tags(&undone), &undone["JobModifyIndex"]), (vec!["mine"], &json!(20)));
    assert_eq!(undone["Submission"], source());
}

/// The new job has its tags before the old one loses any, and the old one's go under its own check index.
#[tokio::test]
async fn what_moves_is_registered_before_it_is_taken() {
    let looks = of(&[("shop", "old")]);
    for (had, rest) in [(&[""][..], vec!["mine"]), (&["", "/b"], vec!["mine", "scheduler.route=a.example/b"])] {
        let script = server().answer(&job_of_old("platform", had)).answer(&looks).answer(&registered(20));
        let script = script.answer(&looks).answer(&source()).answer(&registered(21));
        let (exposed, asked) = play(&script, expose().taking_from(old())).await;
        assert_eq!(exposed.unwrap().taken, [Route::new("a.example", "http")]);
        let moves = ["GET job/old", LOOK, "PUT jobs", LOOK, "GET job/old/submission", "PUT jobs"];
        assert_eq!(asked, [&READS[..], &moves].concat());
        let sent = script.sent();
        assert!(tags(&sent[4]).contains(&"scheduler.route=a.example"), "{:?}", sent[4]);
        assert_eq!((&sent[4]["Job"]["ID"], &sent[7]["Job"]["ID"]), (&json!("web"), &json!("old")));
        assert_eq!((&sent[7]["JobModifyIndex"], &sent[7]["Submission"]), (&json!(12), &source()));
        let kept: Vec<_> = tags(&sent[7]).into_iter().filter(|tag| !tag.starts_with("traefik.")).collect();
        assert_eq!(kept, rest);
        let rules = tags(&sent[7]).into_iter().filter(|tag| tag.contains(".rule=")).count();
        assert_eq!(rules, had.len() - 1);
    }
}

#[tokio::test]
async fn nothing_is_taken_from_what_is_not_there_or_on_its_way_out() {
    let mut stopped = job_of_old("platform", &[""]);
    stopped["Stop"] = true.into();
    let absent = server().refuse(404, "job not found");
    let going = server().answer(&stopped).answer(&json!([{"ID": "a", "JobID": "old", "ClientStatus": "running"}]));
    for script in [absent, going] {
        let script = script.answer(&of(&[])).answer(&registered(20)).answer(&of(&[]));
        let exposed = play(&script, expose().taking_from(old())).await.0.unwrap();
        assert_eq!((exposed.changed, exposed.taken), (true, vec![]));
    }
    let script = server().answer(&job_of_old("other", &[""]));
    let (refused, asked) = play(&script, expose().taking_from(old())).await;
    let owner = Some(OwnerId::new("other").unwrap());
    assert_eq!(*refused.unwrap_err().kind(), ErrorKind::Conflict(Conflict::Owner { owner }));
    assert_eq!(asked, [&READS[..], &["GET job/old"]].concat());
}
