//! `logs`: what containers write, so far or also from now on.

mod follow;
mod source;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::stream::{self, BoxStream, StreamExt as _};
use scheduler_core::{Error, ErrorKind, Fault, LogItem, LogLine, Logs, Missing, Observation, Result, Retry, Timestamp};
use scheduler_k8s_client as client;
use scheduler_k8s_client::LogOptions;
use serde_json::Value;
use tokio::time::sleep;

use super::KubernetesScheduler;
use super::find::Main;
use super::read::{Parts, parts};
use crate::error::translate;
use crate::observe;
use source::Source;

/// The pause after the first failure; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(16);

fn pause(failures: u32) -> Duration {
    match failures {
        0 => Duration::ZERO,
        more => FIRST_PAUSE.saturating_mul(1 << (more - 1).min(16)).min(LONGEST_PAUSE),
    }
}

type Items = BoxStream<'static, Result<LogItem>>;

/// The stream of a workload's logs. What fails before it has begun is begun again, unless it would fail for ever.
pub(super) fn logs(scheduler: &KubernetesScheduler, op: Logs) -> Items {
    let scheduler = scheduler.clone();
    let tries = stream::unfold(Some(0), move |failures| {
        let (scheduler, op) = (scheduler.clone(), op.clone());
        async move {
            let failures: u32 = failures?;
            sleep(pause(failures)).await;
            Some(match begin(scheduler, op).await {
                Ok(items) => (items, None),
                Err(error) => {
                    let again = (error.retry() != Retry::Never).then_some(failures + 1);
                    (stream::iter([Err(error)]).boxed(), again)
                }
            })
        }
    });
    tries.flatten().boxed()
}

async fn begin(scheduler: KubernetesScheduler, op: Logs) -> Result<Items> {
    scheduler.capabilities.require(&op.features())?;
    // Of what is not there nothing was written.
    let Some(main) = scheduler.find_ours(&op.target).await? else { return Ok(stream::empty().boxed()) };
    check_container(&op, &main)?;
    let parts = parts(&scheduler, &op.target, &main, false).await?;
    let sources = sources(&op, &main, &parts)?;
    // A run that is over has nothing to follow.
    if op.follow && !op.previous {
        return Ok(follow::follow(scheduler, op, main, sources));
    }
    let namespace = op.target.namespace.to_string();
    let all = sources.into_iter().filter_map(|source| {
        let options = source.options(&op, op.previous)?;
        Some(once(scheduler.client.reads().clone(), namespace.clone(), source, options, since(&op)))
    });
    Ok(stream::select_all(all).boxed())
}

/// The container must be one of the template. Of older Pods it may be missing.
fn check_container(op: &Logs, main: &Main) -> Result<()> {
    let Some(wanted) = &op.container else { return Ok(()) };
    let spec = &main.kind.template(&main.object)["spec"];
    let lists = ["containers", "initContainers"].into_iter().filter_map(|list| spec[list].as_array()).flatten();
    if lists.into_iter().any(|container| container["name"] == wanted.as_str()) {
        return Ok(());
    }
    let fault = Fault::new("container", format!("there is no container {wanted:?}"));
    Err(Error::invalid_argument("the workload has no such container").with_causes(vec![fault]))
}

/// The instances whose logs are wanted, as they were found.
fn sources(op: &Logs, main: &Main, parts: &Parts) -> Result<Vec<Source>> {
    let seen = parts.observe(main);
    let instances = seen.as_ref().map(|seen: &Observation| seen.instances.as_slice()).unwrap_or_default();
    let wanted = instances.iter().filter(|instance| op.instance.as_ref().is_none_or(|id| *id == instance.id));
    let found: Vec<Source> = wanted
        .filter_map(|instance| {
            let pod = parts.pods.iter().find(|pod| observe::instance_id(main.kind, pod) == instance.id)?;
            Some(Source::new(op, main.kind, pod))
        })
        .collect();
    match &op.instance {
        Some(id) if found.is_empty() => {
            Err(Error::new(ErrorKind::NotFound(Missing::Instance), format!("there is no instance {id:?} of it")))
        }
        _ => Ok(found),
    }
}

fn since(op: &Logs) -> Option<SystemTime> {
    let millis = u64::try_from(op.since?.millis()).unwrap_or(0);
    Some(UNIX_EPOCH + Duration::from_millis(millis))
}

/// What there is of one container now. That something cannot be had is said, and hides no other container.
fn once(
    client: client::Client,
    namespace: String,
    source: Source,
    options: LogOptions,
    since: Option<SystemTime>,
) -> Items {
    let opened = async move {
        match client.logs(&namespace, &source.pod, &options).await {
            Ok(lines) => lines
                .filter_map(move |line| {
                    let item = match line {
                        Ok(line) => source.item(line, since, None).map(Ok),
                        Err(error) => Some(Ok(source.gap(error.to_string()))),
                    };
                    std::future::ready(item)
                })
                .boxed(),
            Err(error) => stream::iter([refused(&source, translate(&error))]).boxed(),
        }
    };
    stream::once(opened).flatten().boxed()
}

/// A container whose lines cannot be had is a gap; that we may not ask is an error.
fn refused(source: &Source, error: Error) -> Result<LogItem> {
    match error.kind() {
        ErrorKind::Forbidden | ErrorKind::Unauthenticated => Err(error),
        _ => Ok(source.gap(error.message().to_owned())),
    }
}

/// A line of a container, as the algebra has it.
fn line(source: &Source, line: client::LogLine) -> LogItem {
    let mut item = LogLine::new(&source.instance, &source.container, line.text);
    item.time = line
        .at
        .and_then(|at| at.duration_since(UNIX_EPOCH).ok())
        .map(|since| Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX)));
    LogItem::Line(item)
}

/// A container's status in a Pod.
fn status<'a>(pod: &'a Value, container: &str) -> Option<&'a Value> {
    let lists = ["containerStatuses", "initContainerStatuses"];
    let all = lists.into_iter().filter_map(|list| pod["status"][list].as_array()).flatten();
    all.into_iter().find(|status| status["name"] == container)
}
