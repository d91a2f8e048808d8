//! Clause 10: what is wrong, with evidence.

use super::cases;
use crate::conformance::ctx::{Ctx, brief, check, check_eq, ids};
use crate::conformance::{Failure, Outcome};
use crate::memory::Fate;
use crate::{
    Container, Detail, Diagnosis, DiagnosisKind, FaultOf, NodeRule, Observation, Probe, Role, Verdict, Workload,
};

cases! {
    /// An image that cannot be pulled is diagnosed at once, and Failed once it outlasts the patience.
    10 "diagnosis/pull-error" => pull_error;
    /// An image reference that is none is Failed without waiting for the patience.
    10 "diagnosis/invalid-image" => invalid_image;
    /// A container that ends again and again is diagnosed with its exit code and restarts.
    10 "diagnosis/crash-exit-code" => crash_exit_code;
    /// A container that is killed again and again is diagnosed with the signal.
    10 "diagnosis/crash-signal" => crash_signal;
    /// A container that never lives long enough to be ready is Failed.
    10 "diagnosis/crash-fails" [TcpProbes] => crash_fails;
    /// Running out of memory is told apart from a crash.
    10 "diagnosis/out-of-memory" {OutOfMemory} => out_of_memory;
    /// An instance that runs and never is ready is diagnosed as such, once it outlasts the patience.
    10 "diagnosis/never-ready" [TcpProbes] => never_ready;
    /// Where no node fits the rules, that is the diagnosis.
    10 "diagnosis/unschedulable" [NodeRules] => unschedulable;
    /// Where the platform makes no instances, that is the diagnosis of the whole.
    10 "diagnosis/creation-refused" [Identity] => creation_refused;
    /// What is wrong with a sidecar is said of the sidecar.
    10 "diagnosis/sidecar" [Sidecars] {ImageFates} => sidecar;
    /// An update whose init container fails is not healthy, is said to have that one's fault, and the old ones serve.
    10 "diagnosis/init-container" [InitContainers] {ImageFates} => init_container;
    /// Events come with evidence, and with less detail they do not.
    10 "diagnosis/evidence-when-asked" => evidence_when_asked;
    /// What came right has no diagnosis of what is gone.
    10 "diagnosis/good-has-none" => good_has_none;
}

fn find(seen: &Observation, kind: DiagnosisKind) -> Option<&Diagnosis> {
    seen.diagnoses.iter().find(|d| d.current && d.kind == kind)
}

/// Looks until there is such a diagnosis that has what is needed, and no other kind of diagnosis before it.
async fn diagnosed(
    ctx: &Ctx,
    name: &str,
    kind: DiagnosisKind,
    enough: fn(&Diagnosis) -> bool,
) -> Result<(Observation, Diagnosis), Failure> {
    let what = format!("diagnosed as {kind:?}");
    let seen = ctx.settle(name, &what, |seen| {
        // The platform's own giving up may come first.
        let other = seen.diagnoses.iter().find(|d| d.kind != kind && d.kind != DiagnosisKind::RolloutDeadline);
        check!(other.is_none(), "diagnosed as something else: {}", brief(seen));
        Ok(find(seen, kind).is_some_and(enough))
    });
    let seen = seen.await?;
    let found = find(&seen, kind).cloned().ok_or_else(|| Failure(brief(&seen)))?;
    Ok((seen, found))
}

/// That it names an instance that is told of, and the container. The instance may have ended, where another one is to take
/// its place.
fn names_container(seen: &Observation, found: &Diagnosis, container: &str) -> Outcome {
    let told = seen.instances.iter().any(|instance| found.instance.as_ref() == Some(&instance.id));
    check!(told, "it is about {:?}: {}", found.instance, brief(seen));
    check_eq!(found.container.as_deref(), Some(container), "the container that it is about");
    Ok(())
}

/// That the verdict was Failed for no other reason than that the patience was over, by the server's clock.
fn patience_was_over(seen: &Observation) -> Outcome {
    let instances = seen.instances.iter().filter(|i| i.current).map(|i| i.created);
    // Where nothing was made yet, the trouble itself tells its age.
    let since = instances.chain(seen.diagnoses.iter().filter(|d| d.current).map(|d| d.since));
    let oldest = since.map(|since| seen.at.since(since)).max();
    // Servers tell times in whole seconds, and round each by itself.
    let age = oldest.unwrap_or_default().as_secs() + 2;
    check!(age >= u64::from(seen.patience.get()), "Failed at an age of {} s: {}", age - 2, brief(seen));
    Ok(())
}

async fn pull_error(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.fated("web", Fate::PullError)).await?;
    let (seen, found) = diagnosed(&ctx, "web", DiagnosisKind::ImagePull, |_| true).await?;
    names_container(&seen, &found, "main")?;
    check_eq!(
        (found.kind.recoverable(), found.kind.fault()),
        (true, FaultOf::Workload),
        "recoverable, and whose fault"
    );
    patience_was_over(&ctx.verdict("web", Verdict::Failed).await?)
}

async fn invalid_image(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.fated("web", Fate::InvalidImage).progress_deadline(ctx.long_patience())).await?;
    let (seen, found) = diagnosed(&ctx, "web", DiagnosisKind::InvalidImage, |_| true).await?;
    names_container(&seen, &found, "main")?;
    ctx.verdict("web", Verdict::Failed).await?;
    Ok(())
}

async fn crash_exit_code(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.fated("web", Fate::Crash { after: 1, exit_code: 3 })).await?;
    let again = |d: &Diagnosis| d.evidence.restarts.is_some_and(|restarts| restarts >= 2);
    let (seen, found) = diagnosed(&ctx, "web", DiagnosisKind::CrashLoop, again).await?;
    names_container(&seen, &found, "main")?;
    check_eq!((found.evidence.exit_code, found.evidence.signal), (Some(3), None), "exit code and signal");
    Ok(())
}

async fn crash_signal(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.fated("web", Fate::Killed { after: 1, signal: 11 })).await?;
    let (seen, found) = diagnosed(&ctx, "web", DiagnosisKind::CrashLoop, |_| true).await?;
    names_container(&seen, &found, "main")?;
    check_eq!(found.evidence.signal, Some(11), "the signal");
    Ok(())
}

async fn crash_fails(ctx: Ctx) -> Outcome {
    let mut workload = ctx.fated("web", Fate::Crash { after: 1, exit_code: 1 });
    for container in &mut workload.containers {
        *container = container.clone().readiness(Probe::tcp("http").initial_delay(3));
    }
    ctx.launch(workload).await?;
    let failed = ctx.verdict("web", Verdict::Failed).await?;
    check!(find(&failed, DiagnosisKind::CrashLoop).is_some(), "Failed for another reason: {}", brief(&failed));
    patience_was_over(&failed)
}

async fn out_of_memory(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.fated("web", Fate::OutOfMemory { after: 1 })).await?;
    let again = |d: &Diagnosis| d.evidence.restarts.is_some_and(|restarts| restarts >= 1);
    let (seen, found) = diagnosed(&ctx, "web", DiagnosisKind::OutOfMemory, again).await?;
    names_container(&seen, &found, "main")?;
    check_eq!(found.kind.fault(), FaultOf::Workload, "whose fault");
    Ok(())
}

async fn never_ready(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.probed(ctx.fated("web", Fate::NeverReady))).await?;
    let (seen, found) = diagnosed(&ctx, "web", DiagnosisKind::NotReady, |_| true).await?;
    check!(found.instance.is_some_and(|id| ids(&seen).contains(&id)), "it names no instance: {}", brief(&seen));
    patience_was_over(&ctx.verdict("web", Verdict::Failed).await?)
}

async fn unschedulable(ctx: Ctx) -> Outcome {
    let workload = ctx.service("web").require(NodeRule::is_in("example.org/no-such-label", ["yes"]));
    ctx.launch(workload).await?;
    let (seen, found) = diagnosed(&ctx, "web", DiagnosisKind::Unschedulable, |_| true).await?;
    // A platform may make an instance before it has a node for it, or may not.
    let named = found.instance.as_ref().map_or(seen.counts.live == 0, |id| ids(&seen).contains(id));
    check!(named, "it names no instance that is there: {}", brief(&seen));
    check_eq!(
        (found.kind.recoverable(), found.kind.fault()),
        (true, FaultOf::Platform),
        "recoverable, and whose fault"
    );
    patience_was_over(&ctx.verdict("web", Verdict::Failed).await?)
}

async fn creation_refused(ctx: Ctx) -> Outcome {
    let mut workload: Workload = ctx.service("web");
    workload.identity = Some("no-such-identity".into());
    ctx.launch(workload).await?;
    let (_, found) = diagnosed(&ctx, "web", DiagnosisKind::CreationRefused, |_| true).await?;
    check_eq!((found.instance, found.kind.recoverable()), (None, true), "the instance, and whether it may pass");
    ctx.verdict("web", Verdict::Failed).await?;
    Ok(())
}

/// An image of another fate than the main container's, which is the one that the harness sets.
fn image(ctx: &Ctx, fate: Fate) -> String {
    let other = ctx.fated("other", fate);
    other.containers.into_iter().next().map(|container| container.image).unwrap_or_default()
}

async fn sidecar(ctx: Ctx) -> Outcome {
    let helper = Container::new("helper", image(&ctx, Fate::PullError)).role(Role::Sidecar);
    ctx.launch(ctx.service("web").container(helper)).await?;
    let (seen, found) = diagnosed(&ctx, "web", DiagnosisKind::ImagePull, |_| true).await?;
    names_container(&seen, &found, "helper")
}

async fn init_container(ctx: Ctx) -> Outcome {
    ctx.launch_healthy(ctx.service("web").replicas(2)).await?;
    let crash = image(&ctx, Fate::Crash { after: 1, exit_code: 2 });
    let init = Container::new("migrate", crash).role(Role::Init);
    ctx.launch(ctx.service("web").replicas(2).container(init)).await?;
    let again = |d: &Diagnosis| d.evidence.restarts.is_some_and(|restarts| restarts >= 1);
    let (seen, found) = diagnosed(&ctx, "web", DiagnosisKind::CrashLoop, again).await?;
    names_container(&seen, &found, "migrate")?;
    check_eq!(found.evidence.exit_code, Some(2), "the exit code");
    check!(seen.counts.old >= 2 && seen.counts.ready == 0, "{}", brief(&seen));
    let failed = ctx.verdict("web", Verdict::Failed).await?;
    check!(failed.counts.old >= 2 && failed.counts.ready == 0, "{}", brief(&failed));
    Ok(())
}

async fn evidence_when_asked(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.fated("web", Fate::PullError)).await?;
    ctx.verdict("web", Verdict::Failed).await?;
    for (detail, wanted) in [(Detail::Counts, false), (Detail::Instances, false), (Detail::Evidence, true)] {
        let seen = ctx.try_status("web", detail).await??.ok_or_else(|| Failure("it has no status".into()))?;
        let found = find(&seen, DiagnosisKind::ImagePull).ok_or_else(|| Failure(brief(&seen)))?;
        check_eq!(!found.evidence.events.is_empty(), wanted, "whether there are events with {detail:?}");
        check!(found.evidence.events.iter().all(|e| !e.reason.is_empty()), "an event without a reason: {found:?}");
    }
    Ok(())
}

async fn good_has_none(ctx: Ctx) -> Outcome {
    ctx.launch(ctx.fated("web", Fate::PullError)).await?;
    diagnosed(&ctx, "web", DiagnosisKind::ImagePull, |_| true).await?;
    let seen = ctx.launch_healthy(ctx.with_tag(ctx.service("web"), "2")).await?;
    check_eq!(seen.diagnoses, [], "the diagnoses");
    Ok(())
}
