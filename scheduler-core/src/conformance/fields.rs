//! One field of a workload after the other: changed, launched, and compared with the memory scheduler.

use std::collections::BTreeSet;

use super::ctx::{Ctx, check};
use super::sequence::in_memory;
use super::{Failure, Outcome};
use crate::{Change, Container, DiagnosisKind, Effect, Probe, Verdict, Workload};

/// Changes one field of a workload.
pub(super) type Edit = fn(&Ctx, Workload) -> Workload;

/// What is compared after each launch. In place or rolling is not: platforms differ in it, and may.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    change: Class,
    /// Whether the revision is another than before the launch.
    moved: bool,
    desired: u32,
    verdict: Verdict,
    diagnoses: BTreeSet<DiagnosisKind>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Class {
    Created,
    Unchanged,
    Updated,
    Replaced,
}

/// Launches a workload, the changed one, and the first again, each twice; and compares what came of it with memory.
pub(super) async fn compare(ctx: Ctx, edit: Edit) -> Outcome {
    let wanted = in_memory(move |ctx| Box::pin(async move { trace(&ctx, edit).await }))?;
    let seen = trace(&ctx, edit).await?;
    for (at, (seen, wanted)) in seen.iter().zip(&wanted).enumerate() {
        let launch = ["as it was", "as it was, again", "changed", "changed, again", "as it was, at last"];
        check!(seen == wanted, "launched {}: seen {seen:?}, wanted {wanted:?}", launch.get(at).unwrap_or(&""));
    }
    Ok(())
}

/// A workload that has of everything that can be changed without needing more of the backend than services.
fn base(ctx: &Ctx) -> Workload {
    ctx.service("web").label("tier", "front")
}

async fn trace(ctx: &Ctx, edit: Edit) -> Result<Vec<Record>, Failure> {
    let changed = edit(ctx, base(ctx));
    let mut records = Vec::new();
    let mut revision = None;
    for workload in [base(ctx), base(ctx), changed.clone(), changed, base(ctx)] {
        let launched = ctx.launch(workload).await?;
        let at_rest = |verdict| matches!(verdict, Verdict::Healthy | Verdict::Failed);
        let seen = ctx.settle("web", "at rest", |seen| Ok(at_rest(seen.verdict()))).await?;
        records.push(Record {
            change: match launched.change {
                Change::Created => Class::Created,
                Change::Unchanged => Class::Unchanged,
                Change::Updated(Effect::Replaced) => Class::Replaced,
                Change::Updated(_) => Class::Updated,
            },
            moved: revision.as_ref() != Some(&launched.revision),
            desired: seen.counts.desired,
            verdict: seen.verdict(),
            diagnoses: seen.diagnoses.iter().filter(|found| found.current).map(|found| found.kind).collect(),
        });
        check!(seen.revision.as_ref() == Some(&launched.revision), "the status tells {:?}", seen.revision);
        revision = Some(launched.revision);
    }
    ctx.delete_whole("web").await?;
    Ok(records)
}

/// Changes the main container.
pub(super) fn main(mut workload: Workload, change: impl FnOnce(Container) -> Container) -> Workload {
    if let Some(container) = workload.containers.first_mut() {
        *container = change(container.clone());
    }
    workload
}

/// A second container that does its work and is no part of the change's point.
pub(super) fn second(ctx: &Ctx, name: &str) -> Container {
    Container::new(name, ctx.image("second"))
}

/// A probe that looks once a second.
pub(super) fn quick(probe: Probe) -> Probe {
    probe.period(1)
}
