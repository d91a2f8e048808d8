//! The two encodings, and what is small: operations as data do what the trait's methods do.

use std::sync::Arc;

use async_trait::async_trait;
use futures_core::stream::BoxStream;
use futures_util::StreamExt as _;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::cases;
use crate::conformance::ctx::{Ctx, check, check_eq, error_of, refused};
use crate::conformance::{Failure, Injection, Outcome};
use crate::memory::Fate;
use crate::{
    Capabilities, Change, Conflict, Error, ErrorKind, Filter, Guard, List, OpName, OpService, Ping, Reply,
    Result as OpResult, Scheduler, SchedulerOp, StreamItem, Subscription, ToOps, Verdict, Watch, WatchState,
};

cases! {
    /// A scheduler can do what was declared for it, and what it can do does not depend on its owner.
    0 "ops/capabilities-are-fixed" => capabilities_are_fixed;
    /// A ping tells the server's version, and its failure.
    0 "ops/ping" [Ping] => ping;
    /// An error names the operation, the target and the backend.
    0 "ops/errors-say-what-was-attempted" => errors_say_what_was_attempted;
    /// Launches and their answers survive being written down.
    0 "ops/launch-as-data" => launch_as_data;
    /// A whole life goes through the initial encoding, written down and read again.
    0 "ops/life-as-data" => life_as_data;
    /// Errors survive being written down.
    0 "ops/errors-as-data" => errors_as_data;
    /// The items of a watch survive being written down.
    0 "ops/watch-as-data" [Watch] => watch_as_data;
}

/// Writes down every operation and answer, and goes on with what it reads again.
#[derive(Debug)]
struct WrittenDown(ToOps);

fn written<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T) -> OpResult<T> {
    let defect = |what: String| Error::new(ErrorKind::Internal, what);
    let text = serde_json::to_string(value).map_err(|e| defect(format!("{value:?} cannot be written: {e}")))?;
    let read: T = serde_json::from_str(&text).map_err(|e| defect(format!("{text} cannot be read: {e}")))?;
    if read == *value { Ok(read) } else { Err(defect(format!("written {value:?}, read {read:?}"))) }
}

#[async_trait]
impl OpService for WrittenDown {
    fn capabilities(&self) -> &Capabilities {
        self.0.capabilities()
    }

    async fn call(&self, op: SchedulerOp) -> OpResult<Reply> {
        match self.0.call(written(&op)?).await {
            Ok(reply) => written(&reply),
            Err(error) => Err(written(&error)?),
        }
    }

    fn open(&self, subscription: Subscription) -> BoxStream<'static, OpResult<StreamItem>> {
        match written(&subscription) {
            Ok(subscription) => self.0.open(subscription).map(|item| item.and_then(|item| written(&item))).boxed(),
            Err(error) => futures_util::stream::iter([Err(error)]).boxed(),
        }
    }
}

fn as_data(ctx: &Ctx) -> Ctx {
    ctx.through(|scheduler: Arc<dyn Scheduler>| Arc::new(WrittenDown(ToOps::new(scheduler))))
}

async fn capabilities_are_fixed(ctx: Ctx) -> Outcome {
    let declared = ctx.harness.capabilities();
    check_eq!(*ctx.scheduler.capabilities(), declared, "our scheduler's capabilities");
    check_eq!(*ctx.theirs().scheduler.capabilities(), declared, "their scheduler's capabilities");
    check_eq!(*as_data(&ctx).scheduler.capabilities(), declared, "the capabilities through the initial encoding");
    Ok(())
}

async fn ping(ctx: Ctx) -> Outcome {
    check!(!ctx.scheduler.ping(Ping::default()).await?.server_version.is_empty(), "the server's version is empty");
    ctx.world.inject(1, Injection::Refuse);
    let error = refused("a ping that is refused", ctx.scheduler.ping(Ping::default()).await)?;
    check_eq!(error, ErrorKind::Unavailable, "the ping");
    ctx.world.inject(1, Injection::Forbid);
    let error = refused("a ping that is forbidden", ctx.scheduler.ping(Ping::default()).await)?;
    check_eq!(error, ErrorKind::Forbidden, "the ping");
    Ok(())
}

async fn errors_say_what_was_attempted(ctx: Ctx) -> Outcome {
    let target = ctx.target("web")?;
    let backend = ctx.harness.capabilities().backend().clone();
    let mut errors = Vec::new();
    ctx.world.inject(1, Injection::Refuse);
    errors.push((OpName::Launch, error_of("launch", ctx.try_launch(ctx.idle("web"), Guard::IfOwned).await?)?));
    ctx.world.inject(1, Injection::Refuse);
    errors.push((OpName::Delete, error_of("delete", ctx.try_delete("web", Guard::IfOwned).await?)?));
    ctx.world.inject(1, Injection::Refuse);
    errors.push((OpName::Status, error_of("status", ctx.try_status("web", crate::Detail::Counts).await?)?));
    errors.push((OpName::Delete, error_of("delete", ctx.try_delete("web", Guard::IfAbsent).await?)?));
    for (op, error) in errors {
        check_eq!(error.op(), Some(op), "the operation of {error}");
        check_eq!(error.target(), Some(&target), "the target of {error}");
        check_eq!(error.backend(), Some(&backend), "the backend of {error}");
    }
    Ok(())
}

async fn launch_as_data(ctx: Ctx) -> Outcome {
    let data = as_data(&ctx);
    let first = data.launch(ctx.service("web").label("team", "blue")).await?;
    check_eq!(first.change, Change::Created, "the first launch");
    let second = ctx.launch(ctx.service("web").label("team", "blue")).await?;
    check_eq!((second.change, &second.revision), (Change::Unchanged, &first.revision), "the same launch by the trait");
    let third = data.launch(ctx.with_tag(ctx.service("web"), "2")).await?;
    check!(matches!(third.change, Change::Updated(_)), "the launch of another image: {}", third.change);
    check!(third.revision != first.revision, "both have the revision {}", first.revision);
    Ok(())
}

async fn life_as_data(ctx: Ctx) -> Outcome {
    let data = as_data(&ctx);
    data.launch(ctx.fated("web", Fate::PullError)).await?;
    data.verdict("web", Verdict::Failed).await?;
    data.launch_healthy(ctx.with_tag(ctx.service("web"), "2")).await?;
    let list = data.scheduler.list(List::new(Filter::namespace(ctx.world.namespace()))).await?;
    check_eq!(list.workloads.len(), 1, "the number of workloads");
    check!(data.delete_whole("web").await?, "a delete says that it was absent");
    check_eq!(data.status("web").await?, None, "the status");
    ctx.nothing_left().await
}

async fn errors_as_data(ctx: Ctx) -> Outcome {
    let theirs = ctx.theirs();
    theirs.launch(theirs.idle("web")).await?;
    let data = as_data(&ctx);
    let owner = ErrorKind::Conflict(Conflict::Owner { owner: Some(ctx.other.clone()) });
    let launched = data.try_launch(ctx.idle("web"), Guard::IfOwned).await?;
    check_eq!(refused("the launch onto somebody else's", launched)?, owner, "the launch");
    let direct = error_of("the delete", ctx.try_delete("web", Guard::IfOwned).await?)?;
    let read = error_of("the delete as data", data.try_delete("web", Guard::IfOwned).await?)?;
    check_eq!(read, direct, "the error of the delete");
    Ok(())
}

async fn watch_as_data(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.service("web")).await?;
    let mut stream = as_data(&ctx).scheduler.watch(Watch::new(Filter::default()));
    let mut state = WatchState::new();
    let end = tokio::time::Instant::now() + ctx.timing().settle;
    while !state.synced() {
        let item = tokio::time::timeout_at(end, stream.next()).await.ok().flatten();
        state.apply(item.ok_or_else(|| Failure("the watch never was synced".into()))??);
    }
    let seen = state.get(&ctx.target("web")?).map(crate::Observation::verdict);
    check_eq!(seen, Some(Verdict::Healthy), "the verdict in the watch");
    Ok(())
}
