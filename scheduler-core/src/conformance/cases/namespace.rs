//! Clause 17: namespaces.

use super::cases;
use crate::conformance::ctx::{Ctx, check, check_eq, refused};
use crate::conformance::{Failure, Outcome};
use crate::{
    Change, Conflict, DeleteNamespace, EnsureNamespace, ErrorKind, Namespace, NamespaceDeleted, NamespaceEnsured,
    Result as OpResult,
};

cases! {
    /// One that is absent is made, and is ours; again, it is there.
    17 "namespace/ensured" [Namespaces] => ensured;
    /// One that somebody else made is used as it is, and is never deleted.
    17 "namespace/foreign" [Namespaces] => foreign;
    /// One that another owner made is not ours.
    17 "namespace/of-another-owner" [Namespaces] => of_another_owner;
    /// One that holds workloads is not deleted.
    17 "namespace/full" [Namespaces] => full;
    /// Nothing there, nothing to delete.
    17 "namespace/absent" [Namespaces] => absent;
}

fn other(ctx: &Ctx) -> Result<Namespace, Failure> {
    Namespace::new(format!("{}-x", ctx.world.namespace())).map_err(|e| Failure(e.to_string()))
}

async fn ensure(ctx: &Ctx, namespace: &Namespace) -> OpResult<NamespaceEnsured> {
    ctx.scheduler.ensure_namespace(EnsureNamespace::new(namespace.clone())).await
}

async fn delete(ctx: &Ctx, namespace: &Namespace) -> OpResult<NamespaceDeleted> {
    ctx.scheduler.delete_namespace(DeleteNamespace::new(namespace.clone())).await
}

/// Deletes step by step. Tells whether it was there.
async fn delete_whole(ctx: &Ctx, namespace: &Namespace) -> Result<bool, Failure> {
    let end = tokio::time::Instant::now() + ctx.timing().settle;
    let mut there = false;
    loop {
        match delete(ctx, namespace).await? {
            NamespaceDeleted::WasAbsent => return Ok(there),
            NamespaceDeleted::Gone => return Ok(true),
            step => check!(tokio::time::Instant::now() < end, "it was not gone in time: {step:?}"),
        }
        there = true;
        tokio::time::sleep(ctx.timing().poll).await;
    }
}

async fn ensured(ctx: Ctx) -> Outcome {
    let namespace = other(&ctx)?;
    check_eq!(ensure(&ctx, &namespace).await?, NamespaceEnsured::Created, "the first");
    check_eq!(ensure(&ctx, &namespace).await?, NamespaceEnsured::Exists { owned: true }, "the second");
    let mut workload = ctx.idle("web");
    workload.namespace = namespace.to_string();
    check_eq!(ctx.launch(workload).await?.change, Change::Created, "a launch into it");
    let target = crate::Target { namespace: namespace.clone(), name: ctx.target("web")?.name };
    let options = crate::WaitOptions::default().total(ctx.timing().settle).poll(ctx.timing().poll);
    crate::SchedulerExt::delete_and_wait(&*ctx.scheduler, crate::Delete::new(target), &options).await?;
    check!(delete_whole(&ctx, &namespace).await?, "it was not there");
    check_eq!(delete(&ctx, &namespace).await?, NamespaceDeleted::WasAbsent, "a delete after the last");
    Ok(())
}

async fn foreign(ctx: Ctx) -> Outcome {
    let namespace = ctx.world.second_namespace().await?;
    for _ in 0..2 {
        check_eq!(ensure(&ctx, &namespace).await?, NamespaceEnsured::Exists { owned: false }, "what is there");
    }
    let kind = refused("its deletion", delete(&ctx, &namespace).await)?;
    check!(matches!(kind, ErrorKind::Conflict(Conflict::Owner { .. })), "its error is {kind:?}");
    let mut workload = ctx.idle("web");
    workload.namespace = namespace.to_string();
    check_eq!(ctx.launch(workload).await?.change, Change::Created, "a launch into it");
    Ok(())
}

async fn of_another_owner(ctx: Ctx) -> Outcome {
    let namespace = other(&ctx)?;
    let theirs = ctx.theirs();
    ensure(&theirs, &namespace).await?;
    check_eq!(ensure(&ctx, &namespace).await?, NamespaceEnsured::Exists { owned: false }, "what is there");
    let kind = refused("its deletion", delete(&ctx, &namespace).await)?;
    let owner = Some(ctx.other.clone());
    check_eq!(kind, ErrorKind::Conflict(Conflict::Owner { owner }), "its error");
    check_eq!(ensure(&theirs, &namespace).await?, NamespaceEnsured::Exists { owned: true }, "what is there for them");
    check!(delete_whole(&theirs, &namespace).await?, "it was not there");
    Ok(())
}

async fn full(ctx: Ctx) -> Outcome {
    let namespace = other(&ctx)?;
    ensure(&ctx, &namespace).await?;
    let theirs = ctx.theirs();
    let mut workload = theirs.idle("theirs");
    workload.namespace = namespace.to_string();
    theirs.launch(workload).await?;
    let error = crate::conformance::ctx::error_of("its deletion", delete(&ctx, &namespace).await)?;
    check_eq!(*error.kind(), ErrorKind::Precondition, "its error");
    check!(error.to_string().contains("theirs"), "the error does not name what it holds: {error}");
    let target = crate::Target { namespace: namespace.clone(), name: ctx.target("theirs")?.name };
    let options = crate::WaitOptions::default().total(ctx.timing().settle).poll(ctx.timing().poll);
    crate::SchedulerExt::delete_and_wait(&*theirs.scheduler, crate::Delete::new(target), &options).await?;
    check!(delete_whole(&ctx, &namespace).await?, "it was not there");
    Ok(())
}

async fn absent(ctx: Ctx) -> Outcome {
    check_eq!(delete(&ctx, &other(&ctx)?).await?, NamespaceDeleted::WasAbsent, "the delete of nothing");
    Ok(())
}
