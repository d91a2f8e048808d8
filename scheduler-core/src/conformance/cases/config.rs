//! Clause 15: configurations.

use super::cases;
use crate::conformance::ctx::{Ctx, check, check_eq, refused};
use crate::conformance::{Failure, Outcome};
use crate::{
    ConfigEntry, ConfigRef, ConfigStored, ConfigValue, Conflict, DiagnosisKind, EnvValue, ErrorKind, Guard, PutConfig,
    Result as OpResult, VolumeSource, Workload,
};

cases! {
    /// The version follows from the content; the same content again writes nothing.
    15 "config/same-content" [PutConfig] => same_content;
    /// Another content is another version, beside the first.
    15 "config/other-content" [PutConfig, ConfigReferences] => other_content;
    /// A workload may refer to entries, and to all of them as files.
    15 "config/used" [PutConfig, ConfigReferences] => used;
    /// Instances wait for a configuration that is not there, and start when it is.
    15 "config/missing-then-there" [PutConfig, ConfigReferences] => missing_then_there;
    /// The ten newest versions are kept, and those that a kept revision refers to.
    15 "config/kept-versions" [PutConfig, ConfigReferences, History] => kept_versions;
    /// A delete takes the configurations, also when nothing else is there.
    8 "config/deleted-with-it" [PutConfig] => deleted_with_it;
    /// Nothing is stored for somebody else's workload, nor taken from it.
    1 "config/only-ours" [PutConfig] => only_ours;
    /// What cannot be stored is refused with every fault, before anything is sent.
    15 "config/refused" [PutConfig] => refused_content;
}

async fn try_put(ctx: &Ctx, name: &str, value: &str) -> Result<OpResult<ConfigStored>, Failure> {
    Ok(ctx.scheduler.put_config(PutConfig::new(ctx.target(name)?, "app").entry("KEY", value)).await)
}

async fn put(ctx: &Ctx, value: &str) -> Result<ConfigStored, Failure> {
    Ok(try_put(ctx, "web", value).await??)
}

/// One instance with an entry of this version in its environment.
fn with(ctx: &Ctx, config: &ConfigRef) -> Workload {
    let mut workload = ctx.service("web");
    let entry = ConfigEntry::new(&config.name, &config.version, "KEY");
    for container in &mut workload.containers {
        *container = container.clone().env_from("KEY", EnvValue::Config(entry.clone()));
    }
    workload
}

async fn same_content(ctx: Ctx) -> Outcome {
    let op = PutConfig::new(ctx.target("web")?, "app").entry("KEY", "one").entry("B", "two");
    let first = ctx.scheduler.put_config(op.clone()).await?;
    check_eq!((first.created, &first.config), (true, &ConfigRef::new("app", op.version())), "the first");
    let before = ctx.objects().await?;
    check!(!before.is_empty(), "no object holds it");
    let second = ctx.scheduler.put_config(op).await?;
    check_eq!((second.created, &second.config), (false, &first.config), "the second");
    check_eq!(ctx.objects().await?, before, "the objects after it");
    Ok(())
}

async fn other_content(ctx: Ctx) -> Outcome {
    let one = put(&ctx, "one").await?;
    let two = put(&ctx, "two").await?;
    check!(two.created && two.config.version != one.config.version, "another content has the version of the first");
    check!(!put(&ctx, "one").await?.created, "the first is not there any more");
    ctx.launch_healthy(with(&ctx, &one.config)).await?;
    ctx.launch(with(&ctx, &two.config)).await?;
    ctx.healthy("web").await?;
    Ok(())
}

async fn used(ctx: Ctx) -> Outcome {
    let config = put(&ctx, "one").await?.config;
    let mut workload = with(&ctx, &config).volume("app", VolumeSource::Config(config));
    for container in &mut workload.containers {
        *container = container.clone().mount_read_only("app", "/etc/app");
    }
    ctx.launch_healthy(workload.clone()).await?;
    check_eq!(ctx.launch(workload).await?.change, crate::Change::Unchanged, "the launch again");
    Ok(())
}

async fn missing_then_there(ctx: Ctx) -> Outcome {
    let later = PutConfig::new(ctx.target("web")?, "app").entry("KEY", "one");
    let config = ConfigRef::new("app", later.version());
    ctx.launch(with(&ctx, &config).progress_deadline(ctx.long_patience())).await?;
    let missing = |seen: &crate::Observation| Ok(seen.diagnoses.iter().any(|d| d.kind == DiagnosisKind::ConfigMissing));
    let seen = ctx.settle("web", "without its configuration", missing).await?;
    check_eq!(seen.counts.ready, 0, "the ready instances without it");
    check!(ctx.scheduler.put_config(later).await?.created, "it was there");
    ctx.healthy("web").await?;
    Ok(())
}

async fn kept_versions(ctx: Ctx) -> Outcome {
    let used = put(&ctx, "used").await?;
    ctx.launch(with(&ctx, &used.config).replicas(0)).await?;
    let mut last = None;
    for at in 0..12 {
        last = Some(put(&ctx, &format!("content {at}")).await?.config);
    }
    // It was there and is; the second of the twelve, which nothing refers to, was given up.
    check!(!put(&ctx, "used").await?.created, "the version that a revision refers to was given up");
    check!(put(&ctx, "content 0").await?.created, "twelve versions are kept that nothing refers to");
    let last = last.ok_or_else(|| Failure("nothing was stored".to_owned()))?;
    ctx.launch(with(&ctx, &last)).await?;
    ctx.healthy("web").await?;
    Ok(())
}

async fn deleted_with_it(ctx: Ctx) -> Outcome {
    put(&ctx, "one").await?;
    ctx.launch(ctx.idle("web")).await?;
    check!(ctx.delete_whole("web").await?, "it was not there");
    ctx.nothing_left().await?;
    put(&ctx, "one").await?;
    check!(ctx.delete_whole("web").await?, "a configuration alone is nothing there");
    check!(!ctx.delete_whole("web").await?, "the second delete finds something");
    ctx.nothing_left().await
}

async fn only_ours(ctx: Ctx) -> Outcome {
    ctx.theirs().launch(ctx.idle("web")).await?;
    let kind = refused("storing for somebody else's workload", try_put(&ctx, "web", "one").await?)?;
    check_eq!(kind, ErrorKind::Conflict(Conflict::Owner { owner: Some(ctx.other.clone()) }), "its error");
    try_put(&ctx.theirs(), "web", "one").await??;
    let before = ctx.objects().await?;
    match ctx.try_delete("web", Guard::IfOwned).await? {
        Err(error) if matches!(error.kind(), ErrorKind::Conflict(Conflict::Owner { .. })) => {}
        other => return Err(Failure(format!("deleting somebody else's was answered {other:?}"))),
    }
    check_eq!(ctx.objects().await?, before, "the objects after it");
    Ok(())
}

async fn refused_content(ctx: Ctx) -> Outcome {
    let target = ctx.target("web")?;
    let redacted = format!("{:?}", ConfigValue::new("secret"));
    for (what, op) in [
        ("no entry", PutConfig::new(target.clone(), "app")),
        ("a name that is none", PutConfig::new(target.clone(), "App Name").entry("KEY", "x")),
        ("a key that is none", PutConfig::new(target.clone(), "app").entry("a key", "x")),
        ("a value that was left out", PutConfig::new(target.clone(), "app").entry("KEY", redacted)),
        ("too much", PutConfig::new(target.clone(), "app").entry("KEY", "x".repeat(70_000))),
    ] {
        check_eq!(
            refused(what, ctx.scheduler.put_config(op).await)?,
            ErrorKind::InvalidArgument,
            "the error of {what}"
        );
    }
    ctx.nothing_left().await
}
