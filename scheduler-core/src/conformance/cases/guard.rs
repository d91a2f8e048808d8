//! Clause 2: under which condition a change is made.

use super::cases;
use crate::conformance::ctx::{Ctx, check, check_eq, refused};
use crate::conformance::{Disturbance, Outcome};
use crate::{Change, Conflict, Deleted, ErrorKind, Guard, OwnerId, Version};

cases! {
    /// IfOwned refuses a launch onto somebody else's workload, and names the owner.
    2 "guard/owned-refuses-foreign" => owned_refuses_foreign;
    /// IfOwned refuses a launch onto a workload without an owner.
    2 "guard/owned-refuses-unmarked" => owned_refuses_unmarked;
    /// Two control planes with one name in mind never touch each other's.
    2 "guard/planes-share-a-namespace" => planes_share_a_namespace;
    /// IfAbsent creates what is absent.
    2 "guard/absent-creates" => absent_creates;
    /// IfAbsent refuses what is there, even ours.
    2 "guard/absent-refuses-ours" => absent_refuses_ours;
    /// IfAbsent refuses what is somebody else's, and names the owner.
    2 "guard/absent-refuses-foreign" => absent_refuses_foreign;
    /// IfAbsent refuses what is still being deleted.
    2 "guard/absent-refuses-terminating" => absent_refuses_terminating;
    /// IfVersion with the current version changes.
    2 "guard/version-current" [CompareAndSet] => version_current;
    /// IfVersion with an older version is a conflict that tells the current one, and changes nothing.
    2 "guard/version-stale" [CompareAndSet] => version_stale;
    /// IfVersion never creates.
    2 "guard/version-absent" [CompareAndSet] => version_absent;
    /// IfVersion refuses what is somebody else's.
    2 "guard/version-foreign" [CompareAndSet] => version_foreign;
    /// Adopt takes over what is somebody else's, and says from whom.
    2 "guard/adopt-foreign" [Adopt] => adopt_foreign;
    /// Adopt takes over what nobody owns, and says so.
    2 "guard/adopt-unmarked" [Adopt] => adopt_unmarked;
    /// Adopt creates what is absent and updates ours, and reports nobody.
    2 "guard/adopt-needs-nobody" [Adopt] => adopt_needs_nobody;
    /// A delete refuses somebody else's workload, and names the owner.
    2 "guard/delete-refuses-foreign" => delete_refuses_foreign;
    /// A delete refuses a workload without an owner.
    2 "guard/delete-refuses-unmarked" => delete_refuses_unmarked;
    /// IfAbsent is no guard for a delete.
    2 "guard/delete-if-absent" => delete_if_absent;
    /// A delete under IfVersion minds the version.
    2 "guard/delete-version" [CompareAndSet] => delete_version;
    /// A delete under Adopt takes away somebody else's workload.
    2 "guard/delete-adopt" [Adopt] => delete_adopt;
}

fn owned_by(owner: Option<&OwnerId>) -> ErrorKind {
    ErrorKind::Conflict(Conflict::Owner { owner: owner.cloned() })
}

/// That a launch under this guard is refused in this way, and changes no object.
async fn launch_refused(ctx: &Ctx, guard: Guard, wanted: ErrorKind) -> Outcome {
    let before = ctx.objects().await?;
    let launched = ctx.try_launch(ctx.with_tag(ctx.service("web"), "2"), guard.clone()).await?;
    check_eq!(refused(&format!("a launch under {guard:?}"), launched)?, wanted, "a launch under {guard:?}");
    check_eq!(ctx.objects().await?, before, "the objects after a refused launch");
    Ok(())
}

/// That a delete under this guard is refused in this way, and changes no object.
async fn delete_refused(ctx: &Ctx, guard: Guard, wanted: ErrorKind) -> Outcome {
    let before = ctx.objects().await?;
    let deleted = ctx.try_delete("web", guard.clone()).await?;
    check_eq!(refused(&format!("a delete under {guard:?}"), deleted)?, wanted, "a delete under {guard:?}");
    check_eq!(ctx.objects().await?, before, "the objects after a refused delete");
    Ok(())
}

/// Somebody else's workload, at rest.
async fn foreign(ctx: &Ctx) -> Outcome {
    let theirs = ctx.theirs();
    theirs.launch_healthy(theirs.service("web")).await?;
    Ok(())
}

async fn owned_refuses_foreign(ctx: Ctx) -> Outcome {
    foreign(&ctx).await?;
    launch_refused(&ctx, Guard::IfOwned, owned_by(Some(&ctx.other))).await
}

async fn owned_refuses_unmarked(ctx: Ctx) -> Outcome {
    ctx.disturb("web", Disturbance::MakeForeign(None)).await?;
    launch_refused(&ctx, Guard::IfOwned, owned_by(None)).await
}

async fn planes_share_a_namespace(ctx: Ctx) -> Outcome {
    foreign(&ctx).await?;
    ctx.launch_healthy(ctx.service("api")).await?;
    let theirs = ctx.theirs();
    let before = ctx.world.instances().await?;
    delete_refused(&ctx, Guard::IfOwned, owned_by(Some(&ctx.other))).await?;
    let launched = theirs.try_launch(theirs.idle("api"), Guard::IfOwned).await?;
    check_eq!(refused("their launch onto ours", launched)?, owned_by(Some(&ctx.owner)), "their launch onto ours");
    check_eq!(ctx.world.instances().await?, before, "the instances of both");
    theirs.healthy("web").await?;
    ctx.healthy("api").await?;
    Ok(())
}

async fn absent_creates(ctx: Ctx) -> Outcome {
    let launched = ctx.try_launch(ctx.idle("web"), Guard::IfAbsent).await??;
    check_eq!(launched.change, Change::Created, "the launch");
    Ok(())
}

async fn absent_refuses_ours(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.service("web")).await?;
    launch_refused(&ctx, Guard::IfAbsent, ErrorKind::AlreadyExists { owner: Some(ctx.owner.clone()) }).await?;
    // Not even the same again.
    let again = ctx.try_launch(ctx.service("web"), Guard::IfAbsent).await?;
    check!(matches!(refused("the same again", again)?, ErrorKind::AlreadyExists { .. }), "the same again");
    Ok(())
}

async fn absent_refuses_foreign(ctx: Ctx) -> Outcome {
    foreign(&ctx).await?;
    launch_refused(&ctx, Guard::IfAbsent, ErrorKind::AlreadyExists { owner: Some(ctx.other.clone()) }).await
}

async fn absent_refuses_terminating(ctx: Ctx) -> Outcome {
    ctx.terminating("web").await?;
    let launched = ctx.try_launch(ctx.service("web"), Guard::IfAbsent).await?;
    let kind = refused("a launch under IfAbsent onto what is being deleted", launched)?;
    check!(matches!(kind, ErrorKind::AlreadyExists { .. }), "the launch was refused as {kind:?}");
    Ok(())
}

async fn version_current(ctx: Ctx) -> Outcome {
    let seen = ctx.launch_healthy(ctx.service("web")).await?;
    let launched = ctx.try_launch(ctx.with_tag(ctx.service("web"), "2"), Guard::IfVersion(seen.version)).await??;
    check!(matches!(launched.change, Change::Updated(_)), "the launch: {}", launched.change);
    let again = ctx.try_launch(ctx.with_tag(ctx.service("web"), "2"), Guard::IfVersion(launched.version)).await??;
    check_eq!(again.change, Change::Unchanged, "the same under the version that the launch answered");
    Ok(())
}

async fn version_stale(ctx: Ctx) -> Outcome {
    let old = ctx.launch_healthy(ctx.service("web")).await?.version;
    ctx.launch(ctx.with_tag(ctx.service("web"), "3")).await?;
    let now = ctx.healthy("web").await?.version;
    check!(old != now, "the version {old} did not move with the launch");
    launch_refused(&ctx, Guard::IfVersion(old), ErrorKind::Conflict(Conflict::Moved { now: Some(now) })).await
}

async fn version_absent(ctx: Ctx) -> Outcome {
    let version = Version::new("none");
    launch_refused(&ctx, Guard::IfVersion(version.clone()), ErrorKind::Conflict(Conflict::Absent)).await?;
    delete_refused(&ctx, Guard::IfVersion(version), ErrorKind::Conflict(Conflict::Absent)).await
}

async fn version_foreign(ctx: Ctx) -> Outcome {
    foreign(&ctx).await?;
    let version = ctx.theirs().seen("web").await?.version;
    launch_refused(&ctx, Guard::IfVersion(version.clone()), owned_by(Some(&ctx.other))).await?;
    delete_refused(&ctx, Guard::IfVersion(version), owned_by(Some(&ctx.other))).await
}

async fn adopt_foreign(ctx: Ctx) -> Outcome {
    foreign(&ctx).await?;
    let launched = ctx.try_launch(ctx.service("web"), Guard::Adopt).await??;
    check_eq!(launched.adopted_from, Some(Some(ctx.other.clone())), "from whom it was taken");
    ctx.healthy("web").await?;
    check_eq!(ctx.theirs().status("web").await?, None, "the status for whom it was taken from");
    check_eq!(ctx.launch(ctx.service("web")).await?.change, Change::Unchanged, "the launch after it");
    Ok(())
}

async fn adopt_unmarked(ctx: Ctx) -> Outcome {
    ctx.disturb("web", Disturbance::MakeForeign(None)).await?;
    let launched = ctx.try_launch(ctx.service("web"), Guard::Adopt).await??;
    check_eq!(launched.adopted_from, Some(None), "from whom it was taken");
    ctx.healthy("web").await?;
    check_eq!(ctx.launch(ctx.service("web")).await?.change, Change::Unchanged, "the launch after it");
    Ok(())
}

async fn adopt_needs_nobody(ctx: Ctx) -> Outcome {
    let created = ctx.try_launch(ctx.idle("web"), Guard::Adopt).await??;
    check_eq!((created.change, created.adopted_from), (Change::Created, None), "the first launch");
    let again = ctx.try_launch(ctx.idle("web"), Guard::Adopt).await??;
    check_eq!((again.change, again.adopted_from), (Change::Unchanged, None), "the second launch");
    Ok(())
}

async fn delete_refuses_foreign(ctx: Ctx) -> Outcome {
    foreign(&ctx).await?;
    delete_refused(&ctx, Guard::IfOwned, owned_by(Some(&ctx.other))).await?;
    ctx.theirs().healthy("web").await?;
    Ok(())
}

async fn delete_refuses_unmarked(ctx: Ctx) -> Outcome {
    ctx.disturb("web", Disturbance::MakeForeign(None)).await?;
    delete_refused(&ctx, Guard::IfOwned, owned_by(None)).await
}

async fn delete_if_absent(ctx: Ctx) -> Outcome {
    delete_refused(&ctx, Guard::IfAbsent, ErrorKind::InvalidArgument).await?;
    ctx.launch_healthy(ctx.service("web")).await?;
    delete_refused(&ctx, Guard::IfAbsent, ErrorKind::InvalidArgument).await?;
    ctx.healthy("web").await?;
    Ok(())
}

async fn delete_version(ctx: Ctx) -> Outcome {
    let old = ctx.launch_healthy(ctx.service("web")).await?.version;
    ctx.launch(ctx.with_tag(ctx.service("web"), "2")).await?;
    let now = ctx.healthy("web").await?.version;
    let moved = ErrorKind::Conflict(Conflict::Moved { now: Some(now.clone()) });
    delete_refused(&ctx, Guard::IfVersion(old), moved).await?;
    let deleted = ctx.try_delete("web", Guard::IfVersion(now)).await??;
    check!(!matches!(deleted, Deleted::WasAbsent), "the delete under the current version says {deleted:?}");
    ctx.look("web", "gone", |seen| Ok(seen.is_none())).await?;
    Ok(())
}

async fn delete_adopt(ctx: Ctx) -> Outcome {
    foreign(&ctx).await?;
    let deleted = ctx.try_delete("web", Guard::Adopt).await??;
    check!(!matches!(deleted, Deleted::WasAbsent), "the delete says {deleted:?}");
    ctx.theirs().look("web", "gone", |seen| Ok(seen.is_none())).await?;
    Ok(())
}
