//! Clause 13: plans, and launches that are bound to one.

use super::cases;
use crate::conformance::ctx::{Ctx, DONE, check, check_eq, checked, refused};
use crate::conformance::{Disturbance, Failure, Outcome};
use crate::{
    Change, Conflict, Effect, ErrorKind, FieldAction, Guard, Missing, ObjectAction, Plan, PlanToken, Planned,
    Result as OpResult, Workload,
};

cases! {
    /// A plan writes nothing, and says what a launch then does.
    13 "plan/is-true" [Plan] => is_true;
    /// The fields that would change are told, and no value of them.
    13 "plan/fields-without-values" [Plan] => fields;
    /// What cannot be changed in place is planned as a replacement.
    13 "plan/replacement" [Plan, Jobs] => replacement;
    /// What a launch would be refused for, a plan is.
    13 "plan/refused-as-a-launch" [Plan] => refused_as_a_launch;
    /// A launch that is bound to a plan is done when nothing has changed.
    13 "plan/launch-by-token" [Plan] => launch_by_token;
    /// In a world that has moved it is refused.
    13 "plan/launch-in-a-moved-world" [Plan] => moved;
    /// A token is for one workload.
    13 "plan/token-of-another" [Plan] => token_of_another;
    /// A plan that is bound to a plan makes no sense, nor does a delete.
    2 "plan/senseless-guards" [Plan] => senseless;
}

async fn try_plan(ctx: &Ctx, workload: Workload) -> Result<OpResult<Planned>, Failure> {
    Ok(ctx.scheduler.plan(Plan::new(checked(workload)?)).await)
}

async fn plan(ctx: &Ctx, workload: Workload) -> Result<Planned, Failure> {
    Ok(try_plan(ctx, workload).await??)
}

/// What a change means, as far as backends agree.
fn kind(change: Change) -> &'static str {
    match change {
        Change::Created => "created",
        Change::Unchanged => "unchanged",
        Change::Updated(Effect::Replaced) => "replaced",
        Change::Updated(_) => "updated",
    }
}

async fn is_true(ctx: Ctx) -> Outcome {
    let steps = [
        ("nothing there", ctx.idle("web"), "created"),
        ("the same", ctx.idle("web"), "unchanged"),
        ("another image", ctx.with_tag(ctx.idle("web"), "2"), "updated"),
        ("another port", ctx.with_other_port(ctx.with_tag(ctx.idle("web"), "2")), "updated"),
        ("another count", ctx.with_other_port(ctx.with_tag(ctx.idle("web"), "2")).replicas(1), "updated"),
    ];
    for (what, workload, expected) in steps {
        let before = ctx.objects().await?;
        let planned = plan(&ctx, workload.clone()).await?;
        check_eq!(ctx.objects().await?, before, "the objects after the plan, {what}");
        check_eq!(kind(planned.change), expected, "the plan, {what}");
        let changes = planned.objects.iter().any(|object| object.action != ObjectAction::Unchanged);
        check_eq!(changes, expected != "unchanged", "whether the plan changes objects, {what}");
        let launched = ctx.launch(workload).await?;
        check_eq!(launched.change, planned.change, "the launch and its plan, {what}");
        check_eq!(launched.objects, planned.objects, "the objects of the launch and of its plan, {what}");
    }
    Ok(())
}

async fn fields(ctx: Ctx) -> Outcome {
    let with = |value: &str| {
        let mut workload = ctx.idle("web");
        for container in &mut workload.containers {
            *container = container.clone().env("PASSWORD", value);
        }
        workload
    };
    ctx.launch(with("hunter2")).await?;
    check_eq!(plan(&ctx, with("hunter2")).await?.fields, vec![], "the fields that no change has");
    let planned = plan(&ctx, with("correct-horse")).await?;
    check!(!planned.fields.is_empty(), "no field is told");
    check!(planned.fields.iter().any(|field| field.change == FieldAction::Changed), "{:?}", planned.fields);
    let text = format!("{planned:?}{}", serde_json::to_string(&planned).unwrap_or_default());
    for secret in ["hunter2", "correct-horse", "aHVudGVyMg", "Y29ycmVjdC1ob3JzZQ"] {
        check!(!text.contains(secret), "the plan tells the value {secret}: {text}");
    }
    Ok(())
}

async fn replacement(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.job("work", DONE)).await?;
    let planned = plan(&ctx, ctx.with_fate(ctx.job("work", DONE), DONE, "2")).await?;
    check_eq!(planned.change, Change::Updated(Effect::Replaced), "the plan");
    Ok(())
}

async fn refused_as_a_launch(ctx: Ctx) -> Outcome {
    ctx.theirs().launch(ctx.idle("web")).await?;
    let theirs = refused("a plan for somebody else's", try_plan(&ctx, ctx.idle("web")).await?)?;
    check_eq!(theirs, ErrorKind::Conflict(Conflict::Owner { owner: Some(ctx.other.clone()) }), "its error");
    let mut nowhere = ctx.idle("api");
    nowhere.namespace = format!("{}-none", ctx.world.namespace());
    let absent = refused("a plan in no namespace", try_plan(&ctx, nowhere).await?)?;
    check_eq!(absent, ErrorKind::NotFound(Missing::Namespace), "its error");
    ctx.launch(ctx.idle("own")).await?;
    let there = Plan::new(checked(ctx.idle("own"))?).guard(Guard::IfAbsent);
    let kind = refused("a plan if absent", ctx.scheduler.plan(there).await)?;
    check_eq!(kind, ErrorKind::AlreadyExists { owner: Some(ctx.owner.clone()) }, "its error");
    Ok(())
}

/// A token as it comes back from where it was written down.
fn written_down(token: &PlanToken) -> Result<Guard, Failure> {
    token.to_string().parse().map(Guard::IfPlan).map_err(|e| Failure(format!("the token: {e}")))
}

async fn launch_by_token(ctx: Ctx) -> Outcome {
    for (workload, expected) in [(ctx.idle("web"), Change::Created), (ctx.idle("web"), Change::Unchanged)] {
        let guard = written_down(&plan(&ctx, workload.clone()).await?.token)?;
        check_eq!(ctx.try_launch(workload, guard).await??.change, expected, "the launch");
    }
    let workload = ctx.with_tag(ctx.idle("web"), "2");
    let guard = written_down(&plan(&ctx, workload.clone()).await?.token)?;
    let launched = ctx.try_launch(workload, guard).await??;
    check!(matches!(launched.change, Change::Updated(_)), "the launch of another image: {}", launched.change);
    Ok(())
}

async fn moved(ctx: Ctx) -> Outcome {
    let absent = written_down(&plan(&ctx, ctx.idle("web")).await?.token)?;
    ctx.launch(ctx.idle("web")).await?;
    let error = refused("a launch by the plan for nothing there", ctx.try_launch(ctx.idle("web"), absent).await?)?;
    check!(matches!(error, ErrorKind::Conflict(_) | ErrorKind::AlreadyExists { .. }), "its error is {error:?}");
    let changed = ctx.with_tag(ctx.idle("web"), "2");
    let token = written_down(&plan(&ctx, changed.clone()).await?.token)?;
    ctx.disturb("web", Disturbance::SetImage(ctx.image("outside"))).await?;
    let before = ctx.objects().await?;
    let error = refused("a launch after somebody's change", ctx.try_launch(changed, token).await?)?;
    check!(matches!(error, ErrorKind::Conflict(Conflict::Moved { .. })), "its error is {error:?}");
    check_eq!(ctx.objects().await?, before, "the objects after it");
    Ok(())
}

async fn token_of_another(ctx: Ctx) -> Outcome {
    let token = written_down(&plan(&ctx, ctx.idle("web")).await?.token)?;
    for (what, workload) in [
        ("another image", ctx.with_tag(ctx.idle("web"), "2")),
        ("another count", ctx.idle("web").replicas(1)),
        ("another name", ctx.idle("api")),
    ] {
        let kind = refused(what, ctx.try_launch(workload, token.clone()).await?)?;
        check_eq!(kind, ErrorKind::InvalidArgument, "the error of {what}");
    }
    ctx.nothing_left().await
}

async fn senseless(ctx: Ctx) -> Outcome {
    let token = plan(&ctx, ctx.idle("web")).await?.token;
    let bound = Plan::new(checked(ctx.idle("web"))?).guard(Guard::IfPlan(token.clone()));
    check_eq!(refused("a plan by a plan", ctx.scheduler.plan(bound).await)?, ErrorKind::InvalidArgument, "its error");
    ctx.launch(ctx.idle("web")).await?;
    let delete = ctx.try_delete("web", Guard::IfPlan(token)).await?;
    check_eq!(refused("a delete by a plan", delete)?, ErrorKind::InvalidArgument, "its error");
    Ok(())
}
