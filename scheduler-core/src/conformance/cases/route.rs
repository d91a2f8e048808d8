//! Clause 16: routes and endpoints.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_core::stream::BoxStream;
use futures_util::StreamExt as _;

use super::cases;
use crate::conformance::ctx::{Ctx, check, check_eq, ids, refused};
use crate::conformance::{Failure, Outcome};
use crate::memory::Fate;
use crate::{
    Change, Conflict, Endpoints, ErrorKind, Expose, Exposed, InstanceAction, OnInstance, ReadyEndpoints,
    Result as OpResult, Route, RouteBackend, Unexpose, Unexposed, watch_endpoints,
};

cases! {
    /// Routes are made; the same again write nothing.
    16 "expose/again-writes-nothing" [Expose] => again;
    /// The routes that are not in the list go.
    16 "expose/all-of-its-routes" [Expose] => all_of_its_routes;
    /// A launch leaves the routes alone, also one that changes something.
    16 "expose/launch-leaves-them" [Expose] => launch_leaves_them;
    /// Exposing moves no instance and no revision.
    16 "expose/moves-no-instance" [Expose] => moves_no_instance;
    /// A host and path that another workload has is not taken.
    16 "expose/taken" [Expose] => taken;
    /// Only what is there and ours, with a port of that name, can be exposed.
    16 "expose/only-ours" [Expose] => only_ours;
    /// A port that is not there is refused.
    16 "expose/unknown-port" [Expose] => unknown_port;
    /// What is wrong with routes is told at once, with its path.
    16 "expose/refused" [Expose] => refused_routes;
    /// Requests can be shared among workloads by weight.
    16 "expose/weighted" [Expose, WeightedRoutes] => weighted;
    /// Routes are taken away, and then there is nothing to take.
    16 "unexpose/takes-all" [Expose] => unexpose;
    /// Somebody else's routes are not taken away.
    1 "unexpose/only-ours" [Expose] => unexpose_only_ours;
    /// A delete takes the routes.
    8 "expose/deleted-with-it" [Expose] => deleted_with_it;
    /// The addresses of the ready instances are told, port by port.
    16 "endpoints/ready" [Endpoints] => endpoints_ready;
    /// What is not ready is not told.
    16 "endpoints/not-unready" [Endpoints] => endpoints_not_unready;
    /// What is on its way out is not told.
    16 "endpoints/not-terminating" [Endpoints] => endpoints_not_terminating;
    /// What is not there, and what is somebody else's, has no endpoints.
    16 "endpoints/of-absent" [Endpoints] => endpoints_of_absent;
    /// A stream of them follows the instances.
    16 "endpoints/watched" [Endpoints, Watch, Scale] => endpoints_watched;
}

/// A host of this world alone: routers see all namespaces.
fn host(ctx: &Ctx, part: &str) -> String {
    format!("{part}.{}.example", ctx.world.namespace())
}

pub(super) fn route(ctx: &Ctx, part: &str) -> Route {
    Route::new(host(ctx, part), "http")
}

pub(super) async fn try_expose(ctx: &Ctx, name: &str, routes: Vec<Route>) -> Result<OpResult<Exposed>, Failure> {
    Ok(ctx.scheduler.expose(Expose::new(ctx.target(name)?, routes)).await)
}

async fn expose(ctx: &Ctx, routes: Vec<Route>) -> Result<Exposed, Failure> {
    Ok(try_expose(ctx, "web", routes).await??)
}

async fn again(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.idle("web")).await?;
    let routes = || vec![route(&ctx, "a"), route(&ctx, "a").path("/api"), route(&ctx, "b")];
    check!(expose(&ctx, routes()).await?.changed, "new routes changed nothing");
    let before = ctx.objects().await?;
    check!(!expose(&ctx, routes()).await?.changed, "the same routes changed something");
    check_eq!(ctx.objects().await?, before, "the objects after the same routes");
    Ok(())
}

async fn all_of_its_routes(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.idle("web")).await?;
    ctx.launch(ctx.idle("api")).await?;
    expose(&ctx, vec![route(&ctx, "a"), route(&ctx, "b")]).await?;
    check!(expose(&ctx, vec![route(&ctx, "b")]).await?.changed, "a route less changed nothing");
    // What it has no more, another may have.
    check!(try_expose(&ctx, "api", vec![route(&ctx, "a")]).await??.changed, "the route that became free");
    check!(!expose(&ctx, vec![route(&ctx, "b")]).await?.changed, "the same again changed something");
    Ok(())
}

async fn launch_leaves_them(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.idle("web")).await?;
    expose(&ctx, vec![route(&ctx, "a")]).await?;
    check_eq!(ctx.launch(ctx.idle("web")).await?.change, Change::Unchanged, "the launch of the same");
    check!(!expose(&ctx, vec![route(&ctx, "a")]).await?.changed, "the launch of the same took the route");
    let launched = ctx.launch(ctx.with_tag(ctx.idle("web"), "2")).await?;
    check!(matches!(launched.change, Change::Updated(_)), "the launch of another image: {}", launched.change);
    check!(!expose(&ctx, vec![route(&ctx, "a")]).await?.changed, "the launch of another image took the route");
    let again = ctx.launch(ctx.with_tag(ctx.idle("web"), "2")).await?;
    check_eq!(again.change, Change::Unchanged, "the same launch again");
    Ok(())
}

async fn moves_no_instance(ctx: Ctx) -> Outcome {
    let before = ctx.launch_healthy(ctx.service("web")).await?;
    expose(&ctx, vec![route(&ctx, "a")]).await?;
    let after = ctx.healthy("web").await?;
    check_eq!(ids(&after), ids(&before), "the instances after exposing");
    check_eq!(after.revision, before.revision, "the revision after exposing");
    ctx.scheduler.unexpose(Unexpose::new(ctx.target("web")?)).await?;
    let after = ctx.healthy("web").await?;
    check_eq!(ids(&after), ids(&before), "the instances after taking the routes away");
    Ok(())
}

async fn taken(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.idle("web")).await?;
    ctx.launch(ctx.idle("api")).await?;
    expose(&ctx, vec![route(&ctx, "a")]).await?;
    for (whose, other) in [("ours", ctx.clone()), ("theirs", ctx.theirs())] {
        let name = if whose == "ours" { "api" } else { "foreign" };
        if whose == "theirs" {
            other.launch(other.idle(name)).await?;
        }
        let same = refused("the same route of another", try_expose(&other, name, vec![route(&ctx, "a")]).await?)?;
        let is_taken = matches!(&same, ErrorKind::Conflict(Conflict::RouteTaken { by }) if by.contains("web"));
        check!(is_taken, "the error for {whose} is {same:?}");
        let elsewhere = vec![route(&ctx, "a").path(format!("/{whose}"))];
        check!(try_expose(&other, name, elsewhere).await??.changed, "another path of the host, {whose}");
    }
    Ok(())
}

async fn only_ours(ctx: Ctx) -> Outcome {
    let absent = refused("exposing nothing", try_expose(&ctx, "web", vec![route(&ctx, "a")]).await?)?;
    check_eq!(absent, ErrorKind::Conflict(Conflict::Absent), "its error");
    ctx.theirs().launch(ctx.idle("web")).await?;
    let theirs = refused("exposing somebody else's", try_expose(&ctx, "web", vec![route(&ctx, "a")]).await?)?;
    check_eq!(theirs, ErrorKind::Conflict(Conflict::Owner { owner: Some(ctx.other.clone()) }), "its error");
    Ok(())
}

async fn unknown_port(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.idle("web")).await?;
    let routes = vec![Route::new(host(&ctx, "a"), "admin")];
    let error = crate::conformance::ctx::error_of("a port that is not there", try_expose(&ctx, "web", routes).await?)?;
    check_eq!(*error.kind(), ErrorKind::InvalidArgument, "its error");
    let paths: Vec<_> = error.causes().iter().map(|cause| cause.path.as_str()).collect();
    check_eq!(paths, vec!["routes[0].backends[0].port"], "what it names");
    Ok(())
}

async fn refused_routes(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.idle("web")).await?;
    for (what, routes) in [
        ("no route", vec![]),
        ("a host that is none", vec![Route::new("not a host", "http")]),
        ("a path that is none", vec![route(&ctx, "a").path("no-slash")]),
        ("the same twice", vec![route(&ctx, "a"), route(&ctx, "a")]),
    ] {
        let kind = refused(what, try_expose(&ctx, "web", routes).await?)?;
        check_eq!(kind, ErrorKind::InvalidArgument, "the error of {what}");
    }
    Ok(())
}

async fn weighted(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.idle("web")).await?;
    ctx.launch(ctx.idle("api")).await?;
    let api = ctx.target("api")?;
    let shared = |weight| {
        let other = RouteBackend::of(api.clone(), "http").weight(weight);
        vec![route(&ctx, "a").backends([RouteBackend::new("http").weight(9), other])]
    };
    check!(expose(&ctx, shared(1)).await?.changed, "shared routes changed nothing");
    check!(!expose(&ctx, shared(1)).await?.changed, "the same changed something");
    check!(expose(&ctx, shared(5)).await?.changed, "another weight changed nothing");
    Ok(())
}

async fn unexpose(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.idle("web")).await?;
    ctx.launch(ctx.idle("api")).await?;
    expose(&ctx, vec![route(&ctx, "a"), route(&ctx, "b")]).await?;
    let op = Unexpose::new(ctx.target("web")?);
    check_eq!(ctx.scheduler.unexpose(op.clone()).await?, Unexposed::Gone, "the first");
    check_eq!(ctx.scheduler.unexpose(op).await?, Unexposed::WasAbsent, "the second");
    check!(try_expose(&ctx, "api", vec![route(&ctx, "a")]).await??.changed, "the route that became free");
    check_eq!(ctx.launch(ctx.idle("web")).await?.change, Change::Unchanged, "the launch after it");
    Ok(())
}

async fn unexpose_only_ours(ctx: Ctx) -> Outcome {
    let theirs = ctx.theirs();
    theirs.launch(ctx.idle("web")).await?;
    expose(&theirs, vec![route(&ctx, "a")]).await?;
    match ctx.scheduler.unexpose(Unexpose::new(ctx.target("web")?)).await {
        Err(error) if matches!(error.kind(), ErrorKind::Conflict(Conflict::Owner { .. })) => {}
        Ok(Unexposed::WasAbsent) => {}
        other => return Err(Failure(format!("taking somebody else's routes away was answered {other:?}"))),
    }
    check!(!expose(&theirs, vec![route(&ctx, "a")]).await?.changed, "their route was taken away");
    Ok(())
}

async fn deleted_with_it(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.idle("web")).await?;
    expose(&ctx, vec![route(&ctx, "a")]).await?;
    ctx.delete_whole("web").await?;
    ctx.nothing_left().await?;
    ctx.launch(ctx.idle("api")).await?;
    check!(try_expose(&ctx, "api", vec![route(&ctx, "a")]).await??.changed, "the route that became free");
    Ok(())
}

async fn endpoints(ctx: &Ctx, name: &str) -> Result<ReadyEndpoints, Failure> {
    Ok(ctx.scheduler.endpoints(Endpoints::new(ctx.target(name)?)).await?)
}

fn instances(endpoints: &ReadyEndpoints) -> BTreeSet<String> {
    endpoints.endpoints.iter().map(|endpoint| endpoint.instance.clone()).collect()
}

/// Asks until the endpoints are those of these instances: platforms tell of them a little later.
async fn follow(ctx: &Ctx, name: &str, wanted: &BTreeSet<String>) -> Result<ReadyEndpoints, Failure> {
    let end = tokio::time::Instant::now() + ctx.timing().settle;
    loop {
        let seen = endpoints(ctx, name).await?;
        if instances(&seen) == *wanted {
            return Ok(seen);
        }
        check!(tokio::time::Instant::now() < end, "the endpoints never were those of {wanted:?}: {seen:?}");
        tokio::time::sleep(ctx.timing().poll).await;
    }
}

async fn endpoints_ready(ctx: Ctx) -> Outcome {
    let mut workload = ctx.service("web").replicas(2);
    for container in &mut workload.containers {
        *container = container.clone().port("admin", 9090);
    }
    let seen = ctx.launch_healthy(workload).await?;
    let all = follow(&ctx, "web", &ids(&seen)).await?;
    check_eq!(all.endpoints.len(), 4, "two ports of two instances");
    let ports: BTreeSet<_> = all.endpoints.iter().map(|endpoint| endpoint.port.as_str()).collect();
    check_eq!(ports, BTreeSet::from(["admin", "http"]), "the ports");
    let places: BTreeSet<_> = all.endpoints.iter().map(|e| (e.address.as_str(), e.number)).collect();
    check_eq!(places.len(), 4, "the addresses, each with its number");
    check!(all.endpoints.iter().all(|e| !e.address.is_empty() && e.number > 0), "{:?}", all.endpoints);
    let one = ctx.scheduler.endpoints(Endpoints::new(ctx.target("web")?).port("admin")).await?;
    let only: Vec<_> = all.endpoints.iter().filter(|endpoint| endpoint.port == "admin").cloned().collect();
    check_eq!(one.endpoints, only, "those of one port");
    Ok(())
}

async fn endpoints_not_unready(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.hopeful("web")).await?;
    ctx.settle("web", "starting", |seen| Ok(seen.noticed && seen.counts.updated > 0)).await?;
    check_eq!(endpoints(&ctx, "web").await?.endpoints, vec![], "the endpoints of what never started");
    Ok(())
}

async fn endpoints_not_terminating(ctx: Ctx) -> Outcome {
    // They take their time to end, and are as ready as before meanwhile.
    let before = ctx.launch_healthy(ctx.fated("web", Fate::Stubborn).termination_grace(5).replicas(2)).await?;
    let all = ids(&before);
    follow(&ctx, "web", &all).await?;
    let victim = all.iter().next().cloned().ok_or_else(|| Failure("there is no instance".to_owned()))?;
    ctx.scheduler.instance(OnInstance::new(ctx.target("web")?, &victim, InstanceAction::Stop)).await?;
    let end = tokio::time::Instant::now() + ctx.timing().settle;
    loop {
        let told = instances(&endpoints(&ctx, "web").await?);
        let seen = ctx.seen("web").await?;
        let still = seen.instances.iter().any(|i| i.id == victim && i.state == crate::InstanceState::Terminating);
        if !told.contains(&victim) {
            check!(still, "it was told until it had ended");
            return Ok(());
        }
        check!(tokio::time::Instant::now() < end, "{victim} is told for ever");
        tokio::time::sleep(ctx.timing().poll).await;
    }
}

async fn endpoints_of_absent(ctx: Ctx) -> Outcome {
    check_eq!(endpoints(&ctx, "web").await?.endpoints, vec![], "the endpoints of nothing");
    let theirs = ctx.theirs().launch_healthy(ctx.service("web")).await?;
    follow(&ctx.theirs(), "web", &ids(&theirs)).await?;
    check_eq!(endpoints(&ctx, "web").await?.endpoints, vec![], "the endpoints of somebody else's");
    Ok(())
}

/// The next endpoints of the stream that are so many.
async fn told(
    stream: &mut BoxStream<'static, OpResult<ReadyEndpoints>>,
    count: usize,
) -> Result<ReadyEndpoints, Failure> {
    loop {
        let ready = stream.next().await.ok_or_else(|| Failure("the stream ended".to_owned()))??;
        if ready.endpoints.len() == count {
            return Ok(ready);
        }
    }
}

async fn endpoints_watched(ctx: Ctx) -> Outcome {
    let seen = ctx.launch_healthy(ctx.service("web").replicas(1)).await?;
    let target = ctx.target("web")?;
    let mut stream = watch_endpoints(Arc::clone(&ctx.scheduler), Endpoints::new(target.clone()));
    let first = told(&mut stream, 1).await?;
    check_eq!(instances(&first), ids(&seen), "the first endpoints");
    ctx.scheduler.scale(crate::Scale::new(target.clone(), 2)).await?;
    told(&mut stream, 2).await?;
    ctx.scheduler.scale(crate::Scale::new(target, 0)).await?;
    told(&mut stream, 0).await?;
    Ok(())
}
