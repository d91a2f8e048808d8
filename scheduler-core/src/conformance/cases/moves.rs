//! Clause 16: routes that move from one workload to another, and those that two want at once.

use futures_util::future::{BoxFuture, try_join};

use super::cases;
use super::route::{route, try_expose};
use crate::conformance::ctx::{Ctx, MOST_REQUESTS, check, check_eq, error_of, refused, too_many_requests};
use crate::conformance::{Failure, Injection, Outcome};
use crate::{Conflict, ErrorKind, Expose, Exposed, Result as OpResult, Retry, Route, Target, Unexpose, Unexposed};

cases! {
    /// Routes go from one workload to another, and again there is nothing to do.
    16 "expose/moves" [Expose] => moves;
    /// Only the routes that the new workload gets are taken; the old one keeps its others.
    16 "expose/moves-no-others" [Expose] => moves_no_others;
    /// There may be nothing to take, or nobody to take it from.
    16 "expose/moves-from-nobody" [Expose] => moves_from_nobody;
    /// A route that a third workload has is taken all the same, and nothing is written.
    16 "expose/moves-not-from-a-third" [Expose] => not_from_a_third;
    /// Routes move within a namespace, and not from a workload to itself.
    16 "expose/move-refused" [Expose] => move_refused;
    /// Nothing is taken from somebody else's workload.
    1 "expose/moves-only-ours" [Expose] => moves_only_ours;
    /// A move that is dropped or fails at any request leaves no moment in which nobody has the route.
    16 "expose/move-leaves-no-gap" [Expose] => leaves_no_gap;
    /// A move that was dropped or failed at any request is completed by the next.
    19 "expose/move-is-completed" [Expose] => is_completed;
    /// Of two workloads that want one route at once, at most one gets it, and the other one keeps what it had.
    16 "expose/two-at-once" [Expose] => two_at_once;
}

async fn try_move(ctx: &Ctx, from: Target, routes: Vec<Route>) -> Result<OpResult<Exposed>, Failure> {
    Ok(ctx.scheduler.expose(Expose::new(ctx.target("new")?, routes).taking_from(from)).await)
}

/// Gives these routes to the workload `new`, as far as `old` has them from it.
async fn move_from_old(ctx: &Ctx, routes: Vec<Route>) -> Result<Exposed, Failure> {
    Ok(try_move(ctx, ctx.target("old")?, routes).await??)
}

async fn launch_all<const N: usize>(ctx: &Ctx, names: [&str; N]) -> Outcome {
    for name in names {
        ctx.launch(ctx.idle(name)).await?;
    }
    Ok(())
}

/// That a workload has these routes and no others.
async fn has(ctx: &Ctx, name: &str, routes: Vec<Route>) -> Outcome {
    if routes.is_empty() {
        let unexposed = ctx.scheduler.unexpose(Unexpose::new(ctx.target(name)?)).await?;
        check_eq!(unexposed, Unexposed::WasAbsent, "the routes of {name}, which should have none");
        return Ok(());
    }
    let told = format!("{routes:?}");
    check!(!try_expose(ctx, name, routes).await??.changed, "{name} had other routes than {told}");
    Ok(())
}

/// That the operation was refused because another workload has a route.
fn is_taken(what: &str, answer: OpResult<Exposed>) -> Result<String, Failure> {
    match refused(what, answer)? {
        ErrorKind::Conflict(Conflict::RouteTaken { by }) => Ok(by),
        other => Err(Failure(format!("the error of {what} is {other:?}"))),
    }
}

async fn moves(ctx: Ctx) -> Outcome {
    launch_all(&ctx, ["old", "new"]).await?;
    let before = ctx.object_names().await?;
    let routes = || vec![route(&ctx, "a"), route(&ctx, "b").path("/api")];
    try_expose(&ctx, "old", routes()).await??;
    is_taken("the same routes without a word of the old workload", try_expose(&ctx, "new", routes()).await?)?;
    let moved = move_from_old(&ctx, routes()).await?;
    check!(moved.changed, "a move changed nothing");
    check_eq!(moved.taken, routes(), "what was taken");
    has(&ctx, "new", routes()).await?;
    has(&ctx, "old", vec![]).await?;
    let again = move_from_old(&ctx, routes()).await?;
    check_eq!((again.changed, again.taken), (false, vec![]), "the same move again");
    // And back.
    let back = Expose::new(ctx.target("old")?, routes()).taking_from(ctx.target("new")?);
    check_eq!(ctx.scheduler.expose(back).await?.taken, routes(), "what was taken back");
    ctx.scheduler.unexpose(Unexpose::new(ctx.target("old")?)).await?;
    check_eq!(ctx.object_names().await?, before, "the objects after all routes went");
    Ok(())
}

async fn moves_no_others(ctx: Ctx) -> Outcome {
    launch_all(&ctx, ["old", "new"]).await?;
    let stays = || vec![route(&ctx, "b"), route(&ctx, "a").path("/api")];
    let mut all = stays();
    all.extend([route(&ctx, "a"), route(&ctx, "c").path("/x")]);
    try_expose(&ctx, "old", all).await??;
    // A slash at the end means nothing.
    let wanted = || vec![route(&ctx, "a"), route(&ctx, "c").path("/x/"), route(&ctx, "d")];
    let moved = move_from_old(&ctx, wanted()).await?;
    check_eq!(moved.taken, wanted()[..2].to_vec(), "what was taken");
    has(&ctx, "new", wanted()).await?;
    has(&ctx, "old", stays()).await
}

async fn moves_from_nobody(ctx: Ctx) -> Outcome {
    launch_all(&ctx, ["old", "new"]).await?;
    let from_nobody = try_move(&ctx, ctx.target("nobody")?, vec![route(&ctx, "a")]).await??;
    check_eq!((from_nobody.changed, from_nobody.taken), (true, vec![]), "a move from what is not there");
    let from_idle = move_from_old(&ctx, vec![route(&ctx, "b")]).await?;
    check_eq!((from_idle.changed, from_idle.taken), (true, vec![]), "a move from what has no routes");
    try_expose(&ctx, "old", vec![route(&ctx, "c")]).await??;
    let from_other = move_from_old(&ctx, vec![route(&ctx, "b")]).await?;
    check_eq!((from_other.changed, from_other.taken), (false, vec![]), "a move from what has other routes");
    has(&ctx, "old", vec![route(&ctx, "c")]).await
}

async fn not_from_a_third(ctx: Ctx) -> Outcome {
    launch_all(&ctx, ["old", "new", "third"]).await?;
    try_expose(&ctx, "old", vec![route(&ctx, "a")]).await??;
    try_expose(&ctx, "third", vec![route(&ctx, "b")]).await??;
    let wanted = vec![route(&ctx, "a"), route(&ctx, "b")];
    let by = is_taken("a third workload's route", try_move(&ctx, ctx.target("old")?, wanted).await?)?;
    check!(by.contains("third"), "it is said to be taken by {by}");
    has(&ctx, "old", vec![route(&ctx, "a")]).await?;
    has(&ctx, "third", vec![route(&ctx, "b")]).await?;
    has(&ctx, "new", vec![]).await
}

async fn move_refused(ctx: Ctx) -> Outcome {
    launch_all(&ctx, ["new"]).await?;
    let elsewhere = ctx.world.second_namespace().await?;
    let elsewhere = Target::new(elsewhere.as_str(), "old").map_err(|e| Failure(e.to_string()))?;
    for (what, from) in [("itself", ctx.target("new")?), ("another namespace", elsewhere)] {
        let error = error_of(what, try_move(&ctx, from, vec![route(&ctx, "a")]).await?)?;
        check_eq!(*error.kind(), ErrorKind::InvalidArgument, "the error of a move from {what}");
        let paths: Vec<_> = error.causes().iter().map(|cause| cause.path.as_str()).collect();
        check_eq!(paths, vec!["from"], "what it names");
    }
    has(&ctx, "new", vec![]).await
}

async fn moves_only_ours(ctx: Ctx) -> Outcome {
    launch_all(&ctx, ["new"]).await?;
    let theirs = ctx.theirs();
    theirs.launch(ctx.idle("old")).await?;
    let wanted = ErrorKind::Conflict(Conflict::Owner { owner: Some(ctx.other.clone()) });
    for routes in [vec![], vec![route(&ctx, "a")]] {
        if !routes.is_empty() {
            try_expose(&theirs, "old", routes).await??;
        }
        let answer = try_move(&ctx, ctx.target("old")?, vec![route(&ctx, "a")]).await?;
        check_eq!(refused("a move from somebody else's", answer)?, wanted, "its error");
        has(&ctx, "new", vec![]).await?;
    }
    has(&theirs, "old", vec![route(&ctx, "a")]).await
}

/// What is to hold after a move of the route `a` was cut off, of a workload with these other routes.
type Afterwards = for<'a> fn(&'a Ctx, Vec<Route>) -> BoxFuture<'a, Outcome>;

/// Cuts a move off at each of its requests in turn, in each way, once with nothing left to the old workload and once with
/// something left; and looks at what there is then.
async fn cut_off_moves(ctx: &Ctx, afterwards: Afterwards) -> Outcome {
    launch_all(ctx, ["old", "new", "third"]).await?;
    for fault in [Injection::Hang, Injection::Refuse, Injection::LoseAnswer] {
        for rest in [vec![], vec![route(ctx, "b")]] {
            for nth in 1.. {
                if nth == MOST_REQUESTS {
                    return too_many_requests();
                }
                ctx.scheduler.unexpose(Unexpose::new(ctx.target("new")?)).await?;
                try_expose(ctx, "old", [vec![route(ctx, "a")], rest.clone()].concat()).await??;
                let moving = try_move(ctx, ctx.target("old")?, vec![route(ctx, "a")]);
                let ended = if fault == Injection::Hang {
                    ctx.drop_at(nth, moving).await?
                } else {
                    ctx.world.inject(nth, fault);
                    Some(moving.await)
                };
                let met = ctx.world.injected();
                ctx.inject_nothing();
                let seen = afterwards(ctx, rest.clone()).await;
                seen.map_err(|Failure(e)| Failure(format!("after a move whose request {nth} met {fault:?}: {e}")))?;
                if !met {
                    ended.ok_or_else(|| Failure("a move without a fault was dropped".to_owned()))???;
                    break;
                }
            }
        }
    }
    Ok(())
}

async fn leaves_no_gap(ctx: Ctx) -> Outcome {
    cut_off_moves(&ctx, |ctx, _| {
        Box::pin(async {
            // Who has the route is not the question.
            is_taken("the route", try_expose(ctx, "third", vec![route(ctx, "a")]).await?).map(drop)
        })
    })
    .await
}

async fn is_completed(ctx: Ctx) -> Outcome {
    cut_off_moves(&ctx, |ctx, rest| {
        Box::pin(async {
            move_from_old(ctx, vec![route(ctx, "a")]).await?;
            has(ctx, "new", vec![route(ctx, "a")]).await?;
            has(ctx, "old", rest).await
        })
    })
    .await
}

async fn two_at_once(ctx: Ctx) -> Outcome {
    launch_all(&ctx, ["one", "two", "third"]).await?;
    let own = |name: &str| route(&ctx, name);
    for name in ["one", "two"] {
        try_expose(&ctx, name, vec![own(name)]).await??;
    }
    for _ in 0..5 {
        let shared = || route(&ctx, "shared");
        let expose = |name| try_expose(&ctx, name, vec![own(name), shared()]);
        let (one, two) = try_join(expose("one"), expose("two")).await?;
        let mut winners = Vec::new();
        for (name, answer) in [("one", one), ("two", two)] {
            let Err(error) = &answer else {
                winners.push(name);
                continue;
            };
            let (raced, of) = (error.retry() == Retry::AfterReread, error.to_string());
            let by = is_taken(name, answer)?;
            let other = if name == "one" { "two" } else { "one" };
            check!(by.contains(other), "{name} is said to be refused because of {by}");
            check!(raced || winners != ["two"], "both were refused, and {name} for good: {of}");
            has(&ctx, name, vec![own(name)]).await?;
        }
        check!(winners.len() < 2, "both have one route");
        if let Some(winner) = winners.first() {
            let by = is_taken("the route that one of two got", try_expose(&ctx, "third", vec![shared()]).await?)?;
            check!(by.contains(winner), "{winner} got it, but it is said to be taken by {by}");
            check!(try_expose(&ctx, winner, vec![own(winner)]).await??.changed, "the winner did not have it");
        }
        try_expose(&ctx, "third", vec![shared()]).await??;
        ctx.scheduler.unexpose(Unexpose::new(ctx.target("third")?)).await?;
    }
    Ok(())
}
