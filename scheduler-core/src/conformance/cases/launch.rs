//! Clause 4: launch is *ensure*, decided by reads.

use std::collections::BTreeSet;

use super::cases;
use crate::conformance::ctx::{Ctx, check, check_eq, checked, ids, refused};
use crate::conformance::{Disturbance, Failure, Outcome};
use crate::memory::Fate;
use crate::{BackendName, Change, Deleted, Effect, ErrorKind, Launch, ObjectAction, Observation, Verdict, Workload};

cases! {
    /// A launch of what is absent creates it, and lists each object that is there then.
    4 "launch/creates" => creates;
    /// A launch of what is as described says Unchanged and writes nothing.
    4 "launch/unchanged-writes-nothing" => unchanged_writes_nothing;
    /// A launch of what is as described replaces no instance.
    4 "launch/unchanged-restarts-nothing" => unchanged_restarts_nothing;
    /// Unchanged does not ask for health, and writes nothing.
    4 "launch/unchanged-when-unhealthy" => unchanged_when_unhealthy;
    /// Unchanged does not wait for the rollout.
    4 "launch/unchanged-while-rolling" => unchanged_while_rolling;
    /// Somebody else's change to a rendered field is repaired and reported.
    4 "launch/repairs-image" => repairs_image;
    /// An object that somebody took away is made again and reported.
    4 "launch/makes-missing-object" {RemoveService} => makes_missing_object;
    /// An object that is not wanted any more is taken away and reported.
    4 "launch/removes-surplus-object" => removes_surplus_object;
    /// An object that is wanted now is made, and the instances' container is told of its ports.
    4 "launch/adds-wanted-object" => adds_wanted_object;
    /// A field that is not rendered is nobody's drift and stays.
    4 "launch/leaves-foreign-fields" => leaves_foreign_fields;
    /// A port that keeps its name and changes its number is one change.
    4 "launch/moves-a-port" => moves_a_port;
    /// An update to another image is Rolling, and no instance survives it.
    4 "launch/update-replaces-instances" => update_replaces_instances;
    /// What is reported as in place replaces no instance, and what is reported as rolling does.
    4 "launch/effect-is-true" => effect_is_true;
    /// A change of the number of instances alone replaces none.
    4 "launch/scale-is-in-place" => scale_is_in_place;
    /// A launch of what was launched before the last is a change like any other.
    4 "launch/back-to-the-last" => back_to_the_last;
    /// An unknown field in the backend's own extension is refused before anything is made.
    4 "launch/own-extension-is-strict" => own_extension_is_strict;
    /// An extension for another backend is a warning.
    4 "launch/other-extension-warns" => other_extension_warns;
}

fn updated(what: &str, change: Change) -> Outcome {
    check!(matches!(change, Change::Updated(_)), "{what}: {change}");
    Ok(())
}

/// The instances of a workload that is healthy, each of what was launched last.
async fn instances(ctx: &Ctx, name: &str) -> Result<BTreeSet<String>, Failure> {
    Ok(ids(&ctx.healthy(name).await?))
}

async fn creates(ctx: Ctx) -> Outcome {
    let launched = ctx.launch(ctx.service("web")).await?;
    check_eq!(launched.change, Change::Created, "the launch");
    check_eq!(launched.adopted_from, None, "from whom it was taken");
    check!(!launched.objects.is_empty(), "no object is listed");
    let mut listed = BTreeSet::new();
    for object in launched.objects {
        check_eq!(object.action, ObjectAction::Created, "what happened to {}/{}", object.kind, object.name);
        listed.insert(format!("{}/{}", object.kind, object.name));
    }
    check_eq!(listed, ctx.object_names().await?, "the listed objects");
    ctx.healthy("web").await?;
    Ok(())
}

/// That a launch of the same says Unchanged, and writes nothing.
async fn writes_nothing(ctx: &Ctx, workload: Workload) -> Outcome {
    let before = ctx.objects().await?;
    let launched = ctx.launch(workload).await?;
    check_eq!(launched.change, Change::Unchanged, "the launch of the same");
    let touched = launched.objects.iter().find(|object| object.action != ObjectAction::Unchanged);
    check_eq!(touched, None, "an object that is listed as changed");
    check_eq!(ctx.objects().await?, before, "the objects after it");
    Ok(())
}

async fn unchanged_writes_nothing(ctx: Ctx) -> Outcome {
    let workload = ctx.service("web").replicas(2).label("team", "blue");
    ctx.launch_healthy(workload.clone()).await?;
    writes_nothing(&ctx, workload.clone()).await?;
    writes_nothing(&ctx, workload).await
}

async fn unchanged_restarts_nothing(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.service("web").replicas(2)).await?;
    let before = instances(&ctx, "web").await?;
    ctx.launch(ctx.service("web").replicas(2)).await?;
    // A witness that comes up meanwhile gives a replacement the time to show.
    ctx.launch_healthy(ctx.service("witness")).await?;
    check_eq!(instances(&ctx, "web").await?, before, "the instances after it");
    Ok(())
}

async fn unchanged_when_unhealthy(ctx: Ctx) -> Outcome {
    let broken = ctx.fated("web", Fate::PullError);
    ctx.launch(broken.clone()).await?;
    ctx.verdict("web", Verdict::Failed).await?;
    writes_nothing(&ctx, broken).await
}

async fn unchanged_while_rolling(ctx: Ctx) -> Outcome {
    let slow = ctx.fated("web", Fate::Slow { after: 2 });
    ctx.launch(slow.clone()).await?;
    check_eq!(ctx.launch(slow).await?.change, Change::Unchanged, "the launch while the first is on its way");
    ctx.healthy("web").await?;
    Ok(())
}

async fn repairs_image(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.service("web")).await?;
    ctx.disturb("web", Disturbance::SetImage(ctx.image("drift"))).await?;
    updated("the launch after the drift", ctx.launch(ctx.service("web")).await?.change)?;
    ctx.healthy("web").await?;
    writes_nothing(&ctx, ctx.service("web")).await
}

async fn makes_missing_object(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.service("web")).await?;
    let (names, before) = (ctx.object_names().await?, instances(&ctx, "web").await?);
    ctx.disturb("web", Disturbance::RemoveService).await?;
    check!(ctx.object_names().await? != names, "the disturbance took nothing away");
    let launched = ctx.launch(ctx.service("web")).await?;
    updated("the launch after the loss", launched.change)?;
    let made = launched.objects.iter().filter(|object| object.action == ObjectAction::Created).count();
    check_eq!(made, 1, "the number of objects that are listed as created");
    check_eq!(ctx.object_names().await?, names, "the objects after it");
    check_eq!(instances(&ctx, "web").await?, before, "the instances after it");
    writes_nothing(&ctx, ctx.service("web")).await
}

fn without_ports(mut workload: Workload) -> Workload {
    for container in &mut workload.containers {
        container.ports.clear();
    }
    workload
}

async fn removes_surplus_object(ctx: Ctx) -> Outcome {
    ctx.launch(without_ports(ctx.idle("web"))).await?;
    let bare = ctx.object_names().await?;
    ctx.delete_whole("web").await?;
    ctx.launch(ctx.idle("web")).await?;
    let surplus = ctx.object_names().await?.difference(&bare).count();
    let launched = ctx.launch(without_ports(ctx.idle("web"))).await?;
    updated("the launch without ports", launched.change)?;
    let deleted = launched.objects.iter().filter(|object| object.action == ObjectAction::Deleted).count();
    check_eq!(deleted, surplus, "the number of objects that are listed as deleted");
    check_eq!(ctx.object_names().await?, bare, "the objects after it");
    ctx.healthy("web").await?;
    writes_nothing(&ctx, without_ports(ctx.idle("web"))).await
}

async fn adds_wanted_object(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.idle("web")).await?;
    let full = ctx.object_names().await?;
    ctx.delete_whole("web").await?;
    ctx.launch(without_ports(ctx.idle("web"))).await?;
    updated("the launch with ports", ctx.launch(ctx.idle("web")).await?.change)?;
    check_eq!(ctx.object_names().await?, full, "the objects after it");
    ctx.healthy("web").await?;
    writes_nothing(&ctx, ctx.idle("web")).await
}

async fn leaves_foreign_fields(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.service("web")).await?;
    let before = ctx.objects().await?;
    ctx.disturb("web", Disturbance::AddAnnotation).await?;
    check!(ctx.objects().await? != before, "the disturbance changed nothing");
    writes_nothing(&ctx, ctx.service("web")).await?;
    // An update of something else leaves it as well: undoing the update by the same launch finds nothing to repair.
    ctx.launch(ctx.service("web").replicas(2)).await?;
    ctx.healthy("web").await?;
    writes_nothing(&ctx, ctx.service("web").replicas(2)).await
}

async fn moves_a_port(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.service("web")).await?;
    let moved = ctx.with_other_port(ctx.service("web"));
    updated("the launch with the new number", ctx.launch(moved.clone()).await?.change)?;
    ctx.healthy("web").await?;
    writes_nothing(&ctx, moved).await
}

async fn update_replaces_instances(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.service("web").replicas(2)).await?;
    let before = instances(&ctx, "web").await?;
    let launched = ctx.launch(ctx.with_tag(ctx.service("web").replicas(2), "2")).await?;
    check_eq!(launched.change, Change::Updated(Effect::Rolling), "the launch of another image");
    let after = instances(&ctx, "web").await?;
    check!(after.is_disjoint(&before), "instances of both images: {before:?}, then {after:?}");
    check_eq!(after.len(), 2, "the number of instances");
    Ok(())
}

async fn effect_is_true(ctx: Ctx) -> Outcome {
    let base = || ctx.service("web").replicas(1);
    let with_env = |mut workload: Workload| {
        for container in &mut workload.containers {
            *container = container.clone().env("LOG_LEVEL", "info");
        }
        workload
    };
    ctx.launch(base()).await?;
    let mut before = instances(&ctx, "web").await?;
    for (what, changed) in [
        ("another patience", base().progress_deadline(ctx.timing().patience + 1)),
        ("another time until it is available", base().min_ready(1)),
        ("another grace", base().termination_grace(3)),
        ("a label", base().label("team", "blue")),
        ("a variable", with_env(base())),
    ] {
        let change = ctx.launch(changed).await?.change;
        let after = instances(&ctx, "web").await?;
        match change {
            Change::Updated(Effect::InPlace) => check_eq!(after, before, "instances after {what}, said to be in place"),
            Change::Updated(_) => {
                check!(after.is_disjoint(&before), "{what} is said to be {change}, but instances stay: {after:?}");
            }
            other => return Err(Failure(format!("{what}: {other}"))),
        }
        before = after;
    }
    Ok(())
}

async fn scale_is_in_place(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.service("web")).await?;
    let before = instances(&ctx, "web").await?;
    let up = ctx.launch(ctx.service("web").replicas(3)).await?;
    check_eq!(up.change, Change::Updated(Effect::InPlace), "the launch with three instances");
    let three = instances(&ctx, "web").await?;
    check!(three.is_superset(&before) && three.len() == 3, "one instance, {before:?}, became three, {three:?}");
    let down = ctx.launch(ctx.service("web").replicas(2)).await?;
    check_eq!(down.change, Change::Updated(Effect::InPlace), "the launch with two instances");
    let two = instances(&ctx, "web").await?;
    check!(two.is_subset(&three) && two.len() == 2, "three instances, {three:?}, became two, {two:?}");
    Ok(())
}

async fn back_to_the_last(ctx: Ctx) -> Outcome {
    let first = ctx.launch(ctx.service("web")).await?;
    ctx.healthy("web").await?;
    ctx.launch(ctx.with_tag(ctx.service("web"), "2")).await?;
    ctx.healthy("web").await?;
    let back = ctx.launch(ctx.service("web")).await?;
    updated("the launch of the first again", back.change)?;
    check_eq!(back.revision, first.revision, "the revision");
    let seen: Observation = ctx.healthy("web").await?;
    check_eq!(seen.revision, Some(first.revision), "the revision in the status");
    writes_nothing(&ctx, ctx.service("web")).await
}

async fn own_extension_is_strict(ctx: Ctx) -> Outcome {
    let own = ctx.harness.capabilities().backend().clone();
    let workload = ctx.idle("web").extension(&own, serde_json::json!({ "no_such_field": 1 }));
    let launched = ctx.scheduler.launch(Launch::new(checked(workload)?)).await;
    check_eq!(refused("a launch with an unknown field", launched)?, ErrorKind::InvalidArgument, "the launch");
    check_eq!(ctx.objects().await?, [], "the objects after it");
    Ok(())
}

async fn other_extension_warns(ctx: Ctx) -> Outcome {
    let other = BackendName::new("some-other").map_err(|e| Failure(e.to_string()))?;
    let launched = ctx.launch(ctx.idle("web").extension(&other, serde_json::json!({ "field": 1 }))).await?;
    check_eq!(launched.change, Change::Created, "the launch");
    check!(!launched.warnings.is_empty(), "there is no warning of an extension that is not heeded");
    check!(!matches!(ctx.delete("web").await?, Deleted::WasAbsent), "it was not there");
    Ok(())
}
