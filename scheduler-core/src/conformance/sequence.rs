//! Generated sequences of operations, whose effects are compared with those in memory.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::ctx::{Ctx, check, checked};
use super::{Disturbance, Failure, Hand, Harness, MemoryHarness, Outcome};
use crate::memory::Fate;
use crate::{Change, Effect, Replicas, Revision, Verdict, Workload};

/// How many operations a sequence has.
const STEPS: usize = 10;

/// Runs the generated sequence of this seed, in a new world of this harness, and compares it with the memory scheduler.
/// The suite runs a few of them; a soak runs many more.
///
/// # Errors
/// [`Failure`] with the seed, the steps, and what differs after the last of them.
pub fn run_sequence(harness: &Arc<dyn Harness>, seed: u64) -> Outcome {
    let own = Arc::clone(harness);
    harness.run(Box::pin(async move { compare(&Ctx::new(own).await?, seed).await }))
}

/// Compares the sequence of this seed with the memory scheduler.
pub(super) async fn compare(ctx: &Ctx, seed: u64) -> Outcome {
    let mut steps = generate(seed);
    if ctx.harness.lacks(Hand::RemoveService).is_some() {
        steps.retain(|step| !matches!(step, Step::Disturb(_, Outside::RemoveService)));
    }
    let wanted = in_memory({
        let steps = steps.clone();
        move |ctx| Box::pin(trace(ctx, steps))
    })?;
    let mut tracer = Tracer::new(ctx.clone());
    for (at, step) in steps.iter().enumerate() {
        let seen = tracer.play(step).await.map_err(|Failure(e)| Failure(format!("{}\n{e}", told(seed, &steps, at))))?;
        let wanted = wanted.get(at);
        check!(Some(&seen) == wanted, "{}\nseen   {seen:?}\nwanted {wanted:?}", told(seed, &steps, at));
    }
    Ok(())
}

fn told(seed: u64, steps: &[Step], at: usize) -> String {
    let steps: Vec<String> = steps.iter().take(at + 1).map(Step::to_string).collect();
    format!("seed {seed}: after {}", steps.join(", then "))
}

async fn trace(ctx: Ctx, steps: Vec<Step>) -> Result<Vec<Record>, Failure> {
    let mut tracer = Tracer::new(ctx);
    let mut records = Vec::new();
    for step in &steps {
        records.push(tracer.play(step).await?);
    }
    Ok(records)
}

/// What comes of something in a world in memory: what is to come of it elsewhere.
///
/// On a thread of its own, since its clock is paused and the caller's may not be. To wait for it without yielding is
/// right: if the caller's clock is paused as well, it must not run on meanwhile.
pub(super) fn in_memory<T: Send + 'static>(
    trace: impl FnOnce(Ctx) -> BoxFuture<'static, Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    let oracle = std::thread::spawn(move || {
        let harness = Arc::new(MemoryHarness::new());
        let (send, receive) = std::sync::mpsc::channel();
        harness.run(Box::pin({
            let harness = Arc::clone(&harness);
            async move {
                let traced = trace(Ctx::new(harness).await?).await?;
                send.send(traced).map_err(|e| Failure(e.to_string()))
            }
        }))?;
        receive.recv().map_err(|e| Failure(e.to_string()))
    });
    oracle.join().map_err(|_| Failure("the memory scheduler panicked".to_owned()))?
}

/// One operation.
#[derive(Clone, Debug)]
enum Step {
    Launch(Variant),
    Delete(&'static str),
    Disturb(&'static str, Outside),
}

/// What somebody else does.
#[derive(Clone, Copy, Debug)]
enum Outside {
    Scale(u32),
    SetImage,
    RemoveService,
}

/// A workload.
#[derive(Clone, Debug)]
struct Variant {
    name: &'static str,
    fate: Fate,
    tag: u64,
    replicas: Replicas,
    ports: bool,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Launch(Variant { name, fate, tag, replicas, ports }) => {
                write!(f, "launch {name} ({fate}:{tag}, {replicas:?}, {} port)", if *ports { "a" } else { "no" })
            }
            Self::Delete(name) => write!(f, "delete {name}"),
            Self::Disturb(name, outside) => write!(f, "{outside:?} of {name} from outside"),
        }
    }
}

/// What is compared after each step.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    answer: Answer,
    /// By which step the revision that is told now was launched first.
    revision: Option<usize>,
    desired: Option<u32>,
    verdict: Option<Verdict>,
    objects: Objects,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    Created,
    Unchanged,
    Updated,
    Replaced,
    Gone,
    WasAbsent,
    Disturbed,
}

/// How many native objects there are of the workload. Backends make different ones; each is measured by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Objects {
    None,
    /// As many as a workload like this, with ports or without, had when it was new.
    Whole,
    Other,
}

/// Xorshift64*, by Vigna (2016): small, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) % bound
    }

    fn small(&mut self, bound: u32) -> u32 {
        u32::try_from(self.below(u64::from(bound))).unwrap_or(0)
    }
}

fn generate(seed: u64) -> Vec<Step> {
    // No seed gives the state zero, from which there is no way out.
    let mut random = Random(seed.wrapping_mul(2).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mut live = BTreeMap::new();
    (0..STEPS).map(|_| step(&mut random, &mut live)).collect()
}

/// What was launched last, and whether its Service is there.
type Live = BTreeMap<&'static str, (Variant, bool)>;

fn step(random: &mut Random, live: &mut Live) -> Step {
    let name = if random.below(3) == 0 { "b" } else { "a" };
    let kind = random.below(12);
    if kind == 4 {
        live.remove(name);
        return Step::Delete(name);
    }
    if let Some((last, service)) = live.get_mut(name)
        && kind > 4
    {
        return match kind {
            // What has failed and is scaled may be given up again or be judged anew: platforms differ.
            7 | 8 if matches!(last.fate, Fate::Run | Fate::Slow { .. }) => {
                Step::Disturb(name, Outside::Scale(random.small(3)))
            }
            9 => Step::Disturb(name, Outside::SetImage),
            10 | 11 if *service => {
                *service = false;
                Step::Disturb(name, Outside::RemoveService)
            }
            _ => {
                *service = last.ports;
                Step::Launch(last.clone())
            }
        };
    }
    let variant = Variant {
        name,
        fate: match random.below(6) {
            0 => Fate::PullError,
            1 => Fate::InvalidImage,
            2 => Fate::Slow { after: 1 },
            _ => Fate::Run,
        },
        tag: random.below(3),
        replicas: match random.small(5) {
            count @ 0..=2 => Replicas::Exactly(count),
            other => Replicas::Keep(other - 2),
        },
        ports: random.below(3) != 0,
    };
    live.insert(name, (variant.clone(), variant.ports));
    Step::Launch(variant)
}

/// Plays steps and writes down what came of them.
struct Tracer {
    ctx: Ctx,
    /// The revision of each step's workload.
    revisions: Vec<Option<Revision>>,
    /// Whether each workload has ports.
    ports: BTreeMap<&'static str, bool>,
    /// How many objects a workload has with ports, and without.
    whole: BTreeMap<bool, usize>,
}

impl Tracer {
    fn new(ctx: Ctx) -> Self {
        Self { ctx, revisions: Vec::new(), ports: BTreeMap::new(), whole: BTreeMap::new() }
    }

    fn workload(&self, variant: &Variant) -> Workload {
        let mut workload = self.ctx.with_fate(self.ctx.service(variant.name), variant.fate, &variant.tag.to_string());
        if !variant.ports {
            for container in &mut workload.containers {
                container.ports.clear();
            }
        }
        match variant.replicas {
            Replicas::Exactly(count) => workload.replicas(count),
            Replicas::Keep(count) => workload.keep_replicas(count),
        }
    }

    async fn play(&mut self, step: &Step) -> Result<Record, Failure> {
        let mut launched = None;
        let (name, answer) = match step {
            Step::Launch(variant) => {
                let workload = self.workload(variant);
                launched = Some(checked(workload.clone())?.revision().clone());
                self.ports.insert(variant.name, variant.ports);
                let answer = match self.ctx.launch(workload).await?.change {
                    Change::Created => Answer::Created,
                    Change::Unchanged => Answer::Unchanged,
                    Change::Updated(Effect::Replaced) => Answer::Replaced,
                    Change::Updated(_) => Answer::Updated,
                };
                (variant.name, answer)
            }
            Step::Delete(name) => {
                (*name, if self.ctx.delete_whole(name).await? { Answer::Gone } else { Answer::WasAbsent })
            }
            Step::Disturb(name, outside) => {
                let disturbance = match outside {
                    Outside::Scale(count) => Disturbance::SetReplicas(*count),
                    Outside::SetImage => Disturbance::SetImage(self.ctx.image("outside")),
                    Outside::RemoveService => Disturbance::RemoveService,
                };
                self.ctx.disturb(name, disturbance).await?;
                (*name, Answer::Disturbed)
            }
        };
        self.revisions.push(launched);
        let at_rest = |verdict| matches!(verdict, Verdict::Healthy | Verdict::Failed);
        let seen = self.ctx.look(name, "at rest", |seen| Ok(seen.is_none_or(|seen| at_rest(seen.verdict())))).await?;
        let told = seen.as_ref().and_then(|seen| seen.revision.clone());
        Ok(Record {
            revision: told.and_then(|told| self.revisions.iter().position(|known| known.as_ref() == Some(&told))),
            desired: seen.as_ref().map(|seen| seen.counts.desired),
            verdict: seen.as_ref().map(crate::Observation::verdict),
            objects: self.objects(name, answer == Answer::Created).await?,
            answer,
        })
    }

    /// Counts the objects of a workload. One that was made anew shows how many it should have.
    async fn objects(&mut self, name: &str, new: bool) -> Result<Objects, Failure> {
        let ending = format!("/{name}");
        let count = self.ctx.object_names().await?.iter().filter(|object| object.ends_with(&ending)).count();
        let ports = self.ports.get(name).copied().unwrap_or_default();
        if new {
            self.whole.entry(ports).or_insert(count);
        }
        Ok(match self.whole.get(&ports) {
            _ if count == 0 => Objects::None,
            Some(whole) if *whole != count => Objects::Other,
            _ => Objects::Whole,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Fate, Outside, Step, Variant, generate};

    #[test]
    fn the_seeds_of_the_suite_have_every_kind_of_step() {
        let steps: Vec<Step> = (1..=5).flat_map(generate).collect();
        let kinds: [fn(&Step) -> bool; 6] = [
            |step| matches!(step, Step::Launch(Variant { fate: Fate::PullError, .. })),
            |step| matches!(step, Step::Launch(_)),
            |step| matches!(step, Step::Delete(_)),
            |step| matches!(step, Step::Disturb(_, Outside::Scale(_))),
            |step| matches!(step, Step::Disturb(_, Outside::SetImage)),
            |step| matches!(step, Step::Disturb(_, Outside::RemoveService)),
        ];
        for (at, kind) in kinds.into_iter().enumerate() {
            assert!(steps.iter().any(kind), "no step is of kind {at}: {steps:?}");
        }
    }
}
